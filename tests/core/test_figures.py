"""Figures in sentences: no scientific notation, three digits that count."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.decode.events import decode_request
from agent.core.figures import figure
from agent.core.fleet import Fleet
from agent.core.policy import Policy
from tests.core.events import START_TIME, Driver


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12_883.4, "12,900"),
        (11_500.0, "11,500"),
        (0.8812, "0.881"),
        (5.0, "5"),
        (999.6, "1,000"),
        (60.0, "60"),
        (3_141_592.6, "3,140,000"),
        (0.000_012_34, "0.0000123"),
        (0.0, "0"),
        (-1234.5, "-1,230"),
        (float("inf"), "unlimited"),
        (float("nan"), "unknown"),
    ],
)
def test_figures(value: float, text: str) -> None:
    assert figure(value) == text


@given(st.floats(min_value=1e-9, max_value=1e15))
def test_a_figure_is_within_half_a_percent_and_plain(value: float) -> None:
    text = figure(value)
    assert re.fullmatch(r"\d{1,3}(,\d{3})*(\.\d+)?", text)
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.0051)


def test_a_decision_says_its_figures_plainly() -> None:
    driver = Driver()
    fleet = Fleet(Policy(), started_time=START_TIME)
    for rows in (10_000, 20_000, 30_000):
        event = driver.progress(rows, 0.88 + rows / 11_500, limit=rows, backlog=10**7)
        fleet.receive(decode_request(driver.body(event)), driver.time)
    (first, *_) = fleet.view(("shop", "orders"), driver.time).decisions
    assert re.fullmatch(
        r"10,000 rows took 1\.75 s; model: 0\.\d+ s \+ 1 s per \d,\d\d0 rows; wants 3\d,\d00 rows",
        first.detail,
    )
