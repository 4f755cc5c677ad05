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


def test_rows_that_get_dearer_with_the_size_show_the_knee() -> None:
    def seconds(rows: float) -> float:
        return 1.2 + rows / 10_000 * (1 + rows / 40_000)

    knee = seen(*[(rows, seconds(rows)) for rows in (10_000, 20_000, 40_000, 80_000)] * 2)
    knee_rows = math.sqrt(1.2 * 10_000 * 40_000)
    assert knee.ceilings(0.1, 0.5, 1 / 5000).proven_rows == pytest.approx(knee_rows, rel=0.1)


def test_up_to_the_trigger_interval_more_rows_bring_more_whatever_a_row_costs() -> None:
    slower = 3 * line(40_000)
    knee = seen(*[(20_000, line(20_000))] * 3, *[(40_000, slower)] * 2)
    assert knee.ceilings(0.1, 1.0, 1e-4).proven_rows < 21_000
    # 20,000 rows take 3 s and 40,000 take 15 s: about those of 14 s still fit between two triggers.
    found = knee.ceilings(0.1, 1.0, 1e-4, trigger_seconds=14.0)
    assert 30_000 < found.proven_rows < 45_000


def test_one_slow_batch_taken_for_a_change_does_not_make_other_sizes_look_better() -> None:
    knee = seen(*[(20_000, line(20_000))] * 8, *[(40_000, 2.6 * line(20_000))] * 8)
    assert knee.ceilings(0.1, 1.0, 1e-4).proven_rows < 21_000
    knee.observe(40_000, 5 * line(20_000), changed=True)
    for _ in range(3):
        knee.observe(40_000, 2.6 * line(20_000), changed=False)
    assert knee.ceilings(0.1, 1.0, 1e-4).proven_rows < 21_000
    rates = {round(level.rows): level.log_rate for level in knee.levels.values()}
    assert rates[40_000] == pytest.approx(math.log(40_000 / (2.6 * line(20_000))), abs=0.2)


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
