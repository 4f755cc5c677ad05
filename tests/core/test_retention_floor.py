"""A limit of ours never lets retention delete rows that a larger batch would have read in time."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest

from agent.core.decode.events import decode_request
from agent.core.decode.kafka_offsets import Held
from agent.core.fleet import Fleet
from agent.core.measure.partitions import PartitionView, Watched, pressing_rows_per_second
from agent.core.policy import Policy, QueryPolicy
from tests.core.events import START_TIME, Driver

if TYPE_CHECKING:
    from agent.core.decode.kafka_offsets import Offsets

KEY = ("shop", "orders")
PLACE = ("orders", "0")
FIXED_SECONDS, ROWS_PER_SECOND = 4.0, 4000.0
BURST_ROWS, ARRIVING_ROWS_PER_SECOND = 2_000_000, 200.0
#: The burst is deleted at once, as a segment is: in good time for a query without a limit, which
#: reads 4,000 rows per second, and too early for one that takes 800 per second (4,000 a batch).
RETENTION_SECONDS = 900.0


class World:
    """A topic with a burst in it, a query that reads it under the limits granted, an agent."""

    rows_per_offset = 1

    def __init__(
        self, policy: Policy, *, asked: bool, retention_seconds: float = RETENTION_SECONDS
    ) -> None:
        self.retention_seconds = retention_seconds
        self.fleet = Fleet(policy, started_time=START_TIME - 1000)
        self.driver = Driver()
        self.watched = Watched()
        self.asked = asked
        self.next_row, self.lost_rows, self.limit = 0, 0, 500
        self.reasons: set[str] = set()
        self.longest_seconds = 0.0

    @property
    def latest(self) -> int:
        seconds = self.driver.time - START_TIME
        return BURST_ROWS + int(ARRIVING_ROWS_PER_SECOND * seconds)

    @property
    def earliest(self) -> int:
        """Of the rows that came one after the other, retention deletes one after the other."""
        late = self.driver.time - START_TIME - self.retention_seconds
        return 0 if late < 0.0 else BURST_ROWS + int(ARRIVING_ROWS_PER_SECOND * late)

    def ask(self) -> None:
        position: Offsets = {PLACE: self.next_row}
        held = {PLACE: Held(self.earliest, self.latest)}
        now = self.driver.time
        retention = {"orders": self.retention_seconds}
        views = self.watched.observe(0, position, held, retention, now)
        self.fleet.hear_partitions(KEY, "q-1", 0, views, now)

    def read(self) -> tuple[int, int]:
        """The next batch's offsets, and how many are left unread."""
        if self.earliest > self.next_row:
            self.lost_rows += self.earliest - self.next_row
            self.next_row = self.earliest
        admitted = min(self.limit, self.latest - self.next_row)
        self.next_row += admitted
        return admitted, self.latest - self.next_row

    def batch(self) -> None:
        admitted, backlog = self.read()
        rows = admitted * self.rows_per_offset
        seconds = FIXED_SECONDS + rows / ROWS_PER_SECOND
        self.longest_seconds = max(self.longest_seconds, seconds)
        said = {"source": 0, "unit": "rows", "limit": self.limit, "configured": None}
        said |= {"backlog": backlog, "admitted": admitted}
        event = self.driver.progress(rows, seconds, limits=[said])
        request = decode_request(self.driver.body(event))
        receipt = self.fleet.receive(request, self.driver.time + 0.05)
        if self.asked:
            self.ask()
        if receipt.grants and receipt.grants[0].limit is not None:
            self.limit = receipt.grants[0].limit
        self.reasons.add(receipt.judged[0].limit.reason)


