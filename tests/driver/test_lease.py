"""What is left in a JVM that may outlive Python, here a bare one with Spark's classes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from agent.core.policy import Policy
from spark_listener import lease
from spark_listener.handles import OBJECT, Handles
from spark_listener.lease import LISTENER, RUN, STARTS, Own, estates, lease_seconds
from spark_listener.listener import Inbox
from spark_listener.wire import HEARTBEAT_SECONDS
from tests.driver.test_in_the_jvm import Calling, events
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from py4j.java_gateway import JavaGateway

pytestmark = pytest.mark.timeout(120)
__all__ = ["events"]  # a fixture
SECONDS = 1.0


class Session:
    """What a JVM's session tells of its listeners."""

    def __init__(self, *listeners: Any) -> None:
        self._listeners = listeners

    def streams(self) -> Session:
        return self

    def listListeners(self) -> tuple[Any, ...]:
        return self._listeners


@pytest.fixture
def begun(gateway: JavaGateway) -> Iterator[Callable[..., Own]]:
    """Makes leases of a second."""
    made: list[Own] = []

    def begin(*listeners: Any, seconds: float = SECONDS) -> Own:
        own = Own()
        own.begin(gateway, Session(*listeners), seconds)
        assert own.estate is not None
        made.append(own)
        return own

    yield begin
    for own in made:
        own.end()


class Flags:
    """Runnables of the JVM's, and which have run."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._gateway = gateway
        self._flags: dict[str, Any] = {}

    def sets(self, name: str) -> Callable[[], Any]:
        h = Handles(self._gateway)
        flag = self._flags[name] = self._gateway.jvm.java.util.concurrent.atomic.AtomicBoolean()
        runs = h.given(h.bound(flag, "set", "(Z)V"), 0, True)
        return lambda: h.as_interface("java.lang.Runnable", runs)

    def throws(self) -> Any:
        h = Handles(self._gateway)
        broken = h.given(h.virtual(OBJECT, "toString", "()Ljava/lang/String;"), 0, None)
        return h.as_interface("java.lang.Runnable", broken)

    def run(self) -> set[str]:
        return {name for name, flag in self._flags.items() if flag.get()}


@pytest.fixture
def flags(gateway: JavaGateway) -> Flags:
    return Flags(gateway)


def test_what_is_left_is_undone_once_nobody_renews(begun: Any, flags: Flags) -> None:
    own = begun()
    own.leave(RUN + "r", flags.sets("lapses"))
    own.leave(RUN + "s", flags.sets("part"), flags.sets("whole"))
    own.leave(RUN + "a", flags.throws)  # a query that is gone; keeps nothing else from being undone
    own.leave(RUN + "o", flags.sets("over"))
    own.leave(LISTENER + "1", flags.sets("listener"))
    own.forget(RUN + "o")
    before = time.monotonic()
    for _ in range(20):  # twice as long as it would last
        begun_at = time.monotonic()
        told = own.renew()
        assert not told or time.monotonic() - before >= SECONDS, "this process did not stand still"
        before = begun_at
        time.sleep(SECONDS / 10)
    until(
        lambda: flags.run() == {"lapses", "whole"}, "what was left to be undone", telling=flags.run
    )
    assert own.renew()
    assert not own.renew(), "it is told once"


def test_who_detaches_leaves_no_thread_and_nothing_that_is_run(
    begun: Any, flags: Flags, gateway: JavaGateway
) -> None:
    own = begun()
    own.leave(RUN + "r", flags.sets("limit"))
    own.renew()

    def waits() -> bool:
        threads = gateway.jvm.java.lang.Thread.getAllStackTraces().keySet()
        return any(one.getName() == "weir-lease" for one in threads)

    assert waits()
    own.end()
    until(lambda: not waits(), "the end of the thread")
    time.sleep(SECONDS)
    assert flags.run() == set()
    assert not own.renew()


def test_the_next_process_takes_over_and_takes_out(
    begun: Any, flags: Flags, gateway: JavaGateway
) -> None:
    gone = begun()
    listener = Inbox(gateway, hold_milliseconds=100, estate=gone.estate).listener("1")
    for name in (RUN + "r", RUN + "s", STARTS, LISTENER + "1"):
        gone.leave(name, flags.sets(name))
    gone.keep("limit r 0", gateway.jvm.java.lang.Integer(7))
    gone.renew()
    without = Inbox(gateway, hold_milliseconds=100).listener("1")  # beyond a plugin's door
    others = gateway.jvm.java.util.ArrayList()
    heir = begun(others, without, listener, seconds=60.0)
    assert flags.run() == {STARTS, LISTENER + "1"}
    assert heir.kept("limit r 0") == 7
    time.sleep(2 * SECONDS)
    assert flags.run() == {STARTS, LISTENER + "1"}, "the wait for the old end is over"
    heir.rest({"r"})
    assert flags.run() == {STARTS, LISTENER + "1", RUN + "s"}
    heir.forget(RUN + "r", "limit r 0")
    assert heir.kept("limit r 0") is None
    assert heir.estate.equals(gone.estate)


def test_what_was_kept_is_there_after_a_detach(begun: Any, gateway: JavaGateway) -> None:
    own = begun()
    own.keep("executors", 12)
    own.end()
    assert own.kept("executors") == 12
    own.begin(gateway, Session(), SECONDS)
    listener = Inbox(gateway, hold_milliseconds=100, estate=own.estate).listener("1")
    assert begun(listener).kept("executors") == 12, "and in the next process"


def test_where_the_jvm_takes_nothing_all_else_goes_on(gateway: JavaGateway) -> None:
    own = Own()
    own.begin(gateway, None, SECONDS)
    assert own.estate is None
    assert not own.renew()
    own.leave(RUN + "r", lambda: pytest.fail("nothing is made in vain"))
    own.keep("executors", 12)
    own.rest(set())
    assert own.kept("executors") == 12
    own.forget("executors")
    own.end()
    assert own.kept("executors") is None


def test_no_start_waits_for_a_process_that_is_gone(
    begun: Any, gateway: JavaGateway, events: Any
) -> None:
    own = begun()
    inbox = Inbox(gateway, hold_milliseconds=2000, estate=own.estate)
    own.leave(STARTS, inbox.no_start_waits)
    inbox.let_starts_wait(True)
    listener = inbox.listener("1")
    own.renew()
    time.sleep(2 * SECONDS)
    assert Calling(lambda: listener.onQueryStarted(events("Started"))).join() < 2.0


def test_only_listeners_of_ours_tell(begun: Any, gateway: JavaGateway) -> None:
    own = begun()
    ours = Inbox(gateway, hold_milliseconds=100, estate=own.estate).listener("1")
    h = Handles(gateway)
    interface = "org.apache.spark.sql.streaming.PythonStreamingQueryListener"
    program = h.ignoring(h.methods.constant(h.java_class(OBJECT), "x"), 0, [OBJECT])
    arguments = h.array().getClass()
    program = program.asType(program.type().changeParameterType(0, arguments))
    jobs = gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(
        h.as_handler(program, interface)
    )
    found = list(estates(gateway, Session(jobs, ours, jobs)))
    assert [one.equals(own.estate) for one in found] == [True]


def test_how_long_a_driver_may_be_silent() -> None:
    """As long as a grant lives without a word; of rare heartbeats several may be late."""
    assert lease_seconds(HEARTBEAT_SECONDS) == lease.LEASE_SECONDS == Policy().grant_seconds
    assert lease_seconds(60.0) == 4 * 60.0
