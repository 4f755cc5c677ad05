"""The catalogue: its own rules, the core's enumerations, and the page written from it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent.core.judgement import MODES, QUERY_STATES, REASONS
from agent.core.measure.occupancy import SPENT
from agent.export import catalogue, prometheus
from agent.export.catalogue import METRICS, metric
from agent.export.metrics.row import AGENT_PROCESS
from agent.service.config import Settings
from alerts.rules import ALERTS
from spark_listener.wire import CONTROLS, EVENT_TYPES
from tests.parsing import syntax_of

if TYPE_CHECKING:
    from agent.export.metrics.row import Metric

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "metrics.md"
UNITS = {"", "seconds", "bytes", "rows", "files", "ratio", "rows_per_second"}


@pytest.mark.parametrize("entry", METRICS, ids=lambda entry: entry.name)
def test_an_entry_keeps_the_rules(entry: Metric) -> None:
    # Of the agent's own process, and of nothing else, as every program tells it.
    usual = entry.subject is AGENT_PROCESS and entry.name.startswith("process_")
    assert usual or re.fullmatch(r"weir_[a-z][a-z0-9_]*", entry.name)
    assert entry.name.endswith("_total") == (entry.kind == "counter")
    assert entry.name.endswith("_info") == (entry.kind == "info")
    assert bool(entry.buckets) == (entry.kind == "histogram")
    assert list(entry.buckets) == sorted(set(entry.buckets))
    assert entry.unit in UNITS
    if entry.unit and entry.unit != "rows":
        assert entry.family.endswith(f"_{entry.unit}")
    for unit in ("seconds", "bytes", "ratio"):
        assert entry.family.endswith(f"_{unit}") == (entry.unit == unit)
    assert entry.help.endswith(".")
    assert "\n" not in entry.help + entry.note
    assert len(set(entry.label_names)) == len(entry.label_names)
    for label in entry.labels:
        assert re.fullmatch(r"[a-z][a-z_]*", label.name)
        assert bool(label.values) != bool(label.bound), "its values, or what bounds them"
        assert len(set(label.values)) == len(label.values)
    if entry.kind == "state set":
        assert entry.labels[-1].values


def test_what_bounds_a_label_is_an_option_that_there_is() -> None:
    bounds = [label.bound for entry in METRICS for label in entry.labels]
    named = {name for bound in bounds for name in re.findall(r"`(max_\w+)`", bound)}
    assert "max_queries" in named
    assert named <= Settings.model_fields.keys()


def test_names_are_unique_in_both_formats() -> None:
    assert len({entry.name for entry in METRICS}) == len(METRICS)
    assert len({entry.family for entry in METRICS}) == len(METRICS)


def test_every_row_is_read_once_and_nothing_is_read_beside_the_rows() -> None:
    plans = [plan for (_, up), plan in prometheus._PLANS.items() if up]
    written = Counter(place for plan in plans for place, *_ in (*plan.numbers, *plan.others))
    assert written == Counter(range(len(METRICS)))
    for plan in plans:
        for place, name, read in plan.numbers:
            assert (name, read) == (METRICS[place].name, METRICS[place].read)
    # The exporter knows kinds of rows and names no metric: it can write none that has no row.
    code = Path(prometheus.__file__).read_text(encoding="utf-8")
    assert not re.findall(r"""["']weir_\w*""", code)


def test_what_is_read_of_a_running_query_alone_is_not_read_once_it_has_ended() -> None:
    for (subject, up), plan in prometheus._PLANS.items():
        read = {place for place, *_ in (*plan.numbers, *plan.others)}
        of_it = {place for place, one in enumerate(METRICS) if one.subject is subject}
        assert read == {place for place in of_it if up or not METRICS[place].running}


def test_labels_hold_every_value_of_the_core() -> None:
    assert set(metric("weir_query_state").values_of("state")) == set(QUERY_STATES)
    assert set(metric("weir_query_mode").values_of("mode")) == set(MODES)
    assert set(REASONS) < set(metric("weir_grants_total").values_of("reason"))
    assert set(SPENT) == set(metric("weir_time_seconds_total").values_of("state"))
    assert set(EVENT_TYPES) < set(metric("weir_agent_events_total").values_of("type"))
    assert set(CONTROLS) < set(metric("weir_query_info").values_of("control"))


def test_unknown_names_are_told() -> None:
    with pytest.raises(KeyError, match="weir_nonsense"):
        metric("weir_nonsense")
    with pytest.raises(KeyError, match="nonsense"):
        metric("weir_query_state").values_of("nonsense")


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == catalogue.as_markdown(), (
        "docs/metrics.md is stale: run python -m agent.export.catalogue"
    )


def test_the_page_names_every_metric_and_value() -> None:
    page = catalogue.as_markdown()
    for entry in METRICS:
        assert f"### `{entry.name}`" in page
        assert entry.help in page
        for label in entry.labels:
            assert all(f"`{value}`" in page for value in label.values if value)


def test_a_formula_is_found_in_two_steps() -> None:
    """From a one's name to its entry, from there to the module and the test that hold it."""
    page = PAGE.read_text("utf-8")
    judged = [one for one in METRICS if one.formula is not None]
    assert len(judged) > 20
    for one in judged:
        assert one.formula is not None
        module, test = ROOT / one.formula.module, ROOT / one.formula.test
        assert (ast.get_docstring(syntax_of(module.read_text("utf-8"))) or "").count("\n") > 1
        name = ".".join(module.relative_to(ROOT).with_suffix("").parts)
        package, _, leaf = name.rpartition(".")
        text = test.read_text("utf-8")
        assert f"from {name} import" in text or f"from {package} import {leaf}" in text, one.name
        entry = page.split(f"### `{one.name}`\n", 1)[1].split("\n### ", 1)[0]
        assert one.formula.function in _functions(module), one.name
        words = one.formula.function.replace(".", "|")  # a method's by its class
        assert re.search(rf"\b({words})\b", text), one.name
        assert f"by `{one.formula.function}` in " in entry
        assert f"](../{one.formula.module})" in entry
        assert f"](../{one.formula.test})" in entry


def _functions(module: Path) -> set[str]:
    """Those of a module, and of its classes as ``Class.method``."""
    found: set[str] = set()
    for node in syntax_of(module.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if hasattr(one, "args")}
    return found


def test_what_may_be_left_out_is_read_by_no_alert_and_is_what_the_example_drops() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = re.findall(r"^\| `(weir_\w+)` \| \d+ \|", page, re.MULTILINE)
    assert named
    drops = re.search(r"regex: (weir_\S+)", page)
    assert drops is not None
    for name in named:
        assert metric(name.removesuffix("_bucket"))
        assert re.fullmatch(drops[1], name)
        for alert in ALERTS:
            assert not re.search(rf"\b{name}\b", alert.expression), alert.name
