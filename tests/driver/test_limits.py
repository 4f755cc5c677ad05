"""A limit is never replaced by one of another class: by table, and for anything else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_listener import sources
from spark_listener.limits import (
    ALL,
    DELTA_BYTES,
    DELTA_COMPOSITE,
    LARGEST,
    PYTHON_LIMIT,
    Limit,
    Refused,
    describe,
    handle_of,
    maximum_of,
    may_follow,
    replacement,
)
from spark_listener.wire import UNITS

EARLIER_FILES, FILES = sources.FILES.classes
KAFKA = sources.KAFKA.classes[0]
TAKE = {name: one.takes for one in sources.SOURCES for name in one.classes if one.takes}
RATE = "org.apache.spark.sql.execution.streaming.sources.RateStreamMicroBatchStream"
RATE_MICRO_BATCH = "org.apache.spark.sql.execution.streaming.sources.RatePerMicroBatchStream"
SOCKET = "org.apache.spark.sql.execution.streaming.sources.TextSocketMicroBatchStream"
DELTA = "org.apache.spark.sql.delta.sources.DeltaSource"
WRAPPER = "org.apache.spark.sql.execution.streaming.AvailableNowMicroBatchStreamWrapper"
MINIMUM = Limit("min_rows", 100, 5000)
LOW_MINIMUM = Limit("min_rows", 5, 5000)
PYTHON = "org.apache.spark.sql.execution.datasources.v2.python"
PYTHON_SOURCE = f"{PYTHON}.PythonMicroBatchStreamWithAdmissionControl"
OWN = Limit("other", class_name="io.example.sources.OwnLimit")
BYTES = Limit("bytes", 10, class_name=DELTA_BYTES)


def composite(*parts: Limit) -> Limit:
    return Limit("composite", parts=parts)


GIVEN = [
    # configured, source, unit, what comes of a grant of 7
    (Limit("files", 2), FILES, "files", Limit("files", 7)),
    (Limit("files", 2), EARLIER_FILES, "files", Limit("files", 7)),
    (Limit("bytes", 2), FILES, "bytes", Limit("bytes", 7)),
    (ALL, FILES, "files", Limit("files", 7)),
    (ALL, EARLIER_FILES, "files", Limit("files", 7)),
    (Limit("rows", 2), KAFKA, "rows", Limit("rows", 7)),
    (ALL, KAFKA, "rows", Limit("rows", 7)),
    # Spark itself refuses a maximum below the minimum beside it.
    (MINIMUM, KAFKA, "rows", composite(MINIMUM, Limit("rows", 100))),
    (composite(MINIMUM), KAFKA, "rows", composite(MINIMUM, Limit("rows", 100))),
    (LOW_MINIMUM, KAFKA, "rows", composite(LOW_MINIMUM, Limit("rows", 7))),
    (composite(LOW_MINIMUM), KAFKA, "rows", composite(LOW_MINIMUM, Limit("rows", 7))),
    (
        composite(LOW_MINIMUM, Limit("rows", 500)),
        KAFKA,
        "rows",
        composite(LOW_MINIMUM, Limit("rows", 7)),
    ),
    (
        composite(MINIMUM, Limit("rows", 500)),
        KAFKA,
        "rows",
        composite(MINIMUM, Limit("rows", 100)),
    ),
    (Limit("files", 1000), DELTA, "files", Limit("files", 7)),
    (BYTES, DELTA, "bytes", Limit("bytes", 7, class_name=DELTA_BYTES)),
    (
        Limit("composite", parts=(BYTES, Limit("files", 5)), class_name=DELTA_COMPOSITE),
        DELTA,
        "files",
        Limit("composite", parts=(BYTES, Limit("files", 7)), class_name=DELTA_COMPOSITE),
    ),
    (
        composite(Limit("files", 5), Limit("rows", 9)),
        "some.other.Stream",
        "rows",
        composite(Limit("files", 5), Limit("rows", 7)),
    ),
    (
        composite(Limit("files", 5), Limit("rows", 9)),
        "org.apache.iceberg.spark.source.SparkMicroBatchStream",
        "files",
        composite(Limit("files", 7), Limit("rows", 9)),
    ),
    (composite(OWN, Limit("files", 5)), DELTA, "files", composite(OWN, Limit("files", 7))),
    (
        Limit("rows", 5, class_name=PYTHON_LIMIT),
        PYTHON_SOURCE,
        "rows",
        Limit("rows", 7, class_name=PYTHON_LIMIT),
    ),
]

REFUSED = [
    (Limit("files", 2), FILES, "rows"),  # seen: maxRows on a file source ends the query
    (Limit("files", 2), FILES, "bytes"),
    (Limit("bytes", 2), FILES, "files"),
    (ALL, FILES, "rows"),
    (ALL, FILES, "bytes"),
    (ALL, KAFKA, "files"),
    (Limit("rows", 2), KAFKA, "bytes"),
    (MINIMUM, KAFKA, "files"),
    (MINIMUM, "some.other.Stream", "rows"),
    (composite(MINIMUM), "some.other.Stream", "rows"),
    (composite(), KAFKA, "rows"),
    (composite(Limit("files", 1), Limit("files", 2)), DELTA, "files"),
    (composite(OWN), DELTA, "files"),
    (ALL, RATE, "rows"),
    (ALL, SOCKET, "rows"),
    (ALL, DELTA, "files"),
    (OWN, DELTA, "files"),
    (OWN, KAFKA, "rows"),
    (Limit("rows", 5, class_name=PYTHON_LIMIT), PYTHON_SOURCE, "bytes"),
    (Limit("other", class_name=PYTHON_LIMIT), PYTHON_SOURCE, "rows"),
    (Limit("all", class_name=PYTHON_LIMIT), PYTHON_SOURCE, "rows"),
    (Limit("min_rows", 5, class_name=PYTHON_LIMIT), PYTHON_SOURCE, "rows"),
]


@pytest.mark.parametrize(("configured", "source", "unit", "expected"), GIVEN)
def test_replaced_within_its_class(
    configured: Limit, source: str, unit: str, expected: Limit
) -> None:
    assert replacement(configured, source, unit, 7) == expected
    assert may_follow(expected, configured, source, unit)
    handle = handle_of(configured, source, release=(99, 0))
    assert (handle.control, handle.unit) == ("live", unit)


@pytest.mark.parametrize(("configured", "source", "unit"), REFUSED)
def test_refused(configured: Limit, source: str, unit: str) -> None:
    with pytest.raises(Refused):
        replacement(configured, source, unit, 7)


@pytest.mark.parametrize(
    ("configured", "source", "control"),
    [
        (ALL, RATE, "advice"),
        (Limit("rows", 10), RATE_MICRO_BATCH, "advice"),
        (ALL, SOCKET, "advice"),
        (ALL, WRAPPER, "advice"),
        (Limit("rows", 10), WRAPPER, "advice"),
        (ALL, DELTA, "advice"),
        (OWN, DELTA, "advice"),
        (MINIMUM, "some.other.Stream", "advice"),
        (Limit("rows", 10), sources.MONGODB.classes[0], "advice"),
        (Limit("rows", 10), sources.PRAVEGA.classes[0], "advice"),
    ],
)
def test_what_cannot_be_steered_says_why(configured: Limit, source: str, control: str) -> None:
    handle = handle_of(configured, source)
    assert handle.control == control
    assert handle.note


class JavaLimit:
    """A Python source's, as the JVM holds it."""

    def __init__(self, text: str) -> None:
        self.json = lambda: text

    def getClass(self) -> JavaLimit:
        return self

    def getName(self) -> str:
        return PYTHON_LIMIT


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ('{"_type": "ReadAllAvailable"}', "the source has no limit and is not known to take one"),
        (
            '{"min_rows": 5, "_type": "ReadMinRows"}',
            "the source has a minimum and is not known to take a maximum beside it",
        ),
        (
            '{"max_shards": 5, "_type": "ReadMaxShards"}',
            "the limit is of the source's own class PythonStreamingSourceReadLimit",
        ),
    ],
)
def test_a_python_source_without_a_maximum_says_what_it_has(text: str, note: str) -> None:
    """One that names no limit is written down as one that reads all there is."""
    handle = handle_of(describe(JavaLimit(text)), PYTHON_SOURCE)
    assert (handle.control, handle.unit, handle.note) == ("advice", "rows", note)


