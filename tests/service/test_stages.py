"""Stages asked of a driver: who may be asked, what one that misbehaves costs, where it shows."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
import tracemalloc
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.service import stages
from agent.service.stages import LOCAL, Stages
from tests.core.test_fleet import KEY, World
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent.core.judge.alignment import AlignmentView

CERTIFICATES = Path(__file__).parents[1] / "driver" / "certificates"
JOBS = [
    {
        "jobId": 7,
        "jobGroup": "r-1",
        "status": "SUCCEEDED",
        "stageIds": [3, 4],
        "description": "orders<br/>id = q-1<br/>runId = r-1<br/>batch = 5",
    },
    {"jobId": 6, "jobGroup": "r-1", "status": "SUCCEEDED", "stageIds": [2], "description": "x"},
    {"jobId": 8, "jobGroup": "other", "status": "SUCCEEDED", "stageIds": [9]},
]


def tasks(seconds: list[float], rows: list[int], kind: str) -> list[dict[str, Any]]:
    return [
        {
            "partitionId": partition,
            "duration": 1000 * duration,
            "status": "SUCCESS",
            "executorId": "2",
            "host": "worker-2",
            "taskMetrics": {kind: {"recordsRead": read}},
        }
        for partition, (duration, read) in enumerate(zip(seconds, rows, strict=True))
    ]


ANSWERS: dict[str, Any] = {
    "/jobs": JOBS,
    "/stages/3": [{"status": "COMPLETE", "attemptId": 0, "name": "start at job.py:3"}],
    "/stages/4": [{"status": "COMPLETE", "attemptId": 0, "name": "start at job.py:3"}],
    "/stages/3/0/taskList": tasks([0.5, 0.6, 0.5], [150, 150, 200], "inputMetrics"),
    "/stages/4/0/taskList": tasks([0.5, 0.4, 2.5], [10, 10, 480], "shuffleReadMetrics"),
}


class RestServer:
    """Speaks as a driver's REST API does, or as one that is in trouble."""

    def __init__(
        self,
        answer: Callable[[str], tuple[int, bytes] | None],
        *,
        packed: str | None = None,
        secure: bool = False,
    ) -> None:
        asked: list[str] = []
        taken: set[str | None] = set()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                taken.add(self.headers.get("Accept-Encoding"))
                said = answer(self.path)
                if said is None:
                    return
                self.send_response(said[0])
                if said[0] == 302:
                    self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                if packed is not None:
                    self.send_header("Content-Encoding", packed)
                self.send_header("Content-Length", str(len(said[1])))
                self.end_headers()
                self.wfile.write(said[1])

            def log_message(self, *_: Any) -> None: ...

        self.asked, self.taken = asked, taken
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if secure:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(CERTIFICATES / "agent.pem", CERTIFICATES / "agent.key")
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "https" if secure else "http"
        self.address = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def well(path: str) -> tuple[int, bytes]:
    """What a driver of batch 5 answers."""
    place = path.partition("?")[0].removeprefix("/api/v1/applications/local-1")
    if place in ANSWERS:
        return 200, json.dumps(ANSWERS[place]).encode()
    return 404, b"unknown"


@pytest.fixture
def driver() -> Iterator[RestServer]:
    server = RestServer(well)
    yield server
    server.close()


class Watched:
    """A world of one query with six batches, and what asks for its stages."""

    def __init__(self, address: str | None, hosts: list[str], *, own: bool = True) -> None:
        self.world = World()
        self.world.send(self.world.driver.started(uiUrl=address))
        for _ in range(6):
            self.world.send(self.world.driver.progress(500, 3.0))
        self.now = self.world.now
        self.stages = Stages(
            lambda: self.world.fleet, hosts, own_machine_only=own, clock=lambda: self.now
        )

    def look(self, rounds: int = 1, pause: float = 0.0) -> AlignmentView:
        async def go() -> None:
            for _ in range(rounds):
                await self.stages.look()
                self.now += pause
            await self.stages.close()

        asyncio.run(go())
        return self.world.view().alignment


def test_a_driver_s_stages_show_with_partition_executor_source_and_advice(
    driver: RestServer,
) -> None:
    watched = Watched(driver.address, [LOCAL])
    found = watched.look()
    assert found.missing == ""
    assert found.batch_id == 5
    assert [one.stage for one in found.stages] == [4, 3]  # the longest wait first
    slow, even = found.stages
    assert (slow.partition, slow.executor, slow.host, slow.why) == (2, "2", "worker-2", "skew")
    assert slow.wait_seconds == pytest.approx(2.0)
    assert "partition 2" in slow.advice
    assert even.why == "even"
    assert even.source == 0  # it read the 500 rows that source 0 gave
    assert slow.source is None
    assert found.seconds == pytest.approx(2.1)
    assert found.skew_ratio == pytest.approx(5.0)
    assert any("partition 2" in said for said in watched.world.view().advice)


