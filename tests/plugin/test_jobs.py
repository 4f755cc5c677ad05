"""Jobs in Java and Scala that know nothing of Weir are regulated, and never notice."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.conftest import JOBS
from tests.plugin.driving import beyond, instances, limit, order, secrets
from tests.service.agents import AgentProcess, weir
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugin.conftest import Bench

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


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
    told = instances(agent)
    first.kill()
    began = time.monotonic()
    # Not the first that begins: the plugin may still be closing the door, and that one then ends.
    until(lambda: instances(agent) - told, "another process at the door to tell")
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
    bench.files(1)  # alone: of what was listed with it Spark would keep a list, shorter than 5
    until(lambda: bench.batches()[before:] == [1], "a batch of it, which hangs")
    bench.files(11)
    # What waits is what no batch was planned to read; heartbeats tell it while nothing else does.
    until(lambda: (query("lines")["running_seconds"] or 0.0) > 6.0, "the hung batch's age to grow")
    until(lambda: query("lines")["sources"][0]["backlog"] == 11, "the exact backlog")
    assert bench.batches()[before:] == [1]
    done = weir("mode", "off", "lines", "--url", agent.address)
    assert done.returncode == 0, done.stderr
    until(lambda: limit(query("lines")) == 5, "what was configured")
    bench.hang.unlink()
    until(lambda: bench.read() == bench.all_lines(), "every line, once")
    assert bench.batches()[before:] == [1, 5, 5, 1], "off within a batch"


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
    time.sleep(5 if where == "elsewhere" else 0)  # where nobody watches it, it is for a while
    before = len(bench.batches())
    bench.files(60)
    until(lambda: bench.read() == bench.all_lines(), "every line, once")
    assert max(bench.batches()[before:]) > 3, "everything at once, as the job has it"


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


def test_a_job_whose_doors_cannot_be_is_told_once_and_goes_on(bench: Bench) -> None:
    bench.doors.write_text("a file")
    bench.files(5)
    job = bench.submit()
    until(lambda: bench.read() == bench.all_lines(), "all to be read")
    bench.doors.unlink()
    (bench.folder / "elsewhere").mkdir()
    bench.doors.symlink_to("elsewhere")  # which Java before 17.0.14 takes for no directory
    until(lambda: secrets(bench), "the door to be opened, now that it can be")
    until(lambda: "weir: the door is open" in job.err, "that to be told")
    job.process.send_signal(signal.SIGTERM)
    assert job.wait() == 128 + signal.SIGTERM
    warned = [line for line in job.err.splitlines() if "weir: the door is closed" in line]
    assert len(warned) == 1
    assert job.err.count("weir: the door is open") == 1


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
