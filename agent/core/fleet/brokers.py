"""What brokers say of a query's sources, against how far the query has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from agent.core.decode.kafka_offsets import Offsets
from agent.core.measure import flow as measure
from agent.core.measure.partitions import PartitionView, pressing_rows_per_second

if TYPE_CHECKING:
    from agent.core.decode.events import Progress, SourceLimit
    from agent.core.query import Key, Query


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


class BrokersWord:
    """By query. It is not saved: brokers are asked again."""

    def __init__(self) -> None:
        self._offsets: dict[Key, Reading] | None = None  # None: nobody asks
        self._partitions: dict[Key, dict[int, _Asked]] = {}

    def keep_offsets(self) -> None:
        """Keeps from now on how far each query has read, for who asks brokers about it."""
        if self._offsets is None:
            self._offsets = {}

    def note_read(self, query: Query, progress: Progress) -> None:
        """A batch ended: where each source was read to."""
        if self._offsets is None:
            return
        read = {
            index: source.offsets
            for index, source in enumerate(progress.sources)
            if source.offsets is not None
        }
        if read:
            self._offsets[query.key] = Reading(progress.run_id, read)

    def note_plan(self, query: Query, run_id: str, limits: list[SourceLimit]) -> None:
        """The batch after the newest that ended runs: where it will have read to."""
        if self._offsets is None:
            return
        planned = {one.source: one.offsets for one in limits if one.offsets}
        known = self._offsets.get(query.key)
        if planned and known is not None and known.run_id == run_id:
            self._offsets[query.key] = Reading(run_id, known.offsets, planned)

    def readings(self) -> dict[Key, Reading]:
        """How far each query had read."""
        return self._offsets or {}

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
        asked[source] = _Asked(query.run.run_id, until, views)
        time = now - query.clock.skew_seconds
        measure.observe(query, source, sum(view.backlog_rows for view in views), time)
        if source < len(query.sources):
            of = query.sources[source]
            of.pressing_rows_per_second = pressing_rows_per_second(views)
            of.pressing_until_time = time + valid_seconds

    def partitions(self, query: Query, now: float) -> list[PartitionView]:
        """What may be shown of a query's present run."""
        return [
            one
            for _, said in sorted(self._partitions.get(query.key, {}).items())
            if said.run_id == query.run.run_id and now <= said.until
            for one in said.views
        ]

    def forget(self, key: Key) -> None:
        """A query that is not followed any more."""
        self._partitions.pop(key, None)
        if self._offsets is not None:
            self._offsets.pop(key, None)
