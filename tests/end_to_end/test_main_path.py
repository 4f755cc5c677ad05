"""A real query, watched and regulated by a real agent, and seen where people look."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import sync_playwright

from tests.page.conftest import chromium
from tests.service.agents import AgentProcess, weir
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.spark.conftest import Folder

pytestmark = [pytest.mark.spark, pytest.mark.browser]
GRANT_SECONDS = 15  # the least that an agent takes: three heartbeats


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    with started(tmp_path) as running:
        yield running


def started(tmp_path: Path, port: int = 0) -> AgentProcess:
    return AgentProcess(
        tmp_path,
        "--state-dir",
        str(tmp_path / "state"),
        "--target-seconds",
        "3",
        "--grant-seconds",
        str(GRANT_SECONDS),
        port=port,
    )


def files_of(query: Any) -> list[int]:
    """Files per batch, of the batches that read any."""
    rows = [progress["numInputRows"] // 10 for progress in query.recentProgress]
    return [count for count in rows if count]


def view(agent: AgentProcess, name: str) -> dict[str, Any] | None:
    answer = agent.http.get("/v1/queries").json()
    return next((query for query in answer["queries"] if query["query"] == name), None)


def slow_batches(seconds_per_file: float) -> Callable[[Any, int], None]:
    def run(frame: Any, _: int) -> None:
        time.sleep(seconds_per_file * frame.count() / 10)

    return run


@pytest.mark.slow("a minute; a burst on Kafka is regulated every time in tests/kafka")
def test_a_burst_changes_the_limit_within_three_batches_and_the_run_stays(
    agent: AgentProcess, spark: Any, attached: Any, folder: Any, start: Any
) -> None:
    """20 files of 0.4 s each per batch as configured: 8 s against a target of 3 s."""
    attached(agent.address)
    files: Folder = folder()
    query = start(files.read(spark, 20), batch=slow_batches(0.4), name="burst")
    run_id = str(query.runId)
    until(lambda: view(agent, "burst"), "the query")
    files.add(150)  # more than would be read, were the limit never changed in time

    def adapted() -> int | None:
        """Batches from the first full one, which the burst's first need not be, to a smaller."""
        counts = files_of(query)
        begun = counts.index(20) if 20 in counts else len(counts)
        return next((n for n, count in enumerate(counts[begun:]) if count < 20), None)

    changed = until(adapted, "a smaller batch", seconds=240)
    assert changed <= 3, files_of(query)
    assert str(query.runId) == run_id
    assert query.isActive
    seen = until(lambda: view(agent, "burst"), "the query")
    assert seen["run_id"] == run_id
    assert seen["decisions"][-1]["acted"] is True
    metrics = agent.http.get("/metrics").text
    (in_force,) = re.findall(
        r'^weir_limit_files\{[^}]*query="burst"[^}]*\} (\d+)', metrics, re.MULTILINE
    )
    assert int(in_force) < 20


@pytest.mark.slow("a grant's life; that limits come back is looked at every time in tests/spark")
def test_the_agent_dies_the_configured_limit_returns_and_it_comes_back_knowing(
    tmp_path: Path, spark: Any, attached: Any, folder: Any, start: Any
) -> None:
    files: Folder = folder(files=400)
    with started(tmp_path) as first:
        attached(first.address)
        port = int(first.address.rpartition(":")[2])
        query = start(files.read(spark, 12), batch=slow_batches(0.4), name="orders")
        until(lambda: any(count < 12 for count in files_of(query)), "a smaller batch")
        first.kill()
    before = len(files_of(query))
    time.sleep(GRANT_SECONDS)
    until(lambda: 12 in files_of(query)[before:], "a batch of the configured limit", seconds=120)
    query.stop()
    with started(tmp_path, port=port) as second:
        # A killed agent has lost nothing: the first batch of the next run is limited.
        seen = until(lambda: view(second, "orders"), "the query")
        assert seen["throughput_rows_per_second"] is not None
        until(lambda: any(event["last_heard_time"] for event in heard(second)), "the listener")
        again = start(files.read(spark, 12), batch=slow_batches(0.4), name="orders")
        until(lambda: files_of(again), "the first batch of the next run")
        assert files_of(again)[0] < 12


def heard(agent: AgentProcess) -> list[dict[str, Any]]:
    """Listeners that this agent, not one before it, has heard of."""
    answer = agent.http.get("/v1/queries").json()
    began = answer["agent"]["started_time"]
    return [item for item in answer["listeners"] if item["last_heard_time"] > began]


@pytest.mark.slow("a minute; that a hung batch is seen is tried every time in tests/spark")
@pytest.mark.course("beside an agent, and through the plugin, one hangs in make test-all")
def test_a_hung_batch_is_seen_growing_older_everywhere(
    agent: AgentProcess, spark: Any, attached: Any, folder: Any, start: Any
) -> None:
    let_go = threading.Event()

    def hang(_: Any, batch_id: int) -> None:
        if batch_id == 1:
            let_go.wait(120)

    attached(agent.address)
    files: Folder = folder(files=3)
    start(files.read(spark, 1), batch=hang, name="hung")
    try:
        seen = until(
            lambda: (v := view(agent, "hung")) and v["running_batch_id"] == 1 and v,
            "the hung batch",
        )
        with sync_playwright() as playwright:
            browser = chromium(playwright)
            page = browser.new_page()
            page.goto(agent.address + "/")
            page.wait_for_function("document.body.innerText.includes('hung')")
            ages = [age_everywhere(agent, page)]
            time.sleep(4)
            ages.append(age_everywhere(agent, page))
            browser.close()
        for place in ("metrics", "top", "page"):
            assert ages[1][place] > ages[0][place] + 2, (place, ages)
        assert seen["run_id"]
    finally:
        let_go.set()


def age_everywhere(agent: AgentProcess, page: Any) -> dict[str, float]:
    """Seconds that batch 1 has run, as each place tells it now."""
    metrics = agent.http.get("/metrics").text
    (metric,) = re.findall(
        r'^weir_batch_running_seconds\{[^}]*query="hung"[^}]*\} (\S+)', metrics, re.MULTILINE
    )
    top = weir("top", "--once", "--url", agent.address).stdout
    page.wait_for_timeout(2500)  # its own poll
    return {
        "metrics": float(metric),
        "top": spoken_seconds(top),
        "page": spoken_seconds(page.inner_text("body")),
    }


def spoken_seconds(text: str) -> float:
    """The longest time that a batch is said to have been running, in seconds."""
    said = r"(?:running(?: for)?|batch 1 for)\s+(?:(\d+) ?min )?(\d+(?:\.\d+)?) ?s\b"
    ages = [60 * float(minutes or 0) + float(rest) for minutes, rest in re.findall(said, text)]
    assert ages, text
    return max(ages)
