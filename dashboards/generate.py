"""All dashboards as the files that are committed: stable JSON, one file a dashboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.agent_board import agent_board
from dashboards.checkpoints import checkpoints
from dashboards.links import PANEL_RUNBOOKS
from dashboards.overview import overview
from dashboards.query import query

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

DIRECTORY: Final = Path(__file__).resolve().parent / "generated"


def files(runbooks: str = PANEL_RUNBOOKS) -> dict[str, str]:
    """Content by file name; keys sorted, so that a change shows as the change it is."""
    boards = [make(runbooks) for make in (overview, query, checkpoints, agent_board)]
    return {f"{board.uid}.json": _text(board) for board in boards}


def _text(board: Dashboard) -> str:
    # Through JSON and back: the SDK puts every link into a menu, where nobody looks at night;
    # without a placement Grafana shows it above the panels.
    plain = json.loads(json.dumps(board, cls=JSONEncoder))
    inside = (panel for row in plain["panels"] for panel in row.get("panels", []))
    for place in (plain, *plain["panels"], *inside):
        for link in place.get("links", []):
            del link["placement"]
    return json.dumps(plain, sort_keys=True, indent=2, ensure_ascii=False) + "\n"


def write(directory: Path = DIRECTORY, runbooks: str = PANEL_RUNBOOKS) -> list[Path]:
    """Writes every file and removes those of dashboards that are no more."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = files(runbooks)
    for stale in set(directory.glob("*.json")) - {directory / name for name in wanted}:
        stale.unlink()
    for name, text in wanted.items():
        (directory / name).write_text(text, encoding="utf-8")
    return [directory / name for name in wanted]
