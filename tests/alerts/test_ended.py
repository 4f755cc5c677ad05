"""What an alert does once its query ends: stopped by its owner, failed, or its driver silent.

Each alert of a query fires first; then the query ends, and its series go on as the exporter leaves
them: those of a query that runs end, the others stand. Real rules, by promtool.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import pytest

from agent.export.catalogue import METRICS
from alerts.rules import ALERTS
from tests.alerts.alone import groups, rules_of
from tests.alerts.cases import CASES, q
from tests.alerts.faults import numbers
from tests.dashboards.live import tool

if TYPE_CHECKING:
    from tests.alerts.cases import Case

End = Literal["stopped", "failed", "silent"]
BY_SAMPLE: Final = {name: one for one in METRICS for name in one.sample_names}
_ABOUT_QUERIES: Final = {alert.name for alert in ALERTS if alert.subject == "query"}
OF_QUERIES: Final = [case for case in CASES if case.alert in _ABOUT_QUERIES]
NAMES: Final = [f"{case.alert}-{at}" for at, case in enumerate(OF_QUERIES)]
#: They tell why it does not run, or what is lost while it does not; of one that was stopped, none.
WHILE_DOWN: Final = frozenset(
    {
        "WeirSpiral",
        "WeirQueryGone",
        "WeirBatchesFailing",
        "WeirRetentionLossNear",
        "WeirRowsLost",
        "WeirRetentionLossAhead",
        "WeirRetentionUnwatched",
        "WeirFailingOften",
        "WeirCheckpointUnsound",
    }
)


def ended(case: Case, end: End) -> dict[str, str]:
    """Its series, of a query that ends right after the alert began to fire."""
    given = {q("weir_query_up"): "1x600", q("weir_query_stopped"): "0x600", **case.fires}
    after = {
        q("weir_query_up"): 0.0,
        q("weir_query_stopped"): float(end == "stopped"),
        q("weir_query_state", state="terminated"): float(end != "silent"),
        q("weir_attention", level="hung"): 0.0,
    }
    written: dict[str, str] = {}
    for name, notation in given.items():
        family = re.split(r"[{]", name)[0]
        values = ["_" if one is None else f"{one:g}" for one in numbers(notation)][: case.at + 1]
        last = f"{after[name]:g}" if name in after else values[-1]
        gone = name not in after and BY_SAMPLE[family].running
        values += ["stale"] if gone else [f"{last}x120"]
        written[name] = " ".join(values)
    return written


KEPT = {alert.name: alert.keep for alert in ALERTS}
AS_SILENT = pytest.mark.slow("as silent, but for one alert")
EACH = pytest.mark.slow("promtool once more for each alert; that each fires is tried every time")


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("stopped", marks=AS_SILENT),
        pytest.param("failed", marks=AS_SILENT),
        pytest.param("silent", marks=EACH),
    ],
)
@pytest.mark.parametrize(
    "case", OF_QUERIES, ids=[f"{c.alert}-{n}" for n, c in enumerate(OF_QUERIES)]
)
def test_an_ended_query_fires_nothing_but_that_it_is_gone(
    case: Case, end: End, tmp_path: Path
) -> None:
    # What a batch can flap is kept for a few minutes more.
    kept = int(KEPT[case.alert].removesuffix("m").replace("0s", "0")) // case.step_minutes
    if end != "stopped" and case.alert in WHILE_DOWN:
        after = case.at + 5, 1 if case.alert == "WeirQueryGone" else None
    else:
        after = case.at + 1 + kept, 0
    expected = [(case.at, 1), after, *((case.at + kept + step, after[1]) for step in (6, 30, 60))]
    asked = f'ALERTS{{alertname="{case.alert}",alertstate="firing"}}'
    interval = f"{case.step_minutes}m"
    content = {
        "rule_files": [str(rules_of(case.alert, tmp_path))],
        # promtool takes groups in any order, and what is recorded must come first.
        "group_eval_order": groups(),
        "evaluation_interval": interval,
        "tests": [
            {
                "interval": interval,
                "input_series": [
                    {"series": name, "values": values} for name, values in ended(case, end).items()
                ],
                "promql_expr_test": [
                    {
                        "expr": f"count({asked}) or vector(0)",
                        "eval_time": f"{step * case.step_minutes}m",
                        "exp_samples": [{"value": count}],
                    }
                    for step, count in expected
                    if count is not None
                ],
            }
        ],
    }
    path = tmp_path / "tests.json"
    path.write_text(json.dumps(content))
    done = subprocess.run(
        [tool("promtool"), "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_docs_say_what_happens_to_each_alert_when_its_query_ends() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "alerts.md").read_text()
    section = text[text.index("## When a query ends") :].split("\n## ")[0]
    assert set(re.findall(r"`(Weir\w+)`", section)) == WHILE_DOWN
