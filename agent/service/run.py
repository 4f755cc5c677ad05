"""The agent as a process: starts everything in order, announces its address, ends in order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
import time
from asyncio import sslproto
from functools import partial
from typing import TYPE_CHECKING, cast

import structlog
import uvicorn

from agent import __version__
from agent.service import doors, log, memory
from agent.service.access import Gate, TokenFileError, Tokens
from agent.service.app import Service
from agent.service.auditor import Auditor
from agent.service.clock import Clock
from agent.service.config import ConfigError, address_path, is_loopback, load
from agent.service.connections import (
    ACCEPTED_AT_ONCE,
    TLS_HANDSHAKE_SECONDS,
    TLS_READ_BYTES,
    Connections,
    most_connections,
)
from agent.service.event_logs import EventLogs
from agent.service.kafka_groups import KafkaGroups
from agent.service.kafka_watch import KafkaWatch
from agent.service.keeper import Keeper
from agent.service.recorder import Recorder
from agent.service.stages import Stages
from agent.service.store import Store, StoreFailed, StoreInUse, StoreUnusable
from agent.service.timers import Certificate, Timers
from agent.sources import kafka
from agent.sources.kafka_groups import GroupWriter

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

    from agent.service.config import Settings

GRACE_SECONDS = 5
#: Connections at once, idle ones too; a driver keeps one.
MAX_CONNECTIONS = 8192
#: Those that the kernel holds until they are taken in: all drivers come again at once.
WAITING_CONNECTIONS = 1024
_log = structlog.get_logger("agent")


def run(flags: Mapping[str, str], environ: Mapping[str, str], config_file: str | None) -> None:
    """Runs until SIGTERM or SIGINT. Raises ConfigError, in one line, where it cannot start."""
    memory.tune()
    settings, notices = load(flags, environ, config_file)
    log.configure(settings.log_format, settings.log_level)
    for notice in notices:
        _log.warning(notice)
    tokens, events_tokens = _tokens(settings)
    tls = _tls(settings)
    brokers = _brokers(settings)
    listening = _bind(settings)
    with contextlib.ExitStack() as held:
        held.callback(listening.close)
        store = _store(settings)
        held.callback(store.close)
        recorder = _recorder(settings)
        if recorder is not None:
            held.callback(recorder.close)
        clock = Clock()
        started_time = clock()
        keeper = _keeper(settings, store, started_time)
        _say_state(store, keeper)
        held.callback(lambda: keeper.close(clock()))
        auditor = Auditor(folder_every_seconds=settings.audit_folder_seconds, clock=clock)
        held.callback(auditor.close)
        service = Service(
            keeper,
            Gate(tokens, settings.host, events_tokens=events_tokens),
            max_request_bytes=settings.max_request_bytes,
            max_queries=settings.max_queries,
            labels=dict(settings.labels),
            started_time=started_time,
            metrics_need_token=settings.metrics_need_token,
            live_need_token=settings.live_need_token,
            recorder=recorder,
            auditor=auditor,
            clock=clock,
        )
        connections = Connections(most_connections(MAX_CONNECTIONS))
        config = uvicorn.Config(
            service.application(),
            log_config=None,
            access_log=False,
            lifespan="off",
            http=cast("type[asyncio.Protocol]", connections.protocol),  # called as the class is
            ws="none",
            loop="asyncio",
            server_header=False,
            proxy_headers=False,
            backlog=ACCEPTED_AT_ONCE,
            timeout_keep_alive=75,  # beyond the heartbeat and Prometheus's usual interval
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        config.load()
        config.ssl = tls
        certificate = None
        if tls is not None and settings.tls_cert_file and settings.tls_key_file:
            certificate = Certificate(tls, settings.tls_cert_file, settings.tls_key_file)
        open_doors = _doors(settings, listening, clock, (events_tokens, tokens))
        if open_doors is not None:
            held.callback(open_doors.close)
        groups = _groups(keeper, settings, clock)
        if groups is not None:
            held.callback(groups.close)
        logs = EventLogs(settings.event_log_dirs, keeper, clock, time.time)
        timers = Timers(
            service,
            doors=open_doors,
            kafka=None if brokers is None else _watch(brokers, keeper, settings, clock),
            groups=groups,
            event_logs=logs if settings.event_log_dirs else None,
            stages=Stages(
                lambda: keeper.fleet,
                settings.spark_ui_hosts,
                own_machine_only=is_loopback(settings.host),
                clock=clock,
            ),
            tokens=tokens,
            events_tokens=events_tokens,
            certificate=certificate,
            driver_process=settings.driver_process,
            clock=clock,
        )
        server = _Server(config, timers, settings, keeper)
        server.run(sockets=[listening])
    _log.info("stopped")


class _Server(uvicorn.Server):
    """Ends with success on a signal, and runs the timers while it serves."""

    def __init__(
        self, config: uvicorn.Config, timers: Timers, settings: Settings, keeper: Keeper
    ) -> None:
        super().__init__(config)
        self._keeper = keeper
        self._timers = timers
        self._settings = settings
        self._address_file: Path | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        if self.config.ssl is not None:
            sslproto.SSLProtocol.max_size = TLS_READ_BYTES  # type: ignore[attr-defined]
            # Who never shakes hands is no connection yet that could make room.
            loop.create_server = partial(  # type: ignore[method-assign]
                loop.create_server, ssl_handshake_timeout=TLS_HANDSHAKE_SECONDS
            )
        await super().startup(sockets)
        self._timers.start()
        assert sockets is not None
        for listening in sockets:
            listening.listen(WAITING_CONNECTIONS)
        address = _address(sockets[0], secure=self.config.ssl is not None)
        self._address_file = _write_address(self._settings, address)
        _log.info(
            "listening",
            address=address,
            version=__version__,
            token="needed" if self._settings.token_file else "none: this machine only",
            mode=self._keeper.fleet.mode,
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        _log.info("stopping")
        if self._address_file is not None:
            self._address_file.unlink(missing_ok=True)
        await super().shutdown(sockets)
        self._timers.stop()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    def _stop(self, number: signal.Signals) -> None:
        if self.should_exit and number == signal.SIGINT:
            self.force_exit = True  # asked twice at the keyboard
        self.should_exit = True


def _tokens(settings: Settings) -> tuple[Tokens | None, Tokens | None]:
    """Those that open all, and those that open events alone."""
    tokens = _tokens_of("token_file", settings.token_file)
    events_tokens = _tokens_of("events_token_file", settings.events_token_file)
    if tokens is not None and events_tokens is not None and tokens.overlap(events_tokens):
        raise ConfigError(
            f"events_token_file: {settings.events_token_file}: holds a token that opens all, as "
            f"{settings.token_file} holds it too: take it out of one of them"
        )
    return tokens, events_tokens


def _tokens_of(key: str, path: Path | None) -> Tokens | None:
    if path is None:
        return None
    try:
        return Tokens(path)
    except TokenFileError as error:
        raise ConfigError(f"{key}: {error}") from None


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    _check_readable("tls_cert_file", settings.tls_cert_file)
    _check_readable("tls_key_file", settings.tls_key_file)

    def no_passphrase() -> str:
        raise ConfigError(
            f"tls_key_file: {settings.tls_key_file}: has a passphrase; it must have none"
        )

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file, no_passphrase)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"tls_cert_file: {settings.tls_cert_file} and {settings.tls_key_file} are not a PEM "
            f"certificate and its key: {error}"
        ) from None
    return context


def _check_readable(key: str, path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise ConfigError(f"{key}: {path}: {error.strerror}") from None


def _bind(settings: Settings) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"host: {settings.host!r}: {error}") from None
    # A name may have several addresses: drivers and commands ask 127.0.0.1 by default.
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and address[0] == "::":
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"port: cannot listen on {settings.host}:{settings.port}: {error.strerror}"
        ) from None
    return listening


def _store(settings: Settings) -> Store:
    try:
        return Store(settings.state_dir, durability=settings.durability)
    except (StoreInUse, StoreUnusable) as error:
        raise ConfigError(f"state_dir: {error}") from None


def _keeper(settings: Settings, store: Store, started_time: float) -> Keeper:
    try:
        return Keeper(settings.policy(), store, started_time=started_time)
    except StoreFailed as error:
        raise ConfigError(f"state_dir: {store.path}: {error}") from None


def _kafka_options(settings: Settings) -> dict[str, str]:
    file = settings.kafka_options_file
    try:
        return {} if file is None else kafka.read_options(file)
    except OSError as error:
        raise ConfigError(f"kafka_options_file: {file}: {error.strerror}") from None
    except ValueError as error:  # not UTF-8, too
        raise ConfigError(f"kafka_options_file: {error}") from None


def _brokers(settings: Settings) -> kafka.Brokers | None:
    if settings.kafka_bootstrap_servers is None:
        return None
    try:
        return kafka.Brokers(settings.kafka_bootstrap_servers, _kafka_options(settings))
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _watch(brokers: kafka.Brokers, keeper: Keeper, settings: Settings, clock: Clock) -> KafkaWatch:
    keeper.fleet.keep_offsets()
    return KafkaWatch(
        lambda: keeper.fleet,
        brokers,
        clock,
        every_seconds=settings.kafka_every_seconds,
        series=settings.kafka_partition_series,
    )


def _groups(keeper: Keeper, settings: Settings, clock: Clock) -> KafkaGroups | None:
    servers, pattern = settings.kafka_bootstrap_servers, settings.kafka_commit_group
    if servers is None or pattern is None:
        return None
    keeper.fleet.keep_offsets()
    writer = GroupWriter(servers, _kafka_options(settings))
    return KafkaGroups(lambda: keeper.fleet, writer, clock, pattern=pattern)


def _doors(
    settings: Settings, listening: socket.socket, clock: Clock, held: Sequence[Tokens | None]
) -> doors.Doors | None:
    """``held``: the tokens that there are; what goes through doors sends one of the first."""
    if settings.doors == "off":
        return None
    token_file = next((one.path for one in held if one is not None and one.sendable), None)
    if token_file is None and any(held):
        why = "the token files hold digests alone, and what goes through a door must send a token"
        if settings.doors is not None:
            raise ConfigError(f"doors: {why}: put one into events_token_file, or set doors to off")
        _log.warning(f"no doors are looked for: {why}: put one into events_token_file")
        return None
    address = _address(listening, secure=settings.tls_cert_file is not None)
    return doors.Doors(
        settings.doors,
        doors.command(
            address,
            token_file=token_file,
            certificate_file=settings.tls_cert_file,
        ),
        clock=clock,
    )


def _recorder(settings: Settings) -> Recorder | None:
    if settings.record_file is None:
        return None
    try:
        recorder = Recorder(
            settings.record_file,
            max_bytes=settings.record_max_bytes,
            keep=settings.record_keep,
            state_dir=settings.state_dir,
        )
    except OSError as error:
        raise ConfigError(f"record_file: {error.filename}: {error.strerror}") from None
    if recorder.trouble is not None:
        _log.warning("events are not recorded", cause=recorder.trouble)
    return recorder


def _say_state(store: Store, keeper: Keeper) -> None:
    if store.path is None:
        _log.warning(
            "no state_dir: counters, what is learned and orders are lost when the agent stops"
        )
        return
    if store.set_aside is not None:
        path, why = store.set_aside
        _log.error("the saved state is unusable here: set aside", file=path, cause=why)
    _log.info("state", file=store.path, queries=len(keeper.fleet), parts=keeper.restored_parts)


def _address(listening: socket.socket, *, secure: bool) -> str:
    host, port = listening.getsockname()[:2]
    # To be of use to a script on this machine, an address of all interfaces becomes loopback: that
    # of IPv4, which "::" takes too, as a container's may have no other.
    host = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(host, host)  # noqa: S104
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{shown}:{port}"


def _write_address(settings: Settings, address: str) -> Path | None:
    path = address_path(settings.address_file, settings.state_dir)
    if path is None:
        return None
    partial = path.with_name(path.name + ".new")
    try:
        partial.write_text(address + "\n", "utf-8")
        partial.replace(path)
    except OSError as error:
        _log.warning("the address file cannot be written", file=path, cause=error)
        return None
    return path
