"""What the agent asks brokers, and what it makes of answers that are late, odd or not there."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from concurrent.futures import Future
from contextlib import closing, contextmanager, nullcontext, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import structlog
from confluent_kafka import KafkaError, KafkaException

from agent.core.decode.events import decode_request
from agent.core.decode.kafka_offsets import Held, Reading
from agent.core.fleet import Fleet
from agent.core.policy import Policy
from agent.service.kafka_watch import MOST_PARTITIONS, RETENTION_SECONDS, KafkaWatch
from agent.service.timers import Timers
from agent.sources import kafka
from agent.sources.kafka import REASON_SECONDS, Brokers, KafkaUnavailable
from spark_listener.wire import format_time
from tests.core.events import START_TIME, Driver
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from agent.sources.kafka import Place

Offsets = dict[str, dict[str, int]]


class Cluster:
    """Brokers that hold what they are given."""

    def __init__(
        self, holds: dict[Place, Held], kept: dict[str, float | None] | None = None
    ) -> None:
        self.holds = holds
        self.kept = kept or {}
        self.asked_retention: list[set[str]] = []
        self.silent_about_retention = False
        self.leaderless: set[Place] = set()

    def partitions(self, topics: Iterable[str]) -> list[Place]:
        wanted = set(topics)
        return [place for place in self.holds if place[0] in wanted]

    def held(self, places: Iterable[Place]) -> dict[Place, Held]:
        return {place: self.holds[place] for place in places if place not in self.leaderless}

    def retention_seconds(self, topics: Iterable[str]) -> dict[str, float | None]:
        self.asked_retention.append(set(topics))
        if self.silent_about_retention:
            raise KafkaUnavailable("no answer")
        return {topic: self.kept[topic] for topic in topics if topic in self.kept}


class Watch:
    """A fleet whose queries read Kafka, and who asks about them."""

    def __init__(self, cluster: Cluster) -> None:
        self.now = START_TIME
        self.fleet = Fleet(Policy(), started_time=START_TIME - 1000)
        self.fleet.keep_offsets()
        self.drivers: dict[str, Driver] = {}
        self.watch = KafkaWatch(
            lambda: self.fleet,
            cast("Brokers", cluster),
            lambda: self.now,
            every_seconds=5.0,
            series=False,
        )

    def reads(self, query: str, end: Offsets, description: str = "KafkaV2[Subscribe[t]]") -> None:
        new = Driver(instance=query, query=query, query_id=query, run_id=f"run-{query}")
        driver = self.drivers.setdefault(query, new)
        driver.time = max(driver.time, self.now)
        source = {"description": description, "numInputRows": 1}
        source |= {"startOffset": end, "endOffset": end, "latestOffset": end}
        event = driver.progress(1, 1.0, sources=[source], limits=[])
        self.now = max(self.now, driver.time + 1.0)
        assert not self.fleet.receive(decode_request(driver.body(event)), self.now).refused

    def look(self, after_seconds: float = 5.0) -> None:
        self.now += after_seconds
        asyncio.run(self.watch.look())

    def backlog(self, query: str) -> float | None:
        return self.fleet.view(("shop", query), self.now).backlog_rows

    def views(self, query: str) -> int:
        return len(self.fleet.view(("shop", query), self.now).partitions)


def test_partitions_that_a_query_is_not_assigned_are_no_backlog_of_it() -> None:
    watch = Watch(Cluster({("t", "0"): Held(0, 103), ("t", "1"): Held(0, 1_000_000)}))
    watch.reads("some", {"t": {"0": 100}}, "KafkaV2[Assign[t-0]]")
    watch.reads("all", {"t": {"0": 100}}, "KafkaV2[SubscribePattern[t.*[Assign[]]")
    watch.look()
    assert watch.backlog("some") == 3
    assert watch.backlog("all") == 1_000_003, "a new partition, of which nothing was read"


def answered() -> tuple[Cluster, Watch]:
    """Brokers that have been asked of one query, and have answered."""
    cluster = Cluster({("t", "0"): Held(0, 103)})
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 100}})
    watch.look()
    assert watch.watch.up is True
    return cluster, watch


def test_brokers_that_nobody_has_to_ask_any_more_are_not_told_as_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a job that ended while they were restarted."""
    cluster, watch = answered()

    def silent(_: object) -> Any:
        raise KafkaUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "partitions", silent)
        watch.look()
    assert watch.watch.up is False
    driver = watch.drivers["one"]
    watch.fleet.receive(decode_request(driver.body(driver.terminated())), watch.now)
    watch.look(60.0)
    assert watch.watch.up is None
    watch.reads("two", {"t": {"0": 100}})
    watch.look()
    assert watch.watch.up is True


def test_a_question_that_cannot_be_asked_is_told_as_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, watch = answered()

    def unasked(_: object) -> Any:
        raise ValueError("Invalid ConfigResource(2,)")

    service = SimpleNamespace(kafka_up=True)
    timers = cast("Any", SimpleNamespace(_kafka=watch.watch, _service=service))
    watch.now += 5.0
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "partitions", unasked)
        with pytest.raises(ValueError, match="ConfigResource"):
            asyncio.run(Timers._ask_kafka(timers))
    assert service.kafka_up is False
    watch.look()
    assert watch.watch.up is True


def test_offsets_that_were_saved_and_no_client_asks_for_end_the_watch_over_nobody() -> None:
    """Their query may tell of no others for ever."""
    watch = Watch(Cluster({("t", "0"): Held(0, 103)}, {"t": 60.0}))
    for query in ("odd", "one"):
        watch.reads(query, {"t": {"0": 100}})
    odd = watch.fleet._roster.get(("shop", "odd"))
    assert odd is not None
    odd.read = Reading({0: {("", "0"): 10}}, query_id=odd.run.query_id)
    watch.fleet = Fleet.restore(Policy(), watch.fleet.changes(), started_time=watch.now)
    watch.fleet.keep_offsets()
    watch.look()
    assert watch.watch.up is True
    assert watch.backlog("one") == 3
    assert watch.fleet.readings().keys() == {("shop", "one")}


