"""Runs a workload once: broker and cluster stand; driver, executors and agent are new each time."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import random
import shutil
import statistics
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import psutil
import pyspark

from examples.demo import plan
from spark_listener import plugin
from tests.benchmarks.evidence import dspbench, job
from tests.benchmarks.evidence.figures import EXECUTORS, batches_of
from tests.benchmarks.evidence.load import (
    PARTITIONS,
    TOPIC_SETTINGS,
    Feeder,
    Packer,
    read_parcels,
    slice_of,
    ticks_of,
    write_parcels,
)
from tests.benchmarks.evidence.record import Record, of_event_log
from tests.benchmarks.evidence.workloads import QUERIES, TOPICS, generator_of
from tests.benchmarks.recorded import recordings
from tests.kafka.broker import Broker, connector
from tests.plugin.cluster import SPARK, Children, Job, start_cluster
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from tests.benchmarks.evidence.load import Parcels

#: A result is wanted so often: Weir's target, and what the rates follow from.
TARGET_SECONDS: Final = 5.0
#: The trace's mean, as a share of what batches of the target's length digest on this machine: a
#: burst then is more than can be digested, and what it leaves is worked off before the end.
LOAD: Final = 0.7
#: Before a run is measured, its query gets lumps, as shares of what a batch of the target's length
#: takes, each once the one before is done: so Java has compiled, and Weir has seen batches, as in
#: any query that has run for a while. Java compiles for some two minutes: after a third of these
#: lumps a batch still took up to three times as long as after all of them.
WARM_UP_LUMPS: Final = (0.02, 0.1, *10 * (0.3, 1.0))
#: To measure the machine: lumps that double until one takes the target, then shares of it. None of
#: them is small: a batch that finds its few rows long after the one before waits for Kafka's fetch,
#: and takes longer than one of ten times the rows.
FIRST_LUMP_ROWS: Final = 2_000
#: A cold Java's first batches take seconds whatever they hold; they say nothing of the machine.
COLD_LUMPS: Final = 4
#: Java compiles for minutes, and a cold one takes twice as long: lumps of the target's length come
#: again until one takes no less than this share of the one before, which is noise; or so many came.
WARM: Final = 0.9
#: Twice the rows take no less than this as long, where the fixed cost is half of a batch at most:
#: else the batch of these rows took so long for another reason.
DOUBLE: Final = 1.5
MOST_LUMPS: Final = 30
MEASURED_LUMPS: Final = (0.3, 1.0, 0.3, 1.0, 0.3, 1.0)
#: Then the query runs under a limit of what takes the target by these, and gets so many such
#: batches at once: one after the other they take less than lumps do, which wait for a trigger and
#: for Kafka's fetch, by 12 to 30 % here. That is what batches of a query take that is behind. As
#: many come before those that count: without them full batches of the runs took 4.4 s where 5 were
#: wanted (median of 8 pairs), as Java goes on compiling for as long.
FULL_BATCHES: Final = 8
#: A batch that takes its limit holds this share of it at least: partitions do not fill evenly.
FULL: Final = 0.95
#: In which part of a run its query is stopped and started again.
RESTART_BETWEEN: Final = (0.15, 0.85)
#: How long a driver, and an agent's way into it, may take on a machine that is very busy.
START_SECONDS: Final = 900.0
#: What is left of a short run may take as long as some batches on a busy machine.
LEAST_PATIENCE_SECONDS: Final = 120.0
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.executor.cores": "1",
    "spark.cores.max": str(EXECUTORS),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(EXECUTORS),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}


@dataclass(frozen=True)
class Run:
    """One run. ``rows`` arrive in ``seconds``, as the trace has it."""

    query: str
    trace: str
    arm: str
    seed: int
    seconds: float
    rows: int
    target_rows: int  # what a batch of the target's length takes
    limit_rows: int | None = None  # what the job configures
    settings: tuple[tuple[str, str], ...] = ()  # of Spark, beside those of every run
    agent: tuple[tuple[str, Any], ...] | None = None  # its configuration; None: there is none
    target_seconds: float = TARGET_SECONDS
    load: float = LOAD
    warm_up: float = round(sum(WARM_UP_LUMPS), 2)  # in batches of the target's length


def warm_up_lumps(target_rows: int) -> list[int]:
    """The rows of each lump of a warm-up, where a batch of the target's length takes so many."""
    return [max(round(share * target_rows), 1) for share in WARM_UP_LUMPS]


