"""Where something is missing a test skips, and under CI it fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_listener import plugin
from tests.lacking import lacking, plugin_jar, program

TESTS = Path(__file__).resolve().parent
#: Begun by its bare name, a program that is missing is an error, on whatever machine.
BARE = re.compile(
    r"(?:(?<![\w\]])\[|\*\()\"(java|javac|mvn|helm|helm-docs|promtool|prometheus|amtool|openssl|gpg|etcd)\""
)


def test_what_is_missing_fails_under_ci_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, ends in (("true", pytest.fail.Exception), ("", pytest.skip.Exception)):
        monkeypatch.setenv("CI", value)
        with pytest.raises(ends, match="no kettle"):
            lacking("no kettle is here: make tea")


def test_a_program_is_found_under_any_of_its_names_and_java_s_in_its_home_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, path = tmp_path / "home", tmp_path / "path"
    (home / "bin").mkdir(parents=True)
    path.mkdir()
    for place in (home / "bin" / "javac", path / "javac", path / "kettle-2"):
        place.touch(0o755)
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert program("javac") == str(path / "javac")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert program("javac") == str(home / "bin" / "javac")
    assert program("kettle", "kettle-2") == str(path / "kettle-2")
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match="kettle is missing: sh scripts/ensure-tools"):
        program("kettle", "samovar")


def test_a_plugin_that_nobody_compiled_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "")
    monkeypatch.setattr(plugin, "JAR", tmp_path / "a.jar")
    with pytest.raises(pytest.skip.Exception, match="make plugin"):
        plugin_jar()
    (tmp_path / "a.jar").touch()
    assert plugin_jar() == tmp_path / "a.jar"


def test_no_test_begins_a_program_that_may_be_missing_by_its_bare_name() -> None:
    found = {
        f"{path.relative_to(TESTS)}: {one}"
        for path in TESTS.rglob("*.py")
        for one in BARE.findall(path.read_text("utf-8"))
    }
    assert found == set(), "tests.lacking.program finds it, or ends the test"
