"""Installs what ``make release`` built, as its users will, and sees it work.

``python -m scripts.release_check [DIST] [--demo SECONDS]``

Checksums; both wheels out of DIST alone into an empty environment of each Python from 3.10 to 3.13
that can be had, the dependencies as the image pins them, and there the commands, an agent that
answers and the plugin; both sdists; the chart pushed to a real OCI registry on loopback and pulled
again; the demo, by the wheels alone. Exit code 0 all well, 1 something is wrong, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts import version as versions
from scripts.release import HELM, PLUGIN, ROOT, SUMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PYTHONS: Final = ("3.10", "3.11", "3.12", "3.13")
#: By which names the reference implementation of an OCI registry is installed.
REGISTRIES: Final = ("docker-registry", "registry")
_DEADLINE_SECONDS: Final = 60.0  # for a server to answer, on a machine that is busy


class Wrong(Exception):  # noqa: N818
    """What was built does not work; the message says what."""


def sums(dist: Path) -> None:
    """Every file is there, and no other. Raises Wrong."""
    lines = (dist / SUMS).read_text().splitlines()
    told = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    there = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in dist.iterdir()
        if path.name != SUMS
    }
    if differ := sorted(name for name in told | there if told.get(name) != there.get(name)):
        raise Wrong(f"{SUMS} does not fit: {', '.join(differ)}")


def found_python(version: str) -> Path | None:
    """A Python of this version that runs: on PATH, of pyenv's, or from Debian's packages."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    for path in (*([Path(on_path)] if on_path else []), *pyenv.glob(f"{version}.*/bin/python3")):
        if _runs(path, version):
            return path
    if os.geteuid() == 0 and _has_package(f"python{version}-venv"):
        install = ["apt-get", "install", "-qq", "-y", "--no-install-recommends"]
        with contextlib.suppress(Wrong):
            _run([*install, f"python{version}", f"python{version}-venv"], ROOT)
        path = Path("/usr/bin") / f"python{version}"
        if _runs(path, version):
            return path
        if os.environ.get("CI") == "true":
            raise Wrong(f"Debian has python{version}, and it could not be installed")
    return None


def _runs(path: Path, version: str) -> bool:
    say = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        return _run([path, "-c", say], ROOT).strip() == version
    except (OSError, Wrong):
        return False


def _has_package(name: str) -> bool:
    try:
        return bool(_run(["apt-cache", "show", name], ROOT))
    except (OSError, Wrong):
        return False


def _run(command: list[str | Path], where: Path, *, seconds: float = 900) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            command,
            cwd=where,
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise Wrong(f"{' '.join(map(str, command[:6]))} … took over {seconds:.0f} s") from error
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        said = " ".join(map(str, command[:6]))
        raise Wrong(f"{said} … ended with exit code {done.returncode}:\n{tail}")
    return done.stdout


