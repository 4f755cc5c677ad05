"""The log of a real run, and one real Spark for these tests."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What tests/history/real_run.py left behind, its environment and the machine's paths taken out.
REAL_RUN = Path(__file__).parent / "real-run.zstd"


@pytest.fixture(scope="session")
def real_log() -> bytes:
    with zstandard.open(io.BytesIO(REAL_RUN.read_bytes())) as file:
        return file.read()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from agent.history.job import session, ship

    running = session("local[2]", {"spark.ui.enabled": "false"})
    running.sparkContext.setLogLevel("OFF")
    running.sparkContext.pythonExec = sys.executable
    ship(running, str(tmp_path_factory.mktemp("bundle")))
    yield running
    running.stop()
