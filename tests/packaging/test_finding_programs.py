"""Java and Python: the right one is taken, and what is wrong with the others is said clearly."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import plugin_jar

ROOT = Path(__file__).resolve().parents[2]


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder for PATH with what the scripts use, and neither java nor python."""
    folder = tmp_path / "only these"
    folder.mkdir()
    for name in ("sh", "sed", "head", "cat", "printf", "dirname", "uname", "make", "id"):
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return folder


def run(
    script: str, path: Path, *arguments: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(ROOT / "scripts" / script), *arguments],
        env={"PATH": str(path), **environ},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def java(path: Path, version: str) -> Path:
    return program(
        path,
        f'echo \'openjdk version "{version}" 2025-01-01\' >&2\necho "OpenJDK Runtime" >&2\n',
    )


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15", "17"), ("17", "17"), ("21.0.2", "21"), ("22-ea", "22"), ("25.0.1+8-LTS", "25")],
)
def test_java_that_is_new_enough(tools: Path, version: str, major: str) -> None:
    java(tools / "java", version)
    done = run("check-java.sh", tools)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Java {major} ")


@pytest.mark.parametrize(
    ("version", "major"), [("1.8.0_292", "8"), ("11.0.20", "11"), ("9", "9"), ("16.0.1", "16")]
)
def test_java_that_is_too_old(tools: Path, version: str, major: str) -> None:
    java(tools / "java", version)
    done = run("check-java.sh", tools)
    assert done.returncode == 2
    assert f"Java {major} is too old ({tools / 'java'})" in done.stderr
    assert "Java 17 or newer" in done.stderr
    assert done.stdout == ""


def test_no_java(tools: Path) -> None:
    done = run("check-java.sh", tools)
    assert done.returncode == 2
    assert "no Java found" in done.stderr
    assert "openjdk-17-jre-headless" in done.stderr


def test_on_a_mac_homebrews_java_and_what_macos_knows_are_named(
    tools: Path, tmp_path: Path
) -> None:
    """Where no Java is, there is a program of that name that says so."""
    (tools / "uname").unlink()
    program(tools / "uname", "echo Darwin\n")
    program(tools / "java", "echo 'Unable to locate a Java Runtime.' >&2\nexit 1\n")
    script = tmp_path / "check-java.sh"
    text = (ROOT / "scripts" / "check-java.sh").read_text()
    script.write_text(text.replace("/usr/", f"{tmp_path}/").replace(" /opt/", f" {tmp_path}/opt/"))

    def told() -> str:
        done = subprocess.run(
            ["/bin/sh", str(script)],
            env={"PATH": str(tools)},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 2
        return done.stderr

    said = told()
    assert "brew install openjdk@17" in said
    assert "apt-get" not in said
    assert "here already" not in said
    home = "libexec/openjdk.jdk/Contents/Home"
    java(tmp_path / "opt/homebrew/opt/openjdk@17" / home / "bin" / "java", "17.0.1")
    assert f"export JAVA_HOME={tmp_path}/opt/homebrew/opt/openjdk@17/{home}\n" in told()
    known = tmp_path / "Library" / "21"
    java(known / "bin" / "java", "21.0.1")
    program(tmp_path / "libexec" / "java_home", f'[ "$*" = "-v 17+" ] && echo "{known}"\n')
    assert f"export JAVA_HOME={known}\n" in told()


@pytest.mark.parametrize("of_home", [True, False])
def test_the_plugin_is_compiled_by_the_jdk_whose_java_spark_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_home: bool
) -> None:
    """Or by that on PATH, where JAVA_HOME has none: it may be no JDK."""
    home, path = tmp_path / "home" / "bin" / "javac", tmp_path / "path" / "javac"
    for one in (home, path):
        program(one, "")
    monkeypatch.setenv("PATH", str(path.parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / ("home" if of_home else "path")))
    assert plugin_jar.compiler() == str(home if of_home else path)
    monkeypatch.delenv("JAVA_HOME")
    assert plugin_jar.compiler() == str(path)


def test_a_jdk_by_java_home_alone_is_not_missing(tools: Path, tmp_path: Path) -> None:
    fake_python(tools / "python3", (3, 12))
    for name in ("java", "javac"):
        java(tmp_path / "jdk" / "bin" / name, "17.0.1")
    done = run("ensure-tools.sh", tools, JAVA_HOME=str(tmp_path / "jdk"))
    assert "chromium" in done.stderr
    assert "openjdk" not in done.stderr


def test_java_that_does_not_run(tools: Path) -> None:
    program(tools / "java", "exit 1\n")
    done = run("check-java.sh", tools)
    assert done.returncode == 2
    assert "does not tell its version" in done.stderr


def test_java_home_counts_more_than_path(tools: Path, tmp_path: Path) -> None:
    java(tools / "java", "17.0.1")
    home = tmp_path / "old java"
    java(home / "bin" / "java", "11.0.1")
    done = run("check-java.sh", tools, JAVA_HOME=str(home))
    assert done.returncode == 2
    assert f"Java 11 is too old (JAVA_HOME, {home})" in done.stderr


