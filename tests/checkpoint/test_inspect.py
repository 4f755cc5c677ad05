"""What ``weir checkpoint inspect`` tells of checkpoints sound and not."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import msgspec
import pytest

from agent import cli
from agent.checkpoint.folder import CheckpointError, LocalFolder
from agent.checkpoint.layout import parse_offset_log, source_kind
from agent.checkpoint.savepoint import take_savepoint
from tests.checkpoint.build import OLD, checkpoint, file_entry, offsets, tree, write


@pytest.fixture
def weir(monkeypatch, capsys):
    """Runs the command: (code, standard output, standard error)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["weir", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return run


def inspect(weir, root, *options):
    before = tree(root)
    code, out, err = weir("checkpoint", "inspect", root, "--json", *options)
    assert tree(root) == before
    assert err == ""
    return code, json.loads(out)


def errors(report):
    return [finding["check"] for finding in report["findings"] if finding["severity"] == "error"]


def test_a_sound_one_with_nothing_open(weir, tmp_path):
    code, report = inspect(weir, checkpoint(tmp_path, opened=False), "--deep")
    assert code == 0
    assert report["sound"]
    assert (report["latest_offset"], report["latest_commit"], report["open_batches"]) == (2, 2, [])
    assert report["restart"]["action"] == "plan"
    assert report["restart"]["batch_id"] == 3
    assert report["state"]["store"] == "HDFS"
    assert report["state"]["version"] == 3
    assert report["state"]["operators"][0]["operator_name"] == "stateStoreSave"
    assert report["sources"][0]["kind"] == "file"


def test_an_open_batch_is_sound_and_replayed(weir, tmp_path):
    code, report = inspect(weir, checkpoint(tmp_path, state="some"))
    assert code == 0
    assert report["open_batches"] == [3]
    assert report["restart"]["action"] == "replay"
    assert report["restart"]["state_version"] == 3
    assert report["sources"][0]["open_batch_takes"] == 1


@pytest.mark.parametrize("columns", [None, "80", "200"])
def test_the_table_says_the_same_and_breaks_no_figure(weir, monkeypatch, tmp_path, columns):
    if columns is None:  # a pipe: as wide as it takes
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    root = checkpoint(tmp_path)
    write(root, "state/0/1/2.delta", b"\xff" * 521_800)
    code, out, _ = weir("checkpoint", "inspect", root)
    assert code == 0
    assert ": sound:" in " ".join(out.split())  # a long path breaks the line
    row = next(line for line in out.splitlines() if line.startswith("0 stateStoreSave "))
    assert re.search(r"  \d{3}\.\d KiB  1: \d{3}\.\d KiB  ", row)
    assert len(row) <= 80


@pytest.mark.parametrize(
    ("gone", "check"),
    [
        ("metadata", "metadata_missing"),
        ("offsets/2", "offsets_missing"),
        ("state/0/1/2.delta", "state_incomplete"),
        ("sources/0/1", "source_log_incomplete"),
    ],
)
def test_what_a_restart_needs_is_missing(weir, tmp_path, gone, check):
    root = checkpoint(tmp_path)
    (root / gone).unlink()
    code, report = inspect(weir, root)
    assert code == 1
    assert check in errors(report)
    assert report["restart"]["action"] == "fail"


def column(name, of="timestamp", *, nullable=False, metadata=None):
    return {"name": name, "type": of, "nullable": nullable, "metadata": metadata or {}}


START, USER = column("sessionStartTime"), column("userId", "string", nullable=True)
COUNT = column("count", "long")
BOUNDS = {"type": "struct", "fields": [column("start"), column("end")]}
SESSION = column("session_window", BOUNDS, metadata={"spark.sessionWindow": True})


@pytest.mark.parametrize(
    ("keys", "values", "keyless"),
    [
        ([START, USER], [COUNT], False),
        ([START, USER], [SESSION, USER, COUNT], False),
        ([USER, START], [SESSION, USER, COUNT], False),
        ([START], [COUNT], False),
        ([column("key", "void", nullable=True), USER], [COUNT], False),
        ([column("key", "void", nullable=True)], [COUNT], True),
        ([], [COUNT], True),
    ],
)
def test_only_a_state_without_keys_may_be_in_one_partition(weir, tmp_path, keys, values, keyless):
    root = checkpoint(tmp_path / "ck", opened=False)
    schema = b"v2" + b"".join(
        json.dumps({"type": "struct", "fields": fields}, separators=(",", ":")).encode()
        for fields in (keys, values)
    )
    write(root, "state/0/0/_metadata/schema", schema)
    take_savepoint(LocalFolder(root), tmp_path / "to", now=lambda: 0.0, sleep=lambda _: None)
    # Where a partition has files of the version, no schema makes it one to be left out.
    assert (tmp_path / "to/state/0/1/3.delta").exists()
    shutil.rmtree(root / "state/0/1")
    code, report = inspect(weir, root)
    assert errors(report) == ([] if keyless else ["state_incomplete"])
    assert code == (0 if keyless else 1)


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_a_query_at_work_is_looked_at_again(weir, tmp_path, monkeypatch, looks):
    """In the looks before, its newest commit is not there yet, as if two batches were open."""
    root = checkpoint(tmp_path)
    commit = (root / "commits/2").read_text()
    taken = 0

    def files(folder, on_count=None):
        nonlocal taken
        taken += 1
        if taken >= looks:
            write(root, "commits/2", commit)
        for entry in listed(folder, on_count):
            yield msgspec.structs.replace(entry, modified=entry.modified + taken)

    listed = LocalFolder.files
    monkeypatch.setattr(LocalFolder, "files", files)
    for words in ("inspect", "audit"):
        taken = 0
        (root / "commits/2").unlink()
        _, out, _ = weir("checkpoint", words, root, "--json")
        assert "offsets_without_commits" not in out
        assert taken == looks


def test_what_does_not_change_is_not_looked_at_for_long(weir, tmp_path, monkeypatch):
    root = checkpoint(tmp_path)
    (root / "commits/2").unlink()
    taken, listed = [], LocalFolder.files
    monkeypatch.setattr(LocalFolder, "files", lambda *given: taken.append(given) or listed(*given))
    code, _, _ = weir("checkpoint", "inspect", root, "--json")
    assert (code, len(taken)) == (1, 2)


def test_a_snapshot_replaces_older_changes(weir, tmp_path):
    root = checkpoint(tmp_path, opened=False)
    for partition in (0, 1):
        write(root, f"state/0/{partition}/2.snapshot", b"all up to two")
        (root / f"state/0/{partition}/1.delta").unlink()
        (root / f"state/0/{partition}/2.delta").unlink()
    code, report = inspect(weir, root)
    assert code == 0
    assert report["state"]["operators"][0]["snapshot_version"] == 2
    (root / "state/0/1/3.delta").unlink()
    assert inspect(weir, root)[0] == 1


SINCE_4_2 = {"spark.sql.streaming.stateStore.rowChecksum.enabled": "false"}


def with_changelogs(root, versions, snapshots, *, of=SINCE_4_2):
    """A RocksDB store of one partition, its snapshots each with one file of their own."""
    checkpoint(root, committed=versions, opened=False, partitions=1)
    for file in root.glob("state/0/0/*.delta"):
        file.unlink()
    for version in range(1, versions + 1):
        write(root, f"state/0/0/{version}.changelog", b"changes %d" % version, checksum=False)
    for version in snapshots:
        named = {"dfsSstFileName": f"{version}.sst", "sizeBytes": 3}
        write(root, f"state/0/0/SSTs/{version}.sst", b"sst", checksum=False)
        with zipfile.ZipFile(root / f"state/0/0/{version}.zip", "w") as archive:
            archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": [named]}))
    head, *rest = offsets(versions - 1, partitions=1).split("\n")[1:]
    conf = json.loads(head)
    conf["conf"] |= of
    write(root, f"offsets/{versions - 1}", "\n".join(["v1", json.dumps(conf), *rest]))
    return root


def damage_snapshot(root, how, version):
    if how == "a named file is gone":
        (root / f"state/0/0/SSTs/{version}.sst").unlink()
    else:
        write(root, f"state/0/0/{version}.zip", {"empty": b"", "no zip": b"PK"}[how])


@pytest.mark.parametrize("how", ["a named file is gone", "no zip", "empty"])
@pytest.mark.parametrize(
    ("bad", "start", "changes"),
    [([5], "snapshot 2", 4), ([2, 5], "the first change", 6)],
)
@pytest.mark.parametrize("of", [SINCE_4_2, {}], ids=["4.2", "before"])
def test_a_bad_snapshot_before_which_all_is_there(weir, tmp_path, how, bad, start, changes, of):
    """Since 4.2 Spark passes over it by itself; it starts without it in every version."""
    root = with_changelogs(tmp_path / "ck", 6, [2, 5], of=of)
    assert inspect(weir, root, "--deep")[1]["findings"] == []
    for version in bad:
        damage_snapshot(root, how, version)
    code, report = inspect(weir, root, "--deep")
    assert code == (0 if of else 1)
    assert len(report["findings"]) == len(bad)
    for found, version in zip(report["findings"], reversed(bad), strict=True):
        assert found["check"] == "state_incomplete"
        assert found["severity"] == ("warning" if of else "error")
        assert f"start from {start} instead" in found["evidence"]
        assert f"move state/0/0/{version}.zip aside" in found["remedy"]
    (store,) = report["state"]["operators"]
    assert store["changes"] == changes
    to = tmp_path / "to"
    take_savepoint(LocalFolder(root), to, now=lambda: 0.0, sleep=lambda _: None)
    assert not [file for version in bad for file in to.rglob(f"{version}.zip")]
    assert inspect(weir, to, "--deep")[1]["findings"] == []
    for version in bad:
        (root / f"state/0/0/{version}.zip").unlink()
    assert inspect(weir, root)[0] == 0


@pytest.mark.parametrize("gone", [3, 6])
def test_a_bad_snapshot_without_the_changes_since(weir, tmp_path, gone):
    root = with_changelogs(tmp_path / "ck", 6, [2, 5])
    (root / f"state/0/0/{gone}.changelog").unlink()
    damage_snapshot(root, "a named file is gone", 5)
    code, report = inspect(weir, root)
    assert code == 1
    assert set(errors(report)) == {"state_incomplete"}
    assert "5.zip names" in " ".join(one["evidence"] for one in report["findings"])
    with pytest.raises(CheckpointError, match="no whole copy"):
        take_savepoint(LocalFolder(root), tmp_path / "to", now=lambda: 0.0, sleep=lambda _: None)


@pytest.mark.parametrize(("versions", "fails"), [(500, False), (501, True)])
def test_spark_replays_no_more_than_so_many_changes_instead(weir, tmp_path, versions, fails):
    root = with_changelogs(tmp_path / "ck", versions, [versions - 1])
    damage_snapshot(root, "empty", versions - 1)
    code, report = inspect(weir, root)
    assert code == (1 if fails else 0)
    assert ("state_incomplete" in errors(report)) is fails


def test_a_bad_snapshot_of_the_hdfs_store(weir, tmp_path):
    root = checkpoint(tmp_path, committed=4, opened=False)
    write(root, "state/0/1/4.snapshot", b"")
    code, report = inspect(weir, root, "--deep")
    assert (code, errors(report)) == (1, ["state_incomplete"])
    assert "move state/0/1/4.snapshot aside" in report["findings"][0]["remedy"]
    (root / "state/0/1/4.snapshot").unlink()
    assert inspect(weir, root)[0] == 0


def test_removed_commits_are_told_from_asynchronous_progress(weir, tmp_path):
    root = checkpoint(tmp_path, committed=5)
    (root / "commits/4").unlink()
    (root / "commits/3").unlink()
    code, report = inspect(weir, root)
    assert code == 1
    assert "offsets_without_commits" in errors(report)
    # Asynchronous progress leaves holes in both logs.
    (root / "offsets/1").unlink()
    (root / "commits/1").unlink()
    _, report = inspect(weir, root)
    assert "offsets_without_commits" not in errors(report)


def test_a_log_that_reads_whole_against_its_checksums_is_a_warning(weir, tmp_path):
    """As after a change by hand: Spark compares none and starts with what it says."""
    root = checkpoint(tmp_path)
    (root / "offsets/3").write_text(offsets(3).replace('"logOffset":3', '"logOffset":2'))
    code, report = inspect(weir, root)
    assert (code, report["sound"], errors(report)) == (0, True, [])
    (finding,) = (one for one in report["findings"] if one["check"] == "file_damaged")
    assert finding["severity"] == "warning"
    assert "offsets/.3.crc" in finding["remedy"]
    (root / "offsets/3").write_text(offsets(3)[:-9])
    code, report = inspect(weir, root)
    assert (code, "log_unreadable" in errors(report)) == (1, True)


def test_damaged_state_needs_a_deep_look(weir, tmp_path):
    root = checkpoint(tmp_path)
    (root / "state/0/0/2.delta").write_bytes(b"delta X")
    assert inspect(weir, root)[0] == 0
    code, report = inspect(weir, root, "--deep")
    assert code == 1
    assert "state/0/0/2.delta" in report["reason"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (file_entry(1)[:-9].encode(), "not JSON"),
        (b"v2\n", "not v1"),
        (b"v1\n\xff", "not text"),
    ],
)
def test_an_entry_of_a_sources_log_that_cannot_be_read(weir, tmp_path, data, says):
    """Spark reads every entry at a start; on a store that Hadoop sums nothing on, no sum tells."""
    root = checkpoint(tmp_path / "ck")
    (root / "sources/0/.1.crc").unlink()
    write(root, "sources/0/1", data, checksum=False)
    code, report = inspect(weir, root, "--deep")
    assert (code, errors(report)) == (1, ["file_damaged"])
    assert report["reason"].startswith("sources/0/1: ")
    assert says in report["reason"]
    # Only what is empty is seen without reading it.
    assert errors(inspect(weir, root)[1]) == ([] if data else ["file_damaged"])
    with pytest.raises(CheckpointError, match="sources/0/1"):
        take_savepoint(LocalFolder(root), tmp_path / "to", now=lambda: 0.0, sleep=lambda _: None)
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "truncated"),
        ("v1\n{}", "truncated"),
        ('v1\n{"batchWatermarkMs":', "truncated"),
        ("v9\n{}\n{}", "newer than Weir knows"),
        ("hello", "not a version"),
        ("v1\n{}\nnonsense", "no JSON"),
        ("v1\n" + "[" * 100_000, "not JSON"),
    ],
)
def test_offsets_that_cannot_be_read(weir, tmp_path, text, says):
    root = checkpoint(tmp_path)
    write(root, "offsets/3", text)
    code, report = inspect(weir, root)
    assert code == 1
    assert says in report["reason"]


