"""The command ``weir savepoint``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent.checkpoint.commands import counting, print_json
from agent.checkpoint.folder import CheckpointError, local_path, open_folder, reported
from agent.checkpoint.render import output, show_rollback, show_savepoint
from agent.checkpoint.report import SavepointReport
from agent.checkpoint.savepoint import read_manifest, take_savepoint
from agent.checkpoint.sink import advise_rollback

if TYPE_CHECKING:
    from pathlib import Path


def savepoint(
    address: str,
    destination: str | None,
    *,
    rollback_sink: str | None,
    as_json: bool,
    quiet: bool = False,
) -> int:
    """Takes a savepoint and tells how to restore it. Raises CheckpointError.

    Without a destination ``address`` is a savepoint, and only what to roll back is told. The exit
    code is 1 where the sink cannot be rolled back, though the savepoint is taken.
    """
    if destination is None:
        return _rollback(address, rollback_sink, as_json=as_json)
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
    return 0 if report.rollback is None or report.rollback.possible else 1


def _rollback(address: str, rollback_sink: str | None, *, as_json: bool) -> int:
    if rollback_sink is None:
        raise CheckpointError(
            f"{address}: where to? DEST is missing; without it a savepoint's folder and"
            " --rollback-sink DIR are needed"
        )
    root = local_path(address)
    if root is None:
        raise CheckpointError(f"{address}: a savepoint is in a local or mounted folder")
    manifest = read_manifest(root)
    advice = advise_rollback(_sink_path(rollback_sink), manifest.batch_id)
    if as_json:
        print_json(advice)
    else:
        show_rollback(output(), advice)
    return 0 if advice.possible else 1


def _sink_path(address: str) -> Path:
    path = local_path(address)
    if path is None or not path.is_dir():
        raise CheckpointError(f"--rollback-sink {address}: not a local folder")
    return path
