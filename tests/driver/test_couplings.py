"""Which sources are not steered unless their owner says so: by table."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from spark_listener import sources
from spark_listener.couplings import file_options, options_of, reads_newest_first, why_unsafe
from spark_listener.limits import ALL, Limit, handle_of
from spark_listener.sources import FileOptions, Options, TableOptions

EARLIER_FILES, FILES = sources.FILES.classes
KAFKA, KAFKA_V1 = sources.KAFKA.classes
(ICEBERG,) = sources.ICEBERG.classes
PLAIN = FileOptions(latest_first=False, file_name_only=False)
LATEST = FileOptions(latest_first=True, file_name_only=False)
AHEAD = TableOptions(plans_ahead=True, available_now=True)
FROM_A_TIME = TableOptions(plans_ahead=False, available_now=False, from_a_time=True)
NAMES = FileOptions(latest_first=False, file_name_only=True)
MINIMUM = Limit("min_rows", 100, 5000)
BOTH = Limit("composite", parts=(MINIMUM, Limit("rows", 500)))
#: Paimon's, which counts the minimum of what the other limits let it see.
(PAIMON,) = sources.PAIMON.classes
FILES_AND_MINIMUM = Limit("composite", parts=(Limit("files", 1000), MINIMUM))


@pytest.mark.parametrize(
    ("configured", "source", "options", "why"),
    [
        (ALL, FILES, PLAIN, ""),
        (ALL, FILES, LATEST, sources.LATEST_FIRST),
        (ALL, EARLIER_FILES, LATEST, sources.LATEST_FIRST),
        (Limit("files", 5), FILES, LATEST, ""),  # Spark ignores maxFileAge from the start
        (Limit("bytes", 5), FILES, LATEST, ""),
        (ALL, FILES, NAMES, sources.FILE_NAME_ONLY),
        (Limit("files", 5), FILES, NAMES, sources.FILE_NAME_ONLY),
        (ALL, FILES, None, sources.UNREADABLE),
        (Limit("files", 5), FILES, None, sources.UNREADABLE),
        (ALL, KAFKA, None, ""),
        (Limit("rows", 5), KAFKA, None, ""),
        (MINIMUM, KAFKA, None, sources.MINIMUM_OFFSETS),
        (BOTH, KAFKA, None, sources.MINIMUM_OFFSETS),
        (ALL, KAFKA_V1, None, ""),
        (BOTH, KAFKA_V1, None, sources.MINIMUM_OFFSETS),
        (FILES_AND_MINIMUM, PAIMON, None, sources.MINIMUM),
        (Limit("rows", 5), PAIMON, None, sources.BEGINS_ANEW),
        (Limit("files", 5), PAIMON, None, sources.BEGINS_ANEW),
        (BOTH, "some.other.Stream", None, sources.MINIMUM),
        (ALL, ICEBERG, AHEAD, sources.PLANNED_AHEAD),
        (Limit("files", 5), ICEBERG, AHEAD, ""),  # the run ends so without us, too
        (ALL, ICEBERG, TableOptions(plans_ahead=True, available_now=False), ""),
        (ALL, ICEBERG, TableOptions(plans_ahead=False, available_now=True), ""),
        (ALL, ICEBERG, FROM_A_TIME, sources.PASSED_OVER),
        (Limit("files", 5), ICEBERG, FROM_A_TIME, sources.PASSED_OVER),  # ours leaves more
        (ALL, ICEBERG, None, sources.UNREADABLE),
        (Limit("files", 5), ICEBERG, None, sources.UNREADABLE),
        (Limit("files", 1000), "x.DeltaSource", None, ""),
    ],
)
def test_the_option_that_makes_a_limit_unsafe(
    configured: Limit, source: str, options: Options | None, why: str
) -> None:
    said = why_unsafe(configured, source, options)
    assert said == (why and f"{why}; weir agent --give-limits all steers it")
    assert len(said) <= 200  # what an agent keeps of a note


@pytest.mark.parametrize(
    ("source", "options", "newest_first"),
    [
        (FILES, PLAIN, False),
        (FILES, NAMES, False),
        (FILES, LATEST, True),
        (EARLIER_FILES, LATEST, True),
        (FILES, None, True),  # nobody knows
        (KAFKA, None, False),
        (ICEBERG, AHEAD, False),
        ("x.DeltaSource", None, False),
    ],
)
def test_the_option_that_reads_what_came_later_before(
    source: str, options: Options | None, newest_first: bool
) -> None:
    assert reads_newest_first(source, options) is newest_first


def test_of_iceberg_the_files_are_steered_where_both_are_limited() -> None:
    both = Limit("composite", parts=(Limit("files", 5), Limit("rows", 9)))
    assert handle_of(both, ICEBERG, release=(1, 10)).unit == "files"
    assert why_unsafe(both, ICEBERG, TableOptions(plans_ahead=False, available_now=False)) == ""


class Hidden:
    """A source that shows no field; what py4j raises is no different to us."""

    def getClass(self) -> Any:
        raise RuntimeError("NoSuchFieldException: sourceOptions")


def test_options_that_cannot_be_read_are_unknown() -> None:
    assert file_options(Hidden()) is None


class Stream:
    """Iceberg's, with the fields that its release has, some of them of a class above."""

    def __init__(self, above: Stream | None = None, **fields: Any) -> None:
        self.above, self.fields = above, fields

    def getSuperclass(self) -> Stream | None:
        return self.above

    def getClass(self) -> Any:
        return self

    def getDeclaredField(self, name: str) -> Any:
        if name not in self.fields:
            raise RuntimeError(f"NoSuchFieldException: {name}")
        value = self.fields[name]
        if isinstance(value, Exception):
            raise value

        class Field:
            def setAccessible(self, _: bool) -> None:
                pass

            def get(self, _: Stream) -> Any:
                return value

        return Field()


