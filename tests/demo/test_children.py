"""Child processes end with the demo: asked, insisted on, and their own children too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest

from examples.demo.children import ROOT, Agent, Child, DemoFailed
from examples.demo.job import APPLICATION
from tests.service.wire import body, started
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

GRANDCHILD = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', {body!r}])"
SLEEP = "import time; time.sleep(300)"


def child(tmp_path: Path, code: str, *, pipes: bool = False) -> Child:
    command = [sys.executable, "-c", code]
    return Child("test child", command, tmp_path / "child.log", dict(os.environ), pipes=pipes)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def told_pid(path: Path) -> int:
    return int(until(lambda: path.exists() and path.read_text().strip(), str(path), seconds=20))


def test_end_ends_a_child_and_what_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    body = f"import os, pathlib; pathlib.Path({str(note)!r}).write_text(str(os.getpid())); {SLEEP}"
    one = child(tmp_path, GRANDCHILD.format(body=body) + "; " + SLEEP)
    grandchild = told_pid(note)
    one.end()
    assert one.process.poll() is not None
    until(lambda: gone(grandchild), "the grandchild's end", seconds=10)


def test_end_insists_where_asking_does_not_help(tmp_path: Path) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    deaf += f"print('deaf', flush=True); {SLEEP}"
    one = child(tmp_path, deaf)
    until(lambda: "deaf" in (tmp_path / "child.log").read_text(), "the child to be deaf")
    one.end(patience_seconds=0.5)
    assert one.process.poll() == -signal.SIGKILL


def test_the_end_of_its_input_is_the_word_to_leave(tmp_path: Path) -> None:
    one = child(tmp_path, "import sys; sys.stdin.read(); sys.exit(7)", pipes=True)
    one.end()
    assert one.process.poll() == 7


def test_a_child_that_ended_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    one = child(tmp_path, "import sys; print('no room on the disk', file=sys.stderr); sys.exit(3)")
    one.process.wait(20)
    with pytest.raises(DemoFailed) as caught:
        one.check()
    assert "exit code 3" in str(caught.value)
    assert "no room on the disk" in str(caught.value)
    assert str(tmp_path / "child.log") in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's word to a child is Linux's")
def test_a_child_ends_when_the_demo_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"""
import os, pathlib, sys, time
sys.path.insert(0, {str(ROOT)!r})
from examples.demo.children import Child
one = Child("c", [sys.executable, "-c", {SLEEP!r}], pathlib.Path({str(tmp_path / "log")!r}),
            dict(os.environ), pipes=False)
pathlib.Path({str(note)!r}).write_text(str(one.process.pid))
time.sleep(300)
"""
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        pid = told_pid(note)
        parent.kill()
        parent.wait(10)
        until(lambda: gone(pid), "the child's end", seconds=10)
    finally:
        parent.kill()
        parent.wait(10)


def test_the_agent_leaves_every_other_application_alone(tmp_path: Path) -> None:
    agent = Agent(tmp_path, tmp_path, 2.0)
    try:
        with httpx.Client(base_url=agent.wait_until_ready(), trust_env=False) as http:
            for number, name in enumerate((APPLICATION, "a job of the user's"), start=1):
                event = started(1, query=number, name="orders")
                http.post(
                    "/v1/events",
                    content=body([event], application=name),
                    headers={"content-type": "application/json"},
                ).raise_for_status()
            agent.turn_on("orders", "a test")
            queries = http.get("/v1/queries").json()["queries"]
            modes = {one["application"]: one["mode"] for one in queries}
            assert modes == {APPLICATION: "on", "a job of the user's": "dry-run"}
            assert "weir_agent_doors" not in http.get("/metrics").text, "it looks for doors"
    finally:
        agent.end()
