"""The thread that owns all knowledge of the driver's queries: events in, limits out.

Events and replies land in its mailbox. It alone reads and writes the JVM's queries (but for the
directory listings of ``files.py``, and what a first batch is held by), numbers the events, sends
heartbeats and lets grants expire.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spark_listener import backlog
from spark_listener.actuator import DETACHED, WATCH_ONLY, Actuator, SourceControl, without_agent
from spark_listener.cluster import Cluster
from spark_listener.complaints import no_answer
from spark_listener.delta import DeltaTable
from spark_listener.files import FileBacklog, FilePrograms, FileSource, FileWatcher
from spark_listener.iceberg import IcebergTable
from spark_listener.lease import STARTS
from spark_listener.listener import Captured, Counters
from spark_listener.mailbox import Mailbox
from spark_listener.progress import ProgressText, Trigger, read_progress
from spark_listener.py4j_log import hang_up
from spark_listener.query import Query, is_real_time, mode_note, takes_all_at_once
from spark_listener.redact import redact_long
from spark_listener.sources import known
from spark_listener.wire import (
    CLOCK_STEP_SECONDS,
    Bound,
    Control,
    SourceLimit,
    clock_origin,
    format_time,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spark_listener.application import Application
    from spark_listener.complaints import Complaints
    from spark_listener.config import Settings
    from spark_listener.first_batch import FirstBatchGate, Gatekeeper
    from spark_listener.lease import Word
    from spark_listener.listener import Inbox
    from spark_listener.outbox import Outbox
    from spark_listener.query import RunningBatch, Watermarks
    from spark_listener.replies import Reply
    from spark_listener.sender import Sender
    from spark_listener.sessions import Session

_TICK_SECONDS: Final = 0.5
_GATE_TICK_SECONDS: Final = 0.005  # while a first batch is held
_ADMITTED_WITHIN_SECONDS: Final = 0.2
_FILES_WITHIN_SECONDS: Final = 0.5  # of all questions to files and tables of one round
#: So often what a heartbeat has is told, where it asks hundreds of queries: far below the time
#: after which an agent takes a driver for gone (silent_seconds, 15). Half is twice as many events.
#: While a first batch is held, or is to be, a part is _GATE_TICK_SECONDS, or one query.
_PART_SECONDS: Final = 1.0
_LAST_WORDS_SECONDS: Final = 1.0
_TRIES: Final = 2  # of putting limits back: a connection that broke is made anew by the next call
_PLAN_LOOKS: Final = 3  # at a query's plan, where one fails
_FORGOTTEN_AFTER_BEATS: Final = 12
_LOST_AFTER: Final = 10  # failed rounds in a row before the JVM is given up


@dataclass
class Run:
    """One run of one query."""

    query: Query
    actuator: Actuator
    session: Session
    file_sources: dict[int, FileSource] = field(default_factory=dict)
    file_backlogs: dict[int, FileBacklog] = field(default_factory=dict)
    tables: dict[int, IcebergTable | DeltaTable] = field(default_factory=dict)
    files_looked_up: bool = False
    plan_looks: int = 0  # that were taken
    watermarks: Watermarks | None = None  # as its plan says
    gate: FirstBatchGate | None = None
    silent_beats: int = 0  # heartbeats in a row that found it inactive
    silent_since: float = 0.0  # monotonic; when the first of them did
    plan_untold_since: float | None = None  # monotonic; its last batch ended then
    told: int | None = None  # the number of the first word of what is configured
    told_before: set[Trigger] = field(default_factory=set)  # which Spark may yet tell by event
    began: tuple[float, float] = (0.0, 0.0)  # the running batch: by Spark's clock, monotonic

    def heard(self) -> None:
        """Spark's bus told of it: what it has not told yet, as an end, may only be late."""
        self.silent_beats, self.silent_since = 0, 0.0

    def age_seconds(self, started_epoch_seconds: float) -> float:
        """Of the batch that runs; the wall clock, which may be set, is looked at once a batch."""
        now = time.monotonic()
        if self.began[0] != started_epoch_seconds:
            age = max(0.0, time.time() - started_epoch_seconds)
            self.began = (started_epoch_seconds, now - age)
        return now - self.began[1]


