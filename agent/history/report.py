"""The report: one HTML file with everything in it, in light and dark, from what was found."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent import __version__
from agent.history import plots
from agent.history.summary import limit, moment, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agent.history.findings import Findings, QueryFindings, Record
    from agent.history.job import Outcome

#: Queries shown open; more are folded.
OPEN: Final = 3
MOST_SKIPPED: Final = 10
_PALETTE_ENDS: Final = "* { box-sizing"


def html(found: Findings, outcome: Outcome) -> str:
    """The whole file. Names come from logs: everything is escaped."""
    style = files("agent.export.page").joinpath("assets/style.css").read_text(encoding="utf-8")
    own = files("agent.history").joinpath("assets/report.css").read_text(encoding="utf-8")
    palette = style.partition(_PALETTE_ENDS)[0]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<title>Weir history</title>",
        f"<style>{palette}{own}</style></head><body>",
        _head(found, outcome),
        '<main class="wide">',
        _overview(found),
        *(_query(one, place) for place, one in enumerate(found.queries)),
        "</main>",
        (
            f'<footer class="wide">Weir {escape(__version__)} · times in UTC · the same in tables '
            f"beside this file: {escape(outcome.out)}</footer>"
        ),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _head(found: Findings, outcome: Outcome) -> str:
    when = "no batch was found"
    if found.begin is not None and found.end is not None:
        when = f"{moment(found.begin)} to {moment(found.end)} UTC"
    incidents = sum(found.incidents_known.values())
    over = sum(
        (one.advised["over_target_share"] or 0.0) * one.advised["batches"] for one in found.queries
    )
    judged = sum(one.advised["batches"] for one in found.queries)
    share = over / judged if judged else 0.0
    figures = [
        ("batches", f"{found.batches:,}", ""),
        ("queries", f"{found.queries_known:,}", ""),
        ("over the target", f"{share:.0%}", "low" if share > 0.1 else "ok"),
        ("incidents", f"{incidents:,}", "high" if incidents else "ok"),
    ]
    told = "".join(
        f"<div{_tone(tone)}><dt>{name}</dt><dd>{value}</dd></div>" for name, value, tone in figures
    )
    return (
        f'<header><div class="wide"><h1>Weir history</h1><p class="when">{when}</p>'
        f'<dl class="figures">{told}</dl>{_skipped(outcome)}{_doubled(outcome)}</div></header>'
    )


def _skipped(outcome: Outcome) -> str:
    if not outcome.skipped:
        return ""
    count = len({one.file for one in outcome.skipped})
    items = "<br>".join(
        escape(f"{one.file}: {one.reason}" + (f" ({one.lines} lines)" if one.lines else ""))
        for one in outcome.skipped[:MOST_SKIPPED]
    )
    return (
        f'<div class="note" data-tone="low"><strong>{count} files with what could not be used'
        f"</strong><br>{items}</div>"
    )


def _doubled(outcome: Outcome) -> str:
    if not outcome.doubled:
        return ""
    items = "<br>".join(
        escape(f"{one}: {counted} is counted") for one, counted in outcome.doubled[:MOST_SKIPPED]
    )
    return (
        f'<div class="note"><strong>{len(outcome.doubled)} logs tell the same as others, and are'
        f" not counted</strong><br>{items}</div>"
    )


def _overview(found: Findings) -> str:
    without = _without_batch(found)
    if not found.queries:
        none = '<section class="card"><h2>No query</h2><p>The logs tell of no batch.</p></section>'
        return without or none
    rows = []
    for place, one in enumerate(found.queries):
        told = one.advised
        share = 100.0 * (told["over_target_share"] or 0.0)
        tone = "high" if share > 50 else "low" if share > 10 else "ok"
        worst = one.worst_hours
        bad = len(one.incidents)
        rows.append(
            f'<tr><td><a href="#q{place}"><b>{escape(one.query)}</b></a> '
            f'<span class="of">{escape(one.application)}</span></td>'
            f"<td>{told['batches']:,}</td><td>{number(told['batch_seconds_p95'])} s</td>"
            f'<td><span class="share" data-tone="{tone}" style="--share:{share:.0f}">'
            f"{share:.0f} %<i></i></span></td>"
            f"<td><b>{limit(told)}</b></td>"
            f"<td>{number(told['expected_seconds'])} s</td>"
            f"<td>{moment(worst[0]['hour_time']) if worst else ''}</td>"
            f"<td>{_chip(str(bad), 'high') if bad else _chip('none', 'ok')}</td></tr>"
        )
    more = found.queries_known - len(found.queries)
    rest = f'<p class="when">{more} more in the table recommendations</p>' if more > 0 else ""
    head = _heads(
        "query", "batches", "p95", "over the target", "limit to have, rows", "then takes",
        "worst hour", "incidents",
    )  # fmt: skip
    title = "What each query should have"
    table = _scrolled(title, f"<table>{head}{''.join(rows)}</table>")
    return f'<section class="card"><h2>{title}</h2>{table}{rest}</section>{without}'


def _without_batch(found: Findings) -> str:
    if not found.without_batch:
        return ""
    rows = "".join(
        f'<tr><td><b>{escape(one.query)}</b> <span class="of">{escape(one.application)}</span></td>'
        f"<td>{_chip(escape(one.told), 'high')}</td></tr>"
        for one in found.without_batch
    )
    title = "Without a batch that read rows"
    table = _scrolled(title, f"<table>{_heads('query', 'incidents')}{rows}</table>")
    return f'<section class="card"><h2>{title}</h2>{table}</section>'


def _query(one: QueryFindings, place: int) -> str:
    told = one.advised
    figures = []
    if one.points:
        target = told["target_seconds"]
        figures = [
            _figure(
                "Batch duration, mean and longest",
                f"p95 {number(told['batch_seconds_p95'])} s",
                plots.durations(one.points, target, one.incidents),
            ),
            _figure(
                "Rows of a batch, and the limit Weir would have set",
                _counted(told["decisions"], "move"),
                plots.sizes(one.points),
            ),
            _figure(
                "What a batch costs, by its rows",
                f"{number(told['fixed_cost_seconds'])} s + rows / "
                f"{number(told['throughput_rows_per_second'])}/s",
                plots.cost(one.points, told),
            ),
        ]
        if one.hours:
            if any(hour.get("executors_wanted") is not None for hour in one.hours):
                figures.append(
                    _figure(
                        "Executors it had, and those Weir would have asked for",
                        f"{number(told['executors_wanted_max'])} at most",
                        plots.executors(one.hours),
                    )
                )
            figures.append(
                _figure(
                    "Hours, by their 95th percentile over the target",
                    _counted(len(one.hours), "hour"),
                    plots.hours(one.hours, target),
                )
            )
    ratio = told.get("surely_required_ratio")
    tone = "high" if ratio is not None and ratio > 1.0 else "ok"
    reason = None if told["limit_rows"] is None else told["limit_reason"]
    chip = "cannot keep up" if tone == "high" else escape(reason or "too little seen")
    return (
        f'<details class="card" id="q{place}"{" open" if place < OPEN else ""}>'
        f'<summary><h2>{escape(one.query)} <span class="of">{escape(one.application)}</span></h2>'
        f"{_chip(chip, tone)}</summary>"
        f'<p class="advice">{escape(told["advice"])}</p>{_crew(told)}'
        f'<div class="plots">{"".join(figures)}</div>'
        f"{_worst(one)}{_incidents(one.incidents)}{_waits(one.stages)}{_decisions(one.decisions)}"
        "</details>"
    )


def _crew(told: Record) -> str:
    had, wanted = told.get("executor_hours_a_day"), told.get("executor_hours_a_day_wanted")
    if had is None or wanted is None:
        return ""
    said = (
        f"Executors: {number(had)} executor-hours for each 24 hours in which it ran, "
        f"{number(wanted)} with those that Weir would have asked for."
    )
    words = files("agent.export.page").joinpath("assets/words.json").read_bytes()
    bounds = msgspec.json.decode(words)["executor_bounds"]
    why = bounds.get(told["executors_bound"], "").format(wanted=told["executors_wanted_max"])
    return f'<p class="advice">{escape(f"{said} {why}".strip())}</p>'


def _worst(one: QueryFindings) -> str:
    rows = [
        (
            moment(hour["hour_time"]),
            f"{hour['batches']:,}",
            f"{number(hour['batch_seconds_p95'])} s",
            f"{number(hour['batch_seconds_max'])} s",
            f"{hour['batches_over_target']:,}",
            f"{100 * hour['busy_share']:.0f} %",
            number(hour["arrival_rows_per_second"]),
            number(hour["limit_rows"]),
        )
        for hour in one.worst_hours
    ]
    head = _heads(
        "hour", "batches", "p95", "longest", "over the target", "busy", "arrived, rows/s",
        "limit it asked for",
    )  # fmt: skip
    return _table("Worst hours", head, rows)


def _incidents(records: Sequence[Record]) -> str:
    rows = [
        (
            moment(one["begin_time"]),
            f"{one['kind']} {one['detail']}",
            f"{number(one['seconds'])} s",
            f"{one['events']:,}",
            one["evidence"],
        )
        for one in records[:10]
    ]
    return _table("Incidents", _heads("from", "what", "for", "events", "evidence"), rows, text=True)


def _waits(records: Sequence[Record]) -> str:
    rows = [
        (
            f"batch {one['batch_id']}, stage {one['stage']}",
            f"{number(one['wait_seconds'])} s",
            f"{number(one['skew_ratio'])} times",
            f"{one['partition']} on {one['host']}",
            one["advice"],
        )
        for one in records
    ]
    head = _heads("stage", "waited", "slowest over median", "partition", "what would help")
    return _table("Longest waits for one task", head, rows, text=True)


def _decisions(records: Sequence[Record]) -> str:
    rows = [
        (
            f"after batch {one['batch_id']}",
            "none" if one["limit_from"] is None else f"{one['limit_from']:,}",
            "none" if one["limit_to"] is None else f"{one['limit_to']:,}",
            one["reason"],
            one["detail"],
        )
        for one in records
    ]
    head = _heads("when", "limit from", "to, rows", "reason", "figures")
    return _table("What Weir would have done, the last first", head, rows, text=True)


def _table(title: str, head: str, rows: Iterable[Sequence[Any]], *, text: bool = False) -> str:
    told = []
    for row in rows:
        cells = [f"<td>{escape(str(value))}</td>" for value in row]
        if text:
            cells[-1] = f'<td class="text">{escape(str(row[-1]))}</td>'
        told.append(f"<tr>{''.join(cells)}</tr>")
    if not told:
        return ""
    kind = ' class="text"' if text else ""
    body = f"<table{kind}>{head}{''.join(told)}</table>"
    return f"<h3>{title}</h3>{_scrolled(title, body)}"


def _scrolled(title: str, table: str) -> str:
    """A table in a frame that the keyboard reaches, since on a narrow page it has to be moved."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{title}">{table}</div>'


def _heads(*names: str) -> str:
    return f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in names)}</tr>"


def _figure(title: str, now: str, svg: str) -> str:
    said = f"<figcaption><span>{escape(title)}</span><b>{escape(now)}</b></figcaption>"
    return f"<figure>{said}{svg}</figure>"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def _chip(text: str, tone: str) -> str:
    return f'<span class="chip" data-tone="{tone}">{text}</span>'


def _tone(tone: str) -> str:
    return f' data-tone="{tone}"' if tone else ""
