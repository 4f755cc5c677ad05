"""Do results stay the same? Generated queries on the same input, alone and with limits that move.

    python -m tests.benchmarks.equivalence --count 500 --seed 1

Each case is drawn from its number: a shape of query (projection, aggregation, windows, sessions,
deduplication, joins, union; output modes), a source with or without a configured limit, a trigger,
and rows that come in disorder. It runs on a real Spark without Weir, and again under a real agent
whose limit is moved at random all the time. Where every row comes within the delay that the query
declares, the final rows must be the same. Where some come later, Weir may lose rows of the batches
that were on their way when the first one fell late, and none after.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

import spark_listener
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

BEGIN: Final = 1_800_000_000  # event time of the first row, epoch seconds
DELAY_SECONDS: Final = 20
STEP_SECONDS: Final = 10  # of event time, from file to file
FLUSH_SECONDS: Final = 86_400  # so far ahead is the last row, after which every window is closed
FLUSH_KEY: Final = -1
#: Batches that may lose rows to a limit of ours: the first in which one falls late, the one that
#: is planned while its progress is told, and those whose rows are held against their watermarks.
ON_THEIR_WAY: Final = 4


@dataclass
class Case:
    """One generated query and its input."""

    number: int
    shape: str = ""
    configured: int | None = None  # files a batch
    available_now: bool = False
    late: bool = False  # some rows come later than the declared delay
    inputs: list[list[list[dict[str, int]]]] = field(default_factory=list)  # source, file, row

    @staticmethod
    def drawn(number: int) -> Case:
        draw = random.Random(f"equivalence {number}")
        shape = draw.choice(list(SHAPES))
        case = Case(
            number,
            shape,
            draw.choice([None, None, 4, 10]),
            available_now=draw.random() < 0.5,
            late=SHAPES[shape].watermark and draw.random() < 0.25,
        )
        case.inputs = [_files(draw, case.late) for _ in range(SHAPES[shape].sources)]
        return case

    def __str__(self) -> str:
        limit = "no limit" if self.configured is None else f"{self.configured} files"
        trigger = "AvailableNow" if self.available_now else "ProcessingTime"
        return f"case {self.number}: {self.shape}, {limit}, {trigger}{', late' * self.late}"


def _files(draw: random.Random, late: bool) -> list[list[dict[str, int]]]:
    """Files in the order in which they are read; rows within the delay of all before them."""
    files: list[list[dict[str, int]]] = []
    newest, identity = 0, 0
    for number in range(draw.randint(8, 16)):
        rows = []
        for _ in range(draw.randint(1, 12)):
            at = number * STEP_SECONDS + draw.randint(0, STEP_SECONDS)
            at -= draw.choice([0, 0, draw.randint(0, 3 * DELAY_SECONDS)])
            at = max(at, newest - DELAY_SECONDS + 1, 0)
            if late and draw.random() < 0.15:
                at = max(newest - DELAY_SECONDS - draw.randint(1, 3 * DELAY_SECONDS), 0)
            rows.append({"k": draw.randint(0, 2), "t": at, "v": draw.randint(1, 9), "id": identity})
            # The same once more, as a source that repeats itself would send it.
            identity += draw.random() < 0.7
        files.append(rows)
        newest = max([newest, *(row["t"] for row in rows)])
    return files


@dataclass(frozen=True)
class Shape:
    """A kind of query: from its sources to what is compared."""

    build: Callable[[Any, list[Any]], Any]
    mode: str = "append"
    sources: int = 1
    watermark: bool = True
    keys: int = 0  # with mode update: so many columns name a row, whose last word counts


def _timed(frame: Any) -> Any:
    return frame.withWatermark("t", f"{DELAY_SECONDS} seconds")


def _windows(f: Any, frames: list[Any]) -> Any:
    grouped = _timed(frames[0]).groupBy(f.window("t", "15 seconds"), "k")
    told = grouped.agg(f.count("*").alias("n"), f.sum("v").alias("v"))
    return told.select(f.col("window.start").cast("long").alias("w"), "k", "n", "v")


def _sessions(f: Any, frames: list[Any]) -> Any:
    grouped = _timed(frames[0]).groupBy(f.session_window("t", "4 seconds"), "k")
    told = grouped.agg(f.count("*").alias("n"), f.sum("v").alias("v"))
    return told.select(f.col("session_window.start").cast("long").alias("w"), "k", "n", "v")


def _join(kind: str) -> Callable[[Any, list[Any]], Any]:
    def build(f: Any, frames: list[Any]) -> Any:
        left = _timed(frames[0]).select("k", "t", "v", "id")
        right = _timed(
            frames[1]
            .select(f.col("k").alias("rk"), f.col("t").alias("rt"), f.col("v").alias("rv"))
            .withColumnRenamed("rt", "t")
        ).withColumnRenamed("t", "rt")
        near = f.expr("k = rk AND rt >= t - interval 5 seconds AND rt <= t + interval 5 seconds")
        joined = left.join(right, near, kind)
        return joined.select("k", f.col("t").cast("long"), "v", f.col("rt").cast("long"), "rv")

    return build


SHAPES: Final[dict[str, Shape]] = {
    "projection": Shape(
        lambda f, frames: frames[0].where("v % 2 = 0").select("k", f.col("t").cast("long"), "v"),
        watermark=False,
    ),
    "count by key, update": Shape(
        lambda f, frames: frames[0].groupBy("k").agg(f.count("*").alias("n"), f.sum("v")),
        mode="update",
        watermark=False,
        keys=1,
    ),
    "count by key, complete": Shape(
        lambda f, frames: frames[0].groupBy("k").agg(f.count("*").alias("n"), f.sum("v")),
        mode="complete",
        watermark=False,
    ),
    "count of a union, complete": Shape(
        lambda f, frames: frames[0].union(frames[1]).groupBy("k").agg(f.count("*"), f.sum("v")),
        mode="complete",
        sources=2,
        watermark=False,
    ),
    "windows, append": Shape(_windows),
    "windows, update": Shape(_windows, mode="update", keys=2),
    "windows, complete": Shape(_windows, mode="complete"),
    "sessions, append": Shape(_sessions),
    "distinct by time": Shape(
        lambda f, frames: (
            _timed(frames[0]).dropDuplicates(["k", "t"]).select("k", f.col("t").cast("long"))
        )
    ),
    "inner join": Shape(_join("inner"), sources=2),
    "left outer join": Shape(_join("left_outer"), sources=2),
}


@dataclass
class Outcome:
    """What a run of a case left behind."""

    rows: Counter[tuple[Any, ...]]
    batches: list[tuple[int, int]]  # rows read, rows dropped as late
    held: bool = False

    @property
    def dropped(self) -> int:
        return sum(dropped for _, dropped in self.batches)


class Bench:
    """One Spark and one agent for all cases."""

    def __init__(self, spark: Any, agent: AgentProcess) -> None:
        self._spark = spark
        self._agent = agent
        self._runs = 0

    def judge(self, case: Case) -> tuple[Outcome, Outcome, list[str]]:
        """Alone, under Weir, and what is wrong; no word where nothing is."""
        alone, under = self._run(case, limits=None), self._run(case, limits=random.Random(7))
        wrong: list[str] = []
        if not case.late and (alone.rows != under.rows or under.dropped or under.held):
            lost, found = alone.rows - under.rows, under.rows - alone.rows
            wrong.append(
                f"{sum(lost.values())} rows missing, {sum(found.values())} not to be there, "
                f"{under.dropped} dropped (alone {alone.dropped}), held: {under.held}; "
                f"{list(lost)[:3]} {list(found)[:3]}"
            )
        late = [number for number, (_, dropped) in enumerate(under.batches) if dropped]
        if under.held and not alone.dropped and late[-1] - late[0] >= ON_THEIR_WAY:
            wrong.append(f"rows fell late in batches {late}, after the guard had gone back")
        return alone, under, wrong

    def _run(self, case: Case, *, limits: random.Random | None) -> Outcome:
        from pyspark.sql import functions

        self._runs += 1
        name = f"case{case.number}_{self._runs}"
        with tempfile.TemporaryDirectory() as place:
            if limits is not None:
                spark_listener.attach(
                    self._spark, agent_url=self._agent.address, heartbeat_seconds=0.3
                )
            try:
                return self._query(case, name, Path(place), functions, limits)
            finally:
                spark_listener.detach()

    def _query(
        self, case: Case, name: str, place: Path, f: Any, limits: random.Random | None
    ) -> Outcome:
        """The first files teach both sides that the query is there; the limit is then in force."""
        shape = SHAPES[case.shape]
        folders = [place / str(number) for number in range(shape.sources)]
        for folder, files in zip(folders, case.inputs, strict=True):
            folder.mkdir()
            _write(folder, 0, files[0])
        frame = shape.build(f, [self._read(case, folder) for folder in folders])
        told: dict[int, list[tuple[Any, ...]]] = {}
        batches: list[tuple[int, int]] = []

        def sink(batch: Any, number: int) -> None:
            told[number] = [tuple(row) for row in batch.collect()]

        def run(trigger: dict[str, Any], more: list[dict[str, int]] | None) -> None:
            query = (
                frame.writeStream.foreachBatch(sink)
                .queryName(name)
                .outputMode(shape.mode)
                .option("checkpointLocation", str(place / "checkpoint"))
                .trigger(**trigger)
                .start()
            )
            if "availableNow" in trigger:
                query.awaitTermination()
            else:
                query.processAllAvailable()
                if more is not None:
                    for folder in folders:
                        _write(folder, 999, more)
                    query.processAllAvailable()
                query.stop()
            batches.extend(
                (
                    progress["numInputRows"],
                    sum(one["numRowsDroppedByWatermark"] for one in progress["stateOperators"]),
                )
                for progress in query.recentProgress
                if progress["numInputRows"]
            )

        run({"availableNow": True}, None)
        ended = threading.Event()
        mover = threading.Thread(target=self._move, args=(name, case, limits, ended))
        if limits is not None:
            until(lambda: self._view(name).get("state") == "terminated", "the first run's end")
            self._order(name, limits.randint(1, 3))
            mover.start()
        try:
            for folder, files in zip(folders, case.inputs, strict=True):
                for number, rows in enumerate([*files[1:], _flush(1)], start=1):
                    _write(folder, number, rows)
            if case.available_now:
                run({"availableNow": True}, None)
            else:
                run({"processingTime": "0 seconds"}, _flush(2))
        finally:
            ended.set()
            if limits is not None:
                mover.join()
        ordered = [told[number] for number in sorted(told)]
        rows = ordered[-1] if shape.mode == "complete" else [row for one in ordered for row in one]
        if shape.mode == "update":
            rows = list({row[: shape.keys]: row for row in rows}.values())
        rows = [row for row in rows if FLUSH_KEY not in row]
        held = limits is not None and bool(self._view(name).get("late_rows_held"))
        return Outcome(Counter(rows), batches, held)

    def _read(self, case: Case, folder: Path) -> Any:
        reader = self._spark.readStream.schema("k int, t timestamp, v int, id int")
        if case.configured is not None:
            reader = reader.option("maxFilesPerTrigger", case.configured)
        return reader.json(str(folder))

    def _move(
        self, name: str, case: Case, limits: random.Random | None, ended: threading.Event
    ) -> None:
        """Orders a new limit again and again, each one that Weir itself could set."""
        assert limits is not None
        while not ended.wait(limits.uniform(0.02, 0.3)):
            self._order(name, limits.randint(1, case.configured or 4))

    def _order(self, name: str, limit: int) -> None:
        with contextlib.suppress(httpx.HTTPError):
            self._agent.http.post(
                f"/v1/queries/*/{name}/control", json={"limit": limit, "reason": "benchmark"}
            )

    def _view(self, name: str) -> dict[str, Any]:
        answer = self._agent.http.get("/v1/queries").json()
        return next((one for one in answer["queries"] if one["query"] == name), {})


def _flush(days: int) -> list[dict[str, int]]:
    return [{"k": FLUSH_KEY, "t": days * FLUSH_SECONDS, "v": 0, "id": FLUSH_KEY}]


def _write(folder: Path, number: int, rows: list[dict[str, int]]) -> None:
    """A file that is read after those of lesser numbers."""
    lines = [json.dumps({**row, "t": BEGIN + row["t"]}) for row in rows]
    arriving = folder / f".{number}.json"
    arriving.write_text("\n".join(lines))
    at = time.time() - 3600 + number
    os.utime(arriving, (at, at))
    arriving.rename(folder / f"{number:03d}.json")


def main() -> int:
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="cases to run")
    parser.add_argument("--seed", type=int, default=1, help="number of the first case")
    options = parser.parse_args()
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("equivalence")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    differ, within, late, batches = 0, 0, 0, [0, 0]
    lost = [0, 0, 0]  # rows dropped alone, under Weir, and cases that were held
    with tempfile.TemporaryDirectory() as place, AgentProcess(Path(place)) as agent:
        bench = Bench(spark, agent)
        until(lambda: agent.http.get("/healthz").status_code == 200, "the agent")
        for number in range(options.seed, options.seed + options.count):
            case = Case.drawn(number)
            alone, under, wrong = bench.judge(case)
            within, late = within + (not case.late), late + case.late
            batches = [batches[0] + len(alone.batches), batches[1] + len(under.batches)]
            lost = [lost[0] + alone.dropped, lost[1] + under.dropped, lost[2] + under.held]
            differ += bool(wrong)
            for one in wrong:
                print(f"{case}: {one}", flush=True)
            if number % 25 == 0:
                print(f"… {number}", file=sys.stderr, flush=True)
    spark.stop()
    print(
        f"{options.count} cases, {within} with every row within its delay: {differ} differ\n"
        f"batches alone {batches[0]}, under Weir {batches[1]}\n"
        f"{late} cases with rows later than the delay: {lost[0]} rows dropped alone, {lost[1]} "
        f"under Weir; {lost[2]} were held"
    )
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
