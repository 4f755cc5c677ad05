"""What happens by the clock: the fleet's tick, housekeeping, files that change, process samples."""

from __future__ import annotations

import inspect
import logging
import ssl
from datetime import datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any, Final

import psutil
import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from agent.service.access import TokenFileError
from agent.service.expiry import Validity, validity
from agent.service.log import Rarely
from agent.sources.host import DriverCandidate, DriverProcesses, sample

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from agent.service.access import Tokens
    from agent.service.app import Service
    from agent.service.clock import Clock
    from agent.service.doors import Doors
    from agent.service.event_logs import EventLogs
    from agent.service.kafka_groups import KafkaGroups
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
#: A driver's first query comes within seconds of its door.
DOORS_SECONDS: Final = 0.25
#: Times shown are to the second.
CLOCK_OFF_SECONDS: Final = 1.0
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

    def validity(self) -> Validity | None:
        """From when to when the one that is served holds; None where that cannot be read."""
        return validity(self._context, self._files[0])

    def _marks(self) -> tuple[tuple[int, int, int], ...]:
        found = [path.stat() for path in self._files]
        return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)


def _no_passphrase() -> str:
    """Asked for where the key has one; without this, OpenSSL would ask the terminal and wait."""
    raise ssl.SSLError("the key has a passphrase; it must have none")


class ClockZone(tzinfo):
    """Makes ``datetime.now(zone)`` the agent's own time, which is how a scheduler asks for it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def fromutc(self, _: datetime) -> datetime:
        """The time now, whatever the machine's clock says."""
        told = datetime.fromtimestamp(self._clock(), timezone.utc)
        return told.replace(tzinfo=self)

    def utcoffset(self, _: datetime | None) -> timedelta:
        """None: it is UTC."""
        return timedelta()

    def dst(self, _: datetime | None) -> timedelta:
        """None."""
        return timedelta()

    def tzname(self, _: datetime | None) -> str:
        """For messages."""
        return "agent"


class Every(BaseTrigger):  # type: ignore[misc]  # APScheduler has no annotations
    """So many seconds after the last time, by the scheduler's own clock."""

    def __init__(self, seconds: float) -> None:
        self._interval = timedelta(seconds=seconds)

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """The first time is an interval from now; those that were missed are left out."""
        return max((previous or now) + self._interval, now)


