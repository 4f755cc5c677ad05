"""The demo as a whole, on real Spark: its table, its words on failure, and nothing left behind."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def work() -> Iterator[Path]:
    """Where the demo keeps its things; another run of it must not be going on."""
    path = ROOT / ".demo"
    ours = [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if str(path) in " ".join(process.info["cmdline"] or [])
    ]
    if ours:
        pytest.fail(f"a demo runs in this checkout already (process {ours[0]})")
    yield path
    until(  # what was killed may take a moment to be gone
        lambda: not descendants_of_demo(path),
        "the demo's processes to be gone",
        seconds=30,
        every=0.5,
        telling=lambda: descendants_of_demo(path),
    )


def descendants_of_demo(path: Path) -> list[str]:
    """Agent, job or Java of a demo, found by their command lines."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        here = "examples.demo" in words and _folder(process) == ROOT
        if str(path) in words or here:
            found.append(f"{process.info['pid']}: {words[:100]}")
    return found


def _folder(process: psutil.Process) -> Path | None:
    with contextlib.suppress(psutil.Error):
        return Path(process.cwd())
    return None


def demo(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "examples.demo", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def java_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    children = psutil.Process(process.pid).children(recursive=True)
    java = [child for child in children if "java" in child.name()]
    assert java or process.poll() is None
    return java


def rows_of(table: str) -> dict[str, tuple[str, str]]:
    """The table's lines by name: (as configured, under Weir)."""
    found = {}
    for line in table.splitlines():
        parts = re.split(r"\s{2,}", line.strip())
        if len(parts) == 3:
            found[parts[0]] = (parts[1], parts[2])
    return found


def number(text: str) -> float:
    return float(text.removesuffix(" s").replace(",", ""))


@pytest.mark.slow("the demo's whole minute")
@pytest.mark.course("as long as a demo; .ci/run shows that one runs")
def test_a_run_ends_with_its_table(work: Path) -> None:
    process = demo("--seconds", "60")
    out, err = process.communicate(timeout=480)
    assert process.returncode == 0, err + out[-2000:]
    assert err == ""
    assert re.search(r"Status page, while this runs: http://127\.0\.0\.1:\d+/", out)
    assert "1 of 2 · as configured" in out
    assert "2 of 2 · under Weir" in out
    table = rows_of(out)
    before, after = table["Rows"]
    assert number(before) == number(after) > 10_000
    assert table["Rows left over at the end"] == ("0", "0")
    # As configured a burst is one batch, under Weir it is several: not a question of speed.
    in_flight = table["Rows in flight at most: what a crash repeats"]
    assert number(in_flight[1]) < 0.75 * number(in_flight[0])
    gap = table["Longest time without a result"]
    assert number(gap[1]) < number(gap[0])
    moves = table["Times Weir moved the limit"]
    assert moves[0] == "0"
    assert number(moves[1]) >= 1
    # Two counts of the same thing, Spark's and the agent's.
    assert out.count("the same as Spark's") == 2
    assert "WARN" not in out
    assert (work / "logs" / "job.log").stat().st_size > 0


def test_ctrl_c_leaves_nothing_behind(work: Path) -> None:
    process = demo("--seconds", "60")
    try:
        java = until(lambda: java_of(process), "the job's Java", seconds=180, every=0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait(10)
    assert process.returncode == 130
    assert "stopped" in err
    assert "Traceback" not in err
    assert not any(each.is_running() for each in java)
    assert (work / "logs").is_dir()


@pytest.mark.slow("the demo's start once more")
def test_a_job_that_dies_is_told_with_its_log(work: Path) -> None:
    process = demo("--seconds", "60")
    try:
        java = until(lambda: java_of(process), "the job's Java", seconds=180, every=0.1)
        java[0].kill()
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait(10)
    assert process.returncode == 1
    assert "Spark job" in err
    assert str(work / "logs" / "job.log") in err
    assert "Traceback" not in err.splitlines()[0]


@pytest.mark.parametrize("seconds", ["5", "nan", "soon", "1e9"])
def test_wrong_seconds(seconds: str) -> None:
    process = demo("--seconds", seconds)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "SECONDS" in err or "seconds" in err
    assert "Traceback" not in err
