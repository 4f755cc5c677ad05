"""The whole fleet as Prometheus or OpenMetrics text.

The service makes one ``Exporter`` for its life and calls it for each scrape, on the thread that
owns the fleet::

    exporter = Exporter(timer=time.perf_counter, on_error=log_it)
    body, content_type = exporter.exposition(
        fleet.keys(),
        lambda key: fleet.view(key, now),
        totals=fleet.totals,
        listeners=fleet.listeners(now),
        extras=extras,  # agent.sources.host.Extras; its event_seconds from EventTimer.snapshot()
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
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from agent.core import names
from agent.core.partitions import soonest_loss_seconds
from agent.export.catalogue import (
    BATCH_SECONDS_BUCKETS,
    EVENT_SECONDS_BUCKETS,
    METRICS,
    OTHER,
    Label,
    Metric,
    metric,
)
from agent.sources.host import EventSeconds, Extras, ProcessSample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from agent.core.fleet import AgentTotals, Key, ListenerView
    from agent.core.judgement import OperatorView, QueryView, SourceView
    from agent.core.partitions import PartitionView

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
        listeners: Iterable[ListenerView],
        extras: Extras,
        accept: str = "",
    ) -> tuple[bytes, str]:
        """The body and its Content-Type, in the format that the Accept header asks for.

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
                lines = _query_lines(fixed, view_of(key))
            except Exception as error:  # noqa: BLE001 - one bad query never hides the others
                self._errors += 1
                if self._on_error is not None:
                    self._on_error(key, error)
                continue
            for place, text in lines:
                buffers[place] += text
        for name, line in self._agent_lines(fixed, queries, totals, extras):
            buffers[_PLACE[name]] += line.encode()
        for name, line in _listener_lines(fixed, listeners):
            buffers[_PLACE[name]] += line.encode()
        for name, line in _processes_lines(fixed, extras):
            buffers[_PLACE[name]] += line.encode()
        name = "weir_agent_scrape_seconds"
        buffers[_PLACE[name]] += _line(name, fixed, self._timer() - started).encode()

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

    def _agent_lines(
        self, fixed: str, queries: int, totals: AgentTotals, extras: Extras
    ) -> Iterator[tuple[str, str]]:
        numbers: tuple[tuple[str, float | None], ...] = (
            ("weir_agent_queries", queries),
            ("weir_agent_duplicate_events_total", totals.duplicates),
            ("weir_agent_name_collisions_total", totals.name_collisions),
            ("weir_agent_scrape_errors_total", self._errors),
            ("weir_agent_start_time_seconds", extras.started_time),
            ("weir_agent_state_writable", extras.state_writable),
            ("weir_agent_state_write_failures_total", extras.state_write_failures_total),
            ("weir_agent_state_bytes", extras.state_bytes),
            ("weir_agent_recorded_events_total", extras.recorded_events_total),
            ("weir_agent_record_failures_total", extras.record_failures_total),
            ("weir_kafka_up", extras.kafka_up),
        )
        for name, number in numbers:
            yield name, _line(name, fixed, number)
        for name, counts in (
            ("weir_agent_events_total", totals.events),
            ("weir_agent_rejected_events_total", totals.refused),
            ("weir_agent_refused_requests_total", extras.refused_requests),
        ):
            label = metric(name).labels[0]
            for key, count in _by_key(counts, frozenset(label.values), _without_other(label)):
                yield name, f'{name}{{{fixed}{label.name}="{key}"}} {count}\n'
        build = _pair("version", extras.version), _pair("python_version", self._python_version)
        yield "weir_build_info", _line("weir_build_info", fixed + ",".join(build), 1)
        name, recorded = "weir_agent_event_seconds", extras.event_seconds
        yield (
            name,
            _histogram(name, fixed, recorded.bounds, recorded.counts, recorded.sum_seconds),
        )


def _listener_lines(fixed: str, listeners: Iterable[ListenerView]) -> Iterator[tuple[str, str]]:
    # A restarted driver has a new listener: the one heard last speaks for the application.
    newest: dict[str, ListenerView] = {}
    for view in listeners:
        other = newest.get(view.application)
        if other is None or view.last_heard_time >= other.last_heard_time:
            newest[view.application] = view
    for application, view in newest.items():
        labels = fixed + _pair("application", application)
        numbers: tuple[tuple[str, float], ...] = (
            ("weir_listener_last_heard_timestamp_seconds", view.last_heard_time),
            ("weir_listener_queue_length", view.listener.queue_length),
            ("weir_listener_dropped_events_total", view.listener.dropped_total),
            ("weir_listener_callbacks_total", view.listener.callbacks_total),
            ("weir_listener_callback_seconds_total", view.listener.callback_seconds_total),
        )
        for name, number in numbers:
            yield name, _line(name, labels, number)


