"""What Alertmanager tells, received: a web hook on loopback in the place of a pager."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class Notification:
    """One alert as one receiver was told of it."""

    time: float  # epoch seconds
    receiver: str  # page, day or log
    status: str  # firing or resolved
    alert: str
    query: str
    severity: str
    summary: str
    description: str
    runbook: str
    labels: dict[str, str]


class Receiver:
    """Collects notifications; ``on_notification`` is called with each, on the server's thread."""

    def __init__(self, on_notification: Callable[[Notification], None] | None = None) -> None:
        self._lock = threading.Lock()
        self._all: list[Notification] = []
        self._told = on_notification
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(min(length, MOST_BYTES))
                receiver.take(self.path.strip("/"), json.loads(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def start(self) -> None:
        """Listen; what was posted before waits."""
        self._thread.start()

    @property
    def url(self) -> str:
        """Where Alertmanager posts to; the receiver's name follows."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, receiver: str, body: dict[str, Any]) -> None:
        """A group of alerts, as Alertmanager posts it."""
        for one in body["alerts"]:
            labels, words = one["labels"], one["annotations"]
            notification = Notification(
                time.time(),
                receiver,
                one["status"],
                labels["alertname"],
                labels.get("query", ""),
                labels.get("severity", ""),
                words.get("summary", ""),
                words.get("description", ""),
                words.get("runbook_url", ""),
                labels,
            )
            with self._lock:
                # A group is told whole each time one of it changes.
                known = (receiver, labels)
                last = [n.status for n in self._all if (n.receiver, n.labels) == known][-1:]
                if last == [notification.status]:
                    continue
                self._all.append(notification)
            if self._told is not None:
                self._told(notification)

    @property
    def notifications(self) -> list[Notification]:
        """All so far, in order; what was only repeated is left out."""
        with self._lock:
            return list(self._all)

    def close(self) -> None:
        """Listen no more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(timeout=5)
        self._server.server_close()
