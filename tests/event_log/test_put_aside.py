"""Logs that fall silent, are deleted or grow again: what is followed, counted, and called alive."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import TYPE_CHECKING

import pytest

from agent.core.fleet.roster import Roster
from agent.core.policy import Policy
from agent.service import event_logs
from agent.service.event_logs import EventLogs
from agent.service.keeper import Keeper
from agent.service.store import Store
from agent.sources import event_log
from agent.sources.event_log import LOST_SECONDS, Follower
from tests.event_log import lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from agent.core.decode.events import Request
    from agent.core.fleet import Receipt
    from agent.core.query import Query

DAY_SECONDS = 86_400.0
KEY = ("orders", "enrich")


class Watch:
    """Event logs on a disk, followed by a clock that the test moves."""

    def __init__(self, folder: Path) -> None:
        self.now = lines.BASE + 100.0
        self.keeper = Keeper(Policy(), Store(None), started_time=lines.BASE - 100.0)
        self.set_back = 0.0  # of the machine's clock, which the agent's own does not follow
        self.folder = folder
        self.follow_anew()

    def follow_anew(self) -> None:
        """As after a restart of the agent, which has kept its state."""
        self.logs = EventLogs(
            [self.folder], self.keeper, lambda: self.now, lambda: self.now - self.set_back
        )

    def write(self, content: list[bytes], name: str = "app-1.inprogress") -> None:
        path = self.folder / name
        with path.open("ab") as file:
            file.write(b"".join(content))
        os.utime(path, (self.now, self.now))

    def delete(self, name: str = "app-1.inprogress") -> None:
        (self.folder / name).unlink()

    def pass_time(self, seconds: float, step: float = 5.0) -> None:
        async def passing() -> None:
            ends = self.now + seconds
            while self.now < ends:
                self.now += step
                await self.logs.poll()
                self.keeper.tick(self.now)

        asyncio.run(passing())

    @property
    def followed(self) -> list[str]:
        return sorted(self.logs.directories[0].followers)

    @property
    def up(self) -> bool:
        return self.keeper.view(KEY, self.now).up

    @property
    def completed(self) -> int:
        return self.keeper.fleet.totals.events.get("progress", 0)


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    folder = tmp_path / "logs"
    folder.mkdir()
    return Watch(folder)


BATCH_5 = lines.BASE + 25.0
MIDST = lines.whole(4)[:-4]  # up to the job of batch 3, which runs


def test_a_driver_killed_in_the_middle_of_a_batch_is_gone_after_an_hour(watch: Watch) -> None:
    watch.write(MIDST)
    watch.pass_time(LOST_SECONDS - 100.0)
    assert watch.up, "a batch may write nothing for long"
    assert watch.keeper.view(KEY, watch.now).running_seconds > 3000.0
    watch.pass_time(150.0)
    assert not watch.up
    assert watch.followed == []


def test_a_driver_stays_alive_when_the_machines_clock_is_set_back(watch: Watch) -> None:
    watch.write(MIDST)
    watch.pass_time(10.0)
    watch.set_back = 7_200.0
    watch.pass_time(60.0)
    assert watch.up, "its batch runs, and the log is as new as it was"


@pytest.mark.parametrize("behind", [600.0, -600.0])
def test_a_driver_may_have_another_clock_than_the_agent(watch: Watch, behind: float) -> None:
    """Its lines are dated by its own: a batch is as old as it is by that one."""
    watch.now = lines.BASE + behind
    watch.keeper = Keeper(Policy(), Store(None), started_time=watch.now - 100.0)
    watch.follow_anew()
    watch.write([*lines.opening(), lines.started()])
    for batch in range(5):
        watch.pass_time(0.5, step=0.5)
        watch.write([lines.job(batch, watch.now - behind)])
        watch.pass_time(2.0, step=0.5)
        if batch < 4:
            watch.write([lines.progress(batch)])
            watch.pass_time(2.5, step=0.5)
    watch.pass_time(10.0)
    view = watch.keeper.view(KEY, watch.now)
    assert view.batch_id == 3
    assert view.running_seconds == pytest.approx(12.0, abs=1.0)
    assert view.state == "busy"
    assert view.last_progress_time == pytest.approx(watch.now - behind - 15.0, abs=1.0)


def test_what_came_while_the_agent_could_not_look_was_not_written_just_now(watch: Watch) -> None:
    """Its machine stood still, or the share was gone: the batch is as old as its log says."""
    path = watch.folder / "app-1.inprogress"
    watch.now = lines.BASE
    watch.keeper = Keeper(Policy(), Store(None), started_time=watch.now - 100.0)
    watch.follow_anew()
    watch.write([*lines.opening(), lines.started()])
    for batch in range(4):
        watch.pass_time(0.5, step=0.5)
        watch.write([lines.job(batch, watch.now)])
        watch.pass_time(2.0, step=0.5)
        watch.write([lines.progress(batch)])
        watch.pass_time(2.5, step=0.5)
    began = watch.now + 60.0
    watch.write([lines.job(4, began)])
    os.utime(path, (began, began))
    watch.now += 900.0
    watch.pass_time(10.0)
    view = watch.keeper.view(KEY, watch.now)
    assert view.running_seconds == pytest.approx(850.0, abs=6.0)


def test_a_log_that_grows_does_so_whatever_its_servers_clock_says(watch: Watch) -> None:
    path = watch.folder / "app-1.inprogress"
    watch.write([*lines.opening(), lines.started(), lines.job(0, lines.BASE + 0.5)])
    watch.pass_time(10.0)
    watch.write([lines.progress(0)])
    os.utime(path, (watch.now - 900.0, watch.now - 900.0))
    watch.pass_time(60.0)
    assert watch.completed == 1
    assert watch.up
    watch.pass_time(event_log.QUIET_SECONDS)
    assert not watch.up


@pytest.mark.parametrize("restarted", [True, False])
def test_what_a_compacted_file_repeats_is_counted_once(watch: Watch, *, restarted: bool) -> None:
    content = lines.whole()
    folder = watch.folder / "eventlog_v2_app-1"
    folder.mkdir()
    watch.write(content[:17], "eventlog_v2_app-1/events_1_app-1")
    watch.pass_time(10.0)
    counted = watch.completed
    assert counted > 1
    watch.delete("eventlog_v2_app-1/events_1_app-1")
    watch.write(content[:26], "eventlog_v2_app-1/events_2_app-1.compact")
    watch.write(content[26:], "eventlog_v2_app-1/events_3_app-1")
    if restarted:
        watch.follow_anew()
    watch.pass_time(10.0)
    assert watch.completed == 8
    assert watch.keeper.view(KEY, watch.now).totals.checkpoints.get("replayed", 0) == 0


def test_a_deleted_log_is_let_go_of_at_once(watch: Watch) -> None:
    watch.write(MIDST)
    watch.pass_time(10.0)
    assert watch.up
    watch.delete()
    watch.pass_time(40.0)
    assert watch.followed == []
    assert not watch.up
    assert watch.logs.directories[0]._past == {}
    assert watch.logs.directories[0]._said == set()


@pytest.mark.parametrize("silent_seconds", [2 * LOST_SECONDS, 2 * DAY_SECONDS])
def test_a_log_that_grows_again_is_read_on_and_counted_once(
    watch: Watch, silent_seconds: float
) -> None:
    content = lines.whole(4)
    watch.write(content[:-8])
    watch.pass_time(10.0)
    before = watch.completed
    assert before > 0
    watch.pass_time(silent_seconds, step=300.0)
    assert watch.followed == []
    watch.write(content[-8:-2])
    watch.pass_time(120.0)
    assert watch.followed == ["app-1"]
    assert watch.up
    assert watch.completed == 4
    watch.write(content[-2:])
    watch.pass_time(10.0)
    assert watch.completed == 4
    watch.pass_time(120.0)
    assert watch.followed == [], "it has ended"


def test_a_log_too_old_when_first_seen_is_followed_once_it_grows(watch: Watch) -> None:
    watch.write(MIDST)
    watch.now += 2 * LOST_SECONDS
    watch.pass_time(120.0)
    assert (watch.followed, watch.completed) == ([], 0)
    watch.write(lines.whole(4)[-4:-2])
    watch.pass_time(120.0)
    assert (watch.followed, watch.completed) == (["app-1"], 4)


def test_a_directory_out_of_reach_drops_nothing(watch: Watch) -> None:
    watch.write(MIDST)
    watch.pass_time(10.0)
    away = watch.folder.with_name("away")
    watch.folder.rename(away)
    watch.pass_time(100.0)
    assert watch.followed == ["app-1"]
    away.rename(watch.folder)
    watch.write(lines.whole(4)[-4:-2])
    watch.pass_time(10.0)
    assert watch.up
    assert watch.completed == 4


def test_killed_drivers_do_not_keep_others_waiting(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_logs, "MOST_LOGS", 3)
    for number in range(1, 4):
        watch.write(MIDST, f"app-{number}.inprogress")
    watch.pass_time(10.0)
    watch.write(lines.whole(2)[:-2], "app-9.inprogress")
    watch.pass_time(60.0)
    assert "app-9" not in watch.followed
    watch.pass_time(LOST_SECONDS - 60.0, step=30.0)
    watch.write([lines.progress(2)], "app-9.inprogress")
    watch.pass_time(60.0)
    assert watch.followed == ["app-9"]


def restart_later(watch: Watch, seconds: float) -> None:
    """A new agent on the same state, whose clock ticks before it looks at any log."""
    watch.now += seconds
    store = Store(None)
    store.write(list(watch.keeper._store.load()))
    watch.keeper = Keeper(Policy(), store, started_time=watch.now)
    watch.keeper.tick(watch.now)
    watch.follow_anew()


def test_the_run_that_began_last_is_the_present_one_in_whatever_order_logs_are_read(
    watch: Watch,
) -> None:
    """The one before it was heard for a moment more, and its log's name comes later."""
    last_word = lines.progress(8, seconds=3.0, run=lines.run_of(1))
    watch.write(lines.killed(2), "a.inprogress")
    watch.write([*lines.killed(1), last_word], "b.inprogress")
    watch.pass_time(10.0)
    watch.write([lines.progress(9, run=lines.run_of(2))], "a.inprogress")
    watch.pass_time(60.0)
    view = watch.keeper.view(KEY, watch.now)
    assert (view.run_id, view.batch_id, view.up) == (lines.run_of(2), 9, True)


