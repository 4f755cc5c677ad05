"""``python -m alerts``: writes the Prometheus rules and the Alertmanager example.

Where they go to their own place, the table of docs/alerts.md is renewed too.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from alerts.generate import DIRECTORY, write, write_page
from dashboards.links import ALERT_RUNBOOKS, VARIABLE, checked, runbooks_url


def main() -> None:
    """Writes the files and says where."""
    parser = argparse.ArgumentParser(prog="python -m alerts", description=__doc__)
    parser.add_argument("--out", type=Path, default=DIRECTORY, help="directory to write to")
    parser.add_argument(
        "--runbooks",
        metavar="URL",
        default=runbooks_url(),
        help="where the runbooks are; the alert's name comes after it, or in place of {} in it "
        f"(default: ${VARIABLE}, else where Prometheus finds an agent, which serves them itself)",
    )
    options = parser.parse_args()
    try:
        runbooks = checked(options.runbooks) if options.runbooks else ALERT_RUNBOOKS
    except ValueError as error:
        parser.error(str(error))
    for path in write(options.out, runbooks):
        print(path)  # noqa: T201 - a command's output
    if options.out == DIRECTORY:
        write_page()


if __name__ == "__main__":
    main()
