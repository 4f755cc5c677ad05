"""An order in the making: which key asks for it, what is asked once more, what is sent. Pure."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

Verb = Literal["hold", "release", "mode", "limit"]
VERBS: Final[dict[str, Verb]] = {"h": "hold", "r": "release", "m": "mode", "l": "limit"}
MODES: Final = {"o": "on", "d": "dry-run", "f": "off"}
#: As many digits as any limit has that a driver takes: below 2^63.
_MOST_DIGITS: Final = 18
#: Seconds that a question stands before a yes counts: within a word even a slow typist, of 20 words
#: a minute, presses a key each 0.6 s, and who reads the question takes longer.
READ_SECONDS: Final = 0.7


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be ordered of a query: (application, query)."""

    key: tuple[str, str]
    verb: Verb
    value: str = ""  # the mode; of a limit the digits typed so far
    sure: bool = False  # all is said, and only a yes is wanted
    drawn: float | None = None  # steady clock: since when the question to be sure stands

    def order(self, unit: str | None) -> dict[str, Any]:
        """As the agent takes it; ``unit`` is that of the query's limit, None where unknown."""
        if self.verb == "mode":
            return {"mode": self.value}
        if self.verb == "limit":
            return {"limit": int(self.value)} | ({} if unit is None else {"unit": unit})
        return {"hold": self.verb == "hold"}

    def sentence(self, name: str, unit: str | None) -> str:
        """What a yes does."""
        if self.verb == "limit":
            amount = f"{int(self.value or 0):,} {unit or 'units of its source'}"
            return f"Limit {name} to {amount} a batch, until released?"
        said = {
            "hold": f"Hold the limit of {name} as it is, until released?",
            "release": f"Release {name}, so that Weir sets its limit again?",
            "on": f"Let Weir act on {name}?",
            "dry-run": f"Only show what Weir would do with {name}, and change nothing?",
            "off": f"Switch Weir off for {name}: back to what its job configured?",
        }
        return said[self.value if self.verb == "mode" else self.verb]


def begin(verb: Verb, key: tuple[str, str]) -> Ask:
    """A key was pressed on a query."""
    return Ask(key=key, verb=verb, sure=verb in ("hold", "release"))


def stands(ask: Ask | None, now: float) -> Ask | None:
    """The question as drawn at ``now``, on a steady clock."""
    if ask is None or not ask.sure or ask.drawn is not None:
        return ask
    return msgspec.structs.replace(ask, drawn=now)


def was_read(ask: Ask, now: float) -> bool:
    """Whether a yes at ``now`` answers the question, and is no letter of a word typed here."""
    return ask.drawn is not None and now - ask.drawn >= READ_SECONDS


def answer(key: str, ask: Ask) -> tuple[Ask | None, Ask | None]:
    """What is asked after a key, and what is to be sent: both None where it is left."""
    if ask.sure:
        return (None, ask) if key == "y" else (None, None)
    if key == "escape":
        return None, None
    if ask.verb == "mode":
        mode = MODES.get(key)
        return (None if mode is None else _said(ask, mode)), None
    if key == "enter" and ask.value.strip("0"):
        return _said(ask, ask.value), None
    if key == "backspace":
        return msgspec.structs.replace(ask, value=ask.value[:-1]), None
    if key in "0123456789" and len(ask.value) < _MOST_DIGITS:
        return msgspec.structs.replace(ask, value=ask.value + key), None
    return ask, None


def _said(ask: Ask, value: str) -> Ask:
    return msgspec.structs.replace(ask, value=value, sure=True)
