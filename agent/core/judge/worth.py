"""When something that takes time of a batch is worth words: advice that saves nothing is noise."""

from __future__ import annotations

from typing import Final

#: Share of a batch that it must take: a fifth, which is what the batch would be shorter at best.
WORTH_SHARE: Final = 0.2
#: Seconds that it must take: below, a batch is as long as Spark's own planning anyway.
WORTH_SECONDS: Final = 0.2


def worth(seconds: float, batch_seconds: float | None) -> bool:
    """Whether ``seconds`` of a batch are worth a change; not where its time is unknown."""
    if batch_seconds is None:
        return False
    return seconds >= WORTH_SECONDS and seconds >= WORTH_SHARE * batch_seconds
