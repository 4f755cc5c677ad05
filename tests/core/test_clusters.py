"""Clusters: what the queries of an application need together, and what its driver is told."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet, Order, Receipt
from agent.core.policy import Policy, QueryPolicy, Rule
from tests.core.events import START_TIME, Driver

ON: dict[str, Any] = {"executors": "on", "maximum_executors": 8, "executors_quiet_seconds": 60.0}
#: Rows that one slot digests in a second.
PER_SLOT = 100.0


class World:
    """A fleet, one driver, and a cluster of executors of one slot each."""

    def __init__(self, *rules: Rule, note: str = "", **policy: Any) -> None:
        default = QueryPolicy(target_seconds=10.0, **{**ON, **policy})
        self.fleet = Fleet(Policy(default=default, rules=rules), started_time=START_TIME - 1000)
        self.driver = Driver()
        self.present = 2
        self.configured: int | None = 2
        self.asked: int | None = None
        self.note = note
        self.behind_seconds = 0.0  # the driver's clock
        self.sink = False  # behind all tasks, and no faster for more of them than it is for two
        self.backlog: int | None = 0  # as its source tells it

    def send(self, *events: dict[str, Any]) -> Receipt:
        now = self.driver.time + self.behind_seconds + 0.05
        return self.fleet.receive(decode_request(self.driver.body(*events)), now)

    def heartbeat(self, running_seconds: float | None = None) -> Receipt:
        told: dict[str, Any] = {"present": self.present, "slots": self.present, "note": self.note}
        if self.asked is not None:
            told["asked"] = self.asked
        if self.configured is not None:
            told["configured"] = self.configured
        batch_id = None if running_seconds is None else self.driver.batch_id + 1
        ids = {**self.driver.ids(), "batchId": batch_id, "running_seconds": running_seconds}
        body = {"queries": [ids], "executors": told}
        return self.send(self.driver.event("heartbeat", body))

    def rest(self, seconds: float) -> Receipt:
        """No batch, as nothing comes; a heartbeat every five seconds."""
        for _ in range(round(seconds / 5)):
            self.driver.time += 5
            self.send(self.driver.idle())
            receipt = self.heartbeat()
            if receipt.executors is not None:
                self.asked = receipt.executors.wanted
                self.present = self.present if self.asked is None else self.asked
        return receipt

    def batch(
        self,
        arriving: float,
        *,
        steady: bool = True,
        looked_at: bool = True,
        slots: int | None = None,
        every_seconds: float = 10.0,
    ) -> Receipt:
        """One every ten seconds, of all that came in them."""
        slots = slots or self.present
        rows = round(arriving * every_seconds)
        work = rows / PER_SLOT
        work *= slots / 2 if self.sink else 1
        seconds = math.ceil(24 / slots) * work / 24
        stage = {
            "tasks": 24,
            "task_seconds": work,
            "longest_seconds": work / 24,
            "begin_seconds": 0.0,
            "seconds": seconds,
        }
        gap = max(every_seconds - seconds, 0.0)
        event = self.driver.progress(rows, seconds, backlog=self.backlog, gap=gap)
        stages = [stage] if steady and looked_at else []
        event["work"] = {"slots": slots, "steady": steady, "stages": stages}
        return self.send(event)

    def heartbeat_of_none(self) -> Receipt:
        """The application lives on without a query."""
        told = {"present": self.present, "slots": self.present, "asked": self.asked}
        told["configured"] = self.configured
        return self.send(self.driver.event("heartbeat", {"queries": [], "executors": told}))

    def run(self, arriving: float, batches: int = 8) -> Receipt:
        """The cluster does what it is told, two batches later."""
        receipt = self.heartbeat()
        for number in range(batches):
            receipt = self.batch(arriving)
            if receipt.executors is not None and number % 2:
                self.asked = receipt.executors.wanted
                self.present = self.present if self.asked is None else self.asked
                receipt = self.heartbeat()
        return receipt

    @property
    def slots(self) -> int:
        """What the query itself needs."""
        need = self.fleet._roster["shop", "orders"].sizing.need
        assert need is not None
        return need.slots

    @property
    def view(self) -> Any:
        return self.fleet.view(("shop", "orders"), self.driver.time).executors


def wanted(receipt: Receipt) -> int | None:
    assert receipt.executors is not None
    return receipt.executors.wanted


def test_a_load_gets_what_it_needs_and_gives_it_back() -> None:
    world = World()
    assert world.run(100.0).executors is None  # it has what it needs
    assert world.view.wanted == 2
    assert wanted(world.run(300.0)) == 4
    assert world.view.present == 4
    assert wanted(world.run(90.0, 20)) == 2


def test_what_a_query_needs_is_not_known_while_its_trigger_is_not() -> None:
    """One that starts a batch a minute needs fewer than one that must end each in ten seconds."""
    world = World()
    world.driver.tells_trigger = False
    assert world.run(300.0).executors is None
    assert world.view.wanted is None
    world.send(world.driver.started())
    assert wanted(world.run(300.0)) == 4


def test_a_query_that_gets_nothing_more_gives_all_back_but_one() -> None:
    """No batch says so, as there is none."""
    world = World()
    world.run(300.0)
    assert world.present == 4
    world.rest(50)
    assert world.present == 4  # the quiet time is a minute
    world.rest(600)
    assert (world.present, world.view.bound) == (1, "enough")


def test_a_pause_between_two_triggers_gives_nothing_back_where_no_backlog_is_told() -> None:
    """What came in the last batch comes again; only a trigger that finds nothing says otherwise."""
    world = World()
    world.backlog = None
    assert wanted(world.run(300.0)) == 4
    slots = world.slots
    for _ in range(120):  # ten quiet times
        world.driver.time += 5
        assert wanted(world.heartbeat()) == 4
        assert world.slots == slots
    world.rest(600)
    assert (world.present, world.slots) == (1, 1)


def test_a_restart_needs_what_was_needed_before_it() -> None:
    """Nobody has told yet what waits."""
    world = World()
    world.run(300.0)
    slots = world.slots
    assert slots > 1
    world.send(world.driver.terminated())
    world.driver.run_id = "r-2"
    world.send(world.driver.started())
    world.heartbeat()
    assert world.slots == slots


@pytest.mark.parametrize("trigger", ["RealTimeTrigger(300000)", "ContinuousTrigger(1000)"])
@pytest.mark.parametrize(("arriving", "asked"), [(300.0, 4), (40.0, 1)])
def test_a_query_whose_tasks_stay_has_what_the_job_has_without_weir(
    trigger: str, arriving: float, asked: int
) -> None:
    """What fewer would do nobody knows, and Spark may end it where they are too few."""
    world = World()
    world.run(arriving, 20)
    assert world.asked == asked
    learned = world.view.task_seconds
    world.driver.run_id = "r-2"
    world.send(world.driver.started(trigger=trigger, control="none"))
    assert wanted(world.heartbeat()) is None
    world.asked, world.present = None, 2
    for _ in range(20):
        world.driver.time += 30.0
        assert world.heartbeat(1.0).executors is None
        assert world.batch(arriving / 10.0).executors is None
    assert world.view.task_seconds == learned
    assert "real-time mode" in world.view.note
    assert world.view.mode == "dry-run"
    world.driver.run_id = "r-3"
    world.send(world.driver.started(trigger="ProcessingTimeTrigger(0)"))
    world.run(arriving, 20)
    assert world.asked == asked


def an_hour_about(time: float) -> tuple[int, int]:
    """Before it and after it, in minutes of the day."""
    minute = int(time % 86_400 // 60)
    return (minute - 60) % 1_440, (minute + 60) % 1_440


@pytest.mark.parametrize("whose", ["the agent's", "the driver's"])
def test_quiet_hours_are_of_the_agents_clock(whose: str) -> None:
    """Drivers' clocks differ, and each of an application's queries may count by another."""
    behind = 8 * 3_600.0
    clock = START_TIME + (behind if whose == "the agent's" else 0.0)
    world = World(executors_quiet_hours=(an_hour_about(clock),))
    world.behind_seconds = behind
    receipt = world.run(400.0, 12)
    wanted = None if receipt.executors is None else receipt.executors.wanted
    assert (wanted in (None, 2)) is (whose == "the agent's")


@pytest.mark.parametrize("whose", ["the machine's", "the agent's"])
def test_quiet_hours_follow_a_machine_whose_clock_is_corrected(whose: str) -> None:
    """The agent's own clock is never set; and what it learned of it outlives a failed write."""
    off_seconds = 8 * 3_600.0
    clock = START_TIME + (off_seconds if whose == "the machine's" else 0.0)
    world = World(executors_quiet_hours=(an_hour_about(clock),))
    world.fleet.tick(START_TIME, off_seconds)
    put_back = Fleet(world.fleet._policy, started_time=START_TIME - 1000)
    put_back.follow(world.fleet)
    world.fleet = put_back
    receipt = world.run(400.0, 12)
    wanted = None if receipt.executors is None else receipt.executors.wanted
    assert (wanted in (None, 2)) is (whose == "the machine's")


