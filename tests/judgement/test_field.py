"""Failures of other people's jobs: the texts are sound, and the rules do no worse than they did."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from agent.core.judge.failure.cause import CAUSES, WHATS, WHERES
from tests.benchmarks.causes import AXES, Verdict, answer, verdict
from tests.judgement.field import HALVES, Half, Text, half_of, texts

TEXTS = [text for half in HALVES for text in texts(half)]
# The rules as they are, rounded to the worse twentieth: whoever betters them raises it.
RIGHT_AT_LEAST = {
    "open": {"cause": 0.95, "where": 0.95, "what": 0.95},
    "held": {"cause": 0.90, "where": 0.95, "what": 0.75},
    "fresh_open": {"cause": 0.95, "where": 0.95, "what": 0.95},
    "fresh_held": {"cause": 0.90, "where": 0.95, "what": 0.90},
}
WRONG_AT_MOST = {
    "open": {"cause": 0.05, "where": 0.05, "what": 0.05},
    "held": {"cause": 0.05, "where": 0.05, "what": 0.10},
    "fresh_open": {"cause": 0.05, "where": 0.05, "what": 0.05},
    "fresh_held": {"cause": 0.05, "where": 0.05, "what": 0.05},
}


def test_there_are_enough_texts_of_enough_threads_in_two_halves_each() -> None:
    assert len(TEXTS) >= 450
    assert len({text.source for text in TEXTS}) >= 450
    assert len(texts("held")) >= 100
    assert len(texts("fresh_held")) >= 80


def test_held_are_those_that_the_hash_says_and_that_were_not_read_since() -> None:
    held = {text.source for text in texts("held")}
    assert {half_of(source) for source in held} == {"held"}
    for half in HALVES:
        if half != "held":
            assert held.isdisjoint(text.source for text in texts(half))
    fresh = {text.source for text in texts("fresh_held")}
    assert fresh.isdisjoint(text.source for text in [*texts("open"), *texts("fresh_open")])


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.source)
def test_a_text_is_labelled_in_words_that_exist(text: Text) -> None:
    assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", text.source)
    for label, also, words in (
        (text.cause, text.also.cause, CAUSES),
        (text.where, text.also.where, WHERES),
        (text.what, text.also.what, WHATS),
    ):
        assert {label, *also} <= set(words)
        assert len({label, *also}) == 1 + len(also)
    assert text.why
    assert re.match(r"[\w.$]+(?:[:(\n]|$)", text.exception)  # as a stack trace begins


@pytest.mark.parametrize("halves", [("open", "held"), ("fresh_open", "fresh_held")])
def test_no_kind_of_failure_stands_for_many(halves: tuple[Half, ...]) -> None:
    found = [text for half in halves for text in texts(half)]
    kinds = Counter((text.connector, text.where, text.what, text.cause) for text in found)
    assert max(kinds.values()) <= 6


def test_there_are_many_kinds_of_failure() -> None:
    assert len({text.connector for text in TEXTS}) >= 30
    assert len({(text.where, text.what) for text in TEXTS}) >= 30


def test_texts_name_nobodys_machines() -> None:
    address = re.compile(r"(?<![-=.\d])\d+\.\d+\.\d+\.\d+")  # after these a version stands
    addresses = {found for text in TEXTS for found in address.findall(text.exception)}
    assert all(found.startswith("10.") for found in addresses), addresses
    assert not any(re.search(r"/(?:home|Users)/", text.exception) for text in TEXTS)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("axis", AXES)
def test_the_rules_are_no_worse_than_they_were(half: Half, axis: str) -> None:
    said: Counter[Verdict] = Counter()
    for text in texts(half):
        told = answer(text, axis)
        assert told is not None
        said[verdict(text, axis, told)] += 1
    assert said["right"] >= RIGHT_AT_LEAST[half][axis] * said.total()
    assert said["wrong"] <= WRONG_AT_MOST[half][axis] * said.total()
