"""More connections than the agent serves at once: an answer that says so and when to come again.

The server's own limit would refuse a kubelet's probes too, so that a crowd ended the agent, or by
``/live`` a driver: probes pass.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from agent.service.log import Rarely
from spark_listener.wire import EVENTS_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from starlette.types import ASGIApp, Receive, Scope, Send

RETRY_SECONDS: Final = 30
_PROBES: Final = ("/healthz", "/readyz", "/queries/")
_log = structlog.get_logger("http")


class Crowd:
    """An ASGI application before another one. ``connections`` are the server's present ones."""

    def __init__(self, inner: ASGIApp, most: int, on_refused: Callable[[], None]) -> None:
        """``on_refused`` is called for events that were not taken in."""
        self.connections: Sized = ()
        self._inner = inner
        self._most = most
        self._on_refused = on_refused
        self._rarely = Rarely(60.0)
        message = f"more than {most} connections at once"
        self._body = msgspec.json.encode({"error": {"message": message, "where": None}})
        self._headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(self._body)).encode()),
            (b"retry-after", str(RETRY_SECONDS).encode()),
            (b"cache-control", b"no-store"),
            (b"connection", b"close"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        crowded = len(self.connections) > self._most
        if not crowded or scope["type"] != "http" or scope["path"].startswith(_PROBES):
            await self._inner(scope, receive, send)
            return
        self._rarely.warn(
            _log.warning, "too many connections: requests are refused", time.time(), most=self._most
        )
        if scope["path"] == EVENTS_PATH:
            self._on_refused()
        await send({"type": "http.response.start", "status": 503, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body})
