"""Frames of the terminal view: golden files, hostile names, every size.

``UPDATE_GOLDEN=1 python -m pytest tests/top/test_render.py`` writes the golden files anew.
"""

# ruff: noqa: RUF001 - what is shown holds dashes and quotation marks on purpose
from __future__ import annotations

import io
import os
import random
import re
import shlex
import time
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from agent.core.judgement import ExecutorsView, QueryView
from agent.export.terminal.cells import columns, fit, share_bar, target_bar
from agent.export.terminal.choose import press
from agent.export.terminal.format import count
from agent.export.terminal.render import SORTS, Selection, arrange, lines, render
from agent.export.terminal.snapshot import NotAnAgent, Snapshot, read_answer
from agent.export.terminal.words import words
from tests.page import views as made

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def snapshot(views: list | None = None, **changes: object) -> Snapshot:
    answer = msgspec.json.decode(made.answer(made.everything() if views is None else views))
    read = read_answer(answer, url="http://127.0.0.1:9655")
    return msgspec.structs.replace(read, **changes)


def frame(
    width: int,
    height: int,
    *,
    of: Snapshot | None = None,
    selection: Selection | int = 0,
    now: float = made.NOW + 1.0,
) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, color_system=None)
    console.print(render(of or snapshot(), now, selection, width, height))
    text = out.getvalue()
    assert "\x1b" not in text
    assert text.endswith("\n")
    shown = text[:-1].split("\n")
    assert len(shown) == height, "a frame is exactly as high as asked"
    for line in shown:
        assert cell_len(line) <= width, line
    return [line.rstrip() for line in shown]


SCENES = {
    "80x24": (80, 24, 0),
    "120x40": (120, 40, 4),
    "60x24": (60, 24, 0),
    "160x50": (160, 50, 5),
    "120x40-details": (120, 40, Selection(key=("orders", "enrich"), open=True)),
    "80x24-failed": (80, 24, Selection(key=("billing", "to-warehouse"))),
    "80x24-help": (80, 24, Selection(help=1)),
    "80x24-legend": (80, 24, Selection(help=2)),
    "80x24-filter": (80, 24, Selection(filter="pay late", typing=True)),
}


@pytest.mark.parametrize("name", SCENES)
def test_golden(name: str) -> None:
    width, height, selection = SCENES[name]
    shown = "\n".join(frame(width, height, selection=selection)) + "\n"
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(shown, "utf-8")
    assert shown == file.read_text("utf-8")


def test_empty_lost_and_unknown() -> None:
    empty = "\n".join(frame(80, 24, of=snapshot([])))
    assert "from spark_listener import attach" in empty
    assert "attach(spark)" in empty
    assert "WEIR_AGENT_URL=http://127.0.0.1:9655 in the job's environment" in empty
    assert "weir agent --event-log-dirs" in empty
    assert "mode on" in empty, "what new queries start with"
    assert "mode –" in "\n".join(frame(80, 24, of=snapshot([], mode=""))), "not told"
    lost = snapshot(lost_since_time=made.NOW - 95, lost_seconds=95.0, problem="connection refused")
    text = "\n".join(frame(80, 24, of=lost))
    assert "Agent not reachable since 08:53:27 (1 min 35 s): connection refused" in text
    assert "○ not reachable" in text
    assert "4m12s+" in text, "a lost agent's running batch does not grow older"
    none = "\n".join(frame(60, 20, selection=Selection(filter="nothing like it")))
    assert "No query matches" in none


def test_a_hung_batch_grows_older_between_answers() -> None:
    def age(passed: float) -> str:
        (row,) = [line for line in frame(120, 30, now=made.NOW + passed) if line.startswith("▌")]
        return row

    assert ["4m12s+" in age(0), "4m15s+" in age(3), "4m21s+" in age(9)] == [True] * 3
    assert "4m12s+" in age(500), "a stale answer is not made up further"


