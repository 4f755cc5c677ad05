"""The whole fleet as Prometheus or OpenMetrics text.

The service makes one ``Exporter`` for its life and calls it for each scrape, on the thread that
owns the fleet::

    exporter = Exporter(timer=time.perf_counter, on_error=log_it)
    body, content_type = exporter.exposition(
        fleet.keys(),
        lambda key: keeper.view(key, now, 0),
        totals=fleet.totals,
        listeners=fleet.listeners_together(now),
        extras=extras,  # agent.sources.host.Extras; its event_seconds from EventTimer.snapshot()
        accept=request.headers.get("accept", ""),
    )

Views are built, written and let go one at a time, so a scrape needs about twice the size of its
text and no more. A view that fails is left out whole, told to ``on_error`` and counted in
``weir_agent_scrape_errors_total``; the others stand.

Text is written here and not through prometheus_client's families because those cost about 8
microseconds a sample: 0.7 s for 1,000 queries. Its parsers and its own encoder check this one in
the tests. What is written, and how each value is read, all comes from ``agent.export.catalogue``:
here is only whose rows there are in a fleet, and how each kind of row looks.
"""

from __future__ import annotations

import math
import platform
import re
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.core import names
from agent.export.catalogue import METRICS
from agent.export.metrics.agent import EVENT_SECONDS_BUCKETS
from agent.export.metrics.row import (
    AGENT,
    AGENT_PROCESS,
    DRIVER_PROCESS,
    FINDINGS,
    LISTENER,
    OPERATOR,
    OTHER,
    PARTITION,
    PARTITIONS,
    QUERY,
    SOURCE,
    AgentFacts,
)
from agent.sources.host import EventSeconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agent.core.fleet import AgentTotals, Key, ListenersView
    from agent.core.judgement import Finding, QueryView
    from agent.core.measure.partitions import PartitionView
    from agent.export.metrics.row import Metric, Subject
    from agent.sources.host import Extras, ProcessSample

TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class EventTimer:
    """Records how long events take: feeds the histogram ``weir_agent_event_seconds``."""

    def __init__(self) -> None:
        self._counts = [0] * (len(EVENT_SECONDS_BUCKETS) + 1)
        self._sum_seconds = 0.0

    def observe(self, seconds: float, events: int = 1) -> None:
        """Notes that ``events`` events took ``seconds`` together; each counts as an equal part."""
        if events <= 0:
            return
        self._counts[bisect_left(EVENT_SECONDS_BUCKETS, seconds / events)] += events
        self._sum_seconds += seconds

    def snapshot(self) -> EventSeconds:
        """What was recorded so far."""
        return EventSeconds(EVENT_SECONDS_BUCKETS, tuple(self._counts), self._sum_seconds)


class Exporter:
    """Writes expositions; keeps the count of failed views. Not thread-safe."""

    def __init__(
        self,
        *,
        timer: Callable[[], float],
        on_error: Callable[[Key, Exception], None] | None = None,
        python_version: str | None = None,
    ) -> None:
        """``timer`` gives seconds and never goes back."""
        self._timer = timer
        self._on_error = on_error
        self._python_version = python_version or platform.python_version()
        self._errors = 0

    def exposition(
        self,
        keys: Iterable[Key],
        view_of: Callable[[Key], QueryView],
        *,
        totals: AgentTotals,
        listeners: Iterable[ListenersView],
        extras: Extras,
        accept: str = "",
        by_the_machine: Callable[[float], float] = lambda time: time,
    ) -> tuple[bytes, str]:
        """The body and its Content-Type, in the format that the Accept header asks for.

        ``by_the_machine``: a time of the agent's clock by its machine's, as whoever asks compares
        it with a clock that is right.
        Raises ValueError where one of ``extras.labels`` is no label name or is already taken.
        """
        started = self._timer()
        fixed = fixed_labels(extras.labels)
        # One buffer a family: the formats want all series of a family together, while queries
        # come one by one.
        buffers = [bytearray() for _ in METRICS]
        queries = 0
        for key in keys:
            queries += 1
            try:
                lines = _query_lines(fixed, _timed(view_of(key), by_the_machine))
            except Exception as error:  # noqa: BLE001 - one bad query never hides the others
                self._errors += 1
                if self._on_error is not None:
                    self._on_error(key, error)
                continue
            for place, text in lines:
                buffers[place] += text
        facts = AgentFacts(
            queries=queries,
            totals=totals,
            extras=extras,
            scrape_errors=self._errors,
            python_version=self._python_version,
            scrape_seconds=lambda: self._timer() - started,
        )
        heard = (
            msgspec.structs.replace(one, last_heard_time=by_the_machine(one.last_heard_time))
            for one in listeners
        )
        lines = _listeners_lines(fixed, heard)
        lines += _processes_lines(fixed, extras)
        lines += _lines(AGENT, fixed, facts)
        for place, text in lines:
            buffers[place] += text

        openmetrics = _wants_openmetrics(accept)
        parts: list[bytes | bytearray] = []
        for header, buffer in zip(
            _OPENMETRICS_HEADERS if openmetrics else _TEXT_HEADERS, buffers, strict=True
        ):
            if buffer:
                parts += (header, buffer)
        if openmetrics:
            parts.append(b"# EOF\n")
        return b"".join(parts), OPENMETRICS_TYPE if openmetrics else TEXT_TYPE


