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


def test_a_driver_that_is_gone_with_its_agent_is_told_for_a_day(tmp_path: Path) -> None:
    rules = EXAMPLES / "sidecar.rules.yml"
    passes(tool("promtool"), "check", "rules", "--lint-fatal", rules)

    def of(query: str, instance: str) -> str:
        return f'{{application="orders",query="{query}",cluster="eu",instance="{instance}"}}'

    told = {
        "weir_query_up": {
            of("killed", "a"): "1x10 _x1500",
            of("moved", "a"): "1x10 _x1500",  # its driver came back at another address
            of("moved", "b"): "_x11 1x1500",
            of("stopped", "a"): "1x9 0x1 _x1500",
            of("killed", "z"): "1x3 0x1 _x1500",  # stopped, and started again at another address
            of("failed", "a"): "1x9 0x1 _x1500",  # and its pod ended before that was told
            of("retired", "lives"): "1x4 0x6 _x1500",
        },
        "weir_query_stopped": {
            of("killed", "a"): "0x10 _x1500",
            of("moved", "a"): "0x10 _x1500",
            of("moved", "b"): "_x11 0x1500",
            of("stopped", "a"): "0x9 1x1 _x1500",
            of("killed", "z"): "0x3 1x1 _x1500",
            of("failed", "a"): "0x10 _x1500",
            of("retired", "lives"): "0x10 _x1500",
        },
        "weir_build_info": {
            '{instance="lives"}': "1x30 _x1500",  # longer than the query, and ends as its pod does
            '{instance="a"}': "1x10 _x1500",
            '{instance="b"}': "_x11 1x1500",
            '{instance="z"}': "1x5 _x1500",
        },
    }

    def gone(query: str) -> dict[str, Any]:
        return {
            "exp_labels": {
                "application": "orders",
                "query": query,
                "cluster": "eu",
                "severity": "critical",
                "component": "weir",
            },
            "exp_annotations": {
                "summary": f"orders/{query} is gone, and its driver with it",
                "description": "Nothing of its input is processed since its pod ended.",
            },
        }

    both = gone("failed"), gone("killed")

    def at(minute: int, *expected: Any) -> dict[str, Any]:
        asked = {"eval_time": f"{minute}m", "alertname": "WeirDriverGone"}
        return asked | {"exp_alerts": list(expected)}

    series = [
        {"series": name + labels, "values": values}
        for name, by_labels in told.items()
        for labels, values in by_labels.items()
    ]
    path = tmp_path / "tests.json"
    tests = [
        {
            "interval": "1m",
            "input_series": series,
            # It looks alive for five minutes, and three are waited for.
            "alert_rule_test": [at(17), *(at(m, *both) for m in (21, 39, 43, 1440)), at(1460)],
        },
        {  # stopped, told, and gone with its pod, all between two looks of the rules
            "interval": "5s",
            "input_series": [
                {"series": "weir_query_stopped" + of("stopped", "s"), "values": "0x3 1 stale"},
                {"series": "weir_query_up" + of("stopped", "s"), "values": "1x3 0 stale"},
                {"series": 'weir_build_info{instance="s"}', "values": "1x4 stale"},
            ],
            "alert_rule_test": [at(10), at(60)],
        },
    ]
    path.write_text(json.dumps({"rule_files": [str(rules)], "tests": tests}))
    passes(tool("promtool"), "test", "rules", path)


def test_a_ruler_s_own_label_on_what_it_records_keeps_no_driver_from_being_told(
    tmp_path: Path,
) -> None:
    """Thanos' ruler needs external labels, and what is scraped does not have them.

    Of two for safety, each at its own moment, whoever reads from both sees both.
    """
    rules = read(EXAMPLES / "sidecar.rules.yml")
    for group in rules["groups"]:
        group["rules"] = [one for one in group["rules"] if "alert" in one]
    (tmp_path / "alert.json").write_text(json.dumps(rules))
    agent = 'job="weir",instance="a",pod="a"'
    of = f'{{application="orders",query="%s",cluster="eu",namespace="jobs",{agent}%s}}'
    given = {
        "weir_query_stopped" + of % ("killed", ""): "0x10 _x60",
        "weir_query_up" + of % ("killed", ""): "1x10 _x60",
        # Stopped between the rules' last look and the last scrape.
        "weir_query_stopped" + of % ("stopped", ""): "0x9 1 _x60",
        "weir_query_up" + of % ("stopped", ""): "1x9 0 _x60",
        f"weir_build_info{{{agent}}}": "1x10 _x60",
    }
    for ruler, begins in {"r": 0, "s": 5}.items():
        own = f',ruler="{ruler}"'
        lived = f"{begins}+60x10 _x60"  # each look's time, as recorded until the pod ended
        for query in ("killed", "stopped"):
            name = "query:weir_query_stopped:last_zero_timestamp_seconds" + of % (query, own)
            given[name] = lived
        given[f"agent:weir_build_info:last_timestamp_seconds{{{agent}{own}}}"] = lived
    asked = {
        "expr": 'ALERTS{alertname="WeirDriverGone",alertstate="firing"}',
        "eval_time": "30m",
        "exp_samples": [
            {
                "labels": 'ALERTS{alertname="WeirDriverGone",alertstate="firing",'
                'severity="critical",component="weir",application="orders",query="killed",'
                'cluster="eu",namespace="jobs"}',
                "value": 1,
            }
        ],
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in given.items()],
        "promql_expr_test": [asked],
    }
    path = tmp_path / "tests.json"
    path.write_text(json.dumps({"rule_files": ["alert.json"], "tests": [test]}))
    passes(tool("promtool"), "test", "rules", path)


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
    [source] = read(GRAFANA / "datasources" / "weir.yml")["datasources"]
    # Grafana takes what has its name for an older version, and starts with one default at most.
    assert source["name"] != "Prometheus"
    assert not source.get("isDefault")
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
