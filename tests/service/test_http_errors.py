"""Every error row of docs/http.md, against a real agent, and that none of them harms it."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest

from agent import __version__
from tests.service import wire
from tests.service.conftest import EVENTS_TOKEN, TOKEN

if TYPE_CHECKING:
    from tests.service.agents import AgentProcess

JSON = {"content-type": "application/json"}
LIMIT = 65536
GOOD = wire.request([wire.progress(1)], application="errors")


def altered(path: str, value: Any) -> bytes:
    """The good request with one field set to something else, or taken out (``...``)."""
    data = json.loads(json.dumps(GOOD))
    *parents, last = path.split(".")
    place = data
    for name in parents:
        place = place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(data).encode()


MALFORMED = {
    "empty": (b"", None),
    "not json": (b"progress", None),
    "truncated": (json.dumps(GOOD).encode()[:-40], None),
    "not utf-8": (json.dumps(GOOD).encode().replace(b"errors", b"err\xff\xfers"), None),
    "utf-16": (json.dumps(GOOD).encode("utf-16"), None),
    "a list": (b"[]", None),
    "null": (b"null", None),
    "deeply nested": (b'{"application":' + b"[" * 30_000 + b"]" * 30_000 + b"}", None),
    "deeply nested where unknown": (
        json.dumps(GOOD).encode()[:-1] + b', "more": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
        None,
    ),
    "no application": (altered("application", ...), "application"),
    "no listener": (altered("listener", ...), "listener"),
    "no events": (altered("events", ...), "events"),
    "application a text": (altered("application", "orders"), "$.application"),
    "application id a number": (altered("application.id", 7), "$.application.id"),
    "application name empty": (altered("application.name", ""), "application.name"),
    "application name endless": (altered("application.name", "x" * 20_000), "application.name"),
    "listener a list": (altered("listener", []), "$.listener"),
    "instance missing": (altered("listener.instance", ...), "instance"),
    "queue length a text": (altered("listener.queue_length", "3"), "$.listener.queue_length"),
    "events an object": (altered("events", {}), "$.events"),
    "events null": (altered("events", None), "$.events"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_bodies_get_400_with_what_and_where(guarded: AgentProcess, case: str) -> None:
    content, where = MALFORMED[case]
    answer = guarded.post(content)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["message"]
    if where is not None:
        assert where in f"{error['message']} {error['where']}"


BAD_EVENTS: dict[str, tuple[Any, str]] = {
    "a number": (7, "an event is an object"),
    "a list": ([], "an event is an object"),
    "without a sequence": ({"type": "progress"}, "sequence"),
    "sequence zero": ({**wire.progress(1), "sequence": 0}, "sequence"),
    "sequence a text": ({**wire.progress(1), "sequence": "1"}, "sequence"),
    "sequence true": ({**wire.progress(1), "sequence": True}, "sequence"),
    "sequence endless": ({**wire.progress(1), "sequence": 2**80}, "sequence"),
    "no time": ({"sequence": 1, "type": "idle", "body": {}}, "time"),
    "time without a zone": ({**wire.progress(1), "time": "2026-11-21T08:55:02"}, "time"),
    "time year 0": ({**wire.progress(1), "time": "0000-01-01T00:00:00Z"}, "time"),
    "unknown type": ({**wire.progress(1), "type": "finished"}, "type"),
    "body a text": ({**wire.progress(1), "body": "{}"}, "body"),
    "no ids": ({**wire.progress(1), "body": {}}, "body.id"),
    "limits an object": ({**wire.progress(1), "limits": {}}, "limits"),
    "unit wrong": (
        {**wire.progress(1), "limits": [{"source": 0, "unit": None}]},
        "limits[0].unit",
    ),
}


@pytest.mark.parametrize("case", BAD_EVENTS)
def test_a_bad_event_is_refused_by_index_and_the_good_ones_kept(
    guarded: AgentProcess, application: str, case: str
) -> None:
    bad, where = BAD_EVENTS[case]
    if isinstance(bad, dict) and bad.get("sequence") == 1 and bad["sequence"] is not True:
        bad = {**bad, "sequence": 2}
    events = [wire.progress(1), bad, wire.progress(3)]
    answer = guarded.post(wire.request(events, application=application))
    assert answer.status_code == 200
    reply = answer.json()
    assert reply["accepted"] == 2
    assert reply["acknowledged"] == 3
    assert [one["index"] for one in reply["rejected"]] == [1]
    assert where in reply["rejected"][0]["error"]


@pytest.mark.parametrize(
    ("sent_by", "older"),
    [
        ("weir-spark-listener/999.0.0", True),
        (f"weir-spark-listener/{__version__}", False),
        ("weir-spark-listener/0.0.10", False),
        ("weir-spark-listener", False),
        ("weir-spark-listener/999.0.0.1", False),
        ("curl/999.0.0", False),
    ],
)
def test_a_refusal_says_first_that_the_agent_is_older_than_the_driver(
    guarded: AgentProcess, application: str, sent_by: str, *, older: bool
) -> None:
    content, _ = MALFORMED["listener a list"]
    events = [wire.progress(1), {**wire.progress(2), "type": "finished"}]
    whole = guarded.post(content, **{"user-agent": sent_by})
    one = guarded.post(wire.request(events, application=application), **{"user-agent": sent_by})
    assert (whole.status_code, one.status_code) == (400, 200)
    told = f"this agent ({__version__}) is older than the driver's listener (999.0.0): "
    for said in (whole.json()["error"]["message"], one.json()["rejected"][0]["error"]):
        assert said.startswith(f"{told}update the agent first; ") == older
        assert older or "older" not in said
    assert "listener" in whole.json()["error"]["where"]


def _post(guarded: AgentProcess, headers: dict[str, str], content: bytes = b"{}") -> httpx.Response:
    bare = httpx.Client(base_url=guarded.address, trust_env=False, timeout=30)
    with bare:
        return bare.post("/v1/events", content=content, headers=headers)


REFUSED: dict[str, tuple[dict[str, str], bytes, int, str]] = {
    "no token": (JSON, b"{}", 401, "Authorization"),
    "wrong token": ({**JSON, "authorization": "Bearer no"}, b"{}", 401, "Authorization"),
    "token cut short": (
        {**JSON, "authorization": f"Bearer {TOKEN[:-1]}"},
        b"{}",
        401,
        "Authorization",
    ),
    "other scheme": ({**JSON, "authorization": f"Digest {TOKEN}"}, b"{}", 401, "Authorization"),
    "basic, not base64": ({**JSON, "authorization": "Basic ???"}, b"{}", 401, "Authorization"),
    "basic, no password": (
        {**JSON, "authorization": "Basic a2lt"},
        b"{}",
        401,
        "Authorization",
    ),
    "no type": ({"authorization": f"Bearer {TOKEN}"}, b"{}", 415, "Content-Type"),
    "wrong type": (
        {"content-type": "text/plain", "authorization": f"Bearer {TOKEN}"},
        b"{}",
        415,
        "Content-Type",
    ),
    "form": (
        {
            "content-type": "application/x-www-form-urlencoded",
            "authorization": f"Bearer {TOKEN}",
        },
        b"{}",
        415,
        "Content-Type",
    ),
    "latin-1": (
        {
            "content-type": "application/json; charset=latin-1",
            "authorization": f"Bearer {TOKEN}",
        },
        b"{}",
        415,
        "Content-Type",
    ),
    "brotli": (
        {**JSON, "content-encoding": "br", "authorization": f"Bearer {TOKEN}"},
        b"{}",
        415,
        "Content-Encoding",
    ),
    "not gzip": (
        {**JSON, "content-encoding": "gzip", "authorization": f"Bearer {TOKEN}"},
        b"{}",
        400,
        "body",
    ),
    "gzip cut short": (
        {**JSON, "content-encoding": "gzip", "authorization": f"Bearer {TOKEN}"},
        gzip.compress(json.dumps(GOOD).encode())[:-10],
        400,
        "body",
    ),
    "gzip bomb": (
        {**JSON, "content-encoding": "gzip", "authorization": f"Bearer {TOKEN}"},
        gzip.compress(b" " * 50_000_000),
        413,
        "body",
    ),
    "one byte too long": (
        {**JSON, "authorization": f"Bearer {TOKEN}"},
        b" " * (LIMIT + 1),
        413,
        "body",
    ),
    "far too long": (
        {**JSON, "authorization": f"Bearer {TOKEN}"},
        b" " * (3 * LIMIT),
        413,
        "body",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_requests(guarded: AgentProcess, case: str) -> None:
    headers, content, status, where = REFUSED[case]
    answer = _post(guarded, headers, content)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["where"] == where
    assert TOKEN not in answer.text
    if status == 401:
        challenges = answer.headers.get_list("www-authenticate")
        assert [challenge.split()[0] for challenge in challenges] == ["Bearer", "Basic"]


def test_a_body_of_exactly_the_limit_is_read(guarded: AgentProcess) -> None:
    good = wire.body([wire.progress(1)], application="exact")
    padded = good[:-1] + b" " * (LIMIT - len(good)) + b"}"
    assert len(padded) == LIMIT
    assert guarded.post(padded).status_code == 200


def test_of_more_events_than_a_request_may_hold_none_is_taken(
    guarded: AgentProcess, application: str
) -> None:
    """A driver sends half as many then."""
    beats = [wire.heartbeat(number) for number in range(1, 502)]
    answer = guarded.post(wire.request(beats, application=application))
    assert (answer.status_code, answer.json()["error"]["where"]) == (413, "events")
    first = guarded.post(wire.request(beats[:1], application=application)).json()
    assert (first["accepted"], first["acknowledged"]) == (1, 1)
    all_but_one = guarded.post(wire.request(beats[:-1], application=application)).json()
    assert (all_but_one["accepted"], all_but_one["acknowledged"]) == (500, 500)


def test_gzip_and_basic_are_taken(guarded: AgentProcess, application: str) -> None:
    content = gzip.compress(wire.body([wire.progress(1)], application=application))
    with httpx.Client(base_url=guarded.address, auth=("kim", TOKEN), trust_env=False) as http:
        answer = http.post(
            "/v1/events", content=content, headers={**JSON, "content-encoding": "gzip"}
        )
        assert answer.json()["accepted"] == 1
        assert http.get("/").status_code == 200


def test_chunked_bodies_without_a_length_are_bounded_too(guarded: AgentProcess) -> None:
    """413 comes while the client still sends; an endless body is cut off."""
    parts = urlsplit(guarded.address)
    with socket.create_connection((parts.hostname, parts.port or 0), timeout=30) as connection:
        head = (
            f"POST /v1/events HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Authorization: Bearer {TOKEN}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        connection.sendall(head.encode())
        chunk = b"2000\r\n" + b" " * 0x2000 + b"\r\n"
        sent = 0
        answer = b""
        try:
            while sent < 1024 * LIMIT:
                connection.sendall(chunk)
                sent += 0x2000
        except (ConnectionError, ssl.SSLError):
            pass
        connection.settimeout(5)
        try:
            while part := connection.recv(65536):
                answer += part
        except OSError:
            pass
    # The agent reads five times the limit; the rest lies in the kernel's buffers.
    assert sent < 512 * LIMIT, "the agent kept reading"
    assert not answer or answer.startswith(b"HTTP/1.1 413")


def test_chunked_body_a_little_too_long_gets_its_answer(guarded: AgentProcess) -> None:
    def chunks() -> Any:
        for _ in range(20):
            yield b" " * 4096

    answer = guarded.http.post("/v1/events", content=chunks(), headers=JSON)
    assert answer.status_code == 413


PATHS = [
    ("GET", "/nothing", 404),
    ("GET", "/v1/events", 405),
    ("POST", "/metrics", 405),
    ("DELETE", "/v1/queries", 405),
    ("GET", "/v1/queries/a", 404),
    ("GET", "/v1/queries/a/b", 404),
    ("POST", "/v1/queries/a/b", 405),
    ("GET", "/v1/queries/a/b/control", 405),
    ("GET", "/v1/queries/a/b/c/d", 404),
    ("GET", "/v1/queries//b", 404),
    ("GET", "/v1/queries/%FF/b", 400),
    ("GET", "/v1/queries?history=many", 400),
    ("GET", "/v1/queries/orders/nobody/history", 404),
    ("POST", "/v1/queries/orders/nobody/history", 405),
    ("GET", "/v1/queries/orders/nobody/histories", 404),
    ("GET", "/v1/queries/orders/nobody/comparison", 404),
    ("POST", "/v1/queries/orders/nobody/comparison", 405),
    ("GET", "/v1/queries?history=-1", 400),
    ("GET", "/v1/queries?history=100000", 400),
    ("GET", "/queries/a/live", 404),
    ("GET", "/queries/a/b/alive", 404),
]


@pytest.mark.parametrize(("method", "path", "status"), PATHS)
def test_wrong_paths_and_methods(
    guarded: AgentProcess, method: str, path: str, status: int
) -> None:
    answer = guarded.http.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]
    assert answer.headers["content-type"] == "application/json"
    if status == 405:
        assert answer.headers["allow"]


OPEN = ["/healthz", "/readyz", "/metrics", "/queries/a/b/live"]
CLOSED = ["/", "/v1/queries", "/v1/queries/a/b", "/assets/x/app.js", "/nothing"]


def test_what_needs_the_token_and_what_does_not(guarded: AgentProcess) -> None:
    with httpx.Client(base_url=guarded.address, trust_env=False) as bare:
        assert {path: bare.get(path).status_code for path in OPEN} == dict.fromkeys(OPEN, 200)
        assert {path: bare.get(path).status_code for path in CLOSED} == dict.fromkeys(CLOSED, 401)
        assert bare.post("/v1/queries/*/*/control", json={"mode": "off"}).status_code == 401


def test_a_drivers_token_opens_where_events_go_and_nothing_else(
    guarded: AgentProcess, application: str
) -> None:
    token = {"authorization": f"Bearer {EVENTS_TOKEN}"}
    with httpx.Client(base_url=guarded.address, trust_env=False, headers=token) as driver:
        events = wire.request([wire.progress(1)], application=application)
        assert driver.post("/v1/events", json=events).json()["accepted"] == 1
        query = f"/v1/queries/{application}/query-0"
        asked = [("GET", path) for path in (*CLOSED, "/runbooks/", "/v1/%65vents", "/v1/events/")]
        asked += [("GET", f"{query}/history"), ("POST", f"{query}/control")]
        for method, path in asked:
            answer = driver.request(method, path, json={"hold": True} if method == "POST" else None)
            assert answer.status_code == 403, path
            error = answer.json()["error"]
            assert error["message"].startswith("this token opens /v1/events alone: "), path
            assert error["where"] == "Authorization"
        assert {path: driver.get(path).status_code for path in OPEN} == dict.fromkeys(OPEN, 200)
    assert guarded.http.get(query).json()["query"]["held"] is False
    assert EVENTS_TOKEN not in guarded.log_path.read_text()


def test_who_opens_the_page_with_a_drivers_token_reads_why_not(guarded: AgentProcess) -> None:
    with httpx.Client(base_url=guarded.address, trust_env=False) as browser:
        browser.auth = ("kim", EVENTS_TOKEN)
        answer = browser.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (answer.status_code, answer.headers["content-type"]) == (403, "text/html; charset=utf-8")
    assert "<p>this token opens /v1/events alone: " in answer.text
    assert "private window" in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("path", [*OPEN, *CLOSED])
def test_answers_are_safe_in_a_browser(guarded: AgentProcess, path: str) -> None:
    headers = guarded.http.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


def test_refusals_are_counted_and_the_token_is_nowhere(guarded: AgentProcess) -> None:
    # A scrape that took long is given out again for twice that time: on a busy machine too.
    time.sleep(2)
    before = guarded.metrics()
    _post(guarded, {**JSON, "authorization": "Bearer guess-me-if-you-can"})
    guarded.post(b"nonsense")
    time.sleep(2)
    after = guarded.metrics()
    for reason in ("unauthorized", "malformed"):
        name = f'weir_agent_refused_requests_total{{reason="{reason}"}}'
        assert after[name] == before[name] + 1
    text = guarded.log_path.read_text() + guarded.http.get("/metrics").text
    assert TOKEN not in text
    assert "guess-me" not in text


CONTROL_ERRORS: dict[str, tuple[Any, int, str]] = {
    "nothing": ({}, 400, "exactly one"),
    "two at once": ({"hold": True, "mode": "on"}, 400, "exactly one"),
    "unknown field": ({"holds": True}, 400, "holds"),
    "unknown mode": ({"mode": "auto"}, 400, "auto"),
    "hold a text": ({"hold": "yes"}, 400, "bool"),
    "limit zero": ({"limit": 0}, 400, "whole number"),
    "limit negative": ({"limit": -5}, 400, "whole number"),
    "limit null": ({"limit": None}, 400, "whole number"),
    "limit a fraction": ({"limit": 1.5}, 400, "int"),
    "limit endless": ({"limit": 2**70}, 400, ""),
    "unit alone": ({"hold": True, "unit": "rows"}, 400, "unit"),
    "unknown unit": ({"limit": 5, "unit": "pages"}, 400, "pages"),
    "a list": ([], 400, "object"),
    "reason endless": ({"hold": True, "reason": "x" * 501}, 400, "500"),
}


@pytest.mark.parametrize("case", CONTROL_ERRORS)
def test_wrong_orders(guarded: AgentProcess, application: str, case: str) -> None:
    order, status, word = CONTROL_ERRORS[case]
    guarded.post(wire.request([wire.progress(1)], application=application))
    answer = guarded.http.post(f"/v1/queries/{application}/query-0/control", json=order)
    assert answer.status_code == status, answer.text
    assert word in answer.text


def test_order_for_an_unknown_query_names_the_near_ones(
    guarded: AgentProcess, application: str
) -> None:
    guarded.post(wire.request([wire.progress(1)], application=application))
    answer = guarded.http.post(f"/v1/queries/{application}/qery-0/control", json={"hold": True})
    assert answer.status_code == 404
    assert f"{application}/query-0" in answer.json()["error"]["message"]


def test_503_over_max_queries_and_known_ones_go_on(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    from tests.service.agents import AgentProcess

    folder = tmp_path_factory.mktemp("full")
    with AgentProcess(folder, "--max-queries", "2") as agent:
        both = wire.request([wire.progress(1, query=1), wire.progress(2, query=2)])
        assert agent.post(both).status_code == 200
        third = wire.request([wire.progress(1, query=3)], application="new")
        full = agent.post(third)
        assert full.status_code == 503
        assert int(full.headers["retry-after"]) > 0
        assert "max_queries" in full.json()["error"]["message"]
        mixed = wire.request([wire.progress(3, query=1), wire.progress(4, query=4)])
        reply = agent.post(mixed).json()
        assert reply["accepted"] == 1
        assert reply["acknowledged"] == 4
        assert [one["index"] for one in reply["rejected"]] == [1]
        assert agent.metrics()["weir_agent_queries"] == 2
