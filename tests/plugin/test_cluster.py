"""A real standalone cluster, with an application in each mode of deploying."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.kafka.broker import free_ports
from tests.plugin.conftest import SPARK
from tests.plugin.test_jobs import limit, order
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugin.conftest import Bench
    from tests.service.agents import AgentProcess

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.slow("a cluster of three processes, and two applications"),
]
OPENED = [
    f"--add-opens=java.base/{one}=ALL-UNNAMED"
    for one in ("java.lang", "java.net", "java.nio", "java.util", "sun.nio.ch", "sun.util.calendar")
]
SMALL = (
    *("--conf", "spark.executor.memory=512m"),
    *("--conf", "spark.driver.memory=512m"),
    *("--conf", "spark.cores.max=1"),
    *("--conf", "spark.executor.cores=1"),
    *("--conf", "spark.driver.host=127.0.0.1"),
    # Spark 3.5 starts a cluster's driver without what Java 17 wants.
    *("--conf", f"spark.driver.extraJavaOptions={' '.join(OPENED)}"),
)


@pytest.fixture
def master(bench: Bench) -> str:
    """The address of a Master with two Workers."""
    spark_class = str(SPARK / "bin/spark-class")
    (port,) = free_ports(1)
    address = f"spark://127.0.0.1:{port}"
    head = bench.run(
        bench.folder / "master",
        *(spark_class, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"),
        *("--port", str(port), "--webui-port", "0"),
    )
    until(lambda: "I have been elected leader" in head.err, "the Master")
    for number in (1, 2):
        folder = bench.folder / f"worker-{number}"
        worker = bench.run(
            folder,
            *(spark_class, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"),
            *("--webui-port", "0", "--cores", "2", "--memory", "2g"),
            *("--work-dir", str(folder / "work"), address),
        )
        until(
            lambda worker=worker: "Successfully registered with master" in worker.err, "the Worker"
        )
    return address


def test_one_agent_regulates_an_application_of_each_mode(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]], master: str
) -> None:
    bench.files(20)
    where = ("--master", master, *SMALL)
    client = bench.submit(name="client", application="client", master=where, limit="5", seconds=40)
    cluster = bench.submit(
        name="cluster",
        application="cluster",
        master=(*where, "--deploy-mode", "cluster"),
        ways=("spark.plugins",),  # executors load it too
        conf=("spark.standalone.submit.waitAppCompletion=true",),
        limit="5",
        seconds=40,
    )

    def seen() -> dict[str, dict[str, Any]] | None:
        told = agent.http.get("/v1/queries").json()["queries"]
        found = {one["application"]: one for one in told if one["sources"]}
        return found if set(found) == {"client", "cluster"} else None

    found = until(seen, "both applications", seconds=180)
    assert {one["control"] for one in found.values()} == {"live"}
    for name in ("client", "cluster"):
        order(agent, "lines", 2, application=name)
        until(lambda name=name: (f := seen()) and limit(f[name]) == 2, f"the limit of {name}")
    before = {name: len(bench.batches(name)) for name in found}
    bench.files(8)
    for name in ("client", "cluster"):
        until(lambda name=name: bench.read(name) == bench.all_lines(), "every line, once")
        assert max(bench.batches(name)[before[name] :]) == 2
    assert client.wait() == 0
    assert cluster.wait() == 0
    until(lambda: not any(one["up"] for one in (seen() or {}).values()), "both ends to be told")
    assert not list(bench.doors.iterdir())
    for job in (client, cluster):
        assert "ClassNotFoundException" not in job.err, "executors load the plugin too"
