"""The page as a reader meets it: in Chromium, against the real routes."""

# ruff: noqa: RUF001 - what is shown holds dashes and quotation marks on purpose
from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from agent.compare import compare
from agent.core.judge.alignment import Alignment, AlignmentView
from agent.core.judgement import ExecutorsView, FailureView, Finding, LimitView, Point
from agent.core.measure.partitions import PartitionView
from tests.page import views as made
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Page

    from tests.page.conftest import FleetServer, Watched

pytestmark = pytest.mark.browser
BETWEEN = pytest.mark.slow("the same between those that are tried every time")

HUNG = "/#clicks/sessions"
ORDER = [
    "hung",
    "failed",
    "spiralling",
    "lost",
    "overloaded",
    "pressured",
    "infeasible",
    "growing",
    "late",
    "low",
    "ok",
    "idle",
    "ended",
]


def levels(page: Page) -> list[str]:
    """Every level as listed; rows out of sight show none, so scroll first."""
    page.evaluate(
        """async () => {
          for (let y = 0; y < document.body.scrollHeight; y += 400) {
            scrollTo(0, y); await new Promise((done) => setTimeout(done, 60));
          }
          scrollTo(0, 0);
        }"""
    )
    shown: list[str] = page.eval_on_selector_all(
        ".query", "all => all.map((one) => one.dataset.level ?? 'shell')"
    )
    return shown


def names(page: Page) -> list[str]:
    return page.locator(".query .query-name").all_inner_texts()


def open_query(page: Page, name: str) -> Any:
    row = page.locator(".query", has=page.locator(".query-name", has_text=re.compile(f"^{name}$")))
    row.scroll_into_view_if_needed()
    if row.get_attribute("data-open") != "yes":
        row.locator(".toggle").click()
    row.locator(".detail").wait_for()
    return row


def test_worst_first_and_clean(open_page: Callable[..., Watched], fleet: FleetServer) -> None:
    watched = open_page(height=2600)
    page = watched.page
    page.wait_for_selector('.query[data-level="ended"]')
    assert levels(page) == ORDER
    assert page.locator(".query[data-open=yes]").count() == 0, "of many the list is worth more"
    page.wait_for_timeout(2500)
    assert fleet.polls >= 2, "the page asks again by itself"
    watched.assert_clean(fleet.url)
    asked = {url.removeprefix(fleet.url) for url in watched.requests}
    assert "/v1/queries?history=120" in asked


def test_a_query_is_told_in_full(open_page: Callable[..., Watched], fleet: FleetServer) -> None:
    watched = open_page()
    row = open_query(watched.page, "enrich")
    text = row.inner_text()
    for said in (
        "402k rows waiting",
        "limit 20k → 24k rows",
        "≥ 310 files waiting",
        "backlog unknown",
        "5.9k rows/s",
        "4.7k rows/s",
        "7.1k rows/s in all",
        "Arrivals need 1.4 times the present capacity",
        "The target of 5 s cannot be kept",
        "floor: a smaller batch would not keep up with arrivals",
        "a larger batch would take over 48 s, 0.8 of the deadline",
        "fixed cost of a batch",
        "addBatch",
        "source 2: this source takes no limit",
        "98 MB",
        "orders/enriched",
    ):
        assert said in text, said
    tones = row.locator(".box.source").evaluate_all("all => all.map((one) => one.dataset.tone)")
    assert tones == ["high", "high", "unknown"]
    words = row.locator(".box .tone-word").all_inner_texts()
    assert words[:3] == ["high pressure", "high pressure", "unknown"]
    assert row.locator(".shares").get_attribute("aria-label").startswith("Last minute: busy")
    watched.assert_clean(fleet.url)


def test_a_backlog_that_nobody_has_seen_is_marked(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    told: dict[str, Any] = {"backlog_rows": 16_300.0, "backlog_seconds": 0.0}
    told["sources"] = [made.source(backlog=0)]
    seen = made.view("seen", **told)
    fleet.show([seen, made.view("guessed", backlog_unseen_rows=16_300.0, **told)])
    watched = open_page()
    for name, mark in (("guessed", "≈ 16.3k"), ("seen", "16.3k")):
        row = open_query(watched.page, name)
        assert row.locator(".cell-backlog .cell-main").inner_text() == mark
        assert f"Backlog\n{mark} rows" in row.locator(".plots").inner_text()
        assert "0 s behind" not in row.inner_text()
    watched.assert_clean(fleet.url)


def test_plots_speak_for_themselves(open_page: Callable[..., Watched]) -> None:
    page = open_page().page
    row = open_query(page, "enrich")
    spoken = row.locator(".plot svg").evaluate_all("all => all.map((o) => o.ariaLabel)")
    assert len(spoken) == 4
    assert re.match(r"Batch time: [0-9.]+ s, highest ", spoken[0])
    assert spoken[0].endswith(", target 5 s, deadline 1 min")
    assert "over 46 batches" in spoken[0]
    assert spoken[1] == "Backlog: 454k rows, highest 454k rows, over 46 batches", "of now"
    assert spoken[2].startswith("Limit: 27.5k rows")
    assert row.locator('[data-plot="batch"] rect.bar').count() >= 46
    assert row.locator('[data-plot="batch"] line.target').count() == 1


def test_pointing_at_a_plot_reads_that_batch(open_page: Callable[..., Watched]) -> None:
    page = open_page().page
    row = open_query(page, "enrich")
    area = row.locator('[data-plot="backlog"] .plot-area')
    area.scroll_into_view_if_needed()
    before = row.locator('[data-plot="backlog"] .plot-now').inner_text()
    box = area.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 20)
    page.wait_for_selector('[data-plot="backlog"] .cross', state="attached")
    assert row.locator('[data-plot="backlog"] .plot-now').inner_text() == "49k rows"
    assert row.locator('[data-plot="limit"] .cross').count() == 1, "all plots show the moment"
    page.mouse.move(5, 5)
    page.wait_for_selector('[data-plot="backlog"] .cross', state="detached")
    assert row.locator('[data-plot="backlog"] .plot-now').inner_text() == before


