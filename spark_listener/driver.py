"""All of Weir in one Spark application: the threads, and the sessions they watch."""

from __future__ import annotations

import json
import os
import socket
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spark_listener.channel import Channel
from spark_listener.complaints import LOGGER
from spark_listener.first_batch import Gatekeeper, taking_milliseconds
from spark_listener.handlers import leave_to_the_job
from spark_listener.intake import Intake
from spark_listener.lease import STARTS
from spark_listener.listener import Inbox
from spark_listener.observer import Observer
from spark_listener.outbox import Outbox
from spark_listener.py4j_log import hang_up
from spark_listener.sender import LARGEST_EVENT_BYTES, Sender
from spark_listener.sessions import Session, Sessions
from spark_listener.wire import LONGEST_APPLICATION_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_listener.application import Application
    from spark_listener.complaints import Complaints
    from spark_listener.config import Settings

FLUSH_SECONDS: Final = 1.0
_RESTORED_WITHIN_SECONDS: Final = 5.0


def name_of(application: Application, settings: Settings) -> str:
    """What its series are called: one that an agent takes, whatever name Spark was given."""
    name = settings.application_name or application.name or application.id
    return _whole(name)[:LONGEST_APPLICATION_NAME]


def _whole(text: str) -> str:
    """As UTF-8 can say it: a byte of the environment that is none comes as half of a pair."""
    return text.encode("utf-8", "replace").decode()


