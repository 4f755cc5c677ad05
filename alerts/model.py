"""What an alert, a recording rule and an inhibition are."""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["critical", "warning", "info"]
#: Whom an alert is about: it says which labels name the thing, and which dashboard shows it.
Subject = Literal["query", "application", "agent"]


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert. ``why`` gives the reasons of its threshold, of ``hold`` and of ``keep``.

    It must last for ``hold``, and goes on for ``keep`` after it last did. ``says`` is what
    docs/alerts.md says it tells. ``summary`` and ``description`` are Prometheus
    templates.
    """

    name: str
    severity: Severity
    subject: Subject
    says: str
    expression: str
    hold: str  # a Prometheus duration; "0s" fires at once
    why: str
    summary: str
    description: str
    dashboard: str  # uid
    keep: str = "0s"  # a Prometheus duration


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A recording rule: ``level:metric:operation``."""

    name: str
    expression: str
    why: str


class Inhibition(msgspec.Struct, frozen=True, kw_only=True):
    """While one of ``sources`` fires, ``targets`` with equal labels page nobody."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    equal: tuple[str, ...]
    why: str
