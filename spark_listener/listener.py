"""Spark's listener interface without Python: the JVM queues each event, a thread here takes it.

PySpark's own listener has the JVM call Python on the listener bus and on the thread of each query
that starts. That makes the bus wait for the interpreter's lock, and py4j keeps the connection that
it opens for each calling thread for good: a socket, and a thread here, for every start of a query.
So nothing of Weir is ever called: the listener is a program of method handles that puts events
into a bounded queue of the JVM's, and Python comes for them.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from spark_listener.handles import OBJECT, Handles
from spark_listener.lease import MARK
from spark_listener.wire import clock_origin

if TYPE_CHECKING:
    from spark_listener.first_batch import FirstBatchGate
    from spark_listener.sessions import Session

#: Progresses that wait in the JVM while Python does not come. Spark itself keeps 99 of each query
#: (``spark.sql.streaming.numRecentProgressUpdates`` less one): what waits is kept anyway.
MOST_PROGRESS: Final = 100
#: Starts and ends that wait: small objects, a few hundred bytes each.
MOST_WAITING: Final = 10_000

_O: Final = "Ljava/lang/Object;"
_S: Final = "Ljava/lang/String;"
_UNIT: Final = "Ljava/util/concurrent/TimeUnit;"
_EVENT: Final = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"
_KINDS: Final = {
    _EVENT + "StartedEvent": "started",
    _EVENT + "ProgressEvent": "progress",
    _EVENT + "IdleEvent": "idle",
    _EVENT + "TerminatedEvent": "terminated",
}
_BY_KIND: Final = {kind: name for name, kind in _KINDS.items()}
_ALWAYS_KEPT: Final = ("started", "terminated")
_HANDOFF: Final = "java.util.concurrent.SynchronousQueue"
#: Places in the array of counters.
_CALLS, _NANOSECONDS, _DROPPED = range(3)


@dataclass(frozen=True)
class Captured:
    """An event as it came in. ``text`` is a progress' JSON; the rest are ids and texts."""

    kind: str  # started, progress, idle, terminated
    epoch_seconds: float
    text: str = ""
    query_id: str = ""
    run_id: str = ""
    name: str | None = None
    exception: str | None = None
    error_class: str | None = None
    gate: FirstBatchGate | None = None
    session: Session | None = None  # the one whose query it is
    clock_origin: float = field(default_factory=clock_origin)

    @property
    def memory_bytes(self) -> int:
        """Of the texts, as Python keeps them."""
        # PyPy knows no sizes, and raises where it is not told what to say then.
        return sum(sys.getsizeof(text, len(text)) for text in (self.text, self.exception or ""))


@dataclass(frozen=True)
class Waiting:
    """An event as the JVM's queue holds it."""

    kind: str  # empty: one that this version of Spark brought
    event: Any
    epoch_seconds: float
    handoff: Any  # where a query's thread waits for its first batch to be held; else None
    key: str  # of its session
    text: str = ""  # a progress' JSON, where it was read with the rest


@dataclass(frozen=True)
class Counters:
    """What the JVM counts of its listeners."""

    waiting: int = 0
    calls_total: int = 0
    seconds_total: float = 0.0  # how long Spark's threads were kept
    dropped_total: int = 0


