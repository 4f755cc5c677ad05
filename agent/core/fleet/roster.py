"""Who is who: which series an event belongs to, over runs, restarts, and others of its name."""

from __future__ import annotations

from copy import deepcopy
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple, Protocol

from agent.core.decode.events import StartedEvent
from agent.core.fleet.parked import Parked
from agent.core.fleet.saved import part_of_query
from agent.core.fleet.senders import beside_name
from agent.core.judge.lag_state import LagWindow
from agent.core.judgement import Totals
from agent.core.measure.occupancy import Occupancy
from agent.core.names import label
from agent.core.query import MOST_PAST_RUNS, Query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.core.decode.events import Application
    from agent.core.fleet.liveness import Wakefulness
    from agent.core.fleet.saved import Changed
    from agent.core.policy import Policy
    from agent.core.query import Cluster, Key, Run


class Named(Protocol):
    """What an event says of the query that it is about."""

    @property
    def id(self) -> str:
        """Spark's id of the query: of its checkpoint."""
        ...

    @property
    def run_id(self) -> str:
        """Spark's id of the run."""
        ...

    @property
    def name(self) -> str | None:
        """The query's own name, where the event tells it."""
        ...


class RosterFull(Exception):  # noqa: N818
    """No room for one more query."""


class Found(NamedTuple):
    """Whom an event is about."""

    query: Query
    moved: frozenset[str] = frozenset()  # applications: who is in them has changed by it
    created: bool = False  # never heard of
    renamed: bool = False  # known of an application of another name, and its orders with it
    beside: Query | None = None  # the live query that has its name: it got one made for it


