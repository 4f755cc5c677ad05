"""What the documentation site holds beside docs/, for mkdocs, which calls the functions below.

Pages that lie elsewhere in the repository come in (runbooks, the chart's README, the changelog),
and links that lead out of docs/ lead to them. A link to a file of code leads to a page that shows
it, one to a folder to a page that lists it. So the site is whole by itself, wherever it is served.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mkdocs.structure.files import File, InclusionLevel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
_RUNBOOKS: Final = "agent/export/runbooks"
#: A Markdown file outside of docs/ → where it stands on the site.
_PAGES: Final = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "alerts/README.md": "project/alerts.md",
    "dashboards/README.md": "project/dashboards.md",
    "examples/demo/README.md": "examples/demo.md",
    "examples/kubernetes/README.md": "examples/kubernetes.md",
    "examples/stack/README.md": "examples/stack.md",
    "helm/weir/README.md": "reference/chart.md",
    "tests/judgement/field/README.md": "project/failures-of-others.md",
    **{
        f"{_RUNBOOKS}/{path.name}": f"runbooks/{path.name}"
        for path in sorted((ROOT / _RUNBOOKS).glob("*.md"))
    },
}
#: What has a page of its own under docs/, which says the same.
_ALIASES: Final = {"README.md": "index.md", _RUNBOOKS: "alerts.md"}
#: Files that pages of the site load: where from, where to.
_ASSETS: Final = {
    "agent/export/page/assets/icon.svg": "assets/icon.svg",
    ".make/mermaid/mermaid.min.js": "assets/mermaid.min.js",
}
_LANGUAGES: Final = {
    ".py": "python", ".js": "javascript", ".sh": "sh", ".java": "java", ".toml": "toml",
    ".json": "json", ".yml": "yaml", ".yaml": "yaml", ".xml": "xml", ".css": "css",
}  # fmt: skip
#: Code, in which nothing is a link, or a link's target. Fences of three or more marks first.
_LINKS: Final = re.compile(r"(?ms)^ *(`{3,}|~{3,}).*?^ *\1|`+[^`\n]+`+|\]\((?P<target>[^)#\s]+)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the runbooks behind the alerts in the navigation, and at its end what it leaves out."""
    reference = next(part["Reference"] for part in config.nav if "Reference" in part)
    place = next(n for n, part in enumerate(reference) if "Alerts" in part) + 1
    runbooks = [uri for uri in _PAGES.values() if uri.startswith("runbooks/")]
    reference.insert(place, {"Runbooks": runbooks})
    docs = Path(config.docs_dir)
    pages = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    if more := [page for page in pages if page not in set(_named(config.nav))]:
        config.nav.append({"More": more})
    return config


def _named(nav: list[Any] | dict[str, Any] | str) -> Iterator[str]:
    """Every page that a navigation names."""
    if isinstance(nav, str):
        yield nav
        return
    for part in nav.values() if isinstance(nav, dict) else nav:
        yield from _named(part)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds pages from elsewhere, and those that show code which some page links to."""
    for path, uri in _PAGES.items():
        # Those that the navigation does not name are found by links alone.
        files.append(_file(config, uri, ROOT / path))
    for path, uri in _ASSETS.items():
        files.append(_file(config, uri, ROOT / path))
    shown: set[str] = set()
    for page in list(files.documentation_pages()):
        for match in _LINKS.finditer(page.content_string):
            if path := _shown(_repository_path(page), match["target"]):
                shown.add(path)
    for path in sorted(shown):
        _show(path, files, config)
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Leads links that leave docs/ to where their targets stand on the site."""
    here = _repository_path(page.file)
    if page.parent is None:  # a page by itself has no neighbours to show beside it
        page.meta["hide"] = ["navigation"]

    def moved(match: re.Match[str]) -> str:
        target = match["target"]
        found = target and _site_path(here, target)
        if not found:
            return match[0]
        return "](" + posixpath.relpath(found, posixpath.dirname(page.file.src_uri) or ".")

    # GitHub reads Markdown inside of <details>; here it has to be asked for.
    return re.sub("(?m)^<details>", '<details markdown="1">', _LINKS.sub(moved, markdown))


def on_page_content(html: str, **_: object) -> str:
    """Puts a frame around each diagram, in which a phone can move it instead of shrinking it."""
    return re.sub(
        r'(?s)<pre class="mermaid">.*?</pre>', lambda m: f'<div class="diagram">{m[0]}</div>', html
    )


def on_post_page(output: str, **_: object) -> str:
    """Names the theme's dialog for who hears that one has opened."""
    dialog = 'data-md-component="search" role="dialog"'
    return output.replace(dialog, f'{dialog} aria-label="Search"')


def _file(config: MkDocsConfig, uri: str, content: Path | str) -> File:
    """A file of the site that docs/ does not hold; no navigation needs to name it."""
    found = InclusionLevel.NOT_IN_NAV
    if isinstance(content, Path):
        return File.generated(config, uri, abs_src_path=str(content), inclusion=found)
    return File.generated(config, uri, content=content, inclusion=found)


def _repository_path(file: File) -> str:
    """Where a page's Markdown lies, from the repository's root."""
    beside = {uri: path for path, uri in _PAGES.items()}
    return beside.get(file.src_uri) or f"docs/{file.src_uri}"


def _resolved(here: str, target: str | None) -> str | None:
    """The path in the repository that a link leads to; None where it leads elsewhere."""
    if not target or ":" in target or target.startswith("/"):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
    return path if not path.startswith("..") and (ROOT / path).exists() else None


def _shown(here: str, target: str | None) -> str | None:
    """The path of code or of a folder that a link leads to; None for what is a page already."""
    path = _resolved(here, target)
    if path is None or path.startswith("docs/") or path in _PAGES or path in _ALIASES:
        return None
    return path


def _site_path(here: str, target: str) -> str | None:
    """Where a link's target stands on the site."""
    path = _resolved(here, target)
    if path is None:
        return None
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return _PAGES.get(path) or _ALIASES.get(path) or f"source/{path}.md"


def _show(path: str, files: Files, config: MkDocsConfig) -> None:
    """Adds the page of a file of code, or of a folder with its files to take."""
    source = ROOT / path
    if source.is_dir():
        inside = sorted(file for file in source.iterdir() if file.is_file())
        for file in inside:
            uri = f"source/{path}/{file.name}"
            files.append(_file(config, uri, file))
        body = "\n".join(f"- [{file.name}]({source.name}/{file.name})" for file in inside)
    else:
        text = source.read_text("utf-8")
        fence = "`" * 5
        body = f"{fence}{_LANGUAGES.get(source.suffix, 'text')}\n{text.rstrip()}\n{fence}"
    page = f"---\ntitle: {path}\nsearch: {{exclude: true}}\n---\n\n# {path}\n\n{body}\n"
    files.append(_file(config, f"source/{path}.md", page))
