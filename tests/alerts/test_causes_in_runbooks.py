"""The runbook says what to do next for each cause, place and kind of failure."""

from __future__ import annotations

import re

import pytest

from agent.core.judge.failure.cause import CAUSES, WHATS, WHERES, outcomes
from agent.export import runbooks

_ROW = re.compile(r"^- ([a-z_, ]+) / ([a-z, ]+): (.+)$", re.MULTILINE)


def rows(cause: str) -> list[tuple[set[str], set[str], str]]:
    page = runbooks.source("WeirBatchesFailing")
    part = page.split(f"\n### {cause}\n", 1)[1].split("\n### ", 1)[0]
    return [
        (set(where.split(", ")), set(what.split(", ")), told)
        for where, what, told in _ROW.findall(part)
    ]


@pytest.mark.parametrize("cause", CAUSES)
def test_each_place_and_kind_has_its_next_step(cause: str) -> None:
    there = rows(cause)
    reached = {(where, what) for where, what, one in outcomes() if one == cause}
    for where, what in reached:
        fits = [told for wheres, whats, told in there if wheres & {where, "any"} and what in whats]
        assert fits, f"{cause}: what to do when {where} is {what}?"
    for wheres, whats, _ in there:
        assert wheres <= {*WHERES, "any"}
        assert whats <= set(WHATS)
        assert any({where, "any"} & wheres and what in whats for where, what in reached)


@pytest.mark.parametrize(
    "code", ["quotaExceeded", "jobRateLimitExceeded", "dailyLimitExceeded", "TOO_MANY_PARTS"]
)
def test_a_quota_of_commits_is_not_met_by_smaller_batches(code: str) -> None:
    page = runbooks.source("WeirBatchesFailing")
    (step,) = [one for one in page.split("\n- ") if code in one]
    assert "larger batches" in step
    assert "weir limit" not in step


def test_a_killed_machine_may_have_wanted_memory() -> None:
    page = runbooks.source("WeirBatchesFailing").split("machine, shuffle / killed", 1)[1]
    assert "code 137" in page.split("\n- ", 1)[0]
