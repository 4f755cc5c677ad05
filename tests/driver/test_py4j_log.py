"""What py4j logs of calls of ours is not in the job's log, and the job sets its log up itself."""

from __future__ import annotations

import contextlib
import logging
import socket
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from py4j.clientserver import ClientServerConnection, JavaClient, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayProperty
from py4j.protocol import Py4JError

from spark_listener.handlers import WhileOursRuns
from spark_listener.py4j_log import hang_up, keep_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def client() -> Iterator[JavaClient]:
    """Of a JVM that ends each connection at once, as one that is about to go."""
    keep_out()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def end_each() -> None:
            with contextlib.suppress(OSError):
                while True:
                    server.accept()[0].close()

        Thread(target=end_each, daemon=True).start()
        port = server.getsockname()[1]
        parameters = PythonParameters(port=0)
        properties = GatewayProperty(auto_field=False, pool=None)
        yield JavaClient(JavaParameters(port=port), parameters, properties)
        server.shutdown(socket.SHUT_RDWR)


def in_a_thread(name: str, act: Callable[[], object]) -> None:
    thread = Thread(target=act, name=name, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def call(client: JavaClient) -> None:
    with contextlib.suppress(Py4JError, OSError):
        client.send_command("i\n")


def call_within_ours(client: JavaClient) -> None:
    with WhileOursRuns():
        call(client)


@pytest.mark.parametrize(
    ("name", "act", "ours"),
    [
        ("weir-events", call, True),
        ("a thread of the job's", call_within_ours, True),
        ("a thread of the job's", call, False),
    ],
)
def test_a_call_of_ours_that_breaks_sets_up_no_log(
    client: JavaClient,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    act: Callable[[JavaClient], None],
    ours: bool,
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])  # as where a job has not set it up
    in_a_thread(name, lambda: act(client))
    assert bool(root.handlers) is not ours


def test_py4j_tells_of_the_jobs_calls_and_connections_alone(
    client: JavaClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "py4j")
    gateway: Any = type("Gateway", (), {"_gateway_client": client})
    told: dict[str, list[str]] = {}

    def connect(*, ours: bool) -> None:
        connection = ClientServerConnection(
            client.java_parameters, client.python_parameters, client.gateway_property, client
        )
        connection.connect_to_java_server()
        client.set_thread_connection(connection)
        client.deque.append(connection)
        if ours:
            hang_up(gateway)

    for name in ("weir-observer", "the job's"):
        caplog.clear()
        in_a_thread(name, lambda name=name: call(client))  # type: ignore[misc]
        in_a_thread(name, lambda ours=name != "the job's": connect(ours=ours))  # type: ignore[misc]
        told[name] = [record.getMessage() for record in caplog.records]
    assert told["weir-observer"] == []
    assert "Command to send: i\n" in told["the job's"]
    assert told["the job's"][-1] == "Closing down clientserver connection"
