"""Cost: its curve is learned, noise is not chased, a constant size cannot fool it."""

from __future__ import annotations

import math
import random
import statistics

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.measure.cost import (
    LEAST_SIGMA,
    Cost,
    Curve,
    History,
    Line,
    tell_once,
)


def feed(
    cost: Cost,
    sizes: list[int],
    *,
    fixed: float,
    throughput: float,
    sigma: float = 0.0,
    seed: int = 1,
) -> list[bool]:
    noise = random.Random(seed)
    changes = []
    for rows in sizes:
        factor = math.exp(noise.gauss(-sigma * sigma / 2, sigma)) if sigma else 1.0
        changes.append(cost.learn(rows, (fixed + rows / throughput) * factor))
    return changes


def test_without_noise_and_with_varied_sizes_the_model_is_found() -> None:
    cost = Cost()
    feed(cost, [1000, 8000, 3000, 12000, 500, 9000] * 5, fixed=1.2, throughput=4000)
    assert cost.fixed_cost == pytest.approx(1.2, rel=0.05)
    assert cost.throughput == pytest.approx(4000, rel=0.05)


@pytest.mark.parametrize("sigma", [0.15, 0.3, 0.5])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_under_noise_the_cost_of_a_batch_is_predicted(sigma: float, seed: int) -> None:
    cost = Cost()
    choice = random.Random(seed)
    sizes = [choice.randrange(2000, 40000) for _ in range(120)]
    feed(cost, sizes, fixed=1.0, throughput=8000, sigma=sigma, seed=seed)
    for rows in (4000, 20000, 36000):
        expected = 1.0 + rows / 8000
        assert cost.seconds(rows) == pytest.approx(expected, rel=0.15 + sigma)


def test_a_constant_size_does_not_wind_the_covariance_up() -> None:
    cost = Cost()
    feed(cost, [1000, 5000, 2000], fixed=1.0, throughput=2000)
    fixed = cost.fixed_cost
    feed(cost, [3000] * 2000, fixed=1.0, throughput=2000, sigma=0.2)
    assert fixed is not None
    assert 0.0 <= (cost.fixed_cost or 0.0) <= 2.5  # of a batch of 2.5 s
    assert cost.seconds(3000) == pytest.approx(2.5, rel=0.3)
    assert cost.doubt(0.0) <= 2.5
    assert cost.doubt(3000) <= 0.25
    # It still learns at once when sizes vary again.
    feed(cost, [500, 9000] * 10, fixed=1.0, throughput=2000)
    assert cost.fixed_cost == pytest.approx(1.0, rel=0.25)


@pytest.mark.parametrize(("factor"), [0.4, 2.5])
def test_a_changed_throughput_is_believed_within_three_batches(factor: float) -> None:
    cost = Cost()
    feed(cost, [4000, 6000, 5000] * 10, fixed=0.5, throughput=2000, sigma=0.1)
    feed(cost, [5000] * 3, fixed=0.5, throughput=2000 * factor, sigma=0.1, seed=7)
    expected = 0.5 + 5000 / (2000 * factor)
    assert cost.seconds(5000) == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize("outage_seconds", [300.0, 2400.0, 7200.0])
def test_a_batch_that_sat_out_an_outage_tells_nothing_of_the_others(outage_seconds: float) -> None:
    """The largest of late, as they are that were full when their sink went."""
    cost = Cost()
    feed(cost, [28_000, 45_000, 36_000] * 20, fixed=1.0, throughput=5000, sigma=0.08)
    cost.learn(45_000, outage_seconds, 10.0)
    feed(cost, [45_000] * 3, fixed=1.0, throughput=5000)
    assert (cost.fixed_cost or 0.0) < 4.0
    assert cost.seconds(45_000) == pytest.approx(10.0, rel=0.25)


def test_a_sink_fifteen_times_as_slow_is_believed_at_once() -> None:
    """It is no outage: that takes longer."""
    cost = Cost()
    feed(cost, [28_000, 45_000, 36_000] * 20, fixed=1.0, throughput=5000, sigma=0.08)
    cost.learn(45_000, 1.0 + 9.0 * 15.0)
    assert cost.seconds(45_000) == pytest.approx(136.0, rel=0.25)


