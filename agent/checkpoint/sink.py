"""What a sink may hold of a batch that never finished.

A checkpoint does not name its sink: the user does, or the agent that watched the query. Spark's
file sink is asked itself, by its ``_spark_metadata`` log. Every other sink may hold any part of a
batch that was planned, since its tasks write before the batch is committed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from agent.checkpoint.folder import CheckpointError, LocalFolder, local_path, reported
from agent.checkpoint.layout import COMPACT_INTERVAL, file_log_entries, gaps, passed_by

if TYPE_CHECKING:
    from pathlib import Path

SinkKind = Literal["upsert", "file", "none", "append", "unknown"]
SINK_KINDS: Final = ("upsert", "file", "none", "append")
#: A list that is used later passes over the batches written since, and with them go rows.
OF_NOW: Final = (
    "This is of now: a query that still runs adds batches, so make the list again once it is"
    " stopped, just before the start"
)
#: A batch that a sink gives up, or never had, comes back from the source alone.
READ_AGAIN: Final = (
    "The source must still hold what those batches read, or their rows are lost, of files without a"
    " word: with cleanSource=archive move the archived files back first; what cleanSource=delete, a"
    " topic's retention or a table's VACUUM has removed cannot come back"
)
_LOG_NAME = re.compile(r"(\d{1,18})(\.compact)?\Z")
#: Spark's own sinks that keep nothing beyond the query's run, as progress describes them: by a
#: name, or by the class and an object's address. A path or a table's name never makes a sink one.
_KEEPS_NOTHING = re.compile(
    r"(org\.apache\.spark\.(\w+\.)*)?"
    r"(MemorySink|ContinuousMemorySink|ConsoleTable|ConsoleSink|NoopTable|noop-table)"
    r"\$?(@[0-9a-f]+)?"
)
_FILE_SINK = re.compile(r"FileSink\[(?P<path>.+)\]\Z")
#: Sinks that pass over the batch ids they have, whatever their operation: Delta, Hudi, LakeSoul,
#: Elasticsearch's and OpenSearch's, told by class and address; Databricks' of Azure Synapse, which
#: keeps them in a table (https://docs.databricks.com/archive/azure/stream-synapse.html);
#: Snowflake's of its connectors up to 2.15, whose files are called BATCH/PARTITION, and the pipe,
#: which a restart after a kill finds as it was, passes over names that it has loaded
#: (``SnowflakeSink.addBatch``, ``verifyPipe``); and Iceberg, whose table describes itself by its
#: name or place alone.
_BY_BATCH_ID = re.compile(
    r"(DeltaSink|HoodieStreamingSink|LakeSoulSink)\[.*\]"
    r"|org\.(elasticsearch|opensearch)\.[\w.]+SparkSqlStreamingSink(@[0-9a-f]+)?"
    r"|com\.databricks\.spark\.sqldw\.[\w.$]+(@[0-9a-f]+)?"
    r"|net\.snowflake\.spark\.snowflake\.(streaming\.)?SnowflakeSink(@[0-9a-f]+)?"
    r"|[^\s@$=()\[\]{}]+[./][^\s@$=()\[\]{}]+"
)


class SinkVerdict(msgspec.Struct, frozen=True):
    """Whether re-planning a batch can repeat rows in the sink, or lose them.

    ``passes_over``: it has the batch's id already, so it drops whatever is planned under it next.
    """

    kind: SinkKind
    safe: bool
    detail: str
    passes_over: bool = False
    by_batch_id: bool = False  # it does so where it has the id, which is not known
    newest_batch: int | None = None  # of the sink's own log, where it has one


class FileSinkLog(msgspec.Struct, frozen=True):
    """A file sink's ``_spark_metadata``: the batches it names."""

    batches: list[int]
    compacted: list[int]

    @property
    def newest(self) -> int:
        """The newest batch it holds; -1 for none."""
        return max(self.batches, default=-1)


def read_sink_log(path: Path) -> FileSinkLog | None:
    """The log of a file sink; None where there is none. Raises CheckpointError."""
    folder = path / "_spark_metadata"
    with reported(str(path)):
        if not folder.is_dir():
            return None
        found = [match for entry in folder.iterdir() if (match := _LOG_NAME.match(entry.name))]
    return FileSinkLog(
        batches=sorted({int(match[1]) for match in found}),
        compacted=sorted(int(match[1]) for match in found if match[2]),
    )


