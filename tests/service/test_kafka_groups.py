"""The process that writes groups: what becomes of it, and of whoever waits for it."""

from __future__ import annotations

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
from typing import Any

import pytest
from confluent_kafka import KafkaError

from agent.sources import kafka_groups
from agent.sources.kafka import Brokers, GroupRefused, KafkaUnavailable
from agent.sources.kafka_groups import GroupWriter
from tests.waiting import until

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
