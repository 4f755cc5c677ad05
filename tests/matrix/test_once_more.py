"""What fails on a version is tried once more, and what was seen then is what counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.count_tests import combined
from tests.matrix import __main__ as matrix

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TESTS = """
import json, os, pathlib
seen = pathlib.Path(__file__).with_name("seen")

def test_good():
    with seen.open("a") as file:
        file.write("good ")

def test_{name}():
    with seen.open("a") as file:
        file.write("{name} ")
    pathlib.Path(os.environ["WEIR_MATRIX_RESULT"]).write_text(json.dumps(seen.read_text().split()))
    assert {holds}
"""


def _tried(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, holds: str
) -> tuple[bool, object, tuple[dict[str, int], list[str]]]:
    path = folder / "test_them.py"
    path.write_text(TESTS.format(name=name, holds=holds))
    monkeypatch.setattr(matrix, "packages_of", lambda _: folder)
    good, seen = matrix.tried("9.9", [str(path), "-n", "0"], report=folder / "report.xml")
    return good, seen, combined(sorted(folder.glob("*.xml")))


def test_what_fails_gets_one_more_chance_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, seen, (totals, flaky) = _tried(
        tmp_path, monkeypatch, "lucky", "seen.read_text().split().count('lucky') == 2"
    )
    assert good
    assert seen == ["good", "lucky", "lucky"], "what had passed was not run again"
    assert totals == {"passed": 2, "failed": 0, "skipped": 0}
    assert [name.rpartition("::")[2] for name in flaky] == ["test_lucky"]


def test_what_fails_twice_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, seen, (totals, flaky) = _tried(tmp_path, monkeypatch, "bad", "False")
    assert not good
    assert seen == ["good", "bad", "bad"]
    assert totals == {"passed": 1, "failed": 1, "skipped": 0}
    assert not flaky
