"""The observer's rounds: heartbeats come in time, and only a JVM that is gone ends them."""

from __future__ import annotations

import itertools
import json
import logging
import socket
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError, get_return_value

from agent.core.decode.events import HeartbeatEvent, decode_event, decode_request
from agent.core.judge.failure.cause import cause_of
from agent.core.policy import Policy
from spark_listener.application import Application
from spark_listener.backlog import Left
from spark_listener.cluster import Cluster as RealCluster
from spark_listener.complaints import Complaints
from spark_listener.config import Settings
from spark_listener.door import DoorLease
from spark_listener.driver import Driver, name_of
from spark_listener.files import FileBacklog, Listing
from spark_listener.lease import Heir, Lease
from spark_listener.limits import Limit
from spark_listener.listener import Captured, Counters
from spark_listener.observer import Observer, Run
from spark_listener.outbox import Outbox
from spark_listener.query import Abilities, PlannedOffsets, Query, RunningBatch, Watermarks
from spark_listener.redact import LONGEST_TEXT
from spark_listener.replies import ExecutorsOrder, Reply
from spark_listener.sender import Link
from spark_listener.sources import KAFKA
from spark_listener.wire import SILENT_SECONDS, parse_time
from tests.driver.test_actuator import (
    EVERYTHING,
    LEFT,
    files_at_once,
    grant,
    left_by,
    limited,
    programs,
    source,
)
from tests.driver.test_executors import Bench as Executing
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["programs"]  # a fixture


class FileHandle:
    unit = "files"
    control = "live"
    note = ""


class FileControl:
    """A file source whose limit is known."""

    index = 0
    handle = FileHandle()
    source_class = "org.apache.spark.sql.execution.streaming.FileStreamSource"
    identity = "0123456789abcdef"
    maximum = configured_maximum = 2
    newest_first = False
    obeyed: bool | None = None
    judged = False

    def in_force_at(self, _: float) -> int:
        return 2

    def no_later_than(self, _: float) -> None:
        pass

    kept = 0

    def keep_to_configured(self) -> None:
        self.kept += 1


class Actuated:
    """An actuator with nothing to set."""

    ready = False

    def __init__(self, *sources: FileControl) -> None:
        self.sources = sources

    def prepare(self) -> bool:
        return False

    def object_of(self, index: int) -> object:
        return index

    def take(self, grants: object, now: float) -> None:
        pass

    def forget(self) -> None:
        pass

    as_configured = False

    def give_up(self, _: str) -> None:
        self.as_configured = True


class RunningQuery:
    """A query of which the JVM says what a test lets it say."""

    id, run_id, name = "q", "r", "enrich"
    trigger = "ProcessingTimeTrigger(60000)"

    def __init__(self, running: Callable[[], RunningBatch]) -> None:
        self.running = running

    def active(self) -> bool:
        return True

    def spark_stops(self) -> bool:
        return False


class RowsHandle:
    unit = "rows"
    control = "live"
    note = ""


class KafkaControl(FileControl):
    handle = RowsHandle()  # type: ignore[assignment]
    source_class = KAFKA.classes[0]


class Planning(RunningQuery):
    """A query that reads Kafka: its running batch from 10 to 30 of the 35 rows there were."""

    abilities = Abilities(offsets=True)

    def planned(self, _: Any) -> PlannedOffsets:
        return PlannedOffsets('{"t":{"0":10}}', '{"t":{"0":30}}', '{"t":{"0":35}}')


class SeenSource:
    def seen(self) -> int:
        return 10

    def unread(self) -> int:
        return 0

    def still_holds(self, listing: Any) -> Any:
        return listing


class SlowListing:
    """What asks a file source while a listing takes its time: each question waits in vain."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def listing(self, _: Any) -> None:
        return None

    def ask(self, _: Any, __: Any, *, timeout_seconds: float) -> None:
        self.waited.append(timeout_seconds)
        time.sleep(timeout_seconds)

    def stop(self) -> None:
        pass


class Telling(Outbox):
    """Keeps what was put, in order: the queue itself lets an old heartbeat go."""

    def __init__(self) -> None:
        super().__init__(1000, 1 << 20, largest_bytes=100_000)
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.beside: list[dict[str, Any]] = []  # of the batches

    def put(self, kind: Any, time: str, body: str, extra: Any = None, **more: Any) -> int:
        self.told.append((kind, json.loads(body)))
        if kind == "progress":
            self.beside.append(extra)
        return super().put(kind, time, body, extra, **more)


class NoJvm:
    """The JVM's side of the listeners, which these tests have no use for."""

    def counters(self) -> Counters:
        return Counters()


class Watched:
    """An observer with one query; its rounds are called by hand."""

    def __init__(self, query: RunningQuery, *sources: FileControl, **settings: Any) -> None:
        outbox = Telling()
        self.told, self.beside = outbox.told, outbox.beside
        self.lost = 0
        self.observer = Observer(
            Settings(**settings),
            Application(object(), "app-1", "etl", "4.2.0", stopped=lambda: False),
            outbox,
            inbox=NoJvm(),  # type: ignore[arg-type]
            gatekeeper=None,  # type: ignore[arg-type]
            complaints=Complaints(),
            on_lost=self._lose,
        )
        self.run = Run(query, Actuated(*sources), None)  # type: ignore[arg-type]
        self.observer._runs["r"] = self.run

    def _lose(self) -> None:
        self.lost += 1


def resting() -> RunningBatch:
    return RunningBatch(7, None)


def progress(batch: int, **told: Any) -> Captured:
    text = json.dumps(
        {
            "id": "q",
            "runId": "r",
            "timestamp": "2026-11-21T08:55:02.865Z",
            "batchId": batch,
            "sources": [
                {"startOffset": {"logOffset": batch}, "endOffset": {"logOffset": batch + 1}} | told
            ],
        }
    )
    return Captured("progress", time.time(), text=text)


def beat(observer: Observer) -> None:
    """A whole heartbeat."""
    for _ in observer._heartbeat():
        pass


def test_what_a_source_has_counted_so_far_is_told_as_a_part() -> None:
    """As by an Auto Loader of Databricks that is still listing."""
    watched = Watched(RunningQuery(resting), FileControl(), heartbeat_seconds=1000.0)
    for batch, whole in enumerate(("false", "true")):
        metrics = {"numFilesOutstanding": "3", "isBacklogComputationComplete": whole}
        watched.observer.mailbox.deliver(progress(batch, metrics=metrics))
        watched.observer._round()
    told = [beside["limits"][0] for beside in watched.beside if beside and "limits" in beside][-2:]
    assert [entry["backlog"] for entry in told] == [3, 3]
    assert [entry.get("backlog_bound", "exact") for entry in told] == ["lower", "exact"]


def test_slow_listings_hold_a_round_for_half_a_second_and_no_heartbeat() -> None:
    watched = Watched(RunningQuery(resting), FileControl(), heartbeat_seconds=0.1)
    slow = SlowListing()
    watched.observer._files = slow  # type: ignore[assignment]
    watched.run.file_sources[0] = SeenSource()  # type: ignore[assignment]
    watched.run.file_backlogs[0] = FileBacklog(deletes=False)
    for turn in (1, 2):
        for batch in range(60):
            watched.observer.mailbox.deliver(progress(batch))
        slow.waited.clear()
        watched.observer._round()
        assert 0 < len(slow.waited) <= 3, "0.2 s each, and half a second in all"
        assert sum(slow.waited) <= 0.5 + 1e-6
        assert sum(kind == "progress" for kind, _ in watched.told) == 60 * turn
    kinds = [kind for kind, _ in watched.told]
    assert kinds[0] == "heartbeat", "first of all, since it was due"
    last = max(place for place, kind in enumerate(kinds) if kind == "progress")
    assert "heartbeat" in kinds[1:last], "and again as soon as it was due"