def test_log_version_2_names_its_sources_in_no_order():
    kafka = '{"orders":{"0":7}}'
    read = parse_offset_log(
        2, f'v2\n{{"batchWatermarkMs":5}}\n1:{kafka}\n10:-\n0:{{"logOffset":2}}'
    )
    assert read.names == ["0", "1", "10"]
    assert read.sources == [{"logOffset": 2}, {"orders": {"0": 7}}, None]
    assert read.watermark_ms == 5
    named = parse_offset_log(2, f"v2\n{{}}\norders:{kafka}\n123:-\nclicks:3")
    assert named.names == ["123", "clicks", "orders"]
    assert named.sources == [None, 3, {"orders": {"0": 7}}]


def test_sources_with_names_of_their_own_are_told_apart_by_them(weir, tmp_path):
    """Spark 4.2 with source evolution: their logs lie under their names; one came, one went."""
    root = checkpoint(tmp_path / "ck")
    (root / "sources/0").rename(root / "sources/orders")
    for batch in range(4):
        other = "gone:7" if batch < 3 else "came:8"
        head = offsets(batch).split("\n")[1]
        text = f'v2\n{head}\norders:{{"logOffset":{batch}}}\n{other}'
        write(root, f"offsets/{batch}", text)
    code, report = inspect(weir, root)
    assert code == 0, report["findings"]
    assert [(one["kind"], one["log_end"]) for one in report["sources"]] == [
        ("numbered", None),
        ("file", 3),
    ]
    assert report["sources"][1]["open_batch_takes"] == 1
    (root / "sources/orders/1").unlink()
    code, report = inspect(weir, root)
    assert errors(report) == ["source_log_incomplete"]
    assert report["reason"].startswith("sources/orders: ")


