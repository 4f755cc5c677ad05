"""What arrives when: a recorded trace played in minutes, and the feeder that brings it to Kafka."""

from __future__ import annotations

import itertools
import random
import time
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import Producer

from tests.benchmarks.evidence.query import BASE_TIME_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from tests.benchmarks.evidence.workloads import Generator
    from tests.benchmarks.recorded import Recording

#: Rows are brought so often. A tenth of the shortest wait that is told apart here.
TICK_SECONDS: Final = 0.1
#: Of a longer trace so many bins are played, from one on that the seed draws: each bin then is long
#: beside a tick, and a burst as sharp as it was beside its neighbours.
MOST_BINS: Final = 120
#: Of a topic; rows go to them in turn, so that a row's offset tells its number.
PARTITIONS: Final = 4


class Tick(NamedTuple):
    """So many rows at a time since the begin."""

    at_seconds: float
    rows: int


class Arrival(NamedTuple):
    """What a tick brought to a topic: rows from the number ``first`` on, at an epoch time."""

    time: float
    topic: str
    first: int
    rows: int


def slice_of(recording: Recording, seed: int) -> tuple[int, ...]:
    """The bins that are played, by seed; raises ValueError where nothing arrives in any."""
    events = recording.events
    if not any(events):
        raise ValueError(f"{recording.name}: nothing arrives")
    draw = random.Random(f"slice {recording.name} {seed}")
    while True:
        begin = draw.randrange(max(len(events) - MOST_BINS, 0) + 1)
        found = events[begin : begin + MOST_BINS]
        if any(found):
            return found


def ticks_of(bins: Sequence[int], seconds: float, rows: int) -> list[Tick]:
    """So many rows in so many seconds, spread as the bins are; within a bin evenly."""
    total = sum(bins)
    sums = [0, *itertools.accumulate(bins)]
    count = round(seconds / TICK_SECONDS)
    found: list[Tick] = []
    done = 0
    for number in range(count):
        place = (number + 1) / count * len(bins)
        whole = min(int(place), len(bins) - 1)
        passed = sums[whole] + (place - whole) * bins[whole]
        due = round(rows * passed / total)
        found.append(Tick(number * TICK_SECONDS, due - done))
        done = due
    return found


class Feeder:
    """Brings rows to their topics at their times, and keeps what came when."""

    def __init__(self, bootstrap: str, rows: Iterator[tuple[str, bytes]], suffix: str) -> None:
        """``rows``: topics and values; each topic's name is followed by ``suffix``."""
        self.arrivals: list[Arrival] = []
        self.latest_seconds = 0.0  # how far behind its time a tick was at most
        self._rows = rows
        self._suffix = suffix
        self._counts: dict[str, int] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 5,
                "enable.idempotence": True,  # a row's offset is its number
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": 1_000_000,
                "compression.type": "lz4",
                "log_level": 0,  # a coordinator that is not up yet is no news here
            }
        )

    def bring(self, ticks: Iterable[Tick], begun: float) -> None:
        """All ticks, each at its time after ``begun`` (epoch)."""
        for tick in ticks:
            due = begun + tick.at_seconds
            time.sleep(max(due - time.time(), 0.0))
            self.latest_seconds = max(self.latest_seconds, time.time() - due)
            self.put(tick.rows)
            self._producer.poll(0)

    def prepare(self, rows: int) -> None:
        """Draws so many ahead, so that ``put`` takes no longer than the broker does."""
        self._rows = itertools.chain(list(itertools.islice(self._rows, rows)), self._rows)

    def put(self, rows: int) -> None:
        """So many more, now."""
        now = time.time()
        came: dict[str, int] = {}
        for _ in range(rows):
            name, value = next(self._rows)
            number = self._counts.get(name, 0)
            while True:
                try:
                    self._producer.produce(
                        name + self._suffix, value, partition=number % PARTITIONS
                    )
                    break
                except BufferError:
                    self._producer.poll(0.05)
            self._counts[name] = number + 1
            came[name] = came.get(name, 0) + 1
        for name, count in came.items():
            self.arrivals.append(Arrival(now, name, self._counts[name] - count, count))

    def flush(self) -> None:
        """Raises RuntimeError where rows did not arrive."""
        if left := self._producer.flush(120):
            raise RuntimeError(f"{left} rows were not taken by the broker")

    def ends(self) -> dict[str, dict[int, int]]:
        """By topic and partition, the offset of the next row."""
        return {
            topic + self._suffix: {
                partition: (count - partition + PARTITIONS - 1) // PARTITIONS
                for partition in range(PARTITIONS)
            }
            for topic, count in self._counts.items()
        }


def write_rows(
    path: Path,
    generator: Generator,
    warm_up_rows: int,
    ticks: Sequence[Tick],
) -> None:
    """Every row of a run, a line each: ``topic value``. Event times are those of the ticks.

    Rows of the warm-up are of the seconds before the first tick, as dense as the ticks' on average:
    so the query's state is what it will be.
    """
    dense = sum(tick.rows for tick in ticks) / (len(ticks) * TICK_SECONDS)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        for number in range(warm_up_rows):
            before = (warm_up_rows - number) / dense
            _write(file, *generator.row(BASE_TIME_MS - round(1000 * before)))
        for tick in ticks:
            time_ms = BASE_TIME_MS + round(1000 * tick.at_seconds)
            for _ in range(tick.rows):
                _write(file, *generator.row(time_ms))
    part.replace(path)


def _write(file: IO[bytes], topic: str, value: bytes) -> None:
    file.write(topic.encode() + b" " + value + b"\n")


def read_rows(path: Path) -> Iterator[tuple[str, bytes]]:
    """What ``write_rows`` wrote."""
    with path.open("rb") as file:
        for line in file:
            topic, _, value = line.rstrip(b"\n").partition(b" ")
            yield topic.decode(), value
