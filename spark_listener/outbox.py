"""The bounded queue of numbered events that the agent has not acknowledged yet."""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Final

from spark_listener.config import QUEUE_BYTES
from spark_listener.wire import clock_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_listener.complaints import Complaints
    from spark_listener.wire import EventType

#: What is given up first when the queue is full; a start or an end never before these.
_EXPENDABLE: Final[tuple[EventType, ...]] = ("progress", "idle", "heartbeat")


@dataclass(frozen=True)
class Pending:
    """One event as it will be sent: UTF-8 JSON."""

    sequence: int
    kind: EventType
    data: bytes
    run_id: str = ""


class Outbox:
    """Events in the order of their numbers. Thread-safe; never blocks the one who puts."""

    def __init__(
        self,
        capacity: int,
        capacity_bytes: int = QUEUE_BYTES,
        *,
        largest_bytes: int,
        complaints: Complaints | None = None,
    ) -> None:
        self._complaints = complaints
        self._capacity = capacity
        self._capacity_bytes = capacity_bytes
        self._largest_bytes = largest_bytes
        self._largest_heartbeat_bytes = largest_bytes  # less where the agent refused one
        self._stays = 0  # the number of a heartbeat that none replaces
        self.replaced: set[int] = set()  # numbers of the unsent heartbeat before the newest
        self._changed = threading.Condition()
        self._pending: deque[Pending] = deque()
        self._pending_bytes = 0
        #: By run: how many there are, their bytes. Of what is unsent, and of what is under way.
        self._progress: tuple[dict[str, tuple[int, int]], ...] = ({}, {})
        self._sequence = 0
        self._in_flight = 0  # the highest number in the request under way
        self._acknowledged = 0
        self._dropped_total = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def dropped_total(self) -> int:
        """Events given up since the start."""
        return self._dropped_total

    @property
    def acknowledged(self) -> int:
        """The highest number that need not be sent again."""
        return self._acknowledged

    @property
    def heartbeat_waits(self) -> bool:
        """Whether the newest heartbeat has yet to be sent: another one would replace it."""
        with self._changed:
            return any(
                item.kind == "heartbeat" and item.sequence > self._in_flight
                for item in self._pending
            )

    def put(
        self,
        kind: EventType,
        time: str,
        body: str,
        extra: Mapping[str, Any] | None = None,
        *,
        run_id: str = "",
        origin: float | None = None,
        shorter: Callable[[int], str] | None = None,
        stays: bool = False,
        goes_on: bool = False,
    ) -> int:
        """Numbers an event and queues it; returns its number.

        ``body`` is JSON text and goes out as it is. When full, by number or by bytes, the oldest
        unsent progress of the run that has the most of it unsent is dropped and counted: a busy
        query must not push out what others tell. What is under way goes only where all else is
        starts and ends. A heartbeat replaces the one that still waits: only the newest says
        anything.
        ``run_id``: of the query's run that it tells of.
        ``origin``: of the clock that gave the time; now's where it was read just now.
        ``shorter``: the body of a heartbeat without so many bytes, where it would be too large:
        without one a driver is gone.
        ``stays``: no newer heartbeat replaces it.
        ``goes_on``: it is a further part of the heartbeat before, of other queries.
        """
        beside = "".join(
            f",{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}"
            for key, value in (extra or {}).items()
        )
        origin = clock_origin() if origin is None else origin
        with self._changed:
            self._sequence += 1
            sequence = self._sequence
            head = (
                f'{{"sequence":{sequence},"type":"{kind}","time":{json.dumps(time)},'
                f'"clock_origin":{origin:.3f},"body":'
            )
            data = f"{head}{body}{beside}}}".encode("utf-8", "replace")
            over = len(data) - self._largest_heartbeat_bytes
            if shorter is not None and over > 0:
                data = f"{head}{shorter(over)}{beside}}}".encode("utf-8", "replace")
            too_large = len(data) > self._largest_bytes
            if too_large:
                self._dropped_total += 1
            else:
                self._add(Pending(sequence, kind, data, run_id), goes_on=goes_on, stays=stays)
        if too_large:
            self._complain(kind, run_id, len(data))
        return sequence

    def _add(self, item: Pending, *, goes_on: bool, stays: bool) -> None:
        if item.kind == "heartbeat":
            if not goes_on:
                self._forget_waiting_heartbeats()
            self._stays = item.sequence if stays else self._stays
        self._make_room(len(item.data))
        self._pending.append(item)
        self._note(item, 1)
        self._changed.notify_all()

    def _complain(self, kind: EventType, run_id: str, size: int) -> None:
        """Without the lock: the job's handlers of its log may take their time."""
        if self._complaints is not None:
            self._complaints.warn(
                f"too large:{kind}:{run_id}",
                f"weir: an event ({kind}) of {size} bytes is larger than any request "
                f"({self._largest_bytes}) and is not sent; the job is not affected: run {run_id}",
            )

    def _note(self, item: Pending, change: int) -> None:
        """``change``: 1 for an event that waits from now on, -1 for one that does no more."""
        self._pending_bytes += change * len(item.data)
        if item.kind == "progress":
            progress = self._progress[item.sequence <= self._in_flight]
            number, size = progress.get(item.run_id, (0, 0))
            if number + change:
                progress[item.run_id] = number + change, size + change * len(item.data)
            else:
                del progress[item.run_id]

    def _set_in_flight(self, sequence: int) -> None:
        reached = max(sequence, self._in_flight)
        moved = list(takewhile(lambda item: item.sequence <= reached, self._pending))
        for item in moved:
            self._note(item, -1)
        self._in_flight = sequence
        for item in moved:
            self._note(item, 1)

    def _forget_waiting_heartbeats(self) -> None:
        self.replaced = {
            item.sequence
            for item in self._pending
            if item.kind == "heartbeat"
            and item.sequence > self._in_flight
            and item.sequence != self._stays
        }
        if self.replaced:
            self._keep(lambda item: item.sequence not in self.replaced)

    def _keep(self, wanted: Callable[[Pending], bool]) -> None:
        kept: deque[Pending] = deque()
        for item in self._pending:
            if wanted(item):
                kept.append(item)
            else:
                self._note(item, -1)
        self._pending = kept

    def _make_room(self, coming_bytes: int) -> None:
        while self._pending and (
            len(self._pending) >= self._capacity
            or self._pending_bytes + coming_bytes > self._capacity_bytes
        ):
            index = self._most_expendable()
            self._note(self._pending[index], -1)
            del self._pending[index]
            self._dropped_total += 1

    def _most_expendable(self) -> int:
        """Its place. What is under way comes after what was not sent: it most likely arrives."""
        # Of what is short: places, or else bytes.
        short = 0 if len(self._pending) >= self._capacity else 1
        unsent = (at for at, one in enumerate(self._pending) if one.sequence > self._in_flight)
        first_unsent = next(unsent, len(self._pending))
        for begin, progress in zip((first_unsent, 0), self._progress, strict=True):
            most, _ = max(progress.items(), key=lambda one: one[1][short], default=("", (0, 0)))
            for kind, run_id in (("progress", most), *((kind, None) for kind in _EXPENDABLE)):
                for index, item in enumerate(islice(self._pending, begin, None), begin):
                    if item.kind == kind and run_id in (None, item.run_id):
                        return index
        return first_unsent if first_unsent < len(self._pending) else 0

    def take(self, *, max_events: int, max_bytes: int, timeout_seconds: float) -> list[Pending]:
        """The oldest events that fit one request, left in the queue until acknowledged.

        Waits up to ``timeout_seconds`` for the first; an empty list means there is none.
        """
        with self._changed:
            if not self._pending and not self._closed:
                self._changed.wait(timeout_seconds)
            batch: list[Pending] = []
            size = 0
            for item in self._pending:
                if batch and (len(batch) >= max_events or size + len(item.data) > max_bytes):
                    break
                batch.append(item)
                size += len(item.data) + 1
            if batch:
                self._set_in_flight(batch[-1].sequence)
            return batch

    def settle(self, acknowledged: int) -> None:
        """Forgets everything up to ``acknowledged``.

        A number beyond what was sent counts only as far as it was sent.
        """
        with self._changed:
            reached = min(acknowledged, self._in_flight)
            while self._pending and self._pending[0].sequence <= reached:
                self._note(self._pending.popleft(), -1)
            self._acknowledged = max(self._acknowledged, reached)

    def discard(self, refused: Pending, *, too_large: bool) -> None:
        """Drops one event that the agent cannot take; counted. The next heartbeat is shorter.

        By half: what stands before the agent, such as a proxy, does not say how much it takes.
        """
        with self._changed:
            if too_large and refused.kind == "heartbeat":
                self._largest_heartbeat_bytes = len(refused.data) // 2
            before = len(self._pending)
            self._keep(lambda item: item.sequence != refused.sequence)
            self._dropped_total += before - len(self._pending)

    def landed(self) -> None:
        """The request under way is over, answered or not."""
        with self._changed:
            self._set_in_flight(0)

    def close(self) -> None:
        """Wakes whoever waits in ``take``; what is queued may still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
