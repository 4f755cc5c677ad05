"""What is shown of a backlog survives a look at the batches: its laws, and cases that were seen."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.core import tell
from agent.core.decode.events import MOST_SECONDS
from agent.core.measure.cost import Cost
from agent.core.measure.lag_table import MOST_POINTS, LagTable
from agent.core.measure.partitions import PartitionView
from agent.core.measure.source import Source
from agent.core.query import Query
from spark_listener.wire import format_time
from tests.core.test_fleet import KEY, World

# -- behind: how old the oldest unread row is -----------------------------------------------------

arrivals = st.lists(
    st.tuples(st.floats(0.001, 20_000), st.integers(1, 100_000)), min_size=1, max_size=40
)


@given(arrivals, st.lists(st.floats(0.1, 5_000), min_size=1, max_size=MOST_POINTS - 1), st.data())
def test_behind_is_never_more_than_the_oldest_unread_row_is_old(
    came: list[tuple[float, int]], pauses: list[float], data: st.DataObject
) -> None:
    """And less by no more than the time between two looks, since it is known no better."""
    times = list(accumulate(seconds for seconds, _ in came))
    sums = list(accumulate(rows for _, rows in came))
    looks = list(accumulate(pauses))
    table = LagTable()
    for look in looks:
        seen = bisect_right(times, look)
        table.add(look, float(sums[seen - 1] if seen else 0))
    here = bisect_right(times, looks[-1])
    admitted = data.draw(st.integers(0, sums[here - 1] if here else 0))
    unread = [time for time, rows in zip(times[:here], sums, strict=False) if rows > admitted]
    behind = table.unread_seconds(float(admitted), looks[-1])
    assert behind is not None
    if not unread:
        assert behind == 0.0
        return
    age = looks[-1] - unread[0]
    longest = max([looks[0], *(later - before for before, later in pairwise(looks))])
    assert age - longest - 1e-6 <= behind <= age + 1e-6
    later = table.unread_seconds(float(admitted), looks[-1] + 7.0)
    assert later == pytest.approx(behind + 7.0), "it waits on"
    more = table.unread_seconds(float(admitted + 1), looks[-1])
    assert more is not None
    assert more <= behind, "who has read more is not further behind"


def test_rounding_makes_no_row_older() -> None:
    """Sums of so many rows a file: what was admitted may lie a little beside what had arrived."""
    table = LagTable()
    for time, rows in [(0.0, 0.0), (5000.0, 29.999999999), (5010.0, 100.0)]:
        table.add(time, rows)
    assert table.unread_seconds(30.0000001, 5020.0) == pytest.approx(10.0)
    assert table.unread_seconds(29.9999989, 5020.0) == pytest.approx(10.0)
    assert table.unread_seconds(29.0, 5020.0) == pytest.approx(20.0)
    assert table.unread_seconds(99.9999999, 5020.0) == 0.0


def test_a_burst_after_hours_of_silence_is_not_hours_old() -> None:
    """Seen: 18,000 rows that one batch took, shown as 4 h 14 min behind."""
    world = World()
    for _ in range(3):
        world.send(world.driver.progress(1, 1.0, limit=20_000))
    gap = 4 * 3600 + 14 * 60.0
    world.send(world.driver.progress(1, 1.0, limit=1, backlog=18_000, gap=gap))
    behind = world.view().backlog_seconds
    assert behind is not None
    assert behind < 60.0


def test_a_backlog_found_at_the_start_is_as_old_as_the_look_at_least() -> None:
    world = World()
    world.send(world.driver.progress(10, 5.0, limit=10, backlog=18_000))
    started = world.driver.time
    for _ in range(4):
        world.send(world.driver.progress(10, 5.0, limit=10, backlog=18_000))
    behind = world.view().backlog_seconds
    assert behind is not None
    assert world.driver.time - started <= behind <= world.driver.time - started + 10.0


def test_files_that_a_heartbeat_saw_wait_since_then() -> None:
    world = World(unit="files")

    def seen(backlog: int, arrived: int, **more: Any) -> list[dict[str, Any]]:
        limit = {"source": 0, "unit": "files", "limit": 2, "configured": 2, "backlog": backlog}
        limit |= {"arrived": arrived, "observed_time": format_time(world.driver.time), **more}
        return [limit]

    world.send(world.driver.progress(20, 5.0, limits=seen(8, 10, admitted=2)))
    world.driver.time += 30.0
    world.send(world.driver.heartbeat(1, 30.0, limits=seen(18, 20)))
    first_seen = world.driver.time
    world.driver.time += 30.0
    world.send(world.driver.progress(20, 5.0, limits=seen(9, 20, admitted=9)))
    behind = world.view().backlog_seconds
    assert behind == pytest.approx(world.driver.time - first_seen, abs=0.1)


def test_files_that_a_new_process_of_the_driver_counts_anew_arrive_as_before() -> None:
    """A run outlives the driver's Python process, and the next one counts from when it looked."""
    world = World(unit="files")

    def beat(arrived: int) -> None:
        limit = {"source": 0, "unit": "files", "limit": 2, "configured": 2, "backlog": 8}
        limit |= {"arrived": arrived, "observed_time": format_time(world.driver.time)}
        world.send(world.driver.heartbeat(1, 1.0, limits=[limit]))
        world.driver.time += 5.0

    world.send(world.driver.progress(20, 5.0, limit=2, backlog=8))
    for seconds in range(0, 600, 5):
        beat(8 + seconds)  # one file a second
    before = world.view().arrival_rows_per_second
    world.driver.instance, world.driver.sequence = "listener-2", 0
    for seconds in range(0, 120, 5):
        beat(8 + 3 * seconds)
    view = world.view()
    assert before is not None
    assert view.arrival_rows_per_second == pytest.approx(3.0 * before, rel=0.1)
    lag = view.backlog_seconds
    assert lag is not None
    assert lag < 30.0  # eight of three a second


