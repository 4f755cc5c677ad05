"""The job on a real Spark: what it writes, run after run, is what was in the logs."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
import zstandard

from agent.core.policy import QueryPolicy
from agent.history.job import NothingToDo, Outcome
from agent.history.places import GONE, NoSuchPlace
from agent.history.tables import TABLES
from agent.replay import replay_files
from tests.history import spark_process
from tests.history.spark_process import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from pathlib import Path

pytestmark = pytest.mark.spark


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    place = tmp_path / "logs, {of} one %41#"  # names that Hadoop would take for patterns
    place.mkdir()
    return place


@pytest.fixture
def run(spark: Executor, tmp_path: Path, logs: Path) -> Callable[..., Outcome]:
    def once(out: str = "out", **what: Any) -> Outcome:
        return spark.submit(spark_process.run, logs, tmp_path / out, **what).result()

    return once


def judgements(spark: Executor, out: Path) -> list[dict[str, Any]]:
    return spark.submit(spark_process.judgements, out).result()


def everything(out: Path) -> dict[str, list[str]]:
    """All rows of all tables, with their folders; the log's address says where it lay."""
    found: dict[str, list[str]] = {}
    for path in sorted(out.glob("*/application=*/**/*.parquet")):
        table, *folders, _ = path.relative_to(out).parts
        rows = pq.ParquetFile(path).read().drop_columns("log").to_pylist()
        found.setdefault(table, []).extend(f"{folders} {row}" for row in rows)
    return {table: sorted(rows) for table, rows in found.items()}


def in_a_row(told: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(line, sort_keys=True) for line in told)


