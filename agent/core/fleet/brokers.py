"""What brokers say of a query's sources, against how far the query has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from agent.core.decode.kafka_offsets import Reading, is_assigned
from agent.core.measure import flow as measure
from agent.core.measure.partitions import PartitionView, pressing_rows_per_second

if TYPE_CHECKING:
    from agent.core.decode.events import Progress, SourceLimit
    from agent.core.query import Key, Query


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """What brokers said of a source, of which checkpoint, and until when it may be shown."""

    query_id: str
    until: float
    views: list[PartitionView]


class BrokersWord:
    """By query. What brokers said is not saved: they are asked again."""

    def __init__(self) -> None:
        self._keeps_offsets = False  # nobody asks
        self._partitions: dict[Key, dict[int, _Asked]] = {}

    def keep_offsets(self) -> None:
        """Keeps from now on how far each query has read, for who asks brokers about it."""
        self._keeps_offsets = True

    def note_read(self, query: Query, progress: Progress) -> None:
        """A batch ended: where each source was read to."""
        if not self._keeps_offsets:
            return
        read = {
            index: source.offsets
            for index, source in enumerate(progress.sources)
            if source.offsets is not None
        }
        if read:
            assigned = [i for i in read if is_assigned(progress.sources[i].description)]
            query.read = Reading(read, assigned=assigned, query_id=query.run.query_id)

    def note_plan(self, query: Query, limits: list[SourceLimit]) -> None:
        """The batch after the newest that ended runs: where it will have read to."""
        if not self._keeps_offsets:
            return
        planned = {one.source: one.offsets for one in limits if one.offsets}
        known = query.read
        if planned and known is not None:
            query.read = msgspec.structs.replace(known, planned=planned)

    def hear(
        self,
        query: Query,
        source: int,
        views: list[PartitionView],
        now: float,
        *,
        valid_seconds: float,
    ) -> None:
        """What brokers hold of a source now, shown for so many seconds."""
        until = now + valid_seconds
        asked = self._partitions.setdefault(query.key, {})
        asked[source] = _Asked(query.run.query_id, until, views)
        time = now - query.clock.skew_seconds
        measure.observe(query, source, sum(view.backlog_rows for view in views), time)
        if source < len(query.sources):
            of = query.sources[source]
            pressing = pressing_rows_per_second(views)
            if pressing is not None:
                # Of an offset that two parts of a plan read, two rows count.
                pressing *= of.ratio or 1.0
            of.pressing_rows_per_second = pressing
            of.pressing_until_time = time + valid_seconds

    def partitions(self, query: Query, now: float) -> list[PartitionView]:
        """What may be shown of a query's present checkpoint, whichever run reads it on."""
        return [
            one
            for _, said in sorted(self._partitions.get(query.key, {}).items())
            if said.query_id == query.run.query_id and now <= said.until
            for one in said.views
        ]

    def forget(self, key: Key) -> None:
        """A query that is not followed any more."""
        self._partitions.pop(key, None)
