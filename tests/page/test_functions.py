"""The page's pure functions, in the browser; and that the terminal's say the same."""

# ruff: noqa: RUF001 - what is shown holds dashes and quotation marks on purpose
from __future__ import annotations

import json
import math
import random
import shlex
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from agent.core.decide.executors import BOUNDS
from agent.core.judgement import (
    ATTENTION_LEVELS,
    MODES,
    AttentionView,
    ExecutorsView,
    FailureView,
    InVain,
    OrderView,
    Point,
    QueryView,
    SpiralView,
)
from agent.core.measure.partitions import PartitionView
from agent.export import runbooks
from agent.export.page import bundle
from agent.export.terminal import format as terminal_format
from agent.export.terminal.detail import (
    capacity_words,
    describe,
    event_time_words,
    executors_words,
    limit_text,
    partitions_words,
    source_tone,
    spiral_words,
)
from agent.export.terminal.order import batch_tone, matches, shares, worst_first
from agent.export.terminal.steer import command, runbook_of, steered
from agent.export.terminal.words import words
from tests.page import views as made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def call(browser: Browser) -> Iterator[Callable[..., Any]]:
    """Calls an exported function of one of the page's modules with JSON arguments."""
    from tests.page.conftest import FleetServer

    server = FleetServer()
    page = browser.new_page()
    page.goto(server.url)

    def called(module: str, name: str, *lists: Any) -> Any:
        return page.evaluate(
            # Text is far quicker to hand over than values are.
            "async ([address, name, text, keep]) => {"
            "  const module = await import(address);"
            "  return JSON.parse(text).map((given) => {"
            "    const value = module[name](...given);"
            "    if (keep === null) return value ?? null;"
            "    return value.map(({ view, level }) => [view.application, view.query, level]);"
            "  });"
            "}",
            [
                f"{server.url}/assets/{bundle().hash}/{module}",
                name,
                json.dumps([list(one) for one in lists]),
                "names" if name == "worstFirst" else None,
            ],
        )

    yield called
    page.close()
    server.stop()


DURATIONS = [
    (None, "–"),
    (-3, "0 s"),
    (0, "0 s"),
    (0.0002, "< 1 ms"),
    (0.0834, "83 ms"),
    (0.9994, "999 ms"),
    (0.9996, "1 s"),
    (4.2, "4.2 s"),
    (4.25, "4.3 s"),
    (9.96, "10 s"),
    (42.4, "42 s"),
    (59.6, "1 min"),
    (252, "4 min 12 s"),
    (3599.4, "59 min 59 s"),
    (3599.6, "1 h"),
    (3780, "1 h 3 min"),
    (86_399, "23 h 59 min"),
    (86_400, "1 d"),
    (275_000, "3 d 4 h"),
]
COUNTS = [
    (None, "–"),
    (0, "0"),
    (1, "1"),
    (0.25, "0.25"),
    (1 / 3, "0.33"),
    (4.25, "4.3"),
    (42.04, "42"),
    (420.6, "421"),
    (999, "999"),
    (999.5, "1k"),
    (1234, "1.2k"),
    (12_345, "12.3k"),
    (99_950, "100k"),
    (999_499, "999k"),
    (999_500, "1M"),
    (-1234, "−1.2k"),
    (2**62, "4.6E"),
    (1e25, "10000000E"),
]
QUANTITIES = [
    ((52_000, "rows"), "52k rows"),
    ((1, "files"), "1 file"),
    ((0, "rows"), "0 rows"),
    ((1_234_567, "bytes"), "1.2 MB"),
    ((512, "bytes"), "512 B"),
    ((None, "rows"), "–"),
    ((7, None), "7 rows"),
]


def test_durations(call: Callable[..., Any]) -> None:
    assert call("format.js", "duration", *[[v] for v, _ in DURATIONS]) == [t for _, t in DURATIONS]
    assert [terminal_format.duration(v) for v, _ in DURATIONS] == [t for _, t in DURATIONS]


def test_counts(call: Callable[..., Any]) -> None:
    assert call("format.js", "count", *[[v] for v, _ in COUNTS]) == [t for _, t in COUNTS]
    assert [terminal_format.count(v) for v, _ in COUNTS] == [t for _, t in COUNTS]


