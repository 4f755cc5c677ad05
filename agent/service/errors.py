"""An error as HTTP tells it: a status, what is wrong, and which part of the request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from agent import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

#: How a driver's listener calls itself, in ``spark_listener/channel.py``.
_LISTENER: Final = re.compile(rb"weir-spark-listener/(\d{1,6})\.(\d{1,6})\.(\d{1,6})")


def of_a_newer_driver(headers: Mapping[bytes, bytes]) -> str:
    """What to say first where something is not understood that a newer driver sent; else empty.

    First, as the driver's log has room for the beginning of a refusal alone.
    """
    found = _LISTENER.fullmatch(headers.get(b"user-agent", b""))
    if found is None:
        return ""
    theirs = [int(number) for number in found.groups()]
    if theirs <= [int(number) for number in __version__.split(".")]:
        return ""
    version = ".".join(map(str, theirs))
    return (
        f"this agent ({__version__}) is older than the driver's listener ({version}): update the"
        " agent first; "
    )


class HttpError(Exception):
    """Ends a request with ``{"error": {"message": …, "where": …}}``."""

    def __init__(
        self,
        status: int,
        message: str,
        where: str | None = None,
        *,
        retry_after_seconds: int | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        reason: str | None = None,
    ) -> None:
        """``reason``: how the refusal is counted; None: by its status."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.where = where
        self.headers = headers
        self.reason = reason or _REASONS.get(status, "other")
        if retry_after_seconds is not None:
            self.headers = (*headers, (b"retry-after", str(retry_after_seconds).encode()))


_REASONS = {
    400: "malformed",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method",
    408: "timeout",
    413: "too_large",
    415: "wrong_type",
    500: "internal",
    503: "full",
}
