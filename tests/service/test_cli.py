"""The command line against a real agent: what it does, what it says, its exit codes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, NoReturn

import pytest
from typer.testing import CliRunner

from agent import __version__, cli
from agent.cli import app
from tests.service import wire
from tests.service.agents import ROOT, AgentProcess, environment, weir
from tests.service.conftest import TOKEN

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def names(guarded: AgentProcess, application: str) -> tuple[str, str]:
    """An application with two queries, known to the agent: its name, and the first one's."""
    first = f"enrich-{application}"
    events = [
        wire.progress(1, query=1, name=first),
        wire.progress(2, query=2, name=f"other-{application}"),
    ]
    assert guarded.post(wire.request(events, application=application)).json()["accepted"] == 2
    return application, first


def steer(guarded: AgentProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    token = str(guarded.folder / "token")
    return weir(*arguments, env={"WEIR_AGENT_URL": guarded.address, "WEIR_TOKEN_FILE": token})


def view(guarded: AgentProcess, application: str, query: str) -> dict[str, object]:
    answer = guarded.http.get(f"/v1/queries/{application}/{query}")
    return dict(answer.json()["query"])


def test_hold_limit_release(guarded: AgentProcess, names: tuple[str, str]) -> None:
    application, query = names
    done = steer(guarded, "hold", query, "--reason", "deploy", "--who", "kim")
    assert (done.returncode, done.stdout) == (0, f"{application}/{query}: hold\n"), done.stderr
    assert done.stderr == f"weir: told the agent at {guarded.address}\n"
    assert view(guarded, application, query)["held"] is True
    order = next(line for line in reversed(guarded.log()) if line["event"] == "order")
    assert order["who"] == "kim (127.0.0.1)"
    assert order["reason"] == "deploy"
    assert order["what"] == "hold"
    kept = guarded.http.get("/v1/queries").json()["agent"]["orders"][-1]
    assert (kept["who"], kept["query"], kept["what"]) == ("kim (127.0.0.1)", query, "hold")

    done = steer(guarded, "limit", f"{application}/{query}", "1234", "--unit", "rows")
    assert (done.returncode, done.stdout) == (0, f"{application}/{query}: limit 1234 rows\n")
    reply = guarded.post(
        wire.request([wire.progress(3, query=1, name=query)], application=application)
    ).json()
    assert [one["limit"] for one in reply["grants"]][:1] == [1234]
    assert view(guarded, application, query)["manual_limit"] == 1234

    done = steer(guarded, "release", query, "-a", application)
    assert (done.returncode, done.stdout) == (0, f"{application}/{query}: release\n")
    now = view(guarded, application, query)
    assert (now["held"], now["manual_limit"]) == (False, None)


def test_mode_of_one_of_a_pattern_and_of_all(tmp_path: Path) -> None:
    with AgentProcess(tmp_path) as agent:
        for application in ("orders", "refunds"):
            agent.post(wire.request([wire.progress(1)], application=application))

        def modes() -> dict[str, str]:
            queries = agent.http.get("/v1/queries").json()["queries"]
            return {one["application"]: one["mode"] for one in queries}

        def run(*arguments: str) -> str:
            done = weir("mode", *arguments, "--url", agent.address)
            assert done.returncode == 0, done.stderr
            return done.stdout

        assert run("dry-run", "orders/query-0") == "orders/query-0: mode dry-run\n"
        assert modes() == {"orders": "dry-run", "refunds": "on"}
        assert run("off").splitlines() == [
            "orders/query-0: mode off",
            "refunds/query-0: mode off",
        ]
        assert modes() == {"orders": "off", "refunds": "off"}
        assert agent.http.get("/v1/queries").json()["agent"]["mode"] == "off"
        reply = agent.post(wire.request([wire.progress(2)], application="orders")).json()
        assert reply["grants"] == [] or reply["grants"][0]["reason"] == "mode:off"
        agent.post(wire.request([wire.progress(1)], application="later"))
        assert modes()["later"] == "off"
        assert run("off", "ref*/*") == "refunds/query-0: mode off\n"
        run("on", "ref*/*")
        assert modes() == {"orders": "off", "refunds": "on", "later": "off"}


def test_where_the_plugin_lies_is_told_and_where_it_is_missing_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "plugin.jar"
    monkeypatch.setattr("spark_listener.plugin.__main__.JAR", jar)
    done = CliRunner().invoke(app, ["plugin"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"weir: {jar}: not there; in a checkout `make plugin` compiles it\n"
    jar.write_bytes(b"")
    done = CliRunner().invoke(app, ["plugin"])
    assert (done.exit_code, done.stdout) == (0, f"{jar}\n")


def test_the_kill_switch_swallows_no_typo(tmp_path: Path) -> None:
    with AgentProcess(tmp_path) as agent:
        for application, query in (("orders", "enrich"), ("ads", "scores")):
            event = wire.progress(1, name=query)
            agent.post(wire.request([event], application=application))

        def run(*arguments: str) -> tuple[int, str]:
            done = weir("mode", *arguments, "--url", agent.address)
            return done.returncode, done.stdout or done.stderr

        assert run("off", "enrch") == (2, "weir: no query enrch; nearest: orders/enrich\n")
        says = "no query orders; an application of that name has: enrich. Say orders/*"
        assert run("off", "orders") == (2, f"weir: {says}\n")
        queries = agent.http.get("/v1/queries").json()
        assert [one["mode"] for one in queries["queries"]] == ["on", "on"]
        assert queries["agent"]["orders"] == []
        later = "fits no query now; holds for later ones"
        assert run("off", "late*") == (0, f"*/late*: mode off ({later})\n")
        assert run("off", "*/later") == (0, f"*/later: mode off ({later})\n")
        assert run("dry-run", "scores") == (0, "ads/scores: mode dry-run\n")
        done = weir("limit", "ads/scores", "700", "--url", agent.address)
        assert (done.returncode, done.stdout) == (
            0,
            (
                "ads/scores: limit 700 rows "
                "(noted; in dry-run nothing changes: weir mode on ads/scores)\n"
            ),
        )


def test_no_name_draws_the_kill_switch_upon_itself(tmp_path: Path) -> None:
    with AgentProcess(tmp_path) as agent:
        for application, name in (("orders", "enrich"), ("*", "*"), ("[a-z]*", "?")):
            events = [wire.progress(1, name=name)]
            agent.post(wire.request(events, application=application))
        done = weir("mode", "off", "--url", agent.address)
        assert done.returncode == 0
        queries = agent.http.get("/v1/queries").json()["queries"]
        assert [one["mode"] for one in queries] == ["off"] * 3


def test_a_name_with_a_bracket_is_a_name_where_a_query_has_it(tmp_path: Path) -> None:
    with AgentProcess(tmp_path) as agent:
        names = ("ingest[eu]", "ingeste", "ingestu")
        events = [wire.progress(n + 1, query=n, name=name) for n, name in enumerate(names)]
        agent.post(wire.request(events))

        def run(*arguments: str) -> str:
            done = weir(*arguments, "--url", agent.address)
            assert done.returncode == 0, done.stderr
            return done.stdout

        assert run("mode", "off", "ingest[eu]") == "orders/ingest[eu]: mode off\n"
        assert run("hold", "ingest[eu]").startswith("orders/ingest[eu]: hold")
        assert "orders/ingest[eu]" in run("compare", "ingest[eu]")
        assert "ingeste" not in run("compare", "orders/ingest[eu]")
        queries = agent.http.get("/v1/queries").json()["queries"]
        modes = {one["query"]: one["mode"] for one in queries}
        assert modes == {"ingest[eu]": "off", "ingeste": "on", "ingestu": "on"}
        assert "ingestu: mode off" in run("mode", "off", "ingest[uv]"), "where no query has it"


def test_a_name_with_a_slash_is_reached_and_reaches_no_other(tmp_path: Path) -> None:
    names = (("orders", "enrich"), ("billing", "orders/enrich"), ("team/etl", "enrich"))
    with AgentProcess(tmp_path) as agent:

        def start(application: str, query: str) -> None:
            agent.post(wire.request([wire.progress(1, name=query)], application=application))

        def run(*arguments: str) -> tuple[int, str]:
            done = weir(*arguments, "--url", agent.address)
            return done.returncode, done.stdout or done.stderr

        for name in names:
            start(*name)
        assert run("hold", "orders/enrich") == (0, "orders/enrich: hold\n")
        assert run("hold", "billing/orders/enrich") == (0, "billing/orders/enrich: hold\n")
        assert run("mode", "off", "team/etl/*") == (0, "team/etl/enrich: mode off\n")
        code, said = run("mode", "off", "team/other/*")
        assert (code, "'team/other/*' is no query that is known" in said) == (2, True)
        start("billing/orders", "enrich")
        code, said = run("release", "billing/orders/enrich")
        assert (code, "give its application with --application" in said) == (2, True)
        done = run("release", "orders/enrich", "-a", "billing")
        assert done == (0, "billing/orders/enrich: release\n")


WRONG = [
    (["hold"], "QUERY"),
    (["limit", "q"], "'N'"),
    (["limit", "q", "many"], "'N'"),
    (["limit", "q", "0"], "'N'"),
    (["limit", "q", "5", "--unit", "pages"], "pages"),
    (["mode"], "MODE"),
    (["mode", "auto"], "auto"),
    (["hold", "/x"], "'/x'"),
    (["hold", "x/"], "'x/'"),
    (["hold", "q", "--url", "ftp://x"], "ftp://x"),
    (["hold", "q", "--url", "localhost:9655"], "localhost:9655"),
    (["hold", "q", "--token-file", "/nowhere"], "/nowhere"),
    (["hold", "q", "--ca-file", "/nowhere"], "/nowhere"),
    (["hold", "no-such-query-anywhere"], "no-such-query-anywhere"),
    (["limit", "QUERY", "5", "--unit", "files"], "files"),
    (["no-such-command"], "no-such-command"),
    ([], "command"),
]


@pytest.mark.parametrize(("arguments", "word"), WRONG)
def test_wrong_usage_ends_with_2_and_one_line(
    guarded: AgentProcess, names: tuple[str, str], arguments: list[str], word: str
) -> None:
    arguments = [names[1] if one == "QUERY" else one for one in arguments]
    done = steer(guarded, *arguments)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert word.lower() in done.stderr.lower()
    assert done.stdout == ""


def test_a_wrong_token_is_wrong_input(guarded: AgentProcess, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("not-this-one")
    done = weir("hold", "q", "--url", guarded.address, "--token-file", str(tmp_path / "token"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"refuses the token of '{tmp_path}/token'" in done.stderr
    assert "give another with --token-file or WEIR_TOKEN_FILE" in done.stderr
    assert "not-this-one" not in done.stderr
    assert TOKEN not in done.stderr


def test_no_agent_or_something_else_there_could_not_be_done() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        done = weir("hold", "q", "--url", address)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert done.stderr == (
            f"weir: no agent answers at {address}: Connection refused. "
            "Start `weir agent`, or name another with --url or WEIR_AGENT_URL\n"
        )


def test_without_a_token_one_is_asked_for(guarded: AgentProcess) -> None:
    done = weir("hold", "q", "--agent", guarded.address)
    assert done.returncode == 2
    assert done.stderr == (
        f"weir: the agent at {guarded.address} asks for a token: "
        "give --token-file FILE or WEIR_TOKEN_FILE\n"
    )


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (command, pair)
        for command in ("top", "mode", "hold", "release", "limit", "rescue", "checkpoint audit")
        for pair in [("--url", "--agent")]
    ]
    + [
        (command, (name, f"{name}-seconds"))
        for command in ("agent", "replay", "history", "rescue")
        for name in ("--target", "--deadline")
        if (command, name) != ("rescue", "--target")
    ],
)
def test_both_names_of_an_option_are_taken(command: str, options: tuple[str, str]) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"]).stdout
    for option in options:
        assert re.search(rf"(^|[\s,/\[]){option}([\s,=\]]|$)", shown), shown


def test_a_server_of_http_asked_for_https_says_what_to_write(guarded: AgentProcess) -> None:
    address = guarded.address.replace("http://", "https://")
    done = weir("hold", "q", "--url", address)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "write http:// in --url or WEIR_AGENT_URL" in done.stderr


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'fcntl'", name="fcntl"),
        AttributeError("module 'os' has no attribute 'O_NONBLOCK'", obj=os),
    ],
)
def test_what_cannot_run_on_windows_says_so(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def command() -> NoReturn:
        monkeypatch.setattr(cli.os, "name", "nt")
        raise error

    monkeypatch.setattr(cli, "_run", command)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    monkeypatch.undo()
    assert ended.value.code == 1
    said = capfd.readouterr().err
    assert said.startswith("weir: this command runs on Linux, on macOS and in WSL, not on Windows")
    assert said.count("\n") == 1


@pytest.mark.parametrize("error", [ImportError("x", name="numpy"), AttributeError("y", obj=3)])
def test_what_fails_by_itself_is_not_windows_fault(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command() -> NoReturn:
        monkeypatch.setattr(cli.os, "name", "nt")
        raise error

    monkeypatch.setattr(cli, "_run", command)
    with pytest.raises(type(error)):
        cli.main()


WRITES = (
    "import sys, typer\n"
    "from agent import cli\n"
    "@cli.app.command('writes')\n"
    "def writes(number: int, code: int, how: str) -> None:\n"
    "    text = 'x' * number\n"
    "    typer.echo(text) if how == 'echo' else print(text)\n"
    "    raise typer.Exit(code)\n"
    "cli.main()"
)


def written(output: int, number: int, code: int, how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WRITES, "writes", str(number), str(code), how],
        env=environment(),
        cwd=ROOT,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("number", [10, 200_000])
@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("how", ["echo", "print"])
def test_a_reader_that_leaves_early_changes_no_check_to_another(
    number: int, code: int, how: str
) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = written(write, number, code, how)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


@pytest.mark.parametrize("number", [10, 200_000])
@pytest.mark.parametrize("how", ["echo", "print"])
def test_a_full_disk_is_one_line(number: int, how: str) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = written(full, number, 0, how)
    finally:
        os.close(full)
    said = "weir: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_version_and_help() -> None:
    assert weir("--version").stdout == f"weir {__version__}\n"
    done = weir("--help")
    assert done.returncode == 0
    for command in ("agent", "top", "mode", "hold", "release", "limit"):
        assert re.search(rf"^\s+{command} ", done.stdout, re.MULTILINE)
    for command in ("mode", "hold", "release", "limit", "top", "agent"):
        assert weir(command, "--help").returncode == 0


def test_a_command_starts_without_what_it_does_not_need() -> None:
    script = (
        "import sys, agent.cli\n"
        "heavy = {'uvicorn', 'starlette', 'httpx', 'pydantic', 'pyspark', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def help_of(columns: int, *words: str) -> list[str]:
    done = weir(*words, "--help", env={"COLUMNS": str(columns)})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("words", [(), ("checkpoint",), ("rescue",), ("agent",)])
def test_help_is_as_wide_as_the_terminal_and_cuts_no_sentence(words: tuple[str, ...]) -> None:
    narrow, wide = help_of(80, *words), help_of(200, *words)
    assert max(map(len, narrow)) <= 80
    assert not any(line.endswith("...") for line in narrow if "sage: " not in line), narrow
    if words in (("rescue",), ("agent",)):
        assert max(map(len, wide)) > 100
        assert len(wide) < len(narrow)
