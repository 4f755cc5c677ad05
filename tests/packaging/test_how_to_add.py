"""CONTRIBUTING's "How to add": its examples, put into a copy of the tree, change no other file."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.parsing import syntax_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
HOW_TO = PAGE.split("\n## How to add ", 1)[1].split("\n## What a change needs", 1)[0]
#: How many files a person writes; a metric's page is among its files.
COUNTS = {"metric": 2, "panel": 1, "alert": 2, "source": 2, "advice": 1}
PARTS = ("agent", "spark_listener", "dashboards", "alerts", "helm", "scripts", "docs", "examples")
TESTS = ("export", "alerts", "dashboards", "golden", "benchmarks")
UNWANTED = shutil.ignore_patterns("__pycache__", "*.png")
sdk = pytest.mark.skipif(sys.version_info < (3, 11), reason="the dashboards' SDK needs Python 3.11")
pytestmark = sdk


class Example(NamedTuple):
    """A fenced block: its first line says where it belongs; no place is a whole new file."""

    kind: str
    file: str
    place: str
    text: str


def examples() -> list[Example]:
    found = []
    kind = ""
    for part in re.split(r"^(?=\*\*An? \w+\*\*|```\w)", HOW_TO, flags=re.MULTILINE):
        if begins := re.match(r"\*\*An? (\w+)\*\*", part):
            kind = begins[1]
        elif fenced := re.match(r"```\w+\n(.*?)^```$", part, re.MULTILINE | re.DOTALL):
            first, text = fenced[1].split("\n", 1)
            where = re.fullmatch(r"(?:# |<!-- )(\S+?)(?:: (.+?))?(?: -->)?", first)
            assert where, first
            found.append(Example(kind, where[1], where[2] or "", text))
    return found


def put(tree: Path, one: Example) -> None:
    path = tree / one.file
    if not one.place:
        assert not path.exists()
        path.write_text(one.text, "utf-8")
        return
    current = path.read_text("utf-8")
    lines = current.splitlines(keepends=True)
    if before := re.fullmatch(r"before (\w+)", one.place):
        (at,) = (number for number, line in enumerate(lines) if line.startswith(before[1] + ":"))
        while lines[at - 1].startswith("#:"):
            at -= 1
        lines.insert(at, one.text + "\n\n")
    elif heading := re.fullmatch(r'in the table under "(.+)"', one.place):
        at = lines.index(f"## {heading[1]}\n")
        at = next(n for n in range(at, len(lines)) if lines[n][0] == "|" and lines[n + 1] == "\n")
        lines.insert(at + 1, one.text)
    else:
        end = end_of(syntax_of(current), one.place)
        line = lines[end.line - 1].encode()
        before_it, behind = line[: end.column - 1].decode(), line[end.column - 1 :].decode()
        comma = "" if before_it.strip() in {"", "("} else ","
        lines[end.line - 1] = f"{before_it}{comma}\n{one.text.rstrip()},\n{behind}"
    path.write_text("".join(lines), "utf-8")


class End(NamedTuple):
    line: int
    column: int


def end_of(module: ast.Module, place: str) -> End:
    """Where the bracket closes: of a tuple by its name, or of a row of panels by its title."""
    row = re.fullmatch(r'in the row "(.+)"', place)
    for node in ast.walk(module):
        found: ast.expr | None = None
        if row and isinstance(node, ast.Tuple) and len(node.elts) == 2:
            title, panels = node.elts
            found = panels if isinstance(title, ast.Constant) and title.value == row[1] else None
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found = node.value if f"in {node.target.id}" == place else None
        if found is not None:
            assert found.end_lineno is not None
            assert found.end_col_offset is not None
            return End(found.end_lineno, found.end_col_offset)
    raise AssertionError(place)


def table() -> dict[str, tuple[str, list[str]]]:
    """By kind what a person writes, and the patterns of what is written for them."""
    rows = re.findall(r"^\| (\w+) \| (.+?) \|(.*?)\| .+ \|$", HOW_TO, re.MULTILINE)
    return {kind: (mine, re.findall(r"`(\S+)`", made)) for kind, mine, made in rows}


def contents(tree: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(tree)): path.read_bytes()
        for part in PARTS
        for path in (tree / part).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


class Grown(NamedTuple):
    tree: Path
    changed: set[str]

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-B", *arguments],
            cwd=self.tree,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def read(self, name: str) -> str:
        return (self.tree / name).read_text("utf-8")


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    """The tree with all examples in it, and what is written from the code written anew."""
    tree = tmp_path_factory.mktemp("tree")
    for part in PARTS:
        shutil.copytree(ROOT / part, tree / part, ignore=UNWANTED, symlinks=True)
    for part in TESTS:
        shutil.copytree(ROOT / "tests" / part, tree / "tests" / part, ignore=UNWANTED)
    for one in (ROOT / "pyproject.toml", *(ROOT / "tests").glob("*.py")):
        shutil.copyfile(one, tree / one.relative_to(ROOT))
    before = contents(tree)
    for example in examples():
        put(tree, example)
    found = Grown(tree, set())
    found.run("-m", "scripts.generate")
    after = contents(tree)
    assert before.keys() <= after.keys()
    found.changed.update(name for name, content in after.items() if before.get(name) != content)
    return found


def test_as_many_files_as_promised() -> None:
    assert table().keys() == COUNTS.keys()
    for kind, (mine, made) in table().items():
        written = {one.file for one in examples() if one.kind == kind}
        for name in written:
            assert any(name.startswith(told) for told in re.findall(r"`(\S+)`", mine)), name
        assert len(written) + (len(made) if kind == "metric" else 0) == COUNTS[kind]


def test_no_other_file_changes(grown: Grown) -> None:
    written = {one.file for one in examples()}
    assert written <= grown.changed
    patterns = [pattern for _, made in table().values() for pattern in made]
    others = grown.changed - written
    assert [name for name in others if not any(fnmatch(name, one) for one in patterns)] == []
    for pattern in patterns:
        assert any(fnmatch(name, pattern) for name in others), pattern


def test_the_metric_is_exposed_and_told(grown: Grown) -> None:
    text = grown.run(
        "-c",
        "from agent.export.prometheus import Exporter\n"
        "from tests.export import views\n"
        "exporter = Exporter(timer=views.Clock())\n"
        "print(views.scrape(exporter, [views.view(batch_rows=4321)], labels={})[0])",
    )
    assert "# HELP weir_last_batch_rows Rows of the last batch.\n" in text
    assert 'weir_last_batch_rows{application="orders",query="enrich"} 4321\n' in text
    assert "### `weir_last_batch_rows`\n\ngauge, rows, " in grown.read("docs/metrics.md")


def test_the_panel_is_on_its_board(grown: Grown) -> None:
    board = json.loads(grown.read("dashboards/generated/weir-query.json"))
    panels: dict[str, Any] = {panel["title"]: panel for panel in board["panels"]}
    (target,) = panels["Rows of a batch"]["targets"]
    assert "weir_last_batch_rows{" in target["expr"]


def test_the_alert_is_a_rule_with_a_runbook(grown: Grown) -> None:
    rules = grown.read("alerts/generated/weir.rules.yml")
    assert "  - alert: WeirBatchTooLarge\n    expr: weir_last_batch_rows > 1e8\n" in rules
    assert "WeirBatchTooLarge" in grown.read("alerts/generated/alertmanager.example.yml")
    assert (
        "| [WeirBatchTooLarge](../agent/export/runbooks/WeirBatchTooLarge.md) | info | A query: "
        "its last batch held more than a hundred million rows | 10m |\n"
    ) in grown.read("docs/alerts.md")


def test_the_source_is_steered_and_the_advice_given(grown: Grown) -> None:
    said = grown.run(
        "-c",
        "from agent.core.judge.advice import Costs, StateCost, advise\n"
        "from spark_listener.limits import ALL, handle_of\n"
        "found = handle_of(ALL, 'com.example.QueueMicroBatchStream')\n"
        "print(found.control, found.unit, found.note)\n"
        "state = StateCost('dedupe', 2.0, 1)\n"
        "print(advise(Costs(batch_seconds=3.0, phases={}, operators=[state], sink='',"
        " conf={}, limited=False, asynchronous=False), None))",
    )
    assert "live rows \n" in said
    assert "['dedupe: one task commits all state; more shuffle partitions share it']" in said
    assert "| one task commits all state | a new checkpoint, " in grown.read("docs/checkpoints.md")


LAWS = """
from agent.export.catalogue import METRICS
from tests.alerts import test_alerts, test_runbooks
from tests.dashboards import test_dashboards
from tests.export import test_catalogue

