"""Dry-run against what happened: what it foretells is what comes when Weir then acts."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.compare import compare
from agent.compare_command import of_recordings
from agent.core.judgement import Point, QueryView
from agent.core.policy import QueryPolicy
from agent.simulation import plant
from agent.simulation.live import Live
from agent.simulation.run import Watched, controller_of
from tests.page import views as made
from tests.service import wire
from tests.service.agents import AgentProcess, weir
from tests.simulation.scenarios import scenario_of

if TYPE_CHECKING:
    from pathlib import Path

    from agent.simulation.scenario import Scenario

#: Two bursts of a minute, taken in whole: far beyond the target of 5 s.
BURST = {
    "duration_seconds": 1800,
    "initial_limit_rows": 10_000_000,
    "arrival_rows_per_second": [[0, 2000], [300, 30000], [360, 2000], [900, 30000], [960, 2000]],
}


def watched(scenario: Scenario, path: Path) -> list[plant.Attempt]:
    """Runs it at a limit that never moves, beside a Weir that only watches; what it took."""
    with path.open("wb") as out:
        live = Live(
            scenario,
            steer=False,
            on_event=lambda event: out.write(msgspec.json.encode(event) + b"\n"),
        )
        beside = Watched(controller_of("static", scenario), live)
        return plant.run(scenario, plant.Noise(scenario.noise_sigma, 1), beside).attempts


@pytest.mark.parametrize("noise", [0.0, 0.15])
def test_what_dry_run_foretells_comes_when_weir_acts(tmp_path: Path, noise: float) -> None:
    scenario = scenario_of(**BURST, noise_sigma=noise)
    path = tmp_path / "events.jsonl"
    happened = watched(scenario, path)
    [found], broken = of_recordings([str(path)], QueryPolicy(target_seconds=5), "*")
    assert broken == []
    assert found.would_be is not None
    assert found.happened is not None
    assert found.fit is not None
    # What happened is told as it was, but for the first two, for which nothing was decided.
    assert found.happened.batches == len([one for one in happened if one.rows]) - 2
    assert found.happened.longest_seconds == pytest.approx(
        max(one.seconds for one in happened), rel=1e-3
    )
    assert found.fit.low <= found.fit.median <= found.fit.high
    assert found.fit.median == pytest.approx(1.0, abs=0.1)
    # And what would have been is what is when Weir acts on the same load.
    acted = plant.run(scenario, plant.Noise(noise, 1), Live(scenario)).attempts
    seconds = sorted(one.seconds for one in acted if one.rows)
    assert found.happened.longest_seconds > 1.4 * seconds[-1]
    # The noise of batches that never ran is nobody's to foretell: the longest lies two sigmas up.
    assert found.would_be.longest_seconds == pytest.approx(seconds[-1], rel=0.02 + 2.0 * noise)
    assert found.would_be.largest_rows == pytest.approx(
        max(one.rows for one in acted), rel=0.02 + noise
    )
    p95 = seconds[math.ceil(0.95 * len(seconds)) - 1]
    assert found.would_be.p95_seconds == pytest.approx(p95, rel=0.15)


def view_of(**changes: object) -> QueryView:
    base = next(one for one in made.everything() if one.fixed_cost_seconds is not None)
    limit = msgspec.structs.replace(base.limit, unit="rows")
    known = {
        "limit": limit,
        "mode": "dry-run",
        "target_seconds": 5.0,
        "fixed_cost_seconds": 1.0,
        "throughput_rows_per_second": 1000.0,
        "sources": base.sources[:1],
    }
    return msgspec.structs.replace(base, **(known | changes))


def point(time: float, rows: int, seconds: float | None, would_be: int | None) -> Point:
    return Point(
        time=time,
        batch_seconds=seconds,
        rows=rows,
        backlog_rows=None,
        limit=None,
        credit_rows=None,
        limited=False,
        would_be_limit=would_be,
    )


BATCHES = st.lists(
    st.tuples(
        st.integers(0, 10**9),
        st.floats(0.01, 1e5),
        st.none() | st.integers(1, 10**9),
    ),
    min_size=2,
    max_size=40,
)


@given(BATCHES)
def test_smaller_batches_never_take_longer_each_nor_less_in_all(
    batches: list[tuple[int, float, int | None]],
) -> None:
    points, time = [], 0.0
    for rows, seconds, would_be in batches:
        time += seconds
        points.append(point(time, rows, seconds, would_be))
    found = compare(view_of(), points)
    if found.missing:
        assert found.would_be is None
        return
    assert found.happened is not None
    assert found.would_be is not None
    assert found.would_be.longest_seconds <= found.happened.longest_seconds * (1 + 1e-9)
    assert found.would_be.total_seconds >= found.happened.total_seconds * (1 - 1e-9)
    assert found.would_be.batches >= found.happened.batches


def test_a_limit_above_what_came_changes_nothing() -> None:
    points = [point(10.0 * n, 3000, 4.0 + n / 10, 3000 + n) for n in range(1, 9)]
    found = compare(view_of(), points)
    assert found.would_be == found.happened


@pytest.mark.parametrize(
    ("changes", "would_be", "why"),
    [
        ({"mode": "on"}, None, "Weir acts on it"),
        ({}, None, "nothing was decided"),
        ({"fixed_cost_seconds": None}, 500, "not known yet"),
        ({"throughput_rows_per_second": None}, 500, "not known yet"),
    ],
)
def test_where_there_is_nothing_to_compare_it_says_why(changes, would_be, why) -> None:
    points = [point(10.0 * n, 3000, 4.0, would_be) for n in range(1, 9)]
    found = compare(view_of(**changes), points)
    assert found.would_be is None
    assert why in found.missing


def test_the_command_asks_an_agent(tmp_path: Path) -> None:
    with AgentProcess(tmp_path, "--mode", "dry-run", "--target-seconds", "5") as agent:
        events = [
            wire.progress(
                n, rows=2000 * n, seconds=1.0 + n / 2, limit=40_000, time=wire.BASE_TIME + 30 * n
            )
            for n in range(1, 21)
        ]
        assert agent.post(wire.request(events, application="shop")).is_success
        told = weir("compare", "query-0", "--url", agent.address)
        assert told.returncode == 0, told.stderr
        assert "shop/query-0: its last 18 batches" in told.stdout
        longest = next(line for line in told.stdout.splitlines() if "longest batch" in line)
        happened, would_be = (
            float(cell.split()[0]) for cell in longest.split("  ") if " s" in cell
        )
        assert happened == 11.0
        assert would_be < happened
        answer = json.loads(weir("compare", "--json", "--url", agent.address).stdout)
        assert answer[0]["happened"]["batches"] == 18
        # The page asks for the same.
        shown = agent.http.get("/v1/queries/shop/query-0/comparison").json()["comparison"]
        assert shown == answer[0]
        unknown = weir("compare", "ordres", "--url", agent.address)
        assert unknown.returncode == 2
        assert unknown.stderr == "weir: no query 'ordres'; known: shop/query-0\n"
