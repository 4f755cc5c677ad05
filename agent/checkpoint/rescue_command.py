"""The command ``weir rescue``: dry run, apply, undo."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from agent.checkpoint import journal
from agent.checkpoint.commands import counting, print_json
from agent.checkpoint.folder import CheckpointError, local_path, open_folder, reported
from agent.checkpoint.layout import Checkpoint, read_checkpoint
from agent.checkpoint.limit import advise
from agent.checkpoint.render import output, show_rescue, show_undo
from agent.checkpoint.report import RescueReport, UndoReport
from agent.checkpoint.rescue import UNCHANGED_SECONDS, plan_rescue, refuse_if_held
from agent.checkpoint.sink import SinkKind, SinkVerdict, judge_sink, recognise
from agent.checkpoint.soundness import batch_begun, gone_on, judge, open_batches, stands_as_copied
from agent.checkpoint.watched import Watched, ask
from agent.client import ClientSettings
from agent.core.judgement import Finding

if TYPE_CHECKING:
    from pathlib import Path


class RescueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``weir rescue``."""

    apply: bool = False
    undo: bool = False
    sink: SinkKind = "unknown"
    sink_path: str | None = None
    accept_duplicates: bool = False
    unchanged_seconds: float = UNCHANGED_SECONDS
    deadline_seconds: float | None = None
    agent: ClientSettings | None = None
    as_json: bool = False
    quiet: bool = False


def rescue(address: str, options: RescueOptions) -> int:
    """Plans a rescue, and makes or undoes it where asked. Raises CheckpointError."""
    root = _local(address)
    if options.apply and options.undo:
        raise CheckpointError("--apply and --undo exclude each other")
    return _undo(root, address, options) if options.undo else _rescue(root, address, options)


def _rescue(root: Path, address: str, options: RescueOptions) -> int:
    _, report = _planned(root, address, options)
    if options.apply and report.plan.moves and not report.plan.refusals:
        # The lock is a file, and where nothing is to be done nothing is touched. Another may have
        # been at work until it was held: what it left is looked at anew.
        with journal.locked(root):
            report = _applied(root, *_planned(root, address, options), options)
    if options.as_json:
        print_json(report)
    else:
        show_rescue(output(), report)
    return 1 if report.plan.refusals else 0


def _planned(root: Path, address: str, options: RescueOptions) -> tuple[Checkpoint, RescueReport]:
    folder = open_folder(address)
    with counting(quiet=options.quiet) as count, reported(address):
        checkpoint = read_checkpoint(folder, count)
        soundness = judge(checkpoint, folder)
    watched, held_by = _watched(options.agent, checkpoint)
    if committed := gone_on(checkpoint, folder):
        held_by.append(f"{committed} was written while the folder was read: a query runs on it")
    opened, begun = open_batches(checkpoint), batch_begun(checkpoint)
    copied = stands_as_copied(checkpoint, folder)
    if begun is None and copied:
        begun = checkpoint.layout.latest_finished + 1  # what a savepoint has left out
    plan = plan_rescue(
        checkpoint,
        soundness,
        sink=_sink(options, watched, checkpoint, begun),
        accept_duplicates=options.accept_duplicates,
        held_by=held_by,
        state_folder=(root / "state").is_dir(),
        copied=copied,
        now=time.time(),
        unchanged_seconds=options.unchanged_seconds,
    )
    deadline = options.deadline_seconds
    if deadline is None and watched is not None:
        deadline = watched.deadline_seconds
    limits = advise(
        checkpoint,
        folder,
        open_batch=opened[-1] if opened else None,
        deadline_seconds=deadline,
        watched=watched,
    )
    return checkpoint, RescueReport(plan=plan, applied=False, moved_to=None, limits=limits)


def _applied(
    root: Path, checkpoint: Checkpoint, report: RescueReport, options: RescueOptions
) -> RescueReport:
    """What was planned, made; only while the checkpoint is locked."""
    plan = report.plan
    if plan.moves and not plan.refusals:
        refusals = _held_by_its_own_clock(root, checkpoint, options)
        plan = msgspec.structs.replace(plan, refusals=refusals)
    if not plan.moves or plan.refusals:
        return msgspec.structs.replace(report, plan=plan)
    with reported(str(root)):
        journal.sweep(root)
        unfinished = [
            found for found in journal.find_rescues(root) if found.waiting and found.moved
        ]
    if unfinished and unfinished[-1].waiting == plan.moves:
        journal.resume(root, unfinished[-1])
        moved_to = unfinished[-1].folder
    else:
        moved_to = journal.apply_plan(root, plan, now=time.time())
    return msgspec.structs.replace(report, plan=plan, applied=True, moved_to=moved_to)


def _undo(root: Path, address: str, options: RescueOptions) -> int:
    folder = open_folder(address)
    with counting(quiet=options.quiet) as count, reported(address):
        name = read_checkpoint(folder, count).name
        left = journal.left_by_rescues(root)
    report = UndoReport(checkpoint=name, undone=False, moved_from=None, moved=[], refusals=[])
    if left:
        with journal.locked(root):
            report = _undone(root, address, options)
    if options.as_json:
        print_json(report)
    else:
        show_undo(output(), report)
    return 1 if report.refusals else 0


