"""Executors over simulated days: what Weir's number costs and brings, against rules of others.

Run as ``python -m tests.benchmarks.executors`` (``--seeds N``, ``--only FAMILY``). One query whose
rows arrive as a family says runs on a cluster whose executors take 60 s to come; every batch takes
what the limit in force lets it. Printed per family and rule: executor-hours over those of an
all-knowing schedule that keeps the target, quantiles of a row's wait in targets, the share of
batches of over 1.3 targets, changes an hour; and Weir's executor-hours over those of the
all-knowing schedule that has rows wait no longer than it, by p95.

- ``oracle`` knows what will arrive, and what every number of executors digests.
- ``spark``: dynamic allocation, which asks for more while tasks wait and lets go of what idles.
- ``amadeus``: one more where the smoothed batch takes over the interval, one less below .75 of it
  (the elastic scaling of Amadeus; Spark's own for DStreams has .9 and .3).
- ``flink``: the formula of FLIP-271, utilization of .7 with a band of .3, a window of 5 minutes.

The latter three run without limits, as they know of none.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import math
import random
import statistics
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet
from agent.core.policy import Policy, QueryPolicy
from tests.core.events import START_TIME, Driver

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET: Final = 10.0
MOST: Final = 24
START_UP_SECONDS: Final = 60.0
HOUR: Final = 3600.0
#: Rows a second of one slot; slots of an executor; tasks of a stage.
PER_SLOT, SLOTS, TASKS = 100.0, 2, 96


@dataclass(frozen=True)
class Family:
    """Rows a second at each second, and how the cluster scales."""

    name: str
    rate: Callable[[float], float]
    hours: float = 4.0
    contention: float = 0.0
    driver: float = 0.5
    tasks: int = TASKS
    noise: float = 0.1

    def seconds(self, rows: float, executors: int, noise: float = 1.0) -> float:
        """Of a batch."""
        slots = executors * SLOTS
        work = rows / PER_SLOT * slots**self.contention
        return self.driver + math.ceil(self.tasks / slots) * work / self.tasks * noise

    def capacities(self, seconds: float) -> list[float]:
        """Rows a second in batches of so many, by executors from 1 on."""
        found = []
        for executors in range(1, MOST + 1):
            # A batch's time is a line in its rows.
            fixed = self.seconds(0, executors)
            each = self.seconds(1, executors) - fixed
            found.append(max(seconds - fixed, 0.0) / each / seconds)
        return found


def least(rate: float, capacities: list[float]) -> int:
    """Executors that digest so much, else as many as bring anything."""
    enough = min(rate, max(capacities) * (1 - 1e-9))
    return 1 + next(n for n, one in enumerate(capacities) if one >= enough)


def _day(second: float) -> float:
    return 900.0 + 700.0 * math.sin(2 * math.pi * second / (8 * HOUR))


FAMILIES: Final = (
    Family("steps", lambda s: (400.0, 1600.0, 800.0, 2400.0)[int(s // HOUR) % 4]),
    Family("ramp", lambda s: 200.0 + 2200.0 * s / (4 * HOUR)),
    Family("day", _day, hours=16.0),
    Family("noisy-day", _day, hours=16.0, noise=0.3),
    Family("spikes", lambda s: 3000.0 if s % 1800 < 90 else 500.0),
    Family("saturating", lambda s: 600.0 if s < HOUR else 1800.0, contention=0.5),
    Family("sink-does-not-scale", lambda s: 60.0 if s < HOUR else 300.0, contention=1.0),
    Family("few-tasks", lambda s: 300.0 if s < HOUR else 1500.0, tasks=8),
    Family("driver", lambda s: 300.0 if s < HOUR else 1500.0, driver=6.0),
)


@dataclass
class Seen:
    """One batch that ended."""

    begun: float
    rows: int
    seconds: float
    backlog: float
    executors: int
    steady: bool
    idle: float  # before it, since the batch before


class Rule(Protocol):
    """Who decides; ``executors`` and ``rows`` hold from the next batch on, None is no limit."""

    executors: int
    rows: int | None

    def ended(self, seen: Seen) -> None: ...


class Weir:
    """The core itself, fed with what a driver would tell."""

    def __init__(self, family: Family, present: int) -> None:
        policy = QueryPolicy(target_seconds=TARGET, executors="on", maximum_executors=MOST)
        self._fleet = Fleet(Policy(default=policy), started_time=START_TIME - 1000)
        self._driver = Driver()
        self._tasks = family.tasks
        self._overhead = family.driver
        self.executors, self.rows = present, None
        self._limit: int | None = None
        self._send(self._driver.started())
        self._heartbeat(present)

    def _send(self, event: dict[str, Any]) -> None:
        body = decode_request(self._driver.body(event))
        receipt = self._fleet.receive(body, self._driver.time, lines=False)
        for grant in receipt.grants:
            self._limit = grant.limit
        if receipt.executors is not None and receipt.executors.wanted is not None:
            self.executors = receipt.executors.wanted
        self.rows = self._limit

    def _heartbeat(self, present: int) -> None:
        ids = {**self._driver.ids(), "batchId": None, "running_seconds": None}
        told = {"present": present, "slots": present * SLOTS, "asked": self.executors}
        self._send(self._driver.event("heartbeat", {"queries": [ids], "executors": told}))

    def ended(self, seen: Seen) -> None:
        self._driver.time = START_TIME + seen.begun
        event = self._driver.progress(
            seen.rows, seen.seconds, limit=self.rows, backlog=int(seen.backlog)
        )
        stages = max(seen.seconds - self._overhead, 1e-3)
        waves = math.ceil(self._tasks / (seen.executors * SLOTS))
        stage = {
            "tasks": self._tasks,
            "task_seconds": stages * self._tasks / waves,
            "longest_seconds": stages / waves,
            "begin_seconds": 0.0,
            "seconds": stages,
        }
        event["work"] = {
            "slots": seen.executors * SLOTS,
            "steady": seen.steady,
            "stages": [stage] if seen.steady else [],
        }
        self._send(event)
        self._heartbeat(seen.executors)


class Amadeus:
    def __init__(self, family: Family, present: int) -> None:
        self.executors, self.rows = present, None
        self._recent: list[float] = []

    def ended(self, seen: Seen) -> None:
        self._recent = [*self._recent, seen.seconds / TARGET]
        if len(self._recent) < 6:
            return
        mean, self._recent = statistics.mean(self._recent), []
        if mean > 1.0:
            self.executors = min(self.executors + 1, MOST)
        elif mean < 0.75:
            self.executors = max(self.executors - 1, 1)


class Spark:
    def __init__(self, family: Family, present: int) -> None:
        self.executors, self.rows = present, None
        self._tasks = family.tasks

    def ended(self, seen: Seen) -> None:
        if seen.idle >= 60.0:
            self.executors = 1
        elif seen.seconds > 1.0:  # tasks wait from the first second on
            self.executors = min(math.ceil(self._tasks / SLOTS), MOST)


class Flink:
    def __init__(self, family: Family, present: int) -> None:
        self.executors, self.rows = present, None
        self._window: list[Seen] = []
        self._changed = 0.0

    def ended(self, seen: Seen) -> None:
        now = seen.begun + seen.seconds
        if not seen.steady:
            return
        self._window = [one for one in [*self._window, seen] if one.begun > now - 300.0]
        if now - self._changed < 300.0 or len(self._window) < 3:
            return
        busy = sum(one.seconds for one in self._window)
        rows = sum(one.rows for one in self._window)
        whole = now - self._window[0].begun
        rate = rows / busy / seen.executors  # of one executor
        arriving = (rows + seen.backlog - self._window[0].backlog) / whole
        wanted = max(arriving, 0.0) + seen.backlog / 1800.0
        used = wanted / (rate * seen.executors)
        if 0.4 <= used <= 1.0:
            return
        number = min(max(math.ceil(wanted / (0.7 * rate)), 1), MOST)
        if number != self.executors:
            self.executors, self._changed, self._window = number, now, []


class Oracle:
    """As many as will be needed when they are there, in batches of so many seconds."""

    def __init__(self, family: Family, present: int, seconds: float = TARGET) -> None:
        self.executors, self.rows = present, None
        self._family = family
        self._capacities = family.capacities(seconds)

    def ended(self, seen: Seen) -> None:
        now = seen.begun + seen.seconds
        ahead = max(self._family.rate(now + s) for s in range(0, int(START_UP_SECONDS) + 20, 10))
        catching = seen.backlog / 600.0 if seen.backlog > ahead * TARGET else 0.0
        self.executors = least(ahead + catching, self._capacities)


@dataclass
class Outcome:
    """Of one run."""

    executor_hours: float = 0.0
    changes: int = 0
    waits: list[tuple[float, float]] = field(default_factory=list)  # (seconds, rows)
    missed: int = 0  # batches of over 1.3 targets
    batches: int = 0

    def wait(self, share: float) -> float:
        """A quantile over rows."""
        self.waits.sort()
        sums = list(itertools.accumulate(rows for _, rows in self.waits))
        return self.waits[bisect.bisect_left(sums, share * sums[-1])][0]


def run(family: Family, kind: Callable[[Family, int], Rule], seed: int) -> Outcome:
    """One query from a number of executors that fits its first hour."""
    rng = random.Random(seed)
    arrived = [0.0]
    for second in range(int(family.hours * HOUR)):
        arrived.append(arrived[-1] + family.rate(second) * math.exp(rng.gauss(0, 0.2)))
    present = least(family.rate(0.0), family.capacities(TARGET))
    rule, now, read, asked = kind(family, present), 0.0, 0.0, present
    coming: list[tuple[float, int]] = []  # (when, how many more)
    out, ended, before = Outcome(), 0.0, present

    def by(second: float) -> float:
        whole = int(second)
        return arrived[whole] + (second - whole) * (arrived[whole + 1] - arrived[whole])

    while now < len(arrived) - 1:
        waiting = by(now) - read
        if waiting < 1.0:
            out.executor_hours += present * 0.05 / HOUR
            now += 0.05
            continue
        rows = int(waiting if rule.rows is None else min(waiting, rule.rows))
        noise = math.exp(rng.gauss(-(family.noise**2) / 2, family.noise))
        seconds = family.seconds(rows, present, noise)
        end = now + seconds
        if end >= len(arrived) - 1:
            break
        for share in (0.1, 0.3, 0.5, 0.7, 0.9):
            came = bisect.bisect_left(arrived, read + share * rows)
            out.waits.append((end - came, rows / 5))
        read += rows
        steady = present == before
        before = present
        left = waiting - rows  # when it was planned
        seen = Seen(now, rows, seconds, left, present, steady, now - ended)
        rule.ended(seen)
        out.executor_hours += present * seconds / HOUR
        out.batches += 1
        out.missed += seconds > 1.3 * TARGET
        now = ended = end
        if rule.executors != asked:
            out.changes += 1
            if rule.executors > asked:
                coming.append((now + START_UP_SECONDS, rule.executors - asked))
            else:
                gone = asked - rule.executors
                while gone and coming:
                    when, count = coming.pop()
                    kept = max(count - gone, 0)
                    gone -= count - kept
                    coming += [(when, kept)] if kept else []
                present = max(present - gone, 1)
            asked = rule.executors
        there = [one for one in coming if one[0] <= now]
        coming = [one for one in coming if one[0] > now]
        present += sum(count for _, count in there)
    return out


RULES: Final[dict[str, Callable[[Family, int], Rule]]] = {
    "oracle": Oracle,
    "weir": Weir,
    "spark": Spark,
    "amadeus": Amadeus,
    "flink": Flink,
}


def matched(family: Family, seed: int, wait: float) -> float:
    """Executor-hours of the all-knowing schedule whose rows wait no longer, by p95."""
    hours = math.inf
    for share in (1.0, 0.85, 0.7, 0.55, 0.45, 0.35, 0.28, 0.22, 0.17, 0.13, 0.1):
        one = run(family, lambda f, p, share=share: Oracle(f, p, share * TARGET), seed)
        if one.wait(0.95) <= 1.02 * wait:
            hours = min(hours, one.executor_hours)
    return hours


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    print(
        f"{'family':20} {'rule':8} {'hours':>6} {'p50':>6} {'p95':>6} {'long':>6} {'changes/h':>9}"
        "   same p95"
    )
    for family in FAMILIES:
        if given.only not in family.name:
            continue
        best = 0.0
        for name, kind in RULES.items():
            runs = [run(family, kind, seed) for seed in range(given.seeds)]
            hours = statistics.median(one.executor_hours for one in runs)
            best = best or hours
            p50, p95 = (
                statistics.median(one.wait(q) for one in runs) / TARGET for q in (0.5, 0.95)
            )
            long = statistics.median(one.missed / max(one.batches, 1) for one in runs)
            changes = statistics.median(one.changes for one in runs) / family.hours
            fair = [
                one.executor_hours / matched(family, seed, one.wait(0.95))
                for seed, one in enumerate(runs if name == "weir" else [])
            ]
            told = f" {statistics.median(fair):10.2f}" if fair else ""
            print(
                f"{family.name:20} {name:8} {hours / best:6.2f} {p50:6.2f} {p95:6.2f} {long:6.2f} "
                f"{changes:9.1f}{told}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
