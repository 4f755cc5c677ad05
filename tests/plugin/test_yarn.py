"""docs/start/yarn.md on a real YARN: both modes, and a driver that is killed and started again."""

from __future__ import annotations

import os
import signal
import ssl
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from spark_listener import door
from tests.plugin.cluster import ROOT
from tests.plugin.conftest import JOBS
from tests.plugin.driving import limit, order
from tests.plugin.yarn import start_yarn
from tests.service.agents import AgentProcess
from tests.service.test_process import make_certificate
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plugin.conftest import Bench

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.slow("a YARN, and an application in containers of its own"),
]
SMALL = (
    *("spark.driver.memory=512m", "spark.executor.memory=512m", "spark.executor.instances=1"),
    *("spark.yarn.submit.waitAppCompletion=true", "spark.yarn.am.memory=512m"),
)


@pytest.fixture
def yarn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = start_yarn(bench, bench.folder)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf))
    monkeypatch.setenv("YARN_CONF_DIR", str(conf))


@pytest.mark.usefixtures("yarn")
def test_the_plugin_in_cluster_mode_finds_its_way_back_after_a_kill(
    bench: Bench, agent: AgentProcess
) -> None:
    """YARN starts the driver again as a second attempt of the application, of the same name."""
    bench.files(40)
    job = bench.submit(
        application="orders",
        master=("--master", "yarn", "--deploy-mode", "cluster"),
        conf=SMALL,
        limit="5",
    )

    def seen() -> dict[str, Any] | None:
        assert job.process.poll() is None, job.err[-3000:]
        told = agent.http.get("/v1/queries").json()["queries"]
        return next(
            (one for one in told if one["application"] == "orders" and one["sources"]), None
        )

    def driver() -> int | None:
        for path in bench.doors.glob("*.door"):
            found = door.read(path)
            if found.answers():
                return int(found.process.partition("@")[0])
        return None

    found = until(seen, "the query", seconds=240)
    assert found["control"] == "live"
    order(agent, "lines", 2, application="orders")
    until(lambda: (one := seen()) and limit(one) == 2, "the limit")
    first = until(driver, "the driver's door")
    os.kill(first, signal.SIGKILL)
    second = until(lambda: (one := driver()) and one != first and one, "another", seconds=240)
    assert second != first
    run_id = found["run_id"]
    until(lambda: (one := seen()) and one["run_id"] != run_id, "the next run", seconds=240)
    before = len(bench.batches())
    bench.files(8)
    until(lambda: bench.read() == bench.all_lines(), "every line, once", seconds=240)
    assert max(bench.batches()[before + 1 :]) == 2
    (bench.folder / "job" / "stop").touch()
    assert job.wait(240) == 0, job.err[-3000:]


@pytest.mark.course("an application more; the plugin in cluster mode is tried by make test-all")
@pytest.mark.usefixtures("yarn")
def test_attach_in_cluster_mode_takes_token_and_certificate_from_its_container(
    bench: Bench, tmp_path: Path
) -> None:
    certificate, key = make_certificate(tmp_path, "localhost")
    wheel = tmp_path / "weir_spark_listener.zip"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in (ROOT / "spark_listener").glob("*.py"):
            archive.write(path, f"spark_listener/{path.name}")
    folder = tmp_path / "agent"
    folder.mkdir()
    (tmp_path / "ca.pem").write_bytes(certificate.read_bytes())
    with AgentProcess(
        folder,
        *("--target-seconds", "1", "--mode", "dry-run"),
        *("--tls-cert-file", str(certificate), "--tls-key-file", str(key)),
        token="t" * 64,
        verify=ssl.create_default_context(cafile=certificate),
    ) as agent:
        bench.files(20)
        job = bench.submit(
            JOBS / "attached_job.py",
            application="orders",
            master=(
                *("--master", "yarn", "--deploy-mode", "cluster", "--py-files", str(wheel)),
                *("--files", f"{folder}/token,{tmp_path}/ca.pem"),
            ),
            conf=(
                *SMALL,
                f"spark.weir.agent.url={agent.address}",
                "spark.weir.token.file=token",
                "spark.weir.ca.file=ca.pem",
            ),
            ways=(),
        )

        def seen() -> dict[str, Any] | None:
            assert job.process.poll() is None, job.err[-3000:]
            told = agent.http.get("/v1/queries").json()["queries"]
            return next((one for one in told if one["sources"] and one["batch_id"]), None)

        found = until(seen, "the query", seconds=240)
        assert (found["application"], found["query"], found["control"]) == (
            "orders",
            "lines",
            "live",
        )
        until(lambda: bench.read() == bench.all_lines(), "every line, once", seconds=240)
        (bench.folder / "job" / "stop").touch()
        assert job.wait(240) == 0, job.err[-3000:]
