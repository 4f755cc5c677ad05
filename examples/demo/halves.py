"""The course of the demo: measure the machine, run the job as configured, run it under Weir."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent.client import AgentClient, ClientSettings
from examples.demo import measure, plan, report
from examples.demo.calibrate import calibrate
from examples.demo.children import Agent, DemoFailed, Job
from examples.demo.feed import Feed, Schedule
from examples.demo.job import APPLICATION
from examples.demo.report import Half
from examples.demo.screen import Plain, screen_for
from examples.demo.watch import Watched

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from rich.console import Console

    from examples.demo.screen import Screen

QUERY = "orders"
LOOK_SECONDS = 0.5
#: Shorter, and a burst is hardly worked off before the half ends.
LEAST_HALF_SECONDS = 20.0
#: Stopping two queries and Spark.
CLOSING_SECONDS = 4.0
#: After a half's time, what has arrived may still be worked off for so long.
PATIENCE_SECONDS = 60.0

AS_CONFIGURED = (
    "Weir only watches. No limit is configured, so Spark takes all that has arrived into one "
    "batch: when a burst comes, no result comes out until the whole of it is done."
)
UNDER_WEIR = (
    "The same files at the same moments, from an empty checkpoint. Weir now tells the query how "
    f"much to take at a time, so that a result comes out about every {plan.TARGET_SECONDS:g} s."
)


class Demo:
    """One run. Its children end with the stack that it was given."""

    def __init__(self, stack: ExitStack, console: Console, work: Path, seconds: float) -> None:
        self._stack = stack
        self._console = console
        self._work = work
        self._end = time.monotonic() + seconds
        self._logs = work / "logs"
        self._logs.mkdir(parents=True)
        self._plain = Plain(console)

    def run(self, *, keep: bool) -> None:
        """All of it. Raises DemoFailed."""
        say = self._plain.say
        self._agent = Agent(self._work, self._logs, plan.TARGET_SECONDS)
        self._stack.callback(self._agent.end)
        self._url = self._agent.wait_until_ready()
        say(f"Weir's agent is up. Status page, while this runs: {self._url}/")
        say("Starting Spark on two cores ...")
        self._job = Job(self._logs, self._url)
        self._stack.callback(self._job.end)
        say(f"Spark {self._job.wait_until_ready()} is up. Measuring what this machine can do ...")
        self._feed = Feed(self._work)
        capacity = calibrate(self._job, self._feed, self._work)
        left = self._end - time.monotonic() - CLOSING_SECONDS
        self._course = plan.make(max(left / 2, LEAST_HALF_SECONDS), capacity)
        self._feed.prepare(self._course.rows_per_file)
        say(describe(capacity, self._course))
        self._job.ask("attach")
        self._client = self._stack.enter_context(AgentClient(ClientSettings(url=self._url)))

        with screen_for(self._console, self._url + "/") as screen:
            first = self._half("as-configured", screen, "1 of 2 · as configured", AS_CONFIGURED)
            self._agent.turn_on(QUERY, "the demo's second half")
            second = self._half("under-weir", screen, "2 of 2 · under Weir", UNDER_WEIR)
        self._console.print()
        seen = (first.watched, second.watched)
        self._console.print(report.table(first.figures, second.figures, seen, plan.TARGET_SECONDS))
        for line in report.closing(first, second):
            say(line)
        if keep:
            self._keep()

    def _half(self, name: str, screen: Screen, title: str, explanation: str) -> Half:
        folder = self._work / name
        folder.mkdir()
        began = time.time()
        watched = Watched(self._client, APPLICATION, QUERY, began)
        screen.half(title, explanation, self._course.seconds)
        self._start(QUERY, folder)
        schedule = Schedule(self._feed, folder, self._course)
        schedule.start()

        def look() -> None:
            self._agent.check()
            if schedule.error is not None:
                raise DemoFailed(f"Could not put a file into {folder}: {schedule.error}")
            watched.look()
            screen.show(watched)

        try:
            end = time.monotonic() + self._course.seconds
            while (left := end - time.monotonic()) > 0:
                look()
                self._job.check()
                time.sleep(min(LOOK_SECONDS, left))
            schedule.stop()
            self._job.ask("catch up", PATIENCE_SECONDS, meanwhile=look)
        finally:
            schedule.stop()
        progress = self._job.ask("stop")
        arrivals = schedule.arrivals
        try:
            figures = measure.figures(arrivals, progress, plan.TARGET_SECONDS)
        except ValueError as error:
            raise self._job.failure(f"Nothing to show of {title}: {error}.") from None
        watched.hear_out(figures.rows, figures.batches)
        screen.show(watched)
        return Half(arrivals, progress, watched, figures)

    def _start(self, name: str, folder: Path) -> None:
        checkpoint = self._work / "checkpoints" / folder.name
        self._job.ask("start", name=name, folder=str(folder), checkpoint=str(checkpoint))

    def _keep(self) -> None:
        """The job goes on under Weir, burst after burst, until Ctrl-C."""
        self._plain.say(
            f"\nGoing on until Ctrl-C (KEEP=1). Status page: {self._url}/ · terminal view: "
            f".venv/bin/weir top --url {self._url}"
        )
        folder = self._work / "kept"
        folder.mkdir()
        self._start(QUERY, folder)
        schedule = Schedule(self._feed, folder, self._course, again=True)
        schedule.start()
        while True:
            self._agent.check()
            self._job.check()
            time.sleep(1)


def describe(capacity: plan.Capacity, course: plan.Plan) -> str:
    """What the job is about to get, in words."""
    burst_rows = course.burst_files * course.rows_per_file
    bursts = len(course.burst_at_seconds)
    return (
        f"Here a batch takes {capacity.fixed_seconds:.1f} s plus 1 s for every "
        f"{capacity.rows_per_second:,.0f} rows. So files of {course.rows_per_file:,} rows keep "
        f"coming, and {'once' if bursts == 1 else f'{bursts} times'} in each half a burst of "
        f"{burst_rows:,} rows: {capacity.batch_seconds(burst_rows):.0f} s of work at once."
    )
