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


def looked(*looks: tuple[float, tuple[int, int], tuple[int, int]]) -> Lanes:
    """Of (time, what each of two partitions had read, what it held)."""
    lanes = Lanes()
    for time, read, there in looks:
        lanes.look(
            dict(zip((A, B), read, strict=True)), dict(zip((A, B), there, strict=True)), time
        )
    return lanes


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


def test_one_that_is_read_up_to_now_is_ahead_of_one_that_waits() -> None:
    """It may get rows at any moment, and the watermark goes with the newest of them."""
    lanes = looked((0.0, (0, 7), (0, 7)), (100.0, (40, 7), (100, 7)))
    assert lanes.spread_seconds == pytest.approx(60.0)


def test_of_what_came_before_the_first_look_no_time_is_known() -> None:
    lanes = looked((0.0, (10, 10), (50, 50)))
    assert (lanes.oldest_time, lanes.spread_seconds) == (None, None)
    lanes.look({A: 50, B: 50}, {A: 90, B: 90}, 30.0)
    assert lanes.oldest_time == 0.0


def test_a_new_run_takes_what_waits_for_as_old_as_it_may_be() -> None:
    lanes = looked((0.0, (0, 0), (0, 0)), (100.0, (50, 50), (100, 100)))
    lanes.begin_run()
    assert lanes.since_time == pytest.approx(50.0)
    lanes.begin_run()  # and ends before a batch does
    assert lanes.since_time == pytest.approx(50.0)
    lanes.look({A: 60, B: 100}, {A: 500, B: 100}, 4000.0)
    assert lanes.oldest_time == pytest.approx(50.0)
    assert lanes.spread_seconds == pytest.approx(3950.0)


def test_a_new_partition_begins_the_looks_anew() -> None:
    lanes = looked((0.0, (0, 0), (0, 0)), (100.0, (50, 50), (100, 100)))
    lanes.look({A: 60, B: 60, ("orders", "2"): 3}, {A: 200, B: 200, ("orders", "2"): 9}, 110.0)
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
        lanes.look({A: read, B: read * times}, {A: there, B: there * times}, 10.0 * number)
        assert len(lanes.times) <= MOST_LOOKS
        if lanes.spread_seconds is not None:
            assert lanes.spread_seconds <= 1e-6


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=14, max_size=60))
def test_what_waits_is_told_between_the_looks_that_saw_it_come(
    arrivals: list[tuple[int, int]],
) -> None:
    lanes, there = Lanes(), [0, 0]
    seen: list[tuple[float, int]] = []
    lanes.look({A: 0, B: 0}, {A: 0, B: 0}, -10.0)
    for number, came in enumerate(arrivals):
        there = [before + new for before, new in zip(there, came, strict=True)]
        seen.append((10.0 * number, there[0]))
        read = {A: there[0] // 3, B: there[1]}
        lanes.look(read, {A: there[0], B: there[1]}, 10.0 * number)
        first = next((time for time, rows in seen if rows > read[A]), 10.0 * number)
        assert lanes.oldest_time is not None
        coarse = max(after - before for before, after in pairwise(lanes.times))
        assert first - 10.0 - coarse <= lanes.oldest_time <= first + coarse


def test_a_backlog_of_a_dozen_batches_is_told_to_half_a_batch() -> None:
    """Rows come at every third look; what is read next came twelve looks ago."""
    lanes, there, seen = Lanes(), 0, []
    for number in range(80):
        there += 300 if number % 3 == 0 else 0
        seen.append((10.0 * number, there))
        read = seen[max(number - 12, 0)][1] - (150 if number > 12 else 0)
        lanes.look({A: read, B: 0}, {A: there, B: 0}, 10.0 * number)
        if number > 20:
            came = next(time for time, rows in seen if rows > read) - 5.0
            assert lanes.oldest_time == pytest.approx(came, abs=5.0)
