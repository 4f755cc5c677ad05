"""Keys from bytes."""

from __future__ import annotations

import os
import pty
import termios

import pytest

from agent.export.terminal.keys import MOST_PASTED, Keyboard, parse_keys


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1b[B\x1bOA\x1bOB", ["up", "down", "up", "down"]),
        ("\x1b[5~\x1b[6~\x1b[H\x1b[F", ["page up", "page down", "home", "end"]),
        ("\r\n", ["enter", "enter"]),
        ("\x7f\x08", ["backspace", "backspace"]),
        ("\x03", ["interrupt"]),
        ("\x1b", ["escape"]),
        ("\x1bj", ["escape", "j"]),
        ("\x1b[<0;12;7Mx", ["x"]),
        ("\x1b[1;5Aj", ["j"]),
        ("\x1b[", []),
        ("a\x1b[200~why\n\x1b[Ay\x1b[201~j", ["a", "paste why\n\x1b[Ay", "j"]),
        ("\x00\x01é数", ["é", "数"]),
        ("", []),
    ],
)
def test_bytes_become_keys(typed: str, keys: list[str]) -> None:
    assert parse_keys(typed) == keys


def test_the_terminal_is_put_back_even_after_a_failure() -> None:
    ours, theirs = pty.openpty()
    try:
        with os.fdopen(theirs, "rb", buffering=0) as stream:
            before = termios.tcgetattr(stream)
            with pytest.raises(RuntimeError), Keyboard(stream) as keyboard:  # noqa: PT012
                assert keyboard.usable
                assert not termios.tcgetattr(stream)[3] & termios.ICANON
                os.write(ours, "é".encode()[:1])
                assert keyboard.wait(0.2) == []
                os.write(ours, "é".encode()[1:] + b"\x1b[A")
                assert keyboard.wait(2) == ["é", "up"]
                assert keyboard.wait(0.05) == []
                for part in (b"\x1b[20", b"0~wh", b"y\x1b[2", b"01"):
                    os.write(ours, part)
                    assert keyboard.wait(0.2) == []
                os.write(ours, b"~j")
                assert keyboard.wait(2) == ["paste why", "j"]
                for part in (b"\x1b[200~", *100 * [b"q" * 1000], b"\x1b[2"):
                    os.write(ours, part)
                    assert keyboard.wait(0.2) == []
                    assert len(keyboard._rest) <= MOST_PASTED
                os.write(ours, b"01~j")
                [pasted, key] = keyboard.wait(2)
                assert (pasted[:9], key) == ("paste qqq", "j")
                raise RuntimeError
            assert termios.tcgetattr(stream) == before
    finally:
        os.close(ours)


def test_without_a_terminal_there_are_no_keys() -> None:
    read, write = os.pipe()
    try:
        with os.fdopen(read) as stream, Keyboard(stream) as keyboard:
            assert not keyboard.usable
            os.write(write, b"q")
            assert keyboard.wait(0.05) == []
        with Keyboard(object()) as keyboard:
            assert keyboard.wait(0.05) == []
    finally:
        os.close(write)
