"""Every fault recorded on a real Spark gets its cause; some are provoked again, live."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.core.judge.failure.cause import CAUSES, WHATS, WHERES, Context, cause_of, outcomes
from tests.faults.provoke import FAULTS, FIXTURES, provoke

if TYPE_CHECKING:
    from agent.core.judgement import FailureView

#: Exceptions as connectors, drivers and Spark write them, shortened.
TEXTS: list[dict[str, str]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "connectors.jsonl").read_text("utf-8").splitlines()
]

#: Where each fault was and what it was.
AXES = {
    "arithmetic": ("user_code", "bug"),
    "bad_option": ("source", "setting"),
    "bad_option_while_running": ("unknown", "setting"),
    "cast_invalid": ("user_code", "bug"),
    "checkpoint_not_writable": ("checkpoint", "refused"),
    "commit_log_gone": ("checkpoint", "gone"),
    "disk_full_for_offsets": ("checkpoint", "disk"),
    "disk_full_under_checkpoint": ("state", "disk"),
    "executor_killed": ("machine", "killed"),
    "java_heap": ("machine", "memory"),
    "kafka_address_unknown": ("source", "setting"),
    "kafka_broker_gone": ("source", "unreachable"),
    "kafka_offsets_lost": ("source", "gone"),
    "kafka_row_not_json": ("user_code", "bug"),
    "kafka_row_not_text": ("user_code", "bug"),
    "kafka_second_writer": ("sink", "refused"),
    "kafka_sink_gone": ("sink", "unreachable"),
    "kafka_sink_record_too_large": ("sink", "refused"),
    "kafka_sink_topic_missing": ("sink", "setting"),
    "kafka_topic_deleted": ("source", "gone"),
    "kafka_topic_made_anew": ("source", "gone"),
    "kafka_topic_missing": ("source", "setting"),
    "kafka_transaction_timed_out": ("sink", "refused"),
    "kafka_transaction_timeout_refused": ("sink", "setting"),
    "malformed_record": ("user_code", "bug"),
    "missing_data_source": ("user_code", "setting"),
    "missing_path": ("source", "setting"),
    "offset_log_corrupt": ("checkpoint", "corrupt"),
    "python_memory_limit": ("user_code", "memory"),
    "python_worker_killed": ("user_code", "memory"),
    "sink_directory_read_only": ("sink", "refused"),
    "sink_refuses": ("sink", "unreachable"),
    "sink_refuses_jdbc": ("sink", "unreachable"),
    "sink_refuses_row_by_row": ("sink", "unreachable"),
    "sink_times_out": ("sink", "unreachable"),
    "slow_host": ("machine", "killed"),
    "source_file_deleted": ("source", "gone"),
    "state_file_deleted": ("state", "gone"),
    "state_file_deleted_rocksdb": ("state", "gone"),
    "state_schema_changed": ("state", "schema"),
    "two_applications_one_checkpoint": ("checkpoint", "setting"),
    "two_queries_one_checkpoint": ("checkpoint", "setting"),
    "unsupported_output_mode": ("user_code", "setting"),
    "user_exception": ("user_code", "bug"),
    "user_exception_in_foreach_batch": ("user_code", "bug"),
}
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


@pytest.mark.parametrize(
    ("said", "axes"),
    [
        ("RuntimeError: could not connect: timed out", ("external_sink", "sink", "unreachable")),
        ("RuntimeError: Access denied for user u", ("configuration", "sink", "refused")),
        ("OSError: [Errno 24] Too many open files: 'x'", ("configuration", "user_code", "setting")),
        ("RuntimeError: SQLSTATE: 08006 told", ("external_sink", "sink", "unreachable")),
    ],
)
def test_the_state_that_spark_ends_with_is_no_databases(
    said: str, axes: tuple[str, str, str]
) -> None:
    record = next(one for one in RECORDS if one["fault"] == "sink_refuses_row_by_row")
    refused = "ConnectionRefusedError: [Errno 111] Connection refused"
    assert f"{refused}\n SQLSTATE: 38000" in record["exception"]
    found = cause({**record, "exception": record["exception"].replace(refused, said)})
    assert (found.cause, found.where, found.what) == axes
    assert said in found.evidence
    own = "org.apache.spark.SparkException: [INTERNAL_ERROR] A fault. SQLSTATE: XX000"
    assert cause_of(own, None).what == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        (
            "io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException: "
            "{}; error code: {}\n\tat io.confluent.kafka.schemaregistry.client.rest.RestService."
            "sendHttpRequest(RestService.java:1)"
        ),
        (
            "com.amazonaws.services.schemaregistry.exception.AWSSchemaRegistryException: x\n\tat "
            "com.amazonaws.services.schemaregistry.common.AWSSchemaRegistryClient.get(A.java:1)\n"
            "Caused by: software.amazon.awssdk.services.glue.model.EntityNotFoundException: {} {}\n"
            "\tat software.amazon.awssdk.services.glue.DefaultGlueClient.get(D.java:1)"
        ),
    ],
)
@pytest.mark.parametrize(
    ("said", "code"), [("Subject not found.", "40401"), ("Schema 101 not found", "40403")]
)
def test_a_schema_that_a_registry_does_not_have_is_no_lost_data(
    text: str, said: str, code: str
) -> None:
    found = cause_of(text.format(said, code), None, Context(committed=True))
    assert (found.cause, found.where, found.what) == ("configuration", "source", "setting")


def test_the_line_that_tells_that_a_log_was_cleaned_up_is_the_one_with_the_versions() -> None:
    text = (
        "java.lang.IllegalStateException: The stream expected data from version 60,\n"
        "but the earliest available version in the _delta_log directory is 80. Or set\n"
        'the .option("failOnDataLoss", "false")\n'
        "\tat org.apache.spark.sql.delta.sources.DeltaSource.getBatch(DeltaSource.scala:1)"
    )
    found = cause_of(text, None)
    assert (found.cause, found.where, found.what) == ("source_data_loss", "source", "gone")
    assert "directory is 80" in found.evidence


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["fault"])
def test_a_recorded_fault_gets_its_cause_and_shows_why(record: dict[str, Any]) -> None:
    found = cause(record)
    assert found.cause == FAULTS[record["fault"]].cause
    assert (found.where, found.what) == AXES[record["fault"]]
    assert found.evidence
    assert "\n" not in found.evidence
    assert len(found.evidence) <= 300
    assert "hunter2" not in found.evidence
    assert "SQLSTATE" not in found.evidence


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
            "configuration",
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


@pytest.mark.parametrize("one", TEXTS, ids=lambda one: one["name"])
def test_texts_of_connectors(one: dict[str, str]) -> None:
    found = cause_of(one["text"], None)
    assert (found.where, found.what, found.cause) == (one["where"], one["what"], one["cause"])
    assert found.evidence


@pytest.mark.parametrize("one", TEXTS, ids=lambda one: one["name"])
def test_a_text_cut_in_its_middle_is_judged_or_unknown(one: dict[str, str]) -> None:
    """What a cut leaves may say less; where the deepest cause still stands, it is the same."""
    text = one["text"]
    padded = text + "\n\tat org.apache.spark.util.Utils.x(Utils.scala:1)" * 400
    assert cause_of(padded[:16_000], None).cause == one["cause"]
    for share in (0.3, 0.6, 0.9):
        assert cause_of(text[: int(len(text) * share)], None).cause in CAUSES


def test_every_cause_place_and_kind_can_be_told() -> None:
    assert {cause for _, _, cause in outcomes()} == set(CAUSES)
    assert {where for where, _, _ in outcomes()} == set(WHERES)
    assert {what for _, what, _ in outcomes()} == set(WHATS)


def test_the_deepest_cause_decides_not_what_wraps_it() -> None:
    text = (
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "job.py", line 3, in parse\nMemoryError\n'
    )
    assert cause_of(text, "PYTHON_EXCEPTION").cause == "memory"
    found = cause_of(text.replace("MemoryError", "ValueError: x"), None)
    assert (found.cause, found.where, found.what) == ("user_code", "user_code", "bug")


def test_a_secret_stays_struck_out_wherever_the_line_is_cut() -> None:
    for between in range(0, 600, 5):
        text = f"x.LongException: {'a ' * 300}password=hunter2 {'b' * between} Connection refused"
        evidence = cause_of(text, None).evidence
        assert "hunter2" not in evidence
        assert "Connection refused" in evidence or between > 250


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            (
                "requests.ConnectionError: HTTPSConnectionPool(host='maps.googleapis.com'"
                ", port=443): Max retries exceeded with url: /maps/api/geocode/json?address=x&key="
                "AIzaSySECRET (Caused by NewConnectionError('Failed to establish a connection'))"
            ),
            "Max retries exceeded with url: /maps/api/geocode/json (Caused by",
        ),
        (
            "urllib3.exceptions.MaxRetryError: exceeded with url: /api/ingest?code=SECRETSECRET==",
            "with url: /api/ingest",
        ),
        (
            (
                "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: "
                "https://hooks.slack.com/services/T0AAA/B0BBB/abcdSECRET"
            ),
            "404 Client Error: Not Found for url: https://hooks.slack.com/services/",
        ),
        (
            "urllib3.exceptions.MaxRetryError: with url: /bot123456:AAESECRET/sendMessage (Caused)",
            "(Caused)",
        ),
        (
            (
                "java.sql.SQLException: jdbc:sqlserver://db:1433;user=sa;password={SE;CRET};"
                "encrypt=true"
            ),
            "password=***;encrypt=true",
        ),
        ("java.sql.SQLException: UID=sa;PWD={SE;CRET};Encrypt=yes", "PWD=***;Encrypt=yes"),
        ("com.acme.AException: fs.s3a.encryption.key=SECRET", "fs.s3a.encryption.key=***"),
        (
            "com.acme.AException: x-amz-server-side-encryption-customer-key: SECRET",
            "encryption-customer-key: ***",
        ),
        ("com.acme.AException: authorization: bearer abcSECRET", "authorization: bearer ***"),
    ],
)
def test_no_evidence_shows_what_opens_a_service(text: str, kept: str) -> None:
    evidence = cause_of(text, None).evidence
    assert "SECRET" not in evidence
    assert "CRET}" not in evidence
    assert kept in evidence


SHUFFLE = (
    "\tat org.apache.spark.storage.DiskBlockObjectWriter.initialize(D.scala:1)\n"
    "\tat org.apache.spark.shuffle.sort.BypassMergeSortShuffleWriter.write(B.java:1)"
)
CHECKPOINT = (
    "\tat org.apache.hadoop.fs.RawLocalFileSystem.create(RawLocalFileSystem.java:1)\n"
    "\tat org.apache.spark.sql.execution.streaming.HDFSMetadataLog.write(HDFSMetadataLog.scala:1)"
)


@pytest.mark.parametrize(
    ("reason", "what", "of_shuffle", "of_checkpoint"),
    [
        ("No such file or directory", "gone", "machine", "checkpoint_storage"),
        ("Too many open files", "setting", "configuration", "configuration"),
        ("Too many open files in system", "setting", "configuration", "configuration"),
        ("Is a directory", "setting", "configuration", "configuration"),
        ("File name too long", "setting", "configuration", "configuration"),
        ("Permission denied", "refused", "configuration", "configuration"),
        ("Read-only file system", "refused", "machine", "checkpoint_storage"),
        ("Not a directory", "refused", "machine", "checkpoint_storage"),
        ("Stale file handle", "unreachable", "machine", "checkpoint_storage"),
        ("Transport endpoint is not connected", "unreachable", "machine", "checkpoint_storage"),
        ("Host is down", "unreachable", "machine", "checkpoint_storage"),
        ("No space left on device", "disk", "machine", "checkpoint_storage"),
    ],
)
def test_a_file_that_could_not_be_opened_is_told_by_the_systems_reason(
    reason: str, what: str, of_shuffle: str, of_checkpoint: str
) -> None:
    for path, frames, where, cause in (
        ("/d/blockmgr-1/0c/temp_shuffle_6", SHUFFLE, "shuffle", of_shuffle),
        ("/mnt/ck/offsets/.5.tmp", CHECKPOINT, "checkpoint", of_checkpoint),
    ):
        opened = "\tat java.io.FileOutputStream.open0(Native Method)\n"
        text = f"java.io.FileNotFoundException: {path} ({reason})\n{opened}{frames}"
        found = cause_of(text, None)
        assert (found.where, found.what, found.cause) == (where, what, cause)
        assert reason in found.evidence


def test_a_socket_for_which_no_file_is_left_is_no_service_that_does_not_answer() -> None:
    text = (
        "java.net.SocketException: Too many open files\n\tat sun.nio.ch.Net.socket0(Native Method)"
        "\n\tat org.apache.kafka.clients.consumer.KafkaConsumer.poll(KafkaConsumer.java:1)"
    )
    found = cause_of(text, None)
    assert (found.where, found.what, found.cause) == ("source", "setting", "configuration")
    found = cause_of(text.replace("Too many open files", "Connection reset"), None)
    assert (found.where, found.what, found.cause) == ("source", "unreachable", "external_sink")


LOST = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed "
    "4 times, most recent failure: Lost task 0.3 in stage 1.0 (TID 9) (10.0.0.7 executor 5): "
    "ExecutorLostFailure (executor 5 exited caused by one of the running tasks) Reason: {}\n"
    "Driver stacktrace:\n\tat org.apache.spark.scheduler.DAGScheduler.abort(DAGScheduler.scala:1)"
)
OF_YARN = (
    "Container marked as failed: container_1700000000000_0001_01_000006 on host: h1. Exit status: "
    "{0}. Diagnostics: [2026-01-01 00:00:00.000]Exception from container-launch.\nContainer id: "
    "container_1700000000000_0001_01_000006\nExit code: {0}\n"
)
OF_KUBERNETES = (
    "\nThe executor with id 5 exited with exit code {}.\n\n\n\nThe API gave the following "
    "container statuses:\n\n\n\t container name: spark-kubernetes-executor\n"
    "\t container state: terminated\n"
    "\t exit code: {}\n\t termination reason: {}\n      "
)


@pytest.mark.parametrize(
    ("reason", "what", "shown"),
    [
        (OF_YARN.format(52), "memory", "Exit status: 52"),
        (OF_YARN.format(53), "disk", "Exit status: 53"),
        (OF_YARN.format(143), "killed", "Exit status: 143"),
        ("Command exited with code 52", "memory", "exited with code 52"),
        ("Command exited with code 53", "disk", "exited with code 53"),
        (
            OF_KUBERNETES.format("137(SIGKILL, possible container OOM)", 137, "Error"),
            "memory",
            "exited with exit code 137(SIGKILL, possible container OOM)",
        ),
        (
            OF_KUBERNETES.format("137(SIGKILL, possible container OOM)", 137, "OOMKilled"),
            "memory",
            "exited with exit code 137(SIGKILL, possible container OOM)",
        ),
        (OF_KUBERNETES.format("52(JVM OOM)", 52, "Error"), "memory", "exit code 52(JVM OOM)"),
        (OF_KUBERNETES.format(53, 53, "Error"), "disk", "exited with exit code 53"),
        (OF_KUBERNETES.format(143, 143, "Error"), "killed", "exited with exit code 143"),
        ("", "killed", "executor 5 exited caused by one of the running tasks"),
    ],
)
def test_a_lost_executor_is_told_by_its_reason(reason: str, what: str, shown: str) -> None:
    found = cause_of(LOST.format(reason), None)
    assert (found.where, found.what) == ("machine", what)
    assert found.cause == ("memory" if what == "memory" else "machine")
    assert shown in found.evidence


CRASHED = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"


@pytest.mark.parametrize(
    "signal",
    [
        "Segmentation fault",
        "Aborted",
        "Bus error",
        "Illegal instruction",
        "Floating point exception",
    ],
)
def test_a_library_that_crashed_is_no_want_of_memory(signal: str) -> None:
    text = (
        f"{CRASHED}: Fatal Python error: {signal}\n\nCurrent thread 0x00007f00 (most recent "
        'call first):\n  File "/app/x.py", line 3 in f\n\n'
        "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator$$anonfun$1."
        "applyOrElse(PythonRunner.scala:1)\nCaused by: java.io.EOFException\n"
        "\tat java.io.DataInputStream.readInt(DataInputStream.java:1)"
    )
    for told in (text, text.partition("\tat")[0]):
        found = cause_of(told, None)
        assert (found.where, found.what, found.cause) == ("user_code", "bug", "user_code")
        assert signal in found.evidence


def test_a_worker_of_python_that_went_without_a_word_went_for_memory() -> None:
    found = cause_of(CRASHED, None)
    assert (found.where, found.what, found.cause) == ("user_code", "memory", "memory")


def test_a_path_of_the_checkpoint_tells_where_no_frame_does() -> None:
    context = Context(checkpoint_location="s3://bucket/q7")
    found = cause_of("java.io.FileNotFoundException: s3://bucket/q7/x", None, context)
    assert (found.where, found.cause) == ("checkpoint", "checkpoint_storage")
    assert cause_of("java.io.FileNotFoundException: s3://b/x", None, context).where == "unknown"


@pytest.mark.parametrize(("before", "found"), [(3_500, True), (6_000, False)])
def test_so_much_of_a_message_is_searched(before: int, found: bool) -> None:
    text = "com.acme.LongException: " + "a " * (before // 2) + "Connection refused"
    assert (cause_of(text, None).what == "unreachable") is found


@pytest.mark.parametrize(("before", "found"), [(30_000, True), (34_000, False)])
def test_so_much_of_a_text_is_read(before: int, found: bool) -> None:
    frame = "\tat org.apache.spark.util.Utils.x(Utils.scala:1)\n"
    text = "com.acme.LongException: x\n" + frame * (before // len(frame))
    text += "Caused by: java.lang.OutOfMemoryError: Java heap space"
    assert (cause_of(text, None).cause == "memory") is found


def test_hostile_texts_take_time_linear_in_their_length() -> None:
    fillers = (
        *("a", " ", "\n", "Exception", "java.io.", "A.b", "/state/1", "a.B: ", "x.Exception: "),
        *(
            "Caused by: ",
            "\tat a.b.c(\n",
            "Traceback (most recent call last)\n",
            "[A_B] ",
            "topic ",
        ),
        *("Caused by: a.b.CException: x\n\tat q.w.E.r(\n", "\tat com.mongodb.X.y(\n", "a.b.C "),
        *('  File "a", line 1, in f\n', "connection to x ", "Suppressed: ", "cannot be cast to "),
        *(
            "The above exception was the direct cause of\n",
            "Error reading delta file ",
            "not found: ",
        ),
    )

    def seconds(length: int) -> float:
        return min(sum(_cost((f * length)[:length]) for f in fillers) for _ in range(3))

    short, long = seconds(4 * 1024), seconds(16 * 1024)
    assert long < 8 * short  # four times the text: 64 times would be quadratic in two places


def _cost(text: str) -> float:
    begin = time.process_time()
    cause_of(text, text[:200])
    return time.process_time() - begin


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
