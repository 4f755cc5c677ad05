"""A driver that writes what a listener would send, for tests of the core and the service."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from spark_listener.wire import format_time

START_TIME = 1_795_000_000.0


@dataclass
class Driver:
    """One application with one listener; every call gives the next numbered event."""

    application_id: str = "local-1"
    application: str = "shop"
    spark_version: str = "4.2.0"
    instance: str = "listener-1"
    host: str = ""  # empty: it is not told
    query_id: str = "q-1"
    run_id: str = "r-1"
    query: str | None = "orders"
    time: float = START_TIME
    sequence: int = 0
    batch_id: int = -1
    unit: str = "rows"
    trigger: str = "ProcessingTimeTrigger(0)"
    tells_trigger: bool = True  # beside each batch; a listener before that told it at a start only
    clock_origin: float | None = None  # told with each event; None: of a listener that does not
    sent: list[dict[str, Any]] = field(default_factory=list)

    def body(self, *events: dict[str, Any]) -> bytes:
        """A request's body."""
        return json.dumps(
            {
                "application": {
                    "id": self.application_id,
                    "name": self.application,
                    "spark_version": self.spark_version,
                },
                "listener": {"instance": self.instance}
                | ({"host": self.host} if self.host else {}),
                "events": list(events),
            }
        ).encode()

    def event(self, kind: str, body: dict[str, Any], **more: Any) -> dict[str, Any]:
        self.sequence += 1
        event = {
            "sequence": self.sequence,
            "type": kind,
            "time": format_time(self.time),
            "body": body,
            **({} if self.clock_origin is None else {"clock_origin": self.clock_origin}),
            **more,
        }
        self.sent.append(event)
        return event

    def ids(self) -> dict[str, Any]:
        return {"id": self.query_id, "runId": self.run_id, "name": self.query}

    def started(self, **body: Any) -> dict[str, Any]:
        self.trigger = body.get("trigger", self.trigger)
        return self.event(
            "started",
            {
                **self.ids(),
                "trigger": self.trigger,
                "control": "live",
                "outputMode": "update",
                "sink": "noop",
                "checkpointLocation": "/ck",
                "uiUrl": None,
                "conf": {},
                **body,
            },
        )

    def progress(
        self,
        rows: int | None,
        seconds: float | None,
        *,
        limit: int | None = None,
        configured: int | None = None,
        backlog: int | None = 0,
        limits: list[dict[str, Any]] | None = None,
        sources: list[dict[str, Any]] | None = None,
        batch_id: int | None = None,
        phases: dict[str, float] | None = None,
        gap: float = 0.0,
        **body: Any,
    ) -> dict[str, Any]:
        """A batch that is triggered ``gap`` seconds after the last event."""
        self.batch_id = self.batch_id + 1 if batch_id is None else batch_id
        triggered = self.time + gap
        self.time = triggered + (seconds or 0.0)
        durations = {"walCommit": 20, "addBatch": 100, "commitOffsets": 20}
        if phases is not None:
            durations = {name: int(value * 1000) for name, value in phases.items()}
        if seconds is not None:
            durations["triggerExecution"] = int(seconds * 1000)
        said = limits
        if said is None:
            said = [
                {
                    "source": 0,
                    "unit": self.unit,
                    "limit": limit,
                    "configured": configured,
                    "backlog": backlog,
                }
            ]
        return self.event(
            "progress",
            {
                **self.ids(),
                "timestamp": format_time(triggered),
                "batchId": self.batch_id,
                "numInputRows": rows,
                "durationMs": durations,
                "sources": sources or [{"description": "Source", "numInputRows": rows}],
                "stateOperators": [],
                "sink": {"description": "noop"},
                **body,
            },
            limits=said,
            **({"trigger": self.trigger} if self.tells_trigger else {}),
        )

    def heartbeat(self, batch_id: int | None = None, running: float | None = None, **more: Any):
        query = {**self.ids(), "batchId": batch_id, "running_seconds": running, **more}
        return self.event("heartbeat", {"queries": [query]})

    def idle(self) -> dict[str, Any]:
        return self.event("idle", {"id": self.query_id, "runId": self.run_id})

    def terminated(self, exception: str | None = None) -> dict[str, Any]:
        return self.event(
            "terminated",
            {
                "id": self.query_id,
                "runId": self.run_id,
                "exception": exception,
                "errorClassOnException": None,
            },
        )
