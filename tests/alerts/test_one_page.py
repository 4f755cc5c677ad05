"""One fault, one page: a real agent, Prometheus and Alertmanager, from the event to the web hook.

The rules are the committed ones, but that each ``for`` is sixty times shorter, and so are the waits
of the example configuration: a minute is a second. Windows stay: what they need was exported before
the test began.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from alerts import generate
from alerts.rules import ALERTS
from examples.stack.programs import ALERTMANAGER, free_port
from examples.stack.receiver import Receiver
from spark_listener.wire import format_time
from tests.alerts import faults
from tests.alerts.faults import EXPORTED, FAULTS, SILENT, Fault
from tests.dashboards.live import LivePrometheus, tool, wait_until_ready
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD = {alert.name: alert.hold for alert in ALERTS}
SEVERITY = {alert.name: alert.severity for alert in ALERTS}
RUN = "00000000-0000-4000-8000-00000000000"
STARTED = {"trigger": "ProcessingTimeTrigger(500)", "control": "live"}
#: Until the longest ``for`` of a fault is over (an hour, so 60 s), and was told.
PATIENCE_SECONDS = 300.0
#: More, in which nothing else may be told.
SETTLED_SECONDS = 8.0


def shorter(duration: str) -> str:
    """A duration sixty times shorter; what was seconds already stays."""
    return re.sub(r"(\d+)([dhm])", lambda m: m[1] + {"d": "h", "h": "m", "m": "s"}[m[2]], duration)


def rules() -> str:
    """The committed rules with each ``for`` made shorter, and for how long one is kept.

    They are judged as often as the rest of Prometheus's configuration says.
    """
    text = (generate.DIRECTORY / generate.RULES).read_text()
    text = text.replace(f"\n  interval: {generate.INTERVAL}\n", "\n")
    assert text.count("\n    for: ") == sum(hold != "0s" for hold in HOLD.values())
    return re.sub(r"(\n    (?:keep_firing_)?for: )(\w+)", lambda m: m[1] + shorter(m[2]), text)


def alertmanager_config(receiver: str) -> str:
    """The example configuration, told to the test's web hook, a minute being a second."""
    config = yaml.safe_load((generate.DIRECTORY / generate.ALERTMANAGER).read_text())
    (weir,) = config["route"]["routes"]
    for key in ("group_wait", "group_interval"):
        seconds = {"s": 1, "m": 60}[weir[key][-1]] * int(weir[key][:-1])
        weir[key] = f"{1000 * seconds // 60}ms"
    for one in config["receivers"]:
        one["webhook_configs"] = [{"url": f"{receiver}/{one['name']}", "send_resolved": True}]
    return yaml.safe_dump(config)


def body(name: str, *events: dict[str, Any]) -> dict[str, Any]:
    """A request of the application of that name."""
    return {
        "application": {"id": f"local-{name}", "name": name, "spark_version": "4.2.0"},
        "listener": {"instance": f"instance-{name}"},
        "events": list(events),
    }


class Sent:
    """Events of one query, numbered, at the present time."""

    def __init__(self, agent: AgentProcess, name: str) -> None:
        self.agent = agent
        self.name = name
        self.sequence = 0
        self.run = 0
        self.batch = 0
        self.checkpoint = 0

    def _send(self, kind: str, content: dict[str, Any], **more: Any) -> None:
        self.sequence += 1
        time_ = format_time(datetime.now(timezone.utc).timestamp())
        ids = {} if kind == "heartbeat" else self.ids()
        event = {"sequence": self.sequence, "type": kind, "time": time_, "body": ids | content}
        answer = self.agent.post(body(self.name, event | more)).json()
        assert answer["rejected"] == [], answer

    def ids(self) -> dict[str, str]:
        return {"id": f"{RUN}{self.checkpoint}", "runId": f"{RUN}{self.run}", "name": self.name}

    def start(self) -> None:
        self.run += 1
        self._send("started", STARTED)

    def commit(self) -> None:
        now = format_time(datetime.now(timezone.utc).timestamp() - 1.0)
        self._send(
            "progress",
            {
                "timestamp": now,
                "batchId": self.batch,
                "numInputRows": 1000,
                "durationMs": {"walCommit": 10, "addBatch": 900, "triggerExecution": 1000},
                "sources": [{"description": "rate", "numInputRows": 1000}],
                "stateOperators": [],
                "sink": {"description": "sink"},
            },
        )
        self.batch += 1

    def beat(self, running_seconds: float | None) -> None:
        running = (
            []
            if running_seconds is None
            else [{"batchId": self.batch, "running_seconds": running_seconds, **self.ids()}]
        )
        self._send("heartbeat", {"queries": running})

    def end(self, exception: str | None) -> None:
        self._send("terminated", {"exception": exception, "errorClassOnException": None})


