"""Tells whether a checkpoint is sound, and what a restart would do with it next.

Follows what Spark's micro-batch execution reads at a start: the newest offsets and the ones before
them, the newest commit, each file source's own log, and the state that the next batch loads.
"""

from __future__ import annotations

import itertools
import zlib
from typing import TYPE_CHECKING, BinaryIO, Final, Literal

import msgspec

from agent.checkpoint.closure import (
    MOST_REPLAYED,
    Closure,
    Skipped,
    StoreClosure,
    expected_stores,
    state_closure,
)
from agent.checkpoint.folder import same_place
from agent.checkpoint.layout import (
    MANIFEST,
    Checkpoint,
    chain_of,
    file_log_entries,
    how_many,
    log_offset,
    passed_by,
)
from agent.core.decode.kafka_offsets import admitted_rows, parse_offsets
from agent.core.judgement import Finding
from agent.spark_codecs import ends_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.checkpoint.folder import Folder
    from agent.checkpoint.layout import SourceInfo
    from agent.core.judgement import Severity

Action = Literal["start", "plan", "replay", "fail"]
CHANGED: Final = "its bytes do not match its checksums (.crc): damaged, truncated or changed"
_UNLESS_REAL_TIME: Final = ", unless it ran in real-time mode, which writes offsets last"
_PARTITIONS: Final = "spark.sql.shuffle.partitions"
#: Whether a start looks for a repartitioning that is not finished (Spark 4.2).
CHECKS_REPARTITION: Final = "spark.sql.streaming.checkUnfinishedRepartitionOnRestart"
#: A setting that offsets name since Spark 4.2, though it says "4.1.0" of itself: 4.1.4 has neither
#: it nor the repair of snapshots.
_SINCE_4_2: Final = "spark.sql.streaming.stateStore.rowChecksum.enabled"
#: Hadoop's checksum files: magic, then the bytes per CRC32.
_CRC_MAGIC: Final = b"crc\x00"
_BLOCK: Final = 1 << 20


class Restart(msgspec.Struct, frozen=True):
    """What Spark would do when the query starts on this checkpoint."""

    action: Action
    batch_id: int | None
    state_version: int | None
    detail: str


class StoreSize(msgspec.Struct, frozen=True):
    """One operator's store over its partitions; bytes are what a start must load."""

    operator: int
    operator_name: str
    store: str
    partitions: int
    bytes: int
    largest_partition: int
    largest_bytes: int
    skew: float | None  # largest over mean; None where it is all empty
    changes: int  # most change files that one partition replays at a start
    snapshot_version: int | None  # the oldest that a partition starts from
    by_partition: list[int] = []  # bytes, in the order of the partitions


class Soundness(msgspec.Struct, frozen=True):
    """The verdict: sound unless a finding is an error."""

    findings: list[Finding]
    restart: Restart
    closure: Closure
    stores: list[StoreSize]

    @property
    def sound(self) -> bool:
        """Whether a restart goes on with nothing lost."""
        return not self.errors

    @property
    def errors(self) -> list[Finding]:
        """What makes it unsound."""
        return [finding for finding in self.findings if finding.severity == "error"]


def judge(
    checkpoint: Checkpoint,
    folder: Folder,
    *,
    deep: bool = False,
    on_step: Callable[[str], None] | None = None,
) -> Soundness:
    """Checks a checkpoint; ``deep`` compares checksums of all that a start reads, too."""
    say = on_step or (lambda _: None)
    findings: list[Finding] = []
    say("logs")
    findings += _logs(checkpoint, folder)
    for source in checkpoint.sources:
        if source.kind == "file":
            findings += _file_source(checkpoint, source)
    say("state")
    version = checkpoint.layout.latest_finished + 1
    closure = state_closure(checkpoint, folder, version)
    findings += _state(checkpoint, folder, closure)
    findings += _schemas(checkpoint, folder)
    say("checksums")
    findings += _checksums(checkpoint, folder, closure, deep=deep)
    findings += _leftovers(checkpoint)
    restart = _restart(checkpoint, failed=[f for f in findings if f.severity == "error"])
    return Soundness(
        findings=findings, restart=restart, closure=closure, stores=_sizes(checkpoint, closure)
    )


