"""A real Prometheus on a free loopback port that scrapes an exposition, for the tests to ask."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.lacking import program
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def tool(name: str) -> str:
    """Where a program is; under CI a missing one fails, elsewhere it skips."""
    return program(name)


class LivePrometheus:
    """Answers PromQL."""

    def __init__(self, address: str) -> None:
        self.address = address

    def get(self, path: str, **parameters: str) -> Any:
        url = f"{self.address}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            if error.code == 503:
                raise OSError("Prometheus still starts") from None
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """The instant vector of an expression; fails with Prometheus's words where it is wrong."""
        answer = self.get("/api/v1/query", query=expression)
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def wait_for(self, expression: str, seconds: float = 90.0) -> None:
        """Until the expression has a result."""
        until(
            lambda: self.ask(expression),
            f"a result for {expression}",
            seconds=seconds,
            every=0.2,
            ignoring=(OSError,),  # not listening yet
        )


def wait_until_ready(address: str, log: Path, seconds: float = 60.0) -> None:
    """Until a Prometheus or an Alertmanager says of itself that it is."""

    def ready() -> bool:
        urllib.request.urlopen(f"{address}/-/ready", timeout=5).close()
        return True

    until(
        ready,
        f"{address} to be ready",
        seconds=seconds,
        every=0.1,
        ignoring=(OSError,),
        telling=log.read_text,
    )


@contextmanager
def exposed(text_of: Callable[[int], bytes]) -> Iterator[str]:
    """Serves ``text_of(scrape number)`` on loopback; yields host:port."""
    count = iter(range(10**9))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = text_of(next(count))
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


@contextmanager
def prometheus(target: str, directory: Path, rules: list[str]) -> Iterator[LivePrometheus]:
    """A Prometheus that scrapes the target every second; ends with the block."""
    program = tool("prometheus")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": rules,
        "scrape_configs": [
            {"job_name": "weir", "static_configs": [{"targets": [target]}]},
        ],
    }
    path = directory / "prometheus.json"  # JSON is YAML
    path.write_text(json.dumps(config))
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={path}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        yield LivePrometheus(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=20)
