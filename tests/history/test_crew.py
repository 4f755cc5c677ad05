"""Executors of a log: those that there were, and those that each hour should have had."""

from __future__ import annotations

import io
import json

import pytest

from agent.core.policy import QueryPolicy
from agent.history import rows
from agent.history.findings import Findings, Gathering
from agent.history.job import Outcome
from agent.history.report import html
from agent.history.summary import show
from tests.event_log import lines as made
from tests.history.test_judge import judged, judgements, of

#: Four executors of two cores, and a batch each five seconds of which eight tasks of half a second
#: are all: an eighth of what they could do.
BATCHES, CORES, ROWS = 750, 2, 500
SETTINGS = QueryPolicy(target_seconds=5.0)


def log(*, crew: int = 4, gone_at: int | None = None, local: bool = False) -> list[bytes]:
    lines = made.opening()
    names = ["driver"] if local else [str(number) for number in range(crew)]
    lines += [made.executor(name, CORES, made.BASE) for name in names]
    lines.append(made.started())
    for batch in range(BATCHES):
        begun = made.BASE + 5.0 * batch
        if batch == gone_at:
            lines.append(made.executor("3", None, begun))
        lines.append(made.job(batch, begun + 0.2, stages=[batch]))
        lines += made.stage(batch, [0.5] * 8, [60] * 8, time=begun + 0.2)
        told = json.loads(made.progress(batch, rows=ROWS, seconds=0.7))
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
    assert f"96 executor-hours a day as its application ran, {day} with those" in page
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
