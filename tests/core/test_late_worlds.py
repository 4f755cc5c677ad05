"""Rows that only Weir made late: worlds in which there were some, and a few drawn ones, played."""

from __future__ import annotations

import msgspec
import pytest

from tests.benchmarks.late_worlds import FEATURES, FOUND, World, drawn, judge, smaller

#: A limit of the job's own cuts as Weir would; that partitions are added, and that producers catch
#: up, nobody can see coming (docs/late-rows.md).
DOCUMENTED = ("configured", "grow", "replay")
ADDED = ("added to one", "added to two")
#: Their rows are too far apart for their delay throughout.
NEVER_CUT = ("a watermark each", "short delay", "long batches", "jitter, all of the delay")
DRAWN = [drawn(seed, without=DOCUMENTED) for seed in range(20, 32)]


@pytest.mark.parametrize("name", [name for name in FOUND if name not in ADDED])
def test_no_row_falls_late_where_some_did(name: str) -> None:
    outcome = judge(FOUND[name])
    assert outcome.weir.lost == 0
    assert outcome.weir.cuts or name in NEVER_CUT


@pytest.mark.parametrize("name", ADDED)
def test_before_a_partition_is_added_the_finding_says_that_rows_would_fall_late(name: str) -> None:
    world = FOUND[name]
    outcome = judge(world, watched=True)
    added = max(lane.born for lane in world.lanes)
    before = [one for one in outcome.weir.batches if one.planned + one.seconds <= added]
    assert sum(one.lost for one in before) == 0
    assert before[-1].cut
    assert "a partition added now may drop it" in before[-1].finding
    assert outcome.excess > 0  # else it is not lost any more: say so in docs/late-rows.md


def test_in_worlds_drawn_at_random_no_row_falls_late_because_of_weir() -> None:
    outcomes = [judge(world) for world in DRAWN]
    assert [outcome.excess for outcome in outcomes] == [0] * len(DRAWN)
    assert sum(outcome.weir.cuts > 0 for outcome in outcomes) > len(DRAWN) / 2


def test_where_it_is_allowed_rows_of_the_same_worlds_fall_late() -> None:
    """So rows that are lost are seen, and those of the tests above could have been."""
    assert all(judge(world, "allow").excess > 0 for world in FOUND.values())
    assert any(judge(world, "allow").excess > 0 for world in DRAWN)


def test_a_world_is_kept_as_it_is_and_every_smaller_one_is_another() -> None:
    world = drawn(1, features=FEATURES)
    assert world.features == sorted(FEATURES)
    some = [world, *smaller(world)]
    assert all(msgspec.json.decode(msgspec.json.encode(one), type=World) == one for one in some)
    assert world not in some[1:]
    assert any(len(one.lanes) < len(world.lanes) for one in some)