def test_no_quiet_time_goes_by_while_a_batch_runs() -> None:
    """It may be one that needs them all: its end will say."""
    world = World()
    world.run(300.0)
    world.batch(90.0)
    for second in range(5, 600, 5):
        world.driver.time += 5
        assert wanted(world.heartbeat(running_seconds=float(second))) == 4
    world.driver.time += 5
    world.heartbeat()
    assert world.view.wanted == 4
    for _ in range(12):  # a batch of less than two targets keeps nothing from going
        world.heartbeat(running_seconds=19.0)
        world.batch(90.0)
    assert world.view.wanted == 2


@pytest.mark.parametrize("note", ["spark.dynamicAllocation.enabled is on", ""])
def test_what_spark_itself_adds_is_not_the_jobs_own(note: str) -> None:
    """Where its dynamic allocation, or a log, has more and more, the need is told all the same."""
    world = World(note=note)
    world.configured = None if note else 2
    world.asked = None if note else 2
    for present in (2, 3, 5, 8, 12):
        world.present = present
        world.heartbeat()
        for _ in range(3):
            world.batch(150.0)
    assert world.view.wanted == 2


def test_the_first_word_takes_nothing_away_from_a_job_that_comes_up() -> None:
    """Ten are its own; two are there when it has its first batches."""
    world = World(executors_quiet_seconds=300.0)
    world.configured = 10
    for present in (2, 3, 4, 6):
        world.present = present
        world.heartbeat()
        assert world.batch(100.0).executors is None
    for _ in range(10):  # and its cluster has no more
        assert world.batch(100.0).executors is None
    while (receipt := world.batch(100.0)).executors is None:
        world.heartbeat()
    assert world.driver.time - START_TIME > 300
    assert wanted(receipt) == 2  # not needed for the quiet time


