"""The first batch of a run: what it costs beyond the others, or all that there is to learn from."""

from __future__ import annotations

import random

import pytest

from agent.core.fleet import Fleet
from agent.core.fleet.saved import part_of_query, query_of
from tests.core.test_fleet import KEY, World

#: Of a batch without rows, beside 10,000 rows a second.
FIXED_SECONDS = 20.0


def run(world: World, number: int, *sizes: int, ends: bool = True) -> None:
    """A run of batches of such sizes; one of 0 rows ends what is open, as behind a watermark."""
    driver = world.driver
    driver.run_id, driver.time = f"r-{number}", driver.time + 600.0
    world.send(driver.started())
    for size in sizes:
        seconds = FIXED_SECONDS + size / 10_000
        world.send(driver.progress(size, seconds if size else 1.0, backlog=0, gap=1.0))
    if ends:
        world.send(driver.terminated())


def learned(world: World) -> int:
    """Batches from which the cost was learned, as of the state to be saved."""
    saved = {one.part: one.data for one in world.fleet.changes()}
    data = saved[part_of_query(KEY)]
    assert data is not None
    return query_of(data).sizing.cost.batches


@pytest.mark.parametrize("more", [(), (0,)])
def test_of_runs_of_one_batch_each_counts(more: tuple[int, ...]) -> None:
    noise, world = random.Random(3), World()
    for number in range(40):
        run(world, number, noise.choice((50_000, 100_000, 200_000)), *more)
    assert learned(world) == 40
    view = world.view()
    assert view.fixed_cost_seconds == pytest.approx(FIXED_SECONDS, rel=0.1)
    assert view.throughput_rows_per_second == pytest.approx(10_000, rel=0.15)


def test_of_runs_of_several_batches_the_first_does_not_count_once_some_are_known() -> None:
    world = World()
    for number in range(10):
        run(world, number, 50_000, 100_000, 150_000)
    assert learned(world) == 3 + 9 * 2


def test_behind_one_without_rows_the_first_that_reads_some_is_the_first() -> None:
    """As where a watermark alone moved: what reads rows has compiled nothing yet."""
    world = World()
    for number in range(10):
        run(world, number, 0, 50_000, 100_000, 150_000)
    assert learned(world) == 3 + 9 * 2


def test_a_run_that_broke_off_in_its_second_batch_had_several() -> None:
    world = World()
    run(world, 0, *[50_000] * 10)
    before = learned(world)
    for number in range(1, 5):
        run(world, number, 100_000, ends=False)
    assert learned(world) == before
    run(world, 5, 100_000)
    assert learned(world) == before, "nor does one of which nobody knows yet that it is alone"
    run(world, 6, 100_000, 100_000)
    assert learned(world) == before + 2
    run(world, 7, 100_000, 100_000)
    assert learned(world) == before + 3


def test_an_agent_that_begins_anew_knows_it_still() -> None:
    world = World()
    for number in range(6):
        run(world, number, 50_000 * (1 + number % 3))
    world.fleet = Fleet.restore(world.policy, world.fleet.changes(), started_time=world.now)
    run(world, 6, 100_000)
    assert learned(world) == 7
