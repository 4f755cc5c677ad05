"""Agent: the agent itself, what the listener costs the drivers, and what gets lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards import links
from dashboards.frame import annotate, choose_agents, frame, lay_out
from dashboards.panels import (
    GREEN,
    NO_OR_YES,
    RED,
    YELLOW,
    Column,
    graph,
    link,
    number,
    rows_of,
)
from dashboards.promql import AGENTS, BY_AGENT, by, silent_agents

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import DashboardLink
    from grafana_foundation_sdk.models.dashboard import Dashboard


DAY = 86400.0  # seconds
EACH = "{{instance}}"


def _each(metric: str) -> str:
    return f"max {BY_AGENT} ({AGENTS(metric)})"


def agent_board(runbooks: str) -> Dashboard:
    """The watcher, watched."""

    def runbook(alert: str) -> list[DashboardLink]:
        return [link("Runbook", links.runbook(alert, runbooks))]

    return lay_out(
        annotate(
            choose_agents(
                frame(
                    links.AGENT,
                    "Weir / Agent",
                    "The agents themselves, what their listeners cost the drivers, and what gets "
                    "lost on the way.",
                )
            ),
            None,
        ),
        (
            "Now",
            [
                number(
                    "Agents",
                    "Agents that are scraped.",
                    f"count({AGENTS('weir_build_info')})",
                    none="none",
                    links=runbook("WeirAgentDown"),
                    span=4,
                ),
                number(
                    "Silent",
                    "Agents that do not answer Prometheus any more: nobody watches their queries.",
                    silent_agents(),
                    thresholds=((None, GREEN), (1, RED)),
                    links=runbook("WeirAgentUnreachable"),
                    span=4,
                ),
                number(
                    "Queries known",
                    "Those that are gone and were not retired included.",
                    f"sum({AGENTS('weir_agent_queries')})",
                    span=4,
                ),
                number(
                    "Events per second",
                    "Taken in, each once.",
                    f"sum({AGENTS.rate('weir_agent_events_total')})",
                    unit="cps",
                    links=runbook("WeirAgentBlind"),
                    span=4,
                ),
                number(
                    "Doors refused",
                    "Of drivers with Weir's plugin; the agent's log says why.",
                    f"sum({AGENTS('weir_agent_doors', state='refused')})",
                    none="not looked for",
                    thresholds=((None, GREEN), (1, RED)),
                    span=4,
                ),
                number(
                    "Certificate ends in",
                    "Until the first of the certificates that agents serve with is no longer "
                    "valid. Those that live for days are red here; the alert weighs what is left "
                    "by their life.",
                    f"min({AGENTS('weir_agent_certificate_expiry_timestamp_seconds')}) - time()",
                    unit="s",
                    none="no certificate",
                    thresholds=((None, RED), (3 * DAY, YELLOW), (21 * DAY, GREEN)),
                    links=runbook("WeirCertificateEnds"),
                    span=4,
                ),
                rows_of(
                    "Each agent",
                    "One that does not answer is not here: see how many are silent. Memory: how "
                    "full the limit is that holds for it and what shares it; Kafka: whether "
                    "brokers answered when last asked.",
                    ("cluster", "namespace", "instance", "version"),
                    [
                        Column(
                            "Running for",
                            "time() - max by (cluster, namespace, instance, version) ("
                            f"{AGENTS('weir_agent_start_time_seconds')} * on (cluster, namespace,"
                            f" job, instance) group_left (version) {AGENTS('weir_build_info')})",
                            "s",
                        ),
                        Column("Queries", _each("weir_agent_queries")),
                        Column(
                            "Events",
                            f"sum {BY_AGENT} ({AGENTS.rate('weir_agent_events_total')})",
                            "cps",
                        ),
                        Column(
                            "Judging, p99",
                            AGENTS.quantile(
                                0.99, "weir_agent_event_seconds", "cluster, namespace, instance"
                            ),
                            "s",
                            thresholds=((None, GREEN), (0.01, YELLOW), (0.1, RED)),
                        ),
                        Column("State saved", _each("weir_agent_state_writable"), texts=NO_OR_YES),
                        Column("On disk", _each("weir_agent_state_bytes"), "bytes"),
                        Column("Kafka", _each("weir_kafka_up"), texts=NO_OR_YES),
                        Column(
                            "Memory",
                            f"max {BY_AGENT} (("
                            f"{AGENTS('weir_agent_process_memory_limit_used_bytes')}"
                            f" or {AGENTS('process_resident_memory_bytes')})"
                            f" / {AGENTS('weir_agent_process_memory_limit_bytes')})",
                            "percentunit",
                            thresholds=((None, GREEN), (0.8, YELLOW), (0.9, RED)),
                        ),
                        Column(
                            "Scrape",
                            _each("weir_agent_scrape_seconds"),
                            "s",
                            thresholds=((None, GREEN), (0.5, YELLOW), (5, RED)),
                        ),
                    ],
                    worst_first="Memory",
                    height=7,
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
                    (AGENTS.quantile(0.5, "weir_agent_event_seconds", "instance"), f"p50 {EACH}"),
                    (AGENTS.quantile(0.99, "weir_agent_event_seconds", "instance"), f"p99 {EACH}"),
                    unit="s",
                ),
                graph(
                    "Failures of the agent's own",
                    "Queries left out of a scrape, writes of state or of the recording that "
                    "failed, names that collided.",
                    (
                        by("instance", AGENTS.rate("weir_agent_scrape_errors_total")),
                        f"left out of scrapes, {EACH}",
                    ),
                    (
                        by("instance", AGENTS.rate("weir_agent_state_write_failures_total")),
                        f"state, {EACH}",
                    ),
                    (
                        by("instance", AGENTS.rate("weir_agent_record_failures_total")),
                        f"recording, {EACH}",
                    ),
                    (
                        by("instance", AGENTS.rate("weir_agent_name_collisions_total")),
                        f"name collisions, {EACH}",
                    ),
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
                    "Resident memory of each agent, and the limit that holds for it.",
                    (
                        by("instance", AGENTS.process("process_resident_memory_bytes")),
                        f"resident {EACH}",
                    ),
                    (
                        by("instance", AGENTS("weir_agent_process_memory_limit_used_bytes")),
                        f"under the limit {EACH}",
                    ),
                    (
                        by("instance", AGENTS("weir_agent_process_memory_limit_bytes")),
                        f"limit {EACH}",
                    ),
                    unit="bytes",
                    links=runbook("WeirAgentMemoryNearLimit"),
                ),
                graph(
                    "Agent processor",
                    "Cores that each agent uses.",
                    (by("instance", AGENTS.process("process_cpu_seconds_total", rate=True)), EACH),
                    unit="none",
                ),
                graph(
                    "Driver memory",
                    "Resident memory of drivers on the agent's host, what is in use under their "
                    "limit, and that.",
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
                            "application",
                            AGENTS("weir_driver_process_memory_limit_used_bytes"),
                            "max",
                        ),
                        "under the limit: {{application}}",
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
                    (
                        by("instance", AGENTS.increase("weir_agent_process_oom_kills_total")),
                        f"agent {EACH}",
                    ),
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
                    (by("instance", AGENTS("weir_agent_process_threads")), f"agent {EACH}"),
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
                    (by("instance", AGENTS.process("process_open_fds")), f"agent {EACH}"),
                    (
                        by(
                            "application, process",
                            AGENTS("weir_driver_process_open_files"),
                            "max",
                        ),
                        "{{application}}, {{process}}",
                    ),
                    (
                        f"min({AGENTS.process('process_max_fds')})",
                        "limit",
                    ),
                    unit="short",
                    dashed=["limit"],
                ),
            ],
        ),
    )
