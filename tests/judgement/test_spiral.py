"""The spiral detector: phases in the driver's own words, and labelled scenarios."""

from __future__ import annotations

import math
import re
from itertools import count, islice
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from agent.core.judge.spiral import (
    Batch,
    Spiral,
    Surroundings,
    arrival_rates,
    gain,
    judge,
    timed_out,
)
from agent.core.policy import Policy, QueryPolicy
from tests.benchmarks.spiral import LEVELLING, LOOK_ALIKES, SPIRALS, make, run
from tests.core.test_fleet import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE = Policy(default=QueryPolicy(deadline_seconds=60.0, mode="dry-run"))


def plant(
    cost: Callable[[int, float], float],
    arrival: Callable[[int], float],
    first_seconds: float,
    sigma: float = 0.0,
    seed: int = 0,
) -> Iterator[Batch]:
    """Without a limit, what arrives during a batch is the next; ``cost`` of its number and rows."""
    random, time, seconds = Random(seed), 0.0, first_seconds
    for number in count():
        rows, start = arrival(number) * seconds, time
        factor = random.lognormvariate(-sigma * sigma / 2.0, sigma)
        seconds = cost(number, rows) * factor
        time = start + seconds
        yield Batch(start, seconds, rows, None, 0.0)


def loop(
    arrival: float, throughput: float, fixed: float, batches: int, **around: Any
) -> tuple[Spiral, list[float]]:
    """A loop without noise, up to the alarm or the time-out."""
    state, durations = Spiral(), []
    course = plant(lambda _, rows: fixed + rows / throughput, lambda _: arrival, fixed)
    for batch in islice(course, batches):
        state.commit(batch)
        deadline, limit = around.get("deadline", 60.0), around.get("limit")
        judge(state, Surroundings(deadline, 5.0, 0.0, limit, 0.05))
        durations.append(batch.seconds)
        if state.spiralling or batch.seconds > 60.0:
            break
    return state, durations


@pytest.mark.parametrize(
    ("load", "spirals"), [(0.3, False), (0.8, False), (1.2, True), (1.4, True)]
)
def test_a_loop_runs_away_from_a_gain_of_one_on(load: float, spirals: bool) -> None:
    state, durations = loop(load * 1000.0, 1000.0, 1.0, 60)
    assert state.spiralling == spirals
    assert gain(state) == pytest.approx(load, abs=0.25)  # one size tells little of its parts
    if spirals:
        left, seconds = 0, durations[-1]
        while seconds <= 60.0:
            left, seconds = left + 1, 1.0 + load * seconds
        assert left >= 3  # told three batches before the time-out, or more
        assert re.match(
            r"batches took [\d.]+ s, now take [\d.]+ s; (one of the next \d+|the next) passes the "
            r"deadline of 60 s; 1,\d{3} rows arrive per second, and the gain is \d\.\d\d: ",
            state.evidence,
        ), state.evidence


@pytest.mark.parametrize(("goal", "rise"), [(20.0, 1), (40.0, 1), (20.0, 20), (20.0, 50)])
def test_a_fixed_cost_that_rises_and_stays_is_no_spiral(goal: float, rise: int) -> None:
    """Rows follow seconds all the same: a line through both says that it runs away."""
    alarmed = 0
    for seed in range(20):
        state = Spiral()
        course = plant(
            lambda n, rows: 2.0 + (goal - 2.0) * min(max(n - 40, 0) / rise, 1.0) + rows / 1000.0,
            lambda _: 500.0,
            4.0,
            0.05,
            seed,
        )
        for batch in islice(course, 120):
            assert batch.seconds < 110.0  # it settles at twice the fixed cost
            state.commit(batch)
            judge(state, Surroundings(300.0, 5.0, 0.0, None, 0.05))
            if state.spiralling:
                alarmed += 1
                break
    assert alarmed <= 1


def driven(
    arrival: Callable[[int], float],
    throughput: Callable[[int], float],
    deadline: float | None = 300.0,
    target: float = 5.0,
) -> str:
    """The evidence of the alarm of a loop without noise, from batch 40 on changed."""
    state = Spiral()
    for batch in islice(plant(lambda n, rows: 2.0 + rows / throughput(n), arrival, 4.0), 200):
        state.commit(batch)
        judge(state, Surroundings(deadline, target, 0.0, None, 0.05))
        if state.spiralling:
            return state.evidence
    raise AssertionError("no alarm")


