"""A real standalone cluster, with an application in each mode of deploying."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.conftest import SMALL
from tests.plugin.driving import limit, order
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


def test_one_agent_regulates_an_application_of_each_mode(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]], master: str
) -> None:
    bench.files(20)
    where = ("--master", master, *SMALL)
    client = bench.submit(name="client", application="client", master=where, limit="5")
    cluster = bench.submit(
        name="cluster",
        application="cluster",
        master=(*where, "--deploy-mode", "cluster"),
        ways=("spark.plugins",),  # executors load it too
        conf=("spark.standalone.submit.waitAppCompletion=true",),
        limit="5",
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
        (bench.folder / name / "stop").touch()
    assert client.wait() == 0
    assert cluster.wait() == 0
    until(lambda: not any(one["up"] for one in (seen() or {}).values()), "both ends to be told")
    assert not list(bench.doors.iterdir())
    for job in (client, cluster):
        assert "ClassNotFoundException" not in job.err, "executors load the plugin too"
