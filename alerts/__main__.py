"""``python -m alerts``: writes the Prometheus rules and the Alertmanager example."""

from __future__ import annotations

import argparse
from pathlib import Path

from alerts.generate import DIRECTORY, write
from dashboards.links import RUNBOOKS


def main() -> None:
    """Writes the files and says where."""
    parser = argparse.ArgumentParser(prog="python -m alerts", description=__doc__)
    parser.add_argument("--out", type=Path, default=DIRECTORY, help="directory to write to")
    parser.add_argument("--runbooks", default=RUNBOOKS, help="address that docs/runbooks has")
    options = parser.parse_args()
    for path in write(options.out, options.runbooks):
        print(path)  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
