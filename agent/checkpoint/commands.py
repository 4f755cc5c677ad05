"""The commands on checkpoints, as the command line calls them: text or JSON out, a code back.

Codes: 0 done; 1 the check found something, or it was refused; 2 wrong usage or input, raised as
CheckpointError.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
from rich.console import Console

from agent.checkpoint.folder import open_folder, reported
from agent.checkpoint.layout import Checkpoint, read_checkpoint
from agent.checkpoint.render import output, show_report
from agent.checkpoint.report import build_report
from agent.checkpoint.soundness import Soundness, judge
from agent.checkpoint.state_rows import count_rows
from agent.files import write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.checkpoint.folder import Folder

#: Looks at a checkpoint that moves on: one to see it, one to see that it moves, and one more for a
#: batch that ends in between.
LOOKS: Final = 3


def inspect(
    address: str, *, as_json: bool, deep: bool, state_rows: bool = False, quiet: bool = False
) -> int:
    """Prints what a checkpoint holds and whether it is sound. Raises CheckpointError.

    ``state_rows``: Spark is started to count the rows of each partition of the state.
    """
    folder = open_folder(address)
    with counting(quiet=quiet) as count, reported(address):
        checkpoint, soundness = look(folder, count, deep=deep)
    rows = count_rows(address) if state_rows and soundness.stores else None
    report = build_report(checkpoint, soundness, rows)
    if as_json:
        print_json(report)
    else:
        show_report(output(), report)
    return 0 if report.sound else 1


def look(
    folder: Folder, on_count: Callable[[int], None] | None = None, *, deep: bool = False
) -> tuple[Checkpoint, Soundness]:
    """Reads and judges a checkpoint, again where it is not sound and changed while it was read.

    A query at work goes on between the listing of two folders, so one look may see what no restart
    would. What is sound in one look was there at its newest commit.
    """
    before: tuple[int, float, int] | None = None
    for _ in range(LOOKS):
        checkpoint = read_checkpoint(folder, on_count)
        soundness = judge(checkpoint, folder, deep=deep)
        layout = checkpoint.layout
        now = (layout.latest_commit, layout.newest, layout.count)
        if soundness.sound or now == before:
            break
        before = now
    return checkpoint, soundness


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    write_json(msgspec.json.format(msgspec.json.encode(value), indent=2))


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
