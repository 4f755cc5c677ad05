"""What applications run on: executors that are there, that are needed, and that are asked for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.decide.executors import Scaler, bound_of, in_vain, slots_of
from agent.core.decode.events import Executors
from agent.core.judgement import ExecutorsLine, ExecutorsView, InVain
from spark_listener.wire import STAGES_PAUSE_SECONDS

if TYPE_CHECKING:
    from agent.core.fleet.liveness import Wakefulness
    from agent.core.fleet.replies import Agreement, Replies
    from agent.core.fleet.roster import Roster
    from agent.core.policy import Policy, QueryPolicy
    from agent.core.query import Cluster, Query


def _executors(slots: int, slots_each: float) -> int:
    """That have so many slots, or some more."""
    return math.ceil(slots / slots_each - 1e-9)


def _works_unknown(query: Query, settings: QueryPolicy) -> bool:
    """Whether it read rows, and nobody knows what it needs: its stages cannot be had, or more.

    Nor what it needs now, where they were told once and have not been for a quiet time. Most
    batches are not looked at, and one may be the one in which executors came.
    """
    sizing = query.sizing
    if sizing.need is None:
        return query.totals.rows > 0
    since = (query.batch.end_time or 0.0) - sizing.need_time
    quiet = max(settings.executors_quiet_seconds, _UNTOLD_SECONDS)
    return sizing.untold_batches > 1 and since >= quiet


class ExecutorsOrder(msgspec.Struct, frozen=True):
    """As it goes over the wire; ``wanted`` None is the number that the job has without Weir."""

    wanted: int | None
    expires_seconds: float


#: What the queries of one application need is added up no more often: with n of them that each end
#: a batch within it, that is n steps and not n times n. Far less than executors take to come.
_TOGETHER_SECONDS: Final = 1.0
#: Stages are told no more when they have not been for so long: a driver that finds none looks again
#: after half of it at most.
_UNTOLD_SECONDS: Final = 2.0 * STAGES_PAUSE_SECONDS
#: A batch is late from so many cycles on, which the last batch tells alone: more than its noise.
LATE_CYCLES: Final = 2.0


class _Known(msgspec.Struct):
    """Of one cluster."""

    told: Executors
    scaler: Scaler
    own: int  # executors that it has without us
    asks: bool = True  # whether Weir did as it replied last; an agent before this one may have
    bound: str = "enough"
    seen_time: float | None = None  # when the needs were added up last
    looked_time: float | None = None  # when it was asked last whether all rest
    unknown_time: float | None = None  # since when the need of one that works is not known
    deserted_time: float | None = None  # since when none of its queries lives; agent's clock


class Clusters:
    """Not saved: the next heartbeat tells it anew."""

    def __init__(
        self, roster: Roster, replies: Replies, policy: Policy, wakefulness: Wakefulness
    ) -> None:
        self._roster = roster
        self._replies = replies
        self._policy = policy
        self._wakefulness = wakefulness
        self._known: dict[Cluster, _Known] = {}

    def follow(self, before: Clusters) -> None:
        """Goes on where those of a fleet stood that theirs is put back for."""
        self._known = before._known

    def forget(self, application_id: str) -> None:
        """What its driver told; the next heartbeat tells it anew."""
        for cluster in [*self._known]:
            if cluster[0] == application_id:
                del self._known[cluster]

    def hear(self, cluster: Cluster, told: Executors) -> None:
        """What a heartbeat tells."""
        known = self._known.get(cluster)
        own = told.configured or 0
        if told.asked is None and not told.note:
            own = max(own, told.present)
        if known is None:
            # What an agent before this one asked for is where this one goes on.
            known = self._known[cluster] = _Known(told, Scaler(told.asked), own)
        elif told.asked is None and not told.note and own > known.own:
            # It still comes up, or its cluster gave it more: what was wanted was wanted of less.
            known.scaler, known.own = Scaler(), own
        known.told = told
        for query in self._roster.of_cluster(cluster):
            query.run.slots = told.slots
            if told.present:
                query.run.slots_each = told.slots / told.present

    def look(self, cluster: Cluster, time: float) -> None:
        """Between batches: a query at rest has none that would say what it needs.

        While a batch is late no time of quiet goes by: it may need them all, and its end will say.
        """
        known = self._known.get(cluster)
        if known is None or self._just_done(cluster, known.looked_time, time):
            return
        known.looked_time = time
        live = self._live(cluster)
        self._restore(known, live, cluster, time)
        if all(one.rests() for one in live):
            self.see(cluster, time)
        elif any(self._is_late(one) for one in live):
            known.scaler.hold(time)

    def _restore(self, known: _Known, live: list[Query], cluster: Cluster, time: float) -> None:
        """The job's own number, where it stays unknown whether fewer do."""
        settings = self._replies.agreement(cluster).settings
        if not any(_works_unknown(one, settings) for one in live):
            known.unknown_time = None
            return
        if known.unknown_time is None:
            known.unknown_time = time
        wanted, own = known.scaler.wanted, known.own
        lasts = time - known.unknown_time >= settings.executors_quiet_seconds
        if lasts and wanted is not None and wanted < own:
            known.scaler.decide(
                own,
                own,
                known.told.present,
                time,
                settings,
                own=own,
                off_seconds=self._wakefulness.off_seconds,
            )

    def _just_done(self, cluster: Cluster, done_time: float | None, time: float) -> bool:
        """Whether what is asked of all queries of an application was asked a moment ago."""
        several = self._roster.count_in(cluster[0]) > 1
        return several and done_time is not None and 0.0 <= time - done_time < _TOGETHER_SECONDS

    def _is_late(self, query: Query) -> bool:
        # Where no batch can keep the target, one that takes as long as the last is not late.
        cycle = max(
            query.settings(self._policy).target_seconds,
            query.run.trigger_seconds,
            query.batch.seconds or 0.0,
        )
        return (query.running.seconds or 0.0) > LATE_CYCLES * cycle

    def see(self, cluster: Cluster, time: float) -> None:
        """After a batch that was looked at: what all queries of its application need together."""
        known = self._known.get(cluster)
        if known is None or not known.told.present or not known.told.slots:
            return
        if self._just_done(cluster, known.seen_time, time):
            return
        known.seen_time = time
        live = self._live(cluster)
        # One of which nothing is known, that never read a row, and has none to read, needs nothing.
        agreed = self._replies.agreement(cluster)
        settings = agreed.settings
        asking = [one for one in live if one.sizing.need is not None or not one.rests()]
        found = [
            one.sizing.need
            for one in asking
            if one.sizing.need is not None and (one.rests() or not _works_unknown(one, settings))
        ]
        if not found:
            return
        each = known.told.slots / known.told.present
        number = _executors(slots_of(found), each)
        roomy = _executors(slots_of(found, roomy=True), each)
        known.bound = bound_of(found, number, settings)
        scaler = known.scaler
        on_trial = any(need.on_trial for need in found)
        if scaler.wanted is not None and on_trial and scaler.waits(time, settings):
            scaler.hold(time)
            return
        moves = max([one.sizing.work.move_seconds for one in live])
        wanted = known.scaler.wanted
        # Where nothing is asked for, what was wanted counts as there.
        acts = self._acts(known, agreed)
        present = known.told.present if acts or wanted is None else wanted
        if len(found) < len(asking):
            # Of one query nothing is known yet: it may need whatever the others do not.
            roomy = max(roomy, present, known.own)
        elif any(_works_unknown(one, settings) for one in live):
            roomy = max(roomy, known.own)  # it rests, and what it needs then stays unknown
        # That more bring nothing to a sink that is full says nothing of one with room.
        in_vain = max([need.seen_from for need in found])
        roomy = max(roomy, min(_executors(in_vain, each), known.own))
        # What came in vain for one of several may have come for another.
        back = found[0].in_vain_from if len(live) == 1 else None
        known.scaler.decide(
            number,
            roomy,
            present,
            time,
            settings,
            own=known.own,
            off_seconds=self._wakefulness.off_seconds,
            move_seconds=moves,
            in_vain_from=None if back is None else _executors(back, each),
        )

    def asks(self, cluster: Cluster) -> bool:
        """Whether Weir asks for executors where they are on, as far as is known."""
        known = self._known.get(cluster)
        return known is None or known.asks

    @staticmethod
    def _acts(known: _Known, agreed: Agreement) -> bool:
        """Whether what is wanted is asked for: else it is only told."""
        return (agreed.mode, agreed.flaw) == ("on", "") and not known.told.note

    def order(self, cluster: Cluster, now: float) -> ExecutorsOrder | None:
        """What the driver is told; None: nothing, and what was asked for stays."""
        known = self._known.get(cluster)
        if known is None:
            return None
        agreed = self._replies.agreement(cluster)
        if self._deserted(known, cluster, now, lives=agreed.lives):
            return None
        known.asks = self._acts(known, agreed)
        if agreed.flaw and agreed.mode == "on":
            return None  # a slip of the pen takes nothing from a job
        if agreed.mode != "on":
            ours = known.told.asked is not None
            return ExecutorsOrder(None, self._policy.grant_seconds) if ours else None
        # It may have been lowered since, and what was asked for comes from an agent before.
        known.scaler.bound_to(agreed.settings, known.own)
        wanted = known.scaler.wanted
        if wanted is None or known.told.note:
            return None
        if known.told.asked is None and (known.told.configured is None or wanted == known.own):
            return None  # while it comes up, or as it is: nothing of ours need be in force
        return ExecutorsOrder(wanted, self._policy.grant_seconds)

    def _deserted(self, known: _Known, cluster: Cluster, now: float, *, lives: bool) -> bool:
        """Whether no query lives, and one may come back: a restart finds what it left."""
        if lives:
            known.deserted_time = None
            return False
        if known.deserted_time is None:
            known.deserted_time = now
        quiet = max(
            (
                one.settings(self._policy).executors_quiet_seconds
                for one in self._roster.of_cluster(cluster)
            ),
            default=self._policy.default.executors_quiet_seconds,
        )
        if now - known.deserted_time < quiet:
            return True
        known.scaler = Scaler()  # who comes later finds the job as it is without us
        return False

    def view(self, query: Query) -> ExecutorsView | None:
        """What is shown; None where the driver tells nothing of executors."""
        cluster = query.cluster
        known = self._known.get(cluster)
        if known is None:
            return None
        agreed = self._replies.agreement(cluster)
        mode, flaw = agreed.mode, agreed.flaw
        told, need, work = known.told, query.sizing.need, query.sizing.work
        last, vain = work.brought, None
        if last is not None and in_vain(last):
            vain = InVain(last.before, last.slots, last.rows_ratio)
        return ExecutorsView(
            mode="dry-run" if mode == "on" and not self._acts(known, agreed) else mode,
            present=told.present,
            slots=told.slots,
            wanted=known.scaler.wanted,
            asked=told.asked,
            note=told.note or (flaw if mode != "off" else ""),
            bound=known.bound,
            gain=None if need is None else need.gain,
            contention=work.contention if work.samples else None,
            contention_doubt=work.contention_doubt if work.samples else None,
            task_seconds=work.task_seconds if work.samples else None,
            longest_seconds=work.longest_seconds if work.samples else None,
            driver_seconds=work.driver_seconds if work.samples else None,
            in_vain=vain,
        )

    def line(self, query: Query) -> ExecutorsLine | None:
        """The same for a line of each event: what changes with it."""
        known = self._known.get(query.cluster)
        if known is None:
            return None
        # What was wanted before is of another load, where nobody knows what arrives now.
        wanted = None if query.untold() else known.scaler.wanted
        return ExecutorsLine(known.told.present, wanted, known.bound)

    def keep(self, clusters: set[Cluster]) -> None:
        """Forgets all but these; of a driver that told no host all of its application."""
        applications = {application_id for application_id, _ in clusters}
        for cluster in [*self._known]:
            if cluster not in clusters and (cluster[1] or cluster[0] not in applications):
                del self._known[cluster]

    def _live(self, cluster: Cluster) -> list[Query]:
        return [
            one
            for one in self._roster.of_cluster(cluster)
            if not one.life.terminated and one.life.gone_since_time is None
        ]