def _environment() -> dict[str, str]:
    """Nothing of this checkout's, and no settings of Weir's or Spark's."""
    ours = ("WEIR_", "SPARK_", "PYTHON", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def environment(base: Path, into: Path, lock: str, dist: Path) -> Path:
    """A new environment with a lock's packages and both wheels out of DIST; gives its bin/."""
    _run([base, "-m", "venv", into], into.parent)
    pip: list[str | Path] = [into / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    _run([*pip, "install", "-q", "--require-hashes", "-r", ROOT / "requirements" / lock], ROOT)
    wanted = f"weir-agent=={versions.current()}"
    _run([*pip, "install", "-q", "--no-index", "--find-links", dist, wanted], into.parent)
    _run([*pip, "check"], into.parent)
    return into / "bin"


def sources(commands: Path, dist: Path) -> None:
    """Puts both distributions there anew, built from their sdists."""
    pip: list[str | Path] = [commands / "python", "-m", "pip", "--disable-pip-version-check"]
    build = ROOT / "requirements" / "build.txt"
    _run([*pip, "install", "-q", "--require-hashes", "-r", build], ROOT)
    anew = ("--force-reinstall", "--no-deps", "--no-index", "--no-build-isolation")
    _run([*pip, "install", "-q", *anew, *sorted(dist.glob("weir_*.tar.gz"))], dist)


def commands_work(commands: Path, work: Path, dist: Path) -> None:
    """The commands say what they should, and an agent answers. Raises Wrong."""
    version = versions.current()
    if (said := _run([commands / "weir", "--version"], work).strip()) != f"weir {version}":
        raise Wrong(f"weir --version says {said}, not {version}")
    jar = Path(_run([commands / "weir", "plugin"], work).strip())
    if jar.read_bytes() != (dist / f"{PLUGIN}-{version}.jar").read_bytes():
        raise Wrong(f"weir plugin names {jar}, which is not the plugin that was built")
    usage = subprocess.run(  # noqa: S603
        [commands / "weir-run"], cwd=work, env=_environment(), capture_output=True, check=False
    )
    if usage.returncode != 2 or b"Traceback" in usage.stderr:
        raise Wrong(f"weir-run without a job ends with exit code {usage.returncode}, not 2")
    address = work / "address"
    address.unlink(missing_ok=True)
    agent: list[str | Path] = [commands / "weir", "agent", "--port", "0", "--doors", "off"]
    with _process([*agent, "--address-file", address], work) as running:
        url = _until(lambda: address.read_text().strip(), running)
        metrics = _until(lambda: _get(f"{url}/metrics"), running)
        if f'version="{version}"' not in metrics or "<title>Weir" not in _get(f"{url}/"):
            raise Wrong("the agent's metrics or its page are not what they should be")


@contextlib.contextmanager
def _process(command: list[str | Path], work: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs meanwhile; it has to end by itself when it is told to."""
    with (work / "log").open("wb") as log:
        running = subprocess.Popen(  # noqa: S603
            command, cwd=work, env=_environment(), stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        try:
            yield running
        finally:
            running.terminate()
            try:
                running.wait(_DEADLINE_SECONDS)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def _until(ask: object, running: subprocess.Popen[bytes]) -> str:
    assert callable(ask)
    end = time.monotonic() + _DEADLINE_SECONDS
    while time.monotonic() < end and running.poll() is None:
        with contextlib.suppress(OSError, urllib.error.URLError):
            if told := ask():
                return str(told)
        time.sleep(0.1)
    raise Wrong(f"{running.args!r} did not answer")


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback
        return str(answer.read().decode())


def chart(dist: Path, work: Path) -> None:
    """Through a registry and back, the same bytes, and rendered from there. Raises Wrong."""
    registry = next((found for name in REGISTRIES if (found := shutil.which(name))), None)
    if registry is None:
        raise Wrong("no OCI registry is here (Debian, Ubuntu: apt-get install docker-registry)")
    version = versions.current()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{free.getsockname()[1]}"
    config = work / "registry.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\nhttp: {{addr: '{at}'}}\n"
        f"storage: {{filesystem: {{rootdirectory: {work}/registry}}}}\n"
    )
    packed = dist / f"weir-{version}.tgz"
    with _process([registry, "serve", config], work) as running:
        _until(lambda: _get(f"http://{at}/v2/"), running)
        _run([HELM, "push", packed, f"oci://{at}/charts", "--plain-http"], work)
        pulled: list[str | Path] = [HELM, "pull", f"oci://{at}/charts/weir", "--version", version]
        _run([*pulled, "--plain-http"], work)
    if (work / packed.name).read_bytes() != packed.read_bytes():
        raise Wrong("the chart that was pulled is not the one that was pushed")
    image = "image.repository=registry.example.com/team/weir"
    rendered = _run([HELM, "template", "weir", work / packed.name, "--set", image], work)
    if f"registry.example.com/team/weir:{version}" not in rendered:
        raise Wrong("the chart renders no image of this version")


def demo(commands: Path, work: Path, seconds: int) -> str:
    """The demo with nothing but its own folder beside the wheels; gives its closing table."""
    shutil.copytree(
        ROOT / "examples", work / "examples", ignore=shutil.ignore_patterns("__pycache__")
    )
    run: list[str | Path] = [commands / "python", "-m", "examples.demo", "--seconds", str(seconds)]
    return _run(run, work, seconds=seconds + 600)


def check(dist: Path, demo_seconds: int, pythons: Sequence[str] = PYTHONS) -> Iterator[str]:
    """Does all of it, and tells what was seen. Raises Wrong at the first that does not work."""
    sums(dist)
    yield f"{SUMS}: every file is as it says"
    missing = []
    with tempfile.TemporaryDirectory(prefix="weir-release-") as temporary:
        work = Path(temporary)
        for name in pythons:
            if (base := found_python(name)) is None:
                missing.append(name)
                continue
            folder = work / name
            folder.mkdir()
            commands = environment(base, folder / "venv", "image.txt", dist)
            commands_work(commands, folder, dist)
            yield f"Python {name}: the wheels install, the agent answers"
        if len(missing) == len(pythons):
            raise Wrong("none of these Pythons is here: " + ", ".join(missing))
        if missing:
            yield f"not tried, as they are not to be had here: Python {', '.join(missing)}"
        sources(commands, dist)
        commands_work(commands, folder, dist)
        yield "the sdists: the same"
        chart(dist, work)
        yield "the chart: pushed to a registry, pulled, rendered"
        if demo_seconds:
            folder = work / "demo"
            folder.mkdir()
            commands = environment(Path(sys.executable), folder / "venv", "run.txt", dist)
            yield demo(commands, folder, demo_seconds)
            yield "the demo: by the wheels alone"


def main() -> int:
    """Checks, and says what was seen."""
    parser = argparse.ArgumentParser("python -m scripts.release_check", description=__doc__)
    parser.add_argument("dist", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--demo", type=int, default=60, metavar="SECONDS", help="0: none")
    given = parser.parse_args()
    if not (given.dist / SUMS).is_file():
        sys.stderr.write(f"weir: there is no release in {given.dist}: make release\n")
        return 2
    try:
        for line in check(given.dist.resolve(), given.demo):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    except Wrong as wrong:
        sys.stderr.write(f"weir: {wrong}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
