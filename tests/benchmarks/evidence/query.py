"""What a query of a public benchmark is made of, whichever it is from."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Final, NamedTuple

#: Where event time begins: the same in each run, and so are the results.
BASE_TIME_MS: Final = 1_700_000_000_000
#: As in nexmark/nexmark's tables for Kafka: dateTime - INTERVAL '4' SECOND.
WATERMARK: Final = "4 seconds"


class Topic(NamedTuple):
    """What its rows hold, where their event time stands, and how many come beside others'."""

    schema: str
    event_time: str
    proportion: int


@dataclass(frozen=True)
class Query:
    """The topics that it reads, its SQL over views of these names, what it shows; its tables."""

    topics: tuple[str, ...]
    sql: str
    what: str
    tables: dict[str, str] = field(default_factory=dict)


@functools.lru_cache(maxsize=4096)
def time_text(time_ms: int) -> str:
    """As JSON holds a time; rows of the same tick share it."""
    return datetime.fromtimestamp(time_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