def test_what_a_batch_can_no_longer_tell_does_not_wait_for_ever() -> None:
    """A directory that cannot be listed: what waits is known while Spark keeps a list of it."""
    world = World(unit="files")
    for backlog in (200, 100, None, None):
        world.driver.time += 60.0
        admitted = 100 if backlog else 3
        limit = {"source": 0, "unit": "files", "limit": 100, "configured": 100}
        told = [limit | {"backlog": backlog, "admitted": admitted}]
        world.send(world.driver.progress(10 * admitted, 5.0, limits=told))
    view = world.view()
    assert view.sources[0].backlog is None
    assert view.backlog_seconds is None
    (query,) = world.fleet._roster
    assert not query.sources[0].limited


def test_what_batches_took_alone_says_nothing_of_the_time_between_them() -> None:
    world = World(unit="files")
    limit = {"source": 0, "unit": "files", "limit": 2000, "configured": 2000, "backlog": None}
    for batch in range(1, 8):
        told = limit | {"arrived": 1500 * batch, "admitted": 1500}
        for age in range(5, 300, 5):
            world.driver.time += 5.0
            beat = [told | {"observed_time": format_time(world.driver.time)}]
            world.send(world.driver.heartbeat(batch, float(age), limits=beat))
        world.driver.time -= 295.0
        world.send(world.driver.progress(15_000, 300.0, limits=[told]))
    assert world.view().arrival_rows_per_second == pytest.approx(50.0, rel=0.1)


