"""Who is who and who is there: names of two live queries, restarts, probes, what brokers said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from agent.core.decode.events import MalformedRequest, decode_request
from agent.core.fleet import Change, Fleet
from agent.core.fleet.orders import Order
from agent.core.fleet.senders import Sender, Senders
from agent.core.measure.partitions import PartitionView
from agent.core.policy import Policy, QueryPolicy, Rule
from agent.core.query import MOST_PAST_RUNS
from tests.core.events import START_TIME, Driver

if TYPE_CHECKING:
    from agent.core.fleet import Receipt
    from agent.core.judgement import Mode

KEY = ("shop", "orders")
POLICY = Policy()


def fleet() -> Fleet:
    return Fleet(POLICY, started_time=START_TIME - 1000)


def send(to: Fleet, driver: Driver, *events: dict) -> Receipt:  # type: ignore[type-arg]
    return to.receive(decode_request(driver.body(*events)), driver.time + 0.05)


def session(of: Driver, number: int, application_id: str = "") -> Driver:
    """Another query of the same driver: same listener, so one numbering; tell it by turns.

    Of another application: another driver's.
    """
    same = application_id in ("", of.application_id)
    return Driver(
        application_id=application_id or of.application_id,
        instance=of.instance if same else "listener-2",
        query_id=f"q-{number}",
        run_id=f"r-{number}",
        time=of.time,
        sequence=of.sequence,
    )


def beside(all_: Fleet) -> tuple[str, str]:
    """The series of the second one of a name."""
    (key,) = set(all_.keys()) - {KEY}
    return key


def made_for(second_application_id: str) -> tuple[str, str]:
    """The series of the first one after another, in that application, has its name."""
    return (
        ("shop", "orders-q-1") if second_application_id == "local-1" else ("shop-local-1", "orders")
    )


def test_a_query_that_is_watched_no_more_is_not_missed_and_comes_back_as_it_was() -> None:
    """Its driver lives: its silence must neither end that nor page anybody."""
    all_, one = Fleet(Policy(), started_time=START_TIME - 1000), Driver()
    send(all_, one, one.started(), one.progress(500, 1.0))
    left = one.idle()
    left["body"]["left"] = True
    send(all_, one, left)
    for seconds in (20.0, 3_000.0):
        all_.tick(one.time + seconds)
        view = all_.view(KEY, one.time + seconds)
        assert (view.up, view.stopped) == (False, True)
        assert all_.liveness(*KEY, one.time + seconds).ok
    send(all_, one, one.started())
    send(all_, one, one.progress(500, 1.0))
    view = all_.view(KEY, one.time + 1.0)
    assert (view.up, view.stopped, view.state) == (True, False, "busy")


def test_two_live_queries_of_one_name_in_one_driver_are_two_series() -> None:
    """Spark's names are unique in a session only."""
    all_ = fleet()
    one = Driver()
    send(all_, one, one.started(), one.progress(10, 1.0))
    two = session(one, 2)
    for _ in range(10):
        send(all_, two, two.progress(10, 1.0))
        one.sequence, one.time = two.sequence, two.time
        send(all_, one, one.progress(10, 1.0))
        two.sequence, two.time = one.sequence, one.time
    assert all_.keys() == [KEY, ("shop", "orders-q-2")]
    assert all_.view(KEY, one.time).totals.batches == {"completed": 11}
    assert all_.view(("shop", "orders-q-2"), one.time).totals.batches == {"completed": 10}
    assert all_.totals.name_collisions == 1


@pytest.mark.parametrize("before", [None, "old"])
def test_a_late_word_of_a_run_of_another_name_is_of_that_name(before: str | None) -> None:
    """A job gave its query a name, and the end of the run before came after the next one's start.

    It would have begun that run anew, and what follows of the living one been taken for late.
    """
    all_, one = fleet(), Driver(query=before)
    send(all_, one, one.started(), one.progress(10, 1.0))
    (key,) = all_.keys()
    end = one.terminated("java.lang.Error: boom")
    one.query, one.run_id = "orders", "r-2"
    send(all_, one, one.started())
    end["sequence"] = one.sequence = one.sequence + 1
    send(all_, one, end)
    send(all_, one, one.heartbeat(0, 1.0), one.progress(10, 1.0))
    assert set(all_.keys()) == {key, KEY}
    view = all_.view(KEY, one.time)
    assert (view.up, view.run_id, view.totals.batches) == (True, "r-2", {"completed": 1})
    view = all_.view(key, one.time)
    assert (view.up, view.run_id) == (False, "r-1")
    assert view.totals.batches == {"completed": 1, "failed": 1}


@pytest.mark.parametrize("ends", ["terminated", "silent"])
@pytest.mark.parametrize("application_id", ["local-1", "local-2"])
def test_the_plain_name_is_taken_up_when_its_query_is_gone(ends: str, application_id: str) -> None:
    all_ = fleet()
    one = Driver()
    send(all_, one, one.progress(10, 1.0))
    two = session(one, 2)
    two.application_id = application_id
    if application_id != one.application_id:
        two.instance, two.sequence = "listener-2", 0
    send(all_, two, two.progress(10, 1.0))
    assert len(all_.keys()) == 2
    if ends == "terminated":
        one.sequence = max(one.sequence, two.sequence)
        send(all_, one, one.terminated(None))
        two.sequence = one.sequence if two.instance == one.instance else two.sequence
    else:
        two.time += 20.0
    send(all_, two, two.progress(10, 1.0))
    assert all_.view(KEY, two.time).query_id == "q-2"
    assert all_.view(KEY, two.time).up
    all_.tick(two.time)
    assert all_.keys() == [KEY]  # the other series was made for it alone
    assert all_.view(KEY, two.time).totals.batches == {"completed": 2}


def test_what_is_known_and_was_ordered_goes_with_the_query_to_its_plain_name() -> None:
    all_ = fleet()
    one = Driver()
    send(all_, one, one.started(), one.progress(10, 1.0))
    two = session(one, 2)
    two.application_id, two.instance, two.sequence = "local-2", "listener-2", 0
    begun = two.started(trigger="ProcessingTimeTrigger(60000)", checkpointLocation="/ck-2")
    send(all_, two, begun, two.progress(10, 1.0))
    all_.control(*beside(all_), Order(who="kim", hold=True), two.time)
    send(all_, one, one.terminated(None))
    send(all_, two, two.progress(10, 1.0))
    all_.tick(two.time)
    assert all_.keys() == [KEY]
    view = all_.view(KEY, two.time)
    assert (view.query_id, view.checkpoint_location) == ("q-2", "/ck-2")
    assert view.held_by is not None
    assert view.held_by.who == "kim"
    assert all_._roster[KEY].run.trigger_seconds == 60.0
    send(all_, one, one.heartbeat(1, 3.0))  # a late word
    assert all_.view(KEY, two.time).query_id == "q-2"
    again = Fleet.restore(POLICY, all_.changes(), started_time=two.time)
    assert again.view(KEY, two.time).checkpoint_location == "/ck-2"


def test_who_starts_again_after_another_took_up_its_name_is_the_second_one() -> None:
    all_ = fleet()
    one = Driver()
    send(all_, one, one.progress(10, 1.0))
    two = session(one, 2)
    send(all_, two, two.progress(10, 1.0))
    one.sequence = two.sequence
    send(all_, one, one.terminated())  # one that failed would have kept it
    two.sequence, two.time = one.sequence, one.time
    send(all_, two, two.progress(10, 1.0))
    one.sequence, one.time, one.run_id = two.sequence, two.time, "r-1b"
    send(all_, one, one.started(), one.progress(10, 1.0))
    two.sequence, two.time = one.sequence, one.time
    send(all_, two, two.progress(10, 1.0))
    all_.tick(two.time)
    assert all_.keys() == [KEY, ("shop", "orders-q-1")]
    assert all(all_.view(key, two.time).up for key in all_.keys())  # noqa: SIM118 - no mapping
    assert all_.view(KEY, two.time).query_id == "q-2"
    assert all_.view(KEY, two.time).totals.batches == {"completed": 3}


