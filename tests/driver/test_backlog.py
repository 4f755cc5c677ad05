"""Backlog from progress and from directories: unknown is None, a lower bound stays below."""

from __future__ import annotations

import itertools
import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_listener import files
from spark_listener.backlog import (
    admitted_of,
    backlog_of,
    log_offset,
    offsets_between,
    told_whole,
)
from spark_listener.complaints import Complaints
from spark_listener.files import (
    LOCAL_SHARE,
    REMOTE_SHARE,
    FileBacklog,
    FileWatcher,
    Listing,
    Waiting,
    _Watched,
    rest_seconds,
)
from spark_listener.sources import FILES, KAFKA
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

DELTA = "org.apache.spark.sql.delta.sources.DeltaSource"
AUTO_LOADER = "com.databricks.sql.fileNotification.autoIngest.CloudFilesSource"
QUEUED = {
    "numFilesOutstanding": "3",
    "numBytesOutstanding": "93964496",
    "approximateQueueSize": "14353",
}


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}, 4),
        ('{"t":{"0":5}}', '{"t":{"0":9}}', 4),
        ({"t": {"0": 5}}, {"t": {"0": 9, "1": 100}}, 4),  # where a new partition began: unknown
        ({"t": {"0": 50}}, {"t": {"0": 9}}, 0),  # a topic made anew
        (None, {"t": {"0": 9}}, None),
        ({"t": {"0": 9}}, None, None),
        ({"logOffset": 3}, {"logOffset": 4}, None),
        ({"t": {"0": -1}}, {"t": {"0": 9}}, None),
        ({"t": {"0": True}}, {"t": {"0": 9}}, None),
        ("not json", {"t": {"0": 9}}, None),
        ({}, {}, None),
    ],
)
def test_offsets(start: Any, end: Any, expected: int | None) -> None:
    assert offsets_between(start, end) == expected


@pytest.mark.parametrize(
    ("source", "class_name", "unit", "expected"),
    [
        (
            {"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 8}}},
            KAFKA.classes[0],
            "rows",
            3,
        ),
        ({"endOffset": {"t": {"0": 5}}, "latestOffset": None}, KAFKA.classes[0], "rows", None),
        (
            {"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 9}}},
            KAFKA.classes[1],
            "rows",
            4,
        ),
        ({"metrics": {"numFilesOutstanding": "12"}}, DELTA, "files", 12),
        ({"metrics": {"numBytesOutstanding": "9000"}}, DELTA, "bytes", 9000),
        ({"metrics": {"estimatedTotalBytesBehindLatest": "70"}}, DELTA, "bytes", 70),
        ({"metrics": {"numFilesOutstanding": "many"}}, DELTA, "files", None),
        ({"metrics": {"numFilesOutstanding": "-1"}}, DELTA, "files", None),
        # three files are listed, and a queue holds about 14,353 more that are not
        ({"metrics": QUEUED}, AUTO_LOADER, "files", 14_356),
        ({"metrics": {**QUEUED, "approximateQueueSize": "some"}}, AUTO_LOADER, "files", 3),
        ({"metrics": QUEUED}, AUTO_LOADER, "bytes", 93_964_496),
        ({"metrics": {"approximateQueueSize": "7"}}, AUTO_LOADER, "files", None),
        ({"metrics": None}, DELTA, "files", None),
        ({}, FILES.classes[0], "files", None),
    ],
)
def test_backlog(source: Any, class_name: str, unit: Any, expected: int | None) -> None:
    assert backlog_of(source, class_name, unit) == expected


def test_admitted() -> None:
    kafka = {"startOffset": {"t": {"0": 1}}, "endOffset": {"t": {"0": 5}}, "numInputRows": 8}
    assert admitted_of(kafka, KAFKA.classes[0], "rows") == 4  # a self-join reads each row twice
    kafka["endOffset"] = {"t": {"0": 5, "1": 90}}  # of a new partition nobody tells where it began
    assert admitted_of(kafka, KAFKA.classes[0], "rows") is None
    assert admitted_of({"numInputRows": 8}, "x", "rows") == 8
    assert admitted_of({"numInputRows": -1}, "x", "rows") is None
    assert admitted_of({"numInputRows": 8}, DELTA, "files") is None
    found = {"startOffset": '{"seqNum":40,"sourceVersion":1}', "endOffset": {"seqNum": 46}}
    assert admitted_of(found, AUTO_LOADER, "files") == 6
    assert admitted_of(found, AUTO_LOADER, "bytes") is None
    assert admitted_of({**found, "startOffset": None}, AUTO_LOADER, "files") is None
    assert admitted_of({**found, "endOffset": {"seqNum": 3}}, AUTO_LOADER, "files") is None


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [({}, True), ({"isBacklogComputationComplete": "true"}, True),
     ({"isBacklogComputationComplete": "false"}, False),
     ({"isBacklogComputationComplete": False}, False)],
)  # fmt: skip
def test_auto_loader_says_where_its_figures_are_of_a_part(metrics: Any, expected: bool) -> None:
    assert told_whole(metrics) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [({"logOffset": 3}, 3), ('{"logOffset": 3}', 3), (None, None), ({"logOffset": -1}, None),
     ({}, None), (3, None), ("x", None)],
)  # fmt: skip
def test_log_offset(value: Any, expected: int | None) -> None:
    assert log_offset(value) == expected


