"""A sink whose service takes so many batches a day: the target that holds is no shorter for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from agent.core import quota
from agent.core.fleet import Change, Fleet
from agent.core.policy import Policy, QueryPolicy, Rule
from tests.core.test_fleet import KEY, World

if TYPE_CHECKING:
    from agent.core.judgement import QueryView

BIGQUERY = (
    "BigQueryStreamingSink(sqlContext=org.apache.spark.sql.SQLContext@1f, parameters={table=d.t},"
    " partitionColumns=[], outputMode=Append, opts=x@2a, bigQueryClient=y@3b)"
)
#: 1,500 load jobs a day for a table.
LEAST_SECONDS = 57.6


@pytest.mark.parametrize(
    ("sink", "seconds"),
    [
        (BIGQUERY, LEAST_SECONDS),
        ("BigQueryStreamingSink(org.apache.spark.sql.SQLContext@1f,Map(),List(),Append)", 57.6),
        ("com.google.cloud.spark.bigquery.v2.Spark35BigQueryTable@1f2e", None),  # or direct
        ("FileSink[gs://lake/BigQueryStreamingSink(x)]", None),
        ("lake.BigQueryStreamingSink", None),
        ("org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@1", None),
        ("ForeachBatchSink", None),
        ("", None),
    ],
)
def test_sinks_with_a_quota_are_known_by_their_description(
    sink: str, seconds: float | None
) -> None:
    found = quota.of_sink(sink)
    assert (None if found is None else found.least_seconds) == seconds


def caught_up(settings: QueryPolicy, sink: str) -> tuple[float, QueryView]:
    """(seconds of the last of many batches that read a backlog, what is shown then)."""
    world = World(Policy(default=settings))
    limit, backlog = 500, 10**8
    for _ in range(60):
        backlog -= limit
        seconds = 1.0 + limit / 1000.0
        told = world.driver.progress(
            limit, seconds, limit=limit, configured=500, backlog=backlog, sink={"description": sink}
        )
        (grant,) = world.send(told).grants
        limit = grant.limit or limit
    return seconds, world.view()


@pytest.mark.parametrize(
    ("sink", "target", "deadline", "aimed"),
    [
        (BIGQUERY, 5.0, None, LEAST_SECONDS),
        (BIGQUERY, 5.0, 600.0, LEAST_SECONDS),
        (BIGQUERY, 5.0, 150.0, LEAST_SECONDS),
        (BIGQUERY, 5.0, 80.0, 5.0),
        (BIGQUERY, 5.0, 30.0, 5.0),
        (BIGQUERY, 90.0, None, 90.0),
        ("noop", 5.0, None, 5.0),
    ],
)
def test_batches_are_as_long_as_the_quota_asks(
    sink: str, target: float, deadline: float | None, aimed: float
) -> None:
    settings = QueryPolicy(above_configured=True, target_seconds=target, deadline_seconds=deadline)
    seconds, shown = caught_up(settings, sink)
    assert seconds == pytest.approx(aimed, rel=0.3)
    assert shown.target_seconds == aimed
    assert shown.limit.target_feasible


def test_it_holds_from_the_start_on_whatever_a_rule_says_and_in_a_saved_state() -> None:
    policy = Policy(rules=(Rule(match="orders", target_seconds=9.0, late_rows="allow"),))
    world = World(policy)
    world.send(world.driver.started())
    assert world.view().target_seconds == 9.0
    world.send(world.driver.started(sink=BIGQUERY))
    assert world.view().target_seconds == LEAST_SECONDS
    assert world.fleet.settings(KEY).late_rows == "allow"
    world.send(world.driver.started(sink=""))  # it could not be read
    again = Fleet.restore(policy, world.fleet.changes(), started_time=world.now)
    assert again.view(KEY, world.now).target_seconds == LEAST_SECONDS


def test_a_state_saved_without_it_learns_it_with_the_next_batch() -> None:
    world = World()
    sink = {"description": BIGQUERY}
    world.send(world.driver.progress(100, 2.0, sink=sink))
    parts = [
        part if part.data is None or not part.part.startswith("query:") else without(part)
        for part in world.fleet.changes()
    ]
    world.fleet = Fleet.restore(world.policy, parts, started_time=world.now)
    assert world.view().target_seconds == 5.0
    world.send(world.driver.progress(100, 2.0, sink=sink))
    assert world.view().target_seconds == LEAST_SECONDS


def without(part: Change) -> Change:
    raw = msgspec.msgpack.decode(part.data or b"")
    assert raw["run"].pop("least_target_seconds") == LEAST_SECONDS
    return Change(part.part, msgspec.msgpack.encode(raw))


@pytest.mark.parametrize(
    ("target", "deadline", "says"),
    [
        (5.0, None, "1,500 a day for a table: while it is behind Weir makes none shorter than 58"),
        (30.0, 40.0, "catching up in batches of 30 s would make 2,880, and the deadline"),
        (60.0, None, ""),
    ],
)
def test_it_is_told_before_weir_acts(target: float, deadline: float | None, says: str) -> None:
    world = World(
        Policy(
            default=QueryPolicy(target_seconds=target, deadline_seconds=deadline, mode="dry-run")
        )
    )
    world.send(world.driver.progress(100, 2.0, limit=500, sink={"description": BIGQUERY}))
    told = [one for one in world.view().findings if "load job" in one.evidence]
    assert [(one.check, one.severity) for one in told] == [("sink_quota", "info")] * bool(says)
    assert all(says in one.evidence and "trigger interval" in one.remedy for one in told)
