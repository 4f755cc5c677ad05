"""What the operator wants of each query: target, deadline, mode, bounds. Pure configuration."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Final, Literal

import msgspec

from agent.core.judge.checkpoint import NEAR_SHARE
from agent.core.judgement import Mode
from spark_listener.wire import SILENT_SECONDS

#: What may become of rows later than a query's declared delay, which smaller batches may drop:
#: ``hold`` never makes a batch smaller in such a query, ``guard`` goes back where rows fall late,
#: ``allow`` accepts Spark's semantics.
LateRows = Literal["hold", "guard", "allow"]
#: Sources that may be given a limit: all but those of which an option makes that unsafe, or all.
GiveLimits = Literal["safe", "all"]


#: What a deadline leaves for a batch holds that many of a target that is not the owner's: noise of
#: a third (sigma) takes as much, and one that it cuts would be told as out of reach for good.
ROOM: Final = 2.0


class QueryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one query; seconds, and limits in the source's own unit."""

    mode: Mode = "on"
    target_seconds: float = 5.0
    deadline_seconds: float | None = None
    minimum_limit: int = 1
    maximum_limit: int | None = None
    #: What a job configured is its owner's word, as it may protect a database or a heap.
    above_configured: bool = False
    late_rows: LateRows = "guard"
    give_limits: GiveLimits = "safe"
    #: m of design: the limit must digest arrivals times (1 + m).
    stability_margin: float = 0.2
    #: Beyond the target a batch is made longer only while one twice as long brings this share more
    #: rows per second: at a quarter up to three fixed costs, two thirds of the time for rows.
    stretch_gain: float = 0.25
    #: of the deadline, what a batch may take including its noise: none comes as near as alarms.
    deadline_share: float = NEAR_SHARE
    #: of the smoothed size, how far it must move to be announced.
    deadband: float = 0.25
    #: Whether the application gets the executors that its queries need; the most cautious of its
    #: queries' settings holds for all of it.
    executors: Mode = "off"
    minimum_executors: int = 1
    maximum_executors: int | None = None
    #: Fewer are asked for only when fewer would have done for so long: as Kubernetes' autoscaler.
    executors_quiet_seconds: float = 300.0
    #: (from, until) in minutes of a day in UTC: then no other number is asked for.
    executors_quiet_hours: tuple[tuple[int, int], ...] = ()
    #: In so long what waits should be caught up with.
    catch_up_seconds: float = 600.0
    #: So long the series of a query that failed or fell silent stay; None: until it is retired.
    retire_seconds: float | None = None

    @property
    def executors_flaw(self) -> str:
        """Why these settings ask for no executors, and what to set; "" where they make sense."""
        most, least = self.maximum_executors, self.minimum_executors
        if most is None:
            needed = "executors: on needs maximum_executors, the most that may be asked for"
            return needed if self.executors == "on" else ""
        if most >= least:
            return ""
        return (
            f"maximum_executors: {most} is below minimum_executors {least}: "
            "raise the first or lower the second"
        )

    def with_target_from(self, least_seconds: float) -> QueryPolicy:
        """With no shorter target than that, where the deadline leaves room for it."""
        deadline = math.inf if self.deadline_seconds is None else self.deadline_seconds
        fits = ROOM * least_seconds <= self.deadline_share * deadline
        if self.target_seconds >= least_seconds or not fits:
            return self
        return msgspec.structs.replace(self, target_seconds=least_seconds)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Overrides for the queries whose ``application/query`` matches a shell pattern."""

    match: str
    mode: Mode | None = None
    target_seconds: float | None = None
    deadline_seconds: float | None = None
    minimum_limit: int | None = None
    maximum_limit: int | None = None
    above_configured: bool | None = None
    late_rows: LateRows | None = None
    give_limits: GiveLimits | None = None
    stretch_gain: float | None = None
    executors: Mode | None = None
    minimum_executors: int | None = None
    maximum_executors: int | None = None
    executors_quiet_seconds: float | None = None
    executors_quiet_hours: tuple[tuple[int, int], ...] | None = None
    catch_up_seconds: float | None = None
    retire_seconds: float | None = None


class Policy(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Defaults and rules (a later rule wins), and the bounds of the whole agent."""

    default: QueryPolicy = QueryPolicy()
    rules: tuple[Rule, ...] = ()
    grant_seconds: float = 60.0
    forget_seconds: float = 3600.0  # series of a query that was stopped stay this long
    silent_seconds: float = SILENT_SECONDS  # no word of an application for this long: it is gone
    max_queries: int = 2000
    max_sources: int = 64  # per query
    max_operators: int = 32  # per query

    def of(
        self,
        application: str,
        query: str,
        own: tuple[str, str] | None = None,
        least_target_seconds: float = 0.0,
    ) -> QueryPolicy:
        """The settings that hold for one query.

        ``own``: the names it came with, where others may have been made for it; rules that fit
        either hold. ``least_target_seconds``: what its sink's quota asks for, ``quota.py``.
        """
        if not self.rules and not least_target_seconds:
            return self.default
        known = self._known
        names = application, query, own or (application, query)
        key = *names, least_target_seconds
        chosen = known.get(key)
        if chosen is None:
            if len(known) >= 2 * self.max_queries:
                known.clear()  # of queries that are long gone
            chosen = self.default
            for rule in self._matching(*names):
                chosen = _with(chosen, rule)
            chosen = chosen.with_target_from(least_target_seconds)
            known[key] = chosen
        return chosen

    @cached_property
    def _known(self) -> dict[tuple[str, str, tuple[str, str], float], QueryPolicy]:
        """What the rules gave: every event of a query asks several times."""
        return {}

    def ruled_mode(
        self, application: str, query: str, own: tuple[str, str] | None = None
    ) -> Mode | None:
        """The mode that a rule gives this query by name; None where only the default holds."""
        names = application, query, own or (application, query)
        modes = [rule.mode for rule in self._matching(*names) if rule.mode]
        return modes[-1] if modes else None

    def executors_flaws(self) -> list[str]:
        """Of the defaults, and of each rule as it is by itself."""
        found = [self.default.executors_flaw]
        for rule in self.rules:
            flaw = _with(self.default, rule).executors_flaw
            if flaw != self.default.executors_flaw:
                found.append(flaw and f"rules: {rule.match}: {flaw}")
        return [flaw for flaw in found if flaw]

    def _matching(self, application: str, query: str, own: tuple[str, str]) -> list[Rule]:
        return [
            rule
            for rule in self.rules
            if matches(rule.match, application, query) or matches(rule.match, *own)
        ]


def _with(settings: QueryPolicy, rule: Rule) -> QueryPolicy:
    set_ones = {
        key: value
        for key, value in msgspec.structs.asdict(rule).items()
        if key != "match" and value is not None
    }
    return msgspec.structs.replace(settings, **set_ones)


def matches(pattern: str, application: str, query: str) -> bool:
    """Whether a shell pattern names a query, by ``query`` or by ``application/query``."""
    return fnmatchcase(query, pattern) or fnmatchcase(f"{application}/{query}", pattern)
