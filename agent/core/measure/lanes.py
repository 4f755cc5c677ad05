"""Lanes: how far apart in time the partitions of a source are read.

Spark shares a limit over Kafka's partitions by how many rows wait in each
(``KafkaMicroBatchStream.rateLimit``), and not by when they came. Where they came unevenly, a batch
that a limit cuts short reads one partition up to now and leaves another hours behind; the query's
one watermark follows the first, and drops of the second what lies behind it. So each partition's
place is followed: when the row came that is read next, by the offsets seen at each planning.
"""

from __future__ import annotations

import operator
from array import array
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.arrays import Numbers, numbers

if TYPE_CHECKING:
    from agent.core.decode.kafka_offsets import Offsets

#: Looks kept, none from before what waits. Those go first that leave no gap in which rows do not
#: count as even, then the further apart the older they are: of what has waited long its time is
#: told coarsely. With half as many, rows that came evenly are told to be apart by half of the delay
#: once they wait for eight delays.
MOST_LOOKS: Final = 48
#: Into so many parts what waits is cut, as a limit does that takes the same share of each of its
#: partitions: half as many pass over a burst in one of them that takes an eighth of it.
SHARES: Final = 8


class Lanes(msgspec.Struct):
    """The partitions of one source, as one run has seen them. Times are epoch seconds."""

    places: list[tuple[str, str]] = []  # (topic, partition)
    times: Numbers = msgspec.field(default_factory=numbers)
    ends: list[Numbers] = []  # of each look: the offset after the newest row, by place
    oldest_time: float | None = None  # when the oldest row that waits came, at the earliest
    spread_seconds: float | None = None  # from that to the lane that is read furthest, at most
    before_time: float | None = None  # what waited when the run began came no earlier
    read_rows: float = 0.0  # the offsets up to which all are read, summed

    @property
    def several(self) -> bool:
        """Whether there is more than one: a lane alone is read in the order in which rows came."""
        return len(self.places) > 1

    @property
    def waits(self) -> bool:
        """Whether anything is left to be read, as of the last look."""
        return bool(self.ends) and sum(self.ends[-1]) > self.read_rows

    @property
    def since_time(self) -> float | None:
        """What waits came no earlier, as far as this run has looked or the one before had."""
        return self.oldest_time if self.times else self.before_time

    @property
    def looked_time(self) -> float | None:
        """When what is there was last seen in this run."""
        return self.times[-1] if self.times else None

    def begin_run(self) -> None:
        """When rows came meanwhile nobody saw."""
        self.before_time = self.since_time
        self.times, self.ends = numbers(), []
        self.spread_seconds = None

    def rewind(self) -> None:
        """It is read anew from an earlier place: of what waits nobody knows when it came."""
        self.times, self.ends = numbers(), []
        self.oldest_time = self.spread_seconds = self.before_time = None

    def rest(self, time: float) -> None:
        """A trigger found that nothing waits: whatever comes comes later."""
        if not self.times:
            self.before_time = time
        elif self.oldest_time == self.times[-1] < time:
            self.times[-1] = self.oldest_time = time

    def look(self, read: Offsets, latest: Offsets, time: float, *, even_seconds: float) -> None:
        """Up to where a batch reads, of what was there at ``time``, when it was planned.

        Where that is a look known already, only what is read is new.

        Between two looks no further apart than ``even_seconds`` rows are taken to have come evenly.
        Between others nobody knows: a row came at the first of them or at the second.
        """
        offsets, there = _of(self.places, read), _of(self.places, latest)
        if not offsets or not there:
            places = sorted(read.keys() & latest.keys())
            if places != self.places:
                # Of a new partition nobody saw when its rows came.
                self.places, self.times, self.ends = places, numbers(), []
            offsets, there = [read[place] for place in places], [latest[place] for place in places]
        if not offsets or (self.times and time < self.times[-1]):
            return
        if not self.times or time > self.times[-1]:
            if self.ends and not all(map(operator.le, self.ends[-1], there)):
                # A topic that lost its newest rows: those that took their places came later.
                self.ends = [array("d", map(min, ends, there)) for ends in self.ends]
            self.times.append(time)
            self.ends.append(array("d", there))
        self.read_rows = float(sum(offsets))
        reached = [float(offset) for offset in offsets]
        while len(self.times) > 1 and all(map(operator.le, self.ends[1], reached)):
            del self.times[0], self.ends[0]
        self._thin(even_seconds)
        oldest = self.oldest_time = self._oldest(reached, even_seconds)
        self.spread_seconds = None
        if oldest is None:
            return
        self.spread_seconds = self._newest(reached, even_seconds) - oldest
        if time - oldest <= even_seconds:
            return  # whatever is read of what waits, it is no further apart than that
        # A limit takes the same share of what waits in each, and that may have come far apart where
        # what is read now has not: a burst in one of them.
        waiting = [
            max(end - offset, 0.0) / SHARES
            for end, offset in zip(self.ends[-1], reached, strict=True)
        ]
        for part in range(1, SHARES):
            if self.spread_seconds >= time - oldest:
                return  # what waits behind more came no earlier, and none later than now
            then = [
                offset + round(rows * part) for rows, offset in zip(waiting, reached, strict=True)
            ]
            oldest = self._oldest(then, even_seconds) or oldest
            spread = self._newest(then, even_seconds) - oldest
            self.spread_seconds = max(self.spread_seconds, spread)

    def _oldest(self, offsets: list[float], even_seconds: float) -> float | None:
        """When the oldest row came that waits behind these offsets, at the earliest.

        None: before this run looked, and nobody knows when. Now where none waits.
        """
        at = lanes = list(range(len(offsets)))
        while lanes:  # of those that are behind one of them the same again
            index = self._look(lanes, offsets)
            if index < 0:
                # A rest may be told late, after the first look.
                before = self.before_time
                return None if before is None else min(before, self.times[0])
            at, seen = lanes, self.ends[index]
            lanes = [lane for lane in at if seen[lane] > offsets[lane]]
        if index == len(self.times) - 1:
            return self.times[-1]
        earlier, later = self.times[index : index + 2]
        if later - earlier > even_seconds:
            return earlier
        return earlier + min(self._shares(at, offsets, index)) * (later - earlier)

    def _newest(self, offsets: list[float], even_seconds: float) -> float:
        """When that row came that is read next where it came last, at the latest."""
        at = lanes = list(range(len(offsets)))
        while lanes:  # of those that are ahead
            index = self._look(lanes, offsets)
            if index == len(self.times) - 1:
                return self.times[-1]
            at, seen = lanes, self.ends[index + 1]
            lanes = [lane for lane in at if seen[lane] <= offsets[lane]]
        if index < 0:
            return self.times[0]
        earlier, later = self.times[index : index + 2]
        if later - earlier > even_seconds:
            return later
        return earlier + max(self._shares(at, offsets, index)) * (later - earlier)

    def _look(self, lanes: list[int], offsets: list[float]) -> int:
        """The newest look that one of the lanes has been read up to; -1: none."""
        lane = lanes[len(lanes) // 2]
        index = len(self.ends) - 1
        while index >= 0 and self.ends[index][lane] > offsets[lane]:
            index -= 1
        return index

    def _shares(self, lanes: list[int], offsets: list[float], index: int) -> list[float]:
        """Of those read up to that look, how much of what came until the next."""
        before, after = self.ends[index : index + 2]
        return [
            (offsets[lane] - before[lane]) / (after[lane] - before[lane])
            for lane in lanes
            if before[lane] <= offsets[lane] < after[lane]
        ]

    def _thin(self, even_seconds: float) -> None:
        """Of too many looks the one goes that leaves the smallest gap for its age."""
        times = self.times
        if len(times) <= MOST_LOOKS:
            return
        inner = range(1, len(times) - 1)
        gaps = [times[i + 1] - times[i - 1] for i in inner]
        if min(gaps) > even_seconds:
            gaps = [gap / (times[-1] - times[i - 1]) for gap, i in zip(gaps, inner, strict=True)]
        least = inner[gaps.index(min(gaps))]
        del self.times[least], self.ends[least]


def _of(places: list[tuple[str, str]], offsets: Offsets) -> list[int] | None:
    """Those of the places; None where the places are others."""
    try:
        found = list(map(offsets.__getitem__, places))
    except KeyError:
        return None
    return found if len(found) == len(offsets) else None
