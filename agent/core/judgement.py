"""What the core says of a query: one line per judged event, and one view for every exporter.

Unknown is None throughout, never zero. Times are epoch seconds of the driver's clock unless a name
says otherwise. Field names of ``Judgement`` are the contract of ``weir replay`` and the HTTP API.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from agent.core.judge.alignment import AlignmentView
from agent.core.measure.partitions import PartitionView

QueryStateName = Literal["idle", "busy", "backpressured", "stalled", "terminated"]
QUERY_STATES: Final[tuple[QueryStateName, ...]] = get_args(QueryStateName)
Pressure = Literal["ok", "low", "high"]
LagState = Literal["OK", "WARN", "ERR", "STOP", "STALL", "REWIND", "UNKNOWN"]
LAG_STATES: Final[tuple[LagState, ...]] = get_args(LagState)
SpiralPhase = Literal["none", "pressured", "spiralling", "timing_out", "dead"]
SPIRAL_PHASES: Final[tuple[SpiralPhase, ...]] = get_args(SpiralPhase)
Mode = Literal["off", "dry-run", "on"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)

AttentionLevel = Literal[
    "hung",
    "failed",
    "spiralling",
    "lost",
    "overloaded",
    "pressured",
    "infeasible",
    "growing",
    "late",
    "low",
    "ok",
    "idle",
    "ended",
]
#: Worst first.
ATTENTION_LEVELS: Final[tuple[AttentionLevel, ...]] = get_args(AttentionLevel)

#: Every reason a decision can carry. ``raise`` and ``lower`` move the limit; ``bound:*`` and
#: ``floor:*`` say which constraint set it; ``hold:*`` say why it stays.
REASONS: Final = (
    "raise",
    "lower",
    "bound:deadline",
    "bound:restart",
    "bound:doubt",
    "bound:throughput",
    "bound:pool",
    "bound:minimum",
    "bound:maximum",
    "bound:configured",
    "floor:stability",
    "floor:retention",
    "floor:fixed_cost",
    "floor:trigger",
    "floor:exclusive",
    "probe",
    "first_batch",
    "renew",
    "manual",
    "release",
    "hold:operator",
    "hold:deadband",
    "hold:not_limited",
    "hold:missing",
    "hold:learning",
    "hold:empty",
    "hold:untold_rows",
    "hold:replayed",
    "hold:in_flight",
    "hold:late_rows",
    "hold:no_control",
    "mode:off",
    "mode:dry-run",
)


class LimitView(msgspec.Struct, frozen=True, gc=False):
    """The query's limit: of its largest controlled source, in that source's unit."""

    unit: str | None = None
    current: int | None = None
    next: int | None = None
    reason: str = "hold:missing"
    target_feasible: bool | None = None


class CheckpointView(msgspec.Struct, frozen=True, gc=False):
    """The last micro-batch as a checkpoint, from its offset log to its commit log."""

    seconds: float | None = None
    phases: dict[str, float] = {}
    deadline_seconds: float | None = None
    eta_seconds: float | None = None
    failures_consecutive: int = 0
    interval_seconds: float | None = None
    pause_seconds: float | None = None  # between the end of one and the start of the next
    bytes: int | None = None  # written to the checkpoint by the state stores
    deadline_learned: bool = False  # from the ages at which a batch was ended
    in_progress_batch_id: int | None = None
    in_progress_seconds: float | None = None


class SpiralView(msgspec.Struct, frozen=True, gc=False):
    """Where a query stands on the way into a checkpoint time-out spiral."""

    phase: SpiralPhase = "none"
    gain: float | None = None
    replay_amplification: float = 1.0
    evidence: str = ""  # one sentence with the figures
    lead_batches: int | None = None  # foreseen until a batch passes the deadline


class FailureView(msgspec.Struct, frozen=True, gc=False):
    """Why a query ended, and what shows it: one cause to count, and where and what it was."""

    cause: str
    evidence: str
    where: str = "unknown"
    what: str = "unknown"


Severity = Literal["error", "warning", "info"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)


class Finding(msgspec.Struct, frozen=True):
    """Something that was checked and is worth telling; ``check`` is a fixed name, for metrics."""

    check: str
    severity: Severity
    evidence: str
    remedy: str


class Facts(msgspec.Struct, frozen=True):
    """What a query told of itself that the consistency audit looks at. It changes seldom."""

    application: str
    query: str
    query_id: str
    run_id: str
    up: bool
    sink: str
    sources: tuple[str, ...]  # as progress describes them
    checkpoint_location: str
    conf: dict[str, str]
    deadline_seconds: float | None
    trigger: str = ""  # empty: nobody told it


class ExecutorsLine(msgspec.Struct, frozen=True, gc=False):
    """Of the application's executors, after an event of one of its queries."""

    present: int
    wanted: int | None  # None: not known yet
    bound: str  # what keeps more from helping; ``BOUNDS`` of ``decide/executors.py``


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """One judged event of one query: the line that ``weir replay`` prints."""

    time: str
    application: str
    query: str
    batch_id: int | None
    event: str
    backlog_rows: float | None
    backlog_seconds: float | None
    lag_state: LagState
    state: QueryStateName
    pressure: Pressure
    throughput_rows_per_second: float | None
    fixed_cost_seconds: float | None
    arrival_rows_per_second: float | None
    limit: LimitView
    checkpoint: CheckpointView
    spiral: SpiralView
    failure: FailureView | None
    #: Left out where the driver tells nothing of executors.
    executors: ExecutorsLine | msgspec.UnsetType = msgspec.UNSET


