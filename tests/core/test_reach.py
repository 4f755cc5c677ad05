"""Reach: whether the fixed cost takes the target, and the batches that tell."""

from __future__ import annotations

import pytest

from agent.core.decide.reach import Reach
from agent.core.measure.cost import Cost, History
from agent.core.policy import QueryPolicy

POLICY = QueryPolicy(target_seconds=5.0)


def seen(fixed: float, throughput: float, *sizes: int) -> tuple[Cost, Reach]:
    cost, reach = Cost(), Reach()
    for rows in sizes:
        cost.learn(rows, fixed + rows / throughput, target_seconds=5.0)
        reach.observe(cost, POLICY)
    return cost, reach


@pytest.mark.parametrize(("fixed", "lost"), [(3.5, False), (4.4, False), (5.2, True), (8.0, True)])
def test_several_sizes_tell_whether_the_target_is_out_of_reach(fixed: float, lost: bool) -> None:
    _, reach = seen(fixed, 10_000.0, *(2000, 40_000, 8000) * 12)
    assert reach.lost is lost


def test_one_size_does_not_and_another_is_tried_in_one_batch_of_four() -> None:
    cost, reach = seen(4.0, 10_000.0, *[15_000] * 8)
    assert not reach.lost
    assert 0.1 < reach.chance < 0.95
    tried = [reach.probe_rows(cost, POLICY, 15_000.0)]
    for _ in range(7):
        cost.learn(15_000, 5.5, target_seconds=5.0)
        reach.observe(cost, POLICY)
        tried.append(reach.probe_rows(cost, POLICY, 15_000.0))
    assert [one for one in tried if one is not None] == [1.25 * 15_000.0] * 2


def test_where_it_is_plainly_within_reach_nothing_is_tried() -> None:
    cost, reach = seen(1.0, 10_000.0, *(2000, 40_000, 8000) * 12)
    for _ in range(64):
        reach.batches += 1
        assert reach.probe_rows(cost, POLICY, 10_000.0) is None


def test_where_it_is_plainly_lost_small_batches_would_disprove_it_ever_rarer() -> None:
    cost, reach = seen(12.0, 10_000.0, *(2000, 40_000, 8000) * 12)
    assert reach.chance > 0.99
    tried = {n: reach.probe_rows(cost, POLICY, 10_000.0) for n in range(1, 2017)}
    small = pytest.approx(0.08 * 5.0 / cost.per_row)
    found = {n: rows for n, rows in tried.items() if rows is not None}
    assert list(found) == [32, 96, 224, 480, 992, 1504, 2016]
    assert list(found.values()) == [small] * len(found)


def test_small_batches_are_as_often_as_at_first_once_the_loss_was_in_doubt() -> None:
    cost, reach = seen(12.0, 10_000.0, *(2000, 40_000, 8000) * 12)
    for _ in range(100):
        reach.probe_rows(cost, POLICY, 10_000.0)
    doubted = History(0.0, (5.0, 1e-4, 0.0), (0.04, 0.0, 0.0, 0.0, 0.0, 0.0))
    reach.observe(Cost(batches=9, bank=[doubted]), POLICY)
    assert 0.1 < reach.chance < 0.95
    reach.observe(cost, POLICY)
    tried = [reach.probe_rows(cost, POLICY, 10_000.0) for _ in range(32)]
    assert [one is not None for one in tried] == [False] * 31 + [True]


def test_no_smaller_batch_is_tried_where_none_may_be() -> None:
    cost, reach = seen(12.0, 10_000.0, *(2000, 40_000, 8000) * 12)
    for _ in range(64):
        assert reach.probe_rows(cost, POLICY, 10_000.0, smaller=False) is None
    cost, reach = seen(4.0, 10_000.0, *[15_000] * 8)
    assert reach.probe_rows(cost, POLICY, 15_000.0, smaller=False) == 1.25 * 15_000.0


def test_a_lost_target_is_looked_for_by_a_small_batch() -> None:
    reach = Reach(lost=True, chance=0.93, batches=4)
    cost, _ = seen(5.0, 10_000.0, 2000, 40_000, 8000)
    tried = reach.probe_rows(cost, POLICY, 100_000.0)
    assert tried == pytest.approx(0.08 * 5.0 / cost.per_row)


def test_a_batch_that_would_be_larger_for_it_is_no_small_one() -> None:
    """Where rows cost next to nothing, or are believed to."""
    reach = Reach(lost=True, chance=0.93, batches=4)
    cost = Cost(batches=9, fixed=20.0, per_row=2e-6)
    assert reach.probe_rows(cost, POLICY, 100_000.0) is None
    assert reach.probe_rows(cost, POLICY, 300_000.0) == pytest.approx(200_000.0)


def test_it_is_taken_up_again_when_the_fixed_cost_falls() -> None:
    cost, reach = seen(7.0, 10_000.0, *(2000, 40_000, 8000) * 8)
    assert reach.lost
    for rows in (2000, 8000, 4000, 12_000) * 3:
        cost.learn(rows, 2.0 + rows / 10_000.0, target_seconds=5.0)
        reach.observe(cost, POLICY)
    assert not reach.lost


@pytest.mark.parametrize(("above", "lost"), [(1.04, False), (1.65, True)])
def test_nine_in_ten_give_the_target_up(above: float, lost: bool) -> None:
    """Standard deviations above 0.95 targets: a chance of 0.85, of 0.95."""
    history = History(0.0, (4.75 + above, 1e-4, 0.0), (1.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    cost, reach = Cost(batches=9, bank=[history]), Reach()
    reach.observe(cost, POLICY)
    assert reach.lost is lost


@pytest.mark.parametrize(("chance", "tried"), [(0.07, False), (0.13, True), (0.97, False)])
def test_one_in_ten_is_a_doubt_worth_a_batch(chance: float, tried: bool) -> None:
    cost, _ = seen(4.0, 10_000.0, 15_000)
    reach = Reach(chance=chance, batches=4)
    assert (reach.probe_rows(cost, POLICY, 10_000.0) is not None) is tried
