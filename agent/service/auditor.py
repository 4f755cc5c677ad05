"""The consistency audit of every query the agent follows, beside the path of events.

What a query told of itself is judged at its start and when it changes, by the timer. Its checkpoint
folder, where it is on a file system of this machine, is read by a thread of its own: slow storage
never holds the event loop. A thread that a folder's storage does not answer is left with it, and
another one reads the others; no more than a few can hang. A folder in use changes while it is read,
so a finding counts only where a second look confirms it.
"""

from __future__ import annotations

import os
import posixpath
import queue
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec
import structlog

from agent.checkpoint.audit import QueryFacts, audit, offset_times
from agent.checkpoint.folder import (
    MOST_BYTES,
    CheckpointError,
    FileEntry,
    Folder,
    LocalFolder,
    guarded,
    local_path,
)
from agent.checkpoint.layout import read_checkpoint
from agent.checkpoint.soundness import judge
from agent.core.fleet import Key
from agent.core.judgement import SEVERITIES, Facts, Finding
from agent.files import read_at_most
from agent.service.log import Rarely

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agent.core.judgement import QueryView

#: A folder that takes longer to read is left; the next try is due at its usual time.
FOLDER_SECONDS: Final = 20.0
#: A thread that has not answered for so long hangs: two looks and what is between take less.
HUNG_SECONDS: Final = 3 * FOLDER_SECONDS
#: So many may hang, each at its own folder; then no folder is read until one answers.
MOST_HUNG: Final = 4
#: A folder of more files is left to `weir checkpoint audit`: these take some 100 MB to sort.
MOST_FILES: Final = 200_000
#: Between two looks at a folder in use.
PAUSE_SECONDS: Final = 2.0
#: Checks whose evidence is a figure that moves while the query runs: the check alone must recur.
_MOVING: Final = frozenset({"snapshot_lag"})
_log = structlog.get_logger("audit")


class _Job(msgspec.Struct, frozen=True):
    key: Key
    query_id: str
    location: str


class _Answer(msgspec.Struct, frozen=True):
    job: _Job
    findings: list[Finding] | None  # None: the folder could not be looked into
    time: float
    trouble: str


class _Reading(msgspec.Struct):
    """What a thread is at; ``left``: nobody waits for it any more."""

    job: _Job
    since: float  # agent's clock
    left: bool = False


class _Audited(msgspec.Struct):
    """One query: what it was judged by, and what was found."""

    facts: Facts
    others: dict[str, str]
    told: list[Finding]
    job: _Job | None
    due_time: float  # of the next look into the folder; agent's clock
    in_folder: list[Finding] = []
    folder_time: float | None = None


