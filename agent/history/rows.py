"""What is judged, as rows of the tables: plain values, in the order of each table's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from agent.core.decode.events import Progress, SourceProgress
    from agent.core.judge.alignment import Alignment
    from agent.core.judgement import Decision, Judgement
    from agent.sources.spark_stages import Stage

_line = msgspec.json.Encoder().encode

BATCHES: Final = "batches"
STAGES: Final = "stages"
INCIDENTS: Final = "incidents"
CAPACITY: Final = "capacity"
DECISIONS: Final = "decisions"
RECOMMENDATIONS: Final = "recommendations"

Values = tuple[Any, ...]
#: The table and the values of one row.
Row = tuple[str, Values]


class Whose(msgspec.Struct, frozen=True, gc=False):
    """Whose a row is: the first columns of every table."""

    application: str
    query: str
    application_id: str
    log: str
    query_id: str
    run_id: str

    @property
    def values(self) -> Values:
        """In the order of the columns."""
        return (
            self.application,
            self.query,
            self.application_id,
            self.log,
            self.query_id,
            self.run_id,
        )


def _in_rows(one: SourceProgress) -> tuple[int | None, int | None]:
    """What a source let in and what it left, where it counts rows."""
    return (one.admitted, one.backlog) if one.unit == "rows" else (None, None)


def batch(
    whose: Whose, time: float, line: Judgement, would: Judgement, progress: Progress | None
) -> Row:
    """A judged event. ``would`` is what is decided where Weir may set limits."""
    limit, checkpoint, spiral, failure = line.limit, line.checkpoint, line.spiral, line.failure
    phases: dict[str, float] = {}
    sources: list[Values] = []
    seconds = rows = watermark = None
    if progress is not None:
        phases, seconds, rows = dict(progress.phases), progress.seconds, progress.rows
        watermark = progress.watermark_time
        sources = [
            (index, one.description, one.rows, *_in_rows(one), one.start, one.end)
            for index, one in enumerate(progress.sources)
        ]
    return BATCHES, (
        *whose.values,
        line.event,
        line.batch_id,
        time,
        progress.time if progress is not None else None,
        seconds,
        rows,
        watermark,
        line.backlog_rows,
        line.backlog_seconds,
        line.lag_state,
        line.state,
        line.pressure,
        line.throughput_rows_per_second,
        line.fixed_cost_seconds,
        would.arrival_rows_per_second,
        limit.unit,
        limit.current,
        limit.next,
        limit.reason,
        would.limit.next,
        would.limit.reason,
        would.limit.target_feasible,
        checkpoint.seconds,
        checkpoint.deadline_seconds,
        checkpoint.eta_seconds,
        checkpoint.failures_consecutive,
        checkpoint.bytes,
        spiral.phase,
        spiral.gain,
        spiral.replay_amplification,
        failure.cause if failure is not None else None,
        failure.evidence if failure is not None else None,
        _line(line).decode(),
        phases,
        sources,
    )


def stage(
    whose: Whose, time: float | None, batch_id: int, one: Stage, found: Alignment | None
) -> Row:
    """A stage of a batch; ``found`` is what it waited for, with the source it reads."""
    empty = (None,) * 9
    waited: Values = empty
    if found is not None:
        waited = (
            found.wait_seconds,
            found.ratio,
            found.partition,
            found.executor,
            found.host,
            found.why,
            found.advice,
            found.input_rows,
            found.source,
        )
    return STAGES, (
        *whose.values,
        batch_id,
        one.stage,
        one.attempt,
        one.name,
        one.submitted_time if one.submitted_time is not None else time,
        one.seconds,
        one.tasks,
        one.failed_tasks,
        one.failure or None,
        *waited,
    )


def decision(whose: Whose, one: Decision) -> Row:
    """What Weir would have decided after a batch."""
    return DECISIONS, (
        *whose.values,
        one.batch_id,
        one.time,
        one.source,
        one.unit,
        one.before,
        one.after,
        one.reason,
        one.detail,
    )