def test_of_a_job_that_does_not_say_how_many_it_has_nothing_is_asked_while_they_come() -> None:
    world = World(executors_quiet_seconds=0.0)
    world.configured = None  # the driver does not know yet
    for present in (1, 2, 3, 4):
        world.present = present
        world.heartbeat()
        assert world.batch(100.0).executors is None
    world.configured = 4
    world.heartbeat()
    assert wanted(world.batch(100.0)) == 2


def test_a_restart_finds_the_executors_that_it_left() -> None:
    world = World()
    world.run(300.0)
    assert world.asked == 4
    world.send(world.driver.terminated())
    assert world.heartbeat_of_none().executors is None  # what was asked for stays
    world.driver.time += 30
    world.driver.run_id = "run-2"
    world.send(world.driver.started())
    assert wanted(world.heartbeat()) == 4
    world.send(world.driver.terminated())
    for _ in range(13):  # the quiet time is over, and nobody came back
        receipt = world.heartbeat_of_none()
        world.driver.time += 5
    assert wanted(receipt) is None


def test_a_query_of_which_nothing_is_known_lets_more_be_asked_for_and_nothing_given_back() -> None:
    world = World()
    world.run(300.0)
    assert world.present == 4
    first = world.driver.ids()
    running = {"id": "q-2", "runId": "r-2", "name": "other", "batchId": 0, "running_seconds": 9.0}

    def beat() -> Receipt:
        told = {"present": world.present, "slots": world.present, "asked": 4, "configured": 2}
        queries = [{**first, "batchId": None, "running_seconds": None}, running]
        return world.send(world.driver.event("heartbeat", {"queries": queries, "executors": told}))

    for _ in range(12):
        beat()
        world.batch(90.0)
    assert world.view.wanted == 4
    for _ in range(4):
        beat()
        world.batch(520.0)
    assert world.view.wanted > 4
    running |= {"batchId": None, "running_seconds": None}  # it has nothing to do, and never had
    for _ in range(12):
        beat()
        world.batch(90.0)
    assert world.view.wanted == 2


