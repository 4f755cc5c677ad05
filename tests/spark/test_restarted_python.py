"""A JVM that outlives Python, as notebooks have it: what Weir set does not outlive Weir."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_listener.lease import WRAPPER
from spark_listener.limits import ALL, Limit, describe
from tests.driver.fake_agent import FakeAgent
from tests.spark.conftest import HEARTBEAT_SECONDS, Folder
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
ROOT = Path(__file__).parents[2]
FEW, GRANTED = 2, 5
#: Short, so that tests need not wait for minutes; longer than a busy machine lets a process wait.
GRANT_SECONDS, ALONE_SECONDS = 5.0, 9.0
CONFIGURED = {"all": ALL, "few": Limit("files", FEW)}
OURS = dict.fromkeys(CONFIGURED, Limit("files", GRANTED))


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    """A Java gateway that Python does not start, as the platform does."""
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway()
    yield gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)


class Kernel:
    """A notebook's Python."""

    def __init__(self, jvm: Any, log: Path) -> None:
        parameters = jvm.java_parameters
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.kernel"],
            cwd=ROOT,
            env={
                **os.environ,
                "PYSPARK_GATEWAY_PORT": str(parameters.port),
                "PYSPARK_GATEWAY_SECRET": str(parameters.auth_token),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("a"),
            text=True,
        )
        assert self._answer() == "ready"

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        return json.loads(line)

    def run(self, line: str) -> Any:
        assert self.process.stdin is not None
        print(line, file=self.process.stdin, flush=True)
        told = self._answer()
        assert not (isinstance(told, dict) and "raised" in told), told
        return told

    def attach(self, agent: FakeAgent, session: str = "spark", **settings: Any) -> None:
        self.run("import spark_listener, spark_listener.intake")
        self.run(f"spark_listener.lease.ALONE_SECONDS = {ALONE_SECONDS}")
        self.run(f"spark_listener.lease.LEASE_SECONDS = {GRANT_SECONDS}")
        for module in ("lease", "intake"):
            self.run(f"spark_listener.{module}.RENEW_SECONDS = {HEARTBEAT_SECONDS}")
        given = {"agent_url": agent.url, "heartbeat_seconds": HEARTBEAT_SECONDS, **settings}
        attached = f"spark_listener.attach({session}, **{given!r}).active"
        assert self.run(attached), self.log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def exit(self) -> None:
        """As Livy's does: what is to be done at an interpreter's end is done."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(30) == 0


class Notebook:
    """Its queries, and what the JVM says of them."""

    def __init__(self, jvm: Any, folder: Path) -> None:
        self.jvm = jvm
        self._folder = folder
        self.files = Folder(folder / "in")
        self.files.add(3)
        self._kernels: list[Kernel] = []

    def kernel(self) -> Kernel:
        made = Kernel(self.jvm, self._folder / "log")
        self._kernels.append(made)
        return made

    def start(self, kernel: Kernel, name: str, limit: int | None) -> None:
        """Without Python in it: such a one goes on when that is gone."""
        option = "" if limit is None else f".option('maxFilesPerTrigger', {limit})"
        kernel.run(
            f"spark.readStream.schema('k int, v int'){option}.json({str(self.files.path)!r})"
            f".writeStream.format('noop').queryName({name!r})"
            f".option('checkpointLocation', {str(self._folder / name)!r})"
            ".trigger(processingTime='300 milliseconds').start().id"
        )

    def start_both(self, kernel: Kernel) -> None:
        self.start(kernel, "all", None)
        self.start(kernel, "few", FEW)

    @property
    def session(self) -> Any:
        return self.jvm.jvm.SparkSession.getDefaultSession().get()

    def queries(self) -> dict[str, Any]:
        return {str(one.name()): one for one in self.session.streams().active()}

    def limits(self) -> dict[str, Limit | None]:
        """In force, by the query's name."""
        told = {}
        for name, query in self.queries().items():
            values = query.streamingQuery().uniqueSources().valuesIterator()
            told[name] = describe(values.next()) if values.hasNext() else None
        return told

    def listeners(self) -> int:
        found = list(self.session.streams().listListeners())
        return sum(one.getClass().getName() == WRAPPER for one in found)

    def threads(self) -> list[str]:
        found = self.jvm.jvm.java.lang.Thread.getAllStackTraces().keySet()
        return [str(one.getName()) for one in found if one.getName().startswith("weir")]

    def end(self) -> None:
        for one in self._kernels:
            one.kill()
        if self.jvm.jvm.SparkSession.getDefaultSession().isDefined():
            for query in self.queries().values():
                query.stop()


@pytest.fixture
def notebook(jvm: Any, tmp_path: Path) -> Iterator[Notebook]:
    made = Notebook(jvm, tmp_path)
    yield made
    made.end()
    until(
        lambda: not made.threads(),
        "the end of Weir's threads in the JVM",
        telling=made.threads,
    )


