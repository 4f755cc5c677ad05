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
from spark_listener.handlers import leave_to_the_job
from spark_listener.handles import OBJECT, Handles
from spark_listener.wire import HEARTBEAT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

#: Before a run's id: the name under which its limits are left.
RUN: Final = "limits "
#: Before a session's key: the name under which its listener is left.
LISTENER: Final = "listener "
#: The name of what no start is to wait for any more.
STARTS: Final = "starts"
#: How often this process says that it lives: as often as an agent takes a driver's word to be.
RENEW_SECONDS: Final = HEARTBEAT_SECONDS
#: A word may be lost, and the next one late by half the time between two: what a living grant put
#: in force is not undone before that.
_WORDS: Final = 2.5
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
#: Before the name of what stays for a while when a process is gone.
_STAYS: Final = "staying "
_O: Final = "Ljava/lang/Object;"
_MAPS: Final = ("programs", "ends", "heir", "kept")
Word = Literal["undone", "taken"]
_TAKEN: Final = "taken"  # in an estate: it is another process'
WRAPPER: Final = "org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper"


class DisplacedError(Exception):
    """A process that took over from this one watches the session; the text is the reason."""


class Lease:
    """What is left and to be undone; here nothing, as the JVM ends with this process."""

    def begin(self, gateway: Any) -> None:
        """From here on, and until ``end``, what is left is undone some time after ``renew``."""

    def take_over(self, gateway: Any, java_session: Any) -> None:
        """What a process before this one left in a session is ours. Raises nothing."""

    def leave_be(self, gateway: Any, java_session: Any) -> None:
        """Raises DisplacedError where taking over a session would go to and fro for ever."""

    def take_back(self, session: str | None) -> None:
        """The job may have a session back, by Spark's id, or all: it detached from it itself."""

    @property
    def estate(self) -> Any:
        """Java: what the next process takes over, where it finds our listener; None without."""
        return None

    def renew(self, lives: Mapping[str, float], staying: Iterable[str]) -> Word | None:  # noqa: ARG002
        """Says that this process lives: by name, in how many seconds the grants behind it end.

        And what stays for now, of a living process. What is left under another name is undone
        when it was to be. Gives what has become of it: ``undone``, as no word came for so long, or
        ``taken`` over by another process. None: nothing.
        """
        return None

    def end(self, begun: Any) -> None:
        """Nobody renews any more what is in an ``estate``. Raises nothing.

        What is in it yet is undone in its time: it was another process', and nobody has watched it
        since.
        """

    @property
    def taken(self) -> bool:
        """Whether another process goes on with what was left, and this one is to set no more."""
        return False

    def leave(self, name: str, undo: Callable[[], Any], *, stays: bool = False) -> None:
        """Has what ``undo`` makes, a Java ``Runnable``, run when this process is gone.

        ``stays``: not before it is clear that nobody takes over what the process leaves.
        """

    def lapses(self, name: str) -> bool:  # noqa: ARG002
        """Whether a process before this one left something by this name that does not stay."""
        return False

    def keep(self, name: str, value: Any) -> None:
        """Lets the next process find a Java object."""

    def kept(self, name: str) -> Any:
        """What a process before this one kept, or None. May raise what py4j raises."""

    def forget(self, *names: str) -> None:
        """Neither runs nor keeps what has these names."""


