"""Files and tables with a watermark: rows that came at once are cut where that drops none.

All rows come in commits, each in files that stand in no order of time, and none comes later than
the delay: as configured, not one of them is dropped.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from agent.core.policy import LateRows, Policy, QueryPolicy
from spark_listener.sources import DELTA, FILES, ICEBERG
from spark_listener.wire import format_time
from tests.core.played import Played
from tests.core.test_fleet import World

DELAY_SECONDS = 600.0
CONFIGURED = 1000  # files a batch, as Delta's own default
FILE_ROWS, FIXED_SECONDS, THROUGHPUT = 1000, 1.0, 4000.0


@dataclasses.dataclass(frozen=True)
class File:
    came: float
    least: float  # event times
    greatest: float
    snapshot: bool = False


def commit(
    draw: random.Random, came: float, seconds: float, files: int, *, snapshot: bool = False
) -> list[File]:
    """The last seconds before it came, split over files that stand in no order."""
    step = seconds / files
    parts = [(came - seconds + n * step, came - seconds + (n + 1) * step) for n in range(files)]
    draw.shuffle(parts)
    return [File(came, least, greatest, snapshot) for least, greatest in parts]


class Job(Played):
    """A query as Spark runs it over a directory or a table; a grant acts two batches later."""

    def __init__(
        self,
        *,
        late_rows: LateRows = "guard",
        mode: str = "on",
        trigger_seconds: float = 0.0,
        source_class: str = DELTA.classes[0],
        available_now: bool = False,
    ) -> None:
        super().__init__(late_rows, mode, DELAY_SECONDS)
        self.files: list[File] = []
        self.read = 0
        self.trigger_seconds = trigger_seconds
        self.source_class = source_class
        self.limits: list[int | None] = [CONFIGURED, CONFIGURED]
        self.began = self.world.driver.time
        self.uncounted, self.slower = False, 1.0
        self.available_now = available_now
        self._start()

    def _start(self) -> None:
        driver = self.world.driver
        trigger = f"ProcessingTimeTrigger({int(self.trigger_seconds * 1000)})"
        if self.available_now:
            trigger = "AvailableNowTrigger"
        receipt = self.world.send(driver.started(trigger=trigger))
        for grant in receipt.grants:
            self.limits = [grant.limit] * 2

    def restart(self) -> None:
        driver = self.world.driver
        self.world.send(driver.terminated())
        driver.run_id += "+"
        self.limits = [CONFIGURED] * 2
        self._start()

    @property
    def cut(self) -> list[int]:
        """Batches for which a limit was lower than what is configured."""
        return [n for n, (limit, _, _) in enumerate(self.batches) if limit != CONFIGURED]

    def run(self, commits: list[list[File]]) -> Job:
        """All of it, as it comes."""
        self.files = self.files + [file for one in commits for file in one]
        driver = self.world.driver
        while self.read < len(self.files):
            came = self.files[self.read].came
            if came > driver.time:
                self._rest(came)
            if self.trigger_seconds:
                gone = driver.time - self.began
                driver.time += -gone % self.trigger_seconds
            self._batch()
        return self

    def _rest(self, until_time: float) -> None:
        """It polls and finds nothing, which Spark tells each ten seconds at most."""
        driver, every = self.world.driver, max(10.0, self.trigger_seconds)
        for _ in range(min(3, int((until_time - driver.time) / every))):
            self.world.send(driver.idle())
            driver.time += every
        if until_time - driver.time > every:
            driver.time = until_time - (until_time - driver.time) % every
            self.world.send(driver.idle())
        driver.time = until_time
        self.limits = [self.limits[-1]] * 2  # what was granted is in force

    def die(self, seconds: float) -> None:
        """In a batch, without a word; so much later it is there again, and runs that first."""
        driver, planned_time = self.world.driver, self.world.driver.time
        self.world.send(driver.heartbeat(driver.batch_id + 1, 1.0))
        driver.time += seconds
        driver.run_id += "+"
        self._start()
        self.limits[0] = CONFIGURED  # by which it was planned
        self._batch(planned_time)

    def _batch(self, planned_time: float | None = None) -> None:
        driver, time = self.world.driver, planned_time or self.world.driver.time
        limit = self.limits.pop(0)
        waits = sum(file.came <= time for file in self.files[self.read :])
        takes = self.files[self.read : self.read + min(waits, limit or waits)]
        late = [file for file in takes if file.least <= self.watermark]
        # Of a file that the watermark lies in the share before it.
        dropped = sum(
            round(FILE_ROWS * min(1.0, (self.watermark - f.least) / (f.greatest - f.least)))
            for f in late
        )
        self.read += len(takes)
        self.batches.append((limit, len(takes), dropped))
        rows = len(takes) * FILE_ROWS
        last = takes[-1].snapshot
        body: dict[str, Any] = {
            "eventTime": {
                "min": format_time(min(file.least for file in takes)),
                "max": format_time(max(file.greatest for file in takes)),
                "watermark": format_time(self.watermark),
            },
            "stateOperators": [
                {"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": dropped}
            ],
        }
        end = {"reservoirVersion": 1, "index": self.read, "isStartingVersion": last}
        event = driver.progress(
            rows,
            self.slower * (FIXED_SECONDS + rows / THROUGHPUT),
            limits=[
                {
                    "source": 0,
                    "unit": "files",
                    "limit": limit,
                    "configured": CONFIGURED,
                    "backlog": None if self.uncounted else waits - len(takes),
                    "admitted": None if self.uncounted else len(takes),
                    "source_class": self.source_class,
                }
            ],
            sources=[
                {
                    "description": "DeltaSource[file:/table]",
                    "startOffset": {},
                    "endOffset": end if self.source_class == DELTA.classes[0] else {"logOffset": 1},
                    "latestOffset": None,
                    "numInputRows": rows,
                }
            ],
            **body,
        )
        granted = self.world.send(event).grants
        self.limits.append(granted[0].limit if granted else self.limits[-1])
        self.move_watermark(file.greatest for file in takes)


def commits(seconds: float, count: int, *, files: int = 40, seed: int = 3) -> list[list[File]]:
    """One each so many seconds, of all that was since the last."""
    draw = random.Random(seed)
    began = World(Policy()).driver.time + seconds
    return [commit(draw, began + n * seconds, seconds, files) for n in range(count)]


@pytest.mark.parametrize("source_class", [one.classes[-1] for one in (DELTA, FILES, ICEBERG)])
def test_commits_of_more_than_the_delay_leaves_are_read_as_configured(source_class: str) -> None:
    job = Job(source_class=source_class).run(commits(3600.0, 12))
    assert job.dropped == 0
    assert job.cut == []
    assert job.view.limit.reason == "hold:late_rows"
    (finding,) = [one for one in job.view.findings if one.check == "late_rows"]
    assert "came at once, in several files, that lie up to 3,600 s apart" in finding.evidence
    assert job.view.late_rows_held is False


def test_cut_all_the_same_such_commits_lose_rows() -> None:
    """What the test above keeps from happening."""
    assert Job(late_rows="allow").run(commits(3600.0, 12)).dropped > 10_000


@pytest.mark.parametrize("seconds", [60.0, 290.0])
def test_shorter_commits_are_cut_and_lose_nothing(seconds: float) -> None:
    job = Job().run(commits(seconds, 40))
    assert job.dropped == 0
    assert job.cut


def test_one_large_commit_among_small_ones_is_remembered_for_as_long_as_it_was() -> None:
    began = World(Policy()).driver.time
    draw = random.Random(5)
    calm = [commit(draw, began + 60.0 * n, 60.0, 40) for n in range(1, 20)]
    large = [commit(draw, began + 1740.0, 540.0, 40)]
    after = [commit(draw, began + 1740.0 + 60.0 * n, 60.0, 40) for n in range(1, 20)]
    job = Job().run(calm)
    assert job.cut
    job.run(large)
    seen = len(job.batches)
    assert job.view.limit.reason == "hold:late_rows"
    job.run(after)
    assert job.dropped == 0
    again = next(number for number in job.cut if number >= seen)
    # And one more: a limit that no batch reaches is lowered by the second that says so.
    assert sum(files for _, files, _ in job.batches[seen:again]) == (9 + 1) * 40


@pytest.mark.parametrize(("seconds", "held"), [(60.0, False), (1000.0, True)])
def test_what_came_in_a_triggers_interval_did_not_come_at_once(seconds: float, held: bool) -> None:
    """Of a trigger each 600 s: ten commits that are a minute each, or one of 1,000 s."""
    told = commits(seconds, int(12_000 / seconds), files=20)
    job = Job(trigger_seconds=600.0).run(told)
    assert job.dropped == 0
    assert (job.view.limit.reason == "hold:late_rows") is held


def test_what_came_while_a_batch_waited_to_be_run_again_did_not_come_at_once() -> None:
    began = World(Policy()).driver.time
    draw = random.Random(11)
    told = [commit(draw, began + 60.0 * n, 60.0, 20) for n in range(1, 100)]
    job = Job().run(told[:20])
    job.files += told[20]
    job._rest(told[20][0].came)
    job.die(3000.0)
    job.run(told[21:])
    assert job.dropped == 0
    assert not job.view.limit.reason.startswith("hold:late_rows")


@pytest.mark.parametrize("told", [True, False])
def test_what_came_while_the_query_was_down_did_not_come_at_once(told: bool) -> None:
    """Whether or not anybody counts what the first batch leaves."""
    began = World(Policy()).driver.time
    draw = random.Random(12)
    commits = [commit(draw, began + 60.0 * n, 60.0, 20) for n in range(1, 100)]
    job = Job().run(commits[:20])
    job.world.driver.time += 3000.0
    job.restart()
    job.uncounted = not told
    job.files += [file for one in commits[20:60] for file in one]
    job._batch()
    job.uncounted = False
    job.run(commits[60:])
    assert job.dropped == 0
    assert job.view.limit.reason != "hold:late_rows"


def test_what_a_long_batch_would_hide_is_not_forgotten() -> None:
    """After it a commit of half an hour may have come in as long."""
    job = Job().run(commits(1800.0, 4))
    assert job.view.limit.reason == "hold:late_rows"
    job.slower = 200.0  # batches of 2,200 s
    draw = random.Random(13)
    last = job.world.driver.time
    job.run([commit(draw, last + 1800.0 * n, 1800.0, 40) for n in range(1, 6)])
    assert job.dropped == 0
    assert job.view.limit.reason == "hold:late_rows"


def nights(job: Job, count: int) -> Job:
    """Each a run that reads what a day's commits, each of two hours, have left."""
    for day in range(count):
        job.restart()
        began = job.world.driver.time
        draw = random.Random(day)
        job.run([commit(draw, began - 7200.0 * n, 7200.0, 400) for n in range(12, 0, -1)])
        job.world.driver.time = began + 86400.0
    return job


