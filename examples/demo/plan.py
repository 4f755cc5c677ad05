"""What the demo's job is given to do: how large a file is, and when how many arrive.

Everything follows from two measured numbers, the fixed cost of a batch and the rows per second of
this machine, so that a burst is the same trouble on a laptop and on a small virtual machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: How long a micro-batch should take: a result every two seconds.
TARGET_SECONDS = 2.0
#: A burst brings this many targets' worth of work at once.
BURST_TARGETS = 5.5
#: Work in one file. The limit of a file source counts files, so this is its finest step.
FILE_SECONDS = 0.1
#: Between bursts, this share of what the machine can do keeps arriving.
TRICKLE_SHARE = 0.15
#: Share of a half that work may fill, at most, at regulated batch size: both halves must get done.
FILL_SHARE = 0.68
FIRST_BURST_SHARE = 0.2
TICK_SECONDS = 0.5


@dataclass(frozen=True)
class Capacity:
    """A batch of n rows takes fixed_seconds + n / rows_per_second."""

    fixed_seconds: float
    rows_per_second: float

    def batch_seconds(self, rows: float) -> float:
        """How long a batch of so many rows takes."""
        return self.fixed_seconds + rows / self.rows_per_second

    def rows_in(self, seconds: float) -> int:
        """How many a batch of so many seconds holds; below 1 where an empty one takes them."""
        return round(self.rows_per_second * (seconds - self.fixed_seconds))


#: Files to warm up with: small, then larger until a batch takes about the target, which also gives
#: Java's compiler time to do its work before anything is measured.
WARM_UP_ROWS_PER_FILE = 2000
WARM_UP_FILES = (1, 2, 4, 8, 16, 32, 64, 96, 120)
#: The first batches of a cold Java take seconds whatever their size; they don't end the warm-up.
WARM_UP_LEAST_FILES = 16
#: Then these, as shares of the largest of them, measured.
MEASURED_SHARES = (0.02, 1.0, 0.02, 1.0, 0.02, 1.0)


@dataclass(frozen=True)
class Drop:
    """Files that appear in the watched folder at one moment, seconds after the half began."""

    at_seconds: float
    files: int


@dataclass(frozen=True)
class Plan:
    """One half of the demo; the other half gets exactly the same."""

    seconds: float
    rows_per_file: int
    drops: tuple[Drop, ...]
    burst_files: int
    burst_at_seconds: tuple[float, ...]

    @property
    def files(self) -> int:
        """All files of the half."""
        return sum(drop.files for drop in self.drops)


def fit(batches: list[tuple[int, float]]) -> Capacity:
    """Least squares over (rows, seconds), weighted by 1/seconds²: the noise is a share of the time.

    Raises ValueError where the batches don't tell the two numbers apart.
    """
    weights = [1.0 / seconds**2 for _, seconds in batches]
    total = sum(weights)
    if total == 0 or len({rows for rows, _ in batches}) < 2:
        raise ValueError("batches of at least two sizes are needed to measure this machine")
    mean_rows = sum(w * rows for w, (rows, _) in zip(weights, batches, strict=True)) / total
    mean_seconds = sum(w * s for w, (_, s) in zip(weights, batches, strict=True)) / total
    spread = sum(w * (r - mean_rows) ** 2 for w, (r, _) in zip(weights, batches, strict=True))
    slope = (
        sum(
            w * (r - mean_rows) * (s - mean_seconds)
            for w, (r, s) in zip(weights, batches, strict=True)
        )
        / spread
    )
    if slope <= 0:
        raise ValueError("larger batches took no longer: this machine is too busy to measure")
    fixed = max(mean_seconds - slope * mean_rows, 0.05)
    return Capacity(fixed, 1.0 / slope)


def make(seconds: float, capacity: Capacity) -> Plan:
    """Steady files all along, and as many full bursts as can be worked off in the time."""
    rows_per_file = max(round(capacity.rows_per_second * FILE_SECONDS), 1)
    burst_seconds = TARGET_SECONDS * BURST_TARGETS
    # Small batches pay the fixed cost more often; what is left of a second is for rows.
    useful_share = max(1.0 - capacity.fixed_seconds / TARGET_SECONDS, 0.4)
    room_seconds = seconds * (FILL_SHARE * useful_share / 0.8 - TRICKLE_SHARE)
    bursts = max(math.floor(room_seconds / burst_seconds), 1)
    burst_seconds = min(burst_seconds, room_seconds / bursts)
    burst_files = max(round(burst_seconds / FILE_SECONDS), 1)

    first = seconds * FIRST_BURST_SHARE
    gap = (seconds - first) / bursts
    burst_at = tuple(first + gap * number for number in range(bursts))
    drops = [Drop(at, burst_files) for at in burst_at]
    due = 0.0
    for tick in range(int((seconds - TARGET_SECONDS) / TICK_SECONDS)):
        due += TRICKLE_SHARE * TICK_SECONDS / FILE_SECONDS
        if due >= 1.0:
            drops.append(Drop(tick * TICK_SECONDS, int(due)))
            due -= int(due)
    drops.sort(key=lambda drop: drop.at_seconds)
    return Plan(seconds, rows_per_file, tuple(drops), burst_files, burst_at)
