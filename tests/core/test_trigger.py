"""What a trigger lets wait: a run that ends by itself, and long intervals between batches."""

from __future__ import annotations

import uuid

import pytest

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet
from agent.core.policy import Policy, QueryPolicy
from tests.core.events import START_TIME, Driver

TARGET_SECONDS = 5.0
HOUR_SECONDS = 3600.0


class Job:
    """A query without a configured limit; what is granted holds for the next batch."""

    def __init__(
        self, trigger: str, fixed_seconds: float, rows_per_second: float, **policy: float
    ) -> None:
        settings = QueryPolicy(target_seconds=TARGET_SECONDS, **policy)  # type: ignore[arg-type]
        self.fleet = Fleet(Policy(default=settings), started_time=START_TIME - 1000)
        self.driver = Driver()
        self.trigger = trigger
        self.fixed_seconds, self.rows_per_second = fixed_seconds, rows_per_second
        self.limit: int | None = None
        self.seconds = 0.0  # of the last batch

    def start(self) -> None:
        source = {
            "source": 0,
            "unit": "rows",
            "limit": None,
            "configured": None,
            "backlog": None,
            "control": "live",
        }
        self.send(self.driver.started(trigger=self.trigger, limits=[source]))

    def send(self, event: dict) -> None:  # type: ignore[type-arg]
        receipt = self.fleet.receive(decode_request(self.driver.body(event)), self.driver.time)
        self.limit = next((grant.limit for grant in receipt.grants), None)

    def batch(self, there: int, gap: float = 0.0) -> int:
        """Of what is there, as far as the limit lets it; the rows that are left."""
        rows = min(there, self.limit or there)
        self.seconds = self.fixed_seconds + rows / self.rows_per_second
        told = {"limit": self.limit, "backlog": there - rows, "gap": gap}
        self.send(self.driver.progress(rows, self.seconds, **told))  # type: ignore[arg-type]
        return there - rows

    def run(self, there: int) -> list[float]:
        """One run that reads what there was as it began: the seconds of each batch."""
        self.driver.run_id = str(uuid.uuid4())
        self.driver.time += 20 * HOUR_SECONDS
        self.start()
        seconds = []
        while there:
            there = self.batch(there)
            seconds.append(self.seconds)
        return seconds

    def hour(self, there: int) -> int:
        """The next batch of a query that is triggered each hour."""
        return self.batch(there, max(HOUR_SECONDS - self.seconds, 0.0))


@pytest.mark.parametrize("fixed_seconds", [0.5, 2.0, 4.0, 4.4, 6.0])
def test_a_run_that_ends_by_itself_takes_little_longer_than_alone(fixed_seconds: float) -> None:
    job = Job("AvailableNowTrigger", fixed_seconds, 100_000.0)
    nights = [job.run(5_000_000) for _ in range(5)]
    alone = fixed_seconds + 50.0
    # The first has no limit, the second learns. What asks what is fixed holds a quarter more.
    for batches in nights[2:]:
        assert sum(batches) <= 1.3 * alone
        assert max(batches) <= 1.3 * max(5.0 * fixed_seconds, TARGET_SECONDS)


def test_a_run_that_ends_by_itself_keeps_the_deadline() -> None:
    job = Job("AvailableNowTrigger", 4.0, 100_000.0, deadline_seconds=15.0)
    job.run(5_000_000)
    assert max(job.run(5_000_000)[1:] + job.run(5_000_000)) <= 15.0


def hourly(**policy: float) -> Job:
    job = Job(f"ProcessingTimeTrigger({round(1000 * HOUR_SECONDS)})", 20.0, 10_000.0, **policy)
    job.start()
    for _ in range(8):
        assert job.hour(1_000_000) == 0
    return job


def test_what_a_burst_brings_between_two_triggers_waits_for_no_third() -> None:
    """The cluster has nothing else to do in that hour."""
    job = hourly()
    assert job.hour(5_000_000) == 0


def test_a_limit_that_was_set_by_less_lets_a_burst_wait_for_one_interval() -> None:
    """As one that a run before this one left: the next batch has shown that more is there."""
    job = hourly()
    job.limit = 1_200_000
    left = job.hour(5_000_000)
    assert left == 3_800_000
    assert job.hour(left + 1_000_000) == 0


def test_a_burst_that_would_pass_the_interval_is_cut() -> None:
    job = hourly()
    assert job.hour(100_000_000) > 0
    assert job.seconds <= HOUR_SECONDS


def test_a_burst_that_would_pass_the_deadline_is_cut() -> None:
    job = hourly(deadline_seconds=600.0)
    assert job.hour(100_000_000) > 0
    assert job.seconds <= 600.0
