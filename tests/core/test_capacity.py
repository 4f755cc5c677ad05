"""Capacity: c0 and mu are learned, noise is not chased, a constant size cannot fool it."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.capacity import Capacity, fixed_phase_seconds


def feed(
    capacity: Capacity,
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
        changes.append(capacity.learn(rows, (fixed + rows / throughput) * factor))
    return changes


def test_without_noise_and_with_varied_sizes_the_model_is_found() -> None:
    capacity = Capacity()
    feed(capacity, [1000, 8000, 3000, 12000, 500, 9000] * 5, fixed=1.2, throughput=4000)
    assert capacity.fixed_cost == pytest.approx(1.2, rel=0.05)
    assert capacity.throughput == pytest.approx(4000, rel=0.05)


@pytest.mark.parametrize("sigma", [0.15, 0.3, 0.5])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_under_noise_the_cost_of_a_batch_is_predicted(sigma: float, seed: int) -> None:
    capacity = Capacity()
    choice = random.Random(seed)
    sizes = [choice.randrange(2000, 40000) for _ in range(120)]
    feed(capacity, sizes, fixed=1.0, throughput=8000, sigma=sigma, seed=seed)
    for rows in (4000, 20000, 36000):
        expected = 1.0 + rows / 8000
        assert capacity.seconds(rows) == pytest.approx(expected, rel=0.15 + sigma)


def test_a_constant_size_does_not_wind_the_covariance_up() -> None:
    capacity = Capacity()
    feed(capacity, [1000, 5000, 2000], fixed=1.0, throughput=2000)
    fixed = capacity.fixed_cost
    feed(capacity, [3000] * 2000, fixed=1.0, throughput=2000, sigma=0.2)
    assert fixed is not None
    assert 0.0 <= (capacity.fixed_cost or 0.0) <= 2.5  # of a batch of 2.5 s
    assert capacity.seconds(3000) == pytest.approx(2.5, rel=0.3)
    assert capacity.p_fixed <= 25.0 * 5.0**2
    # It still learns at once when sizes vary again.
    feed(capacity, [500, 9000] * 10, fixed=1.0, throughput=2000)
    assert capacity.fixed_cost == pytest.approx(1.0, rel=0.25)


@pytest.mark.parametrize(("factor"), [0.4, 2.5])
def test_a_changed_throughput_is_believed_within_three_batches(factor: float) -> None:
    capacity = Capacity()
    feed(capacity, [4000, 6000, 5000] * 10, fixed=0.5, throughput=2000, sigma=0.1)
    feed(capacity, [5000] * 3, fixed=0.5, throughput=2000 * factor, sigma=0.1, seed=7)
    expected = 0.5 + 5000 / (2000 * factor)
    assert capacity.seconds(5000) == pytest.approx(expected, rel=0.25)


def test_noise_alone_is_rarely_taken_for_a_change() -> None:
    false = 0
    for seed in range(20):
        capacity = Capacity()
        changes = feed(capacity, [5000] * 200, fixed=0.5, throughput=2000, sigma=0.3, seed=seed)
        false += sum(changes[20:])
    assert false <= 20 * 180 * 0.02


def test_the_floor_of_the_fixed_phases_holds() -> None:
    capacity = Capacity()
    for rows in [1000, 4000, 2000, 8000] * 5:
        capacity.learn(rows, 2.0 + rows / 10000, floor_seconds=1.5)
    assert (capacity.fixed_cost or 0.0) >= 1.4


def test_the_fixed_phases_are_those_that_do_not_grow_with_rows() -> None:
    phases = {"walCommit": 0.1, "addBatch": 5.0, "commitOffsets": 0.2, "other": 1.0}
    assert fixed_phase_seconds(phases) == pytest.approx(0.3)


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.integers(min_value=1, max_value=10**9),
            st.floats(min_value=1e-3, max_value=1e5),
            st.floats(min_value=0.0, max_value=1e5),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_whatever_it_is_fed_the_model_stays_sane(batches: list[tuple[int, float, float]]) -> None:
    capacity = Capacity()
    for rows, seconds, floor in batches:
        capacity.learn(rows, seconds, floor)
        for value in (
            capacity.fixed_seconds,
            capacity.seconds_per_row,
            capacity.p_fixed,
            capacity.p_slope,
            capacity.variance,
        ):
            assert math.isfinite(value)
            assert value >= 0.0
        assert capacity.seconds_per_row > 0.0
        assert capacity.p_cross**2 <= capacity.p_fixed * capacity.p_slope * (1 + 1e-9)


def test_two_sizes_tell_the_fixed_cost_from_the_throughput_however_far_apart() -> None:
    capacity = Capacity()
    feed(capacity, [50, 20000], fixed=6.0, throughput=10000)
    assert (capacity.fixed_cost or 0.0) > 3.0  # of 6 and 8 s
    feed(capacity, [40000, 80000] * 4, fixed=6.0, throughput=10000)
    assert capacity.fixed_cost == pytest.approx(6.0, rel=0.25)
    assert capacity.throughput == pytest.approx(10000, rel=0.2)


@pytest.mark.parametrize("factor", [0.4, 2.5])
def test_a_jump_is_believed_from_what_lies_behind_it_alone(factor: float) -> None:
    capacity = Capacity()
    feed(capacity, [20000, 38000, 30000] * 12, fixed=1.2, throughput=10000, sigma=0.1)
    changes = feed(capacity, [38000] * 2, fixed=1.2, throughput=10000 * factor, sigma=0.1, seed=3)
    assert changes == [True, False]
    assert capacity.seconds(38000) == pytest.approx(1.2 + 3.8 / factor, rel=0.15)


@pytest.mark.parametrize(("fixed", "throughput"), [(6.0, 10_000), (1.2, 4413)])
def test_which_of_the_two_grew_is_told_by_the_first_batches_of_another_size(
    fixed: float, throughput: float
) -> None:
    capacity = Capacity()
    feed(capacity, [30_000, 38_000, 45_000, 38_000] + [38_000] * 16, fixed=1.2, throughput=10_000)
    # The same for either: nobody can know.
    assert any(feed(capacity, [38_000] * 3, fixed=fixed, throughput=throughput))
    assert capacity.doubt(0.0) > 2.0
    assert capacity.doubt(38_000.0) < 1.0
    feed(capacity, [13_000] * 4, fixed=fixed, throughput=throughput)
    assert capacity.fixed_cost == pytest.approx(fixed, abs=0.6)


def test_one_fast_batch_is_a_fluke_and_is_forgotten() -> None:
    capacity = Capacity()
    feed(capacity, [38000] * 30, fixed=1.2, throughput=10000, sigma=0.15)
    before = capacity.seconds(38000) or 0.0
    assert not capacity.learn(38000, before * math.exp(-4.0 * 0.15))
    feed(capacity, [38000] * 5, fixed=1.2, throughput=10000)
    assert capacity.seconds(38000) == pytest.approx(before, rel=0.06)


def test_a_noisy_plant_is_averaged_for_longer() -> None:
    calm, noisy = Capacity(), Capacity()
    feed(calm, [5000] * 200, fixed=0.5, throughput=2000, sigma=0.1)
    feed(noisy, [5000] * 200, fixed=0.5, throughput=2000, sigma=0.5)
    assert calm.sigma == pytest.approx(0.1, rel=0.4)
    assert noisy.sigma == pytest.approx(0.5, rel=0.4)
    pulls = []
    for capacity in (calm, noisy):
        before = capacity.seconds(5000) or 0.0
        capacity.learn(5000, before * 1.1)
        pulls.append((capacity.seconds(5000) or 0.0) / before - 1.0)
    assert pulls[1] < 0.7 * pulls[0]


def test_doubt_shrinks_where_batches_are_and_grows_away_from_them() -> None:
    capacity = Capacity()
    feed(capacity, [9000, 10000, 11000] * 10, fixed=1.0, throughput=5000, sigma=0.1)
    assert capacity.doubt(10000) < 0.1
    assert capacity.doubt(100000) > 3 * capacity.doubt(10000)


def test_a_first_batch_that_paid_for_the_start_counts_for_nothing() -> None:
    model = Capacity()
    model.learn(120, 49.0, 6.0, 10.0)
    model.learn(120, 11.0, 1.0, 10.0)
    assert model.seconds(120) == pytest.approx(11.0)
    assert model.fixed_cost == pytest.approx(3.0)


def test_a_first_batch_of_the_usual_length_counts() -> None:
    model = Capacity()
    model.learn(1000, 5.0)
    model.learn(1000, 4.0)
    assert 4.0 < (model.seconds(1000) or 0.0) < 5.0
    assert model.batches == 2
