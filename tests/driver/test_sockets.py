"""Whose a socket is: by lines as Linux writes them, and by sockets of this machine."""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import TYPE_CHECKING

import pytest

from spark_listener.sockets import NOBODY, Socket, owner, parse
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux' tables")
little = pytest.mark.skipif(sys.byteorder != "little", reason="lines of such a machine")

HEADER = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  "
    "timeout inode\n"
)
NOTHING = "00000000:00000000 00:00000000 00000000"
NONE = "00000000:0000"
NONE_6 = f"{'0' * 32}:0000"
#: 127.0.0.1 as IPv6, and ::1.
MAPPED, LOOPBACK_6 = "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"
#: 127.0.0.1:4711 and :51966.
PORT, PEER = "1267", "CAFE"


def line(own: str, other: str, state: str, uid: int, inode: int = 2601355) -> str:
    return f"   7: {own} {other} {state} {NOTHING} {uid:5}        0 {inode} 1 0000000088e 20 4 0\n"


def tables(folder: Path, tcp: str, tcp6: str | None = None) -> Path:
    (folder / "tcp").write_text(HEADER + tcp)
    if tcp6 is not None:
        (folder / "tcp6").write_text(HEADER + tcp6)
    return folder


@little
def test_a_line_is_read() -> None:
    assert parse(line(f"0100007F:{PORT}", NONE, "0A", 1000)) == Socket(
        (b"\x7f\0\0\x01", 4711), (bytes(4), 0), True, 1000
    )
    assert parse(line(f"{MAPPED}:{PEER}", f"{MAPPED}:{PORT}", "01", 0)) == Socket(
        (b"\x7f\0\0\x01", 51966), (b"\x7f\0\0\x01", 4711), False, 0
    )
    assert parse(line(f"{LOOPBACK_6}:{PORT}", NONE_6, "0A", 7)).own == (bytes(15) + b"\x01", 4711)
    assert parse(line(f"0100007F:{PORT}", f"0100007F:{PEER}", "06", 0, inode=0)).uid == NOBODY


#: At 127.0.0.1, at all of IPv4, at all; and what is none of it.
HERE = line(f"0100007F:{PORT}", NONE, "0A", 1001)
HERE_MAPPED = line(f"{MAPPED}:{PORT}", NONE_6, "0A", 1002)
ALL = line(f"00000000:{PORT}", NONE, "0A", 1003)
ALL_6 = line(f"{'0' * 32}:{PORT}", NONE_6, "0A", 1004)
HERE_6 = line(f"{LOOPBACK_6}:{PORT}", NONE_6, "0A", 1005)
ELSEWHERE = line(f"0500A8C0:{PORT}", NONE, "0A", 1006) + line("0100007F:1268", NONE, "0A", 1007)
TAKEN = line(f"0100007F:{PORT}", f"0100007F:{PEER}", "01", 1008)


@little
@pytest.mark.parametrize(
    ("tcp", "tcp6", "uid"),
    [
        (HERE, "", 1001),
        ("", HERE_MAPPED, 1002),
        (ALL, "", 1003),
        ("", ALL_6, 1004),
        (HERE, ALL_6, 1001),  # which is of IPv6 alone, as the two cannot both be
        ("", ALL_6 + HERE_MAPPED, 1002),
        (ALL, ALL_6, 1003),
        (ELSEWHERE + HERE, "", 1001),
        (TAKEN + HERE, "", 1001),
        (TAKEN + ELSEWHERE, HERE_6, NOBODY),
        ("", "", NOBODY),
        (HERE, None, 1001),  # a machine without IPv6
    ],
)
def test_who_listens(tmp_path: Path, tcp: str, tcp6: str | None, uid: int) -> None:
    assert owner(("127.0.0.1", 4711), None, proc=tables(tmp_path, tcp, tcp6)) == uid


#: One connection by its two ends, the server's and the caller's.
SERVER = line(f"0100007F:{PORT}", f"0100007F:{PEER}", "01", 1001)
CALLER = line(f"0100007F:{PEER}", f"0100007F:{PORT}", "01", 1002)
CALLER_MAPPED = line(f"{MAPPED}:{PEER}", f"{MAPPED}:{PORT}", "01", 1003)
CALLER_GONE = line(f"0100007F:{PEER}", f"0100007F:{PORT}", "05", 0, inode=0)
OTHERS = line(f"0100007F:{PEER}", "0100007F:1268", "01", 1004)


@little
@pytest.mark.parametrize(
    ("tcp", "tcp6", "uid"),
    [
        (SERVER + CALLER, "", 1002),
        ("", CALLER_MAPPED, 1003),
        (SERVER + OTHERS, "", NOBODY),
        (CALLER_GONE, "", NOBODY),
        (HERE, ALL_6, NOBODY),
    ],
)
@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1"])
def test_who_calls(tmp_path: Path, tcp: str, tcp6: str, uid: int, address: str) -> None:
    proc = tables(tmp_path, tcp, tcp6)
    assert owner((address, 51966), (address, 4711), proc=proc) == uid


def test_where_it_cannot_be_told(tmp_path: Path) -> None:
    here = ("127.0.0.1", 4711)
    assert owner(here, None, proc=tmp_path / "none") is None
    assert owner(here, None, proc=tables(tmp_path, f"another form :{PORT} of it\n")) is None
    (tmp_path / "tcp").write_bytes(f"\xff :{PORT} ".encode("latin-1"))
    assert owner(here, None, proc=tmp_path) is None
    assert owner(("a.name", 4711), None) is None


@linux
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_sockets_of_this_process(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip("no IPv6 here")
    with server, socket.socket(family) as caller:
        port = server.getsockname()[1]
        assert owner((address, port), None) == os.geteuid()
        caller.connect((address, port))
        taken, peer = server.accept()
        with taken:
            assert owner(peer[:2], (address, port)) == os.geteuid()
            caller.close()
            assert owner(peer[:2], (address, port)) == NOBODY
    until(lambda: owner((address, port), None) == NOBODY, "the end of the server's")


@linux
def test_who_breaks_off_is_nobody() -> None:
    """Not whoever it was: what was sent before is read all the same."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        caller = socket.create_connection(server.getsockname())
        caller.sendall(b"an order")
        taken, peer = server.accept()
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        caller.close()
        with taken:
            assert taken.recv(100) == b"an order"
            assert owner(peer, server.getsockname()) == NOBODY


@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_sockets_of_another_user() -> None:
    os.seteuid(4242)
    try:
        server, caller = socket.create_server(("127.0.0.1", 0)), socket.socket()
    finally:
        os.seteuid(0)
    with server, caller:
        assert owner(server.getsockname(), None) == 4242
        caller.connect(server.getsockname())
        assert owner(caller.getsockname(), server.getsockname()) == 4242
