"""What is kept of the tables for the report: as they say, bounded, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.history import findings, rows, tables
from agent.history.findings import Gathering, Points, Short, encode, gather
from tests.history.test_judge import judged, of

if TYPE_CHECKING:
    import pytest

COLUMNS = [column.name for column in tables.BATCH_COLUMNS]


class Kept:
    """A file system that is a dictionary."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.read_so_far: list[str] = []

    def read(self, address: str) -> bytes | None:
        self.read_so_far.append(address)
        return self.files.get(address)


def of_query(told: list[dict[str, Any]], query: str) -> list[dict[str, Any]]:
    return [one for one in told if one["query"] == query]


def test_a_real_run_is_told_as_its_tables_have_it(real_log: bytes) -> None:
    told = judged([real_log.splitlines()])
    gathering = Gathering()
    for row in told:
        gathering.add(row)
    shorts, full = gathering.end()
    places: Any = Kept({"orders.json": encode(full)})
    found = gather(places, {"orders": shorts}, lambda name: f"{name}.json")
    advised = of(told, rows.RECOMMENDATIONS)
    assert found.queries_known == len(found.queries) == len(advised) == 2
    assert found.batches == sum(one["batches"] for one in advised)
    assert sum(found.incidents_known.values()) == len(of(told, rows.INCIDENTS))
    assert places.read_so_far == ["orders.json"]
    assert found.queries[0].query == "totals"  # the one with a failure
    for one in found.queries:
        assert [one.advised] == of_query(advised, one.query)
        assert one.hours == of_query(of(told, rows.CAPACITY), one.query)
        decided = of_query(of(told, rows.DECISIONS), one.query)
        assert one.decisions == decided[::-1][: findings.MOST_DECISIONS]
        assert len(one.stages) <= findings.MOST_STAGES
        ran = [
            batch
            for batch in of_query(of(told, rows.BATCHES), one.query)
            if batch["event"] == "progress" and batch["rows"]
        ]
        assert sum(point["batches"] for point in one.points) == len(ran)
        assert max(p["seconds_max"] for p in one.points) == max(b["seconds"] for b in ran)
        assert max(p["rows_max"] for p in one.points) == max(b["rows"] for b in ran)


def batch(time: float, seconds: float | None, count: int, limit: int) -> tuple[Any, ...]:
    values: dict[str, Any] = dict.fromkeys(COLUMNS)
    values |= {"time": time, "seconds": seconds, "rows": count, "would_limit_rows": limit}
    return tuple(values.values())


def test_however_many_batches_the_points_are_few_and_lose_none() -> None:
    points = Points()
    for number in range(100_000):
        points.add(batch(1e9 + 7.0 * number, 1.0 + (number == 777), number + 1, number))
    told = points.records()
    assert findings.MOST_POINTS / 2 <= len(told) <= findings.MOST_POINTS
    assert sum(one["batches"] for one in told) == 100_000
    assert sorted(one["time"] for one in told) == [one["time"] for one in told]
    assert [one["seconds_max"] for one in told].count(2.0) == 1
    assert told[-1]["rows_max"] == 100_000
    assert told[-1]["would_limit_rows"] == 99_999
    rows_in_all = sum(one["rows"] * one["batches"] for one in told)
    assert abs(rows_in_all - 100_000 * 100_001 / 2) < 1


def test_a_batch_without_a_duration_is_no_point() -> None:
    points = Points()
    points.add(batch(1e9, None, 5, 5))
    assert points.records() == []


def test_only_the_worst_are_read_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MOST_QUERIES", 2)
    known = {
        name: [
            Short(name, "q", advised=True, batches=1, from_time=1.0, to_time=2.0, incidents=bad),
            Short(name, "idle", advised=False, incidents={"lag ERR": 1}),
        ]
        for name, bad in (("a", {}), ("b", {"lag ERR": 3}), ("c", {"failure memory": 1}))
    }
    places: Any = Kept({})
    found = gather(places, known, lambda name: name)
    assert places.read_so_far == ["b", "c"]
    assert (found.queries_known, found.batches) == (3, 3)
    assert found.incidents_known == {"lag ERR": 6, "failure memory": 1}
    told = [(one.application, one.query, one.told) for one in found.without_batch]
    assert told == [("a", "idle", "1 lag ERR"), ("b", "idle", "1 lag ERR")], "as many, too"