class Inbox:
    """The JVM's queue of events, and the listeners that fill it.

    ``hold_milliseconds``: how long the thread of a query that starts waits at most for its first
    batch to be taken hold of, while ``let_starts_wait`` says so.
    """

    def __init__(self, gateway: Any, *, hold_milliseconds: int, estate: Any = None) -> None:
        """``estate``: Java: what a process after this one takes over; see ``lease``."""
        jvm = gateway.jvm
        concurrent = jvm.java.util.concurrent
        self._handles = Handles(gateway)
        self._wrapper = jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper
        self._estate = estate
        self._milliseconds = concurrent.TimeUnit.MILLISECONDS
        self._queue = concurrent.LinkedBlockingQueue(MOST_WAITING)
        self._room = concurrent.Semaphore(MOST_PROGRESS)
        self._waiting_is_worth_it = concurrent.atomic.AtomicBoolean(False)
        self._counters = concurrent.atomic.AtomicLongArray(3)
        self._program = self._timed(self._put_program(hold_milliseconds))
        self._next = self._handles.function(self._next_program())

    # -- the program, which runs on Spark's threads ---------------------------------------------

    def _put_program(self, hold_milliseconds: int) -> Any:
        """``(event, key)``: queues ``[event, epoch milliseconds, handoff, key]``."""
        h = self._handles
        array = h.array().getClass()
        offered = h.methods.filterReturnValue(
            h.methods.identity(array).asCollector(array, 4),
            h.bound(self._queue, "offer", f"({_O})Z").asType(h.type(f"([{_O})Z")),
        )
        kept = h.methods.identity(h.type("()Z").returnType())
        dropped = h.silent(h.given(self._adding(_DROPPED), 0, 1))
        now = h.static("java.lang.System", "currentTimeMillis", "()J")

        def putting(otherwise: Any) -> Any:
            count = h.methods.dropArguments(otherwise, 0, kept.type().parameterList())
            tallied = h.methods.filterReturnValue(offered, h.either(kept, h.silent(kept), count))
            return h.methods.collectArguments(tallied, 1, now.asType(h.type(f"(){_O}")))

        def at_once(put: Any) -> Any:
            return h.given(put, 1, None).asType(h.type(f"({_O}{_O}){_O}"))

        put = putting(dropped)
        plain = at_once(put)
        lost = h.ignoring(dropped.asType(h.type(f"(){_O}")), 0, [OBJECT, OBJECT])
        # Where starts and ends fill the queue, what is not in it takes no room.
        roomy = at_once(putting(h.then(h.bound(self._room, "release", "()V"), dropped)))
        bounded = h.either(h.bound(self._room, "tryAcquire", "()Z"), roomy, lost)
        return h.either(
            self._is("started"),
            h.either(
                h.bound(self._waiting_is_worth_it, "get", "()Z"),
                self._start_program(put, hold_milliseconds),
                plain,
            ),
            h.either(self._is("terminated"), plain, bounded),
        )

    def _start_program(self, put: Any, hold_milliseconds: int) -> Any:
        """Queues a start with a place to hand it on, and waits there, but never for long."""
        h = self._handles
        wait = h.given(
            h.virtual(_HANDOFF, "poll", f"(J{_UNIT}){_O}"),
            1,
            hold_milliseconds,
            self._milliseconds,
        ).asType(h.type(f"({_O}){_O}"))
        whole = h.type(f"({_O}{_O}{_O})V")  # handoff, event, key
        both = h.then(h.reordered(put, whole, 1, 0, 2), h.ignoring(wait, 1, [OBJECT, OBJECT]))
        made = h.constructor(_HANDOFF).asType(h.type(f"(){_O}"))
        return h.methods.collectArguments(both, 0, made)

    def _timed(self, program: Any) -> Any:
        """``(key, arguments)`` of one callback: runs ``(event, key)``, counts it and its time."""
        h = self._handles
        nanoseconds = h.static("java.lang.System", "nanoTime", "()J")
        less = h.static("java.lang.Math", "subtractExact", "(JJ)J")
        lasted = h.methods.collectArguments(less, 0, nanoseconds)  # (begun): now less begun
        note = h.then(
            h.methods.dropArguments(
                h.given(self._adding(_CALLS), 0, 1), 0, lasted.type().parameterList()
            ),
            h.silent(h.methods.collectArguments(self._adding(_NANOSECONDS), 0, lasted)),
        )
        begun = lasted.type().parameterList()
        run = h.then(
            h.methods.dropArguments(h.safe(program), 0, begun),
            h.ignoring(note, 1, [OBJECT, OBJECT]).asType(h.type(f"(J{_O}{_O}){_O}")),
        )
        timed = h.safe(h.methods.collectArguments(run, 0, nanoseconds))
        keyed = h.reordered(timed, h.type(f"({_O}{_O}){_O}"), 1, 0)
        arguments = h.place(0).asType(h.type(f"([{_O}){_O}"))
        return h.methods.collectArguments(keyed, 1, arguments)

    def _adding(self, counter: int) -> Any:
        """Adds a long to a counter."""
        h = self._handles
        return h.given(h.bound(self._counters, "addAndGet", "(IJ)J"), 0, counter)

    def _is(self, kind: str) -> Any:
        h = self._handles
        return h.bound(h.java_class(_BY_KIND[kind]), "isInstance", f"({_O})Z")

    # -- the program that Python runs ------------------------------------------------------------

    def _next_program(self) -> Any:
        """``(milliseconds)``: the oldest entry, of a progress all that it tells as one text.

        Each exchange with the JVM costs the job's own threads some processor time, and progress is
        what comes all the time: its session's key, its moment and its JSON, a line each. Where
        that text cannot be made, the entry itself is given.
        """
        h = self._handles
        entry = h.given(
            h.bound(self._queue, "poll", f"(J{_UNIT}){_O}"), 1, self._milliseconds
        ).asType(h.type(f"({_O}){_O}"))
        same = h.methods.identity(h.java_class(OBJECT))
        text = self._joined(self._lines(3, 1), self._json())
        made_room = h.ignoring(h.bound(self._room, "release", "()V"), 0, ["java.lang.String"])
        told = h.loose(
            h.piped(text, h.then(made_room, h.methods.identity(text.type().returnType())))
        )
        throwable = "java.lang.Throwable"
        told = h.methods.catchException(
            told, h.java_class(throwable), h.ignoring(same, 0, [throwable])
        )
        is_progress = h.piped(h.place(0), self._is("progress"))
        return h.piped(entry, h.unless_null(h.either(is_progress, told, same)))

    def _json(self) -> Any:
        """The JSON of an entry's progress."""
        h = self._handles
        return h.piped(
            h.place(0), h.chained(h.java_class(_BY_KIND["progress"]), "progress", "json")
        )

    def _lines(self, *places: int) -> Any:
        """What stands in these places of an entry, a line each."""
        h = self._handles
        text_of = h.static("java.lang.String", "valueOf", f"({_O}){_S}")
        ended = h.given(h.virtual("java.lang.String", "concat", f"({_S}){_S}"), 1, "\n")
        first, *rest = (h.piped(h.piped(h.place(one), text_of), ended) for one in places)
        for other in rest:
            first = self._joined(first, other)
        return first

    def _joined(self, first: Any, second: Any) -> Any:
        """Both texts of one entry, one after the other."""
        h = self._handles
        concat = h.virtual("java.lang.String", "concat", f"({_S}){_S}")
        both = h.methods.collectArguments(h.methods.collectArguments(concat, 1, second), 0, first)
        return h.reordered(both, h.type(f"({_O}){_S}"), 0, 0)

    # -- Python's side --------------------------------------------------------------------------

    def listener(self, key: str) -> Any:
        """A Spark listener that names its events with ``key``."""
        h = self._handles
        interface = "org.apache.spark.sql.streaming.PythonStreamingQueryListener"
        program = self._program.bindTo(key)  # (arguments)
        no_arguments = h.static("java.util.Objects", "isNull", f"({_O})Z").asType(
            program.type().changeReturnType(h.type("()Z").returnType())
        )
        estate = h.methods.constant(h.java_class(OBJECT), self._estate)
        tell = h.methods.dropArguments(estate, 0, program.type().parameterList())
        return self._wrapper(h.as_handler(h.either(no_arguments, tell, program), interface, MARK))

    def let_starts_wait(self, worth_it: bool) -> None:
        """Whether the thread of a query that starts waits for its first batch to be held."""
        self._waiting_is_worth_it.set(worth_it)

    def no_start_waits(self) -> Any:
        """A Java ``Runnable`` that ends it."""
        h = self._handles
        tell = h.bound(self._waiting_is_worth_it, "set", "(Z)V")
        return h.as_interface("java.lang.Runnable", h.given(tell, 0, False))

    def take(self, timeout_milliseconds: int) -> Waiting | None:
        """The oldest event, or None where none comes in this time. Raises what py4j raises."""
        entry = self._next.apply(timeout_milliseconds)
        if entry is None:
            return None
        if isinstance(entry, str):
            key, moment, text = entry.split("\n", 2)
            return Waiting("progress", None, int(moment) / 1000.0, None, key, text)
        event, milliseconds, handoff, key = (entry[place] for place in range(4))
        kind = "" if event is None else _KINDS.get(str(event.getClass().getName()), "")
        if kind not in _ALWAYS_KEPT:
            self._room.release()
        return Waiting(kind, event, int(milliseconds) / 1000.0, handoff, str(key))

    def __len__(self) -> int:
        """Events that wait. Raises what py4j raises."""
        return int(self._queue.size())

    def lose(self) -> None:
        """Counts an event that cannot be read as dropped. Raises what py4j raises."""
        self._counters.incrementAndGet(_DROPPED)

    def counters(self) -> Counters:
        """As the JVM has them now. Raises what py4j raises."""
        calls, nanoseconds, dropped = (int(self._counters.get(place)) for place in range(3))
        return Counters(len(self), calls, nanoseconds / 1e9, dropped)


