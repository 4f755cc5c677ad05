"""Each finding of the audit: a query that triggers it, and a sound one that does not."""

import json
import re
import socket
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.checkpoint.audit import CHECKS, OF_THE_RUN, QueryFacts, audit
from agent.checkpoint.audit_command import facts_of, run_audit
from agent.checkpoint.folder import LocalFolder
from agent.checkpoint.layout import read_checkpoint
from agent.checkpoint.sink import keeps_nothing
from tests.checkpoint.build import checkpoint, offsets, write
from tests.checkpoint.kills import Driver, make_input

SOUND = QueryFacts(
    query="app/orders",
    sink="FileSink[hdfs://nn/out]",
    sources=["KafkaV2[Subscribe[orders]]", "FileStreamSource[hdfs://nn/in]"],
    checkpoint_location="hdfs://nn/ck/orders",
    master="yarn",
    deadline_seconds=60.0,
    options={"kafka.transaction.timeout.ms": "600000", "kafka.isolation.level": "read_committed"},
    others={"app/users": "hdfs://nn/ck/users"},
    offset_times_ms=[1, 2, 3],
)


def checks(**changes):
    return [finding.check for finding in audit(replace(SOUND, **changes))]


def test_a_sound_query_has_no_finding():
    assert checks() == []


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        (
            {"checkpoint_location": "/tmp/temporary-2f0c/ck", "master": "yarn"},
            "location_not_durable",
        ),
        ({"checkpoint_location": "file:/tmp/ck"}, "location_not_durable"),
        ({"checkpoint_location": "/data/ck"}, "location_not_durable"),
        ({"others": {"app/users": "hdfs://nn/ck/orders/"}}, "location_shared"),
        ({"offset_times_ms": [5000, 1000]}, "two_writers"),
        ({"options": {"kafka.transaction.timeout.ms": "3600000"}}, "transaction_timeout"),
        ({"options": {"kafka.transaction.timeout.ms": "30000"}}, "transaction_timeout"),
        ({"options": {"kafka.isolation.level": "read_uncommitted"}}, "read_uncommitted"),
        ({"options": {"asyncProgressTrackingEnabled": "true"}}, "asynchronous_progress"),
        ({"options": {"ASYNCPROGRESSTRACKINGENABLED": "TRUE"}}, "asynchronous_progress"),
        ({"conf": {"asyncProgressTrackingEnabled": "true"}}, "asynchronous_progress"),
        (
            {"sink": "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@1"},
            "sink_at_least_once",
        ),
    ],
)
def test_what_each_finding_needs(changes, check):
    assert checks(**changes) == [check]


@pytest.mark.parametrize("told", ["conf", "options"])
@pytest.mark.parametrize(
    ("trigger", "found"),
    [
        ("", ["asynchronous_progress"]),
        ("ProcessingTimeTrigger(0)", ["asynchronous_progress"]),
        ("RealTimeTrigger(300000)", []),
    ],
)
def test_real_time_mode_is_as_exact_with_asynchronous_progress(told, trigger, found):
    """Spark 4.3 turns it on by itself there."""
    asked = {"asyncProgressTrackingEnabled": "true"}
    assert checks(**{told: asked, "trigger": trigger}) == found


def test_a_batch_id_alone_is_no_name_of_a_batch():
    """A new checkpoint counts from 0 again: its batches would be passed over."""
    [found] = audit(replace(SOUND, sink="ForeachBatchSink"))
    assert "the batch id and the query's" in found.remedy


FOREACH = "ForeachWriterTable(org.apache.spark.sql.execution.python.PythonForeachWriter@1f)"


@pytest.mark.parametrize("sink", [FOREACH, "ForeachBatchSink"])
def test_nothing_is_advised_by_which_rows_would_be_lost(sink):
    """A partition's rows differ from try to try, and so do a batch's with asynchronous progress."""
    options = {"asyncProgressTrackingEnabled": "true"}
    [plain] = audit(replace(SOUND, sink=sink))
    [found, _] = audit(replace(SOUND, sink=sink, options=options))
    assert "write by row key" in plain.remedy
    assert "write by row key" in found.remedy
    assert not re.search("batch id|foreachBatch", found.remedy)
    for one in (plain, found):
        assert not re.search("epoch|partition", one.remedy)


@pytest.mark.parametrize(
    "sink",
    [
        "DeltaSink[/lake/memory/orders]",
        "FileSink[hdfs://nn/kafka/noop]",
        "org.apache.iceberg.spark.source.SparkTable prod.foreachbatch.orders",
        "lake.kafka_orders",
        "lake.foreachbatch.orders",
        "s3://lake/kafka/orders",
    ],
)
def test_where_a_sink_writes_is_not_what_it_is(sink):
    assert checks(sink=sink) == []


@pytest.mark.parametrize(
    "source",
    [
        "KafkaV2[Subscribe[textsocket-in]]",
        "KafkaV2[Subscribe[prices.ratestream]]",
        "FileStreamSource[hdfs://nn/memorystream]",
    ],
)
def test_what_a_source_reads_is_not_what_it_is(source):
    assert checks(sources=[source]) == []


