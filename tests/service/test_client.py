"""What the commands ask an agent with: addresses and tokens."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from agent.client import AgentClient, ClientSettings, WrongUse
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
