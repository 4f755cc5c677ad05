"""Events on their way from the JVM's queue to the observer: none is lost, none stops a query."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections import deque
from typing import Any

import pytest

from spark_listener import intake
from spark_listener.complaints import Complaints
from spark_listener.intake import Intake
from spark_listener.listener import Captured, Waiting
from spark_listener.mailbox import ROOM_BYTES, Mailbox
from spark_listener.sessions import Session
from tests.waiting import until


class Call:
    """A Java object of which a test says what it answers."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def __getattr__(self, name: str) -> Any:
        def answer() -> Any:
            value = self.answers[name]
            if isinstance(value, Exception):
                raise value
            return value

        return answer


def event(**more: Any) -> Call:
    text = Call({"toString": "x"})
    return Call({"id": text, "runId": text, "name": None, **more})


def progress(text: str = "{}") -> Call:
    return event(progress=Call({"json": text}))


class Held:
    released = 0

    def release(self) -> None:
        self.released += 1


class Taking:
    """An intake over a queue that a test fills."""

    def __init__(self, *waiting: Waiting | Exception) -> None:
        self.queue = deque(waiting)
        self.mailbox = Mailbox()
        self.handoffs: list[Any] = []
        self.held_for: list[Session] = []
        self.lost = 0
        self.gate: Any = Held()
        self.renewed = 0
        self.intake = Intake(
            self,  # type: ignore[arg-type]
            self.mailbox,
            session_of={"1": Session(None, "1", None, control=True)}.get,
            open_gate=self._open_gate,
            renew=self._renew,
            complaints=Complaints(),
        )

    def _renew(self) -> None:
        self.renewed += 1

    def take(self, _: int) -> Waiting | None:
        if not self.queue:
            return None
        found = self.queue.popleft()
        if isinstance(found, Exception):
            raise found
        return found

    def lose(self) -> None:
        self.lost += 1

    def _open_gate(self, session: Session | None, _query_id: str, handoff: Any) -> Any:
        self.handoffs.append(handoff)
        if session is None:
            return None
        self.held_for.append(session)
        return self.gate

    def run(self) -> list[Captured]:
        self.intake.start()
        until(lambda: not self.queue, "the queue to be empty", every=0.01)
        self.intake.stop(30.0)
        return self.mailbox.take(0.0)[0]


def test_events_come_in_order_and_only_those_of_watched_sessions() -> None:
    def waiting(kind: str, what: Any, key: str = "1") -> Waiting:
        return Waiting(kind, what, 5.0, None, key)

    option = Call({"isDefined": True, "get": "why"})
    ended = event(exception=option, errorClassOnException=Call({"isDefined": False}))
    taking = Taking(
        waiting("started", event(name="q")),
        waiting("progress", progress('{"a":1}')),
        waiting("progress", progress(), key="gone"),
        waiting("", event()),  # a kind that a later Spark brings
        waiting("idle", event()),
        waiting("terminated", ended),
    )
    taken = taking.run()
    assert [item.kind for item in taken] == ["started", "progress", "idle", "terminated"]
    assert (taken[0].name, taken[1].text) == ("q", '{"a":1}')
    assert (taken[3].exception, taken[3].error_class) == ("why", None)
    assert {item.epoch_seconds for item in taken} == {5.0}
    assert taking.handoffs == []


def test_what_waits_when_the_driver_ends_is_taken_in_first() -> None:
    waiting = Waiting("progress", progress(), 0.0, None, "1")
    taking = Taking(*[waiting] * 50)
    taking.intake._stopping.set()
    taking.intake.start()
    taking.intake.stop(30.0)
    assert len(taking.mailbox) == 50


def test_a_start_that_waits_has_its_first_batch_held() -> None:
    taking = Taking(Waiting("started", event(), 0.0, "handoff", "1"))
    [started] = taking.run()
    assert taking.handoffs == ["handoff"]
    assert started.gate is taking.gate
    assert taking.gate.released == 0


def test_a_start_of_a_session_that_nobody_watches_does_not_wait_for_nothing() -> None:
    """As of one that was told just before a ``detach``."""
    taking = Taking(Waiting("started", event(), 0.0, "handoff", "gone"))
    assert taking.run() == []
    assert taking.handoffs == ["handoff"]


@pytest.mark.parametrize("kind", ["started", ""])
def test_only_a_start_that_is_told_has_its_first_batch_held(kind: str) -> None:
    """Of a class that a later Spark derives from it nobody would let the batch go."""
    taking = Taking(Waiting(kind, event(), 0.0, "handoff", "1"))
    assert len(taking.run()) == len(taking.held_for) == (1 if kind else 0)
    assert taking.handoffs == ["handoff"]


def test_a_start_that_cannot_be_told_lets_its_first_batch_go() -> None:
    broken = event(runId=RuntimeError("gone"))
    taking = Taking(Waiting("started", broken, 0.0, "handoff", "1"))
    assert taking.run() == []
    assert taking.gate.released == 1


