"""docs/evidence.md and its pictures, from docs/evidence.csv, which holds a line for each run.

Runs of other series, whose records may be gone, stay in it: those of a series are of one machine
with one measured capacity, and compared with each other only.
``python -m tests.benchmarks.evidence.report``, part of ``make generated``, writes anew what follows
from those lines.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import re
import statistics
import textwrap
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agent.export.handwritten import with_table
from scripts.plot_control import ticks
from tests.benchmarks.evidence.figures import EXECUTORS, batches_of
from tests.benchmarks.evidence.load import MOST_BINS, slice_of
from tests.benchmarks.evidence.workloads import QUERIES
from tests.benchmarks.recorded import recordings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.benchmarks.evidence.figures import Figures
    from tests.benchmarks.evidence.record import Record

DOCS: Final = Path(__file__).resolve().parents[3] / "docs"
#: Above this share of the machine other work was done when a run began, or while it ran, and its
#: times are worth less.
BUSY_SHARE: Final = 0.1
#: As configured once more, with the same rows: what lies between is noise (A/A). In no table.
AGAIN: Final = "again"
#: Two figures this close are told as equal: a convention.
EQUAL: Final = 0.05
#: Of fewer seeds no figure is told as the best: a median of two is their mean, of one its luck.
LEAST_SEEDS: Final = 3
#: Series begun before keep nothing of runs that came to no end.
COUNTED_SINCE: Final = "2026-11-29"
#: Why a run came to no end that somebody stopped.
STOPPED: Final = "stopped"
NAMES: Final = {
    "configured": "as configured, no limit",
    "fixed": "best fixed limit in hindsight",
    "dynamic": "no limit, dynamic allocation",
    "weir": "Weir",
    "weir-executors": "Weir, executors too",
}
COLOURS: Final = {
    "configured": "#b91c1c",
    "fixed": "#6b7280",
    "dynamic": "#9333ea",
    "weir": "#0f766e",
    "weir-executors": "#2563eb",
}


@dataclass(frozen=True)
class Column:
    """A figure: how it is headed and written, whether less of it is better, or neither is."""

    name: str
    head: str
    write: Callable[[float], str]
    less: bool = True
    judged: bool = True


def _seconds(value: float) -> str:
    return f"{value:.1f}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


FULL_BATCH: Final = Column("full_batch_seconds", "a full batch takes, s", _seconds, judged=False)
COLUMNS: Final = (
    Column("longest_without_result_seconds", "longest time without a result, s", _seconds),
    FULL_BATCH,
    Column("wait_p50_seconds", "half of the rows wait up to, s", _seconds),
    Column("wait_p99_seconds", "99 % of the rows wait up to, s", _seconds),
    Column("read_again_rows", "rows read again after the stop", _count),
    Column("rows_per_executor_second", "rows per executor-second", _count, less=False),
    Column("processor_seconds", "processor-seconds a million rows", _seconds),
    Column("dropped_rows", "rows dropped as late", _count),
    Column("failures", "failed batches", _count),
    Column("rows_left", "rows never read", _count),
)

#: What each part of a run took, in cores busy; None in runs from before that was kept.
CORES: Final = ("query_cores", "broker_cores", "feeder_cores", "weir_cores")
#: What runs from before it was kept do not have: of the cores, over so many seconds.
OPTIONAL: Final = (*CORES, "other_cores", "over_seconds", "full_batch_seconds")
#: Of some series the column stands without figures, as nothing is known there.
NOT_ALWAYS_KEPT: Final = ("processor_seconds", "full_batch_seconds")

Row = dict[str, Any]
_TEXT: Final = ("series", "query", "trace", "arm", "processor", "spark", "results_sha256")


def series_now() -> str:
    """By which the runs of a folder are told from those of others: when it was begun, in UTC."""
    return f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M}"


def row_of(record: Record, figures: Figures, series: str) -> Row:
    """A run's line; ``series`` is its folder's."""
    run, machine = record.run, record.machine
    kept = (
        *("query", "trace", "load", "arm", "seed", "seconds", "target_seconds", "target_rows"),
        "warm_up",
    )
    return (
        {"series": series}
        | {key: run[key] for key in kept}
        | {key: machine[key] for key in ("cores", "processor", "virtual", "memory_gib", "spark")}
        | {"busy_share": machine["busy_share"]}
        | {
            key: round(value, 3) if isinstance(value, float) else value
            for key, value in dataclasses.asdict(figures).items()
        }
        | {
            "fed_late_seconds": round(record.end["fed_late_seconds"], 3),
            "results_rows": record.results["rows"],
            "results_sha256": record.results["sha256"][:16],
        }
        | {
            name: record.end.get("cores", {}).get(name.removesuffix("_cores"))
            for name in (*CORES, "other_cores")
        }
        | {"over_seconds": round(record.end["over"] - record.end["begun"], 3)}
    )


def figure(row: Row, name: str) -> float | None:
    """A column's figure of a run; None where it was not kept."""
    if name == "processor_seconds":
        return cost(row)
    value = row[name]
    return None if value is None else float(value)


def cost(row: Row) -> float | None:
    """Processor-seconds a million rows: of the query, broker, feeder and Weir; None: not kept."""
    over = row.get("over_seconds")
    if over is None and row["arm"] not in ("dynamic", "weir-executors"):
        over = row["executor_seconds"] / EXECUTORS  # all of them are there all the time
    if row["feeder_cores"] is None or over is None or not row["rows"]:
        return None
    return float(sum(row[name] for name in CORES) * over * 1e6 / row["rows"])


