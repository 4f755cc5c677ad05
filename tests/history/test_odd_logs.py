"""One odd log among good ones, on a real Spark: it is named, the others are judged, none twice."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from tests.event_log import lines
from tests.history import spark_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from pathlib import Path

    from agent.history.job import Outcome

pytestmark = pytest.mark.spark


def judged(spark: Executor, out: Path) -> dict[str, int]:
    """Judged events of each application."""
    return spark.submit(spark_process.applications, out).result()


@pytest.fixture
def run(spark: Executor, tmp_path: Path) -> Callable[..., Outcome]:
    def once(*logs: Path, out: str = "out", **what: int) -> Outcome:
        return spark.submit(spark_process.run, list(logs), tmp_path / out, **what).result()

    return once


def changed(log: bytes, name: str, change: Callable[[dict[str, Any], int], None]) -> bytes:
    """The log of another application, each progress changed."""
    lines, count = [], 0
    for line in log.split(b"\n"):
        if b"QueryProgressEvent" in line:
            event = json.loads(line)
            change(event["progress"], count)
            count += 1
            line = json.dumps(event).encode()  # noqa: PLW2901
        lines.append(line.replace(b'"App Name":"orders"', b'"App Name":"%s"' % name.encode()))
    return b"\n".join(lines)


def kafka(value: int) -> str:
    return json.dumps({"t": {"0": value, "1": value}})


def beyond_64_bits(progress: dict[str, Any], _: int) -> None:
    for source in progress["sources"]:
        source |= {"startOffset": kafka(0), "endOffset": kafka(5)}
        source["latestOffset"] = kafka(2**63 - 1)


def waits(progress: dict[str, Any], count: int) -> None:
    """An ordinary one: a second source with rows to come and none taken."""
    start = kafka(count * 1000)
    second = {**progress["sources"][0], "description": "KafkaV2[Subscribe[t]]"}
    second |= {"startOffset": start, "endOffset": start, "numInputRows": 0}
    progress["sources"].append({**second, "latestOffset": kafka(count * 1000 + 1000)})


def several(queries: int) -> bytes:
    """A log of so many queries, of two batches each."""
    one = [lines.started(), lines.progress(0), lines.progress(1)]
    own = ((lines.QUERY.encode(), b"id-%d"), (lines.RUN.encode(), b"run-%d"), (b"enrich", b"q-%d"))
    told = lines.opening()
    for number in range(queries):
        for line in one:
            for before, after in own:
                line = line.replace(before, after % number)  # noqa: PLW2901
            told.append(line)
    return b"".join(told)


@pytest.mark.slow("two runs of the job; without Spark the same logs are judged every time")
def test_odd_logs_are_judged_or_named_and_keep_no_other_from_it(
    spark: Executor, tmp_path: Path, run: Callable[..., Outcome], real_log: bytes
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "good").write_bytes(real_log)
    (logs / "absurd").write_bytes(changed(real_log, "absurd", beyond_64_bits))
    (logs / "waits").write_bytes(changed(real_log, "waits", waits))
    os.mkfifo(logs / "fifo")
    outcome = run(logs)
    said = {one.file.rpartition("/")[2]: one.reason for one in outcome.skipped}
    assert set(said) == {"fifo"}
    assert said["fifo"].startswith("a FIFO, not a regular file")
    found = judged(spark, tmp_path / "out")
    assert set(found) == {"orders", "absurd", "waits"}
    assert found["orders"] == found["absurd"] == found["waits"] > 20
    again = run(logs)
    assert (again.files, again.applications) == (0, [])
    assert [(one.file, one.reason) for one in again.skipped] == [
        (one.file, one.reason) for one in outcome.skipped
    ]


@pytest.mark.slow("two runs of the job, the second of which judges twice")
def test_a_log_that_cannot_be_judged_is_named_and_the_rest_of_its_application_judged(
    spark: Executor, tmp_path: Path, run: Callable[..., Outcome], real_log: bytes
) -> None:
    """What was kept of it is damaged meanwhile; another log of its application comes."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "local-1").write_bytes(real_log)
    assert run(logs).skipped == []
    once = judged(spark, tmp_path / "out")
    for part in (tmp_path / "out" / "_weir" / "lines").rglob("part-*"):
        blocks = [block.partition(b"\t") for block in part.read_bytes().splitlines()]
        part.write_bytes(b"".join(head + tab + b"AAAA\n" for head, tab, _ in blocks))
        part.with_name(f".{part.name}.crc").unlink()  # else Hadoop does not even give it out
    (logs / "local-2").write_bytes(real_log.replace(b'"App ID":"', b'"App ID":"2-'))
    (bad,) = run(logs).skipped
    assert (bad.file.rpartition("/")[2], bad.lines) == ("local-1", 0)
    assert bad.reason.startswith("cannot be judged: error: ")
    assert judged(spark, tmp_path / "out") == once


@pytest.mark.slow("a run of the job; without Spark the same is counted every time")
def test_a_log_with_more_queries_than_anyone_follows_is_named(
    tmp_path: Path, run: Callable[..., Outcome]
) -> None:
    (tmp_path / "app-1").write_bytes(several(3))
    (one,) = run(tmp_path / "app-1", most_queries=2).skipped
    assert (one.file.rpartition("/")[2], one.lines) == ("app-1", 3)
    assert one.reason == "of queries beyond the first 2 of one application's name: not judged"


@pytest.mark.slow("eight runs of the job; without Spark the same is decided every time")
def test_an_application_seen_twice_counts_once(
    spark: Executor, tmp_path: Path, run: Callable[..., Outcome], real_log: bytes
) -> None:
    """Packed and plain side by side, a copy elsewhere, one that broke off: in any order."""
    logs, copies = tmp_path / "logs", tmp_path / "copies"
    logs.mkdir()
    copies.mkdir()
    packed = zstandard.compress(real_log)
    (logs / "local-1.zstd").write_bytes(packed)
    assert run(logs).doubled == []
    once = judged(spark, tmp_path / "out")
    (logs / "local-1").write_bytes(real_log)
    beside = run(logs)
    assert [(one.rpartition("/")[2], by.rpartition("/")[2]) for one, by in beside.doubled] == [
        ("local-1", "local-1.zstd")
    ]
    assert beside.skipped == []
    assert judged(spark, tmp_path / "out") == once
    (logs / "local-1").unlink()
    lines = real_log.splitlines(keepends=True)
    (copies / "local-1").write_bytes(b"".join(lines[: len(lines) // 2]))
    (copies / "renamed.zstd").write_bytes(packed)
    outcome = run(logs, copies)
    names = sorted(one.rpartition("/")[2] for one, _ in outcome.doubled)
    assert len(names) == 2
    assert judged(spark, tmp_path / "out") == once
    assert len(run(logs, copies).doubled) == 2, "said each time"
    assert judged(spark, tmp_path / "out") == once
    # Seen first as half of it, then whole: the whole one counts.
    run(copies / "local-1", out="other")
    half = judged(spark, tmp_path / "other")
    assert half["orders"] < once["orders"]
    run(copies / "local-1", logs, out="other")
    assert judged(spark, tmp_path / "other") == once
    # A second attempt of the same application is another log.
    shutil.rmtree(copies)
    copies.mkdir()
    attempt = real_log.replace(b'"App Name":"orders"', b'"App Name":"orders","App Attempt ID":"2"')
    (copies / "local-1_2").write_bytes(attempt)
    assert run(logs, copies, out="attempts").doubled == []
    assert judged(spark, tmp_path / "attempts")["orders"] > once["orders"]
