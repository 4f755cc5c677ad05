"""Lag states: a table of windows, and what each rule is not fooled by."""

from __future__ import annotations

import pytest

from agent.core.judge.lag_state import (
    MOST_POINTS,
    LagNow,
    LagPoint,
    LagWindow,
    floor_seconds,
    grows,
    lag_state,
)


def window(lags: list[float | None], admitted: int | None = 100) -> LagWindow:
    found = LagWindow()
    for index, lag in enumerate(lags):
        found.add(LagPoint(10.0 * index, admitted, lag))
    return found


def now(rows: float | None, seconds: float | None = 60.0, **changes: object) -> LagNow:
    settings = {"stopped": False, "floor_seconds": 10.0, **changes}
    return LagNow(backlog_rows=rows, backlog_seconds=seconds, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lags", "admitted", "present", "state"),
    [
        ([], 100, now(None), "UNKNOWN"),
        ([0, 0, 0, 0, 0], 100, now(0.0, 0.0), "OK"),
        ([100, 200, 300, 400, 500], 100, now(500.0), "WARN"),
        ([100, 200, 300, 400, 500], 100, now(500.0, 5.0), "OK"),  # below the floor
        ([100, 200, 300, 400, 350], 100, now(350.0), "OK"),
        ([100, 200, 0, 400, 500], 100, now(500.0), "OK"),  # it was empty in between
        ([500, 500, 500, 500, 500], 100, now(500.0), "OK"),  # stands, but rows are taken
        ([500, 500, 500, 500, 500], 0, now(500.0), "STALL"),
        ([500, 600, 700, 800, 900], 0, now(900.0), "STALL"),
        ([900, 800, 700, 600, 500], 0, now(500.0), "OK"),
        ([500, 400], 100, now(400.0, stopped=True), "STOP"),
        ([500, 400], 100, now(0.0, 0.0, stopped=True), "OK"),
        ([1, 2, 3, 4, 5], 100, now(5.0, None, arrival_rows_per_second=100.0), "OK"),
        (list(range(100, 200, 10)), 100, now(190.0, 30.0), "WARN"),
        (list(range(100, 200, 10)), 100, now(190.0, 500.0), "ERR"),
        ([10, 14, 11, 13, 12, 30, 28, 33, 31, 29], 100, now(29.0), "WARN"),  # noise on a rise
        ([10, 14, 11, 13, 12, 14, 11, 13, 10, 12], 100, now(12.0), "OK"),  # noise on a level
        ([100, 200, 300, 400], 100, now(400.0), "OK"),  # too few to say
    ],
)
def test_the_first_rule_that_holds(
    lags: list[float | None], admitted: int, present: LagNow, state: str
) -> None:
    assert lag_state(window(lags, admitted), present) == state


def test_a_rewind_is_told_until_it_has_left_the_window() -> None:
    found = window([10.0] * 5)
    found.rewind()
    for _ in range(MOST_POINTS):
        assert lag_state(found, now(10.0)) == lag_state(found, now(None)) == "REWIND"
        found.add(LagPoint(1000.0, 100, 10.0))
    assert lag_state(found, now(10.0)) == "OK"


def test_the_window_stays_small_and_begins_anew_with_a_run() -> None:
    found = window([float(lag) for lag in range(1, 100)])
    assert len(found.points) == MOST_POINTS
    assert grows([point.backlog_rows or 0.0 for point in found.points])
    found.begin_run()
    assert lag_state(found, now(500.0)) == "OK"


@pytest.mark.parametrize(("target", "floor"), [(1.0, 10.0), (5.0, 10.0), (30.0, 60.0)])
def test_the_floor_follows_the_target(target: float, floor: float) -> None:
    assert floor_seconds(target) == floor
