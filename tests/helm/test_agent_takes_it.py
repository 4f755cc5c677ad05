"""The real agent starts with what the chart gives its container, and answers probes and drivers.

Folders of the container are put under a temporary one, the port is a free one, and in place of all
addresses it listens on loopback; nothing else is changed. That the address itself is taken too is
asked of the agent's own configuration.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml

from agent.service import config
from agent.service.store import LOCK_NAME
from spark_listener import config as driver_config
from tests.helm import chart
from tests.helm.chart import ROOT, of
from tests.helm.dockerfile import stages
from tests.helm.matrix import MATRIX
from tests.service import wire
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CERTIFICATES = ROOT / "tests" / "driver" / "certificates"


class Container:
    """What a rendered container finds: its command, its environment, its mounted files."""

    def __init__(self, name: str, objects: list[dict[str, Any]], pod: dict[str, Any]) -> None:
        self.name = name
        self.objects = objects
        self.pod = pod
        self.spec = chart.agent_container(pod)
        _, (_, image) = stages()
        entry = self.spec.get("command") or json.loads(image.only("ENTRYPOINT"))
        self.command = entry + self.spec["args"]
        self.environ = {
            **image.environment(),
            **{one["name"]: one["value"] for one in self.spec.get("env", [])},
        }
        self.files = {
            f"{mount['mountPath']}/{name}": content
            for mount in self.spec["volumeMounts"]
            for name, content in self._volume(mount["name"]).items()
        }
        self.writable = [
            one["mountPath"] for one in self.spec["volumeMounts"] if not one.get("readOnly")
        ]
        self.config = yaml.safe_load(self.files["/etc/weir/config/config.yaml"])

    def _volume(self, name: str) -> dict[str, bytes]:
        found = [one for one in self.pod["spec"]["volumes"] if one["name"] == name]
        for volume in found:
            if "configMap" in volume:
                made = chart.only(self.objects, "ConfigMap", volume["configMap"]["name"])
                return {key: text.encode() for key, text in made["data"].items()}
            if "secret" in volume:
                return self._secret(volume["secret"])
        return {}

    def _secret(self, volume: dict[str, Any]) -> dict[str, bytes]:
        made = [
            one
            for one in of(self.objects, "Secret")
            if one["metadata"]["name"] == volume["secretName"]
            and one["metadata"]["namespace"] == chart.NAMESPACE
        ]
        if made:
            content = {key: base64.b64decode(text) for key, text in made[0]["data"].items()}
        elif volume["secretName"] == "weir-tls":
            content = {
                "tls.crt": (CERTIFICATES / "agent.pem").read_bytes(),
                "tls.key": (CERTIFICATES / "agent.key").read_bytes(),
            }
        else:  # given by hand
            token = f"a-token-of-{volume['secretName']}\n".encode()
            content = {item["key"]: token for item in volume["items"]}
        items = volume.get("items")
        return {one["path"]: content[one["key"]] for one in items} if items else content


def container(name: str) -> Container:
    objects = chart.render(MATRIX[name])
    return Container(name, objects, chart.pod_specs(objects)[0][1])


@pytest.mark.parametrize("name", MATRIX)
def test_the_agent_takes_the_configuration(name: str, tmp_path: Path) -> None:
    given = container(name)
    file = tmp_path / "config.yaml"
    file.write_bytes(given.files["/etc/weir/config/config.yaml"])
    environ = {key: value for key, value in given.environ.items() if key.startswith("WEIR_")}
    settings, notices = config.load({}, environ, str(file))
    assert notices == []
    assert settings.host == given.config["host"]
    assert settings.port == given.spec["ports"][0]["containerPort"]
    assert str(settings.state_dir) == "/var/lib/weir"
    for file_of in (settings.token_file, settings.events_token_file):
        assert file_of is None or str(file_of) in given.files
    # The command line is `weir agent --config FILE`, and that file is there.
    *_, program, verb, option, path = given.command
    assert [program, verb, option] == ["weir", "agent", "--config"]
    assert path in given.files
    for key, value in MATRIX[name].get("config", {}).items():
        if key != "rules":
            found = getattr(settings, key)
            assert json.loads(json.dumps(found, default=str)) == value, key
    assert len(settings.rules) == len(MATRIX[name].get("config", {}).get("rules", []))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Running:
    """The container's process, and a way to ask what the kubelet, Prometheus and drivers ask."""

    def __init__(self, given: Container, root: Path) -> None:
        self.given = given
        self.root = root
        self.port = free_port()
        for folder in given.writable:
            self.path(folder).mkdir(parents=True)
        for name, content in given.files.items():
            path = self.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self._put_elsewhere()
        self.program("weir", f'exec "{sys.executable}" -m agent.cli "$@"')
        self.log = root / "agent.log"
        scheme = "https" if "tls_cert_file" in given.config else "http"
        self.address = f"{scheme}://127.0.0.1:{self.port}"
        self.http = httpx.Client(verify=False, trust_env=False, timeout=30)

    def program(self, name: str, script: str) -> None:
        """One that the container finds before the machine's."""
        path = self.root / "programs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def start(self) -> None:
        given = self.given
        environ = {key: value for key, value in os.environ.items() if not key.startswith("WEIR_")}
        environ |= {key: self.moved(value) for key, value in given.environ.items() if key != "PATH"}
        environ["PYTHONPATH"] = str(ROOT)
        environ["PATH"] = f"{self.root / 'programs'}:{environ['PATH']}"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [self.moved(one) for one in given.command],
                env=environ,
                cwd=self.path("/var/lib/weir"),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def path(self, inside: str) -> Path:
        return self.root / inside[1:]

    def moved(self, text: str) -> str:
        for folder in ("/etc/weir", "/var/lib/weir", "/opt/weir/doors"):
            text = text.replace(folder, str(self.path(folder)))
        return text

    def _put_elsewhere(self) -> None:
        path = self.path("/etc/weir/config/config.yaml")
        told = {
            key: self.moved(value) if isinstance(value, str) else value
            for key, value in self.given.config.items()
        }
        path.write_text(yaml.safe_dump({**told, "host": "127.0.0.1", "port": self.port}))

    def wait(self) -> None:
        """Until it answers: as long as a startup probe would, where there is one."""
        probe = self.given.spec.get("startupProbe")

        def started() -> bool:
            said = self.answers("/healthz") if probe is None else self.probe("startupProbe")
            assert said or self.process.poll() is None, self.log.read_text()
            return said

        seconds = 60 if probe is None else probe["periodSeconds"] * probe["failureThreshold"]
        until(started, "the agent", seconds=seconds, every=0.1, telling=self.log.read_text)

    def probe(self, name: str) -> bool:
        """What the kubelet would say of a probe of the container."""
        probe = self.given.spec[name]
        if "exec" in probe:
            *command, port = probe["exec"]["command"]
            assert int(port) == self.given.config["port"]
            done = subprocess.run([*command, str(self.port)], check=False, timeout=30)
            return done.returncode == 0
        get = probe["httpGet"]
        assert get.get("scheme", "HTTP").lower() == urlsplit(self.address).scheme
        assert get["port"] == self.given.spec["ports"][0]["name"]
        return self.answers(get["path"])

    def answers(self, path: str) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return 200 <= self.http.get(self.address + path).status_code < 400
        return False

    def agent(self) -> int:
        """The process of the agent, which beside a driver is a child of the container's."""
        process = self.process.pid
        (child,) = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return int(child)

    def token(self) -> str | None:
        path = self.given.config.get("token_file")
        return None if path is None else self.path(path).read_text().strip()

    def drivers_token(self) -> str | None:
        """Where drivers have one of their own."""
        path = self.given.environ.get("WEIR_EVENTS_TOKEN_FILE")
        return None if path is None else self.path(path).read_text().strip()

    def post(self, token: str | None) -> httpx.Response:
        return self.http.post(
            f"{self.address}/v1/events",
            content=wire.body([wire.started(1), wire.progress(2)]),
            headers={
                "content-type": "application/json",
                **({} if token is None else {"authorization": f"Bearer {token}"}),
            },
        )

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(self.given.pod["spec"].get("terminationGracePeriodSeconds", 30))

    def close(self) -> None:
        """Leaves nothing of it, whatever became of it."""
        self.http.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)