def test_of_a_query_whose_newest_batch_tells_no_offsets_nothing_is_asked() -> None:
    """How far it has read by then nobody knows."""
    watch = Watch(Cluster({("t", "0"): Held(0, 103)}))
    watch.reads("one", {"t": {"0": 100}})
    watch.look()
    assert watch.views("one") == 1
    watch.reads("one", {"": {"0": 12}})
    assert watch.fleet.readings() == {}
    assert watch.views("one") == 0
    watch.look()
    assert watch.watch.up is None


def test_the_end_waits_for_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster({("t", "0"): Held(0, 103)})
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 100}})
    asked, answer, answered = threading.Event(), threading.Event(), threading.Event()

    def slow(_: object) -> list[Place]:
        asked.set()
        answer.wait(20.0)
        answered.set()
        return []

    monkeypatch.setattr(cluster, "partitions", slow)

    async def asking() -> None:
        task = asyncio.create_task(watch.watch.look())
        assert await asyncio.to_thread(asked.wait, 20.0)
        assert not task.done()

    watch.now += 5.0
    asyncio.run(asking())
    assert not answered.is_set()
    answer.set()
    assert answered.wait(20.0)


def test_what_is_assigned_is_remembered_while_a_batch_runs() -> None:
    watch = Watch(Cluster({("t", "0"): Held(0, 103), ("t", "1"): Held(0, 1_000_000)}))
    watch.reads("some", {"t": {"0": 100}}, "KafkaV2[Assign[t-0]]")
    (query,) = watch.fleet._roster
    told = [SimpleNamespace(source=0, offsets={("t", "0"): 102})]
    watch.fleet._state.brokers.note_plan(query, cast("Any", told))
    watch.look()
    assert watch.backlog("some") == 1


def test_a_topic_of_the_same_name_in_another_cluster_is_left_to_progress() -> None:
    """It ends there before all that is kept here; as soon as that is sure it is said."""
    watch = Watch(Cluster({("t", "0"): Held(7_000_000, 9_000_000)}))
    key = ("shop", "one")
    lost = []
    with structlog.testing.capture_logs() as logs:
        for batch_id in range(20):
            watch.reads("one", {"t": {"0": 3_000_000 + 1000 * batch_id}})
            watch.look()
            lost.append([one.lost_rows for one in watch.fleet.view(key, watch.now).partitions])
            assert told_of_loss(watch) in ([], [(0, None, None)])
            assert watch.fleet.committed() == {}, "its offsets say nothing of this topic"
    assert lost[0] == [0]
    assert lost[16:] == [[]] * 4
    assert watch.backlog("one") == 0, "as progress says"
    assert watch.fleet.committed() == {}
    (said,) = logs
    assert (said["query"], said["topics"]) == ("shop/one", ["t"])
    watch.reads("one", {"t": {"0": 8_999_000}})
    watch.look()
    assert watch.views("one") == 0
    send(watch, watch.drivers["one"].terminated("java.io.IOException: x"))
    watch.drivers["one"].query_id = "another checkpoint"
    watch.drivers["one"].run_id = "another run"
    send(watch, watch.drivers["one"].started())
    watch.reads("one", {"t": {"0": 8_999_000}})
    watch.look()
    assert (watch.views("one"), watch.backlog("one")) == (1, 1000)
    assert watch.fleet.committed() == {key: {("t", "0"): 8_999_000}}


def told_of_loss(watch: Watch) -> list[tuple[int, float | None, float | None]]:
    return [
        (one.lost_rows, one.retention_loss_seconds, one.pressing_rows_per_second)
        for one in watch.fleet.view(("shop", "one"), watch.now).partitions
    ]


def test_rows_gone_at_the_first_look_are_told_once_a_batch_shows_that_it_is_this_log() -> None:
    """Spark plans it to where it ends here; until then it may be another cluster's."""
    cluster = Cluster({("t", "0"): Held(5_000, 9_000)}, {"t": 3600.0})
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 1_000}})
    watch.look()
    assert told_of_loss(watch) == [(0, None, None)]
    assert watch.fleet.committed() == {}
    cluster.holds["t", "0"] = Held(5_100, 9_100)
    watch.now += 2.0
    send_reached(watch, 9_050)
    watch.look()
    ((lost, loss, pressing),) = told_of_loss(watch)
    assert (lost, loss) == (4_100, 0.0)
    assert pressing is not None
    assert watch.fleet.committed() == {("shop", "one"): {("t", "0"): 1_000}}


def test_what_was_read_while_the_agent_was_away_is_no_loss() -> None:
    """The query read on for 70 minutes, and an hour's rows are kept."""
    cluster = Cluster({("t", "0"): Held(0, 1000)}, {"t": 3600.0})
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 1000}})
    watch.look()
    saved = watch.fleet.changes()
    watch.now += 4200.0
    watch.fleet = Fleet.restore(Policy(), saved, started_time=watch.now)
    cluster.holds["t", "0"] = Held(6000, 42_000)
    watch.look(1.0)
    assert told_of_loss(watch) == [(0, None, None)]
    driver = watch.drivers["one"]
    driver.time = watch.now
    send(watch, driver.heartbeat(700, 0.5))
    watch.look()
    assert told_of_loss(watch) == [(0, None, None)], "what it read meanwhile is still to come"
    watch.fleet.tick(watch.now)
    watch.now += Policy().silent_seconds + 1.0
    watch.fleet.wakefulness.ticked_time = watch.now - 1.0
    watch.fleet.tick(watch.now)
    watch.look()
    assert told_of_loss(watch)[0][:2] == (5000, 0.0), "nobody is there to tell of more"


