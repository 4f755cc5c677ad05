"""Which agents do not answer Prometheus, in PromQL: the alerts and the boards say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: Prometheus's own: 1 for a target that answered the last scrape, else 0.
UP: Final = "up"
#: So long after it last answered an agent is missed, and what it counted is remembered: a weekend.
MISSED: Final = "3d"

_FAILED_SCRAPES: Final = f"count_over_time({UP}[150s]) - sum_over_time({UP}[150s])"
_NO_ANSWER: Final = f"({UP} == 0 and {_FAILED_SCRAPES} >= 2)"


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
        f"max without (version, python_version) ({_without_answer(others, 'job, instance, pod')})"
        " or max without (version, python_version, instance)"
        f" ({_without_answer(of_pods, 'job, namespace, pod')})"
    )


def _without_answer(agents: str, target: str) -> str:
    """Those whose target, found by these labels, does not answer.

    By its cluster, too, where it has that: else one that is dead would be told once for each
    cluster that has one of its name. A target that Prometheus gives none, or another than the
    agent tells, is found without.
    """
    by_cluster = f"on (cluster, {target})"
    return (
        f"{agents} and {by_cluster} {_NO_ANSWER}"
        f" or {agents} unless {by_cluster} {UP} and on ({target}) {_NO_ANSWER}"
    )
