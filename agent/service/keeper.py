"""The fleet and its saved state as one: what was acknowledged is on disk, and nothing else counts.

Every change is committed before it is answered for. Where the commit fails, the fleet is put back
to what the disk holds, and no event is taken in until writing works again. Two things go on without
the disk: who is alive is noted, since a full disk is no reason to call a driver dead, and the kill
switch works.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from agent.core.decode.events import HeartbeatEvent, IdleEvent, Refused, TerminatedEvent
from agent.core.fleet import Fleet, Order, OrderRecord, Receipt, UnknownQuery
from agent.core.fleet.saved import AGENT_PART
from agent.core.fleet.senders import LOG_INSTANCE
from agent.service.history import POINTS, History, Piece
from agent.service.log import Rarely
from agent.service.store import Store, StoreDamaged, StoreFailed

if TYPE_CHECKING:
    from agent.core.decode.events import Request
    from agent.core.fleet import Key
    from agent.core.judgement import Point, QueryView
    from agent.core.policy import Policy

ORDERS_KEPT: Final = 50
#: Of one request, events that the core could not stand, before the rest is refused unseen.
MAX_POISONED: Final = 8
_ORDERS_MARK: Final = "orders"
_WRITE_TROUBLE: Final = "the state cannot be written"
#: Events are refused meanwhile, and grants travel in the answer to them.
UNSAVED_NOTE: Final = (
    "taken, but no driver hears of it before the state can be written again; what a job configured "
    "comes back by itself, and where it configured nothing the last limit stays: mend the disk, or "
    "end the agent where drivers have the plugin"
)
LATER_REASON: Final = (
    "a later version saved the state, and not all that was ordered can be read in it: nothing is "
    "regulated until somebody orders a mode (weir mode on or off)"
)
DAMAGED_REASON: Final = (
    "the saved state is damaged, and what was ordered cannot be read in it: queries that are not "
    "in it any more are not regulated until somebody orders a mode (weir mode on or off)"
)
_log = structlog.get_logger("state")


class StateUnavailable(Exception):  # noqa: N818
    """Nothing can be taken in now: the state cannot be written."""


class FleetFull(Exception):  # noqa: N818
    """``max_queries`` are known already, and none of them is of the request's application."""


