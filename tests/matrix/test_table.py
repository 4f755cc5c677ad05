"""docs/versions.md tells of each version what the matrix saw last, and of each that there is."""

from __future__ import annotations

import re

from tests.matrix import table
from tests.matrix.__main__ import VERSIONS


def test_the_page_says_what_was_seen() -> None:
    results = table.load()
    assert table.written(table.PAGE.read_text()) == table.section(results), (
        "docs/versions.md and tests/matrix/results.json disagree: make test-matrix"
    )


def test_each_version_that_is_pinned_was_tried() -> None:
    pinned = {
        path.stem.removeprefix("spark-"): re.search(
            r"^pyspark==(\S+)", path.read_text(), re.MULTILINE
        )
        for path in (table.ROOT / "requirements").glob("spark-[0-9]*.in")
    }
    assert sorted(pinned) == sorted(VERSIONS)
    assert sorted(found[1] for found in pinned.values() if found) == sorted(table.load())


def test_a_check_that_failed_is_a_no() -> None:
    seen = {"pyspark": "9.9.9", "scala": "2.13.16", "java": "21", "source": "Kafka", "events": True}
    *_, row = table.render({"9.9.9": seen}).splitlines()
    assert row == "| 9.9.9 | 2.13 | 21 | Kafka | yes | **no** | **no** | **no** | **no** | **no** |"
