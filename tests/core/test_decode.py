"""Decoding: tolerant of Spark, exact about what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.decode.events import (
    MOST_PARTS,
    MOST_RUNNING,
    HeartbeatEvent,
    MalformedRequest,
    ProgressEvent,
    StartedEvent,
    TooManyEvents,
    decode_event,
    decode_limits,
    decode_progress,
    decode_request,
)
from agent.core.decode.kafka_offsets import parse_offsets, remaining_rows
from spark_listener.wire import MAX_EVENTS_PER_REQUEST
from tests.core.events import Driver

PROGRESS: dict[str, Any] = {
    "id": "q",
    "runId": "r",
    "timestamp": "2026-11-21T08:55:02.865Z",
    "batchId": 3,
    "numInputRows": 10,
    "durationMs": {"triggerExecution": 1500, "walCommit": 20},
    "sources": [],
}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("BigQueryStreamingSink(a=x@1, latestBatchId=-1)", "BigQueryStreamingSink(a=x@1)"),
        ("BigQueryStreamingSink(a=x@1, latestBatchId=12)", "BigQueryStreamingSink(a=x@1)"),
        (
            f"BigQueryStreamingSink({'x' * 480}, latestBatchId=1)",
            f"BigQueryStreamingSink({'x' * 478}",
        ),
        ("FileSink[/a, latestBatchId=1)/b]", "FileSink[/a, latestBatchId=1)/b]"),
    ],
)
def test_a_sink_that_counts_its_batches_is_one_and_the_same(said: str, kept: str) -> None:
    driver = Driver()
    events = (driver.started(sink=said), driver.progress(1, 1.0, sink={"description": said}))
    request = decode_request(driver.body(*events))
    started, ended = (event.body for _, event in request.events)
    assert isinstance(started, StartedEvent)
    assert isinstance(ended, ProgressEvent)
    assert started.sink == ended.progress.sink == kept


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "truncated"),
        (b'{"application": {"id": "a"', "truncated"),
        (b"null", "object"),
        (b"[]", "object"),
        (b"{}", "application"),
        (b'{"application": 3}', "$.application"),
        (b'{"application":{"id":"a","name":"b"},"listener":{},"events":[]}', "instance"),
        (b'{"application":{"id":"","name":"b"},"listener":{"instance":"i"},"events":[]}', "id"),
        (b'{"application":{"id":"a","name":"\xff"}}', "utf-8"),
        (b"[" * 100_000, "object"),
        (
            b'{"application":{"id":"a","name":"b"},"listener":{"instance":"i"},"events":['
            + b"[" * 100_000
            + b"]" * 100_000
            + b"]}",
            "nested",
        ),
    ],
)
def test_an_envelope_that_cannot_be_used_says_what_and_where(body: bytes, says: str) -> None:
    with pytest.raises(MalformedRequest, match=None) as error:
        decode_request(body)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"type": "nonsense"}, "type: 'nonsense'"),
        ({"type": None}, "type"),
        ({"time": None}, "time"),
        ({"time": "yesterday"}, "time: 'yesterday'"),
        ({"time": "2026-11-21T08:55:02.865"}, "time"),
        ({"body": []}, "body"),
        ({"body": {**PROGRESS, "id": 3}}, "body.id"),
        ({"body": {**PROGRESS, "runId": None}}, "body.runId"),
        ({"body": {**PROGRESS, "timestamp": "soon"}}, "body.timestamp"),
        ({"limits": {}}, "limits"),
        ({"limits": [{"source": -1, "unit": "rows"}]}, "limits[0].source"),
        ({"limits": [{"source": 0, "unit": 3}]}, "limits[0].unit"),
        ({"limits": [{"source": 0, "unit": ""}]}, "limits[0].unit"),
        ({"limits": [{"source": 0}]}, "limits[0].unit"),
        ({"sequence": 0}, "sequence"),
        ({"sequence": True}, "sequence"),
        ({"sequence": 1.5}, "sequence"),
        ({"sequence": 2**70}, "sequence"),
    ],
)
def test_one_bad_event_is_refused_by_its_index_and_the_others_kept(
    change: dict[str, Any], says: str
) -> None:
    driver = Driver()
    good, bad, other = driver.progress(1, 1.0), driver.progress(1, 1.0), driver.progress(1, 1.0)
    bad.update({"body": {**PROGRESS}, "time": "2026-11-21T08:55:02.865Z", **change})
    request = decode_request(driver.body(good, bad, other))
    assert [index for index, _ in request.events] == [0, 2]
    (refused,) = request.refused
    assert refused.index == 1
    assert says in refused.error


@pytest.mark.parametrize("value", [-1, None, "12", True, [], {}, 1e400, float("nan")])
@pytest.mark.parametrize("key", ["numInputRows", "batchId"])
def test_a_number_that_cannot_be_is_missing_and_never_zero(key: str, value: object) -> None:
    progress = decode_progress({**PROGRESS, key: value})
    assert getattr(progress, {"numInputRows": "rows", "batchId": "batch_id"}[key]) is None


@pytest.mark.parametrize("said", [None, 3, [], {}])
def test_a_trigger_that_is_no_text_is_not_known(said: object) -> None:
    driver = Driver()
    events = [driver.progress(1, 1.0) | {"trigger": one} for one in (said, driver.trigger)]
    found = [event.body for _, event in decode_request(driver.body(*events)).events]
    assert [one.trigger for one in found if isinstance(one, ProgressEvent)] == ["", driver.trigger]


def test_durations_are_seconds_and_the_whole_is_not_a_phase() -> None:
    progress = decode_progress({**PROGRESS, "durationMs": {"triggerExecution": 1500, "x": -1}})
    assert progress.seconds == 1.5
    assert progress.phases == {}


def test_rows_come_from_the_sources_where_the_event_log_has_none_at_the_top() -> None:
    body = {k: v for k, v in PROGRESS.items() if k != "numInputRows"}
    body["sources"] = [{"numInputRows": 4}, {"numInputRows": 5}]
    assert decode_progress(body).rows == 9
    body["sources"] = [{"numInputRows": 4}, {"numInputRows": -1}]
    assert decode_progress(body).rows is None


@pytest.mark.parametrize(
    ("end", "latest", "rows"),
    [
        ({"t": {"0": 10, "1": 5}}, {"t": {"0": 12, "1": 9}}, 6),
        ('{"t":{"0":10}}', '{"t":{"0":12}}', 2),  # the event log's offsets are texts
        ({"t": {"0": 10}}, {"t": {"0": 8}}, 0),  # the topic was made anew: not negative
        ({"t": {"0": 10}}, {"t": {"0": 10, "1": 7}}, 0),  # a new partition has no known end yet
        ({"logOffset": 3}, {"logOffset": 9}, None),
        ("7", "9", None),
        (None, {"t": {"0": 1}}, None),
        ({"t": {"x": 1}}, {"t": {"x": 2}}, None),
        ({"T-1.a_b": {"0": 10}}, {"T-1.a_b": {"0": 12}}, 2),
        # Brokers that speak as Kafka's do name topics otherwise.
        ({"/apps/s:t": {"0": 10}}, {"/apps/s:t": {"0": 12}}, 2),
        # Alibaba's LogHub, project and store: times, of which a difference is no number of rows.
        ({"p#s": {"0": 1409569200}}, {"p#s": {"0": 1409569260}}, None),
        # What a client of Kafka's refuses to ask about.
        ({"": {"0": 10}}, {"": {"0": 12}}, None),
        ({"a\0b": {"0": 10}}, {"a\0b": {"0": 12}}, None),
        ({"t" * 2**15: {"0": 10}}, {"t" * 2**15: {"0": 12}}, None),
        ({"t": {"\N{SUPERSCRIPT TWO}": 10}}, {"t": {"\N{SUPERSCRIPT TWO}": 12}}, None),
        ({"t": {"2147483648": 10}}, {"t": {"2147483648": 12}}, None),
        ({"t": {"9" * 5000: 10}}, {"t": {"9" * 5000: 12}}, None),
        ({"t": {"2147483647": 10}}, {"t": {"2147483647": 12}}, 2),
        ("{broken", "{broken", None),
    ],
)
def test_kafka_backlog_is_latest_minus_end_over_the_partitions(
    end: object, latest: object, rows: int | None
) -> None:
    assert remaining_rows(parse_offsets(end), parse_offsets(latest)) == rows


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(
    st.dictionaries(
        st.sampled_from(
            [*PROGRESS, "sources", "stateOperators", "eventTime", "sink", "name", "batchDuration"]
        ),
        json_values,
    )
)
def test_whatever_a_future_spark_writes_never_breaks_more_than_its_event(
    strange: dict[str, Any],
) -> None:
    event = {
        "type": "progress",
        "time": "2026-11-21T08:55:02.865Z",
        "body": {**PROGRESS, **strange},
    }
    try:
        decoded = decode_event(event, 1)
    except ValueError as error:
        assert str(error).startswith("body.")  # noqa: PT017
    else:
        assert isinstance(decoded.body, ProgressEvent)


#: As `date -u --date "57854-11-30 07:26:40" +%s` has it.
FAR_SECONDS = 1_763_557_514_800.0


@pytest.mark.parametrize("far", ["57854-11-30T07:26:40.000Z", "+57854-11-30T07:26:40.000Z"])
def test_milliseconds_taken_for_seconds_are_far_ahead_and_not_unknown(far: str) -> None:
    """As Spark 3.5 writes them, and 4: years that ISO 8601 as Python reads it has no place for."""
    later = far.replace("T07:26", "T07:36")
    told = {"watermark": far, "max": later, "avg": far, "min": "2026-11-21T08:55:02.865Z"}
    event = {
        "type": "progress",
        "time": "2026-11-21T08:55:02.865Z",
        "body": {**PROGRESS, "eventTime": told},
    }
    body = decode_event(event, 1).body
    assert isinstance(body, ProgressEvent)
    progress = body.progress
    assert progress.watermark_time == FAR_SECONDS
    assert progress.greatest_event_time == FAR_SECONDS + 600
    assert progress.mean_event_time == FAR_SECONDS


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_malformed_request(body: bytes) -> None:
    try:
        decode_request(body)
    except MalformedRequest as error:
        assert str(error)  # noqa: PT017


def test_more_events_than_a_request_may_hold_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Driver()
    most = [driver.idle() for _ in range(MAX_EVENTS_PER_REQUEST)]
    assert len(decode_request(driver.body(*most)).events) == MAX_EVENTS_PER_REQUEST
    monkeypatch.setattr("agent.core.decode.events._usual", None)
    monkeypatch.setattr("agent.core.decode.events._looked_at", None)
    with pytest.raises(TooManyEvents, match="501 events"):
        decode_request(driver.body(*most, 0))  # type: ignore[arg-type]


def test_a_word_of_a_newer_driver_silences_nothing_but_what_it_is_about() -> None:
    """A heartbeat is of all queries of a driver: refused, it lets all of them count as gone."""
    driver = Driver()
    known = {"source": 0, "unit": "rows", "limit": 5}
    newer = {"source": 1, "unit": "splits", "limit": 5}
    bounds = ("exact", "lower", "upper", None, "partial")
    told = [known | {"backlog_bound": bound} for bound in bounds]
    beat = driver.heartbeat(limits=[newer, *told])
    beat["body"]["queries"].append({"id": "q-2", "runId": "r-2", "limits": [newer]})
    request = decode_request(driver.body(beat, driver.progress(1, 1.0, limits=[known, newer])))
    assert request.refused == []
    (_, heard), (_, batch) = request.events
    assert isinstance(heard.body, HeartbeatEvent)
    assert isinstance(batch.body, ProgressEvent)
    first, second = heard.body.queries
    assert [one.source for one in first.limits] == [1, *[0] * len(bounds)]
    said = [one.backlog_bound for one in first.limits[1:]]
    assert said == ["exact", "lower", "lower", "exact", "lower"]
    assert [one.partial for one in first.limits[1:]] == [bound == "partial" for bound in bounds]
    assert [one.control for one in first.limits] == ["advice", *len(bounds) * ["live"]]
    assert [one.control for one in second.limits] == ["advice"]
    assert [one.control for one in batch.body.limits] == ["live", "advice"]


def test_of_a_query_no_more_parts_are_looked_at_than_there_may_be() -> None:
    many: list[Any] = [{}] * (MOST_PARTS + 1)
    progress = decode_progress({**PROGRESS, "sources": many, "stateOperators": many})
    assert (len(progress.sources), len(progress.operators)) == (MOST_PARTS, MOST_PARTS)
    limits = [{"source": 0, "unit": "rows"}] * (MOST_PARTS + 1)
    assert len(decode_limits(limits, "limits")) == MOST_PARTS
    driver = Driver()
    beat = driver.heartbeat()
    beat["body"]["queries"] *= MOST_RUNNING + 1
    (refused,) = decode_request(driver.body(beat)).refused
    assert refused.error == "body.queries: 10001, which is more than 10000"


def test_unknown_fields_are_ignored() -> None:
    driver = Driver()
    data = json.loads(driver.body({**driver.idle(), "future": {"a": 1}}))
    data["more"] = True
    assert len(decode_request(json.dumps(data).encode()).events) == 1
