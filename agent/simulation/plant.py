"""The synthetic plant: one streaming query whose batches cost what a scenario says.

A batch of n rows takes ``(c0 + n / mu * (1 + n / congestion)) * exp(N(-sigma^2 / 2, sigma))``, with
c0 and mu of the second it starts; some stall for a while beside. The first batch of a driver that
just started may take longer, by the scenario's factor: so do those that come again, until one is
through. A limit decided from batch k acts on batch k + 2. Rows arrive evenly between the points of
the series. A batch that has not ended when the scenario does is not counted; its rows are backlog.

With executors, a batch runs on those that are there when it starts. A number decided from batch k
is asked for when batch k + 1 ends, or with the next heartbeat where none runs, as a driver does it.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import msgspec

from agent.simulation.crew import Crew, Ran
from spark_listener.wire import HEARTBEAT_SECONDS

if TYPE_CHECKING:
    from agent.simulation.scenario import Scenario, Series, Stalls

#: Beyond this, in seconds, no clock tells one poll from the next.
NEVER_SECONDS: Final = 1e12
#: Spark asks a source that had nothing again after 10 ms (spark.sql.streaming.pollingDelay).
POLL_SECONDS: Final = 0.01
#: A run of more attempts than this is no simulation any more but a slip in the scenario.
MOST_ATTEMPTS: Final = 5_000_000


class TooManyBatches(ValueError):  # noqa: N818
    """The scenario asks for more batches than a run may have."""


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One attempt at a batch, as an observer of the query sees it. Seconds from the start."""

    batch_id: int
    rows: int
    start_seconds: float
    seconds: float
    limit_rows: int | None  # in force when it was planned
    next_limit_rows: int | None  # in force for the batch after it
    backlog_rows: int  # left at the source when it was planned
    killed: bool
    replayed: bool
    ran: Ran | None = None  # on what; None where the scenario has no executors
    stopped: bool = False  # killed, with its driver, by a rollout and not for its age

    @property
    def limited(self) -> bool:
        """Whether the limit held a backlog back."""
        return self.backlog_rows > 0

    @property
    def end_seconds(self) -> float:
        """When it ended or was killed."""
        return self.start_seconds + self.seconds


class Trace(msgspec.Struct, frozen=True):
    """What a run left behind."""

    attempts: list[Attempt]
    arrived_rows: int  # during the run, without the initial backlog
    committed_rows: int
    max_backlog_rows: int  # of rows not committed, as the final one
    final_backlog_rows: int
    drain_seconds: float | None  # from the largest backlog to the first batch that took all
    executor_seconds: float | None = None  # None where the scenario has no executors, as below
    executor_changes: int | None = None
    most_executors: int | None = None


class Controller(Protocol):
    """Sets the limit from what it sees of a query; ``limit_rows`` None is no limit."""

    @property
    def limit_rows(self) -> int | None:
        """The limit last decided."""

    def started(self, second: float) -> None:
        """The query starts, or starts again after it was killed or stopped."""

    def ended(self, attempt: Attempt) -> None:
        """An attempt ended, or was killed."""

    def idle(self, second: float, until: float) -> None:
        """From second to second there was nothing to read; told again, until later, as it lasts."""


@runtime_checkable
class Scales(Protocol):
    """A controller that sets the number of executors, too; None leaves it as it is."""

    @property
    def executors(self) -> int | None:
        """The number last decided."""


