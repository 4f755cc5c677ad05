"""Real Spark makes the driver's pod of the chart's template, as spark-submit does for a cluster.

No cluster is asked: the pod is what Spark would send to it. What Weir put into the template must be
in it whole, beside what Spark adds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from tests.helm import chart
from tests.helm.matrix import MATRIX
from tests.helm.schemas import errors, minors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.spark
SIDECARS = [name for name in MATRIX if name.startswith("sidecar")]


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    gateway = launch_gateway(SparkConf())
    try:
        yield gateway.jvm
    finally:
        process = gateway.proc
        gateway.shutdown()
        # It ends by itself once its standard input does.
        process.stdin.close()
        process.wait(30)


def driver_pod(jvm: Any, settings: str, template: Path | None = None) -> dict[str, Any]:
    """The pod that Spark would create, with the settings of spark-defaults.conf."""
    conf = jvm.org.apache.spark.SparkConf(False)
    pairs = [line.split(None, 1) for line in settings.splitlines() if line.strip()]
    for key, value in {
        "spark.master": "k8s://https://127.0.0.1:1",
        "spark.submit.deployMode": "cluster",
        "spark.app.name": "orders",
        "spark.kubernetes.namespace": chart.NAMESPACE,
        "spark.kubernetes.container.image": "registry.example.com/jobs/orders:1",
        **dict(pairs),
        **({} if template is None else {"spark.kubernetes.driver.podTemplateFile": str(template)}),
    }.items():
        conf.set(key, value)
    kubernetes = jvm.org.apache.spark.deploy.k8s
    text = jvm.java.lang.Class.forName("java.lang.String")
    job = kubernetes.KubernetesConf.createDriverConf(
        conf,
        "spark-0123",
        kubernetes.submit.PythonMainAppResource("local:///opt/jobs/orders.py"),
        "org.apache.spark.deploy.PythonRunner",
        jvm.java.lang.reflect.Array.newInstance(text, 0),
        jvm.scala.Option.empty(),
    )
    client = jvm.io.fabric8.kubernetes.client.KubernetesClientBuilder().build()
    try:
        built = kubernetes.submit.KubernetesDriverBuilder().buildFromFeatures(job, client).pod()
    finally:
        client.close()
    serialization = jvm.io.fabric8.kubernetes.client.utils.KubernetesSerialization()
    pod = json.loads(serialization.asJson(built.pod()))
    # Spark puts the driver's container beside the others when it submits.
    container = json.loads(serialization.asJson(built.container()))
    pod["spec"]["containers"] = [*pod["spec"].get("containers", []), container]
    return dict(pod)


@pytest.mark.parametrize("name", SIDECARS)
def test_spark_makes_a_pod_with_the_agent_in_it(jvm: Any, tmp_path: Path, name: str) -> None:
    objects = chart.render(MATRIX[name])
    content = chart.only(objects, "ConfigMap", f"{chart.RELEASE}-driver")["data"]
    template = tmp_path / "driver.yaml"
    template.write_text(content["driver.yaml"])
    given = chart.driver_pod(objects)
    pod = driver_pod(jvm, content["spark-defaults.conf"], template)
    for version in minors():
        assert errors(pod, version) == []

    sidecars = {one["name"]: one for one in pod["spec"]["initContainers"]}
    for one in given["spec"]["initContainers"]:
        kept = sidecars[one["name"]]
        assert {key: kept.get(key) for key in one} == one, "Spark changed it"
    assert sidecars["weir"]["restartPolicy"] == "Always"

    (wanted,) = given["spec"]["containers"]
    (driver,) = [one for one in pod["spec"]["containers"] if one["name"] == wanted["name"]]
    assert driver["image"] == "registry.example.com/jobs/orders:1"
    assert driver["args"][0] == "driver"
    environ = {one["name"]: one.get("value") for one in driver["env"]}
    for one in wanted["env"]:
        assert environ[one["name"]] == one["value"]
    mounts = {one["mountPath"]: one for one in driver["volumeMounts"]}
    for one in wanted.get("volumeMounts", []):
        kept = mounts[one["mountPath"]]
        assert (kept["name"], kept.get("readOnly")) == (one["name"], one.get("readOnly"))
    if "livenessProbe" in wanted:
        assert driver["livenessProbe"] == wanted["livenessProbe"]

    volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
    for one in given["spec"]["volumes"]:
        assert volumes[one["name"]] == one
    labels = pod["metadata"]["labels"]
    assert given["metadata"]["labels"].items() <= labels.items()
    # By this label the network policy of a shared agent lets drivers in.
    assert labels["spark-role"] == "driver"
    assert pod["spec"]["restartPolicy"] == "Never"


def test_the_ports_that_an_agent_may_not_have_are_sparks(jvm: Any, tmp_path: Path) -> None:
    """Those that Spark's pod of a driver opens: an agent in it gets none of them."""
    content = chart.only(chart.render({"mode": "sidecar"}), "ConfigMap", f"{chart.RELEASE}-driver")
    template = tmp_path / "driver.yaml"
    template.write_text(content["data"]["driver.yaml"])
    pod = driver_pod(jvm, content["data"]["spark-defaults.conf"], template)
    (driver,) = [one for one in pod["spec"]["containers"] if "agent" not in one["name"]]
    ports = {one["name"]: one["containerPort"] for one in driver["ports"]}
    assert {"driver-rpc-port", "blockmanager"} <= ports.keys()
    for port in ports.values():
        values = chart.merged(chart.IMAGE, {"mode": "sidecar", "agent": {"port": port}})
        assert f"agent.port is {port}" in chart.refusal(values)


def test_spark_mounts_the_secret_where_the_notes_say(jvm: Any) -> None:
    notes = chart.notes(MATRIX["shared"])
    lines = [line.split(None, 1)[1] for line in notes.splitlines() if "  --conf spark." in line]
    pod = driver_pod(jvm, "\n".join(line.replace("=", " ", 1) for line in lines))
    (driver,) = pod["spec"]["containers"]
    conf = dict(line.split("=", 1) for line in lines)
    folder, _, file = conf["spark.weir.token.file"].rpartition("/")
    (mount,) = [one for one in driver["volumeMounts"] if one["mountPath"] == folder]
    (volume,) = [one for one in pod["spec"]["volumes"] if one["name"] == mount["name"]]
    name = volume["secret"]["secretName"]
    assert name == f"{chart.RELEASE}-driver-token", "the other one opens all"
    secret = chart.only(chart.render(MATRIX["shared"]), "Secret", name)
    assert file in secret["data"]
