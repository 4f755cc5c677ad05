"""Backlog and retention by partition: laws, and the cases an operator would ask about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.decode.kafka_offsets import Held
from agent.core.measure.partitions import Margin, PartitionView, Watched, soonest_loss_seconds

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


@given(st.lists(st.tuples(st.floats(0.1, 1000.0), st.floats(-1e6, 1e9)), min_size=1, max_size=200))
def test_a_margin_stays_small_and_never_says_less_than_now(seen: list[tuple[float, float]]) -> None:
    margin, time = Margin(), 0.0
    for seconds, value in seen:
        time += seconds
        margin.add(time, value)
    assert len(margin.times) <= 41
    assert margin.times[-1] == time
    assert margin.values[-1] == seen[-1][1]
    left = margin.gone_in_seconds()
    assert left is None or left >= 0.0
