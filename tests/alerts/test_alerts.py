"""The alerts: committed files fresh, each silent just before and firing just after, by promtool."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import pytest
import yaml

from agent.export.catalogue import METRICS
from alerts import generate
from alerts.expressions import series
from alerts.rules import ALERTS, RECORDINGS, STATE_ROWS, STOPPED
from dashboards.links import ALERT_RUNBOOKS, runbook
from tests.alerts.alone import groups, rules_of
from tests.alerts.cases import CASES, Case, q
from tests.dashboards.live import tool

if TYPE_CHECKING:
    from alerts.model import Alert, Recording

ROOT = Path(__file__).resolve().parents[2]
RULES = generate.DIRECTORY / generate.RULES


def _alert_groups() -> list[dict[str, Any]]:
    """All but what is recorded."""
    written: list[dict[str, Any]] = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [group for group in written if group["name"] != "weir-recordings"]


SERIES = {name: one for one in METRICS for name in one.sample_names}
#: Where Prometheus finds an agent.
SCRAPED = "192.0.2.7:9655"
BY_NAME = {alert.name: alert for alert in ALERTS}
#: By subject, which labels its board is to be chosen by, where it has them.
CHOSEN = {
    "query": ("application", "query", "cluster", "namespace"),
    "application": ("cluster", "namespace"),
    "agent": ("instance", "cluster", "namespace"),
}


def promtool(path: Path) -> subprocess.CompletedProcess[str]:
    """What promtool says of a file of tests."""
    return subprocess.run(
        [tool("promtool"), "test", "rules", path], capture_output=True, text=True, check=False
    )


def test_committed_files_are_fresh() -> None:
    committed = {
        path.name: path.read_text(encoding="utf-8") for path in generate.DIRECTORY.glob("*")
    }
    assert committed == generate.files(), "run python -m alerts"


def test_the_command_writes_them(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "alerts", "--out", tmp_path, "--runbooks", "https://r.test/x/"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert sorted(done.stdout.split()) == sorted(map(str, tmp_path.glob("*")))
    assert "https://r.test/x/WeirQueryGone" in (tmp_path / generate.RULES).read_text()


@pytest.mark.parametrize("package", ["alerts", "dashboards"])
def test_a_wrong_address_of_runbooks_is_refused(package: str, tmp_path: Path) -> None:
    if package == "dashboards" and sys.version_info < (3, 11):
        pytest.skip("the SDK needs Python 3.11")
    done = subprocess.run(
        [sys.executable, "-m", package, "--out", tmp_path, "--runbooks", "wiki/runbooks"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 2
    assert "an http:// or https:// address is needed, not 'wiki/runbooks'" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("external", "chosen"), [({}, ""), ({"cluster": "c 1"}, "&var-cluster=c+1")]
)
def test_without_any_agent_ever_there_is_no_address(
    external: dict[str, str], chosen: str, tmp_path: Path
) -> None:
    """No link is better than one to nowhere; of what Prometheus alone knows the board is told."""
    alert = BY_NAME["WeirAgentDown"]
    annotations = {
        "summary": alert.summary,
        "description": alert.description,
        "runbook_url": "",
        "dashboard_path": f"/d/{alert.dashboard}?{chosen}",
    }
    labels = {"severity": alert.severity, "component": "weir"}
    expected = {"exp_labels": labels, "exp_annotations": annotations}
    asked = {"eval_time": "6m", "alertname": alert.name, "exp_alerts": [expected]}
    path = tmp_path / "tests.json"
    test = {"interval": "1m", "input_series": [], "alert_rule_test": [asked]}
    tests = [test | {"external_labels": external}]
    path.write_text(json.dumps({"rule_files": [str(RULES)], "tests": tests}))
    done = promtool(path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_the_rules() -> None:
    done = subprocess.run(
        [tool("promtool"), "check", "rules", "--lint-fatal", RULES],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS) + len(RECORDINGS)} rules found" in done.stdout


def test_names_and_texts() -> None:
    assert len(BY_NAME) == len(ALERTS)
    for alert in ALERTS:
        assert re.fullmatch(r"Weir[A-Z]\w+", alert.name)
        assert alert.why.endswith(".")
        assert alert.description.endswith(".")
        assert not alert.summary.endswith(".")
        assert not alert.says.endswith(".")
    written = [rule for group in _alert_groups() for rule in group["rules"]]
    assert [rule["alert"] for rule in written] == [alert.name for alert in ALERTS]
    for rule, alert in zip(written, ALERTS, strict=True):
        assert rule["labels"] == {"severity": alert.severity, "component": "weir"}
        assert rule["annotations"]["runbook_url"] == runbook(alert.name, ALERT_RUNBOOKS)
        assert (
            (generate.DIRECTORY.parents[1] / "dashboards" / "generated")
            .joinpath(f"{alert.dashboard}.json")
            .is_file()
        )


def test_only_metrics_and_labels_of_the_catalogue() -> None:
    recorded = {recording.name for recording in RECORDINGS}
    rules: tuple[Alert | Recording, ...] = (*ALERTS, *RECORDINGS)
    for rule in rules:
        text = rule.expression
        of_records = [name for name in recorded if name in text]
        for name in of_records:
            text = text.replace(name, "")
        names = set(re.findall(r"\b(?:weir|process)_\w+", text))
        assert names or of_records
        assert names <= set(SERIES), rule.name
        for name, matchers in re.findall(r"((?:weir|process)_\w+)\{([^}]*)\}", text):
            for label in re.findall(r"(\w+)!?[=~]+\"", matchers):
                # Whatever finds a pod gives its series the pod's name.
                assert label in (*SERIES[name].label_names, "pod"), (rule.name, label)
    with pytest.raises(KeyError):
        series("weir_nonsense")
    with pytest.raises(ValueError, match="never"):
        series("weir_query_state", state="nonsense")


def test_the_docs_list_every_alert_as_it_is() -> None:
    text = generate.PAGE.read_text(encoding="utf-8")
    assert text == generate.page(text), "run python -m alerts"
    rows = re.findall(r"^\| \[(\w+)\]\((\S+)\) \| (\w+) \| .+ \| ([\w ]+) \|$", text, re.MULTILINE)
    assert [(name, severity, hold) for name, _, severity, hold in rows] == [
        (alert.name, alert.severity, "at once" if alert.hold == "0s" else alert.hold)
        for alert in sorted(ALERTS, key=lambda one: one.severity != "critical")
    ]
    paging = text.partition("\n## Those that page\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| \[(\w+)\]", paging, re.MULTILINE) == [
        alert.name for alert in ALERTS if alert.severity == "critical"
    ]
    for _, link, _, _ in rows:
        assert (generate.PAGE.parent / link).is_file(), link
    with pytest.raises(ValueError, match="has no lines"):
        generate.page("# Alerts\n")


def test_every_alert_has_a_case() -> None:
    assert {case.alert for case in CASES} == set(BY_NAME)


def test_what_is_kept_says_so_in_the_file() -> None:
    written = {one["alert"]: one for group in _alert_groups() for one in group["rules"]}
    kept = {n: one["keep_firing_for"] for n, one in written.items() if "keep_firing_for" in one}
    assert kept == {one.name: one.keep for one in ALERTS if one.keep != "0s"}
    assert kept


def _agent(case: Case) -> str:
    """Where an agent is scraped, or was last, when the case fires."""
    told = [one for one in case.fires.items() if "weir_build_info" in one[0]]
    # One that is scraped still goes before one that was.
    told.sort(key=lambda one: one[1].count("_"))
    found = re.search(r'instance="([^"]+)"', told[0][0]) if told else None
    return SCRAPED if found is None else found[1]


def _unit_tests(case: Case) -> list[dict[str, Any]]:
    """promtool's tests: silent before, firing after with these words, never under quiet series."""
    alert = BY_NAME[case.alert]
    annotations = {
        "summary": case.summary,
        "description": case.description,
        "runbook_url": runbook(case.alert, f"http://{_agent(case)}/runbooks/"),
        "dashboard_path": f"/d/{alert.dashboard}?"
        + "".join(
            f"&var-{label}={quote_plus(case.labels[label])}"
            for label in CHOSEN[alert.subject]
            if label in case.labels
        ),
    }
    labels = {**case.labels, "severity": alert.severity, "component": "weir"}

    interval = f"{case.step_minutes}m"

    def at(step: int, *expected: dict[str, Any]) -> dict[str, Any]:
        time = f"{step * case.step_minutes}m"
        return {"eval_time": time, "alertname": case.alert, "exp_alerts": list(expected)}

    def given(wanted: dict[str, str]) -> list[dict[str, str]]:
        if not any("weir_build_info" in name for name in wanted):
            wanted = {**wanted, f'weir_build_info{{instance="{SCRAPED}"}}': "1x20000"}
        return [{"series": name, "values": values} for name, values in wanted.items()]

    fires = {"exp_labels": labels, "exp_annotations": annotations}
    after = [] if case.ends_at is None else [at(case.ends_at - 1, fires), at(case.ends_at)]
    tests = [
        {
            "interval": interval,
            "input_series": given(case.fires),
            "alert_rule_test": [
                *(at(step) for step in range(case.last_silent + 1)),
                at(case.at, fires),
                *after,
            ],
        }
    ]
    tests += [
        {
            "interval": interval,
            "input_series": given(wanted),
            "alert_rule_test": [at(step) for step in range(case.at + 60)],
        }
        for wanted in case.quiet
    ]
    return tests


