"""What the tables say in short, for the summary and the report: bounded in size for each query.

A worker gathers it from the rows as they are judged; it is kept beside the tables, a file for each
application, so that nothing of the tables is read again.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.history import rows, tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from agent.history.places import Places
    from agent.history.rows import Row, Values

#: Queries told in full, the worst first; incidents of each; points of a plot.
MOST_QUERIES: Final = 40
MOST_INCIDENTS: Final = 50
MOST_POINTS: Final = 240
WORST_HOURS: Final = 3
MOST_HOURS: Final = 24 * 14
MOST_DECISIONS: Final = 8
MOST_STAGES: Final = 3

Record = dict[str, Any]
_BATCH: Final = {column.name: place for place, column in enumerate(tables.BATCH_COLUMNS)}
_NAMES: Final = {
    table.name: [column.name for column in table.columns]
    for table in tables.TABLES
    if table is not tables.BATCHES
}


class QueryFindings(msgspec.Struct):
    """One query; records are rows of the tables, times as epoch seconds."""

    application: str
    query: str
    advised: Record
    hours: list[Record] = []  # in order of time, at most the last two weeks
    incidents: list[Record] = []  # the newest first
    decisions: list[Record] = []  # the last, the newest first
    points: list[Record] = []  # of its batches, gathered to intervals of equal length
    stages: list[Record] = []  # the longest waits

    @property
    def worst_hours(self) -> list[Record]:
        """The worst first."""
        return sorted(self.hours, key=lambda hour: hour["rank"])[:WORST_HOURS]


class Short(msgspec.Struct, frozen=True):
    """A query in a few figures, to tell which are the worst; None is unknown."""

    application: str
    query: str
    advised: bool  # whether it had a batch with rows, from which all but the last come
    batches: int = 0
    from_time: float | None = None
    to_time: float | None = None
    over_target_share: float | None = None
    batch_seconds_p95: float | None = None
    incidents: dict[str, int] = {}  # by kind and detail

    @property
    def told(self) -> str:
        """Its incidents, in words."""
        return in_words(self.incidents)

    @property
    def badness(self) -> tuple[int, float]:
        """The higher, the worse: how often something was wrong, then how slow it is."""
        slow = (self.over_target_share or 0.0) * (self.batch_seconds_p95 or 0.0)
        return sum(self.incidents.values()), slow


def in_words(incidents: Mapping[str, int]) -> str:
    """Incidents by kind and detail: ``3 lag ERR, 1 unfinished batch``."""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(incidents.items()))


encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(list[QueryFindings]).decode


class Findings(msgspec.Struct):
    """All that people read of the output folder."""

    queries: list[QueryFindings] = []
    queries_known: int = 0
    incidents_known: dict[str, int] = {}  # by kind and detail
    batches: int = 0
    begin: float | None = None
    end: float | None = None
    without_batch: list[Short] = []  # nor advice, but with incidents; the worst first


class Gathering:
    """Rows of one application as they are judged, to what is said of its queries."""

    def __init__(self) -> None:
        self._queries: dict[tuple[str, str], _Gathered] = {}

    def add(self, row: Row) -> None:
        """Takes a row in."""
        table, values = row
        key = (values[0], values[1])
        one = self._queries.get(key)
        if one is None:
            one = self._queries[key] = _Gathered()
        one.add(table, values)

    def end(self) -> tuple[list[Short], list[QueryFindings]]:
        """The queries in short, and in full those that had batches."""
        shorts, full = [], []
        for (application, query), one in sorted(self._queries.items()):
            shorts.append(one.short(application, query))
            if one.advised is not None:
                full.append(one.whole(application, query, one.advised))
        return shorts, full


class _Gathered:
    """What is held of one query."""

    def __init__(self) -> None:
        self.advised: Record | None = None
        self._hours: deque[Record] = deque(maxlen=MOST_HOURS)
        self._incidents: list[Record] = []
        self._by_kind: Counter[str] = Counter()
        self._decisions: deque[Record] = deque(maxlen=MOST_DECISIONS)
        self._stages: list[Record] = []
        self._points = Points()

    def add(self, table: str, values: Values) -> None:
        if table == rows.BATCHES:
            if values[_BATCH["event"]] == "progress" and values[_BATCH["rows"]]:
                self._points.add(values)
            return
        record = dict(zip(_NAMES[table], values, strict=True))
        if table == rows.RECOMMENDATIONS:
            self.advised = record
        elif table == rows.CAPACITY:
            self._hours.append(record)
        elif table == rows.DECISIONS:
            self._decisions.append(record)
        elif table == rows.INCIDENTS:
            self._by_kind[f"{record['kind']} {record['detail']}"] += 1
            _insert(self._incidents, record, lambda one: one["begin_time"], MOST_INCIDENTS)
        elif record["wait_seconds"] is not None and record["why"] not in (None, "even"):
            _insert(self._stages, record, lambda one: one["wait_seconds"], MOST_STAGES)

    def short(self, application: str, query: str) -> Short:
        told = self.advised
        if told is None:
            return Short(application, query, advised=False, incidents=dict(self._by_kind))
        return Short(
            application,
            query,
            advised=True,
            batches=told["batches"],
            from_time=told["from_time"],
            to_time=told["to_time"],
            over_target_share=told["over_target_share"],
            batch_seconds_p95=told["batch_seconds_p95"],
            incidents=dict(self._by_kind),
        )

    def whole(self, application: str, query: str, advised: Record) -> QueryFindings:
        return QueryFindings(
            application,
            query,
            advised,
            sorted(self._hours, key=lambda hour: hour["hour_time"]),
            self._incidents,
            list(reversed(self._decisions)),
            self._points.records(),
            self._stages,
        )


class _Point(msgspec.Struct):
    time: float
    last_time: float
    batches: int
    seconds_max: float | None
    seconds_sum: float
    timed: int  # batches whose duration is known
    rows_max: int
    rows_sum: int
    backlog_rows: float | None
    would_limit_rows: int | None

    def join(self, other: _Point) -> None:
        if other.last_time >= self.last_time:
            self.would_limit_rows = other.would_limit_rows
        self.time = min(self.time, other.time)
        self.last_time = max(self.last_time, other.last_time)
        self.batches += other.batches
        self.seconds_max = _most(self.seconds_max, other.seconds_max)
        self.seconds_sum += other.seconds_sum
        self.timed += other.timed
        self.rows_max = max(self.rows_max, other.rows_max)
        self.rows_sum += other.rows_sum
        self.backlog_rows = _most(self.backlog_rows, other.backlog_rows)

    def record(self) -> Record:
        return {
            "time": self.time,
            "batches": self.batches,
            "seconds_max": self.seconds_max,
            "seconds": self.seconds_sum / self.timed,
            "rows_max": self.rows_max,
            "rows": self.rows_sum / self.batches,
            "backlog_rows": self.backlog_rows,
            "would_limit_rows": self.would_limit_rows,
        }


class Points:
    """A query's batches in intervals of equal length, doubled whenever they become too many."""

    def __init__(self) -> None:
        self._points: dict[int, _Point] = {}
        self._begin = 0.0
        self._width = 1.0

    def add(self, values: Values) -> None:
        """Takes in a batch that had rows; a row of the judge's table of batches."""
        time, seconds = values[_BATCH["time"]], values[_BATCH["seconds"]]
        count = values[_BATCH["rows"]]
        one = _Point(
            time,
            time,
            1,
            seconds,
            seconds or 0.0,
            int(seconds is not None),
            count,
            count,
            values[_BATCH["backlog_rows"]],
            values[_BATCH["would_limit_rows"]],
        )
        if not self._points:
            self._begin = time
        while (place := self._place(time)) >= MOST_POINTS:
            self._width *= 2.0
            wider: dict[int, _Point] = {}
            for known in self._points.values():
                _put(wider, self._place(known.time), known)
            self._points = wider
        _put(self._points, place, one)

    def records(self) -> list[Record]:
        """The intervals that had batches, in order of time."""
        told = [point for point in self._points.values() if point.timed]
        return [point.record() for point in sorted(told, key=lambda point: point.time)]

    def _place(self, time: float) -> int:
        return max(0, math.floor((time - self._begin) / self._width))


