"""Every query that can be run, and what draws its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.benchmarks.evidence import advertising, nexmark

if TYPE_CHECKING:
    from typing import TypeAlias

    from tests.benchmarks.evidence.query import Query

    Generator: TypeAlias = nexmark.Generator | advertising.Generator

QUERIES: Final[dict[str, Query]] = nexmark.QUERIES | advertising.QUERIES
TOPICS: Final = nexmark.TOPICS | advertising.TOPICS


def generator_of(query: str, seed: int) -> Generator:
    """Of the rows that it reads."""
    of = advertising.Generator if query in advertising.QUERIES else nexmark.Generator
    return of(QUERIES[query].topics, seed)
