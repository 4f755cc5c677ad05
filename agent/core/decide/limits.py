"""Decide: what each source may admit to the next batch, and why.

Holds come first, in a fixed order; then the size of a batch (``size``), shared out over the
sources (``credit``), each step (``step``) bounded and announced only when it matters. Nothing here
acts: a decision becomes a grant, and the driver applies it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.decide import credit, pool
from agent.core.decide.size import (
    BAND,
    CATCH_UP_SECONDS,
    Ask,
    Size,
    aim_above,
    patience_seconds,
    size_of,
)
from agent.core.decide.step import (
    LEAST_DEADBAND,
    Step,
    after_replay,
    deadband,
    interval_rows,
    leaves_band,
    present_rows,
    raised_rows,
    toward,
)
from agent.core.decode.events import MOST_LONG
from agent.core.figures import figure
from agent.core.judgement import Decision, Mode
from agent.core.measure import flow as measure
from agent.core.measure.cost import KNOWN_BATCHES, STEP_SIGMAS

if TYPE_CHECKING:
    from agent.core.decode.events import Progress
    from agent.core.ended import Ended
    from agent.core.measure.source import Source
    from agent.core.policy import Policy, QueryPolicy
    from agent.core.query import Query

_MOST_DECISIONS: Final = 20
#: Of its own part a source has this share at least beside those that leave no time: no more than a
#: two-hundredth of a batch with two sources, and not a row a batch for ever.
LEAST_LEFT: Final = 0.05
#: From so many batches in a row on that took something, and of which no row was told, that is what
#: Spark tells of this plan, as far as anybody knows. Limits that double in every second batch, as
#: the one between was planned before, are five hundredfold by then: past any gap's largest.
UNTOLD_BATCHES: Final = 20


class Grant(msgspec.Struct, frozen=True):
    """What one source may admit; ``limit`` None is no limit."""

    source: int
    unit: str
    limit: int | None
    reason: str
    identity: str = ""  # of the source; empty where the driver told none
    seconds: float = 0.0  # that it lives unless it is renewed
    lapses: bool = False  # then, even where nothing is configured


def grants(query: Query, policy: Policy) -> list[Grant]:
    """All that is granted to a query now: every reply carries it, and so renews it.

    Under control, what was last decided. Otherwise nothing of ours may stay in force: the
    configured limit is granted until the driver says that it is back.
    """
    if query.life.terminated:
        return []
    mode = query.mode(policy)
    seconds, lapses = life(query, policy)
    granted: list[Grant] = []
    for source in query.sources:
        if not source.controllable or source.unit is None:
            continue
        if mode == "on":
            if source.decided and not source.would_be:
                granted.append(
                    Grant(
                        source.index,
                        source.unit,
                        source.decided_limit,
                        source.decided_reason,
                        source.identity,
                        seconds,
                        lapses,
                    )
                )
        elif source.limit_known and source.limit != source.configured:
            granted.append(
                Grant(
                    source.index,
                    source.unit,
                    source.configured,
                    f"mode:{mode}",
                    source.identity,
                    policy.grant_seconds,
                )
            )
    return granted


def life(query: Query, policy: Policy) -> tuple[float, bool]:
    """Seconds that its grants live unless they are renewed, and whether they all end then."""
    late_rows = query.settings(policy).late_rows
    lapse = query.watched.lateness.lapse_seconds(query.sources, late_rows)
    return min(policy.grant_seconds, math.inf if lapse is None else lapse), lapse is not None


def keep(query: Query, ended: Ended) -> None:
    """Before anything is decided anew: what is in force already."""
    adopt(query, ended.time, ended.policy)


def adopt(query: Query, time: float, policy: Policy) -> None:
    """Renews a limit found in force that nobody here decided: an agent before this one did."""
    follow_mode(query, policy)
    if query.mode(policy) != "on":
        return
    settings = query.settings(policy)
    if query.controlled() and query.watched.lateness.holds(settings.late_rows):
        _as_configured(query, time, policy)
        return
    for source in query.sources:
        if not source.controllable or not source.limit_known:
            continue
        _keep_within(source, settings, time)
        if source.decided:
            continue
        if source.limit is not None and source.limit != source.configured:
            kept = source.limit
            if source.configured is not None and not settings.above_configured:
                kept = min(kept, source.configured)
            if settings.maximum_limit is not None:
                kept = min(kept, settings.maximum_limit)
            source.decide(kept, "renew", time)


def _keep_within(source: Source, settings: QueryPolicy, time: float) -> None:
    """Takes back what was decided, or held, above a bound that may have changed since.

    Only a number that somebody named may be above one; a hold names none, and stays one.
    """
    if not source.decided or source.decided_reason == "manual":
        return
    most, held = settings.maximum_limit, source.decided_reason == "hold:operator"
    # No limit at all may stand under a maximum, as where late rows or a hold ask for that.
    if most is not None and source.decided_limit is not None and source.decided_limit > most:
        source.decide(most, "hold:operator" if held else "bound:maximum", time)
    most = None if settings.above_configured else source.configured
    if most is not None and (source.decided_limit is None or source.decided_limit > most):
        source.decide(most, "hold:operator" if held else "bound:configured", time)


def first_batch(
    query: Query, time: float, policy: Policy, beside: pool.Beside | None = None
) -> None:
    """Limits a run's first batch by what earlier runs taught, however much has piled up.

    Never beyond what was granted last, else configured: what was learned may lower it only.
    """
    follow_mode(query, policy)
    if query.mode(policy) == "off":
        return
    settings = query.settings(policy)
    if query.watched.lateness.holds(settings.late_rows, first=query.batch.id is None):
        # Nothing is granted: what the job configures may have changed with this run.
        for source in query.sources:
            _remember_held(query, source)
            source.withdraw()
        query.sizing.reason = "hold:late_rows"
        return
    if query.orders.held:
        for source in query.sources:
            _keep_within(source, settings, time)
        return
    if query.orders.limit is not None:
        _decide_manual(query, time, policy)
        return
    if not query.run.trigger:
        return
    controlled = query.steered()
    size = wanted_size(query, settings, time, controlled)
    if size is None or not controlled:
        return
    size, _ = _pooled(query, settings, size, None, beside)
    needs = [None if source.rows is None else float(source.rows) for source in controlled]
    shares = credit.share(_free(query, size, controlled), needs)
    for source, part in zip(controlled, shares, strict=True):
        before = source.decided_limit if source.decided else source.configured
        units = source.units_of(part.rows, _room(size))
        wanted = max(round(units), settings.minimum_limit, 1)
        limit = _within(source, settings, wanted, before)
        if limit < 1:
            continue  # whoever configured it wants nothing to be read
        _decide(query, source, Step(limit, "first_batch"), time, policy)


def wanted_size(
    query: Query, settings: QueryPolicy, time: float, controlled: list[Source]
) -> Size | None:
    """The rows that the next batch should hold; None while too little is known."""
    cost = query.sizing.cost
    if cost.batches == 0:
        return None
    # Rows that retention would delete unread are as good as rows that arrive: both must be read.
    arriving, pressing = query.incoming_rows(), query.pressing_rows(time)
    pressed = pressing > (arriving or 0.0)
    present = _full_rows(query, controlled)
    ask = _ask(query, settings, pressing if pressed else arriving)
    ask = msgspec.structs.replace(ask, pressed=pressed)
    size = size_of(cost.curve, ask, settings)
    _note_capacity(query, size, time)
    if not size.unstable:
        query.sizing.unstable_since_time = None
    elif query.sizing.unstable_since_time is None:
        query.sizing.unstable_since_time = time
    since = query.sizing.unstable_since_time
    patience = patience_seconds(settings, query.run.trigger_seconds)
    patient = since is not None and time - since < patience
    if patient and not pressed and not ask.lost:
        # A limit in force already may stay, as far as it helps.
        kept = 0.0 if math.isinf(present) else present
        ask = msgspec.structs.replace(ask, patient_rows=kept)
        size = size_of(cost.curve, ask, settings)
    if pressed and size.target_rows < size.rows < size.deadline_rows:
        size = msgspec.structs.replace(size, reason="floor:retention")
    query.sizing.target_feasible = size.feasible if capacity_known(query) else None
    return msgspec.structs.replace(size, deadband=deadband(cost, size.rows, settings))


def _probe(query: Query, settings: QueryPolicy, size: Size, full: float, time: float) -> Size:
    """Another size where only that tells what is fixed, and no row is lost by it.

    ``full``: rows of a batch in which every source takes its limit, see ``_full_rows``.
    """
    if not query.batch.limited or query.pressing_rows(time):
        return size  # a smaller one would leave to retention what presses
    # Rows later than the delay are dropped behind an end that the job's own batches have not.
    smaller = settings.late_rows == "allow" or not query.watched.lateness.drops
    reach = query.sizing.reach
    tried = reach.probe_rows(query.sizing.cost, settings, size.rows, smaller=smaller)
    if tried is None:
        return size
    if reach.lost and math.isfinite(full):
        reach.before_rows = max(reach.before_rows, full)
    rows = min(max(tried, 1.0), size.deadline_rows)
    return msgspec.structs.replace(size, rows=rows, reason="probe", deadband=0.0)


def capacity_known(query: Query) -> bool:
    """Whether what a batch costs is more than the guess after the first one.

    Never where rows are read as they come: such a batch is as long as it was told to be.
    """
    return query.sizing.cost.batches >= KNOWN_BATCHES and not query.run.as_they_come


def _note_capacity(query: Query, size: Size, time: float) -> None:
    ratio = size.required_ratio if capacity_known(query) else None
    query.sizing.required_capacity_ratio = ratio
    if (ratio or 0.0) <= 1.0:
        query.sizing.capacity_short_since_time = None
    elif query.sizing.capacity_short_since_time is None:
        query.sizing.capacity_short_since_time = time


def at_rest(query: Query, settings: QueryPolicy, time: float) -> None:
    """Nothing waits, and nothing comes: whether it suffices is told of that. No limit changes."""
    cost = query.sizing.cost
    if cost.batches == 0 or query.sizing.required_capacity_ratio is None:
        return
    ask = _ask(query, settings, query.arrival_at_rest_rows())
    size = size_of(cost.curve, ask, settings)
    _note_capacity(query, size, time)
    query.sizing.target_feasible = size.feasible
    if not size.unstable:
        query.sizing.unstable_since_time = None  # what comes next is another spike


def _ask(query: Query, settings: QueryPolicy, arriving: float | None) -> Ask:
    cost = query.sizing.cost
    return Ask(
        arriving,
        query.run.trigger_seconds,
        _waiting_rows(query),
        cost.cautious_sigma,
        query.sizing.reach.lost,
        aim_above(cost.curve, settings, query.run.trigger_seconds),
        cost.doubt(0.0),
        start_seconds=query.sizing.cold.expected(cost),
        ends=measure.looks_once(query),
        sure_rows=interval_rows(cost, settings, query.run.trigger_seconds),
        slow_seconds=cost.slow_seconds,
    )


def _waiting_rows(query: Query) -> float:
    """What waits; where nobody knows, a batch that was limited left more than can be caught up."""
    waiting = query.backlog_rows()
    if waiting is None:
        return math.inf if query.batch.limited else 0.0
    return waiting


def _pooled(
    query: Query,
    settings: QueryPolicy,
    size: Size,
    need_rows: float | None,
    beside: pool.Beside | None,
) -> tuple[Size, float]:
    """The size that the application's pool leaves, and which share of it is the query's own.

    In proportion to the share granted, fixed cost and all: the fewer run beside it, the faster it
    is, so that what is left takes its whole cycle.
    """
    rows = size.rows if need_rows is None else min(size.rows, need_rows)
    cycle = max(settings.target_seconds, query.run.trigger_seconds)
    query.sizing.wanted_share = min((query.sizing.cost.seconds(rows) or 0.0) / cycle, 1.0)
    if beside is None:
        return size, 1.0
    me = pool.Member(query.sizing.wanted_share, query.sizing.company or 1.0)
    part = pool.part_of(me, beside)
    if part.share <= 0.0:
        return size, 1.0
    owned = part.exclusive / part.share
    if part.share >= me.wanted * (1.0 - LEAST_DEADBAND):
        return size, owned
    left = max(size.rows * part.share / me.wanted, 1.0)
    return msgspec.structs.replace(size, rows=left, reason="bound:pool"), owned


def after_batch(query: Query, ended: Ended) -> None:
    """Decides after a batch that was measured and learned from."""
    batch, time, policy, settings = ended.batch, ended.time, ended.policy, ended.settings
    follow_mode(query, policy)
    if batch.rows and batch.seconds and not (ended.replayed or query.run.as_they_come):
        query.sizing.reach.observe(query.sizing.cost, settings)
    controlled = query.steered()
    size = wanted_size(query, settings, time, controlled)
    hold = _reason_to_hold(query, ended, size, controlled)
    if hold == "hold:replayed":
        size = after_replay(query.sizing.cost, float(batch.rows or 0), batch.seconds, settings)
        if size is not None and size.rows < _full_rows(query, controlled):
            hold = None
    if hold is not None or size is None:
        query.sizing.reason = hold or "hold:learning"
        if hold == "mode:off":
            for source in query.controlled():
                source.withdraw()
        elif hold == "manual":
            _decide_manual(query, time, policy)
        elif hold == "hold:operator":
            _hold_again(query, time, settings)
        elif hold == "hold:late_rows":
            _as_configured(query, time, policy)
        elif hold == "hold:empty":
            _go_past(query, ended, controlled, size)
        measure.add(query.totals.grants, query.sizing.reason)
        return
    full, reach = _full_rows(query, controlled), query.sizing.reach
    if not ended.replayed:
        size = _probe(query, settings, size, full, time)
    probes = size.reason == "probe"
    needs = [_need(query, source) for source in controlled]
    need = None if None in needs else sum(part or 0.0 for part in needs)
    size, owned = _pooled(query, settings, size, need, ended.beside)
    free = _free(query, size, controlled)
    shares = credit.share(free, needs, _pressing(query, controlled, size, time))
    main, cost, trigger = query.main_source(), query.sizing.cost, query.run.trigger_seconds
    wanted = [
        source.units_of(part.rows, _room(size))
        for source, part in zip(controlled, shares, strict=True)
    ]
    sure = 1.0  # of what is wanted
    if full < size.rows:
        present = present_rows(cost, full, float(batch.rows or 0), settings, trigger)
        present = max(present, reach.before_rows)
        raised = raised_rows(cost, present, size.rows, settings, trigger)
        sure = max(raised - _others(query, controlled), 0.0) / free
    elif not probes:
        reach.before_rows = 0.0  # it is back
    # One batch may have been slow by itself, and what it says of far larger ones is a guess: that
    # the limit is wrong the next one must say, too, unless such a batch would be killed.
    before, query.sizing.leaves_band = (
        query.sizing.leaves_band,
        leaves_band(cost, full, size, trigger),
    )
    too_long = query.sizing.leaves_band and (before or full > size.deadline_rows)
    too_long |= _together(query, controlled, settings, wanted, sure) > size.deadline_rows
    was_long = _was_long(query, ended)
    for source, part, units in zip(controlled, shares, wanted, strict=True):
        source.exclusive_rows = owned * part.exclusive_rows
        source.floating_rows = part.rows - source.exclusive_rows
        limited = _reached(source)
        # It may be held back all the same, by a limit that counts something else than rows.
        back = _unseen(source) and not limited and not was_long
        step = toward(
            source.current,
            float(source.configured or 0) if back else units,
            constraint="bound:configured" if back else size.reason,
            limited=limited or back,
            configured=source.configured,
            policy=settings,
            deadband=size.deadband,
            sure=math.inf if back else sure * units,
            too_long=too_long,
        )
        measure.add(query.totals.grants, step.reason)
        source.wanted_beyond = None
        if step.reason == "bound:configured" and source.limited and source.current != 0:
            source.wanted_beyond = min(round(units), MOST_LONG)
        if source is main:
            query.sizing.reason = step.reason
        if step.limit == source.current:
            if source.would_be:
                source.withdraw()
        elif not _told(source, step, size.deadband):
            detail = _explain(query, batch, size, changed=ended.changed)
            _decide(query, source, step, time, policy, detail=detail)


def _within(source: Source, settings: QueryPolicy, wanted: int, *bounds: int | None) -> int:
    """A limit of a source's, within what is configured, ordered and said beside: None is none."""
    most = [MOST_LONG, settings.maximum_limit, *bounds]
    if not settings.above_configured:
        most.append(source.configured)
    return min([wanted, *(bound for bound in most if bound is not None)])


