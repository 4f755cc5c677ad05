"""The demo's figures, by hand on a small half."""

from __future__ import annotations

from typing import Any

import pytest

from examples.demo import measure
from examples.demo.feed import Arrival

START = 1_700_000_000.0


def progress(batch: int, at: float, seconds: float, rows: int) -> dict[str, Any]:
    whole, part = divmod(at, 1)
    stamp = f"2023-11-14T22:13:{20 + int(whole):02d}.{round(part * 1000):03d}Z"
    durations = {"triggerExecution": round(seconds * 1000), "addBatch": 1}
    return {"batchId": batch, "timestamp": stamp, "numInputRows": rows, "durationMs": durations}


ARRIVALS = [
    Arrival(START, 1, 10),
    Arrival(START + 1, 10, 100),
    Arrival(START + 2, 1, 10),
]
PROGRESS = [
    progress(0, 0.0, 0.5, 10),
    progress(1, 1.0, 5.0, 100),
    progress(1, 6.5, 0.1, 0),
    progress(2, 7.0, 1.0, 10),
]


def test_figures() -> None:
    found = measure.figures(ARRIVALS, PROGRESS, target_seconds=2.0)
    assert found.batches == 3
    assert (found.rows, found.rows_left) == (120, 0)
    assert found.batch_p50_seconds == 1.0
    assert found.batch_p99_seconds == found.batch_max_seconds == 5.0
    assert found.over_target == 1
    assert found.longest_gap_seconds == pytest.approx(5.5)  # 0.5 to 6.0
    assert found.row_wait_p50_seconds == pytest.approx(5.0)  # the burst's rows: 1.0 to 6.0
    assert found.row_wait_p99_seconds == pytest.approx(6.0)  # the last ten: 2.0 to 8.0
    assert found.largest_batch_rows == 100
    assert found.peak_unfinished_rows == 110
    assert found.rows_per_busy_second == pytest.approx(120 / 6.5)


def test_a_batch_that_takes_part_of_what_arrived() -> None:
    batches = measure.batches_of([progress(0, 1.0, 1.0, 30), progress(1, 2.0, 1.0, 80)])
    assert measure.waits(ARRIVALS, batches) == [
        (pytest.approx(2.0), 10),
        (pytest.approx(1.0), 20),
        (pytest.approx(2.0), 80),
    ]


def test_what_is_left_is_told() -> None:
    assert measure.figures(ARRIVALS, PROGRESS[:3], 2.0).rows_left == 10


def test_no_batch_with_rows_is_an_error() -> None:
    with pytest.raises(ValueError, match="no batch"):
        measure.figures(ARRIVALS, PROGRESS[2:3], 2.0)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 2.0), (0.51, 3.0), (0.99, 4.0), (0.01, 1.0), (1.0, 4.0)]
)
def test_quantile_is_nearest_rank(share: float, expected: float) -> None:
    assert measure.quantile([4.0, 2.0, 1.0, 3.0], share) == expected


def test_weighted_quantile_counts_rows() -> None:
    values = [(1.0, 90), (10.0, 10)]
    assert measure.weighted_quantile(values, 0.5) == 1.0
    assert measure.weighted_quantile(values, 0.91) == 10.0