class AfterCalm(World):
    """The same after so many seconds in which it kept up, and brokers were asked each five."""

    def __init__(self, calm_seconds: float, retention_seconds: float) -> None:
        policy = Policy(default=QueryPolicy(target_seconds=5.0))
        super().__init__(policy, asked=True, retention_seconds=retention_seconds)
        self.calm_rows = int(ARRIVING_ROWS_PER_SECOND * calm_seconds)
        for seconds in range(0, int(calm_seconds), 5):
            end = int(ARRIVING_ROWS_PER_SECOND * seconds)
            deleted = max(0, end - int(ARRIVING_ROWS_PER_SECOND * retention_seconds))
            self.next_row = max(0, end - 1000)
            self.watched.observe(
                0,
                {PLACE: self.next_row},
                {PLACE: Held(deleted, end)},
                {"orders": retention_seconds},
                START_TIME - calm_seconds + seconds,
            )

    @property
    def latest(self) -> int:
        return self.calm_rows + super().latest

    @property
    def earliest(self) -> int:
        late = self.driver.time - START_TIME - self.retention_seconds
        if late < 0.0:
            return max(0, self.calm_rows + int(ARRIVING_ROWS_PER_SECOND * late))
        return self.calm_rows + super().earliest


class Topics(World):
    """Topics of one source, of which none grows and one is deleted at once after its retention.

    A limit is shared over them by what is unread in each, as Spark does.
    """

    def __init__(self, policy: Policy, rows_per_offset: int, **unread: int) -> None:
        super().__init__(policy, asked=True)
        self.rows_per_offset = rows_per_offset
        self.latest_of = {(topic, "0"): offsets for topic, offsets in unread.items()}
        self.next_of = dict.fromkeys(self.latest_of, 0)

    def earliest_of(self, place: tuple[str, str]) -> int:
        gone = place == PLACE and self.driver.time - START_TIME >= RETENTION_SECONDS
        return self.latest_of[place] if gone else 0

    def ask(self) -> None:
        held = {one: Held(self.earliest_of(one), end) for one, end in self.latest_of.items()}
        retention = {"orders": RETENTION_SECONDS, "clicks": 100.0 * RETENTION_SECONDS}
        now = self.driver.time
        views = self.watched.observe(0, self.next_of, held, retention, now)
        self.fleet.hear_partitions(KEY, "q-1", 0, views, now)

    def read(self) -> tuple[int, int]:
        lost = self.earliest_of(PLACE) - self.next_of[PLACE]
        if lost > 0:
            self.lost_rows += lost
            self.next_of[PLACE] += lost
        unread = {one: end - self.next_of[one] for one, end in self.latest_of.items()}
        every = sum(unread.values())
        admitted = min(self.limit, every)
        for one, offsets in unread.items():
            self.next_of[one] += min(offsets, math.ceil(admitted * offsets / max(every, 1)))
        left = sum(self.latest_of.values()) - sum(self.next_of.values())
        return every - left, left


@pytest.mark.parametrize(
    ("rows_per_offset", "unread"),
    [(1, {"orders": 200_000, "clicks": 2_000_000}), (2, {"orders": 750_000})],
    ids=["beside a topic that is kept", "two rows of each offset"],
)
def test_what_a_partition_gets_of_a_limit_is_enough(
    rows_per_offset: int, unread: dict[str, int]
) -> None:
    world = Topics(Policy(), rows_per_offset, **unread)
    while world.driver.time - START_TIME < 1.1 * RETENTION_SECONDS:
        world.batch()
    assert "floor:retention" in world.reasons
    assert world.lost_rows == 0


def run(*, asked: bool, deadline_seconds: float | None = None) -> World:
    settings = QueryPolicy(target_seconds=5.0, deadline_seconds=deadline_seconds)
    world = World(Policy(default=settings), asked=asked)
    while world.driver.time - START_TIME < 2.0 * RETENTION_SECONDS:
        world.batch()
    return world


def test_a_burst_is_read_before_retention_deletes_it() -> None:
    blind, asking = run(asked=False), run(asked=True)
    assert blind.lost_rows > 0.5 * BURST_ROWS  # else this would show nothing
    assert asking.lost_rows == 0
    assert "floor:retention" in asking.reasons
    assert "floor:retention" not in blind.reasons


