"""The pool of an application: its laws, and two queries that really slow each other."""

from __future__ import annotations

import heapq
import math
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.decide.pool import (
    EXCLUSIVE_SHARE,
    SLACK,
    Member,
    Members,
    Part,
    _level,
    company,
    part_of,
)
from agent.core.decode.events import Application, Listener, Request, decode_event
from agent.core.fleet import Fleet
from agent.core.policy import Policy, QueryPolicy
from spark_listener.wire import format_time

MEMBER = st.builds(
    Member,
    wanted=st.floats(min_value=0.0, max_value=1.0),
    company=st.floats(min_value=1.0, max_value=20.0),
    granted=st.booleans(),
)
MEMBERS = st.lists(MEMBER, min_size=1, max_size=12)
TOTAL = st.floats(min_value=0.1, max_value=20.0)


# -- the whole, of which ``part_of`` works out one part from sums ---------------------------------


def digestible(members: list[Member]) -> float:
    """The sum of busy shares that is known to be digestible; at least one query's."""
    weight = sum(member.wanted for member in members)
    if weight <= 0.0:
        return SLACK
    together = sum(member.wanted * member.company for member in members) / weight
    return SLACK * max(together, 1.0)


def share(total: float, members: list[Member]) -> list[Part]:
    """Shares the pool: everyone's need where it is enough for all, else max-min fairly.

    The parts of those granted add up to at most ``total`` less what the others take, but each may
    have its exclusive part; none gets more than it wants; who wants more never gets less.
    """
    count = len(members)
    if count == 0:
        return []
    own = EXCLUSIVE_SHARE * total / count
    left = total - sum(member.wanted for member in members if not member.granted)
    left = max(left, own * sum(member.granted for member in members))
    level = _level(left, sorted(member.wanted for member in members if member.granted))
    parts = []
    for member in members:
        taken = min(member.wanted, level) if member.granted else member.wanted
        exclusive = min(taken, own)
        parts.append(Part(exclusive, taken - exclusive))
    return parts


@pytest.mark.parametrize(
    ("total", "wanted", "granted"),
    [
        (2.0, [1.0, 0.5], [1.0, 0.5]),  # enough for all
        (1.0, [1.0, 1.0], [0.5, 0.5]),
        (1.0, [1.0, 0.2], [0.8, 0.2]),  # who needs less leaves the rest floating
        (1.5, [1.0, 1.0, 0.1], [0.7, 0.7, 0.1]),
        (1.0, [0.0, 0.0], [0.0, 0.0]),
    ],
)
def test_a_pool_is_shared_by_need(total: float, wanted: list[float], granted: list[float]) -> None:
    parts = share(total, [Member(want, 1.0) for want in wanted])
    assert [part.share for part in parts] == pytest.approx(granted)


@given(TOTAL, MEMBERS)
def test_no_more_is_granted_than_there_is(total: float, members: list[Member]) -> None:
    parts = share(total, members)
    own = EXCLUSIVE_SHARE * total / len(members)
    steered = [part for part, member in zip(parts, members, strict=True) if member.granted]
    taken = sum(member.wanted for member in members if not member.granted)
    left = max(total - taken, own * len(steered))
    assert sum(part.share for part in steered) <= left + 1e-9
    for part, member in zip(parts, members, strict=True):
        assert part.exclusive >= 0.0
        assert part.floating >= -1e-12
        assert part.share <= member.wanted + 1e-12


@given(TOTAL, MEMBERS)
def test_nobody_starves(total: float, members: list[Member]) -> None:
    own = EXCLUSIVE_SHARE * total / len(members)
    for part, member in zip(share(total, members), members, strict=True):
        assert part.share >= min(member.wanted, own) - 1e-9


@given(TOTAL, MEMBERS)
def test_nothing_is_kept_back_from_who_wants_it(total: float, members: list[Member]) -> None:
    members = [Member(member.wanted, member.company) for member in members]
    granted = sum(part.share for part in share(total, members))
    assert granted == pytest.approx(min(total, sum(member.wanted for member in members)))


@given(TOTAL, MEMBERS, st.floats(min_value=0.0, max_value=1.0), st.integers(min_value=0))
def test_who_wants_more_never_gets_less(
    total: float, members: list[Member], more: float, pick: int
) -> None:
    index = pick % len(members)
    one = members[index]
    wider = [*members]
    wider[index] = Member(min(one.wanted + more, 1.0), one.company, one.granted)
    before, after = share(total, members), share(total, wider)
    assert after[index].share >= before[index].share - 1e-9
    for place, member in enumerate(members):
        if place != index and member.granted:
            assert after[place].share <= before[place].share + 1e-9


