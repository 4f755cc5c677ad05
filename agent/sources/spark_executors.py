"""Executor lines of a Spark event log: which came, with how many cores, and which went."""

from __future__ import annotations

from typing import Final

import msgspec

from agent.sources.spark_events import Count, Moment

#: How the lines begin; Spark writes ``Event`` first, without spaces.
ADDED: Final = b'{"Event":"SparkListenerExecutorAdded"'
REMOVED: Final = b'{"Event":"SparkListenerExecutorRemoved"'
#: With a local master the driver itself runs the tasks, and is told as an executor of this name.
DRIVER: Final = "driver"


class ExecutorSeen(msgspec.Struct, frozen=True):
    """One came or went; ``cores`` is None where it went."""

    time: float  # epoch seconds
    name: str
    cores: int | None


class _Info(msgspec.Struct, rename={"cores": "Total Cores"}):
    cores: Count


class _Line(
    msgspec.Struct, rename={"time": "Timestamp", "name": "Executor ID", "info": "Executor Info"}
):
    time: Moment
    name: str
    info: _Info | None = None


_decode: Final = msgspec.json.Decoder(_Line).decode


def wanted(line: bytes) -> bool:
    """Whether a line tells of an executor that came or went."""
    return line.startswith((ADDED, REMOVED))


def read(line: bytes) -> ExecutorSeen | None:
    """What it tells; None of the driver. Raises ValueError where it cannot be used."""
    told = _decode(line)
    if told.name == DRIVER:
        return None
    came = told.info if line.startswith(ADDED) else None
    if line.startswith(ADDED) and came is None:
        raise ValueError("Executor Info: is missing")
    cores = None if came is None else max(came.cores, 1)
    return ExecutorSeen(told.time / 1000.0, told.name[:100], cores)