def gather(
    places: Places, told: Mapping[str, Iterable[Short]], address: Callable[[str], str]
) -> Findings:
    """All queries in sum, and the worst in full. Raises NoSuchPlace.

    ``told``: the queries of each application; ``address``: where what is said of it in full lies.
    """
    everyone = [(one, kept) for kept, known in told.items() for one in known]
    advised = [(one, kept) for one, kept in everyone if one.advised]
    advised.sort(key=lambda pair: (pair[0].application, pair[0].query))
    advised.sort(key=lambda pair: pair[0].badness, reverse=True)
    shorts = [one for one, _ in advised]
    by_kind: Counter[str] = Counter()
    for one, _ in everyone:
        by_kind.update(one.incidents)
    without = [one for one, _ in everyone if not one.advised and one.incidents]
    without.sort(key=lambda one: (-one.badness[0], one.application, one.query))
    found = Findings(
        without_batch=without[:MOST_QUERIES],
        queries_known=len(shorts),
        incidents_known=dict(by_kind),
        batches=sum(one.batches for one in shorts),
        begin=min((one.from_time for one in shorts if one.from_time is not None), default=None),
        end=max((one.to_time for one in shorts if one.to_time is not None), default=None),
    )
    since = (found.end or 0.0) - MOST_HOURS * 3600.0
    full: dict[str, dict[tuple[str, str], QueryFindings]] = {}
    for one, kept in advised[:MOST_QUERIES]:
        if kept not in full:
            content = places.read(address(kept)) or b"[]"
            full[kept] = {(each.application, each.query): each for each in _decode(content)}
        whole = full[kept].get((one.application, one.query))
        if whole is not None:
            whole.hours = [hour for hour in whole.hours if hour["hour_time"] >= since]
            found.queries.append(whole)
    return found


def _insert(kept: list[Record], one: Record, by: Callable[[Record], float], most: int) -> None:
    """Keeps the records with the most, these first."""
    kept.append(one)
    kept.sort(key=by, reverse=True)
    del kept[most:]


def _put(points: dict[int, _Point], place: int, one: _Point) -> None:
    known = points.get(place)
    if known is None:
        points[place] = one
    else:
        known.join(one)


def _most(known: float | None, now: float | None) -> float | None:
    if known is None or now is None:
        return now if known is None else known
    return max(known, now)
