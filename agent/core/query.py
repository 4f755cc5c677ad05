"""What is known of one query, over all its runs: plain data, so that it can be saved.

In groups: where and how it runs and whether it lives (``run``, ``life``, ``clock``), what was
measured (``batch``, ``running``, ``flow``), what is judged by it (``watched``), what its limit
follows from (``sizing``), and what people said (``orders``). Times are the driver's unless a name
says otherwise; the agent's own clock enters only as ``now``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core import quota
from agent.core.decide.executors import Need
from agent.core.decide.pool import Member
from agent.core.decide.reach import Reach
from agent.core.decode.kafka_offsets import Reading
from agent.core.judge.checkpoint import Monitor
from agent.core.judge.lag_state import LagWindow
from agent.core.judge.lateness import Lateness
from agent.core.judge.spiral import Spiral
from agent.core.judgement import MODES, Decision, FailureView, Mode, OrderView, Totals
from agent.core.measure.cold import Cold
from agent.core.measure.cost import Cost
from agent.core.measure.decaying import DecayingRate
from agent.core.measure.lag_table import LagTable
from agent.core.measure.occupancy import Occupancy, Spent
from agent.core.measure.source import Source
from agent.core.measure.work import Work
from spark_listener.wire import CLOCK_STEP_SECONDS

if TYPE_CHECKING:
    from agent.core.decode.events import SourceLimit
    from agent.core.policy import Policy, QueryPolicy

Key = tuple[str, str]  # (application label, query label): what series belong to
#: Spark's application id and its driver's host: what starts in the same second on two clusters may
#: have one id. Without a host, as where none is told, it is all of that id.
Cluster = tuple[str, str]

MOST_PAST_RUNS: Final = 8


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


class Run(msgspec.Struct):
    """Where it runs, and how it was started, as the newest run said."""

    application_id: str = ""
    host: str = ""  # its driver's; empty: not told
    spark_version: str = ""
    query_id: str = ""
    run_id: str = ""
    past_runs: list[str] = []  # their last events may come after the next run's first
    trigger: str = ""  # empty: nobody has told it, and an event log never does
    trigger_run_id: str = ""  # the run that told it, or an earlier one's; empty: none has
    trigger_seconds: float = 0.0  # of one told, else as its batches' starts show
    #: Of its batches that followed idle time, while no trigger is told; see ``measure/pace.py``.
    starts: list[int] = []
    control: str = ""
    output_mode: str = ""
    sink: str = ""
    least_target_seconds: float = 0.0  # that its sink's quota asks for; 0: none is known
    checkpoint_location: str = ""
    ui_url: str | None = None
    conf: dict[str, str] = {}  # keys that the listener allows only
    batches: int = 0  # that ended in it
    has_read: bool = False  # one of them read rows
    #: Of its batches the first alone has read rows; before that one, the same of the run before.
    first_alone: bool = False
    untold_batches: int = 0  # in a row, to the last: each took something, and no row of it was told
    took_less: bool = False  # the last of these that had its limit: than so many rows take
    slots_each: float = 0.0  # tasks that can run at once in each of its executors; 0: not known
    slots: int = 0  # the same in all of them, or in a local master; 0: not known
    displaced_time: float = 0.0  # when a run in another application took its place; agent's clock
    begun_time: float = 0.0  # of the first that was told of it

    def write_to(self, sink: str) -> None:
        """What a start or a batch tells of its sink; an empty text tells nothing."""
        if sink:
            found = quota.of_sink(sink)
            self.sink = sink
            self.least_target_seconds = 0.0 if found is None else found.least_seconds

    @property
    def checkpoint(self) -> tuple[str, str]:
        """Which one it is: a copy has another place, and the same id."""
        return self.query_id, self.checkpoint_location

    @property
    def continuous(self) -> bool:
        """Whether it has no batches, so that Spark tells nothing of what it does while it lives."""
        return "ContinuousTrigger" in self.trigger

    @property
    def real_time(self) -> bool:
        """Whether each batch runs for as long as its trigger says, and reads rows as they come."""
        return "RealTime" in self.trigger

    @property
    def as_they_come(self) -> bool:
        """Whether its rows are read as they come, by tasks that stay.

        In real-time mode and in continuous processing: what a batch takes says nothing of its rows.
        """
        return self.real_time or self.continuous

    def beyond(self, seconds: float) -> float:
        """A batch's age, or what it took, beyond the time for which it was told to run.

        All of it but in real-time mode, where each runs for as long as its trigger says, however
        few rows there are (Spark's guide, "Batch Duration Is a Checkpoint Interval"). -inf where a
        ``RealTimeTrigger(milliseconds)`` says no number: nobody knows of one that is beyond it.
        """
        if not self.real_time:
            return seconds
        milliseconds = self.trigger.partition("(")[2].rstrip(") ")
        return seconds - (int(milliseconds) / 1000.0 if milliseconds.isdecimal() else math.inf)


class Life(msgspec.Struct):
    """Whether it lives, by the agent's clock."""

    terminated: bool = False
    stopped: bool = False  # by whoever owns it, or done: neither by an exception nor for its age
    left: bool = False  # it runs on, and its driver watches it no more
    gone_since_time: float | None = None
    heard_time: float = 0.0

    def begin(self) -> None:
        """It is there."""
        self.terminated = self.stopped = self.left = False
        self.gone_since_time = None

    def hear(self, now: float) -> None:
        """Its driver lives; one that has ended stays so."""
        self.heard_time = now
        if not self.terminated:
            self.gone_since_time = None

    def leave(self, now: float) -> None:
        """Nothing more is heard of it, as its owner wants it."""
        self.terminated = self.stopped = self.left = True
        self.gone_since_time = now


class Clock(msgspec.Struct):
    """The driver's clock, made one that is never set."""

    skew_seconds: float = 0.0  # agent's clock minus the driver's
    origin: float | None = None  # as last told by the present run
    set_seconds: float = 0.0  # added to what the driver's clock says: by what it was set back
    last_event_time: float | None = None
    driver: str = ""  # whose clock: its listener's instance, where that tells its origin

    def hear(
        self, said: float, now: float, *, origin: float | None, same_run: bool, may_be_old: bool
    ) -> float:
        """An event's time by a clock that is never set.

        ``said`` is the driver's clock, ``now`` the agent's. A clock that was set is told by its
        origin, which else stands still; where that is unknown, or of another machine, by a time
        long before what was heard last, unless such a time ``may_be_old``.
        """
        same = same_run and origin is not None and self.origin is not None
        if same:
            step = (origin or 0.0) - (self.origin or 0.0)
            if abs(step) >= CLOCK_STEP_SECONDS:
                self.set_seconds -= step
        self.origin = origin
        time = said + self.set_seconds
        last = self.last_event_time
        if last is not None and time <= last - CLOCK_STEP_SECONDS and not (same or may_be_old):
            self.set_seconds += last - time
            time = last
        if last is None or time >= last:
            self.last_event_time = time
            self.skew_seconds = now - time
        return time

    @property
    def shared_time(self) -> float:
        """The last event's time by a clock that all queries of the driver share; 0: none yet.

        Seconds since the driver's clock began, as that is never set. Of a driver that does not tell
        when it began, by the query's own clock: one that was there as the driver's was set is then
        off from one that was not.
        """
        time = 0.0 if self.last_event_time is None else self.last_event_time
        return time if self.origin is None else time - self.set_seconds - self.origin

    def as_driver_says(self, time: float | None) -> float | None:
        """A time by the driver's clock as it goes now, whatever it was set by before."""
        return None if time is None else time - self.set_seconds


class Orders(msgspec.Struct):
    """What people said, and who."""

    mode: Mode | None = None
    held: bool = False
    limit: int | None = None
    unit: str | None = None  # of the limit
    held_by: OrderView | None = None
    mode_by: OrderView | None = None
    mode_time: float | None = None  # of the order for all of a pattern that greeted it
    borrowed: bool = False  # all was ordered of the name, and nothing of this query
    released: bool = False  # by a hand: no hold or limit of its name holds for it either

    @property
    def mode_since_time(self) -> float | None:
        """When the mode was ordered that holds, by the agent's clock; None: none, or not known."""
        if self.mode is None:
            return None
        return self.mode_time if self.mode_by is None else self.mode_by.time

    def note(self, order: OrderView, *, of_mode: bool) -> None:
        """Remembers whose order holds, after it was carried out."""
        self.borrowed = False
        if of_mode:
            self.mode_by = order if self.mode is not None else None
        else:
            self.released = not self.held and self.limit is None
            self.held_by = None if self.released else order

    def follow(self, of_name: Orders) -> None:
        """What was ordered of a name holds for one more of it, as far as nothing was of this one.

        A mode that stands for many yields to what a hand ordered of the name, and to no other that
        acts more.
        """
        own = self.mode_by is not None and not self.borrowed
        if not own and of_name.overrides(self.mode):
            self.mode, self.mode_by = of_name.mode, of_name.mode_by
            self.mode_time = of_name.mode_time
        if self.borrowed or (self.held_by is None and not self.released):
            self.held, self.limit, self.unit = of_name.held, of_name.limit, of_name.unit
            self.held_by = of_name.held_by

    def heed(self, other: Orders) -> bool:
        """Whether all that was ordered of another holds here."""
        if other.released and self.held_by is not None:
            return False
        return other.mode in (None, self.mode) and other.held_by in (None, self.held_by)

    def overrides(self, mode: Mode | None) -> bool:
        """Whether the mode of a name holds where another, or none, stands for one more of it."""
        if self.mode is None:
            return False
        if self.mode_by is not None or mode is None:
            return True
        return MODES.index(self.mode) <= MODES.index(mode)


class LastBatch(msgspec.Struct):
    """The batch that ended last."""

    id: int | None = None
    seconds: float | None = None
    rows: int | None = None
    limited: bool = False
    held_back: bool = False
    phases: dict[str, float] = {}
    planned_time: float | None = None
    end_time: float | None = None  # of the present run's
    progress_time: float | None = None  # when it ended, of whichever run


class Running(msgspec.Struct):
    """The batch that runs, as far as is known."""

    batch_id: int | None = None
    seconds: float | None = None
    heard_time: float | None = None  # driver's clock
    told_time: float | None = None  # agent's clock, of the last heartbeat that said so
    since_time: float | None = None  # agent's clock, of the first that named the batch
    free_time: float | None = None  # since when no batch is known to run; driver's clock
    open_batch_id: int | None = None  # begun by a run that ended before committing it

    def nothing(self) -> None:
        """No batch is running."""
        self.batch_id = self.seconds = self.heard_time = self.told_time = self.since_time = None

    def hear(self, before: tuple[str, int | None], run_id: str, now: float) -> None:
        """After a heartbeat: since when the agent has heard of the batch that runs.

        ``before``: the run and the batch that ran as far as was known before it.
        """
        if self.seconds is None:
            return
        told, self.told_time = self.told_time, now
        # One younger than the last word began after it: triggers that find nothing share an id.
        again = told is not None and self.seconds < now - told
        if again or self.since_time is None or before != (run_id, self.batch_id):
            self.since_time = now


class Flow(msgspec.Struct):
    """What comes, what is read, and what its time is spent on."""

    occupancy: Occupancy = msgspec.field(default_factory=Occupancy)
    between: Spent = "idle"  # what to call the time after a batch until the next word
    arrived_rows: float = 0.0
    lag: LagTable = msgspec.field(default_factory=LagTable)
    processed: DecayingRate = msgspec.field(default_factory=DecayingRate)
    watermark_time: float | None = None
    rested_time: float | None = None  # of the last trigger that found nothing to do


class Watched(msgspec.Struct):
    """What is judged of it beside its limit."""

    lag_window: LagWindow = msgspec.field(default_factory=LagWindow)
    monitor: Monitor = msgspec.field(default_factory=Monitor)
    spiral: Spiral = msgspec.field(default_factory=Spiral)
    lateness: Lateness = msgspec.field(default_factory=Lateness)
    failure: FailureView | None = None

    def begin_checkpoint(self) -> None:
        """Another query id: what was judged of the one before says nothing of it."""
        self.lag_window, self.monitor, self.spiral = LagWindow(), Monitor(), Spiral()


class Sizing(msgspec.Struct):
    """What its batches cost, and what was decided of their size."""

    cost: Cost = msgspec.field(default_factory=Cost)
    cold: Cold = msgspec.field(default_factory=Cold)
    reach: Reach = msgspec.field(default_factory=Reach)
    company: float | None = None  # of batches running, in which the cost was learned
    wanted_share: float = 0.0  # of its cycle that its next batches would run
    reason: str = "hold:missing"
    leaves_band: bool = False  # as the last batch let expect, a full one would be too long
    target_feasible: bool | None = None
    required_capacity_ratio: float | None = None
    unsteady_batches: int = 0  # in a row, during which executors came or went
    capacity_short_since_time: float | None = None  # it is above 1
    unstable_since_time: float | None = None  # more arrives than batches of the target digest
    decisions: list[Decision] = []
    work: Work = msgspec.field(default_factory=Work)
    need: Need | None = None  # of executors; None: not known
    need_time: float = 0.0  # when the last batch ended of which the stages were told
    untold_batches: int = 0  # with rows, since then

    def say_nothing(self) -> None:
        """Nothing is known of what is needed now; what was learned of its batches stays."""
        self.target_feasible = self.required_capacity_ratio = None
        self.capacity_short_since_time = self.unstable_since_time = self.need = None


class Query(msgspec.Struct):
    """A query by (application label, query label), over all its runs."""

    application: str
    query: str
    name_label: str = ""  # the query's own name as a label
    application_label: str = ""  # and its application's
    aside: bool = False  # under a name made for it, beside a live query of its own name
    run: Run = msgspec.field(default_factory=Run)
    #: Of its past runs, those in other applications that have not said their end: one may live on,
    #: as the checkpoint may have been copied.
    displaced: list[Run] = []
    life: Life = msgspec.field(default_factory=Life)
    clock: Clock = msgspec.field(default_factory=Clock)
    orders: Orders = msgspec.field(default_factory=Orders)
    batch: LastBatch = msgspec.field(default_factory=LastBatch)
    running: Running = msgspec.field(default_factory=Running)
    flow: Flow = msgspec.field(default_factory=Flow)
    watched: Watched = msgspec.field(default_factory=Watched)
    sizing: Sizing = msgspec.field(default_factory=Sizing)
    sources: list[Source] = []
    operators: list[Operator] = []
    totals: Totals = msgspec.field(default_factory=Totals)
    read: Reading | None = None  # of Kafka, where somebody asks for it

    @property
    def key(self) -> Key:
        """What its series belong to."""
        return self.application, self.query

    @property
    def cluster(self) -> Cluster:
        """What it runs on."""
        return self.run.application_id, self.run.host

    @property
    def own_key(self) -> Key:
        """The names it came with: its key is made for it where another one has them."""
        return self.application_label or self.application, self.name_label or self.query

    def take_over(self, application_id: str, query_id: str, now: float) -> None:
        """Before a run that was not known begins: the one whose place it takes may live on."""
        if query_id != self.run.query_id:
            live_on = {run.run_id for run in self.displaced}  # then as second ones of the name
            self.run.past_runs = [one for one in self.run.past_runs if one not in live_on]
            self.displaced = []
        elif not self.life.terminated and application_id != self.run.application_id:
            run = msgspec.structs.replace(self.run, displaced_time=now)
            self.displaced = [*self.displaced[-(MOST_PAST_RUNS - 1) :], run]

    def pass_by(self, query_id: str, run_id: str, time: float) -> None:
        """An event log tells, of ``time``, of a run: one that began before the present is over.

        Logs are read in any order.
        """
        run = self.run
        known = run_id in (run.run_id, *run.past_runs)
        if query_id == run.query_id and not known and time < run.begun_time:
            run.past_runs = [*run.past_runs[-(MOST_PAST_RUNS - 1) :], run_id]

    def ended_with_all_read(self) -> bool:
        """Whether its last run left nothing that waited: then no batch of it is open either."""
        stopped = self.life.terminated and self.life.stopped
        none_left = self.running.open_batch_id is None and not self.left_rows()
        return stopped and self.run.batches > 0 and none_left

    def begin_run(self, query_id: str, run_id: str, time: float) -> None:
        """A run that was not known: what one run counts starts anew, what is learned stays."""
        if query_id != self.run.query_id:
            self.batch.id = None  # a new checkpoint counts its batches from 0
            self.read = None
            self.running.open_batch_id = None
            self.flow.watermark_time = None
            self.watched.lateness = self.watched.lateness.begin_checkpoint()
            for source in self.sources:
                source.lanes = None
        elif self.running.batch_id is not None and not self.life.terminated:
            self.running.open_batch_id = self.running.batch_id  # died without a word
        if self.read is not None:
            self.read = msgspec.structs.replace(self.read, planned={})  # no run has it in hand
        # A run of another checkpoint that only fell silent may live: it would be a second query.
        if self.run.run_id and (query_id == self.run.query_id or self.life.terminated):
            self.run.past_runs = [*self.run.past_runs[-(MOST_PAST_RUNS - 1) :], self.run.run_id]
        if not self.life.stopped:
            self.run.first_alone = False  # what broke off says nothing of how many it has
        self.run.query_id, self.run.run_id = query_id, run_id
        self.life.begin()
        self.run.batches, self.run.has_read, self.run.untold_batches = 0, False, 0
        self.run.took_less = False
        self.run.starts = []  # it may have another trigger
        self.watched.lateness.begin_run()
        self.running.nothing()
        self.batch.end_time, self.flow.between = None, "idle"
        self.flow.occupancy.begin(time)
        self.flow.lag = LagTable()
        self.flow.arrived_rows = 0.0
        for source in self.sources:
            source.begin_run()

    @property
    def reads_on(self) -> bool:
        """Whether it is further than it has told: it lives, and reads rows as they come.

        In real-time mode a batch says at its end how far it came.
        """
        return self.run.as_they_come and self.life.gone_since_time is None

    def main_source(self) -> Source | None:
        """The source whose limit stands for the query's: the controllable one read most."""
        candidates = self.controlled() or [s for s in self.sources if s.limit_known]
        if len(candidates) == 1:
            return candidates[0]
        return max(candidates, key=lambda s: s.rows or 0, default=None)

    def controlled(self) -> list[Source]:
        """The sources whose limits can be set while the query runs."""
        return [source for source in self.sources if source.controllable]

    def steered(self) -> list[Source]:
        """Those of them whose limits are worked out: the rows of their units are known.

        One never read from, or of which nobody tells what it takes, keeps the limit that it has.
        """
        return [source for source in self.controlled() if source.ratio is not None]

    def limit_rows(self) -> float | None:
        """Rows of a batch in which every source takes its limit; None: not limited, or not known.

        One that gives a batch nothing, and of which no more is known, does not count.
        """
        rows = 0.0
        for source in self.controlled():
            if source.ratio is None and source.backlog == 0:
                continue
            if source.current is None or source.ratio is None:
                return None
            rows += source.current * source.ratio
        return rows or None

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

    def left_behind_rows(self) -> float:
        """What waits, without what has arrived since the last batch was planned.

        Where brokers are asked, or files are listed while it runs, that is in the backlog: it is no
        more than what arrives, and counts as that.
        """
        left, planned_time = 0.0, self.batch.planned_time
        for source in self.sources:
            waiting, seen_time = source.backlog_rows, source.backlog_time
            if waiting and planned_time is not None and seen_time is not None:
                since = max(seen_time - planned_time, 0.0)
                waiting = max(waiting - (source.arrival_rows or 0.0) * since, 0.0)
            left += waiting or 0.0
        return left

    def arrival_rows(self) -> float | None:
        """Rows that arrive per second at all sources that tell; None where none does."""
        if len(self.sources) == 1:
            return self.sources[0].arrival_rows
        if self.untold():
            return None
        known = [rate for s in self.sources if (rate := s.arrival_rows) is not None]
        return sum(known) if known else None

    def incoming_rows(self) -> float | None:
        """As ``arrival_rows``, and as the last batch read of sources that nobody counts.

        These come beside what is limited, however much is.
        """
        arriving, seconds = self.arrival_rows(), self.batch.seconds
        if arriving is None or not seconds:
            return arriving
        cycle = max(seconds, self.run.trigger_seconds)
        rows = 0
        for source in self.sources:
            free = source.ratio is None or not source.controllable
            if free and source.arrival_rows is None:
                rows += source.rows or 0
        return arriving + rows / cycle

    def untold(self) -> bool:
        """Whether a log has rows of a source in this run, and never what waits there.

        What arrives at the others is then a part of all that does, and nobody knows which.
        """
        return any(source.untold and source.admitted_total for source in self.sources)

    def arrival_at_rest_rows(self) -> float:
        """Rows that arrive per second while no batch runs.

        Of a source that tells no backlog the rate is that of its batches, and none lowers it now.
        """
        return sum([s.arrival_rows or 0.0 for s in self.sources if s.backlog_rows is not None])

    def rests(self) -> bool:
        """Whether no batch runs and nothing waits, as far as is known."""
        running = self.running.batch_id is not None or self.running.seconds is not None
        return not running and not self.backlog_rows()

    def rests_seconds(self) -> float:
        """So long it reads nothing between two batches, and goes on; 0 where it is gone."""
        if self.life.gone_since_time is not None:
            return 0.0
        lately = self.watched.monitor.usual
        return max(self.run.trigger_seconds, self.batch.seconds or 0.0, *lately, 0.0)

    def pressing_rows(self, time: float) -> float:
        """Rows per second that must be read for retention to delete none unread; 0: none known."""
        return sum([source.pressing_at(time) for source in self.sources])

    def went_on(self) -> bool:
        """Whether the last batch took of a source what need not hold rows, or none that Spark told.

        Offsets of deleted rows, empty files; what is joined with a cached table, or read by another
        engine than Spark's, of which Spark 3.5 tells no row (SPARK-24050).
        """
        return any(source.admitted and not source.guessed for source in self.sources)

    def holds_back(self) -> bool:
        """Whether a limit holds back more than the next batch takes, as far as is known now."""
        return any(s.limit is not None and (s.backlog or 0) > s.limit for s in self.sources)

    def member(self, policy: Policy, busy_share: float) -> Member:
        """As another query of its application sees it: what it uses, or would with its backlog."""
        use = busy_share
        if (self.backlog_rows() or 0.0) > 0.0:
            use = max(use, self.sizing.wanted_share)
        granted = self.mode(policy) == "on" and bool(self.controlled())
        return Member(use, self.sizing.company or 1.0, granted)

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
        gone = {name for index, name in known.items() if places.get(index, "") != name}
        if all(
            known.get(index, "") == name or (not known.get(index) and name not in gone)
            for index, name in places.items()
        ):
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
        if any(now is not before for now, before in zip(moved, self.sources, strict=True)):
            self.read = None  # it is by their places
        self.sources = moved

    def settings(self, policy: Policy) -> QueryPolicy:
        """What the configuration says of it, by the name of its series and by its own.

        With a target that its sink's quota allows.
        """
        least = self.run.least_target_seconds
        if not policy.rules and not least:
            return policy.default
        return policy.of(*self.key, self.own_key, least)

    def mode(self, policy: Policy) -> Mode:
        """The mode that holds: an operator's order, else the configured one."""
        return self.orders.mode or self.settings(policy).mode
