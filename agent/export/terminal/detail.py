"""The details of one query: alarm, flow, plots, capacity, decisions, checkpoint, gaps."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

from agent.export.terminal.cells import (
    STYLES,
    begin,
    columns,
    fit,
    name,
    share_bar,
    wrap,
    wrap_cells,
)
from agent.export.terminal.format import (
    UNKNOWN,
    clock,
    count,
    duration,
    is_known,
    percent,
    quantity,
    rate,
    visible,
)
from agent.export.terminal.order import Entry, batch_tone, shares
from agent.export.terminal.steer import command, runbook_of, steered
from agent.export.terminal.words import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.core.judgement import Decision, FailureView, QueryView, SourceView

_SHOWN_SOURCES: Final = 4
_PLOTS: Final = 3
_TALLEST_PLOT: Final = 5
_LEAST_POINTS: Final = 6  # fewer are no picture
_DESCRIPTION = re.compile(r"([\w.$]+?)(?:V2)?\[(.*)\]", re.ASCII | re.DOTALL)
_SUBSCRIBE = re.compile(r"Subscribe(?:Pattern)?\[(.*)\]", re.DOTALL)


def detail(
    entry: Entry, now: float, width: int, room: int, *, url: str = "", stretch: bool = True
) -> list[Text]:
    """The pane of one query, at most ``room`` lines, what matters most first.

    ``url`` is the agent's. With ``stretch`` the plots grow into what room is left.
    """
    if room <= 0:
        return []
    view = entry.view
    title = begin("── ", "dim")
    title.append(name(view.query, 100), "bold")
    title.append(f" of {name(view.application, 80)} ", "dim")
    title.append(f"{entry.level.symbol} {entry.level.label} ", STYLES[entry.level.tone])
    title.append("─" * max(0, width - title.cell_len), "dim")
    before = [
        *_alarm(entry, now, width, url),
        *_steering(entry, now, width, url),
        *_flow(entry, now, width),
    ]
    after = [
        *_capacity(entry, now, width),
        *_partitions(view, width),
        *_decisions(view, now, width),
        *_checkpoint(view, width),
        *_missing(view, width),
    ]
    spare = room - 1 - len(before) - _PLOTS - len(after) if stretch else 0
    tall = 1 + min(_TALLEST_PLOT - 1, max(0, spare) // _PLOTS)
    if len(view.history) < _LEAST_POINTS:
        tall = 1
    return [title, *before, *_plots(entry, width, tall), *after][:room]


def _alarm(entry: Entry, now: float, width: int, url: str) -> list[Text]:
    view = entry.view
    style = STYLES[entry.level.tone]
    said: list[str] = []
    running = view.running_seconds if view.up else None
    if entry.level.name in ("hung", "late") and running is not None:
        text = f"Batch {view.running_batch_id} has been running for {duration(running)}"
        if view.target_seconds:
            times = count(running / view.target_seconds)
            text += f": {times} times the target of {duration(view.target_seconds)}"
        if view.deadline_seconds is not None and running > view.deadline_seconds:
            text += f", past the deadline of {duration(view.deadline_seconds)}"
        said.append(text + ".")
    elif entry.level.name == "hung":
        said.append("The query stands still: data waits, and no batch runs.")
    if view.failure is not None:
        cause = words().causes.get(view.failure.cause, "an unknown cause")
        said.append(f"Ended by {cause}{_axes(view.failure)}: {name(view.failure.evidence, 400)}")
    if entry.level.name == "lost" and view.state == "terminated":
        said.append("The driver ended while the query ran: nobody had stopped it.")
    elif entry.level.name == "lost":
        since = ""
        if view.last_event_time is not None:
            since = f" since {clock(view.last_event_time)} ({duration(now - view.last_event_time)})"
        said.append(
            f"No word from the driver{since}. It was killed, or it cannot reach this agent."
        )
    if view.spiral.phase in ("spiralling", "timing_out", "dead"):
        phase = words().spirals[view.spiral.phase]
        said.append(f"Checkpoint spiral: {phase}. {spiral_words(view)}".rstrip())
    if entry.level.name == "overloaded":
        said.append(" ".join(capacity_words(view)[:-1]))
    book = runbook_of(view)
    if book is not None and not said:
        said.append(f"{_upper(entry.level.means)}.")
    drawn = [Text(f" {line}", style) for text in said for line in wrap(text, width - 2)]
    if book is not None and url:
        line = begin(" What to do: ", "bold")
        line.append(f"{name(url, 100)}/runbooks/{book}", "cyan underline")
        drawn += wrap_cells(line, width)
    return drawn


def _axes(failure: FailureView) -> str:
    """Where a run failed and what it ran into, as far as either is known."""
    known = (words().places.get(failure.where), words().happenings.get(failure.what))
    said = ": ".join(word for word in known if word)
    return f" ({said})" if said else ""


def spiral_words(view: QueryView) -> str:
    """What shows the spiral, with its figures."""
    spiral = view.spiral
    said = [f"{_upper(name(spiral.evidence, 400))}."] if spiral.evidence else []
    if spiral.phase != "spiralling" and spiral.gain is not None:
        said.append(f"Loop gain {count(spiral.gain)}.")
    if spiral.replay_amplification > 1:
        again = count(spiral.replay_amplification)
        said.append(f"{again} rows were attempted for each row committed.")
    return " ".join(said)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _steering(entry: Entry, now: float, width: int, url: str) -> list[Text]:
    """Who holds it, or keeps Weir from acting, why, and the command that ends it."""
    view = entry.view
    if entry.level.name == "ended":
        return []
    drawn: list[Text] = []
    for one in steered(view, now):
        lines = [Text(f" {line}", "yellow") for line in wrap(name(one.said, 400), width - 2)]
        typed = command(one.verb, view, url) if url and view.up and view.control == "live" else None
        if typed is not None:
            says = begin(f" {words().steered[one.verb]}", "")
            said = says.copy().append(" ").append(typed, "bold")
            if lines[-1].cell_len + said.cell_len <= width:
                lines[-1].append_text(said)
            elif said.cell_len <= width:
                lines.append(said)
            else:
                lines += [says, *_typed(typed, width)]
        drawn += lines
    return drawn


def _typed(command: str, width: int) -> list[Text]:
    """A command whole, in lines that a shell takes for one."""
    lines = [""]
    for word in map(shlex.quote, shlex.split(command)):
        if cell_len(f"{lines[-1]} {word} \\ ") > width:
            lines[-1] += " \\"
            lines.append("")
        lines[-1] += f" {word}"
    return [part for line in lines for part in wrap_cells(Text(line, "bold"), width)]


def describe(description: str) -> tuple[str, str]:
    """Kind and short name: ``KafkaV2[Subscribe[orders]]`` is ``("Kafka", "orders")``."""
    found = _DESCRIPTION.fullmatch(description)
    if found is None:
        plain = description.split("@", maxsplit=1)[0].rsplit(".", 1)[-1]
        return "", plain or description
    last = found[1].rsplit(".", 1)[-1]
    kind = re.sub(r"(Stream)?(Source|Sink)(Provider)?$", "", last) or found[1]
    subscribed = _SUBSCRIBE.fullmatch(found[2])
    inner = subscribed[1] if subscribed else found[2]
    parts = [part for part in inner.split("/") if part]
    return kind, "/".join(parts[-2:]) if len(parts) > 1 else inner or description


def source_tone(source: SourceView, view: QueryView) -> str:
    """A source is pressed as far as its limit holds back what waits there."""
    if not view.up:
        return "idle"
    if source.backlog is None:
        return "unknown"
    if source.backlog == 0 or source.limit is None or source.backlog <= source.limit:
        return "ok"
    return "low" if view.pressure == "ok" else view.pressure


_SYMBOLS: Final = {"ok": "●", "low": "◆", "high": "▲", "idle": "○", "unknown": "?"}


def limit_text(source: SourceView, view: QueryView) -> str:
    """The source's limit in force, and the one granted next where it differs."""
    if not source.limit_known:
        if source.control == "live":
            return "limit unknown"
        return words().controls.get(source.control, "limit unknown")
    changes = view.up and source.granted is not None and source.granted != source.limit
    if source.limit is None:
        now = "no limit"
    else:
        now = f"limit {count(source.limit) if changes else quantity(source.limit, source.unit)}"
    would_be = source.would_be not in (None, source.limit)
    if view.mode == "dry-run" and would_be and not changes:
        return f"{now}, would be {count(source.would_be)}"
    return f"{now} → {quantity(source.granted, source.unit)}" if changes else now


