"""Pace: the trigger interval, from when batches were started, where nobody tells it.

An event log does not hold it. Spark starts a batch at a multiple of the interval since the epoch,
once the one before has ended; a batch that took longer is followed at once. Without an interval one
that follows idle time is started when rows come, at no such place. So the starts that follow idle
time tell it. Rows that come by the clock look like an interval, and a batch for each is meant then.
"""

from __future__ import annotations

from itertools import combinations
from math import gcd
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.core.ended import Ended
    from agent.core.query import Query, Run

#: As which the trigger of a log's query counts that is judged as if it were regulated: decisions go
#: by what its batches show, and until they show something, as if one followed the other.
UNTOLD: Final = "untold"
#: Of an interval: whole ones are read. Spark wakes within milliseconds, on a busy machine within
#: 80, so what starts within one of them after a moment was started for it.
UNIT_MILLISECONDS: Final = 100
#: Two lie on the same grid by chance, as any two moments do; of three one may be late. Of so
#: many one may be off the grid, and of more as large a share.
FEWEST_STARTS: Final = 4
#: Of a run, the newest: four that came late in a row, as behind a pause of the JVM, hide nothing.
MOST_STARTS: Final = 16


def read(query: Query, ended: Ended) -> None:
    """Takes in when a batch was started; before what is kept of the one before it is replaced."""
    run, batch, since = query.run, ended.batch, query.batch.end_time
    if _is_told(run) or since is None or batch.seconds is None:
        return
    if batch.time - since < UNIT_MILLISECONDS / 1000.0:
        return  # it followed at once, as with any interval that is not over
    begun = round((batch.time - query.clock.set_seconds) * 1000.0)
    run.starts = [*run.starts[-(MOST_STARTS - 1) :], begun // UNIT_MILLISECONDS]
    if len(run.starts) >= FEWEST_STARTS:
        run.trigger_seconds = interval(run.starts) * UNIT_MILLISECONDS / 1000.0


def interval(starts: Sequence[int]) -> int:
    """The longest on whose multiples nearly all of these lie, in their own unit; 0: none is."""
    found = 1
    for candidate in {gcd(*three) for three in combinations(starts, 3)}:
        if candidate > found:
            off = sum(start % candidate != 0 for start in starts)
            found = candidate if off * FEWEST_STARTS <= len(starts) else found
    return found if found > 1 else 0


def is_known(run: Run) -> bool:
    """Whether it was told, or what it is taken for was seen."""
    return _is_told(run) or run.trigger_seconds > 0.0 or len(run.starts) >= FEWEST_STARTS


def _is_told(run: Run) -> bool:
    return run.trigger not in ("", UNTOLD)
