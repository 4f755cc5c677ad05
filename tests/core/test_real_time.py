"""Rows that are read as they come: batches in real-time mode last as long as they were told to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet
from agent.core.measure.partitions import PartitionView
from agent.core.policy import Policy, QueryPolicy
from spark_listener.wire import format_time
from tests.core.events import START_TIME, Driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.core.fleet import Liveness, Receipt
    from agent.core.judgement import QueryView

KEY = ("shop", "orders")
LASTING_SECONDS = 300.0
REAL_TIME = f"RealTimeTrigger({round(1000 * LASTING_SECONDS)})"
MICRO_BATCHES = "ProcessingTimeTrigger(0)"
SOURCE = {
    "source": 0,
    "unit": "rows",
    "limit": None,
    "configured": None,
    "backlog": 0,
    "control": "none",
    "source_class": "org.apache.spark.sql.kafka010.KafkaMicroBatchStream",
}


class Job:
    """A query that reads Kafka, and its driver."""

    def __init__(self, trigger: str = REAL_TIME, **policy: Any) -> None:
        settings = Policy(default=QueryPolicy(**policy))
        self.fleet = Fleet(settings, started_time=START_TIME - 1000)
        self.driver = Driver(trigger=trigger)
        self.begun = START_TIME  # the batch that runs

    def send(self, *events: dict[str, Any]) -> Receipt:
        return self.fleet.receive(decode_request(self.driver.body(*events)), self.now)

    @property
    def now(self) -> float:
        return self.driver.time + 0.05

    @property
    def view(self) -> QueryView:
        return self.fleet.view(KEY, self.now)

    @property
    def liveness(self) -> Liveness:
        return self.fleet.liveness(*KEY, self.now)

    def start(self, trigger: str | None = None, run_id: str = "r-1") -> None:
        self.driver.run_id = run_id
        self.send(self.driver.started(trigger=trigger or self.driver.trigger, control="none"))

    def runs(self, seconds: float, every: float = 15.0, **more: Any) -> Iterator[QueryView]:
        """The next batch, up to that age, as each heartbeat leaves the query.

        ``more`` is what it tells of its source.
        """
        begun, age = self.driver.time, 0.0
        while age < seconds:
            age = min(age + every, seconds)
            self.driver.time = begun + age
            told = {"trigger": self.driver.trigger, "limits": [SOURCE | more]}
            self.send(self.driver.heartbeat(self.driver.batch_id + 1, age, **told))
            yield self.view

    def ends(
        self, rows: int, seconds: float = LASTING_SECONDS, backlog: int = 0, **source: Any
    ) -> QueryView:
        """The batch that ran, as long as it did; ``source`` is more of what Spark says of it."""
        self.driver.time = self.begun
        phases = {"walCommit": 0.05, "addBatch": seconds - 0.1, "commitOffsets": 0.05}
        limit = SOURCE | {"backlog": backlog}
        said = {"description": "KafkaV2[Subscribe[t]]", "numInputRows": rows, **source}
        self.send(
            self.driver.progress(rows, seconds, limits=[limit], phases=phases, sources=[said])
        )
        self.begun = self.driver.time
        return self.view


@pytest.mark.parametrize("deadline_seconds", [None, 240.0])
def test_a_batch_that_lasts_as_long_as_it_was_told_to_is_neither_hung_nor_late(
    deadline_seconds: float | None,
) -> None:
    job = Job(deadline_seconds=deadline_seconds)
    job.start()
    for batch in range(12):
        for view in job.runs(LASTING_SECONDS - 5.0):
            assert (view.state, view.attention.level) == ("busy", "ok"), view.running_seconds
            assert job.liveness.ok
        view = job.ends(300_000 + batch % 3 * 60_000)
        assert (view.state, view.attention.level, view.spiral.phase) == ("busy", "ok", "none")
        assert (view.required_capacity_ratio, view.target_feasible) == (None, None)
        assert (view.throughput_rows_per_second, view.fixed_cost_seconds) == (None, None)
        assert (view.target_seconds, view.checkpoint.deadline_seconds) == (None, None)


@pytest.mark.parametrize(
    ("policy", "patience_seconds"),
    [({}, 30.0), ({"target_seconds": 10.0}, 60.0), ({"deadline_seconds": 240.0}, 240.0)],
)
def test_one_that_runs_on_past_that_is_hung(
    policy: dict[str, float], patience_seconds: float
) -> None:
    job = Job(**policy)
    job.start()
    for _ in job.runs(LASTING_SECONDS - 5.0):
        pass
    job.ends(300_000)
    for view in job.runs(LASTING_SECONDS + patience_seconds):
        assert view.state == "busy"
        assert job.liveness.ok
    job.driver.time += 1.0
    assert (job.view.state, job.view.attention.level) == ("stalled", "hung")
    job.driver.time += 1.0  # the agent heard of it no earlier than its first heartbeat
    for _ in range(15):
        job.driver.time += 1.0
        job.send(job.driver.heartbeat(1, job.driver.time - job.begun))
    assert job.liveness.ok == ("deadline_seconds" not in policy)


def test_a_trigger_that_says_no_number_lets_a_batch_last() -> None:
    job = Job("RealTimeTrigger(PT5M)", deadline_seconds=10.0)
    job.start()
    job.ends(1000)
    assert {view.state for view in job.runs(3 * LASTING_SECONDS)} == {"busy"}
    assert job.liveness.ok


def test_an_agent_that_came_later_hears_by_heartbeats_that_it_is_real_time_mode() -> None:
    """Else it would not know before the batch has ended."""
    job = Job()
    assert {view.state for view in job.runs(LASTING_SECONDS)} == {"busy"}


@pytest.mark.parametrize(
    ("age_seconds", "stopped"), [(230.0, True), (299.0, True), (LASTING_SECONDS + 230.0, False)]
)
def test_a_stop_is_a_failure_only_long_after_the_batch_was_told_to_end(
    age_seconds: float, stopped: bool
) -> None:
    job = Job(deadline_seconds=240.0)
    job.start()
    job.ends(1000)
    for _ in job.runs(age_seconds):
        pass
    job.send(job.driver.terminated())
    view = job.view
    assert (view.stopped, view.failure is None) == (stopped, stopped)
    assert view.checkpoint.failures_consecutive == (0 if stopped else 1)
    assert view.attention.level == ("ended" if stopped else "failed")


def test_a_spiral_of_micro_batches_is_over_in_real_time_mode() -> None:
    """Each batch reads what came during the last one, and takes a tenth longer."""
    job = Job(MICRO_BATCHES)
    job.start()
    seconds = 5.0
    while job.ends(round(100 * seconds), 1.1 * seconds).spiral.phase != "spiralling":
        seconds *= 1.1
        assert seconds < 600.0
    job.send(job.driver.terminated())
    job.start(REAL_TIME, "r-2")
    for _ in range(4):
        for view in job.runs(LASTING_SECONDS - 5.0):
            assert (view.spiral.phase, view.attention.level) == ("none", "ok")
        assert job.ends(30_000).spiral.phase == "none"
    # And what a batch of so many rows took then is no reason to wait for one that hangs.
    assert [view.state for view in job.runs(LASTING_SECONDS + 31.0)][-1] == "stalled"


@pytest.mark.parametrize("mode", ["off", "on"])
def test_what_runs_of_micro_batches_taught_is_kept_for_the_next_and_not_told_meanwhile(
    mode: str,
) -> None:
    job = Job(MICRO_BATCHES, mode=mode)
    job.start()
    for batch in range(8):
        overloaded = job.ends(1000, 10.0, backlog=5000 * batch)
    assert overloaded.attention.level == "overloaded"
    assert overloaded.throughput_rows_per_second is not None
    job.send(job.driver.terminated())
    job.start(REAL_TIME, "r-2")
    for view in [job.view, *job.runs(LASTING_SECONDS - 5.0), job.ends(30_000), job.ends(10_000)]:
        assert view.attention.level in {"ok", "idle"}
        assert (view.required_capacity_ratio, view.throughput_rows_per_second) == (None, None)
    assert not any("too few batches" in said for said in view.missing)
    job.send(job.driver.terminated())
    job.start(MICRO_BATCHES, "r-3")
    assert job.view.throughput_rows_per_second == overloaded.throughput_rows_per_second


def test_a_query_in_continuous_processing_is_never_told_to_be_idle() -> None:
    """Spark tells of no batch of it, nor of a trigger that found nothing, while it lives."""
    job = Job("ContinuousTrigger(1000)")
    job.start()
    for epoch in range(60):
        assert (job.view.state, job.view.attention.level) == ("busy", "ok")
        job.driver.time += 5.0
        job.send(job.driver.heartbeat(epoch, None, limits=[SOURCE]))
    spent = job.view.totals.state_seconds
    assert (spent["idle"], spent["busy"]) == (0.0, pytest.approx(300.0))
    job.send(job.driver.terminated())
    assert job.view.state == "terminated"


RATE = 1000  # rows per second that come, and are processed as they do


def offsets(time: float) -> dict[str, dict[str, int]]:
    """Where the topic ends at a time."""
    return {"t": {"0": round((time - START_TIME) * RATE)}}


def plan(time: float) -> dict[str, Any]:
    """As drivers tell it that do not know the mode."""
    return {"admitted": 1, "offsets": offsets(time), "observed_time": format_time(time)}


@pytest.mark.parametrize("asked", [True, False])
def test_what_a_batch_has_processed_since_its_planning_is_no_backlog(asked: bool) -> None:
    """How far it came is told at its end: what waits meanwhile is unknown, as is retention."""
    job = Job()
    job.fleet.keep_offsets()
    job.start()
    for _ in range(3):
        began = job.begun
        at_planning = offsets(began)
        for _ in job.runs(LASTING_SECONDS - 5.0, **plan(began)):
            if asked:
                rows = offsets(job.driver.time)["t"]["0"] - at_planning["t"]["0"]
                held = [PartitionView(0, "t", "0", rows, 0, 3600.0)]
                job.fleet.hear_partitions(KEY, "q-1", 0, held, job.now)
            view = job.view
            assert (view.backlog_rows, view.backlog_seconds) == (None, None)
            assert (view.lag_state, view.partitions) == ("UNKNOWN", [])
        assert job.fleet.readings() == {}
        view = job.ends(
            round(LASTING_SECONDS * RATE),
            startOffset=offsets(began),
            endOffset=offsets(began + LASTING_SECONDS),
            latestOffset=at_planning,
        )
        assert (view.backlog_rows, view.lag_state) == (None, "UNKNOWN")
    assert view.arrival_rows_per_second == pytest.approx(RATE)


def test_brokers_are_asked_about_one_that_failed() -> None:
    """Its next run goes on where the last batch ended: until then rows wait."""
    job = Job()
    job.fleet.keep_offsets()
    job.start()
    end = offsets(job.begun + LASTING_SECONDS)
    rows = round(LASTING_SECONDS * RATE)
    job.ends(rows, startOffset=offsets(job.begun), endOffset=end, latestOffset=end)
    for _ in job.runs(15.0, **plan(job.begun)):
        assert job.fleet.readings() == {}
    job.send(job.driver.terminated("java.lang.IllegalStateException: no leader"))
    reading = job.fleet.readings()[KEY]
    assert (reading.offsets, reading.planned) == ({0: {("t", "0"): end["t"]["0"]}}, {})
    held = [PartitionView(0, "t", "0", 70, 0, 3600.0)]
    job.fleet.hear_partitions(KEY, "q-1", 0, held, job.now)
    assert job.view.partitions == held
    assert job.view.backlog_rows == 70
    job.start(run_id="r-2")
    assert (job.view.partitions, job.view.backlog_rows) == ([], None)
