"""Where something is missing a test skips, and under CI it fails."""

from __future__ import annotations

import pytest

from tests.lacking import lacking


def test_what_is_missing_fails_under_ci_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, ends in (("true", pytest.fail.Exception), ("", pytest.skip.Exception)):
        monkeypatch.setenv("CI", value)
        with pytest.raises(ends, match="no kettle"):
            lacking("no kettle is here: make tea")
