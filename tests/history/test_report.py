"""The report and the summary, of a real run's findings: whole, in one file, and safe to open."""

from __future__ import annotations

import io
import math
import random
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from agent.core.policy import QueryPolicy
from agent.history import rows
from agent.history.findings import Findings, Gathering, QueryFindings, Short
from agent.history.job import Outcome, Skipped
from agent.history.report import html
from agent.history.summary import show
from tests.contrast import contrast, lines, palettes
from tests.event_log import lines as made
from tests.history.test_judge import judged, of
from tests.history.test_trigger import log, spark

HOSTILE = "<script>alert('x')</script>"


def noisy(seed: int) -> list[int]:
    """Milliseconds of ten batches of one size."""
    noise = random.Random(seed)
    return [round(5000.0 * math.exp(noise.gauss(0.0, 0.2))) for _ in range(10)]


@pytest.fixture(scope="module")
def found(real_log: bytes) -> Findings:
    told = judged([real_log.splitlines()])
    made = Findings(incidents_known={"failure user_code": 1})
    for advised in of(told, rows.RECOMMENDATIONS):
        one = QueryFindings(advised["application"], advised["query"], advised)

        def own(name: str, query: str = advised["query"]) -> list[dict[str, object]]:
            return [record for record in of(told, name) if record["query"] == query]

        one.hours, one.incidents = own(rows.CAPACITY), own(rows.INCIDENTS)
        one.decisions, one.stages = own(rows.DECISIONS), [
            stage for stage in own(rows.STAGES) if stage["advice"]
        ][:3]  # fmt: skip
        one.points = [
            {**batch, "seconds_max": batch["seconds"], "rows_max": batch["rows"]}
            for batch in own(rows.BATCHES)
            if batch["event"] == "progress" and batch["rows"]
        ]
        made.queries.append(one)
    made.queries_known = len(made.queries)
    made.batches = sum(one.advised["batches"] for one in made.queries)
    made.begin = min(one.advised["from_time"] for one in made.queries)
    made.end = max(one.advised["to_time"] for one in made.queries)
    return made


def outcome() -> Outcome:
    skipped = [Skipped(f"file:/l/{HOSTILE}", 3, "a line is not whole")]
    return Outcome("file:/out", 2, 9_000_000, 1, 2, ["orders"], skipped)


def test_it_is_one_file_that_asks_nobody_for_anything(found: Findings) -> None:
    text = html(found, outcome())
    assert not re.search(r"(src|href|url)\s*[=(]\s*[\"']?(?!#)[a-z]", text)
    assert "http://" not in text
    assert "https://" not in text
    assert "prefers-color-scheme: dark" in text


def test_words_and_lines_of_plots_stand_out_from_their_ground(found: Findings) -> None:
    """By WCAG 2: 4.5 to 1 for words, 3 to 1 for lines. Tools that look at a page leave SVG out."""
    text = html(found, outcome())
    style = text.partition("<style>")[2].partition("</style>")[0]
    pattern = r"^(svg text[\w.-]*) \{ fill: var\(--([\w-]+)\)"
    words: dict[str, str] = dict(re.findall(pattern, style, re.MULTILINE))
    drawn = lines(style)
    del drawn[".grid"]  # no more than a help to the eye: its values are words
    assert {"svg text", "svg text.target-word", "svg text.would-word"} <= set(words)
    assert {".line", ".would", ".target", ".fit"} <= set(drawn)
    for palette in palettes(style):
        for least, colours in ((4.5, words), (3.0, drawn)):
            for selector, name in colours.items():
                assert contrast(palette[name], palette["surface"]) >= least, (selector, name)


def test_what_a_narrow_page_has_to_move_is_reached_by_the_keyboard(found: Findings) -> None:
    text = html(found, outcome())
    frames = re.findall(r'<div class="scroll"([^>]*)>', text)
    assert text.count("<table") == len(frames) > 4
    for frame in frames:
        assert re.fullmatch(r' tabindex="0" role="group" aria-label="[\w ,]+"', frame), frame


