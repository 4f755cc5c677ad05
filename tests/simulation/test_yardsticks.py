"""The benchmark against the yardsticks, and what docs/yardsticks.md says of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from agent.simulation import best_static, plant, summary
from scripts.plot_control import BURSTS, SEED
from tests.benchmarks import control
from tests.benchmarks.families import FAMILIES
from tests.benchmarks.recorded import recordings
from tests.simulation.scenarios import scenario_of

if TYPE_CHECKING:
    from pathlib import Path

PAGE = control.PAGE.read_text("utf-8")
PLAIN = " ".join(PAGE.split())


def outcome(in_band: float | None, limited: int = 100, **more: Any) -> control.Outcome:
    told: dict[str, Any] = {"committed": 1000, "p95": 5.0, "p99": 6.0, "settle": []}
    told |= {"timeouts": 0, "diverged": False}
    return control.Outcome(in_band=in_band, limited=limited, **(told | more))


def row(name: str, feasible: bool, **in_band: float) -> control.Row:
    family = next(one for one in FAMILIES if one.scenario.name == name)
    shares = dict.fromkeys(control.NAMES, 0.9) | in_band
    outcomes = {who: outcome(share) for who, share in shares.items()}
    return control.judge(family, [(name, seed, feasible, outcomes) for seed in range(2)])


def test_the_fixed_limit_that_is_best_in_band_is_the_best_of_all_that_were_tried() -> None:
    scenario = scenario_of(initial_backlog_rows=2_000_000)
    found = list(best_static.tried(scenario, plant.Noise(0.15, 2)))
    target = scenario.target_seconds
    best = control.most_in_band(found, target)
    assert best is not None
    mine = summary.in_band_share(best, target)
    for _, trace in found:
        share = summary.in_band_share(trace, target)
        # One limited batch that is in band says nothing.
        few = control.limited(trace) < control.LEAST_LIMITED
        assert few or share is None or share <= (mine or 0.0)
    most = best_static.best_of([best_static.of_run(*one) for one in found], None)
    assert (mine or 0.0) > (summary.in_band_share(dict(found)[most.limit_rows], target) or 0.0)
    few = [(1, msgspec.structs.replace(best, attempts=best.attempts[:9]))]
    assert control.most_in_band(few, target) is None


def test_who_keeps_more_in_band_is_told_where_the_target_cannot_be_kept_too() -> None:
    drain = row("drain", True, weir=0.95, banded=0.98, static=0.90)
    assert (drain.misses, drain.behind) == ([], ["banded"])
    day = row("sawtooth-day", False, weir=0.51, pid=0.86, static=0.2)
    assert (day.misses, day.behind) == ([], ["pid", "flip183", "banded"])
    others = [row(name, True, weir=0.9) for name in control.PLAIN if name != "drain"]
    text = " ".join(control.section([drain, day, *others], 2).split())
    told = len(control.PLAIN)
    assert f"On {told} of the {told} where" in text
    assert f"on {told - 1} of them at least as many as the fixed limit that keeps most" in text
    assert "Left out of that count are 1 kinds" in text
    assert "*sawtooth-day* (0.51; PID 0.86, FLIP-183 0.90)" in text
    assert "| a backlog is worked off (*drain*) | 0.95 | 0.90 | 0.98 | 0.90 | 0.90 | 0.90 |" in text


def test_a_family_in_which_no_limit_holds_back_enough_has_no_best_in_band() -> None:
    family = next(one for one in FAMILIES if one.scenario.name == "steady")
    outcomes = {who: outcome(None, limited=0) for who in control.NAMES if who != "banded"}
    told = control.line(control.judge(family, [("steady", 1, True, outcomes)]))
    assert told.startswith("| steady | yes | 0 | - | - | - | - | - | - |")


def test_the_page_names_the_command_that_wrote_it() -> None:
    (seeds,) = re.findall(r"means over (\d+) seeds</summary>", PAGE)
    (command,) = re.findall(r"`\.venv/bin/python -m tests\.benchmarks\.control([^`]*)`", PAGE)
    told = re.search(r"--seeds (\d+)", command)
    assert int(seeds) == (control.SEEDS if told is None else int(told.group(1)))
    assert "--write" in command


def test_what_was_looked_at_while_it_was_tuned_is_told() -> None:
    (told,) = re.findall(r"`stretch_gain` was chosen on (.*?)\. They are in sample", PLAIN)
    assert set(re.findall(r"\*([a-z-]+)\*", told)) == set(BURSTS)
    assert told.startswith("four of these six, which the picture shows, with noise of seed 1")
    assert (len(BURSTS), len(recordings()), SEED) == (4, 6, 1)
    # How many of their cases keep the aims is counted in the table.
    table = PAGE.partition("two fixed costs, two loads</summary>")[2].partition("</details>")[0]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    kept = {
        inside: [one[-1] == "-" for one in lines[1:] if (one[0] in BURSTS) is inside]
        for inside in (True, False)
    }
    assert (
        f"{sum(kept[True])} of their {len(kept[True])} cases keep the aims below, of the other two "
        f"traces' {sum(kept[False])} of {len(kept[False])}."
    ) in PLAIN
    every = [*kept[True], *kept[False]]
    assert f"{sum(every)} of {len(every)} keep it;" in PLAIN


def test_the_section_is_written_in_its_place(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{control.MARK}of before\n{control.MARK_END}after\n")
    rows = [row(name, True, weir=0.9) for name in control.PLAIN]
    control.write(page, rows, 2)
    text = page.read_text()
    assert text.startswith(f"before\n{control.MARK}")
    assert text.endswith(f"{control.MARK_END}after\n")
    assert "of before" not in text
