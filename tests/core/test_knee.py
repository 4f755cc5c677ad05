"""The knee: raised while it is seen to help, left where it is seen to hurt."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.knee import Knee


def line(rows: float, fixed: float = 1.0, slope: float = 1e-4) -> float:
    return fixed + slope * rows


def seen(*batches: tuple[float, float]) -> Knee:
    knee = Knee()
    for rows, seconds in batches:
        knee.observe(rows, seconds, changed=False)
    return knee


def test_nothing_seen_binds_nothing() -> None:
    found = Knee().ceilings(0.2, 1.0, 1e-4)
    assert (found.proven_rows, found.seen_rows) == (math.inf, math.inf)


def test_one_size_seen_allows_twice_the_rows_or_the_time() -> None:
    found = seen((1000, line(1000))).ceilings(0.1, 1.0, 1e-4)
    assert found.proven_rows == math.inf
    assert found.seen_rows == pytest.approx(6000)  # little of it is the rows': not only doubled
    found = seen((90_000, line(90_000))).ceilings(0.1, 1.0, 1e-4)
    assert found.seen_rows == pytest.approx(190_000)


def test_a_raise_that_helped_is_followed_by_another() -> None:
    knee = seen(*[(20_000, line(20_000))] * 3, (40_000, line(40_000)))
    assert knee.ceilings(0.1, 1.0, 1e-4).seen_rows > 79_000


def test_a_raise_that_hurt_is_taken_back() -> None:
    slower = 3 * line(40_000)
    found = seen(*[(20_000, line(20_000))] * 3, *[(40_000, slower)] * 2).ceilings(0.1, 1.0, 1e-4)
    assert found.proven_rows == pytest.approx(20_000)


def test_a_raise_that_may_be_noise_is_waited_on() -> None:
    knee = seen(*[(20_000, line(20_000))] * 3, (40_000, 1.9 * line(20_000)))
    found = knee.ceilings(0.5, 0.0, 1e-4)  # a line without c0: it promises nothing
    assert found.proven_rows == math.inf
    assert found.seen_rows == pytest.approx(40_000)


def test_what_was_seen_fades_so_that_the_knee_is_looked_for_again() -> None:
    knee = seen((20_000, 3.0), *[(40_000, 20.0)] * 4)
    assert knee.ceilings(0.1, 1.0, 1e-4).proven_rows < 21_000
    for _ in range(200):
        knee.observe(20_000, 3.0, changed=False)
    assert knee.ceilings(0.1, 1.0, 1e-4).proven_rows == math.inf


@given(
    st.lists(
        st.tuples(
            st.floats(min_value=1e-3, max_value=1e12), st.floats(min_value=1e-3, max_value=1e6)
        ),
        max_size=40,
    ),
    st.floats(min_value=0.05, max_value=1.0),
    st.floats(min_value=0.0, max_value=100.0),
    st.floats(min_value=1e-9, max_value=10.0),
    st.booleans(),
)
def test_laws(
    batches: list[tuple[float, float]], sigma: float, fixed: float, slope: float, changed: bool
) -> None:
    knee = Knee()
    for rows, seconds in batches:
        knee.observe(rows, seconds, changed=changed)
    found = knee.ceilings(sigma, fixed, slope)
    assert 0 < found.seen_rows <= math.inf
    if batches:
        smallest, largest = min(rows for rows, _ in batches), max(rows for rows, _ in batches)
        assert found.proven_rows >= 0.99 * smallest
        assert found.seen_rows <= 6.01 * largest
    assert len(knee.levels) <= 2 * 55
    assert msgspec.convert(msgspec.to_builtins(knee, str_keys=True), Knee, strict=False) == knee
