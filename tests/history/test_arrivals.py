"""What arrives, and what a limit counts of it: told where a log tells it, and nowhere else."""

from __future__ import annotations

import json
import math
import random
from typing import TYPE_CHECKING, Any

import pytest

from agent.core.policy import QueryPolicy
from agent.history import rows
from agent.history.judge import Judge
from spark_listener.wire import format_time
from tests.event_log import lines as made
from tests.history.test_hours import windowed
from tests.history.test_judge import LOG, judged, kept, of

if TYPE_CHECKING:
    from collections.abc import Mapping

DAY_SECONDS = 86_400.0


def batch(
    number: int, size: int, seconds: float, time: float, source: Mapping[str, Any], run: str
) -> bytes:
    """One that was triggered at that time."""
    told = json.loads(made.progress(number, size, seconds, run))
    told["progress"]["timestamp"] = format_time(time)
    told["progress"]["sources"][0] |= source
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def delta(version: int) -> dict[str, Any]:
    def offset(at: int) -> str:
        place = {"sourceVersion": 1, "reservoirId": "x", "reservoirVersion": at, "index": -1}
        return json.dumps(place | {"isStartingVersion": False})

    return {
        "description": "DeltaSource[s3://bucket/table]",
        "startOffset": offset(version),
        "endOffset": offset(version + 1),
        "latestOffset": None,
    }


def kafka(start: int, end: int, latest: int | None) -> dict[str, Any]:
    told = None if latest is None else json.dumps({"t": {"0": latest}})
    return {
        "description": "KafkaV2[Subscribe[t]]",
        "startOffset": json.dumps({"t": {"0": start}}),
        "endOffset": json.dumps({"t": {"0": end}}),
        "latestOffset": told,
    }


def nightly(source: str) -> list[bytes]:
    """Five nights in which a day's rows are read within minutes, in a limit's batches."""
    noise = random.Random(3)
    lines, number, offset = made.opening(), 0, 0
    for night in range(5):
        run, time = made.run_of(night), made.BASE + night * DAY_SECONDS
        lines.append(made.started(run, time=time))
        sizes = [noise.choice((400_000, 500_000, 600_000)) for _ in range(12)]
        latest = offset + sum(sizes)
        for size in sizes:
            seconds = (4.0 + size / 20_000) * math.exp(noise.gauss(0.0, 0.04))
            told = {
                "delta": delta(number),
                "kafka": kafka(offset, offset + size, latest),
                "kafka before 3.1": kafka(offset, offset + size, None),
            }[source]
            lines.append(batch(number, size, seconds, time, told, run))
            number, offset, time = number + 1, offset + size, time + seconds + 0.4
        lines.append(made.terminated(run))
    return [line.strip() for line in lines]


@pytest.mark.parametrize("source", ["delta", "kafka", "kafka before 3.1"])
def test_what_arrives_is_unknown_where_no_log_tells_it(source: str) -> None:
    told = judged([nightly(source)], QueryPolicy(target_seconds=30.0))
    (one,) = of(told, rows.RECOMMENDATIONS)
    assert one["arrival_rows_per_second"] is None
    assert one["required_capacity_ratio"] is None
    assert one["surely_required_ratio"] is None
    # A batch of the target takes 26 s beside its fixed cost.
    assert one["limit_rows"] == pytest.approx(26 * 20_000, rel=0.15)
    assert "cannot keep up" not in one["advice"]
    assert "what arrives is not told" in one["advice"]


@pytest.mark.parametrize("source", ["delta", "kafka", "kafka before 3.1"])
def test_an_hour_says_nothing_of_arrivals_that_no_log_tells(source: str) -> None:
    for hour in of(judged([nightly(source)], QueryPolicy(target_seconds=30.0)), rows.CAPACITY):
        assert hour["arrival_rows_per_second"] is None
        assert hour["required_capacity_ratio"] is None
        assert hour["limit_rows"] is not None


