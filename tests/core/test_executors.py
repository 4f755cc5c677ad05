"""Executors: how many are wanted, what keeps more from helping, and no flapping."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.core.decide.executors import (
    Load,
    Need,
    Scaler,
    bound_of,
    in_hours,
    need_of,
    slots_of,
)
from agent.core.decode.stages import BatchWork, StageGroup, scanned
from agent.core.measure.cost import Curve
from agent.core.measure.work import MOST_SAMPLES, MOST_TRIAL_BATCHES, Sample, Work
from agent.core.policy import QueryPolicy
from tests.core.waves import batch

POLICY = QueryPolicy(target_seconds=10.0, catch_up_seconds=600.0)
#: Rows that one slot digests in a second.
PER_SLOT = 100.0
CURVE = Curve(0.0, 1.0 / PER_SLOT)


def work_of(*samples: Sample) -> Work:
    work = Work()
    for one in samples:
        work.learn(one)
    return work


def plain(slots: int = 1, tasks: int = 64, **more: float) -> Work:
    return work_of(batch(slots, tasks=tasks, rows=1000, seconds_per_row=1.0 / PER_SLOT, **more))


def shared() -> Work:
    """One that was seen to get nothing of four slots."""
    work = plain(1)
    for slots in (4, 1, 4):
        then = work.resized(CURVE, slots, (0.0,) * 6, 1e9)
        for _ in range(MOST_TRIAL_BATCHES):
            work.judge(1000, CURVE.seconds(1000), 0.2)
            assert then
    work.learn(batch(4, tasks=64, rows=1000, seconds_per_row=1.0 / PER_SLOT, slower=4.0))
    return work


def need(load: Load, work: Work, most: int = 1000, curve: Curve = CURVE) -> Need:
    found = need_of(curve, work, load, POLICY, most)
    assert found is not None
    return found


def test_nothing_is_wanted_while_stages_are_unknown() -> None:
    assert need_of(CURVE, Work(), Load(50.0), POLICY, 8) is None


@pytest.mark.parametrize(
    ("slots", "tasks", "files", "wanted", "bound"),
    [
        (2, 2, 40, 5, "enough"),  # cut by the cores: five cut it into five
        (1, 2, 40, 5, "enough"),  # two tasks are the fewest that Spark makes
        (4, 7, 40, 7, "enough"),  # what does not go into four evenly
        (2, 2, 3, 3, "tasks"),  # down to a file each
        (2, 2, 0, 2, "tasks"),  # no files
        (2, 2, 2, 2, "tasks"),
        (2, 4, 40, 4, "tasks"),  # cut by something else
        (4, 3, 40, 3, "tasks"),  # fewer than there are cores
        (2, 1, 40, 1, "tasks"),
    ],
)
def test_more_slots_cut_a_scan_of_files_into_more_tasks(
    slots: int, tasks: int, files: int, wanted: int, bound: str
) -> None:
    """As Spark's ``FilePartition.maxSplitBytes`` does, unless it is told a number."""
    rows = 1000
    one = batch(slots, tasks=tasks, rows=rows, seconds_per_row=1.0 / PER_SLOT, files=files)
    curve = Curve(0.0, one.seconds / rows)
    found = need(Load(400.0), work_of(one), curve=curve)  # 480 with the margin of stability
    assert (found.slots, found.bound) == (wanted, bound)


def test_only_the_tasks_of_the_scan_are_cut_by_the_slots() -> None:
    scan, shuffled = StageGroup(2, 10.0, 5.0, 5.0), StageGroup(2, 6.0, 3.0, 3.0)
    groups = scanned(BatchWork(2, (scan, shuffled)), 40).groups
    assert [group.tasks_at(12) for group in groups] == [12, 2]