def test_between_answers_the_level_stays_what_the_agent_said() -> None:
    """A running batch passes its deadline on screen; whether that is hung the next answer says."""
    near = snapshot([made.view("enrich", running_seconds=59.0)])
    for passed, age in ((0.0, "59s+"), (5.0, "1m4s+")):
        shown = "\n".join(frame(120, 30, of=near, now=made.NOW + passed))
        assert age in shown
        assert "late batches" in shown
        assert "hung" not in shown


@pytest.mark.parametrize("width", [80, 120])
def test_trouble_prints_where_its_runbook_is(width: int) -> None:
    for view, book in (
        (made.hung(), "WeirBatchHung"),
        (made.failed(), "WeirQueryGone"),
        (made.overloaded(), "WeirNeedsCapacity"),
        (made.spiralling(), "WeirSpiral"),
    ):
        text = frame(width, 24, of=snapshot([view]))
        assert f" What to do: http://127.0.0.1:9655/runbooks/{book}" in text
    assert "What to do" not in "\n".join(frame(width, 24, of=snapshot([made.pressured()])))


def test_a_spirals_evidence_and_who_steers() -> None:
    text = " ".join(" ".join(frame(80, 30, of=snapshot([made.spiralling()]))).split())
    assert "Batches took 9.1 s, now take 55 s; the next passes the deadline of 60 s;" in text
    assert (
        "changes nothing. To let Weir act: weir mode on games/ranks --url http://127.0.0.1:9655"
        in text
    )
    held = [view for view in made.everything() if view.held]
    text = "\n".join(frame(140, 30, of=snapshot(held)))
    assert (
        "Held by kim (10.0.3.7) 2 h ago: deploy. "
        "To let Weir decide again: weir release orders/enrich-eu --url http://127.0.0.1:9655"
    ) in text
    other = snapshot(held, url="https://weir.example")
    assert "enrich-eu --url https://weir.example" in "\n".join(frame(140, 30, of=other))


def test_a_backlog_that_nobody_has_seen_is_marked_and_is_not_said_to_be_fresh() -> None:
    source = [made.source(backlog=0)]
    seen = made.view("z", backlog_rows=16_300.0, backlog_seconds=0.0, sources=source)
    guessed = msgspec.structs.replace(seen, backlog_unseen_rows=16_300.0)
    shown = frame(160, 40, of=snapshot([guessed]))
    assert any("≈ 16.3k rows, caught up in" in line for line in shown)
    row = next(line for line in shown if " z " in line and "≈ 16.3k" in line)
    assert re.search(r"≈ 16.3k .* – ", row)
    assert not any("0 s behind" in line for line in shown)
    assert not any("≈" in line for line in frame(160, 40, of=snapshot([seen])))


@pytest.mark.parametrize("height", [16, 24, 50])
def test_help_tells_of_every_level(height: int) -> None:
    shown = "\n".join(frame(80, height, selection=Selection(help=2)))
    levels = [level.label for level in words().levels]
    assert [label for label in levels if f" {label} " not in shown] == []


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_what_is_to_be_typed_and_figures_are_never_cut(width: int) -> None:
    held = made.view("to-the-warehouse", held=True, backlog_rows=16_300.0, backlog_seconds=4.2)
    url = "http://weir.streaming.example.org:9655"
    chosen = Selection(key=("orders", "to-the-warehouse"), open=True)
    shown = frame(width, 60, of=snapshot([held], url=url), selection=chosen)
    start = next(n for n, line in enumerate(shown) if "weir release" in line)
    typed = "\n".join(shown[start:])
    typed = typed[typed.index("weir release") :].replace(" \\\n", " ")
    command = ["weir", "release", "orders/to-the-warehouse", "--url", url]
    assert shlex.split(typed.split("\n")[0]) == command
    if width >= 80:
        assert any("16.3k rows, 4.2 s behind, caught up in 1.7 s" in line for line in shown)


def test_where_its_runbook_is_is_never_cut() -> None:
    url = "http://weir.streaming.example.org:9655/behind/a/proxy"
    shown = frame(60, 40, of=snapshot([made.hung()], url=url), selection=Selection(open=True))
    assert f"{url}/runbooks/WeirBatchHung" in "".join(line.strip() for line in shown)


