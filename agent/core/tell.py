"""Tell: a query's state as one judged line, and as one view for every exporter.

Nothing is learned or decided here. What follows from several parts at once is put together: how far
behind a query is, and when what waits will be committed, in whole batches as Spark reads them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.decide import limits as decide
from agent.core.decode.events import MOST_SECONDS
from agent.core.judge import attention, batch_ends, lateness, spiral, starved, watch
from agent.core.judge.advice import Costs, Kept, StateCost, advise
from agent.core.judge.alignment import AlignmentView
from agent.core.judgement import (
    UNJUDGED,
    CheckpointView,
    Decision,
    Facts,
    Judgement,
    LagState,
    LimitView,
    OperatorView,
    Point,
    QueryStateName,
    QueryView,
    SourceView,
    SpiralView,
    Totals,
)
from agent.core.measure.flow import looks_once
from spark_listener.wire import format_time

if TYPE_CHECKING:
    from agent.core.policy import Policy
    from agent.core.query import Query

#: Without a deadline a batch counts as hung after this many times the target, the last batches and
#: what its rows should take.
HUNG_FACTOR: Final = 6.0
HUNG_SECONDS: Final = 30.0


def _unseen_rows(query: Query, time: float) -> float:
    """The backlog between events: what is estimated to arrive unseen while a batch runs.

    Counted from the start of the running batch, or from when the source was looked at since; at
    most what is known to have come in so long a time before, since a burst that is over does not
    go on. What brokers were asked for stands as they told it, as long as they are believed.
    """
    if query.running.seconds is None or query.running.heard_time is None:
        return 0.0
    began = query.running.heard_time - query.running.seconds
    unseen = longest = 0.0
    for source in query.sources:
        if time <= source.asked_until_time:
            continue
        age = max(0.0, time - max(began, source.backlog_time or began))
        unseen += (source.arrival_rows or 0.0) * age
        longest = max(longest, age)
    return min(unseen, query.flow.lag.lately_rows(longest))


def _backlog_seconds(query: Query, time: float) -> float | None:
    backlog = query.backlog_rows()
    if backlog is None:
        return None
    admitted = max(query.flow.arrived_rows, backlog) - backlog
    return query.flow.lag.unread_seconds(admitted, time) if backlog else 0.0


def _state(query: Query, running_seconds: float | None, policy: Policy) -> QueryStateName:
    if query.life.terminated:
        return "terminated"
    if running_seconds is None:
        return "busy" if query.run.continuous else query.flow.between
    if _hangs(query, running_seconds, policy):
        return "stalled"
    return "backpressured" if query.holds_back() else "busy"


def _hangs(query: Query, running_seconds: float, policy: Policy) -> bool:
    """Whether a batch of that age counts as hung: past its deadline, or what it should take."""
    settings, age = query.settings(policy), query.run.beyond(running_seconds)
    if settings.deadline_seconds is not None:
        return age > settings.deadline_seconds
    # The shorter of the last two, as one may have sat out an outage; of two in all the longer.
    lately = query.watched.monitor.usual
    last = min(lately[-2:]) if len(lately) > 2 else max(lately, default=0.0)
    usual = max(settings.target_seconds, query.run.beyond(last))
    if age <= max(HUNG_SECONDS, HUNG_FACTOR * usual):
        return False
    # A sink that compacts its log with every tenth batch: where two took so long, one more does.
    longest = sorted([batch.seconds for batch in query.watched.spiral.batches])[-2:]
    if len(longest) == 2 and age <= attention.LATE_TARGETS * query.run.beyond(longest[0]):
        return False
    # After a pause, or where more arrives, a batch without a limit is larger than the last one.
    return age > HUNG_FACTOR * (_should_take(query) or 0.0)


def _should_take(query: Query) -> float | None:
    """Seconds of the running batch, by what waited when it was planned; None: not known."""
    running, batches, cost = query.running, query.watched.spiral.batches, query.sizing.cost
    if running.heard_time is None or running.seconds is None or not cost.batches:
        return None
    if query.run.as_they_come:
        return None  # its cost is of runs that were not
    if running.batch_id is not None and running.batch_id == running.open_batch_id:
        return None  # it reads what it read before, whatever has come since
    planned_time = running.heard_time - running.seconds
    there = spiral.waiting_rows(batches, planned_time, query.flow.rested_time)
    if there is None:
        return None
    limit = query.limit_rows()
    return cost.least_seconds(there if limit is None else min(there, limit))


def _limit_view(query: Query) -> LimitView:
    main = query.main_source()
    if main is None:
        return LimitView(reason=query.sizing.reason, target_feasible=query.sizing.target_feasible)
    return LimitView(
        main.unit, main.limit, main.next, query.sizing.reason, query.sizing.target_feasible
    )


def _checkpoint_view(query: Query, policy: Policy, age: float | None) -> CheckpointView:
    monitor = query.watched.monitor
    configured = query.settings(policy).deadline_seconds
    # As it is told it counts from a batch's begin: no such figure is right in real-time mode.
    deadline = None if query.run.as_they_come else monitor.deadline(configured)
    return CheckpointView(
        seconds=monitor.seconds,
        phases=query.batch.phases,
        deadline_seconds=deadline,
        eta_seconds=monitor.eta_seconds(age, deadline, query.watched.spiral.eta_seconds),
        failures_consecutive=monitor.failures_consecutive,
        interval_seconds=monitor.interval_seconds,
        pause_seconds=monitor.pause_seconds,
        bytes=monitor.bytes,
        deadline_learned=configured is None and deadline is not None,
        in_progress_batch_id=None if age is None else query.running.batch_id,
        in_progress_seconds=age,
    )


def _spiral_view(query: Query, lag: LagState) -> SpiralView:
    phase = watch.spiral_phase(query, lag)
    return SpiralView(
        phase=phase,
        gain=watch.spiral_gain(query, phase),
        replay_amplification=query.watched.spiral.replay_amplification,
        evidence=watch.spiral_evidence(query, phase),
        lead_batches=query.watched.spiral.eta_batches if phase == "spiralling" else None,
    )


def judgement(
    query: Query, kind: str, time: float, policy: Policy, state: QueryStateName | None = None
) -> Judgement:
    """What is known right after an event at ``time``."""
    told = state or _state(query, query.running.seconds, policy)
    backlog_seconds, known = _backlog_seconds(query, time), decide.capacity_known(query)
    lag = watch.lag(query, backlog_seconds, policy, stalled=told == "stalled")
    return Judgement(
        time=format_time(time),
        application=query.application,
        query=query.query,
        batch_id=query.running.batch_id if kind == "heartbeat" else query.batch.id,
        event=kind,
        backlog_rows=query.backlog_rows(),
        backlog_seconds=backlog_seconds,
        lag_state=lag,
        state=told,
        pressure=query.flow.occupancy.pressure,
        throughput_rows_per_second=query.sizing.cost.throughput if known else None,
        fixed_cost_seconds=query.sizing.cost.fixed_cost if known else None,
        arrival_rows_per_second=query.arrival_rows(),
        limit=_limit_view(query),
        checkpoint=_checkpoint_view(query, policy, query.running.seconds),
        spiral=_spiral_view(query, lag),
        failure=query.watched.failure if kind == "terminated" else None,
    )


def point(query: Query, policy: Policy) -> Point:
    """The batch that has just ended, as plots show it.

    With the limit in force, and with what Weir would set where it only decides. Its time is by a
    clock that is never set, so that the times of all points ascend.
    """
    main = query.main_source()
    credits_rows = [
        (source.exclusive_rows or 0.0) + (source.floating_rows or 0.0)
        for source in query.sources
        if source.exclusive_rows is not None or source.floating_rows is not None
    ]
    return Point(
        time=query.batch.progress_time or 0.0,
        batch_seconds=query.batch.seconds,
        rows=query.batch.rows or 0,
        backlog_rows=query.left_rows(),
        limit=None if main is None else main.limit,
        credit_rows=sum(credits_rows) if credits_rows else None,
        limited=query.batch.limited,
        would_be_limit=(
            main.decided_limit
            if main is not None and main.decided and query.mode(policy) == "dry-run"
            else None
        ),
    )


def facts(query: Query, policy: Policy) -> Facts:
    """What the consistency audit looks at."""
    return Facts(
        application=query.application,
        query=query.query,
        query_id=query.run.query_id,
        run_id=query.run.run_id,
        up=not query.life.terminated and query.life.gone_since_time is None,
        sink=query.run.sink,
        sources=tuple(source.description for source in query.sources),
        checkpoint_location=query.run.checkpoint_location,
        conf=query.run.conf,
        deadline_seconds=query.settings(policy).deadline_seconds,
        trigger=query.run.trigger,
    )


def running_age(query: Query, now: float) -> float | None:
    """Seconds the running batch has run at the agent's ``now``; None where none runs."""
    if query.running.seconds is None or query.running.told_time is None:
        return None
    return query.running.seconds + max(0.0, now - query.running.told_time)


