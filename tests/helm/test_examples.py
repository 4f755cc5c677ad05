"""examples/kubernetes is what the chart renders. UPDATE_GOLDEN=1 writes it anew."""

from __future__ import annotations

import os

import pytest

from tests.helm import chart
from tests.helm.chart import ROOT

FOLDER = ROOT / "examples" / "kubernetes"


@pytest.mark.parametrize("name", ["driver.yaml", "spark-application.yaml"])
def test_the_example_is_what_the_chart_renders(name: str) -> None:
    objects = chart.render({"mode": "sidecar"})
    text = chart.only(objects, "ConfigMap", f"{chart.RELEASE}-driver")["data"][name]
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, "utf-8")
    assert path.read_text("utf-8") == text, "make it anew: UPDATE_GOLDEN=1"
