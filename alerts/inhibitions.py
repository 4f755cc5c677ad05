"""Inhibitions: one fault pages once, under the name that is nearest to its cause."""

from __future__ import annotations

from typing import Final

from alerts.model import Inhibition
from alerts.rules import ALERTS

_QUERY: Final = ("cluster", "namespace", "application", "query")
_DOES_NOT_RUN: Final = ("WeirQueryGone", "WeirBatchesFailing")
_BEHIND: Final = ("WeirFallingBehindFast", "WeirFallingBehind", "WeirNeedsCapacity")
_OF_QUERIES: Final = tuple(one.name for one in ALERTS if one.subject == "query")


#: Rows are lost for good. Whatever led there was told long before: this must be told again.
_LOSSES: Final = ("WeirRetentionLossNear", "WeirRowsLost", "WeirWatermarkAhead")


#: What somebody did, which may be why the others fire.
_DONE: Final = ("WeirNewCheckpoint",)


def _of_queries_but(*names: str) -> tuple[str, ...]:
    """All alerts on queries but these, and but what tells of rows that are lost or of a deed."""
    return tuple(name for name in _OF_QUERIES if name not in {*names, *_LOSSES, *_DONE})


INHIBITIONS: Final[tuple[Inhibition, ...]] = (
    Inhibition(
        sources=("WeirAgentUnreachable",),
        targets=("WeirAgentDown",),
        equal=("cluster",),
        why="The same agent, told sooner and by its name; that it was the only one says no more.",
    ),
    # WeirAgentDown holds nothing else back. Without an agent there are no series to fire by; and of
    # several Prometheus that each scrape a part, one has none while another tells what is so.
    Inhibition(
        sources=("WeirAgentBlind",),
        targets=(*_of_queries_but(), "WeirListenerDropping", "WeirDriverMemoryNearLimit"),
        equal=("cluster", "namespace", "instance"),
        why="No driver reaches the agent, so all its queries look gone at once.",
    ),
    Inhibition(
        sources=("WeirSpiral",),
        targets=_of_queries_but("WeirSpiral"),
        equal=_QUERY,
        why="In a spiral batches are late, hang, are killed and fail, and between two runs the "
        "query is gone: the spiral is the one name of it all.",
    ),
    Inhibition(
        sources=("WeirBatchesFailing",),
        targets=("WeirQueryGone",),
        equal=_QUERY,
        why="Between two restarts that fail the query is gone: the failures say more.",
    ),
    Inhibition(
        sources=_DOES_NOT_RUN,
        targets=_of_queries_but("WeirSpiral", *_DOES_NOT_RUN),
        equal=_QUERY,
        why="A query that does not run is behind, late and whatever else it was last.",
    ),
    Inhibition(
        sources=("WeirBatchHung",),
        targets=_of_queries_but("WeirSpiral", *_DOES_NOT_RUN, "WeirBatchHung"),
        equal=_QUERY,
        why="A batch that hangs passes its deadline and lets the backlog grow.",
    ),
    Inhibition(
        sources=("WeirBacklogStuck",),
        targets=(*_BEHIND, "WeirTargetInfeasible", "WeirWatermarkStuck"),
        equal=_QUERY,
        why="A query that takes nothing falls behind.",
    ),
    Inhibition(
        sources=("WeirRowsLost",),
        targets=(
            "WeirRetentionLossNear",
            "WeirRetentionLossAhead",
            *_BEHIND,
            "WeirTargetInfeasible",
        ),
        equal=_QUERY,
        why="What was near has come.",
    ),
    Inhibition(
        sources=("WeirRetentionLossNear",),
        targets=("WeirRetentionLossAhead", *_BEHIND, "WeirTargetInfeasible"),
        equal=_QUERY,
        why="It is about to lose data because it is behind.",
    ),
    Inhibition(
        sources=("WeirFallingBehindFast",),
        targets=(
            "WeirFallingBehind",
            "WeirNeedsCapacity",
            "WeirTargetInfeasible",
            "WeirRetentionLossAhead",
        ),
        equal=_QUERY,
        why="The same backlog; its runbook asks for the capacity first.",
    ),
    Inhibition(
        sources=("WeirNeedsCapacity",),
        targets=("WeirFallingBehind", "WeirTargetInfeasible"),
        equal=_QUERY,
        why="Too little capacity is why it falls behind.",
    ),
    Inhibition(
        sources=("WeirWatermarkAhead",),
        targets=("WeirLateRowsDropped",),
        equal=_QUERY,
        why="All rows are dropped: that more are than one in a hundred says no more.",
    ),
    Inhibition(
        sources=("WeirWatermarkStuck",),
        targets=("WeirStateGrowing",),
        equal=_QUERY,
        why="State is dropped by the watermark; while that stands still, state grows.",
    ),
    Inhibition(
        sources=("WeirAgentFull",),
        targets=("WeirAgentRejectsEvents",),
        equal=("cluster", "namespace", "instance"),
        why="A full agent refuses events; that it is full says more.",
    ),
    Inhibition(
        sources=("WeirAgentRestarting",),
        targets=("WeirAgentFlapping",),
        equal=("cluster", "namespace", "instance"),
        why="Between two starts it does not answer; that it ends says more.",
    ),
)
