"""A savepoint is whole or not there, whatever the query or the machine does meanwhile."""

import errno
import fcntl
import json
import os
import shutil
import stat
from itertools import count, permutations
from pathlib import Path

import pytest

from agent.checkpoint.folder import CheckpointError, LocalFolder, same_place
from agent.checkpoint.layout import read_checkpoint
from agent.checkpoint.rescue_command import RescueOptions, rescue
from agent.checkpoint.savepoint import MANIFEST, read_manifest, take_savepoint
from agent.checkpoint.savepoint_command import savepoint
from agent.checkpoint.sink import advise_rollback
from agent.checkpoint.soundness import judge
from tests.checkpoint.build import checkpoint, file_entry, killed_at, offsets, tree, write
from tests.checkpoint.kills import rescue_quietly


def take(root, destination, on_step=None):
    return take_savepoint(
        LocalFolder(root),
        destination,
        now=lambda: 1e9,
        sleep=lambda _: None,
        on_step=on_step,
    )


def restart_of(root):
    folder = LocalFolder(root)
    soundness = judge(read_checkpoint(folder), folder, deep=True)
    assert soundness.sound, soundness.errors
    return soundness.restart


def test_it_holds_what_the_newest_commit_needs_and_no_more(tmp_path):
    root, to = checkpoint(tmp_path / "ck"), tmp_path / "deep" / "sp"
    before = tree(root)
    manifest = take(root, to)
    assert tree(root) == before
    assert (manifest.batch_id, manifest.state_version) == (2, 3)
    assert (restart_of(to).action, restart_of(to).batch_id) == ("plan", 3)
    logs = {path for path in tree(to) if not path.endswith(".crc")}
    assert {path for path in logs if path.startswith(("off", "com"))} == {
        "offsets/1",
        "offsets/2",
        "commits/2",
    }
    assert not [path for path in logs if path.endswith(("4.delta", "4.snapshot", "sources/0/3"))]
    assert json.loads((to / MANIFEST).read_text())["batch_id"] == 2
    assert [file.path for file in manifest.files][-2:] == [".metadata.crc", "metadata"]


@pytest.mark.parametrize("taken", ["file", "folder with something in it", "link"])
def test_it_never_overwrites(tmp_path, taken):
    root, to = checkpoint(tmp_path / "ck"), tmp_path / "sp"
    if taken == "file":
        to.write_text("mine")
    elif taken == "link":
        to.symlink_to(tmp_path / "elsewhere")
    else:
        write(to, "mine", "mine")
    before = tree(tmp_path)
    with pytest.raises(CheckpointError, match="exists already"):
        take(root, to)
    assert tree(tmp_path) == before


def test_an_empty_folder_may_be_the_destination(tmp_path):
    (tmp_path / "sp").mkdir()
    take(checkpoint(tmp_path / "ck"), tmp_path / "sp")
    assert restart_of(tmp_path / "sp").batch_id == 3


def test_without_locks_what_is_being_taken_is_let_be(tmp_path, monkeypatch):
    """As on some network file systems."""

    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    root, to = checkpoint(tmp_path / "ck"), tmp_path / "sp"
    work, lock = tmp_path / ".weir-savepoint-sp", tmp_path / ".weir-lock-sp"
    write(work, "metadata", "another's")
    lock.touch()
    before = tree(tmp_path)
    with pytest.raises(CheckpointError, match="remove it if none is"):
        take(root, to)
    assert tree(tmp_path) == before
    lock.unlink()
    take(root, to)
    assert restart_of(to).batch_id == 3
    assert not work.exists()
    assert not lock.exists()


def test_what_another_machine_is_taking_is_let_be(tmp_path, monkeypatch):
    """Of a folder that is locked on NFS no other machine hears."""
    flock = fcntl.flock

    def nfs(handle, how):
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", nfs)
    root, to = checkpoint(tmp_path / "ck"), tmp_path / "sp"

    def another(step):
        if step == "manifest":
            with pytest.raises(CheckpointError, match="another savepoint"):
                take(root, to)

    manifest = take(root, to, another)
    assert {*tree(to)} == {MANIFEST, *(file.path for file in manifest.files)}
    assert {path.name for path in tmp_path.iterdir()} == {"ck", "sp"}