class WithAnother(World):
    """Beside ``orders``, which needs two, a query whose stages nobody can tell."""

    def __init__(self, **policy: Any) -> None:
        super().__init__(maximum_executors=12, executors_quiet_seconds=300.0, **policy)
        self.configured = self.present = 10
        self.other = Driver(query="other", query_id="q-2", run_id="r-2")

    def as_other(self, event: dict[str, Any]) -> None:
        self.other.sequence = self.driver.sequence
        self.send({**event, "sequence": self.driver.sequence + 1})
        self.driver.sequence += 1

    def other_ended(self) -> None:
        """Two minutes of work."""
        self.other.time = self.driver.time - 120.0
        self.as_other(self.other.progress(100_000, 120.0, backlog=None))

    def beat(self, *, orders: bool = True, other_seconds: float | None = None) -> None:
        told = {"present": self.present, "slots": self.present, "configured": self.configured}
        told["asked"] = self.asked
        batch = None if other_seconds is None else self.other.batch_id + 1
        other = {**self.other.ids(), "batchId": batch, "running_seconds": other_seconds}
        first = {**self.driver.ids(), "batchId": None, "running_seconds": None}
        body = {"queries": [first, other] if orders else [other], "executors": told}
        receipt = self.send(self.driver.event("heartbeat", body))
        if receipt.executors is not None:
            self.asked = receipt.executors.wanted
            self.present = self.configured or 0 if self.asked is None else self.asked

    def cycles(self, count: int) -> None:
        """Of ten minutes, in the first two of which the other one works."""
        for _ in range(count):
            for number in range(60):
                if number == 12:
                    self.other_ended()
                self.beat(other_seconds=10.0 * number + 1.0 if number < 12 else None)
                self.batch(100.0)


def test_a_query_whose_need_stays_unknown_keeps_the_jobs_own_executors() -> None:
    """Also while it rests: it works again, and nobody knows on how many it keeps up."""
    world = WithAnother()
    world.cycles(3)
    assert world.present == 10
    assert world.view.wanted == 10


def test_the_jobs_own_number_comes_back_where_need_stays_unknown() -> None:
    """It was left with few by an agent before, or by a query that has ended."""
    world = WithAnother()
    world.asked = world.present = 2
    world.beat()
    world.other_ended()
    for _ in range(58):
        world.driver.time += 5
        world.beat()
    assert world.present == 2, "what is not known yet may be soon"
    for _ in range(4):
        world.driver.time += 5
        world.beat(orders=False, other_seconds=60.0)
    assert world.present == 10


@pytest.mark.parametrize("told_again", [False, True])
def test_the_jobs_own_number_comes_back_where_stages_are_told_no_more(told_again: bool) -> None:
    """By night a batch has few jobs, by day more than are told: what was needed says nothing."""
    world = World(executors_quiet_seconds=200.0)
    world.configured = world.present = 6
    world.run(50.0, 60)
    assert world.present == 1
    for number in range(20):  # of half a minute each
        world.batch(300.0, steady=told_again and number % 5 == 0)
        receipt = world.heartbeat()
        world.asked = receipt.executors.wanted if receipt.executors else world.asked
    assert (world.asked, told_again) in ((6, False), (2, True))


@pytest.mark.parametrize("looks", [5, 40])
def test_that_most_batches_are_not_looked_at_gives_nothing_back(looks: int) -> None:
    """A driver looks every five seconds, or every thirty where it finds none, and says so."""
    world = World(executors_quiet_seconds=0.0)
    world.configured = world.present = 6
    world.run(50.0, 20)
    assert world.present == 1
    for second in range(160):
        world.batch(50.0, looked_at=second % looks == 0, every_seconds=1.0)
        receipt = world.heartbeat()
        assert receipt.executors is not None
        assert receipt.executors.wanted == 1, second


def test_one_batch_of_which_no_stage_is_told_may_be_the_one_in_which_executors_came() -> None:
    world = World(executors_quiet_seconds=300.0)
    world.configured = world.present = 6
    world.run(50.0, 60)
    assert world.present == 1
    for number in range(12):  # one in ten minutes
        world.driver.time += 600.0
        world.batch(50.0, steady=number % 2 == 0)
        receipt = world.heartbeat()
        assert receipt.executors is not None
        assert receipt.executors.wanted == 1


def test_a_maximum_that_was_lowered_holds_for_what_was_asked_for_before() -> None:
    """Of a query of which nothing is known yet, and in hours without another number."""
    world = World(maximum_executors=8, executors_quiet_hours=((0, 1440),))
    world.asked = world.present = 12
    assert wanted(world.heartbeat()) == 8
    assert world.view.wanted == 8
    world = World(maximum_executors=8)
    world.configured, world.asked, world.present = 9, 12, 12
    assert wanted(world.heartbeat()) == 9  # the job's own


