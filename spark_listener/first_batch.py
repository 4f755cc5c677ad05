"""Holds a query's first batch back, briefly, until its limit is in force.

``onQueryStarted`` runs on the stream's own thread before the query knows its sources. A helper
thread takes the lock that every planning needs, the callback returns, the query sets up its
sources, the limit is put in place, and the helper gives the lock back: always, in bounded time.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_listener.complaints import Complaints

#: How long the callback waits for the helper to have the lock.
HELD_WITHIN_SECONDS: Final = 0.5
_UNLOCK_ATTEMPTS: Final = 3


class FirstBatchGate:
    """One start of one query. ``find_lock`` gives Java's ReentrantLock, or None: do not hold."""

    def __init__(
        self,
        find_lock: Callable[[], Any],
        *,
        longest_seconds: float,
        complaints: Complaints,
    ) -> None:
        self._find_lock = find_lock
        self._longest_seconds = longest_seconds
        self._complaints = complaints
        self._settled = threading.Event()  # held, or known not to be
        self._released = threading.Event()
        self.held = False
        self.deadline = time.monotonic() + longest_seconds
        #: The number of the event whose reply is waited for; 0 until it is queued.
        self.sequence = 0
        # Java's lock belongs to a thread. py4j, pinned, gives each Python thread one JVM thread,
        # so taking and giving back happen in this one thread and nowhere else.
        self._thread = threading.Thread(target=self._hold, name="weir-first-batch", daemon=True)

    def start(self) -> None:
        """Starts the helper thread."""
        self._thread.start()

    def wait_until_held(self) -> bool:
        """For the callback: returns once planning is held, or that has taken too long."""
        if not self._settled.wait(HELD_WITHIN_SECONDS):
            self.release()
        return self.held

    def release(self) -> None:
        """Lets the first batch go. May be called by anyone, any number of times."""
        self._released.set()

    @property
    def over(self) -> bool:
        """True once the first batch was let go."""
        return self._released.is_set()

    def _hold(self) -> None:
        lock: Any = None
        try:
            found = self._find_lock()
            if found is None or self._released.is_set():
                self._released.set()
                return
            found.lock()
            lock = found
            self.held = True
            self.deadline = time.monotonic() + self._longest_seconds
            self._settled.set()
            self._released.wait(self._longest_seconds)
        except Exception as error:
            self._complaints.error("holding a first batch", error)
        finally:
            self._released.set()
            if lock is not None:
                self._unlock(lock)
            self._settled.set()

    def _unlock(self, lock: Any) -> None:
        for attempt in range(_UNLOCK_ATTEMPTS):
            try:
                lock.unlock()
            except Exception as error:  # noqa: PERF203 - three tries, and none may be skipped
                if attempt == _UNLOCK_ATTEMPTS - 1:
                    self._complaints.error("giving a first batch's lock back", error)
            else:
                return
