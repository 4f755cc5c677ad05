"""What happens by the clock: the fleet's tick, housekeeping, files that change, process samples."""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING, Final

import psutil
import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from agent.service.access import TokenFileError
from agent.service.log import Rarely
from agent.sources.host import DriverCandidate, DriverProcesses, sample

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.service.access import Tokens
    from agent.service.app import Service
    from agent.service.event_logs import EventLogs
    from agent.service.kafka_watch import KafkaWatch
    from agent.service.stages import Stages
    from agent.sources.host import DriverProcess

TICK_SECONDS: Final = 1
FILES_SECONDS: Final = 5
SAMPLE_SECONDS: Final = 5
TIDY_SECONDS: Final = 300
STAGES_SECONDS: Final = 5
AUDIT_SECONDS: Final = 2
FOLLOW_SECONDS: Final = 1
KAFKA_SECONDS: Final = 1
_log = structlog.get_logger("timers")


class Certificate:
    """A certificate and key that are read again when their files change."""

    def __init__(self, context: ssl.SSLContext, certificate: Path, key: Path) -> None:
        """``context`` already holds what the files hold now."""
        self._context = context
        self._files = (certificate, key)
        self._seen = self._marks()

    def reload(self) -> bool:
        """True where new connections get another certificate. Raises OSError, ssl.SSLError."""
        marks = self._marks()
        if marks == self._seen:
            return False
        # A context that refuses a pair has lost its key by then: try it on one that nobody uses.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files, _no_passphrase)
        self._context.load_cert_chain(*self._files, _no_passphrase)
        self._seen = marks
        return True

    def _marks(self) -> tuple[tuple[int, int, int], ...]:
        found = [path.stat() for path in self._files]
        return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)


def _no_passphrase() -> str:
    """Asked for where the key has one; without this, OpenSSL would ask the terminal and wait."""
    raise ssl.SSLError("the key has a passphrase; it must have none")


class Timers:
    """The scheduler and its jobs. All run on the event loop: the fleet has one thread."""

    def __init__(
        self,
        service: Service,
        *,
        tokens: Tokens | None,
        certificate: Certificate | None,
        driver_process: DriverProcess,
        event_logs: EventLogs | None = None,
        stages: Stages | None = None,
        kafka: KafkaWatch | None = None,
        clock: Callable[[], float],
    ) -> None:
        """Nothing runs before ``start``."""
        self._service = service
        self._tokens = tokens
        self._certificate = certificate
        self._event_logs = event_logs
        self._stages = stages
        self._kafka = kafka
        self._drivers = DriverProcesses(driver_process)
        self._own = psutil.Process()
        self._clock = clock
        self._rarely = Rarely(300.0)
        self._scheduler = AsyncIOScheduler(
            timezone="UTC",
            # A job that was late runs once and not again for each time it missed.
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        logging.getLogger("apscheduler").setLevel(logging.ERROR)

    def start(self) -> None:
        """From a running event loop."""
        add = self._scheduler.add_job
        add(self._tick, "interval", seconds=TICK_SECONDS, id="tick")
        add(self._files, "interval", seconds=FILES_SECONDS, id="files")
        add(self._samples, "interval", seconds=SAMPLE_SECONDS, id="samples")
        add(self._audit, "interval", seconds=AUDIT_SECONDS, id="audit")
        if self._stages is not None and self._stages.enabled:
            add(self._look_at_stages, "interval", seconds=STAGES_SECONDS, id="stages")
        if self._event_logs is not None:
            add(self._follow, "interval", seconds=FOLLOW_SECONDS, id="event-logs")
        if self._kafka is not None:
            add(self._ask_kafka, "interval", seconds=KAFKA_SECONDS, id="kafka")
        add(self._tidy, "interval", seconds=TIDY_SECONDS, id="tidy")
        self._scheduler.start()
        self._take_samples()

    def stop(self) -> None:
        """No job starts any more."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    # Coroutines, since the scheduler gives plain functions to a thread.
    async def _tick(self) -> None:
        now = self._clock()
        try:
            self._service.tick(now)
        except Exception as error:  # noqa: BLE001 - the next second may be better
            self._rarely.warn(_log.error, "the tick failed", now, exc_info=error)

    async def _look_at_stages(self) -> None:
        assert self._stages is not None
        try:
            await self._stages.look()
        except Exception as error:  # noqa: BLE001 - the next look may be better
            self._rarely.warn(_log.error, "the stages failed", self._clock(), exc_info=error)

    async def _audit(self) -> None:
        now = self._clock()
        try:
            self._service.audit(now)
        except Exception as error:  # noqa: BLE001 - an audit never stops the rest
            self._rarely.warn(_log.error, "the audit failed", now, exc_info=error)

    async def _follow(self) -> None:
        assert self._event_logs is not None
        try:
            await self._event_logs.poll()
        except Exception as error:  # noqa: BLE001 - the next look may be better
            self._rarely.warn(_log.error, "following failed", self._clock(), exc_info=error)

    async def _ask_kafka(self) -> None:
        assert self._kafka is not None
        try:
            await self._kafka.look()
            self._service.kafka_up = self._kafka.up
        except Exception as error:  # noqa: BLE001 - the next look may be better
            self._rarely.warn(_log.error, "asking Kafka failed", self._clock(), exc_info=error)

    async def _tidy(self) -> None:
        self._service.keeper.tidy(self._clock())

    async def _samples(self) -> None:
        self._take_samples()

    async def _files(self) -> None:
        now = self._clock()
        if self._tokens is not None:
            try:
                if self._tokens.reload():
                    _log.info("the token file has changed: its tokens hold now")
            except TokenFileError as error:
                self._rarely.warn(
                    _log.warning,
                    "the token file is unusable: the last tokens hold",
                    now,
                    cause=error,
                )
        if self._certificate is not None:
            try:
                if self._certificate.reload():
                    _log.info("the certificate has changed: new connections get it")
            except OSError as error:  # ssl.SSLError is one
                self._rarely.warn(
                    _log.warning,
                    "the certificate is unusable: the last one holds",
                    now,
                    cause=error,
                )

    def _take_samples(self) -> None:
        now = self._clock()
        service = self._service
        service.agent_process = sample(self._own, "agent", "", now)
        service.driver_processes = tuple(
            self._drivers.sample(
                (
                    DriverCandidate(
                        view.application,
                        view.listener.host,
                        view.listener.jvm_pid,
                        view.listener.python_pid,
                    )
                    for view in service.fleet.listeners(now)
                ),
                now,
            )
        )
