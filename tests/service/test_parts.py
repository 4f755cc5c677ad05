"""The service's small parts by tables: plots' rings, the record, host samples, log lines."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import resource
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.judge import attention
from agent.core.judgement import Point
from agent.service import log
from agent.service.config import ConfigError, Settings
from agent.service.history import PIECE_SECONDS, PIECES, POINTS, History
from agent.service.recorder import RESERVE_BYTES, Recorder
from agent.service.run import _recorder
from agent.sources.host import DriverCandidate, DriverProcesses, memory_limit, sample
from tests.service import wire

if TYPE_CHECKING:
    from agent.core.fleet import Key

KEY: Key = ("orders", "enrich")
plain = st.floats(0, 1e12, allow_nan=False)


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            Point,
            time=st.floats(1.7e9, 2e9),
            batch_seconds=st.none() | st.floats(0, 1e5),
            rows=st.integers(0, 2**53),
            backlog_rows=st.none() | plain,
            limit=st.none() | st.integers(1, 2**53),
            credit_rows=st.none() | plain,
            limited=st.booleans(),
            would_be_limit=st.none() | st.integers(1, 2**53),
        ),
        max_size=POINTS + 30,
    ),
    st.integers(0, POINTS),
)
def test_the_ring_gives_back_the_newest_points(points: list[Point], newest: int) -> None:
    history = History()
    for point in points:
        history.add(KEY, point)
    kept = points[-POINTS:][-newest:] if newest else []
    found = history.points(KEY, newest)
    assert len(found) == len(kept)
    for got, want in zip(found, kept, strict=True):
        for name in ("time", "rows", "limit", "limited", "would_be_limit"):
            assert getattr(got, name) == getattr(want, name), name
        for name in ("batch_seconds", "backlog_rows", "credit_rows"):
            one, other = getattr(got, name), getattr(want, name)
            assert (one is None) == (other is None)
            if one is not None:
                assert math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-38)


@given(
    st.lists(st.tuples(st.none() | st.integers(0, 1000), st.integers(0, 500)), max_size=POINTS + 30)
)
def test_growth_is_judged_by_all_the_points_that_are_kept(batches: list[tuple[int, int]]) -> None:
    history = History()
    for number, (left, rows) in enumerate(batches):
        history.add(KEY, Point(number, 1.0, rows, left, None, None, limited=False))
    known = [(p.backlog_rows, p.rows) for p in history.points(KEY) if p.backlog_rows is not None]
    assert history.grows(KEY) is attention.grows(known)
    assert not history.grows(("a", "stranger"))


def test_history_of_a_thousand_queries_is_small() -> None:
    import tracemalloc

    tracemalloc.start()
    history = History()
    for query in range(100):
        for number in range(POINTS + 10):
            history.add(("a", str(query)), Point(number, 1.0, 5, 2.0, 7, 3.0, True))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / 100 < 8 * 1024
    history.forget(("a", "5"))
    assert history.points(("a", "5")) == []
    assert len(history) == 99


@given(
    st.lists(
        st.tuples(
            st.floats(0, 900),
            st.none() | st.floats(0, 1e4),
            st.integers(0, 10**6),
            st.none() | st.integers(0, 10**6),
            st.none() | st.integers(1, 10**6),
        ),
        max_size=60,
    )
)
def test_two_minutes_are_one_piece_of_the_hours(batches: list[tuple[Any, ...]]) -> None:
    history, time, of = History(), 1e9, defaultdict(list)
    for later, seconds, rows, left, limit in batches:
        time += later
        point = Point(time, seconds, rows, left, limit, None, limited=False)
        history.add(KEY, point)
        of[time // PIECE_SECONDS].append(point)
    pieces = history.hours(KEY)
    assert [piece.time for piece in pieces] == [points[-1].time for points in of.values()]
    for piece, points in zip(pieces, of.values(), strict=True):
        known = [one.batch_seconds for one in points if one.batch_seconds is not None]
        assert piece.rows == pytest.approx(sum(one.rows for one in points), rel=1e-5)
        assert piece.total_seconds == pytest.approx(sum(known), rel=1e-5, abs=1e-37)
        longest = max(known, default=None)
        assert piece.batch_seconds == (longest and pytest.approx(longest, rel=1e-6, abs=1e-37))
        left_most = max(
            (one.backlog_rows for one in points if one.backlog_rows is not None), default=None
        )
        assert piece.backlog_rows == left_most
        assert piece.limit == points[-1].limit


def test_twelve_hours_are_kept_and_no_more_and_a_clock_set_back_makes_none() -> None:
    import tracemalloc

    tracemalloc.start()
    history = History()
    for number in range(PIECES + 100):
        history.add(KEY, Point(number * PIECE_SECONDS, 1.0, 5, 2.0, 7, None, limited=False))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    pieces = history.hours(KEY)
    assert PIECES * PIECE_SECONDS == 12 * 3600
    assert [piece.time for piece in pieces] == [
        (number + 100) * PIECE_SECONDS for number in range(PIECES)
    ]
    assert used < 24 * 1024  # a thousand queries: 24 MB at most
    history.add(KEY, Point(5.0, 9.0, 5, None, 7, None, limited=False))
    again = history.hours(KEY)
    assert len(again) == PIECES
    assert (again[-1].time, again[-1].batch_seconds) == (pieces[-1].time, 9.0)
    history.forget(KEY)
    assert history.hours(KEY) == []


def test_a_torn_line_of_the_record_stays_alone(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.write_bytes(b'{"sequence": 1}\n{"sequ')
    recorder = Recorder(path, max_bytes=10**6, keep=2)
    recorder.record(wire.body([wire.progress(1), wire.progress(2), wire.progress(3)]), {1})
    recorder.close()
    lines = path.read_text().splitlines()
    assert lines[1] == '{"sequ'
    assert [json.loads(line)["sequence"] for line in lines[2:]] == [1, 3]


def test_a_disk_that_is_full_for_a_while_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    recorder = Recorder(path, max_bytes=10**6, keep=2)
    recorder.record(wire.body([wire.progress(1)]), set())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, before[1]))
    try:
        for sequence in (2, 3):
            with pytest.raises(OSError, match="cut short"):
                recorder.record(wire.body([wire.progress(sequence)]), set())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    recorder.record(wire.body([wire.progress(4)]), set())
    recorder.close()
    assert [json.loads(line)["sequence"] for line in path.read_text().splitlines()] == [1, 4]


def test_an_agent_starts_where_the_records_disk_is_full_and_records_once_it_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "new" / "record.jsonl"
    path.parent.mkdir()
    torn = b'{"sequence": 1}\n{"sequ'
    path.write_bytes(torn)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(torn), before[1]))
    try:
        with structlog.testing.capture_logs() as logged:
            recorder = _recorder(Settings(record_file=path))
        assert recorder is not None
        with pytest.raises(OSError, match="too large"):
            recorder.record(wire.body([wire.progress(1)]), set())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [line["event"] for line in logged] == ["events are not recorded"]
    recorder.record(wire.body([wire.progress(2)]), set())
    recorder.close()
    assert path.read_bytes().startswith(torn + b"\n")
    assert json.loads(path.read_text().splitlines()[-1])["sequence"] == 2


def test_a_record_that_can_never_be_written_keeps_the_agent_from_starting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "record.jsonl"):
        with pytest.raises(ConfigError, match=f"record_file: {tmp_path}"):
            _recorder(Settings(record_file=path))


def test_the_record_leaves_room_for_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 2000 queries that takes 36 MiB, and its journal 4; without it nothing is regulated."""
    path = tmp_path / "record.jsonl"
    recorder = _recorder(Settings(record_file=path, state_dir=tmp_path))
    assert recorder is not None
    disk = SimpleNamespace(f_blocks=1000, f_bavail=40, f_frsize=1024 * 1024)
    monkeypatch.setattr(os, "fstatvfs", lambda _: disk)
    with pytest.raises(OSError, match="too little space") as raised:
        recorder.record(wire.body([wire.progress(1)]), set())
    assert raised.value.errno == errno.ENOSPC
    disk.f_bavail = 100
    recorder.record(wire.body([wire.progress(2)]), set())
    disk.f_blocks = disk.f_bavail = 0  # a file system that does not tell
    recorder.record(wire.body([wire.progress(3)]), set())
    recorder.close()
    assert [json.loads(line)["sequence"] for line in path.read_text().splitlines()] == [2, 3]