@given(TOTAL, MEMBERS)
def test_equal_needs_get_equal_shares_in_any_order(total: float, members: list[Member]) -> None:
    there = share(total, members)
    back = share(total, members[::-1])[::-1]
    for one, two in zip(there, back, strict=True):
        assert one.share == pytest.approx(two.share, abs=1e-12)


@given(st.lists(st.floats(min_value=0.01, max_value=1.0), min_size=1, max_size=10))
def test_at_rest_nothing_binds_and_nothing_moves(busy: list[float]) -> None:
    """Each learned its cost beside all the others: what they want together is digestible."""
    beside = [1.0 + sum(busy) - own for own in busy]
    members = [Member(own, seen) for own, seen in zip(busy, beside, strict=True)]
    for _ in range(3):
        parts = share(digestible(members), members)
        assert [part.share for part in parts] == pytest.approx(busy)
        members = [
            Member(part.share, company(member.company, 1.0 + sum(busy) - part.share, changed=False))
            for part, member in zip(parts, members, strict=True)
        ]


def test_what_nobody_saw_together_is_not_granted_together() -> None:
    alone = [Member(1.0, 1.0), Member(1.0, 1.0)]
    assert digestible(alone) == pytest.approx(SLACK)
    assert [part.share for part in share(digestible(alone), alone)] == pytest.approx([0.55, 0.55])


def test_beside_one_that_nobody_limits_a_query_keeps_half_of_an_even_share() -> None:
    """That one takes the whole cluster; of two an even share would be a half."""
    pool = Members(15.0)
    pool.put(("shop", "free"), Member(1.0, 1.0, granted=False), 1.0, 0.0)
    part = part_of(Member(1.0, 1.0), pool.beside(("shop", "steered"), 0.0))
    assert part.share == pytest.approx(0.5 * 0.5, rel=0.15)
    assert part.floating == 0.0


def test_neighbours_that_ended_are_forgotten_in_a_few_batches_and_a_gap_of_theirs_is_none() -> None:
    """A query learned its cost beside three others."""
    seen = company(4.0, 1.0, changed=False)
    assert seen >= 2.5, "they only paused between two batches"
    for _ in range(3):
        seen = company(seen, 1.0, changed=False)
    assert seen <= 1.3


# -- two queries on one cluster: each batch is slowed by those that run beside it -----------------

FIXED, SLOPE, TARGET = 0.5, 1e-4, 5.0


