"""The job's life is its own: nothing piles up, nothing waits for Python, no word is overruled."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from py4j.java_gateway import JavaMember

import spark_listener
from spark_listener import attachment
from spark_listener.listener import MOST_PROGRESS
from spark_listener.observer import Observer
from spark_listener.query import Query
from tests.benchmarks.starts import figures
from tests.spark.conftest import ROWS_PER_FILE, in_force, progresses
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
ROOT = Path(__file__).parents[2]
SPARE = 2  # of 24 starts, each of which would leave one behind


def short_runs(spark: Any, folder: Any, start: Any, count: int) -> None:
    source = folder("short", 1)
    for _ in range(count):
        start(source.read(spark), trigger={"availableNow": True}).awaitTermination()


def held(gates: list[Any]) -> int:
    return sum(gate.was_held for gate in gates)


def test_starts_leave_no_thread_no_socket_and_no_connection(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any, gates: Any
) -> None:
    attached(agent)
    short_runs(spark, folder, start, 3)

    def piled_up() -> dict[str, int]:
        found = figures(spark)
        return {name: found[name] for name in ("python_threads", "py4j_connections")}

    before = piled_up()
    short_runs(spark, folder, start, 24)
    assert len(gates) >= 20  # the first batches were held, and that leaves nothing either

    def no_more() -> bool:
        """Connections: py4j keeps as many as were ever used at once, so one or two may be new."""
        now = piled_up()
        return all(now[name] <= before[name] + SPARE for name in before)

    until(no_more, f"no more than before, {before}", telling=piled_up)
    names = spark.sparkContext._jvm.java.lang.Thread.getAllStackTraces().keySet()
    until(
        lambda: not [t for t in names if t.isAlive() and t.getName() == "weir-first-batch"],
        "the end of the JVM's threads that held first batches",
    )


def test_attaching_and_detaching_leaves_nothing_behind(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    def piled_up() -> tuple[int, int]:
        found = figures(spark)
        return found["python_threads"], found["py4j_connections"]

    attached(agent)
    spark_listener.detach()
    short_runs(spark, folder, start, 1)
    before = piled_up()
    for _ in range(5):
        attached(agent)
        short_runs(spark, folder, start, 1)
        spark_listener.detach()
    until(lambda: piled_up() <= before, f"no more than before, {before}", telling=piled_up)


def listeners(spark: Any) -> int:
    return len(list(spark._jsparkSession.streams().listListeners()))


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_attach_that_ends_halfway_leaves_nothing_in_spark(
    agent: Any, attached: Any, spark: Any, error: type[BaseException]
) -> None:
    """A listener that nobody knows would keep each query that starts waiting."""
    before = listeners(spark)
    call = JavaMember.__call__

    def halfway(member: Any, *arguments: Any) -> Any:
        done = call(member, *arguments)
        if member.name == "addListener":
            raise error
        return done

    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(error) if error is KeyboardInterrupt else contextlib.nullcontext(),
    ):
        patch.setattr(JavaMember, "__call__", halfway)
        assert not spark_listener.attach(spark, agent_url=agent.url).active
    assert listeners(spark) == before
    attached(agent)
    assert listeners(spark) == before + 1


def test_an_interrupted_attach_does_not_keep_a_session_that_is_gone_from_being_found(
    agent: Any, attached: Any, spark: Any
) -> None:
    attached(agent)
    driver = attachment._drivers[spark.sparkContext.applicationId]
    keys = driver._sessions._keys
    collected, interrupted, later = (spark.newSession() for _ in range(3))
    assert spark_listener.attach(collected).active
    gone = driver.session(collected._jsparkSession)
    call = JavaMember.__call__

    def halfway(member: Any, *arguments: Any) -> Any:
        done = call(member, *arguments)
        if (member.target_id, member.name) == (keys._target_id, "put"):
            raise KeyboardInterrupt
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JavaMember, "__call__", halfway)
        with pytest.raises(KeyboardInterrupt):
            spark_listener.attach(interrupted)
    keys.remove(collected._jsparkSession)  # as the JVM's collector does
    assert spark_listener.attach(later).active
    assert gone not in driver.sessions
    assert len(driver.sessions) == 2


@pytest.mark.parametrize("joined", [False, True])
def test_an_attach_that_is_interrupted_before_the_observer_knows_is_no_attach(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any, *, joined: bool
) -> None:
    """It would be active for good, also by the next one, and nothing be told of it."""
    before = listeners(spark)
    join = Observer.join_session
    met: list[Observer] = []

    def interrupted(observer: Observer, session: Any) -> None:
        met.append(observer)
        if joined:
            join(observer, session)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Observer, "join_session", interrupted)
        with pytest.raises(KeyboardInterrupt):
            spark_listener.attach(spark, agent_url=agent.url)
    assert attachment._drivers == {}
    assert listeners(spark) == before
    assert [one._sessions for one in met] == [set()]
    running = start(folder(files=4).read(spark, 1))
    attached(agent)
    agent.wait(lambda a: progresses(a, running))


def test_an_attach_of_another_session_that_is_interrupted_leaves_the_first_as_it_was(
    agent: Any, attached: Any, spark: Any
) -> None:
    attached(agent)
    driver = attachment._drivers[spark.sparkContext.applicationId]
    other, sessions = spark.newSession(), driver.sessions
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver._observer, "join_session", MagicMock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            spark_listener.attach(other)
    assert driver.sessions == sessions
    assert driver.session(spark._jsparkSession) is not None
    assert spark_listener.attach(other).active
    assert driver._observer._sessions == set(driver.sessions)


def test_a_session_that_is_no_longer_found_is_not_listened_to_twice(
    agent: Any, attached: Any, spark: Any
) -> None:
    before = listeners(spark)
    attached(agent)
    attachment._drivers[spark.sparkContext.applicationId]._sessions._keys.clear()
    attached(agent)
    assert listeners(spark) == before + 1


@pytest.mark.slow("waits for the JVM's collector; attaching and detaching is looked at every time")
def test_sessions_that_the_job_lets_go_of_are_let_go_of(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    driver = attachment._drivers[spark.sparkContext.applicationId]
    for _ in range(3):
        other = spark.newSession()
        assert spark_listener.attach(other).active
    assert len(driver.sessions) == 4
    del other
    attached_sessions = 4

    def collected() -> bool:
        nonlocal attached_sessions
        gc.collect()
        spark.sparkContext._jvm.java.lang.System.gc()
        assert spark_listener.attach(spark.newSession()).active  # here it notices
        attached_sessions += 1
        return len(driver.sessions) <= attached_sessions / 2

    until(collected, "sessions collected", every=1.0, telling=lambda: len(driver.sessions))
    assert driver.session(spark._jsparkSession) is not None


@pytest.mark.slow("waits for the JVM's collector; that a refusal holds is looked at every time")
def test_what_a_session_that_is_gone_refused_holds_for_no_other(
    agent: Any, attached: Any, spark: Any
) -> None:
    attached(agent)
    driver = attachment._drivers[spark.sparkContext.applicationId]
    kept, refusing = spark.newSession(), spark.newSession()
    assert spark_listener.attach(kept).active
    assert spark_listener.attach(refusing, control=False).active
    spark_listener.detach(kept)  # which is not gone, and was watched
    refused = driver.session(refusing._jsparkSession)
    other = spark.newSession()  # Spark keeps the newest one
    del refusing

    def collected() -> bool:
        gc.collect()
        spark.sparkContext._jvm.java.lang.System.gc()
        return refused.reference.get() is None

    until(collected, "the session to be collected", every=1.0)
    assert spark_listener.attach(other).active
    assert driver.session(other._jsparkSession).control
    assert refused not in driver.sessions


def keep_the_interpreter(seconds: float) -> None:
    """One call of C that no other thread of Python can interrupt."""
    begun = time.perf_counter()
    sum(range(3_000_000))
    sum(range(int(3_000_000 * seconds / (time.perf_counter() - begun))))


@pytest.mark.parametrize("mode", ["answer", "hang"])
def test_a_first_batch_is_let_go_while_something_keeps_the_interpreter(
    agent: Any,
    attached: Any,
    folder: Any,
    start: Any,
    spark: Any,
    gates: Any,
    tmp_path: Path,
    mode: str,
) -> None:
    attached(agent, first_batch_seconds=2.0, timeout_seconds=60.0)
    agent.mode = mode
    query = start(folder(files=4).read(spark, 2), checkpoint=str(tmp_path / "kept"))
    keep_the_interpreter(6.0)
    over = time.time()
    planned = tmp_path / "kept" / "offsets" / "0"
    until(planned.exists, "the first batch")
    assert planned.stat().st_mtime < over, "it was planned while Python stood still"
    assert len(gates) == 1
    assert query.isActive


@pytest.mark.slow("stands still for so long")
def test_events_of_a_time_in_which_python_stood_still_are_told_in_order(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    query = start(folder(files=40).read(spark, 1), seconds=0.05)
    agent.wait(lambda a: progresses(a, query))
    keep_the_interpreter(2.0)
    agent.wait(lambda a: sum(p["body"]["numInputRows"] for p in progresses(a, query)) == 400)
    batches = [event["body"]["batchId"] for event in progresses(agent, query)]
    assert batches == list(range(40))
    assert agent.requests[-1]["listener"]["dropped_total"] == 0


def test_a_slow_agent_costs_many_short_runs_one_wait_at_most(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any, gates: Any
) -> None:
    attached(agent, first_batch_seconds=0.4)
    agent.delay_seconds = 1.0  # answers, and always too late for a first batch
    seen = len(agent.requests)
    agent.wait(lambda a: len(a.requests) > seen)
    short_runs(spark, folder, start, 8)
    assert held(gates) <= 1
    agent.delay_seconds = 0.0
    until(lambda: short_runs(spark, folder, start, 1) or len(gates) > 1, "a first batch held again")


def test_an_agent_quick_with_heartbeats_and_slow_with_starts_costs_one_wait_too(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any, gates: Any
) -> None:
    attached(agent, first_batch_seconds=0.4)
    agent.slow_starts_seconds = 1.0

    def runs(count: int) -> None:
        for _ in range(count):
            short_runs(spark, folder, start, 1)
            seen = len(agent.of("heartbeat"))
            agent.wait(lambda a, seen=seen: len(a.of("heartbeat")) > seen)

    # Where a busy machine is slow to take hold of a batch its query goes on: no fault of an agent.
    until(lambda: runs(1) or held(gates), "a first batch held")
    runs(3)
    assert held(gates) == 1


def test_control_refused_after_an_attach_with_control_holds_at_once(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    query = start(folder(files=60).read(spark, 2), seconds=0.5)
    agent.grant(str(query.runId), 5)
    until(lambda: in_force(query) == ["MaxFiles: 5"], "the granted limit in force")
    assert spark_listener.attach(spark, control=False).active
    assert in_force(query) == ["MaxFiles: 2"]
    later = start(folder("later", 60).read(spark, 2), seconds=0.5)
    agent.grant(str(later.runId), 5)
    seen = len(progresses(agent, later))
    agent.wait(lambda a: len(progresses(a, later)) >= seen + 3)
    assert in_force(query) == in_force(later) == ["MaxFiles: 2"]
    last = progresses(agent, later)[-1]["limits"][0]
    assert (last["control"], last["note"]) == ("advice", "spark.weir.control is false")
    # Another session of the application is not steered either, unless its own attach says so.
    other = spark.newSession()
    assert spark_listener.attach(other).active
    third = start(folder("other", 60).read(other, 2), seconds=0.5)
    told = agent.wait(lambda a: a.of("started", str(third.runId)))[0]
    assert told["body"]["control"] == "advice"


def test_what_a_second_attach_cannot_change_is_said(
    agent: Any, attached: Any, spark: Any, warnings: Any
) -> None:
    attached(agent)
    assert spark_listener.attach(spark, agent_url=agent.url).active
    assert warnings() == []
    assert spark_listener.attach(spark, agent_url="http://127.0.0.1:1", queue_size=77).active
    [said] = warnings()
    assert "agent_url (spark.weir.agent.url) stays" in said
    assert "queue_size (spark.weir.queue.size) stays 2000" in said
    assert spark_listener.attach(spark, control=False).active
    assert spark_listener.attach(spark, control=True).active
    assert "control (spark.weir.control) stays False" in warnings()[-1]
    assert not spark_listener.attach(spark, enabled=False).active


RESTARTED = """
import sys
from pyspark.sql import SparkSession
from spark_listener import attach, observer
observer._TICK_SECONDS = 60.0  # the first driver notices late that its application has ended
base, url = sys.argv[1:]
for n in (1, 2):
    spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
             .config("spark.test.appId", "spark-0123").getOrCreate())
    spark.sparkContext.setLogLevel("OFF")
    assert spark.sparkContext.applicationId == "spark-0123"
    assert attach(spark, agent_url=url, heartbeat_seconds=1.5).active
    query = (spark.readStream.text(base + "/in").writeStream.queryName(f"of {n}").format("noop")
             .option("checkpointLocation", f"{base}/{n}").start())
    query.processAllAvailable()
    if n == 1:
        spark.stop()
