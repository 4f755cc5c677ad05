"""Consumer groups written by a process of its own.

librdkafka (2.16) aborts its process where a broker comes back while it was asking for a group's
coordinator (``rd_kafka_enq_once_del_source_return: Assertion``). Here that ends a child, and the
next write begins another. Child and agent speak JSON, a line each; the child ends with its agent,
whose options never stand on a command line.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from agent.child import command_of
from agent.sources.kafka import REQUEST_SECONDS, Brokers, GroupRefused, KafkaUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.sources.kafka import Place

#: Seconds for an answer, of which two requests of the child's and its start are parts.
ANSWER_SECONDS: Final = 6 * REQUEST_SECONDS


class GroupWriter:
    """One cluster's groups. Blocking calls with a bounded time, one at a time."""

    def __init__(self, bootstrap_servers: str, options: Mapping[str, str]) -> None:
        """Begins nothing yet."""
        self._setup = {"bootstrap": bootstrap_servers, "options": dict(options)}
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def write_group(self, group: str, offsets: Mapping[Place, int]) -> None:
        """As ``Brokers.write_group``. KafkaUnavailable where its child ends, or once closed."""
        asked = {
            "group": group,
            "offsets": [[topic, partition, at] for (topic, partition), at in offsets.items()],
        }
        with self._lock:
            try:
                answer = self._ask(asked)
            except (OSError, ValueError):
                self._end()
                raise KafkaUnavailable(
                    f"{self._setup['bootstrap']}: Kafka's client ended, and is begun again"
                ) from None
        if "refused" in answer:
            raise GroupRefused(str(answer["refused"]))
        if "failed" in answer:
            raise KafkaUnavailable(str(answer["failed"]))

    def close(self) -> None:
        """Ends the child, and with it whatever waits for its answer. No other is begun."""
        self._closed = True
        child = self._child
        if child is not None:
            child.kill()
        with self._lock:
            self._end()

    def _ask(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        child = self._child
        if child is None or child.poll() is not None:
            self._end()
            child = self._child = subprocess.Popen(  # noqa: S603 - this Python, and this module
                command_of(__name__),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # a client's own words may hold its options
                start_new_session=True,  # Ctrl-C is the agent's, whose end this one notices
            )
            self._tell(child, self._setup)
        if self._closed:  # after the child is there to be seen: ``close`` looks the other way round
            raise ValueError("closed")
        self._tell(child, asked)
        assert child.stdout is not None
        with selectors.DefaultSelector() as answers:  # which takes descriptors of any number
            answers.register(child.stdout, selectors.EVENT_READ)
            ready = answers.select(ANSWER_SECONDS)
        answer = json.loads(child.stdout.readline()) if ready else None
        if not isinstance(answer, dict):
            raise ValueError("no answer")
        return answer

    @staticmethod
    def _tell(child: subprocess.Popen[bytes], what: Mapping[str, Any]) -> None:
        assert child.stdin is not None
        child.stdin.write(json.dumps(what).encode() + b"\n")
        child.stdin.flush()

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what it had not read
                    pipe.close()


def _answer(brokers: Brokers, asked: Mapping[str, Any]) -> dict[str, str]:
    try:
        offsets = {(topic, partition): at for topic, partition, at in asked["offsets"]}
        brokers.write_group(asked["group"], offsets)
    except GroupRefused as error:
        return {"refused": str(error)}
    except KafkaUnavailable as error:
        return {"failed": str(error)}
    except Exception as error:  # noqa: BLE001 - the next group may be better
        return {"failed": type(error).__name__}  # its own words may hold the client's options
    return {}


def main() -> None:
    """The child: until its agent ends."""
    setup = json.loads(sys.stdin.readline())
    brokers = Brokers(setup["bootstrap"], setup["options"])
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(brokers, json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