class Driver:
    """Of one ``Application``. ``on_lost`` is called, from a thread, once Spark has stopped."""

    def __init__(
        self,
        application: Application,
        settings: Settings,
        *,
        complaints: Complaints,
        on_lost: Callable[[Driver], None],
        agents_own_certificate: bool = False,
    ) -> None:
        """``agents_own_certificate``: the file of trusted ones holds just that, of any name."""
        self._spark = application
        self._gateway = application.gateway
        self._settings = settings
        self._complaints = complaints
        complaints.until(application.stopped)
        self._on_lost = on_lost
        self._process_id = os.getpid()
        self.application_id = application.id
        self._application = {
            "id": application.id,
            "name": name_of(application, settings),
            "spark_version": application.spark_version,
        }
        self._instance = str(uuid.uuid4())
        self._process = self._process_report() if settings.process_report else {}
        self._sessions = Sessions(self._gateway, application.lease)
        self._inbox = Inbox(
            self._gateway,
            hold_milliseconds=taking_milliseconds(settings.first_batch_seconds),
            estate=application.lease.estate,
        )
        # Now, as a start may come as soon as one is worth waiting for.
        application.lease.leave(STARTS, self._inbox.no_start_waits)
        self._outbox = Outbox(
            settings.queue_size,
            settings.queue_bytes,
            largest_bytes=min(LARGEST_EVENT_BYTES, settings.queue_bytes),
            complaints=complaints,
        )
        self._observer = Observer(
            settings,
            application,
            self._outbox,
            inbox=self._inbox,
            gatekeeper=Gatekeeper(
                self._gateway,
                longest_seconds=settings.first_batch_seconds,
                complaints=complaints,
            ),
            complaints=complaints,
            on_lost=self._lost,
        )
        self._sender = Sender(
            self._outbox,
            Channel(
                settings.agent_url,
                token_file=settings.token_file,
                ca_file=settings.ca_file,
                agents_own_certificate=agents_own_certificate,
                timeout_seconds=settings.timeout_seconds,
            ),
            agent_url=settings.agent_url,
            # A start's reply comes with the next exchange, which waits for the one under way.
            prompt_seconds=settings.first_batch_seconds / 2,
            head=self._head,
            on_reply=self._observer.mailbox.reply,
            on_failure=self._observer.mailbox.wake,
            without_agent=self._observer.without_agent,
            complaints=complaints,
        )
        self._intake = Intake(
            self._inbox,
            self._observer.mailbox,
            session_of=self._sessions.of_key,
            open_gate=self._observer.open_gate,
            renew=self._observer.renew,
            ended=partial(hang_up, self._gateway),
            complaints=complaints,
        )
        try:
            self._sender.start()
            self._observer.start(self._sender)
            self._intake.start()
        except BaseException:  # there are as many threads as there may be
            self.close(ending=False)
            raise

    def _process_report(self) -> dict[str, Any]:
        report: dict[str, Any] = {"host": _whole(socket.gethostname())}
        if not self._spark.beyond:  # else it is Weir's own, and what it takes is not the driver's
            report["python_pid"] = os.getpid()
        try:
            report["jvm_pid"] = int(self._gateway.jvm.java.lang.ProcessHandle.current().pid())
        except Exception as error:  # Java 8 has no ProcessHandle
            leave_to_the_job(error)
            LOGGER.debug("weir: the JVM's process id is unknown", exc_info=error)
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
            "complaints_total": self._complaints.total,
            **self._process,
        }
        return f'{{"application":{json.dumps(self._application)},"listener":{json.dumps(listener)}'

    @property
    def stopped(self) -> bool:
        """True once the application's context has been stopped."""
        return self._spark.stopped()

    def session(self, java_session: Any) -> Session | None:
        """What is watched of this JVM session, if it is."""
        return self._sessions.of(java_session)

    def watch(self, java_session: Any, *, control: bool, whole: bool = False) -> None:
        """Adds the listener to a session. Raises what py4j raises, the session then unwatched.

        And DisplacedError, as ``Lease.leave_be`` does. ``whole``: nobody can have told of a query
        in it yet, so its first batches are told as well.
        """
        self._spark.lease.leave_be(self._gateway, java_session)
        self._spark.lease.take_over(self._gateway, java_session)
        gone = self._sessions.take_out_gone()
        watched = self._sessions.all()
        try:
            self._observer.join_session(
                self._sessions.add(java_session, self._inbox.listener, control=control, whole=whole)
            )
        except BaseException:  # an interrupt: one that the observer lacks is never told of
            self.unwatch([one for one in self._sessions.all() if one not in watched])
            raise
        finally:  # not before: executors go back where no session lets them be changed
            for session in gone:
                self._observer.forget_session(session)

    def unwatch(self, sessions: Iterable[Session]) -> None:
        """Stops watching these sessions."""
        known: list[Session] = []
        try:
            for session in sessions:
                known.append(session)
                if not self._sessions.remove(session):
                    known.pop()
            for session in known:
                self._take_listener_out(session)
        finally:  # a signal's handler of the job's may raise, and limits go back all the same
            if known:
                self._observer.leave_sessions(known, _RESTORED_WITHIN_SECONDS)

    def _take_listener_out(self, session: Session) -> None:
        try:
            session.java.streams().removeListener(session.wrapped)
        except Exception as error:
            leave_to_the_job(error)
            if not isinstance(error, LookupError) and not self.stopped:  # else nobody has it
                self._complaints.error("removing the listener", error)

    def refuse_control(self, session: Session) -> None:
        """Sets no limit in this session from now on, and puts the configured ones back."""
        self._observer.refuse_control(session, _RESTORED_WITHIN_SECONDS)

    @property
    def settings(self) -> Settings:
        """What the application was attached with first."""
        return self._settings

    @property
    def lingers(self) -> bool:
        """True while a call into Spark keeps the thread that puts limits back."""
        return not self.stopped and self._observer.alive

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
        self._let_go()

    def _let_go(self) -> None:
        """Of a client of our own, once nothing comes back to it."""
        if self._spark.close is not None:
            self._intake.stop(FLUSH_SECONDS)  # it gives back its connection as it ends
            self._spark.close()

    def _lost(self) -> None:
        """Spark has stopped; called from the observer's thread."""
        self._on_lost(self)
        self._intake.stop(0.0)
        self._sessions.clear()
        self._observer.stop(0.0)
        self._sender.stop(FLUSH_SECONDS)
        self._let_go()
