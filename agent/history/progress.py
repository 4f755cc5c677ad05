"""A bar that shows how far Spark is: tasks done of those known, for each step of the job."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

LOOK_SECONDS: Final = 0.3


class Progress:
    """A line on standard error while the block runs; plain lines where that is no terminal."""

    def __init__(self, spark: Any, *, enabled: bool) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._enabled = enabled
        self._live = enabled and sys.stderr.isatty()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._bar: Any = None
        self._task: Any = None

    def say(self, step: str) -> None:
        """What is done now."""
        if self._live and self._bar is not None:
            self._bar.update(self._task, description=step, completed=0, total=None)
        elif self._enabled:
            sys.stderr.write(f"weir history: {step}\n")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        if self._live:
            from rich.console import Console
            from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[tasks]}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task("starting Spark", total=None, tasks="")
            self._bar.start()
            self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join(5.0)
        if self._bar is not None:
            self._bar.stop()

    def _watch(self) -> None:
        while not self._done.wait(LOOK_SECONDS):
            try:
                done, known = self._look()
            except Exception:  # noqa: BLE001 - Spark may be ending; a bar is not worth a failure
                return
            if known:
                told = f"{done}/{known} tasks"
                self._bar.update(self._task, completed=done, total=known, tasks=told)
            else:
                self._bar.update(self._task, total=None, tasks="")

    def _look(self) -> tuple[int, int]:
        done = known = 0
        for stage in self._tracker.getActiveStageIds():
            told = self._tracker.getStageInfo(stage)
            if told is not None:
                done += told.numCompletedTasks
                known += told.numTasks
        return done, known
