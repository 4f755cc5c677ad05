"""The audit inside the agent: at starts, on changes, of folders, and never in the way."""

from __future__ import annotations

import os
import resource
import threading
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from structlog.testing import capture_logs

from agent.checkpoint.folder import CheckpointError, FileEntry, LocalFolder
from agent.checkpoint.layout import classify
from agent.core.judgement import Facts, Finding
from agent.service.auditor import (
    FOLDER_SECONDS,
    HUNG_SECONDS,
    MOST_FILES,
    MOST_HUNG,
    PAUSE_SECONDS,
    Auditor,
    _TimedFolder,
    confirmed,
)
from tests.checkpoint.build import OLD, checkpoint, offsets, tree, write
from tests.export import views
from tests.service import wire
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUERY_ID = "9efb0370-ef1d-44dc-b650-de9f432e20e7"  # of tests.checkpoint.build
FACTS = Facts(
    application="orders",
    query="enrich",
    query_id=QUERY_ID,
    run_id="run-1",
    up=True,
    sink="FileSink[hdfs://nn/out]",
    sources=("FileStreamSource[hdfs://nn/in]",),
    checkpoint_location="hdfs://nn/ck/enrich",
    conf={"spark.master": "yarn"},
    deadline_seconds=60.0,
)


@pytest.fixture
def auditor() -> Iterator[Auditor]:
    made = Auditor(folder_every_seconds=600, clock=time.monotonic, pause=lambda _: None)
    yield made
    made.close()


def change(**changes: Any) -> Facts:
    return msgspec.structs.replace(FACTS, **changes)


def found(auditor: Auditor, query: str = "enrich") -> list[tuple[str, str]]:
    view = auditor.shown(views.view(query, findings=[], folder_audited_time=None))
    return [(finding.check, finding.severity) for finding in view.findings]


def wait_for_folder(auditor: Auditor, facts: list[Facts], query: str = "enrich") -> None:
    def audited() -> float | None:
        auditor.look(facts, time.monotonic())
        return auditor.shown(views.view(query, folder_audited_time=None)).folder_audited_time

    until(audited, "the folder's audit", seconds=20, every=0.02)


def test_at_the_start_and_again_when_something_changes(auditor: Auditor) -> None:
    assert auditor.look([FACTS], 0.0)
    assert found(auditor) == []
    assert not auditor.look([FACTS], 1.0), "nothing new, nothing judged"
    assert auditor.look([change(sink="ForeachBatchSink")], 2.0)
    assert found(auditor) == [("sink_at_least_once", "warning")]
    local = change(sink="ForeachBatchSink", checkpoint_location="/data/ck")
    auditor.look([local], 3.0)
    assert found(auditor) == [("location_not_durable", "error"), ("sink_at_least_once", "warning")]
    auditor.look([change(conf={"asyncProgressTrackingEnabled": "true"})], 4.0)
    assert found(auditor) == [("asynchronous_progress", "warning")]
    in_real_time = change(
        conf={"asyncProgressTrackingEnabled": "true"}, trigger="RealTimeTrigger(300000)"
    )
    auditor.look([in_real_time], 5.0)  # Spark 4.3 does so by itself
    assert found(auditor) == []
    auditor.look([], 6.0)
    assert found(auditor) == []


def test_two_live_queries_in_one_folder(auditor: Auditor) -> None:
    other = change(query="users", checkpoint_location="hdfs://nn/ck/enrich/")
    auditor.look([FACTS, other], 0.0)
    assert found(auditor) == found(auditor, "users") == [("location_shared", "error")]
    auditor.look([FACTS, msgspec.structs.replace(other, up=False)], 1.0)
    assert found(auditor) == []


def test_a_sound_folder_and_one_that_is_not(auditor: Auditor, tmp_path: Path) -> None:
    good, bad = checkpoint(tmp_path / "good"), checkpoint(tmp_path / "bad")
    (bad / "state/0/1/2.delta").unlink()
    before = tree(tmp_path)
    facts = [
        change(query="good", checkpoint_location=f"file://{good}", conf={}),
        change(query="bad", checkpoint_location=str(bad), conf={}),
    ]
    for one in facts:
        wait_for_folder(auditor, facts, one.query)
    assert ("state_incomplete", "error") not in found(auditor, "good")
    assert ("state_incomplete", "error") in found(auditor, "bad")
    assert tree(tmp_path) == before
    write(bad, "state/0/1/2.delta", b"delta 2")
    again = [facts[0], msgspec.structs.replace(facts[1], run_id="run-2")]
    auditor.look(again, time.monotonic())
    wait_for_folder(auditor, again, "bad")
    assert ("state_incomplete", "error") not in found(auditor, "bad"), "a new run is looked at anew"


