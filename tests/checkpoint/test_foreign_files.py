"""What somebody else put into a checkpoint: journals that lead out of it, FIFOs, endless files."""

import json
import os
import socket
import zipfile
import zlib

import pytest

from agent.checkpoint import layout
from agent.checkpoint.closure import snapshot_contents
from agent.checkpoint.folder import MOST_BYTES, LocalFolder
from agent.checkpoint.journal import MOST_JOURNAL_BYTES
from agent.checkpoint.layout import MOST_ENTRY_BYTES, classify, read_checkpoint
from agent.checkpoint.soundness import checksums_match, judge
from agent.files import open_regular, read_regular
from tests.checkpoint.build import OLD, checkpoint, file_entry, offsets, tree, write
from tests.checkpoint.test_bad_input import weir  # noqa: F401 - a fixture

pytestmark = pytest.mark.timeout(60)


def journal(root, *paths, group="offsets"):
    """A rescue that somebody else wrote; what it names lies aside."""
    rescue = root / ".weir-rescue-20260101T000000Z"
    (rescue / "files").mkdir(parents=True, exist_ok=True)
    moves = [
        {"path": path, "size": 1, "modified": 1.0, "group": group, "folder": False}
        for path in paths
    ]
    told = {"weir_rescue": 1, "created": "x", "query_id": None, "base_batch": -1, "open_batch": 0}
    (rescue / "journal").write_text(json.dumps(told | {"moves": moves}))
    return rescue / "files"


OUTSIDE = ("../victim", "/tmp/victim", "offsets/../../victim", "./victim", "offsets//7", "")
NOT_OURS = ("metadata", ".weir-rescue-20260101T000000Z/journal", "notes", "offsets/7\0")


@pytest.mark.parametrize("path", [*OUTSIDE, *NOT_OURS])
@pytest.mark.parametrize("action", ["--undo", "--apply"])
def test_a_journal_moves_nothing_that_no_rescue_moves(weir, tmp_path, path, action):  # noqa: F811
    root = checkpoint(tmp_path / "ck")
    aside = journal(root, path)
    (aside / "../victim").write_text("evil")
    before = tree(tmp_path)
    words = ["rescue", root, action, "--unchanged-seconds", "0", "--sink", "upsert"]
    code, out, err = weir(*words)
    assert (code, out) == (2, "")
    assert "which no rescue moves; nothing was moved" in err
    assert err.count("\n") == 1
    assert tree(tmp_path) == before


@pytest.mark.parametrize("link", ["offsets", "files/offsets", "files", "itself"])
def test_a_journal_moves_nothing_through_a_link(weir, tmp_path, link):  # noqa: F811
    root, outside = checkpoint(tmp_path / "ck", committed=0, opened=False), tmp_path / "outside"
    outside.mkdir()
    aside = journal(root, "offsets/7")
    if link == "offsets":
        (root / "offsets").symlink_to(outside)
        write(aside, "offsets/7", "evil")
    elif link == "files/offsets":
        write(outside, "7", "theirs")
        (aside / "offsets").symlink_to(outside)
    elif link == "files":
        write(outside, "offsets/7", "theirs")
        aside.rmdir()
        aside.symlink_to(outside)
    else:
        write(outside, "files/offsets/7", "theirs")
        aside.parent.rename(outside / "its")
        aside.parent.symlink_to(outside / "its")
    before = tree(tmp_path)
    code, out, err = weir("rescue", root, "--undo", "--unchanged-seconds", "0")
    assert (code, out) == (2, "")
    assert "link" in err or "not a folder" in err
    assert tree(tmp_path) == before


def test_a_rescue_is_not_made_through_a_link(weir, tmp_path):  # noqa: F811
    root = checkpoint(tmp_path / "ck")
    (root / "state").rename(tmp_path / "state")
    (root / "state").symlink_to(tmp_path / "state")
    before = tree(tmp_path)
    code, _, err = weir("rescue", root, "--apply", "--sink", "upsert", "--unchanged-seconds", "0")
    assert code == 2
    assert "a rescue moves nothing through it" in err
    assert tree(tmp_path) == before


