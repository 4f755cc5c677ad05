"""What a soak's queries read, each row by its number, and whether their sinks hold each once."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer

from tests.benchmarks.soak.job import DELAY_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.broker import Broker

#: Rows a second, and rows of a file.
RATES: Final = {"orders": 40.0, "windows": 20.0, "files": 20.0, "nightly": 10.0}
#: By query its topic and the topic's partitions. Clicks keep their order, so that none is late.
TOPICS: Final = {"orders": ("orders", 3), "windows": ("clicks", 1)}
ROWS_PER_FILE: Final = 40
#: Event time of the first click, and how far each goes on, in seconds.
BEGIN: Final = datetime(2030, 1, 1, tzinfo=timezone.utc)
CLICK_SECONDS: Final = 0.25
FLUSH: Final = -1  # number of the row so far ahead that it closes every window; it is in none


class Rows:
    """What has been produced of each, and what was counted. Topics and folders have to be there."""

    def __init__(self, folder: Path, broker: Broker, seed: int) -> None:
        self.produced: Counter[str] = Counter()
        self._folder = folder
        self._broker = broker
        self._draw = random.Random(f"rows {seed}")
        self._due: dict[str, float] = dict.fromkeys(RATES, 0.0)
        # Each row once and in order, however often the broker goes away meanwhile.
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 900_000,
                "reconnect.backoff.max.ms": 1000,
                "log_level": 0,
            }
        )

    def produce(self, seconds: float) -> None:
        """What arrives in so many seconds."""
        for name, rate in RATES.items():
            self._due[name] += rate * seconds
            while self._due[name] >= 1.0:
                count = 1 if name in TOPICS else ROWS_PER_FILE
                self._due[name] -= count
                numbers = range(self.produced[name], self.produced[name] + count)
                if name == "orders":
                    self._send("orders", str(numbers[0]))
                elif name == "windows":
                    self._click(numbers[0], self._draw.uniform(0.0, DELAY_SECONDS - 1.0))
                else:
                    self._put(self._folder / "in" / name, numbers)
                self.produced[name] += count
        self._producer.poll(0)

    def close_windows(self) -> None:
        """One click so far ahead that every window of the others is complete."""
        self._click(FLUSH, -86_400.0)
        assert not self._producer.flush(120.0), "the broker takes no rows"

    def _click(self, number: int, late_seconds: float) -> None:
        at = CLICK_SECONDS * self.produced["windows"] - late_seconds
        time_text = (BEGIN + timedelta(seconds=at)).isoformat(timespec="milliseconds")
        self._send("clicks", json.dumps({"id": number, "t": time_text}))

    def _send(self, topic: str, value: str) -> None:
        # In turn: a key or chance would let partitions drift apart.
        partitions = dict(TOPICS.values())[topic]
        turn = self.produced["orders"] % partitions
        self._producer.produce(topic, value, partition=turn)

    @staticmethod
    def _put(place: Path, numbers: range) -> None:
        path = place / f"{numbers[0]:09d}.json"
        part = place / f".{path.name}"
        part.write_text("".join(f'{{"id": {number}}}\n' for number in numbers))
        part.rename(path)

    def sent_twice(self) -> int:
        """Rows that Kafka holds beyond what was produced; the flush is one."""
        held = sum(sum(self._broker.end_offsets(topic).values()) for topic, _ in TOPICS.values())
        return held - 1 - sum(self.produced[name] for name in TOPICS)

    def counted(self, name: str) -> tuple[int, int]:
        """Rows of a query that are missing, and those that were counted more than once or never
        came."""
        found: Counter[int] = Counter()
        for path in (self._folder / "out" / name).glob("*.json"):
            found.update(json.loads(path.read_text()))
        right = sum(1 for number in range(self.produced[name]) if number in found)
        return self.produced[name] - right, sum(found.values()) - right
