"""Sends an order in a thread of its own, so that a slow agent never freezes the picture."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.client import AgentUnavailable, WrongUse, user_name
from agent.core.names import first_line

if TYPE_CHECKING:
    from agent.client import AgentClient
    from agent.export.terminal.poll import Poller

#: What the agent's log says of why.
REASON: Final = "weir top"


class Told(msgspec.Struct, frozen=True):
    """What became of an order, in one line."""

    text: str
    done: bool


class Orders:
    """Orders on their way; the newest answer is kept until it is taken."""

    def __init__(self, client: AgentClient, poller: Poller) -> None:
        self._client = client
        self._poller = poller
        self._told: Told | None = None

    def send(self, key: tuple[str, str], order: dict[str, Any]) -> None:
        """Sends it; what becomes of it is there to be taken later."""
        threading.Thread(target=self._send, args=(key, order), daemon=True).start()

    def take(self) -> Told | None:
        """What became of the last order, once."""
        told, self._told = self._told, None
        return told

    def _send(self, key: tuple[str, str], order: dict[str, Any]) -> None:
        said = {**order, "reason": REASON, "who": user_name()}
        try:
            done = self._client.control(*key, said).get("orders") or [{}]
            note = first_line(str(done[0].get("note") or ""))
            what = first_line(str(done[0].get("what") or "done"))
            self._told = Told(f"{key[1]}: {what}{f' ({note})' if note else ''}", done=True)
        except (WrongUse, AgentUnavailable) as error:
            self._told = Told(str(error), done=False)
        except Exception as error:  # noqa: BLE001 - who gave an order hears what became of it
            cause = f"{type(error).__name__}: {first_line(str(error))}"
            self._told = Told(f"{key[1]}: not known whether it was done ({cause})", done=False)
        self._poller.hurry()
