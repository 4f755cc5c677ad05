"""Attaches Weir to a Spark session and takes it off again. Neither ever raises into the job."""

from __future__ import annotations

import atexit
import dataclasses
import json
import os
import socket
import threading
import uuid
from typing import TYPE_CHECKING, Any, Final

from spark_listener.channel import Channel
from spark_listener.complaints import LOGGER, Complaints
from spark_listener.config import CONF_PREFIX, ConfigurationError, Settings, conf_key, resolve
from spark_listener.first_batch import Gatekeeper, taking_milliseconds
from spark_listener.intake import Intake
from spark_listener.listener import Inbox
from spark_listener.observer import Observer
from spark_listener.outbox import Outbox
from spark_listener.sender import LARGEST_EVENT_BYTES, Sender
from spark_listener.sessions import Session, Sessions
from spark_listener.wire import SILENT_SECONDS

FLUSH_SECONDS: Final = 1.0
_RESTORED_WITHIN_SECONDS: Final = 5.0

if TYPE_CHECKING:
    from collections.abc import Sequence

_lock = threading.RLock()
_drivers: dict[str, _Driver] = {}  # by Spark's application id
_complaints = Complaints()


class Attachment:
    """What ``attach`` returns. ``active`` says whether Weir watches the session."""

    def __init__(self, session: Any, driver: _Driver | None, reason: str) -> None:
        self._session = session
        self._driver = driver
        self.reason = reason  # why it is not active; empty where it is

    @property
    def active(self) -> bool:
        """True while the session is watched."""
        return self._driver is not None and self._driver.session(self._session) is not None

    def detach(self) -> None:
        """Puts the configured limits back and stops watching this session."""
        _detach(self._session)

    def __repr__(self) -> str:
        return f"<weir {'attached' if self.active else 'off: ' + (self.reason or 'detached')}>"


class _Driver:
    """All of Weir in one Spark application: its threads, and the sessions it watches."""

    def __init__(self, spark: Any, settings: Settings) -> None:
        context = spark.sparkContext
        self._context = context
        self._gateway = context._gateway
        self._settings = settings
        self._process_id = os.getpid()
        self.application_id = str(context.applicationId)
        self._application = {
            "id": self.application_id,
            "name": settings.application_name or str(context.appName),
            "spark_version": str(context.version),
        }
        self._instance = str(uuid.uuid4())
        self._process = self._process_report() if settings.process_report else {}
        self._sessions = Sessions(self._gateway)
        self._inbox = Inbox(
            self._gateway, hold_milliseconds=taking_milliseconds(settings.first_batch_seconds)
        )
        self._outbox = Outbox(
            settings.queue_size,
            settings.queue_bytes,
            largest_bytes=min(LARGEST_EVENT_BYTES, settings.queue_bytes),
        )
        self._observer = Observer(
            settings,
            self._gateway,
            self._outbox,
            inbox=self._inbox,
            gatekeeper=Gatekeeper(
                self._gateway,
                longest_seconds=settings.first_batch_seconds,
                complaints=_complaints,
            ),
            spark_stopped=lambda: self.stopped,
            complaints=_complaints,
            on_lost=self._lost,
        )
        self._sender = Sender(
            self._outbox,
            Channel(
                settings.agent_url,
                token_file=settings.token_file,
                ca_file=settings.ca_file,
                timeout_seconds=settings.timeout_seconds,
            ),
            agent_url=settings.agent_url,
            # A start's reply comes with the next exchange, which waits for the one under way.
            prompt_seconds=settings.first_batch_seconds / 2,
            head=self._head,
            on_reply=self._observer.mailbox.reply,
            on_failure=self._observer.mailbox.wake,
            complaints=_complaints,
        )
        self._intake = Intake(
            self._inbox,
            self._observer.mailbox,
            session_of=self._sessions.of_key,
            open_gate=self._observer.open_gate,
            complaints=_complaints,
        )
        self._sender.start()
        self._observer.start(self._sender)
        self._intake.start()

    def _process_report(self) -> dict[str, Any]:
        report: dict[str, Any] = {"host": socket.gethostname(), "python_pid": os.getpid()}
        try:
            report["jvm_pid"] = int(self._gateway.jvm.java.lang.ProcessHandle.current().pid())
        except Exception as error:  # Java 8 has no ProcessHandle
            LOGGER.debug("weir: the JVM's process id is unknown: %s", error)
        return report

    def _head(self) -> str:
        jvm = self._observer.counters
        listener = {
            "instance": self._instance,
            "queue_length": len(self._outbox) + len(self._observer.mailbox) + jvm.waiting,
            "dropped_total": self._outbox.dropped_total + jvm.dropped_total,
            "callback_seconds_total": round(jvm.seconds_total, 6),
            "callbacks_total": jvm.calls_total,
            "rejected_total": self._sender.rejected_total,
            "complaints_total": _complaints.total,
            **self._process,
        }
        return f'{{"application":{json.dumps(self._application)},"listener":{json.dumps(listener)}'

    @property
    def stopped(self) -> bool:
        """True once the application's context has been stopped."""
        return self._context._jsc is None

    def session(self, java_session: Any) -> Session | None:
        """What is watched of this JVM session, if it is."""
        return self._sessions.of(java_session)

    def watch(self, java_session: Any, *, control: bool) -> None:
        """Adds the listener to a session. Raises what py4j raises, the session then unwatched."""
        for gone in self._sessions.take_out_gone():
            self._observer.forget_session(gone)
        self._observer.join_session(
            self._sessions.add(java_session, self._inbox.listener, control=control)
        )

    def unwatch(self, session: Session) -> None:
        """Stops watching one session."""
        if not self._sessions.remove(session):
            return
        try:
            session.java.streams().removeListener(session.wrapped)
        except LookupError:
            pass  # nobody has it any more
        except Exception as error:
            if not self.stopped:
                _complaints.error("removing the listener", error)
        self._observer.leave_session(session, _RESTORED_WITHIN_SECONDS)

    def refuse_control(self, session: Session) -> None:
        """Sets no limit in this session from now on, and puts the configured ones back."""
        self._observer.refuse_control(session, _RESTORED_WITHIN_SECONDS)

    @property
    def settings(self) -> Settings:
        """What the application was attached with first."""
        return self._settings

    @property
    def inherited(self) -> bool:
        """True in a child that this process forked: threads and Spark are its parent's."""
        return os.getpid() != self._process_id

    @property
    def sessions(self) -> list[Session]:
        """What is watched."""
        return self._sessions.all()

    def close(self, *, ending: bool) -> None:
        """Ends the threads; what is queued is sent within a second if the agent answers.

        ``ending``: the driver itself ends.
        """
        self._intake.stop(FLUSH_SECONDS if ending else 0.0)
        self._sessions.clear()
        self._observer.stop(FLUSH_SECONDS, ending=ending)
        self._sender.stop(FLUSH_SECONDS)

    def _lost(self) -> None:
        """Spark has stopped; called from the observer's thread."""
        with _lock:
            # Its successor in this process may have the same id.
            if _drivers.get(self.application_id) is self:
                del _drivers[self.application_id]
        self._intake.stop(0.0)
        self._sessions.clear()
        self._observer.stop(0.0)
        self._sender.stop(FLUSH_SECONDS)


