"""Attention: one level per query, the first that holds, and how bad it is within it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.judge.attention import CALM, grows, judged
from agent.core.judgement import (
    ATTENTION_LEVELS,
    QUERY_STATES,
    SPIRAL_PHASES,
    AttentionLevel,
    AttentionView,
    CheckpointView,
    FailureView,
    QueryView,
    SpiralView,
)
from agent.core.policy import Policy, QueryPolicy
from agent.export.terminal.words import words
from tests.core.test_fleet import World
from tests.export import views

if TYPE_CHECKING:
    from agent.core.fleet import Key

KEY: Final[Key] = ("shop", "orders")
FAILURE: Final = FailureView("memory", "java.lang.OutOfMemoryError")
#: Nothing is wrong with it: target 5 s, deadline 60 s.
WELL: Final[dict[str, Any]] = {
    "state": "busy",
    "pressure": "ok",
    "spiral": SpiralView(),
    "batch_seconds": 4.0,
    "running_seconds": 1.0,
    "backlog_seconds": 3.0,
}
GONE: Final[dict[str, Any]] = {
    "up": False,
    "state": "idle",
    "running_seconds": None,
    "gone_since_time": views.NOW - 31,
}
ENDED: Final = {**GONE, "state": "terminated"}


def attention(
    *, growing: bool = False, clock_seconds: float = 0.0, **changes: Any
) -> AttentionView:
    view = views.view(**{**WELL, **changes})
    return judged(view, views.NOW, growing=growing, clock_seconds=clock_seconds).attention


def rank(level: AttentionLevel) -> int:
    return ATTENTION_LEVELS.index(level)


#: What waits is not consumed at the limits in force.
STAYS: Final[dict[str, Any]] = {"estimated_time_to_consume_seconds": None}
UNLIMITED: Final = [msgspec.structs.replace(one, limit=None) for one in views.view().sources]
#: What makes a level hold, and how long it has been so.
CASES: Final[list[tuple[AttentionLevel, dict[str, Any], float | None]]] = [
    ("hung", {"state": "stalled", "running_seconds": 252.0}, 252),
    ("failed", {**ENDED, "failure": FAILURE}, 31),
    ("spiralling", {"spiral": SpiralView("spiralling")}, None),
    ("spiralling", {"spiral": SpiralView("timing_out")}, None),
    ("spiralling", {**GONE, "spiral": SpiralView("dead")}, None),
    ("lost", {**GONE, "last_event_time": views.NOW - 46}, 46),
    ("lost", {**ENDED, "last_event_time": views.NOW - 46}, 46),  # its driver ended under it
    (
        "overloaded",
        {"required_capacity_ratio": 1.01, "capacity_short_since_time": views.NOW - 240},
        240,
    ),
    ("overloaded", {"required_capacity_ratio": math.inf}, None),
    ("pressured", {"pressure": "high"}, None),
    ("infeasible", {"target_feasible": False}, None),
    ("growing", {"growing": True, **STAYS}, None),
    ("growing", {"growing": True, "lag_state": "WARN"}, None),  # whatever is foreseen
    ("growing", {"growing": True, "sources": UNLIMITED}, None),
    ("ok", {"growing": True}, None),  # it falls: what waits is being worked off
    ("late", {"running_seconds": 7.6}, 7.6),
    ("late", {"batch_seconds": 7.6}, None),
    ("low", {"pressure": "low"}, None),
    ("ok", {}, None),
    ("ok", {"running_seconds": 7.5, "batch_seconds": 7.5}, None),
    ("ok", {"running_seconds": 500.0, "batch_seconds": 500.0, "target_seconds": None}, None),
    ("ok", {"required_capacity_ratio": 1.0}, None),
    ("ok", {"required_capacity_ratio": None, "target_feasible": None}, None),
    ("ok", {"spiral": SpiralView("pressured")}, None),
    ("ok", {"failure": FAILURE}, None),  # of the run before: it is up again
    ("idle", {"state": "idle", "running_seconds": None, "batch_seconds": 500.0}, None),
    ("ended", {**ENDED, "stopped": True}, 31),
    ("ended", {**ENDED, "stopped": True, "failure": FAILURE}, 31),  # of the run before
]


@pytest.mark.parametrize(("level", "changes", "seconds"), CASES)
def test_each_level_and_since_when(
    level: AttentionLevel, changes: dict[str, Any], seconds: float | None
) -> None:
    found = attention(**changes)
    assert found.level == level
    since = None if seconds is None else pytest.approx(views.NOW - seconds)
    assert found.since_time == since


def test_every_level_can_be() -> None:
    assert (
        {level for level, _, _ in CASES} == set(ATTENTION_LEVELS) == set(get_args(AttentionLevel))
    )


maybe = lambda value: st.one_of(st.none(), value)  # noqa: E731
figures = st.floats(0, 1e6)
queries: Final = st.fixed_dictionaries(
    {
        "state": st.sampled_from(QUERY_STATES),
        "pressure": st.sampled_from(["ok", "low", "high"]),
        "spiral": st.sampled_from([SpiralView(phase) for phase in SPIRAL_PHASES]),
        "failure": maybe(st.just(FAILURE)),
        "up": st.booleans(),
        "gone_since_time": maybe(st.just(views.NOW - 31)),
        "last_event_time": maybe(st.floats(views.NOW - 1e6, views.NOW + 60)),
        "required_capacity_ratio": maybe(st.floats(0, 4)),
        "capacity_short_since_time": maybe(st.just(views.NOW - 240)),
        "target_feasible": maybe(st.booleans()),
        "target_seconds": maybe(st.just(5.0)),
        "deadline_seconds": maybe(st.just(60.0)),
        "running_seconds": maybe(st.floats(0, 70)),
        "batch_seconds": maybe(st.floats(0, 70)),
        "backlog_rows": maybe(figures),
        "backlog_seconds": maybe(figures),
        "estimated_time_to_consume_seconds": maybe(figures),
        "growing": st.booleans(),
        "clock_seconds": st.floats(-60, 60),
    }
)


@given(queries, st.sampled_from([case for case in CASES if case[0] not in {"ok", "idle", "ended"}]))
def test_the_worst_that_holds_is_the_level(
    query: dict[str, Any], case: tuple[AttentionLevel, dict[str, Any], float | None]
) -> None:
    """Whatever else is so of a query that works."""
    level, changes, _ = case
    state = "stalled" if query["state"] == "stalled" else "busy"
    found = attention(**{**query, "state": state, "target_seconds": 5.0, **changes})
    assert rank(found.level) <= rank(level)


@given(queries)
def test_what_gets_better_ranks_no_worse(query: dict[str, Any]) -> None:
    found = attention(**query)
    for figure, well in (("pressure", "ok"), ("growing", False), ("batch_seconds", 0.0)):
        assert rank(attention(**{**query, figure: well}).level) >= rank(found.level)


@given(queries)
def test_what_is_calm_asks_for_nobody_and_nothing_began_later_than_now(
    query: dict[str, Any],
) -> None:
    found = attention(**query)
    assert not (found.to_do and found.level in CALM)
    assert found.since_time is None or found.since_time <= views.NOW
    assert 0 <= found.urgency <= 64


@given(queries, st.booleans())
def test_what_is_down_unasked_is_red_as_its_alert_says(
    query: dict[str, Any], stopped: bool
) -> None:
    """WeirQueryGone: down, and nobody stopped it. Else a level says of what runs what it does."""
    up = query["up"] and query["state"] != "terminated"
    state = "idle" if not up and query["state"] == "stalled" else query["state"]
    stopped = stopped and state == "terminated"
    level = attention(**{**query, "up": up, "state": state, "stopped": stopped}).level
    assert (level == "ended") is stopped
    if not up and not stopped:
        assert level in {"failed", "lost", "spiralling"}
    else:
        assert level not in {"failed", "lost"}


@given(queries, st.floats(0, 1e6), st.floats(0, 1e6))
def test_within_a_level_worse_is_never_less_urgent(
    query: dict[str, Any], one: float, other: float
) -> None:
    """By the figure that its level goes by: so it ranks no later."""
    less, more = sorted((one, other))
    for figure in ("running_seconds", "required_capacity_ratio", "backlog_seconds", "backlog_rows"):
        first, second = (attention(**{**query, figure: value}) for value in (less, more))
        if first.level == second.level:
            assert first.urgency <= second.urgency


@pytest.mark.parametrize(
    ("changes", "doublings"),
    [
        ({"state": "stalled", "running_seconds": 0.9}, 0),
        ({"state": "stalled", "running_seconds": 1.0}, 1),
        ({"state": "stalled", "running_seconds": 252.0}, 8),
        ({"running_seconds": 15.9}, 4),
        ({"running_seconds": 16.0}, 5),
        ({"running_seconds": None, "batch_seconds": 900.0}, 0),
        ({"required_capacity_ratio": 1.42}, 4),
        ({"required_capacity_ratio": 1.6}, 5),
        ({"required_capacity_ratio": math.inf}, 64),
        ({"backlog_seconds": 0.0, "backlog_rows": 1e9}, 0),
        ({"backlog_seconds": 300.0}, 9),
        ({"backlog_seconds": None, "backlog_rows": 999.0}, 0),
        ({"backlog_seconds": None, "backlog_rows": 52_000.0}, 6),
        ({"backlog_seconds": None, "backlog_rows": None}, 0),
    ],
)
def test_urgency_counts_doublings(changes: dict[str, Any], doublings: int) -> None:
    assert attention(**changes).urgency == doublings


@pytest.mark.parametrize(
    ("changes", "to_do"),
    [
        ({"state": "stalled"}, True),
        ({"running_seconds": 47.9}, False),  # late, and the deadline is far
        ({"running_seconds": 48.0}, True),
        ({"batch_seconds": 48.0}, True),
        ({"running_seconds": 59.0, "deadline_seconds": None}, True),  # it was learned
        ({"running_seconds": 59.0, "checkpoint": CheckpointView()}, False),
        ({"pressure": "high", "estimated_time_to_consume_seconds": 9.0}, False),
        ({"pressure": "high", "estimated_time_to_consume_seconds": None}, True),
        ({"pressure": "low", "estimated_time_to_consume_seconds": None}, False),
        ({"target_feasible": False}, True),
        ({"pressure": "high", "lag_state": "ERR"}, True),
        ({"growing": True, **STAYS}, True),
        ({**ENDED, "stopped": True}, False),
        ({**ENDED, "stopped": False}, True),
    ],
)
def test_when_somebody_should_act(changes: dict[str, Any], *, to_do: bool) -> None:
    assert attention(**changes).to_do is to_do


def test_a_backlog_grows_where_the_later_half_of_the_batches_left_a_quarter_more() -> None:
    level = [(100.0, 9.0)] * 3
    assert grows([*level, *[(125.1, 9.0)] * 3])
    assert not grows([*level, *[(125.0, 9.0)] * 3]), "noise"
    assert not grows([*level[:2], *[(900.0, 9.0)] * 3]), "too few"
    assert not grows([*level, *[(125.1, 125.1)] * 3]), "the next batch takes it"
    assert grows([*level, *[(125.0, 9.0)] * 3, (127.0, 9.0)]), "an odd one counts as later"
    assert not grows([])
    assert not grows([*[(1_000.0, 9.0)] * 60, *level])


def test_a_drivers_clock_is_not_the_agents() -> None:
    lost = {**GONE, "last_event_time": views.NOW - 46 - 3_600}
    assert attention(**lost, clock_seconds=3_600).since_time == views.NOW - 46
    assert attention(**lost, clock_seconds=9_999).since_time == views.NOW, "none is yet to come"


# -- of a fleet ------------------------------------------------------------------------------------


def level_of(world: World, now: float, *, growing: bool = False) -> AttentionView:
    view: QueryView = world.fleet.view(KEY, now, growing=growing)
    assert (view.attention.level == "hung") is (view.state == "stalled"), (
        "the alert asks for either"
    )
    return view.attention


def test_a_batch_hangs_from_its_deadline_on() -> None:
    world = World(Policy(default=QueryPolicy(deadline_seconds=60.0, above_configured=True)))
    world.batches(20)
    world.send(world.driver.heartbeat(20, 4.0))
    assert level_of(world, world.now + 55.9).level != "hung"
    late = world.now + 56.5
    hung = level_of(world, late)
    assert (hung.level, hung.urgency, hung.to_do) == ("hung", 6, True)
    assert hung.since_time == pytest.approx(late - 60.5)


def test_growth_is_for_who_keeps_the_batches_to_say() -> None:
    world = World()
    world.batches(20, limit=None, configured=None, backlog=0)
    world.send(world.driver.idle())
    assert level_of(world, world.now).level == "idle"
    assert level_of(world, world.now, growing=True).level == "growing"


def test_a_silent_driver_is_lost_and_one_that_ended_is_not() -> None:
    world = World()
    world.batches(5)
    heard = world.now
    later = heard + world.policy.silent_seconds + 1
    world.fleet.tick(later)
    lost = level_of(world, later)
    assert lost.level == "lost"
    assert lost.since_time == pytest.approx(heard, abs=0.1)
    world.driver.time = later
    world.send(world.driver.terminated("java.lang.OutOfMemoryError: Java heap space"))
    assert level_of(world, world.now).level == "failed"


@pytest.mark.parametrize(("driver_ended", "level"), [(True, "lost"), (False, "ended")])
def test_an_end_says_nothing_of_what_the_run_before_failed_with(
    driver_ended: bool, level: AttentionLevel
) -> None:
    world = World()
    world.batches(5)
    world.send(world.driver.terminated("java.lang.OutOfMemoryError: Java heap space"))
    assert level_of(world, world.now).level == "failed"
    world.driver.run_id = "r-2"
    world.driver.time += 5.0
    ended = world.driver.terminated()
    ended["body"] |= {"driverEnded": True} if driver_ended else {}
    world.send(world.driver.started(), ended)
    assert level_of(world, world.now).level == level
    assert world.view().failure is None
    assert world.view().totals.failures == {"memory": 1}


# -- in words --------------------------------------------------------------------------------------


def test_the_words_name_every_level_worst_first_and_a_runbook_for_those_that_are_not_calm() -> None:
    levels = words().levels
    assert [level.name for level in levels] == list(ATTENTION_LEVELS)
    assert {level.name for level in levels if not level.runbook} == CALM


def test_a_view_without_attention_is_none() -> None:
    view = msgspec.to_builtins(views.view())
    assert msgspec.convert(view, QueryView).attention.level == "low"
    del view["attention"]
    with pytest.raises(msgspec.ValidationError, match="attention"):
        msgspec.convert(view, QueryView)
