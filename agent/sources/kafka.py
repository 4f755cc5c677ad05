"""Offsets and retention asked of Kafka brokers: how far topics reach at both ends, now.

confluent-kafka (librdkafka) is an extra, ``weir-agent[kafka]``. Its options, SASL and TLS among
them, come from a file of ``key=value`` lines as its own tools read; what stands there is never
logged.
"""

from __future__ import annotations

import re
import time
from collections import deque
from concurrent.futures import TimeoutError as NoAnswer  # before 3.11 not the built-in one
from typing import TYPE_CHECKING, Any, Final

from agent.core.decode.kafka_offsets import Held
from agent.core.names import first_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

REQUEST_SECONDS: Final = 5.0
#: The client's own time-out comes first then, with what other brokers have answered.
WAIT_SECONDS: Final = 2.0 * REQUEST_SECONDS
#: The longest pause until a connection that failed is tried again.
RECONNECT_SECONDS: Final = 2.0
#: A connection that is asked for is tried again within it, and fails again: of one that did not,
#: the reason is over once brokers answer.
REASON_SECONDS: Final = REQUEST_SECONDS + RECONNECT_SECONDS
#: Options of a client that are this module's own business.
_OURS: Final = frozenset({"bootstrap.servers"})
#: Options whose values are Python's: the client ends over some, and over a logger only later.
_CODE: Final = frozenset(
    {"default.topic.config", "error_cb", "logger", "oauth_cb", "stats_cb", "throttle_cb"}
)
_SECRET: Final = ("password", "passphrase", "secret", "token", "key.pem", "jaas")

#: Stands beside each offset that Weir writes into a group: what has another is not Weir's.
GROUP_MARK: Final = "weir"

Place = tuple[str, str]  # (topic, partition)


class KafkaUnavailable(Exception):  # noqa: N818
    """The brokers do not answer, or refuse; one line, without what the options hold."""


class GroupRefused(Exception):  # noqa: N818
    """A consumer group that must not or cannot be written to; why, in a few words."""


def read_options(path: Path) -> dict[str, str]:
    """Client options of a properties file.

    Raises ValueError naming file and line, never the value. Raises OSError.
    """
    options: dict[str, str] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith(("#", "!")):
            continue
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ValueError(f"{path}:{number}: not of the form key=value")
        if key in _OURS:
            raise ValueError(f"{path}:{number}: {key} is set by kafka_bootstrap_servers")
        if key in _CODE:
            raise ValueError(f"{path}:{number}: {key} takes Python's own objects, and no text")
        options[key] = value.strip()
    return options


