"""Lanes: how far apart in time the partitions of a source are read.

Spark shares a limit over Kafka's partitions by how many rows wait in each
(``KafkaMicroBatchStream.rateLimit``), and not by when they came. Where they came unevenly, a batch
that a limit cuts short reads one partition up to now and leaves another hours behind; the query's
one watermark follows the first, and drops of the second what lies behind it. So each partition's
place is followed: when the row came that is read next, by the offsets seen at each planning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.arrays import Numbers, numbers

if TYPE_CHECKING:
    from agent.core.decode.kafka_offsets import Offsets

#: Looks kept, the older ones ever further apart: of what waits since long its time is told
#: coarsely. With half as many a backlog of a dozen batches is told to be up to three batches off.
MOST_LOOKS: Final = 12


class Lanes(msgspec.Struct):
    """The partitions of one source, as one run has seen them. Times are epoch seconds."""

    places: list[tuple[str, str]] = []  # (topic, partition)
    times: Numbers = msgspec.field(default_factory=numbers)
    ends: list[Numbers] = []  # of each look: the offset after the newest row, by place
    oldest_time: float | None = None  # when the oldest row that waits came, at the earliest
    spread_seconds: float | None = None  # from that to the lane that is read furthest
    before_time: float | None = None  # what waited when the run began came no earlier

    @property
    def several(self) -> bool:
        """Whether there is more than one: a lane alone is read in the order in which rows came."""
        return len(self.places) > 1

    @property
    def since_time(self) -> float | None:
        """What waits came no earlier, as far as this run has looked or the one before had."""
        return self.oldest_time if self.times else self.before_time

    def begin_run(self) -> None:
        """When rows came meanwhile nobody saw."""
        self.before_time = self.since_time
        self.times, self.ends = numbers(), []
        self.spread_seconds = None

    def look(self, read: Offsets, latest: Offsets, time: float) -> None:
        """A batch was planned at ``time``: up to where it reads, of what was there."""
        places = sorted(read.keys() & latest.keys())
        if places != self.places:
            # Of a new partition nobody saw when its rows came.
            self.places, self.times, self.ends = places, numbers(), []
        if self.times and time <= self.times[-1]:
            return
        self.times.append(time)
        there = numbers()
        there.extend(float(latest[place]) for place in places)
        self.ends.append(there)
        if len(self.times) > MOST_LOOKS:
            half = MOST_LOOKS // 2
            del self.times[1:half:2], self.ends[1:half:2]
        if not places:
            self.oldest_time = self.spread_seconds = None
            return
        came = [self._came(number, read[place]) for number, place in enumerate(places)]
        known = [one for one in came if one is not None]
        if len(known) < len(came):
            self.oldest_time = self.before_time
        else:
            self.oldest_time = min(known)
        newest = max(known, default=time)
        self.spread_seconds = None if self.oldest_time is None else newest - self.oldest_time

    def _came(self, number: int, offset: int) -> float | None:
        """When the row at that offset came; now where none waits, None before the first look.

        Interpolated between two looks: partitions that are alike are told to be alike.
        """
        index = len(self.times) - 1
        if self.ends[index][number] <= offset:
            return self.times[index]
        while index >= 0 and self.ends[index][number] > offset:
            index -= 1
        if index < 0:
            return None
        before, after = self.ends[index][number], self.ends[index + 1][number]
        part = (offset - before) / (after - before)
        return self.times[index] + part * (self.times[index + 1] - self.times[index])
