"""Consumer groups that show a query's lag where Kafka's users look for it. Pure.

Spark keeps a query's offsets in its checkpoint and in no consumer group, so no tool of Kafka's sees
its lag. Here the offsets of batches that Spark has committed are given the name of a group.
"""

from __future__ import annotations

import re
from string import Formatter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from agent.core.decode.kafka_offsets import Offsets
    from agent.core.query import Key

#: Seconds after which offsets are written again although they are the same. Brokers forget those of
#: a group without members after ``offsets.retention.minutes``: 7 days by default, a day where
#: operators are frugal.
RENEW_SECONDS: Final = 3600.0
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9._-]")
FIELDS: Final = frozenset({"application", "query"})


def check_pattern(pattern: str) -> None:
    """Raises ValueError where a pattern would not name one group for each query."""
    try:
        parts = list(Formatter().parse(pattern))
    except ValueError as error:
        raise ValueError(f"{pattern!r}: {error}") from None
    found = {name for _, name, _, _ in parts if name is not None}
    plain = all(not form and conversion is None for _, _, form, conversion in parts)
    if found != FIELDS or not plain:
        raise ValueError(
            f"{pattern!r}: {{application}} and {{query}} have to stand in it, and nothing else in "
            "braces: each query needs a group of its own"
        )


def group_of(pattern: str, key: Key) -> str:
    """The group of a query, in letters that every tool of Kafka's shows as one word."""
    application, query = (_UNUSUAL.sub("_", name) for name in key)
    return pattern.format(application=application, query=query)


def groups_of(pattern: str, committed: Mapping[Key, Offsets]) -> dict[str, Offsets]:
    """By group, the next offsets to be read; queries whose names make one group have none."""
    named: dict[str, list[Offsets]] = {}
    for key, offsets in committed.items():
        named.setdefault(group_of(pattern, key), []).append(offsets)
    return {group: found[0] for group, found in named.items() if len(found) == 1}


class Written:
    """What was written to which group, and when."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[Offsets, float]] = {}

    def due(self, wanted: Mapping[str, Offsets], now: float) -> dict[str, Offsets]:
        """Those that are not written yet, or were for so long that brokers might forget them."""
        return {
            group: offsets
            for group, offsets in wanted.items()
            if (known := self._written.get(group)) is None
            or known[0] != offsets
            or now - known[1] >= RENEW_SECONDS
        }

    def note(self, group: str, offsets: Offsets, now: float) -> None:
        """They were written."""
        self._written[group] = offsets, now

    def forget(self, group: str) -> None:
        """Somebody else may have written since."""
        self._written.pop(group, None)

    def keep(self, wanted: Collection[str]) -> None:
        """Forgets the groups of queries that are followed no more."""
        self._written = {group: told for group, told in self._written.items() if group in wanted}