def test_of_one_that_failed_no_batch_will_show_it() -> None:
    watch = Watch(Cluster({("t", "0"): Held(80, 100)}))
    watch.reads("one", {"t": {"0": 50}})
    send(watch, watch.drivers["one"].terminated("java.io.IOException: x"))
    watch.look()
    assert losses(watch) == [(0.0, 30)]


def test_an_end_that_spark_saw_and_brokers_do_not_have_is_another_clusters() -> None:
    watch = Watch(Cluster({("t", "0"): Held(0, 5_000)}))
    watch.reads("one", {"t": {"0": 1000}})
    send_reached(watch, 6_000)
    for _ in range(20):
        watch.look()
    assert watch.views("one") == 0
    assert watch.backlog("one") == 5_000
    assert watch.fleet.committed() == {}


def send_reached(watch: Watch, latest: int) -> None:
    """A batch that read one row, with more than these brokers hold in sight."""
    source: dict[str, Any] = {"description": "KafkaV2[Subscribe[t]]", "numInputRows": 1}
    for name, offset in (("startOffset", 999), ("endOffset", 1000), ("latestOffset", latest)):
        source[name] = {"t": {"0": offset}}
    send(watch, watch.drivers["one"].progress(1, 1.0, sources=[source], limits=[]))


def fleet_of(queries: int, partitions: int) -> Watch:
    """Queries that each read a topic of their own, with one row unread in each partition."""
    places = {(f"t{n}", str(p)): Held(0, 1) for n in range(queries) for p in range(partitions)}
    watch = Watch(Cluster(places))
    for number in range(queries):
        watch.reads(f"q{number}", {f"t{number}": {str(p): 0 for p in range(partitions)}})
    return watch


def waiting(watch: Watch) -> tuple[float | None, list[int], float | None]:
    """What waits at the query's source, and in its partitions, and how much older that is."""
    view = watch.fleet.view(("shop", "one"), watch.now)
    there = [one.backlog_rows for one in view.partitions]
    return view.sources[0].backlog, there, view.partitions_age_seconds


def batch(
    watch: Watch, start: tuple[int, int], end: tuple[int, int], latest: tuple[int, int]
) -> None:
    """A batch of a second over both partitions, which ends half a second on."""
    rows = sum(end) - sum(start)
    told: dict[str, Any] = {"description": "KafkaV2[Subscribe[t]]", "numInputRows": rows}
    for name, at in (("startOffset", start), ("endOffset", end), ("latestOffset", latest)):
        told[name] = {"t": {"0": at[0], "1": at[1]}}
    driver = watch.drivers["one"]
    watch.now += 0.5
    driver.time = watch.now - 2.0
    send(watch, driver.progress(rows, 1.0, sources=[told], limits=[]))


def plan(
    watch: Watch, start: tuple[int, int], end: tuple[int, int], latest: tuple[int, int]
) -> None:
    """The batch that runs was planned half a second ago."""
    driver = watch.drivers["one"]
    driver.time = watch.now - 1.0
    limit = {"source": 0, "unit": "rows", "control": "live", "limit": None, "configured": None}
    limit |= {"admitted": sum(end) - sum(start), "backlog": sum(latest) - sum(end)}
    limit |= {"offsets": {"t": {"0": end[0], "1": end[1]}}}
    limit |= {"observed_time": format_time(driver.time - 0.5)}
    send(watch, driver.heartbeat(driver.batch_id + 1, 0.5, limits=[limit]))


def send(watch: Watch, event: dict[str, Any]) -> None:
    """What the driver says, whose clock is a second behind."""
    driver = watch.drivers["one"]
    assert not watch.fleet.receive(decode_request(driver.body(event)), watch.now).refused


def test_partitions_and_the_backlog_beside_them_are_of_one_moment() -> None:
    cluster = Cluster({("t", "0"): Held(0, 0), ("t", "1"): Held(0, 0)})
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 0, "1": 0}})
    cluster.holds = {("t", "0"): Held(0, 500), ("t", "1"): Held(0, 100)}
    watch.look()
    assert waiting(watch) == (600, [500, 100], None)
    watch.now += 0.7
    plan(watch, (0, 0), (400, 100), (500, 100))
    assert waiting(watch) == (100, [100, 0], None)
    batch(watch, (0, 0), (400, 100), (500, 100))
    assert waiting(watch) == (100, [100, 0], None)
    watch.now += 2.0
    plan(watch, (400, 100), (500, 120), (530, 125))  # where these 35 lie it does not say
    assert waiting(watch) == (35, [0, 0], pytest.approx(3.0))
    batch(watch, (400, 100), (500, 120), (530, 125))
    assert waiting(watch) == (35, [30, 5], None)


def test_rows_that_retention_took_wait_in_no_partition() -> None:
    cluster = Cluster({("t", "0"): Held(0, 0), ("t", "1"): Held(0, 0)})
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 0, "1": 0}})
    cluster.holds = {("t", "0"): Held(300, 500), ("t", "1"): Held(0, 100)}
    watch.look()
    assert waiting(watch) == (300, [200, 100], None)
    watch.now += 0.7
    batch(watch, (0, 0), (350, 50), (500, 100))
    assert waiting(watch)[1] == [150, 50]


