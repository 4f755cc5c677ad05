"""What the first batch of a driver takes beside a warm one of as many rows, by its size.

``python -m tests.benchmarks.cold_starts [--jobs files q5] [--seconds 0.5 2 6 15] [--times 2]``

Each size in a driver of its own, whose batches are all of it. ``files`` parses files and counts, in
one process (``local[2]``); a name of ``make evidence``'s queries reads Kafka on a standalone
cluster, with state in RocksDB. A batch is warm in the last quarter of its driver's life, of a
minute and a half where batches are short. Sizes are told in seconds of a warm batch, roughly.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks import rollouts
from tests.benchmarks.evidence.job import newest
from tests.benchmarks.evidence.record import of_event_log
from tests.benchmarks.evidence.run import FULL, World

if TYPE_CHECKING:
    from collections.abc import Iterable

#: In which Java has compiled what matters.
LIFE_SECONDS: Final = 90.0
#: ... and so many batches are there at least, the first among them.
LEAST_BATCHES: Final = 6
#: What ``files`` reads in a second of a batch once it is warm, roughly.
FILES_PER_SECOND: Final = 10
#: A result is wanted so often, for what a query of ``make evidence`` takes to be measured by.
TARGET_SECONDS: Final = 5.0


def told(job: str, progress: Iterable[dict[str, Any]]) -> str:
    """What one driver's batches took, in a line."""
    took = [
        (sum(source["numInputRows"] for source in one["sources"]), one["durationMs"])
        for one in progress
    ]
    rows = next(rows for rows, _ in took if rows)
    full = [spent["triggerExecution"] / 1e3 for had, spent in took if had >= FULL * rows]
    first = full[0]
    later = full[-max(len(full) // 4, 2) :]
    warm = statistics.median(later)
    return (
        f"{job}: {rows:,} rows, first {first:.1f} s, then "
        f"{' '.join(f'{one:.1f}' for one in full[1:5])}, warm {warm:.2f} s "
        f"({min(later):.2f} to {max(later):.2f} of {len(full)}): {first - warm:.1f} s beside"
    )


def of_files(files: int) -> list[dict[str, Any]]:
    """Spark's progress of one driver that reads so many files a batch."""
    with tempfile.TemporaryDirectory(prefix="weir-cold-starts-") as name:
        work = Path(name)
        rollouts.feed(work / "in")
        driver = rollouts.Driver(work, "", files)
        begun = time.monotonic()
        try:
            done = 0
            while time.monotonic() - begun <= LIFE_SECONDS or done < LEAST_BATCHES:
                time.sleep(1.0)
                driver.age_seconds()  # tells where there is none any more
                done = newest(work / "ck" / "commits") + 1
        finally:
            driver.kill()
        return of_event_log(work / "events")[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", nargs="+", default=["files", "q5"])
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.5, 2.0, 6.0, 15.0])
    parser.add_argument("--times", type=int, default=2, help="each size so often")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="weir-cold-starts-"))
    drawn = [(job, seconds) for job in given.jobs for seconds in given.seconds]
    with World(folder) as world:
        costs = {}
        for number in range(given.times):
            random.Random(number).shuffle(drawn)
            for job, seconds in drawn:
                if job == "files":
                    files = max(round(seconds * FILES_PER_SECOND), 1)
                    print(told(job, of_files(files)), flush=True)
                    continue
                if job not in costs:
                    costs[job] = world.measure(job, TARGET_SECONDS)
                    print(f"{job}: {costs[job]}", flush=True)
                rows = costs[job].rows_in(max(seconds, 1.2 * costs[job].fixed_seconds))
                count = max(round(LIFE_SECONDS / max(seconds, 1.0)), LEAST_BATCHES)
                print(told(job, world.start(job, rows, count)), flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
