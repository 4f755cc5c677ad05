"""Which agents do not answer Prometheus, in PromQL: the alerts and the boards say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: Prometheus's own: 1 for a target that answered the last scrape, else 0.
UP: Final = "up"
#: So long after it last answered an agent is missed, and what it counted is remembered: a weekend.
MISSED: Final = "3d"

#: Looked back for scrapes that fail singly: three are as often as the ten minutes for which most
#: alerts wait. What no scrape brings lets each of them wait anew.
_LATELY: Final = "30m"

_FAILED_SCRAPES: Final = f"count_over_time({UP}[150s]) - sum_over_time({UP}[150s])"
_NO_ANSWER: Final = f"({UP} == 0 and {_FAILED_SCRAPES} >= 2)"
#: Falls from 1 to 0: an outage is one, however long.
_COMES_AND_GOES: Final = f"(resets({UP}[{_LATELY}]) >= 3)"


def was_agent(of: Callable[..., str], matchers: str = "") -> str:
    """What agents told of themselves, of late or within the days that one is missed."""
    return f"last_over_time({of('weir_build_info', matchers=matchers)}[{MISSED}])"


def silent(of: Callable[..., str]) -> str:
    """Agents whose targets do not answer, with the labels that each gives its own series.

    ``of`` selects a metric's series. One in a pod that has come back has another address, and is
    known by its pod; but by address and pod where it tells a namespace that is not its target's.
    """
    of_pods = was_agent(of, 'pod!=""')
    others = f'({was_agent(of)} unless on (job, namespace, pod) {UP}{{pod!=""}})'
    return (
        "max without (version, python_version)"
        f" ({_whose_target(others, 'job, instance, pod', _NO_ANSWER)})"
        " or max without (version, python_version, instance)"
        f" ({_whose_target(of_pods, 'job, namespace, pod', _NO_ANSWER)})"
    )


def flapping(of: Callable[..., str]) -> str:
    """Agents that stop answering again and again, at one address, with their own labels."""
    agents = f"last_over_time({of('weir_build_info')}[{_LATELY}])"
    found = _whose_target(agents, "job, instance, pod", _COMES_AND_GOES)
    return f"max without (version, python_version) ({found})"


def _whose_target(agents: str, target: str, does: str) -> str:
    """Those whose target, found by these labels, is among those that ``does`` gives.

    By its cluster, too, where it has that: else one that is dead would be told once for each
    cluster that has one of its name. A target that Prometheus gives none, or another than the
    agent tells, is found without.
    """
    by_cluster = f"on (cluster, {target})"
    return (
        f"{agents} and {by_cluster} {does}"
        f" or {agents} unless {by_cluster} {UP} and on ({target}) {does}"
    )
