"""What the agent replies is believed as far as it makes sense, and no further."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_listener.replies import BadReply, Grant, Reply, parse_reply

GOOD: dict[str, Any] = {
    "id": "q",
    "runId": "r",
    "source": 0,
    "unit": "rows",
    "limit": 14000,
    "expires_seconds": 60,
    "reason": "raise",
}


def reply(grant: Any) -> Reply:
    return parse_reply(json.dumps({"acknowledged": 1, "grants": [grant]}).encode())


def test_the_contracts_example() -> None:
    found = parse_reply(
        b'{"accepted": 5, "acknowledged": 45, "later": true,'
        b'"rejected": [{"index": 2, "sequence": 43, "error": "no time"}],'
        b'"grants": [{"id": "q", "runId": "r", "source": 0, "unit": "rows", "limit": null,'
        b'"expires_seconds": 60, "reason": "release", "new": 1}]}'
    )
    assert found == Reply(45, (Grant("r", 0, "rows", None, 60.0, "release"),), ("no time",))


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"acknowledged": "3"}',
     b'{"acknowledged": true}', b'{"acknowledged": -1}', b'{"acknowledged": 1.5}',
     b'{"acknowledged": 1, "grants": {}}', b'{"acknowledged": 1, "rejected": 3}'],
)  # fmt: skip
def test_what_is_no_reply_is_refused(body: bytes) -> None:
    with pytest.raises(BadReply):
        parse_reply(body)


@pytest.mark.parametrize(
    "change",
    [{"runId": ""}, {"runId": 3}, {"source": -1}, {"source": "0"}, {"source": True},
     {"unit": "litres"}, {"unit": None}, {"limit": 0}, {"limit": -5}, {"limit": 2**63},
     {"limit": "7"}, {"limit": 7.5}, {"limit": True}, {"expires_seconds": 0},
     {"expires_seconds": -1}, {"expires_seconds": float("inf")}, {"expires_seconds": "60"},
     {"expires_seconds": float("nan")}, {"expires_seconds": None}, {"unit": ["rows"]},
     {"expires_seconds": -(10**400)}],
)  # fmt: skip
def test_a_grant_that_makes_no_sense_is_left_out_the_others_stay(change: dict[str, Any]) -> None:
    body = {"acknowledged": 1, "grants": [GOOD | change, GOOD, None, 3]}
    assert parse_reply(json.dumps(body).encode()).grants == reply(GOOD).grants


def test_a_missing_limit_is_not_unlimited() -> None:
    assert reply({key: value for key, value in GOOD.items() if key != "limit"}).grants == ()


@pytest.mark.parametrize(
    ("said", "found"),
    [({}, {}), ({"r": True, "s": False}, {"r": True, "s": False}), ({"r": 1, "s": "true"}, {}),
     (None, {}), ([], {}), ("all", {}), (True, {})],
)  # fmt: skip
def test_only_a_plain_word_lets_an_unsafe_limit_be_set(said: Any, found: dict[str, bool]) -> None:
    body = {"acknowledged": 1, "unsafe_limits": said}
    assert parse_reply(json.dumps(body).encode()).unsafe_limits == found
    assert parse_reply(b'{"acknowledged": 1}').unsafe_limits == {}


def test_a_grants_life_is_bounded() -> None:
    for seconds in (1e9, 10**400):  # JSON has whole numbers beyond all floats
        assert reply(GOOD | {"expires_seconds": seconds}).grants[0].expires_seconds == 3600.0


def test_what_an_agent_says_is_one_line_of_what_can_be_printed() -> None:
    said = "no\nWARN forged\x1b[2J\x9b\u202edecrees\u2028 é\ud800"
    (found,) = parse_reply(
        json.dumps({"acknowledged": 1, "rejected": [{"error": said}]}).encode()
    ).rejected
    assert found == "no WARN forged [2J decrees é"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*GOOD, "acknowledged", "grants", "rejected", "error"]),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(json_values)
def test_any_json_gives_a_reply_or_is_refused(value: Any) -> None:
    try:
        found = parse_reply(json.dumps(value).encode())
    except BadReply:
        return
    assert all(grant.limit is None or grant.limit >= 1 for grant in found.grants)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_give_a_reply_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(BadReply):
        assert parse_reply(data).acknowledged >= 0
