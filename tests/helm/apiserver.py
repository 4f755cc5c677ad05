"""A real API server of Kubernetes, with etcd, on free loopback ports: a cluster without nodes.

    with ApiServer(tmp_path) as server:
        server.namespace("jobs")
        server.helm("install", "weir", str(CHART), "--namespace", "jobs", values=IMAGE)
        server.get("apps/v1", "StatefulSet", "jobs", "weir")

Nothing acts on what it is told: no pod is made of a StatefulSet, no claim of a template. What would
be made is posted by the tests themselves. `scripts/ensure-apiserver.sh` builds the server.
"""

from __future__ import annotations

import re
import subprocess
from typing import IO, TYPE_CHECKING, Any

import httpx
import yaml
from kubeflow_spark_api.models import SparkV1beta2SparkApplication

from tests.helm import chart
from tests.helm.chart import TOOLS, tool
from tests.kafka.broker import free_ports
from tests.lacking import program
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

TOKEN = "an-administrators-token"
#: What a namespace says where its pods must keep to the strictest of the Pod Security Standards.
RESTRICTED = {
    f"pod-security.kubernetes.io/{way}": "restricted" for way in ("enforce", "warn", "audit")
}
Thing = dict[str, Any]


class RefusedError(AssertionError):
    """The server did not take an object; its message says why."""


class ApiServer:
    """One server with a folder of its own; a context manager that starts and ends it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []
        store, peers, port = free_ports(3)
        self._store = f"http://127.0.0.1:{store}"
        self._peers = f"http://127.0.0.1:{peers}"
        self._port = port
        self.url = f"https://127.0.0.1:{port}"
        self.http = httpx.Client(
            base_url=self.url,
            verify=False,  # a certificate that it makes itself
            trust_env=False,
            timeout=30,
            headers={"authorization": f"Bearer {TOKEN}"},
        )

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            _end(process)
        for log in self._logs:
            log.close()
        self.http.close()

    # Life

    def _start(self) -> None:
        server = tool("kube-apiserver", comes_by="ensure-apiserver.sh")
        store = tool("etcd", comes_by="ensure-tools.sh all")
        self._run(
            store,
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={self._store}",
            f"--advertise-client-urls={self._store}",
            f"--listen-peer-urls={self._peers}",
            f"--initial-advertise-peer-urls={self._peers}",
            f"--initial-cluster=default={self._peers}",
        )
        key = self._folder / "accounts.key"
        made = [program("openssl"), "genrsa", "-out", str(key), "2048"]
        subprocess.run(made, check=True, capture_output=True, timeout=60)
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f"{TOKEN},administrator,administrator,system:masters\n")
        self._run(
            server,
            f"--etcd-servers={self._store}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self._port}",
            f"--cert-dir={self._folder / 'certificates'}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/16",
        )

        def ready() -> bool:
            ended = [one.args for one in self._processes if one.poll() is not None]
            assert not ended, f"ended: {ended}\n{self._tell()}"
            return self.http.get("/readyz").status_code == 200

        until(
            ready,
            "the API server",
            seconds=120,
            every=0.2,
            ignoring=(httpx.TransportError,),
            telling=self._tell,
        )
        skip = {"insecure-skip-tls-verify": True}
        chart.kubeconfig(self._kubeconfig, self.url, {"token": TOKEN}, **skip)

    def _run(self, *command: str) -> None:
        log = (self._folder / f"{len(self._processes)}.log").open("wb")
        self._logs.append(log)
        self._processes.append(
            subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._folder, env={"PATH": "/bin"}
            )
        )

    def _tell(self) -> str:
        return "\n".join(one.read_text()[-2000:] for one in sorted(self._folder.glob("*.log")))

    @property
    def _kubeconfig(self) -> Path:
        return self._folder / "kubeconfig"

    # What it is asked

    def helm(
        self, *arguments: str, values: chart.Values | None = None
    ) -> subprocess.CompletedProcess[str]:
        """As `chart.helm`, against this server, and with nothing between it and the client."""
        given = ("--kubeconfig", str(self._kubeconfig))
        return chart.helm(*arguments, *given, values=values)

    def namespace(self, name: str, labels: dict[str, str] | None = None) -> None:
        """Makes a namespace, as a cluster does with its accounts; one that is there stays."""
        made = {"name": name, "labels": labels or {}}
        self.make({"apiVersion": "v1", "kind": "Namespace", "metadata": made})
        for account in ("default", "spark", "ours"):
            about = {"name": account, "namespace": name}
            self.make({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about})

    def make(self, thing: Thing) -> None:
        """Keeps a new object; one that is there stays."""
        answer = self.http.post(_path(thing), json=thing)
        assert answer.status_code in {201, 409}, answer.text

    def define(self, definition: Thing) -> None:
        """Makes a custom kind, and waits until the server knows it."""
        self.make(definition)
        spec = definition["spec"]
        group, plural, version = spec["group"], spec["names"]["plural"], spec["versions"][0]["name"]
        _PLURALS[spec["names"]["kind"]] = plural
        until(
            lambda: self.http.get(f"/apis/{group}/{version}/{plural}").status_code == 200,
            f"the kind {spec['names']['kind']}",
            seconds=60,
            telling=lambda: self.http.get(_path(definition) + "/" + definition["metadata"]["name"]),
        )

    def take(self, thing: Thing) -> Thing:
        """What the server makes of a new object; nothing is kept.

        Raises RefusedError, for a field that it does not know and for a warning too.
        """
        return self._strictly("POST", _path(thing), thing)

    def take_again(self, thing: Thing) -> Thing:
        """The same of an object that is there already, as `kubectl apply` brings it."""
        return self._strictly("PATCH", f"{_path(thing)}/{thing['metadata']['name']}", thing)

    def _strictly(self, method: str, path: str, thing: Thing) -> Thing:
        asked = {"dryRun": "All", "fieldValidation": "Strict"}
        kind = "application/json"
        if method == "PATCH":
            asked |= {"fieldManager": "tests", "force": "true"}
            kind = "application/apply-patch+yaml"
        answer = self.http.request(
            method, path, params=asked, json=thing, headers={"content-type": kind}
        )
        if answer.status_code not in {200, 201}:
            raise RefusedError(answer.json()["message"])
        if "warning" in answer.headers:
            raise RefusedError(answer.headers["warning"])
        return dict(answer.json())

    def patch(self, thing: Thing, change: Thing) -> None:
        """Changes an object that is there, as `kubectl patch` does."""
        path = f"{_path(thing)}/{thing['metadata']['name']}"
        kind = {"content-type": "application/merge-patch+json"}
        self.http.patch(path, json=change, headers=kind).raise_for_status()

    def get(self, thing: Thing) -> Thing | None:
        """An object as the server has it; None where it has none."""
        answer = self.http.get(f"{_path(thing)}/{thing['metadata']['name']}")
        return None if answer.status_code == 404 else dict(answer.raise_for_status().json())

    def names(self, api_version: str, kind: str, namespace: str) -> list[str]:
        """The names of a namespace's objects of a kind."""
        about = {"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace}}
        found = self.http.get(_path(about)).raise_for_status().json()["items"]
        return [one["metadata"]["name"] for one in found]


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)


