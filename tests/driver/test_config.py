"""Settings: which source wins, and one clear line for what cannot be used."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_listener.config import (
    DEFAULT_AGENT_URL,
    NAMES,
    ConfigurationError,
    Settings,
    conf_key,
    environment_key,
    resolve,
)


def test_names_follow_from_each_other() -> None:
    assert conf_key("agent_url") == "spark.weir.agent.url"
    assert environment_key("agent_url") == "WEIR_AGENT_URL"
    assert environment_key("token_file") == "WEIR_TOKEN_FILE"
    assert len({conf_key(name) for name in NAMES}) == len(NAMES)


def test_argument_beats_conf_beats_environment_beats_default() -> None:
    environment = {"WEIR_AGENT_URL": "http://env:1"}
    conf = {"spark.weir.agent.url": "http://conf:1"}
    assert resolve({"agent_url": "http://arg:1"}, conf, environment).agent_url == "http://arg:1"
    assert resolve({}, conf, environment).agent_url == "http://conf:1"
    assert resolve({}, {}, environment).agent_url == "http://env:1"
    assert resolve({}, {}, {}).agent_url == DEFAULT_AGENT_URL
    assert resolve({}, {"spark.weir.agent.url": "  "}, environment).agent_url == "http://env:1"


@pytest.mark.parametrize(
    ("word", "value"),
    [("true", True), ("FALSE", False), ("1", True), ("off", False), ("Yes", True), (False, False)],
)
def test_truth(word: object, value: bool) -> None:
    assert resolve({"enabled": word}, {}, {}).enabled is value


def test_numbers_come_as_text_from_conf() -> None:
    found = resolve({}, {"spark.weir.queue.size": "50"}, {"WEIR_HEARTBEAT_SECONDS": "2.5"})
    assert (found.queue_size, found.heartbeat_seconds) == (50, 2.5)


def test_a_file_stays_the_one_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read again and again, and the job may be in another directory by then."""
    monkeypatch.chdir(tmp_path)
    found = resolve({"token_file": "t"}, {"spark.weir.ca.file": "/x/ca.pem"}, {})
    assert (found.token_file, found.ca_file) == (str(tmp_path / "t"), "/x/ca.pem")
    begun = resolve({}, {}, {"WEIR_TOKEN_FILE": "t"}, Path("/begun"))
    assert (begun.token_file, begun.ca_file) == ("/begun/t", "")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert resolve({"token_file": "t", "ca_file": "/x"}, {}, {}).token_file == "t"


BAD = [
    ({"agent_ulr": "x"}, {}, {}, "'agent_ulr'"),
    ({}, {"spark.weir.agent.ulr": "x"}, {}, "spark.weir.agent.ulr"),
    ({}, {"spark.weir.queue.size": "many"}, {}, "spark.weir.queue.size: 'many'"),
    ({}, {}, {"WEIR_QUEUE_SIZE": "1.5"}, "WEIR_QUEUE_SIZE: '1.5'"),
    ({"queue_size": 3}, {}, {}, "outside 10"),
    ({"queue_size": True}, {}, {}, "argument queue_size"),
    ({"heartbeat_seconds": "nan"}, {}, {}, "'nan'"),
    ({"heartbeat_seconds": float("inf")}, {}, {}, "'inf'"),
    ({}, {}, {"WEIR_ENABLED": "perhaps"}, "WEIR_ENABLED: 'perhaps'"),
    ({"agent_url": "ftp://x"}, {}, {}, "spark.weir.agent.url"),
    ({"agent_url": "localhost:9655"}, {}, {}, "http://host:port"),
    ({"agent_url": "http://x:99999"}, {}, {}, "'http://x:99999' is no address"),
    ({"agent_url": "http://x:0"}, {}, {}, "port 0"),
    ({"agent_url": "http://x/?a=b"}, {}, {}, "query"),
    ({"agent_url": 5}, {}, {}, "argument agent_url: a text"),
    ({}, {"spark.weir.token": "hunter2"}, {}, "spark.weir.token.file"),
    ({"agent_url": "http://me:hunter2@x"}, {}, {}, "user or password"),
    ({"agent_url": "ftp://me:hunter2@x"}, {}, {}, "no address"),
    ({"agent_url": "http://me:hunter2/7@x:1"}, {}, {}, "'x:1' is no address"),
    ({"agent_url": "http://me:hunter2\u2100@x"}, {}, {}, "'x' is no address"),
    ({"agent_url": "http://me:hunter2"}, {}, {}, "no address"),
]


@pytest.mark.parametrize(("arguments", "conf", "environment", "named"), BAD)
def test_what_cannot_be_used_is_named_in_one_line(
    arguments: dict[str, object], conf: dict[str, str], environment: dict[str, str], named: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve(arguments, conf, environment)
    message = str(caught.value)
    assert named in message
    assert "\n" not in message
    assert "hunter2" not in message


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), st.one_of(st.text(), st.integers(), st.floats())))
def test_anything_gives_settings_or_one_clear_error(arguments: dict[str, object]) -> None:
    with contextlib.suppress(ConfigurationError):
        assert isinstance(resolve(arguments, {}, {}), Settings)


@pytest.mark.parametrize(
    ("url", "token_file", "exposed"),
    [
        ("http://127.0.0.1:1", "t", False),
        ("http://agent:1", "t", True),
        ("https://agent:1", "t", False),
        ("http://agent:1", "", False),
    ],
)
def test_a_token_in_the_clear_is_noticed(url: str, token_file: str, exposed: bool) -> None:
    assert Settings(agent_url=url, token_file=token_file).exposes_token is exposed
