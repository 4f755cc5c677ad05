"""Replies: what each tells of all queries of an application, whichever of them has just changed."""

from __future__ import annotations

import random
import time as clock
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet, Order, UnknownQuery
from agent.core.fleet.replies import Replies
from agent.core.policy import Policy, QueryPolicy, Rule
from tests.core.events import START_TIME, Driver

if TYPE_CHECKING:
    from agent.core.fleet import Change, Receipt

RULES = (
    Rule(match="orders-1", executors="off"),
    Rule(match="orders-2", give_limits="all", maximum_executors=4, minimum_executors=2),
    Rule(match="*local-2*", mode="dry-run"),
)


class Anew(Replies):
    """Works all out anew whenever it is asked."""

    def _reply(self, application_id: str) -> Any:
        self.forget({application_id})
        return super()._reply(application_id)


def anew(fleet: Fleet) -> Fleet:
    state = fleet._state
    state.replies = fleet._hearing._replies = Anew(state.roster, state.policy)
    state.clusters._replies = state.replies
    return fleet


class Course:
    """Drivers that come, go, are copied and steered, under a fleet and one that keeps nothing."""

    def __init__(self, seed: int, policy: Policy) -> None:
        self.random = random.Random(seed)
        self.policy, self.now = policy, START_TIME
        fleet = Fleet(policy, started_time=START_TIME - 1000)
        self.fleets = (fleet, anew(Fleet(policy, started_time=START_TIME - 1000)))
        self.saved: dict[str, Change] = {}
        self.sequences: dict[str, int] = {}
        self.batches: dict[str, int] = {}
        self.runs: dict[tuple[str, int], int] = {}
        self.limits: dict[str, int | None] = {}

    def driver(self) -> Driver:
        """Of one of three applications, two of one name, and one of its queries."""
        number, one = self.random.choice("123"), self.random.randrange(3)
        run = self.runs.get((number, one), 0)
        return Driver(
            application_id=f"local-{number}",
            application="shop" if number in "12" else "other",
            instance=f"listener-{number}",
            query_id=f"q-{one}",  # the same in all of them: checkpoints are copied
            run_id=f"r-{number}-{one}-{run}",
            query=f"orders-{one}",
            time=self.now,
            sequence=self.sequences.get(number, 0),
            batch_id=self.batches.get(f"q-{one}", -1),
        )

    def send(self, driver: Driver, *events: dict[str, Any]) -> Receipt:
        request = decode_request(driver.body(*events))
        self.sequences[driver.instance[-1]] = driver.sequence
        self.batches[driver.query_id] = driver.batch_id
        self.now = max(self.now, driver.time)
        kept, plain = [fleet.receive(request, self.now + 0.05) for fleet in self.fleets]
        assert kept == plain
        for grant in kept.grants:
            self.limits[grant.runId] = grant.limit
        return kept

    def step(self) -> None:
        driver, chance = self.driver(), self.random.random()
        number, one = driver.instance[-1], int(driver.query_id[-1])
        if chance < 0.5:
            limit = self.limits.get(driver.run_id, 1000)
            rows = 1000 if limit is None else limit
            self.send(driver, driver.progress(rows, rows / 700 + 0.5, limit=limit, backlog=90_000))
        elif chance < 0.6:
            self.send(driver, driver.started())
        elif chance < 0.72:
            told = {"present": 2, "slots": 4, "configured": 2, "asked": 3}
            beat = driver.heartbeat(driver.batch_id + 1, 0.5)
            beat["body"]["executors"] = told
            self.send(driver, beat)
        elif chance < 0.76:
            self.send(driver, driver.idle())
        elif chance < 0.82:
            self.send(driver, driver.terminated(self.random.choice([None, "boom"])))
        elif chance < 0.87:
            self.runs[number, one] = self.runs.get((number, one), 0) + 1
        elif chance < 0.93:
            self.order()
        elif chance < 0.95:
            for fleet in self.fleets:
                fleet.hear_driver(driver.application_id, self.now, in_batch=False)
        elif chance < 0.97:
            self.restart()
        else:
            self.now += self.random.choice([1.0, 20.0, 4000.0])
            changed = [fleet.tick(self.now) for fleet in self.fleets]
            assert changed[0] == changed[1]

    def order(self) -> None:
        act: dict[str, Any] = self.random.choice(
            [
                *({"mode": "off"}, {"mode": "on"}, {"mode": "dry-run"}),
                *({"limit": 50}, {"hold": True}, {"hold": False}, {"retire": True}),
            ]
        )
        whose = self.random.choice([("*", "*"), ("shop", "orders-1"), ("*", "orders-0*")])
        kept, plain = [self.ordered(fleet, *whose, act) for fleet in self.fleets]
        assert kept == plain

    def ordered(self, fleet: Fleet, application: str, query: str, act: dict[str, Any]) -> str:
        order = Order(who="kim", reason="", **act)
        try:
            return str(fleet.control(application, query, order, self.now))
        except (UnknownQuery, ValueError) as error:
            return str(error)

    def restart(self) -> None:
        """The agent's, from all that it ever saved."""
        kept, plain = [fleet.changes() for fleet in self.fleets]
        assert sorted(kept, key=str) == sorted(plain, key=str)
        self.saved |= {one.part: one for one in kept}
        restored = [
            Fleet.restore(self.policy, self.saved.values(), started_time=self.now) for _ in "ab"
        ]
        self.fleets = (restored[0], anew(restored[1]))

    def views(self) -> None:
        kept, plain = [list(fleet.views(self.now)) for fleet in self.fleets]
        assert kept == plain


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_a_reply_is_what_it_would_be_if_all_were_worked_out_anew(seed: int) -> None:
    """Whatever comes: new runs, copies, orders, silence, and what is forgotten."""
    on = {"executors": "on", "maximum_executors": 8, "executors_quiet_seconds": 5.0}
    rules = RULES[seed % 4 :]
    course = Course(seed, Policy(default=QueryPolicy(**on), rules=rules))  # type: ignore[arg-type]
    for _ in range(40):
        course.step()
    course.views()


