"""Rows that are not read in the order in which they came: nothing is cut where that drops some.

Spark's watermark goes with the newest row of all, whichever source or partition it came from. All
rows here come in order and none is late: as configured, not one of them is dropped.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
from typing import TYPE_CHECKING, Any

import pytest

from agent.core.fleet import Fleet, Order, Receipt
from agent.core.fleet.orders import UNEVEN_NOTE
from spark_listener.wire import format_time
from tests.core.events import START_TIME
from tests.core.played import Played
from tests.core.test_fleet import KEY

if TYPE_CHECKING:
    from agent.core.policy import LateRows

FIXED_SECONDS, THROUGHPUT = 1.0, 4000.0


COSMOS = "com.azure.cosmos.spark.ChangeFeedMicroBatchStream"
DELTA = "org.apache.spark.sql.delta.sources.DeltaSource"
FILES = "org.apache.spark.sql.execution.streaming.FileStreamSource"


@dataclasses.dataclass
class Lane:
    """A source or a partition: rows a second from one moment to the next, and what is read."""

    pieces: list[tuple[float, float, float]]  # begin, end, rows per second
    read: int = 0
    until_time: float = math.inf  # as looked up when an AvailableNow run began

    def arrived(self, time: float) -> int:
        time = min(time, self.until_time)
        return int(sum(max(0.0, min(time, end) - begin) * rate for begin, end, rate in self.pieces))

    def time_of(self, row: int) -> float:
        for begin, end, rate in self.pieces:
            rows = (end - begin) * rate
            if row < rows:
                return begin + row / rate
            row -= int(rows)
        raise ValueError(row)


def always(rate: float) -> Lane:
    return Lane([(START_TIME, math.inf, rate)])


class Job(Played):
    """A query with a watermark, over sources of a limit each or partitions that share one."""

    def __init__(
        self,
        lanes: list[Lane],
        *,
        sources: bool | list[list[int]],
        delay: float = 600.0,
        late_rows: LateRows = "guard",
        mode: str = "on",
        shares: bool | None = True,
        tells: float | None = None,
        configured: int | None = None,
        trigger: str = "ProcessingTimeTrigger(0)",
        source_class: str = "",
        in_order: bool | None = None,
    ) -> None:
        super().__init__(late_rows, mode, delay)
        self.lanes = lanes
        # Of each source the lanes that share its limit.
        numbers = range(len(lanes))
        if isinstance(sources, list):
            self.groups = sources
        else:
            self.groups = [[number] for number in numbers] if sources else [list(numbers)]
        self.late = 0.0  # of one row in each batch
        self.shares, self.tells, self.configured = shares, tells, configured
        places = len(self.groups)
        self.limits: list[list[int | None]] = [[configured] * places, [configured] * places]
        self.trigger = trigger
        self.source_class = source_class  # empty: Kafka's
        self.in_order = in_order
        self.world.driver.tells_trigger = trigger == "ProcessingTimeTrigger(0)"
        self.world.send(self._started())

    def _started(self) -> dict[str, Any]:
        told = {} if self.tells is None else {"watermarkDelaySeconds": self.tells}
        return self.world.driver.started(trigger=self.trigger, **told)

    def restart(self, down_seconds: float, *, ended: bool = True) -> Job:
        """``ended``: its end is told, as of one that was stopped."""
        driver = self.world.driver
        if ended:
            self.world.send(driver.terminated())
        driver.time += down_seconds
        driver.run_id += "+"
        receipt = self.world.send(self._started())
        self.limits = [[self.configured] * len(self.limits[0])]
        self._take(receipt.grants)
        self.limits.append(list(self.limits[0]))
        return self

    def _take(self, grants: Any) -> None:
        now = list(self.limits[-1])
        for grant in grants:
            now[grant.source] = grant.limit
        self.limits[-1] = now

    def run(self, count: int) -> Job:
        for _ in range(count):
            self._batch()
        return self

    def idle(self, seconds: float) -> Job:
        """Triggers that find nothing."""
        self.world.driver.time += seconds
        self.world.send(self.world.driver.idle())
        return self

    def stall(self, seconds: float) -> Job:
        """One batch that takes so long, with a driver that tells it is alive."""
        self._batch(seconds)
        return self

    def sleep(self, seconds: float, *, in_batch: bool) -> Job:
        """Its machine does, in mid-batch or between two; its driver then lets its grants go."""
        driver = self.world.driver
        if in_batch:
            self._batch(slept_seconds=seconds)
        else:
            driver.time += seconds
            driver.clock_origin = (driver.clock_origin or 0.0) + seconds
            self._take(self.world.send(driver.heartbeat(driver.batch_id)).grants)
        self.limits = [list(self.limits[-1]), list(self.limits[-1])]  # before another is planned
        return self

    def replay(self) -> Job:
        """The batch in hand ended with its run: the next one runs it again, and looks nowhere."""
        self._batch(looks=False)
        return self

    def _batch(
        self, stalled_seconds: float = 0.0, *, slept_seconds: float = 0.0, looks: bool = True
    ) -> None:
        driver, time = self.world.driver, self.world.driver.time
        if stalled_seconds:
            for age in range(5, int(stalled_seconds), 5):
                driver.time = time + age
                beat = driver.heartbeat(driver.batch_id + 1, float(age))
                self._take(self.world.send(beat).grants)
            driver.time = time
        limits = self.limits.pop(0)
        waits = [max(0, lane.arrived(time) - lane.read) for lane in self.lanes]
        takes = [0] * len(waits)
        for group, limit in zip(self.groups, limits, strict=True):
            # As Spark's KafkaMicroBatchStream.rateLimit.
            waiting = max(sum(waits[lane] for lane in group), 1)
            share = 1.0 if limit is None else min(1.0, limit / waiting)
            for lane in group:
                takes[lane] = math.ceil(waits[lane] * share)
        dropped = 0
        before = [lane.read for lane in self.lanes]
        seen: list[float] = []
        for lane, take in zip(self.lanes, takes, strict=True):
            if not take:
                continue
            seen += [lane.time_of(lane.read), lane.time_of(lane.read + take - 1)]
            rows = range(lane.read, lane.read + take)
            dropped += bisect.bisect_left(rows, self.watermark, key=lane.time_of)
            lane.read += take
        rows = sum(takes)
        body: dict[str, Any] = {
            "eventTime": {"watermark": format_time(self.watermark)},
            "stateOperators": [
                {"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": dropped}
            ],
        }
        if seen:
            body["eventTime"] |= {
                "min": format_time(min(seen) - self.late),
                "max": format_time(max(seen)),
            }
        self.batches.append((limits, rows, dropped))
        told = self._told(before, waits)
        if not looks:
            for one in told:
                del one["latestOffset"]
        if slept_seconds:
            driver.clock_origin = (driver.clock_origin or 0.0) + slept_seconds
        event = driver.progress(
            rows,
            stalled_seconds + slept_seconds + FIXED_SECONDS + rows / THROUGHPUT,
            limits=self._limits(limits, waits, takes),
            sources=told,
            **body,
        )
        self.limits.append(list(self.limits[-1]))
        self._take(self.world.send(event).grants)
        self.move_watermark(seen)

    def _limits(
        self, limits: list[int | None], waits: list[int], takes: list[int]
    ) -> list[dict[str, Any]]:
        left = [sum(waits[lane] - takes[lane] for lane in group) for group in self.groups]
        said = [
            {
                "source": number,
                "unit": "rows",
                "limit": limit,
                "configured": self.configured,
                "backlog": backlog,
            }
            for number, (limit, backlog) in enumerate(zip(limits, left, strict=True))
        ]
        if self.source_class:
            said = [{**one, "source_class": self.source_class} for one in said]
        if self.in_order is not None:
            said = [{**one, "in_order": self.in_order} for one in said]
        if len(self.groups) > 1 and self.shares is not None:
            said = [{**one, "shares_watermark": self.shares} for one in said]
            if self.tells is not None:
                said = [{**one, "watermark_delay_seconds": self.tells} for one in said]
        return said

    def _told(self, before: list[int], waits: list[int]) -> list[dict[str, Any]]:
        ends = [lane.read for lane in self.lanes]
        latest = [start + waiting for start, waiting in zip(before, waits, strict=True)]
        offsets = [
            tuple({str(place): of[place] for place in group} for of in (before, ends, latest))
            for group in self.groups
        ]
        if self.source_class:
            # Of such offsets nobody but the source can tell what they count.
            return [
                {
                    "description": f"{self.source_class}@7d3e8655",
                    **dict.fromkeys(("startOffset", "endOffset", "latestOffset"), "eyJWIjoxfQ=="),
                    "numInputRows": sum(end.values()) - sum(start.values()),
                }
                for start, end, _ in offsets
            ]
        return [
            {
                "description": f"KafkaV2[Subscribe[t{number}]]",
                "startOffset": {f"t{number}": start},
                "endOffset": {f"t{number}": end},
                "latestOffset": {f"t{number}": newest},
                "numInputRows": sum(end.values()) - sum(start.values()),
            }
            for number, (start, end, newest) in enumerate(offsets)
        ]

    def cut(self, since: int = 0) -> list[int]:
        """Batches, by number, for which a limit was lower than what is configured."""
        return [
            number
            for number, (limits, _, _) in enumerate(self.batches)
            if number >= since and any(limit != self.configured for limit in limits)
        ]


def test_sources_under_one_watermark_are_left_as_configured() -> None:
    """A slow one and a fast one: cut, the slow one's rows take the watermark past the other's."""
    lanes = [always(1.0), always(1000.0)]
    job = Job(lanes, sources=True).run(40).restart(3600.0).run(10)
    assert job.dropped == 0
    assert job.cut() == []
    assert job.view.limit.reason == "hold:late_rows"
    (finding,) = [one for one in job.view.findings if one.check == "late_rows"]
    assert "one watermark stands over several sources" in finding.evidence
    assert job.view.late_rows_held is False
    order = Order(who="kim", reason="", limit=100)
    (said,) = job.world.fleet.control(*KEY, order, job.world.now)
    assert said.note == UNEVEN_NOTE
    job.run(5)
    assert job.cut() == []


def test_cut_all_the_same_such_sources_lose_rows() -> None:
    """What the test above keeps from happening."""
    lanes = [always(1.0), always(1000.0)]
    job = Job(lanes, sources=True, late_rows="allow").run(40).restart(3600.0).run(10)
    assert job.dropped > 10_000


@pytest.mark.parametrize("shares", [False, None])
def test_sources_with_a_watermark_each_are_steered_where_the_driver_says_so(
    shares: bool | None,
) -> None:
    job = Job([always(500.0), always(500.0)], sources=True, shares=shares)
    job.run(20).restart(3600.0).run(6)
    assert bool(job.cut()) is (shares is False)


@pytest.mark.parametrize(("tells", "cut"), [(600.0, True), (15.0, False), (None, False)])
def test_of_several_sources_the_delay_is_what_their_plan_says(
    tells: float | None, cut: bool
) -> None:
    """Batches show how far the newest row of one lies beyond another's watermark: any number."""
    lanes = [always(500.0), always(500.0), always(1.0)]
    job = Job(lanes, sources=[[0, 1], [2]], shares=False, tells=tells)
    assert bool(job.run(20).cut(6)) is cut