def test_another_querys_folder_and_none_are_not_judged(auditor: Auditor, tmp_path: Path) -> None:
    bad = checkpoint(tmp_path / "ck")
    (bad / "state/0/1/2.delta").unlink()
    facts = [
        change(query="foreign", query_id="another", checkpoint_location=str(bad), conf={}),
        change(query="elsewhere", checkpoint_location="/not/on/this/machine", conf={}),
        change(query="last", checkpoint_location=str(bad), conf={}),
    ]
    wait_for_folder(auditor, facts, "last")
    assert ("state_incomplete", "error") in found(auditor, "last")
    for query in ("foreign", "elsewhere"):
        assert "state_incomplete" not in dict(found(auditor, query))
        view = auditor.shown(views.view(query, findings=[], folder_audited_time=None))
        assert view.folder_audited_time is None


def test_a_folder_that_changes_between_two_looks(tmp_path: Path) -> None:
    """A query at work: what the first look saw is mended, and something new is under way."""
    root = checkpoint(tmp_path / "ck", opened=False)
    (root / "offsets/1").unlink()

    def meanwhile(_: float) -> None:
        write(root, "offsets/1", offsets(1))

    auditor = Auditor(folder_every_seconds=600, clock=time.monotonic, pause=meanwhile)
    facts = [change(checkpoint_location=str(root), conf={})]
    wait_for_folder(auditor, facts)
    auditor.close()
    assert "offsets_missing" not in dict(found(auditor))


def test_what_counts_as_the_same_finding() -> None:
    def one(check: str, evidence: str) -> Finding:
        return Finding(check, "error", evidence, "")

    first = [one("offsets_missing", "offsets/3"), one("snapshot_lag", "101"), one("a", "same")]
    second = [one("offsets_missing", "offsets/9"), one("snapshot_lag", "102"), one("a", "same")]
    assert confirmed(first, second) == second[1:]
    assert confirmed([], second) == []


def test_storage_that_hangs_holds_nobody(tmp_path: Path) -> None:
    """A look that never returns is left with its thread; a few may hang, then nothing is begun."""
    answer, now = threading.Event(), [0.0]
    hung = [f"hung-{number}" for number in range(MOST_HUNG)]
    good = checkpoint(tmp_path / "good", opened=False)

    def hang(_: float) -> None:  # between two looks, as a folder without findings has only one
        assert answer.wait(60)

    auditor = Auditor(folder_every_seconds=600, clock=lambda: now[0], pause=hang)
    facts = []
    for name in hung:
        (checkpoint(tmp_path / name) / "state/0/1/2.delta").unlink()
        facts.append(change(query=name, checkpoint_location=str(tmp_path / name), conf={}))
    facts.append(change(query="good", checkpoint_location=str(good), conf={}))
    threads = threading.active_count()

    def folder_time() -> float | None:
        now[0] += HUNG_SECONDS / 10
        auditor.look(facts, now[0])
        return auditor.shown(views.view("good", folder_audited_time=None)).folder_audited_time

    for _ in range(9):
        auditor.look(facts, now[0])
    assert threading.active_count() <= threads + 1, "one thread, however often it is asked"
    until(folder_time, "the audit of the folder behind those that hang", seconds=20, every=0.02)
    assert found(auditor, "hung-0") == [("location_not_durable", "warning")]
    assert threading.active_count() <= threads + 1 + MOST_HUNG
    answer.set()

    def answered() -> bool:
        return folder_time() is not None and all(
            ("state_incomplete", "error") in found(auditor, name) for name in hung
        )

    until(answered, "the folders that answer again", seconds=20, every=0.02)
    auditor.close()
    until(lambda: threading.active_count() <= threads, "the threads' ends", seconds=20)


