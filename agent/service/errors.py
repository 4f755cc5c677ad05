"""An error as HTTP tells it: a status, what is wrong, and which part of the request."""

from __future__ import annotations


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
