"""The controller in the loop: what the benchmark measures at length, here on a few runs."""

from __future__ import annotations

import statistics
from itertools import pairwise

import pytest

from agent.simulation import best_static, plant, summary
from agent.simulation.live import EPOCH_SECONDS, Live, policy_of
from agent.simulation.oracle import Oracle
from agent.simulation.yardsticks import Flip183, Pid
from tests.simulation.scenarios import scenario_of

DRAIN = {"initial_backlog_rows": 9_000_000, "arrival_rows_per_second": [[0, 2000]]}
#: A fixed cost far above the target, and nothing that arrives.
OUT_OF_REACH = {
    "duration_seconds": 1800,
    "target_seconds": 2,
    "fixed_cost_seconds": [[0, 9]],
    "throughput_rows_per_second": [[0, 30]],
    "initial_limit_rows": 100,
    "arrival_rows_per_second": [[0, 0]],
}
CHANGES = {
    "steady": {},
    "slower": {"throughput_rows_per_second": [[0, 10_000], [450, 5000]]},
    "faster": {"throughput_rows_per_second": [[0, 10_000], [450, 20_000]]},
    "too small": {"initial_limit_rows": 95},
    "too big": {"initial_limit_rows": 1_140_000},
    "congestion": {"congestion_rows": 40_000},
}


def share(scenario, controller, seeds=range(4)) -> float:
    shares = [
        summary.in_band_share(
            plant.run(scenario, plant.Noise.of(scenario, seed), controller()),
            scenario.target_seconds,
        )
        or 0.0
        for seed in seeds
    ]
    return sum(shares) / len(shares)


@pytest.mark.parametrize("name", CHANGES)
def test_more_batches_take_the_target_than_under_any_yardstick(name):
    scenario = scenario_of(**{**DRAIN, **CHANGES[name]})
    limit, target = scenario.initial_limit_rows, scenario.target_seconds
    weir = share(scenario, lambda: Live(scenario))
    assert weir > share(scenario, lambda: Flip183(limit, target))
    assert weir > share(scenario, lambda: Pid(limit, target))
    assert weir > share(scenario, lambda: Oracle(scenario, policy_of(scenario))) - 0.05


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_fixed_cost_above_the_target_is_no_trap(seed):
    scenario = scenario_of(fixed_cost_seconds=[[0, 7]], arrival_rows_per_second=[[0, 5000]])
    live = Live(scenario)
    weir = plant.run(scenario, plant.Noise(0.15, seed), live)
    trapped = plant.run(scenario, plant.Noise(0.15, seed), Flip183(10_000, 5.0))
    assert trapped.final_backlog_rows > 3_000_000
    assert weir.final_backlog_rows < 250_000


def test_a_first_batch_of_few_rows_does_not_lower_the_limit():
    """Its time is all fixed cost: a rate from it would be a thousand times too low."""
    scenario = scenario_of(
        fixed_cost_seconds=[[0, 9]],
        initial_limit_rows=20_000,
        arrival_rows_per_second=[[0, 5000]],
        noise_sigma=0,
    )
    trace = plant.run(scenario, plant.Noise(0, 1), Live(scenario))
    assert trace.attempts[0].rows < 100
    assert min(attempt.limit_rows or 0 for attempt in trace.attempts) >= 20_000


def test_at_rest_nothing_moves():
    scenario = scenario_of(**{**DRAIN, "noise_sigma": 0, "duration_seconds": 3600})
    trace = plant.run(scenario, plant.Noise(0, 1), Live(scenario))
    limits = [attempt.limit_rows for attempt in trace.attempts]
    settled = limits[len(limits) // 4 :]
    assert sum(one != two for one, two in pairwise(settled)) <= 3
    assert max(settled) <= 1.03 * min(settled)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("fixed", "timeout", "least", "most"),
    [
        (1.2, 8, 4.0, 5.2),  # more arrives than any size digests: it uses the deadline
        (2.5, 20, 4.8, 8.0),  # but no more than three fixed costs: the rest would not pay
    ],
)
def test_the_deadline_is_kept_once_it_is_known_what_a_batch_costs(
    seed, fixed, timeout, least, most
):
    scenario = scenario_of(
        **DRAIN
        | {
            "fixed_cost_seconds": [[0, fixed]],
            "batch_timeout_seconds": timeout,
            "arrival_rows_per_second": [[0, 15_000]],
        }
    )
    trace = plant.run(scenario, plant.Noise(0.15, seed), Live(scenario))
    later = [a for a in trace.attempts if a.batch_id >= 15]
    assert sum(a.killed for a in later) == 0
    assert least < statistics.median(a.seconds for a in later) < most