# -- whose rows there are, and the labels that name each -----------------------------------------

#: Place of a family, and series of it.
_Lines = list[tuple[int, bytes]]


def _timed(view: QueryView, by_the_machine: Callable[[float], float]) -> QueryView:
    """What the agent timed, by its machine's clock."""
    times = {
        name: by_the_machine(time)
        for name in ("gone_since_time", "mode_since_time", "folder_audited_time")
        if (time := getattr(view, name)) is not None
    }
    held_by = view.held_by
    if held_by is not None:
        held_by = msgspec.structs.replace(held_by, time=by_the_machine(held_by.time))
    return msgspec.structs.replace(view, held_by=held_by, **times)


def _query_lines(fixed: str, view: QueryView) -> _Lines:
    """Every series of one query. Raises on a view that is wrong."""
    up = view.up
    labels = f"{fixed}{_pair('application', view.application)},{_pair('query', view.query)},"
    lines = _lines(QUERY, labels, view, up=up)
    for (check, severity), findings in sorted(_alike(view.findings).items()):
        of_findings = f'{labels}check="{check}",severity="{severity}",'
        lines += _lines(FINDINGS, of_findings, findings, up=up)
    for index, partitions in _by_source(view.partitions).items():
        of_source = f'{labels}source="{index}",'
        lines += _lines(PARTITIONS, of_source, partitions, up=up)
        for one in partitions:
            place = f"{_pair('topic', one.topic)},{_pair('partition', one.partition)},"
            lines += _lines(PARTITION, of_source + place, one, up=up)
    for source in view.sources:
        lines += _lines(SOURCE, f'{labels}source="{source.index}",', source, up=up)
    for operator in view.operators:
        of_operator = f"{labels}{_pair('operator', f'{operator.index}:{operator.name}')},"
        lines += _lines(OPERATOR, of_operator, operator, up=up)
    return lines


def _alike(findings: list[Finding]) -> dict[tuple[str, str], list[Finding]]:
    found: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        found.setdefault((one.check, one.severity), []).append(one)
    return found


def _by_source(partitions: list[PartitionView]) -> dict[int, list[PartitionView]]:
    found: dict[int, list[PartitionView]] = {}
    for one in partitions:
        found.setdefault(one.source, []).append(one)
    return found


def _listeners_lines(fixed: str, listeners: Iterable[ListenersView]) -> _Lines:
    lines: _Lines = []
    for view in listeners:
        lines += _lines(LISTENER, f"{fixed}{_pair('application', view.application)},", view)
    return lines


def _processes_lines(fixed: str, extras: Extras) -> _Lines:
    lines: _Lines = []
    if extras.agent_process is not None:
        lines += _lines(AGENT_PROCESS, fixed, extras.agent_process)
    # Two processes of one name would be one series twice: the one started last stands.
    newest: dict[tuple[str, str], ProcessSample] = {}
    for sample in extras.driver_processes:
        key = (sample.application, sample.role)
        if key not in newest or sample.start_time >= newest[key].start_time:
            newest[key] = sample
    for (application, role), sample in newest.items():
        labels = f"{fixed}{_pair('application', application)},{_pair('process', role)},"
        lines += _lines(DRIVER_PROCESS, labels, sample)
    return lines


