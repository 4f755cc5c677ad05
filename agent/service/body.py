"""Read a request's body, never more than allowed: limits hold while it streams in."""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, Final

from agent.service.errors import HttpError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive

BODY_TIMEOUT_SECONDS: Final = 30.0
#: A client that is told 413 while it still sends often never reads the answer. So a body that is
#: too long is read on for this many times the limit, and dropped, before the connection is closed.
_DRAIN_FACTOR: Final = 4
_DRAIN_SECONDS: Final = 10.0
_CLOSE: Final = ((b"connection", b"close"),)


class ClientGone(Exception):  # noqa: N818
    """The client left before its body was complete: there is nobody to answer."""


class BodyReader:
    """Reads bodies; bounds each one, and all that are in memory at once."""

    def __init__(self, max_bytes: int, max_bytes_at_once: int) -> None:
        self._max_bytes = max_bytes
        self._max_bytes_at_once = max_bytes_at_once
        self._held_bytes = 0

    async def read_json(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """The body, unpacked. Raises HttpError 400, 408, 413, 415, 503; ClientGone."""
        content_type = headers.get(b"content-type", b"")
        if not _is_json(content_type):
            given = content_type.decode("latin-1")[:100] or "nothing"
            raise HttpError(415, f"application/json is needed, not {given!r}", "Content-Type")
        encoding = headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding not in (b"identity", b"gzip"):
            raise HttpError(
                415,
                f"gzip or no encoding, not {encoding.decode('latin-1')[:40]!r}",
                "Content-Encoding",
            )
        try:
            return await asyncio.wait_for(
                self._read(headers, receive, packed=encoding == b"gzip"), BODY_TIMEOUT_SECONDS
            )
        except asyncio.TimeoutError:
            raise HttpError(
                408, f"the body did not arrive within {BODY_TIMEOUT_SECONDS:.0f} s", headers=_CLOSE
            ) from None

    async def _read(
        self, headers: Mapping[bytes, bytes], receive: Receive, *, packed: bool
    ) -> bytes:
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and len(declared) < 19 and int(declared) > self._max_bytes:
            await self._drain(receive)
            raise self._too_large()
        chunks: list[bytes] = []
        held = 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                chunk: bytes = message.get("body", b"")
                if chunk:
                    held += len(chunk)
                    self._held_bytes += len(chunk)
                    if held > self._max_bytes:
                        chunks.clear()
                        await self._drain(receive)
                        raise self._too_large()
                    if self._held_bytes > self._max_bytes_at_once:
                        raise HttpError(
                            503,
                            "too many requests at once",
                            retry_after_seconds=1,
                            headers=_CLOSE,
                        )
                    chunks.append(chunk)
                if not message.get("more_body", False):
                    break
            body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            return self._unpack(body) if packed else body
        finally:
            self._held_bytes -= held

    def _unpack(self, body: bytes) -> bytes:
        unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            plain = unpacker.decompress(body, self._max_bytes + 1)
        except zlib.error as error:
            raise HttpError(400, f"not gzip: {error}", "body") from None
        if len(plain) > self._max_bytes:
            raise self._too_large()
        if not unpacker.eof:
            raise HttpError(400, "the gzip body is cut short", "body")
        if unpacker.unused_data:
            raise HttpError(400, "more follows the end of the gzip body", "body")
        return plain

    async def _drain(self, receive: Receive) -> None:
        left = _DRAIN_FACTOR * self._max_bytes

        async def drop() -> None:
            nonlocal left
            while left > 0:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return

        try:
            await asyncio.wait_for(drop(), _DRAIN_SECONDS)
        except asyncio.TimeoutError:
            return

    def _too_large(self) -> HttpError:
        return HttpError(
            413,
            f"the body is longer than {self._max_bytes} bytes; send fewer events at once",
            "body",
            headers=_CLOSE,
        )


def _is_json(content_type: bytes) -> bool:
    media, _, parameters = content_type.partition(b";")
    if media.strip().lower() != b"application/json":
        return False
    for parameter in parameters.lower().split(b";"):
        name, _, value = parameter.partition(b"=")
        if name.strip() == b"charset" and value.strip().strip(b'"') not in (b"utf-8", b"utf8"):
            return False
    return True