DOWN = START_TIME + 50.0


def hour(*, late: bool, late_rows: LateRows = "guard") -> Job:
    """Two partitions, alike until the job is down; then one gets all its rows at the end."""
    calm = [(START_TIME, DOWN, 500.0)]
    even = [*calm, (DOWN, math.inf, 500.0)]
    burst = [*calm, (DOWN + 3400.0, DOWN + 3600.0, 9000.0), (DOWN + 3600.0, math.inf, 500.0)]
    lanes = [Lane(even), Lane(burst if late else list(even))]
    return Job(lanes, sources=False, late_rows=late_rows)


def until_down(job: Job) -> int:
    """Runs it as long as all is calm; how many batches that were."""
    while job.world.driver.time < DOWN:
        job.run(1)
    return len(job.batches)


@pytest.mark.parametrize("late", [True, False])
def test_what_piled_up_unseen_in_partitions_is_read_as_configured(late: bool) -> None:
    job = hour(late=late)
    began = until_down(job)
    job.restart(3600.0).run(12)
    assert job.dropped == 0
    assert job.batches[began][0] == [None]
    assert job.cut(began + 2), "it is steered again, once all of that is read"


@pytest.mark.parametrize("in_batch", [False, True])
def test_while_a_drivers_machine_slept_nobody_saw_what_came(in_batch: bool) -> None:
    """By its monotonic clock, which stood still, no time passed between two looks."""
    job = hour(late=True)
    job.world.driver.clock_origin = START_TIME
    until_down(job)
    assert job.cut(), "it is steered"
    job.sleep(3600.0, in_batch=in_batch)
    began = len(job.batches)
    assert job.view.limit.reason == "hold:late_rows"
    job.run(12)
    assert job.batches[began][0] == [None]
    assert job.dropped == 0
    assert job.cut(began + 2), "it is steered again, once all of that is read"


