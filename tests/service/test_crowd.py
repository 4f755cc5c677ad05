"""More connections than a real agent serves: who is refused, and until when."""

from __future__ import annotations

import contextlib
import socket
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.service import wire
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

MOST = 6
#: The agent itself, but for the number.
START = f"""
import sys
from agent import cli
from agent.service import run

run.MAX_CONNECTIONS = {MOST}
sys.argv = ["weir", *sys.argv[4:]]
cli.main()
"""
FEW = (sys.executable, "-c", START)


def test_beyond_the_connections_probes_pass_and_others_are_told_when_to_come_again(
    tmp_path: Path,
) -> None:
    with AgentProcess(tmp_path, prefix=FEW) as agent, contextlib.ExitStack() as crowd:
        assert agent.post(wire.request([wire.progress(1)])).status_code == 200
        parts = urlsplit(agent.address)
        for _ in range(MOST):
            idle = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30)
            crowd.enter_context(idle)
        refused = until(
            lambda: (answer := agent.http.get("/v1/queries")).status_code != 200 and answer,
            "the connections to be counted",
        )
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "30"
        assert refused.headers["content-type"] == "application/json"
        assert refused.json()["error"]["message"] == f"more than {MOST} connections at once"
        assert agent.post(wire.request([wire.progress(2)])).status_code == 503
        for path in ("/healthz", "/readyz", "/queries/orders/query-0/live"):
            assert agent.http.get(path).status_code == 200, path
        crowd.close()
        until(
            lambda: agent.post(wire.request([wire.progress(2)])).status_code == 200,
            "room again once the crowd has gone",
        )
        counted = agent.metrics()
        assert counted['weir_agent_refused_requests_total{reason="full"}'] >= 1.0
