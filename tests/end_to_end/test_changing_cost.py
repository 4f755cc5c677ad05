"""A real query whose sink and state get dearer while it runs: sized anew, never restarted.

``WEIR_KEEP_RECORD=tests/replay/changing-cost`` keeps the record of the run, which replay is tested
on and the picture in docs/yardsticks.md is drawn from.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.core.policy import QueryPolicy
from agent.replay import replay_files
from tests.end_to_end.test_main_path import view
from tests.service.agents import AgentProcess, weir
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.spark.conftest import Folder

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow("27 batches of ten seconds; the main path's limit moves in three"),
    pytest.mark.course("each batch is timed, and a busy machine's are longer"),
    pytest.mark.timeout(1200),
]
TARGET_SECONDS = 10.0
#: Milliseconds a key costs in the stage that holds the state: read anew for each.
STATE_MS = "weir.test.state_ms"
SLEEP = (
    "reflect('java.lang.Thread', 'sleep', "
    f"cast(reflect('java.lang.Long', 'getLong', '{STATE_MS}') as bigint)) as slept"
)
#: (what changes, seconds a file costs in the sink, milliseconds a key costs in the state, batches)
PHASES = (
    ("start", 0.4, 0, 8),
    ("the sink gets dearer", 1.2, 0, 6),
    ("the state gets dearer", 1.2, 1500, 6),
    ("the sink is cheap again", 0.4, 1500, 7),
)
FILES = 1000
ROWS_PER_FILE = 10


def batches_of(query: Any) -> list[tuple[int, int, float]]:
    """(id, files, seconds) of each batch that read anything."""
    return [
        (one["batchId"], files, one["durationMs"]["triggerExecution"] / 1000)
        for one in query.recentProgress
        if (files := one["numInputRows"] // ROWS_PER_FILE)
    ]


def wait_for(query: Any, batch_id: int) -> None:
    until(
        lambda: any(one[0] >= batch_id for one in batches_of(query)),
        f"batch {batch_id}",
        seconds=600,
        every=0.1,
    )


def settled(seconds: list[float]) -> int | None:
    """The number of the first of three batches in a row within 30 % of the target."""
    good = [abs(one - TARGET_SECONDS) <= 0.3 * TARGET_SECONDS for one in seconds]
    return next((n + 1 for n in range(len(good) - 2) if all(good[n : n + 3])), None)


def test_settled_within_a_few_batches_of_each_change_without_a_restart(
    tmp_path: Path,
    spark: Any,
    attached: Callable[..., Any],
    folder: Callable[..., Folder],
    start: Any,
) -> None:
    record = tmp_path / "record.jsonl"
    # More files than this in a batch, and Spark lists them by a job of its own: one task a file.
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "10000")
    properties = spark._jvm.java.lang.System
    sink_seconds = [PHASES[0][1]]
    properties.setProperty(STATE_MS, "0")

    def sink(frame: Any, _: int) -> None:
        rows = sum(row["count"] for row in frame.collect())
        before = seen[0]
        seen[0] = rows
        time.sleep(sink_seconds[0] * max(rows - before, 0) / ROWS_PER_FILE)

    seen = [0]
    with AgentProcess(
        tmp_path,
        "--target-seconds",
        str(TARGET_SECONDS),
        "--record-file",
        str(record),
    ) as agent:
        attached(agent.address)
        files: Folder = folder(files=FILES)
        frame = files.read(spark, 12).groupBy("k").count().selectExpr("k", "count", SLEEP)
        query = begin(start, frame, sink)
        run_id = str(query.runId)
        changed: list[int] = []
        for _, file_seconds, state_ms, count in PHASES:
            done = batches_of(query)
            # Of the batch now running nobody can tell which cost it pays: the next one counts.
            changed.append(done[-1][0] + 2 if done else 0)
            sink_seconds[0] = file_seconds
            properties.setProperty(STATE_MS, str(state_ms))
            wait_for(query, changed[-1] + count)
        batches = batches_of(query)
        assert str(query.runId) == run_id
        assert query.isActive
        seen_view, top = until(lambda: looked_at(agent), "the query everywhere")
        query.stop()
        until(
            lambda: (view(agent, "changing") or {}).get("state") == "terminated", "the query's end"
        )
        totals = grants_of(agent)
        assert seen_view["run_id"] == run_id

    found = {
        what: settled([s for number, _, s in batches if first <= number < first + count])
        for (what, _, _, count), first in zip(PHASES, changed, strict=True)
    }
    print(json.dumps({"settled": found, "batches": batches}))
    if "WEIR_KEEP_RECORD" in os.environ:
        kept = Path(os.environ["WEIR_KEEP_RECORD"])
        kept.with_name(f"{kept.name}.jsonl.gz").write_bytes(
            gzip.compress(record.read_bytes(), 9, mtime=0)
        )
        said = [
            {"what": what, "batch_id": first, "target_seconds": TARGET_SECONDS}
            for (what, _, _, _), first in zip(PHASES, changed, strict=True)
        ]
        kept.with_name(f"{kept.name}.json").write_text(json.dumps(said, indent=1) + "\n")
    for what, number in list(found.items())[1:]:
        assert number is not None, (what, batches)
        # Four is what was seen; a machine with other work blurs a batch or two.
        assert number <= 6, (what, batches)
    assert {decision["acted"] for decision in seen_view["decisions"]} == {True}
    last = seen_view["decisions"][-1]
    assert re.search(r"rows took .* model: .* wants .* rows", last["detail"])
    assert last["detail"].split(";")[0] in " ".join(top.split()), top

    # The record replays to what the live agent decided.
    out = io.BytesIO()
    broken = replay_files([str(record)], QueryPolicy(target_seconds=TARGET_SECONDS), out)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert broken == []
    assert sum(totals.values()) > 20
    assert {line["application"] for line in lines} == {seen_view["application"]}
    by_reason: dict[str, int] = {}
    for line in lines:
        if line["event"] == "progress" and line["state"] != "idle":
            by_reason[line["limit"]["reason"]] = by_reason.get(line["limit"]["reason"], 0) + 1
    assert by_reason == totals
    moves = decided(lines)
    assert moves[-len(seen_view["decisions"]) :] == [
        (one["batch_id"], one["after"], one["reason"]) for one in seen_view["decisions"]
    ]


def begin(start: Any, frame: Any, sink: Callable[[Any, int], None]) -> Any:
    """Starts the query; an aggregate wants an output mode that ``start`` does not set."""

    class Complete:
        def __init__(self) -> None:
            self.writeStream = frame.writeStream.outputMode("complete")

    return start(Complete(), batch=sink, name="changing", seconds=0.0)


def looked_at(agent: AgentProcess) -> tuple[dict[str, Any], str] | None:
    """The query and a wide ``weir top``, both of one moment; None where it decided between them."""
    before = view(agent, "changing")
    top = weir("top", "--once", "--url", agent.address, env={"COLUMNS": "200"}).stdout
    seen = view(agent, "changing")
    same = before and seen and before["decisions"] == seen["decisions"]
    return (seen, top) if same else None


def grants_of(agent: AgentProcess) -> dict[str, int]:
    """Decisions by reason, as counted."""
    text = agent.http.get("/metrics").text
    found = re.findall(r"^weir_grants_total\{([^}]*)\} (\S+)", text, re.MULTILINE)
    return {
        re.search('reason="([^"]*)"', labels)[1]: int(float(count))
        for labels, count in found
        if float(count)
    }


def decided(lines: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    """(batch, limit, reason) of each line that moved the limit."""
    moves, last = [], None
    for line in lines:
        following = line["limit"]["next"]
        if line["event"] == "progress" and last is not None and following != last:
            moves.append((line["batch_id"], following, line["limit"]["reason"]))
        last = following
    return moves
