"""The runbooks: one for each alert and none besides, and what they tell to do exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from agent.export import runbooks
from agent.export.catalogue import METRICS
from alerts.rules import ALERTS

ROOT = Path(__file__).resolve().parents[2]
RUNBOOKS = ROOT / "agent" / "export" / "runbooks"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in RUNBOOKS.glob("*.md")}
BOARDS = {
    board["title"]: {
        one["title"] for panel in board["panels"] for one in (panel, *panel.get("panels", ()))
    }
    for board in (
        json.loads(path.read_text(encoding="utf-8"))
        for path in (ROOT / "dashboards" / "generated").glob("*.json")
    )
}
SERIES = {name for one in METRICS for name in one.sample_names}


def section(page: str, name: str) -> str:
    return PAGES[page].split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]


def test_one_for_each_alert_and_none_besides() -> None:
    assert set(PAGES) == {alert.name for alert in ALERTS}


@pytest.mark.parametrize("page", sorted(PAGES))
def test_parts(page: str) -> None:
    text = PAGES[page]
    assert text.startswith(f"# {page}\n")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["Meaning", "Impact", "Diagnosis", "Mitigation"]
    for heading in headings:
        assert len(section(page, heading).strip()) > 20
    assert max(map(len, text.splitlines())) <= 120


def test_each_says_first_how_grave_it_is_and_what_to_do() -> None:
    for alert in ALERTS:
        opening = PAGES[alert.name].split("\n## ", 1)[0].split("\n\n", 1)[1].replace("\n", " ")
        assert opening.startswith(f"*{alert.severity}* · **First:** "), alert.name
        assert 40 < len(opening) < 240, alert.name
        assert runbooks.severity(alert.name) == alert.severity


@pytest.mark.parametrize("page", ["WeirAgentDown", "WeirAgentUnreachable"])
def test_an_agent_that_a_lost_node_keeps_from_starting_is_told(page: str) -> None:
    """A StatefulSet makes no second pod beside the first, and a node that is gone ends none."""
    told = " ".join(section(page, "Mitigation").split())
    assert "*Terminating*" in told
    assert "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute" in told
    assert "surely off" in told, "two agents would write to one volume"


def test_ending_the_agent_is_no_way_to_end_a_limit_where_none_was_configured() -> None:
    """It stays then, the plugin's door closed or not: tests/plugin/test_jobs.py sees it."""
    told = " ".join(section("WeirAgentStateNotSaved", "Mitigation").split())
    assert "where none is configured the last one stays, with the agent gone too" in told
    assert "end the agent" not in told


@pytest.mark.parametrize("page", ["WeirAgentBlind", "WeirListenerDropping"])
def test_whose_log_tells_the_cause_hangs_on_how_the_job_came_to_weir(page: str) -> None:
    """With the plugin warnings stand in the agent's: docs/plugin.md."""
    first = " ".join(PAGES[page].split("\n## ", 1)[0].split())
    assert "with the plugin the agent's, with `attach`" in first
    assert "`kubectl logs POD -c weir`" in section(page, "Diagnosis")


def test_the_index_has_each_once_and_the_gravest_first() -> None:
    graded = {alert.name: list(runbooks.SEVERITIES).index(alert.severity) for alert in ALERTS}
    listed = re.findall(r'<dt><a href="(\w+)">', runbooks.index())
    assert sorted(listed) == sorted(graded)
    assert [graded[name] for name in listed] == sorted(graded.values())


def test_the_index_shows_words_and_no_markdown() -> None:
    said = re.findall(r"<dd>(.*?)</dd>", runbooks.index())
    assert len(said) == len(runbooks.names())
    assert [text for text in said if not text or re.search(r"[`*\[\]]|  ", text)] == []


def test_every_page_says_how_to_reach_the_agent() -> None:
    for text in (runbooks.index(), *map(runbooks.page, runbooks.names())):
        before = text.split("<main>", 1)[0]
        for needed in (
            "WEIR_AGENT_URL",
            "WEIR_TOKEN_FILE",
            "kubectl -n NAMESPACE port-forward",
            "get secret",
        ):
            assert needed in before


@pytest.mark.parametrize("page", sorted(PAGES))
def test_diagnosis_names_a_command_and_panels_that_exist(page: str) -> None:
    text = section(page, "Diagnosis")
    assert re.search(r"`weir \w+", text)
    boards = re.findall(r"[Dd]ashboard \*(Weir / [^*]+)\*", text)
    assert boards
    assert set(boards) <= set(BOARDS)
    panels = set(re.findall(r"\*([A-Z][^*]+)\*", text)) - set(boards)
    shown = set().union(*(BOARDS[board] for board in boards))
    # A page may speak of Spark's own UI too.
    elsewhere = {"Stages", "Executors", "Thread dump"}
    assert panels & shown, "no panel is named"
    assert panels <= shown | elsewhere


@pytest.mark.parametrize("page", sorted(PAGES))
def test_metrics_and_links_exist(page: str) -> None:
    text = PAGES[page]
    assert set(re.findall(r"\bweir_\w+", text)) <= SERIES
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (RUNBOOKS / target).is_file(), target


def test_a_new_checkpoint_is_advised_with_what_its_sink_needs() -> None:
    told = {page: " ".join(section(page, "Mitigation").split()) for page in PAGES}
    needs = told.pop("WeirNewCheckpoint")
    assert "a new output path" in needs
    assert "`txnAppId`" in needs
    advise = {page for page, words in told.items() if re.search(r"\bnew checkpoint\b", words)}
    assert len(advise) >= 6
    assert advise == {page for page in advise if "(WeirNewCheckpoint.md)" in told[page]}


def test_commands_exist() -> None:
    """Every ``weir …`` of every page is a command of the program, with as many words."""
    told = {
        tuple(one.split()) for text in PAGES.values() for one in re.findall(r"`weir ([^`]+)`", text)
    }
    assert told
    groups = {"checkpoint"}  # a command of these is two words
    named = {words: words[: 2 if words[0] in groups else 1] for words in told}
    for name in sorted(set(named.values())):
        done = subprocess.run(
            [sys.executable, "-c", "from agent.cli import main; main()", *name, "--help"],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={"COLUMNS": "200", "PATH": "/usr/bin:/bin"},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        usage = done.stdout.split("\n\n", 1)[0]
        for words, of in named.items():
            if of == name:
                options = {word for word in words if word.startswith("-")}
                assert all(f" {one}" in done.stdout for one in options), (words, done.stdout)
                plain = list(takewhile(lambda word: not word.startswith("-"), words))
                given = len(plain) - len(name)
                # Of what may be left out only `[OPTIONS]` is no word of the command.
                assert usage.count("{") + usage.count("[") - 1 >= given, (words, usage)
