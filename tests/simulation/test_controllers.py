from __future__ import annotations

import json
import time

import msgspec
import pytest

from agent.simulation import best_static, plant, summary
from agent.simulation.live import Live, policy_of
from agent.simulation.oracle import Oracle, true_size
from agent.simulation.plant import Attempt, Noise
from agent.simulation.run import CONTROLLERS, simulate, simulate_file
from agent.simulation.yardsticks import Flip183, Pid, Static
from tests.simulation.scenarios import scenario_of, text_of


def attempt_of(rows: int, seconds: float, **more) -> Attempt:
    fields = {
        "batch_id": 7,
        "start_seconds": 0.0,
        "limit_rows": rows,
        "next_limit_rows": rows,
        "backlog_rows": 1,
        "killed": False,
        "replayed": False,
        **more,
    }
    return Attempt(rows=rows, seconds=seconds, **fields)


def test_flip183_smooths_bounds_and_announces_by_a_quarter():
    port = Flip183(1000, 5.0)
    port.ended(attempt_of(1000, 4.0))  # wants 1250: 1000 + 0.3 * 250 = 1075
    assert port.limit_rows == 1000
    port.ended(attempt_of(1000, 0.1))  # wants 50,000, at most 2150: 1075 + 0.3 * 1075 = 1397.5
    assert port.limit_rows == 1398
    port.ended(attempt_of(1000, 5.0, killed=True))
    assert port.limit_rows == 1398
    port.ended(attempt_of(1000, 100.0))  # wants 50: 1397.5 - 0.3 * 1347.5 = 993.25
    assert port.limit_rows == 993


def test_pid_is_sparks_with_its_defaults():
    pid = Pid(1000, 5.0)
    pid.ended(attempt_of(10_000, 10.0))  # the first sets the rate: 1000/s, and publishes none
    assert pid.limit_rows == 1000
    pid.ended(attempt_of(5000, 4.0))  # 1250/s; error -250; behind 5 s * 1250 / 5 = 1250
    assert pid.limit_rows == round((1000 + 250 - 0.2 * 1250) * 5)
    pid.ended(attempt_of(1, 100.0))  # the floor of 100 rows/s
    assert pid.limit_rows == 500


@pytest.mark.parametrize(
    ("changes", "rows", "feasible"),
    [
        ({}, 38_000, True),  # mu (T - c0)
        ({"fixed_cost_seconds": [[0, 4]], "arrival_rows_per_second": [[0, 5000]]}, 60_000, False),
        # c0 takes the target: the nearest that keeps up
        ({"fixed_cost_seconds": [[0, 6]]}, 2400 * 6 / 0.76, False),
        # Not with a margin; what barely digests it is no 3 c0, and not 20.
        ({"arrival_rows_per_second": [[0, 9000]]}, 9270 * 1.2 / 0.073, False),
        # None does: 3 c0.
        (
            {"arrival_rows_per_second": [[0, 9500]], "fixed_cost_seconds": [[0, 2]]},
            10_000 * 2 * 2.0,
            False,
        ),
        ({"trigger_seconds": 30}, 10_000 * 28.8, True),  # what fits between triggers
        ({"batch_timeout_seconds": 5, "noise_sigma": 0}, 10_000 * 2.8, False),  # deadline
        (
            {"arrival_rows_per_second": [[0, 9000]], "batch_timeout_seconds": 12, "noise_sigma": 0},
            10_000 * (0.8 * 12 - 1.2),
            False,
        ),
        ({"congestion_rows": 40_000}, 23_817.8, True),  # c0 + n/mu (1 + n/c) = T
    ],
)
def test_the_oracle_follows_the_three_constraints(changes, rows, feasible):
    scenario = scenario_of(**changes)
    assert true_size(scenario, policy_of(scenario), 0.0) == (
        pytest.approx(rows, rel=1e-4),
        feasible,
    )


def test_the_oracles_size_takes_the_target_under_congestion():
    scenario = scenario_of(congestion_rows=12_345)
    rows, _ = true_size(scenario, policy_of(scenario), 0.0)
    assert scenario.seconds(rows, 0.0) == pytest.approx(5.0)


def test_the_oracle_is_told_nothing_of_the_future():
    early = scenario_of(initial_backlog_rows=10**7)
    late = scenario_of(
        initial_backlog_rows=10**7, throughput_rows_per_second=[[0, 10_000], [400, 1000]]
    )
    traces = [
        plant.run(one, Noise(0.15, 1), Oracle(one, policy_of(one))).attempts
        for one in (early, late)
    ]
    before = [[a for a in trace if a.end_seconds < 400] for trace in traces]
    assert before[0] == before[1]
    assert len(before[0]) > 50