def corrected(capacity: plan.Capacity, rows: int, seconds: Sequence[float]) -> plan.Capacity:
    """The same fixed cost, and rows that make a batch of so many take what full ones took.

    Raises ValueError where there are none, or where they took no longer than an empty one.
    """
    if not seconds:
        raise ValueError("no batch took its limit: this machine could not be measured")
    took = statistics.median(seconds)
    if took <= capacity.fixed_seconds:
        raise ValueError(
            f"full batches took {took:.1f} s and empty ones {capacity.fixed_seconds:.1f} s: this "
            "machine is too busy to measure"
        )
    return plan.Capacity(capacity.fixed_seconds, rows / (took - capacity.fixed_seconds))


class BrokenError(Exception):
    """A run that came to no end; what is known of it."""


class World:
    """Broker and cluster in a folder, for one run after the other; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count(1)
        self._children = Children()
        self._broker = Broker(folder / "kafka")

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.callback(self._children.end)
            stack.enter_context(self._broker)
            self._master = start_cluster(self._children, self.folder, cores=1)
            self.cluster = [one.process.pid for one in self._children.running()]
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._children.end()
        self._broker.kill()

    def measure(self, query: str, target_seconds: float) -> plan.Capacity:
        """What a batch of a query takes here, up to the target. Raises BrokenError."""
        run = Run(query, "", "measure", 0, 0.0, 0, 0)
        with _Course(self, run, Packer(generator_of(query, 0).endless())) as course:
            for _ in range(COLD_LUMPS):
                course.lump(FIRST_LUMP_ROWS)
            lump = course.lump_of(target_seconds, FIRST_LUMP_ROWS)
            for part in warm_up_lumps(lump):
                course.lump(part)
            lump = course.lump_of(target_seconds, lump)
            begun = time.time()
            for share in MEASURED_LUMPS:
                course.lump(round(lump * share))
            course.stop()
            batches = batches_of(of_event_log(course.folder / "events")[0])
        found = [(one.rows, one.end - one.begin) for one in batches if one.begin > begun]
        try:
            by_lumps = plan.fit(found)
            return corrected(by_lumps, *self._full(query, by_lumps, target_seconds))
        except ValueError as error:
            raise BrokenError(f"{query}: {error}") from None

    def _full(
        self, query: str, capacity: plan.Capacity, target_seconds: float
    ) -> tuple[int, list[float]]:
        """The rows that take the target by what lumps told, and what full batches of them take.

        Raises ValueError where an empty batch takes the target, BrokenError.
        """
        rows = capacity.rows_in(target_seconds)
        if rows < 1:
            raise ValueError(f"an empty batch takes {capacity.fixed_seconds:.1f} s here")
        run = Run(query, "", "measure", 0, 0.0, 0, rows, limit_rows=rows)
        with _Course(self, run, Packer(generator_of(query, 0).endless())) as course:
            for lump in warm_up_lumps(rows):
                course.lump(lump)
            course.lump(FULL_BATCHES * rows)
            begun = time.time()
            course.lump(FULL_BATCHES * rows)
            course.stop()
            batches = batches_of(of_event_log(course.folder / "events")[0])
        return rows, [
            one.end - one.begin for one in batches if one.begin > begun and one.rows > FULL * rows
        ]

    def start(self, query: str, rows: int, count: int) -> list[dict[str, Any]]:
        """Spark's progress of the first batches of a new driver, each of so many rows.

        All that they read is there before the first of them. Raises BrokenError.
        """
        run = Run(query, "", "start", 0, 0.0, 0, rows, limit_rows=rows)
        parcel = Packer(generator_of(query, 0).endless())(count * rows)
        with _Course(self, run, lambda _: parcel) as course:
            course.lump(count * rows)
            course.stop()
            return of_event_log(course.folder / "events")[0]

    def run(self, run: Run) -> Record:
        """All of it. Raises BrokenError."""
        lumps = warm_up_lumps(run.target_rows)
        ticks = ticks_of(slice_of(recordings()[run.trace], run.seed), run.seconds, run.rows)
        rows = self.folder / f"rows-{run.query}-{run.trace}-{run.seed}-{run.seconds:g}-{run.rows}"
        if not rows.exists():
            for old in self.folder.glob("rows-*"):
                old.unlink()
            write_parcels(rows, generator_of(run.query, run.seed), lumps, ticks)
            os.sync()  # gigabytes, or the first way of a seed runs while they go to the disk
        now = machine_now()
        draw = random.Random(f"restart {run.trace} {run.seed}")
        restart_seconds = run.seconds * draw.uniform(*RESTART_BETWEEN)
        with _Course(self, run, read_parcels(rows)) as course:
            for lump in lumps:
                course.lump(lump)
            if run.agent is not None:
                course.agent_acts()
            worked, busy = course.cpu_seconds(), busy_seconds()
            begun = time.time()
            timer = threading.Timer(restart_seconds, course.restart)
            timer.start()
            try:
                course.feeder.bring(ticks, begun)
                fed = time.time()
                course.check()
                # As long again is more than all of it takes, where less comes than is digested.
                course.catch_up(patience=max(run.seconds, LEAST_PATIENCE_SECONDS))
                over = time.time()
            finally:
                timer.cancel()
            cores = {
                who: round((seconds - worked[who]) / (over - begun), 4)
                for who, seconds in course.cpu_seconds().items()
            }
            taken = (busy_seconds() - busy) / (over - begun)
            cores["other"] = round(max(taken - sum(cores.values()), 0.0), 4)
            told = course.stop()
            progress, executors = of_event_log(course.folder / "events")
            results = course.results()
            seen = course.seen
            feeder = course.feeder
        return Record(
            run=asdict(run) | {"restart_seconds": restart_seconds},
            machine=now,
            arrivals=feeder.arrivals,
            progress=progress,
            executors=executors,
            told=told,
            results=results,
            end={
                "begun": begun,
                "fed": fed,
                "over": over,
                "fed_late_seconds": feeder.latest_seconds,
                "weir": seen,
                "cores": cores,
            },
        )


class _Course:
    """A job on its way, with its topics, its folder and, where it is to have one, its agent."""

    def __init__(self, world: World, run: Run, parcels: Parcels) -> None:
        self._world = world
        self._run = run
        number = next(world._numbers)
        self._suffix = f"-{number}"
        self.folder = world.folder / f"run-{number}"
        self._query = QUERIES[run.query]
        self._topics = self._query.topics
        self._sink = f"results{self._suffix}"
        self.feeder = Feeder(world._broker.bootstrap, parcels, self._suffix)
        self._agent: AgentProcess | None = None
        self._job: Job | None = None
        self.seen: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir()
        (self.folder / "events").mkdir()
        for topic in self._topics:
            self._world._broker.create_topic(topic + self._suffix, PARTITIONS, TOPIC_SETTINGS)
        self._world._broker.create_topic(self._sink, 1)
        try:
            if self._run.agent is not None:
                self._start_agent(dict(self._run.agent))
            self._submit()
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.feeder.close()
        if self._job is not None:
            end(self._job)
        if self._agent is not None:
            self._agent.__exit__(None, None, None)
        for topic in (*(topic + self._suffix for topic in self._topics), self._sink):
            with contextlib.suppress(Exception):
                self._world._broker.delete_topic(topic)
        for worker in self._world.folder.glob("worker-*"):
            for left in (worker / "work").glob("*"):
                shutil.rmtree(left, ignore_errors=True)
        if not error or error[0] is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _start_agent(self, settings: dict[str, Any]) -> None:
        folder = self.folder / "agent"
        folder.mkdir()
        config = folder / "weir.yaml"
        told = {
            "mode": "on",
            "target_seconds": self._run.target_seconds,
            # The delays are shorter than batches, and the partitions fill evenly.
            "late_rows": "allow",
        }
        config.write_text(json.dumps(told | settings))
        self._agent = AgentProcess(
            folder,
            *("--doors", str(self.folder / "doors")),
            *("--config", str(config)),
            *("--state-dir", str(folder / "state")),
        )

    def _submit(self) -> None:
        (self.folder / "job.json").write_text(
            json.dumps(
                {
                    "query": self._run.query,
                    "bootstrap": self._world._broker.bootstrap,
                    "topics": {topic: topic + self._suffix for topic in self._topics},
                    "sink": self._sink,
                    "limits": self._limits(),
                }
            )
        )
        jars = connector(pyspark.__version__)
        settings = SETTINGS | {"spark.eventLog.dir": (self.folder / "events").as_uri()}
        if self._run.agent is not None:
            jars += f",{plugin.JAR}"
            settings[plugin.CONFS[0]] = plugin.NAME
            settings["spark.weir.door.dir"] = str(self.folder / "doors")
        if isinstance(self._query, dspbench.Application):
            jars += f",{dspbench.JAR}"
            settings["spark.driver.extraClassPath"] = str(dspbench.JAR)
        settings |= dict(self._run.settings)
        self._job = self._world._children.run(
            self.folder,
            str(SPARK / "bin/spark-submit"),
            *("--master", self._world._master, "--name", "evidence", "--jars", jars),
            *(f"--conf={key}={value}" for key, value in settings.items()),
            *(str(Path(job.__file__)), str(self.folder)),
        )

    def _limits(self) -> dict[str, int]:
        """By topic: a limit is a source's, and rows come to the topics as events are drawn."""
        if self._run.limit_rows is None:
            return {}
        total = sum(TOPICS[topic].proportion for topic in self._topics)
        return {
            topic: max(round(self._run.limit_rows * TOPICS[topic].proportion / total), 1)
            for topic in self._topics
        }

    def cpu_seconds(self) -> dict[str, float]:
        """What each part of a run has taken so far: the query, its broker, the feeder, Weir."""
        assert self._job is not None
        of = {
            "query": [self._job.process.pid, *self._world.cluster],
            "broker": [self._world._broker.pid],
            "weir": [] if self._agent is None else [self._agent.process.pid],
        }
        own = psutil.Process().cpu_times()
        return {who: sum(map(cpu_seconds, pids)) for who, pids in of.items()} | {
            "feeder": own.user + own.system
        }

    def check(self) -> None:
        """Raises BrokenError where the job is gone."""
        assert self._job is not None
        if self._job.process.poll() is not None:
            raise BrokenError(f"the job ended; {self.folder}/job.err ends: {self._job.err[-2000:]}")

    def lump(self, rows: int) -> float:
        """So many rows at once; the seconds until they are read. Raises BrokenError."""
        parcel = self.feeder.prepare(rows)
        began = time.monotonic()
        self.feeder.put(parcel)
        if left := self.catch_up(patience=START_SECONDS):
            raise BrokenError(
                f"{left} rows of the warm-up were not read; see {self.folder}/job.err"
            )
        return time.monotonic() - began

    def lump_of(self, seconds: float, rows: int) -> int:
        """Rows that take that long, from so many on, once Java is no faster than a lump before."""
        before, took = math.inf, seconds
        for _ in range(MOST_LUMPS):
            took = self.lump(rows)
            if took < seconds:
                rows, before = 2 * rows, math.inf
            elif took <= WARM * before:
                before = took
            elif (double := self.lump(2 * rows)) < DOUBLE * took:
                rows, before = 2 * rows, double
            else:
                break
        # Found by doubling, they took up to twice as long, and so would all that follow.
        return round(rows * min(seconds / took, 1.0))

    def catch_up(self, patience: float) -> int:
        """Waits until all is committed; rows that are not."""
        end = time.monotonic() + patience
        while (left := self.left()) and time.monotonic() < end:
            self.check()
            time.sleep(0.05)
        return left

    def left(self) -> int:
        """Rows that were brought and not committed; of a topic, what its last source has not."""
        ends = self.feeder.ends()
        committed = self._committed()
        return sum(
            max(
                end
                - min(
                    (
                        source.get(topic, {}).get(str(p), 0)
                        for source in committed
                        if topic in source
                    ),
                    default=0,
                ),
                0,
            )
            for topic, partitions in ends.items()
            for p, end in partitions.items()
        )

    def _committed(self) -> list[dict[str, dict[str, int]]]:
        """Each source's offsets in the newest batch that is committed."""
        checkpoint = self.folder / "checkpoint"
        newest = job.newest(checkpoint / "commits")
        try:
            lines = (checkpoint / "offsets" / str(newest)).read_text().splitlines()[2:]
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines if line.startswith("{")]

    def restart(self) -> None:
        (self.folder / "restart").touch()

    def agent_acts(self) -> None:
        """Waits until the agent steers the query; raises BrokenError where it does not."""
        agent = self._agent
        assert agent is not None

        def live() -> bool:
            told = agent.http.get("/v1/queries").json()["queries"]
            return any(one["control"] == "live" for one in told)

        try:
            until(
                live,
                "the agent to steer the query",
                seconds=START_SECONDS,
                every=0.5,
                ignoring=(httpx.HTTPError,),
            )
        except AssertionError as error:
            raise BrokenError(f"{error}; see {self.folder}") from None

    def stop(self) -> list[dict[str, Any]]:
        """Ends the job once what it computed is out; what it told. Raises BrokenError."""
        assert self._job is not None
        checkpoint = self.folder / "checkpoint"

        def quiet() -> bool:
            first = job.newest(checkpoint / "offsets")
            # A batch without rows, which moves the watermark, follows at once.
            time.sleep(1.0)
            return first == job.newest(checkpoint / "commits") == job.newest(checkpoint / "offsets")

        with contextlib.suppress(AssertionError):  # a query that is behind is told so
            until(quiet, "the last batch", seconds=20)
        if self._agent is not None:
            metrics = self._agent.metrics()
            self.seen = {
                "grants": sum_of(metrics, "weir_grants_total"),
                "dropped_rows": sum_of(metrics, "weir_watermark_dropped_rows_total"),
            }
        (self.folder / "stop").touch()
        try:
            code = self._job.wait(120)
        except Exception as error:
            raise BrokenError(f"the job does not end; see {self.folder}/job.err") from error
        if code:
            raise BrokenError(f"the job ended with {code}: {self._job.err[-2000:]}")
        return [json.loads(one) for one in (self.folder / "told.jsonl").read_text().splitlines()]

    def results(self) -> dict[str, Any]:
        """How many different results there are, and a digest of them; a restart may repeat some.

        No digest where they hang on where batches end.
        """
        if isinstance(self._query, dspbench.Application):
            rows = self._printed()
            different = sorted(set(rows)) if self._query.last is None else self._query.last(rows)
            compared = self._query.last is not None
        else:
            rows = [value for _, value in self._world._broker.read(self._sink)]
            different, compared = sorted(set(rows)), True
        digest = hashlib.sha256("\n".join(different).encode()).hexdigest()
        return {
            "rows": len(different),
            "repeated": len(rows) - len(different),
            "sha256": digest if compared else "",
        }

    def _printed(self) -> list[str]:
        """Lines that the executors wrote."""
        return [
            line
            for worker in self._world.folder.glob("worker-*")
            for path in (worker / "work").glob("*/*/stdout")
            for line in path.read_text().splitlines()
        ]


