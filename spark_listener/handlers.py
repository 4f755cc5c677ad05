"""What a signal's handler of the job's raised while code of ours ran: the job's to hear of."""

from __future__ import annotations

import functools
import signal
from typing import Any


def raised_by_a_handler(error: BaseException) -> BaseException | None:
    """The error, or the one behind it, if a handler raised it: a limit on time by ``SIGALRM``, say.

    A handler runs between any two steps of the main thread, those of ours among them, and what it
    raises is to end what the job does. py4j and PySpark make another error of it on its way.
    """
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    met: set[int] = set()
    one: BaseException | None = error
    while handlers and one is not None and id(one) not in met:
        met.add(id(one))
        trace = one.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code in handlers:
                return one
            trace = trace.tb_next
        one = one.__cause__ or one.__context__
    return None


def _code_of(handler: Any) -> Any:
    """What Python runs for it; None where that is not Python's, or there is none."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if callable(handler) and not hasattr(handler, "__code__"):  # a method has its function's
        handler = getattr(type(handler), "__call__", None)  # noqa: B004 - an object that is called
    return getattr(handler, "__code__", None)
