"""Talk to an agent over HTTP: what the command line and the terminal view use."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from agent.core.names import first_line
from spark_listener.tokens import to_send

if TYPE_CHECKING:
    import httpx
    from typing_extensions import Self

DEFAULT_URL: Final = "http://127.0.0.1:9655"
_UNKNOWN: Final = "It is not known whether the order was done; `weir top` shows it"
_HTTPS: Final = "Does it speak HTTPS? Then write https:// in --url or WEIR_AGENT_URL"
_ERRNO: Final = re.compile(r"^\[Errno -?\d+\] ")


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the agent is and how to be let in."""

    url: str = DEFAULT_URL
    token_file: str | None = None
    ca_file: str | None = None  # trusted instead of the system's certificates
    timeout_seconds: float = 10.0


class WrongUse(Exception):  # noqa: N818
    """The settings or the order are wrong: the user must change something. One line."""


class AgentUnavailable(Exception):  # noqa: N818
    """The agent cannot be reached or could not do it now; trying again may help. One line."""


class AgentClient:
    """One agent. Close it, or use it in a ``with``."""

    def __init__(self, settings: ClientSettings) -> None:
        """Raises WrongUse where the address, token file or certificate file cannot be used."""
        import httpx

        address = urlsplit(settings.url)
        if address.scheme not in ("http", "https") or not address.netloc:
            raise WrongUse(
                f"the agent's address {_shown(settings.url)!r} is not of the form {DEFAULT_URL}"
            )
        if "@" in address.netloc:
            raise WrongUse(
                "the agent's address holds a user or password: give the token by --token-file FILE "
                "or WEIR_TOKEN_FILE"
            )
        self.url = settings.url.rstrip("/")
        self._token_file = settings.token_file or None
        headers = {"accept": "application/json"}
        if settings.token_file:
            headers["authorization"] = _bearer(settings.token_file)
        verify: ssl.SSLContext | bool = True
        if settings.ca_file or self.url.lower().startswith("https:"):
            try:  # httpx by itself would ask certifi's list, and not the system's
                verify = ssl.create_default_context(cafile=settings.ca_file or None)
            except OSError as error:
                raise WrongUse(f"the CA file {settings.ca_file!r}: {error}") from None
        try:
            self._http: httpx.Client = httpx.Client(
                base_url=self.url,
                headers=headers,
                verify=verify,
                timeout=settings.timeout_seconds,
                trust_env=False,  # an agent is near: a web proxy would only see the token
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise WrongUse(f"the agent's address {_shown(settings.url)!r}: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def queries(self, *, history: int = 0) -> dict[str, Any]:
        """``GET /v1/queries``: the agent and every query; ``history`` newest points of each."""
        return self._request("GET", "/v1/queries", params={"history": history} if history else {})

    def query(self, application: str, query: str) -> dict[str, Any]:
        """``GET /v1/queries/{application}/{query}``, with history. Raises WrongUse if unknown."""
        return self._request("GET", _path(application, query))

    def control(self, application: str, query: str, order: dict[str, Any]) -> dict[str, Any]:
        """``POST …/control``; see docs/http.md for the order's fields."""
        return self._request("POST", _path(application, query) + "/control", json=order)

    def _request(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        import httpx

        try:
            response = self._http.request(method, path, **arguments)
            if response.status_code in (401, 403) and self._has_new_token():
                response = self._http.request(method, path, **arguments)
        except httpx.TransportError as error:
            cause = first_line(str(error)) or type(error).__name__
            connected = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            if method == "POST" and connected:
                also = f". {_HTTPS}" if _remedy(cause) == _HTTPS else ""
                raise AgentUnavailable(
                    f"no answer came from {self.url}: {_ERRNO.sub('', cause)}. {_UNKNOWN}{also}"
                ) from None
            raise AgentUnavailable(
                f"no agent answers at {self.url}: {_ERRNO.sub('', cause)}. {_remedy(cause)}"
            ) from None
        except httpx.HTTPError as error:
            cause = first_line(str(error)) or type(error).__name__
            said = f"what answers at {self.url} cannot be read: {cause}"
            raise AgentUnavailable(f"{said}. {_UNKNOWN}" if method == "POST" else said) from None
        if response.is_success:
            try:
                answer = response.json()
            except (ValueError, RecursionError):
                answer = None
            if not isinstance(answer, dict):
                raise AgentUnavailable(f"what answers at {self.url} is no Weir agent")
            return answer
        status = response.status_code
        told = _error(response, "message")
        message = f"HTTP {status}" if told is None else first_line(str(told))
        if response.status_code == 401 and self._token_file is None:
            raise WrongUse(
                f"the agent at {self.url} asks for a token: give --token-file FILE or "
                "WEIR_TOKEN_FILE"
            )
        if response.status_code == 401:
            raise WrongUse(
                f"the agent at {self.url} refuses the token of {self._token_file!r} "
                f"({message}): give another with --token-file or WEIR_TOKEN_FILE"
            )
        if response.status_code == 403 and _error(response, "where") == "Authorization":
            raise WrongUse(
                f"the agent at {self.url} takes no more than a driver's events with the token of "
                f"{self._token_file!r} ({message}): give another with --token-file or "
                "WEIR_TOKEN_FILE"
            )
        # By who stands before the agent, too: it may soon answer.
        later = status in (429, 502, 503, 504)
        if told is None and later:
            message = f"what answers at {self.url} cannot now ({message})"
        elif told is None:
            message = f"what answers at {self.url} is no Weir agent ({message})"
        elif later or status >= 500:
            message = f"the agent at {self.url} could not: {message}"
        if 400 <= status < 500 and not later:
            raise WrongUse(message)
        # Who stands between may have passed an order on.
        lost = told is None and method == "POST" and status >= 500
        raise AgentUnavailable(f"{message}. {_UNKNOWN}" if lost else message)

    def _has_new_token(self) -> bool:
        """Reads the file again, as who renews a token changes it; true where it holds another."""
        if self._token_file is None:
            return False
        before, found = self._http.headers["authorization"], _bearer(self._token_file)
        self._http.headers["authorization"] = found
        return found != before


def user_name() -> str:
    """Who gives an order, for the agent's log; empty where the system has no name for them."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        return ""


def _remedy(cause: str) -> str:
    """What to do where no answer came."""
    said = cause.lower()
    if "mismatch" in said or "is not valid for" in said:
        return (
            "Give --url a name that its certificate has; or make a certificate that has this one "
            "too, as localhost for a port-forward"
        )
    if "certificate" in said:
        return "Trust its certificate with --ca-file FILE or WEIR_CA_FILE"
    if "ssl" in said or "tls" in said:
        return "Does it speak HTTP? Then write http:// in --url or WEIR_AGENT_URL"
    if "disconnected without" in said:
        return _HTTPS
    if "refused" in said:
        return "Start `weir agent`, or name another with --url or WEIR_AGENT_URL"
    return "Try again, or name another with --url or WEIR_AGENT_URL"


def _shown(url: str) -> str:
    """An address without what stands before an @."""
    return url.rpartition("@")[2][:100]


def _path(application: str, query: str) -> str:
    return f"/v1/queries/{_segment(application)}/{_segment(query)}"


def _segment(name: str) -> str:
    # "." and ".." would be resolved as steps of the path before they are sent.
    return quote(name, safe="").replace(".", "%2E") if set(name) == {"."} else quote(name, safe="")


def _error(response: httpx.Response, part: str) -> Any:
    """What an agent's error says; None where it is not one of an agent."""
    try:
        return response.json()["error"][part]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _bearer(path: str) -> str:
    """What a request says of the token in a file."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise WrongUse(f"the token file {path!r}: {cause}") from None
    try:
        return f"Bearer {to_send(text)}"
    except ValueError as error:
        raise WrongUse(f"the token file {path!r} {error}") from None