@pytest.mark.parametrize("width", [100, 160])
def test_a_pair_of_figures_is_never_cut(width: int) -> None:
    for first, second in ((42_130, 42_240), (12_500, 12_400), (421_000, 42_100), (999_499, 99_949)):
        view = made.view("z", arrival_rows_per_second=first, processed_rows_per_second=second)
        limit = msgspec.structs.replace(view.limit, current=first, next=second)
        shown = frame(width, 24, of=snapshot([msgspec.structs.replace(view, limit=limit)]))
        row = next(line for line in shown if " z orders " in line)
        assert row.count(f" {count(first)} → {count(second)}") == 2, row


def test_a_paused_picture_says_how_old_it_is_and_not_that_it_is_live() -> None:
    stood = Selection(paused=True)
    head = frame(80, 24, selection=stood, of=snapshot(paused_seconds=10_800.4))[0]
    assert "paused, 3 h old" in head
    assert "live" not in head
    lost = snapshot(paused_seconds=95.0, lost_since_time=made.NOW - 60, problem="refused")
    shown = frame(120, 24, selection=stood, of=lost)
    assert "paused, 1 min 35 s old  ○ not reachable" in shown[0]
    assert any("Agent not reachable since" in line for line in shown)


def test_dry_run_shows_the_limit_in_force() -> None:
    text = "\n".join(frame(120, 40, of=snapshot([made.dry_run()])))
    assert "12k → " not in text.split("── loads")[0]
    assert "limit 12k rows, would be 171k" in text
    assert "12k rows, would be 171k rows" in text


def test_a_source_is_called_by_its_number_until_its_first_batch() -> None:
    view = made.view("new", sources=[made.source(3, description="")])
    text = "\n".join(frame(120, 40, of=snapshot([view])))
    assert re.search(r"[●◆▲] source 3  ", text)
    assert "(no name)" not in text


def test_where_no_batch_ends_nothing_looks_fine() -> None:
    for view in (made.hung(), made.failed()):
        text = "\n".join(frame(120, 40, of=snapshot([view])))
        assert "present capacity" not in text
        assert "caught up in" not in text
        assert "○ orders/enriched (Delta)  last 12k rows" in text or "▲ ForeachBatchSink" in text
        assert re.search(r" (3\.9k|–) → –", text)
        assert "As of the last batch" in text


def test_a_query_whose_driver_ended_under_it_is_in_trouble() -> None:
    text = "\n".join(frame(120, 24, of=snapshot([made.failed(failure=None)])))
    assert "▌? no word" in text
    assert "The driver ended while the query ran" in text
    assert "/runbooks/WeirQueryGone" in text


def test_red_levels_keep_their_words() -> None:
    text = "\n".join(frame(80, 24)[:4])
    for word in ("hung", "failed", "spiralling", "no word", "over capacity", "high pressure"):
        assert f" 1 {word}" in text
    assert "◆ 4 amber" in text
    assert "high pressure" not in "\n".join(frame(80, 12)[:3]), "a low screen keeps its rows"


def test_what_the_agent_answers_can_be_given_as_it_is() -> None:
    answer = msgspec.json.decode(made.answer(made.everything()))
    out = io.StringIO()
    Console(file=out, width=100).print(render(answer, made.NOW, 0, 100, 30))
    assert "sessions" in out.getvalue()
    out = io.StringIO()
    Console(file=out, width=100).print(render({"queries": 7}, made.NOW, 0, 100, 30))
    assert "does not fit this version of weir" in out.getvalue()
    with pytest.raises(NotAnAgent, match=r"agent 9\.9 does not fit .* `time`"):
        read_answer({"agent": {"version": "9.9"}, "queries": []})


def test_unknown_fields_of_a_newer_agent_are_ignored() -> None:
    answer = msgspec.json.decode(made.answer(made.everything()))
    answer["new"] = 1
    answer["agent"]["new"] = {}
    answer["queries"][0]["new"] = [1]
    assert len(read_answer(answer).views) == 13


