"""One exchange with the agent has one time: its name, the connection, TLS, the reply."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_listener.channel import Channel, ExchangeFailed
from tests.driver.fake_agent import FakeAgent
from tests.lacking import program
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_SECONDS = 1.0
HOME = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
REQUEST = b'{"listener":{"instance":"i"},"events":[]}'


def failure(channel: Channel) -> tuple[ExchangeFailed, float]:
    """How an exchange ended, and after how long; another thread's clock cuts it, as in a driver."""
    ended: list[ExchangeFailed] = []
    begun = time.monotonic()

    def exchange() -> None:
        try:
            channel.exchange(b"{}")
        except ExchangeFailed as error:
            ended.append(error)

    thread = threading.Thread(target=exchange, daemon=True)
    thread.start()
    until(lambda: channel.cut_if_overdue() or not thread.is_alive(), "its end", every=0.02)
    thread.join(30.0)
    return ended[0], time.monotonic() - begun


@pytest.fixture
def dripping() -> Iterator[int]:
    """The port of a server that begins a TLS handshake and never ends it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                connection.recv(4096)
                connection.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")
                while True:
                    connection.sendall(b"\x00")
                    time.sleep(0.05)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=drip, args=server.accept()[:1], daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def test_a_tls_handshake_that_drips_ends_in_time(dripping: int) -> None:
    channel = Channel(f"https://127.0.0.1:{dripping}", timeout_seconds=TIMEOUT_SECONDS)
    error, _ = failure(channel)
    assert error.kind == "timeout"


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a host with four addresses, of which none takes a connection."""
    with contextlib.ExitStack() as stack:
        port = 0
        for address in HOME:
            server = stack.enter_context(socket.socket())
            server.bind((address, port))
            port = server.getsockname()[1]
            server.listen(0)
            for _ in range(3):  # what waits to be accepted, and more: nobody answers from now on
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex((address, port))
        real = socket.getaddrinfo

        def several(host: str, *more: Any, **named: Any) -> list[Any]:
            if host != "several.example":
                return real(host, *more, **named)
            return [found for address in HOME for found in real(address, *more, **named)]

        monkeypatch.setattr(socket, "getaddrinfo", several)
        yield port


def test_several_dead_addresses_share_one_time(deaf: int) -> None:
    channel = Channel(f"http://several.example:{deaf}", timeout_seconds=TIMEOUT_SECONDS)
    error, seconds = failure(channel)
    assert error.kind == "timeout"
    assert seconds < len(HOME) * TIMEOUT_SECONDS / 2, "one time for all of them, not one for each"


def test_the_address_that_answers_is_found_behind_dead_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakeAgent() as agent, socket.socket() as closed:
        closed.bind(("127.0.0.2", agent.port))  # refuses: nobody listens
        real = socket.getaddrinfo

        def several(_: str, *more: Any, **named: Any) -> list[Any]:
            return [*real("127.0.0.2", *more, **named), *real("127.0.0.1", *more, **named)]

        monkeypatch.setattr(socket, "getaddrinfo", several)
        channel = Channel(f"http://several.example:{agent.port}", timeout_seconds=20.0)
        assert b"acknowledged" in channel.exchange(REQUEST)
        channel.close()


def test_a_family_that_this_kernel_has_not_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """As IPv6 is where it is switched off, and names have such addresses all the same."""
    with FakeAgent() as agent:
        real = socket.getaddrinfo

        def several(_: str, *more: Any, **named: Any) -> list[Any]:
            found = real("127.0.0.1", *more, **named)
            return [(99, *found[0][1:]), *found]  # no family has this number

        monkeypatch.setattr(socket, "getaddrinfo", several)
        channel = Channel(f"http://several.example:{agent.port}", timeout_seconds=20.0)
        assert b"acknowledged" in channel.exchange(REQUEST)
        channel.close()


def test_nothing_is_printed_where_a_job_looks_into_its_own_requests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It says so to all connections of its process: the token would stand in its log."""
    monkeypatch.setattr(http.client.HTTPConnection, "debuglevel", 1)
    token = tmp_path / "token"
    token.write_text("the-token")
    with FakeAgent(token="the-token") as agent:
        channel = Channel(agent.url, token_file=str(token), timeout_seconds=20.0)
        assert b"acknowledged" in channel.exchange(REQUEST)
        channel.close()
    assert capsys.readouterr().out == ""


def openssl(folder: Path, arguments: str) -> None:
    subprocess.run(
        [program("openssl"), *arguments.split()], cwd=folder, capture_output=True, check=True
    )


def test_the_agents_own_certificate_is_trusted_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Python asks more of each from 3.13 on: an authority that is made simply has no key usage."""
    openssl(tmp_path, "req -x509 -newkey rsa:2048 -nodes -subj /CN=ca -keyout ca.key -out ca.pem")
    openssl(tmp_path, "req -newkey rsa:2048 -nodes -subj /CN=agent -keyout own.key -out own.csr")
    (tmp_path / "names").write_text("subjectAltName=IP:127.0.0.1\nkeyUsage=digitalSignature\n")
    issued = "-CA ca.pem -CAkey ca.key -CAcreateserial -extfile names"
    openssl(tmp_path, f"x509 -req -in own.csr {issued} -out own.pem")
    authority, certificate = tmp_path / "ca.pem", tmp_path / "own.pem"
    certificate.write_text(certificate.read_text() + authority.read_text())
    made = ssl.create_default_context

    def strict(*arguments: Any, **named: Any) -> ssl.SSLContext:
        context = made(*arguments, **named)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    with FakeAgent(certificate=(str(certificate), str(tmp_path / "own.key"))) as agent:
        own = Channel(
            agent.url, ca_file=str(certificate), agents_own_certificate=True, timeout_seconds=20.0
        )
        assert b"acknowledged" in own.exchange(REQUEST)
        own.close()
        by_authority = Channel(agent.url, ca_file=str(authority), timeout_seconds=20.0)
        with pytest.raises(ExchangeFailed) as refused:
            by_authority.exchange(REQUEST)
    assert str(refused.value).endswith(f"does not include key usage extension; check {authority}")


HANGING_LOOKUP = """
import ctypes, socket, threading, time
from spark_listener.channel import Channel
from spark_listener.complaints import Complaints
from spark_listener.outbox import Outbox
from spark_listener.sender import Sender
looking = threading.Event()

def getaddrinfo(*_, **__):
    looking.set()
    ctypes.CDLL(None).pause()  # in C and for ever, as where a resolver gets no answer

socket.getaddrinfo = getaddrinfo
outbox = Outbox(10, 1 << 20, largest_bytes=10_000)
sender = Sender(outbox, Channel("http://agent.example:9655", timeout_seconds=0.1), agent_url="",
                prompt_seconds=0.1, head=lambda: "{", on_reply=print, on_failure=print,
                without_agent=str, complaints=Complaints())
for _ in range(50):
    outbox.put("progress", "", "{}")
sender.start()
assert looking.wait(30)
while sender.link.worth_waiting_for(time.monotonic()):
    time.sleep(0.01)
sender.cut_if_overdue()
sender.stop(0.2)
print(len(outbox), outbox.dropped_total, "alive", any(
    thread.name == "weir-sender" for thread in threading.enumerate()))
"""


def test_a_name_that_is_looked_up_for_ever_holds_neither_a_query_nor_the_end() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGING_LOOKUP],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.stderr == ""
    assert done.stdout == "10 40 alive True\n"  # and the interpreter ended all the same
    assert done.returncode == 0