def open_batches(checkpoint: Checkpoint) -> list[int]:
    """Batches planned after the newest commit."""
    last = checkpoint.layout.latest_finished
    return sorted(batch for batch in checkpoint.layout.offsets if batch > last)


def batch_begun(checkpoint: Checkpoint) -> int | None:
    """The newest batch that may have written to the sink unfinished; None where none has.

    State is written by a batch alone, so it tells of one even where its offsets were removed.
    """
    if opened := open_batches(checkpoint):
        return opened[-1]
    versions = (file.version for files in checkpoint.layout.state.values() for file in files)
    newest = max(versions, default=0)
    return newest - 1 if newest > checkpoint.layout.latest_finished + 1 else None


def gone_on(checkpoint: Checkpoint, folder: Folder) -> str | None:
    """The commit after the newest that was listed, where it is there now; None where it is not.

    Commits are listed first. A store may list so slowly that a query ends several batches before
    the rest is listed: offsets and state beyond the next batch are then no sign of a commit lost.
    """
    path = f"commits/{checkpoint.layout.latest_finished + 1}"
    try:
        folder.open(path).close()
    except OSError:
        return None
    return path


def looks_asynchronous(checkpoint: Checkpoint) -> bool:
    """Whether the logs have holes at the same batches, as asynchronous progress tracking leaves.

    It writes a batch's offsets and commit both or neither. Where each batch took longer than its
    interval there are no holes, and it cannot be seen. A hole in one of the logs alone is a file
    that somebody removed.
    """
    layout = checkpoint.layout
    if not layout.offsets or not layout.commits:
        return False
    first, last = max(min(layout.offsets), min(layout.commits)), layout.latest_offset
    planned, committed = (
        {batch for batch in log if first <= batch < last}
        for log in (layout.offsets, layout.commits)
    )
    return len(planned) < last - first and committed <= planned


def restart_asynchronous(checkpoint: Checkpoint) -> str:
    """What a restart with such holes needs; empty where it goes on without it, too."""
    before = checkpoint.layout.latest_offset - 1
    if before < 0 or before in checkpoint.layout.offsets:
        return ""
    return (
        ". Restart it with asyncProgressTrackingEnabled=true: without, Spark wants"
        f" offsets/{before} and fails"
    )


def _logs(checkpoint: Checkpoint, folder: Folder) -> list[Finding]:
    layout, findings = checkpoint.layout, []
    needed = _needed_logs(checkpoint)
    for path, why in checkpoint.unreadable.items():
        severity: Severity = "error" if path in needed else "warning"
        findings.append(
            Finding(
                check="log_unreadable",
                severity=severity,
                evidence=f"{path}: {why}",
                remedy="restore this file from a savepoint, or start from one"
                if severity == "error"
                else "a restart does not read it",
            )
        )
    if layout.metadata is None:
        findings.append(
            Finding(
                check="metadata_missing",
                severity="error" if layout.offsets or layout.commits else "warning",
                evidence="the file metadata, which holds the query's id, is missing",
                remedy="restore it from a savepoint; without it newer versions of Spark refuse to"
                " start, and older ones start under a new id, which idempotent sinks take for"
                " another query",
            )
        )
    latest, commit = layout.latest_offset, layout.latest_commit
    if commit > latest:
        findings.append(
            Finding(
                check="commit_without_offsets",
                severity="error",
                evidence=f"batch {commit} is committed, but the newest offsets are"
                f" {latest if latest >= 0 else 'none'}",
                remedy="files of offsets/ were removed: restore them, or start from a savepoint",
            )
        )
    if latest > 0 and latest - 1 not in layout.offsets and not looks_asynchronous(checkpoint):
        findings.append(
            Finding(
                check="offsets_missing",
                severity="error",
                evidence=f"offsets/{latest - 1} is missing; a restart at batch {latest} reads it",
                remedy="restore the file from a savepoint",
            )
        )
    opened = open_batches(checkpoint)
    if not layout.commits and latest > 0:
        findings.append(
            Finding(
                check="commits_missing",
                severity="warning",
                evidence=f"no batch is noted as finished, though batch {latest} is planned",
                remedy=f"Spark before 2.2 noted none, or commits/ was removed: a restart runs batch"
                f" {latest} again, so the sink must tolerate its rows twice",
            )
        )
    if len(opened) > 1 and not gone_on(checkpoint, folder):
        asynchronous = looks_asynchronous(checkpoint)
        findings.append(
            Finding(
                check="offsets_without_commits",
                severity="warning" if asynchronous else "error",
                evidence=f"{len(opened)} batches planned after commit"
                f" {commit if commit >= 0 else '(none)'}: {_ids(opened)}",
                remedy="normal under asynchronous progress tracking"
                + restart_asynchronous(checkpoint)
                if asynchronous
                else "a restart replays only the newest and passes over the others: restore the"
                " missing commits, or start from a savepoint",
            )
        )
    elif len(opened) == 1 and not looks_asynchronous(checkpoint):
        findings += _repartition(checkpoint, opened[0])
    elif looks_asynchronous(checkpoint):
        findings.append(
            Finding(
                check="asynchronous_progress",
                severity="info",
                evidence="the logs have holes, as asynchronous progress tracking leaves them",
                remedy="its delivery is at-least-once; make the sink tolerate repeats"
                + restart_asynchronous(checkpoint),
            )
        )
    return findings


