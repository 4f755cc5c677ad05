"""The runbook says what to do next for each cause, place and kind of failure."""

from __future__ import annotations

import re

import pytest

from agent.core.judge.failure.cause import CAUSES, WHATS, WHERES, cause_of, outcomes
from agent.export import runbooks
from tests.faults.test_causes import TEXTS

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


@pytest.mark.parametrize(
    ("name", "word", "advice"),
    [
        ("kafka_end_beyond_latest", "Trigger.AvailableNow", "start it again first"),
        ("kafka_partitions_lost_while_running", "Trigger.AvailableNow", "start it again first"),
        ("kafka_partitions_other_than_prefetched", "Trigger.AvailableNow", "start it again first"),
        ("kafka_partitions_gone_to_a_group", "kafka.group.id", "its own group"),
        (
            "kafka_partitions_gone_to_a_group_condition",
            "GROUP_ID_CONFIG_PRESENT",
            "its own group",
        ),
        ("kinesis_metadata_of_another_query", "committed metadata", "metadataPath"),
        ("two_writers_crc_left_behind", "Multiple streaming queries", "remove that file"),
        ("broadcast_not_ready", "Could not execute broadcast", "spark.sql.broadcastTimeout"),
        ("py4j_no_new_channel", "new communication channel", "exit code"),
    ],
)
def test_the_evidence_has_the_word_by_which_a_step_is_found(
    name: str, word: str, advice: str
) -> None:
    (text,) = [one for one in TEXTS if one["name"] == name]
    assert word in cause_of(text["text"], None).evidence
    page = runbooks.source("WeirBatchesFailing")
    part = page.split(f"\n### {text['cause']}\n", 1)[1].split("\n### ", 1)[0]
    (step,) = [one for one in part.split("\n- ") if f"`{word}`" in one]
    assert advice in step


def test_a_killed_machine_may_have_wanted_memory() -> None:
    page = runbooks.source("WeirBatchesFailing").split("machine, shuffle / killed", 1)[1]
    assert "code 137" in page.split("\n- ", 1)[0]
