"""`make stack` on a real Spark; and of that run every expression of every panel and rule asked."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from alerts.rules import ALERTS, RECORDINGS
from dashboards.over import STOPPED
from examples.stack.course import ALERT, DEADLINE_SECONDS, Course
from tests.dashboards.live import LivePrometheus, tool
from tests.dashboards.test_dashboards import expressions, filled

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]

#: What rightly has no answer in this run, by the metric that is missing; everything else has one.
MISSING = {
    "weir_failures_total": "nothing failed",
    "weir_watermark_lag_seconds": "the job has no watermark",
    "weir_watermark_delay_seconds": "the job has no watermark",
    "weir_lateness_seconds": "the job has no watermark",
    "weir_late_rows_held": "the job has no watermark",
    "weir_kafka_up": "no broker is asked",
    "weir_alignment_seconds": "the job's Spark has no REST API",
    "weir_task_skew_ratio": "the job's Spark has no REST API",
    "weir_backlog_partition_rows": "its source has no partitions",
    "weir_retention_loss_seconds": "no broker is asked",
    "weir_retention_lost_rows": "no broker is asked",
    "weir_backlog_rows": "its source counts in files",
    "weir_backlog_bytes": "its source counts in files",
    "weir_limit_rows": "its source is limited in files",
    "weir_limit_bytes": "its source is limited in files",
    "weir_executors_wanted": "the driver runs the tasks itself",
    "weir_executors_present": "the driver runs the tasks itself",
    "weir_executors_asked": "the driver runs the tasks itself",
    "weir_executors_bound": "the driver runs the tasks itself",
    "weir_batch_work_seconds": "the driver runs the tasks itself",
    "weir_limit_configured_rows": "the job configures no limit",
    "weir_limit_configured_files": "the job configures no limit",
    "weir_limit_configured_bytes": "the job configures no limit",
    "weir_agent_certificate_not_before_timestamp_seconds": "the agent serves without TLS",
    "weir_agent_certificate_expiry_timestamp_seconds": "the agent serves without TLS",
    "weir_agent_doors": "its agent looks for none",
}
#: What may have an answer or not: kills are counted only within a control group, of snapshots Spark
#: tells once it has uploaded one, and only a slow machine is short of capacity.
BY_MACHINE = ("oom_kills", "snapshot_lag", "capacity_short_since")
#: Alerts that this run raises.
RAISED = {ALERT}
SLOW = pytest.mark.slow("the whole course of `make stack`; one page asks a real Prometheus, too")
COURSE = pytest.mark.course("minutes, and a busy machine is short of capacity")


class Seen:
    """The run, still going, and its Prometheus."""

    def __init__(self, course: Course, text: Path, began: float) -> None:
        self.course = course
        self.text = text
        self.began = began
        self.prometheus = LivePrometheus(course.prometheus.url)

    def values(self, expression: str) -> list[float]:
        """Every finite value that the expression had in the run."""
        answer = self.prometheus.get(
            "/api/v1/query_range",
            query=expression,
            start=str(self.began),
            end=str(time.time()),
            step="1",
        )
        series: list[dict[str, Any]] = answer["data"]["result"]
        numbers = [float(value) for one in series for _, value in one["values"]]
        return [number for number in numbers if math.isfinite(number)]


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    for name in ("prometheus", "prometheus-alertmanager"):
        tool(name)
    work = tmp_path_factory.mktemp("stack")
    text = work / "said"
    with text.open("w") as file, ExitStack() as stack:
        began = time.time()
        course = Course(stack, Console(file=file, width=200), work / "work", 30)
        course.run()
        file.flush()
        yield Seen(course, text, began)


@SLOW
@COURSE
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_an_alert_fires_and_resolves_and_one_only(course: Seen) -> None:
    notifications = course.course.receiver.notifications
    told = [(one.receiver, one.alert, one.status) for one in notifications]
    assert told[:2] == [("day", ALERT, "firing"), ("day", ALERT, "resolved")]
    assert {alert for _, alert, _ in told} == {ALERT}
    said = course.text.read_text()
    assert re.search(r"FIRING +WeirDeadlineNear → day: weir-demo/orders", said)
    last = r"as configured, .* Under Weir, .* took ([\d.]+) s, and (.*)\.$"
    found = re.search(last, said, re.MULTILINE)
    assert found
    # A machine that is busy with something else may be late under Weir too; then it was told.
    assert (found[2] == "nothing fired") == (len(told) == 2)
    if float(found[1]) < 0.8 * DEADLINE_SECONDS:
        assert len(told) == 2
    firing, resolved = notifications[:2]
    assert firing.time < resolved.time
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/runbooks/WeirDeadlineNear", firing.runbook)


@SLOW
@COURSE
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_every_expression_of_every_panel_has_an_answer(course: Seen) -> None:
    wrong = []
    for uid, title, expression in expressions():
        if any(name in expression for name in BY_MACHINE):
            continue
        asked = filled(expression, "weir-demo", "orders")
        absent = [name for name in MISSING if name in asked]
        if bool(course.values(asked)) == bool(absent):
            wrong.append(f"{uid} · {title} · {'an answer' if absent else 'nothing'}: {asked}")
    assert wrong == [], "\n".join(["", *wrong])


@SLOW
@COURSE
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_every_rule_has_its_answer_or_its_silence(course: Seen) -> None:
    wrong = [
        f"{rule.name}: {rule.expression}"
        for rule in RECORDINGS
        if bool(course.values(rule.expression)) == (rule.name == STOPPED)  # no query is stopped
    ]
    for rule in ALERTS:
        course.values(rule.expression)  # that Prometheus takes it
        fired = course.values(f'ALERTS{{alertname="{rule.name}",alertstate="firing"}}')
        if bool(fired) != (rule.name in RAISED):
            wrong.append(f"{rule.name} {'fired' if fired else 'did not fire'}: {rule.expression}")
    assert wrong == [], "\n".join(["", *wrong])
    answer = course.prometheus.get("/api/v1/rules")
    rules = [rule for group in answer["data"]["groups"] for rule in group["rules"]]
    assert len(rules) == len(ALERTS) + len(RECORDINGS)
    assert {rule["name"]: rule["lastError"] for rule in rules if rule.get("lastError")} == {}


@pytest.mark.parametrize("seconds", ["5", "nan", "soon", "1e9"])
def test_wrong_seconds(seconds: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.stack", "--seconds", seconds],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "seconds" in done.stderr.lower()
    assert "Traceback" not in done.stderr


def test_a_missing_program_is_named_with_what_to_do(tmp_path: Path) -> None:
    python = shutil.which("python3") or sys.executable
    (tmp_path / "python3").symlink_to(python)
    done = subprocess.run(
        [sys.executable, "-m", "examples.stack"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "prometheus is not installed" in done.stderr
    assert "apt-get install prometheus prometheus-alertmanager" in done.stderr
    assert "Traceback" not in done.stderr