def _go_past(query: Query, ended: Ended, controlled: list[Source], size: Size | None) -> None:
    """Larger limits after a batch that took all that its limits let it and told of no row.

    Spark plans offsets that retention has deleted (``failOnDataLoss=false``), or that hold an
    aborted transaction, as any others, up to the limit: under one that was learned of rows a query
    could be at it for hours. Twice as many take no more than twice as long as these did; and should
    all hold rows, no longer than a wait may, nor than the deadline allows. A batch that took as
    long as rows take may have read some of which Spark told none: it is not made larger. As
    nothing would lower the limit again, two in a row took less, each than noise can make of rows.
    """
    seconds, cost, settings = ended.batch.seconds, query.sizing.cost, ended.settings
    full = _full_rows(query, controlled)
    # Where another limit was granted since, this batch says nothing of it.
    told = [one for one in controlled if one.batch_limit == one.current and _reached(one)]
    if size is None or not seconds or math.isinf(full) or not told:
        return
    curve = cost.curve
    of_rows = curve.seconds(full) / math.exp(STEP_SIGMAS * cost.cautious_sigma)
    less = seconds <= min(of_rows, (curve.fixed + curve.seconds(full)) / 2.0)
    again = less and query.run.took_less
    query.run.took_less = less
    if not again:
        return
    most_rows = min(curve.rows_in(CATCH_UP_SECONDS), size.deadline_rows)
    room = min(max(settings.target_seconds, 2.0 * curve.fixed) / seconds, 2.0)
    for source in told:
        current, ratio = source.current, source.ratio
        if not (current and ratio and source.admitted) or source.unit == "bytes":
            continue
        left = (most_rows - full) / ratio + current
        limit = _within(source, settings, int(min(current * room, left)))
        if limit > current:
            took = f"took {source.admitted:,} {source.unit}, as its limit is, and read no row"
            _decide(query, source, Step(limit, "raise"), ended.time, ended.policy, detail=took)
            query.sizing.reason = "raise"
            full += (limit - current) * ratio


