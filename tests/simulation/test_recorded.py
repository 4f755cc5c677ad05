"""Arrivals recorded in the world: the traces are whole, and what is promised on them holds."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from tests.benchmarks.recorded import LOADS, THROUGHPUT, Case, read, recordings, run, scenario_of

TRACES = recordings()


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_tells_its_source_and_is_played_at_the_load_asked_for(name: str) -> None:
    trace = TRACES[name]
    text = (Path(__file__).parents[1] / "benchmarks" / "arrivals" / f"{name}.txt").read_text()
    assert "# source: github.com/" in text
    assert 20 <= len(trace.events) <= 1000
    assert trace.bin_seconds > 0
    for load in LOADS:
        rates = scenario_of(trace, load, 0.1).arrival_rows_per_second
        assert statistics.fmean(rates.values) == pytest.approx(load * 0.9 * THROUGHPUT)
        assert len(rates.times) == len(trace.events)


def test_bursts_of_thirty_times_the_median_are_among_them() -> None:
    assert max(max(t.events) / max(statistics.median(t.events), 1) for t in TRACES.values()) >= 30


def test_a_trace_without_its_bin_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.txt"
    path.write_text("# nothing\n1 2 3\n")
    with pytest.raises(ValueError, match=r"broken\.txt: bin_seconds is missing"):
        read(path)


@pytest.mark.parametrize(
    ("share", "p95", "p99", "peak"), [(0.1, 1.35, 1.55, 1.1), (0.35, 2.2, 2.8, 1.0)]
)
def test_users_of_the_target_get_it_on_a_bursty_trace(
    share: float, p95: float, p99: float, peak: float
) -> None:
    """Requests to a language model, at a load of .8: most of the busy time is overload.

    Noise alone takes the 95th percentile of batches of the target's size to 1.28 of it, and
    FLIP-183's rule to 1.35.
    """
    _, outcomes = run(Case("llm-code", 0.8, share, 0))
    weir, flip = outcomes["weir"], outcomes["flip183"]
    assert weir.p95 <= p95
    assert weir.p99 <= p99
    assert weir.most_backlog_rows <= peak * flip.most_backlog_rows