STARTED = [
    "shared",
    "shared-given-token",
    "shared-tls",
    "shared-monitored",
    "shared-configured",
    "sidecar",
    "sidecar-loopback",
    "sidecar-given-token",
    "sidecar-monitored",
]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Running]]:
    """Starts the agent of an entry of the matrix, each once; at the end all must end well."""
    agents: dict[str, Running] = {}

    def started(name: str) -> Running:
        if name not in agents:
            agents[name] = Running(container(name), tmp_path_factory.mktemp(name))
            agents[name].start()
            agents[name].wait()
        return agents[name]

    try:
        yield started
        for one in agents.values():
            assert one.stop() == 0
            assert "stopped" in one.log.read_text().splitlines()[-1]
            assert (one.path("/var/lib/weir") / "state.sqlite").exists()
    finally:
        for one in agents.values():
            one.close()


@pytest.fixture
def running(request: pytest.FixtureRequest, start: Callable[[str], Running]) -> Running:
    return start(request.param)


every = pytest.mark.parametrize("running", STARTED, indirect=True)
every_shared = pytest.mark.parametrize(
    "running", [name for name in STARTED if name.startswith("shared")], indirect=True
)
every_sidecar = pytest.mark.parametrize(
    "running", [name for name in STARTED if name.startswith("sidecar")], indirect=True
)


@every
def test_probes_find_it_well(running: Running) -> None:
    for name in running.given.spec:
        if name.endswith("Probe"):
            assert running.probe(name), name


@every
def test_events_are_taken_with_the_tokens_that_drivers_mount(running: Running) -> None:
    token, drivers = running.token(), running.drivers_token()
    assert running.post(token).status_code == 200, "drivers of older releases mount this one"
    if drivers is not None:
        assert running.post(drivers).status_code == 200
        for one, status in ((drivers, 403), (token, 200)):
            shown = {"authorization": f"Bearer {one}"}
            asked = running.http.get(f"{running.address}/v1/queries", headers=shown)
            assert asked.status_code == status
    if token is not None:
        assert running.post(None).status_code == 401
        assert running.post(token + "x").status_code == 401


