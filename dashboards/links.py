"""Where things are: the dashboards' fixed uids, and the runbooks. Alerts read this too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse

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


def read_options(
    parser: argparse.ArgumentParser, directory: Path, fallback: str
) -> tuple[Path, str]:
    """(where the files go, where the runbooks are) as a command line says; it ends where that errs.

    ``fallback`` is where the runbooks are when nobody says so.
    """
    parser.add_argument("--out", type=Path, default=directory, help="directory to write to")
    parser.add_argument(
        "--runbooks",
        metavar="URL",
        default=runbooks_url(),
        help="where the runbooks are; the alert's name comes after it, or in place of {} in it "
        f"(default: ${VARIABLE}, else where Prometheus finds an agent, which serves them itself)",
    )
    options = parser.parse_args()
    try:
        return options.out, checked(options.runbooks) if options.runbooks else fallback
    except ValueError as error:
        parser.error(str(error))


def runbook(alert: str, base: str) -> str:
    """The address of an alert's runbook: ``base`` with the name after it, or in place of ``{}``."""
    return base.replace("{}", alert) if "{}" in base else f"{base.rstrip('/')}/{alert}"
