"""A query that gets nothing more: what its last batches said of it does not stand for ever."""

from __future__ import annotations

import pytest

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet
from agent.core.policy import Policy, QueryPolicy
from tests.core.events import START_TIME, Driver

KEY = ("shop", "orders")
ROWS_PER_SECOND, ARRIVING_ROWS_PER_SECOND = 900.0, 1200.0
IDLE_SECONDS = 10.0  # between two of Spark's words that a trigger found nothing


class World:
    """A query without a limit, of which more arrives than it digests: each batch takes all."""

    def __init__(self, *, told: bool) -> None:
        """``told``: its source says what waits."""
        self.fleet = Fleet(
            Policy(default=QueryPolicy(deadline_seconds=120.0)), started_time=START_TIME - 1000
        )
        self.driver = Driver()
        self.backlog = 0 if told else None
        self.seconds = 2.0

    def send(self, *events: dict) -> None:  # type: ignore[type-arg]
        self.fleet.receive(decode_request(self.driver.body(*events)), self.driver.time + 0.05)

    @property
    def view(self):  # type: ignore[no-untyped-def]
        return self.fleet.view(KEY, self.driver.time + 0.05)

    def batch(self) -> None:
        rows = int(ARRIVING_ROWS_PER_SECOND * self.seconds)
        self.seconds = 1.0 + rows / ROWS_PER_SECOND
        self.send(self.driver.progress(rows, self.seconds, backlog=self.backlog))

    def overloaded(self) -> None:
        """Until a spiral is foreseen; what arrives then ends, and one batch takes the rest."""
        for _ in range(30):
            self.batch()
            if self.view.spiral.phase == "spiralling":
                break
        assert self.view.spiral.phase == "spiralling"
        self.batch()
        assert self.view.spiral.phase == "spiralling"
        assert self.view.required_capacity_ratio > 1.0

    def runs_without_rows(self, seconds: float) -> None:
        """As a query with timers does at each trigger, so that none ever finds nothing."""
        until = self.driver.time + seconds
        while self.driver.time < until:
            self.send(self.driver.progress(0, 0.5, backlog=self.backlog, gap=IDLE_SECONDS))

    def finds_nothing(self, seconds: float, *, as_progress: bool = False) -> None:
        until = self.driver.time + seconds
        while self.driver.time < until:
            self.driver.time += IDLE_SECONDS
            if as_progress:
                nothing = {"latestOffset": 3, "triggerExecution": 3}
                event = self.driver.progress(
                    0, None, backlog=self.backlog, batch_id=self.driver.batch_id, durationMs=nothing
                )
                self.send(event)
            else:
                self.send(self.driver.idle())


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("as_progress", [False, True])
def test_what_was_foreseen_is_over_once_nothing_comes(told: bool, as_progress: bool) -> None:
    world = World(told=told)
    world.overloaded()
    world.finds_nothing(600.0, as_progress=as_progress)
    view = world.view
    assert view.state == "idle"
    assert view.spiral.phase == "none"
    assert view.checkpoint.eta_seconds is None
    assert view.required_capacity_ratio < 1.0
    assert view.capacity_short_since_time is None
    assert view.target_feasible is True
    assert view.attention.level == "idle"


def test_growth_is_over_for_a_query_with_timers_too() -> None:
    world = World(told=True)
    world.overloaded()
    world.runs_without_rows(world.seconds + IDLE_SECONDS)
    assert world.view.spiral.phase == "none"


def test_a_pause_shorter_than_its_batches_says_nothing() -> None:
    world = World(told=True)
    world.overloaded()
    assert world.seconds > 2.0 * IDLE_SECONDS
    world.finds_nothing(IDLE_SECONDS)
    assert world.view.spiral.phase == "spiralling"


def test_it_is_foreseen_again_when_it_comes_again() -> None:
    world = World(told=True)
    world.overloaded()
    world.finds_nothing(600.0)
    world.seconds = 8.0
    for _ in range(30):
        world.batch()
        if world.view.spiral.phase == "spiralling":
            break
    assert world.view.spiral.phase == "spiralling"
    assert world.seconds < 120.0, "before its deadline"


def test_a_backlog_that_waits_is_no_rest() -> None:
    world = World(told=True)
    world.overloaded()
    world.backlog = 5000
    world.send(world.driver.progress(10, 1.0, backlog=world.backlog))
    before = world.view.required_capacity_ratio
    world.finds_nothing(600.0)
    assert world.view.required_capacity_ratio == before


def test_a_source_that_tells_no_backlog_brings_nothing_at_rest_beside_one_that_does() -> None:
    """Its rate is that of its batches, and none comes to lower it."""
    world = World(told=True)
    for _ in range(12):
        rows = int(ARRIVING_ROWS_PER_SECOND * world.seconds)
        world.seconds = min(1.0 + rows / ROWS_PER_SECOND, 60.0)
        limits = [
            {"source": 0, "unit": "rows", "limit": None, "configured": None, "backlog": 0,
             "control": "live"},
            {"source": 1, "unit": "rows", "limit": None, "configured": None, "backlog": None,
             "control": "live"},
        ]  # fmt: skip
        sources = [
            {"description": "Told", "numInputRows": 0},
            {"description": "Not", "numInputRows": rows},
        ]
        world.send(world.driver.progress(rows, world.seconds, limits=limits, sources=sources))
    assert world.view.required_capacity_ratio > 1.0
    world.finds_nothing(600.0)
    assert world.view.required_capacity_ratio < 1.0
    assert world.view.capacity_short_since_time is None


@pytest.mark.parametrize("how", ["failed", "timed out"])
def test_an_idle_trigger_says_that_no_batch_is_open(how: str) -> None:
    """Spark runs one that was not committed before anything else."""
    world = World(told=True)
    for _ in range(5):
        world.batch()
    world.finds_nothing(100.0)
    for number in range(3):
        if how == "timed out":
            world.driver.time += 119.0
            world.send(
                world.driver.heartbeat(batch_id=world.driver.batch_id + 1, running_seconds=119.0)
            )
            world.send(world.driver.terminated())
        else:
            world.driver.time += 3.0
            world.send(world.driver.terminated("java.net.ConnectException: Connection refused"))
        world.driver.run_id = f"r-{number + 2}"
        world.send(world.driver.started())
    assert world.view.spiral.phase == "dead"
    assert world.view.checkpoint.failures_consecutive > 0
    world.finds_nothing(20.0)
    assert world.view.spiral.phase == "none"
    assert world.view.checkpoint.failures_consecutive == 0
    assert world.view.attention.level == "idle"


def test_what_comes_after_an_hour_without_rows_is_a_spike_like_the_first() -> None:
    """Patience begins anew: it is not of a load that ended an hour ago."""
    world = World(told=True)
    world.overloaded()
    sizing = world.fleet._roster[KEY].sizing
    assert sizing.unstable_since_time is not None
    world.finds_nothing(3600.0)
    assert sizing.unstable_since_time is None
