"""The saved state: one transaction or nothing, one agent a directory, trouble set aside."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NoReturn
from unittest.mock import Mock

import msgspec
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.decode.events import Listener, decode_request
from agent.core.fleet import Change, Fleet, Order
from agent.core.fleet.clusters import Clusters
from agent.core.judge import attention
from agent.core.judge.alignment import AlignmentView
from agent.core.measure.partitions import PartitionView
from agent.core.policy import Policy, QueryPolicy
from agent.service import store as store_module
from agent.service.config import ConfigError, Settings
from agent.service.history import POINTS
from agent.service.keeper import (
    DAMAGED_REASON,
    UNSAVED_NOTE,
    FleetFull,
    Keeper,
    StateUnavailable,
)
from agent.service.recorder import Recorder
from agent.service.run import _keeper, _store
from agent.service.store import SCHEMA_VERSION, Store, StoreFailed, StoreInUse, StoreUnusable
from tests.core.events import Driver
from tests.core.test_saved import flat
from tests.service import wire

if TYPE_CHECKING:
    from pathlib import Path

NOW = wire.BASE_TIME + 1000


def keeper(store: Store, **policy: Any) -> Keeper:
    return Keeper(Policy(**policy), store, started_time=NOW)


def told(keeper: Keeper, now: float = NOW) -> dict[tuple[str, str], bytes]:
    """All that is known of every query, but the plots, which are not kept."""
    return {
        key: msgspec.json.encode(keeper.fleet.view(key, now)) for key in list(keeper.fleet.keys())
    } | {("", "totals"): msgspec.json.encode(keeper.fleet.totals)}


def test_parts_are_written_replaced_and_deleted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write([Change("a", b"1"), Change("b", b"2")])
    store.write([Change("a", b"3"), Change("b", None), Change("c", b"")], {"m": b"x"})
    store.close()
    again = Store(tmp_path)
    assert {one.part: one.data for one in again.load()} == {"a": b"3", "c": b""}
    assert again.mark("m") == b"x"
    assert again.mark("n") is None
    again.close()


def test_files_of_another_user_are_taken_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A volume that Kubernetes shares by group: only their owner may change who reads them."""
    Store(tmp_path).close()
    Recorder(tmp_path / "record.jsonl", max_bytes=1000, keep=1).close()

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    for name in ("chmod", "fchmod"):
        monkeypatch.setattr(os, name, refuse)
    store = Store(tmp_path)
    store.write([Change("a", b"1")])
    assert [one.part for one in store.load()] == ["a"]
    store.close()
    Recorder(tmp_path / "record.jsonl", max_bytes=1000, keep=1).close()


def test_a_failing_write_changes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write([Change("a", b"1")])
    with pytest.raises(StoreFailed):
        store.write(
            [
                Change("a", b"2"),
                Change("b", "\ud800".encode("utf-8", "surrogatepass")),
                Change("c", object()),
            ]
        )  # type: ignore[arg-type]
    assert [(one.part, one.data) for one in store.load()] == [("a", b"1")]
    store.write([Change("a", b"3")])
    store.close()


def test_one_agent_a_directory(tmp_path: Path) -> None:
    first = Store(tmp_path)
    with pytest.raises(StoreInUse, match=f"process {os.getpid()}"):
        Store(tmp_path)
    first.close()
    Store(tmp_path).close()


def test_one_agent_a_directory_of_a_share_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock on SMB refuses, and keeps off who reads, with EACCES."""
    first = Store(tmp_path)

    def refused(*_: object) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(store_module.fcntl, "flock", refused)
    monkeypatch.setattr(store_module.os, "pread", refused)
    with pytest.raises(StoreInUse, match="in use by another agent; give each"):
        Store(tmp_path)
    first.close()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_that_does_not_lock_at_all_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As Lustre without ``-o flock``, and NFS whose server has no lock daemon."""

    def refused(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(store_module.fcntl, "flock", refused)
    with pytest.raises(StoreUnusable, match="local disk or on a block volume"):
        Store(tmp_path)


@pytest.mark.parametrize("said", ["database is locked", "locking protocol"])
def test_a_file_system_without_locks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """As SQLite says it of Azure Files, of a home on NFS, of Lustre."""

    def unlocked(*_: object) -> NoReturn:
        raise sqlite3.OperationalError(said)

    monkeypatch.setattr(store_module, "_prepare", unlocked)
    with pytest.raises(StoreUnusable, match=f"{said}: .*local disk or on a block volume"):
        Store(tmp_path)
    monkeypatch.undo()
    Store(tmp_path).close()


@pytest.mark.parametrize(
    "content", [b"", b"not a database" * 1000, b"SQLite format 3\0" + b"x" * 5000]
)
def test_an_unreadable_file_is_set_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.sqlite"
    path.write_bytes(content)
    store = Store(tmp_path)
    if content:
        assert store.set_aside is not None
        assert store.set_aside[0].read_bytes() == content
    store.write([Change("a", b"1")])
    store.close()


def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write([Change(f"part-{n}", b"x" * 1000) for n in range(200)])
    store.close()
    path = tmp_path / "state.sqlite"
    content = bytearray(path.read_bytes())
    content[8192:20000] = b"\xff" * (20000 - 8192)
    path.write_bytes(content)
    again = Store(tmp_path)
    assert again.set_aside is not None
    assert again.load() == []
    again.close()


class Unread(sqlite3.Connection):
    """A disk that does not give what is asked of it, once."""

    failing: tuple[str, str] | None = None

    def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
        if self.failing is None or not sql.startswith(self.failing[0]):
            return super().execute(sql, *given)
        said, type(self).failing = self.failing[1], None
        if "page" in said:
            return super().execute("SELECT ?", (said,))
        raise sqlite3.OperationalError(said)


@pytest.mark.parametrize(
    "failing",
    [
        ("PRAGMA quick_check", "*** in database main ***\nPage 4: unable to get the page. error"),
        ("PRAGMA quick_check", "Freelist: failed to get page 7"),
        ("PRAGMA journal_mode", "locking protocol"),
        ("SELECT count", "disk I/O error"),
        ("SELECT part", "disk I/O error"),
        ("SELECT value", "disk I/O error"),
    ],
)
def test_what_was_not_read_is_not_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: tuple[str, str]
) -> None:
    """The kill switch is in it; the next agent may read it."""
    one = keeper(Store(tmp_path))
    one.control("*", "*", Order(who="kim", mode="off"), NOW)
    one.close(NOW)
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: real(*a, factory=Unread, **k))
    monkeypatch.setattr(Unread, "failing", failing)

    def start() -> None:
        settings = Settings(state_dir=tmp_path)
        with contextlib.closing(_store(settings)) as store:
            _keeper(settings, store, NOW)

    with pytest.raises(ConfigError, match=r"^state_dir: .*state.sqlite: [^\n]*$"):
        start()
    assert Unread.failing is None
    assert not [path for path in tmp_path.iterdir() if "unreadable" in path.name]
    again = keeper(Store(tmp_path))
    assert again.fleet.mode == "off"
    assert [order.who for order in again.orders] == ["kim"]
    again.close(NOW)


