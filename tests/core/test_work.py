"""Work: what more or fewer executors would make of a batch, and what they were seen to."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.decode.stages import BatchWork, StageGroup, batch_work
from agent.core.measure.cost import Cost, Covariance, Curve
from agent.core.measure.work import MOST_SAMPLES, MOST_TRIAL_BATCHES, Sample, Work
from tests.core.waves import batch


def sample(slots: int, *, tasks: int = 12, rows: int = 1200, **more: float) -> Sample:
    """A batch of even tasks, a hundredth of a second a row."""
    return batch(slots, tasks=tasks, rows=rows, seconds_per_row=0.01, **more)


def learned(*samples: Sample) -> Work:
    work = Work()
    for one in samples:
        work.learn(one)
    return work


def test_time_at_more_slots_is_that_of_the_waves() -> None:
    work = learned(sample(1))
    assert work.stage_ratio(1) == 1.0
    assert work.stage_ratio(3) == pytest.approx(1 / 3)
    assert work.stage_ratio(5) == pytest.approx(3 / 12)  # three waves of twelve tasks
    assert work.stage_ratio(12) == work.stage_ratio(500) == pytest.approx(1 / 12)


def test_nothing_is_faster_than_the_slowest_task() -> None:
    """Brent's bound."""
    work = learned(sample(1, longest=4.0))
    assert work.stage_ratio(100) == pytest.approx(4.0 / 12.0)


def test_the_driver_s_time_stays() -> None:
    work = learned(sample(1, driver=2.0))
    curve = Curve(2.5, 0.01)
    then = work.curve_at(curve, 4)
    assert then.per_row == pytest.approx(0.01 / 4)
    assert then.fixed == pytest.approx(2.0 + 0.5 / 4)


def test_a_driver_that_takes_longer_for_more_rows_keeps_them_dear() -> None:
    """As a sink that the driver writes to itself."""
    work = learned(sample(1, driver=6.5))  # of 12 + 6.5 s
    then = work.curve_at(Curve(0.5, 0.015), 1000)
    assert then.fixed == 0.5
    assert then.per_row == pytest.approx(0.005 + 0.01 / 12)


#: What is known for sure of the batches before.
SURE = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def unsure(share: float) -> Covariance:
    """Of a hundredth of a second a row."""
    return (0.0, 0.0, 0.0, (share * 0.01) ** 2, 0.0, 0.0)


#: Noise of a batch as it is known of most.
SIGMA = 0.2


@pytest.mark.parametrize(("sigma", "batches"), [(0.2, 9), (0.3, 18)])
def test_a_doubling_is_judged_by_as_many_batches_as_their_noise_asks_for(
    sigma: float, batches: int
) -> None:
    """Down, so that none is cold; the first of them pays for the change."""
    work = learned(sample(2))
    foretold = work.resized(Curve(0.0, 0.005), 1, SURE, 1e9)
    judged = 0
    while work.trial is not None:
        work.judge(1200, foretold.seconds(1200), sigma)
        judged += 1
    assert batches <= judged - 1 <= batches + 2


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 200), st.floats(0.0, 1.0))
def test_more_slots_never_make_the_critical_path_shorter(
    seen: int, slots: int, tasks: int, contention: float
) -> None:
    one = sample(seen, tasks=tasks, rows=tasks * 10, longest=0.5)
    work = learned(one)
    seconds = work.stage_ratio(slots, contention=contention) * one.work.stage_seconds
    slower = (slots / seen) ** contention
    assert seconds >= one.work.groups[0].longest_seconds * slower * (1 - 1e-9)


def after_a_change(
    contention: float, slots: int = 3, *, batches: int = MOST_TRIAL_BATCHES, rows: int = 3000
) -> Work:
    """From one slot to more, judged by larger batches than before, and noisy ones."""
    rng = random.Random(5)
    work = learned(*(sample(1) for _ in range(5)))
    work.resized(Curve(0.1, 0.01), slots, SURE, 1e9)
    for _ in range(batches):
        true = 0.1 / slots + 0.01 * rows * slots ** (contention - 1.0)
        work.judge(rows, true * math.exp(rng.gauss(0.0, 0.1)), SIGMA)
    return work


