"""Time by state: how a query's every second was spent, adding up to one second per second.

Flink's idle / busy / backPressured ms per second, for a query that works in batches: *idle* waits
for data or its trigger, *busy* runs a batch, *backpressured* runs one while a limit holds back a
backlog: more than another batch of that size would take. What the next batch takes whole waits for
its turn, and for no limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from agent.core.measure.decaying import LATELY_SECONDS, DecayingRate

if TYPE_CHECKING:
    from agent.core.judgement import Pressure

#: Over so long the share of time busy is averaged, as other queries of the application feel it.
BUSY_SECONDS: Final = 20.0
#: Flink's web UI calls up to 10 % OK, up to 50 % LOW, more HIGH.
_LOW_RATIO: Final = 0.1
_HIGH_RATIO: Final = 0.5

Spent = Literal["busy", "idle", "backpressured"]
SPENT: Final[tuple[Spent, ...]] = ("busy", "idle", "backpressured")


class Occupancy(msgspec.Struct):
    """Accounts time up to a moving moment; never twice, never backwards. Epoch seconds."""

    until: float | None = None
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    backpressured_seconds: float = 0.0
    held_back: DecayingRate = msgspec.field(default_factory=DecayingRate)
    busy: DecayingRate = msgspec.field(default_factory=DecayingRate)

    def begin(self, time: float) -> None:
        """A run starts: what was before it is nobody's time."""
        self.until = time if self.until is None else max(self.until, time)

    def spend(self, time: float, on: Spent) -> None:
        """Everything since the last call, up to ``time``, went into one state."""
        if self.until is None:
            self.until = time
            return
        seconds = time - self.until
        if seconds <= 0.0:
            return
        self.until = time
        if on == "busy":
            self.busy_seconds += seconds
        elif on == "idle":
            self.idle_seconds += seconds
        else:
            self.backpressured_seconds += seconds
        self.busy.add(0.0 if on == "idle" else seconds, seconds, BUSY_SECONDS)
        self.held_back.add(seconds if on == "backpressured" else 0.0, seconds, LATELY_SECONDS)

    def count_on(self, before: Occupancy) -> None:
        """The seconds so far are those of another, which has the series that these go on in."""
        self.busy_seconds, self.idle_seconds = before.busy_seconds, before.idle_seconds
        self.backpressured_seconds = before.backpressured_seconds

    @property
    def ratio(self) -> float:
        """Share of the last minute in which a limit held back a backlog."""
        return self.held_back.value or 0.0

    @property
    def busy_share(self) -> float:
        """Share of the last seconds in which a batch ran, from 0 to 1."""
        return min(self.busy.value or 0.0, 1.0)

    @property
    def pressure(self) -> Pressure:
        """Flink's three steps of the ratio."""
        if self.ratio <= _LOW_RATIO:
            return "ok"
        return "low" if self.ratio <= _HIGH_RATIO else "high"
