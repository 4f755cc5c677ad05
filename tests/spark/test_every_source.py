"""Every built-in kind of source survives an attach with whatever limit it had or lacked."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from spark_listener import sources
from spark_listener.limits import ALL, Limit, build, describe, replacement
from tests.spark.conftest import in_force
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

KAFKA = sources.KAFKA.classes[0]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

GRANTS = [("rows", 3), ("files", 3), ("bytes", 500), ("rows", None), ("files", 1)]


@pytest.fixture
def lines() -> Iterator[int]:
    """A port that sends a line now and then."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    done = threading.Event()

    def serve() -> None:
        while not done.is_set():
            try:
                peer, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(peer,), daemon=True).start()

    def talk(peer: socket.socket) -> None:
        try:
            while not done.wait(0.05):
                peer.sendall(b"line\n")
        except OSError:
            pass
        peer.close()

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1]
    done.set()
    server.close()


def frames(spark: Any, folder: Any, port: int) -> dict[str, Any]:
    stream = spark.readStream
    found = {
        "files": folder("files", 20).read(spark, 2),
        "files without a limit": folder("free", 20).read(spark),
        "rate": stream.format("rate").option("rowsPerSecond", "10").load(),
        "rate-micro-batch": stream.format("rate-micro-batch").option("rowsPerBatch", "10").load(),
        "socket": stream.format("socket")
        .option("host", "127.0.0.1")
        .option("port", str(port))
        .load(),
    }
    if not spark.version.startswith("3."):
        found["files by bytes"] = folder("bytes", 20).read(spark, maxBytesPerTrigger=400)
    return found


@pytest.mark.parametrize(
    "trigger",
    [
        {"processingTime": "200 milliseconds"},
        pytest.param(
            {"availableNow": True}, marks=pytest.mark.slow("as under a processing time, in runs")
        ),
        {"once": True},
    ],
    ids=["processing-time", "available-now", "once"],
)
def test_no_grant_of_any_unit_ends_a_query(
    agent: Any,
    attached: Any,
    folder: Any,
    start: Any,
    spark: Any,
    lines: int,
    trigger: dict[str, Any],
) -> None:
    attached(agent)
    endless = "processingTime" in trigger
    queries = {
        name: start(frame, trigger=trigger) for name, frame in frames(spark, folder, lines).items()
    }
    for unit, limit in GRANTS:
        for query, source in itertools.product(queries.values(), (0, 1)):
            agent.grant(str(query.runId), limit, source=source, unit=unit)
        time.sleep(0.7 if endless else 0.1)
    for name, query in queries.items():
        if endless:
            assert query.isActive, (name, query.exception())
            agent.wait(lambda a, query=query: a.of("progress", str(query.runId)))
        else:
            assert query.awaitTermination(60), name
        assert query.exception() is None, name
    if endless:
        expected = {
            "files": "MaxFiles: 1",
            "files without a limit": "MaxFiles: 1",
            "files by bytes": "MaxBytes: 500",
            "rate": "All Available",
            "rate-micro-batch": "MaxRows: 10",
            "socket": "All Available",
        }
        for name, query in queries.items():
            until(
                lambda q=query, n=name: in_force(q) == [expected[n]],
                "the limit of each kind in force",
            )
    controls = {}
    for name, query in queries.items():
        told = agent.of("progress", str(query.runId))
        if told and told[-1]["limits"]:
            controls[name] = {
                (entry["control"], bool(entry.get("note"))) for entry in told[-1]["limits"]
            }
    if endless:
        assert controls["files"] == {("live", False)}
        assert controls["rate"] == controls["socket"] == {("advice", True)}
        assert controls["rate-micro-batch"] == {("advice", True)}
    if "once" in trigger:
        assert all(found == {("none", True)} for found in controls.values())
        started = [agent.of("started", str(query.runId))[0] for query in queries.values()]
        assert {event["body"]["control"] for event in started} == {"none"}


