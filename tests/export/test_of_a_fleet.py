"""The exposition of a real fleet: what the core says of real requests, over a query's life."""

from __future__ import annotations

import json
from typing import Any

from prometheus_client.parser import text_string_to_metric_families as parse_text

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet, Order
from agent.core.policy import Policy, QueryPolicy
from agent.export.catalogue import METRICS, metric
from agent.export.prometheus import Exporter
from spark_listener.wire import format_time
from tests.export import views

START = views.NOW
IDS = {"id": "3f0c2a52-7f7e-4d0b-9d3c-0c8f4a0a1b11", "runId": "run-1"}


class Driver:
    """Sends events as a listener would."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.sequence = 0

    def send(self, time: float, kind: str, body: dict[str, Any], **more: Any) -> None:
        self.sequence += 1
        event = {
            "sequence": self.sequence,
            "type": kind,
            "time": format_time(time),
            "body": body,
            **more,
        }
        request = {
            "application": {"id": "local-17", "name": "orders", "spark_version": "4.2.0"},
            "listener": {"instance": "one", "queue_length": 0, "callbacks_total": self.sequence},
            "events": [event],
        }
        receipt = self.fleet.receive(decode_request(json.dumps(request).encode()), time)
        assert receipt.refused == []

    def batch(self, time: float, batch_id: int, rows: int, seconds: float) -> None:
        milliseconds = int(seconds * 1000)
        self.send(
            time + seconds,
            "progress",
            {
                **IDS,
                "name": "enrich",
                "timestamp": format_time(time),
                "batchId": batch_id,
                "numInputRows": rows,
                "durationMs": {
                    "triggerExecution": milliseconds,
                    "latestOffset": 5,
                    "getBatch": 1,
                    "queryPlanning": 20,
                    "walCommit": 30,
                    "addBatch": milliseconds - 110,
                    "commitBatch": 10,
                    "commitOffsets": 40,
                },
                "eventTime": {"watermark": format_time(time - 12)},
                "stateOperators": [
                    {
                        "operatorName": "stateStoreSave",
                        "numRowsTotal": 1000 + batch_id,
                        "memoryUsedBytes": 4096,
                        "commitTimeMs": 250,
                        "numRowsDroppedByWatermark": 2,
                    }
                ],
                "sources": [{"description": "RateStream", "numInputRows": rows}],
                "sink": {"description": "ConsoleTable"},
            },
            limits=[
                {
                    "source": 0,
                    "unit": "rows",
                    "limit": rows,
                    "configured": 20_000,
                    "backlog": 50_000 + 1_000 * batch_id,
                }
            ],
        )


def expose(fleet: Fleet, now: float) -> dict[str, list[tuple[dict[str, str], float]]]:
    """(labels, value) of each series by name; every one is in the catalogue, with its labels."""
    failed: list[Exception] = []
    body, _ = Exporter(timer=views.Clock(), on_error=lambda _, e: failed.append(e)).exposition(
        fleet.keys(),
        lambda key: fleet.view(key, now),
        totals=fleet.totals,
        listeners=fleet.listeners_together(now),
        extras=views.extras(labels={}),
    )
    assert failed == []
    names = {series: one.name for one in METRICS for series in one.sample_names}
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in parse_text(body.decode()):
        for sample in family.samples:
            entry = metric(names[sample.name])
            assert set(sample.labels) - {"le"} == set(entry.label_names)
            for label in entry.labels:
                assert not label.values or sample.labels[label.name] in label.values
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_a_query_from_start_to_forgotten() -> None:
    policy = Policy(default=QueryPolicy(deadline_seconds=60.0))
    fleet = Fleet(policy, started_time=START)
    driver = Driver(fleet)
    driver.send(
        START,
        "started",
        {
            **IDS,
            "name": "enrich",
            "trigger": "ProcessingTimeTrigger(500)",
            "control": "live",
            "conf": {},
        },
    )
    new = expose(fleet, START + 1)
    assert new["weir_query_up"] == [({"application": "orders", "query": "enrich"}, 1.0)]
    assert "weir_throughput_rows_per_second" not in new  # not known yet, so not told
    assert "weir_checkpoint_seconds" not in new

    now = START + 1
    for batch_id in range(12):
        rows = 4_000 + 500 * (batch_id % 5)
        seconds = 1.0 + rows / 5_000
        driver.batch(now, batch_id, rows, seconds)
        now += seconds + 0.1
    driver.send(now, "heartbeat", {"queries": [{**IDS, "batchId": 12, "running_seconds": 0.5}]})

    def value(name: str, **labels: str) -> float:
        told = expose(fleet, now + 2)[name]
        (found,) = [v for has, v in told if labels.items() <= has.items()]
        return found

    assert value("weir_batches_total", result="completed") == 12
    assert value("weir_rows_total") == sum(4_000 + 500 * (i % 5) for i in range(12))
    assert value("weir_batch_duration_seconds_count") == 12
    assert value("weir_batch_duration_seconds_bucket", le="1.0") == 0
    assert value("weir_batch_duration_seconds_bucket", le="2.5") == 12
    # The two parts of the model are learned apart only slowly; together they say a batch's time.
    learned = value("weir_fixed_cost_seconds") + 5_000 / value("weir_throughput_rows_per_second")
    assert abs(learned - 2.0) < 0.1
    assert value("weir_backlog_rows", source="0") == 61_000
    assert value("weir_limit_configured_rows", source="0") == 20_000
    assert value("weir_batch_running_seconds") == 2.5
    assert value("weir_watermark_dropped_rows_total") == 24
    assert value("weir_state_rows", operator="0:stateStoreSave") == 1_011
    assert value("weir_checkpoint_deadline_seconds") == 60
    assert value("weir_query_state", state="backpressured") == 1
    assert value("weir_agent_events_total", type="progress") == 12
    assert value("weir_listener_callbacks_total") == 14
    phases = {has["phase"] for has, _ in expose(fleet, now)["weir_checkpoint_phase_seconds"]}
    assert phases == {  # none of Spark's own falls under "other"
        "latestOffset",
        "getBatch",
        "queryPlanning",
        "walCommit",
        "addBatch",
        "commitBatch",
        "commitOffsets",
    }
    spent = [v for _, v in expose(fleet, now)["weir_time_seconds_total"]]
    assert abs(sum(spent) - (now - START)) < 1.5

    running = expose(fleet, now)
    driver.send(now + 3, "terminated", {**IDS, "exception": "java.io.IOException: no space"})
    fleet.tick(now + 3)
    gone = expose(fleet, now + 3)
    assert gone["weir_query_up"][0][1] == 0
    assert gone["weir_query_stopped"][0][1] == 0
    of_running = {name for one in METRICS if one.running for name in one.sample_names}
    assert not of_running & gone.keys()
    assert of_running & running.keys() >= {"weir_target_feasible", "weir_backlog_rows"}
    assert sum(number for _, number in gone["weir_failures_total"]) == 1
    assert gone["weir_checkpoint_failures_consecutive"][0][1] == 1

    late = now + 4 + 30 * policy.forget_seconds
    fleet.tick(late)
    assert expose(fleet, late)["weir_query_up"][0][1] == 0  # it failed: until it is retired
    fleet.control("*", "*", Order(who="kim", retire=True), late)
    ended = expose(fleet, late)
    assert not [name for name, told in ended.items() for has, _ in told if "query" in has]
    assert ended["weir_agent_queries"] == [({}, 0.0)]
