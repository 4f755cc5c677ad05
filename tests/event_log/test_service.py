"""A real agent that follows a directory: judges, keeps its place through SIGKILL, stands back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.event_log import lines
from tests.service import wire
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


def counted(agent: AgentProcess, metric: str) -> float:
    return agent.metrics().get(f"weir_{metric}", 0.0)


def batches(agent: AgentProcess) -> float:
    labels = 'application="orders",query="enrich",result="completed"'
    return counted(agent, f"batches_total{{{labels}}}")


def grow(folder: Path, content: list[bytes]) -> None:
    with (folder / "app-1.inprogress").open("ab") as file:
        file.write(b"".join(content))


def test_a_killed_agent_goes_on_where_it_was(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    content = lines.whole(40)
    grow(logs, content[:4])
    options = ("--event-log-dirs", str(logs), "--state-dir", str(tmp_path / "state"))
    done = 4
    for upto in (30, 60, 61, 100, len(content)):
        with AgentProcess(tmp_path, *options) as agent:
            grow(logs, content[done:upto])
            done = upto
            expected = sum(b"QueryProgressEvent" in one for one in content[:upto])
            until(lambda agent=agent, expected=expected: batches(agent) >= expected, "batches")
            agent.kill()
    with AgentProcess(tmp_path, *options) as agent:
        time.sleep(3.0)
        assert batches(agent) == 40
        assert counted(agent, 'rows_total{application="orders",query="enrich"}') == 40_000


def test_a_log_whose_driver_has_a_listener_is_left_alone(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with AgentProcess(tmp_path, "--event-log-dirs", str(logs)) as agent:
        events = [wire.progress(1, name="enrich")]
        told = wire.body(events, application="orders", application_id="app-1")
        assert agent.post(told).status_code == 200
        grow(logs, lines.whole()[:12])
        until(lambda: "left alone" in agent.log_path.read_text(), "the log's word")
        assert batches(agent) == 1


def test_a_directory_that_is_not_there_is_said_and_found_later(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with AgentProcess(tmp_path, "--event-log-dirs", str(logs)) as agent:
        until(lambda: "cannot be read" in agent.log_path.read_text(), "the log's word")
        logs.mkdir()
        grow(logs, lines.whole()[:12])
        until(lambda: batches(agent) == 2, "the two batches")


def test_stages_show_as_those_that_a_driver_tells(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    content = lines.skewed(6)
    options = ("--event-log-dirs", str(logs), "--state-dir", str(tmp_path / "state"))

    def alignment(agent: AgentProcess) -> dict[str, Any]:
        answer = agent.http.get("/v1/queries/orders/enrich")
        query = answer.json()["query"] if answer.status_code == 200 else {}
        return dict(query.get("alignment", {}))

    with AgentProcess(tmp_path, *options) as agent:
        grow(logs, content)
        found = until(lambda: alignment(agent).get("stages"), "the stages")
        until(lambda: alignment(agent)["batch_id"] == 5, "the newest batch's stages")
        assert (found[0]["why"], found[0]["partition"], found[0]["host"]) == ("skew", 2, "worker-2")
        labels = '{application="orders",query="enrich"}'
        until(lambda: counted(agent, f"alignment_seconds{labels}") == 7.0, "the metric")
        agent.kill()
    with AgentProcess(tmp_path, *options) as agent:
        until(lambda: alignment(agent).get("stages"), "the stages")  # read, and not counted, again
        assert batches(agent) == 6
