"""The checkpoint monitor, the state store's figures, and both in the driver's own words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.core.judge.advice import ADVICE, Costs, StateCost, advise
from agent.core.judge.alignment import Alignment, AlignmentView
from agent.core.judge.checkpoint import Monitor, checkpoint_seconds
from agent.core.measure.state_store import changelog_advice, figures
from agent.core.policy import Policy, QueryPolicy
from agent.export import advice as advice_in_docs
from tests.core.test_fleet import World

PHASES = {"latestOffset": 0.5, "walCommit": 0.25, "addBatch": 2.0, "commitOffsets": 0.25}
DEADLINE = Policy(default=QueryPolicy(deadline_seconds=60.0, mode="dry-run"))


def test_duration_interval_and_pause() -> None:
    monitor = Monitor()
    monitor.complete(100.0, 3.0, PHASES, 10)
    monitor.complete(105.0, 3.0, PHASES, None)
    assert monitor.seconds == 2.5
    assert monitor.interval_seconds == 5.0
    assert monitor.pause_seconds == pytest.approx(2.5)  # 103.0 to 105.5
    assert monitor.bytes is None


@pytest.mark.parametrize(
    ("phases", "seconds"),
    [
        ({}, None),
        ({"addBatch": 1.0}, None),
        ({"walCommit": 1.0}, 1.0),
        (PHASES, 2.5),
        ({**PHASES, "phaseOfAFutureSpark": 9.0}, 2.5),
    ],
)
def test_missing_phases_are_missing_not_zero(
    phases: dict[str, float], seconds: float | None
) -> None:
    assert checkpoint_seconds(phases) == seconds


@pytest.mark.parametrize(
    ("ages", "learned"),
    [
        ([61.0], None),  # one end may be chance, or somebody's wish
        ([61.0, 60.0], 60.0),
        ([90.0, 61.0, 75.0, 60.0], 60.0),
        ([67.0, 60.0], 60.0),
        ([70.0, 60.0], None),  # they do not agree
        ([60.0, 90.0, 120.0, 160.0, 210.0, 60.0], 60.0),
        ([59.0, 58.0], None),  # no longer than a batch of forty seconds may be now and then
    ],
)
def test_a_deadline_is_learned_from_what_ends_batches(
    ages: list[float], learned: float | None
) -> None:
    monitor = Monitor()
    monitor.complete(0.0, 40.0, {}, None)
    for age in ages:
        monitor.ended(age)
    assert monitor.deadline(None) == learned
    assert monitor.deadline(45.0) == 45.0  # what is configured holds


def test_a_deadline_is_unlearned_and_said_by_one_batch_alone() -> None:
    monitor = Monitor()
    monitor.complete(0.0, 40.0, {}, None)
    monitor.ended(61.0)
    monitor.complete(50.0, 40.0, {}, None)
    monitor.ended(60.0)
    assert monitor.deadline(None) is None  # the first came through
    monitor.ended(60.0)
    assert monitor.deadline(None) == 60.0
    monitor.complete(100.0, 80.0, {}, None)
    assert monitor.deadline(None) is None  # a batch outlived it


@pytest.mark.parametrize(
    ("age", "deadline", "foreseen", "eta"),
    [
        (None, 60.0, None, None),
        (3.0, 60.0, None, None),  # as old as batches are
        (10.0, 60.0, None, 50.0),  # twice as old
        (70.0, 60.0, None, 0.0),
        (10.0, None, None, None),
        (None, 60.0, 33.0, 33.0),
    ],
)
def test_time_left(age: Any, deadline: Any, foreseen: Any, eta: Any) -> None:
    monitor = Monitor()
    for index in range(8):
        monitor.complete(10.0 * index, 5.0, {}, None)
    assert monitor.eta_seconds(age, deadline, foreseen) == eta


@pytest.mark.parametrize(("age", "eta"), [(47.9, None), (48.1, 11.9), (70.0, 0.0)])
def test_where_batches_usually_take_most_of_the_deadline_one_that_is_near_it_counts(
    age: float, eta: float | None
) -> None:
    usual, first = Monitor(), Monitor()
    usual.complete(0.0, 45.0, {}, None)
    for monitor in (usual, first):
        found = monitor.eta_seconds(age, 60.0, None)
        assert found == (None if eta is None else pytest.approx(eta))


def test_a_hung_batch_shows_with_its_age_and_the_time_left() -> None:
    world = World(DEADLINE)
    world.batches(5)
    world.driver.time += 40.0
    (judged,) = world.send(world.driver.heartbeat(5, 40.0)).judged
    assert judged.checkpoint.in_progress_batch_id == 5
    assert judged.checkpoint.in_progress_seconds == 40.0
    assert judged.checkpoint.eta_seconds == pytest.approx(20.0)
    assert judged.checkpoint.deadline_seconds == 60.0


def test_failures_in_a_row_and_what_resets_them() -> None:
    world = World(DEADLINE)
    world.batches(3)
    for number in range(2, 5):
        world.driver.time += 5.0
        world.send(world.driver.heartbeat(3, 5.0))
        (judged,) = world.send(world.driver.terminated("java.lang.Boom: x")).judged
        assert judged.checkpoint.failures_consecutive == number - 1
        world.driver.run_id = f"r-{number}"
        world.send(world.driver.started())
    assert judged.spiral.phase == "dead"
    assert judged.failure is not None
    (after,) = world.send(world.driver.progress(500, 2.0)).judged
    assert after.checkpoint.failures_consecutive == 0
    assert world.view().totals.checkpoints == {"completed": 3, "failed": 3, "replayed": 1}


def test_a_configuration_that_let_no_batch_begin_is_no_failed_checkpoint() -> None:
    world = World(DEADLINE)
    world.send(world.driver.started())
    (judged,) = world.send(
        world.driver.terminated("org.apache.spark.sql.AnalysisException: [PATH_NOT_FOUND] x")
    ).judged
    assert judged.failure is not None
    assert judged.failure.cause == "configuration"
    assert (judged.failure.where, judged.failure.what) == ("source", "setting")
    assert world.view().failure == judged.failure
    assert judged.checkpoint.failures_consecutive == 0


NOT_SET = "java.lang.IllegalArgumentException: Option 'kafka.bootstrap.servers' must be set"


@pytest.mark.parametrize("deadline", [120.0, None])
def test_runs_that_begin_no_batch_lose_none(deadline: float | None) -> None:
    world = World(Policy(default=QueryPolicy(deadline_seconds=deadline, mode="dry-run")))
    world.batches(8)
    for number in range(2, 5):
        world.driver.time += 3.0
        (judged,) = world.send(world.driver.terminated(NOT_SET)).judged
        assert judged.failure is not None
        assert judged.failure.cause == "configuration"
        assert judged.spiral.phase == "none"
        assert "timed out" not in " ".join(world.view().advice)
        world.driver.run_id = f"r-{number}"
        world.send(world.driver.started())
    world.send(world.driver.progress(500, 2.0))
    view = world.view()
    assert view.checkpoint.deadline_seconds == deadline  # none was learned of it
    assert view.totals.checkpoints == {"completed": 9, "failed": 3, "replayed": 0}
    assert view.spiral.replay_amplification == 1.0


@pytest.mark.parametrize("heard", [True, False])
def test_a_batch_that_fails_young_was_not_timed_out(heard: bool) -> None:
    world = World(Policy(default=QueryPolicy(deadline_seconds=120.0, mode="dry-run")))
    world.batches(8)
    for number in range(2, 5):
        world.driver.time += 3.0
        if heard:
            world.send(world.driver.heartbeat(8, 3.0))
        (judged,) = world.send(world.driver.terminated("java.lang.NullPointerException: x")).judged
        if number < 4:
            world.driver.run_id = f"r-{number}"
            world.send(world.driver.started())
    assert (judged.spiral.phase, judged.checkpoint.failures_consecutive) == ("dead", 3)
    assert judged.spiral.evidence == "batch 8 was begun 3 times and not committed"
    said = " ".join(world.view().advice)
    assert "batch 8 was lost again and again" in said
    assert "timed out" not in said
    world.driver.run_id = "r-4"
    (judged,) = world.send(world.driver.started(), world.driver.progress(500, 2.0)).judged[-1:]
    assert judged.spiral.phase == "none"  # it came again, and passed; it had never been too slow
    assert world.view().totals.checkpoints["replayed"] == 1


#: Spark 4.1 on a Kafka source, after a restart onto an unfinished batch (SPARK-55271).
AFTER_THE_COMMIT = """java.lang.NullPointerException: Cannot invoke "IterableOps.map()"
\tat org.apache.spark.sql.kafka010.KafkaMicroBatchStream$.metrics(KafkaMicroBatchStream.scala:520)
\tat org.apache.spark.sql.kafka010.KafkaMicroBatchStream.metrics(KafkaMicroBatchStream.scala:365)
\tat org.apache.spark.sql.execution.streaming.runtime.ProgressContext.finishTrigger(P.scala:361)
\tat org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution.executeOneBatch(M.scala:6)
"""


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("heard", [False, True])
@pytest.mark.parametrize("runs_before", [0, 3])
def test_a_batch_that_fails_as_it_is_told_of_was_committed(
    heard: bool, asynchronous: bool, runs_before: int
) -> None:
    """Also one that runs before it left open, as where Spark 4.1 does so."""
    world = World(DEADLINE)
    conf = {"asyncProgressTrackingEnabled": "true"} if asynchronous else {}
    world.send(world.driver.started(conf=conf))
    world.batches(3)
    for number in range(runs_before):
        world.send(world.driver.heartbeat(3, 5.0), world.driver.terminated("java.lang.Boom: x"))
        world.driver.run_id = f"r-before-{number}"
        world.send(world.driver.started(conf=conf))
    if heard:
        world.send(world.driver.heartbeat(3, 5.0))
    world.driver.time += 1.0
    (judged,) = world.send(world.driver.terminated(AFTER_THE_COMMIT)).judged
    assert judged.failure is not None
    (query,) = world.fleet._roster
    assert (query.running.open_batch_id == 3) is asynchronous
    assert ((judged.spiral.replay_amplification or 0.0) > 1.0) is asynchronous
    assert (judged.spiral.phase == "dead") is (asynchronous and runs_before > 0)
    assert world.view().totals.batches["failed"] == 1 + runs_before
    world.driver.run_id = "r-2"
    world.send(world.driver.started(conf=conf))
    world.send(world.driver.progress(500, 2.0, batch_id=4))
    assert "replayed" not in world.view().totals.batches


def test_what_a_query_of_its_function_fails_with_says_nothing_of_its_own_commit() -> None:
    inner = "org.apache.spark.SparkException: inner\n\tat a.B.c(B.scala:1)\nCaused by: "
    world = World(DEADLINE)
    world.send(world.driver.started())
    world.batches(3)
    world.send(world.driver.heartbeat(3, 5.0), world.driver.terminated(inner + AFTER_THE_COMMIT))
    (query,) = world.fleet._roster
    assert query.running.open_batch_id == 3


def test_a_run_that_begins_no_batch_leaves_the_one_that_is_open() -> None:
    world = World(DEADLINE)
    world.batches(3)
    world.send(world.driver.heartbeat(3, 5.0))
    for number, said in enumerate(["java.lang.Boom: x", NOT_SET, None], start=2):
        world.driver.time += 3.0
        world.send(world.driver.terminated(said))
        world.driver.run_id = f"r-{number}"
        world.send(world.driver.started())
    world.send(world.driver.progress(500, 2.0))
    assert world.view().totals.checkpoints["replayed"] == 1


@pytest.mark.parametrize(
    "durations",
    [None, {}, {"addBatch": -1}, {"walCommit": "x", "addBatch": None}, {"futurePhase": 7}, []],
)
def test_a_progress_with_broken_phases_is_judged_with_what_is_there(durations: Any) -> None:
    world = World(DEADLINE)
    world.batches(3)
    event = world.driver.progress(500, 2.0)
    event["body"]["durationMs"] = durations
    event["body"]["stateOperators"] = [
        {"operatorName": "ofTheFuture", "customMetrics": {"x": -1, "y": "z"}},
        7,
        None,
    ]
    (judged,) = world.send(json.loads(json.dumps(event))).judged
    assert judged.checkpoint.seconds is None
    assert judged.batch_id == 3


def test_progress_tracked_behind_the_batches_has_no_checkpoint_time_and_may_go_back() -> None:
    world = World(DEADLINE)
    conf = {"asyncProgressTrackingEnabled": "true"}
    world.send(world.driver.started(conf=conf))
    world.batches(8)
    assert world.view().checkpoint.seconds is None
    assert world.view().checkpoint.phases["walCommit"] > 0.0
    world.driver.run_id = "r-2"
    world.send(world.driver.started(conf=conf))
    (judged,) = world.send(world.driver.progress(500, 2.0, batch_id=5)).judged
    assert judged.lag_state != "REWIND"
    world.driver.run_id = "r-3"
    world.send(world.driver.started(conf={}))
    (judged,) = world.send(world.driver.progress(500, 2.0, batch_id=3)).judged
    assert judged.lag_state == "REWIND"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, []),
        ({"phases": {"walCommit": 0.9, "commitOffsets": 0.9}}, ["faster storage"]),
        (
            {"phases": {"walCommit": 1.8}, "sink": "KafkaTable"},
            ["asyncProgressTrackingEnabled", "keeps no state"],
        ),
        ({"phases": {"walCommit": 1.8}, "sink": "KafkaTable", "asynchronous": True}, []),
        (
            {
                "phases": {"walCommit": 1.8},
                "sink": "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@5f8edcc5",
                "trigger": "ProcessingTimeTrigger(0)",
            },
            ["asyncProgressTrackingEnabled", "keeps no state"],
        ),
        (
            {"phases": {"walCommit": 1.8}, "sink": "KafkaTable", "trigger": "AvailableNowTrigger"},
            ["faster storage", "is not for this query, which is one that ends by itself"],
        ),
        (
            {"phases": {"walCommit": 1.8}, "sink": "KafkaTable", "trigger": "OneTimeTrigger"},
            ["faster storage", "is not for this query, which is one that ends by itself"],
        ),
        (
            {"phases": {"walCommit": 1.8}, "sink": "DeltaSink[s3://lake/bronze/kafka_orders]"},
            ["faster storage", "is not for this query, which is not writing to Kafka"],
        ),
        (
            {"phases": {"walCommit": 1.8}, "sink": "lake.kafka_orders"},
            ["faster storage", "is not for this query, which is not writing to Kafka"],
        ),
        (
            {"phases": {"walCommit": 1.8}, "sink": "KafkaTable"},
            ["Not if its trigger is AvailableNow or Once"],
        ),
        ({"phases": {"walCommit": 0.1}, "sink": "KafkaTable"}, []),
        ({"batch_seconds": None, "phases": {"walCommit": 9.0}}, []),
        (
            {"operators": [StateCost("agg", 8.0, 4, {"checkpoint": 5.0})]},
            ["agg: ", "changelogCheckpointing"],
        ),
        ({"operators": [StateCost("agg", 8.0, 4, {"changelog": 1.0, "checkpoint": 1.0})]}, []),
        (
            {
                "operators": [StateCost("agg", 8.0, 4, {"checkpoint": 5.0})],
                "spark_version": "3.5.2",
            },
            ["changelogCheckpointing", "the newest patch release"],
        ),
        (
            {
                "operators": [StateCost("agg", 8.0, 4, {"checkpoint": 5.0})],
                "spark_version": "3.5.1",
            },
            [],
        ),
        (
            {
                "operators": [StateCost("agg", 8.0, 4, {"checkpoint": 5.0})],
                "spark_version": "3.5.1.3-vendor",
            },
            [],
        ),
        (
            {
                "operators": [StateCost("agg", 8.0, 4, {"checkpoint": 5.0})],
                "spark_version": "4.0",
            },
            ["changelogCheckpointing"],
        ),
        ({"operators": [StateCost("agg", 8.0, None, {"checkpoint": 5.0})]}, []),
        ({"operators": [StateCost("ofTheFuture", None, None)]}, []),
        ({"stuck_batch_id": 7}, ["batch 7", "weir rescue"]),
        ({"lost_batch_id": 7}, ["batch 7 was lost again and again", "what its failure says"]),
        (
            {"operators": [StateCost("agg", 8.0, 200)], "slots": 2, "fixed_seconds": 4.0},
            ["in 200 partitions and 2 tasks run at once: 4 s of a batch of 5 s", "6 partitions"],
        ),
        ({"operators": [StateCost("agg", 8.0, 200)], "slots": 2, "fixed_seconds": 0.9}, []),
        ({"operators": [StateCost("agg", 8.0, 6)], "slots": 2, "fixed_seconds": 4.0}, []),
        ({"operators": [StateCost("agg", 8.0, 8)], "slots": 2, "fixed_seconds": 3.9}, []),
        ({"operators": [StateCost("agg", 8.0, 200)], "fixed_seconds": 4.0}, []),
        ({"operators": [], "slots": 2, "fixed_seconds": 4.0}, []),
    ],
)
def test_advice_comes_from_the_query_s_own_figures(more: dict[str, Any], said: list[str]) -> None:
    given: dict[str, Any] = {
        "batch_seconds": 5.0,
        "phases": {},
        "operators": [],
        "sink": "FileSink",
        "conf": {},
        "limited": True,
        "asynchronous": False,
    }
    found = advise(Costs(**{**given, **more}), None)
    assert bool(found) == bool(said)
    for part in said:
        assert part in found[0]


def test_progress_behind_the_batches_is_not_advised_to_a_run_that_ends_by_itself() -> None:
    """Spark would refuse it as the query starts."""
    world = World(DEADLINE)
    world.driver.trigger = "AvailableNowTrigger"
    world.send(world.driver.started(sink="KafkaTable"))
    phases = {"walCommit": 0.5, "addBatch": 1.0, "commitOffsets": 0.5}
    world.send(world.driver.progress(9, 2.0, phases=phases, sink={"description": "KafkaTable"}))
    (said,) = world.view().advice
    assert "is not for this query, which is one that ends by itself" in said


ROCKS = {"flush": 1.0}


@pytest.mark.parametrize(
    ("version", "phases", "offline"),
    [
        ("", ROCKS, False),
        ("3.5.9", ROCKS, False),
        ("4.1.4", ROCKS, False),
        ("4.2.0", ROCKS, True),
        ("4.10.1", ROCKS, True),
        ("4.2.0", {}, False),  # of Spark's default store it fails, and no query starts on it then
    ],
)
def test_a_state_of_rocksdb_may_be_given_other_partitions_from_spark_4_2_on(
    version: str, phases: dict[str, float], offline: bool
) -> None:
    (said,) = advise(
        Costs(
            batch_seconds=5.0,
            phases={},
            operators=[StateCost("agg", 8.0, 200, phases)],
            sink="",
            conf={},
            limited=True,
            asynchronous=False,
            slots=2,
            fixed_seconds=4.0,
            spark_version=version,
        ),
        None,
    )
    assert "from a new checkpoint on" in said
    assert ("_streamingCheckpointManager.repartition(checkpoint, 6)" in said) is offline


@pytest.mark.parametrize(
    ("wait", "why", "limited", "said"),
    [
        (2.0, "skew", True, "smaller batches"),
        (2.0, "skew", False, "salting"),
        (2.0, "slow_task", True, "look at it"),
        (0.1, "skew", True, None),  # too short a part of the batch to be worth words
    ],
)
def test_alignment_is_advised_on_only_where_it_costs(
    wait: float, why: Any, limited: bool, said: str | None
) -> None:
    cure = "salting" if why == "skew" else "look at it"
    stage = Alignment(4, "start", 3, wait, 5.0, 2, "1", "a", why, cure)
    costs = Costs(
        batch_seconds=5.0,
        phases={},
        operators=[],
        sink="",
        conf={},
        limited=limited,
        asynchronous=False,
    )
    found = advise(costs, AlignmentView(stages=[stage]))
    assert ("smaller batches" in " ".join(found)) == (limited and why == "skew" and bool(said))
    assert (said or "") in " ".join(found)
    assert bool(found) == (said is not None)
    assert advise(costs, AlignmentView(missing="REST is off")) == []


def test_the_docs_tell_of_all_advice() -> None:
    text = advice_in_docs.PAGE.read_text(encoding="utf-8")
    assert text == advice_in_docs.page(text), "run python -m agent.export.advice"
    for one in ADVICE:
        assert one.told


def test_state_figures() -> None:
    told = figures(
        {
            "rocksdbCommitFlushLatency": 1500.0,
            "rocksdbBytesCopied": 2048.0,
            "SnapshotLastUploaded.partition_0_default": 40.0,
            "SnapshotLastUploaded.partition_1_default": 35.0,
        },
        41,
    )
    assert told.commit_phases == {"flush": 1.5}
    assert told.copied_bytes == 2048
    assert told.snapshot_lag_versions == 7  # batch 41 left version 42
    assert figures({}, 41).snapshot_lag_versions is None
    never = {"SnapshotLastUploaded.partition_0_default": -1.0}
    assert figures(never, 41).snapshot_lag_versions is None


def stores(**more: Any) -> dict[str, Any]:
    """A state operator's progress, with the newest snapshots that were uploaded, by partition."""
    uploaded = {
        f"SnapshotLastUploaded.{partition}_default": version
        for partition, version in more.pop("uploaded").items()
    }
    said = {"operatorName": "agg", "numShufflePartitions": 200, "numStateStoreInstances": 200}
    return {**said, "customMetrics": uploaded, **more}