# -- how each kind of row looks ------------------------------------------------------------------


class _Plan:
    """The rows of one subject, with all that is the same for each thing of it worked out once.

    ``ended``: only what stands once a query has ended; what it did last says nothing then.
    """

    def __init__(self, subject: Subject[Any], *, ended: bool) -> None:
        #: Place, name, reader: most rows, so written without a call of their own.
        self.numbers: list[tuple[int, str, Callable[[Any], float | None]]] = []
        #: Place, and what writes the series, given the labels that name the thing, and the thing.
        self.others: list[tuple[int, Callable[[str, Any], str]]] = []
        for place, one in enumerate(METRICS):
            if one.subject is not subject or (ended and one.running):
                continue
            if one.kind in {"gauge", "counter"} and not one.own_labels:
                self.numbers.append((place, one.name, one.read))
            else:
                self.others.append((place, _WRITERS[one.kind](one)))


def _lines(subject: Subject[Any], labels: str, thing: Any, *, up: bool = True) -> _Lines:
    """Every series of one thing; ``labels`` name it, and end in a comma unless there are none."""
    plan = _PLANS[subject, up]
    braces = f"{{{labels[:-1]}}}" if labels else ""
    lines: _Lines = []
    for place, name, read in plan.numbers:
        value = _number(read(thing))
        if value is not None:
            lines.append((place, f"{name}{braces} {value}\n".encode()))
    for place, write in plan.others:
        lines.append((place, write(labels, thing).encode()))
    return lines


def _by_label(one: Metric) -> Callable[[str, Any], str]:
    """A number for each value of a label; those from the start first, unlisted ones together."""
    (label,) = one.own_labels
    known = frozenset(label.values)
    start = [value for value in label.values if value != OTHER] if one.from_start else []
    name, end = one.name, label.name
    read: Callable[[Any], Mapping[str, float | None]] = one.read

    def write(labels: str, thing: Any) -> str:
        merged: dict[str, float] = dict.fromkeys(start, 0)
        for key, value in read(thing).items():
            if value is not None:
                place = key if key in known else OTHER
                merged[place] = merged.get(place, 0) + value
        text = ""
        for key, value in merged.items():
            number = _number(value)
            if number is not None:
                text += f'{name}{{{labels}{end}="{key}"}} {number}\n'
        return text

    return write


def _states(one: Metric) -> Callable[[str, Any], str]:
    (label,) = one.own_labels
    name, end, values = one.name, label.name, label.values
    read: Callable[[Any], str | None] = one.read

    def write(labels: str, thing: Any) -> str:
        present = read(thing)
        if present is None:
            return ""
        if present not in values:
            raise ValueError(f"{name}: {present!r} is none of {', '.join(values)}")
        return "".join(
            f'{name}{{{labels}{end}="{value}"}} {int(value == present)}\n' for value in values
        )

    return write


def _info(one: Metric) -> Callable[[str, Any], str]:
    own = [label.name for label in one.own_labels]
    name = one.name
    read: Callable[[Any], tuple[str, ...]] = one.read

    def write(labels: str, thing: Any) -> str:
        pairs = ",".join(map(_pair, own, read(thing)))
        return f"{name}{{{labels}{pairs}}} 1\n"

    return write


def _histogram(one: Metric) -> Callable[[str, Any], str]:
    """Raises, as it writes, ValueError where there are more or fewer counts than buckets."""
    name = one.name
    bounds = [*(repr(float(bound)) for bound in one.buckets), "+Inf"]
    read: Callable[[Any], tuple[Sequence[int], float]] = one.read

    def write(labels: str, thing: Any) -> str:
        counts, total = read(thing)
        counts = counts or [0] * len(bounds)
        if len(counts) != len(bounds):
            raise ValueError(f"{name}: {len(counts)} counts for {len(bounds)} buckets")
        lines = [
            f'{name}_bucket{{{labels}le="{bound}"}} {count}\n'
            for bound, count in zip(bounds, accumulate(counts), strict=True)
        ]
        braces = f"{{{labels[:-1]}}}" if labels else ""
        sum_text = _number(float(total))
        if sum_text is not None:
            lines.append(f"{name}_sum{braces} {sum_text}\n")
        lines.append(f"{name}_count{braces} {sum(counts)}\n")
        return "".join(lines)

    return write