def _repartition(checkpoint: Checkpoint, batch: int) -> list[Finding]:
    """A batch that gives the state other partitions, and is not finished (offline, Spark 4.2).

    Told as Spark tells it at a start, which fails then: a query keeps the number of its first start
    in its offsets, whatever its own settings say later.
    """
    planned, before = checkpoint.offsets.get(batch), checkpoint.offsets.get(batch - 1)
    if planned is None or before is None:
        return []
    now, then = planned.conf.get(_PARTITIONS), before.conf.get(_PARTITIONS)
    if partitions_untold(checkpoint, batch):
        return [
            Finding(
                check="partitions_untold",
                severity="error",
                evidence=f"batch {batch} is not finished, and its offsets, of version 2, do not say"
                " how many partitions the state has, as Spark 4.2.0 writes them: that release fails"
                " at each start then (None.get in isRepartitionBatch, SPARK-59662)",
                remedy=f"start it once with {CHECKS_REPARTITION}=false, or with Spark 4.3; or weir"
                " rescue moves the batch aside",
            )
        ]
    if now is None or then is None or now == then:
        return []
    return [
        Finding(
            check="repartition_unfinished",
            severity="error",
            evidence=f"batch {batch} gives the state {now} partitions instead of {then}, offline,"
            " and is not finished: no query starts until it is"
            " (STREAMING_UNFINISHED_REPARTITION_DETECTED)",
            remedy=f"where none runs, repartition to {now} partitions again; or weir rescue moves"
            " aside what it left",
        )
    ]


def partitions_untold(checkpoint: Checkpoint, batch: int) -> bool:
    """Whether Spark 4.2.0 cannot start on an open batch, as it looks for what it did not write.

    It looks in the batch before, too; but where the open one tells, 4.3 planned it, and starts.
    """
    planned = checkpoint.offsets.get(batch)
    if planned is None or batch - 1 not in checkpoint.offsets or not checkpoint.layout.commits:
        return False
    return planned.log_version == "v2" and _PARTITIONS not in planned.conf


def _needed_logs(checkpoint: Checkpoint) -> set[str]:
    layout = checkpoint.layout
    latest, commit = layout.latest_offset, layout.latest_commit
    needed = {"metadata", f"offsets/{latest}", f"offsets/{latest - 1}", f"commits/{commit}"}
    return needed | {file.path for file in layout.schemas}


