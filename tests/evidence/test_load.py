"""What is fed: as the trace has it, row by row, at known times."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.evidence import advertising
from tests.benchmarks.evidence.figures import Came
from tests.benchmarks.evidence.load import (
    MOST_BINS,
    PARTITIONS,
    TICK_SECONDS,
    Arrival,
    Parcel,
    read_parcels,
    slice_of,
    ticks_of,
    write_parcels,
)
from tests.benchmarks.evidence.nexmark import (
    FIRST_AUCTION_ID,
    FIRST_PERSON_ID,
    HOT_OF,
    TOPICS,
    TOTAL_PROPORTION,
    Generator,
)
from tests.benchmarks.recorded import recordings

if TYPE_CHECKING:
    from pathlib import Path


@given(
    bins=st.lists(st.integers(0, 50), min_size=1, max_size=40).filter(any),
    seconds=st.integers(1, 60),
    rows=st.integers(0, 10_000),
)
def test_all_rows_come_and_in_each_part_as_many_as_the_trace_has(
    bins: list[int], seconds: int, rows: int
) -> None:
    ticks = ticks_of(bins, float(seconds), rows)
    assert sum(tick.rows for tick in ticks) == rows
    assert all(tick.rows >= 0 for tick in ticks)
    assert [tick.at_seconds for tick in ticks] == [n * TICK_SECONDS for n in range(len(ticks))]
    # Up to the middle of the trace, give or take what the tick and the bin about it hold.
    done = sum(tick.rows for tick in ticks[: len(ticks) // 2])
    place = len(ticks) // 2 / len(ticks) * len(bins)
    least, most = sum(bins[: int(place)]), sum(bins[: int(place) + 1])
    assert rows * least / sum(bins) - 1 <= done <= rows * most / sum(bins) + 1


def test_a_long_trace_is_played_in_part_and_another_seed_has_another_part() -> None:
    long = recordings()["llm-conv"]
    parts = {slice_of(long, seed) for seed in range(5)}
    assert {len(part) for part in parts} == {MOST_BINS}
    assert len(parts) == 5
    assert slice_of(long, 1) == slice_of(long, 1)
    short = recordings()["tweets-apple"]
    assert slice_of(short, 1) == short.events


def test_events_are_drawn_as_nexmark_defines() -> None:
    count = 200 * TOTAL_PROPORTION
    generator = Generator(tuple(TOPICS), 7)
    rows = [(topic, json.loads(value)) for topic, value in islice(generator.endless(), count)]
    kinds = Counter(topic for topic, _ in rows)
    assert kinds == {kind: 200 * topic.proportion for kind, topic in TOPICS.items()}
    for topic, row in rows:
        assert list(row) == [field.split()[0] for field in TOPICS[topic].schema.split(", ")]
    of = {kind: [row for topic, row in rows if topic == kind] for kind in TOPICS}
    # Ids count on, and bids are for auctions that are about.
    assert [row["id"] for row in of["person"]] == [FIRST_PERSON_ID + n for n in range(200)]
    assert [row["id"] for row in of["auction"]] == [FIRST_AUCTION_ID + n for n in range(600)]
    hot = sum((row["auction"] - FIRST_AUCTION_ID) % HOT_OF == 0 for row in of["bid"])
    assert 0.47 < hot / len(of["bid"]) < 0.55, "half of the bids go to hot auctions"
    hot = sum((row["bidder"] - FIRST_PERSON_ID) % HOT_OF == 1 for row in of["bid"])
    assert 0.72 < hot / len(of["bid"]) < 0.8, "three quarters come from hot bidders"
    for kind, size in (("person", 200), ("auction", 500), ("bid", 100)):
        told = [sum(8 if isinstance(v, int) else len(v) for v in r.values()) for r in of[kind]]
        # Times count eight in the definition, and are text here.
        times = 21 * (1 if kind != "auction" else 2)
        assert abs(sum(told) / len(told) - times - size) < 0.15 * size


def test_only_what_a_query_reads_is_drawn_and_a_seed_draws_the_same_again() -> None:
    first = list(islice(Generator(("person", "auction"), 3).endless(), 100))
    assert {topic for topic, _ in first} == {"person", "auction"}
    assert first == list(islice(Generator(("person", "auction"), 3).endless(), 100))
    assert first != list(islice(Generator(("person", "auction"), 4).endless(), 100))


def values_of(parcel: Parcel) -> list[Any]:
    """Of the one topic: its rows in the order of their numbers."""
    of: dict[int, list[Any]] = {partition: [] for partition in range(PARTITIONS)}
    for request in parcel.requests:
        for (_, partition), (count, batch) in request.items():
            rows = [json.loads(row.value or b"") for row in DefaultRecordBatch(bytes(batch))]
            assert len(rows) == count
            of[partition] += rows
    return [row for turn in itertools.zip_longest(*of.values()) for row in turn if row is not None]


def test_rows_of_a_file_have_the_times_of_their_ticks(tmp_path: Path) -> None:
    ticks = ticks_of((1, 0, 3), 3.0, 40)
    write_parcels(tmp_path / "rows", Generator(("bid",), 1), [4, 4], ticks)
    following = read_parcels(tmp_path / "rows")
    parcels = [following(count) for count in (4, 4, *(tick.rows for tick in ticks))]
    assert [sum(one.rows.values()) for one in parcels[2:]] == [tick.rows for tick in ticks]
    # The lumps fill whole turns, and the rows of a tick share their time.
    times = [row["dateTime"] for one in parcels for row in values_of(one)]
    assert len(times) == 48
    assert times == sorted(times)
    assert times[7] < "2023-11-14T22:13:20.000" <= times[8]
    assert len({time for time in times[8:] if "22:13:21" in time}) == 0, "nothing in the gap"
    # 40 rows in 3 s: the warm-up's 8 rows are of the 0.6 s before.
    assert times[0].startswith("2023-11-14T22:13:19.400")
    assert times[4].startswith("2023-11-14T22:13:19.700")


def test_a_file_of_other_parcels_is_told(tmp_path: Path) -> None:
    write_parcels(tmp_path / "rows", Generator(("bid",), 1), [4], ticks_of((1,), 1.0, 10))
    with pytest.raises(ValueError, match="'bid': 4} come next, not 5 rows"):
        read_parcels(tmp_path / "rows")(5)


@given(counts=st.lists(st.integers(1, 30), min_size=1, max_size=20), data=st.data())
def test_each_row_of_a_partition_is_told_when_it_came(
    counts: list[int], data: st.DataObject
) -> None:
    arrivals, first = [], 0
    times: list[float] = []
    for number, count in enumerate(counts):
        arrivals.append(Arrival(float(number), "bid", first, count))
        first += count
        times += [float(number)] * count
    partition = data.draw(st.integers(0, PARTITIONS - 1))
    mine = times[partition::PARTITIONS]
    begin = data.draw(st.integers(0, len(mine)))
    end = data.draw(st.integers(begin, len(mine)))
    told = Came(arrivals).of(partition, begin, end)
    assert [time for time, rows in told for _ in range(rows)] == mine[begin:end]


def test_advertising_draws_views_clicks_and_purchases_of_a_thousand_ads() -> None:
    generator = advertising.Generator(("ad_event",), 5)
    rows = [json.loads(value) for _, value in islice(generator.endless(), 6000)]
    fields = [field.split()[0] for field in advertising.TOPICS["ad_event"].schema.split(", ")]
    assert all(list(row) == fields for row in rows)
    assert len({row["ad_id"] for row in rows}) > 900
    kinds = Counter(row["event_type"] for row in rows)
    assert set(kinds) == set(advertising.EVENT_TYPES)
    assert all(1800 < count < 2200 for count in kinds.values())