def test_counters_of_the_plain_name_do_not_fall_when_another_takes_it_up() -> None:
    all_ = fleet()
    one = Driver()
    for _ in range(20):
        send(all_, one, one.progress(10, 1.0))
    two = session(one, 2)
    two.application_id, two.instance, two.sequence = "local-2", "listener-2", 0
    send(all_, two, two.started(), two.progress(10, 1.0))
    send(all_, one, one.terminated(None))
    before = sum(all_.view(KEY, one.time).totals.state_seconds.values())
    send(all_, two, two.progress(10, 1.0))
    assert all_.view(KEY, two.time).query_id == "q-2"
    assert sum(all_.view(KEY, two.time).totals.state_seconds.values()) >= before


@pytest.mark.parametrize("pause", ["restart", "stood still", "stood still and looked"])
@pytest.mark.parametrize("application_id", ["local-1", "local-2"])
def test_two_live_queries_keep_their_names_and_orders_where_the_agent_itself_was_deaf(
    pause: str, application_id: str
) -> None:
    all_ = fleet()
    one = Driver()
    send(all_, one, one.started(), one.progress(10, 1.0))
    two = session(one, 2, application_id)
    send(all_, two, two.started(), two.progress(10, 1.0))
    second = beside(all_)
    all_.control(*KEY, Order(who="kim", mode="off"), one.time)
    all_.tick(two.time)
    if pause == "restart":
        two.time += 30.0
        all_ = Fleet.restore(POLICY, all_.changes(), started_time=two.time)
        all_.wake()
    else:
        two.time += 20.0
        if pause == "stood still and looked":
            all_.tick(two.time)
    send(all_, two, two.progress(10, 1.0))
    one.sequence, one.time = max(one.sequence, two.sequence), two.time
    send(all_, one, one.progress(10, 1.0))
    all_.tick(one.time)
    assert {key: all_.view(key, one.time).query_id for key in all_.keys()} == {  # noqa: SIM118
        KEY: "q-1",
        second: "q-2",
    }
    assert (all_.view(KEY, one.time).mode, all_.view(second, one.time).mode) == ("off", "on")
    for _ in range(4):  # who then says nothing, while the agent hears, is gone
        two.time, two.sequence = max(two.time, one.time) + 5.0, max(two.sequence, one.sequence)
        all_.tick(two.time)
        send(all_, two, two.heartbeat(2, 1.0))
    assert all_.view(KEY, two.time).query_id == "q-2"


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("application_id", ["local-1", "local-2"])
def test_who_lost_its_name_while_nothing_came_through_is_followed_with_what_was_ordered_of_it(
    application_id: str, *, known: bool
) -> None:
    """The agent heard all the while; another of its name was there before, or came only then."""
    all_ = fleet()
    all_.control("*", "*", Order(who="lee", mode="on"), START_TIME)
    one = Driver()
    send(all_, one, one.started(), one.progress(10, 1.0))
    all_.control(*KEY, Order(who="kim", mode="off"), one.time)
    two = session(one, 2, application_id)
    if known:
        send(all_, two, two.started(), two.progress(10, 1.0))
    for _ in range(5):
        two.time += 5.0
        all_.tick(two.time)
    send(all_, two, two.started(), two.progress(10, 1.0))
    assert all_.view(KEY, two.time).query_id == "q-2"
    all_.tick(two.time)
    for _ in range(3):
        one.sequence, one.time = max(one.sequence, two.sequence), two.time
        send(all_, one, one.progress(10, 1.0))
        two.sequence, two.time = max(one.sequence, two.sequence), one.time
        send(all_, two, two.progress(10, 1.0))
    all_.tick(two.time)
    second = beside(all_)
    assert all_.view(KEY, two.time).query_id == "q-2"
    assert all_.view(second, two.time).query_id == "q-1"
    assert all_.view(second, two.time).totals.batches["completed"] == 3
    assert {all_.view(key, two.time).mode for key in (KEY, second)} == {"off"}


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("standing", [None, "on", "dry-run"])
def test_what_was_ordered_of_the_plain_name_holds_for_who_takes_it_up(
    standing: Mode | None, *, held: bool, early: bool
) -> None:
    """One that is greeted with a mode that holds for all, too; ordered before it came or after."""
    all_ = fleet()
    if standing is not None:
        all_.control("*", "*", Order(who="lee", mode=standing), START_TIME)
    one = Driver()
    send(all_, one, one.started(), one.progress(10, 1.0))
    if early:
        all_.control(*KEY, Order(who="kim", mode="off"), one.time)
    two = session(one, 2)
    two.application_id, two.instance, two.sequence = "local-2", "listener-2", 0
    send(all_, two, two.started(), two.progress(10, 1.0))
    assert not early or all_.view(beside(all_), two.time).mode == "off"  # it has that name, too
    if not early:
        all_.control(*KEY, Order(who="kim", mode="off"), one.time)
    if held:
        all_.control(*beside(all_), Order(who="lee", hold=True), two.time)
    send(all_, one, one.terminated(None))
    send(all_, two, two.progress(10, 1.0))
    assert all_.view(KEY, two.time).mode == "off"
    assert (all_.view(KEY, two.time).held_by is not None) is held


@pytest.mark.parametrize("ends", ["first", "second"])
def test_what_a_second_one_has_from_its_name_follows_the_name_and_keeps_no_series(
    ends: str,
) -> None:
    all_ = fleet()
    one = Driver()
    send(all_, one, one.started(), one.progress(10, 1.0))
    all_.control(*KEY, Order(who="kim", mode="off"), one.time)
    two = session(one, 2)
    two.application_id, two.instance, two.sequence = "local-2", "listener-2", 0
    send(all_, two, two.started(), two.progress(10, 1.0))
    assert all_.view(beside(all_), two.time).mode == "off"
    all_.control(*KEY, Order(who="kim", mode="dry-run"), two.time)
    if ends == "first":
        send(all_, one, one.terminated(None))
        send(all_, two, two.progress(10, 1.0))
        assert all_.view(KEY, two.time).query_id == "q-2"
        assert all_.view(KEY, two.time).mode == "dry-run"
    else:
        send(all_, two, two.terminated(None))
        all_.tick(two.time + POLICY.forget_seconds + 1.0)
        assert all_.keys() == [KEY]


@pytest.mark.parametrize("application_id", ["local-1", "local-2"])
def test_who_starts_anew_as_the_agent_does_starts_with_what_was_ordered_of_its_name(
    application_id: str,
) -> None:
    """Without a checkpoint to go by it may be another: the agent waits for a word of the first."""
    all_ = fleet()
    one = Driver()
    send(all_, one, one.started(), one.progress(10, 1.0))
    all_.control("*", "*", Order(who="lee", mode="on"), one.time)
    all_.control("shop", "*", Order(who="kim", mode="off"), one.time)
    all_.control(*KEY, Order(who="kim", hold=True), one.time)
    again = Fleet.restore(POLICY, all_.changes(), started_time=one.time + 60.0)
    again.wake()
    new = session(one, 2)
    new.time, new.application_id = one.time + 61.0, application_id
    for _ in range(20):
        send(again, new, new.progress(10, 1.0, limit=100, configured=1000))
        again.tick(new.time)
        view = next(view for view in again.views(new.time) if view.query_id == "q-2")
        assert (view.mode, view.held_by is not None) == ("off", True)
    assert again.keys() == [KEY]


@pytest.mark.parametrize("mode", ["off", "dry-run"])
@pytest.mark.parametrize("of_name", [None, "on"])
def test_what_stands_for_many_holds_for_who_takes_up_a_name_of_which_no_hand_ordered_more(
    mode: Mode, of_name: Mode | None
) -> None:
    all_ = fleet()
    one = Driver()
    all_.control("shop-*", "*", Order(who="kim", mode=mode), START_TIME)
    if of_name is not None:
        all_.control("shop", "*", Order(who="lee", mode=of_name), START_TIME)
    send(all_, one, one.started(), one.progress(10, 1.0))
    two = session(one, 2)
    two.application_id, two.instance, two.sequence = "local-2", "listener-2", 0
    send(all_, two, two.started(), two.progress(10, 1.0))
    assert (all_.view(KEY, two.time).mode, all_.view(beside(all_), two.time).mode) == (
        "on",
        mode,
    )
    send(all_, one, one.terminated(None))
    send(all_, two, two.progress(10, 1.0))
    assert (all_.view(KEY, two.time).query_id, all_.view(KEY, two.time).mode) == ("q-2", mode)


