"""Rules and dashboards in the chart are the generated files, not copies of them."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import tarfile
from typing import TYPE_CHECKING

import pytest
import yaml

from dashboards import links
from tests.helm import chart
from tests.helm.chart import CHART, ROOT, of, only

if TYPE_CHECKING:
    from pathlib import Path

RULES = ROOT / "alerts" / "generated" / "weir.rules.yml"
DASHBOARDS = sorted((ROOT / "dashboards" / "generated").glob("*.json"))
ALL: chart.Values = {
    "alerts": {"enabled": True},
    "networkPolicy": {"enabled": False},
    "monitor": {"enabled": True},
}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart as `helm package` packs it, unpacked far from the generated files."""
    out = tmp_path_factory.mktemp("packed")
    done = chart.helm("package", str(CHART), "--destination", str(out))
    assert done.returncode == 0, done.stderr
    (archive,) = out.glob("*.tgz")
    with tarfile.open(archive) as tar:
        assert not [member.name for member in tar if not (member.isfile() or member.isdir())]
        tar.extractall(out, filter="data")
    return out / "weir"


def test_the_release_fits_into_the_secret_that_helm_keeps_it_in() -> None:
    """A Secret or ConfigMap holds 1 MiB; helm keeps chart and manifests gzipped in one."""
    text = chart.template(ALL)
    for one in of([o for o in yaml.safe_load_all(text) if o], "ConfigMap"):
        assert sum(len(value.encode()) for value in one["data"].values()) < 2**20
    files = [path.read_bytes() for path in CHART.rglob("*") if path.is_file()]
    files += [path.read_bytes() for path in [RULES, *DASHBOARDS]]
    # The chart's files stand in the record in base64, the whole of it is in base64 once more.
    record = gzip.compress(b"".join(map(base64.b64encode, files)) + text.encode())
    assert len(base64.b64encode(record)) < 2**20 / 2


def test_the_charts_files_are_links() -> None:
    assert (CHART / "files" / "alerts").resolve() == RULES.parent
    assert (CHART / "files" / "dashboards").resolve() == DASHBOARDS[0].parent
    assert (CHART / "files" / "alerts").is_symlink()
    assert (CHART / "files" / "dashboards").is_symlink()


@pytest.mark.parametrize("where", ["checkout", "package"])
def test_the_rule_is_the_generated_file(where: str, packed: Path) -> None:
    objects = chart.render(ALL, chart=packed if where == "package" else CHART)
    rule = only(objects, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load(RULES.read_text())
    # What is Prometheus's to fill in came through as it was.
    assert "{{ $labels.application }}" in json.dumps(rule)


@pytest.mark.parametrize("where", ["checkout", "package"])
def test_every_dashboard_is_the_generated_file(where: str, packed: Path) -> None:
    objects = chart.render(ALL, chart=packed if where == "package" else CHART)
    maps = [one for one in of(objects, "ConfigMap") if "config.yaml" not in one["data"]]
    shown = {name: text for one in maps for name, text in one["data"].items()}
    assert {name: json.loads(text) for name, text in shown.items()} == {
        path.name: json.loads(path.read_text()) for path in DASHBOARDS
    }
    for one in maps:
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_the_package_holds_no_more_than_the_chart_needs(packed: Path) -> None:
    files = {str(path.relative_to(packed)) for path in packed.rglob("*") if path.is_file()}
    assert {"Chart.yaml", "values.yaml", "values.schema.json", "README.md"} <= files
    assert not [name for name in files if name.endswith((".py", ".gotmpl"))]


@pytest.mark.parametrize(
    ("values", "base"),
    [
        ({}, "http://localhost:9655/runbooks"),
        ({"agent": {"port": 19655}}, "http://localhost:19655/runbooks"),
        ({"tls": {"secretName": "weir-tls"}}, "https://localhost:9655/runbooks"),
        ({"runbooksUrl": "https://wiki.example.com/weir/"}, "https://wiki.example.com/weir/"),
        (
            {"runbooksUrl": "https://wiki.example.com/{}.html?a=$1"},
            "https://wiki.example.com/{}.html?a=$1",
        ),
    ],
    ids=["as generated", "another port", "TLS", "a base", "a pattern"],
)
def test_runbooks_are_linked_as_the_generators_would(values: chart.Values, base: str) -> None:
    def linked(path: Path) -> str:
        text, count = re.subn(
            re.escape(links.AGENT_RUNBOOKS) + r"/(\w+)",
            lambda found: links.runbook(found[1], base),
            path.read_text("utf-8"),
        )
        assert count > 0, path
        return text

    objects = chart.render(chart.merged(ALL, values))
    assert only(objects, "PrometheusRule")["spec"] == yaml.safe_load(linked(RULES))
    maps = [one for one in of(objects, "ConfigMap") if "config.yaml" not in one["data"]]
    shown = {name: json.loads(text) for one in maps for name, text in one["data"].items()}
    assert shown == {path.name: json.loads(linked(path)) for path in DASHBOARDS}


@pytest.mark.parametrize("left", ["nothing", "the link as text"])
def test_a_checkout_without_links_is_refused_with_what_to_do(left: str, tmp_path: Path) -> None:
    """Some tools drop links, and git on Windows writes the target as text."""
    broken = tmp_path / "weir"
    shutil.copytree(CHART, broken, symlinks=True)
    for name in ("alerts", "dashboards"):
        link = broken / "files" / name
        target = link.readlink()
        link.unlink()
        if left == "the link as text":
            link.write_text(str(target))
    for values, missing in (({}, "weir-overview.json"), (ALL, "files/alerts/weir.rules.yml")):
        wanted = {**values, "dashboards": {"enabled": missing.endswith("json")}}
        done = chart.helm("template", "weir", str(broken), values=chart.merged(chart.IMAGE, wanted))
        assert done.returncode != 0
        assert missing in done.stderr
        assert "core.symlinks" in done.stderr
        assert "make chart" in done.stderr