def test_drivers_killed_one_after_the_other_do_not_begin_again(watch: Watch) -> None:
    """However many: each may hang in its batch, as far as its own log tells."""
    watch.now += 200.0
    for attempt in range(1, 12):
        watch.write(lines.killed(attempt), f"app-{attempt}.inprogress")
    for _ in range(2):
        watch.pass_time(30.0)
        view = watch.keeper.view(KEY, watch.now)
        assert (view.run_id, view.running_batch_id, view.up) == (lines.run_of(11), 45, True)
        restart_later(watch, 10.0)


@pytest.mark.parametrize("growing", [True, False])
def test_a_log_is_counted_once_by_an_agent_that_was_off_for_days(
    watch: Watch, *, growing: bool
) -> None:
    content = lines.whole(6)
    watch.write(content[:-6])
    watch.pass_time(10.0)
    assert watch.completed == 5
    if not growing:  # for a day of the agent before this one either
        watch.pass_time(2 * DAY_SECONDS, step=600.0)
    restart_later(watch, 2 * DAY_SECONDS)
    if not growing:
        watch.pass_time(2 * LOST_SECONDS, step=60.0)
    watch.write(content[-6:])
    watch.pass_time(120.0)
    assert watch.completed == 6
    assert watch.keeper.view(KEY, watch.now).totals.checkpoints.get("replayed", 0) == 0


