"""Reach: whether the fixed cost alone takes the target, and the batches that tell.

Batches of one size cannot tell a fixed cost from the cost of rows: all of their time may be either.
What cannot be told by the batches that come is told by one of another size (dual control: Feldbaum
1960): rarely, and most often while both stories are credible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.decide.size import LEAST_SHARE

if TYPE_CHECKING:
    from agent.core.measure.cost import Cost
    from agent.core.policy import QueryPolicy

#: Where c0 takes this share of the target, no batch near the target holds rows worth the name: it
#: is out of reach.
REACH_SHARE: Final = 0.95
#: The chance of that at which the target is given up, and of the contrary at which nothing is in
#: doubt; and the one at which it is surely lost.
LOST_CHANCE: Final = 0.9
SURE_CHANCE: Final = 0.95
#: While the chance lies between, one batch in so many is of another size: so many times as large,
#: or, where the target is lost, as small as is worth having.
PROBE_BATCHES: Final = 4
PROBE_STEP: Final = 1.25
#: Batches to the first small one where the target is surely lost: a belief that only batches of
#: another size can disprove would else last for ever. Under a trigger interval it costs a whole
#: batch, as no other begins sooner. So each that changes nothing doubles the batches to the next,
#: up to so many: one in 512 costs a five-hundredth of the rows, and more would not be missed.
LOST_BATCHES: Final = 32
MOST_LOST_BATCHES: Final = 512


class Reach(msgspec.Struct):
    """Whether the target is given up, as far as the batches tell."""

    lost: bool = False
    chance: float = 0.0
    batches: int = 0
    sure_batches: int = 0  # since it is surely lost, or since the last small one, if that is later
    sure_interval: int = LOST_BATCHES  # of them, to the next small one
    #: Of a full batch before the last small one: while that changed nothing, the way back to it.
    before_rows: float = 0.0

    def observe(self, cost: Cost, policy: QueryPolicy) -> None:
        """After each batch with rows; the likelier story is what is decided by."""
        self.batches += 1
        edge = REACH_SHARE * policy.target_seconds
        below, above = cost.by_side(edge)
        self.chance = sum(above)
        self.lost = self.chance > LOST_CHANCE
        if self.chance < SURE_CHANCE:
            self.sure_batches, self.sure_interval = 0, LOST_BATCHES
        if not self.lost:
            self.before_rows = 0.0
        cost.merge(above if self.lost else below)

    def probe_rows(
        self, cost: Cost, policy: QueryPolicy, rows: float, *, smaller: bool = True
    ) -> float | None:
        """Another size where only that can tell what is fixed; None where it need not be told.

        Asked once for each batch that may be of another size; ``smaller``: than it would be.
        """
        small = LEAST_SHARE * policy.target_seconds / cost.per_row
        # Where rows cost next to nothing the small batch is none.
        if (self.lost and not (smaller and small < rows)) or not self._due():
            return None
        return small if self.lost else PROBE_STEP * rows

    def _due(self) -> bool:
        if self.chance < SURE_CHANCE:
            return self.chance > 1.0 - LOST_CHANCE and self.batches % PROBE_BATCHES == 0
        self.sure_batches += 1
        if self.sure_batches < self.sure_interval:
            return False
        self.sure_batches = 0
        self.sure_interval = min(2 * self.sure_interval, MOST_LOST_BATCHES)
        return True
