"""examples/monitoring, as a stranger takes it: the programs' own checks, and the links it makes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from alerts import generate
from tests.dashboards.live import tool

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "monitoring"
GRAFANA = EXAMPLES / "grafana" / "provisioning"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def passes(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_its_configuration_and_the_rules_that_it_names() -> None:
    path = EXAMPLES / "prometheus.yml"
    passes(tool("promtool"), "check", "config", path)
    [rules] = read(path)["rule_files"]
    assert (EXAMPLES / rules).resolve() == generate.DIRECTORY / generate.RULES


def test_alertmanager_takes_the_receivers_in_place_of_the_web_hooks(tmp_path: Path) -> None:
    config = yaml.safe_load(generate.alertmanager())
    ours = {one["name"] for one in config["receivers"]}
    config |= read(EXAMPLES / "receivers.yml")
    assert {one["name"] for one in config["receivers"]} == ours
    path = tmp_path / "alertmanager.yml"
    path.write_text(yaml.safe_dump(config), "utf-8")
    passes(tool("amtool"), "check-config", path)


def test_receivers_tell_what_every_alert_says() -> None:
    named = set(re.findall(r"Annotations\.(\w+)", (EXAMPLES / "receivers.yml").read_text("utf-8")))
    rules = yaml.safe_load(generate.rules())["groups"]
    alerts = [rule for group in rules for rule in group["rules"] if "alert" in rule]
    assert len(alerts) > 20
    assert all(named <= rule["annotations"].keys() for rule in alerts)


def test_grafana_s_files_name_what_is_there() -> None:
    [source] = read(GRAFANA / "datasources" / "prometheus.yml")["datasources"]
    [provider] = read(GRAFANA / "dashboards" / "weir.yml")["providers"]
    assert provider["options"]["path"].endswith("/weir")
    for path in (ROOT / "dashboards" / "generated").glob("*.json"):
        variables = json.loads(path.read_text("utf-8"))["templating"]["list"]
        [asked] = [one for one in variables if one["type"] == "datasource"]
        assert asked["query"] == source["type"]


def test_the_pages_show_these_files() -> None:
    for page, paths in {
        "alerts.md": [EXAMPLES / "receivers.yml", EXAMPLES / "prometheus.yml"],
        "dashboards.md": list(GRAFANA.glob("*/*.yml")),
    }.items():
        text = (ROOT / "docs" / page).read_text("utf-8")
        for path in paths:
            assert str(path.relative_to(ROOT)) in text, (page, path)
