"""Backlog in time: how long what waits has been known to wait.

The lookup table of kafka-lag-exporter (offsets and when they were seen), without its interpolation.
Keeps (time, rows arrived until then) and reads it backwards: the oldest row that is not admitted
was first seen at some past moment, and so long it has waited at least. When it came within the time
before that look is not known, and is not made up: after hours of silence a burst is not hours
old. Of many looks those are kept that lie apart by a like share of their age.
"""

from __future__ import annotations

from typing import Final

import msgspec

from agent.core.arrays import Numbers, numbers

MOST_POINTS: Final = 52
#: So many go at once: to look for them costs as much as for one, and with thousands of partitions
#: that is done for each with every look.
THINNED: Final = 4
#: Counts of rows closer than this are the same: rows are whole, their sums of doubles are not.
HALF_A_ROW: Final = 0.5


class LagTable(msgspec.Struct):
    """Points in order of time; rows never decrease. Thinned to a constant size."""

    times: Numbers = msgspec.field(default_factory=numbers)
    rows: Numbers = msgspec.field(default_factory=numbers)

    def add(self, time: float, arrived_rows: float) -> None:
        """Rows arrived in all until this time. Out of order or decreasing: left out."""
        if self.times and (time <= self.times[-1] or arrived_rows < self.rows[-1]):
            return
        if len(self.rows) > 1 and self.rows[-2] == self.rows[-1] == arrived_rows:
            self.times[-1] = time  # nothing arrives: one flat piece is enough
            return
        self.times.append(time)
        self.rows.append(arrived_rows)
        if len(self.times) > MOST_POINTS:
            # Those go without which the gap is least for its age, of neighbours one: old lags need
            # less resolution, and points a quarter of their age apart reach back for months.
            times = self.times
            gaps = [
                (after - before) / (time - at)
                for before, at, after in zip(times, times[1:], times[2:], strict=False)
            ]
            gone: set[int] = set()
            for place in sorted(range(1, len(gaps) + 1), key=lambda place: gaps[place - 1]):
                if place - 1 not in gone and place + 1 not in gone:
                    gone.add(place)
                if len(gone) == THINNED:
                    break
            for place in sorted(gone, reverse=True):
                del self.times[place], self.rows[place]

    def cut(self, rows: float) -> None:
        """Those beyond so many are gone, and others may come in their place."""
        while self.rows and self.rows[-1] > rows:
            del self.times[-1], self.rows[-1]

    def lately_rows(self, seconds: float) -> float:
        """Rows that arrived in so long a time before the newest point, as far back as it knows."""
        if not self.times:
            return 0.0
        since = self.times[-1] - seconds
        index = len(self.times) - 1
        while index > 0 and self.times[index - 1] >= since:
            index -= 1
        rows = self.rows[index]
        if index > 0:
            span = self.times[index] - self.times[index - 1]
            part = (self.times[index] - since) / span
            rows -= part * (rows - self.rows[index - 1])
        return self.rows[-1] - rows

    def unread_seconds(self, admitted_rows: float, now: float) -> float | None:
        """Seconds since the oldest row beyond the admitted ones was first seen.

        It is older than that by less than the time between two looks, or by up to half of it where
        few of many looks are kept. 0 where nothing is left, None where nobody ever looked.
        """
        if not self.times:
            return None
        admitted_rows += HALF_A_ROW
        if admitted_rows >= self.rows[-1]:
            return 0.0
        index = len(self.rows) - 1
        while index > 0 and self.rows[index - 1] > admitted_rows:
            index -= 1
        return max(0.0, now - self.times[index])

    def read_within(
        self, admitted_rows: float, keep_seconds: float, now: float, least_seconds: float
    ) -> float:
        """Rows a second by which each row beyond the admitted ones is read while it is kept.

        The most that any of them asks for: all up to it, until it is ``keep_seconds`` old. Each
        came as early as it may have, between two looks, and after the last admitted one. They are
        to be read ``least_seconds`` before, as a batch or two go by until a limit acts, and in less
        nobody can.
        """
        most, oldest = 0.0, self.age_seconds(admitted_rows, now)
        for index in range(len(self.rows) - 1, -1, -1):
            if self.rows[index] <= admitted_rows:
                break
            age = now - self.times[max(index - 1, 0)]
            left = keep_seconds - least_seconds - (age if oldest is None else min(age, oldest))
            most = max(most, (self.rows[index] - admitted_rows) / max(left, least_seconds))
        return most

    def age_seconds(self, admitted_rows: float, now: float) -> float | None:
        """Seconds since the last admitted row arrived, 0 where nothing is left.

        Interpolated between two looks, so at most as exact as arrivals are even. None before the
        first point: unknown.
        """
        if not self.times or admitted_rows >= self.rows[-1]:
            return 0.0 if self.times else None
        if admitted_rows < self.rows[0]:
            return None
        # The last moment at which no more than the admitted rows had arrived.
        index = len(self.rows) - 1
        while self.rows[index] > admitted_rows:
            index -= 1
        span_rows = self.rows[index + 1] - self.rows[index]
        span_seconds = self.times[index + 1] - self.times[index]
        part = (admitted_rows - self.rows[index]) / span_rows
        return max(0.0, now - self.times[index] - part * span_seconds)
