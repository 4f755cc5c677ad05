"""What goes wrong inside is said once, with what helps to find it, and not when all is over."""

from __future__ import annotations

import logging
from threading import Thread

import pytest

from spark_listener.complaints import REPEAT_SECONDS, Complaints, Log
from tests.leaks import LEAKS, SECRET

OF_PY4J = (
    "An error occurred while calling o14.get.\n: java.lang.AssertionError: gone\n\tat a.B(B.java:1)"
)


def test_the_same_is_said_rarely_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    complaints = Complaints(clock=lambda: now)
    for _ in range(3):
        complaints.error("looking", ValueError("a"))
    complaints.error("looking", KeyError("b"))
    assert (len(caplog.records), complaints.total) == (2, 4)
    now = REPEAT_SECONDS
    complaints.error("looking", ValueError("a"))
    assert caplog.messages[-1].endswith("ValueError: a (2 more like this since the last message)")


def test_a_handler_that_comes_in_between_may_complain_too() -> None:
    """It runs in the thread that holds the lock: that must not wait for itself."""
    complaints = Complaints()

    class Interrupted(dict[str, tuple[float, int]]):
        def get(self, *_: object) -> None:  # type: ignore[override]
            if complaints.total < 2:
                complaints.warn("token", "again")

    complaints._said = Interrupted()
    warns = Thread(target=complaints.warn, args=("token", "once"), daemon=True)
    warns.start()
    warns.join(10)
    assert not warns.is_alive()


def test_a_log_that_raises_ends_nothing_that_complains() -> None:
    """Handlers and filters are the job's: a thread of ours would be over by one that raises."""
    logger = logging.getLogger("weir.raises")
    logger.addFilter(lambda _: 1 // 0 > 0)
    complaints = Complaints(log=Log(logger.name))
    assert complaints.warn("token", "once")
    complaints.error("looking", ValueError("a"))
    assert complaints.total == 2


def test_what_java_threw_is_named_and_its_stack_is_not(caplog: pytest.LogCaptureFixture) -> None:
    Complaints().error("counting", RuntimeError(OF_PY4J))
    (said,) = caplog.messages
    assert said.endswith(
        "RuntimeError: An error occurred while calling o14.get. : java.lang.AssertionError: gone"
    )
    Complaints().error("counting", RuntimeError())
    Complaints().error("counting", RuntimeError("one\ntwo"))
    assert caplog.messages[1].endswith("RuntimeError: ")
    assert caplog.messages[2].endswith("RuntimeError: one")


class UntoldError(Exception):
    """As py4j's, which ask the JVM what was thrown, and the JVM is gone."""

    def __str__(self) -> str:
        raise ConnectionError


def test_an_error_that_cannot_be_told_is_named_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Complaints().error("counting", UntoldError())
    assert caplog.messages[-1].endswith("UntoldError: ")


def test_no_secret_is_said(caplog: pytest.LogCaptureFixture) -> None:
    Complaints().error("reading", RuntimeError('cannot open jdbc:x;password="hunter2 x" as sa'))
    assert caplog.messages[0].endswith("RuntimeError: cannot open jdbc:x;password=*** as sa")


@pytest.mark.parametrize("text", [text for text, _ in LEAKS])
def test_no_secret_is_in_a_traceback(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """Which is what a user posts who was told to set the log to ``DEBUG``."""
    with caplog.at_level(logging.DEBUG, "weir"):
        try:
            try:
                raise ValueError(text)  # noqa: TRY301
            except ValueError as error:
                raise RuntimeError(f"An error occurred while calling o1.get.\n: {text}") from error
        except RuntimeError as error:
            Complaints().error("reading", error)
    assert SECRET not in caplog.text
    trace = caplog.messages[0]
    assert trace.startswith("weir: reading\nTraceback (most recent call last):\n")
    assert "in test_no_secret_is_in_a_traceback" in trace


def test_at_debug_all_that_java_threw_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "weir"):
        Complaints().error("counting", RuntimeError(OF_PY4J))
    assert caplog.messages[0] == f"weir: counting\nRuntimeError: {OF_PY4J}"


def test_once_spark_has_stopped_there_is_nothing_to_say(caplog: pytest.LogCaptureFixture) -> None:
    stopped = False
    complaints = Complaints()
    complaints.until(lambda: stopped)
    complaints.error("asking", ConnectionError("refused"))
    stopped = True
    complaints.error("listing", ConnectionError("refused"))
    assert (len(caplog.records), complaints.total) == (1, 1)
