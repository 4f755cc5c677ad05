"""Lines of event logs to the few that matter, in whatever pieces Spark gives the files out.

A piece is a part of a plain file, split by Spark at lines, or a whole compressed file. What is
judged later in order (progress, starts, ends, jobs, stages) is kept as it stands, with its place;
tasks, which are most of a log, are gathered by stage on the way. It runs in Spark's workers: what a
piece gives does not depend on any other.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.decode.events import Application
from agent.core.judge.alignment import Task
from agent.sources import spark_events, spark_executors, spark_stages
from agent.sources.recording import EventReader, Lines
from agent.sources.spark_executors import ExecutorSeen
from agent.sources.spark_stages import JobPlanned, StageEnded, TaskEnded
from agent.spark_codecs import Damaged, Gzip, decoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: What a kept line is.
APPLICATION: Final = "application"  # names the application: the line itself
EVENT: Final = "event"  # a streaming event: the line itself
JOB: Final = "job"  # JobPlanned
STAGE: Final = "stage"  # EndedStage
TASKS: Final = "tasks"  # of a stage that ends in another piece: OpenStage
EXECUTOR: Final = "executor"  # ExecutorSeen
BAD: Final = "bad"  # lines that cannot be used: how many, and the first reason
READ: Final = "read"  # how many lines were looked at

#: Decompressed at once: what a damaged step would have given is lost.
STEP_BYTES: Final = 1024
MOST_LINE_BYTES: Final = 64 << 20
#: Stages whose end was not seen, at once; beyond it the oldest are given out as they are.
MOST_OPEN: Final = 2000
#: What begins so tells nothing here, and is not even given to Python.
NOT_WANTED: Final = tuple(
    '{"Event":"' + name
    for name in (
        "SparkListenerTaskStart",
        "SparkListenerTaskGettingResult",
        "SparkListenerStageSubmitted",
        "SparkListenerJobEnd",
        "SparkListenerEnvironmentUpdate",
        "SparkListenerExecutorMetricsUpdate",
        "SparkListenerExecutorExcluded",
        "SparkListenerExecutorUnexcluded",
        "SparkListenerExecutorBlacklisted",
        "SparkListenerExecutorUnblacklisted",
        "SparkListenerStageExecutorMetrics",
        "SparkListenerBlock",
        "SparkListenerUnpersistRDD",
        "SparkListenerResourceProfileAdded",
        "org.apache.spark.sql.execution.",
    )
)
_NOT_WANTED: Final = tuple(text.encode() for text in NOT_WANTED)
#: When a termination was before which its piece has no event: what is judged reads on from others.
_UNKNOWN_TIME: Final = 0.0
_SPARK: Final = b'{"Event":"'
_SPACED: Final = b'{"Event"'


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A line that matters; (block, number) is its place in its file."""

    block: int  # byte at which the piece begins
    number: int  # within the piece
    kind: str
    time: float | None  # epoch seconds, where the line says so
    data: bytes


class OpenStage(msgspec.Struct, array_like=True):
    """Tasks of one attempt at a stage, as far as seen."""

    stage: int
    attempt: int
    tasks: list[Task] = []
    failed: int = 0


class EndedStage(msgspec.Struct, frozen=True, array_like=True):
    """A stage that ended, with those of its tasks that were seen in the same piece."""

    ended: StageEnded
    tasks: list[Task]
    failed: int


class Bad(msgspec.Struct, frozen=True, array_like=True):
    """Lines of a piece that cannot be used."""

    lines: int
    reason: str


class Counted(msgspec.Struct, frozen=True, array_like=True):
    """What a piece held."""

    lines: int  # that reached Python
    events: int  # lines of Spark's events among them
    begin: float | None  # first and last time that any of them says; epoch seconds
    end: float | None


encode: Final = msgspec.msgpack.Encoder().encode
decode_job: Final = msgspec.msgpack.Decoder(JobPlanned).decode
decode_stage: Final = msgspec.msgpack.Decoder(EndedStage).decode
decode_tasks: Final = msgspec.msgpack.Decoder(OpenStage).decode
decode_executor: Final = msgspec.msgpack.Decoder(ExecutorSeen).decode
decode_bad: Final = msgspec.msgpack.Decoder(Bad).decode
decode_counted: Final = msgspec.msgpack.Decoder(Counted).decode


def of_lines(lines: Iterable[bytes], block: int, *, in_progress: bool) -> Iterator[Kept]:
    """What matters of one piece. ``in_progress``: the last line may not be whole yet."""
    piece = _Piece(block)
    last: bytes | None = None
    for line in lines:
        if last is not None:
            yield from piece.line(last)
        last = line
    if last is not None and not (in_progress and not last.rstrip().endswith(b"}")):
        yield from piece.line(last)
    yield from piece.end()


def of_whole(data: bytes, *, in_progress: bool) -> Iterator[Kept]:
    """What matters of a whole plain file."""
    lines = (line.removesuffix(b"\n") for line in io.BytesIO(data))
    wanted = (line for line in lines if not (line.startswith(_NOT_WANTED) and line.endswith(b"}")))
    return of_lines(wanted, 0, in_progress=in_progress)


