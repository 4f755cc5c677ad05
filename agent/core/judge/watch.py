"""Watch: what each event says of checkpoints, lag, the spiral and failures.

The judgements stand in modules of their own (``checkpoint``, ``lag_state``, ``spiral``,
``failure``) and know nothing of events; here events become their observations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.core.judge import spiral
from agent.core.judge.failure import cause as failure
from agent.core.judge.failure import stop
from agent.core.judge.failure.exception_text import chain_of
from agent.core.judge.lag_state import LagNow, LagPoint, floor_seconds, lag_state
from agent.core.judge.spiral import Batch, Limited, Surroundings
from agent.core.judgement import FailureView
from agent.core.measure.flow import looks_once
from agent.core.measure.state_store import Unsaved, unsaved
from spark_listener.wire import HEARTBEAT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.core.decode.events import OperatorProgress, StartedEvent, TerminatedEvent
    from agent.core.ended import Ended
    from agent.core.judgement import LagState, SpiralPhase
    from agent.core.measure.source import Source
    from agent.core.policy import Policy
    from agent.core.query import Query

#: A frame of ``ProgressReporter`` and ``ProgressContext``, as text.
_MAKES_PROGRESS: Final = ".finishTrigger"
#: Batches that end before a decision acts: the one that is planned already, and the one before it.
_OBEYED_BATCHES: Final = 2
#: An end this long after the deadline was not the supervisor's: nothing ran, or nobody heard.
LATEST_SHARE: Final = 1.5


def begins(query: Query, query_id: str, run_id: str, time: float, policy: Policy) -> None:
    """A run that is not known begins; the one before it may have ended without a word.

    That is no failure by itself: Python that is ended by SIGTERM says as little as one that is
    killed.
    """
    if query_id != query.run.query_id:
        query.watched.begin_checkpoint()
    elif not query.life.terminated and query.running.batch_id is not None:
        age = _running_age(query, time, most=HEARTBEAT_SECONDS)
        late = _is_late(query, age, policy, ran=True)
        _attempt_ended(query, query.running.batch_id, age, late=late)
    query.begin_run(query_id, run_id, time)
    query.run.output_mode = ""  # of the run before: what drops rows in one drops none in another
    query.watched.monitor.unsaved = {}
    query.watched.lag_window.begin_run()
    query.running.free_time = time


def started(query: Query, event: StartedEvent) -> None:
    """What a start says of how checkpoints are written."""
    if event.trigger:  # else it is an event log's, which tells no options either
        asynchronous = event.conf.get("asyncProgressTrackingEnabled") == "true"
        query.watched.monitor.asynchronous = asynchronous


def rests(query: Query, time: float) -> None:
    """No batch runs at ``time``."""
    query.running.free_time = max(time, query.running.free_time or time)


def found_nothing(query: Query) -> None:
    """A trigger of this run found nothing to do, so no batch is open any more.

    Spark runs one that was not committed before anything else.
    """
    if query.running.open_batch_id is not None or query.watched.spiral.open_batch_id is not None:
        query.running.open_batch_id = None
        query.watched.spiral.forget_open()
        query.watched.monitor.commit()


def quiet(query: Query, time: float) -> bool:
    """After a trigger that found nothing: whether it stays so, and growth is over."""
    paused = query.rests() and query.watched.spiral.paused(time)
    if paused:
        query.watched.spiral.rest()
    return paused


def rewind(query: Query, ended: Ended) -> None:
    """Before it is counted: whether the query went back behind what it had committed."""
    batch = ended.batch
    seen, places = query.watched.lag_window.positions, query.watched.lag_window.places
    # Logs that are written behind lose the last batches with the run: it begins further back.
    expected = query.watched.monitor.asynchronous and not query.run.batches
    for index, source in enumerate(batch.sources):
        if source.start is None and source.end is None:
            continue  # nobody tells
        before = seen.get(index)
        back = before is not None and source.start is not None and source.start < before
        if source.start_places < places.get(index, 0):
            back = False  # one was deleted, in a batch that nobody told of: sums tell nothing
        if back and not expected:
            query.watched.lag_window.rewind()
        if source.end is not None:
            seen[index] = source.end
            places[index] = len(source.offsets or ())
    last = query.batch.id
    if batch.batch_id is None or last is None or query.run.batches or expected:
        return
    if batch.batch_id < last:
        query.watched.lag_window.rewind()
    elif batch.batch_id == last and query.watched.spiral.open_batch_id != last:
        # Reported, and yet begun again: its commit was lost with the run that reported it. Nobody
        # ended it for its age.
        query.watched.spiral.end_attempt(last, timed_out=False)


def late_rows(query: Query, ended: Ended) -> None:
    """Whether rows of it fell late."""
    query.watched.lateness.observe(
        ended.batch,
        query.sources,
        replayed=ended.replayed,
        obeyed_seconds=max(
            _OBEYED_BATCHES * max(query.run.trigger_seconds, ended.settings.target_seconds),
            ended.batch.seconds or 0.0,
        ),
        rested_time=query.flow.rested_time,
        clock_time=query.clock.as_driver_says(ended.time),
        fixed=looks_once(query),
        complete=query.run.output_mode == "complete",
    )


def checkpoint(query: Query, ended: Ended) -> None:
    """Its commit, as a checkpoint."""
    batch = ended.batch
    query.batch.planned_time = batch.time
    query.running.free_time = batch.time + (batch.seconds or 0.0)
    told = [amount for operator in batch.operators if (amount := operator.copied_bytes) is not None]
    query.watched.monitor.complete(
        batch.time, batch.seconds, batch.phases, sum(told) if told else None
    )
    if batch.batch_id is not None:
        _snapshots(query, batch.operators, batch.batch_id)


def _snapshots(query: Query, operators: Sequence[OperatorProgress], batch_id: int) -> None:
    """Of a store with no snapshot since an executor opened it: it lags by that many batches."""
    before, now = query.watched.monitor.unsaved, dict[int, Unsaved]()
    for place, (state, told) in enumerate(zip(query.operators, operators, strict=False)):
        # State without keys is all in one partition, and Spark tells of the others as well.
        if told.stores is None or told.stores < (told.partitions or 0):
            continue
        one = unsaved(told.metrics, before.get(place), batch_id)
        if one is None:
            continue
        now[place] = one
        behind = batch_id + 1 - one.since_batch_id
        state.snapshot_lag_versions = max(behind, state.snapshot_lag_versions or 0)
    query.watched.monitor.unsaved = now


def backlog_left(query: Query, ended: Ended) -> None:
    """What it left behind: batch by batch, not what came since."""
    batch, rows = ended.batch, ended.batch.rows
    if rows == 0 and query.went_on():
        rows = None
    query.watched.lag_window.add(LagPoint(batch.time, rows, query.left_rows()))


def growth(query: Query, ended: Ended) -> None:
    """Whether batches are on their way into the deadline."""
    batch, backlog = ended.batch, query.left_rows()
    limits = [source.in_rows(source.batch_limit) for source in query.sources]
    limit_rows = _sum_of_known(limits) if _any_reached(query, limits) else None
    before = query.watched.spiral.batches[-1] if query.watched.spiral.batches else None
    if before is not None and limit_rows == before.limit_rows:
        limit_rows = before.limit_rows  # one number kept, not one for each batch
    if before is not None and backlog == before.backlog_rows:
        backlog = before.backlog_rows
    if batch.rows and batch.seconds and not query.run.as_they_come:
        query.watched.spiral.commit(
            Batch(batch.time, batch.seconds, float(batch.rows), limit_rows, backlog)
        )
    else:
        query.watched.spiral.replay_timed_out = False
        if batch.batch_id is not None and batch.batch_id == query.watched.spiral.open_batch_id:
            query.watched.spiral.forget_open()
        if batch.rows == 0 and not query.went_on():
            # A query with timers runs one at each trigger, and so has none that finds nothing.
            quiet(query, batch.time + (batch.seconds or 0.0))
        return
    spiral.judge(query.watched.spiral, _surroundings(query, ended.policy))


def runs(query: Query, time: float, policy: Policy) -> None:
    """A batch runs at ``time``, and how long it has is known."""
    age = query.running.seconds
    if age is None or query.run.as_they_come:
        return
    spiral.runs_long(
        query.watched.spiral,
        _surroundings(query, policy),
        planned_time=time - age,
        age_seconds=age,
        rested_time=query.flow.rested_time,
    )


def _surroundings(query: Query, policy: Policy) -> Surroundings:
    """What its next batches work under."""
    settings = query.settings(policy)
    limits = [source.in_rows(source.limit) for source in query.sources]
    return Surroundings(
        deadline_seconds=query.watched.monitor.deadline(settings.deadline_seconds),
        target_seconds=settings.target_seconds,
        trigger_seconds=query.run.trigger_seconds,
        limit_rows=_sum_of_known(limits),
        sigma=query.sizing.cost.cautious_sigma,
        free_rows_per_second=sum([source.arrival_rows or 0.0 for source in _free(query, limits)]),
        held=_held(query, limits),
    )


def _held(query: Query, limits: list[float | None]) -> tuple[Limited, ...]:
    """What waits at each of several sources with limits: none of it passes by another's."""
    pairs = zip(query.sources, limits, strict=True)
    held = [(source, limit) for source, limit in pairs if limit is not None]
    if len(held) < 2 or any(source.left_rows is None for source, _ in held):
        return ()
    return tuple(
        Limited(source.left_rows or 0.0, source.arrival_rows or 0.0, limit)
        for source, limit in held
    )