def cpu_seconds(pid: int) -> float:
    """Of a process and of all that it started, those that ended among them."""
    total = 0.0
    first = psutil.Process(pid)
    for one in (first, *first.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def busy_seconds() -> float:
    """Of this machine's processors, since it started; with what its host gave to others."""
    times = psutil.cpu_times()
    kinds = ("user", "nice", "system", "irq", "softirq", "steal")
    return float(sum(getattr(times, kind, 0.0) for kind in kinds))


def sum_of(metrics: dict[str, float], name: str) -> float:
    """Over all labels."""
    return sum(value for key, value in metrics.items() if key.split("{")[0] == name)


def end(running: Job) -> None:
    """A driver with all that it started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(running.process.pid).children(recursive=True)
        for one in (psutil.Process(running.process.pid), *family):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
    running.process.wait()


def machine_now() -> dict[str, Any]:
    """This one, and how busy it is while only an idle broker and an idle cluster run here."""
    return machine() | {"busy_share": round(psutil.cpu_percent(interval=2.0) / 100, 3)}


def machine() -> dict[str, Any]:
    """In plain words, without its name."""
    described = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    fields = dict(line.split(":", 1) for line in described.splitlines() if ":" in line)
    named = {key.strip(): value.strip() for key, value in fields.items()}
    return {
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "processor": named.get("model name", "unknown"),
        "virtual": "hypervisor" in named.get("flags", "").split(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "spark": pyspark.__version__,
    }