@pytest.mark.parametrize("factor", [5.0, 20.0, 100.0])
def test_a_sink_that_is_so_much_slower_for_good_is_believed_within_four_batches(
    factor: float,
) -> None:
    cost = Cost()
    feed(cost, [28_000, 45_000, 36_000] * 20, fixed=1.0, throughput=5000, sigma=0.08)
    feed(cost, [45_000] * 4, fixed=1.0, throughput=5000 / factor, sigma=0.08, seed=7)
    assert cost.seconds(45_000) == pytest.approx(1.0 + 9.0 * factor, rel=0.25)


def test_noise_alone_is_rarely_taken_for_a_change() -> None:
    false = 0
    for seed in range(20):
        cost = Cost()
        changes = feed(cost, [5000] * 200, fixed=0.5, throughput=2000, sigma=0.3, seed=seed)
        false += sum(changes[20:])
    assert false <= 20 * 180 * 0.02


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(min_value=1, max_value=10**9),
            st.floats(min_value=1e-3, max_value=1e5),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_whatever_it_is_fed_the_model_stays_sane(batches: list[tuple[int, float]]) -> None:
    cost = Cost()
    for rows, seconds in batches:
        cost.learn(rows, seconds)
        curve = cost.curve
        for value in (cost.fixed, cost.per_row, cost.congestion, curve.fixed, curve.congestion):
            assert 0.0 <= value < math.inf
        assert cost.per_row > 0.0
        assert curve.per_row > 0.0
        assert 0.05 <= cost.sigma <= 1.0
        for size in (0.0, rows, 1e12):
            assert 0.0 <= cost.doubt(size) < math.inf
        assert 0.0 <= sum(cost.by_side(seconds)[1]) <= 1.0 + 1e-9
        assert sum(math.exp(one.weight) for one in cost.bank) == pytest.approx(1.0)
    assert len(cost.bank) <= 6
    assert msgspec.convert(msgspec.to_builtins(cost), Cost) == cost


def test_two_sizes_tell_the_fixed_cost_from_the_throughput_however_far_apart() -> None:
    cost = Cost()
    feed(cost, [50, 20000], fixed=6.0, throughput=10000)
    assert (cost.fixed_cost or 0.0) > 3.0  # of 6 and 8 s
    feed(cost, [40000, 80000] * 4, fixed=6.0, throughput=10000)
    assert cost.fixed_cost == pytest.approx(6.0, rel=0.25)
    assert cost.throughput == pytest.approx(10000, rel=0.2)


@pytest.mark.parametrize("factor", [0.4, 2.5])
def test_a_jump_is_believed_from_what_lies_behind_it_alone(factor: float) -> None:
    cost = Cost()
    feed(cost, [20000, 38000, 30000] * 12, fixed=1.2, throughput=10000, sigma=0.1)
    changes = feed(cost, [38000] * 2, fixed=1.2, throughput=10000 * factor, sigma=0.1, seed=3)
    assert changes == [True, False]
    assert cost.seconds(38000) == pytest.approx(1.2 + 3.8 / factor, rel=0.15)


@pytest.mark.parametrize(("fixed", "throughput"), [(6.0, 10_000), (1.2, 4413)])
def test_which_of_the_two_grew_is_told_by_the_first_batches_of_another_size(
    fixed: float, throughput: float
) -> None:
    cost = Cost()
    feed(cost, [30_000, 38_000, 45_000, 38_000] + [38_000] * 16, fixed=1.2, throughput=10_000)
    # The same for either: nobody can know.
    assert any(feed(cost, [38_000] * 3, fixed=fixed, throughput=throughput))
    assert cost.doubt(0.0) > 2.0
    assert cost.doubt(38_000.0) < 1.0
    feed(cost, [13_000] * 4, fixed=fixed, throughput=throughput)
    assert cost.fixed_cost == pytest.approx(fixed, abs=0.6)


def test_one_fast_batch_is_a_fluke_and_is_forgotten() -> None:
    cost = Cost()
    feed(cost, [38000] * 30, fixed=1.2, throughput=10000, sigma=0.15)
    before = cost.seconds(38000) or 0.0
    assert not cost.learn(38000, before * math.exp(-4.0 * 0.15))
    feed(cost, [38000] * 5, fixed=1.2, throughput=10000)
    assert cost.seconds(38000) == pytest.approx(before, rel=0.06)


