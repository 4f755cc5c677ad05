"""Where callbacks and the agent's replies wait for the observer."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_listener.listener import Captured
    from spark_listener.replies import Reply


class Mailbox:
    """What waits for the observer. Bounded: the oldest progress goes first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._changed = threading.Condition()
        self._captured: deque[Captured] = deque()
        self._replies: deque[Reply] = deque(maxlen=16)
        self._woken = False
        self.dropped_total = 0

    def __len__(self) -> int:
        return len(self._captured)

    def deliver(self, item: Captured) -> None:
        """Takes an event from a callback; never blocks."""
        with self._changed:
            if len(self._captured) >= self._capacity:
                for index, waiting in enumerate(self._captured):
                    if waiting.kind == "progress":
                        del self._captured[index]
                        break
                else:
                    self._captured.popleft()
                self.dropped_total += 1
            self._captured.append(item)
            self._changed.notify()

    def reply(self, reply: Reply) -> None:
        """Takes the agent's reply from the sender."""
        with self._changed:
            self._replies.append(reply)
            self._changed.notify()

    def wake(self) -> None:
        """Ends a wait in ``take``."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def take(self, timeout_seconds: float) -> tuple[list[Captured], list[Reply]]:
        """Everything that waits, oldest first; waits for the first of it."""
        with self._changed:
            if not (self._captured or self._replies or self._woken):
                self._changed.wait(timeout_seconds)
            captured, replies = list(self._captured), list(self._replies)
            self._captured.clear()
            self._replies.clear()
            self._woken = False
            return captured, replies