def _sum_of_known(limits: list[float | None]) -> float | None:
    known = [limit for limit in limits if limit is not None]
    return sum(known) if known else None


def _any_reached(query: Query, limits: list[float | None]) -> bool:
    """Whether a source of the batch took as much as its limit let it.

    By each source's own: a small limit makes no difference to the sum of all.
    """
    return any(
        limit is not None and (source.limited or (source.rows or 0) >= spiral.REACHED * limit)
        for source, limit in zip(query.sources, limits, strict=True)
    )


def _free(query: Query, limits: list[float | None]) -> list[Source]:
    """The sources that no limit holds: a batch takes all that they have, whatever else it reads."""
    return [source for source, limit in zip(query.sources, limits, strict=True) if limit is None]


def ends(query: Query, event: TerminatedEvent, time: float, policy: Policy) -> None:
    """A run ended, and said so. Before the query forgets what was running.

    A batch that nobody heard of may have been under way: what failed or was ended at the deadline
    had begun the next one, but for a configuration that lets none begin.
    """
    settings = query.settings(policy)
    began = query.running.batch_id is not None
    age = _running_age(query, time, most=None)
    batch_id = query.running.batch_id
    if not began:
        since = query.running.free_time
        if query.run.trigger_seconds and query.batch.planned_time is not None:
            since = max(since or 0.0, query.batch.planned_time + query.run.trigger_seconds)
        age = None if since is None else max(0.0, time - since)
        deadline = query.watched.monitor.deadline(settings.deadline_seconds)
        near = age is not None and deadline is not None and age < LATEST_SHARE * deadline
        if event.exception is None and not near:
            age = None  # idle as well as not: nothing says that a batch ran
        known, batch_id = query.batch.id, query.running.open_batch_id
        if batch_id is None and known is not None:  # what is open comes first, wherever it stands
            batch_id = known + 1
    late = _is_late(query, age, policy, ran=began)
    failed = event.exception is not None and (late or not _stop(query, event.exception))
    lost = began or late
    if failed:
        view = failure.cause_of(
            event.exception,
            event.error_class,
            failure.Context(
                query.run.checkpoint_location,
                killed_after_seconds=age if late else None,
                committed=query.batch.id is not None,
            ),
        )
        query.watched.failure = view
        lost = query.watched.monitor.fail(view.cause, began=began)
        _count(query, view.cause)
    elif not query.life.terminated:
        query.watched.failure = None  # of a run before
        if event.driver_killed and not late:
            _count(query, "unknown")
    query.life.stopped = not failed and not late and not event.driver_ended
    if failed and _was_committed(query, event):
        query.running.open_batch_id = None  # Spark runs the one that is open first, if one is
        query.watched.spiral.forget_open()
    elif lost:
        query.running.open_batch_id = batch_id
        _attempt_ended(query, batch_id, age, late=late, told=failed)


def _stop(query: Query, exception: str) -> bool:
    """Whether it was stopped all the same; one that was timed out is not asked."""
    return stop.told_as_failure(
        exception, run_id=query.run.run_id, spark_version=query.run.spark_version
    )


def _was_committed(query: Query, event: TerminatedEvent) -> bool:
    """Whether it failed as Spark made its progress, which comes after the commit of a batch."""
    if query.watched.monitor.asynchronous:
        return False  # the commit may not have been written
    # Its own, and no query's that its function runs.
    frames = chain_of(event.exception or "")[0].java
    return any(frame.endswith(_MAKES_PROGRESS) for frame in frames)


def _attempt_ended(
    query: Query, batch_id: int | None, age: float | None, *, late: bool, told: bool = False
) -> None:
    """A batch was begun and not committed; ``told``: by an exception, counted already."""
    query.watched.spiral.end_attempt(batch_id, timed_out=late)
    if late and not told:
        said = f"ended from outside after batch {batch_id} had run {age:.0f} s"
        query.watched.failure = FailureView("unknown", said)
        query.watched.monitor.fail("unknown", began=True)
        _count(query, "unknown")


def _is_late(query: Query, age: float | None, policy: Policy, *, ran: bool) -> bool:
    """Whether a batch that ended at that age was timed out; one that surely ``ran`` teaches."""
    settings = query.settings(policy)
    monitor = query.watched.monitor
    if age is not None:
        age = query.run.beyond(age)
    if ran and age is not None:
        monitor.ended(age)
    return spiral.timed_out(age, monitor.deadline(settings.deadline_seconds))


