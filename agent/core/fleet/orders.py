"""A hand at the wheel: what people order of queries, for now and for those that come later."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.decide import limits as decide
from agent.core.fleet.roster import names
from agent.core.judge.starved import ordered, starved
from agent.core.judgement import Mode, OrderView
from agent.core.names import OF_ONE_RUN

if TYPE_CHECKING:
    from agent.core.policy import Policy
    from agent.core.query import Query

#: The switch for all, which is never forgotten, and the newest of the others.
MOST_STANDING_ORDERS: Final = 100
#: What an order may say; one of these.
ACTS: Final = ("mode", "hold", "limit", "retire")
LATE_ROWS_NOTE: Final = (
    "noted; smaller batches would drop late rows, so they stay as configured: weir release tries "
    "again, late_rows: allow accepts it"
)
UNEVEN_NOTE: Final = (
    "noted; smaller batches may change which rows this query counts (finding late_rows says how), "
    "so they stay as configured: late_rows: allow accepts it"
)


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A hand at the wheel: exactly one of mode, hold, limit, retire (``unit`` goes with limit)."""

    who: str
    reason: str = ""
    mode: Mode | None = None
    hold: bool | None = None  # False releases, a manual limit too
    limit: int | None = None
    unit: str | None = None
    retire: bool | None = None  # True: a query that is gone is not missed
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


class UnknownQuery(LookupError):  # noqa: N818
    """No query of that name; the message names the nearest ones known."""


class Standing(msgspec.Struct, frozen=True):
    """A mode that also holds for queries that come later."""

    application: str
    query: str
    mode: Mode
    time: float | None = None  # when it was given, by the agent's clock

    def mode_for(self, query: Query, policy: Policy) -> Mode | None:
        """``on`` by a pattern yields to a rule that gives the query a mode: None.

        Such a rule may protect what the query gives out, and whoever wrote it named the query.
        """
        if self.mode == "on" and not self._is_of(query):
            ruled = policy.ruled_mode(*query.key, query.own_key)
            return None if ruled is not None else "on"
        return self.mode

    def _is_of(self, query: Query) -> bool:
        """Whether it was given by the query's own name, in its application or wherever it is.

        A bracket of a name that is known stands in brackets; ``*`` and ``?`` are a pattern's.
        """
        application, name = (one.replace("[[]", "[") for one in (self.application, self.query))
        named = name == query.query and not any(mark in name for mark in "*?")
        return named and application in ("*", query.application)


def stand(standing: list[Standing], order: Standing) -> list[Standing]:
    """The orders that stand after one more; the switch for all overrides whatever was before.

    So it is the first of them wherever it stands: of too many the oldest after it is forgotten.
    """
    said = (order.application, order.query)
    kept = [old for old in standing if said not in (("*", "*"), (old.application, old.query))]
    if len(kept) >= MOST_STANDING_ORDERS:
        first = kept[0]
        del kept[1 if (first.application, first.query) == ("*", "*") else 0]
    return [*kept, order]


def greet(standing: list[Standing], query: Query, policy: Policy) -> None:
    """A query that is new: the orders that stand hold for it, unless a hand set its mode."""
    order = _standing_for(standing, query)
    if order is not None and query.orders.mode_by is None:
        _follow(order, query, policy)


def heed_rules(standing: list[Standing], query: Query, policy: Policy) -> None:
    """After a start, at which rules may have come or gone: ``on`` ordered of many heeds them.

    As it would for a query that is new; an order by its own name stays.
    """
    given, order = query.orders, _standing_for(standing, query)
    if order is None or order.mode != "on" or given.mode not in {None, "on"}:
        return
    if given.mode_by is None or given.mode_by.time == order.time:
        _follow(order, query, policy)
        if given.mode is None:
            given.mode_by = None


def _follow(order: Standing, query: Query, policy: Policy) -> None:
    query.orders.mode = order.mode_for(query, policy)
    query.orders.mode_time = order.time


def _standing_for(standing: list[Standing], query: Query) -> Standing | None:
    """The order that stands and holds for a query: the last one that names it."""
    found = [one for one in standing if names(one.application, one.query, query)]
    return found[-1] if found else None


def is_ordered(one: Query, standing: list[Standing], policy: Policy) -> bool:
    """Whether a hand ordered of a query what ends with its series: no order that stands says it."""
    if one.aside and one.orders.borrowed:
        return False
    if one.orders.held_by is not None:
        return True
    order = _standing_for(standing, one)
    of_all = None if order is None else order.mode_for(one, policy)
    return one.orders.mode_by is not None and one.orders.mode != of_all


def mode_of_all(standing: list[Standing], policy: Policy) -> Mode:
    """The mode of a query that nobody has named: the switch for all, else the default."""
    for order in reversed(standing):
        if (order.application, order.query) == ("*", "*"):
            return order.mode
    return policy.default.mode


