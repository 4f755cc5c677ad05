"""The programs that the JVM runs by itself, in a bare JVM with Spark's classes and no Spark.

What they promise is that Spark's threads wait for nothing of Python's: here Python does nothing.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from spark_listener.complaints import Complaints
from spark_listener.config import Settings
from spark_listener.first_batch import Gatekeeper, taking_milliseconds
from spark_listener.intake import Intake
from spark_listener.listener import MOST_PROGRESS, Inbox
from tests.driver.test_observer import RunningQuery, Watched, resting
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from py4j.java_gateway import JavaGateway

pytestmark = pytest.mark.timeout(120)
EVENT = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"


@pytest.fixture
def events(gateway: JavaGateway) -> Callable[[str], Any]:
    """Makes an event of Spark's by its kind."""
    jvm = gateway.jvm

    def make(kind: str) -> Any:
        found = jvm.py4j.reflection.ReflectionUtil.classForName(EVENT + kind + "Event")
        constructors = sorted(found.getConstructors(), key=lambda one: one.getParameterCount())
        chosen = constructors[0]
        arguments = gateway.new_array(jvm.Object, chosen.getParameterCount())
        for place, kind_of in enumerate(chosen.getParameterTypes()):
            if kind_of.getName() == "java.util.UUID":
                arguments[place] = jvm.java.util.UUID.randomUUID()
        return chosen.newInstance(arguments)

    return make


@pytest.fixture
def inbox(gateway: JavaGateway) -> Inbox:
    return Inbox(gateway, hold_milliseconds=taking_milliseconds(4.0))


class Calling:
    """One call of the listener, on a JVM thread of its own as Spark's would be."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        begun = time.monotonic()
        self._call()
        self.seconds = time.monotonic() - begun

    @property
    def back(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> float:
        self._thread.join(30.0)
        assert self.back
        return self.seconds


def test_events_wait_in_order_with_their_time_and_session(
    inbox: Inbox, events: Any, gateway: JavaGateway
) -> None:
    first, second = inbox.listener("1"), inbox.listener("2")
    before = int(gateway.jvm.System.currentTimeMillis())
    first.onQueryStarted(events("Started"))
    second.onQueryIdle(events("Idle"))
    first.onQueryProgress(events("Progress"))
    first.onQueryTerminated(events("Terminated"))
    after = int(gateway.jvm.System.currentTimeMillis())
    assert inbox.counters().waiting == 4
    taken = [inbox.take(0) for _ in range(4)]
    assert inbox.take(0) is None
    found = [(one.kind, one.key, one.handoff) for one in taken if one is not None]
    assert found == [
        ("started", "1", None),
        ("idle", "2", None),
        ("progress", "1", None),
        ("terminated", "1", None),
    ]
    times = [one.epoch_seconds * 1000 for one in taken if one is not None]
    assert before <= times[0] <= times[-1] <= after
    counters = inbox.counters()
    assert (counters.waiting, counters.calls_total, counters.dropped_total) == (0, 4, 0)
    assert 0.0 < counters.seconds_total < (after - before) / 1000.0 + 0.001
    inbox.lose()
    assert inbox.counters().dropped_total == 1


def test_while_nobody_comes_progress_is_bounded_and_starts_and_ends_are_kept(
    inbox: Inbox, events: Any
) -> None:
    listener = inbox.listener("1")
    progress, idle = events("Progress"), events("Idle")
    listener.onQueryStarted(events("Started"))
    for _ in range(MOST_PROGRESS - 10):
        listener.onQueryProgress(progress)
    for _ in range(30):
        listener.onQueryIdle(idle)
    listener.onQueryTerminated(events("Terminated"))
    counters = inbox.counters()
    assert (counters.waiting, counters.dropped_total) == (MOST_PROGRESS + 2, 20)
    kinds = []
    while (one := inbox.take(0)) is not None:
        kinds.append(one.kind)
    assert kinds[0] == "started"
    assert kinds[-1] == "terminated"
    listener.onQueryProgress(progress)  # there is room again
    assert inbox.counters().waiting == 1


def test_a_progress_that_finds_the_queue_full_of_starts_takes_no_room_for_good(
    gateway: JavaGateway, events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_listener.listener.MOST_WAITING", 3)
    inbox = Inbox(gateway, hold_milliseconds=taking_milliseconds(4.0))
    listener = inbox.listener("1")
    progress, started = events("Progress"), events("Started")
    for _ in range(3):
        listener.onQueryStarted(started)
    for _ in range(MOST_PROGRESS):
        listener.onQueryProgress(progress)
    counters = inbox.counters()
    assert (counters.waiting, counters.dropped_total) == (3, MOST_PROGRESS)
    while inbox.take(0) is not None:
        pass
    listener.onQueryProgress(progress)
    counters = inbox.counters()
    assert (counters.waiting, counters.dropped_total) == (1, MOST_PROGRESS)


def test_a_start_waits_only_where_that_is_worth_it_and_never_for_long(
    inbox: Inbox, events: Any
) -> None:
    listener = inbox.listener("1")
    plain = Calling(lambda: listener.onQueryStarted(events("Started"))).join()
    inbox.let_starts_wait(True)
    waited = Calling(lambda: listener.onQueryStarted(events("Started"))).join()
    assert waited >= taking_milliseconds(4.0) / 1000.0 > plain
    # Nothing is asked of Python meanwhile: the JVM's own clock ends it.
    other = Calling(lambda: listener.onQueryTerminated(events("Terminated"))).join()
    assert other < waited
    inbox.let_starts_wait(False)
    assert Calling(lambda: listener.onQueryStarted(events("Started"))).join() < waited


def test_a_quarter_of_the_longest_wait_is_for_taking_hold() -> None:
    """Half a second of the usual two, in which `start()` does not return."""
    assert taking_milliseconds(Settings().first_batch_seconds) == 500


def keeper(gateway: JavaGateway, seconds: float) -> Gatekeeper:
    return Gatekeeper(gateway, longest_seconds=seconds, complaints=Complaints())


def waiting_start(inbox: Inbox, events: Any) -> tuple[Calling, Any]:
    """A query's thread in the callback, and where it waits."""
    inbox.let_starts_wait(True)
    listener, event = inbox.listener("1"), events("Started")
    calling = Calling(lambda: listener.onQueryStarted(event))
    found = inbox.take(10_000)
    assert found is not None
    return calling, found.handoff


