"""A limit of nothing (``ReadMaxRows(0)``): its owner's word."""

from __future__ import annotations

import pytest

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet
from agent.core.policy import Policy, QueryPolicy
from tests.core.events import START_TIME, Driver


@pytest.mark.parametrize("minimum", [1, 500])
@pytest.mark.parametrize("seconds", [0.5, 8.0, 60.0])
def test_a_limit_of_zero_is_left_as_it_is(minimum: int, seconds: float) -> None:
    policy = Policy(default=QueryPolicy(minimum_limit=minimum))
    fleet, driver = Fleet(policy, started_time=START_TIME - 1000), Driver()
    none = {"limit": 0, "next_limit": 0, "configured": 0}
    for run in range(2):
        driver.run_id, driver.time = f"r-{run}", driver.time + 60.0
        events = [driver.started()]
        for rows in (100, 200, 100, 300, 100, 200):
            limits = [{"source": 0, "unit": "rows", "backlog": 1000, **none}]
            events.append(driver.progress(rows, seconds, limits=limits))
        receipt = fleet.receive(decode_request(driver.body(*events)), driver.time)
        assert receipt.refused == []
        assert receipt.grants == []


def test_no_advice_to_go_beyond_a_limit_of_zero_which_is_never_exceeded() -> None:
    fleet, driver = Fleet(Policy(), started_time=START_TIME - 1000), Driver()
    none = {"source": 0, "unit": "rows", "limit": 0, "configured": 0, "backlog": 100, "admitted": 0}
    some = {"source": 1, "unit": "rows", "limit": 500, "configured": 500, "backlog": 100_000}
    parts = [{"description": name, "numInputRows": rows} for name, rows in (("a", 0), ("b", 500))]
    for _ in range(8):
        event = driver.progress(500, 1.0, limits=[none, some], sources=parts)
        fleet.receive(decode_request(driver.body(event)), driver.time)
    (advice,) = fleet.view(("shop", "orders"), driver.time).advice
    assert advice.startswith("source 1: its job configured 500 rows")