def replayed(log: Path) -> list[dict[str, Any]]:
    out = io.BytesIO()
    replay_files([str(log)], QueryPolicy(target_seconds=SETTINGS.target_seconds), out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.slow("six runs of the job; what is judged and named is looked at every time")
def test_in_every_form_run_after_run_the_tables_are_the_same(
    spark: Executor, tmp_path: Path, logs: Path, run: Callable[..., Outcome], real_log: bytes
) -> None:
    """A log that grows, plain; then at once, rolled over and compressed."""
    lines = real_log.splitlines(keepends=True)
    log = logs / "app-1.inprogress"
    log.write_bytes(b"".join(lines[: len(lines) // 2]) + lines[len(lines) // 2][:50])
    first = run()
    assert (first.files, first.applications, first.skipped) == (1, ["orders"], [])
    assert len(judgements(spark, tmp_path / "out")) > 20
    log.rename(logs / "app-1")
    (logs / "app-1").write_bytes(real_log)
    second = run()
    assert (second.files, second.known) == (1, 0)
    assert in_a_row(judgements(spark, tmp_path / "out")) == in_a_row(replayed(logs / "app-1"))
    third = run()
    assert (third.files, third.known, third.applications) == (0, 1, [])
    grown = everything(tmp_path / "out")
    assert set(grown) == {one.name for one in TABLES}
    assert spark.submit(spark_process.counts, tmp_path / "out").result() == {
        name: len(rows) for name, rows in grown.items()
    }

    shutil.rmtree(logs)
    rolled = logs / "eventlog_v2_app-1"
    rolled.mkdir(parents=True)
    for index in range(3):
        part = lines[len(lines) * index // 3 : len(lines) * (index + 1) // 3]
        packed = b"".join(zstandard.ZstdCompressor().compress(line) for line in part)
        (rolled / f"events_{index + 1}_app-1.zstd").write_bytes(packed)
    (rolled / "appstatus_app-1").touch()
    assert run("other").files == 3
    assert everything(tmp_path / "other") == grown


@pytest.mark.slow("runs three times over a log")
def test_a_run_that_was_killed_counts_for_nothing(
    spark: Executor,
    tmp_path: Path,
    logs: Path,
    run: Callable[..., Outcome],
    real_log: bytes,
) -> None:
    (logs / "app-1").write_bytes(real_log)

    with pytest.raises(InterruptedError):
        run(killed=True)
    assert run().files == 1
    assert in_a_row(judgements(spark, tmp_path / "out")) == in_a_row(replayed(logs / "app-1"))


@pytest.mark.slow("a run of the job more; object stores differ in reading alone")
def test_another_file_system_than_this_machines_gives_the_same(
    spark: Executor, tmp_path: Path, logs: Path, run: Callable[..., Outcome], real_log: bytes
) -> None:
    (logs / "app-1").write_bytes(real_log)
    (logs / "app-1b.zstd").write_bytes(zstandard.compress(real_log))
    run()
    there = spark.submit(spark_process.mounted, tmp_path).result()
    again = spark.submit(spark_process.run, f"{there}/{logs.name}", f"{there}/other").result()
    assert (again.files, again.skipped, again.out) == (2, [], f"{there}/other")
    assert everything(tmp_path / "other") == everything(tmp_path / "out")


def test_what_cannot_be_used_is_named_and_the_rest_is_judged(
    tmp_path: Path, logs: Path, run: Callable[..., Outcome], real_log: bytes
) -> None:
    """The command as users run it: summary, report, exit code."""
    lines = real_log.splitlines(keepends=True)
    older = [line.replace(b'"Spark Version":"4.2.0"', b'"Spark Version":"3.5.9"') for line in lines]
    (logs / "app-1").write_bytes(real_log)
    (logs / "app-2").write_bytes(b"".join(older).replace(b'"App ID":"local', b'"App ID":"older'))
    (logs / "app-3").write_bytes(b"".join(lines[:80]) + lines[80][:40])
    (logs / "app-4.zstd").write_bytes(zstandard.compress(real_log)[:20_000] + b"\0" * 500)
    (logs / "app-5.lzf").write_bytes(b"ZV")
    (logs / "notes.txt").write_bytes(b"remember the milk\n")
    (logs / "image.png").write_bytes(os.urandom(5000))
    (logs / "empty").touch()
    out = tmp_path / "logs"  # as the logs' own folder begins
    done = weir(str(logs), "--out", str(out))
    assert done.returncode == 1, done.stderr
    assert "5 files with what cannot be used: 3 left out, 2 lines in others" in done.stdout
    assert "first: file:" in done.stdout
    assert "Traceback" not in done.stderr
    for query in ("orders/enrich", "orders/totals"):
        assert query in done.stdout
    assert "orders" in (out / "report.html").read_text()
    again = run("logs")
    assert (again.files, again.known, len(again.skipped)) == (0, 7, 1)  # lzf, each time


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_whose_application_ends_meanwhile_keeps_no_other_from_being_judged(
    logs: Path, run: Callable[..., Outcome], real_log: bytes, packed: bool
) -> None:
    """Spark takes `.inprogress` off its name; the History Server's cleaner deletes others."""
    (logs / "app-1").write_bytes(real_log)
    name = "app-2.zstd" if packed else "app-2"
    ends = logs / f"{name}.inprogress"
    other = real_log.replace(b'"App Name":"orders"', b'"App Name":"other"')
    ends.write_bytes(zstandard.compress(other) if packed else other)
    first = run(moved={ends: logs / name})
    assert first.applications == ["orders"]
    assert [(one.file.rpartition("/")[2], one.reason) for one in first.skipped] == [
        (ends.name, GONE)
    ]
    second = run()
    assert (second.files, second.known, second.skipped) == (1, 1, [])
    assert second.applications == ["other"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_that_is_written_to_on_hdfs_is_read_to_its_end(
    spark: Executor,
    tmp_path: Path,
    logs: Path,
    run: Callable[..., Outcome],
    real_log: bytes,
    packed: bool,
) -> None:
    """Its listing stands still while a block is written; what has come since is read anew."""
    log = logs / ("app-1.zstd.inprogress" if packed else "app-1.inprogress")
    content = real_log.splitlines(keepends=True)
    half = len(content) // 2
    frames = [zstandard.compress(b"".join(part)) for part in (content[:half], content[half:])]
    plain = b"".join(content[:half]) + content[half][:50], real_log
    first, all_ = (frames[0], b"".join(frames)) if packed else plain
    log.write_bytes(first)
    told = run(listed_bytes=1000)
    assert (told.skipped, told.applications, told.bytes) == ([], ["orders"], len(first))
    before = len(judgements(spark, tmp_path / "out"))
    assert before > 20
    assert run(listed_bytes=1000).files == 0
    log.write_bytes(all_)
    assert run(listed_bytes=1000).files == 1
    (tmp_path / "app-1").write_bytes(real_log)
    found = in_a_row(judgements(spark, tmp_path / "out"))
    assert len(found) > before
    assert found == in_a_row(replayed(tmp_path / "app-1"))


def test_nothing_to_do_is_said(run: Callable[[], Outcome], logs: Path) -> None:
    (logs / "_SUCCESS").touch()
    with pytest.raises(NothingToDo, match="no event log at"):
        run()
    shutil.rmtree(logs)
    with pytest.raises(NoSuchPlace, match="FileNotFoundException"):
        run()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/no/such/place"], "/no/such/place: no such file or folder"),
        (["file:/no/such/place"], "file:/no/such/place: no such file or folder"),
        (["{empty}", "--target", "0"], "--target: 0: a number of seconds above 0"),
        (["{empty}", "--conf", "x"], "--conf: 'x' is not KEY=VALUE"),
    ],
)
def test_wrong_usage_is_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    told = [one.format(empty=empty) for one in arguments]
    done = weir(*told, "--out", str(tmp_path / "out"), "--quiet")
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("master", "environment", "said"),
    [
        ("local[2]", {"JAVA_HOME": "/no/such/java"}, "Spark does not start: "),
        (
            "local[none]",
            {},
            "Spark does not start: org.apache.spark.SparkException: Could",
        ),
        ("local[2]", {"PYSPARK_PYTHON": "/no/such/python"}, "Spark's job failed: "),
    ],
)
def test_a_spark_that_fails_is_one_line(
    tmp_path: Path, logs: Path, real_log: bytes, master: str, environment: dict[str, str], said: str
) -> None:
    (logs / "app-1").write_bytes(real_log)
    done = weir(str(logs), "--out", str(tmp_path / "out"), "-q", master=master, **environment)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"weir: {said}")
    assert "agent/history/command.py" not in done.stderr


def weir(
    *arguments: str, master: str = "local[2]", **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agent.cli", "history", *arguments]
    return subprocess.run(
        [*command, "--master", master, "--conf", "spark.ui.enabled=false"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