def to_csv(rows: Sequence[Row]) -> str:
    """All runs, workload by workload."""
    out = io.StringIO()
    ordered = sorted(
        rows,
        key=lambda row: (row["series"], row["query"], row["trace"], row["seed"], row["arm"]),
    )
    writer = csv.DictWriter(out, list(ordered[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(ordered)
    return out.getvalue()


def of_csv(text: str) -> list[Row]:
    """What ``to_csv`` wrote."""
    return [
        {
            key: value if key in _TEXT else value == "True" if key == "virtual" else float(value)
            for key, value in row.items()
            if key not in OPTIONAL
        }
        | {name: float(row[name]) if row.get(name) else None for name in OPTIONAL}
        for row in csv.DictReader(io.StringIO(text))
    ]


def rows_alike(row: Row) -> tuple[Any, ...]:
    """What runs share that got the same rows at the same times: they make pairs."""
    return tuple(row[key] for key in ("series", "query", "trace", "load", "seed"))


def comparable(rows: Sequence[Row]) -> list[Row]:
    """Without those whose rows came at other times than Weir's, and Weir's that are then alone.

    What brings the rows shares the machine, and may fall behind the trace. Where it did so by more
    than the length of a batch that is wanted further than in the other run, the other's rows did
    not come at the same times.
    """
    weir = {rows_alike(row): row for row in rows if row["arm"] == "weir"}
    apart = [
        row
        for row in rows
        if (mine := weir.get(rows_alike(row))) is not None
        and abs(row["fed_late_seconds"] - mine["fed_late_seconds"]) > row["target_seconds"]
    ]
    kept = [row for row in rows if row not in apart]
    alone = {rows_alike(row) for row in apart} - {
        rows_alike(row) for row in kept if row["arm"] != "weir"
    }
    return [row for row in kept if rows_alike(row) not in alone]


def drawn_of(rows: Sequence[Row]) -> Sequence[Row]:
    """Those of which pictures are drawn: the earlier ones while there are no others."""
    now, earlier = parted(rows)
    return now or earlier


def course_of(rows: Sequence[Row]) -> Row | None:
    """The configured run of the pair that is drawn: its workload's median by longest silence.

    The workload is that of most pairs.
    """
    weir = {rows_alike(row) for row in rows if row["arm"] == "weir"}
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["arm"] == "configured" and rows_alike(row) in weir:
            found.setdefault((row["query"], row["trace"], row["load"]), []).append(row)
    most = max((found[name] for name in sorted(found)), key=len, default=[])
    return _median_of(most) if most else None


def _median_of(configured: Sequence[Row]) -> Row:
    ordered = sorted(configured, key=lambda row: float(row["longest_without_result_seconds"]))
    return ordered[(len(ordered) - 1) // 2]


#: How a drawn pair is named in its picture.
_DRAWN: Final = re.compile(
    r">(?P<query>[^<>]+) · (?P<trace>[^<>]+), seed (?P<seed>\d+)"
    r"(?:, begun (?P<series>[\d :-]+))?: seconds a batch takes<"
)


def course_title(row: Row) -> str:
    return f"{row['query']} · {row['trace']}, seed {row['seed']:.0f}, begun {row['series']}"


def drawn_in(picture: str, rows: Sequence[Row]) -> Row | None:
    """The configured run of the pair that a picture shows; None where its lines are not here.

    A picture that names no series shows the newest.
    """
    named = _DRAWN.search(picture)
    if named is None:
        return None
    alike = [
        row
        for row in rows
        if row["arm"] == "configured"
        and (row["query"], row["trace"]) == (named["query"], named["trace"])
        and row["seed"] == int(named["seed"])
        and named["series"] in (None, row["series"])
    ]
    return max(alike, key=lambda row: str(row["series"]), default=None)


def read_broken(path: Path) -> list[Row]:
    """Runs that came to no end, one a line."""
    return (
        [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    )


def rewrite(docs: Path) -> None:
    """The page and the picture of all runs, from the lines that are there; none gives none.

    A README beside ``docs`` gets its table anew.
    """
    lines = docs / "evidence.csv"
    rows = of_csv(lines.read_text("utf-8")) if lines.exists() else []
    course = docs / "images" / "evidence-course.svg"
    seen = course.read_text("utf-8") if course.exists() else ""
    drawn = drawn_in(seen, drawn_of(comparable(rows)))
    broken = read_broken(docs / BROKEN)
    (docs / "evidence.md").write_text(page(rows, broken, drawn), "utf-8")
    if rows:
        pairs = comparable(rows)
        (docs / "images" / "evidence.svg").write_text(draw(drawn_of(pairs)), "utf-8")
        readme = docs.parent / "README.md"
        if readme.exists():
            renewed = with_table(
                readme.read_text("utf-8"), WRITTEN, *headline(pairs), below=in_short(pairs)
            )
            readme.write_text(renewed, "utf-8")


#: Runs that came to no end, beside the lines of those that did.
BROKEN: Final = "evidence-broken.jsonl"
#: By what README's table is written, and the figures of it.
WRITTEN: Final = "`make evidence`"
TOLD: Final = tuple(
    one for one in COLUMNS if one.name in ("longest_without_result_seconds", "wait_p99_seconds")
)
TOLD_ARMS: Final = ("configured", "fixed", "weir")


def newest(rows: Sequence[Row]) -> list[Workload]:
    """Each workload once: those of before its rows were packed only where there are no others."""
    now, earlier = parted(rows)
    asked = {(one["query"], one["trace"]) for one in now}
    before = [one for one in earlier if (one["query"], one["trace"]) not in asked]
    return [one for one in (*workloads(now), *workloads(before)) if one.keys]


def headline(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """README's table, head and lines: medians over the seeds that all ways of a line share."""
    lines = []
    runs = 0
    for one in newest(rows):
        kinds = [kind for kind, _ in one.arms()]
        runs += len(one.keys) * len(kinds)
        columns = [one.cells(column) for column in TOLD]
        told = {kind: " · ".join(cells) for kind, *cells in zip(kinds, *columns, strict=True)}
        lines.append(
            [
                f"{QUERIES[one.query].what} · {one.trace}, {one.load_told}",
                f"{one.seeds}",
                *(told.get(kind, "-") for kind in TOLD_ARMS),
            ]
        )
    head = [f"{rows[0]['cores']:.0f} cores, {runs} runs", "seeds"]
    return [*head, *(names(rows)[kind] for kind in TOLD_ARMS)], lines


def in_short(rows: Sequence[Row]) -> str:
    """What README's table says of Weir where it has seeds enough, losses like wins."""
    enough = [one for one in newest(rows) if one.seeds >= LEAST_SEEDS]
    told = []
    for kind in TOLD_ARMS[:-1]:
        there = [one for one in enough if {kind, "weir"} <= dict(one.arms()).keys()]
        counts = []
        for column in TOLD if there else ():
            judged = [one.against(kind, column) for one in there]
            better, equal, worse = (judged.count(which) for which in (1, 0, -1))
            counts.append(
                f"{_plain(column)}: better in {better}, equal in {equal}, worse in {worse}"
            )
        if counts:
            told.append(f"Against *{names(rows)[kind]}*: {'; '.join(counts)}.")
    if not told:
        return ""
    text = (
        f"Weir's medians in the {len(enough)} of these rows that have {LEAST_SEEDS} seeds or more, "
        f"within {EQUAL:.0%}, or where most pairs say the opposite, told as equal. {' '.join(told)}"
    )
    return textwrap.fill(text, 118, break_on_hyphens=False, break_long_words=False) + "\n"


def write(
    rows: Sequence[Row],
    docs: Path,
    record: Callable[[str, str, str, int], Record],
    broken: Sequence[Row] = (),
) -> int:
    """The lines, the page and its pictures into a folder of docs; how many runs they tell.

    Lines of other series stay, and every run that came to no end. ``record`` gives that of a
    (query, trace, arm, seed) of ``rows``.
    """
    (docs / "images").mkdir(parents=True, exist_ok=True)
    lines = docs / "evidence.csv"
    these = {row["series"] for row in rows}
    there = of_csv(lines.read_text("utf-8")) if lines.exists() else []
    every = [*(row for row in there if row["series"] not in these), *rows]
    if every:
        lines.write_text(to_csv(every), "utf-8")
    lost = read_broken(docs / BROKEN)
    lost += [one for one in broken if one not in lost]
    (docs / BROKEN).write_text("".join(json.dumps(one) + "\n" for one in lost), "utf-8")
    drawn = course_of(drawn_of(comparable(every)))
    # The picture of a series whose records are not here stays.
    if drawn is not None and drawn["series"] in these:
        query, trace, seed = drawn["query"], drawn["trace"], int(drawn["seed"])
        pair = {arm: record(query, trace, arm, seed) for arm in ("configured", "weir")}
        picture = draw_course(course_title(drawn), pair)
        (docs / "images" / "evidence-course.svg").write_text(picture, "utf-8")
    rewrite(docs)
    return len(every)


class Workload:
    """The runs of one query under one trace, at one load, in some kinds of ways.

    ``keys``: the runs of a seed in a series that all of these ways have. Medians are of these.
    """

    def __init__(
        self, name: tuple[str, str, float], rows: Sequence[Row], kinds: Sequence[str]
    ) -> None:
        self.query, self.trace, self.load = name
        self.rows = rows
        self._kinds = kinds
        self.keys = self._shared([arm for arm in ("configured", "weir") if self.of(arm)])
        self.fixed = self._best_fixed()
        self.keys = self._shared([arm for _, arm in self.arms()])

    @property
    def name(self) -> str:
        return f"{self.query} · {self.trace} · {self.load_told}"

    @property
    def load_told(self) -> str:
        """What came, as a share of what is digested, where that is known."""
        known = parted(self.rows)[0]
        return f"{self.load:.0%}" if known else f"load unknown, nominally {self.load:.0%}"

    @property
    def seeds(self) -> int:
        """How many all its ways share."""
        return len({row["seed"] for row in self.rows if rows_alike(row) in self.keys})

    def over(self, kinds: Sequence[str]) -> Workload:
        """The same in other ways."""
        return Workload((self.query, self.trace, self.load), self.rows, kinds)

    def _shared(self, arms: Sequence[str]) -> set[tuple[Any, ...]]:
        every = [{rows_alike(row) for row in self.of(arm)} for arm in arms]
        return set.intersection(*every) if every else set()

    def _best_fixed(self) -> str | None:
        """The best in hindsight on what all fixed limits share; else that with most runs."""
        tried = sorted({row["arm"] for row in self.rows if row["arm"].startswith("fixed-")})
        common = self._shared(tried)
        self.keys = common & self.keys or common
        if self.keys:
            return min(tried, key=self._cost)
        return max(tried, key=lambda arm: len(self.of(arm)), default=None)

    def _cost(self, arm: str) -> float:
        """Both waits together: of the sink's reader for a result, and of a row for its own."""
        return sum(self.median(arm, column.name) or 0.0 for column in TOLD)

    def of(self, arm: str) -> list[Row]:
        return [row for row in self.rows if row["arm"] == arm]

    def median(self, arm: str, name: str) -> float | None:
        """Over what all ways share; None where this one lacks some of it, or the figure does."""
        told = [figure(row, name) for row in self.of(arm) if rows_alike(row) in self.keys]
        known = [value for value in told if value is not None]
        return statistics.median(known) if known and len(known) == len(self.keys) else None

    def cells(self, column: Column) -> list[str]:
        """Of each way its median, bold where it is the best: see ``_best``."""
        values = [self.median(arm, column.name) for _, arm in self.arms()]
        best = self._best(values, column) if column.judged else None
        told = ["-" if value is None else column.write(value) for value in values]
        return [f"**{one}**" if place == best else one for place, one in enumerate(told)]

    def _best(self, medians: Sequence[float | None], column: Column) -> int | None:
        """The place of the way that is better than each other beyond ``EQUAL``.

        By its median and in more pairs than not, where there are ``LEAST_SEEDS``; None: none is.
        """
        place = best_of(medians, less=column.less) if self.seeds >= LEAST_SEEDS else None
        if place is None:
            return None
        arms = [arm for _, arm in self.arms()]
        others = (arm for arm in arms if arm != arms[place])
        ahead = all(self._balance(arms[place], one, column) > 0 for one in others)
        return place if ahead else None

    def _balance(self, arm: str, other: str, column: Column) -> int:
        """Whether it is better in more of the seeds that all share than it is worse: 1, 0, -1."""
        one, two = (
            {rows_alike(row): figure(row, column.name) for row in self.of(which)}
            for which in (arm, other)
        )
        judged = [
            compare(mine, theirs, less=column.less)
            for key in self.keys
            if (mine := one[key]) is not None and (theirs := two[key]) is not None
        ]
        return (sum(judged) > 0) - (sum(judged) < 0)

    def against(self, kind: str, column: Column) -> int | None:
        """Whether Weir's median is better than another way's (1), worse (-1) or equal (0).

        Neither where in most of the pairs it is the other way round.
        """
        arms = dict(self.arms())
        mine, other = (self.median(arms[one], column.name) for one in ("weir", kind))
        if mine is None or other is None:
            return None
        judged = compare(mine, other, less=column.less)
        opposed = judged == -self._balance(arms["weir"], arms[kind], column)
        return 0 if opposed else judged

    def arms(self) -> list[tuple[str, str]]:
        """(kind, arm) of those that were run, in the order of the table."""
        there = {row["arm"] for row in self.rows}
        found = [(kind, self.fixed if kind == "fixed" else kind) for kind in self._kinds]
        return [(kind, arm) for kind, arm in found if arm is not None and arm in there]

    def pairs(self, other: str, name: str) -> list[tuple[float, float]]:
        """(Weir's, the other arm's) of the same rows at the same times."""
        mine = {rows_alike(row): figure(row, name) for row in self.of("weir")}
        found = [
            (mine[rows_alike(row)], figure(row, name))
            for row in self.of(other)
            if rows_alike(row) in mine
        ]
        return [(one, two) for one, two in found if one is not None and two is not None]


def best_of(values: Sequence[float | None], *, less: bool) -> int | None:
    """The place of the value that is better than each other by more than what is equal."""
    known = [(value, place) for place, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return None
    (best, place), (next_one, _) = sorted(known, reverse=not less)[:2]
    return place if compare(best, next_one, less=less) == 1 else None


def _plain(column: Column) -> str:
    """A column's head without its unit."""
    return column.head.removesuffix(", s")


def names(rows: Sequence[Row]) -> dict[str, str]:
    """What each way is called: a limit is the best in hindsight only where several were tried."""
    tried = {row["arm"].removeprefix("fixed-") for row in rows if row["arm"].startswith("fixed-")}
    if len(tried) != 1:
        return NAMES
    (only,) = tried
    return NAMES | {"fixed": f"a fixed limit, batches of {only} target{'s' * (only != '1')}"}


def workloads(rows: Sequence[Row], kinds: Sequence[str] | None = None) -> list[Workload]:
    """By query, trace and load; in the ways that are told side by side, if in no others."""
    found: dict[tuple[str, str, float], list[Row]] = {}
    for row in rows:
        found.setdefault((row["query"], row["trace"], row["load"]), []).append(row)
    names = sorted(found, key=lambda name: (len(name[0]), name))
    return [Workload(name, found[name], kinds or TOLD_ARMS) for name in names]


def parted(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Runs whose rows were packed before, and those of when they were packed during the run.

    Those got more than their load says: what packed took part of the machine.
    """
    now = [row for row in rows if row.get("feeder_cores") is not None]
    return now, [row for row in rows if row.get("feeder_cores") is None]


def page(rows: Sequence[Row], broken: Sequence[Row] = (), drawn: Row | None = None) -> str:
    """The whole page; without runs it says how they are made.

    ``broken`` came to no end. ``drawn``: the configured run of the pair in the picture of a course;
    None: there is no picture of which it is known.
    """
    parts = [INTRODUCTION]
    twice = rows
    every = rows = [row for row in rows if row["arm"] != AGAIN]
    pairs = comparable(every)
    rows, earlier = parted(pairs)
    if earlier and not rows:
        rows, earlier = earlier, []
    if rows:
        parts += [_machine(rows), *_left_out(drawn_of(every), rows), _ended(every, broken)]
        parts += [*_in_short(rows), _noise(pairs, _twice(twice)), _verdict(rows), PICTURE]
        if drawn is not None:
            parts.append(_course(drawn, rows))
        parts += [*_full_batches(rows), *_took(rows), "## Each workload\n", TABLES]
        parts += [_table(one, names(rows)) for one in workloads(rows)]
        parts.append(_same_results(rows))
    if earlier:
        parts += [
            EARLIER,
            _machine(earlier),
            *_left_out(parted(every)[1], earlier),
            *_in_short(earlier),
            _verdict(earlier),
        ]
        parts += [TABLES, *(_table(one, names(earlier)) for one in workloads(earlier))]
        parts.append(_same_results(earlier))
    if not every:
        if broken:
            parts.append(_ended(every, broken))
        parts.append("No run has been published yet.\n")
    parts.append(METHOD)
    return "\n".join(parts)


INTRODUCTION: Final = """\
# Evidence

<!-- written by make evidence; the text stands in tests/benchmarks/evidence/report.py -->
Workloads that others defined, fed with arrivals that were recorded in the world, on a standalone
Spark cluster and a Kafka broker, all on one machine: as configured without a limit, under fixed
limits, with Spark's own dynamic allocation, and under Weir. What Weir loses is told like what it
wins.

Windows and joins declare a delay of 4 s, as NEXMark defines them, which is shorter than their
batches. There Weir by itself [cuts nothing](late-rows.md#rows-that-are-not-read-in-order): it is
told `late_rows: allow`, since the partitions fill evenly. Rows dropped as late are counted.
"""

EARLIER: Final = """\
## Series of before 2026-11-28 15:15

**Their load is unknown**, whatever it says. Their rows were packed while the query ran: by a third
of a core at 120,000 rows a second, and a fifth for the broker to take them one small batch after
the other, where it is a fiftieth and a tenth now. That left the query less of these two cores than
it was measured with, so that more came than the load says. And until 2026-11-26 it was measured
while Java was still warming up, so that less came. Which of the two is more was not measured, nor
by how much. Ways are to be compared within a seed; what their medians are says little.
"""

PICTURE: Final = """\
![For each workload the longest time without a result over the wait of 99 % of the rows, for each
way to run it: down and to the left is better](images/evidence.svg)

*Every run that is compared is a small point; a large one is a way's median over the seeds that all
ways of its workload share.*
"""

#: Before the tables of workloads.
TABLES: Final = f"""\
Medians over the seeds that all ways of a table have been run with. Bold is what is better than each
other way by more than {EQUAL:.0%}, by its median and in most of the pairs, where there are
{LEAST_SEEDS} seeds or more: fewer tell how it went, not which way is better. A fixed limit is in
batches of the target's length; the percentage is the load. *Processor-seconds* are what it costs:
of query, broker, feeder and Weir together. *Rows per executor-second* are no cost where executors
are there all the time, as in all ways but dynamic allocation and *executors too*: as many rows in
as long a run are as many a second, whatever work they took.
"""

METHOD: Final = f"""\
## How it is measured

- **Queries**: of [NEXMark](https://github.com/nexmark/nexmark), an auction house, and
  [Yahoo's streaming benchmark](https://github.com/yahoo/streaming-benchmarks), an advertiser: rows
  as their generators draw them, queries in Spark's SQL
  ([NEXMark](../tests/benchmarks/evidence/nexmark.py),
  [Yahoo's](../tests/benchmarks/evidence/advertising.py)). They read from Kafka and write to it,
  with state in RocksDB. And [DSPBench](https://github.com/GMAP/DSPBench)'s jobs in Java, compiled
  as they stand and run with their own settings but for the source's address and limit and a
  trigger that goes on ([how](../tests/benchmarks/evidence/dspbench.py)): they print their rows.
- **Arrivals**: [recorded traces](../tests/benchmarks/arrivals), each played in the run's time.
  Their mean is a share, the *load*, of what batches of the target's length digest on the machine,
  as measured before the first run, so that a burst is the same trouble on any machine. Series
  until 2026-11-26 measured it while Java was still warming up: it digests up to twice as much
  later. Until 2026-11-29 it was measured by lumps alone, each waiting for its trigger; since then
  by batches that take a limit one after the other, which take 12 to 30 % less. A recording of up to
  {MOST_BINS} bins is played whole: there the seeds of a workload have
  one curve of arrivals, and differ in rows, in keys and in when the query is stopped, no more. Of a
  longer one each seed draws {MOST_BINS} bins. Which it is stands above each table.
- **Cluster**: Spark's Master and two Workers, each a process of its own, an executor of one core on
  each Worker; driver, broker and what brings the rows are on the same machine. Rows are drawn and
  packed before a run, as the record batches that the broker stores; a run hands them over.
- **Ways**, all with the same rows at the same times for a seed. *As configured*: no limit, Spark's
  default. *A fixed limit*: what a batch of the target's length takes, as measured before the first
  run. Where half of it, twice and four times as much were tried too, which the picture shows, it
  is the best of them in hindsight: the one for which the longest time without a result and the
  wait of 99 % of the rows add up to the least, found after all seeds were run. So where one was
  tried alone there may be a better one. *Dynamic allocation*: as Spark ships it, on the same
  cluster. *Weir*: no limit, the [plugin](plugin.md), an agent in mode `on` with the target;
  *executors too*: it asks for executors as well.
- **Each run** starts from an empty checkpoint, with a new driver and a new agent, and is measured
  after a warm-up: lumps of three tenths of a batch and of a whole one in turn, since Java compiles
  for some two minutes. Until 2026-11-26 it was a fifth as long, and the first half of a run still
  was Java's. Once, at a moment that the seed draws, the query is stopped in whatever it does
  and started again, as by a rollout.
- **Figures**: *without a result* counts only while rows wait; where batches are short, the
  longest is that of the batch that comes again at the restart, when executors load their state,
  in every way and by luck. A row *waits* from when it came to Kafka until the batch that holds it
  has ended; each row is followed by its offset. *A full batch*: the median of those that hold at
  least half of what is expected to take the target. It tells whether a fixed limit really is what
  it is called: where its batches are shorter than Weir's, which are as long as is wanted, so is
  its time without a result. *Read again*: rows of a batch that was planned
  and not committed at the stop. *Executor-seconds*: of all executors that were there, idle or
  not. *Processor-seconds*: user and system time of the driver, executors, Master and Workers, of
  the broker, of what brings the rows, and of Weir's agent with what it starts, from the first
  arrival that is measured until all is committed; what Weir does within the driver is the query's.
  *Failed batches* end their query, which is started again. *Never read*: still waiting when
  as long again had passed as the trace took, two minutes at least.
- **Seeds** are paired and ways interleaved: all ways of a seed, in an order that it draws, before
  the next seed.
- **Noise**: what a way that is run against itself (A/A) tells of it stands above, or that none was.
  The {EQUAL:.0%} within which figures are told as equal are a convention, and so is that of fewer
  than {LEAST_SEEDS} seeds none is told as the best.
- **A run that comes to no end**, since its job ended, or its warm-up was not read, or the agent did
  not get to it, or somebody stopped it, has no figures. Since {COUNTED_SINCE} each is a line of
  `{BROKEN}` beside this page, and counted above, also where the same run came through later.
- **Pictures**: a run in the course of time is that seed which is the median of its workload by the
  longest time without a result as configured, of the workload with most pairs; where its record is
  gone an earlier picture stays, and its line says which it is.

## Run it yourself

```sh
make evidence                # hours; Ctrl-C, and the same command goes on where it was
make evidence MINUTES=40 ARGS="--workloads q5/tweets-apple --seconds 60"
make evidence ARGS="--dspbench CHECKOUT --workloads wordcount/llm-code"  # of GMAP/DSPBench
make evidence ARGS=--report  # writes this page anew from what there is
```

Each run is a file in `.evidence/`, raw: every arrival, Spark's progress of every batch, executors
as they came and went. `evidence.csv` beside this page has a line for each.
"""


def _machine(rows: Sequence[Row]) -> str:
    """What ran where: machines and settings, each with its series."""
    series = sorted({row["series"] for row in rows})
    busy = sum(
        max(row["busy_share"], (row["other_cores"] or 0.0) / row["cores"]) > BUSY_SHARE
        for row in rows
    )
    on: dict[str, set[str]] = {}
    for row in rows:
        kind = "a virtual machine" if row["virtual"] else "a machine"
        where = (
            f"{kind} of {row['cores']:.0f} cores ({row['processor']}, {row['memory_gib']:.0f} "
            f"GiB), Spark {row['spark']}, {row['seconds']:g} s a run, a result wanted every "
            f"{row['target_seconds']:g} s, after a warm-up of {row['warm_up']:.1f} such batches"
        )
        on.setdefault(where, set()).add(row["series"])
    told = (
        f"**{len(rows)} runs, {_seeds(len({row['seed'] for row in rows}))}, in {len(series)} "
        "series**, begun "
        f"{', '.join(series)} UTC."
    )
    for where, begun in on.items():
        which = f" (begun {', '.join(sorted(begun))})" if len(on) > 1 else ""
        told += f" On {where}{which}."
    if busy:
        told += (
            f" **In {busy} of the runs the machine did other work as well**, by more than "
            f"{BUSY_SHARE:.0%} of it, as they began or, where that was kept, while they ran: their "
            "times are for comparing within a seed only."
        )
    return told + "\n"


def _full_batches(rows: Sequence[Row]) -> list[str]:
    """Of pairs with a fixed limit: whether its batches are as long as Weir's, where that was kept.

    Its size follows from what is measured before the first run, Weir's from the batches.
    """
    pairs = [
        pair
        for one in workloads(rows, ("fixed", "weir"))
        if (arm := dict(one.arms()).get("fixed")) is not None
        for pair in one.pairs(arm, FULL_BATCH.name)
    ]
    if not pairs:
        return []
    mine, other = (statistics.median(side) for side in zip(*pairs, strict=True))
    told = (
        f"A full batch took {FULL_BATCH.write(other)} s under {names(rows)['fixed']} and "
        f"{FULL_BATCH.write(mine)} s under Weir, where {rows[0]['target_seconds']:g} s are wanted: "
        f"medians of the pairs of which that was kept, {len(pairs)} so far."
    )
    if compare(other, mine, less=True) > 0:
        told += (
            " So the fixed limit was set a little low: its batches are shorter than the time by "
            "which they are called, and with them its longest time without a result, which mostly "
            "is that of the batch that comes again at the restart."
        )
    return [told + "\n"]


def _took(rows: Sequence[Row]) -> list[str]:
    """What Weir and what brings the rows took of the machine, where that was kept."""
    if not parted(rows)[0]:
        return []
    under = [row["weir_cores"] for row in rows if row["arm"].startswith("weir")]
    fed = [row["feeder_cores"] for row in rows]
    query = [row["query_cores"] for row in rows]
    told = (
        f"Of {rows[0]['cores']:.0f} cores the query, its driver and executors, took "
        f"{statistics.median(query):.2f} (median), what brings the rows "
        f"{statistics.median(fed):.3f} ({max(fed):.3f} at most)"
    )
    if under:
        told += (
            f", and Weir, agent and door together, {statistics.median(under):.3f} "
            f"({max(under):.3f} at most)"
        )
    return [told + ".\n"]


def _left_out(every: Sequence[Row], rows: Sequence[Row]) -> list[str]:
    """How many runs are no pair, and of what."""
    left = [row for row in every if row not in rows]
    if not left:
        return []
    which = sorted({f"{row['query']} · {row['trace']}, seed {row['seed']:.0f}" for row in left})
    column = TOLD[0]
    counted = _judged(every, "configured", column)
    also = ""
    if counted is not None:
        better, equal, worse, ratio = counted.cells()
        also = (
            f" Counted with them, the {_plain(column)}, against as configured, is better in "
            f"{better}, equal in {equal}, worse in {worse}, its median ratio {ratio}."
        )
    return [
        (
            f"{len(left)} more stand in `evidence.csv` alone ({'; '.join(which)}): what brings the "
            "rows shares the machine, and how far it was behind the trace differed between the "
            f"pair's runs by more than a wanted batch's length.{also}\n"
        )
    ]


def _ended(every: Sequence[Row], broken: Sequence[Row]) -> str:
    """How many runs of each way came to no end, of those of which it is known."""
    counted = {row["series"] for row in every if row["series"] >= COUNTED_SINCE}
    counted |= {one["series"] for one in broken}
    told = []
    if counted:
        ended = [row for row in every if row["series"] in counted]
        arms = [one["arm"] for one in (*ended, *broken) if one["arm"] != MEASURING]
        ways = []
        for arm in sorted(set(arms), key=_place):
            lost = [one for one in broken if one["arm"] == arm and one["why"] != STOPPED]
            begun = len(lost) + sum(row["arm"] == arm for row in ended)
            ways += [f"{_way(arm)} {len(lost)} of {begun}"] if begun else []
        if ways:
            told.append(f"Runs that came to no end: {'; '.join(ways)}.")
        stopped = [one for one in broken if one["why"] == STOPPED and one["arm"] in arms]
        if stopped:
            which = ", ".join(
                f"{_way(arm)} {sum(one['arm'] == arm for one in stopped)}"
                for arm in sorted({one["arm"] for one in stopped}, key=_place)
            )
            told.append(f"Not counted among them are {len(stopped)} stopped by hand: {which}.")
        unmeasured = sorted({one["query"] for one in broken if one["arm"] == MEASURING})
        if unmeasured:
            told.append(
                "What a batch takes could, at times, not be measured, and nothing was run then: "
                f"{', '.join(unmeasured)}."
            )
    if any(row["series"] < COUNTED_SINCE for row in every):
        told.append(
            f"How many runs came to no end, and were run again, was not kept in series begun "
            f"before {COUNTED_SINCE}: their figures are of runs that came through alone."
        )
    return " ".join(told) + "\n"


#: In the place of a way, where what a batch takes was to be measured.
MEASURING: Final = "measuring"


def _place(arm: str) -> tuple[int, str]:
    """Of a way among others: as in the tables."""
    kinds = list(NAMES)
    kind = "fixed" if arm.startswith("fixed-") else arm
    return (kinds.index(kind) if kind in kinds else len(kinds), arm)


def _way(arm: str) -> str:
    limit = arm.removeprefix("fixed-")
    return NAMES.get(arm, arm) if limit == arm else f"a fixed limit ({limit})"


def _in_short(rows: Sequence[Row]) -> list[str]:
    """Where there are seeds enough, Weir's medians beside each other way's, losses like wins."""
    lines = []
    for one in workloads(rows):
        arms = dict(one.arms())
        if one.seeds < LEAST_SEEDS or "weir" not in arms:
            continue
        for column in TOLD:
            mine = one.median("weir", column.name)
            others = [
                f"{names(rows)[kind]}: {column.write(other)}, Weir is {_WORDS[judged]} "
                "({}, {}, {})".format(*(_judged(one.rows, kind, column) or "---")[:3])
                for kind, arm in arms.items()
                if (other := one.median(arm, column.name)) is not None
                and (judged := one.against(kind, column)) is not None
                and kind != "weir"
            ]
            if mine is not None and others:
                lines.append(
                    f"- {one.name}, {column.head}: Weir {column.write(mine)}. "
                    f"{'; '.join(others)[0].upper()}{'; '.join(others)[1:]}."
                )
    if not lines:
        return []
    told = (
        f"In short, medians of the workloads that have {LEAST_SEEDS} seeds or more, and in "
        "brackets in how many pairs Weir is better, equal, worse; the others have too few seeds:\n"
    )
    return [told, "\n".join([*lines, ""])]


_WORDS: Final = {1: "better", 0: "neither better nor worse", -1: "worse"}


def _twice(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """(once more, as configured) of the same rows."""
    first = {rows_alike(row): row for row in rows if row["arm"] == "configured"}
    again = [row for row in rows if row["arm"] == AGAIN]
    return [(row, first[rows_alike(row)]) for row in again if rows_alike(row) in first]


def _noise(rows: Sequence[Row], twice: Sequence[tuple[Row, Row]] = ()) -> str:
    """What is known of how far two runs lie apart that differ in nothing."""
    if twice:
        spans = []
        for column in TOLD:
            ratios = [_ratio(one[column.name], two[column.name]) for one, two in twice]
            off = [max(ratio, 1.0 / ratio) - 1.0 if ratio > 0.0 else math.inf for ratio in ratios]
            spans.append(
                f"the {_plain(column)} is {min(ratios):.2f} to {max(ratios):.2f} times as long, "
                f"and differs by more than {EQUAL:.0%} in {sum(part > EQUAL for part in off)}"
            )
        of = sorted({f"{one['query']} · {one['trace']}" for one, _ in twice})
        return (
            f"**A way against itself (A/A)**: in {len(twice)} pairs of as configured with as "
            f"configured, of the same rows ({', '.join(of)}), {'; '.join(spans)}. That is noise: a "
            "single pair that differs by no more says nothing.\n"
        )
    told = (
        "No series of a way against itself (A/A) has been run yet: that figures within "
        f"{EQUAL:.0%} are told as equal is a convention, not a bound of noise."
    )
    calm = _hardly_limited(rows)
    if calm:
        spans = []
        for column in TOLD:
            ratios = [_ratio(one[column.name], two[column.name]) for one, two in calm]
            spans.append(f"{_plain(column)} was {min(ratios):.2f} to {max(ratios):.2f} times")
        told += (
            f" The nearest to one: in {len(calm)} pair{'s' * (len(calm) != 1)} of a fixed limit "
            "with as configured the limit can have held back little or nothing, as no batch of "
            "either took the time that is wanted. Still the fixed limit's "
            f"{' and its '.join(spans)} that of the run without a limit. A single pair that "
            "differs by so much says nothing."
        )
    return told + "\n"


def _hardly_limited(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """(fixed limit, as configured) of the same rows, where no batch took the target."""
    other = {rows_alike(row): row for row in rows if row["arm"] == "configured"}
    pairs = [
        (row, other[rows_alike(row)])
        for row in rows
        if row["arm"] == "fixed-1" and rows_alike(row) in other
    ]
    return [
        pair
        for pair in pairs
        if max(row["longest_batch_seconds"] for row in pair) < pair[0]["target_seconds"]
    ]


def _course(drawn: Row, rows: Sequence[Row]) -> str:
    """The picture of a course, and which seed it shows and why."""
    weir = {rows_alike(row) for row in rows if row["arm"] == "weir"}
    of = ("query", "trace", "load")
    alike = [
        row
        for row in rows
        if row["arm"] == "configured"
        and rows_alike(row) in weir
        and [row[key] for key in of] == [drawn[key] for key in of]
    ]
    name = "longest_without_result_seconds"
    longer = sum(row[name] > drawn[name] for row in alike)
    median = _median_of(alike) if alike else drawn
    if len(alike) < 2:
        why = "the only seed that there is"
    elif median is drawn or rows_alike(median) == rows_alike(drawn):
        why = f"of {len(alike)} seeds the median"
    elif not longer:
        why = f"of {len(alike)} seeds the worst"
    else:
        why = f"of {len(alike)} seeds number {longer + 1} from the worst on"
    told = (
        f"{course_title(drawn)}: {why} by the longest time without a result as configured "
        f"({drawn[name]:.1f} s"
    )
    if rows_alike(median) != rows_alike(drawn):
        told += f"; the median is seed {median['seed']:.0f}, {median[name]:.1f} s"
    return (
        "![One run as configured and the same under Weir: how long each batch takes, over time, "
        f"above what\narrives](images/evidence-course.svg)\n\n*{told}).*\n"
    )


def _verdict(rows: Sequence[Row]) -> str:
    """In how many pairs Weir is better, equal, worse, figure by figure; and so by series."""
    parts = [
        (
            "Pairs of runs with the same rows at the same times: in how many Weir's figure is "
            f"better or worse; within {EQUAL:.0%} it is told as equal. The ratio is Weir's over "
            "the other's; where the other's is 0 it is ∞, or 1 where both are, and counts in the "
            "median.\n"
        ),
        "| Weir against | figure | better | equal | worse | median ratio |",
        "|---|---|---|---|---|---|",
    ]
    for kind in ("configured", "fixed", "dynamic"):
        judged = ((one, _judged(rows, kind, one)) for one in COLUMNS if one.judged)
        parts += [
            f"| {names(rows)[kind]} | {one.head} | {' | '.join(told.cells())} |"
            for one, told in judged
            if told
        ]
    series = sorted({row["series"] for row in rows})
    if len(series) > 1:
        heads = " | ".join(f"{one.head}: better, equal, worse; ratio" for one in TOLD)
        table = [
            f"| series | Weir against | {heads} |",
            "|---|---|" + "---|" * len(TOLD),
        ]
        opposed = []
        for kind in TOLD_ARMS[:-1]:  # against Weir, the last
            by_series = [
                [_judged([row for row in rows if row["series"] == one], kind, it) for it in TOLD]
                for one in series
            ]
            for one, judged_of_series in zip(series, by_series, strict=True):
                if any(judged_of_series):
                    cells = (
                        "{}, {}, {}; {}".format(*told.cells()) if told else "-"
                        for told in judged_of_series
                    )
                    table.append(f"| {one} | {names(rows)[kind]} | {' | '.join(cells)} |")
            opposed += [
                f"the {_plain(column)}, against {names(rows)[kind]}"
                for place, column in enumerate(TOLD)
                if _opposed([one[place] for one in by_series], less=column.less)
            ]
        says = (
            f"**Series contradict each other** in {'; '.join(opposed)}: better by the median pair "
            "of one, worse by that of another."
            if opposed
            else f"None contradicts another by more than {EQUAL:.0%}."
        )
        parts += [f"\nThe same by series. {says}\n", *table]
    return "\n".join([*parts, ""])


class Judged(NamedTuple):
    """In how many pairs Weir is better, equal, worse, and its median ratio to the other."""

    better: int
    equal: int
    worse: int
    ratio: float

    def cells(self) -> list[str]:
        ratio = "∞" if math.isinf(self.ratio) else f"{self.ratio:.2f}"
        return [str(self.better), str(self.equal), str(self.worse), ratio]


def _opposed(judged: Sequence[Judged | None], *, less: bool) -> bool:
    """Whether Weir is better by the ratio of one series, and worse by that of another."""
    found = {compare(one.ratio, 1.0, less=less) for one in judged if one is not None}
    return {1, -1} <= found


def _ratio(mine: float, other: float) -> float:
    """Nothing beside nothing is the same; something beside nothing is more than any ratio."""
    if other:
        return mine / other
    return math.inf if mine else 1.0


def _judged(rows: Sequence[Row], kind: str, column: Column) -> Judged | None:
    """Of Weir's pairs with another way.

    None where there are no pairs, or nothing of the kind happened to any.
    """
    pairs: list[tuple[float, float]] = []
    for one in workloads(rows, tuple(NAMES)):
        arm = dict(one.arms()).get(kind)
        pairs += one.pairs(arm, column.name) if arm is not None else []
    if not any(mine or other for mine, other in pairs):
        return None
    judged = [compare(mine, other, less=column.less) for mine, other in pairs]
    ratio = statistics.median(_ratio(mine, other) for mine, other in pairs)
    return Judged(*(judged.count(which) for which in (1, 0, -1)), ratio)


def compare(mine: float, other: float, *, less: bool) -> int:
    """1 where mine is better, -1 where it is worse, 0 within what is told as equal."""
    if mine == other or abs(mine - other) <= EQUAL * max(abs(mine), abs(other)) < math.inf:
        return 0
    return 1 if (mine < other) == less else -1


def _seeds(number: int) -> str:
    return f"{number} seed{'s' * (number != 1)}"


def _seeds_of(workload: Workload) -> str:
    """How many seeds its ways share, of how many series, and in what these seeds differ."""
    shared = [row for row in workload.rows if rows_alike(row) in workload.keys]
    series = {row["series"] for row in shared}
    told = _seeds(workload.seeds)
    if len(series) > 1:
        told += f" in {len(series)} series"
    if workload.seeds < 2:
        return told
    trace = recordings()[workload.trace]
    curves = len({slice_of(trace, int(row["seed"])) for row in shared})
    told += (
        ", of one recorded curve of arrivals: they differ in rows, in keys and in the moment of "
        "the stop"
        if curves == 1
        else f", of {curves} parts of one recording"
    )
    takes = [row["target_rows"] for row in shared]
    if min(takes) < max(takes):
        told += (
            f"; a batch of the target's length takes {_count(min(takes))} to {_count(max(takes))} "
            "rows, by series"
        )
    return told


def _table(workload: Workload, named: dict[str, str]) -> str:
    trace = recordings()[workload.trace]
    told = f"{QUERIES[workload.query].what}. {trace.what[0].upper()}{trace.what[1:]}."
    lines = [
        f"### {workload.name}\n",
        f"{told[0].upper()}{told[1:]} {_seeds_of(workload)}.\n",
        *_medians(workload, named),
    ]
    wide = workload.over(tuple(NAMES))
    further = [kind for kind, _ in wide.arms() if kind not in TOLD_ARMS]
    if further:
        which = ", ".join(named[kind] for kind in further)
        lines += [f"\nThe same with {which}: {_seeds_of(wide)}.\n", *_medians(wide, named)]
    absent = [
        column.head
        for column in COLUMNS
        if not any(figure(row, column.name) for _, arm in wide.arms() for row in wide.of(arm))
        and column.name not in NOT_ALWAYS_KEPT
    ]
    if absent:
        lines.append(f"\nIn no run: {', '.join(absent)}.")
    return "\n".join([*lines, ""])


def _medians(workload: Workload, named: dict[str, str]) -> list[str]:
    """A table with a line for each way."""
    arms = workload.arms()
    if not workload.keys:
        return ["No seed was run in all of these ways."]
    # What happened in no run needs no column.
    columns = [
        column
        for column in COLUMNS
        if any(figure(row, column.name) for _, arm in arms for row in workload.of(arm))
    ]
    told_of = [(column, workload.cells(column)) for column in columns]
    # Kept by another series alone.
    told_of = [(column, cells) for column, cells in told_of if set(cells) != {"-"}]
    cells = [cells for _, cells in told_of]
    lines = [
        f"| | {' | '.join(column.head for column, _ in told_of)} |",
        "|---|" + "---|" * len(told_of),
    ]
    for (kind, arm), *told in zip(arms, *cells, strict=True):
        name = named[kind]
        if kind == "fixed" and name == NAMES[kind]:
            name += f" ({arm.removeprefix('fixed-')})"
        lines.append(f"| {name} | {' | '.join(told)} |")
    return lines


def _not_compared(rows: Sequence[Row]) -> str:
    """Whose results are others in each run, with Weir or without."""
    names = sorted({row["query"] for row in rows if not row["results_sha256"]})
    if not names:
        return ""
    return (
        f" Not compared: {', '.join(names)}, whose results hang on where batches end, or on the "
        "order in which rows meet, and differ from run to run in any way of running."
    )


def _same_results(rows: Sequence[Row]) -> str:
    """Whether every way computed the same from the same rows."""
    by_seed: dict[tuple[Any, ...], set[str]] = {}
    for row in rows:
        if not row["rows_left"] and row["results_sha256"]:
            by_seed.setdefault(rows_alike(row), set()).add(row["results_sha256"])
    differ = sorted(
        {f"{query} · {trace}" for (_, query, trace, *_), one in by_seed.items() if len(one) > 1}
    )
    if not differ:
        return (
            "**Results are the same to the byte** in every way of running, for each workload and "
            f"seed, where all rows were read.{_not_compared(rows)}\n"
        )
    return (
        f"**Results differ between ways of running** in {', '.join(differ)}: rows that were "
        "dropped as late are missing.\n"
    )


# The picture

PANEL_WIDTH, PANEL_HEIGHT = 300, 230
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 30, 30
ACROSS: Final = 3
LEGEND: Final = 34


def draw(rows: Sequence[Row]) -> str:
    """A panel for each workload: longest time without a result over the wait of 99 % of rows."""
    known = workloads(rows)
    across = min(ACROSS, max(len(known), 2))
    down = -(-len(known) // across)
    width, height = PANEL_WIDTH * across, PANEL_HEIGHT * down + LEGEND
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="11" fill="#6b7280" role="img" aria-label="'
            "Longest time without a result over the wait of 99 % of the rows, by workload and way "
            'of running it">'
        )
    ]
    place = LEFT
    run = {kind for one in known for kind, _ in one.over(tuple(NAMES)).arms()}
    for kind, name in NAMES.items():
        if kind not in run:
            continue
        text = "fixed limits, a line from the smallest on" if kind == "fixed" else name
        parts.append(
            f'<circle cx="{place}" cy="14" r="4" fill="{COLOURS[kind]}"/>'
            f'<text x="{place + 8}" y="18" fill="{COLOURS[kind]}">{text}</text>'
        )
        place += 22 + round(5.6 * len(text))
    for number, one in enumerate(known):
        row, column = divmod(number, across)
        parts += _panel(one, PANEL_WIDTH * column, LEGEND + PANEL_HEIGHT * row)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(workload: Workload, left: int, top: int) -> Iterable[str]:
    waits, gaps = "wait_p99_seconds", "longest_without_result_seconds"
    across = ticks(max(row[waits] for row in workload.rows) or 1.0)
    up = ticks(max(row[gaps] for row in workload.rows) or 1.0)

    def x(value: float) -> float:
        return round(left + LEFT + value / across[-1] * (PANEL_WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        return round(
            top + PANEL_HEIGHT - BOTTOM - value / up[-1] * (PANEL_HEIGHT - TOP - BOTTOM), 1
        )

    foot = top + PANEL_HEIGHT - BOTTOM
    yield f'<text x="{left + LEFT}" y="{top + 16}" font-size="12">{workload.name}</text>'
    for value in up:
        yield (
            f'<path d="M{left + LEFT} {y(value)}H{left + PANEL_WIDTH - RIGHT}" stroke="#9ca3af" '
            f'stroke-opacity="0.3"/><text x="{left + LEFT - 5}" y="{y(value) + 4}" '
            f'text-anchor="end">{value:g}</text>'
        )
    for value in across:
        yield f'<text x="{x(value)}" y="{foot + 14}" text-anchor="middle">{value:g}</text>'
    yield (
        f'<text x="{left + PANEL_WIDTH - RIGHT}" y="{foot + 26}" text-anchor="end" font-size="10">'
        f'99 % of rows wait, s</text><text x="{left + LEFT + 4}" y="{top + 28}" font-size="10">'
        "without a result, s</text>"
    )
    ladder = sorted(
        {row["arm"] for row in workload.rows if row["arm"].startswith("fixed-")},
        key=lambda arm: float(arm.removeprefix("fixed-")),
    )
    middles = {
        arm: (across_of, up_of)
        for arm in sorted({row["arm"] for row in workload.rows})
        if (across_of := workload.median(arm, waits)) is not None
        and (up_of := workload.median(arm, gaps)) is not None
    }
    path = " ".join(f"{x(middles[a][0])},{y(middles[a][1])}" for a in ladder if a in middles)
    yield f'<polyline points="{path}" fill="none" stroke="{COLOURS["fixed"]}"/>'
    others = (kind for kind, _ in workload.over(tuple(NAMES)).arms() if kind != "fixed")
    for arm in (*ladder, *others):
        colour = COLOURS["fixed" if arm in ladder else arm]
        for row in workload.of(arm):
            yield (
                f'<circle cx="{x(row[waits])}" cy="{y(row[gaps])}" r="2" fill="{colour}" '
                'fill-opacity="0.4"/>'
            )
        if arm in middles:
            yield (
                f'<circle cx="{x(middles[arm][0])}" cy="{y(middles[arm][1])}" '
                f'r="4.5" fill="{colour}"/>'
            )


COURSE_WIDTH, COURSE_HEIGHT, ARRIVALS_HEIGHT = 760, 320, 60


def draw_course(title: str, pair: dict[str, Record]) -> str:
    """Each batch of both runs where it ended, as high as it took; below, what arrived."""
    lines = {}
    for arm, record in pair.items():
        begun = record.end["begun"]
        ended = [one for one in batches_of(record.progress) if one.end > begun]
        lines[arm] = [(one.end - begun, one.end - one.begin) for one in ended]
    some = pair["configured"]
    begun = some.end["begun"]
    counts: dict[int, int] = {}
    for one in some.arrivals:
        if one.time >= begun:
            counts[int(one.time - begun)] = counts.get(int(one.time - begun), 0) + one.rows
    steps = ticks(max(took for line in lines.values() for _, took in line))
    last = max(second for line in lines.values() for second, _ in line)
    marks = ticks(last)
    foot = COURSE_HEIGHT - BOTTOM - ARRIVALS_HEIGHT

    def x(second: float) -> float:
        return round(LEFT + second / last * (COURSE_WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        return round(foot - value / steps[-1] * (foot - 46), 1)

    target = float(some.run["target_seconds"])
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COURSE_WIDTH} {COURSE_HEIGHT}" '
            'font-family="sans-serif" font-size="12" fill="#6b7280" role="img" aria-label="Seconds '
            'each batch takes over time, as configured and under Weir, and what arrives">'
        ),
        f'<text x="{LEFT}" y="16" font-size="13">{title}: seconds a batch takes</text>',
    ]
    parts += [
        f'<path d="M{LEFT} {y(value)}H{COURSE_WIDTH - RIGHT}" stroke="#9ca3af" '
        f'stroke-opacity="0.3"/><text x="{LEFT - 6}" y="{y(value) + 4}" '
        f'text-anchor="end">{value:g}</text>'
        for value in steps
    ]
    parts += [
        f'<text x="{x(mark)}" y="{COURSE_HEIGHT - 12}" text-anchor="middle">{mark:g}</text>'
        for mark in marks
        if mark <= last * 0.94
    ]
    parts.append(
        f'<text x="{COURSE_WIDTH - RIGHT}" y="{COURSE_HEIGHT - 12}" text-anchor="end">seconds'
        f'</text><path d="M{LEFT} {y(target)}H{COURSE_WIDTH - RIGHT}" stroke="#6b7280" '
        'stroke-dasharray="4 3"/>'
    )
    most = max(counts.values(), default=1)
    base = COURSE_HEIGHT - BOTTOM
    for second, rows in sorted(counts.items()):
        high = round(rows / most * (ARRIVALS_HEIGHT - 18), 1)
        width = max(round(x(second + 1) - x(second) - 0.5, 1), 0.5)
        parts.append(
            f'<rect x="{x(second)}" y="{base - high}" width="{width}" height="{high}" '
            'fill="#9ca3af" fill-opacity="0.6"/>'
        )
    parts.append(f'<text x="{LEFT}" y="{foot + 15}" font-size="11">rows that arrive</text>')
    place = LEFT
    for arm, line in lines.items():
        colour = COLOURS[arm]
        parts += [
            f'<path d="M{x(second)} {y(0)}V{y(took)}" stroke="{colour}" stroke-opacity="0.35"/>'
            f'<circle cx="{x(second)}" cy="{y(took)}" r="3" fill="{colour}"/>'
            for second, took in line
        ]
        parts.append(
            f'<circle cx="{place + 4}" cy="31" r="4" fill="{colour}"/>'
            f'<text x="{place + 12}" y="35" fill="{colour}">{NAMES[arm]}</text>'
        )
        place += 180
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    rewrite(DOCS)
