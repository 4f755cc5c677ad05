"""Executors of the plant: when they come, what they cost and bring, and who decides."""

from __future__ import annotations

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.simulation import plant
from agent.simulation.crew import Crew
from agent.simulation.live import Live, policy_of
from agent.simulation.oracle import Oracle, enough
from agent.simulation.plant import Noise
from agent.simulation.run import simulate
from agent.simulation.scenario import Executors
from agent.simulation.yardsticks import Static
from tests.simulation.scenarios import EXECUTORS, SCALED, scenario_of


class Asking(Static):
    """Asks for numbers in turn, one after each batch."""

    def __init__(self, *numbers: int) -> None:
        super().__init__(10_000)
        self._numbers = list(numbers)

    def ended(self, attempt):
        if self._numbers:
            self.executors = self._numbers.pop(0)


@pytest.mark.parametrize(
    ("changes", "shares"),
    [
        ({"serial_share": 0}, {1: 1, 2: 1 / 2, 8: 1 / 8}),
        ({"serial_share": 0.1}, {1: 1, 2: 0.55, 8: 0.1 + 0.9 / 8}),  # Amdahl's law
        ({"serial_share": 1}, {1: 1, 8: 1}),
        ({"serial_share": 0, "tasks": 4}, {1: 1, 2: 1 / 2, 3: 1 / 2, 4: 1 / 4, 8: 1 / 4}),
        ({"serial_share": 0, "tasks": 8, "slots": 4}, {1: 1, 2: 1 / 2, 8: 1 / 2}),
        ({"serial_share": 0, "contention": 1}, {1: 1, 2: 1, 8: 1}),
        ({"serial_share": 0, "contention": 0.5}, {1: 1, 4: 1 / 2}),
    ],
)
def test_what_a_row_takes_on_more_executors(changes, shares):
    block = Executors(**{**EXECUTORS, **changes})
    assert {number: block.share(number) for number in shares} == pytest.approx(shares)


def test_those_that_just_came_are_slower_and_warm_up():
    """As measured: three times as long at first, what is too much a third after the half minute."""
    block = {**EXECUTORS, "present": 1, "maximum": 3, "start_seconds": 10}
    crew, at_once = (Crew(Executors(**block, warm_up_seconds=warm)) for warm in (30, 0))
    for one in (crew, at_once):
        assert one.slower() == 1.0
        one.move(5)
        one.ask(3)
        one.move(15)
        assert one.present == 3
    # One at full speed and two at a third of it do in so long what three warm ones do.
    assert crew.slower() == pytest.approx(3 / (1 + 2 / 3))
    assert at_once.slower() == 1.0
    crew.move(45)
    assert crew.slower() == pytest.approx(3 / (1 + 2 / (1 + 2 / math.e)))
    crew.ask(1)  # who is left is taken to be the newest
    assert crew.slower() == pytest.approx(1 + 2 / math.e)
    crew.move(1000)
    assert crew.slower() == pytest.approx(1.0)


def test_a_batch_on_cold_executors_takes_longer_but_for_what_the_driver_does():
    block = {**EXECUTORS, "present": 1, "maximum": 2, "start_seconds": 0, "serial_share": 0}
    took = []
    for warm_up in (0, 1e9):
        scenario = scenario_of(
            executors={**block, "warm_up_seconds": warm_up}, noise_sigma=0, duration_seconds=600
        )
        trace = plant.run(scenario, Noise(0, 0), Asking(2))
        (first,) = [one for one in trace.attempts if one.ran.executors == 2][:1]
        driver = scenario.driver_seconds(first.rows, first.start_seconds)
        took.append(first.seconds - driver)
    assert took[1] == pytest.approx(took[0] * 2 / (1 + 1 / 3))


@given(
    st.lists(st.tuples(st.floats(0, 100), st.none() | st.integers(-5, 30)), max_size=30),
    st.floats(0, 120),
)
def test_what_was_asked_for_last_is_there_after_the_start_up(asked, start_up):
    block = Executors(present=3, maximum=12, start_seconds=start_up, serial_share=0)
    crew, now, least, most = Crew(block), 0.0, 3, 3
    for gap, number in asked:
        now += gap
        crew.move(now)
        crew.ask(number)
        assert 1 <= crew.present <= 12
        least, most = min(least, crew.present), max(most, crew.asked)
    crew.move(now + start_up)
    assert crew.present == crew.asked
    # All are paid for, from the second in which they are there.
    span = now + start_up
    assert least * span - 1e-6 <= crew.seconds <= most * span + 1e-6


def test_executors_are_paid_for_from_when_they_come_until_they_go():
    crew = Crew(Executors(present=2, maximum=12, start_seconds=60, serial_share=0))
    crew.move(10)
    crew.ask(5)
    crew.move(100)
    assert (crew.present, crew.seconds) == (5, 2 * 70 + 5 * 30)
    crew.ask(8)
    crew.move(130)
    crew.ask(1)  # those on their way are taken back first
    crew.move(300)
    assert (crew.present, crew.changes) == (1, 3)
    assert crew.seconds == 2 * 70 + 5 * 60 + 1 * 170


