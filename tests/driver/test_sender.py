"""The sender against a real HTTP server that hangs, lies, refuses, vanishes and comes back."""

from __future__ import annotations

import json
import logging
import random
import socket
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_listener import __version__
from spark_listener.channel import Channel, ExchangeFailed
from spark_listener.complaints import Complaints
from spark_listener.outbox import Outbox
from spark_listener.sender import BACKOFF_LARGEST_SECONDS, Link, Sender, backoff_seconds
from tests.driver.fake_agent import FakeAgent
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_listener.replies import Reply

CERTIFICATES = Path(__file__).parent / "certificates"
HEAD = '{"application":{"id":"a","name":"n"},"listener":{"instance":"i"}'


class Driver:
    """A sender with all it needs, and what it said. Its pauses are short, or its own."""

    def __init__(
        self, url: str, *, timeout: float = 10.0, short: bool = True, **channel: Any
    ) -> None:
        self.outbox = Outbox(1000, 1 << 20, largest_bytes=100_000)
        self.replies: list[Reply] = []
        self.failures = 0
        self.sender = Sender(
            self.outbox,
            Channel(url, timeout_seconds=timeout, **channel),
            agent_url=url,
            prompt_seconds=1.0,
            head=lambda: HEAD,
            on_reply=self.replies.append,
            on_failure=self._failed,
            without_agent=lambda: "it keeps its configured limits",
            complaints=Complaints(),
            **({"draw": lambda: 0.02} if short else {}),
        )

    def _failed(self) -> None:
        self.failures += 1

    def put(self, count: int = 1) -> None:
        for _ in range(count):
            self.outbox.put("progress", "2026-11-21T08:55:02.865Z", '{"id":"q","runId":"r"}')

    def wait(self, ready: Any, seconds: float = 30.0) -> None:
        until(ready, "the sender", seconds=seconds, every=0.01)


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    with FakeAgent() as running:
        yield running


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.WARNING, "weir")
    return lambda: [
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    ]


def run_against(url: str, *, failures: int = 4, timeout: float = 20.0, **channel: Any) -> Driver:
    """Lets a sender fail some times in a row."""
    driver = Driver(url, timeout=timeout, **channel)
    driver.put(3)
    driver.sender.start()
    driver.wait(lambda: driver.failures >= failures)
    driver.sender.stop(0.2)
    assert driver.sender.link.failing
    assert len(driver.outbox) == 3
    return driver


def test_events_arrive_in_order_over_one_connection(agent: FakeAgent) -> None:
    driver = Driver(agent.url)
    driver.put(3)
    driver.sender.start()
    agent.wait(lambda a: len(a.events) == 3)
    driver.put(2)
    agent.wait(lambda a: len(a.events) == 5)
    driver.sender.stop(1.0)
    assert [event["sequence"] for event in agent.events] == [1, 2, 3, 4, 5]
    assert len(agent._connections) == 1
    assert len(driver.outbox) == 0
    assert agent.requests[0]["application"] == {"id": "a", "name": "n"}


def test_grants_are_handed_on(agent: FakeAgent) -> None:
    driver = Driver(agent.url)
    agent.grant("r", 7, unit="rows")
    driver.put()
    driver.sender.start()
    driver.wait(lambda: driver.replies)
    driver.sender.stop(1.0)
    assert [(grant.run_id, grant.limit) for grant in driver.replies[0].grants] == [("r", 7)]


def test_after_a_reconnect_each_event_is_counted_once(agent: FakeAgent, warnings: Any) -> None:
    driver = Driver(agent.url)
    driver.put(3)
    driver.sender.start()
    driver.wait(lambda: driver.replies)  # heard, and not only said
    agent.wait(lambda a: len(a.events) == 3)
    agent.stop()
    driver.put(5)
    driver.wait(lambda: driver.failures >= 3)
    assert driver.sender.link.failing
    driver.put(2)
    agent.start()
    agent.wait(lambda a: len(a.events) == 10)
    assert [event["sequence"] for event in agent.events] == list(range(1, 11))
    driver.wait(lambda: not driver.sender.link.failing)
    driver.sender.stop(1.0)
    # Where it ended in the middle of an answer, that is a cause of its own.
    gone, back = [said for said in warnings() if "connection broke" not in said]
    assert "connection refused" in gone
    assert "The job goes on: it keeps its configured limits; trying again" in gone
    assert f"the agent at {agent.url} answers again, after " in back