def test_cut_all_the_same_such_partitions_lose_rows() -> None:
    job = hour(late=True, late_rows="allow")
    until_down(job)
    assert job.restart(3600.0).run(12).dropped > 10_000


@pytest.mark.parametrize(
    ("source_class", "in_order", "late_rows", "cut"),
    [
        (COSMOS, None, "guard", False),
        (COSMOS, None, "allow", True),
        (DELTA, None, "guard", True),
        (FILES, None, "guard", True),
        (FILES, False, "guard", False),  # latestFirst
    ],
)
def test_a_source_of_which_nobody_knows_in_what_order_it_reads_is_left_as_configured(
    source_class: str, in_order: bool | None, late_rows: LateRows, cut: bool
) -> None:
    """It may share its limit over ranges of its own, as Kafka's does over partitions."""
    calm = [(START_TIME, DOWN, 500.0)]
    ends = [(DOWN + 3400.0, DOWN + 3600.0, 9000.0), (DOWN + 3600.0, math.inf, 500.0)]
    lanes = [Lane([*calm, (DOWN, math.inf, 500.0)]), Lane([*calm, *ends])]
    job = Job(
        lanes if source_class == COSMOS else lanes[:1],
        sources=False,
        late_rows=late_rows,
        configured=3_000_000,
        source_class=source_class,
        in_order=in_order,
    )
    began = until_down(job)
    (query,) = job.world.fleet._roster
    job.restart(3600.0).run(12)
    assert bool(job.cut(began)) is cut
    assert (job.dropped > 10_000) is (late_rows == "allow")
    if not cut:
        assert job.view.limit.reason == "hold:late_rows"
        (finding,) = [one for one in job.view.findings if one.check == "late_rows"]
        assert "in what order" in finding.evidence
        if in_order is not None:
            return
        # As of a state that was saved by a version before.
        query.sources[0].source_class = ""
        query.watched.lateness.unordered = False
        began = len(job.batches)
        job.restart(3600.0).run(1)
        assert job.cut(began) == []


