"""Executors over simulated days: what Weir's number costs and brings, against rules of others.

Run as ``python -m tests.benchmarks.executors`` (``--seeds N``, ``--only FAMILY``). One query whose
rows arrive as a family says runs in the simulator of ``weir simulate``, on a cluster whose
executors take 60 s to come. Printed per family and rule: executor-hours over those of an
all-knowing schedule that keeps the target, quantiles of a row's wait in targets, the share of
batches of over 1.3 targets, changes an hour. Of Weir also its executor-hours over the
least of two kinds of schedule whose rows wait no longer than its own, by p95:

- ``same p95``: the all-knowing one, which has executors there when a load comes.
- ``unforeseen``: one that knows all of the present, costs and arrivals, and nothing of the future.
  What it costs more than the all-knowing one no rule can have that is not told what will come.

- ``oracle`` knows what will arrive, and what every number of executors digests.
- ``spark``: dynamic allocation, which asks for more while tasks wait and lets go of what idles.
- ``amadeus``: one more where the smoothed batch takes over the interval, one less below .75 of it
  (the elastic scaling of Amadeus; Spark's own for DStreams has .9 and .3).
- ``flink``: the formula of FLIP-271 as it first came, utilization of .7 with a band of .3, a
  window of 5 minutes, half an hour to catch up in; without what came later: time for the restart,
  and an hour before fewer are taken.

The latter three run without limits, as they know of none.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import sys
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from agent.simulation import plant
from agent.simulation.live import Live
from agent.simulation.oracle import arriving, enough
from agent.simulation.plant import Arrivals, Noise
from agent.simulation.scenario import Executors, Scenario, Series
from agent.simulation.yardsticks import Static
from tests.benchmarks.families import COLD_FADE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.simulation.plant import Attempt, Controller, Trace

TARGET: Final = 10.0
MOST: Final = 24
START_UP_SECONDS: Final = 60.0
HOUR: Final = 3600.0
#: Rows a second of one slot; slots of an executor; tasks of a stage; no limit at all.
PER_SLOT, SLOTS, TASKS, UNLIMITED = 100.0, 2, 96, 10**12


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
    warm_up: float = 0.0

    def scenario(self, seed: int) -> Scenario:
        """From a number of executors that fits its first hour; arrivals drawn anew each second."""
        rng = random.Random(seed)
        seconds = [float(second) for second in range(int(self.hours * HOUR))]
        rates = [self.rate(second) * math.exp(rng.gauss(-0.02, 0.2)) for second in seconds]
        block = Executors(
            present=1,
            maximum=MOST,
            start_seconds=START_UP_SECONDS,
            serial_share=0.0,
            slots=SLOTS,
            tasks=self.tasks,
            contention=self.contention,
            warm_up_seconds=self.warm_up,
        )
        drawn = Scenario(
            name=self.name,
            duration_seconds=self.hours * HOUR,
            trigger_seconds=0.0,
            target_seconds=TARGET,
            initial_limit_rows=UNLIMITED,
            initial_backlog_rows=0,
            arrival_rows_per_second=Series(tuple(seconds), tuple(rates)),
            fixed_cost_seconds=Series((0.0,), (self.driver,)),
            throughput_rows_per_second=Series((0.0,), (PER_SLOT * SLOTS ** (1 - self.contention),)),
            congestion_rows=None,
            noise_sigma=self.noise,
            batch_timeout_seconds=None,
            restart_seconds=0.0,
            executors=block,
        )
        fits = enough(drawn, 0.0, self.rate(0.0), TARGET)
        return replace(drawn, executors=replace(block, present=fits))


def _day(second: float) -> float:
    return 900.0 + 700.0 * math.sin(2 * math.pi * second / (8 * HOUR))


def _steps(second: float) -> float:
    return (400.0, 1600.0, 800.0, 2400.0)[int(second // HOUR) % 4]


def _sink(second: float) -> float:
    return 60.0 if second < HOUR else 300.0


FAMILIES: Final = (
    Family("steps", _steps),
    Family("ramp", lambda s: 200.0 + 2200.0 * s / (4 * HOUR)),
    Family("day", _day, hours=8.0),
    Family("noisy-day", _day, hours=8.0, noise=0.3),
    Family("spikes", lambda s: 3000.0 if s % 1800 < 90 else 500.0),
    Family("saturating", lambda s: 600.0 if s < HOUR else 1800.0, contention=0.5),
    Family("sink-does-not-scale", _sink, contention=1.0),
    Family("few-tasks", lambda s: 300.0 if s < HOUR else 1500.0, tasks=8),
    Family("driver", lambda s: 300.0 if s < HOUR else 1500.0, driver=6.0),
    Family("cold-steps", _steps, warm_up=COLD_FADE_SECONDS),
    Family("cold-sink", _sink, contention=1.0, warm_up=COLD_FADE_SECONDS),
)


class Rule(Static):
    """Without limits; sets the executors."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(None)
        self.executors: int = scenario.executors.present
        self._tasks = scenario.executors.tasks