class Estate:
    """What one process leaves in the JVM, which the next one takes over. Raises what py4j does.

    A map of Java objects by name, so that a process of another version of Weir finds its way: the
    ``programs`` by name that undo it, each at its own end; those ``ends``, which the ``scheduler``
    waits for; programs that only an ``heir`` runs; what is ``kept``; what has become of it, its
    ``word``; and ``taken``, once it is another process'.
    """

    def __init__(self, gateway: Any) -> None:
        concurrent = gateway.jvm.java.util.concurrent
        self._h = h = Handles(gateway)
        self.java: Any = concurrent.ConcurrentHashMap()
        for name in _MAPS:
            self.java[name] = concurrent.ConcurrentHashMap()
        self.java["word"] = concurrent.atomic.AtomicReference()
        self.java["scheduler"] = _scheduler(gateway, h)
        self.programs, self.ends, self.heir, self.kept = (self.java[name] for name in _MAPS)
        self._milliseconds = concurrent.TimeUnit.MILLISECONDS
        self._undo = self._undoing(h)
        renewal, word = self._renewing(h), self._telling(h)
        self._renewal = h.function(renewal)
        word = h.methods.dropArguments(word, 0, renewal.type().parameterList())
        self._life = h.function(h.then(renewal, word))

    def leave(self, name: str, undo: Any, seconds: float) -> None:
        """A ``Runnable`` that is run in so many seconds, in place of what had the name."""
        act = self._h.as_interface("java.lang.Runnable", self._h.given(self._undo, 0, name, undo))
        self.programs.put(name, act)
        self.renew(name, seconds)

    def forget(self, name: str) -> None:
        """Nothing is to be run, kept or waited for that has this name."""
        if name.startswith(LISTENER):
            self.heir.remove(name)
            return
        self.drop(name)
        self.drop(_STAYS + name)
        self.kept.remove(name)

    def drop(self, name: str) -> None:
        """No program has this name, and nobody waits for its end."""
        _drop(name, self.programs, self.ends)

    def renew(self, name: str, seconds: float) -> None:
        """What has this name, if anything, is undone in so many seconds."""
        self._renewal.apply(name, int(1000 * seconds))

    def word(self) -> str | None:
        """What has become of what was left: that it was undone, once; that it was taken, always.

        Starts wait for this process for so much longer again; one exchange with the JVM for both.
        """
        word = self._life.apply(STARTS, int(1000 * LEASE_SECONDS))
        return None if word is None else str(word)

    @property
    def taken(self) -> bool:
        """Whether it is another process' by now."""
        return bool(self.java.containsKey(_TAKEN))

    def absorb(self, java: Any) -> None:
        """Another process' estate is this one's; that process, if it lives, hears of it.

        Each end stays where it is: whose query nobody watches here is undone then. This process,
        too, may be killed in here: what has not been moved by then is undone where it is.
        """
        java[_TAKEN] = True
        delay = self._h.virtual(
            "java.util.concurrent.Delayed", "getDelay", "(Ljava/util/concurrent/TimeUnit;)J"
        )
        delay = self._h.function(self._h.given(delay, 1, self._milliseconds))
        left, ends = java["programs"], java["ends"]
        programs = dict(_items(left))
        starts = programs.pop(STARTS, None)
        self.kept.putAll(java["kept"])
        for name, program in programs.items():
            end = ends.get(name)
            self.leave(name, program, 0 if end is None else max(0, int(delay.apply(end))) / 1000)
            _drop(name, left, ends)
        java["kept"].clear()
        for _, program in _items(java["heir"]):
            program.run()
        java["heir"].clear()
        if starts is not None:
            starts.run()
        # Of starts, and what that process, where it lives, was just about to put off.
        for name, _ in _items(ends):
            _drop(name, left, ends)

    def _undoing(self, h: Handles) -> Any:
        """Of a name and a ``Runnable``: lets go of it, runs it whatever that does, and notes it."""
        forget = h.silent(h.bound(self.programs, "remove", f"({_O}){_O}"))
        run = h.safe(h.virtual("java.lang.Runnable", "run", "()V"))
        note = h.given(h.bound(self.java["word"], "set", f"({_O})V"), 0, "undone")
        ran = h.then(run, h.ignoring(note, 0, ["java.lang.Runnable"]))
        return h.then(h.ignoring(forget, 1, ["java.lang.Runnable"]), h.ignoring(ran, 0, [OBJECT]))

    def _renewing(self, h: Handles) -> Any:
        """Of a name and milliseconds, if any program has it: waits anew for its end."""
        schedule = h.bound(
            self.java["scheduler"],
            "schedule",
            "(Ljava/lang/Runnable;JLjava/util/concurrent/TimeUnit;)"
            "Ljava/util/concurrent/ScheduledFuture;",
        )
        schedule = h.given(schedule, 2, self._milliseconds)
        found = h.bound(self.programs, "get", f"({_O}){_O}")
        found = found.asType(found.type().changeReturnType(schedule.type().parameterType(0)))
        schedule = h.methods.collectArguments(schedule, 0, found)  # (name, milliseconds)
        put = h.bound(self.ends, "put", f"({_O}{_O}){_O}")
        put = h.reordered(put, h.type(f"({_O}{_O}J){_O}"), 1, 0)
        before = h.methods.foldArguments(put, schedule.asType(h.type(f"({_O}J){_O}")))
        cancel = h.given(h.virtual("java.util.concurrent.Future", "cancel", "(Z)Z"), 1, False)
        anew = h.silent(h.piped(before, h.unless_null(h.loose(cancel))))
        there = h.bound(self.programs, "containsKey", f"({_O})Z")
        return h.either(there, anew, h.nothing_with(anew))

    def _telling(self, h: Handles) -> Any:
        """A program without arguments that gives the word."""
        undone = h.given(h.bound(self.java["word"], "getAndSet", f"({_O}){_O}"), 0, None)
        taken = h.given(h.bound(self.java, "containsKey", f"({_O})Z"), 0, _TAKEN)
        return h.either(taken, h.methods.constant(h.java_class(OBJECT), _TAKEN), undone)


