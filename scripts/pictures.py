"""Makes the README's pictures of a running agent: the status page and the terminal view.

``python scripts/pictures.py URL [FOLDER]`` writes status-page.png, status-page-dark.png,
status-page-phone.png and top.svg to docs/images. Needs a Chromium: the one at CHROMIUM or on PATH,
else Playwright's own.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import sync_playwright
from rich.console import Console

from agent.client import AgentClient, ClientSettings
from agent.export.terminal.poll import fetch
from agent.export.terminal.render import Selection, render

FOLDER: Final = Path(__file__).parents[1] / "docs" / "images"
MOST_BYTES: Final = 300_000
TERMINAL: Final = (120, 34)
# name, width, height, scale, dark
PAGES: Final = (
    ("status-page", 1280, 860, 1, False),
    ("status-page-dark", 1280, 860, 1, True),
    ("status-page-phone", 390, 844, 1.5, False),
)


def main() -> int:
    """Writes all pictures; 2 where no agent is named."""
    if len(sys.argv) not in (2, 3) or not sys.argv[1].startswith(("http://", "https://")):
        sys.stderr.write("usage: python scripts/pictures.py URL [FOLDER]\n")
        return 2
    url = sys.argv[1].rstrip("/")
    folder = Path(sys.argv[2]) if len(sys.argv) == 3 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    made = [*_pages(url, folder), _top(url, folder)]
    for file in made:
        size = file.stat().st_size
        sys.stdout.write(f"{file} {size} bytes\n")
        if size > MOST_BYTES:
            sys.stderr.write(f"{file} is larger than {MOST_BYTES} bytes\n")
            return 1
    return 0


def _pages(url: str, folder: Path) -> list[Path]:
    chromium = (
        os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    made = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, width, height, scale, dark in PAGES:
            context = browser.new_context(
                viewport={"width": width, "height": height},
                device_scale_factor=scale,
                color_scheme="dark" if dark else "light",
                reduced_motion="reduce",
            )
            page = context.new_page()
            page.goto(url + "/")
            page.wait_for_selector(".query .plot, .empty")
            page.wait_for_timeout(2_500)  # so that the whole history has come
            file = folder / f"{name}.png"
            page.screenshot(path=file)
            made.append(file)
            context.close()
        browser.close()
    return made


def _top(url: str, folder: Path) -> Path:
    width, height = TERMINAL
    with AgentClient(ClientSettings(url=url)) as client:
        snapshot = fetch(client)
    with Path(os.devnull).open("w") as nowhere:
        console: Any = Console(
            record=True, width=width, height=height, file=nowhere, force_terminal=True
        )
        console.print(render(snapshot, snapshot.time, Selection(), width, height))
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
