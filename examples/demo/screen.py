"""How the demo shows what is going on: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from agent.export.top import Selection, read_answer, render

if TYPE_CHECKING:
    from typing_extensions import Self

    from examples.demo.watch import Watched

PLAIN_EVERY_SECONDS = 3.0


class Screen(Protocol):
    """Say a thing once; begin a half; show how it goes."""

    def say(self, text: str) -> None:
        """One line that stays."""

    def half(self, title: str, explanation: str, seconds: float) -> None:
        """What begins now, in plain words."""

    def show(self, watched: Watched) -> None:
        """The query as the agent sees it."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


class Plain:
    """Lines, for a log or a pipe."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = self._next = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def say(self, text: str) -> None:
        """One line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def half(self, title: str, explanation: str, seconds: float) -> None:
        """A heading and its explanation."""
        self.say(f"\n{title} ({seconds:.0f} s)\n{explanation}")
        self._began = self._next = time.monotonic()

    def show(self, watched: Watched) -> None:
        """A line every few seconds."""
        now = time.monotonic()
        if now < self._next or watched.view is None:
            return
        self._next = now + PLAIN_EVERY_SECONDS
        self.say(f"  {now - self._began:4.0f} s  {line(watched.view)}")


class Terminal:
    """`weir top` under a banner that says what is happening."""

    def __init__(self, console: Console, page_url: str) -> None:
        self._console = console
        self._page_url = page_url
        self._live: Live | None = None
        self._title = self._explanation = ""
        self._began = self._seconds = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def say(self, text: str) -> None:
        """One line, above the live view while there is one."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def half(self, title: str, explanation: str, seconds: float) -> None:
        """A new banner."""
        self._title, self._explanation, self._seconds = title, explanation, seconds
        self._began = time.monotonic()
        if self._live is None:
            self._live = Live(console=self._console, screen=True, auto_refresh=False)
            self._live.start()

    def show(self, watched: Watched) -> None:
        """Draw anew."""
        if self._live is None:
            return
        passed = time.monotonic() - self._began
        left = max(self._seconds - passed, 0.0)
        banner = Panel(
            Group(
                Text(self._explanation),
                Text(f"{left:.0f} s to go · the same in a browser: {self._page_url}", style="dim"),
            ),
            title=self._title,
            title_align="left",
        )
        width, height = self._console.size
        above = len(self._console.render_lines(banner))
        parts: list[Any] = [banner]
        if watched.answer is not None:
            snapshot = read_answer(watched.answer, url=self._page_url)
            room = max(height - above, 5)
            frame = render(snapshot, time.time(), Selection(), width, room + 1)
            # Its last line tells the keys of `weir top`, which nobody listens to here.
            parts += frame.renderables[:-1] if isinstance(frame, Group) else [frame]
        self._live.update(Group(*parts), refresh=True)

    def _end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def line(view: dict[str, Any]) -> str:
    """The query in one line of text."""
    parts = []
    if view["running_seconds"] is not None:
        parts.append(f"batch {view['running_batch_id']} runs for {view['running_seconds']:.1f} s")
    elif view["batch_seconds"] is not None:
        parts.append(f"last batch {view['batch_seconds']:.1f} s, {view['batch_rows']:,} rows")
    backlog = view["backlog_rows"]
    parts.append("waiting unknown" if backlog is None else f"waiting {backlog:,.0f} rows")
    limit = view["limit"]
    shown = "everything" if limit["current"] is None else f"{limit['current']:,} {limit['unit']}"
    parts.append(f"a batch may take {shown}")
    if limit["current"] != limit["next"] and limit["next"] is not None:
        parts.append(f"Weir wants {limit['next']:,}")
    parts.append(limit["reason"])
    return " · ".join(parts)


def screen_for(console: Console, page_url: str) -> Plain | Terminal:
    """The live view where there is a terminal of some size."""
    if console.is_terminal and console.size.width >= 60 and console.size.height >= 16:
        return Terminal(console, page_url)
    return Plain(console)
