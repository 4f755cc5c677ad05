"""Judge: each event of a query, measured, learned from and decided on, in that order.

Where an event says how the time until it was spent, that is given back: the line that tells of the
event (``tell``) is for those who ask for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.core.decide import limits as decide
from agent.core.decide import pool
from agent.core.decide.need import need, need_at_rest
from agent.core.ended import Ended
from agent.core.judge import watch
from agent.core.measure import flow as measure
from agent.core.measure import pace
from spark_listener.wire import HEARTBEAT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.core.decode.events import (
        IdleEvent,
        ProgressEvent,
        RunningQuery,
        SourceLimit,
        StartedEvent,
        TerminatedEvent,
    )
    from agent.core.judgement import QueryStateName
    from agent.core.policy import Policy
    from agent.core.query import Query


#: What a batch that ended goes through, in this order: each step may rely on those before it.
ENDED: Final[tuple[Callable[[Query, Ended], None], ...]] = (
    watch.rewind,
    pace.read,
    measure.sources,
    measure.occupancy,
    measure.state,
    decide.keep,
    measure.count,
    measure.work,
    measure.cost,
    measure.cold,
    measure.company,
    watch.late_rows,
    watch.checkpoint,
    watch.backlog_left,
    watch.growth,
    decide.after_batch,
    need,
)


def started(
    query: Query,
    event: StartedEvent,
    time: float,
    policy: Policy,
    beside: pool.Beside | None = None,
) -> None:
    """A start, or the news of a query found running: limits its first batch if it can."""
    if event.run_id in query.run.past_runs:
        return
    if event.run_id != query.run.run_id:
        none_open = not query.run.run_id or query.ended_with_all_read()
        watch.begins(query, event.id, event.run_id, time, policy)
        # Limits are told of a query that was found running. After a batch that is run again Kafka's
        # newer connectors look what there is, before it the others; of a run that broke off nobody
        # knows whether one was open, if no heartbeat told it.
        if not event.limits and none_open:
            query.watched.lateness.run_time = time
    elif query.life.left:
        query.life.begin()
    measure.hear_trigger(query, event.trigger)
    query.run.control = event.control
    query.run.output_mode = event.output_mode
    query.run.write_to(event.sink)
    query.run.checkpoint_location = event.checkpoint_location
    query.run.ui_url = event.ui_url
    query.run.conf = event.conf
    watch.started(query, event)
    if event.limits:  # what is configured may be less than in the run before
        measure.hear_limits(query, event.limits, None, policy)
        decide.adopt(query, time, policy)
    query.watched.lateness.begins(
        query.sources, time, event.watermark_delay_seconds, fixed=measure.looks_once(query)
    )
    decide.first_batch(query, time, policy, beside)


def idle(query: Query, event: IdleEvent, time: float, now: float, policy: Policy) -> None:
    """A trigger that found nothing to do, or the last word before a query is let be."""
    if event.run_id in query.run.past_runs:
        return
    if event.run_id != query.run.run_id:
        watch.begins(query, event.id, event.run_id, time, policy)
    if event.left:
        query.flow.occupancy.spend(time, "busy" if query.running.seconds is not None else "idle")
        query.running.nothing()
        query.life.leave(now)
        return
    _found_nothing(query, time, policy)


def _found_nothing(query: Query, time: float, policy: Policy) -> None:
    """No batch will say that nothing comes any more: a trigger without one does."""
    measure.rest(query, time)
    watch.rests(query, time)
    watch.found_nothing(query)
    settings = query.settings(policy)
    if watch.quiet(query, time):
        decide.at_rest(query, settings, time)
    need_at_rest(query, settings, found_nothing=True)


def plans_next(query: Query, running: RunningQuery) -> bool:
    """Whether a heartbeat's batch is the one after the newest that is known to have ended.

    Of any other it cannot be said what came between: a progress is still on its way.
    """
    if running.run_id != query.run.run_id or running.batch_id is None:
        return False
    return query.batch.id is None or running.batch_id == query.batch.id + 1


def heartbeat(
    query: Query, running: RunningQuery, limits: list[SourceLimit], time: float, policy: Policy
) -> None:
    """A sign of life between batches, with the running batch and its age."""
    if running.run_id in query.run.past_runs:
        return
    if running.run_id != query.run.run_id:
        watch.begins(query, running.id, running.run_id, time, policy)
    measure.hear_trigger(query, running.trigger)
    # What ended in an earlier run may run again: its commit was lost, or the checkpoint taken back.
    known = query.run.batches > 0 and query.batch.id is not None and running.batch_id is not None
    ended = known and (running.batch_id or 0) <= (query.batch.id or 0)
    if running.running_seconds is None or ended:
        query.running.nothing()
        if running.running_seconds is None:
            query.flow.occupancy.spend(time, "busy" if query.run.continuous else "idle")
            watch.rests(query, time)
            since = time - (query.batch.end_time or 0.0)
            query.flow.between = query.flow.between if since < HEARTBEAT_SECONDS else "idle"
    else:
        query.running.batch_id = running.batch_id
        query.running.seconds = running.running_seconds
        query.running.heard_time = time
        query.flow.occupancy.spend(time - running.running_seconds, "idle")
        query.flow.occupancy.spend(time, "backpressured" if query.holds_back() else "busy")
    following = plans_next(query, running)
    measure.hear_limits(query, limits, None, policy, of_next_batch=following)
    query.watched.lateness.hear(query.sources)
    watch.runs(query, time, policy)
    measure.unseen(query, time)
    decide.adopt(query, time, policy)
    need_at_rest(query, query.settings(policy), found_nothing=False)


def progress(
    query: Query,
    event: ProgressEvent,
    time: float,
    policy: Policy,
    beside: pool.Beside | None = None,
    *,
    asks: bool = True,
) -> QueryStateName | None:
    """A batch that ended: measure, learn, decide. None where it belongs to a run before.

    ``beside``: the queries that run beside it in its application, where there are some. ``asks``:
    whether Weir asks for executors in it, where they are on.
    """
    batch = event.progress
    if batch.run_id in query.run.past_runs:
        return None
    if batch.run_id != query.run.run_id:
        watch.begins(query, batch.id, batch.run_id, batch.time, policy)
    measure.hear_trigger(query, event.trigger)
    query.run.write_to(batch.sink)
    if batch.watermark_time is not None:
        query.flow.watermark_time = batch.watermark_time
    if not measure.ran(batch):
        # Spark reports a trigger without data as progress, with the id of the next batch.
        measure.hear_limits(query, event.limits, min(batch.time, time), policy)
        decide.adopt(query, time, policy)
        _found_nothing(query, time, policy)
        return "idle"
    settings = query.settings(policy)
    ended = Ended(
        measure.plausible(query, batch, time),
        event.limits,
        time,
        policy,
        settings,
        beside,
        event.work,
        asks,
    )
    for step in ENDED:
        step(query, ended)
    return "backpressured" if query.batch.held_back else "busy"


def terminate(
    query: Query, event: TerminatedEvent, time: float, now: float, policy: Policy
) -> None:
    """The end of a run."""
    if event.run_id in query.run.past_runs:
        return
    if event.run_id != query.run.run_id:
        watch.begins(query, event.id, event.run_id, time, policy)
    query.flow.occupancy.spend(time, "busy" if query.running.seconds is not None else "idle")
    watch.ends(query, event, time, policy)
    query.running.nothing()
    query.life.terminated, query.life.gone_since_time = True, now