def test_a_number_decided_from_a_batch_is_asked_for_when_the_next_one_ends():
    scenario = scenario_of(**SCALED, noise_sigma=0, initial_backlog_rows=10**6)
    trace = plant.run(scenario, Noise(0, 1), Asking(4))
    ran = [one.ran for one in trace.attempts]
    ends = [one.end_seconds for one in trace.attempts]
    assert [one.asked for one in ran[:4]] == [2, 2, 4, 4]
    came = ends[1] + 60
    first = next(n for n, one in enumerate(trace.attempts) if one.start_seconds >= came)
    assert {one.executors for one in ran[:first]} == {2}
    assert {one.executors for one in ran[first:]} == {4}
    # The batch in which they came had other slots at its end than the one before it.
    assert [n for n, one in enumerate(ran) if not one.steady] == [first - 1]
    assert trace.attempts[-1].seconds < 0.6 * trace.attempts[first - 2].seconds
    assert trace.executor_seconds == pytest.approx(2 * came + 4 * (3600 - came))


def test_where_no_batch_runs_the_next_heartbeat_asks():
    scenario = scenario_of(**{**SCALED, "arrival_rows_per_second": [[0, 400], [30, 0], [600, 400]]})
    trace = plant.run(scenario, Noise(0.15, 1), Asking(*[2] * 20, *[7] * 1000))
    calm = next(one for one in trace.attempts if one.start_seconds >= 600)
    assert calm.ran is not None
    assert calm.ran.executors == 7


class Resting(Asking):
    """At rest it does with one, after two minutes."""

    def idle(self, second, until):
        if until - second >= 120.0:
            self.executors = 1


def test_what_is_decided_at_rest_is_asked_for_at_rest_and_nothing_older_after_it():
    scenario = scenario_of(**{**SCALED, "arrival_rows_per_second": [[0, 400], [30, 0], [600, 400]]})
    trace = plant.run(scenario, Noise(0.15, 1), Resting(*[6] * 1000))
    woken = [one.ran for one in trace.attempts if one.start_seconds >= 600]
    assert woken[0].executors == 1
    assert [one.asked for one in woken[:3]] == [1, 1, 6]


def test_weir_gives_executors_back_while_nothing_comes():
    rates = [[0, 1600], [1200, 0], [3000, 1600]]
    scenario, told, plain = scenario_of(**{**SCALED, "arrival_rows_per_second": rates}), [], []
    trace = plant.run(scenario, Noise(0.15, 3), Live(scenario, on_event=told.append))
    worked = [one for one in trace.attempts if one.end_seconds < 3000]
    woken = [one for one in trace.attempts if one.start_seconds >= 3000]
    assert worked[-1].ran.executors >= 5
    assert woken[0].ran.executors == 1
    # Spark's word of it comes as often as where it is told all at once.
    Live(scenario, on_event=plain.append).idle(worked[-1].end_seconds, woken[0].start_seconds)
    assert len(plain) > 150
    assert [one["time"] for one in plain] == [one["time"] for one in told if one["type"] == "idle"]


def test_executors_follow_the_load_and_the_oracle_is_there_before_it():
    scenario = scenario_of(**SCALED)
    noise = Noise(0.15, 3)
    by = {
        "weir": plant.run(scenario, noise, Live(scenario)),
        "oracle": plant.run(scenario, noise, Oracle(scenario, policy_of(scenario))),
        "static": plant.run(scenario, noise, Static(10_000)),
    }

    def present(name, second):
        return next(one.ran.executors for one in by[name].attempts if one.end_seconds > second)

    assert present("weir", 890) == 2
    assert present("oracle", 895) == 5
    assert present("weir", 1040) >= 5
    assert present("weir", 2090) >= 5 > present("weir", 3590)
    assert by["static"].max_backlog_rows > 10**6
    # Without foresight the backlog of a minute's start-up piles up, and no more.
    assert 2 * by["oracle"].max_backlog_rows < by["weir"].max_backlog_rows < 1600 * 120
    assert by["oracle"].executor_seconds < by["weir"].executor_seconds < 12 * 3600 / 2


@pytest.mark.parametrize(
    ("changes", "rate", "number"),
    [
        ({}, 900, 3),  # of 10 s one in twenty is the driver's
        ({"serial_share": 0.1}, 900, 3),
        ({"serial_share": 0.1}, 10**9, 12),
        ({"tasks": 4}, 10**9, 4),  # more have nothing to do
        ({"contention": 1}, 10**9, 1),
    ],
)
def test_the_fewest_that_digest_it_else_the_most_that_help(changes, rate, number):
    scenario = scenario_of(**{**SCALED, "executors": {**EXECUTORS, **changes}})
    assert enough(scenario, 0.0, rate, 10.0) == number


def test_a_summary_tells_what_executors_cost():
    scenario = scenario_of(**SCALED)
    found = simulate(scenario, "weir", 2)
    assert found == simulate(scenario, "weir", 2)
    assert found.executor_hours is not None
    assert found.oracle.executor_hours is not None
    assert found.best_static.executor_hours == pytest.approx(2.0)
    assert 1.0 < found.executor_hours / found.oracle.executor_hours < 1.6
    assert found.most_executors is not None
    assert 5 <= found.most_executors <= 12
    assert found.executor_changes is not None
    assert 2 <= found.executor_changes <= 8
    assert simulate(scenario_of(), "weir", 2).executor_hours is None


def test_yardsticks_leave_the_executors_alone():
    assert simulate(scenario_of(**SCALED), "pid", 1).executor_changes == 0


def test_lines_of_a_simulated_run_tell_what_is_wanted():
    scenario, lines = scenario_of(**SCALED), []

    def take(one):
        lines.append(json.loads(msgspec.json.encode(one)))

    live = Live(scenario, on_judgement=take)
    plant.run(scenario, Noise(0.15, 3), live)
    wanted = [one["executors"]["wanted"] for one in lines if one["event"] == "progress"]
    assert wanted[0] is None
    assert max(one for one in wanted if one is not None) >= 5