def test_for_the_states_room_the_oldest_records_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that rolls on does so on a full disk too."""
    room, others = 20_000, 0

    def used() -> int:
        return sum(one.stat().st_size for one in tmp_path.iterdir())

    def disk(_: int) -> SimpleNamespace:
        left = RESERVE_BYTES + room - others - used()
        return SimpleNamespace(f_blocks=1, f_bavail=max(0, left), f_frsize=1)

    monkeypatch.setattr(os, "fstatvfs", disk)
    path = tmp_path / "record.jsonl"
    recorder = Recorder(path, max_bytes=4096, keep=100, state_dir=tmp_path)
    for sequence in range(1, 101):
        recorder.record(wire.body([wire.progress(sequence)]), set())
        assert used() <= room
    assert used() > room - 2 * 4096, "no more than has to go"
    kept = sorted(tmp_path.iterdir(), key=lambda one: -int(one.suffix[1:].replace("jsonl", "0")))
    told = [json.loads(line)["sequence"] for one in kept for line in one.read_text().splitlines()]
    assert told == list(range(told[0], 101))
    others = RESERVE_BYTES + room  # what is full of others' data is no emptier without the records
    with pytest.raises(OSError, match="too little space"):
        recorder.record(wire.body([wire.progress(101)]), set())
    recorder.close()
    assert sorted(tmp_path.iterdir()) == sorted(kept)


@pytest.mark.parametrize("state_dir", [None, Path("/dev")])
def test_a_record_with_a_disk_of_its_own_may_fill_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state_dir: Path | None
) -> None:
    disk = SimpleNamespace(f_blocks=1000, f_bavail=1, f_frsize=1024 * 1024)
    monkeypatch.setattr(os, "fstatvfs", lambda _: disk)
    recorder = Recorder(tmp_path / "r", max_bytes=10**6, keep=2, state_dir=state_dir)
    recorder.record(wire.body([wire.progress(1)]), set())
    recorder.close()
    assert recorder.recorded_total == 1


def test_the_record_goes_on_once_its_files_can_be_renamed_again(tmp_path: Path) -> None:
    path, in_the_way = tmp_path / "record.jsonl", tmp_path / "record.jsonl.1"
    recorder = Recorder(path, max_bytes=100, keep=1)
    recorder.record(wire.body([wire.progress(1)]), set())
    in_the_way.mkdir()
    with pytest.raises(OSError, match="directory"):
        recorder.record(wire.body([wire.progress(2)]), set())
    in_the_way.rmdir()
    recorder.record(wire.body([wire.progress(3)]), set())
    recorder.close()
    assert recorder.recorded_total == 2


def test_the_record_keeps_so_many_files(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.touch(0o644)  # as an agent before this one left it
    recorder = Recorder(path, max_bytes=4096, keep=3)
    for sequence in range(1, 30):
        recorder.record(wire.body([wire.progress(sequence)]), set())
    recorder.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "record.jsonl",
        "record.jsonl.1",
        "record.jsonl.2",
        "record.jsonl.3",
    ]
    assert recorder.recorded_total == 29
    assert {one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {0o600}


def files(folder: Path, of: dict[str, str]) -> None:
    for name, text in of.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


MEMINFO = {"proc/meminfo": "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n"}
LIMITS = {
    "cgroup v2, the tightest level": (
        {
            "proc/7/cgroup": "0::/pods/pod1/main\n",
            "sys/pods/memory.max": "900000\n",
            "sys/pods/memory.current": "1",
            "sys/pods/pod1/memory.max": "500000\n",
            "sys/pods/pod1/memory.current": "300000\n",
            "sys/pods/pod1/memory.stat": "anon 5\ninactive_file 100000\n",
            "sys/pods/pod1/memory.events": "low 0\noom_kill 2\n",
            "sys/pods/pod1/main/memory.max": "max\n",
        },
        (500000, "cgroup2", 200000, 2),
    ),
    "cgroup v2, half of it files that the kernel drops at the limit": (
        {
            "proc/7/cgroup": "0::/pod1\n",
            "sys/pod1/memory.max": "10000\n",
            "sys/pod1/memory.current": "9600\n",
            "sys/pod1/memory.stat": "anon 4000\ninactive_file 200\nactive_file 5000\n",
        },
        (10000, "cgroup2", 4400, None),
    ),
    "cgroup v2 inside a container": (
        {
            "proc/7/cgroup": "0::/\n",
            "sys/memory.max": "700000\n",
            "sys/memory.current": "600000\n",
        },
        (700000, "cgroup2", 600000, None),
    ),
    "cgroup v2, above its namespace": (
        {"proc/7/cgroup": "0::/../sibling\n", "sys/memory.max": "700000\n"},
        (1024000, "host", 614400, None),
    ),
    "cgroup v1": (
        {
            "proc/7/cgroup": "5:cpu:/x\n4:hugetlb,memory:/docker/abc\n",
            "sys/memory/docker/abc/memory.limit_in_bytes": "800000\n",
            "sys/memory/docker/abc/memory.usage_in_bytes": "500000\n",
            "sys/memory/docker/abc/memory.stat": (
                "hierarchical_memory_limit 600000\ntotal_inactive_file 1000\n"
                "active_file 7\ntotal_active_file 200000\n"
            ),
        },
        (600000, "cgroup1", 299000, None),
    ),
    "cgroup v1 whose path a container hides": (
        {
            "proc/7/cgroup": "4:memory:/docker/abc\n",
            "sys/memory/memory.limit_in_bytes": "800000\n",
            "sys/memory/memory.usage_in_bytes": "500000\n",
        },
        (800000, "cgroup1", 500000, None),
    ),
    "cgroup v1 without a limit": (
        {
            "proc/7/cgroup": "4:memory:/\n",
            "sys/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
        (1024000, "host", 614400, None),
    ),
    "nothing": ({}, (1024000, "host", 614400, None)),
    "nonsense": (
        {"proc/7/cgroup": "what\n::\n0::/a\n", "sys/a/memory.max": "lots\n"},
        (1024000, "host", 614400, None),
    ),
}


@pytest.mark.parametrize("case", LIMITS)
def test_memory_limits(tmp_path: Path, case: str) -> None:
    tree, expected = LIMITS[case]
    (tmp_path / "sys").mkdir()
    files(tmp_path, MEMINFO | tree)
    found = memory_limit(7, proc=tmp_path / "proc", cgroups=tmp_path / "sys")
    assert found is not None
    assert (
        found.limit_bytes,
        found.source,
        found.used_bytes,
        found.oom_kills_total,
    ) == expected


def test_an_address_space_limit_counts_where_it_is_tighter(tmp_path: Path) -> None:
    files(tmp_path, MEMINFO | {"proc/7/status": "Name: java\nVmSize: 300 kB\n"})
    found = memory_limit(7, proc=tmp_path / "proc", cgroups=tmp_path, rlimit_bytes=500_000)
    assert found is not None
    assert (found.limit_bytes, found.source, found.used_bytes) == (500_000, "rlimit", 307_200)


def test_this_process_as_a_sample() -> None:
    taken = sample(psutil.Process(), "agent", "", 5.0)
    assert taken is not None
    assert taken.pid == os.getpid()
    assert taken.resident_bytes > 10**6
    assert taken.cpu_seconds_total > 0
    assert taken.open_files
    assert taken.memory is not None


def test_which_processes_are_taken_for_a_driver() -> None:
    import socket

    here, own = socket.gethostname(), os.getpid()
    table = [
        (DriverCandidate("a", here, None, own), ["python"]),
        (DriverCandidate("a", here, own, None), []),  # this is no Java
        (DriverCandidate("a", "elsewhere", None, own), []),
        (DriverCandidate("a", here, None, 2**22 + 1), []),
        (DriverCandidate("a", here, -1, 0), []),
        (DriverCandidate("a", here, 2**70, 2**70), []),
    ]
    for candidate, roles in table:
        drivers = DriverProcesses("auto")
        for _ in range(2):
            assert [one.role for one in drivers.sample([candidate], 1.0)] == roles, candidate
    assert DriverProcesses("off").sample([table[0][0]], 1.0) == []
    named = DriverProcesses(own).sample([table[2][0]], 1.0)
    assert [(one.pid, one.application) for one in named] == [(own, "a")]


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(autouse=True)
def restore_logging() -> object:
    import logging

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


HOSTILE = 'a\nb\x1b[2J\u202e"><script> \ud800 ' + "x" * 1000


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_log_lines_hold_no_hostile_text(stream: io.StringIO, log_format: str) -> None:
    log.configure(log_format, "info", stream)
    logger = structlog.get_logger()
    logger.warning(HOSTILE, query=HOSTILE, number=5, nothing=None)
    logger.debug("below the level")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    assert lines[0].isprintable()
    assert len(lines[0]) < 2500
    if log_format == "json":
        line = json.loads(lines[0])
        assert line["number"] == 5
        assert (line["level"], line["severity"]) == ("warning", "WARNING")
        assert line["query"].startswith(r"a\nb\x1b[2J")


def test_errors_show_where_but_no_values(stream: io.StringIO) -> None:
    log.configure("json", "info", stream)

    def fail(secret: str) -> None:
        assert secret
        raise ValueError("bad")

    try:
        fail("s3cret")
    except ValueError as error:
        structlog.get_logger().error("it failed", exc_info=error)
    line = json.loads(stream.getvalue())
    assert line["error"] == "ValueError: bad"
    assert "test_parts.py" in line["at"]
    assert "s3cret" not in stream.getvalue()


def test_no_secret_of_an_error_is_logged(stream: io.StringIO) -> None:
    log.configure("json", "info", stream)
    error = ValueError('conf["a.password"] = "hunter2", as ' + "x" * log.LONGEST_VALUE)
    structlog.get_logger().error("s3a://k:hunter2@b/p", exc_info=error, of="token=hunter2")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["of"]) == ("s3a://b/p", "token=***")
    assert line["error"].startswith('ValueError: conf["a.password"] = ***, as xx')
    assert "hunter2" not in stream.getvalue()


def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    full = Path("/dev/full").open("w", buffering=1)  # noqa: SIM115 - closing fails too
    log.configure("json", "info", full)
    structlog.get_logger().info("hello")
    with contextlib.suppress(OSError):
        full.close()


def test_repeated_warnings_come_rarely_and_are_counted() -> None:
    said: list[tuple[str, dict[str, object]]] = []
    rarely = log.Rarely(60.0)

    def say(what: str, **values: object) -> None:
        said.append((what, values))

    for now in (0.0, 1.0, 59.0, 60.0, 61.0):
        rarely.warn(say, "disk full", now, cause="x")
    rarely.warn(say, "other", 61.0)
    rarely.reset("disk full")
    rarely.warn(say, "disk full", 62.0)
    rarely.warn(say, "disk full", 10.0)  # the clock went back: better said once too often
    assert said == [
        ("disk full", {"cause": "x"}),
        ("disk full", {"cause": "x", "repeated": 2}),
        ("other", {}),
        ("disk full", {}),
        ("disk full", {}),
    ]
