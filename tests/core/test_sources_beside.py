"""Two sources of which only the first can be limited: what the other takes is not Weir's."""

from __future__ import annotations

import pytest

from agent.core.decide import limits
from agent.core.policy import Policy, QueryPolicy
from tests.core.test_fleet import World


class Two:
    """A query of batches of 1 s and 10,000 rows a second, with a target of 5 s."""

    def __init__(self, limit: int) -> None:
        self.world, self.limit = World(), limit

    def batch(self, theirs: int, waiting: int = 10**6) -> float:
        """Of a full limit, and of so many rows of the other source; its seconds."""
        rows = [self.limit, theirs]
        seconds = 1.0 + sum(rows) / 10_000
        told = [(self.limit, waiting, "live"), (None, 0, "advice")]
        event = self.world.driver.progress(
            sum(rows),
            seconds,
            limits=[
                {"source": place, "unit": "rows", "limit": limit, "configured": None,
                 "backlog": left, "control": control}
                for place, (limit, left, control) in enumerate(told)
            ],
            sources=[{"description": "Rows", "numInputRows": count} for count in rows],
        )  # fmt: skip
        for grant in self.world.send(event).grants:
            self.limit = grant.limit or self.limit
        return seconds


def test_a_source_keeps_its_own_part_beside_one_that_alone_makes_batches_too_long() -> None:
    """9,900 rows/s do, of 100 s: it has a twentieth of a tenth of what 5 s hold all the same."""
    two, seconds = Two(100), 90.0
    for theirs in (2000, 30_000, 8000) * 4:
        two.batch(theirs)
    for _ in range(40):
        seconds = two.batch(int(9900 * seconds))
    assert two.limit == pytest.approx(200, rel=0.3)


def test_what_the_other_source_takes_is_part_of_what_surely_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """32,000 rows surely do, of 40,000 that are wanted."""
    monkeypatch.setattr(limits, "raised_rows", lambda *_: 32_000.0)
    two = Two(100)
    for _ in range(8):
        two.batch(20_000)
    assert two.limit == 12_000


def test_limits_together_keep_the_deadline_though_one_is_not_reached() -> None:
    """One source pauses under nearly all of a batch, the other bursts: both cannot have it."""
    world = World(Policy(default=QueryPolicy(target_seconds=50.0, deadline_seconds=60.0)))
    in_force: list[int | None] = [None, None]
    now = [(90_000, 10**7), (10_000, 0)]
    for number in range(60):
        if number == 40:
            now = [(0, 0), (10**6, 10**7)]
        took = [want if limit is None else min(want, limit)
                for (want, _), limit in zip(now, in_force, strict=True)]  # fmt: skip
        event = world.driver.progress(
            sum(took),
            1.0 + sum(took) / 2500,
            limits=[
                {"source": place, "unit": "rows", "limit": limit, "configured": None,
                 "backlog": left, "admitted": took[place], "control": "live"}
                for place, (limit, (_, left)) in enumerate(zip(in_force, now, strict=True))
            ],
            sources=[{"description": f"Rows{place}", "numInputRows": count}
                     for place, count in enumerate(took)],
        )  # fmt: skip
        for grant in world.send(event).grants:
            in_force[grant.source] = grant.limit
        together = sum(limit or 0 for limit in in_force)
        if number > 2:
            assert 1.0 + together / 2500 < 60.0, (number, in_force)


@pytest.mark.parametrize("most", [{"configured": 5000}, {"configured": 0}])
def test_what_one_source_may_have_at_most_is_left_to_a_calm_one(most: dict[str, int]) -> None:
    """A backlog behind a configured limit takes no more than that, however much waits."""
    world = World(Policy(default=QueryPolicy(target_seconds=26.0, deadline_seconds=60.0)))
    limits: list[int | None] = [most["configured"], None]
    for number in range(60):
        burst = number < 20
        want = [10**6 if number > 40 else 100, 10**6 if burst else 2000]
        took = [want_one if limit is None else min(want_one, limit)
                for want_one, limit in zip(want, limits, strict=True)]  # fmt: skip
        event = world.driver.progress(
            sum(took),
            1.0 + sum(took) / 2500,
            limits=[
                {"source": place, "unit": "rows", "limit": limits[place],
                 "configured": [most["configured"], None][place],
                 "backlog": want[place] - took[place], "admitted": took[place], "control": "live"}
                for place in (0, 1)
            ],
            sources=[{"description": f"Rows{place}", "numInputRows": took[place]}
                     for place in (0, 1)],
        )  # fmt: skip
        for grant in world.send(event).grants:
            limits[grant.source] = grant.limit
        if number == 19:
            learned = limits[1]
    assert limits[0] == most["configured"]
    assert (limits[1] or 0) > 0.6 * (learned or 10**9)
