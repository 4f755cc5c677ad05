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

from bisect import insort
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Key = tuple[str, str]

#: Of an even share of the pool, what each query owns whatever its need.
EXCLUSIVE_SHARE: Final = 0.5
#: Gaps between batches make the company look smaller than it is by up to this.
SLACK: Final = 1.1
#: Weight of a new batch in the company its query's cost was learned in.
COMPANY_GAIN: Final = 0.5


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
    wants: tuple[float, ...] = ()  # of the granted, in ascending order; a snapshot's, so it may
    own: float | None = None  # ... hold the query's own as it was then


class Snapshot:
    """The members of one application at one time, for all of its queries until the next."""

    def __init__(self, time: float, members: Mapping[Key, tuple[Member, float]]) -> None:
        """``members`` by query, each with its measured busy share."""
        self.time = time
        self.left = len(members)  # parts to be worked out before the next snapshot is due
        self._members = members
        wanted = [member for member, _ in members.values()]
        granted = [member.wanted for member in wanted if member.granted]
        self._whole = Beside(
            len(members),
            sum(busy for _, busy in members.values()),
            sum(member.wanted for member in wanted),
            sum(member.wanted * member.company for member in wanted),
            sum(member.wanted for member in wanted if not member.granted),
            len(granted),
            sum(granted),
            tuple(sorted(granted)),
        )

    def beside(self, key: Key) -> Beside:
        """All but one query."""
        whole, known = self._whole, self._members.get(key)
        if known is None:
            return whole
        member, busy = known
        limited = member.granted
        return Beside(
            whole.count - 1,
            max(whole.busy - busy, 0.0),
            max(whole.wanted - member.wanted, 0.0),
            max(whole.in_company - member.wanted * member.company, 0.0),
            max(whole.taken - (0.0 if limited else member.wanted), 0.0),
            whole.granted - limited,
            max(whole.granted_wanted - (member.wanted if limited else 0.0), 0.0),
            whole.wants,
            member.wanted if limited else None,
        )


def part_of(me: Member, beside: Beside) -> Part:
    """What ``share`` grants of what is ``digestible`` to a granted member among the others."""
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


def digestible(members: Sequence[Member]) -> float:
    """The sum of busy shares that is known to be digestible; at least one query's."""
    weight = sum(member.wanted for member in members)
    if weight <= 0.0:
        return SLACK
    company = sum(member.wanted * member.company for member in members) / weight
    return SLACK * max(company, 1.0)


def share(total: float, members: Sequence[Member]) -> list[Part]:
    """Shares the pool: everyone's need where it is enough for all, else max-min fairly.

    The parts of those granted add up to at most ``total`` less what the others take, but each may
    have its exclusive part; none gets more than it wants; who wants more never gets less.
    """
    count = len(members)
    if count == 0:
        return []
    own = EXCLUSIVE_SHARE * total / count
    left = total - sum(member.wanted for member in members if not member.granted)
    left = max(left, own * sum(member.granted for member in members))
    level = _level(left, sorted(member.wanted for member in members if member.granted))
    parts = []
    for member in members:
        taken = min(member.wanted, level) if member.granted else member.wanted
        exclusive = min(taken, own)
        parts.append(Part(exclusive, taken - exclusive))
    return parts


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
