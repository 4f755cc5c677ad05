"""How the page's files are served: policy, caching, and nothing but them."""

from __future__ import annotations

import http.client
import json
import re
from fnmatch import fnmatch
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from agent.export.page import bundle
from tests.page.conftest import FleetServer

if TYPE_CHECKING:
    from collections.abc import Iterator

ASSETS = sorted(bundle().assets)


class Answer(NamedTuple):
    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()


class Client:
    """Sends paths as they are: others tidy ``..`` away before the server sees it."""

    def __init__(self, url: str) -> None:
        self._address = url.removeprefix("http://")

    def get(self, path: str, headers: dict[str, str] | None = None, method: str = "GET") -> Answer:
        connection = http.client.HTTPConnection(self._address, timeout=10)
        try:
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            sent = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, sent, answer.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    server = FleetServer()
    yield Client(server.url)
    server.stop()


def test_the_page_allows_nothing_inline_and_nothing_from_elsewhere(client: Client) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(
        part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", answer.text)


def test_addresses_hold_the_hash_and_are_relative(client: Client) -> None:
    text = client.get("/").text
    addresses = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert addresses
    assert "{hash}" not in text
    for address in addresses:
        assert not address.startswith(("/", "http"))
        if address.startswith("assets/"):
            assert address.split("/")[1] == bundle().hash
            assert client.get(f"/{address}").status_code == 200


@pytest.mark.parametrize("name", ASSETS)
def test_an_asset_is_kept_under_its_hash_only(client: Client, name: str) -> None:
    kept = client.get(f"/assets/{bundle().hash}/{name}")
    assert kept.status_code == 200
    assert "immutable" in kept.headers["cache-control"]
    assert kept.content == bundle().assets[name].body
    for path in (f"/assets/{name}", f"/assets/0123456789abcdef/{name}"):
        other = client.get(path)
        assert other.content == kept.content
        assert other.headers["cache-control"] == "no-cache"
        assert "content-security-policy" in other.headers


def test_what_is_unchanged_is_not_sent_again(client: Client) -> None:
    for path in ("/", f"/assets/{bundle().hash}/app.js"):
        first = client.get(path)
        for tag in (first.headers["etag"], f'W/{first.headers["etag"]}, "other"'):
            again = client.get(path, headers={"if-none-match": tag})
            assert again.status_code == 304
            assert again.content == b""
            assert again.headers["etag"] == first.headers["etag"]
        assert client.get(path, headers={"if-none-match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/assets/",
        "/assets/nothing.js",
        "/assets/index.html",
        "/assets/words.json",
        "/assets/../__init__.py",
        "/assets/%2e%2e/__init__.py",
        "/assets/a/b/app.js",
        "/assets/..%2f..%2f..%2fpyproject.toml",
    ],
)
def test_nothing_else_is_served(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.text.lower().strip() == "not found"


def test_other_methods_are_refused(client: Client) -> None:
    assert client.get("/", method="POST").status_code == 405
    assert client.get("/", method="HEAD").status_code == 200


def test_every_import_of_a_module_is_served() -> None:
    for name in ASSETS:
        if name.endswith(".js"):
            text = bundle().assets[name].body.decode()
            for target in re.findall(r'from "\./([^"]+)"', text):
                assert target in bundle().assets, f"{name} imports {target}"


def test_assets_name_no_other_origin() -> None:
    for name in ASSETS:
        text = bundle().assets[name].body.decode()
        found = set(re.findall(r"https?://[^\s\"'`)]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not found, f"{name} names {found}"
        assert "innerHTML" not in text
        assert "eval(" not in text


def test_every_asset_goes_into_the_wheel() -> None:
    root = Path(__file__).parents[2]
    found = re.search(r'^"\*" = (\[.*\])$', (root / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    patterns = json.loads(found[1])
    for file in (resources.files("agent.export.page") / "assets").iterdir():
        assert any(fnmatch(f"export/page/assets/{file.name}", pattern) for pattern in patterns), (
            file.name
        )


def test_the_page_is_small() -> None:
    total = sum(len(asset.body) for asset in bundle().assets.values()) + len(bundle().index.body)
    assert total < 133_000
