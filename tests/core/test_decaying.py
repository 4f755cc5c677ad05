"""Rates: unbiased from the first observation, a step followed at once, a burst taken for none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.measure.decaying import DecayingRate, SteppingRate


@pytest.mark.parametrize("kind", [DecayingRate, SteppingRate])
def test_nothing_is_known_before_the_first_observation(kind: type[DecayingRate]) -> None:
    rate = kind()
    assert rate.value is None
    rate.add(100.0, 0.0, 60.0)
    assert rate.value is None
    rate.add(100.0, 5.0, 60.0)
    assert rate.value == pytest.approx(20.0)


@pytest.mark.parametrize(("before", "after"), [(2000.0, 6000.0), (6000.0, 500.0), (0.0, 9000.0)])
def test_a_step_is_followed_within_two_observations(before: float, after: float) -> None:
    rate, slow = SteppingRate(), DecayingRate()
    for one in (rate, slow):
        for _ in range(30):
            one.add(5.0 * before, 5.0, 60.0)
        for _ in range(2):
            one.add(5.0 * after, 5.0, 60.0)
    assert rate.value == pytest.approx(after)
    assert slow.value is not None
    assert abs(slow.value - after) > 0.5 * abs(before - after)


def test_one_long_observation_is_a_step_by_itself() -> None:
    rate = SteppingRate()
    for _ in range(30):
        rate.add(5.0 * 9000.0, 5.0, 60.0)
    rate.add(20.0 * 3000.0, 20.0, 60.0)
    assert rate.value == pytest.approx(3000.0)


def test_bursts_average_out() -> None:
    """A file of 60,000 rows every 30 s, looked for every 5 s."""
    rate = SteppingRate()
    seen = []
    for turn in range(120):
        rate.add(60_000.0 if turn % 6 == 5 else 0.0, 5.0, 60.0)
        seen.append(rate.value or 0.0)
    assert min(seen[60:]) > 1000.0
    assert max(seen[60:]) < 3500.0


@given(st.lists(st.tuples(st.floats(0.0, 1e9), st.floats(0.0, 1e4)), min_size=1, max_size=40))
def test_a_rate_lies_between_the_rates_it_saw(observed: list[tuple[float, float]]) -> None:
    rate = SteppingRate()
    rates = []
    for amount, seconds in observed:
        if seconds > 1e-6:
            rate.add(amount, seconds, 60.0)
            rates.append(amount / seconds)
    if rates:
        assert rate.value is not None
        assert min(rates) * (1 - 1e-6) <= rate.value <= max(rates) * (1 + 1e-6)
