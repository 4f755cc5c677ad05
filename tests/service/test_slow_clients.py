"""Clients that never end a request, never read an answer, or never say anything: a real agent."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import sys
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from agent.service import connections
from tests.service import wire
from tests.service.agents import AgentProcess
from tests.service.test_process import make_certificate
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DESCRIPTORS = 400
PROBES = ("/healthz", "/readyz", "/queries/orders/query-0/live")
#: The agent itself, with so few descriptors, and a client's turn that a test can outlast.
START = """
import resource, sys
from agent import cli
from agent.service import connections

descriptors, connections.TURN_SECONDS, connections.MOST_WAITING_BYTES = eval(sys.argv[1])
if descriptors:
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
connections.Connections.__init__.__kwdefaults__.update(
    turn_seconds=connections.TURN_SECONDS, most_waiting_bytes=connections.MOST_WAITING_BYTES
)
sys.argv = ["weir", *sys.argv[5:]]
cli.main()
"""
OFTEN = 2**26


def agent_with(
    folder: Path, *, descriptors: int = 0, turn_seconds: float = 60.0, waiting_bytes: int = OFTEN
) -> AgentProcess:
    numbers = repr((descriptors, turn_seconds, waiting_bytes))
    return AgentProcess(folder, prefix=(sys.executable, "-c", START, numbers))


@pytest.fixture
def held() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def connect(agent: AgentProcess, held: contextlib.ExitStack, text: bytes = b"") -> socket.socket:
    parts = urlsplit(agent.address)
    client = held.enter_context(
        socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30)
    )
    if text:
        client.sendall(text)
    return client


HEADERS = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = (
    b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\ncontent-type: application/json\r\n"
    b"content-length: 5000\r\n\r\n{"
)
UNFINISHED = {
    "nothing": b"",
    "headers": HEADERS + b"X-a: ",
    "a body": POST,
    "a body that nobody reads": POST.replace(b"/v1/events", b"/nowhere"),
    "a second request": HEADERS + b"\r\n" + HEADERS,
}


@pytest.mark.parametrize("what", UNFINISHED)
def test_however_many_never_end_a_request_probes_and_drivers_get_in(
    tmp_path: Path, held: contextlib.ExitStack, what: str
) -> None:
    with agent_with(tmp_path, descriptors=DESCRIPTORS) as agent:
        for number in range(2 * DESCRIPTORS):
            with contextlib.suppress(OSError):  # it may have made room by then
                connect(agent, held, UNFINISHED[what])
            if number % 100 == 99:
                assert told_again_where_cut(agent, 1 + number)
                for path in PROBES:
                    asked = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
                    assert b" 200 " in connect(agent, held, asked).recv(100), path
        assert psutil.Process(agent.process.pid).num_fds() < DESCRIPTORS
        assert "Too many open files" not in agent.log_path.read_text()


def told_again_where_cut(agent: AgentProcess, number: int) -> bool:
    """As a driver does: its connection, idle since the last request, may have made room."""
    request = wire.request([wire.progress(number)])
    try:
        return agent.post(request).is_success
    except httpx.TransportError:
        return agent.post(request).is_success


def test_a_connection_over_tls_takes_no_more_memory_than_its_records(
    tmp_path: Path, held: contextlib.ExitStack
) -> None:
    """As each driver keeps one. Python's own buffers would take 256 KiB each."""
    assert connections.TLS_READ_BYTES == 2**14  # RFC 8446, 5.1: a record's most
    certificate, key = make_certificate(tmp_path, "localhost")
    context = ssl.create_default_context(cafile=str(certificate))
    tls = ("--tls-cert-file", str(certificate), "--tls-key-file", str(key))
    with AgentProcess(tmp_path, *tls, verify=context) as agent:
        taken = psutil.Process(agent.process.pid).memory_info

        def idle(count: int) -> int:
            for _ in range(count):
                client = context.wrap_socket(connect(agent, held), server_hostname="localhost")
                held.enter_context(client).sendall(HEADERS + b"\r\n")
                assert b" 200 " in client.recv(100)
            return taken().rss

        before = idle(50)  # what is taken once is taken
        each = (idle(300) - before) / 300
        assert each < 128 * 1024
        body = json.dumps(wire.request([wire.progress(1)])).encode()
        assert agent.post(body + b" " * 2**20).is_success  # of many reads


