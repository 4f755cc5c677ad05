"""Halves each number of the core's judgement and says which test misses it.

    python -m tests.benchmarks.numbers [cost] [size] [step] [reach] [attention]

A number that no test misses is either not needed or not tested. Works in a copy; a number takes as
long as the tests below need to fail, about ten seconds at most. What begins with an underscore
guards arithmetic, not judgement, and is left out. Ends with 1 where a number is missed by none.
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
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
FILES: Final = ("cost", "size", "step", "reach", "attention")
TESTS: Final = (
    *(f"tests/core/test_{name}.py" for name in FILES),
    "tests/simulation/test_controllers.py",
    "tests/simulation/test_control.py",
)


class Number(NamedTuple):
    """One number of a module's constants, and where it stands in the source."""

    name: str
    value: float
    line: int
    begin: int
    end: int


def path_of(core: Path, file: str) -> Path:
    """Of a module of the core by its name; raises ValueError where there is not one."""
    found = list(core.rglob(f"{file}.py"))
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
            if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
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


def missed_by(root: Path) -> str | None:
    """The first test that fails in a copy; None where all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *TESTS]
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
    parser.add_argument("files", nargs="*", default=FILES, choices=FILES)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for folder in ("agent", "spark_listener", "tests"):
            ignored = shutil.ignore_patterns("__pycache__", "jars")
            shutil.copytree(ROOT / folder, root / folder, ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", root)
        wrong = missed_by(root)
        if wrong is not None:
            print(f"as it is, {wrong} fails", file=sys.stderr)
            return 2
        none = 0
        for file in given.files:
            path = path_of(root / "agent" / "core", file)
            source = path.read_text("utf-8")
            for number in numbers(source):
                path.write_text(halved(source, number), "utf-8")
                test = missed_by(root)
                none += test is None
                said = test or "MISSED BY NONE"
                print(f"{file}.{number.name} = {number.value:g}: {said}", flush=True)
            path.write_text(source, "utf-8")
    return 1 if none else 0


if __name__ == "__main__":
    sys.exit(main())