@pytest.mark.parametrize("contention", [0.0, 0.5, 1.0])
def test_what_more_slots_really_brought_is_believed(contention: float) -> None:
    work = after_a_change(contention)
    assert work.contention == pytest.approx(contention, abs=0.3)
    assert work.contention_doubt < 0.17  # it was 0.3 before any change
    again = after_a_change(contention, 12)
    assert again.contention == pytest.approx(contention, abs=0.15)
    assert again.trial is None
    assert again.shown == pytest.approx(max(again.contention - again.contention_doubt, 0.0))


@pytest.mark.parametrize(("contention", "ratio"), [(0.0, 3.0), (0.5, 1.73), (1.0, 1.0)])
def test_what_more_slots_brought_is_kept(contention: float, ratio: float) -> None:
    brought = after_a_change(contention).brought
    assert brought is not None
    assert (brought.before, brought.slots) == (1, 3)
    assert brought.rows_ratio == pytest.approx(ratio, rel=0.15)


def test_fewer_slots_brought_nothing_new() -> None:
    work = learned(*(sample(4) for _ in range(5)))
    work.resized(Curve(0.1, 0.01), 2, SURE, 1e9)
    while work.trial is not None:
        work.judge(1000, 20.0, SIGMA)
    assert work.brought is None


@pytest.mark.parametrize("slower", [1.0, 1.7])
def test_what_a_change_costs_once_is_told_from_what_stays(slower: float) -> None:
    """State that is loaded anew makes the first batch longer; a shared sink all of them."""
    work = learned(*(sample(4) for _ in range(5)))
    then = work.resized(Curve(0.1, 0.01), 2, SURE, 1e9)
    work.judge(1000, slower * then.seconds(1000) + 7.0, SIGMA)
    assert work.move_seconds == 0.0
    for rows in (400, 2000):
        work.judge(rows, slower * then.seconds(rows), SIGMA)
    assert work.move_seconds == pytest.approx(7.0)


@pytest.mark.parametrize("judged", [3, 5])
def test_an_executor_that_died_makes_no_scaling_one_in_vain(judged: int) -> None:
    """Judged anew with the one that comes for it: cold, it looked as if it brought nothing."""
    work = after_a_change(1.0, batches=judged)
    assert work.contention > 0.4
    work.resized(Curve(0.1, 0.01), 2, SURE, 1e9)
    assert (work.contention, work.shown, work.brought) == (0.0, 0.0, None)
    then = work.resized(Curve(0.1, 0.01), 3, SURE, 1e9)
    assert then.per_row == pytest.approx(0.01 * 2 / 3)
    assert work.trial is not None
    assert (work.trial.slots, work.trial.seen) == (1, 0)
    assert work.trial.curve.per_row == pytest.approx(0.01 / 3)  # of one slot, as it was
    while work.trial is not None:
        work.judge(3000, work.trial.curve.seconds(3000), SIGMA)
    assert work.contention == 0.0
    assert work.brought is not None
    assert (work.brought.before, work.brought.slots) == (1, 3)


def test_another_executor_for_one_that_died_is_judged_once_it_is_warm() -> None:
    work = after_a_change(0.0)
    assert work.trial is None
    found = work.contention
    work.resized(Curve(0.1, 0.01), 2, SURE, 1e9)
    for _ in range(3):
        work.judge(3000, 9.0, SIGMA)
    then = work.resized(Curve(0.1, 0.01), 3, SURE, 1e9)
    assert then.per_row == pytest.approx(0.01 * (2 / 3) ** (1.0 - work.contention), rel=0.01)
    assert work.contention <= found
    warm = then.seconds(3000)
    for slower in (4.0, 1.5, 1.3, 1.1):
        work.judge(3000, slower * warm, SIGMA)
    while work.trial is not None:
        assert work.shown < 0.2
        work.judge(3000, warm, SIGMA)
    assert work.shown < 0.2
    work.resized(Curve(0.1, 0.01), 6, SURE, 1e9)
    for _ in range(2):
        work.judge(3000, 9.0, SIGMA)
    before = work.contention
    work.unsteady(3000, 9.0, 6)  # one died and another came, all within a batch
    work.judge(3000, 90.0, SIGMA)  # it is cold
    assert work.contention == before


