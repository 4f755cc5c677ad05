"""Made tokens stay over upgrades: else each would lock every running driver out.

What helm asks a cluster is answered by a small server on loopback that knows some Secrets.
"""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from agent.service.access import TokenFileError, Tokens
from tests.helm import chart
from tests.helm.chart import NAMESPACE, RELEASE, of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = (f"{RELEASE}-token", f"{RELEASE}-driver-token")
RESOURCES = [
    {"name": "secrets", "singularName": "secret", "namespaced": True, "kind": "Secret"},
]


class Cluster(ThreadingHTTPServer):
    """As much of Kubernetes' API as `lookup` needs."""

    daemon_threads = True

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], bytes] = {}  # by namespace and name of the Secret
        self.key = "token"
        super().__init__(("127.0.0.1", 0), Handler)

    def answer(self, path: str) -> dict[str, Any] | None:
        if path == "/version":
            return {"major": "1", "minor": "37", "gitVersion": "v1.37.0"}
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}
        if path == "/api/v1":
            verbs = [{**one, "verbs": ["get", "list"]} for one in RESOURCES]
            return {"kind": "APIResourceList", "groupVersion": "v1", "resources": verbs}
        for (namespace, name), token in self.held.items():
            if path == f"/api/v1/namespaces/{namespace}/secrets/{name}":
                return {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": name, "namespace": namespace},
                    "data": {self.key: base64.b64encode(token).decode()},
                }
        return None


class Handler(BaseHTTPRequestHandler):
    server: Cluster

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        found = self.server.answer(path)
        body = json.dumps(
            found
            or {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "reason": "NotFound",
                "code": 404,
            }
        ).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    server = Cluster()
    # It looks that often whether it is to end, and each test ends one.
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


def asking(cluster: Cluster, folder: Path) -> tuple[str, ...]:
    """What lets helm ask the cluster; it wins over the variable that keeps other tests from any."""
    path = folder / "kubeconfig"
    chart.kubeconfig(path, f"http://127.0.0.1:{cluster.server_port}", {})
    return "--dry-run=server", "--kubeconfig", str(path)


def tokens(cluster: Cluster, folder: Path, values: chart.Values) -> dict[tuple[str, str], bytes]:
    """What the rendered Secrets hold, where helm may ask the cluster, as the cluster has them."""
    objects = chart.render(values, *asking(cluster, folder))
    key = values.get("token", {}).get("key", "token")
    return {
        (one["metadata"]["namespace"], one["metadata"]["name"]): base64.b64decode(one["data"][key])
        for one in of(objects, "Secret")
    }


ALL, DRIVERS = ((NAMESPACE, name) for name in NAMES)


def test_an_upgrade_keeps_the_tokens(cluster: Cluster, tmp_path: Path) -> None:
    cluster.held = {ALL: b"of the first installation", DRIVERS: b"of its drivers"}
    values: chart.Values = {"drivers": {"namespaces": ["orders"]}}
    assert tokens(cluster, tmp_path, values) == {
        **cluster.held,
        ("orders", NAMES[1]): b"of its drivers",
    }


def test_an_upgrade_leaves_what_drivers_of_an_older_release_mount(
    cluster: Cluster, tmp_path: Path
) -> None:
    """It had one token, with a copy for each of their namespaces; it still opens all."""
    cluster.held = {ALL: b"all", ("orders", NAMES[0]): b"all"}
    made = tokens(cluster, tmp_path, {"drivers": {"namespaces": ["orders", "fraud"]}})
    assert cluster.held.items() <= made.items()
    new = made.keys() - cluster.held.keys()
    assert new == {(namespace, NAMES[1]) for namespace in (NAMESPACE, "orders", "fraud")}
    (text,) = {made[one] for one in new}
    assert len(text) == 48


def test_two_tokens_in_the_secret_stay_two(cluster: Cluster, tmp_path: Path) -> None:
    cluster.held = {ALL: b"new\nold\n", DRIVERS: b"drivers' new\ndrivers' old\n"}
    assert tokens(cluster, tmp_path, {}) == cluster.held


