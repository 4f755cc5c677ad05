"""What a compact file tells again of queries that the agent has forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.core.fleet import Order
from tests.event_log import lines
from tests.event_log.test_put_aside import KEY, Watch

if TYPE_CHECKING:
    from pathlib import Path

LOG = "eventlog_v2_app-1"
NIGHT_SECONDS = 7200.0
ENDED = [*lines.opening(), lines.started(), *map(lines.progress, range(3)), lines.terminated()]


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    folder = tmp_path / "logs"
    (folder / LOG).mkdir(parents=True)
    return Watch(folder)


def compact(watch: Watch, *later: bytes) -> None:
    """The first file, and what came later, in one file; the next one has begun."""
    watch.delete(f"{LOG}/events_1_app-1")
    watch.write([*ENDED, *later], f"{LOG}/events_2_app-1.compact")
    watch.write([lines.task()], f"{LOG}/events_3_app-1")


def forgotten(watch: Watch, *, retired: bool) -> None:
    watch.write(ENDED, f"{LOG}/events_1_app-1")
    watch.pass_time(10.0)
    assert watch.completed == 3
    if retired:
        watch.keeper.control(*KEY, Order(retire=True, who="somebody"), watch.now)
    else:
        watch.pass_time(NIGHT_SECONDS, step=60.0)
    assert not watch.keeper.fleet.has(KEY)


@pytest.mark.parametrize("retired", [False, True])
def test_a_query_that_was_forgotten_is_not_made_anew_by_what_a_compact_file_repeats(
    watch: Watch, *, retired: bool
) -> None:
    forgotten(watch, retired=retired)
    compact(watch)
    watch.follow_anew()
    watch.pass_time(120.0)
    assert watch.followed == ["app-1"]
    assert watch.keeper.fleet.keys() == []
    assert watch.completed == 3


@pytest.mark.parametrize("retired", [False, True])
def test_what_a_compact_file_tells_beside_for_the_first_time_is_counted(
    watch: Watch, *, retired: bool
) -> None:
    """The next run began while nobody looked, and goes on; what was not retired counts on."""
    forgotten(watch, retired=retired)
    batch = int((watch.now - lines.BASE) / 5.0)
    later = [lines.progress(batch + number, run="r-2") for number in range(4)]
    compact(watch, lines.started("r-2", time=watch.now), *later[:2])
    watch.follow_anew()
    watch.pass_time(10.0)
    before = 0 if retired else 3
    assert watch.keeper.view(KEY, watch.now).totals.batches == {"completed": before + 2}
    watch.write(later[2:], f"{LOG}/events_3_app-1")
    watch.pass_time(10.0)
    assert watch.keeper.view(KEY, watch.now).totals.batches == {"completed": before + 4}
    assert watch.completed == 7
