"""What brokers say of a query's sources, against how far the query has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from agent.core.decode.kafka_offsets import Offsets, Reading, is_assigned
from agent.core.measure import flow as measure
from agent.core.measure.partitions import PartitionView, pressing_rows_per_second

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from agent.core.decode.events import Progress, SourceLimit
    from agent.core.judgement import Finding
    from agent.core.query import Key, Query


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """What brokers said of a source, of which checkpoint, and until when it may be shown."""

    query_id: str
    until: float
    views: list[PartitionView]
    begins: Offsets  # what waited then, of partitions that were read from before: its first row
    ends: Offsets  # and where it ends, as told last
    time: float  # when the ends were seen, on the driver's clock
    looked_time: float  # when brokers were asked, on the same
    doubted: bool = False  # it may be another cluster's log that the query reads


class BrokersWord:
    """By query. What brokers said is not saved: they are asked again."""

    def __init__(self) -> None:
        self._keeps_offsets = False  # nobody asks
        self._partitions: dict[Key, dict[int, _Asked]] = {}
        self._elsewhere: dict[Key, tuple[str, set[int]]] = {}  # of which checkpoint, which sources
        #: Queries of which brokers tell nothing, and why.
        self.unwatched: Mapping[Key, Finding] = {}

    def keep_offsets(self) -> None:
        """Keeps from now on how far each query has read, for who asks brokers about it."""
        self._keeps_offsets = True

    def note_read(self, query: Query, progress: Progress) -> None:
        """A batch ended: where each source was read to."""
        if not self._keeps_offsets:
            return
        # Another's may look alike, as those of Event Hubs do, of a topic that brokers have as well.
        others = {one.index for one in query.sources if one.description and not one.of_kafka}
        read = {
            index: source.offsets
            for index, source in enumerate(progress.sources)
            if source.offsets is not None and index not in others
        }
        if read:
            assigned = [i for i in read if is_assigned(progress.sources[i].description)]
            query.read = Reading(
                read,
                assigned=assigned,
                query_id=query.run.query_id,
                ends={i: progress.sources[i].latest or {} for i in read},
                planned_time=progress.time,
            )
        elif progress.sources:
            query.read = None  # how far it has read now nobody knows; others' are not Kafka's
            self._partitions.pop(query.key, None)
        asked = self._partitions.get(query.key, {})
        for index, (source, told) in enumerate(zip(query.sources, progress.sources, strict=False)):
            said, time = asked.get(index), source.backlog_time
            if said is None or told.latest is None or time is None or time <= said.time:
                continue
            # Its planning looked after the brokers were asked.
            ends = {place: told.latest.get(place, end) for place, end in said.ends.items()}
            asked[index] = msgspec.structs.replace(said, ends=ends, time=time)

    def note_plan(self, query: Query, limits: list[SourceLimit]) -> None:
        """The batch after the newest that ended runs: where it will have read to."""
        if not self._keeps_offsets or query.reads_on:
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
        silent: Collection[tuple[str, str]],
        doubted: bool = False,
        current: bool = True,
    ) -> None:
        """What brokers hold of a source now, shown for so many seconds.

        Of ``silent`` partitions what was known last stands while the query reads nothing of them,
        and no sum is told.
        """
        self._elsewhere.get(query.key, ("", set()))[1].discard(source)
        until = now + valid_seconds
        asked = self._partitions.setdefault(query.key, {})
        time = now - query.clock.skew_seconds
        begins: Offsets = {}
        ends: Offsets = {}
        last = asked.get(source)
        kept: list[PartitionView] = []
        if last is not None and last.query_id == query.run.query_id and now <= last.until:
            there = [one for one in last.views if (one.topic, one.partition) in silent]
            kept = [_unheard(query, one, last, time) for one in there]
            begins = {place: row for place, row in last.begins.items() if place in silent}
            ends = {place: row for place, row in last.ends.items() if place in silent}
        for one in views:
            place, taken = (one.topic, one.partition), _taken(query, one)
            if query.read is not None and taken is not None:
                begins[place] = max(taken, query.read.offsets[source][place] + one.lost_rows)
                ends[place] = begins[place] + one.backlog_rows
        if kept:
            views = sorted(kept + views, key=lambda one: (one.topic, one.partition))
        if doubted or not current:
            views = [_without_loss(one) for one in views]
        asked[source] = _Asked(query.run.query_id, until, views, begins, ends, time, time, doubted)
        if not silent:
            measure.observe(query, source, sum(view.backlog_rows for view in views), time)
        if source < len(query.sources):
            of = query.sources[source]
            if not silent:
                of.asked_until_time = time + valid_seconds
            pressing = pressing_rows_per_second(views)
            if pressing is not None:
                # Of an offset that two parts of a plan read, two rows count.
                pressing *= of.ratio or 1.0
            of.pressing_rows_per_second = pressing
            of.pressing_until_time = time + valid_seconds

    def hear_elsewhere(self, query: Query, source: int) -> bool:
        """A source reads another cluster's log: what brokers said of it ends. True where new."""
        query_id, sources = self._elsewhere.get(query.key, ("", set()))
        kept = sources if query_id == query.run.query_id else set()
        if source in kept:
            return False
        self._elsewhere[query.key] = (query.run.query_id, kept | {source})
        self._partitions.get(query.key, {}).pop(source, None)
        if source < len(query.sources):
            of = query.sources[source]
            of.pressing_rows_per_second, of.asked_until_time = None, 0.0
        return True

    def elsewhere(self, query: Query) -> bool:
        """Whether it reads from another cluster, too, or seems to."""
        query_id, sources = self._elsewhere.get(query.key, ("", set()))
        if sources and query_id == query.run.query_id:
            return True
        asked = self._partitions.get(query.key, {}).values()
        return any(one.doubted and one.query_id == query.run.query_id for one in asked)

    def partitions(self, query: Query, now: float) -> tuple[list[PartitionView], float | None]:
        """What may be shown of a query's present checkpoint, whichever run reads it on.

        What was planned since is off what waits. And how many seconds ago partitions were seen,
        where a source's backlog is of a later look and another figure; None where all is of one.
        Nothing of one that is further than it has told.
        """
        if query.reads_on:
            return [], None
        shown: list[PartitionView] = []
        seen: list[float] = []
        for index, said in sorted(self._partitions.get(query.key, {}).items()):
            if said.query_id != query.run.query_id or now > said.until:
                continue
            views = [_waiting(query, one, said) for one in said.views]
            shown += views
            source = query.sources[index] if index < len(query.sources) else None
            if source is None or source.backlog_time is None or source.backlog_time <= said.time:
                continue
            if sum([one.backlog_rows for one in views]) != source.backlog:
                seen.append(said.time)
        return shown, max(0.0, now - query.clock.skew_seconds - min(seen)) if seen else None

    def forget(self, key: Key) -> None:
        """A query that is not followed any more."""
        self._partitions.pop(key, None)
        self._elsewhere.pop(key, None)