@pytest.fixture
def granting() -> Iterator[FakeAgent]:
    """An agent that gives every query the same limit."""
    with FakeAgent() as agent:

        def decide(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
            for event in events:
                if event["type"] == "started":
                    agent.grant(event["body"]["runId"], GRANTED, life=GRANT_SECONDS)
            return agent.grants

        agent.decide = decide
        yield agent


@pytest.fixture
def steered(notebook: Notebook, granting: FakeAgent) -> Kernel:
    """A kernel both of whose queries have limits of ours."""
    kernel = notebook.kernel()
    kernel.attach(granting)
    notebook.start_both(kernel)
    until(lambda: notebook.limits() == OURS, "limits", telling=notebook.limits)
    return kernel


def told(agent: FakeAgent, name: str, begun: int) -> dict[str, Any] | None:
    """What the newest heartbeat from there on tells of a query's source."""
    with agent.changed:
        beats = [one for one in agent.events[begun:] if one["type"] == "heartbeat"]
    for beat in reversed(beats):
        for query in beat["body"]["queries"]:
            if query["name"] == name and query.get("limits"):
                return query["limits"][0]
    return None


@pytest.mark.parametrize("ends", [Kernel.kill, Kernel.exit])
def test_who_attaches_after_a_restart_knows_what_the_job_configured(
    notebook: Notebook, granting: FakeAgent, steered: Kernel, ends: Callable[[Kernel], None]
) -> None:
    ends(steered)
    assert notebook.limits() == OURS, "for a while, as a restart is over soon"
    begun = len(granting.events)
    after = notebook.kernel()
    if ends is Kernel.kill:  # and whichever session it is that comes first
        after.run("other = spark.newSession()")
        after.attach(granting, "other")
    after.attach(granting)
    assert notebook.listeners() == 1, "of the process that is gone none"
    until(
        lambda: all(told(granting, name, begun) for name in CONFIGURED),
        "what is told of both queries",
    )
    configured = {name: told(granting, name, begun)["configured"] for name in CONFIGURED}
    assert configured == {"all": None, "few": FEW}
    until(lambda: notebook.limits() == OURS, "limits", telling=notebook.limits)
    after.run("spark_listener.detach()")
    assert notebook.limits() == CONFIGURED
    assert notebook.listeners() == 0


def test_until_its_session_is_attached_too_a_query_does_not_read_everything_at_once(
    notebook: Notebook, granting: FakeAgent, steered: Kernel
) -> None:
    """A notebook attaches cell by cell; what is configured is put back in its time all the same."""
    steered.run(f"spark_listener.lease.ALONE_SECONDS = {10 * ALONE_SECONDS}")
    steered.run(f"import time; time.sleep({3 * HEARTBEAT_SECONDS})")  # a word or two
    steered.kill()
    after = notebook.kernel()
    after.run("other = spark.newSession()")
    # As if that process had watched this one as well: by its listener the next one knows of it.
    after.run("left = list(spark._jsparkSession.streams().listListeners())")
    after.run("for one in left: other._jsparkSession.streams().addListener(one)")
    after.attach(granting, "other")
    begun = time.monotonic()
    while time.monotonic() < begun + ALONE_SECONDS / 2:
        assert notebook.limits()["all"] == OURS["all"]
        time.sleep(0.5)
    after.attach(granting)
    until(lambda: notebook.limits() == OURS, "limits", telling=notebook.limits)


def test_what_must_lapse_does_so_where_the_agent_tells_the_next_process_nothing(
    notebook: Notebook, granting: FakeAgent, steered: Kernel
) -> None:
    """As behind a watermark, where a limit that nobody watches may make rows fall late."""
    with granting.changed:
        runs = [one["runId"] for one in granting.grants]
    for run_id in runs:
        granting.grant(run_id, GRANTED, life=GRANT_SECONDS, lapses=True)
    attempts = granting.attempts
    until(lambda: granting.attempts >= attempts + 3, "grants that lapse to be taken in")
    steered.kill()
    with FakeAgent(mode="hang") as silent:
        after = notebook.kernel()
        after.attach(silent)
        until(
            lambda: notebook.limits() == CONFIGURED, "what is configured", telling=notebook.limits
        )
        time.sleep(GRANT_SECONDS)  # words that this process lives, and what it takes in
        assert notebook.limits() == CONFIGURED
        assert "this process stood still" not in after.log.read_text()


@pytest.mark.parametrize("ends", [Kernel.kill, Kernel.exit])
def test_where_nobody_comes_everything_is_as_configured(
    notebook: Notebook, granting: FakeAgent, steered: Kernel, ends: Callable[[Kernel], None]
) -> None:
    ends(steered)
    back = {**OURS, "few": CONFIGURED["few"]}
    until(lambda: notebook.limits() == back, "the limit that lapses", telling=notebook.limits)
    until(lambda: notebook.limits() == CONFIGURED, "what is configured", telling=notebook.limits)
    # And stays so, for whoever comes late.
    begun = len(granting.events)
    after = notebook.kernel()
    after.attach(granting, control=False)
    assert notebook.listeners() == 1
    until(lambda: told(granting, "few", begun), "what is told")
    assert told(granting, "few", begun)["configured"] == FEW
    assert notebook.limits() == CONFIGURED


def test_a_process_that_stood_still_goes_on(
    notebook: Notebook, granting: FakeAgent, steered: Kernel
) -> None:
    os.kill(steered.process.pid, signal.SIGSTOP)
    try:
        until(
            lambda: notebook.limits() == CONFIGURED, "what is configured", telling=notebook.limits
        )
    finally:
        os.kill(steered.process.pid, signal.SIGCONT)
    until(lambda: notebook.limits() == OURS, "limits anew", telling=notebook.limits)
    assert "this process stood still" in steered.log.read_text()
    notebook.start(steered, "third", FEW)
    until(
        lambda: notebook.limits() == {**OURS, "third": Limit("files", GRANTED)},
        "the limit of a query that starts later",
        telling=notebook.limits,
    )
    steered.run("spark_listener.detach()")
    assert notebook.limits() == {**CONFIGURED, "third": Limit("files", FEW)}
    assert notebook.listeners() == 0


def test_a_cluster_manager_that_hangs_lets_no_query_read_everything_at_once(
    notebook: Notebook, granting: FakeAgent, steered: Kernel
) -> None:
    """It holds the thread that sets limits for minutes; the process lives, and says so."""
    steered.run("import time, spark_listener.cluster")
    steered.run(f"spark_listener.cluster.Cluster.steer = lambda _: time.sleep({2 * ALONE_SECONDS})")
    until(lambda: notebook.limits()["few"] == CONFIGURED["few"], "the end of its grant")
    begun = time.monotonic()
    while time.monotonic() < begun + ALONE_SECONDS:
        assert notebook.limits()["all"] == OURS["all"]
        time.sleep(0.5)


@pytest.mark.parametrize("control", [True, False])
def test_one_that_stood_still_meanwhile_leaves_what_the_newer_one_does(
    notebook: Notebook, granting: FakeAgent, steered: Kernel, *, control: bool
) -> None:
    """Its own grants are over by then, and the agent has more for it."""
    os.kill(steered.process.pid, signal.SIGSTOP)
    newer = notebook.kernel()
    newer.attach(granting, control=control)
    wanted = OURS if control else CONFIGURED
    until(lambda: notebook.limits() == wanted, "limits", telling=notebook.limits)
    time.sleep(GRANT_SECONDS + 1)
    assert notebook.limits() == wanted
    os.kill(steered.process.pid, signal.SIGCONT)
    until(lambda: "another one has attached" in steered.log.read_text(), "what the older one says")
    begun = time.monotonic()
    while time.monotonic() < begun + GRANT_SECONDS:
        assert notebook.limits() == wanted
        time.sleep(0.2)


def test_of_two_that_live_the_newer_one_goes_on_and_the_other_says_so(
    notebook: Notebook, granting: FakeAgent, steered: Kernel
) -> None:
    newer = notebook.kernel()
    newer.attach(granting)
    until(lambda: "another one has attached" in steered.log.read_text(), "what the older one says")
    until(lambda: steered.run("spark_listener.attachment._drivers") == {}, "its end")
    until(lambda: notebook.limits() == OURS, "limits", telling=notebook.limits)
    newer.kill()
    steered.run("spark_listener.detach()")  # which touches nothing of the newer one's
    until(lambda: notebook.limits() == CONFIGURED, "what is configured", telling=notebook.limits)


def test_who_was_taken_over_takes_the_session_back_once_it_detaches_and_not_before(
    notebook: Notebook, granting: FakeAgent, steered: Kernel
) -> None:
    """Both may attach in each of their batches."""
    newer = notebook.kernel()
    newer.attach(granting)
    until(lambda: steered.run("spark_listener.attachment._drivers") == {}, "its end")
    for _ in range(2):
        told = steered.run("spark_listener.attach(spark).reason")
        assert told.startswith("another process has attached to the same session")
    assert notebook.listeners() == 1
    steered.run("spark_listener.detach()")
    steered.attach(granting)
    until(lambda: newer.run("spark_listener.attachment._drivers") == {}, "the newer one's end")
    assert notebook.listeners() == 1
    until(lambda: notebook.limits() == OURS, "limits", telling=notebook.limits)
