"""What Weir is measured against: a fixed limit, Spark's DStreams PID, and a plain FLIP-183 port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agent.simulation.plant import Attempt


class Static:
    """A limit that never changes; see ``plant.Controller``."""

    def __init__(self, limit_rows: int | None) -> None:
        self.limit_rows = limit_rows
        self.executors: int | None = None

    def started(self, second: float) -> None:
        """Nothing to do."""

    def ended(self, attempt: Attempt) -> None:
        """Nothing to do."""

    def idle(self, second: float, until: float) -> None:
        """Nothing to do."""


class Pid(Static):
    """Spark's ``PIDRateEstimator`` with its defaults, the target as batch interval.

    ``rate -= Kp * error + Ki * backlog error``; error is the rate minus the last batch's rows per
    second, the backlog error is the scheduling delay (how far batches have fallen behind a
    schedule of one per target) times rows per second over the interval.
    """

    PROPORTIONAL: Final = 1.0
    INTEGRAL: Final = 0.2
    MINIMUM_ROWS_PER_SECOND: Final = 100.0

    def __init__(self, limit_rows: int, target_seconds: float) -> None:
        super().__init__(limit_rows)
        self._target_seconds = target_seconds
        self._rate: float | None = None
        self._delay_seconds = 0.0

    def ended(self, attempt: Attempt) -> None:
        """As each completed batch does in Spark: the first one publishes no rate."""
        if attempt.killed or attempt.rows == 0:
            return
        interval = self._target_seconds
        processed = attempt.rows / attempt.seconds
        before, self._rate = self._rate, processed
        if before is not None:
            error = before - processed
            behind = self._delay_seconds * processed / interval
            rate = before - self.PROPORTIONAL * error - self.INTEGRAL * behind
            self._rate = max(rate, self.MINIMUM_ROWS_PER_SECOND)
            self.limit_rows = max(1, round(self._rate * interval))
        self._delay_seconds = max(0.0, self._delay_seconds + attempt.seconds - interval)


class Flip183(Static):
    """Flink's buffer debloating on rows: throughput times target, smoothed.

    As ``BufferDebloater`` and ``BufferSizeEMA`` do it: the wanted size is bounded by twice the
    last one, then averaged into it; the outcome is announced when it has moved by a quarter. Flink
    takes a sample each 200 ms, by default 20 into the average, so each with a weight of 2/21; a
    batch is a sample here, and with that weight the rule would take tens of them to follow.
    """

    WEIGHT: Final = 0.3
    THRESHOLD: Final = 0.25

    def __init__(self, limit_rows: int, target_seconds: float) -> None:
        super().__init__(limit_rows)
        self._announced = limit_rows
        self._size = float(limit_rows)
        self._target_seconds = target_seconds

    def ended(self, attempt: Attempt) -> None:
        """After each batch that read something: FLIP-183 leaves idle time out."""
        if attempt.killed or attempt.rows == 0:
            return
        wanted = attempt.rows / attempt.seconds * self._target_seconds
        self._size += self.WEIGHT * (min(wanted, 2.0 * self._size) - self._size)
        size = max(1, round(self._size))
        if abs(size - self._announced) >= self.THRESHOLD * self._announced:
            self.limit_rows = self._announced = size