def test_an_agent_that_comes_and_goes_is_told_as_back_where_it_was_told_as_gone(
    agent: FakeAgent, warnings: Any
) -> None:
    agent.stop()
    driver = Driver(agent.url)
    driver.put()
    driver.sender.start()
    for number in (1, 2, 3):
        driver.wait(lambda: driver.sender.link.failing)
        agent.start()
        driver.put()
        agent.wait(lambda a, n=number: len(a.events) >= n + 1)
        driver.wait(lambda: not driver.sender.link.failing)
        agent.stop()
        driver.put()
    driver.sender.stop(0.2)
    said = warnings()
    assert sum("connection refused" in one for one in said) == 1  # at most every ten minutes
    back = ["answers" in one for one in said]
    assert back[:2] == [False, True]
    assert "answers now" in said[1]
    # What ends in the middle of an answer is a cause of its own, told and taken back by itself.
    assert not any(one and after for one, after in pairwise(back))


def instead_of_the_first_reply(agent: FakeAgent, act: Callable[[Any, int, bytes], None]) -> None:
    """The agent's first reply goes as ``act`` says, all others as ever."""
    original, done = agent._send, []

    def send(handler: Any, status: int, body: bytes, *more: Any) -> None:
        if done:
            original(handler, status, body, *more)
            return
        done.append(True)
        act(handler, status, body)

    agent._send = send  # type: ignore[method-assign]


def test_a_reply_that_is_cut_short_is_a_broken_connection(agent: FakeAgent, warnings: Any) -> None:
    driver = Driver(agent.url)

    def cut(handler: Any, status: int, body: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[:5])
        handler.close_connection = True

    instead_of_the_first_reply(agent, cut)
    driver.put(4)
    driver.sender.start()
    driver.wait(lambda: len(driver.outbox) == 0)
    driver.sender.stop(1.0)
    assert [event["sequence"] for event in agent.events] == [1, 2, 3, 4]
    broke, back = warnings()
    assert "the connection broke within its reply" in broke
    assert "answers now, after " in back


def test_a_reply_that_is_lost_means_sending_again_and_counting_once(agent: FakeAgent) -> None:
    """The agent counts, its reply never comes: the same numbers come once more."""
    driver = Driver(agent.url)
    instead_of_the_first_reply(
        agent, lambda handler, *_: handler.connection.shutdown(socket.SHUT_RDWR)
    )
    driver.put(4)
    driver.sender.start()
    driver.wait(lambda: len(driver.outbox) == 0)
    driver.sender.stop(1.0)
    assert [event["sequence"] for event in agent.events] == [1, 2, 3, 4]
    assert sum(len(request["events"]) for request in agent.requests) >= 8


def test_a_connection_that_the_agent_closed_while_quiet_is_no_failure(agent: FakeAgent) -> None:
    driver = Driver(agent.url)
    driver.put()
    driver.sender.start()
    agent.wait(lambda a: len(a.events) == 1)
    driver.wait(lambda: len(driver.outbox) == 0)
    for connection in list(agent._connections):
        connection.shutdown(socket.SHUT_RDWR)
    time.sleep(0.05)
    driver.put()
    agent.wait(lambda a: len(a.events) == 2)
    driver.sender.stop(1.0)
    assert driver.failures == 0


@pytest.mark.parametrize(
    ("mode", "cause"),
    [
        ("hang", "no answer within 0.3 s"),
        ("garbage", "does not speak HTTP"),
        ("html", "not JSON"),
        ("huge", "longer than"),
        ("refuse", "refuses us (401): no token was sent; set spark.weir.token.file"),
        ("denied", "refuses us (403): RBAC: [31m access denied."),
        ("away", "can take nothing now (503): upstream connect error"),
        ("broken", "answers 500"),
        ("deaf", "acknowledges up to 0"),
    ],
)
def test_a_misbehaving_agent_costs_one_warning_with_the_cause(
    agent: FakeAgent, warnings: Any, mode: str, cause: str
) -> None:
    agent.mode = mode
    # One that answers must not be taken for one that hangs, however busy the machine.
    run_against(agent.url, timeout=0.3 if mode == "hang" else 20.0)
    assert len(warnings()) == 1, warnings()
    assert cause in warnings()[0]
    assert agent.url in warnings()[0]


