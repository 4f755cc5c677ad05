"""Asks the agent in a thread of its own, so that a slow answer never freezes the picture."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.client import AgentUnavailable, WrongUse
from agent.core.names import first_line
from agent.export.terminal.snapshot import NotAnAgent, Snapshot, read_answer

if TYPE_CHECKING:
    from typing_extensions import Self

    from agent.client import AgentClient

FULL_HISTORY: Final = 120
_SHORT_HISTORY: Final = 24
_MANY_QUERIES: Final = 40
_LONGEST_WAIT_SECONDS: Final = 30.0


def fetch(
    client: AgentClient, *, known: int = 0, wanted: tuple[str, str] | None = None
) -> Snapshot:
    """One answer. With many queries only the ``wanted`` one comes with its whole history.

    Raises WrongUse, AgentUnavailable (see ``agent.client``), NotAnAgent.
    """
    many = known > _MANY_QUERIES
    answer = client.queries(history=_SHORT_HISTORY if many else FULL_HISTORY)
    if many and wanted is not None:
        # It may just have gone: then the list's short history will do.
        with contextlib.suppress(WrongUse, AgentUnavailable):
            _put_in(answer, client.query(*wanted).get("query"))
    return read_answer(answer, url=client.url)


def _put_in(answer: dict[str, Any], view: Any) -> None:
    queries = answer.get("queries")
    if not isinstance(view, dict) or not isinstance(queries, list):
        return
    for place, other in enumerate(queries):
        if isinstance(other, dict) and all(
            other.get(field) == view.get(field) for field in ("application", "query")
        ):
            queries[place] = view


class Poller:
    """The newest answer, and since when there is none. Open it in a ``with``."""

    def __init__(self, client: AgentClient, refresh_seconds: float) -> None:
        self._client = client
        self._refresh_seconds = refresh_seconds
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._received = 0.0  # steady clock
        self._lost_since: float | None = None
        self._lost_steady = 0.0
        self._problem = ""
        self._fatal: WrongUse | None = None
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)
        self._thread = threading.Thread(target=self._run, name="weir-top-poll", daemon=True)
        self.wanted: tuple[str, str] | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._hurry.set()
        self._thread.join(0.5)  # a daemon: an answer that never comes must not hold up the exit
        if not self._thread.is_alive():
            os.close(self._read_fd)
            os.close(self._write_fd)

    @property
    def wake_fd(self) -> int:
        """Readable when there is news."""
        return self._read_fd

    def latest(self) -> tuple[Snapshot, float] | None:
        """The newest answer with the connection's state, and the agent's time now.

        None before the first answer or failure. Raises WrongUse where the first answer says that
        the settings are wrong.
        """
        try:
            while os.read(self._read_fd, 64):
                pass
        except BlockingIOError:
            pass
        with self._lock:
            if self._fatal is not None:
                raise self._fatal
            steady = time.monotonic()
            lost = 0.0 if self._lost_since is None else steady - self._lost_steady
            if self._snapshot is None:
                if self._lost_since is None:
                    return None
                blank = Snapshot(
                    time=0.0,
                    views=[],
                    url=self._client.url,
                    lost_since_time=self._lost_since,
                    lost_seconds=lost,
                    problem=self._problem,
                )
                return blank, time.time()
            snapshot = msgspec.structs.replace(
                self._snapshot,
                lost_since_time=self._lost_since,
                lost_seconds=lost,
                problem=self._problem,
            )
            return snapshot, snapshot.time + steady - self._received

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                known = 0 if self._snapshot is None else len(self._snapshot.views)
                snapshot = fetch(self._client, known=known, wanted=self.wanted)
            except (WrongUse, AgentUnavailable, NotAnAgent) as error:
                failures += 1
                self._fail(error)
            except Exception as error:  # noqa: BLE001 - else the last answer would stand as live
                failures += 1
                said = f"{type(error).__name__}: {first_line(str(error))}"
                self._fail(AgentUnavailable(said))
            else:
                failures = 0
                with self._lock:
                    self._snapshot, self._received = snapshot, time.monotonic()
                    self._lost_since, self._problem = None, ""
            self.wake()
            wait = self._refresh_seconds
            if failures:
                wait = min(_LONGEST_WAIT_SECONDS, wait * 2 ** min(failures - 1, 10))
            # A costly answer is asked for less often: the agent has other work.
            wait = max(wait, 5 * (time.monotonic() - began) if not failures else 0.0)
            self._hurry.wait(wait)
            self._hurry.clear()

    def _fail(self, error: Exception) -> None:
        with self._lock:
            if self._snapshot is None and self._lost_since is None:
                if isinstance(error, WrongUse):
                    self._fatal = error
                elif isinstance(error, NotAnAgent):
                    self._fatal = WrongUse(str(error))
            if self._lost_since is None:
                self._lost_since, self._lost_steady = time.time(), time.monotonic()
            self._problem = str(error)

    def hurry(self) -> None:
        """Asks the agent now, and makes ``wake_fd`` readable."""
        self._hurry.set()
        self.wake()

    def wake(self) -> None:
        """Makes ``wake_fd`` readable."""
        with contextlib.suppress(OSError):  # full: the reader has been woken already
            os.write(self._write_fd, b".")
