"""What is left in a JVM that may outlive Python, here a bare one with Spark's classes."""

from __future__ import annotations

import contextlib
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

from agent.core.policy import Policy
from spark_listener import attachment, lease
from spark_listener.handles import OBJECT, Handles
from spark_listener.lease import LISTENER, RUN, STARTS, Heir, Own, estates
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

    def __init__(self, *listeners: Any, key: str = "session-1") -> None:
        self._listeners = listeners
        self._key = key

    def sessionUUID(self) -> str:
        return self._key

    def streams(self) -> Session:
        return self

    def listListeners(self) -> tuple[Any, ...]:
        return self._listeners


@pytest.fixture
def begun(gateway: JavaGateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Own]]:
    """Makes leases that end in a second without a word, and wholly in three."""
    monkeypatch.setattr(lease, "RENEW_SECONDS", SECONDS / 2.5)
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
        own.forget(R, S, GONE, OVER)
        own.end(own.estate)


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


R, S, GONE, OVER = (f"{RUN}{run} 0" for run in "rsxo")


def test_what_is_left_is_undone_once_nobody_renews(begun: Any, flags: Flags) -> None:
    own = begun()
    own.leave(R, flags.sets("lapses"))
    own.leave(S, flags.sets("stays"), stays=True)
    own.leave(GONE, flags.throws)  # a query that is gone; keeps nothing else from being undone
    own.leave(OVER, flags.sets("over"))
    own.leave(LISTENER + "1", flags.sets("listener"))
    own.forget(OVER)
    assert own.lapses(R)
    assert not own.lapses(S)
    before = time.monotonic()
    for _ in range(20):  # twice as long as it would last
        begun_at = time.monotonic()
        told = own.renew({R: SECONDS, GONE: SECONDS}, [S])
        assert not told or time.monotonic() - before >= SECONDS, "this process did not stand still"
        before = begun_at
        time.sleep(SECONDS / 10)
    until(lambda: flags.run() == {"lapses"}, "what is undone", telling=flags.run)
    until(lambda: own.renew({}, []) == "undone", "that to be told")
    assert own.renew({}, []) is None, "it is told once"
    until(lambda: flags.run() == {"lapses", "stays"}, "the rest", telling=flags.run)


def test_each_ends_when_its_own_grant_does(begun: Any, flags: Flags) -> None:
    own = begun()
    for name in (R, S):
        own.leave(name, flags.sets(name))
    own.renew({R: 60.0, S: SECONDS}, [])
    until(lambda: flags.run() == {S}, "the end of one", telling=flags.run)
    time.sleep(SECONDS)
    assert flags.run() == {S}
    own.leave(R, flags.sets("anew"))  # with as long to live as words can be missing
    until(lambda: flags.run() == {S, "anew"}, "the end of the other", telling=flags.run)


def test_what_changes_between_the_kinds_is_undone_once_and_in_its_time(
    begun: Any, flags: Flags
) -> None:
    own = begun()
    own.leave(R, flags.sets("stayed"), stays=True)
    own.leave(R, flags.sets("lapses"))
    own.leave(S, flags.sets("lapsed"))
    own.leave(S, flags.sets("stays"), stays=True)
    time.sleep(2 * SECONDS)
    assert flags.run() == {"lapses"}
    until(lambda: flags.run() == {"lapses", "stays"}, "the end", telling=flags.run)


@pytest.mark.parametrize("life", [0.1, 3.0])
def test_no_grant_ends_before_two_words_are_missing_and_the_third_is_late(
    begun: Any, flags: Flags, life: float
) -> None:
    own = begun()
    lease.RENEW_SECONDS = SECONDS  # type: ignore[misc]
    own.leave(R, flags.sets("limit"))
    before = time.monotonic()
    own.renew({R: life * SECONDS}, [])
    until(lambda: flags.run() == {"limit"}, "the end", every=0.01)
    assert max(life, 2.4) * SECONDS <= time.monotonic() - before


