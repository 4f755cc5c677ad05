"""All queries of all applications: who a series belongs to, what was counted, what is granted."""

from __future__ import annotations

import shlex
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

from agent.core import decide, judge, measure, pool, tell
from agent.core.alignment import sources_named, summed
from agent.core.arrays import packed, plain
from agent.core.decode import (
    Event,
    HeartbeatEvent,
    Listener,
    ProgressEvent,
    Refused,
    Request,
    StartedEvent,
    TerminatedEvent,
    subject_of,
)
from agent.core.judgement import Facts, Judgement, Mode, OrderView, Point, QueryView
from agent.core.kafka_offsets import Offsets
from agent.core.names import label
from agent.core.partitions import PartitionView, pressing_rows_per_second
from agent.core.policy import matches
from agent.core.query import MOST_PAST_RUNS, Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agent.core.alignment import AlignmentView
    from agent.core.decode import Application, Progress, SourceLimit
    from agent.core.policy import Policy

#: After its own start the agent calls nothing dead: heartbeats need time to find it again.
GRACE_SECONDS: Final = 60.0
LISTENER_SECONDS: Final = 86400.0  # an instance silent for so long has no tail to send again
#: Of each query that the agent may follow: its listener, and those of runs before it. An event log
#: has two, for its lines and for its pulse.
SENDERS_PER_QUERY: Final = 4
#: Those that have no query yet, where few are allowed.
LEAST_SENDERS: Final = 100
MOST_STANDING_ORDERS: Final = 100
#: What the instances of followed event logs begin with; a listener's is a UUID.
LOG_INSTANCE: Final = "event-log"

LATE_ROWS_NOTE: Final = (
    "noted; smaller batches would drop late rows, so they stay as configured: weir release tries "
    "again, late_rows: allow accepts it"
)

Key = tuple[str, str]  # (application label, query label): what series belong to


class Grant(msgspec.Struct, frozen=True):
    """As it goes over the wire; ``id`` is the Spark query's id."""

    id: str
    runId: str  # noqa: N815 - the wire's name
    source: int
    unit: str
    limit: int | None
    expires_seconds: float
    reason: str
    identity: str = ""  # of the source, where it is known: it may be elsewhere in a new run


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


class Change(msgspec.Struct, frozen=True):
    """One part of the saved state: a query, a listener, or the agent's own totals and orders."""

    part: str  # a stable name, unique within the fleet: the key to store it under
    data: bytes | None  # None: forget it


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A hand at the wheel: exactly one of mode, hold, limit is set (``unit`` goes with limit)."""

    who: str
    reason: str = ""
    mode: Mode | None = None
    hold: bool | None = None  # False releases, a manual limit too
    limit: int | None = None
    unit: str | None = None
    must_exist: bool = False  # a pattern too must name a query that is known


class OrderRecord(msgspec.Struct, frozen=True):
    """An order that was carried out, for the log and the page."""

    time: float
    who: str
    application: str
    query: str
    what: str  # "mode off", "hold", "release", "limit 500 rows"
    reason: str
    note: str = ""  # where it changes nothing now: why, and what to do


class StagesWanted(msgspec.Struct, frozen=True):
    """A query whose stages may be asked for, and where: ``ui_url`` is what its driver says."""

    key: Key
    application_id: str
    run_id: str
    ui_url: str | None
    batch_id: int | None
    stateful: bool


class UnknownQuery(LookupError):  # noqa: N818
    """No query of that name; the message names the nearest ones known."""


class Liveness(msgspec.Struct, frozen=True):
    """The answer to a probe: ``ok`` False only when restarting the driver is right."""

    ok: bool
    why: Literal["progressing", "idle", "slow", "unknown", "starting", "silent", "hung", "gone"]


class Reading(msgspec.Struct, frozen=True, gc=False):
    """How far one run has read, and planned: the next offset by partition, by source."""

    run_id: str
    offsets: dict[int, Offsets]  # at the end of the newest batch that ended
    planned: dict[int, Offsets] = {}  # at the end of the one that runs, where that is known


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """What brokers said of a source, of which run, and until when it may be shown."""

    run_id: str
    until: float
    views: list[PartitionView]


class AgentTotals(msgspec.Struct):
    """Counters of the agent as a whole; they survive restarts."""

    events: dict[str, int] = {}  # by type, each event once
    refused: dict[str, int] = {}  # by reason: malformed, cardinality
    duplicates: int = 0  # resent events that were already counted
    name_collisions: int = 0


class ListenerView(msgspec.Struct, frozen=True):
    """One driver's listener: its own latest totals."""

    application: str
    listener: Listener
    last_heard_time: float