def test_a_noisy_plant_is_averaged_for_longer() -> None:
    calm, noisy = Cost(), Cost()
    feed(calm, [5000] * 200, fixed=0.5, throughput=2000, sigma=0.1)
    feed(noisy, [5000] * 200, fixed=0.5, throughput=2000, sigma=0.5)
    assert calm.sigma == pytest.approx(0.1, rel=0.4)
    assert noisy.sigma == pytest.approx(0.5, rel=0.4)
    pulls = []
    for cost in (calm, noisy):
        before = cost.seconds(5000) or 0.0
        cost.learn(5000, before * 1.1)
        pulls.append((cost.seconds(5000) or 0.0) / before - 1.0)
    assert pulls[1] < 0.7 * pulls[0]


def test_the_noise_is_that_of_the_last_25_batches() -> None:
    cost, sizes = Cost(), [10_000, 11_000, 12_000]
    for number in range(300):
        noise = math.exp(0.3 if number % 2 else -0.3)
        cost.learn(sizes[number % 3], (1.0 + sizes[number % 3] / 5000) * noise)
    assert cost.sigma == pytest.approx(0.3, rel=0.05)
    feed(cost, sizes * 8 + sizes[:1], fixed=1.0, throughput=5000)
    assert cost.sigma == pytest.approx(0.3 * math.exp(-0.5), rel=0.1)  # a third of its square


def test_doubt_shrinks_where_batches_are_and_grows_away_from_them() -> None:
    cost = Cost()
    feed(cost, [9000, 10000, 11000] * 10, fixed=1.0, throughput=5000, sigma=0.1)
    assert cost.doubt(10000) < 0.05 * 3.0
    assert cost.doubt(100000) > 3 * cost.doubt(10000)


def test_a_first_batch_that_paid_for_the_start_counts_for_nothing() -> None:
    model = Cost()
    model.learn(120, 49.0, 10.0)
    model.learn(120, 11.0, 10.0)
    assert model.seconds(120) == pytest.approx(11.0)
    assert model.fixed_cost == pytest.approx(3.0)


def test_a_first_batch_of_the_usual_length_counts() -> None:
    model = Cost()
    model.learn(1000, 5.0)
    model.learn(1000, 4.0)
    assert 4.0 < (model.seconds(1000) or 0.0) < 5.0
    assert model.batches == 2


@pytest.mark.parametrize("sigma", [0.0, 0.1])
def test_rows_that_get_dearer_with_the_size_show_the_size_of_highest_throughput(
    sigma: float,
) -> None:
    truth, noise, cost = Curve(1.2, 1e-4, 1e-4 / 40_000), random.Random(5), Cost()
    for rows in (10_000, 20_000, 40_000, 80_000) * 20:
        cost.learn(rows, truth.seconds(rows) * math.exp(noise.gauss(0.0, sigma)))
    assert cost.curve.best_rows == pytest.approx(truth.best_rows, rel=0.3)
    assert cost.seconds(60_000) == pytest.approx(truth.seconds(60_000), rel=0.1)


def test_without_congestion_none_is_believed_however_long_it_runs() -> None:
    cost, choice = Cost(), random.Random(2)
    sizes = [choice.randrange(500, 8000) for _ in range(4000)]
    feed(cost, sizes, fixed=0.5, throughput=10_000, sigma=0.15)
    assert cost.curve.best_rows > 100_000
    assert cost.seconds(8000) == pytest.approx(1.3, rel=0.05)


def test_one_slow_batch_far_beyond_what_was_seen_is_no_new_throughput() -> None:
    """As on a real query: 80 batches of some rows, then one of 299 that took 5.5 s."""
    cost, noise = Cost(), random.Random(3)
    for _ in range(80):
        rows = noise.randrange(5, 40)
        cost.learn(rows, (0.25 + rows / 690.0) * math.exp(noise.gauss(0.0, 0.1)))
    cost.learn(299, 5.5)
    for _ in range(3):
        rows = noise.randrange(5, 40)
        cost.learn(rows, (0.25 + rows / 690.0) * math.exp(noise.gauss(0.0, 0.1)))
    # What is known of small batches stays; what is not known of large ones says so.
    assert cost.seconds(20) == pytest.approx(0.25 + 20 / 690.0, rel=0.25)
    for _ in range(20):
        rows = noise.randrange(5, 40)
        cost.learn(rows, (0.25 + rows / 690.0) * math.exp(noise.gauss(0.0, 0.1)))
        assert cost.doubt(2000) > 0.5 * (cost.seconds(2000) or 0.0)


