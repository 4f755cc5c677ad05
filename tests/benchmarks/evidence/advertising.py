"""Yahoo's streaming benchmark: views of advertisements, counted by campaign and ten seconds.

Chintapalli et al., "Benchmarking streaming computation engines: Storm, Flink and Spark Streaming"
(2016), as yahoo/streaming-benchmarks has it: events name a user, a page and one of a thousand ads,
a third of them are views; ads belong to a hundred campaigns of ten, which a table tells; the views
are joined with it and counted in windows of ten seconds of event time. There the table is asked of
Redis row by row; here it is one of Spark's.
"""

from __future__ import annotations

import itertools
import random
import uuid
from typing import TYPE_CHECKING, Final

from tests.benchmarks.evidence.query import BASE_TIME_MS, Query, Topic, time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CAMPAIGNS, ADS_PER_CAMPAIGN = 100, 10
USERS = PAGES = 100
AD_TYPES: Final = ("banner", "modal", "sponsored-search", "mail", "mobile")
EVENT_TYPES: Final = ("view", "click", "purchase")

TOPICS: Final = {
    "ad_event": Topic(
        "user_id STRING, page_id STRING, ad_id STRING, ad_type STRING, event_type STRING, "
        "event_time TIMESTAMP, ip_address STRING",
        "event_time",
        1,
    )
}
QUERIES: Final = {
    "ysb": Query(
        ("ad_event",),
        """
        SELECT campaign_id, window(event_time, '10 seconds').start AS starttime, count(*) AS views
        FROM ad_event JOIN campaign USING (ad_id)
        WHERE event_type = 'view'
        GROUP BY campaign_id, window(event_time, '10 seconds')
        """,
        "Yahoo's streaming benchmark: a join with a table, and windows",
        {
            "campaign": (
                "SELECT CAST(id AS STRING) AS ad_id, "
                f"CAST(id DIV {ADS_PER_CAMPAIGN} AS STRING) AS campaign_id "
                f"FROM range({CAMPAIGNS * ADS_PER_CAMPAIGN})"
            )
        },
    )
}


class Generator:
    """Rows of the topic, one after the other, each at the time that it is given."""

    def __init__(self, topics: Sequence[str], seed: int) -> None:
        self._random = random.Random(f"advertising {seed}")
        self._users = [self._id() for _ in range(USERS)]
        self._pages = [self._id() for _ in range(PAGES)]

    def _id(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128)))

    def row(self, time_ms: int) -> tuple[str, bytes]:
        """The topic and the JSON of the next event; ``time_ms`` since the epoch."""
        draw = self._random
        return "ad_event", (
            f'{{"user_id":"{draw.choice(self._users)}","page_id":"{draw.choice(self._pages)}",'
            f'"ad_id":"{draw.randrange(CAMPAIGNS * ADS_PER_CAMPAIGN)}",'
            f'"ad_type":"{draw.choice(AD_TYPES)}","event_type":"{draw.choice(EVENT_TYPES)}",'
            f'"event_time":"{time_text(time_ms)}","ip_address":"1.2.3.4"}}'
        ).encode()

    def endless(self) -> Iterator[tuple[str, bytes]]:
        """Rows whose times do not matter much: a thousand for each second."""
        for number in itertools.count():
            yield self.row(BASE_TIME_MS + number)