def test_files_that_are_read_newest_first_from_this_run_on_are_left_as_soon_as_it_is_told() -> None:
    job = Job([always(500.0)], sources=False, configured=3_000_000, source_class=FILES).run(10)
    assert job.cut(0)
    job.in_order = False
    job.restart(10.0)
    driver = job.world.driver
    told = job._limits([job.configured], [0], [0])
    beat = driver.heartbeat(driver.batch_id + 1, 1.0, limits=told)
    grants = job.world.send(beat).grants
    assert [grant.limit for grant in grants] in ([], [3_000_000])
    assert job.view.limit.reason == "hold:late_rows"


def test_a_short_pause_cuts_the_first_batch_as_ever() -> None:
    """What waits came within the delay: wherever it is cut, nothing of it is dropped."""
    job = hour(late=True)
    began = until_down(job)
    job.restart(200.0).run(5)
    assert job.batches[began][0] != [None]
    assert job.dropped == 0


def test_one_partition_is_read_in_order_and_cut_whenever() -> None:
    job = Job([always(1000.0)], sources=False).run(20)
    began = len(job.batches)
    job.restart(7200.0).run(4)
    assert job.batches[began][0] != [None]
    assert job.dropped == 0


def test_partitions_read_apart_by_half_the_delay_are_read_as_configured() -> None:
    """One is empty, and may get rows at any moment, while the other falls behind."""
    full = always(20_000.0)
    job = Job([full, Lane([])], sources=False, delay=1000.0).run(3)  # which show the delay
    apart = 0.0
    while job.view.limit.reason != "hold:late_rows":
        before, planned = apart, job.world.driver.time
        job.run(1)
        apart = planned - full.time_of(full.read)
    assert before < 500.0 < apart
    (finding,) = [one for one in job.view.findings if one.check == "late_rows"]
    assert "up to 502 s apart, for the declared delay of 1,000 s too far" in finding.evidence
    job.run(3)
    assert job.batches[-1][0] == [None]
    assert job.dropped == 0


def test_what_came_during_one_long_batch_is_read_as_configured() -> None:
    """As after a pause: nobody saw when it came, and the one partition may have it from its end."""
    burst = [(START_TIME, START_TIME + 60.0, 500.0), (START_TIME + 340.0, math.inf, 2000.0)]
    job = Job([always(500.0), Lane(burst)], sources=False, delay=100.0)
    while job.world.driver.time < START_TIME + 50.0:
        job.run(1)
    assert job.cut(), "it is steered"
    job.stall(300.0).run(12)
    assert job.dropped == 0
    assert job.view.limit.reason != "hold:late_rows"


