"""Of which queries it is said that their result may hang on where batches end."""

from __future__ import annotations

import pytest

from agent.core.judge.batch_ends import findings

KAFKA = "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@1"
EACH_BATCH = "ForeachBatchSink"


@pytest.mark.parametrize(
    ("operators", "sink", "said"),
    [
        (["stateStoreSave", "dedupe", "symmetricHashJoin"], KAFKA, ""),
        (["flatMapGroupsWithState"], KAFKA, "by flatMapGroupsWithState once a batch and key:"),
        (["mapGroupsWithState", "dedupe"], KAFKA, "by mapGroupsWithState once a batch and key:"),
        (["applyInPandasWithState"], KAFKA, "by applyInPandasWithState once a batch and key:"),
        (["transformWithStateExec"], KAFKA, "by transformWithStateExec once a batch and key:"),
        (
            ["transformWithStateInPandasExec"] * 2,
            EACH_BATCH,
            "by transformWithStateInPandasExec once a batch and key, by foreachBatch once a batch:",
        ),
        ([], EACH_BATCH, "by foreachBatch once a batch:"),
    ],
)
def test_code_of_the_jobs_own(operators: list[str], sink: str, said: str) -> None:
    found = findings(operators, sink, controlled=True, ends=False, target_seconds=5.0)
    assert [one.check for one in found] == ["batch_ends"] * bool(said)
    assert all(one.severity == "info" and said in one.evidence for one in found)
    assert all("how many rows" in one.evidence for one in found)
    assert findings(operators, sink, controlled=False, ends=True, target_seconds=5.0) == []


def test_code_that_asks_after_the_run_what_was_read() -> None:
    (found,) = findings([], KAFKA, controlled=True, ends=True, target_seconds=5.0)
    assert (found.check, found.severity) == ("batch_ends", "info")
    assert "lastProgress" in found.evidence
    assert len(findings([], EACH_BATCH, controlled=True, ends=True, target_seconds=5.0)) == 2
