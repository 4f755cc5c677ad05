"""The page: what is told follows from the lines, wins and losses alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.benchmarks.evidence import report
from tests.evidence.test_figures import record

DOCS = Path(__file__).resolve().parents[2] / "docs"


def row(arm: str, seed: int, gap: float, wait: float, **more: Any) -> dict[str, Any]:
    return {
        "series": "2026-11-24",
        "query": "q5",
        "trace": "tweets-apple",
        "load": 0.5,
        "arm": arm,
        "seed": seed,
        "seconds": 60.0,
        "target_seconds": 5.0,
        "target_rows": 1000,
        "warm_up": 2.7,
        "cores": 2,
        "processor": "a processor",
        "virtual": True,
        "memory_gib": 8,
        "spark": "4.2.0",
        "busy_share": 0.01,
        "longest_without_result_seconds": gap,
        "wait_p50_seconds": 1.0,
        "wait_p99_seconds": wait,
        "read_again_rows": 0,
        "rows_per_executor_second": 100.0,
        "dropped_rows": 0,
        "failures": 0,
        "rows": 5000,
        "rows_left": 0,
        "batches": 10,
        "longest_batch_seconds": gap,
        "executor_seconds": 50.0,
        "fed_late_seconds": 0.1,
        "results_rows": 7,
        "results_sha256": "0123456789abcdef",
        **dict.fromkeys(report.CORES),
    } | more


ROWS = [
    *(row("configured", seed, 20.0 + seed, 20.0) for seed in (1, 2, 3)),
    *(row("weir", seed, 5.0, 24.0, rows_per_executor_second=90.0) for seed in (1, 2, 3)),
    *(row("fixed-1", seed, 6.0, 40.0) for seed in (1, 2, 3)),
    *(row("fixed-4", seed, 12.0, 22.0) for seed in (1, 2, 3)),
    *(row("dynamic", seed, 25.0, 26.0) for seed in (1, 2, 3)),
]


#: Of these the feeder is more than a target of 5 s further behind than in the others.
LATE = {("weir", 2), ("dynamic", 1)}


def test_a_line_of_the_table_is_a_way_with_medians_and_the_best_is_bold() -> None:
    page = report.page(report.of_csv(report.to_csv(ROWS)))
    assert "**15 runs, 3 seeds, in 1 series**, begun 2026-11-24 UTC." in page
    assert "Tweets that name Apple, six hours. 3 seeds.\n" in page
    assert " On a virtual machine of 2 cores (a processor, 8 GiB), Spark " in page
    assert "| as configured, no limit | 22.0 | **1.0** | **20.0** | **100** |" in page
    assert "| Weir | **5.0** | **1.0** | 24.0 | 90 |" in page
    assert "| best fixed limit in hindsight (4) | 12.0 | **1.0** | 22.0 | **100** |" in page
    assert "In no run: rows read again after the stop" in page
    assert "Results are the same to the byte" in page


def test_runs_whose_rows_came_at_other_times_are_no_pair_and_are_named() -> None:
    late = [
        {**one, "fed_late_seconds": 5.2} if (one["arm"], one["seed"]) in LATE else one
        for one in ROWS
    ]
    page = report.page(late)
    assert "**9 runs, 2 seeds, in 1 series**" in page
    assert "6 more stand in `evidence.csv` alone (q5 · tweets-apple, seed 1; q5 · " in page
    assert "against as configured, is better in 3, equal in 0, worse in 0" in page
    assert report.to_csv(late).count("\n") == len(ROWS) + 1
    assert "evidence.csv` alone" not in report.page(ROWS)


def test_each_machine_is_told_with_its_series_and_one_limit_is_not_called_the_best() -> None:
    other = [{**one, "processor": "another", "series": "2026-12-01"} for one in ROWS]
    page = report.page([*ROWS, *other])
    assert "(a processor, 8 GiB)" in page
    assert "(another, 8 GiB)" in page
    assert "(begun 2026-12-01)" in page
    page = report.page([one for one in ROWS if one["arm"] != "fixed-4"])
    assert "| a fixed limit, batches of 1 target | 6.0 |" in page
    assert "best fixed" not in page


def test_losses_are_told_like_wins() -> None:
    page = report.page(report.of_csv(report.to_csv(ROWS)))
    name = report.NAMES["configured"]
    assert f"| {name} | longest time without a result, s | 3 | 0 | 0 | 0.23 |" in page
    assert f"| {name} | 99 % of the rows wait up to, s | 0 | 0 | 3 | 1.20 |" in page
    assert f"| {name} | rows per executor-second | 0 | 0 | 3 | 0.90 |" in page
    assert f"| {name} | half of the rows wait up to, s | 0 | 3 | 0 | 1.00 |" in page


@pytest.mark.parametrize(
    ("mine", "other", "less", "told"),
    [
        (1.0, 2.0, True, 1),
        (2.0, 1.0, True, -1),
        (2.0, 1.0, False, 1),
        (0.0, 0.0, True, 0),
        (0.0, 10.0, True, 1),
        (1.0 - report.EQUAL + 0.01, 1.0, True, 0),
        (1.0 - report.EQUAL - 0.01, 1.0, True, 1),
    ],
)
def test_what_is_better_is_so_by_more_than_noise(
    mine: float, other: float, less: bool, told: int
) -> None:
    assert report.compare(mine, other, less=less) == told
    assert report.compare(other, mine, less=less) == -told


def test_runs_that_were_fed_at_the_querys_cost_stand_apart() -> None:
    cores = {"query_cores": 1.25, "broker_cores": 0.1, "feeder_cores": 0.02, "weir_cores": 0.0}
    now = [
        row("configured", 1, 9.0, 9.0, series="2026-11-28", load=0.7, **cores),
        row("weir", 1, 4.5, 9.0, series="2026-11-28", load=0.7, **cores | {"weir_cores": 0.04}),
    ]
    other = [{**one, "query": "q2"} for one in ROWS]
    rows = report.of_csv(report.to_csv([*ROWS, *other, *now]))
    page = report.page(rows)
    first, _, earlier = page.partition("## Series of before")
    assert "**2 runs, 1 seed, in 1 series**" in first
    assert "| as configured, no limit | longest time without a result, s | 1 | 0 | 0 |" in first
    assert "took 1.25 (median), what brings the rows 0.020 (0.020 at most)" in first
    assert "and Weir, agent and door together, 0.040 (0.040 at most)" in first
    assert "**30 runs, 3 seeds, in 1 series**" in earlier
    assert "### q5 · tweets-apple · 70%" in first
    assert "### q5 · tweets-apple · 50%" in earlier
    # README tells of each workload the newest that there is.
    head, lines = report.headline(rows)
    assert head[0] == "2 cores, 17 runs"
    assert [one[0].rpartition(" · ")[2] for one in lines] == [
        "tweets-apple, 70%",
        "tweets-apple, over 50%",
    ]
    assert "Series of before" not in report.page([one for one in rows if one["load"] == 0.7])


def test_a_busy_machine_and_results_that_differ_are_told() -> None:
    rows = [row("weir", 1, 5.0, 5.0, busy_share=0.5), row("configured", 1, 5.0, 5.0)]
    rows[0]["results_sha256"] = "another"
    page = report.page(report.of_csv(report.to_csv(rows)))
    assert "**1 of the runs began while the machine did other work as well**" in page
    assert "**Results differ between ways of running** in q5 · tweets-apple" in page


def test_the_picture_has_a_point_for_each_run_and_way() -> None:
    picture = ET.fromstring(report.draw(report.of_csv(report.to_csv(ROWS))))
    points = picture.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(points) == 4 + len(ROWS) + 5, "the legend names what was run"


def test_the_pair_that_is_drawn_is_that_of_the_longest_wait_and_has_a_point_for_each_batch() -> (
    None
):
    drawn = report.course_of(report.of_csv(report.to_csv(ROWS)))
    assert drawn is not None
    assert (drawn["query"], drawn["arm"], drawn["seed"]) == ("q5", "configured", 3)
    assert report.course_of([one for one in ROWS if one["arm"] != "weir"]) is None
    one = record()
    one.run["target_seconds"] = 5.0
    picture = ET.fromstring(report.draw_course("a title", {"configured": one, "weir": one}))
    points = picture.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(points) == 2 * 3 + 2, "the batch of the warm-up is left out"


def test_the_page_is_the_one_that_its_lines_give(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    if (DOCS / "evidence.csv").exists():
        (tmp_path / "evidence.csv").write_bytes((DOCS / "evidence.csv").read_bytes())
    report.rewrite(tmp_path)
    for path in tmp_path.rglob("evidence.*"):
        assert path.read_text("utf-8") == (DOCS / path.relative_to(tmp_path)).read_text("utf-8")
    for address in re.findall(
        r"\]\((?!https?:)([^)#]+)", (DOCS / "evidence.md").read_text("utf-8")
    ):
        assert (DOCS / address).exists(), address


def test_all_is_written_from_runs(tmp_path: Path) -> None:
    one = record()
    one.run["target_seconds"] = 5.0
    asked: list[tuple[str, str, str, int]] = []

    def read(*of: Any) -> Any:
        asked.append(of)
        return one

    report.write(ROWS, tmp_path, read)
    assert asked == [("q5", "tweets-apple", arm, 3) for arm in ("configured", "weir")]
    assert sorted(path.name for path in tmp_path.rglob("evidence*")) == [
        *("evidence-course.svg", "evidence.csv", "evidence.md", "evidence.svg"),
    ]
    assert len((tmp_path / "evidence.csv").read_text().splitlines()) == len(ROWS) + 1


def test_the_readme_has_the_figures_that_a_reader_compares_first() -> None:
    head, lines = report.headline(report.of_csv(report.to_csv(ROWS)))
    assert head == [
        "2 cores, 15 runs",
        "as configured, no limit",
        "best fixed limit in hindsight",
        "Weir",
    ]
    assert lines == [
        [
            "sliding windows, and a maximum over them · tweets-apple, 50%",
            "22.0 · **20.0**",
            "12.0 · 22.0",
            "**5.0** · 24.0",
        ],
    ]


def test_runs_of_another_series_stay_and_make_no_pairs_with_these(tmp_path: Path) -> None:
    one = record()
    one.run["target_seconds"] = 5.0
    report.write(ROWS, tmp_path, lambda *_: one)
    picture = tmp_path / "images" / "evidence-course.svg"
    picture.write_text("of the first series")
    later = [
        row("configured", 1, 9.0, 9.0, series="2026-11-25"),
        row("weir", 1, 18.0, 9.0, series="2026-11-25"),
        row("weir", 2, 1.0, 1.0, series="2026-11-25", load=0.7),
    ]
    assert report.write(later, tmp_path, lambda *_: one) == len(ROWS) + 3
    assert report.write(later, tmp_path, lambda *_: one) == len(ROWS) + 3, "told once"
    assert picture.read_text() == "of the first series", "its records are not here"
    page = (tmp_path / "evidence.md").read_text()
    name, figure = report.NAMES["configured"], "longest time without a result, s"
    assert f"| {name} | {figure} | 3 | 0 | 1 |" in page
    assert f"| 2026-11-24 | {name} | 3, 0, 0; 0.23 | 0, 0, 3; 1.20 |" in page
    assert f"| 2026-11-25 | {name} | 0, 0, 1; 2.00 | 0, 1, 0; 1.00 |" in page
    assert "### q5 · tweets-apple · 70%" in page


def test_the_readme_is_renewed_in_its_place(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "images").mkdir(parents=True)
    (docs / "evidence.csv").write_text(report.to_csv(ROWS))
    readme = tmp_path / "README.md"
    readme.write_text(
        "before\n<!-- Written by `make evidence`. -->\nold\n"
        "<!-- Written by hand from here on. -->\nafter\n"
    )
    report.rewrite(docs)
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| **5.0** · 24.0 |" in text
    assert "old" not in text
