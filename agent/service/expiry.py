"""From when to when the certificate that the agent serves with holds, as a client reads it."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

#: OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python has no name for: one that has ended is read
#: too.
_NO_CHECK_TIME: Final = 0x200000
#: A handshake takes two flights each way.
_MOST_TURNS: Final = 10


class Validity(NamedTuple):
    """A certificate's life, in epoch seconds."""

    begins_time: float
    ends_time: float


def validity(context: ssl.SSLContext, certificate: Path) -> Validity | None:
    """Its life; None where that cannot be read.

    ``context`` serves it, ``certificate`` holds it. Python reads the fields only of a certificate
    that it has verified: so a client in memory, which trusts this one alone and looks at no clock,
    shakes hands with the context.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME) | ssl.VERIFY_X509_PARTIAL_CHAIN
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        client.load_verify_locations(cafile=certificate)
        here = client.wrap_bio(to_client, to_server)
        there = context.wrap_bio(to_server, to_client, server_side=True)
        for _ in range(_MOST_TURNS):
            done = [_shake(here), _shake(there)]
            if all(done):
                break
        told = here.getpeercert() or {}
        begins, ends = told.get("notBefore"), told.get("notAfter")
        if isinstance(begins, str) and isinstance(ends, str):
            read = ssl.cert_time_to_seconds
            return Validity(float(read(begins)), float(read(ends)))
    except (OSError, ValueError):  # ssl.SSLError is one
        pass
    return None


def _shake(side: ssl.SSLObject) -> bool:
    """Whether this side is done; else it waits for the other."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