def _reason_to_hold(
    query: Query, ended: Ended, size: Size | None, controlled: list[Source]
) -> str | None:
    """Why this batch leads to no decision; None where it does. The first that holds."""
    batch, settings, mode = ended.batch, ended.settings, query.mode(ended.policy)
    if mode == "off":
        return "mode:off"
    if not query.controlled():
        return "hold:no_control"
    if query.watched.lateness.holds(settings.late_rows):
        return "hold:late_rows"
    if query.orders.limit is not None:
        return "manual"
    if query.orders.held:
        return "hold:operator"
    if batch.rows is None or batch.seconds is None or not query.run.trigger:
        return "hold:missing"
    if batch.rows == 0:
        untold = query.run.untold_batches >= UNTOLD_BATCHES
        return "hold:untold_rows" if untold else "hold:empty"
    if not controlled:
        return "hold:missing"
    if ended.replayed:
        return "hold:replayed"
    if size is None:
        return "hold:learning"
    full = _full_rows(query, controlled)
    # One long batch alone may be all fixed: it speaks for its own size, and for the deadline.
    telling = full > size.deadline_rows or any(_reached(one) for one in controlled)
    telling = telling and _was_long(query, ended)
    if not capacity_known(query) and size.rows < full and not telling:
        return "hold:learning"
    return None


