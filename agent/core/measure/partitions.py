"""Partitions: what a broker's own offsets say of a topic that a query reads, between its batches.

The backlog is what the broker holds past what the query has read, partition by partition. How long
until retention deletes rows before they are read follows from two margins. Where the topic has a
retention time it is that time less the age of the next row, and shrinks by what the reader lacks of
real time: a second of arrivals read in two leaves half a second less. The other is the rows between
the oldest that is kept and the next to be read: what is deleted less what is read. The nearer
moment at which one is nothing is the loss.

A reader moves with its batches, and Kafka deletes whole segments: both by steps, so their rates are
those of their steps (`steps`), each by itself. One of which no two steps were seen stands, once it
has stood for longer than it does between two batches. Of a query that has less unread than
retention still keeps before it, the rows tell a loss only where what is unread grows, too. Else
what is deleted was written faster than what comes now, and that says nothing of the reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from agent.core.measure.lag_table import LagTable
from agent.core.measure.other_log import LogRead
from agent.core.measure.steps import LEAST_SECONDS, RATE_SECONDS, Steps

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from agent.core.decode.kafka_offsets import Held, Offsets

#: Farther off than this is no loss that anybody foresees.
HORIZON_SECONDS: Final = 30 * 86400.0
#: The longest that brokers let a transaction be open (``transaction.max.timeout.ms``, its default).
_TRANSACTION_SECONDS: Final = 900.0


class PartitionView(msgspec.Struct, frozen=True, gc=False):
    """One partition of a source; rows by offsets."""

    source: int
    topic: str
    partition: str
    backlog_rows: int
    lost_rows: int  # deleted before they were read
    retention_loss_seconds: float | None  # None: none foreseen
    series: bool = False  # whether it has a series of its own
    #: What must be read of it so that none is deleted unread; None where nothing tells.
    pressing_rows_per_second: float | None = None


class _Since(msgspec.Struct):
    """The first look since nothing was unread, or since rates were told."""

    time: float
    earliest: int
    unread: int
    stands_time: float  # when it was seen to read, or that
    kept_some: bool = False  # whether it has read beyond the oldest row


class _Losses(NamedTuple):
    """Seconds until the oldest unread row is deleted; None where that is not foreseen."""

    by_rows: float | None
    by_age: float | None


class _Partition(msgspec.Struct):
    """One partition as watched by one query."""

    next_row: int = 0
    unread: int = 0
    earliest: int = 0  # the oldest row that is kept
    ends: LagTable = msgspec.field(default_factory=LagTable)
    since: _Since | None = None  # None: nothing says anything of what will be
    read: Steps = msgspec.field(default_factory=Steps)  # the next row, and how many were unread
    arrived: Steps = msgspec.field(default_factory=Steps)  # when the next row had come
    deleted: Steps = msgspec.field(default_factory=Steps)  # ``earliest``
    stable: int = -1  # up to where no transaction was open at the last look
    stable_time: float = 0.0  # since when it has stood there

    def begin(self) -> None:
        """What its rates were says nothing of what they will be."""
        self.since = None
        self.read, self.arrived, self.deleted = Steps(), Steps(), Steps()

    def hangs(self, there: Held, now: float) -> bool:
        """Whether a transaction is open for longer than brokers let one be: nobody ends it."""
        if there.stable is None or there.stable >= there.latest or there.stable != self.stable:
            self.stable = -1 if there.stable is None else there.stable
            self.stable_time = now
        return now - self.stable_time > _TRANSACTION_SECONDS

    def losses(self, keep: float | None, now: float, rests_seconds: float) -> _Losses:
        """Seconds until rows are deleted unread, as of this look.

        ``keep``: so long rows are kept, None: not by age.
        """
        moved = self._look(now)
        if self.next_row < self.earliest:
            return _Losses(0.0, None) if keep is None else _Losses(None, 0.0)
        if not self.unread:
            self.begin()
            self._look(now)
            # One that waits for its transaction's end has come before.
            waits = self.ends.age_seconds(float(self.next_row), now)
            self.arrived.add(now, now - (waits or 0.0))
            return _Losses(None, None)
        stands = self._stands(now, rests_seconds)
        by_rows = self._rows_gone(now, stands=stands)
        if keep is None:
            return _Losses(by_rows, None)
        age = self.ends.age_seconds(float(self.next_row), now)
        if moved and age is not None:
            self.arrived.add(now, now - age)
        return _Losses(by_rows, self._age_gone(keep, age, now, stands=stands))

    def _look(self, now: float) -> bool:
        """Takes in where it stands; whether it has read since the look before."""
        if self.since is None:
            self.since = _Since(now, self.earliest, self.unread, now)
        if self.next_row > self.earliest:
            self.since.kept_some = True
        moved = self.read.see(now, float(self.next_row), float(self.unread))
        if moved:
            self.since.stands_time = now
        self.deleted.see(now, float(self.earliest))
        return moved

    def _stands(self, now: float, rests_seconds: float) -> bool:
        """Whether it has read nothing for longer than between two batches.

        For as long as rates are those of, and twice as long as that, what it read before says
        nothing any more.
        """
        assert self.since is not None
        seconds = now - self.since.stands_time
        stands = seconds > max(rests_seconds, LEAST_SECONDS)
        if stands and seconds > max(RATE_SECONDS, 2.0 * rests_seconds):
            self.read.forget()
            self.arrived.forget()
        return stands

    def _rows_gone(self, now: float, *, stands: bool) -> float | None:
        """Seconds until what is deleted reaches the next row; None where that is not foreseen."""
        since = self.since
        assert since is not None
        kept, unread = self.next_row - self.earliest, self.unread
        if kept <= 0:
            # One that was nothing from the start is a topic read from its oldest row.
            return 0.0 if since.kept_some else None
        reads = self.read.per_second(now)
        if reads is None and stands:
            reads = 0.0
        deletes = self.deleted.per_second(now)
        seen = now - since.time
        if deletes is None and unread >= kept and seen >= LEAST_SECONDS:
            deletes = (self.earliest - since.earliest) / seen
        if reads is None or deletes is None:
            return None
        gone = _seconds(kept, deletes - reads)
        if gone is None or unread >= kept:
            return gone
        # One that keeps up loses nothing before it has fallen back over all that is kept behind it.
        grows = self._unread_grows(now, reads)
        fallen = None if grows is None else _seconds(kept, grows)
        return None if fallen is None else max(gone, fallen)

    def _unread_grows(self, now: float, reads: float) -> float | None:
        """Rows a second, where it reads so many; by its steps, else since it is known to stand."""
        before = self.read.per_step_seconds()
        if before is not None:
            return before.beside + before.value - reads
        assert self.since is not None
        seen = now - self.since.time
        return (self.unread - self.since.unread) / seen if seen > 0.0 else None

    def _age_gone(
        self, keep: float, age: float | None, now: float, *, stands: bool
    ) -> float | None:
        """Seconds until the next row is as old as rows may be; None where that is not foreseen.

        ``age``: of that row; None: it is older than the watch, and nobody knows by how much.
        """
        left = keep - (now - self.ends.times[0] if age is None else age)
        if left <= 0.0:
            return 0.0
        # Seconds of arrivals that are read in one.
        pace = None if age is None else self.arrived.per_second(now)
        if pace is None:
            pace = 0.0 if stands else self._keeps_up(now)
        if pace is None:
            return None
        if age is None or not self.arrived.times:
            return _seconds(left, 1.0 - pace)
        stepped, arrived = self.arrived.times[-1], self.arrived.values[-1]
        gone = _seconds(keep - (stepped - arrived), 1.0 - pace)
        return None if gone is None else max(gone - (now - stepped), 0.0)

    def _keeps_up(self, now: float) -> float | None:
        """What it reads of what comes, as rows; None where that is not known."""
        reads, before = self.read.per_second(now), self.read.per_step_seconds()
        if reads is None or before is None:
            return None
        comes = before.value + before.beside
        return reads / comes if comes > 0.0 else None

    def pressing(
        self, latest: int, planned: int, keep: float | None, losses: _Losses, now: float
    ) -> float | None:
        """Rows a second that must be read so that none is deleted; None where as many are read.

        ``latest``: up to it they can be read. ``planned``: the next row that the running batch does
        not have in hand. With a retention time the most that any row asks for: those up to it,
        before its time is over. Else, or where much less is kept than by their age, all of them
        before the loss.
        """
        next_row = max(planned, self.earliest)
        waiting = latest - next_row
        if waiting <= 0:
            return None
        asked = 0.0
        if keep is not None:
            asked = self.ends.read_within(float(next_row), keep, now, LEAST_SECONDS)
        by_rows, by_age = losses
        if by_rows is not None and (by_age is None or by_rows < by_age / 2.0):
            asked = max(asked, waiting / max(by_rows, LEAST_SECONDS))
        reads = self.read.per_second(now)
        # Of rows from before the watch nobody knows by how much of their time they are read.
        known = self.next_row >= self.ends.rows[0]
        goes_on = known and losses == (None, None) and reads is not None and asked <= reads
        return None if goes_on else asked


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
        rests_seconds: float = 0.0,
        silent: Collection[tuple[str, str]] = (),
    ) -> list[PartitionView]:
        """What is held now, against what the query has read up to.

        ``position``: the next offset to read, by (topic, partition). A partition that only the
        broker knows is new, and nothing of it was read. What ``planned`` reaches beyond it is in
        the hands of the batch that runs: no backlog, but it may not be read yet.
        ``retention_seconds`` by topic, absent where rows are not deleted by their age.

        The end is where transactions are open, until the query has read or planned beyond it once:
        one that reads only what is committed never does, and rows that it cannot see wait for none.
        Behind a transaction that never ends they are lost all the same, and that is foreseen.
        ``before``: what it had read and planned when brokers were asked, where that is another
        word: meanwhile a transaction may have ended, and its rows been read. ``silent``: of these
        no broker answers. They come back as old as they were. ``rests_seconds``: for so long it
        reads nothing between two batches and goes on.
        """
        for gone in self.partitions.keys() - held.keys() - set(silent):
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
            if there.earliest < watched.earliest:
                watched.ends = LagTable()  # another log, as of a topic that was made anew
                watched.begin()
            watched.earliest = there.earliest
            # What was cut off tells no age of what comes now.
            watched.ends.cut(float(there.latest))
            watched.ends.add(now, float(there.latest))
            lost = max(0, there.earliest - next_row)
            ends = there.latest if watched.hangs(there, now) else latest
            watched.unread = max(0, ends - max(next_row, there.earliest))
            taken = next_row if planned is None else max(next_row, planned.get(place, next_row))
            backlog = max(0, latest - max(taken, there.earliest))
            keep = retention_seconds.get(topic)
            losses = watched.losses(keep, now, rests_seconds)
            loss = _sooner(losses.by_rows, losses.by_age)
            pressing = watched.pressing(latest, taken, keep, losses, now)
            views.append(
                PartitionView(
                    source, topic, name, backlog, lost, loss, pressing_rows_per_second=pressing
                )
            )
        return views


def _seconds(distance: float, per_second: float) -> float | None:
    """For a distance; None where it does not shrink, or not within what anybody foresees."""
    if per_second <= 0.0 or distance > HORIZON_SECONDS * per_second:
        return None
    return distance / per_second


def _sooner(one: float | None, other: float | None) -> float | None:
    known = [seconds for seconds in (one, other) if seconds is not None]
    return min(known, default=None)


def pressing_rows_per_second(views: list[PartitionView]) -> float | None:
    """The rate at which a source's rows are read before retention deletes one of them.

    Spark shares a limit over partitions by what is unread in each, so to read one of them faster is
    to read them all faster. None where nothing presses.
    """
    waiting = sum(view.backlog_rows for view in views)
    asked = [
        view.pressing_rows_per_second * waiting / view.backlog_rows
        for view in views
        if view.pressing_rows_per_second is not None and view.backlog_rows
    ]
    return max(asked, default=None)


def soonest_loss_seconds(views: list[PartitionView]) -> float | None:
    """The nearest loss of any partition; None where none is foreseen."""
    known = [v.retention_loss_seconds for v in views if v.retention_loss_seconds is not None]
    return min(known, default=None)