class Observer:
    """Owns the thread ``weir-observer``."""

    def __init__(
        self,
        settings: Settings,
        application: Application,
        outbox: Outbox,
        *,
        inbox: Inbox,
        gatekeeper: Gatekeeper,
        complaints: Complaints,
        on_lost: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._gateway = application.gateway
        self._lease = application.lease
        self._begun = application.lease.estate  # whoever attaches after us begins another one
        self._outbox = outbox
        self._inbox = inbox
        self._gatekeeper = gatekeeper
        self._spark_stopped = application.stopped
        self._killed = application.killed
        self._complaints = complaints
        self._on_lost = on_lost
        self._runs: dict[str, Run] = {}  # by run id
        self._ends_told: set[str] = set()  # runs of whose end Spark has not told; few are ever lost
        self._sender: Sender | None = None
        self._stopping = threading.Event()
        self._asked: deque[tuple[Callable[[], object], threading.Event]] = deque()
        self._starts_wait = False  # as the JVM was told
        self._ending = False
        self._failed_rounds = 0
        self._files_seconds_left = _FILES_WITHIN_SECONDS
        self._next_heartbeat = time.monotonic()  # at once: it tells whether the agent is there
        self._heartbeat_parts: Iterator[bool] | None = None  # what is left of one under way
        self._heartbeat_begun = 0.0  # monotonic
        self._part_seconds = _PART_SECONDS  # of the part under way
        self._answered = 0  # the highest number whose reply has been taken in
        self._origin = clock_origin()
        self._woke = 0  # the number of the first heartbeat after the machine slept
        self._waking = False  # until there is one
        self._sessions: set[Session] = set()
        self.counters = Counters()  # of the JVM's listeners, as of the last heartbeat
        self._thread = threading.Thread(target=self._loop, name="weir-observer", daemon=True)
        self._files = FileWatcher(
            pause_seconds=settings.files_pause_seconds,
            max_entries=settings.files_max_entries,
            list_directories=settings.files_list,
            complaints=complaints,
            ended=partial(hang_up, application.gateway),
        )
        self._file_programs: FilePrograms | None = None  # until there is a file source
        self._cluster = Cluster(
            application.gateway,
            application.lease,
            every_seconds=settings.heartbeat_seconds,
            complaints=complaints,
        )
        self.mailbox = Mailbox()

    def start(self, sender: Sender) -> None:
        """Starts the thread."""
        self._sender = sender
        self._thread.start()

    # -- from other threads ---------------------------------------------------------------------

    def renew(self) -> None:
        """Says to the JVM that this process lives. Raises what py4j raises."""
        self._renew(list(self._runs.values()))

    def _renew(self, runs: list[Run]) -> None:
        if self._stopping.is_set():
            return
        now = time.monotonic()
        lives: dict[str, float] = {}
        staying: list[str] = []
        for run in runs:
            ending, others = run.actuator.lives(now)
            lives |= ending
            staying += others
        word = self._lease.renew(lives, staying)
        if word is not None:
            self._ask(lambda: self._hear(word), 0.0)

    def without_agent(self) -> str:
        """What becomes of the job's limits while the agent does not answer, in words."""
        return without_agent(self._sources(), time.monotonic())

    def _sources(self) -> list[SourceControl]:
        """Of all queries, for any thread."""
        return [one for run in list(self._runs.values()) for one in list(run.actuator.sources)]

    def open_gate(
        self, session: Session | None, query_id: str, handoff: Any
    ) -> FirstBatchGate | None:
        """Has the first batch of a query that starts held; None where waiting is no use.

        ``handoff`` is where the query's thread waits: it goes on either way. ``session``: None
        where it is not watched.
        """
        gate = None
        try:
            if session is not None and session.control and self._worth_waiting():
                lock = _planning_lock(Query(session.java.streams().get(query_id)))
                gate = None if lock is None else self._gatekeeper.hold(lock, handoff)
            if gate is None:
                self._gatekeeper.pass_on(handoff)
        except Exception as error:
            self._complaints.error("holding a first batch", error)
        return gate

    def _worth_waiting(self) -> bool:
        return (
            self._settings.first_batch_seconds > 0
            and not self._stopping.is_set()
            and self._sender is not None
            and self._sender.link.worth_waiting_for(time.monotonic())
        )

    def join_session(self, session: Session) -> None:
        """Watches this JVM session from now on, the queries that run in it included."""
        self._sessions.add(session)
        self._ask(lambda: self._join(session), 0.0)

    def leave_sessions(self, sessions: Iterable[Session], timeout_seconds: float) -> None:
        """Puts the configured limits of these sessions' queries back and forgets them."""
        for session in sessions:
            self._ask(partial(self._leave, session), 0.0)
        self._ask(lambda: None, timeout_seconds)  # once for all of them, however many they are

    def forget_session(self, session: Session) -> None:
        """For a session that is gone, and its queries with it."""
        self._ask(lambda: self._let_go(session), 0.0)

    def refuse_control(self, session: Session, timeout_seconds: float) -> None:
        """Puts the configured limits of a session's queries back and only watches it from now."""
        session.control = False  # read by whoever starts a query meanwhile
        self._ask(lambda: self._refuse_control(session), timeout_seconds)

    def _ask(self, act: Callable[[], object], timeout_seconds: float) -> None:
        """Has the thread do something, and waits for that; for no longer than so long."""
        done = threading.Event()
        self._asked.append((act, done))
        self.mailbox.wake()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            done.wait(timeout_seconds)

    def stop(self, timeout_seconds: float, *, ending: bool = False) -> None:
        """Ends the threads; limits stay as they are.

        ``ending``: the driver itself ends, so its queries are told as terminated.
        """
        self._ending = ending
        self._stopping.set()
        self.mailbox.wake()
        if threading.current_thread() is not self._thread and self._thread.is_alive():
            self._thread.join(timeout_seconds)
        self._files.stop()

    @property
    def alive(self) -> bool:
        """Whether its thread has not ended."""
        return self._thread.is_alive()

    # -- the thread -----------------------------------------------------------------------------

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._round_guarded()
        self._last_round()
        hang_up(self._gateway)

    def _last_round(self) -> None:
        if not self._spark_stopped():
            self._do_what_is_asked()  # a call into Spark may have held the round for long
            if not self._sessions and not self._ending:
                self._cluster.leave()
        if not self._ending:  # else the JVM may go on
            self._lease.end(self._begun)
        if self._ending or self._spark_stopped():
            self._guarded("the end", self._end_all, self.mailbox.take(0.0)[0])

    def _round_guarded(self) -> None:
        try:
            self._round()
        except Exception as error:
            self._complaints.error("observing", error)
            self._stopping.wait(_TICK_SECONDS)

    def _round(self) -> None:
        captured, replies = self.mailbox.take(self._wait_seconds())
        if self._spark_stopped():
            self._end_all(captured + self._last_words())
            self._stopping.set()
            self._on_lost()
            return
        self._look_at_clock()
        self._files_seconds_left = _FILES_WITHIN_SECONDS
        looked = time.monotonic()
        last_start = max(
            (at for at, one in enumerate(captured) if one.gate is not None), default=-1
        )
        for at, item in enumerate(captured):
            # However much there is to take in, the agent hears that we live.
            self._beat_if_due(_GATE_TICK_SECONDS if at <= last_start else _PART_SECONDS)
            self._guarded(f"a {item.kind} event", self._take, item)
            if time.monotonic() - looked >= _GATE_TICK_SECONDS and self._held():
                # And a first batch goes on as soon as it may.
                self._read(replies + self.mailbox.take_replies())
                replies = []
                for run in [run for run in self._runs.values() if run.gate is not None]:
                    self._guarded("a query's limits", self._steer, run)
                looked = time.monotonic()
        self._read(replies)
        for run in list(self._runs.values()):
            self._guarded("a query's limits", self._steer, run)
        self._do_what_is_asked()
        self._guarded("what starts wait for", self._let_starts_wait)
        if self._heartbeat_parts is not None:
            self._next_heartbeat = time.monotonic()  # nothing else is to be done: it goes on
        self._beat_if_due(_PART_SECONDS)
        self._tell_plans()
        if self._sender is not None:
            self._sender.cut_if_overdue()

    def _read(self, replies: list[Reply]) -> None:
        for reply in replies:
            self._answered = max(self._answered, reply.acknowledged)
            self._hand_out(reply)

    def _last_words(self) -> list[Captured]:
        """What Spark told of its end and still waits in the JVM, which lives on for a while."""
        until = time.monotonic() + _LAST_WORDS_SECONDS
        try:
            while len(self._inbox) and time.monotonic() < until:
                time.sleep(0.01)
        except Exception:  # the JVM is gone as well
            return []
        return self.mailbox.take(_GATE_TICK_SECONDS)[0]

    def _let_starts_wait(self) -> None:
        """Tells the JVM, where it changes, whether a start has anything to wait for."""
        worth_it = self._worth_waiting() and any(
            session.control for session in list(self._sessions)
        )
        if worth_it != self._starts_wait:
            self._inbox.let_starts_wait(worth_it)
            self._starts_wait = worth_it

    def _wait_seconds(self) -> float:
        if self._heartbeat_parts is not None:
            return 0.0
        until_heartbeat = max(0.0, self._next_heartbeat - time.monotonic())
        return min(_GATE_TICK_SECONDS if self._held() else _TICK_SECONDS, until_heartbeat)

    def _held(self) -> bool:
        return any(run.gate is not None for run in self._runs.values())

    def _look_at_clock(self) -> None:
        """Where the machine slept every grant is over, though its monotonic clock stood still.

        Rows came meanwhile, and the limit is of before: what is configured comes back until the
        agent has heard of it. A clock that was set forward looks the same.
        """
        before, self._origin = self._origin, clock_origin()
        if self._origin - before < CLOCK_STEP_SECONDS:
            return
        for run in list(self._runs.values()):
            run.actuator.let_lapse()
            self._guarded("a query's limits", self._steer, run)
        self._waking = True
        self._heartbeat_parts, self._next_heartbeat = None, time.monotonic()  # a new one, at once

    def _hand_out(self, reply: Reply) -> None:
        now = time.monotonic()
        heard = not self._waking and reply.acknowledged >= self._woke
        grants = defaultdict(list)
        for grant in reply.grants:
            grants[grant.run_id].append(grant)
        for run_id, run in self._runs.items():
            allowed = reply.unsafe_limits.get(run_id)
            if allowed is not None:  # an agent that says nothing of it leaves it as it is
                self._guarded("a query's limits", self._allow_unsafe, run, allowed)
            if heard:
                run.actuator.take(grants[run_id], now)
            if run.told is None or self._answered < run.told:
                # Decided by what an earlier run had configured.
                for source in run.actuator.sources:
                    source.keep_to_configured()
        if reply.executors is not None and self._controls:
            self._cluster.take(reply.executors)

    @property
    def _controls(self) -> bool:
        """Whether any session lets limits and executors be changed."""
        return any(session.control for session in list(self._sessions))

    @staticmethod
    def _allow_unsafe(run: Run, allowed: bool) -> None:
        run.actuator.allow_unsafe(allowed=allowed)

    def _guarded(self, what: str, act: Callable[..., object], *arguments: Any) -> None:
        try:
            act(*arguments)
        except Exception as error:
            if not self._spark_stopped():
                self._complaints.error(what, error)

    def _take(self, item: Captured) -> None:
        moment = format_time(item.epoch_seconds)
        if item.kind == "started":
            self._started(item)
        elif item.kind == "progress":
            progress = read_progress(item.text)
            run = self._runs.get(progress.run_id)
            if run is None and item.session is not None:
                run = self._found(item.session, progress.query_id, progress.run_id)
            if run is not None and progress.trigger in run.told_before:
                return
            self._tell_progress(run, progress, moment, item.clock_origin)
            self._cluster.steer()  # now that its batch is over
        elif item.kind == "idle":
            run = self._runs.get(item.run_id)
            body = {"id": item.query_id, "runId": item.run_id}
            if run is not None:
                run.heard()
                body["name"] = run.query.name or ""
            self._outbox.put("idle", moment, _json(body), origin=item.clock_origin)
        else:
            run = self._runs.get(item.run_id)
            if run is None and item.session is not None and item.session not in self._sessions:
                return  # told when it was detached
            if run is None and item.run_id in self._ends_told:  # late, and not lost
                self._ends_told.discard(item.run_id)
                return
            self._outbox.put(
                "terminated",
                moment,
                _json(
                    {
                        "id": item.query_id,
                        "runId": item.run_id,
                        "name": None if run is None else run.query.name,
                        "exception": item.exception and redact_long(item.exception),
                        "errorClassOnException": item.error_class,
                    }
                ),
                origin=item.clock_origin,
            )
            self._forget(item.run_id)

    def _tell_progress(
        self, run: Run | None, progress: ProgressText, moment: str, origin: float
    ) -> None:
        limits = [] if run is None else self._limits(run, progress)
        beside: dict[str, Any] = {"limits": limits}
        if run is not None:
            run.heard()
            # For an agent that has not heard the start: it would not know when a batch is due.
            beside["trigger"] = run.query.trigger
        work = None if run is None else self._cluster.work(progress.run_id, progress.batch_id)
        if work is not None:
            beside["work"] = work
        number = self._outbox.put(
            "progress", moment, progress.text, beside, run_id=progress.run_id, origin=origin
        )
        if run is not None and limits and run.told is None:
            run.told = number
        if run is not None and any(_counts_offsets(one) for one in limits):
            run.plan_untold_since = time.monotonic()

    # -- queries come and go --------------------------------------------------------------------

    def _started(self, item: Captured) -> None:
        session = item.session
        if session is None or session not in self._sessions:
            if item.gate is not None:
                item.gate.release()
            return  # detached meanwhile
        if item.run_id in self._runs:
            if item.gate is not None:
                item.gate.release()
            return
        self._tell_end_before(item.query_id, item.epoch_seconds)
        run = None
        try:
            found = session.java.streams().get(item.query_id)
            # It may have ended before we came to it, and another run have begun.
            if found is not None and (query := Query(found)).run_id == item.run_id:
                run = self._run(query, session)
        except Exception as error:
            self._complaints.error("looking up a query that started", error)
        if run is None:  # tell what is known
            if item.gate is not None:
                item.gate.release()
            body: dict[str, Any] = {"control": "advice", "trigger": "", "outputMode": ""}
            body |= {"sink": "", "checkpointLocation": "", "uiUrl": None, "conf": {}}
            body |= {"id": item.query_id, "runId": item.run_id, "name": item.name}
            self._outbox.put(
                "started", format_time(item.epoch_seconds), _json(body), origin=item.clock_origin
            )
            return
        sequence = self._tell_started(run, item.epoch_seconds, item.clock_origin)
        if item.gate is not None:
            item.gate.sequence = sequence
            item.gate.seconds_to_answer = item.gate.deadline - time.monotonic()
            run.gate = item.gate

    def _tell_end_before(self, query_id: str, epoch_seconds: float) -> None:
        """Of the run that a start follows: Spark tells starts at once, and ends after what waits.

        The agent takes what it hears of a run when the next one has begun for a late word.
        """
        for run_id, run in list(self._runs.items()):
            end = self._end(run) if run.query.id == query_id else None
            if end is not None:
                self._ends_told.add(run_id)
                self._guarded(
                    "a query's end", self._take, replace(end, epoch_seconds=epoch_seconds)
                )

    def _adopt(self, java_query: Any, session: Session, run_id: str | None = None) -> Run | None:
        """Takes on a query that runs; with ``run_id`` none but this run of it."""
        query = Query(java_query)
        if run_id not in (None, query.run_id):
            return None
        if query.run_id in self._runs or not query.active():
            return self._runs.get(query.run_id)
        now = time.time()
        self._tell_end_before(query.id, now)
        run = self._run(query, session)
        self._guarded("a query's sources", self._prepare, run)
        self._tell_started(run, now, clock_origin())
        if session.whole:
            self._guarded("a query's first batches", self._tell_before, run, now)
        return run

    def _tell_before(self, run: Run, now: float) -> None:
        """Batches that ended before the session was watched, of which no event comes."""
        for text in run.query.ended_batches():
            progress = read_progress(text)
            run.told_before.add(progress.trigger)
            self._tell_progress(run, progress, format_time(now), clock_origin())

    def _found(self, session: Session, query_id: str, run_id: str) -> Run | None:
        """A run whose start we missed; None where another one has begun since."""
        if session not in self._sessions:
            return None  # detached meanwhile
        try:
            java_query = session.java.streams().get(query_id)
            return None if java_query is None else self._adopt(java_query, session, run_id)
        except Exception as error:
            self._complaints.error("looking up a query", error)
            return None

    def _run(self, query: Query, session: Session) -> Run:
        actuator = Actuator(
            query,
            self._gateway,
            lease=self._lease,
            allowed=session.control,
            complaints=self._complaints,
            clock=time.time,
        )
        run = Run(query, actuator, session)
        self._runs[query.run_id] = run
        return run

    def _tell_started(self, run: Run, epoch_seconds: float, origin: float) -> int:
        query = run.query
        control, note = self._control(run)
        body = {
            "id": query.id,
            "runId": query.run_id,
            "name": query.name,
            "control": control,
            **query.facts(),
        }
        if note:
            body["note"] = note
        extra = {"limits": self._entries(run)} if run.actuator.ready else None
        moment = format_time(epoch_seconds)
        return self._outbox.put("started", moment, _json(body), extra, origin=origin)

    def _control(self, run: Run) -> tuple[Control, str]:
        query = run.query
        if takes_all_at_once(query.trigger, query.class_name, ""):
            return "none", mode_note(query.trigger, query.class_name)
        if not query.abilities.limits:
            return "advice", "this Spark does not let limits be changed while a query runs"
        if not run.session.control:
            return "advice", WATCH_ONLY
        if run.actuator.ready:
            controls = [source.handle.control for source in run.actuator.sources]
            if "live" not in controls:
                first = run.actuator.sources[0].handle if controls else None
                return (
                    first.control if first is not None else "advice",
                    first.note if first is not None else "",
                )
        return "live", ""  # until its sources are known: their entries say it source by source

    def _forget(self, run_id: str, *, left: bool = False) -> None:
        """``left``: what it leaves is for others to undo."""
        run = self._runs.pop(run_id, None)
        self._files.forget(run_id)
        self._cluster.forget(run_id)
        if run is None:
            return
        if run.gate is not None:
            run.gate.release()
        if not left:
            self._guarded("what was left for a query", run.actuator.forget)

    def _do_what_is_asked(self) -> None:
        while self._asked:
            act, done = self._asked.popleft()
            self._guarded("what was asked", act)
            done.set()

    def _join(self, session: Session) -> None:
        if session not in self._sessions:
            return  # detached meanwhile
        self._cluster.join(session.java.sparkContext())
        for java_query in session.java.streams().active():
            self._guarded("a running query", self._adopt, java_query, session)
        self._give_back_executors()  # what another process asked for, too

    def _give_back_executors(self) -> None:
        """Where no session lets them be changed; last of all, as a cluster may let one wait."""
        if not self._controls:
            self._cluster.give_back()

    def _let_go(self, session: Session) -> None:
        self._sessions.discard(session)
        self._give_back_executors()

    def _leave(self, session: Session) -> None:
        for run_id, run in list(self._runs.items()):
            if run.session is session:
                for _ in range(_TRIES):
                    self._guarded("restoring limits", run.actuator.give_up, DETACHED)
                    if run.actuator.as_configured:
                        break
                self._guarded("a query that is let be", self._tell_last, run)
                self._forget(run_id, left=not run.actuator.as_configured)
        self._let_go(session)

    def _tell_last(self, run: Run) -> None:
        """How it ended, as nobody takes Spark's word of that any more; else that it runs on.

        Its driver lives: its silence would look like its end.
        """
        query = run.query
        end = self._end(run)
        if end is not None:
            self._take(end)
            return
        body = {"id": query.id, "runId": query.run_id, "name": query.name or "", "left": True}
        self._outbox.put("idle", format_time(time.time()), _json(body))

    def _tell_lost_end(self, run: Run) -> None:
        """How it ended, as of when that was seen: later its batch would look as if it had hung."""
        end = self._end(run)
        if end is None:
            self._forget(run.query.run_id)
            return
        seen = end.epoch_seconds - (time.monotonic() - run.silent_since)
        self._take(replace(end, epoch_seconds=seen))
        self._ends_told.add(run.query.run_id)

    def _end(self, run: Run) -> Captured | None:
        """As its event would tell it; None where it runs, or nobody can say."""
        query = run.query
        try:
            if query.active():
                return None
            exception, error_class = query.failure(self._gateway.jvm)
        except Exception as error:
            if not no_answer(error):  # else the JVM is gone as well
                self._complaints.error("how a query ended", error)
            return None
        return Captured(
            "terminated",
            time.time(),
            query_id=query.id,
            run_id=query.run_id,
            exception=exception,
            error_class=error_class,
            session=run.session,
        )

    def _refuse_control(self, session: Session) -> None:
        for run in self._runs.values():
            if run.session is session:
                self._guarded("restoring limits", run.actuator.give_up, WATCH_ONLY)
        self._give_back_executors()

    def _end_all(self, captured: list[Captured]) -> None:
        """Spark or the driver has ended: its queries are over, whatever Spark still told of them.

        Its word of an end comes after what the job's listeners make of it, and may be too late.
        What a query fails with once Spark has stopped is nothing but that.
        """
        for item in captured:
            if item.kind != "started":
                self._guarded(f"a {item.kind} event", self._take, item)
        for run_id, run in list(self._runs.items()):
            end = self._end(run)
            if end is not None and (end.exception is None or not self._stops(run)):
                self._guarded("a query's end", self._take, end)
                continue
            body: dict[str, Any] = {"id": run.query.id, "runId": run_id, "name": run.query.name}
            body |= {"exception": None, "errorClassOnException": None}
            body["driverEnded"] = True
            body["driverKilled"] = self._killed()
            self._outbox.put("terminated", format_time(time.time()), _json(body))
            self._forget(run_id, left=not self._spark_stopped())  # the JVM may go on
        while self._asked:
            self._asked.popleft()[1].set()

    def _stops(self, run: Run) -> bool:
        """Whether Spark has stopped, or does: by its JVM's end, too, of which Python hears last."""
        if self._spark_stopped():
            return True
        try:
            return run.query.spark_stops()
        except Exception:
            return True  # its JVM is gone

    # -- limits ---------------------------------------------------------------------------------

    def _prepare(self, run: Run) -> bool:
        if not run.actuator.prepare():
            return False
        if not run.files_looked_up:
            run.files_looked_up = True
            for source in run.actuator.sources:
                if known(source.source_class).files:
                    self._guarded("a file source", self._watch_files, run, source)
                elif known(source.source_class).table:
                    self._guarded("a table", self._watch_table, run, source)
        return True

    @staticmethod
    def _look_at_plan(run: Run) -> None:
        run.watermarks = run.query.watermarks()
        run.plan_looks = _PLAN_LOOKS

    def _watch_table(self, run: Run, source: SourceControl) -> None:
        item = run.actuator.object_of(source.index)
        if item is None:
            return
        if known(source.source_class).table == "iceberg":
            run.tables[source.index] = IcebergTable(item.source)
            return
        table = DeltaTable(self._gateway, item.source)
        run.tables[source.index] = table
        self._files.watch((run.query.run_id, source.index), table)

    def _watch_files(self, run: Run, source: SourceControl) -> None:
        item = run.actuator.object_of(source.index)
        if item is None:
            return
        if self._file_programs is None:
            self._file_programs = FilePrograms(self._gateway, item.source)
        file_source = FileSource(
            self._gateway, item.source, self._file_programs, self._settings.files_max_entries
        )
        run.file_sources[source.index] = file_source
        run.file_backlogs[source.index] = FileBacklog(deletes=file_source.deletes)
        self._files.watch((run.query.run_id, source.index), file_source)

    def _steer(self, run: Run) -> None:
        gate = run.gate
        if gate is None:
            if self._prepare(run):
                self._apply(run)
            return
        try:
            self._steer_first_batch(run, gate)
        except Exception:
            gate.release()
            run.gate = None
            raise

    def _apply(self, run: Run) -> bool:
        """Puts a query's limits in force; true where one was set."""
        changed = run.actuator.apply(time.monotonic())
        if changed:  # what is left for it waits for its grant's end
            self._guarded("what is left when this process is gone", self._renew, [run])
        return changed

    def _steer_first_batch(self, run: Run, gate: FirstBatchGate) -> None:
        link = self._sender.link if self._sender is not None else None
        answered = self._answered >= gate.sequence
        prepared = run.actuator.prepare()
        changed = answered and prepared and self._apply(run)
        if changed and gate.held:  # still: it is planned under this limit
            run.actuator.settle_first_batch()
        late = time.monotonic() >= gate.deadline
        # Where it has come, read or not, what takes longer is ours or the query's own sources.
        unanswered = self._outbox.acknowledged < gate.sequence
        if late and unanswered and link is not None and gate.was_held:
            # It cost a first batch its time: no other one waits.
            link.lets_wait_in_vain(gate.seconds_to_answer)
        lost = link is None or link.failing
        nothing_granted = answered and not prepared and not run.actuator.has_early_grants
        # Whoever has stopped it waits for its thread, which no interrupt takes out of the wait.
        stopped = not run.query.active()
        if late or lost or (answered and prepared) or nothing_granted or stopped:
            gate.release()
            run.gate = None

    def _entries(self, run: Run) -> list[SourceLimit]:
        return [self._entry(run, source, None) for source in run.actuator.sources]

    def _limits(self, run: Run, progress: ProgressText) -> list[SourceLimit]:
        """What goes beside a progress: per source the limit in force then, and the backlog."""
        self._guarded("a query's sources", self._prepare, run)
        # Not before a batch has ended: by then Spark has put in force what the checkpoint says of
        # how watermarks come together, whatever the session does.
        if run.plan_looks < _PLAN_LOOKS:
            run.plan_looks += 1
            self._guarded("a query's plan", self._look_at_plan, run)
        for source in run.actuator.sources:
            source.no_later_than(time.time())
            planned = progress.trigger_epoch_seconds
            if source.judged and planned is not None and source.index < len(progress.sources):
                said = progress.sources[source.index]
                rows = backlog.whole(said.get("numInputRows")) or 0
                waits = backlog.backlog_of(said, source.source_class, "rows")
                seen = (source.index, rows, planned, waits)
                self._guarded("what a source obeys", run.actuator.batch_read, *seen)
        return [self._entry(run, source, progress) for source in run.actuator.sources]

    def _entry(self, run: Run, source: SourceControl, progress: ProgressText | None) -> SourceLimit:
        handle = source.handle
        said: dict[str, Any] = {}
        if progress is not None and source.index < len(progress.sources):
            said = progress.sources[source.index]
        planned = progress.trigger_epoch_seconds if progress is not None else None
        entry: SourceLimit = {
            "source": source.index,
            "unit": handle.unit,
            "limit": source.maximum if planned is None else source.in_force_at(planned),
            "next_limit": source.maximum,
            "configured": source.configured_maximum,
            "backlog": backlog.backlog_of(said, source.source_class, handle.unit),
            "control": handle.control,
            "source_class": source.source_class,
            "identity": source.identity,
        }
        metrics = said.get("metrics")
        if isinstance(metrics, dict) and not backlog.told_whole(metrics):
            entry["backlog_bound"] = "lower"
        if handle.note:
            entry["note"] = handle.note
        if source.newest_first:
            entry["in_order"] = False
        if source.obeyed is not None:
            entry["obeyed"] = source.obeyed
        if run.watermarks is not None:
            if len(run.actuator.sources) > 1:
                entry["shares_watermark"] = run.watermarks.shared
            if run.watermarks.least_delay_seconds is not None:
                entry["watermark_delay_seconds"] = run.watermarks.least_delay_seconds
        if progress is not None:
            entry["admitted"] = backlog.admitted_of(said, source.source_class, handle.unit)
        if source.index in run.file_sources and handle.unit == "files":
            self._guarded("a file source", self._add_files, run, source.index, said, entry)
        if said and source.index in run.tables:
            places = said.get("startOffset"), said.get("endOffset")
            self._guarded("a table", self._add_table, run, entry, *places)
        return entry

    def _add_table(self, run: Run, entry: SourceLimit, start: Any, end: Any) -> None:
        begun = time.monotonic()
        told = run.tables[entry["source"]].counted(
            entry["unit"], start, end, timeout_seconds=max(0.0, self._files_seconds_left)
        )
        self._files_seconds_left -= time.monotonic() - begun
        if told.backlog is None:
            return
        entry["admitted"], entry["backlog"] = told.admitted, told.backlog
        lower: Bound = "partial" if told.partial else "lower"
        entry["backlog_bound"] = "exact" if told.exact else lower
        if told.observed_time is not None:
            entry["observed_time"] = told.observed_time

    def _add_files(self, run: Run, index: int, said: dict[str, Any], entry: SourceLimit) -> None:
        file_source, state = run.file_sources[index], run.file_backlogs[index]
        key = (run.query.run_id, index)
        end = backlog.log_offset(said.get("endOffset"))
        if end is not None:
            start = backlog.log_offset(said.get("startOffset"))
            entry["admitted"] = self._admitted(key, lambda: file_source.admitted(start, end))
            state.ended(entry["admitted"])
        seen, unread = file_source.seen(), file_source.unread()
        # Asked last: Spark may plan, and forget files, between two questions.
        state.listed(file_source.still_holds(self._files.listing(key)))
        waiting = state.waiting(seen, unread)
        entry["backlog"] = waiting.backlog
        entry["backlog_bound"] = "exact" if waiting.bound == "exact" else "lower"
        entry["arrived"] = waiting.arrived
        if waiting.observed_time is not None:
            entry["observed_time"] = waiting.observed_time
        elif waiting.backlog is None:  # an agent keeps what it was told before this moment
            entry["observed_time"] = format_time(time.time())

    def _admitted(self, key: tuple[str, int], count: Callable[[], int]) -> int | None:
        """Files of a batch; None where a slow listing stands before the answer for too long."""
        patience = min(_ADMITTED_WITHIN_SECONDS, self._files_seconds_left)
        if patience <= 0.0:
            return None
        begun = time.monotonic()
        admitted = self._files.ask(key, count, timeout_seconds=patience)
        self._files_seconds_left -= time.monotonic() - begun
        return admitted

    # -- heartbeats -----------------------------------------------------------------------------

    def _beat_if_due(self, part_seconds: float) -> None:
        """Of hundreds of queries a heartbeat takes long: no more than a part of it at once."""
        if time.monotonic() < self._next_heartbeat:
            return
        if self._heartbeat_parts is None:
            self._heartbeat_begun = time.monotonic()
        parts = self._heartbeat_parts or self._heartbeat()
        self._heartbeat_parts = None  # where it is over, or fails
        self._part_seconds = part_seconds
        begun = time.monotonic()
        self._guarded("a heartbeat", self._tell_a_part, parts)
        # Events wait meanwhile: they have their turn, between two parts for as long as one took.
        now, every = time.monotonic(), self._settings.heartbeat_seconds
        self._next_heartbeat = now + min(_PART_SECONDS, now - begun)
        if self._heartbeat_parts is None:
            rested = now + min(_PART_SECONDS, every)
            self._next_heartbeat = max(self._heartbeat_begun + every, rested)

    def _tell_a_part(self, parts: Iterator[bool]) -> None:
        if next(parts, False):
            self._heartbeat_parts = parts

    def _part_is_over(self, begun: float) -> bool:
        lasted = time.monotonic() - begun
        if self._heartbeat_is_late():
            return lasted >= _PART_SECONDS
        if lasted >= self._part_seconds:
            return True
        return lasted >= _GATE_TICK_SECONDS and (self._held() or self.mailbox.start_waits)

    def _heartbeat_is_late(self) -> bool:
        """It is gone through to its end: what waits comes after it, or queries would seem gone."""
        return time.monotonic() - self._heartbeat_begun >= self._settings.heartbeat_seconds

    def _heartbeat(self) -> Iterator[bool]:
        """In one event, or in several where it takes long: true where what waits has its turn.

        What is known is told before events and replies are taken in, which may change it.
        """
        queries: list[dict[str, Any]] = []
        unanswered = self._count()
        told_of_some, told_time = False, time.monotonic()
        for run_id, run in list(self._runs.items()):
            if self._part_is_over(told_time):
                if queries:
                    self._put_heartbeat({"queries": queries}, goes_on=told_of_some)
                    queries, told_of_some = [], True
                if not self._heartbeat_is_late():
                    yield True
                told_time = time.monotonic()
            if self._runs.get(run_id) is not run:
                continue  # it ended meanwhile
            try:
                if not run.query.active():
                    # Its end comes as an event of its own, unless Spark's listener bus loses it.
                    run.silent_since = run.silent_since or time.monotonic()
                    run.silent_beats += 1
                    if run.silent_beats > _FORGOTTEN_AFTER_BEATS:
                        self._tell_lost_end(run)
                    continue
                queries.append(self._pulse(run))
            except Exception as error:
                self._complaints.error("a query's heartbeat", error)
                if no_answer(error):
                    unanswered += 1
                else:  # this Spark hides what we ask for: the query lives all the same
                    queries.append(_bare_pulse(run.query))
        told: dict[str, Any] = {"queries": queries}
        standing = self._cluster.standing()
        if standing is not None:
            if not self._controls:
                standing.setdefault("note", "its sessions are only watched: attach(control=False)")
            told["executors"] = standing
        number = self._put_heartbeat(told, stays=self._waking, goes_on=told_of_some)
        if self._waking:
            self._woke, self._waking = number, False
        self._cluster.steer()
        answered = queries or told_of_some
        self._failed_rounds = self._failed_rounds + 1 if unanswered and not answered else 0
        if self._failed_rounds >= _LOST_AFTER:
            self._complaints.warn("lost", "weir: Spark's JVM does not answer any more; stopping")
            self._killed = lambda: True  # or it hangs, and nobody watches its queries any more
            self._end_all([])
            self._stopping.set()
            self._on_lost()

    def _look_again(self, run: Run) -> None:
        if run.actuator.look_again():
            self._complaints.warn(
                "stood still",
                "weir: this process stood still for longer than its limits may stand without the "
                "agent's word, so that what is configured came back; it goes on from there",
            )

    def _hear(self, word: Word) -> None:
        """What the JVM tells of what was left there."""
        if word == "undone":
            self._starts_wait = False
            self._lease.leave(STARTS, self._inbox.no_start_waits)
            for run in list(self._runs.values()):
                self._guarded("a query's limits", self._look_again, run)
            return
        self._complaints.warn(
            "taken",
            "weir is off in this process: another one has attached to the same session, and "
            "watches it from now on",
        )
        self._stopping.set()
        self._on_lost()

    def _count(self) -> int:
        """Reads the JVM's counters; gives how many of one reading got no answer."""
        try:
            self.counters = self._inbox.counters()
        except Exception as error:
            if not self._spark_stopped():
                self._complaints.error("the JVM's counters", error)
            return int(no_answer(error))
        return 0

    def _tell_plans(self) -> None:
        """Of batches that follow another and are not over after a tick: what they have in hand.

        Shorter ones say so soon enough themselves.
        """
        late = time.monotonic() - _TICK_SECONDS
        due = [
            run
            for run in self._runs.values()
            if run.plan_untold_since is not None and run.plan_untold_since <= late
        ]
        if not due or self._outbox.heartbeat_waits:  # that one tells of more queries
            return
        told: list[dict[str, Any]] = []

        def tell(run: Run) -> None:
            if run.query.active():
                told.append(self._pulse(run))

        for run in due:
            run.plan_untold_since = None
            self._guarded("a batch's plan", tell, run)
        if told:
            self._put_heartbeat({"queries": told})

    def _put_heartbeat(
        self, told: dict[str, Any], *, stays: bool = False, goes_on: bool = False
    ) -> int:
        """Where it is too large to be sent, without what is largest: offsets of many partitions."""

        def shorter(by_bytes: int) -> str:
            offsets = [
                (len(_json(entry["offsets"])), entry)
                for pulse in told["queries"]
                for entry in pulse.get("limits", ())
                if "offsets" in entry
            ]
            for size, entry in sorted(offsets, key=lambda one: one[0], reverse=True):
                if by_bytes <= 0:
                    break
                del entry["offsets"]
                by_bytes -= size
            return _json(told)

        number = self._outbox.put(
            "heartbeat",
            format_time(time.time()),
            _json(told),
            shorter=shorter,
            stays=stays,
            goes_on=goes_on,
        )
        if not goes_on:  # what only those told is untold
            for run in self._runs.values():
                run.told = None if run.told in self._outbox.replaced else run.told
        for pulse in told["queries"]:
            of = self._runs.get(pulse["runId"])
            if of is not None and of.told is None and pulse.get("limits"):
                of.told = number
        return number

    def _pulse(self, run: Run) -> dict[str, Any]:
        running = run.query.running()
        seconds = None
        entries = self._entries(run)
        if running.started_epoch_seconds is not None:
            seconds = round(run.age_seconds(running.started_epoch_seconds), 3)
            self._guarded("what a batch reads", self._add_plans, run, running, entries)
        elif run.tables and run.query.abilities.offsets:
            self._guarded("a table", self._add_what_came, run, entries)
        return {
            **_bare_pulse(run.query),
            "batchId": running.batch_id if running.batch_id >= 0 else None,
            "running_seconds": seconds,
            "limits": entries,
        }

    def _add_what_came(self, run: Run, entries: list[SourceLimit]) -> None:
        """To tables that are looked at between batches too: what has come since the last one."""
        for entry in entries:
            item = run.actuator.object_of(entry["source"])
            if item is None or not isinstance(run.tables.get(entry["source"]), DeltaTable):
                continue
            end = run.query.planned(item).end
            self._add_table(run, entry, end, end)
            entry.pop("admitted", None)  # no batch is in hand

    def _add_plans(self, run: Run, running: RunningBatch, entries: list[SourceLimit]) -> None:
        """To sources that count offsets how far the running batch reads, and what that left."""
        if is_real_time(run.query.trigger) or not any(_counts_offsets(entry) for entry in entries):
            return
        if running.started_epoch_seconds is None or not run.query.abilities.offsets:
            return
        planned = {
            entry["source"]: run.query.planned(item)
            for entry in entries
            if _counts_offsets(entry)
            and (item := run.actuator.object_of(entry["source"])) is not None
        }
        if run.query.running() != running:
            return  # one of the batches that followed each other, one of the other
        for entry in entries:
            plan = planned.get(entry["source"])
            if plan is None or plan.end is None:
                continue
            if entry["source"] in run.tables:
                self._guarded("a table", self._add_table, run, entry, plan.start, plan.end)
                entry.setdefault("observed_time", format_time(running.started_epoch_seconds))
                continue
            admitted = backlog.offsets_between(plan.start, plan.end)
            left = backlog.offsets_between(plan.end, plan.latest)
            if not admitted or left is None:
                continue  # it is still being planned, or repeats one of another run
            entry["admitted"], entry["backlog"] = admitted, left
            entry["observed_time"] = format_time(running.started_epoch_seconds)
            entry["offsets"] = json.loads(plan.end)


def _counts_offsets(entry: SourceLimit) -> bool:
    source = known(entry["source_class"])
    return source.kafka_offsets or source.table is not None


def _bare_pulse(query: Query) -> dict[str, Any]:
    return {
        "id": query.id,
        "runId": query.run_id,
        "name": query.name,
        "trigger": query.trigger,
        "batchId": None,
        "running_seconds": None,
    }


def _planning_lock(query: Query) -> Any:
    """What every planning of this query needs; None where its first batch is not to be held."""
    if takes_all_at_once(query.trigger, query.class_name, ""):
        return None
    able = query.abilities.progress_lock and query.abilities.limits
    return query.execution.awaitProgressLock() if able else None


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
