"""docs/commands.md is what the command line says of itself."""

from __future__ import annotations

import re

from scripts import commands
from tests.service.agents import weir


def test_the_page_is_fresh() -> None:
    assert commands.PAGE.read_text("utf-8") == commands.as_markdown(), (
        "docs/commands.md is stale: run python -m scripts.commands"
    )


def test_every_command_that_help_lists_has_its_part_and_its_options() -> None:
    page = commands.as_markdown()
    listed = re.findall(
        r"^  (\w[\w-]*)  ", weir("--help").stdout.split("Commands:")[1], re.MULTILINE
    )
    assert {"agent", "replay", "checkpoint"} <= set(listed)
    for name in listed:
        assert re.search(rf"^## weir {name}\b", page, re.MULTILINE), name
    part = page.split("\n## weir replay\n")[1].split("\n## ")[0]
    for option in re.findall(r"^  (--[\w-]+)", weir("replay", "--help").stdout, re.MULTILINE):
        assert f"`{option}" in part or option == "--help", option


def test_commands_that_ask_an_agent_find_it_as_the_page_says() -> None:
    begin, *parts = commands.as_markdown().split("\n## ")
    asking = [part for part in parts if "--url" in part]
    assert len(asking) > 5
    for part in asking:
        name = part.partition("\n")[0]
        assert ("env var: WEIR_AGENT_URL" in part) != (f"`{name}`" in begin), name
