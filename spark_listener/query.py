"""One running query as the JVM holds it: its execution, its sources, the batch it runs.

All of it is Spark's private side, so it is probed: a missing method costs that one ability.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spark_listener import iceberg, sources
from spark_listener.listener import json_of
from spark_listener.redact import redact, redact_conf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_START_IN_REPORTER: Final = (
    "org$apache$spark$sql$execution$streaming$ProgressReporter$$currentTriggerStartTimestamp"
)
#: Harmless settings that explain how a query behaves; nothing that may hold a secret or a path.
CONF_KEYS: Final = (
    "spark.sql.shuffle.partitions",
    "spark.sql.adaptive.enabled",
    "spark.sql.streaming.minBatchesToRetain",
    "spark.sql.streaming.noDataMicroBatches.enabled",
    "spark.sql.streaming.noDataProgressEventInterval",
    "spark.sql.streaming.pollingDelay",
    "spark.sql.streaming.maxBatchesToRetainInMemory",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot",
    "spark.sql.streaming.stateStore.maintenanceInterval",
    "spark.sql.streaming.stateStore.checkpointFormatVersion",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
    "spark.sql.streaming.stateStore.rocksdb.compactOnCommit",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage",
    "spark.dynamicAllocation.enabled",
    "spark.streaming.dynamicAllocation.enabled",
    "spark.task.maxFailures",
    "spark.executor.instances",
    "spark.executor.cores",
    "spark.executor.memory",
    "spark.driver.memory",
    "spark.master",
)
_TEXT: Final = 500
#: A plan of more nodes is not walked: each costs three calls into the JVM, and one per query is
#: looked at. Queries of people have tens.
_MOST_NODES: Final = 1000
_WATERMARK_POLICY: Final = "spark.sql.streaming.multipleWatermarkPolicy"
_OBJECT_ADDRESS: Final = re.compile(r"\$?@[0-9a-f]{1,16}$")
#: The same of an object that a source's text names within, as DataHub's does: another in each run.
#: An array's class begins with brackets; a lambda's has a number or an address behind a slash.
_ADDRESS_WITHIN: Final = re.compile(
    r"(?:\[(?:[ZBCSIJFD]|L[\w.$]+;)|\b(?:[a-z]\w*\.)+[A-Z][\w$]*(?:/(?:0x)?[0-9a-f]+)?)"
    r"@[0-9a-f]{1,16}\b"
)


@dataclass(frozen=True)
class Abilities:
    """What this Spark's ``StreamExecution`` lets us do; found by the names of its methods."""

    limits: bool = False  # read and write the map of limits
    progress_lock: bool = False  # hold the first batch back
    context: bool = False  # 4.x: batch id and age from the latest execution context
    batch_id: bool = False  # 3.5: batch id from the execution itself
    start_in_reporter: bool = False  # 3.5: when the running trigger started
    trigger_executor: bool = False
    offsets: bool = False  # how far the running batch reads


def abilities(method_names: Iterable[str]) -> Abilities:
    """The abilities behind these public method names."""
    names = set(method_names)
    return Abilities(
        limits={"uniqueSources", "uniqueSources_$eq", "sources"} <= names,
        progress_lock="awaitProgressLock" in names,
        context="getLatestExecutionContext" in names,
        batch_id="currentBatchId" in names,
        start_in_reporter=_START_IN_REPORTER in names,
        trigger_executor="triggerExecutor" in names,
        offsets={"committedOffsets", "availableOffsets", "latestOffsets"} <= names,
    )


def takes_all_at_once(trigger: str, execution_class: str, executor_class: str) -> bool:
    """True where a limit would break what the trigger promises.

    ``trigger`` is the text of Spark's trigger. ``executor_class`` is empty where unknown:
    AvailableNow falls back to a single batch where a source cannot do more.
    """
    if "MicroBatchExecution" not in execution_class:
        return True
    if any(name in trigger for name in ("OneTimeTrigger", "ContinuousTrigger", "RealTime")):
        return True
    return any(name in executor_class for name in ("SingleBatch", "RealTime"))


def is_real_time(trigger: str) -> bool:
    """Whether batches read rows as they come, behind what was planned, for as long as was told."""
    return "RealTime" in trigger


def mode_note(trigger: str, execution_class: str) -> str:
    """Why such a query takes no limit, in a few words."""
    if "Continuous" in execution_class or "ContinuousTrigger" in trigger:
        return "continuous processing has no micro-batches"
    if is_real_time(trigger):
        return "real-time mode takes rows as they come"
    return "the trigger takes everything at once"


@dataclass(frozen=True)
class SourceObject:
    """One source: its place in progress, its key in the map of limits, what it is."""

    index: int
    key: Any  # Java: what the map of limits is keyed by
    source: Any  # Java: the source itself; the key may wrap it
    class_name: str
    identity: str = ""  # a fingerprint of what it reads; empty where that is unknown


