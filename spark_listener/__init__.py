"""Weir in the Spark driver: standard library and PySpark only; it never breaks the job.

from spark_listener import attach
attach(spark)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, Union

from spark_listener.handlers import WhileOursRuns, leave_to_the_job, warn

__version__: Final = "0.1.0"
__all__ = ["__version__", "attach", "detach"]

if TYPE_CHECKING:
    from spark_listener.attachment import Attachment

#: As in pyproject.toml. With ``--py-files`` nothing else looks at it, and PySpark 3.5 takes 3.8: so
#: such a Python must be able to read this file, ``run`` and ``handlers``.
_OLDEST_PYTHON: Final = (3, 10)


class Off:
    """What ``attach`` returns where Weir cannot be imported: the job goes on without."""

    active = False

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def detach(self) -> None:
        """Nothing is watched."""

    def __repr__(self) -> str:
        return f"<weir off: {self.reason}>"


def attach(spark: Any = None, **settings: Any) -> Union[Attachment, Off]:  # noqa: UP007
    """Watches and steers the streaming queries of a session; see ``docs/driver.md``."""
    reason = why_off()
    if reason:
        warn("weir is off: %s", reason)
        return Off(reason)
    from spark_listener.attachment import attach as attach_session

    return attach_session(spark, **settings)


def detach(spark: Any = None) -> None:
    """Puts configured limits back and stops watching one session, or all of them."""
    if why_off():
        return
    from spark_listener.attachment import detach as detach_session

    detach_session(spark)


def why_off() -> str:
    """Why Weir cannot be imported by this Python; "" where it can."""
    if sys.version_info[:2] < _OLDEST_PYTHON:
        here, needed = (".".join(map(str, one[:2])) for one in (sys.version_info, _OLDEST_PYTHON))
        return f"the job's Python is {here}, and {needed} or newer is needed"
    with WhileOursRuns():
        try:
            import spark_listener.attachment  # noqa: F401
        except Exception as error:
            leave_to_the_job(error)
            return f"it cannot be imported: {type(error).__name__}: {error}"
    return ""
