"""What of ours is in the JVM when this process is gone, and who undoes it.

In most jobs the JVM ends with Python. A notebook's outlives it (``restartPython`` on Databricks and
Fabric, an interpreter that Zeppelin or Livy starts anew), and so does the JVM beyond the plugin's
door (``door``). What would stay there for ever, above all limits, is left with a program that
undoes it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from spark_listener.complaints import LOGGER
from spark_listener.handles import OBJECT, Handles

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

#: Before a run's id: the name under which its limits are left.
RUN: Final = "limits "
#: Before a session's key: the name under which its listener is left.
LISTENER: Final = "listener "
#: The name of what no start is to wait for any more.
STARTS: Final = "starts"
#: A process that has renewed nothing for so long is gone, or stands still: then its last grants are
#: about to end, too (``agent.core.policy.GRANT_SECONDS``).
LEASE_SECONDS: Final = 60.0
#: Of a driver that is told to beat rarely, so many heartbeats: one may be late, or two.
_BEATS: Final = 4
#: The thread that waits for the lease's end goes as soon as there is none to wait for.
_IDLE_SECONDS: Final = 1
#: What says that a listener of Spark's is ours, by an interface beside Spark's own.
MARK: Final = "java.util.function.Supplier"
_O: Final = "Ljava/lang/Object;"
WRAPPER: Final = "org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper"


def lease_seconds(heartbeat_seconds: float) -> float:
    """How long what is in the JVM outlives a driver's last heartbeat."""
    return max(LEASE_SECONDS, _BEATS * heartbeat_seconds)


