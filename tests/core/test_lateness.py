"""Late rows: smaller batches are taken back where they cost rows, and only there."""

from __future__ import annotations

import random
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from agent.core.fleet import LATE_ROWS_NOTE, Fleet, Order
from agent.core.judge.lateness import Counted, Lateness
from agent.core.policy import LateRows, Policy, QueryPolicy
from spark_listener.sources import FILES, ICEBERG
from spark_listener.wire import format_time
from tests.core.events import Driver
from tests.core.test_fleet import KEY, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.core.judgement import Mode

DELAY_SECONDS = 10.0
CONFIGURED = 40_000
RATE = 1000.0  # rows per second that arrive
FIXED_SECONDS, THROUGHPUT = 1.0, 4000.0


def policy(late_rows: LateRows, **more: Any) -> Policy:
    return Policy(default=QueryPolicy(late_rows=late_rows, target_seconds=2.0, **more))


class Stream:
    """A query with a watermark as Spark runs it, on rows that arrive with their event times.

    Each batch takes what has arrived, at most its limit; rows behind the watermark are dropped; the
    watermark moves at a batch's end. A grant is in force two batches later.
    """

    def __init__(self, world: World, lateness: Callable[[random.Random], float]) -> None:
        self.world = world
        self.random = random.Random(4)
        self.lateness = lateness
        self.began = world.driver.time
        self.read = 0
        self.greatest = self.watermark = 0.0
        self.oldest = 0.0  # no event is older
        self.delay_seconds, self.step_seconds = DELAY_SECONDS, 0.0  # of event times
        self.tells_delay = False
        self.operator = "stateStoreSave"
        self.chunk = 0  # of so many rows each is read whole, and nobody tells what is left
        self.limits: list[int | None] = [CONFIGURED, CONFIGURED]
        self.batches: list[tuple[int | None, int, int]] = []  # limit, rows, dropped

    def wait(self, seconds: float) -> Stream:
        """Nothing is read for so long: it piles up."""
        self.world.driver.time += seconds
        return self

    def run(self, count: int, trigger_seconds: float = 0.0) -> Stream:
        for _ in range(count):
            driver = self.world.driver
            arrived = int((driver.time - self.began) * RATE)
            limit = self.limits.pop(0)
            rows = min(arrived - self.read, CONFIGURED if limit is None else limit)
            if self.chunk and rows > self.chunk:
                rows -= rows % self.chunk
            times = [
                max(
                    driver.time - (arrived - self.read - n) / RATE - self.lateness(self.random),
                    self.oldest,
                )
                for n in range(rows)
            ]
            if self.step_seconds:
                times = [time // self.step_seconds * self.step_seconds for time in times]
            dropped = sum(time <= self.watermark for time in times)
            seconds = FIXED_SECONDS + rows / THROUGHPUT
            self.read += rows
            body = {
                "eventTime": {
                    "min": format_time(min(times)),
                    "max": format_time(max(times)),
                    "avg": format_time(sum(times) / len(times)),
                    "watermark": format_time(self.watermark),
                },
                "stateOperators": [
                    {"operatorName": self.operator, "numRowsDroppedByWatermark": dropped}
                ],
            }
            backlog = None if self.chunk else arrived - self.read
            event = driver.progress(
                rows, seconds, limit=limit, configured=CONFIGURED, backlog=backlog, **body
            )
            # One that reads in order, in rows.
            event["limits"][0] |= {"source_class": ICEBERG.classes[0], "obeyed": True}
            if self.tells_delay:
                event["limits"][0]["watermark_delay_seconds"] = self.delay_seconds
            granted = [grant.limit for grant in self.world.send(event).grants]
            self.limits.append(granted[0] if granted else CONFIGURED)
            self.greatest = max(self.greatest, *times)
            self.watermark = max(self.watermark, self.greatest - self.delay_seconds)
            self.batches.append((limit, rows, dropped))
            driver.time += max(trigger_seconds - seconds, 0.0)
        return self

    @property
    def dropped(self) -> list[int]:
        return [dropped for _, _, dropped in self.batches]


def late(share: float, most_seconds: float) -> Callable[[random.Random], float]:
    """So many rows come up to so many seconds late, the others at once."""
    return lambda draw: draw.uniform(0.0, most_seconds) if draw.random() < share else 0.0


ON_TIME = late(0.0, 0.0)


def learned(told: Policy, chunk: int = 0) -> Stream:
    """A burst is worked off in small batches; then another one comes, in which rows are late."""
    stream = Stream(World(told), ON_TIME)
    stream.chunk = chunk
    stream.wait(60.0).run(40)
    stream.lateness, stream.oldest = late(0.03, 45.0), stream.world.driver.time
    return stream.wait(40.0).run(30)


def test_whole_chunks_stay_below_the_limit_that_cuts_them() -> None:
    stream = learned(policy("guard"), chunk=300)
    first = next(n for n, dropped in enumerate(stream.dropped) if dropped)
    ours = [n for n, (limit, _, _) in enumerate(stream.batches) if (limit or 0) < CONFIGURED]
    assert ours, "a smaller batch was never tried"
    assert max(ours) <= first + 2
    assert stream.world.view().late_rows_held is True


def test_where_rows_fall_late_the_limit_goes_back_within_two_batches_and_stays() -> None:
    alone = Stream(World(policy("guard", mode="off")), ON_TIME).wait(1.0).run(4, 3.0)
    alone.lateness, alone.oldest = late(0.03, 45.0), alone.world.driver.time
    assert alone.wait(35.0).run(1).dropped == [0] * 5  # one batch takes it all
    stream = learned(policy("guard"))
    first = next(n for n, dropped in enumerate(stream.dropped) if dropped)
    ours = [n for n, (limit, _, _) in enumerate(stream.batches) if (limit or 0) < CONFIGURED]
    assert ours, "a smaller batch was never tried"
    assert max(ours) <= first + 1
    view = stream.world.view()
    assert view.limit.reason == "hold:late_rows"
    assert view.late_rows_held is True
    assert view.sources[0].granted == CONFIGURED
    (finding,) = view.findings
    assert (finding.check, finding.severity) == ("late_rows", "warning")
    (back,) = [one for one in view.decisions if one.reason == "hold:late_rows"]
    assert "as configured 0 of" in back.detail


@pytest.mark.parametrize("every", [10**9, 30_000])
def test_that_one_row_of_a_far_time_has_all_others_dropped_is_not_blamed_on_smaller_batches(
    every: int,
) -> None:
    """From the batch after it on, wherever batches end; and some devices send more than one."""
    stream = Stream(World(policy("guard")), ON_TIME).wait(60.0).run(40).wait(40.0).run(4)
    assert (stream.batches[-1][0] or CONFIGURED) < CONFIGURED
    numbers, ahead = count(), 250e9  # seconds: the year 9979
    stream.lateness = lambda _: 0.0 if next(numbers) % every else -ahead
    stream.run(20)
    assert stream.dropped[-1] > 0
    view = stream.world.view()
    assert view.late_rows_held is False
    finding, *_ = [one for one in view.findings if one.check == "late_rows"]
    assert "the watermark is 250,000,000,000 s ahead of the clock" in finding.evidence
    assert finding.severity == "error"


def test_a_device_whose_clock_is_ahead_and_who_sends_in_every_batch_is_told() -> None:
    """No batch then is without a row of its time, so none lies whole before the watermark."""
    stream = Stream(World(policy("guard")), ON_TIME).wait(60.0).run(40).wait(40.0).run(4)
    numbers = count()
    stream.lateness = lambda _: 0.0 if next(numbers) % 50 else -7200.0
    stream.run(20)
    assert stream.dropped[-1] > 0
    view = stream.world.view()
    assert view.late_rows_held is False
    finding, *_ = [one for one in view.findings if one.check == "late_rows"]
    assert finding.severity == "error"
    assert "ahead of the clock" in finding.evidence


def test_a_row_that_is_further_off_still_is_no_clock_of_the_others() -> None:
    stream = Stream(World(policy("guard")), ON_TIME).wait(60.0).run(40).wait(40.0).run(4)
    numbers, far = count(), {0: -7200.0, 30_000: -250e9}
    stream.lateness = lambda _: far.get(next(numbers), 0.0)
    stream.run(20)
    assert stream.dropped[-1] > 0
    assert stream.world.view().late_rows_held is False


def test_drops_count_again_once_the_rows_are_where_a_far_one_took_the_watermark() -> None:
    stream = Stream(World(policy("guard", mode="dry-run")), ON_TIME).wait(1.0).run(4, 3.0)
    numbers, told = count(), list[bool]()
    stream.lateness = lambda _: 0.0 if next(numbers) else -300.0
    while stream.dropped[-1] or len(stream.batches) < 8:
        stream.run(1, 3.0)
        told.append("ahead of the clock" in stream.world.view().findings[0].evidence)
    assert told[0] is False, "its own batch drops none"
    assert all(told[1:-1])
    counted = stream.world.fleet._roster[KEY].watched.lateness.as_configured
    assert counted.dropped == 0
    before = counted.rows
    stream.run(6, 3.0)
    assert "ahead of the clock" not in stream.world.view().findings[0].evidence
    assert counted.rows > before


def test_rows_whose_own_clock_goes_ahead_are_guarded_as_any() -> None:
    """As times of another zone that are taken for UTC."""
    ahead, few = 7200.0, late(0.03, 45.0)
    stream = Stream(World(policy("guard")), lambda _: -ahead).wait(60.0).run(40)
    stream.lateness = lambda draw: few(draw) - ahead
    stream.oldest = stream.world.driver.time + ahead
    stream.wait(40.0).run(30)
    assert sum(stream.dropped) > 0
    assert stream.world.view().late_rows_held is True


def test_rows_of_two_clocks_are_guarded_after_a_batch_that_held_the_few_of_the_one_behind() -> None:
    ahead, few, numbers = 7200.0, late(0.03, 45.0), count()
    stream = Stream(World(policy("guard")), lambda _: -ahead).wait(60.0).run(40)
    stream.lateness = lambda _: 0.0
    stream.run(1)
    assert "ahead of the clock" in stream.world.view().findings[0].evidence
    stream.lateness = lambda draw: few(draw) - ahead if next(numbers) % 10 else 0.0
    stream.oldest = stream.world.driver.time + ahead
    stream.wait(40.0).run(30)
    assert sum(stream.dropped) > 0
    assert "ahead of the clock" not in stream.world.view().findings[0].evidence


def test_rows_within_the_delay_hold_nothing() -> None:
    stream = Stream(World(policy("guard")), late(0.5, 9.0)).wait(40.0).run(40)
    assert sum(stream.dropped) == 0
    assert min(limit or CONFIGURED for limit, _, _ in stream.batches) < CONFIGURED
    view = stream.world.view()
    assert view.late_rows_held is False
    assert view.watermark_delay_seconds == pytest.approx(DELAY_SECONDS, abs=0.01)
    assert view.lateness_seconds is not None
    assert 5.0 < view.lateness_seconds <= 9.0
    assert [finding.severity for finding in view.findings] == ["info"]


def test_duplicates_within_the_watermark_are_dropped_in_batches_as_configured() -> None:
    """In smaller ones a key is forgotten, and given out again: no row falls late, nothing tells."""
    for late_rows, smaller in (("guard", False), ("allow", True)):
        world = World(policy(late_rows))  # type: ignore[arg-type]
        stream = Stream(world, ON_TIME)
        stream.operator = "dedupeWithinWatermark"
        stream.wait(40.0).run(30)
        assert (min(limit or CONFIGURED for limit, _, _ in stream.batches) < CONFIGURED) is smaller
        (finding,) = [one for one in world.view().findings if one.check == "late_rows"]
        assert ("dropDuplicatesWithinWatermark forgets a key" in finding.evidence) is not smaller
        stream.operator = "dedupe"  # the job was changed
        world.driver.run_id += "+"
        world.send(world.driver.started())
        stream.wait(40.0).run(30)
        assert min(limit or CONFIGURED for limit, _, _ in stream.batches[-30:]) < CONFIGURED


@pytest.mark.parametrize("told", [True, False])
def test_where_the_delay_is_zero_rows_of_one_time_are_not_parted(told: bool) -> None:
    """In order, on time, of one partition: and Spark drops those in the batch after the first."""

    def dropped(late_rows: LateRows, mode: Mode, delay_seconds: float = 0.0) -> int:
        """Of a burst's rows."""
        world = World(policy(late_rows, mode=mode))
        stream = Stream(world, ON_TIME)
        stream.step_seconds, stream.delay_seconds, stream.tells_delay = 1.0, delay_seconds, told
        stream.wait(40.0).run(20, 2.0)
        before = len(stream.batches)
        stream.wait(39.5).run(20, 2.0)
        burst = stream.batches[before:]
        ends = list(accumulate(rows for _, rows, _ in burst))
        smaller.append(min(limit or CONFIGURED for limit, _, _ in burst) < CONFIGURED)
        (finding,) = [one for one in world.view().findings if one.check == "late_rows"]
        if (late_rows, mode, delay_seconds) == ("guard", "on", 0.0):
            assert "the declared delay is 0 s" in finding.evidence
            assert "1 millisecond" in finding.remedy
        return sum(one[2] for one, end in zip(burst, [0, *ends], strict=False) if end < CONFIGURED)

    smaller: list[bool] = []
    as_configured = dropped("guard", "off")
    assert dropped("guard", "on") == as_configured
    assert dropped("allow", "on") > as_configured, "what it is about"
    assert dropped("guard", "on", 0.001) == 0
    assert smaller == [False, False, True, True]


def test_a_delay_of_zero_is_known_where_a_later_batch_shows_more() -> None:
    """As of a plan with two watermarks: rows are held against the nearer one."""
    world = World(policy("guard"))
    since = world.driver.time
    for greatest, watermark in ((100.0, 0.0), (110.0, 100.0), (120.0, 105.0)):
        times = {"min": greatest, "max": greatest, "avg": greatest, "watermark": watermark}
        body = {
            "eventTime": {name: format_time(since + time) for name, time in times.items()},
            "stateOperators": [{"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": 0}],
        }
        world.send(world.driver.progress(1000, 1.0, configured=CONFIGURED, **body))
    (query,) = world.fleet._roster
    assert query.watched.lateness.delay_seconds == pytest.approx(5.0)
    assert query.watched.lateness.tied


def test_hold_never_makes_a_batch_smaller_and_allow_goes_on() -> None:
    for late_rows, smaller in (("hold", False), ("allow", True)):
        world = World(policy(late_rows))  # type: ignore[arg-type]
        stream = Stream(world, late(0.03, 45.0)).wait(40.0).run(30)
        limits = [limit for limit, _, _ in stream.batches]
        assert (min(limits[5:]) < CONFIGURED) is smaller  # type: ignore[type-var]
        assert (world.view().limit.reason == "hold:late_rows") is not smaller
        assert world.view().late_rows_held is False
    assert sum(stream.dropped) > 0


def test_a_query_that_is_no_smaller_drops_as_many_is_not_held() -> None:
    """Rows of days ago are dropped however large batches are."""
    world = World(policy("guard", mode="dry-run"))
    stragglers = late(0.001, 1e6)
    stream = Stream(world, stragglers).wait(1.0).run(40, 3.0)
    assert sum(stream.dropped) > 10
    world.policy = policy("guard")
    world.fleet = Fleet.restore(world.policy, world.fleet.changes(), started_time=world.now)
    stream.wait(60.0).run(60)
    assert min(limit or CONFIGURED for limit, _, _ in stream.batches[-40:]) < CONFIGURED
    assert world.view().late_rows_held is False
    # What comes on top of them is seen all the same.
    stream.lateness = lambda draw: max(stragglers(draw), late(0.2, 30.0)(draw))
    stream.wait(60.0).run(20)
    assert world.view().late_rows_held is True


def dropped_at(time: float, rows: int) -> dict[str, Any]:
    """What a batch tells of its rows: the newest is of ``time``, so many were dropped as late."""
    return {
        "eventTime": {
            "min": format_time(time - 1.0),
            "max": format_time(time),
            "avg": format_time(time - 0.5),
            "watermark": format_time(time - 11.0),
        },
        "stateOperators": [{"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": rows}],
    }


@pytest.mark.parametrize(("later", "blamed"), [(1, True), (2, True), (3, False)])
def test_a_smaller_batch_is_blamed_for_rows_that_fall_late_up_to_two_batches_later(
    later: int, blamed: bool
) -> None:
    """Of several stateful operators the second holds rows against the watermark before."""
    world = World(policy("guard"))
    for number in range(20):
        time, cut = world.driver.time, number == 10
        body = dropped_at(time, 50 * (number == 10 + later))
        rows, limit = (300, 300) if cut else (1000, CONFIGURED)
        world.send(
            world.driver.progress(
                rows, 1.0, limit=limit, configured=CONFIGURED, backlog=700 * cut, **body
            )
        )
    assert world.view().late_rows_held is blamed


def test_so_is_one_for_a_list_of_files_that_the_next_batch_reads_to_its_end() -> None:
    """What came since is in the batch after it, though no limit ended that one."""
    world = World(policy("guard"))
    world.driver.unit = "files"
    for number in range(20):
        time, cut = world.driver.time, number == 10
        late = 50 * (number == 13)  # two after the one that read the list
        body = dropped_at(time, late)
        event = world.driver.progress(1000, 1.0, limit=3 if cut else None, backlog=7 * cut, **body)
        event["limits"][0] |= {"source_class": FILES.classes[0], "admitted": 3 if cut else 10}
        world.send(event)
    assert world.view().late_rows_held is True


@pytest.mark.parametrize(
    ("mode", "operators", "none"),
    [
        ("complete", ["stateStoreSave"], True),
        ("complete", ["dedupe", "stateStoreSave"], False),
        ("complete", ["sessionWindowStateStoreSaveExec"], False),  # which drops in any mode
        ("update", ["stateStoreSave"], False),
        ("", ["stateStoreSave"], False),  # nobody tells
    ],
)
def test_an_aggregation_drops_no_row_in_output_mode_complete(
    mode: str, operators: list[str], none: bool
) -> None:
    world = World(policy("hold"))
    world.send(world.driver.started(outputMode=mode))
    body = {
        "eventTime": {"watermark": format_time(world.driver.time)},
        "stateOperators": [
            {"operatorName": name, "numRowsDroppedByWatermark": 0} for name in operators
        ],
    }
    said = {"limit": 9000, "configured": 9000, "backlog": 10**6, **body}
    for _ in range(5):
        receipt = world.send(world.driver.progress(9000, 30.0, **said))
    assert (world.view().late_rows_held is None) is none
    assert any((grant.limit or 9000) < 9000 for grant in receipt.grants) is none
    # Of the next run nobody hears a start: it may be in another mode.
    world.driver.run_id += "+"
    world.send(world.driver.progress(9000, 30.0, **said))
    assert world.view().late_rows_held is False


def test_what_was_learned_outlives_the_agent_and_a_release_tries_again() -> None:
    stream = learned(policy("guard"))
    world = stream.world
    assert world.view().late_rows_held is True
    world.fleet = Fleet.restore(world.policy, world.fleet.changes(), started_time=world.now)
    stream.wait(40.0).run(5)
    assert world.view().limit.reason == "hold:late_rows"
    (said,) = world.fleet.control(*KEY, Order(who="me", reason="", limit=500), world.now)
    assert said.note == LATE_ROWS_NOTE
    stream.wait(40.0).run(5)
    assert {limit for limit, _, _ in stream.batches[-5:]} == {CONFIGURED}
    world.fleet.control(*KEY, Order(who="me", reason="", hold=False), world.now)
    assert world.view().late_rows_held is False
    stream.lateness = ON_TIME
    stream.wait(40.0).run(20)
    assert min(limit or CONFIGURED for limit, _, _ in stream.batches[-10:]) < CONFIGURED


@pytest.mark.parametrize("by_hand", [None, "limit", "hold"])
def test_the_first_batch_of_a_new_checkpoint_is_as_configured(by_hand: str | None) -> None:
    stream = Stream(World(policy("guard")), late(0.5, 9.0)).wait(40.0).run(40)
    world = stream.world
    if by_hand == "limit":
        world.fleet.control(*KEY, Order(who="me", reason="", limit=2), world.now)
    elif by_hand == "hold":
        world.fleet.control(*KEY, Order(who="me", reason="", hold=True), world.now)
    ordered = world.view().sources[0].granted
    world.send(world.driver.terminated())
    again = Driver(run_id="run-2", query_id="id-2")
    again.time, again.sequence = world.driver.time, world.driver.sequence
    world.driver = again
    assert world.send(again.started()).grants == []
    stream.began, stream.read, stream.watermark, stream.greatest = again.time - 60, 0, 0.0, 0.0
    stream.limits = [CONFIGURED, CONFIGURED]
    stream.run(1)
    if by_hand is not None:  # it holds from the second batch on
        assert world.view().sources[0].granted == ordered is not None
    world.send(again.terminated())
    # The same checkpoint once more: what was learned holds from the first batch on.
    third = Driver(run_id="run-3", query_id="id-2")
    third.time, third.batch_id, third.sequence = again.time, again.batch_id, again.sequence
    world.driver = third
    granted = [grant.limit for grant in world.send(third.started()).grants]
    assert granted
    assert granted[0] is not None
    assert granted[0] < CONFIGURED


@pytest.mark.parametrize("late_rows", ["guard", "hold", "allow"])
def test_so_is_that_of_a_known_name_which_has_only_now_got_a_watermark(late_rows: str) -> None:
    """Its batches' cost is known, and that they drop rows is not yet."""
    world = World(policy(late_rows))
    for _ in range(10):
        said = {"limit": 900, "configured": 9000, "backlog": 10**6, "stateOperators": []}
        world.send(world.driver.progress(900, 3.0, **said))
    world.send(world.driver.terminated())
    again = Driver(run_id="run-2", query_id="id-2")
    again.time, again.sequence = world.driver.time, world.driver.sequence
    world.driver = again
    assert bool(world.send(again.started(watermarkDelaySeconds=600.0)).grants) == (
        late_rows == "allow"
    )


def test_a_query_without_a_watermark_or_without_state_is_none_of_it() -> None:
    for body in (
        {"eventTime": {}, "stateOperators": [{"numRowsDroppedByWatermark": 0}]},
        {"eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}, "stateOperators": []},
    ):
        world = World(policy("hold"))
        for _ in range(5):
            said = {"limit": 9000, "configured": 9000, "backlog": 10**6, **body}
            receipt = world.send(world.driver.progress(9000, 30.0, **said))
        assert receipt.grants[0].limit is not None
        assert receipt.grants[0].limit < 9000
        assert world.view().late_rows_held is None
        assert world.view().findings == []


@pytest.mark.parametrize("late_rows", ["hold", "guard"])
@pytest.mark.parametrize("query_id", ["id-2", "q-1"])
def test_a_job_that_was_changed_is_judged_by_its_own_batches(
    late_rows: LateRows, query_id: str
) -> None:
    world = World(policy(late_rows))
    said = {"limit": 9000, "configured": 9000, "backlog": 10**6}
    stateful = {
        "eventTime": {"watermark": format_time(world.driver.time)},
        "stateOperators": [
            {"operatorName": "flatMapGroupsWithState", "numRowsDroppedByWatermark": 0}
        ],
    }
    for _ in range(5):
        world.send(world.driver.progress(9000, 2.0, **said, **stateful))
    assert {one.check for one in world.view().findings} == {"late_rows", "batch_ends"}
    world.send(world.driver.terminated())
    world.driver.run_id, world.driver.query_id, world.driver.batch_id = "r-2", query_id, 9
    world.send(world.driver.started(sink="KafkaTable"))
    assert "late_rows" in {one.check for one in world.view().findings}  # nothing else is known yet
    said["sink"] = {"description": "KafkaTable"}
    phases = {"walCommit": 0.5, "addBatch": 1.0, "commitOffsets": 0.5}
    world.send(world.driver.progress(9000, 2.0, phases=phases, **said))
    view = world.view()
    assert (view.operators, view.findings, view.late_rows_held) == ([], [], None)
    assert "asyncProgressTrackingEnabled" in view.advice[0]
    if query_id == "id-2":
        assert view.watermark_lag_seconds is None
    for _ in range(10):
        receipt = world.send(world.driver.progress(9000, 30.0, **said))
    assert receipt.grants[0].limit is not None
    assert receipt.grants[0].limit < 9000


@pytest.mark.parametrize(
    ("usual", "ours", "many"),
    [
        ((0, 0), (0, 100), False),
        ((0, 0), (1, 100), True),  # nothing else is known: one is too many
        ((0, 10**6), (1, 10**6), True),
        ((100, 10**5), (100, 10**5), False),
        ((100, 10**5), (130, 10**5), False),  # 2.0 standard deviations
        ((100, 10**5), (150, 10**5), True),  # 3.2
        ((100, 10**5), (2, 100), False),  # two by chance, where 0.1 are due
        ((100, 10**5), (5, 100), True),
        # Fewer a batch than one of twenty times the rows drops, and more of the rows: rows that
        # fall late only now are not to be taken for groups that many small batches count again.
        ((1000, 10**6), (25, 5000), True),
        ((1, 100), (3, 1000), False),  # 10 are due, as far as one tells
        ((1, 0), (3, 1000), False),  # in a batch that read nothing: no rate to compare with
    ],
)
def test_more_than_as_configured_is_told_from_chance(
    usual: tuple[int, int], ours: tuple[int, int], many: bool
) -> None:
    found = Lateness(
        drops=True,
        as_configured=Counted(usual[1], usual[0]),
        after_ours=Counted(ours[1], ours[0]),
    )
    assert found._too_many is many
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=Lateness) == found
