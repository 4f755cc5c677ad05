"""What a stranger pastes, block by block: nothing of it waits for ever, or ends his cluster."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

import agent
from agent.export import runbooks
from agent.service.config import Settings
from alerts.rules import ALERTS
from spark_listener.config import conf_key

ROOT = Path(__file__).parents[2]
START = ROOT / "docs" / "start"
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
#: What goes on until it is ended: nothing after it in its block is run.
STAYS = re.compile(
    r"weir agent\b|weir top(?!.*--once)\b|port-forward\b|k8s:.*--deploy-mode cluster"
)


def blocks(page: Path) -> list[list[str]]:
    """The commands of each block for a shell, what is continued on a line of its own as one."""
    found = re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    joined = [re.sub(r"\\\n *", "", one) for one in found]
    return [
        [line for line in one.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        for one in joined
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_stays_until_it_is_ended_is_the_last_of_its_block(page: Path) -> None:
    for block in blocks(page):
        stays = [line for line in block[:-1] if STAYS.search(line)]
        assert [line for line in stays if not line.rstrip().endswith("&")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_block_begins_amid_a_command(page: Path) -> None:
    assert [block[0] for block in blocks(page) if block and block[0].startswith("-")] == []


#: Pages by whose blocks a stranger comes in.
WAYS_IN = [*START.glob("*.md"), *(ROOT / "docs" / f"{name}.md" for name in ("deploy", "plugin"))]


@pytest.mark.parametrize("page", WAYS_IN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_who_comes_in_by_pasting_changes_nothing_yet(page: Path) -> None:
    lines = [line for block in blocks(page) for line in block]
    acting = [line for line in lines if "weir agent " in line and "--mode dry-run" not in line]
    acting += [line for line in lines if "helm install" in line and "mode=dry-run" not in line]
    assert acting == []
    assert [line for line in lines if line.endswith("…")] == [], "the shell takes that as it is"


@pytest.mark.parametrize("page", WAYS_IN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_who_asks_as_another_user_names_where_weir_is(page: Path) -> None:
    """It is in a venv, where `sudo` does not look, perhaps in a home closed to others."""
    assert not re.search(r"sudo (-u \S+ )?weir\b", page.read_text("utf-8"))


#: What stands in a badge, by its class.
BADGES = {"tried": "tried", "partly": "partly tried", "untried": "untried"}
BADGE = re.compile(r'<span class="(\w+)">(.*?)</span>')


def part_of(page: str, anchor: str) -> str:
    """The page from the heading on that a link leads to."""
    text = (START / page).read_text("utf-8")
    for found in re.finditer(r"^#+ (.+)$", text, re.MULTILINE) if anchor else ():
        if re.sub(r"[^\w -]", "", found[1].lower()).replace(" ", "-") == anchor:
            return text[found.start() :]
    assert not anchor, anchor
    return text


def test_the_table_says_of_each_way_in_what_its_page_says() -> None:
    table = re.findall(
        r'^\| [^|]*\]\(([\w.]+)#?([\w-]*)\).*<span class="(\w+)">',
        (START / "index.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert len(table) == 9
    for page, anchor, name in table:
        found = BADGE.search(part_of(page, anchor))
        assert found, page
        assert found[1] == name, (page, anchor)


def test_each_badge_is_explained_and_is_seen_by_day_and_by_night() -> None:
    index = (START / "index.md").read_text("utf-8")
    styles = (ROOT / "scripts/docs_theme/assets/site.css").read_text("utf-8")
    used = {badge for page in PAGES for badge in BADGE.findall(page.read_text("utf-8"))}
    assert used == set(BADGES.items())
    for name, words in BADGES.items():
        assert f"*{words.capitalize()}*" in index
        for scheme in ("", '[data-md-color-scheme="slate"] '):
            assert re.search(
                rf"^{re.escape(scheme)}\.md-typeset \.{name} {{.*color:", styles, re.MULTILINE
            )


@pytest.mark.parametrize("page", ["local", "standalone", "yarn", "emr", "dataproc", "databricks"])
def test_each_way_in_says_how_to_look(page: str) -> None:
    text = (START / f"{page}.md").read_text("utf-8")
    installed = re.search(r"(~|/opt)/weir/bin/(?=weir agent)", text)
    assert f"{installed[0] if installed else ''}weir top" in text
    assert "weir mode on" in text


def test_databricks_gives_each_cluster_a_name_of_its_own() -> None:
    """There Spark's own name is the same for all of them."""
    text = (START / "databricks.md").read_text("utf-8")
    assert re.search(r"^attach\(\s+spark, .*application_name=", text, re.MULTILINE)
    assert re.search(rf"^{re.escape(conf_key('application_name'))} \S+$", text, re.MULTILINE)
    assert conf_key("application_name") in runbooks.source("WeirNamesCollide")


def test_databricks_says_what_outlives_a_cluster_before_whoever_orders_relies_on_it() -> None:
    text = (START / "databricks.md").read_text("utf-8")
    (file,) = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    settings = Settings(**yaml.safe_load(file))
    assert settings.mode == "dry-run", "what it does not name is not changed"
    assert [(rule.match, rule.mode) for rule in settings.rules] == [("NAME/*", "on")]
    (given,) = re.findall(r"`--config (\S+)`", text)
    (folder,) = re.findall(r"`cp \S+/weir\.yaml (\S+) &&`", text)
    assert given == f"{folder}weir.yaml"


