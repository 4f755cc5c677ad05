from __future__ import annotations

import math
import statistics
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.simulation import plant
from agent.simulation.plant import Arrivals, Attempt, Noise
from agent.simulation.run import simulate
from agent.simulation.scenario import Series
from agent.simulation.yardsticks import Flip183, Static
from tests.simulation.scenarios import scenario_of


def run(controller=None, seed=1, **changes):
    scenario = scenario_of(**changes)
    controller = controller or Static(scenario.initial_limit_rows)
    return plant.run(scenario, Noise(scenario.noise_sigma, seed), controller)


def test_a_batch_takes_fixed_cost_rows_and_congestion():
    trace = run(
        noise_sigma=0,
        congestion_rows=20_000,
        initial_backlog_rows=10**7,
        fixed_cost_seconds=[[0, 1], [450, 3]],
        throughput_rows_per_second=[[0, 10_000], [450, 5000]],
    )
    for attempt in trace.attempts:
        assert attempt.rows == 10_000
        early = attempt.start_seconds < 450
        assert attempt.seconds == pytest.approx(1 + 1.5 if early else 3 + 3)
    assert trace.attempts[-1].start_seconds > 450


def test_noise_has_mean_one_and_the_given_sigma():
    noise = Noise(0.5, 3)
    factors = [noise.factor(index) for index in range(20_000)]
    assert statistics.fmean(factors) == pytest.approx(1.0, abs=0.02)
    logs = [math.log(factor) for factor in factors]
    assert statistics.stdev(logs) == pytest.approx(0.5, abs=0.02)
    assert statistics.fmean(logs) == pytest.approx(-0.125, abs=0.02)


def test_some_batches_stall_and_all_else_is_as_without():
    calm = run(initial_backlog_rows=10**7).attempts
    stalls = {"chance": 0.04, "mean_seconds": 0.5}
    scenario = scenario_of(initial_backlog_rows=10**7, duration_seconds=90_000, stalls=stalls)
    noise = Noise.of(scenario, 1)
    told = [noise.stall_seconds(index) for index in range(20_000)]
    hit = [seconds for seconds in told if seconds]
    assert len(hit) / len(told) == pytest.approx(0.04, rel=0.1)
    assert statistics.fmean(hit) == pytest.approx(0.5, rel=0.1)
    stalled = plant.run(scenario, noise, Static(scenario.initial_limit_rows)).attempts
    for one, other, more in zip(calm, stalled, told, strict=False):
        assert other.seconds == pytest.approx(one.seconds + more)


def test_same_seed_same_run_other_seed_other_run():
    assert run(seed=5) == run(seed=5)
    assert run(seed=5) != run(seed=6)


class Counting(Static):
    """After batch k it asks for 1000 + k."""

    def ended(self, attempt: Attempt) -> None:
        self.limit_rows = 1000 + attempt.batch_id


def test_a_limit_decided_from_batch_k_acts_on_batch_k_plus_2():
    trace = run(Counting(10_000), initial_backlog_rows=10**7)
    limits = [attempt.limit_rows for attempt in trace.attempts]
    assert limits[:2] == [10_000, 10_000]
    assert limits[2:] == [1000 + k for k in range(len(limits) - 2)]
    assert all(one.next_limit_rows == two.limit_rows for one, two in pairwise(trace.attempts))


def test_triggers_start_at_multiples_and_an_overrun_is_followed_at_once():
    trace = run(
        noise_sigma=0,
        trigger_seconds=10,
        initial_backlog_rows=10**6,
        initial_limit_rows=50_000,
        throughput_rows_per_second=[[0, 10_000], [100, 4000], [300, 10_000]],
        arrival_rows_per_second=[[0, 1000]],
    )
    starts = [attempt.start_seconds for attempt in trace.attempts]
    assert starts[:11] == [10.0 * k for k in range(11)]
    for one, two in pairwise(trace.attempts):
        overran = one.end_seconds > (math.floor(one.start_seconds / 10) + 1) * 10
        if overran:
            assert two.start_seconds == one.end_seconds
        else:
            assert two.start_seconds % 10 == 0
    assert any(one.end_seconds == two.start_seconds for one, two in pairwise(trace.attempts))


def test_a_killed_batch_comes_again_with_the_same_rows_and_new_noise():
    trace = run(
        batch_timeout_seconds=6,
        noise_sigma=0.4,
        initial_limit_rows=40_000,
        initial_backlog_rows=10**7,
    )
    killed = [index for index, attempt in enumerate(trace.attempts) if attempt.killed]
    assert len(killed) > 5
    for index in killed[:-1]:
        one, two = trace.attempts[index], trace.attempts[index + 1]
        assert one.seconds == 6
        assert (two.batch_id, two.rows, two.limit_rows) == (one.batch_id, one.rows, one.limit_rows)
        assert two.start_seconds == pytest.approx(one.end_seconds + 30)
        assert two.replayed
    assert all(attempt.killed or attempt.seconds <= 6 for attempt in trace.attempts)
    committed = sum(attempt.rows for attempt in trace.attempts if not attempt.killed)
    assert trace.committed_rows == committed


