"""``run_top`` as a user has it: a process on a terminal, in a pipe, with an agent or without."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent.client import AgentClient, AgentUnavailable, ClientSettings, WrongUse
from agent.export.terminal.poll import Poller, fetch
from agent.export.top import run_top
from tests.page import views as made
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.export.terminal.snapshot import Snapshot
    from tests.page.conftest import FleetServer

ROOT = Path(__file__).parents[2]
COMMAND = [
    sys.executable,
    "-c",
    (
        "import sys; from agent.client import ClientSettings; from agent.export.top import run_top;"
        "sys.exit(run_top(ClientSettings(url=sys.argv[1]), refresh_seconds=0.3))"
    ),
]


class Terminal:
    """A process on a terminal of its own, 100 by 30."""

    def __init__(self, url: str, **environment: str) -> None:
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        self.process = subprocess.Popen(
            [*COMMAND, url],
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm-256color", **environment},
            start_new_session=True,
        )
        self.seen = ""

    def read(self, seconds: float) -> str:
        """What appeared within that time."""
        until = time.monotonic() + seconds
        fresh = b""
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([self.ours], [], [], left)
            if ready:
                fresh += os.read(self.ours, 65_536)
        text = fresh.decode("utf-8", "replace")
        self.seen += text
        return text

    def wait_for(self, pattern: str, seconds: float = 60.0) -> str:
        """Reads until what appeared since now fits."""
        until = time.monotonic() + seconds
        fresh = ""
        while time.monotonic() < until:
            fresh += self.read(0.1)
            if re.search(pattern, plain(fresh)):
                return fresh
        ended = self.process.poll()
        raise AssertionError(
            f"{pattern!r} did not appear (exit code {ended}); last: {plain(fresh)[-3000:]}"
        )

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def say_yes(self) -> None:
        """Once the question has stood for a moment."""
        self.read(1.5)
        self.type("y")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        os.close(self.ours)
        os.close(self.theirs)

    def assert_put_back(self) -> None:
        """The cursor, the screen and the keyboard are as they were."""
        self.read(0.3)
        assert self.seen.rstrip().endswith(("\x1b[?25h", "\x1b[?1049l")) or (
            "\x1b[?1049l" in self.seen[-400:] and "\x1b[?25h" in self.seen[-400:]
        )
        assert termios.tcgetattr(self.theirs) == self.before


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.fixture
def terminal(fleet: FleetServer) -> Iterator[Terminal]:
    opened = Terminal(fleet.url)
    yield opened
    opened.close()


def test_a_screen_with_keys(terminal: Terminal) -> None:
    terminal.wait_for(r"▌■ hung")
    assert "\x1b[?1049h" in terminal.seen, "it takes the other screen"
    terminal.type("j")
    terminal.wait_for(r"▌✖ failed")
    terminal.type("\x1b[B\x1b[B\x1b[B\r")
    terminal.wait_for(r"── enrich of orders")
    terminal.type("\r/fraud")
    terminal.wait_for(r"/fraud▏")
    terminal.type("\r")
    terminal.wait_for(r"▌◆ low pressure +fraud")
    terminal.type("\x1b?")
    terminal.wait_for(r"select a query")
    terminal.type("?q")
    assert terminal.process.wait(60) == 0
    terminal.assert_put_back()


def test_a_hung_batch_grows_older(terminal: Terminal) -> None:
    ages = []
    until = time.monotonic() + 60
    while len(set(ages)) < 3 and time.monotonic() < until:
        text = plain(terminal.read(0.5))
        ages += [60 * int(m) + int(s) for m, s in re.findall(r"(\d+)m(\d+)s\+", text)]
    assert len(set(ages)) >= 3
    assert ages == sorted(ages)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_put_the_terminal_back(terminal: Terminal, number: int) -> None:
    terminal.wait_for(r"▌■ hung")
    terminal.process.send_signal(number)
    assert terminal.process.wait(60) == 0
    terminal.assert_put_back()


def test_the_agent_goes_and_comes_back(terminal: Terminal, fleet: FleetServer) -> None:
    terminal.wait_for(r"● live")
    fleet.status = 500
    terminal.wait_for(r"Agent not reachable since \d\d:\d\d:\d\d")
    assert "sessions" in plain(terminal.seen), "the last figures stay"
    terminal.wait_for(r"since \d\d:\d\d:\d\d \((?:[2-9]|\d\d)(?:\.\d)? s\)")
    fleet.status = 200
    terminal.wait_for(r"● live")


def test_a_paused_picture_says_that_the_agent_has_gone(
    terminal: Terminal, fleet: FleetServer
) -> None:
    terminal.wait_for(r"● live")
    terminal.type("p")
    terminal.wait_for(r"paused, [2-9] s old")
    fleet.status = 500
    terminal.wait_for(r"paused, \d+ s old +○ not reachable")
    fleet.status = 200
    terminal.type("p")
    terminal.wait_for(r"● live")


@pytest.mark.parametrize(
    ("body", "headers"),
    [(b"{}", {"content-encoding": "gzip"}), (b'{"queries":' + 100_000 * b"[", {})],
)
def test_an_answer_that_cannot_be_read_is_shown_and_asked_again(
    terminal: Terminal, fleet: FleetServer, body: bytes, headers: dict[str, str]
) -> None:
    terminal.wait_for(r"● live")
    fleet.body, fleet.headers = body, headers
    terminal.wait_for(r"Agent not reachable since \d\d:\d\d:\d\d .*what answers at http")
    fleet.body, fleet.headers = None, {}
    terminal.wait_for(r"● live")


def test_nothing_that_goes_wrong_ends_the_asking(
    fleet: FleetServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AgentClient(ClientSettings(url=fleet.url)) as client, Poller(client, 0.1) as poller:

        def shown(*, lost: bool) -> Snapshot | None:
            latest = poller.latest()
            found = latest is not None and (latest[0].lost_since_time is not None) is lost
            return latest[0] if latest is not None and found else None

        until(lambda: shown(lost=False), "an answer")
        with monkeypatch.context() as broken:
            broken.setattr(client, "queries", lambda **_: {}["gone"])
            assert until(lambda: shown(lost=True), "the fault").problem == "KeyError: 'gone'"
        until(lambda: shown(lost=False), "an answer again")


def test_no_agent_at_all_is_shown_and_tried_again(fleet: FleetServer) -> None:
    fleet.stop()
    terminal = Terminal(fleet.url)
    try:
        terminal.wait_for(r"Agent not reachable since")
        terminal.wait_for(r"No figures yet")
        terminal.type("q")
        assert terminal.process.wait(60) == 0
        terminal.assert_put_back()
    finally:
        terminal.close()


@pytest.mark.parametrize("environment", [{}, {"COLUMNS": "100", "LINES": "30"}])
@pytest.mark.parametrize("signalled", [True, False])
def test_a_narrower_window(
    fleet: FleetServer, environment: dict[str, str], signalled: bool
) -> None:
    terminal = Terminal(fleet.url, **environment)
    try:
        terminal.wait_for(r"▌■ hung")
        fcntl.ioctl(terminal.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        if signalled:
            terminal.process.send_signal(signal.SIGWINCH)
        # A frame that was under way is still as wide as before: the next one is not.
        terminal.wait_for(r"State +Query +Backlog +Batch +Limit *\r?\n")
        terminal.type("q")
        assert terminal.process.wait(60) == 0
        terminal.assert_put_back()
    finally:
        terminal.close()


def test_an_agent_that_hangs_does_not_hold_the_keyboard() -> None:
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        terminal = Terminal(f"http://127.0.0.1:{silent.getsockname()[1]}")
        try:
            terminal.wait_for(r"Asking the agent")
            terminal.type("q")
            assert terminal.process.wait(60) == 0
            terminal.assert_put_back()
        finally:
            terminal.close()


@pytest.mark.parametrize("variable", ["", "FORCE_COLOR", "TTY_COMPATIBLE"])
def test_in_a_pipe_frames_are_plain(fleet: FleetServer, variable: str) -> None:
    """Whatever asks rich to take it for a terminal, as CI's settings do."""
    process = subprocess.Popen(
        [*COMMAND, fleet.url],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        env=os.environ | ({variable: "1"} if variable else {}),
    )
    assert process.stdout is not None
    try:
        text = b""
        while text.count("● live".encode()) < 2:
            text += os.read(process.stdout.fileno(), 65_536)
        assert b"\x1b" not in text
        assert "sessions" in text.decode("utf-8", "replace")
        process.stdout.close()  # as `| head` does
        assert process.wait(60) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(10)


