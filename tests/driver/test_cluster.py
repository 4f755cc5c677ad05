"""The cluster's side in the driver: how often it looks, and how long an order holds."""

from __future__ import annotations

from typing import Any

import pytest

from spark_listener.cluster import Cluster
from spark_listener.complaints import Complaints
from spark_listener.replies import ExecutorsOrder, parse_reply

STAGES = [{"tasks": 1}]


class Stages:
    """A store of stages: what it holds, and how often it was asked."""

    def __init__(self) -> None:
        self.found, self.looks = STAGES, 0

    def stages_of(self, run_id: str, batch_id: int) -> Any:
        self.looks += 1
        return self.found


class Executors:
    def __init__(self) -> None:
        self.asked: list[int | None] = []
        self.now, self.fails = 4, False

    def slots(self) -> int:
        return self.now

    def ask(self, wanted: int | None) -> None:
        if self.fails:
            raise RuntimeError("the JVM is gone")
        self.asked.append(wanted)


class Bench:
    def __init__(self) -> None:
        self.time, self.stages, self.executors = 100.0, Stages(), Executors()
        self.complaints = Complaints()
        self.cluster = Cluster(
            None,
            None,  # type: ignore[arg-type]
            every_seconds=5.0,
            complaints=self.complaints,
            clock=lambda: self.time,
        )
        self.cluster._joined = True
        self.cluster._stages = self.stages  # type: ignore[assignment]
        self.cluster._executors = self.executors  # type: ignore[assignment]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_stages_are_looked_at_now_and_then_and_slots_with_every_batch(bench: Bench) -> None:
    for batch in range(100):
        work = bench.cluster.work("r", batch)
        assert work is not None
        assert (work["slots"], work["steady"]) == (4, True)
        bench.time += 0.5
    assert bench.stages.looks == 10


def test_where_stages_cannot_be_had_they_are_asked_for_ever_less_often(bench: Bench) -> None:
    bench.stages.found = None
    for batch in range(1200):
        assert bench.cluster.work("r", batch) == {"slots": 4, "steady": True}
        bench.time += 0.5
    assert bench.stages.looks == 22  # in ten minutes, at last every half minute


@pytest.mark.parametrize("takes", [0.25, 5.0])
def test_looking_at_stages_takes_no_more_than_a_share_of_the_time(
    bench: Bench, takes: float
) -> None:
    """Spark's store sorts all tasks of a stage for it, and all queries wait meanwhile."""
    begun, looked = bench.time, bench.stages.stages_of

    def slow(run_id: str, batch_id: int) -> Any:
        bench.time += takes
        return looked(run_id, batch_id)

    bench.stages.stages_of = slow  # type: ignore[method-assign]
    batch = 0
    while bench.time < begun + 300.0:
        batch += 1
        for run in ("a", "b", "c"):
            bench.cluster.work(run, batch)
        bench.time += 0.5
    assert 24.0 <= bench.stages.looks * takes <= 30.0 + takes


def test_a_batch_during_which_slots_came_is_not_steady(bench: Bench) -> None:
    bench.cluster.work("r", 0)
    bench.time += 10
    bench.executors.now = 6
    assert bench.cluster.work("r", 1) == {"slots": 6, "steady": False}
    assert bench.cluster.work("r", 2) == {"slots": 6, "steady": True, "stages": STAGES}


def test_an_order_holds_as_long_as_it_says(bench: Bench) -> None:
    bench.cluster.steer()
    assert bench.executors.asked == []
    bench.cluster.take(ExecutorsOrder(3, 60.0))
    bench.cluster.steer()
    bench.time += 61
    bench.cluster.steer()
    assert bench.executors.asked == [3]  # and stays, as nobody says otherwise
    bench.cluster.leave()
    assert bench.executors.asked == [3, None]


def test_what_is_given_back_is_so_until_another_order(bench: Bench) -> None:
    """Where control alone was withdrawn the observer goes on, and an order may still hold."""
    bench.cluster.take(ExecutorsOrder(3, 60.0))
    bench.cluster.give_back()
    bench.time += 1e6
    bench.cluster.steer()
    assert bench.executors.asked == [None, None]
    bench.cluster.take(ExecutorsOrder(3, 60.0))
    bench.cluster.steer()
    assert bench.executors.asked == [None, None, 3]


def test_giving_back_waits_as_well_for_a_cluster_manager_that_hangs(bench: Bench) -> None:
    def hang(_: int | None) -> None:
        bench.time += 120.0
        raise RuntimeError("no answer")

    ask, bench.executors.ask = bench.executors.ask, hang  # type: ignore[method-assign]
    bench.cluster.give_back()
    bench.executors.ask = ask  # type: ignore[method-assign]
    bench.cluster.give_back()
    assert bench.executors.asked == []
    bench.time += 1200.0
    bench.cluster.steer()
    assert bench.executors.asked == [None]


def test_nothing_is_raised_into_the_job(bench: Bench) -> None:
    bench.executors.fails = True
    bench.cluster.take(ExecutorsOrder(3, 60.0))
    bench.cluster.steer()
    bench.cluster.leave()
    bench.cluster.join(object())  # there already
    fresh = Cluster(None, None, every_seconds=5.0, complaints=bench.complaints)  # type: ignore[arg-type]
    fresh.join(object())  # no SparkContext at all
    assert fresh.work("r", 1) is None
    assert fresh.standing() is None
    assert bench.complaints.total == 4


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"wanted": 3, "expires_seconds": 60}, ExecutorsOrder(3, 60.0)),
        ({"wanted": None, "expires_seconds": 1e9}, ExecutorsOrder(None, 3600.0)),
        ({"wanted": 0, "expires_seconds": 60}, None),
        ({"wanted": -1, "expires_seconds": 60}, None),
        ({"wanted": 2**31, "expires_seconds": 60}, None),
        ({"wanted": True, "expires_seconds": 60}, None),
        ({"wanted": "3", "expires_seconds": 60}, None),
        ({"wanted": 3}, None),
        ({"wanted": 3, "expires_seconds": 0}, None),
        ({"expires_seconds": 60}, None),
        ([], None),
        (None, None),
    ],
)
def test_an_order_that_makes_no_sense_is_none(said: Any, found: Any) -> None:
    import json

    body = json.dumps({"acknowledged": 1, "executors": said}).encode()
    assert parse_reply(body).executors == found


def test_a_cluster_manager_that_hangs_takes_a_tenth_of_the_time_and_no_more(bench: Bench) -> None:
    def hang(_: int | None) -> None:
        bench.time += 120.0
        raise RuntimeError("no answer")

    bench.executors.ask = hang  # type: ignore[method-assign]
    begun, hung = bench.time, 0.0
    while bench.time < begun + 12_000.0:
        bench.cluster.take(ExecutorsOrder(5, 60.0))
        before = bench.time
        bench.cluster.steer()
        hung += bench.time - before
        bench.time += 1.0
    assert hung == pytest.approx(1_200.0, rel=0.02)