def test_who_detaches_leaves_no_thread_and_nothing_that_is_run(
    begun: Any, flags: Flags, gateway: JavaGateway
) -> None:
    own = begun()
    own.leave(STARTS, flags.sets("starts"))
    own.leave(R, flags.sets("limit"))
    own.renew({R: SECONDS}, [])

    def waits() -> bool:
        threads = gateway.jvm.java.lang.Thread.getAllStackTraces().keySet()
        return any(one.getName() == "weir-lease" for one in threads)

    assert waits()
    own.forget(R)
    own.end(own.estate)
    until(lambda: not waits(), "the end of the thread")
    time.sleep(SECONDS)
    assert flags.run() == set()
    assert own.renew({}, []) is None


def test_the_thread_that_waits_keeps_nothing_of_the_one_that_had_it_made(
    begun: Any, gateway: JavaGateway
) -> None:
    """As Spark's active session, which the job may have let go of."""
    java, h = gateway.jvm.java, Handles(gateway)
    local, seen = java.lang.InheritableThreadLocal(), java.util.concurrent.atomic.AtomicReference()
    local.set("a session")
    seen.set("has not run")
    look = h.piped(
        h.bound(local, "get", "()Ljava/lang/Object;"),
        h.bound(seen, "set", "(Ljava/lang/Object;)V"),
    )
    begun().leave(R, lambda: h.as_interface("java.lang.Runnable", look))
    until(lambda: seen.get() != "has not run", "its end")
    assert seen.get() is None
    assert local.get() == "a session"


def test_what_nobody_put_back_when_it_detached_is_undone_all_the_same(
    begun: Any, flags: Flags, gateway: JavaGateway
) -> None:
    """A query of a session that was taken over and not attached, or a JVM that did not answer."""
    own = begun()
    lease.RENEW_SECONDS = SECONDS  # type: ignore[misc]
    own.leave(R, flags.sets("lapses"))
    own.leave(S, flags.sets("stays"), stays=True)
    own.end(own.estate)
    own.begin(gateway)  # who attaches again knows of it
    assert own.lapses(R)
    until(lambda: own.renew({}, [S]) == "undone", "that to be told")
    assert flags.run() == {"lapses"}
    own.end(own.estate)
    until(lambda: flags.run() == {"lapses", "stays"}, "the rest", telling=flags.run)


def test_the_next_process_takes_over_and_takes_out(
    begun: Any, flags: Flags, gateway: JavaGateway
) -> None:
    gone = begun()
    listener = Inbox(gateway, hold_milliseconds=100, estate=gone.estate).listener("1")
    for name in (R, STARTS, LISTENER + "1"):
        gone.leave(name, flags.sets(name))
    gone.leave(S, flags.sets(S), stays=True)
    gone.keep("limit r 0", gateway.jvm.java.lang.Integer(7))
    before = time.monotonic()
    gone.renew({R: 2 * SECONDS}, [])
    without = Inbox(gateway, hold_milliseconds=100).listener("1")  # beyond a plugin's door
    others = gateway.jvm.java.util.ArrayList()
    heir = begun()
    heir.take_over(gateway, Session(others, without, listener))
    taken = {STARTS, LISTENER + "1"}
    assert flags.run() == taken
    assert heir.kept("limit r 0") == 7
    assert heir.lapses(R)
    assert not heir.lapses(S)
    assert gone.renew({R: 60.0}, [S]) == "taken", "if it lives"
    while heir.renew({}, [S]) != "undone":  # a grant of the other one's, which nobody renews
        assert time.monotonic() - before < 5 * SECONDS
        time.sleep(0.05)
    assert time.monotonic() - before >= 2 * SECONDS, "in its time"
    assert flags.run() == taken | {R}
    until(lambda: flags.run() == taken | {R, S}, "of a query that nobody watches")
    gone.end(gone.estate)
    heir.forget(S, "limit r 0")
    assert heir.renew({}, []) == "undone"
    assert heir.kept("limit r 0") is None


