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
#: The agent serves its runbooks itself; where it is, Prometheus knows. In an alert: where one is
#: scraped, or was within three days; where there was none, the alert has no address.
ALERT_RUNBOOKS: Final = (
    '{{ with query "topk(1, weir_build_info) or topk(1, last_over_time(weir_build_info[3d]))" }}'
    'http://{{ . | first | label "instance" }}/runbooks/{}{{ end }}'
)
#: The variable of every board that holds where an agent is scraped.
RUNBOOKS_AT: Final = "runbooks_at"
PANEL_RUNBOOKS: Final = f"http://${{{RUNBOOKS_AT}}}/runbooks/{{}}"


def runbooks_url() -> str | None:
    """Where the runbooks are, as the environment says; None: where the agent is."""
    return os.environ.get(VARIABLE) or None


def checked(base: str) -> str:
    """A place of the runbooks that somebody gave; ValueError where it is no address of the web."""
    if not base.startswith(("http://", "https://")) or any(c.isspace() for c in base):
        raise ValueError(f"runbooks: an http:// or https:// address is needed, not {base!r}")
    return base


def runbook(alert: str, base: str) -> str:
    """The address of an alert's runbook: ``base`` with the name after it, or in place of ``{}``."""
    return base.replace("{}", alert) if "{}" in base else f"{base.rstrip('/')}/{alert}"
