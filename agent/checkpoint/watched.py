"""What an agent knows of the query that owns a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from agent.checkpoint.folder import CheckpointError, same_place
from agent.core.judgement import SEVERITIES, Finding

if TYPE_CHECKING:
    from agent.client import ClientSettings


class Watched(msgspec.Struct, frozen=True):
    """The agent's word on the query; None where it does not know."""

    application: str
    query: str
    alive: bool
    sink: str
    trigger: str
    deadline_seconds: float | None
    throughput_rows_per_second: float | None
    fixed_cost_seconds: float | None
    rows_per_unit: dict[int, float]  # by source
    sources: list[str]  # descriptions
    findings: list[Finding]


def ask(settings: ClientSettings, query_id: str | None, address: str) -> list[Watched]:
    """Every query of the agent with this id or checkpoint. Raises CheckpointError."""
    from agent.client import AgentClient, AgentUnavailable, WrongUse

    try:
        with AgentClient(settings) as client:
            answer = client.queries()
    except (WrongUse, AgentUnavailable) as error:
        raise CheckpointError(str(error)) from None
    views = answer.get("queries")
    return [
        _watched(view)
        for view in views or ()
        if isinstance(view, dict) and _owns(view, query_id, address)
    ]


def _owns(view: dict[str, Any], query_id: str | None, address: str) -> bool:
    if query_id is not None and view.get("query_id") == query_id:
        return True
    location = view.get("checkpoint_location")
    return isinstance(location, str) and same_place(location, address)


def _watched(view: dict[str, Any]) -> Watched:
    sources = [source for source in view.get("sources") or () if isinstance(source, dict)]
    return Watched(
        application=str(view.get("application", "")),
        query=str(view.get("query", "")),
        alive=view.get("up") is True,
        sink=str(view.get("sink") or ""),
        trigger=str(view.get("trigger") or ""),
        deadline_seconds=_number(view.get("deadline_seconds")),
        throughput_rows_per_second=_number(view.get("throughput_rows_per_second")),
        fixed_cost_seconds=_number(view.get("fixed_cost_seconds")),
        rows_per_unit={
            int(source["index"]): float(source["rows_per_unit"])
            for source in sources
            if _number(source.get("rows_per_unit")) and isinstance(source.get("index"), int)
        },
        sources=[str(source.get("description") or "") for source in sources],
        findings=[
            Finding(
                check=str(finding.get("check")),
                severity=finding["severity"],
                evidence=str(finding.get("evidence")),
                remedy=str(finding.get("remedy")),
            )
            for finding in view.get("findings") or ()
            if isinstance(finding, dict) and finding.get("severity") in SEVERITIES
        ],
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
