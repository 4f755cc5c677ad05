"""Backlog and retention by partition: laws, and the cases an operator would ask about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.decode.kafka_offsets import Held
from agent.core.measure.partitions import PartitionView, Watched, soonest_loss_seconds
from agent.core.measure.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.core.decode.kafka_offsets import Offsets

ONE = ("orders", "0")


def looks(
    *seen: tuple[float, int, int, int], retention: float | None = None
) -> list[PartitionView]:
    """The last view after looks of (time, next row to read, earliest, latest)."""
    watched, views = Watched(), []
    keep = {} if retention is None else {"orders": retention}
    for time, position, earliest, latest in seen:
        held = {ONE: Held(earliest, latest)}
        views = watched.observe(0, {ONE: position}, held, keep, time)
    return views


def test_backlog_is_what_is_held_past_what_was_read() -> None:
    (view,) = looks((0.0, 100, 0, 350))
    assert (view.backlog_rows, view.lost_rows, view.retention_loss_seconds) == (250, 0, None)


def test_a_partition_that_only_the_broker_knows_is_unread_as_a_whole() -> None:
    held = {ONE: Held(0, 10), ("orders", "1"): Held(5, 25)}
    views = Watched().observe(0, {ONE: 10}, held, {}, 0.0)
    assert [view.backlog_rows for view in views] == [0, 20]


def test_rows_deleted_unread_are_lost_and_no_backlog() -> None:
    (view,) = looks((0.0, 100, 150, 350))
    assert (view.backlog_rows, view.lost_rows, view.retention_loss_seconds) == (200, 50, 0.0)


def test_retention_that_catches_up_is_foreseen_from_both_rates() -> None:
    """The oldest row moves 20 rows a second, the reader 10: 600 rows between them last a minute."""
    seen = [(t, 1000 + 10 * t, 20 * t, 100_000) for t in range(0, 41, 5)]
    (view,) = looks(*((float(t), p, e, n) for t, p, e, n in seen))
    assert view.retention_loss_seconds == pytest.approx(60.0)


@pytest.mark.parametrize("retention", [None, 7 * 86400.0])
@pytest.mark.parametrize("every", [1300, 30_000])
def test_a_segment_that_is_deleted_behind_a_reader_that_keeps_up_foresees_nothing(
    retention: float | None, every: int
) -> None:
    """Six segments are kept, one is deleted as one is full; some rows wait at each look."""
    segment = 1_000_000
    watched, position = Watched(), {ONE: 0}
    keep = {} if retention is None else {"orders": retention}
    soonest = []
    for time in range(0, 3 * every, 5 if every < 10_000 else 100):
        latest = 7 * segment + time * segment // every
        held = {ONE: Held(time // every * segment, latest)}
        position[ONE] = latest - 50 - time % 7
        (view,) = watched.observe(0, position, held, keep, float(time))
        soonest.append(view.retention_loss_seconds)
    assert not [loss for loss in soonest if loss is not None and loss < 5 * 86400.0]


def told_of_one_that_keeps_up(
    rate: Callable[[int], int],
    *,
    keeps_seconds: int,
    until: int,
    known: bool = True,
) -> list[float]:
    """Losses of the next five days, told of a reader two seconds behind; rows go by their age."""
    ends = [0]  # by second
    for second in range(until):
        ends.append(ends[-1] + rate(second))
    watched, earliest, told = Watched(), 0, []
    keep = {"orders": float(keeps_seconds)} if known else {}
    for time in range(20, until, 20):
        if time % 300 == 0:
            earliest = ends[max(0, time - keeps_seconds)]
        held = {ONE: Held(earliest, ends[time])}
        (view,) = watched.observe(0, {ONE: ends[time - 2]}, held, keep, float(time))
        if view.retention_loss_seconds is not None:
            told.append(view.retention_loss_seconds)
    return [loss for loss in told if loss < 5 * 86400.0]


@pytest.mark.parametrize("known", [True, False])
def test_a_load_that_retention_deletes_says_nothing_of_a_reader_that_keeps_up(known: bool) -> None:
    """Ten million rows in fifteen minutes, then twenty a second: a day later the load goes."""
    assert not told_of_one_that_keeps_up(
        lambda second: 11_111 if 3000 <= second < 3900 else 20,
        keeps_seconds=86_400,
        until=130_000,
        known=known,
    )


def test_a_night_of_less_traffic_threatens_no_reader_that_keeps_up() -> None:
    """Six hours are kept; ten thousand rows a second come by day, a thousand by night."""
    assert not told_of_one_that_keeps_up(
        lambda second: 10_000 if second % 86_400 < 43_200 else 1000,
        keeps_seconds=21_600,
        until=86_400,
        known=False,
    )


def test_a_burst_pushes_out_nothing_that_is_kept_by_its_age() -> None:
    """A tenth of all that is kept comes within a minute, and is read within ten."""
    watched, told, position = Watched(), [], 0
    for time in range(0, 20_000, 20):
        latest = 2_000_000 + 20 * time + min(max(0, time - 10_000), 60) * 3500
        position = min(latest - 40, position + 7000 if position else latest - 40)
        held = {ONE: Held(time // 300 * 6000, latest)}
        (view,) = watched.observe(0, {ONE: position}, held, {}, float(time))
        told.append(view.retention_loss_seconds)
    assert told == [None] * len(told)


def test_a_reader_that_falls_behind_is_told_though_segments_are_deleted_whole() -> None:
    """Of 1000 rows a second it reads 900, and only 6 segments of 1,000,000 are kept."""
    watched, told = Watched(), None
    for time in range(0, 60_000, 50):
        latest = 7_000_000 + 1000 * time
        held = {ONE: Held(time // 1000 * 1_000_000, latest)}
        (view,) = watched.observe(0, {ONE: 6_500_000 + 900 * time}, held, {}, float(time))
        assert not view.lost_rows
        told = view.retention_loss_seconds
        if told is not None:
            break
    assert told is not None
    assert time <= 2000, "as soon as two segments were deleted"
    assert 30_000 < told + time < 70_000


def test_a_reader_that_stands_far_behind_is_told_at_the_first_segment_deleted() -> None:
    seen = [(t, 1_500_000, t // 300 * 1_000_000, 9_000_000) for t in range(0, 301, 5)]
    (view,) = looks(*((float(t), p, e, n) for t, p, e, n in seen))
    assert view.retention_loss_seconds == pytest.approx(150.0)


def test_where_transactions_are_open_the_end_is_what_the_query_reads_to() -> None:
    """One that has read beyond them once reads all; of another nobody knows that it ever does."""
    watched = Watched()

    def backlog(next_row: int, stable: int, latest: int, **planned: Offsets) -> int:
        held = {ONE: Held(0, latest, stable)}
        (view,) = watched.observe(0, {ONE: next_row}, held, {}, 0.0, **planned)
        return view.backlog_rows

    assert backlog(10, 20, 500) == 10, "it may read committed rows only"
    assert backlog(20, 20, 500) == 0
    assert backlog(20, 20, 500, planned={ONE: 100}) == 400, "it plans what is not committed"
    assert backlog(600, 600, 900) == 300, "as it does from now on"


def test_a_reader_that_gains_on_retention_loses_nothing() -> None:
    seen = [(float(t), 1000 + 30 * t, 20 * t, 100_000) for t in range(0, 41, 5)]
    (view,) = looks(*seen)
    assert view.retention_loss_seconds is None


def test_a_reader_that_stands_still_loses_when_the_next_row_comes_of_age() -> None:
    """Nothing was deleted yet; the row to read next arrived at second 10 and is kept for 100."""
    seen = [(float(t), 100, 0, 10 * t) for t in range(0, 61, 5)]
    (view,) = looks(*seen, retention=100.0)
    assert view.retention_loss_seconds == pytest.approx(100.0 - 50.0, rel=0.05)


def test_what_was_there_before_anybody_looked_is_at_least_so_old() -> None:
    seen = [(float(t), 100, 0, 10_000) for t in range(0, 61, 5)]
    (view,) = looks(*seen, retention=100.0)
    assert view.retention_loss_seconds == pytest.approx(40.0)


def test_a_topic_read_from_its_oldest_row_has_lost_nothing() -> None:
    (view,) = looks((0.0, 0, 0, 500), (30.0, 0, 0, 900))
    assert view.retention_loss_seconds is None


def test_with_nothing_unread_there_is_nothing_to_lose() -> None:
    (view,) = looks((0.0, 0, 0, 500), (40.0, 500, 450, 500), retention=1.0)
    assert (view.backlog_rows, view.retention_loss_seconds) == (0, None)


def test_a_step_back_is_no_rate() -> None:
    """As of a checkpoint that was restored: it reads again, and its margins stand still."""
    seen = [(30.0 * n, 10_000 if n < 5 else 4_000, 100, 20_000) for n in range(10)]
    (view,) = looks(*seen)
    assert view.retention_loss_seconds is None


@pytest.mark.parametrize(
    ("days", "first", "end"),
    [(0.5, 1_000_000, 500), (2.0, 1_000_000, 500), (2.0, 100, 500), (2.0, 100, 2_000_000)],
    ids=["nothing deleted", "a day deleted", "seen young", "longer than it was"],
)
def test_a_topic_made_anew_is_as_young_as_that(days: float, first: int, end: int) -> None:
    """It keeps a day; it is watched, deleted, made again and read up to four fifths."""
    day = 86_400
    watched, seen = Watched(), []
    for time in range(0, int(days * day), 600):
        latest = first + 10 * time
        seen.append((time, latest - 20, max(0, 10 * (time - day)), latest))
    began = seen[-1][0]
    seen += [(began + t, end * 4 // 5, 0, end + t) for t in range(5, 600, 5)]
    for time, position, earliest, latest in seen:
        held = {ONE: Held(earliest, latest)}
        (view,) = watched.observe(0, {ONE: position}, held, {"orders": float(day)}, float(time))
        loss = view.retention_loss_seconds
        assert time <= began or loss is None or loss > day - 1200.0


def test_a_new_leader_that_lags_a_moment_makes_no_row_younger() -> None:
    seen = [(float(t), 100, 0, 10 * t) for t in range(0, 6001, 5)]
    seen += [(6005.0, 100, 0, 59_990), (6010.0, 100, 0, 60_100)]
    (view,) = looks(*seen, retention=10_000.0)
    assert view.retention_loss_seconds == pytest.approx(4000.0, rel=0.05)


def test_a_partition_that_is_gone_is_forgotten() -> None:
    watched = Watched()
    watched.observe(0, {ONE: 0}, {ONE: Held(0, 9)}, {}, 0.0)
    assert watched.observe(0, {}, {}, {}, 1.0) == []
    assert watched.partitions == {}


def test_the_nearest_loss_of_all() -> None:
    views = [PartitionView(0, "t", str(n), 1, 0, s) for n, s in enumerate((None, 90.0, 30.0))]
    assert soonest_loss_seconds(views) == 30.0
    assert soonest_loss_seconds(views[:1]) is None


def told(
    read_to: Callable[[int], int],
    *,
    rate: int,
    keeps_seconds: int,
    begin: int,
    end: int,
    segment_seconds: int = 1,
    rests_seconds: float = 0.0,
    every: int = 5,
) -> list[tuple[int, float | None]]:
    """What each look tells, of a partition that gets ``rate`` rows a second from 0 on."""
    watched, found = Watched(), []
    for time in range(begin, end, every):
        deleted = max(0, time - keeps_seconds) // segment_seconds * segment_seconds
        held = {ONE: Held(deleted * rate, time * rate)}
        (view,) = watched.observe(
            0,
            {ONE: read_to(time)},
            held,
            {"orders": float(keeps_seconds)},
            float(time),
            rests_seconds=rests_seconds,
        )
        if view.lost_rows:
            break
        found.append((time, view.retention_loss_seconds))
    return found


DAY = 86_400


@pytest.mark.parametrize(("every", "healthy_hours"), [(5, 1), (20, 1), (60, 48)])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_loss_is_told_in_good_time_however_long_all_was_well(
    every: int, healthy_hours: int, share: float
) -> None:
    """A day is kept; its batches take 30 s, until it reads but a share of what comes."""
    healthy = DAY + healthy_hours * 3600

    def read_to(time: int) -> int:
        batch = time // 30 * 30
        return 100 * int(min(batch, healthy) + share * max(0, batch - healthy) - 30)

    loss = healthy + DAY / (1.0 - share)  # 30 s of it went before
    hours = 4 * 3600
    seen = told(read_to, rate=100, keeps_seconds=DAY, begin=DAY, end=int(loss), every=every)
    near = [time for time, seconds in seen if seconds is not None and seconds < hours]
    assert near
    assert near[0] == pytest.approx(loss - hours, abs=0.1 * hours)
    later = [seconds for time, seconds in seen if time > near[0] + 60]
    assert all(seconds is not None and seconds < hours for seconds in later)


@pytest.mark.parametrize("batch_seconds", [30, 47, 120, 280, 700, 1000, 3600])
@pytest.mark.parametrize("segment_seconds", [1, 1800, 3600])
def test_a_reader_that_falls_behind_is_told_of_all_the_while(
    batch_seconds: int, segment_seconds: int
) -> None:
    """It reads nine tenths, a batch at a time, and it takes what waits at each one's begin."""

    def read_to(time: int) -> int:
        return 100 * int(0.9 * (time // batch_seconds * batch_seconds))

    begin = 20_000
    seen = told(
        read_to,
        rate=100,
        keeps_seconds=4 * 3600,
        begin=begin,
        end=60_000,
        segment_seconds=segment_seconds,
        rests_seconds=batch_seconds,
    )
    settled = [loss for time, loss in seen if time > begin + 3 * batch_seconds]
    assert None not in settled


@pytest.mark.parametrize(
    ("trigger_seconds", "keeps_seconds", "gap"),
    [(600, 10_800, 60), (900, 7200, 30), (1800, 14_400, 60), (3600, 14_400, 60), (7200, DAY, 60)],
)
@pytest.mark.parametrize("rows_per_gap", [1, 6000])
def test_one_that_reads_all_with_each_trigger_loses_nothing(
    trigger_seconds: int, keeps_seconds: int, gap: int, rows_per_gap: int
) -> None:
    def read_to(time: int) -> int:
        return (time - 5) // trigger_seconds * trigger_seconds // gap * rows_per_gap

    watched, found = Watched(), []
    for time in range(10 * keeps_seconds, 10 * keeps_seconds + 5 * trigger_seconds, 5):
        held = {ONE: Held((time - keeps_seconds) // gap * rows_per_gap, time // gap * rows_per_gap)}
        (view,) = watched.observe(
            0,
            {ONE: read_to(time)},
            held,
            {"orders": float(keeps_seconds)},
            float(time),
            rests_seconds=trigger_seconds + 10.0,
        )
        found.append(view.retention_loss_seconds)
    assert not [loss for loss in found if loss is not None and loss < 2.0 * keeps_seconds]


@pytest.mark.parametrize(("lag", "keeps_seconds"), [(600, 10_800), (4500, DAY)])
def test_a_lag_that_stays_is_no_loss_when_the_agent_starts(lag: int, keeps_seconds: int) -> None:
    """Its rows came before anybody looked, and the look itself grows older by the second."""
    seen = told(
        lambda time: 100 * (time - time % 10 - lag),
        rate=100,
        keeps_seconds=keeps_seconds,
        begin=10 * keeps_seconds,
        end=10 * keeps_seconds + 2 * lag + 3600,
        rests_seconds=10.0,
    )
    assert not [loss for _, loss in seen if loss is not None and loss < 2.0 * keeps_seconds]


def test_one_that_stands_from_the_first_look_on_is_told_once_it_does_so_for_long() -> None:
    seen = told(
        lambda _: 5_000_000,
        rate=100,
        keeps_seconds=DAY,
        begin=60_000,
        end=62_000,
        rests_seconds=600.0,
    )
    first = next(time for time, loss in seen if loss is not None)
    assert 60_600 < first <= 60_610
    assert seen[-1][1] == pytest.approx(DAY - 2000.0, abs=10.0)


@pytest.mark.parametrize(("keeps_seconds", "times"), [(6 * 3600, 20), (12 * 3600, 50), (DAY, 10)])
def test_one_that_caught_up_fast_and_then_died_is_told_in_good_time(
    keeps_seconds: int, times: int
) -> None:
    """For ten minutes it reads so many times as fast as rows come, and then nothing any more."""
    begin, behind = 2 * keeps_seconds, keeps_seconds // 2
    dies = begin + 600

    def read_to(time: int) -> int:
        reads = min(time, dies) // 30 * 30 - begin
        return 100 * min(begin - behind + times * reads, min(time, dies) - 30)

    seen = told(
        read_to,
        rate=100,
        keeps_seconds=keeps_seconds,
        begin=begin,
        end=dies + 2 * keeps_seconds,
        every=20,
    )
    lost = seen[-1][0]
    near = next(time for time, loss in seen if loss is not None and loss < 4 * 3600)
    assert lost - near > 3 * 3600


@pytest.mark.parametrize("share", [0.5, 0.7, 0.8, 0.9])
def test_one_that_stands_far_behind_presses_by_no_more_than_reads_it_in_time(share: float) -> None:
    """Where the oldest are deleted all the while, too."""
    watched, lag = Watched(), int(share * DAY)
    stood = 3 * DAY
    for time in range(stood - DAY, stood + lag, 20):
        held = {ONE: Held(100 * (time - DAY), 100 * time)}
        position = {ONE: 100 * min(time - 10, stood)}
        (view,) = watched.observe(0, position, held, {"orders": float(DAY)}, float(time))
    pressing = view.pressing_rows_per_second
    # Near the end of their time rows are not told apart as well as that asks for.
    assert pressing is not None
    assert 99.0 * share < pressing < 100.0 * (1.3 * share if share < 0.85 else 2.0)


def test_what_the_running_batch_has_in_hand_does_not_press() -> None:
    watched = Watched()
    for time in range(0, 3000, 5):
        held = {ONE: Held(0, 600 * time)}
        batch = {ONE: 600 * 2900} if time > 2900 else None
        (view,) = watched.observe(
            0, {ONE: 600}, held, {"orders": 3600.0}, float(time), planned=batch
        )
    assert view.backlog_rows < 60_000 < 600 * 2900
    assert (view.pressing_rows_per_second or 0.0) < 100.0


def test_batches_each_a_little_longer_than_the_last_are_told_all_the_while() -> None:
    """None is known to come so late, and none stands for that."""
    watched, position, found = Watched(), 0, []
    begin, seconds = 0.0, 700.0
    for look in range(6 * 3600 // 30):
        time = 30.0 * look
        if time >= begin + seconds:
            position, begin = position + int(500 * seconds), begin + seconds
            seconds *= 1.05
        held = {ONE: Held(0, int(1000 * time) + 1)}
        (view,) = watched.observe(
            0, {ONE: position}, held, {"orders": 6 * 3600.0}, time, rests_seconds=seconds / 1.05
        )
        if time > 2 * 3600.0:
            found.append(view.retention_loss_seconds)
    assert None not in found


def test_a_burst_is_as_old_as_it_is_after_days_of_calm() -> None:
    """Five million rows at once, read at two thousand a second; a day is kept."""
    watched, calm = Watched(), 3 * DAY
    pressing = []
    for time in range(0, calm + 1800, 5):
        burst = 5_000_000 if time >= calm else 0
        read = 10 * time - 50 if time < calm else 10 * calm + 2000 * (time - calm)
        held = {ONE: Held(10 * max(0, time - DAY), 10 * time + burst)}
        (view,) = watched.observe(0, {ONE: max(read, 0)}, held, {"orders": float(DAY)}, float(time))
        if time > calm + 60:
            loss = view.retention_loss_seconds
            assert loss is None or loss > 0.75 * DAY
            pressing.append(view.pressing_rows_per_second or 0.0)
    assert max(pressing) < 1.3 * 5_000_000 / DAY


def test_what_presses_is_what_reads_each_row_in_time() -> None:
    """Of twenty hours of rows each has a day from when it came: no rush for the first of them."""
    watched = Watched()
    for time in range(0, 20 * 3600, 60):
        held = {ONE: Held(0, 100 * time)}
        (view,) = watched.observe(0, {ONE: 1}, held, {"orders": float(DAY)}, float(time))
    assert view.retention_loss_seconds == pytest.approx(4.0 * 3600.0, rel=0.05)
    pressing = view.pressing_rows_per_second
    assert pressing == pytest.approx(100.0 * 20.0 / 24.0, rel=0.05)


def test_a_loss_of_next_month_is_none_that_anybody_foresees() -> None:
    """So many rows less are read than come that the day that is kept is gone in 25 days, or 35."""
    for days, foreseen in ((25.0, True), (35.0, False)):
        seen = told(
            lambda time, share=1.0 - 1.0 / days: int(1000 * (share * time)),  # type: ignore[misc]
            rate=1000,
            keeps_seconds=DAY,
            begin=1000,
            end=4000,
        )
        assert (seen[-1][1] is not None) is foreseen


def test_a_step_or_two_within_seconds_tell_no_rate() -> None:
    """Two batches in fifteen seconds, of which one got a burst."""
    watched = Watched()
    for time, position in ((0.0, 1000), (5.0, 1001), (20.0, 1900), (25.0, 1900)):
        held = {ONE: Held(0, 100_000 + int(100 * time))}
        (view,) = watched.observe(
            0, {ONE: position}, held, {"orders": 1000.0}, time, rests_seconds=60.0
        )
    assert view.retention_loss_seconds is None


@pytest.mark.parametrize("lasts_seconds", [60, 870, 100_000])
def test_rows_behind_a_transaction_that_never_ends_are_lost_as_any_others(
    lasts_seconds: int,
) -> None:
    """A query that reads what is committed: ten rows come a second, and an hour's are kept."""
    watched, foreseen = Watched(), []
    for time in range(0, 3900, 10):
        latest, stable = 1000 + 10 * time, 1000 + 10 * (time // lasts_seconds * lasts_seconds)
        held = {ONE: Held(max(0, latest - 36_000), latest, stable)}
        (view,) = watched.observe(0, {ONE: stable}, held, {"orders": 3600.0}, float(time))
        foreseen.append(view.retention_loss_seconds)
        assert view.backlog_rows == 0
        assert view.pressing_rows_per_second is None, "nothing of it can be read"
    if lasts_seconds < 3600:
        assert foreseen == [None] * 390, "one that ends is no loss"
        return
    first = next(n for n, loss in enumerate(foreseen) if loss is not None)
    assert 90 < first <= 96
    assert foreseen[first] == pytest.approx(3600.0 - 10.0 * first, abs=20.0)
    assert foreseen[180] == pytest.approx(1800.0, abs=20.0)


def test_steps_each_second_are_kept_by_the_third_of_a_minute() -> None:
    steps = Steps()
    for second in range(1000):
        steps.add(float(second), float(second))
    assert 25 <= len(steps.times) <= 35


@given(
    st.lists(st.tuples(st.floats(0.1, 1000.0), st.floats(0.0, 1e9)), min_size=2, max_size=300),
    st.floats(0.0, 1e6),
)
def test_steps_stay_few_and_tell_no_more_than_the_fastest_of_them(
    seen: list[tuple[float, float]], later: float
) -> None:
    steps, time, value = Steps(), 0.0, 0.0
    fastest = 0.0
    for seconds, more in seen:
        time, value = time + seconds, value + more
        steps.add(time, value)
        fastest = max(fastest, more / seconds)
    assert len(steps.times) <= 43
    assert steps.times[-1] == time
    rate = steps.per_second(time + later)
    assert rate is None or 0.0 <= rate <= fastest * (1.0 + 1e-9)
    standing = steps.per_second(time + later + 1e9)
    assert standing is None or standing <= (rate or 0.0)
