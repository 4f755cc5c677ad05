"""A wait ends with the first true answer, and else says what was waited for and what was seen."""

from __future__ import annotations

import pytest

from tests.waiting import until


def test_the_first_true_answer_is_given() -> None:
    answers = iter([None, 0, "", "there", "later"])
    assert until(lambda: next(answers), "a word", every=0.0) == "there"


def test_in_vain_it_says_what_how_long_and_the_last_answer() -> None:
    with pytest.raises(AssertionError) as failed:
        until(list, "a batch", seconds=0.02, every=0.01, telling=lambda: "its log")
    assert str(failed.value) == "waited 0.02 s in vain for a batch; last: []\nits log"


def test_it_looks_once_more_when_the_time_is_up() -> None:
    looks: list[int] = []
    with pytest.raises(AssertionError):
        until(lambda: looks.append(1), "nothing", seconds=0.01, every=60.0)
    assert len(looks) == 2


def test_only_the_named_errors_are_not_yet() -> None:
    tries = iter([OSError("not yet"), ConnectionError("nor now"), None])

    def look() -> bool:
        error = next(tries)
        if error is not None:
            raise error
        return True

    assert until(look, "an answer", every=0.0, ignoring=(OSError,))
    with pytest.raises(ZeroDivisionError):
        until(lambda: 1 / 0, "an answer", ignoring=(OSError,))
    with pytest.raises(AssertionError, match="last: ZeroDivisionError") as failed:
        until(lambda: 1 / 0, "an answer", seconds=0.0, ignoring=(ArithmeticError,))
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
