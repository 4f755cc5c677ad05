"""A Kafka source whose partitions change: what its offsets then tell, and what they do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.test_fleet import KEY, World

Places = dict[str, dict[str, int]]


def batch(
    world: World, start: Places, end: Places, rows: int, *, live: bool = True, **more: Any
) -> Any:
    """A batch as Spark tells it; ``live``: with what the listener says beside it."""
    latest = more.pop("latest", end)
    source = {
        "description": "KafkaV2[SubscribePattern[.*]]",
        "numInputRows": rows,
        "startOffset": start,
        "endOffset": end,
        "latestOffset": latest,
    }
    if not live:
        source = {
            name: json.dumps(value) if name.endswith("Offset") else value
            for name, value in source.items()
        }
    named = [(t, p) for t in end for p in end[t] if p in start.get(t, {})]
    limit = {
        "source": 0,
        "unit": "rows",
        "limit": 100_000,
        "configured": 100_000,
        "backlog": sum(latest[t][p] - end[t][p] for t in end for p in end[t]),
        "admitted": sum(end[t][p] - start[t][p] for t, p in named),
    }
    event = world.driver.progress(
        rows, 2.0, sources=[source], limits=[limit] if live else [], **more
    )
    (judged,) = world.send(event).judged
    return judged


@pytest.mark.parametrize("live", [True, False])
def test_a_batch_of_new_partitions_teaches_nothing_of_rows_in_an_offset(live: bool) -> None:
    """Of 100,000 rows of it 1,000 are of partitions that its start names."""
    world = World()
    for number in range(8):
        batch(
            world,
            {"a": {"0": 125 * number}},
            {"a": {"0": 125 * (number + 1)}},
            125,
            live=live,
        )
    latest = {"a": {"0": 2000}, "b": {"0": 10_000_000}}
    end = {"a": {"0": 2000}, "b": {"0": 99_000}}
    batch(world, {"a": {"0": 1000}}, end, 100_000, live=live, latest=latest)
    (source,) = world.fleet._roster[KEY].sources
    assert source.rows_per_unit == pytest.approx(1.0)
    assert source.admitted == 100_000
    assert world.view().backlog_rows == 10_000_000 - 99_000


def test_a_topic_that_is_deleted_is_no_rewind() -> None:
    world = World()
    batch(world, {"a": {"0": 100}, "b": {"0": 1000}}, {"a": {"0": 110}, "b": {"0": 1010}}, 20)
    judged = batch(world, {"a": {"0": 110}, "b": {"0": 1010}}, {"a": {"0": 120}}, 10)
    assert judged.lag_state != "REWIND"
    judged = batch(world, {"a": {"0": 120}}, {"a": {"0": 130}, "c": {"0": 5}}, 15)
    assert judged.lag_state != "REWIND"
    judged = batch(world, {"a": {"0": 120}, "c": {"0": 5}}, {"a": {"0": 130}, "c": {"0": 5}}, 10)
    assert judged.lag_state == "REWIND"


def test_one_that_is_deleted_in_a_batch_that_nobody_told_of_is_none_either() -> None:
    world = World()
    batch(world, {"a": {"0": 100}, "b": {"0": 1000}}, {"a": {"0": 110}, "b": {"0": 1010}}, 20)
    judged = batch(world, {"a": {"0": 120}}, {"a": {"0": 130}}, 10, batch_id=2)
    assert judged.lag_state != "REWIND"