def test_what_waits_is_looked_at_as_a_limit_would_take_it() -> None:
    """Both are read up to the same moment; the same share of both is not: one got a burst."""
    burst = Lane([(START_TIME + 12.0, START_TIME + 16.0, 8000.0)])
    job = Job([burst, always(700.0)], sources=False, delay=21.0)
    while job.world.driver.time < START_TIME + 60.0:
        job.run(1)
    assert job.cut(), "it is steered"
    assert job.dropped == 0


def test_that_a_partition_added_now_would_drop_what_waits_is_told() -> None:
    """It is read from its first row on, which is of now, and the watermark goes with it."""
    behind = Lane([(START_TIME, START_TIME + 60.0, 500.0), (START_TIME + 60.0, math.inf, 8000.0)])
    job = Job([behind], sources=False, delay=60.0)
    told = []
    while job.world.driver.time < START_TIME + 400.0:
        planned = job.world.driver.time
        job.run(1)
        (finding,) = [one for one in job.view.findings if one.check == "late_rows"]
        told.append(("a partition added now may drop it" in finding.evidence, planned))
    first = min(time for said, time in told if said)
    assert START_TIME + 60.0 + 30.0 < first < START_TIME + 150.0
    assert "add no partitions until" in finding.remedy


def test_partitions_that_fill_evenly_are_cut_however_far_behind() -> None:
    """Minutes behind, with a delay of one: looks lie near enough to each other to tell."""
    wave = [(START_TIME, START_TIME + 60.0, 500.0), (START_TIME + 60.0, START_TIME + 360.0, 4000.0)]
    lanes = [Lane([*wave, (START_TIME + 360.0, math.inf, 100.0)]) for _ in range(2)]
    job = Job(lanes, sources=False, delay=60.0)
    while job.world.driver.time < START_TIME + 1200.0:
        job.run(1)
    began = next(n for n, (_, rows, _) in enumerate(job.batches) if rows > 4000)
    assert [limits for limits, _, _ in job.batches[began + 3 :] if limits == [None]] == []
    assert job.dropped == 0


@pytest.mark.parametrize(("delay", "cut"), [(60.0, True), (7.0, False)])
def test_a_delay_of_a_few_targets_leaves_no_room(delay: float, cut: bool) -> None:
    """Two batches of the target's length end before an order acts, and as much came meanwhile."""
    job = Job([always(500.0), always(500.0)], sources=False, delay=delay).run(40)
    assert bool(job.cut(6)) is cut


@pytest.mark.parametrize(("delay", "cut"), [(24.0, True), (18.0, False)])
def test_a_delay_that_a_lost_reply_may_take_leaves_no_room(delay: float, cut: bool) -> None:
    """A limit stands for ten seconds before anybody can know that its agent is gone."""
    job = Job([always(500.0), always(500.0)], sources=False, delay=delay).run(40)
    assert bool(job.cut(6)) is cut


@pytest.mark.parametrize(("late", "cut"), [(0.0, True), (54.0, False)])
def test_what_rows_are_late_by_themselves_is_no_room_for_us(late: float, cut: bool) -> None:
    """Of a minute they need 54 s: partitions may be apart by three, and two batches take four."""
    job = Job([always(500.0), always(500.0)], sources=False, delay=60.0)
    job.late = late
    assert bool(job.run(40).cut(6)) is cut
    assert job.dropped == 0


def test_one_straggler_within_the_delay_is_forgotten_within_hours() -> None:
    """It takes most of the room for an hour or two, and not for good."""
    job = Job([always(500.0), always(500.0)], sources=False, delay=60.0).run(10)
    job.late = 54.0
    job.run(1)
    job.late = 0.0

    def cut_at(seconds: float) -> bool:
        job.idle(START_TIME + seconds - job.world.driver.time)
        for lane in job.lanes:
            lane.read = lane.arrived(job.world.driver.time)
        began = len(job.batches)
        return bool(job.run(8).cut(began + 4))

    hour = 3600.0 - START_TIME % 3600.0
    assert not cut_at(hour + 300.0)
    assert not cut_at(hour + 3500.0)
    assert cut_at(hour + 7300.0)


def test_why_a_short_delay_leaves_no_room_is_said() -> None:
    job = Job([always(500.0), always(500.0)], sources=False, delay=7.0).run(20)
    (finding,) = [one for one in job.view.findings if one.check == "late_rows"]
    said = "until a smaller limit acts 10 s may go by, and the declared delay of 7 s leaves 3.5 s"
    assert said in finding.evidence


