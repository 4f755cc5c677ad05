"""Measure: what a batch, a heartbeat or an idle trigger says of a query's flow."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.decide import pool
from agent.core.decode.events import MOST_LONG
from agent.core.measure.cost import KNOWN_BATCHES
from agent.core.measure.decaying import LATELY_SECONDS
from agent.core.measure.state_store import figures
from agent.core.measure.work import Sample
from agent.core.query import Operator, Query
from spark_listener.wire import CLOCK_STEP_SECONDS

if TYPE_CHECKING:
    from agent.core.decode.events import Progress, SourceLimit
    from agent.core.ended import Ended
    from agent.core.measure.occupancy import Spent
    from agent.core.policy import Policy

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
#: A batch during which executors came or went teaches nothing of its cost; but from so many in a
#: row on that is how this query runs (executors that go between triggers and come with the batch),
#: and each tells what it costs. Fewer are a change that is under way.
MOST_UNSTEADY: Final = 4


def rest(query: Query, time: float) -> None:
    """Takes in that a trigger found nothing to do."""
    query.flow.occupancy.spend(time, "idle")
    query.flow.between = "idle"
    waits = query.backlog_rows()  # its source waits for more: what is there goes on waiting
    if not waits:
        query.flow.rested_time = time
    query.running.nothing()
    for source in query.sources:
        source.nothing_arrived(time)
        if source.lanes is not None and not waits and not looks_once(query):
            source.lanes.rest(time)
    if query.backlog_rows() == 0.0:
        query.flow.lag.add(time, query.flow.arrived_rows)


def looks_once(query: Query) -> bool:
    """Whether what a run reads is looked up as it begins, and not with each batch."""
    return "AvailableNow" in query.run.trigger


def unseen(query: Query, time: float) -> None:
    """For how long nobody has looked what is there: a batch runs, or none has since the last."""
    if looks_once(query):
        return
    seconds = query.running.seconds
    if seconds is None:
        looks = [one.lanes.looked_time for one in query.sources if one.lanes is not None]
        known = [look for look in looks if look is not None]
        seconds = time - min(known) if known else None
    if seconds is not None:
        query.watched.lateness.unseen(query.sources, seconds)


def plausible(query: Query, batch: Progress, time: float) -> Progress:
    """A batch told of at ``time``; without its durations where a clock was set while it ran.

    Spark takes them from the wall clock: such a batch seems to have begun before the one before
    it had ended, or to end after it was told of.
    """
    earliest = query.batch.end_time
    early = earliest is not None and batch.time <= earliest - CLOCK_STEP_SECONDS
    late = batch.time + (batch.seconds or 0.0) >= time + CLOCK_STEP_SECONDS
    if not (early or late):
        return batch
    begun = min(max(batch.time, earliest or batch.time), time)
    return msgspec.structs.replace(batch, time=begun, seconds=None, phases={})


def sources(query: Query, ended: Ended) -> None:
    """What its sources gave it, and what they hold still."""
    batch, limits, policy = ended.batch, ended.limits, ended.policy
    said = {item.source: item for item in limits}
    count_of = len(batch.sources)
    wanted = max(count_of, 1 + max(said)) if said else count_of
    if len(query.sources) < wanted:
        query.grow_sources(wanted, policy)
    query.recognise(limits)
    present = query.sources
    if count_of:
        del present[wanted:]  # of an earlier run, which read more of them
    fresh = 0.0
    limited = False
    for index, source in enumerate(present):
        part, told = batch.sources[index] if index < count_of else None, said.get(index)
        if query.run.as_they_come:
            # It read on behind where its planning saw the source end: what waits nobody knows.
            part = part and msgspec.structs.replace(part, backlog=None)
            told = told and msgspec.structs.replace(told, backlog=None, observed_time=None)
        fresh += source.read(part, told, batch.time) or 0.0
        limited = limited or source.limited
    untold = batch.rows == 0 and query.went_on()
    query.run.untold_batches = query.run.untold_batches + 1 if untold else 0
    query.run.took_less = untold and query.run.took_less
    query.batch.limited = limited
    query.batch.held_back = any(source.held_back for source in present)
    query.flow.arrived_rows += fresh
    backlog = query.backlog_rows()
    if backlog is not None:
        seen = max([s.backlog_time or batch.time for s in present])
        query.flow.arrived_rows = max(query.flow.arrived_rows, backlog)
        query.flow.lag.add(seen, query.flow.arrived_rows)


def occupancy(query: Query, ended: Ended) -> None:
    """What its time, and the time before it, was spent on."""
    batch, flow, last = ended.batch, query.flow, query.batch
    # A batch without a duration had ended when it was told of.
    end = max(batch.time, ended.time) if batch.seconds is None else batch.time + batch.seconds
    seconds = end - batch.time
    flow.occupancy.spend(batch.time, "idle")
    spent: Spent = "backpressured" if last.held_back else "busy"
    flow.occupancy.spend(end, spent)
    # Heartbeats come every few seconds, short batches more often: where one batch follows the
    # other, the next is taken to run although nobody has said so yet.
    since = last.end_time
    flow.between = spent if 2.0 * seconds >= end - (since or batch.time) else "idle"
    if since is not None and end > since and batch.rows is not None:
        flow.processed.add(batch.rows, end - since, LATELY_SECONDS)
    last.end_time = max(end, since or end)
    last.progress_time = end
    if query.running.batch_id is None or (batch.batch_id or 0) >= query.running.batch_id:
        query.running.nothing()


def observe(query: Query, index: int, backlog: int, time: float) -> None:
    """Takes in the backlog of a source as it was at ``time``, between batches."""
    if index >= len(query.sources):
        return
    _arrive(query, query.sources[index].observe(backlog, time) or 0.0)


def count(query: Query, ended: Ended) -> None:
    """Counts it; tells whether it ran before under another run."""
    batch, totals = ended.batch, query.totals
    newest = query.batch.id
    ended.replayed = batch.batch_id is not None and (
        batch.batch_id == query.running.open_batch_id
        or (newest is not None and batch.batch_id <= newest)
    )
    if batch.batch_id is not None:
        query.batch.id = batch.batch_id
    query.running.open_batch_id = None
    query.run.batches += 1
    query.watched.failure = None
    query.batch.seconds, query.batch.rows = batch.seconds, batch.rows
    query.batch.phases = batch.phases
    if ended.replayed:
        totals.replayed_rows = plus(totals.replayed_rows, batch.rows)
    ended_as = "replayed" if ended.replayed else "empty" if batch.rows == 0 else "completed"
    add(totals.batches, ended_as)
    totals.rows = plus(totals.rows, batch.rows)
    for phase, seconds in batch.phases.items():
        totals.phase_seconds[phase] = totals.phase_seconds.get(phase, 0.0) + seconds
    if batch.seconds is not None:
        if not totals.duration_buckets:
            totals.duration_buckets = [0] * (len(DURATION_BUCKETS_SECONDS) + 1)
        totals.duration_buckets[bucket(batch.seconds)] += 1
        totals.duration_sum_seconds += batch.seconds


def work(query: Query, ended: Ended) -> None:
    """What it ran on, and what its stages were made of; other slots change its cost."""
    batch, known = ended.batch, query.sizing.work
    if ended.work is None or query.run.as_they_come:
        return
    if not ended.work.steady:
        if batch.rows and batch.seconds:
            query.sizing.unsteady_batches += 1
            known.unsteady(batch.rows, batch.seconds, ended.work.slots)
        if _goes_on_so(query, ended):
            known.slots = ended.work.slots  # on which its cost is learned from now on
        return
    query.sizing.unsteady_batches = 0
    if known.slots is not None and known.slots != ended.work.slots:
        # Expected, not learned anew: the batch itself then says how well that fits.
        step = math.log(ended.work.slots / known.slots)
        cost = query.sizing.cost
        then = known.resized(cost.curve, ended.work.slots, cost.covariance, cost.largest_rows)
        if known.samples:
            cost.rescale(then, abs(step) * known.contention_doubt)
    known.slots, known.lost = ended.work.slots, None
    if batch.rows and batch.seconds and not ended.replayed:
        sigma = query.sizing.cost.cautious_sigma
        alone, busy = ended.beside is None, 0.0 if ended.beside is None else ended.beside.busy
        known.judge(batch.rows, batch.seconds, sigma, alone=alone, busy=busy)
        if ended.work.groups:
            files = [one.admitted or 0 for one in query.sources if one.unit == "files"]
            known.learn(Sample(batch.rows, batch.seconds, ended.work, sum(files), batch.time))


def _goes_on_so(query: Query, ended: Ended) -> bool:
    """Whether executors come and go with its batches; those that Weir asks for come to an end."""
    asked = ended.settings.executors == "on" and ended.asks
    return not asked and query.sizing.unsteady_batches >= MOST_UNSTEADY


def cost(query: Query, ended: Ended) -> None:
    """Learns from it what batches cost; tells whether it shows that this has changed.

    Empty and replayed batches teach nothing, nor does one with its rows or time missing, one that
    ran on some executors and then on others (but where all do), or one that read rows as they came.
    """
    batch, learned, run = ended.batch, query.sizing.cost, query.run
    first, run.has_read = not run.has_read, run.has_read or bool(batch.rows)
    if not batch.rows or not batch.seconds or ended.replayed or run.as_they_come:
        return
    alone, run.first_alone = run.first_alone, first
    if ended.work is not None and not ended.work.steady and not _goes_on_so(query, ended):
        return
    if learned.batches >= KNOWN_BATCHES and first and not alone:
        return
    ended.changed = learned.learn(float(batch.rows), batch.seconds, ended.settings.target_seconds)


def cold(query: Query, ended: Ended) -> None:
    """Takes in how much longer than a warm one the first batch of its run took.

    One that ran before under another run counts as any other: those are what it is about. One with
    its rows or time missing tells nothing, nor does one that read rows as they came.
    """
    batch, run, sizing = ended.batch, query.run, query.sizing
    if batch.rows and batch.seconds and not run.as_they_come:
        rows = float(batch.rows)
        sizing.cold.observe(run.run_id, run.application_id, rows, batch.seconds, sizing.cost)


def company(query: Query, ended: Ended) -> None:
    """In how many batches beside it, itself one of them, the cost was learned."""
    if ended.beside is not None:
        busy = 1.0 + ended.beside.busy
        query.sizing.company = pool.company(query.sizing.company, busy, changed=ended.changed)


def hear_limits(
    query: Query,
    limits: list[SourceLimit],
    planned_time: float | None,
    policy: Policy,
    *,
    of_next_batch: bool = False,
) -> None:
    """Takes in limits and backlogs; ``planned_time`` None where they come with a heartbeat.

    ``of_next_batch``: the batch in a heartbeat's hands is the one after the newest that ended.
    """
    if not limits:
        return
    query.grow_sources(1 + max([item.source for item in limits]), policy)
    query.recognise(limits)
    for told in limits:
        if told.source >= len(query.sources):
            continue
        item = told
        of_another = planned_time is None and told.admitted is not None and not of_next_batch
        if of_another or query.run.as_they_come:
            item = msgspec.structs.replace(told, admitted=None, backlog=None, observed_time=None)
        source = query.sources[item.source]
        before = source.arrived, source.arrived_time
        source.hear(item, planned_time)
        if before[1] is not None and source.arrived_time != before[1]:
            _arrive(query, (source.arrived - before[0]) * (source.ratio or 0.0))


def _arrive(query: Query, rows: float) -> None:
    """Rows newly known to have arrived, as of the newest look at a source."""
    query.flow.arrived_rows += max(0.0, rows)
    waiting = query.backlog_rows()
    seen = [source.backlog_time for source in query.sources if source.backlog_time is not None]
    if waiting is not None and seen:
        query.flow.arrived_rows = max(query.flow.arrived_rows, waiting)
        query.flow.lag.add(max(seen), query.flow.arrived_rows)


def state(query: Query, ended: Ended) -> None:
    """What its state operators hold, and what their commits took."""
    batch, policy = ended.batch, ended.policy
    del query.operators[len(batch.operators) :]  # of an earlier run, whose job had more of them
    for index, operator in enumerate(batch.operators[: policy.max_operators]):
        if index == len(query.operators):
            query.operators.append(Operator())
        state = query.operators[index]
        state.name, state.rows = operator.name, operator.rows
        state.bytes, state.commit_seconds = operator.bytes, operator.commit_seconds
        state.partitions = operator.partitions
        told = figures(operator.metrics, batch.batch_id)
        state.commit_phases = told.commit_phases
        state.snapshot_lag_versions = told.snapshot_lag_versions
        if operator.dropped_rows:
            dropped = operator.dropped_rows
            totals = query.totals
            state.dropped_rows_total = plus(state.dropped_rows_total, dropped)
            totals.watermark_dropped_rows = plus(totals.watermark_dropped_rows, dropped)


def hear_trigger(query: Query, trigger: str) -> None:
    """Takes in the trigger that an event tells; one that tells none leaves what is known."""
    if trigger:
        query.run.trigger_run_id = query.run.run_id
    if trigger and trigger != query.run.trigger:
        query.run.trigger = trigger
        query.run.trigger_seconds = trigger_seconds(trigger)
    if query.run.as_they_come:  # what runs before this one led to says nothing of it
        query.sizing.say_nothing()
        query.watched.spiral.rest()


def trigger_seconds(trigger: str) -> float:
    """The interval of ``ProcessingTimeTrigger(milliseconds)``; 0 for any other trigger."""
    name, _, rest_of = trigger.partition("(")
    milliseconds = rest_of.rstrip(") ")
    if not name.startswith("ProcessingTime") or not milliseconds.isdecimal():
        return 0.0
    return int(milliseconds) / 1000.0


def ran(batch: Progress) -> bool:
    """Whether a batch ran at all, rather than a trigger that found nothing."""
    if batch.rows:
        return True
    return not batch.phases or "addBatch" in batch.phases


def bucket(seconds: float) -> int:
    """Index of the duration bucket; the last one is for all that is longer."""
    return bisect_left(DURATION_BUCKETS_SECONDS, seconds)


def plus(total: int, more: int | None) -> int:
    """A counter that stays where it can still be kept and shown."""
    return min(total + (more or 0), MOST_LONG)


def add(counts: dict[str, int], key: str) -> None:
    """Counts one."""
    counts[key] = counts.get(key, 0) + 1
