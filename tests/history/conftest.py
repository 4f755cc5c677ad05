"""The log of a real run, and one real Spark for these tests."""

from __future__ import annotations

import io
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

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


@pytest.fixture(scope="module")
def spark() -> Iterator[Executor]:
    """One process with a Spark; functions of ``spark_process`` are run there."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        yield process
