"""All queries of all applications: each event to whom it concerns, and what is granted in reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from agent.core import pipeline as judge
from agent.core import tell
from agent.core.decide import limits as decide
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
from agent.core.fleet.brokers import BrokersWord
from agent.core.fleet.clusters import Clusters, ExecutorsOrder
from agent.core.fleet.liveness import Liveness, Wakefulness, wake
from agent.core.fleet.orders import Order, OrderRecord, Standing, UnknownQuery
from agent.core.fleet.pools import Pools
from agent.core.fleet.replies import Grant, Replies
from agent.core.fleet.roster import Named, Roster, RosterFull, goes_on
from agent.core.fleet.saved import (
    AGENT_PART,
    NO_STATE,
    Change,
    Changed,
    check_read,
    encode,
    key_of,
    ordered_by_later,
    ordered_of,
    part_of_listener,
    part_of_query,
    query_of,
)
from agent.core.fleet.senders import LOG_INSTANCE, ListenerView, Sender, Senders
from agent.core.judge.alignment import sources_named, summed
from agent.core.judgement import (
    ExecutorsLine,
    Facts,
    Finding,
    Judgement,
    Mode,
    Point,
    QueryStateName,
    QueryView,
)
from agent.core.measure import flow as measure
from agent.core.names import label
from agent.core.query import Key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from agent.core.decode.events import Application, SourceLimit
    from agent.core.decode.kafka_offsets import Offsets, Reading
    from agent.core.judge.alignment import AlignmentView
    from agent.core.measure.partitions import PartitionView
    from agent.core.policy import Policy, QueryPolicy
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


class StagesWanted(msgspec.Struct, frozen=True):
    """A query whose stages may be asked for, and where: ``ui_url`` is what its driver says."""

    key: Key
    application_id: str
    run_id: str
    ui_url: str | None
    batch_id: int | None
    stateful: bool


class RunSeen(NamedTuple):
    """The last run of a query, as far as it was counted."""

    run_id: str
    application_id: str
    query_id: str
    batch_id: int | None  # the newest
    ended: bool


class AgentTotals(msgspec.Struct):
    """Counters of the agent as a whole; they survive restarts."""

    events: dict[str, int] = {}  # by type, each event once
    refused: dict[str, int] = {}  # by reason: malformed, cardinality
    duplicates: int = 0  # resent events that were already counted
    name_collisions: int = 0


class _Agent(msgspec.Struct):
    totals: AgentTotals = msgspec.field(default_factory=AgentTotals)
    standing: list[Standing] = []


class _Said(msgspec.Struct):
    """What the events of one request have led to so far."""

    lines: bool
    instance: str  # of the listener
    host: str
    of_log: bool = False  # read from an event log: what it tells may be long past
    batches: list[tuple[Key, Point]] = []
    judged: list[Judgement] = []
    touched: set[Key] = set()


_decode_sender = msgspec.msgpack.Decoder(Sender).decode
_decode_agent = msgspec.msgpack.Decoder(_Agent).decode


class Fleet:
    """Every query's judgement. Not thread-safe: one thread owns it. Times are epoch seconds."""

    def __init__(self, policy: Policy, *, started_time: float, names_stay: bool = False) -> None:
        """``names_stay``: a run keeps the name that it began with; see ``Roster``."""
        self._policy = policy
        self._agent = _Agent()
        self._changed = Changed()
        self.wakefulness = Wakefulness(policy, started_time)
        self._roster = Roster(policy, self._changed, self.wakefulness, names_stay=names_stay)
        self._turned_away = False  # somebody, for want of room, since the last look at the clock
        self._senders = Senders(policy)
        self._pools = Pools(self._roster, policy)
        self._brokers = BrokersWord()
        self._logs_behind: set[str] = set()  # instances
        self._replies = Replies(self._roster, policy)
        self._clusters = Clusters(self._roster, self._replies, policy, self.wakefulness)
        self._alignments: dict[Key, tuple[str, AlignmentView]] = {}  # by the run they are of
        self.unreadable: dict[str, str] = {}  # parts of what was saved, and why
        self.learned_anew: dict[str, str] = {}  # parts of which only orders were read, and why

    # -- events in --------------------------------------------------------------------------

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
        totals = self._agent.totals
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
                self.turn_away()
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

    def turn_away(self) -> None:
        """Notes that somebody needs room who got none."""
        self._turned_away = True

    def hear(self, request: Request, now: float) -> None:
        """Notes who is alive, and nothing else: for a request whose events cannot be taken in."""
        sender = self._senders.get(request.listener.instance)
        if sender is not None:
            sender.heard_time = now
        for _, event in request.events:
            for subject in _subjects(event):
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
        heard_from = now if self.wakefulness.was_deaf(now) else self.wakefulness.awake_time
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
                    self._brokers.note_plan(query, limits)
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
                self._brokers.note_read(query, body.progress)
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
            orders.greet(self._agent.standing, query, self._policy)
        if created and beside is not None:
            query.orders.follow(beside.orders)
            query.orders.borrowed = True
        if moved:
            self._regroup({query.run.application_id, *moved})
            self._agent.totals.name_collisions += beside is not None
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

    def _see(self, query: Query) -> None:
        """A query as it is now."""
        self._pools.see(query)
        self._replies.see(query)

    def _regroup(self, application_ids: set[str]) -> None:
        """Others run in these applications now."""
        self._pools.forget(application_ids)
        self._replies.forget(application_ids)

    # -- the clock --------------------------------------------------------------------------

    def wake(self) -> None:
        """What an agent before this one heard was before this one's start, whatever its clock."""
        heard = {part_of_query(one.key): one.life.heard_time for one in self._roster}
        self.wakefulness.slept = heard | self._senders.heard_times()
        self._wake()

    def follow(self, before: Fleet) -> None:
        """Goes on where a fleet of this same life stood, which this one is put back for.

        What was heard in it and saved stays. With it goes what is not saved, and told again late or
        never: since when the agent hears, and what brokers, clusters, stages and event logs said.
        """
        self.wakefulness.follow(before.wakefulness)
        self._wake()
        self._clusters.follow(before._clusters)
        self._brokers = before._brokers
        self._logs_behind = before._logs_behind
        self._alignments = before._alignments

    def fail(self, request: Request) -> None:
        """Notes that the core failed on it, before the fleet is put back.

        Of what is not saved, and so not put back, a heartbeat changes what its driver told of
        executors: what it failed on would fail again with each event that looks at it.
        """
        self._clusters.forget(request.application.id)

    def _wake(self) -> None:
        before = self.wakefulness.started_time - 1.0
        for query in self._roster:
            if self.wakefulness.slept.get(part_of_query(query.key)) == query.life.heard_time:
                wake(query, before)
        self._senders.wake(self.wakefulness.slept, before)

    def tick(self, now: float, off_seconds: float = 0.0) -> set[Key]:
        """Marks silent queries as gone, forgets those gone long enough; returns what changed.

        ``off_seconds``: by how much the machine's clock is ahead of the agent's own.
        """
        self.wakefulness.tick(now, off_seconds)
        changed: set[Key] = set()
        forgotten: set[Key] = set()
        begun_last: dict[tuple[str, str], Query] | None = None
        for query in self._roster:
            if query.life.gone_since_time is None and self.wakefulness.is_silent(query, now):
                if begun_last is None:
                    begun_last = self._roster.alive_by_checkpoint()
                query.life.gone_since_time = now
                if goes_on(query, begun_last):
                    query.life.leave(now)
                changed.add(query.key)
                self._replies.see(query)
                self._changed.touch(part_of_query(query.key))
            gone = query.life.gone_since_time
            if gone is not None and now - gone > orders.stays_seconds(
                query, self._agent.standing, self._policy
            ):
                forgotten.add(query.key)
                if query.life.stopped and not query.aside:
                    self._roster.parked.put(query, now)
        if not forgotten and len(self._roster) >= self._policy.max_queries:
            forgotten |= self._in_the_way(now)
        self._turned_away = False
        self._let_go(forgotten)
        lately = self._senders.heard_within(self._policy.forget_seconds, now)
        heard = {(one.application_id, one.listener.host or "") for one in lately}
        applications = {application_id for application_id, _ in heard}
        self._regroup(self._roster.forget_applications(applications))
        self._clusters.keep(heard | {query.cluster for query in self._roster})
        for instance in self._senders.forget_silent(now):
            self._changed.forget(part_of_listener(instance))
        return changed | forgotten

    def _in_the_way(self, now: float) -> set[Key]:
        """Where there is no room left: the one longest gone of those that only wait for a hand.

        One of which something was ordered only where no other makes room for who was turned away.
        """
        waiting: list[tuple[bool, float, Key]] = []
        for query in self._roster:
            gone = query.life.gone_since_time
            if gone is None or now - gone <= self._policy.forget_seconds:
                continue
            ordered = orders.is_ordered(query, self._agent.standing, self._policy)
            if self._turned_away or not ordered:
                waiting.append((ordered, gone, query.key))
        return {min(waiting)[2]} if waiting else set()

    def _let_go(self, keys: set[Key]) -> None:
        self._regroup(self._roster.forget(keys))

    # -- a hand at the wheel ----------------------------------------------------------------

    def control(self, application: str, query: str, order: Order, now: float) -> list[OrderRecord]:
        """Carries out an order; application or query may be ``*`` or a shell pattern.

        ``mode`` with a pattern also holds for queries that come later, unless the order says that
        it ``must_exist``. Raises UnknownQuery where anything else names no query, ValueError where
        the order is wrong.
        """
        what = orders.wording(order)
        chosen = self._roster.matching(application, query)
        pattern = orders.is_pattern(application, query)
        if not chosen and (order.must_exist or not pattern or order.mode is None):
            raise UnknownQuery(self._roster.unknown(application, query))
        if order.limit is not None:
            for one in chosen:
                decide.check_unit(one, order.unit)
        if order.retire:
            chosen = orders.retirable(chosen)
        standing = None if order.mode is None else Standing(application, query, order.mode, now)
        if standing is not None and pattern and not order.must_exist:
            self._agent.standing = orders.stand(self._agent.standing, standing)
        self._changed.touch(AGENT_PART)
        records: list[OrderRecord] = []
        for one in chosen:
            records.append(orders.carry_out(order, one, standing, self._policy, now))
            self._see(one)
            self._changed.touch(part_of_query(one.key))
        if order.retire:
            self._let_go({one.key for one in chosen})
        if not chosen:
            later = "fits no query now; holds for later ones"
            return [OrderRecord(now, order.who, application, query, what, order.reason, later)]
        return records

    def stand(self, mode: Mode, who: str, reason: str, now: float) -> OrderRecord:
        """Orders a mode for queries that come later; those known stay as they are.

        What was ordered of each of these, by its name or of all, stands with it.
        """
        standing = Standing("*", "*", mode, now)
        self._agent.standing = orders.stand(self._agent.standing, standing)
        self._changed.touch(AGENT_PART)
        said = orders.wording(Order(who=who, mode=mode))
        return OrderRecord(now, who, "*", "*", said, reason, "holds for later ones")

    # -- what exporters read ----------------------------------------------------------------

    @property
    def totals(self) -> AgentTotals:
        """Counters of the agent as a whole."""
        return self._agent.totals

    @property
    def mode(self) -> Mode:
        """The mode of a query that nobody has named: the switch for all, else the default."""
        return orders.mode_of_all(self._agent.standing, self._policy)

    def __len__(self) -> int:
        return len(self._roster)

    def has(self, key: Key) -> bool:
        """Whether the key names a query."""
        return key in self._roster

    def knows(self, request: Request) -> bool:
        """Whether any query of its application is known: by its id, or under its name."""
        return self._roster.knows(request.application)

    def knows_one_of(self, request: Request) -> bool:
        """Whether any query that its events are about is known."""
        application = request.application.id
        return any(
            self._roster.known(application, one.id)
            for _, event in request.events
            for one in _subjects(event)
        )

    def keys(self) -> list[Key]:
        """The keys of all queries, in order."""
        return self._roster.keys()

    def facts(self) -> list[Facts]:
        """What the consistency audit looks at, of every query."""
        return [tell.facts(query, self._policy) for query in self._roster]

    def stages_wanted(self) -> list[StagesWanted]:
        """Every query that runs and has ended a batch, with where its stages can be asked for.

        Not those that are followed by their event log alone: it holds their stages.
        """
        heard = {sender.application_id for sender in self._senders.drivers()}
        return [
            StagesWanted(
                query.key,
                query.run.application_id,
                query.run.run_id,
                query.run.ui_url,
                query.batch.id,
                bool(query.operators),
            )
            for query in self._roster
            if not query.life.terminated
            and query.life.gone_since_time is None
            and query.batch.id is not None
            and query.run.application_id in heard
        ]

    def keys_by_run(self) -> dict[str, Key]:
        """Where each query's present run belongs, by run id."""
        return {query.run.run_id: query.key for query in self._roster}

    def runs(self, keys: Iterable[Key] | None = None) -> list[RunSeen]:
        """The last run of each query, or of those that are named and known."""
        chosen = self._roster if keys is None else filter(None, map(self._roster.get, keys))
        return [
            RunSeen(
                query.run.run_id,
                query.run.application_id,
                query.run.query_id,
                query.batch.id,
                query.life.terminated,
            )
            for query in chosen
        ]

    def view(self, key: Key, now: float, *, growing: bool = False) -> QueryView:
        """One query at ``now``; raises KeyError where there is none. ``growing``: see tell.view."""
        query = self._roster[key]
        run_id, alignment = self._alignments.get(key, ("", None))
        alignment = alignment if run_id == query.run.run_id else None
        view = tell.view(query, self._policy, now, alignment, growing=growing)
        partitions, age = self._brokers.partitions(query, now)
        if partitions:
            view = msgspec.structs.replace(view, partitions=partitions, partitions_age_seconds=age)
        unwatched = self._brokers.unwatched.get(key)
        if unwatched is not None:
            view = msgspec.structs.replace(view, findings=[*view.findings, unwatched])
        executors = self._clusters.view(query)
        return view if executors is None else msgspec.structs.replace(view, executors=executors)

    def settings(self, key: Key) -> QueryPolicy:
        """What holds for a query, as it is decided by; raises KeyError where there is none."""
        return self._roster[key].settings(self._policy)

    def clock_set_seconds(self, key: Key) -> float:
        """What a time of a ``Point`` is ahead of the driver's clock, as it goes now.

        By this it was set back, all in all. Raises KeyError where there is no such query.
        """
        return self._roster[key].clock.set_seconds

    def executors(self, key: Key) -> ExecutorsLine | None:
        """Of a query's application, as a line of it tells; raises KeyError where there is none."""
        return self._clusters.line(self._roster[key])

    def views(self, now: float) -> Iterator[QueryView]:
        """Every query, in the order of their keys. Built one at a time: views are large."""
        return (self.view(key, now) for key in self.keys())

    def listeners(self, now: float) -> list[ListenerView]:
        """The listeners heard of within the time after which series expire."""
        return self._senders.views(now)

    def counted(self, instance: str) -> int:
        """The newest number counted of a listener instance; 0 where none is known."""
        sender = self._senders.get(instance)
        return 0 if sender is None else sender.last_sequence

    def counted_time(self, instance: str) -> float:
        """The time of the newest event counted of an event log; 0 where none is known."""
        sender = self._senders.get(instance)
        return 0.0 if sender is None else sender.event_time

    def see_logs(self, instances: set[str], now: float) -> None:
        """Which event logs may still grow: their places are kept, however silent they are."""
        self._senders.see_logs(instances, now)

    def see_logs_behind(self, instances: set[str]) -> None:
        """Which event logs are not read to their end: what they tell is past."""
        self._logs_behind = instances

    def has_listener(self, application_id: str) -> bool:
        """Whether a driver's own listener speaks for the application, not only its event log."""
        return any(one.application_id == application_id for one in self._senders.drivers())

    def liveness(self, application: str, query: str, now: float) -> Liveness:
        """Whether restarting the driver would help; slow, idle and unknown never say so."""
        found = self.wakefulness.liveness(
            self._roster.get((application, query)), self._senders, now
        )
        if found.ok:
            return found
        # A pod knows the name alone, which may be another's: none is ended for what that one does.
        for one in self._roster.beside((application, query)):
            lives = one.life.gone_since_time is None
            if lives and self.wakefulness.liveness(one, self._senders, now).ok:
                return Liveness(ok=True, why="unknown")
        return found

    # -- what others say of a query -----------------------------------------------------------

    def note_alignment(self, key: Key, run_id: str, found: AlignmentView) -> None:
        """Takes in what the stages of a run's batch waited for. It is not saved."""
        query = self._roster.get(key)
        if query is None or query.run.run_id != run_id:
            return
        same = found.batch_id is not None and found.batch_id == query.batch.id
        stages = sources_named(found.stages, [s.rows for s in query.sources] if same else [])
        seconds, ratio = summed(stages)
        view = msgspec.structs.replace(found, stages=stages, seconds=seconds, skew_ratio=ratio)
        self._alignments[key] = (run_id, view)

    def keep_offsets(self) -> None:
        """Keeps from now on how far each query has read, for who asks brokers about it."""
        self._brokers.keep_offsets()

    def readings(self) -> dict[Key, Reading]:
        """How far each query has read that was not stopped, nor reads on, nor is known of long ago.

        What a query that failed has not read may be deleted before it comes back, and before the
        first batch of its next run ends, which goes on where the last one ended. Until then one
        that is gone rests between no batches.
        """
        told_late = self._told_late()
        return {
            query.key: msgspec.structs.replace(
                query.read,
                rests_seconds=query.rests_seconds(),
                gone=query.life.gone_since_time is not None,
                current=self._is_current(query),
            )
            for query in self._roster
            if query.read is not None
            and not (query.life.stopped or query.reads_on)
            and query.run.application_id not in told_late
        }

    def _is_current(self, query: Query) -> bool:
        """Whether it has read no further than is known, or nothing tells of it any more."""
        if query.life.gone_since_time is not None:
            return True
        running, ended = query.running.batch_id, query.batch.id
        further = running is not None and ended is not None and running > ended + 1
        return query.life.heard_time >= self.wakefulness.awake_time and not further

    def _told_late(self) -> set[str]:
        """Applications whose event logs are not read to their end."""
        senders = map(self._senders.get, self._logs_behind)
        return {sender.application_id for sender in senders if sender is not None}

    def committed(self) -> dict[Key, Offsets]:
        """By query, the next rows of Kafka to be read after the newest batch that Spark committed.

        Progress is told once a batch is committed; where logs are written behind, or there are no
        batches, it says nothing of that, and the query is left out. So is one that reads a topic of
        another cluster, or seems to, and one whose event log is not read to its end. Of a partition
        that several sources read the one that is behind counts.
        """
        found: dict[Key, Offsets] = {}
        told_late = self._told_late()
        for query in self._roster:
            behind = query.watched.monitor.asynchronous or query.run.continuous
            behind |= query.run.application_id in told_late
            if query.read is None or behind or self._brokers.elsewhere(query):
                continue
            lowest: Offsets = {}
            for offsets in query.read.offsets.values():
                for place, offset in offsets.items():
                    lowest[place] = min(offset, lowest.get(place, offset))
            found[query.key] = {place: at for place, at in lowest.items() if at >= 0}
        return found

    def hear_partitions(
        self,
        key: Key,
        query_id: str,
        source: int,
        views: list[PartitionView],
        now: float,
        *,
        valid_seconds: float = 300.0,
        silent: Collection[tuple[str, str]] = (),
        doubted: bool = False,
        current: bool = True,
    ) -> None:
        """What brokers hold of a source now, against what the query had read.

        Shown for so many seconds: brokers that stop answering leave nothing known. Of ``silent``
        partitions no broker answers: what was known of them stands as long as others are told.
        Where it is ``doubted`` that this is the log that the query reads, or what it has read is
        not ``current``, no loss is told.
        """
        query = self._roster.get(key)
        if query is None or query.run.query_id != query_id or query.reads_on:
            return
        arrived = query.flow.arrived_rows
        self._brokers.hear(
            *(query, source, views, now),
            valid_seconds=valid_seconds,
            silent=silent,
            doubted=doubted,
            current=current,
        )
        self._see(query)
        if query.life.gone_since_time is not None and query.flow.arrived_rows > arrived:
            # Since when rows wait brokers do not tell again, and no heartbeat saves it any more.
            self._changed.touch(part_of_query(key))

    def hear_elsewhere(self, key: Key, query_id: str, source: int) -> None:
        """A source reads a topic of another cluster: brokers have nothing to say of it."""
        query = self._roster.get(key)
        if query is None or query.run.query_id != query_id:
            return
        if self._brokers.hear_elsewhere(query, source):
            self._see(query)
            self._changed.touch(part_of_query(key))

    def hear_unwatched(self, found: Mapping[Key, Finding]) -> None:
        """All queries that read Kafka of which nobody asks brokers, or they tell nothing."""
        self._brokers.unwatched = found

    # -- saved state ------------------------------------------------------------------------

    def changes(self) -> list[Change]:
        """The saved form of every part that changed since the last call; write them atomically."""
        changed, forgotten = self._changed.take()
        saved: list[Change] = []
        for part in changed:
            kind, _, rest = part.partition(":")
            if kind == "query":
                saved.append(Change(part, encode(self._roster[key_of(rest)])))
            elif kind == "parked":
                saved.append(Change(part, self._roster.parked.saved(rest)))
            elif kind == "listener":
                saved.append(Change(part, encode(self._senders[rest])))
            else:
                saved.append(Change(part, encode(self._agent)))
        saved.extend(Change(part, None) for part in forgotten)
        return saved

    def wrote(self, changes: list[Change]) -> None:
        """Notes that they are written: only now is a query that was let go of gone for good.

        Where that fails the query is put back, and what was said of it goes on.
        """
        for change in changes:
            kind, _, rest = change.part.partition(":")
            if kind == "query" and change.data is None:
                self._alignments.pop(key_of(rest), None)
                self._brokers.forget(key_of(rest))

    @classmethod
    def restore(cls, policy: Policy, parts: Iterable[Change], *, started_time: float) -> Fleet:
        """A fleet as saved, but for parts that cannot be read: ``unreadable`` says of each why.

        They go with the next ``changes``, but for a query's, which may hold orders: that stays, for
        an agent that can read it, until the query is heard of again. ``learned_anew`` says of which
        queries only the orders could be read.
        """
        fleet = cls(policy, started_time=started_time)
        for change in parts:
            if change.data is None:
                continue
            try:
                fleet._put(change.part, change.data)
            except NO_STATE as error:
                fleet.unreadable[change.part] = str(error)
                if not change.part.startswith("query:"):
                    fleet._changed.forget(change.part)
        fleet._date_orders(started_time)
        for query in fleet._roster:
            orders.heed_rules(fleet._agent.standing, query, policy)
        return fleet

    @classmethod
    def restore_orders(
        cls, policy: Policy, parts: Iterable[Change], *, started_time: float
    ) -> Fleet:
        """A fleet of which a later version wrote the parts: what was ordered, and whose it is.

        ``unreadable`` says of which that could not be read. All is among its ``changes``.
        """
        fleet = cls(policy, started_time=started_time)
        for change in parts:
            kind = change.part.partition(":")[0]
            if change.data is None or kind in ("listener", "parked"):
                continue  # they hold no orders
            try:
                if kind == "query":
                    query = ordered_by_later(change.data)
                    fleet._roster.put(query)
                    fleet._changed.touch(part_of_query(query.key))
                elif kind == "agent":
                    fleet._agent.standing = _standing_by_later(change.data)
                    fleet._changed.touch(AGENT_PART)
                else:
                    raise ValueError("not known here")
            except NO_STATE as error:
                fleet.unreadable[change.part] = str(error)
        fleet._date_orders(started_time)
        return fleet

    def _put(self, part: str, data: bytes) -> None:
        kind, _, rest = part.partition(":")
        if kind == "query":
            try:
                query = query_of(data)
            except NO_STATE:
                query, self.learned_anew[part] = ordered_of(data)
                self._changed.touch(part_of_query(query.key))  # so it is said once
            self._roster.put(query)
        elif kind == "parked":
            self._roster.parked.restore(rest, data)
        elif kind == "listener":
            self._senders.put(rest, _decode_sender(data))
        elif kind == "agent":
            self._agent = _decode_agent(data)

    def _date_orders(self, time: float) -> None:
        """Orders that an older agent saved without their time: since now at the latest."""
        self._agent.standing = [
            one if one.time is not None else msgspec.structs.replace(one, time=time)
            for one in self._agent.standing
        ]
        for query in self._roster:
            given = query.orders
            if given.mode is not None and given.mode_by is None and given.mode_time is None:
                given.mode_time = time


def _standing_by_later(data: bytes) -> list[Standing]:
    raw = msgspec.msgpack.decode(data, type=dict[str, Any])
    standing = _decode_agent(data).standing
    # Beside them may stand orders of a kind that is not known here; the counters are none.
    check_read({name: raw[name] for name in raw if name != "totals"}, {"standing": standing})
    return standing


def _subjects(event: Event) -> list[Named]:
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
