"""Whoever has not the secret does not come in, and the job and its log know nothing of it."""

from __future__ import annotations

import os
import pwd
import re
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway

from spark_listener import door, plugin
from spark_listener.beyond import DONE
from tests.driver.fake_agent import FakeAgent
from tests.lacking import plugin_jar
from tests.plugin.conftest import JOBS
from tests.plugin.driving import beyond, limit, order
from tests.plugin.test_beyond import LOOKS, USED
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugin.cluster import Job
    from tests.plugin.conftest import Bench
    from tests.service.agents import AgentProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

#: What a request of py4j looks like that asks for the entry point's class, without a secret.
WITHOUT = b"c\nt\ngetClass\ne\n"
#: Longer than the door waits for a secret.
QUIET_SECONDS = 11


def said(port: int, data: bytes) -> bytes:
    """What the door answers before it closes."""
    with socket.create_connection((door.LOOPBACK, port), 10) as one:
        answer = b""
        try:
            one.sendall(data)
            while got := one.recv(4096):
                answer += got
        except ConnectionError:
            pass
        return answer


def reset(port: int) -> None:
    """A scanner's way: connected, and broken off."""
    one = socket.create_connection((door.LOOPBACK, port), 10)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()


def at_the_door(pid: int) -> int:
    """How many threads of a JVM serve a connection of py4j's; Spark's own come and go."""
    done = subprocess.run(
        ["jstack", str(pid)], capture_output=True, text=True, timeout=60, check=True
    )
    stacks = done.stdout.split("\n\n")
    return sum("py4j.GatewayConnection.run" in one for one in stacks)


def the_door(job: Job, folder: Path) -> Path:
    def paths() -> list[Path]:
        assert job.process.poll() is None, job.err
        return list(folder.glob("*.door"))

    (path,) = until(paths, "the door", seconds=180)
    return path