@pytest.mark.parametrize(
    ("bound", "arriving"), [("partial", None), ("lower", 10.0), ("exact", 10.0)]
)
def test_what_is_found_of_a_history_has_not_arrived(bound: str, arriving: float | None) -> None:
    """Ten files more are found each ten seconds, whatever arrives; then all of it is known."""
    world = World(unit="files")
    limit = {"source": 0, "unit": "files", "limit": 2, "configured": 2, "admitted": 2}

    def batch(backlog: int, bound: str) -> float | None:
        world.driver.time += 5.0
        seen = {"observed_time": format_time(world.driver.time), "backlog_bound": bound}
        world.send(world.driver.heartbeat(1, 3.0, limits=[limit | {"backlog": backlog} | seen]))
        told = [limit | {"backlog": backlog} | seen]
        world.send(world.driver.progress(20, 5.0, limits=told))
        return world.view().arrival_rows_per_second

    backlog, found = 0, None
    for _ in range(100):
        backlog += 10 - 2
        found = batch(backlog, bound)
    assert found == (None if arriving is None else pytest.approx(arriving, rel=0.1))
    if bound != "partial":
        return
    batch(backlog := 2000, "exact")  # the first look at all of it
    for _ in range(100):
        backlog += 5 - 2
        found = batch(backlog, "exact")
    assert found == pytest.approx(5.0, rel=0.1)
    for again in range(50, backlog // 2, 50):  # by a driver's next process
        found = batch(again, "partial")
        assert found == pytest.approx(5.0, rel=0.1)
    found = batch(backlog + 5_000, "partial")
    assert found is not None
    assert found > 10.0, "what is found later has come since"


def test_of_a_lower_bound_of_none_a_full_batch_may_have_left_some() -> None:
    """Files that somebody removes, or a list that does not tell of all."""
    for bound, limited in (("lower", True), ("exact", False)):
        world = World(unit="files")
        limit = {"source": 0, "unit": "files", "limit": 100, "configured": 200, "admitted": 100}
        seen = {"observed_time": format_time(world.driver.time)}
        told = [limit | {"backlog": 0, "backlog_bound": bound} | seen]
        world.send(world.driver.progress(1000, 5.0, limits=told))
        (query,) = world.fleet._roster
        assert query.sources[0].limited is limited


def test_what_came_under_a_batch_is_no_trend_of_its_lag() -> None:
    """Brokers asked under each batch tell ever more; what each batch leaves behind is nothing."""
    world = World()
    for number in range(1, 21):
        world.driver.time += 30.0
        in_hand, new = 100 * (number - 1), 100 * number
        partition = PartitionView(0, "t", "0", in_hand + new, 0, None)
        world.fleet.hear_partitions(KEY, world.driver.query_id, 0, [partition], world.now)
        world.driver.time -= 30.0
        receipt = world.send(world.driver.progress(in_hand, 60.0))
        (judged,) = receipt.judged
        assert judged.lag_state in {"OK", "UNKNOWN"}
        assert judged.backlog_rows == (new if number > 1 else 0)
        ((_, point),) = receipt.batches
        assert point.backlog_rows == 0


# -- time to consume ------------------------------------------------------------------------------


def reading(
    limit: int | None, fixed: float, seconds_per_row: float, arrival: float, trigger: float = 0.0
) -> Query:
    source = Source(index=0, unit="rows", limit_known=True, limit=limit)
    source.arrival.amount, source.arrival.seconds = arrival, 1.0
    cost = Cost(batches=9, fixed=fixed, per_row=seconds_per_row)
    query = Query(application="shop", query="orders", sources=[source])
    query.sizing.cost, query.run.trigger_seconds = cost, trigger
    return query


def batch_by_batch(query: Query, waits: float) -> float | None:
    """What the batches take that will run, one after the other; None: never."""
    (source,) = query.sources
    seconds = 0.0
    for _ in range(2000):
        taken = waits if source.limit is None else min(waits, source.limit)
        cost = query.sizing.cost.seconds(taken) or 0.0
        if taken == waits:
            return seconds + cost
        cycle = max(cost, query.run.trigger_seconds)
        seconds += cycle
        waits += (source.arrival_rows or 0.0) * cycle - taken
    return None


@given(
    st.floats(0.1, 1e6),
    st.none() | st.integers(1, 100_000),
    st.floats(0.01, 60),
    st.floats(1e-7, 0.1),
    st.floats(0, 10_000),
    st.sampled_from([0.0, 10.0]),
)
@example(197_641.0, 1, 1.0, 0.0625, 0.09375, 10.0)  # in more than a year
def test_time_to_consume_is_what_the_batches_take(
    waits: float,
    limit: int | None,
    fixed: float,
    seconds_per_row: float,
    arrival: float,
    trigger: float,
) -> None:
    query = reading(limit, fixed, seconds_per_row, arrival, trigger)
    told = tell.time_to_consume(query, waits)
    true = batch_by_batch(query, waits)
    if told is None:
        assert true is None or limit is not None
        assert limit is not None
        cycle = max(query.sizing.cost.seconds(limit) or 0.0, trigger)
        surplus = limit - arrival * cycle
        assert surplus <= 0.0 or (waits / surplus + 2.0) * cycle > MOST_SECONDS
        return
    assert told >= fixed, "a batch costs that at least"
    assert true is None or math.isclose(told, true, rel_tol=1e-6, abs_tol=1e-6)
    more = tell.time_to_consume(query, waits * 1.5)
    assert more is None or more >= told - 1e-9, "None is never"


@pytest.mark.parametrize(
    ("waits", "limit", "seconds"),
    [
        (0.0, 1000, 0.0),
        (66.0, 1000, 5.33),  # seen as 330 ms, beside a fixed cost of 5 s
        (1000.0, 1000, 10.0),  # one batch
        (1001.0, 1000, 15.005),  # and another for one row
        (3000.0, 1000, 30.0),
        (3000.0, None, 20.0),  # all at once
    ],
)
def test_time_to_consume_in_whole_batches(waits: float, limit: int | None, seconds: float) -> None:
    told = tell.time_to_consume(reading(limit, 5.0, 0.005, 0.0), waits)
    assert told == pytest.approx(seconds)


# -- pressure -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "backlog", "state", "pressure"),
    [
        (500, 8, "busy", "ok"),  # seen as high
        (500, 500, "busy", "ok"),  # the next batch takes it
        (500, 501, "backpressured", "high"),
        (None, 8000, "busy", "ok"),
    ],
)
def test_what_the_next_batch_takes_whole_is_under_no_pressure(
    limit: int | None, backlog: int, state: str, pressure: str
) -> None:
    world = World()
    receipt: Any = None
    for _ in range(20):
        event = world.driver.progress(limit or 500, 5.0, limit=limit, backlog=backlog)
        receipt = world.send(event)
    assert receipt.judged[-1].state == state
    assert world.view().pressure == pressure
    world.send(world.driver.heartbeat(world.driver.batch_id + 1, 1.0))
    assert world.view().state == state