def provoke(agent: AgentProcess, renewed: Sent) -> None:
    """Every fault of ``SENT``, at once; ``renewed`` has run for a while."""
    events = faults.spiral_events("spiral")
    for at in range(0, len(events), 200):
        answer = agent.post(body("spiral", *events[at : at + 200])).json()
        assert answer["rejected"] == []
    failing, killed, hung, broken, stopped = (
        Sent(agent, name) for name in ("failing", "killed", "hung", "broken", "stopped")
    )
    for _ in range(3):
        failing.start()
        failing.beat(2.0)
        failing.end("org.apache.spark.SparkException: Job aborted: Connection refused")
    killed.start()
    killed.commit()
    for _ in range(3):
        killed.beat(2.0)
        killed.start()
    hung.start()
    hung.commit()
    hung.beat(900.0)
    broken.start()
    broken.commit()
    broken.end("org.apache.spark.SparkException: Job aborted: Connection refused")
    stopped.start()
    stopped.commit()
    stopped.end(None)
    renewed.end(None)
    renewed.checkpoint, renewed.batch = 1, 0
    renewed.start()
    renewed.commit()


def overfill(agent: AgentProcess) -> None:
    """One query more than the agent takes."""
    Sent(agent, "first").start()
    for _ in range(3):
        event = {"sequence": 1, "type": "started", "time": format_time(time.time())}
        ids = Sent(agent, "second").ids()
        answer = agent.post(body("second", {**event, "body": ids | STARTED}))
        assert answer.status_code == 503 or answer.json()["rejected"], answer.text


class Scene:
    """Everything that runs, and what was told."""

    def __init__(self, prometheus: LivePrometheus, receiver: Receiver) -> None:
        self.prometheus = prometheus
        self.receiver = receiver
        self.alertmanager = ""
        self.agents: list[AgentProcess] = []

    def told(self, fault: str) -> list[tuple[str, str]]:
        """(receiver, alert) of a query or a cluster, each as often as it began to be told."""
        return sorted(
            (one.receiver, one.alert)
            for one in self.receiver.notifications
            if one.status == "firing" and fault in (one.query, one.labels.get("cluster"))
        )

    def complete(self) -> bool:
        """Whether all that must come has; what must not is for the tests to find."""
        fired = self.fired()
        blind = ("page", "WeirAgentBlind") in self.told("blind")
        return blind and all(
            set(fault.told) <= set(self.told(fault.name))
            and {(alert, fault.name) for alert in fault.also} <= fired
            for fault in FAULTS
        )

    def fired(self) -> set[tuple[str, str]]:
        """(alert, query or cluster) of all that fired in Prometheus, inhibited or not."""
        found = self.prometheus.ask('max_over_time(ALERTS{alertstate="firing"}[5m])')
        return {
            (one["metric"]["alertname"], name)
            for one in found
            for name in (one["metric"].get("query"), one["metric"].get("cluster"))
            if name
        }


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    work = tmp_path_factory.mktemp("scene")
    prometheus, promtool = tool("prometheus"), tool("promtool")
    alertmanager = tool(ALERTMANAGER[0])
    receiver = Receiver()
    receiver.start()
    running: list[subprocess.Popen[bytes]] = []
    agents: list[AgentProcess] = []
    try:
        for name, options in {
            "watching": ("--silent-seconds", "600", "--deadline-seconds", "60"),
            "blind": ("--silent-seconds", "15"),
            "full": ("--silent-seconds", "600", "--max-queries", "1"),
        }.items():
            (work / name).mkdir()
            agents.append(AgentProcess(work / name, "--labels", f"cluster={name}", *options))
        for name in SILENT:
            sent = Sent(agents[1], name)
            sent.start()
            sent.commit()
        renewed = Sent(agents[0], "renewed")
        renewed.start()
        renewed.commit()
        _export(promtool, work)
        (work / "rules.yml").write_text(rules())
        (work / "alertmanager.yml").write_text(alertmanager_config(receiver.url))
        ports = free_port(), free_port()
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(work / "rules.yml")],
            "alerting": {
                "alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{ports[1]}"]}]}]
            },
            "scrape_configs": [
                {
                    "job_name": "weir",
                    "static_configs": [
                        {"targets": [agent.address.removeprefix("http://") for agent in agents]}
                    ],
                }
            ],
        }
        (work / "prometheus.json").write_text(json.dumps(config))
        commands = (
            [
                alertmanager,
                f"--config.file={work / 'alertmanager.yml'}",
                f"--storage.path={work / 'alertmanager'}",
                f"--web.listen-address=127.0.0.1:{ports[1]}",
                "--cluster.listen-address=",
            ],
            [
                prometheus,
                f"--config.file={work / 'prometheus.json'}",
                f"--storage.tsdb.path={work / 'data'}",
                f"--web.listen-address=127.0.0.1:{ports[0]}",
                "--log.level=warn",
            ],
        )
        for command in commands:
            with (work / "log").open("ab") as log:
                running.append(subprocess.Popen(command, stdout=log, stderr=log))
            port = ports[1] if command[0] == alertmanager else ports[0]
            wait_until_ready(f"http://127.0.0.1:{port}", work / "log")
        scene = Scene(LivePrometheus(f"http://127.0.0.1:{ports[0]}"), receiver)
        scene.alertmanager = f"http://127.0.0.1:{ports[1]}"
        scene.agents = agents
        # Prometheus tells an alert again only after a minute, and finds its Alertmanager within
        # seconds: what fired before that would be told last.
        until(
            lambda: scene.prometheus.get("/api/v1/alertmanagers")["data"]["activeAlertmanagers"],
            "Prometheus to find its Alertmanager",
            every=0.2,
        )
        # A rise is seen only of what was seen before it.
        scene.prometheus.wait_for(
            f"count(count_over_time(up[1m]) > 2 and up == 1) == {len(agents)}"
        )
        provoke(agents[0], renewed)
        overfill(agents[2])
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end and not scene.complete():
            time.sleep(0.5)
        time.sleep(SETTLED_SECONDS)
        yield scene
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(30)
        for agent in agents:
            agent.__exit__(None, None, None)
        receiver.close()


