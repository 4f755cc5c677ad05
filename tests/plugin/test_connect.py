"""A real Spark Connect server with the conf pair, and clients that have no Spark of their own."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from spark_listener import plugin
from tests.kafka.broker import free_ports
from tests.lacking import lacking
from tests.plugin.cluster import ROOT, SPARK
from tests.plugin.conftest import JOBS
from tests.plugin.driving import limit, order
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.plugin.conftest import Bench
    from tests.service.agents import AgentProcess

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.slow("a server, and three clients from an environment of their own"),
]
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
#: Tables of the pipeline, by the names that Spark gives their queries.
TABLE_QUERIES = ("spark_catalog.default.lines", "spark_catalog.default.copies")


@pytest.fixture(scope="session")
def python() -> str:
    """A Python with the client's PySpark, and no Spark."""
    found = ROOT / ".make/spark-client/bin/python"
    if not (ROOT / ".make/spark-client/.made").exists():
        lacking("no Connect client in .make: sh scripts/ensure-sparks.sh client")
    return str(found)


class Client:
    """A process with a session of its own and some queries."""

    def __init__(self, python: str, folder: Path, *arguments: str) -> None:
        folder.mkdir(exist_ok=True)
        self.out, self.err = folder / "client.out", folder / "client.err"
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "WEIR_"))}
        self.process = subprocess.Popen(
            [python, str(JOBS / "connect_client.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=self.out.open("w"),
            stderr=self.err.open("w"),
            env={**environ, "PYTHONPATH": str(ROOT)},
        )

    def started(self) -> bool:
        assert self.process.poll() is None, self.err.read_text()[-3000:]
        return "started" in self.out.read_text().splitlines()

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(60)


@pytest.fixture
def address(bench: Bench) -> str:
    """Of a server with the conf pair, as ``start-connect-server.sh`` would start it."""
    (port,) = free_ports(1)
    server = bench.run(
        bench.folder / "server",
        *(str(SPARK / "bin/spark-submit"), "--class", SERVER, "--name", "connect"),
        *("--master", "local[2]", "--conf", "spark.ui.enabled=false"),
        *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *bench.plugin(plugin.CONFS[0]),
    )
    until(lambda: "Spark Connect server started at" in server.err, "the server", seconds=120)
    return f"sc://127.0.0.1:{port}"


@pytest.fixture
def clients(bench: Bench, python: str, address: str) -> Iterator[list[Client]]:
    made = [
        Client(
            python,
            bench.folder / f"client-{number}",
            *(address, str(bench.input), str(bench.folder), "5", f"a{number}", f"b{number}"),
        )
        for number in range(3)
    ]
    yield made
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def test_six_queries_of_three_clients_are_regulated(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]], clients: list[Client]
) -> None:
    bench.files(20)
    names = [f"{which}{number}" for number in range(3) for which in "ab"]
    for client in clients:
        until(client.started, "the queries of a client", seconds=120)
        assert "its plugin lets the agent beside it regulate them" in client.out.read_text()
    assert {query(name)["control"] for name in names} == {"live"}
    for name in names:
        order(agent, name, 2, application="connect")
    for name in names:
        until(lambda name=name: limit(query(name)) == 2, f"the limit of {name}")
        until(lambda name=name: bench.read(name) == bench.all_lines(), "every line, once")
    before = {name: len(bench.batches(name)) for name in names}
    bench.files(8)
    for name in names:
        until(lambda name=name: bench.read(name) == bench.all_lines(), "every line, once")
        assert max(bench.batches(name)[before[name] :]) == 2
    assert clients[0].end() == 0
    until(lambda: not query("a0")["up"] and not query("b0")["up"], "the ends to be told")
    assert query("a1")["up"]
    clients[1].process.kill()  # its queries go on until its session is given up
    assert clients[2].end() == 0
    until(lambda: not query("b2")["up"], "the ends to be told")


@pytest.mark.course("clients more; six queries of three are regulated by make test-all")
def test_a_session_that_refuses_control_is_only_watched(
    bench: Bench, query: Callable[[str], dict[str, Any]], python: str, address: str
) -> None:
    """Of one server: what a client sets holds for its own session."""
    bench.files(4)
    made = [
        Client(python, bench.folder / name, address, str(bench.input), str(bench.folder), "5", name)
        for name in ("watched", "steered")
    ]
    for client in made:
        until(client.started, "the query of a client", seconds=120)
    assert query("steered")["control"] == "live"
    watched = query("watched")
    assert (watched["control"], watched["sources"][0]["note"]) == (
        "advice",
        "spark.weir.control is false",
    )
    for client in made:
        assert client.end() == 0


PIPELINE = """\
name: a pipeline
storage: file://{folder}/storage
libraries:
  - glob:
      include: tables/**
"""
TABLES = """\
from pyspark import pipelines

@pipelines.table
def lines():
    return spark.readStream.format("text").option("maxFilesPerTrigger", "4").load("{lines}")

@pipelines.table
def copies():
    return spark.readStream.table("lines")
"""


def test_a_table_of_a_declarative_pipeline_is_regulated_once_its_session_is_found(
    bench: Bench,
    agent: AgentProcess,
    query: Callable[[str], dict[str, Any]],
    python: str,
    address: str,
) -> None:
    """Each table is a query of its own, under AvailableNow, and each run has a new session."""
    folder = bench.folder / "pipeline"
    (folder / "tables").mkdir(parents=True)
    (folder / "spark-pipeline.yml").write_text(PIPELINE.format(folder=folder))
    (folder / "tables" / "tables.py").write_text(TABLES.format(lines=bench.input))
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "WEIR_"))}

    def told() -> list[tuple[int, int]]:
        totals = [query(name)["totals"] for name in TABLE_QUERIES]
        return [(one["batches"]["completed"], one["rows"]) for one in totals]

    def run(rows: int) -> None:
        done = subprocess.run(
            [python, "-m", "pyspark.pipelines.cli", "run"],
            cwd=folder,
            env={**environ, "SPARK_REMOTE": address},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        until(lambda: [read for _, read in told()] == [rows, rows], "all rows to be told")
        for name in TABLE_QUERIES:
            until(lambda name=name: query(name)["state"] == "terminated", "its end to be told")

    bench.files(6)
    run(60)
    assert told() == [(2, 60), (1, 60)]
    order(agent, TABLE_QUERIES[0], 2, application="connect")
    bench.files(80)  # many: its first batches are planned before its session is found
    run(860)
    batches, _ = told()[0]
    assert batches > 2 + 20, "four files each, as configured"
    assert {query(name)["control"] for name in TABLE_QUERIES} == {"live"}
