"""Boards over several clusters or namespaces that have a thing of one name each, by promtool."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from dashboards import links
from tests.dashboards.live import tool
from tests.dashboards.test_dashboards import filled, panels

if TYPE_CHECKING:
    from pathlib import Path

#: When the boards are looked at; one thing is dead from minute 5 on. A sample comes each minute.
MINUTE: Final = 20
DEAD: Final = "1x4 0x40"
ENDED: Final = "1x4 stale"
ALIVE: Final = "1x40"


def of_panel(uid: str, title: str, at: int = 0) -> str:
    """The PromQL of a panel, of a table's columns that of the one at a place; all is chosen."""
    (panel,) = (one for one in panels(uid) if one["title"] == title)
    return filled(panel["targets"][at]["expr"], "orders", "enrich")


def tells(expected: dict[str, float], given: dict[str, str], tmp_path: Path) -> None:
    """Each expression, without labels, has its value at that minute."""
    asked = [
        {
            "expr": expression,
            "eval_time": f"{MINUTE}m",
            "exp_samples": [{"labels": "{}", "value": value}],
        }
        for expression, value in expected.items()
    ]
    series = [{"series": name, "values": values} for name, values in given.items()]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    path = tmp_path / "tests.json"
    path.write_text(json.dumps({"rule_files": [], "tests": [test]}))
    done = subprocess.run(
        [tool("promtool"), "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def agent(place: str, alive: bool, target: str, own: str) -> dict[str, str]:
    """An agent's series and its target's, with the labels of each beside job and instance."""
    of = f'job="weir",instance="{place}:9655",'
    return {
        f"up{{{of}{target}}}": ALIVE if alive else DEAD,
        f'weir_build_info{{{of}{own},version="1"}}': ALIVE if alive else ENDED,
        f"weir_agent_start_time_seconds{{{of}{own}}}": "60x40" if alive else "60x4 stale",
        f"weir_agent_queries{{{of}{own}}}": ALIVE if alive else ENDED,
    }


@pytest.mark.parametrize(
    "given",
    [
        {
            **agent("a", False, 'namespace="jobs",pod="weir-0"', 'namespace="shop",pod="weir-0"'),
            **agent("b", True, 'namespace="jobs",pod="weir-1"', 'namespace="shop",pod="weir-1"'),
        },
        {
            **agent("a", False, 'cluster="eu"', 'cluster="eu"'),
            **agent("a", True, 'cluster="us"', 'cluster="us"'),
        },
        {  # back at another address, where it does not answer
            'up{job="weir",instance="b:9655",namespace="jobs",pod="weir-0"}': "_x5 0x40",
            'weir_build_info{job="weir",instance="a:9655",namespace="jobs",pod="weir-0"}': ENDED,
            **agent("c", True, 'namespace="jobs",pod="weir-1"', 'namespace="jobs",pod="weir-1"'),
        },
    ],
    ids=["a namespace of its own", "two clusters", "another address"],
)
def test_one_agent_of_two_is_silent(given: dict[str, str], tmp_path: Path) -> None:
    told = {
        of_panel(links.OVERVIEW, "Agents silent"): 1,
        of_panel(links.AGENT, "Silent"): 1,
        of_panel(links.AGENT, "Agents"): 1,
    }
    tells(told, given, tmp_path)


def test_agents_of_one_name_in_two_clusters_have_a_row_each(tmp_path: Path) -> None:
    given = {
        name: values
        for cluster in ("eu", "us")
        for own in (f'cluster="{cluster}",namespace="jobs"',)
        for name, values in agent("a", True, own, own).items()
    }
    running = of_panel(links.AGENT, "Each agent")
    tells({f"count({running})": 2, f"min({running})": 60 * MINUTE - 60}, given, tmp_path)


def query(up: str, own: str, at: str = "a") -> dict[str, str]:
    """What an agent says of the one query: whether it runs."""
    of = f'application="orders",query="enrich",job="weir",instance="{at}:9655"'
    return {f"weir_query_up{{{of},{own}}}": up}


@pytest.mark.parametrize(
    ("given", "up", "of_this_name"),
    [
        (query(ALIVE, 'cluster="eu"'), 1, 1),
        ({**query(DEAD, 'cluster="eu"'), **query(ALIVE, 'cluster="us"')}, 0, 2),
        ({**query(DEAD, 'namespace="shop"'), **query(ALIVE, 'namespace="jobs"')}, 0, 2),
        # It moved to another node's agent: it is one, and runs.
        ({**query(DEAD, 'cluster="eu"'), **query(ALIVE, 'cluster="eu"', at="b")}, 1, 1),
    ],
)
def test_a_dead_query_of_two_of_one_name_does_not_read_as_up(
    given: dict[str, str], up: int, of_this_name: int, tmp_path: Path
) -> None:
    told = {
        of_panel(links.QUERY, "Up"): up,
        of_panel(links.QUERY, "Of this name"): of_this_name,
    }
    tells(told, given, tmp_path)


def test_of_two_queries_drawn_as_one_the_number_is_red() -> None:
    (panel,) = (one for one in panels(links.QUERY) if one["title"] == "Of this name")
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(one["value"], one["color"]) for one in steps] == [(None, "text"), (2, "red")]
