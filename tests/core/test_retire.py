"""A query that is gone: how long it is told of, and who ends that."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet, Order, UnknownQuery
from agent.core.policy import Policy, Rule
from tests.core.events import START_TIME, Driver

FAILED = "org.apache.spark.SparkException: Connection refused"
HOUR = 3600.0
RETIRE = Order(who="kim", retire=True)


def fleet(**policy: Any) -> Fleet:
    return Fleet(Policy(**policy), started_time=START_TIME - 1000)


def run(to: Fleet, name: str, end: str = "", exception: str | None = None) -> Driver:
    """A driver with one query, which may end."""
    driver = Driver(
        application_id=f"id-{name}",
        application=name,
        instance=name,
        query_id=name,
        run_id=f"{name}-1",
        query=name,
    )
    events = [driver.started(), driver.progress(10, 1.0)]
    if end:
        ends = {**driver.ids(), "exception": exception, "errorClassOnException": None}
        events.append(driver.event("terminated", ends))
    to.receive(decode_request(driver.body(*events)), driver.time + 0.05)
    return driver


def namesake() -> Driver:
    """Of another application, with the name of the query ``one``."""
    return Driver(
        application_id="id-2",
        application="one",
        instance="two",
        query_id="two",
        run_id="two-1",
        query="one",
    )


def after(to: Fleet, seconds: float) -> list[str]:
    """Names of the queries that are still told of, so long after."""
    to.tick(START_TIME + 30.0)  # by then what is silent is gone
    to.tick(START_TIME + 30.0 + seconds)
    return sorted(view.query for view in to.views(START_TIME + 30.0 + seconds))


@pytest.mark.parametrize(
    ("end", "exception", "rules", "told"),
    [
        # A query that its owner stopped, for `forget_seconds`.
        ("terminated", None, {}, (0.9 * HOUR, 1.1 * HOUR)),
        # One that failed or fell silent, until it is retired.
        ("terminated", FAILED, {}, (1e9, None)),
        ("", None, {}, (1e9, None)),
        # Or as a rule says.
        ("terminated", FAILED, {"retire_seconds": 60.0}, (25.0, 95.0)),
        ("", None, {"retire_seconds": 60.0}, (59.0, 61.0)),
        ("", None, {"retire_seconds": 10 * HOUR}, (9 * HOUR, 11 * HOUR)),
        # That of another query says nothing of it.
        ("", None, {"match": "another", "retire_seconds": 60.0}, (1e9, None)),
    ],
)
def test_how_long_it_is_told_of(
    end: str,
    exception: str | None,
    rules: dict[str, Any],
    told: tuple[float, float | None],
) -> None:
    rule = (Rule(**{"match": "one", **rules}),) if rules else ()
    still, no_more = told
    assert after(_with(end, exception, rule), still) == ["one"]
    if no_more is not None:
        assert after(_with(end, exception, rule), no_more) == []


def _with(end: str, exception: str | None, rules: tuple[Rule, ...]) -> Fleet:
    to = fleet(rules=rules)
    run(to, "one", end, exception)
    return to


@pytest.mark.parametrize(
    ("name", "place", "comes_back"),
    [
        ("", "file:/tmp/temporary-6b29fc40-ca47-1067-b31d-00dd010662da", False),
        ("", "s3a://lake/ck/orders", True),
        ("orders", "file:/tmp/temporary-6b29fc40-ca47-1067-b31d-00dd010662da", True),
    ],
)
def test_one_without_a_name_and_a_checkpoint_of_its_own_is_another_at_its_next_start(
    name: str, place: str, *, comes_back: bool
) -> None:
    """So nobody waits for it for ever: each deploy would leave an alarm that nothing ends."""
    to = fleet()
    driver = Driver(query_id="q-1", query=name)
    started = driver.started(checkpointLocation=place)
    to.receive(decode_request(driver.body(started, driver.progress(10, 1.0))), driver.time + 0.05)
    told = {view.query for view in to.views(START_TIME)}
    assert told == {name or "q-1"}
    assert len(after(to, 0.9 * HOUR)) == 1
    assert len(after(to, 1.1 * HOUR)) == comes_back


def test_one_order_retires_all_that_are_gone_and_none_that_runs() -> None:
    to = fleet()
    for name in ("failed", "lost"):
        run(to, name, "terminated", FAILED)
    live = run(to, "live")
    now = live.time + 1.0
    records = to.control("*", "*", RETIRE, now)
    assert [(one.query, one.what) for one in records] == [("failed", "retire"), ("lost", "retire")]
    assert to.keys() == [("live", "live")]
    with pytest.raises(ValueError, match=r"live/live runs: only a query that is gone"):
        to.control("*", "*", RETIRE, now)
    with pytest.raises(UnknownQuery):
        to.control("failed", "failed", RETIRE, now)
    with pytest.raises(ValueError, match="comes back by itself"):
        to.control("live", "live", Order(who="kim", retire=False), now)


def test_what_was_lost_with_its_agent_is_gone_since_then_and_kept_from_its_return_on() -> None:
    """Where it ended elsewhere meanwhile, that is later than it was lost here."""
    before = fleet()
    driver = run(before, "one")
    policy = Policy(rules=(Rule(match="*", retire_seconds=HOUR),))
    back = driver.time + 3 * HOUR
    again = Fleet.restore(policy, before.changes(), started_time=back)
    again.wake()
    for seconds in (0.0, 5.0, 10.0, 15.0, 20.0, 25.0):
        again.tick(back + seconds)
    (view,) = again.views(back + 25.0)
    assert not view.up
    assert view.gone_since_time == pytest.approx(driver.time + policy.silent_seconds, abs=0.1)
    again.tick(back + HOUR)
    assert len(list(again.views(back + HOUR))) == 1
    again.tick(back + HOUR + 30.0)
    assert list(again.views(back + HOUR + 30.0)) == []


def test_what_was_retired_is_gone_from_what_is_saved_and_comes_back_as_a_new_one() -> None:
    to = fleet()
    driver = run(to, "one", "terminated", FAILED)
    to.changes()
    to.control("one", "one", RETIRE, driver.time + 1.0)
    (forgotten,) = (change.part for change in to.changes() if change.data is None)
    assert "one" in forgotten
    driver.run_id = "one-2"
    to.receive(decode_request(driver.body(driver.started())), driver.time + 2.0)
    assert to.keys() == [("one", "one")]
    assert to.view(("one", "one"), driver.time + 2.0).up


def test_a_name_that_was_made_for_a_second_one_ends_by_itself() -> None:
    """It does not come back under it."""
    to = fleet()
    first, second = run(to, "one"), namesake()
    to.receive(decode_request(second.body(second.started())), second.time + 0.1)
    assert len(to.keys()) == 2
    assert after(to, 1.1 * HOUR) == [first.query]


def test_where_there_is_no_room_the_longest_gone_makes_some() -> None:
    """A name that is new each time must not lock out those that come."""
    to = fleet(max_queries=3)
    for number, name in enumerate(("first", "second", "third")):
        driver = run(to, name, "terminated", FAILED)
        to.tick(driver.time + number)
    to.tick(START_TIME + 0.9 * HOUR)
    assert len(to.keys()) == 3
    to.tick(START_TIME + 1.1 * HOUR)
    to.tick(START_TIME + 1.2 * HOUR)
    assert len(to.keys()) == 2  # one place is enough


def mode_again(to: Fleet, driver: Driver, now: float) -> str:
    """The mode in which a query comes back."""
    driver.run_id += "b"
    to.receive(decode_request(driver.body(driver.started())), now)
    return to.view((driver.application, driver.query or ""), now).mode


@pytest.mark.parametrize(
    ("end", "exception"), [("terminated", FAILED), ("terminated", None), ("", None)]
)
@pytest.mark.parametrize("aside", [False, True])
def test_what_was_ordered_of_a_query_holds_for_its_next_run_however_it_ended(
    end: str, exception: str | None, *, aside: bool
) -> None:
    to = fleet(rules=(Rule(match="*", retire_seconds=HOUR),))
    if aside:
        run(to, "one")  # has the name, and falls silent
    driver = namesake()
    events = [driver.started(), driver.progress(10, 1.0)]
    to.receive(decode_request(driver.body(*events)), driver.time)
    key = ("one-id-2" if aside else "one", "one")
    to.control(*key, Order(who="kim", mode="off"), driver.time)
    if end:
        ended = {**driver.ids(), "exception": exception, "errorClassOnException": None}
        to.receive(decode_request(driver.body(driver.event(end, ended))), driver.time)
    assert after(to, 1e6) == ["one"]
    assert mode_again(to, driver, START_TIME + 1e6 + 40.0) == "off"


@pytest.mark.parametrize("mode", ["on", "off"])
def test_an_order_for_all_keeps_none_that_is_gone_and_holds_for_its_next_run(mode: Any) -> None:
    to = fleet(rules=(Rule(match="one/*", retire_seconds=HOUR),))
    driver = run(to, "one", "terminated", FAILED)
    to.control("*", "*", Order(who="kim", mode=mode), driver.time)
    assert after(to, 2 * HOUR) == []
    assert mode_again(to, driver, START_TIME + 2 * HOUR + 40.0) == mode


def test_one_of_which_something_was_ordered_makes_room_last_and_only_for_who_needs_it() -> None:
    to = fleet(max_queries=2)
    daily = run(to, "daily", "terminated")
    to.control("daily", "daily", Order(who="kim", mode="off"), daily.time)
    to.tick(daily.time + 60.0)
    run(to, "other", "terminated", FAILED)
    assert len(to.keys()) == 2
    run(to, "newcomer")  # turned away
    to.tick(START_TIME + 2 * HOUR)
    assert to.keys() == [("daily", "daily")]  # of the other nobody ordered anything
    run(to, "third", "terminated")
    to.control("third", "third", Order(who="kim", hold=True), START_TIME + 2 * HOUR)
    for hours in (3, 4, 5):
        to.tick(START_TIME + hours * HOUR)
        assert len(to.keys()) == 2  # nobody needs the room
    assert mode_again(to, daily, START_TIME + 5 * HOUR) == "off"
    run(to, "another newcomer")
    to.tick(START_TIME + 5 * HOUR + 1.0)
    assert to.keys() == [("daily", "daily")]
