"""The queue of unacknowledged events: numbered, bounded, resent, never lost uncounted."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from spark_listener.complaints import Complaints
from spark_listener.config import QUEUE_BYTES, Settings
from spark_listener.outbox import Outbox, Pending
from spark_listener.wire import MAX_REQUEST_BYTES


def take(outbox: Outbox, events: int = 500) -> list[Pending]:
    return outbox.take(max_events=events, max_bytes=1 << 20, timeout_seconds=0.0)


def put(outbox: Outbox, kind: str = "progress", body: str = "{}", run_id: str = "") -> int:
    return outbox.put(kind, "2026-11-21T08:55:02.865Z", body, run_id=run_id)


def test_an_event_goes_out_as_the_contract_says_and_its_body_unchanged() -> None:
    outbox = Outbox(10, 1 << 20, largest_bytes=1000)
    body = '{"id": "a",  "rate":1.0E7}'
    outbox.put(
        "progress", "2026-11-21T08:55:02.865Z", body, {"limits": [{"source": 0}]}, origin=7.25
    )
    [pending] = take(outbox)
    assert body.encode() in pending.data
    assert json.loads(pending.data) == {
        "sequence": 1,
        "type": "progress",
        "time": "2026-11-21T08:55:02.865Z",
        "clock_origin": 7.25,
        "body": {"id": "a", "rate": 1.0e7},
        "limits": [{"source": 0}],
    }


def test_unacknowledged_events_are_taken_again() -> None:
    outbox = Outbox(10, 1 << 20, largest_bytes=1000)
    for _ in range(3):
        put(outbox)
    assert [item.sequence for item in take(outbox)] == [1, 2, 3]
    outbox.landed()
    assert [item.sequence for item in take(outbox)] == [1, 2, 3]
    outbox.settle(2)
    outbox.landed()
    put(outbox)
    assert [item.sequence for item in take(outbox)] == [3, 4]


def test_an_acknowledgement_beyond_what_was_sent_counts_as_far_as_sent() -> None:
    outbox = Outbox(10, 1 << 20, largest_bytes=1000)
    put(outbox)
    take(outbox)
    put(outbox)
    outbox.settle(10**9)
    outbox.landed()
    assert outbox.acknowledged == 1
    assert [item.sequence for item in take(outbox)] == [2]


def test_the_oldest_progress_goes_first_starts_and_ends_stay() -> None:
    outbox = Outbox(3, 1 << 20, largest_bytes=1000)
    put(outbox, "started")
    put(outbox)
    put(outbox, "terminated")
    put(outbox)
    assert [item.sequence for item in take(outbox)] == [1, 3, 4]
    assert outbox.dropped_total == 1


@pytest.mark.parametrize(("sent", "put_meanwhile"), [(1, 1), (5, 3), (9, 3)])
def test_what_is_under_way_is_not_given_up_while_anything_else_is_there(
    sent: int, put_meanwhile: int
) -> None:
    """It would be counted as lost, and arrives."""
    outbox = Outbox(10, 1 << 20, largest_bytes=1000)
    for _ in range(10):
        put(outbox, run_id="busy")
    batch = take(outbox, sent)
    for _ in range(put_meanwhile):
        put(outbox, run_id="quiet")
    assert [item.sequence for item in outbox._pending][:sent] == [item.sequence for item in batch]
    outbox.settle(sent)
    outbox.landed()
    assert (outbox.acknowledged, len(outbox)) == (sent, 10 - sent)
    assert outbox.dropped_total == put_meanwhile


@pytest.mark.parametrize(
    ("unsent", "coming", "left"),
    [
        (["progress", "started"], "started", [1, 2, 4, 5]),
        (["idle", "started"], "started", [1, 2, 4, 5]),
        (["started", "terminated"], "started", [2, 3, 4, 5]),
        ([], "progress", [2, 3, 4, 5]),
    ],
)
def test_starts_and_ends_that_wait_are_kept_longer_than_what_is_under_way(
    unsent: list[str], coming: str, left: list[int]
) -> None:
    outbox = Outbox(4, 1 << 20, largest_bytes=1000)
    for kind in ["progress"] * (4 - len(unsent)):
        put(outbox, kind)
    take(outbox)
    for kind in (*unsent, coming):
        put(outbox, kind)
    assert [item.sequence for item in outbox._pending] == left
    assert outbox.dropped_total == 1


def test_a_busy_query_does_not_push_out_what_quiet_ones_told() -> None:
    """Five minutes without an agent: one of 20 batches a second, 99 of one a minute."""
    outbox = Outbox(2000, 1 << 20, largest_bytes=1000)
    for tenth in range(3000):
        put(outbox, run_id="busy")
        put(outbox, run_id="busy")
        if tenth % 6 == 0:
            put(outbox, run_id=f"quiet{tenth // 6 % 99}")
    waiting = [item.run_id for item in take(outbox, 3000)]
    assert len(waiting) == 2000
    assert len(waiting) - waiting.count("busy") == 500, "all of them"
    assert outbox.dropped_total == 4500


@pytest.mark.parametrize("in_flight", ["third", "busy"])
def test_nor_does_it_while_a_request_is_under_way(in_flight: str) -> None:
    outbox = Outbox(1000, 1 << 20, largest_bytes=1000)
    for _ in range(400):
        put(outbox, run_id=in_flight)
    take(outbox, 400)
    for index in range(300):
        put(outbox, run_id=f"quiet{index}")
    for _ in range(550):
        put(outbox, run_id="busy")
    outbox.landed()
    waiting = [item.run_id for item in take(outbox, 1000)]
    assert waiting[:400] == [in_flight] * 400, "what was under way"
    assert waiting[400:] == [f"quiet{index}" for index in range(300)] + ["busy"] * 300
    assert outbox.dropped_total == 250


def test_of_what_is_under_way_too_the_run_that_takes_most_of_it_gives_way() -> None:
    outbox = Outbox(10, 1 << 20, largest_bytes=1000)
    for run_id in ["quiet", *["busy"] * 9]:
        put(outbox, run_id=run_id)
    take(outbox)
    put(outbox, "started")
    assert [item.sequence for item in outbox._pending] == [1, *range(3, 12)]


def test_where_bytes_are_short_the_run_that_takes_most_of_them_gives_way() -> None:
    outbox = Outbox(100, 10_000, largest_bytes=5000)
    put(outbox, body=f'"{"x" * 4000}"', run_id="large")
    for _ in range(20):
        put(outbox, run_id="small")
    put(outbox, body=f'"{"x" * 4000}"', run_id="large")
    assert [item.run_id for item in take(outbox)] == ["small"] * 20 + ["large"]
    outbox.settle(99)
    assert (len(outbox), outbox._pending_bytes, outbox._progress) == (0, 0, ({}, {}))


def test_a_heartbeat_that_stays_is_acknowledged_by_its_number_alone() -> None:
    """Until the agent has it no later number may be acknowledged in its place."""
    outbox = Outbox(10, 1 << 20, largest_bytes=1000)
    number = outbox.put("heartbeat", "2026-11-21T08:55:02.865Z", "{}", stays=True)
    put(outbox)
    last = put(outbox, "heartbeat")
    put(outbox, "heartbeat")
    assert [one.sequence for one in take(outbox, 1)] == [number]
    outbox.settle(number)
    outbox.landed()
    assert last not in [one.sequence for one in take(outbox)]


def test_only_the_newest_waiting_heartbeat_is_kept_and_that_is_no_loss() -> None:
    outbox = Outbox(10, 1 << 20, largest_bytes=1000)
    put(outbox, "heartbeat")
    take(outbox)  # under way
    put(outbox, "heartbeat")
    put(outbox, "heartbeat")
    assert [item.sequence for item in take(outbox)] == [1, 3]
    assert outbox.dropped_total == 0


def test_parts_of_a_heartbeat_wait_together_and_the_next_one_replaces_them_all() -> None:
    outbox = Outbox(10, 1 << 20, largest_bytes=1000)
    for goes_on in (False, True, True):
        outbox.put("heartbeat", "2026-11-21T08:55:02.865Z", "{}", goes_on=goes_on)
    assert [item.sequence for item in take(outbox)] == [1, 2, 3]
    outbox.landed()
    for goes_on in (False, True):
        outbox.put("heartbeat", "2026-11-21T08:55:02.865Z", "{}", goes_on=goes_on)
    assert [item.sequence for item in take(outbox)] == [4, 5]
    assert outbox.dropped_total == 0


def test_an_event_too_large_for_any_request_is_dropped_and_counted() -> None:
    outbox = Outbox(10, 1 << 20, largest_bytes=200)
    put(outbox, body='{"a":"' + "x" * 300 + '"}')
    assert take(outbox) == []
    assert outbox.dropped_total == 1


def test_of_a_query_whose_progress_is_too_large_one_warning_tells(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "weir")
    outbox = Outbox(10, 1 << 20, largest_bytes=200, complaints=Complaints())
    for run_id in ("a", "a", "b"):
        put(outbox, body=f'"{"x" * 300}"', run_id=run_id)
    told = [record.getMessage() for record in caplog.records]
    assert [text[-5:] for text in told] == ["run a", "run b"]
    assert "larger than any request (200)" in told[0]


def test_a_request_is_bounded_in_events_and_bytes_but_never_empty() -> None:
    outbox = Outbox(100, 1 << 20, largest_bytes=10_000)
    for _ in range(10):
        put(outbox, body='{"a":"' + "x" * 100 + '"}')
    assert len(take(outbox, events=4)) == 4
    assert len(outbox.take(max_events=100, max_bytes=450, timeout_seconds=0.0)) == 2
    assert len(outbox.take(max_events=100, max_bytes=1, timeout_seconds=0.0)) == 1


def test_half_a_surrogate_pair_still_goes_out() -> None:
    outbox = Outbox(10, 1 << 20, largest_bytes=1000)
    put(outbox, body='{"a":"\ud800"}')
    assert json.loads(take(outbox)[0].data)["body"] == {"a": "?"}


class ExactlyOnce(RuleBasedStateMachine):
    """However requests fail and are repeated, a receiver that counts numbers counts each once."""

    def __init__(self) -> None:
        super().__init__()
        self.outbox = Outbox(5, 1 << 20, largest_bytes=1000)
        self.put: list[int] = []
        self.received: list[int] = []

    @rule(kind=st.sampled_from(["progress", "idle", "started", "terminated"]))
    def add(self, kind: str) -> None:
        self.put.append(put(self.outbox, kind))

    @rule(
        events=st.integers(1, 4),
        meanwhile=st.lists(st.sampled_from(["progress", "started"]), max_size=8),
        arrives=st.booleans(),
        reply_arrives=st.booleans(),
    )
    def exchange(
        self, events: int, meanwhile: list[str], arrives: bool, reply_arrives: bool
    ) -> None:
        batch = take(self.outbox, events)
        for kind in meanwhile:
            self.add(kind)
        if batch and arrives:
            known = max(self.received, default=0)
            self.received += [item.sequence for item in batch if item.sequence > known]
            if reply_arrives:
                self.outbox.settle(max(self.received))
        self.outbox.landed()

    @invariant()
    def numbers_count_up_by_one(self) -> None:
        assert self.put == list(range(1, len(self.put) + 1))

    @invariant()
    def each_is_received_once_in_order(self) -> None:
        assert self.received == sorted(set(self.received))

    @invariant()
    def what_is_unsent_and_under_way_is_counted_apart(self) -> None:
        progresses = [item for item in self.outbox._pending if item.kind == "progress"]
        counted = [sum(taken[0] for taken in one.values()) for one in self.outbox._progress]
        sent = sum(item.sequence <= self.outbox._in_flight for item in progresses)
        assert counted == [len(progresses) - sent, sent]

    @invariant()
    def nothing_is_lost_without_a_count(self) -> None:
        waiting = {item.sequence for item in self.outbox._pending}
        gone = set(self.put) - waiting - set(self.received)
        assert len(gone) <= self.outbox.dropped_total
        assert len(self.outbox) <= 5


TestExactlyOnce = ExactlyOnce.TestCase
TestExactlyOnce.settings = settings(deadline=None)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["progress", "heartbeat", "started", "idle"]), max_size=60))
def test_it_is_always_in_order_and_bounded(kinds: list[str]) -> None:
    outbox = Outbox(7, 1 << 20, largest_bytes=1000)
    for kind in kinds:
        put(outbox, kind)
    numbers = [item.sequence for item in take(outbox)]
    assert numbers == sorted(numbers)
    assert len(numbers) <= 7


def test_the_queue_is_bounded_in_bytes_and_what_is_dropped_is_counted() -> None:
    """Half a million numbers a batch: a query that reads many partitions, the agent gone."""
    outbox = Outbox(2000, 1 << 20, largest_bytes=500_000)
    put(outbox, "started")
    for _ in range(30):
        put(outbox, body='{"offsets":"' + "7" * 100_000 + '"}')
    sizes = [len(item.data) for item in outbox._pending]
    assert 900_000 < sum(sizes) <= 1 << 20
    assert outbox._pending_bytes == sum(sizes)
    assert outbox.dropped_total == 31 - len(outbox)
    kinds = [item.kind for item in outbox._pending]
    assert kinds == ["started"] + ["progress"] * 10
    take(outbox)
    outbox.settle(31)
    assert (len(outbox), outbox._pending_bytes) == (0, 0)


def test_the_unacknowledged_tail_counts_too() -> None:
    outbox = Outbox(2000, 1 << 20, largest_bytes=500_000)
    for _ in range(30):
        put(outbox, body='{"offsets":"' + "7" * 100_000 + '"}')
        take(outbox)  # sent, and never acknowledged
        outbox.landed()
    assert sum(len(item.data) for item in outbox._pending) <= 1 << 20


def test_by_default_four_of_the_largest_requests_wait() -> None:
    assert QUEUE_BYTES == Settings().queue_bytes == 4 * MAX_REQUEST_BYTES
