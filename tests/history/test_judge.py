"""What is judged of a real run's log: as replay and as a live agent do, however it is cut."""

from __future__ import annotations

import io
import json
import math
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from agent.core.fleet import Fleet
from agent.core.policy import Policy, QueryPolicy
from agent.history import extract, rows, tables
from agent.history.judge import Judge, in_order
from agent.replay import replay_files
from agent.sources.event_log import Follower, find_logs
from spark_listener.wire import format_time
from tests.event_log import lines as made

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from agent.history.rows import Row

TARGET = QueryPolicy(target_seconds=1.0)
LOG = "file:/logs/app-1"


def kept(pieces: Iterable[list[bytes]]) -> list[extract.Kept]:
    found: list[extract.Kept] = []
    block = 0
    for piece in pieces:
        found += extract.of_lines(piece, block, in_progress=False)
        block += sum(len(line) + 1 for line in piece)
    return found


def judged(pieces: Iterable[list[bytes]], settings: QueryPolicy = TARGET) -> list[Row]:
    judge = Judge(settings)
    told = [row for one in kept(pieces) for row in judge.hear(LOG, one)]
    return [*told, *judge.end()]


def judgements(told: list[Row]) -> list[dict[str, Any]]:
    place = [column.name for column in tables.BATCH_COLUMNS].index("judgement")
    return [json.loads(values[place]) for name, values in told if name == rows.BATCHES]


def of(told: list[Row], name: str) -> list[dict[str, Any]]:
    columns = next(
        columns
        for table, columns in (
            (rows.BATCHES, tables.BATCH_COLUMNS),
            (rows.STAGES, tables.STAGES.columns),
            (rows.INCIDENTS, tables.INCIDENTS.columns),
            (rows.CAPACITY, tables.CAPACITY.columns),
            (rows.DECISIONS, tables.DECISIONS.columns),
            (rows.RECOMMENDATIONS, tables.RECOMMENDATIONS.columns),
        )
        if table == name
    )
    return [
        dict(zip((column.name for column in columns), values, strict=True))
        for table, values in told
        if table == name
    ]