def listing(files: int, seen: int, *, exact: bool = True) -> Listing:
    return Listing(files, seen, 1000.0, exact=exact)


def test_nothing_known_is_none() -> None:
    assert FileBacklog().waiting(5, None).backlog is None


def test_the_unread_list_is_a_lower_bound() -> None:
    waiting = FileBacklog().waiting(5, 10)
    assert (waiting.backlog, waiting.bound, waiting.observed_time) == (10, "lower", None)


def test_a_listing_sees_what_the_unread_list_misses() -> None:
    state = FileBacklog()
    state.listed(listing(files=100, seen=5))
    waiting = state.waiting(5, 10)
    assert (waiting.backlog, waiting.bound) == (95, "exact")
    assert waiting.observed_time == "1970-01-01T00:16:40.000Z"


def test_what_was_taken_since_the_listing_is_taken_off() -> None:
    state = FileBacklog()
    state.listed(listing(files=100, seen=5))
    assert state.waiting(25, None).backlog == 75
    assert state.waiting(200, None).backlog == 0  # new ones came and went unseen


def test_drained_is_zero_not_unknown() -> None:
    state = FileBacklog()
    state.listed(listing(files=100, seen=100))
    assert state.waiting(100, None).backlog == 0


def test_files_that_the_source_forgets_by_age_do_not_come_back_as_backlog() -> None:
    state = FileBacklog()
    state.listed(listing(files=100, seen=80))
    assert state.waiting(80, None).backlog == 20
    assert state.waiting(30, None).backlog == 20  # 50 forgotten, none taken
    assert state.waiting(40, None).backlog == 10


def test_where_read_files_are_deleted_a_listing_is_a_lower_bound() -> None:
    state = FileBacklog(deletes=True)
    state.listed(listing(files=10, seen=500))
    waiting = state.waiting(500, 3)
    assert (waiting.backlog, waiting.bound) == (3, "lower")


def test_fewer_files_than_were_read_tell_nothing_of_those_that_wait() -> None:
    """Somebody else removes them."""
    state = FileBacklog()
    state.listed(listing(files=10, seen=500))
    assert state.waiting(500, None).backlog is None
    assert state.waiting(530, None).arrived == 30, "what was taken has arrived, whatever waits"
    waiting = state.waiting(530, 7)
    assert (waiting.backlog, waiting.bound, waiting.observed_time) == (7, "lower", None)


def test_where_files_were_removed_once_what_a_listing_tells_later_is_a_lower_bound() -> None:
    state = FileBacklog()
    state.listed(listing(files=10, seen=500))
    state.listed(listing(files=500, seen=500))
    assert state.waiting(500, None).backlog is None, "490 may wait"
    state.listed(listing(files=610, seen=500))
    waiting = state.waiting(500, None)
    assert (waiting.backlog, waiting.bound) == (110, "lower")


def test_files_that_came_and_were_read_while_folders_were_walked_were_not_removed() -> None:
    state = FileBacklog()
    state.listed(replace(listing(files=500, seen=520), seen_before=495))
    waiting = state.waiting(520, None)
    assert (waiting.backlog, waiting.bound) == (0, "lower")
    state.listed(replace(listing(files=490, seen=520), seen_before=495))
    assert state.waiting(520, None).backlog is None


def test_where_read_files_are_deleted_no_more_than_were_read_tell_nothing_either() -> None:
    state = FileBacklog(deletes=True)
    state.listed(listing(files=100, seen=60, exact=False))
    assert state.waiting(60, None) == Waiting(40, 40, "1970-01-01T00:16:40.000Z", "lower")
    assert state.waiting(100, None).backlog is None
    assert [state.waiting(seen, None).arrived for seen in (130, 130, 150)] == [70, 70, 90]


def test_files_forgotten_between_a_listing_and_the_next_look_are_not_taken() -> None:
    state = FileBacklog()
    state.waiting(80, None)
    state.listed(listing(files=50, seen=30))
    assert state.waiting(30, None).backlog == 20


