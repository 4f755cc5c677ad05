"""The commands on checkpoints, as the command line calls them: text or JSON out, a code back.

Codes: 0 done; 1 the check found something, or it was refused; 2 wrong usage or input, raised as
CheckpointError.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console

from agent.checkpoint.folder import open_folder, reported
from agent.checkpoint.layout import read_checkpoint
from agent.checkpoint.render import output, show_report
from agent.checkpoint.report import build_report
from agent.checkpoint.soundness import judge
from agent.checkpoint.state_rows import count_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def inspect(
    address: str, *, as_json: bool, deep: bool, state_rows: bool = False, quiet: bool = False
) -> int:
    """Prints what a checkpoint holds and whether it is sound. Raises CheckpointError.

    ``state_rows``: Spark is started to count the rows of each partition of the state.
    """
    folder = open_folder(address)
    with counting(quiet=quiet) as count, reported(address):
        checkpoint = read_checkpoint(folder, count)
        soundness = judge(checkpoint, folder, deep=deep)
    rows = count_rows(address) if state_rows and soundness.stores else None
    report = build_report(checkpoint, soundness, rows)
    if as_json:
        print_json(report)
    else:
        show_report(output(), report)
    return 0 if report.sound else 1


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


@contextmanager
def counting(*, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A counter of files on a terminal's standard error; silent elsewhere, or if so told."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("reading"), BarColumn(), TextColumn("{task.completed:,} files"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda found: progress.update(task, completed=found)
