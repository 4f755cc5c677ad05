"""The interpreter's end: what a driver's own process does then, and a forked child does not."""

from __future__ import annotations

import ast
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from py4j.clientserver import ClientServer
from py4j.protocol import Py4JError

import spark_listener
from spark_listener import attachment, plugin
from spark_listener.application import gateway_of, of_session
from spark_listener.complaints import Complaints
from spark_listener.driver import Driver
from spark_listener.handlers import WhileOursRuns
from spark_listener.sessions import Session, Sessions
from tests.driver.test_observer import RunningQuery, Watched, resting
from tests.waiting import until

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib  # type: ignore[no-redef, import-not-found, unused-ignore]
from tests.parsing import syntax_of

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

ROOT = Path(__file__).parents[2]
JOB = """
import os, sys
from spark_listener import attachment

class Driver(attachment.Driver):
    application_id, sessions, lingers = "app-1", [], False

    def __init__(self):
        self._process_id = os.getpid()

    def unwatch(self, sessions):
        self.close(ending=False)

    def close(self, *, ending):
        os.write(1, f"closed by {'parent' if os.getpid() == parent else 'child'}\\n".encode())

parent = os.getpid()
attachment._drivers["app-1"] = Driver()
child = os.fork()
if child == 0:
    if sys.argv[1] == "attaches":
        attachment._drivers["app-2"] = Driver()
    if sys.argv[1] == "detaches":
        attachment.detach()
    sys.exit(0)
os.waitpid(child, 0)
os.write(1, b"waited\\n")
"""


