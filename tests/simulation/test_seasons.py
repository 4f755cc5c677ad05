"""Seasons: what the benchmark measures, and why executors follow none."""

from __future__ import annotations

import pytest

from tests.benchmarks.recorded import FOLDER, read
from tests.benchmarks.seasons import DAY_SECONDS, capacity, forecasts

WEEKS = sorted((FOLDER / "weeks").glob("*.txt"))


def test_a_forecast_that_is_right_needs_what_arrives() -> None:
    arrived = [3.0, 7.0, 1.0, 9.0]
    assert capacity(arrived, arrived, 0.0) == pytest.approx(1.0)
    assert capacity([2.0 * one for one in arrived], arrived, 0.0) == pytest.approx(1.0)
    # One that is as high all day must be as high as the highest.
    assert capacity([1.0] * 4, arrived, 0.0) == pytest.approx(9.0 / 5.0)
    assert capacity([1.0] * 4, arrived, 2.0 / 20.0) == pytest.approx(7.0 / 5.0)


def test_days_that_repeat_are_foretold() -> None:
    days = [1.0, 5.0, 2.0] * 5
    found = forecasts(days, 3)
    assert found["season"] == days[4:]
    assert found["none"] == days[3:-1]


@pytest.mark.parametrize("path", WEEKS, ids=lambda path: path.stem)
def test_the_day_before_alone_tells_less_than_the_moment_does(path) -> None:
    trace = read(path)
    events = [float(one) for one in trace.events]
    day = round(DAY_SECONDS / trace.bin_seconds)
    found = forecasts(events, day)
    for share in (0.05, 0.01):
        needed = {rule: capacity(found[rule], events[day + 1 :], share) for rule in found}
        assert needed["season"] > 1.05 * needed["none"]