def test_that_nobody_saw_since_when_it_waits_is_told() -> None:
    """One partition, read in order and cut after an hour's pause: one more would drop the hour."""
    job = Job([always(3000.0)], sources=False, delay=60.0).run(10)
    job.restart(3600.0).run(3)
    (finding,) = [one for one in job.view.findings if one.check == "late_rows"]
    assert "a partition added now may drop it" in finding.evidence


def test_a_limit_lives_no_longer_unwatched_than_a_part_of_the_delay() -> None:
    job = Job([always(500.0), always(500.0)], sources=False, delay=80.0).run(10)
    (grant,) = job.world.send(job.world.driver.heartbeat(job.world.driver.batch_id, None)).grants
    assert (grant.expires_seconds, grant.lapses) == (pytest.approx(20.0, abs=0.1), True)
    assert job.view.sources[0].grant_expires_time == pytest.approx(
        job.world.driver.time + grant.expires_seconds, abs=0.1
    )


def test_an_idle_night_puts_nothing_apart() -> None:
    """Triggers that find nothing tell that all was read; the first burst is cut as any other."""
    morning = START_TIME + 8 * 3600.0
    calm = (START_TIME, START_TIME + 60.0, 500.0)
    lanes = [Lane([calm, (morning, morning + 20.0, 20_000.0)]), Lane([calm])]
    job = Job(lanes, sources=False)
    while job.world.driver.time < START_TIME + 70.0:
        job.run(1)
    began = len(job.batches)
    while job.world.driver.time < morning + 15.0:
        job.idle(10.0)
    job.run(10)
    assert [limits for limits, _, _ in job.batches[began:] if limits == [None]] == []


@pytest.mark.parametrize(("down_seconds", "cut"), [(30.0, True), (3600.0, False)])
def test_a_batch_that_is_run_again_looks_nowhere_and_forgets_nothing(
    down_seconds: float, cut: bool
) -> None:
    job = hour(late=True)
    until_down(job)
    job.restart(down_seconds).replay()
    began = len(job.batches)
    job.run(8)
    assert job.dropped == 0
    assert (job.batches[began][0] != [None]) is cut


def test_partitions_that_nobody_followed_yet_are_read_as_configured_at_first() -> None:
    """As of a state that was saved by a version before."""
    job = hour(late=True)
    began = until_down(job)
    (query,) = job.world.fleet._roster
    query.sources[0].lanes = None
    job.restart(3600.0).run(8)
    assert job.batches[began][0] == [None]
    assert job.dropped == 0


def test_a_hold_by_hand_is_back_once_partitions_are_near_again() -> None:
    job = hour(late=False)
    until_down(job)
    held = job.view.sources[0].granted
    assert held is not None
    job.world.fleet.control(*KEY, Order(who="kim", reason="", hold=True), job.world.now)
    job.restart(3600.0).run(6)
    assert job.batches[-6][0] == [None]
    assert job.view.limit.reason == "hold:operator"
    assert job.view.sources[0].granted == held
    assert job.stall(400.0).run(6).view.sources[0].granted == held


def test_whether_a_watermark_is_shared_is_not_made_up() -> None:
    job = Job([always(500.0), always(500.0)], sources=True, shares=None).run(20)
    (finding,) = [one for one in job.view.findings if one.check == "late_rows"]
    assert "nobody told" in finding.evidence


@pytest.mark.parametrize("mode", ["on", "off"])
def test_what_available_now_reads_was_there_as_its_run_began(mode: str) -> None:
    """Its last batch may be planned half an hour later, and reads nothing that came since."""
    history = (START_TIME - 6050.0, START_TIME, 500.0)
    end = START_TIME + 1500.0
    burst = [history, (end - 100.0, end, 9000.0), (end, math.inf, 500.0)]
    lanes = [Lane([history, (START_TIME, math.inf, 500.0)]), Lane(burst)]
    job = Job(
        lanes, sources=False, mode=mode, configured=3_000_000, trigger="MultiBatchAvailableNow"
    )

    def read_all() -> None:
        for lane in lanes:
            lane.until_time = job.world.driver.time
        while any(lane.arrived(math.inf) > lane.read for lane in lanes):
            job.run(1)

    read_all()
    job.idle(0.1)  # the run's last trigger finds nothing, and says nothing of what has come
    began = len(job.batches)
    job.restart(15.0)
    read_all()
    assert job.batches[began][0] == [3_000_000]
    assert job.dropped == 0


