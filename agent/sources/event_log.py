"""Spark's event logs followed as they are written: for jobs that cannot load a listener.

A log is one file or, since Spark 3, a folder of files that roll over and are compacted. Each event
is numbered by where its line ends (file, byte), so the number itself says where to read on: the
fleet, which counts each number once and saves it with what it counted, needs no second record of
positions, and an agent that restarts counts nothing twice and loses nothing.

What waits in memory is one step of one log, and the tasks of the batches that run. A line that
cannot be used is passed over and counted; a live log must not stop at it.
"""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.decode.events import (
    Application,
    Event,
    HeartbeatEvent,
    IdleEvent,
    Listener,
    ProgressEvent,
    Request,
    RunningQuery,
    StartedEvent,
    TerminatedEvent,
    decode_event,
    subject_of,
)
from agent.core.measure.flow import ran
from agent.core.names import label
from agent.files import open_regular
from agent.sources import databricks, recording, spark_events, spark_stages
from agent.spark_codecs import Damaged, decoder
from spark_listener.wire import SILENT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.core.judge.alignment import AlignmentView
    from agent.spark_codecs import Decoder

STEP_BYTES: Final = 1024 * 1024
#: Of one log in one turn, before another has its own: so many pieces of a megabyte.
MOST_STEPS: Final = 64
#: As much as a driver may send at once. What else stands in a log, plans above all, may be longer:
#: it is passed over as it comes.
MOST_LINE_BYTES: Final = 8 * 1024 * 1024
#: Of a line that is not whole yet, enough to see whether it is wanted.
_BEGINNING_BYTES: Final = 4096
#: A number's upper bits are the file's index, the lower ones the byte behind the line; a compact
#: file's lines come after those of the file whose index it has.
OFFSET_BITS: Final = 44
MOST_FILES: Final = 1 << (63 - OFFSET_BITS)
COMPACT_BIT: Final = 1 << (OFFSET_BITS - 1)
#: A log that was not written to for so long says nothing of whether its driver lives.
QUIET_SECONDS: Final = 300.0
#: In the middle of a batch it may be silent for longer; after so long its driver counts as gone.
LOST_SECONDS: Final = 3600.0
#: On a network file system what was written first may be seen last, and zeros in its place until
#: then: for as long as such a client believes what it has, at most (nfs(5), ``acregmax``).
HOLE_SECONDS: Final = 60.0
INSTANCE: Final = "event-log:"
PULSE: Final = "event-log-pulse:"
_FOLDER = re.compile(r"^eventlog_v2_(?P<name>.+)$")
_LINE = re.compile(rb"[^\n]+\n")  # empty ones cost nothing, however many they are
#: But for a compact one that is being written, beside those that it will stand for.
_EVENTS = re.compile(r"^events_(?P<index>\d+)_(?P<rest>.+)(?<!\.compact\.inprogress)$")
#: What Python makes of bytes in a file's name that are not UTF-8.
_NO_TEXT = re.compile("[\ud800-\udfff]")
_KNOWN_ENDINGS: Final = (".zstd", ".lz4", ".snappy", ".lzf", ".gz", ".compact")

_decode = msgspec.json.Decoder().decode


class Part(msgspec.Struct, frozen=True):
    """One file of a log; ``compact`` stands for all files up to its index."""

    path: Path
    index: int
    compact: bool


class Log(msgspec.Struct, frozen=True):
    """A log as found in a directory; ``name`` is stable while it grows, rolls and ends."""

    name: str
    path: Path
    rolling: bool


def find_logs(directory: Path) -> list[Log]:
    """The logs in a directory, by name. Raises OSError where it cannot be read."""
    found: list[Log] = []
    with os.scandir(directory) as entries:  # it tells files from folders, of 100,000 too
        for entry in entries:
            if entry.name.startswith((".", "_")):
                continue
            folder = _FOLDER.match(entry.name)
            if folder is not None and _is(entry.is_dir):
                found.append(Log(_fit(folder["name"]), directory / entry.name, rolling=True))
            elif not entry.name.endswith((".crc", ".tmp")) and _is(entry.is_file):
                name = entry.name.removesuffix(".inprogress")
                for ending in _KNOWN_ENDINGS:
                    name = name.removesuffix(ending)
                found.append(Log(_fit(name), directory / entry.name, rolling=False))
    return sorted(found, key=lambda log: log.name)