LONG = {"WeirLimitHeldLong", "WeirModeOffLong", "WeirStateGrowing"}
SLOW = pytest.mark.slow("days of samples, or another case of an alert that is tried every time")


def every_time(at: int) -> bool:
    """The first case of each alert, but where that takes days of samples."""
    alert = CASES[at].alert
    return alert not in LONG and all(before.alert != alert for before in CASES[:at])


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{case.alert}-{at}", marks=() if every_time(at) else SLOW)
        for at, case in enumerate(CASES)
    ],
)
def test_silent_just_before_and_firing_just_after(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "tests.json"
    path.write_text(
        json.dumps(
            {
                "rule_files": [str(rules_of(case.alert, tmp_path))],
                # promtool takes groups in any order, and what is recorded must come first.
                "group_eval_order": groups(),
                "evaluation_interval": f"{case.step_minutes}m",
                "tests": _unit_tests(case),
            }
        )
    )
    done = promtool(path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def firing(
    alert: str, given: dict[str, str], expected: dict[int, int], tmp_path: Path, step: str = "1m"
) -> subprocess.CompletedProcess[str]:
    """promtool's word on how many of an alert fire at which second, judged as the rules say."""
    told = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
    asked = [
        {
            "expr": f"count({told}) or vector(0)",
            "eval_time": f"{seconds}s",
            "exp_samples": [{"value": count}],
        }
        for seconds, count in expected.items()
    ]
    test = {
        "interval": step,
        "input_series": [{"series": name, "values": values} for name, values in given.items()],
        "promql_expr_test": asked,
    }
    content = {
        "rule_files": [str(rules_of(alert, tmp_path))],
        "evaluation_interval": generate.INTERVAL,
        "tests": [test],
    }
    path = tmp_path / "tests.json"
    path.write_text(json.dumps(content))
    return promtool(path)


@pytest.mark.parametrize("pattern", ["1 1 0", "1 0", "1 0 0"])
def test_an_agent_whose_scrapes_fail_singly_is_told_of(pattern: str, tmp_path: Path) -> None:
    """Alerts that wait begin anew with each, so one that waits would not be told."""
    scrapes = pattern.split() * 40
    given = {
        'up{job="weir",instance="a:9655"}': " ".join(scrapes),
        'weir_build_info{job="weir",instance="a:9655",version="1"}': " ".join(
            "1" if one == "1" else "stale" for one in scrapes
        ),
    }
    # The third fails within 135 seconds.
    expected = dict.fromkeys(range(150, 600, 15), 1)
    done = firing("WeirAgentFlapping", given, expected, tmp_path, step="15s")
    assert done.returncode == 0, done.stdout + done.stderr


def test_scraped_each_minute_one_scrape_that_fails_is_no_agent_that_is_gone(tmp_path: Path) -> None:
    up = 'up{job="weir",instance="%s:9655"}'
    build = 'weir_build_info{job="weir",instance="%s:9655",version="1"}'
    given = {
        up % "one": "1x4 0 1x3 0 1x20",
        build % "one": "1x4 stale 1x3 stale 1x20",
        up % "gone": "1x4 0x25",
        build % "gone": "1x4 stale _x24",
    }
    # The second scrape fails at minute 6.
    expected = {seconds: int(seconds >= 375) for seconds in range(0, 1200, 15)}
    done = firing("WeirAgentUnreachable", given, expected, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_order_that_was_forgotten_is_told_once_of_a_job_that_comes_and_goes(
    tmp_path: Path,
) -> None:
    """It runs for ten minutes of each hour."""
    hours = 7

    def hourly(value: int, else_: str) -> str:
        return " ".join([f"{value}x9 {else_}x49"] * hours)

    given = {
        q("weir_query_up"): hourly(1, "0"),
        q("weir_query_mode", mode="off"): f"1x{60 * hours}",
        q("weir_query_mode_since_timestamp_seconds"): hourly(120, "_").replace(
            "_x49", "stale _x48"
        ),
    }
    expected = {60 * minute: int(minute >= 245) for minute in range(0, 60 * hours, 5)}
    done = firing("WeirModeOffLong", given, expected, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_checkpoint_is_told_of_for_an_hour(tmp_path: Path) -> None:
    """By ids: the last sample of the one before is of minute 9."""
    given = {
        q("weir_query_info", query_id="a", run_id="1"): "1x9 stale",
        q("weir_query_info", query_id="b", run_id="2"): "_x12 1x120",
        q("weir_query_up"): "1x120",
    }
    told = {60 * minute: int(12 <= minute < 69) for minute in range(120) if minute != 69}
    done = firing("WeirNewCheckpoint", given, told, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def _by_batch(every: int, batches: int, start: int, growth: int) -> str:
    """Samples, a minute each, of what each batch moves on, one every so many minutes."""
    return " ".join(f"{start + growth * batch}x{every - 1}" for batch in range(batches))


@pytest.mark.parametrize("every", [1, 10, 30, 45, 60])
@pytest.mark.parametrize("stands", [True, False])
def test_between_two_batches_no_watermark_moves_and_none_is_stuck(
    every: int, stands: bool, tmp_path: Path
) -> None:
    """However far apart they are: one that moves is quiet, of one that stands one alert is told."""
    batches = 480 // every
    # One that moves does so by three fifths of the time, as in a backlog of many days.
    lag = every * 60 if stands else every * 24
    given = {
        q("weir_watermark_lag_seconds"): _by_batch(every, batches, 3660, lag),
        q("weir_last_progress_timestamp_seconds"): _by_batch(every, batches, 0, every * 60),
        q("weir_rows_total"): _by_batch(every, batches, 0, 1000),
        q("weir_query_up"): "1x480",
    }
    # Two batches say so; ten minutes are waited then.
    told = {60 * minute: int(stands) for minute in range(2 * every + 12, every * batches)}
    done = firing("WeirWatermarkStuck", given, told, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_watermark_that_moves_again_is_told_of_for_less_than_an_hour(tmp_path: Path) -> None:
    """It moves from minute 120 on; six minutes of the half hour looked at then show that."""
    given = {
        q("weir_watermark_lag_seconds"): "3660+60x120 10860x120",
        q("weir_last_progress_timestamp_seconds"): "0+60x240",
        q("weir_rows_total"): "0+1000x240",
        q("weir_query_up"): "1x240",
    }
    told = {60 * minute: int(minute < 167) for minute in range(30, 240) if minute != 166}
    done = firing("WeirWatermarkStuck", given, told, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("every", [1, 10, 45, 60])
@pytest.mark.parametrize("late", [50, 5])
def test_late_rows_are_told_of_however_far_batches_are_apart(
    every: int, late: int, tmp_path: Path
) -> None:
    """Of a thousand rows of each batch: one in a hundred is told of once two batches lost some."""
    batches = 240 // every
    given = {
        q("weir_watermark_dropped_rows_total"): _by_batch(every, batches, 0, late),
        q("weir_rows_total"): _by_batch(every, batches, 0, 1000),
        q("weir_query_up"): "1x240",
    }
    told = {60 * minute: int(late > 10) for minute in range(2 * every + 16, every * batches)}
    done = firing("WeirLateRowsDropped", given, told, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("before", "after", "fires"),
    [
        ("3x29 stale", "_x30 3x60", False),
        ("3x29 stale", "_x30 5x60", True),
        ("3x30 stale _x2 3x60", "", False),
        ("3x30 stale _x2 5x60", "", True),
    ],
    ids=["another pod", "another pod, and more", "back", "back, and more"],
)
def test_events_dropped_long_ago_are_not_told_again(
    before: str, after: str, fires: bool, tmp_path: Path
) -> None:
    """By an agent that comes after another, or comes back: it has the same counts."""
    of = 'weir_listener_dropped_events_total{application="a",instance="%s:9655"}'
    given = {of % "one": before} | ({of % "two": after} if after else {})
    # All that is seen at first is news for ten minutes.
    looked = (*range(34, 40), *range(44 if fires else 40, 60))
    expected = {60 * minute: int(fires and 34 <= minute < 40) for minute in (29, *looked)}
    done = firing("WeirListenerDropping", given, expected, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("alert", "committed"), [("WeirFailingOften", "_x30 0+1x60"), ("WeirBatchesFailing", None)]
)
@pytest.mark.parametrize("failures", [2, 3])
def test_two_failures_are_not_three_of_an_agent_in_a_new_pod(
    alert: str, committed: str | None, failures: int, tmp_path: Path
) -> None:
    """Its counts go on from where they were: a series that begins at seven."""
    failed = " ".join(str(7 + n) for n in range(failures))
    given = {
        q("weir_batches_total", result="failed"): f"_x30 {failed} {7 + failures}x60",
        q("weir_query_up"): "1x100",
    }
    if committed is not None:
        given[q("weir_batches_total", result="completed")] = committed
    # Looked at between scrapes, too, while what is counted is within the shorter window.
    told = {60 * (31 + failures) + seconds: int(failures > 2) for seconds in range(0, 600, 15)}
    done = firing(alert, given, told, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_expectation_fails(tmp_path: Path) -> None:
    """That the test above can fail at all: the same tests, asked a minute early."""
    case = CASES[0]
    tests = _unit_tests(case)
    tests[0]["alert_rule_test"][-1]["eval_time"] = f"{case.at - 1}m"
    path = tmp_path / "tests.json"
    path.write_text(json.dumps({"rule_files": [str(RULES)], "tests": tests}))
    done = promtool(path)
    assert done.returncode != 0


def test_no_group_is_larger_than_mimir_takes_one() -> None:
    """By its default, ruler.max-rules-per-rule-group; a group of more is refused as a whole."""
    found = _alert_groups()
    assert all(len(group["rules"]) <= 20 for group in found)
    assert [rule["alert"] for group in found for rule in group["rules"]] == [
        alert.name for alert in ALERTS
    ]
    assert {group["interval"] for group in found} == {"15s"}
    assert len(RECORDINGS) <= 20


def test_what_a_ruler_records_under_labels_of_its_own_is_joined_with_nothing_else() -> None:
    """Thanos' ruler needs external labels, and what is scraped does not have them."""
    for alert in ALERTS:
        recorded = {one.name for one in RECORDINGS if one.name in alert.expression}
        assert recorded <= {STOPPED, STATE_ROWS}, alert.name


def test_recordings_are_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "tests.json"
    bucket = 'weir_batch_duration_seconds_bucket{application="a",query="q",instance="i",le="%s"}'
    asked = [
        ("query:weir_backlog_seconds:deriv15m", 0.5),
        ("query:weir_rows:rate5m", 100),
        ("query:weir_batch_duration_seconds:p99_15m", 4.95),
    ]
    test = {
        "interval": "1m",
        "input_series": [
            {"series": 'weir_backlog_seconds{application="a",query="q"}', "values": "0+30x30"},
            {"series": 'weir_rows_total{application="a",query="q"}', "values": "0+6000x30"},
            {"series": bucket % "2.5", "values": "0+10x30"},
            {"series": bucket % "5.0", "values": "0+20x30"},
            {"series": bucket % "+Inf", "values": "0+20x30"},
        ],
        "promql_expr_test": [
            {
                "expr": f"round({name}, 0.01)",
                "eval_time": "20m",
                "exp_samples": [{"labels": '{application="a",query="q"}', "value": value}],
            }
            for name, value in asked
        ],
    }
    path.write_text(json.dumps({"rule_files": [str(RULES)], "tests": [test]}))
    done = promtool(path)
    assert done.returncode == 0, done.stdout + done.stderr