def test_java_home_that_leads_nowhere(tools: Path, tmp_path: Path) -> None:
    java(tools / "java", "17.0.1")
    done = run("check-java.sh", tools, JAVA_HOME=str(tmp_path / "gone"))
    assert done.returncode == 2
    assert "there is no bin/java in it" in done.stderr


def test_demo_says_that_java_is_too_old(tools: Path) -> None:
    java(tools / "java", "11.0.20")
    done = subprocess.run(
        ["make", "-C", str(ROOT), "--no-print-directory", "demo"],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "Java 11 is too old" in done.stderr
    assert "Traceback" not in done.stderr


def fake_python(path: Path, version: tuple[int, int], *, venv: bool = True) -> Path:
    """A Python of another version: this one, told to lie."""
    number = f"({version[0]}, {version[1]}, 0, 'final', 0)"
    lines = [f"import sys; sys.version_info = {number}; sys.executable = {str(path)!r}"]
    if not venv:
        lines.append("sys.modules['ensurepip'] = None")
    prelude = "; ".join(lines)
    return program(path, f"exec \"{sys.executable}\" -c \"{prelude}; exec('''$2''')\"\n")


def test_python_shim_that_fails_is_passed_over(tools: Path) -> None:
    program(tools / "python3", "echo 'pyenv: python3: command not found' >&2\nexit 127\n")
    fake_python(tools / "python3.12", (3, 12))
    done = run("find-python.sh", tools)
    assert (done.returncode, done.stdout.strip()) == (0, str(tools / "python3.12")), done.stderr


def test_python_that_is_too_old(tools: Path) -> None:
    fake_python(tools / "python3", (3, 9))
    done = run("find-python.sh", tools)
    assert done.returncode == 2
    assert "needs Python 3.10 or newer" in done.stderr
    assert f"{tools / 'python3'} is Python 3.9.0" in done.stderr


def test_python_without_venv(tools: Path) -> None:
    fake_python(tools / "python3", (3, 11), venv=False)
    done = run("find-python.sh", tools)
    assert done.returncode == 2
    assert "its venv module is missing" in done.stderr
    assert "python3-venv" in done.stderr


def test_no_python(tools: Path) -> None:
    done = run("find-python.sh", tools)
    assert done.returncode == 2
    assert "no python3 on PATH" in done.stderr
    assert "make PYTHON=" in done.stderr


def test_python_that_was_named_and_is_not_there(tools: Path) -> None:
    fake_python(tools / "python3", (3, 12))
    done = run("find-python.sh", tools, PYTHON="/nowhere/python3.12")
    assert done.returncode == 2
    assert "/nowhere/python3.12 is not there" in done.stderr


def test_a_font_is_looked_for_where_fonts_are(tmp_path: Path) -> None:
    """As any file there, in a folder or in a folder of one; its package is named when it is not."""
    text = (ROOT / "scripts" / "ensure-tools.sh").read_text()
    function = text[text.index("fonts() {") : text.index("look() {")]
    script = "missing='' lacks=''\n" + function.replace("/usr", str(tmp_path))
    script += "fonts fonts-dejavu-core 'the layout' DejaVuSans.ttf\necho $missing\n"
    fonts = tmp_path / "share" / "fonts"

    def missing() -> str:
        done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    for place in ("DejaVuSans.ttf", "dejavu/DejaVuSans.ttf", "truetype/dejavu/DejaVuSans.ttf"):
        assert missing() == "fonts-dejavu-core"
        (fonts / place).parent.mkdir(parents=True)
        (fonts / place).touch()
        assert missing() == "", place
        shutil.rmtree(fonts)


@pytest.mark.parametrize("what", ["quick", "all", "rest"])
def test_what_only_slow_tests_use_is_asked_for_with_them(tools: Path, what: str) -> None:
    java(tools / "java", "17.0.1")
    fake_python(tools / "python3", (3, 12))
    done = subprocess.run(
        ["/bin/sh", "scripts/ensure-tools.sh", what],
        cwd=ROOT,
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "apt-get install" in done.stderr
    assert ("etcd-server" in done.stderr) == (what != "quick")


@pytest.mark.parametrize(("ci", "exit_code"), [("", 0), ("true", 2)])
def test_missing_programs_are_named(tools: Path, ci: str, exit_code: int) -> None:
    """Without apt-get on PATH nothing is installed, root or not."""
    java(tools / "java", "17.0.1")
    fake_python(tools / "python3", (3, 12))
    done = subprocess.run(
        ["/bin/sh", "scripts/ensure-tools.sh"],
        cwd=ROOT,
        env={"PATH": str(tools), "CI": ci},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == exit_code, done.stderr
    assert (
        "apt-get install openjdk-17-jdk-headless chromium prometheus prometheus-alertmanager "
        "maven openssl git"
    ) in done.stderr
    assert ("nothing may be missing" in done.stderr) == (ci == "true")