@pytest.mark.parametrize("configured", [ALL, Limit("files", 5), Limit("rows", 5)])
@pytest.mark.parametrize(
    ("release", "control", "said"),
    [
        ((1, 9), "advice", "is 1.9"),
        ((0, 14), "advice", "is 0.14"),
        (None, "advice", "does not say which it is"),
        ((1, 10), "live", ""),
        ((2, 0), "live", ""),
    ],
)
def test_an_old_release_that_does_not_look_at_a_changed_limit_is_left_alone(
    configured: Limit, release: tuple[int, int] | None, control: str, said: str
) -> None:
    handle = handle_of(configured, sources.ICEBERG.classes[0], release=release)
    assert handle.control == control
    assert said in handle.note
    assert ("1.10" in handle.note) == (control == "advice")


def test_a_trigger_that_takes_everything_gets_no_limit() -> None:
    assert handle_of(Limit("files", 2), FILES, all_at_once=True).control == "none"


@pytest.mark.parametrize("maximum", [0, -1, -(2**70)])
def test_a_limit_that_stops_the_query_is_refused(maximum: int) -> None:
    with pytest.raises(Refused):
        replacement(Limit("files", 2), FILES, "files", maximum)


def test_a_limit_beyond_javas_type_is_cut_to_it() -> None:
    assert replacement(ALL, FILES, "files", 2**40) == Limit("files", 2**31 - 1)
    assert replacement(Limit("rows", 1), KAFKA, "rows", 2**80) == Limit("rows", 2**63 - 1)


