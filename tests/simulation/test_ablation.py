"""The tool that says what a number is worth changes that number, everywhere, and nothing else."""

from __future__ import annotations

import math
from multiprocessing import Pool
from typing import Any

import pytest

from agent.core.decide import reach, size
from agent.core.judge import spiral as judge
from agent.core.measure import cost
from tests.benchmarks import ablation, spiral, spiral_tape


def place_of(file: str, name: str) -> int:
    numbers = list(ablation.numbers(ablation.path_of(ablation.CORE, file).read_text("utf-8")))
    return next(place for place, one in enumerate(numbers) if one.name == name)


def after(change: ablation.Change) -> tuple[Any, ...]:
    ablation.apply(change)
    return size.LEAST_SHARE, reach.LEAST_SHARE, size.BAND, cost.CHANGE_CHANCE, cost._UNHEARD


@pytest.mark.parametrize(
    ("file", "name", "place", "times"),
    [("size", "LEAST_SHARE", 0, 2.0), ("size", "BAND", 2, 0.5), ("cost", "CHANGE_CHANCE", 3, 0.5)],
)
def test_a_number_is_changed_wherever_it_is_read(
    file: str, name: str, place: int, times: float
) -> None:
    before = (size.LEAST_SHARE, reach.LEAST_SHARE, size.BAND, cost.CHANGE_CHANCE, cost._UNHEARD)
    with Pool(1) as pool:  # it is never put back
        found = pool.apply(after, (ablation.Change(file, place_of(file, name), times),))
    expected = list(before)
    expected[place] *= times
    if name == "LEAST_SHARE":
        expected[1] *= times
    if name == "CHANGE_CHANCE":
        expected[4] += math.log(times)
    assert found == pytest.approx(tuple(expected))


def played(in_band: float, committed: int, p95: float) -> ablation.Played:
    return ablation.Played(in_band, committed, p95, 2 * p95, 3.0, 1000)


def test_a_loss_is_that_of_the_worst_family() -> None:
    present = {("one", 0): played(0.9, 100, 5.0), ("two", 0): played(0.8, 100, 5.0)}
    present["taxis/0.8/0.1", 0] = played(0.5, 100, 5.0)
    changed = present | {("two", 0): played(0.75, 98, 6.0)}
    found = ablation.loss(present, changed)
    assert found.in_band == (pytest.approx(0.05), "two")
    assert found.committed == (pytest.approx(0.02), "two")
    assert found.p95 == (pytest.approx(0.2), "two")
    assert found.traces == (1.0, 1.0, 1.0)
    assert found.mean_in_band == pytest.approx(0.025)
    assert not found.within
    assert ablation.loss(present, present).within


def test_the_judge_asked_again_says_what_it_said() -> None:
    alarms = 0
    for kind in ("throughput falls", "congestion", "noise"):
        one = spiral_tape.taped((kind, 1_000_003))
        assert one.calls
        found = spiral_tape.alarm(one.calls)
        assert found == one.alarm
        assert one.kind == kind
        alarms += found is not None
        assert isinstance(judge.Spiral.commit, type(spiral.make)), "taken off again"
    assert alarms == 2