class _Sender(msgspec.Struct):
    """A listener instance: what it said of itself, and up to where its events were counted."""

    application_id: str
    application: str  # the name as a label
    listener: Listener
    last_sequence: int = 0
    heard_time: float = 0.0


class _Said(msgspec.Struct):
    """What the events of one request have led to so far."""

    lines: bool
    of_log: bool = False  # read from an event log: what it tells may be long past
    batches: list[tuple[Key, Point]] = []
    judged: list[Judgement] = []
    touched: set[Key] = set()


class _Standing(msgspec.Struct, frozen=True):
    """A mode that also holds for queries that come later."""

    application: str
    query: str
    mode: Mode


class _Agent(msgspec.Struct):
    totals: AgentTotals = msgspec.field(default_factory=AgentTotals)
    standing: list[_Standing] = []


class _Named(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def name(self) -> str | None: ...


class _Full(Exception):  # noqa: N818
    """No room for one more query."""


_encode = msgspec.msgpack.Encoder(enc_hook=plain).encode
_decode_query = msgspec.msgpack.Decoder(Query, dec_hook=packed).decode
_decode_sender = msgspec.msgpack.Decoder(_Sender).decode
_decode_agent = msgspec.msgpack.Decoder(_Agent).decode


class Fleet:
    """Every query's judgement. Not thread-safe: one thread owns it. Times are epoch seconds."""

    def __init__(self, policy: Policy, *, started_time: float) -> None:
        self._policy = policy
        self._started_time = started_time
        self._awake_time = started_time  # since when it has heard whatever was said
        self._ticked_time: float | None = None
        self._agent = _Agent()
        self._queries: dict[Key, Query] = {}
        self._senders: dict[str, _Sender] = {}
        self._keys: dict[str, dict[str, Key]] = {}  # application id → Spark query id → key
        self._offsets: dict[Key, Reading] | None = None  # None: nobody asks
        self._partitions: dict[Key, dict[int, _Asked]] = {}
        self._alignments: dict[Key, tuple[str, AlignmentView]] = {}  # by the run they are of
        self._pools: dict[str, pool.Members] = {}  # of applications with several queries
        self._changed: set[str] = set()
        self._forgotten: set[str] = set()

    # -- events in --------------------------------------------------------------------------

    def receive(self, request: Request, now: float, *, lines: bool = True) -> Receipt:
        """Counts, measures, judges and decides on every event that is new; answers with grants.

        Without ``lines`` nothing is told per event (``Receipt.judged``), which costs less.
        """
        sender = self._sender(request, now)
        said = _Said(lines, request.listener.instance.startswith(LOG_INSTANCE))
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
            except _Full:
                error = f"the agent already follows {self._policy.max_queries} queries, its limit"
                refused.append(Refused(index, event.sequence, error))
                measure.add(totals.refused, "cardinality")
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
        self._changed.update(("agent", f"listener:{request.listener.instance}"))
        self._changed.update(_part(key) for key in said.touched)
        refused.sort(key=lambda item: item.index)
        grants = self._grants(request.application.id)
        return Receipt(
            accepted,
            acknowledged,
            refused,
            grants,
            said.batches,
            said.judged,
            said.touched,
            self._unsafe_limits(request.application.id),
        )

    def _sender(self, request: Request, now: float) -> _Sender:
        instance = request.listener.instance
        sender = self._senders.get(instance)
        if sender is None:
            self._make_room_for_senders()
            sender = _Sender(request.application.id, "", request.listener)
            self._senders[instance] = sender
            self._forgotten.discard(f"listener:{instance}")
        sender.application_id = request.application.id
        plain = label(request.application.name)
        if sender.application != plain:  # new, or beside another application of that name
            taken = any(
                one.application == plain
                and one.application_id != sender.application_id
                and now - one.heard_time <= self._policy.silent_seconds
                for one in self._senders.values()
            )
            sender.application = self._beside_name(request.application) if taken else plain
        sender.listener, sender.heard_time = request.listener, now
        return sender

    def _make_room_for_senders(self) -> None:
        """Forgets a tenth of them at once where there are too many.

        First those of applications without a query here, then those not heard for longest: who
        goes on and is forgotten has only its tail counted twice.
        """
        most = LEAST_SENDERS + SENDERS_PER_QUERY * self._policy.max_queries
        if len(self._senders) < most:
            return
        present = {query.application_id for query in self._queries.values()}
        order = sorted(
            self._senders.items(),
            key=lambda one: (one[1].application_id in present, one[1].heard_time),
        )
        for instance, _ in order[: max(most // 10, 1)]:
            del self._senders[instance]
            part = f"listener:{instance}"
            self._forgotten.add(part)
            self._changed.discard(part)

    @staticmethod
    def _beside_name(application: Application) -> str:
        """Of a second live application, while the first has the plain name."""
        return label(f"{application.name}-{application.id}")

    def hear(self, request: Request, now: float) -> None:
        """Notes who is alive, and nothing else: for a request whose events cannot be taken in."""
        sender = self._senders.get(request.listener.instance)
        if sender is not None:
            sender.heard_time = now
        known = self._keys.get(request.application.id, {})
        for _, event in request.events:
            body = event.body
            subjects: list[_Named] = (
                [*body.queries] if isinstance(body, HeartbeatEvent) else [subject_of(body)]
            )
            for subject in subjects:
                key = known.get(subject.id)
                query = None if key is None else self._queries.get(key)
                if query is not None and query.run_id == subject.run_id:
                    query.heard_time = now
                    if not query.terminated:
                        query.gone_since_time = None

    def _take(
        self,
        application: Application,
        event: Event,
        now: float,
        said: _Said,
    ) -> None:
        body, policy = event.body, self._policy
        if isinstance(body, HeartbeatEvent):
            for running in body.queries:
                query, time = self._query(application, running, event, now, said)
                before = query.run_id, query.running_batch_id
                limits = _shifted(running.limits, query.clock_set_seconds)
                judge.heartbeat(query, running, limits, time, policy)
                query.hear_running(before, now)
                if self._offsets is not None and judge.plans_next(query, running):
                    read = {one.source: one.offsets for one in limits if one.offsets}
                    self._note_plan(query, running.run_id, read)
                self._pool(query)
                if said.lines:
                    said.judged.append(tell.judgement(query, event.kind, time, policy))
            return
        query, time = self._query(application, subject_of(body), event, now, said)
        if isinstance(body, ProgressEvent):
            beside = self._beside(application.id, query)
            body = _at(body, query.clock_set_seconds)
            spent = judge.progress(query, body, time, policy, beside)
            if self._offsets is not None and spent is not None:
                self._note_offsets(query, body.progress)
            if spent in {"busy", "backpressured"}:
                said.batches.append(((query.application, query.query), tell.point(query, policy)))
            if said.lines:
                said.judged.append(tell.judgement(query, event.kind, time, policy, spent))
        elif isinstance(body, StartedEvent):
            beside = self._beside(application.id, query)
            judge.started(query, body, time, policy, beside)
        elif isinstance(body, TerminatedEvent):
            judge.terminate(query, body, time, now, policy)
            if said.lines:
                said.judged.append(tell.judgement(query, event.kind, time, policy))
        else:
            judge.idle(query, body, time, policy)
        self._pool(query)
        measure.add(query.totals.events, event.kind)

    def _beside(self, application_id: str, query: Query) -> pool.Beside | None:
        """The other queries that run in an application: they share its cluster.

        By events and their times alone, so that a replay decides alike, and from what is saved
        alone, so that an agent that was restarted does.
        """
        known = self._keys.get(application_id, {})
        if len(known) < 2:
            return None
        members = self._pools.get(application_id)
        if members is None:
            members = self._pools[application_id] = pool.Members(self._policy.silent_seconds)
            for key in known.values():
                one = self._queries.get(key)
                if one is not None and one.application_id == application_id:
                    self._pool(one)
        beside = members.beside((query.application, query.query), query.last_event_time or 0.0)
        return beside if beside.count else None

    def _pool(self, query: Query) -> None:
        """Its application's pool sees a query as it is now; where nobody asked yet, later."""
        members = self._pools.get(query.application_id)
        if members is None:
            return
        key, time = (query.application, query.query), query.last_event_time or 0.0
        if query.terminated:
            members.remove(key, time)
        else:
            busy_share = query.occupancy.busy_share
            members.put(key, query.member(self._policy, busy_share), busy_share, time)

    def _query(
        self,
        application: Application,
        subject: _Named,
        event: Event,
        now: float,
        said: _Said,
    ) -> tuple[Query, float]:
        """Whom an event is about, and its time by a clock that is never set."""
        known = self._keys.setdefault(application.id, {})
        key = known.get(subject.id)
        query = None if key is None else self._queries.get(key)
        # Idle and terminated events carry no name: what was learned of the id holds.
        name = subject.name
        renamed = (
            query is not None
            and name
            and name != query.name_label  # nearly always: a label is its own label
            and query.name_label != label(name)
        )
        if query is not None and query.aside and not renamed:
            renamed = self._may_move(application, query, now)
        if query is None or renamed or query.application_id != application.id:
            named = subject.name or (subject.id if query is None else query.name_label)
            query = self._claim(application, subject, label(named), now)
            key = query.application, query.query
            known[subject.id] = key
            same = [of for of, other in known.items() if other == key]
            for of in same[:-MOST_PAST_RUNS]:
                del known[of]
            self._pools.pop(query.application_id, None)  # it has one member more or less: anew
            self._pools.pop(application.id, None)
        said.touched.add((query.application, query.query))
        if subject.run_id in query.past_runs:
            # A late word of who is gone says nothing of who came after.
            return query, event.time + query.clock_set_seconds
        query.application_id, query.spark_version = application.id, application.spark_version
        time = query.hear_time(
            event.time,
            now,
            origin=event.clock_origin,
            run_id=subject.run_id,
            may_be_old=said.of_log,
        )
        if query.gone_since_time is not None and not query.terminated:
            query.gone_since_time = None  # it was only out of reach
        return query, time

    def _alive(self, query: Query, now: float) -> bool:
        return not query.terminated and now - query.heard_time < self._policy.silent_seconds

    def _may_move(self, application: Application, query: Query, now: float) -> bool:
        """Whether a query beside another of its name may take that, since the other is gone."""
        plain = self._queries.get((label(application.name), query.name_label))
        if plain is query or (plain is not None and self._alive(plain, now)):
            return False
        # The series made for it alone ends here: forgotten with the next look at the clock.
        query.terminated = True
        query.gone_since_time = now - self._policy.forget_seconds - 1.0
        self._changed.add(_part((query.application, query.query)))
        return True

    def _claim(self, application: Application, subject: _Named, named: str, now: float) -> Query:
        """The series for a query: its own name's, unless a second live query has that.

        The same query id is the same checkpoint, which two live queries cannot share: that is a
        restart, however soon. Another id beside a query heard of a moment ago is a second one: of
        another application, or of another session of this one, in which names are unique.
        """
        wanted = (label(application.name), named)
        present = self._queries.get(wanted)
        second = (
            present is not None
            and present.query_id not in (subject.id, "")
            and self._alive(present, now)
        )
        if second and present is not None:
            if present.application_id != application.id:
                wanted = (self._beside_name(application), named)
            else:
                wanted = (wanted[0], label(f"{named}-{subject.id}"))
            self._agent.totals.name_collisions += 1
            present = self._queries.get(wanted)
        if present is None:
            if len(self._queries) >= self._policy.max_queries:
                raise _Full
            present = Query(application=wanted[0], query=wanted[1], name_label=named)
            for order in self._agent.standing:
                if matches_names(order.application, order.query, present):
                    present.mode_order = self._ordered_mode(order, present)
            self._queries[wanted] = present
            self._forgotten.discard(_part(wanted))
        present.aside = second
        return present

    def _grants(self, application_id: str) -> list[Grant]:
        """All live grants of an application: every reply renews them."""
        grants: list[Grant] = []
        for query in self._of_application(application_id):
            grants.extend(
                Grant(
                    query.query_id,
                    query.run_id,
                    one.source,
                    one.unit,
                    one.limit,
                    self._policy.grant_seconds,
                    one.reason,
                    one.identity,
                )
                for one in decide.grants(query, self._policy)
            )
        return grants

    def _unsafe_limits(self, application_id: str) -> dict[str, bool]:
        """Of every run of an application: each reply says it, so that it can be taken back."""
        allowed: dict[str, bool] = {}
        for query in self._of_application(application_id):
            settings = self._policy.of(query.application, query.query)
            if not query.terminated:
                allowed[query.run_id] = settings.give_limits == "all"
        return allowed

    def _of_application(self, application_id: str) -> Iterator[Query]:
        for key in dict.fromkeys(self._keys.get(application_id, {}).values()):
            query = self._queries.get(key)
            if query is not None and query.application_id == application_id:
                yield query

    # -- the clock --------------------------------------------------------------------------

    def wake(self) -> None:
        """What an agent before this one heard was before this one's start, whatever its clock."""
        before = self._started_time - 1.0
        for query in self._queries.values():
            query.heard_time = min(query.heard_time, before)
            query.gone_since_time = _before(query.gone_since_time, before)
            query.running_told_time = _before(query.running_told_time, before)
            query.running_since_time = _before(query.running_since_time, before)
        for sender in self._senders.values():
            sender.heard_time = min(sender.heard_time, before)

    def tick(self, now: float) -> set[Key]:
        """Marks silent queries as gone, forgets those gone long enough; returns what changed."""
        if self._was_deaf(now):
            self._awake_time = now
        self._ticked_time = now
        changed: set[Key] = set()
        forgotten: set[Key] = set()
        for key, query in self._queries.items():
            heard = max(query.heard_time, self._awake_time)
            if query.gone_since_time is None and now - heard > self._policy.silent_seconds:
                query.gone_since_time = now
                changed.add(key)
            gone = query.gone_since_time
            if gone is not None and now - gone > self._policy.forget_seconds:
                forgotten.add(key)
        for key in forgotten:
            del self._queries[key]
            self._alignments.pop(key, None)
            self._partitions.pop(key, None)
            if self._offsets is not None:
                self._offsets.pop(key, None)
            self._forgotten.add(_part(key))
        if forgotten:
            for application_id, known in list(self._keys.items()):
                left = {of: key for of, key in known.items() if key not in forgotten}
                if len(left) < len(known):
                    self._pools.pop(application_id, None)
                self._keys[application_id] = left
                if not left:
                    del self._keys[application_id]
        self._forget_applications(now)
        for instance, sender in list(self._senders.items()):
            if now - sender.heard_time > LISTENER_SECONDS:
                del self._senders[instance]
                self._forgotten.add(f"listener:{instance}")
        self._changed.update(_part(key) for key in changed)
        self._changed -= self._forgotten
        return changed | forgotten

    def _forget_applications(self, now: float) -> None:
        """Those whose queries run elsewhere by now, and that have no late word to say any more."""
        if len(self._keys) <= 1:
            return
        present = {query.application_id for query in self._queries.values()}
        for sender in self._senders.values():
            if now - sender.heard_time <= self._policy.forget_seconds:
                present.add(sender.application_id)
        for application_id in self._keys.keys() - present:
            del self._keys[application_id]
            self._pools.pop(application_id, None)

    # -- a hand at the wheel ----------------------------------------------------------------

    def control(self, application: str, query: str, order: Order, now: float) -> list[OrderRecord]:
        """Carries out an order; application or query may be ``*`` or a shell pattern.

        ``mode`` with a pattern also holds for queries that come later, unless the order says that
        it ``must_exist``. Raises UnknownQuery where anything else names no query, ValueError where
        the order is wrong.
        """
        what = _wording(order)
        chosen = [q for q in self._queries.values() if matches_names(application, query, q)]
        pattern = any(mark in application + query for mark in "*?[")
        if not chosen and (order.must_exist or not pattern or order.mode is None):
            raise UnknownQuery(self._unknown(application, query))
        if order.limit is not None:
            for one in chosen:
                decide.check_unit(one, order.unit)
        if order.mode is not None and pattern:
            self._stand(_Standing(application, query, order.mode))
        for one in chosen:
            time = now - one.clock_skew_seconds
            if order.mode is not None:
                standing = _Standing(application, query, order.mode)
                decide.order_mode(one, self._ordered_mode(standing, one), self._policy, time)
            elif order.limit is not None:
                decide.order_limit(one, order.limit, order.unit, time, self._policy)
            elif order.hold:
                decide.order_hold(one, time, self._policy)
            else:
                decide.order_release(one)
            said = OrderView(now, order.who, _done(order, what, one), order.reason)
            one.note_order(said, of_mode=order.mode is not None)
            self._pool(one)
            self._changed.add(_part((one.application, one.query)))
        self._changed.add("agent")
        if not chosen:
            later = "fits no query now; holds for later ones"
            return [OrderRecord(now, order.who, application, query, what, order.reason, later)]
        return [
            OrderRecord(
                now,
                order.who,
                one.application,
                one.query,
                _done(order, what, one),
                order.reason,
                self._note(order, one),
            )
            for one in chosen
        ]

    def _note(self, order: Order, query: Query) -> str:
        """What an order leaves as it is, and why; empty where it does what it says."""
        if order.mode is not None or order.hold is False:
            return ""
        mode = query.mode(self._policy)
        if mode == "on":
            known = any(source.limit_known for source in query.sources)
            reachable = any(source.controllable for source in query.sources)
            settings = self._policy.of(query.application, query.query)
            if reachable and query.lateness.holds(settings.late_rows):
                return LATE_ROWS_NOTE
            return "noted; its limit cannot be changed live" if known and not reachable else ""
        name = shlex.quote(f"{query.application}/{query.query}")
        when = "in dry-run" if mode == "dry-run" else "while its mode is off"
        return f"noted; {when} nothing changes: weir mode on {name}"

    def _stand(self, order: _Standing) -> None:
        names = (order.application, order.query)
        # The switch for all overrides whatever was said before it.
        kept = [
            old
            for old in self._agent.standing
            if names not in (("*", "*"), (old.application, old.query))
        ]
        self._agent.standing = [*kept, order][-MOST_STANDING_ORDERS:]

    def _ordered_mode(self, order: _Standing, query: Query) -> Mode | None:
        """``on`` for all means: on, but for the queries that a rule of the configuration names."""
        if order.mode == "on" and (order.application, order.query) == ("*", "*"):
            ruled = self._policy.ruled_mode(query.application, query.query)
            return None if ruled is not None else "on"
        return order.mode

    def _unknown(self, application: str, query: str) -> str:
        if not self._queries:
            return "no query is known yet"
        anywhere = application == "*"
        said = f"no query {query if anywhere else f'{application}/{query}'}"
        if anywhere:
            inside = sorted(key[1] for key in self._queries if key[0] == query)
            if inside:
                more = f" and {len(inside) - 3} more" if len(inside) > 3 else ""
                has = ", ".join(inside[:3]) + more
                return f"{said}; an application of that name has: {has}. Say {query}/*"
        written = {(key[1] if anywhere else "/".join(key)): "/".join(key) for key in self._queries}
        wanted = query if anywhere else f"{application}/{query}"
        near = [written[one] for one in get_close_matches(wanted, written, n=3, cutoff=0.4)]
        if anywhere:
            applications = sorted({key[0] for key in self._queries})
            near += [f"{one}/*" for one in get_close_matches(query, applications, n=1)]
        return f"{said}; nearest: {', '.join(near[:3])}" if near else said

    # -- what exporters read ----------------------------------------------------------------

    @property
    def totals(self) -> AgentTotals:
        """Counters of the agent as a whole."""
        return self._agent.totals

    @property
    def mode(self) -> Mode:
        """The mode of a query that nobody has named: the switch for all, else the default."""
        for order in reversed(self._agent.standing):
            if (order.application, order.query) == ("*", "*"):
                return order.mode
        return self._policy.default.mode

    def __len__(self) -> int:
        return len(self._queries)

    def has(self, key: Key) -> bool:
        """Whether the key names a query."""
        return key in self._queries

    def keys(self) -> list[Key]:
        """The keys of all queries, in order."""
        return sorted(self._queries)

    def facts(self) -> list[Facts]:
        """What the consistency audit looks at, of every query."""
        return [tell.facts(query, self._policy) for query in self._queries.values()]

    def stages_wanted(self) -> list[StagesWanted]:
        """Every query that runs and has ended a batch, with where its stages can be asked for.

        Not those that are followed by their event log alone: it holds their stages.
        """
        heard = {sender.application_id for sender in self._drivers()}
        return [
            StagesWanted(
                key,
                query.application_id,
                query.run_id,
                query.ui_url,
                query.batch_id,
                bool(query.operators),
            )
            for key, query in self._queries.items()
            if not query.terminated
            and query.gone_since_time is None
            and query.batch_id is not None
            and query.application_id in heard
        ]

    def keys_by_run(self) -> dict[str, Key]:
        """Where each query's present run belongs, by run id."""
        return {query.run_id: key for key, query in self._queries.items()}

    def note_alignment(self, key: Key, run_id: str, found: AlignmentView) -> None:
        """Takes in what the stages of a run's batch waited for. It is not saved."""
        query = self._queries.get(key)
        if query is None or query.run_id != run_id:
            return
        same = found.batch_id is not None and found.batch_id == query.batch_id
        stages = sources_named(found.stages, [s.rows for s in query.sources] if same else [])
        seconds, ratio = summed(stages)
        view = msgspec.structs.replace(found, stages=stages, seconds=seconds, skew_ratio=ratio)
        self._alignments[key] = (run_id, view)

    def view(self, key: Key, now: float) -> QueryView:
        """One query at ``now``; raises KeyError where there is none."""
        query = self._queries[key]
        run_id, alignment = self._alignments.get(key, ("", None))
        view = tell.view(query, self._policy, now, alignment if run_id == query.run_id else None)
        asked = self._partitions.get(key)
        if not asked:
            return view
        partitions = [
            one
            for _, said in sorted(asked.items())
            if said.run_id == query.run_id and now <= said.until
            for one in said.views
        ]
        return msgspec.structs.replace(view, partitions=partitions)

    def views(self, now: float) -> Iterator[QueryView]:
        """Every query, in the order of their keys. Built one at a time: views are large."""
        return (self.view(key, now) for key in self.keys())

    def listeners(self, now: float) -> list[ListenerView]:
        """The listeners heard of within the time after which series expire."""
        return [
            ListenerView(sender.application, sender.listener, sender.heard_time)
            for sender in self._senders.values()
            if now - sender.heard_time <= self._policy.forget_seconds
        ]

    def liveness(self, application: str, query: str, now: float) -> Liveness:
        """Whether restarting the driver would help; slow, idle and unknown never say so."""
        one = self._queries.get((application, query))
        if one is None:
            return Liveness(ok=True, why="unknown")
        if one.terminated:
            return Liveness(ok=True, why="gone")
        if now - self._awake_time < GRACE_SECONDS or self._was_deaf(now):
            return Liveness(ok=True, why="starting")
        if now - one.heard_time > self._policy.silent_seconds:
            if one.heard_time < self._started_time or self._driver_heard(one, now):
                # Of an earlier driver, or a driver that lives and does not tell of this query.
                return Liveness(ok=True, why="unknown")
            return Liveness(ok=False, why="silent")
        if one.running_since_time is None:
            return Liveness(ok=True, why="idle")
        # By the agent's own clock, and in its own life: the driver's says what it likes.
        age = now - max(one.running_since_time, self._started_time)
        settings = self._policy.of(application, query)
        if settings.deadline_seconds is not None and age > settings.deadline_seconds:
            return Liveness(ok=False, why="hung")
        return Liveness(ok=True, why="slow" if age > settings.target_seconds else "progressing")

    def _was_deaf(self, now: float) -> bool:
        """Whether the agent itself stood still until just now: it heard nothing meanwhile."""
        ticked = self._ticked_time
        return ticked is not None and now - ticked > self._policy.silent_seconds

    def _driver_heard(self, query: Query, now: float) -> bool:
        """Whether a driver that the query may run in has been heard of within the time."""
        return any(
            (
                sender.application_id == query.application_id
                or sender.application == query.application
            )
            and now - sender.heard_time <= self._policy.silent_seconds
            for sender in self._drivers()
        )

    def _drivers(self) -> Iterator[_Sender]:
        """The senders that are drivers' own listeners, and no followed event logs."""
        for instance, sender in self._senders.items():
            if not instance.startswith(LOG_INSTANCE):
                yield sender

    # -- what brokers say ---------------------------------------------------------------------

    def keep_offsets(self) -> None:
        """Keeps from now on how far each query has read, for who asks brokers about it."""
        if self._offsets is None:
            self._offsets = {}

    def readings(self) -> dict[Key, Reading]:
        """How far each query has read, but those that were stopped.

        What a query that failed has not read may be deleted before it comes back.
        """
        return {
            key: reading
            for key, reading in (self._offsets or {}).items()
            if (query := self._queries.get(key)) is not None
            and query.run_id == reading.run_id
            and not query.stopped
        }

    def hear_partitions(
        self,
        key: Key,
        run_id: str,
        source: int,
        views: list[PartitionView],
        now: float,
        *,
        valid_seconds: float = 300.0,
    ) -> None:
        """What brokers hold of a source now, against what the query had read.

        Shown for so many seconds: brokers that stop answering leave nothing known.
        """
        query = self._queries.get(key)
        if query is None or query.run_id != run_id:
            return
        self._partitions.setdefault(key, {})[source] = _Asked(run_id, now + valid_seconds, views)
        backlog = sum(view.backlog_rows for view in views)
        time = now - query.clock_skew_seconds
        measure.observe(query, source, backlog, time)
        if source < len(query.sources):
            of = query.sources[source]
            of.pressing_rows_per_second = pressing_rows_per_second(views)
            of.pressing_until_time = time + valid_seconds
        self._pool(query)
        self._changed.add(_part(key))

    def _note_offsets(self, query: Query, progress: Progress) -> None:
        assert self._offsets is not None
        read = {
            index: source.offsets
            for index, source in enumerate(progress.sources)
            if source.offsets is not None
        }
        if read:
            self._offsets[query.application, query.query] = Reading(progress.run_id, read)

    def _note_plan(self, query: Query, run_id: str, planned: dict[int, Offsets]) -> None:
        assert self._offsets is not None
        key = query.application, query.query
        known = self._offsets.get(key)
        if planned and known is not None and known.run_id == run_id:
            self._offsets[key] = Reading(run_id, known.offsets, planned)

    def counted(self, instance: str) -> int:
        """The newest number counted of a listener instance; 0 where none is known."""
        sender = self._senders.get(instance)
        return 0 if sender is None else sender.last_sequence

    def has_listener(self, application_id: str) -> bool:
        """Whether a driver's own listener speaks for the application, not only its event log."""
        return any(sender.application_id == application_id for sender in self._drivers())

    def newest_batches(self) -> dict[str, int | None]:
        """The newest batch counted, by run id."""
        return {query.run_id: query.batch_id for query in self._queries.values()}

    # -- saved state ------------------------------------------------------------------------

    def changes(self) -> list[Change]:
        """The saved form of every part that changed since the last call; write them atomically."""
        saved: list[Change] = []
        for part in self._changed:
            kind, _, rest = part.partition(":")
            if kind == "query":
                saved.append(Change(part, _encode(self._queries[_key(rest)])))
            elif kind == "listener":
                saved.append(Change(part, _encode(self._senders[rest])))
            else:
                saved.append(Change(part, _encode(self._agent)))
        saved.extend(Change(part, None) for part in self._forgotten)
        self._changed, self._forgotten = set(), set()
        return saved

    @classmethod
    def restore(cls, policy: Policy, parts: Iterable[Change], *, started_time: float) -> Fleet:
        """A fleet as saved. Raises msgspec.DecodeError where a part is not a saved state."""
        fleet = cls(policy, started_time=started_time)
        for change in parts:
            kind, _, rest = change.part.partition(":")
            if change.data is None:
                continue
            if kind == "query":
                query = _decode_query(change.data)
                if query.capacity is not None:
                    query.cost, query.capacity = query.capacity.cost(), None
                key = (query.application, query.query)
                fleet._queries[key] = query
                fleet._keys.setdefault(query.application_id, {})[query.query_id] = key
            elif kind == "listener":
                fleet._senders[rest] = _decode_sender(change.data)
            elif kind == "agent":
                fleet._agent = _decode_agent(change.data)
        return fleet


def _before(time: float | None, most: float) -> float | None:
    return None if time is None else min(time, most)


def _at(event: ProgressEvent, seconds: float) -> ProgressEvent:
    """A batch's times by a clock that was never set: so much is added."""
    if not seconds:
        return event
    progress = msgspec.structs.replace(event.progress, time=event.progress.time + seconds)
    return ProgressEvent(progress, _shifted(event.limits, seconds))


def _shifted(limits: list[SourceLimit], seconds: float) -> list[SourceLimit]:
    if not seconds:
        return limits
    return [
        one
        if one.observed_time is None
        else msgspec.structs.replace(one, observed_time=one.observed_time + seconds)
        for one in limits
    ]


def matches_names(application: str, query: str, one: Query) -> bool:
    """Whether an order's two patterns name a query."""
    return matches(f"{application}/{query}", one.application, one.query)


def _wording(order: Order) -> str:
    """What an order says; raises ValueError where it says nothing or two things at once."""
    given = [name for name in ("mode", "hold", "limit") if getattr(order, name) is not None]
    if len(given) != 1:
        raise ValueError(f"exactly one of mode, hold, limit is needed, not {given or 'none'}")
    if order.mode is not None:
        return f"mode {order.mode}"
    if order.limit is not None:
        if order.limit < 1:
            raise ValueError(f"limit: a whole number from 1 is needed, not {order.limit}")
        return f"limit {order.limit} {order.unit or ''}".strip()
    return "hold" if order.hold else "release"


def _done(order: Order, what: str, query: Query) -> str:
    """What an order did to a query: a limit with the unit that it was given there."""
    if order.limit is None or order.unit is not None or query.manual_unit is None:
        return what
    return f"{what} {query.manual_unit}"


def _part(key: Key) -> str:
    return f"query:{len(key[0])}:{key[0]}{key[1]}"


def _key(text: str) -> Key:
    length, _, names = text.partition(":")
    return names[: int(length)], names[int(length) :]
