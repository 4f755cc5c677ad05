"""How many numbers the core judges by: each is one that somebody must know, and tune."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import agent.core
from tests.benchmarks.numbers import numbers

CORE: Final = Path(agent.core.__file__).parent
#: What judges nothing, by module and name, and what it is instead.
FACTS: Final[dict[str, tuple[str, ...]]] = {
    "a bound of what is taken in, or of what is shown of it": (
        *(f"events.MOST_{name}" for name in ("COUNT", "LONG", "SECONDS", "MILLISECONDS")),
        *(f"events.MOST_{name}" for name in ("PHASES", "PARTS", "RUNNING")),
        *(f"events.MAX_{name}" for name in ("TEXT", "ID", "DESCRIPTION", "HOST")),
        "events.LEAST_MILLISECONDS",
        "state_store.MOST_METRICS",
        "exception_text.LONGEST_TEXT",
        "cause.LONGEST_EVIDENCE",
        "names.LONGEST_NAME",
    ),
    "a bound of memory or of work": (
        "orders.MOST_STANDING_ORDERS",
        "senders.LISTENER_SECONDS",
        "senders.SENDERS_PER_QUERY",
        "senders.LEAST_SENDERS",
        "query.MOST_PAST_RUNS",
        "lag_table.MOST_POINTS",
        "lag_table.THINNED",
        "lanes.MOST_LOOKS",
    ),
    "how figures are shown or rounded": (
        "figures.DIGITS",
        "flow.DURATION_BUCKETS_SECONDS",
        "judgement.UNJUDGED",
        "lag_table.HALF_A_ROW",
        "pace.UNIT_MILLISECONDS",
    ),
    "a fact of another system, or of what a word means": (
        "names.ORACLE",  # its messages
        "quota.QUOTAS",  # BigQuery's
        "lag_groups.RENEW_SECONDS",  # Kafka forgets groups
        "lag_state.MOST_POINTS",  # Burrow's window
        "alignment.FEWEST_TASKS",  # that have a median
    ),
}
#: So many judge. Who brings one raises this, and says in the change why no other one would do; who
#: takes one out lowers it.
JUDGING: Final = 108


def test_no_number_comes_unseen() -> None:
    """Counted as ``tests.benchmarks.numbers`` does: every literal of a public constant.

    What begins with an underscore is arithmetic, follows from other numbers, or is a fact that
    nobody tunes. Defaults of ``agent.core.policy`` are settings, with lines in the documentation.
    """
    found = [
        f"{path.stem}.{number.name}"
        for path in CORE.rglob("*.py")
        for number in numbers(path.read_text("utf-8"))
    ]
    facts = {name for names in FACTS.values() for name in names}
    assert facts <= set(found), "a fact that is no more"
    judging = [name for name in found if name not in facts]
    assert len(judging) == JUDGING, sorted(judging)
