"""One real Spark for all of these tests, directories of small files, and an agent per test."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any

import pytest

import spark_listener
from spark_listener import attachment
from spark_listener.complaints import Complaints, Log
from spark_listener.first_batch import Gatekeeper
from tests.driver.fake_agent import FakeAgent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROWS_PER_FILE = 10
#: Short, so that tests need not wait; the contract's is 5 s.
HEARTBEAT_SECONDS = 0.3
#: A trigger's interval that no test outlives. Spark's next batch begins at a multiple of it since
#: 1970, however lately the first one ran: with an hour a test in two hundred sees a second batch.
NO_SECOND_BATCH_SECONDS = 10_000_000_000
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    import pyspark
    from pyspark.sql import SparkSession

    from tests.kafka import broker

    jars = [broker.connector(pyspark.__version__)] if broker.is_there() else []
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("weir tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.noDataProgressEventInterval", "500ms")
        # Tests add up what recentProgress tells: of a query that idles a hundred are soon gone.
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
    )
    if delta := broker.delta(pyspark.__version__):
        jars.append(delta)
        builder = builder.config(
            "spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"
        ).config("spark.sql.catalog.spark_catalog", DELTA_CATALOG)
    if release := os.environ.get("WEIR_ICEBERG"):  # set by tests.matrix
        jars.append(broker.icebergs(pyspark.__version__)[release])
        builder = builder.config(
            "spark.sql.extensions",
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        )
    session = builder.config("spark.jars", ",".join(jars)).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    spark_listener.detach()
    session.stop()


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    with FakeAgent() as running:
        yield running


@pytest.fixture
def own_logger(request: pytest.FixtureRequest) -> logging.Logger:
    """This test's alone: an attachment of the test before may have its last words late."""
    return logging.getLogger(f"weir.{request.node.name}")


@pytest.fixture
def attached(
    spark: Any, own_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., attachment.Attachment]]:
    """Attaches the shared session; afterwards stops its queries and detaches."""
    monkeypatch.setattr(attachment, "_complaints", Complaints(log=Log(own_logger.name)))

    def attach(agent: FakeAgent | str, **settings: Any) -> attachment.Attachment:
        url = agent if isinstance(agent, str) else agent.url
        made = spark_listener.attach(
            spark,
            **{"agent_url": url, "heartbeat_seconds": HEARTBEAT_SECONDS, **settings},
        )
        assert made.active
        if isinstance(agent, FakeAgent) and agent.mode == "answer":
            agent.wait(lambda a: a.events)  # it answers, as after a job's first moments
        return made

    yield attach
    for query in spark.streams.active:
        query.stop()
    spark_listener.detach()


@pytest.fixture
def warnings(
    caplog: pytest.LogCaptureFixture, own_logger: logging.Logger
) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, "weir")
    return lambda: [
        record.getMessage()
        for record in caplog.records
        if record.name in {"weir", own_logger.name} and record.levelno >= logging.WARNING
    ]


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every first batch that was held back."""
    held: list[Any] = []
    original = Gatekeeper.hold

    def note(keeper: Gatekeeper, *arguments: Any) -> Any:
        held.append(original(keeper, *arguments))
        return held[-1]

    monkeypatch.setattr(Gatekeeper, "hold", note)
    return held


class Folder:
    """A directory that files arrive in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        path.mkdir(parents=True, exist_ok=True)

    def add(self, files: int) -> None:
        """They arrive together: of a burst that trickles in, a busy machine's batch is a part."""
        names = [f"{number:05d}.json" for number in range(self.count, self.count + files)]
        for number, name in enumerate(names, self.count):
            rows = [json.dumps({"k": n % 3, "v": number}) for n in range(ROWS_PER_FILE)]
            (self.path / f".{name}").write_text("\n".join(rows))
        for name in names:
            os.rename(self.path / f".{name}", self.path / name)  # noqa: PTH104
        self.count += files

    def read(self, spark: Any, limit: int | None = None, **options: Any) -> Any:
        reader = spark.readStream.schema("k int, v int")
        if limit is not None:
            reader = reader.option("maxFilesPerTrigger", str(limit))
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.json(str(self.path))


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Folder]:
    def make(name: str = "in", files: int = 0) -> Folder:
        made = Folder(tmp_path / name)
        made.add(files)
        return made

    return make


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Starts a query into nowhere (or ``batch``) with a checkpoint of its own; stops it later."""
    started: list[Any] = []

    def begin(
        frame: Any,
        *,
        seconds: float = 0.3,
        trigger: dict[str, Any] | None = None,
        batch: Callable[[Any, int], None] | None = None,
        name: str | None = None,
        checkpoint: str | None = None,
        mode: str | None = None,
    ) -> Any:
        place = checkpoint or str(tmp_path / f"checkpoint{len(started)}")
        writer = frame.writeStream.option("checkpointLocation", place)
        writer = writer.foreachBatch(batch) if batch else writer.format("noop")
        if mode:
            writer = writer.outputMode(mode)
        if name:
            writer = writer.queryName(name)
        writer = writer.trigger(
            **(trigger or {"processingTime": f"{int(seconds * 1000)} milliseconds"})
        )
        query = writer.start()
        started.append(query)
        return query

    yield begin
    for query in started:
        query.stop()


def progresses(agent: FakeAgent, query: Any) -> list[dict[str, Any]]:
    """Progress events of one run that admitted something."""
    return [
        event
        for event in agent.of("progress", str(query.runId))
        if event["body"]["numInputRows"] > 0
    ]


def files_per_batch(agent: FakeAgent, query: Any, source: int = 0) -> list[int]:
    return [
        event["body"]["sources"][source]["numInputRows"] // ROWS_PER_FILE
        for event in progresses(agent, query)
    ]


def assert_admitted(told: list[tuple[int | None, int]]) -> None:
    """(told, taken) of batches: never wrong, though unknown where a listing stood in the way."""
    assert [(one, taken) for one, taken in told if one not in {None, taken}] == []
    assert any(one is not None for one, _ in told)


def in_force(query: Any) -> list[str]:
    """The limits as the JVM holds them."""
    execution = query._jsq.streamingQuery()
    iterator = execution.uniqueSources().valuesIterator()
    found = []
    while iterator.hasNext():
        found.append(iterator.next().toString())
    return sorted(found)
