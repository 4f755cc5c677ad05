"""Does a row fall late only because of Weir? Random queries with a watermark, played twice.

    python -m tests.benchmarks.late_worlds run --seed 1 --seconds 600 --out DIR
    python -m tests.benchmarks.late_worlds shrink FILE    # the smallest world that shows it
    python -m tests.benchmarks.late_worlds show FILE      # batch by batch
    python -m tests.benchmarks.late_worlds found          # causes there are or were, a world each

A *world* is what comes into a query's partitions, what its batches take, and what befalls it: drawn
from its seed, JSON where it is kept. It is played with the real Fleet under ``late_rows: guard``,
and with mode off. ``run`` keeps those in which Weir lost more rows that were on time; ``--features
a,b`` puts just these into each, ``--without a,b`` none of these.

Time is Spark's and the agent's alike. The driver's side is as in ``spark_listener``: a heartbeat
every 5 s and half a second into a batch, replies that come some 100 ms later, a grant in force from
then on (so a batch planned before it is planned without it), and for a while after its last
renewal; a limit split over partitions as ``KafkaMicroBatchStream.rateLimit`` does. A batch in hand
at a restart is run again with its offsets. The watermark is that of ``WatermarkTracker``.

A row is *on time* where it is no more than the delay behind the newest row, of those under the same
watermark, that had come before it. With no configured limit and mode off none of them is ever
dropped. Rows later than that Weir may lose: by them a guard learns.
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import heapq
import math
import random
import sys
import time as clock
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet, Order
from agent.core.judgement import Mode
from agent.core.policy import LateRows, Policy, QueryPolicy
from spark_listener.wire import format_time
from tests.core.events import START_TIME, Driver

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from agent.core.fleet import Grant
    from agent.core.fleet.saved import Change

KEY: Final = ("shop", "orders")
BEAT_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 10.0  # between two words of a query that finds nothing
ROUNDED_SECONDS: Final = 0.0015  # Spark's event times are of whole milliseconds
#: What may be in a world beside partitions that fill unevenly.
FEATURES: Final = (
    "agent", "available", "configured", "cost", "grow", "interval", "jitter", "late", "minimum",
    "offset", "orders", "replay", "restart", "two",
)  # fmt: skip


# -- a world; moments are seconds since it began -------------------------------------------------


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Rows that come evenly from one moment to another."""

    begin: float
    end: float
    rate: float  # rows per second
    factor: float = 1.0  # a second of arrival is so many of event time: a producer catching up


class Lane(msgspec.Struct, frozen=True):
    """What comes into a partition."""

    pieces: list[Piece]
    source: int = 0
    born: float = 0.0


class Cost(msgspec.Struct, frozen=True, array_like=True):
    """What batches take from a moment on."""

    since: float
    fixed_seconds: float
    rate: float  # rows per second


class Act(msgspec.Struct, frozen=True, array_like=True):
    """What befalls: ``restart`` or ``agent``, away so many seconds; an order: ``limit``, ``mode``,
    ``hold``, ``release``.
    """  # fmt: skip

    at: float
    what: str
    value: float | Mode = 0.0
    clean: bool = True  # of a restart: its end is told
    new_process: bool = False


class World(msgspec.Struct, frozen=True):
    """A query with a watermark, of one source or two."""

    seconds: float
    lanes: list[Lane]
    delay_seconds: float
    cost: list[Cost]
    seed: int = 0
    target_seconds: float = 5.0
    minimum_limit: int = 1
    delays_seconds: list[float] | None = None  # by source, where each has its own
    shared: bool = False  # one watermark over both sources (a union), else one each
    told: bool = True  # whether the driver says which, and how long the delay is
    trigger_seconds: float = 0.0
    available_seconds: float | None = None  # AvailableNow, run so often
    jitter: float = 0.0  # event time is up to this share of the delay before arrival
    late_share: float = 0.0  # of rows that are late indeed,
    late_seconds: float = 0.0  # by up to so much beyond the delay
    offset_seconds: float = 0.0  # so far behind arrival event time of the second source lies
    configured: list[int | None] | None = None  # maxOffsetsPerTrigger, by source
    cold_seconds: float = 0.0  # that the first batch of a run takes beside
    noise: float = 0.0  # sigma of a batch's seconds, relative
    slow: list[tuple[int, float]] = []  # number of a batch, seconds that it takes beside
    acts: list[Act] = []
    features: list[str] = []

    @property
    def sources(self) -> int:
        return 1 + max(lane.source for lane in self.lanes)

    def group(self, source: int) -> int:
        """The watermark that a source's rows are under."""
        return 0 if self.shared else source

    def delay_of(self, source: int) -> float:
        own = None if self.shared else self.delays_seconds
        return self.delay_seconds if own is None else own[source]


