"""What of ours is in the JVM when this process is gone, and who undoes it.

In most jobs the JVM ends with Python. A notebook's outlives it (``restartPython`` on Databricks and
Fabric, an interpreter that Zeppelin or Livy starts anew), and so does the JVM beyond the plugin's
door (``door``). What would stay there for ever, above all limits, is left with a program that
undoes it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from spark_listener.complaints import LOGGER
from spark_listener.handles import OBJECT, Handles
from spark_listener.wire import HEARTBEAT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

#: Before a run's id: the name under which its limits are left.
RUN: Final = "limits "
#: Before a session's key: the name under which its listener is left.
LISTENER: Final = "listener "
#: The name of what no start is to wait for any more.
STARTS: Final = "starts"
#: How often this process says that it lives: as often as an agent takes a driver's word to be.
RENEW_SECONDS: Final = HEARTBEAT_SECONDS
#: A word may be late: while a grant lives it does not end before two of them are missing.
_WORDS: Final = 2
#: What is configured comes back when the grants end that nobody renews; where none is alive any
#: more, after as long as one lives at most without the agent's word (``Policy.grant_seconds``).
LEASE_SECONDS: Final = 60.0
#: A limit where none is configured stays for so long: with everything at once a query that has
#: fallen behind may never end its batch. A Python that restarts with new packages is back by then.
ALONE_SECONDS: Final = 600.0
#: The thread that waits for the lease's end goes as soon as there is none to wait for.
_IDLE_SECONDS: Final = 1
#: What says that a listener of Spark's is ours, by an interface beside Spark's own.
MARK: Final = "java.util.function.Supplier"
_O: Final = "Ljava/lang/Object;"
_MAPS: Final = ("undo", "whole", "heir", "kept")
_ENDS: Final = ("end", "late_end")
Word = Literal["undone", "taken"]
WRAPPER: Final = "org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper"


class Lease:
    """What is left and to be undone; here nothing, as the JVM ends with this process."""

    def begin(self, gateway: Any) -> None:
        """From here on, and until ``end``, what is left is undone some time after ``renew``."""

    def take_over(self, gateway: Any, java_session: Any) -> None:
        """What a process before this one left in a session is ours. Raises nothing."""

    @property
    def estate(self) -> Any:
        """Java: what the next process takes over, where it finds our listener; None without."""
        return None

    def renew(self, seconds: float) -> Word | None:  # noqa: ARG002
        """Says that this process lives, and that its first grant ends in so many seconds.

        Gives what has become of what it had left: ``undone``, as no word came for so long, or
        ``taken`` over by another process. None: nothing.
        """
        return None

    def end(self) -> None:
        """Nothing of ours is left, and nobody has to wait for it. Raises nothing."""

    def leave(
        self, name: str, undo: Callable[[], Any] | None, whole: Callable[[], Any] | None = None
    ) -> None:
        """Has what ``undo`` makes, a Java ``Runnable``, run when this process is gone.

        What ``whole`` makes is run where nobody takes over what the process leaves; None where that
        is nothing beyond ``undo``, as ``undo`` is where all that is left stays until then.
        """

    def keep(self, name: str, value: Any) -> None:
        """Lets the next process find a Java object."""

    def kept(self, name: str) -> Any:
        """What a process before this one kept, or None. May raise what py4j raises."""

    def forget(self, *names: str) -> None:
        """Neither runs nor keeps what has these names."""

    def rest(self, run_ids: Container[str]) -> None:
        """Undoes whatever was left but for these runs, which were taken over."""


class Estate:
    """What one process leaves in the JVM, which the next one takes over. Raises what py4j does.

    A map of Java objects by name, so that a process of another version of Weir finds its way:
    programs by name that ``undo`` it when grants end, that undo the ``whole`` of it later, and that
    only an ``heir`` runs; what is ``kept`` by name; what has become of it, its ``word``; the
    ``scheduler`` and the two ends that it waits for, ``end`` and ``late_end``.
    """

    def __init__(self, gateway: Any) -> None:
        concurrent = gateway.jvm.java.util.concurrent
        h = Handles(gateway)
        self.java: Any = concurrent.ConcurrentHashMap()
        for name in _MAPS:
            self.java[name] = concurrent.ConcurrentHashMap()
        for name in ("word", *_ENDS):
            self.java[name] = concurrent.atomic.AtomicReference()
        self.java["scheduler"] = _scheduler(gateway, h)
        self.undo, self.whole, self.heir, self.kept = (self.java[name] for name in _MAPS)
        self._renewal = self._renewing(gateway, h)

    def of(self, name: str) -> tuple[Any, ...]:
        """Java: the maps in which what has this name may stand.

        A listener is taken out by an heir alone: a process that only stood still needs it.
        """
        if name.startswith(LISTENER):
            return (self.heir,)
        return (self.undo, self.whole) if name.startswith((RUN, STARTS)) else (self.kept,)

    def renew(self, seconds: float) -> str | None:
        """The end is so much later again; gives the word that there is, once."""
        wait_seconds = max(seconds, _WORDS * RENEW_SECONDS) if seconds > 0.0 else 0.0
        word = self._renewal.apply(int(1000 * wait_seconds))
        return None if word is None else str(word)

    def stop(self) -> None:
        """Nobody waits for an end."""
        _stop(self.java)

    def absorb(self, java: Any) -> None:
        """Another process' estate is this one's; that process, if it lives, hears of it."""
        java["word"].set("taken")
        _stop(java)
        _run(java["heir"], lambda _: True)
        _run(java["undo"], lambda name: not name.startswith(RUN))
        for name in ("undo", "whole", "kept"):
            self.java[name].putAll(java[name])
            java[name].clear()

    def _renewing(self, gateway: Any, h: Handles) -> Any:
        """A function of milliseconds: waits anew for both ends, and tells what came of it before.

        One exchange with the JVM for all of it.
        """
        concurrent = gateway.jvm.java.util.concurrent
        schedule = h.bound(
            self.java["scheduler"],
            "schedule",
            "(Ljava/lang/Runnable;JLjava/util/concurrent/TimeUnit;)"
            "Ljava/util/concurrent/ScheduledFuture;",
        )
        schedule = h.given(schedule, 2, concurrent.TimeUnit.MILLISECONDS)
        cancel = h.given(h.virtual("java.util.concurrent.Future", "cancel", "(Z)Z"), 1, False)

        def wait(end: str, programs: Any) -> Any:  # (milliseconds)
            undo = h.as_interface("java.lang.Runnable", self._undoing(h, programs))
            before = h.bound(self.java[end], "getAndSet", f"({_O}){_O}")
            changed = h.piped(h.given(schedule, 0, undo), before)
            return h.silent(h.piped(changed, h.unless_null(h.loose(cancel))))

        soon, late = wait("end", self.undo), wait("late_end", self.whole)
        late = h.given(late, 0, int(1000 * ALONE_SECONDS))
        word = h.given(h.bound(self.java["word"], "getAndSet", f"({_O}){_O}"), 0, None)
        both = h.methods.dropArguments(h.then(late, word), 0, soon.type().parameterList())
        return h.function(h.then(soon, both))

    def _undoing(self, h: Handles, programs: Any) -> Any:
        """Runs all programs, whatever one of them does, and lets go of them."""
        run = h.ignoring(h.safe(h.virtual("java.lang.Runnable", "run", "()V")), 0, [OBJECT])
        each = h.as_interface("java.util.function.BiConsumer", run)
        every = h.bound(programs, "forEach", "(Ljava/util/function/BiConsumer;)V")
        note = h.given(h.bound(self.java["word"], "set", f"({_O})V"), 0, "undone")
        clear = h.bound(programs, "clear", "()V")
        return h.then(h.given(every, 0, each), h.then(note, clear))


def _stop(java: Any) -> None:
    """Nobody waits for an estate's ends."""
    for name in _ENDS:
        waited_for = java[name].getAndSet(None)
        if waited_for is not None:
            waited_for.cancel(False)


