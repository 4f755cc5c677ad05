"""A log followed while it grows, rolls over, is compacted, breaks and ends; and after a restart."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.decode.events import HeartbeatEvent, ProgressEvent
from agent.core.fleet import Fleet
from agent.core.policy import Policy
from agent.service.event_logs import SeenRuns
from agent.sources import event_log, recording
from agent.sources.event_log import Follower, Log, Part, files_of, find_logs, parts_of
from tests.event_log import lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agent.core.decode.events import Event, RunningQuery

KINDS = ["started", *["progress"] * 8, "terminated"]


def none_counted(_: object) -> None:
    return None


def follow(
    log: Log,
    last: int = 0,
    last_batch: Any = none_counted,
    present_run: Any = none_counted,
    has_ended: Any = none_counted,
) -> Follower:
    return Follower(log, last, last_batch, present_run, has_ended)


def drain(follower: Follower) -> list[Event]:
    events: list[Event] = []
    while (request := follower.next_request()) is not None:
        events += [event for _, event in request.events]
        follower.accepted()
    return events


def count(fleet: Fleet, follower: Follower, now: float = lines.BASE + 60.0) -> None:
    """Has a fleet count all that a follower gives."""
    while (request := follower.next_request()) is not None:
        fleet.receive(request, now=now)
        follower.accepted()


def running(follower: Follower, now: float = lines.BASE + 100.0) -> list[RunningQuery]:
    """What its pulse tells."""
    request = follower.pulse(now, 1)
    if request is None:
        return []
    ((_, event),) = request.events
    assert isinstance(event.body, HeartbeatEvent)
    return event.body.queries


def single(folder: Path, content: bytes = b"", name: str = "app-1.inprogress") -> Log:
    (folder / name).write_bytes(content)
    return next(log for log in find_logs(folder) if log.name == "app-1")


class Rolling:
    """A log of the rolling kind in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "eventlog_v2_app-1"
        self.path.mkdir()
        (self.path / "appstatus_app-1.inprogress").touch()

    def write(self, index: int, *content: bytes, compact: bool = False) -> None:
        ending = ".compact" if compact else ""
        with (self.path / f"events_{index}_app-1{ending}").open("ab") as file:
            file.write(b"".join(content))

    @property
    def log(self) -> Log:
        return Log("app-1", self.path, rolling=True)


def test_a_whole_log(tmp_path: Path) -> None:
    follower = follow(single(tmp_path, b"".join(lines.whole())))
    events = drain(follower)
    assert [event.kind for event in events] == KINDS
    assert follower.application.name == "orders"
    assert follower.application.id == "app-1"
    assert follower.application.spark_version == "4.2.0"
    assert follower.ended
    assert follower.skipped == 0
    assert [e.sequence for e in events] == sorted({e.sequence for e in events})


