"""The HTTP interface: every path of docs/http.md, as a Starlette application."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import gzip
import html
import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from agent import __version__
from agent.compare import compare
from agent.core.decode.events import MalformedRequest, TooManyEvents, decode_request
from agent.core.fleet import Liveness, Order, UnknownQuery
from agent.core.fleet.orders import ACTS
from agent.core.names import label
from agent.export import page, runbooks
from agent.export.metrics.agent import REQUEST_REFUSALS
from agent.export.metrics.row import OTHER
from agent.export.prometheus import EventTimer, Exporter
from agent.service import memory
from agent.service.access import CHALLENGES, Caller, Gate, refuse_other_sites
from agent.service.body import BodyReader, ClientGone
from agent.service.clock import Settings
from agent.service.errors import HttpError, of_a_newer_driver
from agent.service.history import PIECE_SECONDS, POINTS
from agent.service.keeper import FleetFull, StateUnavailable
from agent.service.log import Rarely
from agent.sources.host import Extras
from spark_listener.wire import EVENTS_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from agent.core.fleet import Fleet, Key, OrderRecord
    from agent.core.judgement import QueryView
    from agent.service.auditor import Auditor
    from agent.service.expiry import Validity
    from agent.service.keeper import Keeper
    from agent.service.recorder import Recorder
    from agent.sources.host import ProcessSample

#: Bodies in memory at once, as a multiple of the longest one allowed.
BODIES_AT_ONCE: Final = 8
FULL_RETRY_SECONDS: Final = 30
STATE_RETRY_SECONDS: Final = 5
#: Of 1 to 9: an exposition repeats itself so much that the first makes it 22 times smaller, in a
#: sixth of the time that it takes to write; the sixth 26 times, in five times as long.
GZIP_LEVEL: Final = 1
#: Of the agent itself: they tell nothing of any query, and answer whoever asks.
ALIVE_PATHS: Final = ("/healthz", "/readyz")
_encode = msgspec.json.Encoder().encode
_log = structlog.get_logger("http")

_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_MODES = Literal["off", "dry-run", "on"]
_UNITS = Literal["rows", "files", "bytes"]


class _OrderBody(msgspec.Struct, forbid_unknown_fields=True):
    """What …/control takes. A misspelt field must not become a different order."""

    mode: _MODES | msgspec.UnsetType = msgspec.UNSET
    hold: bool | msgspec.UnsetType = msgspec.UNSET
    limit: int | None | msgspec.UnsetType = msgspec.UNSET
    retire: bool | msgspec.UnsetType = msgspec.UNSET
    unit: _UNITS | None = None
    reason: str = ""
    who: str = ""
    must_exist: bool = False


_order_body = msgspec.json.Decoder(_OrderBody)


class Service:
    """What the endpoints share. One thread owns it."""

    def __init__(
        self,
        keeper: Keeper,
        gate: Gate,
        *,
        max_request_bytes: int,
        max_queries: int,
        labels: dict[str, str],
        started_time: float,
        metrics_need_token: bool = False,
        live_need_token: bool = False,
        recorder: Recorder | None = None,
        auditor: Auditor | None = None,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``clock`` gives epoch seconds; ``timer`` seconds that never go back."""
        self.keeper = keeper
        self.gate = gate
        self.labels = labels
        self.max_queries = max_queries
        self.started_time = started_time
        self.metrics_need_token = metrics_need_token
        self.live_need_token = live_need_token
        self.recorder = recorder
        self.auditor = auditor
        self.record_failures_total = 0
        self.clock = clock
        self.timer = timer
        self.bodies = BodyReader(max_request_bytes, BODIES_AT_ONCE * max_request_bytes)
        self.event_timer = EventTimer()
        self.refused: Counter[str] = Counter()
        self.rarely = Rarely(60.0)
        self.agent_process: ProcessSample | None = None
        self.driver_processes: tuple[ProcessSample, ...] = ()
        self.clock_settings = Settings()
        self.kafka_up: bool | None = None
        self.doors: dict[str, int] | None = None
        self.unattended = False  # drivers are behind doors, and a process at none of them
        self.kafka_groups: dict[str, int] | None = None
        self.certificate: Validity | None = None
        self.exporter = Exporter(timer=timer, on_error=self._view_failed)
        self._scrapes = _Scrapes(timer)

    def application(self) -> ASGIApp:
        """The ASGI application."""
        routes = [
            Route(EVENTS_PATH, self._events, methods=["POST"]),
            Route("/metrics", self._metrics, methods=["GET"]),
            Route("/healthz", self._healthz, methods=["GET"]),
            Route("/readyz", self._readyz, methods=["GET"]),
            Route("/queries/{rest:path}", self._live, methods=["GET"]),
            Route("/v1/queries", self._queries, methods=["GET"]),
            Route("/v1/queries/{rest:path}", self._query, methods=["GET", "POST"]),
            *page.routes(),
            *runbooks.routes(),
        ]
        inner = Starlette(
            routes=routes,
            exception_handlers={
                HTTPException: self._not_routed,
                HttpError: self._refuse,
                ClientGone: _nobody,
                Exception: self._failed,
            },
        )
        inner.router.redirect_slashes = False
        return _Edge(inner, self)

    def needs_token(self, path: str) -> bool:
        """Everything but probes and metrics does, these where so configured."""
        if path in ALIVE_PATHS:
            return False
        if path == "/metrics":
            return self.metrics_need_token
        if path.startswith("/queries/"):
            return self.live_need_token
        return True

    def changed(self) -> None:
        """The fleet has changed: what was scraped before is old."""
        self._scrapes.changed()

    def tick(self, now: float, off_seconds: float) -> None:
        """A second has passed; by so much the machine's clock is ahead of the agent's."""
        self._scrapes.drop_old()
        self.keeper.tick(now, off_seconds)
        self.changed()

    # -- endpoints --------------------------------------------------------------------------
    async def _events(self, request: Request) -> Response:
        headers = dict(request.scope["headers"])
        body = await self.bodies.read_json(headers, request.receive)
        started = self.timer()
        try:
            events = decode_request(body)
        except TooManyEvents as error:
            raise HttpError(413, str(error), "events") from None
        except MalformedRequest as error:
            message, _, where = str(error).partition(" - at `")
            message = of_a_newer_driver(headers) + message
            raise HttpError(400, message, where.rstrip("`") or None) from None
        try:
            receipt = self.keeper.receive(events, self.clock())
        except StateUnavailable as error:
            raise HttpError(
                503, str(error), retry_after_seconds=STATE_RETRY_SECONDS, reason="state"
            ) from None
        except FleetFull as error:
            raise HttpError(503, str(error), retry_after_seconds=FULL_RETRY_SECONDS) from None
        self.changed()
        if self.recorder is not None and receipt.accepted:
            self._record(self.recorder, body, {refused.index for refused in receipt.refused})
        told: dict[str, Any] = {
            "accepted": receipt.accepted,
            "acknowledged": receipt.acknowledged,
            "rejected": [
                msgspec.structs.replace(one, error=of_a_newer_driver(headers) + one.error)
                for one in receipt.refused
            ],
            "grants": receipt.grants,
            "unsafe_limits": receipt.unsafe_limits,
        }
        if receipt.executors is not None:
            told["executors"] = receipt.executors
        answer = _encode(told)
        self.event_timer.observe(self.timer() - started, receipt.accepted + len(receipt.refused))
        return _json(answer)

    async def _metrics(self, request: Request) -> Response:
        accept = request.headers.get("accept", "")
        packed = _takes_gzip(request.headers.get("accept-encoding", ""))
        body, content_type = self._scrapes.get(accept, packed, lambda: self._exposition(accept))
        headers = {"content-type": content_type, "vary": "accept, accept-encoding"}
        return Response(body, headers=headers | ({"content-encoding": "gzip"} if packed else {}))

    async def _healthz(self, _: Request) -> Response:
        return _json(b'{"ok":true}')

    async def _readyz(self, _: Request) -> Response:
        if self.keeper.writable:
            return _json(b'{"ok":true}')
        return _json(_encode({"ok": False, "why": "the state cannot be written"}), 503)

    async def _live(self, request: Request) -> Response:
        segments = _segments(request.scope, "/queries/")
        if len(segments) != 3 or segments[2] != "live":
            raise HttpError(404, "no such path; it is /queries/{application}/{query}/live")
        application, query = (label(segment) for segment in segments[:2])
        liveness = self.fleet.liveness(application, query, self.clock())
        # Events are refused meanwhile, or nobody is there to tell any: the agent's own trouble must
        # not kill drivers. One that hangs keeps its process at the door.
        unheard = liveness.why == "silent" and self.unattended
        if not liveness.ok and (unheard or not self.keeper.writable):
            liveness = Liveness(ok=True, why="unknown")
        return _json(_encode(liveness), 200 if liveness.ok else 503)

    async def _queries(self, request: Request) -> Response:
        text = request.query_params.get("history", "0")
        if not (text.isascii() and text.isdigit() and int(text[:9]) <= POINTS):
            raise HttpError(400, f"a whole number up to {POINTS} is needed", "history")
        now = self.clock()
        totals = self.fleet.totals
        head = {
            "time": now,
            "agent": {
                "version": __version__,
                "started_time": self.started_time,
                "queries": len(self.fleet),
                "max_queries": self.max_queries,
                "mode": self.fleet.mode,
                "state": "memory" if self.keeper.state_bytes() is None else "disk",
                "state_writable": self.keeper.writable,
                "labels": self.labels,
                "events": totals.events,
                "refused": totals.refused,
                "duplicates": totals.duplicates,
                "name_collisions": totals.name_collisions,
                "orders": list(self.keeper.orders),
            },
            "listeners": self.fleet.listeners(now),
        }
        # Views are large: each is encoded and let go before the next is built.
        answer = bytearray(_encode(head)[:-1])
        answer += b',"queries":['
        separator = b""
        for key in sorted(self.fleet.keys()):
            try:
                view = self._audited(self.keeper.view(key, now, int(text)))
            except Exception as error:  # noqa: BLE001 - one bad query never hides the others
                self._view_failed(key, error)
                continue
            answer += separator
            answer += _encode(view)
            separator = b","
        answer += b"]}"
        return _json(bytes(answer))

    async def _query(self, request: Request) -> Response:
        segments = _segments(request.scope, "/v1/queries/")
        if len(segments) == 3 and segments[2] == "control":
            if request.method != "POST":
                raise HttpError(405, "POST it", headers=((b"allow", b"POST"),))
            return await self._control(request, segments[0], segments[1])
        part = segments[2] if len(segments) == 3 else ""
        if len(segments) != 2 and part not in ("history", "comparison"):
            raise HttpError(404, "no such path; it is /v1/queries/{application}/{query}")
        if request.method == "POST":
            raise HttpError(405, "GET it", headers=((b"allow", b"GET, HEAD"),))
        key = (label(segments[0]), label(segments[1]))
        now = self.clock()
        if part == "history":
            return self._hours(key, now)
        try:
            view = self.keeper.view(key, now)
        except KeyError:
            raise HttpError(404, self._unknown(key), "path") from None
        if part == "comparison":
            return _json(_encode({"time": now, "comparison": compare(view, view.history)}))
        return _json(_encode({"time": now, "query": self._audited(view)}))

    def _hours(self, key: Key, now: float) -> Response:
        try:
            pieces = self.keeper.hours(key)
        except KeyError:
            raise HttpError(404, self._unknown(key), "path") from None
        told = {"time": now, "piece_seconds": PIECE_SECONDS, "pieces": pieces}
        return _json(_encode(told))

    async def _control(self, request: Request, application: str, query: str) -> Response:
        headers = dict(request.scope["headers"])
        refuse_other_sites(headers)
        ends = request.scope.get("client"), request.scope.get("server")
        await asyncio.to_thread(self.gate.admit_order, *ends)
        body = await self.bodies.read_json(headers, request.receive)
        caller: Caller = request.scope["weir.caller"]
        order = _order(body, caller)
        try:
            records = self.keeper.control(
                *self._names_or_patterns(application, query), order, self.clock()
            )
        except UnknownQuery as error:
            raise HttpError(404, str(error.args[0] if error.args else error), "path") from None
        except ValueError as error:
            raise HttpError(400, str(error), "body") from None
        except StateUnavailable as error:
            raise HttpError(503, str(error), retry_after_seconds=STATE_RETRY_SECONDS) from None
        self.changed()
        _log_orders(records)
        return _json(_encode({"orders": records}))

    # -- the rest ---------------------------------------------------------------------------
    @property
    def fleet(self) -> Fleet:
        """As of now: a failed commit replaces it."""
        return self.keeper.fleet

    def audit(self, now: float) -> None:
        """Judges the consistency of what has changed; off the path of events."""
        if self.auditor is not None and self.auditor.look(self.fleet.facts(), now):
            self.changed()

    def _audited(self, view: QueryView) -> QueryView:
        return view if self.auditor is None else self.auditor.shown(view)

    def _exposition(self, accept: str) -> tuple[bytes, str]:
        now = self.clock()
        fleet = self.fleet
        return self.exporter.exposition(
            fleet.keys(),
            lambda key: self._audited(self.keeper.view(key, now, 0)),
            totals=fleet.totals,
            listeners=fleet.listeners_together(now),
            extras=self._extras(),
            accept=accept,
            by_the_machine=self.clock_settings.by_the_machine,
        )

    def _extras(self) -> Extras:
        refusals: Counter[str] = Counter()
        for reason, count in self.refused.items():
            refusals[reason if reason in REQUEST_REFUSALS else OTHER] += count
        return Extras(
            version=__version__,
            started_time=self.started_time,
            labels=self.labels,
            agent_process=self.agent_process,
            driver_processes=self.driver_processes,
            event_seconds=self.event_timer.snapshot(),
            refused_requests=dict(refusals),
            state_writable=self.keeper.writable,
            state_write_failures_total=self.keeper.write_failures_total,
            state_bytes=self.keeper.state_bytes(),
            recorded_events_total=0 if self.recorder is None else self.recorder.recorded_total,
            record_failures_total=self.record_failures_total,
            kafka_up=self.kafka_up,
            doors=self.doors,
            kafka_groups=self.kafka_groups,
            certificate_not_before_time=self.certificate and self.certificate.begins_time,
            certificate_expiry_time=self.certificate and self.certificate.ends_time,
        )

    def _record(self, recorder: Recorder, body: bytes, refused: set[int]) -> None:
        try:
            recorder.record(body, refused)
        except (OSError, ValueError, RecursionError) as error:  # the last: nested by hundreds
            self.record_failures_total += 1
            self.rarely.warn(_log.warning, "events are not recorded", self.clock(), cause=error)

    def _unknown(self, key: Key) -> str:
        names = {f"{application}/{query}" for application, query in self._known()}
        near = difflib.get_close_matches("/".join(key), names, n=3, cutoff=0.5)
        return "no such query" + (f"; known and similar: {', '.join(near)}" if near else "")

    def _names_or_patterns(self, application: str, query: str) -> tuple[str, str]:
        """Names as their series have them; a pattern stays as it is.

        A bracket may be part of a name that is known; ``*`` and ``?`` are always a pattern's, so
        that no query can, by its name, draw an order for all upon itself alone.
        """
        names = label(application), label(query)
        exact = names[1].replace("[", "[[]")
        if not any(mark in one for one in names for mark in "*?") and self.fleet.has(names):
            return names[0].replace("[", "[[]"), exact
        known = any(name == names[1] for _, name in self._known())
        if application == "*" and known and not any(mark in names[1] for mark in "*?"):
            return application, exact
        return (
            application if any(mark in application for mark in "*?[") else names[0],
            query if any(mark in query for mark in "*?[") else names[1],
        )

    def _known(self) -> list[Key]:
        return self.fleet.keys()

    async def _refuse(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HttpError)
        remote = request.client.host if request.client else ""
        return self.refusal(error, remote, request.scope["path"])

    async def _not_routed(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        allowed = (error.headers or {}).get("Allow")
        message = f"{request.method} is not for this path" if allowed else "no such path"
        headers = ((b"allow", allowed.encode("latin-1")),) if allowed else ()
        wrong = HttpError(error.status_code, message, "path", headers=headers)
        return self.refusal(wrong, "", request.scope["path"])

    async def _failed(self, request: Request, error: Exception) -> Response:
        _log.error("a request failed", path=request.scope["path"], exc_info=error)
        told = HttpError(500, "the agent failed on this; its log has the rest")
        return self.refusal(told, "", request.scope["path"])

    def refusal(self, error: HttpError, remote: str, path: str) -> Response:
        """Words the answer to a refused request; counts it where it was to bring events."""
        if path == EVENTS_PATH:
            self.refused[error.reason] += 1
        self.changed()
        if error.status in (401, 403):
            what = f"refused: {error.message}"
            self.rarely.warn(_log.warning, what, self.clock(), remote=remote)
        body = _encode({"error": {"message": error.message, "where": error.where}})
        response = _json(body, error.status)
        response.raw_headers.extend(error.headers)
        if error.status == 401:
            for challenge in CHALLENGES:
                response.raw_headers.append((b"www-authenticate", challenge))
        return response

    def _view_failed(self, key: Key, error: Exception) -> None:
        self.rarely.warn(
            _log.error,
            "a query cannot be shown",
            self.clock(),
            application=key[0],
            query=key[1],
            exc_info=error,
        )


class _Scrapes:
    """Keeps the last exposition where the next one would cost too much too soon.

    Anyone who reaches the port may scrape. With many queries a scrape takes a good part of a
    second, so an old one is given out for twice the time it took, and scrapes can never take more
    than a third of the agent's time. A cheap one is given out again only while nothing changed.
    """

    CHEAP_SECONDS: Final = 0.05
    #: Ages grow even while no event comes.
    LONGEST_SECONDS: Final = 0.5

    def __init__(self, timer: Callable[[], float]) -> None:
        self._timer = timer
        self._last: dict[tuple[bool, bool], tuple[float, float, tuple[bytes, str]]] = {}
        self._fresh = False

    def changed(self) -> None:
        self._fresh = False

    def drop_old(self) -> None:
        """An exposition is megabytes; what is too old to be given out is let go."""
        now = self._timer()
        for kind, (made, cost, _) in list(self._last.items()):
            if now - made >= max(2 * cost, self.LONGEST_SECONDS):
                del self._last[kind]
                if cost > self.CHEAP_SECONDS:
                    memory.trim()

    def get(
        self, accept: str, packed: bool, make: Callable[[], tuple[bytes, str]]
    ) -> tuple[bytes, str]:
        kind = "openmetrics" in accept, packed
        now = self._timer()
        if kind in self._last:
            made, cost, result = self._last[kind]
            age = now - made
            costly = cost > self.CHEAP_SECONDS and age < 2 * cost
            if costly or (self._fresh and age < min(self.LONGEST_SECONDS, 2 * cost)):
                return result
        result = make()
        if packed:
            # Without a time in its head the same text is the same bytes.
            result = gzip.compress(result[0], GZIP_LEVEL, mtime=0), result[1]
        done = self._timer()
        self._last[kind] = (done, done - now, result)
        self._fresh = True
        return result


class _Edge:
    """What every request passes: admission, errors as JSON, headers that keep browsers safe."""

    def __init__(self, inner: ASGIApp, service: Service) -> None:
        self._inner = inner
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.setdefault("headers", [])
                present = {name for name, _ in headers}
                headers.extend(pair for pair in _HEADERS if pair[0] not in present)
            await send(message)

        service = self._service
        # Routed, like admitted, by the path as it came: a decoded name may hold anything.
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        scope["path"] = raw.partition(b"?")[0].decode("latin-1")
        headers: dict[bytes, bytes] = dict(scope["headers"])
        remote = scope["client"][0] if scope.get("client") else ""
        try:
            if service.needs_token(scope["path"]):
                scope["weir.caller"] = service.gate.admit(
                    headers, remote, with_events=scope["path"] == EVENTS_PATH
                )
            elif scope["path"] not in ALIVE_PATHS:
                service.gate.admit_without_token(headers)
        except HttpError as error:
            answer = service.refusal(error, remote, scope["path"])
            if error.status == 403 and b"text/html" in headers.get(b"accept", b""):
                answer = _told_in_a_browser(error)
            await answer(scope, receive, send_with_headers)
            return
        # An exception that reaches this far was answered and logged further in.
        with contextlib.suppress(Exception):
            await self._inner(scope, receive, send_with_headers)


async def _nobody(_: Request, __: Exception) -> Response:
    return Response(status_code=400)  # goes nowhere: the client has left


def _told_in_a_browser(error: HttpError) -> Response:
    """A refusal as a page: a browser asks for another password after a 401 alone."""
    again = "A browser sends a password again by itself: open a private window to give another."
    more = f"<p>{again}</p>\n" if error.where == "Authorization" else ""
    text = (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>Refused · Weir</title>\n'
        f"<h1>Refused</h1>\n<p>{html.escape(error.message)}</p>\n{more}</html>\n"
    )
    return HTMLResponse(text, error.status)


def _takes_gzip(accept_encoding: str) -> bool:
    """Whether a client takes gzip, by its Accept-Encoding."""
    for part in accept_encoding.lower().split(","):
        coding, *parameters = (piece.strip() for piece in part.split(";"))
        if coding == "gzip":
            return not any(re.fullmatch(r"q=0(\.0*)?", one) for one in parameters)
    return False


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


def _segments(scope: Scope, prefix: str) -> list[str]:
    """The path's segments after a prefix, each decoded by itself: a name may hold a slash."""
    rest: str = scope["path"][len(prefix) :]
    try:
        segments = [unquote(part, errors="strict") for part in rest.split("/")]
    except UnicodeDecodeError:
        raise HttpError(400, "the path's percent-encoding is not UTF-8", "path") from None
    if not all(segments):
        raise HttpError(404, "a name in the path is empty", "path")
    return segments


def _order(body: bytes, caller: Caller) -> Order:
    try:
        wanted = _order_body.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message, _, where = str(error).partition(" - at `")
        raise HttpError(400, message, where.rstrip("`") or "body") from None
    except RecursionError:
        raise HttpError(400, "nested too deeply", "body") from None
    given: dict[str, Any] = {
        name: value for name in ACTS if (value := getattr(wanted, name)) is not msgspec.UNSET
    }
    if len(given) != 1:
        raise HttpError(400, f"exactly one of {', '.join(ACTS)} is needed", "body")
    if "limit" in given and (given["limit"] is None or not 0 < given["limit"] < 2**63):
        raise HttpError(
            400, "a whole number from 1; to end a limit set by hand: hold false", "limit"
        )
    if wanted.unit is not None and "limit" not in given:
        raise HttpError(400, "unit belongs to limit", "unit")
    for name, longest in (("reason", 500), ("who", 100)):
        if len(getattr(wanted, name)) > longest:
            raise HttpError(400, f"longer than {longest} characters", name)
    return Order(
        who=caller.who(wanted.who),
        reason=wanted.reason,
        unit=wanted.unit,
        must_exist=wanted.must_exist,
        **given,
    )


def _log_orders(records: list[OrderRecord]) -> None:
    for record in records:
        _log.info(
            "order",
            who=record.who,
            application=record.application,
            query=record.query,
            what=record.what,
            reason=record.reason,
        )
