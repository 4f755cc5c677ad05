"""Credit pool: the queries of one application share one cluster.

As Flink's network credit has exclusive buffers for each channel and floating ones that go where
the backlog is (its credit-based flow control), each query owns a part of what the cluster digests,
and the rest floats to who needs it. A query that needs less leaves its share floating.

The unit is busy time per time: the share of its cycle (target or trigger interval, whichever is
longer) that a query's batches run. One query alone can use one; how many can run side by side
without slowing each other is nobody's to know beforehand. What is known: each query's cost of a
batch was measured in some *company*, the mean number of batches that ran at the time, its own
included. In that company all of them together were digested at that cost. More than that is not
known to be digestible, so it is granted step by step: while more run, costs are learned anew, and
with them the company.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush, heapreplace
from typing import Final

import msgspec

Key = tuple[str, str]

#: Of an even share of the pool, what each query owns whatever its need.
EXCLUSIVE_SHARE: Final = 0.5
#: Gaps between batches make the company look smaller than it is by up to this.
SLACK: Final = 1.1
#: Weight of a new batch in the company its query's cost was learned in.
COMPANY_GAIN: Final = 0.5
_ONE: Final = 1 << 40  # of the fixed point


class Member(msgspec.Struct, frozen=True, gc=False):
    """A query of the application."""

    wanted: float  # busy share it could use, 0 to 1
    company: float  # in which its cost was learned, at least 1
    granted: bool = True  # False: nobody limits it, it takes what it wants


class Part(msgspec.Struct, frozen=True, gc=False):
    """What a query is granted of the pool, as busy shares."""

    exclusive: float
    floating: float

    @property
    def share(self) -> float:
        """Both together."""
        return self.exclusive + self.floating


class Beside(msgspec.Struct, frozen=True, gc=False):
    """The other members, as sums: what a query's part follows from without a look at each."""

    count: int = 0
    busy: float = 0.0  # busy shares as measured
    wanted: float = 0.0
    in_company: float = 0.0  # what is wanted, each times its company
    taken: float = 0.0  # by those that nobody limits
    granted: int = 0
    granted_wanted: float = 0.0
    wants: Sequence[float] = ()  # of the granted, in ascending order; valid until the next change
    own: float | None = None  # of the wants, what is the query's own and no other's


class _Entry(msgspec.Struct, frozen=True, gc=False):
    member: Member
    time: float  # of its last event
    busy: int  # this and what follows: in fixed point
    wanted: int
    in_company: int


class Members:
    """The members of one application, each as of its own last event.

    It is nothing but a view of the queries' saved state, kept up to date at a cost that does not
    grow with their number: made anew from the same queries, at any moment and in any order, it
    says the same to the last bit. Hence sums of whole numbers, which no order of adding changes.
    """

    def __init__(self, silent_seconds: float) -> None:
        """A member silent for longer, by the newest event of all, no longer counts."""
        self._silent_seconds = silent_seconds
        self._newest_time = -math.inf
        self._entries: dict[Key, _Entry] = {}
        self._oldest: list[tuple[float, Key]] = []  # a heap of times, some of them passed since
        self._queued: set[Key] = set()  # that are in it
        self._busy = self._wanted = self._in_company = self._granted_wanted = 0
        self._wants: list[float] = []

    def put(self, key: Key, member: Member, busy_share: float, time: float) -> None:
        """A member as it is after an event of its own."""
        if key not in self._queued:
            self._queued.add(key)
            heappush(self._oldest, (time, key))
        self._newest_time = max(self._newest_time, time)
        wants = member.wanted
        busy, wanted = round(busy_share * _ONE), round(wants * _ONE)
        in_company = round(wants * member.company * _ONE)
        before = self._entries.get(key, _NOBODY)
        self._entries[key] = _Entry(member, time, busy, wanted, in_company)
        self._busy += busy - before.busy
        self._wanted += wanted - before.wanted
        self._in_company += in_company - before.in_company
        of_before = before.member
        if member.granted and of_before.granted and wants == of_before.wanted:
            return
        self._no_longer_granted(before)
        if member.granted:
            self._granted_wanted += wanted
            insort(self._wants, wants)

    def remove(self, key: Key, time: float) -> None:
        """It has ended; its last event was at ``time``, the newest of all if it is later."""
        self._take_out(key)
        self._newest_time = max(self._newest_time, time)

    def beside(self, key: Key, time: float) -> Beside:
        """All but one query, at the ``time`` of an event of its own."""
        self._newest_time = max(self._newest_time, time)
        self._let_go()
        entry = self._entries.get(key, _NOBODY)
        present = entry is not _NOBODY
        limited = present and entry.member.granted
        wanted = self._wanted - entry.wanted
        granted_wanted = self._granted_wanted - (entry.wanted if limited else 0)
        return Beside(
            len(self._entries) - present,
            (self._busy - entry.busy) / _ONE,
            wanted / _ONE,
            (self._in_company - entry.in_company) / _ONE,
            (wanted - granted_wanted) / _ONE,
            len(self._wants) - limited,
            granted_wanted / _ONE,
            self._wants,
            entry.member.wanted if limited else None,
        )

    def _take_out(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._busy -= entry.busy
        self._wanted -= entry.wanted
        self._in_company -= entry.in_company
        self._no_longer_granted(entry)

    def _no_longer_granted(self, entry: _Entry) -> None:
        if entry.member.granted:
            self._granted_wanted -= entry.wanted
            del self._wants[bisect_left(self._wants, entry.member.wanted)]

    def _let_go(self) -> None:
        """Those that have been silent for too long."""
        limit = self._newest_time - self._silent_seconds
        while self._oldest and self._oldest[0][0] < limit:
            key = self._oldest[0][1]
            entry = self._entries.get(key)
            if entry is None or entry.time < limit:
                heappop(self._oldest)
                self._queued.discard(key)
                self._take_out(key)
            else:
                heapreplace(self._oldest, (entry.time, key))


_NOBODY: Final = _Entry(Member(0.0, 1.0, granted=False), 0.0, 0, 0, 0)


def part_of(me: Member, beside: Beside) -> Part:
    """What a member that is granted anything is granted, among the others.

    Of what is known to be digestible, at least one query's, less what those take that nobody
    limits: everyone's need where it is enough for all, else max-min fairly, each its exclusive part
    at least. None gets more than it wants; who wants more never gets less.
    """
    weight = beside.wanted + me.wanted
    total = SLACK
    if weight > 0.0:
        total *= max((beside.in_company + me.wanted * me.company) / weight, 1.0)
    own = EXCLUSIVE_SHARE * total / (beside.count + 1)
    left = max(total - beside.taken, own * (beside.granted + 1))
    taken = me.wanted
    if beside.granted_wanted + me.wanted > left:
        wants = list(beside.wants)
        if beside.own is not None:
            wants.remove(beside.own)
        insort(wants, me.wanted)
        taken = min(me.wanted, _level(left, wants))
    exclusive = min(taken, own)
    return Part(exclusive, taken - exclusive)


def _level(total: float, wanted: list[float]) -> float:
    """The height to which wants, in ascending order, are filled so that they take the total."""
    left = total
    for index, want in enumerate(wanted):
        even = left / (len(wanted) - index)
        if want >= even:
            return even
        left -= want
    return wanted[-1] if wanted else 0.0


def company(before: float | None, now: float, *, changed: bool) -> float:
    """The company of a cost learned from batch to batch; ``changed``: learned anew from here."""
    if before is None or changed:
        return now
    return before + COMPANY_GAIN * (now - before)
