"""Numbers kept for every query, in flat arrays: as lists they would take four times the memory.

Saved, they are plain lists.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    Numbers = array[float]
else:
    Numbers = array  # no subscript before Python 3.12


def numbers() -> Numbers:
    """None yet."""
    return array("d")


class Table:
    """Rows of as many numbers each as ``WIDTH`` says, oldest first."""

    __slots__ = ("numbers",)
    WIDTH = 1

    def __init__(self, flat: Numbers | None = None) -> None:
        self.numbers: Numbers = array("d") if flat is None else flat

    def __len__(self) -> int:
        return len(self.numbers) // self.WIDTH

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.numbers == other.numbers

    __hash__ = None  # type: ignore[assignment]

    def add(self, row: tuple[float, ...], most: int) -> None:
        """One more row; of more than so many the oldest goes."""
        kept = self.numbers
        kept.extend(row)
        if len(kept) > most * self.WIDTH:
            del kept[: self.WIDTH]

    def column(self, place: int) -> Numbers:
        """One number of each row, newest first."""
        return self.numbers[place - self.WIDTH :: -self.WIDTH]

    def rows(self) -> list[tuple[float, ...]]:
        """Every row."""
        width = self.WIDTH
        return [
            tuple(self.numbers[start : start + width])
            for start in range(0, len(self.numbers), width)
        ]


def plain(value: Any) -> Any:
    """What an array or table is saved as. Raises NotImplementedError for anything else."""
    if isinstance(value, array):
        return value.tolist()
    if isinstance(value, Table):
        return value.rows()
    raise NotImplementedError(f"{type(value).__name__} cannot be saved")


def packed(kind: type, value: Any) -> Any:
    """A saved list as what it was. Raises msgspec.ValidationError where it is none."""
    wrong = msgspec.ValidationError(f"expected numbers for {kind.__name__}")
    try:
        if not issubclass(kind, Table):
            return array("d", value)
        if {len(row) for row in value} - {kind.WIDTH}:
            raise wrong
        return kind(array("d", [number for row in value for number in row]))
    except TypeError:
        raise wrong from None