@pytest.mark.slow("waits on a page; what it draws is looked at every time")
def test_a_hung_batch_grows_old_on_screen(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    watched = open_page(HUNG)
    page = watched.page
    age = page.locator('.query[data-level="hung"] .alarm .age')
    age.wait_for()
    ages = []
    for _ in range(5):
        ages.append(age.inner_text())
        page.wait_for_timeout(1100)
    seconds = [60 * int(m) + int(s) for m, s in (re.findall(r"\d+", text) for text in ages)]
    assert seconds[0] >= 252
    # A busy browser may draw late: never younger, and older on the whole.
    assert seconds == sorted(seconds), f"the age must grow: {ages}"
    assert seconds[-1] > seconds[0] + 2, f"the age must grow: {ages}"
    text = page.locator('.query[data-level="hung"]').inner_text()
    assert "Batch 913 has been running for" in text
    assert "Past the deadline of 1 min." in text
    assert page.title() == "(6) Weir", "queries in red are counted in the title"
    watched.assert_clean(fleet.url)


@pytest.mark.parametrize(
    ("number", "opened"),
    [(1, 1), (2, 2), pytest.param(3, 1, marks=BETWEEN), pytest.param(5, 1, marks=BETWEEN), (6, 0)],
)
def test_how_many_open_by_themselves(
    open_page: Callable[..., Watched], fleet: FleetServer, number: int, opened: int
) -> None:
    fleet.show(made.everything()[-number:])
    page = open_page(height=2600).page
    page.wait_for_selector('.query[data-level="hung"]')
    assert page.locator(".query[data-open=yes]").count() == opened


def test_where_no_batch_ends_nothing_looks_fine(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    last = made.NOW - 252.0
    fleet.show(
        [made.hung(), made.failed(), *(v for v in made.everything() if v.query == "heatmap")]
    )
    watched = open_page(height=2600)
    page = watched.page
    row = open_query(page, "sessions")
    assert row.locator(".row .cell-rates .cell-main").inner_text() == "3.9k → –"
    assert row.locator(".row .cell-batch .cell-rest").inner_text() == "/ 5 s · running"
    assert "…" not in row.locator(".row").inner_text()
    assert row.locator(".box.sink").get_attribute("data-tone") == "idle"
    assert "nothing new" in row.locator(".box.sink").inner_text()
    assert re.search(r"last 12k rows, 4 min \d+ s ago", row.locator(".box.sink").inner_text())
    assert row.locator(".links.out").inner_text().startswith("–")
    assert row.locator('[data-plot="rate"] .plot-now').inner_text() == "–"
    span = row.locator('[data-plot="rate"] svg').evaluate(
        "s => [Number(s.dataset.from), Number(s.dataset.to)]"
    )
    ends = [float(x) for x in re.findall(
        r"H([\d.]+)", row.locator('[data-plot="rate"] path.line').get_attribute("d"))]  # fmt: skip
    share = (last - span[0]) / (span[1] - span[0])
    assert max(ends) == pytest.approx(1000 * share, abs=2), "the line ends with the last commit"
    for name in ("sessions", "to-warehouse", "heatmap"):
        row = open_query(page, name)
        assert "present capacity" not in row.inner_text()
        assert "can be kept" not in row.inner_text()
        assert "caught up in" not in row.inner_text()
        assert "As of the last batch" in row.inner_text()
    assert row.locator(".row .cell-rates .cell-main").inner_text() == "– → –"
    assert "last known: busy" in row.inner_text()
    watched.assert_clean(fleet.url)


def test_trouble_leads_to_its_runbook(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    books = {
        "sessions": "WeirBatchHung",
        "to-warehouse": "WeirQueryGone",
        "scores": "WeirSpiral",
        "heatmap": "WeirQueryGone",
        "enrich": "WeirNeedsCapacity",
        "slow-state": "WeirTargetInfeasible",
        "audit": "WeirFallingBehind",
    }
    fleet.show([v for v in made.everything() if v.query in {*books, "dedupe"}])
    watched = open_page(height=2600)
    page = watched.page
    for query, book in books.items():
        link = open_query(page, query).locator(".alarm a")
        assert link.get_attribute("href") == f"runbooks/{book}"
    assert open_query(page, "dedupe").locator(".alarm").count() == 0, "it is being worked off"
    watched.assert_clean(fleet.url)
    with page.context.expect_page() as opened:
        open_query(page, "sessions").locator(".alarm a").click()
    opened.value.wait_for_selector("h1")
    assert opened.value.locator("h1").inner_text() == "WeirBatchHung"


def test_a_spiral_shows_its_evidence_and_the_order_that_lets_weir_act(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    fleet.show([made.spiralling()])
    watched = open_page(height=1200)
    page = watched.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    row = open_query(page, "ranks")
    alarm = row.locator(".alarm").inner_text()
    assert "Batches took 9.1 s, now take 55 s; the next passes the deadline of 60 s;" in alarm
    said = row.locator(".steering").inner_text()
    assert "Dry run: Weir decides and shows what it would do, and changes nothing." in said
    typed = f"weir mode on games/ranks --url {fleet.url}"
    assert row.locator(".steering code").inner_text() == typed
    row.locator(".steering .copy").click()
    page.wait_for_function("() => document.querySelector('#spoken').textContent === 'Copied.'")
    assert page.evaluate("navigator.clipboard.readText()") == typed
    watched.assert_clean(fleet.url)


def test_without_a_clipboard_the_command_is_marked(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    fleet.show([made.spiralling()])
    page = open_page(height=1200).page
    row = open_query(page, "ranks")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    row.locator(".steering .copy").click()
    page.wait_for_function("() => String(getSelection()).startsWith('weir mode on games/ranks')")


def test_who_holds_it_and_why(open_page: Callable[..., Watched], fleet: FleetServer) -> None:
    held = [v for v in made.everything() if v.held or v.manual_limit]
    fleet.show([*held, made.view("unknown", "shop", held=True)])
    page = open_page(height=2600).page
    said = open_query(page, "enrich-eu").locator(".steering").inner_text()
    assert "Held by kim (10.0.3.7) 2 h ago: deploy." in said
    assert f"weir release orders/enrich-eu --url {fleet.url}" in said
    badge = page.locator('.badge[data-badge="hold"]').first
    assert re.fullmatch(r"kim \(10.0.3.7\), \d\d:\d\d:\d\d: deploy", badge.get_attribute("title"))
    said = open_query(page, "fraud").locator(".steering").inner_text()
    assert re.match(r"Limited to 8k rows by lee 4 min( \d+ s)? ago\.", said)
    assert "Held by an operator." in open_query(page, "unknown").locator(".steering").inner_text()


def test_a_source_is_called_by_its_number_until_its_first_batch(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    fleet.show([made.view("new", sources=[made.source(3, description="")])])
    row = open_query(open_page(height=1200).page, "new")
    box = row.locator(".box.source")
    assert "source 3" in box.inner_text().splitlines()
    assert box.get_attribute("title") == "source 3"
    assert "source 3 (" in row.locator(".flow").get_attribute("aria-label")


def test_dry_run_draws_what_is_in_force_and_apart_what_would_be(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    fleet.show([made.dry_run()])
    watched = open_page(height=1200)
    row = open_query(watched.page, "loads")
    assert row.locator(".row .cell-limit").inner_text().split() == ["12k", "would", "be", "171k"]
    assert "limit 12k rows, would be 171k" in row.locator(".box.source").inner_text()
    plot = row.locator('[data-plot="limit"]')
    assert plot.locator(".plot-now").inner_text() == "12k rows"
    assert plot.locator(".legend").inner_text().split() == ["in", "force", "would", "be", "171k"]
    assert plot.locator("svg").get_attribute("aria-label").endswith("would be 171k rows")
    force = plot.locator("path.line:not(.would-be)").get_attribute("d")
    assert len(set(re.findall(r"V([\d.]+)", force))) == 1, "what is in force never moved"
    assert len(set(re.findall(r"V([\d.]+)", plot.locator("path.would-be").get_attribute("d")))) > 3
    assert plot.locator("path.credit").count() == 0, "nothing is credited"
    badge = row.locator(".decisions .badge")
    assert badge.inner_text() == "not acted on"
    fleet.show([made.dry_run(mode="on", history=made.dry_run().history[:-1])])
    watched.page.wait_for_selector('[data-plot="limit"] .credit-key')
    legend = plot.locator(".legend").inner_text()
    assert "in dry run" in legend, "what was only decided is told from what was in force"
    fleet.show([made.dry_run()])
    watched.page.wait_for_selector('[data-plot="limit"] .credit-key', state="detached")
    # Beside the words with a gap, or on a line of its own where a font is wide.
    apart = badge.evaluate(
        "b => { const box = b.getBoundingClientRect();"
        " const before = b.previousElementSibling.getBoundingClientRect();"
        " return box.left - before.right > 3 || box.top >= before.bottom - 3; }"
    )
    assert apart
    watched.assert_clean(fleet.url)


@pytest.mark.parametrize("width", [360, pytest.param(1280, marks=BETWEEN)])
def test_dry_run_is_held_against_what_happened(
    open_page: Callable[..., Watched], fleet: FleetServer, width: int
) -> None:
    grown = made.spiralling(fixed_cost_seconds=2.0, throughput_rows_per_second=40_000.0)
    unknown = made.dry_run(fixed_cost_seconds=None)
    fleet.show([grown, unknown, made.view("plain")])
    watched = open_page(width=width, height=2400, phone=width < 500)
    row = open_query(watched.page, "ranks")
    watched.page.wait_for_selector(".comparison tbody")
    cells = {
        line.locator("th").inner_text(): line.locator("td").all_inner_texts()
        for line in row.locator(".comparison tbody tr").all()
    }
    seen = compare(grown, grown.history)
    assert seen.happened is not None
    assert seen.would_be is not None
    assert cells["longest batch"][0] == "55 s"
    assert float(cells["longest batch"][1].split()[0]) == pytest.approx(
        seen.would_be.longest_seconds, rel=0.06
    )
    assert cells["largest batch"] == ["2.2M rows", f"{seen.would_be.largest_rows // 1000}k rows"]
    assert cells["batches"] == [str(seen.happened.batches), str(seen.would_be.batches)]
    better = row.locator('.comparison [data-better="yes"]')
    assert better.count() < len(cells), "what it would cost is no gain"
    said = row.locator(".comparison p").inner_text()
    assert f"An estimate over {seen.happened.batches} batches" in said
    said = open_query(watched.page, "loads").locator(".comparison").inner_text()
    assert "Nothing to compare: what a batch costs is not known yet" in said
    assert open_query(watched.page, "plain").locator(".comparison").count() == 0
    asked = fleet.asked_for_comparisons
    polls = fleet.polls
    until(lambda: fleet.polls > polls + 1, "two more answers", seconds=20)
    assert fleet.asked_for_comparisons <= asked + 2, "not with each refresh"
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
    watched.assert_clean(fleet.url)


def test_a_failed_query_says_why(open_page: Callable[..., Watched]) -> None:
    row = open_query(open_page().page, "to-warehouse")
    alarm = row.locator(".alarm").inner_text()
    assert alarm.startswith("Ended by external service (sink: no answer): org.postgresql.util.PSQL")
    assert row.locator(".box.sink").get_attribute("data-tone") == "high"


def test_a_query_whose_driver_ended_under_it_is_in_trouble(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    fleet.show([made.failed(failure=None)])
    row = open_query(open_page().page, "to-warehouse")
    assert row.get_attribute("data-level") == "lost"
    assert row.locator(".alarm").inner_text().startswith("The driver ended while the query ran")
    assert row.locator(".alarm a").get_attribute("href") == "runbooks/WeirQueryGone"


def test_hostile_names_are_only_text(open_page: Callable[..., Watched], fleet: FleetServer) -> None:
    fleet.show(
        [
            made.view(
                name,
                name,
                sink=name,
                trigger=name,
                checkpoint_location=name,
                ui_url=f"javascript:alert('{name}')",
                failure=FailureView("user_code", name),
                sources=[made.source(description=name, note=name)],
                missing=[name],
            )
            for name in made.HOSTILE_NAMES
        ]
    )
    for width in (1280, 360):
        watched = open_page(width=width, height=3000)
        page = watched.page
        for _ in range(len(made.HOSTILE_NAMES)):
            closed = page.locator(".toggle[aria-expanded=false]")
            if closed.count():
                closed.first.click()
        page.wait_for_timeout(300)
        assert page.locator(".detail").count() == len(made.HOSTILE_NAMES)
        scripts = page.eval_on_selector_all("script", "all => all.map((s) => s.src)")
        assert len(scripts) == 1, "only the page's own module"
        assert page.locator("img, iframe, object, embed").count() == 0
        assert page.locator('a[href^="javascript"]').count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        text = page.locator("main").inner_text()
        assert made.HOSTILE in text, "the name is shown as it is"
        assert "‹202E›" in text, "what turns text around is shown by its code"
        assert "two␊lines" in text
        assert "\u202e" not in text
        assert "␣" in text, "a blank name can be seen"
        assert "long" * 200 not in text
        tall = page.eval_on_selector_all(".row", "all => all.map((r) => r.offsetHeight)")
        assert max(tall) < 260, "a name never stretches its row"
        watched.assert_clean(fleet.url)


@pytest.mark.parametrize("script", [True, False])
def test_a_page_whose_script_does_not_load_says_so(
    browser: Browser, fleet: FleetServer, script: bool
) -> None:
    context = browser.new_context(java_script_enabled=script)
    try:
        page = context.new_page()
        page.route("**/assets/**", lambda route: route.fulfill(status=404, body="not here"))
        page.goto(fleet.url)
        said = page.locator("main").inner_text()
        assert "its script did not come: the address must end in /" in said
    finally:
        context.close()


def test_what_stands_there_before_the_script_is_taken_away(
    open_page: Callable[..., Watched],
) -> None:
    assert "its script did not come" not in open_page().page.locator("main").inner_text()


def test_the_agent_gone_is_said_and_seen(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    watched = open_page(HUNG)
    page = watched.page
    page.wait_for_selector(".query")
    fleet.status = 500
    page.wait_for_selector(".lost")
    said = page.locator(".lost").inner_text()
    assert re.search(r"Agent not reachable since \d\d:\d\d:\d\d", said)
    assert "what answers is no Weir agent (HTTP 500)" in said
    assert re.search(r"The figures below are .* old", said)
    assert page.locator(".connection").inner_text() == "not reachable"
    assert page.evaluate("getComputedStyle(document.querySelector('main')).filter") != "none"
    assert page.title() == "Weir: agent not reachable"
    assert page.locator("#spoken").inner_text().startswith("Agent not reachable")
    ages = []
    for _ in range(2):
        ages.append(page.locator(".lost").inner_text())
        page.wait_for_timeout(1200)
    assert ages[0] != ages[1], "since when is counted on"
    fleet.status, fleet.refusal = 403, b'{"error": {"message": "this token opens events alone"}}'
    page.locator(".lost", has_text="the agent says: this token opens events alone").wait_for()
    fleet.status, fleet.refusal = 503, b"<html>of a proxy</html>"
    page.locator("#retry").click()
    page.locator(".lost", has_text="what answers cannot now (HTTP 503)").wait_for()
    fleet.status, fleet.headers = 302, {"location": "https://login.example/"}
    page.locator("#retry").click()
    page.locator(".lost", has_text="something in front of the agent asks to log in").wait_for()
    hung = page.locator('.query[data-level="hung"] .alarm .age').inner_text()
    page.wait_for_timeout(1500)
    assert page.locator('.query[data-level="hung"] .alarm .age').inner_text() == hung, (
        "old figures must not pretend to be live"
    )
    # By itself the page would ask again: only with time left is it the button that asks.
    page.locator("#retry", has_text=re.compile(r"\((?:[4-9]|\d\d) s\)")).wait_for()
    fleet.status = 200
    page.locator("#retry").click()
    page.wait_for_selector(".lost", state="detached")
    assert page.locator(".connection").inner_text() == "live"


def test_a_dead_agent_and_back_off(open_page: Callable[..., Watched], fleet: FleetServer) -> None:
    page = open_page().page
    page.wait_for_selector(".query")
    fleet.stop()
    page.wait_for_selector(".lost", timeout=15_000)
    assert "no connection" in page.locator(".lost").inner_text()
    assert page.locator(".query").count() == 13, "the last figures stay"


def watched_polls(page: Page, fleet: FleetServer, more: int = 2) -> None:
    """Waits until the page has asked again."""
    polls = fleet.polls
    until(
        lambda: fleet.polls >= polls + more,
        "the page to ask again",
        every=0.2,
        pause=lambda seconds: page.wait_for_timeout(1_000 * seconds),
    )


def test_no_word_of_a_driver_ends_the_page(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    odd = [
        msgspec.structs.replace(
            made.view(word, control=word, failure=FailureView(word, "gone", word, word)),
            limit=LimitView("rows", None, None, word),
            sources=[made.source(control=word, limit_known=False)],
            decisions=[],
            findings=[Finding("check", word, "evidence", "remedy")],
        )
        for word in ("__proto__", "constructor", "toString")
    ]
    fleet.show([*odd, made.view("plain")])
    watched = open_page(height=2600)
    for name in ("__proto__", "constructor", "toString", "plain"):
        open_query(watched.page, name)
    badges = watched.page.locator('[data-badge="control"]').all_inner_texts()
    assert sorted(badges) == ["__proto__", "constructor", "toString"]
    watched_polls(watched.page, fleet)
    assert watched.page.locator(".connection").inner_text() == "live"
    watched.assert_clean(fleet.url)


def test_what_a_newer_agent_says_is_shown_as_far_as_it_goes(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    told = ExecutorsView("on", 1, 4, 2, None, "", "new", *[None] * 6)
    fleet.show([made.view("known"), made.view("newer", executors=told)])
    answer = msgspec.json.decode(made.answer(fleet.views))
    answer["queries"][1]["attention"]["level"] = "new level"
    fleet.body = msgspec.json.encode(answer)
    watched = open_page(height=2600)
    row = open_query(watched.page, "newer")
    assert "new level" in row.locator(".chip").inner_text()
    assert "Needed: 2." in row.locator(".detail").inner_text()
    assert watched.page.locator("h2 .query-name").all_inner_texts() == ["newer", "known"]
    watched_polls(watched.page, fleet)
    watched.assert_clean(fleet.url)


def test_an_answer_that_cannot_be_drawn_is_said_and_asked_again(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    watched = open_page()
    page = watched.page
    page.wait_for_selector(".query[data-level]")
    answer = msgspec.json.decode(made.answer(fleet.views))
    for view in answer["queries"]:
        del view["limit"]
    fleet.body = msgspec.json.encode(answer)
    page.wait_for_selector(".lost")
    assert page.locator(".connection").inner_text() == "cannot be shown"
    said = page.locator(".lost").inner_text()
    assert "This page cannot show what the agent answered. Reload it" in said
    assert page.locator("#spoken").inner_text().startswith("This page cannot show")
    assert page.evaluate("document.documentElement.dataset.stale") == "yes"
    watched_polls(page, fleet)
    fleet.body = b'{"queries": [7]}'
    page.locator(".lost", has_text="does not fit this page: reload it").wait_for()
    fleet.body = None
    page.wait_for_selector(".lost", state="detached")
    assert page.locator(".connection").inner_text() == "live"
    assert page.evaluate("document.documentElement.dataset.stale") == "no"


def test_an_outage_is_announced_once(open_page: Callable[..., Watched], fleet: FleetServer) -> None:
    page = open_page().page
    page.wait_for_selector(".query")
    fleet.status = 500
    page.wait_for_selector(".lost")
    page.evaluate(
        """() => {
          window.changes = [];
          const watching = { childList: true, characterData: true, subtree: true };
          const spoken = '[role="alert"], [role="status"], [aria-live]';
          new MutationObserver((records) => {
            for (const { target } of records) {
              const at = target.nodeType === Node.TEXT_NODE ? target.parentElement : target;
              if (at?.closest(spoken)) window.changes.push(at.closest(spoken).textContent);
            }
          }).observe(document.body, watching);
        }"""
    )
    before = page.locator(".lost").inner_text()
    page.wait_for_timeout(5000)
    assert page.locator(".lost").inner_text() != before, "since when is counted on"
    assert page.evaluate("window.changes") == []
    assert page.locator("#spoken").inner_text().startswith("Agent not reachable")


def test_a_wrong_token_says_what_to_do(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    fleet.status = 401
    page = open_page().page
    page.wait_for_selector(".lost")
    assert "wants a token" in page.locator(".lost").inner_text()


def test_without_queries_it_tells_the_line_to_add(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    fleet.show([])
    watched = open_page()
    text = watched.page.locator(".empty").inner_text()
    assert "from spark_listener import attach\nattach(spark)" in text
    assert f"WEIR_AGENT_URL={fleet.url}" in text
    assert "--conf spark.extraListeners=weir.WeirPlugin" in text
    assert "A job that nobody may touch: weir agent --event-log-dirs" in text
    watched.assert_clean(fleet.url)
    fleet.show(made.everything())
    watched.page.wait_for_selector(".query", timeout=10_000)


def test_filter_and_levels(open_page: Callable[..., Watched], fleet: FleetServer) -> None:
    page = open_page(height=2600).page
    page.keyboard.press("/")
    page.keyboard.type("PAYMENTS lat")
    page.wait_for_function("() => document.querySelectorAll('.query').length === 1")
    assert names(page) == ["late-joins"]
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.querySelectorAll('.query').length === 13")
    page.locator("#level-pressured").click()
    assert names(page) == ["dedupe"]
    assert page.locator("#level-pressured").get_attribute("aria-pressed") == "true"
    mark = "getComputedStyle(document.getElementById('level-pressured'), '::before').content"
    assert page.evaluate(mark) == '"✓"', "not by a colour alone"
    page.wait_for_function("() => spoken.textContent === '1 of 13 queries shown.'")
    page.locator("#filter").fill("nothing like this")
    assert "No query matches." in page.locator(".waiting").inner_text()
    page.wait_for_function("() => spoken.textContent === '0 of 13 queries shown.'")
    page.locator("#show-all").click()
    assert len(names(page)) == 13


def test_a_query_that_turns_red_is_said(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    """Also where a filter hides it."""
    fleet.show([made.view("calm"), made.view("other")])
    page = open_page().page
    page.wait_for_selector(".query[data-level]")
    page.locator("#filter").fill("other")
    page.wait_for_function("() => spoken.textContent === '1 of 2 queries shown.'")
    (hung,) = [view for view in made.everything() if view.query == "sessions"]
    fleet.show([hung, made.view("other")])
    page.wait_for_function("() => spoken.textContent.startsWith('sessions: ')", timeout=10_000)


def test_of_a_batch_that_hangs_the_plot_says_what_it_shows(
    open_page: Callable[..., Watched],
) -> None:
    page = open_page(height=2600).page
    row = open_query(page, "sessions")
    shown, said = row.locator("[data-plot=batch]").evaluate(
        "o => [o.querySelector('.plot-now').textContent, o.querySelector('svg').ariaLabel]"
    )
    assert shown.endswith(" and running")
    highest = shown.removesuffix(" and running")
    assert said.startswith(f"Batch time: {shown}, highest {highest}, over ")


def test_what_has_the_focus_is_never_below_the_head(open_page: Callable[..., Watched]) -> None:
    page = open_page(height=700, width=700).page
    page.wait_for_selector(".query[data-level]")
    page.locator(".toggle").last.focus()
    for _ in range(12):
        page.keyboard.press("k")
        space = page.evaluate(
            "document.activeElement.getBoundingClientRect().top"
            " - head.getBoundingClientRect().bottom"
        )
        assert space >= 0


def test_what_is_printed_has_every_querys_figures(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    fleet.show([made.view(f"query-{number:02}") for number in range(60)])
    page = open_page().page
    page.wait_for_selector(".query[data-level]")
    assert page.locator(".query.shell").count() > 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".query[data-level]").count() == 60
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.wait_for_function("() => document.querySelectorAll('.query.shell').length > 0")


def test_keyboard_alone(open_page: Callable[..., Watched]) -> None:
    page = open_page(height=1400).page
    page.wait_for_selector(".query[data-level]")
    page.locator("body").press("j")
    page.keyboard.press("j")
    focused = "document.activeElement.querySelector('.query-name')?.textContent"
    assert page.evaluate(focused) == "to-warehouse"
    page.keyboard.press("Enter")
    page.wait_for_selector('.query[data-level="failed"] .detail')
    assert page.evaluate(focused) == "to-warehouse", "focus stays where it was"
    assert page.locator(".toggle:focus").get_attribute("aria-expanded") == "true"
    page.wait_for_timeout(2500)
    assert page.evaluate(focused) == "to-warehouse", "a refresh does not take the focus away"
    page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
    page.keyboard.press("Enter")
    page.wait_for_selector('.query[data-level="failed"] .detail', state="detached")


def test_who_selects_a_name_does_not_open_its_row(open_page: Callable[..., Watched]) -> None:
    page = open_page(height=1400).page
    row = page.locator('.query[data-level="pressured"] .row')
    cell = row.locator(".cell-backlog .cell-main")
    cell.dblclick()  # marks the figure, as who copies it does; the first click opens the row
    assert page.evaluate("String(getSelection())") != ""
    expanded = row.locator(".toggle").get_attribute("aria-expanded")
    cell.dispatch_event("click", {"detail": 1})
    assert row.locator(".toggle").get_attribute("aria-expanded") == expanded
    other = page.locator('.query[data-level="ok"] .row')
    other.locator(".cell-limit").dispatch_event("click", {"detail": 1})
    assert other.locator(".toggle").get_attribute("aria-expanded") == "true"


def test_a_link_opens_its_query(open_page: Callable[..., Watched], fleet: FleetServer) -> None:
    fleet.show([*made.everything(), made.view("a/b c#d", "sl/ash")])
    watched = open_page("/#sl%2Fash/a%2Fb%20c%23d", height=700)
    page = watched.page
    page.wait_for_selector(".query[data-open=yes]")
    row = page.locator(".query[data-open=yes]")
    assert row.locator(".query-name").inner_text() == "a/b c#d"
    assert row.bounding_box()["y"] < 700, "it is scrolled to"
    row.locator(".toggle").click()
    assert page.evaluate("location.hash") == ""
    page.locator(".toggle").first.scroll_into_view_if_needed()
    page.locator('.query[data-level="hung"] .toggle').click()
    assert page.evaluate("location.hash") == "#clicks/sessions"
    watched.assert_clean(fleet.url)


@pytest.mark.parametrize(
    "width", [360, *(pytest.param(one, marks=BETWEEN) for one in (412, 768, 1024)), 1600]
)
def test_no_width_scrolls_sideways(
    open_page: Callable[..., Watched], fleet: FleetServer, width: int
) -> None:
    watched = open_page(width=width, height=900, phone=width < 500)
    page = watched.page
    open_query(page, "enrich")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """(width) => [...document.querySelectorAll('main *')].filter((node) => {
             const box = node.getBoundingClientRect();
             return box.width > 0 && (box.right > width + 1 || box.left < -1)
               && getComputedStyle(node).position !== 'absolute';
           }).map((node) => node.className?.baseVal ?? node.className)""",
        width,
    )
    assert outside == []
    watched.assert_clean(fleet.url)


CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const part = (v) =>
      v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const fill = rgba(getComputedStyle(at).backgroundColor);
      if (fill[3] === 255) return fill;
    }
    return [255, 255, 255, 255];
  };
  const weak = [];
  let checked = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !node.checkVisibility()) continue;
    if (node.closest('.unseen, noscript, title')) continue;
    const style = getComputedStyle(node);
    const [one, other] = [light(rgba(style.color)), light(behind(node))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    checked += 1;
    if (ratio < 4.5) weak.push(`${ratio.toFixed(2)} ${node.className}: ${walker.currentNode.data}`);
  }
  return { weak, checked };
}"""


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=BETWEEN)])
def test_every_text_has_enough_contrast(open_page: Callable[..., Watched], dark: bool) -> None:
    page = open_page(height=6000, dark=dark).page
    for name in ("enrich", "to-warehouse", "heatmap", "slow-state", "nightly", "fraud"):
        open_query(page, name)
    found = page.evaluate(CONTRAST)
    assert found["checked"] > 400
    assert found["weak"] == []


def test_dark_is_dark(open_page: Callable[..., Watched]) -> None:
    seen = []
    for dark in (False, True):
        page = open_page(HUNG, dark=dark).page
        page.wait_for_selector(".alarm")
        seen.append(
            page.evaluate(
                "['body', '.alarm', '.box'].map((s) =>"
                " getComputedStyle(document.querySelector(s)).backgroundColor)"
            )
        )
    assert all(light != dark for light, dark in zip(*seen, strict=True)), seen
    assert sum(map(int, re.findall(r"\d+", seen[1][0])[:3])) < 120


@pytest.mark.slow("waits on a page; what it draws is looked at every time")
def test_motion_only_where_wanted(open_page: Callable[..., Watched]) -> None:
    moving = "getComputedStyle(document.querySelector('.alarm')).animationName"
    page = open_page(HUNG).page
    page.wait_for_selector(".alarm")
    assert page.evaluate(moving) == "breathe"
    page = open_page(HUNG, still=True).page
    page.wait_for_selector(".alarm")
    assert page.evaluate(moving) == "none"


@pytest.mark.slow("waits on a page; what it draws is looked at every time")
def test_rows_hold_still_under_the_hand(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    fleet.show([made.view(name, "shop") for name in ("alpha", "beta", "gamma")])
    page = open_page().page
    page.wait_for_selector(".query >> nth=2")
    assert names(page) == ["alpha", "beta", "gamma"]
    last = page.locator(".query .row").nth(2)
    last.scroll_into_view_if_needed()  # the first one is open above it
    box = last.bounding_box()
    worse = msgspec.structs.replace(made.pressured(), application="shop", query="gamma")
    fleet.show([*(made.view(name, "shop") for name in ("alpha", "beta")), worse])
    polls, step = fleet.polls, 0

    def moved(seconds: float) -> None:
        nonlocal step
        step += 1
        page.mouse.move(box["x"] + 40 + step % 100, box["y"] + 10)
        page.wait_for_timeout(1_000 * seconds)

    until(
        lambda: page.locator('.query[data-level="pressured"]').count() == 1 and step >= 8,
        "fresh figures",
        every=0.4,
        pause=moved,
    )
    assert fleet.polls > polls
    assert names(page) == ["alpha", "beta", "gamma"], "but the rows stay"
    page.mouse.move(2, 2)
    page.wait_for_function(
        "() => document.querySelector('.query .query-name').textContent === 'gamma'", timeout=15_000
    )


@pytest.mark.slow("waits on a page; what it draws is looked at every time")
def test_nobody_looking_nothing_asked(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    page = open_page().page
    page.wait_for_selector(".query")
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: true});"
        "window.away = true; document.dispatchEvent(new Event('visibilitychange'));"
    )
    page.wait_for_timeout(2500)
    polls = fleet.polls
    page.wait_for_timeout(4500)
    assert fleet.polls == polls
    page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'));")
    page.wait_for_timeout(1000)
    assert fleet.polls > polls


@pytest.mark.parametrize("clock", ["performance.now", "Date.now"])
def test_old_figures_are_not_called_live(
    open_page: Callable[..., Watched], fleet: FleetServer, clock: str
) -> None:
    """An hour away, and the agent's address answers nothing; one clock may have stood still."""
    page = open_page().page
    page.wait_for_selector(".query")
    assert page.locator(".connection").inner_text() == "live"
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: true});"
        "window.away = true; document.dispatchEvent(new Event('visibilitychange'));"
    )
    page.wait_for_timeout(2500)
    polls = fleet.polls
    page.route("**/v1/queries*", lambda _: None)
    of = clock.partition(".")[0]
    page.evaluate(f"{{ const before = {clock}.bind({of}); {clock} = () => before() + 3_600_000; }}")
    page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'));")
    page.locator(".connection", has_text="1 h old").wait_for(timeout=2000)
    assert fleet.polls == polls
    assert page.evaluate("document.documentElement.dataset.stale") == "yes"
    page.unroute("**/v1/queries*")


def test_figures_are_live_for_ten_seconds_beyond_the_next_question(
    open_page: Callable[..., Watched],
) -> None:
    page = open_page().page
    page.wait_for_selector(".query")
    page.route("**/v1/queries*", lambda _: None)
    page.wait_for_timeout(2500)  # the question that stays open has been asked
    skip = "{ const before = Date.now.bind(Date); Date.now = () => before() + %d; }"
    page.evaluate(skip % 4_000)
    page.wait_for_timeout(1200)
    assert page.locator(".connection").inner_text() == "live"
    page.evaluate(skip % 8_000)
    page.locator(".connection", has_text=" s old").wait_for(timeout=5000)
    page.unroute("**/v1/queries*")


def test_what_the_audit_found(open_page: Callable[..., Watched], fleet: FleetServer) -> None:
    found = [
        Finding("state_incomplete", "error", "state/0/1/2.delta is missing", "start anew"),
        Finding("sink_at_least_once", "warning", "<b>foreachBatch</b> runs again", "write by key"),
    ]
    sound = made.view("sound", application="shop")
    fleet.show(
        [msgspec.structs.replace(made.view("unsound", application="shop"), findings=found), sound]
    )
    watched = open_page(height=1600)
    row = open_query(watched.page, "unsound")
    lines = row.locator(".findings li").all_inner_texts()
    assert lines == [
        "error: state/0/1/2.delta is missing. start anew",
        "warning: <b>foreachBatch</b> runs again. write by key",
    ]
    assert open_query(watched.page, "sound").locator(".findings").count() == 0
    watched.assert_clean(fleet.url)


def test_what_its_stages_waited_for_and_what_would_help(
    open_page: Callable[..., Watched], fleet: FleetServer
) -> None:
    slow = Alignment(
        4, "start", 3, 2.0, 5.0, 2, "1", "<i>worker</i>", "skew", "partition 2", source=0
    )
    asked = made.view("asked", application="shop")
    asked = msgspec.structs.replace(
        asked,
        alignment=AlignmentView(41, 2.0, 5.0, [slow], looked_time=asked.last_event_time),
        advice=["stage 4: <b>partition 2</b> took 2.5 s"],
    )
    refused = msgspec.structs.replace(
        made.view("refused", application="shop"), alignment=AlignmentView(missing="answered 404")
    )
    fleet.show([asked, refused])
    watched = open_page(height=1600)
    row = open_query(watched.page, "asked")
    assert "batch 41: 2" in row.locator(".waits h3").inner_text()
    line = row.locator(".waits li").inner_text()
    assert "stage 4, source 0" in line
    assert "partition 2 on executor 1, <i>worker</i>" in line
    assert "it read more than the others" in line
    assert row.locator(".advice li").all_inner_texts() == ["stage 4: <b>partition 2</b> took 2.5 s"]
    other = open_query(watched.page, "refused")
    assert other.locator(".waits").count() == 0
    assert "stages: answered 404" in other.locator(".missing").inner_text()
    watched.assert_clean(fleet.url)


@pytest.mark.parametrize("width", [360, pytest.param(1280, marks=BETWEEN)])
def test_where_most_waits_among_partitions_and_how_event_time_stands(
    open_page: Callable[..., Watched], fleet: FleetServer, width: int
) -> None:
    held = [PartitionView(0, "<b>orders</b>", str(n), 100 * n, 0, None) for n in range(11)]
    held[10] = msgspec.structs.replace(held[10], backlog_rows=5500, retention_loss_seconds=5400.0)
    late = {
        "watermark_lag_seconds": 90.0,
        "lateness_seconds": 40.0,
        "watermark_delay_seconds": 60.0,
    }
    asked = made.view("asked", application="shop", partitions=held, **late)
    fleet.show([asked, made.view("plain", application="shop")])
    watched = open_page(width=width, height=2000, phone=width < 500)
    row = open_query(watched.page, "asked")
    said = row.locator(".panel:has(.partitions)").inner_text()
    assert "10k rows wait in its 11 partitions, most in <b>orders</b>-10: 5.5k rows" in said
    assert "and 3 that hold less" in said
    shown = row.locator(".partitions li")
    assert shown.count() == 8
    assert shown.first.inner_text().split("\n")[-1] == "deleted in 1 h 30 min"
    bars = row.locator(".partition-bar i").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().width)"
    )
    assert bars[0] == pytest.approx(bars[1] * 5500 / 900, rel=0.1)
    figures = row.locator(".figures").all_inner_texts()
    assert any("latest row" in one and "40 s late, 1 min allowed" in one for one in figures)
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
    assert open_query(watched.page, "plain").locator(".partitions").count() == 0
    watched.assert_clean(fleet.url)


@pytest.mark.parametrize("width", [360, pytest.param(1280, marks=BETWEEN)])
def test_the_plots_show_hours_where_asked(
    open_page: Callable[..., Watched], fleet: FleetServer, width: int
) -> None:
    fleet.show([made.view("night", application="shop")])
    for minute in range(12 * 60, 0, -1):  # a bad hour, four hours ago
        bad = 180 < minute <= 240
        point = Point(
            fleet.now - 60 * minute, 50.0 if bad else 4.0, 6000, 90_000.0 if bad else 500.0,
            20_000, None, limited=False,
        )  # fmt: skip
        fleet.history.add(("shop", "night"), point)
    watched = open_page(width=width, height=2000, phone=width < 500)
    row = open_query(watched.page, "night")

    def bars() -> int:
        return row.locator('[data-plot="batch"] rect.bar').count()

    minutes = bars()
    assert fleet.asked_for_hours == 0
    row.locator(".zooms button", has_text="12 h").click()
    watched.page.wait_for_function(
        "() => document.querySelectorAll('[data-plot=\"batch\"] rect.bar.low').length >= 29"
    )
    assert bars() > minutes
    assert "12 h ago" in row.locator('[data-plot="batch"] .plot-foot').inner_text()
    assert "100k" in row.locator('[data-plot="backlog"] .tick-top').inner_text()
    pressed = row.locator('.zooms [aria-pressed="true"]')
    assert pressed.all_inner_texts() == ["12 h"]
    row.locator(".zooms button", has_text="3 h").click()  # the bad hour lies before
    watched.page.wait_for_function(
        "() => document.querySelectorAll('[data-plot=\"batch\"] rect.bar.low').length <= 1"
    )
    assert fleet.asked_for_hours < 4  # not with each refresh
    row.locator(".zooms button", has_text="minutes").click()
    watched.page.wait_for_function("() => document.querySelector('.zooms .muted') === null")
    assert bars() == pytest.approx(minutes, abs=3)  # time goes on
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
    watched.assert_clean(fleet.url)


@pytest.mark.slow("waits on a page; what it draws is looked at every time")
def test_a_thousand_queries(open_page: Callable[..., Watched], fleet: FleetServer) -> None:
    fleet.show(made.many(1000))
    watched = open_page(height=900)
    page = watched.page
    page.wait_for_function("() => document.querySelectorAll('.query').length === 1000")
    drawn = page.locator(".query:not(.shell)").count()
    assert drawn < 60, "only what is near the screen is drawn"
    session = page.context.new_cdp_session(page)
    # Of its own thread's clock: what the page costs, however busy the machine is.
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def scripting_seconds() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(m["value"] for m in metrics if m["name"] == "ScriptDuration")

    page.wait_for_timeout(500)
    polls, before = fleet.polls, scripting_seconds()
    until(
        lambda: fleet.polls >= polls + 3,
        "the page to ask again",
        seconds=180,
        every=1.0,
        pause=lambda seconds: page.wait_for_timeout(1_000 * seconds),
    )
    polls, spent = fleet.polls - polls, scripting_seconds() - before
    print(f"1000 queries: {1000 * spent / polls:.0f} ms of script a refresh, {polls} refreshes")
    assert spent / polls < 0.2
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_function("() => !document.querySelector('.query:last-child').matches('.shell')")
    page.locator("#filter").fill("query-0777")
    page.wait_for_function("() => document.querySelectorAll('.query').length === 1")
    page.locator(".query .toggle").click()
    page.locator('.plot[data-plot="batch"]').wait_for()
    page.wait_for_function(
        "() => document.querySelectorAll('[data-plot=\"batch\"] rect.bar').length >= 115",
        timeout=30_000,
    )
    watched.assert_clean(fleet.url)


@pytest.mark.parametrize("width", [360, 1280])
def test_an_opened_query_keeps_its_height_out_of_sight(
    open_page: Callable[..., Watched], width: int
) -> None:
    """What is below it stays where it is: who has scrolled there reads it, or aims at it."""
    page = open_page(width=width, still=True).page
    rows = [open_query(page, name) for name in ("sessions", "to-warehouse")]
    page.wait_for_timeout(500)  # the details are drawn
    heights = [row.evaluate("node => node.offsetHeight") for row in rows]
    assert min(heights) > 300, "rows with details"
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_selector(".shell.opened", state="attached")
    now = [row.evaluate("node => node.offsetHeight") for row in rows]
    assert now == pytest.approx(heights, abs=2)
