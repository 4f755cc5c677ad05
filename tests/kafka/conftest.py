"""One broker for all tests on Kafka; a test that kills or fills it starts its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.kafka.broker import Broker, is_there
from tests.spark.conftest import attached, folder, own_logger, spark, start

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["attached", "folder", "own_logger", "spark", "start"]


@pytest.fixture(scope="session")
def kafka_jars() -> None:
    """Under CI missing jars fail, elsewhere they skip."""
    if not is_there():
        if os.environ.get("CI"):
            pytest.fail("the broker's jars are missing: make kafka")
        pytest.skip("the broker's jars are missing: make kafka")


@pytest.fixture(scope="session")
def broker(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that runs as long as the tests; give topics names of their own."""
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running
