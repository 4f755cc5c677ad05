"""A real Kafka broker for tests: one node in KRaft mode on free loopback ports.

    with Broker(tmp_path / "kafka") as broker:
        broker.create_topic("orders", partitions=3)
        broker.produce("orders", ["a", "b"])
        broker.end_offsets("orders")  # {0: 1, 1: 0, 2: 1}

Its jars come from ``make kafka``. A broker keeps its port and its data through ``kill`` and
``restart``. Fixtures are in tests/conftest.py.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Future

    from typing_extensions import Self

JARS = Path(__file__).resolve().parents[2] / ".make" / "kafka"
START_SECONDS = 60.0
_REQUEST_SECONDS = 20.0


class Broker:
    """One broker with a folder of its own; a context manager that starts and ends it.

    ``settings`` are added to server.properties. The folder may hold an earlier broker's data.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, *, port: int | None = None
    ) -> None:
        self.folder = folder
        free, self._controller_port = free_ports(2)
        self.port = free if port is None else port
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """For ``kafka.bootstrap.servers``."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Its process; raises AssertionError where none runs."""
        assert self._process is not None, "it does not run"
        return self._process.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    # Life

    def start(self) -> None:
        """Starts it, and returns when it answers. Raises RuntimeError with the end of its log."""
        assert self._process is None, "it runs already"
        properties = self._write_properties()
        if not (self.folder / "data" / "meta.properties").exists():
            # Not at random: one in sixty would begin with a dash, which looks like an option.
            cluster = base64.urlsafe_b64encode(b"weir-test-kafka!").decode().rstrip("=")
            self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", properties).wait()
        self._process = self._java("kafka.Kafka", properties)
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise RuntimeError(f"the broker does not start; its log ends:\n{self._log_end()}")

    def stop(self) -> None:
        """An orderly end, as an operator's SIGTERM."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def kill(self) -> None:
        """SIGKILL, as a machine that dies."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Up again on the same port with the same data, whether it runs or not."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Hangs: connections stay open, nothing is answered, until ``resume``."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Ends ``pause``."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    # Topics

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """A new topic, ready for use; ``config`` as in ``retention.ms``."""
        topic = NewTopic(name, partitions, 1, config=dict(config or {}))
        _wait(self._admin.create_topics([topic]))
        until = time.monotonic() + _REQUEST_SECONDS
        while self.partitions(name) != partitions and time.monotonic() < until:
            time.sleep(0.02)

    def delete_topic(self, name: str) -> None:
        """Deletes it, with its rows."""
        _wait(self._admin.delete_topics([name]))

    def add_partitions(self, name: str, total: int) -> None:
        """Raises the topic's number of partitions to ``total``; Kafka can't lower it."""
        _wait(self._admin.create_partitions([NewPartitions(name, total)]))

    def configure_topic(self, name: str, config: Mapping[str, str]) -> None:
        """Sets the given options of a topic, as ``retention.ms``, and leaves the others."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
        _wait(self._admin.incremental_alter_configs([resource]))

    def delete_rows_before(self, name: str, offsets: Mapping[int, int]) -> None:
        """Deletes rows below an offset, by partition: what retention does, at once."""
        marks = [TopicPartition(name, partition, offset) for partition, offset in offsets.items()]
        _wait(self._admin.delete_records(marks))

    def partitions(self, name: str) -> int:
        """How many partitions it has; 0 where there is no such topic."""
        topic = self._admin.list_topics(name, timeout=_REQUEST_SECONDS).topics.get(name)
        return 0 if topic is None or topic.error is not None else len(topic.partitions)

    # Rows

    def produce(
        self,
        topic: str,
        values: Iterable[str | bytes],
        *,
        key: str | None = None,
        partition: int | None = None,
    ) -> None:
        """Writes values, all acknowledged on return; without ``partition`` in turn over all."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        count = self.partitions(topic)
        failures: list[str] = []

        def delivered(error: object, _: object) -> None:
            if error is not None:
                failures.append(str(error))

        for number, value in enumerate(values):
            to = number % count if partition is None else partition
            while True:
                try:
                    producer.produce(topic, value, key, to, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
        left = producer.flush(_REQUEST_SECONDS)
        if failures or left:
            raise RuntimeError(f"{topic}: {left} rows not acknowledged; {failures[:3]}")

    def group(self, name: str) -> dict[tuple[str, str], int]:
        """A consumer group's offsets, by (topic, partition), as Kafka's own command shows them."""
        path = self.folder / f"group-{uuid.uuid4()}"
        command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        asked = ("--bootstrap-server", self.bootstrap, "--group", name, "--describe", "--offsets")
        with path.open("wb") as out:
            self._java(command, *asked, out=out).wait(_REQUEST_SECONDS * 3)
        rows = [line.split() for line in path.read_text().splitlines()]
        return {
            (row[1], row[2]): int(row[3])
            for row in rows
            if len(row) > 5 and row[0] == name and row[3].isdigit()
        }

    def end_offsets(self, topic: str) -> dict[int, int]:
        """By partition, the offset that the next row gets."""
        return {partition: high for partition, (_, high) in self._watermarks(topic).items()}

    def beginning_offsets(self, topic: str) -> dict[int, int]:
        """By partition, the offset of the oldest row that is still there."""
        return {partition: low for partition, (low, _) in self._watermarks(topic).items()}

    def read(self, topic: str, *, isolation: str = "read_committed") -> list[tuple[int, str]]:
        """Every row that is there now: (partition, value), in order within a partition."""
        ends = self.end_offsets(topic)
        consumer = self._consumer(isolation)
        rows: list[tuple[int, str]] = []
        try:
            marks = [TopicPartition(topic, partition, 0) for partition in ends]
            consumer.assign(marks)
            until = time.monotonic() + _REQUEST_SECONDS
            open_ones = {partition for partition, end in ends.items() if end > 0}
            while open_ones:
                if time.monotonic() > until:
                    raise TimeoutError(f"{topic}: partitions {sorted(open_ones)} not read through")
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    rows.append((message.partition(), message.value().decode()))
                # Aborted rows and markers move the position without giving a message.
                for mark in consumer.position(marks):
                    if mark.offset >= ends[mark.partition]:
                        open_ones.discard(mark.partition)
        finally:
            consumer.close()
        return rows

    # Parts

    def _watermarks(self, topic: str) -> dict[int, tuple[int, int]]:
        consumer = self._consumer("read_uncommitted")
        try:
            return {
                partition: consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=_REQUEST_SECONDS
                )
                for partition in range(self.partitions(topic))
            }
        finally:
            consumer.close()

    def _consumer(self, isolation: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"test-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": isolation,
            }
        )

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient(
            {
                "bootstrap.servers": self.bootstrap,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,  # that a broker is not up yet is no news here
            }
        )

    def _answers(self) -> bool:
        try:
            return bool(self._admin.list_topics(timeout=1.0).brokers)
        except KafkaException:
            return False

    def _java(
        self, main: str, *arguments: str | Path, out: IO[bytes] | None = None
    ) -> subprocess.Popen[bytes]:
        home = os.environ.get("JAVA_HOME")
        java = f"{home}/bin/java" if home else shutil.which("java") or "java"
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [
                    *(java, "-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                    *("-cp", f"{JARS / 'broker'}/*", main, *map(str, arguments)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log if out is None else out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is the tests', which then end it
            )

    def _write_properties(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        own, controller = f"127.0.0.1:{self.port}", f"127.0.0.1:{self._controller_port}"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{own},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{own}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            # One node: nothing can be replicated, and few partitions start sooner.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # So that a test of retention need not wait five minutes.
            "log.retention.check.interval.ms": "1000",
            "log.initial.task.delay.ms": "500",
            **self._settings,
        }
        path = self.folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return path

    def _log_end(self) -> str:
        return "\n".join((self.folder / "log").read_text(errors="replace").splitlines()[-15:])


def connector(spark_version: str) -> str:
    """For ``spark.jars``: what a Spark of this version needs to read and write Kafka."""
    names = (f"connector-{spark_version}", f"connector-{spark_version[:3]}", "connector-4")
    name = next((own for own in names if (JARS / own).exists()), "connector-4")
    return ",".join(map(str, sorted((JARS / name).glob("*.jar"))))


def delta(spark_version: str) -> str:
    """For ``spark.jars``: Delta Lake for a Spark of this version; empty where there is none."""
    return ",".join(map(str, sorted((JARS / f"delta-{spark_version[:3]}").glob("*.jar"))))


def icebergs(spark_version: str) -> dict[str, str]:
    """By its release, Iceberg's jar for a Spark of this version."""
    line = f"iceberg-{spark_version[:3]}-"
    found = {folder.name.removeprefix(line): folder for folder in JARS.glob(f"{line}*/")}
    order = sorted(found, key=lambda release: [int(part) for part in release.split(".")])
    return {release: str(next(iter(found[release].glob("*.jar")))) for release in order}


def is_there() -> bool:
    """Whether ``make kafka`` has been run to its end."""
    return all((JARS / name / ".made").exists() for name in ("broker", "connector-4"))


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _wait(futures: Mapping[Any, Future[Any]]) -> None:
    for future in futures.values():
        future.result(_REQUEST_SECONDS)
