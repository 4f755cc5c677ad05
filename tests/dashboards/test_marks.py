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
