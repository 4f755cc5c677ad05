"""Executors of a log: those that there were, and those that each hour should have had."""

from __future__ import annotations

import io
import json

import pytest

from agent.core.policy import QueryPolicy
from agent.history import rows
from agent.history.findings import Findings, Gathering
from agent.history.job import Outcome
from agent.history.judge import Judge
from agent.history.report import html
from agent.history.summary import show
from spark_listener.wire import format_time
from tests.event_log import lines as made
from tests.history.test_judge import judged, judgements, kept, of

#: Four executors of two cores, and a batch each five seconds of which eight tasks of half a second
#: are all: an eighth of what they could do.
BATCHES, CORES, ROWS = 750, 2, 500
SETTINGS = QueryPolicy(target_seconds=5.0)


def log(
    *,
    crew: int = 4,
    gone_at: int | None = None,
    local: bool = False,
    batches: int = BATCHES,
    begin: float = made.BASE,
    run: str = made.RUN,
    app_id: str = "app-1",
) -> list[bytes]:
    lines = made.opening(app_id=app_id)
    names = ["driver"] if local else [str(number) for number in range(crew)]
    lines += [made.executor(name, CORES, begin) for name in names]
    lines.append(made.started(run, time=begin))
    if gone_at is None:
        return [*lines, *works(0, batches, run, begin)]
    gone = begin + 5.0 * gone_at
    lines += [*works(0, gone_at, run, begin), made.executor("3", None, gone)]
    return [*lines, *works(gone_at, batches - gone_at, run, gone)]


def works(first: int, batches: int, run: str, begin: float) -> list[bytes]:
    """So many batches from the first on, each with its stage."""
    lines = []
    for batch in range(first, first + batches):
        begun = begin + 5.0 * (batch - first)
        lines.append(made.job(batch, begun + 0.2, run, stages=[batch]))
        lines += made.stage(batch, [0.5] * 8, [60] * 8, time=begun + 0.2)
        told = json.loads(made.progress(batch, rows=ROWS, seconds=0.7, run=run))
        told["progress"]["timestamp"] = format_time(begun)
        (source,) = told["progress"]["sources"]
        source["description"] = "KafkaV2[Subscribe[t]]"
        for place, offset in (("startOffset", batch), ("endOffset", batch + 1)):
            source[place] = {"t": {"0": ROWS * offset}}
        source["latestOffset"] = source["endOffset"]
        lines.append(json.dumps(told, separators=(",", ":")).encode() + b"\n")
    return lines


@pytest.fixture(scope="module")
def told() -> list[rows.Row]:
    return judged([log()], SETTINGS)


def test_an_hour_says_what_it_had_and_what_it_should_have_had(told: list[rows.Row]) -> None:
    hours = of(told, rows.CAPACITY)
    assert len(hours) == 2
    assert [one["executors"] for one in hours] == pytest.approx([4.0, 4.0])
    first, second = hours
    # The first begins five minutes before its end; down only after that quiet time, then one does.
    assert first["executors_wanted"] == pytest.approx(4.0)
    assert 1.0 < second["executors_wanted"] < 1.2
    assert (first["executors_wanted_max"], second["executors_wanted_max"]) == (4, 4)
    assert {one["executors_bound"] for one in hours} == {"enough"}


def test_a_day_is_told_in_executor_hours(told: list[rows.Row]) -> None:
    (advised,) = of(told, rows.RECOMMENDATIONS)
    assert advised["executor_hours_a_day"] == pytest.approx(96.0)
    assert 24.0 < advised["executor_hours_a_day_wanted"] < 36.0


def test_one_that_was_lost_counts_until_then() -> None:
    hours = of(judged([log(gone_at=360)], SETTINGS), rows.CAPACITY)
    assert hours[0]["executors"] == pytest.approx(4.0)
    gone = (360 * 5.0 - 298.0) / (BATCHES * 5.0 - 298.0)  # of the second hour, when it went
    assert hours[1]["executors"] == pytest.approx(4.0 * gone + 3.0 * (1.0 - gone), abs=0.01)


