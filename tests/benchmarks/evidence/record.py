"""What a run left: a file of JSON lines, each with its ``type``, and how it is read again.

``run`` says what was run; ``machine`` on what; then ``arrival``, ``progress`` (Spark's own, as its
event log has it), ``executor``, ``told`` (what the job did), ``results`` and ``end``.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks.evidence.load import Arrival

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRESS: Final = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
ADDED: Final = "SparkListenerExecutorAdded"
REMOVED: Final = "SparkListenerExecutorRemoved"


@dataclass
class Record:
    """A run's file, in memory. Times are epoch seconds."""

    run: dict[str, Any]
    machine: dict[str, Any]
    arrivals: list[Arrival] = field(default_factory=list)
    progress: list[dict[str, Any]] = field(default_factory=list)
    executors: list[dict[str, Any]] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    end: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """All of it or nothing: a run whose file is there has been run."""
        part = path.with_suffix(".part")
        with gzip.open(part, "wt", encoding="utf-8") as file:
            for line in self._lines():
                file.write(json.dumps(line) + "\n")
        part.replace(path)

    def _lines(self) -> Iterator[dict[str, Any]]:
        yield {"type": "run", **self.run}
        yield {"type": "machine", **self.machine}
        yield from ({"type": "arrival", **one._asdict()} for one in self.arrivals)
        yield from ({"type": "progress", "progress": one} for one in self.progress)
        yield from ({"type": "executor", **one} for one in self.executors)
        yield from ({"type": "told", **one} for one in self.told)
        yield {"type": "results", **self.results}
        yield {"type": "end", **self.end}


def read(path: Path) -> Record:
    """Raises ValueError where the file does not hold a whole run."""
    record = Record({}, {})
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            data = json.loads(line)
            kind = data.pop("type")
            if kind == "arrival":
                record.arrivals.append(Arrival(**data))
            elif kind == "progress":
                record.progress.append(data["progress"])
            elif kind in ("executor", "told"):
                (record.executors if kind == "executor" else record.told).append(data)
            else:
                setattr(record, kind, data)
    if not record.end:
        raise ValueError(f"{path}: the run's end is missing; remove the file to run it again")
    return record


def of_event_log(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Spark's progress and executors, from the event log of the one application in ``folder``."""
    progress: list[dict[str, Any]] = []
    executors: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.rglob("events_*"), key=lambda path: int(path.name.split("_")[1])):
        with path.open(encoding="utf-8") as file:
            for line in file:
                # Most lines tell of tasks; these few are read.
                if not line.startswith(
                    (f'{{"Event":"{PROGRESS}"', f'{{"Event":"{ADDED}"', f'{{"Event":"{REMOVED}"')
                ):
                    continue
                event = json.loads(line)
                if event["Event"] == PROGRESS:
                    progress.append(event["progress"])
                elif event["Event"] == ADDED:
                    executors[event["Executor ID"]] = {
                        "id": event["Executor ID"],
                        "added": event["Timestamp"] / 1000,
                        "removed": None,
                        "cores": event["Executor Info"]["Total Cores"],
                    }
                elif event["Executor ID"] in executors:
                    executors[event["Executor ID"]]["removed"] = event["Timestamp"] / 1000
    return progress, list(executors.values())
