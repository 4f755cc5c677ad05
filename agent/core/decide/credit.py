"""Credit: how the rows of a batch are shared out over a query's sources.

As in Flink's credit-based flow control, each source owns exclusive credit, so that none starves,
and the rest floats to where the backlog is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Of an even share, what each source owns whatever its backlog.
EXCLUSIVE_SHARE: Final = 0.2


class Credit(msgspec.Struct, frozen=True, gc=False):
    """Rows a source may admit: what it owns and what floats to it."""

    exclusive_rows: float
    floating_rows: float

    @property
    def rows(self) -> float:
        """Both together."""
        return self.exclusive_rows + self.floating_rows


def share(
    total_rows: float,
    needs_rows: Sequence[float | None],
    pressing_rows: Sequence[float] | None = None,
) -> list[Credit]:
    """Shares rows by need (backlog and what arrives until the next batch; None is unknown).

    The credits add up to ``total_rows``; each is at least the exclusive share; more need never
    gets less. Unknown needs count as the mean of the known ones, or as equal where none is known.
    ``pressing_rows`` are those that a source must read by the next batch, as retention deletes
    them: they are its own before the rest floats, as far as there is room.
    """
    count = len(needs_rows)
    if count == 0:
        return []
    if count == 1:
        return [Credit(total_rows, 0.0)]
    least = total_rows / count * EXCLUSIVE_SHARE
    presses = [max(rows - least, 0.0) for rows in pressing_rows or [0.0] * count]
    room = total_rows - least * count
    fits = min(room / sum(presses), 1.0) if sum(presses) > 0.0 else 0.0
    exclusive = [least + rows * fits for rows in presses]
    floating = room - sum(presses) * fits
    known = [max(need, 0.0) for need in needs_rows if need is not None]
    fallback = sum(known) / len(known) if known else 1.0
    needs = [fallback if need is None else max(need, 0.0) for need in needs_rows]
    whole = sum(needs)
    if whole <= 0.0:
        needs, whole = [1.0] * count, float(count)
    return [
        Credit(own, floating * (need / whole)) for own, need in zip(exclusive, needs, strict=True)
    ]