def wording(order: Order) -> str:
    """What an order says; raises ValueError where it says nothing or two things at once."""
    given = [name for name in ACTS if getattr(order, name) is not None]
    if len(given) != 1:
        raise ValueError(f"exactly one of {', '.join(ACTS)} is needed, not {given or 'none'}")
    if order.retire is not None:
        if not order.retire:
            raise ValueError("retire: true is needed; a query that runs again comes back by itself")
        return "retire"
    if order.mode is not None:
        return f"mode {order.mode}"
    if order.limit is not None:
        if order.limit < 1:
            raise ValueError(f"limit: a whole number from 1 is needed, not {order.limit}")
        return _of_limit(order.limit, order.unit)
    return "hold" if order.hold else "release"


def _of_limit(limit: int, unit: str | None) -> str:
    """One row, two rows."""
    named = "" if unit is None else f" {unit.removesuffix('s') if limit == 1 else unit}"
    return f"limit {limit}{named}"


def retirable(chosen: list[Query]) -> list[Query]:
    """Those that are gone. Raises ValueError where none is: what runs is not retired."""
    gone = [one for one in chosen if one.life.terminated or one.life.gone_since_time is not None]
    if not gone:
        running = f"{chosen[0].application}/{chosen[0].query}"
        raise ValueError(
            f"{running} runs: only a query that is gone can be retired; stop it first"
            if len(chosen) == 1
            else f"all {len(chosen)} run: only queries that are gone can be retired"
        )
    return gone


def stays_seconds(one: Query, standing: list[Standing], policy: Policy) -> float:
    """How long a query that is gone is told of: until it is retired, where nothing else says.

    What somebody ordered of a query holds for its next run, whenever that is and however this one
    ended. One that its owner stopped is missed by nobody, unless it is not to be cut smaller since
    rows came late; one whose name was made for it, as another had its own, hardly comes back, and
    one that has neither a name nor a checkpoint of its own never does: its next run is another.
    """
    if is_ordered(one, standing, policy):
        return math.inf
    nameless = not one.aside and one.query == one.run.query_id
    if one.aside or (nameless and OF_ONE_RUN.search(one.run.checkpoint_location)):
        return policy.forget_seconds
    if one.life.stopped:
        held = one.watched.lateness.held_since_time is not None
        return math.inf if held else policy.forget_seconds
    retire_seconds = one.settings(policy).retire_seconds
    return math.inf if retire_seconds is None else retire_seconds


def is_pattern(application: str, query: str) -> bool:
    """Whether two names may name several queries, and later ones."""
    return any(mark in application + query for mark in "*?[")


def carry_out(
    order: Order, one: Query, mode: Standing | None, policy: Policy, now: float
) -> OrderRecord:
    """One query obeys; ``mode`` with the patterns that named it, where the order is of a mode."""
    time = now - one.clock.skew_seconds
    if order.retire:
        pass  # whoever follows it lets go of it
    elif mode is not None:
        decide.order_mode(one, mode.mode_for(one, policy), policy, time)
    elif order.limit is not None:
        decide.order_limit(one, order.limit, order.unit, time, policy)
    elif order.hold:
        decide.order_hold(one, time, policy)
    else:
        decide.order_release(one)
    what = wording(order)
    if order.retire:
        return OrderRecord(now, order.who, one.application, one.query, what, order.reason)
    if order.limit is not None and order.unit is None and one.orders.unit is not None:
        what = _of_limit(order.limit, one.orders.unit)  # the unit that it was given there
    said = OrderView(now, order.who, what, order.reason)
    one.orders.note(said, of_mode=mode is not None)
    names_of = one.application, one.query
    return OrderRecord(now, order.who, *names_of, what, order.reason, _note(order, one, policy))


def _beside(order: Order, query: Query) -> list[str]:
    """Where a limit by hand is not the most of a batch: how many sources have it, and which not."""
    if order.limit is None:
        return []
    units = [one.unit for one in query.controlled() if one.unit is not None]
    having = units.count(query.orders.unit or "")
    others = sorted({unit for unit in units if unit != query.orders.unit})
    said = [f"each of {having} sources has it"] if having > 1 else []
    if others:
        said.append(f"a limit in {' or '.join(others)} stays as it is until weir release")
    return said


def _note(order: Order, query: Query, policy: Policy) -> str:
    """What an order leaves as it is, and why; empty where it does what it says."""
    mode, name = query.mode(policy), shlex.quote(f"{query.application}/{query.query}")
    if order.mode not in (None, mode):
        return f"stays {mode}, as a rule says: weir mode on {name} stands above it"
    if order.mode is not None or order.hold is False:
        return ""
    if mode == "on":
        known = any(source.limit_known for source in query.sources)
        reachable = any(source.controllable for source in query.sources)
        settings = query.settings(policy)
        if reachable and query.watched.lateness.holds(settings.late_rows):
            back = query.watched.lateness.went_back(settings.late_rows)
            return LATE_ROWS_NOTE if back or settings.late_rows == "hold" else UNEVEN_NOTE
        if known and not reachable:
            return "noted; its limit cannot be changed live"
        costs = starved(query, ordered(query))
        said = [*_beside(order, query), *([] if costs is None else [costs])]
        return "; ".join(["done", *said]) if said else ""
    when = "in dry-run" if mode == "dry-run" else "while its mode is off"
    return f"noted; {when} nothing changes: weir mode on {name}"