def replayed(log: Path) -> list[dict[str, Any]]:
    out = io.BytesIO()
    assert not replay_files([str(log)], TARGET, out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def followed(folder: Path) -> list[dict[str, Any]]:
    """As the agent follows it, a step at a time."""
    fleet = Fleet(Policy(default=TARGET), started_time=0.0)
    follower = Follower(find_logs(folder)[0], 0, {}.get, {}.get, {}.get)
    said = []
    while (request := follower.next_request()) is not None:
        said += fleet.receive(request, now=request.events[-1][1].time).judged
        follower.accepted()
    return [msgspec.to_builtins(line) for line in said]


@pytest.fixture
def folder(tmp_path: Path, real_log: bytes) -> Path:
    place = tmp_path / "logs"
    place.mkdir()
    (place / "app-1").write_bytes(real_log)
    return place


def test_live_replayed_and_historical_judgement_agree_line_by_line(
    folder: Path, real_log: bytes
) -> None:
    ours = judgements(judged([real_log.splitlines()]))
    live = json.loads(json.dumps(followed(folder)))
    assert len(ours) > 70
    assert ours == replayed(folder / "app-1")
    assert ours == live


def test_another_target_would_not_agree(real_log: bytes) -> None:
    """The comparison above can fail."""
    plain = [real_log.splitlines()]
    other = judged(plain, QueryPolicy(target_seconds=30.0))
    assert of(other, rows.RECOMMENDATIONS) != of(judged(plain), rows.RECOMMENDATIONS)


@pytest.mark.parametrize("cuts", [2, 7, 40])
def test_rows_are_the_same_however_spark_cuts_the_file(real_log: bytes, cuts: int) -> None:
    lines = real_log.splitlines()
    ends = [len(lines) * cut // cuts for cut in range(cuts + 1)]
    pieces = [lines[begin:end] for begin, end in pairwise(ends)]
    assert judged(pieces) == judged([lines])


def test_stages_belong_to_the_batch_that_planned_them(real_log: bytes) -> None:
    told = judged([real_log.splitlines()])
    stages, batches = of(told, rows.STAGES), of(told, rows.BATCHES)
    known = {(one["run_id"], one["batch_id"]) for one in batches}
    assert {(one["run_id"], one["batch_id"]) for one in stages} <= known
    assert sum(one["tasks"] for one in stages) == real_log.count(b'{"Event":"SparkListenerTaskEnd"')
    waits = [one for one in stages if one["wait_seconds"] is not None]
    assert waits
    for one in waits:
        assert 0.0 <= one["wait_seconds"] <= one["seconds"] + 0.1
        assert one["skew_ratio"] >= 1.0
        assert one["executor"] == "driver"


def test_the_failure_is_told_with_its_cause(real_log: bytes) -> None:
    (failure,) = of(judged([real_log.splitlines()]), rows.INCIDENTS)
    assert (failure["query"], failure["kind"], failure["detail"]) == (
        "totals",
        "failure",
        "user_code",
    )
    assert "the sink is out of reach" in failure["evidence"]


def test_hours_and_recommendations_are_of_the_batches_that_are_told(real_log: bytes) -> None:
    told = judged([real_log.splitlines()])
    batches = [one for one in of(told, rows.BATCHES) if one["event"] == "progress"]
    hours = of(told, rows.CAPACITY)
    assert sum(hour["batches"] for hour in hours) == len(batches)
    assert sum(hour["rows"] for hour in hours) == sum(one["rows"] for one in batches)
    advised = {one["query"]: one for one in of(told, rows.RECOMMENDATIONS)}
    assert set(advised) == {"enrich", "totals"}
    for name, one in advised.items():
        own = [batch["seconds"] for batch in batches if batch["query"] == name and batch["rows"]]
        assert one["batches"] == len(own)
        assert one["batch_seconds_max"] == max(own)
        assert one["over_target_share"] == sum(s > 1.0 for s in own) / len(own)
        assert one["limit_rows"] >= 1
        assert one["expected_seconds"] > 0.0


def test_what_weir_would_have_done_is_each_move_of_the_limit(real_log: bytes) -> None:
    told = judged([real_log.splitlines()])
    moves = of(told, rows.DECISIONS)
    assert moves
    for query in ("enrich", "totals"):
        last = None
        own = [one for one in moves if one["query"] == query]
        for one in own:
            assert one["limit_from"] == last
            last = one["limit_to"]
        batches = [one for one in of(told, rows.BATCHES) if one["query"] == query]
        assert batches[-1]["would_limit_rows"] == last


def test_a_batch_that_hangs_at_the_end_of_a_log_is_told() -> None:
    lines = [line.strip() for line in made.whole(4)[:-2]]
    lines.append(made.job(4, made.BASE + 30.0).strip())
    (one,) = of(judged([lines]), rows.INCIDENTS)
    assert (one["kind"], one["first_batch"]) == ("unfinished", 4)
    ended = [*lines, made.closing().strip()]
    assert not of(judged([ended]), rows.INCIDENTS)


def test_logs_that_overlap_are_judged_in_the_order_of_their_times() -> None:
    def log(name: str, times: list[float]) -> list[tuple[str, extract.Kept]]:
        return [(name, extract.Kept(0, n, "event", time, b"")) for n, time in enumerate(times)]

    merged = in_order([log("a", [1.0, 5.0, 4.0, 9.0]), log("b", [2.0, 6.0, 7.0])])
    told = [(name, one.time) for name, one in merged]
    assert [one for one in told if one[0] == "a"] == [
        ("a", 1.0), ("a", 5.0), ("a", 4.0), ("a", 9.0)
    ]  # fmt: skip
    assert [name for name, _ in told] == ["a", "b", "a", "a", "b", "b", "a"]


def advised_of(*logs: list[bytes]) -> list[dict[str, Any]]:
    """What is advised, of logs that are judged together."""
    judge = Judge(TARGET)
    told: list[Row] = []
    named = [[(f"file:/logs/{n}", one) for one in kept([log])] for n, log in enumerate(logs)]
    for log in named:
        judge.lasts(log[0][0], max(one.time or 0.0 for _, one in log))
    for name, one in in_order(named):
        told += judge.hear(name, one)
    return of([*told, *judge.end()], rows.RECOMMENDATIONS)


def test_what_is_advised_goes_by_the_quota_of_the_sink() -> None:
    lines = made.each_minute("app-1", "q-1", made.BASE)
    (plain,) = advised_of(lines)
    sink = b"BigQueryStreamingSink(sqlContext=x)"
    (counted,) = advised_of([one.replace(b"noop-table", sink) for one in lines])
    assert plain["target_seconds"] == TARGET.target_seconds < 2.0 < 57.6
    assert counted["target_seconds"] == 57.6
    assert plain["over_target_share"] > counted["over_target_share"] == 0.0


def series_of(*logs: list[bytes]) -> dict[tuple[str, str], int]:
    """The batches of each."""
    return {(one["application"], one["query"]): one["batches"] for one in advised_of(*logs)}


@pytest.mark.parametrize("ends", [False, True])
def test_two_live_applications_of_one_name_are_two_series_however_seldom_a_batch_ends(
    ends: bool,
) -> None:
    """A minute lies between two; the first ends before the second one does."""
    first = made.each_minute("app-1", "q-1", made.BASE)
    if ends:
        end = made.terminated("run-of-app-1").replace(made.QUERY.encode(), b"q-1")
        first += [end, made.closing(made.BASE + 59.5 * 60.0)]
    second = made.each_minute("app-2", "q-2", made.BASE + 30.0)
    assert series_of(first, second) == {("orders", "enrich"): 60, ("orders-app-2", "enrich"): 60}


@pytest.mark.parametrize("query", ["q-1", "of a new checkpoint"])
def test_the_next_application_of_a_name_goes_on_in_the_series_of_one_that_was_killed(
    query: str,
) -> None:
    """Seconds after its log's last line, while another one of the name lives."""
    first = made.each_minute("app-1", "q-1", made.BASE)
    other = made.each_minute("app-2", "q-2", made.BASE + 30.0, batches=120)
    again = made.each_minute("app-3", query, made.BASE + 59 * 60.0 + 5.0)
    assert series_of(first, other, again) == {
        ("orders", "enrich"): 120,
        ("orders-app-2", "enrich"): 120,
    }


@pytest.mark.parametrize("batches", [20, 90])
def test_a_series_that_ends_keeps_what_it_learned(batches: int) -> None:
    """Once the first one is gone the next run of the second has its name; within an hour or not."""
    begin = 3600.0 * (made.BASE // 3600.0 + 1)
    first = made.each_minute("app-1", "q-1", begin, batches=batches)
    second = made.each_minute("app-2", "q-2", begin + 30.0, batches=batches + 5)
    end = made.terminated("run-of-app-2").replace(made.QUERY.encode(), b"q-2")
    told = json.loads(made.progress(batches + 5, run="r-next"))
    time = begin + 60.0 * (batches + 8)
    told["progress"] |= {"id": "q-2", "timestamp": format_time(time)}
    again = [made.started("r-next", "q-2", time), json.dumps(told, separators=(",", ":")).encode()]
    found = advised_of(first, [*second, end, *again])
    ours = {(one["application"], one["query"]): one for one in found}
    assert {key: one["batches"] for key, one in ours.items()} == {
        ("orders", "enrich"): batches + 1,
        ("orders-app-2", "enrich"): batches + 5,
    }
    for one in ours.values():
        assert one["fixed_cost_seconds"] is not None
        assert one["throughput_rows_per_second"] is not None


@pytest.mark.parametrize("slow", [False, True])
def test_what_no_batch_showed_is_not_advised(slow: bool) -> None:
    """Batches of some rows, one of 299 in 5.5 s: of a batch of thousands nothing is known."""
    noise = random.Random(3)
    sizes = [noise.randrange(5, 40) for _ in range(100)]
    sizes[80:80] = [299] if slow else []
    lines = [*made.opening(), made.started()]
    for batch, size in enumerate(sizes):
        usual = (0.25 + size / 690) * math.exp(noise.gauss(0.0, 0.1))
        lines.append(made.progress(batch, size, 5.5 if size == 299 else usual))
    settings = QueryPolicy(target_seconds=5.0)
    (one,) = of(judged([[line.strip() for line in lines]], settings), rows.RECOMMENDATIONS)
    if slow:  # it was seen, and keeps the target
        assert 250 <= one["limit_rows"] <= 400
        assert one["doubt_seconds"] < 1.25
    else:
        assert one["limit_rows"] is None
        assert "too few batches near that size" in one["advice"]
    assert one["throughput_rows_per_second"] == pytest.approx(690.0, rel=0.35)
    assert one["required_capacity_ratio"] < 0.5


def test_under_a_long_trigger_the_limit_leaves_nothing_that_surely_fits() -> None:
    """A batch every ten minutes, of some 10 s, with a target of 5: the next would come for it."""
    noise = random.Random(7)
    lines = [*made.opening(), made.started()]
    for batch in range(24):
        size = noise.randrange(40_000, 60_000)
        seconds = (1.0 + size / 5_000) * math.exp(noise.gauss(0.0, 0.05))
        line = made.progress(batch, size, seconds)
        begun = 600.0 * (made.BASE // 600.0 + 1 + batch)
        told, meant = (format_time(one).encode() for one in (made.BASE + 5.0 * batch, begun))
        assert told in line
        lines.append(line.replace(told, meant))
    settings = QueryPolicy(target_seconds=5.0)
    (one,) = of(judged([[line.strip() for line in lines]], settings), rows.RECOMMENDATIONS)
    assert one["trigger_seconds"] == pytest.approx(600.0, rel=0.01)
    assert one["limit_reason"] == "floor:trigger"
    # All that came at once, and far more; as far as what was seen lets it be known.
    assert one["limit_rows"] > 2 * 60_000
    assert one["doubt_seconds"] <= 0.5 * one["expected_seconds"]
    assert one["expected_seconds"] < 600.0
    assert "waits for the next trigger, 600 s later" in one["advice"]


def test_a_start_without_a_time_is_no_bad_line_in_whatever_piece_it_stands() -> None:
    """As Spark 2 writes it."""
    lines = [*made.opening(), made.started_untimed(), *map(made.progress, range(8))]
    timed = [made.started() if line == made.started_untimed() else line for line in lines]
    for pieces in ([lines], [lines[:3], lines[3:]]):
        assert not [one for one in kept(pieces) if one.kind == extract.BAD]
        assert judgements(judged(pieces)) == judgements(judged([timed]))


def test_an_end_that_comes_first_in_a_piece_was_after_the_piece_before() -> None:
    lines = [*made.opening(), made.started(), *map(made.progress, range(8)), made.terminated()]
    assert judgements(judged([lines[:-1], lines[-1:]])) == judgements(judged([lines]))
    alone = judgements(
        judged([[made.terminated(), made.started("r-2"), made.progress(9, run="r-2")]])
    )
    assert [(one["event"], one["time"][:10]) for one in alone] == [("progress", "2026-11-21")]


@pytest.mark.parametrize("number", [10**400, 253_402_300_800_000])
def test_an_executor_and_an_end_at_no_time_cost_no_more_than_themselves(number: int) -> None:
    def at_no_time(line: bytes) -> bytes:
        told = json.loads(line) | {"Timestamp": number}
        return made.line(told.pop("Event"), **told)

    lines = [*made.opening(), made.executor("1", 4, made.BASE), made.started()]
    lines += [*map(made.progress, range(8)), made.terminated()]
    odd = [*lines[:5], at_no_time(made.executor("2", 4, made.BASE)), *lines[5:]]
    odd.append(at_no_time(made.closing()))
    assert judgements(judged([odd])) == judgements(judged([[*lines, made.closing()]]))