def second_application(of: Driver, number: int = 2) -> Driver:
    """Of the same name, with a query of the same name."""
    found = session(of, number)
    found.application_id, found.instance, found.sequence = "local-2", "listener-2", 0
    return found


def test_where_names_stay_the_plain_one_is_taken_up_by_a_run_that_begins() -> None:
    """What was told of a run under its name is not told on under another one."""
    all_ = Fleet(POLICY, started_time=START_TIME - 1000, names_stay=True)
    one = Driver()
    send(all_, one, one.progress(10, 1.0))
    two = second_application(one)
    send(all_, two, two.progress(10, 1.0))
    send(all_, one, one.terminated(None))
    send(all_, two, two.progress(10, 1.0))
    assert all_.view(("shop-local-2", "orders"), two.time).totals.batches == {"completed": 2}
    send(all_, two, two.terminated(None))
    two.run_id = "r-next"
    send(all_, two, two.progress(10, 1.0))
    assert all_.view(KEY, two.time).query_id == "q-2"


@pytest.mark.parametrize("again", ["spoke", "restarted", "restarted elsewhere"])
@pytest.mark.parametrize("application_id", ["local-1", "local-2"])
def test_who_only_fell_silent_has_what_was_ordered_of_it_when_it_speaks_again(
    application_id: str, again: str
) -> None:
    """And what was learned, whatever was ordered of the other one, which has its name by then."""
    all_ = fleet()
    one = Driver()
    start = one.started(trigger="ProcessingTimeTrigger(60000)")
    send(all_, one, start, *[one.progress(10, 1.0) for _ in range(3)])
    two = session(one, 2, application_id)
    send(all_, two, two.started(), two.progress(10, 1.0))
    all_.control(*KEY, Order(who="kim", mode="off"), one.time)
    all_.control(*beside(all_), Order(who="lee", mode="on"), two.time)
    for _ in range(5):
        two.time += 5.0
        all_.tick(two.time)
        send(all_, two, two.heartbeat(1, 1.0))
    all_ = Fleet.restore(POLICY, all_.changes(), started_time=two.time)
    assert [all_.view(key, two.time).query_id for key in (KEY, made_for(application_id))] == [
        "q-2",
        "q-1",
    ]
    one.sequence, one.time, one.tells_trigger = max(one.sequence, two.sequence), two.time, False
    key = made_for(application_id)
    if again != "spoke":
        one.run_id = "r-1b"
    if again == "restarted elsewhere":
        one.application_id, one.instance, key = "local-3", "listener-3", ("shop-local-3", "orders")
    send(all_, one, one.progress(10, 1.0))
    all_.tick(one.time)
    assert all_.keys() == sorted([KEY, key])
    assert [all_.view(of, one.time).mode for of in (KEY, key)] == ["on", "off"]
    view = all_.view(key, one.time)
    assert (view.query_id, view.up, view.totals.batches["completed"]) == ("q-1", True, 1)
    query = all_._roster[key]
    assert query.sizing.cost.batches >= 3, "what was learned stays"
    assert query.run.trigger_seconds == 60.0


def test_a_late_word_of_where_a_second_one_ran_before_does_not_take_it_back() -> None:
    all_ = fleet()
    one = Driver()
    send(all_, one, one.started(), one.progress(10, 1.0))
    two = second_application(one)
    send(all_, two, two.started(), two.progress(10, 1.0))
    again = Driver(
        application_id="local-3",
        instance="listener-3",
        query_id="q-2",
        run_id="r-2b",
        time=two.time,
    )
    send(all_, again, again.started(), again.progress(10, 1.0))
    for looks in range(2):
        send(all_, two, two.heartbeat(1, 1.0))
        all_.tick(again.time + looks)
        assert all_.keys() == [KEY, ("shop-local-3", "orders")]
        assert all_.view(("shop-local-3", "orders"), two.time).run_id == "r-2b"


def test_what_a_hand_released_of_a_second_one_stays_released_when_it_takes_up_the_name() -> None:
    all_ = fleet()
    one = Driver()
    send(all_, one, one.started(), one.progress(10, 1.0, limit=1000, configured=5000))
    all_.control(*KEY, Order(who="kim", limit=100, unit="rows"), one.time)
    two = second_application(one)
    send(all_, two, two.started(), two.progress(10, 1.0, limit=1000, configured=5000))
    assert all_.view(beside(all_), two.time).manual_limit == 100
    all_.control(*beside(all_), Order(who="lee", hold=False), two.time)
    all_ = Fleet.restore(POLICY, all_.changes(), started_time=two.time)
    all_.wake()
    send(all_, one, one.terminated())
    send(all_, two, two.progress(10, 1.0, limit=1000, configured=5000))
    view = all_.view(KEY, two.time)
    assert (view.query_id, view.manual_limit) == ("q-2", None)
    all_.control(*KEY, Order(who="lee", hold=True), two.time)
    assert all_.view(KEY, two.time).held_by is not None


@pytest.mark.parametrize("match", ["shop/orders", "shop/*", "orders", "shop*orders*"])
@pytest.mark.parametrize("application_id", ["local-1", "local-2"])
@pytest.mark.parametrize("known_before", [False, True])
def test_rules_of_the_configuration_hold_for_a_second_one_of_a_name(
    match: str, application_id: str, *, known_before: bool
) -> None:
    policy = Policy(rules=(Rule(match=match, mode="off", deadline_seconds=60.0),))
    all_, one = Fleet(policy, started_time=START_TIME - 1000), Driver()
    send(all_, one, one.started(), one.progress(10, 1.0))
    two = session(one, 2, application_id)
    send(all_, two, two.started(), two.progress(10, 1.0))
    second = beside(all_)
    if known_before:  # by an agent that kept the name made for it alone
        for query in all_._roster:
            query.application_label = ""
        all_ = Fleet.restore(policy, all_.changes(), started_time=two.time)
    for _ in range(10):
        two.sequence = max(one.sequence, two.sequence)
        reply = send(all_, two, two.progress(1000, 9.0, limit=1000, configured=1000, backlog=9999))
        one.sequence, one.time = max(one.sequence, two.sequence), two.time
        send(all_, one, one.heartbeat())
    view = all_.view(second, two.time)
    assert (view.mode, view.deadline_seconds) == ("off", 60.0)
    assert all(grant.limit is None or grant.limit == 1000 for grant in reply.grants)
    all_.control("*", "*", Order(who="kim", mode="on"), two.time)
    assert all_.view(second, two.time).mode == "off", "on for all is none for whom a rule names"


def test_a_rule_for_a_name_that_was_made_holds_for_its_query_alone() -> None:
    policy = Policy(rules=(Rule(match="orders", mode="off"), Rule(match="shop-l*/*", mode="on")))
    all_, one = Fleet(policy, started_time=START_TIME - 1000), Driver()
    send(all_, one, one.started(), one.progress(10, 1.0))
    two = second_application(one)
    send(all_, two, two.started(), two.progress(10, 1.0))
    assert [all_.view(key, two.time).mode for key in (KEY, beside(all_))] == ["off", "on"]


def test_two_sessions_of_a_second_application_are_two_series_as_well() -> None:
    all_ = fleet()
    one = Driver()
    send(all_, one, one.started(), one.progress(10, 1.0))
    two = second_application(one)
    send(all_, two, two.started(), two.progress(10, 1.0))
    three = session(two, 3)
    for _ in range(3):
        send(all_, three, three.progress(10, 1.0))
        two.sequence, two.time = three.sequence, three.time
        send(all_, two, two.progress(10, 1.0))
        three.sequence, three.time = two.sequence, two.time
    found = {view.query_id: (view.application, view.query) for view in all_.views(two.time)}
    assert found == {
        "q-1": KEY,
        "q-2": ("shop-local-2", "orders"),
        "q-3": ("shop-local-2", "orders-q-3"),
    }
    assert all_.view(found["q-2"], two.time).totals.batches == {"completed": 4}


