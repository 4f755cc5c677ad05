"""Settings of the driver side: an argument of ``attach``, else ``spark.weir.*``, else ``WEIR_*``.

The three names of one setting follow from each other: ``agent_url`` is ``spark.weir.agent.url`` and
``WEIR_AGENT_URL``. ``docs/driver.md`` lists them all.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from spark_listener.redact import redact
from spark_listener.wire import HEARTBEAT_SECONDS, SILENT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

MEBIBYTE: Final = 1024 * 1024
#: Four of the largest requests, or 2,000 events (the default of ``queue_size``) of 16 KiB: a driver
#: has a heap of a gigabyte by default, of which this is 3 %.
QUEUE_BYTES: Final = 32 * MEBIBYTE
CONF_PREFIX: Final = "spark.weir."
ENVIRONMENT_PREFIX: Final = "WEIR_"
DEFAULT_AGENT_URL: Final = "http://127.0.0.1:9655"
#: A token written into Spark's configuration would show in its UI, event log and REST API.
FORBIDDEN_CONF: Final = ("spark.weir.token", "spark.weir.agent.token")
#: What the plugin reads of the same configuration, before there is any Python.
PLUGIN_CONF: Final = ("spark.weir.door.dir",)
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class ConfigurationError(ValueError):
    """A setting cannot be used; the message is one line that names it, its source and a remedy."""


@dataclass(frozen=True)
class Settings:
    """Everything the driver side can be told. Durations in seconds."""

    enabled: bool = True
    agent_url: str = DEFAULT_AGENT_URL
    #: A file with the agent's bearer token; read again when the agent refuses the old one.
    token_file: str = ""
    #: Certificates to trust instead of the system's, PEM.
    ca_file: str = ""
    #: The name that series carry; Spark's ``spark.app.name`` where empty, else its id.
    application_name: str = ""
    #: False: watch and report, never change a limit.
    control: bool = True
    #: Events kept while the agent does not answer, and what they may take of the driver's memory;
    #: the oldest progress goes first.
    queue_size: int = field(default=2000, metadata={"minimum": 10, "maximum": 100_000})
    queue_bytes: int = field(
        default=QUEUE_BYTES, metadata={"minimum": MEBIBYTE, "maximum": 1024 * MEBIBYTE}
    )
    heartbeat_seconds: float = field(
        default=HEARTBEAT_SECONDS, metadata={"minimum": 0.1, "maximum": 60.0}
    )
    #: For one exchange with the agent, looking its name up and connecting included.
    timeout_seconds: float = field(default=5.0, metadata={"minimum": 0.1, "maximum": 60.0})
    #: The longest that a first batch waits for its limit; 0 never waits.
    first_batch_seconds: float = field(default=2.0, metadata={"minimum": 0.0, "maximum": 10.0})
    #: Whether directories of file sources are listed to learn what has arrived.
    files_list: bool = True
    #: The shortest pause between two listings of one directory.
    files_pause_seconds: float = field(default=2.0, metadata={"minimum": 0.1, "maximum": 3600.0})
    #: A directory with more entries than this is not listed.
    files_max_entries: int = field(default=100_000, metadata={"minimum": 1, "maximum": 10_000_000})
    #: Whether host and process ids are told, for an agent that watches the driver's memory.
    process_report: bool = True

    @property
    def secure(self) -> bool:
        """True where the agent is reached by TLS."""
        return self.agent_url.lower().startswith("https:")

    @property
    def beats_rarely(self) -> bool:
        """True where one late heartbeat makes an agent take the driver for gone."""
        return 2 * self.heartbeat_seconds > SILENT_SECONDS

    @property
    def exposes_token(self) -> bool:
        """True where the token would cross a network unencrypted."""
        host = (urlsplit(self.agent_url).hostname or "").lower()
        return bool(self.token_file) and not self.secure and host not in _LOOPBACK


def conf_key(name: str) -> str:
    """``agent_url`` -> ``spark.weir.agent.url``."""
    return CONF_PREFIX + name.replace("_", ".")


def environment_key(name: str) -> str:
    """``agent_url`` -> ``WEIR_AGENT_URL``."""
    return ENVIRONMENT_PREFIX + name.upper()


NAMES: Final = tuple(item.name for item in fields(Settings))
_FILES: Final = ("token_file", "ca_file")


def resolve(
    arguments: Mapping[str, Any],
    conf: Mapping[str, str],
    environment: Mapping[str, str],
    folder: Path | None = None,
) -> Settings:
    """The settings in force; the first of arguments, conf and environment that has one wins.

    Files are looked for from ``folder`` on, or else from where the job is now: they are read again
    and again, and it may change its directory.
    Raises ConfigurationError for an unknown argument or ``spark.weir.*`` key, a value that does
    not fit, and a token in Spark's configuration.
    """
    for key in FORBIDDEN_CONF:
        if key in conf:
            raise ConfigurationError(
                f"{key}: a token must not stand in Spark's configuration, which its UI and event "
                f"log show; put it into a file and name that by {conf_key('token_file')}"
            )
    for name in arguments:
        if name not in NAMES:
            raise ConfigurationError(
                f"attach() knows no argument {name!r}; it knows {', '.join(NAMES)}"
            )
    known = {*map(conf_key, NAMES), *PLUGIN_CONF}
    for key in conf:
        if key.startswith(CONF_PREFIX) and key not in known:
            raise ConfigurationError(f"{key}: unknown; known are {', '.join(sorted(known))}")
    chosen: dict[str, Any] = {}
    for item in fields(Settings):
        name = item.name
        for source, value in (
            (f"argument {name}", arguments.get(name)),
            (conf_key(name), conf.get(conf_key(name))),
            (environment_key(name), environment.get(environment_key(name))),
        ):
            if value is None or (isinstance(value, str) and not value.strip()):
                continue
            chosen[name] = _convert(source, value, item.default, item.metadata)
            break
    for name in chosen.keys() & set(_FILES):
        with contextlib.suppress(OSError):  # it is in none, as that is gone
            chosen[name] = str((folder or Path.cwd()) / chosen[name])
    settings = Settings(**chosen)
    _check_url(settings.agent_url)
    return settings


def _convert(source: str, value: Any, default: Any, bounds: Mapping[str, Any]) -> Any:
    if isinstance(default, bool):
        return _truth(source, value)
    if isinstance(default, str):
        if not isinstance(value, str):
            raise ConfigurationError(f"{source}: a text is needed, not {type(value).__name__}")
        return value.strip()
    whole = isinstance(default, int)
    try:
        if isinstance(value, bool):
            raise ValueError  # noqa: TRY301 - one message for both
        number = int(value) if whole else float(value)
        if not math.isfinite(number):
            raise ValueError  # noqa: TRY301
    except (TypeError, ValueError, OverflowError):
        kind = "whole number" if whole else "number"
        raise ConfigurationError(f"{source}: {str(value)[:60]!r} is no {kind}") from None
    if not bounds["minimum"] <= number <= bounds["maximum"]:
        raise ConfigurationError(
            f"{source}: {number} is outside {bounds['minimum']} to {bounds['maximum']}"
        )
    return number


def _truth(source: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("true", "1", "yes", "on"):
        return True
    if word in ("false", "0", "no", "off"):
        return False
    raise ConfigurationError(f"{source}: {str(value)[:60]!r} is neither true nor false")


def _check_url(url: str) -> None:
    where = f"agent_url ({conf_key('agent_url')}, {environment_key('agent_url')})"
    example = "write it as http://host:port or https://host:port"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # whose text has a password, or what follows the first slash in one
        raise ConfigurationError(f"{where}: {_shown(url)!r} is no address; {example}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"{where}: {_shown(url)!r} is no address; {example}")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            f"{where}: it holds a user or password; use {conf_key('token_file')} instead"
        )
    if parts.query or parts.fragment:
        raise ConfigurationError(f"{where}: it has a query or fragment; {example}")
    if port == 0:
        raise ConfigurationError(f"{where}: port 0 cannot be reached; {example}")


def _shown(url: str) -> str:
    """An address for a message: never what stands before an @, or may have stood there."""
    return redact(url.rpartition("@")[2][:80])