class Lease:
    """What is left and to be undone; here nothing, as the JVM ends with this process."""

    def begin(self, gateway: Any, java_session: Any, seconds: float) -> None:
        """From here on, and until ``end``, what is left is undone so long after ``renew``."""

    @property
    def estate(self) -> Any:
        """Java: what the next process takes over, where it finds our listener; None without."""
        return None

    def renew(self) -> bool:
        """Says that this process lives; true where what it had left has been undone before."""
        return False

    def end(self) -> None:
        """Nothing of ours is left, and nobody has to wait for it. Raises nothing."""

    def leave(
        self, name: str, undo: Callable[[], Any], whole: Callable[[], Any] | None = None
    ) -> None:
        """Has what ``undo`` makes, a Java ``Runnable``, run when this process is gone.

        What ``whole`` makes is run where nobody takes over what the process leaves; None where that
        is nothing beyond ``undo``.
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
    """What one process leaves in the JVM, which the next one may take over. Raises what py4j does.

    A map of Java objects by name, so that a process of another version of Weir finds its way:
    programs by name that ``undo`` it at the end and that only an ``heir`` runs, what is ``kept`` by
    name, and of the wait for the end the ``scheduler`` and what it waits for, the ``end``.
    """

    def __init__(self, gateway: Any, left: Any, seconds: float) -> None:
        """``left``: the map of the process before, or None."""
        concurrent = gateway.jvm.java.util.concurrent
        h = Handles(gateway)
        self.java: Any = left
        if left is None:
            self.java = concurrent.ConcurrentHashMap()
            for name in ("undo", "heir", "kept"):
                self.java[name] = concurrent.ConcurrentHashMap()
            self.java["scheduler"] = _scheduler(gateway, h)
            self.java["end"] = concurrent.atomic.AtomicReference()
        self.undo, self.heir = self.java["undo"], self.java["heir"]
        self._kept = self.java["kept"]
        self._end = self.java["end"]
        self._renew = self._renewal(gateway, h, seconds)

    def of(self, name: str) -> Any:
        """Java: where what has this name stands."""
        if name.startswith(LISTENER):  # which a process that only stood still needs
            return self.heir
        return self.undo if name.startswith((RUN, STARTS)) else self._kept

    def renew(self) -> bool:
        """The end is so much later again; true where it had come."""
        return bool(self._renew.call())

    def stop(self) -> None:
        """Nobody waits for the end."""
        waited_for = self._end.getAndSet(None)
        if waited_for is not None:
            waited_for.cancel(False)

    def _renewal(self, gateway: Any, h: Handles, seconds: float) -> Any:
        """A ``Callable``: waits anew for the lease's end, and tells whether that had come.

        One exchange with the JVM for all of it.
        """
        concurrent = gateway.jvm.java.util.concurrent
        has_run = concurrent.atomic.AtomicBoolean(False)
        schedule = h.bound(
            self.java["scheduler"],
            "schedule",
            "(Ljava/lang/Runnable;JLjava/util/concurrent/TimeUnit;)"
            "Ljava/util/concurrent/ScheduledFuture;",
        )
        undo = h.as_interface("java.lang.Runnable", self._undoing(h, has_run))
        milliseconds = concurrent.TimeUnit.MILLISECONDS
        scheduled = h.given(schedule, 0, undo, int(seconds * 1000), milliseconds)
        before = h.piped(scheduled, h.bound(self._end, "getAndSet", f"({_O}){_O}"))
        cancel = h.given(h.virtual("java.util.concurrent.Future", "cancel", "(Z)Z"), 1, False)
        no_more = h.silent(h.piped(before, h.unless_null(h.loose(cancel))))
        told = h.given(h.bound(has_run, "getAndSet", "(Z)Z"), 0, False)
        return h.as_interface("java.util.concurrent.Callable", h.loose(h.then(no_more, told)))

    def _undoing(self, h: Handles, has_run: Any) -> Any:
        """Runs all that undoes, whatever one of them does, and lets go of it."""
        run = h.ignoring(h.safe(h.virtual("java.lang.Runnable", "run", "()V")), 0, [OBJECT])
        each = h.as_interface("java.util.function.BiConsumer", run)
        every = h.bound(self.undo, "forEach", "(Ljava/util/function/BiConsumer;)V")
        note = h.given(h.bound(has_run, "set", "(Z)V"), 0, True)
        clear = h.bound(self.undo, "clear", "()V")
        return h.then(h.given(every, 0, each), h.then(note, clear))


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
    h = Handles(gateway)
    field = h.java_class(WRAPPER).getDeclaredField("listener")
    field.setAccessible(True)
    of_ours = h.bound(h.java_class(MARK), "isInstance", f"({_O})Z")
    tell = h.loose(h.virtual(MARK, "get", f"(){_O}"))
    nothing = h.ignoring(h.methods.constant(h.java_class(OBJECT), None), 0, [OBJECT])
    told = h.function(h.piped(h.loose(h.field(field)), h.either(of_ours, tell, nothing)))
    for listener in list(java_session.streams().listListeners()):
        if str(listener.getClass().getName()) == WRAPPER:
            estate = told.apply(listener)
            if estate is not None:
                yield estate


class Own(Lease):
    """For the driver's own process, which may attach again, and whose JVM may outlive it."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}  # between a detach and the next attach as well
        self._estate: Estate | None = None
        self._settled = False

    def begin(self, gateway: Any, java_session: Any, seconds: float) -> None:
        """Where this cannot be, nothing is left, as if the JVM ended with this process."""
        self._estate, self._settled = None, False
        try:
            found = list(estates(gateway, java_session))
            if found:
                LOGGER.info("weir: what a process before this one left is taken over")
            # That of the newest one, as each takes over and out what it finds.
            estate = Estate(gateway, found[-1] if found else None, seconds)
            if found:
                estate.renew()
            _run(estate.heir, lambda _: True)
            _run(estate.undo, lambda name: not name.startswith(RUN))
            for name, value in self._kept.items():
                estate.of(name).put(name, value)
        except Exception as error:
            LOGGER.debug("weir: leaving limits to the JVM", exc_info=error)
            return
        self._estate = estate

    @property
    def estate(self) -> Any:
        """See ``Lease.estate``."""
        return None if self._estate is None else self._estate.java

    def renew(self) -> bool:
        """Raises what py4j raises."""
        return self._estate is not None and self._estate.renew()

    def end(self) -> None:
        """See ``Lease.end``."""
        estate, self._estate = self._estate, None
        if estate is not None:
            with contextlib.suppress(Exception):
                estate.stop()

    def leave(
        self, name: str, undo: Callable[[], Any], whole: Callable[[], Any] | None = None
    ) -> None:
        """All of it is undone: who comes after a driver's own process may come never.

        Raises what py4j raises; then nothing was left, and nothing must be done.
        """
        if self._estate is not None:
            self._estate.of(name).put(name, (whole or undo)())

    def keep(self, name: str, value: Any) -> None:
        """Lets who attaches again find it, in this process or the next. Raises what py4j raises."""
        self._kept[name] = value
        if self._estate is not None:
            self._estate.of(name).put(name, value)

    def kept(self, name: str) -> Any:
        """What was kept before: a limit's own value, executors that worked and could not go."""
        if name in self._kept or self._estate is None:
            return self._kept.get(name)
        return self._estate.of(name).get(name)

    def forget(self, *names: str) -> None:
        """Raises what py4j raises."""
        for name in names:
            self._kept.pop(name, None)
            if self._estate is not None:
                self._estate.of(name).remove(name)

    def rest(self, run_ids: Container[str]) -> None:
        """Once: what is watched later is as configured by then. Raises what py4j raises."""
        if self._settled or self._estate is None:
            return
        self._settled = True
        _run(
            self._estate.undo,
            lambda name: name.startswith(RUN) and name.removeprefix(RUN) not in run_ids,
        )


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
