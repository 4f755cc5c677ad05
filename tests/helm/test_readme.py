"""The chart's page is what helm-docs makes of its values, and the schema is the agent's options."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import yaml

from helm import schema
from tests.helm.chart import CHART, ROOT, tool

if TYPE_CHECKING:
    from pathlib import Path


def test_the_page_is_what_helm_docs_makes(tmp_path: Path) -> None:
    shutil.copytree(CHART, tmp_path / "weir")
    (tmp_path / "weir" / "README.md").unlink()
    done = subprocess.run(
        [tool("helm-docs"), "--chart-search-root", str(tmp_path), "--skip-version-footer"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (CHART / "README.md").read_text() == (tmp_path / "weir" / "README.md").read_text(), (
        "make it anew: .make/tools/helm-docs --chart-search-root helm"
    )


def test_every_value_is_explained() -> None:
    """A row without words helps nobody; names that say all are allowed, in a list that is short."""
    plain = {"image.pullPolicy", "monitor.interval", "monitor.scrapeTimeout"}
    plain |= {"service.annotations", "serviceAccount.annotations"}
    rows = re.findall(r"^\| ([\w.]+) \| .*? \| (?:.*?) \| ?(.*?) ?\|$", page(), re.MULTILINE)
    assert len(rows) > 40
    assert {key for key, text in rows if not text} == plain


def test_what_a_shared_agents_pod_alone_has_says_so() -> None:
    """The table is in the order of the alphabet: what stands over a value says nothing of it."""
    template = (CHART / "templates" / "shared" / "statefulset.yaml").read_text("utf-8")
    beside = "".join(path.read_text("utf-8") for path in (CHART / "templates/sidecar").iterdir())
    used = set(re.findall(r"\.Values\.(\w+) ?[)}]", template)) | {"extraVolumeMounts"}
    alone = used - set(re.findall(r"\.Values\.(\w+)", beside))
    assert alone >= {"podLabels", "podAnnotations", "extraVolumes", "affinity", "tolerations"}
    for key in alone:
        (text,) = re.findall(rf"^\| {key} \| .* \| (.*) \|$", page(), re.MULTILINE)
        assert "Mode shared only" in text, key


def page() -> str:
    return (CHART / "README.md").read_text("utf-8")


def test_the_schema_has_the_agents_options() -> None:
    text = schema.FILE.read_text("utf-8")
    assert text == schema.text(text), "make it anew: python -m helm.schema"
    assert schema.FACTS.read_text("utf-8") == schema.facts(), "make it anew: python -m helm.schema"


def test_the_icon_is_the_pages() -> None:
    """In the chart itself: helm asks for one, and there is no address that stays."""
    icon = yaml.safe_load((CHART / "Chart.yaml").read_text())["icon"]
    kind, _, text = icon.partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(text) == (ROOT / "agent/export/page/assets/icon.svg").read_bytes()


def test_versions_are_the_projects() -> None:
    project = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert project
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["version"] == about["appVersion"] == project[1]
    for name in ("docs/deploy.md", "examples/kubernetes/README.md"):
        text = (ROOT / name).read_text("utf-8")
        for found in re.findall(r"weir[:-](\d+\.\d+\.\d+)", text):
            assert found == project[1], name
