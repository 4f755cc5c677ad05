"""Keeps calls of ours out of what py4j logs: the log is the job's, and so is how it is set up.

py4j logs each call at DEBUG, and each connection's end at INFO. Of a call that breaks it tells by
functions of ``logging`` itself, which give the root logger a handler where it has none: the job's
own ``basicConfig()`` does nothing from then on.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from spark_listener.application import THREADS
from spark_listener.handlers import errors_of_ours_suppressed, ours_runs


def keep_out() -> None:
    """From now on. Raises nothing: with another py4j the log has more lines."""
    with errors_of_ours_suppressed():
        from py4j import clientserver, java_gateway

        for module in (java_gateway, clientserver):
            module.logger.addFilter(_NOT_OURS)  # once: it is one object
        if java_gateway.logging is logging:
            java_gateway.logging = _LOGGING


def hang_up(gateway: Any) -> None:
    """Ends the connection of this thread of ours, which has nothing more to ask. Raises nothing.

    py4j ends it as well, and tells so, when nobody can say any more whose thread it was.
    """
    with errors_of_ours_suppressed():
        connection = gateway._gateway_client.get_thread_connection()
        if connection is not None:
            connection.close()
            connection.close = _say_nothing


def _of_ours() -> bool:
    return ours_runs() or threading.current_thread().name.startswith(THREADS)


def _say_nothing(*_: object, **__: object) -> None:
    """In the place of what would tell."""


class _NotOurs(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002
        return not _of_ours()


class _Logging:
    """``logging``, as a module of py4j's has it."""

    def __getattr__(self, name: str) -> Any:
        # When it is asked for, and not when it is called: no frame of ours comes between.
        if name in ("info", "exception") and _of_ours():
            return _say_nothing
        return getattr(logging, name)


_NOT_OURS: Final = _NotOurs()
_LOGGING: Final = _Logging()