@pytest.mark.parametrize(("partitions", "metadata"), [(1, 2), (3, 2), (3, 3)])
def test_a_state_given_other_partitions_offline(weir, tmp_path, partitions, metadata):
    """Spark 4.2: a batch without input, of other settings, with snapshots of all partitions.

    The operator's metadata of version 1 keeps the old number.
    """
    root = checkpoint(tmp_path / "ck", opened=False)
    write(root, "offsets/3", offsets(2, partitions=partitions))
    write(root, "commits/3", 'v1\n{"nextBatchWatermarkMs":0}')
    for partition in range(partitions):
        write(root, f"state/0/{partition}/4.snapshot", b"snapshot")
    path = root / "state/0/_metadata/metadata"
    text = path.read_text().replace('"numPartitions": 2', f'"numPartitions": {metadata}')
    write(root, "state/0/_metadata/metadata", text)
    code, report = inspect(weir, root)
    assert code == 0, report["findings"]
    assert report["state"]["operators"][0]["partitions"] == partitions
    assert report["state"]["partitions"] == partitions
    assert weir("savepoint", root, tmp_path / "to")[0] == 0
    assert not (tmp_path / f"to/state/0/{partitions}").exists()
    (root / f"state/0/{partitions - 1}/4.snapshot").unlink()
    code, report = inspect(weir, root)
    assert errors(report) == ["state_incomplete"]


