"""The chart on a real API server: each mode installed, upgraded, uninstalled.

Namespaces ask for restricted pods, fields are validated strictly, a warning is an error, and helm
has nothing to say but its notes. What is wrong never reaches it.
"""

from __future__ import annotations

import base64
import copy
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.helm import chart
from tests.helm.apiserver import (
    RESTRICTED,
    ApiServer,
    RefusedError,
    message,
    monitoring_kinds,
    spark_application_kind,
)
from tests.helm.chart import CHART, IMAGE, RELEASE, merged
from tests.helm.matrix import MATRIX
from tests.helm.test_refusals import CONTRADICTIONS, MISFITS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.slow("builds Kubernetes' API server, and installs every entry of the matrix on it"),
    pytest.mark.timeout(600),
]
Thing = dict[str, Any]
#: What a user adds to a driver's container, as every container of theirs in such a namespace.
HARDENED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("apiserver")) as one:
        for kind in monitoring_kinds():
            one.define(kind)
        one.define(spark_application_kind())
        one.make(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 1000,
            }
        )
        for name in ("orders", "fraud", "grafana", chart.NAMESPACE):
            one.namespace(name, RESTRICTED)
        yield one


def objects_of(text: str) -> list[Thing]:
    return [one for one in yaml.safe_load_all(text) if one is not None]


def helm(server: ApiServer, verb: str, *arguments: str, values: chart.Values | None = None) -> str:
    """What helm prints; it must succeed and have no warning to give."""
    done = server.helm(verb, *arguments, values=values)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "helm has something to say"
    return done.stdout


def releases(server: ApiServer, namespace: str) -> list[str]:
    """What helm wrote down of releases, tried ones too."""
    names = server.names("v1", "Secret", namespace)
    return [name for name in names if name.startswith("sh.helm.release.")]


