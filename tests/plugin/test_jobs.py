"""Jobs in Java and Scala that know nothing of Weir are regulated, and never notice."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psutil
import pytest

from spark_listener import door, plugin
from tests.plugin.cluster import living
from tests.plugin.conftest import JOBS
from tests.service.agents import AgentProcess, weir
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugin.conftest import Bench

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def beyond(agent: AgentProcess) -> psutil.Process | None:
    """The agent's process at the door."""
    return next(living(psutil.Process(agent.process.pid).children()), None)


def limit(found: dict[str, Any]) -> int | None:
    return found["sources"][0]["limit"]


def order(agent: AgentProcess, name: str, files: int, application: str = "a job") -> None:
    answer = agent.http.post(
        f"/v1/queries/{quote(application)}/{name}/control",
        json={"limit": files, "unit": "files", "reason": "a test"},
    )
    assert answer.status_code == 200, answer.text


def test_a_java_job_is_regulated_and_a_kill_beyond_the_door_goes_unnoticed(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    bench.files(60)
    job = bench.submit(limit="5")
    found = query("lines")
    assert found["control"] == "live"
    assert found["application"] == "a job"
    assert bench.doors.stat().st_mode & 0o777 == 0o700, "the plugin made it"
    assert agent.metrics()['weir_agent_doors{state="attached"}'] == 1
    order(agent, "lines", 2)
    until(lambda: limit(query("lines")) == 2, "the limit that was ordered")
    bench.files(4)
    until(lambda: query("lines")["sources"][0]["backlog"] == 0, "the files to be read")
    first = beyond(agent)
    assert first is not None
    first.kill()
    began = time.monotonic()
    # Not the first that begins: the plugin may still be closing the door, and that one then ends.
    until(
        lambda: any(
            one["listener"].get("python_pid") not in (None, first.pid)
            for one in agent.http.get("/v1/queries").json()["listeners"]
        ),
        "another process at the door to tell",
    )
    print(f"attached again after {time.monotonic() - began:.2f} s")
    again = query("lines")
    assert again["run_id"] == found["run_id"]
    assert again["sources"][0]["configured"] == 5, "not what the first had set"
    until(lambda: limit(query("lines")) == 2, "the order to be in force again")
    before_it = secrets(bench)
    agent.stop()
    until(lambda: secrets(bench) not in ([], before_it), "the door to be opened anew")
    before = len(bench.batches())
    bench.files(20)
    until(lambda: bench.read() == bench.all_lines(), "every line, once")
    assert max(bench.batches()[before:]) == 5, "as configured, with nobody at the door"
    assert job.err.count("WARN weir: weir: the agent's process is gone") == 2
    assert job.err.count("WARN weir: weir: the agent's process is back") == 1
    assert job.process.poll() is None
    job.process.send_signal(signal.SIGTERM)
    assert job.wait() == 143


@pytest.mark.slow("a job of its own, which hangs for a while")
def test_a_hung_batch_is_seen_and_the_switch_puts_back_what_was_configured(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    bench.files(10)
    bench.submit(limit="5", hang=True)
    query("lines")
    order(agent, "lines", 2)
    until(lambda: limit(query("lines")) == 2, "the limit that was ordered")
    until(lambda: bench.read() == bench.all_lines(), "all to be read")
    before = len(bench.batches())
    bench.hang.touch()
    bench.files(12)
    # What waits is what no batch was planned to read; heartbeats tell it while nothing else does.
    until(lambda: (query("lines")["running_seconds"] or 0.0) > 6.0, "the hung batch's age to grow")
    (hung,) = bench.batches()[before:]
    assert 1 <= hung <= 2, "as ordered, or the one that was there when it was planned"
    waits = 12 - hung
    until(lambda: query("lines")["sources"][0]["backlog"] == waits, "the exact backlog")
    assert bench.batches()[before:] == [hung]
    done = weir("mode", "off", "lines", "--url", agent.address)
    assert done.returncode == 0, done.stderr
    until(lambda: limit(query("lines")) == 5, "what was configured")
    bench.hang.unlink()
    until(lambda: bench.read() == bench.all_lines(), "every line, once")
    assert bench.batches()[before:][:3] == [hung, 5, 5], "off within a batch"


def secrets(bench: Bench) -> list[str]:
    """Of the doors; each that opens has one of its own."""
    found = []
    for path in bench.doors.glob("*.door"):
        with contextlib.suppress(OSError, door.NoDoor):
            found.append(door.read(path).token)
    return found


@pytest.mark.slow("a job of its own; what was configured comes back every time")
def test_where_nothing_is_configured_the_last_grant_stays_while_one_may_come(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    bench.files(2)
    job = bench.submit(limit="none")
    query("lines")
    order(agent, "lines", 3)
    until(lambda: limit(query("lines")) == 3, "the limit that was ordered")
    agent.kill()
    before = len(bench.batches())
    bench.files(12)
    until(lambda: bench.read() == bench.all_lines(), "every line, once")
    assert max(bench.batches()[before:]) == 3, "everything at once would be worse"
    with AgentProcess(
        bench.folder / "agent", "--doors", str(bench.doors), "--target-seconds", "1"
    ) as later:
        source = until(
            lambda: next(
                (
                    one["sources"][0]
                    for one in later.http.get("/v1/queries").json()["queries"]
                    if one["sources"]
                ),
                None,
            ),
            "the query",
        )
        assert source["configured"] is None, "what the agent before had set is no configuration"
        assert source["limit"] == 3
        # As if the disk were full: the next door cannot be opened, so nobody can come.
        bench.doors.rename(bench.folder / "elsewhere")
        bench.doors.write_text("a file")
    until(lambda: "until it can be opened" in job.err, "the door to stay closed")
    before = len(bench.batches())
    bench.files(12)
    until(lambda: bench.read() == bench.all_lines(), "every line, once")
    assert max(bench.batches()[before:]) > 3, "as configured"
    bench.doors.unlink()
    until(lambda: secrets(bench), "the door to be opened, now that it can be")


@pytest.mark.slow("a job of its own; what was configured comes back every time")
def test_a_limit_that_could_drop_late_rows_unwatched_is_gone_with_the_process(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    """Where nothing is configured, too."""
    bench.files(2)
    job = bench.submit(JOBS / "watermark_job.py", limit="none")
    query("lines")
    order(agent, "lines", 3, application="watermark job")
    until(lambda: limit(query("lines")) == 3, "the limit that was ordered")
    bench.files(12)
    until(lambda: sum(bench.batches()) == 14, "the files to be read")
    assert max(bench.batches()[-4:]) == 3
    agent.kill()
    until(lambda: "process is gone" in job.err, "the process at the door to leave")
    before = len(bench.batches())
    bench.files(60)
    until(lambda: sum(bench.batches()) == 14 + 60, "the files to be read")
    assert max(bench.batches()[before:]) > 3, "as configured"


@pytest.mark.slow("jobs that attach late; that one wins is looked at every time")
@pytest.mark.parametrize("where", ["attach", "elsewhere"])
def test_what_a_process_beyond_the_door_left_is_no_configuration_of_who_attaches(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]], where: str
) -> None:
    """Nor does it stay, where who attaches watches another session: the door is closed for good."""
    bench.files(2)
    go = bench.folder / "go"
    job = bench.submit(
        JOBS / "python_job.py",
        limit="none",
        ending=f"{where} {go}",
        conf=(f"spark.weir.agent.url={agent.address}",),
    )
    query("lines")
    order(agent, "lines", 3, application="python job")
    until(lambda: limit(query("lines")) == 3, "the limit that was ordered")
    agent.kill()
    until(lambda: "process is gone" in job.err, "the process at the door to leave")
    go.touch()
    until(lambda: "detached" in job.out.splitlines(), "the job to attach and to detach")
    # That the agent is gone is said whenever its driver has found that out.
    own = [line for line in job.out.splitlines() if not line.startswith("weir: ")]
    assert own[-2:] == ["attached", "detached"]
    before = len(bench.batches())
    bench.files(60)
    until(lambda: bench.read() == bench.all_lines(), "every line, once")
    assert max(bench.batches()[before:]) > 3, "everything at once, as the job has it"


@pytest.mark.slow("six jobs; that one ends as ever is looked at every time")
@pytest.mark.parametrize("ending", ["exit 7", "throw", "stop", "return", "kill"])
def test_a_job_ends_as_it_would_without(
    bench: Bench,
    agent: AgentProcess,
    query: Callable[[str], dict[str, Any]],
    ending: str,
) -> None:
    bench.files(10)
    told: list[tuple[int, str, list[str]]] = []
    for ways in ((), plugin.CONFS[:1]):
        name = "with" if ways else "without"
        job = bench.submit(name=name, ways=ways, ending=ending)
        if ways:
            query("lines")
        until(lambda name=name: bench.read(name) == bench.all_lines(), "all to be read")
        if ending == "kill":
            job.process.send_signal(signal.SIGTERM)
        else:
            (bench.folder / name / "stop").touch()
        code = job.wait()
        out = "\n".join(line for line in job.out.splitlines() if not line.startswith("run "))
        told.append((code, out, bench.read(name)))
    assert told[0] == told[1]
    until(lambda: not query("lines")["up"], "the end to be told")
    assert not list(bench.doors.iterdir()), "no door of a driver that has ended"


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


@pytest.mark.slow("a job, and a compiler for it")
def test_both_sessions_of_a_scala_job(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    bench.files(20)
    job = bench.submit("ScalaJob", limit="2", seconds=20)
    first, second = query("first"), query("second")
    assert first["control"] == second["control"] == "live"
    assert first["application_id"] == second["application_id"]
    assert job.wait() == 0
    assert job.out.splitlines()[-1] == "over"
    warned = [one for one in agent.log() if one["level"] not in ("info", "debug")]
    assert warned == [], "an end is nothing to be warned of"
    until(lambda: not query("first")["up"] and not query("second")["up"], "both ends to be told")


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


def test_a_job_whose_doors_cannot_be_is_told_once_and_goes_on(bench: Bench) -> None:
    bench.doors.write_text("a file")
    bench.files(5)
    job = bench.submit()
    until(lambda: bench.read() == bench.all_lines(), "all to be read")
    bench.doors.unlink()
    until(lambda: secrets(bench), "the door to be opened, now that it can be")
    assert job.err.count("weir: the door is open") == 1
    job.process.send_signal(signal.SIGTERM)
    assert job.wait() == 128 + signal.SIGTERM
    warned = [line for line in job.err.splitlines() if "weir: the door is closed" in line]
    assert len(warned) == 1


@pytest.mark.slow("two jobs; that a first batch waits is tried every time in tests/spark")
def test_the_first_batch_after_a_start_obeys_what_was_learned(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    bench.files(10)
    job = bench.submit(limit="none", seconds=600)
    query("lines")
    order(agent, "lines", 3)
    until(lambda: limit(query("lines")) == 3, "the limit that was ordered")
    until(lambda: bench.read() == bench.all_lines(), "all to be read")
    job.process.send_signal(signal.SIGTERM)
    job.wait()
    before = len(bench.batches())
    bench.files(30)
    bench.submit(limit="none", seconds=600)
    until(lambda: len(bench.batches()) > before, "the first batch of the second run")
    assert bench.batches()[before] == 3
