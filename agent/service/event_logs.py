"""Event logs of drivers that hold no listener of ours, read into the fleet by the clock.

Files are read by a thread of their directory's, one step at a time; what a step gave is judged and
committed on the event loop as a driver's request is, and only then read on. A directory whose
storage does not answer keeps its own thread, and neither another's nor the agent's end. Beside them
go the stages of each batch: what it waited for, as the driver's REST API would tell. A log whose
application has a listener of ours is left alone: nothing is counted twice. A log that nothing is
written to for an hour is put aside, and taken up where it was counted when it grows again.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import threading
import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import structlog

from agent.core.names import first_line
from agent.service.keeper import FleetFull, StateUnavailable
from agent.service.log import Rarely
from agent.sources.event_log import (
    INSTANCE,
    LOST_SECONDS,
    PULSE,
    QUIET_SECONDS,
    Follower,
    Log,
    find_logs,
    newest_time,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from agent.core.fleet import RunSeen
    from agent.core.judge.alignment import AlignmentView
    from agent.service.keeper import Keeper

_T = TypeVar("_T")
#: A directory that has not answered for so long is told to hang: a look at 100,000 logs takes
#: seconds, and a step of one a part of one.
HUNG_SECONDS: Final = 60.0
#: Between two looks at logs that were put aside: has one grown?
LOOK_AGAIN_SECONDS: Final = 60.0
#: A look into the directories may take one part in so many of the time, or one with 100,000 logs
#: would cost a core: 5 %, so that what takes half a second is done every ten, and what takes three
#: or more once a minute.
FIND_PARTS: Final = 20
#: Of a turn, for whether logs that are not followed were written to: those that are have their
#: pulse in time (a pulse is 5 s, and who has none for 15 s is silent).
CONSIDER_SECONDS: Final = 1.0
#: A heartbeat for what runs, as often as a listener sends one.
PULSE_SECONDS: Final = 5.0
#: Logs followed at once; each keeps a decoder and one step of its bytes.
MOST_LOGS: Final = 500
#: What all of them together may keep of lines and blocks that are not whole yet: half a megabyte
#: each, as much as one of Spark's zstd frames. Each directory has its share.
MOST_HELD_BYTES: Final = 256 * 1024 * 1024
_log = structlog.get_logger("event-log")


class _PutAside(msgspec.Struct, frozen=True):
    """A log that is not followed."""

    written_time: float  # its newest line's, epoch seconds; infinite: it is done with for good
    counted: int  # the newest number of it that the fleet counted


class SeenRuns:
    """What followers ask the fleet for, copied: they read in threads of their own."""

    def __init__(self, runs: Iterable[RunSeen] = ()) -> None:
        """``runs``: of all queries."""
        self._batches: dict[str, int | None] = {}
        self._present: dict[tuple[str, str], str] = {}  # by application and query id
        self._over: set[str] = set()
        self.see(runs)

    def see_all(self, runs: Iterable[RunSeen]) -> None:
        """The same anew."""
        for known in (self._batches, self._present, self._over):
            known.clear()
        self.see(runs)

    def see(self, runs: Iterable[RunSeen]) -> None:
        """Takes in what became of some."""
        for one in runs:
            query = one.application_id, one.query_id
            self._batches[one.run_id] = one.batch_id
            if one.ended:
                self._over.add(one.run_id)
                self._present.pop(query, None)
            else:
                self._over.discard(one.run_id)
                self._present[query] = one.run_id

    def last_batch(self, run_id: str) -> int | None:
        """The newest batch that was counted of a run."""
        return self._batches.get(run_id)

    def present_run(self, query: tuple[str, str]) -> str | None:
        """The run that has not ended, by application id and Spark's query id."""
        return self._present.get(query)

    def has_ended(self, run_id: str) -> bool:
        """Whether the end of a run was counted."""
        return run_id in self._over


class _Hand:
    """A thread for what may never answer. It ends with its owner, or dies with the process."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def do(self, act: Callable[[], _T]) -> _T:
        """What ``act`` gives or raises, when the thread comes to it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_T] = loop.create_future()

        def done(result: _T | None, error: Exception | None) -> None:
            if answer.done():  # nobody waits any more
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]  # what it gave, if that is None

        def work() -> None:
            result, failed = None, None
            try:
                result = act()
            except Exception as error:  # noqa: BLE001 - raised where it is awaited
                failed = error
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(done, result, failed)

        if self._thread is None:
            self._thread = threading.Thread(
                target=_work, args=(self._jobs,), name="weir-event-logs", daemon=True
            )
            self._thread.start()
            weakref.finalize(self, self._jobs.put, None)
        self._jobs.put(work)
        return await answer


