"""Checkpoints that are not on a local file system, through fsspec; and large ones."""

import os
import pty
import sys
import time
import zipfile

import fsspec
import pytest
import typer
from fsspec.implementations.memory import MemoryFileSystem

from agent import cli
from agent.checkpoint.commands import inspect
from agent.checkpoint.folder import CheckpointError, LocalFolder, open_folder
from agent.checkpoint.layout import read_checkpoint
from agent.checkpoint.report import build_report
from agent.checkpoint.savepoint import take_savepoint
from agent.checkpoint.savepoint_command import savepoint
from agent.checkpoint.soundness import judge
from tests.checkpoint.build import checkpoint, tree


@pytest.fixture
def memory(tmp_path):
    """A checkpoint in memory, the same one on the disk, and the file system it is in."""
    root = checkpoint(tmp_path / "ck")
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    system.put(str(root), "/deep/ck", recursive=True)
    yield "memory://deep/ck", root, system
    system.store.clear()


def report(address):
    folder = open_folder(address)
    seen = read_checkpoint(folder)
    return build_report(seen, judge(seen, folder, deep=True))


def test_it_says_the_same_as_of_a_local_folder(memory):
    address, root, _ = memory
    there, here = report(address), report(str(root))
    assert there.sound
    for field in ("latest_offset", "latest_commit", "open_batches", "sources", "state", "files"):
        assert getattr(there, field) == getattr(here, field), field
    assert here.bytes == there.bytes


def test_an_address_as_hadoop_writes_it_where_there_is_no_authority(memory):
    address, _, _ = memory
    assert report("memory:/deep/ck").restart == report(address).restart


def test_damage_there_is_found(memory, capsys):
    address, _, system = memory
    system.rm("/deep/ck/state/0/1/2.delta")
    assert inspect(address, as_json=True, deep=False) == 1
    assert "state_incomplete" in capsys.readouterr().out


def test_inside_an_archive(tmp_path):
    root = checkpoint(tmp_path / "ck")
    with zipfile.ZipFile(tmp_path / "ck.zip", "w") as archive:
        for path in tree(tmp_path):
            if path.startswith("ck/"):
                archive.write(tmp_path / path, path)
    assert report(f"zip://ck::file://{tmp_path}/ck.zip").restart == report(str(root)).restart


def test_a_savepoint_of_it(memory, tmp_path, capsys):
    assert savepoint(memory[0], str(tmp_path / "sp"), rollback_sink=None, as_json=True) == 0
    capsys.readouterr()
    assert report(str(tmp_path / "sp")).restart.batch_id == 3


class Remembering(MemoryFileSystem):
    """Tells a folder as it was first listed, as drivers of object stores do."""

    protocol = "remembering"

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        if path not in self.dircache:
            self.dircache[path] = super().ls(path, detail=True, **kwargs)
        found = self.dircache[path]
        return found if detail else [entry["name"] for entry in found]

    def invalidate_cache(self, path=None):
        self.dircache.clear()

    def open(self, path, *args, **kwargs):
        path = self._strip_protocol(path)
        listed = self.dircache.get(path.rpartition("/")[0])
        if listed is not None and all(entry["name"] != path for entry in listed):
            raise FileNotFoundError(path)
        return super().open(path, *args, **kwargs)

    @classmethod
    def _strip_protocol(cls, path):
        return MemoryFileSystem._strip_protocol(path.removeprefix("remembering://"))


def test_what_was_listed_before_is_listed_anew(memory, tmp_path):
    fsspec.register_implementation("remembering", Remembering, clobber=True)
    _, _, system = memory
    folder = open_folder("remembering://deep/ck")

    def query_goes_on(step):
        if step == "copy state/0/1/2.delta" and not system.exists("/deep/ck/commits/3"):
            system.pipe("/deep/ck/commits/3", b"v1\n{}")
            for partition in (0, 1):
                for version in (1, 2, 3):
                    system.rm(f"/deep/ck/state/0/{partition}/{version}.delta")

    manifest = take_savepoint(
        folder, tmp_path / "sp", now=lambda: 0.0, sleep=lambda _: None, on_step=query_goes_on
    )
    assert manifest.batch_id == 3
    assert report(str(tmp_path / "sp")).restart.batch_id == 4


def test_what_came_since_its_folder_was_listed_is_opened(memory):
    fsspec.register_implementation("remembering", Remembering, clobber=True)
    _, _, system = memory
    folder = open_folder("remembering://deep/ck")
    list(folder.files())
    system.pipe("/deep/ck/offsets/9", b"v1\n")
    with folder.open("offsets/9") as file:
        assert file.read() == b"v1\n"
    with pytest.raises(FileNotFoundError):
        folder.open("offsets/10")


class Marked(MemoryFileSystem):
    """Keeps an empty object for each folder, as S3A does since Hadoop 3.4; told as s3fs does."""

    protocol = "marked"

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        found = super().ls(path, detail=True, **kwargs)
        if self.isdir(path):
            found = [{"name": f"{path}/", "size": 0, "type": "file"}, *found]
        return found if detail else [entry["name"] for entry in found]

    @classmethod
    def _strip_protocol(cls, path):
        return MemoryFileSystem._strip_protocol(path.removeprefix("marked://"))


