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
import statistics
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent.export.handwritten import with_table
from scripts.plot_control import ticks
from tests.benchmarks.evidence.figures import batches_of
from tests.benchmarks.evidence.workloads import QUERIES
from tests.benchmarks.recorded import recordings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.benchmarks.evidence.figures import Figures
    from tests.benchmarks.evidence.record import Record

DOCS: Final = Path(__file__).resolve().parents[3] / "docs"
#: Above this the machine did something else when a run began, and its times are worth less.
BUSY_SHARE: Final = 0.1
#: Two figures whose ratio is within this are told as equal: the same run twice differs by as much.
EQUAL: Final = 0.05
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
    """A figure: how it is headed and written, and whether less of it is better."""

    name: str
    head: str
    write: Callable[[float], str]
    less: bool = True


def _seconds(value: float) -> str:
    return f"{value:.1f}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


COLUMNS: Final = (
    Column("longest_without_result_seconds", "longest time without a result, s", _seconds),
    Column("wait_p50_seconds", "half of the rows wait up to, s", _seconds),
    Column("wait_p99_seconds", "99 % of the rows wait up to, s", _seconds),
    Column("read_again_rows", "rows read again after the stop", _count),
    Column("rows_per_executor_second", "rows per executor-second", _count, less=False),
    Column("dropped_rows", "rows dropped as late", _count),
    Column("failures", "failed batches", _count),
    Column("rows_left", "rows never read", _count),
)

#: What each part of a run took, in cores busy; None in runs from before that was kept.
CORES: Final = ("query_cores", "broker_cores", "feeder_cores", "weir_cores")

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
        | {name: record.end.get("cores", {}).get(name.removesuffix("_cores")) for name in CORES}
    )


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
            if key not in CORES
        }
        | {name: float(row[name]) if row.get(name) else None for name in CORES}
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
    """The configured run of the pair that is drawn: where a result was missed for longest."""
    weir = {rows_alike(row) for row in rows if row["arm"] == "weir"}
    pairs = [row for row in rows if row["arm"] == "configured" and rows_alike(row) in weir]
    return max(pairs, key=lambda row: float(row["longest_without_result_seconds"]), default=None)


def rewrite(docs: Path) -> None:
    """The page and the picture of all runs, from the lines that are there; none gives none.

    A README beside ``docs`` gets its table anew.
    """
    lines = docs / "evidence.csv"
    rows = of_csv(lines.read_text("utf-8")) if lines.exists() else []
    (docs / "evidence.md").write_text(page(rows), "utf-8")
    if rows:
        pairs = comparable(rows)
        (docs / "images" / "evidence.svg").write_text(draw(drawn_of(pairs)), "utf-8")
        readme = docs.parent / "README.md"
        if readme.exists():
            renewed = with_table(readme.read_text("utf-8"), WRITTEN, *headline(pairs))
            readme.write_text(renewed, "utf-8")


#: By what README's table is written, and the figures of it.
WRITTEN: Final = "`make evidence`"
TOLD: Final = tuple(
    one for one in COLUMNS if one.name in ("longest_without_result_seconds", "wait_p99_seconds")
)
TOLD_ARMS: Final = ("configured", "fixed", "weir")