for metric in METRICS:
    test_catalogue.test_an_entry_keeps_the_rules(metric)
test_catalogue.test_names_are_unique_in_both_formats()
test_catalogue.test_every_row_is_read_once_and_nothing_is_read_beside_the_rows()
test_catalogue.test_the_page_is_fresh()
test_alerts.test_committed_files_are_fresh()
test_alerts.test_names_and_texts()
test_alerts.test_only_metrics_and_labels_of_the_catalogue()
test_alerts.test_the_docs_list_every_alert_as_it_is()
test_runbooks.test_one_for_each_alert_and_none_besides()
test_runbooks.test_each_says_first_how_grave_it_is_and_what_to_do()
test_runbooks.test_the_index_has_each_once_and_the_gravest_first()
for page in test_runbooks.PAGES:
    test_runbooks.test_parts(page)
    test_runbooks.test_diagnosis_names_a_command_and_panels_that_exist(page)
    test_runbooks.test_metrics_and_links_exist(page)
for board in test_dashboards.UIDS:
    test_dashboards.test_structure(board)
    test_dashboards.test_variables(board)
test_dashboards.test_only_metrics_and_labels_of_the_catalogue()
test_dashboards.test_every_metric_of_the_catalogue_is_in_a_panel_or_is_left_out_for_a_reason()
test_dashboards.test_runbooks_that_panels_lead_to_are_there()
"""


def test_the_laws_of_each_kind_hold_with_them(grown: Grown) -> None:
    """All but those that want an example's own test, and those that ask a real Prometheus."""
    grown.run("-c", LAWS)
