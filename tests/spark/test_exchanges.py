"""How often a batch has the JVM asked: each exchange costs the job's own threads processor time."""

from __future__ import annotations

import collections
import threading
import time
from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection

from spark_listener.intake import TAKE_MILLISECONDS
from tests.spark.conftest import assert_admitted, progresses
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]
BATCHES = 12
#: A batch that ends while we begin or end to count.
SPARE = 3


def test_a_batch_of_files_costs_few_exchanges(
    agent: Any,
    attached: Any,
    folder: Any,
    start: Any,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = folder(files=BATCHES + 8)
    attached(agent, files_list=False, heartbeat_seconds=60)
    query = start(source.read(spark, limit=1))
    until(lambda: len(progresses(agent, query)) >= 4, "batches", telling=query.exception)

    asked: collections.Counter[str] = collections.Counter()
    send = ClientServerConnection.send_command

    def counted(connection: Any, command: str) -> Any:
        asked[threading.current_thread().name] += 1
        return send(connection, command)

    def done() -> int:
        return len(progresses(agent, query))

    before, begun = done(), time.monotonic()
    monkeypatch.setattr(ClientServerConnection, "send_command", counted)
    until(lambda: done() >= before + BATCHES, "more batches", telling=query.exception)
    monkeypatch.undo()
    batches, seconds = done() - before, time.monotonic() - begun

    most = batches + SPARE
    # Heartbeats are one a minute.
    # Events: one exchange for each, all that it tells; and one for each wait that was in vain.
    assert 0 < asked["weir-events"] <= most + seconds * 1000.0 / TAKE_MILLISECONDS
    assert 0 < asked["weir-files"] <= most  # how many files the batch took
    assert 0 < asked["weir-observer"] <= 2 * most  # files seen, and of them unread
    told = [(one["limits"][0]["admitted"], 1) for one in progresses(agent, query)]
    assert_admitted(told)
