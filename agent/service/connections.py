"""Connections of clients that take their time: what each may take, and who goes where many wait.

Of uvicorn's own limits one ends a connection that is idle between two requests; none ends one on
which a request never becomes whole, or whose client does not read its answer. Here it is either
the agent's turn or the client's. A client's turn has an end, and where there are more connections
than the agent serves, or more bytes wait to be read than it keeps, those whose turn began first
make room. So whoever asks and reads, a kubelet's probe above all, always gets in.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

#: A client's turn: to send a request, body and all, or to read an answer. A body's own limits
#: (``body``) are shorter, since they can still be answered.
TURN_SECONDS: Final = 60.0
#: Bytes of answers that wait to be read, over all connections: several of the largest.
MOST_WAITING_BYTES: Final = 64 * 1024 * 1024
#: Descriptors kept for all else: state, event logs, brokers, and what one round of accepts takes.
KEPT_DESCRIPTORS: Final = 256
#: Connections taken in one round; three rounds pass until those that make room are closed.
ACCEPTED_AT_ONCE: Final = KEPT_DESCRIPTORS // 4
TLS_HANDSHAKE_SECONDS: Final = 10.0
#: Read of TLS at once: the longest record. Since 3.11 Python keeps a buffer of that size for each
#: connection, idle or not, and its own is of 256 KiB.
TLS_READ_BYTES: Final = 16 * 1024


def most_connections(wanted: int) -> int:
    """As many as wanted, or as the process may open; raises its soft limit to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # a macOS that has no such soft limit, or a sandbox
            hard = soft
    if hard == resource.RLIM_INFINITY:
        return wanted
    return max(min(wanted, hard - KEPT_DESCRIPTORS), hard // 2)


class Connections:
    """The clients whose turn it is, the longest first. The event loop owns it."""

    def __init__(
        self,
        most: int,
        *,
        turn_seconds: float = TURN_SECONDS,
        most_waiting_bytes: int = MOST_WAITING_BYTES,
    ) -> None:
        self.most = most
        self.turn_seconds = turn_seconds
        self._most_waiting_bytes = most_waiting_bytes
        self._turns: dict[_Connection, None] = {}

    def protocol(self, **of_uvicorn: Any) -> asyncio.Protocol:
        """A protocol for one connection, as uvicorn asks for it."""
        return _Connection(self, **of_uvicorn)

    def begin(self, one: _Connection) -> None:
        """It is this client's turn from now on."""
        self._turns.pop(one, None)
        self._turns[one] = None

    def end(self, one: _Connection) -> None:
        """It is not, or no longer."""
        self._turns.pop(one, None)

    def make_room(self, one: _Connection) -> None:
        """For one that has come."""
        if len(one.connections) <= self.most:
            return
        longest = next((other for other in self._turns if other is not one), None)
        if longest is not None:
            longest.give_up()

    def let_read(self, one: _Connection) -> None:
        """Lets go of answers that wait longest, until what waits is not too much."""
        waiting = [other for other in self._turns if other.waiting_bytes()]
        total = sum(other.waiting_bytes() for other in waiting)
        for other in waiting:
            if total <= self._most_waiting_bytes:
                return
            if other is not one:
                total -= other.waiting_bytes()
                other.give_up()


class _Connection(H11Protocol):
    """One connection; the turn is looked at after all that happens on it."""

    def __init__(self, all_: Connections, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._all = all_
        self._timer: asyncio.TimerHandle | None = None

    def waiting_bytes(self) -> int:
        """Of its answer, what the client has not read."""
        return self.transport.get_write_buffer_size() if self.flow.write_paused else 0

    def give_up(self) -> None:
        """Ends it at once; what is left of an answer is dropped."""
        self._agents_turn()
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._clients_turn()
        self._all.make_room(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._agents_turn()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # From here on it may be idle: only the first byte of another request begins a turn.
        self._agents_turn()
        begun = self.conn.their_state is not h11.IDLE or self.conn.trailing_data[0]
        self._look(idle=not begun)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look()
        self._all.let_read(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._look()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._look()

    def _look(self, *, idle: bool = False) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        answering = cycle is not None and not cycle.response_complete and not cycle.more_body
        if self.transport.is_closing() or self.flow.write_paused or not (answering or idle):
            self._clients_turn()
        elif idle:
            self._all.begin(self)  # as good as any to make room; uvicorn ends it in its time
        else:
            self._agents_turn()

    def _clients_turn(self) -> None:
        if self._timer is None:
            self._all.begin(self)
            self._timer = self.loop.call_later(self._all.turn_seconds, self.give_up)

    def _agents_turn(self) -> None:
        self._all.end(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
