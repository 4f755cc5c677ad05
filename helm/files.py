"""The chart's copies of the generated rules and dashboards.

``python -m helm.files`` makes them anew. Copies, as helm tells of every link in a chart each time,
and some GitOps tools take none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[1]
FILES: Final = _ROOT / "helm" / "weir" / "files"
#: By folder of the chart's files, where they come from and which.
_SOURCES: Final = {
    "alerts": (_ROOT / "alerts" / "generated", "*.rules.yml"),
    "dashboards": (_ROOT / "dashboards" / "generated", "*.json"),
}


def wanted() -> dict[Path, str]:
    """The content of each file that the chart is to have, by its path."""
    return {
        FILES / folder / path.name: path.read_text("utf-8")
        for folder, (source, pattern) in _SOURCES.items()
        for path in sorted(source.glob(pattern))
    }


def present() -> dict[Path, str]:
    """The same of those that it has."""
    return {
        path: path.read_text("utf-8")
        for folder in _SOURCES
        for path in sorted((FILES / folder).glob("*"))
    }


def main() -> None:
    """Copies them, and removes those that are generated no more."""
    made = wanted()
    for stale in present().keys() - made.keys():
        stale.unlink()
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        print(path)  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