class Timers:
    """What is done again and again. All of it on the event loop: the fleet has one thread.

    By the agent's own clock, which nobody sets: by the machine's, which may be set back, nothing
    would be done for as long.
    """

    def __init__(
        self,
        service: Service,
        *,
        tokens: Tokens | None,
        events_tokens: Tokens | None,
        certificate: Certificate | None,
        driver_process: DriverProcess,
        event_logs: EventLogs | None = None,
        stages: Stages | None = None,
        kafka: KafkaWatch | None = None,
        groups: KafkaGroups | None = None,
        doors: Doors | None = None,
        clock: Clock,
    ) -> None:
        """Nothing runs before ``start``."""
        self._service = service
        self._tokens = tokens
        self._events_tokens = events_tokens
        self._certificate = certificate
        self._event_logs = event_logs
        self._stages = stages
        self._kafka = kafka
        self._groups = groups
        self._doors = doors
        self._drivers = DriverProcesses(driver_process)
        self._own = psutil.Process()
        self._clock = clock
        self._rarely = Rarely(300.0)
        self._scheduler = AsyncIOScheduler(
            timezone=ClockZone(clock),
            # A job that was late runs once and not again for each time it missed.
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        logging.getLogger("apscheduler").setLevel(logging.ERROR)

    def start(self) -> None:
        """From a running event loop."""
        self._again("the tick", TICK_SECONDS, self._tick)
        self._again("reading files again", FILES_SECONDS, self._files)
        self._again("the samples", SAMPLE_SECONDS, self._take_samples)
        self._again("the audit", AUDIT_SECONDS, self._audit)
        if self._stages is not None and self._stages.enabled:
            self._again("the stages", STAGES_SECONDS, self._stages.look)
        if self._event_logs is not None:
            self._again("following", FOLLOW_SECONDS, self._event_logs.poll)
        if self._kafka is not None:
            self._again("asking Kafka", KAFKA_SECONDS, self._ask_kafka)
        if self._groups is not None:
            self._again("telling Kafka", KAFKA_SECONDS, self._tell_kafka)
        if self._doors is not None:
            self._again("looking for doors", DOORS_SECONDS, self._look_for_doors)
        self._again("housekeeping", TIDY_SECONDS, self._tidy)
        self._scheduler.start()
        self._take_samples()
        if self._certificate is not None:
            self._service.certificate = self._certificate.validity()

    def stop(self) -> None:
        """Nothing is done any more."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        if self._groups is not None:  # the loop's end waits for its thread
            self._groups.close()

    def _again(
        self, what: str, seconds: float, act: Callable[[], Coroutine[Any, Any, None] | None]
    ) -> None:
        """Does it every so many seconds, whatever became of it the last time."""

        # A coroutine, since the scheduler gives plain functions to a thread.
        async def act_safely() -> None:
            try:
                waiting = act()
                if inspect.isawaitable(waiting):
                    await waiting
            except Exception as error:  # noqa: BLE001 - the next time may be better
                self._rarely.warn(_log.error, f"{what} failed", self._clock(), exc_info=error)

        self._scheduler.add_job(act_safely, Every(seconds), id=what)

    def _tick(self) -> None:
        off = self._clock.off_seconds()
        self._service.tick(self._clock(), off)
        # Less is no setting, and would give each scrape other times of the same orders.
        if abs(off - self._service.clock_settings.off_seconds) >= CLOCK_OFF_SECONDS:
            self._service.clock_settings.note(self._clock(), off)
            _log.warning(
                "the machine's clock was set: the agent keeps its own until it is started again",
                differ_seconds=round(off),
            )

    def _audit(self) -> None:
        self._service.audit(self._clock())

    async def _ask_kafka(self) -> None:
        assert self._kafka is not None
        try:
            await self._kafka.look()
        finally:
            self._service.kafka_up = self._kafka.up

    async def _tell_kafka(self) -> None:
        assert self._groups is not None
        await self._groups.look()
        self._service.kafka_groups = self._groups.states()

    def _look_for_doors(self) -> None:
        assert self._doors is not None
        self._doors.look()
        self._service.doors = {str(state): count for state, count in self._doors.states().items()}
        self._service.unattended = self._doors.unattended

    def _tidy(self) -> None:
        self._service.keeper.tidy(self._clock())

    def _files(self) -> None:
        now = self._clock()
        self._tokens_again(now)
        if self._certificate is not None:
            try:
                if self._certificate.reload():
                    _log.info("the certificate has changed: new connections get it")
                    self._service.certificate = self._certificate.validity()
            except OSError as error:  # ssl.SSLError is one
                self._rarely.warn(
                    _log.warning,
                    "the certificate is unusable: the last one holds",
                    now,
                    cause=error,
                )

    def _tokens_again(self, now: float) -> None:
        for key, tokens in (
            ("token_file", self._tokens),
            ("events_token_file", self._events_tokens),
        ):
            if tokens is not None:
                self._reload(key, tokens, now)
        if self._tokens and self._events_tokens and self._tokens.overlap(self._events_tokens):
            self._rarely.warn(
                _log.warning,
                "a token is in both token files: it opens events alone, and no agent starts with "
                "it: take it out of one of them",
                now,
                file=self._tokens.path,
                events_file=self._events_tokens.path,
            )

    def _reload(self, key: str, tokens: Tokens, now: float) -> None:
        try:
            if tokens.reload():
                _log.info("the token file has changed: its tokens hold now", file=tokens.path)
        except TokenFileError as error:
            what = f"{key} is unusable: the last tokens hold"
            self._rarely.warn(_log.warning, what, now, cause=error)

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
