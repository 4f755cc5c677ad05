"""The consistency audit: what speaks against a query's promise of exactly once.

Takes what is known of a query, from its checkpoint, from progress as Spark tells it, from its
options where they are known, and gives findings. What is not known is not judged. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from agent.checkpoint.folder import local_path, same_place
from agent.checkpoint.sink import keeps_nothing, knows_batch_ids
from agent.core.judgement import Finding, Severity
from agent.core.names import OF_ONE_RUN

if TYPE_CHECKING:
    from agent.checkpoint.layout import Checkpoint

#: Every check's name: what the label ``check`` of a metric can be.
CHECKS: Final = (
    "source_not_replayable",
    "sink_at_least_once",
    "sink_not_durable",
    "location_not_durable",
    "location_shared",
    "two_writers",
    "transaction_timeout",
    "read_uncommitted",
    "log_unreadable",
    "metadata_missing",
    "commit_without_offsets",
    "commits_missing",
    "offsets_missing",
    "offsets_without_commits",
    "repartition_unfinished",
    "partitions_untold",
    "asynchronous_progress",
    "source_log_incomplete",
    "source_log_ahead",
    "state_incomplete",
    "state_ahead",
    "state_without_offsets",
    "state_schema_elsewhere",
    "snapshot_lag",
    "file_damaged",
    "temporary_files",
    "leftovers_at_start",
    "late_rows",
    "batch_ends",
    "sink_quota",
    "retention_unwatched",
)
#: What only the running query tells, its master and its settings, not its checkpoint.
OF_THE_RUN: Final = (
    "location_not_durable",
    "asynchronous_progress",
    "late_rows",
    "batch_ends",
    "sink_quota",
    "retention_unwatched",
)
#: Kafka's default for transaction.max.timeout.ms on a broker.
BROKER_LONGEST_TRANSACTION_MS: Final = 900_000
_SOCKET: Final = re.compile(r"(?i)textsocket")
_MEMORY_SOURCE: Final = re.compile(r"(?i)\bmemorystream\b")
_RATE: Final = re.compile(r"(?i)ratestream|ratepermicrobatch")
_FOREACH_BATCH: Final = re.compile(r"(?i)foreachbatch")
_FOREACH: Final = re.compile(r"(?i)foreachwriter|foreachsink")
_KAFKA_SINK: Final = re.compile(r"(?i)kafka")
_CLASS_ENDS: Final = re.compile(r"[\[( ]")
#: Of this machine's folders alone: a store's may have such a name and last.
TEMPORARY: Final = re.compile(r"/(tmp|temp|var/tmp|dev/shm)(/|\Z)")


class QueryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a query; empty where it is not."""

    query: str = ""
    sink: str = ""  # as progress describes it
    sources: list[str] = []  # as progress describes them
    checkpoint_location: str = ""
    master: str = ""
    deadline_seconds: float | None = None
    trigger: str = ""
    conf: dict[str, str] = {}  # Spark's, as the query's start told it
    options: dict[str, str] = {}  # of sources and sink, where the job tells them
    others: dict[str, str] = {}  # live queries → their checkpoint locations
    offset_times_ms: list[int] = []  # of the offset log, in order of batches


def audit(facts: QueryFacts) -> list[Finding]:
    """What speaks against exactly once, the sources first."""
    return [
        *_sources(facts),
        *_sink(facts),
        *_location(facts),
        *_writers(facts),
        *_progress(facts),
        *_transactions(facts),
    ]


def offset_times(checkpoint: Checkpoint) -> list[int]:
    """When each batch was planned, in order of batches; epoch milliseconds."""
    times = (checkpoint.offsets[batch].timestamp_ms for batch in sorted(checkpoint.offsets))
    return [time for time in times if time is not None]


def _sources(facts: QueryFacts) -> list[Finding]:
    found = []
    for index, description in enumerate(facts.sources):
        source = _CLASS_ENDS.split(description, maxsplit=1)[0]  # a topic or path has any name
        if _SOCKET.search(source):
            found.append(
                _finding(
                    "source_not_replayable",
                    "error",
                    f"source {index} is a socket: what it sent is gone after a failure",
                    "put a replayable source between, such as Kafka or files",
                )
            )
        elif _MEMORY_SOURCE.search(source) or _RATE.search(source):
            found.append(
                _finding(
                    "source_not_replayable",
                    "warning",
                    f"source {index} is a source for tests ({description[:60]})",
                    "use a replayable source, such as Kafka or files",
                )
            )
    return found


