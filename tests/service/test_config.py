"""Options from every source, in their order; what is wrong is named in one line, with exit 2."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from agent.core.policy import Policy
from agent.service.config import ConfigError, Settings, is_loopback, load
from agent.service.reference import PAGE, markdown, parse
from agent.service.run import _address, _bind, _tokens
from tests.lacking import lacking
from tests.service.agents import weir


def test_command_line_wins_over_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text(
        "target_seconds: 1\ndeadline_seconds: 11\nport: 1\nlabels: {a: file, b: file}\n"
    )
    environ = {"WEIR_TARGET_SECONDS": "2", "WEIR_DEADLINE_SECONDS": "22", "WEIR_LABELS": "b=env"}
    settings, notices = load({"target_seconds": "3"}, environ, str(file))
    assert notices == []
    assert settings.target_seconds == 3
    assert settings.deadline_seconds == 22
    assert settings.port == 1
    assert settings.labels == {"a": "file", "b": "env"}
    assert settings.max_queries == 2000


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text("port: 7\n")
    assert load({}, {"WEIR_CONFIG": str(file)}, None)[0].port == 7


def test_everything_reaches_the_policy(tmp_path: Path) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text(
        "mode: off\ntarget_seconds: 4\nminimum_limit: 10\nmaximum_limit: 1000\n"
        "above_configured: true\nlate_rows: hold\nstability_margin: 0.1\ndeadline_seconds: 60\n"
        "deadline_share: 0.5\ndeadband: 0.1\ngrant_seconds: 30\nforget_seconds: 10\n"
        "silent_seconds: 20\nmax_queries: 5\nmax_sources: 6\nmax_operators: 7\n"
        "give_limits: all\nstretch_gain: 0.5\n"
        "executors: dry-run\nminimum_executors: 2\nmaximum_executors: 9\n"
        "executors_quiet_seconds: 60\ncatch_up_seconds: 120\nretire_seconds: 9\n"
        "executors_quiet_hours: 22:00-06:30,12:00-13:00\n"
        "rules:\n  - {match: 'a/*', mode: on, target_seconds: 9, "
        "executors_quiet_hours: 01:00-02:00}\n"
    )
    policy = load({}, {}, str(file))[0].policy()
    assert policy.default.mode == "off"  # YAML 1.1 reads a bare `off` as false
    assert policy.rules[0].mode == "on"
    assert policy.of("a", "b").target_seconds == 9
    assert policy.of("b", "b").target_seconds == 4
    assert policy.of("b", "b").executors_quiet_hours == ((1320, 390), (720, 780))
    assert policy.of("a", "b").executors_quiet_hours == ((60, 120),)
    default = Policy()
    for name in Policy.__struct_fields__:
        assert getattr(policy, name) != getattr(default, name), name
    for name in type(policy.default).__struct_fields__:
        assert getattr(policy.default, name) != getattr(default.default, name), name


FILE_ERRORS = {
    "unknown key": ("targt_seconds: 3", "'targt_seconds': no such option; is target_seconds"),
    "unknown key, nothing near": ("colour: blue", "'colour': no such option"),
    "no hours": ("executors_quiet_hours: 22-6", "executors_quiet_hours: "),
    "negative": ("target_seconds: -3", "target_seconds: input should be greater than 0, not '-3'"),
    "longer than a driver keeps a limit": (
        "grant_seconds: 3601",
        "grant_seconds: input should be less than or equal to 3600, not '3601'",
    ),
    "infinite": ("target_seconds: .inf", "target_seconds: input should be"),
    "not a number": ("deadline_seconds: soon", "deadline_seconds: input should be a valid number"),
    "truth value": ("target_seconds: yes", "target_seconds: a number is needed"),
    "a fraction of a port": ("port: 80.5", "port: input should be a valid integer"),
    "port too high": ("port: 70000", "port: input should be less than or equal to 65535"),
    "wrong mode": ("mode: auto", "mode: input should be 'off', 'dry-run' or 'on', not 'auto'"),
    "list for text": ("host: [a]", "host: input should be a valid string"),
    "rule with unknown key": (
        "rules: [{match: a, sped: 3}]",
        "rules[0].sped: unknown key (keys: match, mode, target_seconds, ",
    ),
    "rule with misspelt key": (
        "rules: [{match: a, target_second: 3}]",
        "rules[0].target_second: unknown key; is target_seconds meant? (keys: match, ",
    ),
    "rule without match": ("rules: [{mode: on}]", "rules[0].match: field required"),
    "rule wrong": ("rules: [{match: a, target_seconds: x}]", "rules[0].target_seconds"),
    "rules a mapping": ("rules: {match: a}", "rules: input should be a valid list"),
    "driver": ("driver_process: all", "driver_process"),
    "driver zero": ("driver_process: 0", "driver_process"),
    "reserved label": ("labels: {query: x}", "labels: 'query' is a label that Weir sets itself"),
    "label name": ("labels: {a-b: x}", "labels: 'a-b' cannot be a label"),
    "label value": ('labels: {a: "b\\nc"}', "labels: 'b\\nc' cannot be a value"),
    "half of TLS": (
        "tls_cert_file: /x",
        "tls_cert_file: a certificate and its key belong together; set tls_key",
    ),
    "token to ask for": ("metrics_need_token: true", "metrics_need_token: there is no token"),
    "events' token alone": (
        "events_token_file: /x",
        "events_token_file: there is no token that opens more; set token_file too",
    ),
    "quiet hours that are none": (
        "executors_quiet_hours: 22:00-22:00",
        "22:00-22:00 ends when it begins",
    ),
    "bounds crossed": ("minimum_limit: 5\nmaximum_limit: 4", "maximum_limit: 4 is below"),
    "key twice": ("port: 1\nport: 2", "the key 'port' stands twice"),
    "not yaml": ("port: [", "not YAML"),
    "no mapping": ("- port", "a mapping of options is needed"),
    "a tag": ("port: !!python/object/apply:os.system ['true']", "not YAML"),
    "exposed without a token": ("host: 0.0.0.0", "host: '0.0.0.0' is reachable from other"),
}


@pytest.mark.parametrize("case", FILE_ERRORS)
def test_errors_of_the_file_name_file_and_key(tmp_path: Path, case: str) -> None:
    text, words = FILE_ERRORS[case]
    file = tmp_path / "weir.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load({}, {}, str(file))
    message = str(caught.value)
    assert str(file) in message
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "minimum_executors: 5\nmaximum_executors: 4",
            (
                "maximum_executors: 4 is below minimum_executors 5: "
                "raise the first or lower the second"
            ),
        ),
        ("executors: on", "executors: on needs maximum_executors, the most that may be asked for"),
        (
            "rules: [{match: 'a/*', executors: on}]",
            "rules: a/*: executors: on needs maximum_executors, the most that may be asked for",
        ),
    ],
)
def test_bounds_of_executors_that_make_no_sense_are_told_and_watching_goes_on(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text(text)
    _, notices = load({}, {}, str(file))
    assert notices == [f"{words}; until then no executors are asked for where that holds"]
    file.write_text(
        f"{text}\nrules: [{{match: b, target_seconds: 3}}]" if "rules" not in text else text
    )
    assert load({}, {}, str(file))[1] == notices, "once"


VARIABLE_ERRORS = {
    "unknown": ("WEIR_TARGT_SECONDS", "3", "WEIR_TARGT_SECONDS: no such option; is WEIR_TARGET_S"),
    "bad value": ("WEIR_PORT", "http", "WEIR_PORT: input should be a valid integer"),
    "bad mode": ("WEIR_MODE", "ON", "WEIR_MODE: input should be"),
    "bad flag": ("WEIR_TOKEN_FILE", "/t", ""),
    "bad json": ("WEIR_RULES", "[{", "WEIR_RULES: not JSON"),
    "labels": ("WEIR_LABELS", "a", "WEIR_LABELS: 'a' is not of the form name=value"),
    "truth": ("WEIR_ABOVE_CONFIGURED", "perhaps", "WEIR_ABOVE_CONFIGURED: input"),
}


@pytest.mark.parametrize("case", VARIABLE_ERRORS)
def test_errors_of_the_environment_name_the_variable(case: str) -> None:
    name, value, words = VARIABLE_ERRORS[case]
    if not words:  # a good one among them
        assert str(load({}, {name: value}, None)[0].token_file) == value
        return
    with pytest.raises(ConfigError, match="^" + words.replace("[", r"\[")):
        load({}, {name: value}, None)


def test_other_variables_are_passed_over() -> None:
    environ = {
        "WEIR_AGENT_URL": "http://x",
        "WEIR_CA_FILE": "/ca",
        "WEIR_QUEUE_SIZE": "10",
        # What Kubernetes sets beside services named weir and weir-agent:
        "WEIR_PORT": "tcp://10.0.0.1:9655",
        "WEIR_PORT_9655_TCP": "tcp://10.0.0.1:9655",
        "WEIR_PORT_9655_TCP_ADDR": "10.0.0.1",
        "WEIR_SERVICE_HOST": "10.0.0.1",
        "WEIR_SERVICE_PORT": "9655",
        "WEIR_SERVICE_PORT_HTTP": "9655",
        "WEIR_AGENT_PORT": "tcp://10.0.0.1:9655",
        "WEIR_AGENT_SERVICE_HOST": "10.0.0.1",
        "WEIR_TARGET_SECONDS": "",
        "PATH": "/bin",
    }
    settings, notices = load({}, environ, None)
    assert settings.model_dump() == load({}, {}, None)[0].model_dump()
    assert any("WEIR_PORT " in notice for notice in notices)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("no-such-host.invalid", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_a_token_that_would_open_all_and_events_alone_is_refused(tmp_path: Path) -> None:
    tokens, events = tmp_path / "tokens", tmp_path / "events"
    tokens.write_text("first\nboth\n")
    events.write_text("both\nsecond\n")
    settings = Settings(token_file=tokens, events_token_file=events)
    with pytest.raises(ConfigError) as refused:
        _tokens(settings)
    assert str(refused.value) == (
        f"events_token_file: {events}: holds a token that opens all, as {tokens} holds it too: "
        "take it out of one of them"
    )
    events.write_text("second\n")
    assert None not in _tokens(settings)
    events.unlink()
    with pytest.raises(ConfigError, match=f"^events_token_file: {events}: No such file"):
        _tokens(settings)


COMMAND_LINES = [
    (["--prt", "3"], "--prt"),
    (["--port", "many"], "--port"),
    (["--port"], "--port"),
    (["--config", "/nowhere/weir.yaml"], "/nowhere/weir.yaml"),
    (["--host", "0.0.0.0"], "--host"),
    (["--host", "no-such-host.invalid", "--token-file", "/dev/null"], "token_file"),
    (["--token-file", "/nowhere"], "token_file: /nowhere"),
    (["--tls-cert-file", "/nowhere", "--tls-key-file", "/nowhere"], "tls_cert_file: /nowhere"),
    (["--state-dir", "/proc/nowhere"], "state_dir"),
    (["--record-file", "/proc/nowhere/x"], "record_file"),
    (["surplus"], "surplus"),
]


@pytest.mark.parametrize(("arguments", "word"), COMMAND_LINES)
def test_the_command_ends_with_2_and_one_line(arguments: list[str], word: str) -> None:
    done = weir("agent", "--port", "0", *arguments)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if not line.startswith("20")]
    assert len(lines) == 1, done.stderr
    assert word in lines[0]
    assert "Traceback" not in done.stderr


def test_the_command_names_a_variable_and_a_taken_port(tmp_path: Path) -> None:
    done = weir("agent", env={"WEIR_TARGT_SECONDS": "3"})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "WEIR_TARGT_SECONDS" in done.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = weir("agent", "--port", str(taken.getsockname()[1]))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "Address already in use" in done.stderr


def test_every_option_is_a_flag_and_flags_are_texts() -> None:
    arguments: list[str] = []
    for key, field in Settings.model_fields.items():
        flag = "--" + key.replace("_", "-")
        arguments += [flag] if field.annotation is bool else [flag, "x"]
    flags, config_file = parse(arguments)
    assert set(flags) == set(Settings.model_fields)
    assert flags["metrics_need_token"] == "true"
    assert config_file is None


def test_the_other_commands_names_are_taken_too() -> None:
    assert parse(["--target", "3", "--deadline=60"]) == (
        {"target_seconds": "3", "deadline_seconds": "60"},
        None,
    )


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("--target-secs", "'--target-secs': no such option; is --target-seconds meant?"),
        ("--targt_seconds=5", "'--targt_seconds': no such option; is --target-seconds meant?"),
        ("--colour", "'--colour': no such option; see weir agent --help"),
        ("orders", "'orders': not an option; see weir agent --help"),
    ],
)
def test_an_unknown_option_is_named_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str], argument: str, says: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse([argument, "5"] if argument == "--target-secs" else [argument])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"weir agent: {says}")
    assert said.count("\n") == 1


def test_a_state_directory_that_the_environment_overrides_is_told(tmp_path: Path) -> None:
    """Weir's image says where its own is: whoever names another one in a file must hear of it."""
    file = tmp_path / "weir.yaml"
    file.write_text("state_dir: /data\n")
    settings, notices = load({}, {"WEIR_STATE_DIR": "/var/lib/weir"}, str(file))
    assert settings.state_dir == Path("/var/lib/weir")
    (notice,) = notices
    assert "state_dir: /data" in notice
    assert "WEIR_STATE_DIR=/var/lib/weir" in notice
    assert load({}, {"WEIR_STATE_DIR": "/data"}, str(file))[1] == []
    _, notices = load({"state_dir": "/x"}, {"WEIR_STATE_DIR": "/var/lib/weir"}, str(file))
    assert not [one for one in notices if "/data" in one]


