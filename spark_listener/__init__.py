"""Weir in the Spark driver: standard library and PySpark only; it never breaks the job.

from spark_listener import attach
attach(spark)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

__version__: Final = "0.1.0"
__all__ = ["__version__", "attach", "detach"]

if TYPE_CHECKING:
    from spark_listener.attachment import Attachment


def attach(spark: Any = None, **settings: Any) -> Attachment:
    """Watches and steers the streaming queries of a session; see ``docs/driver.md``."""
    from spark_listener.attachment import attach as attach_session

    return attach_session(spark, **settings)


def detach(spark: Any = None) -> None:
    """Puts configured limits back and stops watching one session, or all of them."""
    from spark_listener.attachment import detach as detach_session

    detach_session(spark)
