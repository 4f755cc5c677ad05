"""Lanes: when the rows came that each partition reads next."""

from __future__ import annotations

import operator
import time as clock
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.arrays import numbers, packed, plain
from agent.core.measure.lanes import MOST_LOOKS, SHARES, Lanes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.core.decode.kafka_offsets import Offsets

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


def test_a_rest_that_is_told_late_makes_nothing_nearer() -> None:
    """Of a busy driver an idle event may come with a time after that of the batch behind it."""
    lanes = Lanes()
    lanes.rest(50.0)
    look(lanes, 10.0, (0, 100), (100, 100), 60.0)
    assert (lanes.oldest_time, lanes.spread_seconds) == (10.0, 0.0)
    look(lanes, 60.0, (10, 200), (100, 200), 60.0)
    assert (lanes.oldest_time, lanes.spread_seconds) == (10.0, 50.0)


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


def test_a_burst_of_an_eighth_of_what_waits_in_one_is_seen() -> None:
    """An hour waits in both; in one no row came for minutes, and all of these at once before."""
    lanes = Lanes()
    look(lanes, 0.0, (0, 0), (0, 0), even_seconds=300.0)
    for minutes in (*range(3, 19, 3), 18.75):
        rows = round(60 * minutes)
        look(lanes, 60.0 * minutes, (0, 0), (rows, rows), even_seconds=300.0)
    burst_time, after_time = 1125, 1575  # 5 and 7 sixteenths
    for time in (burst_time + 1, 1350, after_time):
        look(lanes, float(time), (0, 0), (time, after_time), even_seconds=300.0)
    for time in range(1800, 3601, 225):
        look(lanes, float(time), (0, 0), (time, time), even_seconds=300.0)
    assert lanes.spread_seconds == pytest.approx(1350.0 - burst_time, abs=1.0)


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


class Plain(Lanes):
    """The same lane by lane and row by row: what `Lanes` tells of all of them at once."""

    def look(self, read: Offsets, latest: Offsets, time: float, *, even_seconds: float) -> None:
        places = sorted(read.keys() & latest.keys())
        if places != self.places:
            self.places, self.times, self.ends = places, numbers(), []
        if not places or (self.times and time < self.times[-1]):
            return
        if not self.times or time > self.times[-1]:
            there = numbers()
            there.extend(float(latest[place]) for place in places)
            self.times.append(time)
            self.ends.append(there)
        offsets = [read[place] for place in places]
        self.read_rows = float(sum(offsets))
        while len(self.times) > 1 and all(map(operator.le, self.ends[1], offsets)):
            del self.times[0], self.ends[0]
        self._thin(even_seconds)
        self.oldest_time, self.spread_seconds = self.spread(offsets, even_seconds)
        if self.spread_seconds is None or time - (self.oldest_time or time) <= even_seconds:
            return
        for part in range(1, SHARES):
            then = [
                offset + round(max(end - offset, 0.0) * part / SHARES)
                for end, offset in zip(self.ends[-1], offsets, strict=True)
            ]
            _, spread = self.spread(then, even_seconds)
            self.spread_seconds = max(self.spread_seconds, spread or 0.0)

    def spread(self, offsets: list[int], even_seconds: float) -> tuple[float | None, float | None]:
        came = [self.came(*lane, even_seconds) for lane in enumerate(offsets)]
        oldest = [earliest for earliest, _ in came]
        if None in oldest:
            return None, None
        first = min(one for one in oldest if one is not None)
        return first, max(last for _, last in came) - first

    def came(self, lane: int, offset: int, even_seconds: float) -> tuple[float | None, float]:
        """When the row at that offset came, at the earliest and latest."""
        index = len(self.times) - 1
        if self.ends[index][lane] <= offset:
            return self.times[index], self.times[index]
        while index >= 0 and self.ends[index][lane] > offset:
            index -= 1
        if index < 0:
            return self.before_time, self.times[0]
        earlier, later = self.times[index], self.times[index + 1]
        if later - earlier > even_seconds:
            return earlier, later
        before, after = self.ends[index][lane], self.ends[index + 1][lane]
        time = earlier + (offset - before) / (after - before) * (later - earlier)
        return time, time


