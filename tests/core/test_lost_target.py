"""Where the fixed cost takes the target, small batches look whether it still does.

They cost little, and no row.
"""

from __future__ import annotations

import pytest

from agent.core.decide.reach import LOST_BATCHES, Reach
from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet
from agent.core.measure.partitions import PartitionView
from agent.core.policy import LateRows, Policy, QueryPolicy
from spark_listener.wire import format_time
from tests.core.events import START_TIME, Driver

KEY = ("shop", "orders")
FIXED_SECONDS, TARGET_SECONDS = 20.0, 5.0
SECONDS_PER_ROW = 40e-6
LEFT_ROWS = 10**12
#: More batches than pass before the first small one.
ENOUGH = 2 * LOST_BATCHES


class Plant:
    """A query with more unread than it ever reads; what is granted is in force at once, or late."""

    def __init__(
        self,
        *,
        trigger_seconds: float = 0.0,
        configured: int | None = None,
        late_batches: int = 0,
        watermark: bool = False,
        arriving_rows: float = 0.0,
        **policy: float | LateRows,
    ) -> None:
        settings = QueryPolicy(target_seconds=TARGET_SECONDS, **policy)  # type: ignore[arg-type]
        self.fleet = Fleet(Policy(default=settings), started_time=START_TIME - 1000)
        self.driver = Driver()
        self.trigger_seconds, self.configured = trigger_seconds, configured
        self.limits = [configured or 250_000] * (1 + late_batches)
        self.watermark, self.arriving_rows = watermark, arriving_rows
        self.pressing_rows = 0.0
        self.left_rows = float(LEFT_ROWS)
        self.rows: list[int] = []
        self.reasons: list[str] = []
        trigger = f"ProcessingTimeTrigger({round(1000 * trigger_seconds)})"
        self.send(self.driver.started(trigger=trigger))
        self.reasons.clear()

    def send(self, event: dict) -> list[int]:  # type: ignore[type-arg]
        receipt = self.fleet.receive(decode_request(self.driver.body(event)), self.driver.time)
        self.reasons += [judged.limit.reason for judged in receipt.judged]
        return [grant.limit for grant in receipt.grants if grant.limit is not None]

    def batch(self, there: int | None = None) -> None:
        """Of a full limit, or of so many rows, which are all there are."""
        limit = self.limits.pop(0)
        rows = limit if there is None else min(limit, there)
        seconds = FIXED_SECONDS + SECONDS_PER_ROW * rows
        cycle = max(seconds, self.trigger_seconds)
        self.left_rows += self.arriving_rows * cycle - rows
        body = {}
        if self.watermark:
            body = {
                "eventTime": {"watermark": format_time(self.driver.time - 60.0)},
                "stateOperators": [
                    {"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": 0}
                ],
            }
        event = self.driver.progress(
            rows,
            seconds,
            limit=limit,
            configured=self.configured,
            backlog=int(self.left_rows) if there is None else 0,
            gap=cycle - seconds,
            **body,
        )
        granted = self.send(event)
        self.limits.append(granted[0] if granted else [limit, *self.limits][-1])
        self.rows.append(rows)
        if self.pressing_rows:
            left = int(self.left_rows)
            held = PartitionView(
                0, "t", "0", left, 0, None, pressing_rows_per_second=self.pressing_rows
            )
            self.fleet.hear_partitions(KEY, "q-1", 0, [held], self.driver.time)

    def learn(self) -> Plant:
        """Before all that is unread came there were batches of several sizes."""
        for there in (100_000, 600_000, 300_000) * 4:
            self.batch(there)
        self.rows.clear()
        self.reasons.clear()
        return self

    def run(self, batches: int) -> Plant:
        for _ in range(batches):
            self.batch()
        return self

    @property
    def rows_per_second(self) -> float:
        seconds = [
            max(FIXED_SECONDS + SECONDS_PER_ROW * rows, self.trigger_seconds) for rows in self.rows
        ]
        return sum(self.rows) / sum(seconds)


@pytest.mark.parametrize("late_batches", [0, 1])
@pytest.mark.parametrize("trigger_seconds", [0.0, 60.0])
def test_small_batches_cost_next_to_nothing(
    trigger_seconds: float, late_batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of 200, and what they teach brings some of that back.

    Under a trigger interval the small batch takes as long as a large one, and costs its rows.
    """
    world = {"trigger_seconds": trigger_seconds, "late_batches": late_batches}
    looking = Plant(**world).learn().run(200)  # type: ignore[arg-type]
    assert "probe" in looking.reasons
    monkeypatch.setattr(Reach, "probe_rows", lambda *_, **__: None)
    blind = Plant(**world).learn().run(200)  # type: ignore[arg-type]
    assert "probe" not in blind.reasons
    least = 0.99 if trigger_seconds else 0.995
    assert looking.rows_per_second > least * blind.rows_per_second


@pytest.mark.parametrize("trigger_seconds", [0.0, 60.0])
def test_the_limit_goes_straight_back_after_a_small_batch(trigger_seconds: float) -> None:
    plant = Plant(trigger_seconds=trigger_seconds).learn().run(ENOUGH)
    (small,) = [n for n, reason in enumerate(plant.reasons) if reason == "probe"]
    before, small_rows, after = plant.rows[small : small + 3]
    assert small_rows < 0.1 * before
    assert after > 0.9 * before


@pytest.mark.parametrize(
    ("watermark", "late_rows", "small"),
    [(False, "guard", 1), (True, "guard", 0), (True, "hold", 0), (True, "allow", 1)],
)
def test_no_batch_is_made_smaller_to_look_where_that_may_drop_late_rows(
    watermark: bool, late_rows: LateRows, small: int
) -> None:
    """All stand at the limit that the job configured: no end is Weir's."""
    plant = Plant(
        configured=1_000_000, trigger_seconds=60.0, watermark=watermark, late_rows=late_rows
    )
    plant.learn().run(ENOUGH)
    assert plant.reasons.count("probe") == small
    assert sum(rows < 0.5 * 1_000_000 for rows in plant.rows) == small


@pytest.mark.parametrize("pressing_rows", [50_000.0, 10_000.0], ids=["more than comes", "less"])
def test_no_batch_is_made_smaller_to_look_while_retention_would_delete_rows(
    pressing_rows: float,
) -> None:
    plant = Plant(arriving_rows=20_000.0, deadline_seconds=60.0)
    plant.learn().pressing_rows = pressing_rows
    plant.run(ENOUGH)
    assert "probe" not in plant.reasons
    plant.pressing_rows = 0.0
    plant.driver.time += 600.0  # what brokers said is believed no longer
    plant.run(ENOUGH)
    assert "probe" in plant.reasons