def test_quantities(call: Callable[..., Any]) -> None:
    wanted = [text for _, text in QUANTITIES]
    assert call("format.js", "quantity", *[given for given, _ in QUANTITIES]) == wanted
    assert [terminal_format.quantity(*given) for given, _ in QUANTITIES] == wanted


def test_page_and_terminal_write_every_number_alike(call: Callable[..., Any]) -> None:
    rng = random.Random(11)
    numbers: list[float] = [10 ** rng.uniform(-5, 19) for _ in range(3000)]
    numbers += [rng.randrange(10 ** rng.randrange(1, 15)) for _ in range(1000)]
    numbers += [n + 0.5 for n in range(200)] + [n / 20 for n in range(400)]
    for name in ("count", "duration", "rate", "percent"):
        # Past 2^53 whole numbers are no longer exact in the browser; no duration gets there.
        given = [number for number in numbers if name != "duration" or number < 1e12]
        written = [getattr(terminal_format, name)(number) for number in given]
        assert call("format.js", name, *[[n] for n in given]) == written, name


def test_names_are_made_visible_alike(call: Callable[..., Any]) -> None:
    rng = random.Random(3)
    names = [*made.HOSTILE_NAMES, "", "plain", "\x00\x1b[2J", "a" * 200, "a" * 201, "😀" * 300]
    alphabet = [chr(c) for c in (*range(0x250), *range(0x2000, 0x2100), 0xFEFF, 0x1F600)]
    names += ["".join(rng.choices(alphabet, k=rng.randrange(1, 40))) for _ in range(300)]
    shown = call("format.js", "visible", *[[name] for name in names])
    assert shown == [terminal_format.visible(name) for name in names]
    for text in shown:
        assert not any(ord(mark) < 32 or mark in "\x7f\x9b\u202e\u2066\u200b" for mark in text)
        assert len(text) <= 200 * 6 + 1


def test_scales(call: Callable[..., Any]) -> None:
    tops = call("plot.js", "niceMaximum", [0], [1], [1.01], [7], [8.1], [52_000], [0.03], [-1])
    assert tops == pytest.approx([1, 1, 1.5, 8, 10, 60_000, 0.03, 1])
    drawn = call("plot.js", "timeSpan", [[], 100], [[{"time": 95}], 100], [[{"time": -900}], 100])
    assert [span["length"] for span in drawn] == [60, 60, 600]


def test_back_off(call: Callable[..., Any]) -> None:
    waits = call("poll.js", "waitSeconds", *[[n, 0] for n in (0, 1, 2, 3, 4, 5, 40)])
    assert waits == [2, 2, 4, 8, 16, 30, 30]
    assert call("poll.js", "waitSeconds", [0, 1.5], [0, 100]) == [6, 30]
    assert call("poll.js", "historyWanted", [None], [0], [40], [41]) == [24, 120, 120, 24]


def test_links_only_to_the_web(call: Callable[..., Any]) -> None:
    links = ["http://driver:4040/x", "https://x/", "javascript:alert(1)", "data:text/html,x", "//x"]
    assert call("card.js", "safeLink", *[[one] for one in links], [None]) == [
        "http://driver:4040/x",
        "https://x/",
        None,
        None,
        None,
        None,
    ]


def plain(view: QueryView) -> Any:
    return json.loads(msgspec.json.encode(view))


def random_order(rng: random.Random) -> OrderView:
    who = rng.choice(["kim (10.0.3.7)", "", "\u202elee", "{limit} {by}"])
    return OrderView(
        made.NOW - rng.choice([-3, 0, 7.25, 7_200, 400_000]),
        who,
        "hold",
        rng.choice(["", "deploy", "deploy.", "a\nb", "{who}$&"]),
    )


def random_executors(rng: random.Random) -> ExecutorsView:
    return ExecutorsView(
        mode=rng.choice(MODES),
        present=rng.choice([0, 1, 4]),
        slots=8,
        wanted=rng.choice([None, 4, 6]),
        asked=rng.choice([None, 6]),
        note=rng.choice(["", "", "spark.dynamicAllocation.enabled is on: {wanted} $& é"]),
        bound=rng.choice(BOUNDS),
        gain=1.5,
        contention=0.0,
        contention_doubt=0.3,
        task_seconds=9.0,
        longest_seconds=1.0,
        driver_seconds=0.5,
        in_vain=rng.choice([None, InVain(4, 8, rng.uniform(0.4, 1.3))]),
    )


