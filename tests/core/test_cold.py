"""The first batch of a driver: what it takes beside, and the room that is left for it."""

from __future__ import annotations

import math

import msgspec
import pytest

from agent.core.decide.size import Ask, deadline_rows, restart_rows, size_of
from agent.core.measure.cold import Cold
from agent.core.measure.cost import Cost, Curve
from agent.core.policy import Policy, QueryPolicy
from agent.core.query import Sizing
from tests.core.test_fleet import KEY, World


def known(batches: int = 40, rows: float = 3000.0, seconds: float = 4.0) -> Cost:
    """Of batches of one size: half of a target of twice as long is fixed, or any other share."""
    cost = Cost()
    for _ in range(batches):
        cost.learn(rows, seconds, 10.0)
    return cost


def seen(seconds: float, cost: Cost, *, rows: float = 3000.0) -> Cold:
    cold = Cold()
    cold.observe("r-2", "a-2", rows, seconds, cost)
    cold.settle(cost)
    return cold


# -- what is learned ------------------------------------------------------------------------------


#: Of drivers on a real Spark (a standalone cluster, Kafka, state): a warm batch of these seconds,
#: and the same rows as the first of a driver.
RECORDED = [(1.01, 21.0), (2.69, 23.1), (5.53, 22.9), (13.19, 34.7)]


@pytest.mark.parametrize(("warm", "first"), RECORDED)
@pytest.mark.parametrize(("of_warm", "of_first"), RECORDED)
def test_a_start_that_was_seen_at_one_size_foretells_that_of_any(
    warm: float, first: float, of_warm: float, of_first: float
) -> None:
    """It takes the same seconds, whatever the batch."""
    learned = seen(of_first, known(rows=1000.0 * of_warm, seconds=of_warm), rows=1000.0 * of_warm)
    assert warm + learned.start_seconds == pytest.approx(first, rel=0.2)


def test_a_first_batch_is_held_against_what_eight_batches_showed() -> None:
    assert seen(8.0, known(7)).start_seconds == 0.0
    assert seen(8.0, known(8)).start_seconds == pytest.approx(4.0, rel=0.05)


@pytest.mark.parametrize(("sigmas", "counts"), [(1.5, False), (2.5, True)])
def test_what_noise_does_to_a_warm_batch_tells_of_no_start(sigmas: float, counts: bool) -> None:
    cost = known()
    noise = math.exp(sigmas * cost.cautious_sigma)
    assert (seen((cost.seconds(3000.0) or 0.0) * noise, cost).start_seconds > 0.0) == counts


def test_of_far_more_rows_than_any_seen_nothing_is_said() -> None:
    """What came up while no driver ran is read at once."""
    assert seen(14.0, known(), rows=4400.0).start_seconds > 1.0
    assert seen(14.0, known(), rows=4600.0).start_seconds == 0.0


def test_the_most_of_late_counts_and_fades_by_the_driver() -> None:
    cost, cold = known(), Cold()
    begun = [(12.0, "a"), (6.0, "b"), (6.0, "b"), (6.0, "c"), (4.0, "d"), (4.0, "e")]
    starts = []
    for number, (seconds, application) in enumerate(begun):
        cold.observe(f"r-{number}", application, 3000.0, seconds, cost)
        cold.settle(cost)
        starts.append(cold.start_seconds)
    # The second run in b began in a driver that was warm.
    expected = [8.0, 6.4, 6.4, 5.12, 4.096, 3.2768]
    assert starts == pytest.approx(expected, rel=0.05)


def test_before_it_is_settled_it_counts_already() -> None:
    cold, cost = Cold(), known()
    cold.observe("r-2", "a-2", 3000.0, 8.0, cost)
    assert cold.start_seconds == 0.0
    assert cold.expected(cost) == pytest.approx(4.0, rel=0.05)


DEADLINE = Policy(default=QueryPolicy(target_seconds=5.0, deadline_seconds=20.0))


def restarted(world: World, number: int = 2, *, rows: int = 4000, seconds: float = 12.0) -> None:
    """The batch in hand is killed with its driver, and comes again as the next one's first."""
    driver = world.driver
    driver.time += 3.0
    world.send(driver.heartbeat(driver.batch_id + 1, 3.0))
    world.send(driver.terminated())
    driver.time += 30.0
    driver.run_id = f"r-{number}"
    world.send(driver.started())
    world.send(driver.progress(rows, seconds, limit=rows, backlog=10**6))


def cold_of(world: World) -> float:
    sizing = world.fleet._roster[KEY].sizing
    return sizing.cold.expected(sizing.cost)


def test_a_batch_that_comes_again_tells() -> None:
    world = World(DEADLINE)
    world.batches(40, limit=4000, configured=None)
    before = world.view().limit
    assert before.reason != "bound:restart"
    restarted(world)
    assert cold_of(world) == pytest.approx(12.0 - 5.0, rel=0.1)
    assert world.view().totals.checkpoints["replayed"] == 1


def test_a_query_that_is_slower_from_now_on_started_no_slower() -> None:
    """Its next batches say so: another version of the job, a sink that got busy."""
    world = World(DEADLINE)
    world.batches(40, limit=4000, configured=None)
    restarted(world)
    assert cold_of(world) > 6.0
    for _ in range(12):
        world.send(world.driver.progress(4000, 12.0, limit=4000, backlog=10**6))
    assert cold_of(world) < 1.0