@pytest.mark.parametrize("seed", range(3))
def test_batches_that_are_all_killed_at_first_end_with_the_first_that_comes_through(seed):
    """Each comes through on a later attempt only: nothing is learned, but that it is too long."""
    scenario = scenario_of(
        duration_seconds=3600,
        initial_limit_rows=160_000,
        initial_backlog_rows=9_000_000,
        batch_timeout_seconds=15,
    )
    trace = plant.run(scenario, plant.Noise(0.15, seed), Live(scenario))
    assert trace.attempts[0].killed
    later = [a for a in trace.attempts if a.batch_id >= 3]  # decided from batch 0 at the earliest
    assert len(later) > 300
    assert max(a.rows for a in later) < 100_000
    assert sum(a.killed for a in later) <= 2


def test_a_spike_is_digested_at_the_target():
    scenario = scenario_of(arrival_rows_per_second=[[0, 3000], [300, 40_000], [325, 3000]])
    trace = plant.run(scenario, plant.Noise(0.15, 1), Live(scenario))
    after = [a for a in trace.attempts if a.start_seconds > 330 and a.limited]
    assert len(after) > 20
    assert max(a.seconds for a in after) < 2 * 5.0
    assert trace.final_backlog_rows < 50_000


@pytest.mark.parametrize("seed", range(6))
def test_no_arrivals_and_a_fixed_cost_above_the_target_still_drain(seed):
    """Nothing asks for stability then: only the backlog speaks against tiny batches."""
    scenario = scenario_of(**OUT_OF_REACH, initial_backlog_rows=19_750)
    noise = plant.Noise(0.15, seed)
    weir = plant.run(scenario, noise, Live(scenario))
    oracle = Oracle(scenario, policy_of(scenario))
    p95 = summary.reference(plant.run(scenario, noise, oracle)).p95_batch_seconds
    best = best_static.search(scenario, noise, p95)
    assert weir.committed_rows >= 0.97 * best.committed_rows
    assert weir.final_backlog_rows == 0
    assert weir.attempts[-1].end_seconds < 1.35 * (19_750 / 30 * 1.5)  # two thirds are rows'
    # Of what can be caught up with in a minute the last batches are smaller.
    learned = [a.limit_rows for a in weir.attempts if a.batch_id >= 12 and a.backlog_rows > 1500]
    small = sum(one < 200 for one in learned)
    assert small <= 1 + len(learned) // 24  # one in 24 asks whether c0 is still what it was


@pytest.mark.parametrize("seed", [3, 6, 7, 8])
def test_a_fixed_cost_that_rises_above_the_target_is_told_from_dearer_rows(seed):
    """Taken for dearer rows it leaves batches too small to tell ever after."""
    scenario = scenario_of(**{**DRAIN, "fixed_cost_seconds": [[0, 1.2], [450, 6]]})
    noise = plant.Noise(0.15, seed)
    weir = plant.run(scenario, noise, Live(scenario))
    oracle = plant.run(scenario, noise, Oracle(scenario, policy_of(scenario)))
    assert weir.committed_rows > 0.8 * oracle.committed_rows
    # 120,000 rows spread c0, 13,000 take 1.5 targets; one of several may be a small one, to see.
    assert max(a.rows for a in weir.attempts[-3:]) > 80_000


def test_out_of_reach_of_the_target_a_step_may_double_the_time_of_a_batch():
    """From a few rows, all fixed cost, by doubled rows it would take ten batches and more."""
    scenario = scenario_of(**OUT_OF_REACH, initial_backlog_rows=60_000)
    trace = plant.run(scenario, plant.Noise(0.15, 1), Live(scenario))
    smallest = min(trace.attempts, key=lambda a: a.rows)
    assert smallest.rows < 20
    large = next(a for a in trace.attempts[smallest.batch_id :] if a.rows > 400)
    assert large.batch_id <= smallest.batch_id + 5