def _is(kind: Callable[[], bool]) -> bool:
    try:
        return kind()
    except OSError:  # such as links in a circle
        return False


def _fit(name: str) -> str:
    """A file's name as a text: one that is not UTF-8 could be neither saved nor shown."""
    return label(name) if _NO_TEXT.search(name) else name


def parts_of(log: Log) -> list[Part]:
    """The files of a log in order; those that a compact one stands for are left out."""
    if not log.rolling:
        return [Part(log.path, 0, compact=False)]
    found: list[Part] = []
    for path in log.path.iterdir():
        named = _EVENTS.match(path.name)
        if named is not None and int(named["index"]) < MOST_FILES:
            found.append(Part(path, int(named["index"]), path.name.endswith(".compact")))
    newest_compact = max((part.index for part in found if part.compact), default=-1)
    kept = [
        part
        for part in found
        if part.index > newest_compact or (part.compact and part.index == newest_compact)
    ]
    return sorted(kept, key=lambda part: part.index)


def files_of(folder: Path) -> list[Path]:
    """The files of the log that rolls over into this folder, else of each log in it, in order.

    Logs stand in the order in which their applications began, as they tell a query's runs; by their
    names one in a driver's own words, or with a number of five digits, would come too early. The
    files of an agent's record stand in the order in which they were written: the newest has the
    first name. Raises OSError where the folder cannot be read.
    """
    rolled = parts_of(Log(folder.name, folder, rolling=True))
    logs = [rolled] if rolled else _logs_in(folder)
    logs.sort(key=lambda parts: _begun_time(parts[0].path) if parts else math.inf)
    return [part.path for parts in logs for part in parts]


def _logs_in(folder: Path) -> list[list[Part]]:
    """The files of each log in a folder, in order; the parts that Databricks leaves are one log."""
    logs: list[list[Part]] = []
    parts: dict[int, Part] = {}  # one of each, where somebody unpacked it beside
    for log in find_logs(folder):
        index = None if log.rolling else databricks.index_of(log.path.name)
        if index is None:
            logs.append(parts_of(log))
        else:
            parts[index] = Part(log.path, index, compact=False)
    return [*logs, [parts[index] for index in sorted(parts)]]


def _begun_time(first: Path) -> float:
    """When a log's application began, in epoch seconds, by its first lines; infinity: unknown.

    Of what is no event log, and of one that has lost its beginning, when its first event was.
    """
    reader, time, size = recording.EventReader(recording.RECORDED), math.inf, 0
    try:
        with open_regular(first) as file:
            for _, line in recording.read_lines(file, first.name):
                if b"SparkListenerApplicationStart" in line:
                    return float(_decode(line)["Timestamp"]) / 1000.0
                if time == math.inf:
                    with suppress(ValueError):  # of msgspec too
                        told = reader.read(line)
                        time = math.inf if told is None else told.event.time
                size += len(line)
                if size >= STEP_BYTES:
                    break
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        pass  # whoever reads all of it says what is wrong
    return time


def newest_time(log: Log) -> float:
    """When the log was last written to, in epoch seconds; 0 where it is gone."""
    try:
        if not log.rolling:
            return log.path.stat().st_mtime
        made = log.path.stat().st_mtime
        return max((path.stat().st_mtime for path in log.path.iterdir()), default=made)
    except OSError:
        return 0.0


