"""A query that reads a source with a limit and one without: what grows is what no limit holds."""

from __future__ import annotations

import pytest

from agent.core.policy import Policy, QueryPolicy
from tests.core.test_fleet import World

LIMIT = 2000
DEADLINE = Policy(default=QueryPolicy(deadline_seconds=120.0, mode="dry-run"))


def course(later: float) -> list[tuple[float, str]]:
    """Of thirty batches those up to the deadline: their seconds, and the phase after each.

    The one source always has more than its limit; at the other arrive 200 rows/s, from batch 20 on
    ``later``, and a batch takes them all.
    """
    world, told, seconds = World(DEADLINE), [], 7.0
    for number in range(30):
        free = int((200.0 if number < 20 else later) * seconds)
        seconds = 1.0 + (LIMIT + free) * 0.0015
        if seconds > 120.0:
            break
        event = world.driver.progress(
            LIMIT + free,
            seconds,
            limits=[
                {"source": 0, "unit": "rows", "limit": LIMIT, "configured": LIMIT,
                 "backlog": 10**9, "control": "live"},
                {"source": 1, "unit": "rows", "limit": None, "configured": None,
                 "backlog": 0, "control": "advice"},
            ],
            sources=[
                {"description": "Limited", "numInputRows": LIMIT},
                {"description": "Free", "numInputRows": free},
            ],
        )  # fmt: skip
        (judged,) = world.send(event).judged
        told.append((seconds, judged.spiral.phase))
    return told


def test_a_source_without_a_limit_beside_one_with_a_limit_spirals() -> None:
    told = course(900.0)
    assert len(told) < 30  # the deadline was passed
    assert "spiralling" in [phase for _, phase in told[:-1]]


@pytest.mark.parametrize("later", [200.0, 450.0])
def test_what_waits_behind_a_limit_is_not_thought_to_be_read_at_once(later: float) -> None:
    told = course(later)
    assert max(told)[0] < 60.0
    assert "spiralling" not in [phase for _, phase in told]


def test_what_waits_at_one_source_does_not_pass_by_the_limit_of_another() -> None:
    """After an outage: the one has much waiting, the other nothing and a limit of a million."""
    world, phases = World(DEADLINE), []
    for number in range(23):
        late = number >= 15
        rows, other = (10_000, 100) if late else (5_000, 50)
        event = world.driver.progress(
            rows + other,
            10.5 if late else 5.0,
            limits=[
                {"source": 0, "unit": "rows", "limit": 10_000, "configured": 10_000,
                 "backlog": 2_000_000 + 500 * number if late else 0, "control": "live"},
                {"source": 1, "unit": "rows", "limit": 1_000_000, "configured": 1_000_000,
                 "backlog": 0, "control": "live"},
            ],
            sources=[
                {"description": "Late", "numInputRows": rows},
                {"description": "Calm", "numInputRows": other},
            ],
        )  # fmt: skip
        (judged,) = world.send(event).judged
        phases.append(judged.spiral.phase)
    assert set(phases) == {"none"}


@pytest.mark.parametrize(("rows", "known"), [(1000, False), (985, False), (970, True)])
def test_a_limit_that_was_reached_tells_no_arrivals_where_nobody_tells_what_waits(
    rows: int, known: bool
) -> None:
    """However far the other source is from its own."""
    world = World(DEADLINE)
    said = {"unit": "rows", "backlog": None, "control": "advice"}
    for _ in range(10):
        event = world.driver.progress(
            rows + 20_000,
            5.0,
            limits=[
                {**said, "source": 0, "limit": 1000, "configured": 1000},
                {**said, "source": 1, "limit": 100_000, "configured": 100_000},
            ],
            sources=[
                {"description": "Small", "numInputRows": rows},
                {"description": "Large", "numInputRows": 20_000},
            ],
        )
        (judged,) = world.send(event).judged
    assert (judged.spiral.gain is not None) is known


@pytest.mark.parametrize("beside", [True, False], ids=["beside", "alone"])
def test_a_small_limit_left_alone_hides_no_growth_where_nobody_tells_what_waits(
    beside: bool,
) -> None:
    """The other source's rows are so many that nearly all of the limits' sum is always taken."""
    world, told, seconds = World(DEADLINE), [], 7.0
    few = 500 if beside else 0
    for number in range(40):
        free = int((20_000.0 if number < 20 else 90_000.0) * seconds)
        seconds = 1.0 + (few + free) * 0.000015
        if seconds > 120.0:
            break
        said = {"unit": "rows", "backlog": None, "control": "advice"}
        limits = [{**said, "source": 0, "limit": None, "configured": None}]
        sources = [{"description": "Free", "numInputRows": free}]
        if beside:
            limits.append({**said, "source": 1, "limit": 1000, "configured": 1000})
            sources.append({"description": "Limited", "numInputRows": few})
        event = world.driver.progress(few + free, seconds, limits=limits, sources=sources)
        (judged,) = world.send(event).judged
        told.append((seconds, judged.spiral.phase))
    assert len(told) < 40  # the deadline was passed
    assert "spiralling" in [phase for _, phase in told[:-1]]
