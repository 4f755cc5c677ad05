"""Warnings said once and repeated rarely: a broken agent never floods a job's log."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from typing import TYPE_CHECKING, Final

from spark_listener.handlers import errors_of_ours_suppressed
from spark_listener.redact import LONGEST_TEXT, redact, redact_long

if TYPE_CHECKING:
    from collections.abc import Callable


class Log:
    """A logger that raises nothing: its handlers and filters are the job's, and one may raise.

    It is made as it first speaks: a job that sets up its log turns off those that are there before
    (``disable_existing_loggers`` of ``dictConfig`` and ``fileConfig``, which is true by default).
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def logger(self) -> logging.Logger:
        """The one of ``logging``."""
        return logging.getLogger(self._name)

    def debug(
        self, message: str, *arguments: object, exc_info: BaseException | None = None
    ) -> None:
        """As ``logging.Logger.debug``; the error's traceback without what may be secret."""
        self._say(logging.DEBUG, message, *arguments, exc_info=exc_info)

    def info(self, message: str, *arguments: object) -> None:
        """As ``logging.Logger.info``."""
        self._say(logging.INFO, message, *arguments)

    def warning(self, message: str, *arguments: object) -> None:
        """As ``logging.Logger.warning``."""
        self._say(logging.WARNING, message, *arguments)

    def _say(
        self,
        level: int,
        message: str,
        *arguments: object,
        exc_info: BaseException | None = None,
    ) -> None:
        with errors_of_ours_suppressed():
            logger = self.logger
            if exc_info is not None and logger.isEnabledFor(level):
                # As text: a formatter of the job's would write all that the error itself holds.
                trace = redact_long("".join(traceback.format_exception(exc_info)).rstrip())
                message, arguments = f"{message}\n%s", (*arguments, trace)
            logger.log(level, message, *arguments)


LOGGER: Final = Log("weir")
REPEAT_SECONDS: Final = 600.0
_MOST_KINDS: Final = 1000  # kinds may name a run, and a driver may live for months


class Complaints:
    """Says each kind of complaint at once, then at most every ``repeat_seconds``. Thread-safe."""

    def __init__(
        self,
        *,
        repeat_seconds: float = REPEAT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        log: Log = LOGGER,
    ) -> None:
        self._repeat_seconds = repeat_seconds
        self._clock = clock
        self._log = log
        self._lock = threading.RLock()  # a signal's handler may come in between, and attach too
        self._said: dict[str, tuple[float, int]] = {}  # kind -> (last time, unsaid since)
        self._over: Callable[[], bool] = lambda: False
        self.total = 0

    def until(self, over: Callable[[], bool]) -> None:
        """Errors are nothing to say once ``over`` is true, as when Spark has stopped."""
        self._over = over

    def warn(self, kind: str, message: str) -> bool:
        """Logs a warning unless one of this kind was logged lately; true where it was logged."""
        now = self._clock()
        with self._lock:
            self.total += 1
            last = self._said.get(kind)
            if last is not None and now - last[0] < self._repeat_seconds:
                self._said[kind] = (last[0], last[1] + 1)
                return False
            unsaid = 0 if last is None else last[1]
            if len(self._said) >= _MOST_KINDS:
                self._said.clear()
            self._said[kind] = (now, 0)
        suffix = f" ({unsaid} more like this since the last message)" if unsaid else ""
        self._log.warning("%s%s", message, suffix)
        return True

    def error(self, where: str, error: BaseException) -> None:
        """An error inside Weir itself: counted, said rarely, never raised."""
        self._log.debug("weir: %s", where, exc_info=error)
        if self._over():
            return
        kind = f"internal:{where}:{type(error).__name__}"
        self.warn(
            kind,
            f"weir: {where} failed and was skipped; the job is not affected: "
            f"{type(error).__name__}: {first_words(error)[:300]}",
        )


def first_words(error: BaseException) -> str:
    """The first line; of an error of py4j's that only names a call, what Java threw too."""
    text = ""
    with errors_of_ours_suppressed():  # what Java threw is asked of a JVM that may be gone
        text = str(error)
    first, *rest = text.strip().splitlines() or [""]
    if rest and first.startswith("An error occurred while calling"):
        first = f"{first} {rest[0].strip()}"
    return redact(first[:LONGEST_TEXT])


def no_answer(error: Exception) -> bool:
    """Whether py4j got no answer from the JVM; an error that the JVM tells comes with a trace."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    bare = type(error) is Py4JError and "Trace:" not in str(error)
    return bare or isinstance(error, (Py4JNetworkError, OSError))
