"""Whose a TCP socket of this machine is: on loopback an address is every account's.

By Linux' tables of them, for one network namespace, which is all that loopback joins. Their form:
https://docs.kernel.org/networking/proc_net_tcp.html
"""

from __future__ import annotations

import contextlib
import ipaddress
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

#: There is none, or no process holds it any more, which the tables say as if it were root's: who
#: has sent something and closed is nobody who could be asked, and is not to be taken for anybody.
NOBODY: Final = -1
_LISTENS: Final = "0A"
_MAPPED: Final = bytes(10) + b"\xff\xff"


class Socket(NamedTuple):
    """A line of a table. An address is of 4 or 16 bytes, and of 4 where IPv6 stands for IPv4."""

    own: tuple[bytes, int]
    other: tuple[bytes, int]
    listens: bool
    uid: int


def owner(
    local: tuple[str, int], remote: tuple[str, int] | None, *, proc: Path = Path("/proc/self/net")
) -> int | None:
    """The uid of who holds the socket whose own end is ``local``, and whose other is ``remote``.

    ``remote`` None: of who listens there, be it on all addresses. NOBODY, which is no uid, where no
    process holds such a socket (any more); None where it cannot be told, as on other systems.
    """
    try:
        here = _packed(local[0])
        there = None if remote is None else (_packed(remote[0]), remote[1])
        found = [parse(line) for line in _lines(proc, local[1])]
    except (OSError, ValueError):
        return None
    if there is not None:
        held = [one.uid for one in found if one.own == (here, local[1]) and one.other == there]
        return max(held, default=NOBODY)
    # As Linux looks for a listener: by the address itself, then by all of IPv4, then by all.
    for address in (here, bytes(len(here)), bytes(16)):
        for one in found:
            if one.listens and one.own == (address, local[1]):
                return one.uid
    return NOBODY


def parse(line: str) -> Socket:
    """Reads a line. Raises ValueError."""
    _, own, other, state, _, _, _, uid, _, inode, *_ = line.split()
    # Without an inode it is closed, and has something to send still, or to wait for.
    return Socket(_end(own), _end(other), state == _LISTENS, int(uid) if int(inode) else NOBODY)


def _end(text: str) -> tuple[bytes, int]:
    """Words of 32 bits as this machine keeps them, and a port."""
    address, _, port = text.partition(":")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    return _plain(b"".join(word.to_bytes(4, sys.byteorder) for word in words)), int(port, 16)


def _packed(address: str) -> bytes:
    return _plain(ipaddress.ip_address(address).packed)


def _plain(address: bytes) -> bytes:
    return address.removeprefix(_MAPPED)


def _lines(proc: Path, port: int) -> Iterator[str]:
    """Those that may be about this port; tables are long on a busy machine."""
    wanted = f":{port:04X} "
    with (proc / "tcp").open(encoding="ascii") as table:
        yield from (line for line in table if wanted in line)
    # Without IPv6 there is none.
    with contextlib.suppress(FileNotFoundError), (proc / "tcp6").open(encoding="ascii") as table:
        yield from (line for line in table if wanted in line)
