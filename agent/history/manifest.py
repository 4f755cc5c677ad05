"""What a run remembers for the next: the files that were read, and whose logs they are.

Each run that succeeds leaves a manifest of a new number; the newest one holds. Whatever a run that
was killed had written counts for nothing, and is written again by the next.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from agent.history.findings import Short
from agent.history.logs import Read

if TYPE_CHECKING:
    from agent.history.places import Places

FOLDER: Final = "_weir"
KEPT: Final = 3
FORMAT: Final = 2
_NAME: Final = re.compile(r"^manifest-(\d{6,})\.json$")


class LogInfo(msgspec.Struct):
    """A log, as far as it has told; times in epoch seconds."""

    application: str  # the name's label
    application_id: str
    begin: float = 0.0
    end: float = 0.0
    start: str = ""  # which of the application's starts; empty: the log does not say


class Settings(msgspec.Struct, frozen=True):
    """What the tables were judged with; other settings judge everything anew."""

    target_seconds: float = 5.0
    deadline_seconds: float | None = None


class Manifest(msgspec.Struct):
    """The state of an output folder."""

    format: int = FORMAT
    weir: str = ""
    run: int = 0
    settings: Settings = Settings()
    files: dict[str, Read] = {}
    logs: dict[str, LogInfo] = {}
    queries: dict[str, list[Short]] = {}  # of each application
    bad: dict[str, str] = {}  # logs that cannot be judged, and why


class NotOurs(ValueError):  # noqa: N818
    """The folder holds a manifest that cannot be read; the message says which and why."""


def load(places: Places, out: str) -> Manifest:
    """The newest manifest of a folder; an empty one where there is none. Raises NotOurs."""
    runs = [
        int(named[1]) for name in places.names(f"{out}/{FOLDER}") if (named := _NAME.match(name))
    ]
    if not runs:
        return Manifest()
    address = _address(out, max(runs))
    content = places.read(address)
    try:
        found = msgspec.json.decode(content or b"", type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotOurs(f"{address}: {error}; remove it to judge all logs anew") from None
    if found.format != FORMAT:
        raise NotOurs(f"{address}: of another version of Weir; choose another --out")
    return found


def save(places: Places, out: str, manifest: Manifest) -> None:
    """Writes the manifest of a run; it holds from then on."""
    places.write(_address(out, manifest.run), msgspec.json.encode(manifest))
    for run in range(max(1, manifest.run - KEPT - 5), manifest.run - KEPT):
        places.delete(_address(out, run))


def _address(out: str, run: int) -> str:
    return f"{out}/{FOLDER}/manifest-{run:06d}.json"