def test_a_query_that_moves_on_gives_a_newer_savepoint(tmp_path):
    root = checkpoint(tmp_path / "ck")

    def query_goes_on(step):
        # Batch 3 commits, and maintenance replaces the older changes by a snapshot.
        if step == "copy state/0/1/2.delta" and not (root / "commits/3").exists():
            write(root, "commits/3", "v1\n{}")
            for partition in (0, 1):
                for version in (1, 2, 3):
                    (root / f"state/0/{partition}/{version}.delta").unlink()

    manifest = take(root, tmp_path / "sp", query_goes_on)
    assert manifest.batch_id == 3
    assert restart_of(tmp_path / "sp").batch_id == 4


def test_a_batch_that_commits_meanwhile_does_no_harm(tmp_path):
    root = checkpoint(tmp_path / "ck")

    def query_goes_on(step):
        if step == "copy offsets/2":
            write(root, "commits/3", "v1\n{}")
            write(root, "sources/0/4", file_entry(4))
            write(root, "offsets/4", offsets(4))

    assert take(root, tmp_path / "sp", query_goes_on).batch_id == 2
    assert restart_of(tmp_path / "sp").batch_id == 3


class Listed(list):
    """Entries of a folder, as ``os.scandir`` gives them."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def a_busy_query(root, monkeypatch, order):
    """A batch commits whenever one of the checkpoint's folders, found in this order, is listed."""
    batches, scandir = count(3), os.scandir

    def scan(path):
        if not Path(path).is_relative_to(root):
            return scandir(path)
        with scandir(path) as found:
            entries = {entry.name: entry for entry in found}
        if Path(path) == root:  # of folders that are found in a row, the last is listed first
            entries = {name: entries.pop(name) for name in reversed(order)} | entries
        if Path(path).parent == root:
            batch = next(batches)
            write(root, f"sources/0/{batch}", file_entry(batch))
            write(root, f"offsets/{batch}", offsets(batch))
            for partition in (0, 1):
                write(root, f"state/0/{partition}/{batch + 1}.delta", b"x")
            write(root, f"commits/{batch}", "v1\n{}")
        return Listed(entries.values())

    monkeypatch.setattr("agent.checkpoint.folder.os.scandir", scan)


ORDERS = list(permutations(["commits", "offsets", "sources", "state"]))


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_whatever_order_folders_are_found_in_a_busy_query_is_saved(tmp_path, monkeypatch, order):
    root = checkpoint(tmp_path / "ck", opened=False)
    with monkeypatch.context() as patch:
        a_busy_query(root, patch, order)
        attempts = []
        manifest = take(root, tmp_path / "sp", attempts.append)
    assert "attempt 1" not in attempts
    assert restart_of(tmp_path / "sp").batch_id == manifest.batch_id + 1


def test_nothing_committed_and_unsound_are_said(tmp_path):
    with pytest.raises(CheckpointError, match="no batch is committed yet"):
        take(checkpoint(tmp_path / "new", committed=0), tmp_path / "sp")
    root = checkpoint(tmp_path / "ck")
    (root / "state/0/1/2.delta").unlink()
    with pytest.raises(CheckpointError, match=r"no whole copy in 3 attempts.*missing: 2"):
        take(root, tmp_path / "sp")
    write(root, "state/0/1/2.delta", b"delta 2")
    (root / "state/0/1/2.delta").write_bytes(b"delta X")
    with pytest.raises(CheckpointError, match="does not match its checksums"):
        take(root, tmp_path / "sp")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ck", "new"]


def compacting(root, names):
    """A checkpoint whose file source's log has these entries; the newest one is committed."""
    shutil.rmtree(checkpoint(root, committed=2, opened=False) / "sources")
    last = int(names[-1].removesuffix(".compact"))
    for name in names:
        write(root, f"sources/0/{name}", file_entry(int(name.removesuffix(".compact"))))
    write(root, "offsets/0", offsets(last - 1))
    write(root, "offsets/1", offsets(last))
    return root