def _was_long(query: Query, ended: Ended) -> bool:
    """Whether it left the band around the target and its trigger interval."""
    longest = BAND * max(ended.settings.target_seconds, query.run.trigger_seconds)
    return (ended.batch.seconds or 0.0) > longest


def _pressing(query: Query, controlled: list[Source], size: Size, time: float) -> list[float]:
    """Rows of each source that retention deletes unless the next batch reads them."""
    seconds = max(query.sizing.cost.seconds(size.rows) or 0.0, query.run.trigger_seconds)
    return [seconds * source.pressing_at(time) for source in controlled]


def _free(query: Query, size: Size, controlled: list[Source]) -> float:
    """What is left to share out among these: what sources out of reach take is not ours.

    Where they take nearly all, or more, ours have of their exclusive credit of the whole what makes
    batches hardly longer: else they would starve for what no limit of theirs could change.
    """
    others, own = _others(query, controlled), 0.0
    if others:
        even = size.rows / len(query.sources)
        own = credit.EXCLUSIVE_SHARE * even * len(controlled)
        # The longer a batch, the more the others bring to the next one: what ours add to its time
        # comes back, over the share of it that the others leave.
        taken = others * query.sizing.cost.per_row
        left = 1.0 - taken / query.batch.seconds if query.batch.seconds else 0.0
        own *= max(left, LEAST_LEFT)
    return min(max(size.rows - others, own, 1.0), float(MOST_LONG))


