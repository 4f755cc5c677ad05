"""What is left in a JVM that may outlive Python, here a bare one with Spark's classes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from agent.core.policy import Policy
from spark_listener import lease
from spark_listener.handles import OBJECT, Handles
from spark_listener.lease import LISTENER, RUN, STARTS, Own, estates
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
def begun(gateway: JavaGateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Own]]:
    """Makes leases that end after a second, and wholly after three."""
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.1)
    monkeypatch.setattr(lease, "ALONE_SECONDS", 3 * SECONDS)
    made: list[Own] = []

    def begin() -> Own:
        own = Own()
        own.begin(gateway)
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
    own.leave(RUN + "o", flags.sets("over"), flags.sets("over, too"))
    own.leave(LISTENER + "1", flags.sets("listener"))
    own.forget(RUN + "o")
    before = time.monotonic()
    for _ in range(20):  # twice as long as it would last
        begun_at = time.monotonic()
        told = own.renew(SECONDS)
        assert not told or time.monotonic() - before >= SECONDS, "this process did not stand still"
        before = begun_at
        time.sleep(SECONDS / 10)
    until(lambda: flags.run() == {"lapses", "part"}, "what is undone", telling=flags.run)
    assert own.renew(SECONDS) == "undone"
    assert own.renew(SECONDS) is None, "it is told once"
    until(lambda: flags.run() == {"lapses", "part", "whole"}, "the rest", telling=flags.run)


def test_no_grant_ends_before_two_words_are_missing(begun: Any, flags: Flags) -> None:
    """And one whose life is over at once, as who should end it may hang."""
    own = begun()
    own.leave(RUN + "r", flags.sets("limit"))
    lease.RENEW_SECONDS = 5.0  # type: ignore[misc]
    own.renew(0.1)
    time.sleep(SECONDS)
    assert flags.run() == set()
    own.renew(-0.1)
    until(lambda: flags.run() == {"limit"}, "the end")
    own.leave(RUN + "s", flags.sets("another"))
    lease.RENEW_SECONDS = SECONDS / 2  # type: ignore[misc]
    before = time.monotonic()
    own.renew(0.1)
    until(lambda: flags.run() == {"limit", "another"}, "the end", every=0.01)
    assert time.monotonic() - before >= SECONDS


def test_who_detaches_leaves_no_thread_and_nothing_that_is_run(
    begun: Any, flags: Flags, gateway: JavaGateway
) -> None:
    own = begun()
    own.leave(RUN + "r", flags.sets("limit"))
    own.renew(SECONDS)

    def waits() -> bool:
        threads = gateway.jvm.java.lang.Thread.getAllStackTraces().keySet()
        return any(one.getName() == "weir-lease" for one in threads)

    assert waits()
    own.end()
    until(lambda: not waits(), "the end of the thread")
    time.sleep(SECONDS)
    assert flags.run() == set()
    assert own.renew(SECONDS) is None


def test_the_next_process_takes_over_and_takes_out(
    begun: Any, flags: Flags, gateway: JavaGateway
) -> None:
    gone = begun()
    listener = Inbox(gateway, hold_milliseconds=100, estate=gone.estate).listener("1")
    for name in (RUN + "r", RUN + "s", STARTS, LISTENER + "1"):
        gone.leave(name, flags.sets(name), flags.sets("whole " + name) if RUN in name else None)
    gone.keep("limit r 0", gateway.jvm.java.lang.Integer(7))
    gone.renew(SECONDS)
    without = Inbox(gateway, hold_milliseconds=100).listener("1")  # beyond a plugin's door
    others = gateway.jvm.java.util.ArrayList()
    heir = begun()
    heir.take_over(gateway, Session(others, without, listener))
    taken = {STARTS, LISTENER + "1"}
    assert flags.run() == taken
    assert heir.kept("limit r 0") == 7
    time.sleep(2 * SECONDS)
    assert flags.run() == taken, "the wait for the old end is over"
    heir.rest({"r"})
    assert flags.run() == taken | {RUN + "s", "whole " + RUN + "s"}
    heir.renew(SECONDS)
    until(lambda: RUN + "r" in flags.run(), "the end, which nobody renewed", telling=flags.run)
    heir.forget(RUN + "r", "limit r 0")
    assert heir.kept("limit r 0") is None
    assert gone.renew(SECONDS) == "taken", "if it lives"
    gone.forget("limit r 0", RUN + "r", LISTENER + "1")
    assert heir.renew(SECONDS) == "undone"


def test_what_is_taken_over_in_a_second_session_is_all_ours(
    begun: Any, flags: Flags, gateway: JavaGateway
) -> None:
    gone, heir = begun(), begun()
    listener = Inbox(gateway, hold_milliseconds=100, estate=gone.estate).listener("1")
    own = Inbox(gateway, hold_milliseconds=100, estate=heir.estate).listener("1")
    gone.keep("limit r 0", 7)
    gone.leave(RUN + "r", flags.sets("theirs"))
    heir.leave(RUN + "q", flags.sets("ours"))
    heir.leave(LISTENER + "1", flags.sets("our listener"))
    heir.take_over(gateway, Session(own))
    heir.rest({"q"})
    heir.take_over(gateway, Session(listener, own))
    assert heir.kept("limit r 0") == 7
    heir.rest({"q"})
    assert flags.run() == {"theirs"}
    heir.rest(set())
    assert flags.run() == {"theirs"}, "what is ours is watched, or was told as over"


def test_what_was_kept_is_there_after_a_detach(begun: Any, gateway: JavaGateway) -> None:
    own = begun()
    own.keep("executors", 12)
    own.end()
    assert own.kept("executors") == 12
    own.begin(gateway)
    listener = Inbox(gateway, hold_milliseconds=100, estate=own.estate).listener("1")
    after = begun()
    after.take_over(gateway, Session(listener))
    assert after.kept("executors") == 12, "and in the next process"
    own.end()


def test_where_the_jvm_takes_nothing_all_else_goes_on(gateway: JavaGateway) -> None:
    own = Own()
    own.begin(None)
    own.take_over(gateway, None)
    assert own.estate is None
    assert own.renew(SECONDS) is None
    own.leave(RUN + "r", lambda: pytest.fail("nothing is made in vain"))
    own.keep("executors", 12)
    own.rest(set())
    assert own.kept("executors") == 12
    own.forget("executors")
    own.end()
    assert own.kept("executors") is None
    own.begin(gateway)
    own.take_over(gateway, None)  # which is told to nobody
    assert own.estate is not None
    own.end()


def test_no_start_waits_for_a_process_that_is_gone(
    begun: Any, gateway: JavaGateway, events: Any
) -> None:
    own = begun()
    inbox = Inbox(gateway, hold_milliseconds=2000, estate=own.estate)
    own.leave(STARTS, inbox.no_start_waits)
    inbox.let_starts_wait(True)
    listener = inbox.listener("1")
    own.renew(SECONDS)
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
    """As long as a grant lives without a word, and as long as an agent expects a driver's."""
    assert Policy().grant_seconds == lease.LEASE_SECONDS
    assert lease.RENEW_SECONDS == HEARTBEAT_SECONDS
    assert lease.ALONE_SECONDS == 10 * lease.LEASE_SECONDS
