"""Event logs of drivers that hold no listener of ours, read into the fleet by the clock.

Files are read by a thread, one step at a time; what a step gave is judged and committed on the
event loop as a driver's request is, and only then read on. Beside them go the stages of each batch:
what it waited for, as the driver's REST API would tell. A log whose application has a listener
of ours is left alone: nothing is counted twice. A log that nothing is written to for an hour is put
aside, and taken up where it was counted when it grows again.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import TYPE_CHECKING, Final

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
#: each, as much as one of Spark's zstd frames.
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
        self._directories = tuple(directories)
        self._keeper = keeper
        self._clock = clock
        self._machine = machine or clock
        self._followers: dict[str, Follower] = {}
        self._past: dict[str, _PutAside] = {}
        self._missing: set[str] = set()
        self._read_out: set[str] = set()
        self._behind: deque[str] = deque()  # not read to their end; who waits longest comes first
        self._find_time = -math.inf  # the next look into the directories is not before
        self._waiting: dict[str, Log] = {}  # to be considered, who waits longest first
        self._look_again_time = 0.0
        self._said: set[str] = set()
        self._ended: set[str] = set()  # their applications have: nothing more will be written
        self._runs = SeenRuns()
        self._aligned: dict[str, AlignmentView] = {}  # by run id, until the fleet has it
        self._pulse_time = 0.0
        self._rarely = Rarely(300.0)

    async def poll(self) -> None:
        """Reads every log on towards its present end: first those that had reached it before."""
        now = self._clock()
        if now >= self._find_time:
            await self._find(now)
            ended = self._clock()
            # One that hung, or slept with its machine, keeps new logs unseen no longer than that.
            self._find_time = ended + min((ended - now) * (FIND_PARTS - 1), LOOK_AGAIN_SECONDS)
        await self._consider_waiting()
        self._tell_behind()
        self._runs.see_all(self._keeper.fleet.runs())
        self._read_out.clear()
        await self._read_on()
        self._tell_behind()
        self._note_alignments()
        if now - self._pulse_time >= PULSE_SECONDS:
            self._pulse_time = now
            for name, follower in list(self._followers.items()):
                await self._pulse(follower, behind=name in self._behind)
            await self._put_aside(self._machine())

    async def _read_on(self) -> None:
        """A while; then all have their pulse. Of those that are behind one has a turn at least."""
        self._behind = deque(name for name in self._behind if name in self._followers)
        ends = self._clock() + PULSE_SECONDS
        behind = set(self._behind)
        for name, follower in list(self._followers.items()):
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
            name = self._behind.popleft()
            follower = self._followers[name]
            more = await self._read(follower)
            if more and self._clock() < ends:
                more = await self._read(follower)
            if more:
                self._behind.append(name)

    def _tell_behind(self) -> None:
        behind = self._followers.keys() & set(self._behind)
        self._keeper.fleet.see_logs_behind({INSTANCE + name for name in behind})

    async def _find(self, now: float) -> None:
        found: dict[str, Log] = {}
        unread: set[Path] = set()
        for directory in self._directories:
            try:
                logs = await asyncio.to_thread(find_logs, directory)
            except OSError as error:
                unread.add(directory)
                self._rarely.warn(
                    _log.warning,
                    "an event log directory cannot be read",
                    now,
                    directory=directory,
                    cause=error.strerror,
                )
                continue
            found |= {log.name: log for log in logs}
        self._drop_missing(found, unread)
        if not unread:
            self._keep_places(found, now)
        again = now - self._look_again_time >= LOOK_AGAIN_SECONDS
        if again:
            self._look_again_time = now
        self._waiting = {name: found[name] for name in self._waiting if name in found}
        for name, log in found.items():
            past = self._past.get(name)
            if name in self._followers:
                self._followers[name].log = log  # `.inprogress` falls off at its end
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
        for log, written in await asyncio.to_thread(written_times):
            del self._waiting[log.name]
            if written:  # else it is gone, or not to be read just now
                self._consider(log, written)

    def _drop_missing(self, found: dict[str, Log], unread: set[Path]) -> None:
        """Lets go of deleted logs; one that is renamed just now may be missing once."""
        missing = {
            name
            for name, follower in self._followers.items()
            if name not in found and follower.log.path.parent not in unread
        }
        for name in missing & self._missing:
            del self._followers[name]
            _log.info("an event log is gone", file=name)
        self._missing = missing
        if not unread:
            self._past = {name: past for name, past in self._past.items() if name in found}
            self._said &= found.keys()
            self._ended &= found.keys()

    def _keep_places(self, found: dict[str, Log], now: float) -> None:
        """Says which places are needed: not that of a log that has ended and was read out."""
        present = {INSTANCE + name for name in found.keys() - self._ended}
        self._keeper.fleet.see_logs(present, now)

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
        if len(self._followers) >= MOST_LOGS:
            self._rarely.warn(
                _log.warning, f"more than {MOST_LOGS} event logs grow: the rest waits", now
            )
            return
        self._past.pop(log.name, None)
        self._followers[log.name] = Follower(
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
        for name in self._read_out & self._followers.keys():
            written = await asyncio.to_thread(newest_time, self._followers[name].log)
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
            request = await asyncio.to_thread(follower.next_request, self._machine())
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
            else:
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
        """Where all logs together keep too much, the one that keeps most lets go of it."""
        if not follower.held_bytes:
            return
        followers = self._followers.values()
        while sum(one.held_bytes for one in followers) > MOST_HELD_BYTES:
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
            silent = await asyncio.to_thread(follower.silent_seconds, self._machine())
            if silent <= LOST_SECONDS:
                fleet, application = self._keeper.fleet, follower.application.id
                fleet.hear_driver(application, self._clock(), in_batch=silent > QUIET_SECONDS)
            return
        # By no clock: one that is set back would make all that follow old news.
        sequence = self._keeper.fleet.counted(PULSE + follower.log.name) + 1
        request = await asyncio.to_thread(follower.pulse, self._machine(), sequence)
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
        del self._followers[name]
        counted = self._keeper.fleet.counted(INSTANCE + name)
        self._past[name] = _PutAside(written_time, counted)
