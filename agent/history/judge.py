"""The kept lines of one application, in order, to rows: the very same core as in the agent.

Each line goes through a ``Fleet``, whose lines are those of ``weir replay`` on the same log. A
second one hears the same with the sources given as controllable: its decisions are what Weir would
have done, each in the belief that the one before it held; the batches stay those of the run.
"""

from __future__ import annotations

import math
from collections import Counter
from heapq import merge
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.arrays import packed
from agent.core.decode.events import (
    Application,
    Event,
    HeartbeatEvent,
    Listener,
    Progress,
    ProgressEvent,
    Request,
    SourceLimit,
    SourceProgress,
    TerminatedEvent,
)
from agent.core.fleet import Fleet
from agent.core.judge.alignment import sources_named
from agent.core.measure import pace
from agent.core.measure.flow import ran
from agent.core.measure.source import UNTOLD
from agent.core.policy import Policy
from agent.core.query import Query
from agent.history import extract, incidents, rows
from agent.history.crew import Crew
from agent.history.hours import Hours
from agent.history.incidents import Incidents
from agent.replay import MOST_QUERIES
from agent.sources import spark_events
from agent.sources.recording import EventReader
from agent.sources.spark_stages import Stage, Stages, TaskEnded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agent.core.decode.stages import BatchWork
    from agent.core.fleet import Key
    from agent.core.judgement import Judgement
    from agent.core.policy import QueryPolicy
    from agent.history.extract import Kept
    from agent.history.rows import Row

_LISTENER: Final = Listener(instance="history")
#: How a rate source describes itself, and its class: it knows of no limit, so it gives all it has.
_RATE: Final = "RateStreamV2["
_RATE_CLASS: Final = "org.apache.spark.sql.execution.streaming.sources.RateStreamMicroBatchStream"
_decode_line = msgspec.json.Decoder().decode
_decode_query = msgspec.msgpack.Decoder(Query, dec_hook=packed).decode


def in_order(logs: Iterable[Iterable[tuple[str, Kept]]]) -> Iterator[tuple[str, Kept]]:
    """Logs of one name that were written at the same time, as one; each keeps its own order."""
    return (item for _, _, item in merge(*(_timed(n, log) for n, log in enumerate(logs))))


def _timed(
    number: int, log: Iterable[tuple[str, Kept]]
) -> Iterator[tuple[tuple[float, int, int], int, tuple[str, Kept]]]:
    time = 0.0
    for place, item in enumerate(log):
        time = max(time, item[1].time or 0.0)
        yield (time, number, place), number, item


class _Log:
    """What is remembered while a log is read."""

    def __init__(self, name: str) -> None:
        short = name.rpartition("/")[2]
        short = short.removeprefix("eventlog_v2_")
        self.reader = EventReader(Application(short, short))
        self.stages = Stages()
        self.crew = Crew()
        # By query id: batch, since, job group, which is the run's only where the user sets none.
        self.running: dict[str, tuple[int, float, str]] = {}
        self.runs: dict[str, str] = {}  # by query id, as told; empty: it has ended
        self.keys: set[Key] = set()  # of its queries
        self.last_time = 0.0
        self.ended = False


