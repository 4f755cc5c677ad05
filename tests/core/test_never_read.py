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


def test_a_query_of_it_alone_is_let_be() -> None:
    one = world()
    for _ in range(12):
        assert corrected(one, control="advice").grants == []
    assert one.view().limit.reason == "hold:missing"


def table(
    world: World, limit: int | None, arriving: int, others: int = 500, fixed: float = 1.0
) -> Receipt:
    """A batch of Kafka's rows, and of a table of which nobody tells what it takes."""
    rows = arriving if limit is None else min(limit, arriving)
    entry: dict[str, Any] = {"unit": "files", "limit": None, "configured": None, "control": "live"}
    return world.send(
        world.driver.progress(
            rows + others,
            fixed + (rows + others) / 10_000.0,
            limits=[
                {"source": 0, "unit": "rows", "limit": limit, "configured": None,
                 "backlog": arriving - rows, "control": "live"},
                {"source": 1, **entry},
            ],
            sources=[
                {"description": "Rows", "numInputRows": rows},
                {"description": "Table", "numInputRows": others},
            ],
        )
    )  # fmt: skip


@pytest.mark.parametrize("restarts", [False, True])
def test_a_source_of_which_nobody_tells_what_it_takes_freezes_no_other(restarts: bool) -> None:
    """A table's change feed: its limit is left as it is, and the other's follows the load."""
    one, limit, waiting = world(), None, 40_000
    for _ in range(5):
        table(one, None, 10_000)
    if restarts:
        one.driver.run_id = "r-2"
        for grant in one.send(one.driver.started()).grants:
            limit = grant.limit
        assert limit is not None
    for _ in range(60):
        grants = table(one, limit, waiting).grants
        took = waiting if limit is None else min(limit, waiting)
        waiting += round(8500 * (1.0 + took / 10_000)) - took
        limit = grants[0].limit if grants else limit
        assert [grant.source for grant in grants] in ([], [0])
    # 8,500 rows a second of 10,000, and a fixed second: batches of 6 s and more digest them.
    assert limit is not None
    assert limit > 55_000


def test_beside_one_that_takes_most_of_each_batch_another_keeps_up_all_the_same() -> None:
    """What it takes comes with the time, too: 4,500 rows a second beside 500 of Kafka's."""
    one, limit, seconds = World(), None, 5.0
    waiting = 2500
    for _ in range(150):
        others = round(4500 * seconds)
        took = waiting if limit is None else min(limit, waiting)
        grants = table(one, limit, waiting, others, 4.0).grants
        limit = grants[0].limit if grants else limit
        seconds = 4.0 + (took + others) / 10_000.0
        waiting += round(500 * seconds) - took
    assert waiting < 20 * 500


def test_what_a_batch_reads_at_most_is_not_known_beside_one_without_a_limit() -> None:
    one = world()
    for _ in range(10):
        table(one, 5000, 10_000, 90_000)
    assert one.fleet._roster["shop", "orders"].limit_rows() is None
    corrected(one, limit=5000)  # one that never gave a row, and has none, gives none now
    assert one.fleet._roster["shop", "orders"].limit_rows() is not None