def captured(waiting: Waiting, session: Session, gate: FirstBatchGate | None) -> Captured:
    """What an event tells; raises what py4j raises."""
    kind, event, epoch_seconds = waiting.kind, waiting.event, waiting.epoch_seconds
    if kind == "progress":
        text = waiting.text or json_of(event.progress())
        return Captured(kind, epoch_seconds, text=text, session=session)
    query_id, run_id = str(event.id().toString()), str(event.runId().toString())
    name = exception = error_class = None
    if kind == "started":
        name = event.name()
    elif kind == "terminated":
        exception = _option(event.exception())
        error_class = _option(event.errorClassOnException())
    return Captured(
        kind,
        epoch_seconds,
        query_id=query_id,
        run_id=run_id,
        name=name,
        exception=exception,
        error_class=error_class,
        gate=gate,
        session=session,
    )


def json_of(progress: Any) -> str:
    """A progress as JSON, where need be without what the job observes, which nobody here reads.

    Spark 3.5 writes none where a column that is observed is an interval.
    """
    try:
        return str(progress.json())
    except Exception:  # PySpark makes of what the JVM throws errors of many classes
        name = progress.name()
        values = {
            "id": str(progress.id().toString()),
            "runId": str(progress.runId().toString()),
            "name": name if name is None else str(name),
            "timestamp": str(progress.timestamp()),
            "batchId": int(progress.batchId()),
            "numInputRows": int(progress.numInputRows()),
            "durationMs": {str(key): int(took) for key, took in progress.durationMs().items()},
            "eventTime": {str(key): str(time) for key, time in progress.eventTime().items()},
        }
        texts = {
            "stateOperators": _list(progress.stateOperators()),
            "sources": _list(progress.sources()),
            "sink": str(progress.sink().json()),
        }
        told = {key: json.dumps(value) for key, value in values.items()} | texts
        return "{" + ",".join(f'"{key}":{text}' for key, text in told.items()) + "}"


def _list(parts: Any) -> str:
    return "[" + ",".join(str(part.json()) for part in parts) + "]"


def _option(value: Any) -> str | None:
    return str(value.get()) if value.isDefined() else None