def test_a_scaling_taken_for_one_in_vain_is_found_out_on_fewer() -> None:
    """Where they come back before the trial is over, too: a query starves meanwhile."""
    work = after_a_change(1.0)
    assert work.shown > 0.7
    then = work.resized(Curve(0.1, 0.01), 1, SURE, 1e9)
    for _ in range(3):
        work.judge(3000, 3.0 * then.seconds(3000), SIGMA)
    found = work.shown
    assert found < 0.4
    work.resized(Curve(0.1, 0.01), 3, SURE, 1e9)
    assert work.shown == found


def test_more_that_come_back_in_a_burst_are_tried_again() -> None:
    """A calm gave them back, one by one, and its trial is not over."""
    work = after_a_change(0.0)
    for slots in (2, 1):
        work.resized(Curve(0.1, 0.01), slots, SURE, 1e9)
        work.judge(300, 3.0, SIGMA)
    work.resized(Curve(0.1, 0.01), 3, SURE, 1e9)
    assert work.trial is not None
    assert work.trial.slots == 1
    while work.trial is not None:
        work.judge(3000, 30.0, SIGMA)
    assert work.shown > math.log2(2.0 / 1.25)
    assert work.brought is not None
    assert (work.brought.before, work.brought.slots) == (1, 3)


def test_what_the_same_rise_showed_goes_on_when_it_goes_on() -> None:
    """One that comes later is no new trial of those that came before."""
    work = after_a_change(1.0, 6, batches=3)
    found = work.contention, work.contention_doubt
    work.resized(Curve(0.1, 0.01), 8, SURE, 1e9)
    assert (work.contention, work.contention_doubt) == found
    assert work.trial is not None
    assert work.trial.slots == 1
    for seen in range(1, 9):  # executors that come one by one, with each batch
        work.resized(Curve(0.1, 0.01), 8 + seen, SURE, 1e9)
        work.judge(3000, 30.0, SIGMA)
    assert (work.contention, work.contention_doubt) == found
    while work.trial is not None:
        work.judge(3000, 30.0, SIGMA)
    assert work.shown > 0.75


def test_that_more_brought_nothing_is_believed_when_it_is_sure() -> None:
    """Until its trial is over it is not, nor where noise leaves it open."""
    work = after_a_change(1.0, 2, batches=5)
    assert work.contention > 0.5
    assert work.shown == 0.0
    rng = random.Random(7)
    for sigma, least in ((0.1, 5), (0.2, 9), (0.3, 16)):
        sure = after_a_change(1.0, 2, batches=1)
        batches = 1
        while sure.trial is not None:
            sure.judge(3000, 30.1 * math.exp(rng.gauss(0.0, sigma)), sigma)
            batches += 1
        assert sure.shown > math.log2(2.0 / 1.25)  # a doubling brings less than a quarter
        assert batches >= least


@pytest.mark.parametrize("slots", [2, 3, 12])
@pytest.mark.parametrize("seconds", [1.0, 4.0, 10.0, 60.0])
def test_cold_executors_are_not_taken_for_ones_in_vain(slots: int, seconds: float) -> None:
    """Three times as long at first, and less by the half minute; nor such in vain for cold ones."""
    for contention, least, most in ((0.0, 0.0, 0.5), (1.0, math.log2(2.0 / 1.25), 1.0)):
        rng = random.Random(5)
        work = learned(*(sample(1) for _ in range(5)))
        work.resized(Curve(0.0, 0.01), slots, SURE, 1e9)
        rows, time = round(seconds * 100 * slots ** (1.0 - contention)), 0.0
        while work.trial is not None:
            took = seconds * math.exp(rng.gauss(0.0, 0.1)) * (1.0 + 2.0 * math.exp(-time / 30.0))
            work.judge(rows, took, 0.1)
            time += took
        assert least <= work.shown < most


