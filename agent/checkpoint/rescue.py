"""Re-plans a batch that cannot finish: what must move out of the way, and when that is safe.

With the query stopped, everything that the unfinished batch left is moved aside: the state after
it, its offsets, and what file sources noted for it. A restart then plans from the last commit, with
whatever limit it has. Moving ``offsets/N`` alone is wrong: a file source's own log still holds the
batch, and a surviving state version counts its rows twice.

The order makes every step safe to be the last. State first: with the offsets still there a restart
replays the same batch. Then the offsets. Then the sources' logs, the newest entry first: without
offsets, entries ahead are only files that the next batch takes besides new ones.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from agent.checkpoint.layout import (
    Checkpoint,
    chain_of,
    how_many,
    log_offset,
    passed_by,
    schema_batch,
)
from agent.checkpoint.sink import READ_AGAIN
from agent.checkpoint.soundness import (
    CHECKS_REPARTITION,
    batch_begun,
    looks_asynchronous,
    open_batches,
    partitions_untold,
    restart_asynchronous,
)
from agent.core.judgement import Finding

if TYPE_CHECKING:
    from agent.checkpoint.folder import FileEntry
    from agent.checkpoint.layout import SourceInfo
    from agent.checkpoint.sink import SinkVerdict
    from agent.checkpoint.soundness import Soundness

Group = Literal["state", "offsets", "source"]
GROUPS: Final[tuple[Group, ...]] = ("state", "offsets", "source")
#: Nothing below the checkpoint must have changed for so long.
UNCHANGED_SECONDS: Final = 60.0
BY_BATCH_ID: Final = (
    "A sink that passes over batch ids it has (Delta, Iceberg, Hudi's streaming sink whatever its"
    " operation, LakeSoul, Elasticsearch, OpenSearch, Snowflake's up to 2.15, Databricks' of"
    " Azure Synapse, Spark's file sink, foreachBatch with txnVersion or a check of its own)"
    " drops all of the new batch where it has"
    " the old one, and rows are lost: look there first (Delta: DESCRIBE HISTORY names queryId and"
    " epochId; Iceberg: so do the summaries in TABLE.snapshots, as spark.sql.streaming.queryId and"
    " epochId; Hudi: the metadata of its newest commit names the batch as"
    " _hudi_streaming_sink_checkpoint; Elasticsearch and OpenSearch: sinks/ in the checkpoint,"
    " unless sink.log.path names another folder; Snowflake: COPY_HISTORY of the table names its"
    " files BATCH/PARTITION; Synapse: its table databricks_streaming_checkpoint_QUERYID"
    " has batch_id)"
)


class Move(msgspec.Struct, frozen=True):
    """One file to move aside, as it was seen."""

    path: str
    size: int
    modified: float
    group: Group
    folder: bool = False  # a whole folder; ``size`` is then of all below it


class Plan(msgspec.Struct, frozen=True):
    """What a rescue would do; it may be applied only without refusals."""

    checkpoint: str
    query_id: str | None
    base_batch: int  # the newest commit; -1: none
    open_batch: int | None
    moves: list[Move]
    refusals: list[Finding]
    notes: list[str]
    accepted: bool = False  # the sink may hold the batch, and the user takes that upon them
    conditional: bool = False  # that nothing is lost hangs on what the notes say

    @property
    def bytes(self) -> int:
        """Bytes of what would move."""
        return sum(move.size for move in self.moves)


def plan_rescue(
    checkpoint: Checkpoint,
    soundness: Soundness,
    *,
    sink: SinkVerdict | None,
    accept_duplicates: bool,
    held_by: list[str],
    state_folder: bool,
    now: float,
    unchanged_seconds: float = UNCHANGED_SECONDS,
    copied: bool = False,
) -> Plan:
    """Plans a rescue. Pure; ``now`` in epoch seconds.

    ``sink`` is None where nothing shows that a batch ran, and there was no sink's log to ask.
    ``held_by`` names what shows that the query lives. ``state_folder``: whether there is a folder
    ``state`` at all, be it empty. ``copied``: it is a savepoint that no query has gone on from.
    """
    layout = checkpoint.layout
    base = layout.latest_finished
    opened = open_batches(checkpoint)
    moves = [
        *_state_moves(checkpoint, base, state_folder=state_folder),
        *_log_moves(checkpoint, base),
    ]
    refusals: list[Finding] = []
    notes: list[str] = []
    doubts: list[str] = []
    accepted = False
    if moves:
        refusals += refuse_if_held(
            layout.newest, held_by, now=now, unchanged_seconds=unchanged_seconds
        )
        gone = tuple(f"{move.path}/" if move.folder else f"{move.path}: " for move in moves)
        refusals += _refuse_if_unsound(checkpoint, soundness, opened, gone)
        refusals += _refuse_unknown_logs(checkpoint, base)
        if sink is not None and not sink.safe:
            accepted = accept_duplicates and not sink.passes_over
            if accepted:
                doubts.append(
                    f"--accept-duplicates: {sink.detail}. Rows of it that are there already"
                    f" will come a second time. {_by_batch_id(checkpoint, base, opened)}"
                )
            else:
                refusals.append(_sink_refusal(checkpoint, sink, base=base, opened=opened))
        elif sink is not None:
            notes.append(f"sink: {sink.detail}")
        notes += [
            f"{one.evidence}; {one.remedy}"
            for one in soundness.findings
            if one.check == "state_schema_elsewhere"
        ]
        begun = batch_begun(checkpoint)
        if not opened and begun is not None:
            notes.append(
                f"offsets/{begun} is gone, yet state of batch {begun} is there: the batch has run"
            )
        elif not opened and sink is None:
            doubts += _offsets_gone(checkpoint, base)
        doubts += [
            f"source {source.index} is of a connector that Weir does not know: where it keeps"
            " outside of the checkpoint what a batch reads, the batch comes back as it was, or rows"
            " are passed over; its documentation tells"
            for source in checkpoint.sources
            if source.kind in ("other", "numbered")  # a number alone is of any connector's
        ]
        doubts += _begins_anew(checkpoint, base)
        doubts += _passed_over(checkpoint)
        doubts += _late_rows(checkpoint, base)
        if unchanged_seconds > 0:
            notes.append(
                "a query that hangs writes nothing: make sure that none runs on this checkpoint"
            )
    elif copied:
        notes.append(
            f"a savepoint leaves out what was open: a start from it plans batch {base + 1} anew, of"
            f" other rows, so it wants a sink that is empty or rolled back to batch {base}"
        )
        if sink is not None and not sink.safe:
            accepted = accept_duplicates and not sink.passes_over
            if accepted:
                doubts.append(f"--accept-duplicates: {sink.detail}. {BY_BATCH_ID}")
            else:
                refusals.append(_sink_of_savepoint(sink, base))
        elif sink is not None:
            notes.append(f"sink: {sink.detail}")
    return Plan(
        checkpoint=checkpoint.name,
        query_id=checkpoint.query_id,
        base_batch=base,
        open_batch=opened[-1] if opened else None,
        moves=moves,
        refusals=refusals,
        notes=[*notes, *doubts],
        accepted=accepted,
        conditional=bool(doubts),
    )


def refuse_if_held(
    newest: float, held_by: list[str], *, now: float, unchanged_seconds: float
) -> list[Finding]:
    """Refusals where a query may still run on the checkpoint."""
    found = [
        Finding(
            check="checkpoint_held",
            severity="error",
            evidence=holder,
            remedy="stop the query, and see that nothing restarts it meanwhile",
        )
        for holder in held_by
    ]
    age = now - newest
    if age < unchanged_seconds:
        when = f"{age:.0f} s ago" if age >= 0 else f"{-age:.0f} s ahead of the clock"
        found.append(
            Finding(
                check="checkpoint_held",
                severity="error",
                evidence=f"its last change was {when}: a query may be writing to it",
                remedy=f"stop the query and wait {unchanged_seconds:.0f} s"
                " (--unchanged-seconds sets another time)",
            )
        )
    return found


def _late_rows(checkpoint: Checkpoint, base: int) -> list[str]:
    """What smaller batches may drop: rows that Spark's watermark passes between two of them.

    It is zero until rows of every source that has one were read, and only an operator with state
    drops what is behind it.
    """
    logs = [one.watermark_ms for one in checkpoint.offsets.values()]
    logs += [one.next_watermark_ms for one in checkpoint.commits.values()]
    known = any(told for told in logs)
    stateless = base >= 0 and not checkpoint.operators and not checkpoint.layout.state
    if stateless or (not known and _all_read(checkpoint, base)):
        return []
    which = "this query has a watermark, which" if known else "where this query has a watermark, it"
    told = (
        f"{which} moves once a batch: several batches drop rows as late that one would count, such"
        " as are later than its delay, and where partitions or sources hold unequal times, such"
        " within it too. Where these must count, set no smaller limit: restart the query as it is,"
        " with more time or capacity; or rescue it, and restart it with a delay that spans all that"
        " waits"
    )
    return [told]


def _all_read(checkpoint: Checkpoint, base: int) -> bool:
    """Whether finished batches have surely read of every source."""
    finished = [one.sources for batch, one in checkpoint.offsets.items() if batch <= base]
    for source, ends in zip(checkpoint.sources, zip_longest(*finished), strict=False):
        told = [end for end in (source.began, *ends) if end is not None]
        if all(end == told[0] for end in told):
            return False
    return bool(finished)


def _begins_anew(checkpoint: Checkpoint, base: int) -> list[str]:
    """Sources that begin anew without this batch, where nothing keeps at what they began.

    Kafka and Iceberg note it below ``sources/``, files their log. Delta keeps it in the offsets
    alone: after a version of which all was read they name the next one, with an index below zero
    (``DeltaSource.buildOffsetFromIndexedFile``).
    """
    finished = checkpoint.offsets.get(base)
    before = finished.sources if finished is not None else []
    noted = [file.path for file in checkpoint.layout.others]
    doubts = []
    for source in checkpoint.sources:
        began = source.index < len(before) and before[source.index] is not None
        kept = source.kind == "file" or bool(checkpoint.layout.sources.get(source.index))
        noted_there = any(path.startswith(f"{source.folder}/") for path in noted)
        if began or kept or noted_there or source.offset is None:
            continue
        said = (
            f"source {source.index}: the checkpoint does not keep where it began. Where it begins"
            " at what is newest (Delta: startingVersion=latest), it would begin behind this batch,"
            " and rows of it be lost without a word: tell it where to begin at the next start"
        )
        if source.kind == "delta":
            if source.offset.get("isStartingVersion") is True:
                continue  # the table as it was: it began with that, and would again
            version, index = source.offset.get("reservoirVersion"), source.offset.get("index")
            said += " (startingVersion: the first version after the query's first start"
            if isinstance(version, int) and isinstance(index, int):
                said += f", no later than version {version - (index < 0)}"
            said += "; DESCRIBE HISTORY has their times)"
        doubts.append(said)
    return doubts


def _passed_over(checkpoint: Checkpoint) -> list[str]:
    """What Iceberg may pass over at a start that plans this batch anew (apache/iceberg#10156).

    Without the option a stream that has read nothing yet would begin at the oldest snapshot.
    """
    return [
        f"source {source.index}: where this query sets stream-from-timestamp, a start at which that"
        " is later than the table's newest snapshot (as now may be) passes over all that waits,"
        " this batch too: give it once the time of the start that planned this batch"
        for source in checkpoint.sources
        if source.kind == "iceberg"
    ]


def _offsets_gone(checkpoint: Checkpoint, base: int) -> list[str]:
    """Where offsets without a trace of state are gone: never planned, or somebody removed them."""
    ends = {
        source.index: _base_log_offset(checkpoint, base, source.index)
        for source in checkpoint.sources
        if source.kind == "file"
    }
    if any(
        entry.batch_id > end
        for index, end in ends.items()
        for entry in checkpoint.layout.sources.get(index, [])
    ):
        gone = f"offsets/{base + 1}"
        doubt = (
            f"a source noted files that no batch has taken; if somebody removed {gone}, its batch"
            f" may be in the sink, and its rows come twice there. {BY_BATCH_ID}"
        )
        return [doubt]
    return []


def _state_moves(checkpoint: Checkpoint, base: int, *, state_folder: bool) -> list[Move]:
    layout = checkpoint.layout
    if base < 0:
        # No batch has ever finished, so all of it is of the unfinished one. Spark 4.1 and later
        # refuse to begin with a state folder that has anything in it, empty folders included.
        size = sum(file.size for files in layout.state.values() for file in files)
        size += sum(file.size for files in layout.shared.values() for file in files)
        return [Move("state", size, layout.newest, "state", folder=True)] if state_folder else []
    doomed: list[tuple[str, int, float]] = [
        (file.path, file.size, file.modified)
        for files in layout.state.values()
        for file in files
        if file.version > base + 1
    ]
    doomed += [
        (file.path, file.size, file.modified)
        for file in layout.schemas
        if (schema_batch(file.path) or 0) > base
    ]
    doomed.sort(key=lambda file: file[0])
    return [move for file in doomed for move in _with_checksums(checkpoint, *file, group="state")]


def _log_moves(checkpoint: Checkpoint, base: int) -> list[Move]:
    layout = checkpoint.layout
    moves = _leftovers(checkpoint) if base < 0 else []
    for batch_id in sorted(layout.offsets, reverse=True):
        if batch_id > base:
            file = layout.offsets[batch_id]
            moves += _with_checksums(
                checkpoint, file.path, file.size, file.modified, group="offsets"
            )
    for source in checkpoint.sources:
        if source.kind != "file":
            continue
        end = _base_log_offset(checkpoint, base, source.index)
        for entry in reversed(layout.sources.get(source.index, [])):
            if entry.batch_id > end:
                moves += _with_checksums(
                    checkpoint, entry.path, entry.size, entry.modified, group="source"
                )
    return moves


def _leftovers(checkpoint: Checkpoint) -> list[Move]:
    """Unfinished writes in the logs: Spark 4.1 and later begin only where there are none."""
    layout = checkpoint.layout
    logs = {file.path for file in (*layout.offsets.values(), *layout.commits.values())}
    found = list(layout.temporary)
    found += [
        file for owner, files in layout.checksums.items() if owner not in logs for file in files
    ]
    return [
        Move(file.path, file.size, file.modified, "offsets")
        for file in sorted(found, key=lambda file: file.path)
        if file.path.startswith(("offsets/", "commits/"))
    ]


def _with_checksums(
    checkpoint: Checkpoint, path: str, size: int, modified: float, *, group: Group
) -> list[Move]:
    """A file after its checksums: a file without them is unchecked, never wrong."""
    companions: list[FileEntry] = sorted(
        checkpoint.layout.companions(path), key=lambda file: file.path
    )
    moves = [Move(file.path, file.size, file.modified, group) for file in companions]
    return [*moves, Move(path, size, modified, group)]


def _base_log_offset(checkpoint: Checkpoint, base: int, source: int) -> int:
    offsets = checkpoint.offsets.get(base)
    if offsets is None or source >= len(offsets.sources):
        return -1
    return log_offset(offsets.sources[source])


def _refuse_if_unsound(
    checkpoint: Checkpoint, soundness: Soundness, opened: list[int], gone: tuple[str, ...]
) -> list[Finding]:
    """What else is wrong with it, of what stays; ``gone``: what moves, as a finding begins."""
    refusals = []
    asynchronous = looks_asynchronous(checkpoint)
    base = checkpoint.layout.latest_finished
    if base >= 0 and base not in checkpoint.offsets:
        refusals.append(
            Finding(
                check="offsets_missing",
                severity="error",
                evidence=f"offsets/{base} of the newest commit is missing or unreadable: where to"
                " plan from is not known",
                remedy="restore the file from a savepoint",
            )
        )
    # A start without a commit runs the newest offsets again, and the sink was asked of none before.
    if not checkpoint.layout.commits and base >= 0:
        refusals.append(
            Finding(
                check="commits_missing",
                severity="error",
                evidence=f"no batch is noted as finished: with batch {base + 1} moved aside a start"
                f" runs batch {base} again",
                remedy="restart the query as it is, with more time or capacity, and let it finish"
                " one batch",
            )
        )
    # Without what moves the base's offsets are the newest, and a start reads those before, too.
    if opened and base > 0 and base - 1 not in checkpoint.offsets and not asynchronous:
        why = checkpoint.unreadable.get(f"offsets/{base - 1}", "missing")
        refusals.append(
            Finding(
                check="offsets_missing",
                severity="error",
                evidence=f"offsets/{base - 1}: {why}. With batch {opened[-1]} moved aside a start"
                f" reads it, and Spark fails: batch {base - 1} doesn't exist",
                remedy="restore the file from a savepoint, or start from one; as it is, the query"
                f" can only run batch {opened[-1]} as it was planned"
                " (spark.sql.streaming.minBatchesToRetain of 2 or more keeps the file)",
            )
        )
    if asynchronous:
        refusals.append(
            Finding(
                check="asynchronous_progress",
                severity="error",
                evidence="the logs have holes, as asynchronous progress tracking leaves them:"
                " which batches have reached the sink is not known",
                remedy=f"restart the query as it was{restart_asynchronous(checkpoint)}. No batch of"
                " it can be rescued while the logs keep batches with holes: they keep the last"
                " spark.sql.streaming.minBatchesToRetain (100)",
            )
        )
    elif len(opened) > 1:
        refusals.append(
            Finding(
                check="offsets_without_commits",
                severity="error",
                evidence=f"{len(opened)} batches are open ({opened[0]} to {opened[-1]}); only one"
                " can be re-planned",
                remedy="start from a savepoint; the commits between were lost",
            )
        )
    # Said above; what a rescue mends; noted.
    said, noted = "offsets_without_commits", "state_schema_elsewhere"
    of_offsets = ("repartition_unfinished", "partitions_untold")
    mended = ("leftovers_at_start", *of_offsets, "state_without_offsets")
    passed = (said, *mended, noted)
    return refusals + [
        error
        for error in soundness.errors
        if error.check not in passed
        and not (error.evidence.startswith(gone) and _goes_with_it(error))
    ]


def _goes_with_it(error: Finding) -> bool:
    """Whether what is wrong with a file that moves aside is no concern of a start.

    What cannot be read of the logs is refused all the same: it tells what there was.
    """
    of_state = error.evidence.startswith("state/")
    return error.check == "file_damaged" or (error.check == "log_unreadable" and of_state)


def _refuse_unknown_logs(checkpoint: Checkpoint, base: int) -> list[Finding]:
    """A source's own log must be whole without what moves, and of a form that is known."""
    refusals = []
    for source in checkpoint.sources:
        entries = checkpoint.layout.sources.get(source.index, [])
        if source.kind == "file":
            end = _base_log_offset(checkpoint, base, source.index)
            missing = chain_of(entries, end)[1]
            if missing:
                refusals.append(
                    Finding(
                        check="source_log_incomplete",
                        severity="error",
                        evidence=f"{source.folder}: without the entries past {end},"
                        f" {missing[0].start} and {how_many(missing) - 1} others are missing: they"
                        " stand only"
                        " in a compacted entry of the open batch",
                        remedy="start from a savepoint",
                    )
                )
            kept = [(one.batch_id, one.compact) for one in entries if one.batch_id <= end]
            passed = passed_by(kept)
            before = passed_by((one.batch_id, one.compact) for one in entries)
            # Where a start guesses now, too, the doubt is not of our making.
            if passed is not None and (passed.sure or before is None) and not missing:
                refusals.append(
                    Finding(
                        check="source_log_incomplete",
                        severity="error",
                        evidence=f"{source.folder}: without the entries past {end},"
                        f" {passed.evidence}",
                        remedy="start from a savepoint",
                    )
                )
        elif own := _kept_by(checkpoint, source):
            refusals.append(
                Finding(
                    check="source_log_unknown",
                    severity="error",
                    evidence=f"{own}: of a form that Weir does not know; by it the source may bring"
                    " the batch back as it was, or pass over rows of it",
                    remedy="restart the query as it is, with more time or capacity: only Spark's"
                    " own file sources keep a log that can be re-planned",
                )
            )
    return refusals


def _kept_by(checkpoint: Checkpoint, source: SourceInfo) -> str | None:
    """A file that a source keeps for itself, but where it began: Kafka's 0, Iceberg's offsets/0."""
    layout = checkpoint.layout
    own = [one.path for one in layout.sources.get(source.index, []) if one.batch_id > 0]
    own += [one.path for one in layout.others if one.path.startswith(f"{source.folder}/")]
    return next((path for path in own if path != f"{source.folder}/offsets/0"), None)


def _sink_refusal(
    checkpoint: Checkpoint, sink: SinkVerdict, *, base: int, opened: list[int]
) -> Finding:
    back = (
        f"Take the sink back to batch {base} first (the entries of its log past that, and the files"
        " that only they name, moved aside)"
    )
    if sink.passes_over:
        level = bool(opened) and sink.newest_batch == opened[-1]
        if level and checkpoint.state_format == 2:
            remedy = (
                f"{back}, then restart, or rescue again. As it is a restart fails each time: where"
                " the sink passes over a batch no task reports its state, and checkpoint format 2"
                " wants the ids of all (AssertionError: CheckpointInfo length)"
            )
        elif level:
            remedy = (
                f"restart the query as it is{_with(checkpoint, opened)}, which --accept-duplicates"
                " does not change: it finds the batch in the sink, passes over it, and goes on"
            )
        else:
            # Whatever is planned under an id that the sink has is dropped there.
            remedy = (
                f"do not restart the query: it would plan batches up to {sink.newest_batch} anew,"
                f" and the sink drop them. {back}"
            )
            if not opened and sink.newest_batch == base + 1:
                remedy += f"; or put offsets/{base + 1} back as it was, and restart then"
            remedy += f". {READ_AGAIN}"
        return Finding(
            check="sink_may_hold_batch", severity="error", evidence=sink.detail, remedy=remedy
        )
    if sink.by_batch_id:
        return Finding(
            check="sink_may_hold_batch",
            severity="error",
            evidence=sink.detail,
            remedy=f"{_by_batch_id(checkpoint, base, opened)}; if it surely has not,"
            " --accept-duplicates",
        )
    return Finding(
        check="sink_may_hold_batch",
        severity="error",
        evidence=sink.detail,
        remedy="say what the sink is: --sink upsert (each row of every batch written by its key,"
        " whatever the batch's id), --sink none (memory, console), --sink-path DIR (Spark's file"
        " sink, which is then asked); or --accept-duplicates: rows of this batch that the sink has"
        " will come twice."
        f" {_by_batch_id(checkpoint, base, opened)}",
    )


def _sink_of_savepoint(sink: SinkVerdict, base: int) -> Finding:
    told = (
        ""
        if sink.passes_over or sink.by_batch_id
        else "say what the sink is (--sink, --sink-path), or "
    )
    return Finding(
        check="sink_may_hold_batch",
        severity="error",
        evidence=sink.detail,
        remedy=f"{told}do not start from it before the sink is rolled back to batch {base}: weir"
        f" savepoint DIR --rollback-sink OUT lists how for Spark's file sink. {READ_AGAIN}",
    )


def _with(checkpoint: Checkpoint, opened: list[int]) -> str:
    """The setting that a restart needs."""
    untold = bool(opened) and partitions_untold(checkpoint, opened[-1])
    return f", with {CHECKS_REPARTITION}=false (Spark 4.2.0 fails without)" if untold else ""


def _by_batch_id(checkpoint: Checkpoint, base: int, opened: list[int]) -> str:
    """What neither the checkpoint nor the user's word on duplicates can exclude."""
    instead = f"restart the query instead{_with(checkpoint, opened)}"
    if not opened:
        instead = f"put offsets/{base + 1} back as it was and restart the query instead"
    return f"{BY_BATCH_ID}, and if it has the batch, {instead}"
