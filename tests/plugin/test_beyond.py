"""The process beyond the door: what it asks of a driver, and when."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

from spark_listener.beyond import DONE, Watch
from spark_listener.door import Occupied
from tests.driver.fake_agent import FakeAgent
from tests.plugin.conftest import JOBS
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.plugin.conftest import Bench
    from tests.service.agents import AgentProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

#: That process as it is, which says so once it has looked.
LOOKS = """
import os
from spark_listener import beyond
look = beyond.Watch._look
def told(watch):
    look(watch)
    print("looked", flush=True)
beyond.Watch._look = told
beyond._end_with_the_agent = lambda: None
os._exit(beyond.main())
"""

#: That process as it is, but that one call into the JVM fails, as on a machine that is too busy.
FAILS_ONCE = """
import os
from spark_listener import beyond
from spark_listener.driver import Driver
watch, tried = Driver.watch, []
def watches(driver, session, **how):
    tried.append(session)
    if len(tried) == 1:
        raise ConnectionError
    watch(driver, session, **how)
    print("watched", flush=True)
Driver.watch = watches
beyond._end_with_the_agent = lambda: None
os._exit(beyond.main())
"""
#: A session that is used, and in which no query starts until there is a file.
USED = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(1).count()
while not Path(sys.argv[6]).exists():
    time.sleep(0.1)
spark.stop()
"""


@pytest.mark.parametrize(
    "which",
    ["own", pytest.param("another", marks=pytest.mark.slow("a job more, as Connect's sessions"))],
)
def test_a_session_is_left_as_it_is_until_the_job_uses_it(bench: Bench, which: str) -> None:
    """Spark copies the Hadoop configuration when a session is first used, be it by us."""
    bench.files(5)
    go = bench.folder / "go"
    job = bench.submit(JOBS / "late_conf_job.py", ending=f"{which} {go}")
    until(lambda: "made" in job.out or job.process.poll() is not None, "the session", seconds=180)
    (path,) = bench.doors.glob("*.door")
    with FakeAgent() as agent:
        beside = bench.run(
            bench.folder / "beside",
            *(sys.executable, "-c", LOOKS, str(path), "--agent-url", agent.url),
        )
        until(lambda: beside.out.count("looked") > 1, "a look at the session")
        go.touch()
        assert job.wait() == 0
        assert beside.wait() == DONE, beside.err
        assert job.out.splitlines() == ["made", "said late"]
        assert agent.of("started"), "it is watched all the same"


def test_nobody_comes_in_while_spark_stops() -> None:
    """It may wait for a slow listener of the job's: one would be done at once, and then the next.

    The plugin opens another door behind each.
    """
    door, session = MagicMock(), MagicMock()
    door.default_session.return_value = session
    door.enter.side_effect = Occupied
    door.environment.return_value = {}
    session.sessionState().conf().getAllConfs().keysIterator().hasNext.return_value = False
    session.sparkContext().isStopped.return_value = True
    watch = Watch(door, {})
    watch._look()
    assert not door.enter.called
    assert watch._driver is None


def test_a_query_that_could_not_be_met_at_the_first_look_is_no_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch, watched = Watch(MagicMock(), {}), []
    watch._driver, watch._queries = MagicMock(), MagicMock()
    watch._driver.session.return_value = None
    watch._driver.watch = lambda _, *, control, whole: watched.append(whole)
    monkeypatch.setattr("spark_listener.beyond.conf_of", lambda *_, **__: {})
    monkeypatch.setattr(Watch, "_settings", lambda *_: MagicMock())
    watch._queries.toString.return_value = f"[id = {'a' * 36}, runId = {'b' * 36}]"
    watch._queries.get.side_effect = [OSError("no answer"), MagicMock()]
    for _ in range(2):
        watch._look()
    assert watched == [False]


@pytest.mark.parametrize("before", ["no session", "none used", "no query", None])
def test_what_began_since_a_look_is_told_from_its_first_batch_on(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    """A process that comes later does not know what the one before it told."""
    watched: list[bool] = []
    driver, door = MagicMock(), MagicMock()
    driver.session.return_value = None
    driver.watch = lambda _, *, control, whole: watched.append(whole)
    monkeypatch.setattr("spark_listener.beyond.Driver", lambda *_, **__: driver)
    monkeypatch.setattr("spark_listener.beyond.made", lambda *_: before != "none used")
    monkeypatch.setattr("spark_listener.beyond.conf_of", lambda *_, **__: {})
    monkeypatch.setattr(Watch, "_settings", lambda *_: MagicMock())
    session = door.default_session.return_value
    session.sparkContext().isStopped.return_value = False
    told = session.sharedState().activeStreamingQueries().toString
    told.return_value = "{}"
    watch = Watch(door, {})
    if before == "no session":
        door.default_session.return_value = None
    if before is not None:
        watch._look()
        watched.clear()
    door.default_session.return_value = session
    monkeypatch.setattr("spark_listener.beyond.made", lambda *_: True)
    told.return_value = f"[id = {'a' * 36}, runId = {'b' * 36}]"
    watch._look()
    assert set(watched) == {before is not None}


@pytest.mark.slow("a job of its own")
def test_a_default_session_whose_watching_fails_is_watched_at_the_next_look(bench: Bench) -> None:
    """Not with its first query only, whose first batch would then be as configured."""
    go = bench.folder / "go"
    source = bench.folder / "used_job.py"
    source.write_text(USED)
    job = bench.submit(source, ending=str(go))

    def doors() -> list[Path]:
        assert job.process.poll() is None, job.err
        return list(bench.doors.glob("*.door"))

    (path,) = until(doors, "the door", seconds=180)
    with FakeAgent() as agent:
        beside = bench.run(
            bench.folder / "beside",
            *(sys.executable, "-c", FAILS_ONCE, str(path), "--agent-url", agent.url),
        )
        until(lambda: beside.out, "the session to be watched")
        go.touch()
        assert job.wait() == 0
        assert beside.wait() == DONE, beside.err
        assert beside.out == "watched\n"


@pytest.mark.slow("jobs of its own")
@pytest.mark.parametrize("by", ["conf", "environment"])
def test_a_job_that_refuses_is_named_once_and_left_alone(
    bench: Bench, agent: AgentProcess, by: str
) -> None:
    bench.files(5)
    conf = ("spark.weir.enabled=false",) if by == "conf" else ()
    bench.environment = {"WEIR_ENABLED": "false"} if by == "environment" else {}
    job = bench.submit(JOBS / "python_job.py", seconds=10, conf=conf, application="off")

    def refused() -> list[str]:
        said = [one["event"] for one in agent.log()]
        return [one for one in said if one.endswith("enabled is false")]

    until(lambda: refused() or job.process.poll() is not None, "a word of it", seconds=180)
    assert job.wait() == 0
    assert len(refused()) == 1
    assert [one["event"] for one in agent.log()].count("a driver's door") == 1, "one process"
    said = [line for line in job.err.splitlines() if " weir: " in line]
    assert [line for line in said if " INFO " not in line] == []


@pytest.mark.slow("a job of its own")
def test_what_a_job_says_of_another_agent_does_not_hold_at_the_door_of_this_one(
    bench: Bench, query: Callable[[str], dict[str, Any]]
) -> None:
    """Which has no token, and no certificate of its own: there is nothing to overrule it with."""
    bench.files(5)
    names = ("agent.url=http://127.0.0.1:1", "token.file=/nowhere", "ca.file=/nowhere")
    bench.submit(JOBS / "python_job.py", conf=tuple(f"spark.weir.{name}" for name in names))
    assert query("lines")["control"] == "live"
