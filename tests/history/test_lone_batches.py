"""Queries whose runs are one batch each: hourly runs of what came, and runs that break off."""

from __future__ import annotations

import math
import random

import pytest

from agent.core.policy import QueryPolicy
from agent.history import rows
from tests.event_log import lines as made
from tests.history.test_arrivals import batch, kafka
from tests.history.test_judge import judged, of

RUNS = 60


def hourly(*, ends: bool) -> list[bytes]:
    """A batch of 20 s and a second for each 10,000 rows, an hour after the one before."""
    noise = random.Random(3)
    lines, offset = made.opening(), 0
    for number in range(RUNS):
        run, time = made.run_of(number), made.BASE + 3600.0 * number
        size = noise.choice((50_000, 100_000, 200_000))
        seconds = (20.0 + size / 10_000) * math.exp(noise.gauss(0.0, 0.03))
        read = kafka(offset, offset + size, offset + size)
        lines += [made.started(run, time=time), batch(number, size, seconds, time + 5, read, run)]
        lines += [made.terminated(run)] if ends else []
        offset += size
    return [line.strip() for line in lines]


def test_each_counts_and_a_limit_follows_from_them() -> None:
    told = judged([hourly(ends=True)], QueryPolicy(target_seconds=30.0))
    (one,) = of(told, rows.RECOMMENDATIONS)
    assert one["batches"] == RUNS
    assert one["fixed_cost_seconds"] == pytest.approx(20.0, rel=0.15)
    assert one["throughput_rows_per_second"] == pytest.approx(10_000, rel=0.2)
    assert one["limit_rows"] == pytest.approx(100_000, rel=0.2)


def test_where_runs_break_off_it_says_how_few_batches_tell() -> None:
    told = judged([hourly(ends=False)], QueryPolicy(target_seconds=30.0))
    (one,) = of(told, rows.RECOMMENDATIONS)
    assert one["limit_rows"] is None
    assert one["advice"].startswith(f"of {RUNS} batches 2 tell what one costs, and 5 are needed")