def test_who_was_taken_over_and_has_not_heard_it_undoes_nothing(
    begun: Any, flags: Flags, gateway: JavaGateway
) -> None:
    """Its observer may hang, while it says that it lives all the same."""
    gone = begun()
    listener = Inbox(gateway, hold_milliseconds=100, estate=gone.estate).listener("1")
    gone.leave(R, flags.sets("lapses"))
    gone.leave(S, flags.sets("stays"), stays=True)
    assert not gone.taken
    heir = begun()
    heir.take_over(gateway, Session(listener))
    assert gone.taken
    assert not heir.taken
    assert gone.renew({R: SECONDS}, [S]) == "taken"
    gone.leave(OVER, flags.sets("left in vain"))
    before = time.monotonic()
    while time.monotonic() - before < 4 * SECONDS:
        assert heir.renew({R: 60.0}, [S]) is None
        assert flags.run() == set()
        time.sleep(0.1)
    assert gone.renew({}, []) == "taken", "until it has heard it"


def two_processes(begun: Any, gateway: JavaGateway) -> tuple[Any, Any, Any, Any]:
    """Two estates, and a listener of each."""
    own, other = begun(), begun()
    first, second = (
        Inbox(gateway, hold_milliseconds=100, estate=one.estate).listener("1")
        for one in (own, other)
    )
    return own, other, first, second


def test_who_was_taken_over_leaves_the_session_to_who_lives_and_watches_it(
    begun: Any, flags: Flags, gateway: JavaGateway
) -> None:
    """Both may attach in each of their batches, and would take it from each other for ever."""
    own, other, first, second = two_processes(begun, gateway)
    other.leave(STARTS, flags.sets(STARTS))
    own.leave_be(gateway, Session(second))  # a process that begins takes over, whoever is there
    other.take_over(gateway, Session(first))
    own.leave_be(gateway, Session(first, second))  # it has not heard of it yet
    assert own.renew({}, []) == "taken"
    own.end(own.estate)
    for _ in range(2):
        with pytest.raises(lease.DisplacedError, match="another process has attached to the same"):
            own.leave_be(gateway, Session(first, second))
        own.leave_be(gateway, Session(first))  # in which the other one is not
        own.begin(gateway)
    until(lambda: flags.run() == {STARTS}, "the other one's end, as it says no word any more")
    own.leave_be(gateway, Session(first, second))


class Leaving:
    """A driver that hears, while it lets go of its sessions, that another process took them."""

    application_id, sessions = "app-1", ["one"]
    inherited = lingers = stopped = False

    def __init__(self, own: Own) -> None:
        self._own = own

    def session(self, _java_session: Any) -> str:
        return "one"

    def unwatch(self, _sessions: list[str]) -> None:
        assert self._own.renew({}, []) == "taken"
        self.sessions = []

    def close(self, *, ending: bool) -> None:
        assert not ending