def test_a_first_batch_is_held_before_its_thread_goes_on_until_it_is_let_go(
    inbox: Inbox, events: Any, gateway: JavaGateway
) -> None:
    lock = gateway.jvm.java.util.concurrent.locks.ReentrantLock()
    calling, handoff = waiting_start(inbox, events)
    gate = keeper(gateway, 60.0).hold(lock, handoff)
    assert calling.join() < taking_milliseconds(4.0) / 1000.0, "handed over, not given up"
    assert lock.isLocked()
    until(lambda: gate.held, "the holding thread to say so", every=0.01)
    gate.release()
    gate.release()
    until(lambda: not lock.isLocked(), "the lock to be given back")
    assert gate.was_held
    assert not gate.held


def test_a_first_batch_goes_by_itself_in_less_than_the_longest_wait(
    inbox: Inbox, events: Any, gateway: JavaGateway
) -> None:
    lock = gateway.jvm.java.util.concurrent.locks.ReentrantLock()
    calling, handoff = waiting_start(inbox, events)
    begun = time.monotonic()
    gate = keeper(gateway, 1.0).hold(lock, handoff)
    calling.join()
    until(lambda: gate.was_held and not gate.held, "the end of the wait", every=0.01)
    assert not lock.isLocked()
    assert time.monotonic() - begun >= 0.7, "a quarter of the second is for taking hold"


def test_who_comes_too_late_holds_nothing(inbox: Inbox, events: Any, gateway: JavaGateway) -> None:
    lock = gateway.jvm.java.util.concurrent.locks.ReentrantLock()
    calling, handoff = waiting_start(inbox, events)
    calling.join()  # the thread has gone on by itself
    gate = keeper(gateway, 60.0).hold(lock, handoff)
    threads = gateway.jvm.java.lang.Thread
    until(
        lambda: (
            not any(
                one.getName() == "weir-first-batch" for one in threads.getAllStackTraces().keySet()
            )
        ),
        "the holding thread's end",
    )
    assert not lock.isLocked()
    assert not gate.held
    assert not gate.was_held, "so no time was lost"


def test_a_lock_that_is_taken_is_not_waited_for(
    inbox: Inbox, events: Any, gateway: JavaGateway
) -> None:
    busy = gateway.jvm.java.util.concurrent.locks.ReentrantLock()
    busy.lock()
    calling, handoff = waiting_start(inbox, events)
    gate = keeper(gateway, 60.0).hold(busy, handoff)
    assert calling.join() < taking_milliseconds(4.0) / 1000.0, "it was told to go on"
    assert not gate.held


def test_passing_on_ends_the_wait(inbox: Inbox, events: Any, gateway: JavaGateway) -> None:
    calling, handoff = waiting_start(inbox, events)
    keeper(gateway, 60.0).pass_on(handoff)
    assert calling.join() < taking_milliseconds(4.0) / 1000.0


def test_a_start_of_a_session_that_nobody_watches_goes_on(
    inbox: Inbox, events: Any, gateway: JavaGateway
) -> None:
    observer = Watched(RunningQuery(resting)).observer
    observer._gatekeeper = keeper(gateway, 60.0)
    intake = Intake(
        inbox,
        observer.mailbox,
        session_of=lambda _: None,
        open_gate=observer.open_gate,
        renew=lambda: None,
        complaints=Complaints(),
    )
    inbox.let_starts_wait(True)
    intake.start()
    try:
        listener, event = inbox.listener("1"), events("Started")
        waited = Calling(lambda: listener.onQueryStarted(event)).join()
    finally:
        intake.stop(30.0)
    assert waited < taking_milliseconds(4.0) / 1000.0


def test_what_goes_wrong_in_a_listener_stays_there(
    inbox: Inbox, events: Any, gateway: JavaGateway
) -> None:
    listener = inbox.listener("1")
    listener.onQueryProgress(None)  # no event of any kind: nothing is thrown
    event = events("Started")
    inbox.let_starts_wait(True)
    thread = gateway.jvm.java.lang.Thread
    # A query stopped while its start is told: Spark takes off a listener that leaves its thread
    # interrupted.
    thread.currentThread().interrupt()
    begun = time.monotonic()
    listener.onQueryStarted(event)
    assert time.monotonic() - begun < taking_milliseconds(4.0) / 1000.0
    assert not thread.interrupted()
