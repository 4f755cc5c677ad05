"""Scenarios for the tests: the contract's example, with what a test changes."""

from __future__ import annotations

import json
from typing import Any

from agent.simulation.scenario import Scenario, read_scenario

STEP: dict[str, Any] = {
    "name": "step",
    "duration_seconds": 900,
    "trigger_seconds": 0,
    "target_seconds": 5,
    "initial_limit_rows": 10000,
    "initial_backlog_rows": 0,
    "arrival_rows_per_second": [[0, 2000], [300, 6000]],
    "fixed_cost_seconds": [[0, 1.2]],
    "throughput_rows_per_second": [[0, 10000]],
    "congestion_rows": None,
    "noise_sigma": 0.15,
    "batch_timeout_seconds": None,
    "restart_seconds": 30,
}


def text_of(**changes: Any) -> str:
    return json.dumps({**STEP, **changes}, indent=1)


def scenario_of(**changes: Any) -> Scenario:
    return read_scenario(text_of(**changes), "test.json")


#: Of a cluster whose executors take a minute to come; the load quadruples and falls again.
EXECUTORS: dict[str, Any] = {"present": 2, "maximum": 12, "start_seconds": 60, "serial_share": 0.02}
SCALED: dict[str, Any] = {
    "duration_seconds": 3600,
    "target_seconds": 10,
    "arrival_rows_per_second": [[0, 400], [900, 1600], [2100, 400]],
    "fixed_cost_seconds": [[0, 0.5]],
    "throughput_rows_per_second": [[0, 400]],
    "executors": EXECUTORS,
}