@pytest.mark.parametrize(
    ("says", "back"),
    [
        (lambda _: attachment.detach(), {"session-1", "session-2"}),
        (attachment.detach, {"session-1"}),
        (
            lambda spark: attachment.Attachment(spark._jsparkSession, None, "").detach(),
            {"session-1"},
        ),
        (lambda _: attachment.Attachment(None, None, "off").detach(), set()),
        (lambda _: attachment.detach(SimpleNamespace()), set()),  # of Spark Connect
        (lambda spark: attachment.attach(spark, enabled=False), set()),
        (lambda spark: attachment.attach(spark, enabeld=False), set()),
    ],
)
@pytest.mark.parametrize("heard", ["before", "meanwhile"])
def test_who_was_taken_over_has_back_what_the_job_itself_detached_from(
    says: Callable[[Any], Any],
    back: set[str],
    heard: str,
    begun: Any,
    flags: Flags,
    gateway: JavaGateway,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And no other: to turn off what is off already in each batch is to take nothing back."""
    own, other, first, second = two_processes(begun, gateway)
    other.leave(STARTS, flags.sets(STARTS))
    other.take_over(gateway, Session(first))
    context = MagicMock(applicationId="app-1", **{"getConf.return_value.get.return_value": ""})
    spark = SimpleNamespace(sparkContext=context, _jsparkSession=Session())
    monkeypatch.setattr(attachment, "conf_of", lambda _: {})
    monkeypatch.setattr(attachment, "_taken_off", set())
    monkeypatch.setattr(attachment, "_leases", {context: own})
    monkeypatch.setattr(attachment, "_drivers", {"app-1": Leaving(own)})
    if heard == "before":
        assert own.renew({}, []) == "taken"
        attachment._drivers.clear()
    says(spark)
    found = set()
    for key in ("session-1", "session-2"):
        with contextlib.suppress(lease.DisplacedError):
            own.leave_be(gateway, Session(second, key=key))
            found.add(key)
    assert found == back


def test_who_took_a_session_back_and_lost_it_again_stays_off_again(
    begun: Any, flags: Flags, gateway: JavaGateway
) -> None:
    own = begun()
    for _ in range(2):
        other = begun()
        listeners = [
            Inbox(gateway, hold_milliseconds=100, estate=one.estate).listener("1")
            for one in (own, other)
        ]
        other.leave(STARTS, flags.sets(STARTS))
        other.take_over(gateway, Session(*listeners))
        assert own.renew({}, []) == "taken"
        with pytest.raises(lease.DisplacedError):
            own.leave_be(gateway, Session(*listeners))
        own.take_back("session-1")
        own.leave_be(gateway, Session(*listeners))
        own.begin(gateway)
        own.take_over(gateway, Session(*listeners))


def test_who_was_taken_over_ends_nothing_of_who_comes_after_it_in_its_own_process(
    begun: Any, flags: Flags, gateway: JavaGateway
) -> None:
    own = begun()
    first = own.estate
    own.leave(R, flags.sets("the first's"))
    other = begun()
    listener = Inbox(gateway, hold_milliseconds=100, estate=first).listener("1")
    other.take_over(gateway, Session(listener))
    own.begin(gateway)  # attached again, while the first one still ends
    own.leave(S, flags.sets("the second's"))
    own.end(first)
    assert own.estate is not None
    until(lambda: "the second's" in flags.run(), "its end, which is waited for")


@pytest.mark.parametrize("moved", [0, 1])
def test_a_take_over_that_is_cut_short_leaves_the_rest_to_be_undone_in_its_time(
    begun: Any, flags: Flags, gateway: JavaGateway, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    """And what was moved is the newer process' alone, should it live on."""
    own = begun()
    listener = Inbox(gateway, hold_milliseconds=100, estate=own.estate).listener("1")
    for name in (R, S, STARTS):
        own.leave(name, flags.sets(name))
    other = begun()
    leave, left = lease.Estate.leave, []

    def cut_short(estate: Any, name: str, *what: Any) -> None:
        if len(left) == moved:
            raise ConnectionResetError
        left.append(name)
        leave(estate, name, *what)

    monkeypatch.setattr(lease.Estate, "leave", cut_short)
    own.renew({R: 2 * SECONDS, S: 2 * SECONDS}, [])
    other.take_over(gateway, Session(listener))
    monkeypatch.setattr(lease, "LEASE_SECONDS", SECONDS)
    assert own.renew({}, []) == "taken"
    own.end(own.estate)
    undone = {R, S, STARTS} - set(left)
    before = time.monotonic()
    while time.monotonic() < before + 4 * SECONDS:
        other.renew({R: 60.0, S: 60.0}, [])
        assert flags.run() <= undone
        time.sleep(0.1)
    assert flags.run() == undone


def test_what_is_taken_over_in_a_second_session_is_all_ours(
    begun: Any, flags: Flags, gateway: JavaGateway
) -> None:
    """And until then it stays: a query that has no limit would read everything at once."""
    gone, heir = begun(), begun()
    listener = Inbox(gateway, hold_milliseconds=100, estate=gone.estate).listener("1")
    own = Inbox(gateway, hold_milliseconds=100, estate=heir.estate).listener("1")
    gone.keep("limit r 0", 7)
    gone.leave(R, flags.sets("theirs"), stays=True)
    heir.leave(LISTENER + "1", flags.sets("our listener"))
    heir.take_over(gateway, Session(own))
    heir.take_over(gateway, Session(listener, own))
    assert heir.kept("limit r 0") == 7
    time.sleep(SECONDS)
    assert flags.run() == set()
    until(lambda: flags.run() == {"theirs"}, "its end, as nobody watches it")


class Door:
    """The plugin's class: properties of the JVM's stand for what it has by name."""

    PUT_BACK = ("java.lang.System", "clearProperty")

    def __init__(self, gateway: JavaGateway) -> None:
        self.system = gateway.jvm.java.lang.System
        self._left = gateway.jvm.java.util.concurrent.ConcurrentHashMap()

    def left(self) -> Any:
        return self._left

    def staying(self) -> list[str]:
        return [name for name in (R, S) if self.system.getProperty(name)]

    def letGo(self, name: str) -> None:
        self.system.clearProperty(name)


def test_what_stays_where_the_plugins_door_was_is_put_back_in_the_end(
    gateway: JavaGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.1)
    monkeypatch.setattr(lease, "ALONE_SECONDS", SECONDS)
    monkeypatch.setattr(lease, "_PUT_BACK", Door.PUT_BACK)
    door = Door(gateway)
    for name in (R, S):
        door.system.setProperty(name, "stays")
    heir = Heir(door)
    before = time.monotonic()
    heir.begin(gateway)
    while door.system.getProperty(R):
        heir.renew({}, [S])
        assert time.monotonic() - before < 10 * SECONDS
        time.sleep(0.05)
    assert time.monotonic() - before >= SECONDS, "whose session may be attached next"
    assert door.system.getProperty(S), "which is watched"
    for _ in range(2):  # attached and detached once more
        heir.end(heir.estate)
        heir.begin(gateway)
    until(lambda: not door.system.getProperty(S), "the end of the other")
    assert heir.renew({}, []) == "undone"
    heir.end(heir.estate)


def test_what_stayed_at_the_plugins_door_and_lapses_by_now_is_not_put_back_while_it_lives(
    begun: Any, flags: Flags, gateway: JavaGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The door knows nothing of the grant that has come since, nor would the next process."""
    monkeypatch.setattr(lease, "_PUT_BACK", Door.PUT_BACK)
    door = Door(gateway)
    door.system.setProperty(R, "stays")
    first = Heir(door)
    first.begin(gateway)
    listener = Inbox(gateway, hold_milliseconds=100, estate=first.estate).listener("1")
    first.leave(R, flags.sets("lapses"))
    second = Heir(door)
    second.begin(gateway)
    second.take_over(gateway, Session(listener))
    before = time.monotonic()
    while time.monotonic() < before + lease.ALONE_SECONDS + SECONDS:
        assert second.renew({R: 60.0}, []) is None
        time.sleep(0.1)
    assert flags.run() == set()
    second.forget(R)
    second.end(second.estate)


def test_what_was_kept_is_there_after_a_detach(begun: Any, gateway: JavaGateway) -> None:
    own = begun()
    own.keep("executors", 12)
    own.end(own.estate)
    assert own.kept("executors") == 12
    own.begin(gateway)
    listener = Inbox(gateway, hold_milliseconds=100, estate=own.estate).listener("1")
    after = begun()
    after.take_over(gateway, Session(listener))
    assert after.kept("executors") == 12, "and in the next process"


def test_where_the_jvm_takes_nothing_all_else_goes_on(gateway: JavaGateway) -> None:
    own = Own()
    own.begin(None)
    own.take_over(gateway, None)
    assert own.estate is None
    assert own.renew({R: SECONDS}, [S]) is None
    own.leave(R, lambda: pytest.fail("nothing is made in vain"))
    assert not own.lapses(R)
    own.keep("executors", 12)
    assert own.kept("executors") == 12
    own.forget("executors")
    own.end(None)
    assert own.kept("executors") is None
    own.begin(gateway)
    own.take_over(gateway, None)  # which is told to nobody
    assert own.estate is not None
    own.end(own.estate)


def test_no_start_waits_for_a_process_that_is_gone(
    begun: Any, gateway: JavaGateway, events: Any
) -> None:
    own = begun()
    inbox = Inbox(gateway, hold_milliseconds=2000, estate=own.estate)
    own.leave(STARTS, inbox.no_start_waits)
    inbox.let_starts_wait(True)
    listener = inbox.listener("1")
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