class Counting:
    """What asks a file source, and is told at once that each batch took ten files."""

    def listing(self, _: Any) -> None:
        return None

    def ask(self, _: Any, __: Any, *, timeout_seconds: float) -> int:
        return 10


def test_files_that_a_batch_took_have_arrived_although_the_source_forgot_as_many() -> None:
    watched = Watched(RunningQuery(resting), FileControl(), heartbeat_seconds=1000.0)
    watched.observer._files = Counting()  # type: ignore[assignment]
    watched.run.file_sources[0] = SeenSource()  # type: ignore[assignment]
    watched.run.file_backlogs[0] = FileBacklog()
    for batch in range(12):
        watched.observer.mailbox.deliver(progress(batch))
        watched.observer._round()
    assert watched.beside[-1]["limits"][0]["arrived"] == 100, "of all batches but the first two"


def test_a_listing_that_can_no_longer_be_made_leaves_the_backlog_unknown_as_of_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dated: an agent keeps what it was told before until somebody looked and could not tell."""
    monkeypatch.setattr(SeenSource, "unread", lambda _: None)
    watched, files = Watched(RunningQuery(resting), FileControl()), Counting()
    watched.observer._files = files  # type: ignore[assignment]
    watched.run.file_sources[0] = SeenSource()  # type: ignore[assignment]
    watched.run.file_backlogs[0] = FileBacklog()
    monkeypatch.setattr(Counting, "listing", lambda *_: Listing(25, 10, 1.0, exact=True))
    beat(watched.observer)
    monkeypatch.setattr(Counting, "listing", lambda *_: None)
    beat(watched.observer)
    before, after = (pulse["limits"][0] for pulse in pulses(watched))
    assert (before["backlog"], before["backlog_bound"]) == (15, "exact")
    assert (after["backlog"], after["backlog_bound"]) == (None, "lower")
    assert after["observed_time"] > before["observed_time"]


@pytest.mark.parametrize(
    ("left", "bound"),
    [
        (Left(3, 7, exact=True), "exact"),
        (Left(3, 7), "lower"),
        (Left(3, 7, partial=True), "partial"),
    ],
)
def test_whether_a_table_was_looked_at_as_a_whole_is_said(left: Left, bound: str) -> None:
    class Table:
        def counted(self, *_: Any, **__: Any) -> Left:
            return left

    watched = Watched(RunningQuery(resting), FileControl())
    watched.run.tables[0] = Table()  # type: ignore[assignment]
    watched.observer.mailbox.deliver(progress(0))
    watched.observer._round()
    (limit,) = watched.beside[-1]["limits"]
    told = limit["admitted"], limit["backlog"], limit["backlog_bound"]
    assert told == (3, 7, bound)


def pulses(watched: Watched) -> list[dict[str, Any]]:
    return [
        query for kind, body in watched.told if kind == "heartbeat" for query in body["queries"]
    ]


def test_a_heartbeat_says_how_far_the_running_batch_of_kafka_reads() -> None:
    watched = Watched(Planning(lambda: RunningBatch(7, 1_795_000_000.0)), KafkaControl())
    beat(watched.observer)
    (limit,) = pulses(watched)[0]["limits"]
    told = {key: limit[key] for key in ("admitted", "backlog", "offsets", "observed_time")}
    assert told == {
        "admitted": 20,
        "backlog": 5,
        "offsets": {"t": {"0": 30}},
        "observed_time": "2026-11-18T11:06:40.000Z",
    }


def test_of_a_batch_in_real_time_mode_its_plan_tells_nothing() -> None:
    """It reads on behind it, and says at its end how far."""
    query = Planning(lambda: RunningBatch(7, 1_795_000_000.0))
    query.trigger = "RealTimeTrigger(300000)"
    watched = Watched(query, KafkaControl())
    beat(watched.observer)
    (pulse,) = pulses(watched)
    assert pulse["trigger"] == query.trigger
    assert not {"admitted", "offsets", "observed_time"} & pulse["limits"][0].keys()


class ManyPartitions(Planning):
    """Of which each batch reads so many that to tell them all takes more than a request holds."""

    def planned(self, _: Any) -> PlannedOffsets:
        return PlannedOffsets(
            *(json.dumps({"t": dict.fromkeys(map(str, range(20_000)), at)}) for at in (10, 30, 35))
        )


def test_a_heartbeat_that_is_too_large_goes_out_without_its_offsets() -> None:
    watched = Watched(ManyPartitions(lambda: RunningBatch(7, 1_795_000_000.0)), KafkaControl())
    beat(watched.observer)
    outbox = watched.observer._outbox
    [heartbeat] = outbox.take(max_events=9, max_bytes=10**6, timeout_seconds=0.0)
    heard = decode_event(json.loads(heartbeat.data), heartbeat.sequence).body
    assert isinstance(heard, HeartbeatEvent)
    [query] = heard.queries
    [limit] = query.limits
    assert (query.batch_id, limit.admitted, limit.backlog) == (7, 400_000, 100_000)
    assert limit.offsets is None
    assert outbox.dropped_total == 0


def told_end(trace: str) -> str:
    watched = Watched(RunningQuery(resting))
    ended = Captured("terminated", time.time(), query_id="q", run_id="r", exception=trace)
    watched.observer._take(ended)
    return str(watched.told[-1][1]["exception"])


def test_of_a_long_trace_the_root_cause_is_told_which_comes_last() -> None:
    frames = "\tat org.apache.spark.scheduler.Task.run(Task.scala:147)\n" * 500
    root = "Caused by: java.lang.OutOfMemoryError: Java heap space\n"
    trace = f"org.apache.spark.SparkException: Job aborted.\n{frames}{root}{frames[:1000]}"
    assert len(trace) > 28_000
    told = told_end(trace)
    assert len(told) <= LONGEST_TEXT
    assert cause_of(told, None) == cause_of(trace, None)
    assert cause_of(told, None).cause == "memory"
    assert told_end(trace[:LONGEST_TEXT]) == trace[:LONGEST_TEXT]


def test_a_secret_that_the_cut_goes_through_is_struck_out_first() -> None:
    secret = f'password="{"hunter2 " * 2000}"'
    assert "hunter2" not in told_end(f"{'a ' * 8000}{secret} {'b ' * 500}")


def test_every_batch_tells_the_trigger_to_an_agent_that_has_not_heard_the_start() -> None:
    watched = Watched(RunningQuery(resting))
    watched.observer.mailbox.deliver(progress(7))
    watched.observer._round()
    assert [one["trigger"] for one in watched.beside] == [RunningQuery.trigger]


class TwoStreams(RunningQuery):
    """A query of two sources, whose plan is not there when it is looked at first."""

    looks = 0

    def watermarks(self) -> Watermarks:
        self.looks += 1
        if self.looks == 1:
            raise RuntimeError("not yet")
        return Watermarks(True, 10.0)


class SecondControl(KafkaControl):
    index = 1


def test_whether_a_watermark_is_shared_is_looked_up_with_a_batch_until_it_is_known() -> None:
    """Before the first has ended Spark may not have read how the checkpoint wants it."""
    query = TwoStreams(resting)
    watched = Watched(query, KafkaControl(), SecondControl())
    beat(watched.observer)
    assert query.looks == 0
    for batch in range(4):
        watched.observer.mailbox.deliver(progress(batch))
        watched.observer._round()
    told = [[one.get("shares_watermark") for one in said["limits"]] for said in watched.beside]
    assert told == [[None, None], [True, True], [True, True], [True, True]]
    delays = [one.get("watermark_delay_seconds") for one in watched.beside[-1]["limits"]]
    assert delays == [10.0, 10.0]
    assert query.looks == 2


def test_of_one_source_the_plan_tells_the_delay_and_nothing_is_shared() -> None:
    query = TwoStreams(resting)
    query.looks = 1
    watched = Watched(query, KafkaControl())
    watched.observer.mailbox.deliver(progress(0))
    watched.observer._round()
    (limit,) = watched.beside[0]["limits"]
    assert limit["watermark_delay_seconds"] == 10.0
    assert "shares_watermark" not in limit


def test_only_the_largest_offsets_are_left_out_of_a_heartbeat_that_is_too_large() -> None:
    watched = Watched(ManyPartitions(lambda: RunningBatch(7, 1_795_000_000.0)), KafkaControl())
    for index in range(20):
        query = Planning(lambda: RunningBatch(7, 1_795_000_000.0))
        query.run_id = f"small{index}"
        run = Run(query, Actuated(KafkaControl()), None)  # type: ignore[arg-type]
        watched.observer._runs[query.run_id] = run
    beat(watched.observer)
    outbox = watched.observer._outbox
    [heartbeat] = outbox.take(max_events=9, max_bytes=10**6, timeout_seconds=0.0)
    told = json.loads(heartbeat.data)["body"]["queries"]
    without = [one["runId"] for one in told if "offsets" not in one["limits"][0]]
    assert without == ["r"]
    assert len(told) == 21


def test_between_two_batches_nothing_is_in_hand() -> None:
    changing = iter([RunningBatch(7, 1.0), RunningBatch(8, 2.0)])
    for query in (Planning(resting), Planning(lambda: next(changing))):
        watched = Watched(query, KafkaControl())
        beat(watched.observer)
        (limit,) = pulses(watched)[0]["limits"]
        assert not {"admitted", "offsets", "observed_time"} & limit.keys()


def test_a_batch_that_is_not_over_after_a_tick_is_told_of_once() -> None:
    """And no heartbeat that waits, with more queries in it, is lost for that."""
    begun = time.time()
    running = Planning(lambda: RunningBatch(8, begun))
    watched = Watched(running, KafkaControl(), heartbeat_seconds=1000.0)
    observer = watched.observer
    observer._round()
    watched.observer._outbox.take(max_events=9, max_bytes=10**6, timeout_seconds=0.0)
    observer.mailbox.deliver(progress(7))
    observer._round()
    before = len(pulses(watched))
    until(lambda: observer._round() or len(pulses(watched)) > before, "the word of its plan")
    assert pulses(watched)[-1]["limits"][0]["admitted"] == 20
    for _ in range(3):
        observer._round()
    assert len(pulses(watched)) == before + 1, "once"
    observer.mailbox.deliver(progress(8))
    for _ in range(3):
        observer._round()
    assert len(pulses(watched)) == before + 1, "the one before has not been sent"


class Clock:
    """In the place of the module ``time``: it goes on when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("spark_listener.observer.time", self)

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_795_000_000.0 + self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_heartbeat_that_takes_longer_than_its_pause_leaves_time_for_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    watched = Watched(RunningQuery(lambda: clock.sleep(6.0) or resting()), FileControl())
    for batch in range(20):
        watched.observer.mailbox.deliver(progress(batch))
    watched.observer._round()
    assert [kind for kind, _ in watched.told].count("progress") == 20
    assert len(pulses(watched)) <= 2
    assert clock.now <= 1012.5


