"""What applications run on: executors that are there, that are needed, and that are asked for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.decide.executors import Scaler, bound_of, slots_of, worth_it
from agent.core.decode.events import Executors
from agent.core.judgement import MODES, ExecutorsLine, ExecutorsView, InVain

if TYPE_CHECKING:
    from agent.core.fleet.roster import Roster
    from agent.core.judgement import Mode
    from agent.core.policy import Policy, QueryPolicy
    from agent.core.query import Query


class ExecutorsOrder(msgspec.Struct, frozen=True):
    """As it goes over the wire; ``wanted`` None is the number that the job has without Weir."""

    wanted: int | None
    expires_seconds: float


#: What the queries of one application need is added up no more often: with n of them that each end
#: a batch within it, that is n steps and not n times n. Far less than executors take to come.
TOGETHER_SECONDS: Final = 1.0


class _Cluster(msgspec.Struct):
    """One application's."""

    told: Executors
    scaler: Scaler
    bound: str = "enough"
    seen_time: float | None = None  # when the needs were added up last


class Clusters:
    """By application id. Not saved: the next heartbeat tells it anew."""

    def __init__(self, roster: Roster, policy: Policy) -> None:
        self._roster = roster
        self._policy = policy
        self._known: dict[str, _Cluster] = {}

    def hear(self, application_id: str, told: Executors) -> None:
        """What a heartbeat tells."""
        known = self._known.get(application_id)
        if known is None:
            # What an agent before this one asked for is where this one goes on.
            self._known[application_id] = _Cluster(told, Scaler(told.asked))
        else:
            known.told = told
        for query in self._roster.of_application(application_id):
            query.run.slots = told.slots
            if told.present:
                query.run.slots_each = told.slots / told.present

    def see(self, query: Query, time: float) -> None:
        """After a batch that was looked at: what all queries of its application need together."""
        known = self._known.get(query.run.application_id)
        if known is None or not known.told.present or not known.told.slots:
            return
        seen, several = known.seen_time, self._roster.count_in(query.run.application_id) > 1
        if several and seen is not None and 0.0 <= time - seen < TOGETHER_SECONDS:
            return
        known.seen_time = time
        live = self._live(query.run.application_id)
        needs = [one.sizing.need for one in live]
        found = [need for need in needs if need is not None]
        if not found or len(found) < len(needs):
            return  # of one query nothing is known yet
        each = known.told.slots / known.told.present
        number = math.ceil(slots_of(found) / each - 1e-9)
        roomy = math.ceil(slots_of(found, roomy=True) / each - 1e-9)
        settings = self._settings(query.run.application_id)
        moves = max([one.sizing.work.move_seconds for one in live])
        known.scaler.decide(number, roomy, known.told.present, time, settings, move_seconds=moves)
        known.bound = bound_of(found, number, settings)

    def order(self, application_id: str) -> ExecutorsOrder | None:
        """What the driver is told; None: nothing, as nothing of ours may be in force."""
        known = self._known.get(application_id)
        if known is None:
            return None
        mode = self._mode(application_id)
        if mode == "on" and known.scaler.wanted is not None and not known.told.note:
            return ExecutorsOrder(known.scaler.wanted, self._policy.grant_seconds)
        if mode != "on" and known.told.asked is not None:
            return ExecutorsOrder(None, self._policy.grant_seconds)
        return None

    def view(self, query: Query, modes: dict[str, Mode]) -> ExecutorsView | None:
        """What is shown; None where the driver tells nothing of executors.

        ``modes`` are kept by application while several views are made: each asks all its queries.
        """
        application_id = query.run.application_id
        known = self._known.get(application_id)
        if known is None:
            return None
        if application_id not in modes:
            modes[application_id] = self._mode(application_id)
        told, need, work = known.told, query.sizing.need, query.sizing.work
        last, in_vain = work.brought, None
        if last is not None and not worth_it(last.rows_ratio, last.before, last.slots):
            in_vain = InVain(last.before, last.slots, last.rows_ratio)
        return ExecutorsView(
            mode=modes[application_id],
            present=told.present,
            slots=told.slots,
            wanted=known.scaler.wanted,
            asked=told.asked,
            note=told.note,
            bound=known.bound,
            gain=None if need is None else need.gain,
            contention=work.contention if work.samples else None,
            contention_doubt=work.contention_doubt if work.samples else None,
            task_seconds=work.task_seconds if work.samples else None,
            longest_seconds=work.longest_seconds if work.samples else None,
            driver_seconds=work.driver_seconds if work.samples else None,
            in_vain=in_vain,
        )

    def line(self, query: Query) -> ExecutorsLine | None:
        """The same for a line of each event: what changes with it."""
        known = self._known.get(query.run.application_id)
        if known is None:
            return None
        return ExecutorsLine(known.told.present, known.scaler.wanted, known.bound)

    def forget(self, application_ids: set[str]) -> None:
        """They are gone."""
        for application_id in application_ids:
            self._known.pop(application_id, None)

    def _live(self, application_id: str) -> list[Query]:
        return [
            one
            for one in self._roster.of_application(application_id)
            if not one.life.terminated and one.life.gone_since_time is None
        ]

    def _mode(self, application_id: str) -> Mode:
        """The most cautious of its queries: a hand at one of them holds for all."""
        modes = [
            mode
            for one in self._live(application_id)
            for mode in (self._policy.of(*one.key).executors, one.mode(self._policy))
        ]
        return min(modes, key=MODES.index, default="off")

    def _settings(self, application_id: str) -> QueryPolicy:
        """Bounds that all of its queries keep."""
        found = [self._policy.of(*one.key) for one in self._live(application_id)]
        most = [one.maximum_executors for one in found if one.maximum_executors is not None]
        least = max([one.minimum_executors for one in found])
        return msgspec.structs.replace(
            found[0],
            minimum_executors=least if not most else min(least, *most),
            maximum_executors=min(most, default=None),
            executors_quiet_seconds=max([one.executors_quiet_seconds for one in found]),
            executors_quiet_hours=tuple(one for of in found for one in of.executors_quiet_hours),
        )
