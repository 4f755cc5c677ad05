"""Values that contradict each other, or that no key knows, stop helm with a sentence that helps."""

from __future__ import annotations

import re

import pytest

from tests.helm.chart import CHART, IMAGE, Values, helm, merged, refusal
from tests.helm.matrix import MATRIX

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
        ["config.maximum_limit is below config.minimum_limit"],
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
        "a probe of loopback",
        {
            "mode": "sidecar",
            "agent": {"host": "127.0.0.1"},
            "sidecar": {"livenessProbe": {"enabled": True, "application": "a", "query": "q"}},
        },
        ["sidecar.livenessProbe", "agent.host=0.0.0.0"],
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
    ("unknown mode", {"mode": "deployment"}, ["/mode", "'shared', 'sidecar'"]),
    ("replicas", {"replicas": 2}, ["'replicas' not allowed"]),
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


def test_each_sentence_of_the_checks_has_a_case() -> None:
    text = (CHART / "templates" / "_checks.tpl").read_text()
    beginnings = re.findall(r'fail (?:\(printf )?"([^"%]{6,}?)(?:%|"| is )', text)
    assert len(beginnings) == text.count("fail ")
    said = "\n".join(refusal(merged(IMAGE, values)) for _, values, _ in CONTRADICTIONS)
    assert [one for one in beginnings if one not in said] == []


@pytest.mark.parametrize("name", MATRIX)
def test_lint_finds_nothing(name: str) -> None:
    done = helm("lint", "--strict", "helm/weir", values=merged(IMAGE, MATRIX[name]))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout
    assert "[ERROR]" not in done.stdout


def test_lint_does_not_stop_at_an_image_that_is_not_set_yet() -> None:
    done = helm("lint", "--strict", "helm/weir")
    assert done.returncode == 0, done.stdout + done.stderr
