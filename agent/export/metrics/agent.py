"""Metrics of the agent itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.export.metrics.row import AGENT, OTHER, Label
from spark_listener.wire import EVENT_TYPES

if TYPE_CHECKING:
    from agent.export.metrics.row import Metric

EVENT_SECONDS_BUCKETS: Final = (
    0.00001,
    0.000025,
    0.00005,
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.05,
    0.25,
    1,
)
REQUEST_REFUSALS: Final = (
    "malformed",
    "unauthorized",
    "too_large",
    "wrong_type",
    "full",
    "state",
    OTHER,
)

METRICS: Final[tuple[Metric, ...]] = (
    AGENT.gauge(
        "weir_agent_queries",
        "Queries that the agent knows, those that are gone included.",
        lambda agent: agent.queries,
    ),
    AGENT.counter_by(
        "weir_agent_events_total",
        "Events taken in, each once.",
        Label("type", (*EVENT_TYPES, OTHER)),
        lambda agent: agent.totals.events,
        from_start=True,
    ),
    AGENT.counter_by(
        "weir_agent_rejected_events_total",
        "Events refused.",
        Label("reason", ("malformed", "cardinality", OTHER)),
        lambda agent: agent.totals.refused,
        from_start=True,
        note="`cardinality`: the agent already knows `max_queries` queries.",
    ),
    AGENT.counter_by(
        "weir_agent_refused_requests_total",
        "Requests with events refused as a whole.",
        Label("reason", REQUEST_REFUSALS),
        lambda agent: agent.extras.refused_requests,
        from_start=True,
        note="Since the agent started. `full`: there is no room for more; `state`: the state "
        "cannot be written. Drivers send what was refused so again.",
    ),
    AGENT.counter(
        "weir_agent_duplicate_events_total",
        "Events sent again that were already counted.",
        lambda agent: agent.totals.duplicates,
    ),
    AGENT.counter(
        "weir_agent_name_collisions_total",
        "Live applications that shared a name with another and got their id appended.",
        lambda agent: agent.totals.name_collisions,
    ),
    AGENT.histogram(
        "weir_agent_event_seconds",
        "Seconds to take in and judge an event.",
        EVENT_SECONDS_BUCKETS,
        lambda agent: (agent.extras.event_seconds.counts, agent.extras.event_seconds.sum_seconds),
        unit="seconds",
        note="Since the agent started.",
    ),
    AGENT.gauge(
        "weir_agent_start_time_seconds",
        "When the agent began to serve, in seconds since 1970.",
        lambda agent: agent.extras.started_time,
        unit="seconds",
    ),
    AGENT.gauge(
        "weir_agent_state_writable",
        "1 while the last write of saved state succeeded, else 0.",
        lambda agent: agent.extras.state_writable,
    ),
    AGENT.counter(
        "weir_agent_state_write_failures_total",
        "Writes of saved state that failed.",
        lambda agent: agent.extras.state_write_failures_total,
        note="Since the agent started.",
    ),
    AGENT.gauge(
        "weir_agent_state_bytes",
        "Size of the saved state on disk.",
        lambda agent: agent.extras.state_bytes,
        unit="bytes",
        note="Absent where state is kept in memory only.",
    ),
    AGENT.counter(
        "weir_agent_recorded_events_total",
        "Events written to the recording that `weir replay` reads.",
        lambda agent: agent.extras.recorded_events_total,
        note="Since the agent started; 0 where nothing is recorded.",
    ),
    AGENT.counter(
        "weir_agent_record_failures_total",
        "Writes to the recording that failed.",
        lambda agent: agent.extras.record_failures_total,
        note="Since the agent started.",
    ),
    AGENT.gauge(
        "weir_kafka_up",
        "1 where Kafka's brokers answered when they were last asked, else 0.",
        lambda agent: agent.extras.kafka_up,
        note="Absent where none is asked (`kafka_bootstrap_servers`), and before the first answer. "
        "At 0 a backlog is what the query's own progress says.",
    ),
    AGENT.gauge_by(
        "weir_kafka_groups",
        "Consumer groups that show queries' lag to Kafka's tools, by how they stand.",
        Label("state", ("written", "refused", "failed")),
        lambda agent: agent.extras.kafka_groups or {},
        note="`written`: as Spark has committed; `refused`: it has members, or offsets of others, "
        "or brokers do not take it; `failed`: they do not answer. Absent where none is written "
        "(`kafka_commit_group`).",
        not_shown="the agent's log says which group, and why",
    ),
    AGENT.gauge_by(
        "weir_agent_doors",
        "Doors of drivers with Weir's plugin, by what became of them.",
        Label("state", ("attached", "waiting", "refused")),
        lambda agent: agent.extras.doors or {},
        note="`attached`: a process is in; `waiting`: one is about to be; `refused`: the log says "
        "why. Absent where none is looked for (`doors` is off).",
    ),
    AGENT.gauge(
        "weir_agent_certificate_not_before_timestamp_seconds",
        "From when the certificate holds that the agent serves with, in seconds since 1970.",
        lambda agent: agent.extras.certificate_not_before_time,
        unit="seconds",
        note="Absent without one (`tls_cert_file`). The time from here to its end is its life.",
        not_shown="the alert on the certificate's end weighs what is left by it",
    ),
    AGENT.gauge(
        "weir_agent_certificate_expiry_timestamp_seconds",
        "When the certificate that the agent serves with ends, in seconds since 1970.",
        lambda agent: agent.extras.certificate_expiry_time,
        unit="seconds",
        note="Absent without one (`tls_cert_file`).",
    ),
    AGENT.counter(
        "weir_agent_scrape_errors_total",
        "Queries left out of an exposition because their view failed.",
        lambda agent: agent.scrape_errors,
        note="Since the agent started. The log says which query and why.",
    ),
    AGENT.gauge(
        "weir_agent_scrape_seconds",
        "Seconds that building this exposition took.",
        lambda agent: agent.scrape_seconds(),
        unit="seconds",
    ),
    AGENT.info(
        "weir_build_info",
        "Which Weir and which Python this is.",
        (
            Label("version", bound="one at a time"),
            Label("python_version", bound="one at a time"),
        ),
        lambda agent: (agent.extras.version, agent.python_version),
        note="Always 1.",
    ),
)
