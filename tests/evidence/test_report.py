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
        **dict.fromkeys(report.OPTIONAL),
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


def test_a_fixed_limit_whose_batches_are_shorter_than_they_are_called_is_told() -> None:
    def told(fixed: float | None) -> str:
        full = {"weir": 5.4, "fixed-1": fixed}
        return report.page([row(arm, 1, 5.0, 9.0, full_batch_seconds=full[arm]) for arm in full])

    said = "A full batch took {} s under a fixed limit, batches of 1 target and 5.4 s under Weir"
    assert said.format("4.4") in told(4.4)
    assert "the fixed limit was set a little low" in told(4.4)
    assert said.format("5.3") in told(5.3)
    assert "the fixed limit was set a little low" not in told(5.3)
    assert "A full batch took" not in told(None)


def test_a_line_of_the_table_is_a_way_with_medians_and_the_best_is_bold() -> None:
    page = report.page(report.of_csv(report.to_csv(ROWS)))
    assert "**15 runs, 3 seeds, in 1 series**, begun 2026-11-24 UTC." in page
    assert "Tweets that name Apple, six hours. 3 seeds, of one recorded curve of arrivals" in page
    assert " On a virtual machine of 2 cores (a processor, 8 GiB), Spark " in page
    assert "| as configured, no limit | 22.0 | 1.0 | **20.0** | 100 |" in page
    assert "| Weir | **5.0** | 1.0 | 24.0 | 90 |" in page
    assert "| best fixed limit in hindsight (4) | 12.0 | 1.0 | 22.0 | 100 |" in page
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
    assert "### q5 · tweets-apple · load unknown, nominally 50%" in earlier
    assert "**Their load is unknown**" in earlier
    assert "load unknown" not in first
    # README tells of each workload the newest that there is.
    head, lines = report.headline(rows)
    assert head[:2] == ["2 cores, 11 runs", "seeds"]
    assert [(one[0].rpartition(" · ")[2], one[1]) for one in lines] == [
        ("tweets-apple, 70%", "1"),
        ("tweets-apple, load unknown, nominally 50%", "3"),
    ]
    assert "Series of before" not in report.page([one for one in rows if one["load"] == 0.7])


def test_a_busy_machine_and_results_that_differ_are_told() -> None:
    rows = [
        row("weir", 1, 5.0, 5.0, busy_share=0.5),
        row("configured", 1, 5.0, 5.0, other_cores=0.19),
        row("fixed-1", 1, 5.0, 5.0, other_cores=0.21),
    ]
    rows[0]["results_sha256"] = "another"
    page = report.page(report.of_csv(report.to_csv(rows)))
    assert "**In 2 of the runs the machine did other work as well**" in page
    assert "**Results differ between ways of running** in q5 · tweets-apple" in page


def test_the_picture_has_a_point_for_each_run_and_way() -> None:
    picture = ET.fromstring(report.draw(report.of_csv(report.to_csv(ROWS))))
    points = picture.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(points) == 4 + len(ROWS) + 5, "the legend names what was run"


def test_the_pair_that_is_drawn_is_the_median_seed_and_has_a_point_for_each_batch() -> None:
    drawn = report.course_of(report.of_csv(report.to_csv(ROWS)))
    assert drawn is not None
    assert (drawn["query"], drawn["arm"], drawn["seed"]) == ("q5", "configured", 2)
    # Of the workload with most pairs, whatever another one's figures are.
    others = [row(arm, 1, 99.0, 99.0, query="q2") for arm in ("configured", "weir")]
    again = report.course_of([*others, *ROWS])
    assert again is not None
    assert (again["query"], again["seed"]) == ("q5", 2)
    assert report.course_of([one for one in ROWS if one["arm"] != "weir"]) is None
    one = record()
    one.run["target_seconds"] = 5.0
    picture = ET.fromstring(report.draw_course("a title", {"configured": one, "weir": one}))
    points = picture.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(points) == 2 * 3 + 2, "the batch of the warm-up is left out"


