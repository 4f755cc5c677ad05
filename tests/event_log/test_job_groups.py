"""Jobs whose group is not their run: the user's own in foreachBatch, a plugin's, a broadcast's."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from agent.core.fleet import Fleet
from agent.core.policy import Policy, QueryPolicy
from agent.replay import replay_files
from agent.service.event_logs import SeenRuns
from agent.sources.spark_stages import Stages, read, wanted
from spark_listener.wire import parse_time
from tests.event_log import lines
from tests.event_log.test_follow import Rolling, count, drain, follow, running, single
from tests.history.test_judge import judged, of

if TYPE_CHECKING:
    from pathlib import Path


def grouped(batches: int) -> list[bytes]:
    """A log whose every batch has a job of its own group, with the stage that read the rows."""
    content = [*lines.opening(), lines.started()]
    for batch in range(batches):
        time = lines.BASE + 5.0 * batch
        content.append(lines.job(batch, time + 0.2))
        content.append(lines.job(batch, time + 0.5, run=f"U-{batch}", stages=[batch]))
        content += lines.stage(batch, [0.5, 0.4, 1.5], [10, 10, 480], time=time)
        content.append(lines.progress(batch))
    return content


def test_the_pulse_tells_the_run_and_its_progress_goes_on_counting(tmp_path: Path) -> None:
    content = grouped(4)
    log = single(tmp_path, b"".join(content[:-1]))
    fleet, follower = Fleet(Policy(), started_time=lines.BASE), follow(log)

    count(fleet, follower)
    beat = follower.pulse(lines.BASE + 60.0, 1)
    assert beat is not None
    fleet.receive(beat, now=lines.BASE + 60.0)
    assert [(one.run_id, one.batch_id) for one in running(follower)] == [(lines.RUN, 3)]
    with log.path.open("ab") as file:
        file.write(content[-1])
    count(fleet, follower)
    assert fleet.view(("orders", "enrich"), lines.BASE + 60.0).totals.batches == {"completed": 4}


def test_stages_of_such_jobs_are_told_with_their_batch(tmp_path: Path) -> None:
    follower = follow(single(tmp_path, b"".join(grouped(2))))
    drain(follower)
    ((run, view),) = follower.alignments(0.0).items()
    assert (run, view.batch_id, [one.stage for one in view.stages]) == (lines.RUN, 1, [1])


def test_a_group_stands_for_the_run_until_one_is_told(tmp_path: Path) -> None:
    """As after a restart of the agent, in a file that does not tell the start."""
    content = grouped(3)
    rolling = Rolling(tmp_path)
    rolling.write(1, *content[:3])
    rolling.write(3, *content[-7:-1])  # batch 2, but for its progress
    follower = follow(rolling.log)
    drain(follower)
    (one,) = running(follower)
    rolling.write(3, content[-1], lines.job(3, lines.BASE + 15.5, run="U-3"))
    drain(follower)
    (now,) = running(follower)
    assert (now.run_id, now.batch_id) == (lines.RUN, 3)
    assert now.begun_time == one.begun_time
    ((run, view),) = follower.alignments(0.0).items()
    assert (run, view.batch_id, [one.stage for one in view.stages]) == (lines.RUN, 2, [2])


def test_after_a_restart_a_group_stands_for_the_run_that_was_counted(tmp_path: Path) -> None:
    """Else the pulse would tell of another run, and the fleet pass over what the real one says."""
    content = grouped(6)
    rolling = Rolling(tmp_path)
    rolling.write(1, *content[:25])  # up to batch 2
    fleet = Fleet(Policy(), started_time=lines.BASE)

    count(fleet, follow(rolling.log))
    (rolling.path / "events_1_app-1").unlink()
    rolling.write(1, *content[:3])
    rolling.write(3, content[-6])  # batch 5 has begun, by a job of a group of the user's own
    seen = SeenRuns(fleet.runs())
    again = follow(rolling.log, fleet.counted("event-log:app-1"), seen.last_batch, seen.present_run)
    count(fleet, again)
    beat = again.pulse(lines.BASE + 60.0, 1)
    assert beat is not None
    fleet.receive(beat, now=lines.BASE + 60.0)
    rolling.write(3, *content[-5:])
    count(fleet, again)
    assert fleet.view(("orders", "enrich"), lines.BASE + 60.0).totals.batches == {"completed": 4}


def test_a_job_between_batches_is_of_none(tmp_path: Path) -> None:
    """One that lists directories bears the number of the batch before, whose stages are told."""
    content = [*lines.opening(), lines.started()]
    for batch in range(3):
        time = lines.BASE + 5.0 * batch
        content.append(lines.job(batch, time + 0.2, stages=[10 * batch]))
        content += lines.stage(10 * batch, [0.5, 0.4, 1.5], [10, 10, 480], time=time)
        content.append(lines.progress(batch))
        for listing in range(1, 4):
            stage = 10 * batch + listing
            content.append(lines.job(batch, time + 3.0 + listing / 10, stages=[stage]))
            content += lines.stage(stage, [0.5, 0.4, 1.5], [1, 1, 1], time=time + 3.0)
    stages = Stages()
    for line in content:
        if wanted(line) and (heard := read(line)) is not None:
            stages.hear(heard)
        elif b"QueryProgressEvent" in line:
            batch = json.loads(line)["progress"]["batchId"]
            assert [one.stage for one in stages.take(lines.QUERY, batch)] == [10 * batch]
    assert [stages.take(lines.QUERY, batch) for batch in range(3)] == [[], [], []]
    follower = follow(single(tmp_path, b"".join(content)))
    drain(follower)
    assert [one.batch_id for one in running(follower)] == [None]
    told = judged([[line.strip() for line in content]])
    assert of(told, "incidents") == []
    assert [one["stage"] for one in of(told, "stages")] == [0, 10, 20]


def test_an_end_is_dated_by_the_last_that_its_batch_did(tmp_path: Path) -> None:
    """It has no time of its own; the batch that hung for twenty minutes is told by no progress."""
    ended = lines.BASE + 1200.0
    content = [*lines.opening(), lines.started(), lines.progress(0)]
    content += [lines.job(1, lines.BASE + 5.5, stages=[7])]
    content += lines.stage(7, [0.5, 0.4, 1194.0], [1, 1, 1], time=lines.BASE + 6.0)
    content += [lines.terminated()]
    log = single(tmp_path, b"".join(content))
    *_, followed = drain(follow(log))
    assert (followed.kind, followed.time) == ("terminated", ended)
    out = io.BytesIO()
    replay_files([str(log.path)], QueryPolicy(), out)
    *_, replayed = map(json.loads, out.getvalue().splitlines())
    assert parse_time(replayed["time"]) == ended
    *_, judged_last = of(judged([[line.strip() for line in content]]), "batches")
    assert (judged_last["event"], judged_last["time"]) == ("terminated", ended)


@pytest.mark.parametrize("run", ["U", lines.RUN])
def test_a_job_after_the_run_has_ended_begins_none(tmp_path: Path, run: str) -> None:
    """A thread of the user's own, as of foreachBatch, works on."""
    content = [*grouped(2), lines.terminated(), lines.job(2, lines.BASE + 60.0, run=run)]
    follower = follow(single(tmp_path, b"".join(content)))
    drain(follower)
    assert running(follower) == []


def test_history_tells_no_unfinished_batch_of_a_group_and_keeps_its_stages() -> None:
    told = judged([[line.strip() for line in grouped(3)]])
    assert of(told, "incidents") == []
    stages = [(one["run_id"], one["batch_id"]) for one in of(told, "stages")]
    assert stages == [(lines.RUN, batch) for batch in range(3)]
    without_start = judged([[line.strip() for line in [*lines.opening(), *grouped(3)[4:]]]])
    assert of(without_start, "incidents") == []
    assert len(of(without_start, "stages")) == 3