def test_what_came_before_was_little_known_leaves_a_scaling_in_doubt() -> None:
    """However many batches follow: all are held against the same guess."""
    for doubt, shown in ((0.0, True), (0.5, False)):
        work = learned(*(sample(1) for _ in range(5)))
        then = work.resized(Curve(0.1, 0.01), 3, unsure(doubt), 1e9)
        while work.trial is not None:
            work.judge(3000, 3.0 * then.seconds(3000), 0.1)
        assert (work.shown > math.log2(2.0 / 1.25)) is shown
        assert work.contention > 0.5 or not shown


def test_more_than_was_ever_read_says_little_of_what_is_shared() -> None:
    """Ten times the rows of before may take twice as long each for reasons of their own."""
    for reach, shown in ((3000.0, True), (300.0, False)):
        work = learned(*(sample(1) for _ in range(5)))
        then = work.resized(Curve(0.1, 0.01), 2, SURE, reach)
        while work.trial is not None:
            work.judge(3000, 1.8 * then.seconds(3000), 0.1)
        assert (work.shown > 0.6) is shown


def test_much_smaller_batches_say_little_where_the_fixed_cost_was_little_known() -> None:
    """Batches of one size tell nothing of it."""
    rows, fixed = 1000, 3.0
    # Of the whole almost nothing is in doubt, of its two parts much.
    known = (fixed**2, -(fixed**2) / rows, 0.0, (fixed / rows) ** 2, 0.0, 0.0)
    for size, shown in ((rows, True), (200, False)):
        work = learned(*(sample(1) for _ in range(5)))
        then = work.resized(Curve(fixed, 0.007), 2, known, 1e9)
        while work.trial is not None:
            work.judge(size, 1.8 * then.seconds(size), 0.1)
        assert (work.shown > 0.6) is shown


def test_a_cold_executor_that_comes_after_others_went_frees_no_sink() -> None:
    """Fewer than before they are still; that it is slow at first says nothing of what is shared."""
    work = after_a_change(1.0, 12)
    found = work.shown
    work.resized(Curve(0.1, 0.01), 2, SURE, 1e9)
    work.judge(3000, 30.0, 0.1)
    work.resized(Curve(0.1, 0.01), 3, SURE, 1e9)
    assert work.trial is not None
    assert work.trial.step < 0.0
    for _ in range(4):
        work.judge(100, 2.5 * work.trial.curve.seconds(100), 0.1)
    assert work.shown > 0.8 * found


def test_what_others_took_is_no_verdict() -> None:
    """It goes with them."""
    for alone in (True, False):
        work = learned(*(sample(1) for _ in range(5)))
        then = work.resized(Curve(0.1, 0.01), 3, SURE, 1e9)
        number = 0
        while work.trial is not None:
            work.judge(3000, 3.0 * then.seconds(3000), 0.1, alone=alone or number != 1)
            number += 1
        assert work.told is not alone


def test_others_that_leave_meanwhile_are_no_sign_that_more_bring_nothing() -> None:
    """They may have had little of the slots, however busy they were."""
    work = learned(*(sample(4, tasks=64) for _ in range(5)))
    work.judge(3000, 7.6, SIGMA, busy=1.0)
    then = work.resized(Curve(0.1, 0.01), 8, SURE, 1e9)
    while work.trial is not None:
        work.judge(3000, then.seconds(3000), SIGMA, busy=0.0)
    assert work.shown < 0.1
    assert work.brought is not None
    assert work.brought.rows_ratio == pytest.approx(2.0, rel=0.05)


