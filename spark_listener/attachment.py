"""Attaches Weir to a Spark session and takes it off again. Neither ever raises into the job."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
import sys
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_listener import plugin, py4j_log
from spark_listener.application import conf_of, gateway_of, of_session
from spark_listener.complaints import LOGGER, Complaints, first_words
from spark_listener.config import ConfigurationError, Settings, conf_key, resolve
from spark_listener.driver import Driver
from spark_listener.handlers import (
    BoundedLock,
    WhileOursRuns,
    errors_of_ours_suppressed,
    leave_to_the_job,
)
from spark_listener.lease import DisplacedError, Heir, Own
from spark_listener.wire import SILENT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_listener.lease import Lease
    from spark_listener.sessions import Session

_lock = BoundedLock()
_drivers: dict[str, Driver] = {}  # by Spark's application id
_leaving: list[Driver] = []  # detached, and their threads still wait for Spark
#: By PySpark's context: an application that comes after it may have the same id.
_leases: weakref.WeakKeyDictionary[Any, Lease] = weakref.WeakKeyDictionary()
#: Sessions, by Spark's id, and whole applications that the job itself took off: ``weir-run``
#: attaches none of them again.
_taken_off: set[str] = set()
_complaints = Complaints()
#: Whether the end of a child of ``multiprocessing``'s closes all; so it does in what it forks.
_closes_in_a_child = False
#: What makes greenlets of threads, how it is asked what it has patched, and its name for threads.
_GREENLETS: Final = (
    ("gevent.monkey", "is_module_patched", "threading"),
    ("eventlet.patcher", "is_monkey_patched", "thread"),
)
#: ``weir-run`` imports this before the job begins, which may go elsewhere.
_begun_in: Path | None = None
with contextlib.suppress(OSError):  # nowhere
    _begun_in = Path.cwd()


class Attachment:
    """What ``attach`` returns. ``active`` says whether Weir watches the session."""

    def __init__(self, session: Any, driver: Driver | None, reason: str) -> None:
        self._session = session
        self._driver = driver
        self.reason = reason  # why it is not active; empty where it is

    @property
    def active(self) -> bool:
        """True while the session is watched; False as well where its JVM is gone. Never raises."""
        with WhileOursRuns():
            try:
                return self._driver is not None and self._driver.session(self._session) is not None
            except Exception as error:
                leave_to_the_job(error)
                LOGGER.debug("weir: asking for a session", exc_info=error)
                return False

    def detach(self) -> None:
        """Puts the configured limits back and stops watching this session."""
        _detach(self._session, said=True)

    def __repr__(self) -> str:
        if self.active:
            return "<weir attached>"
        return f"<weir off: {self.reason or 'detached, or Spark is gone'}>"


def attach(spark: Any = None, **settings: Any) -> Attachment:
    """Watches the streaming queries of ``spark`` (else of the active session) and steers them.

    Settings are those of ``config.Settings``: an argument wins over ``spark.weir.*`` in Spark's
    configuration, which wins over ``WEIR_*`` in the environment. Attaching twice is attaching
    once. Never raises: what prevents it is logged once and stands in the result's ``reason``. What
    a signal's handler raises meanwhile is the job's, and goes on to it.
    """
    return _attached(spark, settings)


def _attached(spark: Any, settings: dict[str, Any], folder: Path | None = None) -> Attachment:
    """``folder``: see ``config.resolve``."""
    with WhileOursRuns():
        try:
            with _lock:
                return _attach(spark, settings, folder)
        except Exception as error:
            leave_to_the_job(error)
            if isinstance(error, (ConfigurationError, DisplacedError)):
                return _off(f"weir is off: {error}")
            LOGGER.debug("weir: attach failed", exc_info=error)
            said = f"{type(error).__name__}: {first_words(error)[:300]}"
            if "Py4JSecurityException" in said:
                said += (
                    "; the cluster's access mode keeps jobs from the driver's JVM: take a cluster "
                    "with dedicated access"
                )
            return _off(f"weir is off: attaching failed: {said}")


def attach_started(spark: Any) -> None:
    """As ``weir-run`` does where a query is about to start, unless the job said otherwise."""
    py4j_log.keep_out()
    context = spark.sparkContext
    if not {str(context.applicationId), _id_of(spark._jsparkSession)} & _taken_off:
        _attached(spark, {}, _begun_in)


def _id_of(session: Any) -> str:
    try:
        return str(session.sessionUUID())
    except Exception as error:  # it is no session any more
        leave_to_the_job(error)
        return ""


def detach(spark: Any = None) -> None:
    """Puts the configured limits back and stops watching: one session, or all without one."""
    session = None if spark is None else getattr(spark, "_jsparkSession", None)
    _detach(session, every=spark is None, said=True)


def _detach(session: Any, *, every: bool = False, said: bool = False) -> None:
    """``said``: by a ``detach`` of the job's, after which it may take a session back."""
    with WhileOursRuns():
        try:
            with _lock:
                own = [driver for driver in _drivers.values() if not driver.inherited]
                if _drivers and not own:
                    return  # a forked child, which may unwind through this; its parent goes on
                _take_off(session, every=every)
                for driver in own:
                    _let_go(driver, session, every=every)
                # Not before: what is let go of may hear meanwhile that another process took it.
                if said and (every or session is not None):
                    for lease in list(_leases.values()):
                        lease.take_back(None if every else _id_of(session))
        except Exception as error:
            leave_to_the_job(error)
            _complaints.error("detaching", error)