def run(*arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", JOB, *arguments],
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("does", ["inherits", "detaches"])
def test_a_forked_child_that_exits_leaves_its_parents_driver_alone(does: str) -> None:
    """It may unwind through a ``detach()`` of its parent's on the way."""
    assert run(does) == ["waited", "closed by parent"]


@pytest.mark.parametrize("said", [{}, {"control": False}, {"enabled": False}, {"contorl": True}])
def test_a_forked_child_that_attaches_to_its_parents_session_changes_nothing_there(
    said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = watching(1, MagicMock())
    driver._process_id = os.getpid() + 1
    (session,) = driver.sessions
    monkeypatch.setattr(driver, "session", lambda _: session)
    monkeypatch.setattr(attachment, "_drivers", {"app-1": driver})
    told = attachment.attach(Spark(), **said)
    assert not told.active
    assert told.reason.startswith("this process was forked from the one that is attached")
    assert attachment._drivers == {"app-1": driver}
    assert session.control
    assert driver.sessions == [session]


def test_a_forked_child_that_attached_itself_closes_what_is_its_own() -> None:
    assert run("attaches") == ["closed by child", "waited", "closed by parent"]


CHILD = """
import multiprocessing, os, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from spark_listener import attachment

class Driver(attachment.Driver):
    application_id, sessions = "app-1", ["one"]

    def __init__(self, *_):
        self._process_id = os.getpid()

    def session(self, java_session):
        return None

    def watch(self, java_session, *, control):
        os.write(1, b"attached\\n")

    def close(self, *, ending):
        os.write(1, f"closed, ending: {ending}\\n".encode())

def work():
    attachment._begun, attachment.conf_of = Driver, lambda _: {}
    spark = SimpleNamespace(applicationId="app-1", _jsc=0, sessionUUID=lambda: "session-1")
    spark.sparkContext = spark._jsparkSession = spark
    assert attachment.attach(spark).reason == ""
    if sys.argv[2] == "child":
        multiprocessing.Process(target=goes_on).start()
    if sys.argv[2] == "thread":
        threading.Thread(target=goes_on).start()
    if sys.argv[2] == "executor":
        ThreadPoolExecutor().submit(goes_on)
    if sys.argv[2] == "error":
        raise SystemExit(3)

def goes_on():
    time.sleep(0.5)
    os.write(1, b"goes on\\n")

if __name__ == "__main__":
    child = multiprocessing.get_context(sys.argv[1]).Process(target=work)
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""


@pytest.mark.parametrize("has", ["nothing", "thread", "executor", "child", "error"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_end_of_a_process_of_multiprocessings_is_told(
    method: str, has: str, tmp_path: Path
) -> None:
    """Which runs no ``atexit`` where it was forked, with Python up to 3.12 by the server too.

    Its stream may go on in a thread, or in a child of its own, when its function has returned.
    """
    job = tmp_path / "job.py"
    job.write_text(CHILD)
    done = subprocess.run(
        [sys.executable, str(job), method, has],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (3 if has == "error" else 0, "")
    between = [] if has in ("nothing", "error") else ["goes on"]
    assert done.stdout.splitlines() == ["attached", *between, "closed, ending: True"]


class Lingering:
    """A driver that was detached while Spark did not answer: its thread puts limits back later."""

    application_id = "app-1"
    lingers = True


class Spark:
    """A session as attach() first looks at it."""

    _jsc = SimpleNamespace(sc=lambda: SimpleNamespace(appName=lambda: "etl"))

    def __init__(self) -> None:
        self.sparkContext = self._jsparkSession = self
        self.applicationId = "app-1"
        self.getConf: Any = dict


def test_whoever_attaches_before_a_detach_has_ended_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would take the limit that is still to be put back for what the job configured."""
    left = Lingering()
    monkeypatch.setattr(attachment, "_leaving", [left])
    told = attachment.attach(Spark())
    assert not told.active
    assert "a detach() before has not ended" in told.reason
    assert "attach again" in told.reason
    left.lingers = False
    monkeypatch.setattr(attachment, "conf_of", lambda _: {})
    assert attachment.attach(Spark(), enabled=False).reason == "enabled is false"
    assert attachment._leaving == []


def test_why_attaching_failed_names_what_java_threw_and_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(what: str) -> str:
        call = "An error occurred while calling o425.getConf."
        error = Py4JError(f"{call}{what}\n\tat a.B(B.java:1)\n")
        monkeypatch.setattr(attachment, "conf_of", MagicMock(side_effect=error))
        return attachment.attach(Spark()).reason

    refused = fails(
        " Trace:\npy4j.security.Py4JSecurityException: Method public org.apache.spark.SparkConf "
        "org.apache.spark.SparkContext.getConf() is not whitelisted on class class "
        "org.apache.spark.SparkContext"
    )
    assert "py4j.security.Py4JSecurityException: Method public" in refused
    assert "is not whitelisted on class class org.apache.spark.SparkContext" in refused
    assert refused.endswith("take a cluster with dedicated access")
    thrown = fails("\n: java.io.IOException: cannot open jdbc:x;password=hunter2")
    assert thrown.endswith("java.io.IOException: cannot open jdbc:x;password=***")


@pytest.mark.parametrize("databricks", [True, False])
def test_what_a_client_of_spark_connect_is_advised_is_what_it_can_do(
    databricks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Databricks the server is theirs, and without the jar that setting ends the cluster."""
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    if databricks:
        monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "client.4")
    spark: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    spark.conf = SimpleNamespace(get=lambda _, default: default)
    told = attachment.attach(spark).reason
    assert told.startswith("this is a Spark Connect session")
    assert ("docs/start/databricks.md" in told) == databricks
    assert (plugin.NAME in told) == (not databricks)


@pytest.mark.parametrize("name", ["weir-sender", "weir-observer", "weir-events"])
def test_where_a_thread_cannot_be_started_none_is_left(
    name: str, gateway: JavaGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at a limit on processes; the job goes on, and may attach again."""
    spark: Any = Spark()
    spark._gateway, spark.appName, spark.version = gateway, "etl", "4.2.0"
    spark.getConf = dict
    start = threading.Thread.start

    def start_but_one(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(attachment, "conf_of", lambda _: {})
    monkeypatch.setattr(threading.Thread, "start", start_but_one)
    told = attachment.attach(spark)
    assert not told.active
    assert "can't start new thread" in told.reason
    until(
        lambda: not [one for one in threading.enumerate() if one.name.startswith("weir")],
        "all threads to have ended",
    )
    assert attachment._drivers == {}


def in_a_bare_jvm(gateway: JavaGateway, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session whose threads are not pinned, as far as attach() comes."""
    spark: Any = Spark()
    spark._gateway, spark.appName, spark.version = gateway, "etl", "4.2.0"
    monkeypatch.setattr(attachment, "conf_of", lambda _: {})
    return spark


def test_an_attach_that_is_interrupted_leaves_no_thread(
    gateway: JavaGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = in_a_bare_jvm(gateway, monkeypatch)
    monkeypatch.setattr(Driver, "watch", MagicMock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        attachment.attach(spark)
    assert attachment._drivers == {}
    until(
        lambda: not [one for one in threading.enumerate() if one.name.startswith("weir")],
        "all threads to have ended",
    )
    assert "garbage_collect_object" not in vars(gateway._gateway_client)


def test_an_attach_that_fails_leaves_the_jobs_py4j_as_it_was(
    gateway: JavaGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = in_a_bare_jvm(gateway, monkeypatch)
    ours: list[weakref.ref[Any]] = []

    def noted(context: Any) -> Any:
        made = gateway_of(context)
        ours.append(weakref.ref(made._gateway_client))
        return made

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(attachment, "gateway_of", noted)
    monkeypatch.setattr("spark_listener.driver.Inbox", fails)
    for _ in range(3):
        assert attachment.attach(spark).reason.startswith("attaching failed: RuntimeError")
        assert "garbage_collect_object" not in vars(gateway._gateway_client)
    gc.collect()
    left = [one for one in ours if one() is not None]
    assert left in ([], ours[-1:]), "what is kept for the next attach may have one"


def test_an_application_that_cannot_be_asked_leaves_the_jobs_py4j_as_it_was(
    gateway: JavaGateway,
) -> None:
    spark: Any = Spark()
    spark._gateway, spark._jsc = gateway, None  # stopped meanwhile
    with pytest.raises(AttributeError):
        of_session(spark, gateway_of(spark))
    assert "garbage_collect_object" not in vars(gateway._gateway_client)


@pytest.mark.parametrize("sockets", [True, False])
@pytest.mark.parametrize("threads", [True, False])
@pytest.mark.parametrize(
    ("module", "asking", "of_threads"),
    [
        ("gevent.monkey", "is_module_patched", "threading"),
        ("eventlet.patcher", "is_monkey_patched", "thread"),
    ],
)
def test_where_one_thread_that_waits_keeps_all_others_waiting_weir_is_off(
    module: str,
    asking: str,
    of_threads: str,
    *,
    threads: bool,
    sockets: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patched = {of_threads: threads, "socket": sockets}
    stub: Any = ModuleType(module)
    setattr(stub, asking, lambda name: patched.get(name, False))
    monkeypatch.setitem(sys.modules, module, stub)
    monkeypatch.setattr(attachment, "conf_of", lambda _: {})
    told = attachment.attach(Spark())
    assert not told.active
    library, _ = module.split(".")
    off = told.reason.startswith(f"{library} has patched threads here and left sockets")
    assert off == (threads and not sockets), told.reason


def test_who_attaches_again_knows_what_was_kept_in_the_same_context_and_no_other() -> None:
    class Context:
        def getConf(self) -> dict[str, str]:
            return {}

    class Job:
        def __init__(self) -> None:
            self.sparkContext = Context()

    job = Job()
    lease = attachment._close_the_door(job, None)
    lease.keep("executors", [12, 4])
    assert attachment._close_the_door(job, None).kept("executors") == [12, 4]
    assert attachment._close_the_door(Job(), None).kept("executors") is None, (
        "of the same id or not"
    )
    lease.forget("executors", "limits r")
    assert attachment._close_the_door(job, None).kept("executors") is None


def test_who_detaches_and_waits_for_the_observer_does_not_make_it_wait_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after ``spark.stop()``, which that thread finds out at the same time."""
    ended, successor = Lingering(), Lingering()
    monkeypatch.setattr(attachment, "_drivers", {"app-1": ended})
    for _ in range(2):
        with attachment._lock:
            thread = threading.Thread(target=attachment._lost, args=(ended,))
            thread.start()
            thread.join(30)
            waits = thread.is_alive()
        thread.join()
        assert not waits
        assert ended not in attachment._drivers.values()
        attachment._drivers["app-1"] = successor  # type: ignore[assignment]
    assert attachment._drivers == {"app-1": successor}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"contorl": False}, "attach() knows no argument 'contorl'"),
        ({"queue_size": "many"}, "argument queue_size: 'many' is no whole number"),
        ({"enabled": False}, "enabled is false"),
    ],
)
@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("library", ["", "gevent"])
def test_where_attach_says_that_weir_is_off_nobody_steers_the_session(
    said: dict[str, Any],
    reason: str,
    *,
    watched: bool,
    library: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither who watched it before, nor whoever is in at the plugin's door, nor ``weir-run``.

    Also where none can begin, by ``library``: one may have before the job patched its threads.
    """
    monkeypatch.setattr(attachment, "_keeping_all_waiting", lambda: library)
    stood_aside: list[bool] = []
    door = SimpleNamespace(standAside=lambda: not stood_aside.append(True))
    spark: Any = Spark()
    spark.sessionUUID = lambda: "session-1"
    spark._gateway = SimpleNamespace(jvm=SimpleNamespace(weir=SimpleNamespace(WeirPlugin=door)))
    spark.getConf = lambda: {} if watched else {plugin.CONFS[0]: f"other,{plugin.NAME}"}
    observer = Watched(RunningQuery(resting)).observer
    left: list[Any] = []
    monkeypatch.setattr(observer, "_leave", left.append)
    monkeypatch.setattr(observer, "_ask", lambda act, _: act())
    driver = watching(1, observer)
    (session,) = driver.sessions
    monkeypatch.setattr(driver, "session", lambda _: session if watched else None)
    monkeypatch.setattr(attachment, "_drivers", {"app-1": driver} if watched else {})
    monkeypatch.setattr(attachment, "_taken_off", set())
    monkeypatch.setattr(attachment, "conf_of", lambda _: {})
    told = attachment.attach(spark, **said)
    assert not told.active
    assert reason in told.reason
    assert attachment._drivers == {}
    assert left == ([session] if watched else [])
    assert stood_aside == ([] if watched else [True])
    attachment.attach_started(spark)  # a query starts
    assert attachment._drivers == {}


def watching(count: int, observer: Any) -> Any:
    """A driver of as many sessions."""
    driver: Any = Driver.__new__(Driver)
    driver._spark = SimpleNamespace(stopped=lambda: False)
    driver._observer, driver._complaints = observer, Complaints()
    driver._sessions = sessions = Sessions(MagicMock(), MagicMock())
    for key in map(str, range(count)):
        sessions._known[key] = Session(MagicMock(), key, None, control=True)
    driver.application_id, driver.closed = "app-1", []
    driver._process_id = os.getpid()
    driver.close = lambda *, ending: driver.closed.append(ending)
    return driver


def test_who_detaches_many_sessions_waits_no_longer_for_an_observer_that_is_held_than_with_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cluster manager that hangs may hold it for minutes, and whoever attaches waits as well."""
    waits: dict[int, float] = {}
    for count in (1, 4):
        held = Watched(RunningQuery(resting)).observer
        asked: list[tuple[Any, float]] = []
        monkeypatch.setattr(held, "_ask", lambda *what, asked=asked: asked.append(what))
        left: list[Any] = []
        monkeypatch.setattr(held, "_leave", left.append)
        driver = watching(count, held)
        sessions = driver.sessions
        monkeypatch.setattr(attachment, "_drivers", {"app-1": driver})
        attachment.detach()
        assert attachment._drivers == {}
        for act, _ in asked:
            act()
        assert left == sessions
        waits[count] = sum(seconds for _, seconds in asked)
    assert waits[4] == waits[1] > 0


def test_whoever_detaches_once_the_jvm_has_died_is_rid_of_all_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a notebook, whose Python lives on."""
    from pyspark import SparkContext

    def dead(*_: Any) -> Any:
        raise ConnectionRefusedError

    class Context:
        @property
        def applicationId(self) -> str:
            raise ConnectionRefusedError

    observer = Watched(RunningQuery(resting)).observer
    driver = watching(2, observer)
    monkeypatch.setattr(driver._sessions._lease, "forget", dead)
    monkeypatch.setattr(driver._sessions._keys, "remove", dead)
    for session in driver.sessions:
        session.reference.get = dead
    monkeypatch.setattr(attachment, "_drivers", {"app-1": driver})
    monkeypatch.setattr(SparkContext, "_active_spark_context", Context())
    attachment.detach()
    assert driver.sessions == []
    assert len(observer._asked) == 3, "each is left, as its queries may be told of"
    assert driver.closed == [False]
    assert attachment._drivers == {}


def test_connections_that_a_jobs_threads_share_are_left_to_them(gateway: JavaGateway) -> None:
    """Each is a thread of the JVM's with properties of the job's own."""
    spark: Any = Spark()
    spark._gateway, spark.appName, spark.version = gateway, "etl", "4.2.0"
    made = gateway.jvm.java.util.ArrayList()
    ours = gateway_of(spark)
    application = of_session(spark, ours)
    threads = [one.jvm.java.lang.Thread.currentThread().getId() for one in (gateway, ours) * 2]
    assert threads == [threads[0], threads[1]] * 2
    assert threads[0] != threads[1]
    assert ours.jvm.java.lang.ref.WeakReference(made).get().add("by ours")
    assert application.close is not None
    application.close()
    assert not ours._gateway_client.deque
    del application, ours
    gc.collect()
    assert made.get(0) == "by ours", "the job's objects do not go with those of ours"


def test_what_of_the_jobs_is_collected_in_a_thread_of_ours_takes_no_connection_of_the_jobs(
    gateway: JavaGateway,
) -> None:
    """Python collects what is in a circle wherever it is just then, and each wants a connection."""
    spark: Any = Spark()
    spark._gateway, spark.appName, spark.version = gateway, "etl", "4.2.0"
    ours = gateway_of(spark)
    application = of_session(spark, ours)
    used: list[tuple[str, bool]] = []
    inner = ours._gateway_client.send_command
    by_jobs = gateway._gateway_client.send_command

    def spied(send: Any, *, of_ours: bool) -> Any:
        def send_command(*arguments: Any, **more: Any) -> Any:
            used.append((threading.current_thread().name, of_ours))
            return send(*arguments, **more)

        return send_command

    ours._gateway_client.send_command = spied(inner, of_ours=True)
    gateway._gateway_client.send_command = spied(by_jobs, of_ours=False)
    try:
        for name in ("weir-observer", "a job's"):
            collect = gateway._gateway_client.garbage_collect_object
            thread = threading.Thread(target=collect, args=("o123456789",), name=name)
            thread.start()
            thread.join()
    finally:
        del gateway._gateway_client.send_command
    assert used == [("weir-observer", True), ("a job's", False)]
    assert application.close is not None
    application.close()
    assert "garbage_collect_object" not in vars(gateway._gateway_client)


def test_an_application_that_ends_leaves_what_the_next_one_has_put_in(gateway: JavaGateway) -> None:
    """A job stops Spark, starts it again and attaches; that the first is over is seen after."""
    spark: Any = Spark()
    spark._gateway, spark.appName, spark.version = gateway, "etl", "4.2.0"
    first, second = (of_session(spark, gateway_of(spark)) for _ in range(2))
    assert first.close is not None
    assert second.close is not None
    hooks = vars(gateway._gateway_client)
    of_second = hooks["garbage_collect_object"]
    first.close()
    assert hooks.get("garbage_collect_object") is of_second
    second.close()
    assert "garbage_collect_object" not in hooks


def test_what_the_job_put_into_its_py4j_itself_is_asked_and_stays(gateway: JavaGateway) -> None:
    """As one that counts what is let go of; however many applications came after it."""
    spark: Any = Spark()
    spark._gateway, spark.appName, spark.version = gateway, "etl", "4.2.0"
    client, asked = gateway._gateway_client, []

    def counted(target_id: str) -> None:
        asked.append(target_id)

    client.garbage_collect_object = counted
    try:
        applications = [of_session(spark, gateway_of(spark)) for _ in range(3)]
        client.garbage_collect_object("o123456789")
        assert asked == ["o123456789"]
        for one in applications:
            assert one.close is not None
            one.close()
        assert vars(client)["garbage_collect_object"] is counted
    finally:
        del client.garbage_collect_object


def test_what_a_handler_raises_while_connections_are_let_go_of_is_the_jobs(
    gateway: JavaGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a limit on time that a detach, on the job's main thread, takes too long for."""
    spark: Any = Spark()
    spark._gateway, spark.appName, spark.version = gateway, "etl", "4.2.0"

    def over(*_: object) -> None:
        raise TimeoutError

    ours = gateway_of(spark)
    application = of_session(spark, ours)
    assert application.close is not None
    monkeypatch.setattr(ours, "close", lambda **_: signal.raise_signal(signal.SIGUSR1))
    before = signal.signal(signal.SIGUSR1, over)
    try:
        with pytest.raises(TimeoutError), WhileOursRuns():
            application.close()
    finally:
        signal.signal(signal.SIGUSR1, before)
    monkeypatch.setattr(ours, "close", MagicMock(side_effect=OSError))
    application.close()


def test_a_job_may_start_spark_anew_any_number_of_times(gateway: JavaGateway) -> None:
    """Each application may begin before it is seen that the one before is over."""
    spark: Any = Spark()
    spark._gateway, spark.appName, spark.version = gateway, "etl", "4.2.0"
    for _ in range(sys.getrecursionlimit()):
        last = of_session(spark, gateway_of(spark))
    gateway._gateway_client.garbage_collect_object("o123456789")
    assert last.close is not None
    last.close()


def test_a_gateway_that_was_made_from_a_client_is_reached_where_that_reaches_it(
    gateway: JavaGateway,
) -> None:
    """As Zeppelin makes its own: its parameters are not those of the connections."""
    from py4j.java_gateway import GatewayClient, JavaGateway

    spark: Any = Spark()
    port = gateway._gateway_client.gateway_parameters.port
    spark._gateway = JavaGateway(GatewayClient(port=port), auto_convert=True)
    ours = gateway_of(spark)
    assert ours._gateway_client.port == port
    assert ours._gateway_client.gateway_parameters.auto_convert is True
    ours.close()


def test_a_client_of_spark_connect_detaches_from_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its PySpark has no ``SparkContext``."""
    monkeypatch.setitem(sys.modules, "pyspark", ModuleType("pyspark"))
    spark_listener.detach()
    assert caplog.messages == []


def test_pinned_threads_have_connections_of_their_own() -> None:
    class Pinned(ClientServer):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            pass

    spark: Any = Spark()
    spark._gateway, spark.appName, spark.version = Pinned(), "etl", "4.2.0"
    assert gateway_of(spark) is spark._gateway
    assert of_session(spark, spark._gateway).close is None


def test_an_application_is_called_as_its_jvm_has_it() -> None:
    """Python that comes to one that is there gives it a name of its own, the same one in each."""
    spark: Any = Spark()
    spark.appName, spark.version = "kyuubi-python", "3.5.9"
    spark._gateway = gateway = object()
    assert of_session(spark, gateway).name == "etl"


class Gone:
    """A driver whose JVM has been killed."""

    def session(self, _: object) -> None:
        raise ConnectionRefusedError


def test_what_is_attached_where_the_jvm_is_gone_is_not_active_and_says_so() -> None:
    """A job that prints it in its last lines fails of its own reason."""
    handle = attachment.Attachment(object(), Gone(), "")  # type: ignore[arg-type]
    assert not handle.active
    assert repr(handle) == "<weir off: detached, or Spark is gone>"


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        ("sys.version_info = (3, 9, 18, 'final', 0)", "Python is 3.9, and 3.10 or newer is needed"),
        ("sys.modules['spark_listener.attachment'] = None", "it cannot be imported: "),
    ],
)
def test_where_it_cannot_be_imported_the_job_goes_on(spoilt: str, why: str) -> None:
    """As by --py-files, which asks for no version of Python."""
    job = f"""
import sys
{spoilt}
from spark_listener import attach, detach
one = attach(None, control=False)
print(one.active, repr(one))
one.detach()
detach()
"""
    done = subprocess.run(
        [sys.executable, "-c", job], capture_output=True, check=True, text=True, cwd=ROOT
    )
    assert done.stdout.startswith("False <weir off: ")
    assert why in done.stdout
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("weir is off: ")


@pytest.mark.parametrize("name", ["__init__", "handlers", "run"])
def test_a_python_of_pyspark_3_5_can_read_what_says_so(name: str) -> None:
    """It takes 3.8."""
    path = ROOT / "spark_listener" / f"{name}.py"
    tree = syntax_of(path.read_text("utf-8"), feature_version=(3, 8))
    nodes = list(ast.walk(tree))
    hints = [getattr(one, name, None) for one in nodes for name in ("annotation", "returns")]
    unread = {id(part) for hint in hints if hint is not None for part in ast.walk(hint)}
    met = [one for one in nodes if isinstance(one, ast.BinOp) and isinstance(one.op, ast.BitOr)]
    assert not [one for one in met if id(one) not in unread], "X | Y of types"
    told = tomllib.loads((path.parent / "pyproject.toml").read_text("utf-8"))
    least = ".".join(map(str, spark_listener._OLDEST_PYTHON))
    assert told["project"]["requires-python"] == f">={least}"
