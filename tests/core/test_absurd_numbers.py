"""Numbers no batch ever had: nothing fails on them, and no series is spoilt by them."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.decode.events import Listener, MalformedRequest, decode_request
from agent.core.fleet import Fleet
from agent.core.policy import Policy, QueryPolicy
from agent.export.prometheus import EventTimer, Exporter
from agent.service.keeper import Keeper
from agent.service.store import Store
from agent.sources.host import Extras
from tests.core.events import START_TIME, Driver

EXTRAS = Extras(
    version="1",
    started_time=START_TIME,
    labels={},
    agent_process=None,
    driver_processes=(),
    event_seconds=EventTimer().snapshot(),
    refused_requests={},
    state_writable=True,
    state_write_failures_total=0,
    state_bytes=None,
    recorded_events_total=0,
    record_failures_total=0,
)
KEY = ("shop", "orders")
TINY = [5e-324, 1e-308, 9e-4]
HUGE = [2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, 1e308, 1.7e308, -1, -(2**70), True, "9"]
NUMBERS = st.one_of(
    st.sampled_from(HUGE + TINY),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
)


def replaced(value: Any, choose: Any) -> Any:
    """Every number in a body, or another one."""
    if isinstance(value, dict):
        return {key: replaced(one, choose) for key, one in value.items()}
    if isinstance(value, list):
        return [replaced(one, choose) for one in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return choose(value)
    return value


def whole(driver: Driver) -> dict[str, Any]:
    offsets = {"topic": {"0": 100, "1": 200}}
    return driver.progress(
        1000,
        2.0,
        limit=1000,
        configured=1000,
        backlog=5000,
        sources=[
            {
                "description": "KafkaV2[Subscribe[topic]]",
                "startOffset": offsets,
                "endOffset": {"topic": {"0": 600, "1": 700}},
                "latestOffset": {"topic": {"0": 900, "1": 900}},
                "numInputRows": 1000,
            }
        ],
        stateOperators=[
            {
                "operatorName": "stateStoreSave",
                "numRowsTotal": 10,
                "memoryUsedBytes": 20,
                "commitTimeMs": 30,
                "numRowsDroppedByWatermark": 1,
                "numShufflePartitions": 4,
                "numStateStoreInstances": 4,
                "customMetrics": {
                    "rocksdbBytesCopied": 5,
                    "rocksdbCommitFlushLatency": 3,
                    "SnapshotLastUploaded.partition_0_default": 2,
                },
            }
        ],
    )


def sane(keeper: Keeper, now: float) -> None:
    fleet = keeper.fleet
    msgspec.json.encode(keeper.view(KEY, now))
    body, _ = Exporter(timer=lambda: 0.0).exposition(
        fleet.keys(),
        lambda key: fleet.view(key, now),
        totals=fleet.totals,
        listeners=fleet.listeners_together(now),
        extras=EXTRAS,
        accept="",
    )
    for line in body.decode().splitlines():
        if not line.startswith("#"):
            number = float(line.rpartition(" ")[2])
            assert math.isfinite(number), line


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_number_of_a_progress_or_heartbeat_breaks_the_agent(data: st.DataObject) -> None:
    keeper, driver = Keeper(Policy(), Store(None), started_time=START_TIME), Driver()

    def other(value: float) -> Any:
        return data.draw(NUMBERS) if data.draw(st.integers(0, 3)) == 0 else value

    keeper.receive(decode_request(driver.body(driver.started())), driver.time)
    for number in range(6):
        event = whole(driver)
        if number in (1, 2, 4):
            event = {
                **event,
                "body": replaced(event["body"], other),
                "limits": replaced(event["limits"], other),
            }
        receipt = keeper.receive(decode_request(driver.body(event)), driver.time)
        assert not any("failed" in refused.error for refused in receipt.refused)
        beat = driver.heartbeat(number + 1, other(1.0))
        receipt = keeper.receive(decode_request(driver.body(beat)), driver.time)
        assert not any("failed" in refused.error for refused in receipt.refused)
        sane(keeper, driver.time)
    Fleet.restore(Policy(), keeper._store.load(), started_time=driver.time)


@pytest.mark.parametrize("number", HUGE[:8])
def test_a_counter_never_passes_what_can_be_kept(number: float) -> None:
    keeper, driver = Keeper(Policy(), Store(None), started_time=START_TIME), Driver()
    keeper.receive(decode_request(driver.body(driver.started())), driver.time)
    for _ in range(30):
        event = whole(driver)
        event["body"] = replaced(event["body"], lambda _: number)
        event["body"]["batchId"] = driver.batch_id
        assert keeper.receive(decode_request(driver.body(event)), driver.time).refused == []
    sane(keeper, driver.time)
    # And goes on with what is right.
    before = keeper.fleet.view(KEY, driver.time).totals.rows
    keeper.receive(decode_request(driver.body(whole(driver))), driver.time)
    view = keeper.fleet.view(KEY, driver.time)
    assert view.totals.rows == before + 1000
    assert view.batch_seconds == pytest.approx(2.0)


@pytest.mark.parametrize("number", [one for one in HUGE if type(one) is int])
def test_no_count_of_a_listener_breaks_what_is_kept(number: int) -> None:
    keeper, driver = Keeper(Policy(), Store(None), started_time=START_TIME), Driver()
    counts = ["queue_length", "dropped_total", "callback_seconds_total", "callbacks_total"]
    for told, kept in ((number, None), (2**53 - 1, 2**53 - 1)):
        body = json.loads(driver.body(driver.started()))
        body["listener"] |= dict.fromkeys([*counts, "python_pid", "jvm_pid"], told)
        receipt = keeper.receive(decode_request(json.dumps(body).encode()), driver.time)
        assert receipt.refused == []
        sane(keeper, driver.time)
        (view,) = keeper.fleet.listeners(driver.time)
        want = Listener("listener-1", *[kept or 0] * 4, python_pid=kept, jvm_pid=kept)
        assert view.listener == want
        Fleet.restore(Policy(), keeper._store.load(), started_time=driver.time)


@pytest.mark.parametrize("number", [2**53, 10**30])
def test_no_count_of_files_breaks_what_is_kept(number: int) -> None:
    """Auto Loader's, which stand in its metrics and in its offsets."""
    keeper, driver = Keeper(Policy(), Store(None), started_time=START_TIME), Driver(unit="files")
    keeper.receive(decode_request(driver.body(driver.started())), driver.time)
    source = {
        "description": "CloudFilesSource[/in]",
        "startOffset": {"seqNum": 1},
        "endOffset": {"seqNum": number + 1},
        "metrics": {"numFilesOutstanding": str(number)},
    }
    for _ in range(3):
        event = driver.progress(1000, 2.0, sources=[source])
        assert keeper.receive(decode_request(driver.body(event)), driver.time).refused == []
    sane(keeper, driver.time)
    Fleet.restore(Policy(), keeper._store.load(), started_time=driver.time)


