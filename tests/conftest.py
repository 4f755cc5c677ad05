"""One Kafka broker for all tests that read or write one; a test that kills it starts its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kafka.broker import Broker


@pytest.fixture(scope="session")
def kafka_jars() -> None:
    """Under CI missing jars fail, elsewhere they skip."""
    from tests.kafka.broker import is_there

    if not is_there():
        if os.environ.get("CI"):
            pytest.fail("the broker's jars are missing: make kafka")
        pytest.skip("the broker's jars are missing: make kafka")


@pytest.fixture(scope="session")
def broker(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that runs as long as the tests; give topics names of their own."""
    from tests.kafka.broker import Broker

    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running
