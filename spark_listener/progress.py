"""Reads what the driver side needs from a progress' JSON, and keeps the text fit for the wire."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from spark_listener.redact import LONGEST_TEXT, redact_again
from spark_listener.wire import parse_time


class Trigger(NamedTuple):
    """Which trigger of a run a progress is of: of each there is one at most."""

    batch_id: int | None
    epoch_seconds: float | None


@dataclass(frozen=True)
class ProgressText:
    """A progress: its text as it goes out, and the few fields that the driver side looks at."""

    text: str
    query_id: str
    run_id: str
    trigger_epoch_seconds: float | None
    batch_id: int | None
    sources: tuple[dict[str, Any], ...]

    @property
    def trigger(self) -> Trigger:
        """Its own."""
        return Trigger(self.batch_id, self.trigger_epoch_seconds)


def read_progress(text: str) -> ProgressText:
    """Raises ValueError where ``text`` is no progress of a query.

    The text is passed on unchanged unless it holds NaN or Infinity, which JSON does not have: those
    become null; or, in the description of a source or sink, what may be secret, which is struck
    out, or more than anybody reads; or what the job observes of its rows, which is its own.
    """
    foreign: list[str] = []

    def not_json(constant: str) -> None:
        foreign.append(constant)

    body = json.loads(text, parse_constant=not_json)
    if not isinstance(body, dict):
        raise ValueError("a progress is not a JSON object")
    query_id, run_id = body.get("id"), body.get("runId")
    if not isinstance(query_id, str) or not isinstance(run_id, str):
        raise ValueError("a progress has no id and runId")
    try:
        moment: float | None = parse_time(str(body.get("timestamp")))
    except ValueError:
        moment = None
    sources = body.get("sources")
    secret = bool(body.pop("observedMetrics", None))
    for described in (*(sources if isinstance(sources, list) else ()), body.get("sink")):
        said = described.get("description") if isinstance(described, dict) else None
        if isinstance(said, str):
            # Cut before it is remembered: one may list thousands of topics.
            described["description"] = redact_again(said[:LONGEST_TEXT])
            secret = secret or described["description"] != said
    return ProgressText(
        text=json.dumps(body, separators=(",", ":")) if foreign or secret else text,
        query_id=query_id,
        run_id=run_id,
        trigger_epoch_seconds=moment,
        batch_id=batch_id if isinstance(batch_id := body.get("batchId"), int) else None,
        sources=tuple(
            item if isinstance(item, dict) else {}
            for item in (sources if isinstance(sources, list) else [])
        ),
    )
