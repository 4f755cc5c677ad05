"""Checkpoints on a terminal: rich tables of what the other modules found."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agent.checkpoint.rescue import GROUPS
from agent.checkpoint.sink import READ_AGAIN
from agent.core.names import label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.checkpoint.report import Report, RescueReport, SavepointReport, UndoReport
    from agent.checkpoint.sink import Rollback
    from agent.core.judgement import Finding

_COLOURS: Final = {"error": "red", "warning": "yellow", "info": "cyan"}
#: Where the output is no terminal and COLUMNS says nothing: wide enough for every table.
WIDTH: Final = 160
_PROSE: Final = {"", "newest offset", "such as", "missing"}  # columns that may go over lines


class _Console(Console):
    """Breaks sentences between words only: an address or a path is to be copied whole."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich prints, but for strings with words longer than a line."""
        if all(isinstance(one, str) for one in objects):
            options = {"overflow": "ignore", "crop": False} | options
        super().print(*objects, **options)


def output() -> Console:
    """Standard output: as wide as the terminal, or wide enough where it is a pipe or a file."""
    wide = not sys.stdout.isatty() and not os.environ.get("COLUMNS", "").isdigit()
    return _Console(width=WIDTH if wide else None)


def show_report(console: Console, report: Report) -> None:
    """Prints what a checkpoint holds."""
    verdict = "[green]sound[/]" if report.sound else "[red]not sound[/]"
    console.print(f"[bold]{_text(report.checkpoint)}[/]: {verdict}: {_text(report.reason)}")
    console.print(f"A restart {_text(report.restart.detail)}.")
    table = _table("checkpoint", ["", ""])
    table.add_row("query id", _text(report.query_id))
    table.add_row("newest offsets", _batch(report.latest_offset, report.retained_offsets))
    table.add_row("newest commit", _batch(report.latest_commit, report.retained_commits))
    table.add_row("open batches", ", ".join(map(str, report.open_batches)) or "none")
    table.add_row("watermark", _text(report.watermark))
    table.add_row(
        "log versions",
        f"offsets {report.offset_log_version or '-'}, commits {report.commit_log_version or '-'}",
    )
    state = report.state
    if state.operators:
        table.add_row("state store", f"{state.store}, checkpoint format v{state.format}")
        table.add_row("state version", f"{state.version}: {size(state.bytes)} to load")
    table.add_row("files", f"{report.files:,}, {size(report.bytes)}")
    table.add_row("last change", report.last_change)
    _show(console, table)
    if report.sources:
        sources = _table(
            "sources", ["source", "kind", "newest offset", "own log to", "open batch takes"]
        )
        for source in report.sources:
            offset = (
                msgspec.json.encode(source.offset).decode() if source.offset is not None else "-"
            )
            sources.add_row(
                str(source.index),
                source.kind,
                _text(offset if len(offset) <= 60 else offset[:57] + "..."),
                _number(source.log_end),
                _number(source.open_batch_takes),
            )
        _show(console, sources)
    if state.operators:
        several = any(store.store != "default" for store in state.operators)
        columns = [
            "operator",
            *(["store"] if several else []),
            "parts",
            "bytes",
            "largest",
            "skew",
            "snapshot",
            "changes",
        ]
        stores = _table("state", columns)
        for store in state.operators:
            stores.add_row(
                _text(f"{store.operator} {store.operator_name}"),
                *([_text(store.store)] if several else []),
                str(store.partitions),
                size(store.bytes),
                f"{store.largest_partition}: {size(store.largest_bytes)}",
                "-" if store.skew is None else f"{store.skew:.2f}",
                _number(store.snapshot_version),
                str(store.changes),
            )
        _show(console, stores)
    if state.rows is not None:
        counts = _table(
            "rows of the state", ["operator", "part", "rows", "largest", "skew", "empty", "missing"]
        )
        for one in state.rows:
            known = one.largest_partition is not None
            counts.add_row(
                _text(f"{one.operator} {one.operator_name}"),
                _text(one.part),
                _number(one.rows),
                f"{one.largest_partition}: {_number(one.largest_rows)}" if known else "-",
                "-" if one.skew is None else f"{one.skew:.2f}",
                _number(one.empty_partitions),
                _text(one.missing),
            )
        _show(console, counts)
    for said in state.skewed:
        console.print(f"[yellow]skew[/]: {_text(said)}", highlight=False)
    show_findings(console, report.findings)


