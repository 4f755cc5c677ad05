"""All queries of all applications: each event to whom it concerns, and what is granted in reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from agent.core import tell
from agent.core.decide import limits as decide
from agent.core.fleet import orders, reading
from agent.core.fleet.hearing import Hearing, subjects
from agent.core.fleet.liveness import Liveness, wake
from agent.core.fleet.orders import Order, OrderRecord, Standing, UnknownQuery
from agent.core.fleet.roster import goes_on
from agent.core.fleet.saved import AGENT_PART, NO_STATE, part_of_listener, part_of_query
from agent.core.fleet.state import State
from agent.core.judge.alignment import sources_named, summed
from agent.core.query import Key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from agent.core.decode.events import Request
    from agent.core.decode.kafka_offsets import Offsets, Reading
    from agent.core.fleet.hearing import Receipt
    from agent.core.fleet.saved import Change
    from agent.core.fleet.senders import ListenersView, ListenerView
    from agent.core.fleet.state import AgentTotals
    from agent.core.judge.alignment import AlignmentView
    from agent.core.judgement import ExecutorsLine, Facts, Finding, Mode, QueryView
    from agent.core.measure.partitions import PartitionView
    from agent.core.policy import Policy, QueryPolicy
    from agent.core.query import Query


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


class Fleet:
    """Every query's judgement. Not thread-safe: one thread owns it. Times are epoch seconds."""

    def __init__(self, policy: Policy, *, started_time: float, names_stay: bool = False) -> None:
        """``names_stay``: a run keeps the name that it began with; see ``Roster``."""
        self._state = state = State(policy, started_time=started_time, names_stay=names_stay)
        self._hearing = Hearing(state)
        # What stays the same object for as long as the fleet does.
        self._policy = policy
        self._changed = state.changed
        self._roster = state.roster
        self._senders = state.senders
        self._clusters = state.clusters
        self.wakefulness = state.wakefulness

    @property
    def unreadable(self) -> dict[str, str]:
        """Parts of what was saved that cannot be read, and why."""
        return self._state.unreadable

    @property
    def learned_anew(self) -> dict[str, str]:
        """Parts of what was saved of which only orders were read, and why."""
        return self._state.learned_anew

    # -- events in --------------------------------------------------------------------------

    def receive(self, request: Request, now: float, *, lines: bool = True) -> Receipt:
        """Counts, measures, judges and decides on every event that is new; answers with grants.

        Without ``lines`` nothing is told per event (``Receipt.judged``), which costs less.
        """
        return self._hearing.receive(request, now, lines=lines)

    def turn_away(self) -> None:
        """Notes that somebody needs room who got none."""
        self._state.turned_away = True

    def hear(self, request: Request, now: float) -> None:
        """Notes who is alive, and nothing else: for a request whose events cannot be taken in."""
        self._hearing.hear(request, now)

    def hear_driver(self, application_id: str, now: float, *, in_batch: bool) -> None:
        """Notes that a driver lives, whatever it runs; ``in_batch``: of who is in one alone."""
        self._hearing.hear_driver(application_id, now, in_batch=in_batch)

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
        self._state.follow(before._state)

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
        for instance in self._senders.wake(self.wakefulness.slept, before):
            self._changed.touch(part_of_listener(instance))

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
                self._state.replies.see(query)
                self._changed.touch(part_of_query(query.key))
            gone = query.life.gone_since_time
            if gone is not None and now - gone > orders.stays_seconds(
                query, self._state.agent.standing, self._policy
            ):
                forgotten.add(query.key)
                if query.life.stopped and not query.aside:
                    self._roster.parked.put(query, now)
        if not forgotten and len(self._roster) >= self._policy.max_queries:
            forgotten |= self._in_the_way(now)
        self._state.turned_away = False
        self._let_go(forgotten)
        lately = self._senders.heard_within(self._policy.forget_seconds, now)
        heard = {(one.application_id, one.listener.host or "") for one in lately}
        applications = {application_id for application_id, _ in heard}
        self._state.regroup(self._roster.forget_applications(applications))
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
            ordered = orders.is_ordered(query, self._state.agent.standing, self._policy)
            if self._state.turned_away or not ordered:
                waiting.append((ordered, gone, query.key))
        return {min(waiting)[2]} if waiting else set()

    def _let_go(self, keys: set[Key]) -> None:
        self._state.regroup(self._roster.forget(keys))

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
            self._state.agent.standing = orders.stand(self._state.agent.standing, standing)
        self._changed.touch(AGENT_PART)
        records: list[OrderRecord] = []
        for one in chosen:
            records.append(orders.carry_out(order, one, standing, self._policy, now))
            self._state.see(one)
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
        self._state.agent.standing = orders.stand(self._state.agent.standing, standing)
        self._changed.touch(AGENT_PART)
        said = orders.wording(Order(who=who, mode=mode))
        return OrderRecord(now, who, "*", "*", said, reason, "holds for later ones")

    # -- what exporters read ----------------------------------------------------------------

    @property
    def totals(self) -> AgentTotals:
        """Counters of the agent as a whole."""
        return self._state.agent.totals

    @property
    def mode(self) -> Mode:
        """The mode of a query that nobody has named: the switch for all, else the default."""
        return orders.mode_of_all(self._state.agent.standing, self._policy)

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
            for one in subjects(event)
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
        run_id, alignment = self._state.alignments.get(key, ("", None))
        alignment = alignment if run_id == query.run.run_id else None
        view = tell.view(query, self._policy, now, alignment, growing=growing)
        partitions, age = self._state.brokers.partitions(query, now)
        if partitions:
            view = msgspec.structs.replace(view, partitions=partitions, partitions_age_seconds=age)
        unwatched = self._state.brokers.unwatched.get(key)
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

    def listeners_together(self, now: float) -> list[ListenersView]:
        """The same by application: what they count and hold all together."""
        return self._senders.together(now)

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
        self._state.logs_behind = instances

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
        self._state.alignments[key] = (run_id, view)

    def keep_offsets(self) -> None:
        """Keeps from now on how far each query has read, for who asks brokers about it."""
        self._state.brokers.keep_offsets()

    def readings(self) -> dict[Key, Reading]:
        """How far each query has read whose unread rows matter; see ``reading.readings``."""
        return reading.readings(self._state)

    def committed(self) -> dict[Key, Offsets]:
        """By query, the next rows of Kafka to be read; see ``reading.committed``."""
        return reading.committed(self._state)

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
        self._state.brokers.hear(
            *(query, source, views, now),
            valid_seconds=valid_seconds,
            silent=silent,
            doubted=doubted,
            current=current,
        )
        self._state.see(query)
        if query.life.gone_since_time is not None and query.flow.arrived_rows > arrived:
            # Since when rows wait brokers do not tell again, and no heartbeat saves it any more.
            self._changed.touch(part_of_query(key))

    def hear_elsewhere(self, key: Key, query_id: str, source: int) -> None:
        """A source reads a topic of another cluster: brokers have nothing to say of it."""
        query = self._roster.get(key)
        if query is None or query.run.query_id != query_id:
            return
        if self._state.brokers.hear_elsewhere(query, source):
            self._state.see(query)
            self._changed.touch(part_of_query(key))

    def hear_unwatched(self, found: Mapping[Key, Finding]) -> None:
        """All queries that read Kafka of which nobody asks brokers, or they tell nothing."""
        self._state.brokers.unwatched = found

    # -- saved state ------------------------------------------------------------------------

    def changes(self) -> list[Change]:
        """The saved form of every part that changed since the last call; write them atomically."""
        return self._state.changes()

    def wrote(self, changes: list[Change]) -> None:
        """Notes that they are written: only now is a query that was let go of gone for good.

        Where that fails the query is put back, and what was said of it goes on.
        """
        self._state.wrote(changes)

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
                fleet._state.put(change.part, change.data)
            except NO_STATE as error:
                fleet.unreadable[change.part] = str(error)
                if not change.part.startswith("query:"):
                    fleet._changed.forget(change.part)
        fleet._state.date_orders(started_time)
        for query in fleet._roster:
            orders.heed_rules(fleet._state.agent.standing, query, policy)
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
            if change.data is None:
                continue
            try:
                fleet._state.put_orders(change.part, change.data)
            except NO_STATE as error:
                fleet.unreadable[change.part] = str(error)
        fleet._state.date_orders(started_time)
        return fleet
