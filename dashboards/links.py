"""Where things are: the dashboards' fixed uids, and the runbooks. Alerts read this too."""

from __future__ import annotations

import os
from typing import Final

OVERVIEW: Final = "weir-overview"
QUERY: Final = "weir-query"
CHECKPOINTS: Final = "weir-checkpoints"
AGENT: Final = "weir-agent"

#: The variable that names another place for the runbooks; ``--runbooks`` goes before it.
VARIABLE: Final = "RUNBOOKS_URL"
#: The agent serves its runbooks itself: this is one on its default address, or one brought there by
#: ``kubectl port-forward``.
AGENT_RUNBOOKS: Final = "http://localhost:9655/runbooks"


def runbooks_url() -> str:
    """Where the runbooks are, as the environment says, else on an agent's default address."""
    return os.environ.get(VARIABLE) or AGENT_RUNBOOKS


def runbook(alert: str, base: str = AGENT_RUNBOOKS) -> str:
    """The address of an alert's runbook: ``base`` with the name after it, or in place of ``{}``.

    Raises ValueError where ``base`` is no address of the web.
    """
    if not base.startswith(("http://", "https://")) or any(c.isspace() for c in base):
        raise ValueError(f"runbooks: an http:// or https:// address is needed, not {base!r}")
    return base.replace("{}", alert) if "{}" in base else f"{base.rstrip('/')}/{alert}"
