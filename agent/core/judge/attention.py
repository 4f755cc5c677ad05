"""Attention: how much a query needs somebody, judged once for page, terminal, metrics and alerts.

``docs/status-page.md`` describes the levels for people, ``agent/export/page/assets/words.json``
holds their words.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.judge.checkpoint import LATE, NEAR_SHARE
from agent.core.judge.explanations import FEWEST_BATCHES
from agent.core.judgement import AttentionLevel, AttentionView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.core.judgement import QueryView

#: At these nobody need do anything, whatever the figures.
CALM: Final[frozenset[AttentionLevel]] = frozenset({"low", "ok", "idle", "ended"})

#: A batch counts as late from so many targets on, as beside what batches took: half above either is
#: more than the noise of batches. One that still runs and is so old already ends late, too.
LATE_TARGETS: Final = LATE
#: The later half of the batches left so much more behind than the earlier one.
GROWING_FACTOR: Final = 1.25
#: Doublings beyond this make no difference to anybody, and an infinite figure has to end.
_MOST_DOUBLINGS: Final = 64


def judged(view: QueryView, now: float, *, growing: bool, clock_seconds: float = 0.0) -> QueryView:
    """The view with its attention, at the agent's ``now``.

    ``growing``: what ``grows`` says of its last batches, which holds where what waits is not being
    worked off. ``clock_seconds``: the agent's clock less what the driver's says.
    """
    level = _level(view, growing=growing)
    since = _since(view, level, now, clock_seconds)
    return msgspec.structs.replace(
        view,
        attention=AttentionView(
            level,
            _urgency(view, level),
            _to_do(view, level),
            None if since is None else min(since, now),
        ),
    )


def grows(batches: Sequence[tuple[float, float]]) -> bool:
    """More than a batch waits, and the later half of the batches left a quarter more than the rest.

    Of each batch what it left behind and what it took, in rows, oldest first; those of which it is
    not known what they left are left out.
    """
    if len(batches) < FEWEST_BATCHES:
        return False
    left, took = batches[-1]
    if not left > took:
        return False
    half = len(batches) // 2
    earlier = sum(left for left, _ in batches[:half]) / half
    later = sum(left for left, _ in batches[half:]) / (len(batches) - half)
    return later > GROWING_FACTOR * earlier


def _level(view: QueryView, *, growing: bool) -> AttentionLevel:
    """The first that holds."""
    if view.stopped:
        return "ended"
    if view.state == "terminated":
        # Without a failure its driver ended under it: nobody stopped it, as where nothing is heard.
        return "lost" if view.failure is None else "failed"
    if view.state == "stalled":
        return "hung"
    if view.spiral.phase in ("spiralling", "timing_out", "dead"):
        return "spiralling"
    if not view.up:
        return "lost"
    if view.required_capacity_ratio is not None and view.required_capacity_ratio > 1:
        return "overloaded"
    if view.pressure == "high":
        return "pressured"
    if view.target_feasible is False:
        return "infeasible"
    if growing and not _worked_off(view):
        return "growing"
    if _runs_late(view) or _ended_late(view):
        return "late"
    if view.pressure == "low":
        return "low"
    return "idle" if view.state == "idle" else "ok"


def _runs_late(view: QueryView) -> bool:
    return _late(view, view.running_seconds)


def _ended_late(view: QueryView) -> bool:
    """The last batch; while the query idles it is long over."""
    return view.state != "idle" and _late(view, view.batch_seconds)


def _late(view: QueryView, seconds: float | None) -> bool:
    target = view.target_seconds
    return seconds is not None and target is not None and seconds > LATE_TARGETS * target


def _urgency(view: QueryView, level: AttentionLevel) -> int:
    if level in ("hung", "late"):
        return _doublings(view.running_seconds or 0.0)
    if level == "overloaded":
        # Tenths of the capacity: 1.1 and 1.5 are not the same.
        return _doublings(10 * (view.required_capacity_ratio or 0.0))
    if view.backlog_seconds is not None:
        return _doublings(view.backlog_seconds)
    return _doublings((view.backlog_rows or 0.0) / 1000)


def _doublings(value: float) -> int:
    return math.frexp(min(max(value, 0.5), 2.0 ** (_MOST_DOUBLINGS - 1)))[1]


def _to_do(view: QueryView, level: AttentionLevel) -> bool:
    if level == "late":
        longest = max(view.running_seconds or 0.0, view.batch_seconds or 0.0)
        deadline = view.checkpoint.deadline_seconds  # as the alert has it: a learned one, too
        return deadline is not None and longest >= NEAR_SHARE * deadline
    # A limit that holds back a backlog which is being worked off does what it is for.
    if level == "pressured":
        return not _worked_off(view)
    return level not in CALM


def _worked_off(view: QueryView) -> bool:
    """Whether the limits in force let what waits be consumed, and the last batches do not deny it.

    A burst stays in the mean of the batches after it for long, and falls all the while. Where no
    limit is known, the time to consume takes it that the next batch reads all: that is for the
    batches to show.
    """
    limited = any(source.limit is not None for source in view.sources)
    rises = view.lag_state in ("WARN", "ERR")
    return limited and not rises and view.estimated_time_to_consume_seconds is not None


def _since(
    view: QueryView, level: AttentionLevel, now: float, clock_seconds: float
) -> float | None:
    """When what is wrong began: the batch, the shortage or the silence, or when the query ended."""
    if level == "hung" or (level == "late" and _runs_late(view)):
        return None if view.running_seconds is None else now - view.running_seconds
    if level in ("failed", "ended"):
        return view.gone_since_time
    told = {"lost": view.last_event_time, "overloaded": view.capacity_short_since_time}.get(level)
    return None if told is None else told + clock_seconds
