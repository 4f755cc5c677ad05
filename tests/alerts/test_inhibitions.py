"""One fault pages once: the example configuration, checked by amtool and asked of Alertmanager."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.error
import urllib.request
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from alerts import generate
from alerts.inhibitions import INHIBITIONS
from alerts.rules import ALERTS
from tests.dashboards.live import tool, wait_until_ready
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = generate.DIRECTORY / generate.ALERTMANAGER
SEVERITY = {alert.name: alert.severity for alert in ALERTS}
RANK = {"info": 0, "warning": 1, "critical": 2}


def test_amtool_takes_the_example() -> None:
    done = subprocess.run(
        [tool("amtool"), "check-config", CONFIG], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(INHIBITIONS)} inhibit rules" in done.stdout


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (["component=weir", "severity=critical"], "page"),
        (["component=weir", "severity=warning"], "day"),
        (["component=weir", "severity=info"], "log"),
        (["severity=critical"], "day"),  # not ours
    ],
)
def test_routes(labels: list[str], receiver: str) -> None:
    done = subprocess.run(
        [tool("amtool"), "config", "routes", "test", f"--config.file={CONFIG}", *labels],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == receiver


def test_one_outage_of_many_applications_is_one_message(alertmanager: _Alertmanager) -> None:
    """Of what pages; by day each application is a message of its own."""
    names = ("WeirBatchesFailing", "WeirFallingBehind")
    alertmanager.fire(
        *(
            _alert("outage", name, f"q{at}", application=f"app{at}")
            for name in names
            for at in range(20)
        )
    )
    expected = {("page", "WeirBatchesFailing"): [20], ("day", "WeirFallingBehind"): [1] * 20}
    until(
        lambda: alertmanager.messages("outage") == expected,
        f"{expected}",
        seconds=15,
        every=0.2,
        telling=lambda: alertmanager.messages("outage"),
    )


def test_inhibitions_speak_of_alerts_and_never_of_themselves() -> None:
    for one in INHIBITIONS:
        assert set(one.sources) | set(one.targets) <= set(SEVERITY)
        assert not set(one.sources) & set(one.targets)
        assert one.why.endswith(".")
        for source in one.sources:
            for target in one.targets:
                assert RANK[SEVERITY[source]] >= RANK[SEVERITY[target]], "a page would be lost"


def test_no_two_alerts_silence_each_other() -> None:
    pairs = {(s, t) for one in INHIBITIONS for s in one.sources for t in one.targets}
    assert not {(s, t) for s, t in pairs if (t, s) in pairs}


class _Alertmanager:
    def __init__(self, address: str) -> None:
        self.address = address

    def fire(self, *labels: dict[str, str]) -> None:
        now = datetime.now(timezone.utc).isoformat()
        body = json.dumps([{"labels": one, "startsAt": now} for one in labels]).encode()
        request = urllib.request.Request(
            f"{self.address}/api/v2/alerts", body, {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request, timeout=10).close()

    def paging(self, run: str) -> set[tuple[str, str]]:
        """(alert, query) of those of this run that would notify somebody."""
        with urllib.request.urlopen(
            f"{self.address}/api/v2/alerts?inhibited=false&filter=run%3D{run}", timeout=10
        ) as reply:
            found: list[dict[str, Any]] = json.load(reply)
        return {(one["labels"]["alertname"], one["labels"].get("query", "")) for one in found}

    def messages(self, run: str) -> dict[tuple[str, str], list[int]]:
        """By receiver and alert, of how many alerts each message of this run is."""
        with urllib.request.urlopen(
            f"{self.address}/api/v2/alerts/groups?filter=run%3D{run}", timeout=10
        ) as reply:
            groups: list[dict[str, Any]] = json.load(reply)
        found: dict[tuple[str, str], list[int]] = {}
        for one in groups:
            told = (one["receiver"]["name"], one["labels"]["alertname"])
            found.setdefault(told, []).append(len(one["alerts"]))
        return found


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Alertmanager]:
    program = tool("prometheus-alertmanager")
    directory = tmp_path_factory.mktemp("alertmanager")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={CONFIG}",
                f"--storage.path={directory}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--cluster.listen-address=",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until_ready(address, directory / "log", seconds=30)
        yield _Alertmanager(address)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=20)


def _alert(run: str, name: str, query: str = "", **labels: str) -> dict[str, str]:
    """``run`` keeps the cases apart: it is the cluster too, which every inhibition compares."""
    of_query = {"application": "orders", "query": query} if query else {}
    return {
        "alertname": name,
        "severity": SEVERITY[name],
        "component": "weir",
        "run": run,
        "cluster": run,
        "instance": "agent:9655",
        **of_query,
        **labels,
    }


@pytest.mark.parametrize(
    ("run", "firing", "paging"),
    [
        (
            "hung",
            [
                ("WeirBatchHung", "a"),
                ("WeirDeadlineNear", "a"),
                ("WeirFallingBehind", "a"),
                ("WeirFallingBehind", "b"),
            ],
            {("WeirBatchHung", "a"), ("WeirFallingBehind", "b")},
        ),
        (
            "capacity",
            [("WeirNeedsCapacity", "a"), ("WeirFallingBehind", "a"), ("WeirTargetInfeasible", "a")],
            {("WeirNeedsCapacity", "a")},
        ),
        (
            "failing",
            [("WeirBatchesFailing", "a"), ("WeirQueryGone", "a"), ("WeirFallingBehind", "a")],
            {("WeirBatchesFailing", "a")},
        ),
        (
            "spiral",
            [
                ("WeirSpiral", "a"),
                ("WeirBatchHung", "a"),
                ("WeirBatchesFailing", "a"),
                ("WeirDeadlineNear", "a"),
                ("WeirFallingBehindFast", "a"),
                ("WeirFallingBehind", "a"),
                ("WeirQueryGone", "a"),
                ("WeirQueryGone", "b"),
            ],
            {("WeirSpiral", "a"), ("WeirQueryGone", "b")},
        ),
        (
            "fast",
            [
                ("WeirFallingBehindFast", "a"),
                ("WeirFallingBehind", "a"),
                ("WeirNeedsCapacity", "a"),
                ("WeirTargetInfeasible", "a"),
            ],
            {("WeirFallingBehindFast", "a")},
        ),
        (
            "loss",
            [
                ("WeirRetentionLossNear", "a"),
                ("WeirRetentionLossAhead", "a"),
                ("WeirFallingBehindFast", "a"),
                ("WeirBatchHung", "b"),
                ("WeirRetentionLossNear", "b"),
            ],
            # A loss that is near is told even of a fault that was told before.
            {
                ("WeirRetentionLossNear", "a"),
                ("WeirBatchHung", "b"),
                ("WeirRetentionLossNear", "b"),
            },
        ),
        (
            "lost",
            [
                ("WeirRowsLost", "a"),
                ("WeirRetentionLossNear", "a"),
                ("WeirFallingBehindFast", "a"),
                ("WeirBatchesFailing", "b"),
                ("WeirRowsLost", "b"),
            ],
            {("WeirRowsLost", "a"), ("WeirBatchesFailing", "b"), ("WeirRowsLost", "b")},
        ),
        (
            "stuck",
            [("WeirBacklogStuck", "a"), ("WeirFallingBehindFast", "a"), ("WeirFallingBehind", "a")],
            {("WeirBacklogStuck", "a")},
        ),
        (
            "watermark",
            [("WeirWatermarkStuck", "a"), ("WeirStateGrowing", "a"), ("WeirStateGrowing", "b")],
            {("WeirWatermarkStuck", "a"), ("WeirStateGrowing", "b")},
        ),
        (
            "ahead",
            [
                ("WeirSpiral", "a"),
                ("WeirWatermarkAhead", "a"),
                ("WeirLateRowsDropped", "a"),
                ("WeirWatermarkAhead", "b"),
                ("WeirLateRowsDropped", "b"),
                ("WeirLateRowsDropped", "c"),
            ],
            # Rows that are lost are told, whatever else is.
            {
                ("WeirSpiral", "a"),
                ("WeirWatermarkAhead", "a"),
                ("WeirWatermarkAhead", "b"),
                ("WeirLateRowsDropped", "c"),
            },
        ),
        (
            "gone",
            [("WeirQueryGone", "a"), ("WeirLimitHeldLong", "a"), ("WeirQueryGone", "b")],
            {("WeirQueryGone", "a"), ("WeirQueryGone", "b")},
        ),
        (
            "blind",
            [
                ("WeirAgentBlind", ""),
                ("WeirQueryGone", "a"),
                ("WeirQueryGone", "b"),
                ("WeirRetentionLossNear", "b"),
            ],
            {("WeirAgentBlind", ""), ("WeirRetentionLossNear", "b")},
        ),
        (
            "full",
            [("WeirAgentFull", ""), ("WeirAgentRejectsEvents", "")],
            {("WeirAgentFull", "")},
        ),
        (
            "restarts",
            [("WeirAgentRestarting", ""), ("WeirAgentFlapping", "")],
            {("WeirAgentRestarting", "")},
        ),
        (
            # Of two shards one scrapes no agent, and the other tells of a query.
            "down",
            [("WeirAgentDown", ""), ("WeirAgentUnreachable", ""), ("WeirQueryGone", "a")],
            {("WeirAgentUnreachable", ""), ("WeirQueryGone", "a")},
        ),
    ],
)
def test_one_fault_pages_once(
    alertmanager: _Alertmanager,
    run: str,
    firing: list[tuple[str, str]],
    paging: set[tuple[str, str]],
) -> None:
    alertmanager.fire(*(_alert(run, name, query) for name, query in firing))
    until(
        lambda: alertmanager.paging(run) == paging,
        f"{paging} alone to page",
        seconds=15,
        every=0.2,
        telling=lambda: alertmanager.paging(run),
    )
    assert alertmanager.paging(run) == paging