def test_the_page_is_the_one_that_its_lines_give(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name in ("evidence.csv", report.BROKEN, "images/evidence-course.svg"):
        if (DOCS / name).exists():
            (tmp_path / name).write_bytes((DOCS / name).read_bytes())
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
    assert asked == [("q5", "tweets-apple", arm, 2) for arm in ("configured", "weir")]
    assert sorted(path.name for path in tmp_path.rglob("evidence*")) == [
        *("evidence-broken.jsonl", "evidence-course.svg"),
        *("evidence.csv", "evidence.md", "evidence.svg"),
    ]
    assert len((tmp_path / "evidence.csv").read_text().splitlines()) == len(ROWS) + 1


def test_the_readme_has_the_figures_that_a_reader_compares_first() -> None:
    head, lines = report.headline(report.of_csv(report.to_csv(ROWS)))
    assert head == [
        "2 cores, 9 runs",
        "seeds",
        "as configured, no limit",
        "best fixed limit in hindsight",
        "Weir",
    ]
    assert lines == [
        [
            "sliding windows, and a maximum over them · tweets-apple, load unknown, nominally 50%",
            "3",
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
    assert "### q5 · tweets-apple · load unknown, nominally 70%" in page
    says = "**Series contradict each other** in the longest time without a result, against as"
    assert says in page


def test_the_readme_is_renewed_in_its_place(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "images").mkdir(parents=True)
    (docs / "evidence.csv").write_text(report.to_csv(ROWS))
    readme = tmp_path / "README.md"
    readme.write_text(
        "before\n<!-- Written by `make evidence`. -->\nof before\n"
        "<!-- Written by hand from here on. -->\nafter\n"
    )
    report.rewrite(docs)
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| **5.0** · 24.0 |" in text
    assert "of before" not in text
    assert "longest time without a result: better in 1, equal in 0, worse in 0;" in " ".join(
        text.split()
    )


def test_medians_are_of_the_seeds_that_all_ways_share() -> None:
    # The third seed of the one way that lacks the others is the worst of all.
    lacking = [one for one in ROWS if (one["arm"], one["seed"]) not in {("weir", 1), ("weir", 2)}]
    (one,) = report.workloads(lacking)
    assert (one.seeds, one.median("configured", "longest_without_result_seconds")) == (1, 23.0)
    assert one.median("weir", "longest_without_result_seconds") == 5.0
    page = report.page(lacking)
    assert "Tweets that name Apple, six hours. 1 seed.\n" in page
    assert "| as configured, no limit | 23.0 | 1.0 | 20.0 | 100 |" in page
    _, ((_, seeds, *_),) = report.headline(lacking)
    assert seeds == "1"
    _, lines = report.headline([one for one in ROWS if one["arm"] != "weir" or one["seed"] < 1])
    assert lines[0][1] == "3", "a way that was not run shares nothing"


def test_a_further_way_of_fewer_seeds_does_not_take_the_others_theirs() -> None:
    few = [one for one in ROWS if one["arm"] != "dynamic" or one["seed"] == 2]
    page = report.page(few)
    assert "| as configured, no limit | 22.0 | 1.0 | **20.0** | 100 |" in page
    assert "The same with no limit, dynamic allocation: 1 seed." in page
    assert "| no limit, dynamic allocation | 25.0 | 1.0 | 26.0 | 100 |" in page


def test_of_seeds_in_two_series_both_are_told() -> None:
    two = [*ROWS, *({**one, "series": "2026-11-25", "seed": one["seed"] + 3} for one in ROWS)]
    assert "6 seeds in 2 series, of one recorded curve of arrivals" in report.page(two)
    assert "rows, by series" not in report.page(two)
    faster = [one | {"target_rows": 2000} if one["seed"] > 3 else one for one in two]
    assert "a batch of the target's length takes 1,000 to 2,000 rows, by series." in report.page(
        faster
    )
    # A recording that is longer than what is played gives each seed a part of its own.
    parts = [{**one, "trace": "llm-code"} for one in ROWS]
    assert "3 seeds, of 3 parts of one recording." in report.page(parts)


def test_nothing_is_bold_that_is_equal_or_of_too_few_seeds_or_worse_in_most_pairs() -> None:
    def cells(rows: list[dict[str, Any]]) -> list[str]:
        (one,) = report.workloads(rows)
        return one.cells(report.TOLD[0])

    def of(configured: list[float], weir: list[float]) -> list[dict[str, Any]]:
        return [
            *(row("configured", seed, gap, 20.0) for seed, gap in enumerate(configured, 1)),
            *(row("weir", seed, gap, 20.0) for seed, gap in enumerate(weir, 1)),
        ]

    assert cells(of([8.0, 9.0, 9.0], [5.0, 5.0, 5.0])) == ["9.0", "**5.0**"]
    assert cells(of([8.0, 9.0], [5.0, 5.0])) == ["8.5", "5.0"]
    assert cells(of([5.0, 5.0, 5.0], [5.1, 5.1, 5.1])) == ["5.0", "5.1"]
    # The median is less, though two of three pairs are worse.
    assert cells(of([6.0, 6.0, 1.0], [5.0, 7.0, 2.0])) == ["6.0", "5.0"]
    assert report.LEAST_SEEDS == 3


@pytest.mark.parametrize(
    ("values", "less", "best"),
    [
        ([2.0, 1.0, 3.0], True, 1),
        ([2.0, 1.0, 3.0], False, 2),
        ([1.0, 1.04, 3.0], True, None),
        ([0.0, 1.0, None], True, 0),
        ([0.0, 0.0, 5.0], True, None),
        ([1.0, None], True, None),
    ],
)
def test_the_best_is_better_than_each_other(
    values: list[float | None], less: bool, best: int | None
) -> None:
    assert report.best_of(values, less=less) == best


def test_what_is_beside_nothing_counts_in_the_median() -> None:
    rows = [
        *(row("configured", seed, 5.0, 5.0, read_again_rows=0) for seed in (1, 2, 3)),
        row("weir", 1, 5.0, 5.0, read_again_rows=100),
        row("weir", 2, 5.0, 5.0, read_again_rows=200),
        row("weir", 3, 5.0, 5.0, read_again_rows=0),
    ]
    page = report.page(rows)
    assert "| as configured, no limit | rows read again after the stop | 0 | 1 | 2 | ∞ |" in page
    rows[3]["read_again_rows"] = 0
    page = report.page(rows)
    assert "| as configured, no limit | rows read again after the stop | 0 | 2 | 1 | 1.00 |" in page


def test_losses_stand_in_short_as_wins_do() -> None:
    page = " ".join(report.page(ROWS).split())
    first = (
        "q5 · tweets-apple · load unknown, nominally 50%, longest time without a result, s: Weir"
    )
    assert f"{first} 5.0. As configured, no limit: 22.0, Weir is better (3, 0, 0); best" in page
    assert "best fixed limit in hindsight: 22.0, Weir is worse (0, 0, 3)." in page
    assert "In short" not in report.page([one for one in ROWS if one["seed"] < 3])


def test_a_median_that_most_pairs_deny_is_neither_better_nor_worse() -> None:
    rows = []
    for seed, (mine, none) in enumerate([(30.0, 90.0), (29.0, 27.0), (42.5, 40.0)], 1):
        rows += [row("configured", seed, none, 20.0), row("weir", seed, mine, 20.0)]
    page = " ".join(report.page(rows).split())
    told = "As configured, no limit: 40.0, Weir is neither better nor worse (1, 0, 2)"
    assert f"Weir 30.0. {told}" in page


def test_a_way_against_itself_tells_the_noise_and_stands_in_no_table() -> None:
    pair = [row("configured", 1, 10.0, 20.0), row("weir", 1, 5.0, 20.0)]
    before = report.page(pair)
    told = report.page([*pair, row("again", 1, 12.0, 20.4)])
    assert "No series of a way against itself" in before
    assert "No series of a way against itself" not in told
    assert "in 1 pairs of as configured with as configured" in told
    assert "is 1.20 to 1.20 times as long, and differs by more than 5% in 1" in told
    assert "is 1.02 to 1.02 times as long, and differs by more than 5% in 0" in told
    assert told.split("## Each workload")[1] == before.split("## Each workload")[1]
    assert "**2 runs" in told


def test_that_equal_is_a_convention_is_told_with_what_is_known_of_noise() -> None:
    page = report.page(ROWS)
    assert "No series of a way against itself (A/A) has been run yet" in page
    assert "The nearest to one" not in page
    calm = [
        *(row("configured", seed, 4.0, 4.0, longest_batch_seconds=2.0) for seed in (1, 2)),
        row("fixed-1", 1, 3.0, 4.0, longest_batch_seconds=2.0),
        row("fixed-1", 2, 5.0, 6.0, longest_batch_seconds=4.9),
    ]
    page = report.page(calm)
    assert "in 2 pairs of a fixed limit with as configured the limit can have held back" in page
    assert "longest time without a result was 0.75 to 1.25 times" in page
    assert "wait up to was 1.00 to 1.50 times" in page
    calm[-1]["longest_batch_seconds"] = 5.0
    assert "in 1 pair of a fixed limit" in report.page(calm)


def test_what_it_costs_is_told_where_it_was_kept() -> None:
    cores = {"query_cores": 1.5, "broker_cores": 0.2, "feeder_cores": 0.1, "weir_cores": 0.2}
    one = row("weir", 1, 5.0, 5.0, executor_seconds=100.0, rows=500_000, **cores)
    assert report.cost(one) == pytest.approx(2.0 * (100.0 / 2) * 2)
    assert report.cost(one | {"over_seconds": 60.0}) == pytest.approx(2.0 * 60.0 * 2)
    assert report.cost(one | {"arm": "dynamic"}) is None, "its executors come and go"
    assert report.cost(row("weir", 1, 5.0, 5.0)) is None
    other = one | {"arm": "configured", "query_cores": 0.5}
    page = report.page([one, other])
    assert "| as configured, no limit | processor-seconds a million rows | 0 | 0 | 1 |" in page
    assert "| Weir | 5.0 | 1.0 | 5.0 | 100 | 200.0 |" in page
    assert "processor-seconds a million rows |" not in report.page(ROWS)
    assert "*Rows per executor-second* are no cost" in " ".join(page.split())


def test_a_picture_of_a_course_says_which_seed_it_is_and_why() -> None:
    def said(seed: int) -> str:
        picture = report.draw_course(
            f"q5 · tweets-apple, seed {seed}", {"configured": of, "weir": of}
        )
        return report.page(ROWS, drawn=report.drawn_in(picture, ROWS))

    of = record()
    of.run["target_seconds"] = 5.0
    told = "by the longest time without a result as configured"
    assert f"*q5 · tweets-apple, seed 2, begun 2026-11-24: of 3 seeds the median {told}" in said(2)
    assert f"seed 3, begun 2026-11-24: of 3 seeds the worst {told} (23.0 s; the median" in said(3)
    assert "the median is seed 2, 22.0 s)" in said(3)
    assert "of 3 seeds number 3 from the worst on" in said(1)
    newer = [{**one, "series": "2026-11-25 07:35"} for one in ROWS]
    title = report.course_title(newer[0])
    picture = report.draw_course(title, {"configured": of, "weir": of})
    assert report.drawn_in(picture, [*ROWS, *newer]) is newer[0]
    assert report.drawn_in(picture, ROWS) is None
    assert report.drawn_in("of another kind", ROWS) is None
    assert "images/evidence-course.svg" not in report.page(ROWS), "of what is not known"


def lost(arm: str, seed: int, why: str = "the job ended", **more: Any) -> dict[str, Any]:
    of = {"series": "2026-11-30 10:00", "query": "q5", "trace": "tweets-apple", "load": 0.7}
    return of | {"arm": arm, "seed": seed, "at": "2026-11-30 11:00", "why": why} | more


def test_runs_that_came_to_no_end_are_counted_by_way() -> None:
    page = report.page(ROWS)
    assert "came to no end, and were run again, was not kept in series begun before" in page
    assert "Runs that came to no end: " not in page
    counted = [{**one, "series": "2026-11-30 10:00"} for one in ROWS]
    broken = [
        *(lost("weir", 1), lost("weir", 9), lost("fixed-4", 2)),
        *(lost("configured", 3, report.STOPPED), lost(report.MEASURING, 1, query="q8")),
    ]
    page = report.page(counted, broken)
    assert "was not kept in series" not in page
    assert (
        "Runs that came to no end: as configured, no limit 0 of 3; a fixed limit (1) 0 of 3; "
        "a fixed limit (4) 1 of 4; no limit, dynamic allocation 0 of 3; Weir 2 of 5."
    ) in page
    assert "Not counted among them are 1 stopped by hand: as configured, no limit 1." in page
    assert "could, at times, not be measured, and nothing was run then: q8." in page
    assert "Weir 1 of 1." in report.page([], [lost("weir", 1)])


def test_runs_that_came_to_no_end_stay_told(tmp_path: Path) -> None:
    one = record()
    one.run["target_seconds"] = 5.0
    first, second = lost("weir", 1), lost("configured", 2)
    report.write(ROWS, tmp_path, lambda *_: one, [first])
    report.write(ROWS, tmp_path, lambda *_: one, [first, second])
    report.write(ROWS, tmp_path, lambda *_: one)
    assert report.read_broken(tmp_path / report.BROKEN) == [first, second]
    assert "Weir 1 of 1" in (tmp_path / "evidence.md").read_text()
