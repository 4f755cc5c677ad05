"""What a soak breaks and when, and what it says grows: the pure parts of the benchmark."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from tests.benchmarks.soak.course import CALM_SECONDS, KILLS_SHARE, KINDS, OF_WEIR, plan
from tests.benchmarks.soak.samples import (
    MOST_POINTS,
    Point,
    Series,
    draw,
    slope,
    table,
    thinned,
)

HOUR = 3600.0


@pytest.mark.parametrize("seconds", [720.0, 7200.0])
@pytest.mark.parametrize("seed", range(20))
def test_a_course_holds_every_fault_and_calm_at_both_ends(seconds: float, seed: int) -> None:
    course = plan(seconds, seed)
    assert course == plan(seconds, seed)
    assert course != plan(seconds, seed + 1)
    assert {fault.kind for fault in course} == set(KINDS)
    assert course == sorted(course, key=lambda fault: fault.at_seconds)
    assert course[0].at_seconds >= CALM_SECONDS
    assert max(fault.until_seconds for fault in course) <= seconds - CALM_SECONDS
    parts = defaultdict(list)
    for fault in course:
        assert fault.at_seconds <= KILLS_SHARE.get(fault.kind, 1.0) * seconds
        parts[fault.kind.split()[0]].append(fault)
    for faults in parts.values():
        for one, following in pairwise(faults):
            assert following.at_seconds > one.until_seconds


def test_a_course_too_short_for_any_fault_is_empty() -> None:
    assert plan(100.0, 1) == []


@pytest.mark.parametrize(
    ("per_hour", "verdict"), [(0.0, "flat"), (1.5, "flat"), (20.0, "grows"), (-20.0, "flat")]
)
@pytest.mark.parametrize("lives", [1, 4])
def test_what_grows_is_told_from_noise_and_restarts(
    per_hour: float, verdict: str, lives: int
) -> None:
    """100 MiB with noise; each life begins at a level of its own, far from the one before."""
    chance = random.Random(5)
    points = []
    for step in range(1440):
        second, life = step * 5.0, step * lives // 1440
        warming = 500.0 if second < 600.0 else 0.0
        level = 100.0 + 30.0 * (life % 2) + warming + per_hour * second / HOUR
        points.append(Point(second, level + chance.gauss(0.0, 1.0), life))
    found = slope(points, HOUR, warm_up=300.0)
    assert found.verdict == verdict
    assert found.per_hour == pytest.approx(per_hour, abs=4 * (found.noise or 0.0))


def test_a_short_life_has_no_slope() -> None:
    points = [Point(float(second), float(second), 1) for second in range(700)]
    assert slope(points, 0.0, warm_up=690.0).verdict == "too short to say"


def test_the_table_says_what_grows_and_the_picture_is_well_formed() -> None:
    series = Series()
    for step in range(400):
        series.add(step * 5.0, "agent", "threads", 9.0, 1)
        series.add(step * 5.0, "agent", "MiB", 60.0 + step, 1)
    lines, good = table(series, 1000.0)
    assert not good
    assert [line.split("  ")[-1] for line in lines[1:]] == ["flat", "grows"]
    root = ET.fromstring(draw(series, plan(2000.0, 1), 2000.0))
    said = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"MiB", "threads", "agent", "agent killed", "minutes"} <= said


def test_every_sample_is_told() -> None:
    series = Series()
    series.add(5.0, "driver's Python", "MiB", 75.625, 12)
    series.add(10.0, "agent", "threads", 7, 13)
    assert series.csv().splitlines() == [
        "name,unit,life,second,value",
        "driver's Python,MiB,12,5.0,75.62",
        "agent,threads,13,10.0,7.00",
    ]


def growing(per_hour: float, noise: float = 0.0) -> Series:
    """Two hours of one process, from 100 MiB on."""
    chance = random.Random(3)
    series = Series()
    for step in range(1440):
        second = step * 5.0
        value = 100.0 + per_hour * second / HOUR + chance.gauss(0.0, noise)
        series.add(second, "driver's Python", "MiB", value, 1)
    return series


@pytest.mark.parametrize(
    ("under_weir", "alone", "good"),
    [
        (10.0, None, False),
        (10.0, 10.0, True),
        (10.0, 9.0, True),
        (10.0, 4.0, False),
        (0.5, -10.0, True),  # flat is flat, whatever it was alone
    ],
)
def test_what_grows_in_spark_itself_is_not_ours(
    under_weir: float, alone: float | None, good: bool
) -> None:
    without = None if alone is None else growing(alone, 0.1)
    lines, flat = table(growing(under_weir, 0.1), HOUR, without)
    assert flat == good
    assert ("without Weir" in lines[1]) == (alone is not None)


def test_a_course_without_weir_breaks_the_rest_alike() -> None:
    assert set(OF_WEIR) < set(KINDS)
    kept = [fault for fault in plan(2 * HOUR, 1) if fault.kind not in OF_WEIR]
    assert {fault.kind for fault in kept} == set(KINDS) - set(OF_WEIR)


def test_samples_are_read_as_they_were_told() -> None:
    series = growing(1.0)
    series.add(3.0, "agent", "threads", 7.0, 2)
    assert Series.of_csv(series.csv()).csv() == series.csv()


def test_a_picture_of_many_samples_stays_small_and_keeps_its_peaks() -> None:
    points = [Point(float(second), 1.0, second // 5000) for second in range(10_000)]
    points[7003] = Point(7003.0, 50.0, 1)
    lives = list(thinned(points))
    assert [max(point.value for point in life) for life in lives] == [1.0, 50.0]
    assert sum(map(len, lives)) <= MOST_POINTS
    assert all(one.second < other.second for life in lives for one, other in pairwise(life))


def test_the_large_are_drawn_apart_from_the_small() -> None:
    series = growing(0.0)
    series.add(0.0, "driver's JVM", "MiB", 1000.0, 2)
    series.add(0.0, "driver's JVM", "threads", 60.0, 2)
    root = ET.fromstring(draw(series, [], HOUR))
    said = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert said.count("MiB") == 2
    assert said.count("threads") == 1
