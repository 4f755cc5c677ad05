"""Which sources are not steered unless their owner says so: by table."""

from __future__ import annotations

from typing import Any

import pytest

from spark_listener import sources
from spark_listener.couplings import file_options, why_unsafe
from spark_listener.limits import ALL, Limit, handle_of
from spark_listener.sources import FileOptions

EARLIER_FILES, FILES = sources.FILES.classes
(KAFKA,) = sources.KAFKA.classes
(ICEBERG,) = sources.ICEBERG.classes
PLAIN = FileOptions(latest_first=False, file_name_only=False)
LATEST = FileOptions(latest_first=True, file_name_only=False)
NAMES = FileOptions(latest_first=False, file_name_only=True)
TRIGGER, AVAILABLE_NOW = "ProcessingTimeTrigger(0)", "AvailableNowTrigger"
MINIMUM = Limit("min_rows", 100, 5000)
BOTH = Limit("composite", parts=(MINIMUM, Limit("rows", 500)))


@pytest.mark.parametrize(
    ("configured", "source", "trigger", "files", "why"),
    [
        (ALL, FILES, TRIGGER, PLAIN, ""),
        (ALL, FILES, AVAILABLE_NOW, PLAIN, ""),
        (ALL, FILES, TRIGGER, LATEST, sources.LATEST_FIRST),
        (ALL, EARLIER_FILES, AVAILABLE_NOW, LATEST, sources.LATEST_FIRST),
        (Limit("files", 5), FILES, TRIGGER, LATEST, ""),  # Spark ignores maxFileAge from the start
        (Limit("bytes", 5), FILES, TRIGGER, LATEST, ""),
        (ALL, FILES, TRIGGER, NAMES, sources.FILE_NAME_ONLY),
        (Limit("files", 5), FILES, TRIGGER, NAMES, sources.FILE_NAME_ONLY),
        (ALL, FILES, TRIGGER, None, sources.UNREADABLE),
        (Limit("files", 5), FILES, TRIGGER, None, sources.UNREADABLE),
        (ALL, KAFKA, AVAILABLE_NOW, None, ""),
        (Limit("rows", 5), KAFKA, AVAILABLE_NOW, None, ""),
        (MINIMUM, KAFKA, TRIGGER, None, ""),
        (BOTH, KAFKA, TRIGGER, None, ""),
        (MINIMUM, KAFKA, AVAILABLE_NOW, None, sources.MINIMUM_ONCE),
        (BOTH, KAFKA, AVAILABLE_NOW, None, sources.MINIMUM_ONCE),
        (Limit("rows", 5), ICEBERG, TRIGGER, None, ""),
        (Limit("files", 5), ICEBERG, TRIGGER, None, ""),
        (Limit("files", 1000), "x.DeltaSource", AVAILABLE_NOW, None, ""),
    ],
)
def test_the_option_that_makes_a_limit_unsafe(
    configured: Limit, source: str, trigger: str, files: FileOptions | None, why: str
) -> None:
    said = why_unsafe(configured, source, trigger, files)
    assert said == (why and f"{why}; weir agent --give-limits all steers it")
    assert len(said) <= 200  # what an agent keeps of a note


def test_of_iceberg_the_files_are_steered_where_both_are_limited() -> None:
    both = Limit("composite", parts=(Limit("files", 5), Limit("rows", 9)))
    assert handle_of(both, ICEBERG, release=(1, 10)).unit == "files"
    assert why_unsafe(both, ICEBERG, TRIGGER, None) == ""


class Hidden:
    """A source that shows no field; what py4j raises is no different to us."""

    def getClass(self) -> Any:
        raise RuntimeError("NoSuchFieldException: sourceOptions")


def test_options_that_cannot_be_read_are_unknown() -> None:
    assert file_options(Hidden()) is None
