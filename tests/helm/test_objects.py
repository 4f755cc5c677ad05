"""Every object that the chart makes, for every entry of the matrix: that its parts fit together."""

from __future__ import annotations

import contextlib
import re
import shlex
import socket
import subprocess
import threading
import time
from typing import Any

import pytest
import yaml

from tests.helm import chart
from tests.helm.chart import NAMESPACE, RELEASE, Values, of, only
from tests.helm.matrix import MATRIX, MONITORING
from tests.helm.schemas import errors, minors

Objects = list[dict[str, Any]]


@pytest.fixture(scope="module", params=MATRIX, ids=list(MATRIX))
def case(request: pytest.FixtureRequest) -> tuple[str, Objects]:
    return request.param, chart.render(MATRIX[request.param])


@pytest.fixture
def objects(case: tuple[str, Objects]) -> Objects:
    return case[1]


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Weir's own; the driver's is Spark's."""
    spec = pod["spec"]
    both = [*spec.get("initContainers", []), *spec["containers"]]
    return [one for one in both if one["name"].startswith("weir")]


def test_names_are_valid_and_unique(objects: Objects) -> None:
    names = [(o["kind"], o["metadata"]["namespace"], o["metadata"]["name"]) for o in objects]
    assert len(set(names)) == len(names)
    for _, namespace, name in names:
        for one in (namespace, name):
            assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", one), one


def test_every_object_says_whose_it_is(objects: Objects) -> None:
    for one in objects:
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "weir"
        assert labels["app.kubernetes.io/instance"] == RELEASE
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["app.kubernetes.io/version"]
        for value in labels.values():
            assert isinstance(value, str)
            assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", value)


def test_every_container_is_hardened(objects: Objects) -> None:
    for _, pod in chart.pod_specs(objects):
        assert containers(pod)
        mounts = {m["mountPath"] for m in chart.agent_container(pod)["volumeMounts"]}
        for one in containers(pod):
            context = one["securityContext"]
            assert context["runAsNonRoot"] is True
            # Only the driver's own user, which is Spark's, goes through the driver's door.
            beside = one == chart.agent_container(pod) and "/opt/weir/doors" in mounts
            assert context["runAsUser"] == (185 if beside else 10001)
            assert context["runAsGroup"] >= 10000
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["privileged"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_beside_a_driver_the_agent_is_the_drivers_user_and_no_other_container_is() -> None:
    for user in (185, 2000, 0):
        pod = chart.driver_pod(chart.render({"mode": "sidecar", "sidecar": {"driverUser": user}}))
        lends, agent = pod["spec"]["initContainers"]
        assert lends["securityContext"]["runAsUser"] == 10001
        assert agent["securityContext"]["runAsUser"] == user
        assert agent["securityContext"]["runAsNonRoot"] is (user != 0)
        assert agent["securityContext"]["readOnlyRootFilesystem"] is True
        # Both see the doors, and the agent opens none.
        (driver,) = pod["spec"]["containers"]
        (there,) = [one for one in driver["volumeMounts"] if one["name"] == "weir-doors"]
        (here,) = [one for one in agent["volumeMounts"] if one["name"] == "weir-doors"]
        assert "readOnly" not in there
        assert here == {**there, "readOnly": True}
    by_a_line = chart.render({"mode": "sidecar", "sidecar": {"plugin": False}})
    assert yaml.safe_load(config_map(by_a_line)["data"]["config.yaml"])["doors"] == "off"
    assert "weir-doors" not in str(by_a_line)
    assert "WeirPlugin" not in str(by_a_line)


def test_every_container_has_resources(objects: Objects) -> None:
    for _, pod in chart.pod_specs(objects):
        for one in containers(pod):
            resources = one["resources"]
            assert set(resources["requests"]) == {"cpu", "memory"}
            # Memory is limited, CPU is not: a throttled agent answers late, and first batches wait.
            assert set(resources["limits"]) == {"memory"}
            assert mebibytes(resources["requests"]["memory"]) <= mebibytes(
                resources["limits"]["memory"]
            )


def test_an_agent_beside_a_driver_asks_for_what_it_takes() -> None:
    """By the table of what was measured. A limit as low as a request that is not enough ends it."""
    page = (chart.ROOT / "docs" / "deploy.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| ([^|\n]+?) \| (\d+) MiB", page, re.MULTILINE))
    (agent,) = [int(size) for row, size in rows.items() if row.endswith("with one query")]
    (door,) = [int(size) for row, size in rows.items() if "at a driver's [door]" in row]
    container = chart.agent_container(chart.driver_pod(chart.render({"mode": "sidecar"})))
    assert agent + door < mebibytes(container["resources"]["requests"]["memory"])


def mebibytes(quantity: str) -> int:
    assert quantity.endswith("Mi")
    return int(quantity.removesuffix("Mi"))