@pytest.mark.parametrize("heard", [False, True])
def test_available_now_may_look_after_the_batch_that_it_runs_again(heard: bool) -> None:
    """As Kafka's newer connectors do: what came while that ran did not come before the run.

    A batch that was younger than a heartbeat as its driver was killed, nobody has heard of.
    """
    calm, end = START_TIME + 50.0, START_TIME + 2000.0
    burst = [(START_TIME, calm, 500.0), (end - 100.0, end, 9000.0), (end, math.inf, 500.0)]
    lanes = [always(500.0), Lane(burst)]
    job = Job(lanes, sources=False, trigger="MultiBatchAvailableNow")

    def look() -> None:
        for lane in lanes:
            lane.until_time = job.world.driver.time

    while job.world.driver.time < calm + 30.0:
        look()
        job.run(1)
    if heard:
        job.world.send(job.world.driver.heartbeat(job.world.driver.batch_id + 1, 1.0))
    job.restart(5.0, ended=heard)
    job._batch(end - job.world.driver.time, looks=False)
    look()
    again = len(job.batches)
    while any(lane.arrived(math.inf) > lane.read for lane in lanes):
        job.run(1)
    assert job.cut(again) == []
    assert job.dropped == 0


@pytest.mark.parametrize("in_flight", [False, True])
def test_a_checkpoint_taken_back_forgets_when_what_waits_came(in_flight: bool) -> None:
    down = START_TIME + 3600.0
    calm = (START_TIME, START_TIME + 60.0, 500.0)
    burst = [calm, (down - 200.0, down, 9000.0), (down, math.inf, 500.0)]
    job = Job([always(500.0), Lane(burst)], sources=False)
    while job.world.driver.time < START_TIME + 50.0:
        job.run(1)
    read, marks = [lane.read for lane in job.lanes], (job.greatest, job.watermark)
    last = job.world.driver.batch_id
    while job.world.driver.time < down + 2400.0:
        job.run(1)
    for lane, rows in zip(job.lanes, read, strict=True):
        lane.read = rows
    job.greatest, job.watermark = marks
    dropped = job.dropped
    job.restart(60.0)
    job.world.driver.batch_id = last
    if in_flight:
        job.limits[0] = [4000]  # as it was planned
        job.replay()
    job.run(20)
    assert job.dropped == dropped


def test_the_delay_is_not_taken_for_less_where_a_batch_was_run_again_or_not_heard() -> None:
    job = hour(late=False)
    until_down(job)
    job.restart(250.0)
    job.world.send(job.world.driver.heartbeat(job.world.driver.batch_id + 1, 3.0))
    job.restart(10.0).replay().run(6)
    hear = job.world.send
    job.world.send = lambda *_: Receipt(0, 0, [], [], [], [], set())  # type: ignore[method-assign]
    while job.world.driver.time < DOWN + 1000.0:
        job.run(1)
    job.world.send = hear  # type: ignore[method-assign]
    job.run(20)
    (query,) = job.world.fleet._roster
    assert query.watched.lateness.least_delay_seconds == pytest.approx(600.0, abs=1.0)


def test_a_hold_by_hand_outlives_a_restart_while_batches_are_as_configured() -> None:
    job = hour(late=False)
    until_down(job)
    held = job.view.sources[0].granted
    job.world.fleet.control(*KEY, Order(who="kim", reason="", hold=True), job.world.now)
    driver = job.world.driver
    for age in range(5, 400, 5):
        driver.time += 5.0
        job.world.send(driver.heartbeat(driver.batch_id + 1, float(age)))
    job.restart(60.0).run(12)
    assert (job.view.limit.reason, job.view.sources[0].granted) == ("hold:operator", held)


def test_a_query_that_nobody_can_steer_says_so_between_batches_too() -> None:
    job = Job([always(500.0), always(500.0)], sources=True, shares=None)
    said = job._limits([None, None], [0, 0], [0, 0])
    watched = [{**one, "control": "advice"} for one in said]
    stateful = {
        "eventTime": {"watermark": format_time(START_TIME)},
        "stateOperators": [{"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": 0}],
    }
    driver = job.world.driver
    job.world.send(driver.progress(10, 1.0, limits=watched, **stateful))
    job.world.send(driver.heartbeat(1, 1.0, limits=watched))
    assert job.view.limit.reason == "hold:no_control"


