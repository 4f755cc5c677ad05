"""Puts files into the folder that the job watches, on time; each appears whole or not at all."""

from __future__ import annotations

import random
import shutil
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from examples.demo.plan import Plan

#: Files with rows of their own; after these, rows come again under new file names.
TEMPLATES = 120
CUSTOMERS = 500_000


@dataclass(frozen=True)
class Arrival:
    """Files that were put there at one moment, epoch seconds."""

    time: float
    files: int
    rows: int


class Feed:
    """Prepares files of a given size and drops them; the names count up, so order is arrival."""

    def __init__(self, work: Path, seed: int = 7) -> None:
        self._templates = work / "templates"
        self._templates.mkdir(parents=True, exist_ok=True)
        self._random = random.Random(seed)
        self._rows_per_file = 0
        self._paths: list[Path] = []
        self._dropped = 0

    def prepare(self, rows_per_file: int, files: int = TEMPLATES) -> None:
        """Write the files once, so that a burst later costs only copies."""
        self._rows_per_file = rows_per_file
        self._paths = []
        draw = self._random.randrange
        for number in range(files):
            path = self._templates / f"{rows_per_file}-{number}.csv"
            path.write_text(
                "".join(
                    f"c{draw(CUSTOMERS)},{draw(10_000) / 100:.2f}\n" for _ in range(rows_per_file)
                ),
                encoding="ascii",
            )
            self._paths.append(path)

    def drop(self, folder: Path, files: int) -> Arrival:
        """Let so many files appear in the folder, all at once."""
        numbers = range(self._dropped, self._dropped + files)
        self._dropped += files
        for number in numbers:  # Spark passes over names with a dot
            template = self._paths[number % len(self._paths)]
            shutil.copyfile(template, folder / f".{number:07d}")
        for number in numbers:
            (folder / f".{number:07d}").rename(folder / f"{number:07d}.csv")
        return Arrival(time.time(), files, files * self._rows_per_file)


class Schedule:
    """Follows a plan on a thread of its own, until its end or until told to stop."""

    def __init__(self, feed: Feed, folder: Path, plan: Plan, *, again: bool = False) -> None:
        self._feed = feed
        self._folder = folder
        self._plan = plan
        self._again = again  # start over at the plan's end
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._lock = threading.Lock()
        self._arrivals: list[Arrival] = []
        self.error: OSError | None = None

    def start(self) -> None:
        """Begin; the plan's time counts from now."""
        self._thread.start()

    def stop(self) -> None:
        """Drop nothing more."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=10)

    @property
    def arrivals(self) -> list[Arrival]:
        """What has been dropped so far."""
        with self._lock:
            return list(self._arrivals)

    def _run(self) -> None:
        began = time.monotonic()
        try:
            while True:
                for drop in self._plan.drops:
                    if self._stop.wait(max(began + drop.at_seconds - time.monotonic(), 0)):
                        return
                    arrival = self._feed.drop(self._folder, drop.files)
                    with self._lock:
                        self._arrivals.append(arrival)
                began += self._plan.seconds
                if not self._again:
                    return
        except OSError as error:
            self.error = error
