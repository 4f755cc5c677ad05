"""The course of the stack: a burst as the job is configured, then bursts under Weir.

As configured a burst is one batch that takes nearly as long as it may before something would kill
it: WeirDeadlineNear fires, goes through Prometheus and Alertmanager, and arrives where a pager
would be. Then Weir may act. The alert is told to be over, and the same burst does not raise it.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Final

from rich.text import Text

from examples.demo import measure, plan
from examples.demo.calibrate import calibrate
from examples.demo.children import Agent, DemoFailed, Job
from examples.demo.feed import Feed
from examples.stack.programs import Alertmanager, Prometheus
from examples.stack.receiver import Receiver

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from pathlib import Path

    from rich.console import Console

    from examples.stack.receiver import Notification

QUERY: Final = "orders"
ALERT: Final = "WeirDeadlineNear"
#: What kills a batch, were there something that does: five targets and a half.
DEADLINE_SECONDS: Final = plan.TARGET_SECONDS * plan.BURST_TARGETS
#: A burst's work, as a share of the deadline: above the 80 % from which the alert fires, and below
#: what something would kill.
BURST_SHARE: Final = 0.9
#: Bursts tried, each so much larger than the one before.
BURSTS: Final = 5
LARGER: Final = 1.3
#: Waiting for something that takes seconds; a busy machine takes longer.
PATIENCE_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.2
TRICKLE_SECONDS: Final = 0.7
#: A limit holds for the batch after the next: until that was planned.
SETTLING_SECONDS: Final = 5.0
#: Between two bursts under Weir.
REST_SECONDS: Final = 5.0
COLOURS: Final = {"firing": "bold red", "resolved": "bold green"}


class Course:
    """One run; everything that it starts ends with the stack that it was given."""

    agent: Agent
    prometheus: Prometheus
    alertmanager: Alertmanager
    job: Job

    def __init__(self, stack: ExitStack, console: Console, work: Path, seconds: float) -> None:
        self._stack = stack
        self._console = console
        self._work = work
        self._logs = work / "logs"
        self._logs.mkdir(parents=True)
        self._began = time.monotonic()
        self._end = self._began + seconds
        self.receiver = Receiver(self._arrived)
        stack.callback(self.receiver.close)

    def run(self) -> None:
        """All of it. Raises DemoFailed, where the alert did not do as it should too."""
        self._start()
        self._until_it_fires()
        seen = self.prometheus.firing()
        told = self.alertmanager.told()
        self.say(
            f"Prometheus: {', '.join(seen) or 'nothing'} · "
            f"Alertmanager, after inhibition: {', '.join(told) or 'nothing'}"
        )
        self._wait(lambda: self._told("resolved"), f"{ALERT} to be over", 2 * PATIENCE_SECONDS)
        configured = self._longest_batch()
        self.agent.turn_on(QUERY, "the stack's second half", self.say)
        self._wait(self._limited, "a limit to be in force")
        self._pass_time(SETTLING_SECONDS)
        before = len(self._batches())
        bursts = 0
        while bursts == 0 or time.monotonic() < self._end - self._rest:
            self._burst("Under Weir: the same burst.")
            self._catch_up()
            bursts += 1
        self._summary(bursts, configured, self._longest_batch(before))

    def keep(self) -> None:
        """Burst after burst until Ctrl-C."""
        self.say(f"Going on until Ctrl-C. Prometheus: {self.prometheus.url}/alerts")
        while True:
            self._burst("")
            self._catch_up()
            self._pass_time(REST_SECONDS)

    def say(self, text: str | Text) -> None:
        """A line with the seconds since the start."""
        stamp = Text(f"{time.monotonic() - self._began:5.0f} s  ", style="dim")
        self._console.print(stamp.append(text), soft_wrap=True)

    # -- parts ------------------------------------------------------------------------------
    def _start(self) -> None:
        # The capacity of the machine sets the deadline, so the agent comes after the measuring.
        self.say("Starting Spark on two cores ...")
        self.alertmanager = Alertmanager(self._work, self._logs, self.receiver.url)
        self._stack.callback(self.alertmanager.end)
        options = ["--deadline-seconds", f"{DEADLINE_SECONDS:g}", "--driver-process", "auto"]
        options += ["--record-file", str(self._work / "events.jsonl")]
        self.agent = Agent(self._work, self._logs, plan.TARGET_SECONDS, *options)
        self._stack.callback(self.agent.end)
        url = self.agent.wait_until_ready()
        self.prometheus = Prometheus(
            self._work, self._logs, url, self.alertmanager.wait_until_ready()
        )
        self._stack.callback(self.prometheus.end)
        self.job = Job(self._logs, url)
        self._stack.callback(self.job.end)
        self.receiver.start()  # a thread: after the last child was forked
        self.prometheus.wait_until_ready()
        self.say(f"Status page: {url}/ · runbooks: {url}/runbooks/")
        self.say(
            f"Prometheus, with the rules: {self.prometheus.url}/alerts · "
            f"Alertmanager: {self.alertmanager.url}/"
        )
        version = self.job.wait_until_ready()
        self.say(f"Spark {version} is up. Measuring what this machine can do ...")
        self._feed = Feed(self._work)
        capacity = calibrate(self.job, self._feed, self._work)
        rows_per_file = max(round(capacity.rows_per_second * plan.FILE_SECONDS), 1)
        work_seconds = max(BURST_SHARE * DEADLINE_SECONDS - capacity.fixed_seconds, 1.0)
        self._burst_files = round(work_seconds / plan.FILE_SECONDS)
        self._rest = work_seconds * 2.0
        self._feed.prepare(rows_per_file)
        self.job.ask("attach")
        self._folder = self._work / "orders"
        self._folder.mkdir()
        self.job.ask(
            "start",
            name=QUERY,
            folder=str(self._folder),
            checkpoint=str(self._work / "checkpoints" / "orders"),
        )
        self._pass_time(3.0)
        asked = f'weir_query_up{{query="{QUERY}"}} == 1'
        self._wait(lambda: bool(self.prometheus.ask(asked)), "Prometheus to see the query")

    def _until_it_fires(self) -> None:
        """A burst; a larger one where the machine has become faster than it was when measured."""
        words = "As configured: a burst comes, and Spark takes all of it into one batch."
        for _ in range(BURSTS - 1):
            self._burst(words)
            if self._seen(lambda: self._told("firing"), PATIENCE_SECONDS):
                return
            self._catch_up()
            self._burst_files = round(self._burst_files * LARGER)
            words = f"The longest batch took {self._longest_batch():.1f} s: once more, with more."
        self._burst(words)
        self._wait(lambda: self._told("firing"), f"{ALERT} to be told")

    def _batches(self) -> list[measure.Batch]:
        """Of Spark's own progress, those that had rows."""
        return measure.batches_of(self.job.ask("progress"))

    def _longest_batch(self, since: int = 0) -> float:
        return max(batch.seconds for batch in self._batches()[since:])

    def _burst(self, words: str) -> None:
        if words:
            self.say(f"{words} {self._burst_files} files at once.")
        self._feed.drop(self._folder, self._burst_files)

    def _catch_up(self) -> None:
        """Until the burst is worked off."""
        self.job.ask("catch up", 2 * PATIENCE_SECONDS, meanwhile=self._look)

    def _pass_time(self, seconds: float) -> None:
        """A few files a second, as at any hour."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._look()
            self._feed.drop(self._folder, 1)
            time.sleep(TRICKLE_SECONDS)

    def _wait(
        self, seen: Callable[[], bool], what: str, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        """As ``_seen``. Raises DemoFailed."""
        if not self._seen(seen, patience_seconds):
            raise DemoFailed(
                f"Waited {patience_seconds:.0f} s for {what}. Prometheus says that now fire: "
                f"{', '.join(self.prometheus.firing()) or 'none'}."
            )

    def _seen(self, seen: Callable[[], bool], patience_seconds: float) -> bool:
        """Whether it is seen in that time; files trickle on meanwhile."""
        give_up = time.monotonic() + patience_seconds
        drop = 0.0
        while not seen():
            self._look()
            if time.monotonic() > give_up:
                return False
            if time.monotonic() > drop:
                self._feed.drop(self._folder, 1)
                drop = time.monotonic() + TRICKLE_SECONDS
            time.sleep(LOOK_SECONDS)
        return True

    def _look(self) -> None:
        for child in (self.agent, self.prometheus, self.alertmanager, self.job):
            child.check()

    def _told(self, status: str) -> bool:
        told = [(n.alert, n.status) for n in self.receiver.notifications]
        return (ALERT, status) in told

    def _limited(self) -> bool:
        return bool(self.prometheus.ask(f'weir_limit_files{{query="{QUERY}"}}'))

    def _arrived(self, one: Notification) -> None:
        line = Text()
        line.append(f"{one.status.upper():9}", style=COLOURS.get(one.status, ""))
        line.append(f"{one.alert} → {one.receiver}: {one.summary}")
        self.say(line)
        if one.status == "firing":
            self.say(f"         {one.description}")
            self.say(f"         Runbook: {one.runbook}")

    def _summary(self, bursts: int, configured: float, under_weir: float) -> None:
        self._console.print("\nWhat was told, in order:")
        for n in self.receiver.notifications:
            at = datetime.fromtimestamp(n.time).astimezone().strftime("%H:%M:%S")
            self._console.print(f"  {at}  {n.status:9} {n.severity:9} {n.alert} ({n.query})")
        again = len([n for n in self.receiver.notifications[2:] if n.status == "firing"])
        self._console.print(
            f"\nA batch may take {DEADLINE_SECONDS:g} s. The longest took {configured:.1f} s as "
            f"configured, and {ALERT} fired once and was over again. Under Weir, in {bursts} such "
            f"burst{'' if bursts == 1 else 's'}, it took {under_weir:.1f} s, and "
            f"{f'it fired {again} more times' if again else 'nothing fired'}.",
            soft_wrap=True,
        )
