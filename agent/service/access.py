"""Who may ask: tokens from files, and what keeps a browser on another site out.

A token of one file opens all, a token of the other events alone: drivers need no more.

Without a token the agent listens on loopback alone. A web page that a local browser shows can still
reach loopback, by a name that resolves to it or by a cross-site request, so the ``Host`` must be a
loopback name and an ``Origin`` the agent's own. So can every account of the machine, so an order's
connection must be that of the agent's own user, or of root.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import os
import re
from typing import TYPE_CHECKING, Final

import msgspec

from agent.service.config import is_loopback
from agent.service.errors import HttpError
from spark_listener.sockets import NOBODY, owner
from spark_listener.tokens import DIGEST_PREFIX
from spark_listener.wire import EVENTS_PATH

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_TOKEN_FILE_BYTES: Final = 64 * 1024
#: Two challenges: programs take the first, browsers the second.
CHALLENGES: Final = (b'Bearer realm="weir"', b'Basic realm="weir", charset="UTF-8"')
_DIGEST: Final = re.compile(DIGEST_PREFIX.encode() + rb"([0-9a-f]{64})", re.IGNORECASE)
#: Told to who comes with a driver's token for more than a driver does.
EVENTS_ALONE: Final = f"this token opens {EVENTS_PATH} alone: give one of those in token_file"


class Caller(msgspec.Struct, frozen=True):
    """Who asks, as far as is known. The name is claimed, not proven: the token is shared."""

    name: str
    remote: str

    def who(self, claimed: str = "") -> str:
        """For the log of orders."""
        name = claimed or self.name
        return f"{name} ({self.remote})" if name else self.remote


class TokenFileError(ValueError):
    """The file holds no usable token; the message never quotes what it holds."""


class Tokens:
    """The tokens of a file, kept as digests. An unreadable file leaves the last good ones."""

    def __init__(self, path: Path) -> None:
        """Raises TokenFileError."""
        self.path = path
        self._digests: tuple[bytes, ...] = ()
        #: Whether the file holds a token itself, and not the digests of some alone.
        self.sendable = False
        self._content = b""
        self.reload()

    def reload(self) -> bool:
        """Reads the file again; True where it held something else. Raises TokenFileError."""
        try:
            with self.path.open("rb") as file:
                content = file.read(MAX_TOKEN_FILE_BYTES + 1)
        except OSError as error:
            raise TokenFileError(f"{self.path}: {error.strerror}") from None
        if len(content) > MAX_TOKEN_FILE_BYTES:
            raise TokenFileError(f"{self.path}: longer than {MAX_TOKEN_FILE_BYTES} bytes")
        mark = hashlib.sha256(content).digest()
        if mark == self._content:
            return False
        lines = [line.strip() for line in content.splitlines() if line.strip()]
        if not lines:
            raise TokenFileError(f"{self.path}: holds no token")
        if not all(line.isascii() and line.decode("ascii").isprintable() for line in lines):
            raise TokenFileError(f"{self.path}: a token is printable ASCII, one a line")
        told = [_DIGEST.fullmatch(line) for line in lines]
        if any(
            digest is None and line.lower().startswith(DIGEST_PREFIX.encode())
            for line, digest in zip(lines, told, strict=True)
        ):
            raise TokenFileError(
                f"{self.path}: after {DIGEST_PREFIX} stand the 64 hexadecimal digits of a token's "
                "SHA-256"
            )
        self._digests = tuple(
            hashlib.sha256(line).digest() if digest is None else bytes.fromhex(digest[1].decode())
            for line, digest in zip(lines, told, strict=True)
        )
        self.sendable = None in told
        self._content = mark
        return True

    def accept(self, token: bytes) -> bool:
        """Takes as long for a wrong token as for a right one."""
        given = hashlib.sha256(token).digest()
        found = False
        for digest in self._digests:
            found |= hmac.compare_digest(given, digest)
        return found

    def overlap(self, other: Tokens) -> bool:
        """Whether a token is of both files."""
        return not set(self._digests).isdisjoint(other._digests)


class Gate:
    """Lets a request in or raises HttpError 401 or 403."""

    def __init__(
        self, tokens: Tokens | None, host: str, *, events_tokens: Tokens | None = None
    ) -> None:
        """``events_tokens`` open where events go, and nothing else; only beside ``tokens``."""
        self._tokens = tokens
        self._events_tokens = events_tokens
        self._host = host
        self._on_loopback = is_loopback(host)

    def admit(
        self, headers: Mapping[bytes, bytes], remote: str, *, with_events: bool = False
    ) -> Caller:
        """``headers`` by lower-case name, the last one where a name repeats.

        ``with_events``: whether it asks where events go.
        """
        if self._tokens is None:
            if not _loopback_address(remote):
                raise HttpError(403, "without a token, requests are taken from this machine only")
            self._refuse_other_names(headers)
            return Caller("", remote)
        scheme, _, rest = headers.get(b"authorization", b"").partition(b" ")
        name = ""
        if scheme.lower() == b"bearer":
            token = rest.strip()
        elif scheme.lower() == b"basic":
            name, token = _basic(rest.strip())
        else:
            raise HttpError(401, "a token is needed: Authorization: Bearer …", "Authorization")
        opens_all = self._tokens.accept(token)
        # A token that stands in both files, which no start takes, opens the less.
        if self._events_tokens is not None and self._events_tokens.accept(token):
            if not with_events:
                raise HttpError(403, EVENTS_ALONE, "Authorization")
        elif not opens_all:
            raise HttpError(401, "wrong token", "Authorization")
        return Caller(name, remote)

    def admit_order(self, caller: tuple[str, int] | None, own: tuple[str, int] | None) -> None:
        """Of who was admitted, by both ends of the connection. Raises HttpError 403.

        Reads the machine's table of sockets, which may be long: for orders alone, in a thread.
        """
        if self._tokens is None and caller is not None and own is not None:
            refused = why_no_order_of(owner(caller, own), os.geteuid())
            if refused:
                raise HttpError(403, refused)

    def admit_without_token(self, headers: Mapping[bytes, bytes]) -> None:
        """For paths that need none: raises HttpError 403 for a name that is not this machine's.

        Only where the agent listens on loopback alone. Elsewhere kubelets and scrapers ask by
        addresses and names that nobody here knows.
        """
        if self._on_loopback:
            self._refuse_other_names(headers)

    def _refuse_other_names(self, headers: Mapping[bytes, bytes]) -> None:
        if not _loopback_name(_host_of(headers.get(b"host", b"")), self._host):
            raise HttpError(
                403, "Host is not a loopback name; ask for localhost, or set token_file", "Host"
            )


def why_no_order_of(uid: int | None, own: int) -> str:
    """Why an order of this user is not taken where there is no token; empty where it is.

    ``own``: as whom the agent runs. None is taken: nobody here can tell whose it is.
    """
    if uid is None or uid in (0, own):
        return ""
    takers = "root" if own == 0 else f"user {own}, as whom the agent runs, and root"
    whose = "over a connection that is closed" if uid == NOBODY else f"from user {uid}"
    return (
        f"without a token orders are taken from {takers} alone, and this one came {whose}: give it "
        "as one of them, or set token_file"
    )


def refuse_other_sites(headers: Mapping[bytes, bytes]) -> None:
    """Raises HttpError 403 where a browser says that another site's page sent this."""
    site = headers.get(b"sec-fetch-site")
    if site is not None and site not in (b"same-origin", b"none"):
        raise HttpError(403, "orders are not taken from other sites' pages", "Sec-Fetch-Site")
    origin = headers.get(b"origin")
    if origin is not None:
        # The scheme may differ: a proxy can end TLS before the agent.
        _, separator, netloc = origin.partition(b"://")
        if not separator or netloc.lower() != headers.get(b"host", b"").lower():
            raise HttpError(403, "orders are not taken from other sites' pages", "Origin")


def _basic(encoded: bytes) -> tuple[str, bytes]:
    try:
        user, separator, password = base64.b64decode(encoded, validate=True).partition(b":")
    except (binascii.Error, ValueError):
        raise HttpError(401, "the Basic credentials cannot be read", "Authorization") from None
    if not separator:
        raise HttpError(401, "the Basic credentials have no password", "Authorization")
    return user.decode("utf-8", "replace")[:100], password


def _host_of(header: bytes) -> str:
    text = header.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def _loopback_name(name: str, bound: str) -> bool:
    plain = name.rstrip(".")
    if plain == "localhost" or plain.endswith(".localhost") or (plain and plain == bound.lower()):
        return True
    return _loopback_address(name)


def _loopback_address(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
