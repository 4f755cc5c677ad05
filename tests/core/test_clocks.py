"""Clocks that are set while a driver runs: its own, its new machine's, the agent's."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet, Order
from agent.core.policy import Policy, QueryPolicy
from agent.service.clock import Clock, passed_seconds
from agent.service.history import PIECE_SECONDS
from agent.service.keeper import Keeper
from agent.service.store import Store
from spark_listener.wire import format_time
from tests.core.events import START_TIME, Driver

KEY = ("shop", "orders")
DEADLINE_SECONDS = 60.0
POLICY = Policy(default=QueryPolicy(deadline_seconds=DEADLINE_SECONDS))
THROUGHPUT = 1000.0
FIXED_SECONDS = 1.0
ARRIVAL = 600.0
MONOTONIC = 4321.0  # of the driver's machine, at the start


class SetDriver:
    """A driver whose clock is set now and then; batches of a limited query, as Spark tells them."""

    def __init__(
        self,
        *,
        tells_origin: bool = True,
        steps: dict[int, float] | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.keeper = keeper
        self.fleet = Fleet(POLICY, started_time=START_TIME - 1000.0)
        self.driver = Driver()
        self.now = START_TIME  # the true time, and the agent's
        self.ahead = 0.0  # of the driver's clock
        self.slept = 0.0  # its machine, seconds
        self.ends: list[float] = []  # of batches
        self.tells_origin = tells_origin
        self.steps = steps or {}
        self.backlog, self.limit = 100_000.0, 2000
        self.wrong: list[str] = []

    def send(self, kind: str, body: dict[str, Any], **more: Any) -> None:
        self.driver.time = self.now + self.ahead
        if self.tells_origin:
            more["clock_origin"] = START_TIME - MONOTONIC + self.ahead + self.slept
        event = self.driver.event(kind, body, **more)
        request = decode_request(self.driver.body(event))
        if self.keeper is not None:
            self.fleet = self.keeper.fleet
        receipt = (self.keeper or self.fleet).receive(request, self.now + 0.05)
        assert not receipt.refused
        for grant in receipt.grants:
            assert grant.limit is not None
            self.limit = grant.limit
        for after in (0.1, 6.0):
            found = self.fleet.liveness(*KEY, self.now + after)
            if not found.ok:
                self.wrong.append(f"{found.why} at {self.now - START_TIME:.0f} s")

    def batch(self) -> None:
        """One batch; a step of this number falls into its middle."""
        number = self.driver.batch_id + 1
        rows = min(self.limit, int(self.backlog))
        seconds = FIXED_SECONDS + rows / THROUGHPUT
        triggered, begun = self.now + self.ahead, self.now
        halves = [begun + seconds / 2, begun + seconds]
        self.backlog += ARRIVAL * seconds - rows
        limits = [
            {
                "source": 0,
                "unit": "rows",
                "limit": self.limit,
                "configured": 2000,
                "backlog": max(0, int(self.backlog)),
            }
        ]
        for until in halves:
            while self.now + 5.0 < until:
                self.now += 5.0
                pulse = {"batchId": number, "running_seconds": self.now - begun, "limits": limits}
                self.send("heartbeat", {"queries": [{**self.driver.ids(), **pulse}]})
            self.now = until
            if until == halves[0]:
                self.ahead += self.steps.get(number, 0.0)
        # Spark takes each phase by the wall clock, and one that would be negative as none.
        took = max(0.0, self.now + self.ahead - triggered)
        self.driver.time = triggered
        event = self.driver.progress(rows, took, phases={"addBatch": took}, limits=limits)
        self.driver.sequence -= 1
        self.send("progress", event["body"], limits=limits)
        self.ends.append(self.now)


def run(batches: int, **of: Any) -> SetDriver:
    driver = SetDriver(**of)
    for _ in range(batches):
        driver.batch()
    return driver


def plain(batches: int) -> SetDriver:
    return run(batches)


def kept() -> Keeper:
    return Keeper(POLICY, Store(None), started_time=START_TIME - 1000.0)


BATCHES = 40
WHEN = st.integers(12, BATCHES - 12)
BY = st.one_of(st.floats(11.0, 200_000.0), st.floats(-200_000.0, -11.0))


@settings(max_examples=25, deadline=None)
@given(steps=st.dictionaries(WHEN, BY, max_size=3))
@example(steps={12: 11.0, 13: 11.0})  # the second, right after a batch without a duration
def test_a_clock_that_is_set_in_mid_batch_costs_that_batchs_figures_alone(
    steps: dict[int, float],
) -> None:
    driver, twin = run(BATCHES, steps=steps), plain(BATCHES)
    assert driver.wrong == []
    elapsed = driver.now - START_TIME
    view = driver.fleet.view(KEY, driver.now + 0.05)
    expected = twin.fleet.view(KEY, twin.now + 0.05)
    assert sum(view.totals.state_seconds.values()) <= elapsed + 1.0
    assert sum(view.totals.state_seconds.values()) >= elapsed - 60.0 * (1 + len(steps))
    assert view.totals.rows > 0
    assert view.totals.duration_sum_seconds <= elapsed + 1.0
    assert all(0.0 <= seconds <= elapsed for seconds in view.totals.phase_seconds.values())
    assert view.backlog_seconds is not None
    assert 0.0 <= view.backlog_seconds <= elapsed + 400.0
    assert view.arrival_rows_per_second == pytest.approx(ARRIVAL, rel=0.25)
    assert view.throughput_rows_per_second == pytest.approx(
        expected.throughput_rows_per_second, rel=0.3
    )
    assert driver.limit == pytest.approx(twin.limit, rel=0.5)
    assert view.spiral.phase == expected.spiral.phase
    assert view.pressure == expected.pressure
    # By the driver's clock as it goes now.
    assert view.last_progress_time == pytest.approx(driver.now + driver.ahead, abs=1.0)


@settings(max_examples=25, deadline=None)
@given(steps=st.dictionaries(WHEN, BY, max_size=3))
def test_of_a_driver_that_does_not_tell_its_clocks_origin_nothing_explodes(
    steps: dict[int, float],
) -> None:
    driver = run(BATCHES, steps=steps, tells_origin=False)
    assert driver.wrong == []
    view = driver.fleet.view(KEY, driver.now + 0.05)
    assert view.arrival_rows_per_second is not None
    assert 0.0 <= view.arrival_rows_per_second <= 3 * ARRIVAL
    assert view.running_seconds is None or view.running_seconds < 60.0
    assert view.backlog_seconds is None or math.isfinite(view.backlog_seconds)
    assert 1000 <= driver.limit <= 100_000


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
def test_batches_and_decisions_are_told_by_the_drivers_clock_once_it_is_set_right(
    ahead: float,
) -> None:
    keeper = kept()
    driver = SetDriver(steps={12: -ahead}, keeper=keeper)
    driver.ahead = ahead
    for _ in range(BATCHES):
        driver.batch()
    keeper.control(*KEY, Order(who="kim", limit=1234), driver.now)
    told = keeper.view(KEY, driver.now)
    assert told.last_progress_time == pytest.approx(driver.now, abs=0.1)
    assert [one.time for one in told.history] == pytest.approx(driver.ends, abs=0.1)  # all of them
    assert told.decisions[-1].time == pytest.approx(driver.now, abs=0.1)
    pieces = keeper.hours(KEY)
    assert len(pieces) <= 1 + (driver.now - START_TIME) / PIECE_SECONDS
    assert pieces[-1].time == pytest.approx(driver.now, abs=0.1)


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_batches_and_decisions_are_told_by_the_same_clock_as_the_last_event(step: float) -> None:
    keeper = kept()
    driver = run(BATCHES, steps={12: step}, keeper=keeper)
    keeper.control(*KEY, Order(who="kim", limit=1234), driver.now)
    told = keeper.view(KEY, driver.now)
    assert told.last_progress_time == pytest.approx(driver.now + step, abs=0.1)
    assert told.history[-1].time == told.last_progress_time
    assert told.decisions[-1].time == pytest.approx(driver.now + step, abs=0.1)


def test_after_a_drivers_machine_slept_batches_and_decisions_are_told_when_they_were() -> None:
    keeper = kept()
    driver = run(12, keeper=keeper)
    driver.now += 7200.0  # its monotonic clock stands still meanwhile
    driver.slept += 7200.0
    for _ in range(3):
        driver.batch()
    keeper.control(*KEY, Order(who="kim", limit=1234), driver.now)
    told = keeper.view(KEY, driver.now)
    assert told.last_progress_time == pytest.approx(driver.now, abs=0.1)
    assert [one.time for one in told.history][-3:] == pytest.approx(driver.ends[-3:], abs=0.1)
    assert told.decisions[-1].time == pytest.approx(driver.now, abs=0.1)
    assert keeper.hours(KEY)[-1].time == pytest.approx(driver.now, abs=0.1)


def beat(driver: SetDriver, age: float, batch: int = 3) -> None:
    pulse = {"batchId": batch, "running_seconds": age}
    driver.send("heartbeat", {"queries": [{**driver.driver.ids(), **pulse}]})


@pytest.mark.parametrize("ahead", [300.0, 3600.0])
def test_a_driver_whose_clock_is_set_back_is_not_hung(ahead: float) -> None:
    driver = run(0, tells_origin=False)
    driver.ahead = ahead
    beat(driver, 1.0)
    driver.ahead = 0.0
    for number in range(10):
        driver.now += 5.0
        beat(driver, 2.0, batch=number + 4)
    assert driver.wrong == []
    view = driver.fleet.view(KEY, driver.now + 1.0)
    assert view.running_seconds == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize("forth", [0.0, 3600.0])  # before: it then stands as it stood at first
@pytest.mark.parametrize("kind", ["heartbeat", "progress", "idle"])
def test_what_was_seen_before_the_clock_was_set_back_was_not_seen_after_it_was_told(
    kind: str, forth: float
) -> None:
    driver = run(20, steps={3: forth} if forth else {})
    before = driver.fleet.view(KEY, driver.now).arrival_rows_per_second
    seen = driver.now + driver.ahead
    driver.ahead -= 3600.0
    driver.now += 5.0
    limit = {"source": 0, "unit": "rows", "limit": 2000, "configured": 2000, "backlog": 100_000}
    driver.driver.time = seen
    ids = driver.driver.ids()
    if kind == "heartbeat":
        limit |= {"admitted": 2000, "observed_time": format_time(seen)}
        pulse = {"batchId": driver.driver.batch_id + 1, "running_seconds": 5.0, "limits": [limit]}
        driver.send("heartbeat", {"queries": [{**ids, **pulse}]})
    else:
        rows, phases = (2000, None) if kind == "progress" else (0, {"getBatch": 0.0})
        if kind == "progress":
            limit |= {"observed_time": format_time(seen)}
        event = driver.driver.progress(rows, 0.0, phases=phases)
        driver.driver.sequence -= 1
        driver.send("progress", event["body"], limits=[limit])
    query = driver.fleet._roster[KEY]
    last = query.clock.last_event_time or 0.0
    (source,) = query.sources
    assert (source.backlog_time or math.inf) <= last
    assert (source.arrived_time or math.inf) <= last
    assert query.flow.lag.times[-1] <= last
    for _ in range(20):
        driver.batch()
    after = driver.fleet.view(KEY, driver.now).arrival_rows_per_second
    assert after == pytest.approx(before, rel=0.3)


def test_a_batch_of_which_the_driver_says_that_it_runs_for_hours_hangs_by_the_agents_clock() -> (
    None
):
    driver = run(3)
    for _ in range(11):
        driver.now += 5.0
        beat(driver, 40_000.0)
    assert driver.wrong == []  # 56 s at most, as far as anybody knows
    for _ in range(3):
        driver.now += 5.0
        beat(driver, 40_010.0)
    assert driver.wrong
    assert all(why.startswith("hung") for why in driver.wrong)


def test_triggers_that_find_nothing_one_after_the_other_are_no_batch_that_hangs() -> None:
    """All are for the next batch; with the default trigger heartbeats mostly come upon one."""
    driver = run(3)
    for number in range(100):
        driver.now += 5.0
        beat(driver, 0.001 * number)
    begun = driver.now + 1.0
    for _ in range(11):
        driver.now += 5.0
        beat(driver, driver.now - begun)
    assert driver.wrong == []
    driver.now += 5.0
    beat(driver, driver.now - begun)
    assert driver.wrong
    assert all(why.startswith("hung") for why in driver.wrong)


def test_an_agent_that_stood_still_calls_nobody_silent() -> None:
    driver = run(3)
    driver.fleet.tick(driver.now)
    driver.now += 600.0
    assert driver.fleet.liveness(*KEY, driver.now).why == "starting"
    driver.fleet.tick(driver.now)
    assert driver.fleet.view(KEY, driver.now).up
    assert driver.fleet.liveness(*KEY, driver.now + 1.0).why == "starting"
    for second in range(70):
        driver.fleet.tick(driver.now + second)
    assert driver.fleet.liveness(*KEY, driver.now + 69.0).why == "silent"


@pytest.mark.parametrize("back", [0.0, 100_000.0])
def test_an_agent_whose_clock_is_behind_the_one_before_it_hears_and_misses_drivers(
    back: float,
) -> None:
    driver = run(3)
    started = driver.now + 10.0 - back
    later = Fleet.restore(POLICY, driver.fleet.changes(), started_time=started)
    later.wake()
    for second in range(120):
        later.tick(started + second)
    assert later.liveness(*KEY, started + 119.0).why == "unknown"
    assert not later.view(KEY, started + 119.0).up
    driver.fleet = later
    driver.now = started + 120.0
    driver.batch()
    for second in range(120, 180):
        later.tick(started + second)
    assert later.liveness(*KEY, started + 179.0).why == "silent"


def test_the_agents_own_clock_goes_on_whoever_sets_the_machines() -> None:
    passed, machine = [50.0], [START_TIME]
    clock = Clock(lambda: machine[0], lambda: passed[0])
    assert clock() == START_TIME
    passed[0] += 10.0
    machine[0] += 3610.0
    assert clock() == START_TIME + 10.0
    assert clock.off_seconds() == 3600.0


@pytest.mark.parametrize(
    ("platform", "clock"), [("linux", "CLOCK_BOOTTIME"), ("darwin", "CLOCK_MONOTONIC_RAW")]
)
def test_the_agents_clock_goes_on_while_its_machine_sleeps(platform: str, clock: str) -> None:
    """As the machine's does: by one that stood still all it tells would be of before."""
    numbers = {"CLOCK_BOOTTIME": 7, "CLOCK_MONOTONIC_RAW": 4}
    read = {7: 1000.0, 4: 2000.0}
    assert passed_seconds(platform, numbers, read.__getitem__) == read[numbers[clock]]
    before = time.monotonic()
    assert before <= passed_seconds(platform, {}, read.__getitem__) <= time.monotonic()