def test_the_evidence_says_what_has_changed() -> None:
    more = driven(lambda n: 500.0 * 1.03 ** max(n - 40, 0), lambda _: 1000.0)
    assert re.search(r"; [12]\.\d times as many rows arrive as before$", more), more
    dearer = driven(lambda _: 500.0, lambda n: 1000.0 * 0.97 ** max(n - 40, 0))
    assert re.search(r"; the same rows take [12]\.\d times as long as before$", dearer), dearer
    assert "arrive as before" not in dearer


@pytest.mark.parametrize(("calm", "then", "more"), [(4, 250, "2.5"), (6, 200, "2.0")])
def test_an_early_alarm_holds_what_arrives_against_what_did_at_first(
    calm: int, then: int, more: str
) -> None:
    state = Spiral()
    course = plant(
        lambda _, rows: 2.0 + rows / 130.0, lambda n: 100.0 if n < calm else float(then), 4.0
    )
    for batch in islice(course, 60):
        state.commit(batch)
        judge(state, Surroundings(120.0, 5.0, 0.0, None, 0.2))
        if state.spiralling:
            break
    assert f"; {more} times as many rows arrive as before" in state.evidence


@pytest.mark.parametrize(("target", "said"), [(5.0, "60"), (1.0, "4[89]")])
def test_without_a_deadline_twelve_targets_or_usual_batches_stand_in_for_it(
    target: float, said: str
) -> None:
    """Batches take 4 s before they grow."""
    course = (lambda _: 500.0, lambda n: 1000.0 * 0.95 ** max(n - 40, 0))
    found = driven(*course, deadline=None, target=target)
    assert re.search(rf" passes the deadline of {said}(\.\d)? s; ", found), found


def alarmed(course: Iterator[Batch], deadline: float, batches: int) -> tuple[int, str] | None:
    """After which batch of how many it alarmed, and its evidence; None: never."""
    state = Spiral()
    for number, batch in enumerate(islice(course, batches)):
        assert batch.seconds <= deadline
        state.commit(batch)
        judge(state, Surroundings(deadline, 5.0, 0.0, None, 0.05))
        if state.spiralling:
            return number, state.evidence
    return None


def test_growth_is_told_once_batches_take_twice_as_long_as_they_did() -> None:
    """A little more arrives than is digested, and the deadline is five usual batches off.

    Batches take 4, 6.2, 8.5, 10.9 s, and three of them have to tell: not yet those about 6.2 s,
    and by those about 16 s it would be too late to do anything.
    """
    course = plant(lambda _, rows: 2.0 + rows / 1000.0, lambda n: 500.0 if n < 15 else 1050.0, 4.0)
    told = alarmed(course, 20.0, 40)
    assert told is not None
    assert told[0] == 17
    assert told[1].startswith("batches took 4 s, now take 8.5")


@pytest.mark.parametrize(("share", "alarms"), [(0.67, False), (0.77, True)])
@pytest.mark.parametrize("fixed", [10.0, 15.0, 30.0])
def test_a_fixed_cost_that_jumps_alarms_where_noise_may_well_take_batches_to_the_deadline(
    fixed: float, share: float, alarms: bool
) -> None:
    """A step that was deployed takes seconds of each batch: they settle at a share of the deadline.

    While they grow a line through them says that they run away. Two thirds are far enough off, at
    three quarters one batch in ten may be killed.
    """
    course = plant(lambda n, rows: (2.0 if n < 40 else fixed) + rows / 1000.0, lambda _: 500.0, 4.0)
    assert (alarmed(course, 2.0 * fixed / share, 120) is not None) is alarms


def test_arrivals_that_swing_from_batch_to_batch_are_taken_together() -> None:
    """Producers that send in turn: of what the higher half brings alone batches would run away."""

    def swinging() -> Iterator[Batch]:
        return plant(
            lambda _, rows: 2.0 + rows / 1000.0,
            lambda n: 500.0 if n < 15 else 930.0 * (1.4 if n % 2 else 0.6),
            4.0,
        )

    assert max(batch.seconds for batch in islice(swinging(), 70)) < 17.0
    assert alarmed(swinging(), 40.0, 70) is None


