"""What the terminal view draws: an answer of the agent, and how the connection is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from agent.core.judgement import QueryView
from agent.core.names import label

if TYPE_CHECKING:
    from collections.abc import Mapping


class NotAnAgent(ValueError):  # noqa: N818 - what it says of the other side
    """The answer is not one of an agent that this version understands. One line."""


class _Agent(msgspec.Struct, frozen=True):
    version: str = ""
    mode: str = ""
    labels: dict[str, str] = {}


class _Answer(msgspec.Struct, frozen=True):
    time: float
    queries: list[QueryView]
    agent: _Agent = _Agent()


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of an agent. Epoch seconds; ``time`` is the agent's own."""

    time: float
    views: list[QueryView]
    version: str = ""
    mode: str = ""  # what new queries start with; empty: not told
    labels: dict[str, str] = {}
    url: str = ""
    lost_since_time: float | None = None  # this machine's clock; None while the agent answers
    lost_seconds: float = 0.0
    problem: str = ""
    paused_seconds: float = 0.0  # for how long it has stood while the reader paused the picture


def read_answer(answer: Mapping[str, Any], *, url: str = "") -> Snapshot:
    """``GET /v1/queries`` as a snapshot; raises NotAnAgent saying what does not fit."""
    try:
        read = msgspec.convert(answer, _Answer)
    except msgspec.ValidationError as error:
        agent = answer.get("agent")
        version = agent.get("version") if isinstance(agent, dict) else None
        said = f"agent {label(version)}" if isinstance(version, str) else "what answers"
        raise NotAnAgent(f"{said} does not fit this version of weir: {error}") from None
    return Snapshot(
        time=read.time,
        views=read.queries,
        version=read.agent.version,
        mode=read.agent.mode,
        labels=read.agent.labels,
        url=url,
    )