def test_what_would_be_wanted_is_given_back_no_sooner_where_it_is_not_asked_for() -> None:
    """As if it had come: what has not is taken back sooner."""
    world = World(executors="dry-run", executors_quiet_seconds=300.0)
    world.run(300.0)
    most = world.view.wanted
    assert most > world.present
    for _ in range(10):
        world.heartbeat()
        world.batch(90.0)
    assert world.view.wanted == most


def test_executors_go_also_where_no_batch_can_keep_the_target() -> None:
    """Four targets of driver's time in each batch: one that takes as long as all is not late."""
    world = World(executors_quiet_seconds=30.0)
    assert wanted(world.run(300.0)) == 4
    stage = {"tasks": 24, "task_seconds": 2.4, "longest_seconds": 0.1, "seconds": 0.6}
    for _ in range(8):
        for second in range(5, 40, 5):
            world.driver.time += 5
            world.heartbeat(running_seconds=float(second))
        world.driver.time -= 35
        event = world.driver.progress(3000, 40.0, backlog=0, gap=0.0)
        work = {"slots": world.present, "steady": True, "stages": [{**stage, "begin_seconds": 0.0}]}
        world.send({**event, "work": work})
    assert (world.view.wanted, world.view.bound) == (1, "driver")


def test_nothing_is_said_unless_it_is_switched_on() -> None:
    for mode in ("off", "dry-run"):
        world = World(executors=mode)
        assert world.run(200.0).executors is None
        assert world.view.wanted == 3
        assert world.view.mode == mode


def test_where_it_is_switched_off_again_the_job_has_its_own_number() -> None:
    world = World()
    world.run(300.0)
    assert world.asked == 4
    order = Order(who="kim", mode="off")
    world.fleet.control("shop", "orders", order, world.driver.time)
    assert wanted(world.heartbeat()) is None
    world.asked = None
    assert world.heartbeat().executors is None


def test_the_most_cautious_query_holds_for_its_application() -> None:
    world = World(Rule(match="shop/archive", executors="off"))
    world.run(300.0)
    assert world.heartbeat().executors is not None
    world.driver.query, world.driver.query_id, world.driver.run_id = "archive", "q-2", "r-2"
    world.send(world.driver.started())
    assert wanted(world.heartbeat()) is None


def test_where_the_number_cannot_be_changed_it_is_only_told() -> None:
    world = World(note="a local master has no executors of its own")
    assert world.run(200.0).executors is None
    assert world.view.wanted == 3
    assert world.view.note.startswith("a local master")
    assert world.view.mode == "dry-run"  # beside dynamic allocation, too, no maximum is reached


def test_no_more_than_the_maximum_and_that_is_said() -> None:
    world = World(maximum_executors=3)
    assert wanted(world.run(900.0)) == 3
    assert world.view.bound == "maximum"


def test_a_new_agent_goes_on_from_what_was_asked_for() -> None:
    world = World()
    world.asked, world.present = 6, 6
    assert wanted(world.run(100.0, 4)) == 6
    assert wanted(world.run(100.0, 10)) == 2


def test_a_batch_while_executors_come_teaches_nothing() -> None:
    world = World()
    world.run(100.0)
    (key,) = world.fleet.keys()
    before = world.fleet.view(key, world.driver.time).throughput_rows_per_second
    world.batch(100.0, steady=False, slots=1)
    assert world.fleet.view(key, world.driver.time).throughput_rows_per_second == before


def test_what_more_slots_bring_is_expected_at_once() -> None:
    world = World(executors="off")
    world.heartbeat()
    for _ in range(8):
        world.batch(100.0)
    (key,) = world.fleet.keys()
    before = world.fleet.view(key, world.driver.time).throughput_rows_per_second
    world.present = 4
    world.heartbeat()
    world.batch(100.0)
    after = world.fleet.view(key, world.driver.time).throughput_rows_per_second
    assert before is not None
    assert after == pytest.approx(2 * before, rel=0.1)


