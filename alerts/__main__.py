"""``python -m alerts``: writes the Prometheus rules and the Alertmanager example.

Where they go to their own place, the table of docs/alerts.md is renewed too.
"""

from __future__ import annotations

import argparse

from alerts.generate import DIRECTORY, write, write_page
from dashboards.links import ALERT_RUNBOOKS, read_options


def main() -> None:
    """Writes the files and says where."""
    parser = argparse.ArgumentParser(prog="python -m alerts", description=__doc__)
    out, runbooks = read_options(parser, DIRECTORY, ALERT_RUNBOOKS)
    for path in write(out, runbooks):
        print(path)  # noqa: T201 - a command's output
    if out == DIRECTORY:
        write_page()


if __name__ == "__main__":
    main()