def test_who_is_heard_of_again_counts_at_once() -> None:
    """Its application is told of its executors, though no event says that it is back."""
    fleet = Fleet(
        Policy(default=QueryPolicy(executors="on", maximum_executors=4)), started_time=START_TIME
    )
    driver = Driver()
    beat = driver.heartbeat()
    beat["body"]["executors"] = {"present": 3, "slots": 3, "configured": 2, "asked": 3}
    now, nothing = driver.time, decode_request(driver.body())
    fleet.receive(decode_request(driver.body(beat)), now)
    assert fleet.receive(nothing, now).executors is not None
    fleet.tick(now + 20.0)
    assert fleet.receive(nothing, now + 20.0).executors is None
    fleet.hear_driver(driver.application_id, now + 21.0, in_batch=False)
    assert fleet.receive(nothing, now + 21.0).executors is not None


def test_what_an_id_no_longer_names_is_in_no_reply() -> None:
    """A query ran on from a copy elsewhere, its first driver was forgotten, and is heard again.

    What that says first has no name, and makes a query for it; its next word is of the one it was.
    """
    fleet = Fleet(Policy(), started_time=START_TIME - 1000)

    def told(driver: Driver, now: float, *events: dict[str, Any]) -> Receipt:
        driver.time = now
        return fleet.receive(decode_request(driver.body(*events)), now)

    other = Driver(application_id="C", instance="c", query_id="q-9", run_id="c1")
    first = Driver(application_id="A", instance="a", query_id="q-0", run_id="a1")
    copy = Driver(application_id="B", instance="b", query_id="q-0", run_id="b1")
    now = START_TIME
    for driver in (other, first, copy):
        now += 1.0
        told(driver, now, driver.heartbeat(0, 0.5))

    def pass_by(seconds: float) -> float:
        end = now + seconds
        for second in range(int(now) + 10, int(end), 10):
            told(other, second, other.heartbeat())
            told(copy, second, copy.heartbeat(0, 0.5))
            fleet.tick(second)
        return end

    now = pass_by(3.0 * fleet._policy.forget_seconds)
    beside = Driver(application_id="A", instance="a", query_id="q-5", run_id="a5", query="five")
    beside.sequence = first.sequence
    told(beside, now, beside.heartbeat(0, 0.5))
    first.sequence = beside.sequence
    told(first, now, first.idle())
    here = told(first, now + 1.0, first.heartbeat(0, 0.5)).unsafe_limits
    ids = {one.run.run_id for one in fleet._roster.of_application("A")}
    assert set(here) == ids
    now = pass_by(60.0)
    fleet.control("shop", "q-0", Order(who="kim", retire=True), now)
    assert told(first, now + 1.0).unsafe_limits.keys() <= {"a1", "a5"}
    assert list(fleet.views(now))


@pytest.mark.parametrize("executors", [False, True])
def test_an_event_of_one_of_many_costs_what_one_of_few_does(executors: bool) -> None:
    """Each reply names the limits of all: those of the others are at hand."""
    best = {}
    for many in (10, 200):
        fleet = Fleet(Policy(), started_time=START_TIME - 1000)
        driver = Driver()
        beat = driver.heartbeat()
        if executors:
            beat["body"]["executors"] = {"present": 2, "slots": 4, "configured": 2}
        events = [beat]
        for one in range(many):
            driver.query_id, driver.run_id, driver.query = f"q-{one}", f"r-{one}", f"orders-{one}"
            events.append(driver.progress(1000, 0.0, limit=1000))
        fleet.receive(decode_request(driver.body(*events)), START_TIME, lines=False)
        took = []
        for _ in range(20):
            request = decode_request(driver.body(driver.progress(1000, 0.0, limit=1000)))
            began = clock.process_time()
            receipt = fleet.receive(request, START_TIME, lines=False)
            took.append(clock.process_time() - began)
        assert len(receipt.unsafe_limits) >= many
        best[many] = min(took)
    assert best[200] < 2.0 * best[10]