def keeps_nothing(description: str) -> bool:
    """Whether progress's description is that of a sink of Spark's that nothing outlasts."""
    return _KEEPS_NOTHING.fullmatch(description) is not None


def knows_batch_ids(description: str) -> bool:
    """Whether progress's description is that of a sink that passes over batch ids it has."""
    return _BY_BATCH_ID.fullmatch(description) is not None


def recognise(description: str) -> tuple[SinkKind, str | None]:
    """The kind of a sink by progress's description, and a file sink's path."""
    if match := _FILE_SINK.match(description):
        return "file", match["path"]
    if keeps_nothing(description):
        return "none", None
    return ("append" if description else "unknown"), None


def judge_sink(
    kind: SinkKind,
    sink_path: str | None,
    *,
    base_batch: int,
    open_batch: int,
    description: str = "",
    noted: tuple[str, int] | None = None,
) -> SinkVerdict:
    """Whether the sink may hold part of the open batch. Raises CheckpointError on wrong input.

    ``description``: what progress told of it, where an agent has heard of the query. ``noted``: the
    newest batch that it says in the checkpoint to have, and where.
    """
    if noted is not None and noted[1] >= open_batch:
        return SinkVerdict(
            kind=kind,
            safe=False,
            detail=f"{noted[0]}: the sink has batch {noted[1]}; planned anew, all of batch"
            f" {open_batch} would be dropped there, and the rows that are new in it lost",
            passes_over=True,
            newest_batch=noted[1],
        )
    if sink_path is not None:
        if kind not in ("file", "unknown"):
            raise CheckpointError(
                f"--sink-path {sink_path}: is of Spark's file sink, and --sink {kind} is another;"
                " leave one of them out"
            )
        return _file_sink(sink_path, base_batch, open_batch)
    if kind == "file":
        raise CheckpointError("--sink file needs --sink-path: the folder that the query writes to")
    if knows_batch_ids(description):
        return SinkVerdict(
            kind=kind,
            safe=False,
            detail=f"by its progress the query writes to {description}: a sink that passes over"
            f" batch ids it has, written by key or not, and it may hold batch {open_batch}",
            by_batch_id=True,
        )
    if kind == "upsert":
        return SinkVerdict(
            kind=kind, safe=True, detail="writes each row by its key, so a repeat changes nothing"
        )
    if kind == "none":
        return SinkVerdict(kind=kind, safe=True, detail="keeps nothing beyond the query's run")
    what = "the sink appends" if kind == "append" else "the sink is not known"
    return SinkVerdict(
        kind=kind,
        safe=False,
        detail=f"{what} and may hold any part of batch {open_batch}; re-planned, batch"
        f" {open_batch} means other rows, so not even a sink that knows batch ids can tell them",
    )


def _file_sink(sink_path: str, base_batch: int, open_batch: int) -> SinkVerdict:
    path = local_path(sink_path)
    if path is None:
        raise CheckpointError(f"{sink_path}: only a local folder can be asked what it holds")
    if not path.is_dir():
        raise CheckpointError(f"{sink_path}: no folder is there, or none that is seen from here")
    log = read_sink_log(path)
    if log is None:
        # The sink makes it before the first batch is planned: its absence tells of no batch.
        return SinkVerdict(
            kind="file",
            safe=False,
            detail=f"{sink_path} has no _spark_metadata, which Spark's file sink makes before a"
            " query's first batch: not this query's folder, or not written by that sink",
        )
    if log.newest >= open_batch:
        return SinkVerdict(
            kind="file",
            safe=False,
            detail=f"{sink_path} holds batch {open_batch} (its log names batch {log.newest});"
            f" planned anew, all of batch {open_batch} would be dropped there, and the rows that"
            " are new in it lost",
            passes_over=True,
            newest_batch=log.newest,
        )
    if log.newest < base_batch:
        return SinkVerdict(
            kind="file",
            safe=False,
            detail=f"{sink_path} ends at batch {log.newest}, the checkpoint at {base_batch}:"
            " another query's folder, or rolled back",
        )
    return SinkVerdict(
        kind="file",
        safe=True,
        detail=f"{sink_path} ends at batch {log.newest}: its readers see nothing of {open_batch}",
    )


