"""Kafka's offsets in progress: ``{"topic": {"partition": offset}}``, as object or as text.

The API gives an object, the event log the same as a text. Anything else (a file source's
``logOffset``, a rate source's number) is not Kafka's and gives None: no guess.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection

#: No topic comes near it; a sum of offsets stays within what can be saved.
MOST_OFFSET = 2**53
Offsets = dict[tuple[str, str], int]
#: In no name of a topic, of Apache's broker or of others that speak so; ``project#store`` is
#: Alibaba's LogHub, which counts seconds.
_NO_TOPIC: Final = "#"
#: The longest text that Kafka's protocol carries. Apache's broker has names of 249 letters at most,
#: others that speak so have longer ones.
_MOST_TOPIC_BYTES: Final = 2**15 - 1
#: Partitions are numbers of 32 bits with a sign.
_MOST_PARTITIONS: Final = 2**31
#: How Spark describes its sources for Kafka: ``KafkaV2[Subscribe[orders]]``.
_OF_KAFKA: Final = re.compile(r"Kafka\w*(\[|\Z)")
#: How Spark describes a source with the option ``assign``: ``KafkaV2[Assign[orders-0, orders-1]]``.
_ASSIGNED: Final = re.compile(r"\w+\[Assign\[")


class Held(msgspec.Struct, frozen=True, gc=False):
    """What a broker holds of a partition: the oldest offset, and the one after the newest."""

    earliest: int
    latest: int
    stable: int | None = None  # up to where no transaction is open; None: up to the end


class Reading(msgspec.Struct, frozen=True, gc=False):
    """How far a checkpoint has read, and planned: the next offset by partition, by source."""

    offsets: dict[int, Offsets]  # at the end of the newest batch that ended
    planned: dict[int, Offsets] = {}  # at the end of the one that runs, where that is known
    assigned: list[int] = []  # sources that read the partitions of their offsets and no others
    query_id: str = ""  # whose checkpoint: another one begins elsewhere
    ends: dict[int, Offsets] = {}  # where that batch's planning saw each source end
    planned_time: float = 0.0  # when that was, by the driver's clock
    rests_seconds: float = 0.0  # so long it reads nothing between two batches, and goes on
    gone: bool = False  # nothing more is planned
    current: bool = True  # or gone: else it may have read on, and nobody was there to hear it

    def reached(self, source: int) -> Offsets:
        """As far as the query has seen each partition of a source reach."""
        found: Offsets = {}
        for said in (self.offsets, self.planned, self.ends):
            for place, offset in said.get(source, {}).items():
                found[place] = max(offset, found.get(place, offset))
        return found


def parse_offsets(value: object) -> Offsets | None:
    """Offsets by (topic, partition), or None where the value is not Kafka's."""
    if isinstance(value, str):
        if not value.startswith("{"):
            return None
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return None
    if not isinstance(value, dict) or not value:
        return None
    offsets: Offsets = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict) or not partitions:
            return None
        if not isinstance(topic, str) or not _is_topic(topic):
            return None
        for partition, offset in partitions.items():
            if isinstance(offset, bool) or not isinstance(offset, int):
                return None
            if not -MOST_OFFSET < offset < MOST_OFFSET:
                return None
            if not isinstance(partition, str) or not _is_partition(partition):
                return None
            offsets[topic, partition] = offset
    return offsets


def are_places(names: Collection[tuple[str, str]]) -> bool:
    """Whether ``parse_offsets`` takes each (topic, partition) of them for one."""
    topics, partitions = zip(*names, strict=True) if names else ((), ())
    return all(map(_is_topic, set(topics))) and all(map(_is_partition, set(partitions)))


def _is_topic(name: str) -> bool:
    """Whether it may be asked about: a client refuses what is none, and all asked with it."""
    if not name or _NO_TOPIC in name or not name.isprintable():
        return False
    return len(name.encode()) <= _MOST_TOPIC_BYTES


def _is_partition(text: str) -> bool:
    plain = text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_PARTITIONS))
    return plain and int(text) < _MOST_PARTITIONS


def is_kafka(description: str) -> bool:
    """Whether a source is Spark's for Kafka, as it describes itself.

    Others' offsets may look alike: what they count nobody knows, and Spark tells as the newest
    offset of some the one that a batch was planned up to (every ``Source`` of its first interface,
    as Event Hubs' own connector).
    """
    return _OF_KAFKA.match(description) is not None


def is_assigned(description: str) -> bool:
    """Whether a source reads partitions given by number: those of its topics beside them never."""
    return _ASSIGNED.match(description) is not None


def admitted_rows(start: Offsets | None, end: Offsets | None) -> int | None:
    """Rows between two offsets; None where ``end`` names a new partition: its start is unknown.

    A sum without it would be a part taken for the whole.
    """
    if start is None or end is None or grown(start, end):
        return None
    return _bounded(sum(max(0, end[key] - start[key]) for key in end.keys() & start.keys()))


def grown(start: Offsets | None, end: Offsets | None) -> bool:
    """Whether a batch read partitions that its query had not read before."""
    return start is not None and end is not None and not end.keys() <= start.keys()


def remaining_rows(end: Offsets | None, latest: Offsets | None) -> int | None:
    """Backlog in rows: latest minus end, summed over the partitions that both name."""
    if end is None or latest is None:
        return None
    return _bounded(sum(max(0, latest[key] - end[key]) for key in latest.keys() & end.keys()))


def position_of(offsets: Offsets | None) -> int | None:
    """How far a query has read: its offsets summed; each batch starts where the last one ended."""
    return None if offsets is None else _bounded(sum(offsets.values()))


def _bounded(rows: int) -> int:
    return max(-MOST_OFFSET, min(rows, MOST_OFFSET))
