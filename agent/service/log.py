"""Logs: one line an event, as JSON or text, in which names from outside can do no harm."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

import structlog

from spark_listener.redact import redact

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from structlog.typing import EventDict, WrappedLogger

LONGEST_VALUE: Final = 500
LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(log_format: str, log_level: str, stream: TextIO | None = None) -> None:
    """Sends structlog's and the standard library's records to ``stream`` (standard error)."""
    out = _Unfailing(sys.stderr if stream is None else stream)
    render = _json_line if log_format == "json" else _text_line
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _with_traceback,
            sanitise,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[log_level]),
        logger_factory=lambda *_: structlog.WriteLogger(out),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_ToStructlog()]
    root.setLevel(LEVELS[log_level])
    # What these say at info is said better by the agent itself.
    for name in ("uvicorn", "uvicorn.error", "asyncio", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(max(logging.WARNING, LEVELS[log_level]))
    logging.getLogger("uvicorn.access").disabled = True


def sanitise(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Every value becomes a number, a truth value, nothing, or a harmless text."""
    return {fit(str(key)): _harmless(value) for key, value in event.items()}


def fit(text: str, longest: int = LONGEST_VALUE) -> str:
    """A text without line breaks, terminal escapes or invisible characters, cut at a length."""
    if len(text) > longest:
        text = text[:longest] + "…"
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


class Rarely:
    """Lets a repeated warning through at most once per interval, and counts what it held back."""

    def __init__(self, every_seconds: float = 60.0) -> None:
        self._every_seconds = every_seconds
        self._last: dict[str, float] = {}
        self._held: dict[str, int] = {}

    def warn(self, log: Callable[..., Any], what: str, now: float, **values: Any) -> None:
        """Calls ``log(what, …)`` unless the same ``what`` was logged lately; ``now`` in seconds."""
        last = self._last.get(what)
        if last is not None and 0 <= now - last < self._every_seconds:
            self._held[what] = self._held.get(what, 0) + 1
            return
        self._last[what] = now
        held = self._held.pop(what, 0)
        log(what, **values, **({"repeated": held} if held else {}))

    def reset(self, what: str) -> None:
        """The trouble is over: the next time is news again."""
        self._last.pop(what, None)
        self._held.pop(what, None)


class _Unfailing:
    """A log that cannot be written, on a full disk or a closed pipe, must not end the work."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            return self._stream.write(text)
        return 0

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


class _ToStructlog(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        level = next((name for name, value in LEVELS.items() if record.levelno <= value), "error")
        logger = structlog.get_logger()
        getattr(logger, level)(
            record.getMessage(),
            logger=record.name,
            **({"exc_info": record.exc_info} if record.exc_info else {}),
        )


def _with_traceback(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    info = event.pop("exc_info", None)
    if not info:
        return event
    import traceback

    if isinstance(info, BaseException):
        info = (type(info), info, info.__traceback__)
    elif not isinstance(info, tuple):
        info = sys.exc_info()
    frames = traceback.extract_tb(info[2])
    # Files and lines alone: a message or a local could hold data of a job.
    event["error"] = f"{getattr(info[0], '__name__', info[0])}: {info[1]}"
    event["at"] = " < ".join(
        f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}"
        for frame in reversed(frames[-12:])
    )
    return event


def _harmless(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return fit(redact(str(value)[: 4 * LONGEST_VALUE]))  # cut after: a value may hold a name's end


def _json_line(_: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> str:
    first = {key: event.pop(key) for key in ("timestamp", "level", "event") if key in event}
    if "level" in first:
        # Where Google's Cloud Logging looks for it: else all of standard error is an ERROR there.
        first["severity"] = str(first["level"]).upper()
    return json.dumps({**first, **event}, ensure_ascii=False, allow_nan=True)


def _text_line(_: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> str:
    head = f"{event.pop('timestamp', '')} {event.pop('level', ''):<7} {event.pop('event', '')}"
    tail = " ".join(f"{key}={_quoted(value)}" for key, value in event.items())
    return f"{head}  {tail}" if tail else head


def _quoted(value: Any) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or set(text) & set(' "=') else text