@pytest.mark.parametrize("seed", range(6))
def test_a_fixed_cost_just_under_the_target_is_within_its_reach(seed):
    scenario = scenario_of(
        fixed_cost_seconds=[[0, 4.4]],
        initial_backlog_rows=9_000_000,
        arrival_rows_per_second=[[0, 300]],
        noise_sigma=0.1,
    )
    trace = plant.run(scenario, plant.Noise(0.1, seed), Live(scenario))
    later = [a.seconds for a in trace.attempts[20:]]
    assert sum(0.7 * 5 <= one <= 1.3 * 5 for one in later) > 0.9 * len(later)
    # One that was taken for out of reach may be a small one, to see.
    assert sum(a.rows < 3000 for a in trace.attempts[20:]) <= 2


@pytest.mark.parametrize("seed", range(6))
def test_overload_and_congestion_without_a_deadline_stay_near_the_knee(seed):
    """A line says that larger batches always bring more; what is seen says when they do not."""
    scenario = scenario_of(
        congestion_rows=40_000,
        arrival_rows_per_second=[[0, 12_000]],
        initial_limit_rows=20_000,
        duration_seconds=3600,
    )
    trace = plant.run(scenario, plant.Noise(0.15, seed), Live(scenario))
    seconds = sorted(a.seconds for a in trace.attempts)
    assert summary.percentile(seconds, 0.95) < 4 * 5
    assert max(seconds) < 60
    knee = (1.2 * 10_000 * 40_000) ** 0.5  # rows, where n / (c0 + n/mu (1 + n/c)) is largest
    most = knee / scenario.seconds(knee, 0.0) * 3600
    assert trace.committed_rows > 0.87 * most


def test_overload_is_said_with_how_much_is_missing_and_since_when():
    scenario = scenario_of(
        arrival_rows_per_second=[[0, 3000], [300, 15_000], [600, 3000]],
        duration_seconds=3000,
        noise_sigma=0.05,
    )
    live = Live(scenario)
    said: list[tuple[float, float | None, float | None]] = []

    class Watching:
        limit_rows = property(lambda _: live.limit_rows)
        started, idle = live.started, live.idle

        def ended(self, attempt):
            live.ended(attempt)
            (view,) = live._fleet.views(0.0)
            since = view.capacity_short_since_time
            end = attempt.end_seconds
            said.append(
                (
                    end,
                    view.required_capacity_ratio,
                    None if since is None else since - EPOCH_SECONDS,
                )
            )

    plant.run(scenario, plant.Noise(0.05, 1), Watching())
    assert all(since is None and ratio < 0.8 for at, ratio, since in said if 60 < at < 300)
    short = [(ratio, since) for at, ratio, since in said if 400 < at < 600]
    # 15,000 over the 10,000 that rows alone would allow, a little less with c0.
    assert all(ratio is not None and 1.5 < ratio < 1.9 for ratio, _ in short)
    assert len({since for _, since in short}) == 1
    assert 300 < short[0][1] < 360
    assert said[-1][2] is None


@pytest.mark.parametrize("seed", range(3))
def test_a_trigger_longer_than_the_target_is_no_reason_to_fall_behind(seed):
    """24 s of rows come a minute; the target of 5 s would digest a fifth of them."""
    scenario = scenario_of(
        duration_seconds=3600,
        trigger_seconds=60,
        initial_limit_rows=1_000_000,
        fixed_cost_seconds=[[0, 0.3]],
        arrival_rows_per_second=[[0, 4000]],
    )
    trace = plant.run(scenario, plant.Noise(0.15, seed), Live(scenario))
    assert trace.final_backlog_rows <= 2 * 60 * 4000
    assert max(a.seconds for a in trace.attempts[-10:]) < 60


