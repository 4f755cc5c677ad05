"""Commits: how far apart in event time rows lie that came at once.

Files and tables are read commit by commit, in the order in which these came. Within one commit
files stand as its tasks wrote them, which is no order of time, and so do those of a table that a
query begins to read as a whole: Spark's ``FileStreamSource`` sorts by time of modification and then
by path, Delta's by their place in the commit, and its first snapshot by times of modification,
which a compaction sets anew; Iceberg's by manifest. Where a batch ends within a commit the
watermark moves on with what was read, and what lies further back than the delay is dropped, though
it came with it.

How far a commit's rows lie apart is seen where it is read as it comes: of batches before which all
was read, all rows came since that was planned. What is newer than the newest row before, by more
than so long, came at once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from spark_listener.sources import known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.core.measure.source import Source


class Stretch(msgspec.Struct):
    """Batches from one before which all was read to the next that reads all again."""

    before: float  # the greatest event time of rows before it
    since_time: float  # when all was read, last before it; by the driver's clock
    least: float = math.inf
    greatest: float = -math.inf
    files: float = 0  # inf: not counted


class Commits(msgspec.Struct):
    """What is known of those that a query reads. Times are epoch seconds of the data's clock."""

    #: When the last batch was planned, by the driver's clock, if it took all there was.
    took_all_time: float | None = None
    stretch: Stretch | None = None  # None: nobody saw how it began
    snapshot: bool = False  # more of a table as it was found waits to be read
    #: Of files that were listed for a smaller batch some may be left: the next one reads on in that
    #: list, in which what came since is missing (``FileStreamSource.fetchMaxOffset``).
    listed: bool = False
    apart_seconds: float | None = None  # more than is harmless; None: not seen, or long ago
    #: Until the query has read up to here with nothing far apart, the next may be as the last.
    until_time: float = 0.0

    def look(
        self,
        sources: Sequence[Source],
        times: tuple[float, float] | None,
        greatest_before: float | None,
        *,
        planned_time: float,
        rested_time: float,
        harmless_seconds: float | None,
    ) -> None:
        """Takes in a batch that follows the last one; ``sources`` are read commit by commit.

        ``times``: the least and the greatest event time of its rows, where it had some.
        ``planned_time``: of the batch; ``rested_time``: of the last trigger that found nothing.
        ``harmless_seconds``: so far apart rows may come at once; None: nobody knows.
        """
        if self.took_all_time is not None and greatest_before is not None:
            since_time = min(max(self.took_all_time, rested_time), planned_time)
            self.stretch = Stretch(greatest_before, since_time)
        took_all = all(_took_all(one, planned_time, listed=self.listed) for one in sources)
        self.took_all_time = planned_time if took_all else None
        stretch = self.stretch
        if stretch is None or times is None:
            return
        stretch.least = min(stretch.least, times[0])
        stretch.greatest = max(stretch.greatest, times[1])
        stretch.files += sum(map(_files, sources))
        if harmless_seconds is not None:
            self._judge(stretch, planned_time - stretch.since_time + harmless_seconds)

    def _judge(self, stretch: Stretch, harmless_seconds: float) -> None:
        apart = stretch.greatest - max(stretch.before, stretch.least)
        took_all = self.took_all_time is not None
        if took_all and stretch.files <= 1:
            apart = 0.0  # no batch ends within a file
        if apart > harmless_seconds:
            self.apart_seconds = max(apart, self.apart_seconds or 0.0)
            self.until_time = stretch.greatest + self.apart_seconds
        elif took_all and stretch.greatest >= self.until_time:
            # Where one as far apart would not have been seen, that none was says nothing.
            seen = harmless_seconds < (self.apart_seconds or 0.0)
            self.apart_seconds = None if seen else self.apart_seconds

    def lose_sight(self) -> None:
        """Between the last batch and the next one nobody looked, or heard."""
        self.took_all_time = self.stretch = None


def _files(source: Source) -> float:
    counted = source.unit == "files" and source.admitted is not None
    return source.admitted or 0 if counted else math.inf


def of_files(source: Source) -> bool:
    """Whether it is Spark's own source of files, which keeps a list of those that wait."""
    return known(source.source_class).files


def leaves_listed(source: Source) -> bool:
    """Whether the last batch may have left some of the files that were listed for it."""
    all_of_them = source.unit == "files" and _below(source)
    return of_files(source) and source.batch_limit is not None and not all_of_them


def reads_list_out(source: Source) -> bool:
    """Whether the last batch would have ended later, had its files been listed anew."""
    return of_files(source) and (source.batch_limit is None or _below(source))


def _below(source: Source) -> bool:
    limit, admitted = source.batch_limit, source.admitted
    return limit is not None and admitted is not None and admitted < limit


def _took_all(source: Source, planned_time: float, *, listed: bool) -> bool:
    """Whether it is known that the last batch left nothing; a batch may end by a second limit."""
    seen = source.backlog == 0
    exact = seen and source.backlog_bound == "exact"
    if listed and of_files(source):
        return exact and (source.backlog_time or -math.inf) >= planned_time
    return source.batch_limit is None or exact or (seen and _below(source))
