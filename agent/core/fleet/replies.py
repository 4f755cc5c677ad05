"""Replies: what is said of all queries that run on one cluster, in each reply to its driver.

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
    from agent.core.query import Cluster, Key, Query

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
    """What the queries of a cluster that live say of executors together.

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


class _Reply:
    """Of one cluster's; what of all of them is None is to be put together."""

    def __init__(self, said: dict[Key, _Said]) -> None:
        self.said = said
        self.changed: set[Key] = set()  # since that was worked out
        self.grants: list[Grant] | None = None
        self.unsafe_limits: dict[str, bool] | None = None
        self.agreement: Agreement | None = None


class Replies:
    """By cluster. What is given out is never changed afterwards."""

    def __init__(self, roster: Roster, policy: Policy) -> None:
        self._roster = roster
        self._policy = policy
        self._replies: dict[str, dict[Cluster, _Reply]] = {}  # by application id first

    def see(self, query: Query) -> None:
        """A query has changed, or is about to."""
        for reply in self._replies.get(query.run.application_id, {}).values():
            reply.changed.add(query.key)

    def forget(self, application_ids: set[str]) -> None:
        """Others run in them now: anew with the next question."""
        for application_id in application_ids:
            self._replies.pop(application_id, None)

    def grants(self, cluster: Cluster) -> list[Grant]:
        """All live grants of a cluster: every reply renews them."""
        reply = self._reply(cluster)
        if reply.grants is None:
            reply.grants = [grant for one in reply.said.values() for grant in one.grants]
        return reply.grants

    def unsafe_limits(self, cluster: Cluster) -> dict[str, bool]:
        """Of every run of a cluster: each reply says it, so that it can be taken back."""
        reply = self._reply(cluster)
        if reply.unsafe_limits is None:
            reply.unsafe_limits = {}
            for one in reply.said.values():
                reply.unsafe_limits |= one.unsafe_limits
        return reply.unsafe_limits

    def agreement(self, cluster: Cluster) -> Agreement:
        """What holds for the executors that its queries share."""
        reply = self._reply(cluster)
        if reply.agreement is None:
            voices = [one.voice for one in reply.said.values() if one.voice is not None]
            reply.agreement = _agreed(voices, self._policy.default)
        return reply.agreement

    def _reply(self, cluster: Cluster) -> _Reply:
        reply = self._replies.get(cluster[0], {}).get(cluster)
        if reply is None:
            queries = self._roster.of_cluster(cluster)
            reply = _Reply({query.key: self._of(query) for query in queries})
            if reply.said:
                self._replies.setdefault(cluster[0], {})[cluster] = reply
        # One that was renamed leaves another of its old name, which nobody asks for.
        for key in reply.changed & reply.said.keys():
            before, now = reply.said[key], self._of(self._roster[key])
            reply.said[key] = now
            if now.grants != before.grants:
                reply.grants = None
            if now.unsafe_limits != before.unsafe_limits:
                reply.unsafe_limits = None
            if now.voice != before.voice:
                reply.agreement = None
        reply.changed.clear()
        return reply

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