def test_what_was_little_known_stays_so_over_executors_that_come_one_by_one() -> None:
    """One error of all steps, and not one of each."""
    at_once, one_by_one = learned(sample(1)), learned(sample(1))
    at_once.resized(Curve(0.0, 0.01), 8, unsure(0.3), 1e9)
    for slots in range(2, 9):
        one_by_one.resized(Curve(0.0, 0.01), slots, unsure(0.3), 1e9)
        for _ in range(2):
            one_by_one.judge(3000, 30.0, 0.1)
    while at_once.trial is not None:
        at_once.judge(3000, 30.0, 0.1)
    while one_by_one.trial is not None:
        one_by_one.judge(3000, 30.0, 0.1)
    assert at_once.contention_doubt == pytest.approx(0.3 / math.log(8), rel=0.15)
    assert one_by_one.contention_doubt >= 0.9 * at_once.contention_doubt


def test_an_executor_that_goes_during_a_trial_is_no_trial_of_its_own() -> None:
    """The batch in which it went is the first of those on fewer, which are still more."""
    work = after_a_change(0.0, 6, batches=2)
    work.unsteady(3000, 9.0, 5)
    work.resized(Curve(0.1, 0.01), 5, SURE, 1e9)
    work.lost = None
    work.judge(3000, 6.0, SIGMA)
    assert work.trial is not None
    assert (work.trial.slots, work.trial.later) == (1, 1)


def test_a_small_step_says_little_and_takes_nothing_from_what_is_sure() -> None:
    """As of ten executors one more; or one that dies, and comes back late."""
    work = learned(*(sample(1, tasks=120) for _ in range(5)))
    then = work.resized(Curve(0.1, 0.01), 10, SURE, 1e9)
    while work.trial is not None:
        work.judge(3000, 10**0.95 * then.seconds(3000), SIGMA)
    assert work.shown > 0.75
    for slots in (11, 10, 9, 10):
        then = work.resized(Curve(0.1, 0.01), slots, SURE, 1e9)
        while work.trial is not None:
            work.judge(3000, then.seconds(3000), SIGMA)
        assert work.shown > 0.75
        assert work.contention == pytest.approx(0.9, abs=0.1)


def test_a_trial_that_is_never_sure_ends() -> None:
    work = after_a_change(0.0, 2, batches=0)
    batches = 0
    while work.trial is not None:
        work.judge(3000, 15.0, 3.0)
        batches += 1
    assert batches == MOST_TRIAL_BATCHES == 24


def test_one_number_of_slots_says_nothing_of_contention() -> None:
    work = learned(*(sample(4) for _ in range(50)))
    work.judge(1000, 500.0, SIGMA)
    assert work.contention == 0.0
    assert work.contention_doubt == pytest.approx(0.3)
    assert len(work.samples) == MOST_SAMPLES


@pytest.mark.parametrize(("calm", "burst"), [(0.0, 1.0), (1.0, 0.0)])
def test_each_change_says_anew_what_is_shared(calm: float, burst: float) -> None:
    """A sink that a calm does not fill is full in a burst; one that was may be free."""
    work = after_a_change(calm)
    for slots, contention in ((1, calm), (3, burst)):
        before = work.slots
        assert before is not None
        then = work.resized(Curve(0.1, 0.01), slots, SURE, 1e9)
        truly = (slots / before) ** (contention - work.contention)
        for _ in range(MOST_TRIAL_BATCHES):
            work.judge(3000, 0.1 + (then.seconds(3000) - 0.1) * truly, SIGMA)
    assert work.contention == pytest.approx(burst, abs=0.25)


def test_what_the_first_batch_on_fewer_slots_cost_is_kept_where_they_went_before_it() -> None:
    """It is not steady, and teaches nothing else."""
    work = learned(*(sample(4) for _ in range(5)))
    work.unsteady(1000, 9.0, 6)  # some came
    assert work.lost is None
    grown = learned(*(sample(4) for _ in range(5)))
    grown.unsteady(1000, 27.0, 2)  # went, and more came than went
    grown.resized(Curve(0.0, 0.01), 6, SURE, 1e9)
    assert grown.trial is not None
    assert grown.trial.first is None
    work.unsteady(1000, 27.0, 2)
    work.unsteady(400, 3.0, 2)  # what was lost is loaded
    then = work.resized(Curve(0.0, 0.01), 2, SURE, 1e9)
    work.lost = None
    for rows in (400, 2000):
        assert work.move_seconds == 0.0
        work.judge(rows, then.seconds(rows), SIGMA)
    assert work.move_seconds == pytest.approx(27.0 - then.seconds(1000))


