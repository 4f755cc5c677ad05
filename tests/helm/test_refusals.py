"""Values that contradict each other, or that no key knows, stop helm with a sentence that helps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from agent.service import config
from tests.helm.chart import (
    CHART,
    IMAGE,
    ROOT,
    Values,
    helm,
    merged,
    refusal,
    render,
    spark_application,
)
from tests.helm.matrix import MATRIX

if TYPE_CHECKING:
    from pathlib import Path

#: What is wrong, the values, and what the sentence must say: the key, and what to set.
CONTRADICTIONS: list[tuple[str, Values, list[str]]] = [
    ("no image", {"image": {"repository": ""}}, ["image.repository is empty", "build", "push"]),
    (
        "no token",
        {"token": {"create": False}},
        ["neither made nor given", "token.create=true", "token.existingSecret"],
    ),
    (
        "no token on every address, IPv6",
        {"token": {"create": False}, "agent": {"host": "::"}},
        ["agent.host ::", "neither made nor given"],
    ),
    (
        "sidecar beyond loopback without a token",
        {"mode": "sidecar", "token": {"create": False}},
        ["neither made nor given", "token.create=true", "or agent.host=127.0.0.1"],
    ),
    (
        "a parent chart's value without a parent chart",
        {"enabled": False},
        ["enabled: false turns nothing off here", "leave it out"],
    ),
    (
        "two tokens",
        {"token": {"create": True, "existingSecret": "ours"}},
        ["token.create=false", '"ours"'],
    ),
    (
        "shared agent that nobody reaches",
        {"agent": {"host": "127.0.0.1"}},
        ["agent.host is 127.0.0.1", "agent.host=0.0.0.0", "mode=sidecar"],
    ),
    ("the same by name", {"agent": {"host": "localhost"}}, ["agent.host is localhost"]),
    ("the same in IPv6", {"agent": {"host": "::1"}}, ["agent.host is ::1"]),
    ("one address, which no pod has", {"agent": {"host": "10.1.2.3"}}, ["agent.host is 10.1.2.3,"]),
    (
        "a token of drivers beside a made one",
        {"token": {"driverSecret": "drivers"}},
        ["token.driverSecret", "token.create=false", '"drivers"'],
    ),
    (
        "a token of drivers alone",
        {
            "mode": "sidecar",
            "agent": {"host": "127.0.0.1"},
            "token": {"create": False, "driverSecret": "drivers"},
        },
        ["token.driverSecret: there is no token that opens more", "token.existingSecret"],
    ),
    (
        "one Secret for both",
        {"token": {"create": False, "existingSecret": "ours", "driverSecret": "ours"}},
        ['are both "ours"', "name another Secret, or unset token.driverSecret"],
    ),
    (
        "a Secret of which Spark can name no volume",
        {"token": {"create": False, "existingSecret": "ours", "driverSecret": "weir.token"}},
        ['token.driverSecret is "weir.token"', "weir.token-volume", "no dot and at most 56"],
    ),
    (
        "one of a name too long for it",
        {"token": {"create": False, "existingSecret": "a.b", "driverSecret": "d" * 57}},
        [f'token.driverSecret is "{"d" * 57}"', "no dot and at most 56"],
    ),
    (
        "asks for a token that is not",
        {
            "mode": "sidecar",
            "agent": {"host": "127.0.0.1"},
            "token": {"create": False},
            "config": {"live_need_token": True},
        },
        ["config.live_need_token", "token.create=true"],
    ),
    (
        "the release's namespace once more",
        {"drivers": {"namespaces": ["jobs"]}},
        ["drivers.namespaces", "jobs", "leave it out"],
    ),
    (
        "limits crossed",
        {"config": {"minimum_limit": 100, "maximum_limit": 10}},
        ["maximum_limit in config: 10 is below minimum_limit 100", "lower the second"],
    ),
    (
        "limits crossed by a rule and what it leaves to the options",
        {"config": {"minimum_limit": 100, "rules": [{"match": "a/*", "maximum_limit": 10}]}},
        ["maximum_limit in config.rules (a/*): 10 is below minimum_limit 100"],
    ),
    (
        "a target above the deadline",
        {"config": {"target_seconds": 90, "deadline_seconds": 60}},
        ["target_seconds in config: 90 is above deadline_seconds 60", "raise the second"],
    ),
    (
        "a deadline below the target that nobody set",
        {"config": {"deadline_seconds": 2.5}},
        ["target_seconds in config: 5 is above deadline_seconds 2.5"],
    ),
    (
        "a rule's target above the deadline of all",
        {"config": {"deadline_seconds": 60, "rules": [{"match": "b*", "target_seconds": 600}]}},
        ["target_seconds in config.rules (b*): 600 is above deadline_seconds 60"],
    ),
    (
        "executors without a maximum",
        {"config": {"executors": "on"}},
        ["executors in config: on needs maximum_executors", "executors: dry-run"],
    ),
    (
        "executors without a maximum, as YAML reads on",
        {"config": {"rules": [{"match": "a", "executors": True}]}},
        ["executors in config.rules (a): on needs maximum_executors"],
    ),
    (
        "executors crossed",
        {"config": {"executors": "on", "minimum_executors": 4, "maximum_executors": 2}},
        ["maximum_executors in config: 2 is below minimum_executors 4"],
    ),
    (
        "a label that no series can have",
        {"config": {"labels": {"cost-centre": "7"}}},
        ['config.labels: "cost-centre" cannot be a label\'s name', "letters, digits and _"],
    ),
    (
        "a label of Weir's own",
        {"config": {"labels": {"query": "a"}}},
        ['config.labels: "query" is a label that Weir or Prometheus sets itself', "rename yours"],
    ),
    (
        "a label of two lines",
        {"config": {"labels": {"cluster": "a\nb"}}},
        ["config.labels: the value", "of cluster does not print"],
    ),
    (
        "a group without brokers",
        {"config": {"kafka_commit_group": "weir-{application}-{query}"}},
        ["config.kafka_commit_group: there are no brokers", "config.kafka_bootstrap_servers"],
    ),
    (
        "one group for all queries",
        {
            "config": {
                "kafka_bootstrap_servers": "kafka:9092",
                "kafka_commit_group": "weir-{application}",
            },
            "networkPolicy": {"enabled": False},
        },
        ['config.kafka_commit_group: "weir-{application}" gives no group to each query'],
    ),
    (
        "a scrape that lasts longer than to the next",
        {"monitor": {"enabled": True, "interval": "5s"}, "networkPolicy": {"enabled": False}},
        ["monitor.interval 5s is below monitor.scrapeTimeout 10s", "raise the first"],
    ),
    (
        "the same in other units",
        {
            "monitor": {"enabled": True, "interval": "1m500ms", "scrapeTimeout": "61s"},
            "networkPolicy": {"enabled": False},
        },
        ["monitor.interval 1m500ms is below monitor.scrapeTimeout 61s"],
    ),
    (
        "scrapes so far apart that alerts flap",
        {"mode": "sidecar", "monitor": {"enabled": True, "interval": "1m15s"}},
        ["monitor.interval 1m15s is above 1m", "give 1m or less"],
    ),
    (
        "a scrape every no seconds",
        {"mode": "sidecar", "monitor": {"enabled": True, "interval": "0s"}},
        ["monitor.interval 0s and", "neither may be zero", "15s and 10s"],
    ),
    (
        "a request above the chart's limit",
        {"resources": {"requests": {"memory": "1Gi"}}},
        ["resources.requests.memory 1Gi is above resources.limits.memory 384Mi", "set both"],
    ),
    (
        "a limit below the chart's request",
        {"resources": {"limits": {"cpu": 0.05}}},
        ["resources.requests.cpu 100m is above resources.limits.cpu 0.05", "set both"],
    ),
    (
        "the same beside a driver",
        {"mode": "sidecar", "sidecar": {"resources": {"limits": {"memory": "64Mi"}}}},
        ["sidecar.resources.requests.memory 112Mi is above sidecar.resources.limits.memory 64Mi"],
    ),
    (
        "a volume of no size",
        {"persistence": {"size": "0"}},
        ["persistence.size is 0,", "persistence.size=1Gi", "persistence.enabled=false"],
    ),
    ("the same as a number", {"persistence": {"size": 0}}, ["persistence.size is 0,"]),
    ("the same with a unit", {"persistence": {"size": "0.0Gi"}}, ["persistence.size is 0.0Gi,"]),
    (
        "a number for a Service's name",
        {"fullnameOverride": "123"},
        ["release name", 'called "123"', "fullnameOverride", "such as weir-123"],
    ),
    (
        "a Service's name with a dot",
        {"nameOverride": "orders.eu"},
        ['called "weir-orders.eu"', "such as weir-orders-eu"],
    ),
    (
        "a port of the driver's",
        {"mode": "sidecar", "agent": {"port": 7078}},
        ["agent.port is 7078", "spark.driver.port", "such as 9655"],
    ),
    (
        "another one",
        {"mode": "sidecar", "agent": {"port": 7079}},
        ["agent.port is 7079", "spark.driver.blockManager.port"],
    ),
    (
        "the port of the driver's interface",
        {"mode": "sidecar", "agent": {"port": 4141}, "networkPolicy": {"driverUiPort": 4141}},
        ["agent.port is 4141", "spark.ui.port"],
    ),
    (
        "a label by which the pod is chosen",
        {"podLabels": {"app.kubernetes.io/name": "ours"}},
        ["podLabels has app.kubernetes.io/name", "sets itself", "leave it out"],
    ),
    (
        "the same on every object",
        {"mode": "sidecar", "commonLabels": {"app.kubernetes.io/instance": "ours"}},
        ["commonLabels has app.kubernetes.io/instance"],
    ),
    (
        "a label by which Prometheus finds the Service",
        {"commonLabels": {"weir.agent/instance": "ours"}},
        ["commonLabels has weir.agent/instance", "sets itself", "leave it out"],
    ),
    (
        "a label by which helm knows its own",
        {"dashboards": {"labels": {"app.kubernetes.io/managed-by": "us"}}},
        ["dashboards.labels has app.kubernetes.io/managed-by"],
    ),
    (
        "an application that names no object",
        {
            "mode": "sidecar",
            "sidecar": {"livenessProbe": {"enabled": True, "application": "7 seas", "query": "q"}},
        },
        ['sidecar.livenessProbe.application: of "7 seas" no object', "spark.app.name", "a letter"],
    ),
    (
        "an application without a Latin letter",
        {
            "mode": "sidecar",
            "sidecar": {"livenessProbe": {"enabled": True, "application": "受注", "query": "q"}},
        },
        ['of "受注" no object can be named'],
    ),
    (
        "a claim without persistence",
        {"persistence": {"enabled": False, "existingClaim": "ours"}},
        ["persistence.enabled=true", '"ours"'],
    ),
    (
        "no service account",
        {"serviceAccount": {"create": False}},
        ["serviceAccount.create=true", "serviceAccount.name"],
    ),
    (
        "a monitor that may not come in",
        {"monitor": {"enabled": True}},
        ["networkPolicy.from is empty", "namespaceSelector", "networkPolicy.enabled=false"],
    ),
    (
        "sidecar's claim on a shared agent",
        {"sidecar": {"existingClaim": "ours"}},
        ["mode=sidecar", "persistence.existingClaim"],
    ),
    (
        "brokers out of reach",
        {"config": {"kafka_bootstrap_servers": "kafka:9092"}},
        ["networkPolicy.egress is empty", "config.kafka_bootstrap_servers", "port: 9092"],
    ),
    (
        "a mount of nothing",
        {"extraVolumeMounts": [{"name": "logs", "mountPath": "/logs"}]},
        ['"logs"', "extraVolumes"],
    ),
    (
        "TLS inside a pod",
        {"mode": "sidecar", "tls": {"secretName": "weir-tls"}},
        ["tls.secretName", "unset it"],
    ),
    (
        "an agent where its driver does not ask",
        {"mode": "sidecar", "agent": {"host": "::1"}, "token": {"create": False}},
        ["agent.host is ::1", "the driver asks its agent at 127.0.0.1", "agent.host=0.0.0.0"],
    ),
    ("the same by a name", {"mode": "sidecar", "agent": {"host": "localhost"}}, ["is localhost,"]),
    ("beside it", {"mode": "sidecar", "agent": {"host": "127.0.0.2"}}, ["host is 127.0.0.2,"]),
    ("one address of many", {"mode": "sidecar", "agent": {"host": "10.1.2.3"}}, ["is 10.1.2.3,"]),
    (
        "Kafka's options beside a driver",
        {
            "mode": "sidecar",
            "config": {"kafka_bootstrap_servers": "b:9092", "kafka_options_file": "/etc/kafka/o"},
        },
        ["config.kafka_options_file", "brings /etc/kafka/o into", "mode=shared with extraVolumes"],
    ),
    (
        "a record that would get the driver's pod evicted",
        {"mode": "sidecar", "config": {"record_file": "/tmp/events.jsonl"}},
        ["config.record_file: /tmp/events.jsonl is on no volume", "such as /var/lib/weir/events.j"],
    ),
    (
        "event logs beside a driver",
        {
            "mode": "sidecar",
            "config": {"event_log_dirs": ["/logs"]},
            "extraVolumes": [{"name": "logs"}],
            "extraVolumeMounts": [{"name": "logs", "mountPath": "/logs"}],
        },
        ["config.event_log_dirs: /logs is on no volume", "unset it, or set mode=shared"],
    ),
    (
        "event logs that are nowhere",
        {
            "config": {"event_log_dirs": ["/logs/a", "/var/log"]},
            "extraVolumes": [{"name": "logs"}],
            "extraVolumeMounts": [{"name": "logs", "mountPath": "/logs"}],
        },
        ["config.event_log_dirs: /var/log is on no volume", "by extraVolumes and extra"],
    ),
    (
        "sidecars in other namespaces",
        {"mode": "sidecar", "drivers": {"namespaces": ["orders"]}},
        ["drivers.namespaces", "once per namespace"],
    ),
    (
        "the shared agent's claim for sidecars",
        {"mode": "sidecar", "persistence": {"existingClaim": "ours"}},
        ["sidecar.existingClaim", "one for each job"],
    ),
    (
        "a monitor of loopback",
        {"mode": "sidecar", "agent": {"host": "127.0.0.1"}, "monitor": {"enabled": True}},
        ["monitor.enabled", "agent.host=0.0.0.0"],
    ),
    (
        "a probe of no query",
        {"mode": "sidecar", "sidecar": {"livenessProbe": {"enabled": True}}},
        ["sidecar.livenessProbe.application", "sidecar.livenessProbe.query"],
    ),
    (
        "a probe that would need a token",
        {
            "mode": "sidecar",
            "config": {"live_need_token": True},
            "sidecar": {"livenessProbe": {"enabled": True, "application": "a", "query": "q"}},
        },
        ["config.live_need_token=false"],
    ),
]

#: Values that are wrong by themselves: the schema's, which names where.
MISFITS: list[tuple[str, Values, list[str]]] = [
    ("unknown key", {"tokne": {"create": True}}, ["additional properties 'tokne' not allowed"]),
    ("unknown key inside", {"token": {"made": True}}, ["/token", "'made' not allowed"]),
    ("misspelt option", {"config": {"target_second": 5}}, ["/config", "'target_second'"]),
    ("an option of the chart's", {"config": {"host": "::"}}, ["/config", "'host' not allowed"]),
    ("enabled in words", {"enabled": "no"}, ["/enabled", "boolean"]),
    ("unknown mode", {"mode": "deployment"}, ["/mode", "'shared', 'sidecar'"]),
    ("replicas", {"replicas": 2}, ["'replicas' not allowed"]),
    (
        "a scrape of no interval",
        {"monitor": {"enabled": True, "interval": None}, "networkPolicy": {"enabled": False}},
        ["/monitor", "missing property 'interval'"],
    ),
    (
        "a scrape that ends at no time",
        {"monitor": {"enabled": True, "scrapeTimeout": None}, "networkPolicy": {"enabled": False}},
        ["/monitor", "missing property 'scrapeTimeout'"],
    ),
    (
        "a probe that is left empty",
        {"sidecar": {"livenessProbe": None}},
        ["/sidecar", "missing property 'livenessProbe'"],
    ),
    ("port as text", {"agent": {"port": "9655"}}, ["/agent/port", "want integer"]),
    ("a port for root", {"agent": {"port": 80}}, ["/agent/port", "minimum: got 80"]),
    ("target of zero", {"config": {"target_seconds": 0}}, ["/config/target_seconds"]),
    ("deadline in words", {"config": {"deadline_seconds": "60s"}}, ["/config/deadline_seconds"]),
    ("rule without match", {"config": {"rules": [{"mode": "off"}]}}, ["/rules/0", "'match'"]),
    ("unknown rule", {"config": {"rules": [{"match": "a", "limit": 1}]}}, ["/rules/0", "'limit'"]),
    ("half a digest", {"image": {"digest": "sha256:abc"}}, ["/image/digest"]),
    ("tag in the repository", {"image": {"repository": "a/b:1"}}, ["/image/repository"]),
    ("anybody may come in", {"networkPolicy": {"from": [{}]}}, ["/networkPolicy/from/0"]),
    ("a size without sense", {"persistence": {"size": "big"}}, ["/persistence/size"]),
    ("a path for a runbook", {"runbooksUrl": "docs/runbooks"}, ["/runbooksUrl"]),
    ("a truth value as text", {"monitor": {"enabled": "yes"}}, ["/monitor/enabled", "boolean"]),
    ("a label that is a number", {"dashboards": {"labels": {"a": 1}}}, ["/dashboards/labels/a"]),
    ("memory in words", {"resources": {"limits": {"memory": "lots"}}}, ["/resources/limits"]),
    ("memory in thousandths", {"resources": {"limits": {"memory": "384m"}}}, ["/limits/memory"]),
    ("a small ki", {"resources": {"limits": {"memory": "9999999ki"}}}, ["/limits/memory"]),
    ("no such resource", {"resources": {"limits": {"mem": "1Gi"}}}, ["/limits", "'mem'"]),
    ("a value that no label has", {"commonLabels": {"team": "data team"}}, ["/commonLabels/team"]),
    ("a name that no label has", {"podLabels": {"-team": "a"}}, ["propertyName '-team'"]),
    ("two dots", {"token": {"create": False, "existingSecret": "a..b"}}, ["/existingSecret"]),
    ("a namespace with a dot", {"drivers": {"namespaces": ["a.b"]}}, ["/drivers/namespaces/0"]),
    ("a duration upside down", {"monitor": {"interval": "1s10m"}}, ["/monitor/interval"]),
    (
        "a long label",
        {"config": {"labels": {"a": "x" * 201}}},
        ["/config/labels/a", "maxLength: got 201, want 200"],
    ),
    ("root's group", {"sidecar": {"fsGroup": 0}}, ["/sidecar/fsGroup", "minimum: got 0"]),
    ("a name as a number", {"fullnameOverride": 123}, ["/fullnameOverride", "want string"]),
]


@pytest.mark.parametrize(
    ("values", "says"),
    [case[1:] for case in CONTRADICTIONS],
    ids=[case[0] for case in CONTRADICTIONS],
)
def test_contradicting_values_end_with_what_to_set(values: Values, says: list[str]) -> None:
    error = refusal(merged(IMAGE, values))
    (line,) = [part for part in error.splitlines() if part.startswith("Error:")]
    for word in says:
        assert word in line, line
    assert "nil pointer" not in error


@pytest.mark.parametrize(
    ("values", "says"), [case[1:] for case in MISFITS], ids=[case[0] for case in MISFITS]
)
def test_wrong_values_are_refused_by_the_schema(values: Values, says: list[str]) -> None:
    error = refusal(merged(IMAGE, values))
    assert "don't meet the specifications of the schema" in error
    for word in says:
        assert word in error, error


#: What is refused by what a cluster holds: tests/helm/test_upgrade.py and test_apiserver.py.
OF_A_CLUSTER = [
    "tls.caKey: the Secret ",
    "token: the Secret ",
    "token: the Secrets ",
    "config.metrics_need_token: the Secret ",
]


def test_each_sentence_of_the_checks_has_a_case() -> None:
    text = (CHART / "templates" / "_checks.tpl").read_text()
    beginnings = re.findall(r'fail (?:\(printf )?"([^"%]{6,}?)(?:%|"| is )', text)
    assert len(beginnings) == text.count("fail ")
    said = "\n".join(refusal(merged(IMAGE, values)) for _, values, _ in CONTRADICTIONS)
    assert {one for one in beginnings if one not in said} == set(OF_A_CLUSTER)


def test_the_page_marks_what_only_a_cluster_tells() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    table = page.partition("\n## What the chart refuses\n")[2].partition("\n## ")[0]
    marked = [line for line in table.splitlines() if line.startswith("| †")]
    keys = ["token.key", "both Secrets", "metrics_need_token", "tls.caKey"]
    assert [next(key for key in keys if key in row) for row in marked] == keys
    assert len(marked) == len(OF_A_CLUSTER)


#: Options, each refused by the agent, and by the chart before there is a pod.
REFUSED: list[Values] = [
    {"labels": {"a-b": "x"}},
    {"labels": {"_a": "x"}},
    {"labels": {"1a": "x"}},
    {"labels": {"": "x"}},
    {"labels": {"le": "x"}},
    {"labels": {"job": "x"}},
    {"labels": {"source": "x"}},
    {"labels": {"a": "tab\t"}},
    {"labels": {"a": "no\u00a0break"}},
    {"labels": {"a": "hidden\u200b"}},
    {"labels": {"a": "x" * 201}},
    {"labels": {"a": 7}},
    {"labels": {f"a{n}": "x" for n in range(11)}},
    {"minimum_limit": 2, "maximum_limit": 1},
    {"executors": "on"},
    {"rules": [{"match": "a", "executors": "on"}]},
    {"executors": "dry-run", "minimum_executors": 3, "maximum_executors": 2},
    {"minimum_executors": 3, "rules": [{"match": "a", "maximum_executors": 2}]},
    {"kafka_options_file": "/a"},
    {"kafka_commit_group": "weir-{application}-{query}"},
    *(
        {"kafka_bootstrap_servers": "kafka:9092", "kafka_commit_group": group}
        for group in ("weir", "{query}", "{application}{query}{topic}", "{application}-{query}}")
    ),
]
TAKEN: list[Values] = [
    {"labels": {"a1_B": "Größe: 10 €, 注文"}},
    {"labels": {"namespace": "x" * 200, "cluster": ""}},
    {"minimum_limit": 1, "maximum_limit": 1},
    {"target_seconds": 60, "deadline_seconds": 60},
    {"executors": "on", "maximum_executors": 1},
    {"rules": [{"match": "a", "executors": True, "maximum_executors": 4}]},
    {"maximum_executors": 2, "rules": [{"match": "a", "executors": "on", "minimum_executors": 2}]},
    {"kafka_bootstrap_servers": "kafka:9092", "kafka_commit_group": "{query}.{application}"},
]


@pytest.mark.parametrize("options", [*REFUSED, *TAKEN], ids=str)
def test_the_chart_refuses_what_the_agent_would(options: Values, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(options, allow_unicode=True))
    try:
        taken = not config.load({}, {}, str(file))[1]  # what the agent warns of is refused, too
    except config.ConfigError:
        taken = False
    assert taken is (options in TAKEN)
    values = merged(IMAGE, {"config": options, "networkPolicy": {"enabled": False}})
    done = helm("template", "weir", str(CHART), values=values)
    assert (done.returncode == 0) is taken, done.stderr


def test_what_is_not_used_is_not_refused() -> None:
    """A wrong value of something that is off harms nobody."""
    for values in (
        {"monitor": {"interval": "5s"}},
        {"sidecar": {"resources": {"limits": {"memory": "1Mi"}}}},
        {"mode": "sidecar", "resources": {"limits": {"memory": "1Mi"}}},
        {"persistence": {"enabled": False, "size": "0"}},
        {"agent": {"port": 7078}},
        {"mode": "sidecar", "fullnameOverride": "123"},
        {"token": {"create": False, "existingSecret": "a.b", "driverSecret": "d" * 56}},
        {"token": {"create": False, "existingSecret": "a.b"}},
        {
            "mode": "sidecar",
            "token": {"create": False, "existingSecret": "a.b", "driverSecret": "c.d"},
        },
    ):
        render(values)


@pytest.mark.parametrize(
    ("mode", "file", "held"),
    [
        ("shared", "/var/lib/weir/events.jsonl", True),
        ("sidecar", "/var/lib/weir/records/events.jsonl", True),
        ("sidecar", "events.jsonl", True),  # below the folder in which the image's command runs
        ("shared", "/records/events.jsonl", True),
        ("shared", "/tmp/events.jsonl", False),
        ("shared", "/recordings/events.jsonl", False),
        ("sidecar", "/var/lib/weird", False),
        ("sidecar", "/var/lib/weir/../weir.jsonl", False),
        ("sidecar", "../../../tmp/events.jsonl", False),
        ("sidecar", "/records/events.jsonl", False),  # a shared agent's own volumes
    ],
)
def test_a_record_is_on_a_volume_that_holds_it(mode: str, file: str, held: bool) -> None:
    values = merged(
        IMAGE,
        {
            "mode": mode,
            "config": {"record_file": file},
            "extraVolumes": [{"name": "ours", "persistentVolumeClaim": {"claimName": "ours"}}],
            "extraVolumeMounts": [{"name": "ours", "mountPath": "/records/"}],
        },
    )
    if held:
        render(values)
        return
    error = refusal(values)
    assert f"config.record_file: {file} is on no volume" in error
    assert ("extraVolumeMounts" in error) is (mode == "shared")


def test_event_logs_may_be_in_a_volumes_own_folder_or_below_it() -> None:
    logs: Values = {
        "extraVolumes": [{"name": "logs", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "logs", "mountPath": "/logs/"}],
    }
    for mode, folders in (("shared", ["/logs", "/logs/a", "/var/lib/weir"]), ("sidecar", ["a"])):
        render({"mode": mode, **logs, "config": {"event_log_dirs": folders}})


def test_an_application_names_an_object_as_it_can() -> None:
    """The operator makes Services of it: letters a to z, digits and hyphens, a letter first."""
    for application, name in {
        "orders of today": "orders-of-today",
        "Orders_2024": "orders-2024",
        "(a) b+c/d": "a-b-c-d",
        "x" * 49 + "..y": "x" * 49,
    }.items():
        probe = {"enabled": True, "application": application, "query": "q"}
        objects = render({"mode": "sidecar", "sidecar": {"livenessProbe": probe}})
        assert spark_application(objects)["metadata"]["name"] == name


@pytest.mark.parametrize("name", MATRIX)
def test_lint_finds_nothing(name: str) -> None:
    done = helm("lint", "--strict", "helm/weir", values=merged(IMAGE, MATRIX[name]))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[" not in done.stdout, "an error, a warning or a recommendation"
    assert done.stderr == ""


def test_lint_does_not_stop_at_an_image_that_is_not_set_yet() -> None:
    done = helm("lint", "--strict", "helm/weir")
    assert done.returncode == 0, done.stdout + done.stderr