TWENTIES = ["19.compact", *map(str, range(20, 39)), "39.compact", *map(str, range(40, 51))]


def test_two_compacted_entries_keep_the_interval_by_which_spark_reads(tmp_path):
    root, to = compacting(tmp_path / "ck", ["9.compact", *TWENTIES]), tmp_path / "sp"
    take(root, to)
    entries = {path.name for path in (to / "sources/0").iterdir() if path.suffix != ".crc"}
    assert entries == {"19.compact", "39.compact", *map(str, range(40, 51))}
    assert restart_of(to).batch_id == 2


def test_a_source_log_that_spark_would_look_for_elsewhere_is_not_sound(tmp_path):
    """With 39.compact alone Spark takes 10 for the interval, and looks for 49.compact."""
    alone = compacting(tmp_path / "alone", TWENTIES[20:])
    seen = judge(read_checkpoint(LocalFolder(alone)), LocalFolder(alone))
    # A guess: the job may have set 40 for the interval, which no file tells.
    assert seen.errors == []
    (doubt,) = [one for one in seen.findings if one.check == "source_log_incomplete"]
    assert doubt.severity == "warning"
    assert "looks for 49.compact" in doubt.evidence
    assert "40 or more" in doubt.evidence
    take(alone, tmp_path / "sp")
    before = compacting(tmp_path / "before", TWENTIES[20:30])
    assert restart_of(before).batch_id == 2
    odd = compacting(tmp_path / "odd", ["19.compact", *TWENTIES])
    (odd / "sources/0/45").rename(odd / "sources/0/45.compact")
    seen = judge(read_checkpoint(LocalFolder(odd)), LocalFolder(odd))
    assert "compaction interval for 6" in seen.errors[0].evidence


def naming_its_schema(root, address):
    """A checkpoint whose state's schema is named by address, as transformWithState has it."""
    checkpoint(root)
    shutil.rmtree(root / "state/0/_metadata")
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}
    store["stateSchemaFilePaths"] = [f"{address}/state/0/_stateSchema/default/0_x"]
    info = {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateExec"},
        "stateStoreInfo": [store],
    }
    write(root, "state/0/_metadata/v2/0", f"v2\n{json.dumps(info)}")
    write(root, "state/0/_stateSchema/default/0_x", "v3")
    return root


def schema_findings(root):
    seen = judge(read_checkpoint(LocalFolder(root)), LocalFolder(root), deep=True).findings
    return [(one.check, one.severity) for one in seen if one.severity != "info"]


def test_a_schema_named_by_address_ties_a_savepoint_to_it(tmp_path, capsys):
    address = f"file:{tmp_path}/a b%20#c"
    root = naming_its_schema(tmp_path / "a b%20#c", address)
    assert schema_findings(root) == []
    to = tmp_path / "sp"
    assert savepoint(str(root), str(to), rollback_sink=None, as_json=False) == 0
    assert f"It starts only at {address}: " in " ".join(capsys.readouterr().out.split())
    assert json.loads((to / MANIFEST).read_text())["starts_at"] == address
    assert schema_findings(to) == [("state_schema_elsewhere", "error")]
    root.rename(tmp_path / "aside")
    assert schema_findings(to) == [("state_schema_elsewhere", "error")]
    assert schema_findings(tmp_path / "aside") == [("state_schema_elsewhere", "warning")]
    shutil.copytree(to, root)
    assert schema_findings(root) == []
    assert restart_of(root).batch_id == 3


def test_a_savepoint_that_a_query_has_gone_on_from_may_stand_where_it_starts(tmp_path):
    """By another name of the same folder: hdfs://nn:8020/ck and hdfs://nn/ck."""
    root = naming_its_schema(tmp_path / "ck", "s3a://b/ck")
    for batch_id, severity in ((2, "error"), (1, "warning")):
        write(root, MANIFEST, json.dumps({"batch_id": batch_id}))
        assert schema_findings(root) == [("state_schema_elsewhere", severity)]


