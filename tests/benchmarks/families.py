"""The scenario families on which controllers are compared."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from agent.simulation.scenario import Scenario, cold_times, read_scenario

BASE: dict[str, Any] = {
    "duration_seconds": 900,
    "trigger_seconds": 0,
    "target_seconds": 5,
    "initial_limit_rows": 20_000,
    "initial_backlog_rows": 0,
    "arrival_rows_per_second": [[0, 5000]],
    "fixed_cost_seconds": [[0, 1.2]],
    "throughput_rows_per_second": [[0, 10_000]],
    "congestion_rows": None,
    "noise_sigma": 0.15,
    "batch_timeout_seconds": None,
    "restart_seconds": 30,
}
#: More rows than a run can read: every batch is limited.
DRAIN: dict[str, Any] = {
    "initial_backlog_rows": 9_000_000,
    "arrival_rows_per_second": [[0, 2000]],
}


#: How a query starts on a JVM that has compiled nothing yet, as measured on four queries on a real
#: standalone cluster (docs/evidence.csv's; Spark 4.2, NEXMark): the first batch pays some ten
#: seconds for classes and code, and from then on all takes three times as long, which fades with a
#: time constant of half a minute.
COLD_FIRST_SECONDS: Final = 8.0
COLD_FADE_SECONDS: Final = 30.0
_COLD_STEP_SECONDS: Final = 5.0


class Family(NamedTuple):
    """A scenario and the seconds at which its cost changes while batches are limited."""

    scenario: Scenario
    changes: tuple[float, ...] = ()


def _ramp(begin: float, end: float, first: float, last: float) -> list[list[float]]:
    steps = 20
    held = [[0, first]] if begin > 0 else []
    return held + [
        [begin + (end - begin) * k / steps, first + (last - first) * k / steps]
        for k in range(steps + 1)
    ]


def _cold() -> dict[str, Any]:
    """The cost's two series from a cold start on, until five time constants have passed."""
    fixed, throughput = BASE["fixed_cost_seconds"][0][1], BASE["throughput_rows_per_second"][0][1]
    until = 5.0 * COLD_FADE_SECONDS
    fixed_series = [[0.0, fixed * cold_times(0.0, COLD_FADE_SECONDS) + COLD_FIRST_SECONDS]]
    rows_series = []
    for step in range(int(until / _COLD_STEP_SECONDS)):
        second = step * _COLD_STEP_SECONDS
        times = cold_times(second, COLD_FADE_SECONDS)
        # The first batch alone begins at second 0.
        fixed_series.append([max(second, 0.001), fixed * times])
        rows_series.append([second, throughput / times])
    return {
        "fixed_cost_seconds": [*fixed_series, [until, fixed]],
        "throughput_rows_per_second": [*rows_series, [until, throughput]],
    }


def _burst(at: float, rate: float = 20_000, seconds: float = 20) -> Any:
    """Arrivals: calm, then so many seconds of far more, then calm again."""
    return [[0, 500], [at, rate], [at + seconds, 500]]


def _family(name: str, *changes: float, **fields: Any) -> Family:
    return Family(read_scenario(json.dumps({**BASE, "name": name, **fields}), name), changes)


_STALLING: Final[dict[str, Any]] = {
    "target_seconds": 2,
    "fixed_cost_seconds": [[0, 0.3]],
    "throughput_rows_per_second": [[0, 110_000]],
    "noise_sigma": 0.08,
    "initial_limit_rows": 200_000,
    "arrival_rows_per_second": [
        [at, rate]
        for k in range(15)
        for at, rate in ((60 * k, 15_000), (60 * k + 40, 200_000), (60 * k + 46, 15_000))
    ],
}