class Noise:
    """What chance adds to the attempts, in order: the same for every run.

    The factors exp(N(-sigma^2/2, sigma)), and the seconds of those that stall.
    """

    def __init__(self, sigma: float, seed: int, stalls: Stalls | None = None) -> None:
        self._sigma = sigma
        self._random = random.Random(seed)  # noqa: S311 - a plant, not a secret
        self._factors: list[float] = []
        self._stalls = stalls
        # Of its own, so that the factors are those of the same seed without.
        self._stalling = random.Random(f"stalls {seed}")  # noqa: S311
        self._stalled: list[float] = []

    @classmethod
    def of(cls, scenario: Scenario, seed: int) -> Noise:
        """The noise of a scenario."""
        return cls(scenario.noise_sigma, seed, scenario.stalls)

    def factor(self, index: int) -> float:
        """The factor of one attempt. Raises TooManyBatches."""
        drawn = self._factors
        while len(drawn) <= index:
            if index >= MOST_ATTEMPTS:
                raise TooManyBatches(f"more than {MOST_ATTEMPTS} batches")
            sigma = self._sigma
            drawn.append(math.exp(self._random.normalvariate(-sigma * sigma / 2.0, sigma)))
        return drawn[index]

    def stall_seconds(self, index: int) -> float:
        """What one attempt takes longer, whatever it holds."""
        stalls, drawn = self._stalls, self._stalled
        if stalls is None or stalls.mean_seconds == 0.0:
            return 0.0
        while len(drawn) <= index:
            hit = self._stalling.random() < stalls.chance
            seconds = self._stalling.expovariate(1.0 / stalls.mean_seconds)
            drawn.append(seconds if hit else 0.0)
        return drawn[index]


class Arrivals:
    """Rows arrived until a second, and when so many had arrived."""

    def __init__(self, rates: Series, initial_rows: int) -> None:
        self._times, self._rates = rates.times, rates.values
        sums = [float(initial_rows)]
        for index in range(1, len(self._times)):
            seconds = self._times[index] - self._times[index - 1]
            sums.append(sums[-1] + seconds * self._rates[index - 1])
        self._sums = sums

    def until(self, second: float) -> float:
        """Rows arrived until a second, with the initial backlog."""
        piece = bisect_right(self._times, second) - 1
        return self._sums[piece] + (second - self._times[piece]) * self._rates[piece]

    def when(self, rows: float) -> float:
        """The second by which so many rows have arrived; inf where they never do."""
        piece = max(bisect_left(self._sums, rows) - 1, 0)
        while self._rates[piece] <= 0.0:
            piece += 1
            if piece == len(self._rates):
                return math.inf
        return self._times[piece] + (rows - self._sums[piece]) / self._rates[piece]


def run(scenario: Scenario, noise: Noise, controller: Controller) -> Trace:
    """Runs a scenario to its end under a controller. Raises TooManyBatches."""
    return _Run(scenario, noise, controller).trace()


