"""What breaks when, in a soak: drawn from a seed, and nothing else."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

#: Each kind of fault, with the least and the most seconds until it is undone, if ever.
KINDS: Final[dict[str, tuple[float, float] | None]] = {
    "agent killed": (1.0, 80.0),  # longer than a grant lives, too
    "broker stopped": (3.0, 25.0),
    "broker killed": (3.0, 25.0),
    "worker killed": None,
    "driver killed": None,
    "disk full": (5.0, 40.0),
    "clock set": None,
    "limit by hand": (10.0, 60.0),
    "query away": (5.0, 40.0),
    "burst": None,
}
#: What befalls the agent, or comes through it: nothing where a query runs without Weir.
OF_WEIR: Final = ("agent killed", "disk full", "clock set", "limit by hand")
#: What a fault of the kind is done to, where there is a choice.
LONG_QUERIES: Final = ("orders", "files", "windows")
CLOCK_SECONDS: Final = (-86_400.0, -7_200.0, 600.0, 7_200.0, 86_400.0)
#: Seconds of calm before the first fault and after the last: all is up before, undone after.
CALM_SECONDS: Final = 60.0
#: From fault to fault, on average, in seconds: at least so many, and in a long course longer, so
#: that a run has so many faults and in between the time to show what they left behind.
GAP_SECONDS: Final = 20.0
FAULTS: Final = 150
#: A driver that was killed is given so long before anything is done to it, or it, again: Spark
#: takes that long to start on a busy machine.
DRIVER_START_SECONDS: Final = 60.0
#: Of the course, from its begin, the share in which a process is killed that is measured: what
#: leaks slowly shows in a long life only.
KILLS_SHARE: Final = {"driver killed": 0.45, "agent killed": 0.45}


@dataclass(frozen=True)
class Fault:
    """One thing that is done, to which query where it is one's, and how long it lasts.

    ``value`` is how far a clock is set, in seconds; a limit; 1 where a full disk meets the agent at
    its start too. One that runs writes into what its database holds already for a while.
    """

    at_seconds: float
    kind: str
    lasts_seconds: float = 0.0
    target: str = ""
    value: float = 0.0

    @property
    def until_seconds(self) -> float:
        return self.at_seconds + self.lasts_seconds


def plan(seconds: float, seed: int) -> list[Fault]:
    """The course of a soak of so many seconds, in the order of time.

    Kinds come as from a shuffled deck, each once before any comes again, so that a short course
    holds all of them. What is of the same part never overlaps: broker and broker, agent and agent.
    """
    draw = random.Random(f"soak {seed}")
    course: list[Fault] = []
    free: dict[str, float] = {}
    deck: list[str] = []
    now = CALM_SECONDS
    mean = max(GAP_SECONDS, seconds / FAULTS)
    while True:
        if not deck:
            deck = list(KINDS)
            draw.shuffle(deck)
            # Drivers are killed early, so in a short course the first deck has to come to it.
            deck.sort(key=lambda kind: kind == "driver killed" and not course)
        kind = deck.pop()
        bounds = KINDS[kind]
        lasts = 0.0 if bounds is None else draw.uniform(*bounds)
        part = kind.split()[0]
        at = max(now, free.get(part, 0.0))
        if at + lasts > seconds - CALM_SECONDS:
            return sorted(course, key=lambda fault: fault.at_seconds)
        target = draw.choice(LONG_QUERIES) if kind in ("limit by hand", "query away") else ""
        value = draw.choice(CLOCK_SECONDS) if kind == "clock set" else 0.0
        if kind == "disk full":
            value = float(at <= KILLS_SHARE["agent killed"] * seconds)
        if kind == "limit by hand":
            value = float(draw.randint(1, 20))
        gap = min(draw.expovariate(1.0 / mean), 4.0 * mean)
        if at > KILLS_SHARE.get(kind, 1.0) * seconds:
            continue
        fault = Fault(round(at, 1), kind, round(lasts, 1), target, value)
        course.append(fault)
        free[part] = fault.until_seconds + (DRIVER_START_SECONDS if part == "driver" else 5.0)
        now += gap
