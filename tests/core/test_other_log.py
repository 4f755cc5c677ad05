"""Topics of one name in two clusters: what tells them apart, and what must not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.core.decode.kafka_offsets import Held, Reading
from agent.core.measure.other_log import LogRead

ONE = ("orders", "0")


class Log:
    """Looks five seconds apart."""

    def __init__(self) -> None:
        self.seen = LogRead()
        self.now = 1000.0

    def look(self, read: int, end: int, latest: int, planned_time: float | None = None) -> bool:
        """Brokers have it up to ``latest``; Spark read up to ``read``, and saw it ``end``."""
        self.now += 5.0
        planned = self.now - 3.0 if planned_time is None else planned_time
        asked = Reading({0: {ONE: read}}, ends={0: {ONE: end}}, planned_time=planned)
        return self.seen.tells(asked, 0, {ONE: Held(0, latest)}, self.now)


def test_a_log_that_spark_sees_end_long_before_is_another() -> None:
    """Each of its batches plans anew; what cannot be old any more counts, three in a row."""
    log = Log()
    told = [log.look(3_000_000 + n, 3_000_100 + n, 9_000_000) for n in range(20)]
    # The first that was planned a minute after the first look is seen at the thirteenth after it.
    assert told == [True] * 15 + [False] * 5
    assert log.seen.other
    assert not log.look(9_000_100, 9_000_100, 9_000_200), "growing makes it no other one"


def test_an_end_that_a_run_looked_up_once_proves_nothing() -> None:
    """As with AvailableNow: all its batches are planned against the end when it began."""
    log = Log()
    assert all(log.look(100 + n, 5000, 9000 + n) for n in range(100))


def test_batches_that_were_told_late_prove_nothing() -> None:
    """As from an event log that is caught up with: they are of hours ago."""
    log = Log()
    assert all(log.look(n, 100 + n, 9000 + n, planned_time=100.0 + n) for n in range(100))


def test_a_log_that_stays_behind_what_spark_saw_of_it_is_another() -> None:
    log = Log()
    assert log.look(100, 400, 500)
    assert not any(log.look(100 + n, 800 + n, 500) for n in range(14))
    assert log.seen.other


def test_a_new_leader_that_waits_for_its_followers_is_no_other_cluster() -> None:
    log = Log()
    assert log.look(490, 500, 500)
    assert not any(log.look(500, 500, 480) for _ in range(8))
    assert not log.seen.other
    assert log.look(500, 500, 500)


def test_a_leader_that_lags_as_the_agent_starts_is_given_its_time() -> None:
    log = Log()
    assert not any(log.look(500, 500, 480) for _ in range(9))
    assert not log.seen.other
    assert not any(log.look(500, 500, 480) for _ in range(5))
    assert log.seen.other


def test_a_topic_made_anew_is_nothing_until_it_is_read_and_then_this_one() -> None:
    log = Log()
    assert log.look(1_000_000, 1_000_000, 1_000_100)
    assert not any(log.look(1_000_000, 1_000_000, 300 + n) for n in range(100))
    assert not log.seen.other
    assert all(log.look(400 + n, 500 + n, 500 + n) for n in range(50))


def test_one_made_anew_before_anybody_looked_heals_when_it_is_read_from_its_start() -> None:
    log = Log()
    assert not any(log.look(1_000_000, 1_000_000, 300 + n) for n in range(100))
    assert log.seen.other
    assert log.look(400, 500, 500)
    assert not log.seen.other


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4), st.integers(0, 60)), max_size=80))
def test_of_what_one_log_can_do_nothing_makes_it_another(steps: list[tuple[int, int, int]]) -> None:
    """Rows come; a batch reads some of those that its planning saw, and is told some looks late."""
    log, latest, read = Log(), 0, 0
    plans = [(latest, log.now)]
    newest = 0
    for come, late, taken in steps:
        plans.append((latest, log.now + 2.0))
        latest += come
        newest = max(newest, len(plans) - 1 - late)
        end, planned_time = plans[newest]
        read = max(read, min(end, read + taken))
        assert log.look(read, end, latest, planned_time)


def test_a_partition_of_which_no_broker_answers_makes_it_no_other_log() -> None:
    """Spark had read on of it before, and it comes back cut off: a follower that lagged leads."""
    other = ("orders", "1")
    log, now = LogRead(), 1000.0
    for read, held in (
        (90, {ONE: Held(0, 100), other: Held(0, 100)}),
        (120, {ONE: Held(0, 100)}),
        (120, {ONE: Held(0, 100), other: Held(0, 95)}),
    ):
        for _ in range(20):
            now += 5.0
            told = log.tells(Reading({0: {ONE: 90, other: read}}), 0, held, now)
            assert told or len(held) == 2
            assert not log.other