class _Run:
    """One run in progress."""

    def __init__(self, scenario: Scenario, noise: Noise, controller: Controller) -> None:
        self._scenario = scenario
        self._noise = noise
        self._controller = controller
        self._arrivals = Arrivals(scenario.arrival_rows_per_second, scenario.initial_backlog_rows)
        self._attempts: list[Attempt] = []
        self._committed = 0
        self._most_backlog = scenario.initial_backlog_rows
        self._most_seconds = 0.0
        self._drained: float | None = None
        self._crew = None if scenario.executors is None else Crew(scenario.executors)
        self._rollouts = list(scenario.rollout_seconds)
        self._cold = True  # no batch has ended since the driver started

    def trace(self) -> Trace:
        """Everything from the first second to the last."""
        scenario, controller, arrivals = self._scenario, self._controller, self._arrivals
        end, interval = scenario.duration_seconds, scenario.trigger_seconds
        in_force: int | None = scenario.initial_limit_rows
        upcoming = in_force
        scaled: int | None = None
        now, batch_id = 0.0, 0
        controller.started(now)
        while True:
            there = _next_start(arrivals, self._committed, now, interval)
            if there > now:
                self._rest(now, min(there, end))
                now, scaled = there, _wanted(controller)
            if self._rollouts and self._rollouts[0] <= now < end:
                now = self._restart(max(self._rollouts.pop(0), now))
                continue
            if now >= end:
                break
            available = self._arrived(now) - self._committed
            rows = available if in_force is None else min(available, in_force)
            if rows == available and self._drained is None:
                self._drained = now
            ended = self._batch(batch_id, rows, now, (in_force, upcoming), available - rows)
            self._note_backlog(end if ended is None else ended)
            if ended is None:
                break
            self._committed += rows
            batch_id += 1
            in_force, upcoming = upcoming, controller.limit_rows
            if self._crew is not None:
                self._crew.ask(scaled)
                scaled = _wanted(controller)
            if interval > 0.0:
                now = max(ended, (math.floor(now / interval + 1e-9) + 1) * interval)
            else:
                now = ended
        self._note_backlog(end)
        crew = self._crew
        if crew is not None:
            crew.move(end)
        return Trace(
            attempts=self._attempts,
            arrived_rows=self._arrived(end) - scenario.initial_backlog_rows,
            committed_rows=self._committed,
            max_backlog_rows=self._most_backlog,
            final_backlog_rows=self._arrived(end) - self._committed,
            drain_seconds=None if self._drained is None else self._drained - self._most_seconds,
            executor_seconds=None if crew is None else crew.seconds,
            executor_changes=None if crew is None else crew.changes,
            most_executors=None if crew is None else crew.most,
        )

    def _rest(self, now: float, until: float) -> None:
        """Nothing to read; with each heartbeat a driver asks for what was decided meanwhile."""
        crew, beat = self._crew, now + HEARTBEAT_SECONDS
        while crew is not None and beat < until:
            self._controller.idle(now, beat)
            crew.move(beat)
            crew.ask(_wanted(self._controller))
            beat += HEARTBEAT_SECONDS
        self._controller.idle(now, until)

    def _restart(self, second: float) -> float:
        """The driver went; returns when the next one is there, which nobody hears of at the end."""
        second += self._scenario.restart_seconds
        self._cold = True
        while self._rollouts and self._rollouts[0] <= second:
            del self._rollouts[0]  # due while the next one starts, which it is then
        if second < self._scenario.duration_seconds:
            self._controller.started(second)
        return second

    def _arrived(self, second: float) -> int:
        return math.floor(self._arrivals.until(second) + 1e-6)

    def _note_backlog(self, second: float) -> None:
        backlog = self._arrived(second) - self._committed
        if backlog > self._most_backlog:
            self._most_backlog, self._most_seconds, self._drained = backlog, second, None

    def _batch(
        self,
        batch_id: int,
        rows: int,
        start: float,
        limits: tuple[int | None, int | None],
        left: int,
    ) -> float | None:
        """Attempts a batch until it is through; returns when, None where the scenario ends first.

        ``limits``: in force for this batch and for the next.
        """
        scenario, attempts = self._scenario, self._attempts
        timeout = scenario.batch_timeout_seconds
        replayed = False
        while True:
            factor, crew = self._noise.factor(len(attempts)), self._crew
            if crew is not None:
                crew.move(start)
            executors = None if crew is None else crew.present
            seconds = scenario.seconds(rows, start, executors)
            driver = scenario.driver_seconds(rows, start)
            if crew is not None:
                seconds += (seconds - driver) * (crew.slower() - 1.0)
            seconds = seconds * factor + self._noise.stall_seconds(len(attempts))
            if self._cold:
                seconds += scenario.cold_start_seconds
            killed = timeout is not None and seconds > timeout
            if killed and timeout is not None:
                seconds = timeout
            stopped = bool(self._rollouts) and start + seconds > self._rollouts[0]
            if stopped:
                killed, seconds = True, self._rollouts.pop(0) - start
            if start + seconds > scenario.duration_seconds:
                return None
            ran: Ran | None = None
            if crew is not None and executors is not None:
                crew.move(start + seconds)
                ran = crew.ran(executors, min(driver * factor, seconds))
            attempt = Attempt(
                batch_id, rows, start, seconds, *limits, left, killed, replayed, ran, stopped
            )
            attempts.append(attempt)
            self._controller.ended(attempt)
            start += seconds
            if not killed:
                self._cold = False
                return start
            start = self._restart(start)
            if start >= scenario.duration_seconds:
                return None
            replayed = True


def _wanted(controller: Controller) -> int | None:
    return controller.executors if isinstance(controller, Scales) else None


def _next_start(arrivals: Arrivals, committed: int, now: float, interval: float) -> float:
    """When the next batch can start: at ``now``, or as soon as a row is there and is looked for."""
    if arrivals.until(now) + 1e-6 >= committed + 1:
        return now
    there = arrivals.when(committed + 1)
    if there >= NEVER_SECONDS:
        return math.inf
    if interval > 0.0:
        return max(now, math.ceil(there / interval - 1e-9) * interval)
    return max(now + POLL_SECONDS, math.ceil(there / POLL_SECONDS - 1e-6) * POLL_SECONDS)
