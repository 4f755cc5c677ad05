"""The dashboards: committed files fresh, their structure sound, every expression asked for real."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.export import runbooks
from agent.export.catalogue import METRICS
from agent.export.prometheus import Exporter
from dashboards import links
from dashboards.promql import MANY, TROUBLES, Scope, trouble
from tests.dashboards.live import exposed, prometheus, tool
from tests.export import views

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.dashboards.live import LivePrometheus

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "dashboards" / "generated"
RULES = ROOT / "alerts" / "generated" / "weir.rules.yml"
UIDS = (links.OVERVIEW, links.QUERY, links.CHECKPOINTS, links.AGENT)
BOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in GENERATED.glob("*.json")
}
SERIES = {series: one for one in METRICS for series in one.sample_names}
sdk = pytest.mark.skipif(sys.version_info < (3, 11), reason="the SDK needs Python 3.11")
sdk_warns = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def panels(uid: str) -> list[dict[str, Any]]:
    return [panel for panel in placed(uid) if panel["type"] != "row"]


def placed(uid: str) -> list[dict[str, Any]]:
    """Rows and panels of a dashboard, those in a folded row included."""
    return [one for top in BOARDS[uid]["panels"] for one in (top, *top.get("panels", ()))]


def expressions() -> list[tuple[str, str, str]]:
    """(dashboard, panel, PromQL as it stands) of every query."""
    return [
        (uid, panel["title"], target["expr"])
        for uid in BOARDS
        for panel in panels(uid)
        for target in panel["targets"]
    ]


def named(expression: str) -> set[str]:
    """The metrics of the catalogue's kind that an expression names; what is recorded is none."""
    return set(re.findall(r"(?<!:)\b(?:weir|process)_\w+", expression))


def filled(expression: str, application: str, query: str, cluster: str = ".*") -> str:
    """The expression as Grafana would send it, with all of everything else chosen."""
    for name, value in {
        "$__rate_interval": "10s",
        "$__range": "60s",
        '=~"$instance"': '=~".*"',
        '"$$__all"': '"ALL"',
        '"$1"': '"ONE"',
        '=~"$application"': '=~".*"',
        '=~"$query"': '=~".*"',
        "$cluster": cluster,
        "$namespace": ".*",
        "$application": application,
        "$query": query,
    }.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression.replace('"ALL"', '"$$__all"').replace('"ONE"', '"$1"')


@sdk
@sdk_warns
def test_committed_files_are_fresh_and_the_same_each_time() -> None:
    from dashboards.generate import files

    committed = {path.name: path.read_text(encoding="utf-8") for path in GENERATED.glob("*")}
    assert committed == files(), "run python -m dashboards"
    assert files() == files()


@sdk
@sdk_warns
def test_the_command_writes_them_and_removes_what_is_no_more(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-m", "dashboards", "--out", tmp_path, "--runbooks", "https://r.test/x/"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert sorted(done.stdout.split()) == sorted(map(str, tmp_path.glob("*.json")))
    assert {path.stem for path in tmp_path.glob("*")} == set(UIDS)
    assert "https://r.test/x/Weir" in (tmp_path / f"{links.QUERY}.json").read_text()


@sdk
@sdk_warns
def test_parses_back_through_the_sdk() -> None:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    for board in BOARDS.values():
        again = json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))
        inside = [panel for row in again["panels"] for panel in row.get("panels", [])]
        for place in (again, *again["panels"], *inside):
            for link in place.get("links", []):
                link.pop("placement", None)  # left out on purpose; the SDK puts it back
        assert again == board


def test_uids_are_the_fixed_ones() -> None:
    assert set(BOARDS) == set(UIDS)
    for uid, board in BOARDS.items():
        assert board["uid"] == uid
        assert re.fullmatch(r"[a-z-]{8,40}", uid)
        assert board["title"].startswith("Weir / ")
        assert board["description"]
        there = {link["url"].partition("?")[0] for link in board["links"]}
        assert there == {f"/d/{other}" for other in UIDS}