class Brokers:
    """One cluster. Blocking calls with a bounded time: for a thread of their own."""

    def __init__(self, bootstrap_servers: str, options: Mapping[str, str]) -> None:
        """Raises ValueError, naming the key, where the extra is missing or an option is wrong."""
        try:
            from confluent_kafka import KafkaError, KafkaException
            from confluent_kafka.admin import AdminClient
        except ImportError:
            raise ValueError(
                "kafka_bootstrap_servers: asking brokers needs confluent-kafka: pip install "
                "confluent-kafka"
            ) from None
        self._failure = KafkaException
        self._bootstrap = bootstrap_servers
        # Why a connection failed the client tells apart from the request that fails of it, and of
        # a token that cannot be had not again: the newest is kept, with its time, until all is
        # answered, or something is and it is old.
        reasons: deque[tuple[float, Any]] = deque(maxlen=1)

        def tell(error: Any) -> None:
            """By ``poll``, in the thread that calls it."""
            if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - its public name
                reasons.append((time.monotonic(), error))

        self._reasons = reasons
        settings: dict[str, Any] = {
            "socket.timeout.ms": int(REQUEST_SECONDS * 1000),
            "reconnect.backoff.max.ms": int(RECONNECT_SECONDS * 1000),
            "log_level": 2,
            **options,
            "bootstrap.servers": bootstrap_servers,
            # A producer's default, as which the client counts, has brokers make a topic that was
            # just deleted anew (KAFKA-10606).
            "allow.auto.create.topics": "false",
            "error_cb": tell,  # said once, by whoever asks
        }
        try:
            self._admin = AdminClient(settings)
        except (KafkaException, TypeError, ValueError) as error:
            raise ValueError(f"kafka_options_file: {_said(error, options)}") from None
        self._options = dict(options)

    def partitions(self, topics: Iterable[str]) -> list[Place]:
        """Every partition of those topics that exist. Raises KafkaUnavailable."""
        wanted = set(topics)
        self._admin.poll(0)  # else the client keeps every error that it would have told
        try:
            known = self._admin.list_topics(timeout=REQUEST_SECONDS).topics
        except self._failure as error:
            raise self._unavailable(error) from None
        self._answered()
        return [
            (name, str(partition))
            for name, topic in known.items()
            if name in wanted and topic.error is None
            for partition in topic.partitions
        ]

    def held(self, places: Iterable[Place]) -> dict[Place, Held]:
        """What is kept of each; a partition whose broker does not answer is left out.

        Raises KafkaUnavailable where none answers.
        """
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        marks = [TopicPartition(topic, int(partition)) for topic, partition in places]
        if not marks:
            return {}
        kinds = (
            (OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
            (OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
            (OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
        )
        try:
            asked = [
                self._admin.list_offsets(
                    dict.fromkeys(marks, spec),
                    isolation_level=isolation,
                    request_timeout=REQUEST_SECONDS,
                )
                for spec, isolation in kinds  # at once: one that hangs makes none wait longer
            ]
        except self._failure as error:
            raise self._unavailable(error) from None
        until = time.monotonic() + WAIT_SECONDS
        found: list[dict[Place, int]] = []
        failure: BaseException | None = None
        for answers in asked:
            offsets: dict[Place, int] = {}
            for mark, answer in answers.items():
                try:
                    offset = answer.result(max(0.0, until - time.monotonic())).offset
                except (self._failure, NoAnswer) as error:
                    failure = error
                    continue
                if offset >= 0:  # else a broker that fell silent, of which the client says nothing
                    offsets[mark.topic, str(mark.partition)] = offset
            found.append(offsets)
        earliest, latest, stable = found
        both = earliest.keys() & latest.keys()
        if len(both) == len(marks):
            self._reasons.clear()
        if not both:
            raise self._unavailable(NoAnswer() if failure is None else failure)
        return {
            place: Held(earliest[place], latest[place], stable.get(place, latest[place]))
            for place in both
        }

    def retention_seconds(self, topics: Iterable[str]) -> dict[str, float | None]:
        """By topic, how long rows are kept; those that are not deleted by age are left out.

        None: brokers do not tell of its configuration. Raises KafkaUnavailable.
        """
        from confluent_kafka import KafkaError
        from confluent_kafka.admin import ConfigResource

        resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
        if not resources:
            return {}
        kept: dict[str, float | None] = {}
        answers = self._admin.describe_configs(resources, request_timeout=REQUEST_SECONDS)
        until = time.monotonic() + WAIT_SECONDS
        for resource, answer in answers.items():
            try:
                config = answer.result(max(0.0, until - time.monotonic()))
            except NoAnswer as error:
                raise self._unavailable(error) from None
            except self._failure as error:
                code = error.args[0].code()
                # The client's own word: no broker answered. Or they are too old to be asked.
                if code < 0 and code != KafkaError._UNSUPPORTED_FEATURE:  # noqa: SLF001
                    raise self._unavailable(error) from None
                kept[resource.name] = None
                continue
            policy = config["cleanup.policy"].value if "cleanup.policy" in config else "delete"
            entry = config.get("retention.ms")
            if entry is None or "delete" not in str(policy):
                continue
            try:
                milliseconds = int(entry.value)
            except (TypeError, ValueError):  # brokers that only speak Kafka's protocol say null
                kept[resource.name] = None
                continue
            if milliseconds >= 0:
                kept[resource.name] = milliseconds / 1000.0
        return kept

    def write_group(self, group: str, offsets: Mapping[Place, int]) -> None:
        """Puts offsets into a consumer group without members.

        It is looked up each time whose they are: somebody may have come and gone since. Raises
        GroupRefused where the group is somebody else's or has members, or where brokers do not take
        it, or a partition of it; KafkaUnavailable.
        """
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        marks = [
            TopicPartition(topic, int(partition), offset, metadata=GROUP_MARK)
            for (topic, partition), offset in offsets.items()
        ]
        there = self._group(self._admin.list_consumer_group_offsets, group, None)
        if any(mark.offset >= 0 and mark.metadata != GROUP_MARK for mark in there):
            raise GroupRefused("it holds offsets that Weir did not write")
        request = ConsumerGroupTopicPartitions(group, marks)
        told = self._group(self._admin.alter_consumer_group_offsets, group, request)
        refused = [mark for mark in told if mark.error is not None]
        if refused:
            raise self._refused(refused, len(told))

    def _group(self, ask: Any, group: str, request: Any) -> Any:
        from confluent_kafka import ConsumerGroupTopicPartitions

        self._admin.poll(0)  # as in ``partitions``
        try:
            answers = ask(
                [request or ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_SECONDS
            )
            told = answers[group].result(WAIT_SECONDS).topic_partitions
        except self._failure as error:
            # Above 0 it is a broker's own word, of this group alone.
            if error.args[0].code() > 0 and error.args[0].code() not in _moving():
                self._answered()
                raise GroupRefused(_said(error, self._options)) from None
            raise self._unavailable(error) from None
        except NoAnswer as error:
            raise self._unavailable(error) from None
        self._answered()
        return told

    def _answered(self) -> None:
        """By some broker: another one's connection may still fail, and tells so again."""
        if self._reasons and time.monotonic() - self._reasons[-1][0] > REASON_SECONDS:
            self._reasons.clear()

    def _refused(self, marks: list[Any], asked: int) -> GroupRefused:
        """``marks``: the partitions, of so many that were asked; brokers took the others."""
        from confluent_kafka import KafkaError

        first = marks[0]
        if first.error.code() in {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP}:
            return GroupRefused("it has members")
        said = _said(self._failure(first.error), self._options)
        more = f" and {len(marks) - 1} more" if len(marks) > 1 else ""
        rest = "" if len(marks) == asked else f"; {asked - len(marks)} others were written"
        return GroupRefused(f"{first.topic}-{first.partition}{more}: {said}{rest}")

    def _unavailable(self, error: BaseException) -> KafkaUnavailable:
        silent = isinstance(error, NoAnswer)
        said = "no answer" if silent else _said(error, self._options)
        self._admin.poll(0)  # has the client tell what it keeps
        if self._reasons and (silent or error.args[0].code() < 0):  # else a broker's own word
            said = f"{said}; {_said(self._failure(self._reasons[-1][1]), self._options)}"
        return KafkaUnavailable(f"{self._bootstrap}: {said}")


def _moving() -> set[int]:
    """What brokers say of a group that is on its way from one of them to another."""
    from confluent_kafka import KafkaError

    return {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }


def _said(error: BaseException, options: Mapping[str, str]) -> str:
    """A client's own words, in one line, without any value that an option holds."""
    first = error.args[0] if error.args else error
    text = str(first.str() if hasattr(first, "str") else first) or type(error).__name__
    for key, value in sorted(options.items(), key=lambda option: -len(option[1])):
        if value and any(mark in key.lower() for mark in _SECRET):
            text = text.replace(value, "***")
        elif value:  # may be a word, as "ssl" is, and a part of many
            text = re.sub(rf"(?<![\w.-]){re.escape(value)}(?![\w-]|\.\w)", "***", text)
    return first_line(text)