def _flow(entry: Entry, now: float, width: int) -> list[Text]:
    """Sources, then the query below them, then the sink below it."""
    view = entry.view
    drawn: list[Text] = []
    sources = view.sources[:_SHOWN_SOURCES]
    labels = []
    for source in sources:
        kind, short = describe(source.description or f"source {source.index}")
        labels.append(name(f"{short} ({kind})" if kind else short, 60))
    wide = min(max((len(label) for label in labels), default=0), max(12, width // 3))
    for source, label in zip(sources, labels, strict=True):
        tone = source_tone(source, view)
        line = Text(" ")
        line.append(f"{_SYMBOLS[tone]} ", STYLES[tone])
        line.append(fit(label, wide), "bold")
        bound = "≥ " if source.backlog_bound == "lower" else ""
        waiting = (
            f"{bound}{quantity(source.backlog, source.unit)} waiting"
            if source.backlog is not None
            else "backlog unknown"
        )
        line.append(f"  {fit(waiting, 19)}", "" if tone in ("ok", "idle") else STYLES[tone])
        line.append(f" {limit_text(source, view)}")
        if view.up and source.arrival_rows_per_second is not None:
            line.append(f"  {rate(source.arrival_rows_per_second)}", "dim")
        drawn.append(line)
    if len(view.sources) > len(sources):
        drawn.append(Text(f"   and {len(view.sources) - len(sources)} more sources", "dim"))
    query = begin(" └▶ ", "dim")
    style = STYLES[entry.level.tone]
    query.append(f"{entry.level.symbol} ", style)
    if entry.level.name == "lost":
        query.append("last known: ", style)
    query.append(words().states.get(view.state, view.state), f"{style} bold")
    if view.up and view.running_seconds is not None:
        query.append(f", batch {view.running_batch_id} for {duration(view.running_seconds)}")
    part = shares(view, now) if view.up else None
    if part is not None:
        if width < 100:
            drawn.append(query)
            query = Text("     ")
        else:
            query.append("  ")
        bar = share_bar(
            [
                (part.busy, "█", "cyan"),
                (part.backpressured, "▓", "red"),
                (part.idle, "░", "dim"),
            ],
            12,
        )
        query.append_text(bar)
        query.append(f" busy {percent(part.busy)}", "cyan")
        query.append(f" backpressured {percent(part.backpressured)}", "red")
        query.append(f" idle {percent(part.idle)}", "dim")
    drawn.append(query)
    kind, short = describe(view.sink or "sink unknown")
    failure = view.failure
    broken = failure is not None and failure.cause == "external_sink" and failure.where != "source"
    still = entry.level.still
    tone = "high" if broken else "idle" if still else "ok"
    sink = begin("    └▶ ", "dim")
    sink.append(f"{_SYMBOLS[tone]} ", STYLES[tone])
    sink.append(name(f"{short} ({kind})" if kind else short, 60), "bold")
    rows = quantity(view.batch_rows, "rows")
    if still and view.last_progress_time is not None:
        sink.append(f"  last {rows} {duration(now - view.last_progress_time)} ago")
    else:
        sink.append(f"  {rate(view.processed_rows_per_second)}, {rows} in the last batch")
    drawn.append(sink)
    return drawn


def _plots(entry: Entry, width: int, tall: int) -> list[Text]:
    """Batch time, backlog and limit, each ``tall`` lines high; figures beside the last line."""
    view = entry.view
    seconds, running = batch_now(view)
    batch = Text().append(f"{duration(seconds)}{' and running' if running else ''}", "bold")
    batch.append(f", target {duration(view.target_seconds)}")
    if view.deadline_seconds is not None:
        batch.append(f", deadline {duration(view.deadline_seconds)}")
    waiting = [point.backlog_rows for point in view.history]
    if view.up:
        waiting.append(view.backlog_rows)
    backlog = Text().append(f"{about(view)}{quantity(view.backlog_rows, 'rows')}", "bold")
    if view.backlog_seconds:
        backlog.append(f", {duration(view.backlog_seconds)} behind")
    consumed = not entry.level.still and view.estimated_time_to_consume_seconds
    if consumed and view.backlog_rows:
        backlog.append(f", caught up in {duration(view.estimated_time_to_consume_seconds)}")
    unit = view.limit.unit or "rows"
    steps: list[float | None] = [point.limit for point in view.history]
    if view.up:
        steps.append(view.limit.current)
    unlimited = any(s.limit_known and s.limit is None for s in view.sources)
    now = "no limit" if unlimited else UNKNOWN
    if view.limit.current is not None:
        now = quantity(view.limit.current, unit)
    limit = Text().append(now, "bold")
    if view.limit.next is not None and view.limit.next != view.limit.current and view.up:
        arrow = ", would be" if view.mode == "dry-run" else " →"
        limit.append(f"{arrow} {quantity(view.limit.next, unit)}")
    for source in view.sources[:1] if view.mode == "on" else []:
        if source.exclusive_rows is not None or source.floating_rows is not None:
            own, shared = count(source.exclusive_rows), count(source.floating_rows)
            limit.append(f", credit {own} own + {shared} shared")
    # The figures beside the plots are read: they are cut last.
    beside = max(48, 12 + max(text.cell_len for text in (batch, backlog, limit)))
    room = max(10, min(60, width - beside, len(view.history) + 1))
    long, top = _batch_seconds(view)
    most = max((v for v in waiting if v), default=1.0)
    largest = 1.15 * max((v for v in steps if v), default=1.0)
    styles = _batch_styles(long, view)
    target = view.target_seconds
    return [
        *_plot("batch", columns(long, room, top, tall, styles, mark=target), batch),
        *_plot("backlog", columns(waiting, room, most, tall, ["cyan"] * len(waiting)), backlog),
        *_plot(
            "limit",
            columns(steps, room, largest, tall if any(steps) else 1, ["cyan"] * len(steps)),
            limit,
        ),
    ]


def _plot(title: str, drawn: list[Text], figures: Text) -> list[Text]:
    lines = []
    for number, line in enumerate(drawn):
        last = number == len(drawn) - 1
        text = begin(f" {title if last else '':<9}", "dim").append_text(line)
        lines.append(text.append("  ").append_text(figures) if last else text)
    return lines


def capacity_words(view: QueryView) -> list[str]:
    """Whether the target holds, and how much more capacity it would take; sentences."""
    text = words().capacity
    ratio = view.required_capacity_ratio
    if ratio is None or not is_known(ratio):
        said = [text["unknown"]]
    elif ratio > 1:
        said = [text["over"].format(ratio=count(ratio))]
        since = view.capacity_short_since_time
        if since is not None and view.last_event_time is not None:
            lasted = duration(max(0.0, view.last_event_time - since))
            said.append(text["over_since"].format(duration=lasted))
    else:
        said = [text["near" if ratio > 0.8 else "within"].format(percent=int(ratio * 100 + 0.5))]
    target = duration(view.target_seconds)
    if view.target_feasible is None:
        said.append(text["target_unknown"])
    else:
        said.append(
            text["feasible" if view.target_feasible else "infeasible"].format(target=target)
        )
    return said


def executors_words(view: QueryView) -> list[str]:
    """What the application runs on, what is needed, and what keeps more from helping; sentences."""
    told, text = view.executors, words().executors
    if told is None:
        return []
    note = text["note"].format(note=visible(told.note, 200))
    if not told.present:
        return [note] if told.mode != "off" and told.note else []
    enough = told.wanted == told.present
    kind = "have" if told.wanted is None else "enough" if enough else "wanted"
    said = [text[kind].format(present=told.present, slots=told.slots, wanted=told.wanted)]
    unsuited = told.note and (told.mode != "off" or not (enough or told.wanted is None))
    if unsuited:
        said.append(note)
    if told.wanted is None:
        return said
    if not enough and not unsuited:
        if told.mode != "on":
            said.append(text[told.mode])
        elif told.asked is not None:
            kind = "coming" if told.asked > told.present else "asked"
            said.append(text[kind].format(asked=told.asked))
    if told.bound in words().executor_bounds:  # a newer agent's may be another
        said.append(words().executor_bounds[told.bound].format(wanted=told.wanted))
    if told.in_vain is not None:
        vain = told.in_vain
        percent = int(100.0 * vain.rows_ratio + 0.5)
        said.append(text["in_vain"].format(before=vain.before, slots=vain.slots, percent=percent))
    return said


def _capacity(entry: Entry, now: float, width: int) -> list[Text]:
    view = entry.view
    over = view.required_capacity_ratio is not None and view.required_capacity_ratio > 1
    style = STYLES["high"] if over else STYLES["low"] if view.target_feasible is False else ""
    told = capacity_words(view)
    if entry.level.name == "overloaded":
        told = told[-1:]  # the alarm says the rest
    if entry.level.still:
        style, told = "dim", ["No batch has ended."]
        if view.last_progress_time is not None:
            told = [f"As of the last batch, {duration(now - view.last_progress_time)} ago:"]
    said = [Text(f" {line}", style) for line in wrap(" ".join(told), width - 2)]
    if not entry.level.still:
        runs_on = " ".join(name(said_of_it, 400) for said_of_it in executors_words(view))
        said += [Text(f" {line}") for line in wrap(runs_on, width - 2)] if runs_on else []
    figures = begin(" capacity ", "dim")
    figures.append(
        f"{rate(view.throughput_rows_per_second)} throughput, "
        f"{duration(view.fixed_cost_seconds)} fixed cost of a batch"
    )
    of_events = ", ".join(f"{of} {said_of_it}" for of, said_of_it in event_time_words(view))
    if not of_events:
        return [*said, figures]
    if figures.cell_len + len(of_events) + 2 <= width:
        return [*said, figures.append(f", {of_events}")]
    return [*said, figures, begin(" event time ", "dim").append(of_events)]


def event_time_words(view: QueryView) -> list[tuple[str, str]]:
    """How far event time is behind, and the latest row behind the newest before it, by name."""
    text = words().event_time
    said: list[tuple[str, str]] = []
    if view.watermark_lag_seconds is not None:
        lag = text["watermark"].format(lag=duration(view.watermark_lag_seconds))
        said.append(("watermark", lag))
    if view.lateness_seconds is not None:
        late, delay = duration(view.lateness_seconds), duration(view.watermark_delay_seconds)
        kind = "latest_only" if view.watermark_delay_seconds is None else "latest"
        said.append(("latest row", text[kind].format(late=late, delay=delay)))
    return said


def partitions_words(view: QueryView) -> list[str]:
    """What waits in partitions, and where most of it; sentences."""
    held, text = view.partitions, words().partitions
    if len(held) < 2:
        return []
    total = sum(one.backlog_rows for one in held)
    most = max(held, key=lambda one: one.backlog_rows)
    times = ""
    if total > (view.batch_rows or 0):
        # Of what one batch takes whole a partition's share says nothing.
        times = text["times"].format(times=count(most.backlog_rows * len(held) / total))
    figures = {
        "count": str(len(held)),
        "rows": quantity(total, "rows"),
        "name": f"{visible(most.topic, 60)}-{visible(most.partition, 20)}",
        "largest": quantity(most.backlog_rows, "rows"),
        "times": times,
    }
    said = [text["most" if total else "none"].format(**figures)]
    if view.partitions_age_seconds is not None:
        said.append(text["ago"].format(ago=duration(view.partitions_age_seconds)))
    lost = sum(one.lost_rows for one in held)
    if lost:
        said.append(text["lost"].format(rows=quantity(lost, "rows")))
    return said


def _partitions(view: QueryView, width: int) -> list[Text]:
    """One line: a column for each partition as they are told, then the sentences."""
    said = partitions_words(view)
    if not said:
        return []
    waiting: list[float | None] = [one.backlog_rows for one in view.partitions]
    room = min(len(waiting), max(10, width // 4))
    top = max(one.backlog_rows for one in view.partitions) or 1
    drawn = columns(waiting[:room], room, top, 1, ["cyan"] * room)[0]
    line = begin(" partitions ", "dim").append_text(drawn)
    rest = wrap(" ".join(map(name, said)), max(20, width - line.cell_len - 3))
    line.append(f"  {rest[0]}")
    return [line, *[Text(f" {' ' * 11}{more}") for more in rest[1:]]]


def _decisions(view: QueryView, now: float, width: int) -> list[Text]:
    if not view.decisions:
        reason = words().reasons.get(view.limit.reason, name(view.limit.reason, 40))
        return [begin(" decision ", "dim").append(reason)]
    drawn = []
    for decision in reversed(view.decisions[-5:]):
        age = fit(duration(max(0.0, now - decision.time)), 10, "right")
        line = begin(f" {age} ago  ", "dim")
        line.append(_change(decision), "bold")
        if len(view.sources) > 1:
            line.append(f" at source {decision.source}")
        line.append(f"  {words().reasons.get(decision.reason, name(decision.reason, 40))}")
        if not decision.acted:
            line.append(" (not acted on)", "yellow")
        if decision.detail and line.cell_len + 20 < width:
            line.append(f"  {name(decision.detail, 300)}", "dim")
        drawn.append(line)
    return drawn


def _change(decision: Decision) -> str:
    after = "no limit" if decision.after is None else quantity(decision.after, decision.unit)
    if decision.before == decision.after:
        return after
    before = "no limit" if decision.before is None else count(decision.before)
    return f"{before} → {after}"


def _checkpoint(view: QueryView, width: int) -> list[Text]:
    checkpoint = view.checkpoint
    line = begin(" checkpoint ", "dim").append(duration(checkpoint.seconds), "bold")
    longest = sorted(checkpoint.phases.items(), key=lambda item: (-item[1], item[0]))
    for phase, seconds in longest[: 3 if width < 100 else 6]:
        line.append(f"  {name(phase, 30)} {duration(seconds)}")
    if checkpoint.failures_consecutive:
        line.append(f"  {checkpoint.failures_consecutive} failures in a row", STYLES["high"])
    return [line]


def _missing(view: QueryView, width: int) -> list[Text]:
    notes = [
        *view.missing,
        *(f"source {s.index}: {s.note}" for s in view.sources if s.note),
    ]
    return [
        Text(f" {line}", "dim")
        for note in notes[:6]
        for line in wrap(f"not known: {name(note, 300)}", width - 2, indent="  ")
    ]


def batch_now(view: QueryView) -> tuple[float | None, bool]:
    """The running batch where it is the longer one, else the last; seconds."""
    running = view.running_seconds if view.up else None
    if running is not None and running > (view.batch_seconds or 0.0):
        return running, True
    return view.batch_seconds, False


def about(view: QueryView) -> str:
    """The mark of a backlog that nobody has seen all of; empty where it was seen."""
    return "≈ " if view.backlog_unseen_rows > 0.0 else ""


def _batch_seconds(view: QueryView) -> tuple[list[float | None], float]:
    """Batch seconds, the running batch last, and how high to draw."""
    seconds = [point.batch_seconds for point in view.history]
    if view.up and view.running_seconds is not None:
        seconds.append(view.running_seconds)
    known = [s for s in seconds if s is not None]
    return seconds, max([*known, 1.5 * (view.target_seconds or 0.0)], default=1.0)


def batch_spark(view: QueryView, width: int) -> Text:
    """The last batches' seconds, each in its tone; the running batch last."""
    seconds, _ = _batch_seconds(view)
    seconds = seconds[-width:]
    known = [s for s in seconds if s is not None]
    top = max([*known, 1.5 * (view.target_seconds or 0.0)], default=1.0)
    return columns(seconds, width, top, 1, _batch_styles(seconds, view))[0]


def _batch_styles(seconds: Sequence[float | None], view: QueryView) -> list[str]:
    tones = [batch_tone(value, view) for value in seconds]
    return ["cyan" if tone == "ok" else STYLES[tone] for tone in tones]