def executors(**changes: object) -> ExecutorsView:
    given = {
        "mode": "dry-run", "present": 0, "slots": 0, "wanted": None, "asked": None, "note": "",
        "bound": "enough", "gain": None, "contention": None, "contention_doubt": None,
        "task_seconds": None, "longest_seconds": None, "driver_seconds": None,
    }  # fmt: skip
    return ExecutorsView(**{**given, **changes})


def hostile(**told: object) -> list[QueryView]:
    return [
        made.view(name, name, sink=name, sources=[made.source(description=name, note=name)],
                  missing=[name], executors=executors(note=name, **told))
        for name in made.HOSTILE_NAMES
    ]  # fmt: skip


@pytest.mark.parametrize("told", [{}, {"present": 1, "slots": 4, "wanted": 2}])
def test_hostile_names_neither_steer_nor_shift(told: dict) -> None:
    views = hostile(**told)
    for width, height in ((60, 24), (80, 24), (120, 60)):
        for place in range(len(views)):
            shown = frame(width, height, of=snapshot(views), selection=place)
            for line in shown:
                assert not any(ord(mark) < 32 or mark in "\x7f\x9b\u202e\u200b" for mark in line)
    shown = frame(120, 60, of=snapshot(views))
    rows = [line for line in shown if line[1:].startswith("● ok")]
    assert len(rows) == len(views)
    # The backlog ends in the same cell in each row, however wide the name before it is.
    ends = {cell_len(row[: row.index(" 4k ") + 3]) for row in rows}
    assert len(ends) == 1, rows
    assert any("🔥" in row for row in rows)
    assert any("two␊lines" in row for row in rows)
    assert any("‹202E›" in row for row in rows)
    escape = executors(note="\x1b]52;c;cm0=\x1b\\\x1b[2J", **told)
    shown = frame(120, 60, of=snapshot([made.view("a", executors=escape)]))
    assert any("Weir cannot ask for them: ␛]52;c;cm0=␛" in line for line in shown)


def test_words_of_a_newer_agent_are_passed_over() -> None:
    told = executors(mode="on", present=1, slots=4, wanted=2, bound="new")
    shown = "\n".join(frame(120, 60, of=snapshot([made.view("a", executors=told)])))
    assert "Executors: 1, for 4 tasks at once. Needed: 2." in shown


def test_what_an_answer_that_does_not_fit_says_steers_nothing() -> None:
    with pytest.raises(NotAnAgent) as raised:
        read_answer({"agent": {"version": "\x1b[2J9"}, "queries": []})
    assert "\x1b" not in str(raised.value)


def test_no_size_breaks_it() -> None:
    rng = random.Random(2)
    for width in (1, 5, 20, 39, 40, 59, 61, 72, 99, 100, 200, 400):
        for height in (1, 2, 3, 4, 5, 8, 13, 24, 70):
            shown = lines(
                snapshot(),
                made.NOW,
                Selection(key=("orders", "enrich"), open=rng.random() < 0.3),
                width,
                height,
            )
            assert len(shown) == height
            assert all(line.cell_len <= width for line in shown)


def test_the_chosen_row_stays_in_sight() -> None:
    many = snapshot(made.many(200))
    listed = [entry.key for entry in arrange(many, Selection())]
    for place in (0, 20, 100, 199):
        shown = frame(100, 30, of=many, selection=Selection(key=listed[place]))
        chosen = [line for line in shown if line.startswith("▌")]
        assert len(chosen) == 1
        assert listed[place][1] in chosen[0]


def test_sorting() -> None:
    read = {
        "backlog": lambda v: v.backlog_rows,
        "batch": lambda v: max(v.running_seconds or 0, v.batch_seconds or 0),
        "rate": lambda v: v.arrival_rows_per_second,
    }
    for sort in SORTS:
        entries = arrange(snapshot(), Selection(sort=sort))
        assert len(entries) == 13
        if sort in read:
            values = [read[sort](entry.view) or 0 for entry in entries]
            assert values == sorted(values, reverse=True)
    names = [entry.key for entry in arrange(snapshot(), Selection(sort="name"))]
    assert names == sorted(names)