def offsets_of(rows: Sequence[int]) -> Offsets:
    return {("orders", str(place)): offset for place, offset in enumerate(rows)}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["look"] * 8 + ["again", "rest", "run", "rewind", "more"]),
            st.lists(st.sampled_from([0, 0, 1, 7, 100, 3000]), min_size=7, max_size=7),
            st.lists(st.sampled_from([0.0, 0.0, 0.1, 0.5, 1.0]), min_size=7, max_size=7),
            st.sampled_from([0.25, 10.0, 60.0]),
        ),
        min_size=1,
        max_size=80,
    ),
    st.integers(1, 6),
    st.sampled_from([0.0, 15.0, 100.0]),
)
def test_it_tells_what_a_look_at_each_lane_would(
    course: list[tuple[str, list[int], list[float], float]], count: int, even_seconds: float
) -> None:
    """Whatever comes into partitions, however far each is read, over runs and new partitions."""
    lanes, plainly, time = Lanes(), Plain(), 1.8e9
    read, there = [0] * 7, [0] * 7
    for what, came, shares, seconds in course:
        if what == "more":
            count = min(count + 1, 7)
        elif what != "again":
            time += seconds
            there = [before + new for before, new in zip(there, came, strict=True)]
        read = [
            offset + int((end - offset) * share)
            for offset, end, share in zip(read, there, shares, strict=True)
        ]
        for one in (lanes, plainly):
            if what == "rest":
                one.rest(time)
            elif what == "run":
                one.begin_run()
            elif what == "rewind":
                one.rewind()
            else:
                one.look(
                    offsets_of(read[:count]),
                    offsets_of(there[:7] if what == "again" else there[:count]),
                    time,
                    even_seconds=even_seconds,
                )
        assert msgspec.to_builtins(lanes, enc_hook=plain) == msgspec.to_builtins(
            plainly, enc_hook=plain
        )


@given(
    st.lists(st.tuples(st.integers(-300, 500), st.integers(-50, 500)), min_size=2, max_size=40),
    st.floats(0.0, 1.0),
)
def test_a_topic_that_loses_its_newest_rows_is_followed_on(
    arrivals: list[tuple[int, int]], share: float
) -> None:
    """What came at the places of lost rows came after the loss was seen."""
    lanes, plainly = Lanes(), Plain()
    read, there, time = [0, 0], [0, 0], 1.8e9
    for came in arrivals:
        there = [max(before + new, 0) for before, new in zip(there, came, strict=True)]
        read = [max(at, at + int((end - at) * share)) for at, end in zip(read, there, strict=True)]
        time += 10.0
        for one in (lanes, plainly):
            one.look(offsets_of(read), offsets_of(there), time, even_seconds=0.0)
        assert lanes.oldest_time == plainly.oldest_time
        assert lanes.spread_seconds == plainly.spread_seconds


def test_many_partitions_are_followed_at_the_cost_of_a_look_at_all_of_them_at_once() -> None:
    """A topic of thousands of partitions behind a watermark costs the agent no core."""
    took = []
    for lanes in (Lanes(), Plain()):
        for look in range(MOST_LOOKS):
            ends = offsets_of([100 * look + lane % 90 for lane in range(400)])
            lanes.look(offsets_of([0] * 400), ends, 1e9 + 10.0 * look, even_seconds=1e9)
        best = float("inf")
        for _ in range(5):
            began = clock.process_time()
            lanes.look(offsets_of([90] * 400), ends, lanes.times[-1], even_seconds=60.0)
            best = min(best, clock.process_time() - began)
        took.append(best)
    assert took[0] < took[1] / 2.0