def test_executors_of_several_slots_are_counted_as_such() -> None:
    world = World()
    world.run(100.0, 6)
    told = {"present": 1, "slots": 2, "configured": 1, "asked": 1}
    ids = {**world.driver.ids(), "batchId": None, "running_seconds": None}
    world.send(world.driver.event("heartbeat", {"queries": [ids], "executors": told}))
    for _ in range(3):
        receipt = world.batch(300.0, slots=2)
    assert wanted(receipt) == 2  # of two slots each


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"minimum_executors": 5, "maximum_executors": 4}, "4 is below minimum_executors 5"),
        ({"maximum_executors": None}, "on needs maximum_executors"),
    ],
)
def test_bounds_that_make_no_sense_ask_for_nothing_and_are_told(
    settings: dict[str, Any], words: str
) -> None:
    world = World(**settings)
    assert world.run(300.0).executors is None
    assert words in world.view.note
    assert world.view.mode == "dry-run"
    fixed = World(Rule(match="orders", minimum_executors=1, maximum_executors=4), **settings)
    assert wanted(fixed.run(300.0)) == 4
    assert fixed.view.note == ""
    # A slip of the pen takes nothing from a job that has more by then.
    world.asked = world.present = 7
    assert world.run(300.0).executors is None
    off = World(Rule(match="orders", executors="off"), **settings)
    off.run(300.0)
    assert (off.view.mode, off.view.note) == ("off", "")


def test_limits_know_what_is_left_when_an_executor_dies_and_when_another_comes() -> None:
    """While what came before is still judged, too."""
    world = World()
    world.heartbeat()
    for _ in range(8):
        world.batch(100.0)
    (key,) = world.fleet.keys()

    def throughput(present: int) -> float:
        world.present = present
        world.heartbeat()
        world.batch(100.0)
        found = world.fleet.view(key, world.driver.time).throughput_rows_per_second
        assert found is not None
        return found

    of_two = throughput(2)
    for present in (4, 2, 3, 2, 1, 2, 4):
        assert throughput(present) == pytest.approx(of_two * present / 2, rel=0.15)


def test_an_executor_that_goes_while_more_are_on_trial_breaks_nothing() -> None:
    """The first batch on fewer is one during which it went."""
    world = World()
    world.run(100.0, 6)
    for slots in (2, 6, 6, 5, 3, 4):
        world.present = slots
        world.heartbeat()
        for steady in (False, True, True):
            receipt = world.batch(300.0, steady=steady)
            assert receipt.refused == []
            assert receipt.accepted == 1
    query = world.fleet.view(("shop", "orders"), world.driver.time)
    assert query.executors.present == 4


def test_that_a_scaling_was_in_vain_is_said_once() -> None:
    """Those that stay, as nobody takes them back, are not in vain anew with each calm."""
    world = World()
    world.sink = True
    for arriving in (100.0, 260.0):
        for _ in range(10):
            world.heartbeat()
            world.batch(arriving)
    world.present = 8
    said = []
    for _ in range(40):
        world.heartbeat()
        world.batch(260.0)
        (query,) = world.fleet._roster
        assert query.sizing.need is not None
        said.append(query.sizing.need.in_vain_from)
    assert [one for one in said if one is not None] == [2]


def test_at_rest_all_go_also_after_a_scaling_in_vain() -> None:
    world = World(executors_quiet_seconds=120.0)
    world.sink = True
    world.run(100.0, 6)
    world.run(260.0, 40)
    assert world.view.in_vain is not None
    world.rest(600.0)
    assert world.view.wanted == 1


def test_a_trial_that_is_left_open_holds_no_longer_than_a_quiet_time() -> None:
    """As where executors come and go with each batch that is looked at."""
    world = World(executors_quiet_seconds=60.0)
    world.run(100.0, 6)
    for number in range(16):
        world.present = 3 + number % 2
        world.heartbeat()
        world.batch(600.0)
    assert world.view.wanted > 4


def test_a_scaling_that_brought_nothing_is_taken_back_and_said() -> None:
    world = World(executors_quiet_seconds=300.0)
    world.sink = True
    world.run(100.0, 6)
    assert world.view.in_vain is None
    said, asked = set(), []
    for _ in range(16):
        world.run(260.0, 5)
        said.add(world.view.bound)
        asked.append(world.view.wanted)
    assert said <= {"enough", "contention"}
    assert set(asked[:4]) == {3, 4}, "while the first ones are on trial no others are asked for"
    after = asked[asked.index(8) :]
    assert after[:4] == [8, 8, 8, 4], "those that came in vain go at once, and no more than those"
    assert after == sorted(after, reverse=True)
    assert world.view.bound == "contention"
    assert world.view.wanted == 2, "the job's own: what fewer would digest nobody has seen"
    found = world.view.in_vain
    assert found is not None
    assert found.before < found.slots
    assert found.rows_ratio == pytest.approx(1.0, abs=0.2)
    free = World()
    free.run(100.0, 6)
    free.run(260.0, 60)
    assert free.view.wanted > 2
    assert free.view.in_vain is None


