"""A source that was never read from, and has nothing, keeps its limit; the others are steered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.core.policy import Policy, QueryPolicy
from tests.core.test_fleet import World

if TYPE_CHECKING:
    from agent.core.fleet import Receipt


def corrected(
    world: World, *, limit: int | None = None, files: int = 0, control: str = "live"
) -> Receipt:
    """A batch of rows at 2,000 a second, and of a directory for corrections that seldom come."""
    rows = 100_000 if limit is None else limit
    entry: dict[str, Any] = {"unit": "files", "limit": 20, "configured": 20, "control": "live"}
    return world.send(
        world.driver.progress(
            rows,
            rows / 2000.0,
            limits=[
                {"source": 0, "unit": "rows", "limit": limit, "configured": None,
                 "backlog": 10**9, "control": control},
                {"source": 1, **entry, "backlog": files, "admitted": 0},
            ],
            sources=[
                {"description": "Rows", "numInputRows": rows},
                {"description": "Corrections", "numInputRows": 0},
            ],
        )
    )  # fmt: skip


def world() -> World:
    return World(Policy(default=QueryPolicy(deadline_seconds=60.0)))


def test_the_others_are_steered() -> None:
    one = world()
    grants = [corrected(one).grants for _ in range(3)][-1]
    (grant,) = grants
    assert grant.source == 0
    assert grant.limit is not None
    for _ in range(20):
        (grant,) = corrected(one, limit=grant.limit).grants
    assert one.view().batch_seconds == pytest.approx(5.0, rel=0.2)
    assert one.view().sources[1].limit == 20


def test_a_run_s_first_batch_is_limited_beside_it() -> None:
    one = world()
    for _ in range(3):
        corrected(one)
    one.driver.run_id = "r-2"
    (grant,) = one.send(one.driver.started()).grants
    assert (grant.source, grant.reason) == (0, "first_batch")
    assert (grant.limit or 10**9) < 50_000


@pytest.mark.parametrize("told", [{"files": 3}, {"control": "advice"}])
def test_what_waits_and_is_not_known_and_a_query_of_it_alone_are_let_be(
    told: dict[str, Any],
) -> None:
    one = world()
    for _ in range(12):
        assert corrected(one, **told).grants == []
    assert one.view().limit.reason == "hold:missing"
