"""examples/kubernetes is what the chart renders. UPDATE_GOLDEN=1 writes it anew."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
import yaml

from agent.export.catalogue import metric
from tests.helm import chart
from tests.helm.chart import ROOT
from tests.helm.schemas import errors, minors

FOLDER = ROOT / "examples" / "kubernetes"


@pytest.mark.parametrize("name", ["driver.yaml", "spark-application.yaml"])
def test_the_example_is_what_the_chart_renders(name: str) -> None:
    objects = chart.render({"mode": "sidecar"})
    text = chart.only(objects, "ConfigMap", f"{chart.RELEASE}-driver")["data"][name]
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, "utf-8")
    assert path.read_text("utf-8") == text, "make it anew: UPDATE_GOLDEN=1"


def read(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text("utf-8"))
    return read


def test_workers_are_scaled_by_a_metric_and_labels_that_there_are() -> None:
    by_keda, by_itself = read("workers-keda.yaml")["spec"], read("workers-hpa.yaml")["spec"]
    assert by_keda["scaleTargetRef"] == by_itself["scaleTargetRef"]
    (trigger,), (external,) = by_keda["triggers"], by_itself["metrics"]
    asked = re.fullmatch(r'max\((\w+)\{(\w+)="(\w+)"\}\)', trigger["metadata"]["query"])
    assert asked is not None
    told = external["external"]
    assert asked[1] == told["metric"]["name"]
    assert {asked[2]: asked[3]} == told["metric"]["selector"]["matchLabels"]
    assert asked[2] in metric(asked[1]).label_names
    # An executor a Worker: a mean of one over all of them.
    assert told["target"] == {
        "type": "AverageValue",
        "averageValue": trigger["metadata"]["threshold"],
    }


def test_what_makes_the_autoscalers_tolerance_less_is_told_and_valid() -> None:
    text = (FOLDER / "workers-hpa.yaml").read_text("utf-8")
    (said,) = re.findall(r"newer take\n  # `(tolerance: 0)`", text)
    scaler = read("workers-hpa.yaml")
    assert [errors(scaler, version) for version in minors()] == [[]] * len(minors())
    for way in ("scaleUp", "scaleDown"):
        scaler["spec"]["behavior"].setdefault(way, {}).update(yaml.safe_load(said))
    assert [errors(scaler, version) for version in minors()] == [[]] * len(minors())
    for page in (FOLDER / "workers-keda.yaml", ROOT / "docs" / "executors.md"):
        assert "10 % or less" in page.read_text("utf-8")
