"""docs/kafka.md, "To try it": the broker with its rows, and the job on it under Weir."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kafka.broker import connector, free_ports
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "kafka.md").read_text("utf-8")


def start(*command: str, log: Path, **environment: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )


@pytest.fixture
def broker(kafka_jars: None, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Its address, and what it has said."""
    [port] = free_ports(1)
    log = tmp_path / "broker.log"
    folder = str(tmp_path / "kafka")
    run = ("-m", "tests.kafka", "--port", str(port), "--folder", folder, "--burst-rows", "1000")
    running = start(*run, log=log)
    try:
        yield f"127.0.0.1:{port}", log
    finally:
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0


@pytest.mark.slow("a broker and a Spark of its own; each is tried every time elsewhere")
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_the_job_of_the_page_is_watched_in_rows_and_partitions(
    broker: tuple[str, Path], tmp_path: Path
) -> None:
    address, log = broker
    until(lambda: "rows written" in log.read_text(), "the broker's first rows", seconds=120)
    said = log.read_text()
    shown = [line.strip() for line in said.splitlines() if line.startswith("  ")]
    assert shown[-1] == f"examples/kafka/job.py {address}"
    # What it prints is what the page says, but for the address.
    for line in shown[:-1]:
        assert line in PAGE, line
    options = ("--kafka-bootstrap-servers", address, "--target-seconds", "2")
    with AgentProcess(tmp_path, *options) as agent:
        jars = f"--jars {connector('4.2.0')} --conf spark.ui.enabled=false pyspark-shell"
        job = start(
            *("-m", "spark_listener.run", "examples/kafka/job.py", address, str(tmp_path / "ck")),
            log=tmp_path / "job.log",
            PYSPARK_SUBMIT_ARGS=f"--master local[1] {jars}",
            WEIR_AGENT_URL=agent.address,
        )
        try:

            def partitions() -> list[dict[str, Any]]:
                queries = agent.http.get("/v1/queries").json()["queries"]
                return queries[0]["partitions"] if queries and queries[0]["batch_rows"] else []

            until(lambda: len(partitions()) == 3, "three partitions of a batch", seconds=240)
            [query] = agent.http.get("/v1/queries").json()["queries"]
            assert (query["application"], query["query"]) == ("shop", "spending")
            assert query["limit"]["unit"] == "rows"
            assert {one["topic"] for one in query["partitions"]} == {"orders"}
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait(30)


WITHOUT_JARS = """
import pathlib, tests.kafka.broker as broker
broker.JARS = pathlib.Path("/nowhere")
from tests.kafka.__main__ import main
raise SystemExit(main([]))
"""


def test_without_the_jars_it_says_what_to_do() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JARS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == "weir: the broker's jars are missing: make kafka\n"
    assert done.returncode == 2


def test_the_page_says_how_many_rows_come() -> None:
    source = (ROOT / "tests" / "kafka" / "__main__.py").read_text("utf-8")
    given = {
        option: int(re.findall(rf'"{option}", type=int, default=([0-9_]+)', source)[0])
        for option in ("--rows-per-second", "--burst-rows")
    }
    per_second, at_once = given.values()
    assert f"{per_second} rows a second, bursts of {at_once:,}" in PAGE
