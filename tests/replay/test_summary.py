"""What ``weir replay`` says at the end, against the lines that it wrote."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.core.policy import Policy, Rule
from agent.replay import replay_files
from agent.replay_summary import MOST_LINES, Summary
from tests.core.events import Driver

POLICY = Policy()
RECORD = Path(__file__).parent / "changing-cost.jsonl.gz"


def weir(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "agent.cli", "replay", *arguments],
        input=data,
        capture_output=True,
        timeout=120,
        check=False,
    )


def summed_up(
    events: list[dict[str, Any]], tmp_path: Path, policy: Policy = POLICY
) -> tuple[list[str], list[dict[str, Any]]]:
    """The summary's lines and the lines of JSON."""
    path, out, summary = tmp_path / "events", io.BytesIO(), Summary()
    path.write_bytes(b"".join(json.dumps(event).encode() + b"\n" for event in events))
    assert replay_files([str(path)], policy, out, summary) == []
    return list(summary.lines()), [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_real_run_is_summed_up_beside_its_lines_and_not_among_them() -> None:
    done = weir(str(RECORD), "--target-seconds", "10")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    batches = sum(line["event"] == "progress" and line["state"] != "idle" for line in lines)
    limits = [lines[0]["limit"]["current"], *(line["limit"]["next"] for line in lines)]
    moves = sum(one != other for one, other in pairwise(limits))
    assert moves > 3
    (said,) = done.stderr.decode().splitlines()
    name, *parts = said.split("; ")
    assert name == f"weir tests/changing: {batches} batches"
    assert parts[1] == f"Weir moves the limit {moves} times, {limits[0]} → {limits[-1]} files"
    quiet = weir(str(RECORD), "--target", "10", "--quiet")
    assert (quiet.stdout, quiet.stderr) == (done.stdout, b"")


@pytest.mark.parametrize(
    ("seconds", "limit", "backlog", "says"),
    [
        ([9.0] * 5 + [5.0, 6.4, 3.6, 6.6], 100, 9, "75 % of 4 limited ones within 30 % of the "),
        ([5.0] * 9, None, 0, "no limit held them back; Weir moves the limit once, unlimited → "),
    ],
)
def test_how_it_ran(
    tmp_path: Path, seconds: list[float], limit: int | None, backlog: int, says: str
) -> None:
    driver = Driver()
    events = [
        driver.progress(100, each, limit=limit, configured=limit, backlog=backlog)
        for each in seconds
    ]
    (line,), _ = summed_up(events, tmp_path)
    assert line.startswith("recorded/orders: 9 batches; ")
    assert says in line


def test_each_query_is_held_against_its_own_target(tmp_path: Path) -> None:
    """As a rule of the agent's configuration gives it."""
    drivers = [Driver(query_id=f"q-{name}", query=name) for name in ("fast", "slow")]
    events = [
        driver.progress(100, seconds, limit=100, configured=100, backlog=9)
        for driver, seconds in zip(drivers, (5.0, 30.0), strict=True)
        for _ in range(9)
    ]
    policy = Policy(rules=(Rule(match="slow", target_seconds=30.0),))
    lines, _ = summed_up(events, tmp_path, policy)
    for line, target in zip(lines, (5, 30), strict=True):
        assert f"; 100 % of 4 limited ones within 30 % of the target of {target} s; " in line


def test_a_query_is_held_against_the_target_that_its_sink_s_quota_leaves(tmp_path: Path) -> None:
    driver, sink = Driver(), {"description": "BigQueryStreamingSink(x)"}
    events = [
        driver.progress(100, 60.0, limit=100, configured=100, backlog=9, sink=sink)
        for _ in range(9)
    ]
    (line,), _ = summed_up(events, tmp_path)
    assert "; 100 % of 4 limited ones within 30 % of the target of 57.6 s; " in line


def test_failures_and_the_way_into_a_spiral_are_told(tmp_path: Path) -> None:
    driver = Driver()
    events = [driver.progress(100, 5.0, limit=100, configured=100, backlog=9)]
    for run in range(3):
        events += [driver.heartbeat(1, 50.0), driver.terminated("java.lang.Boom: late")]
        driver.run_id, driver.time = f"r-{run + 2}", driver.time + 60.0
        events.append(driver.started())
    (line,), _ = summed_up(events, tmp_path)
    assert "1 batch, 3 failed; Weir leaves the limit at 100 rows; " in line
    assert line.endswith("; spiral: dead")


def test_of_many_queries_the_busiest_are_told(tmp_path: Path) -> None:
    events = []
    for number in range(MOST_LINES + 3):
        driver = Driver(query_id=f"q-{number}", query=f"query-{number}")
        events += [driver.progress(10, 1.0) for _ in range(1 + number)]
    lines, _ = summed_up(events, tmp_path)
    assert len(lines) == MOST_LINES + 1
    assert lines[0].startswith(f"recorded/query-{MOST_LINES + 2}: {MOST_LINES + 3} batches")
    assert lines[-1] == "… and 3 more queries"


def test_a_broken_recording_is_summed_up_too_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    good = json.dumps(Driver().progress(10, 1.0)).encode() + b"\n"
    done = weir("-", data=good + b'{"type": "prog')
    assert done.returncode == 1
    assert [line.split(b":")[0] for line in done.stderr.splitlines()] == [
        b"recorded/orders",
        b"weir",
    ]
    done = weir("-", data=good + b"nonsense\n" + good)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    done = weir("-")
    assert (done.returncode, done.stderr) == (0, b"no event to judge in it\n")