class Decision(msgspec.Struct, frozen=True, gc=False):
    """A decision worth telling: the limit moved, or the reason changed."""

    time: float
    batch_id: int | None
    source: int
    unit: str
    before: int | None
    after: int | None
    reason: str
    acted: bool  # false in dry-run
    detail: str  # the figures behind it, one sentence


class OrderView(msgspec.Struct, frozen=True, gc=False):
    """A hand at the wheel: who steered, when by the agent's clock, and why."""

    time: float
    who: str
    what: str  # as the log says it: "hold", "limit 500 rows", "mode off"
    reason: str


class SourceView(msgspec.Struct, frozen=True, gc=False):
    """One source, in its own unit."""

    index: int
    description: str
    unit: str | None
    control: str
    note: str
    backlog: int | None
    backlog_bound: str
    limit: int | None  # in force now
    limit_known: bool  # false: nothing was said of a limit (null above is then no statement)
    configured: int | None
    granted: int | None  # what the live grant says; None without one
    grant_expires_time: float | None
    exclusive_rows: float | None
    floating_rows: float | None
    rows: int | None  # of the last batch
    rows_per_unit: float | None
    arrival_rows_per_second: float | None
    would_be: int | None = None  # decided and not acted on, as in dry-run
    obeyed: bool | None = None  # whether it keeps to limits that change; None: not known


class OperatorView(msgspec.Struct, frozen=True, gc=False):
    """One state operator, as of the last batch; ``index`` is its place in progress."""

    index: int
    name: str
    rows: int | None
    bytes: int | None
    commit_seconds: float | None
    dropped_rows_total: int
    commit_phases: dict[str, float] = {}  # seconds over all tasks, by phase of the commit
    snapshot_lag_versions: int | None = None  # versions not yet uploaded as a snapshot


class Totals(msgspec.Struct):
    """Counters since this agent first heard of the query; they survive restarts."""

    events: dict[str, int] = {}
    batches: dict[str, int] = {}  # by result: completed, empty, failed, replayed
    rows: int = 0
    replayed_rows: int = 0
    phase_seconds: dict[str, float] = {}
    state_seconds: dict[str, float] = {}  # busy, idle, backpressured
    duration_buckets: list[int] = []  # of core.query.DURATION_BUCKETS_SECONDS, not cumulative
    duration_sum_seconds: float = 0.0
    grants: dict[str, int] = {}  # by reason
    watermark_dropped_rows: int = 0
    failures: dict[str, int] = {}  # by cause
    checkpoints: dict[str, int] = {}  # by result: completed, failed, replayed


class Point(msgspec.Struct, frozen=True, gc=False):
    """One batch in the short history that the page and the terminal draw."""

    time: float
    batch_seconds: float | None
    rows: int
    backlog_rows: float | None
    limit: int | None  # in force when it ended
    credit_rows: float | None
    limited: bool
    would_be_limit: int | None = None  # decided after it and not acted on, as in dry-run


class AttentionView(msgspec.Struct, frozen=True, gc=False):
    """A query's level, and how bad it is within it."""

    level: AttentionLevel
    urgency: int  # within the level more is worse; in doublings, so that neighbours seldom swap
    to_do: bool  # somebody should act: the runbook of the level says how
    since_time: float | None = None  # of the agent's clock; None: not known, or nothing is wrong