class Rollback(msgspec.Struct, frozen=True):
    """What to move aside in a file sink so that it ends at a batch; ``possible`` says whether."""

    sink: str
    batch_id: int
    possible: bool
    detail: str
    log_entries: list[str]  # below _spark_metadata
    data_files: list[str]  # as the log names them
    missing_entries: list[str] = []  # to write below _spark_metadata, each the one line "v1"


def advise_rollback(path: Path, batch_id: int) -> Rollback:
    """How a file sink gets back to the end of a batch. Changes nothing. Raises CheckpointError."""
    log = read_sink_log(path)
    if log is None and path.is_dir() and not any(path.iterdir()):
        return Rollback(
            sink=str(path),
            batch_id=batch_id,
            possible=True,
            detail="is empty: Spark's readers and its own compaction want an entry for every batch,"
            ' so write the line "v1" into each of these before the start',
            log_entries=[],
            data_files=[],
            missing_entries=empty_entries(batch_id),
        )
    if log is None:
        raise CheckpointError(f"{path}: has no _spark_metadata: not a folder of Spark's file sink")
    names = {number: str(number) for number in log.batches}
    names |= {number: f"{number}.compact" for number in log.compacted}
    later = [names[number] for number in log.batches if number > batch_id]
    base = max((number for number in log.compacted if number <= batch_id), default=-1)
    gone = gaps(log.batches, base + 1, batch_id)
    passed = passed_by((n, n in log.compacted) for n in log.batches if n <= batch_id)
    # Where a start guesses now, too, the doubt is not of a rollback's making.
    before = passed_by((n, n in log.compacted) for n in log.batches)
    blocked = passed is not None and (passed.sure or before is None)
    kept = _named_files(path, [names[n] for n in log.batches if n <= batch_id])
    alone = sorted(_named_files(path, later) - kept)
    if log.newest < batch_id:
        detail = (
            (f"ends at batch {log.newest}" if log.newest >= 0 else "holds no batch")
            + f", before batch {batch_id}: another query's folder, or rolled back too far; a start"
            f" after batch {batch_id} never writes the batches between"
        )
    elif gone and any(number > gone[0].start for number in log.compacted):
        detail = (
            f"cannot be rolled back: batch {gone[0].start} stands only in a later compacted entry;"
            " restore to an empty sink"
        )
    elif gone:
        detail = (
            f"cannot be rolled back: the entry of batch {gone[0].start} is missing; restore to an"
            " empty sink"
        )
    elif passed is not None and blocked:
        detail = f"cannot be rolled back: {passed.evidence}; restore to an empty sink"
    elif not later:
        detail = f"ends at batch {log.newest}: nothing to roll back. {OF_NOW}"
    else:
        detail = (
            f"move aside {len(later)} entries of _spark_metadata (with their .crc) and the"
            f" {len(alone)} data files that only they name. {READ_AGAIN}. {OF_NOW}"
        )
    return Rollback(
        sink=str(path),
        batch_id=batch_id,
        possible=not gone and not blocked,
        detail=detail if passed is None or blocked else f"{detail}. In doubt: {passed.evidence}",
        log_entries=later,
        data_files=alone,
    )


def empty_entries(batch_id: int, compact_interval: int = COMPACT_INTERVAL) -> list[str]:
    """The names of the log entries that stand for batches 0 to ``batch_id`` with nothing in them.

    Spark reads from the newest compacted entry on; a batch before it needs none.
    """
    compacted = (batch_id + 1) // compact_interval * compact_interval - 1
    names = [f"{compacted}.compact"] if compacted >= 0 else []
    return names + [str(number) for number in range(compacted + 1, batch_id + 1)]


def _named_files(path: Path, entries: list[str]) -> set[str]:
    return {named for name in entries for named in _named_by(path / "_spark_metadata" / name)}


def _named_by(entry: Path) -> list[str]:
    try:
        named = file_log_entries(LocalFolder(entry.parent), entry.name)
        return [str(one["path"]) for one in named]
    except OSError as error:
        raise CheckpointError(f"{entry}: {error.strerror}") from None
    except (ValueError, msgspec.MsgspecError, KeyError, TypeError):
        raise CheckpointError(f"{entry}: not a log of Spark's file sink") from None
