"""Each decision that moved a limit is one mark, wherever it fell between two scrapes: promtool."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from dashboards import links
from tests.dashboards.live import tool
from tests.dashboards.test_dashboards import BOARDS, filled

if TYPE_CHECKING:
    from pathlib import Path

#: How far the graph reaches, and when in it decisions were made: one before each scrape.
SHOWN_SECONDS = 960
DECISIONS_SECONDS = (300, 600)
#: So long before it is asked, what is asked was scraped at the latest: no scrape keeps to the grid.
BESIDE_SECONDS = 2


def _gap(scrapes: int) -> str:
    return f"_x{scrapes} " if scrapes else ""


@pytest.mark.parametrize("scrape_seconds", [5, 15, 30, 60])
def test_each_decision_is_one_mark(scrape_seconds: int, tmp_path: Path) -> None:
    (mark,) = (
        one for one in BOARDS[links.QUERY]["annotations"]["list"] if one["name"] == "Decisions"
    )
    step_seconds = int(mark["step"].removesuffix("s"))
    scrapes = SHOWN_SECONDS // scrape_seconds
    first, last = (seconds // scrape_seconds for seconds in DECISIONS_SECONDS)
    series = [
        {
            "series": 'weir_grants_total{application="orders",query="enrich",instance="a:9655",'
            f'reason="{scrape}"}}',
            "values": f"7x{scrape - 1} 8x{scrapes - scrape}",
        }
        for scrape in range(first, last)
    ]
    # The first of its reason, one in each half of the time; the other agent's query came with it,
    # and what it counted before is no news.
    began = (first + last) // 2
    reasons_first = {"news": began * scrape_seconds}
    for instance, reason, since in (("a", "news", 0), ("b", "old", began)):
        labels = f'application="orders",query="enrich",instance="{instance}:9655"'
        there, comes = scrapes - since, scrapes - began
        series.append(
            {"series": f"weir_query_up{{{labels}}}", "values": f"{_gap(since)}1x{there - 1}"}
        )
        series.append(
            {
                "series": f'weir_grants_total{{{labels},reason="{reason}"}}',
                "values": f"{_gap(began)}3x{comes - 1}",
            }
        )
    asked = [
        {
            # Marked is what has any value.
            "expr": f"({filled(mark['expr'], 'orders', 'enrich')}) > bool 0",
            "eval_time": f"{seconds + BESIDE_SECONDS}s",
            "exp_samples": [
                {
                    "labels": f'{{application="orders",query="enrich",reason="{scrape}"}}',
                    "value": 1,
                }
                for scrape in range(first, last)
                if seconds - step_seconds < scrape * scrape_seconds <= seconds
            ]
            + [
                {
                    "labels": f'{{application="orders",query="enrich",reason="{reason}"}}',
                    "value": 1,
                }
                for reason, at_seconds in reasons_first.items()
                if seconds - step_seconds < at_seconds <= seconds
            ],
        }
        for seconds in range(step_seconds, SHOWN_SECONDS, step_seconds)
    ]
    test = {
        "interval": f"{scrape_seconds}s",
        "input_series": series,
        "promql_expr_test": asked,
    }
    path = tmp_path / "tests.json"
    path.write_text(json.dumps({"rule_files": [], "tests": [test]}))
    done = subprocess.run(
        [tool("promtool"), "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
