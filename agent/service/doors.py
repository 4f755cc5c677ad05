"""Doors: a process for each driver whose plugin opened one, so that its queries are regulated.

The plugin (``spark_listener/plugin``) writes a file for each driver; what goes through it is
``spark_listener.beyond``, one process a driver, so that one driver's trouble touches no other and
not the agent. A process that ends without being done is started again. A file that is no door is
named once, with the reason, and left alone until it changes; so is a door where nobody of this user
answers, which a driver that was killed leaves, until somebody does.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Literal

import msgspec
import structlog

from agent.child import command_of
from agent.service.log import Rarely, fit
from spark_listener import door
from spark_listener.beyond import DONE, REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Doors looked at, the newest of a directory: each live driver has one, and each that was killed
#: leaves one, so that of more nearly all are dead.
MOST_DOORS: Final = 1000
#: Which of more are the newest is asked so seldom: of 10,000 that takes some 150 ms, a look at what
#: was chosen and at what is new since some 20 ms. A driver waits so long at most that opens a door
#: anew which was passed over.
CHOSEN_SECONDS: Final = 10.0
#: Files of any kind looked at, four times a second: some 20 ms of work each time.
MOST_ENTRIES: Final = 10_000
#: A process that ended without being done is started again after so long, twice as long each time.
#: Behind one that was in the plugin opens another door, with which it begins anew.
AGAIN_SECONDS: Final = 0.5
MOST_AGAIN_SECONDS: Final = 30.0
#: What a process gets to leave by itself when the agent ends.
LEAVE_SECONDS: Final = 1.0
#: macOS' own name of a user's temporary directory, of its unistd.h; Python has none for it.
_DARWIN_USER_TEMP_DIR: Final = 65537
_log = structlog.get_logger("doors")

State = Literal["attached", "waiting", "refused", "done"]
#: Which file it is: a door that the plugin opens anew is another one.
_Mark = tuple[int, int, int]


def default_folder(
    platform: str = sys.platform, confstr: Callable[[int], str | None] = os.confstr
) -> Path:
    """Where the plugin puts its doors when it is told nothing: Java's temporary directory.

    Java asks neither the environment nor Python's ``tempfile``: it is the C library's ``P_tmpdir``,
    and on macOS what ``confstr`` says, as JDK's ``java_props_md.c`` has it.
    """
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = "?"  # as Java says
    temporary: str | None = "/tmp"  # noqa: S108
    if platform == "darwin":
        temporary = None
        with contextlib.suppress(OSError):
            temporary = confstr(_DARWIN_USER_TEMP_DIR)
    return Path(temporary or "/var/tmp", f"weir-{user}")  # noqa: S108


class _Door(msgspec.Struct):
    """One file, and the process that goes through it."""

    mark: _Mark
    file: door.DoorFile | None = None  # what it said when a process last went through
    state: State = "waiting"
    process: subprocess.Popen[bytes] | None = None
    silent: bool = False  # nobody answered there
    again: float = 0.0  # not tried before
    pause_seconds: float = AGAIN_SECONDS

    @property
    def in_use(self) -> bool:
        """Whether a process goes through it, or is about to again."""
        return self.process is not None or (self.state == "waiting" and not self.silent)

    def wait(self, now: float) -> None:
        """To be tried again, each time later."""
        self.state = "waiting"
        self.again = now + self.pause_seconds
        self.pause_seconds = min(2.0 * self.pause_seconds, MOST_AGAIN_SECONDS)


class Doors:
    """The doors of one directory. Used by one thread; times are seconds of ``clock``."""

    def __init__(
        self,
        folder: Path | None,
        command: Callable[[Path], Sequence[str]],
        *,
        clock: Callable[[], float],
    ) -> None:
        """``command``: what to run for a door. ``folder`` None: the plugin's own default."""
        self._folder = default_folder() if folder is None else folder
        self._by_default = folder is None
        self._refused: str | None = None
        self._crowded = False
        self._passed_over: set[str] = set()  # doors that are not among the newest
        self._choose_time = 0.0  # when to choose the newest again
        self._rarely = Rarely(3600.0)  # drivers come and go about the bound
        self._command = command
        self._clock = clock
        self._doors: dict[str, _Door] = {}
        _log.info("drivers' doors are looked for", directory=str(self._folder))

    def look(self) -> None:
        """Starts what is to be started. Raises OSError where the directory cannot be read."""
        now = self._clock()
        present = self._present()
        for name in list(self._doors):
            known = self._doors[name]
            self._reap(name, known, now)
            if present.get(name) != known.mark:
                if known.process is None:
                    del self._doors[name]
                elif name in present:
                    self._compare(name, known, present[name])
        for name, mark in present.items():
            known = self._doors.setdefault(name, _Door(mark))
            if known.process is None and known.state == "waiting" and now >= known.again:
                self._begin(name, known, now)
            elif known.state == "refused" and known.file is not None and now >= known.again:
                known.silent = not known.file.answers()
                known.again = now + MOST_AGAIN_SECONDS

    @property
    def unattended(self) -> bool:
        """Whether drivers are there and a process at none of them: Weir's own part is missing.

        A door where nobody answers, as a driver leaves it that was killed, is nobody's.
        """
        states = {known.state for known in self._doors.values() if not known.silent}
        return "attached" not in states and not states.isdisjoint(("waiting", "refused"))

    def states(self) -> dict[State, int]:
        """How many doors are in which state."""
        found: dict[State, int] = {"attached": 0, "waiting": 0, "refused": 0}
        for known in self._doors.values():
            if known.state != "done":
                found[known.state] += 1
        return found

    def close(self) -> None:
        """Ends the processes; what they leave in their drivers the plugin undoes."""
        for known in self._doors.values():
            if known.process is not None and known.process.stdin is not None:
                with contextlib.suppress(OSError):
                    known.process.stdin.close()
        for known in self._doors.values():
            if known.process is not None:
                try:
                    known.process.wait(LEAVE_SECONDS)
                except subprocess.TimeoutExpired:
                    known.process.kill()
                    known.process.wait()
        self._doors.clear()

    def _present(self) -> dict[str, _Mark]:
        found: dict[str, _Mark] = {}
        why = _not_ours(self._folder) if self._by_default else None
        if why is not None:
            if why != self._refused:
                _log.warning(
                    "no doors are looked for where another user may put them: remove that, or name"
                    " another directory by --doors, and to drivers by spark.weir.door.dir",
                    directory=str(self._folder),
                    reason=why,
                )
            self._refused = why
            return found
        self._refused = None
        try:
            entries = os.scandir(self._folder)
        except (FileNotFoundError, NotADirectoryError):
            return found
        seen = 0
        doors: list[os.DirEntry[str]] = []
        with entries:
            for entry in islice(entries, MOST_ENTRIES):
                seen += 1
                if not entry.name.startswith(".") and entry.name.endswith(door.SUFFIX):
                    doors.append(entry)
        if seen == MOST_ENTRIES and not self._crowded:
            _log.warning(
                "a directory of so many files is not looked through to its end: name one for doors"
                " alone, by --doors, and to drivers by spark.weir.door.dir",
                directory=str(self._folder),
                looked_at=seen,
            )
        self._crowded = seen == MOST_ENTRIES
        for entry in self._newest(doors):
            if (mark := _mark(entry)) is not None:
                found[entry.name] = mark
        return found

    def _newest(self, entries: list[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
        """Those to look at: where there are too many, the doors in use, and the newest."""
        if len(entries) <= MOST_DOORS:
            self._passed_over.clear()
            return entries
        now = self._clock()
        if not self._passed_over:
            self._choose_time = now
            self._rarely.warn(
                _log.warning,
                "of so many doors only the newest are looked at: delete those of drivers that were"
                " killed",
                now,
                directory=str(self._folder),
                doors=len(entries),
                looked_at=MOST_DOORS,
            )
        left = [entry for entry in entries if entry.name not in self._passed_over]
        if now < self._choose_time and len(left) <= MOST_DOORS:
            return left
        self._choose_time = now + CHOSEN_SECONDS

        def worth(entry: os.DirEntry[str]) -> tuple[bool, int]:
            known, mark = self._doors.get(entry.name), _mark(entry)
            return known is not None and known.in_use, -1 if mark is None else mark[1]

        entries = sorted(entries, key=worth, reverse=True)
        self._passed_over = {entry.name for entry in entries[MOST_DOORS:]}
        return entries[:MOST_DOORS]

    def _compare(self, name: str, known: _Door, mark: _Mark) -> None:
        """At a file that is another one: written anew where a cleaner took it away, or touched."""
        known.state = "waiting"  # the plugin opened another door: this process is stuck
        with contextlib.suppress(OSError, door.NoDoor):
            if door.read(self._folder / name) == known.file:
                known.mark, known.state = mark, "attached"

    def _begin(self, name: str, known: _Door, now: float) -> None:
        path = self._folder / name
        try:
            found = door.read(path)
        except OSError:
            return  # gone, or not to be read just now
        except door.Aside as why:
            known.state = "done"
            _log.info("a driver is left to itself", door=name, reason=str(why))
            return
        except door.NoDoor as why:
            known.state = "refused"
            _log.warning("this is no door to go through", door=name, reason=str(why))
            return
        if not found.answers():
            if not known.silent:
                known.silent = True
                uid = found.stranger()
                who = "nobody answers" if uid is None else f"another user ({uid}) answers"
                _log.warning(
                    f"{who} at this door: of a driver that was killed it may be deleted",
                    door=name,
                    process=found.process,
                )
            known.wait(now)
            return
        process = subprocess.Popen(  # noqa: S603 - this Python, and a module of ours
            self._command(path),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        known.process, known.file, known.state, known.silent = process, found, "attached", False
        _log.info("a driver's door", application=found.application, process=found.process)
        assert process.stderr is not None
        threading.Thread(
            target=_pass_on,
            args=(process.stderr, found.application),
            name="weir-door-log",
            daemon=True,
        ).start()

    def _reap(self, name: str, known: _Door, now: float) -> None:
        process = known.process
        if process is None or process.poll() is None:
            return
        code = process.returncode
        known.process = None
        if process.stdin is not None:
            process.stdin.close()
        if code == DONE:
            known.state = "done"
            return
        if code == REFUSED:
            known.state = "refused"
            return
        known.wait(now)
        _log.debug("the process at a door ended", door=name, exit_code=code)


def _mark(entry: os.DirEntry[str]) -> _Mark | None:
    """Which file it is now; None where it is gone. Asks the file system at an entry's first."""
    try:
        file = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return file.st_ino, file.st_mtime_ns, file.st_ctime_ns


def _not_ours(folder: Path) -> str | None:
    """Why a directory that anybody could make is not believed; None also where there is none."""
    try:
        found = folder.lstat()
    except OSError:
        return None
    if stat.S_ISLNK(found.st_mode):
        return "it is a link"
    if found.st_uid != os.geteuid():
        return f"it is of user {found.st_uid}, and this process runs as {os.geteuid()}"
    return None


def command(
    agent_url: str, *, token_file: Path | None, certificate_file: Path | None
) -> Callable[[Path], Sequence[str]]:
    """The process for a door, which tells the agent at this address what it sees."""
    options = ["--agent-url", agent_url]
    if token_file is not None:
        options += ["--token-file", str(token_file)]
    if certificate_file is not None:
        options += ["--certificate-file", str(certificate_file)]
    return lambda path: command_of("spark_listener.beyond", str(path), *options)


def _pass_on(lines: IO[bytes], application: str) -> None:
    """What such a process says, as the agent says things."""
    with lines:
        for line in lines:
            level, _, text = line.decode("utf-8", "replace").strip().partition(" ")
            say = {"WARNING": _log.warning, "ERROR": _log.error}.get(level, _log.info)
            said = text if level in ("INFO", "WARNING", "ERROR", "DEBUG") else f"{level} {text}"
            say(fit(said.removeprefix("weir: ")), application=application)
