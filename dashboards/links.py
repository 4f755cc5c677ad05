"""Where things are: the dashboards' fixed uids, and the runbooks. Alerts read this too."""

from __future__ import annotations

from typing import Final

OVERVIEW: Final = "weir-overview"
QUERY: Final = "weir-query"
CHECKPOINTS: Final = "weir-checkpoints"
AGENT: Final = "weir-agent"

#: Where docs/runbooks is served; ``python -m dashboards --runbooks URL`` and ``python -m alerts
#: --runbooks URL`` write another one.
RUNBOOKS: Final = "https://example.com/weir/docs/runbooks"


def runbook(alert: str, base: str = RUNBOOKS) -> str:
    """The address of an alert's runbook."""
    return f"{base.rstrip('/')}/{alert}.md"