@pytest.mark.parametrize(
    ("hosts", "own", "asked"),
    [
        ([LOCAL], True, True),
        ([LOCAL], False, False),  # others may send events: they could name this machine's own
        ([], True, False),
        (["127.0.0.*"], False, True),
        (["*.spark.svc"], True, False),
    ],
)
def test_only_hosts_that_are_allowed_are_asked(
    driver: RestServer, hosts: list[str], own: bool, asked: bool
) -> None:
    found = Watched(driver.address, hosts, own=own).look()
    assert bool(driver.asked) == asked
    assert bool(found.stages) == asked
    assert asked or "spark_ui_hosts" in found.missing


@pytest.mark.parametrize(("trusted", "asked"), [("agent.pem", True), ("stranger.pem", False)])
def test_a_driver_s_certificate_is_judged_by_the_system_s_list(
    monkeypatch: pytest.MonkeyPatch, trusted: str, asked: bool
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / trusted))
    server = RestServer(well, secure=True)
    try:
        found = Watched(server.address, [LOCAL]).look()
    finally:
        server.close()
    assert bool(found.stages) == bool(server.asked) == asked
    assert asked or "out of reach" in found.missing


@pytest.mark.parametrize("more", ["/", "/?", "/jobs/job/kill/ ?id=12&x=", "?id=12#", "#/jobs"])
def test_of_an_address_the_host_and_port_alone_are_asked(driver: RestServer, more: str) -> None:
    """A GET of ``/jobs/job/kill/?id=12`` ends a job."""
    assert Watched(driver.address + more, [LOCAL]).look().stages
    assert all(path.startswith("/api/v1/applications/local-1/") for path in driver.asked)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (None, "spark.ui.enabled"),
        ("ftp://127.0.0.1/", "none that can be asked"),
        ("http://user:secret@127.0.0.1:1", "out of reach"),
        ("http://127.0.0.1:99999", "none that can be asked"),
        ("http://[::1", "none that can be asked"),
        ("http://169.254.169.254/latest", "does not allow"),
        ("http://127.0.0.1.evil.example:80", "does not allow"),
    ],
)
def test_addresses_that_are_not_asked_say_why(address: str | None, said: str) -> None:
    found = Watched(address, [LOCAL]).look()
    assert found.stages == []
    assert found.seconds is None
    assert said in found.missing
    assert "secret" not in found.missing


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: (404, b""), "404"),
        (lambda _: (302, b""), "302"),
        (lambda _: (200, b"<html>"), "whole answer"),
        (lambda _: (200, b'[{"jobId": 1, "sta'), "whole answer"),
        (lambda _: (200, b"[1, null]"), "no finished job"),
        (lambda _: None, "out of reach"),
    ],
)
def test_a_driver_in_trouble_is_named_and_asked_ever_less_often(
    answer: Callable[[str], tuple[int, bytes] | None], said: str
) -> None:
    server = RestServer(answer)
    try:
        watched = Watched(server.address, [LOCAL])
        assert said in watched.look().missing
        for batch in range(6, 66):
            watched.world.send(watched.world.driver.progress(500, 1.5, batch_id=batch))
            watched.now += 10.0
            watched.look()
        assert 3 <= len(server.asked) <= 8  # in ten minutes
    finally:
        server.close()


def zstd_of_spaces(blocks: int) -> bytes:
    """A frame that says "128 KiB of spaces" so often: https://www.rfc-editor.org/rfc/rfc8878."""
    head = 0xFD2FB528.to_bytes(4, "little") + bytes([0, (17 - 10) << 3])  # a window of 2^17 bytes
    size, repeated = 1 << 17, 1 << 1
    block = (size << 3 | repeated).to_bytes(3, "little") + b" "
    return head + blocks * block + (1 | size << 3 | repeated).to_bytes(3, "little") + b" "


def test_an_answer_that_would_unpack_to_much_is_not_unpacked() -> None:
    bomb = zstd_of_spaces(2048)
    assert len(bomb) < 10_000  # and 256 MiB when it is unpacked
    server = RestServer(lambda _: (200, bomb), packed="zstd")
    try:
        watched = Watched(server.address, [LOCAL])
        tracemalloc.start()
        try:
            found = watched.look()
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    finally:
        server.close()
    assert most < 32 * 1024 * 1024
    assert "no whole answer: it is packed" in found.missing
    assert server.taken == {"identity"}


