"""The plugin's door into a driver's JVM: its file, and what stands behind it.

A door file is written by ``plugin/WeirPlugin.java`` and holds the port and the secret of a py4j
gateway. Who has the secret rules the JVM. So a file is believed only where it is this user's own
and nobody else's to read or write: any other may be a trap, or a secret that is none. And so is who
listens at that port only where this user does, as far as the system tells.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from spark_listener import sockets
from spark_listener.application import Application
from spark_listener.config import NAMES, conf_key, environment_key
from spark_listener.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from pathlib import Path

SUFFIX: Final = ".door"
FIRST_LINE: Final = "weir door 1"
LOOPBACK: Final = "127.0.0.1"
_LONGEST_BYTES: Final = 4096
#: Loopback accepts or refuses at once. The agent's loop waits for it.
_KNOCK_SECONDS: Final = 0.1
#: The plugin closes one door and opens the next within a tenth of a second.
_BETWEEN_DOORS_SECONDS: Final = 0.5

#: Where its agent is, and what opens it, the process at the door knows from that agent.
_OF_THE_AGENT: Final = ("agent_url", "token_file", "ca_file")

_CONF_OF_THE_AGENT: Final = frozenset(map(conf_key, _OF_THE_AGENT))

State = Literal["open", "aside", "ended"]


def drivers_own(conf: dict[str, str]) -> dict[str, str]:
    """What a job's configuration says, of what is the driver's to say."""
    return {key: value for key, value in conf.items() if key not in _CONF_OF_THE_AGENT}


class NoDoor(Exception):  # noqa: N818
    """A file that is no door to go through; the message says why, in a few words."""


class Aside(NoDoor):
    """The door is closed for good: the driver's own code attaches, and that wins."""


class Occupied(Exception):  # noqa: N818
    """Another process is in."""


@dataclass(frozen=True)
class DoorFile:
    """What a door file says."""

    port: int
    token: str
    application: str
    process: str  # pid@host of the driver, as its JVM knows itself

    def answers(self) -> bool:
        """Whether this user listens there, if only to take no connection just now."""
        try:
            socket.create_connection((LOOPBACK, self.port), _KNOCK_SECONDS).close()
        except ConnectionRefusedError:
            return False
        except OSError:
            pass
        return self.stranger() is None

    def stranger(self) -> int | None:
        """The uid of another user who listens there: once a driver is gone, anybody may."""
        found = sockets.owner((LOOPBACK, self.port), None)
        return None if found in (None, sockets.NOBODY, os.geteuid()) else found


