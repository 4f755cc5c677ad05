"""The chart as a dependency of another one, which turns it on and has its values under its name."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.helm import chart
from tests.helm.chart import CHART, IMAGE, NAMESPACE, RELEASE, Values, merged

if TYPE_CHECKING:
    from pathlib import Path

ABOUT: Values = {
    "apiVersion": "v2",
    "name": "platform",
    "version": "1.0.0",
    "dependencies": [{"name": "weir", "version": "*", "condition": "weir.enabled"}],
}

#: Behind the longest name of a release a label has no room for what tells these apart.
TWO = ("streaming-orders", "streaming-fraud")
releases = pytest.mark.parametrize("release", [RELEASE, "r" * 53])


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parent") / "platform"
    shutil.copytree(CHART, folder / "charts" / "weir")
    (folder / "Chart.yaml").write_text(yaml.safe_dump(ABOUT))
    return folder


@pytest.fixture(scope="module")
def parent_of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parent") / "platform"
    shutil.copytree(CHART, folder / "charts" / "weir")
    two = [{"name": "weir", "version": "*", "alias": alias} for alias in TWO]
    (folder / "Chart.yaml").write_text(yaml.safe_dump({**ABOUT, "dependencies": two}))
    return folder


def rendered(parent: Path, values: Values, release: str = RELEASE) -> list[Values]:
    """The objects, with these values in the parent's own file, as who keeps them there has them."""
    (parent / "values.yaml").write_text(yaml.safe_dump(values))
    done = chart.helm("template", release, str(parent), "--namespace", NAMESPACE)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one is not None]


def named(values: Values) -> Values:
    """These values for both, each with a name of its own, as it must have under a long release."""
    return {alias: {**values, "fullnameOverride": alias} for alias in TWO}


@pytest.mark.parametrize("mode", ["shared", "sidecar"])
def test_a_parents_condition_turns_it_on_and_off(parent: Path, mode: str) -> None:
    values = merged(IMAGE, {"mode": mode, "enabled": True})
    on = rendered(parent, {"weir": values, "global": {"registry": "registry.example.com"}})
    # The same objects as of the chart alone, but for the token, which is made anew.
    assert chart.pod_specs(on) == chart.pod_specs(chart.render({"mode": mode}))
    assert rendered(parent, {"weir": {**values, "enabled": False}}) == []


@releases
def test_of_two_each_is_scraped_by_its_own_monitor(parent_of_two: Path, release: str) -> None:
    asked: Values = {"monitor": {"enabled": True}, "networkPolicy": {"enabled": False}}
    values = merged(IMAGE, asked)
    objects = rendered(parent_of_two, named(values), release)
    services = chart.of(objects, "Service")
    assert len(services) == 2
    for monitor in chart.of(objects, "ServiceMonitor"):
        chosen = monitor["spec"]["selector"]["matchLabels"].items()
        found = [one for one in services if chosen <= one["metadata"]["labels"].items()]
        assert [one["metadata"]["name"] for one in found] == [monitor["metadata"]["name"]]


@releases
def test_of_two_beside_drivers_too(parent_of_two: Path, release: str) -> None:
    values = merged(IMAGE, {"mode": "sidecar", "monitor": {"enabled": True}})
    objects = rendered(parent_of_two, named(values), release)
    templates = {
        one["metadata"]["name"].removesuffix("-driver"): yaml.safe_load(one["data"]["driver.yaml"])
        for one in chart.of(objects, "ConfigMap")
        if one["metadata"]["name"].endswith("-driver")
    }
    monitors = chart.of(objects, "PodMonitor")
    assert len(templates) == len(monitors) == 2
    for monitor in monitors:
        chosen = monitor["spec"]["selector"]["matchLabels"].items()
        found = [
            name for name, pod in templates.items() if chosen <= pod["metadata"]["labels"].items()
        ]
        assert found == [monitor["metadata"]["name"]]


@pytest.mark.parametrize("mode", ["shared", "sidecar"])
def test_without_an_alias_drivers_are_found_by_the_release_alone(parent: Path, mode: str) -> None:
    """As by an older chart's template, with which a driver may run for months."""
    values = merged(
        IMAGE,
        {"mode": mode, "monitor": {"enabled": True}, "networkPolicy": {"enabled": False}},
    )
    for objects in (
        rendered(parent, {"weir": values}),
        chart.render({**values, "nameOverride": "ours"}),
    ):
        (monitor,) = (one for one in objects if one["kind"] in ("ServiceMonitor", "PodMonitor"))
        chosen = monitor["spec"]["selector"]["matchLabels"]
        assert chosen["weir.agent/instance"] == RELEASE
        assert mode == "shared" or len(chosen) == 1, "a driver has its own name"


@pytest.mark.parametrize("mode", ["shared", "sidecar"])
def test_a_parent_leaves_users_to_the_platform(parent: Path, mode: str) -> None:
    """By a value that no version of Helm loses, as some lose a parent's nulls."""
    values = merged(IMAGE, {"mode": mode, "platformUsers": True})
    for name, pod in chart.pod_specs(rendered(parent, {"weir": values})):
        assert not [key for key in ("runAsUser", "runAsGroup", "'fsGroup'") if key in str(pod)], (
            name
        )