def _together(
    query: Query, controlled: list[Source], settings: QueryPolicy, wanted: list[float], sure: float
) -> float:
    """Rows of a batch in which each takes the limit that it is about to have.

    One that was not reached keeps its own, as long as that is not too long together with what the
    others get; units are as dense as of late.
    """
    rows = float(_others(query, controlled))
    for source, units in zip(controlled, wanted, strict=True):
        kept = source.current
        if kept is None or (kept > 0 and _reached(source)):
            most = math.inf if kept is None else max(float(kept), sure * units)
            kept = _within(source, settings, round(min(units, most)))
        rows += kept * source.densest
    return rows


def _room(size: Size) -> float:
    """How many times the rows of a size the deadline allows; inf without one."""
    return size.deadline_rows / size.rows


def _others(query: Query, controlled: list[Source]) -> int:
    """Rows of the batch that came from sources whose limits are not worked out."""
    steered = {source.index for source in controlled}
    return sum([source.rows or 0 for source in query.sources if source.index not in steered])


def _full_rows(query: Query, controlled: list[Source]) -> float:
    """Rows of a batch in which every source takes its limit; inf where one has none.

    With those that sources out of reach had in the last one.
    """
    rows = float(_others(query, controlled))
    for source in controlled:
        current = source.current
        if current is None:
            return math.inf
        rows += current * (source.ratio or 1.0)
    return rows


