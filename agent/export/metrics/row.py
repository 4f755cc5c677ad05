"""What a row of the catalogue is: a metric, whom it tells of, and how its value is read.

What a metric tells of is its subject. It gives each of the metric's series its first labels, and
says what the reader is given::

    QUERY.gauge(
        "weir_spiral_gain",
        "Gain of the loop from a batch's duration to the next one's.",
        lambda view: view.spiral.gain,
        running=True,
        note="Below 1 it settles, from 1 on it runs away unless a limit binds. …",
    )

is a whole metric. Nothing else needs to be told of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypedDict, TypeVar

import msgspec

from agent.checkpoint.audit import CHECKS
from agent.core.judgement import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Unpack

    from agent.core.fleet import AgentTotals, ListenersView
    from agent.core.judgement import Finding, OperatorView, QueryView, SourceView
    from agent.core.measure.partitions import PartitionView
    from agent.sources.host import Extras, ProcessSample

PREFIX: Final = "weir_"

Kind = Literal["gauge", "counter", "histogram", "state set", "info"]

#: A key that Spark or the core gives and no label's list of values knows lands under this one, so
#: that a label never grows beyond its list.
OTHER: Final = "other"

T = TypeVar("T")


class Label(msgspec.Struct, frozen=True):
    """A label: every value it can have, or, where that is no list, what bounds them."""

    name: str
    values: tuple[str, ...] = ()
    bound: str = ""


class Formula(msgspec.Struct, frozen=True):
    """Where a figure is judged: its module, whose docstring names the source, and its test."""

    module: str
    test: str
    function: str = ""  # of the module, as ``Class.method`` where it is one

    def of(self, function: str) -> Formula:
        """The same, by the function that says it."""
        return Formula(self.module, self.test, function)


ARRIVALS: Final = Formula("agent/core/measure/decaying.py", "tests/core/test_decaying.py")
ATTENTION: Final = Formula("agent/core/judge/attention.py", "tests/core/test_attention.py")
BEHIND: Final = Formula("agent/core/measure/lag_table.py", "tests/core/test_what_is_shown.py")
CHECKPOINT: Final = Formula("agent/core/judge/checkpoint.py", "tests/judgement/test_checkpoint.py")
CONSUMED: Final = Formula("agent/core/tell.py", "tests/core/test_what_is_shown.py")
COST: Final = Formula("agent/core/measure/cost.py", "tests/core/test_cost.py")
CREDIT: Final = Formula("agent/core/decide/credit.py", "tests/core/test_parts.py")
EXECUTORS: Final = Formula("agent/core/decide/executors.py", "tests/core/test_executors.py")
FAILURE: Final = Formula("agent/core/judge/failure/cause.py", "tests/faults/test_causes.py")
LAG: Final = Formula("agent/core/judge/lag_state.py", "tests/judgement/test_lag_state.py")
LATENESS: Final = Formula("agent/core/judge/lateness.py", "tests/core/test_lateness.py")
RETENTION: Final = Formula("agent/core/measure/partitions.py", "tests/core/test_partitions.py")
SIZE: Final = Formula("agent/core/decide/size.py", "tests/core/test_size.py")
SPIRAL: Final = Formula("agent/core/judge/spiral.py", "tests/judgement/test_spiral.py")
STAGES: Final = Formula("agent/core/judge/alignment.py", "tests/judgement/test_alignment.py")
TIME: Final = Formula("agent/core/measure/occupancy.py", "tests/core/test_parts.py")
WORK: Final = Formula("agent/core/measure/work.py", "tests/core/test_work.py")


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric family. ``name`` is what is exported, with prefix and ``_total`` or ``_info``.

    ``unit`` is of the base units (seconds, bytes, rows, files, ratio, ...), empty for pure counts
    and states. ``note`` says what the number means at its edges, above all when it is absent: a
    value that is not known is absent, never zero.

    ``read`` takes what ``subject`` is of; what it gives stands at the subject's method that made
    the row.
    """

    name: str
    kind: Kind
    help: str
    read: Callable[[Any], Any]
    subject: Subject[Any]
    labels: tuple[Label, ...] = ()
    unit: str = ""
    note: str = ""
    since: str = "0.1.0"
    buckets: tuple[float, ...] = ()
    running: bool = False  # tells of a query that runs: it has no series once that does not
    from_start: bool = False  # each listed value has a series before it was ever counted
    not_shown: str = ""  # why no panel of the dashboards shows it; empty: one does
    formula: Formula | None = None  # where it is judged; None: it is told as it was heard

    @property
    def family(self) -> str:
        """The name of the family in OpenMetrics, which leaves out ``_total``."""
        return self.name.removesuffix("_total") if self.kind == "counter" else self.name

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names its series have in Prometheus."""
        if self.kind == "histogram":
            return tuple(self.name + end for end in ("_bucket", "_sum", "_count"))
        return (self.name,)

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of its labels, without the fixed ones of the configuration and ``le``."""
        return tuple(label.name for label in self.labels)

    @property
    def own_labels(self) -> tuple[Label, ...]:
        """Its labels beyond those that name the subject."""
        return self.labels[len(self.subject.labels) :]

    def values_of(self, label: str) -> tuple[str, ...]:
        """The listed values of one of its labels; raises KeyError where it has no such label."""
        for one in self.labels:
            if one.name == label:
                return one.values
        raise KeyError(f"{self.name} has no label {label!r}")


class More(TypedDict, total=False):
    """What a row may say besides; ``Metric`` says what each means."""

    unit: str
    note: str
    since: str
    running: bool
    not_shown: str
    formula: Formula


