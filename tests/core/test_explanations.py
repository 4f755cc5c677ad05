"""What makes batches longer, told apart."""

from __future__ import annotations

import math
import statistics
from copy import copy
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.judge.explanations import Explanation, explain, weights
from agent.core.judge.spiral import Batch
from tests.judgement.test_spiral import plant

if TYPE_CHECKING:
    from collections.abc import Callable


def grown(
    cost: Callable[[int, float], float], sigma: float, seed: int = 1, rise: float = 1.0
) -> list[Batch]:
    """32 batches that each read what came during the last one: 400 rows a second, later more."""
    return list(islice(plant(cost, lambda n: 400.0 * rise ** max(n - 12, 0), 2.5, sigma, seed), 32))


def fixed_cost_rises(number: int, rows: float) -> float:
    return 1.5 + 0.5 * max(number - 12, 0) + rows / 1000.0


def rows_get_dearer(number: int, rows: float) -> float:
    return 1.5 + rows / 1000.0 * 1.09 ** max(number - 12, 0)


def congestion(_number: int, rows: float) -> float:
    return 1.5 + rows / 1000.0 * (0.6 + rows / 2500.0)


def likeliest(batches: list[Batch], sigma: float) -> Explanation:
    found = explain(batches, sigma)
    return max(zip(weights(found), found, strict=True), key=lambda pair: pair[0])[1]


@pytest.mark.parametrize(
    ("cost", "rise", "kind"),
    [(fixed_cost_rises, 1.0, "fixed"), (rows_get_dearer, 1.0, "row"), (congestion, 1.02, "size")],
)
def test_the_reason_of_the_growth_is_told(
    cost: Callable[[int, float], float], rise: float, kind: str
) -> None:
    kinds = [likeliest(grown(cost, 0.05, seed, rise), 0.05).kind for seed in range(20)]
    assert sum(found == kind for found in kinds) >= 14, kinds


def test_what_it_foresees_of_a_batch_is_what_the_plant_takes() -> None:
    batches = grown(fixed_cost_rises, 0.05)
    reason = likeliest(batches, 0.05)
    rows = 1.3 * batches[-1].rows
    foreseen = reason.batch_seconds(rows, 1, most_rows=batches[-1].rows)
    assert foreseen == pytest.approx(fixed_cost_rises(32, rows), rel=0.2)
    assert 0.0 < reason.doubt(rows, foreseen) < 0.3


@pytest.mark.parametrize(("deviations", "steps"), [(2.0, False), (2.9, False), (3.1, True)])
def test_a_batch_more_than_three_deviations_off_is_taken_for_a_step(
    deviations: float, steps: bool
) -> None:
    """The fixed part follows it at once; and just there either reading is as likely."""
    calm = Explanation("fixed", 100.0, 1.0, (0.3, 0.7, 0.0), (1e-6, 0.0, 0.0, 1e-9, 0.0, 0.0), 0.0)
    off = deviations * 0.1
    found = copy(calm)
    found.learn(Batch(0.0, 1.0 + off, 100.0, None, 0.0), 0.1)
    moved = (found.state[0] - 0.3) / off
    assert moved == pytest.approx(0.9 if steps else 0.0, abs=0.02)
    without = -(deviations**2) / 2.0 - math.log(0.1**2) / 2.0
    assert found.log_weight == pytest.approx(without, abs=0.3)


def test_congestion_is_believed_up_to_a_size_and_goes_on_straight_beyond() -> None:
    size = Explanation("size", 100.0, 2.0, (0.25, 0.5, 0.1), (0.0,) * 6, 0.0)
    assert size.batch_seconds(200.0, 1, most_rows=300.0) == pytest.approx(2.0 * (0.25 + 1.0 + 0.4))
    assert size.batch_seconds(200.0, 1, most_rows=100.0) == pytest.approx(2.0 * (0.25 + 1.0 + 0.3))


#: Batches of about one size, of which the last ones grow, in usual ones.
GROWING = (1.0, 1.05, 0.95, 1.1, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5, 1.7, 2.0, 2.3)


def by_size(square: float, batches: int, sigma: float = 0.0, seed: int = 0) -> float:
    """What congestion foresees of a batch half as large again as the last, over what it takes.

    ``square``: the seconds of a usual batch that grow with its square.
    """
    noise = Random(seed)

    def seconds(size: float) -> float:
        return 10.0 * (0.3 + (0.7 - square) * size + square * size**2)

    seen = [
        Batch(0.0, seconds(size) * noise.lognormvariate(-(sigma**2) / 2, sigma), size, None, 0.0)
        for size in GROWING[:batches]
    ]
    reason = next(one for one in explain(seen, max(sigma, 0.05)) if one.kind == "size")
    rows = 1.5 * seen[-1].rows
    return reason.batch_seconds(rows, 1, most_rows=rows) / seconds(1.5 * GROWING[batches - 1])


def test_of_a_state_that_spills_larger_batches_are_foreseen_and_of_noise_hardly() -> None:
    """Four tenths of a batch go with the square of its rows; then none does, and some are slow."""
    assert by_size(0.4, 13) == pytest.approx(1.0, abs=0.1)
    noisy = [by_size(0.0, 9, 0.2, seed) for seed in range(20)]
    assert statistics.fmean(noisy) < 1.1


def test_a_velocity_goes_on_and_dies_away_and_a_falling_one_does_not() -> None:
    rising = Explanation("fixed", 100.0, 2.0, (1.0, 0.5, 0.25), (0.0,) * 6, 0.0)
    assert rising.batch_seconds(100.0, 3, most_rows=100.0) == pytest.approx(
        2.0 * (1.0 + 0.25 * 2.71 + 0.5)
    )
    dearer = Explanation("row", 100.0, 2.0, (1.0, 0.5, 0.25), (0.0,) * 6, 0.0)
    assert dearer.batch_seconds(200.0, 1, most_rows=100.0) == pytest.approx(
        2.0 * (1.0 + 2.0 * 0.75)
    )
    falling = Explanation("fixed", 100.0, 2.0, (1.0, 0.5, -0.25), (0.0,) * 6, 0.0)
    assert falling.batch_seconds(100.0, 3, most_rows=100.0) == pytest.approx(3.0)


@given(
    st.lists(
        st.tuples(st.floats(1.0, 1e12), st.floats(1e-3, 1e5)),
        min_size=1,
        max_size=33,
    ),
    st.floats(0.05, 3.0),
)
def test_whatever_the_batches_it_stays_finite(
    seen: list[tuple[float, float]], sigma: float
) -> None:
    batches = [Batch(10.0 * k, seconds, rows, None, 0.0) for k, (rows, seconds) in enumerate(seen)]
    found = explain(batches, sigma)
    assert sum(weights(found)) == pytest.approx(1.0)
    for one in found:
        assert all(map(math.isfinite, (*one.state, *one.covariance)))
        foreseen = one.batch_seconds(batches[-1].rows, 8, most_rows=batches[-1].rows)
        assert foreseen > 0.0
        assert math.isfinite(one.doubt(batches[-1].rows, foreseen))


@given(st.floats(1e-3, 1e3), st.floats(1e-2, 1e6), st.integers(0, 1000))
def test_units_change_nothing(seconds: float, rows: float, seed: int) -> None:
    """The weights are those of the same batches in other units."""
    batches = grown(rows_get_dearer, 0.1, seed)
    scaled = [Batch(b.time, b.seconds * seconds, b.rows * rows, None, 0.0) for b in batches]
    assert weights(explain(scaled, 0.1)) == pytest.approx(weights(explain(batches, 0.1)), abs=1e-6)