class Rows:
    """The rows of a lane: when they come, their event times, and which are on time."""

    def __init__(self, world: World, number: int) -> None:
        lane = world.lanes[number]
        self.source, self.born, self.read = lane.source, lane.born, 0
        self.times, self.events = array("d"), array("d")
        draw = random.Random(f"{world.seed}/{number}")
        delay = world.delay_of(lane.source)
        offset = world.offset_seconds if lane.source else 0.0
        for piece in lane.pieces:
            begin, end = max(piece.begin, lane.born), min(piece.end, world.seconds)
            behind = (piece.factor - 1.0) * (end - begin)  # at its begin
            for row in range(int((end - begin) * piece.rate)):
                at = begin + (row + 0.5) / piece.rate
                event = at - behind * (1.0 - (at - begin) / (end - begin)) - offset
                if world.jitter:
                    event -= draw.uniform(0.0, world.jitter * delay)
                if world.late_share and draw.random() < world.late_share:
                    event -= delay + draw.uniform(0.0, world.late_seconds)
                self.times.append(at)
                self.events.append(event)
        self.on_time = bytearray(len(self.times))

    def arrived(self, time: float) -> int:
        return bisect.bisect_right(self.times, time)


def _rows(world: World) -> list[Rows]:
    lanes = [Rows(world, number) for number in range(len(world.lanes))]
    newest: dict[int, float] = {}
    came = (
        (at, number, row) for number, one in enumerate(lanes) for row, at in enumerate(one.times)
    )
    for _, number, row in sorted(came):
        lane = lanes[number]
        event, group = lane.events[row], world.group(lane.source)
        before = newest.get(group, -math.inf)
        lane.on_time[row] = event >= before - world.delay_of(lane.source)
        newest[group] = max(before, event)
    return lanes


# -- a play of it --------------------------------------------------------------------------------


class Plan(msgspec.Struct, frozen=True):
    """What a batch reads: rows of each lane that is there, from one place up to another."""

    starts: dict[int, int]
    ends: dict[int, int]
    limits: list[int | None]
    latest: dict[int, int] | None  # None: planned by the run before, and looked up by none

    @property
    def rows(self) -> int:
        return sum(self.ends.values()) - sum(self.starts.values())


class Running(msgspec.Struct, frozen=True):
    """The batch in hand; by source what it took and left."""

    number: int
    begun: float
    taken: list[int]
    left: list[int | None]


class Batch(msgspec.Struct, frozen=True):
    """One that was committed."""

    number: int
    run: int
    planned: float
    seconds: float
    limits: list[int | None]
    rows: int
    left: list[int | None]
    cut: bool  # by a limit of Weir's
    dropped: int
    lost: int  # of those that were on time
    reason: str  # of the limit, and the finding's evidence, as the agent said when it ended
    finding: str


class Granted(msgspec.Struct, frozen=True):
    """A limit, as the driver keeps it."""

    limit: int | None
    until: float
    lapses: bool


