"""Nothing on the page keeps from reading it who hears, enlarges or types instead of seeing it."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.contrast import contrast, lines, palettes
from tests.page import views as made
from tests.page.test_page import open_query

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.page.conftest import FleetServer, Watched

pytestmark = pytest.mark.browser
#: Of several applications and levels: what is on a page twice must be told apart.
OPENED = ("sessions", "to-warehouse", "slow-state", "fraud")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)], ids=["desk", "phone"])
@pytest.mark.usefixtures("fleet")
def test_axe_finds_nothing(open_page: Callable[..., Watched], width: int, *, dark: bool) -> None:
    """The rules of axe-core: contrast, names, roles, landmarks, order of headings."""
    page = open_page(dark=dark, width=width, still=True).page
    for opened in ((), OPENED):
        for name in opened:
            open_query(page, name)
        finds_nothing(page)


def test_axe_finds_nothing_on_what_is_seldom_there(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    """No query, a query held against what happened, runbooks."""
    fleet.show([])
    page = open_page(still=True).page
    finds_nothing(page)
    fleet.show([made.spiralling(fixed_cost_seconds=2.0, throughput_rows_per_second=40_000.0)])
    page.goto(fleet.url)
    page.wait_for_selector(".query")
    open_query(page, "ranks")
    page.wait_for_selector(".comparison tbody")
    finds_nothing(page)
    for path in ("", "WeirSpiral"):
        page.goto(f"{fleet.url}/runbooks/{path}")
        finds_nothing(page)


def test_lines_of_plots_stand_out_from_their_ground() -> None:
    """3 to 1 by WCAG 2; axe leaves SVG out."""
    style = (files("agent.export.page") / "assets/style.css").read_text("utf-8")
    # Not what only helps the eye, nor wires, beside which all stands in words.
    helps = (".grid", ".floor", ".wire")
    drawn = {line: name for line, name in lines(style).items() if not line.startswith(helps)}
    assert {".target", ".deadline", ".line", ".line.would-be", ".line.credit"} <= set(drawn)
    for palette in palettes(style):
        for selector, name in drawn.items():
            assert contrast(palette[name], palette["sunken"]) >= 3.0, (selector, name)


def finds_nothing(page: Page) -> None:
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    # Of names and roles it says "incomplete" where only some readers tell them.
    doubted = [rule for rule in found.response["incomplete"] if rule["id"].startswith("aria-")]
    assert doubted == []
    assert found.response["passes"], "axe has looked at nothing"