def test_continuous_processing_is_watched_and_labelled(
    agent: Any, attached: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    frame = spark.readStream.format("rate").option("rowsPerSecond", "5").load()
    query = start(frame, trigger={"continuous": "1 second"})
    started = agent.wait(lambda a: a.of("started", str(query.runId)))[0]
    agent.grant(str(query.runId), 3, unit="rows")
    assert started["body"]["control"] == "none"
    assert "continuous" in started["body"]["note"]
    time.sleep(1.5)
    assert query.isActive


@pytest.fixture
def make(spark: Any) -> Any:
    return spark._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit


def composite(spark: Any, make: Any, *parts: Any) -> Any:
    array = spark.sparkContext._gateway.new_array(make, len(parts))
    for index, part in enumerate(parts):
        array[index] = part
    return make.compositeLimit(array)


def test_every_limit_of_the_jvm_is_described_and_built_class_for_class(
    spark: Any, make: Any
) -> None:
    gateway = spark.sparkContext._gateway
    cases = [
        (make.maxRows(5), "rows", KAFKA, "MaxRows: 9"),
        (make.maxFiles(5), "files", "any.Source", "MaxFiles: 9"),
        (make.allAvailable(), "rows", KAFKA, "MaxRows: 9"),
        (make.maxRows(2**40), "rows", KAFKA, "MaxRows: 9"),
    ]
    if not spark.version.startswith("3."):
        cases.append((make.maxBytes(5), "bytes", "any.Source", "MaxBytes: 9"))
    if (of_python := python_limit(spark)) is not None:
        text = 'PythonStreamingSourceReadLimit({"max_rows": 9, "_type": "ReadMaxRows"})'
        cases.append((of_python, "rows", "any.Source", text))
    for java_limit, unit, source_class, expected in cases:
        configured = describe(java_limit)
        wanted = replacement(configured, source_class, unit, 9)
        built = build(gateway, wanted, configured, java_limit)
        assert built.toString() == expected
        assert describe(build(gateway, configured, configured, java_limit)) == configured
    assert describe(make.allAvailable()) == ALL
    huge = build(gateway, Limit("rows", 2**63 - 1), ALL, make.allAvailable())
    assert huge.maxRows() == 2**63 - 1


def python_limit(spark: Any) -> Any:
    """A source's in Python, as such a source says it; None before Spark 4.2, which has none."""
    if tuple(map(int, spark.version.split(".")[:2])) < (4, 2):
        return None
    package = spark._jvm.org.apache.spark.sql.execution.datasources.v2.python
    return package.PythonStreamingSourceReadLimit('{"max_rows": 5, "_type": "ReadMaxRows"}')


def test_of_a_composite_only_the_maximum_moves(spark: Any, make: Any) -> None:
    gateway = spark.sparkContext._gateway
    minimum = make.minRows(1000, 2000)
    for java_limit in (
        composite(spark, make, minimum, make.maxRows(2000)),
        composite(spark, make, make.maxRows(2000), minimum),
        composite(spark, make, minimum),
        minimum,
    ):
        configured = describe(java_limit)
        wanted = replacement(configured, KAFKA, "rows", 1500)
        built = build(gateway, wanted, configured, java_limit)
        parts = list(built.getReadLimits())
        assert sorted(part.toString() for part in parts) == sorted(
            ["MaxRows: 1500", minimum.toString()]
        )
        assert any(part.equals(minimum) for part in parts)
        # And once more, from what is now in force, back to another number.
        again = replacement(configured, KAFKA, "rows", 7)
        assert describe(build(gateway, again, configured, java_limit)) == again


def test_the_next_batch_of_a_source_by_bytes_obeys(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    if spark.version.startswith("3."):
        pytest.skip("maxBytesPerTrigger came with Spark 4")
    attached(agent)
    source = folder(files=60)
    size = (source.path / "00000.json").stat().st_size
    query = start(source.read(spark, maxBytesPerTrigger=size))
    agent.grant(str(query.runId), size * 5, unit="bytes")
    until(lambda: in_force(query) == [f"MaxBytes: {size * 5}"], "the granted bytes in force")
    until(
        lambda: any(p["numInputRows"] >= 40 for p in query.recentProgress),
        "a batch of the granted bytes",
    )
    assert query.isActive
