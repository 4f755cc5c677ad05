"""One query: events in, a judgement and grants out. Measure → judge → decide, in that order.

Everything it keeps is plain data, so that it can be saved after each event and go on elsewhere.
Time comes with the events and is the driver's; the agent's own clock enters only as ``now``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core import credit, sizing
from agent.core.capacity import Capacity, fixed_phase_seconds
from agent.core.decaying import DecayingRate
from agent.core.judgement import (
    CheckpointView,
    Decision,
    FailureView,
    Judgement,
    LimitView,
    Mode,
    OperatorView,
    QueryStateName,
    QueryView,
    SourceView,
    SpiralView,
    Totals,
)
from agent.core.lag_table import LagTable
from agent.core.names import first_line
from agent.core.occupancy import Occupancy
from agent.core.source import Source
from spark_listener.wire import format_time

if TYPE_CHECKING:
    from agent.core.decode import (
        IdleEvent,
        Progress,
        ProgressEvent,
        RunningQuery,
        SourceLimit,
        StartedEvent,
        TerminatedEvent,
    )
    from agent.core.policy import Policy, QueryPolicy

DURATION_BUCKETS_SECONDS: Final = (
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    1800.0,
)
MOST_DECISIONS: Final = 20
#: Batches learned before a configured limit is touched: Spark's first batch pays for code
#: generation, JIT and the state store's start.
LEARN_BATCHES: Final = 2
#: Once so much is known, the first batch of a run teaches nothing: it pays those costs again.
KNOWN_BATCHES: Final = 3
#: Without a deadline a batch counts as hung after this many times what it should take.
HUNG_FACTOR: Final = 6.0
HUNG_SECONDS: Final = 30.0
CHECKPOINT_PHASES: Final = (
    "walCommit",
    "getBatch",
    "queryPlanning",
    "addBatch",
    "commitBatch",
    "commitOffsets",
)
_INTERVAL = re.compile(r"\((\d+)\)\s*$")


class Operator(msgspec.Struct):
    """State of one state operator as of its last batch."""

    name: str = ""
    rows: int | None = None
    bytes: int | None = None
    commit_seconds: float | None = None
    dropped_rows_total: int = 0


class Query(msgspec.Struct):
    """A query by (application label, query label), over all its runs."""

    application: str
    query: str
    name_label: str = ""  # the query's own name as a label
    application_id: str = ""
    spark_version: str = ""
    query_id: str = ""
    run_id: str = ""
    trigger: str = ""
    trigger_seconds: float = 0.0
    control: str = ""
    output_mode: str = ""
    sink: str = ""
    checkpoint_location: str = ""
    ui_url: str | None = None

    terminated: bool = False
    gone_since_time: float | None = None  # of the agent's clock
    heard_time: float = 0.0  # of the agent's clock
    clock_skew_seconds: float = 0.0  # agent's clock minus the driver's
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
    batch_end_time: float | None = None
    batches_of_run: int = 0
    phases: dict[str, float] = {}
    checkpoint_seconds: float | None = None
    checkpoint_interval_seconds: float | None = None
    running_batch_id: int | None = None
    running_seconds: float | None = None
    running_heard_time: float | None = None  # driver's clock
    open_batch_id: int | None = None  # begun by a run that ended before committing it
    failures_consecutive: int = 0
    failure: FailureView | None = None

    capacity: Capacity = msgspec.field(default_factory=Capacity)
    size: sizing.SizeEstimate = msgspec.field(default_factory=sizing.SizeEstimate)
    size_target_seconds: float | None = None
    occupancy: Occupancy = msgspec.field(default_factory=Occupancy)
    lag: LagTable = msgspec.field(default_factory=LagTable)
    arrived_rows: float = 0.0
    processed: DecayingRate = msgspec.field(default_factory=DecayingRate)
    watermark_time: float | None = None
    sources: list[Source] = []
    operators: list[Operator] = []
    totals: Totals = msgspec.field(default_factory=Totals)
    decisions: list[Decision] = []
    reason: str = "hold:missing"
    target_feasible: bool | None = None
    required_capacity_ratio: float | None = None

    # -- measure ------------------------------------------------------------------------------

    def hear_time(self, time: float, now: float) -> None:
        """Any event: it is alive. ``time`` is the driver's, ``now`` the agent's."""
        self.heard_time = now
        if self.last_event_time is None or time >= self.last_event_time:
            self.last_event_time = time
            self.clock_skew_seconds = now - time

    def begin_run(self, query_id: str, run_id: str, time: float) -> None:
        """A run that was not known: what one run counts starts anew, what is learned stays."""
        if query_id != self.query_id:
            self.batch_id = None  # a new checkpoint counts its batches from 0
            self.open_batch_id = None
        elif self.running_batch_id is not None and not self.terminated:
            self.open_batch_id = self.running_batch_id  # died without a word
        self.query_id, self.run_id = query_id, run_id
        self.terminated, self.gone_since_time = False, None
        self.batches_of_run = 0
        self.running_batch_id = self.running_seconds = self.running_heard_time = None
        self.batch_end_time = None
        self.occupancy.begin(time)
        self.lag = LagTable()
        self.arrived_rows = 0.0
        for source in self.sources:
            source.begin_run()

    def started(self, event: StartedEvent, time: float, policy: Policy) -> None:
        """A start, or the news of a query found running: limits its first batch if it can."""
        if event.run_id != self.run_id:
            self.begin_run(event.id, event.run_id, time)
        self.trigger = event.trigger
        self.trigger_seconds = trigger_seconds(event.trigger)
        self.control = event.control
        self.output_mode = event.output_mode
        self.sink = event.sink or self.sink
        self.checkpoint_location = event.checkpoint_location
        self.ui_url = event.ui_url
        self._limit_first_batch(time, policy)

    def idle(self, event: IdleEvent, time: float) -> None:
        """A trigger that found nothing to do."""
        if event.run_id != self.run_id:
            self.begin_run(event.id, event.run_id, time)
        self._rest(time)

    def _rest(self, time: float) -> None:
        self.occupancy.spend(time, "idle")
        self.running_batch_id = self.running_seconds = self.running_heard_time = None
        for source in self.sources:
            source.nothing_arrived(time)
        if self._backlog_rows() == 0.0:
            self.lag.add(time, self.arrived_rows)

    def heartbeat(self, running: RunningQuery, time: float, policy: Policy) -> Judgement:
        """A sign of life between batches, with the running batch and its age."""
        if running.run_id != self.run_id:
            self.begin_run(running.id, running.run_id, time)
        known = self.batch_id is not None and running.batch_id is not None
        ended = known and (running.batch_id or 0) <= (self.batch_id or 0)
        if running.running_seconds is None or ended:
            self.running_batch_id = self.running_seconds = self.running_heard_time = None
            if running.running_seconds is None:
                self.occupancy.spend(time, "idle")
        else:
            self.running_batch_id = running.batch_id
            self.running_seconds = running.running_seconds
            self.running_heard_time = time
            self.occupancy.spend(time - running.running_seconds, "idle")
            self.occupancy.spend(time, "backpressured" if self._holds_back() else "busy")
        self._hear_limits(running.limits, None, policy, time)
        return self.judgement("heartbeat", time, policy)

    def progress(self, event: ProgressEvent, time: float, policy: Policy) -> Judgement:
        """A batch that ended: measure, learn, decide."""
        batch = event.progress
        if batch.run_id != self.run_id:
            self.begin_run(batch.id, batch.run_id, batch.time)
        settings = policy.of(self.application, self.query)
        self.sink = batch.sink or self.sink
        if batch.watermark_time is not None:
            self.watermark_time = batch.watermark_time
        if not _ran(batch):
            # Spark reports a trigger without data as progress, with the id of the next batch.
            self._hear_limits(event.limits, batch.time, policy, time)
            self._rest(time)
            return self.judgement("progress", time, policy, "idle")
        self._measure(batch, event.limits, policy, time)
        replayed = self._count(batch)
        changed = self._learn(batch, settings, replayed=replayed)
        self._decide(batch, settings, policy, time, replayed=replayed, changed=changed)
        spent: QueryStateName = "backpressured" if self.batch_limited else "busy"
        return self.judgement("progress", time, policy, spent)

    def _measure(
        self, batch: Progress, limits: list[SourceLimit], policy: Policy, time: float
    ) -> None:
        said = {item.source: item for item in limits}
        self._grow_sources(max(len(batch.sources), 1 + max(said, default=-1)), policy)
        fresh = 0.0
        for source in self.sources:
            part = batch.sources[source.index] if source.index < len(batch.sources) else None
            arrived = source.read(part, said.get(source.index), batch.time)
            fresh += arrived or 0.0
        self._adopt(time, policy)
        self.batch_limited = any(source.limited for source in self.sources)
        self.arrived_rows += fresh
        backlog = self._backlog_rows()
        if backlog is not None:
            seen = max((s.backlog_time or batch.time for s in self.sources), default=batch.time)
            self.lag.add(seen, max(self.arrived_rows, backlog))
            self.arrived_rows = max(self.arrived_rows, backlog)
        seconds = batch.seconds or 0.0
        self.occupancy.spend(batch.time, "idle")
        end = batch.time + seconds
        self.occupancy.spend(end, "backpressured" if self.batch_limited else "busy")
        since = self.batch_end_time
        if since is not None and end > since:
            self.checkpoint_interval_seconds = end - since
            if batch.rows is not None:
                self.processed.add(batch.rows, end - since, 60.0)
        self.batch_end_time = max(end, since or end)
        if self.running_batch_id is None or (batch.batch_id or 0) >= self.running_batch_id:
            self.running_batch_id = self.running_seconds = self.running_heard_time = None
        self.last_progress_time = end
        self.phases = batch.phases
        parts = [batch.phases[name] for name in CHECKPOINT_PHASES if name in batch.phases]
        self.checkpoint_seconds = sum(parts) if "walCommit" in batch.phases else None
        for index, operator in enumerate(batch.operators[: policy.max_operators]):
            if index == len(self.operators):
                self.operators.append(Operator())
            state = self.operators[index]
            state.name, state.rows = operator.name, operator.rows
            state.bytes, state.commit_seconds = operator.bytes, operator.commit_seconds
            state.dropped_rows_total += operator.dropped_rows or 0
            self.totals.watermark_dropped_rows += operator.dropped_rows or 0

    def _count(self, batch: Progress) -> bool:
        """Counts the batch; True where it ran before under another run."""
        totals = self.totals
        replayed = batch.batch_id is not None and (
            batch.batch_id == self.open_batch_id
            or (self.batch_id is not None and batch.batch_id <= self.batch_id)
        )
        if batch.batch_id is not None:
            self.batch_id = batch.batch_id
        self.open_batch_id = None
        self.batches_of_run += 1
        self.failures_consecutive, self.failure = 0, None
        self.batch_seconds, self.batch_rows = batch.seconds, batch.rows
        if replayed:
            _add(totals.batches, "replayed")
            totals.replayed_rows += batch.rows or 0
        _add(totals.batches, "empty" if batch.rows == 0 else "completed")
        totals.rows += batch.rows or 0
        for phase, seconds in batch.phases.items():
            totals.phase_seconds[phase] = totals.phase_seconds.get(phase, 0.0) + seconds
        if batch.seconds is not None:
            if not totals.duration_buckets:
                totals.duration_buckets = [0] * (len(DURATION_BUCKETS_SECONDS) + 1)
            totals.duration_buckets[_bucket(batch.seconds)] += 1
            totals.duration_sum_seconds += batch.seconds
        return replayed

    def _learn(self, batch: Progress, settings: QueryPolicy, *, replayed: bool) -> bool:
        if self.size_target_seconds not in (None, settings.target_seconds):
            self.size.retarget(settings.target_seconds / (self.size_target_seconds or 1.0))
        self.size_target_seconds = settings.target_seconds
        if not batch.rows or not batch.seconds or replayed:
            return False
        known = self.capacity.batches >= KNOWN_BATCHES
        if known and self.batches_of_run == 1:
            return False
        changed = self.capacity.learn(
            float(batch.rows), batch.seconds, fixed_phase_seconds(batch.phases)
        )
        fixed = self.capacity.fixed_cost or 0.0
        if self.batch_limited or fixed <= sizing.MOST_FIXED_SHARE * batch.seconds:
            self.size.learn(
                float(batch.rows),
                batch.seconds,
                target_seconds=settings.target_seconds,
                capacity=self.capacity,
                changed=changed,
            )
        return changed

    def terminate(
        self, event: TerminatedEvent, time: float, now: float, policy: Policy
    ) -> Judgement:
        """The end of a run."""
        if event.run_id != self.run_id:
            self.begin_run(event.id, event.run_id, time)
        self.occupancy.spend(time, "busy" if self.running_seconds is not None else "idle")
        self.open_batch_id = self.running_batch_id
        self.running_batch_id = self.running_seconds = self.running_heard_time = None
        self.terminated, self.gone_since_time = True, now
        if event.exception is not None:
            self.failures_consecutive += 1
            _add(self.totals.batches, "failed")
            _add(self.totals.failures, "unknown")
            if self.open_batch_id is None and self.batch_id is not None:
                self.open_batch_id = self.batch_id + 1
            self.failure = FailureView("unknown", first_line(event.exception))
        return self.judgement("terminated", time, policy)

    # -- sources and grants -------------------------------------------------------------------

    def _grow_sources(self, count: int, policy: Policy) -> None:
        while len(self.sources) < min(count, policy.max_sources):
            self.sources.append(Source(index=len(self.sources)))

    def _hear_limits(
        self, limits: list[SourceLimit], planned_time: float | None, policy: Policy, time: float
    ) -> None:
        self._grow_sources(1 + max((item.source for item in limits), default=-1), policy)
        for item in limits:
            if item.source < len(self.sources):
                self.sources[item.source].hear(item, planned_time)
        self._adopt(time, policy)

    def _adopt(self, time: float, policy: Policy) -> None:
        """Renews a limit found in force that nobody here decided: an agent before this one did."""
        if self._mode(policy) != "on":
            return
        for source in self.sources:
            if source.granted or not source.controllable or not source.limit_known:
                continue
            if source.limit is not None and source.limit != source.configured:
                source.grant(source.limit, "renew", time)

    def _mode(self, policy: Policy) -> Mode:
        return self.mode_order or policy.of(self.application, self.query).mode

    def _limit_first_batch(self, time: float, policy: Policy) -> None:
        """Grants for a run's first batch, from what earlier runs taught (design 5, point 5)."""
        if self._mode(policy) != "on":
            return
        if self.manual_limit is not None:
            self._grant_manual(time)
            return
        if self.held:
            return
        known = [s for s in self.sources if s.controllable and s.ratio is not None]
        settings = policy.of(self.application, self.query)
        size = self._size(settings)
        if size is None or not known or len(known) != len(self.sources):
            return
        credits_of = credit.share(size.rows, [None] * len(known))
        for source, share in zip(known, credits_of, strict=True):
            wanted = share.rows / (source.ratio or 1.0)
            limit = max(round(wanted), settings.minimum_limit, 1)
            if source.granted and source.grant_limit is not None:
                limit = min(limit, source.grant_limit)
            if settings.maximum_limit is not None:
                limit = min(limit, settings.maximum_limit)
            if settings.configured_is_ceiling and source.configured is not None:
                limit = min(limit, source.configured)
            self._act(source, limit, "first_batch", time, acted=True)

    def _grant_manual(self, time: float) -> None:
        for source in self.sources:
            if source.controllable and self.manual_unit in (None, source.unit):
                self._act(source, self.manual_limit, "manual", time, acted=True)
        self.reason = "manual"

    # -- decide -------------------------------------------------------------------------------

    def _size(self, settings: QueryPolicy) -> sizing.Size | None:
        limits = sizing.bounds(
            self.capacity,
            self.size.rows,
            self._arrival_rows(),
            self.trigger_seconds,
            settings,
        )
        self.required_capacity_ratio = limits.sustained_ratio
        size = sizing.choose(limits, self.capacity, settings)
        self.target_feasible = None if size is None else size.feasible
        return size

    def _decide(
        self,
        batch: Progress,
        settings: QueryPolicy,
        policy: Policy,
        time: float,
        *,
        replayed: bool,
        changed: bool,
    ) -> None:
        size = self._size(settings)
        mode = self._mode(policy)
        controlled = [source for source in self.sources if source.controllable]
        hold = self._hold(batch, mode, controlled, size, settings, replayed=replayed)
        if mode == "off" or hold is not None or size is None:
            self.reason = hold or "mode:off"
            if mode == "off":
                self._revert("mode:off", time)
            elif hold == "manual":
                self._grant_manual(time)
            elif hold in ("hold:operator", "hold:learning") and mode == "dry-run":
                self._revert("mode:dry-run", time)
            _add(self.totals.grants, self.reason)
            return
        if mode == "dry-run":
            self._revert("mode:dry-run", time)
        # What the sources out of reach take is not ours to share out.
        free = size.rows - sum(s.rows or 0 for s in self.sources if not s.controllable)
        needs = [self._need(source) for source in controlled]
        shares = credit.share(max(free, 1.0), needs)
        decided: list[tuple[Source, sizing.Step]] = []
        for source, part in zip(controlled, shares, strict=True):
            source.exclusive_rows, source.floating_rows = part.exclusive_rows, part.floating_rows
            ratio = source.ratio or 1.0
            decided.append(
                (
                    source,
                    sizing.step(
                        source.current,
                        part.rows / ratio,
                        constraint=size.reason,
                        limited=source.limited,
                        configured=source.configured,
                        policy=settings,
                    ),
                )
            )
        for source, next_step in decided:
            _add(self.totals.grants, next_step.reason)
            moved = next_step.limit != source.current
            if moved:
                detail = self._explain(batch, size, changed=changed)
                self._act(
                    source, next_step.limit, next_step.reason, time, mode == "on", detail=detail
                )
        main = self._main_source()
        self.reason = next(
            (next_step.reason for source, next_step in decided if source is main),
            "hold:no_control",
        )

    def _hold(
        self,
        batch: Progress,
        mode: Mode,
        controlled: list[Source],
        size: sizing.Size | None,
        settings: QueryPolicy,
        *,
        replayed: bool,
    ) -> str | None:
        """Why this batch leads to no decision; None where it does. The first that holds."""
        if mode == "off":
            return "mode:off"
        if not controlled:
            return "hold:no_control"
        if self.manual_limit is not None:
            return "manual" if mode == "on" else "hold:operator"
        if self.held:
            return "hold:operator"
        if batch.rows is None or batch.seconds is None:
            return "hold:missing"
        if batch.rows == 0:
            return "hold:empty"
        if replayed:
            return "hold:replayed"
        slow = batch.seconds > 1.5 * settings.target_seconds
        if size is None or (self.capacity.batches < LEARN_BATCHES and not slow):
            return "hold:learning"
        if any(source.ratio is None for source in controlled):
            return "hold:missing"
        return None

    def _need(self, source: Source) -> float | None:
        """Rows a source could use in the next batch: its backlog and what arrives meanwhile."""
        backlog = source.backlog_rows
        arriving = source.arrival_rows
        if backlog is None:
            return None
        return backlog + (arriving or 0.0) * (self.batch_seconds or 0.0)

    def _revert(self, reason: str, time: float) -> None:
        """Nothing of ours stays in force: the configured limit is granted until it is back."""
        for source in self.sources:
            if not source.controllable or not source.limit_known:
                continue
            if source.limit != source.configured:
                if not source.granted or source.grant_limit != source.configured:
                    self._act(source, source.configured, reason, time, acted=True)
            elif source.granted:
                source.withdraw()

    def _act(
        self,
        source: Source,
        limit: int | None,
        reason: str,
        time: float,
        acted: bool,
        *,
        detail: str = "",
    ) -> None:
        before = source.current
        if acted:
            source.grant(limit, reason, time)
        last = self.decisions[-1] if self.decisions else None
        again = last is not None and (last.source, last.after, last.reason, last.acted) == (
            source.index,
            limit,
            reason,
            acted,
        )
        if again or (acted and before == limit):
            return
        self.decisions = [
            *self.decisions[-(MOST_DECISIONS - 1) :],
            Decision(
                time,
                self.batch_id,
                source.index,
                source.unit or "rows",
                before,
                limit,
                reason,
                acted,
                detail,
            ),
        ]

    def _explain(self, batch: Progress, size: sizing.Size, *, changed: bool) -> str:
        """The figures behind a decision, in one sentence."""
        model = self.capacity
        parts = [
            f"{batch.rows} rows took {batch.seconds:.3g} s",
            f"model {model.fixed_cost or 0.0:.3g} s + rows / {model.throughput or 0.0:.4g}/s",
            f"{size.rows:.4g} rows wanted",
        ]
        arrival = self._arrival_rows()
        if size.reason == "floor:stability" and arrival is not None:
            parts.append(f"{arrival:.4g} rows arrive per second")
        if changed:
            parts.append("the cost of a batch has changed")
        return "; ".join(parts)

    def order_mode(self, mode: Mode | None, policy: Policy, time: float) -> None:
        """A mode set by hand; None goes back to the configured one. Acts at once."""
        self.mode_order = mode
        now_mode = self._mode(policy)
        if now_mode != "on":
            self._revert(f"mode:{now_mode}", time)
            self.reason = f"mode:{now_mode}"
        elif self.manual_limit is not None:
            self._grant_manual(time)

    def order_hold(self, time: float, policy: Policy) -> None:
        """Whatever is in force now stays."""
        self.held = True
        if self._mode(policy) == "on":
            for source in self.sources:
                if source.controllable and source.limit_known and not source.granted:
                    source.grant(source.limit, "hold:operator", time)
            self.reason = "hold:operator"

    def order_release(self) -> None:
        """The controller decides again, from the limit in force on."""
        self.held, self.manual_limit, self.manual_unit = False, None, None
        self.reason = "release"

    def check_unit(self, unit: str | None) -> None:
        """Raises ValueError where no source is limited in that unit."""
        units = sorted({source.unit for source in self.sources if source.unit is not None})
        if unit is not None and units and unit not in units:
            known = ", ".join(units)
            raise ValueError(f"unit: {self.query} has no source limited in {unit}, but in {known}")

    def order_limit(self, limit: int, unit: str | None, time: float, policy: Policy) -> None:
        """A limit set by hand, for each source of that unit."""
        self.manual_limit, self.manual_unit = limit, unit
        if self._mode(policy) == "on":
            self._grant_manual(time)

    # -- tell ---------------------------------------------------------------------------------

    def _main_source(self) -> Source | None:
        """The source whose limit stands for the query's: the controllable one read most."""
        candidates = [s for s in self.sources if s.controllable] or [
            s for s in self.sources if s.limit_known
        ]
        return max(candidates, key=lambda s: s.rows or 0, default=None)

    def _backlog_rows(self) -> float | None:
        known = [rows for s in self.sources if (rows := s.backlog_rows) is not None]
        return sum(known) if known else None

    def _arrival_rows(self) -> float | None:
        known = [rate for s in self.sources if (rate := s.arrival_rows) is not None]
        return sum(known) if known else None

    def _holds_back(self) -> bool:
        """Whether a limit holds back a backlog while a batch runs, as far as is known now."""
        return any(s.limit is not None and (s.backlog or 0) > 0 for s in self.sources)

    def _backlog_at(self, time: float) -> float | None:
        """The backlog between events: while a batch runs, what arrives adds to it unseen."""
        backlog = self._backlog_rows()
        if backlog is None or self.running_seconds is None or self.last_event_time is None:
            return backlog
        return backlog + (self._arrival_rows() or 0.0) * max(0.0, time - self.last_event_time)

    def _backlog_seconds(self, time: float) -> float | None:
        backlog = self._backlog_rows()
        if backlog is None:
            return None
        admitted = max(self.arrived_rows, backlog) - backlog
        return self.lag.age_seconds(admitted, time, self._arrival_rows()) if backlog else 0.0

    def _state(self, running_seconds: float | None, policy: Policy) -> QueryStateName:
        if self.terminated:
            return "terminated"
        if running_seconds is None:
            return "idle"
        if running_seconds > self.hung_after_seconds(policy):
            return "stalled"
        return "backpressured" if self._holds_back() else "busy"

    def hung_after_seconds(self, policy: Policy) -> float:
        """The age at which a running batch counts as hung."""
        settings = policy.of(self.application, self.query)
        if settings.deadline_seconds is not None:
            return settings.deadline_seconds
        usual = max(settings.target_seconds, self.batch_seconds or 0.0)
        return max(HUNG_SECONDS, HUNG_FACTOR * usual)

    def _limit_view(self) -> LimitView:
        main = self._main_source()
        if main is None:
            return LimitView(reason=self.reason, target_feasible=self.target_feasible)
        return LimitView(main.unit, main.limit, main.current, self.reason, self.target_feasible)

    def _checkpoint_view(self, deadline_seconds: float | None) -> CheckpointView:
        return CheckpointView(
            seconds=self.checkpoint_seconds,
            phases=self.phases,
            deadline_seconds=deadline_seconds,
            failures_consecutive=self.failures_consecutive,
            interval_seconds=self.checkpoint_interval_seconds,
        )

    def _spiral_view(self) -> SpiralView:
        committed = self.totals.rows
        attempted = committed + self.totals.replayed_rows
        return SpiralView(replay_amplification=attempted / committed if committed else 1.0)

    def judgement(
        self, kind: str, time: float, policy: Policy, state: QueryStateName | None = None
    ) -> Judgement:
        """What is known right after an event at ``time``."""
        return Judgement(
            time=format_time(time),
            application=self.application,
            query=self.query,
            batch_id=self.running_batch_id if kind == "heartbeat" else self.batch_id,
            event=kind,
            backlog_rows=self._backlog_rows(),
            backlog_seconds=self._backlog_seconds(time),
            lag_state="UNKNOWN",
            state=state or self._state(self.running_seconds, policy),
            pressure=self.occupancy.pressure,
            throughput_rows_per_second=self.capacity.throughput,
            fixed_cost_seconds=self.capacity.fixed_cost,
            arrival_rows_per_second=self._arrival_rows(),
            limit=self._limit_view(),
            checkpoint=self._checkpoint_view(
                policy.of(self.application, self.query).deadline_seconds
            ),
            spiral=self._spiral_view(),
            failure=self.failure if kind == "terminated" else None,
        )

    def running_age(self, now: float) -> float | None:
        """Seconds the running batch has run at the agent's ``now``; None where none runs."""
        if self.running_seconds is None or self.running_heard_time is None:
            return None
        return self.running_seconds + max(
            0.0, now - self.clock_skew_seconds - self.running_heard_time
        )

    def view(self, policy: Policy, now: float) -> QueryView:
        """Everything for the exporters, at the agent's ``now``."""
        settings = policy.of(self.application, self.query)
        driver_now = now - self.clock_skew_seconds
        up = not self.terminated and self.gone_since_time is None
        age = self.running_age(now) if up else None
        arrival = self._arrival_rows()
        backlog = self._backlog_at(driver_now)
        self._fill_totals()
        return QueryView(
            application=self.application,
            query=self.query,
            application_id=self.application_id,
            spark_version=self.spark_version,
            query_id=self.query_id,
            run_id=self.run_id,
            trigger=self.trigger,
            control=self.control,
            output_mode=self.output_mode,
            sink=self.sink,
            checkpoint_location=self.checkpoint_location,
            ui_url=self.ui_url,
            up=up,
            gone_since_time=self.gone_since_time,
            mode=self._mode(policy),
            held=self.held,
            manual_limit=self.manual_limit,
            state=self._state(age, policy),
            pressure=self.occupancy.pressure,
            pressure_ratio=self.occupancy.ratio,
            lag_state="UNKNOWN",
            last_event_time=self.last_event_time,
            last_progress_time=self.last_progress_time,
            batch_id=self.batch_id,
            batch_seconds=self.batch_seconds,
            batch_rows=self.batch_rows,
            batch_limited=self.batch_limited,
            running_batch_id=self.running_batch_id if up else None,
            running_seconds=age,
            target_seconds=settings.target_seconds,
            deadline_seconds=settings.deadline_seconds,
            target_feasible=self.target_feasible,
            required_capacity_ratio=self.required_capacity_ratio,
            throughput_rows_per_second=self.capacity.throughput,
            fixed_cost_seconds=self.capacity.fixed_cost,
            arrival_rows_per_second=arrival,
            processed_rows_per_second=self.processed.value,
            backlog_rows=backlog,
            backlog_seconds=self._backlog_seconds(driver_now),
            estimated_time_to_consume_seconds=self._time_to_consume(backlog, arrival),
            watermark_lag_seconds=(
                None
                if self.watermark_time is None or self.last_progress_time is None
                else max(0.0, self.last_progress_time - self.watermark_time)
            ),
            limit=self._limit_view(),
            checkpoint=self._checkpoint_view(settings.deadline_seconds),
            spiral=self._spiral_view(),
            failure=self.failure,
            sources=[self._source_view(source, policy) for source in self.sources],
            operators=[
                OperatorView(index, o.name, o.rows, o.bytes, o.commit_seconds, o.dropped_rows_total)
                for index, o in enumerate(self.operators)
            ],
            totals=self.totals,
            decisions=self.decisions,
            history=[],
            missing=self._missing(),
        )

    def _fill_totals(self) -> None:
        self.totals.state_seconds = {
            "busy": self.occupancy.busy_seconds,
            "idle": self.occupancy.idle_seconds,
            "backpressured": self.occupancy.backpressured_seconds,
        }

    def _source_view(self, source: Source, policy: Policy) -> SourceView:
        expires = None
        if source.granted and self.last_event_time is not None:
            expires = self.last_event_time + policy.grant_seconds  # each reply renews it
        return SourceView(
            index=source.index,
            description=source.description,
            unit=source.unit,
            control=source.control,
            note=source.note,
            backlog=source.backlog,
            backlog_bound=source.backlog_bound,
            limit=source.limit,
            limit_known=source.limit_known,
            configured=source.configured,
            granted=source.grant_limit if source.granted else None,
            grant_expires_time=expires,
            exclusive_rows=source.exclusive_rows,
            floating_rows=source.floating_rows,
            rows=source.rows,
            rows_per_unit=source.ratio,
            arrival_rows_per_second=source.arrival_rows,
        )

    def _time_to_consume(self, backlog: float | None, arrival: float | None) -> float | None:
        """Seconds until the backlog is gone at the present rates; None: unknown or never."""
        if backlog is None:
            return None
        if backlog == 0.0:
            return 0.0
        rows = self.size.rows
        seconds = None if rows is None else self.capacity.seconds(rows)
        if rows is None or not seconds:
            return None
        surplus = rows / max(seconds, self.trigger_seconds) - (arrival or 0.0)
        return backlog / surplus if surplus > 0.0 else None

    def _missing(self) -> list[str]:
        """What cannot be told, and why, for people."""
        if self.batch_id is None:
            return ["no batch has ended since the agent first heard of this query"]
        said: list[str] = []
        said += [
            f"source {s.index}: its backlog is unknown" for s in self.sources if s.backlog is None
        ]
        said += [
            f"source {s.index}: its limit cannot be changed live"
            + (f" ({s.note})" if s.note else "")
            for s in self.sources
            if not s.controllable
        ]
        if self.capacity.batches < LEARN_BATCHES:
            said.append("too few batches with rows to know the capacity")
        return said


def trigger_seconds(trigger: str) -> float:
    """The interval of ``ProcessingTimeTrigger(milliseconds)``; 0 for any other trigger."""
    if not trigger.startswith("ProcessingTime"):
        return 0.0
    found = _INTERVAL.search(trigger)
    return int(found.group(1)) / 1000.0 if found else 0.0


def _ran(batch: Progress) -> bool:
    """Whether a batch ran at all, rather than a trigger that found nothing."""
    if batch.rows:
        return True
    return not batch.phases or "addBatch" in batch.phases


def _bucket(seconds: float) -> int:
    for index, bound in enumerate(DURATION_BUCKETS_SECONDS):
        if seconds <= bound:
            return index
    return len(DURATION_BUCKETS_SECONDS)


def _add(counts: dict[str, int], key: str) -> None:
    counts[key] = counts.get(key, 0) + 1
