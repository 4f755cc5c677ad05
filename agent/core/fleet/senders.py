"""Who sends: every listener instance, what it said of itself, up to where it was counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from agent.core.decode.events import MOST_COUNT, Listener
from agent.core.fleet.saved import part_of_listener
from agent.core.names import label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.core.decode.events import Application, Request
    from agent.core.policy import Policy
    from agent.core.query import Query

LISTENER_SECONDS: Final = 86400.0  # an instance silent for so long has no tail to send again
#: Of each query that the agent may follow: its listener, and those of runs before it. An event log
#: has two, for its lines and for its pulse.
SENDERS_PER_QUERY: Final = 4
#: Those that have no query yet, where few are allowed.
LEAST_SENDERS: Final = 100
#: What the instances of followed event logs begin with; a listener's is a UUID.
LOG_INSTANCE: Final = "event-log"
#: Those under which a log's lines are counted; its pulse has no place that could be lost.
LOG_LINES: Final = f"{LOG_INSTANCE}:"


class Counters(msgspec.Struct, frozen=True):
    """What the listeners of an application have counted, those that are gone included."""

    dropped_total: int = 0
    callbacks_total: int = 0
    callback_seconds_total: float = 0.0

    def plus(self, told: Listener, before: Listener) -> Counters:
        """And what one of them has counted since ``before``, of which ``told`` is no less."""
        return Counters(
            _grown(self.dropped_total, before.dropped_total, told.dropped_total),
            _grown(self.callbacks_total, before.callbacks_total, told.callbacks_total),
            _grown(
                self.callback_seconds_total,
                before.callback_seconds_total,
                told.callback_seconds_total,
            ),
        )


_Number = TypeVar("_Number", int, float)


def _grown(total: _Number, before: _Number, now: _Number) -> _Number:
    """By what one of those that add up to it has grown; more could not be saved."""
    return min(total + (now - before), MOST_COUNT)


def _no_less(told: Listener, before: Listener) -> Listener:
    """As told, with the larger of each total: what was sent before it may arrive after it."""
    return msgspec.structs.replace(
        told,
        dropped_total=max(told.dropped_total, before.dropped_total),
        callbacks_total=max(told.callbacks_total, before.callbacks_total),
        callback_seconds_total=max(told.callback_seconds_total, before.callback_seconds_total),
    )


class Sender(msgspec.Struct):
    """A listener instance: what it said of itself, and up to where its events were counted."""

    application_id: str
    application: str  # the name as a label
    listener: Listener
    last_sequence: int = 0
    heard_time: float = 0.0
    event_time: float = 0.0  # the newest that an event log told of, by its driver's clock
    #: Of its application when it was counted last. One per application that never falls: the counts
    #: of two listeners in turn, as of two notebooks on a cluster, would look like restarts.
    counters: Counters = Counters()


class ListenerView(msgspec.Struct, frozen=True):
    """One driver's listener: its own latest totals."""

    application: str
    listener: Listener
    last_heard_time: float


class ListenersView(msgspec.Struct, frozen=True):
    """All listeners of one application."""

    application: str
    counters: Counters
    queue_length: int  # events that wait, of those that live
    last_heard_time: float


def beside_name(application: Application) -> str:
    """Of a second live application, while the first has the plain name."""
    return label(f"{application.name}-{application.id}")


