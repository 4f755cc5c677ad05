"""What the commands ask an agent with: addresses and tokens."""

from __future__ import annotations

import socket
import socketserver
import threading
from typing import TYPE_CHECKING, Any

import pytest

from agent.client import AgentClient, AgentUnavailable, ClientSettings, WrongUse
from agent.service.config import Settings
from agent.service.run import _bind
from tests.service.agents import AgentProcess
from tests.service.conftest import EVENTS_TOKEN, TOKEN

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = "a" * 40, "b" * 40


@pytest.mark.parametrize(
    "url",
    [
        "http://kim:hunter2@127.0.0.1:1",
        "https://hunter2@weir.jobs.svc:9655",
        "http://:hunter2@127.0.0.1:1",
        "ftp://kim:hunter2@127.0.0.1:1",
    ],
)
def test_a_token_in_the_address_is_refused_and_never_printed(url: str) -> None:
    with pytest.raises(WrongUse) as refused:
        AgentClient(ClientSettings(url=url))
    assert "hunter2" not in str(refused.value)


def test_a_token_that_is_changed_is_read_again(tmp_path: Path) -> None:
    """As docs/deploy.md has it changed without a gap, under a ``weir top`` that runs for days."""
    ours = tmp_path / "ours"
    ours.write_text(FIRST)
    with (
        AgentProcess(tmp_path, token=FIRST) as agent,
        AgentClient(ClientSettings(url=agent.address, token_file=str(ours))) as client,
    ):
        assert client.queries()["queries"] == []
        client._http.headers["authorization"] = f"Bearer {SECOND}"  # as of before the change
        assert client.queries()["queries"] == []
        ours.write_text(SECOND)
        client._http.headers["authorization"] = f"Bearer {SECOND}"
        with pytest.raises(WrongUse, match="refuses the token"):
            client.queries()


class Between(socketserver.ThreadingTCPServer):
    """Takes a request whole, answers with ``answer``, and closes; stays silent where it is None."""

    daemon_threads = True

    def __init__(self, answer: bytes | None) -> None:
        ended = threading.Event()
        self.ended = ended

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                length = 0
                while (line := self.rfile.readline()).strip():
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                self.rfile.read(length)
                if answer is None:
                    ended.wait(30)
                else:
                    self.wfile.write(answer)

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def client(self) -> AgentClient:
        url = f"http://127.0.0.1:{self.server_address[1]}"
        return AgentClient(ClientSettings(url=url, timeout_seconds=0.5))

    def server_close(self) -> None:
        self.ended.set()
        self.shutdown()
        super().server_close()


def http(status: int, body: bytes = b"<html>of a proxy</html>") -> bytes:
    return b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


UNKNOWN = "It is not known whether the order was done; `weir top` shows it"


@pytest.mark.parametrize(
    "answer",
    [None, b"", b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{", http(502), http(504), http(503)],
)
def test_an_order_whose_answer_is_lost_may_have_been_done(answer: bytes | None) -> None:
    with Between(answer) as between, between.client() as client:
        with pytest.raises(AgentUnavailable) as told:
            client.control("shop", "orders", {"hold": True})
        assert UNKNOWN in str(told.value)
        assert "Start" not in str(told.value)
        with pytest.raises(AgentUnavailable) as told:
            client.queries()
        assert UNKNOWN not in str(told.value)
        assert "Start" not in str(told.value)


def test_an_order_that_reached_nobody_was_not_done() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with (
            AgentClient(ClientSettings(url=url)) as client,
            pytest.raises(AgentUnavailable, match=r"no agent answers .*Start `weir agent`"),
        ):
            client.control("shop", "orders", {"hold": True})


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (302, AgentUnavailable, "is no Weir agent (HTTP 302)"),
        (404, WrongUse, "is no Weir agent (HTTP 404)"),
        (403, WrongUse, "is no Weir agent (HTTP 403)"),
        (502, AgentUnavailable, "cannot now (HTTP 502)"),
        (429, AgentUnavailable, "cannot now (HTTP 429)"),
        (503, AgentUnavailable, "cannot now (HTTP 503)"),
    ],
)
def test_who_stands_between_is_not_taken_for_the_agent(
    status: int, kind: type[Exception], words: str
) -> None:
    with Between(http(status)) as between, between.client() as client:
        with pytest.raises(kind) as told:
            client.queries()
        assert str(told.value) == f"what answers at {client.url} {words}"


def test_of_a_file_with_digests_the_token_is_sent(tmp_path: Path) -> None:
    ours, digest = tmp_path / "ours", f"sha256:{'0' * 64}"
    ours.write_text(f"{digest}\n{FIRST}\n{SECOND}\n")
    with AgentClient(ClientSettings(token_file=str(ours))) as client:
        assert client._http.headers["authorization"] == f"Bearer {FIRST}"
    ours.write_text(digest)
    with pytest.raises(WrongUse) as refused:
        AgentClient(ClientSettings(token_file=str(ours)))
    assert str(refused.value) == (
        f"the token file '{ours}' holds digests alone: name a file with the token itself"
    )


def test_a_token_for_events_gives_no_order_and_the_one_who_tries_hears_why(
    guarded: AgentProcess, tmp_path: Path
) -> None:
    ours = tmp_path / "ours"
    ours.write_text(EVENTS_TOKEN)
    with AgentClient(ClientSettings(url=guarded.address, token_file=str(ours))) as client:
        for ask in (client.queries, lambda: client.control("*", "*", {"hold": True})):
            with pytest.raises(WrongUse) as refused:
                ask()
            assert f"with the token of '{ours}' (this token opens" in str(refused.value)
            assert "give another with --token-file or WEIR_TOKEN_FILE" in str(refused.value)
            assert EVENTS_TOKEN not in str(refused.value)
        ours.write_text(TOKEN)  # and the file is read again
        client.queries()


def test_a_name_is_listened_on_where_drivers_and_commands_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some systems know localhost as ::1 first."""

    def both(host: str, port: int, **_: Any) -> list[Any]:
        assert host == "localhost"
        six = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0))
        return [six, (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    with _bind(Settings(host="localhost", port=0)) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
