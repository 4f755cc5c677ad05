"""Prometheus and Alertmanager as children on free loopback ports, with this repository's rules."""

from __future__ import annotations

import shutil
import socket
import time
from typing import TYPE_CHECKING, Any, Final

import httpx
import yaml

from alerts import generate
from examples.demo.children import Child, DemoFailed

if TYPE_CHECKING:
    from pathlib import Path

#: Debian calls them so; their makers leave the prefix out.
PROMETHEUS: Final = ("prometheus",)
ALERTMANAGER: Final = ("prometheus-alertmanager", "alertmanager")
READY_SECONDS: Final = 30.0
#: A stack to look at is short: it asks every second and tells at once.
SCRAPE_SECONDS: Final = 1
GROUP_WAIT: Final = "1s"
GROUP_INTERVAL: Final = "2s"
#: Nor does it wait for minutes whether an alert comes again.
KEEP: Final = "1s"


def find(names: tuple[str, ...]) -> str:
    """Where the program is. Raises DemoFailed that says how to get it."""
    for name in names:
        if found := shutil.which(name):
            return found
    raise DemoFailed(
        f"{names[0]} is not installed. On Debian or Ubuntu: "
        "sudo apt-get install prometheus prometheus-alertmanager"
    )


def free_port() -> int:
    """A port of loopback that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server(Child):
    """A child that says at ``/-/ready`` when it is."""

    def __init__(self, name: str, command: list[str], port: int, logs: Path) -> None:
        super().__init__(name, command, logs / f"{name.lower()}.log", {"PATH": ""}, pipes=False)
        self.url = f"http://127.0.0.1:{port}"
        self._http = httpx.Client(base_url=self.url, timeout=10, trust_env=False)

    def wait_until_ready(self) -> str:
        """Its address. Raises DemoFailed where it doesn't come up."""
        give_up = time.monotonic() + READY_SECONDS
        while time.monotonic() < give_up:
            self.check()
            try:
                if self._http.get("/-/ready").status_code == httpx.codes.OK:
                    return self.url
            except httpx.HTTPError:
                pass  # not listening yet
            time.sleep(0.1)
        raise self.failure(f"{self.name} was not ready within {READY_SECONDS:.0f} s.")

    def get(self, path: str, **parameters: str) -> Any:
        """An answer of its HTTP API. Raises DemoFailed."""
        try:
            reply = self._http.get(path, params=parameters)
            reply.raise_for_status()
        except httpx.HTTPError as error:
            raise self.failure(f"{self.name} did not answer {path}: {error}.") from None
        return reply.json()

    def end(self, patience_seconds: float = 10.0) -> None:
        """Ask, then insist."""
        self._http.close()
        super().end(patience_seconds)


class Prometheus(Server):
    """Scrapes the agent every second and holds the alert rules against what it finds."""

    def __init__(self, work: Path, logs: Path, agent: str, alertmanager: str) -> None:
        program = find(PROMETHEUS)
        rules = work / generate.RULES
        text = generate.rules(f"{agent}/runbooks", keep=KEEP, interval=f"{SCRAPE_SECONDS}s")
        rules.write_text(text, encoding="utf-8")
        config = {
            "global": {
                "scrape_interval": f"{SCRAPE_SECONDS}s",
                "evaluation_interval": f"{SCRAPE_SECONDS}s",
            },
            "rule_files": [str(rules)],
            "alerting": {"alertmanagers": [{"static_configs": [_target(alertmanager)]}]},
            "scrape_configs": [{"job_name": "weir", "static_configs": [_target(agent)]}],
        }
        path = work / "prometheus.yml"
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        port = free_port()
        command = [
            program,
            f"--config.file={path}",
            f"--storage.tsdb.path={work / 'prometheus-data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ]
        super().__init__("Prometheus", command, port, logs)

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """The instant vector of an expression. Raises DemoFailed."""
        found: list[dict[str, Any]] = self.get("/api/v1/query", query=expression)["data"]["result"]
        return found

    def firing(self) -> list[str]:
        """Names of the alerts that fire now."""
        alerts = self.get("/api/v1/alerts")["data"]["alerts"]
        return sorted(one["labels"]["alertname"] for one in alerts if one["state"] == "firing")


class Alertmanager(Server):
    """Routes as the example configuration says, but for whom it tells and how soon."""

    def __init__(self, work: Path, logs: Path, receiver: str) -> None:
        program = find(ALERTMANAGER)
        config = yaml.safe_load(generate.alertmanager())
        config["route"]["routes"][0] |= {"group_wait": GROUP_WAIT, "group_interval": GROUP_INTERVAL}
        for one in config["receivers"]:
            one["webhook_configs"] = [{"url": f"{receiver}/{one['name']}", "send_resolved": True}]
        path = work / "alertmanager.yml"
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        port = free_port()
        command = [
            program,
            f"--config.file={path}",
            f"--storage.path={work / 'alertmanager-data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
            "--log.level=warn",
        ]
        super().__init__("Alertmanager", command, port, logs)

    def told(self) -> list[str]:
        """Names of the alerts that it holds and that nothing inhibits."""
        answer = self.get("/api/v2/alerts", inhibited="false", silenced="false")
        return sorted(one["labels"]["alertname"] for one in answer)


def _target(url: str) -> dict[str, list[str]]:
    return {"targets": [url.removeprefix("http://")]}
