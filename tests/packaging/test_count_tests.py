"""The last line of a test run: what counts as passed, and when a second attempt is worth it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "count_tests.py"
TESTS = """
import pathlib, pytest
SEEN = pathlib.Path(__file__).with_name("seen")

@pytest.fixture
def broken():
    raise OSError("no such thing")

def test_good(): pass
def test_late():
    SEEN.touch() if not SEEN.exists() else None
    assert SEEN.with_name("again").exists()
def test_skipped(): pytest.skip("not here")
@pytest.mark.parametrize("number", range({bad}))
def test_bad(number): assert number < 0
def test_without_its_fixture(broken): pass
"""


def run(work: Path, report: str, *options: str) -> None:
    """Real reports of a real run."""
    options = (f"--junitxml={work / report}", "-o", f"cache_dir={work / 'cache'}", *options)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, str(work / "test_some.py")],
        cwd=work,
        capture_output=True,
        check=False,
    )


def count(*arguments: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_what_passes_when_tried_again_is_passed_and_named(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS.format(bad=1))
    first, again = tmp_path / "plain.xml", tmp_path / "plain.again.xml"
    run(tmp_path, first.name)
    assert count(str(first)) == (1, ["1 passed, 3 failed, 1 skipped"])
    assert count("--few", str(first)) == (0, ["3"])
    (tmp_path / "again").touch()
    run(tmp_path, again.name, "--last-failed", "--last-failed-no-failures", "none")
    assert count(str(first), str(again)) == (
        1,
        [
            "passed only when tried again: test_some::test_late",
            "2 passed, 2 failed, 1 skipped",
        ],
    )


@pytest.mark.slow("a run of pytest for each; what is tried again is looked at every time")
@pytest.mark.parametrize(("bad", "worth_it"), [(0, 0), (6, 0), (7, 1)])
def test_many_failures_are_not_tried_again(tmp_path: Path, bad: int, worth_it: int) -> None:
    (tmp_path / "test_some.py").write_text(TESTS.format(bad=bad))
    report = tmp_path / "plain.xml"
    run(tmp_path, report.name)
    failed = max(bad, 0) + 2  # the late one, and the one without its fixture
    assert count("--few", str(report)) == (worth_it, [str(failed)])


def test_nothing_that_passed_is_a_failure() -> None:
    assert count("nowhere.xml") == (1, ["0 passed, 0 failed"])


def report(path: Path, *seconds: float) -> str:
    """As pytest writes it, of tests that took these times."""
    cases = "".join(
        f'<testcase classname="{path.stem}" name="test_{n}" time="{taken}"/>'
        for n, taken in enumerate(seconds)
    )
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return str(path)


@pytest.mark.parametrize(
    ("seconds", "too_slow"),
    [
        ([170.0, *[9.9] * 83], True),  # of 992 s 17 %
        ([110.0, *[9.9] * 89], False),  # of 991 s 11 %
        ([9.0, 1.0], False),  # most of it, and nothing
        ([11.0, 1.0], True),
    ],
)
def test_one_that_takes_too_much_of_all_is_named(
    tmp_path: Path, seconds: list[float], too_slow: bool
) -> None:
    half = len(seconds) // 2
    reports = [
        report(tmp_path / "one.xml", *seconds[:half]),
        report(tmp_path / "two.xml", *seconds[half:]),
    ]
    code, said = count("--slowest", *reports)
    assert code == too_slow
    assert len(said) <= 10
    assert ("mark it slow" in said[0]) == too_slow
    assert "mark it slow" not in said[1]
    assert f"{seconds[0] / sum(seconds):.1%}" in said[0]