@pytest.mark.parametrize("application_id", ["local-1", "local-2"])
def test_one_that_failed_keeps_its_name_until_it_is_back_or_retired(application_id: str) -> None:
    """Another of its name lives: under that, nobody would be told."""
    all_ = fleet()
    one = Driver()
    send(all_, one, one.started(), one.progress(10, 1.0))
    two = session(one, 2, application_id)
    send(all_, two, two.started(), two.progress(10, 1.0))
    second = beside(all_)
    one.sequence = max(one.sequence, two.sequence)
    send(all_, one, one.terminated("java.lang.RuntimeException: boom"))
    for _ in range(5):
        two.sequence, two.time = max(one.sequence, two.sequence), two.time + 5.0
        all_.tick(two.time)
        send(all_, two, two.heartbeat(1, 1.0))
    view = all_.view(KEY, two.time)
    assert (view.query_id, view.up, view.attention.level) == ("q-1", False, "failed")
    assert all_.view(second, two.time).up
    one.time, one.run_id, one.sequence = two.time, "r-1b", max(one.sequence, two.sequence)
    send(all_, one, one.started())
    assert all_.view(KEY, one.time).up
    send(all_, one, one.terminated("java.lang.RuntimeException: boom"))
    all_.control(*KEY, Order(who="kim", retire=True), one.time)
    two.sequence = max(one.sequence, two.sequence)
    send(all_, two, two.progress(10, 1.0))
    assert (all_.view(KEY, two.time).query_id, all_.view(KEY, two.time).up) == ("q-2", True)


def test_what_a_hand_ordered_of_a_second_one_outlives_the_name_that_was_made_for_it() -> None:
    """It takes up a name that nobody has any more, for which another mode stands."""
    all_ = fleet()
    all_.control("*", "*", Order(who="lee", mode="on"), START_TIME)
    one = Driver()
    send(all_, one, one.started(), one.progress(10, 1.0))
    two = session(one, 2)
    two.application_id, two.instance, two.sequence = "local-2", "listener-2", 0
    send(all_, two, two.started(), two.progress(10, 1.0))
    all_.control(*beside(all_), Order(who="kim", mode="off"), two.time)
    send(all_, one, one.terminated(None))
    all_.control(*KEY, Order(who="kim", retire=True), one.time)
    send(all_, two, two.progress(10, 1.0))
    assert (all_.view(KEY, two.time).query_id, all_.view(KEY, two.time).mode) == ("q-2", "off")


def test_a_late_word_of_an_ended_run_does_not_call_its_successor_alive() -> None:
    all_ = fleet()
    old = Driver()
    send(all_, old, old.progress(10, 1.0))
    new = Driver(application_id="local-2", instance="listener-2", run_id="r-2", time=old.time)
    send(all_, new, new.started(), new.progress(10, 1.0))
    died = new.time
    for seconds in (5.0, 10.0, 12.0):
        old.time = died + seconds
        send(all_, old, old.heartbeat(1, seconds))
        all_.tick(old.time)
    all_.tick(died + 16.0)
    assert all_.view(KEY, died + 16.0).up is False
    assert all_.view(KEY, old.time).totals.batches == {"completed": 1, "replayed": 1}


def test_a_late_word_of_an_ended_run_makes_its_successors_batch_no_younger() -> None:
    all_, one = fleet(), Driver()
    send(all_, one, one.started())
    one.run_id = "r-2"
    send(all_, one, one.started(), one.heartbeat(0, 5.0))
    one.run_id = "r-1"
    one.time += 8.0
    send(all_, one, one.heartbeat(0, 8.0))
    assert all_.view(KEY, one.time).running_seconds == pytest.approx(13.0, abs=0.1)


def test_a_driver_that_lives_is_not_silent_whatever_became_of_the_query() -> None:
    all_ = fleet()
    one = Driver()
    send(all_, one, one.progress(10, 1.0))
    one.time += 30.0
    assert all_.liveness(*KEY, one.time).why == "silent"
    send(all_, one, one.event("heartbeat", {"queries": []}))
    assert all_.liveness(*KEY, one.time).why == "unknown"
    again = Driver(application_id="local-2", instance="listener-2", time=one.time + 60.0)
    assert all_.liveness(*KEY, again.time).why == "silent"
    send(all_, again, again.event("heartbeat", {"queries": []}))  # it has not begun its query yet
    assert all_.liveness(*KEY, again.time).ok


class TwoDrivers:
    """Of one query id, each with its own application; every five seconds each is heard."""

    def __init__(self, *, place: str, saved: bool = False) -> None:
        """``place``: the later one's checkpoint; ``saved``: another agent takes over each time."""
        self.fleet, self.saved = fleet(), saved
        self.parts: dict[str, Change] = {}
        self.first, self.later = Driver(), self.driver(2)
        send(self.fleet, self.first, self.first.started())
        for _ in range(20):
            reply = self.batch(self.first)
        assert [grant.runId for grant in reply.grants] == ["r-1"]
        self.later.time = self.first.time
        send(self.fleet, self.later, self.later.started(checkpointLocation=place))
        self.live = [self.first, self.later]

    def driver(self, number: int) -> Driver:
        return Driver(
            application_id=f"local-{number}",
            instance=f"listener-{number}",
            run_id=f"r-{number}",
            time=getattr(self, "first", Driver()).time,
        )

    def batch(self, of: Driver) -> Receipt:
        """One that shall be smaller: ten seconds of the target's five."""
        said = of.progress(10_000, 10.0, limit=10_000, configured=10_000, backlog=10**6)
        return send(self.fleet, of, said)

    def goes_on(self, seconds: float) -> None:
        until = self.first.time + seconds
        while self.first.time < until:
            time = self.first.time + 5.0
            self.first.time = time
            for one in self.live:
                one.time = time
                send(self.fleet, one, one.heartbeat(one.batch_id + 1, 1.0))
            self.fleet.tick(time)
            if self.saved:
                for change in self.fleet.changes():
                    self.parts[change.part] = change
                kept = [one for one in self.parts.values() if one.data is not None]
                started = self.fleet.wakefulness.started_time
                self.fleet = Fleet.restore(POLICY, kept, started_time=started)

    def ends(self, one: Driver, how: str) -> None:
        """By its owner, by a failure, with its driver, or without a word."""
        self.live.remove(one)
        if how != "silent":
            said = one.terminated("java.lang.Boom: x" if how == "failed" else None)
            said["body"]["driverEnded"] = how == "driver ended"
            send(self.fleet, one, said)

    def runs(self) -> dict[tuple[str, str], str]:
        """Of the queries that are up."""
        found = (self.fleet.view(key, self.first.time) for key in self.fleet.keys())  # noqa: SIM118
        return {(view.application, view.query): view.run_id for view in found if view.up}


ENDS = ["stopped", "failed", "driver ended", "silent"]
COPY = ("shop-local-2", "orders")


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("place", ["/ck", "s3a://moved/ck"])
def test_a_restart_that_overlaps_for_some_seconds_is_one_query(
    place: str, how: str, *, saved: bool
) -> None:
    two = TwoDrivers(place=place, saved=saved)
    two.goes_on(10.0)
    two.ends(two.first, how)
    two.goes_on(60.0)
    assert two.fleet.keys() == [KEY]
    assert two.runs() == {KEY: "r-2"}
    assert two.fleet.totals.name_collisions == 0
    assert [grant.runId for grant in two.batch(two.later).grants] == ["r-2"]


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("place", ["/ck", "/copy"])
def test_a_copy_of_a_checkpoint_that_runs_beside_leaves_the_first_one_steered(
    place: str, *, saved: bool
) -> None:
    """Spark's id of a query is in its checkpoint: one that runs from a copy has it too."""
    two = TwoDrivers(place=place, saved=saved)
    before = two.fleet.view(KEY, two.first.time)
    two.goes_on(30.0)
    assert two.runs() == {KEY: "r-1", COPY: "r-2"}
    assert two.fleet.totals.name_collisions == 1
    after = two.fleet.view(KEY, two.first.time)
    assert after.totals.batches == before.totals.batches
    assert (after.application_id, after.checkpoint_location) == ("local-1", "/ck")
    assert two.fleet.view(COPY, two.first.time).checkpoint_location == place
    for one in (two.first, two.later):
        assert [grant.runId for grant in two.batch(one).grants] == [one.run_id]
    two.fleet.control(*KEY, Order(who="kim", mode="off"), two.first.time)
    said = two.first.progress(5_000, 5.0, limit=5_000, configured=10_000, backlog=10**6)
    (grant,) = send(two.fleet, two.first, said).grants
    assert (grant.runId, grant.reason) == ("r-1", "mode:off")
    two.ends(two.later, "stopped")
    two.goes_on(60.0)
    assert two.runs() == {KEY: "r-1"}