def _reached(source: Source) -> bool:
    """Whether the batch took no less than the limit that acts on later ones would let it.

    Where nobody tells what is left, a source that reads whole chunks stays below a limit that holds
    it back: of equal chunks, none larger than the limit, more than half of it is taken then.
    """
    if source.limited or source.current is None:
        return True
    enough = source.current if source.backlog is not None else source.current / 2
    return (source.admitted or 0) >= enough > 0


def _unseen(source: Source) -> bool:
    """Whether what its limit counts is not known: no backlog is told, and no limit was filled yet.

    A limit in rows may count pages, bytes, or what a filter leaves out.
    """
    return source.obeyed is None and source.backlog is None and source.configured is not None


def _need(query: Query, source: Source) -> float | None:
    """Rows a source could use in the next batch: its backlog and what arrives meanwhile."""
    backlog = source.backlog_rows
    if backlog is None:
        return None
    return backlog + (source.arrival_rows or 0.0) * (query.batch.seconds or 0.0)


def _told(source: Source, step: Step, deadband: float) -> bool:
    """Whether dry-run has told of this step already, but for the noise of one batch."""
    before = source.decided_limit
    if not source.would_be or before is None or step.limit is None:
        return False
    return step.reason == source.decided_reason and abs(step.limit - before) <= deadband * before


def _as_configured(query: Query, time: float, policy: Policy) -> None:
    """Every batch as the job configured it: smaller ones would drop rows as late."""
    detail = query.watched.lateness.seen
    for source in query.controlled():
        _remember_held(query, source)
        if source.decided or source.current != source.configured:
            step = Step(source.configured, "hold:late_rows")
            _decide(query, source, step, time, policy, detail=detail)
    query.sizing.reason = "hold:late_rows"


def _decide_manual(query: Query, time: float, policy: Policy) -> None:
    settings = query.settings(policy)
    if query.watched.lateness.holds(settings.late_rows):
        _as_configured(query, time, policy)
        return
    if query.orders.unit is None:
        main = query.main_source()
        query.orders.unit = None if main is None else main.unit
    for source in query.sources:
        if source.controllable and query.orders.unit == source.unit:
            source.exclusive_rows = source.floating_rows = None  # nothing is shared out
            _decide(query, source, Step(query.orders.limit, "manual"), time, policy)
    query.sizing.reason = "manual"


def _decide(
    query: Query,
    source: Source,
    step: Step,
    time: float,
    policy: Policy,
    *,
    detail: str = "",
) -> None:
    """Sets a source's limit from now on and, where that moves it, writes it down."""
    before, told = source.current, source.next
    acts = query.mode(policy) == "on"
    source.decide(step.limit, step.reason, time, would_be=not acts)
    if step.limit in (before, told):
        return
    decision = Decision(
        time,
        query.batch.id,
        source.index,
        source.unit or "rows",
        before,
        step.limit,
        step.reason,
        acts,
        detail,
    )
    query.sizing.decisions = [*query.sizing.decisions[-(_MOST_DECISIONS - 1) :], decision]


