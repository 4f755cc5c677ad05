"""What is read of a query: abilities by Spark version, triggers, redaction, progress text."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_listener.progress import read_progress
from spark_listener.query import (
    _MOST_NODES,
    Abilities,
    Query,
    _identity_of,
    abilities,
    takes_all_at_once,
    watermarks,
)
from spark_listener.redact import redact_addresses

if TYPE_CHECKING:
    from collections.abc import Callable

START = "org$apache$spark$sql$execution$streaming$ProgressReporter$$currentTriggerStartTimestamp"
COMMON = ["uniqueSources", "uniqueSources_$eq", "sources", "awaitProgressLock", "status"]
SPARK_35 = [*COMMON, "currentBatchId", START]
SPARK_42 = [*COMMON, "getLatestExecutionContext", "triggerExecutor"]
MICRO_BATCH = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
ASYNC = "org.apache.spark.sql.execution.streaming.AsyncProgressTrackingMicroBatchExecution"
CONTINUOUS = "org.apache.spark.sql.execution.streaming.continuous.ContinuousExecution"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (SPARK_35, Abilities(True, True, False, True, True, False)),
        (SPARK_42, Abilities(True, True, True, False, False, True)),
        ([], Abilities()),
        (["uniqueSources", "sources"], Abilities()),  # readable, not writable: no limits
        ([*SPARK_42, "somethingNew"], Abilities(True, True, True, False, False, True)),
    ],
)
def test_abilities_by_version(names: list[str], expected: Abilities) -> None:
    assert abilities(names) == expected


@pytest.mark.parametrize(
    ("trigger", "execution", "executor", "expected"),
    [
        ("ProcessingTimeTrigger(500)", MICRO_BATCH, "a.ProcessingTimeExecutor", False),
        ("ProcessingTimeTrigger(0)", ASYNC, "", False),
        ("AvailableNowTrigger", MICRO_BATCH, "a.MultiBatchExecutor", False),
        ("AvailableNowTrigger", MICRO_BATCH, "a.SingleBatchExecutor", True),
        ("OneTimeTrigger", MICRO_BATCH, "a.SingleBatchExecutor", True),
        ("OneTimeTrigger", MICRO_BATCH, "", True),
        ("ContinuousTrigger(1000)", CONTINUOUS, "", True),
        ("RealTimeTrigger(300000)", MICRO_BATCH, "", True),
        ("Anything", "some.new.Execution", "", True),
    ],
)
def test_triggers_that_take_everything(
    trigger: str, execution: str, executor: str, expected: bool
) -> None:
    assert takes_all_at_once(trigger, execution, executor) is expected


ICEBERG = "org.apache.iceberg.spark.source.SparkMicroBatchStream"


@dataclass
class Named:
    """A table, which has a name."""

    text: str

    def name(self) -> str:
        return self.text


@dataclass
class Source:
    """A JVM's source: its text, and its fields as reflection gives them."""

    text: str
    fields: dict[str, Any] = field(default_factory=dict)

    def toString(self) -> str:
        return self.text

    def getClass(self) -> Source:
        return self

    def getDeclaredField(self, name: str) -> Any:
        if name not in self.fields:
            raise RuntimeError(f"NoSuchFieldException: {name}")
        return Field(self.fields[name])

    def getSuperclass(self) -> None:
        return None


@dataclass
class Field:
    value: Any

    def setAccessible(self, _: bool) -> None:
        pass

    def get(self, _: Source) -> Any:
        return self.value


def iceberg(address: str, table: str, branch: str | None = None) -> Source:
    return Source(f"{ICEBERG}@{address}", {"table": Named(table), "branch": branch})


def test_an_iceberg_source_is_known_by_its_table_and_branch() -> None:
    one = _identity_of(iceberg("1a2b", "shop.orders"))
    assert one == _identity_of(iceberg("3c4d", "shop.orders"))  # in the next run
    others = [
        _identity_of(iceberg("1a2b", "shop.returns")),
        _identity_of(iceberg("1a2b", "shop.orders", "audit")),
    ]
    assert len({"", one, *others}) == 4