def test_what_is_written_just_before_a_log_rolls_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the read that found nothing more and the look that finds the next file."""
    rolling = Rolling(tmp_path)
    rolling.write(1, *lines.opening(), lines.started(), lines.progress(0))
    follower = follow(rolling.log)
    assert [event.kind for event in drain(follower)] == ["started", "progress"]

    def roll(log: Log) -> list[Part]:
        monkeypatch.setattr(event_log, "parts_of", parts_of)
        rolling.write(1, lines.progress(1))
        rolling.write(2, lines.progress(2))
        return parts_of(log)

    monkeypatch.setattr(event_log, "parts_of", roll)
    bodies = [event.body for event in drain(follower)]
    told = [body.progress.batch_id for body in bodies if isinstance(body, ProgressEvent)]
    assert told == [1, 2]


@given(cuts=st.lists(st.integers(0, 12_000), max_size=20), restarts=st.sets(st.integers(0, 20)))
def test_however_it_grows_and_wherever_the_agent_restarts_each_event_comes_once(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], restarts: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    content = b"".join(lines.whole())
    log = single(folder)
    follower, seen = follow(log), []
    written = 0
    for step, cut in enumerate([*sorted(cuts), len(content)]):
        with log.path.open("ab") as file:
            file.write(content[written : max(cut, written)])
        written = max(cut, written)
        if step in restarts:
            follower = follow(log, seen[-1].sequence if seen else 0)
        seen += drain(follower)
    assert [event.kind for event in seen] == KINDS
    batches = [e.body.progress.batch_id for e in seen if isinstance(e.body, ProgressEvent)]
    assert batches == list(range(8))


def test_what_was_not_accepted_comes_again(tmp_path: Path) -> None:
    follower = follow(single(tmp_path, b"".join(lines.whole())))
    first = follower.next_request()
    assert first is not None
    assert follower.next_request() is first
    follower.accepted()
    assert follower.next_request() is None


def test_files_that_roll_over(tmp_path: Path) -> None:
    rolling = Rolling(tmp_path)
    content = lines.whole()
    rolling.write(1, *content[:9])
    follower = follow(rolling.log)
    seen = drain(follower)
    rolling.write(1, *content[9:12])
    rolling.write(2, lines.opening()[0], *content[12:20])
    seen += drain(follower)
    rolling.write(3, lines.opening()[0], *content[20:])
    again = follow(rolling.log, seen[-1].sequence)
    assert [event.kind for event in seen + drain(again)] == KINDS
    assert again.application.name == "orders"
    assert again.ended
    assert [event.kind for event in seen + drain(follower)] == KINDS


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("read_before", [0, 9, 17, 30])
def test_compacted_meanwhile(tmp_path: Path, read_before: int, restarted: bool) -> None:
    """Files 1 and 2 become one, with what was not read of them and what was."""
    rolling = Rolling(tmp_path)
    content = lines.whole()
    for index, begin, end in ((1, 0, 14), (2, 14, 26), (3, 26, len(content))):
        if begin < read_before or index == 1:
            rolling.write(index, *content[begin : min(end, read_before)])
    follower = follow(rolling.log)
    seen = drain(follower)
    for path in rolling.path.glob("events_*"):
        path.unlink()
    tasks_left_out = [one for one in content[:26] if b"TaskEnd" not in one]
    rolling.write(2, *tasks_left_out, compact=True)
    rolling.write(3, *content[26:])
    batches = [e.body.progress.batch_id for e in seen if isinstance(e.body, ProgressEvent)]
    last = max((batch for batch in batches if batch is not None), default=None)
    known = {lines.RUN: last}
    if restarted:
        follower = follow(rolling.log, seen[-1].sequence if seen else 0, known.get)
    else:
        follower._last_batch = known.get
    seen += drain(follower)
    batches = [e.body.progress.batch_id for e in seen if isinstance(e.body, ProgressEvent)]
    assert batches == list(range(8))
    assert seen[-1].kind == "terminated"
    assert follower.application.name == "orders"


def test_an_end_without_an_event_before_it_was_after_the_newest_job(tmp_path: Path) -> None:
    log = Rolling(tmp_path)
    log.write(1, *lines.opening(), lines.terminated("r-0"), compact=True)
    log.write(2, lines.job(7, lines.BASE + 35.0), lines.terminated())
    log.write(3, lines.started("r-2", time=lines.BASE + 60.0))
    assert [(event.kind, event.time) for event in drain(follow(log.log))] == [
        ("terminated", lines.BASE + 35.0),
        ("started", lines.BASE + 60.0),
    ]


def test_a_start_without_a_time_was_after_its_application_s_and_the_newest_job(
    tmp_path: Path,
) -> None:
    """As Spark 2 writes it."""
    log = Rolling(tmp_path)
    log.write(1, *lines.opening(), lines.started_untimed(), lines.job(0, lines.BASE + 35.0))
    log.write(1, lines.started_untimed("r-2"))
    follower = follow(log.log)
    assert [(event.kind, event.time) for event in drain(follower)] == [
        ("started", lines.BASE),
        ("started", lines.BASE + 35.0),
    ]
    (tmp_path / "other").mkdir()
    other = follow(single(tmp_path / "other", lines.started_untimed() + lines.progress(0)))
    assert [event.kind for event in drain(other)] == ["progress"]
    assert (follower.skipped, other.skipped) == (0, 0)


def test_it_ends_and_loses_its_mark(tmp_path: Path) -> None:
    content = lines.whole()
    log = single(tmp_path, b"".join(content[:10]))
    follower = follow(log)
    seen = drain(follower)
    with log.path.open("ab") as file:
        file.write(b"".join(content[10:]))
    log.path.rename(tmp_path / "app-1")
    seen += drain(follower)
    assert [event.kind for event in seen] == KINDS
    assert follower.ended
    assert [found.name for found in find_logs(tmp_path)] == ["app-1"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"not json at all\n", "malformed"),
        (
            b'{"Event":"' + lines.LISTENER.encode() + b'QueryProgressEvent","progress":7}\n',
            "object",
        ),
        (
            b'{"Event":"' + lines.LISTENER.encode() + b'QueryStartedEvent","id":"x"}\n',
            "runId",
        ),
        (b"[" * 5000 + b"\n", "recursion"),
        (b"\xff\xfe\n", "malformed"),
        (b"[1,2]\n", "an object"),
    ],
)
def test_a_line_that_cannot_be_used_is_passed_over_and_counted(
    tmp_path: Path, bad: bytes, reason: str
) -> None:
    content = lines.whole()
    follower = follow(single(tmp_path, b"".join([*content[:12], bad, *content[12:]])))
    assert [event.kind for event in drain(follower)] == KINDS
    assert follower.skipped == 1
    assert follower.first_reason.startswith("app-1.inprogress, byte ")
    assert reason in follower.first_reason


def with_each_number(told: Any, number: int) -> Iterator[Any]:
    """What is told, with one of its numbers after the other another one."""
    if isinstance(told, dict):
        for key, one in told.items():
            for other in with_each_number(one, number):
                yield {**told, key: other}
    elif isinstance(told, list):
        for at, one in enumerate(told):
            for other in with_each_number(one, number):
                yield [*told[:at], other, *told[at + 1 :]]
    elif isinstance(told, int):
        yield number


@pytest.mark.parametrize("number", [10**400, 2**63, 253_402_300_800_000, -(10**400)])
def test_a_number_that_nothing_has_costs_no_more_than_its_line(tmp_path: Path, number: int) -> None:
    """In a line of jobs, stages or tasks; what is told after it has its own time."""
    content = lines.skewed(3)
    told = [content[2], lines.executor("2", 4, lines.BASE), *content[4:9]]
    bad = [
        lines.line(other.pop("Event"), **other)
        for one in told
        for other in with_each_number(json.loads(one), number)
    ]
    end = [lines.terminated(), lines.closing()]
    for at in (1, 9, len(content)):
        log = single(tmp_path, b"".join([*content[:at], *bad, *content[at:], *end]))
        follower = follow(log)
        events = drain(follower)
        assert [event.kind for event in events] == ["started", *["progress"] * 3, "terminated"]
        assert events[-1].time < lines.BASE + 3600.0
        assert set(follower.alignments(0.0)) == {lines.RUN}
        reader = recording.EventReader(recording.RECORDED)
        with log.path.open("rb") as file:
            again = [one.event for one in recording.read_events(file, "app-1", reader)]
        assert [(one.kind, one.time) for one in again] == [(one.kind, one.time) for one in events]


def test_logs_stand_in_order_though_one_begins_at_no_time(tmp_path: Path) -> None:
    (tmp_path / "app-1").write_bytes(b"".join(lines.opening()))
    told = json.loads(lines.opening()[2]) | {"Timestamp": 10**400}
    (tmp_path / "app-0").write_bytes(lines.line(told.pop("Event"), **told))
    assert [path.name for path in files_of(tmp_path)] == ["app-1", "app-0"]


def test_a_file_that_became_shorter_does_not_end_it(tmp_path: Path) -> None:
    log = single(tmp_path, b"".join(lines.whole()[:12]))
    follower = follow(log)
    seen = drain(follower)
    log.path.write_bytes(b"")
    assert drain(follower) == []
    assert follower.skipped == 1
    assert "shorter" in follower.first_reason
    assert seen


@pytest.mark.parametrize("ending", ["lzf", "gz"])
def test_what_cannot_be_unpacked_is_named_once(tmp_path: Path, ending: str) -> None:
    log = single(tmp_path, b"zzz\n" * 5, f"app-1.{ending}.inprogress")
    follower = follow(log)
    assert drain(follower) == []
    assert f"compressed with {ending}" in follower.first_reason
    assert follower.skipped == 1


def test_other_files_are_no_logs(tmp_path: Path) -> None:
    for name in (".app-1.crc", "_SUCCESS", "app-2.crc", "app-3.tmp"):
        (tmp_path / name).touch()
    (tmp_path / "somewhere").mkdir()
    single(tmp_path)
    assert [log.name for log in find_logs(tmp_path)] == ["app-1"]


def test_a_batch_that_hangs_shows_its_age_from_its_first_job(tmp_path: Path) -> None:
    content = lines.whole()
    log = single(tmp_path, b"".join(content[:9]))  # up to the job of batch 1
    follower = follow(log)
    drain(follower)
    hung = lines.BASE + 5.5 + 4000.0
    request = follower.pulse(hung, 1)
    assert request is not None
    (_, event), *_ = request.events
    assert isinstance(event.body, HeartbeatEvent)
    (running,) = event.body.queries
    assert (running.batch_id, running.running_seconds) == (1, pytest.approx(4000.0))
    assert running.name == "enrich"


def test_between_batches_only_a_log_that_grew_lately_speaks_for_a_live_driver(
    tmp_path: Path,
) -> None:
    log = single(tmp_path, b"".join(lines.whole()[:8]))
    follower = follow(log)
    drain(follower)
    written = log.path.stat().st_mtime
    alive = follower.pulse(written + 10.0, 1)
    assert alive is not None
    assert alive.events[0][1].body.queries[0].running_seconds is None  # type: ignore[union-attr]
    assert follower.pulse(written + 4000.0, 1) is None


def test_an_ended_query_and_an_ended_application_have_no_pulse(tmp_path: Path) -> None:
    content = lines.whole()
    for name, upto in (("ended", -1), ("over", None)):
        folder = tmp_path / name
        folder.mkdir()
        follower = follow(single(folder, b"".join(content[:upto])))
        drain(follower)
        assert follower.pulse(lines.BASE + 100.0, 1) is None


def test_the_fleet_counts_each_once_over_a_restart(tmp_path: Path) -> None:
    content = lines.whole()
    log = single(tmp_path, b"".join(content[:17]))
    fleet = Fleet(Policy(), started_time=lines.BASE)

    count(fleet, follow(log))
    fleet = Fleet.restore(Policy(), fleet.changes(), started_time=lines.BASE + 70.0)
    with log.path.open("ab") as file:
        file.write(b"".join(content[17:]))
    count(fleet, follow(log, fleet.counted("event-log:app-1")))
    view = fleet.view(("orders", "enrich"), lines.BASE + 80.0)
    assert view.totals.batches == {"completed": 8}
    assert view.totals.rows == 8000
    assert view.state == "terminated"
    assert fleet.totals.events == {"started": 1, "progress": 8, "terminated": 1}
    assert not fleet.has_listener("app-1")


def test_parts_in_order_of_their_numbers(tmp_path: Path) -> None:
    rolling = Rolling(tmp_path)
    for index in (2, 10, 9):
        rolling.write(index, b"")
    rolling.write(9, b"", compact=True)
    written = next(rolling.log.path.glob("events_9_*.compact"))
    written.rename(f"{written}.inprogress")  # beside those that it will stand for
    assert [part.index for part in parts_of(rolling.log)] == [2, 9, 10]
    written.with_name(f"{written.name}.inprogress").rename(written)
    assert [(part.index, part.compact) for part in parts_of(rolling.log)] == [
        (9, True),
        (10, False),
    ]


def test_stages_are_told_of_the_newest_batch_once_and_after_a_restart_too(tmp_path: Path) -> None:
    log = single(tmp_path, b"".join(lines.skewed(3)))
    follower = follow(log)
    seen = drain(follower)
    told = follower.alignments(1000.0)
    assert list(told) == [lines.RUN]
    view = told[lines.RUN]
    assert (view.batch_id, view.looked_time, view.missing) == (2, 1000.0, "")
    (stage,) = view.stages
    assert (stage.why, stage.partition, stage.executor, stage.host) == ("skew", 2, "2", "worker-2")
    assert view.seconds == pytest.approx(4.0)
    assert follower.alignments(1001.0) == {}
    again = follow(log, seen[-1].sequence)
    assert drain(again) == []
    assert again.alignments(1000.0) == told


def test_tasks_that_cannot_be_used_cost_the_stages_and_no_batch(tmp_path: Path) -> None:
    follower = follow(single(tmp_path, b"".join(lines.whole())))
    assert [event.kind for event in drain(follower)] == KINDS
    view = follower.alignments(0.0)[lines.RUN]
    assert view.stages == []
    assert "lines on tasks" in view.missing
    assert follower.skipped == 0


def test_what_is_kept_of_stages_does_not_grow_with_the_log(tmp_path: Path) -> None:
    follower = follow(single(tmp_path, b"".join(lines.skewed(400))))
    drain(follower)
    stages = follower._stages
    assert [*stages._done, *stages._tasks, *stages._batches] == []
    assert len(follower.alignments(0.0)) == 1


@pytest.mark.timeout(20)
def test_a_fifo_among_the_parts_of_a_log_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app"
    folder.mkdir()
    os.mkfifo(folder / "events_1_app")
    (log,) = find_logs(tmp_path)
    with pytest.raises(OSError, match="a FIFO, not a regular file"):
        Follower(log, 0, {}.get, {}.get, {}.get).next_request()


def idles(batch: int) -> bytes:
    """Spark up to 3.4 writes one each ten seconds, with the number of the batch that comes next."""
    told = json.loads(lines.progress(batch, rows=0))
    told["progress"]["durationMs"] = {"latestOffset": 3, "triggerExecution": 3}
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def test_a_progress_that_says_it_idles_ends_no_batch(tmp_path: Path) -> None:
    content = [*lines.opening(), lines.started(), lines.progress(0), idles(1)]
    log = single(tmp_path, b"".join([*content, lines.job(1, lines.BASE + 20.0)]))
    follower = follow(log)
    drain(follower)
    assert [one.batch_id for one in running(follower)] == [1]


def test_a_failure_in_a_file_that_was_compacted_since_is_counted_once(tmp_path: Path) -> None:
    """The agent was away meanwhile; another query of the driver goes on."""
    failed = lines.terminated().replace(
        b'"exception":null', b'"exception":"java.io.IOException: x"'
    )
    content = [*lines.opening(), lines.started(), *map(lines.progress, range(3)), failed]
    rolling = Rolling(tmp_path)
    rolling.write(1, *content)
    fleet = Fleet(Policy(), started_time=lines.BASE)

    count(fleet, follow(rolling.log))
    (rolling.path / "events_1_app-1").unlink()
    rolling.write(2, *content, compact=True)
    rolling.write(3, lines.started("r-9", query="q-9", time=lines.BASE + 60.0))
    seen = SeenRuns(fleet.runs())
    again = follow(
        rolling.log,
        fleet.counted("event-log:app-1"),
        seen.last_batch,
        seen.present_run,
        seen.has_ended,
    )
    count(fleet, again)
    view = fleet.view(("orders", "enrich"), lines.BASE + 60.0)
    assert view.totals.batches == {"completed": 3, "failed": 1}
    assert fleet.totals.events["terminated"] == 1


def test_what_idles_is_told_once_though_its_file_is_compacted(tmp_path: Path) -> None:
    """An idle word with the number of a batch that was counted came before that batch."""
    idle = idles(3)
    content = [*lines.opening(), lines.started(), *map(lines.progress, range(3)), idle]
    rolling = Rolling(tmp_path)
    rolling.write(1, *content, lines.progress(3))
    follower = follow(rolling.log, last_batch={lines.RUN: 3}.get)
    assert len(drain(follower)) == len(content) - 3 + 1
    rolling.write(2, lines.progress(4))
    drain(follower)
    for path in rolling.path.glob("events_*"):
        path.unlink()
    rolling.write(2, *content, lines.progress(3), lines.progress(4), compact=True)
    rolling.write(3, lines.progress(5))
    follower._last_batch = {lines.RUN: 4}.get
    told = [event.body for event in drain(follower) if isinstance(event.body, ProgressEvent)]
    assert [one.progress.batch_id for one in told] == [5]
