"""Folders that are wrong in every way: a clear word, exit code 1 or 2, and nothing changed.

"Nothing" is names, bytes, modes and times of change of every file and folder. The commands run in
this process, so an error that is not said plainly would end a test.
"""

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from agent import cli
from tests.checkpoint.build import checkpoint, file_entry, offsets, write

pytestmark = pytest.mark.timeout(180)
READING = (("checkpoint", "inspect"), ("checkpoint", "audit"), ("rescue",))


def everything(root):
    """Every file and folder below: mode, time of change, bytes."""
    found = {}
    for path in [Path(root), *sorted(Path(root).rglob("*"))]:
        status = path.lstat()
        what = (
            path.read_bytes()
            if path.is_file()
            else str(path.readlink())
            if path.is_symlink()
            else None
        )
        found[str(path)] = (status.st_mode, status.st_mtime_ns, what)
    return found


@pytest.fixture
def weir(monkeypatch, capsys):
    """Runs the command: (code, standard output, standard error)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["weir", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capsys.readouterr()

    return run


def commands(root, to):
    """Every command that takes a checkpoint, those that change one too."""
    return [
        *((*words, root) for words in READING),
        ("checkpoint", "inspect", root, "--json", "--deep"),
        ("savepoint", root, to),
        ("rescue", root, "--apply", "--sink", "upsert", "--unchanged-seconds", "0"),
        ("rescue", root, "--undo", "--unchanged-seconds", "0"),
    ]


def nothing(root):
    root.mkdir()


def missing(root):
    pass


def a_file(root):
    root.write_text("hello")


def a_link_to_nowhere(root):
    root.symlink_to(root.parent / "nowhere")


def somebody_elses(root):
    write(root, "notes.txt", "hello")
    write(root, "deep/er/data.bin", b"\0\1")


def a_table(root):
    write(root, "_delta_log/00000000000000000000.json", "{}")
    write(root, "part-00000.parquet", b"PAR1")


def a_file_sink(root):
    write(root, "_spark_metadata/0", "v1\n{}")


def one_of_its_folders(root):
    write(root, "0", offsets(0))


@pytest.mark.parametrize(
    "make",
    [
        *(nothing, missing, a_file, a_link_to_nowhere),
        *(somebody_elses, a_table, a_file_sink, one_of_its_folders),
    ],
)
def test_what_is_no_checkpoint(weir, tmp_path, make):
    root = tmp_path / "ck"
    make(root)
    before = everything(tmp_path)
    for words in commands(root, tmp_path / "to"):
        code, out, err = weir(*words)
        assert code == 2, words
        assert out == "", words
        assert str(root) in err, words
        assert err.count("\n") == 1, words
    assert everything(tmp_path) == before


WHOLE = [
    "metadata",
    "offsets/3",
    "offsets/2",
    "commits/2",
    "sources/0/2",
    "sources/0/3",
    "state/0/_metadata/metadata",
    "state/0/0/2.delta",
]


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize(
    "left",
    [
        *("half", "noise"),
        *(
            pytest.param(left, marks=pytest.mark.slow("other ends of the same sweep"))
            for left in ("empty", "one byte", "all but one", "lines")
        ),
    ],
)
def test_any_file_truncated_or_foreign(weir, tmp_path, name, left):
    root = checkpoint(tmp_path / "ck")
    data = (root / name).read_bytes()
    data = {
        "empty": b"",
        "one byte": data[:1],
        "half": data[: len(data) // 2],
        "all but one": data[:-1],
        "noise": bytes(range(256)) * 3,
        "lines": b"v1\n" + b"\n" * 1000,
    }[left]
    (root / name).write_bytes(data)
    before = everything(tmp_path)
    for words in READING:
        code, out, err = weir(*words, root)
        assert code in (0, 1, 2), words
        assert out or err, words
    code, _, err = weir("savepoint", root, tmp_path / "to")
    if code == 0:  # what is damaged belongs to the open batch, which no savepoint holds
        assert name in ("offsets/3", "sources/0/3")
        shutil.rmtree(tmp_path / "to")
    else:
        assert err.startswith("weir: ")
    assert without_times_of_folders(everything(tmp_path)) == without_times_of_folders(before)
    # What a restart reads and cannot is never called sound, save where only --deep looks.
    code, _, _ = weir("checkpoint", "inspect", root, "--deep")
    assert code == 1, "damage of a file that a restart reads"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("offsets/3", 'v9\n{"batchWatermarkMs":0}\n{"logOffset":3}'),
        ("commits/2", 'v9\n{"nextBatchWatermarkMs":0}'),
        ("state/0/_metadata/metadata", 'v9\n{"operatorInfo":{}}'),
    ],
)
def test_a_newer_spark(weir, tmp_path, name, text):
    root = checkpoint(tmp_path / "ck")
    write(root, name, text)
    before = everything(tmp_path)
    code, out, _ = weir("checkpoint", "inspect", root, "--json")
    assert code == 1
    assert "newer than Weir knows" in out
    code, out, _ = weir("rescue", root, "--apply", "--sink", "upsert", "--unchanged-seconds", "0")
    assert code == 1
    assert "Refused" in out
    assert everything(tmp_path) == before


@contextlib.contextmanager
def a_query_at_work(root):
    """Batches come and go, about a hundred a second, and maintenance keeps the folder small."""
    ended = threading.Event()

    def work():
        batch = 4
        while not ended.wait(0.005):
            now = time.time()
            everything_so_far = "v1\n" + "\n".join(file_entry(batch).splitlines()[1:])
            write(root, f"sources/0/{batch}.compact", everything_so_far, age=now)
            write(root, f"offsets/{batch}", offsets(batch), age=now)
            for partition in (0, 1):
                write(root, f"state/0/{partition}/{batch + 1}.delta", b"x", age=now)
                write(root, f"state/0/{partition}/{batch + 1}.snapshot", b"x", age=now)
            write(root, f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}', age=now)
            old = batch - 6
            names = [f"offsets/{old}", f"commits/{old}", f"sources/0/{old}.compact"]
            names += [f"state/0/{p}/{old}.{kind}" for p in (0, 1) for kind in ("delta", "snapshot")]
            for path in map(root.joinpath, names):
                for file in (path, path.with_name(f".{path.name}.crc")):
                    file.unlink(missing_ok=True)
            batch += 1

    thread = threading.Thread(target=work)
    write(root, "commits/3", 'v1\n{"nextBatchWatermarkMs":0}')
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_being_written(weir, tmp_path):
    root = checkpoint(tmp_path / "ck")
    with a_query_at_work(root):
        for number in range(10):
            for words in (*READING, ("savepoint",)):
                to = [tmp_path / f"to-{number}"] if words == ("savepoint",) else []
                code, out, err = weir(*words, root, *to)
                assert code in (0, 1, 2), (words, err)
                assert out or err
            code, out, err = weir("rescue", root, "--apply", "--sink", "upsert")
            assert code in (0, 1), err
            assert not list(root.glob(".weir-rescue-*")), "a query that writes is never rescued"


def warm_up(weir, folder):
    """Runs every command once: what they import may lie where nobody may read."""
    for words in commands(checkpoint(folder / "ck"), folder / "to"):
        weir(*words)
    for words in commands(folder / "missing", folder / "to-2"):
        weir(*words)


@contextlib.contextmanager
def as_somebody_who_may_not_write(folder):
    """Folders and files without their write bits; root, whom bits do not hold, becomes nobody."""
    paths = [folder, *sorted(folder.rglob("*"))]
    modes = {path: path.stat().st_mode for path in paths}
    for path in paths:
        path.chmod(modes[path] & ~0o222 | (0o555 if path.is_dir() else 0o444))
    if os.geteuid() == 0:
        for above in folder.parents:
            if above.is_relative_to(tempfile.gettempdir()) and above != above.parent:
                above.chmod(above.stat().st_mode | 0o055)
        os.seteuid(65534)
    try:
        yield
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        for path in paths:
            path.chmod(modes[path])


def test_a_home_of_nobody(weir, tmp_path):
    for command in commands("~nobody-is-called-so/ck", tmp_path / "to"):
        code, _, err = weir(*command)
        assert code == 2
        assert "~nobody-is-called-so/ck: there is no such folder" in err


def test_read_only(weir, tmp_path):
    warm_up(weir, tmp_path / "warm")
    folder = tmp_path / "read-only"
    root = checkpoint(folder / "ck")
    before = everything(folder)
    with as_somebody_who_may_not_write(folder):
        assert weir("checkpoint", "inspect", root)[0] == 0
        assert weir("rescue", root, "--sink", "upsert")[0] == 0
        code, _, err = weir(
            "rescue", root, "--apply", "--sink", "upsert", "--unchanged-seconds", "0"
        )
        assert code == 2
        assert ".weir-lock: Permission denied" in err
        code, _, err = weir("savepoint", root, folder / "to")
        assert code == 2
        assert "Permission denied" in err
    assert everything(folder) == before


@pytest.mark.parametrize("closed", ["ck", "."])
def test_what_may_not_be_read(weir, tmp_path, closed):
    warm_up(weir, tmp_path / "warm")
    folder = tmp_path / "folder"
    root = checkpoint(folder / "ck")
    before = everything(folder)
    with as_somebody_who_may_not_write(folder):
        if os.getuid() == 0:
            os.seteuid(0)
        mode = (folder / closed).stat().st_mode
        (folder / closed).chmod(0)
        if os.getuid() == 0:
            os.seteuid(65534)
        for words in commands(root, folder / "to"):
            code, out, err = weir(*words)
            assert (code, out) == (2, ""), words
            assert str(root) in err
            assert "Permission denied" in err or "may not read it" in err
        if os.getuid() == 0:
            os.seteuid(0)
        (folder / closed).chmod(mode)
    assert everything(folder) == before


def full_disk_or_limit(tmp_path):
    """A folder on a disk of a megabyte where this user may mount one, else None."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() == 0 and mount is not None:
        done = subprocess.run([mount, *options], capture_output=True, check=False)
        if done.returncode == 0:
            return place
    return None