class Cluster:
    """Queries whose batches take ``(c0 + n / mu)`` times those running when each begins."""

    def __init__(self, *, pooled: bool, spells: dict[str, list[tuple[float, float]]]) -> None:
        policy = Policy(default=QueryPolicy(target_seconds=TARGET))
        self.fleet = Fleet(policy, started_time=0.0)
        self.pooled = pooled
        self.spells = spells  # when each has a backlog without end
        self.limits = dict.fromkeys(spells, 10_000)
        self.admitted = dict.fromkeys(spells, 0)
        self.batches: list[tuple[str, float, float, int]] = []
        self.running: dict[str, float] = {}
        self.sequence = 0
        self.random = random.Random(7)

    def send(self, name: str, kind: str, time: float, *, driver: str = "", **more: Any) -> None:
        self.sequence += 1
        # Without a pool each query stands in an application of its own.
        application = "shared" if self.pooled else name
        body = {"id": f"id-{name}", "runId": f"run-{name}", "name": name, **more.pop("body", {})}
        event = {"type": kind, "time": format_time(1e9 + time), "body": body, **more}
        typed = decode_event(event, self.sequence)
        request = Request(
            Application(id=application, name=application, spark_version=""),
            Listener(instance=application + driver),
            [(0, typed)],
            [],
        )
        receipt = self.fleet.receive(request, now=typed.time)
        for grant in receipt.grants:
            if grant.limit is not None:
                self.limits[grant.id.removeprefix("id-")] = grant.limit

    def seen(self) -> dict[str, int]:
        """Of each query, how many it sees beside it."""
        beside = self.fleet._state.pools.beside
        found = {query.key[1]: beside(query) for query in self.fleet._roster}
        return {name: 0 if one is None else one.count for name, one in found.items()}

    def run(self, until: float) -> None:
        waiting: list[tuple[float, str, str, Any]] = []
        number = dict.fromkeys(self.spells, 0)
        for name, spells in self.spells.items():
            self.send(
                name,
                "started",
                spells[0][0],
                body={"trigger": "ProcessingTimeTrigger(0)", "control": "live"},
            )
            for begin, _ in spells:
                heapq.heappush(waiting, (begin, "begin", name, None))
        while waiting:
            now, what, name, batch = heapq.heappop(waiting)
            if now > until:
                break
            if what == "end":
                began, rows, limit = batch
                del self.running[name]
                self.batches.append((name, began, now - began, rows))
                milliseconds = round((now - began) * 1000)
                self.send(
                    name,
                    "progress",
                    now,
                    body={
                        "timestamp": format_time(1e9 + began),
                        "batchId": number[name],
                        "durationMs": {"addBatch": milliseconds, "triggerExecution": milliseconds},
                        "numInputRows": rows,
                        "sources": [{"description": "s", "numInputRows": rows}],
                    },
                    limits=[
                        {
                            "source": 0,
                            "unit": "rows",
                            "limit": limit,
                            "configured": None,
                            "backlog": 10**9 - self.admitted[name],
                        }
                    ],
                )
                number[name] += 1
            if any(begin <= now < end for begin, end in self.spells[name]):
                rows = limit = self.limits[name]
                self.admitted[name] += rows
                beside = 1 + len(self.running)
                noise = math.exp(self.random.gauss(0.0, 0.05))
                seconds = (FIXED + SLOPE * rows) * beside * noise
                self.running[name] = now
                heapq.heappush(waiting, (now + seconds, "end", name, (now, rows, limit)))
            elif what == "end":
                self.send(name, "idle", now + 0.1)


def seconds_of(cluster: Cluster, name: str, begin: float, end: float) -> list[float]:
    return [s for who, at, s, _ in cluster.batches if who == name and begin <= at < end]


SPELLS = {"old": [(0.0, 900.0)], "new": [(300.0, 600.0)]}


def test_a_query_that_joins_does_not_make_the_other_ones_batches_long() -> None:
    longest = {}
    for pooled in (True, False):
        cluster = Cluster(pooled=pooled, spells=SPELLS)
        cluster.run(900.0)
        after = seconds_of(cluster, "old", 300.0, 360.0)
        longest[pooled] = max(after)
        settled = seconds_of(cluster, "old", 400.0, 590.0)
        assert sum(0.7 * TARGET <= one <= 1.3 * TARGET for one in settled) > 0.9 * len(settled)
    assert longest[True] <= longest[False]


def test_both_are_digested_nobody_starves_and_at_rest_limits_stay() -> None:
    cluster = Cluster(pooled=True, spells=SPELLS)
    cluster.run(900.0)
    for name in SPELLS:
        rows = [n for who, at, _, n in cluster.batches if who == name and 400.0 <= at < 590.0]
        assert min(rows) > 0.5 * (TARGET / 2 - FIXED) / SLOPE  # half a cluster's worth
        assert max(rows) < 1.3 * min(rows)  # no oscillation
    alone = [n for who, at, _, n in cluster.batches if who == "old" and at >= 700.0]
    assert min(alone) > 0.75 * (TARGET - FIXED) / SLOPE  # what floats comes back
    done = sum(n for _, at, _, n in cluster.batches if 400.0 <= at < 590.0)
    assert done > 0.8 * 190.0 / (SLOPE + FIXED * SLOPE / (TARGET / 2 - FIXED))