def read(path: Path) -> DoorFile:
    """Reads a door file. Raises NoDoor, FileNotFoundError where it is gone."""
    try:
        # A FIFO would be waited for, a link may lead anywhere.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except PermissionError:
        raise NoDoor("it is another user's, and not to be read") from None
    except OSError as error:
        raise NoDoor(f"it is no plain file, or cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NoDoor("it is no plain file")
        if found.st_uid != os.geteuid():
            raise NoDoor(
                f"it is of user {found.st_uid}, and this process runs as {os.geteuid()}: driver "
                "and agent must run as one user"
            )
        if found.st_mode & 0o077:
            raise NoDoor(
                f"its mode is {stat.S_IMODE(found.st_mode):04o}: others can read or write it, and "
                "who knows its secret rules the driver"
            )
        data = os.read(descriptor, _LONGEST_BYTES + 1)
    finally:
        os.close(descriptor)
    return parse(data)


def parse(data: bytes) -> DoorFile:
    """What the text of a door file says. Raises NoDoor."""
    if len(data) > _LONGEST_BYTES:
        raise NoDoor(f"it is longer than {_LONGEST_BYTES} bytes")
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[0] != FIRST_LINE:
        if lines[0].startswith("weir door "):
            raise NoDoor(f"it is of another version of the plugin: {lines[0][:40]!r}")
        raise NoDoor(f"it does not begin with {FIRST_LINE!r}")
    if lines[1:] == ["aside", ""]:
        raise Aside("the job attaches by itself, and that wins")
    said = dict(line.split(" ", 1) for line in lines[1:] if " " in line)
    port, token = said.get("port", ""), said.get("token", "")
    whole = lines[-1] == "" and "application" in said and "process" in said
    if not whole or len(token) != 64 or not port.isascii() or not port.isdigit():
        raise NoDoor("it is not whole")
    if not 0 < int(port) < 65536:
        raise NoDoor(f"port {port[:20]} is none")
    return DoorFile(int(port), token, said["application"], said["process"])


#: The first word of names that a run's id follows.
_OF_RUNS: Final = ("limit", "limits")


class DoorLease(Lease):
    """What is left with the plugin, which undoes it once this process is gone."""

    def __init__(self, plugin: Any) -> None:
        self._undo = plugin.undo()
        self._kept = plugin.kept()
        try:
            self._whole: Any = plugin.whole()
        except Exception:  # a plugin from before there was one
            self._whole = {}

    def leave(self, name: str, undo: Callable[[], Any], *, stays: bool = False) -> None:
        """Raises what py4j raises; then nothing was left, and nothing must be done."""
        if stays:
            self._whole[name] = undo()
            self._undo.remove(name)
        else:
            self._undo.put(name, undo())
            self._whole.pop(name, None)

    def keep(self, name: str, value: Any) -> None:
        """Raises what py4j raises."""
        self._kept.put(name, value)

    def kept(self, name: str) -> Any:
        """What a process before this one kept, or None."""
        return self._kept.get(name)

    def forget(self, *names: str) -> None:
        """Raises what py4j raises."""
        for name in names:
            self._undo.remove(name)
            self._whole.pop(name, None)
            self._kept.remove(name)

    def only(self, run_ids: Container[str]) -> None:
        """Lets go of runs that ended while no process was in; raises what py4j raises."""
        for held in (self._whole, self._kept):
            for name in list(held):
                what, _, rest = str(name).partition(" ")
                if what in _OF_RUNS and rest.partition(" ")[0] not in run_ids:
                    held.pop(name, None)


class Door:
    """One process inside a driver's JVM. Needs py4j, and no Spark of its own.

    Calls raise what py4j raises; ``close`` and ``stopped`` raise nothing.
    """

    def __init__(self, path: Path) -> None:
        """Raises NoDoor, FileNotFoundError; any call, where the secret is not right."""
        from py4j.java_gateway import GatewayParameters, JavaGateway

        self._path = path
        self._file = file = read(path)
        self.gateway: Any = JavaGateway(
            gateway_parameters=GatewayParameters(
                address=LOOPBACK, port=file.port, auth_token=file.token, auto_convert=True
            )
        )
        self.plugin = self.gateway.entry_point
        client = self.gateway._gateway_client
        connect = client._create_connection

        def connect_to_ours() -> Any:
            # Each time: py4j connects anew where a driver was killed, and believes who answers.
            if (uid := file.stranger()) is not None:
                raise ConnectionRefusedError(f"user {uid} listens at port {file.port}")
            return connect()

        client._create_connection = connect_to_ours
        self._context: Any = None
        self.lease: DoorLease | None = None  # once there is an application
        self._killed = False

    def enter(self) -> None:
        """Comes in. Raises Occupied where another process is in."""
        if not self.plugin.enter():
            raise Occupied

    def stay(self) -> State:
        """Says that this process is there; more often than the plugin's patience lasts."""
        return cast("State", str(self.plugin.stay()))

    @property
    def open(self) -> bool:
        """Whether this is still the door that the plugin holds open."""
        try:
            return read(self._path) == self._file and self._file.answers()
        except (NoDoor, OSError):
            return False

    def default_session(self) -> Any:
        """The JVM's default ``SparkSession``, or None."""
        found = self.gateway.jvm.org.apache.spark.sql.SparkSession.getDefaultSession()
        return found.get() if found.isDefined() else None

    def environment(self) -> dict[str, str]:
        """What the driver's environment says, ``WEIR_*``, of what is the driver's to say."""
        system = self.gateway.jvm.java.lang.System
        keys = [environment_key(name) for name in NAMES if name not in _OF_THE_AGENT]
        found = [(key, system.getenv(key)) for key in keys]
        return {key: str(value) for key, value in found if value is not None}

    def application(self, java_session: Any) -> Application:
        """The application of a session."""
        self._context = context = java_session.sparkContext()
        self.lease = DoorLease(self.plugin)
        return Application(
            self.gateway,
            str(context.applicationId()),
            str(context.appName()),
            str(context.version()),
            stopped=self.stopped,
            killed=lambda: self._killed,
            lease=self.lease,
            beyond=True,
        )

    def stopped(self) -> bool:
        """True once the context is, or its JVM is gone; false where only this door is closed."""
        try:
            return self._context is not None and bool(self._context.isStopped())
        except Exception:
            # Closed between two doors for a moment, or for good: only the latter stays so.
            return self._gone(0.0) and self._gone(_BETWEEN_DOORS_SECONDS)

    def _gone(self, after_seconds: float) -> bool:
        time.sleep(after_seconds)
        try:
            self._killed = read(self._path) == self._file and not self._file.answers()
        except FileNotFoundError:
            self._killed = False
            return True  # the plugin takes it away with Spark's end
        except (NoDoor, OSError):
            return False
        return self._killed

    def close(self) -> None:
        """Leaves."""
        with contextlib.suppress(Exception):
            self.gateway.close()
