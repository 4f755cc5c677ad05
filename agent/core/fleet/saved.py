"""What of a fleet outlives its agent: parts that change one by one, each stored under a name."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from agent.core.arrays import packed, plain
from agent.core.decode.kafka_offsets import are_places
from agent.core.measure.cost import Line
from agent.core.measure.source import Source
from agent.core.query import Key, Query

#: How states saved before ``Query`` had groups called what its groups hold: the name with this
#: before it, or the name alone.
_BEFORE: Final = {
    "batch": "batch_",
    "running": "running_",
    "clock": "clock_",
    "orders": "manual_",
}
_RENAMED: Final = {
    ("run", "batches"): "batches_of_run",
    ("batch", "planned_time"): "last_planned_time",
    ("batch", "progress_time"): "last_progress_time",
    ("orders", "mode"): "mode_order",
}


class Change(msgspec.Struct, frozen=True):
    """One part of the saved state: a query, a listener, or the agent's own totals and orders."""

    part: str  # a stable name, unique within the fleet: the key to store it under
    data: bytes | None  # None: forget it


class Changed:
    """Which parts changed since they were last saved."""

    def __init__(self) -> None:
        self._changed: set[str] = set()
        self._forgotten: set[str] = set()

    def touch(self, part: str) -> None:
        """It is there and has changed."""
        self._changed.add(part)
        self._forgotten.discard(part)

    def forget(self, part: str) -> None:
        """It is not there any more."""
        self._changed.discard(part)
        self._forgotten.add(part)

    def take(self) -> tuple[set[str], set[str]]:
        """Those to be saved and those to be forgotten; from now on none."""
        taken = self._changed, self._forgotten
        self._changed, self._forgotten = set(), set()
        return taken


#: What reading a part can raise where it is not ours or not whole.
NO_STATE: Final = (msgspec.MsgspecError, ValueError, LookupError, TypeError, AttributeError)
encode: Final = msgspec.msgpack.Encoder(enc_hook=plain).encode
_decode_raw: Final = msgspec.msgpack.Decoder(dict[str, Any]).decode
_decode_query: Final = msgspec.msgpack.Decoder(Query, dec_hook=packed).decode


#: Of a query that cannot be read as a whole: whose it is, what was ordered, its counters, and what
#: keeps it as configured where rows fall late.
_KEPT: Final = (
    *("application", "query", "name_label", "application_label", "aside"),
    *("life", "orders", "totals", "run", "clock", "watched"),
)


def query_of(data: bytes) -> Query:
    """A query as saved, by this version or one before. Raises msgspec.DecodeError."""
    raw = _decode_raw(data)
    if "run" in raw:
        return _decode_query(encode(raw) if _brought_over(raw) else data)
    line = raw.pop("capacity", None)
    query = _decode_query(encode(_grouped(raw)))
    if line is not None:
        query.sizing.cost = msgspec.convert(line, Line).cost()
    return query


def ordered_of(data: bytes) -> tuple[Query, str]:
    """Of a query that cannot be read as a whole what people ordered; and why it cannot be read.

    Nobody would say that again. What its batches cost is learned anew, as of a query heard of for
    the first time: half of what was known would be believed beside what is new, such as that cost
    without knowing that rows can fall late. Raises one of ``NO_STATE`` where the orders cannot
    be read either.
    """
    raw = _decode_raw(data)
    if "run" not in raw:
        raw = _grouped(raw)
    read: dict[str, Any] = {}
    lost: list[str] = []
    for group in msgspec.structs.fields(Query):
        if group.name not in raw:
            continue
        saved = encode(raw[group.name])
        try:
            read[group.name] = msgspec.msgpack.decode(saved, type=group.type, dec_hook=packed)
        except NO_STATE as error:
            lost.append(f"{group.name}: {error}")
    if "orders" not in read:
        raise msgspec.ValidationError("; ".join(lost) or "it holds no orders")
    query = Query(**{name: read[name] for name in _KEPT if name in read})
    if query.orders.held:  # the number that a hand holds stands in them
        query.sources = [_as_held(source) for source in read.get("sources", ())]
    return query, "; ".join(lost)


def ordered_by_later(data: bytes) -> Query:
    """As ``ordered_of``, where a later version wrote it: none of its orders is half read.

    Raises one of ``NO_STATE``.
    """
    query, _ = ordered_of(data)
    check_read(_decode_raw(data)["orders"], query.orders)
    return query


def check_read(written: dict[str, Any], read: Any) -> None:
    """Raises ValueError where a later version wrote what is not in that which was read of it."""
    again = _decode_raw(encode(read))
    unread = sorted(name for name, value in written.items() if again.get(name) != value)
    if unread:
        raise ValueError(f"not as this version knows it: {', '.join(unread)}")


def _as_held(source: Source) -> Source:
    """Who it is, and what was granted last."""
    return Source(
        source.index,
        source.identity,
        unit=source.unit,
        decided=source.decided,
        decided_limit=source.decided_limit,
        decided_reason=source.decided_reason,
        decided_time=source.decided_time,
        held_limit=source.held_limit,
        would_be=source.would_be,
    )


def _brought_over(raw: dict[str, Any]) -> bool:
    """Puts what a version before wrote otherwise as it is written now; whether there was any."""
    work = raw.get("sizing", {}).get("work", {})
    trial = work.get("trial")
    # Of before trials kept what they began with, and how unsure that was at each size: it is judged
    # no more.
    old = trial is not None and not isinstance(trial.get("doubt"), list)
    if old:
        work["trial"] = None
    lateness = raw.get("watched", {}).get("lateness", {})
    stretch = lateness.get("commits", {}).get("stretch")
    uncounted = stretch is not None and stretch.get("files", 0) is None
    if uncounted:
        stretch["files"] = math.inf
    read = raw.get("read") or {}
    told = [one for name in ("offsets", "planned", "ends") for one in read.get(name, {}).values()]
    # Versions before kept offsets that no client of Kafka's can ask for.
    unasked = not all(map(are_places, told))
    if unasked:
        raw["read"] = None
    return old or uncounted or unasked


def _grouped(flat: dict[str, Any]) -> dict[str, Any]:
    """A state saved before ``Query`` had groups, in groups."""
    grouped = dict(flat)
    for group in msgspec.structs.fields(Query):
        members = getattr(group.type, "__struct_fields__", None)
        if members is None or group.name == "totals":
            continue
        held: dict[str, Any] = {}
        for name in members:
            before = _BEFORE.get(group.name, "") + name
            for one in (_RENAMED.get((group.name, name), before), before, name):
                if one in flat:
                    held[name] = flat[one]
                    break
        grouped[group.name] = held
    return grouped


def part_of_query(key: Key) -> str:
    """The name of a query's part."""
    return f"query:{len(key[0])}:{key[0]}{key[1]}"


def part_of_parked(key: Key) -> str:
    """The name of the part of a query that is parked."""
    return f"parked:{len(key[0])}:{key[0]}{key[1]}"


def part_of_listener(instance: str) -> str:
    """The name of a listener instance's part."""
    return f"listener:{instance}"


AGENT_PART: Final = "agent"


def key_of(rest: str) -> Key:
    """The key in the name of a query's part, parked or not, less its kind."""
    length, _, names = rest.partition(":")
    return names[: int(length)], names[int(length) :]