def test_queries_beyond_the_partitions_that_are_watched_are_named() -> None:
    assert MOST_PARTITIONS == 5000
    watch = fleet_of(60, 100)
    with structlog.testing.capture_logs() as logs:
        watch.look()
        watch.look()
    seen = [number for number in range(60) if watch.views(f"q{number}") == 100]
    assert len(seen) == 50
    assert watch.watch.up is True
    (said,) = logs
    assert {f"q{number}" for number in seen} | {
        name.removeprefix("shop/") for name in said["queries"]
    } == {f"q{number}" for number in range(60)}


def test_a_query_of_many_partitions_takes_none_of_them_from_small_ones() -> None:
    places = {("large", str(p)): Held(0, 1) for p in range(MOST_PARTITIONS)}
    watch = Watch(Cluster({**places, ("small", "0"): Held(0, 7)}))
    watch.reads("a-large", {"large": {str(p): 0 for p in range(MOST_PARTITIONS)}})
    watch.reads("small", {"small": {"0": 0}})
    watch.look()
    assert (watch.views("small"), watch.backlog("small")) == (1, 7)
    assert (watch.views("a-large"), watch.backlog("a-large")) == (0, 0)


@pytest.mark.parametrize("gone", [False, True])
def test_what_brokers_say_is_saved_only_where_nothing_else_tells_it_again(*, gone: bool) -> None:
    """Each look at a query of many partitions would else be a write of kilobytes."""
    cluster = Cluster({("t", "0"): Held(0, 100)})
    watch = failed(cluster) if gone else Watch(cluster)
    if not gone:
        watch.reads("one", {"t": {"0": 50}})
        watch.look()
    watch.fleet.changes()
    watch.look()
    assert watch.fleet.changes() == []
    cluster.holds["t", "0"] = Held(0, 200)
    watch.look()
    assert bool(watch.fleet.changes()) is gone, "a driver that lives is heard within seconds"
    watch.look()
    assert watch.fleet.changes() == []


def test_since_when_rows_of_one_that_failed_wait_outlives_the_agent() -> None:
    cluster = Cluster({("t", "0"): Held(0, 50)})
    watch = failed(cluster)
    saved = {one.part: one for one in watch.fleet.changes()}
    for minute in range(60):
        cluster.holds["t", "0"] = Held(0, 60 + minute)
        watch.look(60.0)
        saved |= {one.part: one for one in watch.fleet.changes()}
    watch.fleet = Fleet.restore(Policy(), saved.values(), started_time=watch.now)
    cluster.holds["t", "0"] = Held(0, 200)
    watch.look()
    waits = watch.fleet.view(("shop", "one"), watch.now).backlog_seconds
    assert waits == pytest.approx(3545.0, abs=70.0)


def test_of_partitions_that_nobody_is_assigned_nobody_asks() -> None:
    cluster = Cluster({("t", str(p)): Held(0, 103) for p in range(40)})
    asked: list[Place] = []
    held = cluster.held
    cluster.held = lambda places: held(asked.extend(places) or asked)  # type: ignore[method-assign, func-returns-value]
    watch = Watch(cluster)
    for number in range(3):
        watch.reads(f"q{number}", {"t": {str(number): 100}}, f"KafkaV2[Assign[t-{number}]]")
    watch.look()
    assert asked == [("t", "0"), ("t", "1"), ("t", "2")]


def test_a_partition_counts_for_each_source_of_a_query_that_reads_it() -> None:
    """What is kept of it, and what a look takes, is of each reader."""
    of_topic = MOST_PARTITIONS // 2
    read = {"t": {str(p): 0 for p in range(of_topic)}}
    watch = Watch(Cluster({("t", str(p)): Held(0, 1) for p in range(of_topic)}))
    for name in ("a", "b", "c"):
        watch.reads(name, read)
    watch.reads("assigned", {"t": {"0": 0, "1": 0}}, "KafkaV2[Assign[t-0, t-1]]")
    with structlog.testing.capture_logs() as logs:
        watch.look()
    assert [said["queries"] for said in logs] == [["shop/b", "shop/c"]]
    assert [watch.views(name) for name in ("assigned", "a", "b", "c")] == [2, of_topic, 0, 0]
    assert sum(len(one.partitions) for one in watch.watch._watched.values()) <= MOST_PARTITIONS


def test_a_query_of_which_nobody_watches_retention_has_a_finding() -> None:
    """No alert on retention can come for it, and silence looks as if all were well."""
    places = {("t", str(p)): Held(0, 1) for p in range(MOST_PARTITIONS)}
    cluster = Cluster({**places, ("small", "0"): Held(0, 7)})
    watch = Watch(cluster)

    def found(query: str) -> list[tuple[str, str]]:
        findings = watch.fleet.view(("shop", query), watch.now).findings
        return [(one.check, one.evidence) for one in findings if one.severity == "warning"]

    watch.reads("small", {"small": {"0": 0}})
    watch.reads("large", {"t": {str(p): 0 for p in range(MOST_PARTITIONS)}})
    watch.reads("hidden", {"small": {"0": 0}, "hidden": {"0": 0}})
    watch.look()
    assert found("small") == []
    ((check, evidence),) = found("large")
    assert check == "retention_unwatched"
    assert str(MOST_PARTITIONS) in evidence
    ((check, evidence),) = found("hidden")
    assert check == "retention_unwatched"
    assert evidence.endswith(": hidden")
    cluster.holds["hidden", "0"] = Held(0, 7)
    for partition in list(places)[5:]:
        del cluster.holds[partition]
    watch.reads("large", {"t": {str(p): 0 for p in range(5)}})
    watch.look()
    assert found("hidden") == found("large") == []


