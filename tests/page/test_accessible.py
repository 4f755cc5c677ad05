"""Nothing on the page keeps from reading it who hears, enlarges or types instead of seeing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.page.test_page import open_query

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.page.conftest import Watched

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
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert found.response["passes"], "axe has looked at nothing"