def _processes_lines(fixed: str, extras: Extras) -> Iterator[tuple[str, str]]:
    if extras.agent_process is not None:
        yield from _process_lines("weir_agent_process_", fixed, extras.agent_process)
    # Two processes of one name would be one series twice: the one started last stands.
    newest: dict[tuple[str, str], ProcessSample] = {}
    for sample in extras.driver_processes:
        key = (sample.application, sample.role)
        if key not in newest or sample.start_time >= newest[key].start_time:
            newest[key] = sample
    for (application, role), sample in newest.items():
        labels = f"{fixed}{_pair('application', application)},{_pair('process', role)}"
        yield from _process_lines("weir_driver_process_", labels, sample)


def _process_lines(prefix: str, labels: str, sample: ProcessSample) -> Iterator[tuple[str, str]]:
    memory = sample.memory
    numbers: tuple[tuple[str, float | None], ...] = (
        ("cpu_seconds_total", sample.cpu_seconds_total),
        ("resident_memory_bytes", sample.resident_bytes),
        ("memory_limit_bytes", memory.limit_bytes if memory else None),
        ("memory_limit_used_bytes", memory.used_bytes if memory else None),
        ("oom_kills_total", memory.oom_kills_total if memory else None),
        ("threads", sample.threads),
        ("open_files", sample.open_files),
        ("open_files_limit", sample.open_files_limit),
        ("start_time_seconds", sample.start_time),
    )
    for end, number in numbers:
        yield prefix + end, _line(prefix + end, labels, number)


def _query_lines(fixed: str, view: QueryView) -> list[tuple[int, bytes]]:
    """Every series of one query, by the place of its family. Raises on a view that is wrong."""
    passing = _OF_RUNNING if not view.up else frozenset()
    name_of_query = f"{_pair('application', view.application)},{_pair('query', view.query)}"
    labels = fixed + name_of_query
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
            f'{name}{{{labels},{label}="{value}"}} {int(value == present)}\n' for value in values
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
                "weir_batch_duration_seconds",
                labels,
                BATCH_SECONDS_BUCKETS,
                totals.duration_buckets,
                totals.duration_sum_seconds,
            ),
        )
    )
    if view.findings:
        counts = Counter((one.check, one.severity) for one in view.findings)
        name = "weir_consistency_findings"
        lines += (
            (_PLACE[name], f'{name}{{{labels},check="{check}",severity="{severity}"}} {count}\n')
            for (check, severity), count in sorted(counts.items())
        )
    for name, of_partitions, value in _partition_lines(view.partitions):
        lines.append((_PLACE[name], f"{name}{{{labels},{of_partitions}}} {value}\n"))
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
    # What a query did last says nothing of one that has ended.
    return [(place, text.encode()) for place, text in lines if place not in passing]


def _partition_lines(partitions: list[PartitionView]) -> Iterator[tuple[str, str, str]]:
    """Per source the nearest loss and what is lost; per partition its backlog, where asked for."""
    by_source: dict[int, list[PartitionView]] = {}
    for one in partitions:
        by_source.setdefault(one.source, []).append(one)
    for index, views in by_source.items():
        source = f'source="{index}"'
        loss = _number(soonest_loss_seconds(views))
        if loss is not None:
            yield "weir_retention_loss_seconds", source, loss
        yield "weir_retention_lost_rows", source, str(sum(one.lost_rows for one in views))
        for one in views:
            if one.series:
                place = f"{source},{_pair('topic', one.topic)},{_pair('partition', one.partition)}"
                yield "weir_backlog_partition_rows", place, str(one.backlog_rows)


# -- where each family's value stands in a view -------------------------------------------------

_PLACE: Final[dict[str, int]] = {one.name: place for place, one in enumerate(METRICS)}

_OF_RUNNING: Final = frozenset(place for place, one in enumerate(METRICS) if one.running)