@pytest.mark.parametrize("seed", range(12))
def test_a_full_load_after_a_trickle_is_no_spiral(seed: int) -> None:
    """A topic is created in the evening, and producers are switched to it in the morning.

    What batches cost is learned anew then: a few rows tell no cost of three thousand times as many.
    """
    noise, state, time, seconds = Random(seed), Spiral(), 0.0, 2.0
    for number in range(35):
        interval = max(seconds, 10.0)
        rows = 600.0 * interval / (3000.0 if number < 10 else 1.0)
        time += interval
        seconds = (2.0 + rows / 1000.0) * noise.lognormvariate(-0.02, 0.2)
        state.commit(Batch(time, seconds, rows, None, 0.0))
        judge(state, Surroundings(120.0, 10.0, 10.0, None, 0.2))
        assert not state.spiralling


def timed(rate: float, begin: float, end: float = math.inf) -> Iterator[Batch]:
    """Batches of 4 s; 500 rows arrive a second, and ``rate`` from one second to another."""
    planned, before = 4.0, 0.0
    while True:
        more = min(planned, end) - max(before, begin)
        rows = 500.0 * (planned - before) + (rate - 500.0) * max(more, 0.0)
        seconds = 2.0 + rows / 1000.0
        yield Batch(planned, seconds, rows, None, 0.0)
        planned, before = planned + seconds, planned


@pytest.mark.parametrize(
    ("rate", "begin", "seconds", "deadline"),
    [(3000.0, 100.0, 8.0, 60.0), (3000.0, 102.0, 4.0, 30.0)],
)
def test_a_spike_that_drains_is_no_spiral(
    rate: float, begin: float, seconds: float, deadline: float
) -> None:
    """A producer that sends what it held back: were it to go on, no batch would end in time."""
    course = (rate, begin, begin + seconds)
    assert max(batch.seconds for batch in islice(timed(*course), 45)) < 0.4 * deadline
    assert alarmed(timed(*course), deadline, 45) is None


@pytest.mark.parametrize(("rate", "lead"), [(1100.0, 8), (1500.0, 3)])
def test_a_rise_that_stays_is_told_as_soon_as_it_has_lasted(rate: float, lead: int) -> None:
    """The steeper one takes five batches from calm to the deadline."""
    told = alarmed(timed(rate, 102.0), 60.0, 45)
    assert told is not None
    killed = next(n for n, batch in enumerate(timed(rate, 102.0)) if batch.seconds > 60.0)
    assert killed - told[0] >= lead


def drawn(
    sigma: float, seed: int, throughput: Callable[[int], float]
) -> tuple[int | None, int | None]:
    """The batch after which it alarmed, and the first over 300 s, of a loop with noise."""
    state, alarm = Spiral(), None
    course = plant(lambda n, rows: 2.0 + rows / throughput(n), lambda _: 500.0, 4.0, sigma, seed)
    for number, batch in enumerate(islice(course, 70)):
        if batch.seconds > 300.0:
            return alarm, number
        state.commit(batch)
        judge(state, Surroundings(300.0, 5.0, 0.0, None, max(sigma, 0.3)))
        if state.spiralling and alarm is None:
            alarm = number
    return alarm, None


def test_under_little_noise_a_cost_that_rises_slowly_is_seen_early() -> None:
    leads = []
    for seed in range(12):
        alarm, timeout = drawn(0.05, seed, lambda number: 1000.0 * 0.97 ** max(0, number - 30))
        assert alarm is not None
        assert timeout is not None
        leads.append(timeout - alarm)
    assert min(leads) >= 3
    assert sum(leads) >= 9 * len(leads)


def test_under_much_noise_long_batches_in_a_row_are_none() -> None:
    alarms = [drawn(0.5, seed, lambda _: 800.0) for seed in range(200)]
    quiet = [alarm for alarm, timeout in alarms if timeout is None]
    assert len(quiet) > 190
    assert sum(alarm is not None for alarm in quiet) <= 0.02 * len(quiet)