simple = st.one_of(
    st.just(ALL),
    st.builds(Limit, st.sampled_from(UNITS), st.integers(1, 2**31 - 1)),
    st.builds(
        Limit, st.sampled_from(UNITS), st.integers(1, 2**31 - 1), class_name=st.just(PYTHON_LIMIT)
    ),
    st.builds(Limit, st.just("min_rows"), st.integers(1, 10**9), st.integers(0, 10**6)),
    st.builds(Limit, st.just("other"), class_name=st.sampled_from(["a.B", "c.D"])),
)
any_limit = st.one_of(
    simple,
    st.lists(simple, max_size=4).map(lambda parts: Limit("composite", parts=tuple(parts))),
)
any_source = st.sampled_from([*TAKE, RATE, RATE_MICRO_BATCH, SOCKET, DELTA, WRAPPER, "x.Y"])


def test_a_limit_beyond_what_a_source_holds_is_cut_to_it() -> None:
    """Iceberg from 1.10 on holds rows in an int, and a larger limit ends the query."""
    iceberg = "org.apache.iceberg.spark.source.SparkMicroBatchStream"
    for configured in (Limit("rows", 5), composite(Limit("files", 5), Limit("rows", 5))):
        most = replacement(configured, iceberg, "rows", 2**40)
        assert 2**31 - 1 in {most.value, *(part.value for part in most.parts)}
        assert may_follow(most, configured, iceberg, "rows")
    assert replacement(Limit("rows", 5), KAFKA, "rows", 2**40).value == 2**40


def test_a_class_has_one_row() -> None:
    classes = [name for one in sources.SOURCES for name in one.classes]
    assert len(set(classes)) == len(classes)
    for one in sources.SOURCES:
        assert all(sources.known(name) is one for name in one.classes)
        assert one.takes or not one.beside_minimum
    assert sources.known("x.Y") == sources.Known(())


@settings(deadline=None)
@given(any_limit, any_source, st.sampled_from(UNITS), st.integers(-5, 2**70))
def test_whatever_is_configured_the_class_stays(
    configured: Limit, source: str, unit: str, maximum: int
) -> None:
    try:
        new = replacement(configured, source, unit, maximum)
    except Refused:
        return
    assert maximum_of(new, unit) is not None
    assert 1 <= (maximum_of(new, unit) or 0) <= LARGEST[unit]
    if new.same_class(configured):
        # Nothing but the one number has moved.
        pairs = zip(new.parts or (new,), configured.parts or (configured,), strict=True)
        assert sum(mine != its for mine, its in pairs) <= 1
        return
    # Another class only where the source is on the list of those that take it.
    assert TAKE[source] == unit
    if configured.kind == "all":
        assert new == Limit(unit, min(maximum, LARGEST[unit]))
    else:
        kept = configured.parts or (configured,)
        assert all(part.kind == "min_rows" for part in kept)
        assert new.parts[:-1] == kept
        assert new.parts[-1].kind == unit


@settings(deadline=None)
@given(any_limit, any_limit, any_source, st.sampled_from(UNITS))
def test_a_strangers_limit_is_left_alone(
    present: Limit, configured: Limit, source: str, unit: str
) -> None:
    if may_follow(present, configured, source, unit) and present != configured:
        maximum = maximum_of(present, unit)
        assert maximum is not None
        assert replacement(configured, source, unit, maximum) == present
