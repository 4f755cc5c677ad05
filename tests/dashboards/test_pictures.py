"""When a picture in the docs is of its dashboard as that is: what of a board is drawn."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from scripts import drawn

if TYPE_CHECKING:
    from collections.abc import Callable

BOARDS = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in drawn.BOARDS.glob("*.json")
}


def test_no_picture_is_older_than_its_board() -> None:
    noted = json.loads((drawn.PICTURES / drawn.NAME).read_text(encoding="utf-8"))
    old = {uid for uid, now in drawn.digests().items() if noted.get(uid) != now}
    assert not old, f"{sorted(old)}: draw anew, python -m scripts.picture_dashboards"
    assert set(noted) == set(BOARDS)


def _expression(board: dict[str, Any]) -> None:
    board["panels"][1]["targets"][0]["expr"] += " * 2"


def _title(board: dict[str, Any]) -> None:
    board["panels"][1]["title"] += "!"


def _width(board: dict[str, Any]) -> None:
    board["panels"][1]["gridPos"]["w"] += 1


def _one_less(board: dict[str, Any]) -> None:
    board["panels"].pop()


@pytest.mark.parametrize("change", [_expression, _title, _width, _one_less])
@pytest.mark.parametrize("uid", sorted(BOARDS))
def test_what_is_drawn_is_in_the_digest(uid: str, change: Callable[[dict[str, Any]], None]) -> None:
    board = copy.deepcopy(BOARDS[uid])
    change(board)
    assert drawn.board_digest(board) != drawn.board_digest(BOARDS[uid])


@pytest.mark.parametrize("uid", sorted(BOARDS))
def test_another_address_of_runbooks_is_no_other_picture(uid: str) -> None:
    board = copy.deepcopy(BOARDS[uid])
    for panel in board["panels"]:
        panel["description"] = "?"
        panel["links"] = [{"url": "https://wiki.test/"}]
    assert drawn.board_digest(board) == drawn.board_digest(BOARDS[uid])