def test_a_topic_that_keeps_rows_for_ever_is_asked_about_no_oftener_than_others() -> None:
    cluster = Cluster({("compacted", "0"): Held(0, 1)})
    watch = Watch(cluster)
    watch.reads("one", {"compacted": {"0": 0}})
    watch.look()
    watch.look()
    assert len(cluster.asked_retention) == 1
    cluster.holds["new", "0"] = Held(0, 1)
    watch.reads("two", {"new": {"0": 0}})
    watch.look()
    assert cluster.asked_retention[1:] == [{"compacted", "new"}]
    watch.look(RETENTION_SECONDS)
    assert len(cluster.asked_retention) == 3


def test_a_configuration_that_is_not_told_costs_no_other_figure() -> None:
    cluster = Cluster({("t", "0"): Held(0, 9)})
    cluster.silent_about_retention = True
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 0}})
    watch.look()
    watch.look()
    assert watch.backlog("one") == 9
    assert len(cluster.asked_retention) == 2, "it is asked again"


def test_a_configuration_that_is_never_told_is_asked_for_ever_less_often_and_said() -> None:
    cluster = Cluster({("t", "0"): Held(0, 9)})
    cluster.silent_about_retention = True
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 0}})
    with structlog.testing.capture_logs() as logs:
        for _ in range(50):
            watch.look()
    assert len(cluster.asked_retention) <= 8
    assert [str(said["cause"]) for said in logs] == ["no answer"]
    cluster.silent_about_retention, cluster.kept = False, {"t": 3600.0}
    for _ in range(24):
        watch.look()
    assert losses(watch)[0][0] is not None, "two minutes later at most"


def unwatched(watch: Watch) -> list[str]:
    findings = watch.fleet.view(("shop", "one"), watch.now).findings
    return [one.evidence for one in findings if one.check == "retention_unwatched"]


def failed(cluster: Cluster) -> Watch:
    """A query that had read half of what is there, and was watched for a minute since it failed."""
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 50}})
    send(watch, watch.drivers["one"].terminated("java.io.IOException: x"))
    for _ in range(12):
        watch.look()
    return watch


def test_a_configuration_that_is_told_no_more_ends_no_alarm_and_has_a_finding() -> None:
    cluster = Cluster({("t", "0"): Held(10, 100)}, {"t": 3600.0})
    watch = failed(cluster)
    ((near, _),) = losses(watch)
    assert near == pytest.approx(3600.0, abs=120.0)
    cluster.kept["t"] = None
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            watch.look(RETENTION_SECONDS)
            assert unwatched(watch)[0].endswith("was known of it last: t")
    ((nearer, _),) = losses(watch)
    assert near - nearer == pytest.approx(3 * RETENTION_SECONDS, abs=10.0)
    assert [said["topics"] for said in logs] == [["t"]]
    cluster.kept["t"] = 7200.0
    watch.look(RETENTION_SECONDS)
    assert unwatched(watch) == []
    ((later, _),) = losses(watch)
    assert later - nearer == pytest.approx(3600.0 - RETENTION_SECONDS, abs=10.0)


@pytest.mark.parametrize(
    ("before", "then", "stands"),
    [
        (Held(10, 100), [Held(20, 120)], True),
        (Held(10, 100), [None, Held(10, 100)], True),  # not shown for a while
        (Held(10, 100), [Held(0, 100)], False),
        (Held(10, 100), [None, Held(0, 100)], False),
        (Held(0, 100), [Held(0, 100)], True),
        (Held(0, 100), [Held(0, 60)], False),
        (Held(0, 100), [None, Held(0, 60)], False),
        (Held(10, 100), [Held(10, 99)], True),  # cut by an election, and not made anew
    ],
)
def test_for_how_long_a_topic_kept_its_rows_is_no_word_on_one_made_anew(
    before: Held, then: list[Held | None], *, stands: bool
) -> None:
    cluster = Cluster({("t", "0"): before}, {"t": 3600.0})
    watch = failed(cluster)
    cluster.kept["t"] = None
    watch.look(RETENTION_SECONDS)
    for holds in then:
        cluster.holds = {} if holds is None else {("t", "0"): holds}
        watch.look()
    watch.look()
    assert (losses(watch)[0][0] is not None) is stands
    assert bool(unwatched(watch)) is stands


@pytest.mark.parametrize("taken", ["before", "between"])
def test_what_is_known_of_a_topic_outlives_the_time_in_which_nobody_reads_it(taken: str) -> None:
    """As between two runs that end when all is read, while another query keeps brokers asked."""
    cluster = Cluster({("t", "0"): Held(10, 100), ("u", "0"): Held(0, 9)}, {"t": 3600.0, "u": 9.0})
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 50}})
    watch.reads("two", {"u": {"0": 9}})
    watch.look()
    if taken == "before":
        cluster.kept["t"] = None
        watch.look(RETENTION_SECONDS)
    send(watch, watch.drivers["one"].terminated())
    watch.look(RETENTION_SECONDS)
    assert cluster.asked_retention[-1] == {"u"}
    cluster.kept["t"] = None
    watch.look(RETENTION_SECONDS)
    watch.drivers["one"].run_id = "next"
    watch.reads("one", {"t": {"0": 50}})
    cluster.silent_about_retention = taken == "before"
    watch.look()
    assert unwatched(watch)[0].endswith("was known of it last: t")
    send(watch, watch.drivers["one"].terminated("java.io.IOException: x"))
    for _ in range(12):
        watch.look()
    ((near, _),) = losses(watch)
    assert near is not None


def test_a_topic_that_nobody_reads_any_more_is_named_no_more() -> None:
    watch = Watch(Cluster({("t", "0"): Held(0, 9), ("u", "0"): Held(0, 9)}, {"t": 9.0, "u": None}))
    watch.reads("one", {"t": {"0": 0}})
    watch.reads("two", {"u": {"0": 0}})
    with structlog.testing.capture_logs() as logs:
        watch.look()
        send(watch, watch.drivers["two"].terminated())
        for _ in range(10):
            watch.look()
    assert [said["topics"] for said in logs] == [["u"]]