import time
time.sleep(2)  # in which the first driver notices
print(attach(spark, agent_url=url).active, flush=True)
query.stop()
spark.stop()
"""


@pytest.mark.slow("two Sparks of its own")
def test_a_new_session_with_the_old_application_id_is_watched_by_itself(
    agent: Any, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("x\n")
    done = subprocess.run(
        [sys.executable, "-c", RESTARTED, str(tmp_path), agent.url],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "True", done.stderr[-2000:]
    names = {event["body"]["name"] for event in agent.of("started")}
    assert names == {"of 1", "of 2"}
    ended = {event["body"]["name"] for event in agent.of("terminated")}
    assert ended == {"of 1", "of 2"}
    told = {r["listener"]["instance"] for r in agent.requests}
    assert len(told) == 2
    rows = [event["body"]["numInputRows"] for event in agent.of("progress")]
    assert sum(rows) == 2, "each session's batch is heard once"


DEAD = """
import os, signal, sys, threading
from pyspark.sql import SparkSession
from spark_listener import attach, detach
from tests.waiting import until

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for one in spark, spark.newSession():
    assert attach(one, agent_url=sys.argv[1]).active
os.kill(spark._jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)
spark.sparkContext._gateway.proc.wait(60)
detach()
names = lambda: [one.name for one in threading.enumerate() if one.name.startswith("weir")]
until(lambda: not names(), "the end of all threads", telling=names)
print("ended", flush=True)
os._exit(0)
"""


@pytest.mark.slow("a Spark of its own; that all sessions are forgotten is looked at every time")
def test_whoever_detaches_once_the_jvm_has_died_keeps_no_thread(agent: Any) -> None:
    """As in a notebook, whose Python lives on."""
    done = subprocess.run(
        [sys.executable, "-c", DEAD, agent.url],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["ended"], done.stderr[-2000:]


def test_as_many_progresses_wait_in_the_jvm_as_spark_keeps_anyway(spark: Any) -> None:
    conf = getattr(getattr(spark._jvm.org.apache.spark.sql.internal, "SQLConf$"), "MODULE$")
    assert int(conf.STREAMING_PROGRESS_RETENTION().defaultValue().get()) == MOST_PROGRESS


def test_every_row_comes_with_an_interrupted_start(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    """A query stopped while its start is being told does not take the listener with it."""
    agent.mode = "hang"
    attached(agent, first_batch_seconds=4.0, timeout_seconds=60.0)
    source = folder(files=2)
    start(source.read(spark, 2), seconds=0.1).stop()
    agent.mode = "answer"
    query = start(source.read(spark, 2), seconds=0.1)
    until(lambda: sum(p["numInputRows"] for p in query.recentProgress) == 2 * ROWS_PER_FILE, "rows")
    listeners = spark._jsparkSession.streams().listListeners()
    assert any("PythonStreamingQueryListenerWrapper" in str(one) for one in listeners)


def test_a_query_that_is_stopped_while_its_first_batch_is_held_is_let_go(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any, gates: Any
) -> None:
    """Its thread waits where no interrupt reaches it, and a ``stop`` waits for that thread."""
    timeout = "spark.sql.streaming.stopTimeout"
    attached(agent, first_batch_seconds=10.0, timeout_seconds=60.0)
    agent.slow_starts_seconds = 10.0
    query = start(folder(files=1).read(spark))
    lock = Query(query._jsq).execution.awaitProgressLock()
    until(lock.hasQueuedThreads, "the query's thread to wait for its first batch")
    spark.conf.set(timeout, "4s")
    try:
        assert gates[-1].held
        query.stop()  # raises where that takes longer, into the job
    finally:
        spark.conf.unset(timeout)
    assert query.exception() is None
