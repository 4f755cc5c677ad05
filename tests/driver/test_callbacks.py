"""Callbacks and the gate of a first batch: little is done, nothing raises, all is let go."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

from spark_listener import first_batch
from spark_listener.complaints import Complaints
from spark_listener.first_batch import FirstBatchGate
from spark_listener.listener import CallbackTimes, Captured, RawListener
from spark_listener.mailbox import Mailbox


class Call:
    """A Java object that counts what is asked of it."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def answer() -> Any:
            self.asked.append(name)
            value = self.answers[name]
            if isinstance(value, Exception):
                raise value
            return value

        return answer


def listener(deliver: Any, gate: Any = None) -> tuple[RawListener, CallbackTimes]:
    times = CallbackTimes()
    raw = RawListener(
        "session",
        deliver=deliver,
        open_gate=lambda _session, _id: gate,
        times=times,
        complaints=Complaints(),
    )
    return raw, times


def test_a_progress_costs_two_calls_into_the_jvm_and_is_only_queued() -> None:
    taken: list[Captured] = []
    raw, times = listener(taken.append)
    progress = Call({"json": '{"id":"q"}'})
    event = Call({"progress": progress})
    raw.onQueryProgress(event)
    assert (event.asked, progress.asked) == (["progress"], ["json"])
    assert taken[0].text == '{"id":"q"}'
    assert times.calls_total == 1


@pytest.mark.parametrize(
    "callback", ["onQueryStarted", "onQueryProgress", "onQueryIdle", "onQueryTerminated"]
)
def test_no_callback_ever_raises(callback: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "weir")

    class Released:
        released = False

        def release(self) -> None:
            Released.released = True

    def fail(_: Captured) -> None:
        raise RuntimeError("no")

    raw, times = listener(fail, Released())
    broken = Call(dict.fromkeys(["id", "runId", "progress", "exception"], RuntimeError("gone")))
    getattr(raw, callback)(broken)
    getattr(raw, callback)(broken)
    assert times.calls_total == 2
    assert len(caplog.records) == 1
    assert "job is not affected" in caplog.text


def test_a_start_that_cannot_be_queued_lets_its_first_batch_go(patient: None) -> None:
    lock = threading.Lock()
    gate = FirstBatchGate(lambda: JavaLock(lock), longest_seconds=5.0, complaints=Complaints())
    gate.start()
    assert gate.wait_until_held()

    def fail(_: Captured) -> None:
        raise RuntimeError("no")

    raw, _ = listener(fail, gate)
    text = Call({"toString": "x"})
    raw.onQueryStarted(Call({"id": text, "runId": text, "name": None}))
    gate._thread.join(30.0)
    assert not lock.locked()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The callback waits long for the lock: a busy machine starts a thread late."""
    monkeypatch.setattr(first_batch, "HELD_WITHIN_SECONDS", 60.0)


class JavaLock:
    """Java's lock and unlock over a Python lock; belongs to one thread, as Java's does."""

    def __init__(self, lock: threading.Lock, *, failing_unlocks: int = 0) -> None:
        self._lock = lock
        self._failing = failing_unlocks
        self.owner: int | None = None

    def lock(self) -> None:
        self._lock.acquire()
        self.owner = threading.get_ident()

    def unlock(self) -> None:
        assert threading.get_ident() == self.owner
        if self._failing:
            self._failing -= 1
            raise ConnectionError("py4j hiccup")
        self._lock.release()


def held_gate(java: JavaLock, longest: float = 5.0) -> FirstBatchGate:
    gate = FirstBatchGate(lambda: java, longest_seconds=longest, complaints=Complaints())
    gate.start()
    return gate


def test_the_lock_is_held_until_released_and_given_back_by_its_owner(patient: None) -> None:
    lock = threading.Lock()
    gate = held_gate(JavaLock(lock))
    assert gate.wait_until_held()
    assert lock.locked()
    gate.release()
    gate.release()
    gate._thread.join(30.0)
    assert not lock.locked()
    assert gate.over


def test_the_lock_is_given_back_in_time_whatever_happens(patient: None) -> None:
    lock = threading.Lock()
    begun = time.monotonic()
    gate = held_gate(JavaLock(lock), longest=0.2)
    assert gate.wait_until_held()
    gate._thread.join(30.0)
    assert not lock.locked()
    assert time.monotonic() - begun >= 0.2


def test_giving_back_is_tried_again_when_the_connection_hiccups(patient: None) -> None:
    lock = threading.Lock()
    gate = held_gate(JavaLock(lock, failing_unlocks=2))
    assert gate.wait_until_held()
    gate.release()
    gate._thread.join(30.0)
    assert not lock.locked()


def test_a_lock_that_comes_too_late_is_given_back_at_once() -> None:
    lock = threading.Lock()
    lock.acquire()
    gate = held_gate(JavaLock(lock))
    assert not gate.wait_until_held()  # half a second, then the query goes on
    lock.release()
    gate._thread.join(30.0)
    assert not lock.locked()


def test_without_a_lock_nobody_waits(patient: None) -> None:
    for find in (lambda: None, lambda: 1 / 0):
        gate = FirstBatchGate(find, longest_seconds=60.0, complaints=Complaints())
        begun = time.monotonic()
        gate.start()
        assert not gate.wait_until_held()
        assert time.monotonic() - begun < 30.0
        assert gate.over


def test_the_mailbox_is_bounded_and_keeps_starts() -> None:
    mailbox = Mailbox(3)
    mailbox.deliver(Captured("started", 0.0, run_id="a"))
    for number in range(10):
        mailbox.deliver(Captured("progress", float(number)))
    captured, _ = mailbox.take(0.0)
    assert [item.kind for item in captured] == ["started", "progress", "progress"]
    assert [item.epoch_seconds for item in captured[1:]] == [8.0, 9.0]
    assert mailbox.dropped_total == 8