def test_of_hundreds_of_queries_a_heartbeat_tells_what_it_has_each_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the agent would take the driver for gone before it had asked them all."""
    clock = Clock(monkeypatch)
    watched = Watched(RunningQuery(lambda: clock.sleep(0.06) or resting()), FileControl())
    observer, outbox = watched.observer, watched.observer._outbox
    for index in range(300):
        query = RunningQuery(lambda: clock.sleep(0.06) or resting())
        query.run_id = f"r{index}"
        observer._runs[query.run_id] = Run(query, Actuated(FileControl()), None)  # type: ignore[arg-type]
    times: list[float] = []
    put = outbox.put

    heard: dict[str, list[float]] = {}

    def timed(kind: Any, time: str, body: str, *arguments: Any, **more: Any) -> int:
        times.append(clock.now)
        for pulse in json.loads(body)["queries"]:
            heard.setdefault(pulse["runId"], []).append(clock.now)
        return put(kind, time, body, *arguments, **more)

    monkeypatch.setattr(outbox, "put", timed)
    observer._round()
    assert clock.now < 1001.1, "a part a round"
    while observer._heartbeat_parts is not None:
        observer._round()
    assert 16 <= len(times) <= 18, "18 seconds in parts of one"
    waiting = outbox.take(max_events=99, max_bytes=10**6, timeout_seconds=0.0)
    told = [one["runId"] for beat in waiting for one in json.loads(beat.data)["body"]["queries"]]
    assert told == list(observer._runs), "all of them wait, each once"
    assert all(run.told for run in observer._runs.values())
    while clock.now < 1100.0:
        observer.mailbox.wake()
        observer._round()
        clock.sleep(0.0 if observer._heartbeat_parts is not None else 0.5)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert max(gaps) < 1.0 + 0.5 + 1.1, "its pause, a tick, and what the first part takes"
    waits = [b - a for one in heard.values() for a, b in itertools.pairwise(one)]
    assert max(waits) < 18.1 + 1.0 + 0.5 + 1.1, "of each query, what a whole heartbeat takes"


class Slow(RunningQuery):
    """One of many, each of which takes its time to say that it runs."""

    def __init__(self, clock: Clock, run_id: str, seconds: float) -> None:
        super().__init__(resting)
        self._clock, self.run_id, self._seconds = clock, run_id, seconds
        self.then: Callable[[], object] = lambda: None

    def active(self) -> bool:
        self._clock.sleep(self._seconds)
        self.then()
        self.then = lambda: None
        return True


def hundreds(clock: Clock, seconds: float = 0.06) -> tuple[Watched, list[Slow]]:
    watched = Watched(RunningQuery(resting))
    queries = [Slow(clock, f"r{at}", seconds) for at in range(300)]
    watched.observer._runs.clear()
    for query in queries:
        run = Run(query, Actuated(), None)  # type: ignore[arg-type]
        watched.observer._runs[query.run_id] = run
    return watched, queries


class Starting:
    """A query whose first batch is held for 2 s; the agent answers at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: Clock, watched: Watched) -> None:
        self._clock, self._observer = clock, watched.observer
        self._session = Session(control=True)
        self.told: list[float] = []  # when the start was, and when it was let go
        self.gate, self.link = Holding(0.0), Link(1.0)
        monkeypatch.setattr(self.gate, "release", lambda: self.told.append(clock.now))
        monkeypatch.setattr("spark_listener.observer.Query", lambda found: found)
        monkeypatch.setattr("spark_listener.observer.Actuator", lambda *_, **__: Actuated())
        monkeypatch.setattr(Session, "get", lambda *_: Young(resting), raising=False)
        monkeypatch.setattr(Actuated, "has_early_grants", False, raising=False)
        self._observer._sessions.add(self._session)  # type: ignore[arg-type]
        sender = SimpleNamespace(link=self.link, cut_if_overdue=lambda: None)
        self._observer._sender = sender  # type: ignore[assignment]
        self._observer._starts_wait = True
        self._put = self._observer._outbox.put
        monkeypatch.setattr(self._observer._outbox, "put", self._put_and_answer)

    def start(self) -> None:
        self.gate.deadline = self._clock.now + 2.0
        ids = {"query_id": "another", "run_id": "r", "session": self._session, "gate": self.gate}
        told = Captured("started", self._clock.time(), **ids)  # type: ignore[arg-type]
        self._observer.mailbox.deliver(told)

    def _put_and_answer(self, kind: Any, *arguments: Any, **more: Any) -> int:
        number = self._put(kind, *arguments, **more)
        if kind == "started":
            self.told.append(self._clock.now)
            outbox = self._observer._outbox
            outbox.take(max_events=999, max_bytes=10**6, timeout_seconds=0.0)
            outbox.settle(number)
            outbox.landed()
            self._observer.mailbox.reply(Reply(number, (), ()))
        return number