def test_topics_of_which_brokers_tell_nothing_are_named_once() -> None:
    """Each for its own reason, and what they do tell of the others is shown."""
    cluster = Cluster({("t", "0"): Held(0, 9), ("u", "0"): Held(0, 9)}, {"t": 60.0, "u": None})
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 0}})
    watch.reads("two", {"u": {"0": 0}})
    watch.reads("three", {"hidden": {"0": 0}})
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            watch.look(RETENTION_SECONDS)
        there = cluster.holds.pop(("t", "0"))
        watch.look()
        cluster.holds["t", "0"] = there
        watch.look()
        del cluster.holds["t", "0"]
        watch.look()
    assert [said["topics"] for said in logs] == [["hidden"], ["u"], ["t"]]
    assert "DESCRIBE)" in logs[0]["event"]
    assert "DESCRIBE_CONFIGS" in logs[1]["event"]
    assert watch.backlog("two") == 9


def losses(watch: Watch) -> list[tuple[float | None, int]]:
    """By partition, until when retention deletes unread rows, and how many it has."""
    view = watch.fleet.view(("shop", "one"), watch.now)
    found = {one.partition: one for one in view.partitions}
    return [(one.retention_loss_seconds, one.lost_rows) for _, one in sorted(found.items())]


def test_a_partition_without_a_leader_silences_no_other() -> None:
    """Of a query that failed: what the others lose is told on, and of this one what was known."""
    cluster = Cluster({("t", "0"): Held(0, 100), ("t", "1"): Held(0, 100)}, {"t": 3600.0})
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 50, "1": 60}})
    send(watch, watch.drivers["one"].terminated("java.io.IOException: x"))
    for _ in range(12):
        watch.look()
    (near, _), before = losses(watch)
    assert near == pytest.approx(3600.0, abs=120.0)
    cluster.leaderless = {("t", "1")}
    with structlog.testing.capture_logs() as logs:
        for _ in range(59):
            watch.look()
    (nearer, _), after = losses(watch)
    assert near - nearer == pytest.approx(295.0, abs=10.0)
    assert after == (pytest.approx(before[0] - 300.0, abs=10.0), before[1])
    assert watch.watch.up is True
    assert [said["queries"] for said in logs] == [["shop/one"]]
    cluster.holds["t", "0"] = Held(80, 100)
    watch.look()
    assert losses(watch) == [(0.0, 30), (pytest.approx(before[0] - 300.0, abs=10.0), 0)]
    cluster.leaderless = set()
    watch.look()
    (again, _) = losses(watch)[1]
    assert again == pytest.approx(nearer, abs=10.0), "as old as it was"


def test_a_query_whose_every_partition_is_without_a_leader_is_named_too() -> None:
    cluster = Cluster({("t", "0"): Held(0, 50), ("u", "0"): Held(0, 9)})
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 50}})
    watch.reads("two", {"u": {"0": 0}})
    watch.look()
    cluster.holds["t", "0"] = Held(80, 100)
    watch.look()
    cluster.leaderless = {("t", "0")}
    with structlog.testing.capture_logs() as logs:
        for _ in range(40):
            watch.look()
    assert losses(watch) == [(0.0, 30)]
    assert [said["queries"] for said in logs] == [["shop/one"]]
    assert watch.backlog("two") == 9


def test_what_some_partitions_hold_is_not_taken_for_the_sum_of_all() -> None:
    cluster = Cluster({("t", "0"): Held(0, 100), ("t", "1"): Held(0, 100)})
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 50, "1": 60}})
    watch.look()
    assert waiting(watch) == (90, [50, 40], None)
    cluster.leaderless = {("t", "1")}
    cluster.holds["t", "0"] = Held(0, 170)
    watch.look()
    assert waiting(watch)[:2] == (90, [120, 40])
    batch(watch, (50, 60), (170, 60), (170, 100))
    watch.look()
    assert waiting(watch)[:2] == (40, [0, 40])


def test_a_topic_that_is_gone_is_no_partition_without_a_leader() -> None:
    """Another cluster's of the same names may have fewer partitions: nothing is told of any."""
    cluster = Cluster({("t", "0"): Held(0, 100)})
    watch = Watch(cluster)
    watch.reads("one", {"t": {"0": 50, "1": 60}})
    watch.look()
    assert watch.views("one") == 0


class Admin:
    """A client whose answers about some partitions are as given; of others there is none."""

    def __init__(self, answer: Callable[[Any], Future[Any]]) -> None:
        self.answer = answer
        self.list_topics = lambda timeout: SimpleNamespace(topics={})
        self.poll = lambda timeout: 0

    def list_offsets(self, marks: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        return {mark: self.answer(mark) for mark in marks}

    def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Future[Any]]:
        return {resource: self.answer(resource) for resource in resources}


def told(offset: int) -> Future[Any]:
    answer: Future[Any] = Future()
    answer.set_result(SimpleNamespace(offset=offset))
    return answer


def refused(code: int) -> Future[Any]:
    answer: Future[Any] = Future()
    answer.set_exception(KafkaException(KafkaError(code)))
    return answer


def answering(monkeypatch: pytest.MonkeyPatch, answer: Callable[[Any], Future[Any]]) -> Brokers:
    monkeypatch.setattr(kafka, "REQUEST_SECONDS", 0.1)
    monkeypatch.setattr(kafka, "WAIT_SECONDS", 0.2, raising=False)
    brokers = Brokers("127.0.0.1:1", {})
    brokers._admin = Admin(answer)
    return brokers


