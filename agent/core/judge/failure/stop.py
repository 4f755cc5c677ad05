"""Whether what a run ended with is its owner's stop, which Spark before 4 tells as a failure.

A stop cancels the run's jobs and interrupts its thread. Where that stands in a function of Python,
py4j carries what it throws there as text, and Spark 3.5 takes only the plainest of it for a stop;
Spark 4 looks into it (``StreamExecution.isInterruptionException``, SPARK-48717), so it tells no
exception. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from agent.core.judge.failure.exception_text import chain_of

_INTERRUPTED: Final = frozenset(
    ("InterruptedException", "InterruptedIOException", "ClosedByInterruptException")
)
#: What else ends so: a task that its executor's side interrupts, a client that waited too long.
#: Hadoop tells how much of its time-out was left as it was interrupted.
_OF_OTHERS: Final = re.compile(r"(?i)Lost task|time[d -]*out(?! left)|executor rejected")


def told_as_failure(exception: str, *, run_id: str, spark_version: str) -> bool:
    """Whether it is how Spark 3 tells that a run in a function of Python was stopped.

    Each run is its jobs' group, and only its stop cancels that.
    """
    if not spark_version.startswith("3."):
        return False
    chain = chain_of(exception)
    if chain[0].simple != "Py4JException":
        return False
    cancelled = re.compile(rf"\bcancelled\b.*\b{re.escape(run_id)}\b")
    if any(cancelled.search(link.message) for link in chain):
        return True
    others = any(_OF_OTHERS.search(link.message) for link in chain)
    return chain[-1].simple in _INTERRUPTED and not others