def _gone_since(query: Query, policy: Policy) -> float | None:
    """Since when it does not run, agent's clock; None: it runs.

    Of one that fell silent, when it had been for too long: an agent that was away finds it later.
    """
    life, gone = query.life, query.life.gone_since_time
    if gone is None or life.terminated:
        return gone
    return min(gone, life.heard_time + policy.silent_seconds)


def view(
    query: Query,
    policy: Policy,
    now: float,
    alignment: AlignmentView | None = None,
    *,
    growing: bool = False,
) -> QueryView:
    """Everything for the exporters, at the agent's ``now``; ``alignment`` where it was asked.

    ``growing``: what ``attention.grows`` says of its last batches, which only the service keeps.
    """
    settings = query.settings(policy)
    by_rows = not query.run.as_they_come  # else a batch is held against neither figure
    driver_now = now - query.clock.skew_seconds
    up = not query.life.terminated and query.life.gone_since_time is None
    age = running_age(query, now) if up else None
    controlled, known = bool(query.controlled()), decide.capacity_known(query)
    arrival = query.arrival_rows()
    seen = query.backlog_rows()
    unseen = 0.0 if seen is None else _unseen_rows(query, driver_now)
    backlog = None if seen is None else seen + unseen
    state = _state(query, age, policy)
    backlog_seconds = _backlog_seconds(query, driver_now)
    lag = watch.lag(query, backlog_seconds, policy, stalled=state == "stalled")
    told = QueryView(
        application=query.application,
        query=query.query,
        application_id=query.run.application_id,
        spark_version=query.run.spark_version,
        query_id=query.run.query_id,
        run_id=query.run.run_id,
        trigger=query.run.trigger,
        control=_control(query),
        output_mode=query.run.output_mode,
        sink=query.run.sink,
        checkpoint_location=query.run.checkpoint_location,
        ui_url=query.run.ui_url,
        up=up,
        gone_since_time=_gone_since(query, policy),
        mode=query.mode(policy),
        held=query.orders.held,
        manual_limit=query.orders.limit,
        state=state,
        pressure=query.flow.occupancy.pressure,
        pressure_ratio=query.flow.occupancy.ratio,
        lag_state=lag,
        last_event_time=query.clock.as_driver_says(query.clock.last_event_time),
        last_progress_time=query.clock.as_driver_says(query.batch.progress_time),
        batch_id=query.batch.id,
        batch_seconds=query.batch.seconds,
        batch_rows=query.batch.rows,
        batch_limited=query.batch.limited,
        running_batch_id=query.running.batch_id if up else None,
        running_seconds=age,
        target_seconds=settings.target_seconds if by_rows else None,
        deadline_seconds=settings.deadline_seconds if by_rows else None,
        target_feasible=query.sizing.target_feasible,
        required_capacity_ratio=query.sizing.required_capacity_ratio,
        capacity_short_since_time=query.clock.as_driver_says(
            query.sizing.capacity_short_since_time
        ),
        throughput_rows_per_second=query.sizing.cost.throughput if known else None,
        fixed_cost_seconds=query.sizing.cost.fixed_cost if known else None,
        arrival_rows_per_second=arrival,
        processed_rows_per_second=query.flow.processed.value,
        backlog_rows=backlog,
        backlog_unseen_rows=unseen,
        backlog_seconds=backlog_seconds,
        estimated_time_to_consume_seconds=time_to_consume(query, backlog),
        watermark_lag_seconds=(
            None
            if query.flow.watermark_time is None or query.batch.progress_time is None
            else max(
                0.0,
                query.batch.progress_time - query.clock.set_seconds - query.flow.watermark_time,
            )
        ),
        limit=_limit_view(query),
        checkpoint=_checkpoint_view(query, policy, age),
        spiral=_spiral_view(query, lag),
        failure=query.watched.failure,
        sources=_source_views(query, policy),
        operators=[
            OperatorView(
                index,
                o.name,
                o.rows,
                o.bytes,
                o.commit_seconds,
                o.dropped_rows_total,
                o.commit_phases,
                o.snapshot_lag_versions,
            )
            for index, o in enumerate(query.operators)
        ],
        totals=_totals(query),
        decisions=_decisions(query),
        attention=UNJUDGED,
        history=[],
        missing=_missing(query),
        alignment=alignment or AlignmentView(),
        advice=[*_of_an_order(query), *advise(_costs(query), alignment)],
        findings=[
            *lateness.findings(query.watched.lateness, settings.late_rows, controlled=controlled),
            *batch_ends.findings(
                [one.name for one in query.operators],
                query.run.sink,
                controlled=controlled,
                ends=looks_once(query),
                target_seconds=settings.target_seconds,
            ),
        ],
        late_rows_held=(
            query.watched.lateness.went_back(settings.late_rows)
            if query.watched.lateness.drops
            else None
        ),
        lateness_seconds=query.watched.lateness.seconds,
        watermark_delay_seconds=query.watched.lateness.delay_seconds,
        held_by=query.orders.held_by,
        mode_by=query.orders.mode_by,
        mode_overridden=query.orders.mode not in (None, settings.mode),
        mode_since_time=query.orders.mode_since_time,
        stopped=query.life.terminated and query.life.stopped,
        manual_unit=query.orders.unit,
    )
    clock_seconds = query.clock.skew_seconds + query.clock.set_seconds
    return attention.judged(told, now, growing=growing, clock_seconds=clock_seconds)