def test_a_full_agent_is_given_the_time_it_asks_for(agent: FakeAgent, warnings: Any) -> None:
    agent.mode = "full"
    driver = Driver(agent.url)
    driver.put()
    assert driver.sender.step() == 1.0
    assert 'can take nothing now (503): {"error":"full"}' in warnings()[0]


def test_nothing_listens(warnings: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run_against(f"http://127.0.0.1:{port}")
    assert len(warnings()) == 1
    assert "connection refused" in warnings()[0]


def test_an_unknown_host(warnings: Any) -> None:
    driver = Driver("http://no-such-host.invalid:9655")
    driver.put()
    driver.sender.step()
    assert "no-such-host.invalid" in warnings()[0]


def test_an_agent_that_drips_is_cut_off_by_the_clock(agent: FakeAgent, warnings: Any) -> None:
    """Each byte comes within the socket's time-out; only the whole is too slow."""
    agent.mode = "drip"
    driver = Driver(agent.url, timeout=2.0)
    driver.put()
    driver.sender.start()

    def cut() -> int:
        driver.sender.cut_if_overdue()  # the observer's part
        return driver.failures

    until(cut, "the cut", seconds=20)
    agent.mode = "answer"
    agent.wait(lambda a: len(a.events) == 1)
    driver.sender.stop(1.0)
    assert "no answer within" in warnings()[0]


def test_the_token_goes_along_and_is_read_again_when_it_changes(
    tmp_path: Path, warnings: Any
) -> None:
    token = tmp_path / "token"
    token.write_text("old-secret\n")
    with FakeAgent(token="new-secret") as agent:
        driver = Driver(agent.url, token_file=str(token))
        driver.put()
        driver.sender.start()
        driver.wait(lambda: driver.failures >= 3)
        assert not agent.events
        token.write_text("new-secret\n")
        agent.wait(lambda a: len(a.events) == 1)
        driver.sender.stop(1.0)
    refused, back = warnings()
    assert str(token) in refused
    assert "secret" not in refused.replace(str(token), "") + back


@pytest.mark.parametrize(
    "content",
    [
        "old-secret\nnew-secret\n",
        "\n  old-secret \r\n\nnew-secret",
        "old-secret",
        f"sha256:{'0' * 64}\nold-secret\n",
    ],
)
def test_of_several_tokens_the_first_goes_along(tmp_path: Path, content: str) -> None:
    """So a token is replaced: the agent takes all lines of the file that drivers mount too."""
    token = tmp_path / "token"
    token.write_text(content)
    with FakeAgent(token="old-secret") as agent:
        driver = Driver(agent.url, token_file=str(token))
        driver.put()
        driver.sender.start()
        driver.wait(lambda: driver.failures or len(agent.events) == 1)
        driver.sender.stop(1.0)
    assert driver.failures == 0


@pytest.mark.parametrize(
    "content", [None, b"", b" \n\n", b"nul\x00\nsecond", b"\xff\xfe", b"sha256:" + b"0" * 64]
)
def test_a_token_file_of_no_use(
    agent: FakeAgent, tmp_path: Path, warnings: Any, content: bytes | None
) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_bytes(content)
    run_against(agent.url, token_file=str(token))
    assert len(warnings()) == 1
    assert str(token) in warnings()[0]
    assert agent.attempts == 0


CERTIFICATE = (str(CERTIFICATES / "agent.pem"), str(CERTIFICATES / "agent.key"))


def test_tls_with_the_right_authority(warnings: Any) -> None:
    with FakeAgent(certificate=CERTIFICATE) as agent:
        driver = Driver(agent.url, ca_file=CERTIFICATE[0])
        driver.put()
        driver.sender.start()
        agent.wait(lambda a: len(a.events) == 1)
        driver.sender.stop(1.0)
    assert warnings() == []


@pytest.mark.parametrize(
    ("ca_file", "cause"),
    [
        (str(CERTIFICATES / "stranger.pem"), "not trusted"),
        ("", "not trusted"),
        ("/no/such/file.pem", "/no/such/file.pem"),
    ],
)
def test_a_certificate_that_does_not_match(warnings: Any, ca_file: str, cause: str) -> None:
    with FakeAgent(certificate=CERTIFICATE) as agent:
        run_against(agent.url, ca_file=ca_file)
        assert not agent.events
    assert len(warnings()) == 1, warnings()
    assert cause in warnings()[0]


def test_plain_http_to_a_tls_agent_and_the_reverse(agent: FakeAgent, warnings: Any) -> None:
    run_against(agent.url.replace("http:", "https:"))
    assert len(warnings()) == 1
    assert "TLS" in warnings()[0]


def test_one_event_that_spoils_every_request_is_given_up_alone(agent: FakeAgent) -> None:
    agent.poison = {5}
    driver = Driver(agent.url)
    driver.put(9)
    driver.sender.start()
    agent.wait(lambda a: len(a.events) == 8)
    driver.sender.stop(1.0)
    assert [event["sequence"] for event in agent.events] == [1, 2, 3, 4, 6, 7, 8, 9]
    assert driver.outbox.dropped_total == 1


class Strait:
    """A channel to an agent that takes so much at once and no more."""

    def __init__(self, most_bytes: int, refusal: Callable[[], ExchangeFailed]) -> None:
        self._most_bytes = most_bytes
        self._refusal = refusal
        self.sizes: list[int] = []  # of all requests, in events
        self.bodies: list[bytes] = []  # of those that were taken

    def exchange(self, body: bytes) -> bytes:
        events = json.loads(body)["events"]
        self.sizes.append(len(events))
        if len(body) > self._most_bytes:
            raise self._refusal()
        self.bodies.append(body)
        return json.dumps({"acknowledged": events[-1]["sequence"]}).encode()

    def close(self) -> None:
        pass


def through(strait: Strait) -> Driver:
    driver = Driver("http://127.0.0.1:9")
    driver.sender._channel = strait  # type: ignore[assignment]
    return driver


def test_a_reply_to_events_that_the_full_queue_gave_up_meanwhile_is_none_the_worse() -> None:
    strait = Strait(1 << 20, lambda: ExchangeFailed("timeout", "never"))
    driver = through(strait)
    driver.sender._outbox = outbox = Outbox(10, 1 << 20, largest_bytes=1000)
    exchange = strait.exchange

    def busy(body: bytes) -> bytes:
        for _ in range(10):
            outbox.put("started", "2026-11-21T08:55:02.865Z", "{}")
        return exchange(body)

    strait.exchange = busy  # type: ignore[method-assign]
    for _ in range(10):
        outbox.put("progress", "2026-11-21T08:55:02.865Z", "{}")
    assert driver.sender.step() == 0.0
    assert (driver.failures, len(driver.replies)) == (0, 1)
    assert (outbox.acknowledged, len(outbox)) == (10, 10)


@pytest.mark.parametrize("kind", ["timeout", "connection"])
def test_a_link_that_carries_no_whole_queue_in_time_is_sent_less_until_it_does(kind: str) -> None:
    strait = Strait(3_000, lambda: ExchangeFailed(kind, "it took too long"))
    driver = through(strait)
    driver.put(500)
    for _ in range(200):
        driver.sender.step()
        if not len(driver.outbox):
            break
    arrived = [one["sequence"] for body in strait.bodies for one in json.loads(body)["events"]]
    assert arrived == list(range(1, 501)), "all, in order, each once"
    assert driver.outbox.dropped_total == 0
    assert all(after <= 2 * before for before, after in pairwise(strait.sizes)), "no leap back"


def test_after_a_heartbeat_that_the_agent_finds_too_large_one_without_offsets_comes() -> None:
    strait = Strait(1000, lambda: ExchangeFailed("status 413", "too long", status=413))
    driver = through(strait)

    def shorter(by_bytes: int) -> str:
        assert 1000 < by_bytes < 1200, "half of what was refused"
        return '"short"'

    for _ in range(2):
        driver.outbox.put(
            "heartbeat", "2026-11-21T08:55:02.865Z", f'"{"x" * 2000}"', shorter=shorter
        )
        driver.sender.step()
    assert [b'"short"' in body for body in strait.bodies] == [True]


def test_stopping_sends_what_is_left_but_never_waits_for_a_dead_agent(agent: FakeAgent) -> None:
    driver = Driver(agent.url)
    driver.put()
    driver.sender.start()
    agent.wait(lambda a: len(a.events) == 1)
    driver.put(50)
    driver.sender.stop(20.0)
    assert len(agent.events) == 51
    agent.stop()
    dead = Driver(agent.url)
    dead.put()
    dead.sender.start()
    dead.wait(lambda: dead.failures >= 1)
    begun = time.monotonic()
    dead.sender.stop(20.0)
    assert time.monotonic() - begun < 10.0


def test_large_queues_go_in_requests_within_the_contracts_bounds(agent: FakeAgent) -> None:
    driver = Driver(agent.url)
    driver.put(1000)
    driver.sender.start()
    agent.wait(lambda a: len(a.events) == 1000)
    driver.sender.stop(1.0)
    assert max(len(request["events"]) for request in agent.requests) <= 500


def test_a_pause_takes_no_number_that_the_job_would_draw() -> None:
    """A job that seeds ``random`` draws the same ones whether an agent answers or not."""
    driver = Driver("http://127.0.0.1:9", timeout=1.0, short=False)
    driver.put()
    random.seed(1)
    before = random.getstate()
    pauses = {driver.sender.step() for _ in range(3)}
    assert driver.failures == len(pauses) == 3, "each was drawn"
    assert random.getstate() == before


def test_backoff_grows_to_its_ceiling_with_full_jitter() -> None:
    ceilings = [backoff_seconds(n, lambda: 1.0) for n in range(1, 9)]
    assert ceilings[:4] == [0.5, 1.0, 2.0, 4.0]
    assert ceilings[-1] == BACKOFF_LARGEST_SECONDS
    assert backoff_seconds(10_000, lambda: 1.0) == BACKOFF_LARGEST_SECONDS
    assert backoff_seconds(3, lambda: 0.0) == 0.0


def test_complaints_are_repeated_rarely_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    complaints = Complaints(clock=lambda: now[0])
    for _ in range(100):
        complaints.warn("a", "the agent is gone")
    complaints.warn("b", "something else")
    now[0] = 601.0
    complaints.warn("a", "the agent is gone")
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "the agent is gone",
        "something else",
        "the agent is gone (99 more like this since the last message)",
    ]
    assert complaints.total == 102


