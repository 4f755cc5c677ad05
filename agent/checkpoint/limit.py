"""The limit to restart with, so that the next batch fits the deadline.

Learned as the agent learns it (agent.core.measure.cost), from the checkpoint alone: the offset log
tells what each batch took, and the times of ``offsets/N`` and ``commits/N`` how long it ran.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from agent.checkpoint.layout import Checkpoint, chain_of, file_log_entries, log_offset
from agent.checkpoint.soundness import admitted, offsets_last
from agent.core.decide.size import allowed_seconds, deadline_rows, restart_rows
from agent.core.measure.cost import NOISE_SIGMAS, PRIOR_SIGMA, Cost, Curve
from agent.core.policy import QueryPolicy

if TYPE_CHECKING:
    from agent.checkpoint.folder import Folder
    from agent.checkpoint.layout import SourceInfo
    from agent.checkpoint.watched import Watched

#: A limit is held to so many times the largest batch seen: what larger ones take is a guess, and
#: one that is killed is killed again.
MOST_TIMES: Final = 4
#: Below this many batches that took something, the fit is worth nothing.
LEAST_BATCHES: Final = 3
#: Of the deadline, what is left for a driver's start (``agent/core/measure/cold.py``) where none
#: was seen and one is sure to come: it took 2 to 20 s on a real Spark, and more where executors are
#: long on their way; who restarts a query that is killed wants it through, not fast.
UNSEEN_SHARE: Final = 0.5
_OPTIONS: Final = {"kafka": "maxOffsetsPerTrigger", "file": "maxFilesPerTrigger"}
#: Spark's name of Trigger.Once, which takes all there is (``SingleBatchExecutor``).
_ONCE: Final = "OneTimeTrigger"
#: How Spark's own sources describe themselves: KafkaV2[…], KafkaSourceV1[…].
_OF_KAFKA: Final = "Kafka"
_DESCRIBED: Final = {"kafka": _OF_KAFKA, "file": "FileStreamSource"}
#: The offsets do not tell it from others, and Spark passes over an option that a source lacks.
NOT_SURE: Final = (
    "; of Spark's Kafka source: others with such offsets pass over this option and have their own"
    " (Event Hubs: eventhubs.maxEventsPerTrigger)"
)
_UNITS: Final = {"kafka": "rows", "file": "files"}
NOT_ONE: Final = (
    "; not even one fits, and fewer than these would save next to nothing: "
    "it will take a longer deadline or more capacity"
)


class LimitAdvice(msgspec.Struct, frozen=True):
    """What to restart a source with; ``limit`` is None where too little is known, or it takes none.

    ``option`` is empty where the connector is not known.
    """

    source: int
    option: str
    unit: str
    limit: int | None
    learned_from: Literal["agent", "checkpoint", "nothing"]
    detail: str


class Observation(msgspec.Struct, frozen=True):
    """What one committed batch took, and how long it ran."""

    batch_id: int
    amount: int
    seconds: float


def observe(checkpoint: Checkpoint, folder: Folder, source: int) -> list[Observation]:
    """Committed batches that took something from a source, oldest first."""
    layout = checkpoint.layout
    files = _files_by_entry(checkpoint, folder, source)
    found = []
    for batch_id in sorted(checkpoint.offsets):
        planned, committed = layout.offsets.get(batch_id), layout.commits.get(batch_id)
        amount = _amount(checkpoint, batch_id, source, files)
        if planned is None or committed is None or not amount:
            continue
        following = layout.offsets.get(batch_id + 1)
        if following is not None and following.modified < committed.modified:
            continue  # copied: Spark plans a batch after the commit of the one before
        if offsets_last(checkpoint, batch_id):
            continue  # when it began is not known
        seconds = committed.modified - planned.modified
        if seconds > 0.0:  # a checkpoint that was copied may have one time throughout
            found.append(Observation(batch_id=batch_id, amount=amount, seconds=seconds))
    return found


def open_amount(checkpoint: Checkpoint, folder: Folder, batch_id: int, source: int) -> int | None:
    """What an open batch takes from a source, in the unit of its limit; None if unknown."""
    return _amount(checkpoint, batch_id, source, _files_by_entry(checkpoint, folder, source))


def advise(
    checkpoint: Checkpoint,
    folder: Folder,
    *,
    open_batch: int | None,
    deadline_seconds: float | None,
    watched: Watched | None = None,
) -> list[LimitAdvice]:
    """A limit for each source that has one: by the agent's model, else by the own history."""
    able = [source for source in checkpoint.sources if source.kind in _OPTIONS]
    advice = []
    for source in able:
        option, unit = _OPTIONS[source.kind], _UNITS[source.kind]
        place = _place(checkpoint, watched, source) if watched is not None else None
        told = watched.sources[place] if watched is not None and place is not None else ""
        if source.kind == "kafka" and told and not told.startswith(_OF_KAFKA):
            detail = f"{told} is not Spark's Kafka source: set the limit of its own connector"
            advice.append(LimitAdvice(source.index, "", unit, None, "nothing", detail))
            continue
        learned: Literal["agent", "checkpoint", "nothing"] = "agent"
        limit: int | None
        seen = observe(checkpoint, folder, source.index)
        own, own_learned, own_detail = _limit(seen, unit, deadline_seconds, shared_by=len(able))
        known = _of_agent(watched, place, unit, deadline_seconds, shared_by=len(able))
        if known is not None:
            limit, detail = known
            if own is not None and own != limit:
                detail += f"; the checkpoint alone would say {own:,}: {own_detail}"
        else:
            limit, learned, detail = own, own_learned, own_detail
            if watched is not None and watched.sources and place is None:
                detail += "; which of the agent's sources this is, is not known"
            elif watched is not None:
                detail += f"; the agent has not learned what a batch of {unit} takes"
        amount = (
            open_amount(checkpoint, folder, open_batch, source.index)
            if open_batch is not None
            else None
        )
        if amount is not None and limit is not None and limit >= amount:
            detail += f"; the batch that did not finish took {amount:,}: it may have failed for"
            detail += " another reason than its size"
        elif amount is not None:
            detail += f"; the batch that did not finish took {amount:,} {unit}"
        if source.kind == "kafka" and limit is not None and not told:
            detail += NOT_SURE
        trigger = watched.trigger if watched is not None else ""
        if _ONCE in trigger:
            named = f" and {option} = {limit}" if limit is not None else ""
            detail = (
                f"Trigger.Once takes no limit: restart with availableNow=True{named} ({detail})"
            )
            limit = None
        elif limit is not None and not trigger:
            detail += "; Trigger.Once passes over it, availableNow does not"
        advice.append(
            LimitAdvice(
                source=source.index,
                option=option,
                unit=unit,
                limit=limit,
                learned_from=learned,
                detail=detail,
            )
        )
    return advice