def test_a_local_path_is_sound_for_a_local_master():
    assert checks(checkpoint_location="/data/ck", master="local[2]") == []


@pytest.mark.parametrize(
    ("location", "severity"), [("file:///mnt/shared/ck", "warning"), ("/mnt/shared/ck", "error")]
)
def test_a_path_with_its_scheme_may_be_a_mount_that_is_shared(location, severity):
    (finding,) = audit(replace(SOUND, checkpoint_location=location, master="k8s://https://api"))
    assert finding.severity == severity
    assert ("unless a mount is shared" in finding.evidence) is (severity == "warning")


@pytest.mark.parametrize("location", ["dbfs:/ck/q", "dbfs:/Volumes/a/b", "hdfs:/ck/q", "viewfs:/q"])
def test_an_address_with_one_slash_names_its_file_system(location):
    """Hadoop writes one where there is no authority (org.apache.hadoop.fs.Path.toString)."""
    assert checks(checkpoint_location=location, master="spark://10.0.0.1:7077") == []


@pytest.mark.parametrize("root", ["", "file:", "dbfs:/local_disk0", "hdfs://nn", "s3a://lake"])
def test_a_checkpoint_that_ends_with_its_query_is_found_on_every_file_system(root):
    """Spark makes it below java.io.tmpdir, of the default file system (StreamingQueryManager)."""
    location = f"{root}/var/x/temporary-0c6a4f6e-1f2d-4d0a-9a5e-0123456789ab"
    assert checks(checkpoint_location=location, master="yarn") == ["location_not_durable"]
    assert "temporary folder" in audit(replace(SOUND, checkpoint_location=location))[0].evidence
    if "://" in root:
        assert checks(checkpoint_location=f"{root}/tmp/ck", master="yarn") == []


def test_every_name_is_listed_for_metrics():
    assert len(set(CHECKS)) == len(CHECKS)


def test_what_only_the_audit_finds_is_in_its_table():
    table = (
        (Path(__file__).parents[2] / "docs/checkpoint-tools.md")
        .read_text()
        .partition("\n## audit")[2]
    )
    before_inspect = CHECKS[: CHECKS.index("log_unreadable")]
    assert [one for one in (*before_inspect, *OF_THE_RUN) if f"`{one}`" not in table] == []


def test_a_folder_alone(tmp_path, capsys):
    root = checkpoint(tmp_path / "ck", opened=False)
    facts = facts_of(read_checkpoint(LocalFolder(root)), [])
    assert "two_writers" not in [finding.check for finding in audit(facts)]
    write(root, "offsets/2", offsets(2, time_ms=1))
    assert run_audit(str(root), agent=None, as_json=True) == 1
    assert "two_writers" in capsys.readouterr().out


@pytest.mark.parametrize("typed", ["{}", "file:{}", "file://{}/", "ck", "./ck/", "../in/ck"])
def test_the_same_is_found_however_the_folder_is_typed(tmp_path, capsys, monkeypatch, typed):
    root = checkpoint(tmp_path / "temp" / "in" / "ck", opened=False)
    monkeypatch.chdir(root.parent)
    code = run_audit(typed.format(root), agent=None, as_json=True)
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert code == 1
    [temporary] = [one for one in findings if one["check"] == "location_not_durable"]
    assert temporary["evidence"] == f"the checkpoint is in a temporary folder: {root}"


@pytest.fixture
def lines():
    """A server whose lines a socket source reads."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            try:
                while True:
                    connection, _ = server.accept()
                    connection.sendall(b"hello\n" * 10)
            except OSError:
                pass

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.slow("a Spark of its own; each finding has a real query every time")
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_real_queries(tmp_path, lines):
    source = make_input(tmp_path / "in", files=2)
    expected = {
        ("files", "parquet"): [],
        ("files", "foreachBatch"): ["sink_at_least_once"],
        ("files", "foreach"): ["sink_at_least_once"],
        ("files", "memory"): ["sink_not_durable"],
        ("files", "console"): ["sink_not_durable"],
        ("files", "noop"): ["sink_not_durable"],
        ("rate", "parquet"): ["source_not_replayable"],
        ("socket", "parquet"): ["source_not_replayable"],
    }
    options = {"rate": {}, "files": {}, "socket": {"host": "127.0.0.1", "port": str(lines)}}
    seen = {}
    with Driver(tmp_path / "log") as driver:
        for number, (reads, writes) in enumerate(expected):
            order = {
                "source": reads,
                "options": options[reads],
                "sink": writes,
                "input": str(source),
                "limit": 1,
                "checkpoint": str(tmp_path / f"ck-{number}"),
                "parquet": str(tmp_path / f"out-{number}"),
            }
            told = driver.ask({"describe": order})
            assert "error" not in told, (reads, writes, told)
            facts = QueryFacts(sink=told["sink"], sources=told["sources"])
            nothing_stays = writes in {"memory", "console", "noop"}
            assert keeps_nothing(told["sink"]) is nothing_stays, (writes, told["sink"])
            seen[reads, writes] = [finding.check for finding in audit(facts)]
    assert seen == expected