def test_other_programs_and_later_versions_files_are_set_aside(tmp_path: Path) -> None:
    for number, statement in enumerate(("CREATE TABLE t (x)", "PRAGMA user_version = 99")):
        folder = tmp_path / str(number)
        if number:
            Store(folder).close()
        folder.mkdir(exist_ok=True)
        database = sqlite3.connect(folder / "state.sqlite")
        database.execute(statement)
        database.commit()
        database.close()
        store = Store(folder)
        assert store.set_aside is not None
        store.close()


def test_a_state_of_the_schema_before_is_taken_over_and_an_agent_of_that_sets_ours_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr("agent.service.store.SCHEMA_VERSION", 1)
        store = Store(tmp_path)
        store.write(flat())
        store.close()
    Store(tmp_path).close()  # one that ends at its start leaves it to the agent before
    with monkeypatch.context() as before:
        before.setattr("agent.service.store.SCHEMA_VERSION", 1)
        store = Store(tmp_path)
        assert store.set_aside is None
        store.close()
    store = Store(tmp_path)
    one = keeper(store)
    (key,) = one.fleet.keys()
    assert one.fleet.view(key, NOW).held
    one.control(*key, Order(who="kim", mode="off"), NOW)
    one.close(NOW)
    ours = (tmp_path / "state.sqlite").read_bytes()
    assert store.set_aside is None
    with monkeypatch.context() as before:
        before.setattr("agent.service.store.SCHEMA_VERSION", 1)
        store = Store(tmp_path)
    assert store.set_aside is not None
    assert store.set_aside[0].read_bytes() == ours
    store.close()


#: That of the version after this one.
LATER: Final = SCHEMA_VERSION + 1


def start(monkeypatch: pytest.MonkeyPatch, folder: Path, schema: int) -> Keeper:
    """An agent of the version whose schema that is, on the saved state."""
    monkeypatch.setattr("agent.service.store.SCHEMA_VERSION", schema)
    return keeper(Store(folder))


@pytest.mark.parametrize("alone", [False, True])  # a query's, of all that can be read
def test_what_a_later_version_was_ordered_holds_after_a_rollback_and_forward_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, alone: bool
) -> None:
    one = start(monkeypatch, tmp_path, LATER)
    one.receive(decode_request(wire.body([wire.progress(n, query=n - 1) for n in (1, 2)])), NOW)
    one.control("orders", "query-0", Order(who="kim", limit=500), NOW)
    where = ("orders", "query-1") if alone else ("*", "*")
    one.control(*where, Order(who="kim", mode="off"), NOW)
    one.close(NOW)
    saved = (tmp_path / "state.sqlite").read_bytes()
    for schema in (SCHEMA_VERSION, LATER, SCHEMA_VERSION):
        one = start(monkeypatch, tmp_path, schema)
        views = [one.fleet.view(("orders", f"query-{n}"), NOW) for n in (0, 1)]
        assert one.fleet.mode == ("on" if alone else "off")
        assert [view.mode for view in views] == ["on" if alone else "off", "off"]
        assert views[0].manual_limit == 500
        assert [order.who for order in one.orders][-1] == "kim"
        one.receive(decode_request(wire.body([wire.progress(3)])), NOW)
        one.close(NOW)
        if schema == SCHEMA_VERSION:
            assert (tmp_path / f"state.sqlite.schema-{LATER}").read_bytes() == saved
        saved = (tmp_path / "state.sqlite").read_bytes()


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE parts RENAME TO pieces",
        "ALTER TABLE parts RENAME COLUMN data TO content",
        "DROP TABLE marks",
        ("agent", lambda raw: raw["standing"][0].update(tenant="a")),
        ("agent", lambda raw: raw.update(pauses=[])),
        ("agent", lambda raw: raw["standing"][0].update(mode="half")),
        ("query", lambda raw: raw["orders"].update(executors=3)),
        ("query", lambda raw: raw["orders"].update(limit="500")),
        ("orders", lambda raw: raw),
    ],
)
def test_where_not_all_that_a_later_version_was_ordered_can_be_read_nothing_is_regulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: Any
) -> None:
    one = start(monkeypatch, tmp_path, LATER)
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    one.control("*", "*", Order(who="kim", mode="off"), NOW)
    if isinstance(statement, str):
        one._store._database.execute(statement)
    else:
        kind, change = statement
        saved = next(iter(c for c in one._store.load() if c.part.startswith(kind)), None)
        assert saved is None or saved.data is not None
        raw = {} if saved is None else msgspec.msgpack.decode(saved.data)  # type: ignore[arg-type]
        change(raw)
        part = "orders:x" if saved is None else saved.part
        one._store.write([Change(part, msgspec.msgpack.encode(raw))])
    one._store.close()
    expected = "off" if statement == "DROP TABLE marks" else "dry-run"
    for schema in (SCHEMA_VERSION, LATER, SCHEMA_VERSION):
        one = start(monkeypatch, tmp_path, schema)
        assert one.fleet.mode == expected
        if expected == "dry-run":
            last = one.orders[-1]
            assert (last.who, last.what) == ("weir", "mode dry-run")
        one.receive(decode_request(wire.body([wire.progress(1), wire.progress(2)])), NOW)
        (key,) = one.fleet.keys()
        assert one.fleet.view(key, NOW).mode == expected
        one.close(NOW)
    one = start(monkeypatch, tmp_path, LATER)
    one.control("*", "*", Order(who="kim", mode="on"), NOW)
    assert one.fleet.mode == one.fleet.view(key, NOW).mode == "on"
    one.close(NOW)