def test_once(fleet: FleetServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    out = io.StringIO()
    assert run_top(ClientSettings(url=fleet.url), once=True, output=out) == 0
    text = out.getvalue()
    assert "\x1b" not in text
    for view in fleet.views:
        assert view.query[:10] in text
    assert "Batch 913 has been running for 4 min 1" in text
    assert "quit" not in text, "no keys where nobody can press one"
    assert max(len(line) for line in text.splitlines()) <= 100
    assert fleet.polls == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_locale_without_its_signs_is_no_reason_to_fail(fleet: FleetServer, encoding: str) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    assert run_top(ClientSettings(url=fleet.url), once=True, output=out) == 0
    out.seek(0)
    assert "? live" in out.read()


def test_once_without_an_agent(fleet: FleetServer) -> None:
    fleet.stop()
    with pytest.raises(AgentUnavailable, match="no agent answers at http://127"):
        run_top(ClientSettings(url=fleet.url), once=True, output=io.StringIO())


@pytest.mark.parametrize("once", [True, False])
def test_a_wrong_token_is_one_clear_line(fleet: FleetServer, once: bool) -> None:
    fleet.status = 401
    with pytest.raises(WrongUse, match="token"):
        run_top(ClientSettings(url=fleet.url), once=once, output=io.StringIO())


def test_a_wrong_refresh(fleet: FleetServer) -> None:
    with pytest.raises(WrongUse, match="refresh"):
        run_top(ClientSettings(url=fleet.url), refresh_seconds=0.0, output=io.StringIO())


def test_with_many_queries_only_the_chosen_one_comes_in_full(fleet: FleetServer) -> None:
    fleet.show(made.many(100))
    with AgentClient(ClientSettings(url=fleet.url)) as client:
        snapshot = fetch(client, known=100, wanted=("application-00", "query-0000"))
        lengths = {view.query: len(view.history) for view in snapshot.views}
        assert lengths.pop("query-0000") == 120
        assert max(lengths.values()) == 24
        gone = fetch(client, known=100, wanted=("application-00", "no such query"))
        assert len(gone.views) == 100