def _undone(root: Path, address: str, options: RescueOptions) -> UndoReport:
    """The newest rescue, taken back where it can be; only while the checkpoint is locked."""
    folder = open_folder(address)
    with counting(quiet=options.quiet) as count, reported(address):
        checkpoint = read_checkpoint(folder, count)
    with reported(address):
        journal.sweep(root)
        rescues = journal.find_rescues(root)
        newest = rescues[-1] if rescues else None
        torn = [] if newest is None else journal.torn(root, newest)
    refusals = [] if newest is None else _against_undo(checkpoint, newest, torn, options)
    if newest is not None and not refusals:
        refusals = _held_by_its_own_clock(root, checkpoint, options)
    undone = newest is not None and not refusals
    if newest is not None and undone:
        journal.undo(root, newest)
    return UndoReport(
        checkpoint=checkpoint.name,
        undone=undone,
        moved_from=None if newest is None else newest.folder,
        moved=[move.path for move in newest.moved] if newest is not None and undone else [],
        refusals=refusals,
    )


def _against_undo(
    checkpoint: Checkpoint, newest: journal.Rescue, torn: list[str], options: RescueOptions
) -> list[Finding]:
    """Why the newest rescue cannot be taken back; ``torn`` is in place only in part."""
    layout = checkpoint.layout
    _, held_by = _watched(options.agent, checkpoint)
    refusals = refuse_if_held(
        layout.newest, held_by, now=time.time(), unchanged_seconds=options.unchanged_seconds
    )
    gone_on = max(layout.latest_offset, layout.latest_commit)
    # Aside, or aside and planned anew: what a killed move has left in place is not.
    offsets_aside = all(
        move in newest.moved or (move.path in newest.conflicts and move.path not in torn)
        for move in newest.journal.moves
        if move.group == "offsets"
    )
    base = newest.journal.base_batch
    has_gone_on = layout.latest_commit > base or (gone_on > base and offsets_aside)
    # What is aside may be all that is whole, also where a machine died and left zeros in place.
    needed = torn or (newest.conflicts and layout.latest_offset not in checkpoint.offsets)
    if has_gone_on and not needed:
        batch = newest.conflicts[0] if newest.conflicts else f"batch {gone_on} is planned"
        refusals.append(
            Finding(
                check="rescue_gone_on",
                severity="error",
                evidence=f"the query has gone on since {newest.folder}: {batch}",
                remedy="it cannot be undone any more; its files may be removed",
            )
        )
    elif newest.conflicts:
        refusals.append(
            Finding(
                check="rescue_gone_on",
                severity="error",
                evidence=f"{(torn or newest.conflicts)[0]} is in place and in"
                f" {newest.folder}/files, or in neither",
                remedy="leave it in one of them, the one that is whole (of a folder, all of its"
                " files), and run --undo again",
            )
        )
    return refusals


def _held_by_its_own_clock(
    root: Path, checkpoint: Checkpoint, options: RescueOptions
) -> list[Finding]:
    """Whether a query may still write, by the clock that dates the files: this one may be ahead.

    Asked last, as it is written for that.
    """
    return refuse_if_held(
        checkpoint.layout.newest,
        [],
        now=journal.storage_time(root),
        unchanged_seconds=options.unchanged_seconds,
    )


def _sink(
    options: RescueOptions, watched: Watched | None, checkpoint: Checkpoint, begun: int | None
) -> SinkVerdict | None:
    """What the sink may hold; None where nothing shows that a batch ran, and no sink can be asked.

    Its offsets may have been removed, and a query without state leaves no other trace: the log of a
    file sink that is known is asked all the same, and one that lies in the checkpoint. One that the
    user names is asked, or it is said why not.
    """
    kind, path = options.sink, options.sink_path
    if kind == "unknown" and path is None and watched is not None:
        kind, path = recognise(watched.sink)
    base, noted = checkpoint.layout.latest_finished, checkpoint.layout.noted_by_sink
    if begun is None:
        there = None if path is None else local_path(path)
        asked = options.sink_path is not None or (there is not None and there.is_dir())
        if not asked and (noted is None or noted[1] <= base):
            return None
        begun = base + 1
    described = "" if watched is None else watched.sink
    return judge_sink(
        kind, path, base_batch=base, open_batch=begun, description=described, noted=noted
    )


def _watched(
    settings: ClientSettings | None, checkpoint: Checkpoint
) -> tuple[Watched | None, list[str]]:
    if settings is None:
        return None, []

    known = ask(settings, checkpoint.query_id, checkpoint.name)
    held_by = [
        f"the agent at {settings.url} hears from {one.application}/{one.query}, which uses it"
        for one in known
        if one.alive
    ]
    return (known[0] if known else None), held_by


def _local(address: str) -> Path:
    path = local_path(address)
    if path is None:
        raise CheckpointError(
            f"{address}: files are moved only on a local or mounted file system: mount it, or with"
            " the query stopped copy the whole folder to one, with the files' times, rescue the"
            " copy and put it in the folder's place. Not a savepoint: a savepoint leaves the open"
            " batch out, so a start from it plans the batch anew, and nobody has asked the sink"
        )
    open_folder(address)
    return path