class Ahead:
    """Its ``readConf``, from 1.11 on."""

    def asyncMicroBatchPlanningEnabled(self) -> bool:
        return True


NO_TIME = {"fromTimestamp": -(2**63)}
LATER = {"fromTimestamp": 1_795_000_000_000}


@pytest.mark.parametrize(
    ("release", "stream", "plans_ahead", "from_a_time"),
    [
        ((1, 10), Stream(**NO_TIME), False, False),  # no readConf
        ((1, 10), Stream(**LATER), False, True),
        ((1, 11), Stream(**LATER, readConf=Ahead()), True, True),
        ((1, 11), Stream(**NO_TIME, readConf=Ahead()), True, False),
        ((1, 12), Stream(Stream(Stream(), readConf=Ahead()), **LATER), True, True),
        ((1, 12), Stream(Stream(**NO_TIME, readConf=Ahead())), True, False),
    ],
)
def test_the_options_of_an_iceberg_stream_are_read_each_for_itself(
    release: tuple[int, int], stream: Stream, plans_ahead: bool, from_a_time: bool
) -> None:
    assert options_of(stream, ICEBERG, "AvailableNow", release) == TableOptions(
        plans_ahead=plans_ahead, available_now=True, from_a_time=from_a_time
    )


@pytest.mark.parametrize(
    ("release", "fields"),
    [
        ((1, 11), NO_TIME),
        ((1, 12), NO_TIME),
        (None, NO_TIME),
        ((1, 10), {}),
        ((1, 10), {"fromTimestamp": RuntimeError("InaccessibleObjectException")}),
        ((1, 10), {**NO_TIME, "readConf": RuntimeError("InaccessibleObjectException")}),
        ((1, 12), {**NO_TIME, "readConf": object()}),
    ],
)
def test_an_iceberg_stream_that_does_not_show_its_options_is_unsafe(
    release: tuple[int, int] | None, fields: dict[str, Any]
) -> None:
    options = options_of(Stream(**fields), ICEBERG, "ProcessingTime", release)
    assert options is None
    assert why_unsafe(ALL, ICEBERG, options).startswith(sources.UNREADABLE)


@pytest.mark.parametrize(
    ("source", "field"), [(ICEBERG, "fromTimestamp"), (FILES, "sourceOptions")]
)
def test_a_jvm_that_did_not_answer_is_asked_again(source: str, field: str) -> None:
    stream = Stream(**{field: Py4JNetworkError("Answer from Java side is empty")})
    with pytest.raises(Py4JNetworkError):
        options_of(stream, source, "ProcessingTime", (1, 10))
