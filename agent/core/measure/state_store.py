"""State: what a stateful operator's commit is made of, and how far its snapshots lag behind.

From the state store's own metrics in progress (``customMetrics``), which differ by provider and
version: whatever is not told stays unknown.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.judge.worth import worth

if TYPE_CHECKING:
    from collections.abc import Mapping

#: RocksDB's metrics, summed over tasks in milliseconds, by the phase of a commit that they time.
COMMIT_PHASES: Final[Mapping[str, str]] = {
    "rocksdbCommitWriteBatchLatency": "write_batch",
    "rocksdbCommitFlushLatency": "flush",
    "rocksdbCommitCompactLatency": "compact",
    "rocksdbCommitPauseLatency": "pause",
    "rocksdbCommitCheckpointLatency": "checkpoint",
    "rocksdbCommitFileSyncLatencyMs": "file_sync",
    "rocksdbChangeLogWriterCommitLatencyMs": "changelog",
}
COPIED: Final = "rocksdbBytesCopied"
MOST_METRICS: Final = 4000
#: Followed by ``<number>_<store>``: the newest version that was uploaded as a snapshot since an
#: executor opened the store, -1 for none; of the five furthest behind (Spark 4.1).
SNAPSHOT: Final = "SnapshotLastUploaded.partition_"
#: Those of them that are told once, and the same as a type: decoding it builds nothing of others.
STATE_METRICS: Final = (*COMMIT_PHASES, COPIED)
StateMetrics = msgspec.defstruct(
    "StateMetrics",
    [(name, float | None, None) for name in STATE_METRICS],
    gc=False,
    module=__name__,
)


class Unsaved(msgspec.Struct, frozen=True):
    """A store of which no snapshot was uploaded, and the batch that said so first."""

    store: str
    since_batch_id: int


class StateFigures(msgspec.Struct, frozen=True, gc=False):
    """One operator's state after a batch; None is unknown."""

    commit_phases: dict[str, float] = {}  # seconds over all tasks
    copied_bytes: int | None = None  # written to the checkpoint by this commit
    snapshot_lag_versions: int | None = None  # of the partition furthest behind


def told_of(custom_metrics: Mapping[str, object]) -> dict[str, object]:
    """The store's own metrics that something is made of here; there are dozens of others.

    Some are told per partition, of which there may be thousands: of those, so many are looked at.
    """
    told = {name: custom_metrics[name] for name in STATE_METRICS if name in custom_metrics}
    # A look at the first letter saves most of the calls.
    for name in islice(custom_metrics, MOST_METRICS):
        if name[:1] == "S" and name.startswith(SNAPSHOT):
            told[name] = custom_metrics[name]
    return told


def copied_bytes(metrics: Mapping[str, float]) -> int | None:
    """Bytes that a commit wrote to the checkpoint; None where the store does not tell."""
    copied = metrics.get(COPIED)
    return None if copied is None else int(copied)


def figures(metrics: Mapping[str, float], batch_id: int | None) -> StateFigures:
    """What the metrics tell of the state that batch ``batch_id`` left: its version is one more."""
    phases = {
        phase: metrics[name] / 1000.0 for name, phase in COMMIT_PHASES.items() if name in metrics
    }
    copied = copied_bytes(metrics)
    lag = None
    if len(metrics) > len(phases) + (copied is not None) and batch_id is not None:
        uploaded = [
            value for name, value in metrics.items() if name.startswith(SNAPSHOT) and value >= 0
        ]
        if uploaded:
            lag = max(0, batch_id + 1 - int(min(uploaded)))
    return StateFigures(phases, copied, lag)


def unsaved(metrics: Mapping[str, float], before: Unsaved | None, batch_id: int) -> Unsaved | None:
    """A store that tells of no snapshot, the same as before while that one does; None: all tell.

    One is followed and not any: stores that go from executor to executor tell of none for a while,
    each in its turn.
    """
    stores = [name for name, value in metrics.items() if value < 0 and name.startswith(SNAPSHOT)]
    if before is not None and before.store in stores:
        return before
    return Unsaved(min(stores), batch_id) if stores else None


def changelog_advice(
    *,
    provider: str,
    changelog: bool | None,
    commit_seconds: float | None,
    tasks: int | None,
    batch_seconds: float | None,
) -> str | None:
    """Whether changelog checkpointing would pay, by the query's own figures; None: no advice.

    ``commit_seconds`` is summed over ``tasks`` state partitions, as Spark tells it.
    """
    if changelog is not False or "RocksDB" not in provider:
        return None
    if commit_seconds is None or not tasks or not batch_seconds:
        return None
    each = commit_seconds / tasks
    if not worth(each, batch_seconds):
        return None
    return (
        f"each state partition commits for {each:.3g} s of a batch of {batch_seconds:.3g} s while "
        "whole snapshots are uploaded with every commit: set "
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled to true, on the "
        "newest patch release of this Spark, as older ones have faults in it that break state"
    )
