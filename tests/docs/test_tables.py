"""A table is one to who reads Markdown: its head, and under it what makes a table of the lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.test_lists import PAGES, ROOT

if TYPE_CHECKING:
    from pathlib import Path

#: Under the head.
RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")


def headless(text: str) -> list[int]:
    """The numbers of lines, from 1, at which rows begin without a head over them."""
    fenced, before, found = False, False, []
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        row = not fenced and line.lstrip().startswith("|")
        if row and not before and not (number < len(lines) and RULE.fullmatch(lines[number])):
            found.append(number)
        before = row
    return found


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("| a | b |\n|---|---|\n| c | d |\n", []),
        ("| | |\n|:--|--:|\n| c | d |\n\n| e | f |\n", [5]),
        ("```\n| a |\n```\n", []),
    ],
)
def test_what_has_no_head(text: str, lines: list[int]) -> None:
    assert headless(text) == lines


@pytest.mark.parametrize(
    "page",
    [*PAGES, *sorted((ROOT / "examples").rglob("README.md"))],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_every_row_stands_under_a_head(page: Path) -> None:
    assert headless(page.read_text("utf-8")) == []