def test_nor_where_it_takes_nearly_all_of_the_capacity() -> None:
    """All at once takes 504 s of the 530: batches that merely pay would read four fifths of it."""
    world = World(
        Policy(default=QueryPolicy(target_seconds=5.0)), asked=True, retention_seconds=530
    )
    while world.driver.time - START_TIME < 1100.0:
        world.batch()
    assert world.lost_rows == 0
    assert "floor:retention" in world.reasons


@pytest.mark.parametrize("calm_seconds", [3600.0, 86_400.0])
@pytest.mark.parametrize(("retention_seconds", "longest"), [(530.0, 0.5), (700.0, 0.15)])
def test_nor_after_hours_of_calm(
    calm_seconds: float, retention_seconds: float, longest: float
) -> None:
    """What is known of the hours before makes no row older, and no batch larger than it must be."""
    world = AfterCalm(calm_seconds, retention_seconds)
    while world.driver.time - START_TIME < 1.3 * retention_seconds:
        world.batch()
    assert world.lost_rows == 0
    assert world.longest_seconds < longest * retention_seconds


def test_the_deadline_stands_above_it() -> None:
    """A batch that is killed reads nothing at all."""
    world = run(asked=True, deadline_seconds=20.0)
    assert 6.0 < world.longest_seconds <= 20.0


def test_the_limit_comes_back_once_nothing_presses() -> None:
    world = run(asked=True)
    for _ in range(40):
        world.batch()
    view = world.fleet.view(KEY, world.driver.time)
    assert view.limit.reason != "floor:retention"


def view(backlog_rows: int, pressing: float | None) -> PartitionView:
    return PartitionView(0, "t", "0", backlog_rows, 0, None, pressing_rows_per_second=pressing)


def test_what_presses() -> None:
    assert pressing_rows_per_second([view(1000, None)]) is None
    assert pressing_rows_per_second([view(0, 50.0)]) is None
    assert pressing_rows_per_second([view(1000, 10.0), view(500, 10.0), view(0, 1.0)]) == 30.0
    # Of a limit each partition gets what its unread rows are of all: those that nothing presses,
    # too.
    assert pressing_rows_per_second([view(1000, 10.0), view(9000, None)]) == 100.0


def test_what_brokers_said_holds_no_longer_than_they_are_believed() -> None:
    world = World(Policy(), asked=False)
    world.batch()
    query = world.fleet._roster[KEY]
    now = world.driver.time
    world.fleet.hear_partitions(KEY, "q-1", 0, [view(1000, 10.0)], now, valid_seconds=60.0)
    assert query.pressing_rows(now) == 10.0
    assert query.pressing_rows(now + 61.0) == 0.0
    world.fleet.hear_partitions(KEY, "q-1", 0, [view(1000, None)], now)
    assert query.pressing_rows(now) == 0.0


@pytest.mark.parametrize(("seed", "fixed", "high"), [(10, 1.0, 4641.0), (50, 0.79, 4026.0)])
def test_where_nothing_is_deleted_it_is_never_the_reason(
    seed: int, fixed: float, high: float
) -> None:
    """More arrives for a while than a batch of the target digests; it is suffered at first."""
    draw = random.Random(seed)
    fleet = Fleet(Policy(default=QueryPolicy(target_seconds=2.0)), started_time=START_TIME - 1000)
    driver, limit, waiting, reasons = Driver(), 4000, 0.0, []
    for number in range(30):
        rows = int(min(limit, waiting))
        seconds = (fixed + rows / ROWS_PER_SECOND) * draw.lognormvariate(0.0, 0.1)
        waiting += (high if 10 <= number < 20 else 200.0) * seconds - rows
        event = driver.progress(rows, seconds, limit=limit, configured=None, backlog=int(waiting))
        receipt = fleet.receive(decode_request(driver.body(event)), driver.time + 0.05)
        if receipt.grants and receipt.grants[0].limit is not None:
            limit = receipt.grants[0].limit
        reasons.append(receipt.judged[0].limit.reason)
    assert "floor:stability" in reasons
    assert "floor:retention" not in reasons