class Keeper:
    """One thread owns it. Times are epoch seconds."""

    def __init__(self, policy: Policy, store: Store, *, started_time: float) -> None:
        """Takes up what the store holds; sets it aside where it was read and none is of use.

        Of what a later version saved the orders. Where not all that was ordered can be read, all
        of which nothing is known is in dry-run until somebody orders a mode: a switch that a person
        turned may be among it. Raises StoreFailed where it was not read.
        """
        self._policy = policy
        self._store = store
        self._started_time = started_time
        #: The fleet may be ahead of the disk: restore before the next event. Then not ``writable``.
        self._behind = False
        self._next_probe_time = 0.0
        self._rarely = Rarely(30.0)
        self._unsaved: list[tuple[str, str, Order, float]] = []
        self._orders_unsaved = False  # the list of them
        self.history = History()
        self.writable = True
        self.write_failures_total = 0
        self.orders: deque[OrderRecord] = deque(self._saved_orders(), ORDERS_KEPT)
        try:
            if store.later_schema is not None:
                self._begin_anew(store.later_schema)
            self.fleet, self.restored_parts = self._read()
        except StoreDamaged as error:
            store.abandon_contents(str(error))
            self.orders.clear()
            self.fleet, self.restored_parts = self._read()
        self.fleet.wake()

    def receive(self, request: Request, now: float) -> Receipt:
        """Judges a request's events and commits. Raises StateUnavailable, FleetFull."""
        try:
            receipt = self._receive(request, now)
        except StateUnavailable:
            self.fleet.hear(request, now)  # one that was put back has not
            raise
        for key, point in receipt.batches:
            self.history.add(key, point)
        return receipt

    def _receive(self, request: Request, now: float) -> Receipt:
        self._ready_to_write(now)
        self._refuse_if_full(request, now)
        try:
            receipt = self.fleet.receive(request, now, lines=False)
            self._commit(now)
        except StateUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the core trips over, the rest goes on
            receipt = self._without_poison(request, error, now)
        return receipt

    def control(self, application: str, query: str, order: Order, now: float) -> list[OrderRecord]:
        """Carries out an order and commits. Raises UnknownQuery, ValueError, StateUnavailable.

        ``mode off`` is carried out even where it cannot be saved, and saved as soon as it can.
        """
        try:
            self._ready_to_write(now)
            records = self.fleet.control(application, query, order, now)
            kept = deque((*self.orders, *records), ORDERS_KEPT)
            self._commit(now, {_ORDERS_MARK: msgspec.json.encode(list(kept))})
        except StateUnavailable:
            if order.mode != "off":
                raise
            records = [
                msgspec.structs.replace(record, note=UNSAVED_NOTE)
                for record in self.fleet.control(application, query, order, now)
            ]
            self._unsaved.append((application, query, order, now))
            kept = deque((*self.orders, *records), ORDERS_KEPT)
        self.orders = kept
        for record in records if order.retire else ():
            self.history.forget((record.application, record.query))
        return records

    def tick(self, now: float, off_seconds: float = 0.0) -> None:
        """Lets the fleet notice the time, and commits what changed, where it can be written.

        ``off_seconds``: by how much the machine's clock is ahead of the agent's.
        """
        with contextlib.suppress(StateUnavailable):
            self._ready_to_write(now)
        for key in self.fleet.tick(now, off_seconds):
            if not self.fleet.has(key):
                self.history.forget(key)
        if self.writable:
            with contextlib.suppress(StateUnavailable):
                self._commit(now)

    def tidy(self, now: float) -> None:
        """Housekeeping of the file."""
        try:
            self._store.tidy()
        except StoreFailed as error:
            self._rarely.warn(_log.warning, "the state file cannot be tidied", now, cause=error)

    def view(self, key: Key, now: float, history: int = POINTS) -> QueryView:
        """A query's view with its newest batches, judged by all that are kept. Raises KeyError."""
        view = self.fleet.view(key, now, growing=self.history.grows(key))
        points = self.history.points(key, history, self.fleet.clock_set_seconds(key))
        return msgspec.structs.replace(view, history=points) if points else view

    def hours(self, key: Key) -> list[Piece]:
        """A query's last hours, oldest first. Raises KeyError."""
        return self.history.hours(key, self.fleet.clock_set_seconds(key))

    def state_bytes(self) -> int | None:
        """On disk; None: in memory only."""
        return self._store.size_bytes()

    def close(self, now: float) -> None:
        """The last commit."""
        if self.writable:
            with contextlib.suppress(StateUnavailable):
                self._commit(now)
        self._store.close()

    def _commit(self, now: float, marks: dict[str, bytes] | None = None) -> None:
        changes = self.fleet.changes()
        if self._unsaved or self._orders_unsaved:
            marks = {_ORDERS_MARK: msgspec.json.encode(list(self.orders))} | (marks or {})
        if not changes and not marks:
            return
        try:
            self._store.write(changes, marks or {})
        except StoreFailed as error:
            self.writable = False
            self.write_failures_total += 1
            self._next_probe_time = now + 1.0
            self._rarely.warn(_log.error, _WRITE_TROUBLE, now, cause=error)
            self._behind = True
            with contextlib.suppress(StoreFailed):
                self._put_back()
            raise StateUnavailable(_WRITE_TROUBLE) from error
        self.fleet.wrote(changes)
        self._unsaved.clear()
        self._orders_unsaved = False

    def _ready_to_write(self, now: float) -> None:
        if self.writable:
            return
        if not 0 < self._next_probe_time - now <= 1.0:
            self._next_probe_time = now + 1.0
            try:
                self._store.probe()
                if self._behind:
                    self._put_back()
            except StoreFailed as error:
                self._rarely.warn(_log.error, _WRITE_TROUBLE, now, cause=error)
            else:
                self.writable = True
                self._rarely.reset(_WRITE_TROUBLE)
                _log.info("the state can be written again")
                return
        raise StateUnavailable(_WRITE_TROUBLE)

    def _read(self) -> tuple[Fleet, int]:
        """The fleet as the disk has it, and of how many parts.

        What cannot be read is passed over, and learned anew. An order for one query stands in its
        part alone: of that they are kept, and where they cannot be read either, it stays
        on the disk until the query is heard of again. Raises StoreFailed, and StoreDamaged where no
        part can be read.
        """
        parts = self._store.load()
        fleet = Fleet.restore(self._policy, parts, started_time=self._started_time)
        lost = fleet.unreadable.get(AGENT_PART) if parts else self._store.damage
        if lost is not None and len(fleet.unreadable) < max(len(parts), 1):
            self._begin_in_doubt(fleet, lost)
        if parts and len(fleet.unreadable) == len(parts):
            raise StoreDamaged("; ".join(set(fleet.unreadable.values())))
        for part, why in fleet.unreadable.items():
            _log.error("a part of the saved state cannot be read: left out", part=part, cause=why)
        for part, why in fleet.learned_anew.items():
            said = "of a query only what was ordered can be read: all else is learned anew"
            _log.warning(said, part=part, cause=why)
        return fleet, len(parts) - len(fleet.unreadable)

    def _begin_anew(self, later_schema: int) -> None:
        """Makes what a later version saved this one's. Raises StoreFailed."""
        policy, now = self._policy, self._started_time
        try:
            parts = self._store.load()
            fleet = Fleet.restore_orders(policy, parts, started_time=now)
            unread = "; ".join(set(fleet.unreadable.values()))
        except StoreDamaged as error:
            fleet, unread = Fleet(policy, started_time=now), str(error)
        if unread:
            order = Order(who="weir", mode="dry-run", reason=LATER_REASON)
            self.orders.extend(fleet.control("*", "*", order, now))
            _log.error(LATER_REASON, schema=later_schema, cause=unread)
        changes = [change for change in fleet.changes() if change.data is not None]
        self._store.begin_anew(changes, {_ORDERS_MARK: msgspec.json.encode(list(self.orders))})

    def _begin_in_doubt(self, fleet: Fleet, cause: str) -> None:
        """Each time that it is read, until something is saved: then that stands in it."""
        record = fleet.stand("dry-run", "weir", DAMAGED_REASON, self._started_time)
        if record not in self.orders:
            self.orders.append(record)
            self._orders_unsaved = True
            _log.error(DAMAGED_REASON, cause=cause)

    def _put_back(self) -> None:
        """The fleet as the disk has it. Raises StoreFailed, and is behind, where reading fails."""
        fleet, _ = self._read()
        fleet.follow(self.fleet)
        self.fleet = fleet
        self._behind = False
        for application, query, order, time in self._unsaved:
            with contextlib.suppress(UnknownQuery, ValueError):
                self.fleet.control(application, query, order, time)

    def _refuse_if_full(self, request: Request, now: float) -> None:
        """Sends away who has no query here, to come again when there is room.

        Of an application with one, the unknown ones alone are refused, event by event: a driver
        whose request fails waits, and with it all that it tells of the others.
        """
        if len(self.fleet) < self._policy.max_queries or not request.events:
            return
        unnamed = IdleEvent | TerminatedEvent | HeartbeatEvent  # only the fleet can tell whose
        if any(isinstance(event.body, unnamed) for _, event in request.events):
            return
        # What waits in a log holds up nobody else, and is still there when there is room.
        of_log = request.listener.instance.startswith(LOG_INSTANCE)
        known = self.fleet.knows_one_of if of_log else self.fleet.knows
        if not known(request):
            self.fleet.hear(request, now)
            self.fleet.turn_away()
            raise FleetFull(f"{self._policy.max_queries} queries are known already (max_queries)")

    def _without_poison(self, request: Request, error: Exception, now: float) -> Receipt:
        """One event at a time, after the core failed on a request: refuses those it fails on.

        Else the listener would send the same request for ever, and nothing behind it. Where it
        fails without the events too, none of them is tried: to restore a large fleet takes long.
        """
        refused: list[Refused] = []
        batches: list[tuple[Key, Point]] = []
        touched: set[Key] = set()
        accepted = 0
        self._restore_or_fail(request, error)
        self._take(msgspec.structs.replace(request, events=[], refused=[]), now)
        for position, (index, event) in enumerate(request.events):
            single = msgspec.structs.replace(request, events=[(index, event)], refused=[])
            try:
                receipt = self._take(single, now)
            except StateUnavailable:
                raise
            except Exception as failure:  # noqa: BLE001
                said = "an event could not be judged"
                self._rarely.warn(_log.error, said, now, kind=event.kind, exc_info=failure)
                refused.append(
                    Refused(index, event.sequence, "the agent failed on this event; see its log")
                )
                if len(refused) >= MAX_POISONED:
                    refused.extend(
                        Refused(rest, later.sequence, "not judged: too many events failed")
                        for rest, later in request.events[position + 1 :]
                    )
                    break
            else:
                accepted += receipt.accepted
                batches.extend(receipt.batches)
                touched |= receipt.touched
        refused = sorted((*request.refused, *refused), key=lambda one: one.index)
        last = self._take(msgspec.structs.replace(request, events=[], refused=refused), now)
        return msgspec.structs.replace(
            last, accepted=accepted, refused=refused, batches=batches, touched=touched
        )

    def _take(self, request: Request, now: float) -> Receipt:
        """Judges and commits; where the core fails, the fleet is as it was."""
        try:
            receipt = self.fleet.receive(request, now, lines=False)
            self._commit(now)
        except StateUnavailable:
            raise
        except Exception as error:
            self._restore_or_fail(request, error)
            raise
        return receipt

    def _restore_or_fail(self, request: Request, error: Exception) -> None:
        self.fleet.fail(request)
        self._behind = True
        try:
            self._put_back()
        except StoreFailed:
            self.writable = False
            raise StateUnavailable("the state cannot be read") from error

    def _saved_orders(self) -> list[OrderRecord]:
        try:
            saved = self._store.mark(_ORDERS_MARK)
            return [] if saved is None else msgspec.json.decode(saved, type=list[OrderRecord])
        except (StoreDamaged, msgspec.MsgspecError):
            return []
