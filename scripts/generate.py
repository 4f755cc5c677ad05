"""Writes anew all that is written from the code: docs, dashboards, rules, the chart's schema.

``make generated`` runs it. What each part writes it says in the file itself.
"""

from __future__ import annotations

import runpy
import sys
from typing import Final

GENERATORS: Final = (
    "agent.export.catalogue",
    "agent.export.advice",
    "scripts.commands",
    "agent.service.reference",
    "agent.history.tables",
    "helm.schema",
    "alerts",
    "dashboards",
    "helm.files",
    "tests.benchmarks.evidence.report",
)


def main() -> None:
    """Runs each, as ``python -m`` would."""
    for module in GENERATORS:
        if module == "dashboards" and sys.version_info < (3, 11):
            print("dashboards: left as they are, their SDK needs Python 3.11")  # noqa: T201
            continue
        sys.argv = [module]
        runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    main()