def test_a_scan_that_more_slots_did_not_cut_is_not_expected_to_be_cut_by_others() -> None:
    """``spark.sql.files.minPartitionNum`` was told: what is seen on more slots counts."""
    told = {"tasks": 2, "rows": 1000, "seconds_per_row": 1.0 / PER_SLOT, "files": 40}
    work, curve = work_of(*[batch(2, **told) for _ in range(5)]), Curve(0.0, 0.5 / PER_SLOT)
    assert need(Load(400.0), work, curve=curve).slots == 5
    work.learn(batch(5, **told))
    found = need(Load(400.0), work, curve=curve)
    assert (found.slots, found.bound) == (2, "tasks")
    # That is remembered when they are back at two, for an hour.
    for minute in range(60):
        work.learn(batch(2, **told, time=60.0 * minute))
    assert need(Load(400.0), work, curve=curve).slots == 2
    for minute in range(60, 65 + MOST_SAMPLES):
        work.learn(batch(2, **told, time=60.0 * minute))
    assert need(Load(400.0), work, curve=curve).slots == 5


def test_a_file_that_takes_most_of_the_time_is_not_cut() -> None:
    """One that cannot be split, as JSON in gzip: beside it others get tasks of their own."""
    more = {"rows": 1000, "seconds_per_row": 1.0 / PER_SLOT, "files": 40, "longest": 8.0}
    work, curve = work_of(batch(2, tasks=2, **more)), Curve(0.0, 0.8 / PER_SLOT)
    assert need(Load(400.0), work, curve=curve).slots > 2
    then = work.resized(curve, 8, (0.0,) * 6, 1e9)
    while work.trial is not None:
        work.judge(1000, then.seconds(1000), 0.1)
        work.learn(batch(8, tasks=8, **more))
    for _ in range(20):
        work.learn(batch(2, tasks=2, **more))
    found = need(Load(400.0), work, curve=curve)
    assert (found.slots, found.bound) != (8, "enough")
    assert found.slots <= 2


def test_a_cold_executor_is_not_taken_for_a_file_that_cannot_be_split() -> None:
    """Its first task takes three times as long as those of six warm ones."""
    told = {"rows": 1000, "seconds_per_row": 1.0 / PER_SLOT, "files": 40}
    work = work_of(*[batch(6, tasks=6, **told) for _ in range(5)])
    then = work.resized(Curve(0.0, 1.0 / PER_SLOT / 6), 7, (0.0,) * 6, 1e9)
    cold = batch(7, tasks=7, **told)
    mean = cold.work.groups[0].task_seconds / 7 * 9 / 7
    slow = replace(cold.work.groups[0], task_seconds=7 * mean, longest_seconds=2.33 * mean)
    work.learn(replace(cold, work=replace(cold.work, groups=(slow,))))
    while work.trial is not None:
        work.judge(1000, then.seconds(1000), 0.1)
        work.learn(cold)
    assert work.most_tasks == 40
    assert need(Load(2000.0), work, curve=then).slots > 20


def test_fewer_files_are_cut_into_fewer_tasks() -> None:
    """Of files of 30 MB Spark packs 11 into 6 tasks at four slots, and 10 into 5 at five."""
    more = {"seconds_per_row": 1.0 / PER_SLOT}
    work = work_of(*[batch(4, tasks=6, rows=1100, files=11, **more) for _ in range(5)])
    work.learn(batch(5, tasks=5, rows=1000, files=10, **more))
    assert work.most_tasks >= 10


def test_executors_that_come_one_by_one_go_on_to_what_is_needed() -> None:
    """The first batch on one more shows what was expected: the older ones still tell the rest."""
    told = {"rows": 1000, "seconds_per_row": 1.0 / PER_SLOT, "files": 40}
    work, curve = (
        work_of(*[batch(2, tasks=2, **told) for _ in range(5)]),
        Curve(0.0, 0.5 / PER_SLOT),
    )
    for slots in (3, 4, 5):
        assert need(Load(400.0), work, curve=curve).slots == 5
        curve = Curve(0.0, 1.0 / (slots * PER_SLOT))
        work.learn(batch(slots, tasks=slots, **told))
    assert need(Load(400.0), work, curve=curve).bound == "enough"


@pytest.mark.parametrize(
    ("arriving", "waiting", "slots"),
    [
        (1.0, 0.0, 1),
        (80.0, 0.0, 1),  # 96 with the margin of stability
        (90.0, 0.0, 2),  # 108
        (300.0, 0.0, 4),  # 360
        (300.0, 60_000.0, 5),  # and 100 a second, to catch up in ten minutes
    ],
)
def test_the_least_that_digests_and_catches_up(arriving: float, waiting: float, slots: int) -> None:
    found = need(Load(arriving, waiting), plain())
    assert (found.slots, found.bound) == (slots, "enough")
    assert found.slots <= found.roomy <= round(1.25 * slots + 0.5)


