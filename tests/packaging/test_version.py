"""One place holds the version; the rest follows, and none is forgotten."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import agent
import spark_listener
from scripts import version

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copies of the files that tell the version."""
    for name in version.PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def test_all_places_say_the_same() -> None:
    assert version.differing() == []
    assert agent.__version__ == spark_listener.__version__ == version.current()


def test_a_new_version_reaches_every_place(tree: Path) -> None:
    old = version.current(tree)
    version.write("9.87.6", tree)
    assert version.current(tree) == "9.87.6"
    assert version.differing(tree) == []
    left = [name for name in version.PLACES if old in (tree / name).read_text("utf-8")]
    assert left == []


@pytest.mark.parametrize("name", version.PLACES)
def test_a_place_that_lags_behind_is_named(tree: Path, name: str) -> None:
    before = (tree / name).read_text("utf-8")
    version.write("9.87.6", tree)
    if name == version.SOURCE:  # the others lag behind it
        version.write(version.current(), tree)
        text = (tree / name).read_text("utf-8").replace(version.current(), "9.87.6", 1)
        (tree / name).write_text(text, "utf-8")
        assert len(version.differing(tree)) >= len(version.PLACES) - 1
        return
    (tree / name).write_text(before, "utf-8")
    assert {line.split(":")[0] for line in version.differing(tree)} == {name}


@pytest.mark.parametrize("wrong", ["9", "v1.2.3", "1.2.3-rc1", "latest"])
def test_what_not_all_of_pypi_maven_and_helm_take_is_refused(tree: Path, wrong: str) -> None:
    with pytest.raises(SystemExit, match="is no version such as"):
        version.write(wrong, tree)
