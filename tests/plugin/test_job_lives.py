"""Jobs end, are killed and begin as they would without Weir, in whatever language."""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from spark_listener import plugin
from tests.plugin.conftest import JOBS
from tests.plugin.driving import beyond, limit, order, secrets
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugin.conftest import Bench
    from tests.service.agents import AgentProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.mark.slow("jobs in pairs; that one ends as ever is looked at every time")
@pytest.mark.parametrize(
    "ending",
    [
        "exit 7",
        "kill",
        *(
            pytest.param(one, marks=pytest.mark.course("a pair more"))
            for one in ("throw", "stop", "return")
        ),
    ],
)
def test_a_job_ends_as_it_would_without(
    bench: Bench,
    agent: AgentProcess,
    query: Callable[[str], dict[str, Any]],
    ending: str,
) -> None:
    bench.files(10)
    told: list[tuple[int, str, list[str]]] = []
    jobs = {
        name: bench.submit(name=name, ways=ways, ending=ending)
        for name, ways in (("without", ()), ("with", plugin.CONFS[:1]))
    }
    query("lines")
    for name, job in jobs.items():
        until(lambda name=name: bench.read(name) == bench.all_lines(), "all to be read")
        if ending == "kill":
            job.process.send_signal(signal.SIGTERM)
        else:
            (bench.folder / name / "stop").touch()
    for name, job in jobs.items():
        code = job.wait()
        out = "\n".join(line for line in job.out.splitlines() if not line.startswith("run "))
        told.append((code, out, bench.read(name)))
    assert told[0] == told[1]
    until(lambda: not query("lines")["up"], "the end to be told")
    assert not list(bench.doors.iterdir()), "no door of a driver that has ended"


@pytest.mark.slow("a job each")
@pytest.mark.parametrize(("how", "failures"), [(signal.SIGKILL, 1), (signal.SIGTERM, 0)])
def test_a_driver_that_is_killed_has_failed_and_one_that_is_stopped_has_not(
    bench: Bench,
    agent: AgentProcess,
    query: Callable[[str], dict[str, Any]],
    how: signal.Signals,
    failures: int,
) -> None:
    bench.files(10)
    job = bench.submit()
    query("lines")
    job.process.send_signal(how)
    job.wait()
    until(lambda: not query("lines")["up"], "the end to be told", seconds=60)
    failed = 'weir_batches_total{application="a job",query="lines",result="failed"}'
    assert agent.metrics()[failed] == failures


