"""Partitions: what a broker's own offsets say of a topic that a query reads, between its batches.

The backlog is what the broker holds past what the query has read, partition by partition. How long
until retention deletes rows before they are read follows from two margins, each watched over the
last minutes: the rows between the oldest that is kept and the next to be read, and, where the topic
has a retention time, that time less the age of the next row. A margin that shrinks reaches zero at
its present rate; the nearest of these moments is the loss.

Kafka deletes whole segments: the rows' margin of a query that keeps up falls by one at once, and
grows again until the next. Of a query that has less unread than retention still keeps before it,
only the looks that found rows deleted are compared, like with like; and it loses rows only where
what is unread grows, too. Else what is deleted was written faster than what comes now, and that
says nothing of the reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.measure.lag_table import LagTable
from agent.core.measure.other_log import LogRead

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agent.core.decode.kafka_offsets import Held, Offsets

#: Rates are those of so many seconds, once a margin was seen for this long.
RATE_SECONDS: Final = 600.0
LEAST_SECONDS: Final = 20.0
MOST_POINTS: Final = 40
#: Farther off than this is no loss that anybody foresees.
HORIZON_SECONDS: Final = 30 * 86400.0


class PartitionView(msgspec.Struct, frozen=True, gc=False):
    """One partition of a source; rows by offsets."""

    source: int
    topic: str
    partition: str
    backlog_rows: int
    lost_rows: int  # deleted before they were read
    retention_loss_seconds: float | None  # None: none foreseen
    series: bool = False  # whether it has a series of its own


class Margin(msgspec.Struct):
    """A distance that shrinks or grows, and when it would be nothing."""

    times: list[float] = []
    values: list[float] = []

    def add(self, time: float, value: float) -> None:
        """Seen at ``time``; what is older than the rate's window goes."""
        self.times.append(time)
        self.values.append(value)
        while len(self.times) > 2 and time - self.times[1] >= RATE_SECONDS:
            del self.times[0], self.values[0]
        if len(self.times) > MOST_POINTS:
            del self.times[1:-1:2], self.values[1:-1:2]

    def gone_in_seconds(self) -> float | None:
        """Seconds until it is nothing at its present rate; None where it does not shrink."""
        return self.gone_from(self.times[-1], self.values[-1]) if self.values else None

    def gone_from(self, time: float, value: float) -> float | None:
        """The same as of a look that is none of its points."""
        if not self.values:
            return None
        return 0.0 if value <= 0.0 else self._covers(value, time, self.values[0] - value)

    def grows_by(self, distance: float, time: float, value: float) -> float | None:
        """Seconds until it is so much more than it is now; None where it does not grow."""
        return self._covers(distance, time, value - self.values[0]) if self.values else None

    def _covers(self, distance: float, time: float, moved: float) -> float | None:
        """Seconds for a distance, where it ``moved`` so far from its first point to ``time``."""
        span = time - self.times[0]
        if span < LEAST_SECONDS or moved <= 0.0:
            return None
        seconds = distance * span / moved
        return seconds if seconds <= HORIZON_SECONDS else None


class _Partition(msgspec.Struct):
    """One partition as watched by one query."""

    next_row: int = 0
    ends: LagTable = msgspec.field(default_factory=LagTable)
    rows: Margin = msgspec.field(default_factory=Margin)
    left: Margin = msgspec.field(default_factory=Margin)  # of rows, right after some were deleted
    unread: Margin = msgspec.field(default_factory=Margin)  # rows, at the same looks
    earliest: int | None = None
    seconds: Margin = msgspec.field(default_factory=Margin)

    def begin(self) -> None:
        """What its margins were says nothing of what they will be."""
        self.rows, self.left, self.unread, self.seconds = Margin(), Margin(), Margin(), Margin()


