"""Lanes: when the rows came that each partition reads next."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.arrays import packed, plain
from agent.core.measure.lanes import MOST_LOOKS, Lanes

A, B = ("orders", "0"), ("orders", "1")
EVEN_SECONDS = 1e6  # however far apart looks are, rows came evenly between them


def looked(
    *looks: tuple[float, tuple[int, int], tuple[int, int]], even_seconds: float = EVEN_SECONDS
) -> Lanes:
    """Of (time, what each of two partitions had read, what it held)."""
    lanes = Lanes()
    for time, read, there in looks:
        look(lanes, time, read, there, even_seconds)
    return lanes


def look(
    lanes: Lanes,
    time: float,
    read: tuple[int, int],
    there: tuple[int, int],
    even_seconds: float = EVEN_SECONDS,
) -> None:
    of_read, of_there = {A: read[0], B: read[1]}, {A: there[0], B: there[1]}
    lanes.look(of_read, of_there, time, even_seconds=even_seconds)


def test_where_nothing_waits_all_are_read_up_to_now() -> None:
    lanes = looked((0.0, (0, 0), (0, 0)), (60.0, (100, 5), (100, 5)))
    assert (lanes.oldest_time, lanes.spread_seconds) == (60.0, 0.0)


def test_the_same_part_of_each_is_apart_by_as_much_as_they_came_at_other_times() -> None:
    """Spark takes a tenth of each: of one that is minute 6 of the hour, of the other minute 51."""
    lanes = looked(
        (0.0, (0, 0), (0, 0)),
        (3000.0, (0, 0), (3000, 0)),
        (3600.0, (360, 360), (3600, 3600)),
    )
    assert lanes.oldest_time == pytest.approx(360.0)
    assert lanes.spread_seconds == pytest.approx(3060.0 - 360.0)


def test_between_looks_too_far_apart_nobody_knows_when_rows_came() -> None:
    looks = ((0.0, (0, 0), (0, 0)), (300.0, (30, 30), (90, 90)))
    assert looked(*looks, even_seconds=300.0).spread_seconds == pytest.approx(0.0)
    lanes = looked(*looks, even_seconds=299.0)
    assert (lanes.oldest_time, lanes.spread_seconds) == (0.0, 300.0)


def test_one_that_is_read_up_to_now_is_ahead_of_one_that_waits() -> None:
    """It may get rows at any moment, and the watermark goes with the newest of them."""
    lanes = looked((0.0, (0, 7), (0, 7)), (100.0, (40, 7), (100, 7)))
    assert lanes.spread_seconds == pytest.approx(60.0)


def test_a_trigger_that_finds_nothing_tells_as_much_as_a_batch_that_reads_all() -> None:
    lanes = looked((0.0, (0, 0), (0, 0)), (60.0, (5, 5), (5, 5)))
    lanes.rest(28_800.0)
    look(lanes, 28_860.0, (605, 5), (1205, 5))
    assert lanes.spread_seconds == pytest.approx(30.0)
    lanes.rest(28_870.0)  # what waits for more, as for a minimum, waits on
    assert lanes.oldest_time == pytest.approx(28_830.0)
    lanes.begin_run()
    lanes.rest(30_000.0)
    assert lanes.since_time == 30_000.0


def test_of_what_came_before_the_first_look_no_time_is_known() -> None:
    lanes = looked((0.0, (10, 10), (50, 50)))
    assert (lanes.oldest_time, lanes.spread_seconds) == (None, None)
    look(lanes, 30.0, (50, 50), (90, 90))
    assert lanes.oldest_time == 0.0


def test_a_new_run_takes_what_waits_for_as_old_as_it_may_be() -> None:
    lanes = looked((0.0, (0, 0), (0, 0)), (100.0, (50, 50), (100, 100)))
    lanes.begin_run()
    assert lanes.since_time == pytest.approx(50.0)
    lanes.begin_run()  # and ends before a batch does
    assert lanes.since_time == pytest.approx(50.0)
    look(lanes, 4000.0, (60, 100), (500, 100))
    assert lanes.oldest_time == pytest.approx(50.0)
    assert lanes.spread_seconds == pytest.approx(3950.0)


def test_a_new_partition_begins_the_looks_anew() -> None:
    lanes = looked((0.0, (0, 0), (0, 0)), (100.0, (50, 50), (100, 100)))
    third = ("orders", "2")
    read, there = {A: 60, B: 60, third: 3}, {A: 200, B: 200, third: 9}
    lanes.look(read, there, 110.0, even_seconds=EVEN_SECONDS)
    assert lanes.spread_seconds is None


def test_it_is_saved_and_read_again() -> None:
    lanes = looked((0.0, (0, 0), (0, 0)), (100.0, (50, 50), (100, 100)))
    text = msgspec.json.encode(lanes, enc_hook=plain)
    assert msgspec.json.decode(text, type=Lanes, dec_hook=packed) == lanes


@given(
    st.lists(st.integers(0, 500), min_size=2, max_size=80),
    st.floats(0.05, 1.0),
    st.integers(1, 9),
)
def test_partitions_that_are_alike_are_never_apart(
    arrivals: list[int], part: float, times: int
) -> None:
    """However they come: the same share of each came at the same time, one larger or not."""
    lanes, there, read = Lanes(), 0, 0
    for number, came in enumerate(arrivals):
        there += came
        read += int((there - read) * part)
        look(lanes, 10.0 * number, (read, read * times), (there, there * times))
        assert len(lanes.times) <= MOST_LOOKS
        if lanes.spread_seconds is not None:
            assert lanes.spread_seconds <= 1e-6


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=14, max_size=60),
    st.floats(0.0, 100.0),
)
def test_rows_are_never_told_to_be_nearer_than_they_may_be(
    arrivals: list[tuple[int, int]], even_seconds: float
) -> None:
    """Of what waits the oldest is told to be no younger than rows that come evenly may be."""
    lanes, there = Lanes(), [0, 0]
    seen: list[tuple[float, int]] = []
    look(lanes, -10.0, (0, 0), (0, 0), even_seconds)
    for number, came in enumerate(arrivals):
        there = [before + new for before, new in zip(there, came, strict=True)]
        seen.append((10.0 * number, there[0]))
        read = there[0] // 3
        look(lanes, 10.0 * number, (read, there[1]), (there[0], there[1]), even_seconds)
        came_by = next((time for time, rows in seen if rows > read), 10.0 * number)
        assert lanes.oldest_time is not None
        coarse = max((after - before for before, after in pairwise(lanes.times)), default=0.0)
        assert lanes.oldest_time <= came_by + min(coarse, even_seconds)
        assert lanes.oldest_time >= came_by - 10.0 - coarse


def test_a_backlog_of_a_dozen_batches_is_told_to_half_a_batch() -> None:
    """Rows come at every third look; what is read next came twelve looks ago."""
    lanes, there, seen = Lanes(), 0, []
    for number in range(80):
        there += 300 if number % 3 == 0 else 0
        seen.append((10.0 * number, there))
        read = seen[max(number - 12, 0)][1] - (150 if number > 12 else 0)
        look(lanes, 10.0 * number, (read, 0), (there, 0))
        if number > 20:
            came = next(time for time, rows in seen if rows > read) - 5.0
            assert lanes.oldest_time == pytest.approx(came, abs=5.0)


def test_looks_reach_back_as_far_as_what_waits_and_no_further() -> None:
    """After a day as after an hour: none lies further from the next than its age allows."""
    lanes = Lanes()
    for number in range(1000):
        read = max(number - 60, 0)
        look(lanes, 10.0 * number, (100 * read, 100 * read), (100 * number, 100 * number))
    ages = [lanes.times[-1] - time for time in lanes.times]
    assert 600.0 <= ages[0] <= 900.0
    assert all(
        before - after <= max(0.5 * before, EVEN_SECONDS) for before, after in pairwise(ages)
    )
    look(lanes, 10_000.0, (99_900, 99_900), (99_900, 99_900))
    assert list(lanes.times) == [10_000.0]
