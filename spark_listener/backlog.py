"""How much waits at a source, from what progress tells. Pure; unknown is None, never zero."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spark_listener.sources import known

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_listener.wire import Unit


@dataclass(frozen=True)
class Left:
    """Of a table, in a limit's unit: what a batch read, and what it left; None where not known."""

    admitted: int | None
    backlog: int | None
    exact: bool = False  # else a lower bound
    observed_time: str | None = None  # None: when the batch was planned
    partial: bool = False  # a bound that grows while what was there before is found


UNKNOWN: Final = Left(None, None)

#: What sources that know their backlog call it in ``sources[].metrics``: Delta Lake's names, and
#: those of Databricks' Auto Loader and Kafka.
_METRICS: Final[Mapping[str, tuple[str, ...]]] = {
    "files": ("numFilesOutstanding",),
    "bytes": ("numBytesOutstanding", "estimatedTotalBytesBehindLatest"),
    "rows": ("numRowsOutstanding",),
}


def backlog_of(source: Mapping[str, Any], source_class: str, unit: Unit) -> int | None:
    """Units left at the source when the batch was planned, or None where progress is silent."""
    if known(source_class).kafka_offsets:
        return offsets_between(source.get("endOffset"), source.get("latestOffset"))
    metrics = source.get("metrics")
    if isinstance(metrics, dict):
        return waiting_of(metrics, unit)
    return None


def waiting_of(metrics: Mapping[str, Any], unit: Unit) -> int | None:
    """Units left as a source's own metrics tell; None where they don't.

    Auto Loader counts the files that it has listed. Where it is told of files by a queue, as many
    more wait there as the queue says that it holds, roughly.
    """
    said = (whole(metrics.get(name)) for name in _METRICS[unit])
    listed = next((count for count in said if count is not None), None)
    if listed is None or unit != "files":
        return listed
    return listed + (whole(metrics.get("approximateQueueSize")) or 0)


def told_whole(metrics: Mapping[str, Any]) -> bool:
    """Whether the figures are of all that waits: Auto Loader says where it is still listing."""
    return str(metrics.get("isBacklogComputationComplete", "true")).lower() != "false"


def admitted_of(source: Mapping[str, Any], source_class: str, unit: Unit) -> int | None:
    """Units taken into the batch, or None where progress is silent."""
    if known(source_class).kafka_offsets:
        return _taken(source.get("startOffset"), source.get("endOffset"))
    if unit == "rows":
        return whole(source.get("numInputRows"))
    if unit == "files":
        return files_between(source.get("startOffset"), source.get("endOffset"))
    return None


def files_between(start: Any, end: Any) -> int | None:
    """Files from ``start`` to ``end``, both Auto Loader's offsets; None for any other's.

    Its ``seqNum`` is the place in the sequence of files in the order in which it found them.
    """
    first, last = _place(start), _place(end)
    return None if first is None or last is None or last < first else last - first


def offsets_between(start: Any, end: Any) -> int | None:
    """Records from ``start`` to ``end``, both Kafka offsets, over the partitions that both name.

    A partition that runs backwards (a recreated topic) counts as nothing.
    """
    first, last = _offsets(start), _offsets(end)
    return None if first is None or last is None else _records(first, last)


def _taken(start: Any, end: Any) -> int | None:
    """As ``offsets_between``; None where a partition is new: it may hold most of what was taken."""
    first, last = _offsets(start), _offsets(end)
    if first is None or last is None or not last.keys() <= first.keys():
        return None
    return _records(first, last)


def _records(first: dict[tuple[str, str], int], last: dict[tuple[str, str], int]) -> int:
    return sum(max(0, last[place] - first[place]) for place in last.keys() & first.keys())


def log_offset(value: Any) -> int | None:
    """The place in a file source's own log that an offset of progress names."""
    parsed = _parsed(value)
    return whole(parsed.get("logOffset")) if isinstance(parsed, dict) else None


def _place(value: Any) -> int | None:
    parsed = _parsed(value)
    return whole(parsed.get("seqNum")) if isinstance(parsed, dict) else None


def _offsets(value: Any) -> dict[tuple[str, str], int] | None:
    parsed = _parsed(value)
    if not isinstance(parsed, dict) or not parsed:
        return None
    found: dict[tuple[str, str], int] = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, dict):
            return None
        for partition, offset in partitions.items():
            if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                return None
            found[str(topic), str(partition)] = offset
    return found


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def whole(value: Any) -> int | None:
    """A count from 0 on, as a number or as text; None where it is none."""
    if isinstance(value, bool):
        return None
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number >= 0 else None
