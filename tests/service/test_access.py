"""Who is let in: tokens and their file, and an agent without a token against web pages."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import httpx
import pytest
import structlog

from agent.service.access import (
    Gate,
    TokenFileError,
    Tokens,
    refuse_other_sites,
    why_no_order_of,
)
from agent.service.clock import Clock
from agent.service.errors import HttpError
from agent.service.timers import Timers
from spark_listener.sockets import NOBODY
from tests.service import wire
from tests.service.agents import AgentProcess
from tests.service.conftest import TOKEN
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from agent.service.app import Service


def basic(user: str, password: str) -> bytes:
    return b"Basic " + base64.b64encode(f"{user}:{password}".encode())


def test_every_line_of_the_file_is_a_token_and_a_change_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first-token\n\n  second-token \r\n")
    tokens = Tokens(path)
    gate = Gate(tokens, "0.0.0.0")
    for token in ("first-token", "second-token"):
        assert gate.admit({b"authorization": f"Bearer {token}".encode()}, "10.0.0.9").name == ""
        caller = gate.admit({b"authorization": basic("kim", token)}, "10.0.0.9")
        assert caller.who() == "kim (10.0.0.9)"
        assert caller.who("lee") == "lee (10.0.0.9)"
    path.write_text("third-token")
    assert tokens.reload()
    assert not tokens.reload()
    assert tokens.accept(b"third-token")
    assert not tokens.accept(b"first-token")


@pytest.mark.parametrize("content", [b"", b"\n \n", "tökén".encode(), b"a\0b", b"x" * 70_000, None])
def test_an_unusable_file_leaves_the_last_tokens(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "token"
    path.write_text("good-token")
    tokens = Tokens(path)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(TokenFileError) as caught:
        tokens.reload()
    assert str(path) in str(caught.value)
    assert "good-token" not in str(caught.value)
    assert tokens.accept(b"good-token")
    with pytest.raises(TokenFileError):
        Tokens(path)


def told_of(token: str) -> str:
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


def test_of_a_token_its_digest_does(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{told_of('first')}\nsecond\n{told_of('third').upper()}")
    tokens = Tokens(path)
    assert all(map(tokens.accept, (b"first", b"second", b"third")))
    # Who reads the file gets in with what is no digest there alone.
    for line in path.read_bytes().splitlines():
        assert tokens.accept(line) == (line == b"second")
        assert not tokens.accept(line[len(b"sha256:") :]) or line == b"second"
    assert tokens.sendable
    path.write_text(told_of("first"))
    assert tokens.reload()
    assert not tokens.sendable
    assert (tokens.accept(b"first"), tokens.accept(b"second")) == (True, False)


@pytest.mark.parametrize("digest", ["", "abc", "g" * 64, "a" * 63, "a" * 65, "a" * 32 + " " * 32])
def test_what_should_be_a_digest_and_is_none_is_refused(tmp_path: Path, digest: str) -> None:
    path = tmp_path / "token"
    path.write_text(f"good\nsha256:{digest}")
    with pytest.raises(TokenFileError) as refused:
        Tokens(path)
    assert str(refused.value) == (
        f"{path}: after sha256: stand the 64 hexadecimal digits of a token's SHA-256"
    )


def gate_of(folder: Path, tokens: str, events_tokens: str) -> Gate:
    (folder / "token").write_text(tokens)
    (folder / "events").write_text(events_tokens)
    events = Tokens(folder / "events")
    return Gate(Tokens(folder / "token"), "0.0.0.0", events_tokens=events)


@pytest.mark.parametrize("scheme", ["bearer", "basic"])
def test_a_token_for_events_opens_them_alone(tmp_path: Path, scheme: str) -> None:
    def header(token: str) -> dict[bytes, bytes]:
        with_it = basic("kim", token) if scheme == "basic" else f"Bearer {token}".encode()
        return {b"authorization": with_it}

    gate = gate_of(tmp_path, "all\nall-too\n", "events\nevents-too\n")
    for token in ("all", "all-too"):
        gate.admit(header(token), "10.0.0.9")
        gate.admit(header(token), "10.0.0.9", with_events=True)
    for token in ("events", "events-too"):
        gate.admit(header(token), "10.0.0.9", with_events=True)
        with pytest.raises(HttpError, match="this token opens /v1/events alone: ") as refused:
            gate.admit(header(token), "10.0.0.9")
        assert (refused.value.status, refused.value.where) == (403, "Authorization")
    for with_events in (False, True):
        with pytest.raises(HttpError) as refused:
            gate.admit(header("other"), "10.0.0.9", with_events=with_events)
        assert refused.value.status == 401


def test_a_token_in_both_files_opens_the_less(tmp_path: Path) -> None:
    """No agent starts with it; while one runs, a file may come to hold what the other holds."""
    gate = gate_of(tmp_path, f"all\n{told_of('both')}\n", "both\nevents\n")
    header = {b"authorization": b"Bearer both"}
    gate.admit(header, "10.0.0.9", with_events=True)
    with pytest.raises(HttpError):
        gate.admit(header, "10.0.0.9")
    gate.admit({b"authorization": b"Bearer all"}, "10.0.0.9")


def timers_of(tokens: Path, events_tokens: Path) -> Timers:
    return Timers(
        cast("Service", None),
        tokens=Tokens(tokens),
        events_tokens=Tokens(events_tokens),
        certificate=None,
        driver_process="off",
        clock=Clock(),
    )


def test_a_token_that_comes_to_be_in_both_files_is_told(tmp_path: Path) -> None:
    tokens, events = (tmp_path / name for name in ("token", "events"))
    tokens.write_text("all")
    events.write_text("events")
    timers = timers_of(tokens, events)
    with structlog.testing.capture_logs() as told:
        timers._files()
        assert told == []
        tokens.write_text("all\nevents")
        timers._files()
    assert [one["log_level"] for one in told] == ["info", "warning"]
    assert told[0]["file"] == tokens
    assert told[1]["event"].startswith("a token is in both token files: it opens events alone")
    assert (told[1]["file"], told[1]["events_file"]) == (tokens, events)


def test_of_two_files_that_cannot_be_read_both_are_told(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("token", "events")]
    for path in paths:
        path.write_text(path.name)
    timers = timers_of(paths[0], paths[1])
    for path in paths:
        path.unlink()
    with structlog.testing.capture_logs() as told:
        timers._files()
    assert [one["event"] for one in told] == [
        f"{key} is unusable: the last tokens hold" for key in ("token_file", "events_token_file")
    ]


HOSTS = {
    b"localhost:9655": True,
    b"localhost": True,
    b"LOCALHOST.:1": True,
    b"weir.localhost:9655": True,
    b"127.0.0.1:9655": True,
    b"127.8.8.8": True,
    b"[::1]:9655": True,
    b"evil.example:9655": False,
    b"localhost.evil.example": False,
    b"127.0.0.1.evil.example": False,
    b"10.0.0.1:9655": False,
    b"": False,
    b"[::1": True,
    b"[evil]:1": False,
}


@pytest.mark.parametrize("host", HOSTS)
def test_without_a_token_the_host_must_be_loopback(host: bytes) -> None:
    gate = Gate(None, "127.0.0.1")
    if HOSTS[host]:
        gate.admit({b"host": host}, "127.0.0.1")
    else:
        with pytest.raises(HttpError) as caught:
            gate.admit({b"host": host}, "127.0.0.1")
        assert caught.value.status == 403


@pytest.mark.parametrize(
    ("remote", "fits"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_without_a_token_the_caller_must_be_local(remote: str, fits: bool) -> None:
    gate = Gate(None, "127.0.0.1")
    if fits:
        assert gate.admit({b"host": b"localhost"}, remote).who() == remote
    else:
        with pytest.raises(HttpError):
            gate.admit({b"host": b"localhost"}, remote)


SITES = [
    ({}, True),
    ({b"origin": b"http://localhost:9655"}, True),
    ({b"origin": b"https://LOCALHOST:9655"}, True),
    ({b"origin": b"null"}, False),
    ({b"origin": b"http://evil.example"}, False),
    ({b"origin": b"http://localhost:1234"}, False),
    ({b"sec-fetch-site": b"same-origin"}, True),
    ({b"sec-fetch-site": b"none"}, True),
    ({b"sec-fetch-site": b"same-site"}, False),
    ({b"sec-fetch-site": b"cross-site"}, False),
]


@pytest.mark.parametrize(("headers", "fits"), SITES)
def test_orders_of_other_sites_are_refused(headers: dict[bytes, bytes], fits: bool) -> None:
    headers = {b"host": b"localhost:9655", **headers}
    if fits:
        refuse_other_sites(headers)
    else:
        with pytest.raises(HttpError) as caught:
            refuse_other_sites(headers)
        assert caught.value.status == 403


def test_a_real_agent_without_a_token(open_agent: AgentProcess, application: str) -> None:
    assert open_agent.post(wire.request([wire.progress(1)], application=application)).is_success
    path = f"/v1/queries/{application}/query-0/control"
    order = {"hold": True}
    http = open_agent.http
    assert http.get("/v1/queries", headers={"host": "evil.example"}).status_code == 403
    assert http.post(path, json=order, headers={"host": "evil.example"}).status_code == 403
    assert http.post(path, json=order, headers={"origin": "http://evil.example"}).status_code == 403
    # What a form or a script of another site can send without asking first.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = http.post(path, content=b'{"hold": true}', headers={"content-type": kind})
        assert answer.status_code == 415
    assert http.options(path, headers={"origin": "http://evil.example"}).status_code == 405
    assert http.post(path, json=order, headers={"origin": open_agent.address}).is_success


@pytest.mark.parametrize(
    ("uid", "own", "said"),
    [
        (1000, 1000, ""),
        (0, 1000, ""),
        (0, 0, ""),
        (None, 1000, ""),  # no Linux
        (1001, 1000, "taken from user 1000, as whom the agent runs, and root alone, and this one"),
        (1001, 0, "taken from root alone, and this one came from user 1001: "),
        (NOBODY, 0, "taken from root alone, and this one came over a connection that is closed: "),
    ],
)
def test_without_a_token_whose_orders_are_taken(uid: int | None, own: int, said: str) -> None:
    told = why_no_order_of(uid, own)
    assert said in told
    assert bool(told) == bool(said)
    assert not told or "set token_file" in told


linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux' tables of sockets")
#: Becomes another user, sends standard input to a port and prints what comes back.
AS_ANOTHER = """
import os, socket, sys
port, uid = map(int, sys.argv[1:])
os.setuid(uid)
with socket.socket() as agent:
    agent.connect(("127.0.0.1", port))
    agent.sendall(sys.stdin.buffer.read())
    while data := agent.recv(4096):
        sys.stdout.buffer.write(data)