#: Of a view that is still being made.
UNJUDGED: Final = AttentionView("ok", 0, to_do=False)


class ExecutorsView(msgspec.Struct, frozen=True, gc=False):
    """What an application runs on, and what its queries need; None is unknown."""

    mode: Mode  # of asking for executors
    present: int
    slots: int  # tasks that can run at once
    wanted: int | None
    asked: int | None  # of the cluster, by Weir
    note: str  # why the number cannot be changed
    bound: str  # what keeps more from helping; "enough": nothing does
    gain: float | None  # rows per second at the wanted number over those now, of this query
    contention: float | None  # 0: more slots bring as much more; 1: they bring nothing
    contention_doubt: float | None
    task_seconds: float | None  # of this query's batches: the work of all tasks,
    longest_seconds: float | None  # the slowest tasks one after the other,
    driver_seconds: float | None  # and the time in which no task ran
    in_vain: InVain | None = None  # None: the last time that more came, it paid, or none came


class InVain(msgspec.Struct, frozen=True, gc=False):
    """More slots that brought this query too few rows per second to be worth it."""

    before: int  # slots
    slots: int
    rows_ratio: float  # rows per second over those before


class QueryView(msgspec.Struct, frozen=True, gc=False):
    """All that is known of one query at one moment; what every exporter reads."""

    application: str
    query: str
    application_id: str
    spark_version: str
    query_id: str
    run_id: str
    trigger: str
    control: str
    output_mode: str
    sink: str
    checkpoint_location: str
    ui_url: str | None
    up: bool
    gone_since_time: float | None
    mode: Mode
    held: bool
    manual_limit: int | None
    state: QueryStateName
    pressure: Pressure
    pressure_ratio: float  # share of the last minute in which a limit held back a backlog
    lag_state: LagState
    last_event_time: float | None
    last_progress_time: float | None
    batch_id: int | None
    batch_seconds: float | None
    batch_rows: int | None
    batch_limited: bool
    running_batch_id: int | None
    running_seconds: float | None
    target_seconds: float | None
    deadline_seconds: float | None
    target_feasible: bool | None
    required_capacity_ratio: float | None
    throughput_rows_per_second: float | None
    fixed_cost_seconds: float | None
    arrival_rows_per_second: float | None
    processed_rows_per_second: float | None  # rows of the last batch over its duration
    backlog_rows: float | None
    backlog_seconds: float | None
    estimated_time_to_consume_seconds: float | None
    watermark_lag_seconds: float | None
    limit: LimitView
    checkpoint: CheckpointView
    spiral: SpiralView
    failure: FailureView | None
    sources: list[SourceView]
    operators: list[OperatorView]
    totals: Totals
    decisions: list[Decision]  # newest last, at most 20
    attention: AttentionView
    history: list[Point]  # newest last
    missing: list[str]  # what cannot be told, and why, for people
    findings: list[Finding] = []  # of judgement and consistency audit, the worst first
    late_rows_held: bool | None = None  # smaller batches dropped some; None: it drops none at all
    lateness_seconds: float | None = None  # of the latest row, behind the newest before its batch
    watermark_delay_seconds: float | None = None  # as batches show what the query declares
    folder_audited_time: float | None = None  # of the agent's clock; None: not looked into
    alignment: AlignmentView = AlignmentView()  # what its stages waited for, where that was asked
    advice: list[str] = []  # what would help, by this query's own figures
    partitions: list[PartitionView] = []  # as the brokers told last; empty where none is asked
    backlog_unseen_rows: float = 0.0  # of backlog_rows: estimated to have come since a look
    partitions_age_seconds: float | None = None  # since that, where the backlogs are of later
    capacity_short_since_time: float | None = None  # required_capacity_ratio is above 1 since then
    held_by: OrderView | None = None  # the order by which it is held, or limited by hand
    mode_by: OrderView | None = None  # the order that set its mode; None: the configuration did
    mode_overridden: bool = False  # an order by hand gives it another mode than the configuration
    mode_since_time: float | None = None  # when that was ordered, by the agent's clock
    stopped: bool = False  # it ended, and neither by an exception nor for its batch's age
    manual_unit: str | None = None  # of the limit set by hand; None: not known yet
    executors: ExecutorsView | None = None  # of its application; None: its driver tells nothing
