"""The runbooks: a page per alert, kept as Markdown here and served by the agent at ``/runbooks/``.

An alert that fires leads to the agent that raised it, so the page is there when it is needed and is
of the agent's own version. HTML in a page's text is shown, not obeyed; links between pages and to
other files of the repository are made to fit where they are served.
"""

from __future__ import annotations

from functools import cache
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Final

from markdown_it import MarkdownIt
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request

#: Where the agent serves them.
PATH: Final = "/runbooks/"
STYLE: Final = "style.css"
_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False})
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · Weir</title>
<link rel="stylesheet" href="style.css">
</head>
<body>
<header>
<nav><a href="../">Status page</a> <a href="./">All runbooks</a></nav>
<p class="reach"><code>weir</code> needs <code>WEIR_AGENT_URL</code> and, where the agent wants one,
<code>WEIR_TOKEN_FILE</code>; on Kubernetes:
<code>kubectl -n NAMESPACE port-forward service/weir 9655</code>, beside a driver
<code>pod/DRIVER</code>, and the token by <code>kubectl -n NAMESPACE get secret weir-token
-o jsonpath='{{.data.token}}' | base64 -d</code></p>
</header>
<main>
{body}</main>
</body>
</html>
"""


#: In the order of the index: how an alert is to be taken.
SEVERITIES: Final = {
    "critical": "Critical: somebody is called",
    "warning": "Warning: within the working day",
    "info": "Info: good to know",
}


def names() -> tuple[str, ...]:
    """Of all alerts that have a runbook, sorted."""
    files = (resources.files(__package__)).iterdir()
    return tuple(sorted(f.name.removesuffix(".md") for f in files if f.name.endswith(".md")))


def source(name: str) -> str:
    """A runbook as Markdown. Raises KeyError where there is none."""
    if name not in names():
        raise KeyError(name)
    return (resources.files(__package__) / f"{name}.md").read_text("utf-8")


def severity(name: str) -> str:
    """Of a runbook's alert: the first word below its title. Raises KeyError where there is none."""
    return source(name).split("\n\n", 2)[1].split("*", 2)[1]


@cache
def page(name: str) -> str:
    """A runbook as HTML. Raises KeyError where there is none."""
    tokens = _MARKDOWN.parse(source(name))
    for token in (child for block in tokens for child in block.children or ()):
        target = str(token.attrs.get("href", ""))
        if token.type == "link_open" and target.removesuffix(".md") in names():
            token.attrs["href"] = target.removesuffix(".md")
    body = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    return _PAGE.format(title=escape(name), body=body)


@cache
def index() -> str:
    """All runbooks, the gravest first, with the first sentence of each one's meaning."""
    body = "<h1>Runbooks</h1>\n"
    for grade, title in SEVERITIES.items():
        rows = [_entry(name) for name in names() if severity(name) == grade]
        body += f"<h2>{title}</h2>\n<dl>\n" + "\n".join(rows) + "\n</dl>\n"
    return _PAGE.format(title="Runbooks", body=body)


def _entry(name: str) -> str:
    meaning = source(name).split("\n## Meaning\n", 1)[1].split("\n## ", 1)[0].strip()
    (inline,) = _MARKDOWN.parseInline(meaning.replace("\n", " "))
    text = "".join([child.content for child in inline.children or ()])
    first = text.split(". ", 1)[0].rstrip(".")
    return f'<dt><a href="{escape(name)}">{escape(name)}</a></dt><dd>{escape(first)}</dd>'


def routes() -> list[Route]:
    """``/runbooks/`` and ``/runbooks/{alert}``; behind the same token as the status page."""
    return [
        Route(PATH.rstrip("/"), _to_index, methods=["GET"]),
        Route(PATH, _index, methods=["GET"]),
        Route(PATH + "{name}", _page, methods=["GET"], name="runbook"),
    ]


async def _to_index(_: Request) -> Response:
    # Relative, so that it holds behind a proxy that adds a path.
    return RedirectResponse(PATH.strip("/") + "/", headers=_HEADERS)


async def _index(_: Request) -> Response:
    return HTMLResponse(index(), headers=_HEADERS)


async def _page(request: Request) -> Response:
    name: str = request.path_params["name"]
    if name == STYLE:
        style = (resources.files(__package__) / STYLE).read_bytes()
        return Response(style, headers=_HEADERS, media_type="text/css")
    try:
        return HTMLResponse(page(name.removesuffix(".md")), headers=_HEADERS)
    except KeyError:
        text = "There is no such runbook; /runbooks/ lists them.\n"
        return Response(text, 404, headers=_HEADERS, media_type="text/plain")