class Follower:
    """Reads one log on, from where the fleet counted last. Not thread-safe."""

    def __init__(
        self,
        log: Log,
        last_sequence: int,
        last_batch: Callable[[str], int | None],
        present_run: Callable[[tuple[str, str]], str | None],
        has_ended: Callable[[str], bool | None],
        *,
        counted_time: float = 0.0,
    ) -> None:
        """``last_sequence``: the newest number counted of this log, 0 for none.

        ``last_batch`` gives the newest batch that was counted of a run: a compact file tells again
        what files before it had told. ``present_run`` gives the run that was counted last of a
        query, by application and query id, None where none goes on: a log read on from its middle
        may tell nothing of it but its jobs. ``has_ended``: whether the end of a run was counted.
        ``counted_time``: of the newest event that was counted of this log, by its driver's clock.
        """
        self.log = log
        self.skipped = 0
        self.first_reason = ""
        self.ended = False  # the application has
        self._last_batch = last_batch
        self._present_run = present_run
        self._has_ended = has_ended
        self._counted_time = counted_time
        self._index = last_sequence >> OFFSET_BITS
        self._done = last_sequence & ((1 << OFFSET_BITS) - 1)
        self._part: Part | None = None
        self._decoder: Decoder | None = None
        self._raw_read = 0
        self._offset = 0  # of the plain bytes: where the next line begins
        self._unfinished: list[bytes] = []  # the line that the bytes read so far end in
        self._unfinished_bytes = 0
        self._passing_over = False  # the rest of a line that is not kept
        self._pieces: Iterator[bytes] = iter(())  # of what was read, not looked at yet
        self._again = False  # reads a compact file that holds what was counted already
        self._application = Application(id=log.name, name=log.name)
        self._knows_application = False
        self._time = 0.0
        self._job_time = 0.0  # of the newest job or stage of a batch
        self._begun_time: float | None = None  # of its application
        self._line_time = 0.0  # of the last line read now that tells one; 0: none does
        self._end_time = -math.inf  # when it was last read to its end, by the agent's clock
        self._heard_time = 0.0  # when something last came so, by the agent's clock
        self._behind_seconds = 0.0  # the driver's clock, as its lines tell, of the agent's
        self._queries: dict[str, _Running] = {}  # by query id: a job's group may be the user's own
        self._over: dict[str, None] = {}  # query ids whose run has ended, and no other was told
        self._now: float | None = None
        self._hole: tuple[int, float] | None = None  # where one begins, and since when it is known
        self._zeros_until = -1  # what was read of zeros that stay
        self._waiting: Request | None = None
        self._stages = spark_stages.Stages()
        self._stages_unread = ""  # why the first of the lines on tasks could not be used
        self._aligned: dict[str, tuple[int, list[spark_stages.Stage]]] = {}  # by run id

    @property
    def application(self) -> Application:
        """Whose log it is, as far as it has said."""
        return self._application

    def next_request(self, now: float | None = None) -> Request | None:
        """What comes next; the same again until ``accepted``. None: nothing for now.

        Without events where much was read that tells nothing: others have their turn. ``now``:
        epoch seconds of the agent's clock. Raises OSError where a file cannot be read.
        """
        if self._waiting is not None:
            return self._waiting
        self._line_time = 0.0
        self._now = now
        # Else the agent has not looked for a while, and lines may have come at any time since.
        live = now is not None and now - self._end_time <= SILENT_SECONDS
        read = None
        for step in range(MOST_STEPS):
            read = self._step()
            if now is not None and live and (read is not None or step):
                self._heard_time = now
            if read is None:
                if now is not None and not self.waits:
                    self._end_time = now
                break
            if read.events:
                self._waiting = read
                break
        if now is not None and self._line_time and not self._again:
            self._compare_clocks(now - self._line_time, live=live)
        return read

    def _compare_clocks(self, behind_seconds: float, *, live: bool) -> None:
        """By so much the agent's clock is ahead of what the last line tells.

        One that was written just now tells the driver's clock, or how late its lines come here; one
        of before tells only that it is no further behind.
        """
        self._behind_seconds = behind_seconds if live else min(behind_seconds, self._behind_seconds)

    def accepted(self) -> None:
        """The fleet has counted what was given last."""
        self._waiting = None

    def alignments(self, now: float) -> dict[str, AlignmentView]:
        """What the stages of the newest batches waited for, by run id, each told once.

        ``now``: epoch seconds of the agent's clock.
        """
        told = {
            run_id: spark_stages.view_of(batch_id, stages, now)
            for run_id, (batch_id, stages) in self._aligned.items()
        }
        self._aligned.clear()
        if not self._stages_unread:
            return told
        said = f"the event log's lines on tasks cannot be used: {self._stages_unread}"
        return {
            run_id: view if view.stages else msgspec.structs.replace(view, missing=said)
            for run_id, view in told.items()
        }

    def pulse(self, now: float, sequence: int) -> Request | None:
        """A heartbeat at ``now``: what runs, and for how long; None where nobody can know.

        While a batch runs it is told for up to ``LOST_SECONDS`` after the log's last line: a driver
        that hangs and one that was killed look alike. Between batches a log that was written to
        lately speaks for a live driver. It is told by the driver's clock, as all that its log says.
        """
        if self.ended or not self._queries or self._waiting is not None:
            return None
        silence = self.silent_seconds(now)
        if silence > LOST_SECONDS:
            return None
        quiet = silence > QUIET_SECONDS
        known = [one for one in self._queries.values() if one.batch_id is not None or not quiet]
        time = now - self._behind_seconds
        running = [one.told(time) for one in known]
        if not running:
            return None
        event = Event(sequence, "heartbeat", time, HeartbeatEvent(running))
        return self._request([event], PULSE)

    def silent_seconds(self, now: float) -> float:
        """Since the log's last line; of one that has ended, or is gone, for ever.

        As its file says, or later: whose clock that is by nobody knows.
        """
        written = newest_time(self.log)
        if not written or self.ended:
            return math.inf
        return now - max(written, self._heard_time)

    @property
    def waits(self) -> bool:
        """Whether more stands in the log, behind zeros whose lines may be on their way still."""
        return self._hole is not None

    @property
    def held_bytes(self) -> int:
        """What is kept of this log until more of it comes."""
        return self._unfinished_bytes + (0 if self._decoder is None else self._decoder.held_bytes)

    def let_go(self) -> None:
        """Keeps nothing: for who needs the room. What is lost is counted as passed over."""
        assert self._part is not None
        if self._decoder is not None and self._decoder.held_bytes > self._unfinished_bytes:
            self._skip(f"{self._part.path.name}: no room for what is compressed in one")
            self._abandon_part()
        else:
            self._skip(f"{self._part.path.name}: no room for a line that does not end")
            self._pass_over()

    # -- reading ----------------------------------------------------------------------------

    def _step(self) -> Request | None:
        """Some bytes further; an empty request where they told nothing, None at the end."""
        if self._part is None and not self._open_next():
            return None
        try:
            plain = next(self._pieces, None)
            if plain is None:
                data = self._read()
                over = not data and self._hole is None and self._at_end_of_part()
                if over:
                    data = self._read()  # what was written before it rolled, after the read above
                if over and not data and self._hole is None:
                    return self._request([], INSTANCE) if self._open_next() else None
                if not data:
                    return None
                assert self._decoder is not None
                self._pieces = self._decoder.pieces(data)
                return self._request([], INSTANCE)
        except Damaged as error:
            assert self._part is not None
            self._skip(f"{self._part.path.name}: {error}")
            self._abandon_part()
            return self._request([], INSTANCE)
        return self._request(list(self._events(plain)), INSTANCE)

    def _open_next(self) -> bool:
        """Goes to the part to read next; False where there is none yet."""
        try:
            parts = parts_of(self.log)
        except FileNotFoundError:
            return False
        present = None if self._part is None else self._part.index
        for part in parts:
            begun = present is None and not self._knows_application  # names stand in the first file
            behind = part.index < self._index or (present is not None and part.index <= present)
            if behind and not begun and not self._stands_for_present(part):
                continue
            try:
                self._decoder = decoder(part.path.name)
            except ValueError as error:
                self._skip(f"{part.path.name}: {error}")
                self._index, self._done = part.index + 1, 0
                continue
            if present is not None and part.index > present + 1 and not part.compact:
                self._queries.clear()  # what became of them stands in the files between
                self._over.clear()
                self._stages = spark_stages.Stages()
            # What a compact file holds of files that were read before it was made was counted.
            self._again = part.compact and self._counted_before(part)
            self._counted_time = max(self._counted_time, self._time)
            self._part, self._raw_read, self._offset = part, 0, 0
            self._drop_line()
            self._passing_over, self._pieces = False, iter(())
            if part.index > self._index:
                self._index, self._done = part.index, 0
            return True
        return False

    def _stands_for_present(self, part: Part) -> bool:
        """Whether the file that was being read is in this compact one now."""
        present = self._part
        if not part.compact or present is None or present.compact or part.index != present.index:
            return False
        return not present.path.exists()

    def _counted_before(self, part: Part) -> bool:
        """Whether something was counted, and not of this compact file."""
        if part.index == self._index and self._done & COMPACT_BIT:
            return False
        return self._index > 0 or self._done > 0 or self._time > 0.0

    def _read(self) -> bytes:
        assert self._part is not None
        path = self._part.path
        if not path.exists() and path.name.endswith(".inprogress"):
            path = path.with_name(path.name.removesuffix(".inprogress"))  # it has just ended
        try:
            with open_regular(path) as file:
                if file.seek(0, 2) < self._raw_read:
                    self._skip(f"{path.name}: shorter than it was")
                    self._raw_read = file.tell()
                file.seek(self._raw_read)
                data = file.read(STEP_BYTES)
        except FileNotFoundError:
            self._hole = None
            return b""  # compacted or cleaned away
        data = self._before_hole(data)
        self._raw_read += len(data)
        return data

    def _before_hole(self, data: bytes) -> bytes:
        """What stands before zeros that may be on their way still. Without a clock none are."""
        at = -1 if self._decoder is None else data.find(bytes(self._decoder.hole_bytes))
        if at < 0 and len(data) == STEP_BYTES:
            at = len(data.rstrip(b"\0"))  # it may begin in this piece, and go on in the next
            at = -1 if len(data) - at in (0, len(data)) else at
        if at < 0 or self._now is None:
            self._hole = None
            return data
        place = self._raw_read + at
        since = self._now if self._hole is None or self._hole[0] != place else self._hole[1]
        if self._now - since <= HOLE_SECONDS and place != self._zeros_until:
            self._hole = place, since
            return data[:at]
        # They stay: as a machine leaves them that lost its power.
        self._hole, self._zeros_until = None, self._raw_read + len(data)
        return data

    def _at_end_of_part(self) -> bool:
        """Whether nothing more will come: there is a later part, or one that stands for this."""
        if not self.log.rolling or self._part is None:
            return False
        try:
            parts = parts_of(self.log)
        except FileNotFoundError:
            return False
        present = self._part.index
        return any(part.index > present or self._stands_for_present(part) for part in parts)

    def _abandon_part(self) -> None:
        """The rest of a damaged file is lost; a later one is read when there is one."""
        assert self._part is not None
        self._drop_line()
        self._pieces = iter(())
        try:
            self._raw_read = self._part.path.stat().st_size
        except OSError:
            self._raw_read = 0
        try:
            self._decoder = decoder(self._part.path.name)
        except ValueError:
            self._decoder = None

    # -- lines to events --------------------------------------------------------------------

    def _events(self, plain: bytes) -> Iterator[Event]:
        assert self._part is not None
        begin = 0
        if self._passing_over or self._unfinished:
            begin = plain.find(b"\n") + 1
            if begin:
                line = b"".join((*self._unfinished, plain[: begin - 1]))
                over, self._passing_over = self._passing_over, False
                self._offset += self._unfinished_bytes + begin
                self._drop_line()
                event = None if over else self._event(line, self._offset)
                if event is not None:
                    yield event
        last = max(plain.rfind(b"\n") + 1, begin)
        base = self._offset - begin
        for found in _LINE.finditer(plain, begin, last):
            event = self._event(found[0][:-1], base + found.end())
            if event is not None:
                yield event
        self._offset = base + last
        rest = plain[last:]
        if self._passing_over:
            self._offset += len(rest)
            return
        if rest:
            self._unfinished.append(rest)
            self._unfinished_bytes += len(rest)
        if self._unfinished_bytes > _BEGINNING_BYTES and not self._is_wanted():
            self._pass_over()
        elif self._unfinished_bytes > MOST_LINE_BYTES:
            self._skip(f"{self._part.path.name}: a line longer than {MOST_LINE_BYTES} bytes")
            self._pass_over()

    def _is_wanted(self) -> bool:
        """Whether the line that is not whole yet may tell anything, by its beginning."""
        if len(self._unfinished[0]) < _BEGINNING_BYTES:
            self._unfinished = [b"".join(self._unfinished)]
        line = self._unfinished[0]
        return spark_stages.wanted(line) or spark_events.wanted(line, jobs=True)

    def _pass_over(self) -> None:
        """The rest of the line is not kept either."""
        self._offset += self._unfinished_bytes
        self._drop_line()
        self._passing_over = True

    def _drop_line(self) -> None:
        self._unfinished, self._unfinished_bytes = [], 0

    def _event(self, line: bytes, end: int) -> Event | None:
        """The event of a line that ends at a byte; None where it is none, or was counted."""
        assert self._part is not None
        if spark_stages.wanted(line):
            self._hear_stages(line)
        if not spark_events.wanted(line, jobs=True) or not line.strip():
            return None
        place = end | COMPACT_BIT if self._part.compact else end
        behind = self._part.index < self._index or place <= self._done
        try:
            data = _decode(line)
            if not isinstance(data, dict):
                raise ValueError("an object is needed on each line")  # noqa: TRY301
            if self._hear(data):
                return None
            last = max(self._time, self._job_time) or None
            shaped = spark_events.shape(data, last, self._begun_time)
            if shaped is None:
                return None
            if shaped["type"] == "started":
                shaped["body"] = {**data, "control": "none"}
            sequence = self._part.index << OFFSET_BITS | place
            event = decode_event(shaped, sequence)
        except (ValueError, RecursionError) as error:  # of msgspec too
            self._skip(f"{self._part.path.name}, byte {end}: {error}")
            return None
        self._time, self._line_time = max(self._time, event.time), event.time
        counted = self._follow(event)
        return None if behind or counted else event

    def _hear(self, data: dict[str, object]) -> bool:
        """Lines that are of the application or of its jobs."""
        job = spark_events.job_started(data)
        if job is not None:
            self._line_time = job.time
            if job.query_id not in self._over:  # else a thread of the user's own works on
                self._queries.setdefault(job.query_id, self._guess(job)).begin(job)
            return True
        application = spark_events.application_of(data, self._application)
        if application is not None:
            self._application = application
            self._begun_time = spark_events.begun_time(data) or self._begun_time
            self._knows_application |= data.get("Event") == "SparkListenerApplicationStart"
            return True
        if data.get("Event") == "SparkListenerApplicationEnd":
            self.ended = True
            self._queries.clear()
        return False

    def _guess(self, job: spark_events.JobStarted) -> _Running:
        """The run of a job of which no event has told the run: its group may be the user's own."""
        present = self._present_run((self._application.id, job.query_id))
        return _Running(job.query_id, present or job.run_id, job.time, told_run=False)

    def _hear_stages(self, line: bytes) -> None:
        """Lines of tasks, stages and jobs: what a batch waited for. The batch counts without."""
        try:
            heard = spark_stages.read(line)
        except ValueError as error:  # of msgspec too
            self._stages_unread = self._stages_unread or str(error)[:200]
            return
        if heard is not None:
            time = spark_stages.time_of(heard) or 0.0
            self._line_time = time or self._line_time
            self._job_time = max(self._job_time, time)
            self._stages.hear(heard)

    def _follow(self, event: Event) -> bool:
        """Keeps what runs; True for what a file before this compact one had told."""
        body = event.body
        if isinstance(body, StartedEvent):
            self._run(body.id, body.run_id, event.time).name = body.name
        elif isinstance(body, TerminatedEvent):
            self._end_run(body.id, body.run_id)
        elif isinstance(body, IdleEvent):
            self._run(body.id, body.run_id, event.time).rest()
        elif isinstance(body, ProgressEvent):
            progress = body.progress
            one = self._run(progress.id, progress.run_id, progress.time)
            one.name = progress.name or one.name
            if ran(progress):
                one.end(progress.batch_id)
            else:
                one.rest()  # as Spark up to 3.4 tells, by the number of the batch that comes next
            if ran(progress) and progress.batch_id is not None:
                stateful = bool(progress.operators)
                stages = self._stages.take(progress.id, progress.batch_id, stateful=stateful)
                self._aligned[progress.run_id] = (progress.batch_id, stages)
        return self._again and self._was_counted(event)

    def _was_counted(self, event: Event) -> bool:
        """Whether an event of a compact file was told by one before it."""
        body = event.body
        if isinstance(body, HeartbeatEvent):
            return False
        subject = subject_of(body)
        last = self._last_batch(subject.run_id)
        if last is None and event.time <= self._counted_time:
            return True  # of a query that was forgotten since, or retired, or of a run before
        if isinstance(body, ProgressEvent):
            batch = body.progress.batch_id
            return last is not None and batch is not None and batch <= last
        rests = isinstance(body, IdleEvent) and last is not None
        return rests or bool(self._has_ended(subject.run_id))

    def _run(self, query_id: str, run_id: str, time: float) -> _Running:
        """A run that an event tells of at ``time``."""
        self._over.pop(query_id, None)
        one = self._queries.get(query_id)
        if one is None or (one.told_run and one.run_id != run_id):
            one = self._queries[query_id] = _Running(query_id, run_id, time)
        one.run_id, one.told_run = run_id, True
        return one

    def _end_run(self, query_id: str, run_id: str) -> None:
        one = self._queries.get(query_id)
        if one is not None and one.told_run and one.run_id != run_id:
            return  # the next one has begun
        self._queries.pop(query_id, None)
        self._stages.forget(query_id)
        self._over[query_id] = None
        spark_stages.let_go(self._over, spark_stages.MOST_BATCHES)  # late jobs come soon, if at all

    def _request(self, events: list[Event], prefix: str) -> Request:
        return Request(
            self._application,
            Listener(instance=prefix + self.log.name),
            list(enumerate(events)),
            [],
        )

    def _skip(self, reason: str) -> None:
        self.skipped += 1
        self.first_reason = self.first_reason or reason[:300]


class _Running(msgspec.Struct):
    """A run that has not ended, and the batch that it is in."""

    query_id: str
    run_id: str
    begun_time: float  # of the first that the log told of it
    told_run: bool = True  # by an event
    name: str | None = None
    batch_id: int | None = None
    since: float = 0.0
    ended_batch: int = -1

    def begin(self, job: spark_events.JobStarted) -> None:
        """A job of a batch; the batch runs since its first one."""
        if job.batch_id > self.ended_batch and job.batch_id != self.batch_id:
            self.batch_id, self.since = job.batch_id, job.time

    def end(self, batch_id: int | None) -> None:
        """A batch was reported."""
        if batch_id is not None:
            self.ended_batch = max(self.ended_batch, batch_id)
        if self.batch_id is not None and self.batch_id <= self.ended_batch:
            self.rest()

    def rest(self) -> None:
        """Nothing runs."""
        self.batch_id = None

    def told(self, time: float) -> RunningQuery:
        """As a heartbeat says it at a time of the driver's; seconds since the batch's first job."""
        age = None if self.batch_id is None else max(0.0, time - self.since)
        return RunningQuery(
            self.query_id, self.run_id, self.name, self.batch_id, age, [], self.begun_time
        )
