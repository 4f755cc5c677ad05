"""Agent: the agent itself, what the listener costs the drivers, and what gets lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards import links
from dashboards.frame import frame, lay_out
from dashboards.panels import GREEN, RED, YELLOW, graph, link, number
from dashboards.promql import AGENTS, by

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import DashboardLink
    from grafana_foundation_sdk.models.dashboard import Dashboard


def agent_board(runbooks: str) -> Dashboard:
    """The watcher, watched."""

    def runbook(alert: str) -> list[DashboardLink]:
        return [link("Runbook", links.runbook(alert, runbooks))]

    return lay_out(
        frame(
            links.AGENT,
            "Weir / Agent",
            "The agent itself, what its listener costs the drivers, and what gets lost on the way.",
        ),
        (
            "Now",
            [
                number(
                    "Agents",
                    "Agents that are scraped, by their build.",
                    f"count({AGENTS('weir_build_info')})",
                    none="none",
                    links=runbook("WeirAgentDown"),
                ),
                number(
                    "Queries known",
                    "Those gone within the last hour included.",
                    f"sum({AGENTS('weir_agent_queries')})",
                ),
                number(
                    "Events per second",
                    "Taken in, each once.",
                    f"sum({AGENTS.rate('weir_agent_events_total')})",
                    unit="cps",
                    links=runbook("WeirAgentBlind"),
                ),
                number(
                    "Judging an event, p99",
                    "Time to take in and judge an event.",
                    AGENTS.quantile(0.99, "weir_agent_event_seconds"),
                    unit="s",
                    thresholds=((None, GREEN), (0.01, YELLOW), (0.1, RED)),
                ),
                number(
                    "State saved",
                    "1 while saved state can be written.",
                    f"min({AGENTS('weir_agent_state_writable')})",
                    thresholds=((None, RED), (1, GREEN)),
                    links=runbook("WeirAgentStateNotSaved"),
                ),
                number(
                    "Scrape",
                    "Time that building the exposition takes.",
                    f"max({AGENTS('weir_agent_scrape_seconds')})",
                    unit="s",
                    thresholds=((None, GREEN), (0.5, YELLOW), (5, RED)),
                ),
            ],
        ),
        (
            "Events",
            [
                graph(
                    "Events by type",
                    "Heartbeats alone mean that batches hang or no query has data.",
                    (by("type", AGENTS.rate("weir_agent_events_total")), "{{type}}"),
                    unit="cps",
                    stacked=True,
                ),
                graph(
                    "Refused, and sent twice",
                    "Events and requests refused, by reason, and events sent again after a "
                    "reconnect, which are counted once.",
                    (
                        by("reason", AGENTS.rate("weir_agent_rejected_events_total")),
                        "event: {{reason}}",
                    ),
                    (
                        by("reason", AGENTS.rate("weir_agent_refused_requests_total")),
                        "request: {{reason}}",
                    ),
                    (f"sum({AGENTS.rate('weir_agent_duplicate_events_total')})", "sent twice"),
                    unit="cps",
                    links=runbook("WeirAgentRejectsEvents"),
                ),
                graph(
                    "Time to judge an event",
                    "Quantiles over the range of a point.",
                    (AGENTS.quantile(0.5, "weir_agent_event_seconds"), "p50"),
                    (AGENTS.quantile(0.99, "weir_agent_event_seconds"), "p99"),
                    unit="s",
                ),
                graph(
                    "Failures of the agent's own",
                    "Queries left out of a scrape, writes of state or of the recording that "
                    "failed, names that collided.",
                    (
                        f"sum({AGENTS.rate('weir_agent_scrape_errors_total')})",
                        "left out of scrapes",
                    ),
                    (f"sum({AGENTS.rate('weir_agent_state_write_failures_total')})", "state"),
                    (f"sum({AGENTS.rate('weir_agent_record_failures_total')})", "recording"),
                    (f"sum({AGENTS.rate('weir_agent_name_collisions_total')})", "name collisions"),
                    unit="cps",
                    links=runbook("WeirAgentStateNotSaved"),
                ),
            ],
        ),
        (
            "Listeners",
            [
                graph(
                    "Time on Spark's listener bus",
                    "Share of a second that the listener spends inside the driver.",
                    (
                        by("application", AGENTS.rate("weir_listener_callback_seconds_total")),
                        "{{application}}",
                    ),
                    unit="percentunit",
                ),
                graph(
                    "Time of a callback",
                    "What one event costs the driver.",
                    (
                        by("application", AGENTS.rate("weir_listener_callback_seconds_total"))
                        + " / "
                        + by("application", AGENTS.rate("weir_listener_callbacks_total")),
                        "{{application}}",
                    ),
                    unit="s",
                ),
                graph(
                    "Events that wait or were dropped",
                    "In the driver's queue. Dropped ones are lost to the judgement, not to the "
                    "job.",
                    (
                        by("application", AGENTS("weir_listener_queue_length"), "max"),
                        "waiting: {{application}}",
                    ),
                    (
                        by("application", AGENTS.increase("weir_listener_dropped_events_total")),
                        "dropped: {{application}}",
                    ),
                    unit="short",
                    links=runbook("WeirListenerDropping"),
                ),
                graph(
                    "Since a driver was last heard",
                    "Heartbeats come every 5 seconds.",
                    (
                        "time() - "
                        + by(
                            "application",
                            AGENTS("weir_listener_last_heard_timestamp_seconds"),
                            "max",
                        ),
                        "{{application}}",
                    ),
                    unit="s",
                    thresholds=((None, GREEN), (15, RED)),
                    links=runbook("WeirQueryGone"),
                ),
            ],
        ),
        (
            "Processes",
            [
                graph(
                    "Agent memory",
                    "Resident memory of the agent, and the limit that holds for it.",
                    (f"max({AGENTS('weir_agent_process_resident_memory_bytes')})", "resident"),
                    (f"max({AGENTS('weir_agent_process_memory_limit_used_bytes')})", "under limit"),
                    (f"min({AGENTS('weir_agent_process_memory_limit_bytes')})", "limit"),
                    unit="bytes",
                    dashed=["limit"],
                    colours={"limit": RED},
                ),
                graph(
                    "Agent processor",
                    "Cores that the agent uses.",
                    (f"sum({AGENTS.rate('weir_agent_process_cpu_seconds_total')})", "cores"),
                    unit="none",
                ),
                graph(
                    "Driver memory",
                    "Resident memory of drivers on the agent's host, and their limit.",
                    (
                        by(
                            "application, process",
                            AGENTS("weir_driver_process_resident_memory_bytes"),
                            "max",
                        ),
                        "{{application}}, {{process}}",
                    ),
                    (
                        by(
                            "application, process",
                            AGENTS("weir_driver_process_memory_limit_bytes"),
                            "min",
                        ),
                        "limit: {{application}}, {{process}}",
                    ),
                    unit="bytes",
                ),
                graph(
                    "Open files",
                    "Of the agent, and how many it may have.",
                    (f"max({AGENTS('weir_agent_process_open_files')})", "open"),
                    (f"min({AGENTS('weir_agent_process_open_files_limit')})", "limit"),
                    unit="short",
                    dashed=["limit"],
                ),
            ],
        ),
    )