def _run(programs: Any, chosen: Callable[[str], bool]) -> None:
    """Those of such a name, which are let go of."""
    for name in list(programs):
        if chosen(str(name)):
            programs.pop(name).run()


def _scheduler(gateway: Any, h: Handles) -> Any:
    """Has a thread while something is to be waited for, which keeps no JVM alive."""
    jvm, thread = gateway.jvm, "java.lang.Thread"
    named = h.constructor(thread, "(Ljava/lang/Runnable;Ljava/lang/String;)V")
    made = h.given(named, 1, "weir-lease")
    daemon = h.given(h.virtual(thread, "setDaemon", "(Z)V"), 1, True)
    same = h.methods.identity(h.java_class(thread))
    factory = h.as_interface(
        "java.util.concurrent.ThreadFactory", h.piped(made, h.then(daemon, same))
    )
    scheduler = jvm.java.util.concurrent.ScheduledThreadPoolExecutor(1, factory)
    scheduler.setRemoveOnCancelPolicy(True)
    scheduler.setKeepAliveTime(_IDLE_SECONDS, jvm.java.util.concurrent.TimeUnit.SECONDS)
    scheduler.allowCoreThreadTimeOut(True)
    return scheduler


def estates(gateway: Any, java_session: Any) -> Iterator[Any]:
    """Java: what processes before this one left, as their listeners in a session tell it."""
    listeners = [
        one
        for one in java_session.streams().listListeners()
        if str(one.getClass().getName()) == WRAPPER
    ]
    if not listeners:
        return
    h = Handles(gateway)
    field = h.java_class(WRAPPER).getDeclaredField("listener")
    field.setAccessible(True)
    of_ours = h.bound(h.java_class(MARK), "isInstance", f"({_O})Z")
    tell = h.loose(h.virtual(MARK, "get", f"(){_O}"))
    nothing = h.ignoring(h.methods.constant(h.java_class(OBJECT), None), 0, [OBJECT])
    told = h.function(h.piped(h.loose(h.field(field)), h.either(of_ours, tell, nothing)))
    for listener in listeners:
        estate = told.apply(listener)
        if estate is not None:
            yield estate