def test_a_query_that_runs_on_such_a_savepoint_is_rescued_and_told(tmp_path):
    root = naming_its_schema(tmp_path / "ck", f"file:{tmp_path}/elsewhere")
    write(root, MANIFEST, "{}")
    code, report = rescue_quietly(root, apply=True, sink="upsert")
    assert (code, report["applied"]) == (0, True)
    assert f"start only at file:{tmp_path}/elsewhere" in " ".join(report["plan"]["notes"])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, 1),
        ({"sink": "append"}, 1),
        ({"sink": "append", "accept_duplicates": True}, 0),
        ({"sink": "upsert"}, 0),
        ({"sink_path": 3}, 0),
        ({"sink_path": 4}, 1),
        ({"sink_path": 4, "accept_duplicates": True}, 1),
    ],
)
def test_a_rescue_of_a_savepoint_says_what_a_start_from_it_does(tmp_path, capsys, options, code):
    """It has no open batch, and yet plans anew what was open, which the sink may hold."""
    take(checkpoint(tmp_path / "ck"), to := tmp_path / "sp")
    if batches := options.get("sink_path"):
        for batch in range(batches):
            write(tmp_path, f"out/_spark_metadata/{batch}", "v1")
        options = {**options, "sink_path": str(tmp_path / "out")}
    before = tree(to)
    done, report = rescue_quietly(to, apply=True, **options)
    assert (done, report["applied"], tree(to)) == (code, False, before)
    assert "a start from it plans batch 3 anew" in report["plan"]["notes"][0]
    refused = [one["check"] for one in report["plan"]["refusals"]]
    assert refused == ["sink_may_hold_batch"] * code
    assert report["plan"]["conditional"] is ("accept_duplicates" in options and not code)
    assert rescue(str(to), RescueOptions(**options, unchanged_seconds=0)) == code
    said = " ".join(capsys.readouterr().out.split())
    assert "nothing to move: a savepoint" in said
    assert ("rolled back to batch 2" in said) is True
    assert "nothing to rescue" not in said
    # A query that has gone on from it is like any other.
    write(to, "offsets/3", offsets(3))
    write(to, "sources/0/3", file_entry(3))
    write(to, "commits/3", "v1\n{}")
    assert "savepoint" not in " ".join(rescue_quietly(to)[1]["plan"]["notes"])


def test_a_schema_that_is_named_and_gone_is_missed_in_place(tmp_path):
    root = naming_its_schema(tmp_path / "ck", f"file:{tmp_path}/ck")
    (root / "state/0/_stateSchema/default/0_x").unlink()
    assert schema_findings(root) == [("state_incomplete", "error")]
    with pytest.raises(CheckpointError, match="which is not in this folder"):
        take(root, tmp_path / "sp")


def test_a_query_without_such_addresses_starts_anywhere(tmp_path):
    assert take(checkpoint(tmp_path / "ck"), tmp_path / "sp").starts_at is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("file:/a/b", "/a/b/", True),
        ("file:///a/b", "/a/./b", True),
        ("/a/b", "/a/c", False),
        ("s3a://lake/ck", "s3://lake/ck/", True),
        ("abfss://c@x/ck", "abfs://c@x/ck", True),
        ("s3a://lake/ck", "s3a://other/ck", False),
        ("hdfs://name/ck", "/ck", False),
        ("hdfs:/ck", "hdfs:///ck/", True),
        ("hdfs:/ck", "/ck", False),
        ("hdfs:/ck", "hdfs://ck", False),
        ("~nobody-is-called-so/ck", "./~nobody-is-called-so/ck", True),
        ("~nobody-is-called-so/ck", "/ck", False),
    ],
)
def test_addresses_of_one_folder(one, other, same):
    assert same_place(one, other) is same
    assert same_place(other, one) is same


def sink_entry(out, number):
    write(out, f"_spark_metadata/{number}", f'v1\n{{"path":"file:///out/{number}"}}')


