"""A query with a watermark, played batch by batch under a fleet: what Spark drops of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.core.policy import LateRows, Policy, QueryPolicy
from tests.core.test_fleet import KEY, World

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.core.judgement import QueryView


class Played:
    """One query, and its batches; what they read, and under which limits, its kind of job says."""

    def __init__(self, late_rows: LateRows, mode: str, delay_seconds: float) -> None:
        told = QueryPolicy(late_rows=late_rows, target_seconds=2.0, mode=mode)  # type: ignore[arg-type]
        self.world = World(Policy(default=told))
        self.delay = delay_seconds
        self.greatest = self.watermark = 0.0
        self.batches: list[tuple[Any, int, int]] = []  # limits, what was read, dropped rows

    @property
    def view(self) -> QueryView:
        return self.world.view(KEY)

    @property
    def dropped(self) -> int:
        return sum(dropped for _, _, dropped in self.batches)

    def move_watermark(self, times: Iterable[float]) -> None:
        """At a batch's end, by the event times that it read."""
        self.greatest = max([self.greatest, *times])
        self.watermark = max(self.watermark, self.greatest - self.delay)
