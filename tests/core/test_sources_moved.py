"""A job that reads its sources in another order, or others, keeps what was learned of each."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet
from agent.core.policy import Policy
from tests.core.events import START_TIME, Driver

KEY = ("shop", "orders")
ROWS_PER_FILE = {"large": 1000, "small": 10, "": 100}


class World:
    """A fleet and one driver that reads directories of files, of so many rows each."""

    def __init__(self) -> None:
        self.fleet = Fleet(Policy(), started_time=START_TIME - 1000)
        self.driver = Driver(unit="files")

    def send(self, *events: dict[str, Any]) -> Any:
        request = decode_request(self.driver.body(*events))
        return self.fleet.receive(request, self.driver.time + 0.05)

    def entry(self, index: int, name: str, **more: Any) -> dict[str, Any]:
        return {"source": index, "unit": "files", "limit": 20, "configured": 20, "backlog": 500,
                "control": "live", "identity": name and f"id-{name}", **more}  # fmt: skip

    def run(self, run_id: str, names: list[str], batches: int, *, query_id: str = "q-1") -> Any:
        """Starts it and runs so many batches; the answer to its start."""
        self.driver.run_id, self.driver.query_id = run_id, query_id
        started = self.send(self.driver.started())
        for _ in range(batches):
            rows = [20 * ROWS_PER_FILE[name] for name in names]
            self.send(
                self.driver.progress(
                    sum(rows),
                    1.0 + sum(rows) / 2000.0,
                    limits=[self.entry(i, name, admitted=20) for i, name in enumerate(names)],
                    sources=[
                        {"description": f"Files[{name}]", "numInputRows": row}
                        for name, row in zip(names, rows, strict=True)
                    ],
                )
            )
        self.send(self.driver.heartbeat(limits=[self.entry(i, n) for i, n in enumerate(names)]))
        return started

    def ratios(self) -> list[float | None]:
        return [source.ratio for source in self.fleet._roster[KEY].sources]


@pytest.mark.parametrize("query_id", ["q-1", "q-2"])
def test_ratios_and_grants_follow_the_source_not_its_place(query_id: str) -> None:
    world = World()
    world.run("r-1", ["large", "small"], 12)
    assert world.ratios() == pytest.approx([1000.0, 10.0])
    world.send(world.driver.terminated())
    started = world.run("r-2", ["small", "large"], 0, query_id=query_id)
    # Before the driver has said what it reads, each grant says which source it means.
    assert {grant.identity: grant.source for grant in started.grants} == {
        "id-large": 0,
        "id-small": 1,
    }
    assert world.ratios() == pytest.approx([10.0, 1000.0])
    (receipt,) = [world.send(world.driver.heartbeat())]
    assert {grant.identity: grant.source for grant in receipt.grants} == {
        "id-small": 0,
        "id-large": 1,
    }
    large = {grant.identity: grant.limit for grant in receipt.grants}["id-large"]
    assert large == {grant.identity: grant.limit for grant in started.grants}["id-large"]


def test_a_source_that_the_job_no_longer_reads_is_granted_nothing() -> None:
    world = World()
    world.run("r-1", ["large", "small"], 12)
    world.send(world.driver.terminated())
    world.run("r-2", ["small"], 6)
    receipt = world.send(world.driver.heartbeat())
    assert [grant.source for grant in receipt.grants] == [0]
    assert world.ratios() == pytest.approx([10.0])
    view = world.fleet.view(KEY, world.driver.time)
    assert len(view.sources) == 1


def test_a_source_put_before_the_others_takes_nothing_of_theirs() -> None:
    world = World()
    world.run("r-1", ["large"], 12)
    world.send(world.driver.terminated())
    world.run("r-2", ["small", "large"], 0)
    assert world.ratios() == [None, pytest.approx(1000.0)]


@pytest.mark.parametrize("names", [["", "large"], ["large", ""]])
def test_a_source_without_a_fingerprint_takes_nothing_of_one_that_has_one(
    names: list[str],
) -> None:
    world = World()
    world.run("r-1", names, 12)
    world.send(world.driver.terminated())
    world.run("r-2", names[::-1], 0)
    learned = dict(zip(names[::-1], world.ratios(), strict=True))
    assert learned == {"large": pytest.approx(1000.0), "": None}
    world.run("r-3", names[::-1], 0)
    assert dict(zip(names[::-1], world.ratios(), strict=True)) == learned


def test_a_source_that_stays_keeps_what_was_learned_before_it_had_a_fingerprint() -> None:
    world = World()
    world.run("r-1", ["", "large"], 12)
    world.send(world.driver.terminated())
    world.run("r-2", ["small", "large"], 0)
    assert world.ratios() == pytest.approx([100.0, 1000.0])


def test_two_sources_of_one_fingerprint_stay_where_they_are() -> None:
    world = World()
    world.run("r-1", ["small", "small", "large"], 12)
    world.send(world.driver.terminated())
    world.run("r-2", ["large", "small", "small"], 0)
    ratios = world.ratios()
    assert ratios[0] == pytest.approx(1000.0)
    assert ratios[1] == pytest.approx(10.0)


def test_a_driver_that_tells_no_fingerprint_is_known_by_the_place_as_before() -> None:
    world = World()
    world.entry = lambda index, name, **more: {  # type: ignore[method-assign]
        "source": index, "unit": "files", "limit": 20, "configured": 20, "backlog": 500,
        "control": "live", **more}  # fmt: skip
    world.run("r-1", ["large", "small"], 12)
    world.send(world.driver.terminated())
    started = world.run("r-2", ["large", "small"], 0)
    assert world.ratios() == pytest.approx([1000.0, 10.0])
    assert {grant.source: grant.identity for grant in started.grants} == {0: "", 1: ""}