def test_what_to_roll_back_is_listed_anew_when_the_query_is_stopped(tmp_path, capsys):
    root, to, out = checkpoint(tmp_path / "ck"), tmp_path / "sp", tmp_path / "out"
    for number in range(3):
        sink_entry(out, number)
    assert savepoint(str(root), str(to), rollback_sink=str(out), as_json=False) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "nothing to roll back. This is of now" in said
    assert f"weir savepoint {to} --rollback-sink DIR" in said
    lost = "what cleanSource=delete, a topic's retention or a table's VACUUM has removed"
    assert lost in said
    sink_entry(out, 3)
    sink_entry(out, 4)
    before = tree(tmp_path)
    assert savepoint(str(to), None, rollback_sink=str(out), as_json=True) == 0
    listed = json.loads(capsys.readouterr().out)
    assert (listed["batch_id"], listed["log_entries"]) == (2, ["3", "4"])
    assert listed["data_files"] == ["file:///out/3", "file:///out/4"]
    assert "once it is stopped" in listed["detail"]
    assert lost in listed["detail"]
    assert savepoint(str(to), None, rollback_sink=str(out), as_json=False) == 0
    assert "_spark_metadata/4" in capsys.readouterr().out
    assert tree(tmp_path) == before


def test_a_list_needs_a_savepoint_and_a_sink(tmp_path):
    root = checkpoint(tmp_path / "ck")
    with pytest.raises(CheckpointError, match="not a savepoint"):
        savepoint(str(root), None, rollback_sink=str(tmp_path), as_json=True)
    with pytest.raises(CheckpointError, match="DEST is missing"):
        savepoint(str(root), None, rollback_sink=None, as_json=True)
    take(root, tmp_path / "sp")
    (tmp_path / "sp" / MANIFEST).write_text("{}")
    with pytest.raises(CheckpointError, match=MANIFEST):
        savepoint(str(tmp_path / "sp"), None, rollback_sink=str(tmp_path), as_json=True)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["0", "1"], "ends at batch 1, before batch 2"),
        ([".0.crc"], "holds no batch, before batch 2"),
        (["1", "2", "3"], "the entry of batch 0 is missing"),
        (["1", "2", "3.compact"], "batch 0 stands only in a later compacted entry"),
    ],
)
def test_why_a_sink_cannot_be_rolled_back(tmp_path, capsys, names, says):
    take(checkpoint(tmp_path / "ck"), tmp_path / "sp")
    for name in names:
        sink_entry(tmp_path / "out", name)
    out = str(tmp_path / "out")
    assert savepoint(str(tmp_path / "sp"), None, rollback_sink=out, as_json=True) == 1
    listed = json.loads(capsys.readouterr().out)
    assert not listed["possible"]
    assert says in listed["detail"]
    again = str(tmp_path / "again")
    assert savepoint(str(tmp_path / "ck"), again, rollback_sink=out, as_json=True) == 1
    listed = json.loads(capsys.readouterr().out)
    assert (listed["destination"], listed["rollback"]["possible"]) == (again, False)
    assert (tmp_path / "again" / MANIFEST).exists(), "it is taken all the same"


def test_a_sink_whose_log_spark_would_look_for_elsewhere_is_not_rolled_back(tmp_path):
    for name in ("39.compact", *range(40, 59), "59.compact"):
        sink_entry(tmp_path, name)
    advice = advise_rollback(tmp_path, 55)
    assert not advice.possible
    assert "looks for 49.compact" in advice.detail
    assert advise_rollback(tmp_path, 45).possible


def test_inside_the_checkpoint_itself_is_refused(tmp_path):
    root = checkpoint(tmp_path / "ck")
    before = tree(root)
    with pytest.raises(CheckpointError, match="inside the checkpoint"):
        savepoint(str(root), str(root / "sp"), rollback_sink=None, as_json=True)
    assert tree(root) == before


