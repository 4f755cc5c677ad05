"""Code of a job's own that may give another result where batches end elsewhere.

Spark's own operators do not, but for what hangs on the watermark (``lateness``), and functions of a
task or of a moment, of which progress says nothing. What Spark calls
once a batch, or once a batch and key, can: ``foreachBatch``, and functions that keep state of their
own. Whether it does, its owner knows; that it may is said before Weir acts. See docs/late-rows.md.
And a service that counts batches by the day is told of (``quota``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from agent.core import quota
from agent.core.figures import figure
from agent.core.judgement import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

#: As Spark names them in a query's progress, 3.5 to 4.3.
_OWN_STATE: Final = re.compile(r"(?i)GroupsWithState|InPandasWithState|transformWithState")
_EACH_BATCH: Final = re.compile(r"(?i)foreachBatch")


def findings(
    operators: Iterable[str], sink: str, *, controlled: bool, ends: bool, target_seconds: float
) -> list[Finding]:
    """Of a query with these state operators and this sink, whose limits Weir may set.

    ``ends``: its run ends by itself, and the job may ask then what it has read.
    ``target_seconds``: what a batch should take, by the sink's quota too.
    """
    if not controlled:
        return []
    counted = [_COUNTED] if ends else []
    return [*_called(operators, sink), *counted, *_by_the_day(sink, target_seconds)]


_COUNTED: Final = Finding(
    "batch_ends",
    "info",
    "its runs end by themselves, and under limits have more batches: code of the job's that asks "
    "afterwards what was read finds the last batch in lastProgress, and the last 99 by default in "
    "recentProgress",
    "nothing, where no code asks; else count what was written, or in a listener, which hears of "
    "the last batch before onQueryTerminated, and may be long after the run is over",
)


def _by_the_day(sink: str, target_seconds: float) -> list[Finding]:
    found = quota.of_sink(sink)
    if found is None or target_seconds > found.least_seconds:
        return []
    least = f"{found.least_seconds:.0f} s"
    if target_seconds == found.least_seconds:
        then = f"while it is behind Weir makes none shorter than {least} by itself"
        remedy = (
            "nothing, unless a limit that the job or maximum_limit sets fills in less; a longer "
            f"trigger interval saves more: each batch is a {found.counts}"
        )
    else:
        a_day = found.batches_a_day * found.least_seconds / target_seconds
        then = (
            f"catching up in batches of {figure(target_seconds)} s would make {figure(a_day)}, and "
            f"the deadline is too short for a target of {least}"
        )
        remedy = "a longer deadline_seconds, or a longer trigger interval"
    return [
        Finding(
            "sink_quota",
            "info",
            f"its sink makes a {found.counts} of each batch, of which {found.service} takes "
            f"{found.batches_a_day:,} a day for a table: {then}",
            remedy,
        )
    ]


def _called(operators: Iterable[str], sink: str) -> list[Finding]:
    own = sorted({name for name in operators if _OWN_STATE.search(name)})
    calls = [f"{' and '.join(own)} once a batch and key"] if own else []
    if _EACH_BATCH.search(sink):
        calls.append("foreachBatch once a batch")
    if not calls:
        return []
    return [
        Finding(
            "batch_ends",
            "info",
            f"the job's own code is called by {', by '.join(calls)}: what it gives out, and "
            "how many rows, may hang on where batches end, which limits move, as restarts and "
            "bursts do",
            "nothing, where it does not; else mode: dry-run for this query",
        )
    ]
