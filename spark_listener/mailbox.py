"""Where events and the agent's replies wait for the observer."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spark_listener.listener import Captured
    from spark_listener.replies import Reply

#: Beyond this no more is taken from the JVM: a few of the largest progresses (5,000 partitions of
#: Kafka make 0.3 MiB). The observer takes all that waits at once, so more would gain nothing.
ROOM_BYTES: Final = 1024 * 1024


class Mailbox:
    """What waits for the observer."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._captured: deque[Captured] = deque()
        self._captured_bytes = 0
        self._replies: deque[Reply] = deque(maxlen=16)
        self._woken = False

    def __len__(self) -> int:
        return len(self._captured)

    def deliver(self, item: Captured) -> None:
        """Takes an event in; never blocks."""
        with self._changed:
            self._captured.append(item)
            self._captured_bytes += item.memory_bytes
            self._changed.notify_all()

    @property
    def start_waits(self) -> bool:
        """Whether a start is here whose first batch is held."""
        with self._changed:
            return any(item.gate is not None for item in self._captured)

    def wait_for_room(self, stopping: threading.Event) -> bool:
        """Blocks, for a second at most, while so much waits that no more should be taken in.

        Whether there is room; at the end there is for all.
        """
        with self._changed:
            if self._captured_bytes >= ROOM_BYTES and not stopping.is_set():
                self._changed.wait(1.0)
            return self._captured_bytes < ROOM_BYTES or stopping.is_set()

    def reply(self, reply: Reply) -> None:
        """Takes the agent's reply from the sender."""
        with self._changed:
            self._replies.append(reply)
            self._changed.notify_all()

    def take_replies(self) -> list[Reply]:
        """The replies that wait, oldest first; without waiting for one."""
        with self._changed:
            replies = list(self._replies)
            self._replies.clear()
            return replies

    def wake(self) -> None:
        """Ends a wait in ``take``."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def take(self, timeout_seconds: float) -> tuple[list[Captured], list[Reply]]:
        """Everything that waits, oldest first; waits for the first of it."""
        with self._changed:
            if not (self._captured or self._replies or self._woken):
                self._changed.wait(timeout_seconds)
            captured, replies = list(self._captured), list(self._replies)
            self._captured.clear()
            self._captured_bytes = 0
            self._replies.clear()
            self._woken = False
            self._changed.notify_all()
            return captured, replies