def test_an_iceberg_source_that_keeps_no_branch_is_known_by_its_table() -> None:
    bare = Source(f"{ICEBERG}@1a2b", {"table": Named("shop.orders")})
    assert _identity_of(bare) == _identity_of(iceberg("1a2b", "shop.orders"))


@pytest.mark.parametrize("name", ["x.Stream", "x.Streams$One", ICEBERG])
def test_a_source_that_tells_its_class_alone_has_no_fingerprint(name: str) -> None:
    assert _identity_of(Source(f"{name}@1a2b")) == ""
    assert _identity_of(Source(f"{name}[orders]")) != ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("DatahubV2[com.aliyun.datahub.DatahubOffsetReader@1a2b3c]", False),
        ("Stream[x.y.Reader$Inner$@1a2b, orders]", False),
        ("Stream[[Ljava.lang.String;@6d06d69c]", False),
        ("Stream[[[B@1a2b3c, orders]", False),
        ("Stream[com.x.R$$Lambda/0x00007f1234@1a2b3c]", False),
        ("Stream[com.x.R$$Lambda$12/345@1a2b3c]", False),
        ("DatahubV2[orders]", True),
        ("Stream[B@1a2b, orders]", False),
        ("Stream[Orders@1a2b/B@1a2b]", True),
        ("FileStreamSource[file:/data/me@1a2b/x]", True),
        ("FileStreamSource[s3://shop.orders@2024/x]", True),
    ],
)
def test_a_source_that_names_an_objects_address_has_no_fingerprint(text: str, told: bool) -> None:
    """It would be another in each run: of two sources each would be taken for the other."""
    assert (_identity_of(Source(text)) != "") is told


@pytest.mark.parametrize(
    "described",
    [
        "org.apache.kudu.spark.kudu.KuduSink@1a2b",
        "x.ConsoleTable$@3c",
        "lake.orders",
        "FileSink[x]",
    ],
)
def test_a_start_tells_its_sink_as_each_batch_does(described: str) -> None:
    """By its object's address a class is told from a table that is named so."""
    query: Any = object.__new__(Query)
    sink = SimpleNamespace(toString=lambda: described)
    query.execution = SimpleNamespace(sparkSessionForStream=lambda: None, sink=lambda: sink)
    query.trigger = ""
    body = {"id": "q", "runId": "r", "sink": {"description": described}}
    told = json.loads(read_progress(json.dumps(body)).text)["sink"]["description"]
    assert query.facts()["sink"] == told


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3a://KEY:SECRET@bucket/path?x=y#z", "s3a://bucket/path"),
        ("http://user@host:4040/a?token=t", "http://host:4040/a"),
        ("https://a:p@ss@host/x", "https://host/x"),
        ("abfss://container@account.dfs/x", "abfss://container@account.dfs/x"),
        ("abfss://c:secret@account.dfs/x", "abfss://account.dfs/x"),
        ("file:/tmp/checkpoint", "file:/tmp/checkpoint"),
        ("hdfs://nn:8020/x", "hdfs://nn:8020/x"),
        ("FileSink[s3a://K:S@b/x?q=1] done", "FileSink[s3a://b/x] done"),
        ("local[2]", "local[2]"),
        ("me@example.org", "me@example.org"),
    ],
)
def test_redaction(text: str, expected: str) -> None:
    assert redact_addresses(text) == expected


@settings(deadline=None)
@given(st.text(alphabet="abc:/@?#[] ", max_size=40))
def test_redaction_leaves_no_password(middle: str) -> None:
    assert "hunter2" not in redact_addresses(f"{middle} s3a://key:hunter2@bucket/{middle}")


def test_progress_goes_out_unchanged() -> None:
    text = '{"id":"q","runId":"r","timestamp":"2026-11-21T08:55:02.865Z", "x": 1.0E7}'
    progress = read_progress(text)
    assert progress.text is text
    assert progress.trigger_epoch_seconds == pytest.approx(1795251302.865)
    assert progress.sources == ()