def _drop(name: str, programs: Any, ends: Any) -> None:
    """Java: neither runs what has this name nor waits for its end."""
    programs.remove(name)
    waited_for = ends.remove(name)
    if waited_for is not None:
        waited_for.cancel(False)


def _items(java_map: Any) -> list[tuple[str, Any]]:
    """Of a map that others may write to meanwhile."""
    found = [(str(name), java_map.get(name)) for name in list(java_map)]
    return [(name, value) for name, value in found if value is not None]


def _scheduler(gateway: Any, h: Handles) -> Any:
    """Has a thread while something is to be waited for, which keeps no JVM alive."""
    jvm, thread, name = gateway.jvm, "java.lang.Thread", "weir-lease"
    try:
        # It would keep what it inherits for as long: Spark's active session where it is made.
        made = h.constructor(
            thread, "(Ljava/lang/ThreadGroup;Ljava/lang/Runnable;Ljava/lang/String;JZ)V"
        )
        made = h.given(h.given(made, 2, name, 0, False), 0, None)
    except Exception as error:  # of Java 8, which cannot make one that inherits nothing
        leave_to_the_job(error)
        made = h.given(h.constructor(thread, "(Ljava/lang/Runnable;Ljava/lang/String;)V"), 1, name)
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
        self._ended: Any = None  # Java: the estate before it, of which something may wait
        self._displaced = False  # it heard that another process took over from it
        self._taken_back: set[str] = set()  # sessions for which that holds no more, by Spark's id

    def begin(self, gateway: Any) -> None:
        """Where this cannot be, nothing is left, as if the JVM ended with this process."""
        ended, self._ended, self._estate = self._ended, None, None
        try:
            estate = Estate(gateway)
            for name, value in self._kept.items():
                estate.kept.put(name, value)
            if ended is not None:
                estate.absorb(ended)
        except Exception as error:
            leave_to_the_job(error)
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
                    LOGGER.info("weir: what a process before this one left is taken over")
        except Exception as error:
            leave_to_the_job(error)
            LOGGER.debug("weir: taking over what another process left", exc_info=error)

    def leave_be(self, gateway: Any, java_session: Any) -> None:
        """See ``Lease.leave_be``: a job may attach in each batch, and so may the other one's."""
        if not self._displaced:
            return
        living = False
        try:
            living = str(java_session.sessionUUID()) not in self._taken_back and any(
                left["programs"].containsKey(STARTS) and not left.containsKey(_TAKEN)
                for left in estates(gateway, java_session)
            )
        except Exception as error:
            leave_to_the_job(error)
            LOGGER.debug("weir: looking for another process", exc_info=error)
        if living:
            raise DisplacedError(
                "another process has attached to the same session, and watches it; attach again "
                "once that one has ended, or detach() here first to take the session back"
            )

    def take_back(self, session: str | None) -> None:
        """See ``Lease.take_back``."""
        if session is None:
            self._displaced = False
        elif self._displaced:
            self._taken_back.add(session)

    @property
    def estate(self) -> Any:
        """See ``Lease.estate``."""
        return None if self._estate is None else self._estate.java

    def renew(self, lives: Mapping[str, float], staying: Iterable[str]) -> Word | None:
        """Raises what py4j raises."""
        estate = self._estate
        if estate is None:
            return None
        for name, seconds in lives.items():
            estate.renew(name, _no_sooner(seconds))
        for name in staying:
            estate.renew(_STAYS + name, ALONE_SECONDS)
        word = cast("Word | None", estate.word())
        if word == _TAKEN:
            self._displaced = True
            self._taken_back.clear()
        return word

    def end(self, begun: Any) -> None:
        """See ``Lease.end``."""
        estate = self._estate
        if begun is None:
            return
        with contextlib.suppress(Exception):
            taken = begun.containsKey(_TAKEN)
            # Else another driver of this process has begun anew since.
            if estate is not None and estate.java.equals(begun):
                self._estate = None
                if not taken:
                    estate.forget(STARTS)
                    self._ended = begun

    @property
    def taken(self) -> bool:
        """See ``Lease.taken``. Raises what py4j raises."""
        return self._estate is not None and self._estate.taken

    def leave(self, name: str, undo: Callable[[], Any], *, stays: bool = False) -> None:
        """Raises what py4j raises; then nothing was left, and nothing must be done."""
        estate = self._estate
        if estate is None or estate.taken:
            return
        if name.startswith(LISTENER):
            # By an heir alone: a process that only stood still needs it.
            estate.heir.put(name, undo())
        elif stays:
            estate.leave(_STAYS + name, undo(), ALONE_SECONDS)
            estate.drop(name)
        else:
            estate.leave(name, undo(), _no_sooner(0.0))  # until the next word, which follows
            estate.drop(_STAYS + name)

    def lapses(self, name: str) -> bool:
        """See ``Lease.lapses``. Raises what py4j raises."""
        return self._estate is not None and bool(self._estate.programs.containsKey(name))

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
                self._estate.forget(name)


