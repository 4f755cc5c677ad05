"""The command ``weir compare``: from an agent's last batches, or from recordings."""

from __future__ import annotations

import fnmatch
import io
from collections import defaultdict
from typing import TYPE_CHECKING, TextIO, TypeVar

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from agent.compare import Comparison, compare
from agent.core.figures import figure
from agent.core.judge.attention import LATE_TARGETS
from agent.core.names import label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.client import ClientSettings
    from agent.core.fleet import Fleet, Key, Receipt
    from agent.core.judgement import Point, QueryView
    from agent.core.policy import QueryPolicy

_Named = TypeVar("_Named", "QueryView", Comparison)


def of_agent(settings: ClientSettings, wanted: str) -> list[Comparison]:
    """The queries that a name or pattern fits, by an agent's last batches.

    Raises WrongUse, AgentUnavailable.
    """
    from agent.client import AgentClient, WrongUse
    from agent.export.terminal.poll import FULL_HISTORY
    from agent.export.terminal.snapshot import NotAnAgent, read_answer

    with AgentClient(settings) as client:
        try:
            views = read_answer(client.queries(history=FULL_HISTORY)).views
        except NotAnAgent as error:
            raise WrongUse(str(error)) from None
    found = _chosen(views, wanted)
    if not found:
        known = ", ".join(sorted(f"{view.application}/{view.query}" for view in views)[:5])
        raise WrongUse(f"no query {wanted!r}; known: {known or 'none'}")
    return [compare(view, view.history) for view in found]


def of_recordings(
    files: Iterable[str], settings: QueryPolicy, wanted: str
) -> tuple[list[Comparison], list[str]]:
    """The same of recorded events, and where files broke off. Raises as ``replay_files``."""
    from agent.replay import replay_files

    points = _Points()
    dry = msgspec.structs.replace(settings, mode="dry-run")
    broken = replay_files(files, dry, io.BytesIO(), points)
    found = [compare(view, points.of[view.application, view.query]) for view in points.views]
    return _chosen(found, wanted), broken


class _Points:
    """Collects the batches of a replay."""

    def __init__(self) -> None:
        self.of: dict[Key, list[Point]] = defaultdict(list)
        self.views: list[QueryView] = []

    def take(self, receipt: Receipt, _: Fleet) -> None:
        """What the events of one request led to."""
        for key, point in receipt.batches:
            self.of[key].append(point)

    def end(self, views: Iterable[QueryView]) -> None:
        """Every query, as it was known last."""
        self.views = list(views)


def _chosen(known: Iterable[_Named], wanted: str) -> list[_Named]:
    """Those of this very name, where there are some, else those that the pattern fits."""
    names = [(one, (one.query, f"{one.application}/{one.query}")) for one in known]
    exact = [one for one, own in names if wanted in own]
    return exact or [one for one, own in names if any(fnmatch.fnmatchcase(n, wanted) for n in own)]


def show(found: list[Comparison], out: TextIO) -> None:
    """For people: a table for each query."""
    console = Console(file=out, highlight=False)
    for number, one in enumerate(found):
        if number:
            console.print()
        name = "/".join(map(label, (one.application, one.query)))
        happened, would_be, fit = one.happened, one.would_be, one.fit
        if happened is None or would_be is None or fit is None:
            console.print(f"{name}: nothing to compare: {one.missing}", markup=False)
            continue
        assert one.from_time is not None
        assert one.to_time is not None
        minutes = (one.to_time - one.from_time) / 60.0
        console.print(
            f"{name}: its last {happened.batches:,} batches, {figure(minutes)} min,"
            f" target {figure(one.target_seconds or 0.0)} s",
            markup=False,
        )
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
        table.add_column("")
        table.add_column("happened", justify="right")
        table.add_column("as Weir would have it, about", justify="right")
        sides = (happened, would_be)
        table.add_row("longest batch", *(f"{figure(one.longest_seconds)} s" for one in sides))
        table.add_row("95 % of batches within", *(f"{figure(one.p95_seconds)} s" for one in sides))
        table.add_row("batches", *(f"{one.batches:,}" for one in sides))
        late = f"of them over {LATE_TARGETS:g} times the target"
        table.add_row(late, *(f"{one.late_batches:,}" for one in sides))
        table.add_row("largest batch", *(f"{one.largest_rows:,} rows" for one in sides))
        table.add_row("all batches together", *(f"{figure(one.total_seconds)} s" for one in sides))
        console.print(table)
        console.print(
            f"By a fixed cost of {figure(one.fixed_cost_seconds or 0.0)} s a batch and"
            f" {figure(one.throughput_rows_per_second or 0.0)} rows/s beyond; the batches that ran"
            f" took {fit.median:.2f} times what this says (9 of 10: {fit.low:.2f} to"
            f" {fit.high:.2f}).",
            soft_wrap=True,
        )
