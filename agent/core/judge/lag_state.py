"""Lag states after Burrow: ordered rules over a short window of batches, the first match wins.

Burrow (linkedin/Burrow, ``core/internal/evaluator``) judges a consumer by what its committed
offsets and its lag did over a window, not by a threshold of the lag. The same here for a query's
batches, with one addition: a floor, below which lag is nobody's concern.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.core.judgement import LagState

#: Burrow's window.
MOST_POINTS: Final = 10
#: Batches that must be in the window before a growing or standing lag is called one: half of it,
#: so that in a full one they are held against as many older ones.
_FEWEST_POINTS: Final = MOST_POINTS // 2
#: Lag below so many seconds never alarms, nor does lag below twice the target.
FLOOR_SECONDS: Final = 10.0
FLOOR_TARGETS: Final = 2.0


class LagPoint(msgspec.Struct, frozen=True, gc=False):
    """A batch as lag sees it. Seconds of the driver's clock; rows."""

    time: float
    admitted_rows: int | None
    backlog_rows: float | None


class LagWindow(msgspec.Struct):
    """The last batches of a query, and whether it went back behind what it had committed."""

    points: list[LagPoint] = []
    rewound_points: int = 0  # batches until a rewind leaves the window
    positions: dict[int, int] = {}  # newest committed offset by source, summed over partitions
    places: dict[int, int] = {}  # how many partitions that is, by source

    def add(self, point: LagPoint) -> None:
        """A batch ended."""
        self.points.append(point)
        if len(self.points) > MOST_POINTS:
            del self.points[0]
        if self.rewound_points:
            self.rewound_points -= 1

    def rewind(self) -> None:
        """The query reads again what it had committed before."""
        self.rewound_points = MOST_POINTS

    def begin_run(self) -> None:
        """A new run: what lag did before it and in the time between says nothing of its trend."""
        self.points = []


class LagNow(msgspec.Struct, frozen=True, gc=False):
    """The present moment; None is unknown."""

    backlog_rows: float | None
    backlog_seconds: float | None
    stopped: bool  # the query has ended, or its running batch counts as hung
    floor_seconds: float
    arrival_rows_per_second: float | None = None


def floor_seconds(target_seconds: float) -> float:
    """The lag in seconds below which nothing is said."""
    return max(FLOOR_SECONDS, FLOOR_TARGETS * target_seconds)


def lag_state(window: LagWindow, now: LagNow) -> LagState:
    """The first rule that holds.

    REWIND committed offsets went back. UNKNOWN the backlog is not told. OK nothing is left, or
    less than the floor. STOP there is a backlog and nothing is committed any more. STALL batches
    are committed and take nothing while the backlog stands. ERR lag grows steadily and already
    holds more than a whole window of arrivals. WARN lag grows steadily. OK otherwise.
    """
    if window.rewound_points:
        return "REWIND"
    if now.backlog_rows is None:
        return "UNKNOWN"
    if now.backlog_rows <= 0.0 or _below_floor(now):
        return "OK"
    if now.stopped:
        return "STOP"
    known = [point for point in window.points if point.backlog_rows is not None]
    lags = [point.backlog_rows or 0.0 for point in known]
    if len(known) >= _FEWEST_POINTS:
        recent = known[-_FEWEST_POINTS:]
        if all(point.admitted_rows == 0 for point in recent) and lags[-1] >= lags[-_FEWEST_POINTS]:
            return "STALL"
    if grows(lags):
        span = known[-1].time - known[0].time
        behind = now.backlog_seconds
        far = len(known) >= MOST_POINTS and behind is not None and behind > span > 0.0
        return "ERR" if far else "WARN"
    return "OK"


def grows(lags: Sequence[float]) -> bool:
    """Whether lag grew all through the window, which noise alone does not do.

    Over the last five batches it never fell and rose in all; or, in a full window, every one of
    these five lies above every one of the older.
    """
    if len(lags) < _FEWEST_POINTS or min(lags) <= 0.0:
        return False
    last = lags[-_FEWEST_POINTS:]
    if last[-1] > last[0] and all(b >= a for a, b in pairwise(last)):
        return True
    return len(lags) >= MOST_POINTS and min(last) > max(lags[:-_FEWEST_POINTS])


def _below_floor(now: LagNow) -> bool:
    if now.backlog_seconds is not None:
        return now.backlog_seconds < now.floor_seconds
    arrival = now.arrival_rows_per_second
    return arrival is not None and (now.backlog_rows or 0.0) < arrival * now.floor_seconds
