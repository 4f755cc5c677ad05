"""Seasons: whether what a day before was like says how many executors will be needed.

Run as ``python -m tests.benchmarks.seasons``. For recorded arrivals of weeks (each file in
``arrivals/weeks`` names its source) it prints the capacity that a rule must keep, over the mean
load, so that so much of all that arrives comes in bins with too little: the rule's forecast of the
next bin, times the least factor that does it. The next bin is 5 or 30 minutes ahead, where
executors take one to come: that flatters what a season knows.

- ``none``: as much as came in this bin.
- ``season``: as much as came a day before the next one (seasonal naive).
- ``more of both``: the greater of the two.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from tests.benchmarks.recorded import FOLDER, read

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY_SECONDS: Final = 86400.0
#: Of all that arrives, what may come in bins with too little capacity.
SHORT_SHARES: Final = (0.05, 0.01)


def capacity(forecast: Sequence[float], arrived: Sequence[float], short_share: float) -> float:
    """Mean capacity over mean load, at the least factor of the forecast that is short so seldom."""
    total = sum(arrived)
    low, high = 0.0, 1e6
    for _ in range(80):
        factor = (low + high) / 2.0
        short = sum(
            max(came - factor * said, 0.0) for came, said in zip(arrived, forecast, strict=True)
        )
        low, high = (factor, high) if short > short_share * total else (low, factor)
    return high * sum(forecast) / total


def forecasts(events: Sequence[float], day: int) -> dict[str, list[float]]:
    """Of each bin from the second day on; ``day`` in bins. Never nothing: an idle query has one."""
    now = [max(one, 1.0) for one in events]
    bins = range(day, len(events) - 1)
    return {
        "none": [now[place] for place in bins],
        "season": [now[place + 1 - day] for place in bins],
        "more of both": [max(now[place], now[place + 1 - day]) for place in bins],
    }


def main() -> int:
    rules = list(forecasts([1.0] * 3, 1))
    print(f"| arrivals | days | ahead, minutes | short | {' | '.join(rules)} |")
    print(f"|---|---|---|---|{'---|' * len(rules)}")
    for path in sorted((FOLDER / "weeks").glob("*.txt")):
        trace = read(path)
        day = round(DAY_SECONDS / trace.bin_seconds)
        events = [float(one) for one in trace.events]
        arrived = events[day + 1 :]
        found = forecasts(events, day)
        for share in SHORT_SHARES:
            told = [f"{capacity(found[rule], arrived, share):.2f}" for rule in rules]
            print(
                f"| {trace.name} | {len(events) // day} | {trace.bin_seconds / 60:.0f} "
                f"| {100 * share:.0f} % | {' | '.join(told)} |"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