def test_the_first_batch_of_a_driver_takes_longer_until_one_is_through():
    trace = run(
        noise_sigma=0,
        cold_start_seconds=2,
        batch_timeout_seconds=4,
        fixed_cost_seconds=[[0, 1]],
        throughput_rows_per_second=[[0, 10_000], [100, 100_000]],
        initial_backlog_rows=10**7,
    )
    attempts = trace.attempts
    assert [(one.seconds, one.killed) for one in attempts[:2]] == [(4, False), (2, False)]
    trace = run(
        noise_sigma=0,
        cold_start_seconds=2,
        batch_timeout_seconds=3.5,
        throughput_rows_per_second=[[0, 10_000], [100, 100_000]],
        fixed_cost_seconds=[[0, 1]],
        initial_backlog_rows=10**7,
    )
    attempts = trace.attempts
    late = [one.killed for one in attempts]
    through = late.index(False)  # once rows are cheaper; else it would be killed for ever
    assert through == 3
    assert all(late[:through])
    assert not any(late[through:])
    assert [one.batch_id for one in attempts[: through + 2]] == [0, 0, 0, 0, 1]
    assert attempts[through].seconds == pytest.approx(3.1)
    assert attempts[through + 1].seconds == pytest.approx(1.1)


def test_a_driver_that_is_rolled_out_begins_the_batch_in_hand_again_and_cold():
    trace = run(
        noise_sigma=0,
        cold_start_seconds=3,
        rollout_seconds=[101, 120, 700],
        initial_backlog_rows=10**6,
        arrival_rows_per_second=[[0, 1000], [400, 0]],
    )
    (cut,) = [index for index, one in enumerate(trace.attempts) if one.stopped]
    one, two, three = trace.attempts[cut : cut + 3]
    assert one.killed  # nothing of it is committed
    assert one.end_seconds == pytest.approx(101)
    assert (two.batch_id, two.rows, two.replayed) == (one.batch_id, one.rows, True)
    assert two.start_seconds == pytest.approx(131)  # 120 is while the driver starts
    assert two.seconds == pytest.approx(3 + three.seconds)
    assert three.batch_id == one.batch_id + 1
    assert not [a for a in trace.attempts if a.killed and not a.stopped]
    committed = sum(a.rows for a in trace.attempts if not a.killed)
    assert trace.committed_rows == committed


def test_a_batch_that_a_rollout_ends_is_not_timed_out():
    scenario = scenario_of(
        duration_seconds=120, rollout_seconds=[41], initial_backlog_rows=10**6, noise_sigma=0
    )
    told = simulate(scenario, "static", 1)
    assert (told.timeouts, told.first_timeout_seconds) == (0, None)


def test_a_rollout_while_nothing_runs_makes_the_next_batch_cold():
    trace = run(
        noise_sigma=0,
        cold_start_seconds=3,
        rollout_seconds=[300],
        arrival_rows_per_second=[[0, 1000], [100, 0], [500, 1000]],
    )
    assert not any(one.killed for one in trace.attempts)
    first = next(one for one in trace.attempts if one.start_seconds > 500)
    assert first.seconds == pytest.approx(3 + 1.2 + first.rows / 10_000)


def test_nothing_arrives_no_batch_runs():
    trace = run(arrival_rows_per_second=[[0, 0]])
    assert trace.attempts == []
    assert (trace.arrived_rows, trace.committed_rows, trace.final_backlog_rows) == (0, 0, 0)


def test_an_idle_stretch_is_slept_through():
    trace = run(arrival_rows_per_second=[[0, 1000], [100, 0], [500, 1000]])
    assert not [a for a in trace.attempts if 110 < a.start_seconds < 500]
    assert [a for a in trace.attempts if a.start_seconds > 500]


@settings(max_examples=60, deadline=None)
@given(
    backlog=st.integers(0, 500_000),
    limit=st.integers(10, 200_000),
    rate=st.floats(0, 20_000),
    sigma=st.floats(0, 0.6),
    trigger=st.sampled_from([0, 7]),
    timeout=st.sampled_from([None, 9]),
    seed=st.integers(0, 100),
)
def test_no_row_is_lost(backlog, limit, rate, sigma, trigger, timeout, seed):
    trace = run(
        Flip183(limit, 5.0),
        seed,
        duration_seconds=200,
        initial_backlog_rows=backlog,
        initial_limit_rows=limit,
        arrival_rows_per_second=[[0, rate], [100, rate / 2]],
        noise_sigma=sigma,
        trigger_seconds=trigger,
        batch_timeout_seconds=timeout,
    )
    assert backlog + trace.arrived_rows == trace.committed_rows + trace.final_backlog_rows
    assert trace.arrived_rows == pytest.approx(150 * rate, abs=1)
    assert trace.max_backlog_rows >= max(trace.final_backlog_rows, backlog)
    for one, two in pairwise(trace.attempts):
        assert two.start_seconds >= one.end_seconds
        assert two.batch_id - one.batch_id == (0 if one.killed else 1)
    for attempt in trace.attempts:
        assert attempt.end_seconds <= 200
        assert attempt.limit_rows is not None
        assert attempt.rows <= attempt.limit_rows
        assert not attempt.limited or attempt.rows == attempt.limit_rows


@given(
    rates=st.lists(st.floats(0, 1000), min_size=1, max_size=6),
    initial=st.integers(0, 100),
    rows=st.floats(0.5, 5000),
)
def test_when_inverts_until(rates, initial, rows):
    series = Series(tuple(10.0 * k for k in range(len(rates))), tuple(rates))
    arrivals = Arrivals(series, initial)
    when = arrivals.when(rows)
    if when == math.inf:
        assert arrivals.until(10.0 * len(rates) + 1e6) < rows + 1e-3 or rates[-1] == 0.0
    else:
        assert arrivals.until(when) >= rows - 1e-6 * rows - 1e-9 or rows <= initial


def test_too_many_batches_are_refused(monkeypatch):
    monkeypatch.setattr(plant, "MOST_ATTEMPTS", 50)
    with pytest.raises(plant.TooManyBatches, match="50"):
        run()