_WRITERS: Final[dict[str, Callable[[Metric], Callable[[str, Any], str]]]] = {
    "gauge": _by_label,
    "counter": _by_label,
    "state set": _states,
    "info": _info,
    "histogram": _histogram,
}
_PLANS: Final = {
    (subject, up): _Plan(subject, ended=not up)
    for subject in dict.fromkeys(one.subject for one in METRICS)
    for up in (True, False)
}


# -- text ---------------------------------------------------------------------------------------


def _pair(label: str, value: str) -> str:
    """A label and its value, made fit and escaped as the formats want it."""
    return _escaped(label, names.label(value))


def _escaped(label: str, value: str) -> str:
    fit = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'{label}="{fit}"'


def _number(value: float | None) -> str | None:
    """A value as text; None where it is unknown, and NaN is no knowledge either."""
    if value is None:
        return None
    if isinstance(value, int):  # truth values too: int() of them is 0 or 1
        return str(int(value))
    if math.isfinite(value):
        return repr(value)
    return None if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")


def _wants_openmetrics(accept: str) -> bool:
    """Whether an Accept header ranks OpenMetrics 1.0 (or an older one) at least as high as text."""
    best = {True: 0.0, False: 0.0}
    for part in accept.lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        settings = dict(setting.split("=", 1) for setting in parameters if "=" in setting)
        if kind == "application/openmetrics-text":
            if settings.get("version", "1.0.0") not in {"0.0.1", "1.0.0"}:
                continue
        elif kind not in {"text/plain", "text/*", "*/*"}:
            continue
        try:
            weight = float(settings.get("q", "1"))
        except ValueError:
            continue
        ours = kind == "application/openmetrics-text"
        best[ours] = max(best[ours], weight)
    return best[True] > 0.0 and best[True] >= best[False]


def _header(one: Metric, *, openmetrics: bool) -> bytes:
    """HELP, TYPE and, in OpenMetrics, UNIT."""
    text = one.help.replace("\\", r"\\").replace("\n", r"\n")
    kind = "gauge" if one.kind in {"state set", "info"} else one.kind
    if not openmetrics:
        return f"# HELP {one.name} {text}\n# TYPE {one.name} {kind}\n".encode()
    # Gauges here too: a state set of OpenMetrics wants its label named like the family, and ours
    # have a name of their own; and off an info's name a collector of OpenTelemetry cuts the suffix,
    # so that no rule would find it again. It also adds the words of a unit to a name that does not
    # hold each of them by itself.
    text = text.replace('"', r"\"")
    lines = f"# HELP {one.family} {text}\n# TYPE {one.family} {kind}\n"
    if one.unit and "_per_" not in one.unit and one.family.endswith(f"_{one.unit}"):
        lines += f"# UNIT {one.family} {one.unit}\n"
    return lines.encode()


_TEXT_HEADERS: Final = [_header(one, openmetrics=False) for one in METRICS]
_OPENMETRICS_HEADERS: Final = [_header(one, openmetrics=True) for one in METRICS]

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_TAKEN: Final = frozenset(
    {"le", "quantile", "job", "instance"}.union(*(one.label_names for one in METRICS))
)


def fixed_labels(labels: Mapping[str, str]) -> str:
    """The configuration's labels, checked there, as text that ends in a comma, or nothing."""
    for name in labels:
        if not _LABEL_NAME.fullmatch(name) or name.startswith("__"):
            raise ValueError(
                f"label {name!r}: letters, digits and underscores are needed, "
                "and no digit or double underscore first"
            )
        if name in _TAKEN:
            raise ValueError(f"label {name!r} is one that metrics or Prometheus already use")
    return "".join(f"{_escaped(name, value)}," for name, value in sorted(labels.items()))