def test_what_is_not_json_becomes_null() -> None:
    progress = read_progress('{"id":"q","runId":"r","rate":NaN,"sources":[{"a":-Infinity},3]}')
    assert json.loads(progress.text) == {
        "id": "q",
        "runId": "r",
        "rate": None,
        "sources": [{"a": None}, 3],
    }
    assert progress.sources == ({"a": None}, {})
    assert progress.trigger_epoch_seconds is None


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"id":1,"runId":"r"}', "{"])
def test_what_is_no_progress_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own errors among them
        read_progress(text)


class Node:
    """A logical plan's node, as the JVM has it."""

    delay: Callable[[], Interval | None]  # of one that sets a watermark

    def __init__(self, name: str, *children: Node) -> None:
        self.name, self.below = name, children

    def nodeName(self) -> str:
        return self.name

    def children(self) -> Node:
        return self

    def size(self) -> int:
        return len(self.below)

    def apply(self, index: int) -> Node:
        return self.below[index]

    def isStreaming(self) -> bool:
        return self.name in {"Stream", "CTERelationRef"}


STREAM, TABLE = Node("Stream"), Node("Table")


class Interval(NamedTuple):
    """As Spark's ``CalendarInterval``."""

    months: int
    days: int
    milliseconds: int

    def extractAsPeriod(self) -> Any:
        return SimpleNamespace(toTotalMonths=lambda: self.months, getDays=lambda: self.days)

    def extractAsDuration(self) -> Any:
        return SimpleNamespace(toMillis=lambda: self.milliseconds)


TEN_SECONDS = Interval(0, 0, 10_000)


def timed(*below: Node, delay: Interval | None = TEN_SECONDS) -> Node:
    found = Node("EventTimeWatermark", *below)
    found.delay = lambda: delay
    return found


@pytest.mark.parametrize(
    ("plan", "policy", "shared"),
    [
        (Node("Aggregate", STREAM), "min", False),
        (Node("Union", STREAM, STREAM), "max", False),  # no watermark at all
        (timed(STREAM), "max", False),
        (Node("Aggregate", timed(Node("Union", STREAM, STREAM))), "min", True),
        (Node("Join", timed(STREAM), timed(STREAM)), "min", False),
        (Node("Join", timed(STREAM), timed(STREAM)), "MAX", True),
        (timed(Node("Join", STREAM, TABLE)), "min", False),
        (Node("Union", timed(Node("Project", Node("Join", STREAM, STREAM))), STREAM), "min", True),
        (timed(Node("Union", timed(STREAM), timed(STREAM))), "min", True),
        (Node("Union", timed(STREAM), STREAM), "min", True),
        (
            Node(
                "WithCTE",
                Node("CTERelationDef", timed(STREAM)),
                Node("Join", Node("CTERelationRef"), timed(STREAM)),
            ),
            "min",
            False,
        ),
    ],
)
def test_one_watermark_over_several_streams(plan: Node, policy: str, shared: bool) -> None:
    told = watermarks(plan, policy)
    assert told is not None
    assert told.shared is shared


@pytest.mark.parametrize(
    ("delays", "least"),
    [
        ((Interval(0, 0, 500),), 0.5),
        ((Interval(0, 0, 60_000), Interval(0, 0, 5_000)), 5.0),
        ((Interval(1, 2, 1000),), 33 * 86_400.0 + 1.0),  # a month has 31 days
        ((Interval(0, 0, 60_000), None), None),  # one that cannot be read may be the least
    ],
)
def test_the_least_delay_of_a_plan(
    delays: tuple[Interval | None, ...], least: float | None
) -> None:
    told = watermarks(Node("Join", *[timed(STREAM, delay=one) for one in delays]), "min")
    assert told is not None
    assert told.least_delay_seconds == least


def test_a_plan_too_large_to_be_walked_says_nothing() -> None:
    plan = timed(Node("Union", STREAM, STREAM))
    for _ in range(_MOST_NODES - 4):
        plan = Node("Project", plan)
    assert watermarks(plan, "min") == (True, 10.0)
    assert watermarks(Node("Project", plan), "min") is None
