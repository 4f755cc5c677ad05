"""Real queries, killed at any moment: what a SIGKILL leaves on the disk, many times per driver.

A process that is stopped (SIGSTOP) and copied is on the disk exactly what it would be had it been
killed then. So one run of a query gives many kills; each is rescued and run to its end apart.
"""

import contextlib
import io
import json
import math
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil

from agent.checkpoint.folder import LocalFolder
from agent.checkpoint.layout import read_checkpoint
from agent.checkpoint.rescue_command import RescueOptions, rescue
from agent.checkpoint.soundness import open_batches
from tests.waiting import until

DRIVER = Path(__file__).with_name("driver.py")
STORES = ("hdfs", "rocksdb", "changelog", "changelog-v2")
#: Where a kill can hit, by what is on the disk then.
POINTS = ("between batches", "planning", "before state", "some state", "all state")
#: For a driver whose batches hold a few rows: these are not worth compiling for.
CHEAP = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_EPOCH = 1767225600


class Driver:
    """A Spark driver of its own process group, told what to run."""

    def __init__(self, log, python=sys.executable, settings=None):
        self._log = Path(log).open("ab")  # noqa: SIM115
        environment = {**os.environ, "PYSPARK_PYTHON": str(python), "PYTHONUNBUFFERED": "1"}
        environment.pop("SPARK_HOME", None)
        self.process = subprocess.Popen(
            [str(python), str(DRIVER), json.dumps(settings or {})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            text=True,
            env=environment,
        )
        self.version = self._answer()["version"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self, order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def ready(self):
        import select

        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def finish(self):
        return self._answer()

    def ask(self, order):
        self.start(order)
        return self._answer()

    def signal(self, number):
        os.killpg(self.process.pid, number)

    def freeze(self):
        """SIGSTOP, and waits until each thread stands still: told to, it goes on for a while."""
        self.signal(signal.SIGSTOP)
        until(lambda: not _at_work(self.process.pid), "every thread to stand still", every=0.001)

    def kill(self):
        """SIGKILL to the driver and its JVM, as a machine that dies would."""
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self._log.close()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the driver ended; see {self._log.name}")
        return json.loads(line)


def _at_work(group):
    """Threads of a process group that do not stand still, where ``/proc`` tells; else none."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):  # gone meanwhile
            if os.getpgid(process.pid) == group:
                found += [f"{thread} {state}" for thread, state in _threads(process)]
    return found


def _threads(process):
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        with contextlib.suppress(OSError):
            # proc(5): a name in brackets, which may hold any of them, and then the state.
            state = (thread / "stat").read_text().rpartition(") ")[2][:1]
            if state not in "TtZX" and not (state == "D" and _starts_one(process)):
                yield thread.name, state


def _starts_one(process):
    """Whether a thread waits for a program that it starts, and that is stopped before it runs.

    Until then it has the name of who starts it, and that thread cannot be stopped either.
    """
    return any(child.cmdline() == process.cmdline() for child in process.children())


def make_input(folder, files=24, rows=10):
    """Files in order of time; the right side of a join comes shuffled against the left."""
    chaos = random.Random(7)
    numbers = list(range(files * rows))
    other = numbers[:]
    for start in range(0, len(other), rows * 4):
        part = other[start : start + rows * 4]
        chaos.shuffle(part)
        other[start : start + rows * 4] = part
    for name, order in (("left", numbers), ("right", other)):
        (folder / name).mkdir(parents=True)
        for index in range(files):
            lines = [_row(number) for number in order[index * rows : (index + 1) * rows]]
            path = folder / name / f"{index:04d}.json"
            path.write_text("\n".join(lines))
            os.utime(path, (_EPOCH + index, _EPOCH + index))
    return folder


def fill_topics(broker, prefix, source, partitions=2):
    """The rows of an input folder as topics, in the same order."""
    for side in ("left", "right"):
        broker.create_topic(f"{prefix}-{side}", partitions)
        files = sorted((source / side).iterdir())
        rows = [row for file in files for row in file.read_text().splitlines()]
        broker.produce(f"{prefix}-{side}", rows)


def _row(number):
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(_EPOCH + number * 30))
    return json.dumps({"id": number, "k": number % 7, "v": number * 3, "t": moment})


def take_kills(driver, order, images, *, most, chaos, wanted=None, meanwhile=None):
    """Runs a query to its end, and keeps up to ``most`` kills of it; their folders.

    Half of the moments are drawn, half are when a file has just come or gone, so that short phases
    are hit too. ``wanted`` says of an image whether to keep it; else the next moment is drawn.
    ``meanwhile`` is called between kills, while the query runs.
    """
    checkpoint, sink = Path(order["checkpoint"]), Path(order["sink"])
    driver.start({"run": order})
    taken, drawn = [], 0
    while not driver.ready():
        time.sleep(chaos.uniform(0.0, 0.1))
        if not (checkpoint / "metadata").exists():
            continue
        if meanwhile is not None:
            meanwhile()
        if len(taken) >= most:
            continue
        if chaos.random() < 0.5:
            _await_change(checkpoint, seconds=0.5)
        image = images / f"kill-{drawn}"
        drawn += 1
        driver.freeze()
        try:
            image.mkdir(parents=True)
            shutil.copytree(checkpoint, image / "ck")
            for file in sink.parent.glob(sink.name + "*"):
                shutil.copy2(file, image / file.name)
        finally:
            driver.signal(signal.SIGCONT)
        if wanted is None or wanted(image):
            taken.append(image)
        else:
            shutil.rmtree(image)
    answer = driver.finish()
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return taken


def _await_change(checkpoint, *, seconds):
    folders = [checkpoint / "offsets", *checkpoint.glob("sources/*")]
    folders += [folder for folder in checkpoint.glob("state/*/*") if folder.is_dir()]
    before = [_changed(folder) for folder in folders]
    until = time.monotonic() + seconds
    while time.monotonic() < until and [_changed(folder) for folder in folders] == before:
        pass


def _changed(folder):
    try:
        return folder.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def point_of(checkpoint_folder):
    """Where the kill hit."""
    checkpoint = read_checkpoint(LocalFolder(Path(checkpoint_folder)))
    base = checkpoint.layout.latest_commit
    opened = open_batches(checkpoint)
    ahead = {
        key
        for key, files in checkpoint.layout.state.items()
        if any(file.version > base + 1 for file in files)
    }
    if not opened:
        planned = checkpoint.offsets.get(base)
        for source in checkpoint.sources:
            end = (planned.sources[source.index] or {}).get("logOffset", -1) if planned else -1
            if source.kind == "file" and source.log_end is not None and source.log_end > end:
                return "planning"
        return "between batches"
    if not ahead:
        return "before state"
    known = {key for key, files in checkpoint.layout.state.items() if files}
    return "all state" if ahead == known else "some state"


def roll_back(sink, last_batch):
    """Makes the appended rows end at a batch, as a sink that is rolled back does."""
    database = sqlite3.connect(sink)
    with database:
        database.execute("create table if not exists appended (batch, key, value)")
        database.execute("delete from appended where batch > ?", (last_batch,))
    database.close()


def contents(sink, operator):
    """What the sink holds: rows by key, and every appended row where rows come once."""
    database = sqlite3.connect(sink)
    upserted = dict(database.execute("select key, value from upserted"))
    if operator in ("aggregation", "transform"):
        appended = dict(database.execute("select key, value from appended order by batch"))
    else:
        appended = sorted(database.execute("select key, value from appended"))
    database.close()
    return upserted, appended


def make_order(base, source, operator, store, *, limit, name="run"):
    """A query of its own folder below ``base``."""
    folder = base / name
    folder.mkdir(parents=True)
    return {
        "input": str(source),
        "operator": operator,
        "store": store,
        "limit": limit,
        "checkpoint": str(folder / "ck"),
        "sink": str(folder / "sink.db"),
    }


def fairly(most):
    """Keeps kills of every point, few of them where nothing is open or nothing was committed."""
    seen = Counter()
    share = math.ceil(most / (len(POINTS) - 1))

    def wanted(image):
        checkpoint = read_checkpoint(LocalFolder(image / "ck"))
        point, first = point_of(image / "ck"), checkpoint.layout.latest_commit < 0
        room = 1 if point == "between batches" or first else share
        if seen[point, first] >= room:
            return False
        seen[point, first] += 1
        return True

    return wanted


def rescue_quietly(folder, **options):
    """``weir rescue`` in this process: its code and its report."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = rescue(str(folder), RescueOptions(as_json=True, unchanged_seconds=0, **options))
    return code, json.loads(out.getvalue())


def finish_rescued(driver, order, image, truth, *, limit):
    """Rescues a kill, restarts it to its end; what is wrong with the result, or ""."""
    base = read_checkpoint(LocalFolder(image / "ck")).layout.latest_commit
    code, report = rescue_quietly(image / "ck", apply=True, sink="upsert")
    if code != 0:
        return f"refused: {report['plan']['refusals']}"
    roll_back(image / "sink.db", base)
    return finish(driver, order, image, truth, limit=limit)


def finish(driver, order, image, truth, *, limit):
    """Restarts a query on ``image`` to its end; what is wrong with the result, or ""."""
    again = {
        **order,
        "checkpoint": str(image / "ck"),
        "sink": str(image / "sink.db"),
        "limit": limit,
    }
    answer = driver.ask({"run": again})
    if "error" in answer:
        return answer["error"]
    upserted, appended = contents(image / "sink.db", order["operator"])
    if upserted != truth[0]:
        return f"rows by key differ: {_differing(truth[0], upserted)}"
    if appended != truth[1]:
        return f"appended rows differ: {len(appended)} instead of {len(truth[1])}"
    return ""


def _differing(truth, seen):
    keys = [key for key in {*truth, *seen} if truth.get(key) != seen.get(key)]
    return {key: (truth.get(key), seen.get(key)) for key in sorted(keys)[:3]}