@pytest.mark.parametrize("how", ENDS)
def test_an_end_beside_a_copy_is_told_and_beside_the_next_run_is_none(how: str) -> None:
    """Of one place there are never two for long: Spark ends one. So the other one is the next."""
    names = {}
    for place in ("/ck", "/copy"):
        two = TwoDrivers(place=place)
        two.goes_on(30.0)
        two.ends(two.first, how)
        two.goes_on(60.0)
        names[place] = two.runs()
    missed = how in ("failed", "driver ended")
    assert names == {"/ck": {KEY: "r-2"}, "/copy": {COPY if missed else KEY: "r-2"}}


@pytest.mark.parametrize("restarts", [0, MOST_PAST_RUNS + 2])
@pytest.mark.parametrize("how", ["stopped", "failed", "driver ended"])
def test_an_old_driver_that_fell_silent_takes_no_name_from_the_next_with_its_end(
    how: str, restarts: int
) -> None:
    two = TwoDrivers(place="/ck")
    for number in range(3, 3 + restarts):
        two.ends(two.live[0], "stopped")
        two.live.append(two.driver(number))
        send(two.fleet, two.live[1], two.live[1].started())
        two.goes_on(5.0)
    old, new = two.live
    two.goes_on(30.0)
    assert two.runs()[KEY] == old.run_id
    two.live.remove(old)
    two.goes_on(20.0)
    assert two.runs() == {KEY: new.run_id}
    before = two.fleet.view(KEY, two.first.time).totals.batches
    two.live.append(old)
    two.ends(old, how)
    assert two.runs() == {KEY: new.run_id}
    assert two.fleet.view(KEY, two.first.time).totals.batches == before
    assert [grant.runId for grant in two.batch(new).grants] == [new.run_id]
    two.goes_on(60.0)
    assert two.fleet.keys() == [KEY]


def test_a_driver_that_fell_silent_beside_a_copy_has_its_name_again_when_it_speaks_again() -> None:
    two = TwoDrivers(place="/copy")
    two.goes_on(30.0)
    two.live.remove(two.first)
    two.goes_on(20.0)
    assert two.runs() == {KEY: "r-2"}
    two.live.append(two.first)
    two.goes_on(30.0)
    assert two.runs() == {KEY: "r-1", COPY: "r-2"}
    for one in (two.first, two.later):
        assert [grant.runId for grant in two.batch(one).grants] == [one.run_id]


@pytest.mark.parametrize("ahead", [False, True])
def test_what_a_copy_read_in_the_first_one_s_place_calls_that_one_not_rewound(
    *, ahead: bool
) -> None:
    """It begins where the checkpoint was when it was copied, and may read faster from there."""
    two = TwoDrivers(place="/copy")

    def batch(of: Driver, end: int) -> str:
        at = {"startOffset": {"t": {"0": end - 10}}, "endOffset": {"t": {"0": end}}}
        source = {"description": "KafkaV2", **at, "latestOffset": {"t": {"0": end}}}
        send(two.fleet, of, of.progress(10, 1.0, sources=[{**source, "numInputRows": 10}]))
        two.first.time = of.time
        key = two.fleet.keys_by_run()[of.run_id]
        return two.fleet.view(key, of.time).lag_state

    two.later.batch_id = two.first.batch_id if ahead else two.first.batch_id - 5
    assert (batch(two.later, 2_000 if ahead else 500) == "REWIND") is not ahead
    two.goes_on(30.0)
    assert two.runs() == {KEY: "r-1", COPY: "r-2"}
    for end in (1_000, 1_010):
        assert batch(two.first, end) == "OK"


def test_copies_that_fail_again_and_again_leave_the_first_one_steered() -> None:
    """Each within the time in which a driver that says nothing counts as gone."""
    two = TwoDrivers(place="/copy")
    for number in range(3, 10):
        two.goes_on(5.0)
        two.ends(two.live[-1], "failed")
        two.live.append(two.driver(number))
        send(two.fleet, two.live[-1], two.live[-1].started(checkpointLocation="/copy"))
    two.goes_on(30.0)
    assert two.runs() == {KEY: "r-1", ("shop-local-9", "orders"): "r-9"}
    assert [grant.runId for grant in two.batch(two.first).grants] == ["r-1"]


@pytest.mark.parametrize("back_seconds", [0.0, 3_600.0])
def test_an_agent_whose_clock_was_set_back_as_it_started_again_gives_the_first_one_its_name(
    back_seconds: float,
) -> None:
    two = TwoDrivers(place="/copy")
    two.goes_on(5.0)
    two.first.time -= back_seconds
    for one in two.live:
        one.time = two.first.time
    two.fleet = Fleet.restore(POLICY, two.fleet.changes(), started_time=two.first.time)
    two.fleet.wake()
    two.goes_on(30.0)
    assert two.runs() == {KEY: "r-1", COPY: "r-2"}
    assert [grant.runId for grant in two.batch(two.first).grants] == ["r-1"]


@pytest.mark.parametrize("down_seconds", [5.0, 20.0])
@pytest.mark.parametrize("how", ENDS)
def test_a_copy_that_starts_again_is_the_copy_and_takes_nothing_from_the_first_one(
    how: str, down_seconds: float
) -> None:
    """Each time in an application of its own, as pods do."""
    two = TwoDrivers(place="/copy")
    two.goes_on(30.0)
    for number in range(3, 6):
        two.ends(two.live[-1], how)
        two.goes_on(down_seconds)
        two.live.append(two.driver(number))
        send(two.fleet, two.live[-1], two.live[-1].started(checkpointLocation="/copy"))
        copy = (f"shop-local-{number}", "orders")
        for _ in range(2):
            assert two.runs() == {KEY: "r-1", copy: f"r-{number}"}
            assert [grant.runId for grant in two.batch(two.first).grants] == ["r-1"]
            two.goes_on(30.0)
        assert two.fleet.keys() == [KEY, copy]


@pytest.mark.parametrize("lives", [False, True])
def test_the_first_one_that_starts_again_beside_a_copy_is_the_first_one(*, lives: bool) -> None:
    two = TwoDrivers(place="/copy")
    two.goes_on(30.0)
    if not lives:
        two.ends(two.later, "failed")
    again = two.driver(3)
    send(two.fleet, again, again.started(checkpointLocation="/ck"))
    two.live.append(again)
    two.goes_on(10.0)
    two.ends(two.first, "driver ended")
    up = {KEY: "r-3", COPY: "r-2"} if lives else {KEY: "r-3"}
    for _ in range(2):
        assert two.runs() == up
        two.goes_on(30.0)
    assert two.fleet.keys() == [KEY, COPY]
    assert two.fleet.totals.name_collisions == 1


def test_of_two_copies_each_that_starts_again_is_itself() -> None:
    two = TwoDrivers(place="/copy")
    two.goes_on(30.0)
    other = two.driver(3)
    send(two.fleet, other, other.started(checkpointLocation="/other"))
    two.live.append(other)
    two.goes_on(30.0)
    two.ends(other, "failed")
    again = two.driver(4)
    send(two.fleet, again, again.started(checkpointLocation="/other"))
    two.live.append(again)
    two.goes_on(30.0)
    assert two.runs() == {KEY: "r-1", COPY: "r-2", ("shop-local-4", "orders"): "r-4"}
    assert len(two.fleet.keys()) == 3


@pytest.mark.parametrize("down_seconds", [5.0, 20.0])
def test_a_restart_that_fails_beside_the_old_driver_leaves_no_series_that_is_missed(
    down_seconds: float,
) -> None:
    two = TwoDrivers(place="/ck")
    two.goes_on(30.0)
    two.ends(two.later, "silent")
    two.goes_on(down_seconds)
    third = two.driver(3)
    two.live.append(third)
    send(two.fleet, third, third.started())
    two.goes_on(10.0)
    two.ends(two.first, "silent")
    two.goes_on(60.0)
    assert two.runs() == {KEY: "r-3"}
    assert two.fleet.keys() == [KEY]


