"""The command: options in, a run with its progress, a summary and a report out, an exit code."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from typing import TextIO


class CannotRun(ValueError):  # noqa: N818
    """Wrong usage or input; one line that says what and what to do."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says."""

    logs: list[str]
    out: str
    target_seconds: float = 5.0
    deadline_seconds: float | None = None
    master: str | None = None
    conf: dict[str, str] = {}
    quiet: bool = False


def history(options: Options, out: TextIO | None = None) -> int:
    """Runs it: 0 done, 1 some files or lines could not be used. Raises CannotRun.

    The summary goes to ``out``, else to standard output.
    """
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise CannotRun("PySpark is missing: pip install pyspark") from None
    try:
        import pyarrow as pa  # noqa: F401
    except ImportError:
        raise CannotRun("PyArrow is missing: pip install pyarrow") from None
    from agent.history.complaints import failures, line_of
    from agent.history.job import History, NothingToDo, session, ship
    from agent.history.manifest import NotOurs, Settings
    from agent.history.places import NoSuchPlace, Places, missing_here
    from agent.history.progress import Progress

    for address in options.logs:
        if missing_here(address, options.conf, os.environ):
            raise CannotRun(f"{address}: no such file or folder")
    settings = Settings(options.target_seconds, options.deadline_seconds)
    folder = tempfile.TemporaryDirectory(prefix="weir-history-", ignore_cleanup_errors=True)
    of_spark = failures()
    no_start: tuple[type[Exception], ...] = (*of_spark, OSError)
    try:
        spark = session(options.master, options.conf)
    except no_start as error:
        folder.cleanup()
        raise CannotRun(f"Spark does not start: {line_of(error)}") from None
    try:
        ship(spark, folder.name)
        with Progress(spark, enabled=not options.quiet) as progress:
            run = History(spark, options.out, settings, progress.say)
            outcome = run.run(options.logs)
            progress.say("summing up")
            found = run.findings(outcome)
            from agent.history.report import html

            place = f"{run.out}/report.html"
            Places(spark).replace(place, html(found, outcome).encode())
        from agent.history.summary import show

        show(found, outcome, out or sys.stdout)
    except (NoSuchPlace, NothingToDo, NotOurs) as error:
        raise CannotRun(str(error)) from None
    except of_spark as error:
        raise CannotRun(f"Spark's job failed: {line_of(error)}") from None
    finally:
        with suppress(*of_spark):
            spark.stop()
        folder.cleanup()
    return 1 if outcome.skipped else 0
