"""What was saved is taken up again: by this version, and by it from those before."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.core.decode.kafka_offsets import Reading, parse_offsets
from agent.core.fleet import Change, Fleet, Order
from agent.core.fleet.saved import encode, key_of, part_of_query, query_of
from agent.core.measure.cost import Line
from agent.core.policy import Policy, QueryPolicy
from agent.core.query import Query
from tests.core.test_fleet import KEY, World

SAVED = Path(__file__).parent / "saved"
#: What the recording's last event said, and two seconds later: when the view beside it was drawn.
LAST_TIME = 1_795_276_455.524
#: What can be lost of a query and is learned anew.
NAMES = ("application", "query")
KEPT = (
    *(*NAMES, "name_label", "application_label", "aside"),
    *("life", "orders", "totals", "run", "clock", "watched"),
)
GROUPS = [one.name for one in msgspec.structs.fields(Query) if one.name not in (*NAMES, "orders")]


def flat() -> list[Change]:
    """A held query in the middle of a batch, as saved before ``Query`` had groups."""
    parts = msgspec.msgpack.decode((SAVED / "flat.msgpack").read_bytes())
    return [Change(part, data) for part, data in parts]


def shown(fleet: Fleet) -> dict[str, Any]:
    (key,) = fleet.keys()
    view: dict[str, Any] = msgspec.to_builtins(fleet.view(key, LAST_TIME + 2.0))
    return view


def test_a_state_without_groups_is_read_as_the_version_that_wrote_it_did() -> None:
    fleet = Fleet.restore(Policy(), flat(), started_time=LAST_TIME)
    expected = msgspec.json.decode((SAVED / "flat.json").read_bytes())
    found = shown(fleet)
    assert {name: found[name] for name in expected} == expected
    assert fleet.totals.events["progress"] > 20


def test_every_field_of_a_state_without_groups_has_its_place() -> None:
    (data,) = [one.data for one in flat() if one.part.startswith("query:")]
    assert data is not None
    raw = msgspec.msgpack.decode(data)
    query = msgspec.msgpack.decode(encode(query_of(data)))
    groups = [value for value in query.values() if isinstance(value, dict)]
    leaves = {str(value) for group in (query, *groups) for value in group.values()}
    lost = {
        name: value
        for name, value in raw.items()
        if name != "capacity" and not isinstance(value, dict | list) and str(value) not in leaves
    }
    assert lost == {}
    assert query["run"]["batches"] == raw["batches_of_run"]
    assert query["running"]["batch_id"] == raw["running_batch_id"] != raw["batch_id"]
    assert query["orders"]["held"] is raw["held"] is True


def test_a_cost_that_an_earlier_version_learned_is_taken_over() -> None:
    (data,) = [one.data for one in flat() if one.part.startswith("query:")]
    assert data is not None
    line = Line(batches=12, fixed_seconds=1.2, seconds_per_row=1e-4, last_rows=3e4)
    raw = msgspec.msgpack.decode(data)
    raw["capacity"] = msgspec.to_builtins(line)
    del raw["cost"]
    assert query_of(msgspec.msgpack.encode(raw)).sizing.cost == line.cost()


@pytest.mark.parametrize("more", [{}, {"doubt": 0.1, "reach": 1e4, "prior": [0.2, 0.04]}])
def test_a_trial_that_an_earlier_version_left_open_is_judged_no_more(more: dict[str, Any]) -> None:
    (data,) = [one.data for one in flat() if one.part.startswith("query:")]
    assert data is not None
    query = query_of(data)
    raw = msgspec.msgpack.decode(encode(query))
    raw["sizing"]["work"]["trial"] = {
        "curve": {"fixed": 1.0, "per_row": 0.1},
        "contention": 0.2,
        "step": 1.1,
        "variance": 0.04,
        "slots": 2,
        "before": {"fixed": 2.0, "per_row": 0.2},
        "seen": 3,
        **more,
    }
    assert query_of(msgspec.msgpack.encode(raw)) == query


def test_files_that_an_earlier_version_did_not_count_are_not_counted() -> None:
    (data,) = [one.data for one in flat() if one.part.startswith("query:")]
    assert data is not None
    raw = msgspec.msgpack.decode(encode(query_of(data)))
    stretch = {"before": 1.0, "since_time": 2.0, "least": 1.0, "greatest": 3.0, "files": None}
    raw["watched"]["lateness"]["commits"]["stretch"] = stretch
    found = query_of(msgspec.msgpack.encode(raw)).watched.lateness.commits.stretch
    assert found is not None
    assert (found.greatest, found.files) == (3.0, math.inf)


@pytest.mark.parametrize("place", [("", "0"), ("p#s", "0"), ("t", "2147483648"), ("t", "x")])
@pytest.mark.parametrize("told", ["offsets", "planned", "ends"])
def test_offsets_that_an_earlier_version_took_for_kafka_s_are_unknown(
    place: tuple[str, str], told: str
) -> None:
    """As they are where a batch tells them."""
    assert parse_offsets({place[0]: {place[1]: 10}}) is None
    (data,) = [one.data for one in flat() if one.part.startswith("query:")]
    assert data is not None
    query = query_of(data)
    known = {0: {("t", "0"): 10}, 1: {("/apps/s:t", "2147483647"): 10}}
    query.read = Reading(known, planned=known, ends=known, query_id="one")
    assert query_of(encode(query)) == query
    query.read = msgspec.structs.replace(query.read, **{told: known | {2: {place: 10}}})
    found = query_of(encode(query))
    assert found.read is None
    query.read = None
    assert found == query


def restored_without(world: World, group: str) -> dict[str, Any]:
    """The agent starts anew with a query of which a group cannot be read; tells what was saved."""
    part, parts = part_of_query(KEY), {one.part: one.data for one in world.fleet.changes()}
    data = parts[part]
    assert data is not None
    raw: dict[str, Any] = msgspec.msgpack.decode(data)
    parts[part] = msgspec.msgpack.encode(raw | {group: 7})
    changes = [Change(*one) for one in parts.items()]
    world.fleet = Fleet.restore(world.policy, changes, started_time=world.now)
    return raw


@pytest.mark.parametrize("group", GROUPS)
def test_of_a_query_with_a_group_that_cannot_be_read_orders_are_kept(group: str) -> None:
    """And they hold; what was learned is as of one heard of for the first time."""
    world = World()
    world.send(world.driver.started())
    world.batches(5)
    world.fleet.control(*KEY, Order(who="kim", limit=300), world.now)
    world.fleet.control(*KEY, Order(who="kim", mode="off"), world.now)
    part, raw = part_of_query(KEY), restored_without(world, group)
    assert world.fleet.unreadable == {}
    assert world.fleet.learned_anew[part].startswith(f"{group}: ")
    (saved,) = world.fleet.changes()  # as it was read: the next agent has nothing to say
    assert saved.data is not None
    read = msgspec.msgpack.decode(saved.data)
    new = msgspec.msgpack.decode(encode(Query(*KEY)))
    for name in raw:
        kept = name in KEPT and name != group
        assert read[name] == (raw if kept else new)[name], name
    assert saved.part == part
    world.fleet.tick(world.now)
    world.send(world.driver.heartbeat())
    (receipt, *_) = world.batches(3, limit=300)
    assert world.view().mode == "off"
    assert [grant.reason for grant in receipt.grants] == ["mode:off"]
    world.fleet.control(*KEY, Order(who="kim", mode="on"), world.now)
    *_, receipt = world.batches(3)
    assert [(grant.limit, grant.reason) for grant in receipt.grants] == [(300, "manual")]


@pytest.mark.parametrize("new_run", [True, False])
def test_the_number_that_a_hand_holds_is_kept_too(new_run: bool) -> None:
    world = World()
    world.send(world.driver.started())
    *_, receipt = world.batches(12, configured=10**6)
    (granted,) = [grant.limit for grant in receipt.grants]
    assert granted is not None
    world.fleet.control(*KEY, Order(who="kim", hold=True), world.now)
    restored_without(world, "watched")
    if new_run:
        world.driver.run_id = "another run"
        world.send(world.driver.started())
    *_, receipt = world.batches(3, limit=10**6, configured=10**6)
    assert [grant.limit for grant in receipt.grants] == [granted]
    assert world.view().held


def test_a_query_of_which_it_is_no_longer_known_that_rows_fall_late_begins_as_configured() -> None:
    """Not by what its batches cost, which could be read."""
    world = World(Policy(default=QueryPolicy(late_rows="hold")))
    limits = [{"source": 0, "unit": "rows", "limit": None, "configured": None, "backlog": 10**6}]
    late = {"operatorName": "stateStoreSave", "numRowsTotal": 1, "numRowsDroppedByWatermark": 0}
    of_a_watermark = {
        "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
        "stateOperators": [late],
        "limits": limits,
    }
    world.send(world.driver.started())
    for rows in range(20_000, 50_000, 3000):
        world.send(world.driver.progress(rows, 0.5 + rows / 1000, **of_a_watermark))
    restored_without(world, "watched")
    world.driver.run_id = "another run"
    assert world.send(world.driver.started(watermarkDelaySeconds=600.0)).grants == []


def test_what_is_saved_now_is_read_as_it_was() -> None:
    fleet = Fleet.restore(Policy(), flat(), started_time=LAST_TIME)
    fleet.tick(LAST_TIME + 100.0)  # it is silent by now: a change
    again = Fleet.restore(Policy(), [*flat(), *fleet.changes()], started_time=LAST_TIME)
    assert shown(again) == shown(fleet)


def test_names_of_parts_are_found_again() -> None:
    for key in (("shop", "orders"), ("a:b", ":"), ("", "1:x"), ("12", "3:4")):
        kind, _, rest = part_of_query(key).partition(":")
        assert (kind, key_of(rest)) == ("query", key)
    assert Query("shop", "orders").key == ("shop", "orders")
