"""What arrives when: a recorded trace played in minutes, and the feeder that brings it to Kafka.

What brings the rows shares the machine with what digests them. So rows are drawn, told apart and
compressed before a run begins, as the record batches that Kafka stores, and a run only hands these
to the broker: a producer that packs row by row took up to half a core of two while the query was to
be measured, fell behind by up to 47 s, and not equally in the runs of a pair.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiokafka.conn import create_conn
from aiokafka.errors import for_code
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from tests.benchmarks.evidence.query import BASE_TIME_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from tests.benchmarks.evidence.workloads import Generator
    from tests.benchmarks.recorded import Recording

#: Rows are brought so often. A tenth of the shortest wait that is told apart here.
TICK_SECONDS: Final = 0.1
#: Of a longer trace so many bins are played, from one on that the seed draws: each bin then is long
#: beside a tick, and a burst as sharp as it was beside its neighbours.
MOST_BINS: Final = 120
#: Of a topic; rows go to them in turn, so that a row's offset tells its number.
PARTITIONS: Final = 4
#: Of a record batch before it is compressed; a broker takes 1,048,588 by default.
BATCH_BYTES: Final = 1_000_000
#: The broker says when a row came: batches are made long before.
TOPIC_SETTINGS: Final = {"message.timestamp.type": "LogAppendTime"}
_LZ4: Final = 3
#: Kafka's codes: it does not know the partition (yet), it does not lead it (yet).
_NO_LEADER: Final = (3, 6)
_SEND_SECONDS: Final = 60


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


class Parcel(NamedTuple):
    """What comes at once.

    ``rows`` by topic; ``requests``: one after the other, of each (topic, partition) one record
    batch, with the number of its rows.
    """

    rows: dict[str, int]
    requests: list[dict[tuple[str, int], tuple[int, bytes]]]


#: Of so many rows, the next that come.
Parcels: TypeAlias = "Callable[[int], Parcel]"


class Packer:
    """Rows to parcels: a topic's go to its partitions in turn, so that an offset tells a number."""

    def __init__(self, rows: Iterator[tuple[str, bytes]]) -> None:
        self._rows = rows
        self._counts: Counter[str] = Counter()

    def __call__(self, rows: int) -> Parcel:
        """The next so many."""
        before = self._counts.copy()
        open_ones: dict[tuple[str, int], tuple[int, Any]] = {}
        full: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
        for topic, value in itertools.islice(self._rows, rows):
            to = (topic, self._counts[topic] % PARTITIONS)
            self._counts[topic] += 1
            count, batch = open_ones.get(to) or (0, _batch())
            if batch.append(count, 0, None, value, []) is None:
                full.setdefault(to, []).append((count, bytes(batch.build())))
                count, batch = 0, _batch()
                batch.append(count, 0, None, value, [])
            open_ones[to] = (count + 1, batch)
        for to, (count, batch) in open_ones.items():
            full.setdefault(to, []).append((count, bytes(batch.build())))
        depth = max(map(len, full.values()), default=0)
        return Parcel(
            dict(self._counts - before),
            [{to: of[n] for to, of in full.items() if n < len(of)} for n in range(depth)],
        )


def _batch() -> Any:
    """An empty one, of no transaction and of no producer that counts."""
    return DefaultRecordBatchBuilder(
        magic=2,
        compression_type=_LZ4,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=BATCH_BYTES,
    )


