"""``weir replay``: the live core over recorded events, one line of JSON per judged event.

The events go through the same ``Fleet`` as in the agent, with their own times for a clock, so the
same recording always gives the same lines, and those are what the live agent decided.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

import msgspec

from agent.core.decode.events import Listener, Request
from agent.core.fleet import Fleet
from agent.core.policy import Policy
from agent.sources import event_log, recording

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agent.core.fleet import Receipt
    from agent.core.judgement import Judgement, QueryView
    from agent.core.policy import QueryPolicy

_LISTENER: Final = Listener(instance="replay")
#: A recording may name many; each takes memory.
MOST_QUERIES: Final = 20_000


class Beside(Protocol):
    """What listens along."""

    def take(self, receipt: Receipt, fleet: Fleet) -> None:
        """What the events of one request led to, and where."""

    def end(self, views: Iterable[QueryView]) -> None:
        """Every query, as it was known last."""


class Replay:
    """A fleet fed from recordings; ``summary`` listens along."""

    def __init__(self, settings: QueryPolicy | Policy, summary: Beside | None = None) -> None:
        self._summary = summary
        policy = settings if isinstance(settings, Policy) else Policy(default=settings)
        self._policy = msgspec.structs.replace(policy, max_queries=MOST_QUERIES)
        self._fleet: Fleet | None = None
        self._sequence = 0
        self._time = 0.0  # of the newest event
        self._last_time: float | None = None  # of the newest that the file before told
        self._application = recording.RECORDED

    def judge(self, raw: BinaryIO, file: str) -> Iterator[Judgement]:
        """Judges a file's events. Raises RecordingError, RecordingBroken."""
        reader = recording.EventReader(self._application, self._last_time)
        try:
            for recorded in recording.read_events(raw, file, reader):
                self._application = recorded.application
                time = recorded.event.time
                self._time = max(self._time, time)
                if self._fleet is None:
                    self._fleet = Fleet(self._policy, started_time=time)
                # The fleet counts each number once; recordings number their events by listener, if
                # at all, so they are numbered anew here.
                self._sequence += 1
                event = msgspec.structs.replace(recorded.event, sequence=self._sequence)
                request = Request(recorded.application, _LISTENER, [(0, event)], [])
                receipt = self._fleet.receive(request, now=time)
                if receipt.refused:
                    raise recording.RecordingError(f"{file}: {receipt.refused[0].error}")
                if self._summary is not None:
                    self._summary.take(receipt, self._fleet)
                yield from receipt.judged
        finally:
            self._last_time = reader.last_time

    def end(self) -> None:
        """No more will come."""
        if self._summary is not None and self._fleet is not None:
            self._summary.end(self._fleet.views(self._time))


def replay_files(
    files: Iterable[str],
    settings: QueryPolicy | Policy,
    out: BinaryIO,
    summary: Beside | None = None,
) -> list[str]:
    """Writes a line per judged event of all files in order; ``-`` is standard input.

    A folder stands for the event logs in it, those that roll over too. ``settings``: of every
    query, or an agent's policy with its rules.

    ``summary``, where given, listens along. Returns where files broke off, if any. Raises OSError
    where one cannot be read, RecordingError at a line that cannot be used, with all before it
    written.
    """
    replay = Replay(settings, summary)
    encoder = msgspec.json.Encoder()
    broken: list[str] = []
    try:
        for file in chain.from_iterable(map(_named, files)):
            with ExitStack() as stack:
                raw: BinaryIO = (
                    sys.stdin.buffer if file == "-" else stack.enter_context(open(file, "rb"))  # noqa: PTH123
                )
                name = "standard input" if file == "-" else file
                try:
                    out.writelines(
                        encoder.encode(judgement) + b"\n" for judgement in replay.judge(raw, name)
                    )
                except recording.RecordingBroken as error:
                    broken.append(str(error))
        replay.end()
    finally:
        out.flush()
    return broken


def _named(file: str) -> list[str]:
    """The files that an argument stands for. Raises OSError, RecordingError."""
    if file == "-" or not Path(file).is_dir():
        return [file]
    found = event_log.files_of(Path(file))
    if not found:
        raise recording.RecordingError(
            f"{file}: no event log in this folder: neither files, nor events_1_… of one that rolls"
        )
    return list(map(str, found))
