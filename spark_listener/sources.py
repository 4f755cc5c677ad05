"""What is known of the sources that Spark reads, a row each.

A source of which there is no row is steered by the limit that is configured for it, if that is of
a class of Spark's own, and only by that; its backlog is what it tells in its metrics. Where more is
known, a row says it, and docs/driver.md says it to people.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from spark_listener.wire import Unit


@dataclass(frozen=True)
class FileOptions:
    """What of a file source's options couples to its limit."""

    latest_first: bool
    file_name_only: bool


@dataclass(frozen=True)
class TableOptions:
    """The same of an Iceberg table's."""

    plans_ahead: bool  # in a thread of its own, from 1.11 on
    available_now: bool  # the run ends when nothing more is planned
    from_a_time: bool = False  # stream-from-timestamp is set


#: Given the kinds of limit that are configured, and such options of a source (None where they could
#: not be read): the option under which a limit of ours changes which rows are read, or leaves some
#: waiting, and what it does; "" where there is none.
Options = FileOptions | TableOptions
Couples = Callable[[frozenset[str], "Options | None"], str]

MINIMUM: Final = "a minimum of rows: how the source counts it beside a smaller limit is not known"


def _minimum(kinds: frozenset[str], _options: Options | None) -> str:
    # It may count what is left of it after the limit: then every batch waits its whole delay.
    return MINIMUM if "min_rows" in kinds else ""


@dataclass(frozen=True)
class Known:
    """One source. What is left out is so of most."""

    classes: tuple[str, ...]  # of the JVM
    takes: Unit | None = None  # obeys a limit of this unit although none is configured
    beside_minimum: bool = False  # ... and beside a ReadMinRows too
    deaf: bool = False  # hands out a limit of its own and then does not look at it
    misread: str = ""  # why its limit is left alone though it looks at it: what it means by it
    obeys: bool = False  # was seen to keep to limits that change; of others each run is watched
    obeys_from: tuple[int, int] | None = None  # the release that first looked at a changed limit
    ints: tuple[Unit, ...] = ()  # units of which it holds an int where Spark's limit holds a long
    unit_first: Unit | None = None  # the maximum that is changed where several are configured
    files: bool = False  # Spark's own source of files: its directory can be listed
    kafka_offsets: bool = False  # its offsets count rows, by topic and partition as Kafka's do
    table: Literal["iceberg", "delta"] | None = None  # what waits stands in its own history
    in_order: bool = False  # it reads what came first before what came later, wherever it is cut
    couples: Couples = _minimum


LATEST_FIRST: Final = (
    "latestFirst: with a limit that the job did not set, Spark forgets files older than maxFileAge"
)
FILE_NAME_ONLY: Final = (
    "fileNameOnly: how many files of one name are read depends on how batches are cut"
)
MINIMUM_OFFSETS: Final = (
    "minOffsetsPerTrigger: what a smaller batch leaves below it waits, up to maxTriggerDelay, "
    "under AvailableNow for the next run"
)
PLANNED_AHEAD: Final = (
    "async-micro-batch-planning-enabled: under AvailableNow a limit ends the run where no file is "
    "planned ahead just then"
)
PASSED_OVER: Final = (
    "stream-from-timestamp: where it is later than the table's newest snapshot, a start passes over"
    " all that waits, and a limit leaves more"
)
BEGINS_ANEW: Final = (
    "scan.mode: before Paimon 2.0 a restart may pass over what is unread at a stop, and a limit "
    "decides what is"
)
UNREADABLE: Final = "its options cannot be read, so nobody knows that a limit loses no rows"


def _of_files(kinds: frozenset[str], files: Options | None) -> str:
    if not isinstance(files, FileOptions):
        return UNREADABLE
    # A configured limit makes Spark ignore maxFileAge from the start; in Spark 3.5, which
    # knows no maxBytesPerTrigger, such an option alone is no limit.
    if files.latest_first and kinds == {"all"}:
        return LATEST_FIRST
    return FILE_NAME_ONLY if files.file_name_only else ""


def _of_kafka(kinds: frozenset[str], _options: Options | None) -> str:
    return MINIMUM_OFFSETS if "min_rows" in kinds else ""