class Auditor:
    """Findings by query. ``look`` and ``shown`` are for the thread that owns the fleet."""

    def __init__(
        self,
        *,
        folder_every_seconds: float,
        clock: Callable[[], float],
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """``folder_every_seconds`` 0: folders are never read."""
        self._every = folder_every_seconds
        self._clock = clock
        self._ended = threading.Event()
        self._lock = threading.Lock()  # who reads; held for a moment only
        self._pause = pause or self._ended.wait
        self._known: dict[Key, _Audited] = {}
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._waiting: set[_Job] = set()
        self._reading: _Reading | None = None  # what the present thread is at
        self._hung = 0
        self._rarely = Rarely(3600.0)
        self._thread: threading.Thread | None = None

    def look(self, facts: Sequence[Facts], now: float) -> bool:
        """Judges what is new or has changed, and orders looks into folders; True on news."""
        news = self._collect()
        places = _by_place(facts)
        seen: set[Key] = set()
        for one in facts:
            key = (one.application, one.query)
            seen.add(key)
            others = {
                f"{other.application}/{other.query}": one.checkpoint_location
                for other in places.get(_place(one.checkpoint_location), ())
                if other is not one and one.up
            }
            known = self._known.get(key)
            if known is None or known.facts != one or known.others != others:
                known = self._judge(one, others, known, now)
                self._known[key] = known
                news = True
            if known.job is not None and now >= known.due_time and one.up:
                known.due_time = now + self._every
                if known.job not in self._waiting:
                    self._waiting.add(known.job)
                    self._jobs.put(known.job)
        for key in self._known.keys() - seen:
            del self._known[key]
        self._leave_what_hangs(now)
        if self._waiting and self._thread is None:
            self._thread = threading.Thread(target=self._work, name="weir-audit", daemon=True)
            self._thread.start()
        return news

    def shown(self, view: QueryView) -> QueryView:
        """The view with its findings, the worst first."""
        known = self._known.get((view.application, view.query))
        if known is None or not (known.told or known.in_folder or known.folder_time is not None):
            return view
        findings = sorted(
            (*view.findings, *known.told, *known.in_folder),
            key=lambda one: SEVERITIES.index(one.severity),
        )
        return msgspec.structs.replace(
            view, findings=findings, folder_audited_time=known.folder_time
        )

    def close(self) -> None:
        """The thread ends with what it is at; a hung one dies with the process."""
        self._ended.set()
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(1.0)

    def _judge(
        self, facts: Facts, others: dict[str, str], known: _Audited | None, now: float
    ) -> _Audited:
        told = audit(
            QueryFacts(
                query=f"{facts.application}/{facts.query}",
                sink=facts.sink,
                sources=list(facts.sources),
                checkpoint_location=facts.checkpoint_location,
                master=facts.conf.get("spark.master", ""),
                deadline_seconds=facts.deadline_seconds,
                trigger=facts.trigger,
                conf=facts.conf,
                others=others,
            )
        )
        job = None
        place = facts.checkpoint_location
        # A relative path would be relative to the driver, wherever that is.
        if self._every > 0 and (path := local_path(place)) is not None and path.is_absolute():
            job = _Job((facts.application, facts.query), facts.query_id, facts.checkpoint_location)
        if known is not None and known.job == job and known.facts.run_id == facts.run_id:
            return _Audited(
                facts, others, told, job, known.due_time, known.in_folder, known.folder_time
            )
        return _Audited(facts, others, told, job, now)

    def _collect(self) -> bool:
        news = False
        while True:
            try:
                answer = self._answers.get_nowait()
            except queue.Empty:
                return news
            self._waiting.discard(answer.job)
            if answer.trouble:
                self._rarely.warn(
                    _log.warning,
                    "a checkpoint could not be audited",
                    answer.time,
                    checkpoint=answer.job.location,
                    cause=answer.trouble,
                )
            known = self._known.get(answer.job.key)
            if known is not None and known.job == answer.job:
                known.in_folder = answer.findings or []
                known.folder_time = None if answer.findings is None else answer.time
                news = True

    def _leave_what_hangs(self, now: float) -> None:
        reading = self._reading
        if reading is None or reading.left or now - reading.since <= HUNG_SECONDS:
            return
        alone = self._hung >= MOST_HUNG
        self._rarely.warn(
            _log.warning,
            "reading a checkpoint hangs, so its storage may: no folder is audited until it answers"
            if alone
            else "reading a checkpoint hangs, so its storage may: the others are audited meanwhile",
            now,
            checkpoint=reading.job.location,
        )
        if not alone:
            with self._lock:
                if self._reading is reading:
                    reading.left, self._reading, self._thread = True, None, None
                    self._hung += 1

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None and not self._ended.is_set():
            reading = self._reading = _Reading(job, self._clock())
            findings, trouble = None, ""
            try:
                findings = self._read_twice(job)
            except (CheckpointError, OSError) as error:
                trouble = str(error)
            except Exception as error:  # noqa: BLE001 - a folder may hold anything
                trouble = f"{job.location}: {type(error).__name__}: {error}"
            with self._lock:
                self._answers.put(_Answer(job, findings, self._clock(), trouble))
                if reading.left:  # another thread does this one's work
                    self._hung -= 1
                    return
                self._reading = None

    def _read_twice(self, job: _Job) -> list[Finding] | None:
        first = self._read(job)
        if not first:
            return first
        self._pause(PAUSE_SECONDS)
        second = self._read(job)
        return None if second is None else confirmed(first, second)

    def _read(self, job: _Job) -> list[Finding] | None:
        """None where the folder is not this machine's, or not this query's."""
        path = local_path(job.location)
        if path is None or not os.access(path, os.R_OK | os.X_OK):
            return None
        ends = self._clock() + FOLDER_SECONDS
        folder = _TimedFolder(LocalFolder(path, follow_links=False), self._clock, ends)
        checkpoint = read_checkpoint(folder)
        if checkpoint.query_id != job.query_id:
            return None  # another machine's folder of the same path
        findings = judge(checkpoint, folder).findings
        findings += audit(QueryFacts(offset_times_ms=offset_times(checkpoint)))
        # What is only information is a query at work.
        return [finding for finding in findings if finding.severity != "info"]


def confirmed(first: Sequence[Finding], second: Sequence[Finding]) -> list[Finding]:
    """The later findings that the earlier look had too, with the same evidence.

    Batch ids and paths in the evidence move on while a query runs; where something is wrong they
    stay.
    """
    same = {(finding.check, finding.evidence) for finding in first}
    checks = {finding.check for finding in first}
    return [
        finding
        for finding in second
        if (finding.check, finding.evidence) in same
        or (finding.check in _MOVING and finding.check in checks)
    ]


class _TimedFolder:
    """A folder that is read no longer than allowed; raises CheckpointError then."""

    def __init__(self, folder: Folder, clock: Callable[[], float], ends: float) -> None:
        self._folder = folder
        self._clock = clock
        self._ends = ends

    @property
    def name(self) -> str:
        return self._folder.name

    def files(self, on_count: Callable[[int], None] | None = None) -> Iterator[FileEntry]:
        def counted(found: int) -> None:  # once a folder, and every few hundred files
            self._check()
            if on_count is not None:
                on_count(found)

        for number, entry in enumerate(self._folder.files(counted)):
            if number >= MOST_FILES:
                raise CheckpointError(
                    f"{self.name}: more than {MOST_FILES:,} files: weir checkpoint audit reads it"
                )
            yield entry

    def read(self, path: str, most_bytes: int = MOST_BYTES) -> bytes:
        with self.open(path) as file:
            return read_at_most(file, most_bytes, path)

    def open(self, path: str) -> BinaryIO:
        self._check()
        return guarded(self._folder.open(path), self._checked)

    @contextmanager
    def _checked(self) -> Iterator[None]:
        self._check()
        yield

    def _check(self) -> None:
        if self._clock() > self._ends:
            raise CheckpointError(f"{self.name}: reading it took longer than {FOLDER_SECONDS:g} s")


def _by_place(facts: Sequence[Facts]) -> dict[str, list[Facts]]:
    places: dict[str, list[Facts]] = {}
    for one in facts:
        if one.up and one.checkpoint_location:
            places.setdefault(_place(one.checkpoint_location), []).append(one)
    return places


def _place(location: str) -> str:
    """An address as text that is the same for the same folder; asks no file system."""
    path = local_path(location)
    return location.rstrip("/") if path is None else posixpath.normpath(str(path))
