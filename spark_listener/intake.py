"""The thread that takes Spark's events from the JVM's queue, and has first batches held.

It also says to the JVM that this process lives: it asks nothing of Spark that could hang.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from spark_listener.lease import RENEW_SECONDS
from spark_listener.listener import captured

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_listener.complaints import Complaints
    from spark_listener.first_batch import FirstBatchGate
    from spark_listener.listener import Inbox, Waiting
    from spark_listener.mailbox import Mailbox
    from spark_listener.sessions import Session

TAKE_MILLISECONDS: Final = 200  # between looks at whether to end
#: Until the JVM answers again, or the observer has found that it is gone.
_AFTER_FAILURE_SECONDS: Final = 1.0


class Intake:
    """Owns the thread ``weir-events``."""

    def __init__(
        self,
        inbox: Inbox,
        mailbox: Mailbox,
        *,
        session_of: Callable[[str], Session | None],
        open_gate: Callable[[Session | None, str, Any], FirstBatchGate | None],
        renew: Callable[[], None],
        complaints: Complaints,
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        """``ended``: the last that the thread does."""
        self._inbox = inbox
        self._mailbox = mailbox
        self._session_of = session_of
        self._open_gate = open_gate
        self._renew = renew
        self._ended = ended
        self._renew_time = time.monotonic()
        self._complaints = complaints
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weir-events", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """Ends the thread once nothing waits any more; what comes later is not taken in."""
        self._stopping.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        self._take_all()
        self._ended()

    def _take_all(self) -> None:
        while True:
            ending = self._stopping.is_set()
            try:
                self._renew_if_due()
                # What finds no room here waits in the JVM, where as many events are kept anyway.
                if not self._mailbox.wait_for_room(self._stopping):
                    continue
                waiting = self._inbox.take(0 if ending else TAKE_MILLISECONDS)
            except Exception as error:
                if self._stopping.is_set():  # as at the driver's end
                    return
                self._complaints.error("asking the JVM for events", error)
                self._stopping.wait(_AFTER_FAILURE_SECONDS)
                continue
            if waiting is not None:
                self._take_guarded(waiting)
            elif ending:
                return

    def _renew_if_due(self) -> None:
        now = time.monotonic()
        if now >= self._renew_time and not self._stopping.is_set():
            self._renew_time = now + RENEW_SECONDS
            self._renew()

    def _take_guarded(self, waiting: Waiting) -> None:
        try:
            self._take(waiting)
        except Exception as error:
            self._complaints.error(f"taking in a {waiting.kind} event", error)
            with suppress(Exception):  # the JVM may be gone, as at the driver's end
                self._inbox.lose()

    def _take(self, waiting: Waiting) -> None:
        session = self._session_of(waiting.key)
        gate = None
        if not waiting.kind:  # unknown to us, as a start of a class that a later Spark brings
            session = None
        if waiting.handoff is not None:  # where a thread waits, whosever it is
            query_id = str(waiting.event.id().toString())
            gate = self._open_gate(session, query_id, waiting.handoff)
        if session is None:  # or detached meanwhile
            return
        try:
            self._mailbox.deliver(captured(waiting, session, gate))
        except BaseException:
            if gate is not None:
                gate.release()
            raise