def test_down_is_gone_with_a_quarter_of_room() -> None:
    found = need(Load(350.0), plain())  # 420, and 525 with room
    assert (found.slots, found.roomy) == (5, 6)


def test_the_trigger_interval_is_time_too() -> None:
    """A fixed cost that the target hardly holds: a longer interval needs fewer slots."""
    work = plain(driver=9.0)
    curve = Curve(9.0, 1.0 / PER_SLOT)
    assert need(Load(200.0, 0.0), work, curve=curve).slots == 32
    assert need(Load(200.0, 0.0, 60.0), work, curve=curve).slots == 3


@pytest.mark.parametrize(
    ("fixed", "deadline", "sigma", "slots"),
    [
        (9.6, 13.0, 0.0, 11),  # batches of 10.4 s hold 0.8 s of rows
        (9.6, 100.0, 0.0, 2),
        (12.0, 15.0, 0.1, 11),  # hardly longer than an empty one, as sizes are
        (12.0, 30.0, 0.4, 11),
        (12.0, 30.0, 0.1, 2),
    ],
)
def test_the_target_is_left_as_far_as_sizes_keep_the_deadline(
    fixed: float, deadline: float, sigma: float, slots: int
) -> None:
    policy = replace(POLICY, target_seconds=10.0, deadline_seconds=deadline)
    curve, load = Curve(fixed, 1.0 / PER_SLOT), Load(60.0, sigma=sigma)
    found = need_of(curve, plain(driver=fixed), load, policy, 1000)
    assert found is not None
    assert found.slots == slots


@pytest.mark.parametrize("fixed", [8.0, 9.4, 12.0])
def test_a_run_that_ends_is_reckoned_by_batches_as_long_as_it_takes(fixed: float) -> None:
    """Four fifths of their time are rows, whatever the target."""
    waits = 600.0 * 150.0
    load, curve = Load(0.0, waits, ends=True), Curve(fixed, 1.0 / PER_SLOT)
    assert need(load, plain(driver=fixed), curve=curve).slots == 2
    longer = replace(load, ends=False)
    assert need(longer, plain(driver=fixed), curve=curve).slots > 2


@pytest.mark.parametrize(("fixed", "slots"), [(9.4, 13), (9.6, 2), (10.4, 2)])
def test_the_target_is_left_for_executors_where_it_is_for_sizes(fixed: float, slots: int) -> None:
    """From 0.95 of it on batches are longer anyway, and digest it on few."""
    found = need(Load(60.0), plain(driver=fixed), curve=Curve(fixed, 1.0 / PER_SLOT))
    assert found.slots == slots


@pytest.mark.parametrize(
    ("work", "curve", "most", "bound", "slots"),
    [
        (plain(), CURVE, 8, "maximum", 8),
        (plain(tasks=1), CURVE, 1000, "tasks", 1),  # one partition
        (plain(tasks=4), CURVE, 1000, "tasks", 4),
        (plain(longest=5.0), CURVE, 1000, "critical_path", 2),
        (plain(driver=9.0), Curve(0.5, 1.9 / PER_SLOT), 1000, "driver", 2),
        (shared(), CURVE, 1000, "contention", 1),
        # A maximum that is no use to raise is not the reason.
        (shared(), CURVE, 16, "contention", 1),
    ],
    ids=[
        *("maximum", "one-partition", "partitions", "critical-path", "driver", "contention"),
        "contention-below-maximum",
    ],
)
def test_every_reason_not_to_scale(
    work: Work, curve: Curve, most: int, bound: str, slots: int
) -> None:
    found = need(Load(5000.0), work, most, curve)
    assert found.bound == bound
    assert found.slots == slots


