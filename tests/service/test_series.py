"""How many series a query has, counted on a real agent, as docs/metrics.md says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from agent.export.catalogue import METRICS
from agent.export.metrics.batches import BUCKETS
from alerts.rules import ALERTS
from tests.core.events import Driver
from tests.service.agents import AgentProcess

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
#: As Spark reports them of each batch.
PHASES = {
    "latestOffset": 20,
    "getBatch": 5,
    "queryPlanning": 40,
    "walCommit": 30,
    "addBatch": 800,
    "commitBatch": 10,
    "commitOffsets": 25,
    "triggerExecution": 1000,
}
OPERATOR = {
    "operatorName": "dedupe",
    "numRowsTotal": 1000,
    "numRowsUpdated": 100,
    "memoryUsedBytes": 100_000,
    "commitTimeMs": 12,
    "numRowsDroppedByWatermark": 0,
    "customMetrics": {},
}
LIMIT = {"source": 0, "unit": "rows", "limit": 2000, "configured": 2000, "backlog": 5000}


def counted(agent: AgentProcess, name: str, *, stateful: bool) -> Counter[str]:
    """Series by family of a query that has run for a while and failed never."""
    driver = Driver(application_id=name, application=name, instance=name, query_id=name, query=name)
    events = [driver.started()]
    for batch in range(30):
        driver.time += 1.1
        body: dict[str, Any] = {
            **driver.ids(),
            "timestamp": "2026-11-18T00:00:00.000Z",
            "batchId": batch,
            "numInputRows": 2000,
            "durationMs": PHASES,
            "eventTime": {"watermark": "2026-11-17T23:59:00.000Z"} if stateful else {},
            "stateOperators": [OPERATOR] if stateful else [],
            "sources": [
                {
                    "description": "KafkaV2[Subscribe[orders]]",
                    "startOffset": {"orders": {"0": 2000 * batch}},
                    "endOffset": {"orders": {"0": 2000 * (batch + 1)}},
                    "latestOffset": {"orders": {"0": 2000 * (batch + 1) + 5000}},
                    "numInputRows": 2000,
                }
            ],
            "sink": {"description": "sink"},
        }
        events.append(driver.event("progress", body, limits=[LIMIT]))
    assert agent.post(driver.body(*events)).json()["rejected"] == []
    told = agent.http.get("/metrics").text
    names = re.findall(rf'^(\w+){{[^}}]*query="{name}"', told, re.MULTILINE)
    return Counter(re.sub(r"_(bucket|sum|count)$", "", one) for one in names)


def test_series_of_a_query_are_as_many_as_the_docs_say(tmp_path: Path) -> None:
    with AgentProcess(tmp_path) as agent:
        plain = counted(agent, "plain", stateful=False)
        stateful = counted(agent, "stateful", stateful=True)
    section = PAGE.read_text("utf-8").split("\n## Series of a query\n", 1)[1].split("\n## ")[0]
    told = re.search(r"has (\d+) series.+with state and a watermark (\d+)", section, re.DOTALL)
    assert told is not None
    assert (int(told[1]), int(told[2])) == (sum(plain.values()), sum(stateful.values()))
    # What may be switched off: as many as each row says, all that the rule drops, and no alert's.
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", section, re.MULTILINE)
    pattern = re.search(r"regex: (\S+)", section)
    assert pattern is not None
    of_name = Counter({**plain, "weir_batch_duration_seconds_bucket": len(BUCKETS) + 1})
    assert {name: int(count) for name, count in rows} == {name: of_name[name] for name, _ in rows}
    every = {name for one in METRICS for name in one.sample_names}
    dropped = {name for name in every if re.fullmatch(pattern[1], name)}
    assert dropped == {name for name, _ in rows}
    assert not [one.name for one in ALERTS for name in dropped if name in one.expression]
