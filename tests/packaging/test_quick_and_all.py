"""`make test` and `make test-all`: what each runs, what is not run twice, and what is counted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lacking import program

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.slow("the whole script, some times over, on a project of four tests"),
    pytest.mark.timeout(600),
]
TESTS = '''"""Four tests."""

import os
import pathlib

import pytest

RAN = pathlib.Path(__file__).with_name("ran")


@pytest.mark.parametrize("number", range(60))
def test_quick(number: int) -> None:
    """Writes down that it ran."""
    if number == 0:
        with RAN.open("a") as file:
            file.write("quick ")
        assert "BREAK" not in os.environ


@pytest.mark.slow("it is long")
def test_slow() -> None:
    """Writes down that it ran."""
    with RAN.open("a") as file:
        file.write("slow ")


@pytest.mark.course("it is longer")
@pytest.mark.slow("it is longer")
def test_course() -> None:
    """Writes down that it ran."""
    with RAN.open("a") as file:
        file.write("course ")
'''
SETTINGS = """
[tool.pytest.ini_options]
addopts = "-q"
markers = ["spark: x", "browser: x", "slow(reason): x", "course(reason): x"]
"""
ALONE = "what it ran is counted, not run again"


class Project:
    """A checkout with the real script, four tests, and nothing to install."""

    def __init__(self, root: Path) -> None:
        self.root = root
        scripts = root / "scripts"
        scripts.mkdir()
        for name in ("test.sh", "count_tests.py"):
            shutil.copyfile(ROOT / "scripts" / name, scripts / name)
        for name in ("tools", "kafka", "helm", "apiserver", "docs", "sparks", "venv"):
            (scripts / f"ensure-{name}.sh").touch()
        for name in ("check-java.sh", "setup.sh", "plugin_jar.py"):
            (scripts / name).touch()
        (root / "tests" / "matrix").mkdir(parents=True)
        for folder in (root / "tests", root / "tests" / "matrix"):
            (folder / "__init__.py").touch()
        (root / "tests" / "matrix" / "__main__.py").touch()
        (root / "tests" / "test_some.py").write_text(TESTS)
        (root / "pyproject.toml").write_text(SETTINGS)
        (root / ".gitignore").write_text(".make\n.venv\nran\n.*_cache\n__pycache__\n")
        python = root / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        (root / ".venv" / ".weir-dev").touch()
        # Neither lint and types are looked at here nor how many work at a time: most of the time.
        python.write_text(
            '#!/bin/sh\ncase "$2" in ruff | mypy) exit 0 ;; pytest) set -- "$@" -n 0 ;; esac\n'
            f'exec "{sys.executable}" "$@"\n'
        )
        python.chmod(0o755)
        subprocess.run([program("git"), "init", "--quiet"], cwd=root, check=True)

    def run(self, what: str = "quick", **environment: str) -> tuple[int, str, list[str]]:
        """(exit code, last line, what ran in that order), and keeps what was said."""
        ran = self.root / "tests" / "ran"
        ran.unlink(missing_ok=True)
        done = subprocess.run(
            ["/bin/sh", "scripts/test.sh", what],
            cwd=self.root,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "CI": "true", **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        self.said = done.stdout + done.stderr
        words = ran.read_text().split() if ran.exists() else []
        return done.returncode, self.said.splitlines()[-1], words


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_what_has_passed_on_this_tree_is_not_run_again_but_counted(project: Project) -> None:
    assert project.run() == (0, "60 passed, 0 failed", ["quick"]), project.said
    assert project.run("all") == (0, "61 passed, 0 failed", ["slow"]), project.said
    assert ALONE in project.said
    # By itself it runs everything.
    assert project.run("all") == (0, "61 passed, 0 failed", ["quick", "slow"]), project.said
    assert ALONE not in project.said


def test_courses_are_run_by_themselves_alone(project: Project) -> None:
    assert project.run("courses") == (0, "1 passed, 0 failed", ["course"]), project.said


def test_on_another_tree_everything_is_run(project: Project) -> None:
    assert project.run()[0] == 0, project.said
    (project.root / "tests" / "not_committed.py").write_text('"""One word more."""\n')
    assert project.run("all") == (0, "61 passed, 0 failed", ["quick", "slow"]), project.said


def test_where_the_first_failed_the_rest_is_run_and_both_are_counted(project: Project) -> None:
    code, last, ran = project.run(BREAK="yes")
    assert (code, last) == (1, "59 passed, 1 failed"), project.said
    assert ran == ["quick", "quick"], "what failed is tried once more, alone"
    assert "once more, alone: 1" in project.said
    assert "FAILED: tests without Spark or browser" in project.said
    assert project.run("rest") == (1, "60 passed, 1 failed", ["slow"]), project.said
    assert project.run("all")[2] == ["quick", "slow"], "what failed is not taken as passed"