class Judge:
    """One application by name, over all its logs."""

    def __init__(self, settings: QueryPolicy, most_queries: int = MOST_QUERIES) -> None:
        self._policy = Policy(default=settings, max_queries=most_queries)
        self._fleet: Fleet | None = None
        self._shadow: Fleet | None = None
        self._sequence = 0
        self._logs: dict[str, _Log] = {}
        self._ends: dict[str, float] = {}  # of logs, where they are known
        self._keys: dict[tuple[str, str], Key] = {}  # (application id, query id)
        self._incidents: dict[Key, Incidents] = {}
        self._hours: dict[Key, Hours] = {}
        self._states: dict[Key, Query] = {}
        self._next: dict[Key, int | None] = {}
        self._decisions: dict[Key, int] = {}
        self._told: dict[Key, float] = {}  # until when decisions were told
        self.left_out: Counter[str] = Counter()  # by log: events of queries beyond the most

    def lasts(self, log: str, end: float) -> None:
        """When a log's last line was written, in epoch seconds: until then its queries live.

        It holds no heartbeats: who waits for the next batch would else have lost its name.
        """
        self._ends[log] = end

    def hear(self, log: str, kept: Kept) -> Iterator[Row]:
        """A line of a log; lines of one log come in its order."""
        state = self._logs.get(log)
        if state is None:
            state = self._logs[log] = _Log(log)
        kind = kept.kind
        if kind == extract.EVENT:
            recorded = state.reader.read(kept.data)
            if recorded is not None:
                yield from self._event(log, state, recorded.application, recorded.event)
        elif kind == extract.JOB:
            job = extract.decode_job(kept.data)
            state.stages.hear(job)
            state.reader.hear_time(job.time)
            state.last_time = max(state.last_time, job.time)
            if not job.query_id:
                return
            running = state.running.get(job.query_id)
            over = state.runs.get(job.query_id) == ""
            over = over or state.stages.is_taken(job.query_id, job.batch_id)
            if not over and (running is None or job.batch_id > running[0]):
                state.running[job.query_id] = (job.batch_id, job.time, job.run_id)
        elif kind == extract.STAGE:
            one = extract.decode_stage(kept.data)
            self._tasks(state, one.ended.stage, one.ended.attempt, one)
            state.stages.hear(one.ended)
            state.reader.hear_time(one.ended.completed_time)
        elif kind == extract.TASKS:
            opened = extract.decode_tasks(kept.data)
            self._tasks(state, opened.stage, opened.attempt, opened)
        elif kind == extract.EXECUTOR:
            seen = extract.decode_executor(kept.data)
            state.crew.hear(seen)
            for hours in self._hours_of(state):
                hours.crew.moved(log, seen.time, state.crew.present)
        elif kind == extract.APPLICATION:
            # Who it is was read from the whole log beforehand; here only that it has ended.
            data = _decode_line(kept.data)
            if data.get("Event") == "SparkListenerApplicationEnd":
                state.ended = True
                said = spark_events.moment(data.get("Timestamp"))
                time = state.last_time if said is None else said
                for hours in self._hours_of(state):
                    hours.crew.ended(log, time)
            elif spark_events.application_of(data, state.reader.application) is not None:
                state.reader.read(kept.data)

    def end(self) -> Iterator[Row]:
        """All that is left to say when nothing more comes."""
        self._remember()
        for name, state in self._logs.items():
            yield from self._unfinished(name, state)
        for key in sorted(self._hours):
            yield from self._incidents[key].end()
            query = self._states.get(key)
            hours = self._hours[key]
            if query is None:
                continue
            settings = query.settings(self._policy)
            if hours.known:
                hours.known[-1].end()
                hours.known[-1].settle(query, settings)
            yield from hours.rows()
            advised = hours.recommendation(query, settings, self._decisions.get(key, 0))
            if advised is not None:
                yield advised

    def _hours_of(self, state: _Log) -> Iterator[Hours]:
        return (self._hours[key] for key in state.keys if key in self._hours)

    def _tasks(
        self,
        state: _Log,
        stage: int,
        attempt: int,
        seen: extract.EndedStage | extract.OpenStage,
    ) -> None:
        for task in seen.tasks:
            state.stages.hear(TaskEnded(stage, attempt, task))
        for _ in range(seen.failed):
            state.stages.hear(TaskEnded(stage, attempt, None))

    def _event(
        self, log: str, state: _Log, application: Application, event: Event
    ) -> Iterator[Row]:
        if self._fleet is None or self._shadow is None:
            # From the first on, as it has heard whatever was said.
            self._fleet = Fleet(self._policy, started_time=0.0, names_stay=True)
            self._shadow = Fleet(self._policy, started_time=0.0, names_stay=True)
        beat = state.crew.heartbeat()
        self._begins(state, event)
        self._sequence += 2
        event = msgspec.structs.replace(event, sequence=self._sequence)
        request = Request(application, _LISTENER, [(0, event)], [])
        receipt = self._fleet.receive(request, now=event.time)
        body = event.body
        stages: list[Stage] = []
        work: BatchWork | None = None
        if (
            isinstance(body, ProgressEvent)
            and body.progress.batch_id is not None
            and ran(body.progress)  # else it may bear the number of the batch to come
        ):
            ended = body.progress
            stateful = bool(ended.operators)
            whole = state.stages.all_known(ended.id)
            stages = state.stages.take(ended.id, body.progress.batch_id, stateful=stateful)
            work = state.crew.work(ended, stages if whole else [])
        told = [msgspec.structs.replace(event, body=_controllable(event, work))]
        if beat is not None:
            told.insert(0, Event(self._sequence - 1, "heartbeat", event.time, beat))
        would = self._shadow.receive(
            Request(application, _LISTENER, list(enumerate(told)), []), now=event.time
        )
        if log in self._ends:  # and not for a moment longer
            heard = self._ends[log] - self._policy.silent_seconds
            self._fleet.hear(request, heard)
            self._shadow.hear(request, heard)
        if receipt.refused:
            self.left_out[log] += 1
            return
        state.last_time = max(state.last_time, event.time)
        if isinstance(body, HeartbeatEvent):
            return  # no event log holds one
        progress = body.progress if isinstance(body, ProgressEvent) else None
        subject = body.progress if isinstance(body, ProgressEvent) else body
        (key,) = receipt.touched
        self._keys[application.id, subject.id] = key
        state.keys.add(key)
        whose = rows.Whose(*key, application.id, log, subject.id, subject.run_id)
        state.runs[subject.id] = subject.run_id
        if isinstance(body, TerminatedEvent):
            state.runs[subject.id] = ""
            state.running.pop(subject.id, None)
            state.stages.forget(subject.id)
        for line, judged in zip(receipt.judged, would.judged, strict=True):
            yield from self._judged(whose, event, line, judged, progress)
        hours = self._hours.get(key)
        if hours is not None and isinstance(body, TerminatedEvent):
            hours.crew.ended(log, event.time)
        elif hours is not None:
            wanted = self._shadow.executors(key)
            hours.crew.judged(log, event.time, state.crew.present, wanted)
        if progress is not None and progress.batch_id is not None:
            yield from self._stages(whose, stages, progress.batch_id, progress)
            running = state.running.get(progress.id)
            if running is not None and running[0] <= progress.batch_id:
                del state.running[progress.id]

    def _begins(self, state: _Log, event: Event) -> None:
        """Before a run's first word: with it the query may go on under another name."""
        body = event.body
        if isinstance(body, HeartbeatEvent):
            return
        subject = body.progress if isinstance(body, ProgressEvent) else body
        if subject.id in state.runs and state.runs[subject.id] != subject.run_id:
            self._remember()

    def _judged(
        self,
        whose: rows.Whose,
        event: Event,
        line: Judgement,
        would: Judgement,
        progress: Progress | None,
    ) -> Iterator[Row]:
        key = (whose.application, whose.query)
        if key not in self._hours:
            self._hours[key], self._incidents[key] = Hours(), Incidents()
        hour, before = self._hours[key].at(whose, event.time)
        if before is not None:
            self._remember()
            query = self._states.get(key)
            if query is not None:
                before.settle(query, query.settings(self._policy))
        if progress is not None:
            self._hours[key].read(progress)
        assert self._shadow is not None
        hour.hear(event.time, line, would, progress, self._shadow.settings(key).target_seconds)
        yield from self._incidents[key].hear(whose, event.time, line)
        yield rows.batch(whose, event.time, line, would, progress)
        if would.limit.next != self._next.get(key):
            self._next[key] = would.limit.next
            yield from self._decided(whose, key, event)

    def _decided(self, whose: rows.Whose, key: Key, event: Event) -> Iterator[Row]:
        assert self._shadow is not None
        # The first batch of a run is decided when the run starts, which no row is told of.
        told, self._told[key] = self._told.get(key, -math.inf), event.time
        for one in self._shadow.view(key, event.time).decisions:
            if told < one.time <= event.time:
                self._decisions[key] = self._decisions.get(key, 0) + 1
                yield rows.decision(whose, one)

    def _stages(
        self, whose: rows.Whose, taken: list[Stage], batch_id: int, progress: Progress
    ) -> Iterator[Row]:
        found = [one.alignment for one in taken if one.alignment is not None]
        named = {
            one.stage: one
            for one in sources_named(found, [source.rows for source in progress.sources])
        }
        for one in taken:
            alignment = None if one.alignment is None else named[one.stage]
            yield rows.stage(whose, progress.time, batch_id, one, alignment)

    def _unfinished(self, name: str, state: _Log) -> Iterator[Row]:
        if state.ended:
            return
        application_id = state.reader.application.id
        for query_id, (batch_id, since, group) in state.running.items():
            run_id = state.runs.get(query_id) or group
            key = self._keys.get((application_id, query_id))
            if key is None:
                key = (state.reader.application.name, query_id)
            whose = rows.Whose(*key, application_id, name, query_id, run_id)
            yield incidents.unfinished(whose, batch_id, since, state.last_time)

    def _remember(self) -> None:
        """The fleet's own state of each query, as it saves it."""
        if self._shadow is None:
            return
        for change in self._shadow.changes():
            if change.part.startswith("query:") and change.data is not None:
                query = _decode_query(change.data)
                if query.run.run_id:  # else it has taken up another name, and this one ends
                    self._states[query.application, query.query] = query


