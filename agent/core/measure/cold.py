"""Cold: how much longer the first batch of a driver takes than the same rows once it is warm.

A driver that just started has compiled nothing, its caches are empty, and its executors may be on
their way. Where it was stopped in a batch, that batch comes again first, with the rows that an
earlier run planned: no limit makes it smaller. What a warm driver ends in time a cold one may not;
it is killed, and the next driver is as cold. So there must be room for that when it is planned.

Each run's first batch that read rows is held against what is believed of batches of its size: with
the batches after it, which say so where not the start was slow but the query is slower now. What is
left are the seconds of a start. They do not grow with the batch, as classes are loaded, executors
come and most code is compiled in the first seconds of work: on Spark 4.2, with a warm batch of 1.0,
2.7, 5.5 and 13.2 s, they were 20.0, 20.4, 17.3 and 21.5 (``tests/benchmarks/cold_starts.py``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.measure.cost import EDGE, NOISE_SIGMAS

if TYPE_CHECKING:
    from agent.core.measure.cost import Cost

#: Batches behind the belief before a first batch is held against it: of fewer the fixed cost is
#: still a guess, and those of a new driver are half cold themselves.
SURE_BATCHES: Final = 8
#: Batches of its run after which that is settled: by then a slower query is believed, and Java is
#: warm, which takes it a minute and a half. What changes later says nothing of the start.
SETTLED_BATCHES: Final = 32
#: The most of late counts, as one lucky start says nothing of the next. It fades by this with each
#: driver that shows less, or nothing: after three it is half, as where executors come at once now.
FADE: Final = 0.8


class Cold(msgspec.Struct):
    """What first batches showed; plain numbers, so that it can be saved."""

    start_seconds: float = 0.0  # that a first batch takes beside: the most of late
    run_id: str = ""  # whose first batch was seen last
    application_id: str = ""  # and in which; another one is a driver that is cold
    anew: bool = False  # whether that run was the first in its application
    rows: float = 0.0  # of that batch, while it is not settled; 0: none
    seconds: float = 0.0
    batches: int = 0  # of its run that read rows, with it

    def observe(
        self, run_id: str, application_id: str, rows: float, seconds: float, cost: Cost
    ) -> None:
        """Takes in a batch that read rows, with its run and that one's application.

        ``cost`` has learned from it, where it is one to learn from.
        """
        if run_id != self.run_id:
            self.settle(cost)  # of a run that ended early
            self.anew = application_id != self.application_id
            self.run_id, self.application_id = run_id, application_id
            self.rows, self.seconds, self.batches = rows, seconds, 0
        self.batches += 1
        if self.batches == SETTLED_BATCHES:
            self.settle(cost)

    def settle(self, cost: Cost) -> None:
        """Holds the first batch against what is believed now, for good."""
        if self.rows:
            # A query that starts again in a driver that is warm says nothing of cold ones.
            before = FADE * self.start_seconds if self.anew else self.start_seconds
            self.start_seconds = max(self._told(cost) or 0.0, before)
        self.rows = self.seconds = 0.0

    def expected(self, cost: Cost) -> float:
        """The seconds that the next driver's first batch may well take beside."""
        return max(self.start_seconds, self._told(cost) or 0.0)

    def _told(self, cost: Cost) -> float | None:
        """What the first batch shows; None where there is none, or nothing to hold it against."""
        # What came while no driver ran may be far more, and of that nothing is known.
        seen = 0.0 < self.rows <= EDGE * cost.largest_rows
        if cost.batches < SURE_BATCHES or not seen:
            return None
        warm = cost.seconds(self.rows) or 0.0
        if self.seconds <= warm * math.exp(NOISE_SIGMAS * cost.cautious_sigma):
            return 0.0
        return self.seconds - warm