def random_partitions(rng: random.Random) -> list[PartitionView]:
    topic = rng.choice(["orders", "a\u202eb", "{rows}$&"])
    most = rng.choice([0, 5, 10**6])
    return [
        PartitionView(
            0,
            topic,
            str(number),
            rng.randint(0, most),
            rng.choice([0, 0, 7]),
            rng.choice([None, 0.0, 90.0]),
        )
        for number in range(rng.choice([0, 1, 2, 12]))
    ]


def random_view(rng: random.Random, number: int) -> QueryView:
    """Any view at all, sensible or not."""
    maybe = lambda value: None if rng.random() < 0.25 else value  # noqa: E731
    state = rng.choice(["idle", "busy", "backpressured", "stalled", "terminated"])
    names = ["enrich", "audit", "z", "Ä", "\uff5e", "😀", "a b", "", "query"]
    points = []
    at = made.NOW - 200
    for _ in range(rng.choice([0, 1, 5, 6, 7, 30])):
        seconds = maybe(rng.uniform(0, 12))
        at += rng.uniform(0, 15)
        points.append(
            Point(at, seconds, rng.randrange(9000), maybe(rng.uniform(0, 90_000)), 5, None,
                  rng.random() < 0.5)
        )  # fmt: skip
    return made.view(
        f"{rng.choice(names)}{number % 7}",
        rng.choice(names),
        state=state,
        up=rng.random() < 0.85 and state != "terminated",
        stopped=rng.random() < 0.6 and state == "terminated",
        failure=FailureView("memory", "x") if rng.random() < 0.3 else None,
        spiral=SpiralView(
            rng.choice(["none", "none", "pressured", "spiralling", "dead"]),
            maybe(rng.uniform(0, 3)),
            rng.choice([1.0, 1.5, 40.0]),
            rng.choice(["", "batch 7 was begun twice", "\x1b[2J"]),
        ),
        required_capacity_ratio=maybe(rng.uniform(0, 3)),
        executors=maybe(random_executors(rng)),
        partitions=random_partitions(rng),
        partitions_age_seconds=maybe(rng.uniform(0, 30)),
        batch_rows=maybe(rng.choice([20, 10**6])),
        watermark_lag_seconds=maybe(rng.uniform(0, 900)),
        lateness_seconds=maybe(rng.uniform(0, 900)),
        watermark_delay_seconds=maybe(60.0),
        pressure=rng.choice(["ok", "low", "high"]),
        target_feasible=rng.choice([None, True, True, False]),
        target_seconds=maybe(5.0),
        deadline_seconds=maybe(60.0),
        running_seconds=maybe(rng.choice([0.5, 5.0, 12.0, 59.0, 70.0])),
        batch_seconds=maybe(rng.uniform(0, 12)),
        backlog_rows=maybe(rng.uniform(0, 1e6)),
        backlog_seconds=maybe(rng.uniform(0, 900)),
        history=points,
        held=rng.random() < 0.2,
        manual_limit=rng.choice([None, None, None, 500, 12_345]),
        mode=rng.choice(["on", "on", "dry-run", "off"]),
        held_by=maybe(random_order(rng)),
        mode_by=maybe(random_order(rng)),
        estimated_time_to_consume_seconds=maybe(9.0),
        sources=[
            made.source(
                n,
                backlog=maybe(rng.choice([0, 5, 50_000])),
                limit=maybe(20_000),
                limit_known=rng.random() < 0.8,
                granted=maybe(rng.choice([20_000, 30_000])),
                would_be=maybe(rng.choice([20_000, 171_000])),
                unit=rng.choice(["rows", "files", "bytes", None]),
                control=rng.choice(["live", "advice", "none", "?"]),
            )
            for n in range(rng.randrange(3))
        ],
    )


def random_attention(rng: random.Random, view: QueryView) -> QueryView:
    """What no figure of it says."""
    level = rng.choice(ATTENTION_LEVELS)
    attention = AttentionView(level, rng.randrange(12), to_do=rng.random() < 0.5)
    return msgspec.structs.replace(view, attention=attention)


