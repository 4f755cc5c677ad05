"""The demo's schedule: fits its half, is the same trouble everywhere, and can be worked off."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.demo import plan
from examples.demo.plan import Capacity


@given(
    fixed=st.floats(0.1, 1.5),
    speed=st.floats(1_000, 2_000_000),
    seed=st.integers(0, 1000),
)
def test_fit_finds_the_two_numbers(fixed: float, speed: float, seed: int) -> None:
    noise = random.Random(seed)
    truth = Capacity(fixed, speed)
    sizes = [round(speed * share) for share in (0.02, 2.0, 0.02, 2.0, 0.02, 2.0)]
    batches = [(n, truth.batch_seconds(n) * noise.uniform(0.95, 1.05)) for n in sizes]
    found = plan.fit(batches)
    assert found.fixed_seconds == pytest.approx(fixed, rel=0.25, abs=0.05)
    assert found.rows_per_second == pytest.approx(speed, rel=0.25)


@pytest.mark.parametrize(
    "batches",
    [[], [(100, 1.0)], [(100, 1.0), (100, 1.2)], [(100, 2.0), (1000, 1.0)]],
)
def test_fit_refuses_what_tells_nothing(batches: list[tuple[int, float]]) -> None:
    with pytest.raises(ValueError, match=r"needed|busy"):
        plan.fit(batches)


@given(seconds=st.floats(20, 600), fixed=st.floats(0.1, 1.2), speed=st.floats(1_000, 2_000_000))
def test_a_half_holds_its_work_and_a_burst_stands_out(
    seconds: float, fixed: float, speed: float
) -> None:
    capacity = Capacity(fixed, speed)
    course = plan.make(seconds, capacity)
    moments = [drop.at_seconds for drop in course.drops]
    assert moments == sorted(moments)
    assert moments[0] >= 0
    assert moments[-1] < seconds
    # As configured a burst is one batch: several targets long.
    burst_rows = course.burst_files * course.rows_per_file
    assert capacity.batch_seconds(burst_rows) > 1.7 * plan.TARGET_SECONDS
    # At regulated size the machine does it all in the half, with something to spare.
    useful = 1 - min(fixed / plan.TARGET_SECONDS, 0.6)
    work_seconds = course.files * course.rows_per_file / speed
    assert work_seconds / useful < 0.95 * seconds
    # A target's worth is many files, so a limit in files can be set finely.
    assert (plan.TARGET_SECONDS - fixed) * speed / course.rows_per_file >= 5


def test_files_keep_coming_between_bursts() -> None:
    course = plan.make(45, Capacity(0.35, 60_000))
    moments = [drop.at_seconds for drop in course.drops]
    gaps = [b - a for a, b in pairwise(moments)]
    assert max(gaps) < plan.TARGET_SECONDS
    assert len(course.burst_at_seconds) == 2
