"""``python -m dashboards``: writes the dashboards' JSON."""

from __future__ import annotations

import argparse

from dashboards.generate import DIRECTORY, write
from dashboards.links import PANEL_RUNBOOKS, read_options


def main() -> None:
    """Writes the files and says where."""
    parser = argparse.ArgumentParser(prog="python -m dashboards", description=__doc__)
    out, runbooks = read_options(parser, DIRECTORY, PANEL_RUNBOOKS)
    for path in write(out, runbooks):
        print(path)  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
