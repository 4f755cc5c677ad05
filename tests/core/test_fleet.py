"""The fleet end to end, in the driver's own words: requests in, judgements and grants out."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.decode.events import decode_request
from agent.core.fleet import Change, Fleet, Order, Receipt, UnknownQuery
from agent.core.fleet.orders import MOST_STANDING_ORDERS
from agent.core.measure.partitions import PartitionView
from agent.core.policy import Policy, QueryPolicy, Rule
from spark_listener.sources import KAFKA
from tests.core.events import START_TIME, Driver

if TYPE_CHECKING:
    from agent.core.judgement import Mode

KEY = ("shop", "orders")


class World:
    """A fleet and one driver, on one clock."""

    def __init__(self, policy: Policy | None = None, **driver: Any) -> None:
        self.policy = policy or Policy(default=QueryPolicy(above_configured=True))
        self.fleet = Fleet(self.policy, started_time=START_TIME - 1000)
        self.driver = Driver(**driver)

    def send(self, *events: dict[str, Any]) -> Receipt:
        return self.fleet.receive(decode_request(self.driver.body(*events)), self.now)

    @property
    def now(self) -> float:
        return self.driver.time + 0.05

    def view(self, key: tuple[str, str] = KEY):
        return self.fleet.view(key, self.now)

    def batches(
        self,
        count: int,
        *,
        fixed: float = 1.0,
        throughput: float = 1000.0,
        backlog: int = 10**6,
        limit: int | None = 500,
        configured: int | None = 500,
        sigma: float = 0.0,
    ) -> list[Receipt]:
        """Limited batches of a plant that obeys the grants two batches later."""
        noise = random.Random(1)
        receipts: list[Receipt] = []
        pending = [limit, limit]
        for _ in range(count):
            in_force = pending.pop(0)
            rows = backlog if in_force is None else in_force
            backlog -= rows  # nothing new arrives
            seconds = (fixed + rows / throughput) * (1 + noise.uniform(-sigma, sigma))
            receipts.append(
                self.send(
                    self.driver.progress(
                        rows, seconds, limit=in_force, configured=configured, backlog=backlog
                    )
                )
            )
            granted = [grant.limit for grant in receipts[-1].grants]
            pending.append(granted[0] if granted else configured)
        return receipts

    def hundred_a_second(self) -> None:
        """Twenty batches of all that came; a thousand rows are read in one."""
        for number in range(20):
            rows = 200 + 10 * number
            seconds = 0.2 + rows / 1000
            self.send(self.driver.progress(rows, seconds, gap=rows / 100 - seconds, backlog=0))


def limits_of(receipts: list[Receipt]) -> list[int | None]:
    return [judged.limit.next for receipt in receipts for judged in receipt.judged]


# -- deciding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("deadline", "lowers"), [(None, [False, True]), (8.0, [True, True])])
def test_an_unreached_limit_is_lowered_by_the_second_batch_that_says_so_or_for_the_deadline(
    deadline: float | None, lowers: list[bool]
) -> None:
    """A full batch takes 5 s; small ones take 1.1 s, and then 4: of full ones that is a guess."""
    settings = QueryPolicy(above_configured=True, target_seconds=5.0, deadline_seconds=deadline)
    world = World(Policy(default=settings))
    for _ in range(3):
        for rows, backlog in ((4000, 10**6), (100, 0)):
            for _ in range(4):
                seconds = 1.0 + rows / 1000
                world.send(world.driver.progress(rows, seconds, limit=4000, backlog=backlog))
    told = []
    for _ in range(2):
        world.send(world.driver.progress(100, 4.0, limit=4000, backlog=0, gap=1.0))
        told.append((world.view().limit.next or 0) < 4000)
    assert told == lowers


def test_a_limited_query_is_brought_to_its_target_and_rests_there() -> None:
    world = World()
    receipts = world.batches(60, sigma=0.05)
    assert world.view().batch_seconds == pytest.approx(5.0, rel=0.3)
    settled = limits_of(receipts)[-20:]
    assert len(set(settled)) <= 2  # no oscillation at rest
    assert receipts[-1].judged[0].limit.target_feasible is True


def test_every_reply_carries_the_live_grant_a_heartbeats_too() -> None:
    world = World()
    world.batches(20)
    granted = world.send(world.driver.heartbeat()).grants
    (grant,) = granted
    assert (grant.id, grant.runId, grant.source, grant.unit) == ("q-1", "r-1", 0, "rows")
    assert grant.expires_seconds == 60.0
    assert grant.limit == world.view().limit.next


def test_a_query_of_which_no_source_can_be_steered_is_advice_whatever_its_start_said() -> None:
    world = World()
    world.send(world.driver.started())
    assert world.view().control == "live"
    entry = {"source": 0, "unit": "files", "limit": None, "configured": None, "backlog": None,
             "control": "advice", "note": "latestFirst: …"}  # fmt: skip
    world.send(world.driver.heartbeat(limits=[entry]))
    assert world.view().control == "advice"
    assert world.view().sources[0].note.startswith("latestFirst")
    world.batches(4, limit=None)  # the owner's word came: the next entries say live
    assert world.view().control == "live"


def test_every_reply_says_of_each_run_whether_an_unsafe_limit_may_be_set() -> None:
    assert World().send(World().driver.heartbeat()).unsafe_limits == {"r-1": False}
    everywhere = World(Policy(default=QueryPolicy(give_limits="all")))
    assert everywhere.send(everywhere.driver.started()).unsafe_limits == {"r-1": True}
    rules = (Rule(match="orders", give_limits="all"), Rule(match="o*", mode="dry-run"))
    ruled = World(Policy(rules=rules))
    ruled.send(ruled.driver.started())
    ruled.driver.query_id, ruled.driver.run_id, ruled.driver.query = "q-2", "r-2", "other"
    said = ruled.send(ruled.driver.started()).unsafe_limits
    assert said == {"r-1": True, "r-2": False}
    assert ruled.send(ruled.driver.terminated()).unsafe_limits == {"r-1": True}


@pytest.mark.parametrize(
    ("rows", "seconds", "more", "reason"),
    [
        (None, 3.0, {}, "hold:missing"),
        (500, None, {}, "hold:missing"),
        (0, 0.5, {}, "hold:empty"),
        (500, 3.0, {"batch_id": 2}, "hold:replayed"),
        (500, 0.4, {"backlog": 0}, "hold:not_limited"),
    ],
)
def test_batches_that_teach_nothing_change_nothing(
    rows: int | None, seconds: float | None, more: dict[str, Any], reason: str
) -> None:
    world = World()
    world.batches(3)
    before = world.view()
    receipt = world.send(
        world.driver.progress(
            rows, seconds, **{"limit": 500, "configured": 500, "backlog": 10, **more}
        )
    )
    (judged,) = receipt.judged
    assert judged.limit.reason == reason
    assert judged.limit.next == before.limit.next


@pytest.mark.parametrize("held", [False, True])
def test_a_maximum_that_was_lowered_holds_for_what_is_found_in_force_and_for_what_is_held(
    *, held: bool
) -> None:
    world = World()
    granted = world.batches(20)[-1].grants[0].limit
    assert granted is not None
    if held:
        world.fleet.control(*KEY, Order(who="me", hold=True), world.now)
        world.batches(1, limit=granted)
    lower = QueryPolicy(above_configured=True, maximum_limit=granted // 2)
    saved = world.fleet.changes() if held else []
    world.fleet = Fleet.restore(Policy(default=lower), saved, started_time=world.now)
    (grant,) = world.batches(1, limit=granted)[0].grants
    assert grant.limit == granted // 2
    assert grant.reason in ("bound:maximum", "renew")
    assert world.batches(3, limit=granted // 2)[-1].grants[0].limit == granted // 2


def test_a_maximum_that_was_lowered_holds_for_the_first_batch_of_a_run_that_is_held() -> None:
    world = World()
    granted = world.batches(20)[-1].grants[0].limit
    assert granted is not None
    world.fleet.control(*KEY, Order(who="me", hold=True), world.now)
    world.batches(1, limit=granted)
    lower = QueryPolicy(above_configured=True, maximum_limit=granted // 2)
    saved = world.fleet.changes()
    world.fleet = Fleet.restore(Policy(default=lower), saved, started_time=world.now)
    world.driver.run_id = "r-2"
    (grant,) = world.send(world.driver.started()).grants
    assert (grant.limit, grant.reason) == (granted // 2, "bound:maximum")


def test_an_unlimited_source_gets_a_limit_once_its_cost_is_known() -> None:
    world = World()
    world.send(world.driver.progress(2000, 3.0, limit=None))
    receipt = world.send(world.driver.progress(30000, 31.0, limit=None))
    (grant,) = receipt.grants
    assert grant.limit is not None
    assert 1500 < grant.limit < 7000  # about 4 s worth of 1000 rows/s


@pytest.mark.parametrize(
    ("source_class", "known"),
    [
        ("org.apache.spark.sql.eventhubs.EventHubsSource", False),
        ("org.apache.spark.sql.execution.streaming.sources.RateStreamMicroBatchStream", True),
        (KAFKA.classes[0], True),
        ("org.apache.spark.sql.execution.streaming.AvailableNowSourceWrapper", False),
        ("", True),  # of a driver that tells no class
    ],
)
def test_what_a_source_without_a_limit_reads_is_what_arrives_where_it_has_none_of_its_own(
    source_class: str, known: bool
) -> None:
    world = World(Policy(default=QueryPolicy(target_seconds=5.0)))
    for _ in range(10):
        event = world.driver.progress(8000, 3.0, limit=None, backlog=None)
        event["limits"][0] |= {
            "admitted": 8000,
            "control": "advice",
            "source_class": source_class,
        }
        world.send(event)
    view = world.view()
    assert (view.arrival_rows_per_second is not None) == known
    assert (view.required_capacity_ratio is not None) == known


@pytest.mark.parametrize(
    ("description", "source_class", "counts"),
    [
        ("KafkaV2[Subscribe[orders]]", "", True),
        ("KafkaSourceV1[Subscribe[orders]]", KAFKA.classes[1], True),
        ("", "", True),  # nothing is told of it
        ("org.apache.spark.sql.eventhubs.EventHubsSource@5c1f3d", "", False),
        ("", "org.apache.spark.sql.eventhubs.EventHubsSource", False),
        ("PythonStreamingSourceV2", "", False),
    ],
)
def test_offsets_that_look_like_kafkas_tell_what_waits_of_kafka_alone(
    description: str, source_class: str, *, counts: bool
) -> None:
    """Of Event Hubs' connector Spark tells as the newest offset what a batch was planned up to."""
    world = World(Policy(default=QueryPolicy(target_seconds=5.0)))
    for number in range(10):
        start, end = ({"orders": {"0": 8000 * at}} for at in (number, number + 1))
        source = {"description": description, "numInputRows": 8000, "startOffset": start}
        source |= {"endOffset": end, "latestOffset": end}
        event = world.driver.progress(8000, 3.0, limit=None, backlog=None, sources=[source])
        event["limits"][0] |= {"control": "advice", "source_class": source_class, "admitted": 8000}
        world.send(event)
    view = world.view()
    expected = 0.0 if counts else None
    assert (view.backlog_rows, view.sources[0].backlog) == (expected, expected)
    if source_class or counts:
        assert (view.arrival_rows_per_second is not None) == counts
        assert (view.required_capacity_ratio is not None) == counts
    query = world.fleet._roster[KEY]
    assert query.sources[0].admitted == 8000