#: How a kind is called in an address where it is not its small letters with an s.
_PLURALS = {"NetworkPolicy": "networkpolicies", "PriorityClass": "priorityclasses"}


def _path(thing: Thing) -> str:
    version, kind = thing["apiVersion"], thing["kind"]
    plural = _PLURALS.get(kind, kind.lower() + "s")
    namespace = thing["metadata"].get("namespace")
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/{'apis' if '/' in version else 'api'}/{version}{within}/{plural}"


def monitoring_kinds() -> list[Thing]:
    """The Prometheus operator's own definitions of its kinds."""
    paths = sorted((TOOLS / "crds").glob("*.yaml"))
    assert paths
    return [yaml.safe_load(path.read_text("utf-8")) for path in paths]


def spark_application_kind() -> Thing:
    """A definition of the Spark operator's SparkApplication, of the models that it publishes.

    Its pod templates are held to all that a pod is, where the operator's definition takes anything.
    """
    schema = SparkV1beta2SparkApplication.model_json_schema(by_alias=True)
    structural = _structural(schema, schema["$defs"])
    # Of the object's metadata a definition says no more than that it is one.
    structural["properties"]["metadata"] = {"type": "object"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "sparkapplications.sparkoperator.k8s.io",
            # Of the group *.k8s.io: where the kind was agreed on.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "sparkoperator.k8s.io",
            "scope": "Namespaced",
            "names": {"kind": "SparkApplication", "plural": "sparkapplications"},
            "versions": [
                {
                    "name": "v1beta2",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": structural},
                }
            ],
        },
    }


def _structural(node: Thing, definitions: dict[str, Thing]) -> Thing:
    """A JSON Schema as pydantic writes it, in the form that Kubernetes asks for: no references."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if name.endswith(("IntOrString", "Quantity")):
            return {"x-kubernetes-int-or-string": True}
        if name.endswith("Time"):
            return {"type": "string"}
        return _structural(definitions[name], definitions)
    if "anyOf" in node:  # the thing, or null where it is left out
        (one,) = [part for part in node["anyOf"] if part != {"type": "null"}]
        return _structural(one, definitions)
    made: Thing = {key: node[key] for key in ("type", "enum", "required") if key in node}
    if "properties" in node:
        made["properties"] = {
            name: _structural(part, definitions) for name, part in node["properties"].items()
        }
    if "items" in node:
        made["items"] = _structural(node["items"], definitions)
    more = node.get("additionalProperties")
    if isinstance(more, dict):
        made["additionalProperties"] = _structural(more, definitions)
    elif made.get("type") == "object" and "properties" not in made:
        made["x-kubernetes-preserve-unknown-fields"] = True
    if not made:
        made["x-kubernetes-preserve-unknown-fields"] = True
    return made


def message(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that helm ends with."""
    (line,) = re.findall(r"^Error: .*$", done.stderr, re.MULTILINE)
    return str(line)
