"""The version: pyproject.toml holds it, the rest follows: ``python -m scripts.version 0.2.0``.

Without a number it prints the present one, and names each place that says another (exit code 1).
The changelog's heading is written by hand, since what stands below it is.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = "pyproject.toml"
_VERSION: Final = r"(?P<version>\d+\.\d+\.\d+)"  # one that PyPI, Maven and helm all take
#: File → what stands around the version in it, each as often as it occurs.
PLACES: Final = {
    SOURCE: (rf'^version = "{_VERSION}"', rf'"weir-spark-listener=={_VERSION}"'),
    "spark_listener/pyproject.toml": (rf'^version = "{_VERSION}"',),
    "agent/__init__.py": (rf'^__version__ = "{_VERSION}"',),
    "spark_listener/__init__.py": (rf'^__version__: Final = "{_VERSION}"',),
    "spark_listener/plugin/pom.xml": (rf"(?<=plugin</artifactId>\n  <version>){_VERSION}<",),
    "helm/weir/Chart.yaml": (rf"^version: {_VERSION}", rf'^appVersion: "{_VERSION}"'),
    "helm/weir/README.md": (rf"Chart {_VERSION},", rf"Weir {_VERSION},"),
    "Dockerfile": (rf"team/weir:{_VERSION}",),
    "examples/kubernetes/driver.yaml": (rf"team/weir:{_VERSION}",),
    "examples/kubernetes/spark-application.yaml": (rf"team/weir:{_VERSION}",),
    "docs/deploy.md": (rf"team/weir:{_VERSION}", rf"dist/weir-{_VERSION}\.tgz"),
    "docs/start/kubernetes.md": (rf"team/weir:{_VERSION}",),
    "docs/plugin.md": (rf"weir-spark-plugin:{_VERSION}",),
}


def current(root: Path = ROOT) -> str:
    """What pyproject.toml says."""
    found = re.search(PLACES[SOURCE][0], (root / SOURCE).read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(f"weir: {SOURCE} names no version such as 0.2.0")
    return found["version"]


def differing(root: Path = ROOT) -> list[str]:
    """Each place that says another version than pyproject.toml does, or none any more."""
    version = current(root)
    wrong = []
    for name, patterns in PLACES.items():
        text = (root / name).read_text("utf-8")
        for pattern in patterns:
            said = {found["version"] for found in re.finditer(pattern, text, re.MULTILINE)}
            if said != {version}:
                wrong.append(f"{name}: {', '.join(sorted(said)) or 'no version'}, not {version}")
    return wrong


def write(version: str, root: Path = ROOT) -> None:
    """Puts a version into all places. Raises SystemExit where it is none."""
    if not re.fullmatch(_VERSION, version):
        raise SystemExit(f"weir: {version} is no version such as 0.2.0")
    for name, patterns in PLACES.items():
        text = (root / name).read_text("utf-8")
        for pattern in patterns:
            text = re.sub(
                pattern,
                lambda found: found[0].replace(found["version"], version),
                text,
                flags=re.MULTILINE,
            )
        (root / name).write_text(text, "utf-8")


def main(arguments: list[str]) -> int:
    """Prints the version, or sets it."""
    if len(arguments) > 1:
        sys.stderr.write("usage: python -m scripts.version [VERSION]\n")
        return 2
    if arguments:
        write(arguments[0])
    wrong = differing()
    sys.stdout.write("\n".join([current(), *wrong]) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
