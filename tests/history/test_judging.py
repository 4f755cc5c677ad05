"""The worker's part of the job, without Spark: one bad log among others, and logs seen twice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from agent.core.policy import QueryPolicy
from agent.history import extract
from agent.history.blocks import Told, opened, packed
from agent.history.files import File
from agent.history.job import (
    Failed,
    Outcome,
    Skipped,
    _Chosen,
    _Judging,
    _learn,
    _order,
    doubled,
)
from agent.history.judge import Judge
from agent.history.logs import Found, LogFile, Read, log_files, plan
from agent.history.manifest import LogInfo, Manifest
from tests.event_log import lines
from tests.history.test_odd_logs import beyond_64_bits, changed, several, waits

if TYPE_CHECKING:
    from collections.abc import Iterator

# What these logs tell needs seconds to be judged.
pytestmark = pytest.mark.timeout(120)


def blocks(log: bytes, name: str, application: str) -> Iterator[tuple[tuple[Any, ...], bytes]]:
    file = LogFile(name, 0, name, len(log), 0, "", compact=False, in_progress=False)
    kept = extract.of_lines(log.split(b"\n"), 0, in_progress=False)
    for number, text in enumerate(packed(file, 1, 0, kept, lambda _: None)):
        yield (0, application, 0, True, name, math.inf, 0, 0, number), opened(text)[1]


def judged(logs: dict[str, bytes], *most_queries: int) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    pieces = (piece for name, log in logs.items() for piece in blocks(log, name, name))
    for application, one in _Judging(QueryPolicy(target_seconds=1.0), *most_queries)(pieces):
        found.setdefault(application, []).append(one)
    return found


def test_odd_logs_are_judged_beside_the_others(real_log: bytes) -> None:
    found = judged(
        {
            "absurd": changed(real_log, "absurd", beyond_64_bits),
            "good": real_log,
            "waits": changed(real_log, "waits", waits),
        }
    )
    for own in found.values():
        assert not [one for one in own if isinstance(one, Failed)]
        assert {one.table for one in own if isinstance(one, File)} >= {"batches", "sources"}


def test_whatever_goes_wrong_in_judging_names_the_log(
    monkeypatch: pytest.MonkeyPatch, real_log: bytes
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr(Judge, "_event", fail)
    assert judged({"a": real_log}) == {
        "a": [Failed("a", "a", "cannot be judged: KeyError: 'surprise'")]
    }
    monkeypatch.undo()
    monkeypatch.setattr(Judge, "end", fail)
    assert [one for one in judged({"a": real_log})["a"] if isinstance(one, Failed)] == [
        Failed("a", None, "KeyError: 'surprise'")
    ]


def test_what_is_told_of_more_queries_than_anyone_follows_is_counted() -> None:
    told = judged({"a": several(3), "b": several(2)}, 2)
    skipped = {name: [one for one in own if isinstance(one, Skipped)] for name, own in told.items()}
    said = "of queries beyond the first 2 of one application's name: not judged"
    assert skipped == {"a": [Skipped("a", 3, said)], "b": []}
    for own in told.values():
        ((_, shorts, _),) = [one for one in own if isinstance(one, tuple)]
        assert [one.query for one in shorts] == ["q-0", "q-1"]


def test_a_source_that_waits_shows_no_limit(real_log: bytes) -> None:
    (own,) = judged({"waits": changed(real_log, "waits", waits)}).values()
    assert any(isinstance(one, File) and one.table == "recommendations" for one in own)


def manifest(**logs: tuple[str, str, int]) -> Manifest:
    """Logs of one application: its id, the start, and how many events the log holds."""
    return Manifest(
        files={f"{name}#0": Read(1, 10, 10, events) for name, (_, _, events) in logs.items()},
        logs={
            name: LogInfo("orders", of, 0.0, 1.0, start) for name, (of, start, _) in logs.items()
        },
    )


def test_the_log_that_holds_most_of_a_start_counts() -> None:
    now = manifest(
        a=("app-1", "5/", 10), b=("app-1", "5/", 20), c=("app-1", "5/2", 5), d=("app-2", "5/", 5)
    )
    assert doubled(now) == {"a": "b"}
    assert set(_order(now, {"orders"})) == {"b", "c", "d"}
    now.bad = {"b": "broken"}
    assert doubled(now) == {}
    assert set(_order(now, {"orders"})) == {"a", "c", "d"}
    unknown = manifest(a=("app-1", "", 10), b=("app-1", "", 20))
    assert doubled(unknown) == {}, "logs that do not say which start are told apart"


def test_of_logs_that_overlap_a_query_lives_as_long_as_its_own() -> None:
    """Else one that waits for its next batch would lose its name to another application's."""
    now = Manifest()
    files: list[LogFile] = []
    texts: list[bytes] = []
    told: dict[tuple[str, int], Told] = {}
    for app_id, begin in (("app-1", lines.BASE), ("app-2", lines.BASE + 30.0)):
        log = b"".join(lines.each_minute(app_id, f"query of {app_id}", begin))
        file = LogFile(app_id, 0, app_id, len(log), 0, "", compact=False, in_progress=False)
        notes: list[Told] = []
        texts += packed(file, 1, 0, extract.of_whole(log, in_progress=False), notes.append)
        (told[file.key, 0],) = notes
        files.append(file)
    _learn(told, files, now, Outcome("out"))
    chosen = _Chosen(_order(now, {"orders"}), {"orders": 0}, {file.key: 1 for file in files})
    found = _Judging(QueryPolicy(target_seconds=1.0))(sorted(chosen(texts)))
    ((_, shorts, _),) = [one for _, one in found if isinstance(one, tuple)]
    assert {(one.application, one.query): one.batches for one in shorts} == {
        ("orders", "enrich"): 60,
        ("orders-app-2", "enrich"): 60,
    }


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        ([("app-1", 5), ("app-1.zstd", 5)], "app-1"),
        ([("app-1", 5), ("app-1.zstd", 6)], "app-1.zstd"),
        ([("app-1.inprogress", 9), ("app-1", 5)], "app-1"),
        ([("app-1.lzf", 9), ("app-1.zstd", 5)], "app-1.zstd"),
        ([("eventlog_v2_a/events_1_a", 5), ("eventlog_v2_a/events_1_a.zstd", 4)], "events_1_a"),
    ],
)
def test_one_file_of_a_part_is_read(names: list[tuple[str, int]], kept: str) -> None:
    found = [Found(f"file:/logs/{name}", 100, modified) for name, modified in names]
    chosen = plan(log_files(found), {})
    assert [file.path.rpartition("/")[2] for file in chosen.to_read] == [kept]
    assert len(chosen.doubled) == 1
    seen = {file.key: Read(1, file.size, file.modified) for file in chosen.to_read}
    again = plan(log_files(found), seen)
    assert (again.to_read, again.doubled) == ([], chosen.doubled)