class Amadeus(Rule):
    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self._recent: list[float] = []

    def ended(self, attempt: Attempt) -> None:
        self._recent.append(attempt.seconds / TARGET)
        if len(self._recent) < 6:
            return
        mean, self._recent = statistics.mean(self._recent), []
        if mean > 1.0:
            self.executors = min(self.executors + 1, MOST)
        elif mean < 0.75:
            self.executors = max(self.executors - 1, 1)


class Spark(Rule):
    def ended(self, attempt: Attempt) -> None:
        if attempt.seconds > 1.0:  # tasks wait from the first second on
            self.executors = min(math.ceil(self._tasks / SLOTS), MOST)

    def idle(self, second: float, until: float) -> None:
        if until - second >= 60.0:
            self.executors = 1


class Flink(Rule):
    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self._window: list[Attempt] = []
        self._changed = 0.0

    def ended(self, attempt: Attempt) -> None:
        now = attempt.end_seconds
        if not attempt.ran.steady:
            return
        recent = [*self._window, attempt]
        self._window = [one for one in recent if one.start_seconds > now - 300.0]
        if now - self._changed < 300.0 or len(self._window) < 3:
            return
        busy = sum(one.seconds for one in self._window)
        rows = sum(one.rows for one in self._window)
        whole = now - self._window[0].start_seconds
        present = attempt.ran.executors
        rate = rows / busy / present  # of one executor
        left = attempt.backlog_rows
        coming = max((rows + left - self._window[0].backlog_rows) / whole, 0.0)
        # What waits is caught up with beside what comes, which alone is held to a utilization.
        late = left / 1800.0
        if late + coming / 1.0 <= rate * present <= late + coming / 0.4:
            return
        number = min(max(math.ceil((late + coming / 0.7) / rate), 1), MOST)
        if number != self.executors:
            self.executors, self._changed, self._window = number, now, []


class Schedule(Rule):
    """As many as digest, in batches of so long, what will arrive, or else what does now.

    What waits beyond a batch is caught up with in so long.
    """

    def __init__(
        self,
        scenario: Scenario,
        seconds: float = TARGET,
        catch_up_seconds: float = 600.0,
        *,
        foresees: bool = True,
    ) -> None:
        super().__init__(scenario)
        self._scenario, self._seconds, self._foresees = scenario, seconds, foresees
        self._catch_up_seconds = catch_up_seconds
        self._arrivals = Arrivals(scenario.arrival_rows_per_second, 0)
        self._read = 0.0

    def ended(self, attempt: Attempt) -> None:
        now = attempt.end_seconds
        self._read += attempt.rows
        if self._foresees:
            coming = arriving(self._scenario, self._arrivals, now, self._seconds)
        else:
            since = max(now - TARGET, 0.0)
            coming = (self._arrivals.until(now) - self._arrivals.until(since)) / (now - since)
        # A batch's worth always waits; what is more is a backlog.
        late = max(self._arrivals.until(now) - self._read - coming * TARGET, 0.0)
        wanted = coming + late / self._catch_up_seconds
        self.executors = enough(self._scenario, now, wanted, self._seconds)