def test_every_element_is_closed_and_every_plot_is_xml(found: Findings) -> None:
    text = html(found, outcome())
    open_: list[str] = []

    class Checker(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in {"meta", "br"}:
                open_.append(tag)

        def handle_startendtag(self, tag: str, attrs: object) -> None:
            pass

        def handle_endtag(self, tag: str) -> None:
            assert open_.pop() == tag

    Checker().feed(text)
    assert open_ == []
    svgs = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(svgs) == 4 * len(found.queries)
    for svg in svgs:
        assert "nan" not in svg
        ET.fromstring(svg)


def test_names_and_texts_of_logs_stay_texts(found: Findings) -> None:
    found.queries[0].query = HOSTILE
    text = html(found, outcome())
    assert HOSTILE not in text
    assert text.count("&lt;script&gt;") >= 2


@pytest.mark.parametrize(
    ("works", "sizes", "said"),
    [
        ([20_000, 9000, 8900], [20_000] * 3, "too little seen"),
        # Ten in 2.5 to 7.5 s: twice what they digest comes, and they may well digest as much.
        (noisy(0), [40_000] * 10, "floor:stability"),
        (noisy(3), [40_000] * 10, "cannot keep up"),
    ],
)
def test_the_chip_says_what_the_advice_says(works: list[int], sizes: list[int], said: str) -> None:
    lines = log(spark(1, works, [2] * len(works)), works, sizes, arriving=20.0)
    gathering = Gathering()
    for row in judged([[*made.opening(), *lines]], QueryPolicy(target_seconds=5.0)):
        gathering.add(row)
    _, queries = gathering.end()
    page = html(Findings(queries, 1, {}, len(works)), outcome())
    (chip,) = re.findall(r'</span></h2><span class="chip" data-tone="\w+">([^<]*)<', page)
    assert chip == said
    assert queries[0].advised["required_capacity_ratio"] > 1.5
    advice = queries[0].advised["advice"]
    assert ("the query cannot keep up" in advice) == (said == "cannot keep up")
    assert "trigger interval" not in advice, "with none it keeps up no better"


def test_nothing_found_is_said() -> None:
    text = html(Findings(), Outcome("file:/out"))
    assert "The logs tell of no batch" in text


def test_a_query_that_failed_before_its_first_batch_is_named_with_why() -> None:
    """All night, and nothing else is in the logs."""
    incidents = {"failure checkpoint": 57, "unfinished batch": 1}
    found = Findings(
        incidents_known=incidents,
        without_batch=[Short("shop", HOSTILE, advised=False, incidents=incidents)],
    )
    page, out = html(found, outcome()), io.StringIO()
    show(found, outcome(), out)
    assert HOSTILE not in page
    for text in (page, out.getvalue()):
        assert "57 failure checkpoint, 1 unfinished batch" in text
    assert f"shop/{HOSTILE}" in out.getvalue()
    assert "incidents: 57 failure checkpoint" in out.getvalue()
    assert "The logs tell of no batch" not in page


def test_the_names_of_logs_steer_no_terminal(found: Findings) -> None:
    out = io.StringIO()
    left_out = Skipped("file:/l/a\x1b[2J\u202e-1", 3, "a line is not whole")
    doubled = [("file:/l/b\x1b[2J-1", "file:/l/c\x1b[2J-1")]
    show(found, Outcome("file:/out", 2, 9_000_000, 1, 2, ["orders"], [left_out], doubled), out)
    assert "-1: a line is not whole" in out.getvalue()
    assert "-1 stands for" in out.getvalue()
    assert all(line.isprintable() for line in out.getvalue().splitlines())


def test_the_summary_tells_the_limit_and_what_was_left_out(found: Findings) -> None:
    out = io.StringIO()
    show(found, outcome(), out)
    said = out.getvalue()
    for one in found.queries:
        assert f"{one.advised['limit_rows']:,}" in said
    assert "1 failure user_code" in said
    assert "1 files with what cannot be used: 0 left out, 3 lines in others" in said
    assert "2 new log files, 9.0 MB; 1 read before" in said
    assert max(map(len, said.splitlines())) <= 140
