"""The agent as a process: start, signals, TLS, two on one directory, a full disk, its samples."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.lacking import mount_namespace, program
from tests.service import wire
from tests.service.agents import AgentProcess, environment, samples, weir
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


def test_sigterm_ends_it_with_success_and_nothing_is_lost(tmp_path: Path) -> None:
    options = ("--state-dir", str(tmp_path / "state"))
    with AgentProcess(tmp_path, *options) as agent:
        assert (tmp_path / "address").read_text() == agent.address + "\n"
        agent.post(wire.request([wire.progress(n) for n in range(1, 30)]))
        view = agent.http.get("/v1/queries/orders/query-0").json()["query"]
        assert agent.stop() == 0
        assert not (tmp_path / "address").exists()
        events = [line["event"] for line in agent.log()]
        assert events[-2:] == ["stopping", "stopped"]
    with AgentProcess(tmp_path, *options) as agent:
        again = agent.http.get("/v1/queries/orders/query-0").json()["query"]
        aged = {"history", "backlog_rows", "backlog_seconds", "estimated_time_to_consume_seconds"}
        aged.add("attention")
        for name in view.keys() - aged:
            assert again[name] == view[name], name
        assert agent.stop() == 0


def test_the_first_line_tells_the_mode_that_holds(tmp_path: Path) -> None:
    """What was ordered of all outlives a configuration that says otherwise."""
    options = ("--state-dir", str(tmp_path / "state"), "--mode")

    def told(agent: AgentProcess) -> list[str]:
        return [line["mode"] for line in agent.log() if line["event"] == "listening"]

    with AgentProcess(tmp_path, *options, "dry-run") as agent:
        until(lambda: told(agent) == ["dry-run"], "its first line")
        agent.http.post("/v1/queries/*/*/control", json={"mode": "off"}).raise_for_status()
        agent.stop()
    with AgentProcess(tmp_path, *options, "on") as agent:
        until(lambda: told(agent) == ["dry-run", "off"], "its first line")
        assert agent.http.get("/v1/queries").json()["agent"]["mode"] == "off"
        agent.stop()


def test_a_request_under_way_is_answered_before_the_end(tmp_path: Path) -> None:
    with AgentProcess(tmp_path) as agent:
        host, _, port = agent.address.removeprefix("http://").rpartition(":")
        body = wire.body([wire.progress(1)])
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(
                b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                + f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body[:100]
            )
            time.sleep(0.3)
            agent.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            connection.sendall(body[100:])
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        assert agent.process.wait(20) == 0


def test_the_address_is_in_the_state_directory_too(tmp_path: Path) -> None:
    from tests.service.agents import ROOT, environment

    state = tmp_path / "state"
    process = subprocess.Popen(
        [sys.executable, "-m", "agent.cli", "agent", "--port", "0", "--state-dir", str(state)],
        env=environment(),
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    )
    try:
        until((state / "agent.address").exists, "the address", seconds=30, every=0.02)
        address = (state / "agent.address").read_text().strip()
        assert httpx.get(address + "/healthz", trust_env=False).json() == {"ok": True}
    finally:
        process.kill()
        process.wait(10)


def test_two_agents_on_one_directory(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    with AgentProcess(tmp_path, "--state-dir", state) as agent:
        done = weir("agent", "--port", "0", "--state-dir", state)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "in use by another agent" in done.stderr
        assert f"process {agent.process.pid}" in done.stderr
        assert agent.http.get("/readyz").status_code == 200


def test_in_memory_it_says_so(open_agent: AgentProcess) -> None:
    assert any("no state_dir" in line["event"] for line in open_agent.log())
    assert open_agent.http.get("/v1/queries").json()["agent"]["state"] == "memory"


def test_an_unreadable_state_is_set_aside_and_said(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "state.sqlite").write_bytes(b"\0" * 10_000)
    with AgentProcess(tmp_path, "--state-dir", str(state)) as agent:
        line = next(line for line in agent.log() if "set aside" in line["event"])
        assert line["level"] == "error"
        assert line["file"].startswith(str(state / "state.sqlite.unreadable-"))
        assert agent.post(wire.request([wire.progress(1)])).status_code == 200


def test_while_the_disk_is_full_nothing_is_acknowledged_that_is_not_written(
    tmp_path: Path,
) -> None:
    """A limit on the size of files stands in for a full disk: the same error at the same place."""
    options = ("--state-dir", str(tmp_path / "state"))
    acknowledged = 0
    with AgentProcess(tmp_path, *options) as agent:
        pid = agent.process.pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (200_000, hard))
        answer = None
        for sequence in range(1, 500):
            answer = agent.post(wire.request([wire.progress(sequence)]))
            if answer.status_code != 200:
                break
            acknowledged = answer.json()["acknowledged"]
            assert acknowledged == sequence
        assert answer is not None
        assert answer.status_code == 503, "the limit was never reached"
        # The agent tries a small write after a second: from now on not a page fits.
        os.truncate(agent.log_path, 0)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4_000, hard))
        assert int(answer.headers["retry-after"]) > 0
        assert "cannot be written" in answer.json()["error"]["message"]
        assert agent.http.get("/readyz").status_code == 503
        assert agent.http.get("/healthz").status_code == 200
        order = agent.http.post("/v1/queries/*/*/control", json={"hold": True})
        assert order.status_code == 503
        order = agent.http.post("/v1/queries/*/*/control", json={"mode": "off"})
        assert order.status_code == 200, "the kill switch needs no disk"
        assert "no driver hears of it before the state can be written" in order.text
        metrics = agent.metrics()
        assert metrics["weir_agent_state_writable"] == 0
        assert metrics["weir_agent_state_write_failures_total"] >= 1
        assert metrics['weir_agent_events_total{type="progress"}'] == acknowledged
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        until(
            lambda: agent.http.get("/readyz").status_code == 200,
            "it to recover by itself",
            every=0.1,
        )
        tail = [wire.progress(n) for n in range(acknowledged, acknowledged + 10)]
        assert agent.post(wire.request(tail)).json()["acknowledged"] == acknowledged + 9
        agent.kill()
    with AgentProcess(tmp_path, *options) as agent:
        counted = agent.metrics()['weir_agent_events_total{type="progress"}']
        assert counted == acknowledged + 9
        assert agent.http.get("/v1/queries").json()["queries"][0]["mode"] == "off"


#: A disk of two megabytes with a state on it, full to the last byte while the agent starts.
_STARTS_FULL = """
mount -t tmpfs -o size=2m none "$1" && cd "$1" || exit 99
"$2" -c "$3" || exit 99
dd if=/dev/zero of=fill bs=1k count=4000 2>/dev/null
"$2" -m agent.cli agent --port 0 --state-dir "$1/state"
code=$?
rm fill
"$2" -c "$4" || exit 99
exit $code
"""
_SAVE = """
from pathlib import Path; from agent.core.fleet import Change; from agent.service.store import Store
store = Store(Path("state")); store.write([Change("one", b"kept")]); store.close()
"""
_READ = """
from pathlib import Path; from agent.service.store import Store
assert [(one.part, one.data) for one in Store(Path("state")).load()] == [("one", b"kept")]
"""


def test_started_on_a_full_disk_it_says_so_and_keeps_what_is_saved(tmp_path: Path) -> None:
    inside = [*mount_namespace(), "sh", "-c", _STARTS_FULL, "sh"]
    done = subprocess.run(
        [*inside, str(tmp_path), sys.executable, _SAVE, _READ],
        env=environment(PYTHONSAFEPATH="1"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr == (
        f"weir: state_dir: {tmp_path}/state: no space is left on its disk, and what is saved there "
        "is whole: free some, or give the agent another state_dir, and start it again\n"
    )


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"), "localhost")


def make_certificate(
    folder: Path, name: str, *, addresses: str = ",IP:127.0.0.1"
) -> tuple[Path, Path]:
    certificate, key = folder / "tls.crt", folder / "tls.key"
    subprocess.run(
        [
            *(program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}{addresses}"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def test_tls_by_file_and_a_renewed_certificate(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "localhost")
    context = ssl.create_default_context(cafile=str(certificate))
    tls = ("--tls-cert-file", str(certificate), "--tls-key-file", str(key))
    with AgentProcess(tmp_path, *tls, token="a-token", verify=context) as agent:
        assert agent.address.startswith("https://")
        assert agent.post(wire.request([wire.progress(1)])).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(agent.address + "/healthz", trust_env=False)
        done = weir(
            *("hold", "query-0", "--url", agent.address, "--ca-file", str(certificate)),
            *("--token-file", str(tmp_path / "token")),
        )
        assert (done.returncode, done.stdout) == (0, "orders/query-0: hold\n")
        # Without an authority of its own the command asks the system's.
        trusted = weir(
            *("hold", "query-0", "--url", agent.address, "--token-file", str(tmp_path / "token")),
            env={"SSL_CERT_FILE": str(certificate)},
        )
        assert trusted.returncode == 0, trusted.stderr
        refused = weir("hold", "query-0", "--url", agent.address)
        assert refused.returncode == 1
        assert "certificate" in refused.stderr
        first = _served(agent.address)
        told = agent.metrics()
        ends = told["weir_agent_certificate_expiry_timestamp_seconds"]
        assert 47 * 3600 < ends - time.time() <= 48 * 3600
        begins = told["weir_agent_certificate_not_before_timestamp_seconds"]
        assert ends - begins == 48 * 3600
        assert "--ca-file FILE" in refused.stderr
        make_certificate(tmp_path, "weir.streams.svc", addresses="")
        until(
            lambda: _served(agent.address) != first,
            "the renewed certificate",
            seconds=15,
            every=0.2,
        )
        refused = weir(
            *("hold", "query-0", "--url", agent.address, "--ca-file", str(certificate)),
            *("--token-file", str(tmp_path / "token")),
        )
        assert refused.returncode == 1
        assert "a name that its certificate has" in refused.stderr


def _served(address: str) -> str:
    host, _, port = address.removeprefix("https://").rpartition(":")
    return ssl.get_server_certificate((host, int(port)))


def test_a_key_that_is_not_the_certificates_or_has_a_passphrase(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    other = tmp_path / "other.key"
    subprocess.run(
        [program("openssl"), "genrsa", "-out", str(other), "2048"], check=True, capture_output=True
    )
    locked = tmp_path / "locked.key"
    subprocess.run(
        [
            *(program("openssl"), "rsa", "-aes256", "-passout", "pass:hunter2"),
            *("-in", str(certificate[1]), "-out", str(locked)),
        ],
        check=True,
        capture_output=True,
    )
    for key, word in ((other, "tls_cert_file"), (locked, "passphrase")):
        done = weir(
            *("agent", "--port", "0", "--tls-cert-file", str(certificate[0])),
            *("--tls-key-file", str(key)),
        )
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert word in done.stderr


def test_its_own_process_and_the_drivers(tmp_path: Path) -> None:
    driver = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        options = ("--driver-process", "auto", "--labels", "cluster=a,namespace=shop")
        with AgentProcess(tmp_path, *options) as agent:
            told = {"host": socket.gethostname(), "python_pid": driver.pid, "jvm_pid": os.getpid()}
            agent.post(wire.request([wire.progress(1)], **told))
            name = "weir_driver_process_resident_memory_bytes"
            text = until(
                lambda: f"\n{name}{{" in (said := agent.http.get("/metrics").text) and said,
                "the driver's process",
                seconds=15,
                every=0.2,
            )
            found = [line for line in text.splitlines() if line.startswith(name + "{")]
            # The jvm's id is of a process that is no Java: not taken for the driver's.
            assert len(found) == 1
            assert 'process="python"' in found[0]
            assert 'cluster="a"' in found[0]
            own = {key: value for key, value in samples(text).items() if key.startswith("process_")}
            resident = next(value for key, value in own.items() if "resident" in key)
            assert 20e6 < resident < 120e6
    finally:
        driver.kill()
        driver.wait(10)


def test_every_accepted_event_is_recorded_once(tmp_path: Path) -> None:
    record = tmp_path / "record" / "events.jsonl"
    options = ("--record-file", str(record), "--record-max-bytes", "20000", "--record-keep", "50")
    with AgentProcess(tmp_path, *options) as agent:
        for first in range(1, 40, 4):
            events = [wire.progress(n) for n in range(first, first + 5)]  # one overlaps
            events.append({"sequence": first + 5, "type": "wrong"})
            assert agent.post(wire.request(events[:-1])).status_code == 200
        assert agent.metrics()["weir_agent_recorded_events_total"] == 41
        agent.stop()
    files = sorted(
        record.parent.iterdir(),
        key=lambda path: -int(path.suffix[1:]) if path.suffix[1:].isdigit() else 1,
    )
    lines = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert [line["sequence"] for line in lines] == list(range(1, 42))
    assert all(line["application"]["name"] == "orders" for line in lines)
    assert lines[0]["body"] == wire.progress(1)["body"]
    assert len(files) > 2
    assert all(path.stat().st_size <= 20000 for path in files)


def test_an_event_too_deep_to_record_is_acknowledged_and_counted_as_not_recorded(
    tmp_path: Path,
) -> None:
    """Else its driver would send it for ever, and hear of no limit meanwhile."""
    deep = '{"a":' * 700 + "1" + "}" * 700
    body = json.dumps(wire.request([{**wire.progress(1), "x": None}]))
    with AgentProcess(tmp_path, "--record-file", str(tmp_path / "events.jsonl")) as agent:
        answer = agent.post(body.replace('"x": null', f'"x": {deep}').encode())
        assert (answer.status_code, answer.json()["acknowledged"]) == (200, 1)
        assert agent.metrics()["weir_agent_record_failures_total"] == 1


def test_liveness_and_readiness_as_json(tmp_path: Path) -> None:
    with AgentProcess(tmp_path) as agent:
        agent.post(wire.request([wire.progress(1)]))
        live = agent.http.get("/queries/orders/query-0/live")
        assert (live.status_code, live.json()) == (200, {"ok": True, "why": "starting"})
        unknown = agent.http.get("/queries/nobody/knows/live")
        assert (unknown.status_code, unknown.json()) == (200, {"ok": True, "why": "unknown"})
        assert agent.http.get("/readyz").json() == {"ok": True}


def test_a_silent_driver_is_not_live_once_the_agent_has_run_a_while(tmp_path: Path) -> None:
    """The grace after a start is a minute, so here the clock is the test's."""
    from agent.core.decode.events import decode_request
    from agent.core.policy import Policy
    from agent.service.access import Gate
    from agent.service.app import Service
    from agent.service.clock import Clock
    from agent.service.doors import Doors
    from agent.service.keeper import Keeper
    from agent.service.store import Store
    from agent.service.timers import Timers

    now = wire.BASE_TIME
    keeper = Keeper(Policy(), Store(None), started_time=now)
    keeper.receive(decode_request(wire.body([wire.progress(1)])), now)
    service = Service(
        keeper,
        Gate(None, "127.0.0.1"),
        max_request_bytes=1024,
        max_queries=10,
        labels={},
        started_time=now,
        clock=lambda: now,
    )
    transport = httpx.ASGITransport(service.application(), client=("127.0.0.1", 1))

    async def ask() -> tuple[int, dict[str, object]]:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            answer = await http.get("/queries/orders/query-0/live")
            return answer.status_code, answer.json()

    assert asyncio.run(ask()) == (200, {"ok": True, "why": "starting"})
    now += 120.0
    assert asyncio.run(ask()) == (503, {"ok": False, "why": "silent"})
    # Weir's own process at the door is missing: the driver may be well. One that hangs keeps it.
    timers = Timers(
        service,
        tokens=None,
        events_tokens=None,
        certificate=None,
        driver_process="off",
        doors=Doors(tmp_path, lambda _: (), clock=lambda: now),
        clock=Clock(),
    )
    refused = tmp_path / "app-1-77.door"
    refused.touch(0o644)
    timers._look_for_doors()
    assert asyncio.run(ask()) == (200, {"ok": True, "why": "unknown"})
    refused.unlink()
    timers._look_for_doors()
    assert asyncio.run(ask()) == (503, {"ok": False, "why": "silent"})


