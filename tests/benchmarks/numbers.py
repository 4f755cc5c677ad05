"""Halves each number of the judgement and says which test misses it.

    python -m tests.benchmarks.numbers [cost] [size] [spiral] ...

A number that no test misses is either not needed or not tested. Works in a copy; a number takes as
long as its file's tests below need to fail, about ten seconds at most. What begins with an
underscore guards arithmetic, follows from other numbers or is a fact that nobody tunes, and is left
out. Ends with 1 where a number is missed by none.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT: Final = Path(__file__).parents[2]
#: What decides on a batch's size, and whom on-call looks at first.
FILES: Final = ("cost", "size", "step", "reach", "attention")
_OF_SIZES: Final = (
    *(f"tests/core/test_{name}.py" for name in FILES),
    "tests/core/test_cold.py",
    "tests/simulation/test_controllers.py",
    "tests/simulation/test_control.py",
)
_OF_SPIRALS: Final = (
    "tests/judgement",
    "tests/core/test_explanations.py",
    "tests/core/test_told.py",
)
_OF_EXECUTORS: Final = ("tests/core/test_executors.py", "tests/core/test_work.py")
#: Which tests are to miss a number, by its file.
TESTS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(FILES, _OF_SIZES),
    "cost": ("tests/core",),  # what it holds is read by others, too
    "cold": ("tests/core/test_cold.py",),
    **dict.fromkeys(("spiral", "explanations", "checkpoint", "watch", "tell"), _OF_SPIRALS),
    **dict.fromkeys(("executors", "work"), _OF_EXECUTORS),
    **dict.fromkeys(("alignment", "lag_state", "worth"), ("tests/judgement", "tests/core")),
    "pool": ("tests/core/test_pool.py",),
    "lateness": tuple(f"tests/core/test_{name}.py" for name in ("lateness", "uneven", "commits")),
    "decaying": ("tests/core",),
    "partitions": ("tests/core/test_partitions.py", "tests/core/test_partitions_change.py"),
    "occupancy": ("tests/core",),
    "advice": ("tests/core", "tests/judgement"),
    "credit": ("tests/core",),
    "limits": ("tests/core", "tests/simulation/test_control.py"),
    **dict.fromkeys(
        ("other_log", "steps"), ("tests/core/test_other_log.py", "tests/core/test_partitions.py")
    ),
    "lanes": tuple(f"tests/core/test_{name}.py" for name in ("lanes", "uneven", "lateness")),
    "pace": ("tests/core/test_trigger.py", "tests/history/test_trigger.py"),
    "source": ("tests/core",),
    "query": ("tests/core",),
    "clusters": ("tests/core/test_clusters.py", "tests/core/test_told.py"),
    "liveness": ("tests/core",),
    "limit": ("tests/checkpoint/test_limit.py",),
}
#: Where a module lies that judges and is none of the core's, in ``agent``.
OUTSIDE_CORE: Final = {"limit": "checkpoint"}


class Number(NamedTuple):
    """One number of a module's constants, and where it stands in the source."""

    name: str
    value: float
    line: int
    begin: int
    end: int


def path_of(folder: Path, file: str) -> Path:
    """Of a module in a folder by its name; raises ValueError where there is not one."""
    found = list(folder.rglob(f"{file}.py"))
    if len(found) != 1:
        raise ValueError(f"{len(found)} modules are named {file}")
    return found[0]


def numbers(source: str) -> Iterator[Number]:
    """Those of constants that are declared Final, other than counters of kinds."""
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.AnnAssign) or statement.value is None:
            continue
        if not isinstance(statement.target, ast.Name) or statement.target.id.startswith("_"):
            continue
        for node in ast.walk(statement.value):
            if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
                continue
            if isinstance(node.value, int | float):
                assert node.end_col_offset is not None
                place = (node.lineno - 1, node.col_offset, node.end_col_offset)
                yield Number(statement.target.id, node.value, *place)


def halved(source: str, number: Number) -> str:
    """The source with half of that number; an integer stays one, and at least 1."""
    half = number.value / 2.0
    text = repr(max(int(half), 1) if isinstance(number.value, int) else half)
    lines = source.splitlines(keepends=True)
    line = lines[number.line]
    lines[number.line] = line[: number.begin] + text + line[number.end :]
    return "".join(lines)


def missed_by(root: Path, tests: Iterable[str]) -> str | None:
    """The first test that fails in a copy; None where all pass."""
    options = ("-x", "-q", "-p", "no:cacheprovider", "-m", "not slow")
    command = [sys.executable, "-m", "pytest", *options, *tests]
    # Hypothesis must not replay what another number broke.
    env = {**os.environ, "PYTHONPATH": str(root), "HYPOTHESIS_STORAGE_DIRECTORY": ""}
    shutil.rmtree(root / ".hypothesis", ignore_errors=True)
    ended = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    if ended.returncode == 0:
        return None
    failed = [line for line in ended.stdout.splitlines() if line.startswith("FAILED")]
    return failed[0].removeprefix("FAILED ").split(" - ")[0] if failed else ended.stdout[-200:]


def main(arguments: list[str] | None = None) -> int:
    """The table, as it is found."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"of {', '.join(TESTS)}")
    given = parser.parse_args(arguments)
    files = given.files or list(TESTS)
    unknown = [file for file in files if file not in TESTS]
    if unknown:
        parser.error(f"{', '.join(unknown)}: not of {', '.join(TESTS)}")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for folder in ("agent", "spark_listener", "tests", "examples", "docs", "scripts"):
            ignored = shutil.ignore_patterns("__pycache__", "jars")
            shutil.copytree(ROOT / folder, root / folder, ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", root)
        wrong = missed_by(root, sorted({test for file in files for test in TESTS[file]}))
        if wrong is not None:
            print(f"as it is, {wrong} fails", file=sys.stderr)
            return 2
        none = 0
        for file in files:
            path = path_of(root / "agent" / OUTSIDE_CORE.get(file, "core"), file)
            source = path.read_text("utf-8")
            for number in numbers(source):
                path.write_text(halved(source, number), "utf-8")
                test = missed_by(root, TESTS[file])
                none += test is None
                said = test or "MISSED BY NONE"
                print(f"{file}.{number.name} = {number.value:g}: {said}", flush=True)
            path.write_text(source, "utf-8")
    return 1 if none else 0


if __name__ == "__main__":
    sys.exit(main())