"""
ANOTHER = 4242


def written(agent: AgentProcess, method: str, path: str, body: bytes = b"") -> bytes:
    """A request as it goes over the wire, after which the agent closes."""
    head = f"{method} {path} HTTP/1.1\r\nHost: {urlsplit(agent.address).netloc}\r\n"
    kind = "Content-Type: application/json\r\n"
    return f"{head}{kind}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def as_another(agent: AgentProcess, request: bytes) -> tuple[int, str]:
    """Status and body of an answer to another user."""
    port = urlsplit(agent.address).port
    done = subprocess.run(
        [sys.executable, "-c", AS_ANOTHER, str(port), str(ANOTHER)],
        input=request,
        capture_output=True,
        timeout=60,
        check=True,
    )
    head, _, body = done.stdout.decode().partition("\r\n\r\n")
    return int(head.split()[1]), body


@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_reads_and_sends_events_and_gives_no_order(
    open_agent: AgentProcess, application: str
) -> None:
    path = f"/v1/queries/{application}/query-0"
    events = wire.body([wire.progress(1)], application=application)
    sent = written(open_agent, "POST", "/v1/events", events)
    assert as_another(open_agent, sent)[0] == 200
    assert as_another(open_agent, written(open_agent, "GET", path))[0] == 200
    for order in ({"mode": "off"}, {"hold": True}, {"limit": 5}, {"retire": True}):
        body = json.dumps(order).encode()
        status, told = as_another(open_agent, written(open_agent, "POST", f"{path}/control", body))
        assert status == 403
        assert f"user {ANOTHER}" in told
        assert "token_file" in told
    view = open_agent.http.get(path).json()["query"]
    assert (view["mode"], view["held"], view["manual_limit"]) == ("on", False, None)
    assert open_agent.http.post(f"{path}/control", json={"hold": True}).is_success


@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_with_a_token_another_users_order_is_taken(guarded: AgentProcess, application: str) -> None:
    assert guarded.post(wire.request([wire.progress(1)], application=application)).is_success
    path = f"/v1/queries/{application}/query-0/control"
    request = written(guarded, "POST", path, b'{"hold": true}')
    token = f"\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
    assert as_another(guarded, request.replace(b"\r\n", token, 1))[0] == 200


@linux
def test_an_order_whose_sender_has_left_is_nobodys(tmp_path: Path) -> None:
    """Whose it was, Linux tells no more: it may have been anybody's."""
    with AgentProcess(tmp_path) as agent:
        assert agent.post(wire.request([wire.progress(1)], application="orders")).is_success
        path = "/v1/queries/orders/query-0"
        request = written(agent, "POST", f"{path}/control", b'{"hold": true}')
        agent.process.send_signal(signal.SIGSTOP)
        try:
            with socket.create_connection(("127.0.0.1", urlsplit(agent.address).port)) as gone:
                gone.sendall(request)
        finally:
            agent.process.send_signal(signal.SIGCONT)
        said = "over a connection that is closed"
        until(lambda: said in agent.log_path.read_text(), "the refusal")
        assert agent.http.get(path).json()["query"]["held"] is False