def test_the_markers_of_folders_are_no_files(memory, tmp_path):
    fsspec.register_implementation("marked", Marked, clobber=True)
    address, root, _ = memory
    there = report("marked://deep/ck")
    assert there.sound
    assert there.files == report(address).files
    folder = open_folder("marked://deep/ck")
    take_savepoint(folder, tmp_path / "saved", now=time.time, sleep=time.sleep)
    assert report(str(tmp_path / "saved")).sound
    assert (tmp_path / "saved/state/0/_metadata/metadata").read_bytes() == (
        root / "state/0/_metadata/metadata"
    ).read_bytes()


def test_a_folder_that_cannot_be_listed_is_never_passed_over(memory, monkeypatch):
    address, _, system = memory
    listing = type(system).ls

    def ls(self, path, **kwargs):
        if path.endswith("/state/0/1"):
            raise TimeoutError("slow down")
        return listing(self, path, **kwargs)

    monkeypatch.setattr(type(system), "ls", ls)
    with pytest.raises(CheckpointError, match="slow down"):
        report(address)


def test_commits_are_listed_first_there_too(memory):
    seen = [entry.path.split("/")[0] for entry in open_folder(memory[0]).files()]
    order = list(dict.fromkeys(name for name in seen if "metadata" not in name))
    assert order == ["commits", "offsets", "sources", "state"]


def weir(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["weir", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("memory://nowhere", "no such folder"),
        ("memory://deep/ck/metadata", "not a checkpoint"),
        ("nonsense://bucket/ck", "nonsense"),
        ("s3://bucket/ck", "s3fs"),
        ("memory://deep/other", "not a checkpoint"),
    ],
)
def test_what_is_no_checkpoint_is_wrong_input(memory, monkeypatch, capsys, address, says):
    memory[2].pipe("/deep/other/notes.txt", b"hello")
    code, out, err = weir(monkeypatch, capsys, "checkpoint", "inspect", address)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_without_fsspec_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    code, out, err = weir(monkeypatch, capsys, "checkpoint", "inspect", "s3://bucket/ck")
    assert (code, out) == (2, "")
    assert "install fsspec" in err


def test_a_driver_that_fails_in_its_own_way(memory, monkeypatch):
    """Object stores raise errors of their own libraries, sometimes with the keys in them."""
    address, _, system = memory

    def refuse(*_, **__):
        raise RuntimeError("403 for s3://KEY:SECRET@bucket/ck")

    monkeypatch.setattr(type(system), "walk", refuse)
    with pytest.raises(CheckpointError, match="RuntimeError: 403 for s3://bucket/ck") as raised:
        report(address)
    assert "SECRET" not in str(raised.value)


def test_only_a_local_one_is_rescued(memory, monkeypatch, capsys):
    code, _, err = weir(monkeypatch, capsys, "rescue", memory[0], "--apply")
    assert code == 2
    assert "local or mounted" in err
    assert "copy the whole folder" in err
    assert "a savepoint leaves the open batch out" in err


@pytest.mark.slow("a hundred thousand files; a few are read every time")
def test_a_hundred_thousand_files_cost_each_as_much_as_ten_thousand(tmp_path):
    """As many as a query with many partitions leaves; empty files, so listing is what counts."""
    _, few = listed(tmp_path / "few", partitions=20)
    counts, many = listed(tmp_path / "many", partitions=200)
    assert len(counts) > 190
    assert counts[-1] > 99_000
    print(f"each of {counts[-1]} files: {many / few:.2f} of what each of a tenth costs")
    assert many < 2 * few


def listed(path, *, partitions):
    """How many files were counted by and by, and the seconds of processor time that each took."""
    root = checkpoint(path, partitions=1)
    for partition in range(1, partitions):
        folder = root / "state" / "0" / str(partition)
        folder.mkdir()
        for version in range(1, 500):
            os.close(os.open(folder / f"{version}.tmpdata", os.O_CREAT | os.O_WRONLY))
    counts = []
    began = time.process_time()
    seen = read_checkpoint(LocalFolder(root), counts.append)
    judge(seen, LocalFolder(root))
    spent = time.process_time() - began
    assert counts[-1] == seen.layout.count
    return counts, spent / seen.layout.count


def on_a_terminal(*words):
    """What a terminal shows of the command."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-m", "agent.cli", *map(str, words)])
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the child has closed its end
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return shown


def test_a_terminal_shows_how_far_it_is_unless_it_is_to_be_quiet(tmp_path):
    root = checkpoint(tmp_path / "ck")
    for number in range(3000):
        (root / "state" / f"extra-{number}").touch()
    shown = on_a_terminal("checkpoint", "inspect", root, "--json")
    assert b"files" in shown
    assert b"reading" in shown
    assert b"reading" not in on_a_terminal("checkpoint", "inspect", root, "--json", "--quiet")


def test_quiet_means_one_thing_with_every_command_that_has_it():
    found = {}
    for words, command in commands(typer.main.get_command(cli.app)):
        for option in command.params:
            if "--quiet" in option.opts:
                found[words] = (tuple(option.opts), option.is_flag, option.help)
    assert {"replay", "history", "rescue", "savepoint", "checkpoint inspect"} <= found.keys()
    assert len(set(found.values())) == 1, found


def commands(group, words=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), command
