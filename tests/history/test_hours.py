"""What is said of an hour, and of all of them, however many batches it held."""

from __future__ import annotations

import io
import json
import random
import re
from typing import TYPE_CHECKING

import msgspec
import pytest

from agent.core.policy import QueryPolicy
from agent.history import hours, rows
from agent.history.findings import Findings, Gathering
from agent.history.hours import MOST_KEPT, Sample, quantile
from agent.history.job import Outcome
from agent.history.judge import Judge
from agent.history.report import html
from agent.history.summary import show
from spark_listener.wire import format_time
from tests.event_log import lines as made
from tests.history.test_judge import LOG, judged, kept, of

if TYPE_CHECKING:
    from collections.abc import Sequence


def sample(values: list[float]) -> Sample:
    found = Sample()
    for value in values:
        found.add(value)
    return found


def test_a_busy_hours_quantiles_are_of_the_whole_hour() -> None:
    """A batch each 0.2 s, of many rows at first and of few in the end."""
    found = sample([10_000.0] * 13_000 + [100.0] * 5_000)
    assert len(found.values) <= MOST_KEPT
    assert quantile(found, 0.95) == 10_000.0
    assert quantile(found, 0.5) == 10_000.0
    assert quantile(found, 0.25) == 100.0


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 31, 33, 64, 65, 1000])
def test_those_kept_are_as_far_from_each_other(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hours, "MOST_KEPT", 16)
    found = sample([float(number) for number in range(count)])
    assert found.values == [float(number) for number in range(0, count, found.each)]
    assert 8 <= len(found.values) <= 16 or count < 8


def test_without_thinning_a_quantile_is_one_of_all() -> None:
    noise = random.Random(4)
    values = [noise.random() for _ in range(777)]
    for share in (0.0, 0.05, 0.5, 0.95, 1.0):
        expected = sorted(values)[min(int(share * len(values)), len(values) - 1)]
        assert quantile(sample(values), share) == expected
    assert quantile(Sample(), 0.5) is None


