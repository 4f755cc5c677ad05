"""Crews: what is said of all queries that run in one application, in each reply to its driver.

Every reply renews the limits of all of them, and executors follow from what all of them are told.
Of two hundred an event changes one: of the others it was worked out before, and still holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from agent.core.decide import limits as decide
from agent.core.judgement import MODES

if TYPE_CHECKING:
    from agent.core.fleet.roster import Roster
    from agent.core.judgement import Mode
    from agent.core.policy import Policy, QueryPolicy
    from agent.core.query import Key, Query

#: Why nothing is asked for while one of its queries reads rows as they come.
STANDS: Final = "a query in real-time mode or continuous processing has its slots all the while"


class Grant(msgspec.Struct, frozen=True, omit_defaults=True):
    """As it goes over the wire; ``id`` is the Spark query's id."""

    id: str
    runId: str  # noqa: N815 - the wire's name
    source: int
    unit: str
    limit: int | None
    expires_seconds: float
    reason: str
    identity: str = ""  # of the source, where it is known: it may be elsewhere in a new run
    lapses: bool = False  # when it is not renewed, even where nothing is configured


class Agreement(NamedTuple):
    """What the queries of an application that live say of executors together.

    The most cautious ``mode``: a hand at one of them holds for all. ``flaw`` is why nothing is
    asked for all the same, and the bounds in ``settings`` are such as all of them keep.
    """

    mode: Mode
    flaw: str
    settings: QueryPolicy
    lives: bool = True  # False: none does


class _Said(NamedTuple):
    """Of one query."""

    grants: list[Grant]
    unsafe_limits: dict[str, bool]  # by run id; of one that has ended nothing
    voice: tuple[Mode, QueryPolicy, bool] | None  # of one that lives; whether its slots stay taken


class _Crew:
    """Of one application's; what of all of them is None is to be put together."""

    def __init__(self, said: dict[Key, _Said]) -> None:
        self.said = said
        self.changed: set[Key] = set()  # since that was worked out
        self.grants: list[Grant] | None = None
        self.unsafe_limits: dict[str, bool] | None = None
        self.agreement: Agreement | None = None


class Crews:
    """By application id. What is given out is never changed afterwards."""

    def __init__(self, roster: Roster, policy: Policy) -> None:
        self._roster = roster
        self._policy = policy
        self._crews: dict[str, _Crew] = {}

    def see(self, query: Query) -> None:
        """A query has changed, or is about to."""
        crew = self._crews.get(query.run.application_id)
        if crew is not None:
            crew.changed.add(query.key)

    def forget(self, application_ids: set[str]) -> None:
        """Others run in them now: anew with the next question."""
        for application_id in application_ids:
            self._crews.pop(application_id, None)

    def grants(self, application_id: str) -> list[Grant]:
        """All live grants of an application: every reply renews them."""
        crew = self._crew(application_id)
        if crew.grants is None:
            crew.grants = [grant for one in crew.said.values() for grant in one.grants]
        return crew.grants

    def unsafe_limits(self, application_id: str) -> dict[str, bool]:
        """Of every run of an application: each reply says it, so that it can be taken back."""
        crew = self._crew(application_id)
        if crew.unsafe_limits is None:
            crew.unsafe_limits = {}
            for one in crew.said.values():
                crew.unsafe_limits |= one.unsafe_limits
        return crew.unsafe_limits

    def agreement(self, application_id: str) -> Agreement:
        """What holds for the executors that its queries share."""
        crew = self._crew(application_id)
        if crew.agreement is None:
            voices = [one.voice for one in crew.said.values() if one.voice is not None]
            crew.agreement = _agreed(voices, self._policy.default)
        return crew.agreement

    def _crew(self, application_id: str) -> _Crew:
        crew = self._crews.get(application_id)
        if crew is None:
            queries = self._roster.of_application(application_id)
            crew = _Crew({query.key: self._of(query) for query in queries})
            if crew.said:
                self._crews[application_id] = crew
        # One that was renamed leaves another of its old name, which nobody asks for.
        for key in crew.changed & crew.said.keys():
            before, now = crew.said[key], self._of(self._roster[key])
            crew.said[key] = now
            if now.grants != before.grants:
                crew.grants = None
            if now.unsafe_limits != before.unsafe_limits:
                crew.unsafe_limits = None
            if now.voice != before.voice:
                crew.agreement = None
        crew.changed.clear()
        return crew

    def _of(self, query: Query) -> _Said:
        run, settings = query.run, query.settings(self._policy)
        grants = [
            Grant(
                run.query_id,
                run.run_id,
                one.source,
                one.unit,
                one.limit,
                one.seconds,
                one.reason,
                one.identity,
                one.lapses,
            )
            for one in decide.grants(query, self._policy)
        ]
        if query.life.terminated:
            return _Said(grants, {}, None)
        voice = None
        if query.life.gone_since_time is None:
            mode = min(settings.executors, query.mode(self._policy), key=MODES.index)
            voice = mode, settings, run.as_they_come
        return _Said(grants, {run.run_id: settings.give_limits == "all"}, voice)


def _agreed(voices: list[tuple[Mode, QueryPolicy, bool]], default: QueryPolicy) -> Agreement:
    if not voices:
        return Agreement("off", "", default, lives=False)
    mode: Mode = min([mode for mode, _, _ in voices], key=MODES.index)
    found = [settings for _, settings, _ in voices]
    flaw = next((one.executors_flaw for one in found if one.executors_flaw), "")
    if any(stands for _, _, stands in voices):
        # No stage of it tells what fewer would do, and Spark may end it where they are too few.
        mode, flaw = min(mode, "dry-run", key=MODES.index), flaw or STANDS
    most = [one.maximum_executors for one in found if one.maximum_executors is not None]
    least = max([one.minimum_executors for one in found])
    bounds = msgspec.structs.replace(
        found[0],
        minimum_executors=least if not most else min(least, *most),
        maximum_executors=min(most, default=None),
        executors_quiet_seconds=max([one.executors_quiet_seconds for one in found]),
        executors_quiet_hours=tuple(one for of in found for one in of.executors_quiet_hours),
    )
    return Agreement(mode, flaw, bounds)
