"""Agent: the agent itself, what the listener costs the drivers, and what gets lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards import links
from dashboards.frame import annotate, frame, lay_out
from dashboards.panels import GREEN, NO_OR_YES, RED, YELLOW, graph, link, number
from dashboards.promql import AGENTS, by

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import DashboardLink
    from grafana_foundation_sdk.models.dashboard import Dashboard


def agent_board(runbooks: str) -> Dashboard:
    """The watcher, watched."""

    def runbook(alert: str) -> list[DashboardLink]:
        return [link("Runbook", links.runbook(alert, runbooks))]

    return lay_out(
        annotate(
            frame(
                links.AGENT,
                "Weir / Agent",
                "The agent itself, what its listener costs the drivers, and what gets lost on "
                "the way.",
            ),
            None,
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
                    span=3,
                ),
                number(
                    "Queries known",
                    "Those gone within the last hour included.",
                    f"sum({AGENTS('weir_agent_queries')})",
                    span=3,
                ),
                number(
                    "Events per second",
                    "Taken in, each once.",
                    f"sum({AGENTS.rate('weir_agent_events_total')})",
                    unit="cps",
                    links=runbook("WeirAgentBlind"),
                    span=3,
                ),
                number(
                    "Judging, p99",
                    "Time to take in and judge an event.",
                    AGENTS.quantile(0.99, "weir_agent_event_seconds"),
                    unit="s",
                    thresholds=((None, GREEN), (0.01, YELLOW), (0.1, RED)),
                    span=3,
                ),
                number(
                    "State saved",
                    "Whether saved state can be written.",
                    f"min({AGENTS('weir_agent_state_writable')})",
                    words=NO_OR_YES,
                    thresholds=((None, RED), (1, GREEN)),
                    links=runbook("WeirAgentStateNotSaved"),
                    span=2,
                ),
                number(
                    "Doors refused",
                    "Of drivers with Weir's plugin; the agent's log says why.",
                    f"sum({AGENTS('weir_agent_doors', state='refused')})",
                    none="not looked for",
                    thresholds=((None, GREEN), (1, RED)),
                    span=2,
                ),
                number(
                    "Kafka answers",
                    "Whether the brokers answered when they were last asked.",
                    f"min({AGENTS('weir_kafka_up')})",
                    words=NO_OR_YES,
                    none="not asked",
                    thresholds=((None, RED), (1, GREEN)),
                    span=2,
                ),
                number(
                    "Running for",
                    "Since the youngest agent started.",
                    f"time() - max({AGENTS('weir_agent_start_time_seconds')})",
                    unit="s",
                    span=2,
                ),
                number(
                    "Saved state",
                    "Size of what the agents keep on disk. Unknown where they keep it in memory.",
                    f"sum({AGENTS('weir_agent_state_bytes')})",
                    unit="bytes",
                    none="in memory",
                    span=2,
                ),
                number(
                    "Scrape",
                    "Time that building the exposition takes.",
                    f"max({AGENTS('weir_agent_scrape_seconds')})",
                    unit="s",
                    thresholds=((None, GREEN), (0.5, YELLOW), (5, RED)),
                    span=2,
                ),
            ],
        ),
        (
            "Events",
            [
                graph(
                    "Events by type",
                    "Heartbeats alone mean that batches hang or no query has data. Recorded: "
                    "written to the record, where one is kept.",
                    (by("type", AGENTS.rate("weir_agent_events_total")), "{{type}}"),
                    (f"sum({AGENTS.rate('weir_agent_recorded_events_total')})", "recorded"),
                    unit="cps",
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
                    "Killed for memory",
                    "Processes killed under the memory limit of the agents and of the drivers on "
                    "their hosts.",
                    (f"sum({AGENTS.increase('weir_agent_process_oom_kills_total')})", "agent"),
                    (
                        by("application", AGENTS.increase("weir_driver_process_oom_kills_total")),
                        "{{application}}",
                    ),
                    unit="short",
                    links=runbook("WeirDriverMemoryNearLimit"),
                ),
                graph(
                    "Driver processor",
                    "Cores that the drivers on the agents' hosts use.",
                    (
                        by(
                            "application, process",
                            AGENTS.rate("weir_driver_process_cpu_seconds_total"),
                        ),
                        "{{application}}, {{process}}",
                    ),
                    unit="none",
                ),
                graph(
                    "Threads",
                    "A line that only rises is a leak.",
                    (f"max({AGENTS('weir_agent_process_threads')})", "agent"),
                    (
                        by("application, process", AGENTS("weir_driver_process_threads"), "max"),
                        "{{application}}, {{process}}",
                    ),
                    unit="short",
                ),
                graph(
                    "Open files",
                    "Of the agents and of the drivers on their hosts, and how many an agent may "
                    "have.",
                    (f"max({AGENTS('weir_agent_process_open_files')})", "agent"),
                    (
                        by(
                            "application, process",
                            AGENTS("weir_driver_process_open_files"),
                            "max",
                        ),
                        "{{application}}, {{process}}",
                    ),
                    (f"min({AGENTS('weir_agent_process_open_files_limit')})", "limit"),
                    unit="short",
                    dashed=["limit"],
                ),
            ],
        ),
    )
