"""The docs' table of Spark versions, written from what the matrix saw last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = Path(__file__).parent / "results.json"
PAGE: Final = ROOT / "docs" / "versions.md"
BEGIN: Final = "<!-- versions: written by make test-matrix -->"
END: Final = "<!-- versions end -->"
#: Key in a result → column.
CHECKS: Final = {
    "events": "Events",
    "live_limit": "Live limit",
    "first_batch": "First batch limited",
    "heartbeats": "Heartbeats",
    "backlog": "Backlog exact",
    "detached": "Undone at detach",
}


def load() -> dict[str, dict[str, Any]]:
    """By PySpark version, what was seen on it; empty before the first run."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def save(results: dict[str, dict[str, Any]]) -> None:
    """Keeps them in the order of the versions."""
    ordered = dict(sorted(results.items(), key=lambda item: _order(item[0])))
    RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")


def render(results: dict[str, dict[str, Any]]) -> str:
    """The table; a check that was not passed is no."""
    head = ["PySpark", "Scala", "Java", "Read from", *CHECKS.values()]
    rows = [
        [
            version,
            ".".join(seen.get("scala", "").split(".")[:2]),
            seen.get("java", ""),
            seen.get("source", ""),
            *("yes" if seen.get(check) else "**no**" for check in CHECKS),
        ]
        for version, seen in results.items()
    ]
    lines = [head, ["---"] * len(head), *rows]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    notes = [f"{version}: {seen['note']}." for version, seen in results.items() if "note" in seen]
    return "\n\n".join([table, *notes])


def section(results: dict[str, dict[str, Any]]) -> str:
    """What stands in docs/versions.md, markers included."""
    return f"{BEGIN}\n{render(results)}\n{END}"


def written(page: str) -> str:
    """What stands between the page's markers now, markers included."""
    start = page.index(BEGIN)
    return page[start : page.index(END, start) + len(END)]


def write(results: dict[str, dict[str, Any]]) -> None:
    """Puts the table into the page."""
    text = PAGE.read_text()
    PAGE.write_text(text.replace(written(text), section(results)))


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
