"""What the agent says of the query while a half runs, gathered for the summary."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from agent.client import AgentUnavailable

if TYPE_CHECKING:
    from agent.client import AgentClient

#: The driver tells of a batch once it has ended, and a busy machine takes its time.
HEARD_WITHIN_SECONDS: Final = 15.0
_PAUSE_SECONDS: Final = 0.2


class Watched:
    """One half as the agent sees it; ``look`` asks, about once a second."""

    def __init__(
        self, client: AgentClient, application: str, query: str, since_time: float
    ) -> None:
        self._client = client
        self._application = application
        self._query = query
        self._since_time = since_time
        self._moves: set[tuple[float, int, int | None]] = set()
        self.answer: dict[str, Any] | None = None
        self.view: dict[str, Any] | None = None
        self.peak_backlog_rows: float | None = None
        self.look(first=True)
        self._rows_before, self._batches_before = self._counted()

    def look(self, *, first: bool = False) -> None:
        """Ask once. Where the agent doesn't answer, what was last seen stays."""
        try:
            self.answer = self._client.queries(history=120)
        except AgentUnavailable:
            return
        for view in self.answer["queries"]:
            if (view["application"], view["query"]) == (self._application, self._query):
                self.view = view
                if not first:
                    self._take(view)

    def hear_out(self, rows: int, batches: int) -> None:
        """Looks until the agent has heard of all of them, or for as long as that may take."""
        end = time.monotonic() + HEARD_WITHIN_SECONDS
        self.look()
        while self.counted != (rows, batches) and time.monotonic() < end:
            time.sleep(_PAUSE_SECONDS)
            self.look()

    @property
    def moves(self) -> int:
        """Decisions of this half that were acted on."""
        return len(self._moves)

    @property
    def counted(self) -> tuple[int, int]:
        """(rows, batches) that the agent counted in this half."""
        rows, batches = self._counted()
        return rows - self._rows_before, batches - self._batches_before

    def _counted(self) -> tuple[int, int]:
        if self.view is None:
            return 0, 0
        totals = self.view["totals"]
        return int(totals["rows"]), int(totals["batches"].get("completed", 0))

    def _take(self, view: dict[str, Any]) -> None:
        if view["backlog_rows"] is not None:
            self.peak_backlog_rows = max(self.peak_backlog_rows or 0.0, view["backlog_rows"])
        for decision in view["decisions"]:
            moved = decision["acted"] and decision["before"] != decision["after"]
            if moved and decision["time"] >= self._since_time:
                self._moves.add((decision["time"], decision["source"], decision["after"]))
