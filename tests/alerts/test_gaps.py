"""A scrape that fails ends all series, and no page that stands on them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from alerts.rules import ALERTS
from tests.alerts.alone import groups
from tests.alerts.cases import CASES
from tests.alerts.faults import numbers
from tests.alerts.test_alerts import RULES, promtool

if TYPE_CHECKING:
    from pathlib import Path

#: What stands on series that a scrape brings; the others tell of scrapes that fail.
PAGES = [
    alert.name
    for alert in ALERTS
    if alert.severity == "critical" and alert.name not in {"WeirAgentDown", "WeirAgentUnreachable"}
]


def test_a_gap_in_what_is_scraped_ends_no_page(tmp_path: Path) -> None:
    """As of an agent that starts anew: each would be sent once more."""
    cases = {case.alert: case for case in reversed(CASES)}
    tests = []
    for name in PAGES:
        begins = cases[name].at
        gap = begins + 15  # past what an alert itself looks back
        given = []
        for one, notation in cases[name].fires.items():
            values = ["_" if value is None else f"{value:g}" for value in numbers(notation)]
            values[gap : gap + 4] = ["stale", "_", "_", "_"]
            given.append({"series": one, "values": " ".join(values)})
        told = f'ALERTS{{alertname="{name}",alertstate="firing"}}'
        asked = [
            {"expr": f"count({told})", "eval_time": f"{minute}m", "exp_samples": [{"value": 1}]}
            for minute in range(begins, gap + 15)
        ]
        tests.append({"interval": "1m", "input_series": given, "promql_expr_test": asked})
    path = tmp_path / "tests.json"
    content = {"rule_files": [str(RULES)], "group_eval_order": groups(), "tests": tests}
    path.write_text(json.dumps(content))
    done = promtool(path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_page_is_kept_longer_than_one_that_holds_it_back() -> None:
    """It would be sent as that ends, though it is over as well."""
    assert {one.keep for one in ALERTS if one.name in PAGES} == {"5m"}
