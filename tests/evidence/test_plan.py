"""Which runs there are, in which order, and which of them are left to do."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from examples.demo.plan import Capacity
from tests.benchmarks.evidence import __main__ as evidence
from tests.benchmarks.evidence import report
from tests.benchmarks.evidence.__main__ import (
    ARMS,
    WORKLOADS,
    Results,
    file_name,
    missing,
    order,
    run_of,
)
from tests.benchmarks.evidence.run import (
    LOAD,
    TARGET_SECONDS,
    BrokenError,
    Run,
    corrected,
    machine,
)
from tests.benchmarks.evidence.workloads import QUERIES
from tests.benchmarks.recorded import recordings
from tests.evidence.test_figures import record

if TYPE_CHECKING:
    from typing_extensions import Self

ROOT = Path(__file__).resolve().parents[2]


def test_all_of_a_seed_comes_before_the_next_and_its_arms_in_an_order_of_its_own() -> None:
    runs = list(order(WORKLOADS, list(ARMS), range(1, 4)))
    assert len(runs) == len(set(runs)) == len(WORKLOADS) * len(ARMS) * 3
    assert [seed for _, _, seed in runs] == sorted(seed for _, _, seed in runs)
    of_one = {
        seed: [arm for workload, arm, one in runs if (workload, one) == (WORKLOADS[0], seed)]
        for seed in (1, 2, 3)
    }
    assert all(sorted(arms) == sorted(ARMS) for arms in of_one.values())
    assert len({tuple(arms) for arms in of_one.values()}) == 3
    assert runs == list(order(WORKLOADS, list(ARMS), range(1, 4))), "the same when it goes on"


def test_full_batches_in_a_row_say_what_takes_the_target() -> None:
    """By lumps 5 s hold 900 rows; batches of 900 one after the other took 4.1 s."""
    lumps = Capacity(fixed_seconds=0.5, rows_per_second=200.0)
    found = corrected(lumps, 900, [4.0, 9.0, 4.1, 4.2, 4.1])
    assert found.fixed_seconds == 0.5
    assert found.rows_per_second == pytest.approx(900 / 3.6)
    with pytest.raises(ValueError, match="no batch took its limit"):
        corrected(lumps, 900, [])
    with pytest.raises(ValueError, match="too busy"):
        corrected(lumps, 900, [0.4])


def test_what_is_there_is_not_run_again(tmp_path: Path) -> None:
    wanted = list(order(["q5/tweets-apple"], ["weir", "configured"], range(1, 3)))
    assert missing(wanted, tmp_path) == wanted
    (tmp_path / "q5_tweets-apple_weir_2.jsonl.gz").touch()
    assert missing(wanted, tmp_path) == [one for one in wanted if one[1:] != ("weir", 2)]


def test_workloads_have_each_trace_and_each_kind_of_state() -> None:
    pairs = [workload.split("/") for workload in WORKLOADS]
    assert {trace for _, trace in pairs} == set(recordings())
    assert {query for query, _ in pairs} < set(QUERIES)


def test_rates_and_limits_follow_from_the_machine() -> None:
    capacity = Capacity(1.0, 1000.0)
    run = run_of("q5/tweets-apple", "fixed-2", 1, 60.0, TARGET_SECONDS, capacity)
    digested = 1000.0 * (TARGET_SECONDS - 1.0)
    assert run.target_rows == digested
    assert run.limit_rows == 2 * digested
    assert run.rows == pytest.approx(LOAD * digested * 60.0 / TARGET_SECONDS)
    assert run.agent is None
    assert (
        run_of("q5/tweets-apple", "configured", 1, 60.0, TARGET_SECONDS, capacity).limit_rows
        is None
    )
    weir = run_of("q5/tweets-apple", "weir", 1, 60.0, TARGET_SECONDS, capacity)
    assert (weir.limit_rows, weir.agent) == (None, ())
    with pytest.raises(ValueError, match="an empty batch takes"):
        run_of(
            "q5/tweets-apple", "weir", 1, 60.0, TARGET_SECONDS, Capacity(TARGET_SECONDS / 2, 1000.0)
        )


def test_runs_of_another_machine_or_length_are_not_mixed(tmp_path: Path) -> None:
    first = Results(tmp_path, 60.0, 5.0)
    first.keep("q5", Capacity(0.5, 2000.0))
    assert Results(tmp_path, 60.0, 5.0).capacity("q5") == Capacity(0.5, 2000.0)
    assert Results(tmp_path, 60.0, 5.0).capacity("q2") is None
    with pytest.raises(ValueError, match="give another folder"):
        Results(tmp_path, 30.0, 5.0)
    with pytest.raises(ValueError, match="give another folder"):
        Results(tmp_path, 60.0, 4.0)
    about = json.loads((tmp_path / "about.json").read_text())
    about["of"]["cores"] += 1
    (tmp_path / "about.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match="give another folder"):
        Results(tmp_path, 60.0, 5.0)


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (("--workloads", "q99/taxis"), "no workload q99/taxis; queries: q2,", 2),
        (("--workloads", "q5"), "no workload q5; queries:", 2),
        (("--arms", "wier"), "invalid choice: 'wier'", 2),
        (("--seeds", "0"), "--seeds, --seconds and --target-seconds are to be above 0", 2),
        (("--report",), "holds no runs yet", 1),
    ],
)
def test_wrong_usage_is_told_in_a_line(
    tmp_path: Path, arguments: tuple[str, ...], says: str, code: int
) -> None:
    command = [sys.executable, "-m", "tests.benchmarks.evidence", "--results", str(tmp_path)]
    done = subprocess.run(
        [*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert says in done.stdout + done.stderr
    assert done.returncode == code


def test_runs_that_are_there_are_told_without_running_any(tmp_path: Path) -> None:
    results, docs = tmp_path / "results", tmp_path / "docs"
    begun = Results(results, 60.0, TARGET_SECONDS)
    begun.keep("q5", Capacity(1.0, 1000.0))
    for arm in ("configured", "weir", "fixed-1"):
        run = run_of("q5/tweets-apple", arm, 1, 60.0, TARGET_SECONDS, Capacity(1.0, 1000.0))
        one = record(run=asdict(run), results={"rows": 7, "sha256": "ab" * 32})
        one.machine = machine() | {"busy_share": 0.0}
        one.end["fed_late_seconds"] = 0.0
        one.write(results / file_name(run.query, run.trace, run.arm, run.seed))
    command = [sys.executable, "-m", "tests.benchmarks.evidence", "--report"]
    done = subprocess.run(
        [*command, "--results", str(results), "--docs", str(docs)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert re.match(r"3 runs of \d{4}-\d\d-\d\d \d\d:\d\d, 3 in all, told in", done.stdout)
    page = (docs / "evidence.md").read_text("utf-8")
    assert "| Weir | 6.0 | 4.0 | 8.0 |" in page, "one seed tells no best"
    assert "images/evidence-course.svg" in page
    assert "seed 1, begun" in page
    assert (docs / "images" / "evidence-course.svg").exists()


class Breaking:
    """A world in which a query's capacity or some of its runs come to no end."""

    def __init__(self, folder: Path) -> None:
        self.left: dict[str, BaseException] = {
            "measure": BrokenError("q8: 3 batches are too few: see /tmp/of-this-machine"),
            "configured": BrokenError("the job ended; /tmp/of-this-machine/job.err ends: a host"),
            "fixed-1": BrokenError("the job ended with 1: on a host"),
            "dynamic": OSError("/tmp/of-this-machine"),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def measure(self, query: str, target_seconds: float) -> Capacity:
        if query == "q8":
            raise self.left["measure"]
        return Capacity(1.0, 1000.0)

    def run(self, run: Run) -> Any:
        if run.arm in self.left:
            raise self.left[run.arm]
        if run.arm == "fixed-2":
            raise KeyboardInterrupt
        one = record(run=asdict(run), results={"rows": 7, "sha256": "ab" * 32})
        one.machine = machine() | {"busy_share": 0.0}
        one.end["fed_late_seconds"] = 0.0
        return one


def of(results: Path, arms: list[str], workload: str = "q5/tweets-apple") -> argparse.Namespace:
    told = {"seeds": 1, "first_seed": 1, "seconds": 60.0, "minutes": 0.0, "load": LOAD}
    told |= {"workloads": [workload], "arms": arms, "results": results}
    return argparse.Namespace(target_seconds=TARGET_SECONDS, **told)


def test_a_run_that_comes_to_no_end_leaves_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(evidence, "World", Breaking)
    results = Results(tmp_path, 60.0, TARGET_SECONDS)
    given = of(tmp_path, ["configured", "weir", "fixed-1"])
    assert evidence.run_all(given, results) == 2
    assert evidence.run_all(given, results) == 2, "told again: they were begun again"
    assert evidence.run_all(of(tmp_path, ["weir"], "q8/tweets-google"), results) == 1
    with pytest.raises(OSError, match="of-this-machine"):
        evidence.run_all(of(tmp_path, ["dynamic"]), results)
    with pytest.raises(KeyboardInterrupt):
        evidence.run_all(of(tmp_path, ["fixed-2"]), results)
    told = report.read_broken(tmp_path / evidence.BROKEN)
    counts = Counter((one["query"], one["arm"], one["why"]) for one in told)
    assert counts == {
        ("q5", "configured", "the job ended"): 2,
        ("q5", "fixed-1", "the job ended with 1"): 2,
        ("q8", report.MEASURING, "3 batches are too few"): 1,
        ("q5", "dynamic", "OSError"): 1,
        ("q5", "fixed-2", report.STOPPED): 1,
    }
    assert {one["series"] for one in told} == {told[0]["series"]}
    assert "of-this-machine" not in (tmp_path / evidence.BROKEN).read_text()
    capsys.readouterr()

    monkeypatch.setattr(sys, "argv", ["evidence", "--report", f"--results={tmp_path}"])
    sys.argv.append(f"--docs={tmp_path / 'docs'}")
    assert evidence.main() == 0
    assert "told in" in (said := capsys.readouterr().out)
    assert said.endswith("; 7 came to no end\n")
    page = (tmp_path / "docs" / "evidence.md").read_text("utf-8")
    assert (
        "Runs that came to no end: as configured, no limit 2 of 2; a fixed limit (1) 2 of 2; "
        "no limit, dynamic allocation 1 of 1; Weir 0 of 1."
    ) in page


def test_runs_of_which_none_came_through_are_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "World", Breaking)
    results = Results(tmp_path, 60.0, TARGET_SECONDS)
    evidence.run_all(of(tmp_path, ["weir"], "q8/tweets-google"), results)
    monkeypatch.setattr(sys, "argv", ["evidence", "--report", f"--results={tmp_path}"])
    sys.argv.append(f"--docs={tmp_path / 'docs'}")
    assert evidence.main() == 0
    assert "nothing was run then: q8." in (tmp_path / "docs" / "evidence.md").read_text("utf-8")
    assert Results(tmp_path, 60.0, TARGET_SECONDS).capacity("q8") is None