def _decisions(query: Query) -> list[Decision]:
    set_seconds = query.clock.set_seconds
    if not set_seconds:
        return query.sizing.decisions
    return [
        msgspec.structs.replace(one, time=one.time - set_seconds) for one in query.sizing.decisions
    ]


def _of_an_order(query: Query) -> list[str]:
    said = starved.advice(query)
    return [] if said is None else [said]


def _costs(query: Query) -> Costs:
    """Where the last batch spent its time."""
    stuck = query.watched.spiral
    return Costs(
        batch_seconds=query.batch.seconds,
        phases=query.batch.phases,
        operators=[
            StateCost(o.name, o.commit_seconds, o.partitions, o.commit_phases)
            for o in query.operators
        ],
        sink=query.run.sink,
        trigger=query.run.trigger,
        conf=query.run.conf,
        spark_version=query.run.spark_version,
        limited=query.batch.limited,
        asynchronous=query.watched.monitor.asynchronous,
        stuck_batch_id=stuck.open_batch_id if stuck.open_timeouts else None,
        lost_batch_id=stuck.open_batch_id if stuck.dead and not stuck.open_timeouts else None,
        slots=query.run.slots,
        fixed_seconds=query.sizing.cost.sure_fixed_seconds(query.batch.phases),
        kept=tuple(
            Kept(source.index, source.unit or "rows", source.configured, source.wanted_beyond)
            for source in query.sources
            if source.wanted_beyond is not None and source.configured is not None
        ),
    )


