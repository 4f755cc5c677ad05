"""A query that runs well, falls behind, falls silent, and loses its agent: what the stats show.

Each is asked of a real Prometheus as Grafana does, and coloured as the panel says.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from agent.export.prometheus import Exporter
from dashboards import links
from tests.dashboards.live import exposed, prometheus
from tests.dashboards.test_dashboards import RULES, filled, panels
from tests.export import views

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.core.judgement import QueryView
    from tests.dashboards.live import LivePrometheus

GOOD: Final = "green"
#: The agent's own word: Prometheus, and so ``up``, does not know it.
CLUSTER: Final = views.extras().labels["cluster"]
#: Those of a query that speak of the present.
OF_NOW: Final = ("Up", "Behind", "Caught up in", "Capacity needed", "Target holds")


def looks(live: LivePrometheus, panel: dict[str, Any]) -> tuple[str, str]:
    """(text, colour) of a stat, as Grafana finds them."""
    (target,) = panel["targets"]
    assert target["instant"]
    defaults = panel["fieldConfig"]["defaults"]
    found = live.ask(filled(target["expr"], "orders", "enrich", CLUSTER))
    value = float(found[0]["value"][1]) if found else math.nan
    for mapping in defaults["mappings"]:
        options = mapping["options"]
        if mapping["type"] == "special" and math.isnan(value):
            return options["result"]["text"], options["result"]["color"]
        if mapping["type"] == "value" and f"{value:g}" in options:
            return options[f"{value:g}"]["text"], options[f"{value:g}"]["color"]
    (colour,) = [
        step["color"]
        for step in defaults["thresholds"]["steps"]
        if step["value"] is None or value >= step["value"]
    ][-1:]
    return f"{value:g}", colour


class Fleet:
    """One agent with one query; ``phase`` says how that does, and whether the agent answers."""

    def __init__(self) -> None:
        self.phase = "well"
        self._exporter = Exporter(timer=views.Clock(), python_version="3.11.9")

    def scrape(self, number: int) -> bytes:
        """The exposition; raises where the agent is dead."""
        if self.phase == "dead":
            raise ConnectionError
        text, _ = views.scrape(self._exporter, [self._query(number + 1)], times=number + 1)
        return text.encode()

    def _query(self, times: int) -> QueryView:
        well = views.view(
            totals=views.totals(
                rows=4_000 * times,
                duration_buckets=[0, 0, 0, 0, 0, times, 0, 0, 0, 0, 0, 0, 0, 0],
                duration_sum_seconds=4.0 * times,
            ),
            state="busy",
            required_capacity_ratio=0.5,
            backlog_seconds=3.0,
            spiral=msgspec.structs.replace(views.view().spiral, phase="none"),
        )
        if self.phase == "well":
            return well
        if self.phase == "behind":
            return msgspec.structs.replace(
                well,
                backlog_seconds=900.0,
                estimated_time_to_consume_seconds=None,
                required_capacity_ratio=1.5,
                target_feasible=None,
            )
        return msgspec.structs.replace(well, up=False, gone_since_time=views.NOW)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """By phase, in order: board and title of each stat to its looks."""
    fleet = Fleet()
    seen: dict[str, dict[str, Any]] = {}
    until = {
        "well": "sum(rate(weir_rows_total[10s])) > 0",
        "behind": "weir_backlog_seconds > 800",
        "silent": "weir_query_up == 0",
        # As the alert has it: one scrape that fails is nobody's death.
        "dead": "up == 0 and count_over_time(up[150s]) - sum_over_time(up[150s]) >= 2",
    }
    with (
        exposed(fleet.scrape) as target,
        prometheus(target, tmp_path_factory.mktemp("prometheus"), [str(RULES)]) as live,
    ):
        for phase, condition in until.items():
            fleet.phase = phase
            live.wait_for(condition)
            seen[phase] = {
                f"{uid}: {panel['title']}": looks(live, panel)
                for uid in (links.OVERVIEW, links.QUERY)
                for panel in panels(uid)
                if panel["type"] == "stat"
            }
    return seen


def of_query(looks_of: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {title: looks_of[f"{links.QUERY}: {title}"] for title in OF_NOW}


def test_a_query_that_does_well_looks_good(course: dict[str, dict[str, Any]]) -> None:
    """Else the tests below would show nothing."""
    shown = of_query(course["well"])
    assert shown.pop("Caught up in")[0] == "260"
    assert {colour for _, colour in shown.values()} == {GOOD}


def test_a_query_that_falls_behind_never_shows_a_good_stat(
    course: dict[str, dict[str, Any]],
) -> None:
    shown = of_query(course["behind"])
    assert shown.pop("Up") == ("yes", GOOD)  # that it does
    assert GOOD not in {colour for _, colour in shown.values()}
    assert shown["Caught up in"] == ("never", "red")
    assert shown["Target holds"] == ("unknown", "text")
    assert course["behind"][f"{links.OVERVIEW}: Furthest behind"][1] == "red"
    assert course["behind"][f"{links.OVERVIEW}: Short of capacity"] == ("1", "red")


def test_of_a_query_that_is_silent_the_last_good_value_does_not_stand(
    course: dict[str, dict[str, Any]],
) -> None:
    shown = of_query(course["silent"])
    assert shown.pop("Up") == ("no", "red")
    assert set(shown.values()) == {("unknown", "text")}
    assert course["silent"][f"{links.OVERVIEW}: Gone"] == ("1", "red")
    assert course["silent"][f"{links.OVERVIEW}: Queries up"][0] == "0"


def test_where_the_agent_is_dead_nothing_looks_good(course: dict[str, dict[str, Any]]) -> None:
    dead = dict(course["dead"])
    assert dead.pop(f"{links.OVERVIEW}: Agents silent") == ("1", "red")
    good = {title for title, (_, colour) in dead.items() if colour == GOOD}
    # What counts back over the shown time knows that time, not the present.
    assert good <= {f"{links.QUERY}: Time within target"}
