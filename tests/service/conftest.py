"""One agent with a token for the tests that only ask; each test names its own application."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.service.agents import AgentProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "correct-horse-battery-staple"
EVENTS_TOKEN = "tells-and-never-asks"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent with a token, one for events, a state directory, requests of at most 64 KiB."""
    folder = tmp_path_factory.mktemp("guarded")
    events = folder / "events-token"
    events.write_text(EVENTS_TOKEN + "\n")
    options = ("--state-dir", str(folder / "state"), "--max-request-bytes", "65536")
    options += ("--events-token-file", str(events))
    with AgentProcess(folder, *options, token=TOKEN) as agent:
        yield agent


@pytest.fixture(scope="session")
def open_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent without a token, in memory."""
    with AgentProcess(tmp_path_factory.mktemp("open")) as agent:
        yield agent


@pytest.fixture
def application() -> str:
    """An application that no other test knows."""
    return f"application-{next(_numbers)}"