LISTED = [("a", "one"), ("a", "two"), ("b", "three")]


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        (["down"], {"key": ("a", "two")}),
        (["j", "j", "j", "j"], {"key": ("b", "three")}),
        (["end", "k"], {"key": ("a", "two")}),
        (["G", "home", "up"], {"key": ("a", "one")}),
        (["page down"], {"key": ("b", "three")}),
        (["enter"], {"open": True}),
        (["enter", "escape"], {"open": False}),
        (["s"], {"sort": "backlog"}),
        (["s"] * len(SORTS), {"sort": "worst"}),
        (["p"], {"paused": True}),
        (["p", "p"], {"paused": False}),
        (["?"], {"help": 1}),
        (["?", "x"], {"help": 0}),
        (["?", "?"], {"help": 2}),
        (["?", "?", "?"], {"help": 0}),
        (["/", "q", "j", "é"], {"filter": "qjé", "typing": True}),
        (["/", "a", "b", "backspace", "enter"], {"filter": "a", "typing": False}),
        (["/", "a", "escape"], {"filter": "", "typing": False}),
        (["/", "a", "up", "enter"], {"filter": "a", "typing": False}),
        (["ä", "f1"], {}),
    ],
)
def test_keys_choose(keys: list[str], wanted: dict) -> None:
    selection = Selection()
    for key in keys:
        after = press(key, selection, LISTED, 0.0)
        assert after is not None
        selection = after
    assert selection == msgspec.structs.replace(Selection(), **wanted)


@pytest.mark.parametrize("keys", [["q"], ["interrupt"], ["/", "interrupt"], ["?", "q"]])
def test_keys_quit(keys: list[str]) -> None:
    selection: Selection | None = Selection()
    for key in keys:
        assert selection is not None
        selection = press(key, selection, [], 0.0)
    assert selection is None


def test_drawings() -> None:
    assert fit("数据流", 5) == "数据…"
    assert fit("数据流", 4) == "数… "[: len(fit("数据流", 4))]
    assert cell_len(fit("数据流", 4)) == 4
    assert fit("ab", 4, "right") == "  ab"
    assert fit("abc", 0) == ""
    assert target_bar(5, 5, 8, "").plain == "████│   "
    assert target_bar(50, 5, 8, "").plain == "████┃███"
    assert target_bar(0, 5, 8, "").plain == "····│   "
    assert target_bar(None, 5, 8, "").plain == " " * 8
    assert share_bar([(0.5, "#", ""), (0.25, "=", ""), (0.25, ".", "")], 8).plain == "####==.."
    assert share_bar([(1 / 3, "#", "")] * 3, 10).plain == "#" * 10


def test_tall_plots() -> None:
    drawn = columns([1, 4, None, 8, 0], 6, 8, 2, ["a"] * 5, mark=6)
    assert [line.plain for line in drawn] == ["┄┄┄┄█┄", " ▂█ █▁"]
    assert [line.plain for line in columns([1, 8], 3, 8, 1, ["a"] * 2)] == [" ▂█"]
    assert [line.plain for line in columns([0, 1, None, 2, 4], 6, 4, 1, ["a"] * 5)] == [" ▁▃ ▅█"]
    assert [line.plain for line in columns([1, 2, 3], 2, 3, 1, ["a"] * 3)] == ["▆█"]
    assert [line.plain for line in columns([0.0, 0.0], 2, 0, 1, ["a"] * 2)] == ["▁▁"]
    assert [line.plain for line in columns([], 2, 0, 3, [])] == ["  "] * 3
    assert len(columns([8] * 50, 50, 8, 1, ["a"] * 50)[0].spans) == 1, "one span a run"


@pytest.mark.parametrize("view", made.everything(), ids=lambda view: view.query)
def test_no_word_is_in_a_colour_that_is_some_schemes_background(view: QueryView) -> None:
    """Bright black, as in Solarized's dark one."""
    of_it = Selection(key=(view.application, view.query), open=True)
    for line in lines(snapshot(), made.NOW + 1.0, of_it, 160, 50):
        styles = [line.style, *(span.style for span in line.spans)]
        assert not [style for style in styles if "bright_black" in str(style)]