def attach(spark: Any = None, **settings: Any) -> Attachment:
    """Watches the streaming queries of ``spark`` (else of the active session) and steers them.

    Settings are those of ``config.Settings``: an argument wins over ``spark.weir.*`` in Spark's
    configuration, which wins over ``WEIR_*`` in the environment. Attaching twice is attaching
    once. Never raises: what prevents it is logged once and stands in the result's ``reason``.
    """
    try:
        with _lock:
            return _attach(spark, settings)
    except ConfigurationError as error:
        return _off(f"weir is off: {error}")
    except Exception as error:
        LOGGER.debug("weir: attach failed", exc_info=error)
        first_line = (str(error).strip().splitlines() or [""])[0][:300]
        return _off(f"weir is off: attaching failed: {type(error).__name__}: {first_line}")


def detach(spark: Any = None) -> None:
    """Puts the configured limits back and stops watching: one session, or all without one."""
    _detach(None if spark is None else getattr(spark, "_jsparkSession", None), every=spark is None)


def _detach(session: Any, *, every: bool = False) -> None:
    try:
        with _lock:
            for driver in list(_drivers.values()):
                one = None if every else driver.session(session)
                for known in driver.sessions if every else [one] if one else []:
                    driver.unwatch(known)
                if not driver.sessions:
                    _drivers.pop(driver.application_id, None)
                    driver.close(ending=False)
    except Exception as error:
        _complaints.error("detaching", error)