def test_one_event_that_cannot_be_read_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "weir")
    bad = Waiting("progress", event(progress=RuntimeError("gone")), 0.0, None, "1")
    good = Waiting("progress", progress(), 0.0, None, "1")
    taking = Taking(bad, bad, good)
    assert len(taking.run()) == 1
    assert taking.lost == 2, "counted: nobody else would tell of it"
    assert len(caplog.records) == 1
    assert "job is not affected" in caplog.text


def test_a_progress_that_spark_cannot_write_is_told_without_what_the_job_observes() -> None:
    """As Spark 3.5 writes none where an observed column is an interval."""
    refused = ValueError("FAILED_ROW_TO_JSON")
    body = {
        "id": "x", "runId": "x", "name": None, "timestamp": "2026-11-21T08:55:02.865Z",
        "batchId": 7, "numInputRows": 20, "durationMs": {"addBatch": 5},
        "eventTime": {"watermark": "2026-11-21T08:55:00.000Z"},
        "stateOperators": [], "sources": [{"a": 1}, {"b": 2}], "sink": {"description": "noop"},
    }  # fmt: skip
    text, parts = Call({"toString": "x"}), {"stateOperators", "sources", "sink"}
    answers = {key: value for key, value in body.items() if key not in parts}
    answers |= {"id": text, "runId": text, "stateOperators": [], "json": refused}
    answers["sources"] = [Call({"json": json.dumps(one)}) for one in ({"a": 1}, {"b": 2})]
    answers["sink"] = Call({"json": json.dumps(body["sink"])})
    waiting = Waiting("progress", event(progress=Call(answers)), 0.0, None, "1")
    taking = Taking(waiting)
    [taken] = taking.run()
    assert json.loads(taken.text) == body
    assert taking.lost == 0


class Clock(threading.Event):
    """An event of which no one waits, and all pauses are known."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return super().wait(0.001)


def test_a_jvm_that_does_not_answer_is_asked_once_a_second_until_it_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whether it is gone for good the observer finds out, and ends the thread."""
    caplog.set_level(logging.WARNING, "weir")
    good = Waiting("progress", progress(), 0.0, None, "1")
    taking = Taking(*[ConnectionError("refused")] * 60, good)
    taking.intake._stopping = clock = Clock()
    assert len(taking.run()) == 1
    assert 60 * 0.75 < sum(clock.waits) < 60 * 1.5
    assert len(caplog.records) == 1


def test_a_thread_whose_jvm_does_not_answer_ends_when_it_is_told_to() -> None:
    taking = Taking(*[ConnectionError("refused")] * 10_000)
    taking.intake.start()
    taking.intake.stop(30.0)
    assert not taking.intake._thread.is_alive()


def test_what_an_event_takes_is_known_where_python_tells_no_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def as_in_pypy(_: object, *default: int) -> int:
        if not default:
            raise TypeError("getsizeof(...) is not supported")
        return default[0]

    monkeypatch.setattr(sys, "getsizeof", as_in_pypy)
    assert Captured("terminated", 0.0, text="xx", exception="yyy").memory_bytes == 5


def test_what_finds_no_room_stays_in_the_jvm() -> None:
    mailbox = Mailbox()
    stopping = threading.Event()
    mailbox.wait_for_room(stopping)
    mailbox.deliver(Captured("progress", 0.0, text="x" * (ROOM_BYTES - 1000)))
    mailbox.wait_for_room(stopping)  # one more fits in
    mailbox.deliver(Captured("progress", 0.0, text="x" * 2000))
    waiter = threading.Thread(target=mailbox.wait_for_room, args=(stopping,), daemon=True)
    waiter.start()
    waiter.join(0.2)
    assert waiter.is_alive(), "it waits until the observer has taken what is there"
    assert len(mailbox.take(0.0)[0]) == 2
    waiter.join(30.0)
    assert not waiter.is_alive()


def test_who_stands_still_with_a_full_mailbox_is_alive_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cluster manager that hangs holds the observer, and with it all that is taken in."""
    monkeypatch.setattr(intake, "RENEW_SECONDS", 0.5)
    taking = Taking(Waiting("idle", event(), 0.0, None, "1"))
    taking.mailbox.deliver(Captured("progress", 0.0, text="x" * ROOM_BYTES))
    taking.intake.start()
    until(lambda: taking.renewed >= 3, "words that this process lives", every=0.01)
    assert len(taking.queue) == 1, "nothing is taken in"
    taking.mailbox.take(0.0)
    until(lambda: not taking.queue, "what waited")
    taking.intake.stop(30.0)


def test_that_it_lives_is_said_as_often_as_is_due_and_no_more() -> None:
    taking = Taking(*[Waiting("idle", event(), 0.0, None, "1")] * 50)
    assert len(taking.run()) == 50
    assert taking.renewed == 1