@every
def test_it_is_scraped_as_the_monitor_says(running: Running) -> None:
    objects = running.given.objects
    for kind, list_name in (("ServiceMonitor", "endpoints"), ("PodMonitor", "podMetricsEndpoints")):
        for monitor in of(objects, kind):
            (endpoint,) = monitor["spec"][list_name]
            url = f"{endpoint['scheme']}://127.0.0.1:{running.port}{endpoint['path']}"
            headers = {}
            if "authorization" in endpoint:
                assert running.http.get(url).status_code == 401
                headers["authorization"] = f"Bearer {running.token()}"
            answer = running.http.get(url, headers=headers)
            assert answer.status_code == 200
            assert "weir_build_info" in answer.text


@every_sidecar
def test_the_drivers_side_takes_its_environment(running: Running) -> None:
    pods = dict(chart.pod_specs(running.given.objects))
    (driver,) = pods["driver.yaml"]["spec"]["containers"]
    environ = {one["name"]: one["value"] for one in driver["env"]}
    settings = driver_config.resolve({}, {}, environ)
    assert urlsplit(settings.agent_url).port == running.given.config["port"]
    assert settings.token_file == running.given.config.get("token_file", "")
    assert not settings.exposes_token
    if "livenessProbe" in driver:
        *probe, port, path = driver["livenessProbe"]["exec"]["command"]
        assert int(port) == running.given.config["port"]
        subprocess.run([*probe, str(running.port), path], timeout=10, check=True)
        answer = running.http.get(running.address + path)
        assert answer.status_code == 200
        assert answer.json()["ok"] is True


@every_shared
def test_notes_of_a_shared_agent_are_settings_that_the_driver_takes(running: Running) -> None:
    notes = chart.notes(MATRIX[running.given.name])
    words = [
        line.split()[1] for line in notes.splitlines() if line.startswith("  --conf spark.weir")
    ]
    conf = dict(word.split("=", 1) for word in words)
    settings = driver_config.resolve({}, conf, {})
    assert settings.agent_url.startswith(running.address.split(":")[0])
    # The file is where Spark mounts the Secret: spark.kubernetes.driver.secrets.NAME=FOLDER.
    (secret,) = [w for w in notes.split() if w.startswith("spark.kubernetes.driver.secrets.")]
    assert settings.token_file.rpartition("/")[0] == secret.rpartition("=")[2]


class Beside(Running):
    """Beside a driver, with a pause before a new start that lasts until the test ends it."""

    def __init__(self, root: Path) -> None:
        super().__init__(container("sidecar"), root)
        self.paused, self.go = root / "paused", root / "go"
        real = shutil.which("sleep")
        self.program(
            "sleep",
            f'echo "$@" >>"{self.paused}"; until [ -e "{self.go}" ]; do "{real}" 0.05; done',
        )
        self.lock = self.path("/var/lib/weir") / LOCK_NAME

    def until_paused(self) -> None:
        def paused() -> bool:
            return self.paused.exists() and self.paused.read_text() != ""

        until(paused, "the pause", telling=self.log.read_text)


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    made = Beside(tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_an_agent_that_cannot_start_lets_its_driver_run_and_comes_once_it_can(
    beside: Beside,
) -> None:
    """The driver starts when this container runs, and its pod is ready while it does."""
    beside.lock.mkdir()  # nothing can be written there
    beside.start()
    beside.until_paused()
    assert beside.process.poll() is None
    assert beside.probe("livenessProbe")
    said = beside.log.read_text()
    assert "weir: state_dir: " in said
    assert "the agent ended with exit code 2" in said
    # Starts of a second each are to take a twentieth of a processor at most.
    assert 1.0 / float(beside.paused.read_text()) <= 0.05
    beside.lock.rmdir()
    beside.go.touch()
    beside.wait()
    assert beside.stop() == 0


def test_a_drivers_pod_ends_no_later_for_an_agent_that_cannot_start(beside: Beside) -> None:
    beside.lock.mkdir()
    beside.start()
    beside.until_paused()
    assert beside.stop() == 2


def test_an_agent_that_dies_beside_its_driver_is_started_anew(beside: Beside) -> None:
    beside.start()
    beside.wait()
    first = beside.agent()
    os.kill(first, signal.SIGKILL)
    beside.until_paused()
    assert "the agent ended with exit code 137" in beside.log.read_text()
    beside.go.touch()
    beside.wait()
    assert beside.agent() != first
    assert beside.stop() == 0


def test_an_agent_that_hangs_beside_its_driver_is_told(beside: Beside) -> None:
    beside.start()
    beside.wait()
    os.kill(beside.agent(), signal.SIGSTOP)
    assert not beside.probe("livenessProbe")
    os.kill(beside.agent(), signal.SIGCONT)
    assert beside.probe("livenessProbe")
    assert beside.stop() == 0