def _attach(spark: Any, arguments: dict[str, Any]) -> Attachment:
    if spark is None:
        from pyspark.sql import SparkSession

        spark = SparkSession.getActiveSession()
        if spark is None:
            return _off("weir is off: there is no active Spark session; use attach(spark)")
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return _off(
            "weir is off: this is a Spark Connect session, whose queries run in a server out of "
            "reach; have that server write an event log, and the agent watches them "
            "(weir agent --event-log-dirs)"
        )
    context = spark.sparkContext
    if context._jsc is None:
        return _off("weir is off: the Spark session has been stopped")
    session = spark._jsparkSession
    driver = _drivers.get(str(context.applicationId))
    if driver is not None and driver.stopped:
        # Of an application of the same id that has ended; its observer is about to notice.
        del _drivers[driver.application_id]
        driver = None
    known = None if driver is None else driver.session(session)
    if driver is not None and known is not None:
        # weir-run comes here at each getOrCreate, in foreachBatch too: reading conf would cost it.
        return _attached_again(session, driver, known, arguments)
    settings = resolve(arguments, _conf(spark), os.environ)
    if not settings.enabled:
        LOGGER.info("weir is off: enabled is false")
        return Attachment(None, None, "enabled is false")
    control = settings.control
    if driver is not None:
        _say_what_stays(driver.settings, settings, _given(arguments, but=("control",)))
        if not _given(arguments, only="control"):  # what was said of one session holds for others
            control = control and all(other.control for other in driver.sessions)
    if driver is None:
        driver = _Driver(spark, settings)
        _drivers[driver.application_id] = driver
        if settings.exposes_token:
            _complaints.warn(
                "token:plain",
                f"weir: the token goes to {settings.agent_url} unencrypted; use https",
            )
        if settings.beats_rarely:
            _complaints.warn(
                "heartbeat:rare",
                f"weir: heartbeat_seconds is {settings.heartbeat_seconds:g}, and an agent takes a "
                f"driver for gone after its silent_seconds ({SILENT_SECONDS:g} by default): set "
                "that to three times as much",
            )
    try:
        driver.watch(session, control=control)
    except Exception:
        if not driver.sessions:
            _drivers.pop(driver.application_id, None)
            driver.close(ending=False)
        raise
    LOGGER.info("weir watches %s, agent %s", driver.application_id, settings.agent_url)
    return Attachment(session, driver, "")


def _attached_again(
    session: Any, driver: _Driver, known: Session, arguments: dict[str, Any]
) -> Attachment:
    """A session that is watched already: ``control=False`` holds from now on, the rest stays."""
    wanted = resolve(arguments, {}, {})
    if not wanted.enabled:
        LOGGER.info("weir: a session that was attached is detached: enabled is false")
        _detach(session)
        return Attachment(None, None, "enabled is false")
    given = _given(arguments)
    if "control" in given and not wanted.control and known.control:
        LOGGER.info("weir: a session that was attached with control is only watched from now on")
        driver.refuse_control(known)
    present = dataclasses.replace(driver.settings, control=known.control)
    _say_what_stays(present, wanted, given)
    return Attachment(session, driver, "")


def _given(
    arguments: dict[str, Any], *, only: str | None = None, but: Sequence[str] = ()
) -> list[str]:
    """The names of the settings that a caller of ``attach`` gave."""
    return [
        name
        for name, value in arguments.items()
        if value is not None and name not in but and only in (None, name)
    ]


def _say_what_stays(present: Settings, wanted: Settings, names: Sequence[str]) -> None:
    """Warns of settings that another attach to the application asks for in vain."""
    differing = [
        f"{name} ({conf_key(name)}) stays {getattr(present, name)!r}"
        for name in names
        if getattr(present, name) != getattr(wanted, name)
    ]
    if differing:
        _complaints.warn(
            f"again:{','.join(names)}",
            f"weir: the application is attached already: {', '.join(differing)}; to change it, "
            "detach() first",
        )


def _conf(spark: Any) -> dict[str, str]:
    """``spark.weir.*`` of the application and, over it, of the session."""
    found = {
        key: value
        for key, value in spark.sparkContext.getConf().getAll()
        if key.startswith(CONF_PREFIX)
    }
    session = spark._jsparkSession.sessionState().conf().getAllConfs()
    iterator = session.keysIterator()
    while iterator.hasNext():
        key = str(iterator.next())
        if key.startswith(CONF_PREFIX):
            found[key] = str(session.apply(key))
    return found


def _off(message: str) -> Attachment:
    _complaints.warn(message, message)
    return Attachment(None, None, message.removeprefix("weir is off: "))


def _close_all() -> None:
    """At the interpreter's end: send what is left, touch the JVM no more."""
    # What is inherited is kept: letting go of it would tell the parent's JVM to do so.
    for key, driver in list(_drivers.items()):
        if not driver.inherited:
            del _drivers[key]
            _close_quietly(driver)


def _close_quietly(driver: _Driver) -> None:
    try:
        driver.close(ending=True)
    except Exception as error:
        LOGGER.debug("weir: closing", exc_info=error)


atexit.register(_close_all)
