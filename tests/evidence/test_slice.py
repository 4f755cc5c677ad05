"""A slice of the whole: a real broker and cluster, a query without Weir, then under it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.evidence.figures import batches_of, figures
from tests.benchmarks.evidence.run import WARM_UP_LUMPS, Run, World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.benchmarks.evidence.record import Record

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1800),
    pytest.mark.slow("a broker, a cluster, and a driver with executors for each way of running"),
    pytest.mark.course("as long as three runs take"),
]
ROWS, TARGET_ROWS = 8_000, 1_000
#: No batch takes that long on the busiest machine: what is tried is that all comes through.
TARGET_SECONDS = 120.0


def way(arm: str, limit: int | None = None, agent: tuple[()] | None = None) -> Run:
    return Run(
        "q5",
        "tweets-apple",
        arm,
        1,
        8.0,
        ROWS,
        TARGET_ROWS,
        limit,
        agent=agent,
        target_seconds=TARGET_SECONDS,
    )


WAYS = {"configured": way("configured"), "fixed-1": way("fixed-1", TARGET_ROWS)}
WAYS["weir"] = way("weir", agent=())


@pytest.fixture(scope="module")
def records(
    kafka_jars: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Record]]:
    folder: Path = tmp_path_factory.mktemp("evidence")
    with World(folder) as world:
        yield {name: world.run(run) for name, run in WAYS.items()}


def test_each_way_reads_every_row_and_computes_the_same(records: dict[str, Record]) -> None:
    for record in records.values():
        found = figures(record)
        assert found.rows == ROWS
        assert (found.rows_left, found.dropped_rows, found.failures) == (0, 0, 0)
        assert 0 < found.wait_p50_seconds <= found.wait_p99_seconds
        assert [one["event"] for one in record.told] == ["restart", "stop"]
        assert len(record.executors) == 2
        warm_up = sum(round(share * TARGET_ROWS) for share in WARM_UP_LUMPS)
        assert sum(one.rows for one in record.arrivals) == ROWS + warm_up
    assert records["configured"].results["rows"] > 0
    assert len({record.results["sha256"] for record in records.values()}) == 1


def test_a_fixed_limit_is_kept_and_without_one_a_burst_is_one_batch(
    records: dict[str, Record],
) -> None:
    largest = {
        name: max(batch.rows for batch in batches_of(record.progress))
        for name, record in records.items()
    }
    assert largest["fixed-1"] <= TARGET_ROWS < largest["configured"]


def test_the_agent_steers_under_weir_and_there_is_none_beside(records: dict[str, Record]) -> None:
    assert [name for name, record in records.items() if record.end["weir"]] == ["weir"]
