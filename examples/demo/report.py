"""The table at the end: the same bursts as configured and under Weir, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.demo.feed import Arrival
    from examples.demo.measure import Figures
    from examples.demo.watch import Watched


@dataclass(frozen=True)
class Half:
    """What came of one half."""

    arrivals: list[Arrival]
    progress: list[dict[str, Any]]
    watched: Watched
    figures: Figures


def seconds(value: float) -> str:
    """One decimal is what a person can feel."""
    return f"{value:.1f} s"


def whole(value: float) -> str:
    """With a comma every three digits."""
    return f"{value:,.0f}"


ROWS: tuple[tuple[str, Callable[[Figures], float], Callable[[float], str]], ...] = (
    ("Batch time, p50", lambda f: f.batch_p50_seconds, seconds),
    ("Batch time, p99", lambda f: f.batch_p99_seconds, seconds),
    ("Batch time, longest", lambda f: f.batch_max_seconds, seconds),
    ("Batches over 150 % of the target", lambda f: f.over_target, whole),
    ("Longest time without a result", lambda f: f.longest_gap_seconds, seconds),
    ("A row waits for its result, p50", lambda f: f.row_wait_p50_seconds, seconds),
    ("A row waits for its result, p99", lambda f: f.row_wait_p99_seconds, seconds),
    ("Rows in flight at most: what a crash repeats", lambda f: f.largest_batch_rows, whole),
    ("Rows arrived without a result, peak", lambda f: f.peak_unfinished_rows, whole),
    ("Batches", lambda f: f.batches, whole),
    ("Rows", lambda f: f.rows, whole),
    ("Rows left over at the end", lambda f: f.rows_left, whole),
    ("Rows per second of work", lambda f: f.rows_per_busy_second, whole),
)


def table(
    before: Figures, after: Figures, seen: tuple[Watched, Watched], target_seconds: float
) -> Table:
    """Spark's own progress events make the figures; the last rows are the agent's."""
    result = Table(
        title=f"The same bursts twice · target {target_seconds:g} s a batch",
        box=SIMPLE_HEAD,
        title_style="bold",
        title_justify="left",
    )
    result.add_column("")
    result.add_column("as configured", justify="right")
    result.add_column("under Weir", justify="right", style="bold")
    for name, value_of, shown in ROWS:
        result.add_row(name, shown(value_of(before)), shown(value_of(after)))
    result.add_section()
    peaks = [watched.peak_backlog_rows for watched in seen]
    result.add_row(
        "Waiting at the source, peak, as Weir saw it",
        *("unknown" if peak is None else whole(peak) for peak in peaks),
    )
    result.add_row("Times Weir moved the limit", *(whole(watched.moves) for watched in seen))
    return result


def closing(first: Half, second: Half) -> list[str]:
    """What the table means, whether two counts agree, and where to look further."""
    before, after = first.figures, second.figures
    longest = f"{seconds(before.longest_gap_seconds)} without a result"
    lines = [
        f"As configured, a burst means {longest}; under Weir {seconds(after.longest_gap_seconds)}."
    ]
    for name, half in (("as configured", first), ("under Weir", second)):
        rows, batches = half.watched.counted
        agree = (rows, batches) == (half.figures.rows, half.figures.batches)
        lines.append(
            f"Counted by the agent, {name}: {whole(batches)} batches, {whole(rows)} rows; "
            + ("the same as Spark's." if agree else "Spark says otherwise, see above.")
        )
    lines += [
        "",
        "Look further: `make demo KEEP=1` keeps the job, the status page and `weir top` going;",
        "README.md tells how to watch a job of your own: by its configuration, or one line in it.",
    ]
    return lines