def test_a_batch_that_is_mostly_the_drivers_says_little_of_its_stages() -> None:
    """Ten percent of noise of a batch are as much as all of its stages."""
    work = learned(*(sample(1, rows=100, driver=10.0) for _ in range(5)))
    assert work.driver_seconds == pytest.approx(10.0)
    then = work.resized(Curve(10.0, 0.01), 3, SURE, 1e9)
    for _ in range(3):
        work.judge(100, 1.1 * then.seconds(100), 0.1)
    assert work.contention < 0.15


@pytest.mark.parametrize("every_seconds", [5, 60, 600])
def test_where_more_brought_nothing_there_is_another_chance_in_about_an_hour(
    every_seconds: int,
) -> None:
    """Twice as many bring a quarter more below two thirds of contention; batches may be rare."""
    work = after_a_change(1.0, 12)
    assert work.shown > 0.8
    work.learn(sample(12, time=1e9))
    for time in range(0, 90 * 60, every_seconds):
        if work.shown <= math.log2(2.0 / 1.25):
            break
        work.learn(sample(12, time=1e9 + time))
    assert 30 * 60 < time < 90 * 60 - every_seconds


def test_what_is_known_when_nobody_kept_when_fades_from_the_next_batch_on() -> None:
    """As it was saved by an agent of before."""
    work = after_a_change(1.0, 12)
    found = work.shown
    work.learn(sample(12, time=1e9))
    assert work.shown == found
    work.learn(sample(12, time=1e9 - 60))  # a clock that was set
    assert work.shown == found


def test_one_slow_batch_is_no_contention() -> None:
    work = learned(*(sample(1) for _ in range(5)))
    work.resized(Curve(0.0, 0.01), 3, SURE, 1e9)
    work.judge(3000, 15.0, SIGMA)  # foretold: 10 s
    assert work.contention == 0.0  # the first one paid for the change


def test_the_last_eight_tell_the_shape_of_a_batch() -> None:
    work = learned(sample(1, longest=4.0), *[sample(1)] * 7)
    assert work.stage_ratio(100) > 1.2 / 12
    work.learn(sample(1))
    assert work.stage_ratio(100) == pytest.approx(1 / 12)


def test_fewer_slots_tell_only_that_more_do_help() -> None:
    """Where batches take no longer on fewer, Java may have got faster: they say nothing."""
    for shared, least, most in ((0.0, 0.0, 0.3), (1.0, 0.5, 1.0)):
        work = after_a_change(1.0, 4)
        before = work.contention, work.shown
        then = work.resized(Curve(0.1, 0.01), 1, SURE, 1e9)
        truly = (1 / 4) ** (shared - work.contention)
        for _ in range(5):
            work.judge(3000, 0.1 + (then.seconds(3000) - 0.1) * truly, SIGMA)
        assert least <= work.contention <= min(most, before[0])
        assert work.shown <= before[1]
    work = learned(*(sample(4) for _ in range(5)))
    work.resized(Curve(0.0, 0.01), 1, SURE, 1e9)
    while work.trial is not None:
        work.judge(100, 1.0, SIGMA)  # as on four
    assert (work.contention, work.shown) == (0.0, 0.0)
    assert work.contention_doubt == pytest.approx(0.3)


def test_what_small_batches_showed_is_not_sure_of_large_ones() -> None:
    """Brought back in a calm: of few rows little is the rows'."""
    work = learned(*(sample(1) for _ in range(5)))
    work.resized(Curve(0.0, 1.0), 3, SURE, 1e9)
    while work.trial is not None:
        work.judge(5, 5.0, SIGMA)
    assert work.shown > math.log2(2.0 / 1.25)
    assert work.shown_at(5) == work.shown
    assert work.shown_at(15) < math.log2(2.0 / 1.25)
    assert work.shown_at(500) == 0.0


