"""Sizing: its constraints as a table, its laws as properties."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.capacity import Capacity
from agent.core.policy import QueryPolicy
from agent.core.sizing import (
    REACH_DOUBTED_BATCHES,
    Bounds,
    Reach,
    after_replay,
    bounds,
    choose,
    step,
    target_rows,
)


def model(fixed: float, throughput: float) -> Capacity:
    capacity = Capacity()
    for rows in [1000, 9000, 4000, 15000] * 8:
        capacity.learn(rows, fixed + rows / throughput)
    return capacity


@pytest.mark.parametrize(
    ("fixed", "arrival", "deadline", "reason", "feasible"),
    [
        (1.0, 1000.0, None, "", True),  # n = mu (T - c0) digests what arrives
        (1.0, None, None, "", True),  # nothing known of arrivals: the target decides
        (6.0, 500.0, None, "floor:stability", False),  # c0 above the target: FLIP-183's floor trap
        (1.0, 3900.0, None, "floor:stability", False),  # close to mu: only large batches keep up
        (1.0, 9000.0, 5.5, "bound:deadline", False),  # nothing is stable: as much as is allowed
        (1.0, 9000.0, 30.0, "floor:stability", False),  # but no more than pays
        (1.0, 1000.0, 4.0, "bound:deadline", False),  # the deadline lies below the target
    ],
)
def test_stability_beats_the_target_and_never_the_deadline(
    fixed: float, arrival: float | None, deadline: float | None, reason: str, feasible: bool
) -> None:
    capacity = model(fixed, 4000.0)
    policy = QueryPolicy(target_seconds=5.0, deadline_seconds=deadline)
    wanted = max((5.0 - fixed) * 4000.0, 200.0)
    size = choose(bounds(capacity, wanted, arrival, 0.0, policy), capacity, policy)
    assert size is not None
    assert (size.reason, size.feasible) == (reason, feasible)
    if deadline is not None:
        seconds = capacity.seconds(size.rows)
        assert seconds is not None
        assert seconds <= 0.8 * deadline + 1e-6


def test_the_trigger_interval_asks_for_what_arrives_between_batches() -> None:
    capacity = model(0.1, 4000.0)
    policy = QueryPolicy(target_seconds=5.0)
    found = bounds(capacity, 1000.0, 1000.0, 30.0, policy)
    assert found.stability_rows == pytest.approx(1000.0 * 1.2 * 30.0)


def test_an_overloaded_query_says_how_much_capacity_is_missing() -> None:
    capacity = model(1.0, 4000.0)
    policy = QueryPolicy(target_seconds=5.0, deadline_seconds=20.0)
    found = bounds(capacity, 16000.0, 8000.0, 0.0, policy)
    assert found.stability_rows == math.inf
    assert found.sustained_ratio is not None
    assert 2.4 < found.sustained_ratio < 3.5  # 1.2 x 8000 over a little less than 4000


def test_nothing_known_leads_to_no_size() -> None:
    policy = QueryPolicy()
    assert choose(bounds(Capacity(), None, None, 0.0, policy), Capacity(), policy) is None


@pytest.mark.parametrize(
    ("current", "wanted", "limited", "more", "limit", "reason"),
    [
        (1000, 1100.0, True, {}, 1000, "hold:deadband"),
        (1000, 1500.0, True, {}, 1500, "raise"),
        (1000, 600.0, True, {}, 600, "lower"),
        (1000, 9000.0, True, {}, 2000, "bound:doubling"),
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
    policy = QueryPolicy(**{"above_configured": True, **more})  # type: ignore[arg-type]
    taken = step(
        current,
        wanted,
        constraint="",
        limited=limited,
        configured=1000,
        policy=policy,
        deadband=0.25,
    )
    assert taken.limit == limit
    if reason != "hold:deadband" or limit == current:
        assert taken.reason == reason or taken.reason.startswith("bound:")


@pytest.mark.parametrize(
    ("limited", "deadline", "limit", "reason"),
    [
        (False, 400.0, 400, "bound:deadline"),  # a full batch would be killed, again and again
        (False, 2000.0, 1000, "hold:not_limited"),
        (False, 50.0, 100, "bound:deadline"),  # never below what is wanted
        (True, 400.0, 100, "lower"),
    ],
)
def test_what_the_deadline_forbids_is_lowered_before_a_batch_reaches_it(
    limited: bool, deadline: float, limit: int, reason: str
) -> None:
    taken = step(
        1000,
        100.0,
        constraint="",
        limited=limited,
        configured=1000,
        policy=QueryPolicy(),
        deadband=0.25,
        too_long=limited,
        deadline=deadline,
    )
    assert (taken.limit, taken.reason) == (limit, reason)


@pytest.mark.parametrize(
    ("seconds", "deadline", "rows"),
    [
        (50.0, 60.0, 0.8 * 60.0 / 50.0 / math.exp(2 * 0.2 * math.sqrt(5.0)) * 1000),
        (10.0, 60.0, None),  # far from it: something else ended the run before
        (50.0, None, None),
        (None, 60.0, None),
    ],
)
def test_a_batch_that_came_through_late_lowers_in_proportion(
    seconds: float | None, deadline: float | None, rows: float | None
) -> None:
    size = after_replay(Capacity(), 1000.0, seconds, QueryPolicy(deadline_seconds=deadline))
    assert (None if size is None else size.rows) == (None if rows is None else pytest.approx(rows))


def test_a_target_out_of_reach_by_doubtful_evidence_is_asked_for_again_soon() -> None:
    policy = QueryPolicy(target_seconds=5.0)
    doubtful = Capacity()
    for _ in range(3):
        doubtful.learn(50_000, 30.0)
    doubtful.fixed_seconds = 6.0
    assert doubtful.fixed_seconds - doubtful.doubt(0.0) < 4.0
    sure = model(6.0, 4000.0)
    assert sure.fixed_seconds - sure.doubt(0.0) > 5.0
    asked = {}
    for name, capacity in (("doubtful", doubtful), ("sure", sure)):
        reach = Reach(against=4, lost=True)
        asked[name] = 0
        while reach.check_rows(capacity, policy) is None:
            reach.since_check += 1
            asked[name] += 1
    assert asked == {"doubtful": REACH_DOUBTED_BATCHES, "sure": 24}


def test_the_aim_lies_at_the_target_where_batches_follow_the_trigger() -> None:
    capacity, policy = model(1.0, 4000.0), QueryPolicy(target_seconds=5.0)
    assert target_rows(capacity, policy) == pytest.approx(1.02 * 5 * 4000 - 4000, rel=0.01)
    found = target_rows(capacity, policy, trigger_seconds=10.0)
    assert found == pytest.approx(16_000, rel=0.01)


def test_a_spike_is_no_reason_to_spread_a_large_fixed_cost() -> None:
    capacity, policy = model(4.0, 4000.0), QueryPolicy(target_seconds=5.0)
    limits = bounds(capacity, 4000.0, 1000.0, 0.0, policy)
    assert limits.unstable
    limits = bounds(capacity, 4000.0, 1000.0, 0.0, policy, waiting_rows=1e6)
    spread = choose(limits, capacity, policy)
    assert spread is not None
    assert spread.rows > 50_000
    waiting = choose(msgspec.structs.replace(limits, patient=True), capacity, policy)
    assert waiting is not None
    assert waiting.rows == pytest.approx(limits.stability_rows or 0.0)


@given(
    st.one_of(st.none(), st.integers(min_value=1, max_value=10**9)),
    st.floats(min_value=1e-3, max_value=1e12),
    st.booleans(),
    st.integers(min_value=1, max_value=1000),
    st.one_of(st.none(), st.integers(min_value=1000, max_value=10**9)),
)
def test_laws_of_a_step(
    current: int | None, wanted: float, limited: bool, low: int, high: int | None
) -> None:
    policy = QueryPolicy(minimum_limit=low, maximum_limit=high)
    taken = step(
        current,
        wanted,
        constraint="",
        limited=limited,
        configured=None,
        policy=policy,
        deadband=0.25,
    )
    assert taken.limit is not None
    assert taken.limit >= 1
    inside = current is None or low <= current <= (high or math.inf)
    if inside:
        assert low <= taken.limit <= (high or math.inf)
    if current is not None and taken.limit > current >= low:
        assert limited
        assert taken.limit <= 2 * current
    # At rest nothing moves: deciding again from the new limit with the same wish stays there.
    once_more = step(
        taken.limit,
        wanted,
        constraint="",
        limited=False,
        configured=None,
        policy=policy,
        deadband=0.25,
    )
    if wanted >= taken.limit >= low:
        assert once_more.limit == taken.limit


@given(
    st.floats(min_value=0.0, max_value=20.0),
    st.floats(min_value=1.0, max_value=1e6),
    st.one_of(st.none(), st.floats(min_value=0.0, max_value=1e6)),
    st.one_of(st.none(), st.floats(min_value=1.0, max_value=1e4)),
    st.floats(min_value=1.0, max_value=1e8),
)
def test_the_chosen_size_keeps_the_deadline_whatever_else_is_asked(
    fixed: float, throughput: float, arrival: float | None, deadline: float | None, wanted: float
) -> None:
    capacity = Capacity()
    for rows in (100, 5000, 20000):
        capacity.learn(rows, fixed + rows / throughput)
    policy = QueryPolicy(target_seconds=5.0, deadline_seconds=deadline)
    limits = bounds(capacity, wanted, arrival, 0.0, policy)
    size = choose(limits, capacity, policy)
    assert size is not None
    assert size.rows >= 1.0
    assert math.isfinite(size.rows)
    if limits.deadline_rows is not None:
        assert size.rows <= max(limits.deadline_rows, 1.0) * (1 + 1e-9)
    assert isinstance(limits, Bounds)


PLANTS = {
    "fixed": st.floats(min_value=0.01, max_value=20.0),
    "throughput": st.floats(min_value=10.0, max_value=1e6),
    "target": st.floats(min_value=0.5, max_value=60.0),
    "trigger": st.one_of(st.just(0.0), st.floats(min_value=1.0, max_value=600.0)),
    "load": st.floats(min_value=0.01, max_value=1.5),
}


def sized(
    fixed: float, throughput: float, target: float, trigger: float, load: float, gain: float
) -> tuple[float, float]:
    """(rows per second that the chosen size digests over what arrives, seconds of a batch)."""
    policy = QueryPolicy(target_seconds=target, stretch_gain=gain)
    capacity = Capacity(
        batches=50, fixed_seconds=fixed, seconds_per_row=1.0 / throughput, residuals=50
    )
    arrival = load * throughput
    unreachable = fixed >= 0.95 * target
    wanted = target_rows(capacity, policy, unreachable=unreachable, trigger_seconds=trigger)
    limits = bounds(capacity, wanted, arrival, trigger, policy, unreachable=unreachable)
    size = choose(limits, capacity, policy)
    assert size is not None
    seconds = capacity.seconds(size.rows)
    assert seconds is not None
    return size.rows / max(seconds, trigger) / arrival, seconds


@given(**PLANTS, gain=st.floats(min_value=0.01, max_value=1.0))
def test_what_some_size_digests_is_digested(
    fixed: float, throughput: float, target: float, trigger: float, load: float, gain: float
) -> None:
    """Whatever the target, the trigger and the price: a limit never makes a backlog grow."""
    longest = max(trigger, 20.0 * fixed)
    digestible = (longest - fixed) / longest
    if load * 1.03 <= digestible:
        assert sized(fixed, throughput, target, trigger, load, gain)[0] >= 1.0 - 1e-9


@given(**PLANTS, gain=st.floats(min_value=0.01, max_value=1.0))
def test_a_batch_longer_than_the_target_pays(
    fixed: float, throughput: float, target: float, trigger: float, load: float, gain: float
) -> None:
    digested, seconds = sized(fixed, throughput, target, trigger, load, gain)
    least = 1.05 * max(target, fixed + 0.08 * max(target, fixed))
    if seconds <= max(least, trigger) or digested <= 1.03 + 1e-6:
        return  # near the target, without cost, or just what digests what arrives
    # At nine tenths of its time, where it still was to be stretched, twice that brought enough.
    before = 0.9 * seconds
    assert (1.0 - fixed / (2.0 * before)) / (1.0 - fixed / before) >= 1.0 + gain


@pytest.mark.parametrize("load", [0.82, 0.87, 0.92])
def test_what_only_a_long_batch_digests_is_digested_with_three_percent_to_spare(
    load: float,
) -> None:
    """Five fixed costs would digest 0.8, 20 of them 0.95."""
    digested, seconds = sized(2.0, 1000.0, 2.5, 0.0, load, 0.125)
    assert digested == pytest.approx(1.03)
    assert 10.0 < seconds < 40.0


@pytest.mark.parametrize(("gain", "costs"), [(0.125, 5.0), (0.1, 6.0), (0.025, 21.0), (1.0, 1.5)])
def test_the_price_in_fixed_costs(gain: float, costs: float) -> None:
    """At overload a batch takes just that; half or twice the default is another."""
    assert sized(2.0, 1000.0, 2.5, 0.0, 1.4, gain)[1] == pytest.approx(
        max(2.0 * costs, 2.5), rel=0.06
    )


def test_what_waits_is_caught_up_with_in_a_minute_where_the_target_is_out_of_reach() -> None:
    capacity = Capacity(batches=50, fixed_seconds=6.0, seconds_per_row=0.001, residuals=50)
    policy = QueryPolicy(target_seconds=5.0)
    wanted = target_rows(capacity, policy, unreachable=True)

    def rows(waiting: float) -> float:
        limits = bounds(
            capacity, wanted, 100.0, 0.0, policy, waiting_rows=waiting, unreachable=True
        )
        size = choose(limits, capacity, policy)
        assert size is not None
        return size.rows

    assert rows(0.0) == pytest.approx(120 * 6 / 0.88)  # what arrives, with its margin
    # (120 + 18,000 / 60) a second: 420 * 6 / 0.58
    assert rows(18_000.0) == pytest.approx(420 * 6 / 0.58)
    assert rows(1e9) == pytest.approx(24_000.0)  # five fixed costs