OPEN_PATHS = ("/metrics", "/queries/orders/query-0/live")


@pytest.mark.parametrize("token", [None, "a-token"])
def test_an_agent_on_loopback_tells_other_names_nothing(tmp_path: Path, token: str | None) -> None:
    with AgentProcess(tmp_path, token=token) as agent:
        assert agent.post(wire.request([wire.progress(1)])).is_success
        with httpx.Client(base_url=agent.address, trust_env=False) as bare:
            for path in OPEN_PATHS:
                for host in ("evil.example", "agent.prod.svc:9655", "10.1.2.3:9655"):
                    refused = bare.get(path, headers={"host": host})
                    assert refused.status_code == 403
                    assert "query-0" not in refused.text
                for host in ("localhost:9655", "127.0.0.1", "[::1]:1"):
                    assert bare.get(path, headers={"host": host}).is_success
            for path in ("/healthz", "/readyz"):
                assert bare.get(path, headers={"host": "10.1.2.3:9655"}).is_success


def test_an_agent_beyond_loopback_is_scraped_and_probed_by_any_name(tmp_path: Path) -> None:
    with (
        AgentProcess(tmp_path, "--host", "0.0.0.0", token="a-token") as agent,
        httpx.Client(base_url=agent.address, trust_env=False) as bare,
    ):
        for path in (*OPEN_PATHS, "/healthz", "/readyz"):
            for host in ("agent.prod.svc:9655", "10.1.2.3:9655", "[fd00::7]:9655"):
                assert bare.get(path, headers={"host": host}).is_success