def _file_source(checkpoint: Checkpoint, source: SourceInfo) -> list[Finding]:
    layout, index = checkpoint.layout, source.index
    entries = layout.sources.get(index, [])
    newest = checkpoint.offsets.get(layout.latest_offset)
    offset = newest.sources[index] if newest and index < len(newest.sources) else None
    end = log_offset(offset)
    findings = []
    _, missing = chain_of(entries, end)
    if missing:
        findings.append(
            Finding(
                check="source_log_incomplete",
                severity="error",
                evidence=f"{source.folder}: offsets/{layout.latest_offset} stands at entry {end};"
                f" missing: {_told(missing)}",
                remedy="restore the entries from a savepoint: without them files are read again"
                " or never",
            )
        )
    passed = passed_by((entry.batch_id, entry.compact) for entry in entries)
    if passed is not None and not missing:
        findings.append(
            Finding(
                check="source_log_incomplete",
                severity="error" if passed.sure else "warning",
                evidence=f"{source.folder}: {passed.evidence}",
                remedy="restore the earlier compacted entry from a savepoint, or start with"
                " spark.sql.streaming.fileSource.log.compactInterval set so that it finds them;"
                " else files are read again, or the query fails. Two compacted entries leave no"
                " doubt: with spark.sql.streaming.minBatchesToRetain above the interval both stay",
            )
        )
    ahead = sorted({entry.batch_id for entry in entries if entry.batch_id > end})
    if ahead:
        findings.append(
            Finding(
                check="source_log_ahead",
                severity="info",
                evidence=f"{source.folder}: planned past offsets/{layout.latest_offset}:"
                f" {_ids(ahead)}",
                remedy="left by a planning that did not finish; the next batch takes these files"
                " besides new ones",
            )
        )
    return findings


def _state(checkpoint: Checkpoint, folder: Folder, closure: Closure) -> list[Finding]:
    findings = [
        Finding(
            check="state_incomplete",
            severity="error",
            evidence=missing,
            remedy="start from a savepoint; the state of this version cannot be read",
        )
        for missing in closure.missing
    ]
    findings += [
        _skipped(checkpoint, store, one) for store in closure.stores for one in store.skipped
    ]
    limit = closure.version
    beyond = sorted(
        {
            file.version
            for files in checkpoint.layout.state.values()
            for file in files
            if file.version > limit
        }
    )
    if beyond and beyond[-1] > limit + 1 and not gone_on(checkpoint, folder):
        findings.append(
            Finding(
                check="state_ahead",
                severity="error",
                evidence=f"state of versions {_ids(beyond)} exists, but batch"
                f" {checkpoint.layout.latest_finished} is the newest commit",
                remedy="files of commits/ or offsets/ were removed, or two queries write here;"
                " a restart would mix states: start from a savepoint",
            )
        )
    elif beyond == [limit + 1] and limit and (removed := _were_removed(checkpoint, folder, limit)):
        findings.append(
            Finding(
                check="state_without_offsets",
                severity=removed,
                evidence=f"state of batch {limit} is there, its offsets are not: offsets/{limit}"
                f" was removed{'' if removed == 'error' else _UNLESS_REAL_TIME}",
                remedy=f"do not start the query: it would plan other rows as batch {limit} beside"
                " that state, and a sink that has its id drop them. weir rescue asks the sink and"
                f" moves aside what the batch left; or put offsets/{limit} back as it was",
            )
        )
    elif beyond == [limit + 1]:
        opened = open_batches(checkpoint)
        findings.append(
            Finding(
                check="state_ahead",
                severity="info",
                evidence=f"state of version {beyond[0]} exists before its commit: some partitions"
                f" of {'the open batch' if opened else f'batch {limit}'} have finished",
                remedy="a restart with the same offsets writes it anew"
                if opened
                else "a restart writes it anew",
            )
        )
    deepest = max((store.changes for store in closure.stores), default=0)
    if deepest > 100:
        findings.append(
            Finding(
                check="snapshot_lag",
                severity="warning",
                evidence=f"a partition replays {deepest} changes at a start",
                remedy="snapshots fall behind: lower"
                " spark.sql.streaming.stateStore.minDeltasForSnapshot or"
                " maintenanceInterval, and look for failing maintenance in the executors' logs",
            )
        )
    return findings


def _were_removed(checkpoint: Checkpoint, folder: Folder, batch: int) -> Severity | None:
    """How sure it is that a batch's offsets are gone of which there is state; None if they are not.

    Spark writes them before the state; in real-time mode, whose state has ids (format 2), after.
    """
    if open_batches(checkpoint) or looks_asynchronous(checkpoint):
        return None
    first = _offsets_first(checkpoint, batch - 1) if checkpoint.state_format == 2 else True
    if first is False:
        return None
    try:  # it may have been planned while the folders were listed: the state's comes last
        folder.open(f"offsets/{batch}").close()
    except FileNotFoundError:
        return "error" if first else "warning"
    except OSError:
        pass  # whatever is there is not gone
    return None


