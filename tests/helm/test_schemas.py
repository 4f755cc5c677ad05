"""What the chart renders is what Kubernetes and the Prometheus operator take, strictly."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.helm import chart
from tests.helm.matrix import MATRIX
from tests.helm.schemas import errors, minors

#: spec of a SparkApplication (v1beta2), as far as the example has it: name and kind of value.
SPARK_APPLICATION = {
    "type": str,
    "mode": str,
    "pythonVersion": str,
    "sparkVersion": str,
    "image": str,
    "mainApplicationFile": str,
    "sparkConf": dict,
    "deps": dict,
    "restartPolicy": dict,
    "driver": dict,
    "executor": dict,
}


@pytest.fixture(scope="module", params=MATRIX, ids=list(MATRIX))
def objects(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return chart.render(MATRIX[request.param])


def test_the_three_latest_minors_are_three() -> None:
    assert len(minors()) == 3
    numbers = [int(version.split(".")[1]) for version in minors()]
    assert numbers == list(range(numbers[0], numbers[0] + 3))
    assert numbers[-1] >= 37


@pytest.mark.parametrize("version", minors())
def test_every_object_is_valid(objects: list[dict[str, Any]], version: str) -> None:
    assert [error for one in objects for error in errors(one, version)] == []


@pytest.mark.parametrize("version", minors())
def test_the_drivers_pods_are_valid(objects: list[dict[str, Any]], version: str) -> None:
    for name, pod in chart.pod_specs(objects):
        if name == "driver.yaml":
            assert errors(pod, version) == []
        template = {k: v for k, v in pod.items() if k in ("metadata", "spec")}
        whole = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "a"},
            "template": template,
        }
        assert errors(whole, version) == []


def test_the_spark_application_has_the_operators_fields(objects: list[dict[str, Any]]) -> None:
    if not any("spark-application.yaml" in o.get("data", {}) for o in objects):
        return
    application = chart.spark_application(objects)
    assert application["apiVersion"] == "sparkoperator.k8s.io/v1beta2"
    assert application["kind"] == "SparkApplication"
    spec = application["spec"]
    assert {key: SPARK_APPLICATION[key] for key in spec} == {
        key: type(value) for key, value in spec.items()
    }
    assert spec["type"] == "Python"
    assert spec["mode"] == "cluster"
    defaults = chart.only(objects, "ConfigMap", f"{chart.RELEASE}-driver")["data"]
    told = dict(line.split() for line in defaults["spark-defaults.conf"].splitlines())
    assert spec.get("sparkConf", {}).items() <= told.items(), "both ways say the same"
    assert spec["restartPolicy"]["type"] == "Always"
    assert set(spec["driver"]) == {"cores", "memory", "serviceAccount", "template"}
    assert set(spec["executor"]) == {"instances", "cores", "memory"}


def test_the_schemas_would_find_a_mistake() -> None:
    """Else all of the above would be worth nothing."""
    objects = chart.render(MATRIX["shared-monitored"])
    for kind, path in (
        ("StatefulSet", ("spec", "template", "spec", "containers", 0)),
        ("NetworkPolicy", ("spec",)),
        ("ServiceMonitor", ("spec", "endpoints", 0)),
        ("PrometheusRule", ("spec", "groups", 0, "rules", 0)),
        ("Service", ("spec", "ports", 0)),
    ):
        broken = copy.deepcopy(chart.only(objects, kind))
        node: Any = broken
        for step in path:
            node = node[step]
        node["noSuchField"] = 1
        for version in minors():
            (error,) = errors(broken, version)
            assert "noSuchField" in error
