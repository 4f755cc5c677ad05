"""Names that are meant to do harm do none, in metrics, JSON, logs and the command's output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.core.names import label
from tests.service import wire
from tests.service.agents import AgentProcess, weir
from tests.service.conftest import TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = {
    "markup": '"><script>alert(1)</script>',
    "newlines": 'a\nweir_query_up{query="forged"} 1\r\nb',
    "ten kilobytes": "q" * 10_000,
    "emoji": "🦦 dam 👩‍👩‍👧",
    "terminal": "\x1b]0;owned\x07\x1b[2J\x1b[31mred",
    "right to left": "safe\u202etxt.exe",
    "quotes": "back\\slash \"quoted\" 'single'",
    "braces": '{x="y"} # HELP weir_x',
    "slashes": "a/b/../c?d=e#f%2F",
    "null": "nul\x00byte",
    "format": "%s %n {0} ${jndi:ldap://x/a}",
    "blank": "   ",
    "dots": "..",
    "pattern": "*[a-z]?",
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    folder = tmp_path_factory.mktemp("hostile")
    with AgentProcess(folder, "--state-dir", str(folder / "state"), token=TOKEN) as agent:
        for number, name in enumerate(NAMES.values()):
            events = [
                wire.started(1, query=number, name=name),
                wire.progress(2, query=number, name=name),
            ]
            answer = agent.post(wire.request(events, application=f"app {name}"))
            assert answer.json()["accepted"] == 2
        yield agent


@pytest.mark.parametrize("case", NAMES)
def test_each_is_one_series_and_found_by_its_name(agent: AgentProcess, case: str) -> None:
    name = NAMES[case]
    families = {
        family.name: family
        for family in text_string_to_metric_families(agent.http.get("/metrics").text)
    }
    wanted = {"application": label(f"app {name}"), "query": label(name)}
    rows = [sample.value for sample in families["weir_rows"].samples if sample.labels == wanted]
    assert rows == [10_000]
    path = f"/v1/queries/{quote(f'app {name}', safe='')}/{quote(name, safe='')}"
    if name == "..":
        path = path.replace("..", "%2E%2E")
    answer = agent.http.get(path)
    assert answer.status_code == 200
    assert answer.json()["query"]["query"] == label(name)
    assert len(answer.json()["query"]["query"]) <= 120


def test_nothing_is_forged_in_the_metrics(agent: AgentProcess) -> None:
    text = agent.http.get("/metrics").text
    assert not any(line.startswith('weir_query_up{query="forged"}') for line in text.splitlines())
    for line in text.splitlines():
        assert line.isprintable(), line
    ups = [line for line in text.splitlines() if line.startswith("weir_query_up{")]
    assert len(ups) == len(NAMES)


def test_json_is_never_taken_for_markup(agent: AgentProcess) -> None:
    answer = agent.http.get("/v1/queries")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    names = {one["query"] for one in answer.json()["queries"]}
    assert names == {label(name) for name in NAMES.values()}


@pytest.mark.parametrize("case", NAMES)
def test_orders_by_the_command_line_and_its_log_lines(agent: AgentProcess, case: str) -> None:
    name = NAMES[case]
    if "\x00" in name or case == "pattern":
        return  # no argument can hold the one; the other is a pattern
    done = weir(
        *("hold", "--application", f"app {name}", "--reason", name[:400], "--url", agent.address),
        *("--token-file", str(agent.folder / "token"), "--", name),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert done.stdout.strip("\n").isprintable()
    for line in agent.log_path.read_text().splitlines():
        assert line.isprintable()
        json.loads(line)
    order = [one for one in agent.log() if one["event"] == "order"][-1]
    assert order["query"] == label(name)
    assert order["what"] == "hold"