def _offsets_first(checkpoint: Checkpoint, batch: int) -> bool | None:
    """Whether a finished batch's offsets are older than its state; None where no times tell."""
    layout = checkpoint.layout
    planned, committed = layout.offsets.get(batch), layout.commits.get(batch)
    written = min(  # maintenance may add a snapshot of the version later
        (
            file.modified
            for files in layout.state.values()
            for file in files
            if file.version == batch + 1
        ),
        default=0.0,
    )
    if planned is None or committed is None or not planned.modified or not written:
        return None
    # A commit comes after both, but in a copy. A store's times may be of whole seconds.
    if committed.modified < max(planned.modified, written) or planned.modified == written:
        return None
    return planned.modified < written


def offsets_last(checkpoint: Checkpoint, batch: int) -> bool:
    """Whether a finished batch's offsets are nearer to its commit than to when it was planned.

    Real-time mode writes them at a batch's end, and a start in it deletes those without a commit.
    """
    layout, told = checkpoint.layout, checkpoint.offsets.get(batch)
    planned, committed = layout.offsets.get(batch), layout.commits.get(batch)
    if planned is None or committed is None or told is None or told.timestamp_ms is None:
        return False
    after = checkpoint.offsets.get(batch + 1)
    if after is not None and (after.timestamp_ms or 0) < 1000 * committed.modified:
        return False  # copied, or by another clock than the driver's
    return 1000 * (2 * planned.modified - committed.modified) > told.timestamp_ms


def _skipped(checkpoint: Checkpoint, store: StoreClosure, bad: Skipped) -> Finding:
    """A snapshot that Spark passes over by itself since 4.2, and fails at before.

    Seen on 3.5.9 and 4.2.0. Either starts from an older one where the bad one is not there at all.
    """
    base = store.snapshot_version
    start = f"snapshot {base}" if base is not None else "the first change"
    if store.changes > MOST_REPLAYED:
        passed = False
        said = (
            f"Spark fails at it, as the {store.changes} changes since {start} are more than the"
            f" {MOST_REPLAYED} that it replays instead"
        )
    else:
        passed = _SINCE_4_2 in checkpoint.conf
        said = f"Spark 4.2 and later start from {start} instead, earlier ones fail"
    if checkpoint.state_format == 2:
        return Finding(
            check="state_incomplete",
            severity="warning" if passed else "error",
            evidence=f"{bad.why}. {said}",
            remedy="none for Spark 4.2, by which the query runs; earlier ones: an older savepoint"
            if passed
            else "start it with Spark 4.2 or later, or from an older savepoint",
        )
    aside = (
        f"with the query stopped move {bad.path} aside, and {sums_of(bad.path)} if it is there:"
        f" every version of Spark then starts from {start}, and the changes since give the same"
        " state"
    )
    return Finding(
        check="state_incomplete",
        severity="warning" if passed else "error",
        evidence=f"{bad.why}. {said}",
        remedy=f"none for Spark 4.2, by which the query runs; before an earlier one starts, {aside}"
        if passed
        else aside,
    )


def _schemas(checkpoint: Checkpoint, folder: Folder) -> list[Finding]:
    """Whether the schemas that an operator names by address are here, where a start reads them.

    Seen by another mount a folder has another address, so only a savepoint from which nobody has
    gone on is surely elsewhere.
    """
    layout, findings = checkpoint.layout, []
    here = {file.path for file in layout.schemas}
    copied = stands_as_copied(checkpoint, folder)
    elsewhere: dict[str, str] = {}
    for info in checkpoint.operators.values():
        for root, below in info.schema_places:
            if below not in here:
                findings.append(
                    Finding(
                        check="state_incomplete",
                        severity="error",
                        evidence=f"{info.path} names {below or root}, which is not in this folder",
                        remedy="restore this file from a savepoint, or start from one",
                    )
                )
            elif not same_place(root, checkpoint.name):
                elsewhere.setdefault(root, info.path)
    tied = _tied_to(folder) if copied and not elsewhere else None
    if tied is not None and not same_place(tied, checkpoint.name):
        findings.append(
            Finding(
                check="state_schema_elsewhere",
                severity="error",
                evidence=f"a schema of this savepoint is tied to {tied}: a query that starts from"
                " another folder fails",
                remedy=f"start only at {tied}: move what is there aside, and copy this folder to"
                " it",
            )
        )
    findings += [
        Finding(
            check="state_schema_elsewhere",
            severity="error" if copied else "warning",
            evidence=f"{path} names the state's schema by its address, below {root}: a query that"
            " starts from another folder reads it there, and fails once it is gone",
            remedy=f"start only at {root}: move what is there aside, and copy this folder to it"
            + ("" if copied else "; nothing to do where it is the same folder under another name"),
        )
        for root, path in elsewhere.items()
    ]
    return findings


