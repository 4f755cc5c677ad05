"""Sinks that pass over batch ids they have: planned anew under its id a batch is dropped there."""

import pytest

from agent.checkpoint import rescue_command
from agent.checkpoint.rescue import BY_BATCH_ID
from agent.checkpoint.sink import knows_batch_ids
from agent.checkpoint.watched import Watched
from agent.client import ClientSettings
from tests.checkpoint.build import OLD, checkpoint, file_entry, tree, write
from tests.checkpoint.kills import rescue_quietly

AGENT = ClientSettings(url="http://127.0.0.1:9")
BY_ID = (
    "DeltaSink[s3://lake/orders]",
    "HoodieStreamingSink[/lake/orders]",
    "LakeSoulSink[file:/lake/orders]",
    "org.elasticsearch.spark.sql.streaming.EsSparkSqlStreamingSink@1a2b3c4d",
    "org.opensearch.spark.sql.streaming.OpenSearchSparkSqlStreamingSink@5f8edcc5",
    "net.snowflake.spark.snowflake.streaming.SnowflakeSink@1a2b3c4d",
    "net.snowflake.spark.snowflake.streaming.SnowflakeSink",
    "com.databricks.spark.sqldw.SqlDWStreamingSink@1a2b3c4d",
    "lake.sales.orders",  # Iceberg's table, by its name
    "s3://lake/sales/orders",  # and by its place
)
OTHERS = (
    "",
    "ForeachBatchSink",
    "FileSink[/out/a.b]",
    "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@5f8edcc5",
    "org.apache.spark.sql.execution.streaming.ConsoleTable$@2a3b5b47",
    "ForeachWriterTable(Writer@1,Left(id#1.2))",
    "MongoTable{schema=a.b, capabilities=[x]}",
    "org.apache.kudu.spark.kudu.KuduSink@1a2b3c4d",
)


def watched(monkeypatch, sink):
    """An agent that has heard of a query, stopped now, that writes to this sink."""
    one = Watched(
        application="orders", query="q", location="/ck", here=True, alive=False, sink=sink,
        trigger="", deadline_seconds=None, throughput_rows_per_second=None,
        fixed_cost_seconds=None, rows_per_unit={}, sources=[], findings=[],
    )  # fmt: skip
    monkeypatch.setattr(rescue_command, "ask", lambda *_: [one])


@pytest.mark.parametrize(
    "name", ["Delta", "Iceberg", "Hudi", "Elasticsearch", "OpenSearch", "Snowflake", "Synapse"]
)
def test_every_table_format_that_passes_over_batch_ids_is_named_with_where_to_look(tmp_path, name):
    """Hudi's default operation is upsert by key, and it keeps ids all the same."""
    _, report = rescue_quietly(checkpoint(tmp_path))
    remedy = report["plan"]["refusals"][0]["remedy"]
    assert BY_BATCH_ID in remedy
    assert remedy.count(name) >= 2, "that it does, and where its ids are read"


def test_sinks_are_known_by_progress_s_description():
    assert [sink for sink in (*BY_ID, *OTHERS) if knows_batch_ids(sink)] == list(BY_ID)


@pytest.mark.parametrize("described", BY_ID)
@pytest.mark.parametrize("said", ["upsert", "none", "append", "unknown"])
def test_no_word_on_a_sink_makes_one_safe_that_keeps_batch_ids(
    tmp_path, monkeypatch, described, said
):
    root = checkpoint(tmp_path)
    before = tree(root)
    watched(monkeypatch, described)
    code, report = rescue_quietly(root, apply=True, agent=AGENT, sink=said)
    assert code == 1
    assert tree(root) == before
    [refusal] = report["plan"]["refusals"]
    assert refusal["check"] == "sink_may_hold_batch"
    assert described in refusal["evidence"]
    assert BY_BATCH_ID in refusal["remedy"]
    assert "--sink upsert" not in refusal["remedy"]
    code, report = rescue_quietly(root, agent=AGENT, sink=said, accept_duplicates=True)
    assert code == 0
    assert report["plan"]["conditional"]


@pytest.mark.parametrize("described", OTHERS)
def test_what_the_user_says_of_another_sink_counts(tmp_path, monkeypatch, described):
    watched(monkeypatch, described)
    assert rescue_quietly(checkpoint(tmp_path), agent=AGENT, sink="upsert")[0] == 0


@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize(("name", "holds"), [("3", True), ("9.compact", True), ("2", False)])
def test_what_a_sink_notes_in_the_checkpoint_is_believed(tmp_path, name, holds, opened):
    """Elasticsearch's and OpenSearch's pass over every batch up to the newest that they note."""
    root = checkpoint(tmp_path, opened=opened, state="none")
    if not opened:  # somebody removed its offsets: what a source noted for it is left
        write(root, "sources/0/3", file_entry(3), age=OLD + 30)
    write(root, f"sinks/elasticsearch/{name}", "v1")
    before = tree(root)
    code, report = rescue_quietly(root, apply=True, sink="upsert", accept_duplicates=True)
    assert code == int(holds)
    if holds:
        assert tree(root) == before
        [refusal] = report["plan"]["refusals"]
        assert refusal["check"] == "sink_may_hold_batch"
        assert f"sinks/elasticsearch/{name}" in refusal["evidence"]