def test_databricks_says_which_alert_waits_shorter_than_a_job_cluster_takes() -> None:
    text = (START / "databricks.md").read_text("utf-8")
    assert "WeirQueryGone.md" in text
    (alert,) = [one for one in ALERTS if one.name == "WeirQueryGone"]
    assert (alert.hold, "(three)" in text) == ("3m", True)
    assert "job cluster" in (runbook := runbooks.source("WeirQueryGone"))
    assert "a longer `for`" in runbook


def test_where_the_agent_is_roots_orders_are_given_as_root() -> None:
    text = (START / "dataproc.md").read_text("utf-8")
    assert "after sudo -i" in text
    assert re.findall(r"`([^`]*)weir mode\b", text) == ["sudo /opt/weir/bin/"]


@pytest.mark.parametrize("page", ["databricks", "dataproc"])
def test_the_jar_has_the_name_that_its_make_target_gives_it(page: str) -> None:
    names = re.findall(r"weir-spark-plugin\S*?\.jar", (START / f"{page}.md").read_text("utf-8"))
    assert set(names) == {"weir-spark-plugin.jar"}


def init_script(tmp_path: Path) -> Path:
    """Databricks' one, as it is pasted."""
    text = (START / "databricks.md").read_text("utf-8")
    (script,) = re.findall(r"^(#!/bin/sh\n.*?)^```", text, re.DOTALL | re.MULTILINE)
    path = tmp_path / "init.sh"
    path.write_text(script.replace("/opt/weir", f"{tmp_path}/weir"))
    return path


def test_an_init_script_without_its_jar_ends_the_launch_and_says_so(tmp_path: Path) -> None:
    """Else the cluster's settings name a class that is not there, and no job of it starts."""
    done = subprocess.run(
        ["sh", str(init_script(tmp_path))], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "weir-spark-plugin.jar" in done.stderr


@pytest.mark.parametrize("becomes", ["exit 1", "exec sleep 20"], ids=["fails", "hangs"])
def test_an_agent_that_cannot_be_installed_keeps_no_cluster_from_starting(
    tmp_path: Path, becomes: str
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, does in {"cp": "exit 0", "virtualenv": becomes, "python3": "exit 1"}.items():
        (tools / name).write_text(f"#!/bin/sh\necho $$ >{tmp_path}/{name}.pid\n{does}\n")
        (tools / name).chmod(0o755)
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "DB_IS_DRIVER": "TRUE"}
    script = init_script(tmp_path)
    script.write_text(script.read_text().replace("/var/log/weir.log", f"{tmp_path}/log"))
    try:
        # Whoever starts it waits as well until nobody holds what it reads of the script.
        done = subprocess.run(
            ["sh", str(script)], capture_output=True, check=False, env=environment, timeout=10.0
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert (tmp_path / "log").exists()
    finally:
        for one in (tmp_path / "virtualenv.pid", tmp_path / "python3.pid"):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(one.read_text()), signal.SIGKILL)


def test_an_upgrade_keeps_what_was_set_and_takes_new_defaults() -> None:
    """With `--set` alone Helm drops the rest, and with `--reuse-values` it keeps old defaults."""
    told = [
        command
        for page in PAGES
        for command in re.findall(r"helm upgrade weir [^`\n]*", page.read_text("utf-8"))
    ]
    assert len(told) >= 2
    assert [one for one in told if "--reset-then-reuse-values" not in one] == []


def test_the_image_is_built_by_the_tag_that_the_chart_asks_for() -> None:
    text = (START / "kubernetes.md").read_text("utf-8")
    assert set(re.findall(r"example\.com/team/weir:(\S+)", text)) == {agent.__version__}


def test_wherever_an_image_is_built_it_may_be_for_nodes_of_both_architectures() -> None:
    """A driver whose init container is of the other one fails, and is not started again."""
    building = [
        page
        for page in PAGES
        if any("docker build " in line for block in blocks(page) for line in block)
    ]
    assert {page.name for page in building} >= {"deploy.md", "kubernetes.md"}
    for page in building:
        (line,) = [line for block in blocks(page) for line in block if "buildx build" in line]
        assert "--platform linux/amd64,linux/arm64 --push " in line


def test_a_template_is_never_told_without_what_becomes_of_one_that_is_there() -> None:
    """A job has one: in its place Weir's takes away its mounts, its checkpoint's among them."""
    tell = [page for page in PAGES if "driver.yaml" in page.read_text("utf-8")]
    assert {page.name for page in tell} >= {"deploy.md", "kubernetes.md", "emr.md"}
    for page in tell:
        assert re.search(r"merge\b.*\bcheckpoint", page.read_text("utf-8"), re.DOTALL), page


def test_apaches_operator_gets_no_agent_into_its_drivers_pod() -> None:
    """It ends a job for any init container that ended with an error, one that is restarted too."""
    text = (START / "kubernetes.md").read_text("utf-8")
    (section,) = re.findall(
        r"^## Apache's own operator\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    assert "mode `shared`" in section
    assert "podTemplateSpec" not in section
    assert "driver.yaml" not in section