def world_with_a_killed_batch(policy: Policy, age: float) -> World:
    world = World(policy)
    world.batches(6)
    while world.driver.time and age > 5.0:
        world.driver.time += 5.0
        age -= 5.0
        world.send(world.driver.heartbeat(6, world.driver.time - world.view().last_progress_time))
    world.driver.time += age
    return world


@pytest.mark.parametrize("word", [True, False])
def test_a_batch_that_is_killed_and_comes_again_is_timing_out_then_dead(word: bool) -> None:
    world = world_with_a_killed_batch(DEADLINE, 60.0)
    phases = []
    for number in range(2, 5):
        if word:
            (judged,) = world.send(world.driver.terminated(None)).judged
            phases.append(judged.spiral.phase)
        world.driver.run_id = f"r-{number}"
        world.driver.time += 5.0
        world.send(world.driver.started())
        begun = world.driver.time
        while world.driver.time - begun < 60.0:
            world.driver.time += 5.0
            (judged,) = world.send(world.driver.heartbeat(6, world.driver.time - begun)).judged
        phases.append(judged.spiral.phase)
    assert phases[0] == "timing_out"
    assert phases[-1] == "dead"
    assert world.view().spiral.replay_amplification > 1.0
    assert "batch 6" in world.view().spiral.evidence
    (judged,) = world.send(world.driver.progress(500, 2.0)).judged
    assert judged.spiral.phase == "timing_out"  # it came again, and passed
    world.batches(1)
    assert world.view().spiral.phase == "none"


@pytest.mark.parametrize("policy", [DEADLINE, Policy(default=QueryPolicy(mode="dry-run"))])
def test_stopping_a_query_in_a_young_batch_is_no_time_out(policy: Policy) -> None:
    world = World(policy)
    world.batches(6)
    world.driver.time += 1.0
    world.send(world.driver.heartbeat(6, 1.0))
    (judged,) = world.send(world.driver.terminated(None)).judged
    assert judged.spiral.phase == "none"
    world.driver.run_id = "r-2"
    world.driver.time += 600.0
    world.send(world.driver.started())
    (judged,) = world.send(world.driver.progress(500, 2.0)).judged
    assert judged.spiral.phase == "none"
    assert judged.spiral.replay_amplification > 1.0  # it was begun twice all the same


NO_DEADLINE = Policy(default=QueryPolicy(mode="dry-run"))


def begins_again(world: World, number: int, age: float) -> None:
    """Another run, whose batch 6 gets so old."""
    world.driver.run_id = f"r-{number}"
    world.driver.time += 5.0
    world.send(world.driver.started())
    world.driver.time += age
    world.send(world.driver.heartbeat(6, age))


@pytest.mark.parametrize("word", [True, False])
def test_one_stop_of_a_long_batch_is_no_time_out(word: bool) -> None:
    """Nor does it teach a deadline, nor a second one of the same batch at another age."""
    world = world_with_a_killed_batch(NO_DEADLINE, 45.0)
    for number, age in ((2, 20.0), (3, 60.0)):
        if word:
            world.send(world.driver.terminated(None))
            assert world.view().stopped
            assert world.view().attention.level == "ended"
        begins_again(world, number, age)
        view = world.view()
        assert view.spiral.phase == "none"
        assert view.failure is None
        assert view.checkpoint.deadline_seconds is None
    assert view.totals.failures == {}
    assert view.spiral.replay_amplification > 1.0


def test_a_driver_that_is_killed_in_one_batch_three_times_is_dead_without_a_failure() -> None:
    """No exception, no deadline, and back within 90 s: WeirBatchesFailing tells by the phase."""
    world = world_with_a_killed_batch(NO_DEADLINE, 10.0)
    for number, age in ((2, 3.0), (3, 7.0), (4, 2.0)):
        assert world.view().spiral.phase == "none"
        world.driver.application_id = f"local-{number}"
        world.driver.instance = f"listener-{number}"
        world.driver.sequence = 0
        world.driver.time += 80.0
        begins_again(world, number, age)
    view = world.view()
    assert view.up
    assert view.spiral.phase == "dead"
    assert view.spiral.evidence == "batch 6 was begun 3 times and not committed"
    assert (view.failure, view.checkpoint.failures_consecutive, view.totals.failures) == (
        None,
        0,
        {},
    )
    world.send(world.driver.progress(500, 2.0))
    assert world.view().spiral.phase == "none"


