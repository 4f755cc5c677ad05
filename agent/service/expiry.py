"""When the certificate that the agent serves with ends, as a client of it would read that."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

#: OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python has no name for: one that has ended is read
#: too.
_NO_CHECK_TIME: Final = 0x200000
#: A handshake takes two flights each way.
_MOST_TURNS: Final = 10


def expiry_time(context: ssl.SSLContext, certificate: Path) -> float | None:
    """Epoch seconds; None where it cannot be read.

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
        ends = (here.getpeercert() or {}).get("notAfter")
    except (OSError, ValueError):  # ssl.SSLError is one
        return None
    return float(ssl.cert_time_to_seconds(ends)) if isinstance(ends, str) else None


def _shake(side: ssl.SSLObject) -> bool:
    """Whether this side is done; else it waits for the other."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