def _tied_to(folder: Folder) -> str | None:
    """The only address at which a savepoint starts, as it says itself."""
    try:
        said = msgspec.json.decode(folder.read(MANIFEST)).get("starts_at")
    except (OSError, AttributeError, ValueError):
        return None
    return said if isinstance(said, str) else None


def stands_as_copied(checkpoint: Checkpoint, folder: Folder) -> bool:
    """Whether it is a savepoint that no query has gone on from."""
    if not any(file.path == MANIFEST for file in checkpoint.layout.others):
        return False
    try:
        said = msgspec.json.decode(folder.read(MANIFEST))
        return checkpoint.layout.latest_finished <= int(said["batch_id"])
    except (OSError, KeyError, TypeError, ValueError):
        return True


def _checksums(
    checkpoint: Checkpoint, folder: Folder, closure: Closure, *, deep: bool
) -> list[Finding]:
    layout = checkpoint.layout
    needed = _needed_logs(checkpoint)
    wanted = {path for path in needed if path not in checkpoint.unreadable}
    newest = checkpoint.offsets.get(layout.latest_offset)
    entries = []
    for source in checkpoint.sources:
        offset = (
            newest.sources[source.index] if newest and source.index < len(newest.sources) else None
        )
        entries += chain_of(layout.sources.get(source.index, []), log_offset(offset))[0]
    wanted |= {entry.path for entry in entries}
    to_read = {entry.path for entry in entries} if deep else set()
    if deep:
        wanted |= {path for path in closure.files if not path.endswith(".crc")}
    state = {file.path: file.size for files in layout.state.values() for file in files}
    empty = {path for path in closure.files if state.get(path) == 0}
    empty |= {entry.path for entry in entries if entry.size == 0}
    findings = []
    for path in sorted(wanted | empty):
        why = damage(checkpoint, folder, path)
        if why is None and path in empty:
            why = "empty"
        if why is None and path in to_read:
            why = _unread(folder, path)
        if why == CHANGED and path.startswith("offsets/"):
            findings.append(_changed(path))
        elif why is not None:
            findings.append(
                Finding(
                    check="file_damaged",
                    severity="error",
                    evidence=f"{path}: {why}",
                    remedy="restore this file from a savepoint, or start from one",
                )
            )
    return findings


def _unread(folder: Folder, path: str) -> str | None:
    """Why an entry of a file source's log cannot be read; None where it can, or it vanished.

    A start reads each of them whole, and no checksums tell where it was not written through Hadoop.
    """
    try:
        for _ in file_log_entries(folder, path):
            pass
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or type(error).__name__
    except UnicodeDecodeError:
        return "not text: truncated, damaged or foreign"
    except ValueError as error:
        return str(error)
    return None


def _changed(path: str) -> Finding:
    """Offsets that read whole (they are parsed) and are not as they were written.

    Spark reads its logs by Hadoop's FileContext, which compares no checksums on a local disk (seen
    on 3.5.9 and 4.2.0; sums of RocksDB's files it does compare). So it starts on them, and most
    were changed by hand, to skip or repeat rows.
    """
    return Finding(
        check="file_damaged",
        severity="warning",
        evidence=f"{path}: {CHANGED}, though it reads whole. Spark compares none here and starts"
        " with what it says",
        remedy=f"changed by hand on purpose: remove {sums_of(path)}; otherwise restore this file"
        " from a savepoint",
    )