def test_an_offset_of_deltas_beyond_all_numbers_costs_no_more_than_itself() -> None:
    keeper, driver = Keeper(Policy(), Store(None), started_time=START_TIME), Driver()
    offset = '{"isStartingVersion": true, "reservoirVersion": 1e999, "index": 0}'
    event = driver.progress(1000, 2.0, sources=[{"description": "Delta", "endOffset": offset}])
    assert keeper.receive(decode_request(driver.body(event)), driver.time).refused == []


@pytest.mark.parametrize("milliseconds", TINY)
def test_a_time_too_short_to_be_one_is_none(milliseconds: float) -> None:
    keeper, driver = Keeper(Policy(), Store(None), started_time=START_TIME), Driver()
    for _ in range(12):
        event = whole(driver)
        event["body"]["numInputRows"] = 2**52
        event["body"]["durationMs"] = {"triggerExecution": milliseconds}
        assert keeper.receive(decode_request(driver.body(event)), driver.time).refused == []
    sane(keeper, driver.time)


@pytest.mark.parametrize("configured", [None, 10**6])
@pytest.mark.parametrize("unit", ["rows", "bytes"])
def test_no_limit_passes_what_the_driver_can_be_told(unit: str, configured: int | None) -> None:
    policy = Policy(default=QueryPolicy(target_seconds=86_400.0))
    keeper, driver = Keeper(policy, Store(None), started_time=START_TIME), Driver(unit=unit)
    for _ in range(2):
        driver.run_id, driver.time = driver.run_id + "+", driver.time + 60.0
        started = decode_request(driver.body(driver.started()))
        assert keeper.receive(started, driver.time).refused == []
        for _ in range(4):
            event = driver.progress(2**40, 0.001, limit=configured, configured=configured)
            event["limits"][0] |= {"admitted": 2**40, "backlog": 2**52}
            receipt = keeper.receive(decode_request(driver.body(event)), driver.time)
            assert receipt.refused == []
            for grant in receipt.grants:
                assert grant.limit is not None
                assert 1 <= grant.limit < 2**63


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_a_number_that_json_does_not_have_costs_no_more_than_its_request(text: str) -> None:
    keeper, driver = Keeper(Policy(), Store(None), started_time=START_TIME), Driver()
    event = whole(driver)
    body = driver.body(event).replace(b'"numInputRows": 1000', b'"numInputRows": ' + text.encode())
    request = None
    with contextlib.suppress(MalformedRequest):
        request = decode_request(body)
    if request is None:
        return
    if request.refused:  # it alone
        return
    keeper.receive(request, driver.time)
    sane(keeper, driver.time)
    assert json.loads(msgspec.json.encode(keeper.view(KEY, driver.time)))["batch_rows"] is None