def test_a_start_is_told_and_answered_while_a_heartbeat_of_hundreds_of_queries_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    watched, queries = hundreds(clock)
    observer, starting = watched.observer, Starting(monkeypatch, clock, watched)
    gate = starting.gate
    queries[50].then = starting.start
    observer._round()
    while observer._heartbeat_parts is not None:
        observer._round()
    assert gate.deadline < clock.now, "the heartbeat was not over in time"
    queued, released = starting.told
    assert queued < gate.deadline - 1.8, "two queries' time"
    assert released < gate.deadline - 1.6
    assert starting.link.patient
    assert [one["runId"] for one in pulses(watched)] == [query.run_id for query in queries]


@pytest.mark.parametrize("held", [True, False])
def test_however_many_events_there_are_no_living_query_is_silent_for_too_long(
    monkeypatch: pytest.MonkeyPatch, *, held: bool
) -> None:
    """A heartbeat takes 9 s, and events 60 % of the time, whether a first batch is held or not."""
    clock = Clock(monkeypatch)
    watched, queries = hundreds(clock, seconds=0.03)
    observer = watched.observer
    heard: dict[str, list[float]] = {query.run_id: [] for query in queries}
    put = observer._outbox.put

    def timed(kind: Any, time: str, body: str, *arguments: Any, **more: Any) -> int:
        for pulse in json.loads(body)["queries"]:
            heard[pulse["runId"]].append(clock.now)
        return put(kind, time, body, *arguments, **more)

    monkeypatch.setattr(observer._outbox, "put", timed)
    monkeypatch.setattr(observer, "_tell_progress", lambda *_: clock.sleep(0.01))
    monkeypatch.setattr(observer, "_held", lambda: held)
    came = clock.now
    while clock.now < 1120.0:
        while came <= clock.now:
            observer.mailbox.deliver(progress(7))
            came += 0.01 / 0.6
        observer.mailbox.wake()
        observer._round()
        clock.sleep(0.005)
    waits = [b - a for times in heard.values() for a, b in itertools.pairwise([1000.0, *times])]
    assert max(waits) < SILENT_SECONDS


def test_a_start_is_let_go_when_it_is_answered_however_many_events_came_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    watched = Watched(RunningQuery(resting), heartbeat_seconds=1000.0)
    observer, starting = watched.observer, Starting(monkeypatch, clock, watched)
    observer._runs.clear()
    observer._round()
    monkeypatch.setattr(observer, "_tell_progress", lambda *_: clock.sleep(0.01))
    starting.start()
    for batch in range(250):
        observer.mailbox.deliver(progress(batch))
    observer._round()
    assert clock.now > starting.gate.deadline
    queued, released = starting.told
    assert released - queued < 0.02, "an event's time"
    assert starting.link.patient


def test_of_a_query_that_ends_while_a_heartbeat_goes_on_nothing_is_told_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    watched, queries = hundreds(clock)
    ending = [queries[40], queries[200]]  # one that was asked by then, and one that was not

    def end() -> None:
        for query in ending:
            told = Captured("terminated", clock.time(), query_id="q", run_id=query.run_id)
            watched.observer.mailbox.deliver(told)

    queries[50].then = end
    watched.observer._round()
    while watched.observer._heartbeat_parts is not None:
        watched.observer._round()
    for query in ending:
        heard = [
            kind
            for kind, body in watched.told
            for one in body.get("queries", [body])
            if one["runId"] == query.run_id
        ]
        assert heard[-1] == "terminated"
    assert len(pulses(watched)) == 299


def test_what_only_a_heartbeat_told_that_was_replaced_unsent_is_untold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the agent is thought to know what is configured, and what it decided before holds."""
    clock = Clock(monkeypatch)
    watched = Watched(RunningQuery(lambda: clock.sleep(0.6) or resting()), FileControl())
    observer = watched.observer
    for index in range(4):
        query = RunningQuery(lambda: clock.sleep(0.6) or resting())
        query.run_id = f"r{index}"
        observer._runs[query.run_id] = Run(query, Actuated(FileControl()), None)  # type: ignore[arg-type]
    beat(observer)
    parts = [run.told for run in observer._runs.values()]
    assert len(set(parts)) > 1
    last = list(observer._runs.values())[-1]
    observer._put_heartbeat({"queries": [{"runId": "r", "limits": [{"source": 0}]}]})
    assert observer._runs["r"].told == max(filter(None, parts)) + 1
    assert last.told is None


def no_answer() -> RunningBatch:
    """As py4j says it once it has tried in vain to connect anew."""
    get_return_value("x", None, "o42", "isActive")
    raise AssertionError


def network() -> RunningBatch:
    raise Py4JNetworkError("Answer from Java side is empty")


def changed_method() -> RunningBatch:
    """The JVM answers that there is no such method."""
    get_return_value("xsMethod status([]) does not exist", None, "o42", "status")
    raise AssertionError


def changed_value() -> RunningBatch:
    raise AttributeError("'NoneType' object has no attribute 'batchId'")


def test_py4j_tells_an_error_of_the_jvm_from_no_answer() -> None:
    with pytest.raises(Py4JError) as silent:
        no_answer()
    with pytest.raises(Py4JError, match="Trace:"):
        changed_method()
    assert type(silent.value) is Py4JError


@pytest.mark.parametrize("fails", [changed_method, changed_value])
def test_a_private_interface_that_changed_costs_the_batch_id_and_no_more(
    fails: Callable[[], RunningBatch],
) -> None:
    watched = Watched(RunningQuery(fails))
    for _ in range(30):
        beat(watched.observer)
    assert not watched.lost
    assert not watched.observer._stopping.is_set()
    kind, body = watched.told[-1]
    assert kind == "heartbeat"
    bare = {"id": "q", "runId": "r", "name": "enrich", "trigger": RunningQuery.trigger}
    assert body["queries"] == [bare | {"batchId": None, "running_seconds": None}]
    assert not any(kind == "terminated" for kind, _ in watched.told)


@pytest.mark.parametrize("fails", [no_answer, network])
def test_a_jvm_that_does_not_answer_is_given_up(fails: Callable[[], RunningBatch]) -> None:
    watched = Watched(RunningQuery(fails))
    for _ in range(9):
        beat(watched.observer)
    assert not watched.lost
    beat(watched.observer)
    assert watched.lost == 1
    kind, body = watched.told[-1]
    assert kind == "terminated"
    assert body["driverKilled"]


@pytest.mark.parametrize("killed", [False, True])
def test_a_driver_that_was_killed_is_told_from_one_that_was_stopped(*, killed: bool) -> None:
    watched = Watched(RunningQuery(network))
    watched.observer._killed = lambda: killed
    watched.observer._end_all([])
    ((_, body),) = watched.told
    assert (body["driverEnded"], body["driverKilled"]) == (True, killed)


@pytest.mark.parametrize("fails", [no_answer, network])
def test_a_jvm_that_does_not_answer_is_given_up_where_no_query_runs_too(
    fails: Callable[[], Counters], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be asked for events for ever."""
    watched = Watched(RunningQuery(resting))
    del watched.observer._runs["r"]
    for _ in range(9):
        beat(watched.observer)
    monkeypatch.setattr(watched.observer._inbox, "counters", fails)
    for _ in range(9):
        beat(watched.observer)
    assert not watched.lost
    beat(watched.observer)
    assert watched.lost == 1


