"""An agent that is gone, hangs, lies or refuses: the job does not notice, one warning says why."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

import spark_listener
from tests.spark.conftest import ROWS_PER_FILE, in_force
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def timed_start(start: Any, frame: Any) -> tuple[Any, float]:
    begun = time.monotonic()
    query = start(frame, seconds=0.1)
    until(lambda: any(p["numInputRows"] for p in query.recentProgress), "a batch with rows")
    return query, time.monotonic() - begun


def test_agent_gone_a_start_is_not_held_and_the_job_goes_on(
    attached: Any, folder: Any, start: Any, spark: Any, warnings: Any, gates: Any
) -> None:
    attached(f"http://127.0.0.1:{free_port()}", first_batch_seconds=10.0)
    until(warnings, "the warning")
    query, _ = timed_start(start, folder(files=6).read(spark, 2))
    assert gates == []
    until(lambda: sum(p["numInputRows"] for p in query.recentProgress) == 60, "all rows")
    assert len(warnings()) == 1
    assert "connection refused" in warnings()[0]


def test_an_agent_that_hangs_costs_one_first_batch_its_wait_and_no_other(
    agent: Any,
    attached: Any,
    folder: Any,
    start: Any,
    spark: Any,
    warnings: Any,
    gates: Any,
) -> None:
    agent.mode = "hang"
    source = folder(files=2)
    attached(agent, first_batch_seconds=4.0, timeout_seconds=60.0)
    _, first = timed_start(start, source.read(spark, 2))
    assert first > 2.9  # not known to be hopeless yet: held for three quarters of that
    assert len(gates) == 1
    query, _ = timed_start(start, source.read(spark, 2))
    assert len(gates) == 1
    assert query.isActive
    assert warnings() == []  # it may still answer within its time
    begun = time.monotonic()
    spark_listener.detach()
    assert time.monotonic() - begun < 20.0


@pytest.mark.parametrize(
    ("mode", "cause"),
    [("hang", "no answer"), ("garbage", "HTTP"), ("refuse", "401"), ("html", "JSON")],
)
def test_one_warning_and_every_row(
    agent: Any,
    attached: Any,
    folder: Any,
    start: Any,
    spark: Any,
    warnings: Any,
    mode: str,
    cause: str,
) -> None:
    agent.mode = mode
    # One that answers must not be taken for one that hangs, however busy the machine.
    timeout_seconds = 0.3 if mode == "hang" else 20.0
    attached(agent, timeout_seconds=timeout_seconds, first_batch_seconds=0.3)
    query = start(folder(files=12).read(spark, 2), seconds=0.1)
    until(
        lambda: sum(p["numInputRows"] for p in query.recentProgress) == 12 * ROWS_PER_FILE,
        "all rows",
    )
    agent.wait(lambda a: a.attempts >= 3)
    assert query.isActive
    assert len(warnings()) == 1, warnings()
    assert cause in warnings()[0]


def test_absurd_grants_change_nothing_and_end_nothing(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    query = start(folder(files=30).read(spark, 2))
    run_id = str(query.runId)
    agent.wait(lambda a: a.of("progress", run_id))
    good = {"id": "x", "runId": run_id, "source": 0, "unit": "files", "limit": 5,
            "expires_seconds": 60, "reason": ""}  # fmt: skip
    agent.grants = [
        good | {"limit": 0}, good | {"limit": -3}, good | {"limit": 2**70},
        good | {"limit": "many"}, good | {"unit": "rows"}, good | {"unit": "bytes"},
        good | {"source": 7}, good | {"source": -1}, good | {"runId": "another"},
        good | {"expires_seconds": -1}, {}, None, 3,
    ]  # fmt: skip
    seen = len(agent.requests)
    agent.wait(lambda a: len(a.requests) > seen + 5)
    assert in_force(query) == ["MaxFiles: 2"]
    assert query.isActive
    agent.grants = [good | {"limit": 2**40}]  # beyond what maxFiles can hold
    until(lambda: in_force(query) == [f"MaxFiles: {2**31 - 1}"], "the granted limit in force")
    assert query.isActive


def test_events_wait_for_an_agent_that_comes_later(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    agent.stop()
    attached(f"http://127.0.0.1:{agent.port}")
    query = start(folder(files=6).read(spark, 2))
    until(lambda: sum(p["numInputRows"] for p in query.recentProgress) == 60, "all rows")
    agent.start()
    agent.wait(lambda a: len(a.of("progress", str(query.runId))) >= 3)
    assert agent.of("started", str(query.runId))
    numbers = [event["sequence"] for event in agent.events]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"agent_url": "nonsense"}, "agent_url"),
        ({"no_such_setting": 1}, "no_such_setting"),
        ({"queue_size": -1}, "queue_size"),
    ],
)
def test_a_wrong_setting_is_named_and_the_job_goes_on(
    attached: Any, spark: Any, warnings: Any, settings: dict[str, Any], named: str
) -> None:
    made = spark_listener.attach(spark, **settings)
    spark_listener.attach(spark, **settings)
    assert not made.active
    assert named in made.reason
    assert len(warnings()) == 1
    made.detach()


def test_settings_come_from_sparks_configuration(
    agent: Any, attached: Any, spark: Any, warnings: Any
) -> None:
    spark.conf.set("spark.weir.agent.url", agent.url)
    try:
        assert spark_listener.attach(spark).active
        agent.wait(lambda a: a.events)
        spark_listener.detach()
        spark.conf.set("spark.weir.agent.ulr", "x")
        made = spark_listener.attach(spark)
        assert "spark.weir.agent.ulr" in made.reason
    finally:
        spark.conf.unset("spark.weir.agent.url")
        spark.conf.unset("spark.weir.agent.ulr")


def test_switched_off(attached: Any, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_ENABLED", "false")
    made = spark_listener.attach(spark)
    assert not made.active
    assert made.reason == "enabled is false"


def test_a_spark_connect_session_gives_one_warning(attached: Any, warnings: Any) -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    for _ in range(2):
        made = spark_listener.attach(remote)
        assert not made.active
    assert len(warnings()) == 1
    assert "Spark Connect" in warnings()[0]
    assert "--event-log-dirs" in warnings()[0]  # what can be done