def test_a_directory_out_of_reach_for_days_loses_no_place(watch: Watch) -> None:
    content = lines.whole(6)
    watch.write(content[:-6])
    watch.pass_time(2 * DAY_SECONDS, step=600.0)
    away = watch.folder.with_name("away")
    watch.folder.rename(away)
    watch.pass_time(2 * DAY_SECONDS, step=600.0)
    away.rename(watch.folder)
    watch.follow_anew()
    watch.pass_time(120.0)
    watch.write(content[-6:])
    watch.pass_time(120.0)
    assert watch.completed == 6


@pytest.mark.parametrize("how", ["deleted", "ended"])
def test_the_place_in_a_log_that_cannot_grow_is_forgotten_after_a_day(
    watch: Watch, how: str
) -> None:
    content = lines.whole(4)
    watch.write(content if how == "ended" else content[:-6])
    watch.pass_time(10.0)
    instance = event_logs.INSTANCE + "app-1"
    assert watch.keeper.fleet.counted(instance) > 0
    if how == "deleted":
        watch.pass_time(3 * DAY_SECONDS, step=600.0)
        assert watch.keeper.fleet.counted(instance) > 0
        watch.delete()
    watch.pass_time(DAY_SECONDS - 3600.0, step=600.0)
    assert watch.keeper.fleet.counted(instance) > 0
    watch.pass_time(2 * 3600.0, step=600.0)
    assert watch.keeper.fleet.counted(instance) == 0
    assert not [one for one in watch.keeper._store.load() if instance in one.part]


#: The same of another application.
OTHERS = [
    one.replace(b"orders", b"others").replace(b"app-1", b"app-2").replace(b"957ee74f", b"12345678")
    for one in MIDST
]


