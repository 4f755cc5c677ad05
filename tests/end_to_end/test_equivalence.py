"""A job's results stay the same: some of the benchmark's queries, alone and under Weir."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from tests.benchmarks.equivalence import SHAPES, Bench, Case
from tests.service.agents import AgentProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.spark
EVERY_TIME = ("windows, append",)


@pytest.fixture(scope="module")
def bench(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with AgentProcess(tmp_path_factory.mktemp("agent")) as agent:
        yield Bench(spark, agent)


def the_first(shape: str, *, late: bool = False) -> Case:
    drawn = map(Case.drawn, itertools.count(1))
    return next(case for case in drawn if case.shape == shape and case.late is late)


@pytest.mark.parametrize(
    "shape",
    [
        shape
        if shape in EVERY_TIME
        else pytest.param(shape, marks=pytest.mark.slow("two queries of it on Spark"))
        for shape in SHAPES
    ],
)
def test_rows_within_their_delay_count_as_without_weir(bench: Bench, shape: str) -> None:
    case = the_first(shape)
    alone, under, wrong = bench.judge(case)
    assert wrong == [], str(case)
    assert sum(alone.rows.values()) > 0, "nothing was compared"
    assert len(under.batches) > len(alone.batches), "no batch was made smaller"


@pytest.mark.slow("two queries more; the guard is looked at in test_late_rows every time")
def test_later_ones_are_lost_by_no_batch_after_the_guard_went_back(bench: Bench) -> None:
    case = the_first("windows, append", late=True)
    _, under, wrong = bench.judge(case)
    assert wrong == [], str(case)
    assert under.batches