def test_files_taken_since_a_listing_stay_taken_however_often_it_is_looked_at() -> None:
    state, found = FileBacklog(), listing(files=100, seen=80)
    for seen, backlog in ((90, 10), (50, 10), (55, 5), (55, 5)):
        state.listed(found)
        assert state.waiting(seen, None).backlog == backlog


def test_a_listing_is_not_believed_any_more_once_none_can_be_made() -> None:
    state = FileBacklog()
    state.listed(listing(files=100, seen=80))
    assert state.waiting(80, None).backlog == 20
    state.listed(None)
    assert state.waiting(80, None).backlog is None
    assert state.waiting(80, 7).backlog == 7


class Looked:
    """A directory that is found as a test says, look by look."""

    share = 0.5

    def __init__(self, *looks: Listing | None | Exception) -> None:
        self.looks = iter(looks)

    def entries(self) -> int:
        return 0

    def list_files(self, _: Any) -> Listing | None:
        found = next(self.looks)
        if isinstance(found, Exception):
            raise found
        return found


@pytest.mark.parametrize("then", [None, OSError("gone"), listing(files=11, seen=0)])
def test_a_directory_that_can_no_longer_be_listed_has_no_listing(
    then: Listing | None | Exception,
) -> None:
    """It holds files past their age, is gone, or holds too many."""
    watcher = FileWatcher(
        pause_seconds=2.0, max_entries=10, list_directories=True, complaints=Complaints()
    )
    watched = _Watched(Looked(listing(files=9, seen=0), then), due=0.0)
    watcher._watched["r", 0] = watched
    watcher._list(watched)
    assert watcher.listing(("r", 0)) is not None
    watcher._list(watched)
    assert watcher.listing(("r", 0)) is None


def test_a_handler_of_the_log_that_takes_its_time_holds_nobody_who_asks_the_watcher() -> None:
    class Handler(logging.Handler):
        def emit(self, _: logging.LogRecord) -> None:
            saying.set()
            goes_on.wait(30.0)

    saying, goes_on, handler = threading.Event(), threading.Event(), Handler()
    watcher = FileWatcher(
        pause_seconds=2.0, max_entries=10, list_directories=True, complaints=Complaints()
    )
    logging.getLogger("weir").addHandler(handler)
    try:
        watcher.watch(("r", 0), Looked(listing(files=11, seen=0)))
        assert saying.wait(30.0)
        asking = threading.Thread(target=watcher.forget, args=("r",), daemon=True)
        asking.start()
        asking.join(10.0)
        assert not asking.is_alive()
    finally:
        goes_on.set()
        logging.getLogger("weir").removeHandler(handler)
        watcher.stop()


