"""Labelled scenarios for the spiral detector: half spirals, half look-alikes, all at random.

``python -m tests.benchmarks.spiral [--count 1000] [--seed N] [--show]`` runs each through the plant
under a static limit (what a job without Weir has), with the live core watching, and prints how many
spirals were alarmed, how many batches ahead, and how many look-alikes raised a false alarm. Half as
many again are the hardest look-alikes: the same growth as that of spirals, which levels off before
the deadline. Beside them stand two oracles, which know the plant's true parameters and no noise to
come: one the whole course of them, one that of the moment only. What not even the first foresees is
no detector's miss.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from agent.core.judge.spiral import HORIZON
from agent.simulation import plant
from agent.simulation.live import ALARMS, Live
from agent.simulation.run import Watched
from agent.simulation.scenario import Scenario, Series
from agent.simulation.yardsticks import Static
from spark_listener.wire import HEARTBEAT_SECONDS

SPIRALS = ("arrivals rise", "throughput falls", "fixed cost grows", "congestion", "poison batch")
LOOK_ALIKES = (
    "step",
    "draining spike",
    "planned restart",
    "catch-up",
    "limited backlog",
    "idle night",
    "noise",
)
#: What starts as a spiral does and levels off before the deadline.
LEVELLING = (
    "arrivals level off",
    "throughput levels off",
    "fixed cost levels off",
    "congestion levels off",
)
#: A lead of three batches is asked for where growth takes that long: where the first time-out comes
#: so many batches after the last one that took about as long as usual, the three ahead and two in
#: which to see it.
LEAD = 3
LONG_ENOUGH = LEAD + 2
AS_USUAL = 1.5
CALM_BATCHES = 20
UNLIMITED = 10**9
#: A look-alike holds under so many other noises; a case is drawn again until its label holds.
OTHER_SEEDS = 2
LEVELLING_SEEDS = 5
OTHER_NOISE = 7_919
MOST_DRAWS = 200
#: Of the deadline: where no batch took so long, an alarm was plainly false.
FAR = 0.5
#: How far ahead an oracle looks, in batches: as far as the detector.
ORACLE_BATCHES = HORIZON


@dataclass
class Case:
    """One labelled scenario. ``restarts`` are planned: (second, seconds of downtime)."""

    kind: str
    spiral: bool
    scenario: Scenario
    seed: int
    restarts: list[tuple[float, float]] = field(default_factory=list)
    poison: int | None = None  # of which batch every attempt takes too long


@dataclass
class Outcome:
    """What became of a case. Batches are counted over all attempts."""

    case: Case
    timeout: int | None  # index of the first attempt that was timed out
    alarm: int | None  # index of the last attempt that had ended when the alarm came
    growth: int | None  # batches from the last one of usual length to the time-out
    attempts: int
    worst_seconds: float
    phases: Counter[str]
    #: Whether an oracle foresaw the time-out three batches before: one that knows how the plant's
    #: parameters go on, and one that takes them to stay as they were.
    foreseeable: bool = False
    foreseeable_at_once: bool = False

    @property
    def lead(self) -> int | None:
        if self.timeout is None or self.alarm is None:
            return None
        return self.timeout - self.alarm

    @property
    def needs_lead(self) -> bool:
        return self.growth is not None and self.growth >= LONG_ENOUGH


def constant(value: float) -> Series:
    return Series((0.0,), (value,))


def ramp(start: float, end: float, begin: float, seconds: float, steps: int = 60) -> Series:
    """From one value to another in small steps, or at once, then flat."""
    if seconds <= 0.0:
        return blocks((0.0, start), (begin, end))
    times, values = [0.0], [start]
    for step in range(1, steps + 1):
        times.append(begin + seconds * step / steps)
        values.append(start + (end - start) * step / steps)
    return Series(tuple(times), tuple(values))


def blocks(*pieces: tuple[float, float]) -> Series:
    return Series(tuple(t for t, _ in pieces), tuple(v for _, v in pieces))


def jitter(series: Series, sigma: float, every: float, until: float, rng: random.Random) -> Series:
    """The same with the noise of real arrivals: every so many seconds a factor of its own."""
    if sigma <= 0.0:
        return series
    times, values, time = [], [], 0.0
    while time < until:
        times.append(time)
        values.append(series.at(time) * rng.lognormvariate(-sigma * sigma / 2, sigma))
        time += every
    return Series(tuple(times), tuple(values))


def make(kind: str, seed: int) -> Case:
    """A case of a kind; all that can vary does, and the label holds.

    A spiral times out, whatever its shape; a look-alike never does, under other noise neither.
    """
    for attempt in range(MOST_DRAWS):
        case = _draw(kind, seed, random.Random(f"{kind}/{seed}/{attempt}"))
        if _label_holds(case):
            return case
    raise RuntimeError(f"no {kind} in {MOST_DRAWS} draws of seed {seed}")


def _label_holds(case: Case) -> bool:
    if case.spiral:
        return _first_timeout(case, case.seed) is not None
    others = LEVELLING_SEEDS if case.kind in LEVELLING else OTHER_SEEDS
    return all(
        _first_timeout(case, case.seed + OTHER_NOISE * other) is None for other in range(1 + others)
    )


def _first_timeout(case: Case, seed: int) -> int | None:
    """Which attempt is killed first, with nobody watching; None where none is."""
    count = 0

    class Counting:
        limit_rows = case.scenario.initial_limit_rows

        def started(self, second: float) -> None: ...

        def ended(self, attempt: plant.Attempt) -> None:
            nonlocal count
            if attempt.killed:
                raise _TimedOut
            count += 1

        def idle(self, second: float, until: float) -> None: ...

    try:
        _run_plant(case, _noise(case, seed), Counting(), None)
    except _TimedOut:
        return count
    return None


class _TimedOut(Exception):  # noqa: N818
    """The first attempt was killed: nothing later matters."""


def _draw(kind: str, seed: int, rng: random.Random) -> Case:
    throughput = 10 ** rng.uniform(2.5, 5.0)
    fixed = rng.uniform(0.5, 4.0)
    load = rng.uniform(0.2, 0.65)
    sigma = rng.choice([0.05, 0.1, 0.15, 0.2, 0.3])
    deadline = rng.choice([30.0, 45.0, 60.0, 60.0, 90.0, 120.0, 300.0])
    trigger = rng.choice([0.0, 0.0, 0.0, 1.0, 5.0, 10.0])
    calm = rng.uniform(240.0, 700.0)
    steady = max(fixed / (1 - load), trigger)
    deadline = max(deadline, 6.0 * steady)
    base = load * throughput
    arrivals, mu, cost = constant(base), constant(throughput), constant(fixed)
    limit, congestion, backlog = UNLIMITED, None, 0
    duration = calm + 1800.0
    restarts: list[tuple[float, float]] = []
    poison = None
    jitter_sigma = rng.choice([0.0, 0.0, 0.1, 0.25])
    sudden = rng.random() < 0.3
    if kind == "arrivals rise":
        high = rng.uniform(1.1, 2.2)
        rise = 0.0 if sudden else rng.uniform(0.0, 1200.0)
        arrivals = ramp(base, high * throughput, calm, rise)
        duration = calm + 3600.0
    elif kind == "throughput falls":
        low = load / rng.uniform(1.1, 2.5)
        fall = 0.0 if sudden else rng.uniform(0.0, 1200.0)
        mu = ramp(throughput, low * throughput, calm, fall)
        duration = calm + 3600.0
    elif kind == "fixed cost grows":
        goal = deadline * (1 - load) * rng.uniform(1.15, 2.0)
        growth = 0.0 if sudden else rng.uniform(300.0, 2400.0)
        cost = ramp(fixed, goal, calm, growth)
        duration = calm + 4500.0
    elif kind == "congestion":
        # The steady batch lies at the edge; a rise of arrivals pushes it over.
        load = rng.uniform(0.3, 0.5)
        base = load * throughput
        congestion = base * steady * rng.uniform(2.0, 6.0)
        arrivals = ramp(base, base * rng.uniform(2.0, 3.0), calm, rng.uniform(100.0, 1500.0))
        duration = calm + 3600.0
    elif kind == "poison batch":
        poison = rng.randrange(15, 60)
        duration = 6.0 * deadline + 70.0 * max(steady, 1.0) + 600.0
    elif kind == "step":
        after = rng.uniform(load, 0.8)
        arrivals = blocks((0.0, base), (calm, after * throughput))
        deadline = max(deadline, 2.5 * max(fixed / (1 - after), trigger))
    elif kind == "draining spike":
        height, length = rng.uniform(1.0, 3.0), rng.uniform(5.0, 90.0)
        if rng.random() < 0.6:
            limit = round(throughput * rng.uniform(0.2, 0.4) * deadline)
            limit = max(limit, round(1.3 * base * steady / (1 - load)))
        else:  # nothing holds it back, so it must be small beside the deadline
            length = min(length, 0.15 * deadline / height)
        arrivals = blocks((0.0, base), (calm, height * throughput), (calm + length, base))
    elif kind == "planned restart":
        restarts = [
            (calm + rng.uniform(0.0, 1500.0), rng.uniform(10.0, 400.0))
            for _ in range(rng.randrange(1, 4))
        ]
        restarts.sort()
        load = min(load, 0.5)
        base = load * throughput
        limit = round(throughput * rng.uniform(0.2, 0.5) * (deadline - fixed))
        limit = max(limit, round(1.3 * base * steady / (1 - load)))
        arrivals = constant(base)
        if rng.random() < 0.4:
            limit = UNLIMITED
            most = 0.35 * deadline / load
            restarts = [(at, min(down, most)) for at, down in restarts]
    elif kind == "catch-up":
        # The first thing it sees after a start is what came while it was down.
        load = min(load, 0.6)
        base = load * throughput
        arrivals = constant(base)
        limit = round(throughput * rng.uniform(0.2, 0.55) * (deadline - fixed))
        limit = max(limit, round(1.3 * base * steady / (1 - load)))
        backlog = round(limit * rng.uniform(1.0, 60.0))
    elif kind == "limited backlog":
        wanted = max(rng.uniform(0.15, 0.55) * deadline, 1.3 * fixed)
        limit = max(round((wanted - fixed) * throughput), 1)
        held = limit / max(wanted, trigger)
        rise = rng.choice([0.0, 300.0, 900.0])
        arrivals = ramp(0.7 * held, rng.uniform(1.1, 2.5) * held, calm, rise)
    elif kind == "idle night":
        night = rng.uniform(600.0, 3600.0)
        arrivals = blocks((0.0, base), (calm, 0.0), (calm + night, base * rng.uniform(0.5, 1.2)))
        duration = calm + night + 1200.0
        jitter_sigma = 0.0
    elif kind == "arrivals level off":
        rise = 0.0 if sudden else rng.uniform(60.0, 1200.0)
        arrivals = ramp(base, rng.uniform(load, 0.92) * throughput, calm, rise)
    elif kind == "throughput levels off":
        fall = 0.0 if sudden else rng.uniform(60.0, 1200.0)
        mu = ramp(throughput, load / rng.uniform(load, 0.92) * throughput, calm, fall)
    elif kind == "fixed cost levels off":
        goal = max(deadline * (1 - load) * rng.uniform(0.1, 0.75), fixed)
        cost = ramp(fixed, goal, calm, 0.0 if sudden else rng.uniform(300.0, 2400.0))
    elif kind == "congestion levels off":
        load = rng.uniform(0.3, 0.5)
        base = load * throughput
        congestion = base * steady * rng.uniform(2.0, 8.0)
        held = rng.random() < 0.5  # by a limit, which most rises meet; else the rise is small
        if held:
            limit = round(base * steady * rng.uniform(1.5, 4.0))
        more = rng.uniform(1.5, 3.0) if held else rng.uniform(1.1, 2.0)
        arrivals = ramp(base, base * more, calm, rng.uniform(0.0, 1500.0))
    else:  # noise
        sigma = 0.5
        load = rng.uniform(0.2, 0.6)
        arrivals = constant(load * throughput)
        deadline = max(deadline, 10.0 * max(fixed / (1 - load), trigger))
        duration = calm + 3600.0
    if kind in SPIRALS and rng.random() < 0.3:  # a limit, but one that lets too much in
        limit = round(throughput * deadline * rng.uniform(1.3, 4.0))
    if rng.random() < 0.5 and kind not in ("planned restart", "idle night"):
        every = rng.uniform(1.0, 30.0)
        arrivals = jitter(arrivals, jitter_sigma, every, duration, rng)
    scenario = Scenario(
        name=kind.replace(" ", "-"),
        duration_seconds=duration,
        trigger_seconds=trigger,
        target_seconds=rng.choice([2.0, 5.0, 5.0, 10.0, 30.0]),
        initial_limit_rows=limit,
        initial_backlog_rows=backlog,
        arrival_rows_per_second=arrivals,
        fixed_cost_seconds=cost,
        throughput_rows_per_second=mu,
        congestion_rows=congestion,
        noise_sigma=sigma,
        batch_timeout_seconds=deadline,
        restart_seconds=rng.uniform(5.0, 60.0),
    )
    return Case(kind, kind in SPIRALS, scenario, seed, restarts, poison)


def _noise(case: Case, seed: int) -> plant.Noise:
    sigma = case.scenario.noise_sigma
    if case.poison is None:
        return plant.Noise(sigma, seed)
    return _Poisoned(sigma, seed, case.poison)


def _run_plant(case: Case, noise: plant.Noise, ear: Any, live: _Stoppable | None) -> None:
    if case.restarts:
        run_with_restarts(case, noise, ear, live)
    else:
        plant.run(case.scenario, noise, ear)


class _Poisoned(plant.Noise):
    """Noise under which one attempt, and all that follow it, take far too long."""

    def __init__(self, sigma: float, seed: int, poison: int) -> None:
        super().__init__(sigma, seed)
        self._poison = poison

    def factor(self, index: int) -> float:
        return super().factor(index) * (1e6 if index >= self._poison else 1.0)


class _Stoppable(Live):
    """The live core behind a driver that its operator stops now and then."""

    def stopped(self, second: float, batch_id: int, age: float) -> None:
        """Stopped in the middle of a batch, which no supervisor ended."""
        beat = HEARTBEAT_SECONDS
        while beat < age:
            running = {**self._ids(), "batchId": batch_id, "running_seconds": beat}
            self._send("heartbeat", second - age + beat, {"queries": [running]})
            beat += HEARTBEAT_SECONDS
        body = {**self._ids(), "exception": None, "errorClassOnException": None}
        self._send("terminated", second, body)


def run(case: Case) -> Outcome:
    """Runs a case with the live core watching, and finds out when it spoke."""
    scenario = case.scenario
    ended: list[plant.Attempt] = []
    phases: Counter[str] = Counter()
    first: list[int] = []

    def judged(judgement: Any) -> None:
        phases[judgement.spiral.phase] += 1
        if judgement.spiral.phase in ALARMS and not first:
            # The judgement of an attempt's end comes before the attempt is noted here.
            own_end = judgement.event in ("progress", "terminated")
            first.append(len(ended) - 1 + int(own_end))

    live = _Stoppable(scenario, steer=False, on_judgement=judged)
    watched = Watched(Static(scenario.initial_limit_rows), live)

    class Noting:
        limit_rows = scenario.initial_limit_rows

        def started(self, second: float) -> None:
            watched.started(second)

        def ended(self, attempt: plant.Attempt) -> None:
            watched.ended(attempt)
            ended.append(attempt)

        def idle(self, second: float, until: float) -> None:
            watched.idle(second, until)

    _run_plant(case, _noise(case, case.seed), Noting(), live)
    killed = next((i for i, a in enumerate(ended) if a.killed), None)
    known = killed is not None and killed >= LEAD
    return Outcome(
        case,
        killed,
        first[0] if first else None,
        growth(case, ended, killed),
        len(ended),
        max((a.seconds for a in ended), default=0.0),
        phases,
        known and foresees(case.scenario, ended[(killed or 0) - LEAD], course=True),
        known and foresees(case.scenario, ended[(killed or 0) - LEAD], course=False),
    )


def foresees(scenario: Scenario, last: plant.Attempt, *, course: bool) -> bool:
    """Whether a batch is expected to time out soon, as of the end of ``last``; without noise.

    ``course``: arrivals and costs go on as the scenario has it; else as they are now.
    """
    arrivals = plant.Arrivals(scenario.arrival_rows_per_second, scenario.initial_backlog_rows)
    rate, deadline = scenario.arrival_rows_per_second, _deadline(scenario)
    now = _next_trigger(scenario, last.start_seconds, last.end_seconds)
    present = now
    there = last.backlog_rows + arrivals.until(now) - arrivals.until(last.start_seconds)
    for _ in range(ORACLE_BATCHES):
        rows = min(there, scenario.initial_limit_rows)
        seconds = scenario.seconds(max(round(rows), 1), now if course else present)
        if seconds > deadline:
            return True
        following = _next_trigger(scenario, now, now + seconds)
        came = arrivals.until(following) - arrivals.until(now)
        there += -rows + (came if course else rate.at(present) * (following - now))
        now = following
    return False


def _next_trigger(scenario: Scenario, begun: float, ended: float) -> float:
    interval = scenario.trigger_seconds
    if not interval:
        return ended
    return max(ended, (math.floor(begun / interval + 1e-9) + 1) * interval)


def growth(case: Case, ended: list[plant.Attempt], killed: int | None) -> int | None:
    """How many batches growth took; None where nothing grew: no time-out, or one poison batch."""
    if killed is None or case.poison is not None:
        return None
    calm = sorted(a.seconds for a in ended[: max(min(CALM_BATCHES, killed // 2), 1)])
    usual = calm[len(calm) // 2]
    index = killed
    while index > 0 and ended[index - 1].seconds > AS_USUAL * usual:
        index -= 1
    return killed - index


def run_with_restarts(case: Case, noise: plant.Noise, ear: Any, live: _Stoppable | None) -> None:
    """The plant of ``plant.run``, stopped by its operator now and then, batches or no batches."""
    scenario = case.scenario
    arrivals = plant.Arrivals(scenario.arrival_rows_per_second, scenario.initial_backlog_rows)
    planned = list(case.restarts)
    now, committed, batch_id, index = 0.0, 0, 0, 0
    ear.started(now)
    replayed_rows: int | None = None
    while now < scenario.duration_seconds:
        there = math.floor(arrivals.until(now) + 1e-6) - committed
        if there < 1:
            now += 1.0
            continue
        rows = replayed_rows or min(there, scenario.initial_limit_rows)
        seconds = scenario.seconds(rows, now) * noise.factor(index)
        index += 1
        timeout = _deadline(scenario)
        if planned and now + min(seconds, timeout) > planned[0][0]:
            at, down = planned.pop(0)
            at = max(at, now)
            if live is not None:
                live.stopped(at, batch_id, at - now)
            replayed_rows = rows
            now = at + down
            ear.started(now)
            continue
        killed = seconds > timeout
        seconds = min(seconds, timeout)
        attempt = plant.Attempt(
            batch_id,
            rows,
            now,
            seconds,
            scenario.initial_limit_rows,
            scenario.initial_limit_rows,
            there - rows,
            killed,
            replayed_rows is not None,
        )
        ear.ended(attempt)
        if killed:
            now += seconds + scenario.restart_seconds
            replayed_rows = rows
            ear.started(now)
            continue
        replayed_rows = None
        committed += rows
        batch_id += 1
        interval = scenario.trigger_seconds
        end = now + seconds
        now = max(end, (math.floor(now / interval + 1e-9) + 1) * interval) if interval else end


def cases(count: int, seed: int) -> list[Case]:
    """So many cases, half of them spirals, the kinds in turn; and half as many that level off."""
    return [make(*one) for one in drawn(count, seed)]


def drawn(count: int, seed: int) -> list[tuple[str, int]]:
    """(kind, seed) of each of them."""
    found = []
    for index in range(count):
        kinds = SPIRALS if index % 2 == 0 else LOOK_ALIKES
        found.append((kinds[(index // 2) % len(kinds)], seed * 1_000_003 + index))
    return found + [
        (LEVELLING[index % len(LEVELLING)], seed * 1_000_003 + count + index)
        for index in range(count // 2)
    ]


def report(outcomes: list[Outcome], *, show: bool) -> bool:
    """Prints the table; True where every spiral was alarmed in time and no look-alike was."""
    by_kind: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_kind[outcome.case.kind].append(outcome)
    good = True
    print(
        f"{'kind':21} {'cases':>6} {'timed out':>10} {'alarmed':>8} {'lead asked':>11} "
        f"{'led by 3':>9} {'median lead':>12}"
    )
    for kind in (*SPIRALS, *LOOK_ALIKES, *LEVELLING):
        found = by_kind[kind]
        if not found:
            continue
        timed = [o for o in found if o.timeout is not None]
        alarmed = [o for o in found if o.alarm is not None]
        if kind in SPIRALS:
            asked = [o for o in timed if o.needs_lead]
            led = [o for o in asked if o.lead is not None and o.lead >= LEAD]
            leads = sorted(o.lead for o in asked if o.lead is not None)
            middle = leads[len(leads) // 2] if leads else "-"
            print(
                f"{kind:21} {len(found):6} {len(timed):10} "
                f"{sum(o.alarm is not None for o in timed):8} {len(asked):11} "
                f"{len(led):9} {middle!s:>12}"
            )
            bad = [o for o in asked if o not in led] + [o for o in timed if o.alarm is None]
        else:
            # One that was timed out by sheer noise is no look-alike.
            bad = [o for o in alarmed if o.timeout is None]
            print(
                f"{kind:21} {len(found):6} {len(timed):10} {len(bad):8} "
                f"{'-':>11} {'-':>9} {'-':>12}"
            )
        good = good and not bad
        if show:
            for o in bad:
                print(
                    f"    seed {o.case.seed}: timeout {o.timeout} alarm {o.alarm}"
                    f" growth {o.growth} of {o.attempts},"
                    f" deadline {o.case.scenario.batch_timeout_seconds:.0f},"
                    f" worst {o.worst_seconds:.0f} s, sigma {o.case.scenario.noise_sigma}"
                    + (f", {_of_oracles(o)}" if o.case.spiral else "")
                )
    spirals = [o for o in outcomes if o.case.spiral and o.timeout is not None]
    asked = [o for o in spirals if o.needs_lead]
    led = [o for o in asked if (o.lead or 0) >= LEAD]
    quiet = [o for o in outcomes if o.case.kind in LOOK_ALIKES and o.timeout is None]
    false = [o for o in quiet if o.alarm is not None]
    print(
        f"spirals: {len(spirals)} timed out, {sum(o.alarm is not None for o in spirals)} alarmed; "
        f"{len(led)} of {len(asked)} whose growth took {LONG_ENOUGH} batches or more were led by "
        f"{LEAD} or more"
    )
    for name, could in (
        ("its course", [o for o in asked if o.foreseeable]),
        ("its present state", [o for o in asked if o.foreseeable_at_once]),
    ):
        print(
            f"  an oracle that knows the plant and {name} foresees {len(could)} of these "
            f"{len(asked)}; of them {sum((o.lead or 0) >= LEAD for o in could)} were led"
        )
    print(f"look-alikes: {len(false)} false alarms in {len(quiet)}")
    levelled = [o for o in outcomes if o.case.kind in LEVELLING and o.timeout is None]
    far = [o for o in levelled if o.worst_seconds < FAR * _deadline(o.case.scenario)]
    print(
        f"growth that levels off: {sum(o.alarm is not None for o in levelled)} alarms in "
        f"{len(levelled)}; {sum(o.alarm is not None for o in far)} in the {len(far)} whose longest "
        f"batch took less than {FAR:g} of the deadline"
    )
    return good


def _deadline(scenario: Scenario) -> float:
    return scenario.batch_timeout_seconds or math.inf


def _of_oracles(outcome: Outcome) -> str:
    if outcome.foreseeable_at_once:
        return "foreseeable"
    return "foreseeable from how the plant goes on" if outcome.foreseeable else "not foreseeable"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="name every case that went wrong")
    arguments = parser.parse_args()
    outcomes = [run(case) for case in cases(arguments.count, arguments.seed)]
    return 0 if report(outcomes, show=arguments.show) else 1


if __name__ == "__main__":
    sys.exit(main())