def test_what_came_last_is_judged_before_more_are_asked_for() -> None:
    """Until its first batch, and while it looks in vain; what surely is goes back to before."""
    load = Load(5000.0)
    work = plain(2)
    assert not need(load, work).on_trial
    for seconds, on_trial, in_vain_from in ((10.0, False, None), (40.0, True, 2)):
        work = plain(2)
        work.resized(CURVE, 8, (0.0,) * 6, 1e9)
        assert need(load, work).on_trial
        work.judge(4000, seconds, 0.1)  # pays for the change
        assert need(load, work).on_trial
        for _ in range(2):
            work.judge(4000, seconds, 0.1)
        found = need(load, work)
        assert (found.on_trial, found.in_vain_from) == (on_trial, None)
        while work.trial is not None:
            work.judge(4000, seconds, 0.1)
        # By what it brought, and not by how few slots the batches of now can use.
        work.learn(batch(8, tasks=1, rows=10, seconds_per_row=1.0 / PER_SLOT))
        found = need(load, work)
        assert (found.on_trial, found.in_vain_from) == (False, in_vain_from)
        work.resized(CURVE, 7, (0.0,) * 6, 1e9)  # others now
        assert need(load, work).in_vain_from is None


def test_fewer_that_took_no_longer_do_not_keep_a_query_from_getting_them_back() -> None:
    """Java got faster meanwhile: on a real Spark that looked like contention of .76 to .97."""
    work = plain(3)
    work.resized(CURVE, 1, (0.0,) * 6, 1e9)
    while work.trial is not None:
        work.judge(5, CURVE.seconds(5), 0.1)  # as on three
    work.learn(batch(1, tasks=64, rows=1000, seconds_per_row=1.0 / PER_SLOT))
    found = need(Load(1.25 * PER_SLOT), work, most=40)
    assert (found.slots, found.bound) == (2, "enough")  # and not as many as there may be
    found = need(Load(5 * PER_SLOT), work, most=3)
    assert (found.slots, found.bound) == (3, "maximum")
    # Those that come back in the calm, as a driver restarts, show no more.
    back = plain(1)
    back.resized(Curve(2.0, 0.0), 3, (0.0,) * 6, 1e9)
    while back.trial is not None:
        back.judge(5, 2.0, 0.1)
    back.learn(batch(3, tasks=64, rows=1000, seconds_per_row=1.0 / PER_SLOT))
    assert back.shown > math.log2(2.0 / 1.25)
    found = need(Load(2 * PER_SLOT), back, most=3, curve=Curve(0.0, 1.0 / PER_SLOT / 3))
    assert (found.slots, found.bound) == (3, "enough")
    # More that bring nothing do.
    work.resized(CURVE, 3, (0.0,) * 6, 1e9)
    while work.trial is not None:
        work.judge(1000, CURVE.seconds(1000), 0.1)
    work.learn(batch(3, tasks=64, rows=1000, seconds_per_row=1.0 / PER_SLOT, slower=3.0))
    found = need(Load(1.25 * PER_SLOT), work, most=3)
    assert (found.slots, found.bound, found.in_vain_from) == (1, "contention", 1)


def test_what_brought_nothing_says_from_where_on() -> None:
    """A sink that takes four writers and no more: that eight bring nothing says nothing of one."""
    work = plain(4)
    work.resized(Curve(0.0, 1.0 / PER_SLOT / 4), 8, (0.0,) * 6, 1e9)
    while work.trial is not None:
        work.judge(4000, 10.0, 0.1)
    work.learn(batch(8, tasks=64, rows=4000, seconds_per_row=1.0 / PER_SLOT, slower=2.0))
    found = need(Load(6 * PER_SLOT), work, most=8, curve=Curve(0.0, 1.0 / PER_SLOT / 4))
    assert work.shown > math.log2(2.0 / 1.25)
    assert (found.bound, found.seen_from) == ("contention", 4)


def test_what_is_believed_and_not_sure_asks_for_no_more_than_would_do_without_it() -> None:
    """By what is believed no number suffices, by what is sure two do: two are tried."""
    work = plain(1)
    work.contention, work.shown = 0.95, 0.0
    found = need(Load(1.25 * PER_SLOT), work, most=40)
    assert (found.slots, found.bound) == (2, "enough")


def test_a_small_step_says_too_little_to_wait_for() -> None:
    """Of eight one more: by noise alone it seems to bring nothing, or the one that died did."""
    for slots, then in ((8, 9), (9, 8)):
        work = plain(slots)
        foretold = work.resized(CURVE, then, (0.0,) * 6, 1e9)
        for _ in range(4):
            work.judge(4000, 1.1 * foretold.seconds(4000), 0.2)
        assert not need(Load(5000.0), work).on_trial


