"""Makes the README's pictures of a running agent: the status page and the terminal view.

``python scripts/pictures.py URL [FOLDER]`` waits until a query works off a burst, then writes
status-page.png, status-page-dark.png, status-page-phone.png and top.svg to docs/images. For the
demo's agent (``make demo KEEP=1``), whose bursts come by themselves. Needs a Chromium: the one at
CHROMIUM or on PATH, else Playwright's own.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import sync_playwright
from rich.console import Console, Group

from agent.client import AgentClient, ClientSettings
from agent.export.terminal.poll import fetch
from agent.export.terminal.render import Selection, lines

if TYPE_CHECKING:
    from agent.export.terminal.snapshot import Snapshot

FOLDER: Final = Path(__file__).parents[1] / "docs" / "images"
MOST_BYTES: Final = 300_000
TERMINAL: Final = (120, 40)
BURST_BATCHES: Final = 4  # that the limit held back, one after the other
BURST_SECONDS: Final = 300.0
# name, width, scale, dark, what the picture ends with
PAGES: Final = (
    ("status-page", 1280, 1, False, ".panels"),
    ("status-page-dark", 1280, 1, True, ".panels"),
    ("status-page-phone", 390, 1.5, False, '[data-plot="backlog"]'),
)


def main() -> int:
    """Writes all pictures; 2 where no agent is named."""
    if len(sys.argv) not in (2, 3) or not sys.argv[1].startswith(("http://", "https://")):
        sys.stderr.write("usage: python scripts/pictures.py URL [FOLDER]\n")
        return 2
    url = sys.argv[1].rstrip("/")
    folder = Path(sys.argv[2]) if len(sys.argv) == 3 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    made = _pictures(url, folder)
    for file in made:
        size = file.stat().st_size
        sys.stdout.write(f"{file} {size} bytes\n")
        if size > MOST_BYTES:
            sys.stderr.write(f"{file} is larger than {MOST_BYTES} bytes\n")
            return 1
    return 0


def _pictures(url: str, folder: Path) -> list[Path]:
    """All of them within one burst: the pages are open before it comes."""
    chromium = (
        os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    with sync_playwright() as playwright, AgentClient(ClientSettings(url=url)) as client:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        pages = []
        for name, width, scale, dark, last in PAGES:
            context = browser.new_context(
                viewport={"width": width, "height": 1600},
                device_scale_factor=scale,
                color_scheme="dark" if dark else "light",
                reduced_motion="reduce",
            )
            page = context.new_page()
            page.goto(url + "/")
            page.wait_for_selector(".query .plot, .empty")
            pages.append((folder / f"{name}.png", page, width, last))
        snapshot = _burst(client)
        made = [_top(snapshot, url, folder)]
        for file, page, width, last in pages:
            # As of the same moment, and whole lines: down to the end of a section.
            page.wait_for_function("time => window.performance.now() > time", arg=3_000)
            bottom = page.evaluate(
                "last => { const all = [...document.querySelectorAll(last)];"
                " return all.length ? all[0].getBoundingClientRect().bottom + 16 : innerHeight; }",
                last,
            )
            page.screenshot(path=file, clip={"x": 0, "y": 0, "width": width, "height": bottom})
            made.append(file)
        browser.close()
    return made


def _burst(client: AgentClient) -> Snapshot:
    """Waits until a query works off a burst under its limit, some batches long."""
    until = time.monotonic() + BURST_SECONDS
    while True:
        snapshot = fetch(client)
        for view in snapshot.views:
            last = view.history[-BURST_BATCHES:]
            limited = len(last) == BURST_BATCHES and all(point.limited for point in last)
            waiting = [point.backlog_rows or 0.0 for point in last]
            drains = limited and waiting[-1] < waiting[0]
            if view.mode == "on" and drains and waiting[-1] > 0:
                return snapshot
        if time.monotonic() > until:
            sys.stderr.write("no burst came: the pictures show the query as it is\n")
            return snapshot
        time.sleep(0.3)


def _top(snapshot: Snapshot, url: str, folder: Path) -> Path:
    width, height = TERMINAL
    frame = lines(snapshot, snapshot.time, Selection(), width, height)
    while len(frame) > 2 and not frame[-2].plain.strip():  # what is left between text and keys
        del frame[-2]
    with Path(os.devnull).open("w") as nowhere:
        console: Any = Console(
            record=True, width=width, height=len(frame), file=nowhere, force_terminal=True
        )
        console.print(Group(*frame))
        file = folder / "top.svg"
        svg = console.export_svg(title="weir top")
    # Rich's frame asks a foreign server for its font: the reader's own will do.
    svg = re.sub(r"@font-face\s*\{[^}]*\}", "", svg)
    svg = svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    if "http://" in svg.replace("http://www.w3.org/2000/svg", "").replace(url, ""):
        raise ValueError("the picture names a foreign address")
    file.write_text(svg, "utf-8")
    return file


if __name__ == "__main__":
    sys.exit(main())