def sums_of(path: str) -> str:
    """Where Hadoop keeps a file's checksums."""
    base, slash, name = path.rpartition("/")
    return f"{base}{slash}.{name}.crc"


def damage(checkpoint: Checkpoint, folder: Folder, path: str) -> str | None:
    """What is wrong with a file by its checksums or its end; None where nothing is.

    A file without checksums, or one that vanished, is not damaged.
    """
    hadoop, spark = sums_of(path), f"{path}.crc"
    companions = {file.path for file in checkpoint.layout.companions(path)}
    try:
        if hadoop in companions:
            sums = folder.read(hadoop)
            with folder.open(path) as file:
                if not checksums_match(file, sums):
                    return CHANGED
        if spark in companions and _reads_sparks_sums(checkpoint):
            sums = folder.read(spark)
            with folder.open(path) as file:
                if not _matches_sparks(file, sums):
                    return CHANGED
        if path.endswith((".delta", ".snapshot", ".changelog")):
            with folder.open(path) as file:
                if ends_whole(file) is False:
                    return "truncated: its compressed stream has no end"
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or type(error).__name__
    return None


def _reads_sparks_sums(checkpoint: Checkpoint) -> bool:
    """Whether Spark compares the sums that it wrote itself: 4.1 does, 4.2 in format 2 alone.

    In format 1 it leaves those of 4.1 beside files that it writes anew. Seen on 4.1.1 and 4.2.0.
    """
    return checkpoint.state_format == 2 or _SINCE_4_2 not in checkpoint.conf


class _Sum(msgspec.Struct):
    """What Spark notes beside a file of its state as it writes it."""

    algorithm: str
    value: int  # as Java has it, of 32 bits signed
    mainFileSize: int  # noqa: N815 - Spark's name


def _matches_sparks(file: BinaryIO, sums: bytes) -> bool:
    """Whether a file fits what Spark noted; one summed by an algorithm that is not known does."""
    try:
        noted = msgspec.json.decode(sums, type=_Sum)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False  # Spark fails at it, too
    if noted.algorithm != "CRC32C":
        return True
    import google_crc32c

    value = size = 0
    while block := file.read(_BLOCK):
        value, size = google_crc32c.extend(value, block), size + len(block)
    return (value, size) == (noted.value & 0xFFFFFFFF, noted.mainFileSize)


def checksums_match(file: BinaryIO, sums: bytes) -> bool:
    """Whether a file fits Hadoop's checksum file: a CRC32 for each run of bytes."""
    if not sums.startswith(_CRC_MAGIC) or len(sums) < 8:
        return False
    span = int.from_bytes(sums[4:8], "big")
    if span <= 0:
        return False
    expected = (int.from_bytes(sums[at : at + 4], "big") for at in range(8, len(sums), 4))
    return all(
        have == want
        for have, want in itertools.zip_longest(_sums(file, span), expected, fillvalue=-1)
    )


def _sums(file: BinaryIO, span: int) -> Iterator[int]:
    """The CRC32 of each ``span`` bytes, of a file of any size."""
    value = filled = 0
    while block := file.read(_BLOCK):
        view, at = memoryview(block), 0
        while at < len(view):
            part = view[at : at + span - filled]
            value, filled, at = zlib.crc32(part, value), filled + len(part), at + len(part)
            if filled == span:
                yield value
                value = filled = 0
    if filled:
        yield value


def _leftovers(checkpoint: Checkpoint) -> list[Finding]:
    layout = checkpoint.layout
    files = [file.path for file in layout.temporary]
    in_logs = [path for path in files if path.startswith(("offsets/", "commits/"))]
    state = [path for key, found in layout.state.items() if found for path in [key.folder]]
    if layout.latest_offset < 0 and layout.latest_commit < 0 and (in_logs or state):
        return [
            Finding(
                check="leftovers_at_start",
                severity="error",
                evidence=f"no batch was planned, yet {(in_logs or state)[0]} is there: Spark 4.1"
                " and later refuse to begin (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY)",
                remedy="weir rescue --apply moves it aside",
            )
        ]
    if not files:
        return []
    return [
        Finding(
            check="temporary_files",
            severity="info",
            evidence=f"{len(files)} files of unfinished writes, such as {files[0]}",
            remedy="none: Spark passes over them",
        )
    ]