def test_the_best_static_limit_is_the_best_of_all_that_were_tried():
    scenario = scenario_of(initial_backlog_rows=2_000_000)
    noise = Noise(0.15, 2)
    oracle = summary.reference(plant.run(scenario, noise, Oracle(scenario, policy_of(scenario))))
    best = best_static.search(scenario, noise, oracle.p95_batch_seconds)
    limits = best_static.candidates(scenario)
    assert len(limits) == 60
    assert best.limit_rows in limits
    assert best.p95_batch_seconds <= 1.1 * oracle.p95_batch_seconds
    for limit in limits:
        fixed = msgspec.structs.replace(scenario, initial_limit_rows=limit)
        tried = summary.reference(plant.run(fixed, noise, Static(limit)))
        calm = tried.p95_batch_seconds <= 1.1 * oracle.p95_batch_seconds
        assert tried.committed_rows <= best.committed_rows or not calm


def test_where_no_static_limit_is_calm_the_one_that_commits_most_is_best():
    scenario = scenario_of(initial_backlog_rows=2_000_000, fixed_cost_seconds=[[0, 4]])
    noise = Noise(0.15, 2)
    best = best_static.search(scenario, noise, 0.1)
    assert best.p95_batch_seconds > 10
    assert best.committed_rows > 2_000_000


@pytest.mark.parametrize("name", CONTROLLERS)
def test_a_summary_of_each_controller_is_whole_and_repeats(name):
    scenario = scenario_of(initial_backlog_rows=100_000)
    first, again = (simulate(scenario, name, 4) for _ in range(2))
    assert first == again
    found = msgspec.to_builtins(first)
    assert found["controller"] == name
    assert found["arrived_rows"] == 300 * 2000 + 600 * 6000
    assert found["committed_rows"] + found["final_backlog_rows"] == found["arrived_rows"] + 100_000
    assert set(found["oracle"]) == set(found["best_static"]) - {"limit_rows"}
    assert found["p50_batch_seconds"] <= found["p95_batch_seconds"] <= found["p99_batch_seconds"]
    assert found["p99_batch_seconds"] <= found["max_batch_seconds"]


def test_the_share_in_band_counts_limited_batches_after_the_fifth():
    attempts = [
        attempt_of(10, 5.0, batch_id=0),
        attempt_of(10, 50.0, batch_id=4),
        attempt_of(10, 6.5, batch_id=5),
        attempt_of(10, 6.6, batch_id=6),
        attempt_of(10, 3.5, batch_id=7, killed=True),
        attempt_of(10, 3.5, batch_id=7),
        attempt_of(10, 9.0, batch_id=8, backlog_rows=0),
    ]
    trace = plant.Trace(attempts, 0, 0, 0, 0, None)
    assert summary.in_band_share(trace, 5.0) == 0.5
    assert summary.in_band_share(plant.Trace(attempts[:2], 0, 0, 0, 0, None), 5.0) is None


@pytest.mark.parametrize(
    ("ordered", "share", "value"),
    [([], 0.5, None), ([3.0], 0.95, 3.0), ([1.0, 2.0], 0.5, 1.5), ([0.0, 1, 2, 3, 4], 0.95, 3.8)],
)
def test_percentiles_interpolate(ordered, share, value):
    assert summary.percentile(ordered, share) == (value if value is None else pytest.approx(value))


def test_timeouts_are_counted_and_the_first_is_dated(tmp_path):
    scenario = scenario_of(
        batch_timeout_seconds=6, initial_limit_rows=45_000, initial_backlog_rows=10**6
    )
    found = simulate(scenario, "static", 1)
    trace = plant.run(scenario, Noise(0.15, 1), Static(45_000))
    killed = [attempt for attempt in trace.attempts if attempt.killed]
    assert found.timeouts == len(killed) > 0
    assert found.first_timeout_seconds == killed[0].end_seconds
    assert found.max_batch_seconds == 6


def test_a_watched_yardstick_is_not_steered():
    scenario = scenario_of(initial_backlog_rows=10**6)
    alone = plant.run(scenario, Noise(0.15, 9), Flip183(10_000, 5.0))
    watched = simulate(scenario, "flip183", 9)
    assert watched.committed_rows == alone.committed_rows


def test_a_batch_costs_the_same_however_many_came_before_it():
    def seconds_each(duration_seconds: int) -> float:
        scenario = scenario_of(initial_backlog_rows=10**8, duration_seconds=duration_seconds)
        begin = time.process_time()
        trace = plant.run(scenario, Noise(0.15, 1), Live(scenario))
        return (time.process_time() - begin) / len(trace.attempts)

    short = min(seconds_each(1000) for _ in range(3))
    assert seconds_each(20_000) < 2 * short  # twenty times the batches


def test_a_file_is_simulated_and_its_events_written(tmp_path):
    path, events = tmp_path / "s.json", tmp_path / "e.jsonl"
    path.write_text(text_of(duration_seconds=100))
    found = json.loads(simulate_file(str(path), "weir", 3, str(events)))
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    assert [line["sequence"] for line in lines] == list(range(1, len(lines) + 1))
    assert sum(line["type"] == "progress" for line in lines) == found["batches"]