FAMILIES: tuple[Family, ...] = (
    _family("steady"),
    _family("step-up", arrival_rows_per_second=[[0, 2000], [300, 6000]]),
    _family("step-down", arrival_rows_per_second=[[0, 6000], [300, 1500]]),
    _family("ramp", arrival_rows_per_second=_ramp(0, 900, 1000, 6200)),
    _family("spike", arrival_rows_per_second=[[0, 3000], [300, 40_000], [330, 3000]]),
    _family(
        "sawtooth-day",
        duration_seconds=3600,
        arrival_rows_per_second=[
            [k * 900 + at, rate] for k in range(4) for at, rate in _ramp(0, 855, 500, 9000)
        ],
    ),
    _family("slower-rows", throughput_rows_per_second=[[0, 20_000], [300, 10_000]]),
    _family("faster-rows", throughput_rows_per_second=[[0, 10_000], [300, 20_000]]),
    _family("growing-state", fixed_cost_seconds=_ramp(200, 700, 1.2, 2.4)),
    _family("fixed-above-target", fixed_cost_seconds=[[0, 7]]),
    _family("fixed-just-under", fixed_cost_seconds=[[0, 4.5]]),
    _family(
        "fixed-just-under-light",
        0,
        fixed_cost_seconds=[[0, 4.5]],
        **{**DRAIN, "arrival_rows_per_second": [[0, 500]]},
    ),
    _family(
        "fixed-above-drain",
        target_seconds=2,
        fixed_cost_seconds=[[0, 9]],
        throughput_rows_per_second=[[0, 30]],
        initial_limit_rows=100,
        initial_backlog_rows=60_000,
        duration_seconds=1800,
        arrival_rows_per_second=[[0, 0]],
    ),
    _family(
        "fixed-just-under-drain",
        fixed_cost_seconds=[[0, 4.5]],
        initial_limit_rows=2000,
        initial_backlog_rows=600_000,
        arrival_rows_per_second=[[0, 0]],
    ),
    _family(
        "fixed-passes-and-returns",
        fixed_cost_seconds=[[0, 1.2], [300, 6], [600, 1.2]],
        initial_backlog_rows=9_000_000,
        arrival_rows_per_second=[[0, 0]],
    ),
    _family(
        "overload-congestion",
        congestion_rows=40_000,
        arrival_rows_per_second=[[0, 12_000]],
    ),
    _family("overload", arrival_rows_per_second=[[0, 12_000]]),
    _family("drain", 0, **DRAIN),
    _family("drain-arrivals-up", **{**DRAIN, "arrival_rows_per_second": [[0, 2000], [450, 6000]]}),
    _family(
        "drain-arrivals-down", **{**DRAIN, "arrival_rows_per_second": [[0, 6000], [450, 1000]]}
    ),
    _family(
        "drain-slower-rows", 450, throughput_rows_per_second=[[0, 10_000], [450, 5000]], **DRAIN
    ),
    _family(
        "drain-faster-rows", 450, throughput_rows_per_second=[[0, 10_000], [450, 20_000]], **DRAIN
    ),
    _family(
        "drain-much-slower-rows",
        450,
        throughput_rows_per_second=[[0, 10_000], [450, 2500]],
        **{**DRAIN, "arrival_rows_per_second": [[0, 1000]]},
    ),
    _family("drain-fixed-doubles", 450, fixed_cost_seconds=[[0, 1.2], [450, 2.4]], **DRAIN),
    _family("drain-growing-state", fixed_cost_seconds=_ramp(200, 700, 1.2, 2.4), **DRAIN),
    _family("drain-fixed-passes-target", fixed_cost_seconds=[[0, 1.2], [450, 6]], **DRAIN),
    _family(
        "drain-both-change",
        300,
        600,
        throughput_rows_per_second=[[0, 10_000], [300, 4000], [600, 10_000]],
        **DRAIN,
    ),
    _family(
        # As a real query went that reads files: its sink got dearer, then its state, and then its
        # sink cheap again, on a calm machine. Of the first change several stories can be told, and
        # a dozen files a batch are few sizes to tell them apart by.
        "drain-few-files",
        400,
        duration_seconds=520,
        target_seconds=10,
        initial_limit_rows=12,
        noise_sigma=0.04,
        throughput_rows_per_second=[[0, 2.5], [100, 0.83], [400, 2.5]],
        fixed_cost_seconds=[[0, 0.5], [250, 3.5]],
        initial_backlog_rows=100_000,
        arrival_rows_per_second=[[0, 0.5]],
    ),
    _family(
        "drain-heavy-noise",
        0,
        450,
        noise_sigma=0.5,
        throughput_rows_per_second=[[0, 10_000], [450, 5000]],
        **DRAIN,
    ),
    _family("heavy-noise", 0, noise_sigma=0.5, **DRAIN),
    _family("noise-0.45", 0, noise_sigma=0.45, **DRAIN),
    _family(
        "no-noise",
        0,
        450,
        noise_sigma=0,
        throughput_rows_per_second=[[0, 10_000], [450, 5000]],
        **DRAIN,
    ),
    _family("start-400-too-small", initial_limit_rows=95, **DRAIN),
    _family("start-30-too-big", 0, initial_limit_rows=1_140_000, **DRAIN),
    _family("congestion", 0, congestion_rows=40_000, **DRAIN),
    _family("congestion-steady", congestion_rows=40_000, arrival_rows_per_second=[[0, 3500]]),
    _family(
        "congestion-start-too-big",
        0,
        congestion_rows=40_000,
        initial_limit_rows=300_000,
        duration_seconds=1800,
        **DRAIN,
    ),
    _family(
        "idle-nights",
        duration_seconds=7200,
        arrival_rows_per_second=[
            [0, 0],
            [1200, 9000],
            [2400, 0],
            [3600, 6000],
            [4800, 0],
            [6000, 11_000],
            [6300, 3000],
        ],
    ),
    _family("cold-start", initial_backlog_rows=3_000_000, arrival_rows_per_second=[[0, 5000]]),
    _family(
        "cold-start-unlimited",
        initial_backlog_rows=3_000_000,
        initial_limit_rows=3_000_000,
        arrival_rows_per_second=[[0, 5000]],
    ),
    _family(
        "time-out",
        batch_timeout_seconds=20,
        duration_seconds=1800,
        initial_limit_rows=150_000,
        initial_backlog_rows=3_000_000,
        throughput_rows_per_second=[[0, 10_000], [900, 6000]],
        arrival_rows_per_second=[[0, 3000]],
    ),
    _family(
        "time-out-noise",
        batch_timeout_seconds=15,
        noise_sigma=0.45,
        duration_seconds=1800,
        initial_limit_rows=60_000,
        **{**DRAIN, "initial_backlog_rows": 20_000_000},
    ),
    _family(
        "trigger-interval",
        trigger_seconds=10,
        arrival_rows_per_second=[[0, 3000]],
        initial_backlog_rows=400_000,
    ),
    # More comes in a minute than a batch of the target holds, and far less than a minute digests.
    _family(
        "trigger-minute",
        trigger_seconds=60,
        duration_seconds=3600,
        fixed_cost_seconds=[[0, 0.3]],
        initial_limit_rows=1_000_000,
        arrival_rows_per_second=[[0, 4000]],
    ),
    # A burst of a few minutes: at the target's size five sixths of each minute would stay unused.
    _family(
        "trigger-minute-burst",
        trigger_seconds=60,
        duration_seconds=3600,
        target_seconds=10,
        fixed_cost_seconds=[[0, 0.5]],
        initial_limit_rows=100_000,
        arrival_rows_per_second=[[0, 200], [900, 8000], [1020, 200]],
    ),
    _family("trigger-interval-drain", 0, trigger_seconds=5, target_seconds=4, **DRAIN),
    _family(
        "tiny-rows",
        0,
        target_seconds=2,
        fixed_cost_seconds=[[0, 0.3]],
        throughput_rows_per_second=[[0, 2_000_000]],
        initial_limit_rows=500_000,
        initial_backlog_rows=2_000_000_000,
        arrival_rows_per_second=[[0, 400_000]],
    ),
    _family(
        "huge-rows",
        0,
        target_seconds=30,
        fixed_cost_seconds=[[0, 5]],
        throughput_rows_per_second=[[0, 3]],
        initial_limit_rows=20,
        initial_backlog_rows=20_000,
        arrival_rows_per_second=[[0, 1]],
        duration_seconds=7200,
    ),
    # As real ones do: a query starts cold, idles at batches of one size, which tell nothing of
    # larger ones, and then comes more than it has ever seen, under a limit that nothing reached.
    _family("cold-java-steady", initial_limit_rows=1_000_000, **_cold()),
    _family("cold-java-drain", 0, **_cold(), **DRAIN),
    _family(
        "cold-java-step",
        60,
        initial_limit_rows=1_000_000,
        arrival_rows_per_second=[[0, 1000], [60, 7000]],
        **_cold(),
    ),
    _family(
        "cold-java-burst",
        100,
        initial_limit_rows=1_000_000,
        arrival_rows_per_second=_burst(100),
        **_cold(),
    ),
    _family(
        "calm-burst",
        300,
        initial_limit_rows=1_000_000,
        arrival_rows_per_second=_burst(300),
    ),
    _family(
        "calm-burst-mostly-fixed",
        300,
        initial_limit_rows=1_000_000,
        fixed_cost_seconds=[[0, 2.5]],
        arrival_rows_per_second=_burst(300, rate=40_000),
    ),
    _family(
        "calm-burst-trigger",
        300,
        trigger_seconds=10,
        initial_limit_rows=1_000_000,
        arrival_rows_per_second=_burst(300, rate=10_000, seconds=60),
    ),
    # As in the demo: small batches between bursts, and now and then one of them is slow by itself.
    # What large ones taught of rows must outlast it.
    _family("bursts-stalls", **_STALLING, stalls={"chance": 0.04, "mean_seconds": 0.25}),
    _family("bursts", **_STALLING),
    _family("drain-stalls", 0, **DRAIN, stalls={"chance": 0.04, "mean_seconds": 0.5}),
)
