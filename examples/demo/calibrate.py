"""Measures what this machine can do, with the query that is run afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.demo import measure, plan

if TYPE_CHECKING:
    from pathlib import Path

    from examples.demo.children import Job
    from examples.demo.feed import Feed


def calibrate(job: Job, feed: Feed, work: Path) -> plan.Capacity:
    """Lets Java compile what it will, then measures. Raises DemoFailed."""
    folder = work / "warm-up"
    folder.mkdir()
    feed.prepare(plan.WARM_UP_ROWS_PER_FILE)
    checkpoint = work / "checkpoints" / "warm-up"
    job.ask("start", name="warm-up", folder=str(folder), checkpoint=str(checkpoint))
    largest = 0
    for largest in plan.WARM_UP_FILES:
        feed.drop(folder, largest)
        last = measure.batches_of(job.ask("catch up"))[-1]
        if largest >= plan.WARM_UP_LEAST_FILES and last.seconds > plan.TARGET_SECONDS:
            break
    warm = len(measure.batches_of(job.ask("progress")))
    for share in plan.MEASURED_SHARES:
        feed.drop(folder, max(round(largest * share), 1))
        job.ask("catch up")
    batches = measure.batches_of(job.ask("stop"))[warm:]
    try:
        return plan.fit([(batch.rows, batch.seconds) for batch in batches])
    except ValueError as error:
        raise job.failure(f"Could not measure this machine: {error}.") from None
