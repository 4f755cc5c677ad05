"""Published schemas of Kubernetes' kinds and of the Prometheus operator's, held strictly.

Strictly: a field that the schema doesn't know is an error; a cluster would drop it in silence.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import TYPE_CHECKING, Any

import jsonschema
import yaml
from referencing import Registry, Resource

from tests.helm.chart import TOOLS
from tests.lacking import lacking

if TYPE_CHECKING:
    from pathlib import Path

_OPERATOR = {
    "ServiceMonitor": "servicemonitors",
    "PodMonitor": "podmonitors",
    "PrometheusRule": "prometheusrules",
}


@functools.cache
def minors() -> tuple[str, ...]:
    """The three latest minor versions of Kubernetes that there are schemas of."""
    names = [one.name for one in _folder().iterdir() if one.name.endswith("-local-strict")]
    versions = [name.removeprefix("v").partition("-")[0] for name in names]
    return tuple(sorted(versions, key=lambda v: tuple(map(int, v.split("."))))[-3:])


def _folder() -> Any:
    return resources.files("kubernetes_validate").joinpath("kubernetes-json-schema")


@functools.cache
def _definitions(version: str) -> Resource[Any]:
    path = _folder().joinpath(f"v{version}-local-strict", "_definitions.json")
    return Resource.from_contents(json.loads(path.read_text("utf-8")))


@functools.cache
def _core(version: str, kind: str, api_version: str) -> jsonschema.Draft202012Validator:
    group, _, number = api_version.rpartition("/")
    name = "-".join([kind.lower(), *([group.partition(".")[0]] if group else []), number])
    path = _folder().joinpath(f"v{version}-local-strict", f"{name}.json")
    schema = json.loads(path.read_text("utf-8"))
    registry: Registry[Any] = Registry().with_resources([])
    registry = _definitions(version) @ registry
    registry = Resource.from_contents(schema) @ registry
    return jsonschema.Draft202012Validator(schema, registry=registry)


@functools.cache
def _operator(kind: str) -> jsonschema.Draft202012Validator:
    path: Path = TOOLS / "crds" / f"{_OPERATOR[kind]}.yaml"
    if not path.exists():
        lacking(f"{path.name} is missing: sh scripts/ensure-helm.sh fetches it")
    (version,) = yaml.safe_load(path.read_text("utf-8"))["spec"]["versions"]
    schema = _strict(version["schema"]["openAPIV3Schema"])
    # Of the object's metadata a definition says no more than that it is one.
    schema["properties"]["metadata"] = {"type": "object"}
    return jsonschema.Draft202012Validator(schema)


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(one) for one in node]
    if not isinstance(node, dict):
        return node
    made = {key: _strict(value) for key, value in node.items()}
    open_ended = node.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in node
    if node.get("type") == "object" and "properties" in node and not open_ended:
        made["additionalProperties"] = False
    return made


def errors(thing: dict[str, Any], version: str) -> list[str]:
    """What the schema of this minor version of Kubernetes says against an object."""
    kind = thing["kind"]
    validator = _operator(kind) if kind in _OPERATOR else _core(version, kind, thing["apiVersion"])
    return [
        f"{kind} {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"
        for error in validator.iter_errors(thing)
    ]
