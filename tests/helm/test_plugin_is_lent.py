"""What a driver's pod does, without the pod: the chart's agent, and a Java job with its conf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spark_listener import plugin
from tests.helm import chart
from tests.helm.test_agent_takes_it import Running, container
from tests.lacking import plugin_jar
from tests.plugin.conftest import Bench, Jobs
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.slow("a job of its own; the chart's parts are looked at every time"),
]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """The agent's container of mode sidecar; what goes through its doors has the drivers' token."""
    made = Running(container("sidecar"), tmp_path / "agent")
    try:
        made.start()
        made.wait()
        yield made
        assert made.stop() == 0
    finally:
        made.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, Jobs(tmp_path))
    yield made
    made.end()


def test_a_job_with_the_charts_conf_is_regulated(running: Running, bench: Bench) -> None:
    content = chart.only(running.given.objects, "ConfigMap", f"{chart.RELEASE}-driver")["data"]
    conf = dict(line.split() for line in content["spark-defaults.conf"].splitlines())
    pod = chart.driver_pod(running.given.objects)
    (driver,) = pod["spec"]["containers"]
    doors = conf["spark.weir.door.dir"]
    assert doors in {one["mountPath"] for one in driver["volumeMounts"]}
    # What the init container copies is where the driver's class path looks for it.
    lends = pod["spec"]["initContainers"][0]
    (copied,) = [one for one in lends["command"] if one.endswith(".jar")]
    folder, _, name = conf["spark.driver.extraClassPath"].rpartition("/")
    assert copied.rpartition("/")[2] == name == plugin.JAR.name
    mounts = {one["mountPath"]: one["name"] for one in driver["volumeMounts"]}
    assert mounts[folder] == lends["volumeMounts"][0]["name"]

    bench.files(20)
    job = bench.submit(
        ways=(),
        limit="5",
        seconds=600,
        conf=(
            f"spark.extraListeners={conf['spark.extraListeners']}",
            f"spark.driver.extraClassPath={plugin_jar()}",
            f"spark.weir.door.dir={running.moved(doors)}",
        ),
    )
    address = running.address

    def query() -> dict[str, Any] | None:
        shown = {"authorization": f"Bearer {running.token()}"}
        told = running.http.get(f"{address}/v1/queries", headers=shown).json()["queries"]
        return next((one for one in told if one["sources"]), None)

    assert until(query, "the query", telling=lambda: job.err)["control"] == "live"
    until(lambda: bench.read() == bench.all_lines(), "every line, once")
