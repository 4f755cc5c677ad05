"""What Spark complains of, as one line: what people can do something about."""

from __future__ import annotations

import pytest

from agent.history.complaints import line_of

_AT = "\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:1)\n"
_MASTER = "org.apache.spark.SparkException: Could not parse Master URL: 'x'"
_GATEWAY = "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."
_LOST = (
    "Lost task 0.0 in stage 0.0 (TID 0) (host executor driver): "
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "worker.py", line 1, in read_command\n'
    "ModuleNotFoundError: No module named 'msgspec'\n SQLSTATE: 38000\n\n"
)


_ABORTED = (
    "An error occurred while calling o1.saveAsTextFile.\n"
    f": org.apache.spark.SparkException: Job aborted.\n{_AT}"
    f"Caused by: org.apache.spark.SparkException: Job aborted: {_LOST}{_AT}"
    f"\nDriver stacktrace:\n{_AT}\t... 1 more\n"
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"An error occurred while calling None.a.b.C.\n: {_MASTER}\n{_AT}{_AT}", _MASTER),
        (_GATEWAY, _GATEWAY),
        (_ABORTED, "ModuleNotFoundError: No module named 'msgspec'"),
        (f"Bad address\n\nJVM stacktrace:\na.b.C: Bad address\n{_AT}", "Bad address"),
        ("", "RuntimeError"),
        ("Bad address s3a://k:hunter2@b/x?token=hunter2", "Bad address s3a://b/x"),
    ],
)
def test_the_line_that_tells_what_was_wrong(text: str, line: str) -> None:
    assert line_of(RuntimeError(text)) == line


def test_a_long_one_ends_and_one_that_nobody_can_tell_is_named() -> None:
    class GoneError(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError

    assert line_of(GoneError()) == "GoneError"
    assert len(line_of(RuntimeError("x" * 9999))) == 300