class Roster:
    """All queries, by the names of their series and by the ids that Spark gave them."""

    def __init__(
        self,
        policy: Policy,
        changed: Changed,
        wakefulness: Wakefulness,
        *,
        names_stay: bool = False,
    ) -> None:
        """``names_stay``: a run keeps the name that it began with, whichever is free by now.

        For who keeps what was told under a name, and not how things stand under it.
        """
        self._policy = policy
        self._names_stay = names_stay
        self._changed = changed
        self._wakefulness = wakefulness
        self._queries: dict[Key, Query] = {}
        self.parked = Parked(changed)
        self._keys: dict[str, dict[str, Key]] = {}  # application id → Spark query id → key

    def __len__(self) -> int:
        return len(self._queries)

    def __contains__(self, key: Key) -> bool:
        return key in self._queries

    def __getitem__(self, key: Key) -> Query:
        return self._queries[key]

    def __iter__(self) -> Iterator[Query]:
        return iter(self._queries.values())

    def get(self, key: Key) -> Query | None:
        """The query of a series, where there is one."""
        return self._queries.get(key)

    def keys(self) -> list[Key]:
        """Of all queries, in order."""
        return sorted(self._queries)

    def put(self, query: Query) -> None:
        """As it was saved."""
        self._queries[query.key] = query
        for run in (*query.displaced, query.run):
            self._keys.setdefault(run.application_id, {})[run.query_id] = query.key

    def known(self, application_id: str, query_id: str) -> Query | None:
        """The query of an application by the id that Spark gave it."""
        key = self._keys.get(application_id, {}).get(query_id)
        return None if key is None else self._queries.get(key)

    def of_run(self, application_id: str, subject: Named) -> Query | None:
        """The same, or the one before it that began as the run: it had another name, or none."""
        query = self.known(application_id, subject.id)
        if query is None or subject.run_id in (query.run.run_id, *query.run.past_runs):
            return query
        for one in self:
            run = one.run
            same = (run.application_id, run.query_id) == (application_id, subject.id)
            if same and subject.run_id in (run.run_id, *run.past_runs):
                return one
        return query

    def beside(self, key: Key) -> list[Query]:
        """The other ones of a name, each under one that was made for it."""
        return [one for one in self if one.aside and one.own_key == key]

    def count_in(self, application_id: str) -> int:
        """Query ids known of an application: at least as many as its queries."""
        return len(self._keys.get(application_id, {}))

    def knows(self, application: Application) -> bool:
        """Whether any query is known of an application, or of one before it by its name."""
        if self._keys.get(application.id):
            return True
        names = (label(application.name), beside_name(application))
        return any(key[0] in names for key in self._queries)

    def of_application(self, application_id: str) -> Iterator[Query]:
        """The queries that run in an application."""
        for key in dict.fromkeys(self._keys.get(application_id, {}).values()):
            query = self._queries.get(key)
            if query is not None and query.run.application_id == application_id:
                yield query

    def of_cluster(self, cluster: Cluster) -> Iterator[Query]:
        """The queries that run on a cluster, and those that may, as nobody told where."""
        application_id, host = cluster
        for query in self.of_application(application_id):
            if not host or query.run.host in ("", host):
                yield query

    def applications(self) -> set[str]:
        """The ids of applications that queries run in."""
        return {query.run.application_id for query in self}

    def matching(self, application: str, query: str) -> list[Query]:
        """Those that two patterns name."""
        return [one for one in self if names(application, query, one)]

    def find(
        self, application: Application, subject: Named, now: float, *, beats: bool = False
    ) -> Found:
        """Whom an event is about. Raises RosterFull where that is one too many.

        ``beats``: it is a driver's heartbeat, which tells what runs now.
        """
        ids = self._keys.setdefault(application.id, {})
        key = ids.get(subject.id)
        query = None if key is None else self._queries.get(key)
        if query is not None and beats and query.displaced:
            run = self._lives_on(query, application, subject, now)
            if run is not None:
                return self._give_back(query, run, now)
        if query is not None and subject.run_id in query.run.past_runs:
            return Found(query)  # a late word
        of_run = self.of_run(application.id, subject)
        if of_run is not None and of_run is not query:
            return Found(of_run)
        # Idle and terminated events carry no name: what was learned of the id holds.
        name = subject.name
        renamed = (
            query is not None
            and name
            and name != query.name_label  # nearly always: a label is its own label
            and query.name_label != label(name)
        )
        if (
            query is not None
            and query.aside
            and not renamed
            and not (self._names_stay and subject.run_id == query.run.run_id)
            and self._is_free(query, application, now)
        ):
            found = self._take_up(query, application, now)
            ids[subject.id] = query.key
            return found
        here = query is not None and query.run.application_id == application.id
        if query is not None and here and not renamed and not self._displaced(subject, query, now):
            return Found(query)
        named = subject.name or (subject.id if query is None else query.name_label)
        found = self._claim(application, subject, label(named), now)
        before, key = key, found.query.key
        ids[subject.id] = key
        if before != key:
            found = found._replace(moved=found.moved | {application.id})
        same = [of for of, other in ids.items() if other == key]
        for of in same[:-MOST_PAST_RUNS]:
            del ids[of]
        return found

    def _alive(self, query: Query, now: float) -> bool:
        return not query.life.terminated and not self._wakefulness.is_silent(query, now)

    def _displaced(self, subject: Named, query: Query, now: float) -> bool:
        """Whether a query starts again whose name another one has taken up, which lives."""
        if query.run.query_id in (subject.id, "") or not self._alive(query, now):
            return False
        return subject.run_id != query.run.run_id

    def _is_free(self, query: Query, application: Application, now: float) -> bool:
        """Whether a query beside another of its name may take that, since the other is gone.

        One that nobody stopped keeps it until it is back or retired: else its end would go untold.
        A run of its own checkpoint that it overlapped with for long is that one, back.
        """
        plain = self._queries.get((label(application.name), query.name_label))
        if plain is None:
            return True
        back = self._alive(query, now) and query.run.checkpoint == plain.run.checkpoint
        unmissed = plain.life.stopped or not plain.life.terminated or back
        return plain is not query and unmissed and not self._alive(plain, now)

    def _lives_on(
        self, query: Query, application: Application, subject: Named, now: float
    ) -> Run | None:
        """The run that speaks, where another application's has taken its place and both live.

        At a restart the old driver may still be heard for a moment. One that is after the time in
        which it would count as gone runs on.
        """
        heard = now if self._wakefulness.was_deaf(now) else self._wakefulness.awake_time
        for run in query.displaced:
            since = max(run.displaced_time, heard)
            if (run.run_id, run.application_id) == (subject.run_id, application.id):
                return run if now - since > self._policy.silent_seconds else None
        return None

    def _give_back(self, query: Query, run: Run, now: float) -> Found:
        """Two drivers run one query id, as its checkpoint was copied: the first one has its name.

        The later one goes on as a second one of it, with all that is known and as it was ordered.
        """
        if len(self._queries) >= self._policy.max_queries:
            raise RosterFull
        place = query.displaced.index(run)
        query.run.past_runs = [one for one in query.run.past_runs if one != run.run_id]
        second = deepcopy(query)
        second.displaced, query.displaced = query.displaced[place + 1 :], query.displaced[:place]
        second.orders.borrowed = True
        run.past_runs, run.run_id = query.run.past_runs, ""  # its next word begins it
        query.run = run
        query.batch.id = query.read = None  # which may be the other one's
        query.watched.lag_window = LagWindow()
        query.running.nothing()
        self._set_aside(second, query, now)
        for later in second.displaced:
            self._keys.setdefault(later.application_id, {})[later.query_id] = second.key
        moved = frozenset(
            {one.application_id for one in (run, second.run, *second.displaced)},
        )
        return Found(query, moved, beside=second)

    def _take_up(self, query: Query, application: Application, now: float) -> Found:
        """Gives a query its plain name: what is known of it and was ordered goes with it.

        Counters go on from those of the name, as over any restart, and what was ordered of the name
        holds as far as nothing was of this query.
        """
        key = label(application.name), query.name_label
        plain = self._queries.get(key)
        self._move(query, key, now)
        query.aside = False
        moved = {application.id}
        if plain is not None:
            moved.add(plain.run.application_id)
            query.totals = plain.totals
            query.flow.occupancy.count_on(plain.flow.occupancy)
            query.orders.follow(plain.orders)
            over = plain.life.terminated
            if not (over or query.orders.heed(plain.orders)):
                self._set_aside(plain, query, now)
            elif plain.run.query_id == query.run.query_id:  # a restart: what it says is late
                plain.take_over(query.run.application_id, query.run.query_id, now)
                over = True
            # One of another id that fell silent may speak again: it is a second one, and not late.
            past = [*plain.run.past_runs, *query.run.past_runs, plain.run.run_id if over else ""]
            query.run.past_runs = [run_id for run_id in past if run_id][-MOST_PAST_RUNS:]
            if plain.run.query_id == query.run.query_id:
                query.displaced = [*plain.displaced, *query.displaced][-MOST_PAST_RUNS:]
        return Found(query, frozenset(moved), created=plain is None)

    def _set_aside(self, silent: Query, first: Query, now: float) -> None:
        """One that only fell silent has lost its name to one that does not obey its orders.

        With them it goes on as the second one of it; counters of the new name begin at zero.
        """
        run = silent.run
        beside = label(f"{silent.own_key[0]}-{run.application_id}")
        key = self._made_name(run.application_id, run.query_id, beside, first, now)
        silent.application, silent.query = key
        silent.aside = True
        silent.totals = Totals()
        silent.flow.occupancy.count_on(Occupancy())
        self._queries[key] = silent
        self._keys.setdefault(run.application_id, {})[run.query_id] = key
        self._changed.touch(part_of_query(key))

    def _move(self, query: Query, key: Key, now: float) -> None:
        """A query goes by another name. The series that was made for it alone ends here."""
        left = Query(query.application, query.query, query.name_label, aside=True)
        left.life.terminated = left.life.stopped = True  # forgotten with the next look at the clock
        left.life.gone_since_time = now - self._policy.forget_seconds - 1.0
        self._queries[left.key] = left
        query.application, query.query = key
        self._queries[key] = query
        for ids in self._keys.values():
            ids.update({of: key for of, before in ids.items() if before == left.key})
        for one in (left.key, key):
            self._changed.touch(part_of_query(one))

    def _made_name(
        self, application_id: str, query_id: str, beside: str, first: Query, now: float
    ) -> Key:
        """For one whose name a ``first`` one has: with its id, or that of its application.

        The name with the application's, ``beside``, may be that of another of its sessions.
        """
        with_id = label(f"{first.query}-{query_id}")
        if first.run.application_id == application_id:
            return first.application, with_id
        there = self._queries.get((beside, first.query))
        if there is None or (
            there is not first
            and (there.run.query_id in (query_id, "") or not self._alive(there, now))
        ):
            return beside, first.query
        return beside, with_id

    def _claim(self, application: Application, subject: Named, named: str, now: float) -> Found:
        """The series for a query: its own name's, unless a second live query has that.

        The same query id is the same checkpoint, or a copy of it: that is a restart, however soon,
        until the run before it turns out to live on (``_lives_on``); which of two that are known
        starts again, ``_is_next_of`` tells. Another id beside a query
        heard of a moment ago is a second one: of another application, or of another session of this
        one, in which names are unique.
        """
        wanted = (label(application.name), named)
        present = self._queries.get(wanted)
        second = self._second_of(subject, named)
        if second is not None and subject.run_id in second.run.past_runs:
            return Found(second)  # a late word of an application before its own
        if second is not None and self._is_free(second, application, now):
            return self._take_up(second, application, now)
        first = None
        if present is not None and (
            second is not None and self._is_next_of(second, present, subject, now)
            if present.run.query_id == subject.id
            else present.run.query_id and (second is not None or self._alive(present, now))
        ):
            first = present
            wanted = self._made_name(
                application.id, subject.id, beside_name(application), first, now
            )
            present = self._queries.get(wanted)
            if second is not None and second is not present:
                self._move(second, wanted, now)
                present = second
        created, renamed = present is None, False
        if present is None:
            if len(self._queries) >= self._policy.max_queries:
                raise RosterFull
            present = self.parked.take(wanted)
            if present is None:
                present = self._of_another_name(subject, wanted, now)
                created, renamed = present is None, present is not None
            if present is None:
                present = Query(application=wanted[0], query=wanted[1], name_label=named)
            self._queries[wanted] = present
            self.parked.keep(self._policy.max_queries - len(self._queries))
        moved = {application.id, present.run.application_id or application.id}
        present.aside = first is not None
        present.application_label = label(application.name)
        return Found(present, frozenset(moved), created, renamed, beside=first)

    def _of_another_name(self, subject: Named, wanted: Key, now: float) -> Query | None:
        """What is known of the checkpoint of a start, where its last run's application is over.

        Schedulers name an application anew at each start (``orders-1605592986``).
        """
        place = _place(subject)
        if not place or self._names_stay:
            return None
        before = [
            one
            for one in self._queries.values()
            if one.run.checkpoint == (subject.id, place)
            and one.query == wanted[1]
            and not one.aside
        ]
        if before:
            last = max(before, key=lambda one: one.life.heard_time)
            if self._alive(last, now):
                return None
            self._move(last, wanted, now)
            return last
        parked = self.parked.of_checkpoint(subject.id, place)
        if parked is None or parked[1] != wanted[1]:
            return None
        query = self.parked.take(parked)
        if query is not None:
            query.application, query.query = wanted
        return query

    def alive_by_checkpoint(self) -> dict[tuple[str, str], Query]:
        """Of each checkpoint that is read the query that began on it last."""
        found: dict[tuple[str, str], Query] = {}
        for one in self:
            known = found.get(one.run.checkpoint)
            if (
                one.run.checkpoint_location
                and one.life.gone_since_time is None
                and (known is None or _begun(known) < _begun(one))
            ):
                found[one.run.checkpoint] = one
        return found

    def _is_next_of(self, second: Query, first: Query, subject: Named, now: float) -> bool:
        """Whether a start with the id that both have is the second one's, and not the first one's.

        A copy starts again in its own place. Where that tells nothing, one that lives does not.
        """
        place = _place(subject)
        at_second, at_first = (place == one.run.checkpoint_location for one in (second, first))
        if at_second != at_first:
            return at_second
        return self._alive(first, now) and (at_second or not self._alive(second, now))

    def _second_of(self, subject: Named, named: str) -> Query | None:
        """The second one of a name with that query id, in whatever application it ran.

        Of several, as there may be several copies, the one in its place, where it tells that.
        """
        found = [
            one
            for one in self
            if one.aside and one.run.query_id == subject.id and one.name_label == named
        ]
        there = [one for one in found if one.run.checkpoint_location == _place(subject)]
        return next(iter(there or found), None)

    def forget(self, keys: set[Key]) -> set[str]:
        """Lets go of queries; gives the applications that have one less."""
        for key in keys:
            del self._queries[key]
            self._changed.forget(part_of_query(key))
        smaller: set[str] = set()
        for application_id, ids in list(self._keys.items() if keys else ()):
            left = {of: key for of, key in ids.items() if key not in keys}
            if len(left) < len(ids):
                smaller.add(application_id)
            self._keys[application_id] = left
            if not left:
                del self._keys[application_id]
        return smaller

    def forget_applications(self, heard: set[str]) -> set[str]:
        """Lets go of those not ``heard`` of whose queries run elsewhere by now; gives them."""
        if len(self._keys) <= 1:
            return set()
        gone = self._keys.keys() - self.applications() - heard
        for application_id in gone:
            del self._keys[application_id]
        for query in self if gone else ():
            query.displaced = [run for run in query.displaced if run.application_id not in gone]
        return gone

    def unknown(self, application: str, query: str) -> str:
        """That two names name nothing, and what they may have meant."""
        if not self._queries:
            return "no query is known yet"
        anywhere = application == "*"
        said = f"no query {query if anywhere else f'{application}/{query}'}"
        if anywhere:
            inside = sorted(key[1] for key in self._queries if key[0] == query)
            if inside:
                more = f" and {len(inside) - 3} more" if len(inside) > 3 else ""
                has = ", ".join(inside[:3]) + more
                return f"{said}; an application of that name has: {has}. Say {query}/*"
        written = {(key[1] if anywhere else "/".join(key)): "/".join(key) for key in self._queries}
        wanted = query if anywhere else f"{application}/{query}"
        near = [written[one] for one in get_close_matches(wanted, written, n=3, cutoff=0.4)]
        if anywhere:
            applications = sorted({key[0] for key in self._queries})
            near += [f"{one}/*" for one in get_close_matches(query, applications, n=1)]
        return f"{said}; nearest: {', '.join(near[:3])}" if near else said


def goes_on(query: Query, by_checkpoint: dict[tuple[str, str], Query]) -> bool:
    """Whether another application began on its checkpoint after its last word."""
    other = by_checkpoint.get(query.run.checkpoint)
    return other is not None and other is not query and _begun(other) > query.life.heard_time


def _begun(query: Query) -> float:
    """When its run began, by the agent's clock."""
    return query.run.begun_time + query.clock.skew_seconds


def _place(subject: Named) -> str:
    """Where its checkpoint is, as the event of its start tells alone."""
    return subject.checkpoint_location if isinstance(subject, StartedEvent) else ""


def names(application: str, query: str, one: Query) -> bool:
    """Whether an order's two patterns name a query.

    Part by part: a name may hold a slash, and joined it would be another application's query too.
    """
    return fnmatchcase(one.application, application) and fnmatchcase(one.query, query)