@pytest.mark.course("twenty kills, one after the other")
@pytest.mark.slow("twenty kills; that one goes unnoticed is looked at every time")
def test_twenty_kills_at_random(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    bench.files(20)
    job = bench.submit(limit="3")
    run_id = query("lines")["run_id"]
    drawn = random.Random(1)
    longest = 0.0
    for _ in range(20):
        time.sleep(drawn.uniform(0.0, 3.0))
        bench.files(5)
        one = until(lambda: beyond(agent), "a process at the door")
        one.kill()
        began = time.monotonic()
        until(lambda one=one: (new := beyond(agent)) and new.pid != one.pid, "the next")
        longest = max(longest, time.monotonic() - began)
    bench.files(5)
    until(lambda: bench.read() == bench.all_lines(), "every line, once")
    again = until(lambda: (q := query("lines")) and q["up"] and q, "the query")
    assert again["run_id"] == run_id, "no start in between"
    assert again["sources"][0]["configured"] == 3
    print(f"longest until the next process: {longest:.2f} s")
    told = [line for line in job.err.splitlines() if "weir" in line and " INFO " not in line]
    # Of one that was killed before it was in, nothing is told.
    assert 10 < len(told) / 2 <= 20
    for line, words in zip(told, ("gone", "back") * (len(told) // 2), strict=True):
        assert f"process is {words}" in line, "a word when it goes, one when it is back, no other"


@pytest.mark.slow("stands still for longer than a process at the door may be silent")
def test_where_the_drivers_jvm_stood_still_the_door_stays_open_and_the_limit_in_force(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    """A collector at work for long, or a container that is frozen: who is in could not be heard."""
    bench.files(10)
    job = bench.submit(limit="5")
    query("lines")
    order(agent, "lines", 2)
    until(lambda: limit(query("lines")) == 2, "the limit")
    inside = until(lambda: beyond(agent), "a process at the door")
    for _ in range(3):  # it is a race, who is first when all wakes up
        job.process.send_signal(signal.SIGSTOP)
        time.sleep(11)
        job.process.send_signal(signal.SIGCONT)
        bench.files(6)
        until(lambda: bench.read() == bench.all_lines(), "every line, once")
    assert beyond(agent) == inside
    assert "process is gone" not in job.err
    assert limit(query("lines")) == 2
    assert max(bench.batches()[-6:]) == 2


@pytest.mark.slow("a job of its own")
def test_a_query_that_starts_again_in_another_session_at_once(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    """As when a Connect client comes back: the same checkpoint, so the same id."""
    bench.files(10)
    job = bench.submit(JOBS / "sessions_job.py", limit="2", seconds=60)
    seen = set()
    while job.process.poll() is None:
        run_id = query("lines")["run_id"]
        seen.add(run_id)
        (bench.folder / "job" / run_id).touch()
        time.sleep(0.1)
    assert job.wait() == 0
    assert seen == {line.split()[1] for line in job.out.splitlines()}
    assert len(seen) == 6


@pytest.mark.slow("a job of its own; one in Java is regulated every time")
def test_a_pyspark_job_without_a_line_of_ours(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    bench.files(10)
    job = bench.submit(JOBS / "python_job.py", limit="2", seconds=12)
    assert query("lines")["control"] == "live"
    assert job.wait() == 0
    assert job.out.splitlines() == ["over"]
    until(lambda: not query("lines")["up"], "the end to be told")


@pytest.mark.slow("a job more; one that names it as a listener is regulated every time")
def test_one_that_names_it_as_a_plugin_too_has_one_door(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    bench.files(10)
    job = bench.submit(ways=plugin.CONFS, seconds=8)
    assert query("lines")["control"] == "live"
    assert len(secrets(bench)) == 1
    assert job.wait() == 0
    assert not list(bench.doors.iterdir())


@pytest.mark.slow("jobs more; who says that Weir is off is looked at every time")
@pytest.mark.parametrize("said", ["enabled", "contorl"])
def test_what_attach_says_to_be_off_is_off_behind_the_door_too(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]], said: str
) -> None:
    bench.files(10)
    go = bench.folder / "go"
    job = bench.submit(JOBS / "python_job.py", limit="2", seconds=120, ending=f"refuse {said} {go}")
    query("lines")
    order(agent, "lines", 1, application="python job")
    until(lambda: limit(query("lines")) == 1, "the limit that was ordered")
    go.touch()
    until(lambda: beyond(agent) is None, "the process at the door to leave")
    until(lambda: "detached" in job.out.splitlines(), "the job to say so")
    assert "not attached" in job.out.splitlines()
    until(lambda: bench.read() == bench.all_lines(), "all to be read")
    before = len(bench.batches())
    bench.files(20)
    until(lambda: bench.read() == bench.all_lines(), "all to be read")
    assert max(bench.batches()[before:]) == 2, "as configured"
    job.process.send_signal(signal.SIGTERM)
    job.wait()


@pytest.mark.slow("a job more; both ways in are taken every time")
def test_a_job_that_attaches_itself_wins_and_says_so(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    bench.files(10)
    conf = (f"spark.weir.agent.url={agent.address}",)
    job = bench.submit(JOBS / "python_job.py", limit="2", seconds=20, ending="attach", conf=conf)
    found = query("lines")
    assert found["control"] == "live"
    until(lambda: beyond(agent) is None, "the process at the door to leave")
    until(lambda: query("lines")["last_progress_time"] != found["last_progress_time"], "a batch")
    listeners = agent.http.get("/v1/queries").json()["listeners"]
    newest = max(listeners, key=lambda one: one["last_heard_time"])["listener"]
    assert job.process.pid in {one.pid for one in psutil.Process(newest["python_pid"]).parents()}
    assert [path.read_text() for path in bench.doors.glob("*.door")] == ["weir door 1\naside\n"]
    until(
        lambda: "a driver is left to itself" in {one["event"] for one in agent.log()},
        "the agent to say so",
    )
    assert job.wait() == 0
    assert job.out.splitlines() == ["attached", "over"]
    assert not list(bench.doors.iterdir())
