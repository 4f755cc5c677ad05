"""What listeners tell: each event to the query that it is about, and what is said in reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from agent.core import pipeline as judge
from agent.core import tell
from agent.core.decode.events import (
    Event,
    HeartbeatEvent,
    ProgressEvent,
    Refused,
    Request,
    RunningQuery,
    StartedEvent,
    TerminatedEvent,
    subject_of,
)
from agent.core.fleet import orders
from agent.core.fleet.clusters import ExecutorsOrder
from agent.core.fleet.replies import Grant
from agent.core.fleet.roster import Named, RosterFull
from agent.core.fleet.saved import AGENT_PART, part_of_listener, part_of_query
from agent.core.fleet.senders import LOG_INSTANCE, Sender
from agent.core.judgement import Judgement, Point, QueryStateName
from agent.core.measure import flow as measure
from agent.core.names import label
from agent.core.query import Key

if TYPE_CHECKING:
    from agent.core.decode.events import Application, SourceLimit
    from agent.core.fleet.state import State
    from agent.core.query import Query


class Receipt(msgspec.Struct, frozen=True):
    """What became of a request."""

    accepted: int  # new events taken in; resent ones count as accepted again, but are not judged
    acknowledged: int  # the highest sequence the listener need not send again
    refused: list[Refused]
    grants: list[Grant]
    batches: list[tuple[Key, Point]]  # that ended, each with what was decided after it
    judged: list[Judgement]  # a line per judged event, where lines were asked for
    touched: set[Key]
    #: By run id: whether sources may be steered although an option makes a limit unsafe.
    unsafe_limits: dict[str, bool] = {}
    executors: ExecutorsOrder | None = None  # None: nothing is said of them


class _Said(msgspec.Struct):
    """What the events of one request have led to so far."""

    lines: bool
    instance: str  # of the listener
    host: str
    of_log: bool = False  # read from an event log: what it tells may be long past
    batches: list[tuple[Key, Point]] = []
    judged: list[Judgement] = []
    touched: set[Key] = set()


class Hearing:
    """Takes requests in, for the fleet whose state it is given."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._policy = state.policy
        self._changed = state.changed
        self._wakefulness = state.wakefulness
        self._roster = state.roster
        self._senders = state.senders
        self._pools = state.pools
        self._replies = state.replies
        self._clusters = state.clusters

    def receive(self, request: Request, now: float, *, lines: bool = True) -> Receipt:
        """Counts, measures, judges and decides on every event that is new; answers with grants.

        Without ``lines`` nothing is told per event (``Receipt.judged``), which costs less.
        """
        sender = self._sender(request, now)
        instance = request.listener.instance
        host = request.listener.host
        said = _Said(lines, instance, host, instance.startswith(LOG_INSTANCE))
        cluster = (request.application.id, host)
        refused = list(request.refused)
        accepted = 0
        acknowledged = sender.last_sequence
        totals = self._state.agent.totals
        for index, event in request.events:
            if event.sequence <= sender.last_sequence:
                totals.duplicates += 1
                accepted += 1
                continue
            try:
                self._take(request.application, event, now, said)
            except RosterFull:
                error = f"the agent already follows {self._policy.max_queries} queries, its limit"
                refused.append(Refused(index, event.sequence, error))
                measure.add(totals.refused, "cardinality")
                self._state.turned_away = True
            else:
                accepted += 1
                measure.add(totals.events, event.kind)
            acknowledged = max(acknowledged, event.sequence)
        for bad in request.refused:
            if bad.sequence is None or bad.sequence > sender.last_sequence:
                measure.add(totals.refused, "malformed")
            if bad.sequence is not None:
                acknowledged = max(acknowledged, bad.sequence)
        sender.last_sequence = acknowledged
        if said.of_log:
            times = [event.time for _, event in request.events]
            sender.event_time = max([sender.event_time, *times])
        self._changed.touch(AGENT_PART)
        self._changed.touch(part_of_listener(request.listener.instance))
        for key in said.touched:
            self._changed.touch(part_of_query(key))
        refused.sort(key=lambda item: item.index)
        return Receipt(
            accepted,
            acknowledged,
            refused,
            self._replies.grants(cluster),
            said.batches,
            said.judged,
            said.touched,
            self._replies.unsafe_limits(cluster),
            self._clusters.order(cluster, now),
        )

    def hear(self, request: Request, now: float) -> None:
        """Notes who is alive, and nothing else: for a request whose events cannot be taken in."""
        sender = self._senders.get(request.listener.instance)
        if sender is not None:
            sender.heard_time = now
        for _, event in request.events:
            for subject in subjects(event):
                query = self._roster.known(request.application.id, subject.id)
                if query is not None and query.run.run_id == subject.run_id:
                    self._hear(query, now)

    def hear_driver(self, application_id: str, now: float, *, in_batch: bool) -> None:
        """Notes that a driver lives, whatever it runs; ``in_batch``: of who is in one alone."""
        for query in self._roster.of_application(application_id):
            if not query.life.terminated and (query.running.batch_id is not None or not in_batch):
                self._hear(query, now)

    def _hear(self, query: Query, now: float) -> None:
        if query.life.gone_since_time is not None:
            self._replies.see(query)  # it is there again
        query.life.hear(now)

    def _sender(self, request: Request, now: float) -> Sender:
        if self._senders.get(request.listener.instance) is None and self._senders.is_full():
            for instance in self._senders.make_room(self._roster.applications()):
                self._changed.forget(part_of_listener(instance))
        heard_from = now if self._wakefulness.was_deaf(now) else self._wakefulness.awake_time
        return self._senders.hear(request, now, heard_from)

    def _take(self, application: Application, event: Event, now: float, said: _Said) -> None:
        """One event that is new, judged for whom it is about."""
        body, policy = event.body, self._policy
        if isinstance(body, HeartbeatEvent):
            time, full = event.time, None
            for running in body.queries:
                try:
                    query, time = self._query(application, running, event, now, said)
                except RosterFull as error:
                    full = error  # of the others more can be told
                    continue
                before = query.run.run_id, query.running.batch_id
                limits = _shifted(running.limits, query.clock.set_seconds, time)
                judge.heartbeat(query, running, limits, time, policy)
                if running.run_id == query.run.run_id:  # and no late word of one before
                    query.running.hear(before, running.run_id, now)
                if judge.plans_next(query, running):
                    self._state.brokers.note_plan(query, limits)
                self._pools.see(query)
                if said.lines:
                    said.judged.append(self._line(query, event.kind, time))
            if body.executors is not None:
                cluster = (application.id, said.host)
                self._clusters.hear(cluster, body.executors)
                self._clusters.look(cluster, now)
            if full is not None:
                raise full
            return
        query, time = self._query(application, subject_of(body), event, now, said)
        if isinstance(body, ProgressEvent):
            body = _at(body, query.clock.set_seconds, time)
            beside, asks = self._pools.beside(query), self._clusters.asks(query.cluster)
            spent = judge.progress(query, body, time, policy, beside, asks=asks)
            if spent is not None:
                self._state.brokers.note_read(query, body.progress)
            if spent in {"busy", "backpressured"}:
                said.batches.append((query.key, tell.point(query, policy)))
                if body.work is not None and body.work.groups:
                    self._clusters.see(query.cluster, now)
            elif spent == "idle":
                self._clusters.look(query.cluster, now)
            if said.lines:
                said.judged.append(self._line(query, event.kind, time, spent))
        elif isinstance(body, StartedEvent):
            limits = _shifted(body.limits, query.clock.set_seconds, time)
            body = msgspec.structs.replace(body, limits=limits)
            judge.started(query, body, time, policy, self._pools.beside(query))
        elif isinstance(body, TerminatedEvent):
            judge.terminate(query, body, time, now, policy)
            if said.lines:
                said.judged.append(self._line(query, event.kind, time))
        else:
            judge.idle(query, body, time, now, policy)
            self._clusters.look(query.cluster, now)
        self._pools.see(query)
        measure.add(query.totals.events, event.kind)

    def _line(
        self, query: Query, kind: str, time: float, state: QueryStateName | None = None
    ) -> Judgement:
        line = tell.judgement(query, kind, time, self._policy, state)
        executors = self._clusters.line(query)
        return line if executors is None else msgspec.structs.replace(line, executors=executors)

    def _query(
        self, application: Application, subject: Named, event: Event, now: float, said: _Said
    ) -> tuple[Query, float]:
        """Whom an event is about, and its time by a clock that is never set."""
        # Drivers keep their newest heartbeat alone, so what one says is so now.
        beats = isinstance(event.body, HeartbeatEvent) and not said.of_log
        found = self._roster.find(application, subject, now, beats=beats)
        query, moved, created, renamed, beside = found
        if not query.application_label:  # saved by an agent before this version
            query.application_label = label(application.name)
        if created or renamed:
            orders.greet(self._state.agent.standing, query, self._policy)
        if created and beside is not None:
            query.orders.follow(beside.orders)
            query.orders.borrowed = True
        if moved:
            self._state.regroup({query.run.application_id, *moved})
            self._state.agent.totals.name_collisions += beside is not None
        said.touched.add(query.key)
        self._replies.see(query)  # nobody asks before the event is taken in
        told = event.time
        if isinstance(subject, RunningQuery) and subject.begun_time is not None:
            told = subject.begun_time  # all that its log is sure of: it may be long over
        if said.of_log:
            query.pass_by(subject.id, subject.run_id, told + query.clock.set_seconds)
        if subject.run_id in query.run.past_runs:
            # A late word of who is gone says nothing of who came after.
            return query, event.time + query.clock.set_seconds
        begins = subject.run_id != query.run.run_id
        if begins:
            query.take_over(application.id, subject.id, now)
        if said.of_log:  # it tells nothing of where
            host = query.run.host if query.run.application_id == application.id else ""
        else:
            host = said.host
        if host != query.run.host:
            query.run.host = host
            self._replies.forget({application.id})
        query.run.application_id = application.id
        query.run.spark_version = application.spark_version
        query.life.heard_time = now
        set_seconds = query.clock.set_seconds
        time = query.clock.hear(
            event.time,
            now,
            origin=event.clock_origin,
            same_run=not begins,
            may_be_old=said.of_log,
        )
        query.clock.driver = "" if event.clock_origin is None else said.instance
        if query.clock.set_seconds < set_seconds:
            # Set forward, or its machine slept: nobody can tell, and rows come while one does.
            query.watched.lateness.slept(query.sources, time)
        if begins:
            query.run.begun_time = told + query.clock.set_seconds
        out_of_reach = not query.life.terminated or (query.life.left and beats)
        if query.life.gone_since_time is not None and out_of_reach:
            query.life.begin()
        return query, time


def subjects(event: Event) -> list[Named]:
    """The queries that an event is about."""
    body = event.body
    return [*body.queries] if isinstance(body, HeartbeatEvent) else [subject_of(body)]


def _at(event: ProgressEvent, seconds: float, time: float) -> ProgressEvent:
    """A batch's times by a clock that was never set: so much is added. Told of at ``time``."""
    limits = _shifted(event.limits, seconds, time)
    progress = event.progress
    if seconds:
        progress = msgspec.structs.replace(progress, time=progress.time + seconds)
    return msgspec.structs.replace(event, progress=progress, limits=limits)


def _shifted(limits: list[SourceLimit], seconds: float, time: float) -> list[SourceLimit]:
    """By such a clock; what was seen before it was set back was seen before it was told, too."""
    return [
        one
        if one.observed_time is None
        else msgspec.structs.replace(one, observed_time=min(one.observed_time + seconds, time))
        for one in limits
    ]