def test_a_jvm_that_does_not_answer_is_given_up_where_starts_would_not_wait_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To tell that is a call of its own, which fails in every round."""
    watched = Watched(RunningQuery(network), heartbeat_seconds=0.0)
    observer = watched.observer
    observer._starts_wait = True
    observer._inbox = MagicMock()
    observer._inbox.let_starts_wait.side_effect = Py4JNetworkError  # type: ignore[attr-defined]
    observer._inbox.counters.side_effect = Py4JNetworkError  # type: ignore[attr-defined]
    monkeypatch.setattr("spark_listener.observer._TICK_SECONDS", 0.0)
    for _ in range(10):
        assert not watched.lost
        observer._round_guarded()
    assert watched.lost == 1


def test_counters_that_cannot_be_read_of_a_jvm_that_answers_give_up_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(RunningQuery(resting))
    monkeypatch.setattr(watched.observer._inbox, "counters", network)
    for _ in range(30):
        beat(watched.observer)
    assert not watched.lost


@pytest.mark.parametrize(
    ("given", "sparks", "sent"),
    [
        ("", "etl", "etl"),
        ("mine", "etl", "mine"),
        ("", "", "app-1"),
        ("", "e" * 20_000, "e" * 16_384),
        ("m" * 20_000, "etl", "m" * 16_384),
        ("Z\udce4hler", "etl", "Z?hler"),
    ],
    ids=["Spark's", "its own", "none", "Spark's, too long", "its own, too long", "no UTF-8"],
)
def test_an_application_is_watched_whatever_it_is_called(
    given: str, sparks: str, sent: str
) -> None:
    application = Application(object(), "app-1", sparks, "4.2.0", stopped=lambda: False)
    name = name_of(application, Settings(application_name=given))
    body = {"application": {"id": "app-1", "name": name}, "listener": {"instance": "i"}}
    assert decode_request(json.dumps({**body, "events": []}).encode()).application.name == sent


def test_a_host_is_told_whatever_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Z\udce4hler")
    driver: Any = SimpleNamespace(_gateway=None, _spark=SimpleNamespace(beyond=False))
    assert Driver._process_report(driver)["host"] == "Z?hler"


def test_why_the_jvms_process_is_unknown_is_said_without_a_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing:
        @property
        def jvm(self) -> None:
            raise RuntimeError("cannot open jdbc:x;password=hunter2")

    driver: Any = SimpleNamespace(_gateway=Failing(), _spark=SimpleNamespace(beyond=False))
    with caplog.at_level(logging.DEBUG, "weir"):
        assert "jvm_pid" not in Driver._process_report(driver)
    assert "RuntimeError: cannot open jdbc:x;password=***" in caplog.text
    assert "hunter2" not in caplog.text


def test_the_process_at_a_door_is_not_told_as_the_drivers() -> None:
    """An agent with ``driver_process: auto`` would show its memory as that of the job's Python."""
    for beyond in (False, True):
        driver: Any = SimpleNamespace(_gateway=None, _spark=SimpleNamespace(beyond=beyond))
        assert ("python_pid" in Driver._process_report(driver)) is not beyond


def test_rare_heartbeats_are_named() -> None:
    assert Policy().silent_seconds == SILENT_SECONDS
    assert not Settings().beats_rarely
    assert not Settings(heartbeat_seconds=7.5).beats_rarely
    assert Settings(heartbeat_seconds=8.0).beats_rarely


def test_what_becomes_of_limits_without_an_agent_is_told_of_all_its_queries() -> None:
    one = source(Limit("files", 5))
    watched = Watched(RunningQuery(resting), one)  # type: ignore[arg-type]
    assert watched.observer.without_agent() == "it keeps its configured limits"
    now = time.monotonic()
    one.take(grant(9), now)
    one.changed(one.wanted(now), now)
    assert watched.observer.without_agent().startswith("what Weir set holds for ")
    watched.observer._runs.clear()
    assert watched.observer.without_agent() == "it keeps its configured limits"


class Left:
    """A session that was detached, in which a query runs."""

    control = True

    def __init__(self) -> None:
        self.java = self
        self.asked = 0

    def streams(self) -> Left:
        self.asked += 1
        return self

    def active(self) -> list[object]:
        return [object()]


class Gate:
    released = False

    def release(self) -> None:
        self.released = True


class Holding(Gate):
    """One that holds a first batch until its deadline, with its start told as event 5."""

    held = was_held = True
    sequence = 5
    seconds_to_answer = 2.0

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize("prompt", [True, False])
def test_only_an_agent_that_has_not_answered_is_not_waited_for_again(
    *, prompt: bool, read: bool
) -> None:
    """And none whose answer waits for us, or for a query that takes long to set up its sources."""
    watched = Watched(RunningQuery(resting))
    observer, gate = watched.observer, Holding(time.monotonic() + 60.0)
    observer._sender = sender = SimpleNamespace(link=Link(1.0))  # type: ignore[assignment]
    watched.run.actuator.has_early_grants = True  # type: ignore[misc]
    watched.run.gate = gate  # type: ignore[assignment]
    for _ in range(gate.sequence):
        observer._outbox.put("progress", "", "{}")
    observer._outbox.take(max_events=9, max_bytes=10**6, timeout_seconds=0.0)
    observer._outbox.settle(5 if prompt else 4)
    observer._answered = 5 if prompt and read else 4
    for late in (False, True):
        gate.deadline -= 60.0 if late else 0.0
        observer._steer(watched.run)
        assert gate.released is late
    assert sender.link.patient is prompt


@pytest.mark.parametrize(("seconds", "patient"), [(2.0, False), (1.0, False), (0.9, True)])
def test_an_agent_that_was_told_of_a_start_too_late_is_not_to_blame(
    *, seconds: float, patient: bool
) -> None:
    watched = Watched(RunningQuery(resting))
    observer, gate = watched.observer, Holding(time.monotonic())
    observer._sender = sender = SimpleNamespace(link=Link(1.0))  # type: ignore[assignment]
    watched.run.gate, gate.seconds_to_answer = gate, seconds  # type: ignore[assignment]
    observer._answered = 4
    observer._steer(watched.run)
    assert gate.released
    assert sender.link.patient is patient


@pytest.mark.parametrize("run_id", ["", "r-9"])
def test_a_query_of_a_session_that_was_detached_meanwhile_is_let_be(run_id: str) -> None:
    watched, session, gate = Watched(RunningQuery(resting)), Left(), Gate()
    told = Captured("started", time.time(), run_id=run_id, session=session, gate=gate)  # type: ignore[arg-type]
    watched.observer._started(told)
    assert list(watched.observer._runs) == ["r"]
    assert session.asked == 0
    assert gate.released


class Restarted:
    """A session in which the next run of a query is there by now."""

    control = True

    def __init__(self) -> None:
        self.java = self

    def streams(self) -> Restarted:
        return self

    def get(self, query_id: str) -> SimpleNamespace:
        return SimpleNamespace(id=query_id, run_id="r-2")


def test_a_start_that_is_heard_when_the_next_run_is_there_is_told_as_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the end of the first would be taken for a third run's, and the second for a past one."""
    monkeypatch.setattr("spark_listener.observer.Query", lambda found: found)
    watched, session, gate = Watched(RunningQuery(resting)), Restarted(), Gate()
    watched.observer._sessions.add(session)  # type: ignore[arg-type]
    ids = {"query_id": "q-1", "run_id": "r-1", "session": session, "gate": gate}
    watched.observer._started(Captured("started", time.time(), **ids))  # type: ignore[arg-type]
    assert list(watched.observer._runs) == ["r"]
    assert gate.released
    ((kind, body),) = watched.told
    assert (kind, body["runId"]) == ("started", "r-1")
    assert watched.observer._found(session, "q-1", "r-1") is None  # type: ignore[arg-type]