def _export(promtool: str, work: Path) -> None:
    """What was exported before: Prometheus's own blocks, made by its own tool."""
    now = time.time()
    for fault in EXPORTED:
        text = work / f"{fault.name}.om"
        text.write_text("".join(faults.samples(fault, now)) + "# EOF\n")
        done = subprocess.run(
            [promtool, "tsdb", "create-blocks-from", "openmetrics", text, work / "data"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS, ids=[one.name for one in FAULTS])
def test_a_fault_is_told_once(scene: Scene, fault: Fault) -> None:
    assert scene.told(fault.name) == sorted(fault.told)
    assert sum(receiver == "page" for receiver, _ in fault.told) <= 1
    # It would prove nothing had only one alert fired.
    missing = {alert for alert in fault.also if (alert, fault.name) not in scene.fired()}
    assert missing == set()


@pytest.mark.timeout(600)
def test_all_of_an_agents_queries_silent_at_once_is_one_page(scene: Scene) -> None:
    assert scene.told("blind") == [("page", "WeirAgentBlind")]
    for name in SILENT:
        assert ("WeirQueryGone", name) in scene.fired()
        assert scene.told(name) == []


@pytest.mark.timeout(600)
def test_amtool_sees_what_is_held_back_and_by_what(scene: Scene) -> None:
    done = subprocess.run(
        [
            tool("amtool"),
            f"--alertmanager.url={scene.alertmanager}",
            "--output=json",
            "alert",
            "query",
            "--inhibited",
            "query=spiral",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    held = {
        one["labels"]["alertname"]: one["status"]["inhibitedBy"] for one in json.loads(done.stdout)
    }
    assert {"WeirBatchesFailing", "WeirQueryGone"} <= {name for name, by in held.items() if by}


@pytest.mark.timeout(600)
def test_no_agent_at_all_is_one_page(scene: Scene) -> None:
    """Last, since nothing is left after it."""
    before = len(scene.receiver.notifications)
    for agent in scene.agents:
        agent.kill()

    def fired() -> list[str]:
        told = scene.receiver.notifications[before:]
        return [one.alert for one in told if (one.receiver, one.status) == ("page", "firing")]

    until(fired, "a page", every=0.2)
    time.sleep(5)
    assert fired() == ["WeirAgentDown"]


def test_a_minute_is_a_second() -> None:
    assert [shorter(one) for one in ("30s", "5m", "12h", "0s")] == ["30s", "5s", "12m", "0s"]
