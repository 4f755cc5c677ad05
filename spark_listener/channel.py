"""One kept-alive HTTP connection to the agent, with every wait and every size bounded."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from spark_listener import __version__, tokens
from spark_listener.replies import MAX_REPLY_BYTES, words
from spark_listener.wire import EVENTS_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

_STALE: Final = (
    http.client.RemoteDisconnected,
    http.client.CannotSendRequest,
    http.client.NotConnected,
    http.client.ResponseNotReady,
    BrokenPipeError,
    ConnectionResetError,
    ConnectionAbortedError,
)
#: What the agent asks for with its 401, and no proxy does.
_REALM: Final = 'realm="weir"'


class ExchangeFailed(Exception):  # noqa: N818
    """No usable answer. ``kind`` groups causes for rare warnings, the message names the cause."""

    def __init__(
        self, kind: str, message: str, *, status: int = 0, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class Channel:
    """POSTs to the agent. One thread calls ``exchange``; any thread may ``cut``."""

    def __init__(
        self,
        url: str,
        *,
        token_file: str = "",
        ca_file: str = "",
        agents_own_certificate: bool = False,
        timeout_seconds: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        parts = urlsplit(url)
        self._url = url
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._path = parts.path.rstrip("/") + EVENTS_PATH
        self._token_file = token_file
        self._ca_file = ca_file
        self._agents_own_certificate = agents_own_certificate
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None  # its own, or the one about to be
        self._deadline: float | None = None  # of the exchange under way
        self._was_cut = False

    def exchange(self, body: bytes) -> bytes:
        """Sends ``body`` and returns the body of a 200; raises ExchangeFailed otherwise."""
        self._deadline = self._clock() + self._timeout_seconds
        self._was_cut = False
        try:
            reused = self._connection is not None
            try:
                data = self._once(body)
            except _STALE:
                # The agent may close a quiet connection just as we use it again: that is no
                # failure. The events are numbered, so sending them twice does no harm.
                self.close()
                if not reused or self._was_cut:
                    raise
                data = self._once(body)
            return self._whole(data)
        except ExchangeFailed:
            self.close()
            raise
        except Exception as error:
            overdue = self._was_cut or self._clock() >= self._deadline
            self.close()
            raise self._explained(error, overdue=overdue) from None
        finally:
            self._deadline = None

    def _whole(self, data: bytes) -> bytes:
        if self._was_cut:  # what was read ends where the connection was cut
            raise TimeoutError
        return data

    def cut_if_overdue(self) -> bool:
        """Breaks an exchange that drips on past its time; true where it did."""
        deadline = self._deadline
        if deadline is None or self._clock() <= deadline:
            return False
        self._was_cut = True
        self._shut()
        return True

    def close(self) -> None:
        """Closes the connection; the next exchange opens a new one."""
        with self._lock:
            connection, self._connection = self._connection, None
            self._socket = None
        if connection is not None:
            connection.close()

    def _shut(self) -> None:
        with self._lock:
            live = self._socket
        if live is not None:
            with contextlib.suppress(OSError):  # it may be gone already
                live.shutdown(socket.SHUT_RDWR)

    def _once(self, body: bytes) -> bytes:
        connection = self._connection or self._connect()
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": f"weir-spark-listener/{__version__}",
        }
        if self._token_file:
            headers["Authorization"] = f"Bearer {self._token()}"
        connection.request("POST", self._path, body, headers)
        response = connection.getresponse()
        data = response.read(MAX_REPLY_BYTES + 1)
        if len(data) > MAX_REPLY_BYTES:
            raise ExchangeFailed("garbage", f"its reply is longer than {MAX_REPLY_BYTES} bytes")
        if response.will_close:
            self.close()
        if response.status != http.client.OK:
            raise self._refusal(response, data)
        if response.length:  # told, and not come: it ended in the middle of its answer
            raise http.client.IncompleteRead(data, response.length)
        return data

    def _connect(self) -> http.client.HTTPConnection:
        context = self._tls_context() if self._secure else None
        sock = self._reached(socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM))
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # each request is waited for
            if context is not None:
                sock.settimeout(self._left())
                sock = context.wrap_socket(sock, server_hostname=self._host)
                self._hold(sock)
            sock.settimeout(self._timeout_seconds)
        except BaseException:
            sock.close()
            raise
        connection = (
            http.client.HTTPConnection(self._host, self._port)
            if context is None
            else http.client.HTTPSConnection(self._host, self._port, context=context)
        )
        connection.set_debuglevel(0)  # a job may set it for all, which prints token and events
        connection.sock = sock
        connection.auto_open = 0  # it would look up and connect on its own, without our bounds
        with self._lock:
            self._connection = connection
        return connection

    def _reached(self, addresses: list[Any]) -> socket.socket:
        """A socket connected to the first address that answers, each in its share of the time."""
        failure: OSError = TimeoutError()
        for place, address in enumerate(addresses):
            share = 1 / (len(addresses) - place)
            try:
                return self._connected(*address, share=share)
            except OSError as error:  # of its family too: this kernel may have no IPv6
                failure = error
        raise failure

    def _connected(
        self, family: int, kind: int, protocol: int, _: str, address: Any, *, share: float
    ) -> socket.socket:
        sock = socket.socket(family, kind, protocol)
        self._hold(sock)
        try:
            sock.settimeout(self._left() * share)
            sock.connect(address)
        except BaseException:
            sock.close()
            raise
        return sock

    def _left(self) -> float:
        """Seconds left of the exchange under way; raises TimeoutError where there are none."""
        deadline = self._deadline
        left = self._timeout_seconds if deadline is None else deadline - self._clock()
        if left <= 0 or self._was_cut:
            raise TimeoutError
        return left

    def _hold(self, sock: socket.socket) -> None:
        """Makes the socket known to whoever cuts the exchange."""
        with self._lock:
            self._socket = sock

    def _tls_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self._ca_file or None)
        except (OSError, ssl.SSLError) as error:
            raise ExchangeFailed(
                "certificates", f"the CA file {self._ca_file} cannot be used: {error}"
            ) from None
        if self._agents_own_certificate:
            # It, and no other: whoever issued it, and whatever name it is for, as the agent is
            # asked at an address of this machine; and however, which Python asks from 3.13 on.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            context.check_hostname = False
        return context

    def _token(self) -> str:
        try:
            text = Path(self._token_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ExchangeFailed(
                "token", f"the token file {self._token_file} cannot be read: {_plain(error)}"
            ) from None
        try:
            return tokens.to_send(text)
        except ValueError as error:
            raise ExchangeFailed("token", f"the token file {self._token_file} {error}") from None

    def _refusal(self, response: http.client.HTTPResponse, data: bytes) -> ExchangeFailed:
        status = response.status
        said = words(data[:200].decode("utf-8", "replace"))
        if status in (401, 403):
            asked = response.headers.get_all("WWW-Authenticate") or ()
            if any(_REALM in one for one in asked):
                where = "no token was sent; set spark.weir.token.file"
                if self._token_file:
                    where = f"the token in {self._token_file}"
                return ExchangeFailed("token", f"it refuses us ({status}): {where}", status=status)
            # A proxy's or a mesh's own rules, or the agent's, who is asked by a name not its own.
            return ExchangeFailed("denied", f"it refuses us ({status}): {said}", status=status)
        if status == 503:
            return ExchangeFailed(
                "unavailable",
                f"it can take nothing now (503): {said}",
                status=status,
                retry_after_seconds=_retry_after(response.headers.get("Retry-After")),
            )
        if 300 <= status < 400:
            return ExchangeFailed(
                "garbage", f"it redirects ({status}), which is not followed", status=status
            )
        return ExchangeFailed(f"status {status}", f"it answers {status}: {said}", status=status)

    def _explained(self, error: Exception, *, overdue: bool) -> ExchangeFailed:
        if isinstance(error, ssl.SSLCertVerificationError):
            remedy = f"check {self._ca_file}" if self._ca_file else "set spark.weir.ca.file"
            return ExchangeFailed(
                "certificates",
                f"its certificate is not trusted: {error.verify_message or _plain(error)}; "
                f"{remedy}",
            )
        if isinstance(error, ssl.SSLError):
            return ExchangeFailed("tls", f"no TLS with it: {error.reason or _plain(error)}")
        if overdue or isinstance(error, TimeoutError):
            return ExchangeFailed("timeout", f"no answer within {self._timeout_seconds:g} s")
        if isinstance(error, socket.gaierror):
            return ExchangeFailed("address", f"the host {self._host} is unknown: {_plain(error)}")
        if isinstance(error, ConnectionRefusedError):
            return ExchangeFailed("refused", "nothing listens there (connection refused)")
        if isinstance(error, http.client.IncompleteRead):
            return ExchangeFailed("connection", "the connection broke within its reply")
        if isinstance(error, http.client.HTTPException) and not isinstance(error, _STALE):
            return ExchangeFailed(
                "garbage", f"what answers there does not speak HTTP: {type(error).__name__}"
            )
        return ExchangeFailed("connection", f"the connection broke: {_plain(error)}")


def _retry_after(value: str | None) -> float | None:
    try:
        seconds = float(value or "")
    except ValueError:
        return None
    return min(seconds, 60.0) if seconds >= 0 else None


def _plain(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text)[:200]
