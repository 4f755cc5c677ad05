"""Holds a query's first batch back, briefly, until its limit is in force.

Spark tells a start on the stream's own thread, before the query knows its sources. There the thread
waits for a moment (``listener.Inbox``) until a thread of the JVM's has taken the lock that every
planning needs and hands over; the query sets up its sources, the limit is put in place, and the
lock is given back. All of this waiting is done and timed in the JVM: whatever keeps Python from
running, the batch is let go in time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from spark_listener.handles import Handles

if TYPE_CHECKING:
    from spark_listener.complaints import Complaints

#: Of the longest wait, the share that the stream's thread may wait for the lock to be taken.
_TAKING_SHARE: Final = 0.25
#: A stream's thread queues its start and then waits: on a busy machine, so much later.
_MEET_MILLISECONDS: Final = 100
_LATCH: Final = "java.util.concurrent.CountDownLatch"
_LOCK: Final = "java.util.concurrent.locks.ReentrantLock"
_HANDOFF: Final = "java.util.concurrent.SynchronousQueue"
#: What a gate's stage counts down to.
_HELD, _OVER = 1, 0


def taking_milliseconds(longest_seconds: float) -> int:
    """How long the stream's thread waits for its first batch to be taken hold of."""
    return int(longest_seconds * 1000 * _TAKING_SHARE)


class FirstBatchGate:
    """One start of one query, held by a thread of the JVM's; lets go by itself."""

    def __init__(
        self, released: Any, stage: Any, *, longest_seconds: float, complaints: Complaints
    ) -> None:
        self._released = released
        self._stage = stage
        self._complaints = complaints
        self._told = False
        self.deadline = time.monotonic() + longest_seconds
        #: The number of the event whose reply is waited for; 0 until it is queued.
        self.sequence = 0
        #: How long before the deadline it was queued.
        self.seconds_to_answer = 0.0

    @property
    def stage(self) -> int:
        """2: nothing is held yet, and perhaps never; 1: held; 0: let go."""
        return int(self._stage.getCount())

    @property
    def held(self) -> bool:
        """True while no batch can be planned."""
        return self.stage == _HELD

    @property
    def was_held(self) -> bool:
        """True once it is held, and from then on: it cost the first batch some time."""
        return self.stage in (_HELD, _OVER)

    def release(self) -> None:
        """Lets the first batch go. May be called by anyone, any number of times."""
        if self._told:
            return
        try:
            self._released.countDown()
            self._told = True
        except Exception as error:  # the JVM's own clock lets it go
            self._complaints.error("letting a first batch go", error)


class Gatekeeper:
    """Makes gates. One program of the JVM's serves all of them."""

    def __init__(self, gateway: Any, *, longest_seconds: float, complaints: Complaints) -> None:
        self._jvm = gateway.jvm
        self._longest_seconds = longest_seconds
        self._complaints = complaints
        self._handles = Handles(gateway)
        self._milliseconds = gateway.jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        held = int(longest_seconds * 1000) - taking_milliseconds(longest_seconds)
        self._program = self._hold_program(held)

    def hold(self, lock: Any, handoff: Any) -> FirstBatchGate:
        """Takes ``lock`` in a thread of its own and hands over to the stream's thread.

        Where that does not wait any more, or the lock is taken, nothing is held.
        """
        latch = self._jvm.java.util.concurrent.CountDownLatch
        stage, released = latch(2), latch(1)
        bound = self._program
        for value in (lock, handoff, stage, released):
            bound = bound.bindTo(value)
        task = self._handles.as_interface("java.lang.Runnable", bound)
        thread = self._jvm.java.lang.Thread(task, "weir-first-batch")
        thread.setDaemon(True)
        gate = FirstBatchGate(
            released, stage, longest_seconds=self._longest_seconds, complaints=self._complaints
        )
        thread.start()
        return gate

    def pass_on(self, handoff: Any) -> None:
        """Ends the wait of a stream's thread whose batch is not held."""
        handoff.offer("pass on", _MEET_MILLISECONDS, self._milliseconds)

    def _hold_program(self, milliseconds: int) -> Any:
        """``(lock, handoff, stage, released)``, of which the thread that runs it owns the lock.

        The stream's thread goes on as soon as it is handed over to, and only then is anything
        held: it cannot have gone on by itself.
        """
        h = self._handles
        unit = self._milliseconds

        def at(place: int, handle: Any) -> Any:
            classes = [_LOCK, _HANDOFF, _LATCH, _LATCH]
            after = h.ignoring(handle, 1, classes[place + 1 :])
            return h.ignoring(after, 0, classes[:place])

        take = at(0, h.virtual(_LOCK, "tryLock", "()Z"))
        give_back = at(0, h.virtual(_LOCK, "unlock", "()V"))
        offer = h.virtual(
            _HANDOFF, "offer", "(Ljava/lang/Object;JLjava/util/concurrent/TimeUnit;)Z"
        )
        hand_over = at(1, h.given(offer, 1, "held", _MEET_MILLISECONDS, unit))
        next_stage = at(2, h.virtual(_LATCH, "countDown", "()V"))
        wait = h.virtual(_LATCH, "await", "(JLjava/util/concurrent/TimeUnit;)Z")
        wait = h.safe(h.silent(at(3, h.given(wait, 1, milliseconds, unit))))
        held = h.then(next_stage, h.then(wait, next_stage))
        body = h.safe(h.either(hand_over, held, h.nothing_with(held)))
        return h.either(take, h.then(body, give_back), h.silent(hand_over))
