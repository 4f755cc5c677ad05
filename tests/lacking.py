"""What a test needs and this machine has not: there it skips, and under CI it fails."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacking(why: str) -> NoReturn:
    """Ends the test; ``why`` says what is missing and, where there is one, what brings it."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)
