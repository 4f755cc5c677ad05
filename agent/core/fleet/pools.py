"""The pools of applications with several queries: they share one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.core.decide import pool

if TYPE_CHECKING:
    from agent.core.fleet.roster import Roster
    from agent.core.policy import Policy
    from agent.core.query import Query


class Pools:
    """By application, of each driver apart.

    Worked out by the times of events alone, so that a replay decides alike, and from what is saved
    alone, so that an agent that was restarted does. Those times are of a clock that all queries of
    a driver share, whatever the driver's was set by while some of them ran.
    """

    def __init__(self, roster: Roster, policy: Policy) -> None:
        self._roster = roster
        self._policy = policy
        self._pools: dict[_Clock, pool.Members] = {}

    def beside(self, query: Query) -> pool.Beside | None:
        """The other queries that run in its application; None where none does."""
        application_id = query.run.application_id
        if self._roster.count_in(application_id) < 2:
            return None
        clock = _clock(query)
        members = self._pools.get(clock)
        if members is None:
            members = self._pools[clock] = pool.Members(self._policy.silent_seconds)
            for one in self._roster.of_application(application_id):
                self.see(one)
        beside = members.beside(query.key, query.clock.shared_time)
        return beside if beside.count else None

    def see(self, query: Query) -> None:
        """A query as it is now; where nobody asked yet, later."""
        members = self._pools.get(_clock(query))
        if members is None:
            return
        time = query.clock.shared_time
        if query.life.terminated:
            members.remove(query.key, time)
        else:
            busy_share = query.flow.occupancy.busy_share
            members.put(query.key, query.member(self._policy, busy_share), busy_share, time)

    def forget(self, application_ids: set[str]) -> None:
        """Their members have changed: anew with the next question."""
        for clock in [clock for clock in self._pools if clock[0] in application_ids]:
            del self._pools[clock]


# An application, and which of its drivers, whose clocks began at times that nobody can compare: a
# second attempt has the same id on another machine. "" of all that tell no such time.
_Clock = tuple[str, str]


def _clock(query: Query) -> _Clock:
    return query.run.application_id, query.clock.driver
