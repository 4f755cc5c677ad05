"""`make demo`: one real Spark job, the same bursts twice: as configured, then under Weir."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from contextlib import ExitStack
from typing import NoReturn

from rich.console import Console

from examples.demo.children import ROOT, DemoFailed
from examples.demo.halves import Demo

LEAST_SECONDS = 50


def main() -> int:
    """0 with the table; 1 where something failed; 2 for wrong usage; 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument(
        "--seconds",
        type=float,
        default=90.0,
        help="the whole run (default 90); two halves of at least 20 s follow after the start",
    )
    parser.add_argument("--keep", action="store_true", help="go on after the table until Ctrl-C")
    options = parser.parse_args()
    if not LEAST_SECONDS <= options.seconds <= 3600:
        parser.error(f"SECONDS: from {LEAST_SECONDS} to 3600, not {options.seconds:g}")

    work = ROOT / ".demo"
    shutil.rmtree(work, ignore_errors=True)
    signal.signal(signal.SIGTERM, _stopped)
    console = Console(highlight=False)
    try:
        with ExitStack() as stack:
            Demo(stack, console, work, options.seconds).run(keep=options.keep)
    except DemoFailed as error:
        sys.stderr.write(f"weir: {error}\n  All logs: {work / 'logs'}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nweir: stopped; agent and job have ended\n")
        return 130
    return 0


def _stopped(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