def _count(query: Query, cause: str) -> None:
    totals = query.totals
    totals.batches["failed"] = totals.batches.get("failed", 0) + 1
    totals.failures[cause] = totals.failures.get(cause, 0) + 1


def _running_age(query: Query, time: float, most: float | None) -> float | None:
    """Age of the running batch at ``time``, at most so long after it was last heard of."""
    if query.running.seconds is None or query.running.heard_time is None:
        return None
    since = max(0.0, time - query.running.heard_time)
    return query.running.seconds + (since if most is None else min(since, most))


def spiral_phase(query: Query, lag: LagState) -> SpiralPhase:
    """The worst that holds."""
    state = query.watched.spiral
    if state.dead:
        return "dead"
    if state.open_timeouts or state.replay_timed_out:
        return "timing_out"
    if state.spiralling:
        return "spiralling"
    return "pressured" if lag in ("WARN", "ERR") else "none"


def spiral_gain(query: Query, phase: SpiralPhase) -> float | None:
    """The loop's gain: of its arrivals, or, where its cost drifts, of one batch over the last."""
    gain, growth = spiral.gain(query.watched.spiral), query.watched.spiral.growth
    if phase == "spiralling" and gain is not None and growth is not None:
        return max(gain, growth)
    return gain


def spiral_evidence(query: Query, phase: SpiralPhase) -> str:
    """One sentence on what shows the phase."""
    state = query.watched.spiral
    if phase in ("dead", "timing_out"):
        if state.open_ends:
            late = f", {_times(state.open_timeouts)} past its time" if state.open_timeouts else ""
            begun = _times(state.open_ends)
            return f"batch {state.open_batch_id} was begun {begun} and not committed{late}"
        return "the batch just committed had been timed out before"
    if phase == "spiralling":
        return state.evidence
    return "the backlog grows, batches do not" if phase == "pressured" else ""


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def lag(query: Query, backlog_seconds: float | None, policy: Policy, *, stalled: bool) -> LagState:
    """The query's lag state now."""
    settings = query.settings(policy)
    return lag_state(
        query.watched.lag_window,
        LagNow(
            backlog_rows=query.backlog_rows(),
            backlog_seconds=backlog_seconds,
            stopped=stalled or query.life.terminated,
            floor_seconds=floor_seconds(settings.target_seconds),
            arrival_rows_per_second=query.arrival_rows(),
        ),
    )
