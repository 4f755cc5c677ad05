"""The agent serves its runbooks: every link of every alert and panel leads to a page of its own."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import pytest
import yaml
from markdown_it import MarkdownIt

from agent.export import runbooks
from alerts import generate
from dashboards.links import ALERT_RUNBOOKS, PANEL_RUNBOOKS, checked, runbook, runbooks_url
from tests.service.agents import AgentProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "correct-horse-battery-staple"


class Page(HTMLParser):
    """What a browser would make of it: the elements, the links, the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    with AgentProcess(tmp_path_factory.mktemp("runbooks"), token=TOKEN) as running:
        yield running


def linked() -> set[str]:
    """Each alert whose runbook the committed rules and dashboards lead to."""
    rules = yaml.safe_load((generate.DIRECTORY / generate.RULES).read_text())
    found = {
        rule["annotations"]["runbook_url"]
        for group in rules["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    for path in (ROOT / "dashboards" / "generated").glob("*.json"):
        board = json.loads(path.read_text(encoding="utf-8"))
        panels = [one for top in board["panels"] for one in (top, *top.get("panels", ()))]
        found |= {link["url"] for panel in panels for link in panel.get("links", [])}
    names = {url: re.findall(r"/runbooks/(\w+)", url)[0] for url in found}
    for url, name in names.items():
        assert url in (runbook(name, ALERT_RUNBOOKS), runbook(name, PANEL_RUNBOOKS))
    return set(names.values())


def test_every_link_resolves(agent: AgentProcess) -> None:
    wrong = {}
    for name in sorted(linked()):
        answer = agent.http.get(f"/runbooks/{name}")
        if answer.status_code != 200 or name not in Page(answer.text).text:
            wrong[name] = answer.status_code
    assert wrong == {}
    assert linked() == set(runbooks.names())


@pytest.mark.parametrize("name", ["", *runbooks.names()])
def test_every_link_of_every_page_resolves_and_nothing_in_it_runs(
    agent: AgentProcess, name: str
) -> None:
    address = f"{agent.address}/runbooks/{name}"
    answer = agent.http.get(address)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    page = Page(answer.text)
    assert not {"script", "iframe", "form", "img", "style"} & set(page.elements)
    assert "style.css" in page.links
    for link in page.links:
        target = urljoin(address, link)
        assert target.startswith(agent.address), link
        assert agent.http.get(target).status_code == 200, link
    if name:
        assert [tag for tag in page.elements if tag == "h2"] == ["h2"] * 4
        # Nothing of the text is lost on the way.
        words = re.findall(r"\w+", Page(MarkdownIt().render(runbooks.source(name))).text)
        assert words == re.findall(r"\w+", page.text)[-len(words) :]
    else:
        assert set(runbooks.names()) <= set(page.links)


def test_like_the_status_page_they_need_the_token(agent: AgentProcess) -> None:
    for path in ("/runbooks", "/runbooks/", "/runbooks/WeirSpiral", "/runbooks/style.css"):
        answer = agent.http.get(path, headers={"authorization": "Bearer wrong"})
        assert answer.status_code == 401, path
        as_browsers_do = agent.http.get(
            path, headers={"authorization": ""}, auth=("kim", TOKEN), follow_redirects=True
        )
        assert as_browsers_do.status_code == 200, path


@pytest.mark.parametrize(
    "path",
    ["WeirNothing", "..", "%2e%2e", "..%2fapp", "%2fetc%2fpasswd", "WeirSpiral/x", "__init__.py"],
)
def test_nothing_else_is_served(agent: AgentProcess, path: str) -> None:
    answer = agent.http.get(f"/runbooks/{path}", follow_redirects=True)
    if path in ("..", "%2e%2e"):  # a client makes the status page's address of it
        assert answer.status_code in (200, 404)
        assert "import" not in answer.text
    else:
        assert answer.status_code == 404


def test_markup_in_a_page_is_shown_and_not_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# X\n\n## Meaning\n\n<script>alert(1)</script> [a](javascript:alert(1)) & <b>.\n"
    monkeypatch.setattr(runbooks, "source", lambda _: text)
    shown = runbooks.page.__wrapped__("<i>X</i>")
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    assert 'href="javascript' not in shown
    assert "<title>&lt;i&gt;X&lt;/i&gt; · Weir</title>" in shown


def test_the_address_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert runbook("A", "https://w.test/r/") == "https://w.test/r/A"
    assert runbook("A", "https://w.test/r/{}.md?raw=1") == "https://w.test/r/A.md?raw=1"
    monkeypatch.delenv("RUNBOOKS_URL", raising=False)
    assert runbooks_url() is None
    monkeypatch.setenv("RUNBOOKS_URL", "https://w.test/r")
    assert runbooks_url() == "https://w.test/r"
    for wrong in ("", "w.test/r", "javascript:alert(1)", "https://w.test/a b"):
        with pytest.raises(ValueError, match="runbooks: an http"):
            checked(wrong)
