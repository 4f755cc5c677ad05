"""Adds up pytest's JUnit reports into the one line that ends a test run.

Beside ``NAME.xml`` there may be a ``NAME.again.xml``: what had failed, run once more alone. What
passes then counts as passed, and is named.

    count_tests.py REPORT...       that line; exit code 1 where nothing passed or something failed
    count_tests.py --few REPORT    how many failed, where they are few enough to be tried again
    count_tests.py --slowest REPORT...    the ten slowest with their share of all tests' seconds;
                                   exit code 1 where one takes more than its share
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

#: More failures than this are a break that a second attempt would only hide for longer.
FEW = 8

#: Of the seconds of all tests, what one may take. The longest there is, hours of Prometheus and
#: Alertmanager at a second a minute, takes half of it. A share: a busy machine makes all longer.
LARGEST_SHARE = 0.15
#: Who is quicker than this is no sinner where next to nothing else was run.
SHORT_SECONDS = 10.0

Outcomes = dict[str, str]  # by test: passed, failed or skipped


def outcomes(report: Path) -> Outcomes:
    """Each test of a report; one that broke in set-up or tear-down is failed."""
    found: Outcomes = {}
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - pytest wrote it
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        kinds = {child.tag for child in case}
        outcome = "skipped" if "skipped" in kinds else "passed"
        if kinds & {"failure", "error"} or found.get(name) == "failed":
            outcome = "failed"
        found[name] = outcome
    return found


def combined(reports: list[Path]) -> tuple[dict[str, int], list[str]]:
    """Tests by outcome over all reports, and those that passed only when tried again."""
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    flaky: list[str] = []
    for report in reports:
        if report.name.endswith(".again.xml"):
            continue
        first, again = outcomes(report), report.with_suffix(".again.xml")
        second = outcomes(again) if again.is_file() else {}
        for name, outcome in first.items():
            last = second.get(name, outcome) if outcome == "failed" else outcome
            totals[last] += 1
            if last != outcome:
                flaky.append(name)
    return totals, flaky


def seconds(report: Path) -> dict[str, float]:
    """What each test of a report took, with the fixtures that it was the first to ask for."""
    found: dict[str, float] = {}
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - pytest wrote it
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        found[name] = found.get(name, 0.0) + float(case.get("time", "0"))
    return found


def slowest(reports: list[Path]) -> int:
    """Prints the ten slowest; 1 where one takes too large a share of all."""
    taken: dict[str, float] = {}
    for report in reports:
        if not report.name.endswith(".again.xml"):
            taken |= seconds(report)
    total = sum(taken.values()) or 1.0
    too_slow = 0
    for name in sorted(taken, key=lambda name: -taken[name])[:10]:
        share = taken[name] / total
        line = f"{taken[name]:7.1f} s {share:6.1%}  {name}"
        if share > LARGEST_SHARE and taken[name] > SHORT_SECONDS:
            too_slow += 1
            line += f"  more than {LARGEST_SHARE:.0%}: make it faster, or mark it slow"
        sys.stdout.write(line + "\n")
    return 1 if too_slow else 0


def few(report: Path) -> bool:
    """Whether some failed, and few enough to be tried again."""
    return 0 < failures(report) <= FEW


def failures(report: Path) -> int:
    """How many failed."""
    return list(outcomes(report).values()).count("failed")


def main() -> int:
    """Runs the command line."""
    if sys.argv[1] == "--slowest":
        return slowest([Path(name) for name in sys.argv[2:] if Path(name).is_file()])
    if sys.argv[1] == "--few":
        sys.stdout.write(f"{failures(Path(sys.argv[2]))}\n")
        return 0 if few(Path(sys.argv[2])) else 1
    totals, flaky = combined([Path(name) for name in sys.argv[1:] if Path(name).is_file()])
    for name in flaky:
        sys.stdout.write(f"passed only when tried again: {name}\n")
    line = f"{totals['passed']} passed, {totals['failed']} failed"
    if totals["skipped"]:
        line += f", {totals['skipped']} skipped"
    sys.stdout.write(line + "\n")
    return 0 if totals["passed"] and not totals["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
