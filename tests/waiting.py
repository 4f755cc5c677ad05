"""How a test waits: for a condition, looked at again and again, and never for a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Found = TypeVar("_Found")


def until(
    look: Callable[[], _Found | None],
    what: str,
    *,
    seconds: float = 180.0,
    every: float = 0.05,
    ignoring: tuple[type[Exception], ...] = (),
    telling: Callable[[], object] | None = None,
    pause: Callable[[float], object] = time.sleep,
) -> _Found:
    """The first answer of ``look`` that is true; it is asked once more when the time is up.

    Raises AssertionError that names ``what``, the time and the last answer, and what ``telling``
    then gives, as a log. The errors in ``ignoring`` mean "not yet"; ``pause`` waits in between.
    """
    __tracebackhide__ = True  # pytest then shows who waited
    end = time.monotonic() + seconds
    while True:
        error: Exception | None = None
        answer: _Found | None = None
        late = time.monotonic() >= end
        try:
            answer = look()
        except ignoring as raised:
            error = raised
        if answer:
            return answer
        if late:
            more = "" if telling is None else f"\n{telling()}"
            last = repr(answer if error is None else error)
            text = f"waited {seconds:g} s in vain for {what}; last: {last[:2000]}{more}"
            raise AssertionError(text) from error
        pause(min(every, max(end - time.monotonic(), 0.0)))