def test_a_savepoint_empties_no_folder_but_its_own(weir, tmp_path):  # noqa: F811
    root, home = checkpoint(tmp_path / "ck"), tmp_path / "home"
    write(home, "letters", "dear")
    (tmp_path / ".weir-savepoint-to").symlink_to(home)
    before = tree(home)
    code, _, err = weir("savepoint", root, tmp_path / "to")
    assert code == 2
    assert "not a folder of weir savepoint's" in err
    assert tree(home) == before


def test_a_savepoint_is_never_taken_into_its_checkpoint(weir, tmp_path):  # noqa: F811
    root = checkpoint(tmp_path / "ck")
    (tmp_path / "link").symlink_to(root)
    for to in (root / "to", tmp_path / "link" / "to", root / ".." / "ck" / "to"):
        code, _, err = weir("savepoint", root, to)
        assert code == 2
        assert "lies inside the checkpoint itself" in err


def a_fifo(path):
    os.mkfifo(path)


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as one:
        os.chdir(path.parent)  # a socket's address is short
        one.bind(path.name)


def endless(path):
    path.symlink_to("/dev/zero")


def huge(path):
    path.touch()
    os.truncate(path, 3 << 30)


@pytest.mark.parametrize("make", [a_fifo, a_socket, endless, huge])
@pytest.mark.parametrize(
    "name", ["metadata", "offsets/3", "offsets/1", "commits/2", "state/0/_metadata/metadata"]
)
def test_what_is_no_log_is_said_and_not_read(weir, tmp_path, monkeypatch, make, name):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    root = checkpoint(tmp_path / "ck")
    (root / name).unlink()
    make(root / name)
    for words in (("checkpoint", "inspect"), ("checkpoint", "audit"), ("rescue",)):
        code, out, _ = weir(*words, root)
        assert code == (0 if name == "offsets/1" and words[-1] == "inspect" else 1)
        flat = " ".join(out.split())
        assert f"{name}: " in flat
        assert "not a regular file" in flat or "larger than the" in flat
    if name not in ("offsets/3", "offsets/1"):  # those are not of the newest commit
        code, _, err = weir("savepoint", root, tmp_path / "to")
        assert code == 2, err


@pytest.mark.parametrize("make", [a_fifo, endless, huge])
@pytest.mark.parametrize("name", ["journal", "sources/0/3.compact", "sources/0/.2.crc"])
def test_nothing_else_waits_or_fills_the_memory(weir, tmp_path, make, name):  # noqa: F811
    root = checkpoint(tmp_path / "ck")
    path = journal(root).parent / "journal" if name == "journal" else root / name
    path.unlink(missing_ok=True)
    make(path)
    for words in (("checkpoint", "inspect"), ("rescue", "--undo", "--unchanged-seconds", "0")):
        code, out, err = (
            weir(*words[:2], root, *words[2:])
            if words[0] == "checkpoint"
            else weir(words[0], root, *words[1:])
        )
        assert code in (0, 1, 2)
        assert out or err


def test_an_entry_is_read_up_to_its_bound(tmp_path):
    root = checkpoint(tmp_path / "ck")
    text = offsets(3)
    for size, readable in ((MOST_ENTRY_BYTES, True), (MOST_ENTRY_BYTES + 1, False)):
        write(root, "offsets/3", text + " " * (size - len(text)), checksum=False)
        (root / "offsets/.3.crc").unlink(missing_ok=True)
        seen = read_checkpoint(LocalFolder(root))
        assert (3 in seen.offsets) is readable
    assert MOST_ENTRY_BYTES == 40 * 400_000 // 2**20 * 2**20 + 2**20  # ids of 400,000 stores


def test_history_is_read_as_far_as_it_fits(tmp_path, monkeypatch):
    root = checkpoint(tmp_path / "ck", committed=9)
    size = (root / "offsets/3").stat().st_size
    monkeypatch.setattr(layout, "MOST_HISTORY_BYTES", 5 * size)
    assert sorted(read_checkpoint(LocalFolder(root)).offsets) == [5, 6, 7, 8, 9]
    monkeypatch.setattr(layout, "MOST_HISTORY_BYTES", 0)
    assert sorted(read_checkpoint(LocalFolder(root)).offsets) == [7, 8, 9]


def test_a_snapshots_list_is_bounded_however_well_it_is_packed(tmp_path):
    path = tmp_path / "state/0/0/4.zip"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata", b" " * (MOST_BYTES + 1))
    (stored,) = classify(LocalFolder(tmp_path).files()).state.values()
    named, problem = snapshot_contents(LocalFolder(tmp_path), stored[0])
    assert named == []
    assert "larger than the" in problem