class Feeder:
    """Brings parcels to their topics at their times, and keeps what came when."""

    def __init__(self, bootstrap: str, parcels: Parcels, suffix: str) -> None:
        """Each topic's name is followed by ``suffix``."""
        self.arrivals: list[Arrival] = []
        self.latest_seconds = 0.0  # how far behind its time a tick was at most
        self.prepare = parcels
        self._suffix = suffix
        self._counts: Counter[str] = Counter()
        self._offsets: Counter[tuple[str, int]] = Counter()
        self._loop = asyncio.new_event_loop()
        host, port = bootstrap.split(":")
        self._broker = self._loop.run_until_complete(create_conn(host, int(port)))

    def close(self) -> None:
        """The connection; nothing comes any more."""
        self._broker.close()
        left = asyncio.all_tasks(self._loop)
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    def bring(self, ticks: Iterable[Tick], begun: float) -> None:
        """All ticks, each at its time after ``begun`` (epoch)."""
        for tick in ticks:
            parcel = self.prepare(tick.rows)
            due = begun + tick.at_seconds
            time.sleep(max(due - time.time(), 0.0))
            self.latest_seconds = max(self.latest_seconds, time.time() - due)
            self.put(parcel)

    def put(self, parcel: Parcel) -> None:
        """Now, until the broker has it. Raises RuntimeError where it did not take it as it is."""
        now = time.time()
        for topic, rows in parcel.rows.items():
            self.arrivals.append(Arrival(now, topic, self._counts[topic], rows))
            self._counts[topic] += rows
        for request in parcel.requests:
            self._send(request)

    def _send(self, request: dict[tuple[str, int], tuple[int, bytes]]) -> None:
        """Again what has no leader yet, as a topic that has just been made."""
        until = time.monotonic() + _SEND_SECONDS
        while left := self._loop.run_until_complete(
            self._sent(request, last=time.monotonic() > until)
        ):
            request = left
            time.sleep(TICK_SECONDS)

    async def _sent(
        self, request: dict[tuple[str, int], tuple[int, bytes]], *, last: bool
    ) -> dict[tuple[str, int], tuple[int, bytes]]:
        """What is left of it. Raises RuntimeError where it is not to be sent again."""
        left: dict[tuple[str, int], tuple[int, bytes]] = {}
        topics: dict[str, list[tuple[int, bytes]]] = {}
        for (topic, partition), (_, batch) in request.items():
            topics.setdefault(topic + self._suffix, []).append((partition, batch))
        answer = await self._broker.send(
            ProduceRequest(None, 1, 1000 * _SEND_SECONDS, [*topics.items()])
        )
        for name, partitions in answer.topics:
            topic = name.removesuffix(self._suffix)
            for partition, error, offset, *_ in partitions:
                wanted = self._offsets[topic, partition]
                if error in _NO_LEADER and not last:
                    left[topic, partition] = request[topic, partition]
                    continue
                if error or offset != wanted:
                    raise RuntimeError(
                        f"{name}/{partition}: {for_code(error).__name__}, offset {offset}, "
                        f"not {wanted}"
                    )
                self._offsets[topic, partition] += request[topic, partition][0]
        return left

    def ends(self) -> dict[str, dict[int, int]]:
        """By topic and partition, the offset of the next row."""
        return {
            topic + self._suffix: {
                partition: self._offsets[topic, partition] for partition in range(PARTITIONS)
            }
            for topic in self._counts
        }


def write_parcels(
    path: Path, generator: Generator, lumps: Sequence[int], ticks: Sequence[Tick]
) -> None:
    """Every row of a run, a parcel for each lump and tick. Event times are those of the ticks.

    Rows of the warm-up are of the seconds before the first tick, as dense as the ticks' on average:
    so the query's state is what it will be.
    """
    warm_up_rows = sum(lumps)
    dense = sum(tick.rows for tick in ticks) / (len(ticks) * TICK_SECONDS)

    def rows() -> Iterator[tuple[str, bytes]]:
        for number in range(warm_up_rows):
            before = (warm_up_rows - number) / dense
            yield generator.row(BASE_TIME_MS - round(1000 * before))
        for tick in ticks:
            time_ms = BASE_TIME_MS + round(1000 * tick.at_seconds)
            for _ in range(tick.rows):
                yield generator.row(time_ms)

    pack = Packer(rows())
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        for count in (*lumps, *(tick.rows for tick in ticks)):
            pickle.dump(pack(count), file, pickle.HIGHEST_PROTOCOL)
    part.replace(path)


def read_parcels(path: Path) -> Parcels:
    """What ``write_parcels`` wrote, one after the other, as they were asked for."""
    file = path.open("rb")

    def following(rows: int) -> Parcel:
        parcel: Parcel = pickle.load(file)
        if sum(parcel.rows.values()) != rows:
            raise ValueError(f"{path}: {parcel.rows} come next, not {rows} rows")
        return parcel

    return following
