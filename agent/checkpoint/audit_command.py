"""The command ``weir checkpoint audit``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from agent.checkpoint.audit import OF_THE_RUN, QueryFacts, audit, offset_times
from agent.checkpoint.commands import counting, look, print_json
from agent.checkpoint.folder import local_path, open_folder, reported
from agent.checkpoint.render import output, show_findings
from agent.checkpoint.watched import Watched, ask
from agent.core.judgement import Finding

if TYPE_CHECKING:
    from agent.checkpoint.layout import Checkpoint
    from agent.client import ClientSettings


class AuditReport(msgspec.Struct, frozen=True):
    """What ``weir checkpoint audit`` found."""

    checkpoint: str
    query: str | None
    findings: list[Finding]


def run_audit(
    address: str,
    *,
    agent: ClientSettings | None,
    as_json: bool,
    options: dict[str, str] | None = None,
    quiet: bool = False,
) -> int:
    """Prints what speaks against exactly once; 1 where something does. Raises CheckpointError.

    ``options`` are those of the job's sources and sink, as it gives them to Spark.
    """
    folder = open_folder(address)
    with counting(quiet=quiet) as count, reported(address):
        checkpoint, soundness = look(folder, count)
    findings = soundness.findings
    known = ask(agent, checkpoint.query_id, address) if agent is not None else []
    facts = msgspec.structs.replace(facts_of(checkpoint, known), options=options or {})
    findings = findings + audit(facts)
    same = {(finding.check, finding.severity) for finding in findings}
    findings += [
        finding
        for finding in (known[0].findings if known and (known[0].here or known[0].alive) else ())
        if finding.check in OF_THE_RUN and (finding.check, finding.severity) not in same
    ]
    report = AuditReport(
        checkpoint=checkpoint.name,
        query=f"{known[0].application}/{known[0].query}" if known else None,
        findings=findings,
    )
    if as_json:
        print_json(report)
    else:
        console = output()
        show_findings(console, findings)
        if not findings:
            console.print("nothing found")
    return 1 if any(finding.severity != "info" for finding in findings) else 0


def facts_of(checkpoint: Checkpoint, known: list[Watched]) -> QueryFacts:
    """What the checkpoint and the agent tell of its query."""
    owner = known[0] if known else None
    local = local_path(checkpoint.name)
    # A place is judged by what lies above it too, however it was typed.
    location = checkpoint.name if local is None else os.path.abspath(local)  # noqa: PTH100
    return QueryFacts(
        query=f"{owner.application}/{owner.query}" if owner else "",
        sink=owner.sink if owner else "",
        sources=owner.sources if owner else [],
        checkpoint_location=location,
        deadline_seconds=owner.deadline_seconds if owner else None,
        others={f"{one.application}/{one.query}": one.location for one in known[1:] if one.alive},
        offset_times_ms=offset_times(checkpoint),
    )