def test_killed_at_any_step_it_is_not_there_or_whole(tmp_path):
    root = checkpoint(tmp_path / "ck", committed=2)
    before = tree(root)
    step, killed, seen = 0, True, set()
    while killed:
        to = tmp_path / f"sp-{step}"
        killed = killed_at(step, lambda say, to=to: take(root, to, say))
        seen.add(to.exists())
        if to.exists():
            assert restart_of(to).batch_id == 2
        else:
            take(root, to)
            assert restart_of(to).batch_id == 2
            assert not list(tmp_path.glob(".weir-savepoint-*"))
        shutil.rmtree(to)
        step += 3
    assert tree(root) == before
    assert seen == {True, False}


def test_a_savepoint_of_a_later_version_of_weir_is_none_that_this_one_reads(tmp_path):
    take(checkpoint(tmp_path / "ck"), tmp_path / "sp")
    text = (tmp_path / "sp" / MANIFEST).read_text()
    assert '"weir_savepoint": 1' in text
    for later in (text.replace('savepoint": 1', 'savepoint": 2'), '{"weir_savepoint":2}'):
        (tmp_path / "sp" / MANIFEST).write_text(later)
        with pytest.raises(CheckpointError, match=r"json: of a later version of Weir \(form 2\)"):
            read_manifest(tmp_path / "sp")


class OnNfs(LocalFolder):
    """What another machine deletes while it is read has a stale handle."""

    def __init__(self, root, stale):
        super().__init__(root)
        self.stale = [stale]

    def open(self, path):
        if path in self.stale:
            self.stale.remove(path)
            raise OSError(errno.ESTALE, "Stale file handle", path)
        return super().open(path)


@pytest.mark.parametrize("stale", ["state/0/1/2.delta", "commits/2"])
def test_a_file_that_another_machine_deletes_while_it_is_read_begins_the_copy_anew(tmp_path, stale):
    folder = OnNfs(checkpoint(tmp_path / "ck"), stale)
    manifest = take_savepoint(folder, tmp_path / "sp", now=lambda: 1e9, sleep=lambda _: None)
    assert (manifest.batch_id, folder.stale) == (2, [])
    assert restart_of(tmp_path / "sp").batch_id == 3


def test_what_is_read_whole_on_nfs_is_there_or_gone(tmp_path, monkeypatch):
    def stale(path, _):
        raise OSError(errno.ESTALE, "Stale file handle", str(path))

    monkeypatch.setattr("agent.checkpoint.folder.read_regular", stale)
    with pytest.raises(FileNotFoundError):
        LocalFolder(tmp_path).read("offsets/0")


def folders_fail(monkeypatch, number, where=""):
    """Flushing a folder to the disk fails; those that were flushed."""
    sync, flushed = os.fsync, []

    def fsync(handle):
        path = Path(f"/proc/self/fd/{handle}").readlink()
        if path.is_dir():
            flushed.append(str(path))
            if str(path).endswith(where):
                raise OSError(number, os.strerror(number))
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return flushed


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_file_systems_that_flush_no_folders(tmp_path, monkeypatch, number):
    """Such as CIFS: nothing surer can be had there, and without all of it nothing would be."""
    root, to = checkpoint(tmp_path / "ck"), tmp_path / "sp"
    before = tree(root)
    folders_fail(monkeypatch, number)
    take(root, to)
    assert restart_of(to).batch_id == 3
    assert rescue_quietly(root, apply=True, sink="upsert")[0] == 0
    assert rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0)) == 0
    assert tree(root) == before


def test_a_savepoint_whose_name_is_not_on_the_disk_is_said_to_be_there(tmp_path, monkeypatch):
    root, to = checkpoint(tmp_path / "ck"), tmp_path / "in" / "sp"
    to.parent.mkdir()
    folders_fail(monkeypatch, errno.EIO, "/in")
    with pytest.raises(CheckpointError, match="/in: Input/output error; the savepoint is there"):
        take(root, to)
    assert restart_of(to).batch_id == 3


def test_each_folder_that_is_made_for_it_is_on_the_disk(tmp_path, monkeypatch):
    flushed = folders_fail(monkeypatch, 0, "/none")
    take(checkpoint(tmp_path / "ck"), tmp_path / "a" / "b" / "sp")
    assert {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")} <= set(flushed)
