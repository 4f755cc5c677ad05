"""Who steers a query by hand, what to do about it, and about trouble; in words and commands.

``agent/export/page/assets/steer.js`` says the same for the page; a test holds the two together.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

import msgspec

from agent.export.terminal.format import duration, quantity, visible
from agent.export.terminal.words import levels, words

if TYPE_CHECKING:
    from agent.core.judgement import OrderView, QueryView

_NOT_TYPED: Final = re.compile("[*?[\ufffd]")


class Steering(msgspec.Struct, frozen=True):
    """A hand at the wheel, and the order of ``weir`` that takes it off."""

    said: str
    verb: str


def runbook_of(view: QueryView) -> str | None:
    """The alert whose runbook says what to do; None where nothing need be done."""
    if not view.attention.to_do:
        return None
    return levels()[view.attention.level][1].runbook or None


def steered(view: QueryView, now: float) -> list[Steering]:
    """Each hand at the wheel."""
    text = words().steered
    held = _by(view.held_by, now)
    found: list[Steering] = []
    if view.manual_limit is not None:
        limit = quantity(view.manual_limit, view.manual_unit or view.limit.unit)
        found.append(Steering(text["manual"].format(limit=limit, by=held), "release"))
    elif view.held:
        found.append(Steering(text["held"].format(by=held), "release"))
    if view.mode != "on":
        by = text["set"].format(by=_by(view.mode_by, now)) if view.mode_by is not None else ""
        found.append(Steering(f"{text[view.mode]} {by}".rstrip(), "mode on"))
    return found


def _by(order: OrderView | None, now: float) -> str:
    text = words().steered
    if order is None:
        return text["by_hand"]
    said = text["by_why" if order.reason else "by"].format(
        who=visible(order.who, 60),
        ago=duration(max(0.0, now - order.time)),
        why=visible(order.reason, 200),
    )
    return said.removesuffix(".")


def command(verb: str, view: QueryView, url: str) -> str | None:
    """``weir mode on orders/enrich``, fit for a shell.

    None where the name cannot be typed, or would be taken for a pattern or for another name.
    """
    for name in (view.application, view.query):
        if not name or visible(name, 500) != name or _NOT_TYPED.search(name):
            return None
    if "/" in view.application or view.application.startswith("-"):
        return None
    # Always with the address: where it is pasted WEIR_AGENT_URL may name another agent.
    typed = shlex.quote(f"{view.application}/{view.query}")
    return f"weir {verb} {typed} --url {shlex.quote(url)}"