class Own(Lease):
    """For the driver's own process, which may attach again, and whose JVM may outlive it."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}  # between a detach and the next attach as well
        self._estate: Estate | None = None
        self._took = False  # from another process, and what nobody goes on with is to be undone

    def begin(self, gateway: Any) -> None:
        """Where this cannot be, nothing is left, as if the JVM ended with this process."""
        self._estate = None
        try:
            estate = Estate(gateway)
            for name, value in self._kept.items():
                estate.kept.put(name, value)
        except Exception as error:
            LOGGER.debug("weir: leaving limits to the JVM", exc_info=error)
            return
        self._estate = estate

    def take_over(self, gateway: Any, java_session: Any) -> None:
        """See ``Lease.take_over``."""
        if self._estate is None:
            return
        try:
            for left in list(estates(gateway, java_session)):
                if not left.equals(self._estate.java):
                    self._estate.absorb(left)
                    self._took = True
                    LOGGER.info("weir: what a process before this one left is taken over")
        except Exception as error:
            LOGGER.debug("weir: taking over what another process left", exc_info=error)

    @property
    def estate(self) -> Any:
        """See ``Lease.estate``."""
        return None if self._estate is None else self._estate.java

    def renew(self, seconds: float) -> Word | None:
        """Raises what py4j raises."""
        estate = self._estate
        return None if estate is None else cast("Word | None", estate.renew(seconds))

    def end(self) -> None:
        """See ``Lease.end``."""
        estate, self._estate = self._estate, None
        if estate is not None:
            with contextlib.suppress(Exception):
                estate.stop()

    def leave(
        self, name: str, undo: Callable[[], Any] | None, whole: Callable[[], Any] | None = None
    ) -> None:
        """Raises what py4j raises; then nothing was left, and nothing must be done."""
        estate = self._estate
        if estate is None:
            return
        for programs, make in zip(estate.of(name), (undo, whole), strict=False):
            if make is None:
                programs.remove(name)
            else:
                programs.put(name, make())

    def keep(self, name: str, value: Any) -> None:
        """Lets who attaches again find it, in this process or the next. Raises what py4j raises."""
        self._kept[name] = value
        if self._estate is not None:
            self._estate.kept.put(name, value)

    def kept(self, name: str) -> Any:
        """What was kept before: a limit's own value, executors that worked and could not go."""
        if name in self._kept or self._estate is None:
            return self._kept.get(name)
        return self._estate.kept.get(name)

    def forget(self, *names: str) -> None:
        """Raises what py4j raises."""
        for name in names:
            self._kept.pop(name, None)
            if self._estate is not None:
                for held in self._estate.of(name):
                    held.remove(name)

    def rest(self, run_ids: Container[str]) -> None:
        """Of runs in sessions that are not watched. Raises what py4j raises."""
        estate = self._estate
        if estate is None or not self._took:
            return
        self._took = False

        def other(name: str) -> bool:
            return name.startswith(RUN) and name.removeprefix(RUN) not in run_ids

        _run(estate.undo, other)
        _run(estate.whole, other)


class Heir(Own):
    """For a driver that attaches by itself after a process beyond the plugin's door."""

    def __init__(self, door: Any) -> None:
        """``door``: the plugin's class."""
        super().__init__()
        self._door = door
        self._left = door.left()
        self._door_settled = False

    def keep(self, name: str, value: Any) -> None:
        """In its place: who attaches again later finds the newest. Raises what py4j raises."""
        self._left[name] = value
        super().keep(name, value)

    def kept(self, name: str) -> Any:
        """What it kept: above all what a job configured, where a limit of ours is in force."""
        found = self._left.get(name)
        return super().kept(name) if found is None else found

    def forget(self, *names: str) -> None:
        """It is ours to let go of, too."""
        super().forget(*names)
        for name in names:
            self._left.remove(name)
            self._door.letGo(name)

    def rest(self, run_ids: Container[str]) -> None:
        """The door is closed for good: a limit that stayed for another process would stay for ever.

        Once: what is watched later is as configured by then. Raises what py4j raises.
        """
        super().rest(run_ids)
        if self._door_settled:
            return
        self._door_settled = True
        for name in list(self._door.staying()):
            if str(name).removeprefix(RUN) not in run_ids:
                self._door.putBack(name)
