"""The chart as `helm template` renders it: objects by kind and name, or what it refuses with."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.lacking import lacking

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "weir"
TOOLS = ROOT / ".make" / "tools"
RELEASE = "weir"
NAMESPACE = "jobs"
Values = dict[str, Any]

#: What every rendering needs.
IMAGE: Values = {"image": {"repository": "registry.example.com/team/weir"}}


def tool(name: str, *, comes_by: str = "ensure-helm.sh") -> str:
    """A program out of .make/tools or PATH; without it the test is skipped, under CI it fails."""
    found = TOOLS / name
    if found.exists():
        return str(found)
    path = shutil.which(name)
    if path is None:
        lacking(f"{name} is missing: sh scripts/{comes_by}")
    return path


def merged(*parts: Values) -> Values:
    """Values over values, as Helm lays them."""
    result: Values = {}
    for part in parts:
        for key, value in part.items():
            present = result.get(key)
            if isinstance(present, dict) and isinstance(value, dict):
                result[key] = merged(present, value)
            else:
                result[key] = value
    return result


def helm(
    *arguments: str, values: Values | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Runs helm with these values on standard input, and without anybody's settings."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("HELM_")}
    # No cluster, whatever this machine is configured for.
    environ["KUBECONFIG"] = os.devnull
    return subprocess.run(
        [tool("helm"), *arguments, *(() if values is None else ("--values", "-"))],
        input=None if values is None else yaml.safe_dump(values),
        env=environ,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def kubeconfig(path: Path, server: str, user: Values, **cluster: Any) -> None:
    """Writes how helm finds a cluster and what it shows there; nobody else may read it."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "a", "user": user}],
    }
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)


def template(values: Values, *arguments: str, chart: Path = CHART) -> str:
    """The manifests as text; fails the test where helm does."""
    done = helm(
        *("template", RELEASE, str(chart), "--namespace", NAMESPACE, *arguments),
        values=merged(IMAGE, values),
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "helm has something to say"
    return done.stdout


def render(values: Values, *arguments: str, chart: Path = CHART) -> list[dict[str, Any]]:
    """The objects, in the order in which helm prints them."""
    text = template(values, *arguments, chart=chart)
    return [one for one in yaml.safe_load_all(text) if one is not None]


_NOTES = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: the-notes
data:
  text: {{ tpl (.Files.Get "files/NOTES.txt") . | toJson }}
"""


@functools.cache
def _chart_that_shows_its_notes() -> tempfile.TemporaryDirectory[str]:
    """Notes as an object: `helm template` shows none, and `helm install` asks a cluster first."""
    folder = tempfile.TemporaryDirectory()
    copy = Path(folder.name) / "weir"
    shutil.copytree(CHART, copy)
    (copy / "templates" / "NOTES.txt").rename(copy / "files" / "NOTES.txt")
    (copy / "templates" / "the-notes.yaml").write_text(_NOTES)
    return folder


def notes(values: Values) -> str:
    """What helm prints after an installation."""
    copy = Path(_chart_that_shows_its_notes().name) / "weir"
    text = only(render(values, chart=copy), "ConfigMap", "the-notes")["data"]["text"]
    assert isinstance(text, str)
    return text


def refusal(values: Values) -> str:
    """What helm says of values that it must not take."""
    done = helm("template", RELEASE, str(CHART), "--namespace", NAMESPACE, values=values)
    assert done.returncode != 0, f"taken: {values}"
    assert done.stdout == ""
    return done.stderr


def of(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in objects if one["kind"] == kind]


def only(objects: list[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    """The one object of a kind (and name)."""
    found = [one for one in of(objects, kind) if name is None or one["metadata"]["name"] == name]
    assert len(found) == 1, [(one["kind"], one["metadata"]["name"]) for one in objects]
    return found[0]


def driver_pod(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """The pod template for drivers, out of its ConfigMap."""
    pod = yaml.safe_load(only(objects, "ConfigMap", f"{RELEASE}-driver")["data"]["driver.yaml"])
    assert isinstance(pod, dict)
    return pod


def spark_application(objects: list[dict[str, Any]]) -> dict[str, Any]:
    text = only(objects, "ConfigMap", f"{RELEASE}-driver")["data"]["spark-application.yaml"]
    application = yaml.safe_load(text)
    assert isinstance(application, dict)
    return application


def pod_specs(objects: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Every pod that the chart makes or describes, by what it is."""
    found = [("StatefulSet", one["spec"]["template"]) for one in of(objects, "StatefulSet")]
    if any(one["metadata"]["name"] == f"{RELEASE}-driver" for one in of(objects, "ConfigMap")):
        found.append(("driver.yaml", driver_pod(objects)))
        template = spark_application(objects)["spec"]["driver"]["template"]
        found.append(("spark-application.yaml", template))
    return found


def agent_container(pod: dict[str, Any]) -> dict[str, Any]:
    """The container that runs the agent, be it the pod's own or a sidecar."""
    spec = pod["spec"]
    containers = [*spec.get("initContainers", []), *spec["containers"]]
    (found,) = [one for one in containers if one["name"] == "weir"]
    return dict(found)