@pytest.mark.parametrize("busy", [0.0, 1.0])
def test_what_others_took_meanwhile_is_not_taken_for_what_is_shared(busy: float) -> None:
    """Twice the slots for two queries where there was one: each has as many as before."""
    work = learned(*(sample(4, tasks=64) for _ in range(5)))
    then = work.resized(Curve(0.1, 0.01), 8, SURE, 1e9)
    while work.trial is not None:
        work.judge(3000, 2.0 * then.seconds(3000), SIGMA, alone=busy == 0.0, busy=busy)
    assert (work.shown > math.log2(2.0 / 1.25)) is (busy == 0.0)
    assert work.brought is not None
    assert work.brought.rows_ratio == pytest.approx(1.0, rel=0.05), "as its batches were"
    # Those that were there before the change are no news.
    work.judge(3000, 1.0, SIGMA, busy=busy)
    then = work.resized(Curve(0.1, 0.01), 16, SURE, 1e9)
    while work.trial is not None:
        work.judge(3000, 2.0 * then.seconds(3000), SIGMA, busy=busy)
    assert work.contention > 0.5


def test_a_batch_that_was_not_looked_at_says_what_it_ran_on() -> None:
    assert batch_work({"slots": 4, "steady": False}) == BatchWork(4, (), steady=False)
    assert batch_work({"slots": 4}) == BatchWork(4)


def test_a_batch_that_shared_its_slots_says_so() -> None:
    alone, shared = sample(4), sample(4, share=0.5)
    assert learned(alone).slots_had == 1.0
    assert learned(shared).slots_had == pytest.approx(0.5)


def test_stages_that_overlap_are_one_group() -> None:
    def stage(begin: float, seconds: float) -> dict[str, object]:
        return {
            "tasks": 4,
            "task_seconds": 8.0,
            "longest_seconds": 2.5,
            "begin_seconds": begin,
            "seconds": seconds,
        }

    told = {"slots": 4, "stages": [stage(3.0, 2.0), stage(0.0, 2.0), stage(1.0, 2.0)]}
    assert batch_work(told) == BatchWork(
        4, (StageGroup(8, 16.0, 2.5, 3.0), StageGroup(4, 8.0, 2.5, 2.0))
    )


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        {"slots": "4"},
        {"slots": 0, "stages": []},
        {"slots": 4, "stages": [{}]},
        {"slots": 4, "stages": [{"tasks": 1}] * 40},
        {"slots": 4, "stages": [{"tasks": 0, "task_seconds": 1, "begin_seconds": 0, "seconds": 1}]},
        {
            "slots": 2,
            "stages": [{"tasks": 1, "task_seconds": -1, "begin_seconds": 0, "seconds": 1}],
        },
        {
            "slots": 2,
            "stages": [{"tasks": 1, "task_seconds": 1e300, "begin_seconds": 0, "seconds": 1}],
        },
    ],
)
def test_what_makes_no_sense_is_left_out(told: object) -> None:
    assert batch_work(told) is None


def test_a_known_change_is_expected_and_not_taken_for_a_jump() -> None:
    """More executors: what is learned goes on from what they bring."""
    rng = random.Random(3)
    cost = Cost()
    for _ in range(20):
        rows = rng.randrange(500, 1500)
        cost.learn(rows, (0.5 + 0.01 * rows) * math.exp(rng.gauss(0.0, 0.1)), 10.0)
    before = cost.seconds(1000)
    assert before is not None
    curve = cost.curve
    cost.rescale(Curve(curve.fixed, curve.per_row / 4, curve.congestion / 4), 0.1)
    after = cost.seconds(1000)
    assert after is not None
    fixed = cost.fixed
    assert after == pytest.approx(fixed + (before - fixed) / 4, rel=1e-6)
    changed = cost.learn(1000.0, after * 1.05, 10.0)
    assert not changed