class Young(RunningQuery):
    """One that ended two batches before its session was watched."""

    class_name = "org.apache.spark.sql.execution.streaming.MicroBatchExecution"
    abilities = Abilities(limits=True)

    def facts(self) -> dict[str, Any]:
        return {"trigger": self.trigger}

    def ended_batches(self) -> list[str]:
        return [progress(batch).text for batch in (0, 1)]

    def watermarks(self) -> None:
        return None


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("met", ["by its session", "by an event"])
def test_batches_that_ended_before_a_new_session_was_watched_are_told_once(
    monkeypatch: pytest.MonkeyPatch, *, whole: bool, met: str
) -> None:
    """Of one that another process may have watched, nobody knows what is told already."""
    monkeypatch.setattr("spark_listener.observer.Query", lambda found: found)
    watched, query = Watched(RunningQuery(resting)), Young(resting)
    observer, session = watched.observer, Session(control=True)
    observer._runs.clear()
    observer._cluster = Cluster()  # type: ignore[assignment]
    session.whole = whole
    monkeypatch.setattr(Session, "active", lambda _: [query])
    monkeypatch.setattr(Session, "get", lambda *_: query, raising=False)
    monkeypatch.setattr("spark_listener.observer.Actuator", lambda *_, **__: Actuated())
    observer._sessions.add(session)  # type: ignore[arg-type]
    if met == "by its session":
        observer._join(session)  # type: ignore[arg-type]
    for batch in (1, 2):  # the listener came while batch 1 ended
        observer._take(replace(progress(batch), session=session))  # type: ignore[arg-type]
    told = [(kind, body.get("batchId")) for kind, body in watched.told]
    first = [("progress", 0)] if whole else []
    assert told == [("started", None), *first, ("progress", 1), ("progress", 2)]


class Cluster:
    """The application's executors: what was said of them."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def join(self, _: object) -> None:
        self.said.append("join")

    def give_back(self) -> None:
        self.said.append("give back")

    def leave(self) -> None:
        self.said.append("leave")

    def forget(self, _: str) -> None:
        pass

    def work(self, *_: object) -> None:
        pass

    def steer(self) -> None:
        pass


class Session:
    """One in which no query runs."""

    whole = False

    def __init__(self, *, control: bool) -> None:
        self.control, self.java = control, self

    def sparkContext(self) -> Session:
        return self

    def streams(self) -> Session:
        return self

    def active(self) -> list[object]:
        return []


def with_cluster() -> tuple[Observer, Cluster]:
    observer, cluster = Watched(RunningQuery(resting)).observer, Cluster()
    observer._cluster = cluster  # type: ignore[assignment]
    observer._runs.clear()
    return observer, cluster


@pytest.mark.parametrize("how", ["_leave", "_let_go"])
def test_executors_go_back_with_the_last_session_that_lets_them_be_changed(how: str) -> None:
    observer, cluster = with_cluster()
    steered, watched = Session(control=True), Session(control=False)
    for session in (steered, watched):
        observer._sessions.add(session)  # type: ignore[arg-type]
        observer._join(session)  # type: ignore[arg-type]
    assert cluster.said == ["join", "join"]
    getattr(observer, how)(steered)
    assert cluster.said == ["join", "join", "give back"]


def test_a_session_that_comes_while_the_others_are_looked_at_disturbs_nobody() -> None:
    """Sessions join from threads of the job's."""

    class Meanwhile(Session):
        @property  # type: ignore[override]
        def control(self) -> bool:
            observer._sessions.add(Session(control=True))  # type: ignore[arg-type]
            return False

        @control.setter
        def control(self, _: bool) -> None:
            pass

    observer, _ = with_cluster()
    observer._sessions |= {Meanwhile(control=False), Meanwhile(control=False)}  # type: ignore[arg-type]
    assert observer._controls is False


def test_executors_that_another_process_asked_for_go_back_where_they_may_not_be_changed() -> None:
    observer, cluster = with_cluster()
    watched = Session(control=False)
    observer._sessions.add(watched)  # type: ignore[arg-type]
    observer._join(watched)  # type: ignore[arg-type]
    assert cluster.said == ["join", "give back"]


@pytest.mark.parametrize("takes", [True, False])
def test_executors_that_work_when_control_is_refused_go_back_later(*, takes: bool) -> None:
    """The observer lives on: those that cannot go yet are its own to give back, for ever."""
    observer, bench, session = with_cluster()[0], Executing(), Session(control=True)
    cluster = RealCluster(
        None,
        None,  # type: ignore[arg-type]
        every_seconds=5.0,
        complaints=Complaints(),
        clock=lambda: bench.time,
    )
    observer._cluster, cluster._joined = cluster, True
    cluster._executors, spark = bench.executors, bench.spark
    observer._sessions.add(session)  # type: ignore[arg-type]
    observer._hand_out(Reply(0, (), (), executors=ExecutorsOrder(5, 600.0)))
    beat(observer)
    spark.names += ["2", "3", "4"]
    spark.busy, spark.jobs, spark.takes = {"2", "3", "4"}, [1], takes
    session.control = False
    bench.time += 5.0
    observer._refuse_control(session)  # type: ignore[arg-type]
    spark.busy, spark.takes = set(), True  # between two stages
    bench.time += 5.0
    beat(observer)
    assert spark.totals == [5, 2]
    assert spark.gone == [], "a stage may read what another one left there"
    spark.jobs = []
    bench.time += 5.0
    beat(observer)
    assert spark.gone == [["2", "3", "4"]]
    assert bench.executors.standing()["asked"] == 2, "some may still be on their way"
    bench.time += 600.0
    beat(observer)
    assert "asked" not in bench.executors.standing()


@pytest.mark.parametrize("ending", [False, True])
def test_executors_go_back_for_the_last_time_when_nobody_watches_any_more(*, ending: bool) -> None:
    """What is spare goes at once then; at the driver's own end all of them go anyway."""
    observer, cluster = with_cluster()
    session = Session(control=True)
    observer.join_session(session)  # type: ignore[arg-type]
    observer._do_what_is_asked()
    if not ending:
        observer.leave_sessions([session], 0.0)  # type: ignore[arg-type]
    observer.stop(0.0, ending=ending)
    observer._loop()
    assert cluster.said == (["join"] if ending else ["join", "give back", "leave"])


def test_a_session_that_takes_the_place_of_one_that_is_gone_keeps_the_executors() -> None:
    observer, cluster = with_cluster()
    gone, new = Session(control=True), Session(control=True)
    observer.join_session(gone)  # type: ignore[arg-type]
    observer._do_what_is_asked()

    class Sessions:
        """Adding one calls the JVM, and the observer's thread has its turn meanwhile."""

        listener = None

        def take_out_gone(self) -> list[Session]:
            return [gone]

        def all(self) -> list[Session]:
            return []

        def add(self, *_: object, control: bool, whole: bool) -> Session:
            observer._do_what_is_asked()
            if not control:
                raise LookupError("the JVM is gone")
            return new

    driver = Driver.__new__(Driver)
    driver._observer = observer
    driver._spark, driver._gateway = SimpleNamespace(lease=Lease()), None  # type: ignore[assignment]
    driver._sessions = driver._inbox = Sessions()  # type: ignore[assignment]
    driver.watch(new, control=True)
    observer._do_what_is_asked()
    assert cluster.said == ["join", "join"]
    assert observer._sessions == {new}
    observer._sessions.add(gone)  # type: ignore[arg-type]
    with pytest.raises(LookupError):
        driver.watch(new, control=False)
    observer._do_what_is_asked()
    assert observer._sessions == {new}, "those that are gone are let go of all the same"