def test_a_log_whose_name_is_no_text_is_followed_as_any_other(watch: Watch) -> None:
    odd = [os.fsdecode(b"app-\xff"), os.fsdecode(b"app-\xfe")]
    own = "11111111-2222-4333-8444-555555555555"
    watch.write([one.replace(lines.RUN.encode(), own.encode()) for one in MIDST], odd[0])
    watch.write(lines.opening(), odd[1])
    watch.write(OTHERS, "app-2")
    watch.pass_time(10.0)
    assert len(watch.followed) == 3
    assert watch.completed == 6
    watch.pass_time(60.0)
    for application in ("orders", "others"):
        assert watch.keeper.view((application, "enrich"), watch.now).up
    restart_later(watch, 10.0)
    watch.pass_time(10.0)
    assert watch.completed == 6


def test_trouble_with_one_log_is_its_own(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    watch.write(MIDST, "app-1")
    watch.write(OTHERS, "app-2")
    real, tried = Keeper.receive, []

    def failing(self: Keeper, request: Request, now: float) -> Receipt:
        if request.listener.instance.endswith("app-1"):
            tried.append(now)
            raise ZeroDivisionError
        return real(self, request, now)

    monkeypatch.setattr(Keeper, "receive", failing)
    watch.pass_time(300.0)
    assert watch.completed == 3
    assert watch.keeper.view(("others", "enrich"), watch.now).up
    assert 4 <= len(tried) <= 6, "a look a minute"
    monkeypatch.setattr(Keeper, "receive", real)
    watch.pass_time(120.0)
    assert watch.completed == 6


def slow(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, seconds: float, names: Collection[str]
) -> list[float]:
    """Of these logs a step takes so long, some 65 kB; the moments at which one ended."""
    read, moments = Follower.next_request, []

    def slowly(self: Follower, now: float | None = None) -> Request | None:
        if self.log.name in names:
            watch.now += seconds
            watch.keeper.tick(watch.now)  # as it is all the while
            moments.append(watch.now)
        return read(self, now)

    monkeypatch.setattr(event_log, "STEP_BYTES", 1024)
    monkeypatch.setattr(Follower, "next_request", slowly)
    return moments


def test_a_long_log_keeps_no_other_waiting_and_lives_meanwhile(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its batch's many tasks some 30 kB are read in two seconds."""
    slow(watch, monkeypatch, 2.0, ["app-1"])
    watch.write([*MIDST, *[lines.task()] * 12_000, lines.progress(3)])
    watch.write(OTHERS, "app-2")
    watch.pass_time(25.0, step=1.0)
    watch.write([lines.progress(3).replace(b"957ee74f", b"12345678")], "app-2")
    watch.pass_time(8.0, step=1.0)
    view, other = (watch.keeper.view((name, "enrich"), watch.now) for name in ("orders", "others"))
    assert (view.batch_id, other.batch_id) == (2, 3)
    assert (view.up, other.up) == (True, True)
    assert view.running_seconds is None, "where it is read a batch runs, which has ended since"
    watch.pass_time(60.0, step=1.0)
    assert watch.keeper.view(KEY, watch.now).batch_id == 3


@pytest.mark.parametrize("silent_seconds", [0.0, 400.0, 4_000.0])
def test_whoever_ran_last_lives_while_a_long_log_is_read_anew(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, silent_seconds: float
) -> None:
    """However far back the run stands that is read; in a batch the log may be silent for long."""
    again = lines.run_of(2)
    first = [*MIDST, lines.progress(3), lines.terminated()]
    second = [lines.started(again), lines.progress(4, run=again), lines.job(5, BATCH_5, again)]
    watch.write([*first, *[lines.task()] * 30_000, *second])
    watch.pass_time(20.0)
    assert watch.keeper.view(KEY, watch.now).run_id == again
    watch.now += silent_seconds
    watch.keeper.tick(watch.now)
    watch.follow_anew()
    moments = slow(watch, monkeypatch, 2.0, ["app-1"])
    watch.pass_time(25.0, step=1.0)
    assert watch.now - moments[-1] < 2.0, "it is being read still"
    assert watch.up is (silent_seconds < LOST_SECONDS)


def test_many_long_logs_keep_no_other_silent(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    watch.write(OTHERS, "app-2")
    long = [f"long-{number}" for number in range(8)]
    for name in long:
        watch.write([lines.task()] * 30_000, name)
    moments = slow(watch, monkeypatch, 2.0, long)
    watch.pass_time(20.0, step=1.0)
    gone = set()
    view = watch.keeper.fleet.view
    tick = Keeper.tick

    def ticking(self: Keeper, now: float) -> None:
        tick(self, now)
        if not view(("others", "enrich"), now).up:
            gone.add(now)

    monkeypatch.setattr(Keeper, "tick", ticking)
    watch.pass_time(60.0, step=1.0)
    assert watch.now - moments[-1] < 3.0, "they are being read still"
    assert gone == set()


def test_beside_a_slow_log_others_tell_the_batch_that_runs(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.write([lines.task()] * 60_000, "app-1")
    watch.write(OTHERS, "app-2")
    slow(watch, monkeypatch, 6.0, ["app-1"])
    watch.pass_time(100.0, step=1.0)
    for batch in (4, 5, 6):
        said = [lines.progress(batch - 1), lines.job(batch, watch.now)]
        watch.write([one.replace(b"957ee74f", b"12345678") for one in said], "app-2")
        watch.pass_time(1.0, step=1.0)
        assert watch.keeper.view(("others", "enrich"), watch.now).running_batch_id == batch


def test_a_step_of_a_log_that_rolls_costs_the_same_however_many_queries_there_are(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted: how many queries are looked at in a look at the log, of few steps and of many."""
    looked = 0
    queries = Roster.__iter__

    def counting(roster: Roster) -> Iterator[Query]:
        nonlocal looked
        for query in queries(roster):
            looked += 1
            yield query

    rolling = watch.folder / "eventlog_v2_app-1"
    rolling.mkdir()
    others = [
        lines.started(f"r-{number}", query=f"q-{number}").replace(b"enrich", b"other-%d" % number)
        for number in range(50)
    ]
    watch.write([*lines.opening(), *others, lines.started()], f"{rolling.name}/events_1_app-1")
    watch.pass_time(10.0)
    monkeypatch.setattr(Roster, "__iter__", counting)
    monkeypatch.setattr(event_log, "STEP_BYTES", 4000)
    costs = []
    for batches in (range(1), range(1, 41)):
        watch.write([lines.progress(batch) for batch in batches], f"{rolling.name}/events_1_app-1")
        before, looked = watch.completed, 0
        asyncio.run(watch.logs.poll())
        assert watch.completed - before == len(batches)
        costs.append(looked)
    assert costs[1] == costs[0]


def looks_that_take(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, *, first: float, others: float
) -> list[float]:
    """So many seconds each, into the directories; when each began."""
    looks: list[float] = []

    def slow(directory: Path) -> list[event_log.Log]:
        looks.append(watch.now)
        watch.now += first if len(looks) == 1 else others
        return event_log.find_logs(directory)

    monkeypatch.setattr(event_logs, "find_logs", slow)
    return looks


def test_a_directory_of_very_many_logs_takes_a_twentieth_of_the_time_to_look_into(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = looks_that_take(watch, monkeypatch, first=2.0, others=2.0)
    watch.pass_time(400.0, step=1.0)
    assert 9 <= len(looks) <= 11


def test_a_look_into_directories_that_hung_keeps_new_logs_unseen_for_a_minute_more(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = looks_that_take(watch, monkeypatch, first=600.0, others=0.0)
    watch.pass_time(700.0, step=1.0)
    assert looks[1] - looks[0] == pytest.approx(660.0, abs=2.0)


def test_a_driver_has_its_pulse_while_very_many_old_logs_are_asked_for_what_is_new(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is on a disk that takes a tenth of a second to answer: 30 s for all."""
    pulses: list[float] = []
    hear = watch.keeper.receive

    def heard(request: Request, now: float, *more: float) -> Receipt:
        if request.listener.instance.startswith(event_log.PULSE):
            pulses.append(now)
        return hear(request, now, *more)

    def slow(log: event_log.Log) -> float:
        watch.now += 0.1
        return event_log.newest_time(log)

    monkeypatch.setattr(event_logs, "newest_time", slow)
    monkeypatch.setattr(watch.keeper, "receive", heard)
    watch.write(MIDST)
    for number in range(300):
        watch.write(MIDST, f"app-old-{number}")
        os.utime(watch.folder / f"app-old-{number}", (watch.now - DAY_SECONDS,) * 2)
    watch.pass_time(200.0, step=1.0)
    assert watch.followed == ["app-1"]
    apart = [after - before for before, after in itertools.pairwise(pulses)]
    assert max(apart) < 10.0
    assert watch.up
    os.utime(watch.folder / "app-old-299", (watch.now, watch.now))
    watch.pass_time(event_logs.LOOK_AGAIN_SECONDS + 40.0, step=1.0)
    assert watch.followed == ["app-1", "app-old-299"]
