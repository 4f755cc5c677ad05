"""What a signal's handler of the job's raised while code of ours ran: the job's to hear of."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import signal
import sys
import threading
import types
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What is called while ours runs and is not the job's own, beside what is installed for all.
_NOT_THE_JOBS: Final = {
    *getattr(sys, "stdlib_module_names", ()),  # none in a Python that Weir is off in
    "spark_listener",
    "py4j",
    "pyspark",
}
_INSTALLED: Final = ("site-packages", "dist-packages")
_CACHED: Final = type(functools.lru_cache(len))
#: Of the main thread, the only one that handlers run in, while ours is called there: the id of the
#: error that the job was handling by then, and what its handlers were.
_since: tuple[int, frozenset[Any]] | None = None
#: Whether ours is called in this thread of the job's.
_here = threading.local()


#: A handler may wait for a thread that comes to what its own holds: what waits goes on without Weir
#: after so long, which is more than detaching takes where Spark does not answer. Attaching takes
#: less, one or two with a cold JVM.
LONGEST_WAIT_SECONDS: Final = 10.0


class BoundedLock:
    """A lock that is entered anew by who holds it, and that nobody waits for without an end."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        """Raises TimeoutError."""
        if not self._lock.acquire(timeout=LONGEST_WAIT_SECONDS):
            raise TimeoutError("another call of Weir has not ended; call again once it has")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class WhileOursRuns:
    """Around what the job calls, or comes upon, of ours: what is raised within began within."""

    def __enter__(self) -> None:
        global _since  # noqa: PLW0603 - there is one main thread
        self._before = _since
        self._outer = ours_runs()
        _here.ours = True
        if _on_the_main_thread():
            # The job holds the error as long as this lasts: a reference would keep it for longer.
            handlers = _handlers() if _since is None else _since[1]
            _since = (id(sys.exc_info()[1]), handlers)

    def __exit__(self, *_: object) -> None:
        global _since  # noqa: PLW0603
        _here.ours = self._outer
        if _on_the_main_thread():
            _since = self._before


def ours_runs() -> bool:
    """Whether this thread is in a call of ours. It may be the job's own, or one of ours."""
    found: bool = getattr(_here, "ours", False)
    return found


def leave_to_the_job(error: BaseException) -> None:
    """Raises the error, or the one behind it, if a handler did: such as a limit on time.

    First in each ``except`` that an error ends in, where the job's own thread may come. A handler
    runs between any two steps of the main thread, those of ours among them, and what it raises is
    to end what the job does. py4j and PySpark make another error of it on its way. Python's own
    handler is C, of which no frame tells: what is no ``Exception``, as an interrupt, is no error
    of anyone's here. Where it is not known what a handler runs, as of one that was compiled, it
    may be any error that came through code of the job's own.
    """
    if _since is None or not _on_the_main_thread():
        return
    handled, handlers = _since
    handlers |= _handlers()  # one may have taken itself off, and may have been put in meanwhile
    met = {handled}  # behind it is what the job knows of already
    one: BaseException | None = error
    while one is not None and id(one) not in met:
        met.add(id(one))
        if not isinstance(one, Exception) or _raised_by(handlers, one):
            context = one.__context__
            try:
                raise one
            finally:
                one.__context__ = context  # and not what was made of it
        one = one.__cause__ or one.__context__


def _raised_by(handlers: frozenset[Any], error: BaseException) -> bool:
    """Whether the error came through one of these pieces of code; None is any of the job's.

    But for what logging ran: of the job's filters and handlers there Weir raises nothing.
    """
    unknown = None in handlers
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        unknown = unknown and _module(frame) != "logging"
        if frame.f_code in handlers or (unknown and _is_the_jobs(frame)):
            return True
        trace = trace.tb_next
    return False


def _is_the_jobs(frame: types.FrameType) -> bool:
    path = str(frame.f_globals.get("__file__", ""))
    return _module(frame) not in _NOT_THE_JOBS and not any(one in path for one in _INSTALLED)


def _module(frame: types.FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


@contextlib.contextmanager
def errors_of_ours_suppressed() -> Iterator[None]:
    """As ``suppress(Exception)``, but for what a handler raised."""
    try:
        yield
    except Exception as error:
        leave_to_the_job(error)


def warn(message: str, *arguments: object) -> None:
    """Says it by the logger ``weir``, of whose handlers and filters the job may have made some."""
    with WhileOursRuns(), errors_of_ours_suppressed():
        logging.getLogger("weir").warning(message, *arguments)


def _on_the_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _handlers() -> frozenset[Any]:
    """The code of each that Python runs; None stands for those of which it is not known."""
    found = (signal.getsignal(number) for number in signal.valid_signals())
    return frozenset(_code_of(one) for one in found if _is_called(one))


def _is_called(handler: Any) -> bool:
    """Whether it may raise what only its frames tell of: Python's own raises an interrupt."""
    nothing = handler is None or issubclass(type(handler), int)  # such as SIG_IGN
    return not nothing and handler is not signal.default_int_handler


def _code_of(handler: Any) -> Any:
    """What Python runs for it; None where that is not known.

    By its type: nothing of the handler's own is run, which may raise. Of a callable in C only
    ``functools``' are known to run nothing but what they wrap: a decorator of wrapt's does.
    """
    met: set[int] = set()  # what is wrapped in itself has no code
    while id(handler) not in met:
        met.add(id(handler))
        if issubclass(type(handler), functools.partial):
            handler = handler.func
        elif issubclass(type(handler), types.MethodType):
            handler = handler.__func__
        elif type(handler) is types.FunctionType:
            return handler.__code__
        elif type(handler) is _CACHED:
            handler = inspect.getattr_static(handler, "__wrapped__", None)
        else:
            called = getattr(type(handler), "__call__", None)  # noqa: B004 - an object's
            return called.__code__ if type(called) is types.FunctionType else None
    return None