@pytest.mark.parametrize("state", ["all", "some", "none"])
def test_offsets_that_were_removed_after_their_batch_left_state(weir, tmp_path, state):
    """A start would plan other rows beside that state; none does where nothing of it is there."""
    root = checkpoint(tmp_path, state=state)
    for name in ("3", ".3.crc"):
        (root / "offsets" / name).unlink()
    code, report = inspect(weir, root)
    assert errors(report) == ([] if state == "none" else ["state_without_offsets"])
    assert code == (0 if state == "none" else 1)
    if state == "none":
        return
    [found] = [one for one in report["findings"] if one["severity"] == "error"]
    assert "state of batch 3 is there, its offsets are not" in found["evidence"]
    assert "weir rescue" in found["remedy"]
    assert "put offsets/3 back" in found["remedy"]
    # A batch that was planned and run while the folders were listed, the state last.
    write(root, "offsets/3", offsets(3), checksum=False)
    listed = LocalFolder.files
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            LocalFolder, "files", lambda *of: (f for f in listed(*of) if f.path != "offsets/3")
        )
        assert errors(inspect(weir, root)[1]) == []
    (root / "offsets/3").unlink()
    # Under asynchronous progress tracking offsets are not written at every batch.
    for log in ("offsets", "commits"):
        for name in ("1", ".1.crc"):
            (root / log / name).unlink()
    assert errors(inspect(weir, root)[1]) == []