def lag_after(world: World, *told: dict[str, Any]) -> int | None:
    """Of its state operator, after so many batches more."""
    for one in told:
        world.send(world.driver.progress(500, 2.0, stateOperators=[one]))
    operators = world.view().operators
    lag: int | None = operators[0].snapshot_lag_versions
    return lag


NEVER = {"partition_3": -1, "partition_5": 40}


def test_a_state_of_which_no_snapshot_was_ever_uploaded_lags_by_every_batch_of_its_run() -> None:
    world = World(DEADLINE)
    assert lag_after(world, *[stores(uploaded=NEVER)] * 30) == 30
    # A run opens its stores anew, from whatever there is.
    world.driver.run_id = "r-2"
    world.send(world.driver.started())
    assert lag_after(world, stores(uploaded=NEVER)) == 1
    assert lag_after(world, stores(uploaded={"partition_3": 30, "partition_5": 30})) == 2


def test_stores_that_go_from_executor_to_executor_lag_by_what_came_since() -> None:
    """Each tells of no snapshot until its new one has uploaded the first."""
    world = World(DEADLINE)
    for number in range(50):
        moved = stores(uploaded={f"partition_{number // 3}": -1, "partition_99": 200})
        assert (lag_after(world, moved) or 0) <= 3


def test_partitions_that_a_state_without_keys_does_not_have_do_not_lag() -> None:
    """Spark tells of no snapshot of each: the state is all in one of two hundred."""
    world = World(DEADLINE)
    nowhere = {f"partition_{number}": -1 for number in range(1, 6)}
    alone = stores(uploaded=nowhere, numStateStoreInstances=1)
    assert lag_after(world, *[alone] * 5) is None
    untold = stores(uploaded=nowhere, numStateStoreInstances=None)
    assert lag_after(world, *[untold] * 5) is None


@pytest.mark.parametrize(
    ("changelog", "commit", "advised"),
    [
        (False, 8.0, True),
        (False, 0.4, False),
        (True, 8.0, False),
        (None, 8.0, False),
        (False, None, False),
    ],
)
def test_changelog_is_advised_by_the_query_s_own_figures(
    changelog: bool | None, commit: float | None, advised: bool
) -> None:
    advice = changelog_advice(
        provider="org.apache...RocksDBStateStoreProvider",
        changelog=changelog,
        commit_seconds=commit,
        tasks=4,
        batch_seconds=5.0,
    )
    assert (advice is not None) == advised
