"""Which sources are not steered unless their owner says so: by table."""

from __future__ import annotations

from typing import Any

import pytest

from spark_listener import couplings
from spark_listener.couplings import FileOptions, file_options, why_unsafe
from spark_listener.limits import ALL, FILE_CLASSES, ICEBERG_CLASS, KAFKA_CLASS, Limit, handle_of

FILES = FILE_CLASSES[1]
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
        (ALL, FILES, TRIGGER, LATEST, couplings.LATEST_FIRST),
        (ALL, FILE_CLASSES[0], AVAILABLE_NOW, LATEST, couplings.LATEST_FIRST),
        (Limit("files", 5), FILES, TRIGGER, LATEST, ""),  # Spark ignores maxFileAge from the start
        (Limit("bytes", 5), FILES, TRIGGER, LATEST, ""),
        (ALL, FILES, TRIGGER, NAMES, couplings.FILE_NAME_ONLY),
        (Limit("files", 5), FILES, TRIGGER, NAMES, couplings.FILE_NAME_ONLY),
        (ALL, FILES, TRIGGER, None, couplings.UNREADABLE),
        (Limit("files", 5), FILES, TRIGGER, None, couplings.UNREADABLE),
        (ALL, KAFKA_CLASS, AVAILABLE_NOW, None, ""),
        (Limit("rows", 5), KAFKA_CLASS, AVAILABLE_NOW, None, ""),
        (MINIMUM, KAFKA_CLASS, TRIGGER, None, ""),
        (BOTH, KAFKA_CLASS, TRIGGER, None, ""),
        (MINIMUM, KAFKA_CLASS, AVAILABLE_NOW, None, couplings.MINIMUM_ONCE),
        (BOTH, KAFKA_CLASS, AVAILABLE_NOW, None, couplings.MINIMUM_ONCE),
        (Limit("rows", 5), ICEBERG_CLASS, TRIGGER, None, couplings.ICEBERG_ROWS),
        (Limit("files", 5), ICEBERG_CLASS, TRIGGER, None, ""),
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
    assert handle_of(both, ICEBERG_CLASS).unit == "files"
    assert why_unsafe(both, ICEBERG_CLASS, TRIGGER, None) == ""


class Hidden:
    """A source that shows no field; what py4j raises is no different to us."""

    def getClass(self) -> Any:
        raise RuntimeError("NoSuchFieldException: sourceOptions")


def test_options_that_cannot_be_read_are_unknown() -> None:
    assert file_options(Hidden()) is None
