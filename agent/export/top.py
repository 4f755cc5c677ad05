"""``weir top``: an agent's queries in the terminal, live, worst first.

On a terminal it takes the whole screen and listens to keys; otherwise it prints plain frames.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import time
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec
from rich.console import Console, ConsoleDimensions, Group
from rich.live import Live

from agent.client import AgentClient, WrongUse
from agent.export.terminal.ask import stands
from agent.export.terminal.choose import press
from agent.export.terminal.keys import MARK_NO_PASTES, MARK_PASTES, Keyboard
from agent.export.terminal.orders import Orders, Told
from agent.export.terminal.poll import Poller, fetch
from agent.export.terminal.render import Selection, aged, arrange, lines, render, unit_of
from agent.export.terminal.snapshot import NotAnAgent, Snapshot, read_answer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from agent.client import ClientSettings

__all__ = ["Selection", "Snapshot", "read_answer", "render", "run_top"]

REFRESH_SECONDS: Final = 2.0
_REDRAW_SECONDS: Final = 1.0
_PLAIN_WIDTH: Final = 120
_DETAIL_LINES: Final = 40


def run_top(
    settings: ClientSettings,
    *,
    refresh_seconds: float = REFRESH_SECONDS,
    once: bool = False,
    output: IO[str] | None = None,
) -> int:
    """Shows an agent until the reader quits; returns the exit code, 0.

    With ``once``, prints one frame. Where ``output`` (standard output) is no terminal, prints a
    plain frame every ``refresh_seconds``.

    Raises WrongUse where the settings are wrong or the token is refused, and, with ``once``,
    AgentUnavailable where no agent answers. Otherwise a missing agent is shown, and tried again.
    """
    if not 0.1 <= refresh_seconds <= 3600:
        raise WrongUse(f"the refresh of {refresh_seconds:g} s is not within 0.1 and 3600 seconds")
    file = output or sys.stdout
    if isinstance(file, io.TextIOWrapper):
        file.reconfigure(errors="replace")  # where a locale has no such sign, ? stands for it
    # FORCE_COLOR and TTY_COMPATIBLE would make rich take a pipe or a file for a terminal.
    console = _PipeConsole(
        file=file, highlight=False, force_terminal=None if file and file.isatty() else False
    )
    screen = console.is_terminal and not console.is_dumb_terminal
    with AgentClient(settings) as client:
        try:
            if once:
                try:
                    snapshot = fetch(client)
                except NotAnAgent as error:
                    raise WrongUse(str(error)) from None
                _print(console, snapshot, snapshot.time)
                return 0
            with _quit_on_signals(), Poller(client, refresh_seconds) as poller:
                if screen:
                    return _live(console, poller, Orders(client, poller))
                return _plain(console, poller, refresh_seconds)
        except KeyboardInterrupt:
            return 0
        except BrokenPipeError:  # whoever read the frames has gone, as `| head` does
            _let_go_of(console.file)
            return 0


class _PipeConsole(Console):
    """Leaves it to us what a closed pipe means; rich would exit with 1."""

    @property
    def size(self) -> ConsoleDimensions:
        """The terminal's own size now: an exported COLUMNS would outlive every resize."""
        if self.is_terminal and not self.is_dumb_terminal:
            with contextlib.suppress(OSError, ValueError):
                width, height = os.get_terminal_size(self.file.fileno())
                if width > 0 and height > 0:
                    return ConsoleDimensions(width, height)
        return super().size

    @size.setter
    def size(self, new: tuple[int, int]) -> None:
        self._width, self._height = new

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _let_go_of(output: IO[str]) -> None:
    """Points a broken standard output at nothing, so that closing it at exit is quiet."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, output.fileno())
        os.close(nothing)


def _print(console: Console, snapshot: Snapshot, now: float) -> None:
    """A frame as high as it needs to be, without the line of keys."""
    width = console.width if console.is_terminal else _plain_width(console)
    height = len(snapshot.views) + _DETAIL_LINES
    frame = lines(snapshot, now, Selection(), width, height)[:-1]
    while frame and not frame[-1].plain.strip():
        frame.pop()
    # Rich asks again how wide the terminal is, and would wrap where it finds less.
    console.print(Group(*frame), width=width, no_wrap=True, crop=False, overflow="ignore")
    console.file.flush()


def _plain_width(console: Console) -> int:
    """COLUMNS where it is set, else wide enough for all that matters."""
    columns = console._environ.get("COLUMNS", "")  # noqa: SLF001 - rich's own copy of the environment
    return max(40, int(columns)) if columns.isdigit() and int(columns) else _PLAIN_WIDTH


def _plain(console: Console, poller: Poller, refresh_seconds: float) -> int:
    with Keyboard(stream=object()) as nobody:  # never takes keys from a script's standard input
        while True:
            nobody.wait(refresh_seconds, poller.wake_fd)
            latest = poller.latest()
            if latest is None:
                continue
            _print(console, *latest)
            console.print()
            time.sleep(refresh_seconds)


def _live(console: Console, poller: Poller, orders: Orders) -> int:
    selection = Selection()
    shown: tuple[Snapshot, float] | None = None
    with (
        Keyboard() as keyboard,
        _woken_by_resize(poller),
        _pastes_marked(console),
        Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        while True:
            latest = poller.latest()
            if latest is not None:
                # Without figures there is nothing to pause.
                if selection.paused and shown is not None and shown[0].time > 0:
                    shown = _paused(shown, latest)
                else:
                    shown = latest
            snapshot, now = shown or (Snapshot(time=time.time(), views=[]), time.time())
            listed = [entry.key for entry in arrange(aged(snapshot, now), selection)]
            if selection.key is None and listed and selection.open:
                selection = msgspec.structs.replace(selection, key=listed[0])
            told = orders.take()
            if told is not None:
                selection = msgspec.structs.replace(selection, told=told, paused=False)
            poller.wanted = selection.key or (listed[0] if listed else None)
            width, height = console.size
            if shown is None:
                live.update(Group("", "  Asking the agent."), refresh=True)
            else:
                live.update(Group(*lines(snapshot, now, selection, width, height)), refresh=True)
            if selection.ask is not None:
                asked = stands(selection.ask, time.monotonic())
                selection = msgspec.structs.replace(selection, ask=asked)
            for key in keyboard.wait(_REDRAW_SECONDS, poller.wake_fd):
                after = press(key, selection, listed, time.monotonic())
                if after is None:
                    return 0
                selection = _sent(after, snapshot, orders)
                listed = [entry.key for entry in arrange(snapshot, selection)]
                if selection.ask is not None and selection.ask.sure:
                    break  # nobody has seen this question yet: what was typed before answers none


def _paused(
    shown: tuple[Snapshot, float], latest: tuple[Snapshot, float]
) -> tuple[Snapshot, float]:
    """The picture as it was, with its age and how the connection is now."""
    snapshot, now = shown
    newest, then = latest
    stands = msgspec.structs.replace(
        snapshot,
        lost_since_time=newest.lost_since_time,
        lost_seconds=newest.lost_seconds,
        problem=newest.problem,
        paused_seconds=max(0.0, then - now),
    )
    return stands, now


def _sent(selection: Selection, snapshot: Snapshot, orders: Orders) -> Selection:
    """Sends what was said yes to."""
    ask = selection.send
    if ask is None:
        return selection
    if any(mark in one for one in ask.key for mark in "*?"):  # an order for many, by the agent
        told = Told("its name has * or ?, which in an order stand for others", done=False)
        return msgspec.structs.replace(selection, send=None, told=told)
    orders.send(ask.key, ask.order(unit_of(snapshot, ask.key)))
    return msgspec.structs.replace(selection, send=None)


@contextlib.contextmanager
def _pastes_marked(console: Console) -> Iterator[None]:
    """While it holds, the terminal marks what is pasted, which then are no keys."""
    console.file.write(MARK_PASTES)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone
            console.file.write(MARK_NO_PASTES)
            console.file.flush()


@contextlib.contextmanager
def _woken_by_resize(poller: Poller) -> Iterator[None]:
    """While it holds, a new size of the terminal ends a wait, so that the frame is drawn anew.

    The size itself is asked for with each frame: a signal that is lost costs a second at most.
    """
    number = getattr(signal, "SIGWINCH", None)
    try:
        before = None if number is None else signal.signal(number, lambda *_: poller.wake())
    except ValueError:  # not the main thread
        number = None
    try:
        yield
    finally:
        if number is not None:
            signal.signal(number, before)


class _quit_on_signals:  # noqa: N801 - reads as what it does
    """While it holds, a request to end is an interrupt: the screen is put back first."""

    def __enter__(self) -> None:
        self._before: dict[int, Any] = {}
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is None:
                continue
            try:
                self._before[number] = signal.signal(number, self._interrupt)
            except ValueError:  # not the main thread
                return

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @staticmethod
    def _interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt
