"""The last batches of every query, and its last hours, for the plots; in memory only.

A thousand queries must fit beside the rest, so points lie in flat arrays: 40 bytes a batch, and 8
more where something is decided in dry-run. Of the hours two minutes are one piece of 32 bytes.
Times are kept as the fleet gives them, by a clock that is never set, and told as the driver's says.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.judge import attention
from agent.core.judgement import Point

if TYPE_CHECKING:
    from agent.core.fleet import Key

POINTS: Final = 120
#: A plot a thousand pixels wide tells no finer ones apart over hours.
PIECE_SECONDS: Final = 120.0
#: Twelve hours: what happened in the night is there in the morning.
PIECES: Final = 360
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

    def points(self, newest: int, set_seconds: float) -> list[Point]:
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
                    time=time - set_seconds,
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


class Piece(msgspec.Struct, frozen=True, gc=False):
    """Two minutes of a query in which batches ended; ``time`` is when the last of them did."""

    time: float
    batch_seconds: float | None  # of the longest
    total_seconds: float  # of all
    rows: float
    backlog_rows: float | None  # the most that was left
    limit: float | None  # the last
    would_be_limit: float | None


class _Hours:
    """The last hours of one query, the oldest overwritten."""

    __slots__ = ("_figures", "_next", "_times")

    def __init__(self) -> None:
        self._times = array("d")
        self._figures = array("f")  # those of Piece but its time, in order
        self._next = 0  # the place of the oldest, once all are taken

    def add(self, point: Point) -> None:
        figures = (
            _number(point.batch_seconds),
            point.batch_seconds or 0.0,
            float(point.rows),
            _number(point.backlog_rows),
            _number(point.limit),
            _number(point.would_be_limit),
        )
        count = len(self._times)
        last = (self._next - 1) % count if count else 0
        # A time before the last makes no new piece.
        if count and point.time // PIECE_SECONDS <= self._times[last] // PIECE_SECONDS:
            self._merge(last, point.time, figures)
        elif count < PIECES:
            self._times.append(point.time)
            self._figures.extend(figures)
            self._next = 0
        else:
            self._times[self._next] = point.time
            self._figures[6 * self._next : 6 * self._next + 6] = array("f", figures)
            self._next = (self._next + 1) % PIECES

    def _merge(self, place: int, time: float, figures: tuple[float, ...]) -> None:
        longest, total, rows, backlog, limit, would_be = figures
        at = 6 * place
        old = self._figures[at : at + 6]
        self._times[place] = max(time, self._times[place])
        self._figures[at : at + 6] = array(
            "f",
            (
                _most(old[0], longest),
                old[1] + total,
                old[2] + rows,
                _most(old[3], backlog),
                limit,
                would_be,
            ),
        )

    def pieces(self, set_seconds: float) -> list[Piece]:
        """Oldest first."""
        count = len(self._times)
        order = [(self._next + number) % count for number in range(count)]
        return [
            Piece(
                self._times[place] - set_seconds,
                _short(figures[0]),
                _short(figures[1]) or 0.0,
                _short(figures[2]) or 0.0,
                *map(_short, figures[3:]),
            )
            for place in order
            for figures in [self._figures[6 * place : 6 * place + 6]]
        ]


def _most(one: float, other: float) -> float:
    """The larger of those that are known."""
    return other if math.isnan(one) else one if math.isnan(other) else max(one, other)


class History:
    """The rings of all queries."""

    def __init__(self) -> None:
        self._rings: dict[Key, _Ring] = {}
        self._hours: dict[Key, _Hours] = {}

    def add(self, key: Key, point: Point) -> None:
        """One more batch of a query."""
        ring = self._rings.get(key)
        if ring is None:
            ring = self._rings[key] = _Ring()
            self._hours[key] = _Hours()
        ring.add(point)
        self._hours[key].add(point)

    def hours(self, key: Key, set_seconds: float = 0.0) -> list[Piece]:
        """The last hours of a query, oldest first; empty where nothing is known.

        ``set_seconds``: see ``Fleet.clock_set_seconds``; so with ``points``.
        """
        found = self._hours.get(key)
        return [] if found is None else found.pieces(set_seconds)

    def points(self, key: Key, newest: int = POINTS, set_seconds: float = 0.0) -> list[Point]:
        """The newest batches of a query, oldest first; empty where nothing is known."""
        ring = self._rings.get(key)
        return [] if ring is None or newest <= 0 else ring.points(newest, set_seconds)

    def grows(self, key: Key) -> bool:
        """Whether the query's backlog grows, by all the batches that are kept."""
        ring = self._rings.get(key)
        return ring is not None and ring.grows()

    def forget(self, key: Key) -> None:
        """The query is gone for good."""
        self._rings.pop(key, None)
        self._hours.pop(key, None)

    def __len__(self) -> int:
        return len(self._rings)


def _number(value: float | None) -> float:
    return _NAN if value is None else value


def _short(value: float) -> float | None:
    """Single precision holds seven digits; more would only be noise in the JSON."""
    return None if not math.isfinite(value) else float(f"{value:.7g}")
