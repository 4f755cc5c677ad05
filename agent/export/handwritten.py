"""Pages of docs that are written by hand but for a table, which is made anew in its place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
_ENDS: Final = "<!-- Written by hand from here on. -->\n"


def with_table(
    page: str,
    written: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    below: str = "",
) -> str:
    """The page with this table in the place of the one behind the line that says how it is written.

    ``below`` is what is said of it, a paragraph.

    Raises ValueError where the lines around the table are missing.
    """
    before, begins, rest = page.partition(f"<!-- Written by {written}. -->\n")
    _, ends, after = rest.partition(_ENDS)
    if not begins or not ends:
        raise ValueError(f"the page has no lines 'Written by {written}' and 'by hand from here on'")
    lines = [_row(header), "|" + "---|" * len(header), *map(_row, rows)]
    lines += ["", below.rstrip()] if below else []
    return f"{before}{begins}\n{chr(10).join(lines)}\n\n{ends}{after}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