def test_an_agent_that_stood_still_takes_no_heartbeat_that_waited_for_one_of_now() -> None:
    two = TwoDrivers(place="/ck")
    two.ends(two.first, "silent")
    for seconds in (20.0, 1.0):
        two.first.time += seconds  # nothing came through; then what one had to say still
        send(two.fleet, two.first, two.first.heartbeat(two.first.batch_id + 1, 1.0))
        two.fleet.tick(two.first.time)
    two.goes_on(60.0)
    assert two.fleet.keys() == [KEY]
    assert two.runs() == {KEY: "r-2"}


@pytest.mark.parametrize("application_id", ["local-1", "local-2"])
@pytest.mark.parametrize("hangs", ["first", "second", "both"])
def test_a_probe_by_name_ends_no_driver_for_what_another_one_of_the_name_does(
    hangs: str, application_id: str
) -> None:
    """Both pods ask by the name alone; a name that was made for one is asked of that one."""
    policy = Policy(default=QueryPolicy(deadline_seconds=60.0))
    all_, one = Fleet(policy, started_time=START_TIME - 1000), Driver()
    send(all_, one, one.started(), one.progress(10, 1.0))
    two = session(one, 2, application_id)
    send(all_, two, two.started(), two.progress(10, 1.0))
    second = beside(all_)
    begun = two.time
    for seconds in range(5, 80, 5):
        for driver, name in ((one, "first"), (two, "second")):
            driver.time, driver.sequence = begun + seconds, max(one.sequence, two.sequence)
            runs = hangs in (name, "both")
            send(all_, driver, driver.heartbeat(1, seconds) if runs else driver.progress(10, 1.0))
        all_.tick(one.time)
    by_name = all_.liveness(*KEY, one.time)
    assert by_name.ok is (hangs != "both")
    assert all_.liveness(*second, one.time).ok is (hangs == "first")
    two.sequence = max(one.sequence, two.sequence)
    send(all_, two, two.terminated())
    assert all_.liveness(*KEY, two.time).ok is (hangs == "second")


def test_of_a_driver_from_before_its_own_start_an_agent_knows_nothing() -> None:
    first = fleet()
    one = Driver()
    send(first, one, one.progress(10, 1.0))
    later = Fleet.restore(POLICY, first.changes(), started_time=one.time + 500)
    assert later.liveness(*KEY, one.time + 510).why == "starting"
    assert later.liveness(*KEY, one.time + 600).why == "unknown"
    one.time += 700
    send(later, one, one.progress(10, 1.0))
    assert later.liveness(*KEY, one.time + 20).why == "silent"


def test_executors_of_applications_that_are_gone_are_forgotten() -> None:
    """Each of its own name, as of jobs with a date in it; and one that never had a query."""
    all_ = fleet()
    told = {"present": 2, "slots": 2}
    for number in range(50):
        one = Driver(
            application=f"shop-{number}",
            application_id=f"local-{number}",
            instance=f"listener-{number}",
            run_id=f"r-{number}",
            time=START_TIME + 4_000.0 * number,
        )
        queries = [] if number % 2 else [{**one.ids(), "batchId": None, "running_seconds": None}]
        beat = one.event("heartbeat", {"queries": queries, "executors": told})
        send(all_, one, beat, *([] if number % 2 else [one.progress(10, 1.0), one.terminated()]))
        for _ in range(2):
            all_.tick(one.time + 1.0)
    assert len(all_._clusters._known) < 3


@pytest.mark.parametrize("known_first", [True, False])
def test_a_heartbeat_with_one_query_too_many_is_heard_of_the_rest(*, known_first: bool) -> None:
    all_ = Fleet(Policy(max_queries=1), started_time=START_TIME - 1000)
    one = Driver()
    send(all_, one, one.progress(10, 1.0))
    one.time += 14.0
    known = {**one.ids(), "batchId": 1, "running_seconds": 13.0}
    other = {**known, "id": "q-2", "runId": "r-2", "name": "second"}
    queries = [known, other] if known_first else [other, known]
    beat = {"queries": queries, "executors": {"present": 2, "slots": 2}}
    receipt = send(all_, one, one.event("heartbeat", beat))
    assert "already follows 1 queries" in receipt.refused[0].error
    one.time += 10.0
    all_.tick(one.time)
    view = all_.view(KEY, one.time)
    assert view.up
    assert view.running_batch_id == 1
    assert view.executors is not None


def test_many_restarts_leave_nothing_behind() -> None:
    all_ = fleet()
    for number in range(300):
        one = Driver(
            application_id=f"local-{number}",
            instance=f"listener-{number}",
            run_id=f"r-{number}",
            time=START_TIME + 60.0 * number,
        )
        send(all_, one, one.started(), one.progress(10, 1.0))
        all_.tick(one.time)
    assert all_.keys() == [KEY]
    assert len(all_._roster._keys) < 70  # an hour of them: their late words are known
    assert len(all_._roster[KEY].displaced) <= MOST_PAST_RUNS
    while one.time < START_TIME + 60.0 * 300 + POLICY.forget_seconds:  # the last one lives on
        one.time += 10.0
        send(all_, one, one.heartbeat(1, 1.0))
        all_.tick(one.time)
    assert all_._roster[KEY].displaced == []
    late = Driver(application_id="last", instance="listener-l", run_id="l", time=one.time)
    send(all_, late, late.started())
    assert [run.run_id for run in all_._roster[KEY].displaced] == [one.run_id]
    driver = Driver(application_id="long", instance="listener-x", time=START_TIME + 30_000)
    for number in range(50):
        driver.query_id, driver.run_id = f"id-{number}", f"run-{number}"
        send(all_, driver, driver.started(), driver.progress(10, 1.0, limit=100, configured=100))
        reply = send(all_, driver, driver.terminated(None))
    assert len(reply.grants) <= 1
    assert len(all_._roster._keys["long"]) <= 8


def test_two_live_applications_of_one_name_have_listener_series_of_their_own() -> None:
    all_ = fleet()
    one, two = Driver(), Driver(application_id="local-2", instance="listener-2", query_id="q-2")
    for _ in range(3):
        send(all_, one, one.progress(1, 1.0))
        two.time = one.time
        send(all_, two, two.progress(1, 1.0))
    found = [view.application for view in all_.listeners(one.time)]
    assert sorted(found) == ["shop", "shop-local-2"]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_two_listeners_of_one_application_count_is_one_sum_that_never_falls(
    *, restarts: bool
) -> None:
    """As of two notebooks on one cluster; or of one that is started anew and counts from zero."""
    all_, saved = fleet(), dict[str, bytes]()
    counts: dict[str, list[float]] = {"a": [0, 0, 0.0], "b": [5, 40, 0.5], "new": [0, 1, 0.25]}
    steps = (1, 7, 0.125)
    sequences = dict.fromkeys(counts, 0)
    time, told = START_TIME, [(0.0, 0.0, 0.0)]
    for instance in ("a", "b", "a", "b", "b", "a", "a", "new", "a", "new"):
        time += float(instance == "a")  # the others are heard at the same time
        one = Driver(instance=instance, sequence=sequences[instance], time=time)
        body = json.loads(one.body(one.heartbeat()))
        sequences[instance] = one.sequence
        counts[instance] = [
            count + step for count, step in zip(counts[instance], steps, strict=True)
        ]
        dropped, calls, seconds = counts[instance]
        body["listener"] |= {
            "queue_length": 3 if instance == "b" else 2,
            "dropped_total": dropped,
            "callbacks_total": calls,
            "callback_seconds_total": seconds,
        }
        all_.receive(decode_request(json.dumps(body).encode()), time)
        if restarts:
            saved |= {one.part: one.data for one in all_.changes() if one.data is not None}
            changes = [Change(part, data) for part, data in saved.items()]
            all_ = Fleet.restore(POLICY, changes, started_time=time)
        (view,) = all_.listeners_together(time)
        assert (view.application, view.last_heard_time) == ("shop", time)
        counted = view.counters
        told.append(
            (counted.dropped_total, counted.callbacks_total, counted.callback_seconds_total)
        )
        heard = [one for one, sequence in sequences.items() if sequence]
        assert view.queue_length == sum(3 if one == "b" else 2 for one in heard)
        assert told[-1] == tuple(sum(counts[one][at] for one in heard) for at in range(3))
        assert all(now > then for now, then in zip(told[-1], told[-2], strict=True))
    time += POLICY.silent_seconds + 1.0
    body["listener"]["queue_length"] = 1
    all_.receive(decode_request(json.dumps(body).encode()), time)
    (view,) = all_.listeners_together(time)
    assert view.queue_length == 1, "what the others held nobody knows any more"


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    "steps",
    [
        # Who tells, what it has counted, whether that can be taken in; what all have counted then.
        [("a", 100, True, 100), ("b", 50, True, 150), ("a", 101, False, 150), ("b", 51, True, 151)],
        [("a", 200, True, 200), ("a", 150, True, 200), ("a", 201, True, 201)],
    ],
    ids=["heard, but not counted", "sent before, arrived after"],
)
def test_neither_who_is_only_heard_nor_a_late_request_changes_what_listeners_have_counted(
    steps: list[tuple[str, int, bool, int]], *, restarts: bool
) -> None:
    """A sum that falls reads as a restart: all of it would be counted again, or a part twice."""
    all_, saved = fleet(), dict[str, bytes]()
    for number, (instance, calls, taken, counted) in enumerate(steps):
        one = Driver(instance=instance, sequence=number, time=START_TIME + number)
        body = json.loads(one.body(one.heartbeat()))
        totals = dict.fromkeys(
            ("dropped_total", "callbacks_total", "callback_seconds_total"), calls
        )
        body["listener"] |= totals
        request = decode_request(json.dumps(body).encode())
        (all_.receive if taken else all_.hear)(request, one.time)
        saved |= {part.part: part.data for part in all_.changes() if part.data is not None}
        if restarts and taken:
            changes = [Change(part, data) for part, data in saved.items()]
            all_ = Fleet.restore(POLICY, changes, started_time=one.time)
        (view,) = all_.listeners_together(one.time)
        assert view.last_heard_time == one.time
        assert {getattr(view.counters, total) for total in totals} == {counted}


