"""The image, as far as it can be seen without Docker: its build's commands run, and what they make.

The build stage's own commands are run with its folders put under a temporary one; what comes out
starts with the image's entrypoint and environment, on a root that is read-only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from agent.service.config import Settings
from spark_listener import plugin
from tests.helm.chart import CHART, ROOT
from tests.helm.dockerfile import context, ignored, stages
from tests.lacking import mount_namespace, plugin_jar
from tests.service import wire
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

ARGUMENTS, (BUILD, FINAL) = stages()
FOLDERS = ("/opt", "/src", "/wheels", "/usr/share/weir", "/var/lib/weir")


def sources(copy: str) -> list[Path]:
    *names, _ = [part for part in copy.split() if not part.startswith("--")]
    return [ROOT / name for name in names]


def test_every_copy_has_its_source_and_gets_it() -> None:
    copies = [one for stage in (BUILD, FINAL) for one in stage.all("COPY") if "--from" not in one]
    assert len(copies) >= 6
    for copy in copies:
        for path in sources(copy):
            assert path.exists(), copy
            files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
            kept = [one for one in files if not ignored(one)]
            clutter = ("__pycache__", ".egg-info", "/build/")
            wanted = [one for one in files if not any(part in str(one) for part in clutter)]
            assert kept == wanted, copy
            assert kept


def test_the_context_is_small_and_holds_nothing_else() -> None:
    wanted = [
        one
        for s in (BUILD, FINAL)
        for c in s.all("COPY")
        if "--from" not in c
        for one in sources(c)
    ]
    for path in context():
        assert any(path == one or one in path.parents for one in wanted), path
    assert sum(path.stat().st_size for path in context()) < 5_000_000
    for secret in (ROOT / ".git" / "config", ROOT / ".venv" / "pyvenv.cfg", ROOT / "token"):
        assert ignored(secret)


def test_bases_are_pinned_by_tag() -> None:
    assert BUILD.base == FINAL.base == "${BASE}"
    # A patch release and a Debian release: what is built is what was tested.
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+", ARGUMENTS["BASE"])


def test_python_of_the_image_is_one_that_the_project_takes() -> None:
    version = re.search(r":3\.(\d+)", ARGUMENTS["BASE"])
    assert version
    needed = re.search(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    assert needed
    assert int(version[1]) >= int(needed[1])


def test_the_final_stage_neither_builds_nor_fetches() -> None:
    runs = " ".join(FINAL.all("RUN"))
    assert not re.search(r"\b(install|apt-get|apt|curl|wget|gcc)\b", runs)
    assert "pip uninstall" in runs
    assert all("--from=build" in copy or "LICENSE" in copy for copy in FINAL.all("COPY"))


def test_every_install_is_held_by_hashes_or_offline() -> None:
    installs = re.findall(
        r"pip (?:--python \S+ )?(?:install|wheel) [^&]*", " && ".join(BUILD.all("RUN"))
    )
    assert len(installs) == 4
    for one in installs:
        assert "--require-hashes" in one or ("--no-index" in one and "--no-deps" in one)


def test_the_user_is_not_root_by_number_and_the_charts() -> None:
    user, _, group = FINAL.only("USER").partition(":")
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert int(user) == values["securityContext"]["runAsUser"] == 10001
    assert int(group) == values["securityContext"]["runAsGroup"]
    assert int(group) == values["podSecurityContext"]["fsGroup"]
    assert int(group) == values["sidecar"]["fsGroup"]
    order = [name for name, _ in FINAL.instructions]
    assert "RUN" not in order[order.index("USER") :]


def test_port_and_volume_are_the_agents() -> None:
    assert int(FINAL.only("EXPOSE")) == Settings.model_fields["port"].default
    assert FINAL.only("VOLUME") == FINAL.environment()["WEIR_STATE_DIR"] == FINAL.only("WORKDIR")


def test_what_drivers_are_lent_is_anybodys_to_read(tmp_path: Path) -> None:
    """A checkout under umask 077 keeps its modes in the image, and no driver is root."""
    wheel = tmp_path / "wheels" / "weir_spark_listener-1-py3-none-any.whl"
    jar = tmp_path / "src" / "spark_listener" / "plugin" / plugin.JAR.name
    for path in (wheel, jar):
        path.parent.mkdir(parents=True)
        path.write_text("a file")
        path.chmod(0o600)
    steps = [one for one in BUILD.all("RUN")[-1].split(" && ") if "/usr/share/weir" in one]
    script = re.sub(r"(?<![\w.])/(?=usr|var|wheels)", f"{tmp_path}/", " && ".join(steps))
    subprocess.run(["/bin/sh", "-ec", script], cwd=tmp_path / "src", check=True, timeout=60)
    lent = list((tmp_path / "usr/share/weir").iterdir())
    assert {path.name for path in lent} == {plugin.JAR.name, "weir_spark_listener.zip"}
    assert all(path.stat().st_mode & 0o444 == 0o444 for path in lent)


#: What the Dockerfile does is done; the rules that it keeps are read of it every time.
BUILT = pytest.mark.slow("an installation of everything that the image holds")


class Image:
    """What the build stage makes, in a folder of ours."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def inside(self, text: str) -> str:
        """A text with the image's folders replaced by ours."""
        for folder in FOLDERS:
            text = re.sub(rf"(?<![\w/.-]){folder}(?![\w-])", f"{self.root}{folder}", text)
        return text

    @property
    def python(self) -> Path:
        return self.root / "opt/weir/bin/python"

    def environment(self) -> dict[str, str]:
        own = {key: self.inside(value) for key, value in FINAL.environment().items()}
        own["PATH"] = f"{self.root}/opt/weir/bin:{os.environ['PATH']}"
        return own


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    plugin_jar()  # the image takes it as it is here
    made = Image(tmp_path_factory.mktemp("image"))
    for folder in FOLDERS[:3]:
        (made.root / folder[1:]).mkdir(parents=True)
    programs = made.root / "programs"
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    # A python of our own .venv would make venvs that see its packages' parent; the base is clean.
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info[1]}"
    (programs / "python").unlink()
    (programs / "python").write_text(f'#!/bin/sh\nexec "{base}" "$@"\n')
    (programs / "python").chmod(0o755)
    workdir = made.root / "src"
    environ = {
        **{key: value for key, value in os.environ.items() if not key.startswith("WEIR_")},
        **BUILD.environment(),
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    environ.pop("PYTHONPATH", None)
    environ.pop("VIRTUAL_ENV", None)
    for name, rest in BUILD.instructions:
        if name == "COPY":
            *froms, to = rest.split()
            for one in froms:
                copy(ROOT / one, workdir / to, into=to.endswith("/"))
        elif name == "RUN":
            done = subprocess.run(
                ["/bin/sh", "-ec", made.inside(rest)],
                cwd=workdir,
                env=environ,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        else:
            assert name in {"ENV", "WORKDIR"}
    return made


def copy(source: Path, target: Path, *, into: bool) -> None:
    """As COPY does: a folder's content, a file under its name, nothing that is ignored."""
    if source.is_file():
        place = target / source.name if into or target.is_dir() else target
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, place)
        return
    for path in source.rglob("*"):
        if path.is_file() and not ignored(path):
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)