@pytest.mark.parametrize(
    ("planned", "written", "committed", "says"),
    [
        (20, 23, 24, "error"),  # micro-batches, of any format: offsets first
        (23.5, 23, 24, None),  # real-time mode: offsets last
        (20, 20, 20, "warning"),  # a copy, or a store that keeps whole seconds
        (20, 23, 21, "warning"),  # a copy, folder by folder
        (0, 0, 0, "warning"),  # a store that tells none
    ],
)
def test_removed_offsets_of_state_with_ids_are_told_by_when_the_batch_before_was_written(
    weir, tmp_path, planned, written, committed, says
):
    root = checkpoint(tmp_path)
    times = [("offsets/2", planned), ("commits/2", committed)]
    for path in [*root.glob("state/0/*/*.delta"), *root.glob("state/0/*/*.snapshot")]:
        named = path.rename(path.with_stem(f"{path.stem}_0123-abcd"))
        times += [(named, written)] if named.name.startswith("3_") else []
    # What maintenance writes later tells nothing of when the batch ran.
    write(root, "state/0/0/3_0123-abcd.snapshot", b"snapshot")
    times.append(("state/0/0/3_0123-abcd.snapshot", 90))
    for path, age in times:
        os.utime(root / path, (OLD + age, OLD + age) if age else (0, 0))
    for name in ("3", ".3.crc"):
        (root / "offsets" / name).unlink()
    found = {one["check"]: one for one in inspect(weir, root)[1]["findings"]}
    told = found.get("state_without_offsets")
    assert (told and told["severity"]) == says
    if told:
        assert ("unless it ran in real-time mode" in told["evidence"]) == (says == "warning")
        assert "weir rescue" in told["remedy"]
    else:
        assert found["state_ahead"]["severity"] == "info"
        # No batch is open: there are no offsets to write it anew with.
        assert "open batch" not in found["state_ahead"]["evidence"]
        assert "same offsets" not in found["state_ahead"]["remedy"]


