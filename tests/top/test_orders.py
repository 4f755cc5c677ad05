"""Orders by keys: asked once more, sent to a real agent, and what became of them is told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from agent.client import AgentClient, ClientSettings
from agent.export.terminal.ask import stands
from agent.export.terminal.choose import press
from agent.export.terminal.keys import PASTE
from agent.export.terminal.orders import Orders, Told
from agent.export.terminal.poll import Poller
from agent.export.terminal.render import Selection, lines
from agent.export.terminal.snapshot import Snapshot
from tests.page import views as made
from tests.service import wire
from tests.service.agents import AgentProcess
from tests.top.test_top import Terminal
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from agent.export.terminal.ask import Ask
    from tests.page.conftest import FleetServer

LISTED = [("shop", "orders"), ("shop", "payments")]
ORDERS, PAYMENTS = LISTED


def typed(*keys: str) -> tuple[Selection, list[Ask]]:
    """The choice after these keys, and what was sent."""
    selection, sent, seconds = Selection(key=PAYMENTS), [], 0.0
    for key in keys:
        if selection.ask is not None:  # drawn, and looked at for a second
            seconds += 1.0
            selection = replace(selection, ask=stands(selection.ask, seconds - 1.0))
        after = press(key, selection, LISTED, seconds)
        assert after is not None
        if after.send is not None:
            sent.append(after.send)
        selection = Selection(key=after.key, ask=after.ask, filter=after.filter, help=after.help)
    return selection, sent


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ("hy", {"hold": True}),
        ("ry", {"hold": False}),
        ("moy", {"mode": "on"}),
        ("mdy", {"mode": "dry-run"}),
        ("mfy", {"mode": "off"}),
        (
            ["l", *"1234567890123456789", "enter", "y"],
            {"limit": 123456789012345678, "unit": "rows"},
        ),
        (["l", "5", "x", "0", "7", "backspace", "0", "enter", "y"], {"limit": 500, "unit": "rows"}),
    ],
)
def test_an_order_is_sent_when_it_was_asked_once_more(keys, order) -> None:
    selection, sent = typed(*keys)
    assert selection.ask is None
    [ask] = sent
    assert (ask.key, ask.order("rows")) == (PAYMENTS, order)


@pytest.mark.parametrize(
    "keys",
    [
        "hn", "hh", "hq", "ry"[:1], "m", "mf", "mfn", ["m", "escape"], "mxxy",
        ["l", "5", "y"], ["l", "5", "enter"], ["l", "5", "enter", "escape"], ["l", "enter", "y"],
        ["l", "0", "enter", "y"], ["l", "escape", "y"], "y",
    ],
)  # fmt: skip
def test_without_a_yes_nothing_is_sent(keys) -> None:
    assert typed(*keys)[1] == []


def at_times(*keys: tuple[float, str]) -> tuple[Selection, list[Ask]]:
    """The choice after keys at these seconds, each drawn before the next, and what was sent."""
    selection, sent = Selection(key=PAYMENTS), []
    for seconds, key in keys:
        after = press(key, selection, LISTED, seconds)
        assert after is not None
        sent += [] if after.send is None else [after.send]
        selection = replace(after, send=None, ask=stands(after.ask, seconds))
    return selection, sent


@pytest.mark.parametrize("word", ["history", "why", "retry", "they hurry", "moyy", "ryyyy"])
@pytest.mark.parametrize("seconds_a_key", [0.0, 0.1, 0.6])
def test_a_word_typed_into_the_wrong_window_orders_nothing(word: str, seconds_a_key: float) -> None:
    assert at_times(*((n * seconds_a_key, key) for n, key in enumerate(word)))[1] == []


def test_a_yes_counts_once_the_question_has_stood_for_a_moment() -> None:
    selection, sent = at_times((0.0, "h"), (0.6, "y"))
    assert (selection.ask, sent) == (None, [])
    assert selection.told is not None
    assert "nothing was ordered" in selection.told.text
    assert len(at_times((0.0, "h"), (0.8, "y"))[1]) == 1
    assert at_times((0.0, "h"), (0.8, "x"), (1.6, "y"))[1] == [], "any other key drops it"
    assert at_times((0.0, "m"), (0.8, "x"), (1.6, "o"), (2.4, "y"))[1] == []


def test_what_is_pasted_orders_nothing_and_goes_into_the_filter() -> None:
    for question in ("h", "m", "l"):
        _, sent = at_times((0.0, question), (0.8, PASTE + "y"), (1.6, "y"))
        assert sent == []
    assert at_times((0.0, PASTE + "h"), (0.8, "y"))[1] == []
    assert at_times((0.0, "/"), (0.1, PASTE + "pay\nments"))[0].filter == "payments"


def test_the_order_is_for_the_query_that_was_chosen_when_it_was_begun() -> None:
    selection = press("h", Selection(key=ORDERS), LISTED, 0.0)
    assert selection is not None
    selection = replace(selection, ask=stands(selection.ask, 0.0))
    after = press("y", selection, [PAYMENTS], 1.0)  # it has gone from the list meanwhile
    assert after is not None
    assert after.send is not None
    assert after.send.key == ORDERS


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("keys", ["h", "r", "m", "mf", "l", ["l", "9", "enter"]])
def test_the_keys_of_a_question_are_never_cut(keys, width) -> None:
    view = made.everything()[0]
    snapshot = Snapshot(time=made.NOW, views=[view])
    selection = Selection()
    for key in keys:
        selection = press(key, selection, [(view.application, view.query)], 0.0) or selection
    foot = lines(snapshot, made.NOW, selection, width, 24)[-1]
    assert foot.cell_len <= width
    assert re.match(r" (y  yes   n|o  on   d  dry-run   f  off|⏎  set   Esc) ", foot.plain)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_question_shows_whom_and_how_much(width: int) -> None:
    key = ("clickstream-sessionization-prod", "sessions-to-warehouse")
    snapshot = Snapshot(time=made.NOW, views=[made.view(key[1], key[0])])

    def asked(*keys: str) -> str:
        selection: Selection | None = Selection()
        for one in keys:
            assert selection is not None
            selection = press(one, selection, [key], 0.0)
        assert selection is not None
        drawn = lines(snapshot, made.NOW, selection, width, 24)
        assert len(drawn) == 24
        assert all(line.cell_len <= width for line in drawn)
        return " ".join(" ".join(line.plain for line in drawn[-5:]).split())

    assert f"Hold the limit of {'/'.join(key)} as it is" in asked("h")
    assert f"Release {'/'.join(key)}, so that" in asked("r")
    assert f"Switch Weir off for {'/'.join(key)}:" in asked("m", "f")
    assert f"Limit of {'/'.join(key)}, in rows: 75▏" in asked("l", "7", "5")
    assert f"Limit {'/'.join(key)} to 75 rows a batch, until" in asked("l", "7", "5", "enter")


@pytest.mark.parametrize("width", [60, 80, 160])
def test_what_became_of_it_is_told_whole(width: int) -> None:
    note = "orders: limit 500 rows (done; batches of 300 rows digest 203 rows/s, and 1,000 arrive)"
    snapshot = Snapshot(time=made.NOW, views=[made.everything()[0]])
    drawn = lines(snapshot, made.NOW, Selection(told=Told(note, done=True)), width, 24)
    assert len(drawn) == 24
    said = " ".join(" ".join(line.plain for line in drawn[-3:]).split())
    assert said.endswith(f"✓ {note}")
    long = lines(snapshot, made.NOW, Selection(told=Told("x " * 400, done=False)), width, 24)
    assert sum("x x x" in line.plain for line in long) <= 3


def test_a_real_agent_obeys_and_its_log_says_who(tmp_path: Path) -> None:
    with AgentProcess(tmp_path) as agent:
        events = [wire.progress(1, query=1, name="orders", limit=1000)]
        assert agent.post(wire.request(events, application="shop")).is_success

        def view() -> dict[str, object]:
            return dict(agent.http.get("/v1/queries/shop/orders").json()["query"])

        terminal = Terminal(agent.address)
        try:
            terminal.wait_for(r"orders")
            terminal.type("h")
            terminal.wait_for(r"Hold the limit of shop/orders as it is")
            terminal.type("n")
            terminal.wait_for(r"h r m l")
            assert view()["held"] is False
            terminal.type("h")
            terminal.wait_for(r"Hold the limit")
            terminal.say_yes()
            terminal.wait_for(r"✓ orders: hold")
            assert view()["held"] is True
            terminal.type("l")
            terminal.wait_for(r"Limit of shop/orders, in rows")
            terminal.type("1234\r")
            terminal.wait_for(r"Limit shop/orders to 1,234 rows a batch")
            terminal.say_yes()
            terminal.wait_for(r"✓ orders: limit 1234 rows")
            assert view()["manual_limit"] == 1234
            terminal.type("mf")
            terminal.wait_for(r"Switch Weir off for shop/orders")
            terminal.say_yes()
            terminal.wait_for(r"✓ orders: mode off")
            assert view()["mode"] == "off"
            terminal.type("\x1b[200~h")  # pasted, in two reads
            terminal.read(1.0)
            terminal.type("\x1b[201~y")
            terminal.type("inventory")  # a word that was to be the filter
            terminal.wait_for(r"Release shop/orders")
            terminal.type("y")
            terminal.wait_for(r"✗ nothing was ordered")
            assert view()["manual_limit"] == 1234
            terminal.type("r")
            terminal.wait_for(r"Release shop/orders")
            terminal.say_yes()
            terminal.wait_for(r"✓ orders: release")
            assert view()["manual_limit"] is None
        finally:
            terminal.close()
        orders = [line for line in agent.log() if line["event"] == "order"]
        assert [one["what"] for one in orders] == ["hold", "limit 1234 rows", "mode off", "release"]
        assert all(one["reason"] == "weir top" and one["who"] for one in orders)


def test_an_order_whose_answer_cannot_be_read_is_told(
    fleet: FleetServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AgentClient(ClientSettings(url=fleet.url)) as client:
        monkeypatch.setattr(client, "control", lambda *_: {"orders": ["done?"]})
        orders = Orders(client, Poller(client, 1.0))
        orders.send(ORDERS, {"hold": True})
        told = until(orders.take, "what became of it")
    assert not told.done
    assert "orders: not known whether it was done" in told.text


def test_what_the_agent_refuses_is_told(fleet: FleetServer) -> None:
    """It takes no orders."""
    terminal = Terminal(fleet.url)
    try:
        terminal.wait_for(r"▌■ hung")
        terminal.type("h")
        terminal.wait_for(r"Hold the limit of clicks/sessions")
        terminal.say_yes()
        terminal.wait_for(r"✗ what answers at http\S+ is no Weir agent \(HTTP 40[45]\)")
        terminal.type("j")
        terminal.wait_for(r"h r m l")
    finally:
        terminal.close()