def test_mounts_and_volumes_fit(objects: Objects) -> None:
    for name, pod in chart.pod_specs(objects):
        spec = pod["spec"]
        volumes = {one["name"]: one for one in spec["volumes"]}
        assert len(volumes) == len(spec["volumes"])
        if name == "StatefulSet":
            claims = only(objects, "StatefulSet")["spec"].get("volumeClaimTemplates", [])
            assert not {one["metadata"]["name"] for one in claims} & set(volumes)
            volumes |= {one["metadata"]["name"]: one for one in claims}
        mounted: set[str] = set()
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            mounts = container.get("volumeMounts", [])
            paths = [one["mountPath"] for one in mounts]
            assert len(set(paths)) == len(paths)
            mounted |= {one["name"] for one in mounts}
        assert mounted == set(volumes), name


def test_what_is_written_to_is_a_volume_and_nothing_else_is_writable(objects: Objects) -> None:
    for _, pod in chart.pod_specs(objects):
        mounts = {m["mountPath"]: m for m in chart.agent_container(pod)["volumeMounts"]}
        writable = {path for path, one in mounts.items() if not one.get("readOnly")}
        assert writable == {"/var/lib/weir", "/tmp"}


def config_map(objects: Objects) -> dict[str, Any]:
    (found,) = [one for one in of(objects, "ConfigMap") if "config.yaml" in one["data"]]
    return found


def test_the_config_names_files_that_are_mounted(objects: Objects) -> None:
    config = yaml.safe_load(config_map(objects)["data"]["config.yaml"])
    for _, pod in chart.pod_specs(objects):
        container = chart.agent_container(pod)
        volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
        mounts = {one["mountPath"]: volumes.get(one["name"]) for one in container["volumeMounts"]}
        for key in ("token_file", "tls_cert_file", "tls_key_file"):
            if key not in config:
                continue
            folder, _, file = config[key].rpartition("/")
            secret = mounts[folder]["secret"]
            items = secret.get("items")
            # A kubernetes.io/tls Secret has these two keys by definition.
            assert file in ([one["path"] for one in items] if items else ["tls.crt", "tls.key"])
        path = container["args"][container["args"].index("--config") + 1]
        folder, _, file = path.rpartition("/")
        assert mounts[folder]["configMap"]["name"] == config_map(objects)["metadata"]["name"]
        assert file in config_map(objects)["data"]


def mounted_secret(pod: dict[str, Any], container: dict[str, Any], file: str) -> tuple[str, str]:
    """Name and key of what a container finds in a file."""
    folder, _, name = file.rpartition("/")
    (mount,) = [one for one in container["volumeMounts"] if one["mountPath"] == folder]
    assert mount["readOnly"] is True
    (volume,) = [one for one in pod["spec"]["volumes"] if one["name"] == mount["name"]]
    (item,) = volume["secret"]["items"]
    assert item["path"] == name
    return volume["secret"]["secretName"], item["key"]


def test_a_token_is_the_same_wherever_it_is_named(case: tuple[str, Objects]) -> None:
    name, objects = case
    given = MATRIX[name].get("token", {})
    config = yaml.safe_load(config_map(objects)["data"]["config.yaml"])
    all_of_it, events = set(), set()
    for what, pod in chart.pod_specs(objects):
        agent = chart.agent_container(pod)
        if "token_file" in config:
            all_of_it.add(mounted_secret(pod, agent, config["token_file"]))
        for one in agent.get("env", []):
            assert one["name"] == "WEIR_EVENTS_TOKEN_FILE"
            events.add(mounted_secret(pod, agent, one["value"]))
        if what != "StatefulSet":
            (driver,) = pod["spec"]["containers"]
            environ = {one["name"]: one["value"] for one in driver["env"]}
            if "WEIR_TOKEN_FILE" in environ:
                shown = mounted_secret(pod, driver, environ["WEIR_TOKEN_FILE"])
                assert {shown} == (events or all_of_it), "drivers hold no more than they need"
            # Of the other there is nothing in the driver's container.
            volumes = [one["name"] for one in driver.get("volumeMounts", [])]
            assert "weir-token" not in volumes or not events
    for kind, endpoints in (("ServiceMonitor", "endpoints"), ("PodMonitor", "podMetricsEndpoints")):
        for one in of(objects, kind):
            for endpoint in one["spec"][endpoints]:
                # Else the labels that an agent gives are renamed, and no board finds them.
                assert endpoint["honorLabels"] is True
                if "authorization" in endpoint:
                    credentials = endpoint["authorization"]["credentials"]
                    assert {(credentials["name"], credentials["key"])} == all_of_it
    made = {(one["metadata"]["name"], *one["data"]) for one in of(objects, "Secret")}
    if given.get("create", True):
        assert made == all_of_it | events
        assert (len(all_of_it), len(events)) == (1, 1)
        texts = {
            (one["metadata"]["name"], text)
            for one in of(objects, "Secret")
            for text in one["data"].values()
        }
        assert len({text for _, text in texts}) == len(texts) == 2, "the copies differ, or do not"
    else:
        assert made == set()
        for found, key in ((all_of_it, "existingSecret"), (events, "driverSecret")):
            assert {secret for secret, _ in found} == {*filter(None, [given.get(key)])}