def test_page_and_terminal_order_alike(call: Callable[..., Any]) -> None:
    rng = random.Random(5)
    seen = set()
    for _ in range(6):
        views = [random_view(rng, n) for n in range(80)]
        views += [random_attention(rng, random_view(rng, n)) for n in range(40)]
        [listed] = call("order.js", "worstFirst", [[plain(view) for view in views]])
        entries = worst_first(views)
        mine = [(e.view.application, e.view.query, e.level.name) for e in entries]
        assert [tuple(one) for one in listed] == mine
        judged = [(v.application, v.query, v.attention.level) for v in views]
        assert sorted(mine) == sorted(judged), "as the agent says, whatever the figures"
        seen |= {level for _, _, level in mine}
        spent = call("order.js", "shares", *[[plain(view), made.NOW] for view in views])
        for view, theirs_spent in zip(views, spent, strict=True):
            own = shares(view, made.NOW)
            if own is None:
                assert theirs_spent is None
            else:
                assert theirs_spent == pytest.approx(msgspec.structs.asdict(own), abs=1e-9)
                assert math.isclose(own.busy + own.backpressured + own.idle, 1, abs_tol=1e-9)
        small = [{"view": plain(e.view), "level": e.level.name} for e in entries[:20]]
        words: list[list[str]] = [["hold"], ["enrich"], ["over", "a"], ["kafka"], []]
        pairs = [(n, word) for n in range(len(small)) for word in words]
        found = call("order.js", "matches", *[[small[n], word] for n, word in pairs])
        assert found == [matches(entries[n], word) for n, word in pairs]
    assert seen == set(ATTENTION_LEVELS)


def test_page_and_terminal_tell_alike(call: Callable[..., Any]) -> None:
    rng = random.Random(8)
    views = [random_view(rng, n) for n in range(120)]
    said = call("card.js", "capacityWords", *[[plain(view)] for view in views])
    assert said == [capacity_words(view) for view in views]
    said = call("card.js", "executorsWords", *[[plain(view)] for view in views])
    assert said == [executors_words(view) for view in views]
    assert len({len(sentences) for sentences in said}) == 5  # from none to four
    pairs = [(source, view) for view in views for source in view.sources]
    given = [[json.loads(msgspec.json.encode(source)), plain(view)] for source, view in pairs]
    assert call("flow.js", "sourceTone", *given) == [source_tone(*pair) for pair in pairs]
    assert call("flow.js", "limitText", *given) == [limit_text(*pair) for pair in pairs]


def test_page_and_terminal_tell_alike_of_partitions_and_event_time(
    call: Callable[..., Any],
) -> None:
    rng = random.Random(21)
    views = [random_view(rng, n) for n in range(120)]
    said = call("card.js", "partitionsWords", *[[plain(view)] for view in views])
    assert said == [partitions_words(view) for view in views]
    assert {len(sentences) for sentences in said} == {0, 1, 2, 3}
    told = [sentences[0] for sentences in said if "most in" in str(sentences)]
    assert len({one.endswith(" times the mean.") for one in told}) == 2
    said = call("card.js", "eventTimeWords", *[[plain(view)] for view in views])
    assert said == [[list(pair) for pair in event_time_words(view)] for view in views]
    assert {len(pairs) for pairs in said} == {0, 1, 2}


def test_page_and_terminal_say_alike_who_steers_and_what_to_do(call: Callable[..., Any]) -> None:
    rng = random.Random(13)
    views = [random_view(rng, n) for n in range(150)]
    views += [random_attention(rng, view) for view in views[:40]]
    said = call("steer.js", "steered", *[[plain(view), made.NOW] for view in views])
    assert [[(one["said"], one["verb"]) for one in found] for found in said] == [
        [(one.said, one.verb) for one in steered(view, made.NOW)] for view in views
    ]
    assert call("card.js", "spiralWords", *[[plain(view)] for view in views]) == [
        spiral_words(view) for view in views
    ]
    found = call("steer.js", "runbookOf", *[[plain(view)] for view in views])
    assert found == [runbook_of(view) for view in views]
    timed = [(seconds, view) for view in views for seconds in (7.4, 7.5, 7.6, 60.0, 60.1)]
    tones = call("plot.js", "batchTone", *[[seconds, plain(view)] for seconds, view in timed])
    assert tones == [batch_tone(*pair) for pair in timed]
    assert {level.runbook for level in words().levels if level.runbook} <= set(runbooks.names())
    assert all(level.runbook for level in words().levels if level.tone == "high")


