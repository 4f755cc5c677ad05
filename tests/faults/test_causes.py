"""Every fault recorded on a real Spark gets its cause; some are provoked again, live."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.core.failure import CAUSES, RULES, Context, cause_of, rule_of
from tests.faults.provoke import FAULTS, FIXTURES, provoke

if TYPE_CHECKING:
    from agent.core.judgement import FailureView

PROVOKED = pytest.mark.slow("a Spark of its own for each; as recorded, all are judged every time")

RECORDS: list[dict[str, Any]] = [
    json.loads(path.read_text()) for path in sorted(Path(FIXTURES).glob("*.json"))
]


def cause(record: dict[str, Any]) -> FailureView:
    context = Context(committed=record.get("committed", False))
    return cause_of(record["exception"], record["error_class"], context)


def test_enough_real_faults_are_recorded() -> None:
    assert len(RECORDS) >= 40
    assert {record["fault"] for record in RECORDS} == set(FAULTS)


def test_a_topic_that_had_been_read_is_lost_and_one_that_never_was_is_a_wrong_name() -> None:
    text = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not"
    assert cause_of(text, None, Context(committed=True)).cause == "source_data_loss"
    assert cause_of(text, None).cause == "configuration"
    written = f"{text}\n\tat org.apache.spark.sql.kafka010.KafkaRowWriter.sendRow"
    assert cause_of(written, None, Context(committed=True)).cause == "configuration"


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["fault"])
def test_a_recorded_fault_gets_its_cause_and_shows_why(record: dict[str, Any]) -> None:
    found = cause(record)
    assert found.cause == FAULTS[record["fault"]].cause
    assert found.evidence
    assert "\n" not in found.evidence
    assert len(found.evidence) <= 300
    assert "hunter2" not in found.evidence


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["fault"])
def test_fixtures_hold_no_paths_of_a_machine(record: dict[str, Any]) -> None:
    assert not re.search(r"/(?:tmp|home|root|Users)/", record["exception"])


@pytest.mark.parametrize(
    ("exception", "error_class", "cause"),
    [
        # texts as Kafka's client, cloud stores and cluster managers write them
        (
            (
                "org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Offsets out of range "
                "with no configured reset policy for partitions: {orders-3=117}"
            ),
            None,
            "source_data_loss",
        ),
        (
            "Some data may have been lost because they are not available in Kafka any more",
            None,
            "source_data_loss",
        ),
        ("x", "KAFKA_DATA_LOSS.START_OFFSET_RESET", "source_data_loss"),
        (
            (
                "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does "
                "not host this topic-partition."
            ),
            None,
            "configuration",
        ),
        (
            (
                "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) "
                "Reason: The executor with id 3 exited with exit code 137(SIGKILL, possible OOM). "
                "The API gave the following container statuses: terminated OOMKilled"
            ),
            None,
            "memory",
        ),
        (
            "Container killed by YARN for exceeding physical memory limits. 5.5 GB of 5.5 GB",
            None,
            "memory",
        ),
        ("java.lang.OutOfMemoryError: GC overhead limit exceeded", None, "memory"),
        (
            "java.util.concurrent.TimeoutException: Futures timed out after [10000 milliseconds]",
            None,
            "machine",
        ),
        (
            (
                "org.apache.kafka.common.errors.InvalidTxnTimeoutException: The transaction "
                "timeout is larger than the maximum value allowed by the broker"
            ),
            None,
            "configuration",
        ),
        (
            "java.sql.SQLTransientConnectionException: pool - Connection is not available",
            None,
            "external_sink",
        ),
        ("java.net.UnknownHostException: broker-1", None, "machine"),
        (
            (
                "org.apache.hadoop.fs.s3a.AWSBadRequestException: x\n\tat org.apache.spark.sql."
                "execution.streaming.HDFSMetadataLog.write(HDFSMetadataLog.scala:1)"
            ),
            None,
            "checkpoint_storage",
        ),
        ("com.example.Boom: nobody knows", None, "unknown"),
        (None, None, "unknown"),
        ("", "", "unknown"),
    ],
)
def test_other_texts(exception: str | None, error_class: str | None, cause: str) -> None:
    found = cause_of(exception, error_class)
    assert found.cause == cause
    assert found.evidence


def test_rules_are_well_formed() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert {rule.cause for rule in RULES} == set(CAUSES) - {"unknown"}


def test_the_more_telling_line_wins_over_what_wraps_it() -> None:
    text = (
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "job.py", line 3, in parse\nMemoryError\n'
    )
    assert cause_of(text, "PYTHON_EXCEPTION").cause == "memory"
    assert rule_of(text.replace("MemoryError", "ValueError: x"), None) == "python_exception"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("filler", ["a", " ", "\n", "Exception", "java.io.", "A.b", "/state/1"])
def test_a_hostile_text_costs_little(filler: str) -> None:
    text = (filler * 20_000)[: 16 * 1024]
    for _ in range(3):
        cause_of(text, text[:200])


@PROVOKED
@pytest.mark.spark
@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    "name",
    [
        "user_exception",
        "python_worker_killed",
        "state_file_deleted",
        "sink_refuses",
        "offset_log_corrupt",
        "source_file_deleted",
    ],
)
def test_a_fault_provoked_now_gets_its_cause(name: str) -> None:
    assert cause(provoke(name)).cause == FAULTS[name].cause


@PROVOKED
@pytest.mark.spark
@pytest.mark.timeout(280)
@pytest.mark.parametrize("name", ["kafka_offsets_lost"])
def test_a_fault_of_kafka_provoked_now_gets_its_cause(name: str, kafka_jars: None) -> None:
    assert cause(provoke(name)).cause == FAULTS[name].cause
