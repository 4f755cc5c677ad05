"""Sinks whose service takes so many batches a day: how long each is to take at least.

Alone, Spark reads what waits in a few large batches. Under a limit batches of the target's length
follow each other for as long as the query is behind, and each is a commit. Where a service counts
those by the day a short target uses a day's up in hours: then each batch fails, and each restart.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_DAY_SECONDS: Final = 86_400.0


class Quota(NamedTuple):
    """What a service takes of one table in a day."""

    sink: re.Pattern[str]  # how progress's description of the sink begins
    batches_a_day: int
    service: str
    counts: str  # what it makes of a batch, in its own word

    @property
    def least_seconds(self) -> float:
        """What a batch takes where they follow each other all day and use up no more."""
        return _DAY_SECONDS / self.batches_a_day


#: A table takes 1,500 load jobs a day: no project gets more, failed ones count, and what is used
#: comes back over 24 hours (https://docs.cloud.google.com/bigquery/docs/optimize-load-jobs). The
#: connector of GoogleCloudDataproc makes one of each batch: ``BigQueryStreamingSink.addBatch``. Its
#: jars for one version of Spark have a table instead, of which nobody sees whether it makes any:
#: ``writeMethod`` *direct* makes none.
QUOTAS: Final = (Quota(re.compile(r"BigQueryStreamingSink\("), 1_500, "BigQuery", "load job"),)


def of_sink(description: str) -> Quota | None:
    """The quota of a sink by what it says of itself; None where none is known."""
    return next((quota for quota in QUOTAS if quota.sink.match(description)), None)
