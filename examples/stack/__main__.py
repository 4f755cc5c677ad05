"""`make stack`: the demo's job beside Prometheus and Alertmanager; an alert fires and resolves."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from contextlib import ExitStack
from typing import NoReturn

from rich.console import Console

from examples.demo.children import ROOT, DemoFailed
from examples.stack.course import Course
from examples.stack.programs import ALERTMANAGER, PROMETHEUS, find

LEAST_SECONDS = 30


def main() -> int:
    """0: the alert fired and resolved; 1: it did not, or something failed; 2: cannot begin."""
    parser = argparse.ArgumentParser(prog="python -m examples.stack", description=__doc__)
    parser.add_argument(
        "--seconds",
        type=float,
        default=90.0,
        help="about how long (default 90); at least one burst under Weir is always run",
    )
    parser.add_argument("--keep", action="store_true", help="go on after that until Ctrl-C")
    options = parser.parse_args()
    if not LEAST_SECONDS <= options.seconds <= 86_400:
        parser.error(f"SECONDS: from {LEAST_SECONDS} to 86400, not {options.seconds:g}")
    try:
        for names in (PROMETHEUS, ALERTMANAGER):
            find(names)
    except DemoFailed as error:
        sys.stderr.write(f"weir: {error}\n")
        return 2

    work = ROOT / ".stack"
    shutil.rmtree(work, ignore_errors=True)
    signal.signal(signal.SIGTERM, _stopped)
    try:
        with ExitStack() as stack:
            course = Course(stack, Console(highlight=False), work, options.seconds)
            course.run()
            if options.keep:
                course.keep()
    except DemoFailed as error:
        sys.stderr.write(f"weir: {error}\n  All logs: {work / 'logs'}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nweir: stopped; everything that was started has ended\n")
        return 130
    return 0


def _stopped(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