def test_a_first_installation_makes_them(cluster: Cluster, tmp_path: Path) -> None:
    made = tokens(cluster, tmp_path, {})
    assert {one: len(text) for one, text in made.items()} == {ALL: 48, DRIVERS: 48}
    assert len(set(made.values())) == 2


def test_another_key_is_another_token(cluster: Cluster, tmp_path: Path) -> None:
    cluster.held = {ALL: b"under the old key"}
    made = tokens(cluster, tmp_path, {"token": {"key": "weir"}})
    assert len(made[ALL]) == 48


GIVEN: chart.Values = {"token": {"create": False, "existingSecret": f"{RELEASE}-token"}}
ASKED: chart.Values = {
    "monitor": {"enabled": True},
    "networkPolicy": {"enabled": False},
    "config": {"metrics_need_token": True},
}


def refused(cluster: Cluster, folder: Path, values: chart.Values) -> str:
    """What the chart says against what the cluster's Secret holds; empty where it takes it."""
    done = chart.helm(
        *("template", RELEASE, str(chart.CHART), "--namespace", NAMESPACE),
        *asking(cluster, folder),
        values=chart.merged(chart.IMAGE, values),
    )
    return done.stderr


@pytest.mark.parametrize(
    ("token", "taken"),
    [
        (b"a-token\n", True),  # as echo and an editor leave it
        (b" new\r\n\r\nold\t\r\n", True),
        (b"", False),
        (b"\xef\xbb\xbfa-token", False),  # as some editors save a text
        ("a-token\r\n".encode("utf-16"), False),
        ("schlüssel".encode(), False),
    ],
)
def test_a_secrets_token_is_refused_where_the_agent_would_refuse_it(
    cluster: Cluster, tmp_path: Path, token: bytes, taken: bool
) -> None:
    file = tmp_path / "token"
    file.write_bytes(token)
    try:
        Tokens(file)
    except TokenFileError:
        assert not taken
    else:
        assert taken
    cluster.held = {ALL: token}
    said = refused(cluster, tmp_path, GIVEN)
    assert said == "" if taken else f'token: the Secret "{RELEASE}-token" holds under' in said


def test_a_key_that_a_secret_does_not_have_is_told_with_those_that_it_has(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.held, cluster.key = {ALL: b"a-token"}, "password"
    assert "set token.key to the key that has it (there are password)" in refused(
        cluster, tmp_path, GIVEN
    )
    # One that is made is made anew, and nobody who gives none has anything to say.
    assert refused(cluster, tmp_path, {}) == ""


@pytest.mark.parametrize("values", [GIVEN, {}], ids=["given", "made"])
def test_a_line_end_is_refused_where_prometheus_would_send_it(
    cluster: Cluster, tmp_path: Path, values: chart.Values
) -> None:
    for token, sent in ((b"a-token\n", False), (b"new\nold", False), (b"a-token", True)):
        cluster.held = {ALL: token}
        said = refused(cluster, tmp_path, chart.merged(values, ASKED))
        assert said == "" if sent else "config.metrics_need_token: the Secret" in said


def test_the_drivers_secret_is_looked_at_too(cluster: Cluster, tmp_path: Path) -> None:
    values = chart.merged(GIVEN, {"token": {"driverSecret": NAMES[1]}})
    cluster.held = {ALL: b"all\n", DRIVERS: b"events\n"}
    assert refused(cluster, tmp_path, values) == ""
    cluster.held = {ALL: b"all", DRIVERS: b""}
    assert f'token: the Secret "{NAMES[1]}" holds under' in refused(cluster, tmp_path, values)
    cluster.held = {ALL: b"old\nall", DRIVERS: b"events\r\nall\r\n"}
    said = refused(cluster, tmp_path, values)
    assert f'token: the Secrets "{NAMES[0]}" and "{NAMES[1]}" hold the same token' in said
