"""How far each query has read: for who asks brokers, and for who commits offsets in its name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from agent.core.decode.kafka_offsets import Offsets, Reading
    from agent.core.fleet.state import State
    from agent.core.query import Key, Query

#: The sinks for which Spark lets progress be tracked asynchronously, as progress describes them
#: (``AsyncProgressTrackingMicroBatchExecution``, "supported sink").
_MAY_BE_ASYNCHRONOUS: Final = re.compile(
    r"([\w.]+[.$])?(KafkaTable|ConsoleTable|NoopTable|noop-table|(Continuous)?MemorySink"
    r"|ForeachWriterTable)\b"
)


def readings(state: State) -> dict[Key, Reading]:
    """How far each query has read that was not stopped, nor reads on, nor is known of long ago.

    What a query that failed has not read may be deleted before it comes back, and before the
    first batch of its next run ends, which goes on where the last one ended. Until then one
    that is gone rests between no batches.
    """
    told_late = state.told_late()
    return {
        query.key: msgspec.structs.replace(
            query.read,
            rests_seconds=query.rests_seconds(),
            gone=query.life.gone_since_time is not None,
            current=_is_current(state, query),
        )
        for query in state.roster
        if query.read is not None
        and not (query.life.stopped or query.reads_on)
        and query.run.application_id not in told_late
    }


def _is_current(state: State, query: Query) -> bool:
    """Whether it has read no further than is known, or nothing tells of it any more."""
    if query.life.gone_since_time is not None:
        return True
    running, ended = query.running.batch_id, query.batch.id
    further = running is not None and ended is not None and running > ended + 1
    return query.life.heard_time >= state.wakefulness.awake_time and not further


def committed(state: State) -> dict[Key, Offsets]:
    """By query, the next rows of Kafka to be read after the newest batch that Spark committed.

    Progress is told once a batch is committed; where logs are written behind, or there are no
    batches, it says nothing of that, and the query is left out, as is one that may be such for all
    that is told of it. So is one that reads a topic of another cluster, or seems to, and one whose
    event log is not read to its end. Of a partition that several sources read the one that is
    behind counts.
    """
    found: dict[Key, Offsets] = {}
    told_late = state.told_late()
    for query in state.roster:
        behind = query.watched.monitor.asynchronous or query.run.continuous
        behind |= _may_be_asynchronous(query)
        behind |= query.run.application_id in told_late
        if query.read is None or behind or state.brokers.elsewhere(query):
            continue
        lowest: Offsets = {}
        for offsets in query.read.offsets.values():
            for place, offset in offsets.items():
                lowest[place] = min(offset, lowest.get(place, offset))
        found[query.key] = {place: at for place, at in lowest.items() if at >= 0}
    return found


def _may_be_asynchronous(query: Query) -> bool:
    """Whether its logs may be written behind: an event log tells no options, and no trigger.

    What an earlier run told says nothing of this one, which may have other options.
    """
    run = query.run
    told = bool(run.trigger) and run.trigger_run_id == run.run_id
    if told or query.operators:  # with state Spark refuses it
        return False
    sink = run.sink
    return not sink or _MAY_BE_ASYNCHRONOUS.match(sink) is not None