PLACES = [("t", "0"), ("t", "1")]


def test_errors_that_nobody_asks_for_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client has one or two a second while no broker answers, and keeps each to be told."""
    monkeypatch.setattr(kafka, "REQUEST_SECONDS", 0.1)
    brokers = Brokers("127.0.0.1:1,127.0.0.1:2", {})
    client = brokers._admin
    until(lambda: len(client) > 8, "errors to be told", seconds=60)
    with pytest.raises(KafkaUnavailable):
        brokers.partitions(["t"])
    assert len(client) <= 8


@contextmanager
def listening(speak: Callable[[socket.socket], object]) -> Iterator[str]:
    """The address of someone who speaks so to whoever connects, one by one, and hangs up."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:  # it is shut down
                    return
                with connection, suppress(OSError):
                    connection.settimeout(10.0)
                    speak(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)  # ends ``accept``
        thread.join(20)


def web(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


TLS = {"security.protocol": "ssl"}
OIDC = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "weir-client",
    "sasl.oauthbearer.client.secret": "hunter2",
    "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token?pass=hunter2",
}


@pytest.mark.parametrize(
    ("servers", "options", "said"),
    [
        ("127.0.0.1:1", {}, "Connection refused"),
        ("no-broker.invalid:9092", {}, "Failed to resolve 'no-broker.invalid:9092'"),
        (web, TLS, "SSL handshake failed"),
        ("127.0.0.1:1", OIDC, "Failed to acquire SASL *** token"),
    ],
    ids=["refused", "name", "tls", "token"],
)
def test_why_brokers_cannot_be_reached_is_told_and_no_option_of_the_client(
    monkeypatch: pytest.MonkeyPatch,
    servers: str | Callable[[socket.socket], None],
    options: dict[str, str],
    said: str,
) -> None:
    """The client's own word for all of it is "Broker transport failure"."""
    monkeypatch.setattr(kafka, "REQUEST_SECONDS", 1.0)
    known = nullcontext(servers) if isinstance(servers, str) else listening(servers)
    with known as address:
        brokers = Brokers(address, options)

        def cause() -> str | None:
            with pytest.raises(KafkaUnavailable) as caught:
                brokers.partitions(["t"])
            return str(caught.value) if said in str(caught.value) else None

        told = until(cause, said, seconds=60)
    assert told.startswith(f"{address}: ")
    assert len(told.splitlines()) == 1
    assert not [value for value in options.values() if value in told]
    assert "hunter2" not in told