def _sink(facts: QueryFacts) -> list[Finding]:
    if keeps_nothing(facts.sink):
        return [
            _finding(
                "sink_not_durable",
                "warning",
                f"the sink keeps nothing beyond the query's run ({facts.sink[:60]})",
                "use a sink that lasts, such as files or a table",
            )
        ]
    if knows_batch_ids(facts.sink):
        return []  # Iceberg's is its table's name, which may be any
    sink = _CLASS_ENDS.split(facts.sink, maxsplit=1)[0]  # a path or table may have any name
    other_rows = _asynchronous(facts)  # may come under an id that was there already
    if _FOREACH_BATCH.search(sink):
        more = (
            ", or store the batch id and the query's (a new checkpoint counts from 0 again) with"
            " the rows in one transaction and pass over a batch that is there (but run its plan, as"
            " with count(), where state is in checkpoint format 2: Spark wants the ids of all)"
        )
        return [
            _finding(
                "sink_at_least_once",
                "warning",
                "foreachBatch runs again for a batch that did not commit",
                f"make it idempotent: write by row key{'' if other_rows else more}",
            )
        ]
    if _FOREACH.search(sink):
        return [
            _finding(
                "sink_at_least_once",
                "warning",
                "foreach writes rows again for a batch that did not commit",
                # Not by what open() is told: partitions differ from try to try (SPARK-28650).
                f"write by row key{'' if other_rows else ', or use foreachBatch'}",
            )
        ]
    if _KAFKA_SINK.search(sink):
        return [
            _finding(
                "sink_at_least_once",
                "warning",
                "Spark's Kafka sink is at-least-once: it writes rows of a retried task or batch"
                " again",
                "give rows a key and let readers keep the first or the last of each",
            )
        ]
    return []


def _location(facts: QueryFacts) -> list[Finding]:
    location = facts.checkpoint_location
    if not location:
        return []
    found = []
    path = local_path(location)
    if OF_ONE_RUN.search(location) or (path is not None and TEMPORARY.search(str(path))):
        found.append(
            _finding(
                "location_not_durable",
                "warning",
                f"the checkpoint is in a temporary folder: {location}",
                "set checkpointLocation to storage that outlives the machine",
            )
        )
    elif path is not None and facts.master and not facts.master.startswith("local"):
        named = location.startswith("file:")
        found.append(
            _finding(
                "location_not_durable",
                "warning" if named else "error",
                f"the checkpoint is at a path of each machine's own ({location}), unless a mount is"
                f" shared there, and the job runs on {facts.master}"
                if named
                else f"the checkpoint has no file system in its address ({location}), and the job"
                f" runs on {facts.master}: each machine may have its own",
                "set checkpointLocation to storage that all machines share, with its address",
            )
        )
    found += [
        _finding(
            "location_shared",
            "error",
            f"{other} uses the same checkpoint, {location}",
            "give each query a checkpoint of its own; two in one corrupt each other",
        )
        for other, place in facts.others.items()
        if place and other != facts.query and same_place(place, location)
    ]
    return found


def _writers(facts: QueryFacts) -> list[Finding]:
    times = facts.offset_times_ms
    back = next((i for i in range(1, len(times)) if times[i] < times[i - 1]), None)
    if back is None:
        return []
    return [
        _finding(
            "two_writers",
            "warning",
            f"a later batch was planned {(times[back - 1] - times[back]) / 1000:.1f} s before an"
            " earlier one",
            "either the driver's clock was set back, or two queries write to this checkpoint:"
            " make sure that only one does",
        )
    ]


def _progress(facts: QueryFacts) -> list[Finding]:
    # In real-time mode batches run before their offsets are known anyway, and Spark 4.3 writes them
    # so by itself where no state is kept (SPARK-58131), for every batch.
    if not _asynchronous(facts) or "RealTime" in facts.trigger:
        return []
    return [
        _finding(
            "asynchronous_progress",
            "warning",
            "asyncProgressTrackingEnabled is true: batches run before their offsets are on the"
            " disk, so after a failure rows come again in other batches",
            "make the sink tolerate repeats by row key, or turn it off where exactly once matters",
        )
    ]


def _asynchronous(facts: QueryFacts) -> bool:
    told = {key.lower(): value.lower() for key, value in (facts.conf | facts.options).items()}
    return told.get("asyncprogresstrackingenabled") == "true"


def _transactions(facts: QueryFacts) -> list[Finding]:
    options = {key.lower(): value for key, value in facts.options.items()}
    found = []
    timeout = options.get("kafka.transaction.timeout.ms", "")
    if timeout.isdigit():
        milliseconds = int(timeout)
        if milliseconds > BROKER_LONGEST_TRANSACTION_MS:
            found.append(
                _finding(
                    "transaction_timeout",
                    "error",
                    f"kafka.transaction.timeout.ms is {milliseconds}, above a broker's default"
                    f" maximum of {BROKER_LONGEST_TRANSACTION_MS}",
                    "lower it, or raise transaction.max.timeout.ms on the brokers",
                )
            )
        elif facts.deadline_seconds and milliseconds < facts.deadline_seconds * 1000:
            found.append(
                _finding(
                    "transaction_timeout",
                    "error",
                    f"kafka.transaction.timeout.ms is {milliseconds}, below the deadline of"
                    f" {facts.deadline_seconds:g} s: a slow batch is aborted by the broker",
                    "raise it above the deadline",
                )
            )
    if options.get("kafka.isolation.level", "") == "read_uncommitted":
        found.append(
            _finding(
                "read_uncommitted",
                "warning",
                "a source reads with kafka.isolation.level = read_uncommitted: rows of aborted"
                " transactions count",
                "set kafka.isolation.level to read_committed where producers are transactional",
            )
        )
    return found


def _finding(check: str, severity: Severity, evidence: str, remedy: str) -> Finding:
    assert check in CHECKS
    return Finding(check=check, severity=severity, evidence=evidence, remedy=remedy)