@dataclass(frozen=True)
class RunningBatch:
    """The batch in hand; between batches, the last one."""

    batch_id: int
    started_epoch_seconds: float | None  # None: no batch runs


@dataclass(frozen=True)
class PlannedOffsets:
    """Offsets of one source as JSON; None where Spark knows none."""

    start: str | None
    end: str | None
    latest: str | None


class Query:
    """A handle on one run of one query. Every method may raise what py4j raises."""

    _known_abilities: Final[dict[str, Abilities]] = {}

    def __init__(self, java_query: Any) -> None:
        self.execution = _unwrapped(java_query)
        self.class_name = str(self.execution.getClass().getName())
        found = self._known_abilities.get(self.class_name)
        if found is None:
            found = abilities(dir(self.execution))
            self._known_abilities[self.class_name] = found
        self.abilities = found
        self.id = str(self.execution.id().toString())
        self.run_id = str(self.execution.runId().toString())
        name = self.execution.name()
        self.name: str | None = None if name is None else str(name)
        self.trigger = str(self.execution.trigger().toString())

    def active(self) -> bool:
        """False once the query has ended."""
        return bool(self.execution.isActive())

    def spark_stops(self) -> bool:
        """Whether its Spark has been told to stop, by whomever."""
        return bool(self.execution.sparkSessionForStream().sparkContext().isStopped())

    def failure(self, jvm: Any) -> tuple[str | None, str | None]:
        """What a query that has ended failed with, as Spark's event tells it, and its error class.

        Neither where it was stopped.
        """
        found = self.execution.exception()
        if not found.isDefined():
            return None, None
        cause, text = found.get().getCause(), jvm.java.io.StringWriter()
        cause.printStackTrace(jvm.java.io.PrintWriter(text))
        error_class = _attempt(cause.getErrorClass, None)  # only errors of Spark's own have one
        return str(text.toString()), None if error_class is None else str(error_class)

    def ended_batches(self) -> list[str]:
        """The progress of its newest triggers, the oldest first, as JSON.

        Spark keeps 99, one fewer than ``spark.sql.streaming.numRecentProgressUpdates``.
        """
        return [json_of(progress) for progress in self.execution.recentProgress()]

    def limits_known(self) -> bool:
        """False until the query has set up its sources."""
        return int(self.execution.uniqueSources().size()) > 0

    def takes_all_at_once(self) -> bool:
        """True where this run's trigger admits everything by design."""
        executor = ""
        if self.abilities.trigger_executor:
            found = self.execution.triggerExecutor()
            executor = "" if found is None else str(found.getClass().getName())
        return takes_all_at_once(self.trigger, self.class_name, executor)

    def sources(self) -> list[SourceObject]:
        """The sources in the order of progress, which is not the order of the map of limits."""
        ordered = self.execution.sources().distinct()
        objects = [ordered.apply(index) for index in range(int(ordered.size()))]
        keys: list[Any] = []
        iterator = self.execution.uniqueSources().keysIterator()
        while iterator.hasNext():
            keys.append(iterator.next())
        found: list[SourceObject] = []
        for key in keys:
            class_name = str(key.getClass().getName())
            wrapped = "AvailableNow" in class_name and class_name.endswith("Wrapper")
            source = key.delegate() if wrapped else key
            for index, candidate in enumerate(objects):
                if candidate.equals(source):
                    found.append(SourceObject(index, key, source, class_name, _identity_of(source)))
                    break
        return sorted(found, key=lambda item: item.index)

    def watermarks(self) -> Watermarks | None:
        """What its plan says of watermarks; None where it is too large to be walked."""
        policy = self.execution.sparkSessionForStream().conf().get(_WATERMARK_POLICY, "min")
        return watermarks(self.execution.logicalPlan(), str(policy))

    def running(self) -> RunningBatch:
        """The batch in hand and when its trigger fired."""
        execution = self.execution
        active = bool(execution.status().isTriggerActive())
        started: int | None = None
        if self.abilities.context:
            context = execution.getLatestExecutionContext()  # null until the first is made
            batch_id = -1 if context is None else int(context.batchId())
            if active and context is not None:
                started = int(context.currentTriggerStartTimestamp())
        else:
            batch_id = int(execution.currentBatchId()) if self.abilities.batch_id else -1
            if active and self.abilities.start_in_reporter:
                started = int(getattr(execution, _START_IN_REPORTER)())
        known = started is not None and started > 0
        return RunningBatch(batch_id, started / 1000.0 if known and started is not None else None)

    def planned(self, source: SourceObject) -> PlannedOffsets:
        """Where the running batch begins and ends at a source, and how far that reached then."""

        def offset(progress: Any) -> str | None:
            for key in (source.key, source.source):
                found = progress.get(key)
                if found.isDefined():
                    return str(found.get().json())
            return None

        execution = self.execution
        return PlannedOffsets(
            offset(execution.committedOffsets()),
            offset(execution.availableOffsets()),
            offset(execution.latestOffsets()),
        )

    def facts(self) -> dict[str, Any]:
        """What ``started`` tells beside ids and control; a part that fails is left empty."""
        execution = self.execution
        session = execution.sparkSessionForStream()

        def conf() -> dict[str, str]:
            settings = session.conf()
            found = {}
            for key in CONF_KEYS:
                value = settings.get(key, None)
                if value is not None:
                    found[key] = redact_conf(key, str(value))[:_TEXT]
            if "AsyncProgressTracking" in self.class_name:
                found["asyncProgressTrackingEnabled"] = "true"
            return found

        def user_interface() -> str | None:
            address = session.sparkContext().uiWebUrl()
            return redact(str(address.get())) if address.isDefined() else None

        return {
            "trigger": self.trigger,
            "outputMode": _attempt(lambda: str(execution.outputMode().toString()).lower(), ""),
            # As progress tells it, an object's address too: by that a class is told from a table.
            "sink": _attempt(lambda: redact(str(execution.sink().toString()))[:_TEXT], ""),
            "checkpointLocation": _attempt(
                lambda: redact(str(execution.resolvedCheckpointRoot())), ""
            ),
            "uiUrl": _attempt(user_interface, None),
            "conf": _attempt(conf, {}),
            # Of the plan as it was written, which is there before a batch is planned.
            "watermarkDelaySeconds": _attempt(
                lambda: _least_delay(watermarks(execution.analyzedPlan(), "min")), None
            ),
        }


