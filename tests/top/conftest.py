"""An agent's endpoint for the terminal view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.page.conftest import FleetServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def fleet() -> Iterator[FleetServer]:
    server = FleetServer()
    try:
        yield server
    finally:
        server.stop()
