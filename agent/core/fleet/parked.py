"""Parked: what was learned of queries that ended well and are told of no more, for their next run.

A job that runs by the clock ends each night as its owner wants it; its series end an hour later,
and what its batches cost, what its trigger is and how late its rows were is true tomorrow, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.fleet.saved import NO_STATE, encode, key_of, part_of_parked, query_of

if TYPE_CHECKING:
    from agent.core.fleet.saved import Changed
    from agent.core.query import Key, Query


class _Parked(msgspec.Struct, frozen=True):
    """A query as it is saved, and since when it is here (epoch seconds)."""

    since_time: float
    data: bytes
    query_id: str = ""
    place: str = ""  # of its checkpoint; empty where that is unknown


_decode: Final = msgspec.msgpack.Decoder(_Parked).decode


class Parked:
    """Queries as bytes, by the names of the series that they had."""

    def __init__(self, changed: Changed) -> None:
        self._changed = changed
        self._queries: dict[Key, _Parked] = {}

    def __len__(self) -> int:
        return len(self._queries)

    def put(self, query: Query, now: float) -> None:
        """Keeps all that is known of it."""
        self._queries[query.key] = _Parked(now, encode(query), *query.run.checkpoint)
        self._changed.touch(part_of_parked(query.key))

    def of_checkpoint(self, query_id: str, place: str) -> Key | None:
        """Under which name a checkpoint's query was parked last."""
        found = [
            (one.since_time, key)
            for key, one in self._queries.items()
            if (one.query_id, one.place) == (query_id, place)
        ]
        return max(found)[1] if found else None

    def take(self, key: Key) -> Query | None:
        """The query of that name, which is parked no more; None, too, where it cannot be read.

        Its mode is no hand's at it any more: what was ordered of it alone is not parked, and what
        was ordered of many may be another order by now.
        """
        found = self._queries.pop(key, None)
        if found is None:
            return None
        self._changed.forget(part_of_parked(key))
        try:
            query = query_of(found.data)
        except NO_STATE:  # of an agent before this one
            return None
        query.orders.mode_by = None
        return query

    def keep(self, most: int) -> None:
        """Lets go of those that are here longest, until there are so many."""
        while len(self._queries) > max(most, 0):
            oldest = min(self._queries, key=lambda key: (self._queries[key].since_time, key))
            del self._queries[oldest]
            self._changed.forget(part_of_parked(oldest))

    def saved(self, rest: str) -> bytes:
        """A part's data; ``rest`` is its name, less its kind."""
        return encode(self._queries[key_of(rest)])

    def restore(self, rest: str, data: bytes) -> None:
        """As it was saved. Raises msgspec.MsgspecError."""
        self._queries[key_of(rest)] = _decode(data)
