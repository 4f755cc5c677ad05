"""What is over at an agent, in PromQL: the alerts and the boards say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: When a query last ended as it should, at whichever agent: recorded by the alerts' rules.
STOPPED: Final = "query:weir_query_stopped_timestamp_seconds:last"


def stops(remembered: str, of: Callable[[str], str]) -> str:
    """When its owner last stopped a query, or it had read what there was, at whichever agent.

    ``remembered``: of the recording; ``of`` selects a metric's series.
    """
    return (
        "max by (cluster, namespace, application, query)"
        f" ({of('weir_query_gone_since_timestamp_seconds')} and {of('weir_query_stopped')} == 1"
        f" or {remembered})"
    )


def over(of: Callable[[str], str], window: str = "", remembered: str = STOPPED) -> str:
    """Stopped by its owner; or gone here, and its driver came back at another node's agent.

    There it runs, or has ended as it should since. Beside a window: that looks back at a query
    whose series have ended, and so must this.
    """
    stopped, up, gone_since = (
        f"last_over_time({of(name)}[{window}])" if window else of(name)
        for name in (
            "weir_query_stopped",
            "weir_query_up",
            "weir_query_gone_since_timestamp_seconds",
        )
    )
    moved = f"{up} == 0 and on (cluster, namespace, application, query) {of('weir_query_up')} == 1"
    ended = (
        f"{gone_since} < on (cluster, namespace, application, query) group_left ()"
        f" {stops(remembered, of)}"
    )
    return f"({stopped} == 1 or {moved} or {ended})"