def _least_delay(told: Watermarks | None) -> float | None:
    return None if told is None else told.least_delay_seconds


class Watermarks(NamedTuple):
    """What a plan says of its watermarks."""

    shared: bool  # rows of one source can push another's behind one
    least_delay_seconds: float | None  # of them all; None where there is none, or one is not told


def watermarks(plan: Any, policy: str) -> Watermarks | None:
    """Whether rows of one source can push another's behind the watermark, and the least delay.

    They can where one ``EventTimeWatermark`` stands over several streams, where a stream under none
    comes together with one under some (of a union Spark takes the first one's column for both), and
    where of several watermarks the greatest counts (``multipleWatermarkPolicy``). Where the least
    counts, each stream is held against a watermark that is no nearer than its own. None: the plan
    is too large to be walked.
    """
    streams: list[int] = []  # below each watermark
    delays: list[float | None] = []  # of each
    bare = 0  # below none
    waiting: list[tuple[Any, tuple[int, ...]]] = [(plan, ())]
    for _ in range(_MOST_NODES + 1):
        if not waiting:
            several = max(streams, default=0) > 1 or (len(streams) > 1 and policy.lower() == "max")
            shared = several or (bool(streams) and bare > 0)
            known = [one for one in delays if one is not None]
            return Watermarks(shared, min(known) if known and len(known) == len(delays) else None)
        node, above = waiting.pop()
        name = str(node.nodeName())
        if name == "EventTimeWatermark":
            above = (*above, len(streams))
            streams.append(0)
            delays.append(_attempt(partial(_delay_of, node), None))
        children = node.children()
        count = int(children.size())
        # What a WITH clause names is a child of its own, beside the references to it.
        if not count and name != "CTERelationRef" and node.isStreaming():
            bare += not above
            for watermark in above:
                streams[watermark] += 1
        waiting += [(children.apply(index), above) for index in range(count)]
    return None


def _delay_of(node: Any) -> float:
    """Seconds, months as Spark counts them (``IntervalUtils.getDuration``)."""
    interval = node.delay()
    period = interval.extractAsPeriod()
    days = 31 * int(period.toTotalMonths()) + int(period.getDays())
    return 86_400.0 * days + int(interval.extractAsDuration().toMillis()) / 1000.0


def fingerprint(description: str) -> str:
    """Of what a source reads; nothing can be read off it.

    >>> fingerprint("KafkaV2[Subscribe[orders]]") == fingerprint("KafkaV2[Subscribe[orders]]")
    True
    """
    return hashlib.sha256(description.encode("utf-8", "replace")).hexdigest()[:16]


def _identity_of(source: Any) -> str:
    """Empty where the source tells nothing but its class: two tables must not pass for one.

    Or an object's address, by which one table would pass for another in each run.
    """

    def description() -> str:
        text = str(source.toString())
        plain = _OBJECT_ADDRESS.sub("", text)
        if plain == text:
            return "" if _ADDRESS_WITHIN.search(text) else text
        return iceberg.what_is_read(source) if sources.known(plain).table == "iceberg" else ""

    told = _attempt(description, "")
    return fingerprint(told) if told else ""


def _unwrapped(java_query: Any) -> Any:
    """The execution behind Spark's ``StreamingQueryWrapper``, or what was given."""
    class_name = str(java_query.getClass().getName())
    return java_query.streamingQuery() if class_name.endswith("Wrapper") else java_query


def _attempt(read: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return read()
    except Exception:
        return otherwise