@pytest.mark.slow("a job and a scan of it; the secret itself is py4j's")
def test_no_secret_a_wrong_one_and_a_scan(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    bench.files(10)
    job = bench.submit(limit="5")
    found = query("lines")
    process = beyond(agent)
    (path,) = bench.doors.glob("*.door")
    assert path.stat().st_mode & 0o777 == 0o600
    assert bench.doors.stat().st_mode & 0o777 == 0o700
    port = door.read(path).port
    jvm = psutil.Process(int(door.read(path).process.split("@")[0]))
    (listening,) = [
        one for one in jvm.net_connections("tcp") if one.status == "LISTEN" and one.laddr[1] == port
    ]
    assert listening.laddr[0].removeprefix("::ffff:") == door.LOOPBACK
    serving = at_the_door(jvm.pid)
    assert serving > 0  # ours
    told = len(job.err.splitlines())
    wrong = f"A\n{'0' * 64}\ne\n".encode()
    for _ in range(20):
        for data in (WITHOUT, wrong, wrong + WITHOUT, b"", b"\x16\x03\x01\x02\x00\x01\x00" * 99):
            assert b"weir" not in said(port, data + b"\n\n" if data else b"\n")
        assert b"weir" not in said(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        reset(port)
    assert b"weir" not in said(port, b"x" * 10_000)  # a line that does not end
    silent = [socket.create_connection((door.LOOPBACK, port), 10) for _ in range(20)]
    for token in ("0" * 64, "", None):
        stranger = JavaGateway(
            gateway_parameters=GatewayParameters(address=door.LOOPBACK, port=port, auth_token=token)
        )
        with pytest.raises(Exception, match=r"."):
            stranger.entry_point.stay()
        stranger.close()
    until(lambda: at_the_door(jvm.pid) <= serving, "the strangers' threads to end")
    for one in silent:
        one.close()
    order(agent, "lines", 2)
    until(lambda: limit(query("lines")) == 2, "the limit that was ordered")
    assert beyond(agent) == process, "who was in stays in"
    assert query("lines")["run_id"] == found["run_id"]
    assert job.err.splitlines()[told:] == [], "not a word in the job's log"
    (again,) = bench.doors.glob("*.door")
    assert door.read(again).port == port, "the door stays as it was"


@pytest.mark.slow("a job more; that a door is found is looked at every time")
def test_a_jvm_that_prefers_ipv6_is_found(
    bench: Bench, agent: AgentProcess, query: Callable[[str], dict[str, Any]]
) -> None:
    bench.files(2)
    prefers = "spark.driver.extraJavaOptions=-Djava.net.preferIPv6Addresses=true"
    bench.submit(JOBS / "python_job.py", conf=(prefers,))
    assert query("lines")["control"] == "live"


def comes_back(path: Path) -> None:
    """What cleans temporary directories takes the door's file away; the same is there again."""
    found, mode = path.read_bytes(), path.stat().st_mode
    path.unlink()
    until(path.exists, "the door's file")
    assert (path.read_bytes(), path.stat().st_mode) == (found, mode)


@pytest.mark.slow("eleven quiet seconds, twice")
def test_who_has_the_secret_comes_in_however_long_nobody_came(bench: Bench) -> None:
    bench.files(2)
    job = bench.submit(JOBS / "python_job.py")

    path = the_door(job, bench.doors)
    quiet_until = time.monotonic() + QUIET_SECONDS
    comes_back(path)
    before = time.monotonic()
    comes_back(path)
    assert 8 < time.monotonic() - before < 18, "looked for every ten seconds"
    time.sleep(max(0.0, quiet_until - time.monotonic()))
    inside = door.Door(path)
    jvm = inside.gateway.jvm
    jvm.System.nanoTime()
    time.sleep(QUIET_SECONDS)
    with ThreadPoolExecutor(1) as other:
        # py4j opens another connection while one waits for its answer.
        busy = other.submit(jvm.Thread.sleep, 2_000)
        time.sleep(0.5)
        jvm.System.nanoTime()
        assert not busy.done()
        busy.result()
    inside.close()
    assert job.err.count(f" INFO weir: weir: a door for the agent: {path}\n") == 1


def the_one_that_accepts(pid: int) -> int:
    """The plugin's thread, as the system counts them."""
    done = subprocess.run(
        ["jstack", str(pid)], capture_output=True, text=True, timeout=60, check=True
    )
    (stack,) = [one for one in done.stdout.split("\n\n") if "WeirPlugin$Guarded" in one]
    (number,) = re.findall(r" nid=(\w+) ", stack)
    return int(number, 0)


def waits(pid: int, thread: int) -> int:
    """How often a thread has begun to wait. Raises FileNotFoundError where it has ended."""
    told = Path(f"/proc/{pid}/task/{thread}/status").read_text()
    return int(told.split("\nvoluntary_ctxt_switches:")[1].split()[0])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits another process")
@pytest.mark.slow("a job of its own")
def test_a_moment_in_which_the_driver_may_open_nothing_does_not_close_the_door(
    bench: Bench,
) -> None:
    """py4j takes no connection any more once it could not take one."""
    go = bench.folder / "go"
    source = bench.folder / "used_job.py"
    source.write_text(USED)
    job = bench.submit(source, ending=str(go))
    path = the_door(job, bench.doors)
    found = door.read(path)
    jvm = psutil.Process(int(found.process.split("@")[0]))
    thread = the_one_that_accepts(jvm.pid)
    soft, hard = jvm.rlimit(psutil.RLIMIT_NOFILE)
    waited = waits(jvm.pid, thread)
    jvm.rlimit(psutil.RLIMIT_NOFILE, (3, hard))
    try:
        # The first one still has a descriptor, which was got before it was waited for.
        for _ in range(3):
            socket.create_connection((door.LOOPBACK, found.port), 10).close()
        until(lambda: waits(jvm.pid, thread) > waited + 5, "it to be tried again and again")
    finally:
        jvm.rlimit(psutil.RLIMIT_NOFILE, (soft, hard))
    with FakeAgent() as agent:
        beside = bench.run(
            bench.folder / "beside",
            *(sys.executable, "-c", LOOKS, str(path), "--agent-url", agent.url),
        )
        until(lambda: "looked" in beside.out, "the agent's process to be in")
        go.touch()
        assert job.wait() == 0
        assert beside.wait() == DONE, beside.err


@pytest.mark.slow("a job each")
@pytest.mark.parametrize("trap", ["another user's", "others may write there"])
def test_a_default_directory_that_is_not_this_users_alone_is_not_written_to(
    bench: Bench, trap: str
) -> None:
    if trap == "another user's" and os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    folder = bench.folder / "tmp" / f"weir-{pwd.getpwuid(os.geteuid()).pw_name}"
    folder.mkdir(parents=True)
    if trap == "another user's":
        os.chown(folder, 4242, -1)
    else:
        folder.chmod(0o777)
    untouched = folder.stat().st_mtime_ns
    go = bench.folder / "go"
    source = bench.folder / "used_job.py"
    source.write_text(USED)
    conf = (
        f"spark.jars={plugin_jar()}",
        f"{plugin.CONFS[0]}={plugin.NAME}",
        f"spark.driver.extraJavaOptions=-Djava.io.tmpdir={folder.parent}",
    )
    job = bench.submit(source, ways=(), conf=conf, ending=str(go))
    said = f"{folder} is no directory that only this user writes to; set spark.weir.door.dir"
    until(lambda: said in job.err or job.process.poll() is not None, "its refusal", seconds=180)
    assert job.process.poll() is None, job.err
    assert folder.stat().st_mtime_ns == untouched
    assert not list(folder.parent.glob(".weir-*"))
    os.chown(folder, os.geteuid(), -1)
    folder.chmod(0o755)
    the_door(job, folder)
    go.touch()
    assert job.wait() == 0
    assert job.err.count(said) == 1
