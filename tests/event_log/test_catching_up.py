"""What brokers say of a query whose event log is not read to its end."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from agent.core.decode.kafka_offsets import Held
from agent.service.kafka_watch import KafkaWatch
from agent.sources import event_log
from tests.event_log import lines
from tests.event_log.test_put_aside import KEY, Watch
from tests.service.test_kafka_watch import Cluster

if TYPE_CHECKING:
    from pathlib import Path

    from agent.sources.event_log import Follower


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    folder = tmp_path / "logs"
    folder.mkdir()
    return Watch(folder)


def kafka(batch: int) -> bytes:
    """A batch that reads 1000 rows of one partition."""
    event = json.loads(lines.progress(batch))
    event["progress"]["sink"]["description"] = "DeltaSink[s3://lake/t]"  # never ahead of its log
    start, end = (json.dumps({"t": {"0": 1000 * number}}) for number in (batch, batch + 1))
    event["progress"]["sources"][0] |= {
        "description": "KafkaV2[Subscribe[t]]",
        "startOffset": start,
        "endOffset": end,
        "latestOffset": end,
    }
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def test_while_a_log_is_caught_up_with_brokers_have_no_backlog_to_tell(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the query had read by then meets what brokers hold now: neither waits, nor is lost."""
    monkeypatch.setattr(event_log, "STEP_BYTES", 4000)
    brokers = KafkaWatch(
        lambda: watch.keeper.fleet,
        Cluster({("t", "0"): Held(30_000, 60_500)}),  # type: ignore[arg-type]
        lambda: watch.now,
        every_seconds=1.0,
        series=False,
    )
    asyncio.run(brokers.look())
    watch.write([*lines.opening(), lines.started(), *map(kafka, range(60))])

    def told() -> tuple[float | None, int]:
        view = watch.keeper.view(KEY, watch.now)
        return view.backlog_rows, len(view.partitions)

    seen = []
    ends = iter(range(10**6))
    (logs,) = watch.logs.directories
    monkeypatch.setattr(logs, "_clock", lambda: watch.now + 2.0 * next(ends))  # slow
    while watch.completed < 60:
        asyncio.run(watch.logs.poll())
        watch.now += 1.0
        asyncio.run(brokers.look())
        seen.append(told())
    assert len(seen) > 3
    assert set(seen[:-1]) == {(0.0, 0)}, "what progress says"
    watch.now += 1.0
    asyncio.run(watch.logs.poll())
    asyncio.run(brokers.look())
    assert told() == (500.0, 1)
    assert watch.keeper.fleet.committed() != {}


def test_a_log_counts_as_behind_while_it_is_read_too(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another directory may say meanwhile which are."""
    monkeypatch.setattr(event_log, "STEP_BYTES", 4000)
    watch.write([*lines.opening(), lines.started(), *map(kafka, range(60))])
    (logs,) = watch.logs.directories
    read, behind = logs._read, list[bool]()

    async def noted(follower: Follower) -> bool:
        behind.append(follower.log.name in logs.names_behind())
        return await read(follower)

    monkeypatch.setattr(logs, "_read", noted)
    while watch.completed < 60:
        asyncio.run(watch.logs.poll())
        watch.now += 1.0
    assert len(behind) > 3
    assert all(behind)