def show_rescue(console: Console, report: RescueReport) -> None:
    """Prints what a rescue would move or has moved, why it is safe or not, and what comes next."""
    plan = report.plan
    name = _text(plan.checkpoint)
    if not plan.moves:
        nothing = "nothing to rescue: no batch is open, and nothing is left"
        console.print(
            f"[bold]{name}[/]: {'nothing to move: a savepoint' if plan.notes else nothing}"
        )
        for note in plan.notes:
            console.print(f"note: {_text(note)}", highlight=False)
        show_findings(console, plan.refusals)
        return
    what = f"batch {plan.open_batch}" if plan.open_batch is not None else "what no batch has taken"
    since = f"commit {plan.base_batch}" if plan.base_batch >= 0 else "the very start"
    console.print(f"[bold]{name}[/]: {what} is to be planned anew from {since}")
    table = _table("moves", ["what", "files", "bytes", "such as"])
    for group in GROUPS:
        moves = [move for move in plan.moves if move.group == group]
        if moves:
            total = size(sum(move.size for move in moves))
            table.add_row(group, f"{len(moves):,}", total, _text(moves[-1].path))
    _show(console, table)
    for note in plan.notes:
        console.print(f"note: {_text(note)}", highlight=False)
    show_findings(console, plan.refusals)
    if plan.refusals:
        console.print("[red]Refused[/]: nothing was moved.")
        return
    if report.applied:
        console.print(
            f"[green]Moved[/] {len(plan.moves):,} files to {_text(report.moved_to)};"
            " --undo brings them back as long as the query has not run.",
            highlight=False,
        )
        if plan.conditional:
            console.print("[yellow]Restart it only as the notes say.[/]")
    else:
        verdict = "[yellow]Safe only as the notes say[/]" if plan.conditional else "[green]Safe[/]"
        console.print(f"{verdict}. Dry run: nothing was moved; --apply does it.")
    for advice in report.limits:
        limit = "no limit known" if advice.limit is None else f"{advice.option} = {advice.limit}"
        console.print(
            f"Restart source {advice.source} with: [bold]{limit}[/] ({_text(advice.detail)})",
            highlight=False,
        )


def show_savepoint(console: Console, report: SavepointReport) -> None:
    """Prints what was copied and how to restore it."""
    manifest = report.manifest
    console.print(
        f"[green]Savepoint[/] of batch {manifest.batch_id} at [bold]{_text(report.destination)}[/]:"
        f" {len(manifest.files):,} files, {size(manifest.bytes)}, verified.",
        highlight=False,
    )
    console.print(
        f"A query that starts from it plans batch {manifest.batch_id + 1}. Start it only with a"
        f" sink that is empty or rolled back to batch {manifest.batch_id}: one that holds later"
        " batches passes over theirs, and rows are lost. Later ones that have run are then read"
        f" again. {READ_AGAIN}. For Spark's file sink, with the query"
        f" stopped, weir savepoint {_text(report.destination)} --rollback-sink DIR lists what to"
        " do, for an empty folder too.",
        highlight=False,
    )
    if manifest.starts_at is not None:
        console.print(
            f"It starts only at [bold]{_text(manifest.starts_at)}[/]: a schema is tied to"
            " this address, of the state (transformWithState) or of a source (Delta's"
            " schemaTrackingLocation). Move what is there aside, and copy the savepoint to it.",
            highlight=False,
        )
    if report.rollback is not None:
        show_rollback(console, report.rollback)


def show_rollback(console: Console, rollback: Rollback) -> None:
    """Prints what to move aside in a file sink, or to write there."""
    console.print(f"{_text(rollback.sink)}: {_text(rollback.detail)}", highlight=False)
    for entry in (*rollback.log_entries, *rollback.missing_entries):
        console.print(f"  _spark_metadata/{_text(entry)}", highlight=False)
    for path in rollback.data_files:
        console.print(f"  {_text(path)}", highlight=False)


def show_undo(console: Console, report: UndoReport) -> None:
    """Prints what is back in the checkpoint, or why nothing is."""
    if report.moved_from is None:
        console.print("nothing to undo: no rescue has anything aside", highlight=False)
        return
    if report.refusals:
        show_findings(console, report.refusals)
        console.print("[red]Refused[/]: nothing was moved.")
        return
    files = f"{len(report.moved):,} files are back from {_text(report.moved_from)}."
    console.print(files, highlight=False)


def show_findings(console: Console, findings: Iterable[Finding]) -> None:
    """Prints findings, the worst first."""
    order = list(_COLOURS)
    for finding in sorted(findings, key=lambda finding: order.index(finding.severity)):
        colour = _COLOURS[finding.severity]
        console.print(
            f"[{colour}]{finding.severity}[/] {finding.check}: {_text(finding.evidence)}"
            f"\n  → {_text(finding.remedy)}"
        )


def _show(console: Console, table: Table) -> None:
    console.print()
    console.print(table)
    console.print()


def size(count: float) -> str:
    """Bytes in a unit that people read."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _table(title: str, columns: list[str]) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        show_header=any(columns),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        prose = column in _PROSE
        table.add_column(column, overflow="fold" if prose else "ellipsis", no_wrap=not prose)
    return table


def _text(value: str | None) -> str:
    """Text from outside, fit for a terminal."""
    if value is None:
        return "-"
    return escape("".join(label(part) for part in _pieces(value)))


def _pieces(value: str) -> list[str]:
    return [value[at : at + 100] for at in range(0, len(value), 100)]


def _batch(newest: int | None, retained: int) -> str:
    return "none" if newest is None else f"{newest} ({retained} kept)"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