class Watched(msgspec.Struct):
    """The partitions of one source of one checkpoint."""

    partitions: dict[tuple[str, str], _Partition] = {}
    log: LogRead = msgspec.field(default_factory=LogRead)
    reads_open: bool = False  # it reads rows of open transactions, as Spark does by default

    def observe(
        self,
        source: int,
        position: Offsets,
        held: Mapping[tuple[str, str], Held],
        retention_seconds: Mapping[str, float],
        now: float,
        *,
        planned: Offsets | None = None,
        before: Iterable[Offsets] | None = None,
    ) -> list[PartitionView]:
        """What is held now, against what the query has read up to.

        ``position``: the next offset to read, by (topic, partition). A partition that only the
        broker knows is new, and nothing of it was read. What ``planned`` reaches beyond it is in
        the hands of the batch that runs: no backlog, but it may not be read yet.
        ``retention_seconds`` by topic, absent where rows are not deleted by their age.

        The end is where transactions are open, until the query has read or planned beyond it once:
        one that reads only what is committed never does, and rows that it cannot see wait for none.
        ``before``: what it had read and planned when brokers were asked, where that is another
        word: meanwhile a transaction may have ended, and its rows been read.
        """
        for gone in self.partitions.keys() - held.keys():
            del self.partitions[gone]
        views: list[PartitionView] = []
        seen = [position, planned or {}] if before is None else list(before)
        self.reads_open = self.reads_open or any(
            there.stable is not None and offsets.get(place, 0) > there.stable
            for place, there in held.items()
            for offsets in seen
        )
        for place, there in sorted(held.items()):
            topic, name = place
            next_row = position.get(place, there.earliest)
            watched = self.partitions.setdefault(place, _Partition())
            if next_row < watched.next_row:  # read again: a step back is no rate
                watched.begin()
            watched.next_row = next_row
            latest = there.latest
            if there.stable is not None and not self.reads_open:
                latest = there.stable
            if watched.earliest is not None and there.earliest < watched.earliest:
                watched.ends = LagTable()  # another log, as of a topic that was made anew
                watched.begin()
            watched.ends.cut(float(latest))  # what was cut off tells no age of what comes now
            watched.ends.add(now, float(latest))
            deleted = watched.earliest is not None and there.earliest > watched.earliest
            watched.earliest = there.earliest
            lost = max(0, there.earliest - next_row)
            unread = max(0, latest - max(next_row, there.earliest))
            taken = next_row if planned is None else max(next_row, planned.get(place, next_row))
            backlog = max(0, latest - max(taken, there.earliest))
            loss: float | None = None
            if lost:
                loss = 0.0
            elif unread:
                kept = next_row - there.earliest
                watched.rows.add(now, float(kept))
                if deleted:
                    watched.left.add(now, float(kept))
                    watched.unread.add(now, float(unread))
                if unread < kept:
                    loss = _overtaken(watched, kept, unread, now)
                else:
                    loss = _rows_gone(watched.rows)
                keep = retention_seconds.get(topic)
                age = watched.ends.age_seconds(float(next_row), now)
                if age is None:
                    age = now - watched.ends.times[0]  # older than the watch itself: at least that
                if keep is not None:
                    watched.seconds.add(now, keep - age)
                    loss = _sooner(loss, watched.seconds.gone_in_seconds())
            else:
                watched.begin()
            views.append(PartitionView(source, topic, name, backlog, lost, loss))
        return views


def _rows_gone(margin: Margin) -> float | None:
    """As of any margin; one that was nothing from the start is a topic read from its oldest row."""
    if len(margin.values) < 2 or max(margin.values) <= 0.0:
        return None
    return margin.gone_in_seconds()


def _overtaken(watched: _Partition, kept: int, unread: int, now: float) -> float | None:
    """Of a reader that keeps up: not before it has fallen back over all that is kept behind it."""
    shrunk = watched.left.gone_from(now, kept)
    fallen = watched.unread.grows_by(kept, now, unread)
    return None if shrunk is None or fallen is None else max(shrunk, fallen)


def _sooner(one: float | None, other: float | None) -> float | None:
    known = [seconds for seconds in (one, other) if seconds is not None]
    return min(known, default=None)


def pressing_rows_per_second(views: list[PartitionView]) -> float | None:
    """The rate at which a source's unread rows are read before retention deletes one of them.

    Spark shares a limit over partitions by what is unread in each, so to read one of them is to
    read them all. None where no loss is foreseen; nearer than can be seen coming is as near as it
    gets.
    """
    soonest = soonest_loss_seconds([view for view in views if view.backlog_rows])
    if soonest is None:
        return None
    return sum(view.backlog_rows for view in views) / max(soonest, LEAST_SECONDS)


def soonest_loss_seconds(views: list[PartitionView]) -> float | None:
    """The nearest loss of any partition; None where none is foreseen."""
    known = [v.retention_loss_seconds for v in views if v.retention_loss_seconds is not None]
    return min(known, default=None)