def _work(jobs: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # and what it gave


class EventLogs:
    """The logs of some directories. The event loop owns it; ``poll`` is called again and again."""

    def __init__(
        self,
        directories: Sequence[Path],
        keeper: Keeper,
        clock: Callable[[], float],
        machine: Callable[[], float] | None = None,
    ) -> None:
        """Nothing is read before ``poll``. ``machine``: the clock of files, where it is another."""
        self._keeper = keeper
        self._clock = clock
        self.directories = [
            Directory(one, self, keeper, clock, machine or clock)
            for one in dict.fromkeys(directories)
        ]

    async def poll(self) -> None:
        """Gives each directory its turn, but for one that is still at its last one.

        Nor are the others kept waiting by one that is not done in time for the next pulse.
        """
        begun: set[asyncio.Task[None]] = set()
        for one in self.directories:
            one.tell_whether_it_hangs()
            if one.turn is None:
                one.turn = asyncio.create_task(one.look())
                begun.add(one.turn)
        ends = self._clock() + PULSE_SECONDS
        while begun and (left := ends - self._clock()) > 0:
            _, begun = await asyncio.wait(begun, timeout=left)
        failed: BaseException | None = None
        for one in self.directories:
            if one.turn is not None and one.turn.done():
                turn, one.turn = one.turn, None
                if not turn.cancelled():
                    failed = failed or turn.exception()
        if failed is not None:
            raise failed

    def follows(self, name: str) -> bool:
        """Whether a log of this name is followed: one may lie in two directories."""
        return any(name in one.followers for one in self.directories)

    def full(self) -> bool:
        """Whether no more logs are followed."""
        return sum(len(one.followers) for one in self.directories) >= MOST_LOGS

    def tell_behind(self) -> None:
        """Says which logs are not read to their end."""
        behind = {INSTANCE + name for one in self.directories for name in one.names_behind()}
        self._keeper.fleet.see_logs_behind(behind)

    def keep_places(self, now: float) -> None:
        """Says which places are needed, where all directories could be read."""
        present: set[str] = set()
        for one in self.directories:
            if one.present is None:
                return
            present |= one.present
        self._keeper.fleet.see_logs({INSTANCE + name for name in present}, now)


class Directory:
    """One directory, and the logs in it that are followed."""

    def __init__(
        self,
        path: Path,
        whole: EventLogs,
        keeper: Keeper,
        clock: Callable[[], float],
        machine: Callable[[], float],
    ) -> None:
        self._path = path
        self._whole = whole
        self._keeper = keeper
        self._clock = clock
        self._machine = machine
        self._hand = _Hand()
        self._asked_time: float | None = None  # since when its storage has not answered
        self._hangs = False
        self.turn: asyncio.Task[None] | None = None
        self.followers: dict[str, Follower] = {}
        #: Logs whose places are needed; None while it could not be read.
        self.present: set[str] | None = None
        self._past: dict[str, _PutAside] = {}
        self._missing: set[str] = set()
        self._read_out: set[str] = set()
        self._behind: deque[str] = deque()  # not read to their end; who waits longest comes first
        self._find_time = -math.inf  # the next look into it is not before
        self._waiting: dict[str, Log] = {}  # to be considered, who waits longest first
        self._look_again_time = 0.0
        self._said: set[str] = set()
        self._ended: set[str] = set()  # their applications have: nothing more will be written
        self._runs = SeenRuns()
        self._aligned: dict[str, AlignmentView] = {}  # by run id, until the fleet has it
        self._pulse_time = 0.0
        self._rarely = Rarely(300.0)

    def tell_whether_it_hangs(self) -> None:
        """Once, and once that it does no more."""
        asked = self._asked_time
        hangs = asked is not None and self._clock() - asked > HUNG_SECONDS
        if hangs and not self._hangs:
            _log.warning(
                "an event log directory does not answer, so its storage may hang: nothing in it is"
                " followed until it does",
                directory=self._path,
            )
        elif self._hangs and not hangs:
            _log.info("an event log directory answers again", directory=self._path)
        self._hangs = hangs

    def names_behind(self) -> set[str]:
        """Logs that are not read to their end."""
        waiting = {name for name, follower in self.followers.items() if follower.waits}
        return self.followers.keys() & set(self._behind) | waiting

    async def _do(self, act: Callable[[], _T]) -> _T:
        self._asked_time = self._clock()
        try:
            return await self._hand.do(act)
        finally:
            self._asked_time = None

    async def look(self) -> None:
        """Reads every log on towards its present end: first those that had reached it before."""
        now = self._clock()
        if now >= self._find_time:
            await self._find(now)
            ended = self._clock()
            # One that hung, or slept with its machine, keeps new logs unseen no longer than that.
            self._find_time = ended + min((ended - now) * (FIND_PARTS - 1), LOOK_AGAIN_SECONDS)
        await self._consider_waiting()
        self._whole.tell_behind()
        self._runs.see_all(self._keeper.fleet.runs())
        self._read_out.clear()
        await self._read_on()
        self._whole.tell_behind()
        self._note_alignments()
        if now - self._pulse_time >= PULSE_SECONDS:
            self._pulse_time = now
            for name, follower in list(self.followers.items()):
                await self._pulse(follower, behind=name in self._behind or follower.waits)
            await self._put_aside(self._machine())

    async def _read_on(self) -> None:
        """A while; then all have their pulse. Of those that are behind one has a turn at least."""
        self._behind = deque(name for name in self._behind if name in self.followers)
        ends = self._clock() + PULSE_SECONDS
        behind = set(self._behind)
        for name, follower in list(self.followers.items()):
            if name in behind:
                continue
            more = await self._read(follower) and await self._read(follower)  # does it end there?
            while more and self._clock() < ends:
                more = await self._read(follower)
            if more:
                self._behind.append(name)
        turns = 0
        while self._behind and (turns == 0 or self._clock() < ends):
            turns += 1
            name = self._behind[0]  # behind while it is read, too: other directories tell it
            follower = self.followers[name]
            more = await self._read(follower)
            if more and self._clock() < ends:
                more = await self._read(follower)
            self._behind.popleft()
            if more:
                self._behind.append(name)

    async def _find(self, now: float) -> None:
        try:
            logs = await self._do(partial(find_logs, self._path))
        except OSError as error:
            self._missing.clear()
            self.present = None
            self._rarely.warn(
                _log.warning,
                "an event log directory cannot be read",
                now,
                directory=self._path,
                cause=error.strerror,
            )
            return
        found = {log.name: log for log in logs}
        self._drop_missing(found)
        # Not that of a log that has ended and was read out.
        self.present = found.keys() - self._ended
        self._whole.keep_places(now)
        again = now - self._look_again_time >= LOOK_AGAIN_SECONDS
        if again:
            self._look_again_time = now
        self._waiting = {name: found[name] for name in self._waiting if name in found}
        for name, log in found.items():
            past = self._past.get(name)
            if name in self.followers:
                self.followers[name].log = log  # `.inprogress` falls off at its end
            elif past is None or (again and past.written_time != math.inf):
                self._waiting[name] = log

    async def _consider_waiting(self) -> None:
        """Follows those that are written to, as many as the time of a turn allows to ask of."""
        ends = self._clock() + CONSIDER_SECONDS

        def written_times() -> list[tuple[Log, float]]:
            asked: list[tuple[Log, float]] = []
            for log in self._waiting.values():
                asked.append((log, newest_time(log)))
                if self._clock() >= ends:
                    break
            return asked

        if not self._waiting:
            return
        for log, written in await self._do(written_times):
            del self._waiting[log.name]
            if written:  # else it is gone, or not to be read just now
                self._consider(log, written)

    def _drop_missing(self, found: dict[str, Log]) -> None:
        """Lets go of deleted logs; one that is renamed just now may be missing once."""
        missing = self.followers.keys() - found.keys()
        for name in missing & self._missing:
            del self.followers[name]
            _log.info("an event log is gone", file=name)
        self._missing = missing
        self._past = {name: past for name, past in self._past.items() if name in found}
        self._said &= found.keys()
        self._ended &= found.keys()

    def _consider(self, log: Log, written: float) -> None:
        now = self._machine()
        past = self._past.get(log.name)
        counted = self._keeper.fleet.counted(INSTANCE + log.name)
        if past is not None:
            counted = max(counted, past.counted)  # the fleet may have had no room for it
            wanted = written > past.written_time
        else:
            wanted = bool(counted) or now - written <= LOST_SECONDS
        if not wanted:
            self._past[log.name] = _PutAside(written, counted)
            return
        if self._whole.follows(log.name):
            return
        if self._whole.full():
            self._rarely.warn(
                _log.warning, f"more than {MOST_LOGS} event logs grow: the rest waits", now
            )
            return
        self._past.pop(log.name, None)
        self.followers[log.name] = Follower(
            log,
            counted,
            self._runs.last_batch,
            self._runs.present_run,
            self._runs.has_ended,
            counted_time=self._keeper.fleet.counted_time(INSTANCE + log.name),
        )
        self._behind.append(log.name)
        _log.info("following an event log", file=log.path)

    async def _put_aside(self, now: float) -> None:
        """Lets go of logs that are read to their end and that nobody writes to any more."""
        for name in self._read_out & self.followers.keys():
            written = await self._do(partial(newest_time, self.followers[name].log))
            if 0 < written < now - LOST_SECONDS:
                self._forget(name, written)
                _log.info("an event log is silent: put aside until it grows", file=name)

    async def _read(self, follower: Follower) -> bool:
        """One step of a log; whether there may be more."""
        try:
            return await self._step(follower)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one, the others go on
            self._leave_alone(follower.log.name, error)
            return False

    async def _step(self, follower: Follower) -> bool:
        now = self._clock()
        name = follower.log.name
        try:
            request = await self._do(partial(follower.next_request, self._machine()))
        except OSError as error:
            self._rarely.warn(
                _log.warning, "an event log cannot be read", now, file=name, cause=error.strerror
            )
            return False
        self._bound_held(follower)
        if follower.skipped and name not in self._said:
            self._said.add(name)
            reason = first_line(follower.first_reason)
            _log.warning("an event log holds what cannot be used", file=name, first=reason)
        if request is None:
            self._aligned.update(follower.alignments(now))  # of what was counted before a restart
            if follower.ended:
                self._ended.add(name)
                self._forget(name)
            elif not follower.waits:
                self._read_out.add(name)
            return False
        if self._keeper.fleet.has_listener(request.application.id):
            _log.info("its driver has a listener: the event log is left alone", file=name)
            self._forget(name)
            return False
        try:
            receipt = self._keeper.receive(request, now)
        except (StateUnavailable, FleetFull) as error:
            self._rarely.warn(_log.warning, "an event log has to wait", now, cause=error)
            return False
        follower.accepted()
        if follower.log.rolling:  # it may be compacted while it is read
            self._runs.see(self._keeper.fleet.runs(receipt.touched))
        self._aligned.update(follower.alignments(now))
        return True

    def _bound_held(self, follower: Follower) -> None:
        """Where its logs together keep too much, the one that keeps most lets go of it."""
        if not follower.held_bytes:
            return
        followers = self.followers.values()
        most_bytes = MOST_HELD_BYTES // len(self._whole.directories)
        while sum(one.held_bytes for one in followers) > most_bytes:
            max(followers, key=lambda one: one.held_bytes).let_go()

    def _note_alignments(self) -> None:
        """Gives the fleet what stages waited for, once the batches that they are of are counted."""
        if not self._aligned:
            return
        fleet = self._keeper.fleet
        keys = fleet.keys_by_run()
        for run_id, view in self._aligned.items():
            key = keys.get(run_id)
            if key is not None:
                fleet.note_alignment(key, run_id, view)
        self._aligned.clear()

    async def _pulse(self, follower: Follower, *, behind: bool) -> None:
        try:
            await self._tell_pulse(follower, behind=behind)
        except Exception as error:  # noqa: BLE001 - as with lines
            self._leave_alone(follower.log.name, error)

    async def _tell_pulse(self, follower: Follower, *, behind: bool) -> None:
        if behind:  # its driver lives; what ran where it is read now may have ended long ago
            silent = await self._do(partial(follower.silent_seconds, self._machine()))
            if silent <= LOST_SECONDS:
                fleet, application = self._keeper.fleet, follower.application.id
                fleet.hear_driver(application, self._clock(), in_batch=silent > QUIET_SECONDS)
            return
        # By no clock: one that is set back would make all that follow old news.
        sequence = self._keeper.fleet.counted(PULSE + follower.log.name) + 1
        request = await self._do(partial(follower.pulse, self._machine(), sequence))
        if request is None:
            return
        try:
            self._keeper.receive(request, self._clock())
        except (StateUnavailable, FleetFull):
            return

    def _leave_alone(self, name: str, error: Exception) -> None:
        """Until the next look at logs that were put aside: each trial may cost a restored fleet."""
        said = "an event log cannot be followed: tried again in a while"
        self._rarely.warn(_log.error, said, self._clock(), file=name, exc_info=error)
        self._forget(name, written_time=0.0)

    def _forget(self, name: str, written_time: float = math.inf) -> None:
        del self.followers[name]
        counted = self._keeper.fleet.counted(INSTANCE + name)
        self._past[name] = _PutAside(written_time, counted)