COMMANDS = [
    (
        ("orders", "enrich", "http://127.0.0.1:9655"),
        "weir release orders/enrich --url http://127.0.0.1:9655",
    ),
    (
        ("or ders", "it's", "https://weir.example:80/a b"),
        """weir release 'or ders/it'"'"'s' --url 'https://weir.example:80/a b'""",
    ),
    (("shop", "a/b", "http://127.0.0.1:9655"), "weir release shop/a/b --url http://127.0.0.1:9655"),
    (
        ("$(reboot)", "`x`;", "http://127.0.0.1:9655"),
        "weir release '$(reboot)/`x`;' --url http://127.0.0.1:9655",
    ),
    (("sl/ash", "x", "http://127.0.0.1:9655"), None),
    (("shop", "nightly*", "http://127.0.0.1:9655"), None),
    (("--url", "x", "http://127.0.0.1:9655"), None),
    (("shop", "two\nlines", "http://127.0.0.1:9655"), None),
    (("shop", "\ufffd~0a1b2c3d", "http://127.0.0.1:9655"), None),
    (("shop", "", "http://127.0.0.1:9655"), None),
]


def test_commands_are_fit_for_a_shell_or_not_shown(call: Callable[..., Any]) -> None:
    wanted = [text for _, text in COMMANDS]
    views = [(made.view(query, application), url) for (application, query, url), _ in COMMANDS]
    assert [command("release", view, url) for view, url in views] == wanted
    given = [["release", plain(view), url] for view, url in views]
    assert call("steer.js", "command", *given) == wanted
    for (application, query, _), text in COMMANDS:
        if text is not None:
            assert shlex.split(text)[2] == f"{application}/{query}"


DESCRIPTIONS = {
    "KafkaV2[Subscribe[orders]]": ("Kafka", "orders"),
    "KafkaV2[SubscribePattern[orders.*]]": ("Kafka", "orders.*"),
    "FileStreamSource[file:/data/in/landing]": ("File", "in/landing"),
    "DeltaSource[s3://lake/orders]": ("Delta", "lake/orders"),
    "RateStreamV2[rowsPerSecond=100]": ("RateStream", "rowsPerSecond=100"),
    "org.apache.spark.sql.execution.streaming.ConsoleTable$@1f2e": ("", "ConsoleTable$"),
    "MemorySink": ("", "MemorySink"),
    "ForeachBatchSink": ("", "ForeachBatchSink"),
    "TextSocketV2[host: localhost, port: 9999]": ("TextSocket", "host: localhost, port: 9999"),
    "": ("", ""),
}


def test_descriptions_are_shortened_alike(call: Callable[..., Any]) -> None:
    given = [*DESCRIPTIONS, *made.HOSTILE_NAMES, "X[" + "[" * 5000, "A[\n]", "Σ[x]"]
    shortened = call("flow.js", "describe", *[[text] for text in given])
    assert [(one["kind"], one["name"]) for one in shortened] == [describe(text) for text in given]
    assert [describe(text) for text in DESCRIPTIONS] == list(DESCRIPTIONS.values())


def test_lines_break_where_a_figure_is_missing(browser: Browser) -> None:
    from tests.page.conftest import FleetServer

    server = FleetServer()
    page = browser.new_page()
    try:
        page.goto(server.url)
        drawn = page.evaluate(
            """async (address) => {
              const { areaPath, linear, linePath, stepPath } = await import(address);
              const x = linear(0, 100, 0, 1000);
              const y = linear(0, 10, 100, 0);
              const pairs = [[10, 5], [20, 10], [30, null], [40, 0], [50, 20]];
              return [linePath(pairs, x, y), stepPath(pairs, x, y, 100), areaPath(pairs, x, y),
                      linear(5, 5, 0, 1)(9), stepPath([], x, y, 100)];
            }""",
            f"{server.url}/assets/{bundle().hash}/plot.js",
        )
    finally:
        page.close()
        server.stop()
    assert drawn == [
        "M100 50L200 0M400 100L500 0",
        "M100 50H200V0H300M400 100H500V0H1000",
        "M100 100L100 50L200 0L200 100ZM400 100L400 100L500 0L500 100Z",
        0,
        "",
    ]