def pods(objects: list[Thing]) -> list[Thing]:
    """Those that controllers and Spark would make of a release's objects."""
    objects = [one for one in objects if one["kind"] in {"StatefulSet", "ConfigMap"}]
    objects.sort(key=lambda one: "config.yaml" not in one.get("data", {}))  # of its own namespace
    made = []
    for one in chart.of(objects, "StatefulSet"):
        template = one["spec"]["template"]
        claims = [
            claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", [])
        ]
        volumes = [
            {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-0"}}
            for claim in claims
        ]
        about = {**template["metadata"], "name": f"{one['metadata']['name']}-0"}
        spec = {
            **template["spec"],
            "hostname": about["name"],
            "subdomain": one["spec"]["serviceName"],
            "volumes": [*template["spec"]["volumes"], *volumes],
        }
        made.append({"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec})
    for one in chart.of(objects, "ConfigMap"):
        if "driver.yaml" in one["data"]:
            pod = yaml.safe_load(one["data"]["driver.yaml"])
            pod["metadata"]["name"] = "orders-driver"
            (driver,) = pod["spec"]["containers"]
            driver |= {"image": "registry.example.com/orders:1", "securityContext": HARDENED}
            made.append(pod)
    for pod in made:
        pod["metadata"]["namespace"] = objects[0]["metadata"]["namespace"]
    return made


def claims(objects: list[Thing]) -> list[Thing]:
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            **claim,
            "metadata": {
                **claim["metadata"],
                "namespace": one["metadata"]["namespace"],
                "name": f"{claim['metadata']['name']}-0",
            },
        }
        for one in chart.of(objects, "StatefulSet")
        for claim in one["spec"].get("volumeClaimTemplates", [])
    ]


def applications(objects: list[Thing]) -> list[Thing]:
    return [
        yaml.safe_load(one["data"]["spark-application.yaml"])
        for one in chart.of(objects, "ConfigMap")
        if "spark-application.yaml" in one["data"]
    ]


@pytest.mark.parametrize("name", MATRIX)
def test_it_is_installed_upgraded_and_uninstalled(server: ApiServer, name: str) -> None:
    values = merged(IMAGE, MATRIX[name])
    where = (RELEASE, "--namespace", name)
    server.namespace(name, RESTRICTED)
    helm(server, "install", RELEASE, str(CHART), *where[1:], values=values)
    objects = objects_of(helm(server, "get", "manifest", *where))
    kept = [server.get(one) for one in objects]
    assert all(kept)
    for one in objects:
        server.take_again(one)
    for one in [*pods(objects), *claims(objects), *applications(objects)]:
        server.take(one)

    changed = merged(values, {"config": {"target_seconds": 3}})
    helm(server, "upgrade", RELEASE, str(CHART), *where[1:], values=changed)
    after = objects_of(helm(server, "get", "manifest", *where))
    told = yaml.safe_load(
        next(one["data"]["config.yaml"] for one in after if "config.yaml" in one.get("data", {}))
    )
    assert told["target_seconds"] == 3
    for one, before in zip(objects, kept, strict=True):
        now = server.get(one)
        assert now is not None
        if one["kind"] == "Secret":
            assert now["data"] == before["data"], "running drivers were locked out"
        if one["kind"] == "StatefulSet":
            assert now["metadata"]["generation"] == 2, "the pod keeps the old options"
    for one in pods(after):
        server.take(one)

    helm(server, "uninstall", *where)
    assert [one["kind"] for one in objects if server.get(one)] == []
    assert releases(server, name) == []


@pytest.mark.parametrize("stored", [True, False])
def test_an_upgrade_that_goes_back_by_itself_keeps_a_new_token_that_helm_has_stored(
    server: ApiServer, stored: bool
) -> None:
    """docs/deploy.md's fourth step; without it what was rendered with the old one comes back."""
    namespace = f"renewed-{stored}".lower()
    where = ("--namespace", namespace)
    server.namespace(namespace, RESTRICTED)
    helm(server, "install", RELEASE, str(CHART), *where, values=IMAGE)
    objects = objects_of(helm(server, "get", "manifest", RELEASE, *where))
    secrets = chart.of(objects, "Secret")
    new = {"token": base64.b64encode(b"the-new-one").decode()}
    server.patch(secrets[0], {"data": new})
    if stored:
        helm(server, "upgrade", RELEASE, str(CHART), *where, "--reset-then-reuse-values")
    # No controller runs, so no pod ever gets ready.
    changed = ("--reuse-values", "--set", "config.target_seconds=3", "--atomic", "--timeout", "2s")
    done = server.helm("upgrade", RELEASE, str(CHART), *where, *changed)
    assert done.returncode != 0
    now = server.get(secrets[0])
    assert now is not None
    assert (now["data"] == new) is stored
    helm(server, "uninstall", RELEASE, *where)


def test_mode_is_changed_by_an_upgrade(server: ApiServer) -> None:
    """From one agent for all to one beside each driver and back: nothing of the other is left."""
    where = (RELEASE, "--namespace", "to-and-fro")
    server.namespace("to-and-fro", RESTRICTED)
    helm(server, "install", RELEASE, str(CHART), *where[1:], values=IMAGE)
    shared = objects_of(helm(server, "get", "manifest", *where))
    for mode in ("sidecar", "shared"):
        values = merged(IMAGE, {"mode": mode})
        helm(server, "upgrade", RELEASE, str(CHART), *where[1:], values=values)
        objects = objects_of(helm(server, "get", "manifest", *where))
        assert all(server.get(one) for one in objects)
        there = server.names("apps/v1", "StatefulSet", "to-and-fro")
        assert there == ([RELEASE] if mode == "shared" else [])
    assert {(one["kind"], one["metadata"]["name"]) for one in objects} == {
        (one["kind"], one["metadata"]["name"]) for one in shared
    }
    helm(server, "uninstall", *where)


def test_the_volumes_template_is_what_the_server_shows_and_an_older_charts_may_become_it(
    server: ApiServer, tmp_path: Path
) -> None:
    """Where it is not, what applies on the server's side sees a difference for ever."""
    former = tmp_path / "weir"
    shutil.copytree(CHART, former)
    path = former / "templates" / "shared" / "statefulset.yaml"
    said = "    - apiVersion: v1\n      kind: PersistentVolumeClaim\n      metadata:\n"
    text = path.read_text()
    assert text.count(said) == 1
    path.write_text(text.replace(said, "    - metadata:\n"))
    where = (RELEASE, "--namespace", "of-before")
    server.namespace("of-before", RESTRICTED)
    for verb, source in (("install", former), ("upgrade", CHART)):
        helm(server, verb, RELEASE, str(source), *where[1:], values=IMAGE)
        (made,) = chart.of(objects_of(helm(server, "get", "manifest", *where)), "StatefulSet")
        (said_of_it,) = made["spec"]["volumeClaimTemplates"]
        now = server.get(made)
        assert now is not None
        (shown,) = now["spec"]["volumeClaimTemplates"]
        told = ["apiVersion", "kind"]
        assert [shown[key] for key in told] == ["v1", "PersistentVolumeClaim"]
        assert all(key in said_of_it for key in told) is (source == CHART)
        # To the server both are the same: nothing is changed, and no pod made anew.
        assert now["metadata"]["generation"] == 1
    helm(server, "uninstall", *where)


def test_releases_live_in_one_namespace(server: ApiServer) -> None:
    """And each takes nothing of the others with it."""
    namespace = "several"
    server.namespace(namespace, RESTRICTED)
    given: dict[str, chart.Values] = {
        "weir": {"alerts": {"enabled": True}},
        "orders": {"mode": "sidecar", "monitor": {"enabled": True}},
        "fraud": {"mode": "sidecar", "alerts": {"enabled": True}},
    }
    objects = {}
    for release, values in given.items():
        where = ("--namespace", namespace)
        helm(server, "install", release, str(CHART), *where, values=merged(IMAGE, values))
        objects[release] = objects_of(helm(server, "get", "manifest", release, *where))
    helm(server, "uninstall", "orders", "--namespace", namespace)
    assert not any(server.get(one) for one in objects["orders"])
    for release in ("weir", "fraud"):
        assert all(server.get(one) for one in objects[release])
        helm(server, "uninstall", release, "--namespace", namespace)


@pytest.mark.parametrize("release", ["123", "1e3", "0x1f", "null", "1.5"])
def test_names_that_yaml_takes_for_numbers(server: ApiServer, release: str) -> None:
    namespace = "2024"
    server.namespace(namespace, RESTRICTED)
    for values in (
        {"mode": "sidecar"},
        {"fullnameOverride": f"weir-{release.replace('.', '-')}"},
    ):
        where = (release, "--namespace", namespace)
        helm(server, "install", release, str(CHART), *where[1:], values=merged(IMAGE, values))
        objects = objects_of(helm(server, "get", "manifest", *where))
        for one in [*pods(objects), *claims(objects), *applications(objects)]:
            server.take(one)
        helm(server, "uninstall", *where)


@pytest.mark.parametrize(
    ("values", "says"),
    [case[1:] for case in [*CONTRADICTIONS, *MISFITS]],
    ids=[case[0] for case in [*CONTRADICTIONS, *MISFITS]],
)
def test_a_wrong_value_never_reaches_it(
    server: ApiServer, values: chart.Values, says: list[str]
) -> None:
    where = ("--namespace", chart.NAMESPACE)
    done = server.helm("install", RELEASE, str(CHART), *where, values=merged(IMAGE, values))
    assert done.returncode != 0
    assert message(done)
    for word in says:
        assert word in done.stderr
    assert releases(server, chart.NAMESPACE) == [], "a release that failed is one to clean up"


def test_a_secret_without_the_authority_is_told_before_the_monitor_is_dropped(
    server: ApiServer,
) -> None:
    """As `kubectl create secret tls` and an ACME issuer make them."""
    data = {"tls.crt": "bm9uZQ==", "tls.key": "bm9uZQ=="}
    about = {"name": "made-by-kubectl", "namespace": chart.NAMESPACE}
    server.make({"apiVersion": "v1", "kind": "Secret", "metadata": about, "data": data})
    tls = {"secretName": about["name"]}
    monitored = {"monitor": {"enabled": True}, "networkPolicy": {"enabled": False}}
    values = merged(IMAGE, {"tls": tls, **monitored})
    where = ("--namespace", chart.NAMESPACE)
    done = server.helm("install", RELEASE, str(CHART), *where, values=values)
    assert done.returncode != 0
    assert "tls.caKey" in done.stderr
    assert "tls.crt, tls.key" in done.stderr
    assert releases(server, chart.NAMESPACE) == []
    for ca_key in ("", "tls.crt"):
        chosen = merged(values, {"tls": {**tls, "caKey": ca_key}})
        helm(server, "install", RELEASE, str(CHART), *where, values=chosen)
        helm(server, "uninstall", RELEASE, *where)


@pytest.fixture(scope="module")
def unchecked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart without its checks."""
    copied = tmp_path_factory.mktemp("unchecked") / "weir"
    shutil.copytree(CHART, copied)
    path = copied / "templates" / "configmap.yaml"
    text = path.read_text()
    assert text.count('{{- include "weir.checks" . -}}\n') == 1
    path.write_text(text.replace('{{- include "weir.checks" . -}}\n', ""))
    return copied


#: What the chart refuses, and what would have come of it: which kind the server does not take, why.
LATE: list[tuple[chart.Values, str, str]] = [
    ({"fullnameOverride": "123"}, "Service", "metadata.name"),
    ({"nameOverride": "orders.eu"}, "Service", "metadata.name"),
    (
        {"podLabels": {"app.kubernetes.io/name": "ours"}},
        "StatefulSet",
        "`selector` does not match template `labels`",
    ),
    ({"resources": {"requests": {"memory": "1Gi"}}}, "Pod", "less than or equal to memory limit"),
    ({"resources": {"limits": {"cpu": "50m"}}}, "Pod", "less than or equal to cpu limit"),
    ({"persistence": {"size": "0"}}, "PersistentVolumeClaim", "greater than zero"),
]


@pytest.mark.parametrize(("values", "kind", "why"), LATE, ids=[str(case[0]) for case in LATE])
def test_what_the_chart_refuses_would_have_failed(
    server: ApiServer, unchecked: Path, values: chart.Values, kind: str, why: str
) -> None:
    objects = chart.render(values, chart=unchecked)
    for one in chart.of(objects, "ServiceAccount"):
        server.make(one)
    everything = [*objects, *pods(objects), *claims(objects)]
    (wrong,) = chart.of(everything, kind)
    with pytest.raises(RefusedError) as refused:
        server.take(wrong)
    assert why in str(refused.value)


def test_the_server_is_as_strict_as_told(server: ApiServer) -> None:
    """Else all of the above would be worth nothing."""
    objects = chart.render(MATRIX["shared-monitored"])
    assert {"ServiceMonitor", "PrometheusRule"} <= {one["kind"] for one in objects}
    for one in objects:
        broken = copy.deepcopy(one)
        broken["noSuchField"] = 1
        with pytest.raises(RefusedError, match="noSuchField"):
            server.take(broken)
    for one in chart.of(objects, "ServiceAccount"):
        server.make(one)
    (pod,) = pods(objects)
    server.take(pod)
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(RefusedError, match="restricted"):
        server.take(pod)
    (application,) = applications(chart.render(MATRIX["sidecar"]))
    server.take(application)
    application["spec"]["driver"]["template"]["spec"]["volumes"][0]["noSuchField"] = 1
    with pytest.raises(RefusedError, match="noSuchField"):
        server.take(application)