_VALUE_READERS: Final[dict[str, Callable[[QueryView], float | None]]] = {
    "weir_query_up": lambda view: view.up,
    "weir_query_stopped": lambda view: view.stopped,
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
    "weir_capacity_short_since_timestamp_seconds": lambda view: view.capacity_short_since_time,
    "weir_pressure_ratio": lambda view: view.pressure_ratio,
    "weir_target_batch_seconds": lambda view: view.target_seconds,
    "weir_target_feasible": lambda view: view.target_feasible,
    "weir_checkpoint_seconds": lambda view: view.checkpoint.seconds,
    "weir_checkpoint_interval_seconds": lambda view: view.checkpoint.interval_seconds,
    "weir_checkpoint_deadline_seconds": lambda view: view.checkpoint.deadline_seconds,
    "weir_checkpoint_deadline_eta_seconds": lambda view: view.checkpoint.eta_seconds,
    "weir_checkpoint_bytes": lambda view: view.checkpoint.bytes,
    "weir_spiral_gain": lambda view: view.spiral.gain,
    "weir_alignment_seconds": lambda view: view.alignment.seconds,
    "weir_task_skew_ratio": lambda view: view.alignment.skew_ratio,
    "weir_replay_amplification_ratio": lambda view: view.spiral.replay_amplification,
    "weir_checkpoint_failures_consecutive": lambda view: view.checkpoint.failures_consecutive,
    "weir_consistency_folder_audited_timestamp_seconds": lambda view: view.folder_audited_time,
    "weir_watermark_lag_seconds": lambda view: view.watermark_lag_seconds,
    "weir_watermark_dropped_rows_total": lambda view: view.totals.watermark_dropped_rows,
    "weir_watermark_delay_seconds": lambda view: view.watermark_delay_seconds,
    "weir_lateness_seconds": lambda view: view.lateness_seconds,
    "weir_late_rows_held": lambda view: view.late_rows_held,
}
_STATE_READERS: Final[dict[str, Callable[[QueryView], str]]] = {
    "weir_query_state": lambda view: view.state,
    "weir_query_mode": lambda view: view.mode,
    "weir_lag_state": lambda view: view.lag_state,
    "weir_spiral_phase": lambda view: view.spiral.phase,
}
#: The flag: whether every listed value has a series from the start, so that a first increase is
#: seen as one. Not so where most values never come.
_KEYED_READERS: Final[dict[str, tuple[bool, Callable[[QueryView], Mapping[str, float]]]]] = {
    "weir_batches_total": (True, lambda view: view.totals.batches),
    "weir_batch_phase_seconds_total": (False, lambda view: view.totals.phase_seconds),
    "weir_time_seconds_total": (True, lambda view: view.totals.state_seconds),
    "weir_grants_total": (False, lambda view: view.totals.grants),
    "weir_checkpoint_phase_seconds": (False, lambda view: view.checkpoint.phases),
    "weir_checkpoints_total": (True, lambda view: view.totals.checkpoints),
    "weir_failures_total": (True, lambda view: view.totals.failures),
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
    "weir_state_snapshot_lag_versions": lambda operator: operator.snapshot_lag_versions,
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


def _line(name: str, labels: str, value: float | None) -> str:
    """One series; nothing where the value is unknown."""
    number = _number(value)
    return "" if number is None else f"{name}{_braces(labels)} {number}\n"


def _histogram(
    name: str,
    labels: str,
    bounds: Sequence[float],
    counts: Sequence[int],
    total_seconds: float,
) -> str:
    """A histogram from the counts of its buckets, not cumulative, the last one without bound.

    Raises ValueError where there are more or fewer counts than buckets; none at all is zeros.
    """
    counts = counts or [0] * (len(bounds) + 1)
    if len(counts) != len(bounds) + 1:
        raise ValueError(f"{name}: {len(counts)} counts for {len(bounds) + 1} buckets")
    labels = labels.rstrip(",")
    comma = "," if labels else ""
    texts = [*(repr(float(bound)) for bound in bounds), "+Inf"]
    lines = [
        f'{name}_bucket{{{labels}{comma}le="{text}"}} {count}\n'
        for text, count in zip(texts, accumulate(counts), strict=True)
    ]
    lines.append(_line(f"{name}_sum", labels, float(total_seconds)))
    lines.append(_line(f"{name}_count", labels, sum(counts)))
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


def fixed_labels(labels: Mapping[str, str]) -> str:
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
