"""The whole fleet as Prometheus or OpenMetrics text.

The service makes one ``Exporter`` for its life and calls it for each scrape, on the thread that
owns the fleet::

    exporter = Exporter({"cluster": "eu-1"}, timer=time.perf_counter, on_error=log_it)
    body, content_type = exporter.exposition(
        fleet.keys(),
        lambda key: fleet.view(key, now),
        AgentSnapshot(totals=fleet.totals, listeners=fleet.listeners(now), ...),
        accept=request.headers.get("accept", ""),
    )

Views are built, written and let go one at a time, so a scrape needs about twice the size of its
text and no more. A view that fails is left out whole, told to ``on_error`` and counted in
``weir_agent_scrape_errors_total``; the others stand.

Text is written here and not through prometheus_client's families because those cost about 8
microseconds a sample: 0.7 s for 1,000 queries. Its parsers and its own encoder check this one in
the tests. Names, labels, kinds and help all come from ``agent.export.catalogue``.
"""

from __future__ import annotations

import math
import platform
import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import msgspec

from agent import __version__
from agent.core import names
from agent.core.fleet import AgentTotals, ListenerView
from agent.export.catalogue import EVENT_SECONDS_BUCKETS, METRICS, OTHER, Label, Metric, metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from agent.core.fleet import Key
    from agent.core.judgement import OperatorView, QueryView, SourceView

TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class EventSeconds:
    """Records how long events take: the histogram ``weir_agent_event_seconds``."""

    def __init__(self) -> None:
        self.counts = [0] * (len(EVENT_SECONDS_BUCKETS) + 1)
        self.sum_seconds = 0.0

    def observe(self, seconds: float, events: int = 1) -> None:
        """Notes that ``events`` events took ``seconds`` together; each counts as an equal part."""
        if events <= 0:
            return
        self.counts[bisect_left(EVENT_SECONDS_BUCKETS, seconds / events)] += events
        self.sum_seconds += seconds


class ProcessView(msgspec.Struct, frozen=True, kw_only=True):
    """A process as the host tells; None is unknown. Times are epoch seconds."""

    cpu_seconds: float | None = None
    resident_bytes: int | None = None
    memory_limit_bytes: int | None = None
    threads: int | None = None
    open_files: int | None = None
    start_time: float | None = None


class DriverProcess(msgspec.Struct, frozen=True):
    """A process of an application's driver; ``process`` is ``jvm`` or ``python``."""

    application: str
    process: str
    view: ProcessView


class AgentSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of the agent itself, besides its queries."""

    totals: AgentTotals
    event_seconds: EventSeconds
    listeners: Sequence[ListenerView] = ()
    process: ProcessView = ProcessView()
    drivers: Sequence[DriverProcess] = ()


class Exporter:
    """Writes expositions; keeps the count of failed views. Not thread-safe."""

    def __init__(
        self,
        labels: Mapping[str, str] | None = None,
        *,
        timer: Callable[[], float],
        on_error: Callable[[Key, Exception], None] | None = None,
        version: str = __version__,
        python_version: str | None = None,
    ) -> None:
        """``labels`` stand on every series; ``timer`` gives seconds and never goes back.

        Raises ValueError, naming the label, where one is not a label name or is already taken.
        """
        self._fixed = _fixed_labels(labels or {})
        self._timer = timer
        self._on_error = on_error
        self._build = (version, python_version or platform.python_version())
        self._errors = 0

    def exposition(
        self,
        keys: Iterable[Key],
        view_of: Callable[[Key], QueryView],
        agent: AgentSnapshot,
        accept: str = "",
    ) -> tuple[bytes, str]:
        """The body and its Content-Type, in the format that the Accept header asks for."""
        started = self._timer()
        # One buffer a family: the formats want all series of a family together, while queries
        # come one by one.
        buffers = [bytearray() for _ in METRICS]
        queries = 0
        for key in keys:
            queries += 1
            try:
                lines = self._query_lines(view_of(key))
            except Exception as error:  # noqa: BLE001 - one bad query never hides the others
                self._errors += 1
                if self._on_error is not None:
                    self._on_error(key, error)
                continue
            for place, text in lines:
                buffers[place] += text
        for one, line in self._agent_lines(agent, queries):
            buffers[_PLACE[one.name]] += line.encode()
        took = metric("weir_agent_scrape_seconds")
        buffers[_PLACE[took.name]] += self._line(took, "", self._timer() - started).encode()

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

    def _query_lines(self, view: QueryView) -> list[tuple[int, bytes]]:
        """Every series of one query, by the place of its family. Raises on a view that is wrong."""
        name_of_query = f"{_pair('application', view.application)},{_pair('query', view.query)}"
        labels = self._fixed + name_of_query
        lines: list[tuple[int, str]] = []
        for place, name, read in _VALUES:
            value = _number(read(view))
            if value is not None:
                lines.append((place, f"{name}{{{labels}}} {value}\n"))
        for place, name, label, values, read_state in _STATES:
            present = read_state(view)
            if present not in values:
                raise ValueError(f"{name}: {present!r} is none of {', '.join(values)}")
            text = "".join(
                f'{name}{{{labels},{label}="{value}"}} {int(value == present)}\n'
                for value in values
            )
            lines.append((place, text))
        for place, name, label, known, always, read_keyed in _KEYED:
            text = "".join(
                f'{name}{{{labels},{label}="{key}"}} {value}\n'
                for key, value in _by_key(read_keyed(view), known, always)
            )
            lines.append((place, text))
        place, one = _INFO
        info = "".join(f",{_pair(label, read(view))}" for label, read in _INFO_LABELS)
        lines.append((place, f"{one}{{{labels}{info}}} 1\n"))
        totals = view.totals
        lines.append(
            (
                _DURATION_PLACE,
                _histogram(
                    metric("weir_batch_duration_seconds"),
                    labels,
                    totals.duration_buckets,
                    totals.duration_sum_seconds,
                ),
            )
        )
        for source in view.sources:
            of_source = f'{labels},source="{source.index}"'
            for place, name, extra, read_source in _SOURCE_VALUES:
                value = _number(read_source(source))
                if value is not None:
                    lines.append((place, f"{name}{{{of_source}{extra}}} {value}\n"))
        for operator in view.operators:
            of_operator = f"{labels},{_pair('operator', f'{operator.index}:{operator.name}')}"
            for place, name, read_operator in _OPERATOR_VALUES:
                value = _number(read_operator(operator))
                if value is not None:
                    lines.append((place, f"{name}{{{of_operator}}} {value}\n"))
        return [(place, text.encode()) for place, text in lines]

    def _agent_lines(self, agent: AgentSnapshot, queries: int) -> Iterator[tuple[Metric, str]]:
        totals = agent.totals
        numbers: tuple[tuple[str, float], ...] = (
            ("weir_agent_queries", queries),
            ("weir_agent_duplicate_events_total", totals.duplicates),
            ("weir_agent_name_collisions_total", totals.name_collisions),
            ("weir_agent_scrape_errors_total", self._errors),
        )
        for name, number in numbers:
            yield metric(name), self._line(metric(name), "", number)
        for name, counts in (
            ("weir_agent_events_total", totals.events),
            ("weir_agent_rejected_events_total", totals.refused),
        ):
            one = metric(name)
            label = one.labels[0]
            for key, count in _by_key(counts, frozenset(label.values), _without_other(label)):
                line = f"{name}{{{self._fixed}{_pair(label.name, key)}}} {count}\n"
                yield one, line
        build = ",".join(map(_pair, ("version", "python_version"), self._build))
        yield metric("weir_build_info"), self._line(metric("weir_build_info"), build, 1)
        one = metric("weir_agent_event_seconds")
        recorded = agent.event_seconds
        yield one, _histogram(one, self._fixed, recorded.counts, recorded.sum_seconds)
        # A restarted driver has a new listener: the one heard last speaks for the application.
        newest: dict[str, ListenerView] = {}
        for listener in agent.listeners:
            other = newest.get(listener.application)
            if other is None or listener.last_heard_time >= other.last_heard_time:
                newest[listener.application] = listener
        for application, heard in newest.items():
            numbers = (
                ("weir_listener_last_heard_timestamp_seconds", heard.last_heard_time),
                ("weir_listener_queue_length", heard.listener.queue_length),
                ("weir_listener_dropped_events_total", heard.listener.dropped_total),
                ("weir_listener_callbacks_total", heard.listener.callbacks_total),
                ("weir_listener_callback_seconds_total", heard.listener.callback_seconds_total),
            )
            labels = _pair("application", application)
            for name, number in numbers:
                yield metric(name), self._line(metric(name), labels, number)
        yield from self._process_lines("weir_agent_process_", "", agent.process)
        for driver in agent.drivers:
            names_of = (driver.application, driver.process)
            labels = ",".join(map(_pair, ("application", "process"), names_of))
            yield from self._process_lines("weir_driver_process_", labels, driver.view)

    def _process_lines(
        self, prefix: str, labels: str, view: ProcessView
    ) -> Iterator[tuple[Metric, str]]:
        for end, value in (
            ("cpu_seconds_total", view.cpu_seconds),
            ("resident_memory_bytes", view.resident_bytes),
            ("memory_limit_bytes", view.memory_limit_bytes),
            ("threads", view.threads),
            ("open_files", view.open_files),
            ("start_time_seconds", view.start_time),
        ):
            one = metric(prefix + end)
            yield one, self._line(one, labels, value)

    def _line(self, one: Metric, labels: str, value: float | None) -> str:
        """One series of a family without more labels; nothing where the value is unknown."""
        number = _number(value)
        if number is None:
            return ""
        return f"{one.name}{_braces(self._fixed + labels)} {number}\n"


# -- where each family's value stands in a view -------------------------------------------------

_PLACE: Final[dict[str, int]] = {one.name: place for place, one in enumerate(METRICS)}

_VALUE_READERS: Final[dict[str, Callable[[QueryView], float | None]]] = {
    "weir_query_up": lambda view: view.up,
    "weir_query_held": lambda view: view.held or view.manual_limit is not None,
    "weir_last_progress_timestamp_seconds": lambda view: view.last_progress_time,
    "weir_rows_total": lambda view: view.totals.rows,
    "weir_replayed_rows_total": lambda view: view.totals.replayed_rows,
    "weir_batch_running_seconds": lambda view: view.running_seconds,
    "weir_backlog_estimated_rows": lambda view: view.backlog_rows,
    "weir_backlog_seconds": lambda view: view.backlog_seconds,
    "weir_estimated_time_to_consume_seconds": lambda view: view.estimated_time_to_consume_seconds,
    "weir_arrival_rows_per_second": lambda view: view.arrival_rows_per_second,
    "weir_throughput_rows_per_second": lambda view: view.throughput_rows_per_second,
    "weir_fixed_cost_seconds": lambda view: view.fixed_cost_seconds,
    "weir_required_capacity_ratio": lambda view: view.required_capacity_ratio,
    "weir_pressure_ratio": lambda view: view.pressure_ratio,
    "weir_target_batch_seconds": lambda view: view.target_seconds,
    "weir_target_feasible": lambda view: view.target_feasible,
    "weir_checkpoint_seconds": lambda view: view.checkpoint.seconds,
    "weir_checkpoint_interval_seconds": lambda view: view.checkpoint.interval_seconds,
    "weir_checkpoint_deadline_seconds": lambda view: view.deadline_seconds,
    "weir_checkpoint_failures_consecutive": lambda view: view.checkpoint.failures_consecutive,
    "weir_watermark_lag_seconds": lambda view: view.watermark_lag_seconds,
    "weir_watermark_dropped_rows_total": lambda view: view.totals.watermark_dropped_rows,
}
_STATE_READERS: Final[dict[str, Callable[[QueryView], str]]] = {
    "weir_query_state": lambda view: view.state,
    "weir_query_mode": lambda view: view.mode,
}
#: The flag: whether every listed value has a series from the start, so that a first increase is
#: seen as one. Not so where most values never come.
_KEYED_READERS: Final[dict[str, tuple[bool, Callable[[QueryView], Mapping[str, float]]]]] = {
    "weir_batches_total": (True, lambda view: view.totals.batches),
    "weir_batch_phase_seconds_total": (False, lambda view: view.totals.phase_seconds),
    "weir_time_seconds_total": (True, lambda view: view.totals.state_seconds),
    "weir_grants_total": (False, lambda view: view.totals.grants),
    "weir_checkpoint_phase_seconds": (False, lambda view: view.checkpoint.phases),
    "weir_failures_total": (False, lambda view: view.totals.failures),
}
_SOURCE_READERS: Final[dict[str, Callable[[SourceView], float | None]]] = {
    "weir_backlog_rows": lambda source: source.backlog if source.unit == "rows" else None,
    "weir_backlog_files": lambda source: source.backlog if source.unit == "files" else None,
    "weir_backlog_bytes": lambda source: source.backlog if source.unit == "bytes" else None,
    "weir_limit_rows": lambda source: source.limit if source.unit == "rows" else None,
    "weir_limit_files": lambda source: source.limit if source.unit == "files" else None,
    "weir_limit_bytes": lambda source: source.limit if source.unit == "bytes" else None,
    "weir_limit_configured_rows": lambda s: s.configured if s.unit == "rows" else None,
    "weir_limit_configured_files": lambda s: s.configured if s.unit == "files" else None,
    "weir_limit_configured_bytes": lambda s: s.configured if s.unit == "bytes" else None,
}
_CREDIT_READERS: Final[dict[str, Callable[[SourceView], float | None]]] = {
    "exclusive": lambda source: source.exclusive_rows,
    "floating": lambda source: source.floating_rows,
}
_OPERATOR_READERS: Final[dict[str, Callable[[OperatorView], float | None]]] = {
    "weir_state_rows": lambda operator: operator.rows,
    "weir_state_bytes": lambda operator: operator.bytes,
    "weir_state_commit_seconds": lambda operator: operator.commit_seconds,
}
_INFO_LABELS: Final[tuple[tuple[str, Callable[[QueryView], str]], ...]] = (
    ("query_id", lambda view: view.query_id),
    ("run_id", lambda view: view.run_id),
    ("spark_version", lambda view: view.spark_version),
    ("trigger", lambda view: view.trigger),
    ("control", lambda view: view.control),
)


def _without_other(label: Label) -> tuple[str, ...]:
    return tuple(value for value in label.values if value != OTHER)


# The same, with all that is the same for every query worked out once.
_VALUES: Final = [(_PLACE[name], name, read) for name, read in _VALUE_READERS.items()]
_STATES: Final = [
    (_PLACE[name], name, metric(name).labels[-1].name, metric(name).labels[-1].values, read)
    for name, read in _STATE_READERS.items()
]
_KEYED: Final = [
    (
        _PLACE[name],
        name,
        metric(name).labels[-1].name,
        frozenset(metric(name).labels[-1].values),
        _without_other(metric(name).labels[-1]) if always else (),
        read,
    )
    for name, (always, read) in _KEYED_READERS.items()
]
_INFO: Final = (_PLACE["weir_query_info"], "weir_query_info")
_DURATION_PLACE: Final = _PLACE["weir_batch_duration_seconds"]
_SOURCE_VALUES: Final = [
    *((_PLACE[name], name, "", read) for name, read in _SOURCE_READERS.items()),
    *(
        (_PLACE["weir_credit_rows"], "weir_credit_rows", f',kind="{kind}"', read)
        for kind, read in _CREDIT_READERS.items()
    ),
]
_OPERATOR_VALUES: Final = [(_PLACE[name], name, read) for name, read in _OPERATOR_READERS.items()]


# -- text ---------------------------------------------------------------------------------------


def _pair(label: str, value: str) -> str:
    """A label and its value, made fit and escaped as the formats want it."""
    fit = names.label(value).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'{label}="{fit}"'


def _braces(labels: str) -> str:
    labels = labels.rstrip(",")
    return f"{{{labels}}}" if labels else ""


def _number(value: float | None) -> str | None:
    """A value as text; None where it is unknown, and NaN is no knowledge either."""
    if value is None:
        return None
    if isinstance(value, int):  # truth values too: int() of them is 0 or 1
        return str(int(value))
    if math.isfinite(value):
        return repr(value)
    return None if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")


def _by_key(
    values: Mapping[str, float], known: frozenset[str], always: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """(key, number), the ones that always stand first; unlisted keys are summed under ``other``."""
    merged: dict[str, float] = dict.fromkeys(always, 0)
    for key, value in values.items():
        place = key if key in known else OTHER
        merged[place] = merged.get(place, 0) + value
    for key, value in merged.items():
        number = _number(value)
        if number is not None:
            yield key, number


def _histogram(one: Metric, labels: str, counts: Sequence[int], total_seconds: float) -> str:
    """A histogram from the counts of its buckets, not cumulative, the last one without bound.

    Raises ValueError where there are more or fewer counts than buckets; none at all is zeros.
    """
    buckets = one.buckets
    if not counts:
        counts = [0] * (len(buckets) + 1)
    if len(counts) != len(buckets) + 1:
        raise ValueError(f"{one.name}: {len(counts)} counts for {len(buckets) + 1} buckets")
    labels = labels.rstrip(",")
    comma = "," if labels else ""
    bounds = [*(repr(float(bucket)) for bucket in buckets), "+Inf"]
    lines = [
        f'{one.name}_bucket{{{labels}{comma}le="{bound}"}} {count}\n'
        for bound, count in zip(bounds, accumulate(counts), strict=True)
    ]
    braces = _braces(labels)
    lines.append(f"{one.name}_sum{braces} {_number(float(total_seconds)) or 0}\n")
    lines.append(f"{one.name}_count{braces} {sum(counts)}\n")
    return "".join(lines)


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
    if not openmetrics:
        kind = "gauge" if one.kind in {"state set", "info"} else one.kind
        return f"# HELP {one.name} {text}\n# TYPE {one.name} {kind}\n".encode()
    # A state set of OpenMetrics wants its label named like the family; ours have a name of
    # their own, so they are gauges here too.
    kind = "gauge" if one.kind == "state set" else one.kind
    text = text.replace('"', r"\"")
    lines = f"# HELP {one.family} {text}\n# TYPE {one.family} {kind}\n"
    if one.unit and one.family.endswith(f"_{one.unit}"):
        lines += f"# UNIT {one.family} {one.unit}\n"
    return lines.encode()


_TEXT_HEADERS: Final = [_header(one, openmetrics=False) for one in METRICS]
_OPENMETRICS_HEADERS: Final = [_header(one, openmetrics=True) for one in METRICS]

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_TAKEN: Final = frozenset(
    {"le", "quantile", "job", "instance"}.union(*(one.label_names for one in METRICS))
)


def _fixed_labels(labels: Mapping[str, str]) -> str:
    """The configuration's labels as text that ends in a comma, or nothing."""
    for name in labels:
        if not _LABEL_NAME.fullmatch(name) or name.startswith("__"):
            raise ValueError(
                f"label {name!r}: letters, digits and underscores are needed, "
                "and no digit or double underscore first"
            )
        if name in _TAKEN:
            raise ValueError(f"label {name!r} is one that metrics or Prometheus already use")
    return "".join(f"{_pair(name, value)}," for name, value in sorted(labels.items()))