def test_the_request_is_what_the_contract_says(agent: FakeAgent) -> None:
    received: list[tuple[str, dict[str, str]]] = []
    original = agent._answer

    def note(handler: Any) -> None:
        received.append((handler.path, dict(handler.headers)))
        original(handler)

    agent._answer = note  # type: ignore[method-assign]
    driver = Driver(agent.url + "/behind/a/proxy/")
    driver.put()
    driver.sender.step()
    path, headers = received[0]
    assert path == "/behind/a/proxy/v1/events"
    assert headers["Content-Type"] == "application/json"
    assert headers["User-Agent"] == f"weir-spark-listener/{__version__}"
    assert json.dumps(agent.requests[0]["events"][0]["body"]) == '{"id": "q", "runId": "r"}'
    assert threading.active_count() < 50


def test_a_first_batch_waits_only_for_an_agent_that_may_answer_in_time() -> None:
    link = Link(prompt_seconds=1.0)
    assert link.worth_waiting_for(0.0), "nothing speaks against it yet"
    link.begins(0.0)
    assert link.worth_waiting_for(0.9)
    assert not link.worth_waiting_for(1.1), "the exchange under way takes too long already"
    link.answers(3.0, a_start=False)
    assert not link.worth_waiting_for(3.0), "so will the next"
    link.begins(3.0)
    link.answers(3.1, a_start=False)
    assert link.worth_waiting_for(3.1), "it is quick again"
    link.begins(4.0)
    link.fails()
    assert not link.worth_waiting_for(4.0)


def test_after_a_wait_in_vain_patience_comes_back_with_a_start_that_is_taken_in_promptly() -> None:
    link = Link(prompt_seconds=1.0)
    link.patient = False  # what the observer notes
    for now, seconds, a_start, worth in [
        (0.0, 0.1, False, False),  # quick with heartbeats only
        (1.0, 2.0, True, False),
        (4.0, 0.1, False, False),
        (5.0, 0.1, True, True),
    ]:
        link.begins(now)
        link.answers(now + seconds, a_start=a_start)
        assert link.worth_waiting_for(now + seconds) == worth