def test_whoever_leaves_at_once_has_found_the_queries_that_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A limit of another process is put back then, too."""
    observer, _ = with_cluster()
    session, met = Session(control=True), []
    monkeypatch.setattr(Session, "active", lambda _: ["a query"])
    monkeypatch.setattr(observer, "_adopt", lambda query, _: met.append(query))
    observer.join_session(session)  # type: ignore[arg-type]
    observer.leave_sessions([session], 0.0)  # type: ignore[arg-type]
    observer._do_what_is_asked()
    assert met == ["a query"]
    observer._ask(lambda: observer._join(session), 0.0)  # type: ignore[arg-type]
    observer._do_what_is_asked()
    assert met == ["a query"], "and one that was left meanwhile is let be"


def test_a_query_that_is_let_be_is_told_of() -> None:
    """Its driver would count as gone otherwise, and a probe would end it."""
    watched = Watched(RunningQuery(resting))
    session = Session(control=True)
    watched.run.session = session  # type: ignore[assignment]
    watched.observer._cluster = Cluster()  # type: ignore[assignment]
    watched.observer._leave(session)  # type: ignore[arg-type]
    (told,) = [body for kind, body in watched.told if kind == "idle"]
    assert told == {"id": "q", "runId": "r", "name": "enrich", "left": True}
    assert watched.observer._runs == {}


class Failure:
    """What a query ended with, as the JVM holds it, and the JVM's own ``java.io``."""

    def __init__(self, *, defined: bool) -> None:
        self.defined = defined
        self.jvm = self.java = self.io = self
        self.get = self.getCause = self.exception = self.StringWriter = lambda: self

    def isDefined(self) -> bool:
        return self.defined

    def PrintWriter(self, writer: Failure) -> Failure:
        return writer

    def printStackTrace(self, writer: Failure) -> None:
        writer.toString = lambda: "java.lang.Error: boom\n\tat a.B.c(B.java:1)\npassword=x"  # type: ignore[attr-defined]

    def getErrorClass(self) -> str:
        if not self.defined:
            raise Py4JError("Method getErrorClass([]) does not exist")
        return "STREAM_FAILED"


def ended(monkeypatch: pytest.MonkeyPatch, *, failed: bool) -> tuple[Watched, Session]:
    """A query of a session that has ended, and of which no event has told so."""
    failure = Failure(defined=failed)
    query = Query.__new__(Query)
    query.execution, query.id, query.run_id, query.name = failure, "q", "r", "enrich"
    monkeypatch.setattr(Query, "active", lambda _: False)
    monkeypatch.setattr(Query, "spark_stops", lambda _: False)
    watched, session = Watched(query), Session(control=True)  # type: ignore[arg-type]
    watched.run.session = session  # type: ignore[assignment]
    watched.observer._sessions.add(session)  # type: ignore[arg-type]
    watched.observer._gateway = failure
    return watched, session


@pytest.mark.parametrize("failed", [True, False])
def test_a_query_that_had_ended_when_its_session_was_detached_is_told_as_ended(
    monkeypatch: pytest.MonkeyPatch, *, failed: bool
) -> None:
    """As in a job whose last lines detach: Spark's own word of it comes too late, or is in hand."""
    watched, session = ended(monkeypatch, failed=failed)
    observer = watched.observer
    observer._cluster = Cluster()  # type: ignore[assignment]
    observer._leave(session)  # type: ignore[arg-type]
    observer._take(Captured("terminated", time.time(), run_id="r", session=session))  # type: ignore[arg-type]
    ((kind, body),) = watched.told
    assert kind == "terminated"
    assert body == {
        "id": "q",
        "runId": "r",
        "name": "enrich",
        "exception": "java.lang.Error: boom\n\tat a.B.c(B.java:1)\npassword=***"
        if failed
        else None,
        "errorClassOnException": "STREAM_FAILED" if failed else None,
    }
    assert observer._runs == {}


@pytest.mark.parametrize("failed", [True, False])
def test_a_query_that_had_ended_when_its_driver_did_is_told_with_what_it_failed_with(
    monkeypatch: pytest.MonkeyPatch, *, failed: bool
) -> None:
    """Spark's own word waits for what the job's listeners make of all that came before it."""
    watched, _ = ended(monkeypatch, failed=failed)
    watched.observer._end_all([])
    ((kind, body),) = watched.told
    assert kind == "terminated"
    assert body["exception"] == (
        "java.lang.Error: boom\n\tat a.B.c(B.java:1)\npassword=***" if failed else None
    )
    assert body["errorClassOnException"] == ("STREAM_FAILED" if failed else None)
    assert not body.get("driverEnded")
    assert watched.observer._runs == {}


@pytest.mark.parametrize(
    ("by", "gone"), [("its own driver", False), ("its JVM", False), ("its JVM", True)]
)
@pytest.mark.parametrize("failed", [True, False])
def test_what_a_query_fails_with_as_spark_stops_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, by: str, *, gone: bool, failed: bool
) -> None:
    """Its jobs are cancelled under it, or parts of Spark are gone that it calls."""
    watched, _ = ended(monkeypatch, failed=failed)
    if by == "its own driver":
        watched.observer._spark_stopped = lambda: True
    else:  # as by SIGTERM to its JVM: Python has not heard of it
        monkeypatch.setattr(Query, "spark_stops", lambda _: network() if gone else True)
    watched.observer._end_all([])
    ((_, body),) = watched.told
    assert (body["exception"], bool(body.get("driverEnded"))) == (None, failed)