class TestManyQueriesOfOneApplication:
    """What is asked of all of them is asked once, not once for each."""

    def world(self, count: int) -> World:
        world = World()
        world.run(200.0)
        for number in range(count - 1):
            ids = (f"other-{number}", f"q-{number + 2}", f"r-{number + 2}")
            world.driver.query, world.driver.query_id, world.driver.run_id = ids
            world.driver.batch_id = -1
            world.send(world.driver.started())
        return world

    def test_views(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world, asked = self.world(30), []
        roster = world.fleet._roster
        of_all = roster.of_application
        monkeypatch.setattr(roster, "of_application", lambda one: asked.append(one) or of_all(one))
        told = [view.executors for view in world.fleet.views(world.driver.time)]
        assert len(told) == 30
        assert {one.mode for one in told} == {"on"}
        assert len(asked) <= 1

    @pytest.mark.parametrize(("gap", "again"), [(0.6, False), (1.0, True)])
    def test_needs(self, monkeypatch: pytest.MonkeyPatch, gap: float, again: bool) -> None:
        world, added = self.world(2), []
        clusters = world.fleet._clusters
        of_all = clusters._live
        key = ("shop", "orders")
        cluster = world.fleet._roster[key].cluster
        clusters.see(cluster, 1000.0)
        monkeypatch.setattr(clusters, "_live", lambda one: added.append(one) or of_all(one))
        clusters.see(cluster, 1000.0 + gap)
        assert bool(added) is again

    @pytest.mark.parametrize(("gap", "again"), [(0.6, False), (1.0, True)])
    def test_rest(self, monkeypatch: pytest.MonkeyPatch, gap: float, again: bool) -> None:
        """Each of many that idle says so."""
        world, asked = self.world(2), []
        clusters = world.fleet._clusters
        of_all = clusters._live
        cluster = world.fleet._roster[("shop", "orders")].cluster
        clusters.look(cluster, 1000.0)
        monkeypatch.setattr(clusters, "_live", lambda one: asked.append(one) or of_all(one))
        clusters.look(cluster, 1000.0 + gap)
        assert bool(asked) is again


def test_where_executors_come_and_go_with_each_batch_they_tell_what_it_costs() -> None:
    """Dynamic allocation under a trigger of minutes: none ends on as many as the last one did."""
    world = World(executors="off")
    cost = world.fleet._roster  # filled by the first batch
    for number in range(3):
        world.batch(100.0, steady=number == 0, slots=2 + number)
    assert cost["shop", "orders"].sizing.cost.batches == 1  # a change that is under way
    for number in range(40):
        world.batch(100.0, steady=False, slots=2 + number % 3)
    world.batch(100.0, steady=False, slots=7)
    assert cost["shop", "orders"].sizing.cost.batches > 30
    assert cost["shop", "orders"].sizing.work.slots == 7


@pytest.mark.parametrize("begins", ["empty", "replayed", "found"])
def test_a_query_that_never_had_a_steady_batch_is_heard_and_learned_of(begins: str) -> None:
    """Its first batch with rows is held against nothing: nobody knows yet what one costs."""
    world = World(executors="off")
    if begins == "empty":
        world.batch(0.0)
    elif begins == "replayed":
        world.heartbeat(running_seconds=1.0)
        world.send(world.driver.terminated("killed"))
        world.driver.run_id = "r-2"
        world.batch(100.0)
    for number in range(40):
        receipt = world.batch(100.0, steady=False, slots=2 + number % 2)
        assert receipt.accepted == 1
    query = world.fleet._roster["shop", "orders"]
    assert query.totals.replayed_rows == (1000 if begins == "replayed" else 0)
    assert query.totals.rows == 40_000 + query.totals.replayed_rows
    assert query.sizing.cost.batches > 30


@pytest.mark.parametrize(
    ("policy", "note", "learned"),
    [
        ({}, "", False),
        ({}, "spark.dynamicAllocation.enabled is on", True),
        ({"mode": "dry-run"}, "", True),
        ({"maximum_executors": None}, "", True),
        ({"executors": "dry-run"}, "", True),
    ],
)
def test_batches_on_executors_that_come_and_go_teach_unless_weir_asks_for_these(
    policy: dict[str, Any], note: str, *, learned: bool
) -> None:
    """As Spark's own dynamic allocation has it, beside which nothing is asked for."""
    world = World(note=note, **policy)
    for number in range(40):
        world.present = 2 + number % 2
        world.heartbeat()
        world.batch(150.0, steady=number == 0)
    batches = world.fleet._roster["shop", "orders"].sizing.cost.batches
    assert batches == (37 if learned else 1)


def test_executors_that_weir_asks_for_come_to_an_end_however_slowly() -> None:
    """One by one over six batches: one trial still, from the number before the first."""
    world = World()
    world.sink = True
    for _ in range(20):
        world.batch(120.0, slots=2)
    for slots in (3, 4, 5, 6, 7, 8):
        world.batch(120.0, slots=slots, steady=False)
    for _ in range(16):
        world.batch(120.0, slots=8)
    brought = world.fleet._roster["shop", "orders"].sizing.work.brought
    assert brought is not None
    assert (brought.before, brought.slots) == (2, 8)


def test_a_run_of_which_no_executors_are_told_teaches_what_its_batches_cost() -> None:
    world = World(executors="off")
    for _ in range(8):
        world.batch(100.0)
    world.batch(100.0, steady=False, slots=3)
    cost = world.fleet._roster["shop", "orders"].sizing.cost
    before = cost.batches
    for _ in range(10):
        world.send(world.driver.progress(1000, 5.0, backlog=0, gap=5.0))
    assert cost.batches == before + 10


def test_what_came_while_a_batch_ran_is_no_backlog_to_catch_up_with() -> None:
    """Brokers that are asked tell it at once: as many executors as where nobody asks them."""
    needed = []
    for asked in (False, True):
        world = World(maximum_executors=32)
        world.present = world.configured = 6  # by which 600 s of rows are digested in 300
        for number in range(12):
            if asked and number:
                query = world.fleet._roster["shop", "orders"]
                # A second before it ends: the rows of the batch, and what came since.
                query.sources[0].observe(180_000 + 299 * 300, world.driver.time + 599.0)
            world.batch(300.0, every_seconds=600.0)
        needed.append(world.slots)
    assert needed[0] == needed[1]


def beating(driver: Driver, executors: int) -> dict[str, Any]:
    running = {**driver.ids(), "batchId": None, "running_seconds": None}
    told = {"present": executors, "slots": 4 * executors, "configured": executors}
    return driver.event("heartbeat", {"queries": [running], "executors": told})


@pytest.mark.parametrize("hosts", [("a", "b"), ("a", "a"), ("", "")])
@pytest.mark.parametrize("saved", [False, True])
def test_clusters_of_one_application_id_are_told_apart_by_their_drivers_hosts(
    hosts: tuple[str, str], saved: bool
) -> None:
    """Spark's id is of a second, and the number of an application on its master alone."""
    policy = Policy(default=QueryPolicy(target_seconds=10.0, **ON))
    fleet = Fleet(policy, started_time=START_TIME)
    small, large = (
        Driver(
            application_id="app-20260601000007-0000",
            application=name,
            instance=name,
            host=host,
            query_id=name,
            run_id=name,
            query=name,
        )
        for name, host in zip(("small", "large"), hosts, strict=True)
    )

    def send(driver: Driver, *events: dict[str, Any]) -> Receipt:
        driver.time += 1.0
        return fleet.receive(decode_request(driver.body(*events)), driver.time)

    for driver in (small, large):
        limit = {"limit": 1000, "configured": 1000, "backlog": 500_000}
        send(driver, driver.started())
        for _ in range(3):
            send(driver, driver.progress(1000, 1.0, **limit))
    if saved:
        fleet = Fleet.restore(policy, fleet.changes(), started_time=large.time)
    told = [send(small, beating(small, 2)), send(large, beating(large, 20))]
    seen = [fleet.view((name, name), large.time).executors for name in ("small", "large")]
    apart = hosts[0] != hosts[1]
    assert [view and view.present for view in seen] == [2 if apart else 20, 20]
    named = [set(receipt.unsafe_limits) for receipt in told]
    together = {"small", "large"}
    assert named == ([{"small"}, {"large"}] if apart else [together, together])