def _let_go(driver: Driver, session: Any, *, every: bool) -> None:
    one = None if every else driver.session(session)
    try:
        driver.unwatch(driver.sessions if every else [one] if one else [])
    finally:
        if not driver.sessions:
            _drivers.pop(driver.application_id, None)
            driver.close(ending=False)
            if driver.lingers:
                _leaving.append(driver)


def _take_off(session: Any, *, every: bool) -> None:
    if session is not None:
        _taken_off.add(_id_of(session))
    elif every:
        # A client of Spark Connect has none; or its JVM is gone, in which nothing starts any more.
        with errors_of_ours_suppressed():
            from pyspark import SparkContext

            context = SparkContext._active_spark_context
            if context is not None:
                _taken_off.add(str(context.applicationId))


def _attach(spark: Any, arguments: dict[str, Any], folder: Path | None) -> Attachment:
    if spark is None:
        from pyspark.sql import SparkSession

        spark = SparkSession.getActiveSession()
        if spark is None:
            return _off("weir is off: there is no active Spark session; use attach(spark)")
    if of_connect(spark):
        return _off(f"weir is off: {_where_of_connect(spark)}")
    py4j_log.keep_out()
    context = spark.sparkContext
    if context._jsc is None:
        return _off("weir is off: the Spark session has been stopped")
    session = spark._jsparkSession
    driver = _drivers.get(str(context.applicationId))
    if driver is not None and driver.inherited:
        return _off(
            "weir is off: this process was forked from the one that is attached, which goes on"
        )
    if driver is not None and driver.stopped:
        # Of an application of the same id that has ended; its observer is about to notice.
        _drivers.pop(driver.application_id, None)
        driver = None
    _leaving[:] = [one for one in _leaving if one.lingers]
    if driver is None and any(one.application_id == context.applicationId for one in _leaving):
        # It puts the configured limits back, which until then nobody can tell from ours.
        return _off(
            "weir is off: a detach() before has not ended, as Spark does not answer: attach again "
            "once it has"
        )
    known = None if driver is None else driver.session(session)
    try:
        # A job may come here at each batch, in foreachBatch too: reading conf would cost it.
        conf, environment = ({}, {}) if known is not None else (conf_of(session), os.environ)
        settings = resolve(arguments, conf, environment, folder)
    except ConfigurationError:
        _turn_off(spark)
        raise
    if not settings.enabled:
        LOGGER.info("weir is off: enabled is false")
        _turn_off(spark)
        return Attachment(None, None, "enabled is false")
    if driver is not None and known is not None:
        return _attached_again(session, driver, known, settings, arguments)
    if driver is None and (library := _keeping_all_waiting()):
        return _off(
            f"weir is off: {library} has patched threads here and left sockets as they are: a "
            "thread that waits for Spark would keep all others waiting; have it patch sockets, too"
        )
    _taken_off.difference_update((_id_of(session), str(context.applicationId)))
    control = settings.control
    if driver is not None:
        _say_what_stays(driver.settings, settings, _given(arguments, but=("control",)))
        if not _given(arguments, only="control"):  # what was said of one session holds for others
            control = control and all(other.control or other.gone for other in driver.sessions)
    if driver is None:
        _close_all_in_a_child()
        driver = _begun(spark, settings)
        _drivers[driver.application_id] = driver
    try:
        driver.watch(session, control=control)
    except BaseException:  # an interrupt too: its threads would have nothing to watch
        if not driver.sessions:
            _drivers.pop(driver.application_id, None)
            driver.close(ending=False)
        raise
    LOGGER.info("weir watches %s, agent %s", driver.application_id, settings.agent_url)
    return Attachment(session, driver, "")


def _begun(spark: Any, settings: Settings) -> Driver:
    """One that watches no session yet. Whatever it raises, the job's py4j is as it was."""
    application = of_session(spark, gateway_of(spark.sparkContext))
    try:
        application.lease = _close_the_door(spark, application.gateway)
        application.lease.leave_be(application.gateway, spark._jsparkSession)
        application.lease.begin(application.gateway)
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
        return Driver(application, settings, complaints=_complaints, on_lost=_lost)
    except BaseException:
        if application.close is not None:
            application.close()
        raise