def test_leftovers_of_a_first_batch_that_was_never_planned(weir, tmp_path):
    write(tmp_path, "metadata", '{"id":"x"}')
    write(tmp_path, "offsets/.0.1234.tmp", "v1")
    code, report = inspect(weir, tmp_path)
    assert code == 1
    assert errors(report) == ["leftovers_at_start"]
    assert "Spark 4.1 and later refuse to begin" in report["findings"][0]["evidence"]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda root: root.mkdir(), "the folder is empty"),
        (lambda root: write(root, "notes.txt", "hello"), "not a checkpoint"),
        (lambda root: root.write_text("hello"), "not a folder"),
        (lambda root: None, "no such folder"),
    ],
)
def test_what_is_no_checkpoint_is_wrong_input(weir, tmp_path, make, says):
    root = tmp_path / "ck"
    make(root)
    before = tree(tmp_path)
    for command in (["checkpoint", "inspect"], ["checkpoint", "audit"], ["rescue"]):
        code, out, err = weir(*command, root)
        assert code == 2
        assert out == ""
        assert says in err
        assert err.count("\n") == 1
    code, _, err = weir("savepoint", root, tmp_path / "to")
    assert code == 2
    assert says in err
    assert tree(tmp_path) == before


ORDERS = '{"orders":{"0":%d}}'
TABLE = '{"reservoirId":"t","reservoirVersion":%d,"index":-1,"isStartingVersion":false}'
FILES = '{"logOffset":%d}'
ICEBERG = '{"version":1,"snapshot_id":%d,"position":0,"scan_all_files":false}'


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize(
    ("lines", "folders", "kinds"),
    [
        ([FILES, FILES], "f", ["file"]),
        ([ORDERS, ORDERS], "k", ["kafka"]),
        ([FILES, FILES, ORDERS], "fk", ["file", "kafka"]),
        ([FILES, ORDERS, FILES, ORDERS], "fk", ["file", "kafka"]),
        ([TABLE, TABLE, FILES], "-f", ["delta", "file"]),
        # Two streams, be their offsets equal or not: each has a folder, or needs none.
        ([FILES, FILES], "ff", ["file", "file"]),
        ([TABLE, TABLE, FILES], "--f", ["delta", "delta", "file"]),
        ([FILES, TABLE, TABLE], "f", ["file", "delta", "delta"]),
        ([FILES, FILES, ICEBERG], "fi", ["file", "iceberg"]),
        # Nothing was found there yet.
        (["-", "-", FILES], "-f", ["unknown", "file"]),
    ],
)
def test_a_stream_that_a_query_reads_twice_is_one_source(
    weir, tmp_path, version, lines, folders, kinds
):
    """Spark keeps one source with one folder, and its offset for each place in the plan."""
    root = checkpoint(tmp_path / "ck")
    logs = shutil.move(root / "sources/0", tmp_path / "files")
    for at, kind in enumerate(folders):
        if kind == "f":
            shutil.copytree(logs, root / f"sources/{at}")
        elif kind == "k":
            write(root, f"sources/{at}/0", 'v1\n{"orders":{"0":0}}')
        elif kind == "i":
            write(root, f"sources/{at}/offsets/0", ICEBERG % 1)
    for batch in range(4):
        head = offsets(batch).split("\n")[1]
        ends = [line % batch if "%" in line else line for line in lines]
        if version == "v2":
            ends = [f"{at}:{end}" for at, end in enumerate(ends)]
        write(root, f"offsets/{batch}", "\n".join([version, head, *ends]))
    code, report = inspect(weir, root, "--deep")
    assert (code, report["findings"][1:]) == (0, [])
    assert [source["kind"] for source in report["sources"]] == kinds
    assert len(report["restart"]["detail"].split(";")) == len(kinds)
    assert weir("savepoint", root, tmp_path / "to")[0] == 0
    assert weir("rescue", root, "--sink", "upsert", "--unchanged-seconds", "0")[0] == 0