@given(st.lists(MEMBER, min_size=2, max_size=8), st.data())
def test_a_part_from_sums_is_the_part_of_the_whole(members: list[Member], data: Any) -> None:
    """For any one granted query, whether or not the pool knows it, and as it was then."""
    place = data.draw(st.integers(0, len(members) - 1))
    me = msgspec.structs.replace(members[place], granted=True)
    now = [*members[:place], me, *members[place + 1 :]]
    whole = share(digestible(now), now)[place]
    then = data.draw(st.sampled_from([None, members[place], me]))
    pool = Members(15.0)
    for n, one in enumerate(members):
        if n != place:
            pool.put(("a", str(n)), one, 0.5, 0.0)
    if then is not None:
        pool.put(("a", str(place)), then, 0.25, 0.0)
    beside = pool.beside(("a", str(place)), 0.0)
    assert beside.busy == pytest.approx(0.5 * (len(members) - 1))
    part = part_of(me, beside)
    assert part.share == pytest.approx(whole.share)
    assert part.exclusive == pytest.approx(whole.exclusive)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.none() | MEMBER,  # none: it ends
            st.floats(min_value=0.0, max_value=1.0),
            st.floats(min_value=-5.0, max_value=20.0),  # clocks of drivers run backwards, too
        ),
        max_size=40,
    ),
    st.randoms(use_true_random=False),
)
def test_made_anew_it_says_the_same_to_the_last_bit(
    events: list[tuple[int, Member | None, float, float]], order: random.Random
) -> None:
    """What an agent makes of its saved queries after a restart is what it had before it."""
    grown, time = Members(15.0), 100.0
    saved: dict[tuple[str, str], tuple[Member | None, float, float]] = {}
    for number, member, busy, passed in events:
        time += passed
        key = ("a", str(number))
        newest = max(time, saved[key][2]) if key in saved else time
        grown.beside(key, newest)  # it is looked at in between
        saved[key] = (member, busy, newest)
        if member is None:
            grown.remove(key, newest)
        else:
            grown.put(key, member, busy, newest)
    anew = Members(15.0)
    for key, (member, busy, newest) in order.sample(sorted(saved.items()), len(saved)):
        if member is None:
            anew.remove(key, newest)
        else:
            anew.put(key, member, busy, newest)
    for number in range(6):
        key = ("a", str(number))
        said = [msgspec.to_builtins(one.beside(key, time)) for one in (grown, anew)]
        assert said[0] == said[1]
        newest_of_all = max((at for _, _, at in saved.values()), default=time)
        assert said[0]["count"] == sum(
            member is not None and at >= max(newest_of_all, time) - 15.0
            for other, (member, _, at) in saved.items()
            if other != key
        )


def test_who_starts_and_ends_again_and_again_costs_no_memory() -> None:
    pool = Members(1e9)
    for time in range(1000):
        pool.put(("a", "b"), Member(0.5, 1.0), 0.5, float(time))
        pool.remove(("a", "b"), float(time))
    assert len(pool._oldest) == 1
    assert pool.beside(("a", "c"), 0.0).count == 0


@pytest.mark.parametrize("step", [60.0, -60.0])
def test_queries_of_one_driver_see_each_other_whatever_its_clock_was_set_by(step: float) -> None:
    """Also one that begins after it was set, for which it was not."""
    cluster = Cluster(pooled=True, spells={})
    ahead = 0.0

    def tell(name: str, kind: str, time: float, **more: Any) -> None:
        more["clock_origin"] = 1e9 - 4321.0 + ahead
        cluster.send(name, kind, time + ahead, **more)

    start = {"body": {"trigger": "ProcessingTimeTrigger(0)", "control": "live"}}
    for time, name in enumerate("abc"):
        tell(name, "started", float(time), **start)
    assert cluster.seen() == {"a": 2, "b": 2, "c": 2}
    ahead = step
    for time, name in enumerate("abc", start=3):
        tell(name, "idle", float(time))
    tell("d", "started", 6.0, **start)
    for now in range(7, 40, 4):  # longer than one may be silent
        for time, name in enumerate("abcd", start=now):
            tell(name, "idle", float(time))
            assert cluster.seen() == {"a": 3, "b": 3, "c": 3, "d": 3}


def test_a_second_attempt_on_another_machine_does_not_count_who_ran_on_the_first() -> None:
    """It has the application's id, and a clock that began at another time."""
    cluster = Cluster(pooled=True, spells={})

    def tell(name: str, kind: str, time: float, up_seconds: float, **more: Any) -> None:
        more["clock_origin"] = 1e9 - up_seconds
        cluster.send(name, kind, time, driver=str(up_seconds), **more)

    start = {"body": {"trigger": "ProcessingTimeTrigger(0)", "control": "live"}}
    for name in "abc":
        tell(name, "started", 1.0, 5e6, **start)
    assert cluster.seen() == {"a": 2, "b": 2, "c": 2}
    for name in "abd":
        run = {"body": {**start["body"], "runId": f"again-{name}"}}
        tell(name, "started", 40.0, 1000.0, **run)
    found = cluster.seen()
    assert (found["a"], found["b"], found["d"]) == (2, 2, 2)
