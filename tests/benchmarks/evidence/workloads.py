"""Every query that can be run, and what draws its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.benchmarks.evidence import advertising, dspbench, nexmark

if TYPE_CHECKING:
    from typing import TypeAlias

    from tests.benchmarks.evidence.query import Query

    Generator: TypeAlias = nexmark.Generator | advertising.Generator | dspbench.Generator

SUITES: Final = (nexmark, advertising, dspbench)
QUERIES: Final[dict[str, Query | dspbench.Application]] = {
    name: query for module in SUITES for name, query in module.QUERIES.items()
}
TOPICS: Final = nexmark.TOPICS | advertising.TOPICS | dspbench.TOPICS


def generator_of(query: str, seed: int) -> Generator:
    """Of the rows that it reads."""
    (of,) = (module.Generator for module in SUITES if query in module.QUERIES)
    return of(QUERIES[query].topics, seed)
