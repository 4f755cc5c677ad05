"""Size: its constraints as a table, its laws as properties, on curves that are known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.decide.reach import REACH_SHARE
from agent.core.decide.size import Ask, Size, aim_above, size_of
from agent.core.measure.cost import Curve
from agent.core.policy import QueryPolicy


@pytest.mark.parametrize(
    ("fixed", "arrival", "deadline", "reason", "feasible"),
    [
        (1.0, 1000.0, None, "", True),  # n = mu (T - c0) digests what arrives
        (1.0, None, None, "", True),  # nothing known of arrivals: the target decides
        (6.0, 500.0, None, "floor:stability", False),  # c0 above the target: FLIP-183's floor trap
        (6.0, 10.0, None, "floor:fixed_cost", False),  # ... and little arrives
        (1.0, 2700.0, None, "floor:stability", False),  # close to mu: only large batches keep up
        (1.0, 9000.0, 5.5, "bound:deadline", False),  # nothing is stable: as much as is allowed
        (2.0, 9000.0, 30.0, "bound:throughput", False),  # but no more than pays
        (1.0, 1000.0, 4.0, "bound:deadline", False),  # the deadline lies below the target
    ],
)
def test_stability_beats_the_target_and_never_the_deadline(
    fixed: float, arrival: float | None, deadline: float | None, reason: str, feasible: bool
) -> None:
    curve = Curve(fixed, 1 / 4000)
    policy = QueryPolicy(target_seconds=5.0, deadline_seconds=deadline)
    ask = Ask(arrival, lost=fixed >= REACH_SHARE * 5.0, sigma=0.1)
    size = size_of(curve, ask, policy)
    assert (size.reason, size.feasible) == (reason, feasible)
    if deadline is not None:
        assert curve.seconds(size.rows) == pytest.approx(
            min(0.8 * deadline / math.exp(2.0 * 0.1), curve.seconds(size.rows))
        )


def test_under_noise_the_deadline_is_kept_with_two_deviations() -> None:
    policy = QueryPolicy(target_seconds=60.0, deadline_seconds=50.0)
    size = size_of(Curve(1.0, 1e-3), Ask(sigma=0.3), policy)
    assert 1.0 + 1e-3 * size.rows == pytest.approx(0.8 * 50.0 / math.exp(0.6))


@pytest.mark.parametrize(
    ("fixed", "seconds"),
    [
        (20.0, 48.0),  # four fifths of the deadline
        (44.0, 48.0),
        (47.0, 50.76),  # 8 % beyond the fixed cost: no less than that starves for nothing
        (55.0, 57.5),  # it still ends before the deadline
        (70.0, 75.6),  # nothing does
    ],
)
def test_a_deadline_that_the_fixed_cost_takes_starves_nobody(fixed: float, seconds: float) -> None:
    """One row a batch would keep it no better, and the backlog would grow for ever."""
    curve = Curve(fixed, 1e-4)
    policy = QueryPolicy(target_seconds=5.0, deadline_seconds=60.0)
    size = size_of(curve, Ask(20_000.0, lost=True), policy)  # twice what any size digests
    assert curve.seconds(size.rows) == pytest.approx(seconds)


def test_the_trigger_interval_asks_for_what_arrives_between_batches() -> None:
    size = size_of(Curve(0.1, 1 / 4000), Ask(1000.0, 30.0), QueryPolicy(target_seconds=5.0))
    assert size.stable_rows == pytest.approx(1000.0 * 1.2 * 30.0)
    assert size.rows == pytest.approx(1000.0 * 1.2 * 30.0)


def test_an_overloaded_query_says_how_much_capacity_is_missing() -> None:
    policy = QueryPolicy(target_seconds=5.0, deadline_seconds=20.0)
    size = size_of(Curve(1.0, 1 / 4000), Ask(8000.0), policy)
    assert size.stable_rows == math.inf
    assert size.required_ratio is not None
    assert 2.1 < size.required_ratio < 2.4  # 8000 over a little less than 4000


@pytest.mark.parametrize(("load", "short"), [(0.9, False), (0.96, False), (0.98, True)])
def test_capacity_is_missing_only_where_a_backlog_stays(load: float, short: bool) -> None:
    """The margin of stability is for sizes: what one digests at all is digested."""
    curve, policy = Curve(1.0, 1 / 4000), QueryPolicy(target_seconds=5.0)
    largest = size_of(curve, Ask(8000.0), policy).largest_rows
    size = size_of(curve, Ask(load * largest / curve.seconds(largest)), policy)
    assert ((size.required_ratio or 0.0) > 1.0) is short


def test_congestion_has_a_size_of_highest_throughput_and_nothing_is_sought_beyond() -> None:
    curve = Curve(1.2, 1e-4, 1e-4 / 8_000)
    best = math.sqrt(1.2 * 10_000 * 8_000)
    assert curve.best_rows == pytest.approx(best)
    size = size_of(curve, Ask(50_000.0), QueryPolicy(target_seconds=1.5))
    assert (size.rows, size.reason) == (pytest.approx(best), "bound:throughput")


def test_up_to_the_trigger_interval_more_rows_bring_more_whatever_a_row_costs() -> None:
    curve = Curve(1.2, 1e-4, 1e-4 / 40_000)
    size = size_of(curve, Ask(50_000.0, 14.0), QueryPolicy(target_seconds=1.5))
    assert curve.seconds(size.rows) == pytest.approx(14.0)


@pytest.mark.parametrize(
    ("trigger", "sure_rows", "seconds", "reason"),
    [
        (60.0, math.inf, 60.0, "floor:trigger"),  # all of the interval, and no more
        (60.0, 400_000.0, 40.5, "floor:trigger"),  # ... as far as is sure
        (60.0, 0.0, 10.0, ""),
        (12.0, math.inf, 10.0, ""),  # within the band around the target nothing is left unused
        (14.0, math.inf, 14.0, "floor:trigger"),
        (0.0, math.inf, 10.0, ""),  # batches follow each other
    ],
)
@pytest.mark.parametrize("waiting", [0.0, math.inf])
def test_what_surely_fits_a_trigger_interval_is_not_left_for_the_next(
    trigger: float, sure_rows: float, seconds: float, reason: str, waiting: float
) -> None:
    """Whether rows wait already or not: a burst would wait a whole interval, for nothing."""
    curve, policy = Curve(0.5, 1e-4), QueryPolicy(target_seconds=10.0)
    size = size_of(curve, Ask(831.0, trigger, waiting, sure_rows=sure_rows), policy)
    assert (curve.seconds(size.rows), size.reason) == (pytest.approx(seconds, rel=0.01), reason)
    assert size.feasible


@pytest.mark.parametrize("lost", [False, True])
def test_a_fixed_cost_beyond_the_target_leaves_nothing_for_the_next_interval_either(
    lost: bool,
) -> None:
    curve, policy = Curve(4.9, 1e-4), QueryPolicy(target_seconds=5.0)
    size = size_of(curve, Ask(10.0, 60.0, lost=lost, sure_rows=math.inf), policy)
    assert curve.seconds(size.rows) == pytest.approx(60.0)


@pytest.mark.parametrize(
    ("fixed", "seconds", "reason"),
    [
        (0.5, 5.0, ""),  # the target spreads it well enough
        (2.0, 10.0, "floor:trigger"),
        (4.4, 22.0, "floor:trigger"),
        (6.0, 30.0, "floor:trigger"),
    ],
)
@pytest.mark.parametrize("waiting", [0.0, 1e9])
def test_a_run_that_ends_takes_a_quarter_longer_than_its_rows_at_most(
    fixed: float, seconds: float, reason: str, waiting: float
) -> None:
    """The run is waited for, no batch: five fixed costs each, also for the last rows of it."""
    curve, policy = Curve(fixed, 1e-5), QueryPolicy(target_seconds=5.0)
    ask = Ask(0.0, waiting_rows=waiting, lost=fixed >= REACH_SHARE * 5.0, ends=True)
    size = size_of(curve, ask, policy)
    assert curve.seconds(size.rows) == pytest.approx(seconds)
    assert curve.seconds(size.rows) / (size.rows * 1e-5) <= 1.25 + 1e-9
    assert size.reason == (reason if waiting == 0.0 or fixed < 5.0 else "bound:throughput")


def test_a_run_that_ends_keeps_the_deadline() -> None:
    policy = QueryPolicy(target_seconds=5.0, deadline_seconds=15.0)
    size = size_of(Curve(4.0, 1e-5), Ask(ends=True), policy)
    assert (size.reason, size.rows) == ("bound:deadline", pytest.approx(800_000))


def test_a_batch_that_fits_the_trigger_interval_keeps_the_deadline() -> None:
    policy = QueryPolicy(target_seconds=10.0, deadline_seconds=40.0)
    size = size_of(Curve(0.5, 1e-4), Ask(0.0, 60.0, sure_rows=math.inf), policy)
    assert (size.reason, size.rows) == ("bound:deadline", pytest.approx(315_000))


def test_a_fixed_cost_of_a_sixth_is_no_reason_though_rows_wait() -> None:
    """More arrives than batches of the target digest: that is the reason, and it is told."""
    ask = Ask(70_000.0, waiting_rows=200_000.0)
    size = size_of(Curve(0.3, 1.0 / 90_000.0), ask, QueryPolicy(target_seconds=2.0))
    assert size.reason == "floor:stability"


def test_a_spike_is_no_reason_to_spread_a_large_fixed_cost() -> None:
    curve, policy = Curve(4.0, 1 / 4000), QueryPolicy(target_seconds=5.0)
    spread = size_of(curve, Ask(1000.0, waiting_rows=1e6), policy)
    assert spread.rows > 30_000
    waiting = size_of(curve, Ask(1000.0, waiting_rows=1e6, patient_rows=0.0), policy)
    assert waiting.rows == pytest.approx(waiting.target_rows)
    waiting = size_of(curve, Ask(1000.0, waiting_rows=1e6, patient_rows=5500.0), policy)
    assert waiting.rows == pytest.approx(5500.0)  # what is in force already may stay


@pytest.mark.parametrize(
    ("fixed", "above"),
    [(0.0, 0.0), (2.5, 0.03), (4.5, 0.054)],  # 0.06 of the fixed cost's share of the target
)
def test_where_a_second_more_holds_many_times_the_rows_it_is_worth_more(
    fixed: float, above: float
) -> None:
    curve, policy = Curve(fixed, 1e-4), QueryPolicy(target_seconds=5.0)
    assert aim_above(curve, policy, 0.0) == pytest.approx(above)
    assert aim_above(curve, policy, 10.0) == 0.0  # batches follow the trigger: nothing is saved
    size = size_of(curve, Ask(above=above), policy)
    assert curve.seconds(size.rows) == pytest.approx(max(5.0 * math.exp(above), fixed + 0.4))


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
    curve, arrival = Curve(fixed, 1.0 / throughput), load * throughput
    size = size_of(curve, Ask(arrival, trigger, lost=fixed >= REACH_SHARE * target), policy)
    seconds = curve.seconds(size.rows)
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
    if seconds <= max(least, trigger) * (1 + 1e-9) or digested <= 1.03 + 1e-6:
        return  # near the target, without cost, or just what digests what arrives
    # At nine tenths of its time, where it still was to be stretched, twice that brought enough.
    before = 0.9 * seconds
    assert (1.0 - fixed / (2.0 * before)) / (1.0 - fixed / before) >= 1.0 + gain


@given(
    st.floats(min_value=0.0, max_value=20.0),
    st.floats(min_value=1e-7, max_value=1.0),
    st.floats(min_value=0.0, max_value=1e-6),
    st.one_of(st.none(), st.floats(min_value=0.0, max_value=1e6)),
    st.one_of(st.none(), st.floats(min_value=1.0, max_value=1e4)),
    st.booleans(),
)
def test_the_size_keeps_the_deadline_whatever_else_is_asked(
    fixed: float,
    per_row: float,
    congestion: float,
    arrival: float | None,
    deadline: float | None,
    lost: bool,
) -> None:
    policy = QueryPolicy(target_seconds=5.0, deadline_seconds=deadline)
    size = size_of(Curve(fixed, per_row, congestion), Ask(arrival, lost=lost), policy)
    assert isinstance(size, Size)
    assert 1.0 <= size.rows < math.inf
    assert size.rows <= size.deadline_rows * (1 + 1e-9)
    if deadline is not None and size.rows > 1.0:
        curve = Curve(fixed, per_row, congestion)
        longest = max(0.8 * deadline, 1.08 * fixed)  # an empty batch is hardly shorter
        assert curve.seconds(size.rows) <= longest * (1 + 1e-9)
        if fixed < deadline:
            assert curve.seconds(size.rows) < deadline


@pytest.mark.parametrize("load", [0.82, 0.87, 0.92])
def test_what_only_a_long_batch_digests_is_digested_with_three_percent_to_spare(
    load: float,
) -> None:
    """Five fixed costs would digest 0.8, 20 of them 0.95."""
    digested, seconds = sized(1.0, 1000.0, 2.5, 0.0, load, 0.125)
    assert digested == pytest.approx(1.03)
    assert 5.0 < seconds < 20.0


def test_what_would_take_more_than_twenty_fixed_costs_is_not_digested() -> None:
    assert sized(1.0, 1000.0, 2.5, 0.0, 0.935, 0.125)[1] == pytest.approx(5.0)
    assert sized(1.0, 1000.0, 2.5, 0.0, 0.915, 0.125)[1] > 15.0


@pytest.mark.parametrize(("gain", "costs"), [(0.125, 5.0), (0.1, 6.0), (0.025, 21.0), (1.0, 1.5)])
def test_the_price_in_fixed_costs(gain: float, costs: float) -> None:
    """At overload a batch takes just that; half or twice the default is another."""
    assert sized(2.0, 1000.0, 2.5, 0.0, 1.4, gain)[1] == pytest.approx(
        max(2.0 * costs, 2.5), rel=0.06
    )


def test_by_default_a_longer_batch_pays_up_to_three_fixed_costs() -> None:
    """Two thirds of its time are rows then; a fifth more of them would take it to five."""
    gain = QueryPolicy().stretch_gain
    assert sized(2.0, 1000.0, 2.5, 0.0, 1.4, gain)[1] == pytest.approx(6.0)


@pytest.mark.parametrize("fixed", [6.0, 3.1, 2.4])
def test_what_waits_is_caught_up_with_in_a_minute_where_the_target_is_left(fixed: float) -> None:
    """As it is out of reach, or as more arrives than its size digests."""
    policy, curve = QueryPolicy(target_seconds=5.0), Curve(fixed, 0.001)
    lost = fixed > 5.0
    arrival = 100.0 if lost else 1.02 * (5.0 - fixed) / 5.0 / 1.2 * 1000.0

    def rows(waiting: float) -> float:
        return size_of(curve, Ask(arrival, waiting_rows=waiting, lost=lost), policy).rows

    def stable(rate: float) -> float:
        return curve.stable_rows(rate, 0.0)

    assert rows(0.0) == pytest.approx(stable(1.2 * arrival))
    waiting = 60.0 * 0.05 * arrival
    assert rows(waiting) == pytest.approx(stable(1.25 * arrival))
    assert curve.seconds(rows(1e9)) == pytest.approx(3.0 * fixed)


@given(**PLANTS)
def test_the_fewest_stable_rows_are_stable_and_fewer_are_not(
    fixed: float, throughput: float, target: float, trigger: float, load: float
) -> None:
    curve = Curve(fixed, 1.0 / throughput, 0.01 / throughput / (throughput * target))
    rows = curve.stable_rows(load * throughput, trigger)
    if math.isfinite(rows):
        assert rows >= load * throughput * max(curve.seconds(rows), trigger) * (1 - 1e-6)
        fewer = 0.99 * rows
        assert fewer < load * throughput * max(curve.seconds(fewer), trigger)


@pytest.mark.parametrize(("gain", "costs"), [(0.25, 5.0), (0.125, 5.0), (0.05, 11.0)])
def test_a_run_that_ends_takes_no_shorter_batches_for_a_higher_price(
    gain: float, costs: float
) -> None:
    policy = QueryPolicy(target_seconds=5.0, stretch_gain=gain)
    size = size_of(Curve(4.0, 1e-5), Ask(0.0, ends=True), policy)
    assert Curve(4.0, 1e-5).seconds(size.rows) == pytest.approx(4.0 * costs)


@given(st.floats(0.1, 20.0), st.floats(1.0, 3000.0), st.floats(0.0, 60.0), st.floats(0.0, 30.0))
def test_slow_batches_are_part_of_what_must_be_digested(
    fixed: float, arrival: float, trigger: float, slow: float
) -> None:
    """The batch nearest the target by which what arrives is digested in the mean."""
    curve, policy = Curve(fixed, 1 / 4000), QueryPolicy(target_seconds=5.0)
    size = size_of(curve, Ask(arrival, trigger, slow_seconds=slow), policy)
    stable = size.stable_rows or 0.0
    if math.isfinite(stable):
        needed = arrival * (1.0 + policy.stability_margin)
        assert stable * (1 + 1e-9) >= needed * max(curve.seconds(stable) + slow, trigger)
    without = size_of(curve, Ask(arrival, trigger), policy)
    assert size.rows >= without.rows
    assert (size.required_ratio or 0.0) >= (without.required_ratio or 0.0)


@pytest.mark.parametrize(
    ("fixed", "arrival", "trigger", "feasible", "deadline"),
    [
        (1.0, 100.0, 600.0, True, None),  # 7 s of work in ten minutes
        (6.0, 100.0, 600.0, True, None),  # an empty batch is longer than the target, and in time
        (1.0, 9999.0, 600.0, False, None),  # not even ten minutes hold it
        (1.0, 9000.0, 6.0, False, None),  # a trigger within the band of the target is none
        (700.0, 1.0, 600.0, False, None),
        (1.0, 3000.0, 600.0, False, 60.0),  # a deadline allows a fifth of what arrives
        (1.0, 100.0, 600.0, True, 60.0),
    ],
)
def test_a_target_holds_where_batches_end_within_a_trigger_interval_beyond_it(
    fixed: float, arrival: float, trigger: float, feasible: bool, deadline: float | None
) -> None:
    ask = Ask(arrival, trigger, sure_rows=math.inf, lost=fixed >= REACH_SHARE * 5.0)
    size = size_of(
        Curve(fixed, 1e-4), ask, QueryPolicy(target_seconds=5.0, deadline_seconds=deadline)
    )
    assert size.feasible is feasible