def test_probes_ask_the_port_that_the_agent_listens_on(objects: Objects) -> None:
    config = yaml.safe_load(config_map(objects)["data"]["config.yaml"])
    for _, pod in chart.pod_specs(objects):
        container = chart.agent_container(pod)
        (port,) = container["ports"]
        assert port == {"name": "weir", "containerPort": config["port"], "protocol": "TCP"}
        probes = {key: value for key, value in container.items() if key.endswith("Probe")}
        if "restartPolicy" in container:
            # Any other one would keep the driver waiting, or its pod from being ready.
            assert set(probes) == {"livenessProbe"}
            assert probes["livenessProbe"]["exec"]["command"][-1] == str(config["port"])
            continue
        assert {"startupProbe", "livenessProbe"} <= set(probes)
        for probe in probes.values():
            assert probe["httpGet"]["port"] == "weir"
            assert probe["httpGet"].get("scheme", "HTTP").lower() == (
                "https" if "tls_cert_file" in config else "http"
            )
        assert probes["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert probes["startupProbe"]["httpGet"]["path"] == "/healthz"


def test_selectors_choose_what_they_are_meant_to(objects: Objects) -> None:
    for one in of(objects, "StatefulSet"):
        labels = one["spec"]["template"]["metadata"]["labels"]
        selector = one["spec"]["selector"]["matchLabels"]
        assert selector.items() <= labels.items()
        service = only(objects, "Service")
        assert service["metadata"]["name"] == one["spec"]["serviceName"]
        assert service["spec"]["selector"] == selector
        for policy in of(objects, "NetworkPolicy"):
            assert policy["spec"]["podSelector"]["matchLabels"] == selector
        for monitor in of(objects, "ServiceMonitor"):
            chosen = monitor["spec"]["selector"]["matchLabels"]
            assert chosen.items() <= service["metadata"]["labels"].items()
            # Argo CD, where it tracks by label, writes its application's name over the release's.
            assert set(chosen) == {"app.kubernetes.io/name", "weir.agent/instance"}
            # Its own namespace, whatever another tool makes of that.
            assert "namespaceSelector" not in monitor["spec"]
            (endpoint,) = monitor["spec"]["endpoints"]
            assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    for monitor in of(objects, "PodMonitor"):
        pod = chart.driver_pod(objects)
        assert "namespaceSelector" not in monitor["spec"]
        assert monitor["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["port"] == chart.agent_container(pod)["ports"][0]["name"]


@pytest.mark.parametrize(
    "path",
    [
        ("commonLabels",),
        ("podLabels",),
        ("monitor", "labels"),
        ("alerts", "labels"),
        ("dashboards", "labels"),
        ("drivers", "namespaces"),
    ],
    ids=".".join,
)
def test_a_key_that_is_left_empty_is_as_one_without_entries(path: tuple[str, ...]) -> None:
    """As `labels:` with nothing but comments below it: YAML reads null, and Helm drops the key."""

    def rendered(value: Values | list[str] | None) -> Objects:
        asked: Values = {"monitor": {"enabled": True}, "alerts": {"enabled": True}}
        given: Any = value
        for key in reversed(path):
            given = {key: given}
        values = chart.merged(asked, {"networkPolicy": {"enabled": False}}, given)
        return [one for one in chart.render(values) if one["kind"] != "Secret"]

    namespaces = path[-1] == "namespaces"
    expected = rendered([] if namespaces else {})
    for one in expected:  # of a mapping Helm keeps the chart's own entries
        if path == ("dashboards", "labels"):
            one["metadata"]["labels"].pop("grafana_dashboard", None)
    assert rendered(None) == expected


def test_a_change_of_labels_or_options_never_changes_the_selector() -> None:
    """It is immutable: an upgrade that changed it would be refused by Kubernetes."""
    plain = only(chart.render({}), "StatefulSet")["spec"]["selector"]
    dressed = only(chart.render(MATRIX["shared-placed"]), "StatefulSet")["spec"]["selector"]
    assert plain == dressed


def test_modes_make_their_own_objects(case: tuple[str, Objects]) -> None:
    name, objects = case
    kinds = {one["kind"] for one in objects}
    if name.startswith("sidecar"):
        assert not kinds & {"StatefulSet", "Service", "ServiceAccount", "NetworkPolicy"}
        assert not kinds & {"ServiceMonitor"}
    else:
        assert {"StatefulSet", "Service"} <= kinds
        assert not kinds & {"PodMonitor"}
    # The agent never asks Kubernetes for anything.
    assert not kinds & {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}


def test_the_shared_agent_is_one_and_without_rights(objects: Objects) -> None:
    for one in of(objects, "StatefulSet"):
        assert one["spec"]["replicas"] == 1
        spec = one["spec"]["template"]["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]
        for account in of(objects, "ServiceAccount"):
            assert account["automountServiceAccountToken"] is False
            assert account["metadata"]["name"] == spec["serviceAccountName"]


def test_state_is_on_a_volume_where_it_was_asked_for(case: tuple[str, Objects]) -> None:
    name, objects = case
    for one in of(objects, "StatefulSet"):
        spec = one["spec"]
        volumes = {v["name"]: v for v in spec["template"]["spec"]["volumes"]}
        if name == "shared-no-volume":
            assert volumes["weir-state"] == {"name": "weir-state", "emptyDir": {}}
            assert "volumeClaimTemplates" not in spec
        elif name == "shared-given-volume":
            claim = volumes["weir-state"]["persistentVolumeClaim"]
            assert claim == {"claimName": "weir-state"}
            assert "volumeClaimTemplates" not in spec
        else:
            (claim,) = spec["volumeClaimTemplates"]
            assert claim["metadata"]["name"] == "weir-state"
            # As the API server shows it: left out, it is out of sync for ever in Argo CD.
            assert (claim["apiVersion"], claim["kind"]) == ("v1", "PersistentVolumeClaim")
            assert claim["spec"]["resources"]["requests"]["storage"]
    if name == "shared-storage":
        (claim,) = only(objects, "StatefulSet")["spec"]["volumeClaimTemplates"]
        assert claim["spec"]["storageClassName"] == "fast"
        assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]


EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


def local(pod: dict[str, Any]) -> set[str]:
    """Volumes for which the cluster autoscaler would let the node stand."""
    return {one["name"] for one in pod["spec"]["volumes"] if "emptyDir" in one}


def test_the_agents_node_may_be_emptied_where_nothing_is_lost(objects: Objects) -> None:
    for name, pod in chart.pod_specs(objects):
        if name == "StatefulSet":
            named = set(pod["metadata"]["annotations"][EVICT].split(","))
            assert local(pod) - named <= {"weir-state"}
            assert "weir-state" not in named
            assert named <= local(pod)
        else:  # the driver's own
            assert "annotations" not in pod["metadata"]


def test_whether_its_node_may_be_emptied_is_yours_to_say() -> None:
    given = {EVICT: "weir-tmp,ours", "example.com/a": "b"}
    pod = only(chart.render({"podAnnotations": given}), "StatefulSet")["spec"]["template"]
    assert pod["metadata"]["annotations"].items() >= given.items()
    (listed,) = re.findall(
        r"\(`safe-to-evict-local-volumes`\), add `([^`]+)`",
        (chart.ROOT / "docs" / "deploy.md").read_text("utf-8"),
    )
    driver = chart.driver_pod(chart.render({"mode": "sidecar"}))
    assert local(driver) == set(listed.split(","))


def test_another_config_makes_another_pod_and_another_token_does_not() -> None:
    def pod(values: chart.Values) -> dict[str, Any]:
        return dict(only(chart.render(values), "StatefulSet")["spec"]["template"])

    assert pod({}) == pod({})  # although the made token is another one each time
    assert pod({}) != pod({"config": {"target_seconds": 7}})


def test_a_made_token_is_random_and_long() -> None:
    import base64

    secrets = [one for _ in range(2) for one in of(chart.render({}), "Secret")]
    tokens = [base64.b64decode(one["data"]["token"]) for one in secrets]
    assert len(set(tokens)) == 4
    assert all(re.fullmatch(rb"[A-Za-z0-9]{48}", token) for token in tokens)


def test_a_renewed_token_is_not_mended_back_by_flux(objects: Objects) -> None:
    for one in of(objects, "Secret"):
        assert one["metadata"]["annotations"] == {
            "helm.toolkit.fluxcd.io/driftDetection": "disabled"
        }


def test_of_made_tokens_that_of_drivers_gets_to_other_namespaces() -> None:
    secrets = of(chart.render(MATRIX["shared-namespaces"]), "Secret")
    assert [(one["metadata"]["name"], one["metadata"]["namespace"]) for one in secrets] == [
        ("weir-token", NAMESPACE),
        *(("weir-driver-token", namespace) for namespace in (NAMESPACE, "orders", "fraud")),
    ]


def test_the_policy_lets_in_who_is_named_and_nobody_else() -> None:
    objects = chart.render(
        chart.merged(MATRIX["shared-monitored"], {"drivers": {"namespaces": ["orders", "fraud"]}})
    )
    spec = only(objects, "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    (rule,) = spec["ingress"]
    assert rule["ports"] == [{"port": "weir", "protocol": "TCP"}]
    own, others, monitoring = rule["from"]
    assert own == {"podSelector": {"matchLabels": {"spark-role": "driver"}}}
    # Both in one peer: drivers in those namespaces, not whatever runs there.
    assert others["podSelector"] == own["podSelector"]
    (namespaces,) = others["namespaceSelector"]["matchExpressions"]
    assert (namespaces["operator"], namespaces["values"]) == ("In", ["orders", "fraud"])
    assert monitoring == MONITORING
    names, interfaces = spec["egress"]
    asked = {(one["port"], one["protocol"]) for one in names["ports"]}
    # Name servers listen on 5353 in OpenShift, 8053 in Gardener and 1053 in vCluster, whatever the
    # port of their service.
    ports = (53, 1053, 5353, 8053)
    assert asked == {(port, protocol) for port in ports for protocol in ("UDP", "TCP")}
    assert [one["port"] for one in interfaces["ports"]] == [4040]
    assert interfaces["to"] == [own, others]


@pytest.mark.parametrize("mode", ["shared", "sidecar"])
def test_the_commands_for_openshift_leave_no_number(mode: str) -> None:
    page = (chart.ROOT / "docs" / "deploy.md").read_text("utf-8")
    section = page.partition("\n## On OpenShift\n")[2].partition("\n## ")[0]
    commands = re.findall(r"```sh\n(helm install .*?)```", section, re.DOTALL)
    (command,) = [one for one in commands if ("mode=sidecar" in one) == (mode == "sidecar")]
    words = command.replace("\\\n", " ").split()
    # A claim, too: with it the driver's pod has a group.
    claim = {"sidecar": {"existingClaim": "orders-weir"}} if mode == "sidecar" else {}
    objects = chart.render(claim, *words[words.index("--set") :])
    assert not set(re.findall(r"runAsUser|runAsGroup|fsGroup\b", yaml.safe_dump(objects)))
    for name, pod in chart.pod_specs(objects):
        assert all(one["securityContext"]["runAsNonRoot"] is True for one in containers(pod))
        assert [errors(pod, one) for one in minors() if name == "driver.yaml"] in ([], 3 * [[]])
    assert [found for one in objects for found in errors(one, minors()[-1])] == []


@pytest.mark.parametrize("mode", ["shared", "sidecar"])
def test_the_platforms_users_are_no_numbers_whoever_gave_them_and_what_nulls_make(
    mode: str,
) -> None:
    sidecar = {"existingClaim": "orders-weir"} if mode == "sidecar" else {}

    def pods(number: int | None, **values: Any) -> list[tuple[str, dict[str, Any]]]:
        context = dict.fromkeys(("runAsUser", "runAsGroup"), number)
        given: chart.Values = {
            "mode": mode,
            "securityContext": context,
            "podSecurityContext": {**context, "fsGroup": number, "supplementalGroups": [185]},
            "sidecar": {**sidecar, "driverUser": number, "fsGroup": number},
        }
        return chart.pod_specs(chart.render({**given, **values}))

    # As OpenShift numbers them: no float may become of it.
    assert "1000680000" in str(pods(1000680000))
    chosen = pods(1000680000, platformUsers=True)
    assert "1000680000" not in str(chosen)
    assert chosen == pods(None)
    if mode == "shared":
        assert chosen[0][1]["spec"]["securityContext"]["supplementalGroups"] == [185]
    # What goes without a context goes without one.
    assert pods(None, securityContext=None) == pods(3000, securityContext=None, platformUsers=True)


def test_a_driver_of_no_named_user_does_not_make_the_agent_root() -> None:
    pod = chart.driver_pod(chart.render({"mode": "sidecar", "sidecar": {"driverUser": None}}))
    context = chart.agent_container(pod)["securityContext"]
    assert "runAsUser" not in context
    assert context["runAsNonRoot"] is True


def test_the_agent_may_read_what_is_mounted_for_it_with_a_group_or_without() -> None:
    """No umask and no owner helps: the kubelet makes these files root's, and of the pod's group."""
    everybody: chart.Values = {"podSecurityContext": {"fsGroup": None}}
    for values, mode in (({}, 0o440), (everybody, 0o444), ({"podSecurityContext": None}, 0o444)):
        objects = chart.render(chart.merged(MATRIX["shared-tls"], values))
        volumes = only(objects, "StatefulSet")["spec"]["template"]["spec"]["volumes"]
        modes = [one["secret"]["defaultMode"] for one in volumes if "secret" in one]
        assert modes == [mode] * 3  # two tokens, and the certificate


def test_the_agent_gets_the_group_that_reads_event_logs_as_the_docs_say() -> None:
    page = (chart.ROOT / "docs" / "event-logs.md").read_text("utf-8")
    (said,) = re.findall(r"```sh\n(helm upgrade .*?)```", page, re.DOTALL)
    words = shlex.split(said.replace("\\\n", " "))
    objects = chart.render({}, *words[words.index("--set-json") :])
    pod = only(objects, "StatefulSet")["spec"]["template"]
    assert pod["spec"]["securityContext"]["supplementalGroups"] == [185]
    assert pod["spec"]["securityContext"]["fsGroup"] == 10001
    assert chart.agent_container(pod)["volumeMounts"][-1]["mountPath"] == "/logs"
    assert errors(only(objects, "StatefulSet"), minors()[-1]) == []


def test_a_platform_that_gives_out_user_ids_can_take_ours_away() -> None:
    """OpenShift chooses user and group itself and refuses pods that name others."""
    nobody = {"runAsUser": None, "runAsGroup": None}
    values: chart.Values = {
        "securityContext": nobody,
        "podSecurityContext": {**nobody, "fsGroup": None},
        "sidecar": {"existingClaim": "orders-weir", "fsGroup": None},
    }
    for mode in ("shared", "sidecar"):
        beside = {} if mode == "sidecar" else {"sidecar": {"existingClaim": ""}}
        for _, pod in chart.pod_specs(chart.render(chart.merged(values, {"mode": mode}, beside))):
            assert "fsGroup" not in pod["spec"].get("securityContext", {})
            for one in containers(pod):
                assert "runAsUser" not in one["securityContext"]
                assert one["securityContext"]["runAsNonRoot"] is True
    for key in ("securityContext", "podSecurityContext"):
        chart.render({key: None, "mode": "sidecar", "sidecar": {"existingClaim": "a"}})
        chart.render({key: None})


def test_a_claim_beside_a_driver_is_writable_by_the_group_that_was_asked_for() -> None:
    def context(**sidecar: Any) -> Any:
        values = {"mode": "sidecar", "sidecar": sidecar}
        return chart.driver_pod(chart.render(values))["spec"].get("securityContext")

    changed = {"fsGroupChangePolicy": "OnRootMismatch"}
    assert context(existingClaim="a") == {"fsGroup": 10001, **changed}
    # As OpenShift numbers groups: no float may become of it.
    assert context(existingClaim="a", fsGroup=1000680000) == {"fsGroup": 1000680000, **changed}
    # Some platforms take no template with one at all.
    assert context(existingClaim="a", fsGroup=None) is None
    assert context(fsGroup=3000) is None


def test_sidecars_start_before_the_driver_and_let_it_end(objects: Objects) -> None:
    for name, pod in chart.pod_specs(objects):
        if name == "StatefulSet":
            continue
        spec = pod["spec"]
        assert [one["name"] for one in spec["containers"]] == ["spark-kubernetes-driver"]
        # Native: an init container that always restarts ends with the driver.
        *before, sidecar = spec["initContainers"]
        assert sidecar["restartPolicy"] == "Always"
        assert [one["name"] for one in before] in ([], ["weir-listener"])
        assert all("restartPolicy" not in one for one in before)
        assert "readinessProbe" not in sidecar, "the driver's pod is ready when the driver is"
        # What is the driver's own stays so.
        assert set(spec) <= {
            *("containers", "imagePullSecrets", "initContainers", "securityContext", "volumes")
        }
        context = spec.get("securityContext", {})
        assert set(context) <= {"fsGroup", "fsGroupChangePolicy"}
        # Its own volumes are not walked through at each start.
        assert context.get("fsGroupChangePolicy", "OnRootMismatch") == "OnRootMismatch"
        # So that a quota takes the pod, and it may be Guaranteed.
        assert all(one["resources"] == sidecar["resources"] for one in before)


def test_the_driver_finds_its_agent_and_the_token(objects: Objects) -> None:
    config = yaml.safe_load(config_map(objects)["data"]["config.yaml"])
    for name, pod in chart.pod_specs(objects):
        if name == "StatefulSet":
            continue
        (driver,) = pod["spec"]["containers"]
        environ = {one["name"]: one["value"] for one in driver["env"]}
        assert environ["WEIR_AGENT_URL"] == f"http://127.0.0.1:{config['port']}"
        # Where older releases had it, for jobs that name the file themselves.
        assert environ.get("WEIR_TOKEN_FILE") == config.get("token_file")
        for volume in pod["spec"]["volumes"]:
            if "secret" in volume:
                # Spark's user is not the agent's.
                assert volume["secret"]["defaultMode"] == 0o444


def test_the_template_and_the_application_hold_one_pod(objects: Objects) -> None:
    pods = dict(chart.pod_specs(objects))
    if "driver.yaml" in pods:
        template = {k: v for k, v in pods["driver.yaml"].items() if k in ("metadata", "spec")}
        assert template == pods["spark-application.yaml"]
        assert pods["driver.yaml"]["kind"] == "Pod"


def test_the_drivers_probe_names_the_query_as_the_agent_does() -> None:
    (driver,) = chart.driver_pod(chart.render(MATRIX["sidecar-monitored"]))["spec"]["containers"]
    *_, port, path = driver["livenessProbe"]["exec"]["command"]
    # A slash, a plus and a space of a name, encoded.
    assert path == "/queries/orders%20of%20today/enrich%2Fclean%2Bjoin/live"
    assert port == "9655"


@pytest.mark.parametrize(
    ("answer", "ends_the_driver"),
    [
        (None, False),  # nobody listens: the agent is away
        (b"", False),  # it takes the connection and goes
        (b"hang", False),
        (b"HTTP/1.1 200 OK\r\n\r\n", False),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", False),
        (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", False),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", True),
    ],
)
def test_only_the_agents_word_ends_a_driver(answer: bytes | None, ends_the_driver: bool) -> None:
    """Above all stands the job: it lives on beside an agent that is gone, broken or hanging."""
    (driver,) = chart.driver_pod(chart.render(MATRIX["sidecar-monitored"]))["spec"]["containers"]
    *probe, _, path = driver["livenessProbe"]["exec"]["command"]
    done, took, asked = probed(probe, path, answer)
    if answer is not None:
        assert asked.startswith(b"GET " + path.encode() + b" HTTP/1.1\r\n")
    assert (done.returncode != 0) is ends_the_driver, done
    assert took < driver["livenessProbe"]["timeoutSeconds"]


@pytest.mark.parametrize(
    ("answer", "ends_the_agent"),
    [
        (None, False),  # it starts, or could not: its container starts it anew
        (b"", True),
        (b"hang", True),
        (b"HTTP/1.1 200 OK\r\n\r\n", False),
    ],
)
def test_only_an_agent_that_answers_nothing_is_restarted(
    answer: bytes | None, ends_the_agent: bool
) -> None:
    """While it is, no executor finds the driver: its pod is not ready."""
    pod = chart.driver_pod(chart.render(MATRIX["sidecar"]))
    probe = chart.agent_container(pod)["livenessProbe"]
    *command, _ = probe["exec"]["command"]
    done, took, asked = probed(command, None, answer)
    if answer is not None:
        assert asked.startswith(b"GET /healthz HTTP/1.1\r\n")
    assert (done.returncode != 0) is ends_the_agent, done
    assert took < probe["timeoutSeconds"]


def probed(
    probe: list[str], path: str | None, answer: bytes | None
) -> tuple[subprocess.CompletedProcess[bytes], float, bytes]:
    """A probe of a server that answers so, or is not there: its end, its seconds, what it asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    # The whole: bash sends it line by line, and who closes before breaks it off.
                    asked.append(b"")
                    while not asked[0].endswith(b"\r\n\r\n") and (more := connection.recv(4096)):
                        asked[0] += more
                    if answer == b"hang":
                        time.sleep(4.0)  # longer than the probe waits
                    elif answer:
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        if answer is None:
            server.close()
        else:
            thread.start()
        started = time.monotonic()
        done = subprocess.run(
            [*probe, str(port), *(() if path is None else (path,))],
            capture_output=True,
            timeout=20,
            check=False,
        )
        took = time.monotonic() - started
        if answer is not None:
            thread.join()
    return done, took, b"".join(asked)


def test_a_driver_lives_on_beside_an_agent_that_takes_no_connection() -> None:
    """One that stands still fills the queue of its connections, and from then on Linux is mute."""
    (driver,) = chart.driver_pod(chart.render(MATRIX["sidecar-monitored"]))["spec"]["containers"]
    *probe, _, path = driver["livenessProbe"]["exec"]["command"]
    with contextlib.ExitStack() as held:
        server = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = server.getsockname()
        with contextlib.suppress(TimeoutError):
            while True:
                held.enter_context(socket.create_connection(address, timeout=0.5))
        started = time.monotonic()
        done = subprocess.run(
            [*probe, str(address[1]), path], capture_output=True, timeout=20, check=False
        )
        took = time.monotonic() - started
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert took < driver["livenessProbe"]["timeoutSeconds"]


def test_notes_give_commands_that_name_what_was_made(case: tuple[str, Objects]) -> None:
    name, objects = case
    notes = chart.notes(MATRIX[name])
    assert "<no value>" not in notes
    if name.startswith("sidecar"):
        assert f"get configmap {RELEASE}-driver " in notes
        assert "spark.kubernetes.driver.podTemplateFile=driver.yaml" in notes
        assert "anew after each upgrade" in notes, "an old agent knows no new options"
        assert "where it has a pod template" in notes, "its mounts would be gone"
    else:
        made = only(objects, "StatefulSet")["metadata"]["name"]
        assert f"rollout status statefulset/{made}" in notes
        scheme = "https" if "tls" in MATRIX[name] else "http"
        port = MATRIX[name].get("agent", {}).get("port", 9655)
        assert f"spark.weir.agent.url={scheme}://{made}.{NAMESPACE}.svc:{port}" in notes
    for secret in of(objects, "Secret"):
        if not name.startswith("sidecar"):
            assert secret["metadata"]["name"] in notes
        assert next(iter(secret["data"].values())) not in notes


def test_notes_say_what_goes_with_a_pod_that_has_no_volume() -> None:
    assert "forgotten what was ordered by hand" in chart.notes({"persistence": {"enabled": False}})
    assert "forgotten" not in chart.notes({})


@pytest.mark.parametrize(
    ("token", "refused"),
    [
        ({}, None),
        ({"create": False, "existingSecret": "x" * 56}, None),
        ({"create": False, "existingSecret": "x" * 57}, "x" * 57),
        ({"create": False, "existingSecret": "a.b"}, "a.b"),
        ({"create": False, "existingSecret": "a.b", "driverSecret": "drivers"}, None),
    ],
)
def test_notes_say_with_which_secret_spark_makes_no_driver(
    token: Values, refused: str | None
) -> None:
    """It is no fault of an agent that only follows event logs, and so not refused."""
    notes = chart.notes({"token": token})
    assert (f"Spark makes no driver with the Secret {refused}:" in notes) is (refused is not None)
    assert ("makes no driver" in notes) is (refused is not None)
    assert "makes no driver" not in chart.notes({"mode": "sidecar", "token": token})


def test_notes_say_what_a_given_claim_has_to_be() -> None:
    shared = chart.notes({"persistence": {"existingClaim": "ours"}})
    assert "claim ours has to let one pod write" in shared
    beside = chart.notes({"mode": "sidecar", "sidecar": {"existingClaim": "ours"}})
    assert "claim ours: it is for one job" in beside
    assert "until the volume is let go" in beside
    assert "sidecar.existingClaim keeps it" not in beside
    for mode in ("shared", "sidecar"):
        assert "claim" not in chart.notes({"mode": mode}).replace("existingClaim", "").lower()


@pytest.mark.parametrize("mode", ["shared", "sidecar"])
def test_notes_say_whether_it_acts(mode: str) -> None:
    base: dict[str, Any] = {"mode": mode, "image": {"repository": "r"}}
    acts = chart.notes(base)
    assert "It sets the limits" in acts
    assert "--set config.mode=dry-run" in acts
    watches = chart.notes({**base, "config": {"mode": "dry-run"}})
    assert "does nothing" in watches
    assert "weir mode on QUERY" in watches
    assert "It sets the limits" not in watches
    off = chart.notes({**base, "config": {"mode": "off"}})
    assert "does nothing" not in off
    assert "It sets the limits" not in off


@pytest.mark.parametrize(
    ("mode", "kind", "endpoints"),
    [
        ("shared", "ServiceMonitor", "endpoints"),
        ("sidecar", "PodMonitor", "podMetricsEndpoints"),
    ],
)
def test_what_is_scraped_is_relabelled_as_the_values_say(
    mode: str, kind: str, endpoints: str
) -> None:
    rules = {
        "relabelings": [
            {"sourceLabels": ["__meta_kubernetes_pod_name"], "targetLabel": "instance"}
        ],
        "metricRelabelings": [
            {"sourceLabels": ["__name__"], "regex": "weir_failures_total", "action": "drop"}
        ],
    }
    values = chart.merged(MATRIX[f"{mode}-monitored"], {"monitor": rules})
    (monitor,) = of(chart.render(values), kind)
    (endpoint,) = monitor["spec"][endpoints]
    assert {key: endpoint[key] for key in rules} == rules
    (plain,) = of(chart.render(MATRIX[f"{mode}-monitored"]), kind)
    assert not set(rules) & set(plain["spec"][endpoints][0])


def test_the_drivers_secret_is_a_volume_that_spark_may_name() -> None:
    """Spark calls it by the Secret's name and "-volume"."""
    name = "streaming-platform-production-eu-central-1-of-weir"
    values = chart.merged(MATRIX["shared-monitored"], {"fullnameOverride": name})
    (drivers,) = [
        secret["metadata"]["name"]
        for secret in of(chart.render(values), "Secret")
        if "driver-token" in secret["metadata"]["name"]
    ]
    assert len(name) == 50
    assert len(f"{drivers}-volume") <= 63
    assert drivers in chart.notes(values)


def test_a_driver_can_ask_for_no_more_than_without_the_agent() -> None:
    """As YuniKorn's placeholder for it, which knows of no template, is as large as the job says."""
    nothing = {"cpu": 0, "memory": 0}
    values: Values = {"mode": "sidecar", "sidecar": {"resources": {"requests": nothing}}}
    pod = chart.driver_pod(chart.render(chart.merged(chart.IMAGE, values)))
    for container in [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]:
        asked = container.get("resources", {}).get("requests", {})
        assert all(float(amount) == 0 for amount in asked.values()), container["name"]
