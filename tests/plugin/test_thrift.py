"""JDBC clients of a job's Thrift server come and go, each with a session, beside its query."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from spark_listener import plugin
from tests.kafka.broker import free_ports
from tests.plugin.conftest import SPARK
from tests.plugin.driving import limit, order
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugin.conftest import Bench
    from tests.service.agents import AgentProcess

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.slow("a Thrift server, and clients in JVMs of their own"),
    pytest.mark.course("25 clients in turn; test_connect.py has three"),
]
SESSIONS = 25


def test_sessions_of_jdbc_clients_neither_hinder_nor_are_hindered(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    (port,) = free_ports(1)
    bench.files(10)
    job = bench.submit(
        "ThriftJob",
        ways=plugin.CONFS[:1],
        conf=(
            f"spark.hadoop.hive.server2.thrift.port={port}",
            "spark.hadoop.hive.server2.thrift.bind.host=127.0.0.1",
            f"spark.sql.warehouse.dir={bench.folder}/warehouse",
            "spark.hadoop.javax.jdo.option.ConnectionURL=jdbc:derby:memory:metastore;create=true",
        ),
    )
    until(lambda: "serving" in job.out, "the server", seconds=180, telling=lambda: job.err[-3000:])
    assert query("lines")["control"] == "live"

    script = bench.folder / "sessions.sql"
    one = f"!connect jdbc:hive2://127.0.0.1:{port} nobody none\nselect 40 + 2;\n!closeall\n"
    script.write_text(one * SESSIONS)
    done = subprocess.run(
        [str(SPARK / "bin/beeline"), "-f", str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=bench.folder,
    )
    assert done.stdout.count("| 42 ") == SESSIONS, done.stdout[-2000:] + done.stderr[-2000:]

    order(agent, "lines", 2)
    until(lambda: limit(query("lines")) == 2, "the limit")
    before = len(bench.batches())
    bench.files(8)
    until(lambda: bench.read() == bench.all_lines(), "every line, once")
    assert max(bench.batches()[before:]) == 2
    known = agent.http.get("/v1/queries").json()["queries"]
    assert [one["query"] for one in known] == ["lines"]
    said = [line for line in job.err.splitlines() if "weir" in line and " INFO " not in line]
    assert said == []