def test_those_that_went_while_nothing_came_count_until_they_went() -> None:
    """Three of four go a minute after the last batch; nine hours later two more batches come."""
    end = made.BASE + 5.0 * 132
    lines = log(batches=132)
    lines += [made.executor(name, None, end + 60.0) for name in ("1", "2", "3")]
    lines += [made.idle(end + seconds) for seconds in range(70, 9 * 3600, 60)]
    lines += works(132, 2, made.RUN, end + 9 * 3600.0)
    told = judged([lines], SETTINGS)
    (advised,) = of(told, rows.RECOMMENDATIONS)
    worked, rested = 720.0, 9 * 3600.0 - 60.0
    mean = (4.0 * worked + rested) / (worked + rested)
    assert advised["executor_hours_a_day"] == pytest.approx(24.0 * mean, rel=0.005)
    # Once it was quiet for long enough, one was wanted.
    assert advised["executor_hours_a_day_wanted"] == pytest.approx(24.0, rel=0.1)
    assert of(told, rows.CAPACITY)[-1]["executors"] == pytest.approx(1.0)


def test_between_two_runs_none_are_paid_for() -> None:
    """One of four is left when the query starts again, forty minutes later."""
    end = made.BASE + 5.0 * 132
    lines = [*log(batches=132), made.terminated()]
    lines += [made.executor(name, None, end + 10.0) for name in ("1", "2", "3")]
    lines.append(made.started("r-2", time=end + 2400.0))
    lines += works(132, 132, "r-2", end + 2400.0)
    (advised,) = of(judged([lines], SETTINGS), rows.RECOMMENDATIONS)
    assert advised["executor_hours_a_day"] == pytest.approx(24.0 * 2.5, rel=0.02)


def test_those_of_an_application_that_ended_are_paid_no_more() -> None:
    """Four each night, and in the second two: each until its application ends."""
    first = [*log(batches=132), made.closing(made.BASE + 5.0 * 132)]
    second = log(crew=2, batches=132, begin=made.BASE + 86400.0, run="r-2", app_id="app-2")
    judge, told = Judge(SETTINGS), []
    for name, lines in (("app-1", first), ("app-2", second)):
        for one in kept([lines]):
            told += judge.hear(f"file:/logs/{name}", one)
    (advised,) = of([*told, *judge.end()], rows.RECOMMENDATIONS)
    assert advised["executor_hours_a_day"] == pytest.approx(24.0 * 3.0, rel=0.02)


def test_a_local_master_has_no_executors() -> None:
    told = judged([log(local=True)], SETTINGS)
    (advised,) = of(told, rows.RECOMMENDATIONS)
    assert advised["executor_hours_a_day"] is None
    assert {one["executors"] for one in of(told, rows.CAPACITY)} == {None}


def test_what_replay_says_of_a_log_stays_as_it_was(told: list[rows.Row]) -> None:
    assert all("executors" not in one for one in judgements(told))


def test_report_and_summary_say_what_a_day_costs(told: list[rows.Row]) -> None:
    gathering = Gathering()
    for row in told:
        gathering.add(row)
    _, queries = gathering.end()
    found, outcome = Findings(queries, 1, {}, BATCHES), Outcome("out")
    page, out = html(found, outcome), io.StringIO()
    show(found, outcome, out)
    (advised,) = of(told, rows.RECOMMENDATIONS)
    day = f"{advised['executor_hours_a_day_wanted']:.3g}"
    # One that runs for five minutes of each hour pays a twelfth of it a day.
    assert f"96 executor-hours for each 24 hours in which it ran, {day} with those" in page
    assert "executor-h/24 h run" in out.getvalue()
    assert "Executors by the hour" in page
    assert f"96 → {day}" in out.getvalue()


def test_a_real_runs_lines_tell_it_too(real_log: bytes) -> None:
    """As Spark writes them; the run's tasks were the driver's, which here is an executor."""
    named = real_log.replace(b'"Executor ID":"driver"', b'"Executor ID":"1"')
    for one in of(judged([named.splitlines()]), rows.RECOMMENDATIONS):
        assert one["executor_hours_a_day"] == pytest.approx(24.0)
        assert 24.0 <= one["executor_hours_a_day_wanted"] < 48.0
    for one in of(judged([real_log.splitlines()]), rows.RECOMMENDATIONS):
        assert one["executor_hours_a_day"] is None


def test_where_batches_write_from_threads_of_their_own_no_number_is_advised() -> None:
    """Their jobs are of no group: who counts the others alone finds two executors enough."""
    lines = []
    for line in log():
        lines.append(line)
        if b'"SparkListenerJobStart"' in line:
            told = json.loads(line)
            told["Properties"] = {"spark.app.name": "orders"}
            told["Stage IDs"] = [1_000_000 + told["Stage IDs"][0]]
            lines.append(made.line(told.pop("Event"), **told))
    hours = of(judged([lines], SETTINGS), rows.CAPACITY)
    assert [one["executors_wanted"] for one in hours] == [None, None]
