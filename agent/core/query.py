"""What is known of one query, over all its runs: plain data, so that it can be saved.

Times are the driver's unless a name says otherwise; the agent's own clock enters only as ``now``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.checkpoint import Monitor
from agent.core.cost import Cost, Line
from agent.core.decaying import DecayingRate
from agent.core.judgement import Decision, FailureView, Mode, OrderView, Totals
from agent.core.lag_state import LagWindow
from agent.core.lag_table import LagTable
from agent.core.lateness import Lateness
from agent.core.occupancy import Occupancy, Spent
from agent.core.pool import Member
from agent.core.reach import Reach
from agent.core.source import Source
from agent.core.spiral import Spiral
from spark_listener.wire import HEARTBEAT_SECONDS

if TYPE_CHECKING:
    from agent.core.decode import SourceLimit
    from agent.core.policy import Policy

MOST_PAST_RUNS: Final = 8
#: Two heartbeats: events of one driver reach the agent out of order by less.
CLOCK_STEP_SECONDS: Final = 2.0 * HEARTBEAT_SECONDS


class Operator(msgspec.Struct):
    """State of one state operator as of its last batch."""

    name: str = ""
    rows: int | None = None
    bytes: int | None = None
    commit_seconds: float | None = None
    dropped_rows_total: int = 0
    commit_phases: dict[str, float] = {}
    snapshot_lag_versions: int | None = None
    partitions: int | None = None  # of its state, fixed when the query first started


class Query(msgspec.Struct):
    """A query by (application label, query label), over all its runs."""

    application: str
    query: str
    name_label: str = ""  # the query's own name as a label
    application_id: str = ""
    spark_version: str = ""
    query_id: str = ""
    run_id: str = ""
    aside: bool = False  # under a name made for it, beside a live query of its own name
    past_runs: list[str] = []  # their last events may come after the next run's first
    trigger: str = ""
    trigger_seconds: float = 0.0
    control: str = ""
    output_mode: str = ""
    sink: str = ""
    checkpoint_location: str = ""
    ui_url: str | None = None
    conf: dict[str, str] = {}  # of the last start, keys that the listener allows only

    terminated: bool = False
    stopped: bool = False  # by whoever owns it, or done: neither by an exception nor for its age
    gone_since_time: float | None = None  # of the agent's clock
    heard_time: float = 0.0  # of the agent's clock
    clock_skew_seconds: float = 0.0  # agent's clock minus the driver's
    clock_origin: float | None = None  # of the driver's clock, as last told by the present run
    clock_set_seconds: float = 0.0  # added to what the driver's clock says: by what it was set back
    last_event_time: float | None = None
    last_progress_time: float | None = None

    mode_order: Mode | None = None
    held: bool = False
    manual_limit: int | None = None
    manual_unit: str | None = None

    batch_id: int | None = None
    batch_seconds: float | None = None
    batch_rows: int | None = None
    batch_limited: bool = False
    batch_held_back: bool = False
    batch_end_time: float | None = None
    batches_of_run: int = 0
    phases: dict[str, float] = {}
    running_batch_id: int | None = None
    running_seconds: float | None = None
    running_heard_time: float | None = None  # driver's clock
    running_told_time: float | None = None  # agent's clock, of the last heartbeat that said so
    running_since_time: float | None = None  # agent's clock, of the first that named the batch
    free_time: float | None = None  # since when no batch is known to run; driver's clock
    last_planned_time: float | None = None
    open_batch_id: int | None = None  # begun by a run that ended before committing it
    failure: FailureView | None = None

    cost: Cost = msgspec.field(default_factory=Cost)
    capacity: Line | None = None  # as an earlier version learned and saved it
    reach: Reach = msgspec.field(default_factory=Reach)
    company: float | None = None  # of batches running, in which its cost was learned
    wanted_share: float = 0.0  # of its cycle that its next batches would run
    occupancy: Occupancy = msgspec.field(default_factory=Occupancy)
    lag: LagTable = msgspec.field(default_factory=LagTable)
    arrived_rows: float = 0.0
    lag_window: LagWindow = msgspec.field(default_factory=LagWindow)
    monitor: Monitor = msgspec.field(default_factory=Monitor)
    spiral: Spiral = msgspec.field(default_factory=Spiral)
    between: Spent = "idle"  # what to call the time after a batch until the next word
    processed: DecayingRate = msgspec.field(default_factory=DecayingRate)
    watermark_time: float | None = None
    lateness: Lateness = msgspec.field(default_factory=Lateness)
    sources: list[Source] = []
    operators: list[Operator] = []
    totals: Totals = msgspec.field(default_factory=Totals)
    decisions: list[Decision] = []
    reason: str = "hold:missing"
    target_feasible: bool | None = None
    required_capacity_ratio: float | None = None
    capacity_short_since_time: float | None = None  # it is above 1
    unstable_since_time: float | None = None  # more arrives than batches of the target digest
    held_by: OrderView | None = None
    mode_by: OrderView | None = None

    def hear_time(
        self, said: float, now: float, *, origin: float | None, run_id: str, may_be_old: bool
    ) -> float:
        """Any event: it is alive. Gives its time by a clock that is never set.

        ``said`` is the driver's clock, ``now`` the agent's. A clock that was set is told by its
        origin, which else stands still; where that is unknown, or of another machine, by a time
        long before what was heard last, unless such a time ``may_be_old``.
        """
        self.heard_time = now
        same = origin is not None and self.clock_origin is not None and run_id == self.run_id
        if same:
            step = (origin or 0.0) - (self.clock_origin or 0.0)
            if abs(step) >= CLOCK_STEP_SECONDS:
                self.clock_set_seconds -= step
        self.clock_origin = origin
        time = said + self.clock_set_seconds
        last = self.last_event_time
        if last is not None and time <= last - CLOCK_STEP_SECONDS and not (same or may_be_old):
            self.clock_set_seconds += last - time
            time = last
        if last is None or time >= last:
            self.last_event_time = time
            self.clock_skew_seconds = now - time
        return time

    def hear_running(self, before: tuple[str, int | None], now: float) -> None:
        """After a heartbeat: since when the agent has heard of the batch that runs.

        ``before``: the run and the batch that ran as far as was known before it.
        """
        if self.running_seconds is None:
            return
        self.running_told_time = now
        if self.running_since_time is None or before != (self.run_id, self.running_batch_id):
            self.running_since_time = now

    def begin_run(self, query_id: str, run_id: str, time: float) -> None:
        """A run that was not known: what one run counts starts anew, what is learned stays."""
        if query_id != self.query_id:
            self.batch_id = None  # a new checkpoint counts its batches from 0
            self.open_batch_id = None
            self.lateness = self.lateness.begin_checkpoint()
        elif self.running_batch_id is not None and not self.terminated:
            self.open_batch_id = self.running_batch_id  # died without a word
        if self.run_id:
            self.past_runs = [*self.past_runs[-(MOST_PAST_RUNS - 1) :], self.run_id]
        self.query_id, self.run_id = query_id, run_id
        self.terminated, self.stopped, self.gone_since_time = False, False, None
        self.batches_of_run = 0
        self.nothing_runs()
        self.batch_end_time, self.between = None, "idle"
        self.occupancy.begin(time)
        self.lag = LagTable()
        self.arrived_rows = 0.0
        for source in self.sources:
            source.begin_run()

    def note_order(self, order: OrderView, *, of_mode: bool) -> None:
        """Remembers whose order holds, after it was carried out."""
        if of_mode:
            self.mode_by = order if self.mode_order is not None else None
        else:
            steered = self.held or self.manual_limit is not None
            self.held_by = order if steered else None

    def nothing_runs(self) -> None:
        """No batch is running."""
        self.running_batch_id = self.running_seconds = self.running_heard_time = None
        self.running_told_time = self.running_since_time = None

    def main_source(self) -> Source | None:
        """The source whose limit stands for the query's: the controllable one read most."""
        candidates = self.controlled() or [s for s in self.sources if s.limit_known]
        if len(candidates) == 1:
            return candidates[0]
        return max(candidates, key=lambda s: s.rows or 0, default=None)

    def controlled(self) -> list[Source]:
        """The sources whose limits can be set while the query runs."""
        return [source for source in self.sources if source.controllable]

    def backlog_rows(self) -> float | None:
        """The backlog of all sources that tell one; None where none does."""
        if len(self.sources) == 1:
            return self.sources[0].backlog_rows
        known = [rows for s in self.sources if (rows := s.backlog_rows) is not None]
        return sum(known) if known else None

    def left_rows(self) -> float | None:
        """What the last batch left behind at all sources that tell; None where none does."""
        known = [rows for s in self.sources if (rows := s.left_rows) is not None]
        return sum(known) if known else None

    def arrival_rows(self) -> float | None:
        """Rows that arrive per second at all sources that tell; None where none does."""
        if len(self.sources) == 1:
            return self.sources[0].arrival_rows
        known = [rate for s in self.sources if (rate := s.arrival_rows) is not None]
        return sum(known) if known else None

    def pressing_rows(self, time: float) -> float:
        """Rows per second that must be read for retention to delete none unread; 0: none known."""
        return sum(
            [
                source.pressing_rows_per_second or 0.0
                for source in self.sources
                if time <= source.pressing_until_time
            ]
        )

    def holds_back(self) -> bool:
        """Whether a limit holds back more than the next batch takes, as far as is known now."""
        return any(s.limit is not None and (s.backlog or 0) > s.limit for s in self.sources)

    def member(self, policy: Policy, busy_share: float) -> Member:
        """As another query of its application sees it: what it uses, or would with its backlog."""
        use = busy_share
        if (self.backlog_rows() or 0.0) > 0.0:
            use = max(use, self.wanted_share)
        granted = self.mode(policy) == "on" and bool(self.controlled())
        return Member(use, self.company or 1.0, granted)

    def grow_sources(self, count: int, policy: Policy) -> None:
        """Makes room for so many sources, up to the policy's bound."""
        while len(self.sources) < min(count, policy.max_sources):
            self.sources.append(Source(index=len(self.sources)))

    def recognise(self, limits: list[SourceLimit]) -> None:
        """Puts what was learned of each source where the source is in this run.

        A job that was changed may read the same sources in another order, and others. One that is
        not known takes over what stood at its place, unless that belongs to another.
        """
        places = {one.source: one.identity for one in limits if one.identity}
        known = {source.index: source.identity for source in self.sources}
        if all(known.get(index, "") in ("", name) for index, name in places.items()):
            for index, name in places.items():
                if index in known:
                    self.sources[index].identity = name
            return
        named = {source.identity: source for source in reversed(self.sources) if source.identity}
        kept = {index: named[name] for index, name in places.items() if name in named}
        taken = {id(source) for source in kept.values()}
        moved: list[Source] = []
        for index in range(len(self.sources)):
            source = kept.get(index)
            if source is None:
                there = self.sources[index]
                source = Source(index=index) if id(there) in taken else there
            elif any(source is one for one in moved):
                source = Source(index=index)  # two of one fingerprint
            moved.append(source)
        for index, source in enumerate(moved):
            source.index, source.identity = index, places.get(index, "")
        self.sources = moved

    def mode(self, policy: Policy) -> Mode:
        """The mode that holds: an operator's order, else the configured one."""
        return self.mode_order or policy.of(self.application, self.query).mode
