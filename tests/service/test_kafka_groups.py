"""The process that writes groups: what becomes of it, and of whoever waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import psutil
import pytest
import structlog
from confluent_kafka import KafkaError, KafkaException

from agent.service import kafka_groups as service_groups
from agent.service.kafka_groups import FAILED_SECONDS, REFUSED_SECONDS, KafkaGroups
from agent.sources import kafka_groups
from agent.sources.kafka import REASON_SECONDS, Brokers, GroupRefused, KafkaUnavailable
from agent.sources.kafka_groups import GroupWriter
from tests.service import wire
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from agent.core.decode.kafka_offsets import Offsets
    from agent.core.fleet import Fleet, Key

OFFSETS = {("orders", "0"): 5}
NOBODY = "127.0.0.1:1"


def child(writer: GroupWriter) -> int:
    found = until(lambda: writer._child is not None and writer._child.pid, "the child")
    return int(found)


@pytest.mark.slow("waits for brokers that are not there")
def test_a_child_that_dies_is_said_and_another_begun() -> None:
    writer = GroupWriter(NOBODY, {})
    try:
        with pytest.raises(KafkaUnavailable, match=NOBODY):
            writer.write_group("g", OFFSETS)
        first = child(writer)
        os.kill(first, signal.SIGKILL)
        for _ in range(2):  # the first may be the one that finds it dead
            with pytest.raises(KafkaUnavailable):
                writer.write_group("g", OFFSETS)
        assert child(writer) != first
    finally:
        writer.close()
    assert writer._child is None


def test_closing_waits_for_no_answer() -> None:
    writer = GroupWriter(NOBODY, {})
    failures: list[Exception] = []

    def write() -> None:
        try:
            writer.write_group("g", OFFSETS)
        except KafkaUnavailable as error:
            failures.append(error)

    waiting = threading.Thread(target=write)
    waiting.start()
    os.kill(child(writer), signal.SIGSTOP)  # it never answers
    began = time.monotonic()
    writer.close()
    waiting.join()
    assert time.monotonic() - began < kafka_groups.ANSWER_SECONDS / 2
    assert len(failures) == 1


def test_the_child_runs_nothing_that_lies_where_the_agent_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may write there, and it is told what opens the brokers."""
    mark = tmp_path / "ran"
    for module in ("json", "runpy", "agent", "confluent_kafka"):
        (tmp_path / f"{module}.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    begun: list[list[str]] = []

    def note(command: list[str], **_: object) -> None:
        begun.append(command)
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(kafka_groups.subprocess, "Popen", note)
        with pytest.raises(KafkaUnavailable):
            GroupWriter(NOBODY, {}).write_group("g", OFFSETS)
    done = subprocess.run(
        begun[0],
        cwd=tmp_path,
        input=json.dumps({"bootstrap": NOBODY, "options": {}}),
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not mark.exists()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_agent_of_a_thousand_connections_hears_its_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its pipe has a number that ``select`` does not take."""
    begun = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, begun[1]), begun[1]))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    answers = "import sys\nfor _ in sys.stdin: print('{}', flush=True)"
    real = subprocess.Popen
    monkeypatch.setattr(
        kafka_groups.subprocess,
        "Popen",
        lambda _, **given: real([sys.executable, "-c", answers], **given),
    )
    writer = GroupWriter(NOBODY, {})
    try:
        writer.write_group("g", OFFSETS)
    finally:
        writer.close()
        for one in held:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, begun)


def test_options_stand_on_no_command_line() -> None:
    writer = GroupWriter(NOBODY, {"sasl.password": "hunter2"})
    try:
        with pytest.raises(KafkaUnavailable) as error:
            writer.write_group("g", OFFSETS)
        assert "hunter2" not in str(error.value)
        assert b"hunter2" not in Path(f"/proc/{child(writer)}/cmdline").read_bytes()
    finally:
        writer.close()


def answering(told: list[Any]) -> Brokers:
    """Brokers whose group is empty, and which tell so of what is written to it."""
    brokers = Brokers(NOBODY, {})
    polls: list[float] = []

    def answer(places: list[Any]) -> Any:
        def ask(requests: list[Any], **_: object) -> dict[str, Future[Any]]:
            assert polls, "or the client keeps each error that it would have told"
            future: Future[Any] = Future()
            future.set_result(SimpleNamespace(topic_partitions=places))
            return {requests[0].group_id: future}

        return ask

    brokers._admin = SimpleNamespace(
        poll=polls.append,
        list_consumer_group_offsets=answer([]),
        alter_consumer_group_offsets=answer(told),
    )
    return brokers


def place(number: int, code: int | None = None) -> Any:
    error = None if code is None else KafkaError(code)
    return SimpleNamespace(topic="orders", partition=number, error=error)


def test_a_partition_that_brokers_do_not_take_is_named_beside_those_that_they_took() -> None:
    gone = KafkaError.UNKNOWN_TOPIC_OR_PART
    with pytest.raises(GroupRefused, match=r"^orders-1: .*; 2 others were written$"):
        answering([place(0), place(1, gone), place(2)]).write_group("g", OFFSETS)
    with pytest.raises(GroupRefused, match=r"^orders-0 and 1 more: [^;]*$"):
        answering([place(0, gone), place(1, gone)]).write_group("g", OFFSETS)
    members = KafkaError.UNKNOWN_MEMBER_ID
    with pytest.raises(GroupRefused, match=r"^it has members$"):
        answering([place(0, members), place(1, members)]).write_group("g", OFFSETS)
    answering([place(0), place(1)]).write_group("g", OFFSETS)


def failing(code: int) -> Brokers:
    """Brokers that answer each question about a group with this code."""
    brokers = Brokers(NOBODY, {})

    def ask(requests: list[Any], **_: object) -> dict[str, Future[Any]]:
        future: Future[Any] = Future()
        future.set_exception(KafkaException(KafkaError(code)))
        return {requests[0].group_id: future}

    brokers._admin = SimpleNamespace(poll=lambda _: None, list_consumer_group_offsets=ask)
    return brokers


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, GroupRefused),
        (KafkaError.INVALID_GROUP_ID, GroupRefused),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaUnavailable),
        (KafkaError.NOT_COORDINATOR, KafkaUnavailable),
        (KafkaError._TIMED_OUT, KafkaUnavailable),
        (KafkaError._ALL_BROKERS_DOWN, KafkaUnavailable),
    ],
)
def test_what_a_broker_says_of_a_group_is_its_refusal(code: int, raised: type[Exception]) -> None:
    with pytest.raises(raised):
        failing(code).write_group("g", OFFSETS)


@pytest.mark.parametrize("age_seconds", [REASON_SECONDS - 5.0, REASON_SECONDS + 5.0])
@pytest.mark.parametrize("refused", [False, True])
def test_an_old_reason_is_over_once_a_group_is_answered_for(
    age_seconds: float, refused: bool
) -> None:
    brokers = answering([place(0)])
    reason = KafkaError(KafkaError._SSL, "handshake failed")
    brokers._reasons.append((time.monotonic() - age_seconds, reason))
    if refused:
        brokers._admin = failing(KafkaError.GROUP_AUTHORIZATION_FAILED)._admin
    with pytest.raises(GroupRefused) if refused else contextlib.nullcontext():
        brokers.write_group("g", OFFSETS)
    brokers._admin = failing(KafkaError._TIMED_OUT)._admin
    with pytest.raises(KafkaUnavailable) as caught:
        brokers.write_group("g", OFFSETS)
    assert ("handshake failed" in str(caught.value)) == (age_seconds < REASON_SECONDS)


def test_a_child_that_cannot_make_a_request_says_so_without_what_it_holds() -> None:
    def write_group(*_: object) -> None:
        raise ValueError("hunter2")

    brokers = cast("Brokers", SimpleNamespace(write_group=write_group))
    for offsets in ([["orders", "0", 5]], [["orders"]]):
        answer = kafka_groups._answer(brokers, {"group": "g", "offsets": offsets})
        assert answer == {"failed": "ValueError"}


class Group:
    """Queries of a fleet, and brokers that raise what they are given for their groups."""

    def __init__(self, *queries: str) -> None:
        self.now = 1000.0
        self.offset = 0
        self.queries = queries
        self.raises: dict[str, Exception] = {}
        self.asked: list[str] = []
        self.written: dict[str, int] = {}
        self.committed_calls = 0
        self.groups = KafkaGroups(
            lambda: cast("Fleet", self),
            cast("GroupWriter", self),
            lambda: self.now,
            pattern="{application}-{query}",
        )

    def keep_offsets(self) -> None:
        pass

    def committed(self) -> dict[Key, Offsets]:
        self.committed_calls += 1
        return {("a", query): {("t", "0"): self.offset} for query in self.queries}

    def write_group(self, group: str, offsets: Offsets) -> None:
        self.asked.append(group)
        if group in self.raises:
            raise self.raises[group]
        self.written[group] = offsets["t", "0"]

    def look(self, after_seconds: float = 1.0) -> tuple[int, int, int]:
        """How many are then written, refused and failed."""
        self.now += after_seconds
        self.offset += 1
        asyncio.run(self.groups.look())
        return tuple(self.groups.states()[one] for one in ("written", "refused", "failed"))  # type: ignore[return-value]


UNAUTHORIZED = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)


def test_a_group_that_brokers_refuse_stops_none_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what they answer, through the child's own words."""
    brokers = {"a-one": failing(UNAUTHORIZED.code()), "rest": answering([place(0)])}
    group = Group("one", "two", "three")
    write = group.write_group

    def through(name: str, offsets: Offsets) -> None:
        asked = {"group": name, "offsets": [[*of, at] for of, at in offsets.items()]}
        answer = kafka_groups._answer(brokers.get(name, brokers["rest"]), asked)
        if "refused" in answer:
            raise GroupRefused(answer["refused"])
        if "failed" in answer:
            raise KafkaUnavailable(answer["failed"])
        write(name, offsets)

    monkeypatch.setattr(group, "write_group", through)
    with structlog.testing.capture_logs() as said:
        assert group.look() == (2, 1, 0)
    assert group.written == {"a-two": 1, "a-three": 1}
    (line,) = said
    assert "'a-one'" in line["event"]
    assert UNAUTHORIZED.str() in str(line["cause"])
    monkeypatch.undo()
    assert group.look(FAILED_SECONDS) == (2, 1, 0)
    assert group.asked == ["a-two", "a-three"] * 2, "the refused one waits a minute"
    assert group.look(REFUSED_SECONDS) == (3, 0, 0)


def test_a_group_for_which_nobody_answers_stops_none_behind_it() -> None:
    """As where the client ends over it."""
    group = Group("one", "two", "three")
    group.raises["a-one"] = KafkaUnavailable("ended")
    with structlog.testing.capture_logs() as said:
        assert group.look() == (2, 0, 1)
    assert group.written == {"a-two": 1, "a-three": 1}
    assert ["'a-one'" in line["event"] for line in said] == [True]
    assert group.look() == (2, 0, 1)
    assert group.asked.count("a-one") == 1
    assert group.look(FAILED_SECONDS) == (2, 0, 1)
    assert group.asked[-1] == "a-one", "the last, as it may take long"
    group.raises.clear()
    assert group.look(FAILED_SECONDS) == (3, 0, 0)


def test_brokers_that_are_gone_are_not_asked_for_each_group() -> None:
    queries = [f"q{number}" for number in range(9)]
    group = Group(*queries)
    group.raises = {f"a-{query}": KafkaUnavailable("no answer") for query in queries}
    with structlog.testing.capture_logs() as said:
        assert group.look() == (0, 0, 9)
        assert group.look() == (0, 0, 9)
    assert group.asked == ["a-q0", "a-q1"]
    assert any("brokers cannot be told" in line["event"] for line in said)
    for query in queries[2:]:  # then these two alone
        del group.raises[f"a-{query}"]
    assert group.look(FAILED_SECONDS) == (7, 0, 2)


def test_each_group_is_in_one_state_while_brokers_are_gone() -> None:
    """Those that were asked for in a round before and are not reached in this one, too."""
    queries = [f"q{number}" for number in range(9)]
    group = Group(*queries)
    group.raises = {f"a-{query}": KafkaUnavailable("no answer") for query in queries}
    with structlog.testing.capture_logs():
        for _ in range(6):
            assert group.look(FAILED_SECONDS) == (0, 0, 9)
        group.raises.clear()
        assert group.look(FAILED_SECONDS) == (9, 0, 0)
        group.raises = {"a-q8": GroupRefused("it has members")}
        assert group.look() == (8, 1, 0)
        group.raises = {f"a-{query}": KafkaUnavailable("no answer") for query in queries}
        assert group.look(REFUSED_SECONDS) == (0, 1, 8), "the refused one is not reached"


def test_what_is_wanted_is_worked_out_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group("one", "two")
    named: list[object] = []
    real = service_groups.groups_of

    def groups_of(pattern: str, committed: dict[Key, Offsets]) -> dict[str, Offsets]:
        named.append(committed)
        return real(pattern, committed)

    monkeypatch.setattr(service_groups, "groups_of", groups_of)
    assert group.look() == (2, 0, 0)
    assert (group.committed_calls, len(named)) == (1, 1)


def test_no_child_is_begun_after_the_end() -> None:
    writer = GroupWriter(NOBODY, {})
    writer.close()
    with pytest.raises(KafkaUnavailable):
        writer.write_group("g", OFFSETS)
    assert writer._child is None


def test_an_agent_ends_while_its_child_hangs(tmp_path: Path) -> None:
    options = ("--kafka-bootstrap-servers", NOBODY, "--kafka-commit-group", "{application}-{query}")
    with AgentProcess(tmp_path, *options) as agent:
        event = wire.progress(1, name="enrich", batch_id=1, time=time.time(), limit=None)
        event.pop("limits", None)
        (source, *_) = event["body"]["sources"]
        source["description"] = "KafkaV2[Subscribe[orders]]"
        source["startOffset"] = {"orders": {"0": 0}}
        source["endOffset"] = source["latestOffset"] = {"orders": {"0": 5}}
        event["body"]["sources"] = [source]
        assert agent.post(wire.body([event], application="orders")).status_code == 200
        itself = psutil.Process(agent.process.pid)

        def writing() -> psutil.Process | None:
            found = (one for one in itself.children() if kafka_groups.__name__ in one.cmdline())
            return next(found, None)

        hung = until(writing, "the child")
        hung.suspend()
        try:
            assert agent.stop() == 0, "though its answer would be awaited for longer"
            assert not hung.is_running()
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                hung.kill()
        assert "cannot be written" not in agent.log_path.read_text()