def _of_iceberg(kinds: frozenset[str], table: Options | None) -> str:
    if not isinstance(table, TableOptions):
        return UNREADABLE
    if table.from_a_time:
        # At such a start the stream's place is forgotten, whatever the checkpoint says
        # (apache/iceberg#10156); whether the next start names a later time, nobody knows.
        return PASSED_OVER
    ends_early = table.plans_ahead and table.available_now
    # With a limit of the job's own the run ends so, too.
    return PLANNED_AHEAD if ends_early and kinds == {"all"} else _minimum(kinds, table)


def _of_paimon(kinds: frozenset[str], table: Options | None) -> str:
    # latest-full, its default, and latest begin a run where the table ends, whatever the checkpoint
    # says (apache/paimon#8205); neither mode nor release is asked: nobody has tried how.
    return _minimum(kinds, table) or BEGINS_ANEW


KAFKA: Final = Known(
    (
        "org.apache.spark.sql.kafka010.KafkaMicroBatchStream",
        "org.apache.spark.sql.kafka010.KafkaSource",  # where Spark's conf disables the other
    ),
    obeys=True,
    takes="rows",
    beside_minimum=True,
    kafka_offsets=True,
    couples=_of_kafka,
)
FILES: Final = Known(
    (
        "org.apache.spark.sql.execution.streaming.FileStreamSource",  # to 4.0
        "org.apache.spark.sql.execution.streaming.runtime.FileStreamSource",  # from 4.1
    ),
    obeys=True,
    takes="files",
    files=True,
    in_order=True,
    couples=_of_files,
)
ICEBERG: Final = Known(
    ("org.apache.iceberg.spark.source.SparkMicroBatchStream",),
    obeys=True,
    takes="files",
    obeys_from=(1, 10),  # the ones before ask their own option, whatever limit Spark gives them
    unit_first="files",  # of a composite it is files that it cuts at
    ints=("rows",),  # 1.10: a larger limit ends the query
    table="iceberg",
    in_order=True,
    couples=_of_iceberg,
)
#: What reads tables that a catalog manages, from Delta 4.1 on, and its name from 4.4 on.
DELTA_KERNELS: Final = (
    "io.delta.spark.internal.v2.read.SparkMicroBatchStream",
    "io.delta.spark.internal.v2.read.DeltaV2MicroBatchStream",
)
DELTA: Final = Known(
    ("org.apache.spark.sql.delta.sources.DeltaSource", *DELTA_KERNELS),
    obeys=True,
    table="delta",
    in_order=True,
)
RATE_PER_MICRO_BATCH: Final = Known(
    ("org.apache.spark.sql.execution.streaming.sources.RatePerMicroBatchStream",), deaf=True
)
#: From 10.7 and 11.1 on it gives its option as a limit, and then asks the option (seen in r11.1.0).
MONGODB: Final = Known(("com.mongodb.spark.sql.connector.read.MongoMicroBatchStream",), deaf=True)
#: ``approx_bytes_per_trigger`` comes as ReadMaxRows, and goes to getNextStreamCut as bytes.
PRAVEGA: Final = Known(
    ("io.pravega.connectors.spark.PravegaMicroBatchStream",),
    misread="the source counts bytes where its limit says rows",
)
PAIMON: Final = Known(
    ("org.apache.paimon.spark.sources.PaimonMicroBatchStream",), couples=_of_paimon
)
#: Spark's own sources, of which there are rows of a few only: rate, socket, memory.
_SPARKS_OWN: Final = "org.apache.spark.sql.execution.streaming."
SOURCES: Final = (KAFKA, FILES, ICEBERG, DELTA, RATE_PER_MICRO_BATCH, MONGODB, PRAVEGA, PAIMON)

_OTHER: Final = Known(())
_BY_CLASS: Final = {name: one for one in SOURCES for name in one.classes}


def known(source_class: str) -> Known:
    """The row of a source's class; of any other what is so of most."""
    return _BY_CLASS.get(source_class, _OTHER)


def is_wrapped(source_class: str) -> bool:
    """Whether it is Spark's stand-in, under AvailableNow, for a source that does not know that."""
    return "AvailableNow" in source_class and "Wrapper" in source_class


def reads_all(source_class: str) -> bool:
    """Whether a batch takes all there is, where Spark knows of no limit.

    One that others wrote may have a limit of its own: Event Hubs reads 1,000 rows of a partition.
    Of a wrapped one it is not seen who wrote it.
    """
    row = known(source_class)
    own = source_class.startswith(_SPARKS_OWN) and not is_wrapped(source_class)
    return own or row.takes is not None or row.table is not None
