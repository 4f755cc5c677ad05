"""Alignment: a table of stages, a REST API that misbehaves, and two jobs on real Spark."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.core.judge.alignment import Task, align, worst
from agent.sources.spark_rest import Found, SparkRest, tasks
from tests.judgement.slow_host import HOSTS
from tests.service.agents import AgentProcess


def stage(seconds: list[float], rows: list[int] | None = None, hosts: str = "") -> list[Task]:
    """``hosts``: a letter a task; large ones are executors of one host."""
    places = hosts or "a" * len(seconds)
    return [
        Task(
            index,
            places[index],
            "h" if places.isupper() else places[index],
            value,
            rows[index] if rows else None,
        )
        for index, value in enumerate(seconds)
    ]


@pytest.mark.parametrize(
    ("seconds", "rows", "hosts", "why", "partition"),
    [
        ([1.0, 1.1, 0.9, 1.0], [10, 10, 10, 10], "", "even", 1),
        ([1.0, 1.1, 9.0, 1.0], [10, 10, 90, 10], "", "skew", 2),
        ([1.0, 1.1, 9.0, 1.0], [10, 10, 10, 10], "", "slow_task", 2),
        ([1.0, 1.1, 9.0, 1.0], None, "", "slow_task", 2),
        ([1.0, 1.0, 1.0, 4.0, 3.9, 1.1], [9] * 6, "aaabba", "slow_host", 3),
        ([1.0, 1.0, 1.0, 4.0, 3.9, 1.1], [9] * 6, "AAABBA", "slow_executor", 3),
        ([1.0, 1.0, 1.0, 4.0, 1.0, 1.1], [9] * 6, "aaabba", "slow_host", 3),
        ([1.0, 1.0, 1.0, 4.0, 1.0, 1.1], [9] * 6, "aaabaa", "slow_task", 3),
        ([1.0, 1.0, 1.0, 4.0, 3.9, 1.1], [9, 9, 9, 90, 9, 9], "aaabba", "skew", 3),
        ([0.01, 0.01, 0.09], [1, 1, 9], "", "even", 2),  # too short to be worth words
    ],
)
def test_what_a_stage_waited_for(
    seconds: list[float], rows: list[int] | None, hosts: str, why: str, partition: int
) -> None:
    found = align(7, "start at job.py:3", stage(seconds, rows, hosts))
    assert found is not None
    assert (found.why, found.partition) == (why, partition)
    assert bool(found.advice) == (why != "even")
    assert found.wait_seconds == pytest.approx(
        max(seconds) - sorted(seconds)[len(seconds) // 2], abs=0.2
    )


def test_state_partitions_are_fixed_and_the_advice_says_so() -> None:
    skewed = stage([1.0, 1.0, 9.0], [1, 1, 90])
    stateless, stateful = align(1, "", skewed), align(1, "", skewed, stateful=True)
    assert stateless is not None
    assert stateful is not None
    assert "fixed" in stateful.advice
    assert "fixed" not in stateless.advice


def test_too_few_tasks_tell_nothing_and_the_longest_wait_is_the_worst() -> None:
    assert align(1, "", stage([1.0, 9.0])) is None
    one, two = align(1, "", stage([1.0, 1.0, 2.0])), align(2, "", stage([1.0, 1.0, 5.0]))
    assert one is not None
    assert two is not None
    assert worst([one, two]) is two
    assert worst([]) is None


@pytest.mark.parametrize(
    "listed",
    [
        None,
        {},
        7,
        "x",
        [None, 3, {}],
        [{"partitionId": -1, "duration": 5, "status": "SUCCESS"}],
        [{"partitionId": 1, "duration": "long", "status": "SUCCESS"}],
        [{"partitionId": 1, "duration": 10**400, "status": "SUCCESS"}],
        [{"partitionId": 2**53, "duration": 5, "status": "SUCCESS"}],
        [{"partitionId": 1, "duration": 5, "status": "FAILED"}],
    ],
)
def test_malformed_tasks_are_left_out(listed: Any) -> None:
    assert tasks(listed) == []


def look(answer: Any) -> Found:
    async def go() -> Found:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            return await SparkRest("http://driver:4040", "app", client).look("run")

    return asyncio.run(go())


def _slow(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("slow", request=request)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: httpx.Response(404), "404"),
        (lambda _: httpx.Response(200, text="<html>"), "whole answer"),
        (lambda _: httpx.Response(200, text='[{"jobId": 1, "sta'), "whole answer"),
        (lambda _: httpx.Response(200, json={"jobs": 1}), "no finished job"),
        (lambda _: httpx.Response(200, content=b" " * (9 * 1024 * 1024)), "whole answer"),
        (_slow, "out of reach"),
    ],
)
def test_a_rest_api_that_misbehaves_gives_a_reason(answer: Any, said: str) -> None:
    found = look(answer)
    assert found.alignments == []
    assert said in found.missing


def test_stages_that_are_gone_are_counted() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/jobs"):
            job = {"jobId": 3, "jobGroup": "run", "status": "SUCCEEDED", "stageIds": [4, 5]}
            return httpx.Response(200, json=[job])
        return httpx.Response(404)

    assert "2 stages are gone" in look(answer).missing


@pytest.mark.parametrize("place", [7, 4999])
def test_of_a_stage_of_more_tasks_than_are_read_the_slowest_is_told(place: int) -> None:
    """Spark lists those first that began first: a straggler of the last wave is not among them."""
    ran = [
        {
            "partitionId": number,
            "duration": 60_000 if number == place else 1000,
            "status": "SUCCESS",
            "executorId": "2",
            "host": "worker-2",
            "taskMetrics": {"inputMetrics": {"recordsRead": 10}},
        }
        for number in range(5000)
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        path, asked = request.url.path, request.url.params
        if path.endswith("/jobs"):
            job = {"jobId": 3, "jobGroup": "run", "status": "SUCCEEDED", "stageIds": [4]}
            return httpx.Response(200, json=[job])
        if not path.endswith("/taskList"):
            stage = {"status": "COMPLETE", "attemptId": 0, "name": "x", "numTasks": len(ran)}
            return httpx.Response(200, json=[stage])
        slowest = asked.get("sortBy") == "-runtime"
        order = sorted(ran, key=lambda one: -int(str(one["duration"]))) if slowest else ran
        return httpx.Response(200, json=order[: int(asked["length"])])

    (found,) = look(answer).alignments
    assert (found.tasks, found.partition, found.why) == (5000, place, "slow_task")
    assert found.wait_seconds == pytest.approx(59.0)
    assert found.input_rows is None, "those of 2,000 tasks are not all that it read"


def job(*arguments: str, module: str = "skewed_jobs", seconds: float = 280.0) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.judgement.{module}", *arguments],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


@pytest.mark.slow("a Spark of its own for each; beside an agent one is looked at every time")
@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.course("two Sparks more; beside an agent one is looked at by make test-all")
@pytest.mark.parametrize("why", ["skew", "slow_task"])
def test_skew_and_a_slow_task_are_named_on_a_real_spark(why: str, tmp_path: Path) -> None:
    said = job(why, str(tmp_path))
    assert said["found"] is not None, said["missing"]
    assert said["found"]["why"] == why, said
    assert said["found"]["partition"] == said["partition"], said
    assert said["found"]["advice"]


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.slow("a Spark of its own with a skewed query; recorded stages are judged every time")
def test_an_agent_beside_a_real_spark_names_the_skewed_partition(tmp_path: Path) -> None:
    with AgentProcess(tmp_path) as agent:
        said = job("skew", str(tmp_path), agent.address)
    assert said["found"] is not None, said
    assert said["found"]["why"] == "skew", said
    assert said["found"]["partition"] == said["partition"], said
    assert any(f"partition {said['partition']}" in line for line in said["advice"]), said
    assert said["metrics"], said


def _has_second_host() -> bool:
    with socket.socket() as one:
        try:
            one.bind((HOSTS[1], 0))
        except OSError:
            return False
    return True


@pytest.mark.slow("a cluster of several workers")
@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.skipif(not _has_second_host(), reason="only Linux has all of 127.0.0.0/8")
def test_a_slow_host_is_named_on_a_real_cluster_and_no_salting_advised(tmp_path: Path) -> None:
    said = job(str(tmp_path), module="slow_host", seconds=580.0)
    assert said["looks"], said
    found = said["looks"][-1]
    assert (found["why"], found["host"], found["executor"]) == (
        "slow_host",
        said["host"],
        said["executor"],
    )
    assert "look at that host" in found["advice"]
    assert not any(look["why"] == "skew" or "salting" in look["advice"] for look in said["looks"])
