"""What an agent knows of the query that owns a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from agent.checkpoint.folder import CheckpointError, local_path, same_place
from agent.core.judgement import SEVERITIES, Finding

if TYPE_CHECKING:
    from agent.client import ClientSettings


class Watched(msgspec.Struct, frozen=True):
    """The agent's word on the query; None where it does not know."""

    application: str
    query: str
    location: str  # of its checkpoint, as the job names it
    here: bool  # that address means the folder that was asked of
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
    """Every query of the agent with this checkpoint, its owner first. Raises CheckpointError.

    A copy has the id of its original, so of those of one id the address tells, where it can: a
    store and a mount of it, or a container's path and the machine's, may be one place.
    """
    from agent.client import AgentClient, AgentUnavailable, WrongUse

    try:
        with AgentClient(settings) as client:
            answer = client.queries()
    except (WrongUse, AgentUnavailable) as error:
        raise CheckpointError(str(error)) from None
    views = answer.get("queries")
    known = []
    for view in views or ():
        if isinstance(view, dict):
            one = _watched(view, address)
            if one.here or (query_id is not None and view.get("query_id") == query_id):
                known.append(one)
    if any(one.here for one in known):
        known = [one for one in known if one.here or not _same_kind(one.location, address)]
    return sorted(known, key=lambda one: (not one.here, not one.alive))


def _same_kind(location: str, address: str) -> bool:
    """Whether two addresses can be compared: a local path tells nothing of a store's."""
    return location != "" and (local_path(location) is None) is (local_path(address) is None)


def _watched(view: dict[str, Any], address: str) -> Watched:
    location = str(view.get("checkpoint_location") or "")
    sources = [source for source in view.get("sources") or () if isinstance(source, dict)]
    return Watched(
        application=str(view.get("application", "")),
        query=str(view.get("query", "")),
        location=location,
        here=location != "" and same_place(location, address),
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
