"""The status page: static files of this package, and the routes that serve them.

The page reads ``v1/queries`` beside it and nothing else; every address in it is relative, so that
it also works behind a proxy that adds a path. Files are served from memory. Their addresses hold a
hash of all of them together, so that a browser keeps them for good and a new version of the agent
is never mixed with an old one.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request

#: Nothing from elsewhere, nothing inline, no markup from text (trusted types), no frames.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self'; "
    "connect-src 'self'; "
    "base-uri 'none'; "
    "form-action 'none'; "
    "frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)

_MEDIA_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HASH_MARK: Final = "{hash}"


class Asset(msgspec.Struct, frozen=True):
    """One file as it is served."""

    body: bytes
    media_type: str
    etag: str


class Bundle(msgspec.Struct, frozen=True):
    """All files of the page; ``hash`` changes when any of them does."""

    hash: str
    index: Asset
    assets: dict[str, Asset]


@cache
def bundle() -> Bundle:
    """The page's files, read from the installed package once."""
    folder = resources.files(__package__) / "assets"
    bodies: dict[str, bytes] = {}
    for file in folder.iterdir():
        name = file.name
        if name == "words.json":  # the terminal view reads the same file
            name, body = "words.js", b"export default " + file.read_bytes().rstrip() + b";\n"
        else:
            body = file.read_bytes()
        if name.rpartition(".")[2] in _MEDIA_TYPES:
            bodies[name] = body
    digest = hashlib.sha256()
    for name in sorted(bodies):
        digest.update(f"{name}\0{len(bodies[name])}\0".encode())
        digest.update(bodies[name])
    together = digest.hexdigest()[:16]
    index = bodies.pop("index.html").decode().replace(_HASH_MARK, together).encode()
    return Bundle(
        hash=together,
        index=_asset("index.html", index),
        assets={name: _asset(name, body) for name, body in bodies.items()},
    )


def routes() -> list[Route]:
    """``/`` and ``/assets/…``; put them behind the same token as the endpoint they read."""
    return [
        Route("/", _page, methods=["GET"], name="status_page"),
        Route("/assets/{path:path}", _file, methods=["GET"], name="status_page_assets"),
    ]


def _asset(name: str, body: bytes) -> Asset:
    etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    return Asset(body, _MEDIA_TYPES[name.rpartition(".")[2]], etag)


async def _page(request: Request) -> Response:
    return _answer(request, bundle().index, "no-cache")


async def _file(request: Request) -> Response:
    path: str = request.path_params["path"]
    prefix, _, name = path.rpartition("/")
    asset = bundle().assets.get(name)
    # While agents are being replaced, a page of one version may ask another for its files: it
    # gets the present ones, but must not keep them under the other version's address.
    if asset is None or "/" in prefix:
        return Response("not found\n", 404, headers=_HEADERS, media_type="text/plain")
    keep = prefix == bundle().hash
    return _answer(request, asset, "private, max-age=31536000, immutable" if keep else "no-cache")


def _answer(request: Request, asset: Asset, cache_control: str) -> Response:
    headers = {**_HEADERS, "ETag": asset.etag, "Cache-Control": cache_control}
    known = request.headers.get("if-none-match", "")
    if any(tag.strip().removeprefix("W/") in {asset.etag, "*"} for tag in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(asset.body, media_type=asset.media_type, headers=headers)