@BUILT
def test_the_image_holds_the_agent_and_no_build_tools(image: Image) -> None:
    code = (
        "import importlib.metadata as m, json;"
        "print(json.dumps(sorted(d.metadata['Name'].lower() for d in m.distributions())))"
    )
    done = subprocess.run(
        [image.python, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    packages = json.loads(done.stdout)
    assert {"weir-agent", "weir-spark-listener", "uvicorn", "confluent-kafka"} <= set(packages)
    assert not {"pip", "setuptools", "wheel", "pyspark", "pytest"} & set(packages)
    done = subprocess.run(
        [image.root / "opt/weir/bin/weir", "--version"],
        env=image.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("weir 0.")


@BUILT
def test_the_plugin_that_drivers_are_lent_is_the_one_of_this_source(image: Image) -> None:
    template = (CHART / "templates" / "sidecar" / "_driver.tpl").read_text()
    assert f"/usr/share/weir/{plugin.JAR.name}" in template
    assert (image.root / "usr/share/weir" / plugin.JAR.name).read_bytes() == plugin.JAR.read_bytes()


@BUILT
def test_the_listener_runs_out_of_the_archive_that_drivers_are_lent(image: Image) -> None:
    template = (CHART / "templates" / "sidecar" / "_driver.tpl").read_text()
    assert "/usr/share/weir/weir_spark_listener.zip" in template
    archive = image.root / "usr/share/weir/weir_spark_listener.zip"
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r});"
        "import spark_listener.config as module; print(module.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(archive))


def read_only(image: Image, command: list[str]) -> list[str]:
    """The command on a root that is read-only but for the volume and /tmp's replacement."""
    volume = image.root / "var/lib/weir"
    script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind / && cd "$0" && exec "$@"'
    return [*mount_namespace(), "sh", "-c", script, str(volume), *command]


@pytest.fixture
def running(image: Image) -> Iterator[dict[str, str]]:
    """ENTRYPOINT and CMD with the image's environment and a token; gives its environment."""
    volume = image.root / "var/lib/weir"
    token = image.root / "token"
    token.write_text("the-token\n")
    entry = json.loads(FINAL.only("ENTRYPOINT")) + json.loads(FINAL.only("CMD"))
    environ = {
        **image.environment(),
        "WEIR_PORT": "0",
        "WEIR_TOKEN_FILE": str(token),
        "TMPDIR": str(image.root / "no such folder"),
    }
    before = {path for path in image.root.rglob("*") if volume not in path.parents}
    log = (image.root / "agent.log").open("wb")
    process = subprocess.Popen(
        read_only(image, entry), env=environ, stdout=log, stderr=log, cwd=volume
    )
    try:
        address = volume / "agent.address"
        log_text = (image.root / "agent.log").read_text

        def told() -> bool:
            there = address.exists()
            assert there or process.poll() is None, log_text()
            return there

        until(told, "the agent's address", telling=log_text)
        yield environ
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        after = {path for path in image.root.rglob("*") if volume not in path.parents}
        assert after - before <= {image.root / "agent.log"}
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(10)
        log.close()


@BUILT
def test_the_agent_runs_on_a_read_only_root(image: Image, running: dict[str, str]) -> None:
    address = (image.root / "var/lib/weir/agent.address").read_text().strip()
    body = wire.body([wire.started(1), wire.progress(2)])
    request = urllib.request.Request(
        f"{address}/v1/events", body, {"Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    assert refused.value.code == 401
    request.add_header("Authorization", "Bearer the-token")
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert json.load(answer)["acknowledged"] == 2
    with urllib.request.urlopen(f"{address}/readyz", timeout=10) as answer:
        assert answer.status == 200
    assert (image.root / "var/lib/weir/state.sqlite").exists()
    lines = (image.root / "agent.log").read_text().splitlines()
    assert lines
    assert not any("error" in line.split()[:3] for line in lines)
    # Nothing is preset that a file of configuration could say: the environment stands above it.
    assert "WEIR_LOG_FORMAT" not in running


def health(image: Image, environ: dict[str, str]) -> int:
    _, _, command = FINAL.only("HEALTHCHECK").partition(" CMD ")
    return subprocess.run(
        json.loads(command), env=environ, capture_output=True, timeout=30, check=False
    ).returncode


@BUILT
def test_the_health_check_tells_a_living_agent(image: Image, running: dict[str, str]) -> None:
    assert health(image, running) == 0


@BUILT
def test_the_health_check_tells_a_dead_agent(image: Image) -> None:
    environ = image.environment()
    (image.root / "var/lib/weir/agent.address").unlink(missing_ok=True)
    assert health(image, environ) != 0
    # A port that nobody listens on.
    (image.root / "var/lib/weir/agent.address").write_text("http://127.0.0.1:1\n")
    assert health(image, environ) != 0