def test_a_thread_that_could_not_be_started_is_started_with_the_next_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As at a limit on processes, which one query may meet and the next may not."""
    watcher = FileWatcher(
        pause_seconds=2.0, max_entries=10, list_directories=True, complaints=Complaints()
    )

    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", none_left)
        with pytest.raises(RuntimeError):
            watcher.watch(("r", 0), Looked(listing(files=9, seen=0)))
    watcher.watch(("s", 0), Looked(listing(files=9, seen=0)))
    for key in (("r", 0), ("s", 0)):
        until(lambda key=key: watcher.listing(key), "a listing")  # type: ignore[misc]
    watcher.stop()


@settings(deadline=None)
@given(st.data())
def test_never_more_than_the_truth_and_arrivals_never_decrease(data: st.DataObject) -> None:
    """A directory that only grows: every backlog told is at most the true one."""
    state = FileBacklog()
    files, seen, arrived = 0, 0, 0
    for _ in range(data.draw(st.integers(1, 30))):
        files += data.draw(st.integers(0, 5))
        if data.draw(st.booleans()):
            state.listed(listing(files, seen))
        seen += data.draw(st.integers(0, files - seen))
        unread = data.draw(st.none() | st.integers(0, files - seen))
        waiting = state.waiting(seen, unread)
        if waiting.backlog is not None and waiting.arrived is not None:
            assert 0 <= waiting.backlog <= files - seen
            assert waiting.backlog >= (unread or 0)
            assert waiting.arrived >= arrived
            arrived = waiting.arrived


@settings(deadline=None)
@given(st.data())
def test_arrivals_are_counted_although_the_source_forgets_as_many_files_as_it_takes(
    data: st.DataObject,
) -> None:
    """As with more history than `maxFileAge`, where both happen in one planning."""
    state, ahead = FileBacklog(), data.draw(st.booleans())  # the next batch is planned by then
    seen, taken, before = 1000, 0, 0
    for batch in range(20):
        for _ in range(2 if ahead and not batch else 1):
            taken += 10
            seen -= data.draw(st.integers(0, 30)) - 10
        state.ended(10)
        arrived = state.waiting(seen, 5).arrived
        assert arrived is not None
        before = before or taken
        assert arrived <= taken - before + 5
    assert arrived >= 18 * 10


@pytest.mark.parametrize(
    ("taken", "share", "rest"),
    [
        (0.1, LOCAL_SHARE, 9.9),  # a core's time: one part in a hundred
        (1.0, REMOTE_SHARE, 19.0),  # waits for a network: one in twenty
    ],
)
def test_a_listing_takes_its_share_of_the_time_at_most(
    taken: float, share: float, rest: float
) -> None:
    assert rest_seconds(taken, share) == pytest.approx(rest)


class Clockwork:
    """A clock that moves where somebody waits or works, and the condition that is waited for."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Slow:
    """A directory whose listing takes its time."""

    def __init__(self, clock: Clockwork, seconds: float, share: float) -> None:
        self.clock, self.seconds, self.share = clock, seconds, share
        self.looks: list[float] = []

    def entries(self) -> int:
        return 0

    def list_files(self, _: Any) -> Listing:
        self.looks.append(self.clock.now)
        self.clock.now += self.seconds
        return listing(files=1, seen=0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clockwork:
    clock = Clockwork()
    monkeypatch.setattr(files, "time", clock)
    return clock


def watcher_of(clock: Clockwork) -> FileWatcher:
    watcher = FileWatcher(
        pause_seconds=2.0, max_entries=10, list_directories=True, complaints=Complaints()
    )
    watcher._changed = cast("threading.Condition", clock)
    return watcher


def played(clock: Clockwork, directories: Sequence[Slow], seconds: float) -> None:
    """The watcher's thread, for so long."""
    watcher = watcher_of(clock)
    for at, one in enumerate(directories):
        watcher._watched["r", at] = _Watched(one, due=clock.now)
    end = clock.now + seconds
    while clock.now < end:
        due = watcher._next_due()
        if due is not None:
            watcher._list(due)


@pytest.mark.parametrize("many", [1, 20])
def test_however_many_directories_there_are_their_listings_keep_the_share(
    clock: Clockwork, many: int
) -> None:
    near = [Slow(clock, 0.05, LOCAL_SHARE) for _ in range(many)]
    far = [Slow(clock, 1.0, REMOTE_SHARE) for _ in range(many)]
    played(clock, [*near, *far], 3600.0)
    taken = sum(len(one.looks) * one.seconds / one.share for one in (*near, *far))
    assert taken < 3600.0 + 1.0 / REMOTE_SHARE
    if many == 20:
        assert taken > 3500.0, "and they use it"
        counts = [len(one.looks) for one in (*near, *far)]
        assert max(counts) - min(counts) <= 1, "each in its turn"


def test_a_directory_that_is_listed_quickly_is_listed_as_often_as_is_asked_for(
    clock: Clockwork,
) -> None:
    one = Slow(clock, 0.001, LOCAL_SHARE)
    played(clock, [one], 3.0)
    assert one.looks[1] - one.looks[0] == pytest.approx(2.001)


def test_storage_that_does_not_answer_keeps_other_directories_waiting_for_minutes_alone(
    clock: Clockwork,
) -> None:
    hung, other = Slow(clock, 600.0, REMOTE_SHARE), Slow(clock, 0.001, LOCAL_SHARE)
    played(clock, [hung, other], 3600.0)
    assert other.looks[0] - hung.looks[0] == 600.0, "the first look is due at once"
    assert other.looks[1] - other.looks[0] == pytest.approx(600.001, abs=1e-6)
    assert len(hung.looks) == 1, "it has its share, and no more"
    assert len(other.looks) > 1000


def test_a_query_that_starts_over_and_over_leaves_no_other_directory_unseen(
    clock: Clockwork,
) -> None:
    """The first look of each start is at once, and would else move the others' for ever."""
    watcher = watcher_of(clock)
    steady = Slow(clock, 0.05, LOCAL_SHARE)
    watcher._watched["steady", 0] = _Watched(steady, due=clock.now)
    end, start = clock.now + 2 * 3600.0, clock.now
    while clock.now < end:
        if clock.now >= start:
            watcher._watched["again", 0] = _Watched(Slow(clock, 4.0, LOCAL_SHARE), due=clock.now)
            start += 300.0
        due = watcher._next_due()
        if due is not None:
            watcher._list(due)
    apart = [after - before for before, after in itertools.pairwise(steady.looks)]
    assert len(apart) > 5
    assert max(apart) < 900.0
