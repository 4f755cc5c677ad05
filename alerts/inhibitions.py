"""Inhibitions: one fault pages once, under the name that is nearest to its cause."""

from __future__ import annotations

from typing import Final

from alerts.model import Inhibition
from alerts.rules import ALERTS

_QUERY: Final = ("cluster", "namespace", "application", "query")
_OF_QUERIES: Final = tuple(one.name for one in ALERTS if one.subject == "query")
_NOT_DOWN: Final = tuple(one.name for one in ALERTS if one.name != "WeirAgentDown")


def _of_queries_but(*names: str) -> tuple[str, ...]:
    return tuple(name for name in _OF_QUERIES if name not in names)


INHIBITIONS: Final[tuple[Inhibition, ...]] = (
    Inhibition(
        sources=("WeirAgentDown",),
        targets=_NOT_DOWN,
        equal=("cluster",),
        why="Without an agent everything else is what was last seen.",
    ),
    Inhibition(
        sources=("WeirAgentBlind",),
        targets=(*_OF_QUERIES, "WeirListenerDropping", "WeirDriverMemoryNearLimit"),
        equal=("cluster", "namespace", "instance"),
        why="No driver reaches the agent, so all its queries look gone at once.",
    ),
    Inhibition(
        sources=("WeirBatchesFailing",),
        targets=("WeirQueryGone",),
        equal=_QUERY,
        why="Between two restarts that fail the query is gone: the failures say more.",
    ),
    Inhibition(
        sources=("WeirQueryGone", "WeirBatchesFailing"),
        targets=_of_queries_but("WeirQueryGone", "WeirBatchesFailing"),
        equal=_QUERY,
        why="A query that does not run is behind, late and whatever else it was last.",
    ),
    Inhibition(
        sources=("WeirBatchHung",),
        targets=_of_queries_but("WeirBatchHung", "WeirQueryGone", "WeirBatchesFailing"),
        equal=_QUERY,
        why="A batch that hangs passes its deadline and lets the backlog grow.",
    ),
    Inhibition(
        sources=("WeirNeedsCapacity",),
        targets=("WeirFallingBehind", "WeirTargetInfeasible"),
        equal=_QUERY,
        why="Too little capacity is why it falls behind.",
    ),
    Inhibition(
        sources=("WeirAgentFull",),
        targets=("WeirAgentRejectsEvents",),
        equal=("cluster", "namespace", "instance"),
        why="A full agent refuses events; that it is full says more.",
    ),
)
