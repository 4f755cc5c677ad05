"""Whether a source keeps to limits that change, of sources that nobody has tried. Pure.

What Spark tells of such a source is how many rows were read, counted once for each time that a
batch reads its source: a job that reads each batch twice reads two rows for each that it was given.
That multiple is learned from batches that took all they were given, and only then can a batch be
too large for a lower limit. One too large for the limit that it was learned at shows that the
source means something else by it, such as rows of a partition, and so may one that is larger than
what it was learned from: both are learned anew. So a source that is given more in the very batch
that its limit falls before is only found when that falls again. Limits in files or bytes are not
judged: how many rows those hold is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

#: Rows over those that the limit allows from which a batch took clearly more: halfway to the next
#: whole multiple of one, so that tasks that ran again don't count.
CLEARLY: Final = 1.5
#: Batches in a row that took clearly more, until it is said: one may be a limit that came too late.
BATCHES: Final = 2
#: Rows. From a limit of so many on, a batch of exactly as many rows, or of a multiple, has filled
#: it: by chance one batch in so many would.
TELLING: Final = 100


class Obedience:
    """Of one source of one run. ``obeyed``: None until batches have shown it."""

    def __init__(self) -> None:
        self.obeyed: bool | None = None
        self._times_read: float | None = None  # rows counted for one that was given
        self._learned_at: int | None = None  # the limit of the batch that showed it
        self._learned_from = 0  # its rows
        self._over = 0

    def batch(self, rows: int, limits: Collection[int | None], backlog: int | None) -> bool:
        """Takes in a batch that was read; true where by it the source is seen not to obey.

        ``limits``: all that were in force while it ran, as which one it was planned by is not
        told. ``backlog``: rows left at the source, None where that is not told.
        """
        known = [limit for limit in limits if limit is not None]
        if rows < 1 or not known or len(known) < len(limits):
            return False
        largest = max(known)
        if self._times_read is not None and rows > CLEARLY * self._times_read * largest:
            if any(rows % limit == 0 for limit in known):
                return False  # it kept to it, and was read more often
            if largest >= (self._learned_at or 0) or rows > CLEARLY * self._learned_from:
                if len(known) == 1:  # else it may be of the one before, or of the one after
                    self._times_read = self._learned_at = None
                    self._over = 0
                return False
            self._over += 1
            if self._over < BATCHES:
                return False
            self.obeyed = False
            return True
        self._over = 0
        filled = rows % largest == 0 and largest >= TELLING
        if len(known) == 1 and (filled or backlog):
            self._filled(rows, largest)
        return False

    def _filled(self, rows: int, limit: int) -> None:
        if self._learned_at is not None:
            moved = rows / self._learned_from, limit / self._learned_at
            if min(moved) > CLEARLY or max(moved) < 1 / CLEARLY:
                self.obeyed = True  # the rows followed the limit
        times = max(1.0, rows / limit)
        if self._times_read is None or times < self._times_read:
            self._times_read, self._learned_at, self._learned_from = times, limit, rows
