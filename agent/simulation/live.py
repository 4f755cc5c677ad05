"""The live core as a controller: wire events into a fleet, its grants out.

Nothing is decided here. What the plant does is written as the events a driver would send, decoded
as a request's are, and handed to the same ``Fleet`` that the agent runs; so a recording of these
events replays to the same decisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.core.decode.events import Application, Listener, Request, decode_event
from agent.core.fleet import Fleet
from agent.core.policy import Policy, QueryPolicy
from spark_listener.wire import HEARTBEAT_SECONDS, format_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.core.judgement import Judgement
    from agent.simulation.crew import Ran
    from agent.simulation.plant import Attempt
    from agent.simulation.scenario import Scenario

#: A simulated second 0, so that a run of a seed is the same whenever it runs.
EPOCH_SECONDS: Final = 1_767_225_600
#: How often Spark says that a trigger found nothing.
IDLE_SECONDS: Final = 10.0
QUERY_ID: Final = "00000000-0000-4000-8000-000000000000"
APPLICATION: Final = Application(id="simulation", name="simulation", spark_version="")
LISTENER: Final = Listener(instance="simulation")
ALARMS: Final = ("spiralling", "timing_out", "dead")


def policy_of(scenario: Scenario) -> QueryPolicy:
    """What the user of this query would configure: its target, and what kills it."""
    block = scenario.executors
    return QueryPolicy(
        target_seconds=scenario.target_seconds,
        deadline_seconds=scenario.batch_timeout_seconds,
        executors="off" if block is None else "on",
        maximum_executors=None if block is None else block.maximum,
    )


class Live:
    """The agent's core behind ``plant.Controller``; ``steer`` False: it only watches.

    ``settings`` are the scenario's own where none are given.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        steer: bool = True,
        settings: QueryPolicy | None = None,
        on_event: Callable[[dict[str, Any]], object] | None = None,
        on_judgement: Callable[[Judgement], object] | None = None,
    ) -> None:
        self._scenario = scenario
        self._steer = steer
        settings = settings or policy_of(scenario)
        settings = msgspec.structs.replace(settings, mode="on" if steer else "dry-run")
        self._fleet = Fleet(Policy(default=settings), started_time=float(EPOCH_SECONDS))
        self._on_event = on_event
        self._on_judgement = on_judgement
        self._sequence = 0
        self._runs = 0
        self.limit_rows: int | None = scenario.initial_limit_rows
        self.executors: int | None = None
        self.first_alarm_seconds: float | None = None
        self._looked_seconds = -HEARTBEAT_SECONDS  # when a batch's stages were told last
        self._rests_since: float | None = None
        self._idle_seconds = 0.0  # when a trigger that finds nothing says so next

    def started(self, second: float) -> None:
        """A run begins."""
        self._runs += 1
        interval = round(self._scenario.trigger_seconds * 1000)
        self._send(
            "started",
            second,
            {
                **self._ids(),
                "name": self._scenario.name,
                "trigger": f"ProcessingTimeTrigger({interval})",
                "control": "live",
                "outputMode": "append",
                "sink": "simulation",
                "checkpointLocation": "",
                "uiUrl": None,
                "conf": {},
            },
        )
        block = self._scenario.executors
        if block is not None and self._runs == 1:
            self._tell(second, block.present, block.slots, None)

    def ended(self, attempt: Attempt) -> None:
        """A batch that ran; one that is killed takes its run with it."""
        self._beat(attempt)
        end = attempt.end_seconds
        if attempt.killed:
            timed_out = f"batch {attempt.batch_id} timed out after {attempt.seconds:g} s"
            body = {
                **self._ids(),
                "exception": None if attempt.stopped else timed_out,
                "errorClassOnException": None,
            }
            self._send("terminated", end, body)
            return
        milliseconds = round(attempt.seconds * 1000)
        body = {
            **self._ids(),
            "name": self._scenario.name,
            "timestamp": _time(attempt.start_seconds),
            "batchId": attempt.batch_id,
            "durationMs": {"addBatch": milliseconds, "triggerExecution": milliseconds},
            "numInputRows": attempt.rows,
            "sources": [{"description": "simulation", "numInputRows": attempt.rows}],
            "stateOperators": [],
            "sink": {"description": "simulation"},
        }
        limits = [
            {
                "source": 0,
                "unit": "rows",
                "limit": attempt.limit_rows,
                "next_limit": attempt.next_limit_rows,
                "configured": None,  # the limit that it begins with is nobody's word
                "backlog": attempt.backlog_rows,
            }
        ]
        ran = attempt.ran
        self._send("progress", end, body, limits, None if ran is None else self._work(attempt, ran))
        if ran is not None:
            asked = ran.asked if self._steer else None
            self._tell(end, ran.present, ran.slots_each, asked)

    def idle(self, second: float, until: float) -> None:
        """Nothing to read: Spark says so now and then."""
        if second != self._rests_since:
            self._rests_since, self._idle_seconds = second, second + IDLE_SECONDS
        while self._idle_seconds <= until:
            self._send("idle", self._idle_seconds, self._ids())
            self._idle_seconds += IDLE_SECONDS

    def _work(self, attempt: Attempt, ran: Ran) -> dict[str, Any]:
        """As the driver tells it: slots with every batch, stages every few seconds."""
        work: dict[str, Any] = {"slots": ran.slots, "steady": ran.steady}
        if ran.steady and attempt.end_seconds - self._looked_seconds >= HEARTBEAT_SECONDS:
            self._looked_seconds = attempt.end_seconds
            seconds = attempt.seconds - ran.driver_seconds
            stage = {
                "tasks": ran.tasks,
                "task_seconds": seconds * ran.tasks / ran.waves,
                "longest_seconds": seconds / ran.waves,
                "begin_seconds": ran.driver_seconds,
                "seconds": seconds,
            }
            work["stages"] = [stage]
        return work

    def _tell(self, second: float, present: int, slots_each: int, asked: int | None) -> None:
        """The heartbeat's word of the executors."""
        told = {"present": present, "slots": present * slots_each}
        if asked is not None:
            told["asked"] = asked
        self._send("heartbeat", second, {"queries": [], "executors": told})

    def _beat(self, attempt: Attempt) -> None:
        age = HEARTBEAT_SECONDS
        while age < attempt.seconds:
            running = {
                **self._ids(),
                "name": self._scenario.name,
                "batchId": attempt.batch_id,
                "running_seconds": age,
            }
            self._send("heartbeat", attempt.start_seconds + age, {"queries": [running]})
            age += HEARTBEAT_SECONDS

    def _ids(self) -> dict[str, Any]:
        return {"id": QUERY_ID, "runId": f"00000000-0000-4000-8000-{self._runs:012d}"}

    def _send(
        self,
        kind: str,
        second: float,
        body: dict[str, Any],
        limits: list[dict[str, Any]] | None = None,
        work: dict[str, Any] | None = None,
    ) -> None:
        self._sequence += 1
        event = {"sequence": self._sequence, "type": kind, "time": _time(second), "body": body}
        if limits is not None:
            event["limits"] = limits
        if work is not None:
            event["work"] = work
        if self._on_event is not None:
            self._on_event(event)
        typed = decode_event(event, self._sequence)
        receipt = self._fleet.receive(
            Request(APPLICATION, LISTENER, [(0, typed)], []), now=typed.time
        )
        for judgement in receipt.judged:
            if self._on_judgement is not None:
                self._on_judgement(judgement)
            if self.first_alarm_seconds is None and judgement.spiral.phase in ALARMS:
                self.first_alarm_seconds = second
        granted = [grant.limit for grant in receipt.grants if grant.source == 0]
        if self._steer:
            self.limit_rows = granted[0] if granted else self._scenario.initial_limit_rows
            if receipt.executors is not None:
                self.executors = receipt.executors.wanted


def _time(second: float) -> str:
    return format_time(EPOCH_SECONDS + second)