def _keeping_all_waiting() -> str:
    """The library by which all threads are of one of the system's, which any socket holds up."""
    for name, asking, threads in _GREENLETS:
        patched = getattr(sys.modules.get(name), asking, None)
        if patched is not None and patched(threads) and not patched("socket"):
            return name.partition(".")[0]
    return ""


def of_connect(spark: Any) -> bool:
    """Whether it is a session of a Spark Connect client."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _where_of_connect(spark: Any) -> str:
    """Where the queries of a Spark Connect client are regulated, or how they would be."""
    here = "this is a Spark Connect session, whose queries run in a server out of reach"
    try:
        if any(plugin.NAME in str(spark.conf.get(one, "")) for one in plugin.CONFS):
            return f"{here}: its plugin lets the agent beside it regulate them"
    except Exception as error:
        leave_to_the_job(error)
        LOGGER.debug("weir: asking a Connect server", exc_info=error)
    if "DATABRICKS_RUNTIME_VERSION" in os.environ or "databricks.connect" in sys.modules:
        return f"{here}; docs/start/databricks.md says where they are regulated"
    return (
        f"{here}; give that server {plugin.CONFS[0]}={plugin.NAME}, and the agent beside it "
        "regulates them, or an event log, and the agent watches them (weir agent --event-log-dirs)"
    )


def _close_the_door(spark: Any, gateway: Any) -> Lease:
    """Where the plugin opened one: who attaches in the job's own code wins, and says so.

    What the process beyond it left is taken over: its limits are not what the job configured.
    """
    try:
        door = _stood_aside(spark.sparkContext, gateway)
        if door is not None:
            return _leases.setdefault(spark.sparkContext, Heir(door))
    except Exception as error:
        leave_to_the_job(error)
        _complaints.error("closing the plugin's door", error)
    return _leases.setdefault(spark.sparkContext, Own())


def _stood_aside(context: Any, gateway: Any) -> Any:
    """The plugin's class, its door closed for good; None where there is none."""
    conf = context.getConf()
    if not any(plugin.NAME in str(conf.get(one) or "") for one in plugin.CONFS):
        return None
    door = gateway.jvm.weir.WeirPlugin
    if door.standAside():
        LOGGER.info("weir: the plugin's door is closed: what the job says by attach() holds")
    return door


def _turn_off(spark: Any) -> None:
    """Nobody watches the session from here on, nor does ``weir-run`` come back to it.

    The plugin's door is closed as well, for the whole application: it knows no sessions. What
    stayed there for another process lapses as where nobody attaches again.
    """
    _detach(spark._jsparkSession)
    context = spark.sparkContext
    try:
        door = _stood_aside(context, context._gateway)
        if door is not None and str(context.applicationId) not in _drivers:
            _leases.setdefault(context, Heir(door)).begin(context._gateway)
    except Exception as error:
        leave_to_the_job(error)
        _complaints.error("closing the plugin's door", error)


def _attached_again(
    session: Any, driver: Driver, known: Session, wanted: Settings, arguments: dict[str, Any]
) -> Attachment:
    """A session that is watched already: ``control=False`` holds from now on, the rest stays."""
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


def _lost(driver: Driver) -> None:
    # Without the lock: whoever detaches holds it, and waits for the thread that comes here. Its
    # successor in this process may have the same id, and takes far longer to make than this.
    if _drivers.get(driver.application_id) is driver:
        _drivers.pop(driver.application_id, None)


def _off(message: str) -> Attachment:
    _complaints.warn(message, message)
    return Attachment(None, None, message.removeprefix("weir is off: "))


def _close_all() -> None:
    """At the interpreter's end: send what is left, touch the JVM no more."""
    # What is inherited is kept: letting go of it would tell the parent's JVM to do so.
    for key, driver in list(_drivers.items()):
        if not driver.inherited:
            _drivers.pop(key, None)
            _close_quietly(driver)


def _close_all_in_a_child() -> None:
    """One of ``multiprocessing``'s ends without ``atexit`` where it was forked, as by a server.

    All of the job's is over there, its own children and threads too, only once the child has
    waited for threads, and no hook comes after that. To wait for them here would be to wait for
    an executor's for ever, which that step alone ends.
    """
    global _closes_in_a_child  # noqa: PLW0603 - once a process
    process = sys.modules.get("multiprocessing.process")
    if _closes_in_a_child or process is None or process.parent_process() is None:
        return
    wait_for_threads = getattr(threading, "_shutdown", None)
    if wait_for_threads is None:
        return

    def wait_and_close() -> None:
        try:
            wait_for_threads()
        finally:
            _close_all()

    threading._shutdown = wait_and_close  # type: ignore[attr-defined]
    _closes_in_a_child = True


def _close_quietly(driver: Driver) -> None:
    try:
        driver.close(ending=True)
    except Exception as error:
        LOGGER.debug("weir: closing", exc_info=error)


atexit.register(_close_all)
