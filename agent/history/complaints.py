"""What Spark and its JVM complain of, as one line; PySpark is imported where there is one."""

from __future__ import annotations

from typing import Final

from spark_listener.redact import redact

_TRACEBACK: Final = "Traceback (most recent call last):\n"
_CALLING: Final = "An error occurred while calling "


def failures() -> tuple[type[Exception], ...]:
    """What any call of Spark's may raise; the last two where its JVM is gone."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return Py4JError, PySparkException, ConnectionRefusedError, ConnectionResetError


def line_of(error: Exception) -> str:
    """What was wrong to begin with: the last cause, and what a worker's traceback leads to."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the JVM that would tell it is gone
        text = ""
    cause = text.rpartition("\nCaused by: ")[2].partition("\n\tat ")[0]
    _, found, trace = cause.partition(_TRACEBACK)
    lines = (trace if found else cause).split("\n")
    lines = [line for line in lines if not line.startswith((" ", "\t", _CALLING))]
    told = next((line.strip(": ") for line in lines if line.strip()), "")
    return redact(told or type(error).__name__)[:300]
