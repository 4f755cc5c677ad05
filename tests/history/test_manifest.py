"""What a run remembers: read back whole, and refused where another version wrote it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agent.history import manifest
from agent.history.findings import Short
from agent.history.logs import Read
from agent.history.manifest import LogInfo, Manifest, NotOurs


class Kept:
    """A folder that is a dictionary."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def names(self, address: str) -> list[str]:
        return [path.rpartition("/")[2] for path in self.files if path.startswith(address)]

    def read(self, address: str) -> bytes | None:
        return self.files.get(address)

    def write(self, address: str, content: bytes) -> None:
        self.files[address] = content

    def delete(self, address: str) -> None:
        self.files.pop(address, None)


def test_the_newest_comes_back_as_it_was_saved() -> None:
    places: Any = Kept()
    for run in range(1, 12):
        last = Manifest(
            run=run,
            files={"l#0": Read(run, 5, 6)},
            logs={"l": LogInfo("orders", "app-1", 1.5, 2.5)},
            queries={"orders": [Short("orders", "q", advised=True, incidents={"lag ERR": run})]},
        )
        manifest.save(places, "out", last)
    assert manifest.load(places, "out") == last
    assert len(places.files) == manifest.KEPT + 1


def test_one_of_another_version_or_a_broken_one_is_refused() -> None:
    places: Any = Kept()
    manifest.save(places, "out", Manifest(format=1, run=1))
    with pytest.raises(NotOurs, match="of another version of Weir; choose another --out"):
        manifest.load(places, "out")
    (address,) = places.files
    places.files[address] = msgspec.json.encode({"run": "one"})
    with pytest.raises(NotOurs, match="remove it to judge all logs anew"):
        manifest.load(places, "out")