@pytest.mark.parametrize(
    ("version", "lines", "folders", "kinds"),
    [
        ("v2", [f"1:{FILES}"], {"0": "f"}, ["file"]),
        ("v2", [f"1:{FILES}", f"2:{ORDERS}"], {"0": "f", "1": "k"}, ["file", "kafka"]),
        ("v2", [f"1:{ORDERS}", f"2:{FILES}"], {"0": "k", "1": "f"}, ["kafka", "file"]),
        ("v2", [f"1:{TABLE}", f"2:{FILES}"], {"1": "f"}, ["delta", "file"]),
        ("v1", [FILES], {"orders": "f"}, ["file"]),
        ("v1", [ORDERS, FILES], {"a": "f", "b": "k"}, ["kafka", "file"]),
        # Which of two folders is whose is not told: A, A, B and A, B, A are written alike.
        ("v2", [f"1:{FILES}", f"2:{FILES}"], {"0": "f", "1": "f"}, None),
        ("v1", [FILES, FILES], {"a": "f", "b": "f"}, None),
    ],
)
def test_folders_that_the_offsets_do_not_name_are_known_by_their_kind(
    weir, tmp_path, version, lines, folders, kinds
):
    """Seen on 4.2.0: a stream read twice stands in offsets of version 2 at its last place alone.

    With source evolution and version 1 folders have names that no line has.
    """
    root = checkpoint(tmp_path / "ck")
    logs = shutil.move(root / "sources/0", tmp_path / "files")
    for name, kind in folders.items():
        if kind == "f":
            shutil.copytree(logs, root / f"sources/{name}")
        else:
            write(root, f"sources/{name}/0", 'v1\n{"orders":{"0":0}}')
    for batch in range(4):
        head = offsets(batch).split("\n")[1]
        ends = [line % batch for line in lines]
        write(root, f"offsets/{batch}", "\n".join([version, head, *ends]))
    code, report = inspect(weir, root, "--deep")
    if kinds is None:
        assert "source_log_incomplete" in errors(report)
        return
    assert (code, report["findings"][1:]) == (0, [])
    assert [source["kind"] for source in report["sources"]] == kinds
    assert weir("savepoint", root, tmp_path / "to")[0] == 0
    assert inspect(weir, tmp_path / "to", "--deep")[0] == 0
    code, out, _ = weir("rescue", root, "--sink", "upsert", "--unchanged-seconds", "0", "--json")
    assert code == 0
    file = next(name for name, kind in folders.items() if kind == "f")
    moves = {move["path"] for move in json.loads(out)["plan"]["moves"]}
    assert {path for path in moves if path.startswith("sources/")} == {
        f"sources/{file}/3",
        f"sources/{file}/.3.crc",
    }


def test_a_folder_that_is_gone_is_missed_where_its_offsets_were_its_own(weir, tmp_path):
    root = checkpoint(tmp_path)
    for batch in range(4):
        ends = [FILES % batch, FILES % (batch + 1)]
        write(root, f"offsets/{batch}", "\n".join([*offsets(batch).split("\n")[:2], *ends]))
    assert "source_log_incomplete" in errors(inspect(weir, root)[1])


def test_names_from_outside_cannot_drive_the_terminal(weir, tmp_path):
    root = checkpoint(tmp_path)
    write(root, "metadata", json.dumps({"id": "\x1b[2Jevil[red]"}))
    code, out, _ = weir("checkpoint", "inspect", root)
    assert code == 0
    assert "\x1b" not in out
    assert "evil[red]" in out


def test_offsets_of_a_log_service_are_not_taken_for_kafka_s():
    """Alibaba's LogHub: project, store and shard, each with a time."""
    assert source_kind({"project#store": {"0": 1409569200}}) == "other"
    assert source_kind({"store": {"0": 1409569200}}) == "kafka"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_is_utf_8_in_every_locale(tmp_path, encoding):
    folder = checkpoint(tmp_path / "für")
    done = subprocess.run(
        [sys.executable, "-m", "agent.cli", "checkpoint", "inspect", folder, "--json"],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": encoding},
        check=False,
        timeout=60,
    )
    assert json.loads(done.stdout)["checkpoint"] == str(folder), done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("command", [("checkpoint", "inspect"), ("checkpoint", "audit")])
def test_a_locale_without_its_signs_takes_no_finding_away(tmp_path, encoding, command):
    """What is told of a checkpoint that is not sound has an arrow before what to do."""
    folder = checkpoint(tmp_path)
    (folder / "metadata").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "agent.cli", *command, folder],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": encoding},
        check=False,
        timeout=60,
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode == 1
    assert b"metadata" in done.stdout
    assert b"? " in done.stdout