def test_what_listeners_have_counted_is_not_less_after_the_agents_clock_was_set_back() -> None:
    """Who was heard last by the clock before is not who was counted last."""
    all_, saved = fleet(), dict[str, bytes]()
    counts, sequences = {"a": 100, "b": 50}, {"a": 0, "b": 0}
    for started, heard in ((0.0, "ab"), (-500.0, "a"), (-400.0, "")):
        if saved:
            changes = [Change(part, data) for part, data in saved.items()]
            all_ = Fleet.restore(POLICY, changes, started_time=START_TIME + started)
            all_.wake()
        for instance in heard:
            counts[instance] += 1
            one = Driver(
                instance=instance, sequence=sequences[instance], time=START_TIME + started + 1.0
            )
            body = json.loads(one.body(one.heartbeat()))
            sequences[instance] = one.sequence
            body["listener"]["callbacks_total"] = counts[instance]
            all_.receive(decode_request(json.dumps(body).encode()), one.time)
        saved |= {part.part: part.data for part in all_.changes() if part.data is not None}
        (view,) = all_.listeners_together(START_TIME + started + 1.0)
        assert view.counters.callbacks_total == sum(counts.values())


@pytest.mark.parametrize("restarts", [False, True])
def test_a_name_that_went_over_to_another_application_is_that_ones_alone(*, restarts: bool) -> None:
    """Who had it comes back after a silence: one series would tell of two listeners in turn."""
    all_ = fleet()
    one, two = Driver(), Driver(application_id="local-2", instance="listener-2", query_id="q-2")
    send(all_, one, one.progress(1, 1.0))
    two.time = one.time + POLICY.silent_seconds + 1.0
    send(all_, two, two.progress(1, 1.0))
    if restarts:
        all_ = Fleet.restore(POLICY, all_.changes(), started_time=two.time)
    one.time = two.time
    for _ in range(3):
        for driver in (one, two):
            one.time = two.time = one.time + 1.0
            send(all_, driver, driver.heartbeat())
        found = {view.listener.instance: view.application for view in all_.listeners(one.time)}
        assert found == {"listener-1": "shop-local-1", "listener-2": "shop"}
    one.time = two.time + POLICY.silent_seconds + 1.0
    send(all_, one, one.heartbeat())
    assert all_._senders[one.instance].application == "shop", "once the other is silent"


def test_who_is_heard_is_looked_for_among_no_others() -> None:
    """A driver that starts each minute leaves thousands of instances in a day."""

    class Known(dict[str, Sender]):
        def values(self) -> Any:
            raise AssertionError("all of them")

        items = __iter__ = values

    senders = Senders(POLICY)
    senders._senders = Known()
    driver = Driver()
    for number in range(100):
        driver.application_id, driver.instance = f"local-{number}", f"listener-{number % 10}"
        driver.application = f"shop-{number // 20}"
        senders.hear(decode_request(driver.body()), START_TIME + number)
    assert len(senders._named) <= 10, "no names that nobody has any more"


def test_what_brokers_said_is_not_shown_for_ever() -> None:
    all_ = fleet()
    one = Driver()
    send(all_, one, one.progress(10, 1.0))
    view = PartitionView(
        source=0,
        topic="orders",
        partition="0",
        backlog_rows=5,
        lost_rows=0,
        retention_loss_seconds=None,
    )
    all_.hear_partitions(KEY, "q-1", 0, [view], one.time, valid_seconds=150.0)
    assert all_.view(KEY, one.time + 149).partitions
    assert not all_.view(KEY, one.time + 151).partitions
    one.run_id = "r-2"
    send(all_, one, one.started())
    assert all_.view(KEY, one.time).partitions, "it goes on where it was"
    send(all_, one, one.terminated("x"))
    one.query_id, one.run_id = "q-2", "r-3"
    send(all_, one, one.started())
    assert not all_.view(KEY, one.time).partitions


@pytest.mark.parametrize(("exception", "asked"), [(None, False), ("java.io.IOException: x", True)])
def test_brokers_are_asked_on_about_a_query_that_failed(exception: str | None, asked: bool) -> None:
    """What it has not read may be deleted before it comes back; of one that was stopped, let it."""
    all_ = fleet()
    all_.keep_offsets()
    one = Driver()
    offsets = {"t": {"0": 10}}
    source = {"description": "KafkaV2", "startOffset": offsets, "endOffset": offsets}
    send(all_, one, one.progress(10, 1.0, sources=[{**source, "numInputRows": 10}]))
    assert all_.readings().keys() == {KEY}
    send(all_, one, one.terminated(exception))
    assert bool(all_.readings()) == asked
    assert all_.view(KEY, one.time).stopped != asked
    one.run_id = "r-2"
    send(all_, one, one.started())
    assert not all_.view(KEY, one.time).stopped
    assert all_.readings().keys() == {KEY}, "it goes on where it was, however long a batch takes"
    send(all_, one, one.terminated("x"))
    one.query_id, one.run_id = "q-2", "r-3"
    send(all_, one, one.started())
    assert not all_.readings(), "a new checkpoint begins elsewhere"


def test_what_is_read_is_not_taken_for_another_source_s() -> None:
    all_ = fleet()
    all_.keep_offsets()
    one = Driver()

    def limits(*names: str) -> list[dict[str, Any]]:
        return [
            {"source": index, "unit": "rows", "limit": None, "configured": None, "identity": name}
            for index, name in enumerate(names)
        ]

    sources = [
        {"description": "KafkaV2", "startOffset": at, "endOffset": at, "numInputRows": 10}
        for at in ({"s": {"0": 10}}, {"t": {"0": 10}})
    ]
    send(all_, one, one.progress(20, 1.0, sources=sources, limits=limits("s", "t")))
    one.run_id = "r-2"
    send(all_, one, one.started(), one.heartbeat(limits=limits("s", "t of more topics")))
    assert all_.readings().keys() == {KEY}
    one.run_id = "r-3"
    send(all_, one, one.started(), one.heartbeat(limits=limits("t of more topics", "s")))
    assert not all_.readings()