@pytest.mark.parametrize("source_class", [one.classes[-1] for one in (DELTA, FILES, ICEBERG)])
def test_what_piled_up_before_an_available_now_run_is_read_as_configured(source_class: str) -> None:
    job = nights(Job(available_now=True, source_class=source_class), 3)
    assert job.dropped == nights(Job(available_now=True, mode="off"), 3).dropped
    assert job.cut == []
    assert job.view.limit.reason == "hold:late_rows"
    (finding,) = [one for one in job.view.findings if one.check == "late_rows"]
    assert "as they piled up while nobody looked" in finding.evidence


def test_cut_all_the_same_such_a_run_loses_rows() -> None:
    allowed = nights(Job(available_now=True, late_rows="allow"), 3)
    as_configured = nights(Job(available_now=True, mode="off"), 3)
    assert allowed.dropped > as_configured.dropped + 10_000


def test_what_came_since_files_were_listed_did_not_come_at_once() -> None:
    """A file a minute: those that a limit left are read first, in the list in which they stood."""
    world = World(Policy(default=QueryPolicy(target_seconds=2.0)))
    driver = world.driver
    began, read = driver.time, 0

    def batch(upto: int, seconds: float, *, limit: int | None = None) -> None:
        nonlocal read
        planned = driver.time
        files, first = upto - read, began + 60.0 * read
        read = upto
        event = driver.progress(
            files * 1000,
            seconds,
            limits=[
                {
                    "source": 0,
                    "unit": "files",
                    "limit": limit,
                    "configured": None,
                    "backlog": int((planned - began) / 60.0) - upto,
                    "admitted": files,
                    "source_class": FILES.classes[-1],
                    "watermark_delay_seconds": DELAY_SECONDS,
                }
            ],
            eventTime={
                "min": format_time(first),
                "max": format_time(began + 60.0 * upto),
                "watermark": format_time(max(0.0, first - DELAY_SECONDS)),
            },
            stateOperators=[{"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": 0}],
        )
        world.send(event)

    driver.time += 120.0
    batch(2, 1200.0)
    batch(12, 1500.0, limit=10)  # of 22
    batch(22, 1500.0)  # the others; 25 came since
    batch(72, 5.0)
    (query,) = world.fleet._roster
    assert query.watched.lateness.commits.apart_seconds is None


