"""A real agent's address for the page: its routes, and a fleet made by hand behind them."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import uvicorn
from playwright.sync_api import Browser, Page, Playwright, sync_playwright
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from agent.compare import compare
from agent.export import runbooks
from agent.export.page import routes
from agent.service.history import History
from tests.lacking import program
from tests.page import views as made
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request

    from agent.core.judgement import QueryView


def chromium(playwright: Playwright, environment: dict[str, str] | None = None) -> Browser:
    """A browser, with these variables beside those of its environment; to be closed."""
    return playwright.chromium.launch(
        executable_path=program("chromium", "chromium-browser", "google-chrome"),
        args=["--no-sandbox", "--disable-gpu"],
        env={**os.environ, **(environment or {})},
    )


class FleetServer:
    """Serves the page and ``views``; what it answers can be changed while it runs."""

    def __init__(self) -> None:
        self.views: list[QueryView] = made.everything()
        self._began = time.monotonic()
        self.status = 200
        self.refusal = b"<html>of a proxy</html>"  # answered with any other status
        self.body: bytes | None = None  # answered instead of the queries
        self.headers: dict[str, str] = {}
        self._bodies: dict[int, bytes] = {}
        self.polls = 0
        self.history = History()
        self.asked_for_hours = self.asked_for_comparisons = 0
        app = Starlette(
            routes=[
                *routes(),
                *runbooks.routes(),
                Route("/v1/queries", self._queries),
                Route("/v1/queries/{application}/{query}", self._query),
                Route("/v1/queries/{application}/{query}/history", self._hours),
                Route("/v1/queries/{application}/{query}/comparison", self._comparison),
            ]
        )
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        until(lambda: self._server.started, "the test's server", seconds=10, every=0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    @property
    def now(self) -> float:
        """Time goes on, and with it the age of running batches."""
        return made.NOW + time.monotonic() - self._began

    def show(self, views: list[QueryView]) -> None:
        self.views = views
        self._bodies.clear()

    async def _queries(self, request: Request) -> Response:
        self.polls += 1
        if self.status != 200:
            return Response(self.refusal, self.status, self.headers)
        if self.body is not None:
            return Response(self.body, media_type="application/json", headers=self.headers)
        history = int(request.query_params.get("history", "0"))
        if len(self.views) < 100:
            body = made.answer(self.views, now=self.now, history=history)
        else:  # encoding a thousand is the agent's work, not the page's
            if history not in self._bodies:
                self._bodies[history] = made.answer(self.views, now=self.now, history=history)
            body = self._bodies[history]
        return Response(body, media_type="application/json")

    async def _query(self, request: Request) -> Response:
        names = (request.path_params["application"], request.path_params["query"])
        found: list[Any] = [v for v in self.views if (v.application, v.query) == names]
        if not found:
            return Response(b"{}", 404)
        body = msgspec.json.encode({"time": self.now, "query": found[0]})
        return Response(body, media_type="application/json")

    async def _comparison(self, request: Request) -> Response:
        self.asked_for_comparisons += 1
        names = (request.path_params["application"], request.path_params["query"])
        (found,) = (v for v in self.views if (v.application, v.query) == names)
        told = {"time": self.now, "comparison": compare(found, found.history)}
        return Response(msgspec.json.encode(told), media_type="application/json")

    async def _hours(self, request: Request) -> Response:
        self.asked_for_hours += 1
        key = request.path_params["application"], request.path_params["query"]
        told = {"time": self.now, "pieces": self.history.hours(key)}
        return Response(msgspec.json.encode(told), media_type="application/json")

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)


@pytest.fixture
def fleet() -> Iterator[FleetServer]:
    server = FleetServer()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """There can be one in a process, of however many browsers."""
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    running = chromium(playwright)
    yield running
    running.close()


class Watched:
    """A page with everything it must not do written down."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.console: list[str] = []
        self.dialogs: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda m: self.console.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda e: self.console.append(f"error: {e}"))
        page.on("request", lambda r: self.requests.append(r.url))

        def dialog(box: Any) -> None:
            self.dialogs.append(box.message)
            box.dismiss()

        page.on("dialog", dialog)
        page.add_init_script(
            "window.violations = [];"
            "document.addEventListener('securitypolicyviolation',"
            " (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI}`));"
        )

    def assert_clean(self, origin: str) -> None:
        assert self.console == []
        assert self.dialogs == []
        assert self.page.evaluate("window.violations") == []
        assert [u for u in self.requests if not u.startswith(origin + "/")] == []


@pytest.fixture
def open_page(browser: Browser, fleet: FleetServer) -> Iterator[Any]:
    contexts = []

    def opened(
        path: str = "/",
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        still: bool = False,
        phone: bool = False,
        magnified: float = 1.0,
    ) -> Watched:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if still else "no-preference",
            is_mobile=phone,
            has_touch=phone,
            device_scale_factor=magnified,
        )
        contexts.append(context)
        context.set_default_timeout(10_000)
        watched = Watched(context.new_page())
        watched.page.goto(fleet.url + path)
        watched.page.wait_for_selector(".query, .empty, .waiting >> nth=0")
        return watched

    yield opened
    for context in contexts:
        context.close()