def _totals(query: Query) -> Totals:
    """The counters, with those that follow from others."""
    occupancy, batches = query.flow.occupancy, query.totals.batches
    return msgspec.structs.replace(
        query.totals,
        state_seconds={
            "busy": occupancy.busy_seconds,
            "idle": occupancy.idle_seconds,
            "backpressured": occupancy.backpressured_seconds,
        },
        checkpoints={
            "completed": batches.get("completed", 0) + batches.get("empty", 0),
            "failed": batches.get("failed", 0),
            "replayed": batches.get("replayed", 0),
        },
    )


def _source_views(query: Query, policy: Policy) -> list[SourceView]:
    granted = {grant.source: grant for grant in decide.grants(query, policy)}
    dry = query.mode(policy) == "dry-run"
    # Each reply renews what it carries, and each event has one.
    expires = query.clock.as_driver_says(query.clock.last_event_time)
    return [
        SourceView(
            index=source.index,
            description=source.description,
            unit=source.unit,
            control=source.control,
            note=source.note,
            obeyed=source.obeyed,
            backlog=source.backlog,
            backlog_bound=source.backlog_bound,
            limit=source.limit,
            limit_known=source.limit_known,
            configured=source.configured,
            granted=grant.limit if (grant := granted.get(source.index)) else None,
            grant_expires_time=None
            if grant is None or expires is None
            else expires + grant.seconds,
            exclusive_rows=source.exclusive_rows,
            floating_rows=source.floating_rows,
            rows=source.rows,
            rows_per_unit=source.ratio,
            arrival_rows_per_second=source.arrival_rows,
            would_be=source.decided_limit if dry and source.decided else None,
        )
        for source in query.sources
    ]