@pytest.mark.parametrize("options", [{}, {"allow.auto.create.topics": "true"}], ids=str)
def test_asking_for_topics_makes_none(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    """Older brokers make one anew that is deleted while they list all (KAFKA-10606)."""
    monkeypatch.setattr(kafka, "REQUEST_SECONDS", 1.0)
    asked: list[int] = []

    def broker(connection: socket.socket) -> None:
        """It knows Metadata up to version 4, whose last field is whether topics may be made.

        https://kafka.apache.org/protocol: ApiVersions (18) has its versions, which it tells.
        """
        while size := connection.recv(4, socket.MSG_WAITALL):
            request = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
            kind, _, correlation = struct.unpack_from(">hhi", request)
            if kind == 3 and request[-5:-1] == b"\xff" * 4:  # for all topics
                asked.append(request[-1])
            if kind != 18:
                continue
            known = b"".join(struct.pack(">hhhx", *one) for one in ((3, 0, 4), (18, 0, 3)))
            answer = struct.pack(">ihB", correlation, 0, 3) + known + bytes(5)
            connection.sendall(struct.pack(">i", len(answer)) + answer)

    with listening(broker) as address:
        brokers = Brokers(address, options)

        def ask() -> bool:
            with suppress(KafkaUnavailable):
                brokers.partitions(["t"])
            return bool(asked)

        until(ask, "a request for metadata", seconds=60)
    assert set(asked) == {0}


def test_a_reason_that_is_over_or_another_s_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(brokers: Brokers, code: int) -> str:
        def fail(timeout: float) -> None:
            raise KafkaException(KafkaError(code))

        monkeypatch.setattr(brokers._admin, "list_topics", fail)
        with pytest.raises(KafkaUnavailable) as caught:
            brokers.partitions(["t"])
        return str(caught.value)

    reason = time.monotonic(), KafkaError(KafkaError._SSL, "handshake failed")
    # A partition that nobody answers for may be behind what failed.
    partly = answering(monkeypatch, lambda mark: told(5) if mark.partition else Future())
    partly._reasons.append(reason)
    partly.held(PLACES)
    assert failing(partly, KafkaError._TRANSPORT).endswith("; handshake failed")
    # A broker that answers tells by itself what is wrong.
    assert "handshake" not in failing(partly, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    wholly = answering(monkeypatch, lambda _: told(5))
    wholly._reasons.append(reason)
    wholly.held(PLACES)
    assert "handshake" not in failing(wholly, KafkaError._TRANSPORT)


@pytest.mark.parametrize(
    ("age_seconds", "answered", "told_still"),
    [
        (REASON_SECONDS - 5.0, True, True),
        (REASON_SECONDS + 5.0, True, False),
        (3600.0, False, True),  # as of a token, which is told once
    ],
)
def test_an_old_reason_is_over_once_any_broker_answers(
    monkeypatch: pytest.MonkeyPatch, age_seconds: float, answered: bool, told_still: bool
) -> None:
    """Though a partition stays without a leader, so that never all is answered."""
    brokers = answering(monkeypatch, lambda mark: told(5) if mark.partition else Future())
    reason = KafkaError(KafkaError._SSL, "handshake failed")
    brokers._reasons.append((time.monotonic() - age_seconds, reason))
    if answered:
        brokers.partitions(["t"])
        brokers.held(PLACES)

    def fail(timeout: float) -> Any:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    monkeypatch.setattr(brokers._admin, "list_topics", fail)
    for _ in range(2):
        with pytest.raises(KafkaUnavailable) as caught:
            brokers.partitions(["t"])
        assert ("handshake failed" in str(caught.value)) == told_still


@pytest.mark.parametrize(
    ("options", "text", "told"),
    [
        ({"sasl.password": "pass"}, "trespass", "tres***"),
        ({"sasl.password": "pass", "ssl.key.password": "pass-2"}, "pass-2", "***"),
        ({"sasl.oauthbearer.assertion.private.key.passphrase": "x1"}, "by x1y", "by ***y"),
        ({"sasl.username": "weir"}, "user weir, weird", "user ***, weird"),
        (
            {"security.protocol": "ssl"},
            'ssl://b:1 "ssl.ca.location"',
            '***://b:1 "ssl.ca.location"',
        ),
        (
            {"client.id": "kafka"},
            "kafka-1.prod:9092 a.kafka kafka.",
            "kafka-1.prod:9092 a.kafka ***.",
        ),
        ({"ssl.ca.location": "/etc/ca.pem"}, "no /etc/ca.pem: gone", "no ***: gone"),
        ({"ssl.crl.location": ""}, "a\x1b[2Jb\nc", "a\ufffd[2Jb"),
    ],
)
def test_what_the_client_says_holds_no_option_s_value(
    options: dict[str, str], text: str, told: str
) -> None:
    assert kafka._said(KafkaException(KafkaError(KafkaError._FAIL, text)), options) == told


@pytest.mark.parametrize(
    "key", ["default.topic.config", "error_cb", "logger", "oauth_cb", "stats_cb", "throttle_cb"]
)
def test_options_that_only_python_can_give_are_named(tmp_path: Path, key: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"client.id=weir\n{key}=hunter2\n")
    with pytest.raises(ValueError, match=rf"client\.properties:2: {key} takes") as caught:
        kafka.read_options(file)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "key", ["oauth_cb", "throttle_cb", "on_delivery", "log_cb", "security.protocol", "partitioner"]
)
def test_an_option_that_the_client_refuses_is_named_without_its_value(key: str) -> None:
    with pytest.raises(ValueError, match=f"^kafka_options_file: .*{key}") as caught:
        Brokers("127.0.0.1:1", {key: "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_a_broker_that_hangs_did_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = answering(monkeypatch, lambda _: Future())
    with pytest.raises(KafkaUnavailable, match=r"127\.0\.0\.1:1: no answer"):
        brokers.held(PLACES)
    with pytest.raises(KafkaUnavailable, match="no answer"):
        brokers.retention_seconds(["t"])


def test_partitions_of_a_broker_that_hangs_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = answering(monkeypatch, lambda mark: told(5) if mark.partition else Future())
    assert brokers.held(PLACES) == {("t", "1"): Held(5, 5, 5)}


def test_an_offset_that_is_none_is_not_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gives the offset it was asked with where a broker fell silent on the way."""
    brokers = answering(monkeypatch, lambda mark: told(5 if mark.partition else -1001))
    assert brokers.held(PLACES) == {("t", "1"): Held(5, 5, 5)}
    brokers = answering(monkeypatch, lambda _: told(-1001))
    with pytest.raises(KafkaUnavailable, match="no answer"):
        brokers.held(PLACES)


def test_a_configuration_that_may_not_be_read_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = answering(monkeypatch, lambda _: refused(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert brokers.retention_seconds(["t"]) == {"t": None}
    brokers = answering(monkeypatch, lambda _: refused(KafkaError._UNSUPPORTED_FEATURE))
    assert brokers.retention_seconds(["t"]) == {"t": None}
    brokers = answering(monkeypatch, lambda _: refused(KafkaError._TIMED_OUT))
    with pytest.raises(KafkaUnavailable):
        brokers.retention_seconds(["t"])


@pytest.mark.parametrize("value", [None, "for ever"])
def test_a_retention_without_a_number_is_not_told(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    answer: Future[Any] = Future()
    answer.set_result({"retention.ms": SimpleNamespace(value=value)})
    brokers = answering(monkeypatch, lambda _: answer)
    assert brokers.retention_seconds(["t"]) == {"t": None}


def test_while_brokers_hang_they_are_asked_ever_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = answering(monkeypatch, lambda _: Future())
    watch = Watch(cast("Cluster", brokers))
    monkeypatch.setattr(brokers, "partitions", lambda _: PLACES)
    watch.reads("one", {"t": {"0": 0}})
    watch.look()
    assert watch.watch.up is False
    due = watch.watch._due_time
    assert due > watch.now + 5.0
    watch.look(due - watch.now)
    assert watch.watch._due_time - watch.now > 10.0


def test_what_was_read_while_brokers_were_asked_tells_nothing_of_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A transaction ended meanwhile, and a query that reads what is committed read its rows."""
    cluster = Cluster({("t", "0"): Held(0, 150, 100)})
    watch = Watch(cluster)
    watch.reads("some", {"t": {"0": 100}})
    held = cluster.held

    def slow(places: Iterable[Place]) -> dict[Place, Held]:
        answer = held(places)
        watch.reads("some", {"t": {"0": 150}})
        return answer

    monkeypatch.setattr(cluster, "held", slow)
    watch.look()
    monkeypatch.setattr(cluster, "held", held)
    cluster.holds = {("t", "0"): Held(0, 1_000, 150)}
    watch.look()
    assert watch.backlog("some") == 0