@pytest.mark.parametrize(
    ("running", "end", "level"),
    [
        (None, {}, "ended"),
        (5.0, {}, "ended"),
        (None, {"driverEnded": True}, "lost"),  # nobody stopped it: its driver went
        (5.0, {"exception": "java.io.IOException: x"}, "failed"),
        (61.0, {}, "failed"),  # ended for its age, by whoever watches the deadline
    ],
)
def test_who_stopped_a_query(running: float | None, end: dict, level: str) -> None:  # type: ignore[type-arg]
    all_ = Fleet(Policy(default=QueryPolicy(deadline_seconds=60.0)), started_time=START_TIME - 1000)
    one = Driver()
    for _ in range(3):
        send(all_, one, one.progress(10, 1.0))
    if running is not None:
        one.time += running
        send(all_, one, one.heartbeat(one.batch_id + 1, running))
    event = one.terminated(None)
    event["body"] |= end
    send(all_, one, event)
    view = all_.view(KEY, one.time)
    assert (view.up, view.stopped) == (False, level == "ended")
    assert view.attention.level == level


def test_a_query_that_is_stopped_before_its_first_batch_ends_whatever_its_last_run_ran_into() -> (
    None
):
    all_ = fleet()
    one = Driver()
    send(all_, one, one.progress(10, 1.0), one.terminated("java.io.IOException: x"))
    assert all_.view(KEY, one.time).attention.level == "failed"
    one.run_id = "r-2"
    send(all_, one, one.started(), one.terminated())
    assert all_.view(KEY, one.time).attention.level == "ended"


#: How a driver ends; whether it speaks first, and whether each time that is a failure.
DRIVERS_END = [
    ("without a word, killed or by SIGTERM", None, 0),
    ("killed, and seen by who watches it", {"driverEnded": True, "driverKilled": True}, 4),
    ("stopped with its query", {}, 0),
    ("stopped under it, as by a rollout", {"driverEnded": True}, 0),
]


@pytest.mark.parametrize("told", ["by its listener", "by a log"])
@pytest.mark.parametrize("yarn", [False, True])
@pytest.mark.parametrize(("_how", "end", "failures"), DRIVERS_END)
def test_a_driver_that_is_seen_to_be_killed_has_failed(
    _how: str,
    end: dict,  # type: ignore[type-arg]
    failures: int,
    *,
    yarn: bool,
    told: str,
) -> None:
    """Each time in another batch, and back after a minute. On YARN its application may go on."""
    all_ = fleet()
    one = Driver(clock_origin=START_TIME if told == "by its listener" else None)
    for number in range(5):
        send(all_, one, one.started(), one.progress(10, 1.0), one.progress(10, 1.0))
        one.time += 5.0
        send(all_, one, one.heartbeat(one.batch_id + 1, 5.0))
        if number == 4:
            break
        if end is not None:
            event = one.terminated()
            event["body"] |= end
            send(all_, one, event)
        for _ in range(12):
            one.time += 5.0
            all_.tick(one.time)
        one.instance, one.run_id = f"listener-{number + 2}", f"r-{number + 2}"
        one.application_id = one.application_id if yarn else f"local-{number + 2}"
        one.clock_origin = None if one.clock_origin is None else one.clock_origin + 60.0
    totals = all_.view(KEY, one.time).totals
    assert totals.batches.get("failed", 0) == failures
    assert totals.failures == ({"unknown": failures} if failures else {})


@pytest.mark.parametrize("overlaps", [False, True])
def test_a_run_that_begins_before_the_end_of_the_last_one_is_told_was_not_killed(
    *, overlaps: bool
) -> None:
    """Spark tells a start at once, an end later; an old driver may go as the new one runs."""
    all_ = fleet()
    one = Driver(clock_origin=START_TIME)
    send(all_, one, one.progress(10, 1.0), one.heartbeat(one.batch_id + 1, 1.0))
    new = Driver(run_id="r-2", time=one.time + 1.0, sequence=one.sequence, clock_origin=START_TIME)
    if overlaps:
        new.application_id, new.instance = "local-2", "listener-2"
    all_.tick(new.time)
    send(all_, new, new.started())
    one.sequence = new.sequence
    send(all_, one, one.terminated())
    assert all_.view(KEY, new.time).totals.failures == {}


def test_who_is_alive_is_noted_without_taking_events_in() -> None:
    all_ = fleet()
    one = Driver()
    send(all_, one, one.progress(10, 1.0))
    before = all_.view(KEY, one.time).totals
    all_.changes()
    for _ in range(10):
        one.time += 5.0
        all_.hear(decode_request(one.body(one.heartbeat(1, 3.0))), one.time)
        all_.tick(one.time)
    assert all_.view(KEY, one.time).up
    assert all_.liveness(*KEY, one.time).ok
    assert all_.view(KEY, one.time).totals == before
    assert all_.changes() == []


def known(all_: Fleet) -> int:
    return len(all_._senders._senders)


def test_listeners_are_bounded_in_number_and_the_live_ones_stay() -> None:
    policy = Policy(max_queries=5)
    all_ = Fleet(policy, started_time=START_TIME - 1000)
    live = [
        Driver(
            application_id=f"live-{n}",
            instance=f"live-{n}",
            query_id=f"q-{n}",
            run_id=f"r-{n}",
            query=f"query-{n}",
        )
        for n in range(5)
    ]
    for driver in live:
        send(all_, driver, driver.started(), driver.progress(10, 1.0))
    saved = {change.part for change in all_.changes()}
    for number in range(1000):
        stranger = Driver(
            application_id=f"other-{number}", instance=f"other-{number}", time=START_TIME + number
        )
        send(all_, stranger)
        for change in all_.changes():
            (saved.add if change.data is not None else saved.discard)(change.part)
    # Two listeners of a run before, two of an event log, and those without a query.
    assert 100 < known(all_) <= 100 + 4 * 5
    assert len(saved) <= known(all_) + 6
    for driver in live:
        assert all_.counted(driver.instance) == driver.sequence
        assert all_.has_listener(driver.application_id)
    # Saved and forgotten in one: what is restored is what is known.
    again = Fleet.restore(policy, all_.changes(), started_time=START_TIME)
    assert known(again) <= known(all_)


def test_restarts_of_all_that_may_be_followed_forget_no_live_listener() -> None:
    policy = Policy(max_queries=50)
    all_ = Fleet(policy, started_time=START_TIME - 1000)
    for restart in range(8):
        drivers = [
            Driver(
                application_id=f"app-{n}-{restart}",
                instance=f"{n}-{restart}",
                query_id=f"q-{n}",
                run_id=f"r-{n}-{restart}",
                query=f"query-{n}",
                time=START_TIME + 60.0 * restart,
            )
            for n in range(50)
        ]
        for driver in drivers:
            assert send(all_, driver, driver.started(), driver.progress(10, 1.0)).refused == []
        assert all(all_.counted(driver.instance) == 2 for driver in drivers)


@pytest.mark.parametrize(
    ("section", "field", "longest"),
    [
        ("application", "id", 200),
        ("listener", "instance", 200),
        ("listener", "host", 253),
        ("application", "spark_version", 200),
    ],
)
def test_what_is_kept_of_a_listener_is_short(section: str, field: str, longest: int) -> None:
    one = Driver()
    body = json.loads(one.body(one.heartbeat()))
    body[section][field] = "x" * longest
    decode_request(json.dumps(body).encode())
    body[section][field] += "x"
    with pytest.raises(MalformedRequest, match=f"{section}.{field} is longer than {longest}"):
        decode_request(json.dumps(body).encode())


def test_orders_saved_without_their_time_are_dated_when_they_are_read() -> None:
    """An older agent noted none, and an alert counts from it."""
    all_, one = fleet(), Driver()
    all_.control("*", "*", Order(who="kim", mode="off"), one.time)
    send(all_, one, one.started())
    all_._state.agent.standing = [msgspec.structs.replace(all_._state.agent.standing[0], time=None)]
    all_._roster[KEY].orders.mode_time = None
    started_time = one.time + 50.0
    again = Fleet.restore(POLICY, all_.changes(), started_time=started_time)
    assert again.view(KEY, started_time).mode_since_time == started_time
    assert [order.time for order in again._state.agent.standing] == [started_time]
