"""Which dashboard each picture in the docs was drawn of: none grows old unseen.

``docs/images/dashboards.json`` holds, by uid, the digest of what is drawn of the board and that of
the picture, as the script that draws them left them. A file's times say nothing after a checkout.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).resolve().parents[1]
BOARDS: Final = _ROOT / "dashboards" / "generated"
PICTURES: Final = _ROOT / "docs" / "images"
NAME: Final = "dashboards.json"
#: Of a panel; shown when somebody points at it or follows it.
_NOT_DRAWN: Final = ("description", "links")


def picture_of(uid: str, folder: Path = PICTURES) -> Path:
    """Where a board's picture is."""
    return folder / f"dashboard-{uid.removeprefix('weir-')}.png"


def board_digest(board: dict[str, Any]) -> str:
    """Of what is drawn of a board: the same for other texts of help and other addresses."""
    panels = [_drawn(panel) for panel in board["panels"]]
    drawn = [board["title"], board["description"], board["annotations"], panels]
    return hashlib.sha256(json.dumps(drawn, sort_keys=True).encode()).hexdigest()


def _drawn(panel: dict[str, Any]) -> dict[str, Any]:
    inside = [_drawn(one) for one in panel.get("panels", ())]
    kept = {key: value for key, value in panel.items() if key not in _NOT_DRAWN}
    return {**kept, "panels": inside}


def digests(folder: Path = PICTURES) -> dict[str, dict[str, str]]:
    """Of every board as it is now, and of its picture. Raises OSError where one has none."""
    found = {}
    for path in sorted(BOARDS.glob("*.json")):
        board = json.loads(path.read_text(encoding="utf-8"))
        picture = hashlib.sha256(picture_of(path.stem, folder).read_bytes()).hexdigest()
        found[path.stem] = {"board": board_digest(board), "picture": picture}
    return found


def note(folder: Path = PICTURES) -> None:
    """Writes down that the pictures are of the boards as they are now."""
    text = json.dumps(digests(folder), indent=2) + "\n"
    (folder / NAME).write_text(text, encoding="utf-8")