def test_what_arrives_is_told_where_the_log_tells_it() -> None:
    """A topic that gets a thousand rows a second, and is read every ten seconds."""
    lines = [*made.opening(), made.started()]
    for number in range(60):
        start, time = 10_000 * number, made.BASE + 10.0 * number
        read = kafka(start, start + 10_000, start + 10_000)
        lines.append(batch(number, 10_000, 2.0, time, read, made.RUN))
    (one,) = of(judged([[line.strip() for line in lines]]), rows.RECOMMENDATIONS)
    assert one["arrival_rows_per_second"] == pytest.approx(1000.0, rel=0.05)
    assert one["required_capacity_ratio"] is not None
    assert "not told" not in one["advice"]


def beside_delta(batches: int) -> list[bytes]:
    """Of a topic 100 rows/s, beside a table of 10,000, of which some batches have none."""
    lines = []
    for number in range(batches):
        start, begun = 1000 * number, made.BASE + 10.0 * number
        of_table = 0 if number % 3 == 2 else 100_000
        lines.append(made.job(number, begun + 0.2, stages=[number]))
        lines += made.stage(number, [0.5] * 8, [60] * 8, time=begun + 0.2)
        seconds = 1.0 + (1000 + of_table) / 20_000
        read = kafka(start, start + 1000, start + 1000)
        told = json.loads(batch(number, 1000 + of_table, seconds, begun, read, made.RUN))
        (topic,) = told["progress"]["sources"]
        table = topic | delta(number) | {"numInputRows": of_table}
        told["progress"]["sources"] = [topic | {"numInputRows": 1000}, table]
        lines.append(json.dumps(told, separators=(",", ":")).encode())
    return lines


def test_a_source_that_tells_what_arrives_does_not_speak_for_one_that_does_not() -> None:
    crew = [made.executor(name, 2, made.BASE) for name in ("1", "2")]
    lines = [*made.opening(), *crew, made.started(), *beside_delta(60)]
    told = judged([lines], QueryPolicy(target_seconds=5.0))
    (one,) = of(told, rows.RECOMMENDATIONS)
    assert one["limit_rows"] is not None
    assert "what arrives is not told" in one["advice"]
    for row in (one, *of(told, rows.CAPACITY)):
        assert row["arrival_rows_per_second"] is None
        assert row["required_capacity_ratio"] is None
        assert row["executors_wanted_max"] is None
    assert one["surely_required_ratio"] is None
    assert {row["arrival_rows_per_second"] for row in of(told, rows.BATCHES)} == {None}


def table_in_place_of_a_topic() -> list[bytes]:
    """A topic is read for an hour and more, and then a table, of which nothing comes at first."""
    lines = [*made.opening(), made.executor("1", 2, made.BASE), made.started()]
    for number in range(1000):
        run, time, odd = made.RUN, made.BASE + 10.0 * number, number % 2
        start, size = 10_000 * number - 5_000 * odd, (5_000, 15_000)[odd]
        read = kafka(start, start + size, start + size)
        if number >= 400:
            run, read, size = "r-2", delta(number), size * (number >= 405)
        if number == 400:
            lines += [made.terminated(), made.started(run, time=time)]
        lines.append(made.job(number, time + 0.2, run, stages=[number]))
        lines += made.stage(number, [0.5] * 8, [60] * 8, time=time + 0.2)
        lines.append(batch(number, size, 1.0 + size / 5_000, time, read, run))
    return [line.strip() for line in lines]


def test_what_arrived_at_the_source_before_says_nothing_of_the_one_at_its_place() -> None:
    judge = Judge(QueryPolicy(target_seconds=5.0))
    told = [row for one in kept([table_in_place_of_a_topic()]) for row in judge.hear(LOG, one)]
    told += judge.end()
    first, *_, last = of(told, rows.CAPACITY)
    assert first["arrival_rows_per_second"] == pytest.approx(1000.0, rel=0.25)
    assert first["executors_wanted_max"] is not None
    for name in ("arrival_rows_per_second", "required_capacity_ratio", "executors_wanted_max"):
        assert last[name] is None
    batches = [one for one in of(told, rows.BATCHES) if one["run_id"] == "r-2"]
    assert len(batches) == 600
    assert {one["arrival_rows_per_second"] for one in batches} == {None}
    (one,) = of(told, rows.RECOMMENDATIONS)
    assert one["arrival_rows_per_second"] is None
    assert "what arrives is not told" in one["advice"]
    (query,) = judge._states.values()
    assert query.sizing.need is None  # which else counts for the whole application


