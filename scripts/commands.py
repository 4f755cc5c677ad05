"""docs/commands.md, from the command line itself: ``python -m scripts.commands`` renews it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import typer

from agent.cli import app
from agent.export.handwritten import DOCS

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = DOCS / "commands.md"
_PREAMBLE: Final = """\
# Commands

<!-- Written by `python -m scripts.commands`, from the command line itself. -->

`weir COMMAND --help` says the same. Commands that need an agent find it by `--url` or
`WEIR_AGENT_URL`; `weir rescue` and `weir checkpoint audit` do without one, and ask only one that
`--agent` names. Every option of `weir agent` is a key of its [configuration](configuration.md).
"""


def as_markdown() -> str:
    """Every command with its arguments and options, in the order of ``weir --help``."""
    lines = _PREAMBLE.splitlines()
    for name, command in _commands("weir", typer.main.get_command(app)):
        context = command.make_context(name, [], resilient_parsing=True)
        usage = " ".join([name, *command.collect_usage_pieces(context)])
        help_text = inspect.cleandoc(command.help or "")
        lines += ["", f"## {name}", "", help_text, "", "```sh", usage, "```"]
        rows = [_row(param, context) for param in command.get_params(context)]
        told = [row for row in rows if row is not None and "--help" not in row]
        if told:
            lines += ["", "| | |", "|---|---|", *told]
    return "\n".join(lines) + "\n"


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """(what one types, the command) of all that are no groups, and are shown."""
    if command.hidden:
        return
    if not hasattr(command, "commands"):
        yield name, command
        return
    for word, one in command.commands.items():
        yield from _commands(f"{name} {word}", one)


def _row(param: Any, context: Any) -> str | None:
    record = param.get_help_record(context)
    if record is None:
        return None
    # A bar would end a cell, and what is text is told by its name.
    written, said = (one.replace(" <str>", "").replace("|", " or ") for one in record)
    return f"| `{written}` | {said} |"


if __name__ == "__main__":
    PAGE.write_text(as_markdown(), encoding="utf-8")
