"""Rules and dashboards in the chart are the generated files, and of several releases keep apart."""

from __future__ import annotations

import base64
import gzip
import json
import re
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import alerts.generate
import dashboards.generate
from helm import files
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
    assert done.stderr == "", "helm has something to say"
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
    own = [path.read_bytes() for path in CHART.rglob("*") if path.is_file()]
    # The chart's files stand in the record in base64, the whole of it is in base64 once more.
    record = gzip.compress(b"".join(map(base64.b64encode, own)) + text.encode())
    assert len(base64.b64encode(record)) < 2**20 / 2


def test_the_charts_files_are_copies_of_the_generated_ones() -> None:
    """Copies: helm has a line to say on every link in a chart, and some tools refuse them."""
    assert files.wanted() == files.present(), "make them anew: make generated"
    assert not [path for path in CHART.rglob("*") if path.is_symlink()]


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
    names = {str(path.relative_to(packed)) for path in packed.rglob("*") if path.is_file()}
    assert {"Chart.yaml", "values.yaml", "values.schema.json", "README.md"} <= names
    assert not [name for name in names if name.endswith((".py", ".gotmpl"))]


@pytest.mark.parametrize(
    ("values", "base"),
    [
        ({}, None),
        ({"agent": {"port": 19655}}, None),
        ({"tls": {"secretName": "weir-tls"}}, None),
        ({"runbooksUrl": "https://wiki.example.com/weir/"}, "https://wiki.example.com/weir/"),
        (
            {"runbooksUrl": "https://wiki.example.com/{}.html?a=$1"},
            "https://wiki.example.com/{}.html?a=$1",
        ),
        ({"runbooksUrl": "https://wiki.example.com/it's/"}, "https://wiki.example.com/it%27s/"),
    ],
    ids=["as generated", "another port", "TLS", "a base", "a pattern", "a quote"],
)
def test_runbooks_are_linked_as_the_generators_would(
    values: chart.Values, base: str | None
) -> None:
    rules, boards = alerts.generate, dashboards.generate
    texts = (rules.files(base), boards.files(base)) if base else (rules.files(), boards.files())
    if "tls" in values:
        texts = tuple(
            {name: re.sub(r"http(?=://.*/runbooks/)", "https", text) for name, text in one.items()}
            for one in texts
        )
    objects = chart.render(chart.merged(ALL, values))
    assert only(objects, "PrometheusRule")["spec"] == yaml.safe_load(texts[0][RULES.name])
    maps = [one for one in of(objects, "ConfigMap") if "config.yaml" not in one["data"]]
    shown = {name: json.loads(text) for one in maps for name, text in one["data"].items()}
    assert shown == {name: json.loads(text) for name, text in texts[1].items()}


def boards(release: str, within: str = chart.NAMESPACE, **values: str) -> list[dict[str, Any]]:
    """The ConfigMaps with dashboards of a release."""
    done = chart.helm(
        *("template", release, str(CHART), "--namespace", within),
        values=chart.merged(chart.IMAGE, {"dashboards": values, "alerts": {"enabled": True}}),
    )
    assert done.returncode == 0, done.stderr
    objects = [one for one in yaml.safe_load_all(done.stdout) if one]
    found = [one for one in of(objects, "ConfigMap") if "config.yaml" not in one["data"]]
    assert len(found) == len(DASHBOARDS)
    # Alerts and boards lead to the boards of the same release.
    uids = {json.loads(text)["uid"] for one in found for text in one["data"].values()}
    assert set(re.findall(r"/d/([-\w]+)", done.stdout)) == uids
    return found


def test_releases_do_not_fight_over_dashboards() -> None:
    """A Grafana that finds those of all keeps each apart: by file, by uid and by title."""
    found = [
        *boards("weir"),
        *boards("orders"),
        *boards("a-release-whose-name-is-as-long-as-helm-lets-it-be"),
        # From two namespaces into the one where Grafana looks.
        *boards("weir", "jobs", namespace="monitoring"),
        *boards("weir", "fraud", namespace="monitoring"),
    ]
    names = [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in found]
    assert len(set(names)) == len(names)
    keys = [name for one in found for name in one["data"]]
    assert len(set(keys)) == len(keys)
    shown = [json.loads(text) for one in found for text in one["data"].values()]
    for key in ("uid", "title"):
        assert len({board[key] for board in shown}) == len(shown), key
    # As Grafana takes them.
    assert all(re.fullmatch(r"[-\w]{1,40}", board["uid"]) for board in shown)
    titles = {board["title"] for board in shown}
    assert {"Weir / Query", "Weir / Query (orders-weir)", "Weir / Query (fraud/weir)"} <= titles


def test_one_release_keeps_its_boards_over_upgrades() -> None:
    assert boards("orders") == boards("orders")
    plain = {name: json.loads(text) for one in boards("weir") for name, text in one["data"].items()}
    assert plain == {path.name: json.loads(path.read_text()) for path in DASHBOARDS}
    # Where the namespace is the release's own it is the same as not told.
    assert boards("weir", namespace=chart.NAMESPACE) == boards("weir")