def test_a_driver_that_is_slow_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "LOOK_LIMIT_SECONDS", 0.3)

    released = threading.Event()

    def slow(_: str) -> tuple[int, bytes] | None:
        released.wait(120.0)
        return None

    server = RestServer(slow)
    try:
        # It comes back although no answer does before the end of this block.
        assert "too long" in Watched(server.address, [LOCAL]).look().missing
    finally:
        released.set()
        server.close()


def test_a_query_is_asked_about_again_only_after_another_batch(driver: RestServer) -> None:
    watched = Watched(driver.address, [LOCAL])
    watched.look(rounds=5, pause=60.0)
    asked = len(driver.asked)
    watched.world.send(watched.world.driver.progress(500, 1.5))
    watched.look()
    assert len(driver.asked) == 2 * asked


def test_a_driver_that_was_slow_once_is_asked_again_without_another_batch() -> None:
    trouble = [(503, b"")]
    server = RestServer(lambda path: trouble.pop() if trouble else well(path))
    try:
        watched = Watched(server.address, [LOCAL])
        assert "503" in watched.look().missing
        watched.now += 21.0
        assert watched.look().stages
    finally:
        server.close()


def test_another_run_has_other_stages(driver: RestServer) -> None:
    watched = Watched(driver.address, [LOCAL])
    assert watched.look().stages
    watched.world.driver.run_id = "r-2"
    watched.world.send(watched.world.driver.started(uiUrl=driver.address))
    assert watched.world.view().alignment.stages == []


def of_several(watched: Watched, queries: int, address: str) -> Watched:
    """The driver has so many queries."""
    for number in range(2, queries + 1):
        watched.world.driver.query_id, watched.world.driver.run_id = f"q-{number}", f"r-{number}"
        watched.world.driver.query = f"query-{number}"
        watched.world.send(watched.world.driver.started(uiUrl=address))
        watched.world.send(watched.world.driver.progress(500, 0.5))
    watched.now = watched.world.now
    return watched


def test_a_driver_s_jobs_are_listed_once_a_round_for_all_its_queries(driver: RestServer) -> None:
    watched = of_several(Watched(driver.address, [LOCAL]), 5, driver.address)
    assert watched.look().stages
    assert sum("/jobs" in path for path in driver.asked) == 1
    watched.now += 21.0  # of those that have no stages nothing was known
    watched.look()
    assert sum("/jobs" in path for path in driver.asked) == 2


@pytest.mark.parametrize("slow", [False, True])
def test_a_driver_that_cannot_list_its_jobs_is_asked_once_a_round(
    monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    monkeypatch.setattr(stages, "LOOK_LIMIT_SECONDS", 0.3)
    released = threading.Event()

    def answer(_: str) -> tuple[int, bytes]:
        if slow:
            released.wait(120.0)
        return 503, b""

    server = RestServer(answer)
    try:
        watched = of_several(Watched(server.address, [LOCAL]), 5, server.address)
        watched.look()
        wanted = watched.world.fleet.stages_wanted()
        views = [watched.world.fleet.view(one.key, watched.now) for one in wanted]
        assert len(views) == 5
        said = "took too long" if slow else "answered 503"
        assert all(said in view.alignment.missing for view in views)
        assert len(server.asked) == 1
    finally:
        released.set()
        server.close()


@pytest.mark.timeout(120)
def test_an_agent_on_loopback_shows_them_everywhere(driver: RestServer, tmp_path: Any) -> None:
    world = World()
    world.driver.time = time.time() - 20.0
    body = world.driver.body(
        world.driver.started(uiUrl=driver.address),
        *(world.driver.progress(500, 2.0, batch_id=number) for number in range(6)),
    )
    with AgentProcess(tmp_path) as agent:
        assert agent.post(body).status_code == 200

        def shown() -> list[dict[str, Any]]:
            view = agent.http.get(f"/v1/queries/{KEY[0]}/{KEY[1]}").json()["query"]
            return list(view["alignment"].get("stages") or ())

        assert until(shown, "the stages", every=0.5)[0]["partition"] == 2
        samples = agent.metrics()
        labels = f'{{application="{KEY[0]}",query="{KEY[1]}"}}'
        assert samples[f"weir_alignment_seconds{labels}"] == pytest.approx(2.1)
        assert samples[f"weir_task_skew_ratio{labels}"] == pytest.approx(5.0)
        assert agent.stop() == 0
