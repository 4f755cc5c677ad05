"""Knee: the size beyond which a larger batch brings no more rows per second.

The capacity model is a line, and on a line larger batches always bring more. A plant that gets
dearer per row as batches grow (spilling, garbage collection, a congested sink) has a size of
highest throughput. What was seen decides: of each size visited, the rows per second, averaged over
its batches. Beyond the target a size is raised only while the last raise is seen to have helped.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

#: Sizes within a factor of the square root of two are one level.
LEVELS_PER_DOUBLING: Final = 2
#: What a level remembers fades with every batch of any size: after some hundred the knee is looked
#: for again.
KEEP: Final = 0.985
#: What is left of it when the plant changes.
KEEP_CHANGED: Final = 0.3
#: A level that has faded so far says nothing.
LEAST_WEIGHT: Final = 0.25
#: Levels nearer to each other than this are compared as one: nothing to gain between them.
APART: Final = 1.3
#: So sure, in standard deviations of the difference, that a larger size is no better: go back.
SURE: Final = 1.5
#: How far off the line may be about what a raise brings, on the log scale.
LINE_DOUBT: Final = 0.3
#: A raise that is not seen to help by more than this costs latency for nothing.
LEAST_GAIN: Final = 0.01
#: Noise at which one batch of a size tells enough to go on; more noise takes more batches.
CLEAR_SIGMA: Final = 0.25
#: From the largest size seen to the next one worth trying.
NEXT: Final = 2.0
MOST: Final = 6.0


class Level(msgspec.Struct):
    """Batches of about one size; ``weight``, their number, fades."""

    weight: float
    log_rate: float  # mean of the log of rows per second
    rows: float  # geometric mean


class Ceilings(msgspec.Struct, frozen=True):
    """The most rows that make sense beyond the target; inf where nothing speaks against more."""

    proven_rows: float  # what lies above brings less, seen often enough: go back
    seen_rows: float  # what lies above is not known to bring more: go no further


class Knee(msgspec.Struct):
    """What each size brought, by level (the log of its rows)."""

    levels: dict[int, Level] = {}
    last: int | None = None

    def observe(self, rows: float, seconds: float, *, changed: bool) -> None:
        """Takes in a batch; ``changed``: the plant is seen to have changed with it."""
        if rows <= 0.0 or seconds <= 0.0:
            return
        index = math.floor(LEVELS_PER_DOUBLING * math.log2(rows))
        if changed and self.last is not None and abs(index - self.last) <= 1:
            # At an unchanged size it is the plant that changed: what was seen counts for little.
            for level in self.levels.values():
                level.weight *= KEEP_CHANGED
        self.last = index
        for other, level in list(self.levels.items()):
            level.weight *= KEEP
            if level.weight < LEAST_WEIGHT:
                del self.levels[other]
        rate = math.log(rows / seconds)
        present = self.levels.get(index)
        if present is None:
            self.levels[index] = Level(1.0, rate, rows)
            return
        present.weight += 1.0
        present.log_rate += (rate - present.log_rate) / present.weight
        present.rows *= (rows / present.rows) ** (1.0 / present.weight)

    def ceilings(self, sigma: float, fixed_seconds: float, seconds_per_row: float) -> Ceilings:
        """How far a size may go beyond the target.

        ``sigma`` is the noise of a batch's time, the other two the line that is believed: what it
        says of a raise counts until enough was seen.
        """

        def believed(level: Level) -> float:
            return math.log(level.rows / (fixed_seconds + level.rows * seconds_per_row))

        levels = self._apart()
        if not levels:
            return Ceilings(math.inf, math.inf)
        best = levels[0]
        for level in levels[1:]:
            seen = level.log_rate - best.log_rate
            doubt = sigma * math.sqrt(1.0 / level.weight + 1.0 / best.weight)
            if seen < LEAST_GAIN - SURE * doubt:
                return Ceilings(best.rows, best.rows)
            told = believed(level) - believed(best)
            trust = doubt**2 / (doubt**2 + LINE_DOUBT**2)
            if seen + trust * (told - seen) >= LEAST_GAIN:
                best = level
        top = levels[-1]
        if top is not best or top.weight < min((sigma / CLEAR_SIGMA) ** 2, 6.0):
            return Ceilings(math.inf, top.rows)
        # Twice the rows, or twice the time where little of it is theirs.
        seconds = fixed_seconds + top.rows * seconds_per_row
        longer = top.rows + seconds / seconds_per_row
        return Ceilings(math.inf, min(max(NEXT * top.rows, longer), MOST * top.rows))

    def _apart(self) -> list[Level]:
        """The levels from small to large, those of nearly one size taken together."""
        found: list[Level] = []
        for index in sorted(self.levels):
            level = self.levels[index]
            if not found or level.rows > APART * found[-1].rows:
                found.append(level)
                continue
            below = found[-1]
            weight = below.weight + level.weight
            share = level.weight / weight
            found[-1] = Level(
                weight,
                below.log_rate + share * (level.log_rate - below.log_rate),
                below.rows * (level.rows / below.rows) ** share,
            )
        return found