def headline(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """README's table, head and lines: medians of each workload, the best of each in bold."""
    lines = []
    now, earlier = parted(rows)
    asked = {(one["query"], one["trace"]) for one in now}
    before = [one for one in earlier if (one["query"], one["trace"]) not in asked]
    for one in (*workloads(now), *workloads(before)):
        arms = dict(one.arms())
        more = "over " if now and one.rows[0] in before else ""
        cells = {
            kind: [column.write(one.median(arm, column.name)) for column in TOLD]
            for kind, arm in arms.items()
            if kind in TOLD_ARMS
        }
        best = [min((found[place] for found in cells.values()), key=float) for place in (0, 1)]
        lines.append(
            [
                f"{QUERIES[one.query].what} · {one.trace}, {more}{one.load:.0%}",
                *(
                    " · ".join(
                        f"**{value}**" if value == least else value
                        for value, least in zip(cells[kind], best, strict=True)
                    )
                    if kind in cells
                    else "-"
                    for kind in TOLD_ARMS
                ),
            ]
        )
    told = f"{rows[0]['cores']:.0f} cores, {len(now) + len(before)} runs"
    return [told, *(names(rows)[kind] for kind in TOLD_ARMS)], lines


def write(rows: Sequence[Row], docs: Path, record: Callable[[str, str, str, int], Record]) -> int:
    """The lines, the page and its pictures into a folder of docs; how many runs they tell.

    Lines of other series stay. ``record`` gives that of a (query, trace, arm, seed) of ``rows``.
    """
    (docs / "images").mkdir(parents=True, exist_ok=True)
    lines = docs / "evidence.csv"
    these = {row["series"] for row in rows}
    there = of_csv(lines.read_text("utf-8")) if lines.exists() else []
    every = [*(row for row in there if row["series"] not in these), *rows]
    lines.write_text(to_csv(every), "utf-8")
    rewrite(docs)
    drawn = course_of(drawn_of(comparable(every)))
    # The picture of a series whose records are not here stays.
    if drawn is not None and drawn["series"] in these:
        query, trace, seed = drawn["query"], drawn["trace"], int(drawn["seed"])
        pair = {arm: record(query, trace, arm, seed) for arm in ("configured", "weir")}
        picture = draw_course(f"{query} · {trace}, seed {seed}", pair)
        (docs / "images" / "evidence-course.svg").write_text(picture, "utf-8")
    return len(every)


class Workload:
    """The runs of one query under one trace, at one load."""

    def __init__(self, name: tuple[str, str, float], rows: Sequence[Row]) -> None:
        self.query, self.trace, self.load = name
        self.rows = rows
        fixed = sorted({row["arm"] for row in rows if row["arm"].startswith("fixed-")})
        self.fixed = min(fixed, key=self._cost, default=None)

    @property
    def name(self) -> str:
        return f"{self.query} · {self.trace} · {self.load:.0%}"

    def _cost(self, arm: str) -> float:
        """Both waits together: of the sink's reader for a result, and of a row for its own."""
        return self.median(arm, "longest_without_result_seconds") + self.median(
            arm, "wait_p99_seconds"
        )

    def of(self, arm: str) -> list[Row]:
        return [row for row in self.rows if row["arm"] == arm]

    def median(self, arm: str, figure: str) -> float:
        return float(statistics.median(row[figure] for row in self.of(arm)))

    def arms(self) -> list[tuple[str, str]]:
        """(kind, arm) of those that were run, in the order of the table."""
        there = {row["arm"] for row in self.rows}
        found = [(kind, self.fixed if kind == "fixed" else kind) for kind in NAMES]
        return [(kind, arm) for kind, arm in found if arm is not None and arm in there]

    def pairs(self, other: str, figure: str) -> list[tuple[float, float]]:
        """(Weir's, the other arm's) of the same rows at the same times."""
        mine = {rows_alike(row): row[figure] for row in self.of("weir")}
        return [
            (mine[rows_alike(row)], row[figure])
            for row in self.of(other)
            if rows_alike(row) in mine
        ]


def names(rows: Sequence[Row]) -> dict[str, str]:
    """What each way is called: a limit is the best in hindsight only where several were tried."""
    tried = {row["arm"].removeprefix("fixed-") for row in rows if row["arm"].startswith("fixed-")}
    if len(tried) != 1:
        return NAMES
    (only,) = tried
    return NAMES | {"fixed": f"a fixed limit, batches of {only} target{'s' * (only != '1')}"}


def workloads(rows: Sequence[Row]) -> list[Workload]:
    """By query, trace and load."""
    found: dict[tuple[str, str, float], list[Row]] = {}
    for row in rows:
        found.setdefault((row["query"], row["trace"], row["load"]), []).append(row)
    names = sorted(found, key=lambda name: (len(name[0]), name))
    return [Workload(name, found[name]) for name in names]


def parted(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Runs whose rows were packed before, and those of when they were packed during the run.

    Those got more than their load says: what packed took part of the machine.
    """
    now = [row for row in rows if row.get("feeder_cores") is not None]
    return now, [row for row in rows if row.get("feeder_cores") is None]


def page(rows: Sequence[Row]) -> str:
    """The whole page; without runs it says how they are made."""
    parts = [INTRODUCTION]
    every = rows
    rows, earlier = parted(comparable(every))
    if earlier and not rows:
        rows, earlier = earlier, []
    if rows:
        parts += [_machine(rows), *_left_out(drawn_of(every), rows), _verdict(rows), PICTURE]
        if course_of(rows):
            parts.append(COURSE)
        parts += [*_took(rows), "## Each workload\n", _told(rows)]
        parts += [_table(one, names(rows)) for one in workloads(rows)]
        parts.append(_same_results(rows))
    if earlier:
        parts += [
            EARLIER,
            _machine(earlier),
            *_left_out(parted(every)[1], earlier),
            _verdict(earlier),
        ]
        parts += [_told(earlier), *(_table(one, names(earlier)) for one in workloads(earlier))]
        parts.append(_same_results(earlier))
    if not every:
        parts.append("No run has been published yet.\n")
    parts.append(METHOD)
    return "\n".join(parts)


INTRODUCTION: Final = """\
# Evidence

<!-- written by make evidence; the text stands in tests/benchmarks/evidence/report.py -->
Workloads that others defined, fed with arrivals that were recorded in the world, on a real Spark
cluster and a real Kafka: as configured without a limit, under fixed limits, with Spark's own
dynamic allocation, and under Weir. What Weir loses stands beside what it wins.

Windows and joins declare a delay of 4 s, as NEXMark defines them, which is shorter than their
batches. There Weir by itself [cuts nothing](late-rows.md#rows-that-are-not-read-in-order): it is
told `late_rows: allow`, since the partitions fill evenly. Rows dropped as late are counted.
"""

EARLIER: Final = """\
## Series of before 2026-11-28 15:15

Their rows were packed while the query ran: by a third of a core at 120,000 rows a second, and a
fifth for the broker to take them one small batch after the other, where it is a fiftieth and a
tenth now. So on these two cores they got more than the load says, and stood closer to what cannot
be digested, or beyond: hence their long waits, in any way of running.
"""

COURSE: Final = """\
![One run as configured and the same under Weir: how long each batch takes, over time, above what
arrives](images/evidence-course.svg)
"""

PICTURE: Final = """\
![For each workload the longest time without a result over the wait of 99 % of the rows, for each
way to run it: down and to the left is better](images/evidence.svg)
"""

METHOD: Final = """\
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
  later, and their load is less than it says.
- **Cluster**: Spark's Master and two Workers, each a process of its own, an executor of one core on
  each Worker; driver, broker and what brings the rows are on the same machine. Rows are drawn and
  packed before a run, as the record batches that the broker stores; a run hands them over.
- **Ways**, all with the same rows at the same times for a seed. *As configured*: no limit, Spark's
  default. *Best fixed limit*: of half, one, two and four times what a batch of the target's length
  takes, as far as they were tried (the picture shows each), the one for which the longest time
  without a result and the wait of 99 % of the rows add up to the least, found after all seeds
  were run. *Dynamic allocation*: as Spark ships it, on the same cluster. *Weir*: no limit, the
  [plugin](plugin.md), an agent in mode `on` with the target; *executors too*: it asks for
  executors as well.
- **Each run** starts from an empty checkpoint, with a new driver and a new agent, and is measured
  after a warm-up: lumps of three tenths of a batch and of a whole one in turn, since Java compiles
  for some two minutes. Until 2026-11-26 it was a fifth as long, and the first half of a run still
  was Java's. Once, at a moment that the seed draws, the query is stopped in whatever it does
  and started again, as by a rollout.
- **Figures**: *without a result* counts only while rows wait; where batches are short, the
  longest is that of the batch that comes again at the restart, when executors load their state,
  in every way and by luck. A row *waits* from when it came to Kafka until the batch that holds it
  has ended; each row is followed by its offset. *Read again*: rows of a batch that was planned
  and not committed at the stop. *Executor-seconds*: of all executors that were there, idle or
  not. *Failed batches* end their query, which is started again. *Never read*: still waiting when
  as long again had passed as the trace took, two minutes at least.
- **Seeds** are paired and ways interleaved: all ways of a seed, in an order that it draws, before
  the next seed.

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
    busy = sum(row["busy_share"] > BUSY_SHARE for row in rows)
    on: dict[str, set[str]] = {}
    for row in rows:
        kind = "a virtual machine" if row["virtual"] else "a machine"
        where = (
            f"{kind} of {row['cores']:.0f} cores ({row['processor']}, {row['memory_gib']:.0f} "
            f"GiB), Spark {row['spark']}, {row['seconds']:g} s a run, a result wanted every "
            f"{row['target_seconds']:g} s, measured once the query has digested "
            f"{row['warm_up']:.1f} batches of that length"
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
            f" **{busy} of the runs began while the machine did other work as well**: their times "
            "are for comparing within a seed only."
        )
    return told + "\n"


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
        better, equal, worse, ratio = counted
        also = (
            f" Counted with them, the {column.head.removesuffix(', s')}, against as configured, is "
            f"better in {better}, equal in {equal}, worse in {worse}, its median ratio {ratio}."
        )
    return [
        (
            f"{len(left)} more stand in `evidence.csv` alone ({'; '.join(which)}): what brings the "
            "rows shares the machine, and was behind the trace by more than a wanted batch's "
            f"length further than in the pair's other run, or less far.{also}\n"
        )
    ]


def _verdict(rows: Sequence[Row]) -> str:
    """In how many pairs Weir is better, equal, worse, figure by figure; and so by series."""
    parts = [
        (
            "Pairs of runs with the same rows at the same times: in how many Weir's figure is "
            f"better or worse; within {EQUAL:.0%} it is equal. The ratio is Weir's over the "
            "other's.\n"
        ),
        "| Weir against | figure | better | equal | worse | median ratio |",
        "|---|---|---|---|---|---|",
    ]
    for kind in ("configured", "fixed", "dynamic"):
        judged = ((column, _judged(rows, kind, column)) for column in COLUMNS)
        parts += [
            f"| {names(rows)[kind]} | {one.head} | {' | '.join(told)} |"
            for one, told in judged
            if told
        ]
    series = sorted({row["series"] for row in rows})
    if len(series) > 1:
        heads = " | ".join(f"{one.head}: better, equal, worse; ratio" for one in TOLD)
        parts += [
            "\nThe same by series: what one says the next has to say too.\n",
            f"| series | Weir against | {heads} |",
            "|---|---|" + "---|" * len(TOLD),
        ]
        for kind in TOLD_ARMS[:-1]:  # against Weir, the last
            for one in series:
                these = [row for row in rows if row["series"] == one]
                judged = [_judged(these, kind, column) for column in TOLD]
                if any(judged):
                    told = (
                        f"{', '.join(cells[:3])}; {cells[3]}" if cells else "-" for cells in judged
                    )
                    parts.append(f"| {one} | {names(rows)[kind]} | {' | '.join(told)} |")
    return "\n".join([*parts, ""])


def _judged(rows: Sequence[Row], kind: str, column: Column) -> list[str] | None:
    """Better, equal, worse and the median ratio of Weir's pairs with another way, each as a cell.

    None where there are no pairs, or nothing of the kind happened to any.
    """
    pairs: list[tuple[float, float]] = []
    for one in workloads(rows):
        arm = dict(one.arms()).get(kind)
        pairs += one.pairs(arm, column.name) if arm is not None else []
    if not any(mine or other for mine, other in pairs):
        return None
    judged = [compare(mine, other, less=column.less) for mine, other in pairs]
    ratios = [mine / other for mine, other in pairs if other]
    ratio = f"{statistics.median(ratios):.2f}" if ratios else "-"
    return [*(str(judged.count(which)) for which in (1, 0, -1)), ratio]


def compare(mine: float, other: float, *, less: bool) -> int:
    """1 where mine is better, -1 where it is worse, 0 within what is told as equal."""
    if abs(mine - other) <= EQUAL * max(abs(mine), abs(other)):
        return 0
    return 1 if (mine < other) == less else -1


def _seeds(number: int) -> str:
    return f"{number} seed{'s' * (number != 1)}"


def _told(rows: Sequence[Row]) -> str:
    return (
        "Medians over the seeds; the best of each column is bold. A fixed limit is in batches of "
        "the target's length; the percentage is the load.\n"
    )


def _table(workload: Workload, named: dict[str, str]) -> str:
    trace = recordings()[workload.trace]
    arms = workload.arms()
    # What happened in no run needs no column.
    columns = [
        column
        for column in COLUMNS
        if any(row[column.name] for _, arm in arms for row in workload.of(arm))
    ]
    lines = [
        f"### {workload.name}\n",
        (
            f"{QUERIES[workload.query].what.capitalize()}. "
            f"{trace.what[0].upper()}{trace.what[1:]}. {_seeds(len(workload.of('weir')))}.\n"
        ),
        f"| | {' | '.join(column.head for column in columns)} |",
        "|---|" + "---|" * len(columns),
    ]
    best = {
        column.name: (min if column.less else max)(
            workload.median(arm, column.name) for _, arm in arms
        )
        for column in columns
    }
    for kind, arm in arms:
        name = named[kind]
        if kind == "fixed" and name == NAMES[kind]:
            name += f" ({arm.removeprefix('fixed-')})"
        cells = []
        for column in columns:
            value = workload.median(arm, column.name)
            told = column.write(value)
            cells.append(f"**{told}**" if told == column.write(best[column.name]) else told)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    absent = [column.head for column in COLUMNS if column not in columns]
    if absent:
        lines.append(f"\nIn no run: {', '.join(absent)}.")
    return "\n".join([*lines, ""])


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
    run = {kind for one in known for kind, _ in one.arms()}
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
    path = " ".join(f"{x(workload.median(a, waits))},{y(workload.median(a, gaps))}" for a in ladder)
    yield f'<polyline points="{path}" fill="none" stroke="{COLOURS["fixed"]}"/>'
    for arm in (*ladder, *(kind for kind, _ in workload.arms() if kind != "fixed")):
        colour = COLOURS["fixed" if arm in ladder else arm]
        for row in workload.of(arm):
            yield (
                f'<circle cx="{x(row[waits])}" cy="{y(row[gaps])}" r="2" fill="{colour}" '
                'fill-opacity="0.4"/>'
            )
        yield (
            f'<circle cx="{x(workload.median(arm, waits))}" cy="{y(workload.median(arm, gaps))}" '
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
