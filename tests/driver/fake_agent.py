"""A small real HTTP server that speaks the agent's side of the wire, and can misbehave at will.

For tests of the driver's protocol: agents that hang, lie, refuse or vanish on command.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

Grants = list[dict[str, Any]]


@dataclass
class FakeAgent:
    """Modes: answer, hang, drip, garbage, html, huge, refuse (401), denied (403 of a mesh),
    full (503), away (503 of a mesh), broken (500), deaf (acknowledges nothing), spoiled (400 for
    any request with an event named in ``poison``).
    """

    token: str | None = None
    port: int = 0
    certificate: tuple[str, str] | None = None
    mode: str = "answer"
    delay_seconds: float = 0.0  # before each answer
    slow_starts_seconds: float = 0.0  # before each answer to a request with a start in it
    poison: set[int] = field(default_factory=set)
    requests: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)  # each sequence once, as counted
    acknowledged: dict[str, int] = field(default_factory=dict)
    attempts: int = 0
    answered: float = 0.0  # when an answer was given last, on the monotonic clock
    decide: Callable[[list[dict[str, Any]]], Grants] | None = None
    grants: Grants = field(default_factory=list)
    give_limits: bool | None = None  # said of every run that was heard of; None: nothing is said

    def __post_init__(self) -> None:
        self.changed = threading.Condition()
        self._release = threading.Event()
        self._server: ThreadingHTTPServer | None = None

    # -- life -----------------------------------------------------------------------------------

    def start(self) -> FakeAgent:
        agent = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                agent._answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_: Any) -> None:
                pass  # a client that gave up is part of the test

        self._release.clear()
        self._server = Server(("127.0.0.1", self.port), Handler)
        self._connections: set[socket.socket] = set()
        if self.certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Gone: the port refuses, connections break."""
        self._release.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            for connection in list(self._connections):
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"{'https' if self.certificate else 'http'}://127.0.0.1:{self.port}"

    # -- what a test asks -----------------------------------------------------------------------

    def of(self, kind: str, run_id: str | None = None) -> list[dict[str, Any]]:
        with self.changed:
            return [
                event
                for event in self.events
                if event["type"] == kind
                and (run_id is None or event["body"].get("runId") == run_id)
            ]

    def wait(self, ready: Callable[[FakeAgent], Any], seconds: float = 60.0) -> Any:
        """The first true value of ``ready(self)``; fails the test when that takes too long."""
        with self.changed:
            return until(
                lambda: ready(self),
                "what the agent is to hear",
                seconds=seconds,
                every=0.1,
                telling=lambda: [(e["sequence"], e["type"]) for e in self.events][-20:],
                pause=self.changed.wait,
            )

    def grant(
        self,
        run_id: str,
        limit: int | None,
        *,
        source: int = 0,
        unit: str = "files",
        life: float = 60.0,
        lapses: bool = False,
    ) -> None:
        """Every reply carries this grant from now on."""
        with self.changed:
            self.grants = [
                held for held in self.grants if (held["runId"], held["source"]) != (run_id, source)
            ]
            self.grants.append(
                {
                    "id": "any",
                    "runId": run_id,
                    "source": source,
                    "unit": unit,
                    "limit": limit,
                    "expires_seconds": life,
                    "reason": "raise",
                    "lapses": lapses,
                }
            )

    # -- the wire -------------------------------------------------------------------------------

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        self._connections.add(handler.connection)
        length = int(handler.headers.get("Content-Length", "0"))
        data = handler.rfile.read(length)
        with self.changed:
            self.attempts += 1
            mode = self.mode
            self.changed.notify_all()
        if mode == "hang":
            self._release.wait(60)
            return
        if mode == "drip":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not self._release.wait(0.2):
                handler.wfile.write(b"X-Drip: 1\r\n")
            return
        if mode == "garbage":
            handler.wfile.write(b"\x00\xff this is no HTTP at all \x80\r\n\r\n")
            handler.close_connection = True
            return
        if mode == "html":
            self._send(handler, 200, b"<html>hello</html>")
            return
        if mode == "huge":
            self._send(handler, 200, b" " * (5 * 1024 * 1024))
            return
        if mode == "full":
            self._send(handler, 503, b'{"error":"full"}', {"Retry-After": "1"})
            return
        if mode == "away":  # a mesh answers in its place
            self._send(handler, 503, b"upstream connect error, connection failure")
            return
        if mode == "denied":
            self._send(handler, 403, b"RBAC:\x1b[31m access\r\ndenied")  # in red
            return
        if mode == "broken":
            self._send(handler, 500, b'{"error":"oops"}')
            return
        sent = handler.headers.get("Authorization")
        if mode == "refuse" or (self.token is not None and sent != f"Bearer {self.token}"):
            asked = {"WWW-Authenticate": 'Bearer realm="weir"'}
            self._send(handler, 401, b'{"error":"token"}', asked)
            return
        request = json.loads(data)
        starts = any(event["type"] == "started" for event in request["events"])
        time.sleep(self.delay_seconds + self.slow_starts_seconds * starts)
        if self.poison & {event["sequence"] for event in request["events"]}:
            self._send(handler, 400, b'{"error":"malformed"}')
            return
        instance = request["listener"]["instance"]
        if mode == "deaf":
            self._send(handler, 200, b'{"accepted":0,"acknowledged":0,"grants":[]}')
            return
        with self.changed:
            self.requests.append(request)
            fresh = []
            for event in request["events"]:
                if event["sequence"] > self.acknowledged.get(instance, 0):
                    self.acknowledged[instance] = event["sequence"]
                    fresh.append(event)
            self.events.extend(fresh)
            if self.decide is not None:
                self.grants = self.decide(fresh) or self.grants
            reply = {
                "accepted": len(request["events"]),
                "acknowledged": self.acknowledged.get(instance, 0),
                "rejected": [],
                "grants": list(self.grants),
            }
            if self.give_limits is not None:
                runs = {event["body"].get("runId") for event in self.events} - {None}
                reply["unsafe_limits"] = dict.fromkeys(runs, self.give_limits)
            self.answered = time.monotonic()
            self.changed.notify_all()
        self._send(handler, 200, json.dumps(reply).encode())

    def _send(
        self,
        handler: BaseHTTPRequestHandler,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
    ) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)


def main() -> None:
    """``python -m tests.driver.fake_agent MODE``: prints its address, runs until input ends."""
    import sys

    with FakeAgent(mode=sys.argv[1]) as agent:
        print(agent.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
