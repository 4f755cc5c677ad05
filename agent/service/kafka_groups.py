"""Consumer groups written by the clock: the lag of queries where Kafka's own tools look for it.

One thread at a time writes, with a bounded time. Nothing depends on it: a group that cannot be
written to is said once in a while and in a metric.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from agent.core.lag_groups import Written, groups_of
from agent.service.log import Rarely
from agent.sources.kafka import GroupRefused, KafkaUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.core.decode.kafka_offsets import Offsets
    from agent.core.fleet import Fleet
    from agent.sources.kafka_groups import GroupWriter

#: Seconds until a group that was refused is tried again.
REFUSED_SECONDS: Final = 60.0
#: Seconds until brokers that did not answer are asked again, for one group or for all.
FAILED_SECONDS: Final = 10.0
_log = structlog.get_logger("kafka")


class KafkaGroups:
    """Writes to one cluster what the fleet's queries have committed. The event loop owns it."""

    def __init__(
        self,
        fleet: Callable[[], Fleet],
        writer: GroupWriter,
        clock: Callable[[], float],
        *,
        pattern: str,
    ) -> None:
        self._fleet = fleet
        self._writer = writer
        self._clock = clock
        self._pattern = pattern
        self._written = Written()
        self._wanted: dict[str, Offsets] = {}  # as the last round had them
        self._later: dict[str, float] = {}  # refused, or failed: not before
        self._failed: set[str] = set()  # those of them for which nobody answered
        self._closed = False
        self._due_time = 0.0
        self._behind = 0  # not asked for in the last round, as nobody answered, and not ``_later``
        self._rarely = Rarely(300.0)

    def close(self) -> None:
        """Writes no more, and waits for no answer."""
        self._closed = True
        self._writer.close()

    def states(self) -> dict[str, int]:
        """How many groups are as they should be, refused, and not written for want of brokers."""
        refused = len(self._later.keys() - self._failed)
        failed = len(self._failed) + self._behind
        written = len(self._wanted) - refused - failed
        return {"written": written, "refused": refused, "failed": failed}

    async def look(self) -> None:
        """One round, where it is due."""
        now = self._clock()
        if now < self._due_time:
            return
        self._fleet().keep_offsets()
        wanted = self._wanted = groups_of(self._pattern, self._fleet().committed())
        self._later = {group: time for group, time in self._later.items() if group in wanted}
        self._failed &= self._later.keys()
        self._written.keep(wanted)
        due = [
            (group, offsets)
            for group, offsets in self._written.due(wanted, now).items()
            if offsets and now >= self._later.get(group, now)
        ]
        # Those that fail by themselves keep no other waiting.
        due.sort(key=lambda one: one[0] in self._failed)
        self._behind = 0
        if due:
            await asyncio.to_thread(self._write, due, now)

    def _write(self, due: list[tuple[str, Offsets]], now: float) -> None:
        """In a thread."""
        failed_before = False
        for number, (group, offsets) in enumerate(due, 1):
            failure = self._write_one(group, offsets, now)
            if self._closed:
                return
            if failure is None:
                failed_before = False
            elif not failed_before:  # it may be this one alone, as where the client ends over it
                failed_before = True
                self._rarely.warn(
                    _log.warning,
                    f"consumer group {group!r} cannot be written: it stays where it is",
                    now,
                    cause=failure,
                )
            else:
                self._due_time = now + FAILED_SECONDS
                self._behind = sum(group not in self._later for group, _ in due[number:])
                self._rarely.warn(
                    _log.warning,
                    "Kafka's brokers cannot be told: consumer groups stay where they are",
                    now,
                    cause=failure,
                )
                return

    def _write_one(self, group: str, offsets: Offsets, now: float) -> KafkaUnavailable | None:
        """The failure where nobody answered."""
        try:
            self._writer.write_group(group, offsets)
        except GroupRefused as error:
            self._failed.discard(group)
            self._written.forget(group)
            self._later[group] = now + REFUSED_SECONDS
            self._rarely.warn(
                _log.warning,
                f"consumer group {group!r} does not show its query's lag",
                now,
                cause=error,
            )
        except KafkaUnavailable as error:
            self._failed.add(group)
            self._later[group] = now + FAILED_SECONDS
            return error
        else:
            self._failed.discard(group)
            self._later.pop(group, None)
            self._written.note(group, offsets, now)
        return None