@pytest.mark.parametrize("what", UNFINISHED)
def test_who_never_ends_a_request_is_let_go(
    tmp_path: Path, held: contextlib.ExitStack, what: str
) -> None:
    with agent_with(tmp_path, turn_seconds=1.0) as agent:
        client = connect(agent, held, UNFINISHED[what])
        client.settimeout(30)
        with contextlib.suppress(ConnectionResetError):
            while client.recv(65536):
                pass
        assert agent.http.get("/healthz").is_success


def test_who_sends_a_byte_now_and_then_is_let_go_too(
    tmp_path: Path, held: contextlib.ExitStack
) -> None:
    with agent_with(tmp_path, turn_seconds=2.0) as agent:
        client = connect(agent, held, HEADERS)

        def gone() -> bool:
            try:
                client.sendall(b"X-a: b\r\n")
            except OSError:
                return True
            return False

        until(gone, "the connection's end", seconds=30, every=0.2)


def many(agent: AgentProcess, queries: int) -> int:
    """Makes the agent's answers long; gives the bytes of one."""
    for first in range(1, queries, 50):
        events = [wire.progress(n, query=n) for n in range(first, first + 50)]
        assert agent.post(wire.request(events)).is_success
    return len(agent.http.get("/metrics").content)


def reader(agent: AgentProcess, held: contextlib.ExitStack, times: int = 20) -> socket.socket:
    client = held.enter_context(socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    parts = urlsplit(agent.address)
    client.connect((parts.hostname or "", parts.port or 0))
    # Several at once: one answer may fit into what the system itself holds.
    client.sendall(b"GET /v1/queries HTTP/1.1\r\nHost: localhost\r\n\r\n" * times)
    return client


def test_who_never_reads_is_let_go_and_leaves_no_memory(
    tmp_path: Path, held: contextlib.ExitStack
) -> None:
    with agent_with(tmp_path, turn_seconds=3.0) as agent:
        many(agent, 300)
        process = psutil.Process(agent.process.pid)
        before = len(process.net_connections())
        for _ in range(10):
            reader(agent, held)
        until(lambda: len(process.net_connections()) > before + 9, "the readers to be taken in")
        until(
            lambda: len(process.net_connections()) <= before, "the readers to be let go", seconds=60
        )


def test_what_waits_to_be_read_is_bounded_and_who_reads_gets_all(
    tmp_path: Path, held: contextlib.ExitStack
) -> None:
    with agent_with(tmp_path, waiting_bytes=4_000_000) as agent:
        many(agent, 300)

        def audited() -> bool:
            return agent.http.get("/v1/queries").text.count("sink_at_least_once") >= 300

        until(audited, "what is found of each query")
        size = len(agent.http.get("/v1/queries").content)
        assert size > 500_000
        process = psutil.Process(agent.process.pid)
        before = process.memory_info().rss
        for _ in range(25):
            reader(agent, held)
            assert len(agent.http.get("/v1/queries").content) == pytest.approx(size, rel=0.1)
        grown = process.memory_info().rss - before
        assert grown < 25 * size / 2
        # The system's own buffers hold part of each answer, too.
        assert len(process.net_connections()) < 20


def test_who_reads_slowly_gets_all(tmp_path: Path, held: contextlib.ExitStack) -> None:
    with agent_with(tmp_path) as agent:
        many(agent, 100)
        size = len(agent.http.get("/v1/queries").content)
        client = reader(agent, held, 1)
        client.settimeout(30)
        got = 0
        while got < size:
            data = client.recv(16_384)
            assert data
            got += len(data)
            time.sleep(0.001)


@pytest.mark.parametrize(
    "error", [ValueError("current limit exceeds maximum limit"), OSError(1, "")]
)
def test_a_system_that_raises_no_limit_has_the_connections_that_it_gives(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an older macOS, whose hard limit is none, or a sandbox."""

    def refused(*_: object) -> None:
        raise error

    unlimited = connections.resource.RLIM_INFINITY
    monkeypatch.setattr(connections.resource, "getrlimit", lambda _: (1000, unlimited))
    monkeypatch.setattr(connections.resource, "setrlimit", refused)
    assert connections.most_connections(8192) == 1000 - connections.KEPT_DESCRIPTORS
