"""Advice: what a user could change, each only where this query's own figures say that it would pay.

Flink lets a barrier overtake data (FLIP-76, unaligned checkpoints) when alignment is what a
checkpoint costs. A micro-batch has no such switch; what comes nearest depends on where its time
goes: tasks that wait for the slowest, logs that are written while nothing else happens, or a batch
that cannot end at all.

A new one is a function of what the last batch cost, and its row in ``ADVICE``;
``python -m agent.export.advice`` then renews docs/checkpoints.md.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from agent.core.figures import figure
from agent.core.judge.worth import worth
from agent.core.measure.state_store import changelog_advice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.core.judge.alignment import AlignmentView

#: The phases in which a batch only writes what it is about to do, and that it did it.
LOG_PHASES: Final = ("walCommit", "commitOffsets")
CHANGELOG: Final = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
#: Tasks for each that can run at once: the upper end of what Spark's tuning guide recommends.
_TASKS_PER_SLOT: Final = 3
#: Of Kafka's sink, as progress describes it: by its class, and an object's address.
_KAFKA_TABLE: Final = re.compile(r"([\w.]+\$)?KafkaTable(@[0-9a-f]+)?")
#: With these Spark refuses asynchronous progress tracking as the query starts.
_ENDS_BY_ITSELF: Final = ("AvailableNow", "OneTime")
#: The first release without the race between a commit and the upload of a snapshot, after which
#: state cannot be loaded (SPARK-47568, SPARK-46796).
_SOUND_CHANGELOG: Final = (3, 5, 2)
#: The first that gives a state other partitions: RocksDB's. Of another store it fails too late, and
#: leaves a checkpoint on which no query starts.
_REPARTITIONS: Final = (4, 2)
UNKNOWN: Final = (math.inf,)
PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"


class StateCost(msgspec.Struct, frozen=True):
    """What one state operator's commit cost in a batch; None is unknown."""

    name: str
    commit_seconds: float | None  # summed over its partitions
    partitions: int | None
    phases: dict[str, float] = {}  # of the commit, in seconds, as RocksDB tells them


class Kept(msgspec.Struct, frozen=True):
    """A source that the job's own limit keeps below what a batch of the target could hold."""

    source: int
    unit: str
    configured: int
    wanted: int


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Where a query's last batch spent its time; None is unknown."""

    batch_seconds: float | None
    phases: dict[str, float]
    operators: list[StateCost]
    sink: str
    conf: dict[str, str]
    limited: bool  # a limit held a backlog back, so that a smaller one is possible
    asynchronous: bool  # asynchronous progress tracking is on
    slots: int = 0  # tasks that can run at once; 0: not known
    fixed_seconds: float = 0.0  # of its tasks, however few rows they read, as far as that is sure
    stuck_batch_id: int | None = None  # a batch that was timed out and comes again
    lost_batch_id: int | None = None  # one that was lost again and again, and never for its age
    kept: tuple[Kept, ...] = ()  # sources held at what their job configured
    trigger: str = ""  # empty: nobody told it
    spark_version: str = ""  # empty: not known


class Advice(NamedTuple):
    """One thing that may help. ``told`` is what the docs say: what is measured, what then helps."""

    say: Callable[[Costs, AlignmentView | None], Iterator[str]]
    told: tuple[tuple[str, str], ...]


def advise(costs: Costs, alignment: AlignmentView | None) -> list[str]:
    """What would help, the most pressing first; empty where nothing is worth a change."""
    return [said for one in ADVICE for said in one.say(costs, alignment)]


def _of_a_stuck_batch(costs: Costs, _: AlignmentView | None) -> Iterator[str]:
    if costs.stuck_batch_id is None:
        return
    yield (
        f"batch {costs.stuck_batch_id} was timed out and comes again with the same rows, which a "
        "lower limit does not change: raise what kills it, or stop the query and plan the batch "
        "anew with `weir rescue`"
    )


def _of_a_lost_batch(costs: Costs, _: AlignmentView | None) -> Iterator[str]:
    if costs.lost_batch_id is None:
        return
    yield (
        f"batch {costs.lost_batch_id} was lost again and again, long before its time was up, and "
        "comes again with the same rows: mend what its failure says before the next restart; "
        "`weir rescue` helps only where the batch is too large"
    )


def _of_stages(costs: Costs, alignment: AlignmentView | None) -> Iterator[str]:
    """What the slowest tasks cost, as measured; nothing where it was not."""
    if alignment is None or not alignment.stages:
        return
    longest = max(alignment.stages, key=lambda one: one.wait_seconds)
    if not longest.advice or not worth(longest.wait_seconds, costs.batch_seconds):
        return
    source = "" if longest.source is None else f", which reads source {longest.source}"
    said = f"stage {longest.stage}{source}: {longest.advice}"
    if longest.why == "skew" and costs.limited:
        said += "; smaller batches shorten the wait in proportion"
    yield said