def test_a_light_query_whose_fixed_cost_takes_the_target_stays_near_it():
    """Hardly a row arrives: nothing asks for batches of three fixed costs."""
    scenario = scenario_of(
        duration_seconds=1800,
        target_seconds=1,
        fixed_cost_seconds=[[0, 1.1]],
        arrival_rows_per_second=[[0, 100]],
        initial_backlog_rows=60_000,
    )
    trace = plant.run(scenario, plant.Noise(0.15, 1), Live(scenario))
    assert trace.final_backlog_rows <= 2000
    limits = [a.limit_rows for a in trace.attempts[-20:]]
    assert all(110 <= limit <= 1000 for limit in limits)  # 0.1 s of rows, not 2.2


@pytest.mark.parametrize("seed", range(2))
def test_what_only_batches_far_beyond_the_price_digest_is_digested(seed):
    """0.85 of what rows alone would take: three fixed costs digest 0.67 and would fall behind."""
    scenario = scenario_of(
        duration_seconds=5400,
        fixed_cost_seconds=[[0, 1.75]],
        arrival_rows_per_second=[[0, 8500]],
    )
    trace = plant.run(scenario, plant.Noise(0.15, seed), Live(scenario))
    assert trace.final_backlog_rows < 60 * 8500


def test_only_what_lasts_seven_targets_is_worth_batches_beyond_the_target():
    """35 s, and what it takes to see that more arrives: the third batch of it."""
    scenario = scenario_of(
        fixed_cost_seconds=[[0, 2.0]],
        throughput_rows_per_second=[[0, 10_000]],
        arrival_rows_per_second=[[0, 1000], [300, 7000]],
        noise_sigma=0.05,
        duration_seconds=600,
    )
    trace = plant.run(scenario, plant.Noise(0.05, 0), Live(scenario))
    first = next(a for a in trace.attempts if a.start_seconds > 300 and a.seconds > 6.5)
    assert 40.0 < first.start_seconds - 300 < 65.0


@pytest.mark.parametrize("seed", range(2))
def test_a_small_batch_that_is_slow_by_itself_takes_no_limit_from_the_next_burst(seed):
    """Bursts of twelve seconds of work a minute; of the small batches between 4 in 100 stall."""
    scenario = scenario_of(
        duration_seconds=600,
        target_seconds=2,
        fixed_cost_seconds=[[0, 0.3]],
        throughput_rows_per_second=[[0, 110_000]],
        noise_sigma=0.08,
        initial_limit_rows=200_000,
        arrival_rows_per_second=[
            [at, rate]
            for minute in range(10)
            for at, rate in ((60 * minute, 15_000), (60 * minute + 46, 200_000))
        ],
        stalls={"chance": 0.04, "mean_seconds": 0.25},
    )
    assert share(scenario, lambda: Live(scenario), seeds=[seed]) > 0.93


@pytest.mark.parametrize(
    ("target", "fixed", "slow_seconds", "arriving"),
    [
        (10, 2.0, 30, 850),
        (10, 2.0, 30, 900),
        (10, 2.0, 40, 800),
        (10, 2.0, 60, 700),
        (5, 1.0, 60, 600),
        (5, 1.0, 30, 800),
    ],
)
def test_what_every_tenth_batch_takes_beside_is_digested_too(target, fixed, slow_seconds, arriving):
    """As where a file sink compacts its log: the target is left for as much as that takes."""

    class EveryTenth(plant.Noise):
        def stall_seconds(self, number):
            return float(slow_seconds) if number % 10 == 9 else 0.0

    scenario = scenario_of(
        duration_seconds=5000,
        target_seconds=target,
        initial_limit_rows=2_000_000_000,
        initial_backlog_rows=10 * arriving,
        arrival_rows_per_second=[[0, arriving]],
        fixed_cost_seconds=[[0, fixed]],
        throughput_rows_per_second=[[0, 1250]],
        noise_sigma=0.08,
    )
    trace = plant.run(scenario, EveryTenth(0.08, 1), Live(scenario))
    late = [one.backlog_rows / arriving for one in trace.attempts if one.start_seconds > 2500]
    assert max(late) < 4 * slow_seconds
    assert min(late) < 2 * slow_seconds