@pytest.mark.parametrize("active", [lambda _: True, lambda _: no_answer(), lambda _: network()])
def test_a_query_that_runs_when_its_driver_ends_or_of_which_nobody_can_say_is_told_so(
    active: Callable[[RunningQuery], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunningQuery, "active", active)
    watched = Watched(RunningQuery(resting))
    watched.observer._end_all([])
    ((kind, body),) = watched.told
    assert (kind, body["exception"], body["driverEnded"]) == ("terminated", None, True)
    assert watched.observer._complaints.total == 0, "of a JVM that is gone there is nothing to say"


@pytest.mark.parametrize("failed", [True, False])
def test_an_end_that_the_listener_bus_lost_is_told_as_of_when_it_was_seen(
    monkeypatch: pytest.MonkeyPatch, *, failed: bool
) -> None:
    """The driver lives: its silence of this query would page as a driver that is gone."""
    watched, session = ended(monkeypatch, failed=failed)
    observer = watched.observer
    moments: list[str] = []
    put = observer._outbox.put

    def noted(kind: str, moment: str, *rest: Any, **more: Any) -> int:
        moments.extend([moment] if kind == "terminated" else [])
        return put(kind, moment, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(observer._outbox, "put", noted)
    for _ in range(12):
        beat(observer)
    observer._take(Captured("idle", time.time(), query_id="q", run_id="r"))  # type: ignore[arg-type]
    for _ in range(12):
        beat(observer)
    assert moments == [], "Spark's own word may still come, as another just did"
    watched.run.silent_since -= 60.0
    beat(observer)
    late = Captured("terminated", time.time(), run_id="r", session=session)  # type: ignore[arg-type]
    observer._take(late)
    ((_, body),) = [(kind, body) for kind, body in watched.told if kind == "terminated"]
    assert (body["runId"], body["name"]) == ("r", "enrich")
    assert (body["exception"] is not None) is failed
    assert body["errorClassOnException"] == ("STREAM_FAILED" if failed else None)
    assert 59.0 < time.time() - parse_time(moments[0]) < 90.0
    assert observer._runs == {}
    assert observer._ends_told == set()


@pytest.mark.parametrize("failed", [True, False])
def test_the_end_of_a_run_is_told_before_the_start_of_the_next(
    monkeypatch: pytest.MonkeyPatch, *, failed: bool
) -> None:
    """Spark tells a start at once, and an end once all listeners have heard what was before it."""
    watched, session = ended(monkeypatch, failed=failed)
    observer = watched.observer
    monkeypatch.setattr(Session, "get", lambda *_: None, raising=False)
    moment = time.time() - 3.0
    said = {"query_id": "q", "session": session}
    observer._take(Captured("started", moment, run_id="r-2", **said))  # type: ignore[arg-type]
    observer._take(Captured("terminated", time.time(), run_id="r", **said))  # type: ignore[arg-type]
    assert [(kind, body["runId"]) for kind, body in watched.told] == [
        ("terminated", "r"),
        ("started", "r-2"),
    ]
    assert (watched.told[0][1]["exception"] is not None) is failed
    end, start = observer._outbox.take(max_events=9, max_bytes=10**6, timeout_seconds=0.0)
    assert json.loads(end.data)["time"] == json.loads(start.data)["time"]
    assert observer._ends_told == set()


def test_a_start_of_another_query_or_beside_a_run_that_lives_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched, session = ended(monkeypatch, failed=True)
    monkeypatch.setattr(Session, "get", lambda *_: None, raising=False)
    said = {"run_id": "r-2", "session": session}
    watched.observer._take(Captured("started", 1.0, query_id="another", **said))  # type: ignore[arg-type]
    monkeypatch.setattr(Query, "active", lambda _: True)
    watched.observer._take(Captured("started", 1.0, query_id="q", **said))  # type: ignore[arg-type]
    assert [kind for kind, _ in watched.told] == ["started", "started"]
    assert list(watched.observer._runs) == ["r"]


def test_a_query_of_which_nobody_can_say_whether_it_ended_is_told_as_let_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RunningQuery, "active", lambda _: no_answer())
    watched = Watched(RunningQuery(resting))
    watched.observer._cluster = Cluster()  # type: ignore[assignment]
    watched.observer._leave(watched.run.session)
    ((kind, body),) = watched.told
    assert (kind, body["left"]) == ("idle", True)


class JavaMap(dict[str, Any]):
    """As py4j shows one."""

    def remove(self, name: str) -> None:
        self.pop(name, None)


class Door:
    """The plugin's class: what a process beyond its door left."""

    def __init__(self) -> None:
        self.stays = {"limits r-1 0", "limits r-2 0"}
        self.kept = JavaMap({"limit r-1 0": 500, "limit r-2 0": 500, "executors": [5, 2]})

    def left(self) -> dict[str, Any]:
        return self.kept

    def letGo(self, name: str) -> None:
        self.stays.discard(name)


def test_what_a_process_beyond_the_door_kept_is_for_who_attaches() -> None:
    door = Door()
    heir = Heir(door)
    assert heir.kept("limit r-1 0") == 500
    heir.forget("limits r-1 0", "limit r-1 0")
    assert door.stays == {"limits r-2 0"}
    assert "limit r-1 0" not in door.kept
    heir.keep("executors", [3, 2])
    assert Heir(door).kept("executors") == [3, 2], "for who attaches after a detach"


def test_a_process_that_comes_in_lets_go_of_runs_that_ended_meanwhile() -> None:
    class Plugin:
        maps = {  # noqa: RUF012
            "undo": {},
            "whole": {"limits r-1 0": 1, "limits r-2 0": 2},
            "kept": {"limit r-1 0": 1, "limit r-2 10": 2, "executors": 3},
        }

        def __getattr__(self, name: str) -> Any:
            return lambda: self.maps[name]

    plugin = Plugin()
    DoorLease(plugin).only({"r-2"})
    assert plugin.maps["whole"] == {"limits r-2 0": 2}
    assert plugin.maps["kept"] == {"limit r-2 10": 2, "executors": 3}


def test_what_was_asked_while_a_round_hung_is_done_before_the_end() -> None:
    """A call into Spark may take minutes: whoever detaches then does not wait, but is obeyed."""
    observer = Watched(RunningQuery(resting)).observer
    hangs, asked = threading.Event(), threading.Event()
    observer._round = lambda: hangs.wait(30)  # type: ignore[method-assign,assignment,return-value]
    observer._thread.start()
    observer._ask(asked.set, 0.05)
    observer.stop(0.05)
    assert not asked.is_set()
    hangs.set()
    assert asked.wait(30)


def test_until_the_agent_knows_what_is_configured_no_grant_goes_beyond_it() -> None:
    """What it grants at a start was decided by what the run before had configured."""
    source = FileControl()
    watched = Watched(RunningQuery(resting), source, heartbeat_seconds=1000.0)
    watched.observer._hand_out(Reply(0, (), ()))
    assert source.kept == 1
    beat(watched.observer)
    number = watched.run.told
    assert number is not None
    watched.observer._answered = number - 1
    watched.observer._hand_out(Reply(number - 1, (), ()))
    assert source.kept == 2
    watched.observer._answered = number
    watched.observer._hand_out(Reply(number, (), ()))
    assert source.kept == 2


def test_each_querys_grants_are_told_with_their_own_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is over is not: nobody puts off its end, and it ends no other query's limit."""
    observer, _ = with_cluster()
    told: list[tuple[dict[str, float], list[str]]] = []
    monkeypatch.setattr(observer._lease, "renew", lambda *lives: told.append(lives))
    lives = {"a": ({}, ["limits a 0"]), "b": ({"limits b 0": 30.0, "limits b 1": 7.0}, [])}
    observer._runs = {  # type: ignore[assignment]
        run_id: SimpleNamespace(actuator=SimpleNamespace(lives=lambda _, of=of: of))
        for run_id, of in lives.items()
    }
    observer.renew()
    assert told == [({"limits b 0": 30.0, "limits b 1": 7.0}, ["limits a 0"])]
    observer._stopping.set()
    observer.renew()
    assert len(told) == 1, "another one of this process may have begun"


def test_the_end_of_what_another_process_left_is_put_off_with_the_first_grant(
    programs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next word that this process lives may come too late."""
    lease, query, _ = limited(EVERYTHING, grant(3, lapses=True))
    lease.configured = EVERYTHING
    told: list[dict[str, float]] = []
    monkeypatch.setattr(lease, "renew", lambda lives, _: told.append(lives))
    observer, actuator = Watched(RunningQuery(resting)).observer, left_by(query, lease)
    observer._lease = lease
    run = Run(query, actuator, None, files_looked_up=True)  # type: ignore[arg-type]
    observer._steer(run)
    assert told == []
    for _ in range(2):
        actuator.take([grant(3, lapses=True)], time.monotonic())
        observer._steer(run)
    assert [list(lives) for lives in told] == [[LEFT]]


def test_a_machine_that_slept_ends_every_grant_until_the_agent_has_heard_of_it(
    programs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its monotonic clock stood still, so that by it the grant would live on."""
    _, query, actuator = limited(files_at_once(9), grant(3))
    watched = Watched(RunningQuery(resting), heartbeat_seconds=1000.0)
    observer, origin = watched.observer, [1_795_000_000.0]
    monkeypatch.setattr("spark_listener.observer.clock_origin", lambda: origin[0])
    observer._origin = origin[0]
    run = Run(query, actuator, None, files_looked_up=True)  # type: ignore[arg-type]
    observer._runs = {"run": run}
    actuator.sources[0].newest_first = False
    actuator.take([grant(3)], time.monotonic())
    for step in (0.0, 1.0, -3600.0):  # a clock that is set back says nothing of a sleep
        origin[0] += step
        observer._round()
        assert query.in_force[0] == files_at_once(3)
    before = Reply(len(watched.told), (grant(3),), ())
    origin[0] += 3600.0
    for _ in range(2):
        observer.mailbox.reply(before)
        observer._round()
        assert query.in_force[0] == files_at_once(9)
    assert [kind for kind, _ in watched.told] == ["heartbeat"] * 2, "of before it, and at once"
    observer.mailbox.reply(Reply(len(watched.told), (grant(4),), ()))
    observer._round()
    assert query.in_force[0] == files_at_once(4)