def test_links_among_folders_have_an_end(tmp_path):
    root = checkpoint(tmp_path / "ck")
    count = len(list(LocalFolder(root).files()))
    for number in range(12):
        (root / f"state/up-{number}").symlink_to(root)
    (root / "round").symlink_to(root / "round")
    (root / "elsewhere").symlink_to(tmp_path / "ck2")
    write(tmp_path / "ck2", "file", "x", checksum=False)
    listed = [file.path for file in LocalFolder(root).files()]
    assert len(listed) == count + 1
    assert "elsewhere/file" in listed
    assert judge(read_checkpoint(LocalFolder(root)), LocalFolder(root)).sound


def test_checksums_of_a_file_that_fits_no_memory(tmp_path):
    """Block by block, whatever the span of a sum, with the very result of Hadoop's."""
    data = os.urandom(3 * 512 + 100)
    for span in (1, 7, 512, 1024, 1 << 30):
        sums = [zlib.crc32(data[at : at + span]) for at in range(0, len(data), span)]
        packed = b"crc\0" + span.to_bytes(4, "big") + b"".join(s.to_bytes(4, "big") for s in sums)
        (tmp_path / "data").write_bytes(data)
        for wrong in (packed[:-4], packed + b"\0\0\0\0", packed[:-1] + b"\xff" + b""):
            with (tmp_path / "data").open("rb") as file:
                assert not checksums_match(file, wrong) or wrong == packed
        with (tmp_path / "data").open("rb") as file:
            assert checksums_match(file, packed)


def test_a_file_is_opened_only_if_it_is_one(tmp_path):
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "fifo")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"text"
    assert read_regular(tmp_path / "file", 4) == b"text"
    with pytest.raises(OSError, match="larger than the 3 bytes"):
        read_regular(tmp_path / "file", 3)
    for name, said in (("fifo", "a FIFO"), (".", "a folder"), ("/dev/null", "a device")):
        with pytest.raises(OSError, match=f"{said}, not a regular file"):
            open_regular(tmp_path / name)


def test_one_that_becomes_a_fifo_at_the_last_moment(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("text")
    stat = os.stat

    def swapped(*arguments, **options):
        seen = stat(*arguments, **options)
        path.unlink()
        os.mkfifo(path)
        return seen

    monkeypatch.setattr(os, "stat", swapped)
    with pytest.raises(OSError, match="a FIFO, not a regular file"):
        open_regular(path)


def test_a_journal_of_many_moves_is_read(weir, tmp_path):  # noqa: F811
    """A long one is; one that no rescue could have written is refused before it is in memory."""
    root = checkpoint(tmp_path / "ck", opened=False)
    paths = [f"state/0/{number % 200}/{'0' * 60}{number}.delta" for number in range(20_000)]
    aside = journal(root, *paths, group="state")
    write(aside, paths[0], "x", checksum=False)
    size = (root / ".weir-rescue-20260101T000000Z/journal").stat().st_size
    assert MOST_JOURNAL_BYTES > 400_000 * 150 > MOST_JOURNAL_BYTES / 2
    assert size < MOST_JOURNAL_BYTES
    code, out, _ = weir("rescue", root, "--undo", "--unchanged-seconds", "0")
    assert (code, "rescue_gone_on" in out) == (1, True), "most of what it names is nowhere"
    os.truncate(root / ".weir-rescue-20260101T000000Z/journal", MOST_JOURNAL_BYTES + 1)
    code, _, _ = weir("rescue", root, "--undo", "--unchanged-seconds", "0")
    assert code == 2


def test_a_source_log_of_any_size_is_counted_line_by_line(tmp_path):
    root = checkpoint(tmp_path / "ck")
    write(root, "sources/0/3.compact", file_entry(3, count=50_000), age=OLD + 30)
    seen = read_checkpoint(LocalFolder(root))
    entries = list(layout.file_log_entries(LocalFolder(root), "sources/0/3.compact"))
    assert len(entries) == 50_000
    assert seen.sources[0].kind == "file"
    write(root, "sources/0/3.compact", "v1\n" + "x" * 100_000)
    with pytest.raises(ValueError, match="a line is longer than"):
        list(layout.file_log_entries(LocalFolder(root), "sources/0/3.compact"))
