"""The documentation site: built strictly, whole by itself, and the same as what GitHub shows."""

from __future__ import annotations

import os
import posixpath
import subprocess
import threading
from collections import Counter
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from markdown_it import MarkdownIt
from playwright.sync_api import sync_playwright

from tests.lacking import lacking
from tests.page.conftest import chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
MKDOCS = [ROOT / ".make" / "docs" / "bin" / "python", "-m", "mkdocs"]
pytestmark = [
    pytest.mark.slow("mkdocs builds all pages, which nothing but the docs depends on"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / ".make" / "mermaid" / "mermaid.min.js").exists():
        lacking("what builds the site is missing: make docs")
    into = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [*MKDOCS, "build", "--strict", "--quiet", "--site-dir", into],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return into


class Document(HTMLParser):
    """What a page holds: elements by name, ids, and whatever it links to or loads."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = {name: value for name, value in attrs if value}
        self.elements[tag] += 1
        if "id" in held:
            self.ids.add(held["id"])
        if tag == "a" and held.get("name"):
            self.ids.add(held["name"])
        if tag == "a" and "href" in held:
            self.links.append(held["href"])
        loads = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src"}
        if (name := loads.get(tag)) and name in held:
            self.loads.append(held[name])


@pytest.fixture(scope="module")
def documents(site: Path) -> dict[str, Document]:
    """Path in the site → page; the folder's path where the page is its index."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        found[f"/{name.removesuffix('index.html')}"] = Document(path.read_text("utf-8"))
    return found


def dead(documents: dict[str, Document], site: Path) -> list[str]:
    """Each link of a page that leads to no page, file or place of the site."""
    found = []
    for here, page in documents.items():
        if here == "/404.html":
            continue  # it is shown at any path, and links from the root
        for target in [*page.links, *page.loads]:
            at = urlsplit(urljoin(f"http://site{here}", target))
            if at.scheme not in {"http", "https"} or at.netloc != "site":
                continue
            path = unquote(at.path)
            if path in documents:
                if at.fragment and unquote(at.fragment) not in documents[path].ids:
                    found.append(f"{here}: {target}: no such place there")
            elif not (site / path.lstrip("/")).is_file():
                found.append(f"{here}: {target}: nothing is there")
    return found


def test_every_link_leads_somewhere(documents: dict[str, Document], site: Path) -> None:
    assert len(documents) > 50
    assert dead(documents, site) == []


def test_a_dead_link_is_found(documents: dict[str, Document], site: Path) -> None:
    wrong = Document('<a href="/kafka/#no-such-place"></a><a href="/no/"></a><img src="/no.png">')
    assert [line.split(": ")[1] for line in dead({**documents, "/wrong/": wrong}, site)] == [
        "/kafka/#no-such-place",
        "/no/",
        "/no.png",
    ]


def test_nothing_is_loaded_from_elsewhere(documents: dict[str, Document]) -> None:
    foreign = [
        (here, target)
        for here, page in documents.items()
        for target in page.loads
        if urlsplit(target).netloc
    ]
    assert foreign == []


#: As pages are compared: everything that a reader sees as a part of its own.
SEEN = ("h1", "h2", "h3", "h4", "table", "tr", "td", "ul", "ol", "li", "pre", "img", "code",
        "strong", "em", "details")  # fmt: skip


def test_pages_hold_what_the_repository_shows(documents: dict[str, Document], site: Path) -> None:
    """Lists, tables and code that only one of two readers of Markdown understands differ."""
    github = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    pages = {f"/{p.relative_to(ROOT / 'docs')}": p for p in (ROOT / "docs").rglob("*.md")}
    pages |= {
        f"/runbooks/{path.name}": path for path in (ROOT / "agent/export/runbooks").glob("*.md")
    }
    pages |= {
        "/project/changelog.md": ROOT / "CHANGELOG.md",
        "/project/contributing.md": ROOT / "CONTRIBUTING.md",
        "/reference/chart.md": ROOT / "helm/weir/README.md",
    }
    differ = {}
    for uri, path in pages.items():
        name = uri.removesuffix(".md").removesuffix("index").rstrip("/") + "/"
        html = (site / name.lstrip("/") / "index.html").read_text("utf-8")
        article = html[html.index("<article") : html.index("</article>")]
        here = Document(article).elements
        there = Document(github.render(path.read_text("utf-8"))).elements
        if wrong := {t: (there[t], here[t]) for t in SEEN if there[t] != here[t]}:
            differ[posixpath.relpath(str(path), str(ROOT))] = wrong
    assert differ == {}, "element: (in the repository, on the site)"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = chromium(playwright)
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page that notes what it asks of others in ``page.foreign``."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    yield page
    context.close()
    own = (address, "data:", "blob:")
    assert [url for url in asked if not url.startswith(own)] == []


@pytest.mark.browser
def test_diagrams_are_drawn_without_a_network(page: Page, address: str) -> None:
    page.goto(f"{address}concepts/")
    page.wait_for_function("document.querySelectorAll('div.mermaid').length >= 8")
    assert page.locator("pre.mermaid").count() == 0
    heights = page.eval_on_selector_all(
        "div.mermaid", "all => all.map(one => one.getBoundingClientRect().height)"
    )
    assert min(heights) > 40


@pytest.mark.browser
def test_search_finds(page: Page, address: str) -> None:
    page.goto(address)
    # Key by key: the site looks at the field as it gets the focus, and after each key.
    page.locator("input.md-search__input").first.press_sequentially("weir_backlog_rows")
    found = page.locator(".md-search-result__link").first
    found.wait_for()
    assert "metrics" in str(found.get_attribute("href"))


@pytest.mark.browser
def test_dark_is_dark(browser: Browser, address: str) -> None:
    ink: dict[Any, str] = {}
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(address)
        ink[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        context.close()
    assert ink["light"] == "rgb(255, 255, 255)"
    assert sum(map(int, ink["dark"].strip("rgb()").split(","))) < 150


#: Of the theme itself: names of its lists and of what is around code.
#: Of Markdown: a table of rows with names has an empty corner.
OF_THEME = ("empty-table-header", "landmark-unique")


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
@pytest.mark.parametrize(
    "path", ["", "start/kubernetes/", "alerts/", "control/", "driver/", "versions/"]
)
def test_axe_finds_nothing_of_ours(
    browser: Browser, address: str, path: str, scheme: Literal["light", "dark"], width: int
) -> None:
    """Links in sentences, colours of code: told apart by who sees little."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    page = context.new_page()
    page.goto(address + path)
    page.wait_for_load_state("networkidle")  # diagrams are drawn, and frames wider than the page
    found = Axe().run(page, options={"rules": {rule: {"enabled": False} for rule in OF_THEME}})
    context.close()
    assert found.violations_count == 0, found.generate_report()
    assert found.response["passes"], "axe has looked at nothing"


@pytest.mark.browser
@pytest.mark.parametrize("path", ["", "start/", "concepts/", "metrics/", "deploy/", "yardsticks/"])
def test_a_phone_shows_a_page_without_moving_it_sideways(
    browser: Browser, address: str, path: str
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(address + path)
    wide = page.evaluate("document.documentElement.scrollWidth")
    context.close()
    assert wide <= 390


@pytest.mark.browser
def test_the_readme_comes_to_its_installation_within_a_screen(browser: Browser) -> None:
    """A window of 1080 lines of pixels, at the width and size of letters that GitHub shows."""
    html = MarkdownIt("commonmark").enable("table").render((ROOT / "README.md").read_text("utf-8"))
    page = browser.new_page(viewport={"width": 896, "height": 1080})
    page.goto((ROOT / "README.md").as_uri())  # so that its pictures are found
    page.set_content(
        "<style>body{font:16px/1.5 sans-serif;margin:24px} img{max-width:100%}"
        " h1{font-size:2em;margin:0 0 16px} h2{font-size:1.5em}"
        f" pre{{background:#eee;padding:16px;font-size:85%}}</style>{html}",
        wait_until="load",
    )
    page.wait_for_function("document.images[0].naturalHeight > 100")
    place = page.locator("h2", has_text="Install").first.bounding_box()
    if "SHOT" in os.environ:
        page.screenshot(path=os.environ["SHOT"])
    page.close()
    assert place
    assert place["y"] + place["height"] <= 1080