def test_a_token_is_changed_while_the_agent_runs(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.write_text("old-events")
    options = ("--events-token-file", str(events))
    with AgentProcess(tmp_path, *options, token="old-token") as agent:
        assert agent.http.get("/v1/queries").status_code == 200
        events.write_text("new-events")
        (tmp_path / "token").write_text("new-token\n")
        until(
            lambda: agent.http.get("/v1/queries").status_code != 200,
            "the new token's turn",
            seconds=15,
            every=0.2,
        )
        assert agent.http.get("/v1/queries").status_code == 401
        new = {"authorization": "Bearer new-token"}
        assert agent.http.get("/v1/queries", headers=new).status_code == 200
        driver = {"authorization": "Bearer new-events"}  # read in the same turn
        assert agent.http.get("/v1/queries", headers=driver).status_code == 403
        assert not any(one in agent.log_path.read_text() for one in ("new-token", "new-events"))


def test_probes_and_metrics_may_ask_for_the_token(tmp_path: Path) -> None:
    options = ("--metrics-need-token", "--live-need-token", "true")
    with AgentProcess(tmp_path, *options, token="a-token") as agent:
        with httpx.Client(base_url=agent.address, trust_env=False) as bare:
            assert bare.get("/metrics").status_code == 401
            assert bare.get("/queries/a/b/live").status_code == 401
            assert bare.get("/healthz").status_code == 200
            assert bare.get("/readyz").status_code == 200
        assert agent.http.get("/metrics").status_code == 200
        assert agent.http.get("/queries/a/b/live").status_code == 200