class Subject(Generic[T]):
    """What metrics tell of, and the labels that name it. Each method makes a row."""

    def __init__(self, *labels: Label) -> None:
        self.labels = labels

    def gauge(
        self, name: str, text: str, read: Callable[[T], float | None], **more: Unpack[More]
    ) -> Metric:
        """A number that rises and falls. None and NaN are absent; truth values are 1 and 0."""
        return Metric(
            name=name, kind="gauge", help=text, read=read, subject=self, labels=self.labels, **more
        )

    def counter(
        self, name: str, text: str, read: Callable[[T], float | None], **more: Unpack[More]
    ) -> Metric:
        """A number that only rises; ``name`` ends in ``_total``."""
        return msgspec.structs.replace(self.gauge(name, text, read, **more), kind="counter")

    def gauge_by(
        self,
        name: str,
        text: str,
        label: Label,
        read: Callable[[T], Mapping[str, float | None]],
        *,
        from_start: bool = False,
        **more: Unpack[More],
    ) -> Metric:
        """A number for each value of one more label; keys not listed there are summed as other."""
        return Metric(
            name=name,
            kind="gauge",
            help=text,
            read=read,
            subject=self,
            labels=(*self.labels, label),
            from_start=from_start,
            **more,
        )

    def counter_by(
        self,
        name: str,
        text: str,
        label: Label,
        read: Callable[[T], Mapping[str, float]],
        *,
        from_start: bool = False,
        **more: Unpack[More],
    ) -> Metric:
        """A count for each value of one more label; ``from_start`` shows a first one as a rise.

        Without it a series begins with its first count: where most values never come.
        """
        row = self.gauge_by(name, text, label, read, from_start=from_start, **more)
        return msgspec.structs.replace(row, kind="counter")

    def states(
        self,
        name: str,
        text: str,
        label: Label,
        read: Callable[[T], str | None],
        **more: Unpack[More],
    ) -> Metric:
        """A series for each value of one more label, 1 for the one that is read; None is absent."""
        return Metric(
            name=name,
            kind="state set",
            help=text,
            read=read,
            subject=self,
            labels=(*self.labels, label),
            **more,
        )

    def info(
        self,
        name: str,
        text: str,
        labels: tuple[Label, ...],
        read: Callable[[T], tuple[str, ...]],
        **more: Unpack[More],
    ) -> Metric:
        """Always 1: what is read are the values of more labels; ``name`` ends in ``_info``."""
        return Metric(
            name=name,
            kind="info",
            help=text,
            read=read,
            subject=self,
            labels=(*self.labels, *labels),
            **more,
        )

    def histogram(
        self,
        name: str,
        text: str,
        buckets: tuple[float, ...],
        read: Callable[[T], tuple[Sequence[int], float]],
        **more: Unpack[More],
    ) -> Metric:
        """Counts by bucket, not cumulative, the last one without bound; and the sum of all.

        No counts at all are zeros.
        """
        return Metric(
            name=name,
            kind="histogram",
            help=text,
            read=read,
            subject=self,
            labels=self.labels,
            buckets=buckets,
            **more,
        )


@dataclass(frozen=True)
class AgentFacts:
    """What the agent tells of itself in one exposition."""

    queries: int
    totals: AgentTotals
    extras: Extras
    scrape_errors: int
    python_version: str
    scrape_seconds: Callable[[], float]  # since the exposition was begun


_APPLICATION: Final = Label(
    "application", bound="names of Spark applications; at most as many as `max_queries`"
)
_QUERY: Final = Label(
    "query",
    bound="names of streaming queries, else their ids; at most `max_queries` pairs of "
    "application and query; a name longer than 120 characters is cut and carries a digest",
)
_SOURCE: Final = Label(
    "source", bound="index of the source in Spark's progress; at most `max_sources` of a query"
)
_OPERATOR: Final = Label(
    "operator",
    bound="index and name of the state operator in Spark's progress, such as `0:dedupe`; at most "
    "`max_operators` of a query",
)
_TOPIC: Final = Label("topic", bound="topics of the source")
_PARTITION: Final = Label(
    "partition", bound="partitions of the topic; at most 5,000 series of all queries"
)

QUERY: Final[Subject[QueryView]] = Subject(_APPLICATION, _QUERY)
SOURCE: Final[Subject[SourceView]] = Subject(_APPLICATION, _QUERY, _SOURCE)
OPERATOR: Final[Subject[OperatorView]] = Subject(_APPLICATION, _QUERY, _OPERATOR)
#: All partitions of a source, as Kafka's brokers tell of them; and each.
PARTITIONS: Final[Subject[list[PartitionView]]] = Subject(_APPLICATION, _QUERY, _SOURCE)
PARTITION: Final[Subject[PartitionView]] = Subject(
    _APPLICATION, _QUERY, _SOURCE, _TOPIC, _PARTITION
)
#: All findings of one check and severity.
FINDINGS: Final[Subject[list[Finding]]] = Subject(
    _APPLICATION, _QUERY, Label("check", CHECKS), Label("severity", SEVERITIES)
)
LISTENER: Final[Subject[ListenersView]] = Subject(_APPLICATION)
AGENT: Final[Subject[AgentFacts]] = Subject()
AGENT_PROCESS: Final[Subject[ProcessSample]] = Subject()
DRIVER_PROCESS: Final[Subject[ProcessSample]] = Subject(
    _APPLICATION, Label("process", ("jvm", "python"))
)