IN_CHILD = """
import resource, sys
if int(sys.argv[1]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
from agent import cli
sys.argv = ["weir", *sys.argv[2:]]
cli.main()
"""


def child(limit, *words):
    """The command in a process of its own, whose files may not grow beyond ``limit`` bytes."""
    return subprocess.run(
        [sys.executable, "-c", IN_CHILD, str(limit), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("limit", [1, 100, 400])
def test_no_room_for_a_file(tmp_path, limit):
    """By the limit on a file's size, which holds for every user: SIGXFSZ is ignored by Python."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    root = checkpoint(tmp_path / "ck")
    before = everything(tmp_path)
    for words in (
        ("savepoint", root, tmp_path / "to"),
        ("rescue", root, "--apply", "--sink", "upsert", "--unchanged-seconds", "0"),
    ):
        done = child(limit, *words)
        assert done.returncode == 2, done
        assert "too large" in done.stderr.lower()
        assert done.stderr.count("\n") == 1
        assert without_times_of_folders(everything(tmp_path)) == without_times_of_folders(before)


def test_a_full_disk(tmp_path):
    """A real one where this user may mount it; else the limit above stands for it."""
    place = full_disk_or_limit(tmp_path)
    if place is None:
        return test_no_room_for_a_file(tmp_path / "instead", 100)
    try:
        root = checkpoint(place / "ck")
        with (place / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:  # to the last byte
                filler.write(b"x" * 512)
        before = everything(place)
        for words in (
            ("savepoint", root, place / "to"),
            ("rescue", root, "--apply", "--sink", "upsert", "--unchanged-seconds", "0"),
        ):
            done = child(0, *words)
            assert done.returncode == 2, done
            assert "No space left" in done.stderr
            assert done.stderr.count("\n") == 1
            now = everything(place)
            assert without_times_of_folders(now) == without_times_of_folders(before)
        # Reading needs no room, and a savepoint elsewhere works.
        assert child(0, "checkpoint", "inspect", root).returncode == 0
        assert child(0, "savepoint", root, tmp_path / "elsewhere").returncode == 0
        (place / "filler").unlink()
        assert child(0, *words).returncode == 0, "with room again the rescue is made"
    finally:
        subprocess.run(["umount", str(place)], check=True)
    return None


def without_times_of_folders(seen):
    """A folder's time of change moves when something was made in it and removed again."""
    return {path: (mode, time if what else None, what) for path, (mode, time, what) in seen.items()}


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b", "a%41"])
@pytest.mark.parametrize("slashes", ["", "//"])
def test_an_address_is_taken_as_hadoop_writes_it(weir, tmp_path, name, slashes):
    """Nothing in it is quoted, and nothing in it is a query or a fragment."""
    root, other = checkpoint(tmp_path / name), checkpoint(tmp_path / "a")
    before = everything(other)
    address = f"file:{slashes}{root}"
    code, out, _ = weir("rescue", address, "--apply", "--sink", "upsert")
    assert code == 0
    assert f"{name}: batch 3 is to be" in " ".join(out.split())
    assert not (root / "offsets/3").exists()
    assert everything(other) == before


@pytest.mark.parametrize("there", [("a b", "a%20b"), ("a b",)])
def test_an_address_that_others_read_as_another_folder_is_refused(weir, tmp_path, there):
    """Some programs quote what Hadoop does not, and both folders may be there."""
    for name in there:
        checkpoint(tmp_path / name)
    before = everything(tmp_path)
    for words in commands(f"file:{tmp_path}/a%20b", tmp_path / "to"):
        code, out, err = weir(*words)
        assert (code, out) == (2, ""), words
        said = f"{tmp_path}/a b is there{' too' * (len(there) - 1)}: give the path, without file:"
        assert said in err, words
    assert everything(tmp_path) == before
    assert weir("checkpoint", "inspect", tmp_path / there[-1])[0] == 0