def test_an_agent_that_is_killed_as_it_takes_a_later_state_over_has_lost_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = start(monkeypatch, tmp_path, LATER)
    one.control("*", "*", Order(who="kim", mode="off"), NOW)
    one.close(NOW)
    monkeypatch.setattr("agent.service.store.SCHEMA_VERSION", SCHEMA_VERSION)
    store = Store(tmp_path)  # and no more of it
    store.close()
    store = Store(tmp_path)
    monkeypatch.setattr(store, "begin_anew", Mock(side_effect=StoreFailed("full")))
    with pytest.raises(StoreFailed):
        keeper(store)
    store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "agent.lock",
        "state.sqlite",
        f"state.sqlite.schema-{LATER}",
    ]
    one = keeper(Store(tmp_path))
    assert one.fleet.mode == "off"
    one.close(NOW)


@pytest.mark.parametrize(
    "parts",
    [
        [Change("query:5:ordersenrich", b"not a saved query")],
        [Change("agent", b"\xc1")],
        [Change("listener:x", b"\x90")],
    ],
)
def test_a_state_that_the_core_cannot_read_is_set_aside(
    tmp_path: Path, parts: list[Change]
) -> None:
    store = Store(tmp_path)
    store.write(parts)
    one = keeper(store)
    assert len(one.fleet) == 0
    assert store.set_aside is not None
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    one.close(NOW)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("listener", b"\xc1garbage"),
        ("agent", b"\x90"),
        ("query:6:ordersquery-0", b"\xc1garbage"),
        ("query:6:ordersquery-0", b"\x82\xa3run\x80\xa6sizing\x01"),
    ],
)
def test_of_a_state_with_one_part_that_cannot_be_read_all_others_are_kept(
    tmp_path: Path, kind: str, data: bytes
) -> None:
    """What was switched off stays so: of all queries, or of each one that was known."""
    store = Store(tmp_path)
    one = keeper(store)
    one.receive(decode_request(wire.body([wire.progress(n, query=n - 1) for n in (1, 2)])), NOW)
    one.control("*", "*", Order(who="kim", mode="off"), NOW)
    (damaged,) = [change.part for change in store.load() if change.part.startswith(kind)]
    store.write([Change(damaged, data)])
    with structlog.testing.capture_logs() as logged:
        one = keeper(store)
    assert [line["part"] for line in logged if "part" in line] == [damaged]
    assert all(line["log_level"] == "error" for line in logged)
    assert store.set_aside is None
    # What was ordered of all stands in the agent's own part, and is not known without it.
    assert one.fleet.mode == ("dry-run" if kind == "agent" else "off")
    known = [("orders", "query-1")] if kind.startswith("query") else one.fleet.keys()
    assert one.fleet.keys() == known
    assert {one.fleet.view(key, NOW).mode for key in known} == {"off"}
    one.receive(decode_request(wire.body([wire.progress(3, query=2)])), NOW)
    assert one.fleet.view(("orders", "query-2"), NOW).mode != "on"
    one.tick(NOW + 1)
    one.close(NOW + 1)
    store = Store(tmp_path)
    kept = [change.part for change in store.load() if change.data == data]
    # A query's may hold an order: it stays until the query is heard of again.
    assert kept == ([damaged] if kind.startswith("query") else [])
    store.close()


def test_what_was_ordered_of_a_query_outlives_all_else_of_it_that_cannot_be_read(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    one = keeper(store)
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    for order in (Order(who="kim", limit=500), Order(who="kim", mode="off")):
        one.control("orders", "query-0", order, NOW)
    (saved,) = [change for change in store.load() if change.part.startswith("query:")]
    assert saved.data is not None
    raw = msgspec.msgpack.decode(saved.data)
    raw["flow"]["arrived_rows"] = "many"
    store.write([Change(saved.part, msgspec.msgpack.encode(raw))])
    for said in (["flow: Expected `float`, got `str` - at `$.arrived_rows`"], []):
        with structlog.testing.capture_logs() as logged:
            one = keeper(store)
        assert [line["cause"] for line in logged if line["log_level"] != "info"] == said
        view = one.fleet.view(("orders", "query-0"), NOW)
        assert (view.mode, view.manual_limit) == ("off", 500)
        one.tick(NOW + 1)
    one.close(NOW + 1)


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusable, match="file"):
        Store(tmp_path / "file")
    (tmp_path / "state.sqlite").mkdir()
    with pytest.raises(StoreUnusable, match="is not a file"):
        Store(tmp_path)
    with pytest.raises(StoreUnusable, match="is not a file"):  # and the lock was let go
        Store(tmp_path)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