@pytest.mark.parametrize(
    ("flags", "text", "written"),
    [
        ({"state_dir": "/data"}, "", "/data/agent.address"),
        ({"address_file": "/run/weir"}, "", "/run/weir"),
        ({}, "address_file: /run/weir", "/run/weir"),
        ({"address_file": "/var/lib/weir/agent.address"}, "", None),
        ({}, "state_dir: /var/lib/weir", None),
    ],
)
def test_who_goes_by_the_environment_alone_finds_the_agent_or_it_is_told(
    tmp_path: Path, flags: dict[str, str], text: str, written: str | None
) -> None:
    """The image's health check does: it would call the agent ill for ever."""
    file = tmp_path / "weir.yaml"
    file.write_text(text)
    environ = {"WEIR_STATE_DIR": "/var/lib/weir"}
    _, notices = load(flags, environ, str(file))
    if written is None:
        assert notices == []
        return
    (notice,) = notices
    assert "looks for it in /var/lib/weir/agent.address" in notice
    assert notice.endswith(f": set WEIR_ADDRESS_FILE={written}")
    assert load(flags, environ | {"WEIR_ADDRESS_FILE": written}, str(file))[1] == []


def test_of_all_addresses_that_of_ipv4_is_told(tmp_path: Path) -> None:
    """A container may have IPv6, and no loopback of it."""
    settings = Settings(host="::", port=0, token_file=tmp_path)
    try:
        listening = _bind(settings)
    except ConfigError as error:
        lacking(f"there is no IPv6 here: {error}")
    with listening:
        listening.listen()
        host, _, port = _address(listening, secure=False).removeprefix("http://").rpartition(":")
        assert host == "127.0.0.1"
        socket.create_connection((host, int(port)), 10).close()


@pytest.mark.parametrize("word", ["off", "'off'", "no"])
def test_doors_are_shut_by_a_bare_word_of_yaml(tmp_path: Path, word: str) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text(f"doors: {word}\n")
    assert load({}, {}, str(file))[0].doors == "off"


def test_the_page_is_what_the_settings_say() -> None:
    assert PAGE.read_text("utf-8") == markdown(), "run: python -m agent.service.reference"


def test_the_help_asks_for_a_number_only_where_one_is_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    asked = dict(re.findall(r"^  --([\w-]+) ([^\s,]+)", capsys.readouterr().out, re.MULTILINE))
    numbers = {key for key, what in asked.items() if what in {"N", "SECONDS"}}
    wanted = {
        key.replace("_", "-")
        for key, field in Settings.model_fields.items()
        if re.search(r"\b(int|float)\b", str(field.annotation)) and "Literal" not in str(field)
    }
    assert numbers == wanted
    assert "['" not in markdown()


def test_every_option_says_what_it_does() -> None:
    for key, field in Settings.model_fields.items():
        assert field.description, key
        assert len(field.description) > 15, key


def test_tests_run_without_options_in_the_environment() -> None:
    assert not [name for name in os.environ if name.startswith("WEIR_")]