def test_stops_of_batches_that_come_through_say_no_deadline() -> None:
    world = world_with_a_killed_batch(NO_DEADLINE, 45.0)
    world.send(world.driver.terminated(None))
    begins_again(world, 2, 2.0)
    world.batches(1)
    world.driver.time += 45.0
    world.send(world.driver.heartbeat(7, 45.0), world.driver.terminated(None))
    assert world.view().stopped
    assert world.view().checkpoint.deadline_seconds is None


@pytest.mark.parametrize("word", [True, False])
def test_the_deadline_is_learned_from_the_kills(word: bool) -> None:
    world = world_with_a_killed_batch(NO_DEADLINE, 45.0)
    for number in (2, 3):
        if word:
            world.send(world.driver.terminated(None))
            assert world.view().stopped == (number == 2)
        begins_again(world, number, 45.0)
    view = world.view()
    assert view.checkpoint.deadline_seconds == pytest.approx(45.0, rel=0.1)
    assert view.checkpoint.deadline_learned
    assert view.spiral.phase == "timing_out"
    assert view.totals.failures == {"unknown": 1}


def test_a_batch_that_was_reported_and_begins_again_was_not_ended_for_its_age() -> None:
    """Its commit was lost with the run."""
    world = world_with_a_killed_batch(NO_DEADLINE, 45.0)
    for number in (2, 3):
        world.send(world.driver.terminated(None))
        begins_again(world, number, 45.0)
    world.send(world.driver.progress(500, 44.0))
    assert world.view().checkpoint.deadline_learned
    world.driver.run_id = "r-4"
    world.driver.time += 5.0
    (*_, judged) = world.send(
        world.driver.started(), world.driver.progress(500, 44.0, batch_id=6)
    ).judged
    assert judged.spiral.phase == "none"
    assert judged.spiral.replay_amplification > 1.0


@pytest.mark.parametrize(
    ("age", "deadline", "late"),
    [(None, 60.0, False), (47.0, 60.0, False), (48.0, 60.0, True), (1e9, None, False)],
)
def test_timed_out(age: float | None, deadline: float | None, late: bool) -> None:
    assert timed_out(age, deadline) == late


def test_arrivals_under_a_limit_need_the_backlog() -> None:
    limited = [Batch(10.0 * k, 9.0, 100.0, 100.0, None) for k in range(5)]
    assert arrival_rates(limited) == []
    told = [Batch(10.0 * k, 9.0, 100.0, 100.0, 500.0 * k) for k in range(5)]
    assert [rate for _, rate in arrival_rates(told)] == [60.0] * 4


@pytest.mark.slow(
    "hundreds of scenarios; what a judgement must say of each kind is tried every time"
)
@pytest.mark.timeout(300)
def test_labelled_scenarios() -> None:
    """A small share of ``python -m tests.benchmarks.spiral``, on seeds of its own."""
    false = 0
    for kind in LOOK_ALIKES:
        for seed in range(4):
            outcome = run(make(kind, 900 + seed))
            assert outcome.timeout is None  # or it is none
            false += outcome.alarm is not None
    assert false <= 1
    # What grows like a spiral and levels off cannot always be told from one before it does.
    alarms = [run(make(kind, 900 + seed)).alarm for kind in LEVELLING for seed in range(6)]
    assert sum(alarm is not None for alarm in alarms) <= 6
    asked, led = 0, 0
    for kind in SPIRALS:
        for seed in range(4):
            outcome = run(make(kind, 900 + seed))
            assert outcome.timeout is not None
            assert outcome.alarm is not None
            if outcome.needs_lead:
                asked += 1
                led += (outcome.lead or 0) >= 3
    assert asked >= 8
    assert led >= 0.65 * asked  # of a thousand, 0.91: these few seeds are hard ones
