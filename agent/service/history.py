"""The last batches of every query, for the page's and the terminal's small plots; in memory only.

A thousand queries must fit beside the rest, so points lie in flat arrays: 40 bytes a batch, and 8
more where something is decided in dry-run.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Final

from agent.core.judge import attention
from agent.core.judgement import Point

if TYPE_CHECKING:
    from agent.core.fleet import Key

POINTS: Final = 120
_NAN = math.nan


class _Ring:
    """The last batches of one query. Exact doubles where plots show whole numbers."""

    __slots__ = ("_coarse", "_exact", "_next", "_would_be")

    def __init__(self) -> None:
        self._exact = array("d")  # time, rows, limit
        self._would_be: array[float] | None = None  # limits
        self._coarse = array("f")  # batch seconds, backlog rows, credit rows, limited
        self._next = 0

    def add(self, point: Point) -> None:
        exact = point.time, point.rows, _number(point.limit)
        coarse = (
            _number(point.batch_seconds),
            _number(point.backlog_rows),
            _number(point.credit_rows),
            1.0 if point.limited else 0.0,
        )
        count = len(self._exact) // 3
        if point.would_be_limit is not None and self._would_be is None:
            self._would_be = array("d", [_NAN] * count)
        if count < POINTS:
            self._exact.extend(exact)
            self._coarse.extend(coarse)
            if self._would_be is not None:
                self._would_be.append(_number(point.would_be_limit))
            if count == POINTS - 1:  # no more will come: without the room kept to grow
                self._exact, self._coarse = self._exact[:], self._coarse[:]
            return
        for place, fine in enumerate(exact, 3 * self._next):
            self._exact[place] = fine
        for place, rough in enumerate(coarse, 4 * self._next):
            self._coarse[place] = rough
        if self._would_be is not None:
            self._would_be[self._next] = _number(point.would_be_limit)
        self._next = (self._next + 1) % POINTS

    def points(self, newest: int) -> list[Point]:
        """Oldest first."""
        count = len(self._exact) // 3
        found: list[Point] = []
        for number in range(max(0, count - newest), count):
            index = (self._next + number) % count
            time, rows, limit = self._exact[3 * index : 3 * index + 3]
            would_be = _NAN if self._would_be is None else self._would_be[index]
            seconds, backlog, credit, limited = self._coarse[4 * index : 4 * index + 4]
            found.append(
                Point(
                    time=time,
                    batch_seconds=_short(seconds),
                    rows=int(rows),
                    backlog_rows=_short(backlog),
                    limit=None if math.isnan(limit) else int(limit),
                    credit_rows=_short(credit),
                    limited=limited > 0,
                    would_be_limit=None if math.isnan(would_be) else int(would_be),
                )
            )
        return found

    def grows(self) -> bool:
        """Makes no points, since each scrape asks of every query."""
        left, took = self._coarse[1::4], self._exact[1::3]
        oldest_first = zip(
            left[self._next :] + left[: self._next],
            took[self._next :] + took[: self._next],
            strict=True,
        )
        return attention.grows([one for one in oldest_first if math.isfinite(one[0])])


class History:
    """The rings of all queries."""

    def __init__(self) -> None:
        self._rings: dict[Key, _Ring] = {}

    def add(self, key: Key, point: Point) -> None:
        """One more batch of a query."""
        ring = self._rings.get(key)
        if ring is None:
            ring = self._rings[key] = _Ring()
        ring.add(point)

    def points(self, key: Key, newest: int = POINTS) -> list[Point]:
        """The newest batches of a query, oldest first; empty where nothing is known."""
        ring = self._rings.get(key)
        return [] if ring is None or newest <= 0 else ring.points(newest)

    def grows(self, key: Key) -> bool:
        """Whether the query's backlog grows, by all the batches that are kept."""
        ring = self._rings.get(key)
        return ring is not None and ring.grows()

    def forget(self, key: Key) -> None:
        """The query is gone for good."""
        self._rings.pop(key, None)

    def __len__(self) -> int:
        return len(self._rings)


def _number(value: float | None) -> float:
    return _NAN if value is None else value


def _short(value: float) -> float | None:
    """Single precision holds seven digits; more would only be noise in the JSON."""
    return None if not math.isfinite(value) else float(f"{value:.7g}")