class Senders:
    """All of them, by instance."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._senders: dict[str, Sender] = {}
        self._named: dict[str, Sender] = {}  # by its name, who was counted last
        self._logs_gone: dict[str, float] = {}  # when a followed log was first missed

    def __getitem__(self, instance: str) -> Sender:
        return self._senders[instance]

    def get(self, instance: str) -> Sender | None:
        """The instance's, where it is known."""
        return self._senders.get(instance)

    def put(self, instance: str, sender: Sender) -> None:
        """As it was saved."""
        self._senders[instance] = sender
        named = self._named.get(sender.application)
        if named is None or _newness(named) <= _newness(sender):
            self._named[sender.application] = sender

    def is_full(self) -> bool:
        """Whether there is no room for one more."""
        return len(self._senders) >= self._most()

    def _most(self) -> int:
        return LEAST_SENDERS + SENDERS_PER_QUERY * self._policy.max_queries

    def make_room(self, present: set[str]) -> list[str]:
        """Forgets a tenth of them at once; gives their instances.

        First those of applications without a query here (not ``present``), then those not heard
        for longest: who goes on and is forgotten has only its tail counted twice.
        """
        order = sorted(
            self._senders.items(),
            key=lambda one: (one[1].application_id in present, one[1].heard_time),
        )
        return self._forget([instance for instance, _ in order[: max(self._most() // 10, 1)]])

    def hear(self, request: Request, now: float, heard_from: float = 0.0) -> Sender:
        """Who sent a request, heard ``now`` by an agent that hears since ``heard_from``.

        The plain name goes over where who had it has been silent, and that one is beside it when it
        is heard again: two that share a name would tell of each other's counters in turn.
        """
        instance = request.listener.instance
        sender = self._senders.get(instance)
        before = Listener(instance) if sender is None else sender.listener
        told = _no_less(request.listener, before)
        if sender is None:
            sender = self._senders[instance] = Sender(request.application.id, "", told)
        sender.application_id = request.application.id
        plain = label(request.application.name)
        holder = self._named.get(plain)
        taken = (
            holder is not None
            and holder.application_id != sender.application_id
            and now - max(holder.heard_time, heard_from) <= self._policy.silent_seconds
        )
        name = beside_name(request.application) if taken else plain
        last = self._named.get(name)
        self._unname(sender)
        sender.application = name
        sender.counters = (Counters() if last is None else last.counters).plus(told, before)
        sender.listener, sender.heard_time = told, now
        self._named[sender.application] = sender
        return sender

    def heard_times(self) -> dict[str, float]:
        """When each was heard last, by the name of its part."""
        return {part_of_listener(of): sender.heard_time for of, sender in self._senders.items()}

    def wake(self, slept: dict[str, float], before: float) -> list[str]:
        """Those not heard since they ``slept`` were heard at most so ``before`` a time.

        Gives the instances of those that had been heard later: as saved they would be the newest
        again, before who is heard by this clock.
        """
        later: list[str] = []
        for instance, sender in self._senders.items():
            heard_time = sender.heard_time
            if heard_time > before and slept.get(part_of_listener(instance)) == heard_time:
                sender.heard_time = before
                later.append(instance)
        return later

    def forget_silent(self, now: float) -> list[str]:
        """Forgets those that have no tail to send again; gives their instances."""
        return self._forget(
            [
                instance
                for instance, sender in self._senders.items()
                if now - sender.heard_time > LISTENER_SECONDS and not self._may_grow(instance, now)
            ]
        )

    def see_logs(self, instances: set[str], now: float) -> None:
        """Which event logs there are, by the instances of their lines."""
        for instance in self._senders:
            if not instance.startswith(LOG_LINES) or instance in instances:
                self._logs_gone.pop(instance, None)
            else:
                self._logs_gone.setdefault(instance, now)

    def _may_grow(self, instance: str, now: float) -> bool:
        """Whether it is a log that may be there still, however long nothing is written to it.

        Its place in the log stands here alone: without it all of the log is counted again. Where
        nobody has looked yet it may be there, and one that is missed may come back within a day.
        """
        if not instance.startswith(LOG_LINES):
            return False
        return now - self._logs_gone.get(instance, now) <= LISTENER_SECONDS

    def _forget(self, instances: list[str]) -> list[str]:
        for instance in instances:
            self._unname(self._senders.pop(instance))
            self._logs_gone.pop(instance, None)
        return instances

    def _unname(self, sender: Sender) -> None:
        if self._named.get(sender.application) is sender:
            del self._named[sender.application]

    def heard_within(self, seconds: float, now: float) -> Iterator[Sender]:
        """Those heard of within so long."""
        for sender in self._senders.values():
            if now - sender.heard_time <= seconds:
                yield sender

    def drivers(self) -> Iterator[Sender]:
        """Those that are drivers' own listeners, and no followed event logs."""
        for instance, sender in self._senders.items():
            if not instance.startswith(LOG_INSTANCE):
                yield sender

    def driver_heard(self, query: Query, now: float) -> bool:
        """Whether a driver that the query may run in has been heard of within the time."""
        return any(
            (
                sender.application_id == query.run.application_id
                or sender.application == query.application
            )
            and now - sender.heard_time <= self._policy.silent_seconds
            for sender in self.drivers()
        )

    def views(self, now: float) -> list[ListenerView]:
        """Those heard of within the time after which series expire."""
        return [
            ListenerView(sender.application, sender.listener, sender.heard_time)
            for sender in self.heard_within(self._policy.forget_seconds, now)
        ]

    def together(self, now: float) -> list[ListenersView]:
        """By application, of those that ``views`` tells of."""
        found: dict[str, list[Sender]] = {}
        for sender in self.heard_within(self._policy.forget_seconds, now):
            found.setdefault(sender.application, []).append(sender)
        return [self._together(application, senders) for application, senders in found.items()]

    def _together(self, application: str, senders: list[Sender]) -> ListenersView:
        # Who was heard last may be one whose request could not be counted: its sum is an older one.
        counted = self._named.get(application)
        if counted is None:  # forgotten
            counted = max(senders, key=lambda one: one.counters.callbacks_total)
        heard_time = max(one.heard_time for one in senders)
        # Of one that was restarted the listener before it tells no more.
        since = heard_time - self._policy.silent_seconds
        waiting = sum(one.listener.queue_length for one in senders if one.heard_time >= since)
        return ListenersView(application, counted.counters, waiting, heard_time)


def _newness(sender: Sender) -> tuple[float, int]:
    """By which of two the newer is found, also of those that were heard at one time."""
    return sender.heard_time, sender.counters.callbacks_total
