"""The Dockerfile as instructions by stage, and what .dockerignore lets through."""

from __future__ import annotations

import fnmatch
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.helm.chart import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Stage:
    base: str
    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [rest for name, rest in self.instructions if name == instruction]

    def only(self, instruction: str) -> str:
        (one,) = self.all(instruction)
        return one

    def environment(self) -> dict[str, str]:
        pairs = (part.partition("=") for rest in self.all("ENV") for part in shlex.split(rest))
        return {name: value for name, _, value in pairs}


def stages() -> tuple[dict[str, str], list[Stage]]:
    """ARGs before the first FROM, and the stages in order."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    whole = re.sub(r"\\\n", " ", "\n".join(lines))
    arguments: dict[str, str] = {}
    found: list[Stage] = []
    for line in whole.splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == "ARG" and not found:
            key, _, value = rest.partition("=")
            arguments[key] = value
        elif name == "FROM":
            base, _, alias = rest.partition(" AS ")
            found.append(Stage(base, alias))
        else:
            found[-1].instructions.append((name, rest.strip()))
    return arguments, found


def ignored(path: Path) -> bool:
    """Whether .dockerignore keeps a file of the repository out: the last line that fits decides."""
    inside = path.relative_to(ROOT).as_posix()
    above = ["/".join(inside.split("/")[: n + 1]) for n in range(inside.count("/") + 1)]
    verdict = False
    for raw in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!")
        names = [pattern, *([pattern[3:]] if pattern.startswith("**/") else [])]
        # `*` of a .dockerignore does not cross a slash, `**/` any number of folders.
        if any(_fits(one, name) for one in above for name in names):
            verdict = not line.startswith("!")
    return verdict


def _fits(path: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return _fits(path.rpartition("/")[2], pattern[3:])
    return path.count("/") == pattern.count("/") and fnmatch.fnmatchcase(path, pattern)


def context() -> list[Path]:
    """Every file that is sent to the builder."""
    tops = [path for path in ROOT.iterdir() if path.name not in {".git", ".venv", ".make"}]
    files: list[Path] = []
    for top in tops:
        if top.is_file():
            files.append(top)
        elif not ignored(top) or any(
            line.startswith(f"!{top.name}/")
            for line in (ROOT / ".dockerignore").read_text().splitlines()
        ):
            files.extend(path for path in top.rglob("*") if path.is_file())
    return [path for path in files if not ignored(path)]