def _of_logs(costs: Costs, _: AlignmentView | None) -> Iterator[str]:
    known = [costs.phases[name] for name in LOG_PHASES if name in costs.phases]
    if not known or costs.asynchronous or not worth(sum(known), costs.batch_seconds):
        return
    said = (
        f"writing the offset and commit logs took {sum(known):.3g} s of a batch of "
        f"{costs.batch_seconds:.3g} s"
    )
    what = "stateful" if costs.operators else ""
    if not _KAFKA_TABLE.fullmatch(costs.sink):
        what = what or "not writing to Kafka"
    if any(name in costs.trigger for name in _ENDS_BY_ITSELF):
        what = what or "one that ends by itself (AvailableNow, Once)"
    if what:
        yield (
            f"{said}: put the checkpoint on faster storage, or take larger batches; asynchronous "
            f"progress tracking is not for this query, which is {what}"
        )
    else:
        yield (
            f"{said}: asynchronous progress tracking (the option asyncProgressTrackingEnabled) "
            "takes them out of the batch, for this query keeps no state and writes to Kafka; after "
            "a failure rows may be written twice"
            + ("" if costs.trigger else ". Not if its trigger is AvailableNow or Once")
        )


def _of_state(costs: Costs, _: AlignmentView | None) -> Iterator[str]:
    if _release(costs) < _SOUND_CHANGELOG:
        return
    for operator in costs.operators:
        said = changelog_advice(
            provider=_provider(costs, operator),
            changelog=_changelog(costs, operator),
            commit_seconds=operator.commit_seconds,
            tasks=operator.partitions,
            batch_seconds=costs.batch_seconds,
        )
        if said is not None:
            yield f"{operator.name or 'state operator'}: {said}"


def _of_partitions(costs: Costs, _: AlignmentView | None) -> Iterator[str]:
    """State in far more partitions than tasks run at once: each costs a task, rows or none."""
    partitions = max([operator.partitions or 0 for operator in costs.operators], default=0)
    enough = _TASKS_PER_SLOT * costs.slots
    if not 0 < enough < partitions:
        return
    spent = min(costs.fixed_seconds, costs.batch_seconds or 0.0)
    offline = ""
    rocks = all("RocksDB" in _provider(costs, operator) for operator in costs.operators)
    if rocks and _REPARTITIONS <= _release(costs) < UNKNOWN:
        offline = (
            "; or, with the query stopped and its last batch committed, by "
            f"spark._streamingCheckpointManager.repartition(checkpoint, {enough}), which Spark has "
            "not made public yet: take a `weir savepoint` before"
        )
    if worth(spent * (1.0 - enough / partitions), costs.batch_seconds):
        yield (
            f"its state lies in {partitions} partitions and {costs.slots} tasks run at once: "
            f"{figure(spent)} s of a batch of {figure(costs.batch_seconds or 0.0)} s "
            f"are spent on tasks and their files whatever they read. {enough} partitions would do "
            "(spark.sql.shuffle.partitions), from a new checkpoint on: one keeps its "
            f"number{offline}"
        )


def _of_kept_limits(costs: Costs, _: AlignmentView | None) -> Iterator[str]:
    for kept in costs.kept:
        yield (
            f"source {kept.source}: its job configured {kept.configured:,} {kept.unit}, which is "
            "never exceeded unasked; above_configured would let a batch take about "
            f"{figure(kept.wanted)} {kept.unit}"
        )


def _provider(costs: Costs, operator: StateCost) -> str:
    """The class of its store, as far as it is known."""
    return "RocksDB" if operator.phases else costs.conf.get(PROVIDER, "")


def _release(costs: Costs) -> tuple[float, ...]:
    """Of Spark, as numbers."""
    told = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", costs.spark_version)
    return UNKNOWN if told is None else tuple(float(one or 0) for one in told.groups())


def _changelog(costs: Costs, operator: StateCost) -> bool | None:
    """Whether changes are written instead of whole snapshots; None where nothing tells.

    What the store did says it best: the setting may be unset, or set since the query started.
    """
    if operator.phases.get("changelog"):
        return True
    setting = costs.conf.get(CHANGELOG)
    if setting is not None:
        return setting.lower() == "true"
    return False if operator.phases.get("checkpoint") else None


#: The most pressing first.
ADVICE: Final = (
    Advice(
        _of_a_stuck_batch,
        (("a batch was timed out and comes again", "more time, or `weir rescue`"),),
    ),
    Advice(
        _of_a_lost_batch,
        (
            (
                "a batch was lost three times or more, and not for its age",
                "mend what its failure says; `weir rescue` only where it is too large",
            ),
        ),
    ),
    Advice(
        _of_stages,
        (
            (
                "a stage waits for a partition that read more",
                "spread the hot key; smaller batches shorten the wait in proportion",
            ),
            (
                "a stage waits for a task on a slow host, or in a slow executor",
                "look at that host, at that executor's garbage collection",
            ),
        ),
    ),
    Advice(
        _of_logs,
        (
            (
                "writing the two logs takes the time",
                (
                    "asynchronous progress tracking, where no state is kept, the sink is Kafka "
                    "and the trigger neither AvailableNow nor Once; else faster storage or "
                    "larger batches"
                ),
            ),
        ),
    ),
    Advice(
        _of_state,
        (
            (
                "state commits take the time while whole snapshots are uploaded",
                "changelog checkpointing, from Spark 3.5.2 on",
            ),
        ),
    ),
    Advice(
        _of_partitions,
        (
            (
                (
                    "state lies in far more partitions than tasks run at once, and tasks cost time "
                    "however few rows they read"
                ),
                (
                    "fewer `spark.sql.shuffle.partitions`, with a new checkpoint; of RocksDB "
                    "offline as well, from Spark 4.2 on"
                ),
            ),
        ),
    ),
    Advice(
        _of_kept_limits,
        (
            (
                "the limit that the job configured holds batches below what the target takes",
                "`above_configured`",
            ),
        ),
    ),
)
