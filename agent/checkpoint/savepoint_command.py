"""The command ``weir savepoint``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent.checkpoint.commands import counting, print_json
from agent.checkpoint.folder import CheckpointError, local_path, open_folder, reported
from agent.checkpoint.render import output, show_savepoint
from agent.checkpoint.report import SavepointReport
from agent.checkpoint.savepoint import take_savepoint
from agent.checkpoint.sink import advise_rollback

if TYPE_CHECKING:
    from pathlib import Path


def savepoint(
    address: str, destination: str, *, rollback_sink: str | None, as_json: bool, quiet: bool = False
) -> int:
    """Takes a savepoint and tells how to restore it. Raises CheckpointError."""
    folder = open_folder(address)
    target = local_path(destination)
    if target is None:
        raise CheckpointError(f"{destination}: a savepoint is written to a local or mounted folder")
    target = target.absolute()
    source = local_path(address)
    if source is not None and (target.parent.resolve() / target.name).is_relative_to(
        source.resolve()
    ):
        raise CheckpointError(f"{destination}: lies inside the checkpoint itself")
    sink = None if rollback_sink is None else _sink_path(rollback_sink)
    steps = 0

    with counting(quiet=quiet) as count, reported(address):

        def step(_: str) -> None:
            nonlocal steps
            steps += 1
            count(steps)

        manifest = take_savepoint(folder, target, now=time.time, sleep=time.sleep, on_step=step)
    report = SavepointReport(
        destination=str(target),
        manifest=manifest,
        rollback=None if sink is None else advise_rollback(sink, manifest.batch_id),
    )
    if as_json:
        print_json(report)
    else:
        show_savepoint(output(), report)
    return 0


def _sink_path(address: str) -> Path:
    path = local_path(address)
    if path is None or not path.is_dir():
        raise CheckpointError(f"--rollback-sink {address}: not a local folder")
    return path