@pytest.mark.parametrize(("batches", "counts"), [(25, True), (40, False)])
def test_what_changes_long_after_the_start_says_nothing_of_it(batches: int, counts: bool) -> None:
    world = World(DEADLINE)
    world.batches(40, limit=4000, configured=None)
    restarted(world)
    for _ in range(batches):
        world.send(world.driver.progress(4000, 5.0, limit=4000, backlog=10**6))
    before = cold_of(world)
    for _ in range(6):
        world.send(world.driver.progress(4000, 12.0, limit=4000, backlog=10**6))
    assert (cold_of(world) < 0.6 * before) == counts


def test_the_first_run_tells_as_soon_as_its_batches_do() -> None:
    """An agent that begins with its driver and keeps nothing, as a sidecar, knows of a start."""
    world = World(DEADLINE)
    world.send(world.driver.started())
    world.send(world.driver.progress(4000, 11.0, limit=4000, backlog=10**6))
    for number in range(8):  # the first itself counts for nothing
        assert cold_of(world) == 0.0, number
        world.send(world.driver.progress(4000, 5.0, limit=4000, backlog=10**6))
    assert cold_of(world) > 3.0


@pytest.mark.parametrize(("rows", "seconds"), [(0, 12.0), (None, 12.0), (4000, None)])
def test_the_first_batch_that_read_rows_is_the_first(
    rows: int | None, seconds: float | None
) -> None:
    world = World(DEADLINE)
    world.batches(40, limit=4000, configured=None)
    restarted(world, rows=rows, seconds=seconds)  # type: ignore[arg-type]
    assert cold_of(world) == 0.0
    for took in (12.0, 5.0, 5.0, 5.0):  # that one alone was slow is seen by those after it
        world.send(world.driver.progress(4000, took, limit=4000, backlog=10**6))
    assert cold_of(world) > 6.0


def test_what_was_saved_before_knows_of_no_start() -> None:
    saved = msgspec.to_builtins(Sizing())
    del saved["cold"]
    assert msgspec.convert(saved, Sizing).cold == Cold()
    cold = seen(8.0, known())
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(cold), type=Cold) == cold


# -- the room that is left for it -----------------------------------------------------------------

CURVE = Curve(1.0, 1e-3)


@pytest.mark.parametrize(
    ("deadline", "start", "seconds"),
    [
        (20.0, 0.0, 16.0),  # the share of a warm batch
        (20.0, 3.9, 16.0),  # it holds what is a fifth longer
        (20.0, 12.0, 8.0),
        (20.0, 16.0, 4.0),
        (20.0, 18.9, 2.0),  # two fixed costs: fewer rows would save next to nothing
        (20.0, 19.0, 16.0),  # even an empty batch is killed: nothing helps, and nothing is given
        (1.5, 1.4, 1.2),  # and never more than a warm one may take
    ],
)
def test_room_is_left_for_the_first_batch_of_a_driver(
    deadline: float, start: float, seconds: float
) -> None:
    policy = QueryPolicy(target_seconds=100.0, deadline_seconds=deadline)
    rows = min(deadline_rows(CURVE, policy, 0.0), restart_rows(CURVE, policy, 0.0, start))
    assert CURVE.seconds(rows) == pytest.approx(seconds)
    size = size_of(CURVE, Ask(start_seconds=start), policy)
    assert size.rows == pytest.approx(rows)
    warm = deadline_rows(CURVE, policy, 0.0)
    assert size.reason == ("bound:restart" if rows < warm else "bound:deadline")


def test_what_arrives_is_digested_whatever_a_restart_would_take() -> None:
    """A first batch of 14 s once may not starve a query for as long as its driver lives."""
    policy = QueryPolicy(target_seconds=5.0, deadline_seconds=20.0)
    for arriving in (500.0, 700.0):
        size = size_of(CURVE, Ask(arriving, start_seconds=16.0), policy)
        assert size.stable_rows is not None
        assert size.deadline_rows >= size.stable_rows
    assert size.stable_rows > restart_rows(CURVE, policy, 0.0, 16.0)


def test_noise_has_its_room_once() -> None:
    policy = QueryPolicy(target_seconds=100.0, deadline_seconds=20.0)
    rows = restart_rows(CURVE, policy, 0.2, 6.0)
    assert (CURVE.seconds(rows) + 6.0) * math.exp(0.4) == pytest.approx(20.0)
    # What noise may take all of is given all the same: most batches are through by it.
    assert CURVE.seconds(restart_rows(CURVE, policy, 0.2, 14.0)) == pytest.approx(2.0)


@pytest.mark.parametrize("deadline", [None, 60.0])
def test_far_from_the_deadline_nothing_changes(deadline: float | None) -> None:
    policy = QueryPolicy(target_seconds=5.0, deadline_seconds=deadline)
    sizes = [
        size_of(CURVE, Ask(500.0, sigma=0.15, start_seconds=start), policy) for start in (0.0, 8.0)
    ]
    assert sizes[0].rows == sizes[1].rows
    assert sizes[0].reason == sizes[1].reason


def test_the_limit_says_why_and_how_long_it_would_take() -> None:
    world = World(Policy(default=QueryPolicy(target_seconds=5.0, deadline_seconds=11.0)))
    world.batches(40, limit=4000, configured=None)
    rows = world.view().batch_rows
    restarted(world, seconds=10.9)
    world.batches(3, limit=4000, configured=None)
    view = world.view()
    assert view.limit.next is not None
    assert view.limit.next < 0.9 * (rows or 0)
    said = view.decisions[-1]
    assert (said.reason, said.after) == ("bound:restart", view.limit.next)
    assert "a driver that just started takes" in said.detail
