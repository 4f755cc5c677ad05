"""Liveness: whether restarting a driver would help, and whether the agent could have heard it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

if TYPE_CHECKING:
    from agent.core.fleet.senders import Senders
    from agent.core.policy import Policy
    from agent.core.query import Query

#: After its own start the agent calls nothing dead: heartbeats need time to find it again.
GRACE_SECONDS: Final = 60.0


class Liveness(msgspec.Struct, frozen=True):
    """The answer to a probe: ``ok`` False only when restarting the driver is right."""

    ok: bool
    why: Literal["progressing", "idle", "slow", "unknown", "starting", "silent", "hung", "gone"]


class Wakefulness:
    """Since when the agent hears: who slept must not call others dead. The agent's clock."""

    def __init__(self, policy: Policy, started_time: float) -> None:
        self._policy = policy
        self.started_time = started_time
        self.awake_time = started_time  # since when it has heard whatever was said
        self.ticked_time: float | None = None
        self.off_seconds = 0.0  # by which the machine's clock was ahead of the agent's then
        self.slept: dict[str, float] = {}  # by part: when an agent before this one heard it last

    def tick(self, now: float, off_seconds: float) -> None:
        """A look at the clocks, as there is one every few seconds while the agent is awake."""
        if self.was_deaf(now):
            self.awake_time = now
        self.ticked_time, self.off_seconds = now, off_seconds

    def follow(self, before: Wakefulness) -> None:
        """Goes on where another of the same life stood."""
        self.awake_time, self.ticked_time = before.awake_time, before.ticked_time
        self.slept, self.off_seconds = before.slept, before.off_seconds

    def was_deaf(self, now: float) -> bool:
        """Whether the agent itself stood still until just now: it heard nothing meanwhile."""
        ticked = self.ticked_time
        return ticked is not None and now - ticked > self._policy.silent_seconds

    def is_silent(self, query: Query, now: float) -> bool:
        """Whether nothing was heard of a query for so long that it counts as gone."""
        if self.was_deaf(now):
            return False
        heard = max(query.life.heard_time, self.awake_time)
        return now - heard > self._policy.silent_seconds

    def liveness(self, query: Query | None, senders: Senders, now: float) -> Liveness:
        """Whether restarting the driver would help; slow, idle and unknown never say so."""
        if query is None:
            return Liveness(ok=True, why="unknown")
        if query.life.terminated:
            return Liveness(ok=True, why="gone")
        if now - self.awake_time < GRACE_SECONDS or self.was_deaf(now):
            return Liveness(ok=True, why="starting")
        heard = query.life.heard_time
        if now - heard > self._policy.silent_seconds:
            if heard < self.started_time or senders.driver_heard(query, now):
                # Of an earlier driver, or a driver that lives and does not tell of this query.
                return Liveness(ok=True, why="unknown")
            return Liveness(ok=False, why="silent")
        if query.running.since_time is None:
            return Liveness(ok=True, why="idle")
        # By the agent's own clock, and in its own life: the driver's says what it likes.
        age = query.run.beyond(now - max(query.running.since_time, self.started_time))
        settings = query.settings(self._policy)
        deadline_seconds = settings.deadline_seconds
        # The first batch of a run may be the one that a restart repeats, as large as it was, or all
        # that came while nobody read: ended for its age, it would never end.
        if query.run.batches and deadline_seconds is not None and age > deadline_seconds:
            return Liveness(ok=False, why="hung")
        return Liveness(ok=True, why="slow" if age > settings.target_seconds else "progressing")


def wake(query: Query, before: float) -> None:
    """What an agent before this one heard was at most so ``before`` a time, whatever its clock."""
    query.life.heard_time = min(query.life.heard_time, before)
    query.life.gone_since_time = _earlier(query.life.gone_since_time, before)
    query.running.told_time = _earlier(query.running.told_time, before)
    query.running.since_time = _earlier(query.running.since_time, before)
    for run in query.displaced:
        run.displaced_time = min(run.displaced_time, before)


def _earlier(time: float | None, most: float) -> float | None:
    return None if time is None else min(time, most)
