"""Tries Weir on one PySpark after another, each a venv in .make, and says what was seen.

    make test-matrix                          # all of them, and docs/versions.md anew
    python -m tests.matrix 3.5 4.3            # these

Ends with 1 where a version fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from scripts.count_tests import few
from tests.kafka.broker import delta, icebergs
from tests.matrix import table

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.5", "4.0", "4.1", "4.1.1", "4.2", "4.3")
LONGEST_SECONDS = 3600
TESTS = (
    "tests/matrix/on_this_version.py",
    # What the jars of a version are to the plugin.
    "tests/plugin/test_jobs.py::test_a_java_job_is_regulated_and_a_kill_beyond_the_door_goes_unnoticed",
)
#: Where Delta has a release.
DELTA = "tests/matrix/delta_tables.py"
#: Once with each release of Iceberg that there is for a Spark.
ICEBERG = "tests/matrix/iceberg_tables.py"
#: From 4.2 on.
PYTHON_SOURCES = "tests/matrix/python_sources.py"


def packages_of(version: str) -> Path:
    """Where the PySpark of a version lies. Exits where it was not made."""
    found = sorted((ROOT / ".make" / f"spark-{version}").glob("lib/python3*/site-packages"))
    if not found or not (ROOT / ".make" / f"spark-{version}" / ".made").exists():
        sys.exit(f"no PySpark {version} in .make: sh scripts/ensure-sparks.sh {version}")
    return found[0]


def tests_for(version: str, *, python_sources: bool) -> list[str]:
    """What is run on a version when nothing else is asked for."""
    has_them = tuple(map(int, version.split(".")[:2])) >= (4, 2)
    return [
        *TESTS,
        *([DELTA] if delta(version) else []),
        *([PYTHON_SOURCES] if python_sources and has_them else []),
    ]


def tried(
    version: str, tests: list[str], *, report: Path | None = None, iceberg: str = ""
) -> tuple[bool, dict[str, Any]]:
    """This Python's tests on that PySpark: whether they passed, and what was seen.

    What fails gets one more chance, as in ``scripts/test.sh``. ``report``: where JUnit's XML goes,
    and that of the second time beside it. ``iceberg``: the release whose jar is in the session.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        report = report or Path(folder) / "report.xml"
        pytest = [sys.executable, "-m", "pytest", "-o", f"cache_dir={folder}/cache", *tests]
        environment = {
            **os.environ,
            # Before this venv's own: that version's PySpark, and the py4j it wants.
            "PYTHONPATH": f"{packages_of(version)}{os.pathsep}{ROOT}",
            "PYSPARK_PYTHON": sys.executable,
            "WEIR_MATRIX_RESULT": str(result),
            "WEIR_ICEBERG": iceberg,
        }

        def passed(*options: str) -> bool:
            done = subprocess.run(
                [*pytest, *options], cwd=ROOT, env=environment, timeout=LONGEST_SECONDS, check=False
            )
            return done.returncode == 0

        good = passed(f"--junitxml={report}")
        if not good and report.exists() and few(report):
            print("── once more", flush=True)
            again = report.with_suffix(".again.xml")
            good = passed(
                f"--junitxml={again}", "--last-failed", "--last-failed-no-failures", "none"
            )
        seen = json.loads(result.read_text()) if result.exists() else {}
    return good, seen


def results_key(seen: dict[str, Any], version: str) -> str:
    """The exact version where it got so far as to say it."""
    return str(seen.get("pyspark", version))


def main() -> int:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("versions", nargs="*", default=VERSIONS, metavar="VERSION")
    parser.add_argument("--write", action="store_true", help="keep it, write docs/versions.md")
    parser.add_argument(
        "--tests", action="append", metavar="PATH", help="run these tests on each, and keep nothing"
    )
    parser.add_argument(
        "--python-sources", action="store_true", help="sources written in Python too, from 4.2 on"
    )
    parser.add_argument(
        "--every-iceberg", action="store_true", help="not the oldest and the newest release alone"
    )
    parser.add_argument("--reports", type=Path, metavar="DIR", help="put JUnit's XML files there")
    arguments = parser.parse_args()
    reports: Path | None = arguments.reports
    results: dict[str, dict[str, Any]] = {}
    failed = []
    for version in arguments.versions:
        print(f"── PySpark {version}", flush=True)
        began = time.monotonic()
        good, seen = tried(
            version,
            arguments.tests or tests_for(version, python_sources=arguments.python_sources),
            report=reports and reports / f"spark-{version}.xml",
        )
        releases = [] if arguments.tests else list(icebergs(version))
        if not arguments.every_iceberg:
            releases = list(dict.fromkeys(releases[:1] + releases[-1:]))
        for release in releases:
            print(f"── PySpark {version}, Iceberg {release}", flush=True)
            name = f"spark-{version}-iceberg-{release}.xml"
            report = reports and reports / name
            good = tried(version, [ICEBERG], report=report, iceberg=release)[0] and good
        results[results_key(seen, version)] = seen
        failed += [] if good else [version]
        if arguments.write:  # one by one: what is broken off keeps what was seen
            table.save({**table.load(), results_key(seen, version): seen})
            table.write(table.load())
        print(f"   {'ok' if good else 'FAILED'} · {time.monotonic() - began:.0f} s", flush=True)
    if arguments.write and arguments.versions == VERSIONS:
        table.save(results)  # what is no longer tried goes
        table.write(results)
    if not arguments.tests:
        print(table.render(results))
    if failed:
        print(f"FAILED on PySpark {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
