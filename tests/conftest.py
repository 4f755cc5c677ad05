"""One Kafka broker for all tests that read or write one; a test that kills it starts its own.

And what every test takes for granted of the process it runs in.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from tests.lacking import lacking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kafka.broker import Broker

# A shell starts background jobs with SIGINT ignored, and every program that a test starts would
# inherit that: no Ctrl-C would reach it.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A test's JVM lives for seconds: what its second compiler and a collector of many threads would
# win is never won back, and they take the processor from the tests beside it (half of their time).
# With one compiler a JVM has 48 MB for compiled code, which a file of tests on tables has filled.
_SHORT_LIVES = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=192m"
for _java_options in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_java_options, _SHORT_LIVES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What ``make test`` leaves out says why; it finds each kind of test by its file's words."""
    kinds = {path: _kinds(path) for path in {item.path for item in items}}
    for item in items:
        for kind in ("spark", "browser", "course"):
            if item.get_closest_marker(kind) and kind not in kinds[item.path]:
                raise pytest.UsageError(f"{item.nodeid}: write pytest.mark.{kind} in its own file")
        for mark in [*item.iter_markers("slow"), *item.iter_markers("course")]:
            if len(mark.args) != 1 or not isinstance(mark.args[0], str) or not mark.args[0]:
                why = f'say why: @pytest.mark.{mark.name}("reason")'
                raise pytest.UsageError(f"{item.nodeid}: {why}")
        if item.get_closest_marker("course") and not item.get_closest_marker("slow"):
            raise pytest.UsageError(f"{item.nodeid}: a course is slow: mark it so, too")


def _kinds(path: Path) -> set[str]:
    return set(re.findall(r"pytest\.mark\.(\w+)", path.read_text()))


@pytest.fixture(scope="session")
def kafka_jars() -> None:
    """Under CI missing jars fail, elsewhere they skip."""
    from tests.kafka.broker import is_there

    if not is_there():
        lacking("the broker's jars are missing: make kafka")


@pytest.fixture(scope="session")
def broker(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that runs as long as the tests; give topics names of their own."""
    from tests.kafka.broker import Broker

    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running
