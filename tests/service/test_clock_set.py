"""A real agent on a machine whose clock is set: it hears, judges and does its rounds as before."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spark_listener.wire import format_time
from tests.service import wire
from tests.service.agents import AgentProcess, ahead
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

#: Without the time after a start in which no query counts as silent.
NO_GRACE = "from agent.core.fleet import liveness; liveness.GRACE_SECONDS = 0.0"


@pytest.mark.parametrize("seconds", [7200.0, -7200.0])
def test_no_driver_is_silent_because_the_machines_clock_was_set(
    tmp_path: Path, seconds: float
) -> None:
    file = tmp_path / "ahead"
    prefix = ahead(file, NO_GRACE)
    with AgentProcess(tmp_path, "--deadline-seconds", "600", prefix=prefix) as agent:
        query_id, run_id = wire.query_ids(0)
        sequence = 0

        def beat() -> None:
            nonlocal sequence
            sequence += 1
            pulse = {"id": query_id, "runId": run_id, "name": "query-0"}
            event = wire.heartbeat(sequence, [{**pulse, "batchId": 7, "running_seconds": 2.0}])
            event["time"] = format_time(time.time())
            assert agent.post(wire.request([event])).is_success

        def live() -> tuple[int, str]:
            answer = agent.http.get("/queries/orders/query-0/live")
            return answer.status_code, answer.json()["why"]

        beat()
        assert live() == (200, "progressing")
        file.write_text(str(seconds))
        assert live() == (200, "progressing")
        said = "the machine's clock was set"
        until(lambda: said in agent.log_path.read_text(), "the tick's word")  # so it still ticks
        beat()
        assert live() == (200, "progressing")
        told = json.loads(agent.http.get("/v1/queries/orders/query-0").text)
        assert told["query"]["up"]
        assert told["query"]["running_seconds"] < 60.0
        assert abs(told["time"] - time.time()) < 60.0


def test_prometheus_is_told_of_orders_by_the_machines_clock_once_that_was_set(
    tmp_path: Path,
) -> None:
    """As after a pause of a virtual machine: Prometheus's own clock was right all the time."""
    file = tmp_path / "ahead"
    with AgentProcess(tmp_path, prefix=ahead(file)) as agent:
        assert agent.post(wire.request([wire.progress(1)])).is_success
        for order in ({"mode": "off"}, {"hold": True}):
            answer = agent.http.post("/v1/queries/orders/query-0/control", json=order)
            assert answer.is_success

        def times() -> list[float]:
            text = agent.http.get("/metrics").text
            families = text_string_to_metric_families(text)
            return [
                sample.value
                for family in families
                for sample in family.samples
                if sample.name.endswith(("_since_timestamp_seconds", "heard_timestamp_seconds"))
            ]

        before = times()
        file.write_text("7200.0")
        said = "the machine's clock was set"
        until(lambda: said in agent.log_path.read_text(), "the tick's word")
        assert len(before) == 3
        assert times() == pytest.approx([time + 7200.0 for time in before], abs=60.0)
        assert times() == times()