@given(
    st.floats(0.1, 1e6),
    st.floats(0.1, 1e6),
    st.integers(1, 500),
    st.floats(0.0, 1.0),
)
def test_more_that_arrives_never_needs_fewer(
    one: float, other: float, most: int, contention: float
) -> None:
    """Whatever is believed; what is sure may say that more are not worth it."""
    work = plain(slots=4)
    work.contention = contention
    low, high = sorted((one, other))
    assert need(Load(low), work, most).slots <= need(Load(high), work, most).slots <= most


def test_of_several_queries_each_counts_for_what_it_uses() -> None:
    assert slots_of([Need(5, had=0.4)]) == 5
    assert slots_of([Need(8, had=0.5), Need(8, had=0.5)]) == 8  # they share the same eight
    assert slots_of([Need(4), Need(4)]) == 8
    assert slots_of([Need(1, load=0.05)] * 10) == 1
    assert slots_of([Need(4, 6), Need(4, 5)], roomy=True) == 11
    assert slots_of([Need(6), *[Need(1, load=0.05)] * 10]) == 7


def test_the_worst_reason_is_told() -> None:
    policy = replace(POLICY, maximum_executors=4)
    assert bound_of([Need(2), Need(3, bound="driver")], 3, policy) == "driver"
    assert bound_of([Need(2), Need(3, bound="driver")], 5, policy) == "maximum"
    assert bound_of([Need(2)], 4, policy) == "enough"