def test_files_of_a_commit_each_are_steered() -> None:
    job = Job().run(commits(3600.0, 30, files=1))
    assert job.dropped == 0
    assert job.view.limit.reason != "hold:late_rows"


def test_a_table_is_read_as_configured_until_its_first_snapshot_is() -> None:
    began = World(Policy()).driver.time
    draw = random.Random(7)
    table = [commit(draw, began, 86400.0, 5000, snapshot=True)]
    job = Job()
    job.run(table)
    job.restart()
    assert len(job.batches) == 5
    assert job.cut == []
    (finding,) = [one for one in job.view.findings if one.check == "late_rows"]
    assert "a table is read as it was found" in finding.evidence
    later = job.world.driver.time
    job.run([commit(draw, later + 60.0 * n, 60.0, 40) for n in range(1, 20)])
    assert job.cut, "it is steered, once that is read"


def test_no_world_of_commits_loses_more_than_as_configured() -> None:
    for seed in range(60):
        draw = random.Random(seed)
        seconds = draw.choice([5.0, 30.0, 60.0, 200.0, 400.0, 1000.0, 5000.0])
        told = commits(
            seconds, draw.randint(5, 40), files=draw.randint(1, 200), seed=draw.randint(0, 99)
        )
        interval = draw.choice([0.0, 0.0, 30.0, 300.0])
        guarded = Job(trigger_seconds=interval).run(told)
        alone = Job(trigger_seconds=interval, mode="off").run(told)
        assert guarded.dropped <= alone.dropped, (seed, seconds, interval)
