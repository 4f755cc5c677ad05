"""Levels, reasons and states in words, from the page's own file, so that both say the same."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Literal

import msgspec

Tone = Literal["ok", "low", "high", "idle"]


class Level(msgspec.Struct, frozen=True):
    """How bad a query is; ``Words.levels`` lists them, worst first."""

    name: str
    label: str
    tone: Tone
    symbol: str
    means: str
    runbook: str = ""
    still: bool = False  # no batch ends: what was counted per batch is no statement on now


class Words(msgspec.Struct, frozen=True):
    """``agent/export/page/assets/words.json``."""

    levels: list[Level]
    reasons: dict[str, str]
    states: dict[str, str]
    controls: dict[str, str]
    causes: dict[str, str]
    places: dict[str, str]
    happenings: dict[str, str]
    spirals: dict[str, str]
    steered: dict[str, str]
    capacity: dict[str, str]
    executors: dict[str, str]
    executor_bounds: dict[str, str]
    partitions: dict[str, str]
    event_time: dict[str, str]


@cache
def words() -> Words:
    """All words."""
    file = resources.files("agent.export.page") / "assets" / "words.json"
    return msgspec.json.decode(file.read_bytes(), type=Words)


@cache
def levels() -> dict[str, tuple[int, Level]]:
    """Rank (0 is worst) and level by name."""
    return {level.name: (rank, level) for rank, level in enumerate(words().levels)}
