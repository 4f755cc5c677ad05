"""What a file source reads in all, option by option: alone, and under limits that move at random.

Files of three ages lie in two folders, some of one name in both; more come later, one of them old.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from pathlib import Path

DAY_SECONDS: Final = 86400.0
#: (folder and name, age in days): the old ones are past Spark's default ``maxFileAge`` of 7 days.
FIRST: Final = [
    *((f"a/{number}.txt", 10.0) for number in range(4)),
    *((f"a/{number}.txt", 3.0) for number in range(4, 8)),
    *((f"b/{number}.txt", 0.1) for number in range(4, 8)),  # names that are in the other folder too
    *((f"b/{number}.txt", 0.0) for number in range(8, 12)),
]
LATER: Final = [("a/20.txt", 0.0), ("b/21.txt", 10.0), ("b/22.txt", 0.0), ("c/4.txt", 0.0)]
MOST_FILES: Final = 5
BYTES_PER_FILE: Final = 16
SIZES: Final = {"files": 1, "bytes": BYTES_PER_FILE}


@dataclass(frozen=True)
class Case:
    """The options of one source, and how its query is triggered."""

    latest_first: bool = False
    short_age: bool = False  # maxFileAge of a day
    clean: str = "off"
    limit: str = ""  # files, bytes
    available_now: bool = False
    file_name_only: bool = False

    def __str__(self) -> str:
        said = [f"{one.name}={getattr(self, one.name)}" for one in fields(self)]
        return " ".join(part for part in said if not part.endswith(("=False", "=off", "=")))

    @property
    def unit(self) -> str:
        return self.limit or "files"

    def options(self, archive: Path) -> dict[str, str]:
        """As Spark takes them."""
        found = {"cleanSource": self.clean}
        if self.clean == "archive":
            found["sourceArchiveDir"] = str(archive)
        if self.latest_first:
            found["latestFirst"] = "true"
        if self.file_name_only:
            found["fileNameOnly"] = "true"
        if self.short_age:
            found["maxFileAge"] = "1d"
        if self.limit == "files":
            found["maxFilesPerTrigger"] = str(MOST_FILES)
        if self.limit == "bytes":
            found["maxBytesPerTrigger"] = str(MOST_FILES * BYTES_PER_FILE)
        return found


def put(base: Path, files: list[tuple[str, float]], epoch_seconds: float) -> None:
    """Puts the files there; each row names its file."""
    for number, (name, age_days) in enumerate(files):
        place = base / name
        place.parent.mkdir(parents=True, exist_ok=True)
        hidden = place.with_name(f".{place.name}")
        hidden.write_text(name.ljust(BYTES_PER_FILE - 1) + "\n")
        moment = epoch_seconds - age_days * DAY_SECONDS + number * 0.01
        os.utime(hidden, (moment, moment))
        hidden.rename(place)


def rows_read(spark: Any, case: Case, place: Path, name: str) -> tuple[list[str], list[int]]:
    """Every row that a query of this case reads, sorted, and how many each batch had.

    ``name`` begins with the unit of the source's limit, for ``at_random``.
    """
    rows: list[str] = []
    batches: list[int] = []

    def batch(frame: Any, _: int) -> None:
        found = [row.value.strip() for row in frame.collect()]
        rows.extend(found)
        if found:
            batches.append(len(found))

    now = time.time() - 3600.0
    (place / "in").mkdir(parents=True)
    reader = spark.readStream.options(**case.options(place / "archive"))
    frame = reader.text(str(place / "in" / "*"))

    def start() -> Any:
        trigger = {"availableNow": True} if case.available_now else {"processingTime": "0 seconds"}
        writer = frame.writeStream.queryName(name).foreachBatch(batch).trigger(**trigger)
        return writer.option("checkpointLocation", str(place / "checkpoint")).start()

    put(place / "in", FIRST, now)
    if case.available_now:
        start().awaitTermination()
        put(place / "in", LATER, now + 60.0)
        start().awaitTermination()
    else:
        query = start()
        query.processAllAvailable()
        put(place / "in", LATER, now + 60.0)
        query.processAllAvailable()
        query.stop()
    return sorted(rows), batches


def all_read(
    spark: Any, cases: list[Case], place: Path, *, at_once: int = 4
) -> list[tuple[list[str], list[int]]]:
    """What ``rows_read`` gives for each case, some of them at a time."""
    with ThreadPoolExecutor(at_once) as pool:
        runs = [
            pool.submit(rows_read, spark, case, place / str(number), f"{case.unit}-{number}")
            for number, case in enumerate(cases)
        ]
        return [run.result() for run in runs]


def at_random(
    draw: random.Random, sizes: Mapping[str, int] = SIZES
) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Decides for an agent: with every reply each run that started gets another limit.

    A query's name begins with the unit of its limit, of which ``sizes`` says how much one is.
    """
    units: dict[str, str] = {}

    def decide(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for event in events:
            if event["type"] == "started":
                units[event["body"]["runId"]] = event["body"]["name"].partition("-")[0]
            elif event["type"] == "terminated":
                units.pop(event["body"]["runId"], None)
        return [
            {"id": "any", "runId": run_id, "source": 0, "unit": unit, "reason": "raise",
             "limit": draw.randint(1, MOST_FILES) * sizes[unit], "expires_seconds": 60}
            for run_id, unit in units.items()
        ]  # fmt: skip

    return decide
