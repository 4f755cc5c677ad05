"""Steps: bounded, announced only when they matter, no further than is surely right."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.decide.size import Size
from agent.core.decide.step import (
    after_replay,
    deadband,
    interval_rows,
    leaves_band,
    present_rows,
    raised_rows,
    toward,
)
from agent.core.measure.cost import Cost
from agent.core.policy import QueryPolicy


def learned(fixed: float, throughput: float, sizes: tuple[int, ...] = (1000, 9000, 4000)) -> Cost:
    cost = Cost()
    for rows in sizes * 8:
        cost.learn(rows, fixed + rows / throughput)
    return cost


@pytest.mark.parametrize(
    ("current", "wanted", "limited", "more", "limit", "reason"),
    [
        (1000, 1100.0, True, {}, 1000, "hold:deadband"),
        (1000, 1500.0, True, {}, 1500, "raise"),
        (1000, 600.0, True, {}, 600, "lower"),
        (1000, 9000.0, True, {"sure": 2000.0}, 2000, "bound:doubt"),
        (1000, 9000.0, True, {"sure": 500.0}, 1000, "hold:deadband"),  # never lowered by doubt
        (1000, 1500.0, False, {}, 1000, "hold:not_limited"),
        (1000, 600.0, False, {}, 600, "lower"),
        (None, 600.0, False, {}, 600, "lower"),
        (1000, 0.2, True, {}, 1, "bound:minimum"),
        (1000, 5.0, True, {"minimum_limit": 50}, 50, "bound:minimum"),
        (1000, 1900.0, True, {"maximum_limit": 1200}, 1200, "bound:maximum"),
        (1000, 1900.0, True, {"above_configured": False}, 1000, "bound:configured"),
        (3000, 2900.0, True, {"above_configured": False}, 1000, "bound:configured"),
        (3000, 2900.0, True, {"maximum_limit": 1200}, 1200, "bound:maximum"),
        (1, 1.4, True, {}, 1, "hold:deadband"),
        (1, 1.6, True, {}, 2, "raise"),
    ],
)
def test_a_step_is_bounded_and_announced_only_when_it_matters(
    current: int | None,
    wanted: float,
    limited: bool,
    more: dict[str, object],
    limit: int,
    reason: str,
) -> None:
    sure = more.pop("sure", math.inf)
    policy = QueryPolicy(**{"above_configured": True, **more})  # type: ignore[arg-type]
    taken = toward(
        current,
        wanted,
        constraint="",
        limited=limited,
        configured=1000,
        policy=policy,
        deadband=0.25,
        sure=sure,  # type: ignore[arg-type]
    )
    assert taken.limit == limit
    if reason != "hold:deadband" or limit == current:
        assert taken.reason == reason or taken.reason.startswith("bound:")


@pytest.mark.parametrize(
    ("limited", "longer", "limit", "reason"),
    [
        (False, True, 100, "lower"),
        (False, False, 1000, "hold:not_limited"),
        (True, False, 100, "lower"),
    ],
)
def test_an_unreached_limit_is_lowered_only_where_its_batch_takes_too_long(
    limited: bool, longer: bool, limit: int, reason: str
) -> None:
    taken = toward(
        1000,
        100.0,
        constraint="",
        limited=limited,
        configured=1000,
        policy=QueryPolicy(),
        deadband=0.25,
        too_long=longer,
    )
    assert (taken.limit, taken.reason) == (limit, reason)


@pytest.mark.parametrize(
    ("seconds", "deadline", "rows"),
    [
        (50.0, 60.0, 0.8 * 60.0 / 50.0 / math.exp(2 * 0.2 * math.sqrt(9.0)) * 1000),
        (10.0, 60.0, None),  # far from it: something else ended the run before
        (50.0, None, None),
        (None, 60.0, None),
    ],
)
def test_a_batch_that_came_through_late_lowers_in_proportion(
    seconds: float | None, deadline: float | None, rows: float | None
) -> None:
    size = after_replay(Cost(), 1000.0, seconds, QueryPolicy(deadline_seconds=deadline))
    assert (None if size is None else size.rows) == (None if rows is None else pytest.approx(rows))


def test_where_sizes_were_seen_a_raise_goes_there_at_once() -> None:
    cost, policy = learned(1.0, 4000.0), QueryPolicy(target_seconds=5.0)
    assert raised_rows(cost, 1000.0, 16_000.0, policy) == pytest.approx(16_000.0, rel=0.1)


def test_after_one_batch_a_raise_stays_in_the_band_even_if_nothing_of_it_was_fixed() -> None:
    cost, policy = Cost(), QueryPolicy(target_seconds=5.0)
    cost.learn(100.0, 1.0)
    assert raised_rows(cost, 100.0, 1e9, policy) == pytest.approx(1.3 * 5.0 / 1.0 * 100.0)
    # With a deadline no farther than one whose time grows with the square of its rows would keep.
    far = raised_rows(cost, 100.0, 1e9, policy)
    near = raised_rows(cost, 100.0, 1e9, QueryPolicy(target_seconds=5.0, deadline_seconds=1.0))
    assert near < far


def test_where_the_target_is_left_a_step_doubles_the_time_of_a_batch_not_its_rows() -> None:
    cost, policy = learned(6.0, 10_000.0), QueryPolicy(target_seconds=5.0)
    raised = raised_rows(cost, 500.0, 1e6, policy)
    assert cost.seconds(raised) == pytest.approx(2.0 * (cost.seconds(500.0) or 0.0), rel=0.25)


@pytest.mark.parametrize(
    ("deadline", "seconds"),
    [(None, 600.0), (60.0, 48.0)],  # four fifths of the deadline
)
def test_a_raise_goes_as_far_as_surely_fits_the_interval_and_the_deadline(
    deadline: float | None, seconds: float
) -> None:
    cost = Cost(batches=100, fixed=0.5, per_row=0.001, largest_rows=1e6, variance=0.01)
    policy = QueryPolicy(target_seconds=5.0, deadline_seconds=deadline)
    slowly = raised_rows(cost, 1000.0, 1e6, policy)
    at_once = raised_rows(cost, 1000.0, 1e6, policy, 600.0)
    assert (cost.seconds(slowly) or 0.0) < 10.0
    noise = math.exp(2.0 * cost.cautious_sigma) if deadline else 1.0
    assert cost.seconds(at_once) == pytest.approx(seconds / noise)
    assert interval_rows(cost, policy, 600.0) == pytest.approx(at_once)
    assert interval_rows(cost, policy, 6.5) == 0.0  # no longer than the band around the target


def test_what_nobody_has_seen_fits_an_interval_by_its_doubt() -> None:
    cost = learned(0.5, 1000.0, (1000,))
    rows = interval_rows(cost, QueryPolicy(target_seconds=5.0), 600.0)
    assert 0.3 * 600.0 < (cost.seconds(rows) or 0.0) < 0.8 * 600.0


@pytest.mark.parametrize(
    ("rows", "trigger_seconds", "deadline_rows", "lowered"),
    [
        (10_000.0, 0.0, math.inf, False),  # 11 s beside 9 of those wanted
        (14_000.0, 0.0, math.inf, True),  # 15
        (math.inf, 0.0, math.inf, True),
        (14_000.0, 60.0, math.inf, False),  # until the next trigger more rows cost no time
        (90_000.0, 60.0, math.inf, True),
        (14_000.0, 60.0, 12_000.0, True),  # killed, it would come again: too late for a limit then
    ],
)
def test_an_unreached_limit_is_lowered_where_its_batch_would_leave_the_band(
    rows: float, trigger_seconds: float, deadline_rows: float, lowered: bool
) -> None:
    cost = Cost(batches=9, fixed=1.0, per_row=0.001, largest_rows=1e5)
    size = Size(8000.0, "", True, deadline_rows=deadline_rows)
    assert leaves_band(cost, rows, size, trigger_seconds) is lowered


@pytest.mark.parametrize(
    ("taken", "trigger_seconds", "rows"),
    [
        (100.0, 0.0, 2000.0),  # no less than the limit
        (4000.0, 0.0, 4000.0),
        (1e6, 0.0, 5500.0),  # it took 1,001 s: only what stays within the band shows anything
        (1e6, 60.0, 77_000.0),
    ],
)
def test_a_limit_is_raised_from_what_a_larger_batch_has_shown(
    taken: float, trigger_seconds: float, rows: float
) -> None:
    cost = Cost(batches=9, fixed=1.0, per_row=0.001, largest_rows=1e6)
    policy = QueryPolicy(target_seconds=5.0)
    found = present_rows(cost, 2000.0, taken, policy, trigger_seconds)
    assert found == pytest.approx(rows)


def test_batches_of_one_size_do_not_leave_a_limit_that_nobody_has_seen() -> None:
    cost = Cost()
    for rows in [*range(650, 750)] * 3:
        cost.learn(float(rows), 0.5 + rows / 1000.0)
    wanted = cost.curve.rows_in(5.0)
    assert leaves_band(cost, 1e6, Size(wanted, "", True), 0.0)
    assert not leaves_band(cost, 700.0, Size(wanted, "", True), 0.0)


def test_a_move_within_the_doubt_is_noise() -> None:
    cost, policy = learned(1.0, 4000.0, (9000, 10_000, 11_000)), QueryPolicy()
    near, far = deadband(cost, 10_000.0, policy), deadband(cost, 1e6, policy)
    assert 0.02 <= near < far <= 0.25
    for _ in range(200):
        cost.learn(10_000.0, 3.5)
    assert deadband(cost, 10_000.0, policy) == pytest.approx(0.02, abs=0.01)


@given(
    st.one_of(st.none(), st.integers(min_value=1, max_value=10**9)),
    st.floats(min_value=1e-3, max_value=1e12),
    st.booleans(),
    st.integers(min_value=1, max_value=1000),
    st.one_of(st.none(), st.integers(min_value=1000, max_value=10**9)),
    st.floats(min_value=1.0, max_value=1e12),
)
def test_laws_of_a_step(
    current: int | None, wanted: float, limited: bool, low: int, high: int | None, sure: float
) -> None:
    policy = QueryPolicy(minimum_limit=low, maximum_limit=high)
    taken = toward(
        current,
        wanted,
        constraint="",
        limited=limited,
        configured=None,
        policy=policy,
        deadband=0.25,
        sure=sure,
    )
    assert taken.limit is not None
    assert taken.limit >= 1
    inside = current is None or low <= current <= (high or math.inf)
    if inside:
        assert low <= taken.limit <= (high or math.inf)
    if current is not None and taken.limit > current >= low:
        assert limited
        assert taken.limit <= max(round(sure), current)
    # At rest nothing moves: deciding again from the new limit with the same wish stays there.
    once_more = toward(
        taken.limit,
        wanted,
        constraint="",
        limited=False,
        configured=None,
        policy=policy,
        deadband=0.25,
        sure=sure,
    )
    if wanted >= taken.limit >= low:
        assert once_more.limit == taken.limit


@given(
    st.lists(
        st.tuples(
            st.floats(min_value=1.0, max_value=1e9), st.floats(min_value=1e-2, max_value=1e4)
        ),
        min_size=1,
        max_size=12,
    ),
    st.floats(min_value=1.0, max_value=1e9),
    st.floats(min_value=1.0, max_value=1e9),
)
def test_a_raise_is_expected_within_the_band_or_twice_the_present_batch(
    batches: list[tuple[float, float]], present: float, wanted: float
) -> None:
    cost, policy = Cost(), QueryPolicy(target_seconds=5.0)
    for rows, seconds in batches:
        cost.learn(rows, seconds)
    raised = raised_rows(cost, present, max(wanted, present), policy)
    assert 0.0 < raised <= max(wanted, present)
    most = max(1.3 * 5.0, 2.0 * (cost.seconds(present) or 0.0))
    in_proportion = present * most / (cost.seconds(present) or 1.0)
    assert raised <= max(cost.curve.rows_in(most), in_proportion, 1.0) * (1 + 1e-6) or (
        (cost.seconds(raised) or 0.0) <= most * (1 + 1e-6)
    )


def test_a_limit_is_not_moved_by_less_than_two_hundredths_however_sure() -> None:
    cost = Cost(batches=9, fixed=1.0, per_row=0.001, largest_rows=1e5)
    assert deadband(cost, 5000.0, QueryPolicy()) == 0.02
