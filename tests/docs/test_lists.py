"""A list within a list is one to both readers of Markdown: the repository's and the site's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "agent/export/runbooks").glob("*.md")),
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    ROOT / "helm/weir/README.md",
]
#: The site's reader takes an item for one of the outer list below four spaces.
TOO_NEAR = re.compile(r" {1,3}(?:[-*+]|\d+\.) ")


def too_near(text: str) -> list[int]:
    """The numbers of lines, from 1, that the site shows in the outer list."""
    fenced, found = False, []
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and TOO_NEAR.match(line):
            found.append(number)
    return found


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("- a\n    - b\n", []),
        ("- a\n  - b\n", [2]),
        ("1. a\n   1. b\n", [2]),
        ("- a\n  and on\n", []),
        ("```\n- a\n  - b\n```\n- c\n  - d\n", [6]),
    ],
)
def test_what_is_too_near(text: str, lines: list[int]) -> None:
    assert too_near(text) == lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_inner_lists_are_indented_by_four(page: Path) -> None:
    assert too_near(page.read_text("utf-8")) == []