class TestOverTime:
    policy = QueryPolicy(minimum_executors=2, maximum_executors=10, executors_quiet_seconds=300.0)

    def test_up_at_once_and_no_more_than_may_be(self) -> None:
        scaler = Scaler()
        assert scaler.decide(5, 5, 2, 0.0, self.policy) == 5
        assert scaler.decide(50, 50, 2, 5.0, self.policy) == 10
        assert scaler.decide(9, 10, 2, 10.0, self.policy) == 10

    def test_what_has_not_come_yet_is_taken_back_when_it_is_needed_no_more(self) -> None:
        scaler = Scaler()
        scaler.decide(3, 4, 3, 0.0, self.policy)
        scaler.decide(9, 10, 3, 1000.0, self.policy)
        assert scaler.decide(4, 5, 3, 1005.0, self.policy) == 9
        assert scaler.decide(4, 5, 3, 1024.0, self.policy) == 9
        assert scaler.decide(4, 5, 3, 1026.0, self.policy) == 5
        assert scaler.decide(2, 2, 3, 1042.0, self.policy) == 5
        assert scaler.decide(2, 2, 3, 1063.0, self.policy) == 3  # those that are there stay
        assert scaler.decide(2, 2, 3, 1341.0, self.policy) == 3
        assert scaler.decide(2, 2, 3, 1343.0, self.policy) == 2

    def test_down_to_the_most_of_the_quiet_time(self) -> None:
        scaler = Scaler()
        scaler.decide(8, 8, 2, 0.0, self.policy)
        scaler.decide(4, 4, 8, 10.0, self.policy)
        scaler.decide(6, 6, 8, 100.0, self.policy)
        assert scaler.decide(3, 3, 8, 309.0, self.policy) == 8  # eight were needed until 10
        assert scaler.decide(3, 3, 8, 311.0, self.policy) == 6
        assert scaler.decide(1, 1, 8, 412.0, self.policy) == 6  # what that brings is seen first
        assert scaler.decide(1, 1, 8, 712.0, self.policy) == 2  # the least that may be

    def test_a_word_after_a_long_silence_says_nothing_of_the_silence(self) -> None:
        scaler = Scaler(wanted=8)
        scaler.decide(8, 8, 8, 0.0, self.policy)
        assert scaler.decide(2, 2, 8, 3600.0, self.policy) == 8
        assert scaler.decide(2, 2, 8, 3899.0, self.policy) == 8
        assert scaler.decide(2, 2, 8, 3900.0, self.policy) == 2

    def test_what_the_job_has_without_us_is_where_it_begins_and_not_taken_back_sooner(self) -> None:
        scaler = Scaler()
        assert scaler.decide(2, 3, 4, 0.0, self.policy, own=9) == 9
        assert scaler.decide(2, 3, 4, 100.0, self.policy, own=9) == 9
        assert scaler.decide(10, 10, 4, 200.0, self.policy, own=9) == 10
        assert scaler.decide(2, 3, 4, 210.0, self.policy, own=9) == 10
        assert scaler.decide(2, 3, 4, 230.0, self.policy, own=9) == 9
        assert scaler.decide(2, 3, 4, 509.0, self.policy, own=9) == 9
        assert scaler.decide(2, 3, 4, 511.0, self.policy, own=9) == 3

    def test_what_came_last_in_vain_goes_at_once_and_no_more(self) -> None:
        scaler = Scaler()
        scaler.decide(9, 9, 4, 0.0, self.policy)
        assert scaler.decide(2, 3, 9, 60.0, self.policy) == 9
        assert scaler.decide(2, 3, 9, 61.0, self.policy, in_vain_from=4) == 4
        assert scaler.decide(2, 3, 4, 360.0, self.policy, in_vain_from=4) == 4
        assert scaler.decide(2, 3, 4, 361.0, self.policy, in_vain_from=4) == 3
        scaler.decide(9, 9, 4, 1000.0, self.policy)
        assert scaler.decide(6, 7, 9, 1060.0, self.policy, in_vain_from=4) == 7

    def test_what_came_in_vain_goes_at_once_but_once_in_a_quiet_time(self) -> None:
        """Where one batch says so and the next one does not."""
        scaler = Scaler()
        scaler.decide(9, 9, 4, 0.0, self.policy)
        assert scaler.decide(2, 3, 9, 60.0, self.policy, in_vain_from=4) == 4
        assert scaler.decide(9, 9, 4, 70.0, self.policy) == 9
        assert scaler.decide(2, 3, 9, 130.0, self.policy, in_vain_from=4) == 9
        assert scaler.decide(2, 3, 9, 361.0, self.policy, in_vain_from=4) == 4

    def test_what_came_in_vain_goes_sooner_only_where_to_move_state_is_cheaper(self) -> None:
        for move, number in ((40.0, 9), (20.0, 2)):
            scaler = Scaler()
            scaler.decide(9, 9, 2, 0.0, self.policy)
            told = scaler.decide(2, 2, 9, 60.0, self.policy, in_vain_from=2, move_seconds=10 * move)
            assert told == number

    def test_of_the_jobs_own_none_goes_sooner_for_being_in_vain(self) -> None:
        scaler = Scaler(wanted=2)
        scaler.decide(9, 9, 2, 0.0, self.policy, own=6)
        assert scaler.decide(2, 3, 9, 60.0, self.policy, own=6, in_vain_from=2) == 6

    def test_down_only_with_room_and_never_up_for_it(self) -> None:
        scaler = Scaler(wanted=4)
        assert scaler.decide(3, 5, 4, 0.0, self.policy) == 4
        assert scaler.decide(3, 5, 4, 400.0, self.policy) == 4
        assert scaler.decide(2, 3, 4, 800.0, self.policy) == 4
        assert scaler.decide(2, 3, 4, 1100.0, self.policy) == 3

    def test_not_down_before_it_saves_more_than_it_costs(self) -> None:
        """Eight wait 100 s for state that moves; two less save as much in 400 s."""
        scaler = Scaler(wanted=8)
        assert scaler.decide(6, 6, 8, 0.0, self.policy, move_seconds=100.0) == 8
        assert scaler.decide(6, 6, 8, 399.0, self.policy, move_seconds=100.0) == 8
        assert scaler.decide(6, 6, 8, 401.0, self.policy, move_seconds=100.0) == 6
        scaler = Scaler(wanted=8)
        scaler.decide(2, 2, 8, 0.0, self.policy, move_seconds=100.0)
        assert (
            scaler.decide(2, 2, 8, 301.0, self.policy, move_seconds=100.0) == 2
        )  # six less sooner

    def test_in_quiet_hours_the_number_stands(self) -> None:
        policy = replace(self.policy, executors_quiet_hours=((1320, 360),))
        evening, night, morning = 21 * 3600.0, 23 * 3600.0, 30 * 3600.0
        scaler = Scaler()
        assert scaler.decide(9, 9, 4, night, policy) == 4
        assert scaler.wanted is None
        assert scaler.decide(5, 5, 4, evening, policy) == 5
        assert scaler.decide(9, 9, 5, night, policy) == 5
        assert scaler.decide(2, 2, 5, night + 3600.0, policy) == 5
        assert scaler.decide(9, 9, 5, morning, policy) == 9
        scaler = Scaler(wanted=9)
        for minute in range(0, 420, 5):  # nine are needed all night: the morning knows
            scaler.decide(9, 9, 9, night + 60.0 * minute, policy)
        assert scaler.decide(2, 2, 9, night + 60.0 * 425, policy) == 9

    def test_a_maximum_that_was_lowered_holds_at_once(self) -> None:
        """Also in quiet hours, and of what an agent before this one asked for."""
        for hours in ((), ((0, 1440),)):
            policy = QueryPolicy(executors="on", maximum_executors=8, executors_quiet_hours=hours)
            scaler = Scaler(12)
            for second in range(0, 1000, 5):
                assert scaler.decide(6, 6, 10, float(second), policy, own=2) <= 8
            assert Scaler(12).decide(6, 6, 12, 0.0, policy, own=10) == 10  # the job's own

    @pytest.mark.parametrize(
        ("minute", "inside"),
        [
            (719, False),
            (720, True),
            (779, True),
            (780, False),
            (1320, True),
            (0, True),
            (360, False),
        ],
    )
    def test_hours_of_the_day(self, minute: int, inside: bool) -> None:
        hours = ((720, 780), (1320, 360))
        assert in_hours(9 * 86_400.0 + 60.0 * minute, hours) == inside

    def test_an_agent_that_was_restarted_takes_nothing_away_at_once(self) -> None:
        scaler = Scaler(wanted=8)  # as the driver says was asked for
        assert scaler.decide(1, 1, 8, 1000.0, self.policy) == 8
        assert scaler.decide(1, 1, 8, 1301.0, self.policy) == 2

    @given(
        needs=st.lists(
            st.tuples(
                *(st.floats(0.5, 400.0), st.integers(1, 12), st.integers(0, 4)),
                st.none() | st.integers(1, 12),
            ),
            min_size=2,
            max_size=60,
        ),
        quiet=st.sampled_from([30.0, 300.0]),
        own=st.integers(0, 6),
    )
    def test_those_that_are_there_are_given_back_once_in_a_quiet_time_at_most(
        self, needs: list[tuple[float, int, int, int | None]], quiet: float, own: int
    ) -> None:
        """And only where no need of the quiet time, nor what held when it began, was for more."""
        policy = replace(self.policy, executors_quiet_seconds=quiet)
        scaler, present, time = Scaler(), 4, 0.0
        given_back, told = -math.inf, [(0.0, 0)]
        for after, number, more, vain in needs:
            time += after
            roomy = min(max(number + more, policy.minimum_executors), 10)
            before = scaler.wanted
            wanted = scaler.decide(
                number, number + more, present, time, policy, own=own, in_vain_from=vain
            )
            assert policy.minimum_executors <= wanted <= max(10, own)
            if before is not None and wanted < min(before, present):
                assert time - given_back >= quiet
                held = [n for at, n in told if at > time - quiet]
                held += [n for at, n in told if at <= time - quiet][-1:]
                least = max([*held, roomy]) if vain is None else max(vain, own, roomy)
                assert wanted >= min(max([*held, roomy]), least, before)
                given_back = time
            told.append((time, roomy))
            present = wanted

    def test_noise_changes_little(self) -> None:
        """A need that strays by a quarter every five seconds, for an hour."""
        rng = random.Random(1)
        scaler, asked = Scaler(), [6] * 12
        for second in range(0, 3600, 5):
            number = 6 * rng.uniform(0.75, 1.25)
            present = asked[-12]  # a minute after it was asked for
            asked.append(
                scaler.decide(
                    math.ceil(number), math.ceil(1.25 * number), present, float(second), self.policy
                )
            )
        assert sum(one != other for one, other in pairwise(asked)) <= 4
        assert len(scaler.recent) <= 10