def _restart(checkpoint: Checkpoint, failed: list[Finding]) -> Restart:
    layout = checkpoint.layout
    latest, commit = layout.latest_offset, layout.latest_commit
    if failed:
        return Restart(
            action="fail",
            batch_id=None,
            state_version=None,
            detail=f"fails, or goes on with something lost: {failed[0].evidence}",
        )
    if latest < 0:
        return Restart(
            action="start", batch_id=0, state_version=0, detail="plans batch 0 from the start"
        )
    if latest == commit:
        return Restart(
            action="plan",
            batch_id=latest + 1,
            state_version=latest + 1,
            detail=f"plans batch {latest + 1} after the committed batch {commit}",
        )
    anew = ""
    if offsets_last(checkpoint, commit):
        anew = (
            "; in real-time mode it is planned anew, and by its times the batch before ran so, or "
            "the files' clock is ahead of the driver's"
        )
    return Restart(
        action="replay",
        batch_id=latest,
        state_version=latest,
        detail=f"runs batch {latest} with the offsets it was planned with"
        f" ({describe_batch(checkpoint, latest)}){anew}",
    )


def describe_batch(checkpoint: Checkpoint, batch_id: int) -> str:
    """How much a batch takes from each source, in words."""
    parts = []
    for index, source in enumerate(checkpoint.sources):
        amount = admitted(checkpoint, batch_id, index)
        unit = {"kafka": "rows", "file": "entries of its log"}.get(source.kind, "")
        known = f"{amount:,} {unit}" if amount is not None and unit else "unknown"
        parts.append(f"source {index} ({source.kind}): {known}")
    return "; ".join(parts) or "no source"


def admitted(checkpoint: Checkpoint, batch_id: int, source: int) -> int | None:
    """Rows (Kafka) or log entries (files) that a batch takes from a source; None if unknown."""
    this = checkpoint.offsets.get(batch_id)
    before = checkpoint.offsets.get(batch_id - 1)
    if this is None or source >= len(this.sources) or (before is None and batch_id > 0):
        return None
    end = this.sources[source]
    start = before.sources[source] if before and source < len(before.sources) else None
    if checkpoint.sources[source].kind == "file":
        return log_offset(end) - log_offset(start)
    if checkpoint.sources[source].kind == "kafka":
        return admitted_rows(parse_offsets(start), parse_offsets(end))
    return None


def _sizes(checkpoint: Checkpoint, closure: Closure) -> list[StoreSize]:
    groups: dict[tuple[int, str], list[tuple[int, int, int, int | None]]] = {}
    for store in closure.stores:
        groups.setdefault((store.key.operator, store.key.store), []).append(
            (store.key.partition, store.bytes, store.changes, store.snapshot_version)
        )
    if not closure.stores:
        for key in expected_stores(checkpoint, closure.version):
            size = sum(file.size for file in checkpoint.layout.state.get(key, []))
            groups.setdefault((key.operator, key.store), []).append((key.partition, size, 0, None))
    found = []
    for (operator, store_name), partitions in sorted(groups.items()):
        total = sum(size for _, size, _, _ in partitions)
        largest = max(partitions, key=lambda partition: partition[1])
        snapshots = [snapshot for *_, snapshot in partitions if snapshot is not None]
        info = checkpoint.operators.get(operator)
        found.append(
            StoreSize(
                operator=operator,
                operator_name=info.name if info else "",
                store=store_name,
                partitions=len(partitions),
                bytes=total,
                largest_partition=largest[0],
                largest_bytes=largest[1],
                skew=largest[1] * len(partitions) / total if total else None,
                changes=max(changes for _, _, changes, _ in partitions),
                snapshot_version=min(snapshots, default=None),
                by_partition=[size for _, size, _, _ in sorted(partitions)],
            )
        )
    return found


def _ids(numbers: list[int]) -> str:
    return _told([range(number, number + 1) for number in numbers])


def _told(runs: list[range]) -> str:
    count = how_many(runs)
    if count <= 6:
        return ", ".join(str(number) for run in runs for number in run)
    return f"{runs[0].start} to {runs[-1].stop - 1} ({count} of them)"
