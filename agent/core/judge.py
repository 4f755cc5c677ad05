"""Judge: each event of a query, measured, learned from and decided on, in that order.

Where an event says how the time until it was spent, that is given back: the line that tells of the
event (``tell``) is for those who ask for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.core import decide, measure, pool, watch
from spark_listener.wire import HEARTBEAT_SECONDS

if TYPE_CHECKING:
    from agent.core.decode import (
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


def started(
    query: Query,
    event: StartedEvent,
    time: float,
    policy: Policy,
    beside: pool.Beside | None = None,
) -> None:
    """A start, or the news of a query found running: limits its first batch if it can."""
    if event.run_id in query.past_runs:
        return
    if event.run_id != query.run_id:
        watch.begins(query, event.id, event.run_id, time, policy)
    query.trigger = event.trigger
    query.trigger_seconds = measure.trigger_seconds(event.trigger)
    query.control = event.control
    query.output_mode = event.output_mode
    query.sink = event.sink or query.sink
    query.checkpoint_location = event.checkpoint_location
    query.ui_url = event.ui_url
    query.conf = event.conf
    watch.started(query, event)
    decide.first_batch(query, time, policy, beside)


def idle(query: Query, event: IdleEvent, time: float, policy: Policy) -> None:
    """A trigger that found nothing to do."""
    if event.run_id in query.past_runs:
        return
    if event.run_id != query.run_id:
        watch.begins(query, event.id, event.run_id, time, policy)
    measure.rest(query, time)
    watch.rests(query, time)


def plans_next(query: Query, running: RunningQuery) -> bool:
    """Whether a heartbeat's batch is the one after the newest that is known to have ended.

    Of any other it cannot be said what came between: a progress is still on its way.
    """
    if running.run_id != query.run_id or running.batch_id is None:
        return False
    return query.batch_id is None or running.batch_id == query.batch_id + 1


def heartbeat(
    query: Query, running: RunningQuery, limits: list[SourceLimit], time: float, policy: Policy
) -> None:
    """A sign of life between batches, with the running batch and its age."""
    if running.run_id in query.past_runs:
        return
    if running.run_id != query.run_id:
        watch.begins(query, running.id, running.run_id, time, policy)
    known = query.batch_id is not None and running.batch_id is not None
    ended = known and (running.batch_id or 0) <= (query.batch_id or 0)
    if running.running_seconds is None or ended:
        query.nothing_runs()
        if running.running_seconds is None:
            query.occupancy.spend(time, "idle")
            watch.rests(query, time)
            since = time - (query.batch_end_time or 0.0)
            query.between = query.between if since < HEARTBEAT_SECONDS else "idle"
    else:
        query.running_batch_id = running.batch_id
        query.running_seconds = running.running_seconds
        query.running_heard_time = time
        query.occupancy.spend(time - running.running_seconds, "idle")
        query.occupancy.spend(time, "backpressured" if query.holds_back() else "busy")
    following = plans_next(query, running)
    measure.hear_limits(query, limits, None, policy, of_next_batch=following)
    watch.runs(query, time, policy)
    decide.adopt(query, time, policy)


def progress(
    query: Query,
    event: ProgressEvent,
    time: float,
    policy: Policy,
    beside: pool.Beside | None = None,
) -> QueryStateName | None:
    """A batch that ended: measure, learn, decide. None where it belongs to a run before.

    ``beside``: the queries that run beside it in its application, where there are some.
    """
    batch = event.progress
    if batch.run_id in query.past_runs:
        return None
    if batch.run_id != query.run_id:
        watch.begins(query, batch.id, batch.run_id, batch.time, policy)
    query.sink = batch.sink or query.sink
    if batch.watermark_time is not None:
        query.watermark_time = batch.watermark_time
    if not measure.ran(batch):
        # Spark reports a trigger without data as progress, with the id of the next batch.
        measure.hear_limits(query, event.limits, batch.time, policy)
        decide.adopt(query, time, policy)
        measure.rest(query, time)
        watch.rests(query, time)
        return "idle"
    batch = measure.plausible(query, batch, time)
    watch.reads(query, batch)
    measure.flow(query, batch, event.limits, policy)
    decide.adopt(query, time, policy)
    replayed = measure.count(query, batch)
    target = policy.of(query.application, query.query).target_seconds
    changed = measure.learn(query, batch, target, replayed=replayed)
    query.lateness.observe(batch, query.sources, replayed=replayed)
    watch.commits(query, batch, policy)
    if beside is not None:
        query.company = pool.company(query.company, 1.0 + beside.busy, changed=changed)
    decide.after_batch(
        query, batch, policy, time, replayed=replayed, changed=changed, beside=beside
    )
    return "backpressured" if query.batch_held_back else "busy"


def terminate(
    query: Query, event: TerminatedEvent, time: float, now: float, policy: Policy
) -> None:
    """The end of a run."""
    if event.run_id in query.past_runs:
        return
    if event.run_id != query.run_id:
        watch.begins(query, event.id, event.run_id, time, policy)
    query.occupancy.spend(time, "busy" if query.running_seconds is not None else "idle")
    watch.ends(query, event, time, policy)
    query.open_batch_id = query.running_batch_id
    if event.exception is not None and query.open_batch_id is None and query.batch_id is not None:
        query.open_batch_id = query.batch_id + 1
    query.nothing_runs()
    query.terminated, query.gone_since_time = True, now