def time_to_consume(query: Query, backlog: float | None) -> float | None:
    """Seconds until what waits is committed, from the start of the next batch on.

    In whole batches at the limits in force, each with its fixed cost, while more arrives as it does
    now. None: unknown, never, or later than any batch may end (``MOST_SECONDS``).
    """
    if backlog is None:
        return None
    if backlog == 0.0:
        return 0.0
    parts: list[tuple[float, float, float]] = []  # rows that wait, at most a batch, arrivals
    for source in query.sources:
        rows = backlog if len(query.sources) == 1 else source.backlog_rows
        if not rows:
            continue
        ratio = source.ratio
        if source.limit is not None and ratio is None:
            return None
        most = math.inf if source.limit is None else source.limit * (ratio or 1.0)
        parts.append((rows, most, source.arrival_rows or 0.0))
    seconds = query.sizing.cost.seconds(sum(min(rows, most) for rows, most, _ in parts))
    if seconds is None:
        return None
    cycle = max(seconds + query.sizing.cost.slow_seconds, query.run.trigger_seconds)
    before = 0  # batches until only one is left to do
    for rows, most, arrival in parts:
        if rows <= most:
            continue
        surplus = most - arrival * cycle
        if surplus <= 0.0:
            return None
        before = max(before, math.ceil((rows - most) / surplus))
    last = sum(
        min(most, max(0.0, rows - before * (most - arrival * cycle))) if before else rows
        for rows, most, arrival in parts
    )
    rest = query.sizing.cost.seconds(last)
    if rest is None or (whole := before * cycle + rest) > MOST_SECONDS:
        return None
    return whole


def _control(query: Query) -> str:
    """What the driver said at the start, before it knew the sources; then what they allow."""
    known = [source for source in query.sources if source.limit_known]
    if query.run.control == "live" and known and not any(s.control == "live" for s in known):
        return known[0].control
    return query.run.control


def _missing(query: Query) -> list[str]:
    """What cannot be told, and why, for people."""
    if query.batch.id is None:
        return ["no batch has ended since the agent first heard of this query"]
    said: list[str] = []
    unit = query.orders.unit
    if unit is not None and all(s.unit not in (None, unit) for s in query.sources):
        said.append(f"the limit set by hand is in {unit}; no source is limited in {unit} now")
    said += [
        f"source {s.index}: its backlog is unknown" for s in query.sources if s.backlog is None
    ]
    said += [
        f"source {s.index}: its limit cannot be changed live" + (f" ({s.note})" if s.note else "")
        for s in query.sources
        if not s.controllable
    ]
    if query.run.as_they_come:
        said.append("rows are read as they come: no batch tells the capacity")
    elif not decide.capacity_known(query):
        said.append("too few batches with rows to know the capacity")
    return said