def test_metrics_and_api_tell_the_same_level(open_agent: AgentProcess, application: str) -> None:
    """One that only the history tells, too."""
    growing = [wire.progress(n, seconds=0.5, backlog=900 * n, limit=None) for n in range(1, 60)]
    events = [*growing, *(wire.progress(60 + n, query=1) for n in range(9))]
    open_agent.post(wire.request(events, application=application))
    told = {
        view["query"]: view["attention"]["level"]
        for view in open_agent.http.get("/v1/queries?history=24").json()["queries"]
        if view["application"] == application
    }
    assert told == {"query-0": "growing", "query-1": "overloaded"}
    metrics = open_agent.metrics()
    for query, level in told.items():
        labels = f'application="{application}",query="{query}",level="{level}"'
        assert metrics[f"weir_attention{{{labels}}}"] == 1


def test_openmetrics_where_asked_for(open_agent: AgentProcess) -> None:
    plain = open_agent.http.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    open_metrics = open_agent.http.get(
        "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"}
    )
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text")
    assert open_metrics.text.endswith("# EOF\n")
    assert promtool_is_content(plain.text)


@pytest.mark.parametrize(
    ("asked", "packed"),
    [("gzip", True), ("deflate, GZIP;q=0.5", True), ("gzip;q=0", False), ("identity", False)],
)
@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text;version=1.0.0"])
def test_metrics_are_compressed_for_who_asks(
    open_agent: AgentProcess, application: str, asked: str, packed: bool, accept: str
) -> None:
    events = [wire.progress(n, query=n) for n in range(1, 20)]
    open_agent.post(wire.request(events, application=application))

    def scrape() -> tuple[bytes, bytes]:
        with open_agent.http.stream(
            "GET", "/metrics", headers={"accept-encoding": asked, "accept": accept}
        ) as answer:
            raw = b"".join(answer.iter_raw())
        assert answer.headers.get("content-encoding") == ("gzip" if packed else None)
        assert "accept-encoding" in answer.headers["vary"]
        assert int(answer.headers["content-length"]) == len(raw)
        return raw, gzip.decompress(raw) if packed else raw

    # One that cost much, on a busy machine, is given out again for a moment.
    told = f'application="{application}"'.encode()
    raw, text = until(lambda: (found := scrape()) and told in found[1] and found, "the queries")
    assert text.endswith(b"# EOF\n") == ("openmetrics" in accept)
    assert (len(raw) < len(text) / 10) == packed


def promtool_is_content(text: str) -> bool:
    done = subprocess.run(
        [program("promtool"), "check", "metrics"],
        input=text,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return True


def test_start_is_quick(tmp_path: Path) -> None:
    """Start-up bounds how long a restart leaves drivers without an answer."""
    times = []
    for _ in range(3):
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        with AgentProcess(tmp_path) as agent:
            agent.stop()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime)
    assert min(times) < 3.0
