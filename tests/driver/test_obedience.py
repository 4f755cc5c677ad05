"""Which batches show that a source does not keep to its limit, and which only look like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from spark_listener.obedience import BATCHES, CLEARLY, TELLING, Obedience

#: (rows of a batch, limits in force while it ran, backlog told).
Seen = tuple[int, tuple[int | None, ...], int | None]


def verdicts(batches: list[Seen]) -> list[bool]:
    one = Obedience()
    return [one.batch(rows, limits, backlog) for rows, limits, backlog in batches]


@pytest.mark.parametrize(
    ("batches", "obeyed"),
    [
        # It took all it was given, then as much as before although it was given less.
        ([(1000, (1000,), None), (1000, (333,), None), (1000, (333,), None)], False),
        ([(1000, (1000,), None), (1000, (333,), None)], None),  # one may have come too late
        ([(1000, (1000,), None), (1000, (1000, 333), None), (1000, (1000, 333), None)], None),
        # It keeps to it, and is read once, three times, more often from some batch on.
        ([(1000, (1000,), None), (333, (333,), None)], True),
        ([(3000, (1000,), None), (999, (333,), None), (999, (333,), None)], True),
        ([(1000, (1000,), None), (666, (333,), None), (666, (333,), None)], None),
        # Nobody knows how often it is read, so nothing can be said.
        ([(900, (1000,), None), (900, (333,), None), (900, (333,), None)], None),
        # What it left behind tells as well that it took what it was given.
        ([(900, (1000,), 5), (900, (333,), 5), (900, (333,), 5)], False),
        ([(900, (1000,), 0), (900, (333,), 0), (900, (333,), 0)], None),
        ([(900, (1000,), 5), (300, (333,), 5)], True),
        # It has a limit of its own below the one it was given.
        ([(10, (10_000,), 5), (10, (1000,), 5), (10, (9,), 5), (10, (9,), 5)], None),
        # Unlimited, or empty: nothing to keep to.
        ([(1000, (1000,), None), (5000, (None,), None), (5000, (None,), None)], None),
        ([(1000, (1000,), None), (5000, (None, 9), None), (5000, (None, 9), None)], None),
        ([(0, (1000,), None), (0, (333,), None), (0, (333,), None)], None),
        # A small limit is filled by chance.
        ([(50, (50,), None), (50, (20,), None), (50, (20,), None)], None),
        ([(100, (100,), None), (100, (41,), None), (100, (41,), None)], False),
        # It means something else by its limit: rows of a partition, or commits.
        ([(1000, (1000,), None), (3412, (1000,), None), (3380, (1000,), None)], None),
        ([(900, (1000,), 5), (3412, (1000,), 5), (3380, (1000,), 5)], None),
        ([(200, (200,), None), (3412, (1000,), None), (3380, (1000,), None)], None),
        ([(1000, (1000,), 5), (3412, (1000,), 5), (3380, (1000,), 5), (1690, (500,), 5)], True),
        ([(1000, (1000,), None), (3412, (500,), None), (3380, (500,), None)], None),
        ([(900, (1000,), 5), (3412, (500,), 5), (3380, (500,), 5)], None),
        # It was given more meanwhile, and takes it all under each lower limit that follows.
        (
            [(8000, (10_000,), 5), (16_007, (10_000, 7000), 5), (11_001, (7000,), 5)]
            + 2 * [(11_003, (5000,), 5)],
            False,
        ),
        (
            [(8000, (10_000,), 5), (16_007, (7000,), 5), (16_009, (5000,), 5)]
            + 2 * [(16_011, (2000,), 5)],
            False,
        ),
        # Which of two limits such a batch was planned by is not told: nothing is forgotten.
        ([(900, (1000,), 5), (1601, (1000, 100), 5), (1301, (100,), 5), (1303, (100,), 5)], False),
        # What grows while its limit falls, and back, has not followed it.
        ([(8000, (10_000,), 5), (40_001, (5000,), 5), (40_003, (10_000,), 5)], None),
        (
            [(8000, (10_000,), 5), (16_001, (10_000,), 5)]
            + 2 * [(40_001, (5000,), 5), (40_003, (10_000,), 5)],
            None,
        ),
        # Clearly more, not a little more.
        ([(1000, (1000,), None), (499, (333,), None), (499, (333,), None)], None),
        ([(1000, (1000,), None), (501, (333,), None), (501, (333,), None)], False),
    ],
)
def test_what_batches_show(batches: list[Seen], obeyed: bool | None) -> None:
    one = Obedience()
    for rows, limits, backlog in batches:
        one.batch(rows, limits, backlog)
    assert one.obeyed is obeyed


def test_a_batch_within_its_limit_forgives_the_one_before() -> None:
    late = (1000, (333,), None)
    batches: list[Seen] = [(1000, (1000,), None), late, (333, (333,), None), late, late]
    assert verdicts(batches) == [False, False, False, False, True]


@given(
    times=some.integers(1, 12),
    batches=some.lists(
        some.tuples(some.integers(1, 10**7), some.integers(0, 10**7), some.booleans()),
        max_size=40,
    ),
)
def test_a_source_that_obeys_is_never_accused(
    times: int, batches: list[tuple[int, int, bool]]
) -> None:
    """However often it is read, whatever waits, and whether what waits is told."""
    one = Obedience()
    for limit, waiting, told in batches:
        taken = min(limit, waiting)
        # Filled by chance, a limit would seem to say that rows are read less often than they are.
        if taken < limit and (times * taken) % limit == 0:
            continue
        one.batch(times * taken, (limit,), waiting - taken if told else None)
        assert one.obeyed is not False


@given(
    times=some.integers(1, 12),
    rows=some.integers(TELLING, 10**6),
    limits=some.lists(some.integers(1, 10**6), min_size=1, max_size=20),
)
def test_a_deaf_one_that_kept_to_its_first_limit_is_found(
    times: int, rows: int, limits: list[int]
) -> None:
    one = Obedience()
    one.batch(times * rows, (rows,), None)
    found = False
    over = 0
    for limit in limits:
        shows = rows > CLEARLY * limit and times * rows % limit
        fits = rows <= CLEARLY * limit
        over = over + 1 if shows else 0 if fits else over
        found = one.batch(times * rows, (limit,), None) or found
        if fits and limit != rows and times * rows % limit == 0 and limit >= TELLING:
            return  # it seems to fill another limit: by chance
        if over >= BATCHES:
            assert found
            return