def test_the_extrapolation_of_a_burst_adds_no_more_than_it() -> None:
    """Between events as much is added as came in so long a time before, not its rate for ever."""
    world = World()
    for _ in range(5):
        world.send(world.driver.progress(0, 1.0, backlog=0))
    world.send(world.driver.progress(10_000, 1.0, backlog=0))
    world.driver.time += 60.0
    world.send(world.driver.heartbeat(world.driver.batch_id + 1, 60.0))
    told = world.view().backlog_rows
    assert told is not None
    assert told <= 10_000


def test_while_the_capacity_is_not_known_nothing_is_said_of_it() -> None:
    """From one batch nobody knows what of it is fixed."""
    world = World()
    note = "too few batches with rows to know the capacity"
    for batches in (1, 2, 3):
        # More arrives than batches of any size take.
        world.send(world.driver.progress(500, 20.0, limit=500, backlog=9000 * batches))
        view = world.view()
        said = {
            "required_capacity_ratio": view.required_capacity_ratio,
            "capacity_short_since_time": view.capacity_short_since_time,
            "target_feasible": view.target_feasible,
            "throughput_rows_per_second": view.throughput_rows_per_second,
            "fixed_cost_seconds": view.fixed_cost_seconds,
        }
        unknown = {name for name, value in said.items() if value is None}
        assert (note in view.missing) is (batches == 1)
        assert unknown == (set(said) if batches == 1 else set()), batches
