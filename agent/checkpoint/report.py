"""What the commands on checkpoints tell, as data: the shape of their JSON."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import msgspec

from agent.checkpoint.layout import Checkpoint, SourceKind
from agent.checkpoint.limit import LimitAdvice
from agent.checkpoint.rescue import Plan
from agent.checkpoint.savepoint import Manifest
from agent.checkpoint.sink import Rollback
from agent.checkpoint.soundness import (
    Restart,
    Soundness,
    StoreSize,
    admitted,
    open_batches,
)
from agent.checkpoint.state_rows import LEAST_BYTES, LEAST_ROWS, StoreRows, skewed
from agent.core.judgement import Finding


class RescueReport(msgspec.Struct, frozen=True):
    """What ``weir rescue`` found and did."""

    plan: Plan
    applied: bool
    moved_to: str | None
    limits: list[LimitAdvice]


class UndoReport(msgspec.Struct, frozen=True):
    """What ``weir rescue --undo`` found and did."""

    checkpoint: str
    undone: bool
    moved_from: str | None  # the rescue's folder; None: no rescue has anything aside
    moved: list[str]  # back in the checkpoint, under these paths
    refusals: list[Finding]


class SavepointReport(msgspec.Struct, frozen=True):
    """What ``weir savepoint`` did."""

    destination: str
    manifest: Manifest
    rollback: Rollback | None


class SourceReport(msgspec.Struct, frozen=True):
    """One source; ``open_batch_takes`` is rows (Kafka) or log entries (files)."""

    index: int
    kind: SourceKind
    offset: Any
    log_end: int | None
    open_batch_takes: int | None


class StateReport(msgspec.Struct, frozen=True):
    """The state as a whole; bytes are what a start loads. ``rows`` None: they were not counted."""

    store: str
    format: int | None
    version: int
    partitions: int | None
    bytes: int
    operators: list[StoreSize]
    skewed: list[str]  # partitions that hold far more than the others
    rows: list[StoreRows] | None = None


class Report(msgspec.Struct, frozen=True):
    """A checkpoint in full. Times are ISO 8601, sizes bytes."""

    checkpoint: str
    sound: bool
    reason: str
    restart: Restart
    query_id: str | None
    latest_offset: int | None
    latest_commit: int | None
    open_batches: list[int]
    retained_offsets: int
    retained_commits: int
    offset_log_version: str | None
    commit_log_version: str | None
    watermark: str | None
    sources: list[SourceReport]
    state: StateReport
    files: int
    bytes: int
    last_change: str
    findings: list[Finding]


def build_report(
    checkpoint: Checkpoint, soundness: Soundness, rows: list[StoreRows] | None = None
) -> Report:
    """Everything known of a checkpoint; ``rows`` where they were counted."""
    layout = checkpoint.layout
    newest = checkpoint.offsets.get(layout.latest_offset)
    commit = checkpoint.commits.get(layout.latest_commit)
    opened = open_batches(checkpoint)
    errors = soundness.errors
    return Report(
        checkpoint=checkpoint.name,
        sound=soundness.sound,
        reason=errors[0].evidence if errors else "all that a restart reads is there",
        restart=soundness.restart,
        query_id=checkpoint.query_id,
        latest_offset=layout.latest_offset if layout.offsets else None,
        latest_commit=layout.latest_commit if layout.commits else None,
        open_batches=opened,
        retained_offsets=len(layout.offsets),
        retained_commits=len(layout.commits),
        offset_log_version=newest.log_version if newest else None,
        commit_log_version=commit.log_version if commit else None,
        watermark=_watermark(commit.next_watermark_ms if commit else None),
        sources=[
            SourceReport(
                index=source.index,
                kind=source.kind,
                offset=source.offset,
                log_end=source.log_end,
                open_batch_takes=admitted(checkpoint, opened[-1], source.index) if opened else None,
            )
            for source in checkpoint.sources
        ],
        state=StateReport(
            store=checkpoint.store_kind,
            format=checkpoint.state_format,
            version=soundness.closure.version,
            partitions=checkpoint.partitions if soundness.stores else None,
            bytes=sum(store.bytes for store in soundness.stores),
            operators=soundness.stores,
            skewed=_skewed(soundness.stores, rows),
            rows=rows,
        ),
        files=layout.count,
        bytes=layout.bytes,
        last_change=_iso(layout.newest),
        findings=soundness.findings,
    )


def _skewed(stores: list[StoreSize], rows: list[StoreRows] | None) -> list[str]:
    said = [
        skewed(_operator(one), one.store, "bytes", one.by_partition, least=LEAST_BYTES)
        for one in stores
    ]
    said += [
        skewed(_operator(one), one.part, "rows", one.by_partition, least=LEAST_ROWS)
        for one in rows or []
    ]
    return [one for one in said if one is not None]


def _operator(one: StoreSize | StoreRows) -> str:
    return f"operator {one.operator} {one.operator_name}".rstrip()


def _watermark(milliseconds: int | None) -> str | None:
    if not milliseconds or milliseconds < 0:
        return None
    try:
        return _iso(milliseconds / 1000)
    except (OverflowError, ValueError, OSError):  # a watermark of a far year
        return f"{milliseconds} ms"


def _iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