@pytest.mark.parametrize("uid", UIDS)
def test_structure(uid: str) -> None:
    ids = [panel["id"] for panel in placed(uid)]
    assert len(set(ids)) == len(ids)
    titles = [panel["title"] for panel in placed(uid)]
    assert len(set(titles)) == len(titles)
    taken: set[tuple[int, int]] = set()
    for panel in placed(uid):
        box = panel["gridPos"]
        assert box["x"] + box["w"] <= 24
        cells = {
            (x, y)
            for x in range(box["x"], box["x"] + box["w"])
            for y in range(box["y"], box["y"] + box["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    for panel in panels(uid):
        assert panel["description"].endswith("."), panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        if panel["type"] == "table":
            for override in panel["fieldConfig"]["overrides"]:
                shown = {item["id"] for item in override["properties"]}
                assert shown & {"unit", "links", "custom.hidden"}, override["matcher"]
        elif panel["type"] not in {"state-timeline", "heatmap"}:
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)
        named = {
            override["matcher"]["options"]
            for override in panel["fieldConfig"].get("overrides", [])
            if override["matcher"]["id"] == "byName"
        }
        legends = {target.get("legendFormat") for target in panel["targets"]}
        if panel["type"] != "table" and not any("{{" in str(legend) for legend in legends):
            assert named <= legends, panel["title"]


def test_columns_of_tables_are_renamed_from_what_grafana_calls_them() -> None:
    """By the reference of each query, but where there is one: then that is left out."""
    counts = set()
    for uid in UIDS:
        for panel in panels(uid):
            if panel["type"] != "table":
                continue
            (organised,) = (
                one["options"] for one in panel["transformations"] if one["id"] == "organize"
            )
            called = {f"Value #{target['refId']}" for target in panel["targets"]}
            counts.add(len(called))
            called = called if len(called) > 1 else {"Value"}
            assert set(organised["renameByName"]) == called, panel["title"]
            assert called < set(organised["indexByName"])
    assert 1 in counts


@pytest.mark.parametrize("uid", UIDS)
def test_variables(uid: str) -> None:
    variables = {item["name"]: item for item in BOARDS[uid]["templating"]["list"]}
    wanted = ["datasource", "cluster", "namespace", links.RUNBOOKS_AT]
    wanted += ["instance"] if uid == links.AGENT else ["application", "query"]
    assert list(variables) == wanted
    text = json.dumps(BOARDS[uid]["panels"])
    used = set(re.findall(r"\$\{?([a-z_]\w*)", text))
    used -= {"__rate_interval", "__range", "__data", "__url_time_range", "__all"}
    assert used <= set(variables)
    assert variables[links.RUNBOOKS_AT]["hide"] == 2  # wholly
    many = {links.OVERVIEW: ("application", "query"), links.AGENT: ("instance",)}.get(uid, ())
    for name in ("cluster", "namespace", *many):
        assert variables[name]["allValue"] == ".*"
        assert variables[name]["multi"]


@pytest.mark.parametrize("uid", UIDS)
def test_no_link_hands_all_to_a_board_of_one(uid: str) -> None:
    """Grafana would take "All" for a query's name there, and all of the board is unknown."""

    def takes_all(board: str) -> dict[str, bool]:
        variables = BOARDS[board]["templating"]["list"]
        return {one["name"]: one.get("includeAll", False) for one in variables}

    for link in BOARDS[uid]["links"]:
        path, _, handed = link["url"].partition("?")
        there = takes_all(path.removeprefix("/d/"))
        if link["includeVars"]:
            assert handed == ""
            named = set(takes_all(uid))
        else:
            named = set(re.findall(r"\$\{(\w+):queryparam\}", handed))
            assert named == {"datasource", "cluster", "namespace"}
        assert all(there.get(name, True) for name in named if takes_all(uid)[name]), path
        assert link["keepTime"]


def test_only_metrics_and_labels_of_the_catalogue() -> None:
    fixed = {"cluster", "namespace", "instance", "le"}
    for uid, title, expression in expressions():
        names = named(expression)
        assert names or "ALERTS" in expression, (uid, title)
        assert names <= set(SERIES), (uid, title)
        for name, matchers in re.findall(r"((?:weir|process)_\w+)\{([^}]*)\}", expression):
            for label, value in re.findall(r'(\w+)=~?"([^"]*)"', matchers):
                assert label in fixed | set(SERIES[name].label_names), (uid, title, label)
                known = () if label in fixed else SERIES[name].values_of(label)
                one_of = set(value.split("|")) <= set(known)
                assert value.startswith("$") or not known or one_of, (uid, title, value)
        if "rate(" in expression or "increase(" in expression:
            assert re.search(r"\[\$__rate_interval\]", expression)
            assert not re.search(r"\[\d", expression)


def test_every_metric_of_the_catalogue_is_in_a_panel_or_is_left_out_for_a_reason() -> None:
    shown = {SERIES[name].name for _, _, expression in expressions() for name in named(expression)}
    assert {one.name for one in METRICS} - shown == {one.name for one in METRICS if one.not_shown}


@pytest.mark.parametrize("uid", UIDS)
def test_annotations(uid: str) -> None:
    marks = {item["name"]: item for item in BOARDS[uid]["annotations"]["list"]}
    assert set(marks) == {"Alerts", "Decisions"} if uid == links.QUERY else {"Alerts"}
    for mark in marks.values():
        assert mark["enable"]
        assert mark["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert mark["titleFormat"]
        named = set(re.findall(r"\bweir_\w+", mark["expr"]))
        assert named <= set(SERIES)
    wanted = "" if uid == links.AGENT else "$query"
    assert re.search(rf'query=~?"{re.escape(wanted)}"', marks["Alerts"]["expr"])


def test_promtool_parses_every_expression(tmp_path: Path) -> None:
    written = [expression for _, _, expression in expressions()]
    written += [mark["expr"] for board in BOARDS.values() for mark in board["annotations"]["list"]]
    rules = [
        {"record": f"check:number_{number}", "expr": filled(expression, "orders", "enrich")}
        for number, expression in enumerate(written)
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}))
    done = subprocess.run(
        [tool("promtool"), "check", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_runbooks_that_panels_lead_to_are_there() -> None:
    led = set()
    for uid in UIDS:
        for panel in panels(uid):
            for link in panel.get("links", []):
                name = link["url"].rpartition("/")[2]
                assert link["url"] == f"http://${{{links.RUNBOOKS_AT}}}/runbooks/{name}"
                led.add(name)
    assert led
    assert led <= set(runbooks.names())


@pytest.mark.parametrize("uid", UIDS)
def test_runbooks_are_where_an_agent_is_scraped_now(asked: LivePrometheus, uid: str) -> None:
    (variable,) = (
        one for one in BOARDS[uid]["templating"]["list"] if one["name"] == links.RUNBOOKS_AT
    )
    # Values of a label are those of the shown time, agents that are gone among them.
    query = re.fullmatch(r"query_result\((.+)\)", variable["query"]["query"])
    assert query
    (found,) = asked.ask(filled(query[1], "orders", "enrich"))
    labels = ",".join(f'{name}="{value}"' for name, value in found["metric"].items())
    as_grafana_writes = f"weir_build_info{{{labels}}} 1 1700000000000"
    written = re.findall(variable["regex"].strip("/"), as_grafana_writes)
    assert written == [found["metric"]["instance"]]
    assert variable["skipUrlSync"], "an address that somebody kept would hold one that is gone"
    assert variable["refresh"] == 1, "a time range that is past would be asked"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePrometheus]:
    """A Prometheus that has scraped a fleet whose counters move."""
    exporter = Exporter(timer=views.Clock(), python_version="3.11.9")

    def text_of(scrape: int) -> bytes:
        times = scrape + 1
        return views.scrape(exporter, views.golden_fleet(times), times=times)[0].encode()

    with (
        exposed(text_of) as target,
        prometheus(target, tmp_path_factory.mktemp("prometheus"), [str(RULES)]) as live,
    ):
        live.wait_for("sum(rate(weir_rows_total[10s])) > 0")
        live.wait_for('ALERTS{alertstate="firing"}')
        live.wait_for("count_over_time(sum(rate(weir_rows_total[10s]))[60s:10s])")
        yield live


@pytest.mark.parametrize(
    ("uid", "title", "expression"),
    [pytest.param(*one, id=f"{one[0]}-{one[1]}-{at}") for at, one in enumerate(expressions())],
)
def test_every_expression_has_an_answer(
    asked: LivePrometheus, uid: str, title: str, expression: str
) -> None:
    found = [
        float(sample["value"][1])
        for query in ("enrich", "archive")
        for sample in asked.ask(filled(expression, "orders", query))
    ]
    assert any(math.isfinite(value) for value in found), f"{uid}: {title}: {found}"


def test_worst_come_first_and_none_is_missing(asked: LivePrometheus) -> None:
    order = {
        sample["metric"]["query"]: float(sample["value"][1])
        for sample in asked.ask(filled(trouble(), "", ""))
    }
    assert len(order) == len(views.golden_fleet())
    assert max(order, key=order.__getitem__) == "gone"
    assert order["archive"] > order["enrich"] > order["new"]  # short of capacity; behind; nothing
    assert order["new"] == 0.0
    names = {query: trouble_said(value) for query, value in order.items()}
    assert (names["gone"], names["archive"]) == ("gone", "short of capacity")
    assert (names["enrich"], names["new"]) == ("behind or held back", "none")


@pytest.mark.parametrize("rules", [[str(RULES)], []], ids=["rules", "none"])
def test_of_a_query_that_two_agents_tell_of_the_overview_says_what_the_alerts_do(
    rules: list[str], tmp_path: Path
) -> None:
    def told(query: str, pod: str, stopped: int, since: int, until: int = 60) -> dict[str, str]:
        values = {
            "weir_query_up": 0,
            "weir_query_stopped": stopped,
            "weir_query_gone_since_timestamp_seconds": since,
            "weir_checkpoint_failures_consecutive": 1 - stopped,
        }
        of = f'{{cluster="eu",application="orders",query="{query}",pod="{pod}"}}'
        return {name + of: f"{value}x{until} stale" for name, value in values.items()}

    series = {
        **told("lost, then ended", "a", 0, 60),
        **told("lost, then ended", "b", 1, 120),
        **told("ended, then lost", "a", 1, 60),
        **told("ended, then lost", "b", 0, 120),
        **told("ended, and forgotten", "a", 0, 60),
        **told("ended, and forgotten", "b", 1, 120, 20),
    }
    # Without the rules nobody remembers what the other agent said.
    forgotten = 0 if rules else 1000
    worst = {"lost, then ended": 0, "ended, then lost": 1000, "ended, and forgotten": forgotten}
    stats = {panel["title"]: panel["targets"][0]["expr"] for panel in panels(links.OVERVIEW)}
    asked = [
        {
            "expr": f"max by (query) ({filled(trouble(), '', '')})",
            "exp_samples": [
                {"labels": f'{{query="{query}"}}', "value": value} for query, value in worst.items()
            ],
        },
        *(
            {
                "expr": filled(stats[title], "", ""),
                "exp_samples": [{"labels": "{}", "value": sum(map(bool, worst.values()))}],
            }
            for title in ("Gone", "Failing")
        ),
    ]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{**one, "eval_time": "40m"} for one in asked],
    }
    path = tmp_path / "tests.json"
    path.write_text(json.dumps({"rule_files": rules, "tests": [test]}))
    done = subprocess.run(
        [tool("promtool"), "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def trouble_said(value: float) -> str:
    """What the overview's table writes for a value: the first range that holds it."""
    (table,) = (panel for panel in panels(links.OVERVIEW) if panel["title"] == "Queries")
    (mappings,) = (
        item["value"]
        for override in table["fieldConfig"]["overrides"]
        for item in override["properties"]
        if override["matcher"]["options"] == "Trouble" and item["id"] == "mappings"
    )
    for mapping in mappings:
        options = mapping["options"]
        if options["from"] <= value <= (math.inf if options["to"] is None else options["to"]):
            return str(options["result"]["text"])
    raise AssertionError(value)


def test_the_gravest_trouble_is_named_at_its_very_value() -> None:
    assert [trouble_said(value) for value, _ in TROUBLES] == [text for _, text in TROUBLES]
    # All lesser faults together are not a graver one.
    assert trouble_said(100 + 60 + 10) == "short of capacity"
    assert trouble_said(400 + 200 + 100 + 60 + 10) == "stalled"


def test_a_row_hands_on_its_cluster_or_all_where_it_has_none(asked: LivePrometheus) -> None:
    (table,) = (panel for panel in panels(links.OVERVIEW) if panel["title"] == "Queries")
    expression = filled(table["targets"][0]["expr"], "", "")
    of_one = asked.ask(expression)
    assert {one["metric"]["choose_cluster"] for one in of_one} == {"eu-1"}
    assert {one["metric"]["choose_namespace"] for one in of_one} == {"streams"}
    # As where no such label is configured: what is absent is chosen by "all".
    bare = re.sub(r"\(cluster, namespace, ", "(", expression)
    assert {one["metric"]["choose_cluster"] for one in asked.ask(bare)} == {"$__all"}
    (link,) = (
        item["value"][0]["url"]
        for override in table["fieldConfig"]["overrides"]
        for item in override["properties"]
        if item["id"] == "links"
    )
    # Once: of two values Grafana takes the last one for all, where that is "all".
    for label in ("cluster", "namespace"):
        assert f"var-{label}=${{__data.fields.choose_{label}:percentencode}}" in link
        assert link.count(f"var-{label}=") == 1
        assert f"${{{label}:queryparam}}" not in link


def test_stats_are_of_this_moment_and_what_is_absent_looks_neither_good_nor_bad() -> None:
    for uid in UIDS:
        for panel in panels(uid):
            if panel["type"] != "stat":
                continue
            (target,) = panel["targets"]
            assert target["instant"], panel["title"]
            assert not target.get("range"), panel["title"]
            (missing,) = (
                one["options"]
                for one in panel["fieldConfig"]["defaults"]["mappings"]
                if one["type"] == "special"
            )
            assert missing["match"] == "null+nan"
            assert missing["result"]["color"] == "text"
            assert missing["result"]["text"] == panel["fieldConfig"]["defaults"]["noValue"]


@pytest.mark.parametrize(
    ("uid", "kinds"),
    [
        (
            links.OVERVIEW,
            {"Alerts that fire": "table", "Gone": "stat", "Failing": "stat", "In a spiral": "stat"},
        ),
        (links.OVERVIEW, {"Agents silent": "stat", "Queries": "table"}),
        (links.QUERY, {"Batch times": "heatmap", "Time within target": "stat"}),
        (links.QUERY, {"What Weir may do": "state-timeline"}),
        (links.AGENT, {"Each agent": "table"}),
    ],
)
def test_what_boards_are_looked_at_for_is_on_them(uid: str, kinds: dict[str, str]) -> None:
    assert kinds.items() <= {panel["title"]: panel["type"] for panel in panels(uid)}.items()


def test_series_without_the_fixed_labels_belong_to_all(asked: LivePrometheus) -> None:
    assert asked.ask('weir_query_up{cluster=~".*",tenant=~".*"}')


@pytest.mark.parametrize(
    ("name", "labels", "error"),
    [
        ("weir_nonsense", {}, KeyError),
        ("weir_rows_total_bucket", {}, KeyError),
        ("weir_query_state", {"sate": "idle"}, KeyError),
        ("weir_query_state", {"state": "idel"}, ValueError),
    ],
)
def test_a_wrong_name_fails_while_the_dashboard_is_written(
    name: str, labels: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        MANY(name, **labels)


def test_only_counters_have_a_rate() -> None:
    with pytest.raises(ValueError, match="no counter"):
        Scope().rate("weir_backlog_seconds")
    with pytest.raises(ValueError, match="no counter"):
        Scope().increase("weir_backlog_seconds")