def _place(checkpoint: Checkpoint, watched: Watched, source: SourceInfo) -> int | None:
    """Where a source stands among the agent's; None where that is not known.

    The agent counts in the plan's order, as progress and log version 1 do; version 2 has no order.
    """
    if not checkpoint.offsets:
        return None
    newest, told = checkpoint.offsets[max(checkpoint.offsets)], watched.sources
    if newest.log_version == "v1" and len(told) == len(checkpoint.sources):
        return source.index
    alike = [at for at, one in enumerate(told) if one.startswith(_DESCRIBED[source.kind])]
    return alike[0] if len(alike) == checkpoint.source_kinds.count(source.kind) == 1 else None


def _of_agent(
    watched: Watched | None,
    place: int | None,
    unit: str,
    deadline_seconds: float | None,
    *,
    shared_by: int,
) -> tuple[int, str] | None:
    if watched is None or place is None or deadline_seconds is None:
        return None
    throughput, fixed = watched.throughput_rows_per_second, watched.fixed_cost_seconds
    rows_per_unit = 1.0 if unit == "rows" else watched.rows_per_unit.get(place)
    if not throughput or fixed is None or not rows_per_unit:
        return None
    # The agent tells no noise: believe what is believed before anything was seen.
    policy = QueryPolicy(deadline_seconds=deadline_seconds)
    curve = Curve(fixed, rows_per_unit / throughput)
    most, meant = _within(curve, policy, PRIOR_SIGMA, deadline_seconds)
    learned = (
        f"the agent learned {fixed:.3g} s + {rows_per_unit / throughput:.3g} s for each of {unit}"
    )
    return max(int(most / shared_by), 1), f"{learned}; {meant}"


