"""What is tried on each PySpark of the matrix; tests.matrix.__main__ runs it on one after another.

The file named by ``WEIR_MATRIX_RESULT`` gets what was seen, as far as it went.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kafka.broker import connector
from tests.kafka.test_live import (
    backlog_by_the_broker,
    planned,
    reading,
    rows_of,
    until,
    view,
)
from tests.service.agents import AgentProcess
from tests.spark.conftest import ROWS_PER_FILE, attached, folder, in_force, own_logger, spark, start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.kafka.broker import Broker
    from tests.spark.conftest import Folder

__all__ = ["attached", "folder", "own_logger", "spark", "start"]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
TARGET_SECONDS = 1.5
#: A batch as configured takes 3 s and more, twice the target.
SECONDS_PER_ROW = 0.01
CONFIGURED_ROWS = 300


class Arrivals:
    """A source that the test feeds: a topic, or a directory where no connector is to be had."""

    def __init__(self, spark: Any, broker: Broker | None, files: Folder) -> None:
        self.kind = "Kafka" if broker else "files"
        self.sent_rows = 0
        self._spark, self._broker, self._files = spark, broker, files
        if broker is not None:
            broker.create_topic("matrix", partitions=2)

    @property
    def configured(self) -> int:
        """The limit of a batch, in the source's own unit."""
        return CONFIGURED_ROWS if self._broker else CONFIGURED_ROWS // ROWS_PER_FILE

    def read(self, *, limited: bool) -> Any:
        if self._broker is None:
            return self._files.read(self._spark, self.configured if limited else None)
        options = {"maxOffsetsPerTrigger": self.configured} if limited else {}
        return reading(self._spark, self._broker, "matrix", **options)

    def add(self) -> None:
        """As much as a batch takes as configured."""
        self.sent_rows += CONFIGURED_ROWS
        if self._broker is None:
            self._files.add(CONFIGURED_ROWS // ROWS_PER_FILE)
        else:
            self._broker.produce("matrix", [str(number) for number in range(CONFIGURED_ROWS)])

    def left(self, checkpoint: Path, done_rows: int) -> int:
        """What no batch was planned to read (files: has read), in the source's unit, by itself."""
        if self._broker is None:
            return (self.sent_rows - done_rows) // ROWS_PER_FILE
        return backlog_by_the_broker(self._broker, "matrix", planned(checkpoint, "matrix"))


@pytest.fixture
def result() -> Iterator[dict[str, Any]]:
    """Filled step by step; written whatever happens."""
    seen: dict[str, Any] = {}
    yield seen
    Path(os.environ["WEIR_MATRIX_RESULT"]).write_text(json.dumps(seen))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    options = ("--state-dir", str(tmp_path / "state"), "--target-seconds", str(TARGET_SECONDS))
    with AgentProcess(tmp_path, *options) as it:
        yield it


def test_everything_once(
    result: dict[str, Any],
    agent: AgentProcess,
    spark: Any,
    attached: Callable[..., Any],
    folder: Callable[..., Folder],
    start: Callable[..., Any],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    import pyspark

    result["pyspark"] = pyspark.__version__
    result["java"] = spark._jvm.java.lang.System.getProperty("java.specification.version")
    result["scala"] = spark._jvm.scala.util.Properties.versionNumberString()
    broker = request.getfixturevalue("broker") if connector(pyspark.__version__) else None
    arrivals = Arrivals(spark, broker, folder())
    result["source"] = arrivals.kind
    place = tmp_path / "checkpoint"
    hang = threading.Event()
    hang.set()

    def batch(frame: Any, _: int) -> None:
        time.sleep(SECONDS_PER_ROW * frame.count())
        hang.wait(300)

    made = attached(agent.address)
    query = start(
        arrivals.read(limited=True), batch=batch, name="matrix", checkpoint=str(place), seconds=0.1
    )
    run_id = str(query.runId)

    def done() -> int:
        return sum(rows_of(query))

    def lowered() -> bool:
        if arrivals.sent_rows - done() < 1.5 * CONFIGURED_ROWS:
            arrivals.add()
        return any(0 < limit < arrivals.configured for limit in limits(query))

    # The limit moves while the query runs, and batches follow.
    until(lowered, "a lower limit")
    (limit,) = limits(query)
    arrivals.add()
    until(lambda: rows_of(query)[-1] < 0.9 * CONFIGURED_ROWS, "a smaller batch")
    assert str(query.runId) == run_id
    result["live_limit"] = True
    result["limit"] = {"configured": arrivals.configured, "granted": limit}

    # A batch that hangs is seen growing older; what waits behind it is told meanwhile.
    hang.clear()
    arrivals.add()
    until(lambda: older(view(agent, "matrix")), "the hung batch's age to grow")
    result["heartbeats"] = True
    hang.set()

    def exact() -> bool:
        expected = arrivals.left(place, done())
        if not expected:  # more than a batch takes as configured, so that some waits behind it
            arrivals.add()
            arrivals.add()
        (source,) = view(agent, "matrix")["sources"]
        return expected > 0 and source["backlog"] == expected

    until(exact, "the exact backlog")
    result["backlog"] = True
    query.stop()
    until(lambda: view(agent, "matrix").get("state") == "terminated", "the word of the query's end")
    result["events"] = True

    # With nothing configured: all that came while it stood still does not come at once.
    for _ in range(8):
        arrivals.add()
    waiting_rows = arrivals.sent_rows - done()

    def restarted() -> Any:
        return start(
            arrivals.read(limited=False),
            batch=batch,
            name="matrix",
            checkpoint=str(place),
            seconds=0.1,
        )

    again = restarted()
    # The first may be the one that the stop broke off, planned as it was: look beyond it.
    until(lambda: len(rows_of(again)) >= 2 or not again.isActive, "two batches or the query's end")
    if died_of_its_metrics(again):
        result["note"] = "Spark's Kafka source fails when it replays a batch, with or without Weir"
        until(lambda: view(agent, "matrix")["failure"] is not None, "the word of the failure")
        again = restarted()
        until(lambda: len(rows_of(again)) >= 2, "two batches")
    assert max(rows_of(again)) < 0.75 * waiting_rows, (rows_of(again), waiting_rows)
    result["first_batch"] = True
    made.detach()
    assert in_force(again) == ["All Available"]
    result["detached"] = True


def asleep(rows: Iterator[Any]) -> None:
    """A task that ends with its query."""
    for _ in rows:
        time.sleep(60.0)


def test_a_stop_in_a_function_of_python_is_no_failure(
    agent: AgentProcess,
    spark: Any,
    attached: Callable[..., Any],
    folder: Callable[..., Folder],
    start: Callable[..., Any],
) -> None:
    """Spark 3.5 tells an exception (SPARK-48717), surely where a thread beside waits for a job.

    What the stop interrupts is another one, so that the job's end alone is seen.
    """
    from pyspark import InheritableThread

    began, failed = threading.Event(), []

    def write(frame: Any) -> None:
        try:
            frame.rdd.foreachPartition(asleep)
        except Exception as error:
            failed.append(error)

    def batch(frame: Any, _: int) -> None:
        beside = InheritableThread(target=write, args=(frame,))
        beside.start()
        began.set()
        beside.join()
        for error in failed:
            raise error

    attached(agent.address)
    query = start(folder(files=1).read(spark), batch=batch, name="stopped")
    assert began.wait(60.0)
    tasks = spark.sparkContext.statusTracker()
    until(tasks.getActiveJobsIds, "the batch's job")
    query.stop()
    until(lambda: view(agent, "stopped").get("state") == "terminated", "the word of its end")
    seen = view(agent, "stopped")
    assert failed, "the job was cancelled"
    assert (seen["stopped"], seen["failure"]) == (True, None), str(query.exception())


def died_of_its_metrics(query: Any) -> bool:
    """Whether it ended by the null that Spark 4.1.1 trips over after a replayed batch."""
    return not query.isActive and "Option.get()" in str(query.exception())


def limits(query: Any) -> list[int]:
    """The numbers of the limits in force; a source without one has none."""
    return [int(said.rpartition(" ")[2]) for said in in_force(query) if said[-1].isdigit()]


def older(seen: dict[str, Any]) -> bool:
    """Whether the running batch is said to have run far longer than it would by itself."""
    return seen["running_batch_id"] is not None and (seen["running_seconds"] or 0.0) > 6.0