RULES: Final[dict[str, Callable[[Scenario], Controller]]] = {
    "oracle": Schedule,
    "weir": Live,
    "spark": Spark,
    "amadeus": Amadeus,
    "flink": Flink,
}
#: Of the target, how long the batches of a schedule are; how long it catches up.
SHARES: Final = (1.0, 0.7, 0.45, 0.28, 0.17, 0.1)
CATCHES: Final = (600.0, 40.0)


@dataclass
class Outcome:
    """Of one run."""

    executor_hours: float
    changes: int
    long: float  # share of batches of over 1.3 targets
    waits: list[tuple[float, float]]  # (seconds, rows), sorted

    def wait(self, share: float) -> float:
        """A quantile over rows."""
        sums = list(itertools.accumulate(rows for _, rows in self.waits))
        return self.waits[bisect_left(sums, share * sums[-1])][0]


def run(scenario: Scenario, noise: Noise, controller: Controller) -> Outcome:
    trace = plant.run(scenario, noise, controller)
    long = sum(one.seconds > 1.3 * TARGET for one in trace.attempts)
    return Outcome(
        trace.executor_seconds / HOUR,
        trace.executor_changes,
        long / max(len(trace.attempts), 1),
        sorted(_waits(scenario, trace)),
    )


def _waits(scenario: Scenario, trace: Trace) -> Iterator[tuple[float, float]]:
    """Of each fifth of each batch, and of what waits in the end until then: from its arrival on."""
    arrivals, read, end = Arrivals(scenario.arrival_rows_per_second, 0), 0, 0.0
    parts = [(one.end_seconds, one.rows) for one in trace.attempts]
    for end, rows in [*parts, (scenario.duration_seconds, trace.final_backlog_rows)]:
        for share in (0.1, 0.3, 0.5, 0.7, 0.9) if rows else ():
            yield end - arrivals.when(read + share * rows), rows / 5
        read += rows


def cheapest(scenario: Scenario, noise: Noise, wait: float, *, foresees: bool) -> float:
    """Executor-hours of the schedule whose rows wait no longer, by p95; inf where none does so."""
    hours = math.inf
    for share, catch_up in itertools.product(SHARES, CATCHES):
        schedule = Schedule(scenario, share * TARGET, catch_up, foresees=foresees)
        one = run(scenario, noise, schedule)
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
        f" {'same p95':>9} {'unforeseen':>10}"
    )
    for family in FAMILIES:
        if given.only not in ("", family.name):
            continue
        drawn = [(family.scenario(seed), Noise(family.noise, seed)) for seed in range(given.seeds)]
        best: list[float] = []
        for name, kind in RULES.items():
            runs = [run(scenario, noise, kind(scenario)) for scenario, noise in drawn]
            best = best or [one.executor_hours for one in runs]
            over = [one.executor_hours / of for one, of in zip(runs, best, strict=True)]
            waits = [statistics.median(one.wait(q) for one in runs) / TARGET for q in (0.5, 0.95)]
            long = statistics.median(one.long for one in runs)
            changes = statistics.median(one.changes for one in runs) / family.hours
            told = ""
            for foresees in (True, False) if name == "weir" else ():
                fair = [
                    one.executor_hours / cheapest(*of, one.wait(0.95), foresees=foresees)
                    for one, of in zip(runs, drawn, strict=True)
                ]
                # None keeps up where nothing can, and late rows wait for whoever comes first.
                told += f" {statistics.median(fair):9.2f}" if min(fair) else f" {'-':>9}"
            print(
                f"{family.name:20} {name:8} {statistics.median(over):6.2f} {waits[0]:6.2f}"
                f" {waits[1]:6.2f} {long:6.2f} {changes:9.1f}{told}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
