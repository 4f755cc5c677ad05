"""Who is gone is told until somebody says that nobody is missed: real agents, a real Prometheus."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from alerts import generate
from examples.stack.programs import free_port
from tests.alerts.test_one_page import Sent, rules
from tests.dashboards.live import LivePrometheus, tool, wait_until_ready
from tests.service.agents import AgentProcess, weir
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: What the alert promises, by Prometheus's own clock; Alertmanager's wait comes on top of it.
PAGES_WITHIN_SECONDS = 120.0
GROUP_WAIT_SECONDS = 30.0
PATIENCE_SECONDS = 240.0


@contextmanager
def watched(work: Path, text: str, seconds: int, *agents: AgentProcess) -> Iterator[LivePrometheus]:
    """A Prometheus with these rules that scrapes the agents every so many seconds."""
    (work / "rules.yml").write_text(text)
    port = free_port()
    targets = [agent.address.removeprefix("http://") for agent in agents]
    config = {
        "global": {"scrape_interval": f"{seconds}s", "evaluation_interval": f"{seconds}s"},
        "rule_files": [str(work / "rules.yml")],
        # Not the name that anything of ours has: alerts know agents by what they tell.
        "scrape_configs": [{"job_name": "sidecars", "static_configs": [{"targets": targets}]}],
    }
    (work / "prometheus.json").write_text(json.dumps(config))
    log = work / "prometheus.log"
    command = [
        *(tool("prometheus"), f"--config.file={work / 'prometheus.json'}"),
        *(f"--storage.tsdb.path={work / 'data'}", "--log.level=warn"),
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        wait_until_ready(f"http://127.0.0.1:{port}", log)
        yield LivePrometheus(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(timeout=20)


def firing(prometheus: LivePrometheus, alert: str) -> list[str]:
    """The instances of which an alert fires."""
    found = prometheus.ask(f'ALERTS{{alertname="{alert}",alertstate="firing"}}')
    return [one["metric"].get("instance", "") for one in found]


def one_is_killed_beside_another(work: Path, text: str, seconds: int) -> tuple[str, list[str]]:
    """Kills the second of two agents; its address, and whom the alert then names."""
    for name in ("one", "two"):
        (work / name).mkdir()
    with (
        AgentProcess(work / "one") as one,
        AgentProcess(work / "two") as two,
        watched(work, text, seconds, one, two) as prometheus,
    ):
        until(
            lambda: len(prometheus.ask("weir_build_info")) == 2,
            "both agents scraped",
            seconds=PATIENCE_SECONDS,
            every=0.2,
        )
        assert firing(prometheus, "WeirAgentUnreachable") == []
        killed_time = time.time()
        two.kill()
        until(
            lambda: firing(prometheus, "WeirAgentUnreachable"),
            "the alert",
            seconds=PATIENCE_SECONDS,
            every=0.2,
        )
        if text == (generate.DIRECTORY / generate.RULES).read_text():
            assert time.time() - killed_time + GROUP_WAIT_SECONDS <= PAGES_WITHIN_SECONDS
        assert prometheus.ask('ALERTS{alertname="WeirAgentDown"}') == []
        told = firing(prometheus, "WeirAgentUnreachable")
        port = int(two.address.rpartition(":")[2])
        with AgentProcess(work / "two", port=port):
            until(
                lambda: not firing(prometheus, "WeirAgentUnreachable"),
                "the end of the alert",
                seconds=PATIENCE_SECONDS,
                every=0.2,
            )
    return two.address, told


@pytest.mark.slow("waits for as long as the rule does, on a clock that runs faster")
def test_an_agent_killed_beside_another_one_is_told_by_name(tmp_path: Path) -> None:
    address, told = one_is_killed_beside_another(tmp_path, rules(), 1)
    assert told == [address.removeprefix("http://")]


@pytest.mark.slow("waits for as long as the rule does")
def test_it_pages_within_two_minutes_at_usual_intervals(tmp_path: Path) -> None:
    committed = (generate.DIRECTORY / generate.RULES).read_text()
    address, told = one_is_killed_beside_another(tmp_path, committed, 15)
    assert told == [address.removeprefix("http://")]


def test_a_query_that_is_gone_is_told_until_it_is_retired(tmp_path: Path) -> None:
    with (
        AgentProcess(tmp_path, "--forget-seconds", "0") as agent,
        watched(tmp_path, rules(), 1, agent) as prometheus,
    ):
        lost, kept = Sent(agent, "lost"), Sent(agent, "kept")
        for one in (lost, kept):
            one.start()
            one.commit()
        lost.end("org.apache.spark.SparkException: Connection refused")

        def told() -> list[str]:
            kept.beat(0.1)  # on a slow machine it falls silent meanwhile, and is back by this
            return firing(prometheus, "WeirQueryGone")

        until(
            told,
            "the alert",
            seconds=PATIENCE_SECONDS,
            every=0.2,
        )

        def retire(query: str) -> tuple[int, str]:
            done = weir("retire", query, "--url", agent.address, "--reason", "replaced")
            return done.returncode, (done.stdout or done.stderr).strip()

        runs = "weir: kept/kept runs: only a query that is gone can be retired; stop it first"
        assert retire("kept") == (2, runs)
        assert told()
        assert retire("lost") == (0, "lost/lost: retire")
        until(
            lambda: not told(),
            "the end of the alert",
            seconds=PATIENCE_SECONDS,
            every=0.2,
        )
        assert prometheus.ask('{query="lost",__name__=~"weir_.*"}') == []
        (order,) = agent.http.get("/v1/queries").json()["agent"]["orders"]
        assert (order["query"], order["what"], order["reason"]) == ("lost", "retire", "replaced")
        lost.start()  # it comes back by itself
        until(
            lambda: prometheus.ask('weir_query_up{query="lost"} == 1'),
            "the query again",
            seconds=PATIENCE_SECONDS,
            every=0.2,
        )