def between_bursts(share: float, seed: int) -> Cost:
    """As in the demo: full batches in bursts, small ones of such a share of them between."""
    cost = Cost()
    for _ in range(3):
        feed(cost, [round(share * FULL)] * 6 + [FULL] * 6, **BURSTS, sigma=0.06, seed=seed)
    return cost


FULL = 198_150
BURSTS = {"fixed": 0.27, "throughput": 110_000.0}
FULL_SECONDS = 0.27 + FULL / 110_000


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("stalled", "times"), [(0.2, 1.3), (0.3, 1.45), (0.5, 1.7)])
def test_one_slow_small_batch_rewrites_little_of_what_large_ones_taught(
    stalled: float, times: float, seed: int
) -> None:
    """Taken for a change of the rows' cost, or of congestion, it would say 15 to 40 times."""
    cost = between_bursts(0.04, seed)
    small = 0.27 + 0.04 * FULL / 110_000
    assert not cost.learn(round(0.04 * FULL), small + stalled), "no change is told"
    assert cost.seconds(FULL) == pytest.approx(FULL_SECONDS, rel=times - 1.0)
    cost.learn(round(0.04 * FULL), small)
    assert cost.seconds(FULL) == pytest.approx(FULL_SECONDS, rel=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_that_large_batches_get_dearer_is_told_by_batches_of_a_quarter_of_them_or_more(
    seed: int,
) -> None:
    for share, told in ((0.2, False), (0.35, True)):
        cost = between_bursts(share, seed)
        cost.learn(round(share * FULL), 2.0 * (0.27 + share * FULL / 110_000))
        bent = [one for one in cost.bank if one.age == 0 and one.mean[2] > 1e-12]
        assert bool(bent) is told


def test_small_batches_that_stay_slow_are_believed() -> None:
    cost = between_bursts(0.04, 1)
    feed(cost, [round(0.04 * FULL)] * 4, fixed=0.6, throughput=110_000)
    assert cost.seconds(0.04 * FULL) == pytest.approx(0.6 + 0.04 * FULL / 110_000, rel=0.1)


def test_beyond_the_largest_size_of_late_the_doubt_grows_with_the_distance() -> None:
    cost = Cost()
    feed(cost, [1000, 5000, 2000, 8000] * 20, fixed=1.0, throughput=2000)
    at = {rows: cost.doubt(rows) / (cost.seconds(rows) or 1.0) for rows in (8000, 21_700, 59_000)}
    assert at[8000] < 0.05
    assert at[21_700] == pytest.approx(0.3, rel=0.2)  # e times as large: three tenths of a batch
    assert at[59_000] == pytest.approx(0.6, rel=0.2)
    feed(cost, [1000] * 100, fixed=1.0, throughput=2000)
    assert cost.doubt(8000) / (cost.seconds(8000) or 1.0) > 0.2  # seen, but long ago


def test_a_change_is_heard_after_changes_whose_stories_have_come_to_agree() -> None:
    """As on a real query: dearer rows, a dearer state, cheap rows again.

    Of the first change four stories are told (the fixed cost, the rows, both, congestion). Batches
    of other sizes make three of them one and the same: they may not hold the places of new ones.
    """
    told = []
    for seed in range(0, 100, 10):  # one course of noise alone would be luck
        cost = Cost()
        sizes = [70, 80, 80, 80, 70, 80, 70, 80]
        feed(cost, [120] * 10, fixed=0.5, throughput=25.0, sigma=0.03, seed=seed)
        feed(cost, [120, *sizes], fixed=0.5, throughput=8.5, sigma=0.03, seed=seed + 1)
        feed(cost, [70] * 7 + [50] * 2, fixed=3.5, throughput=8.0, sigma=0.03, seed=seed + 2)
        feed(cost, [50, 50, 60, 60], fixed=3.5, throughput=25.0, sigma=0.03, seed=seed + 3)
        told.append(cost.seconds(70) or 0.0)
        feed(cost, [60] * 4, fixed=3.5, throughput=25.0, sigma=0.03, seed=seed + 4)
        assert cost.seconds(70) == pytest.approx(6.3, rel=0.25)
    assert statistics.fmean(told) == pytest.approx(6.3, rel=0.25)


@given(
    st.lists(
        st.tuples(st.floats(0.05, 1.0), st.floats(0.0, 5.0), st.floats(0.001, 0.1)),
        min_size=2,
        max_size=2,
    ),
    st.floats(-0.9, 0.9),
)
def test_two_stories_told_as_one_keep_their_mean_and_their_doubt(
    parts: list[tuple[float, float, float]], along: float
) -> None:
    bank = [
        History(math.log(w), (c, s, 0.0), (4.0, along * 2.0, 0.0, 1.0, 0.0, 0.0), age=1)
        for w, c, s in parts
    ]
    bank.sort(key=lambda one: -one.weight)
    both = Cost(2, list(bank))
    both.merge()
    kept = [History(one.weight, one.mean, one.covariance, one.age) for one in bank]
    tell_once(kept)
    apart = parts[0][1] - parts[1][1], parts[0][2] - parts[1][2]
    distance = (apart[0] ** 2 - 2.0 * (along * 2.0) * apart[0] * apart[1] + 4.0 * apart[1] ** 2) / (
        4.0 - (along * 2.0) ** 2
    )
    assert len(kept) == (1 if distance <= 1.0 else 2)
    one = Cost(2, kept)
    one.merge()
    assert (one.fixed, one.per_row) == pytest.approx((both.fixed, both.per_row))
    assert one.covariance == pytest.approx(both.covariance)
    if len(kept) == 1:
        assert math.exp(kept[0].weight) == pytest.approx(sum(w for w, _, _ in parts))


def test_the_likeliest_story_stands_first_also_where_it_is_two_that_agree() -> None:
    alike = (4.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    told = ((0.40, 9.0, 0), (0.35, 1.0, 5), (0.25, 1.1, 5))
    bank = [History(math.log(w), (c, 0.1, 0.0), alike, age=age) for w, c, age in told]
    tell_once(bank)
    assert [math.exp(one.weight) for one in bank] == pytest.approx([0.6, 0.4])


def test_a_story_as_new_as_the_batch_and_one_of_congestion_are_told_apart() -> None:
    alike = (4.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    for other in (
        History(-1.0, (1.0, 0.1, 0.0), alike, age=0),
        History(-1.0, (1.0, 0.1, 0.0), (*alike[:5], 0.1), age=5),
    ):
        bank = [History(0.0, (1.0, 0.1, 0.0), alike, age=5), other]
        tell_once(bank)
        assert len(bank) == 2


def test_a_jump_is_told_once() -> None:
    cost = Cost()
    feed(cost, [20_000, 38_000, 30_000] * 12, fixed=1.2, throughput=10_000, sigma=0.1)
    changes = feed(cost, [38_000] * 12, fixed=1.2, throughput=3000, sigma=0.1, seed=3)
    assert sum(changes) == 1
    assert changes.index(True) < 3


def test_what_an_earlier_version_learned_is_believed_on() -> None:
    line = Line(
        batches=50,
        fixed_seconds=1.2,
        seconds_per_row=1e-4,
        p_fixed=0.01,
        p_cross=-1e-7,
        p_slope=1e-11,
        variance=0.02,
        last_rows=30_000.0,
    )
    cost = line.cost()
    assert (cost.fixed_cost, cost.throughput) == (1.2, pytest.approx(10_000.0))
    assert (cost.batches, cost.sigma) == (50, pytest.approx(math.sqrt(0.02)))
    assert cost.doubt(0.0) == pytest.approx(0.1)
    feed(cost, [20_000, 38_000, 30_000] * 4, fixed=1.2, throughput=10_000)
    assert cost.seconds(38_000) == pytest.approx(5.0, rel=0.02)
    assert Line().cost() == Cost()


def test_what_the_first_version_learned_is_believed_although_it_noted_no_sizes() -> None:
    line = Line(
        batches=50,
        fixed_seconds=1.2,
        seconds_per_row=1e-4,
        p_fixed=0.01,
        p_slope=1e-11,
        variance=0.0,
    )
    cost = line.cost()
    assert cost.sigma == LEAST_SIGMA  # as it was believed then
    assert math.isfinite(cost.doubt(30_000.0))
    feed(cost, [20_000, 38_000, 30_000] * 4, fixed=1.2, throughput=10_000)
    assert cost.seconds(38_000) == pytest.approx(5.0, rel=0.02)


@given(
    st.floats(min_value=0.0, max_value=1e3),
    st.floats(min_value=1e-9, max_value=10.0),
    st.floats(min_value=0.0, max_value=1e-3),
    st.floats(min_value=1e-3, max_value=1e6),
)
def test_the_rows_of_a_time_take_that_time(
    fixed: float, per_row: float, congestion: float, seconds: float
) -> None:
    curve = Curve(fixed, per_row, congestion)
    rows = curve.rows_in(seconds)
    if rows > 0.0:
        assert curve.seconds(rows) == pytest.approx(seconds)
    else:
        assert seconds <= fixed
    assert curve.rows_in(math.inf) == math.inf


def test_noise_is_learned_between_what_is_credible() -> None:
    calm, wild, noise = Cost(), Cost(), random.Random(1)
    for _ in range(300):
        calm.learn(1000, 5.0)
        wild.learn(1000, 5.0 * math.exp(noise.gauss(0.0, 2.0)))
    assert calm.sigma == 0.05
    assert 0.98 < wild.sigma <= 1.0


def test_what_is_believed_of_the_noise_beforehand_counts_as_four_batches() -> None:
    cost = Cost()
    cost.learn(1000, 5.0)
    assert cost.sigma == 0.2
    cost.learn(1000, 5.0 * math.exp(0.3))
    assert cost.sigma == pytest.approx(0.219, abs=0.004)  # as two batches: 0.228


def test_what_the_tasks_cost_whatever_they_read_is_no_phase_beside_them() -> None:
    cost = Cost()
    feed(cost, [1000, 4000, 2000, 8000] * 5, fixed=2.0, throughput=10_000)
    assert cost.sure_fixed_seconds({"latestOffset": 1.5, "addBatch": 0.5}) < 0.5
    assert cost.sure_fixed_seconds({"addBatch": 2.0}) > 1.5
    assert cost.sure_fixed_seconds({"latestOffset": 9.0}) == 0.0


def test_of_a_batch_within_the_noise_about_a_seventh_is_believed_where_it_is_calm() -> None:
    """The drift over the noise: .008 over .05."""
    cost = Cost()
    feed(cost, [20_000, 30_000, 40_000] * 10 + [30_000] * 300, fixed=1.0, throughput=10_000)
    before = cost.seconds(30_000) or 0.0
    cost.learn(30_000, 1.05 * before)
    assert ((cost.seconds(30_000) or 0.0) / before - 1.0) / 0.05 == pytest.approx(0.147, abs=0.03)


def with_slow(beyond: dict[int, float], batches: int, *, sigma: float = 0.1) -> Cost:
    """Batches of 10 s, and by their number what some took beside."""
    cost, noise = Cost(), random.Random(5)
    for number in range(batches):
        seconds = (2.0 + 10_000 / 1250.0) * math.exp(noise.gauss(-sigma * sigma / 2, sigma))
        cost.learn(10_000, seconds + beyond.get(number, 0.0))
    return cost


def test_what_every_tenth_batch_takes_beside_is_part_of_the_mean() -> None:
    """As where a sink compacts its log: three tell it, and it is forgotten as soon as it ended."""
    every_tenth = dict.fromkeys(range(9, 100, 10), 30.0)
    assert with_slow(every_tenth, 25).slow_seconds == 0.0  # of two nobody knows
    for batches in (34, 64, 94, 105):
        cost = with_slow(every_tenth, batches)
        assert cost.slow_seconds == pytest.approx(3.0, rel=0.1)
        assert cost.seconds(10_000) == pytest.approx(10.0, rel=0.2)
    assert with_slow(every_tenth, 160).slow_seconds > 1.0  # eight took seventy batches
    assert with_slow(every_tenth, 200).slow_seconds == 0.0


@pytest.mark.parametrize("beyond", [{40: 600.0}, {40: 600.0, 41: 300.0}, {40: 30.0, 90: 600.0}])
def test_an_accident_or_two_are_no_part_of_the_mean(beyond: dict[int, float]) -> None:
    assert with_slow(beyond, 100).slow_seconds == 0.0


def test_the_worst_of_them_may_be_an_accident() -> None:
    cost = with_slow(dict.fromkeys(range(9, 80, 10), 30.0) | {49: 900.0}, 80)
    assert cost.slow_seconds == pytest.approx(3.0, rel=0.3)


@pytest.mark.parametrize("sigma", [0.05, 0.2, 0.4])
def test_noise_is_no_slow_batch(sigma: float) -> None:
    """Of what is unlikely, a batch in fifty takes a tenth more than that."""
    means = [with_slow({}, batches, sigma=sigma).slow_seconds for batches in range(50, 400, 10)]
    assert statistics.mean(means) < 0.02 * 10.0