class Play:
    """One world, played once. ``watched``: what the agent says is noted beside each batch."""

    def __init__(
        self, world: World, mode: Mode, late_rows: LateRows = "guard", *, watched: bool = False
    ) -> None:
        self.world, self.watched, self.live = world, watched, mode != "off"
        self.lanes, self.sources = _rows(world), world.sources
        self.configured = world.configured or [None] * self.sources
        self.draw = random.Random(f"{world.seed}/{self.live}")
        self.noise = random.Random(f"{world.seed}/noise")
        told = QueryPolicy(
            mode=mode,
            late_rows=late_rows,
            target_seconds=world.target_seconds,
            minimum_limit=world.minimum_limit,
        )
        self.policy = Policy(default=told)
        self.fleet: Fleet | None = Fleet(self.policy, started_time=START_TIME - 1000.0)
        self.saved: dict[str, Change] = {}
        self.driver = Driver()
        self.time = 0.0
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.queued = 0
        self.outbox: list[dict[str, Any]] = []
        self.granted: list[Granted | None] = []
        self.beats_from = self.draw.uniform(0.0, BEAT_SECONDS)
        self.runs = 0
        self.stop: Act | None = None  # a restart that is due
        self.plan: Plan | None = None  # of the batch that is not committed yet
        self.running: Running | None = None
        self.known: set[int] = set()  # lanes that the last batch knew
        self.watermark = self.last_watermark = -math.inf  # now, and of the last batch
        self.greatest: dict[int, float] = {}  # by watermark: how far this run's rows take it
        self.batches: list[Batch] = []
        self._play()

    @property
    def lost(self) -> int:
        """Rows on time that were dropped."""
        return sum(batch.lost for batch in self.batches)

    @property
    def cuts(self) -> int:
        return sum(batch.cut for batch in self.batches)

    def __str__(self) -> str:
        rows = sum(len(lane.times) for lane in self.lanes)
        return f"{self.lost} of {rows} rows lost, {self.cuts} of {len(self.batches)} batches cut"

    @property
    def _least_delay(self) -> float:
        return min(self.world.delay_of(one) for one in range(self.sources))

    # The driver's side, and the agent.

    def _at(self, time: float, act: Callable[[], None]) -> None:
        self.queued += 1
        heapq.heappush(self.queue, (time, self.queued, act))

    def _advance(self, to: float) -> bool:
        """Plays what happens until then; False where the run is stopped before."""
        while self.queue and self.queue[0][0] <= to:
            time, _, act = heapq.heappop(self.queue)
            self.time = max(self.time, time)
            act()
            if self.stop is not None:
                return False
        self.time = max(self.time, to)
        return True

    @property
    def _now(self) -> float:
        return START_TIME + self.time

    def _post(self, event: dict[str, Any]) -> None:
        if event["type"] == "heartbeat":
            self.outbox = [one for one in self.outbox if one["type"] != "heartbeat"]
        self.outbox.append(event)

    def _send(self) -> None:
        if self.fleet is None or not self.outbox:
            return
        request = decode_request(self.driver.body(*self.outbox))
        self.outbox = []
        receipt = self.fleet.receive(request, self._now + 0.01, lines=False)
        self.saved.update((change.part, change) for change in self.fleet.changes())
        self._at(self.time + self.draw.uniform(0.01, 0.3), lambda: self._take(receipt.grants))

    def _take(self, grants: list[Grant]) -> None:
        for grant in grants:
            if grant.runId == self.driver.run_id and grant.source < self.sources:
                until = self.time + grant.expires_seconds
                self.granted[grant.source] = Granted(grant.limit, until, grant.lapses)

    def _in_force(self, source: int) -> int | None:
        granted, configured = self.granted[source], self.configured[source]
        if granted is None or granted.limit is None:
            return configured
        if self.time >= granted.until and (granted.lapses or configured is not None):
            return configured
        return granted.limit if configured is None else min(granted.limit, configured)

    def _entries(
        self,
        limits: list[int | None] | None,
        taken: list[int | None],
        left: list[int | None],
    ) -> list[dict[str, Any]]:
        """What is told of each source's limit; ``limits`` None: those in force."""
        said = []
        for source in range(self.sources):
            now = self._in_force(source)
            one: dict[str, Any] = {
                "source": source,
                "unit": "rows",
                "limit": now if limits is None else limits[source],
                "next_limit": now,
                "configured": self.configured[source],
                "backlog": left[source],
                "control": "live",
                "identity": f"id{source}",
            }
            if taken[source] is not None:
                one["admitted"] = taken[source]
            if self.world.told and self.batches:
                one["watermark_delay_seconds"] = self._least_delay
                if self.sources > 1:
                    one["shares_watermark"] = self.world.shared
            said.append(one)
        return said

    def _beat(self, run_id: str) -> None:
        """Each heartbeat of a run calls the next."""
        if run_id == self.driver.run_id:
            self._at(self.time + BEAT_SECONDS, lambda: self._beat(run_id))
            self._tell_running()

    def _tell_early(self, number: int) -> None:
        if self.running is not None and self.running.number == number:
            self._tell_running()

    def _tell_running(self) -> None:
        driver, batch = self.driver, self.running
        driver.time = self._now
        nothing: list[int | None] = [None] * self.sources
        if batch is None:
            last = self.batches[-1].number if self.batches else None
            event = driver.heartbeat(last, limits=self._entries(None, nothing, nothing))
        else:
            taken = [one or None for one in batch.taken]
            left = [two if one else None for one, two in zip(taken, batch.left, strict=True)]
            entries = self._entries(None, taken, left)
            for one in entries:
                if "admitted" in one:
                    one["observed_time"] = format_time(START_TIME + batch.begun)
            event = driver.heartbeat(
                batch.number, round(self.time - batch.begun, 3), limits=entries
            )
        self._post(event)
        self._send()

    def _tick(self) -> None:
        self._at(self.time + 5.0, self._tick)
        if self.fleet is not None:
            self.fleet.tick(self._now)

    def _act(self, act: Act) -> None:
        if act.what == "restart":
            self.stop = act
        elif self.fleet is None or not self.live:
            return
        elif act.what == "agent":
            self.fleet = None
            self._at(self.time + float(act.value), self._agent_back)
        else:
            body: dict[str, Any] = {act.what: act.value}
            if act.what == "limit":
                body["limit"] = int(act.value)
            elif act.what in {"hold", "release"}:
                body = {"hold": act.what == "hold"}
            with contextlib.suppress(LookupError):  # nobody told of the query yet
                self.fleet.control(*KEY, Order(who="kim", reason="", **body), self._now)

    def _agent_back(self) -> None:
        self.fleet = Fleet.restore(self.policy, list(self.saved.values()), started_time=self._now)
        self.fleet.wake()
        self._send()

    # Spark.

    def _play(self) -> None:
        for act in self.world.acts:
            self._at(act.at, lambda act=act: self._act(act))  # type: ignore[misc]
        self._tick()
        while self.time < self.world.seconds:
            self._run()
            if self.stop is not None:
                act, self.stop = self.stop, None
                self._end_run(told=act.clean)
                if act.new_process:
                    self.driver.instance += "+"
                    self.driver.application_id += "+"
                    self.driver.sequence = 0
                    self.outbox = []
                self._stay_down(self.time + float(act.value))
            elif (period := self.world.available_seconds) is not None:
                self._end_run(told=True)
                self._stay_down((self.time // period + 1.0) * period)

    def _stay_down(self, to: float) -> None:
        while not self._advance(to):
            self.stop = None  # it is down already

    def _end_run(self, *, told: bool) -> None:
        self.driver.time = self._now
        if told and self.live:
            self._post(self.driver.terminated())
            self._send()
        self.driver.run_id = ""

    def _run(self) -> None:
        world, driver = self.world, self.driver
        self.runs += 1
        self.granted, self.greatest = [None] * self.sources, {}
        driver.run_id = run_id = f"r-{self.runs}"
        driver.time = self._now
        trigger = f"ProcessingTimeTrigger({int(world.trigger_seconds * 1000)})"
        if world.available_seconds is not None:
            trigger = "AvailableNowTrigger"
        if self.live:
            told = {"watermarkDelaySeconds": self._least_delay} if self.world.told else {}
            self._post(driver.started(trigger=trigger, **told))
            self._send()
            self._at(self.time + self.beats_from, lambda: self._beat(run_id))
        if not self._advance(self.time + 0.4):
            return
        fixed = None if world.available_seconds is None else self._latest()
        interval = world.trigger_seconds
        first, idle_told = True, -math.inf
        while self.time < world.seconds:
            planned = self.time
            following = (planned // interval + 1.0) * interval if interval else planned
            if self._batch(first, fixed):
                first, idle_told = False, -math.inf
                if not self._advance(following):
                    return
                continue
            if self.stop is not None or fixed is not None:
                return
            if self.live and planned - idle_told >= IDLE_SECONDS:
                idle_told, driver.time = planned, self._now
                self._post(driver.idle())
                self._at(planned + 0.02, self._send)
            waiting = [lane for lane in self.lanes if lane.read < len(lane.times)]
            comes = [max(lane.times[lane.read], lane.born) for lane in waiting]
            to = min([*(one + 0.01 for one in comes), planned + IDLE_SECONDS, world.seconds])
            if interval:
                to = max(following, (to // interval) * interval)
            if not self._advance(max(to, planned + 0.01)):
                return

    def _latest(self) -> dict[int, int]:
        """What has come by now, of each lane that is there."""
        return {
            number: lane.arrived(self.time)
            for number, lane in enumerate(self.lanes)
            if lane.born <= self.time
        }

    def _of_source(self, source: int, numbers: dict[int, int]) -> list[int]:
        return [number for number in numbers if self.lanes[number].source == source]

    def _planned(self, fixed: dict[int, int] | None) -> Plan:
        latest = self._latest() if fixed is None else fixed
        starts = {number: self.lanes[number].read for number in latest}
        limits = [self._in_force(source) for source in range(self.sources)]
        ends = dict(latest)
        for source, limit in enumerate(limits):
            sizes = {n: latest[n] - starts[n] for n in self._of_source(source, latest)}
            total = sum(sizes.values())
            if limit is None or not total:
                continue
            for number, size in sizes.items():
                part = limit * (size / total)
                part = math.ceil(part) if part < 1 else math.floor(part)
                ends[number] = starts[number] + min(size, part)
        return Plan(starts, ends, limits, latest)

    def _seconds_of(self, number: int, rows: int, first: bool) -> float:
        if not rows:
            return 0.3
        world = self.world
        cost = [one for one in world.cost if one.since <= self.time][-1]
        seconds = cost.fixed_seconds + rows / cost.rate
        if world.noise:
            seconds *= math.exp(self.noise.gauss(0.0, world.noise))
        if first:
            seconds += world.cold_seconds
        seconds += sum(extra for slow, extra in world.slow if slow == number)
        return max(seconds, 0.05)

    def _batch(self, first: bool, fixed: dict[int, int] | None) -> bool:
        """One trigger; False where there was nothing to do, or the run was stopped."""
        planned, watermark = self.time, self.watermark
        if self.plan is not None:
            plan = replace(self.plan, latest=None)
        else:
            plan = self._planned(fixed)
            moved = watermark > self.last_watermark and fixed is None
            if not plan.rows and not moved:
                return False
        self.plan = plan
        taken: list[int] = []
        left: list[int | None] = []
        for source in range(self.sources):
            mine = self._of_source(source, plan.ends)
            taken.append(sum(plan.ends[n] - plan.starts[n] for n in mine))
            latest = plan.latest
            left.append(None if latest is None else sum(latest[n] - plan.ends[n] for n in mine))
        number = self.batches[-1].number + 1 if self.batches else 0
        seconds = self._seconds_of(number, plan.rows, first)
        self.running = Running(number, planned, taken, left)
        if self.live and seconds > 0.6:
            self._at(planned + 0.55, lambda: self._tell_early(number))
        committed = self._advance(planned + seconds)
        self.running = None
        if not committed:
            return False
        self.plan, self.last_watermark = None, watermark
        spans, dropped, lost = self._read(plan)
        limited = zip(plan.limits, self.configured, left, strict=True)
        cut = any(
            limit is not None and limit < (own or math.inf) and waits
            for limit, own, waits in limited
        )
        reason, finding = self._said() if self.watched else ("", "")
        batch = Batch(
            number, self.runs, planned, seconds, plan.limits, plan.rows, left, cut, dropped, lost,
            reason, finding,
        )  # fmt: skip
        self.batches.append(batch)
        if self.live:
            self._tell(plan, batch, watermark, spans, self._entries(plan.limits, list(taken), left))
        return True

    def _read(self, plan: Plan) -> tuple[dict[int, tuple[float, float]], int, int]:
        """Event times by watermark, rows dropped, and those of them that were on time."""
        spans: dict[int, tuple[float, float]] = {}
        dropped = lost = 0
        for number, end in plan.ends.items():
            lane, start = self.lanes[number], plan.starts[number]
            events, lane.read = lane.events[start:end], end
            if not events:
                continue
            low, top = min(events), max(events)
            if low < self.watermark:
                least = self.watermark - ROUNDED_SECONDS
                late = [n for n in range(start, end) if lane.events[n] < least]
                dropped += len(late)
                lost += sum(lane.on_time[n] for n in late)
            group = self.world.group(lane.source)
            first, last = spans.get(group, (low, top))
            spans[group] = (min(first, low), max(last, top))
            before = self.greatest.get(group, -math.inf)
            self.greatest[group] = max(before, top - self.world.delay_of(lane.source))
        groups = {self.world.group(source) for source in range(self.sources)}
        reached = min(self.greatest.get(group, -math.inf) for group in groups)
        self.watermark = max(self.watermark, reached)
        return spans, dropped, lost

    def _tell(
        self,
        plan: Plan,
        batch: Batch,
        watermark: float,
        spans: dict[int, tuple[float, float]],
        entries: list[dict[str, Any]],
    ) -> None:
        event_time = {"watermark": format_time(max(START_TIME + watermark, 0.0))}
        if spans:
            low, top = spans[min(spans)]  # Spark tells of the first operator that had rows
            event_time["min"] = format_time(START_TIME + low)
            event_time["max"] = format_time(START_TIME + top)
        told = []
        for source in range(self.sources):
            mine = self._of_source(source, plan.ends)
            # A partition that was not there before is not in the start.
            before = [n for n in mine if n in self.known or not batch.number]
            topic = f"t{source}"
            one: dict[str, Any] = {
                "description": f"KafkaV2[Subscribe[{topic}]]",
                "startOffset": _offsets(topic, before, plan.starts) if before else None,
                "endOffset": _offsets(topic, mine, plan.ends),
                "numInputRows": sum(plan.ends[n] - plan.starts[n] for n in mine),
            }
            if plan.latest is not None:
                one["latestOffset"] = _offsets(topic, mine, plan.latest)
            told.append(one)
        self.known = set(plan.ends)
        self.driver.time = START_TIME + batch.planned
        event = self.driver.progress(
            batch.rows,
            batch.seconds,
            limits=entries,
            sources=told,
            batch_id=batch.number,
            eventTime=event_time,
            stateOperators=[
                {"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": batch.dropped}
            ],
        )
        self._post(event)
        self._at(self.time + self.draw.uniform(0.01, 0.2), self._send)

    def _said(self) -> tuple[str, str]:
        if self.fleet is None or not self.fleet.keys():
            return "", ""
        view = self.fleet.view(KEY, self._now)
        found = [one.evidence for one in view.findings if one.check == "late_rows"]
        return view.limit.reason, "; ".join(found)


def _offsets(topic: str, lanes: list[int], places: dict[int, int]) -> dict[str, dict[str, int]]:
    return {topic: {str(number): places[number] for number in lanes}}


class Outcome(msgspec.Struct, frozen=True):
    """A world, played with Weir and without."""

    weir: Play
    alone: Play | None  # None: not played, as Weir lost none

    @property
    def excess(self) -> int:
        """Rows on time that fell late because of Weir."""
        return self.weir.lost - (self.alone.lost if self.alone else 0)

    def __str__(self) -> str:
        return f"{self.weir}; {self.alone.lost if self.alone else 0} lost with mode off"


def judge(world: World, late_rows: LateRows = "guard", *, watched: bool = False) -> Outcome:
    weir = Play(world, "on", late_rows, watched=watched)
    return Outcome(weir, Play(world, "off") if weir.lost else None)


# -- drawing a world -----------------------------------------------------------------------------


def drawn(
    seed: int,
    *,
    features: Collection[str] | None = None,
    without: Collection[str] = (),
    least_delay_seconds: float = 1.0,
) -> World:
    """The world of a seed; ``features``: just these, else some of all but those it is without."""
    draw = random.Random(seed)

    def between(low: float, high: float, digits: int = 1) -> float:
        """Evenly on the log scale."""
        return round(math.exp(draw.uniform(math.log(low), math.log(high))), digits)

    if features is None:
        features = [one for one in FEATURES if one not in without and draw.random() < 0.2]
    delay = between(least_delay_seconds, 600.0)
    seconds = draw.choice([600.0, 1200.0, 1800.0])
    target = draw.choice([1.0, 2.0, 5.0, 10.0])
    base = between(5.0, 25.0, 9)  # rows per second
    throughput = base * between(1.1, 3.0, 9)
    fixed = between(0.3, 1.0, 9) * 0.7 * max(target, 1.5)
    more: dict[str, Any] = {}
    cost = [Cost(0.0, round(fixed, 2), round(throughput, 1))]
    count = draw.choice([1, 2, 2, 2, 3, 4, 8])
    sources = 1
    if "two" in features:
        sources, count = 2, max(count, 2)
        more["shared"] = draw.random() < 0.25
        more["told"] = draw.random() < 0.9
        if not more["shared"]:
            more["delays_seconds"] = [delay, between(1.0, 600.0)]
        if "offset" in features:
            more["offset_seconds"] = between(1.0, 3000.0)
    lanes = []
    for number in range(count):
        share = base / count * between(0.05, 1.5, 9)
        pieces: list[Piece] = []
        style = draw.choice(["steady", "bursty", "bursty", "idle", "starts", "waves"])
        at = draw.uniform(0.1, 0.8) * seconds if style == "starts" else 0.0
        scale = between(3.0, 400.0, 9)
        while at < seconds:
            length = between(0.3 * scale, 2.0 * scale, 9)
            if style == "steady":
                rate, length = share, seconds
            elif style == "idle":
                rate = share * 5.0 if draw.random() < 0.2 else 0.0
            elif style == "waves":
                rate = share * draw.uniform(0.0, 3.0)
            else:
                rate = share * draw.choice([0.0, 0.2, 1.0, 1.0, 4.0, 15.0])
            catches_up = "replay" in features and rate and draw.random() < 0.2
            factor = between(2.0, 200.0) if catches_up else 1.0
            if rate:
                end = round(min(at + length, seconds), 1)
                pieces.append(Piece(round(at, 1), end, round(rate, 2), factor))
            at += length
        born = 0.0
        if "grow" in features and number >= sources and draw.random() < 0.5:
            born = round(draw.uniform(0.1, 0.9) * seconds, 1)
        pieces = pieces or [Piece(0.0, seconds, round(share, 2))]
        lanes.append(Lane(pieces, number % sources, born))
    if "jitter" in features:
        more["jitter"] = round(draw.uniform(0.0, 1.0), 2)
    if "late" in features:
        more |= {"late_share": between(0.001, 0.05, 4), "late_seconds": between(1.0, 3600.0)}
    if "available" in features:
        more["available_seconds"] = between(5.0, 300.0)
    elif "interval" in features:
        more["trigger_seconds"] = between(1.0, 120.0)
    if "configured" in features:
        more["configured"] = [
            round(between(1.0, 60.0, 9) * base) if draw.random() < 0.8 else None
            for _ in range(sources)
        ]
    if "minimum" in features:
        more["minimum_limit"] = round(between(1.0, 300.0, 9))
    if "cost" in features:
        for _ in range(draw.randint(1, 3)):
            since, fixed = round(draw.uniform(0.0, seconds), 1), between(0.1, 20.0, 2)
            cost.append(Cost(since, fixed, round(throughput * between(0.3, 3.0, 9), 1)))
        cost.sort(key=lambda one: one.since)
        more["noise"] = draw.choice([0.0, 0.1, 0.3])
        more["cold_seconds"] = draw.choice([0.0, 5.0, 30.0])
        slow = range(draw.randint(0, 3))
        more["slow"] = [(draw.randint(3, 100), between(2.0, 200.0)) for _ in slow]
    acts: list[Act] = []

    def moment() -> float:
        return round(draw.uniform(20.0, seconds), 1)

    if "restart" in features:
        for _ in range(draw.randint(1, 4)):
            at, down = moment(), between(1.0, 400.0)
            clean, new_process = draw.random() < 0.6, draw.random() < 0.5
            acts.append(Act(at, "restart", down, clean, new_process))
    if "agent" in features:
        acts += [Act(moment(), "agent", between(1.0, 200.0)) for _ in range(draw.randint(1, 3))]
    if "orders" in features:
        for _ in range(draw.randint(1, 4)):
            what = draw.choice(["limit", "hold", "release", "mode"])
            value: float | Mode = 0.0
            if what == "limit":
                value = max(1, round(base * between(0.5, 20.0, 9)))
            elif what == "mode":
                value = draw.choice(["on", "off", "dry-run", "on"])
            acts.append(Act(moment(), what, value))
    acts.sort(key=lambda one: one.at)
    return World(
        seconds, lanes, delay, cost, seed, target, acts=acts, features=sorted(features), **more
    )


# -- shrinking one -------------------------------------------------------------------------------


def _lists(some: list[Any]) -> Iterator[list[Any]]:
    """Shorter ones: a half, or all but one."""
    half = len(some) // 2
    if half > 1:
        yield from (some[:half], some[half:])
    for number in range(len(some)):
        yield some[:number] + some[number + 1 :]


def _lanes(lane: Lane) -> Iterator[Lane]:
    pieces = lane.pieces
    if lane.born:
        yield replace(lane, born=0.0)
    yield from (replace(lane, pieces=some) for some in _lists(pieces) if some)
    for number, piece in enumerate(pieces):
        before, after = pieces[:number], pieces[number + 1 :]
        if piece.factor != 1.0:
            yield replace(lane, pieces=[*before, replace(piece, factor=1.0), *after])
        if after:
            joined = Piece(piece.begin, after[0].end, max(piece.rate, after[0].rate))
            yield replace(lane, pieces=[*before, joined, *after[1:]])


def _begun_later(world: World, by: float) -> Iterator[World]:
    lanes = [
        replace(
            lane,
            born=max(lane.born - by, 0.0),
            pieces=[
                replace(one, begin=round(max(one.begin - by, 0.0), 1), end=round(one.end - by, 1))
                for one in lane.pieces
                if one.end > by
            ],
        )
        for lane in world.lanes
    ]
    if by > 1.0 and world.available_seconds is None and all(lane.pieces for lane in lanes):
        acts = [replace(act, at=act.at - by) for act in world.acts if act.at > by]
        yield replace(world, lanes=lanes, seconds=round(world.seconds - by, 1), acts=acts)


def smaller(world: World) -> Iterator[World]:
    """Worlds that are simpler by one thing."""
    plain = World(world.seconds, world.lanes, world.delay_seconds, world.cost)
    if world.acts:
        yield replace(world, acts=[])
    yield from (replace(world, acts=acts) for acts in _lists(world.acts))
    for name in (
        "late_share", "jitter", "offset_seconds", "minimum_limit", "noise", "cold_seconds", "slow",
        "configured", "trigger_seconds", "available_seconds",
    ):  # fmt: skip
        if getattr(world, name) != getattr(plain, name):
            yield replace(world, **{name: getattr(plain, name)})
    yield from (replace(world, cost=[world.cost[0], *more]) for more in _lists(world.cost[1:]))
    lanes = world.lanes
    for some in _lists(lanes):
        if some and {one.source for one in some} == {one.source for one in lanes}:
            yield replace(world, lanes=some)
    if world.sources > 1:
        for of in ({0}, {1}, {0, 1}):
            some = [replace(one, source=0) for one in lanes if one.source in of]
            one = replace(world, delays_seconds=None, shared=False, told=True, configured=None)
            yield replace(one, lanes=some, delay_seconds=world.delay_of(min(of)))
    for share in (0.5, 0.8, 0.95):
        end = round(world.seconds * share, 1)
        kept = [[one for one in lane.pieces if one.begin < end] for lane in lanes]
        some = [
            replace(lane, pieces=few or lane.pieces[:1])
            for lane, few in zip(lanes, kept, strict=True)
        ]
        yield replace(world, seconds=end, lanes=some)
    begin = min(piece.begin for lane in lanes for piece in lane.pieces)
    for by in (begin - 5.0, 0.5 * world.seconds, 0.25 * world.seconds, 60.0, 10.0):
        yield from _begun_later(world, by)
    for number, lane in enumerate(lanes):
        for less in _lanes(lane):
            yield replace(world, lanes=[*lanes[:number], less, *lanes[number + 1 :]])


def shrunk(world: World, seconds: float) -> World:
    """The smallest that is found in so long a time and still loses rows because of Weir."""
    until = clock.monotonic() + seconds
    again = True
    while again:
        again = False
        for one in smaller(world):
            if clock.monotonic() > until:
                return world
            if judge(one).excess > 0:
                world, again = one, True
                break
    return world


# -- causes there are or were --------------------------------------------------------------------


def _lane(*pieces: tuple[float, float, float], source: int = 0, born: float = 0.0) -> Lane:
    return Lane([Piece(*piece) for piece in pieces], source, born)


_WAVES: Final = [(at, at + 40.0, 60.0) for at in range(50, 600, 60)]
FOUND: Final[dict[str, World]] = {
    # More than the delay waits, in order, in one partition or evenly in two; one is added. Nobody
    # can see it coming, so rows are lost; the finding says before that they would be.
    "added to one": World(
        2000.0, [_lane((0, 1500, 70)), _lane((1500, 2000, 1), born=1500.0)], 600.0,
        [Cost(0, 1.0, 40.0)],
    ),
    "added to two": World(
        600.0, [_lane((0, 600, 40)), _lane((0, 600, 40)), _lane((400, 600, 5), born=400.0)], 120.0,
        [Cost(0, 1.0, 60.0)],
    ),
    # A watermark each: the delay is taken for the first one's, or for how far they are apart.
    "a watermark each": World(
        600.0,
        [_lane((0, 600, 5)), _lane((0, 600, 20), source=1), _lane((0, 50, 5), *_WAVES, source=1)],
        60.0, [Cost(0, 1.0, 60.0)], delays_seconds=[60.0, 5.0],
    ),
    "a watermark each, behind": World(
        700.0,
        [_lane((0, 700, 5)), _lane((0, 700, 5), source=1),
         _lane((0, 50, 5), (50, 200, 150), source=1)],
        60.0, [Cost(0, 1.0, 60.0)], delays_seconds=[60.0, 60.0], offset_seconds=600.0,
    ),
    # Near now, and far apart once the same share of both is read.
    "drained": World(
        240.0, [_lane((60, 68, 60)), _lane((0, 240, 3))], 50.0, [Cost(0, 5.0, 17.0)],
        target_seconds=10.0,
    ),
    # Rows up to so much of the delay late, in partitions that are apart.
    "jitter": World(
        900.0,
        [_lane((0, 900, 20)), _lane((100, 110, 100), (200, 210, 200), (300, 310, 300))],
        60.0, [Cost(0, 0.5, 60.0)], jitter=0.4, target_seconds=2.0,
    ),
    "jitter, all of the delay": World(
        130.0, [_lane((60, 70, 40), (100, 110, 40)), _lane((0, 130, 1))], 30.0,
        [Cost(0, 0.5, 10.0)], 3, jitter=0.95, target_seconds=2.0,
    ),
    # The agent is gone for less than a minute.
    "agent gone": World(
        260.0, [_lane((0, 260, 1)), _lane((0, 100, 5), (100, 120, 40))], 20.0,
        [Cost(0, 0.5, 40.0)], target_seconds=2.0, acts=[Act(100.0, "agent", 50.0)],
    ),
    # Short batches, and a burst that the limit in force makes as long as the delay.
    "short delay": World(
        260.0, [_lane((0, 300, 5)), _lane((0, 200, 1), (200, 203, 100))], 5.0,
        [Cost(0, 1.0, 15.0)],
    ),
    # Batches half as long as the delay: what comes until an order acts is further apart.
    "long batches": World(
        24.6, [_lane((3, 14, 8.7)), _lane((0, 12.3, 14.5), (18.7, 22, 14.5))], 5.2,
        [Cost(0, 1.2, 30.6)], 13, target_seconds=2.0,
    ),
}  # fmt: skip


# -- what is printed -----------------------------------------------------------------------------


def show(world: World) -> None:
    """The world, and its batches around the first that lost a row."""
    outcome = judge(world, watched=True)
    batches = outcome.weir.batches
    print(msgspec.json.encode(world).decode())
    print(f"delay {world.delay_seconds:g} s: {outcome}")
    first = next((number for number, one in enumerate(batches) if one.lost), None)
    if first is not None:
        for one in batches[max(first - 12, 0) : first + 4]:
            print(
                f"{one.number} of run {one.run} at {one.planned:.1f} took {one.seconds:.1f} s: "
                f"limits {one.limits}, rows {one.rows}, left {one.left}{', cut' * one.cut}, "
                f"dropped {one.dropped}, lost {one.lost}; {one.reason}; {one.finding}"
            )


def search(options: Any) -> int:
    """Draws worlds for so long a time and keeps those that lose rows because of Weir; how many."""
    until, seed, lost, cut = clock.monotonic() + options.seconds, options.seed, 0, 0
    options.out.mkdir(parents=True, exist_ok=True)
    while clock.monotonic() < until:
        world = drawn(
            seed,
            features=options.features,
            without=options.without,
            least_delay_seconds=options.least_delay,
        )
        outcome = judge(world)
        cut += outcome.weir.cuts > 0
        if outcome.excess > 0:
            lost += 1
            (options.out / f"{seed}.json").write_bytes(msgspec.json.encode(world))
            features = ", ".join(world.features)
            print(f"{seed} ({features}): delay {world.delay_seconds:g} s, {outcome}", flush=True)
        seed += 1
    worlds = seed - options.seed
    print(f"{worlds} worlds, batches were cut in {cut}, rows lost because of Weir in {lost}")
    return lost


def _features(text: str) -> list[str]:
    named = [one for one in text.split(",") if one]
    if unknown := set(named) - set(FEATURES):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not of {FEATURES}")
    return named


def main(arguments: list[str] | None = None) -> int:
    """Prints what was asked for; 1 where a drawn world lost rows because of Weir."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    what = parser.add_subparsers(dest="what", required=True)
    run = what.add_parser("run", help="draw worlds and keep those that lose rows")
    run.add_argument("--seed", type=int, default=1, help="number of the first world")
    run.add_argument("--seconds", type=float, default=60.0, help="for how long")
    run.add_argument("--out", type=Path, required=True, help="where worlds that lose rows are kept")
    run.add_argument("--features", type=_features, help=f"just these, of {', '.join(FEATURES)}")
    run.add_argument("--without", type=_features, default=[], help="none of these")
    run.add_argument("--least-delay", type=float, default=1.0, help="of the watermark, in seconds")
    shrink = what.add_parser("shrink", help="make a kept world small, beside it, and show it")
    shrink.add_argument("file", type=Path)
    shrink.add_argument("--seconds", type=float, default=120.0, help="for how long")
    what.add_parser("show", help="batch by batch").add_argument("file", type=Path)
    what.add_parser("found", help="causes there are or were, a world each")
    options = parser.parse_args(arguments)
    if options.what == "run":
        return 1 if search(options) else 0
    if options.what == "found":
        for name, world in FOUND.items():
            print(f"{name}: delay {world.delay_seconds:g} s, {judge(world)}", flush=True)
        return 0
    world = msgspec.json.decode(options.file.read_bytes(), type=World)
    if options.what == "shrink":
        world = shrunk(world, options.seconds)
        options.file.with_suffix(".small.json").write_bytes(msgspec.json.encode(world))
    show(world)
    return 0


if __name__ == "__main__":
    sys.exit(main())