def test_a_folder_with_anything_in_it_keeps_no_other_waiting(
    auditor: Auditor, tmp_path: Path
) -> None:
    """A FIFO, a file of gigabytes, a link to above and one that leads out: each is said or left."""
    bad = {name: checkpoint(tmp_path / name) for name in ("fifo", "huge", "loop", "out")}
    for name, root in bad.items():
        (root / "offsets/2").unlink()
        (root / "offsets/.2.crc").unlink()
        if name == "fifo":
            os.mkfifo(root / "offsets/2")
        elif name == "huge":
            (root / "offsets/2").touch()
            os.truncate(root / "offsets/2", 3 << 30)
        else:
            (root / "more").symlink_to(root if name == "loop" else "/etc")
    good = checkpoint(tmp_path / "good")
    (good / "state/0/1/2.delta").unlink()
    facts = [
        change(query=name, checkpoint_location=str(tmp_path / name), conf={})
        for name in (*bad, "good")
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with capture_logs() as logs:
        for name in ("fifo", "huge", "good"):
            wait_for_folder(auditor, facts, name)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10
    assert ("log_unreadable", "error") in found(auditor, "fifo")
    assert ("log_unreadable", "error") in found(auditor, "huge")
    assert ("state_incomplete", "error") in found(auditor, "good")
    assert "log_unreadable" not in dict(found(auditor, "loop"))
    assert any("a link, which is not followed" in line.get("cause", "") for line in logs)


def test_a_folder_of_too_many_files_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = checkpoint(tmp_path / "ck")
    folder = _TimedFolder(LocalFolder(root), lambda: 0.0, 1.0)
    count = len(list(folder.files()))
    monkeypatch.setattr("agent.service.auditor.MOST_FILES", count)
    assert len(list(folder.files())) == count
    monkeypatch.setattr("agent.service.auditor.MOST_FILES", count - 1)
    with pytest.raises(CheckpointError, match="weir checkpoint audit reads it"):
        list(folder.files())


def test_as_many_files_as_are_sorted_take_a_tenth_of_a_gigabyte() -> None:
    tracemalloc.start()
    kept = classify(
        FileEntry(
            f"state/0/{number % 200}/left-keyToNumValues/{number}.delta", number, OLD + number
        )
        for number in range(MOST_FILES // 20)
    )
    taken = 20 * tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept.count == MOST_FILES // 20
    assert 0.06e9 < taken < 0.12e9


def test_no_look_that_is_left_in_time_counts_as_one_that_hangs() -> None:
    longest = 2 * FOLDER_SECONDS + PAUSE_SECONDS
    assert longest < HUNG_SECONDS < 2 * longest


def test_folders_without_files_take_no_longer_either(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number) / "deep").mkdir(parents=True)
    folder = _TimedFolder(LocalFolder(tmp_path), iter(range(100)).__next__, 5.0)
    with pytest.raises(CheckpointError, match="took longer than"):
        list(folder.files())


def test_reading_that_takes_too_long_is_left(tmp_path: Path) -> None:
    root = checkpoint(tmp_path / "ck")
    ticks = iter(range(0, 10_000_000, int(FOLDER_SECONDS)))
    auditor = Auditor(folder_every_seconds=600, clock=lambda: next(ticks), pause=lambda _: None)
    facts = [change(checkpoint_location=str(root), conf={})]
    auditor.look(facts, 0.0)
    auditor.close()
    auditor.look(facts, 1.0)
    view = auditor.shown(views.view("enrich", findings=[], folder_audited_time=None))
    assert view.folder_audited_time is None


def test_troubles_of_many_folders_are_one_warning_that_names_folder_and_cause(
    tmp_path: Path,
) -> None:
    ticks = iter(range(0, 10_000_000, int(FOLDER_SECONDS)))  # each takes too long to read
    auditor = Auditor(folder_every_seconds=600, clock=lambda: next(ticks), pause=lambda _: None)
    facts = [
        change(query=f"q-{number}", checkpoint_location=str(checkpoint(tmp_path / f"ck-{number}")))
        for number in range(5)
    ]

    def read_through() -> bool:
        auditor._collect()
        return not auditor._waiting

    with capture_logs() as logs:
        auditor.look(facts, 0.0)
        until(read_through, "a look into every folder", every=0.02)
    auditor.close()
    said = [line for line in logs if "could not be audited" in line["event"]]
    assert len(said) == 1
    assert said[0]["checkpoint"] == str(tmp_path / "ck-0")
    assert "took longer than" in said[0]["cause"]
    assert auditor._rarely._held == {said[0]["event"]: 4}


def test_switched_off_no_folder_is_read(tmp_path: Path) -> None:
    root = checkpoint(tmp_path / "ck")
    (root / "state/0/1/2.delta").unlink()
    auditor = Auditor(folder_every_seconds=0, clock=time.monotonic, pause=lambda _: None)
    auditor.look([change(checkpoint_location=str(root), conf={})], 0.0)
    assert auditor._thread is None


def test_an_agent_tells_it_everywhere(tmp_path: Path) -> None:
    root = checkpoint(tmp_path / "ck")
    (root / "state/0/1/2.delta").unlink()
    started = wire.started(1)
    started["body"] |= {
        "id": QUERY_ID,
        "sink": "ForeachBatchSink",
        "checkpointLocation": f"file:{root}",
        "conf": {"spark.master": "local[2]"},
    }
    with AgentProcess(tmp_path) as agent:
        agent.post(wire.body([started]))
        text = until(
            lambda: "folder_audited" in (said := agent.http.get("/metrics").text) and said,
            "the folder's audit",
            seconds=30,
            every=0.2,
            telling=lambda: agent.http.get("/metrics").text,
        )
        series = [line for line in text.splitlines() if line.startswith("weir_consistency_find")]
        names = f'application="orders",query="{started["body"]["name"]}"'
        assert (
            f'weir_consistency_findings{{{names},check="state_incomplete",severity="error"}} 1'
            in series
        )
        assert (
            f'weir_consistency_findings{{{names},check="sink_at_least_once",severity="warning"}} 1'
            in series
        )
        [view] = agent.http.get("/v1/queries").json()["queries"]
        single = agent.http.get(f"/v1/queries/orders/{view['query']}").json()["query"]
        assert single["findings"] == view["findings"]
        assert view["findings"][0]["check"] == "state_incomplete"
        assert "missing: 2" in view["findings"][0]["evidence"]
        assert view["folder_audited_time"] > 0
