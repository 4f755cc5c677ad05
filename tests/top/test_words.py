"""Everything the core can say has words."""

from __future__ import annotations

from typing import get_args

from agent.core.judge.failure.cause import CAUSES, WHATS, WHERES
from agent.core.judgement import MODES, QUERY_STATES, REASONS, SpiralPhase
from agent.export.terminal.words import words
from tests.core.test_fleet import World


def test_every_reason_state_and_phase_has_words() -> None:
    assert set(REASONS) == set(words().reasons)
    assert set(QUERY_STATES) == set(words().states)
    assert set(get_args(SpiralPhase)) == set(words().spirals)
    assert set(CAUSES) == set(words().causes)
    assert set(WHERES) - {"unknown"} == set(words().places)
    assert set(WHATS) - {"unknown"} == set(words().happenings)
    assert {"off", "dry-run", "on"} == set(MODES)
    for text in words().reasons.values():
        assert text
        assert len(text) < 70


def test_where_no_batch_ran_over_the_target_a_first_limit_does_not_say_so() -> None:
    world = World()
    for _ in range(3):
        world.send(world.driver.progress(5, 0.5, limit=None, configured=None))
    (decision,) = world.view().decisions
    assert (decision.before, decision.reason) == (None, "lower")
    assert words().reasons["lower"] == "lower: a full batch runs over the target"


def test_levels_are_named_once_and_each_has_its_symbol_word_and_tone() -> None:
    levels = words().levels
    assert len({level.name for level in levels}) == len(levels)
    assert len({level.label for level in levels}) == len(levels)
    assert all(len(level.symbol) == 1 and level.means for level in levels)