def _no_sooner(seconds: float) -> float:
    """Than words can tell that this process is gone; and no later than a grant lives without."""
    return max(min(seconds, LEASE_SECONDS), _WORDS * RENEW_SECONDS)


#: Of the plugin's class: undoes what it has by a name.
_PUT_BACK: Final = ("weir.WeirPlugin", "putBack")


def _putting_back(gateway: Any, name: str) -> Any:
    """Java: a ``Runnable`` which has the plugin do so."""
    h, (plugin, method) = Handles(gateway), _PUT_BACK
    put_back = h.method(h.java_class(plugin), method, "java.lang.String")
    return h.as_interface("java.lang.Runnable", h.silent(h.given(put_back, 0, name)))


class Heir(Own):
    """For a driver that attaches by itself after a process beyond the plugin's door."""

    def __init__(self, door: Any) -> None:
        """``door``: the plugin's class."""
        super().__init__()
        self._door = door
        self._left = door.left()

    def begin(self, gateway: Any) -> None:
        """The door is closed for good: what stayed for another process would stay for ever."""
        super().begin(gateway)
        estate = self._estate
        if estate is None:
            return
        try:
            for name in map(str, self._door.staying()):
                if not estate.programs.containsKey(_STAYS + name):
                    estate.leave(_STAYS + name, _putting_back(gateway, name), ALONE_SECONDS)
        except Exception as error:
            leave_to_the_job(error)
            LOGGER.debug("weir: what stays where the door was", exc_info=error)

    def leave(self, name: str, undo: Callable[[], Any], *, stays: bool = False) -> None:
        """In the door's place, of which a next heir would take what lapses here for what stays."""
        super().leave(name, undo, stays=stays)
        if self.lapses(name):
            self._door.letGo(name)

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