def test_what_was_read_before_stays(real_log: bytes) -> None:
    assert real_log
    packed_one = Found("file:/logs/app-1.zstd", 100, 5)
    (first,) = log_files([packed_one])
    seen = {first.key: Read(1, 100, 5)}
    chosen = plan(log_files([packed_one, Found("file:/logs/app-1", 900, 9)]), seen)
    assert chosen.to_read == []
    assert chosen.doubled == [("file:/logs/app-1", "file:/logs/app-1.zstd")]


def test_a_line_of_whatever_kind_is_passed_over(real_log: bytes) -> None:
    real = real_log.split(b"\n")
    progress = next(line for line in real if b"QueryProgressEvent" in line)
    odd = [
        progress.replace(b'"batchId":', b'"batchId":1e999,"x":'),
        progress.replace(b'"sources":[', b'"sources":[7,'),
        b'{"Event":"SparkListenerTaskEnd","Stage ID":{}}',
        b'{"Event":"SparkListenerJobStart","Job ID":"x","Stage Infos":7}',
    ]
    kept = list(extract.of_lines([*odd, *real], 0, in_progress=False))
    plain = list(extract.of_lines(real, 0, in_progress=False))
    assert len([one for one in kept if one.kind == extract.EVENT]) >= len(
        [one for one in plain if one.kind == extract.EVENT]
    )