@pytest.mark.parametrize(("description", "cut"), [("FileStreamSource", True), ("Other", False)])
def test_what_reads_its_files_in_order_is_cut_behind_a_watermark_too(
    description: str, cut: bool
) -> None:
    """A log tells no class of a source: what it says of itself is what it is known by."""
    lines = [*made.opening(), made.started()]
    for number in range(20):
        told = json.loads(windowed(number, 4000 * (1 + number % 5)))
        told["progress"]["sources"][0]["description"] = f"{description}[s3://bucket/in]"
        lines.append(json.dumps(told, separators=(",", ":")).encode())
    told = judged([lines])
    assert bool(of(told, rows.DECISIONS)) is cut
    held = {one["would_reason"] == "hold:late_rows" for one in of(told, rows.BATCHES)}
    assert held == {not cut}


# -- rows that are not offsets ------------------------------------------------------------------

#: Of the batches: offsets that a topic holds from the start, in sizes as an unlimited job has them.
OFFSETS_EACH = (20_000, 40_000, 80_000)


def caught_up(rows_each: float, latest_grows: int = 0) -> dict[str, Any]:
    """What is advised where 5,000 offsets a second are read, and each has so many rows."""
    noise = random.Random(3)
    sizes = [noise.choice(OFFSETS_EACH) for _ in range(100)]
    lines, start, time = [*made.opening(), made.started()], 0, made.BASE
    for number, size in enumerate(sizes):
        seconds = (1.0 + size / 5_000) * math.exp(noise.gauss(0.0, 0.03))
        latest = sum(sizes) + round(latest_grows * (time - made.BASE))
        read = kafka(start, start + size, latest)
        lines.append(batch(number, round(size * rows_each), seconds, time, read, made.RUN))
        start, time = start + size, time + seconds + 0.05
    told = judged([[line.strip() for line in lines]], QueryPolicy(target_seconds=5.0))
    (one,) = of(told, rows.RECOMMENDATIONS)
    last = of(told, rows.CAPACITY)[-1]
    assert last["limit_rows"] == pytest.approx(one["limit_rows"], rel=0.1)
    return one


@pytest.mark.parametrize(("rows_each", "said"), [(2, "2"), (3, "3"), (0.1, "0.1"), (0.02, "0.02")])
def test_a_limit_counts_offsets_whatever_rows_spark_counts(rows_each: float, said: str) -> None:
    plain, one = caught_up(1), caught_up(rows_each)
    assert plain["limit_rows"] == pytest.approx(20_000, rel=0.1)
    assert "rows each" not in plain["advice"]
    assert one["limit_rows"] == pytest.approx(plain["limit_rows"], rel=0.1)
    assert f"a limit of {one['limit_rows']:,} rows" in one["advice"]
    assert f"; offsets, which a limit counts, had {said} rows each" in one["advice"]
    assert not one["arrival_rows_per_second"]


@pytest.mark.parametrize("rows_each", [1, 2, 0.1])
def test_rows_that_spark_counts_otherwise_are_no_arrivals(rows_each: float) -> None:
    """A thousand offsets a second come while what waits is read."""
    one = caught_up(rows_each, latest_grows=1000)
    assert one["arrival_rows_per_second"] == pytest.approx(1000 * rows_each, rel=0.25)
    assert one["surely_required_ratio"] < 0.6


def test_offsets_that_only_look_like_kafkas_tell_nothing_of_what_arrives() -> None:
    """Event Hubs' own connector: its newest offset is the one that a batch was planned up to."""
    lines = [*made.opening(), made.started()]
    for number in range(60):
        start, time = 10_000 * number, made.BASE + 10.0 * number
        read = kafka(start, start + 10_000, start + 10_000)
        read["description"] = "org.apache.spark.sql.eventhubs.EventHubsSource@5c1f3d"
        lines.append(batch(number, 10_000, 2.0, time, read, made.RUN))
    told = judged([[line.strip() for line in lines]])
    assert {one["backlog_rows"] for one in of(told, rows.BATCHES)} == {None}
    (one,) = of(told, rows.RECOMMENDATIONS)
    assert one["arrival_rows_per_second"] is None
    assert one["required_capacity_ratio"] is None
