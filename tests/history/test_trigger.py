"""The trigger interval of a log, which holds none: seen in when its batches were started."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from agent.core.measure import pace
from agent.core.policy import QueryPolicy
from agent.history import rows
from spark_listener.wire import format_time
from tests.event_log import lines as made
from tests.history.test_judge import judged, of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SETTINGS = QueryPolicy(target_seconds=5.0)
#: No round moment of any interval.
BEGIN = 1_795_251_303_777


def spark(every: int, works: Iterable[int], late: Iterable[int], begin: int = BEGIN) -> list[int]:
    """When Spark starts batches that take so long, with such a trigger; milliseconds."""
    now, starts = begin, []
    for work, later in zip(works, late, strict=False):
        starts.append(now)
        now = max(now + work, now // every * every + every + later)
    return starts


def log(
    starts: Sequence[int],
    works: Sequence[int],
    sizes: Sequence[int],
    run: str = made.RUN,
    arriving: float | None = None,
) -> list[bytes]:
    """Batches of a topic, each of all that is there, or of less: so much comes a millisecond."""
    lines = [made.started(run)]
    read = 0
    waits = sum(sizes)
    for batch, (start, work, size) in enumerate(zip(starts, works, sizes, strict=True)):
        told = json.loads(made.progress(batch, rows=size, seconds=work / 1000.0, run=run))
        told["progress"]["timestamp"] = format_time(start / 1000.0)
        (source,) = told["progress"]["sources"]
        source["description"] = "KafkaV2[Subscribe[t]]"
        source["startOffset"] = {"t": {"0": read}}
        read += size
        source["endOffset"] = {"t": {"0": read}}
        come = read if arriving is None else waits + round(arriving * (start - starts[0]))
        source["latestOffset"] = {"t": {"0": come}}
        lines.append(json.dumps(told, separators=(",", ":")).encode() + b"\n")
    return lines


def advised(*logs: list[bytes]) -> dict[str, Any]:
    (one,) = of(judged([[*made.opening()], *logs], SETTINGS), rows.RECOMMENDATIONS)
    return one


def seen(starts: Sequence[int], works: Sequence[int]) -> float | None:
    found = advised(log(starts, works, [1000] * len(starts)))["trigger_seconds"]
    assert found is None or isinstance(found, float)
    return found


def test_a_limit_holds_what_arrives_until_the_next_trigger() -> None:
    """1000 rows a second come, and a batch of them a minute takes 7 s: two of 5 s would not do."""
    works = [7000] * 60
    one = advised(log(spark(60_000, works, [3] * 60), works, [60_000] * 60))
    assert one["trigger_seconds"] == 60.0
    assert one["limit_rows"] >= 60_000
    assert one["required_capacity_ratio"] < 1.0


@given(
    every=some.integers(10, 36_000),
    share=some.floats(0.05, 0.8),
    late=some.lists(some.integers(0, 90), min_size=12, max_size=12),
    begin=some.integers(BEGIN, BEGIN + 10**8),
)
@settings(max_examples=60, deadline=None)
def test_an_interval_is_seen_whatever_it_is(
    every: int, share: float, late: list[int], begin: int
) -> None:
    milliseconds = every * 100
    works = [max(round(share * (milliseconds - 100)), 300)] * len(late)
    assert seen(spark(milliseconds, works, late, begin), works) == milliseconds / 1000.0


@given(seed=some.integers(0, 10**9))
@settings(max_examples=40, deadline=None)
def test_batches_beyond_the_interval_hide_it_not(seed: int) -> None:
    noise = random.Random(seed)
    every = 1000 * noise.choice([2, 5, 10, 30, 60, 300])
    works = [round(every * noise.choice([0.1, 0.3, 0.5, 0.7, 1.6])) for _ in range(30)]
    starts = spark(every, works, [noise.randrange(90) for _ in works])
    found = seen(starts, works)
    # Where every other trigger was passed over, twice the interval fits as well.
    assert found in {every / 1000.0, every / 500.0}


@given(seed=some.integers(0, 10**9))
@settings(max_examples=40, deadline=None)
def test_rows_that_come_at_any_time_show_none(seed: int) -> None:
    noise = random.Random(seed)
    starts = [BEGIN]
    works = [noise.randrange(500, 2000) for _ in range(30)]
    for work in works[1:]:
        starts.append(starts[-1] + work + noise.randrange(2100, 60_000))
    found = seen(starts, works)
    # A grid of tenths of a second fits anything now and then, and asks for nothing.
    assert found is not None
    assert found < 1.0


def test_late_ones_in_a_row_hide_it_not() -> None:
    late = [5] * 10 + [400] * 4 + [5] * 4
    works = [2000] * len(late)
    assert seen(spark(60_000, works, late), works) == 60.0


def test_what_is_often_off_the_grid_is_none() -> None:
    def starts(off: int) -> list[int]:
        return [600 * number + 7 * (number <= off) for number in range(1, 13)]

    assert pace.interval(starts(3)) == 600
    assert pace.interval(starts(4)) == 0


@pytest.mark.parametrize(("before", "after"), [(60_000, 10_000), (10_000, 60_000)])
def test_a_run_may_have_another_than_the_one_before(before: int, after: int) -> None:
    works = [2000] * 20
    first = spark(before, works, [3] * 20)
    second = spark(after, works, [3] * 20, begin=first[-1] + 30_500)
    early, later = log(first, works, [1000] * 20), log(second, works, [1000] * 20, run="r-2")
    assert advised(early, later)["trigger_seconds"] == after / 1000.0
    # Until its own batches tell, it counts as unchanged.
    assert advised(early, later[:4])["trigger_seconds"] == before / 1000.0


def test_where_nothing_shows_it_the_advice_says_up_to_which_it_holds() -> None:
    """Batches that follow each other at once, and work off what waits; or two that did not."""
    noise = random.Random(3)
    works = [noise.randrange(6500, 7500) for _ in range(40)]
    sizes = [work - 500 for work in works]
    starts = spark(1, works, [2] * 40)
    one = advised(log(starts, works, sizes, arriving=0.7))
    assert one["trigger_seconds"] is None
    assert one["limit_rows"] < 0.7 * min(works)
    assert "with a trigger interval of more than" in one["advice"]
    # As long as the batches that it had: it keeps up.
    one = advised(log(starts, works, sizes, arriving=0.3))
    assert one["limit_rows"] > 0.3 * max(works)
    assert "trigger interval" not in one["advice"]
    starts[-2:] = [starts[-3] + 40_000, starts[-3] + 90_000]
    one = advised(log(starts, works, sizes, arriving=0.3))
    assert one["trigger_seconds"] is None
    assert "with a trigger interval of more than" in one["advice"]


@pytest.mark.parametrize("place", range(6))
def test_one_start_that_comes_late_hides_no_interval(place: int) -> None:
    """A pause of the JVM: nearly all are on the grid, however few there are."""
    late = [3] * 6
    late[place] = 250
    starts = [start // pace.UNIT_MILLISECONDS for start in spark(60_000, [7000] * 6, late)[1:]]
    for count in range(pace.FEWEST_STARTS, len(starts) + 1):
        assert pace.interval(starts[:count]) * pace.UNIT_MILLISECONDS == 60_000