#: With SQLite's log, which is there while the file is open, and after a kill.
OURS = dict.fromkeys(("agent.lock", "state.sqlite", "state.sqlite-shm", "state.sqlite-wal"), 0o600)


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0
    assert modes(tmp_path / "state") == OURS
    store.close()


def test_only_the_owner_may_read_it_in_a_directory_that_others_may_look_into(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    try:
        store = Store(tmp_path)
        store.write([Change("a", b"1")])
    finally:
        os.umask(before)
    assert modes(tmp_path) == OURS
    store.close()


def test_what_others_may_read_of_an_agent_that_was_killed_is_theirs_no_more(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "running")
    store.write([Change("a", b"1")])
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path / "running", killed)
    store.close()
    for path in killed.iterdir():
        path.chmod(0o644)
    (killed / "agent.lock").chmod(0o600)
    store = Store(killed)
    assert modes(killed) == OURS
    assert [one.part for one in store.load()] == ["a"]
    store.close()


events = st.lists(
    st.builds(
        lambda pause, query, rows, seconds, backlog, limit: {
            "time": pause,
            "query": query,
            "rows": rows,
            "seconds": seconds,
            "backlog": backlog,
            "limit": limit,
        },
        st.floats(0.0, 12.0),
        st.integers(0, 3),
        st.integers(0, 10**6),
        st.floats(0.01, 600),
        st.integers(0, 10**9),
        st.none() | st.integers(1, 10**6),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(events=events, cut=st.integers(0, 40), hold=st.booleans())
def test_restored_equals_before_at_any_moment(
    events: list[dict[str, float]], cut: int, hold: bool
) -> None:
    """A fleet restored in the middle judges what follows as one that was never stopped."""
    at = accumulate((one["time"] for one in events), initial=wire.BASE_TIME)
    numbered = [
        wire.progress(n + 1, **one | {"time": time})  # type: ignore[arg-type]
        for n, (one, time) in enumerate(zip(events, at, strict=False))
    ]
    whole, first = keeper(Store(None)), keeper(Store(None))
    for one in (whole, first):
        one.receive(decode_request(wire.body(numbered[:cut])), NOW)
        if hold and len(one.fleet):
            one.control("*", "*", Order(who="kim", hold=True), NOW)
    second = Keeper(Policy(), first._store, started_time=NOW)
    assert told(second) == told(whole)
    assert second.orders == whole.orders
    # The unacknowledged tail comes again, overlapping.
    for one in (whole, second):
        receipt = one.receive(decode_request(wire.body(numbered[max(0, cut - 3) :])), NOW + 1)
        assert receipt.acknowledged == (
            len(numbered) if numbered[max(0, cut - 3) :] else min(cut, len(numbered))
        )
    assert told(second, NOW + 1) == told(whole, NOW + 1)


class FailingStore(Store):
    """A store in memory whose writes fail while told so."""

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder)
        self.failing = False
        self.probing = True  # else a probe fits where a commit does not

    def write(self, changes, marks=None):  # type: ignore[no-untyped-def]
        if self.failing:
            raise StoreFailed("database or disk is full")
        super().write(changes, marks or {})

    def probe(self) -> None:
        if self.failing and self.probing:
            raise StoreFailed("database or disk is full")
        super().probe()


def test_a_failed_commit_leaves_the_fleet_as_the_disk_has_it() -> None:
    store = FailingStore()
    one = keeper(store)
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    before = told(one)
    store.failing = True
    for later in range(3):
        with pytest.raises(StateUnavailable):
            one.receive(decode_request(wire.body([wire.progress(2)])), NOW + later)
        with pytest.raises(StateUnavailable):
            one.control("*", "*", Order(who="kim", mode="on"), NOW + later)
        one.tick(NOW + later)
        assert told(one) == before
        assert not one.writable
    assert one.write_failures_total == 1
    store.failing = False
    receipt = one.receive(decode_request(wire.body([wire.progress(2)])), NOW + 10)
    assert receipt.acknowledged == 2
    assert one.writable
    assert one.fleet.totals.events == {"progress": 2}


class Stale:
    """A connection that fails for good, as after NFS has lost its handle."""

    in_transaction = False

    def execute(self, *_: Any) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    def close(self) -> None:
        pass


@pytest.mark.parametrize("away", [False, True])
def test_a_connection_that_fails_for_good_is_made_anew_and_no_file(
    tmp_path: Path, *, away: bool
) -> None:
    path, elsewhere = tmp_path / "state.sqlite", tmp_path / "elsewhere"
    store = Store(tmp_path)
    one = keeper(store)
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    one.control("orders", "query-0", Order(who="kim", limit=500), NOW)
    store._database.close()
    store._database = Stale()  # type: ignore[assignment]
    second = decode_request(wire.body([wire.progress(2)]))
    with pytest.raises(StateUnavailable):
        one.receive(second, NOW)
    if away:
        path.rename(elsewhere)
        with pytest.raises(StateUnavailable):
            one.receive(second, NOW + 2)
        assert not path.exists()
        elsewhere.rename(path)
    assert one.receive(second, NOW + 4).acknowledged == 2
    assert one.writable
    assert store.set_aside is None
    assert one.fleet.view(("orders", "query-0"), NOW).manual_limit == 500
    one.close(NOW + 5)
    again = keeper(Store(tmp_path))
    assert told(again) == told(one)
    again.close(NOW + 6)


@pytest.mark.parametrize("comes", ["back", "another"])
def test_a_directory_that_is_removed_under_a_running_agent_is_noticed(
    tmp_path: Path, comes: str
) -> None:
    folder, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    one = keeper(Store(folder))
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    folder.rename(elsewhere)
    (record,) = one.control("*", "*", Order(who="kim", mode="off"), NOW)
    assert record.note == UNSAVED_NOTE
    assert one.write_failures_total == 1
    second = decode_request(wire.body([wire.progress(2)]))
    for later in (0, 2):
        with pytest.raises(StateUnavailable):
            one.receive(second, NOW + later)
    if comes == "another":
        other = Store(folder)
        with pytest.raises(StateUnavailable):
            one.receive(second, NOW + 4)
        other.close()
    else:
        elsewhere.rename(folder)
    assert one.receive(second, NOW + 6).acknowledged == 2
    assert one.fleet.mode == "off"
    with pytest.raises(StoreInUse):
        Store(folder)
    one.close(NOW + 7)
    again = keeper(Store(folder))
    assert again.fleet.mode == "off"
    again.close(NOW + 8)


@pytest.mark.parametrize("read", [False, True])
def test_after_a_damaged_state_nothing_is_regulated_until_somebody_says_so(
    tmp_path: Path, *, read: bool
) -> None:
    """Whether SQLite finds the damage as the file is opened, or the parts in it are of no use."""
    store = Store(tmp_path)
    one = keeper(store)
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    one.control("*", "*", Order(who="kim", mode="off"), NOW)
    if read:
        store.write([Change(part.part, b"\xc1") for part in store.load()])
    one._store.close()
    if not read:
        path = tmp_path / "state.sqlite"
        path.write_bytes(b"\0" * path.stat().st_size)
    for _ in range(2):
        one = keeper(Store(tmp_path))
        assert one.fleet.mode == "dry-run"
        one._store.close()  # killed before it has saved anything
    one = keeper(Store(tmp_path))
    (order,) = one.orders
    assert (order.who, order.reason) == ("weir", DAMAGED_REASON)
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    assert one.fleet.view(("orders", "query-0"), NOW).mode == "dry-run"
    one._store.close()  # as one that is killed
    one = keeper(Store(tmp_path))
    assert one.fleet.mode == "dry-run"
    assert len(one.orders) == 1  # once
    one.control("*", "*", Order(who="kim", mode="on"), NOW)
    one.close(NOW)
    again = keeper(Store(tmp_path))
    assert again.fleet.mode == "on"
    again.close(NOW)


def test_another_programs_file_holds_no_orders(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "state.sqlite")
    database.execute("CREATE TABLE t (x)")
    database.commit()
    database.close()
    store = Store(tmp_path)
    one = keeper(store)
    assert store.set_aside is not None
    assert one.fleet.mode == "on"
    assert not one.orders
    one.close(NOW)


@pytest.mark.parametrize("noticed", [False, True])
def test_the_kill_switch_works_on_a_full_disk_and_is_saved_later(
    tmp_path: Path, noticed: bool
) -> None:
    store = FailingStore(tmp_path)
    one = keeper(store)
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    store.failing = True
    if noticed:
        with pytest.raises(StateUnavailable):
            one.receive(decode_request(wire.body([wire.progress(2)])), NOW)
    (record,) = one.control("*", "*", Order(who="kim", mode="off"), NOW)
    assert record.what == "mode off"
    for later in range(1, 5):
        with pytest.raises(StateUnavailable):
            one.receive(decode_request(wire.body([wire.progress(2)])), NOW + later)
        assert one.fleet.mode == "off"
        assert [order.who for order in one.orders] == ["kim"]
    store.failing = False
    assert one.receive(decode_request(wire.body([wire.progress(2)])), NOW + 10).grants == []
    one.close(NOW + 11)
    again = keeper(Store(tmp_path))
    assert again.fleet.mode == "off"
    assert [order.who for order in again.orders] == ["kim"]
    again.close(NOW + 12)


@pytest.mark.parametrize("probing", [True, False])
def test_a_full_disk_is_no_reason_to_call_a_driver_dead(*, probing: bool) -> None:
    store = FailingStore()
    store.probing = probing
    one = keeper(store)
    key = ("orders", "query-0")
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    store.failing = True
    ids = dict(zip(("id", "runId"), wire.query_ids(0), strict=True))
    beat = wire.heartbeat(2, [{**ids, "name": "query-0", "batchId": None}])
    for later in range(0, 120, 5):
        with pytest.raises(StateUnavailable):
            one.receive(decode_request(wire.body([beat])), NOW + later)
        one.tick(NOW + later)
        assert one.view(key, NOW + later).up
    store.probing = True
    for later in range(120, 150, 5):  # now it is
        one.tick(NOW + later)
    assert not one.view(key, NOW + 150).up


@pytest.mark.parametrize("ahead", [0.0, 7200.0])
def test_a_write_that_fails_wakes_nobody_who_was_not_heard(ahead: float) -> None:
    """Of an agent before this one, whose clock was ahead; who was heard in this life is alive."""
    store = FailingStore()
    before = Keeper(Policy(), store, started_time=NOW + ahead)
    for name in ("dead", "alive"):
        said = wire.body([wire.progress(1)], application=name)
        before.receive(decode_request(said), NOW + ahead)
    one = keeper(store)
    later = wire.body([wire.progress(2)], application="alive")
    one.receive(decode_request(later), NOW + 50)
    store.failing = True
    with pytest.raises(StateUnavailable):
        one.receive(decode_request(wire.body([wire.progress(1)], application="new")), NOW + 60)
    assert one.fleet.liveness("dead", "query-0", NOW + 61).why == "unknown"
    one.tick(NOW + 61)
    assert not one.view(("dead", "query-0"), NOW + 61).up
    assert one.view(("alive", "query-0"), NOW + 61).up


def test_a_write_that_fails_as_the_agent_comes_to_calls_nobody_dead() -> None:
    store = FailingStore()
    one = keeper(store)
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    one.tick(NOW)
    one.tick(NOW + 1000)  # it stood still in between
    store.failing = True
    with pytest.raises(StateUnavailable):
        one.receive(decode_request(wire.body([wire.progress(1)], application="new")), NOW + 1001)
    one.tick(NOW + 1002)
    assert one.view(("orders", "query-0"), NOW + 1002).up


def test_an_event_that_the_core_fails_on_is_refused_and_the_others_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever a future Spark sends: one event must not stop those behind it for ever."""
    from agent.core import pipeline as judge

    real = judge.progress

    def fragile(query, body, *rest, **more):  # type: ignore[no-untyped-def]
        result = real(query, body, *rest, **more)  # fails when half of it is done
        if body.progress.rows == 13:
            raise ZeroDivisionError("division by zero")
        return result

    monkeypatch.setattr(judge, "progress", fragile)
    one, clean = keeper(Store(None)), keeper(Store(None))
    numbered = [wire.progress(n, rows=13 if n == 3 else 1000, batch_id=n) for n in range(1, 7)]
    receipt = one.receive(decode_request(wire.body(numbered)), NOW)
    assert receipt.accepted == 5
    assert receipt.acknowledged == 6
    assert [(bad.index, bad.sequence) for bad in receipt.refused] == [(2, 3)]
    clean.receive(decode_request(wire.body([e for e in numbered if e["sequence"] != 3])), NOW)
    key = ("orders", "query-0")
    assert one.fleet.view(key, NOW).totals == clean.fleet.view(key, NOW).totals
    again = one.receive(decode_request(wire.body(numbered)), NOW)
    assert again.accepted == 6
    assert one.fleet.totals.duplicates == 6


def reads(driver: Driver, query: str, offset: int, rows: int = 1) -> dict[str, Any]:
    """A batch of a query that reads Kafka."""
    driver.query, driver.query_id, driver.run_id = query, f"id of {query}", f"run of {query}"
    source: dict[str, Any] = {"description": "KafkaV2[Subscribe[t]]", "numInputRows": rows}
    for name in ("startOffset", "endOffset", "latestOffset"):
        source[name] = {"t": {"0": offset}}
    return driver.progress(rows, 1.0, sources=[source], limits=[])


def test_an_event_that_the_core_fails_on_takes_no_offset_from_a_query_that_reads_kafka(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor is one that is known to read another cluster forgotten: a group here would have it."""
    from agent.core import pipeline as judge

    real = judge.progress

    def fragile(query, body, *rest, **more):  # type: ignore[no-untyped-def]
        if body.progress.rows == 13:
            raise ZeroDivisionError("division by zero")
        return real(query, body, *rest, **more)

    monkeypatch.setattr(judge, "progress", fragile)
    one, driver = keeper(Store(None)), Driver(time=NOW)
    one.fleet.keep_offsets()
    events = [reads(driver, name, 10) for name in ("here", "elsewhere", "fails")]
    one.receive(decode_request(driver.body(*events)), NOW)
    one.fleet.hear_elsewhere(("shop", "elsewhere"), "id of elsewhere", 0)
    events = [reads(driver, "fails", 20, rows=13), reads(driver, "here", 20)]
    assert len(one.receive(decode_request(driver.body(*events)), NOW).refused) == 1
    at = {key: reading.offsets[0]["t", "0"] for key, reading in one.fleet.readings().items()}
    assert at == {("shop", "here"): 20, ("shop", "elsewhere"): 10, ("shop", "fails"): 10}
    committed = one.fleet.committed()
    assert committed == {("shop", "here"): {("t", "0"): 20}, ("shop", "fails"): {("t", "0"): 10}}


def beats(driver: Driver, present: int) -> dict[str, Any]:
    """A heartbeat that tells of executors."""
    beat = driver.heartbeat()
    beat["body"]["executors"] = {"present": present, "slots": 8, "asked": None, "configured": 2}
    return beat


@pytest.mark.parametrize("where", ["order", "look"])
def test_executors_that_the_core_fails_on_cost_their_heartbeat_alone(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they are is not saved: put back with the rest it would fail the next request, too."""
    real = getattr(Clusters, where)

    def fragile(self, cluster, *rest):  # type: ignore[no-untyped-def]
        known = self._known.get(cluster)
        if known is not None and known.told.present == 13:
            raise ZeroDivisionError("division by zero")
        return real(self, cluster, *rest)

    monkeypatch.setattr(Clusters, where, fragile)
    one, driver = keeper(Store(None)), Driver(time=NOW)
    one.receive(decode_request(driver.body(driver.started(), beats(driver, 2))), NOW)
    events = [driver.idle(), beats(driver, 13), driver.idle(), driver.progress(10, 1.0)]
    receipt = one.receive(decode_request(driver.body(*events)), NOW)
    assert [bad.index for bad in receipt.refused] == [1]
    for event in (driver.idle(), driver.progress(10, 1.0), beats(driver, 2)):
        assert not one.receive(decode_request(driver.body(event)), NOW).refused
    shown = one.view(("shop", "orders"), NOW)
    assert shown.executors is not None
    assert shown.executors.present == 2
    assert shown.totals.batches["completed"] == 2


def test_what_is_not_saved_outlives_a_write_that_fails() -> None:
    """Of executors, stages and logs nobody may tell again for a while."""
    store = FailingStore()
    one, driver = keeper(store), Driver(time=NOW)
    one.fleet.keep_offsets()
    one.receive(decode_request(driver.body(reads(driver, "here", 10))), NOW)
    key, view = ("shop", "here"), PartitionView(0, "t", "0", 5, 0, 60.0)
    one.fleet.hear_partitions(key, driver.query_id, 0, [view], NOW)
    one.fleet.note_alignment(key, driver.run_id, AlignmentView(missing="REST is off"))
    one.receive(decode_request(driver.body(beats(driver, 2))), NOW)
    before = told(one)
    shown = one.view(key, NOW)
    assert None not in (shown.executors, shown.alignment)
    assert shown.partitions
    assert one.fleet.readings()
    one.fleet.see_logs_behind({driver.instance})
    assert not one.fleet.readings()
    store.failing = True
    with pytest.raises(StateUnavailable):
        one.receive(decode_request(driver.body(reads(driver, "here", 20))), NOW)
    assert told(one) == before
    assert not one.fleet.readings()


@pytest.mark.parametrize("how", ["retired", "forgotten"])
def test_one_whose_end_cannot_be_saved_is_known_to_read_another_cluster(how: str) -> None:
    """It is put back: without that word its offsets would go into a group here."""
    store = FailingStore()
    one, driver = keeper(store), Driver(time=NOW)
    one.fleet.keep_offsets()
    one.receive(decode_request(driver.body(reads(driver, "elsewhere", 10))), NOW)
    key = ("shop", "elsewhere")
    one.fleet.hear_elsewhere(key, driver.query_id, 0)
    one.fleet.note_alignment(key, driver.run_id, AlignmentView(missing="REST is off"))
    one.receive(decode_request(driver.body(driver.terminated())), NOW)
    one.tick(NOW)

    def end() -> None:
        if how == "retired":
            one.control(*key, Order(who="kim", retire=True), NOW)
        else:
            one.tick(NOW + 3700.0)

    store.failing = True
    with contextlib.suppress(StateUnavailable):
        end()
    assert one.fleet.keys() == [key]
    assert one.fleet.committed() == {}
    assert one.view(key, NOW).alignment is not None
    store.failing = False
    one.tick(NOW + 2.0)
    assert one.writable
    end()
    assert one.fleet.keys() == []
    assert not one.fleet._state.brokers._elsewhere
    assert not one.fleet._state.alignments


def test_what_cannot_be_saved_of_a_sender_costs_little_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = keeper(Store(None))
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    before = told(one)
    request = decode_request(wire.body([wire.progress(n, query=n) for n in range(2, 8)]))
    request = msgspec.structs.replace(request, listener=Listener(instance="app-\udcff"))
    restored: list[int] = []
    real = Fleet.restore

    def counting(*args: Any, **more: Any) -> Fleet:
        restored.append(1)
        return real(*args, **more)

    monkeypatch.setattr(Fleet, "restore", counting)
    with pytest.raises(UnicodeEncodeError):
        one.receive(request, NOW)
    assert len(restored) == 2
    assert told(one) == before
    one.tick(NOW + 1)
    assert one.receive(decode_request(wire.body([wire.progress(2)])), NOW + 1).accepted == 1


def test_events_that_the_core_fails_on_are_logged_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.core import pipeline as judge

    def failing(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(judge, "progress", failing)
    one = keeper(Store(None))
    with structlog.testing.capture_logs() as logged:
        for number in range(20):  # one a second
            now = NOW + number
            one.receive(decode_request(wire.body([wire.progress(number + 1)])), now)
    assert [line["kind"] for line in logged if "could not be judged" in line["event"]] == [
        "progress"
    ]


def test_full_is_said_only_of_what_is_unknown() -> None:
    one = keeper(Store(None), max_queries=1)
    one.receive(decode_request(wire.body([wire.progress(1, query=1)])), NOW)
    with pytest.raises(FleetFull):
        one.receive(decode_request(wire.body([wire.progress(1)], application="new")), NOW)
    assert one.fleet.totals.refused == {}
    one.receive(decode_request(wire.body([wire.progress(2, query=1), wire.progress(3)])), NOW)
    assert one.fleet.totals.refused == {"cardinality": 1}
    assert one.receive(decode_request(wire.body([wire.heartbeat(4)])), NOW).acknowledged == 4


def test_a_full_agent_goes_on_with_a_driver_that_starts_one_query_more() -> None:
    one = keeper(Store(None), max_queries=1)
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    for number in range(2, 12):
        now = NOW + 15.0 * number
        ids = dict(zip(("id", "runId"), wire.query_ids(0), strict=True))
        beat = wire.heartbeat(2 * number, [{**ids, "name": "query-0", "batchId": None}])
        one.receive(decode_request(wire.body([beat])), now)
        alone = decode_request(wire.body([wire.progress(2 * number + 1, query=1)]))
        receipt = one.receive(alone, now)
        assert (receipt.acknowledged, len(receipt.refused)) == (2 * number + 1, 1)
        one.tick(now)
        assert one.fleet.liveness("orders", "query-0", now).ok


def test_a_log_waits_for_room_and_holds_up_nobody() -> None:
    """What it tells is still there then; a driver's word would be gone."""
    one = keeper(Store(None), max_queries=1)
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    log = {"instance": "event-log:app-1"}
    with pytest.raises(FleetFull):
        one.receive(decode_request(wire.body([wire.progress(1, query=1)], **log)), NOW)
    assert one.fleet.counted("event-log:app-1") == 0
    mixed = [wire.progress(1), wire.progress(2, query=1)]
    assert one.receive(decode_request(wire.body(mixed, **log)), NOW).acknowledged == 2


def test_a_driver_sent_away_from_a_full_agent_is_heard() -> None:
    one = keeper(Store(None), max_queries=1)
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    other = {"application": "new", "application_id": "app-new", "instance": "other"}
    one.receive(decode_request(wire.body([wire.heartbeat(1, [])], **other)), NOW)
    with pytest.raises(FleetFull):
        one.receive(decode_request(wire.body([wire.progress(2, query=1)], **other)), NOW + 60.0)
    heard = {view.application: view.last_heard_time for view in one.fleet.listeners(NOW + 60.0)}
    assert heard["new"] == NOW + 60.0


def test_who_is_told_of_no_room_gets_that_of_one_that_waits_for_its_next_run() -> None:
    one = keeper(Store(None), max_queries=1)
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    one.control("orders", "query-0", Order(who="kim", mode="off"), NOW)
    for hours in range(4):
        one.tick(NOW + 3600.0 * hours + 60.0)
    assert len(one.fleet) == 1  # nobody needs the room
    new = decode_request(wire.body([wire.progress(1)], application="new"))
    with pytest.raises(FleetFull):
        one.receive(new, NOW + 15000)
    one.tick(NOW + 15001)
    assert one.receive(new, NOW + 15002).accepted == 1
    assert one.fleet.keys() == [("new", "query-0")]


def test_orders_outlive_the_process(tmp_path: Path) -> None:
    one = keeper(Store(tmp_path))
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    one.control("*", "*", Order(who="kim", mode="off", reason="night"), NOW)
    one.close(NOW)
    again = keeper(Store(tmp_path))
    assert [(o.who, o.what, o.reason) for o in again.orders] == [("kim", "mode off", "night")]
    assert again.fleet.mode == "off"
    again.receive(decode_request(wire.body([wire.progress(1)], application="later")), NOW)
    assert again.fleet.view(("later", "query-0"), NOW).mode == "off"
    again.close(NOW)


def test_what_is_forgotten_leaves_disk_and_history(tmp_path: Path) -> None:
    store = Store(tmp_path)
    one = keeper(store, default=QueryPolicy(retire_seconds=10.0))
    one.receive(decode_request(wire.body([wire.progress(1)])), NOW)
    assert len(one.history) == 1
    one.tick(NOW + 100)
    one.tick(NOW + 200)
    assert len(one.fleet) == 0
    assert len(one.history) == 0
    assert not [part for part in store.load() if part.part.startswith("query:")]
    one.close(NOW)


def test_history_has_a_point_per_batch_and_none_twice() -> None:
    one = keeper(Store(None))
    numbered = [wire.progress(n, query=n % 2, rows=100 * n) for n in range(1, 9)]
    one.receive(decode_request(wire.body(numbered[:5])), NOW)
    one.receive(decode_request(wire.body(numbered[3:])), NOW)
    for query in (0, 1):
        points = one.view(("orders", f"query-{query}"), NOW).history
        assert [point.rows for point in points] == [100 * n for n in range(1, 9) if n % 2 == query]
        assert all(point.batch_seconds == 2.5 and point.backlog_rows for point in points)
        assert points[-1].credit_rows is not None


def test_attention_is_the_same_however_much_history_is_asked_for() -> None:
    """A backlog that grew over 120 batches and rests over the last 24 grows for who asks for few.

    A scrape asks for none.
    """
    one = keeper(Store(None))
    key = ("orders", "query-0")
    for number in range(1, POINTS + 1):
        backlog = 500 * min(number, POINTS - 24)
        event = wire.progress(number, seconds=0.5, backlog=backlog, limit=None)
        one.receive(decode_request(wire.body([event])), NOW)
    told = {count: one.view(key, NOW, count) for count in (0, 24, POINTS)}
    assert {count: len(view.history) for count, view in told.items()} == {n: n for n in told}
    assert {view.attention.level for view in told.values()} == {"growing"}
    assert told[0].attention == told[24].attention == told[POINTS].attention


@pytest.mark.parametrize(("arriving", "grows"), [(1_000, False), (5_000, True)])
def test_a_burst_that_is_worked_off_does_not_grow(arriving: int, *, grows: bool) -> None:
    """Though the later batches leave far more than the earlier; where more comes than goes it does.

    A batch a second, of 4,000 rows at most.
    """
    one = keeper(Store(None))
    backlog, left, levels = 0, [], set()
    for number in range(1, POINTS + 1):
        burst = 216_000 if number == POINTS - 40 else 0
        rows = min(4_000, backlog + arriving)
        backlog += burst + arriving - rows
        left.append((float(backlog), float(rows)))
        event = wire.progress(number, rows=rows, seconds=0.5, backlog=backlog, limit=4_000)
        now = wire.BASE_TIME + number
        one.receive(decode_request(wire.body([event])), now)
        if attention.grows(left) and number > POINTS - 40:
            levels.add(one.view(("orders", "query-0"), now).attention.level)
    assert levels
    assert ("growing" in levels) is grows


def test_restore_is_the_cores_own(tmp_path: Path) -> None:
    store = Store(tmp_path)
    one = keeper(store)
    one.receive(decode_request(wire.body([wire.progress(n) for n in range(1, 20)])), NOW)
    other = Fleet.restore(Policy(), store.load(), started_time=NOW)
    assert other.keys() == one.fleet.keys()
    one.close(NOW)
