"""A real agent on a machine whose clock is set: it hears, judges and does its rounds as before."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.service.clock import MOST_SETTINGS, Settings
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
                if re.search("_(mode_since|held_since|last_heard)_timestamp", sample.name)
            ]

        before = times()
        file.write_text("7200.0")
        said = "the machine's clock was set"
        until(lambda: said in agent.log_path.read_text(), "the tick's word")
        assert len(before) == 3
        assert times() == before, "they were right when they were noted"
        for order in ({"mode": "dry-run"}, {"hold": True}):
            answer = agent.http.post("/v1/queries/orders/query-0/control", json=order)
            assert answer.is_success
        assert agent.post(wire.request([wire.progress(2)])).is_success
        assert times() == pytest.approx([time + 7200.0 for time in before], abs=60.0)
        assert times() == times()


def test_a_clock_that_was_set_back_had_been_wrong_before() -> None:
    settings = Settings()
    assert settings.by_the_machine(100.0) == 100.0
    settings.note(1000.0, 7200.0)  # paused for two hours
    assert [settings.by_the_machine(time) for time in (100.0, 1000.0)] == [100.0, 8200.0]
    settings.note(2000.0, 6000.0)  # 20 minutes too far, as it turns out
    told = [settings.by_the_machine(time) for time in (100.0, 1000.0, 2000.0)]
    assert told == [100.0, 7000.0, 8000.0]
    assert settings.off_seconds == 6000.0
    settings = Settings()
    settings.note(1000.0, -7200.0)  # ahead since the agent's start
    assert [settings.by_the_machine(time) for time in (100.0, 1000.0)] == [-7100.0, -6200.0]


def test_of_a_clock_that_is_set_all_the_time_the_newest_settings_are_known() -> None:
    settings = Settings()
    for number in range(1, 3 * MOST_SETTINGS + 1):
        settings.note(100.0 * number, 2.0 * number)
    newest = 3 * MOST_SETTINGS
    oldest = newest - MOST_SETTINGS + 1
    assert settings.by_the_machine(100.0 * newest) == 102.0 * newest
    assert settings.by_the_machine(100.0 * oldest) == 102.0 * oldest
    assert settings.by_the_machine(0.0) == 2.0 * (oldest - 1)