def log(seconds_of: Sequence[Sequence[float]]) -> list[bytes]:
    """Hours of batches that take so long."""
    lines, number = [*made.opening(), made.started()], 0
    for hour, batches in enumerate(seconds_of):
        begin = 3600.0 * (made.BASE // 3600.0 + 1 + hour)
        every = 3000.0 / len(batches)
        for place, seconds in enumerate(batches):
            told = json.loads(made.progress(number, round(1000 * seconds), seconds))
            told["progress"]["timestamp"] = format_time(begin + every * place)
            lines.append(json.dumps(told, separators=(",", ":")).encode())
            number += 1
    return lines


def test_an_hour_of_many_batches_counts_for_as_many() -> None:
    told = judged([log([[1.0] * 85, [9.0] * 15])])
    assert [one["batch_seconds_p95"] for one in of(told, rows.CAPACITY)] == [1.0, 9.0]
    (one,) = of(told, rows.RECOMMENDATIONS)
    assert (one["batch_seconds_p50"], one["batch_seconds_p95"]) == (1.0, 9.0)
    assert one["batch_rows_p50"] == 1000.0
    more = of(judged([log([[1.0] * 98, [9.0] * 2])]), rows.RECOMMENDATIONS)
    assert more[0]["batch_seconds_p95"] == 1.0


def numbers_in(what: object) -> int:
    """How many values of batches are kept in something."""
    if isinstance(what, Sample):
        return len(what.values)
    if isinstance(what, hours.Hour):
        return numbers_in(msgspec.structs.astuple(what))
    return sum(map(numbers_in, what)) if isinstance(what, list | tuple) else 0


def test_what_is_kept_does_not_grow_with_the_months(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hours, "MOST_KEPT", 64)
    judge = Judge(QueryPolicy(target_seconds=1.0))
    for one in kept([log([[0.5 + 0.01 * (hour % 24)] for hour in range(60 * 24)])]):
        list(judge.hear(LOG, one))
    (of_query,) = judge._hours.values()
    assert numbers_in(list(vars(of_query).values())) <= 2 * 64 + 3
    told = list(judge.end())
    found = [one["batch_seconds_p95"] for one in of(told, rows.CAPACITY)]
    assert found == pytest.approx([0.5 + 0.01 * (hour % 24) for hour in range(60 * 24)], abs=0.002)


def test_the_longest_is_told_whatever_is_kept(
    real_log: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = real_log.splitlines()
    whole = {one["query"]: one for one in of(judged([lines]), rows.RECOMMENDATIONS)}
    monkeypatch.setattr(hours, "MOST_KEPT", 4)
    for one in of(judged([lines]), rows.RECOMMENDATIONS):
        for name in ("batch_seconds_max", "batch_rows_max", "batches", "over_target_share"):
            assert one[name] == whole[one["query"]][name]


def two_sources(batch: int, size: int) -> bytes:
    """Of a batch's rows three quarters are of one topic, and a source beside them is never read."""
    told = json.loads(made.progress(batch, size, 0.5 + size / 10_000))
    (source,) = told["progress"]["sources"]
    told["progress"]["sources"] = [
        {**source, "description": f"KafkaV2[Subscribe[{name}]]", "numInputRows": rows_of}
        for name, rows_of in (("a", size * 3 // 4), ("idle", 0), ("b", size // 4))
    ]
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def test_a_limit_of_several_sources_is_told_for_each() -> None:
    lines = [*made.opening(), made.started()]
    lines += [two_sources(batch, 4000 * (1 + batch % 5)) for batch in range(40)]
    gathering = Gathering()
    told = judged([lines])
    for row in told:
        gathering.add(row)
    (one,) = of(told, rows.RECOMMENDATIONS)
    limit = one["limit_rows"]
    assert one["sources"] == 2
    assert f"a limit of {limit:,} rows over all sources" in one["advice"]
    assert f"{round(limit * 0.75):,} of KafkaV2[Subscribe[a]] (source 0)" in one["advice"]
    assert f"{round(limit * 0.25):,} of KafkaV2[Subscribe[b]] (source 2)" in one["advice"]
    found, out = Findings(gathering.end()[1], 1, {}, 40), io.StringIO()
    show(found, Outcome("out"), out)
    assert "in all" in out.getvalue()
    assert f"<b>{limit:,} in all</b>" in html(found, Outcome("out"))


def test_a_source_that_is_read_no_more_has_no_part_of_a_limit() -> None:
    """Of two topics a job reads one since its last change; before, it was the smaller part."""
    lines = [*made.opening(), made.started()]
    lines += [two_sources(batch, 4000 * (1 + batch % 5)) for batch in range(40)]
    lines += [made.terminated(), made.started("r-2")]
    for batch in range(40, 80):
        told = json.loads(two_sources(batch, 4000 * (1 + batch % 5)))["progress"]
        told["runId"], told["sources"] = "r-2", [{**told["sources"][2], "numInputRows": 1000}]
        lines.append(made.line(f"{made.LISTENER}QueryProgressEvent", progress=told))
    (one,) = of(judged([lines]), rows.RECOMMENDATIONS)
    assert one["limit_rows"] is not None
    assert one["sources"] == 1
    assert "sources" not in one["advice"]


def test_a_source_that_was_added_has_its_part_of_a_limit_at_once() -> None:
    """As many rows as of the one that was read alone five times as long."""
    lines = [*made.opening(), made.started()]
    for batch in range(240):
        told = json.loads(two_sources(batch, 4000 * (1 + batch % 5)))["progress"]
        first, _, second = told["sources"]
        told["sources"] = [{**first, "numInputRows": 1000}]
        if batch >= 200:
            told["runId"] = "r-2"
            told["sources"].append({**second, "numInputRows": 1000})
        if batch == 200:
            lines += [made.terminated(), made.started("r-2")]
        lines.append(made.line(f"{made.LISTENER}QueryProgressEvent", progress=told))
    (one,) = of(judged([lines]), rows.RECOMMENDATIONS)
    assert one["sources"] == 2
    said = re.findall(r"([0-9,]+) of KafkaV2", one["advice"])
    parts = [int(part.replace(",", "")) for part in said]
    assert parts == pytest.approx([one["limit_rows"] / 2] * 2, rel=0.1)


def test_a_source_that_has_its_rows_now_and_then_keeps_its_part() -> None:
    """As where each run is one batch, and the last of them found rows in one topic alone."""
    lines = [*made.opening(), made.started()]
    lines += [two_sources(batch, 4000 * (1 + batch % 5)) for batch in range(40)]
    told = json.loads(two_sources(40, 4000))["progress"]
    told["runId"] = "r-2"
    told["sources"][2]["numInputRows"] = 0
    last = made.line(f"{made.LISTENER}QueryProgressEvent", progress=told)
    lines += [made.terminated(), made.started("r-2"), last]
    (one,) = of(judged([lines]), rows.RECOMMENDATIONS)
    assert one["sources"] == 2
    assert "of KafkaV2[Subscribe[b]] (source 2)" in one["advice"]


def test_a_limit_of_one_source_is_its_own(real_log: bytes) -> None:
    for one in of(judged([real_log.splitlines()]), rows.RECOMMENDATIONS):
        assert one["sources"] == 1
        assert "source" not in one["advice"]


def test_a_limit_leaves_room_for_a_driver_that_starts() -> None:
    """The first batch took 8.9 s, where 0.9 s are usual: of 5 s it would pass the deadline."""
    lines = [*made.opening(), made.started()]
    for batch in range(40):
        size = 4000 * (1 + batch % 5)
        told = json.loads(made.progress(batch, size, 0.5 + size / 10_000 if batch else 8.9))
        told["progress"]["timestamp"] = format_time(made.BASE + 20.0 * batch)
        lines.append(json.dumps(told, separators=(",", ":")).encode() + b"\n")
    settings = QueryPolicy(target_seconds=5.0, deadline_seconds=12.0)
    (one,) = of(judged([lines], settings), rows.RECOMMENDATIONS)
    assert one["limit_reason"] == "bound:restart"
    assert "as the first of a driver" in one["advice"]
    warm = 0.5 + one["limit_rows"] / 10_000
    assert warm + 8.0 == pytest.approx(12.0, rel=0.15)


def windowed(batch: int, size: int) -> bytes:
    """A batch of a query with a watermark and state."""
    told = json.loads(made.progress(batch, size, 0.5 + size / 10_000))
    told["progress"]["eventTime"] = {"watermark": "2026-01-01T00:00:00.000Z"}
    told["progress"]["stateOperators"] = [
        {"operatorName": "stateStoreSave", "numRowsTotal": 1, "numRowsDroppedByWatermark": 0}
    ]
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def test_a_limit_that_may_drop_late_rows_says_so() -> None:
    late = "smaller batches drop rows as late that larger ones count"
    for batch_of, said in ((windowed, True), (two_sources, False)):
        lines = [*made.opening(), made.started()]
        lines += [batch_of(batch, 4000 * (1 + batch % 5)) for batch in range(40)]
        (one,) = of(judged([lines]), rows.RECOMMENDATIONS)
        assert one["limit_rows"] is not None
        assert (late in one["advice"]) is said
