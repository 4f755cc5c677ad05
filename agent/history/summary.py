"""The terminal summary: what was read, what each query should have, what went wrong."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.core.names import plain
from agent.history.findings import in_words

if TYPE_CHECKING:
    from agent.history.findings import Findings, Record
    from agent.history.job import Outcome

MOST_QUERIES: Final = 20
MOST_SKIPPED: Final = 5
#: Where the output is no terminal.
WIDTH: Final = 140


def show(found: Findings, outcome: Outcome, out: TextIO) -> None:
    """Writes the summary."""
    console = Console(file=out, width=None if out.isatty() else WIDTH, highlight=False)
    console.print(_read(found, outcome))
    if found.queries:
        console.print(_queries(found))
    if found.without_batch:
        console.print(_without_batch(found))
    if found.queries or found.incidents_known:
        console.print(_incidents(found))
    if outcome.doubled:
        console.print(_doubled(outcome))
    if outcome.skipped:
        console.print(_skipped(outcome))
    console.print(Text(f"tables and report: {outcome.out}", style="bold"))


def _read(found: Findings, outcome: Outcome) -> Text:
    said = Text()
    plural = "" if outcome.files == 1 else "s"
    new = f"{outcome.files} new log file{plural}, {outcome.bytes / 1e6:,.1f} MB"
    said.append(new if outcome.files else "no new log file", style="bold")
    if outcome.known:
        said.append(f"; {outcome.known} read before")
    if found.begin is not None and found.end is not None:
        said.append(
            f"\n{found.batches:,} batches of {found.queries_known} queries, "
            f"{moment(found.begin)} to {moment(found.end)} UTC"
        )
    return said


def _queries(found: Findings) -> Table:
    table = Table(
        title="What each query should have", title_justify="left", box=None, padding=(0, 1)
    )
    table.add_column("query", no_wrap=True, max_width=40)
    for name in ("batches", "p95 s", "over target", "c0 s", "rows/s", "limit rows", "would take s"):
        table.add_column(name, justify="right", no_wrap=True)
    crewed = any(one.advised.get("executor_hours_a_day") is not None for one in found.queries)
    if crewed:
        table.add_column("executor-h/24 h run", justify="right", no_wrap=True)
    table.add_column("worst hour", no_wrap=True)
    table.add_column("why", max_width=44)
    for one in found.queries[:MOST_QUERIES]:
        told = one.advised
        worst = one.worst_hours
        table.add_row(
            Text(f"{one.application}/{one.query}"),
            f"{told['batches']:,}",
            number(told["batch_seconds_p95"]),
            f"{100 * (told['over_target_share'] or 0):.0f} %",
            number(told["fixed_cost_seconds"]),
            number(told["throughput_rows_per_second"]),
            Text(limit(told), style="bold"),
            number(told["expected_seconds"]),
            *([_crew(told)] if crewed else []),
            moment(worst[0]["hour_time"]) if worst else "",
            Text(told["advice"] if told["limit_rows"] is None else told["limit_reason"]),
        )
    if found.queries_known > MOST_QUERIES:
        table.caption = f"{found.queries_known - MOST_QUERIES} more in the table recommendations"
    return table


def _crew(told: Record) -> Text:
    had, wanted = told.get("executor_hours_a_day"), told.get("executor_hours_a_day_wanted")
    return Text("-" if had is None else f"{number(had)} → {number(wanted)}")


def _incidents(found: Findings) -> Text:
    if not found.incidents_known:
        return Text("no incident", style="green")
    said = Text("incidents: ", style="bold red")
    said.append(in_words(found.incidents_known), style="default")
    return said


def _without_batch(found: Findings) -> Text:
    said = Text("without a batch that read rows:\n", style="bold red")
    for one in found.without_batch[:MOST_QUERIES]:
        said.append(f"  {one.application}/{one.query}: {one.told}\n", style="default")
    said.rstrip()
    return said


def _doubled(outcome: Outcome) -> Text:
    first, counted = outcome.doubled[0]
    plural = "" if len(outcome.doubled) == 1 else "s"
    said = f"{len(outcome.doubled)} log{plural} not counted, as another tells the same; first: "
    return Text(plain(f"{said}{first}, which {counted} stands for"))


def _skipped(outcome: Outcome) -> Text:
    files = len({one.file for one in outcome.skipped})
    lines = sum(one.lines for one in outcome.skipped)
    whole = sum(not one.lines for one in outcome.skipped)
    first = outcome.skipped[0]
    said = Text()
    what = f"{files} files with what cannot be used"
    said.append(f"{what}: {whole} left out, {lines} lines in others\n", style="bold yellow")
    said.append(plain(f"first: {first.file}: {first.reason}"))
    return said


def moment(seconds: float) -> str:
    """A time in UTC, to the minute."""
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M}"


def limit(told: Record) -> str:
    """The limit to have, which of several sources is that of all of them."""
    said = number(told["limit_rows"])
    several = told["limit_rows"] is not None and (told.get("sources") or 1) > 1
    return f"{said} in all" if several else said


def number(value: Any) -> str:
    """A figure with three digits that count, or a dash for what is unknown."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