@pytest.mark.parametrize("beats", [True, False])
def test_between_two_triggers_nobody_sees_what_comes(beats: bool) -> None:
    """One batch a minute, a delay of ten seconds: what a minute brings is a minute apart."""
    begin = START_TIME + 600.0
    pieces = [(START_TIME, begin, 500.0)]
    for minute in range(30):
        at = begin + 60.0 * minute
        pieces += [(at, at + 40.0, 50.0), (at + 40.0, at + 60.0, 500.0 if minute % 3 else 9000.0)]
    job = Job(
        [always(500.0), Lane(pieces)],
        sources=False,
        delay=10.0,
        trigger="ProcessingTimeTrigger(60000)",
    )
    driver = job.world.driver
    while driver.time < begin + 1700.0:
        planned = (driver.time // 60.0 + 1.0) * 60.0
        while beats and driver.time + 10.0 < planned:
            driver.time += 10.0
            job._take(job.world.send(driver.heartbeat(driver.batch_id, None)).grants)
        driver.time = planned
        job.run(1)
    assert job.dropped == 0


def test_a_delay_that_the_job_made_longer_counts() -> None:
    job = Job([always(500.0), always(500.0)], sources=False, delay=10.0).run(30)
    job.delay = 600.0
    job.restart(100.0).run(600)
    (query,) = job.world.fleet._roster
    assert query.watched.lateness.least_delay_seconds == pytest.approx(600.0, abs=1.0)


def test_a_delay_that_the_job_made_shorter_counts_from_the_first_batch_on() -> None:
    down = START_TIME + 300.0
    burst = [(START_TIME, down, 500.0), (down + 55.0, down + 70.0, 9000.0)]
    lanes = [always(500.0), Lane([*burst, (down + 70.0, math.inf, 500.0)])]
    job = Job(lanes, sources=False, tells=600.0)
    while job.world.driver.time < down:
        job.run(1)
    job.delay = job.tells = 20.0
    began = len(job.batches)
    job.restart(65.0).run(6)
    assert job.batches[began][0] == [None]
    assert job.dropped == 0


def test_a_delay_that_one_run_told_is_not_taken_for_that_of_the_next() -> None:
    """Which tells none: its driver is of an earlier version, or the plan is too large."""
    begin = START_TIME + 300.0
    lanes = [always(500.0), always(500.0)]
    job = Job(lanes, sources=False, tells=600.0)
    while job.world.driver.time < begin:
        job.run(1)
    job.delay, job.tells = 20.0, None
    job.restart(5.0).run(30)
    (query,) = job.world.fleet._roster
    assert query.watched.lateness.declared_seconds == pytest.approx(20.0, abs=1.0)


def test_a_run_found_under_way_says_nothing_of_when_it_looked() -> None:
    """AvailableNow looked as it began, and an agent without its state hears it at its end."""
    history = (START_TIME - 6050.0, START_TIME, 500.0)
    end = START_TIME + 1500.0
    burst = [history, (end - 100.0, end, 9000.0), (end, math.inf, 500.0)]
    lanes = [Lane([history, (START_TIME, math.inf, 500.0)]), Lane(burst)]
    job = Job(lanes, sources=False, configured=3_000_000, trigger="MultiBatchAvailableNow")
    for lane in lanes:
        lane.until_time = job.world.driver.time
    while any(lane.arrived(math.inf) > lane.read for lane in lanes):
        if len(job.batches) == 1:
            job.world.fleet = Fleet(job.world.policy, started_time=job.world.now)
            said = job._limits([3_000_000], [0, 0], [0, 0])
            found = job.world.driver.started(trigger=job.trigger, limits=said)
            job.world.send({**found, "limits": said})
        job.run(1)
    began = len(job.batches)
    job.restart(15.0)
    for lane in lanes:
        lane.until_time = job.world.driver.time
    job.run(4)
    assert job.batches[began][0] == [3_000_000]
    assert job.dropped == 0


@pytest.mark.parametrize(
    ("partitions", "source_class", "late_rows", "lapses"),
    [
        (2, "", "guard", True),
        (2, "", "allow", False),
        (1, "", "guard", False),
        (1, DELTA, "guard", True),
        (1, FILES, "guard", True),
        (1, DELTA, "allow", False),
    ],
)
def test_a_limit_ends_with_its_life_where_rows_may_fall_late_unwatched(
    partitions: int, source_class: str, late_rows: LateRows, lapses: bool
) -> None:
    lanes = [always(900.0) for _ in range(partitions)]
    job = Job(lanes, sources=False, late_rows=late_rows, source_class=source_class).run(30)
    (grant,) = job.world.send(job.world.driver.heartbeat(30, 1.0)).grants
    assert (grant.limit is not None, grant.lapses) == (True, lapses)
