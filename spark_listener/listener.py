"""Spark's listener interface, called by the JVM: take the text, queue it, return.

PySpark's own listener walks each event over py4j into Python objects. This one implements the Java
interface itself and asks for the event's JSON only; everything else happens in other threads.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from spark_listener.wire import clock_origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_listener.complaints import Complaints
    from spark_listener.first_batch import FirstBatchGate


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
    session: Any = None  # the JVM session whose query it is
    clock_origin: float = field(default_factory=clock_origin)


class CallbackTimes:
    """How long Weir kept the listener bus busy. Written from the callbacks' threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.seconds_total = 0.0
        self.calls_total = 0

    def add(self, seconds: float) -> None:
        """Counts one callback."""
        with self._lock:
            self.seconds_total += seconds
            self.calls_total += 1


class RawListener:
    """The py4j proxy. Nothing it does may raise into Spark."""

    def __init__(
        self,
        session: Any,
        *,
        deliver: Callable[[Captured], None],
        open_gate: Callable[[Any, str], FirstBatchGate | None],
        times: CallbackTimes,
        complaints: Complaints,
    ) -> None:
        self._session = session
        self._deliver = deliver
        self._open_gate = open_gate
        self._times = times
        self._complaints = complaints

    def onQueryStarted(self, event: Any) -> None:
        """On the stream's own thread, before it plans anything: the one moment to hold it."""
        begun = time.perf_counter()
        gate: FirstBatchGate | None = None
        try:
            query_id, run_id = event.id().toString(), event.runId().toString()
            gate = self._open_gate(self._session, query_id)
            self._deliver(
                Captured(
                    "started",
                    time.time(),
                    query_id=query_id,
                    run_id=run_id,
                    name=event.name(),
                    gate=gate,
                    session=self._session,
                )
            )
            if gate is not None:
                gate.wait_until_held()
        except Exception as error:
            if gate is not None:
                gate.release()
            self._complaints.error("taking in a query's start", error)
        self._times.add(time.perf_counter() - begun)

    def onQueryProgress(self, event: Any) -> None:
        """On the listener bus, once a batch."""
        begun = time.perf_counter()
        try:
            text = event.progress().json()
            self._deliver(Captured("progress", time.time(), text=text, session=self._session))
        except Exception as error:
            self._complaints.error("taking in a progress", error)
        self._times.add(time.perf_counter() - begun)

    def onQueryIdle(self, event: Any) -> None:
        """On the listener bus, when a trigger found nothing for a while."""
        begun = time.perf_counter()
        try:
            self._deliver(
                Captured(
                    "idle",
                    time.time(),
                    query_id=event.id().toString(),
                    run_id=event.runId().toString(),
                    session=self._session,
                )
            )
        except Exception as error:
            self._complaints.error("taking in an idle event", error)
        self._times.add(time.perf_counter() - begun)

    def onQueryTerminated(self, event: Any) -> None:
        """On the listener bus, when the query ended or failed."""
        begun = time.perf_counter()
        try:
            self._deliver(
                Captured(
                    "terminated",
                    time.time(),
                    query_id=event.id().toString(),
                    run_id=event.runId().toString(),
                    exception=_option(event.exception()),
                    error_class=_option(event.errorClassOnException()),
                    session=self._session,
                )
            )
        except Exception as error:
            self._complaints.error("taking in a query's end", error)
        self._times.add(time.perf_counter() - begun)

    class Java:
        """py4j reads the interface from here."""

        implements: Final = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


def _option(value: Any) -> str | None:
    return str(value.get()) if value.isDefined() else None
