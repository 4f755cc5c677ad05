"""Adds up pytest's JUnit reports into the one line that ends a test run."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET


def count(reports: list[Path]) -> dict[str, int]:
    """Tests by outcome over all reports; a test that broke in set-up or tear-down is failed."""
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    for report in reports:
        for suite in ET.parse(report).getroot().iter("testsuite"):  # noqa: S314 - pytest wrote it
            tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
            broken = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            totals["failed"] += broken
            totals["skipped"] += skipped
            totals["passed"] += max(tests - broken - skipped, 0)
    return totals


def main() -> int:
    """Prints the line; 1 where nothing passed or something failed."""
    totals = count([Path(name) for name in sys.argv[1:] if Path(name).is_file()])
    line = f"{totals['passed']} passed, {totals['failed']} failed"
    if totals["skipped"]:
        line += f", {totals['skipped']} skipped"
    sys.stdout.write(line + "\n")
    return 0 if totals["passed"] and not totals["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
