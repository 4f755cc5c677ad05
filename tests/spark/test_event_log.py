"""Event logs that a real Spark writes, in each of its codecs, against what the listener hears."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from agent.core.decode.events import Application, Listener, Request, decode_event
from agent.core.fleet import Fleet
from agent.core.policy import Policy, QueryPolicy
from agent.replay import replay_files
from agent.sources.event_log import Follower, find_logs
from agent.spark_codecs import decoder
from tests.event_log import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.core.decode.events import Event
    from agent.core.judgement import Judgement

pytestmark = pytest.mark.spark
Logged = tuple[Path, Callable[[], None]]
KINDS = {"started", "progress", "terminated"}
CODECS = ["zstd", "lz4", "snappy"]


@pytest.mark.parametrize("codec", CODECS)
def test_what_spark_s_own_codec_has_flushed_is_read(spark: Any, tmp_path: Path, codec: str) -> None:
    jvm = spark.sparkContext._jvm
    made = getattr(getattr(jvm.org.apache.spark.io, "CompressionCodec$"), "MODULE$").createCodec(
        spark.sparkContext._jsc.sc().conf(), codec
    )
    path = tmp_path / f"app-1.{codec}"
    stream = made.compressedContinuousOutputStream(jvm.java.io.FileOutputStream(str(path)))
    content = lines.whole(30)
    reader, plain, read = decoder(path.name), b"", 0
    for number, line in enumerate(content):
        stream.write(line)
        stream.flush()
        data = path.read_bytes()[read:]
        read += len(data)
        plain += reader.feed(data)
        if codec == "zstd":  # the others keep what does not fill a block
            assert plain == b"".join(content[: number + 1])
    stream.close()
    plain += reader.feed(path.read_bytes()[read:])
    assert plain == b"".join(content)


@pytest.fixture
def logged(spark: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Logged]:
    """The shared Spark writes an event log into a folder, until it is told to end it."""
    jvm, context = spark.sparkContext._jvm, spark.sparkContext._jsc.sc()
    folder = tmp_path / "logs"
    folder.mkdir()
    conf = (
        context.conf()
        .clone()
        .set("spark.eventLog.compress", "true")
        .set("spark.eventLog.compression.codec", request.param)
    )
    writer = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "app-1", jvm.scala.Option.empty(), jvm.java.net.URI(folder.as_uri()), conf
    )
    writer.start()
    context.listenerBus().addToEventLogQueue(writer)
    ended = []

    def end() -> None:
        if not ended:
            ended.append(True)
            context.listenerBus().waitUntilEmpty(60_000)
            context.removeSparkListener(writer)
            writer.stop()

    yield folder, end
    end()


@pytest.mark.parametrize(
    "logged",
    [
        CODECS[0],  # Spark's own choice
        *(pytest.param(name, marks=pytest.mark.slow("the same events")) for name in CODECS[1:]),
    ],
    indirect=True,
)
def test_the_log_is_judged_as_the_listener_is(
    agent: Any, attached: Any, start: Any, spark: Any, logged: Logged
) -> None:
    folder, end = logged
    attached(agent)
    frame = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    spread = frame.repartition(4)  # tasks enough to compare
    query = start(spread.groupBy().count(), seconds=0.5, name="enrich", mode="complete")
    # Not by recentProgress: it holds an entry for an idle trigger too, which is no progress event.
    agent.wait(lambda a: len(a.of("progress", str(query.runId))) >= 6, seconds=240.0)
    running = Follower(find_logs(folder)[0], 0, {}.get, {}.get, {}.get)
    while running.next_request() is not None:
        running.accepted()
    query.stop()
    agent.wait(lambda a: a.of("terminated", str(query.runId)))
    end()  # lz4 and snappy keep what does not fill a block until then

    follower = Follower(find_logs(folder)[0], 0, {}.get, {}.get, {}.get)
    logged_events: list[Event] = []
    while (request := follower.next_request()) is not None:
        logged_events += [event for _, event in request.events if event.kind in KINDS]
        follower.accepted()
    heard = [
        decode_event({**event, "limits": []}, number)
        for number, event in enumerate(agent.events, 1)
        if event["type"] in KINDS and event["body"]["runId"] == str(query.runId)
    ]
    ours, theirs = judged(heard), judged(logged_events)
    assert len(theirs) >= 7
    assert ours == theirs
    out = io.BytesIO()
    assert replay_files([str(folder)], QueryPolicy(), out) == []  # as Spark has left it
    replayed = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [told_alike(one) for one in replayed] == [told_alike(one) for one in theirs]
    stages = follower.alignments(0.0)[str(query.runId)]
    assert stages.batch_id == max(one["batch_id"] for one in ours if one["event"] == "progress")
    assert any(one.tasks == 4 and one.host for one in stages.stages), stages


def told_alike(line: dict[str, Any]) -> tuple[Any, ...]:
    """What a log tells whoever reads it: not that only a live one has no way to a limit."""
    keys = ("event", "query", "batch_id", "throughput_rows_per_second", "checkpoint", "failure")
    return tuple(line[key] for key in keys)


def judged(events: list[Event]) -> list[dict[str, Any]]:
    """What the core says of each, without when: a listener hears later than Spark writes."""
    fleet = Fleet(Policy(), started_time=0.0)
    said: list[Judgement] = []
    for number, event in enumerate(events, 1):
        one = msgspec.structs.replace(event, sequence=number)
        request = Request(Application("app-1", "orders"), Listener("x"), [(0, one)], [])
        said += fleet.receive(request, now=event.time).judged
    told = [msgspec.to_builtins(line) for line in said]
    for line in told:
        line.pop("time")
    return told