def _controllable(event: Event, work: BatchWork | None) -> object:
    """A progress as a driver would send it whose sources Weir may limit, in rows.

    A log does not say which limit was in force. Where a backlog was left, one was, and it was what
    the batch admitted; where none was left it did not matter. Where no backlog is told, what a
    batch read may be the limit's share of far more, so nobody knows what arrives. Nor does a log
    say the trigger.
    """
    body = event.body
    if not isinstance(body, ProgressEvent) or body.limits:
        return body
    limits = [
        _limit_of(index, one)
        for index, one in enumerate(body.progress.sources)
        if one.rows is not None
    ]
    return ProgressEvent(body.progress, limits, work, pace.UNTOLD)


def _limit_of(index: int, one: SourceProgress) -> SourceLimit:
    in_rows = one.unit == "rows"
    # A limit counts offsets, where they are Kafka's. Rows may be twice as many, as of a source that
    # the query reads twice, or a few of them, as of a compacted topic.
    counted = one.admitted if in_rows and one.admitted is not None else one.rows
    return SourceLimit(
        source=index,
        unit="rows",
        # A source that waits, as for its least offsets, admits nothing whatever it has.
        limit=counted if in_rows and one.backlog and counted else None,
        backlog=one.backlog if in_rows else None,
        admitted=counted,
        source_class=_RATE_CLASS if one.description.startswith(_RATE) else UNTOLD,
        # A log says nothing of it: what holds of most.
        shares_watermark=False,
    )
