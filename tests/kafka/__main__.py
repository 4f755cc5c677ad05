"""A Kafka broker to try Weir on, with a topic whose rows come in bursts, until Ctrl-C.

    python -m tests.kafka [--port 9092] [--rows-per-second 500] [--burst-rows 200000]

Needs `make kafka`. Its data lies in .make/broker, anew with each start.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

from confluent_kafka import Producer

from tests.kafka.broker import JARS, Broker, is_there

FOLDER = JARS.parent / "broker"
TOPIC = "orders"
PARTITIONS = 3
#: Between two bursts: time enough to see one worked off.
BURST_EVERY_SECONDS = 60.0
_CUSTOMERS = 1000


def main(arguments: list[str]) -> int:
    """Runs until it is interrupted; 2 where it cannot."""
    parser = argparse.ArgumentParser(prog="make broker", description=__doc__)
    parser.add_argument("--port", type=int, default=9092)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--rows-per-second", type=int, default=500)
    parser.add_argument("--burst-rows", type=int, default=200_000)
    given = parser.parse_args(arguments)
    if not is_there():
        sys.stderr.write("weir: the broker's jars are missing: make kafka\n")
        return 2
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", given.port)) == 0:
            sys.stderr.write(f"weir: something listens on port {given.port} already: --port N\n")
            return 2
    shutil.rmtree(given.folder, ignore_errors=True)
    # However it is ended, the broker ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with Broker(given.folder, port=given.port) as broker:
            broker.create_topic(TOPIC, PARTITIONS)
            _say(broker)
            _feed(broker, given.rows_per_second, given.burst_rows)
    except KeyboardInterrupt:
        return 0
    except RuntimeError as error:
        sys.stderr.write(f"weir: {error}\n")
        return 2


def _say(broker: Broker) -> None:
    jars = os.path.relpath(JARS / "connector-4")
    sys.stdout.write(
        f"Kafka at {broker.bootstrap}, topic {TOPIC!r}, {PARTITIONS} partitions. Ctrl-C ends it.\n"
        "In another terminal:\n\n"
        f'  connector=$(printf "%s," {jars}/*.jar)\n'
        '  spark-submit --jars "$connector$(weir plugin)" \\\n'
        "    --conf spark.extraListeners=weir.WeirPlugin \\\n"
        f"    examples/kafka/job.py {broker.bootstrap}\n\n"
    )
    sys.stdout.flush()


def _feed(broker: Broker, rows_per_second: int, burst_rows: int) -> None:
    """Rows evenly, and a burst now and then; says so on one line."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20, "log_level": 0})
    draw = random.Random(1)
    written, next_burst = 0, time.monotonic() + BURST_EVERY_SECONDS / 2
    while True:
        began = time.monotonic()
        burst = began >= next_burst
        if burst:
            next_burst = began + BURST_EVERY_SECONDS
        for _ in range(rows_per_second + (burst_rows if burst else 0)):
            row = {"customer": draw.randrange(_CUSTOMERS), "cents": draw.randrange(10_000)}
            while True:
                try:
                    producer.produce(TOPIC, json.dumps(row))
                    break
                except BufferError:
                    producer.poll(0.1)
            written += 1
        producer.flush(20)
        said = f"{written:,} rows written{', a burst among them' if burst else ''}"
        sys.stdout.write(f"\r{said:<50}" if sys.stdout.isatty() else f"{said}\n")
        sys.stdout.flush()
        time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