def _limit(
    seen: list[Observation], unit: str, deadline_seconds: float | None, *, shared_by: int
) -> tuple[int | None, Literal["checkpoint", "nothing"], str]:
    if len(seen) < LEAST_BATCHES:
        return None, "nothing", f"only {len(seen)} finished batches to learn from"
    cost = Cost()
    for one in seen:
        cost.learn(one.amount, one.seconds)
    throughput, fixed = cost.throughput, cost.fixed_cost
    assert throughput is not None
    assert fixed is not None
    model = f"{len(seen)} batches took {fixed:.3g} s + {1 / throughput:.3g} s for each of {unit}"
    if deadline_seconds is None:
        return None, "checkpoint", f"{model}; give --deadline for a limit"
    policy = QueryPolicy(deadline_seconds=deadline_seconds)
    most, meant = _within(cost.curve, policy, cost.cautious_sigma, deadline_seconds)
    # A batch of several sources must fit as a whole; the model of each counts all its seconds.
    limit = max(int(most / shared_by), 1)
    largest = max(one.amount for one in seen)
    detail = f"{model}; {meant}"
    if limit > MOST_TIMES * largest:
        limit = MOST_TIMES * largest
        detail += f"; held to {MOST_TIMES} times the largest batch seen ({largest:,})"
    return limit, "checkpoint", detail


def _within(
    curve: Curve, policy: QueryPolicy, sigma: float, deadline_seconds: float
) -> tuple[float, str]:
    """The most of a batch, and what that follows from, so that a reader can do the sum."""
    noise = math.exp(NOISE_SIGMAS * sigma)
    start = UNSEEN_SHARE * deadline_seconds / noise
    rows = min(deadline_rows(curve, policy, sigma), restart_rows(curve, policy, sigma, start))
    seconds = curve.seconds(rows)
    first = seconds + start
    said = (
        f"a batch is meant to take {seconds:.3g} s and, as the first of a driver, {first:.3g} s, "
        f"which its noise may take to {noise * first:.3g} of the {deadline_seconds:g} s"
    )
    if curve.rows_in(allowed_seconds(policy, sigma)) < 1:
        said += NOT_ONE
    return rows, said


def _amount(
    checkpoint: Checkpoint, batch_id: int, source: int, files: dict[int, int] | None
) -> int | None:
    taken = admitted(checkpoint, batch_id, source)
    if taken is None or files is None:
        return taken
    this, before = checkpoint.offsets[batch_id], checkpoint.offsets.get(batch_id - 1)
    start = log_offset(before.sources[source]) if before else -1
    end = log_offset(this.sources[source])
    entries = range(start + 1, end + 1)
    if any(entry not in files for entry in entries):
        return None
    return sum(files[entry] for entry in entries)


def _files_by_entry(checkpoint: Checkpoint, folder: Folder, source: int) -> dict[int, int] | None:
    """How many files each entry of a file source's log took; None for other sources."""
    if checkpoint.sources[source].kind != "file":
        return None
    counts: dict[int, int] = {}
    log = checkpoint.layout.sources.get(source, [])
    chain, _ = chain_of(log, max((entry.batch_id for entry in log), default=-1))
    for entry in chain:
        own: dict[int, int] = {}
        try:
            for one in file_log_entries(folder, entry.path):
                number = one.get("batchId") if entry.compact else entry.batch_id
                if isinstance(number, int):
                    own[number] = own.get(number, 0) + 1
        except (OSError, ValueError):
            continue
        counts |= own if entry.compact else {entry.batch_id: own.get(entry.batch_id, 0)}
    return counts
