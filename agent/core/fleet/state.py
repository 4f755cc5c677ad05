"""What a fleet is made of, and which parts of it are saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.core.fleet.brokers import BrokersWord
from agent.core.fleet.clusters import Clusters
from agent.core.fleet.liveness import Wakefulness
from agent.core.fleet.orders import Standing
from agent.core.fleet.pools import Pools
from agent.core.fleet.replies import Replies
from agent.core.fleet.roster import Roster
from agent.core.fleet.saved import (
    AGENT_PART,
    NO_STATE,
    Change,
    Changed,
    check_read,
    encode,
    key_of,
    ordered_by_later,
    ordered_of,
    part_of_query,
    query_of,
)
from agent.core.fleet.senders import Sender, Senders

if TYPE_CHECKING:
    from agent.core.judge.alignment import AlignmentView
    from agent.core.policy import Policy
    from agent.core.query import Key, Query


class AgentTotals(msgspec.Struct):
    """Counters of the agent as a whole; they survive restarts."""

    events: dict[str, int] = {}  # by type, each event once
    refused: dict[str, int] = {}  # by reason: malformed, cardinality
    duplicates: int = 0  # resent events that were already counted
    name_collisions: int = 0


class Agent(msgspec.Struct):
    """What is of no single query: the counters, and orders for queries that come later."""

    totals: AgentTotals = msgspec.field(default_factory=AgentTotals)
    standing: list[Standing] = []


_decode_sender: Final = msgspec.msgpack.Decoder(Sender).decode
_decode_agent: Final = msgspec.msgpack.Decoder(Agent).decode


class State:
    """Who is known, who speaks, what was ordered and what is granted; each part has its file."""

    def __init__(self, policy: Policy, *, started_time: float, names_stay: bool = False) -> None:
        """``names_stay``: a run keeps the name that it began with; see ``Roster``."""
        self.policy = policy
        self.agent = Agent()
        self.changed = Changed()
        self.wakefulness = Wakefulness(policy, started_time)
        self.roster = Roster(policy, self.changed, self.wakefulness, names_stay=names_stay)
        self.turned_away = False  # somebody, for want of room, since the last look at the clock
        self.senders = Senders(policy)
        self.pools = Pools(self.roster, policy)
        self.brokers = BrokersWord()
        self.logs_behind: set[str] = set()  # instances
        self.replies = Replies(self.roster, policy)
        self.clusters = Clusters(self.roster, self.replies, policy, self.wakefulness)
        self.alignments: dict[Key, tuple[str, AlignmentView]] = {}  # by the run they are of
        self.unreadable: dict[str, str] = {}  # parts of what was saved, and why
        self.learned_anew: dict[str, str] = {}  # parts of which only orders were read, and why

    def see(self, query: Query) -> None:
        """A query as it is now."""
        self.pools.see(query)
        self.replies.see(query)

    def regroup(self, application_ids: set[str]) -> None:
        """Others run in these applications now."""
        self.pools.forget(application_ids)
        self.replies.forget(application_ids)

    def told_late(self) -> set[str]:
        """Applications whose event logs are not read to their end."""
        senders = map(self.senders.get, self.logs_behind)
        return {sender.application_id for sender in senders if sender is not None}

    def follow(self, before: State) -> None:
        """Takes over what is not saved, and was said to another that this one is put back for."""
        self.brokers = before.brokers
        self.logs_behind = before.logs_behind
        self.alignments = before.alignments

    # -- saved ------------------------------------------------------------------------------

    def changes(self) -> list[Change]:
        """The saved form of every part that changed since the last call; write them atomically."""
        changed, forgotten = self.changed.take()
        saved = [Change(part, self._encoded(part)) for part in changed]
        saved.extend(Change(part, None) for part in forgotten)
        return saved

    def _encoded(self, part: str) -> bytes:
        kind, _, rest = part.partition(":")
        if kind == "query":
            return encode(self.roster[key_of(rest)])
        if kind == "parked":
            return self.roster.parked.saved(rest)
        if kind == "listener":
            return encode(self.senders[rest])
        return encode(self.agent)

    def wrote(self, changes: list[Change]) -> None:
        """Notes that they are written: only now is a query that was let go of gone for good.

        Where that fails the query is put back, and what was said of it goes on.
        """
        for change in changes:
            kind, _, rest = change.part.partition(":")
            if kind == "query" and change.data is None:
                self.alignments.pop(key_of(rest), None)
                self.brokers.forget(key_of(rest))

    def put(self, part: str, data: bytes) -> None:
        """A part as it was saved. Raises one of ``NO_STATE`` where it cannot be read."""
        kind, _, rest = part.partition(":")
        if kind == "query":
            try:
                query = query_of(data)
            except NO_STATE:
                query, self.learned_anew[part] = ordered_of(data)
                self.changed.touch(part_of_query(query.key))  # so it is said once
            self.roster.put(query)
        elif kind == "parked":
            self.roster.parked.restore(rest, data)
        elif kind == "listener":
            self.senders.put(rest, _decode_sender(data))
        elif kind == "agent":
            self.agent = _decode_agent(data)

    def put_orders(self, part: str, data: bytes) -> None:
        """Of a part that a later version wrote what was ordered, and of whom.

        Raises one of ``NO_STATE`` where that cannot be read as a whole.
        """
        kind = part.partition(":")[0]
        if kind in ("listener", "parked"):
            return  # they hold none
        if kind == "query":
            query = ordered_by_later(data)
            self.roster.put(query)
            self.changed.touch(part_of_query(query.key))
        elif kind == "agent":
            self.agent.standing = _standing_by_later(data)
            self.changed.touch(AGENT_PART)
        else:
            raise ValueError("not known here")

    def date_orders(self, time: float) -> None:
        """Orders that an older agent saved without their time: since now at the latest."""
        self.agent.standing = [
            one if one.time is not None else msgspec.structs.replace(one, time=time)
            for one in self.agent.standing
        ]
        for query in self.roster:
            given = query.orders
            if given.mode is not None and given.mode_by is None and given.mode_time is None:
                given.mode_time = time


def _standing_by_later(data: bytes) -> list[Standing]:
    raw = msgspec.msgpack.decode(data, type=dict[str, Any])
    standing = _decode_agent(data).standing
    # Beside them may stand orders of a kind that is not known here; the counters are none.
    check_read({name: raw[name] for name in raw if name != "totals"}, {"standing": standing})
    return standing