def _explain(query: Query, batch: Progress, size: Size, *, changed: bool) -> str:
    """The figures behind a decision, in one sentence."""
    cost = query.sizing.cost
    per_second = figure(cost.throughput or 0.0)
    parts = [
        f"{batch.rows or 0:,} rows took {figure(batch.seconds or 0.0)} s",
        f"model: {figure(cost.fixed_cost or 0.0)} s + 1 s per {per_second} rows",
        f"wants {figure(size.rows)} rows",
    ]
    arrival = query.arrival_rows()
    if size.reason == "bound:restart":
        seconds = (cost.seconds(size.rows) or 0.0) + query.sizing.cold.expected(cost)
        parts.append(f"a driver that just started takes {figure(seconds)} s for them")
    if size.reason == "floor:stability" and arrival is not None:
        parts.append(f"{figure(arrival)} rows arrive per second")
    if size.reason == "floor:retention":
        parts.append("retention would delete rows unread")
    if changed:
        parts.append("the cost of a batch has changed")
    return "; ".join(parts)


# -- a hand at the wheel ----------------------------------------------------------------------


def order_mode(query: Query, mode: Mode | None, policy: Policy, time: float) -> None:
    """A mode set by hand; None goes back to the configured one. The next reply acts on it."""
    query.orders.mode = mode
    holds = query.mode(policy)
    follow_mode(query, policy)
    if holds != "on":
        query.sizing.reason = f"mode:{holds}"
    elif query.orders.limit is not None:
        _decide_manual(query, time, policy)
    elif query.orders.held:
        order_hold(query, time, policy)


def follow_mode(query: Query, policy: Policy) -> None:
    """What was decided under another mode: dry-run's counts from now on, an acting one's is over.

    The former started from the limit that is still in force (``Source.hear`` sees to that), so the
    first grant after dry-run is a step like any other.
    """
    mode = query.mode(policy)
    for source in query.sources:
        if mode == "on" and source.would_be and not query.life.terminated:
            source.would_be = False
        elif source.decided and (mode == "off" or source.would_be == (mode == "on")):
            source.withdraw()


def order_hold(query: Query, time: float, policy: Policy) -> None:
    """Whatever is granted now stays, else what is in force; without control that anyway."""
    query.orders.held = True
    acts = query.mode(policy) == "on"
    for source in query.sources:
        if not acts:
            source.withdraw()
        elif source.controllable and source.limit_known and not source.decided:
            source.decide(source.limit, "hold:operator", time)
    query.sizing.reason = "hold:operator"


def _remember_held(query: Query, source: Source) -> None:
    """What a hand holds, before batches that are as configured."""
    if query.orders.held and source.decided and source.decided_reason != "hold:late_rows":
        source.held_limit = source.decided_limit


def _hold_again(query: Query, time: float, settings: QueryPolicy) -> None:
    """What was held before batches that were as configured."""
    for source in query.sources:
        away = not source.decided or source.decided_reason == "hold:late_rows"
        if source.held_limit is not None and away:
            source.decide(source.held_limit, "hold:operator", time)
            _keep_within(source, settings, time)
        source.held_limit = None


def order_release(query: Query) -> None:
    """The controller decides again with the next batch, from what is granted until then."""
    query.orders.held, query.orders.limit, query.orders.unit = False, None, None
    query.watched.lateness.retry()
    for source in query.sources:
        source.held_limit = None
        if source.would_be:
            source.withdraw()  # it was only told: nothing is in force that could be released
        elif source.decided_reason in {"manual", "hold:operator", "hold:late_rows"}:
            source.decided_reason = "release"
    query.sizing.reason = "release"


def order_limit(query: Query, limit: int, unit: str | None, time: float, policy: Policy) -> None:
    """A limit set by hand, for each source of that unit; else of its main source's.

    It keeps the unit: the number means nothing to a source of another one that comes later.
    """
    main = query.main_source()
    query.orders.limit, query.orders.unit = limit, unit or (None if main is None else main.unit)
    if query.mode(policy) != "off":
        _decide_manual(query, time, policy)


def check_unit(query: Query, unit: str | None) -> None:
    """Raises ValueError where no source is limited in that unit."""
    units = sorted({source.unit for source in query.sources if source.unit is not None})
    if unit is not None and units and unit not in units:
        known = ", ".join(units)
        raise ValueError(f"unit: {query.query} has no source limited in {unit}, but in {known}")
