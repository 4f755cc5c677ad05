"""Views for the tests of the exporters: one builder, and the fleet of the golden file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from agent.core.fleet import AgentTotals, ListenersView
from agent.core.fleet.senders import Counters
from agent.core.judge import attention
from agent.core.judge.alignment import Alignment, AlignmentView
from agent.core.judgement import (
    UNJUDGED,
    CheckpointView,
    ExecutorsView,
    FailureView,
    Finding,
    LimitView,
    OperatorView,
    OrderView,
    QueryView,
    SourceView,
    SpiralView,
    Totals,
)
from agent.core.measure.partitions import PartitionView
from agent.export.metrics.agent import EVENT_SECONDS_BUCKETS
from agent.sources.host import EventSeconds, Extras, MemoryLimit, ProcessSample

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.core.fleet import Key
    from agent.export.prometheus import Exporter

NOW = 1_800_000_000.0
HOSTILE = '"><script>\nalert("ü \U0001f480")</script>\\ \u202e\x1b[31m{}=,#' + "x" * 10_000

HOLD = OrderView(NOW - 7200, HOSTILE, "hold", HOSTILE)


def source(index: int = 0, **changes: Any) -> SourceView:
    """A source that counts rows, with every field known."""
    plain = SourceView(
        index=index,
        description="KafkaV2[Subscribe[orders]]",
        unit="rows",
        control="live",
        note="",
        backlog=52_000,
        backlog_bound="exact",
        limit=10_000,
        limit_known=True,
        configured=20_000,
        granted=14_000,
        grant_expires_time=NOW + 60,
        exclusive_rows=2_000.0,
        floating_rows=8_000.5,
        rows=9_998,
        rows_per_unit=1.0,
        arrival_rows_per_second=3_900.0,
        obeyed=True,
    )
    return msgspec.structs.replace(plain, **changes)


def operator(index: int = 0, **changes: Any) -> OperatorView:
    plain = OperatorView(
        index=index,
        name="stateStoreSave",
        rows=120_000,
        bytes=48_000_000,
        commit_seconds=0.25,
        dropped_rows_total=3,
        snapshot_lag_versions=2,
    )
    return msgspec.structs.replace(plain, **changes)


def totals(**changes: Any) -> Totals:
    plain = Totals(
        events={"started": 1, "progress": 40, "heartbeat": 20},
        batches={"completed": 38, "empty": 1, "replayed": 1, "failed": 1},
        rows=380_000,
        replayed_rows=9_000,
        phase_seconds={"addBatch": 80.5, "walCommit": 1.25, "commitOffsets": 2.0},
        state_seconds={"busy": 60.0, "idle": 20.5, "backpressured": 19.5},
        duration_buckets=[0, 0, 1, 2, 20, 10, 4, 1, 0, 0, 0, 0, 0, 1],
        duration_sum_seconds=2_100.75,
        grants={"raise": 3, "hold:deadband": 30, "bound:deadline": 1},
        watermark_dropped_rows=3,
        failures={"unknown": 1},
        checkpoints={"completed": 39, "failed": 1, "replayed": 1},
    )
    return msgspec.structs.replace(plain, **changes)


WAITED = AlignmentView(
    batch_id=41,
    seconds=2.0,
    skew_ratio=5.0,
    stages=[
        Alignment(
            stage=4,
            name="start at job.py:3",
            tasks=3,
            wait_seconds=2.0,
            ratio=5.0,
            partition=2,
            executor="1",
            host="worker-2",
            why="skew",
            advice="partition 2 took 2.5 s, the median task 0.5 s: spread its hot key",
            input_rows=None,
            source=None,
        )
    ],
    looked_time=NOW - 5,
)


EXECUTORS = ExecutorsView(
    mode="dry-run",
    present=4,
    slots=16,
    wanted=6,
    asked=4,
    note="",
    bound="maximum",
    gain=1.5,
    contention=0.125,
    contention_doubt=0.2,
    task_seconds=51.5,
    longest_seconds=1.25,
    driver_seconds=0.75,
)


def view(query: str = "enrich", application: str = "orders", **changes: Any) -> QueryView:
    """A healthy query under control, with every field known."""
    plain = QueryView(
        application=application,
        query=query,
        application_id="local-17",
        spark_version="4.2.0",
        query_id="3f0c2a52-7f7e-4d0b-9d3c-0c8f4a0a1b11",
        run_id="b7f1c7fe-2f4d-4f61-8a90-1d2f30c7a2aa",
        trigger="ProcessingTimeTrigger(500)",
        control="live",
        output_mode="update",
        sink="ConsoleTable",
        checkpoint_location="/checkpoints/enrich",
        ui_url=None,
        up=True,
        gone_since_time=None,
        mode="on",
        held=False,
        manual_limit=None,
        state="backpressured",
        pressure="low",
        pressure_ratio=0.4,
        lag_state="UNKNOWN",
        last_event_time=NOW - 1,
        last_progress_time=NOW - 2.5,
        batch_id=41,
        batch_seconds=4.75,
        batch_rows=9_998,
        batch_limited=True,
        running_batch_id=42,
        running_seconds=1.5,
        target_seconds=5.0,
        deadline_seconds=60.0,
        target_feasible=True,
        required_capacity_ratio=0.8,
        throughput_rows_per_second=4_100.0,
        fixed_cost_seconds=0.9,
        arrival_rows_per_second=3_900.0,
        processed_rows_per_second=2_100.0,
        backlog_rows=52_000.0,
        backlog_seconds=13.25,
        estimated_time_to_consume_seconds=260.0,
        watermark_lag_seconds=12.0,
        watermark_delay_seconds=10.0,
        lateness_seconds=44.7,
        late_rows_held=False,
        limit=LimitView("rows", 10_000, 14_000, "raise", target_feasible=True),
        checkpoint=CheckpointView(
            seconds=4.25,
            phases={"walCommit": 0.05, "addBatch": 4.0, "commitOffsets": 0.125},
            deadline_seconds=60.0,
            eta_seconds=48.5,
            bytes=1_200_000,
            failures_consecutive=0,
            interval_seconds=5.0,
        ),
        spiral=SpiralView("pressured", 0.4, 1.05),
        alignment=WAITED,
        advice=["stage 4: partition 2 took 2.5 s, the median task 0.5 s: spread its hot key"],
        failure=None,
        sources=[source()],
        operators=[operator()],
        totals=totals(),
        decisions=[],
        attention=UNJUDGED,
        history=[],
        missing=[],
        findings=[
            Finding("sink_at_least_once", "warning", "foreachBatch runs again", "write by key"),
            Finding("state_incomplete", "error", "2.delta is missing", "start from a savepoint"),
            Finding("state_incomplete", "error", "3.delta is missing", "start from a savepoint"),
        ],
        folder_audited_time=NOW - 30,
        partitions=[
            PartitionView(0, "orders", "0", 40_000, 0, 5400.0, series=True),
            PartitionView(0, "orders", "1", 12_000, 7, 0.0),
        ],
        executors=EXECUTORS,
    )
    changed = msgspec.structs.replace(plain, **changes)
    return attention.judged(changed, NOW, growing=False)


def unheard(query: str = "new", application: str = "orders") -> QueryView:
    """A query of which nothing is known yet but that it is there."""
    return view(
        query,
        application,
        spark_version="",
        trigger="",
        control="",
        state="idle",
        pressure="ok",
        pressure_ratio=0.0,
        last_event_time=None,
        last_progress_time=None,
        batch_id=None,
        batch_seconds=None,
        batch_rows=None,
        batch_limited=False,
        running_batch_id=None,
        running_seconds=None,
        deadline_seconds=None,
        target_feasible=None,
        required_capacity_ratio=None,
        throughput_rows_per_second=None,
        fixed_cost_seconds=None,
        arrival_rows_per_second=None,
        processed_rows_per_second=None,
        backlog_rows=None,
        backlog_seconds=None,
        estimated_time_to_consume_seconds=None,
        watermark_lag_seconds=None,
        watermark_delay_seconds=None,
        lateness_seconds=None,
        late_rows_held=None,
        limit=LimitView(),
        checkpoint=CheckpointView(),
        spiral=SpiralView(),
        sources=[],
        operators=[],
        totals=Totals(),
    )


def process(role: Any = "agent", application: str = "", **changes: Any) -> ProcessSample:
    plain = ProcessSample(
        role=role,
        application=application,
        pid=17,
        sampled_time=NOW,
        start_time=NOW - 4_000,
        cpu_seconds_total=12.5,
        resident_bytes=80_000_000,
        threads=9,
        open_files=30,
        open_files_limit=1_024,
        memory=MemoryLimit(2_000_000_000, "cgroup2", 900_000_000, 0),
    )
    return msgspec.structs.replace(plain, **changes)


def extras(times: int = 1, **changes: Any) -> Extras:
    plain = Extras(
        version="0.1.0",
        started_time=NOW - 3_600,
        labels={"cluster": "eu-1", "namespace": "streams"},
        agent_process=process(),
        driver_processes=(process("jvm", "orders", resident_bytes=1_500_000_000),),
        event_seconds=EventSeconds(
            EVENT_SECONDS_BUCKETS,
            tuple(count * times for count in (0, 0, 5, 40, 12, 3, 1, 0, 0, 0, 0, 0, 0, 0)),
            0.0125 * times,
        ),
        refused_requests={"malformed": 2, "teapot": 1},
        state_writable=True,
        state_write_failures_total=0,
        state_bytes=123_456,
        recorded_events_total=61,
        record_failures_total=0,
        kafka_up=True,
        doors={"attached": 3, "waiting": 0, "refused": 1},
        kafka_groups={"written": 4, "refused": 0, "failed": 0},
        certificate_not_before_time=NOW - 30 * 86_400,
        certificate_expiry_time=NOW + 90 * 86_400,
    )
    return msgspec.structs.replace(plain, **changes)


def listener(application: str = "orders", times: int = 1, **changes: Any) -> ListenersView:
    counters = Counters(
        dropped_total=times,
        callback_seconds_total=0.8 * times,
        callbacks_total=400 * times,
    )
    return msgspec.structs.replace(ListenersView(application, counters, 2, NOW - 0.5), **changes)


def agent_totals() -> AgentTotals:
    return AgentTotals(
        events={"started": 1, "progress": 40, "heartbeat": 20},
        refused={"malformed": 4},
        duplicates=7,
        name_collisions=1,
    )


def grown(times: int) -> Totals:
    """The usual totals, that many times over: what a counter shows after as many scrapes."""
    once = totals()
    fields = msgspec.structs.asdict(once)
    for name, value in fields.items():
        if isinstance(value, dict):
            fields[name] = {key: number * times for key, number in value.items()}
        elif isinstance(value, list):
            fields[name] = [number * times for number in value]
        else:
            fields[name] = value * times
    return Totals(**fields)


def golden_fleet(times: int = 1) -> list[QueryView]:
    """Every kind of source, a query that is gone, one unheard of, and one of a hostile name."""
    return [
        view(totals=grown(times)),
        view(
            "archive",
            sources=[
                source(unit="files", backlog=4, limit=2, configured=None),
                source(1, unit="bytes", backlog=9_000_000, limit=4_000_000, configured=8_000_000),
                source(2, unit="files", configured=10, backlog_bound="lower"),
                source(3, unit=None, backlog=None, limit=None, configured=None, limit_known=False),
            ],
            operators=[operator(), operator(1, name="dedupe", commit_seconds=None)],
            mode="dry-run",
            mode_overridden=True,
            mode_since_time=NOW - 900,
            target_feasible=False,
            required_capacity_ratio=1.75,
            capacity_short_since_time=NOW - 240,
            totals=totals(phase_seconds={"addBatch": 1.0, "brandNew": 0.25, "newer": 0.5}),
        ),
        view(
            "gone",
            up=False,
            state="terminated",
            failure=FailureView("memory", "java.lang.OutOfMemoryError: Java heap space"),
            gone_since_time=NOW - 60,
            running_seconds=None,
        ),
        unheard(),
        view(HOSTILE, HOSTILE[:60], trigger='Weird("\n")', held=True, held_by=HOLD),
    ]


class Clock:
    """A timer that says it took a quarter of a second."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 0.25
        return self.seconds


def scrape(
    exporter: Exporter,
    views: Iterable[QueryView],
    accept: str = "",
    times: int = 1,
    **changes: Any,
) -> tuple[str, str]:
    """An exposition of these views as text, and its Content-Type.

    ``times`` multiplies what the listeners and the agent have counted.
    """
    known: dict[Key, QueryView] = {(one.application, one.query): one for one in views}
    body, content_type = exporter.exposition(
        list(known),
        known.__getitem__,
        totals=agent_totals(),
        listeners=[listener(times=times), listener("idle-app")],
        extras=extras(times, **changes),
        accept=accept,
    )
    return body.decode("utf-8"), content_type
