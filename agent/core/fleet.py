"""All queries of all applications: who a series belongs to, what was counted, what is granted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from agent.core.decode import Listener, Refused, Request
from agent.core.judgement import Judgement, Mode, QueryView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agent.core.policy import Policy

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


class Receipt(msgspec.Struct, frozen=True):
    """What became of a request."""

    accepted: int  # new events taken in; resent ones count as accepted again, but are not judged
    acknowledged: int  # the highest sequence the listener need not send again
    refused: list[Refused]
    grants: list[Grant]
    judged: list[Judgement]
    touched: set[Key]


class Change(msgspec.Struct, frozen=True):
    """One part of the saved state: a query, a listener, or the agent's own totals and orders."""

    part: str  # a stable name, unique within the fleet: the key to store it under
    data: bytes | None  # None: forget it


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A hand at the wheel: exactly one of mode, hold, limit is set (``limit_set`` for the last)."""

    who: str
    reason: str = ""
    mode: Mode | None = None
    hold: bool | None = None  # False releases, a manual limit too
    limit: int | None = None
    unit: str | None = None


class OrderRecord(msgspec.Struct, frozen=True):
    """An order that was carried out, for the log and the page."""

    time: float
    who: str
    application: str
    query: str
    what: str  # "mode off", "hold", "release", "limit 500 rows"
    reason: str


class UnknownQuery(LookupError):  # noqa: N818
    """No query of that name; the message names the nearest ones known."""


class Liveness(msgspec.Struct, frozen=True):
    """The answer to a probe: ``ok`` False only when restarting the driver is right."""

    ok: bool
    why: Literal["progressing", "idle", "slow", "unknown", "starting", "silent", "hung", "gone"]


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


class Fleet:
    """Every query's judgement. Not thread-safe: one thread owns it. Times are epoch seconds."""

    def __init__(self, policy: Policy, *, started_time: float) -> None: ...

    # -- events in --------------------------------------------------------------------------
    def receive(self, request: Request, now: float) -> Receipt: ...

    # -- the clock --------------------------------------------------------------------------
    def tick(self, now: float) -> set[Key]:
        """Marks silent queries as gone, forgets those gone long enough; returns what changed."""
        ...

    # -- a hand at the wheel ----------------------------------------------------------------
    def control(self, application: str, query: str, order: Order, now: float) -> list[OrderRecord]:
        """Carries out an order; application or query may be ``*`` or a shell pattern.

        ``mode`` with a pattern also holds for queries that come later. Raises UnknownQuery where
        a name without pattern characters matches nothing, ValueError where the order is wrong.
        """
        ...

    # -- what exporters read ----------------------------------------------------------------
    @property
    def totals(self) -> AgentTotals: ...
    def __len__(self) -> int: ...
    def has(self, key: Key) -> bool: ...
    def keys(self) -> list[Key]: ...
    def view(self, key: Key, now: float) -> QueryView:
        """Raises KeyError."""
        ...

    def views(self, now: float) -> Iterator[QueryView]:
        """Every query, in the order of their keys. Built one at a time: views are large."""
        ...

    def listeners(self, now: float) -> list[ListenerView]: ...
    def liveness(self, application: str, query: str, now: float) -> Liveness: ...

    # -- saved state (CHANGED: replaces save_query / save_agent; parts keep each write small) ----
    def changes(self) -> list[Change]:
        """The saved form of every part that changed since the last call; write them atomically."""
        ...

    @classmethod
    def restore(cls, policy: Policy, parts: Iterable[Change], *, started_time: float) -> Fleet:
        """A fleet as saved. Raises msgspec.DecodeError where a part is not a saved state."""
        ...
