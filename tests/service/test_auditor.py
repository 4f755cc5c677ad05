"""The audit inside the agent: at starts, on changes, of folders, and never in the way."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from structlog.testing import capture_logs

from agent.core.judgement import Facts, Finding
from agent.service.auditor import FOLDER_SECONDS, Auditor, confirmed
from tests.checkpoint.build import checkpoint, offsets, tree, write
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
    auditor.look([], 5.0)
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
    """A read that never returns: the metadata is a pipe that nobody writes to."""
    hung, good = tmp_path / "hung", checkpoint(tmp_path / "good")
    hung.mkdir()
    os.mkfifo(hung / "metadata")
    auditor = Auditor(folder_every_seconds=600, clock=time.monotonic, pause=lambda _: None)
    facts = [
        change(query="hung", checkpoint_location=str(hung), conf={}),
        change(query="good", checkpoint_location=str(good), conf={}),
    ]
    threads = threading.active_count()
    began = time.monotonic()
    for _ in range(200):
        auditor.look(facts, time.monotonic())
    assert time.monotonic() - began < 1.0
    assert threading.active_count() <= threads + 1, "one thread, however often it is asked"
    with (hung / "metadata").open("w") as pipe:  # lets it go
        pipe.write("{}")
    wait_for_folder(auditor, facts, "good")
    auditor.close()


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