def _taken(query: Query, one: PartitionView) -> int | None:
    """The next row that no batch has in hand; None where nothing was read of the partition yet."""
    if query.read is None:
        return None
    place = (one.topic, one.partition)
    read = query.read.offsets.get(one.source, {}).get(place)
    planned = query.read.planned.get(one.source, {})
    return None if read is None else max(read, planned.get(place, read))


def _waiting(query: Query, one: PartitionView, asked: _Asked) -> PartitionView:
    """What waits in it now: without what was planned since."""
    place, taken = (one.topic, one.partition), _taken(query, one)
    if taken is None or place not in asked.ends:
        return one
    rows = max(0, asked.ends[place] - max(taken, asked.begins[place]))
    return one if rows == one.backlog_rows else msgspec.structs.replace(one, backlog_rows=rows)


def _without_loss(one: PartitionView) -> PartitionView:
    return msgspec.structs.replace(
        one, lost_rows=0, retention_loss_seconds=None, pressing_rows_per_second=None
    )


def _unheard(query: Query, one: PartitionView, asked: _Asked, time: float) -> PartitionView:
    """What is known of one that no broker tells of now; a loss is nearer by the time since then.

    Once the query has read on in it, nobody knows how near one is, or what was lost.
    """
    now = _waiting(query, one, asked)
    taken, begin = _taken(query, one), asked.begins.get((one.topic, one.partition))
    if taken is not None and begin is not None and taken > begin:
        return _without_loss(now)
    if now.retention_loss_seconds is None:
        return now
    left = max(0.0, now.retention_loss_seconds - (time - asked.looked_time))
    return msgspec.structs.replace(now, retention_loss_seconds=left)
