"""Nothing on the page overlaps, is cut off or leaves the window, whatever fonts there are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lacking import lacking
from tests.page import views as made
from tests.page.conftest import chromium
from tests.page.test_page import open_query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page, Playwright

    from tests.page.conftest import FleetServer, Watched

pytestmark = pytest.mark.browser
SWEEP = pytest.mark.slow("more of the same: a phone and a desk with the wide font come every time")

#: Narrow letters and wide ones; what a machine has lies between, or is one of them.
FONTS = {"Liberation Sans": "LiberationSans-Regular.ttf", "DejaVu Sans": "DejaVuSans.ttf"}
#: Where a machine keeps its fonts.
FOLDERS = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"))
#: Only these fonts; without a word of what "sans-serif" is: the browser takes what there is.
FONTCONFIG = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>
"""
#: Pixels of a window, and how much it is magnified: 640 at 2 is one of 1280 at 200 %.
WINDOWS = [
    (360, 1),
    (1280, 1),
    *(pytest.param(*w, marks=SWEEP) for w in ((640, 2), (768, 1), (1024, 1), (1600, 1))),
]
#: Those with most to show, of every level.
OPENED = ("sessions", "to-warehouse", "ranks", "enrich", "loads", "slow-state", "fraud", "nightly")

FAULTS = """() => {
  const faults = [];
  const said = (node) =>
    `${node.className?.baseVal ?? node.className}: ${node.textContent.trim().slice(0, 60)}`;
  const drawn = (node) => node.checkVisibility() && !node.closest('.unseen, noscript, script');
  if (document.documentElement.scrollWidth > innerWidth)
    faults.push(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const node of document.querySelectorAll('body *')) {
    if (!drawn(node)) continue;
    const box = node.getBoundingClientRect();
    const style = getComputedStyle(node);
    const slides = node.parentElement.closest('.levels, pre'); // these scroll by themselves
    if (box.width > 0 && !slides && (box.right > innerWidth + 1 || box.left < -1)
        && style.position !== 'absolute')
      faults.push(`outside the window: ${said(node)}`);
    if (node instanceof SVGElement) continue;
    const cut = style.overflowX === 'hidden' || style.overflowX === 'clip';
    const dots = style.textOverflow === 'ellipsis';
    const wide = node.scrollWidth > node.clientWidth + 1;
    if (!node.textContent.trim()) continue; // a bar
    if (cut && wide && !dots) faults.push(`cut off at the side: ${said(node)}`);
    if (cut && node.scrollHeight > node.clientHeight + 2 && node.clientHeight > 0)
      faults.push(`cut off below: ${said(node)}`);
    // A name may end in dots, it is told in full elsewhere; half a figure is another figure.
    if (wide && dots && node.matches('.cell, .cell *, .plot-now, .box-line, .tick, dd'))
      faults.push(`half a figure: ${said(node)}`);
  }
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    if (!text.data.trim() || !drawn(text.parentElement)) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    for (const rect of range.getClientRects()) {
      // The letters: a font's box may be higher than its line.
      let [left, right] = [rect.left, rect.right];
      let [top, bottom] = [rect.top + 0.25 * rect.height, rect.bottom - 0.25 * rect.height];
      for (let at = text.parentElement; at; at = at.parentElement) {
        if (getComputedStyle(at).overflowX === 'visible') continue;
        const box = at.getBoundingClientRect();
        [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
        [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
      }
      if (right - left > 1 && bottom - top > 1) texts.push({ text, left, right, top, bottom });
    }
  }
  // Head and list, of which one slides under the other.
  const part = ({ text }) => text.parentElement.closest('#head, main');
  texts.sort((one, other) => one.top - other.top);
  texts.forEach((one, n) => {
    for (let m = n + 1; m < texts.length && texts[m].top < one.bottom - 1; m += 1) {
      const other = texts[m];
      if (one.text === other.text || part(one) !== part(other)) continue;
      if (Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1.5)
        faults.push(`"${one.text.data.slice(0, 40)}" over "${other.text.data.slice(0, 40)}"`);
    }
  });
  return { faults, texts: texts.length };
}"""


def folder_of(font: str) -> Path | None:
    found = (path for folder in FOLDERS for path in folder.rglob(FONTS[font]))
    return next((path.parent for path in found), None)


@pytest.fixture(
    scope="module", params=["DejaVu Sans", pytest.param("Liberation Sans", marks=SWEEP)]
)
def font(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if folder_of(name) is None:
        lacking(f"the font {name} is missing: sh scripts/ensure-tools.sh")
    return name


@pytest.fixture(scope="module")
def browser(
    font: str, playwright: Playwright, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    """A browser that has this font alone, beside others of its family."""
    work = tmp_path_factory.mktemp("fonts")
    config = work / "fonts.conf"
    config.write_text(FONTCONFIG.format(fonts=folder_of(font), cache=work / "cache"))
    running = chromium(playwright, {"FONTCONFIG_FILE": str(config)})
    yield running
    running.close()


def fonts_of(page: Page, selector: str) -> set[str]:
    """What the text of a node is drawn with."""
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    root = session.send("DOM.getDocument")["root"]["nodeId"]
    node = session.send("DOM.querySelector", {"nodeId": root, "selector": selector})["nodeId"]
    found = session.send("CSS.getPlatformFontsForNode", {"nodeId": node})
    return {one["familyName"] for one in found["fonts"]}


@pytest.mark.parametrize(("width", "magnified"), WINDOWS)
def test_nothing_overlaps_is_cut_off_or_leaves_the_window(
    open_page: Callable[..., Watched], fleet: FleetServer, font: str, width: int, magnified: int
) -> None:
    fleet.show([*made.everything(), made.spiralling(), made.dry_run()])
    watched = open_page(width=width, height=9000, phone=width < 500, magnified=magnified)
    page = watched.page
    for name in OPENED:
        open_query(page, name)
    assert fonts_of(page, ".query-name") == {font}
    found: dict[str, Any] = page.evaluate(FAULTS)
    assert found["texts"] > 400
    assert found["faults"] == [], "\n".join(found["faults"])
    watched.assert_clean(fleet.url)