def test_whole_chunks_of_which_nobody_says_what_is_left_are_let_in_again() -> None:
    """After a calm the limit is low; a batch stays below it by a chunk, and nobody says why."""
    world = World(Policy(default=QueryPolicy(target_seconds=5.0)))
    chunk, waits, in_force, upcoming, peak = 300, 0.0, 10_000, 10_000, 0.0
    seconds = 1.3
    for number in range(200):
        waits += (230.0 if number < 40 else 700.0) * seconds
        rows = max(min(int(waits), in_force) // chunk, 1) * chunk
        waits = max(waits - rows, 0.0)
        peak = max(peak, waits)
        seconds = 1.0 + rows / 1000.0
        progress = world.driver.progress(
            rows, seconds, limit=in_force, configured=10_000, backlog=None
        )
        progress["limits"][0]["obeyed"] = True
        granted = [grant.limit for grant in world.send(progress).grants]
        in_force, upcoming = upcoming, (granted[0] or 10_000) if granted else 10_000
        if number == 39:
            assert upcoming < 5000, "nothing reached it"
    assert waits < 0.2 * peak + 5000
    assert upcoming > 3000


class Counting:
    """A source of nobody's acquaintance: its limit counts something of ``ratio`` rows each."""

    CONFIGURED = 1_000_000

    def __init__(self, ratio: float, *, most_limit: int | None = None) -> None:
        rules = QueryPolicy(target_seconds=5.0, maximum_limit=most_limit)
        self.world, self.ratio, self.waits = World(Policy(default=rules)), ratio, 0.0
        self.limits: list[int] = [self.CONFIGURED, self.CONFIGURED]
        self.seconds = 2.0

    def run(self, batches: int, rows_per_second: float) -> None:
        for _ in range(batches):
            self.waits += rows_per_second * self.seconds
            limit = self.limits[-2]
            rows = max(int(min(self.waits, limit * self.ratio)), 1)
            self.waits = max(self.waits - rows, 0.0)
            self.seconds = 1.0 + rows / 1000.0
            progress = self.world.driver.progress(
                rows, self.seconds, limit=limit, configured=self.CONFIGURED, backlog=None
            )
            granted = [grant.limit for grant in self.world.send(progress).grants]
            self.limits.append((granted[0] or self.CONFIGURED) if granted else self.CONFIGURED)


@pytest.mark.parametrize("ratio", [0.005, 0.2])
def test_a_limit_that_counts_no_rows_is_no_lower_than_configured_for_good(ratio: float) -> None:
    source = Counting(ratio)
    source.run(40, 300.0)  # nothing was long
    assert source.limits == [source.CONFIGURED] * 42
    source.waits = 20_000.0  # a long batch, and one too small after it
    source.run(40, 300.0)
    assert source.waits < 5000.0
    longest = 1.0 + ratio * source.CONFIGURED / 1000.0
    assert (min(source.limits) < source.CONFIGURED) == (longest > 6.5), "only what was long"
    assert source.limits[-1] == source.CONFIGURED


def test_what_is_put_back_stays_within_the_rules() -> None:
    source = Counting(0.2, most_limit=50_000)
    source.run(20, 300.0)
    assert max(source.limits[5:]) == 50_000


def test_one_that_fills_its_limits_is_limited_by_what_it_can_digest() -> None:
    source = Counting(1.0)
    source.waits = 500_000.0
    source.run(18, 300.0)
    assert source.waits > 0.0
    assert all(3000 < limit < 6000 for limit in source.limits[2:])


class EachPartition:
    """A source of nobody's acquaintance: its limit holds for each of its partitions."""

    CONFIGURED = 10_000

    def __init__(self, waiting: list[float]) -> None:
        rules = QueryPolicy(target_seconds=60.0, deadline_seconds=300.0)
        self.world, self.waiting = World(Policy(default=rules)), waiting
        self.limits: list[int] = [self.CONFIGURED, self.CONFIGURED]
        self.seconds: list[float] = [10.0]

    def run(self, batches: int, rows_per_second: list[float]) -> None:
        for _ in range(batches):
            for index, rate in enumerate(rows_per_second):
                self.waiting[index] += rate * self.seconds[-1]
            limit = self.limits[-2]
            taken = [min(int(waits), limit) for waits in self.waiting]
            self.waiting = [was - took for was, took in zip(self.waiting, taken, strict=True)]
            rows = max(sum(taken), 1)
            self.seconds.append(1.0 + rows / 1000.0)
            event = self.world.driver.progress(
                rows, self.seconds[-1], limit=limit, configured=self.CONFIGURED, backlog=None
            )
            event["limits"][0] |= {"admitted": rows, "next_limit": self.limits[-1]}
            granted = [grant.limit for grant in self.world.send(event).grants]
            self.limits.append((granted[0] or self.CONFIGURED) if granted else self.CONFIGURED)


def test_a_limit_that_holds_for_each_partition_is_lowered_by_as_many_as_there_are() -> None:
    """As a batch that reads its source several times: its limit counts for each of them."""
    source = EachPartition([1e6] * 32)
    source.run(20, [15.0] * 32)
    assert source.seconds[1:3] == [321.0, 321.0]  # as configured
    assert max(source.seconds[3:]) < 65.0
    assert source.seconds[-1] > 50.0


def test_a_batch_beyond_its_limit_that_is_no_multiple_of_it_tells_nothing_of_its_unit() -> None:
    """It may not look at it, or have read on to the end of a file."""
    world = World(Policy(default=QueryPolicy(target_seconds=60.0, deadline_seconds=300.0)))
    for _ in range(20):
        event = world.driver.progress(320_007, 321.0, limit=10_000, configured=10_000, backlog=None)
        event["limits"][0]["admitted"] = 320_007
        assert world.send(event).grants == []


def test_where_few_partitions_get_nearly_all_their_limit_does_not_stay_that_of_all() -> None:
    """Taken for a share of them, it would leave those behind for good that get more."""
    source = EachPartition([20_000.0] * 32)
    source.run(20, [3.0] * 32)
    source.waiting[0] = source.waiting[1] = 100_000.0
    source.run(300, [350.0, 350.0] + [1.0] * 30)
    assert max(source.waiting) < 5000.0
    assert max(source.seconds[3:]) < 1.5 * 60.0


def test_a_first_batch_near_the_deadline_limits_those_that_would_be_killed() -> None:
    world = World(Policy(default=QueryPolicy(target_seconds=5.0, deadline_seconds=60.0)))
    (grant,) = world.send(world.driver.progress(20_000, 45.0, limit=10**6, configured=10**6)).grants
    assert grant.limit is not None
    assert grant.limit < 20_000


def test_a_first_batch_far_from_any_deadline_teaches_first() -> None:
    world = World(Policy(default=QueryPolicy(target_seconds=5.0)))
    receipt = world.send(world.driver.progress(50, 9.0, limit=20_000, configured=20_000))
    assert not receipt.grants
    assert receipt.judged[0].limit.reason == "hold:learning"


def test_a_source_out_of_reach_is_never_granted_anything() -> None:
    world = World()
    said = [{"source": 0, "unit": "rows", "limit": 5, "configured": 5, "backlog": 9}]
    said[0]["control"] = "advice"
    receipts = [world.send(world.driver.progress(5, 2.0, limits=said)) for _ in range(6)]
    assert all(not receipt.grants for receipt in receipts)
    assert receipts[-1].judged[0].limit.reason == "hold:no_control"
    assert "its limit cannot be changed live" in " ".join(world.view().missing)


def test_files_are_limited_in_files() -> None:
    world = World(unit="files")
    in_force: int | None = 1
    backlog = 3000
    for _ in range(30):
        backlog -= in_force or 0
        said = {
            "source": 0,
            "unit": "files",
            "limit": in_force,
            "configured": 1,
            "backlog": backlog,
            "admitted": in_force,
        }
        rows = 100 * (in_force or 0)
        receipt = world.send(world.driver.progress(rows, 0.5 + rows / 1000, limits=[said]))
        if receipt.grants:
            assert receipt.grants[0].unit == "files"
            in_force = receipt.grants[0].limit
    assert in_force == pytest.approx(45, rel=0.3)  # 4.5 s of 1000 rows/s in files of 100
    assert world.view().backlog_rows == pytest.approx(100 * backlog)


def test_two_sources_share_by_backlog_and_the_smaller_keeps_its_exclusive_credit() -> None:
    world = World()
    for _ in range(12):
        said = [
            {"source": i, "unit": "rows", "limit": 1000, "configured": 1000, "backlog": backlog}
            for i, backlog in enumerate((10, 90_000))
        ]
        receipt = world.send(
            world.driver.progress(
                2000,
                3.0,
                limits=said,
                sources=[{"numInputRows": 1000}, {"numInputRows": 1000}],
            )
        )
    small, large = sorted(receipt.grants, key=lambda grant: grant.source)
    assert small.limit is not None
    assert large.limit is not None
    assert 0 < small.limit < large.limit
    view = world.view()
    total = sum((s.exclusive_rows or 0) + (s.floating_rows or 0) for s in view.sources)
    assert small.limit >= 0.05 * total


def test_of_two_sources_the_one_whose_rows_are_deleted_soon_is_read_in_time() -> None:
    """60,000 rows in 30 s: 2,000 a second, whatever waits at the other source."""
    world = World(Policy(default=QueryPolicy(above_configured=True)))
    limits = [40_000, 40_000]
    for _ in range(20):
        backlogs = (60_000, 10_000_000)
        said = [
            {"source": i, "unit": "rows", "limit": limit, "configured": 100_000, "backlog": waits}
            for i, (limit, waits) in enumerate(zip(limits, backlogs, strict=True))
        ]
        read = [{"numInputRows": limit} for limit in limits]
        seconds = 0.5 + sum(limits) / 10_000
        receipt = world.send(world.driver.progress(sum(limits), seconds, limits=said, sources=read))
        for grant in receipt.grants:
            limits[grant.source] = grant.limit or limits[grant.source]
        for index, (waits, needs) in enumerate(zip(backlogs, (2_000.0, None), strict=True)):
            view = PartitionView(
                index, "t", str(index), waits, 0, None, pressing_rows_per_second=needs
            )
            world.fleet.hear_partitions(KEY, "q-1", index, [view], world.now)
    assert limits[0] / (0.5 + sum(limits) / 10_000) >= 2_000.0 * 0.95


def test_the_reason_floor_stability_is_given_when_the_target_cannot_hold() -> None:
    world = World(
        Policy(
            default=QueryPolicy(above_configured=True, target_seconds=2.0, deadline_seconds=300.0)
        )
    )
    # c0 of 4 s is above the target of 2 s, and 500 rows/s arrive.
    in_force: int | None = 500
    reasons = set()
    backlog = 0.0
    read: list[tuple[int, float]] = []
    for _ in range(40):
        rows = in_force or 0
        seconds = 4.0 + rows / 1000
        read.append((rows, seconds))
        backlog = max(0.0, backlog + 500 * seconds - rows)
        receipt = world.send(
            world.driver.progress(
                rows, seconds, limit=in_force, configured=500, backlog=int(backlog) + 1
            )
        )
        reasons.add(receipt.judged[0].limit.reason)
        if receipt.grants:
            in_force = receipt.grants[0].limit
    assert "floor:stability" in reasons or "bound:doubt" in reasons
    assert receipt.judged[0].limit.target_feasible is False
    late = read[10:]
    assert sum(rows for rows, _ in late) > 500 * sum(seconds for _, seconds in late)  # it keeps up


# -- first batch, restarts ------------------------------------------------------------------------


def test_the_first_batch_of_a_new_run_is_limited_from_what_was_learned() -> None:
    world = World()
    world.batches(30)
    learned = world.view().limit.next
    world.send(world.driver.terminated())
    world.driver.run_id, world.driver.batch_id = "r-2", world.driver.batch_id
    world.driver.time += 3600.0
    receipt = world.send(world.driver.started())
    (grant,) = receipt.grants
    assert grant.runId == "r-2"
    assert grant.reason == "first_batch"
    assert grant.limit is not None
    assert learned is not None
    assert grant.limit <= learned


def test_a_restarted_agent_without_its_state_renews_what_is_in_force() -> None:
    world = World()
    said = [{"source": 0, "unit": "rows", "limit": 700, "configured": 500, "backlog": 5000}]
    receipt = world.send(world.driver.heartbeat(4, 2.0, limits=said))
    (grant,) = receipt.grants
    assert (grant.limit, grant.reason) == (700, "renew")


class Minutely:
    """A batch a minute, of the 60,000 rows that come in it: they take 13 s."""

    def __init__(self, *, tells_trigger: bool, **policy: Any) -> None:
        self.world = World(Policy(**policy), tells_trigger=tells_trigger)
        self.waiting, self.limit, self.gap = 60_000, 100_000, 0.0

    def start(self) -> Receipt:
        return self.world.send(self.world.driver.started(trigger="ProcessingTimeTrigger(60000)"))

    def batches(self, count: int) -> list[str]:
        """Why the limit is what it is, after each; never less than what comes."""
        reasons = []
        for _ in range(count):
            rows = min(self.waiting, self.limit)
            self.waiting -= rows
            seconds = 1.0 + rows / 5000
            batch = self.world.driver.progress(
                rows,
                seconds,
                limit=self.limit,
                configured=100_000,
                backlog=self.waiting,
                gap=self.gap,
            )
            receipt = self.world.send(batch)
            for grant in receipt.grants:
                assert grant.limit is not None
                self.limit = grant.limit
            assert self.limit >= 60_000
            reasons.append(receipt.judged[0].limit.reason)
            self.waiting += 60_000
            self.gap = 60.0 - seconds
        return reasons


@pytest.mark.parametrize("tells_trigger", [True, False])
def test_an_agent_that_has_not_heard_a_start_takes_no_batch_for_one_that_follows_at_once(
    *, tells_trigger: bool
) -> None:
    plant = Minutely(tells_trigger=tells_trigger)
    plant.start()
    assert "hold:missing" not in plant.batches(20)
    plant.world.fleet = Fleet(plant.world.policy, started_time=plant.world.now)
    assert ("hold:missing" in plant.batches(20)) is not tells_trigger


@pytest.mark.parametrize("tells_trigger", [True, False])
def test_a_start_that_found_no_room_leaves_the_trigger_to_the_batches(
    *, tells_trigger: bool
) -> None:
    plant = Minutely(tells_trigger=tells_trigger, max_queries=1)
    other = Driver(application_id="local-2", instance="listener-2", query_id="q-2", query="other")
    plant.world.fleet.receive(decode_request(other.body(other.started())), other.time)
    assert plant.start().refused
    plant.world.fleet.receive(decode_request(other.body(other.terminated())), other.time)
    plant.world.driver.time += plant.world.policy.forget_seconds + 1.0
    plant.world.fleet.tick(plant.world.now)
    assert ("hold:missing" in plant.batches(20)) is not tells_trigger


def test_a_first_batch_of_which_nobody_knows_the_trigger_is_as_configured() -> None:
    """Its driver could not look the query up; what an earlier run said of it holds."""
    plant = Minutely(tells_trigger=False)
    driver = plant.world.driver
    plant.batches(20)
    for trigger, reasons in (("", []), ("ProcessingTimeTrigger(60000)", ["first_batch"])):
        for run, said in enumerate((trigger, "")):
            plant.world.send(driver.terminated())
            driver.run_id = f"{trigger} {run}"
            receipt = plant.world.send(driver.started(trigger=said))
            assert [grant.reason for grant in receipt.grants] == reasons
    assert plant.world.fleet._roster[KEY].run.trigger_seconds == 60.0


def test_state_saved_and_restored_goes_on_as_if_nothing_had_happened() -> None:
    whole, cut = World(), World()
    saved: dict[str, bytes] = {}
    for index in range(25):
        rows, seconds = 400 + 37 * index, 1.0 + index * 0.1
        args = {"limit": 500, "configured": 500, "backlog": 900 + index}
        first = whole.send(whole.driver.progress(rows, seconds, **args))
        second = cut.send(cut.driver.progress(rows, seconds, **args))
        assert (first.judged, first.grants) == (second.judged, second.grants)
        for change in cut.fleet.changes():
            assert change.data is not None
            saved[change.part] = change.data
        parts = [Change(part, data) for part, data in saved.items()]
        cut.fleet = Fleet.restore(cut.policy, parts, started_time=cut.now)
    assert whole.view() == cut.view()
    assert whole.fleet.totals == cut.fleet.totals


def test_an_event_of_a_run_that_is_over_disturbs_nothing() -> None:
    world = World()
    world.batches(5)
    late = world.driver.terminated()
    world.driver.run_id = "r-2"
    world.send(world.driver.started())
    late["sequence"] = world.driver.sequence = world.driver.sequence + 1
    world.send(late)
    view = world.view()
    assert (view.run_id, view.up, view.state) == ("r-2", True, "idle")


# -- counting -------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(min_value=1, max_value=7), min_size=1, max_size=30), st.randoms())
def test_events_sent_again_are_counted_once(sizes: list[int], chance: random.Random) -> None:
    world = World()
    events = [world.driver.progress(10, 1.0, limit=5, backlog=3) for _ in range(sum(sizes))]
    start = 0
    for size in sizes:
        # A reply was lost: the tail from some earlier event on comes again.
        again = chance.randrange(0, start + 1)
        receipt = world.send(*events[again : start + size])
        start += size
        assert receipt.acknowledged == start
        assert receipt.accepted == start - again
    view = world.view()
    assert view.totals.batches == {"completed": len(events)}
    assert view.totals.rows == 10 * len(events)
    assert world.fleet.totals.events == {"progress": len(events)}


def test_refused_events_are_acknowledged_and_named_by_index() -> None:
    world = World()
    bad = {**world.driver.idle(), "type": "odd"}
    receipt = world.send(world.driver.idle(), bad, world.driver.idle())
    assert receipt.accepted == 2
    assert [(r.index, r.sequence) for r in receipt.refused] == [(1, bad["sequence"])]
    assert receipt.acknowledged == 3
    assert world.fleet.totals.refused == {"malformed": 1}


def test_one_query_too_many_is_refused_and_the_others_go_on() -> None:
    world = World(Policy(max_queries=2))
    for number in range(3):
        world.driver.query_id, world.driver.query = f"q-{number}", f"orders-{number}"
        receipt = world.send(world.driver.progress(1, 1.0))
    assert len(world.fleet) == 2
    assert "2 queries" in receipt.refused[0].error
    assert world.fleet.totals.refused == {"cardinality": 1}


def test_time_adds_up_to_one_second_per_second() -> None:
    world = World()
    for number in range(20):
        world.send(
            world.driver.progress(10, 2.0, limit=10, backlog=11 * (number % 2), gap=1.0),
            world.driver.heartbeat(),
        )
    world.send(world.driver.idle())
    spent = world.view().totals.state_seconds
    assert sum(spent.values()) == pytest.approx(world.driver.time - START_TIME, abs=1.1)
    assert spent["backpressured"] == pytest.approx(20.0)
    assert spent["busy"] == pytest.approx(20.0)


def test_backlog_is_exactly_what_was_measured_and_grows_only_while_a_batch_runs() -> None:
    world = World()
    for number in range(10):
        world.send(world.driver.progress(100, 1.0, limit=100, backlog=5000 + 100 * number))
    assert (world.view().backlog_rows, world.view().backlog_unseen_rows) == (5900, 0.0)
    world.send(world.driver.heartbeat(11, 0.5))
    world.driver.time += 4.0
    view = world.view()
    assert view.backlog_rows == pytest.approx(5900 + 200 * 4.0, rel=0.1)
    assert view.backlog_unseen_rows == pytest.approx(view.backlog_rows - 5900)


def test_what_arrives_unseen_is_estimated_again_once_brokers_are_not_believed_any_more() -> None:
    world = World()
    for number in range(10):
        world.send(world.driver.progress(100, 1.0, limit=100, backlog=5000 + 100 * number))
    world.send(world.driver.heartbeat(11, 0.5))
    view = PartitionView(0, "t", "0", 5900, 0, None)
    world.fleet.hear_partitions(KEY, "q-1", 0, [view], world.now, valid_seconds=5.0)
    for seconds, estimated in ((4.0, False), (2.0, True)):
        world.driver.time += seconds
        assert (world.view().backlog_unseen_rows > 0.0) is estimated


def test_an_idle_query_with_a_minimum_of_rows_keeps_its_backlog() -> None:
    world = World()
    world.send(world.driver.progress(100, 1.0, limit=100, backlog=40))
    world.driver.time += 10.0
    world.send(world.driver.idle())
    assert world.view().backlog_rows == 40
    assert world.view().state == "idle"


# -- names ----------------------------------------------------------------------------------------


def test_a_restarted_application_goes_on_in_the_same_series() -> None:
    world = World()
    world.batches(3)
    world.driver.application_id, world.driver.run_id = "local-2", "r-2"
    world.driver.instance = "listener-2"
    world.driver.sequence = 0
    world.send(world.driver.progress(10, 1.0))
    assert world.fleet.keys() == [KEY]  # the same checkpoint (query id): a restart, however soon
    assert world.view().totals.batches == {"completed": 4}


def test_a_second_live_application_gets_its_id_appended_and_is_counted() -> None:
    world = World()
    world.batches(3)
    other = Driver(application_id="local-2", instance="l-2", query_id="q-2", time=world.driver.time)
    world.fleet.receive(decode_request(other.body(other.progress(10, 1.0))), world.now)
    assert world.fleet.keys() == [KEY, ("shop-local-2", "orders")]
    assert world.fleet.totals.name_collisions == 1
    # The first one goes on in its own series.
    world.batches(1)
    assert world.view().totals.batches == {"completed": 4}


def test_a_silent_query_is_gone_until_it_is_retired() -> None:
    world = World()
    world.batches(2)
    world.fleet.changes()
    assert world.fleet.tick(world.now + 10) == set()
    assert world.fleet.tick(world.now + 20) == {KEY}
    assert world.fleet.view(KEY, world.now + 21).up is False
    assert world.fleet.tick(world.now + 20 + 3601) == set()  # it is missed until it is retired
    world.fleet.control(*KEY, order(retire=True), world.now + 20 + 3602)
    assert len(world.fleet) == 0
    assert Change("query:4:shoporders", None) in world.fleet.changes()


# -- a hand at the wheel ---------------------------------------------------------------------------


def order(**what: Any) -> Order:
    return Order(who="test", **what)


def test_what_the_job_configured_is_never_exceeded_unasked() -> None:
    """It may protect a database or a heap."""
    world = World(Policy())
    receipts = world.batches(20, fixed=0.2, throughput=10_000.0)
    assert max(limit or 0 for limit in limits_of(receipts)) == 500
    view = world.view()
    assert view.limit.reason == "bound:configured"
    (said,) = view.advice
    assert "configured 500 rows" in said
    told = re.search(r"above_configured would let a batch take about ([\d,]+) rows", said)
    assert told is not None
    assert int(told[1].replace(",", "")) > 5_000  # which take .7 s of the target's 5
    # An agent before this one went further: what is in force comes back.
    beyond = {"source": 0, "unit": "rows", "limit": 9000, "configured": 500, "backlog": 9}
    receipt = world.send(
        world.driver.started(run_id="r-2"), world.driver.heartbeat(limits=[beyond])
    )
    assert [grant.limit for grant in receipt.grants] == [500]
    # The job comes again and asks for less.
    less = {"source": 0, "unit": "rows", "limit": 200, "configured": 200, "backlog": 9}
    receipt = world.send(world.driver.started(run_id="r-3"), world.driver.heartbeat(limits=[less]))
    assert [grant.limit for grant in receipt.grants] == [200]
    # Asked by hand it is exceeded.
    world.fleet.control(*KEY, order(limit=9000), world.now)
    assert [grant.limit for grant in world.send(world.driver.heartbeat()).grants] == [9000]


def test_the_kill_switch_brings_the_configured_limit_back_at_once() -> None:
    world = World()
    world.batches(20)
    in_force = world.view().limit.next
    assert in_force != 500
    world.fleet.control("*", "*", order(mode="off"), world.now)
    said = [{"source": 0, "unit": "rows", "limit": in_force, "configured": 500, "backlog": 9}]
    (grant,) = world.send(world.driver.heartbeat(21, 1.0, limits=said)).grants
    assert (grant.limit, grant.reason) == (500, "mode:off")
    said[0]["limit"] = 500
    assert world.send(world.driver.heartbeat(21, 2.0, limits=said)).grants == []
    receipts = world.batches(5)
    assert all(not receipt.grants for receipt in receipts)
    assert world.view().mode == "off"


def test_dry_run_decides_and_tells_and_does_not_act() -> None:
    world = World(Policy(default=QueryPolicy(above_configured=True, mode="dry-run")))
    receipts = world.batches(15)
    assert all(not receipt.grants for receipt in receipts)
    limit = receipts[-1].judged[0].limit
    assert limit.current == 500
    assert limit.next is not None
    assert limit.next > 1000
    assert {decision.acted for decision in world.view().decisions} == {False}


#: A plant whose batches take 2.5 s whatever they hold, two with a cost per row, one with noise.
PLANTS: Final[tuple[dict[str, Any], ...]] = (
    {"fixed": 2.5, "throughput": 1e9},
    {"fixed": 0.5, "throughput": 8000.0},
    {"fixed": 0.2, "throughput": 300_000.0},
    {"fixed": 1.0, "throughput": 9000.0, "sigma": 0.3},
    {"fixed": 4.0, "throughput": 2000.0},
)
IN_FORCE: Final = 12_000


@pytest.mark.parametrize("plant", PLANTS)
def test_mode_on_after_dry_run_is_a_step_like_any_other(plant: dict[str, Any]) -> None:
    """What is granted is what a query gets that learned as much and was never in dry-run."""
    modes: tuple[Mode, ...] = ("dry-run", "off")
    dry, off = (
        World(Policy(default=QueryPolicy(above_configured=True, mode=mode))) for mode in modes
    )
    limits: dict[str, Any] = {"limit": IN_FORCE, "configured": IN_FORCE, "backlog": 10**9}
    for world in (dry, off):
        world.batches(30, **plant, **limits)
    off.fleet.control("shop", "orders", order(mode="on"), off.now)
    for world in (dry, off):
        world.batches(1, **plant, **limits | {"backlog": 10**9 - 30 * IN_FORCE})
    told = dry.view().limit
    assert told.current == IN_FORCE
    dry.fleet.control("shop", "orders", order(mode="on"), dry.now)
    said = [{"source": 0, "unit": "rows", "limit": IN_FORCE, "configured": IN_FORCE, "backlog": 9}]
    (granted,) = dry.send(dry.driver.heartbeat(31, 1.0, limits=said)).grants
    (usual,) = off.send(off.driver.heartbeat(31, 1.0, limits=said)).grants
    assert granted.limit == told.next
    assert granted.reason == usual.reason
    # Under noise dry-run stays with what it told until that has moved by the dead band.
    assert granted.limit == pytest.approx(usual.limit, rel=0.25 if "sigma" in plant else 0.0)
    # No batch above the limit in force was ever seen: twice it, or what takes 1.3 targets.
    batch_seconds = plant["fixed"] + IN_FORCE / plant["throughput"]
    assert (told.next or 0) <= IN_FORCE * max(2.0, 1.3 * 5.0 / batch_seconds * 1.5)


def test_dry_run_does_not_climb_on_limits_that_were_never_in_force() -> None:
    """Batches of many sizes that all take 2.5 s: the model is sure, but of no more than it saw."""
    world = World(Policy(default=QueryPolicy(above_configured=True, mode="dry-run")))
    chance = random.Random(3)
    for _ in range(30):
        rows, seconds = chance.randint(3000, IN_FORCE), 2.5 * chance.uniform(0.98, 1.02)
        told = {"limit": IN_FORCE, "configured": IN_FORCE, "backlog": 10**9}
        world.send(world.driver.progress(rows, seconds, **told))
        decided = world.view().decisions[-1]
        assert decided.before == IN_FORCE
        # A batch of as much as was decided, in rows as they come, stays in the band.
        (source,) = world.fleet._roster["shop", "orders"].sources
        expected = world.fleet._roster["shop", "orders"].sizing.cost.seconds(
            (decided.after or 0) * (source.ratio or 1.0)
        )
        assert (expected or 0.0) <= 1.3 * 5.0


def test_dry_run_tells_the_same_step_once() -> None:
    world = World(Policy(default=QueryPolicy(above_configured=True, mode="dry-run")))
    limits: dict[str, Any] = {"limit": IN_FORCE, "configured": IN_FORCE, "backlog": 10**9}
    world.batches(30, fixed=2.5, throughput=1e9, **limits)
    decisions = world.view().decisions
    assert {decision.before for decision in decisions} == {IN_FORCE}
    assert len(decisions) < 5


def test_what_dry_run_would_set_is_void_once_another_limit_is_in_force() -> None:
    world = World(Policy(default=QueryPolicy(above_configured=True, mode="dry-run")))
    world.batches(10, limit=500, configured=500)
    assert world.view().limit.next != 500
    said = [{"source": 0, "unit": "rows", "limit": 90, "configured": 90, "backlog": 9}]
    world.send(world.driver.heartbeat(11, 1.0, limits=said))
    world.fleet.control("shop", "orders", order(mode="on"), world.now)
    assert world.send(world.driver.heartbeat(11, 2.0, limits=said)).grants == []
    assert world.view().limit.next == 90


@pytest.mark.parametrize("mode", ["dry-run", "off"])
def test_hold_outside_of_control_holds_what_is_in_force(mode: Mode) -> None:
    world = World(Policy(default=QueryPolicy(above_configured=True, mode=mode)))
    limits: dict[str, Any] = {"limit": IN_FORCE, "configured": IN_FORCE, "backlog": 10**9}
    world.batches(20, fixed=2.5, throughput=1e9, **limits)
    world.fleet.control("shop", "orders", order(hold=True), world.now)
    assert world.view().limit.next == IN_FORCE
    world.batches(3, fixed=2.5, throughput=1e9, **limits)
    world.fleet.control("*", "*", order(mode="on"), world.now)
    for _ in range(3):
        receipts = world.batches(1, fixed=2.5, throughput=1e9, **limits)
        assert {grant.limit for grant in receipts[-1].grants} <= {IN_FORCE}
        assert receipts[-1].judged[0].limit.reason == "hold:operator"
        assert receipts[-1].judged[0].limit.next == IN_FORCE


def test_control_left_and_taken_up_again_starts_from_what_is_in_force() -> None:
    world = World()
    world.batches(20)
    granted = world.view().limit.next
    assert granted is not None
    assert granted > 1000
    world.fleet.control("shop", "orders", order(mode="dry-run"), world.now)
    world.batches(3, fixed=1.0, throughput=1000.0)
    for mode in ("off", "on"):
        world.fleet.control("shop", "orders", order(mode=mode), world.now)
    said = [{"source": 0, "unit": "rows", "limit": 500, "configured": 500, "backlog": 9}]
    assert world.send(world.driver.heartbeat(31, 1.0, limits=said)).grants == []


def restarted(world: World, mode: Mode) -> None:
    """The agent comes back with its state and another mode in its configuration."""
    world.policy = Policy(default=QueryPolicy(above_configured=True, mode=mode))
    world.fleet = Fleet.restore(world.policy, world.fleet.changes(), started_time=world.now)


def test_a_mode_changed_in_the_configuration_is_as_one_that_is_ordered() -> None:
    world = World(Policy(default=QueryPolicy(above_configured=True, mode="dry-run")))
    limits: dict[str, Any] = {"limit": IN_FORCE, "configured": IN_FORCE, "backlog": 10**9}
    world.batches(20, fixed=2.5, throughput=1e9, **limits)
    told = world.view().limit
    assert (told.current, told.next) != (IN_FORCE, IN_FORCE)
    restarted(world, "on")
    assert world.send(world.driver.idle()).grants == []  # not before a word of what is in force
    said = [{"source": 0, "unit": "rows", "limit": IN_FORCE, "configured": IN_FORCE, "backlog": 9}]
    (grant,) = world.send(world.driver.heartbeat(21, 1.0, limits=said)).grants
    assert grant.limit == told.next
    restarted(world, "dry-run")
    said[0]["limit"] = grant.limit
    (grant,) = world.send(world.driver.heartbeat(21, 2.0, limits=said)).grants
    assert (grant.limit, grant.reason) == (IN_FORCE, "mode:dry-run")
    said[0]["limit"] = IN_FORCE
    world.send(world.driver.heartbeat(21, 3.0, limits=said))
    assert world.view().limit.next == IN_FORCE


def test_a_first_batch_is_never_raised_above_what_was_in_force() -> None:
    """Neither where the agent only watched until the query ended and control was given then."""
    world = World(Policy(default=QueryPolicy(above_configured=True, mode="dry-run")))
    world.batches(30, fixed=0.2, throughput=300_000.0, limit=IN_FORCE, configured=IN_FORCE)
    world.send(world.driver.terminated())
    world.fleet.control("*", "*", order(mode="on"), world.now)
    world.driver.run_id = "r-2"
    (grant,) = world.send(world.driver.started()).grants
    assert (grant.limit, grant.reason) == (IN_FORCE, "first_batch")


def test_released_a_limit_by_hand_stays_until_the_next_batch_and_says_so() -> None:
    world = World()
    world.batches(20)
    world.fleet.control("shop", "orders", order(limit=123, unit="rows"), world.now)
    world.fleet.control("shop", "orders", order(hold=False), world.now)
    (grant,) = world.send(world.driver.heartbeat()).grants
    assert (grant.limit, grant.reason) == (123, "release")
    assert world.view().limit.reason == "release"
    (receipt,) = world.batches(1, limit=123)
    assert receipt.grants[0].limit != 123


def test_hold_release_and_limit_by_hand() -> None:
    world = World()
    world.batches(20)
    held = world.view().limit.next
    world.fleet.control("shop", "orders", order(hold=True), world.now)
    receipts = world.batches(5, throughput=100.0, limit=held)
    assert {judged.limit.next for receipt in receipts for judged in receipt.judged} == {held}
    assert receipts[-1].judged[0].limit.reason == "hold:operator"
    world.fleet.control("shop", "orders", order(limit=123, unit="rows"), world.now)
    (grant,) = world.send(world.driver.heartbeat()).grants
    assert (grant.limit, grant.reason) == (123, "manual")
    world.fleet.control("shop", "orders", order(hold=False), world.now)
    receipts = world.batches(6, limit=123)
    assert receipts[-1].grants[0].limit != 123


def test_orders_outlive_the_agent_and_meet_queries_that_come_later() -> None:
    world = World(
        Policy(
            default=QueryPolicy(above_configured=True),
            rules=(Rule(match="careful", mode="dry-run"),),
        )
    )
    world.fleet.control("*", "*", order(mode="off"), world.now)
    parts = world.fleet.changes()
    world.fleet = Fleet.restore(world.policy, parts, started_time=world.now)
    world.batches(2)
    assert world.view().mode == "off"
    world.fleet.control("*", "*", order(mode="on"), world.now)
    assert world.view().mode == "on"
    world.driver.query_id, world.driver.query = "q-9", "careful"
    world.send(world.driver.progress(1, 1.0))
    assert world.view(("shop", "careful")).mode == "dry-run"  # a rule named it


@pytest.mark.parametrize(
    ("application", "query", "holds"),
    [
        ("*", "*", "dry-run"),
        ("shop", "*", "dry-run"),
        ("sh*", "orders[[]eu]", "dry-run"),
        ("*", "o*", "dry-run"),
        ("shop", "orders[[]eu]", "on"),
        ("*", "orders[[]eu]", "on"),
        ("*", "orders?eu?", "dry-run"),
    ],
)
def test_on_by_a_pattern_leaves_a_query_to_the_rule_that_names_it(
    application: str, query: str, holds: Mode
) -> None:
    """Such as one that a rule keeps in dry-run since its results hang on where batches end."""
    key, rules = ("shop", "orders[eu]"), (Rule(match="shop/orders*", mode="dry-run"),)
    kept = "stays dry-run, as a rule says: weir mode on 'shop/orders[eu]' stands above it"
    for known in (True, False):
        world = World(Policy(default=QueryPolicy(mode="dry-run"), rules=rules), query=key[1])
        if known:
            world.batches(2)
        (record,) = world.fleet.control(application, query, order(mode="on"), world.now)
        assert not known or record.note == ("" if holds == "on" else kept)
        world.batches(2)
        assert world.view(key).mode == holds
        assert world.fleet.control(application, query, order(mode="off"), world.now)[0].note == ""
        assert world.view(key).mode == "off", "a rule says how much Weir may do, not how little"


def test_a_rule_that_comes_later_is_heeded_by_on_for_many_and_not_by_on_for_the_query() -> None:
    names = ("careful", "by name", "by pattern", "plain")
    world = World(Policy(default=QueryPolicy(mode="dry-run")))

    def meet(name: str) -> None:
        world.driver.query_id, world.driver.query = f"q-{name}", name
        world.driver.run_id = f"r-{name}"
        world.batches(2)

    for name in names[1:]:
        meet(name)
    world.fleet.control("sh*", "*", order(mode="on"), world.now)
    meet("careful")  # is greeted with it
    world.fleet.control("shop", "by name", order(mode="on"), world.now + 1.0)
    assert {world.view(("shop", name)).mode for name in names} == {"on"}
    rules = tuple(Rule(match=name, mode="dry-run") for name in names[:-1])
    world.policy = Policy(default=QueryPolicy(mode="dry-run"), rules=rules)
    world.fleet = Fleet.restore(world.policy, world.fleet.changes(), started_time=world.now)
    found = {name: world.view(("shop", name)).mode for name in names}
    assert found == {
        "careful": "dry-run",
        "by name": "on",
        "by pattern": "dry-run",
        "plain": "on",
    }


def test_the_switch_for_all_is_forgotten_for_no_number_of_other_orders() -> None:
    world = World()
    world.fleet.control("*", "*", order(mode="off"), world.now)
    for number in range(2 * MOST_STANDING_ORDERS):
        world.fleet.control(f"job-{number}", "*", order(mode="dry-run"), world.now)
    assert len(world.fleet._state.agent.standing) == MOST_STANDING_ORDERS
    assert world.fleet.mode == "off"
    world.batches(1)
    assert world.view().mode == "off"


@pytest.mark.parametrize("mode", ["on", "off"])
def test_an_order_for_those_that_are_known_is_none_for_later_ones(mode: Mode) -> None:
    """As ``weir mode on orders`` is: it names a query, wherever that is."""
    world = World(
        Policy(
            default=QueryPolicy(mode="dry-run"), rules=(Rule(match="billing/*", mode="dry-run"),)
        )
    )
    world.batches(2)
    world.fleet.control("*", "orders", order(mode=mode, must_exist=True), world.now)
    assert world.view().mode == mode
    other = Driver(
        application="billing", application_id="local-2", instance="listener-2", query_id="q-2"
    )
    world.fleet.receive(decode_request(other.body(other.started())), other.time)
    assert world.view(("billing", "orders")).mode == "dry-run"
    world.send(world.driver.terminated())
    world.fleet.tick(world.now + world.policy.forget_seconds + 1.0)
    assert world.fleet.has(KEY), "it holds for its next run, whenever that is"
    world.fleet.control("*", "orders", order(retire=True, must_exist=True), world.now)
    world.driver.run_id = "r-2"
    world.send(world.driver.started())
    assert world.view().mode == "dry-run", "retired, and the order with it"


def test_an_order_reaches_no_query_of_another_application_by_a_slash_in_a_name() -> None:
    world = World()
    world.batches(2)
    others = [
        Driver(application=application, application_id=f"local-{number}",
               instance=f"listener-{number}", query_id=f"q-{number}", run_id=f"r-{number}",
               query=query)
        for number, (application, query) in enumerate(
            [("billing", "shop/orders"), ("billing", "shop/missing"), ("a/b", "c"), ("a", "b/c")], 2
        )
    ]  # fmt: skip

    def start(driver: Driver) -> None:
        world.fleet.receive(decode_request(driver.body(driver.started())), driver.time)

    def obeyed(application: str, query: str, **what: Any) -> list[tuple[str, str]]:
        said = world.fleet.control(application, query, order(**what), world.now)
        return [(one.application, one.query) for one in said]

    for other in others:
        start(other)
    assert obeyed("shop", "orders", mode="dry-run") == [KEY]
    assert obeyed("shop", "*", mode="off") == [KEY]
    assert obeyed("a/b", "c", hold=True) == [("a/b", "c")]
    assert obeyed("a", "b/c", hold=True) == [("a", "b/c")]
    named = [("billing", "shop/orders"), ("billing", "shop/missing")]
    assert obeyed("*", "shop/*", hold=True) == named
    with pytest.raises(UnknownQuery):
        obeyed("shop", "missing", hold=True)
    others[0].query_id, others[0].run_id, others[0].query = "q-9", "r-9", "shop/later"
    start(others[0])
    assert world.view(("billing", "shop/later")).mode == "on", "what stands is no other's either"


KILL: Final = {"mode": "off", "must_exist": True}


@pytest.mark.parametrize(
    ("application", "query", "what", "error", "says"),
    [
        ("shop", "ordres", {"hold": True}, UnknownQuery, "nearest: shop/orders"),
        ("shop", "nope*", {"hold": True}, UnknownQuery, "no query"),
        ("*", "ordres", KILL, UnknownQuery, "no query ordres; nearest: shop/orders"),
        ("*", "sho", KILL, UnknownQuery, "no query sho; nearest: shop/*"),
        (
            "*",
            "shop",
            KILL,
            UnknownQuery,
            "no query shop; an application of that name has: orders. Say shop/*",
        ),
        ("shop", "nope*", KILL, UnknownQuery, "no query shop/nope*"),
        ("shop", "ordres", {"mode": "off"}, UnknownQuery, "nearest: shop/orders"),
        ("shop", "orders", {}, ValueError, "exactly one"),
        ("shop", "orders", {"hold": True, "mode": "on"}, ValueError, "exactly one"),
        ("shop", "orders", {"limit": 0}, ValueError, "limit"),
        ("shop", "orders", {"limit": 5, "unit": "files"}, ValueError, "in rows"),
    ],
)
def test_a_wrong_order_says_what_is_wrong(
    application: str, query: str, what: dict[str, Any], error: type[Exception], says: str
) -> None:
    world = World()
    world.batches(2)
    with pytest.raises(error, match=None) as caught:
        world.fleet.control(application, query, order(**what), world.now)
    assert says in str(caught.value)


def test_a_limit_by_hand_says_that_each_source_has_it_and_which_none_has() -> None:
    """A query of two topics takes twice as much; files beside them are not counted in rows."""
    world = World()

    def batch(*units: str) -> dict[str, int | None]:
        said = [
            {"source": index, "unit": unit, "limit": 500, "configured": 500, "control": "live"}
            for index, unit in enumerate(units)
        ]
        sources = [{"description": f"Source {one}", "numInputRows": 10} for one in units]
        event = world.driver.progress(10 * len(units), 1.0, limits=said, sources=sources)
        return {grant.unit: grant.limit for grant in world.send(event).grants}

    def note(*units: str, **what: Any) -> str:
        batch(*units)
        (record,) = world.fleet.control(*KEY, order(**what), world.now)
        return record.note

    assert note("rows", limit=700) == ""
    assert note("rows", "rows", limit=700) == "done; each of 2 sources has it"
    files = "a limit in files stays as it is until weir release"
    assert note("rows", "rows", "files", limit=700, unit="rows") == (
        f"done; each of 2 sources has it; {files}"
    )
    assert note("rows", "files", limit=700, unit="rows") == f"done; {files}"
    granted = batch("rows", "files")
    assert granted["rows"] == 700
    assert granted.get("files", 500) == 500
    assert note("rows", "files", hold=True) == ""


def test_an_order_that_changes_nothing_now_says_so() -> None:
    world = World()
    world.batches(2)

    def note(application: str = "shop", query: str = "orders", **what: Any) -> str:
        (record,) = world.fleet.control(application, query, order(**what), world.now)
        return record.note

    assert note(limit=700) == note(hold=True) == note(hold=False) == note(mode="on") == ""
    assert note("*", "later*", mode="off") == "fits no query now; holds for later ones"
    assert note(mode="dry-run") == ""
    assert note(limit=700) == "noted; in dry-run nothing changes: weir mode on shop/orders"
    assert note(mode="off") == ""
    assert (
        note(hold=True) == "noted; while its mode is off nothing changes: weir mode on shop/orders"
    )
    world.driver.query_id, world.driver.query = "q-2", "far away"
    said = [{"source": 0, "unit": "files", "limit": None, "configured": None, "control": "none"}]
    world.send(world.driver.progress(10, 1.0, limits=said))
    assert note(query="far away", limit=7) == "noted; its limit cannot be changed live"
    world.fleet.control("*", "*", order(mode="dry-run"), world.now)
    assert note(query="far away", limit=7).endswith("weir mode on 'shop/far away'")


# -- hung, liveness --------------------------------------------------------------------------------


def test_a_hung_batch_grows_older_between_heartbeats() -> None:
    world = World()
    world.batches(5)
    world.send(world.driver.heartbeat(5, 100.0))
    view = world.fleet.view(KEY, world.now + 3.0)
    assert view.running_batch_id == 5
    assert view.running_seconds == pytest.approx(103.0)
    assert view.state == "stalled"
    world.send(world.driver.progress(10, 110.0))
    assert world.view().running_seconds is None


def test_a_batch_as_long_as_two_of_late_were_is_not_hung() -> None:
    """A sink that compacts its log with every tenth batch; one accident excuses nothing."""
    for slow, hangs in (([180.0], True), ([180.0, 180.0], False)):
        world = World()
        for seconds in slow:
            world.batches(9)
            world.send(world.driver.progress(10, seconds))
        world.batches(9)
        batch_id = world.driver.batch_id + 1
        world.send(world.driver.heartbeat(batch_id, 250.0))
        assert (world.view().state == "stalled") is hangs
        world.send(world.driver.heartbeat(batch_id, 290.0))
        assert world.view().state == "stalled"


def test_a_batch_that_sat_out_an_outage_says_nothing_of_how_long_the_next_may_take() -> None:
    world = World()
    world.batches(9)
    world.send(world.driver.progress(1_000, 2_400.0))
    world.send(world.driver.heartbeat(world.driver.batch_id + 1, 300.0))
    assert world.view().state == "stalled"


def test_of_two_batches_in_all_the_longer_tells_how_long_one_may_take() -> None:
    world = World()
    for seconds in (3.0, 300.0):
        world.send(world.driver.progress(1_000, seconds))
    world.send(world.driver.heartbeat(world.driver.batch_id + 1, 250.0))
    assert world.view().state != "stalled"


def test_batches_that_double_one_after_the_other_are_not_hung() -> None:
    world = World()
    world.batches(9)
    for seconds in (5.0, 10.0, 20.0, 40.0):
        world.send(world.driver.progress(1_000, seconds))
    world.send(world.driver.heartbeat(world.driver.batch_id + 1, 80.0))
    assert world.view().state != "stalled"


def test_the_first_batch_of_a_run_from_a_checkpoint_taken_back_runs() -> None:
    """As after a restored savepoint: what ended in the run before says nothing of it."""
    world = World(Policy(default=QueryPolicy(deadline_seconds=60.0)))
    world.batches(10)
    late = {**world.driver.ids(), "batchId": 10, "running_seconds": 1.0}
    world.send(world.driver.terminated())
    world.driver.run_id = "r-2"
    world.send(world.driver.started())
    for seconds in (1.0, 61.0):
        world.driver.time += seconds
        world.send(world.driver.heartbeat(4, seconds))
        world.send(world.driver.event("heartbeat", {"queries": [late]}))  # of the run before
        view = world.view()
        assert view.running_batch_id == 4
        assert view.running_seconds == pytest.approx(seconds, abs=0.1)
    assert view.state == "stalled"
    assert world.fleet.liveness(*KEY, world.now).why != "idle"
    world.send(world.driver.terminated())
    stuck = world.fleet._roster[KEY].watched.spiral
    assert (stuck.open_batch_id, stuck.open_timeouts) == (4, 1)
    world.driver.run_id = "r-3"  # of which no heartbeat says which batch it is
    world.driver.time += 1.0
    world.send(world.driver.started(), world.driver.terminated("lost"))
    assert (stuck.open_batch_id, stuck.open_ends) == (4, 2)
    world.driver.run_id = "r-4"
    world.driver.time += 5.0
    world.send(world.driver.started(), world.driver.progress(10, 1.0, batch_id=4))
    world.send(world.driver.heartbeat(4, 1.0))  # made before it ended
    assert world.view().running_batch_id is None


def test_a_batch_that_is_run_again_after_an_outage_reads_no_more_than_before() -> None:
    world = World(Policy(default=QueryPolicy(mode="off")))
    world.hundred_a_second()
    world.send(world.driver.heartbeat(20, 1.0), world.driver.terminated("lost"))
    world.driver.time += 8 * 3_600.0
    world.driver.run_id = "r-2"
    world.send(world.driver.started())
    world.driver.time += 2_400.0
    world.send(world.driver.heartbeat(20, 2_400.0))
    assert world.view().state == "stalled"


def test_a_source_that_waits_for_more_is_at_rest_with_what_it_has() -> None:
    world = World(Policy(default=QueryPolicy(mode="off")))
    world.batches(4, limit=None, configured=None, backlog=0)
    world.send(world.driver.progress(100, 1.0, backlog=5_000))
    world.send(world.driver.idle())
    assert world.fleet._roster[KEY].flow.rested_time is None
    world.send(world.driver.progress(5_000, 1.0, backlog=0), world.driver.idle())
    assert world.fleet._roster[KEY].flow.rested_time is not None


@pytest.mark.parametrize("how", [{"mode": "off"}, {"limit": 300}, {"hold": True}])
def test_what_was_ordered_of_a_query_holds_for_its_next_run_whenever_that_is(
    how: dict[str, Any],
) -> None:
    """As of one that reads what is there four times a day."""
    world = World()
    world.batches(5)
    world.fleet.control(*KEY, Order(who="kim", **how), world.now)
    before = world.view()
    world.send(world.driver.terminated())
    for _ in range(2):
        world.fleet.tick(world.now + 3_700.0)
    world.driver.time += 6 * 3_600.0
    world.driver.run_id = "r-2"
    world.send(world.driver.started())
    now = world.view()
    assert (now.mode, now.held_by, now.mode_by) == (before.mode, before.held_by, before.mode_by)


def test_a_run_that_configures_less_is_granted_no_more_at_its_start() -> None:
    world = World(Policy(default=QueryPolicy()))
    world.batches(20, limit=40_000, configured=40_000, backlog=10**9)
    world.send(world.driver.terminated())
    world.driver.run_id = "r-2"
    begun = world.driver.started()
    begun["limits"] = [
        {"source": 0, "unit": "rows", "limit": 2_000, "configured": 2_000, "control": "live"}
    ]
    granted = world.send(begun).grants
    assert all(one.limit is None or one.limit <= 2_000 for one in granted)
    assert world.view().sources[0].configured == 2_000


def test_a_hold_names_no_number_and_keeps_to_what_the_next_run_configures() -> None:
    world = World(Policy(default=QueryPolicy()))
    world.send(world.driver.progress(500, 1.0, limit=5_000, configured=5_000, backlog=0))
    world.fleet.control(*KEY, order(hold=True), world.now)
    (grant,) = world.send(world.driver.heartbeat()).grants
    assert (grant.limit, grant.reason) == (5_000, "hold:operator")
    world.send(world.driver.terminated())
    world.driver.run_id = "r-2"
    begun = world.driver.started()
    begun["limits"] = [
        {"source": 0, "unit": "rows", "limit": 1_000, "configured": 1_000, "control": "live"}
    ]
    for sent in (begun, world.driver.progress(1_000, 1.5, limit=1_000, configured=1_000)):
        (grant,) = world.send(sent).grants
        assert (grant.limit, grant.reason) == (1_000, "hold:operator")
    assert world.view().limit.reason == "hold:operator"


def test_what_was_only_told_in_dry_run_and_released_is_never_granted() -> None:
    world = World(Policy(default=QueryPolicy(above_configured=True, mode="dry-run")))
    world.batches(20, fixed=2.5, throughput=1e9, limit=12_000, configured=12_000, backlog=10**9)
    for what in ({"limit": 5}, {"hold": False}, {"mode": "on"}):
        world.fleet.control(*KEY, Order(who="kim", **what), world.now)
    assert all(one.limit != 5 for one in world.send(world.driver.heartbeat()).grants)


@pytest.mark.parametrize(
    ("rested", "age", "state"),
    [(False, 200.0, "busy"), (False, 2_400.0, "stalled"), (True, 200.0, "stalled")],
    ids=["reads an hour's rows", "six times what they take", "nothing had come"],
)
def test_a_batch_that_reads_what_came_in_a_pause_is_not_hung(
    *, rested: bool, age: float, state: str
) -> None:
    """A hundred rows arrive a second and a thousand are read in one: an hour's take six minutes."""
    world = World(Policy(default=QueryPolicy(mode="off")))
    world.hundred_a_second()
    world.driver.time += 3_600.0
    if rested:
        world.send(world.driver.idle())
    world.driver.time += age
    world.send(world.driver.heartbeat(20, age))
    assert world.view().state == state


@pytest.mark.parametrize(
    ("after", "event", "ok", "why"),
    [
        (1.0, None, True, "idle"),
        (1.0, ("heartbeat", 4, 2.0), True, "progressing"),
        (1.0, ("heartbeat", 4, 20.0), True, "slow"),
        (1.0, ("heartbeat", 4, 61.0), False, "hung"),
        (16.0, None, False, "silent"),
        (1.0, ("terminated",), True, "gone"),
    ],
)
def test_a_probe_kills_only_what_a_restart_would_help(
    after: float, event: tuple[Any, ...] | None, ok: bool, why: str
) -> None:
    world = World(Policy(default=QueryPolicy(above_configured=True, deadline_seconds=60.0)))
    world.batches(3)
    if event is not None and event[0] == "heartbeat":
        began = world.driver.time
        world.send(world.driver.heartbeat(event[1], 0.0))
        while world.driver.time < began + event[2]:
            world.driver.time = min(world.driver.time + 5.0, began + event[2])
            world.send(world.driver.heartbeat(event[1], world.driver.time - began))
    elif event is not None:
        world.send(world.driver.terminated("boom"))
    found = world.fleet.liveness("shop", "orders", world.now + after)
    assert (found.ok, found.why) == (ok, why)
    assert world.fleet.liveness("shop", "other", world.now).why == "unknown"


def test_no_probe_ends_the_batch_that_the_next_run_would_repeat() -> None:
    """One that is longer than the deadline would be ended and begun anew without end."""
    world = World(Policy(default=QueryPolicy(above_configured=True, deadline_seconds=60.0)))
    world.batches(3)

    def probed(batch_id: int, age: float) -> str:
        began = world.driver.time
        while world.driver.time < began + age:
            world.send(world.driver.heartbeat(batch_id, world.driver.time - began))
            world.driver.time = min(world.driver.time + 5.0, began + age)
        world.send(world.driver.heartbeat(batch_id, age))
        return world.fleet.liveness("shop", "orders", world.now).why

    assert probed(4, 61.0) == "hung"
    for run in ("run-2", "run-3"):
        world.driver.run_id = run
        world.send(world.driver.started())
        assert probed(4, 1200.0) == "slow", "it was killed, and does it all again"
    world.send(world.driver.progress(4, 1200.0))
    assert probed(5, 61.0) == "hung"


def test_a_probe_waits_for_an_agent_that_just_started() -> None:
    world = World()
    world.batches(3)
    parts = world.fleet.changes()
    fleet = Fleet.restore(world.policy, parts, started_time=world.now + 500)
    assert fleet.liveness("shop", "orders", world.now + 510).why == "starting"
    assert fleet.liveness("shop", "orders", world.now + 561).why == "unknown"


def test_a_failed_run_is_counted_and_its_batch_known_as_replayed() -> None:
    world = World()
    world.batches(3)
    world.send(world.driver.heartbeat(3, 2.0))
    receipt = world.send(world.driver.terminated("java.lang.Boom: password=x\n at y"))
    assert receipt.judged[0].failure is not None
    assert receipt.judged[0].failure.evidence == "java.lang.Boom: password=***"
    assert receipt.judged[0].checkpoint.failures_consecutive == 1
    world.driver.run_id = "r-2"
    world.send(world.driver.started(), world.driver.progress(500, 2.0))
    view = world.view()
    assert view.totals.batches["replayed"] == 1
    assert view.totals.replayed_rows == 500
    assert view.spiral.replay_amplification > 1.0
    assert view.checkpoint.failures_consecutive == 0


@pytest.mark.parametrize(("version", "seconds", "stopped"), [
    ("3.5.9", 2.0, True), ("4.2.0", 2.0, False), ("3.5.9", 70.0, False),
])  # fmt: skip
def test_a_stop_that_spark_3_tells_as_a_failure_is_a_stop_unless_the_batch_was_timed_out(
    version: str, seconds: float, *, stopped: bool
) -> None:
    world = World(Policy(default=QueryPolicy(deadline_seconds=60.0)))
    world.driver.spark_version = version
    world.batches(3)
    world.driver.time += seconds
    world.send(world.driver.heartbeat(3, seconds))
    world.send(
        world.driver.terminated(
            "py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: "
            "Traceback (most recent call last):\n"
            '  File "/app/job.py", line 9, in write\n    frame.write.save("/out")\n'
            "py4j.protocol.Py4JJavaError: An error occurred while calling o44.save.\n"
            ": org.apache.spark.SparkException: Job 7 cancelled part of cancelled job group r-1\n"
        )
    )
    view = world.view()
    assert view.stopped is stopped
    assert (view.failure is None) is stopped
    assert view.totals.failures == ({} if stopped else {"unknown": 1})
    # The batch is open all the same, and comes first in the next run.
    assert world.fleet._roster[KEY].watched.spiral.open_batch_id == 3


def test_judgements_are_the_contracts_lines() -> None:
    world = World()
    (receipt,) = world.batches(1)
    line = json.loads(json.dumps(__import__("msgspec").to_builtins(receipt.judged[0])))
    assert list(line) == [
        "time",
        "application",
        "query",
        "batch_id",
        "event",
        "backlog_rows",
        "backlog_seconds",
        "lag_state",
        "state",
        "pressure",
        "throughput_rows_per_second",
        "fixed_cost_seconds",
        "arrival_rows_per_second",
        "limit",
        "checkpoint",
        "spiral",
        "failure",
    ]


@pytest.mark.parametrize("before", [False, True])
def test_a_query_whose_source_is_limited_in_a_newer_driver_s_unit_is_followed_and_not_steered(
    *, before: bool
) -> None:
    world = World()
    entry = {"source": 0, "unit": "rows", "limit": 500, "configured": 500, "backlog": 7000}
    for _ in range(5 if before else 0):
        world.send(world.driver.progress(500, 9.0, limits=[entry]))
    world.driver.run_id = "r-2"
    entry = {"source": 0, "unit": "splits", "limit": 500, "configured": 500, "backlog": 7}
    for _ in range(20):
        world.send(world.driver.heartbeat(world.driver.batch_id + 1, 1.0, limits=[entry]))
        receipt = world.send(world.driver.progress(500, 9.0, limits=[entry]))
        assert (receipt.refused, receipt.grants) == ([], [])
    view = world.view()
    (source,) = view.sources
    assert (view.up, source.backlog, source.control, source.granted) == (True, None, "advice", None)
    assert "splits" in source.note
    assert not source.limit_known
    assert world.fleet._roster[KEY].totals.rows == (25 if before else 20) * 500
