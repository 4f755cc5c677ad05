"""Failure texts of public threads with the cause that people found: see README.md beside it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final, Literal

import msgspec

Half = Literal["open", "held", "fresh_open", "fresh_held"]
HALVES: Final[tuple[Half, ...]] = ("open", "held", "fresh_open", "fresh_held")
#: The halves that whoever writes the rules does not look into.
HELD: Final[frozenset[Half]] = frozenset(("held", "fresh_held"))
FOLDER: Final = Path(__file__).parent


class Also(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be said as well where a text, or its thread, allows more than one reading."""

    cause: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    what: tuple[str, ...] = ()


class Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One failure: as a listener would be told of it, and how it is to be read.

    ``source`` is the thread, ``owner/repository#number``; ``why`` one clause for the label.
    """

    source: str
    connector: str
    exception: str
    error_class: str | None
    cause: str
    where: str
    what: str
    also: Also
    why: str


def half_of(source: str) -> Half:
    """The half that a thread of the first texts belongs to: by its hash, so nobody chooses."""
    return ("open", "held")[int(hashlib.sha256(source.encode()).hexdigest(), 16) % 2]


def texts(half: Half) -> list[Text]:
    lines = (FOLDER / f"{half}.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Text) for line in lines]