def of_compressed(data: bytes, name: str, *, in_progress: bool) -> Iterator[Kept]:
    """What matters of a whole compressed file; its name's ending says how it is compressed."""
    damage: list[str] = []
    piece, lines = _Piece(0), Lines(MOST_LINE_BYTES, _is_wanted)
    for line in _decompressed(data, name, lines, damage, in_progress=in_progress):
        if line and not line.startswith(_NOT_WANTED):
            yield from piece.line(line)
    for _ in range(lines.too_long):
        piece.bad(f"a line longer than {MOST_LINE_BYTES} bytes")
    if damage:
        piece.damaged(damage[0])
    yield from piece.end()


def _is_wanted(beginning: bytes) -> bool:
    """Whether a line may tell anything that is judged."""
    judged = spark_stages.wanted(beginning) or spark_executors.wanted(beginning)
    return judged or spark_events.wanted(beginning)


def _decompressed(
    data: bytes, name: str, lines: Lines, damage: list[str], *, in_progress: bool
) -> Iterator[bytes]:
    codec = Gzip() if name.endswith(".gz") else decoder(name)
    view = memoryview(data)
    for begin in range(0, len(view), STEP_BYTES):
        try:
            plain = codec.feed(bytes(view[begin : begin + STEP_BYTES]))
        except Exception as error:  # noqa: BLE001 - libraries raise their own, and one log is one log
            told = str(error) if isinstance(error, Damaged) else f"{type(error).__name__}: {error}"
            damage.append(f"{told}; from here on nothing was read, what stands before it is used")
            return
        yield from lines.cut(plain)
    if in_progress:
        return
    if lines.rest or not codec.whole:
        damage.append("the file breaks off; what stands before it is used")


class _Piece:
    """One piece, line by line."""

    def __init__(self, block: int) -> None:
        self._block = block
        self._number = 0
        self._lines = self._events = self._bad = 0
        self._reason = ""
        self._begin: float | None = None
        self._end: float | None = None
        self._open: dict[tuple[int, int], OpenStage] = {}
        self._reader = EventReader(Application("", ""), _UNKNOWN_TIME)

    def line(self, line: bytes) -> Iterator[Kept]:
        """Looks at a line; most give nothing."""
        if not line or line.isspace():
            return
        self._lines += 1
        try:
            if spark_stages.wanted(line):
                heard = spark_stages.read(line)
                self._events += 1
                if isinstance(heard, TaskEnded):
                    yield from self._task(heard)
                elif isinstance(heard, StageEnded):
                    opened = self._open.pop((heard.stage, heard.attempt), None)
                    ended = EndedStage(
                        heard, opened.tasks if opened else [], opened.failed if opened else 0
                    )
                    yield self._keep(STAGE, encode(ended))
                elif heard is not None:
                    yield self._keep(JOB, encode(heard), heard.time)
                return
            if not line.startswith(_SPACED):
                self.bad("not a line of a Spark event log")
                return
            if not line.rstrip().endswith(b"}"):
                self.bad("a line is not whole")
                return
            self._events += 1
            if spark_executors.wanted(line):
                seen = spark_executors.read(line)
                if seen is not None:
                    yield self._keep(EXECUTOR, encode(seen), seen.time)
                return
            if spark_events.wanted(line):
                # Read here, and once more when it is judged: that must not fail on it.
                recorded = self._reader.read(line)
                if recorded is not None:
                    time = recorded.event.time
                    yield self._keep(EVENT, line, None if time == _UNKNOWN_TIME else time)
                else:
                    yield self._keep(APPLICATION, line)
        except RecursionError:
            self.bad("nested too deeply")
        except Exception as error:  # noqa: BLE001 - a line may hold anything: it is passed over
            self.bad(str(error) or type(error).__name__)

    def bad(self, reason: str) -> None:
        """Counts a line that cannot be used."""
        self._bad += 1
        self._reason = self._reason or reason[:300]

    def damaged(self, reason: str) -> None:
        """The piece breaks off: more may be lost by that than by the lines before it."""
        self._bad += 1
        self._reason = reason[:300]

    def end(self) -> Iterator[Kept]:
        """What is left at the piece's end."""
        for opened in self._open.values():
            yield self._keep(TASKS, encode(opened))
        if self._bad:
            yield self._keep(BAD, encode(Bad(self._bad, self._reason)))
        yield self._keep(READ, encode(Counted(self._lines, self._events, self._begin, self._end)))

    def _task(self, heard: TaskEnded) -> Iterator[Kept]:
        key = (heard.stage, heard.attempt)
        opened = self._open.get(key)
        if opened is None:
            if len(self._open) >= MOST_OPEN:
                oldest = self._open.pop(next(iter(self._open)))
                yield self._keep(TASKS, encode(oldest))
            opened = self._open[key] = OpenStage(*key)
        if heard.task is None:
            opened.failed += 1
        elif len(opened.tasks) < spark_stages.MOST_TASKS:
            opened.tasks.append(heard.task)

    def _keep(self, kind: str, data: bytes, time: float | None = None) -> Kept:
        self._number += 1
        if time is not None:
            self._begin = time if self._begin is None else min(self._begin, time)
            self._end = time if self._end is None else max(self._end, time)
        return Kept(self._block, self._number, kind, time, data)
