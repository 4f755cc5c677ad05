"""Which limit is wanted when, and which was in force when: grants live, expire, are given back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import MagicMock

import pytest

from spark_listener import couplings, limits, sources
from spark_listener.actuator import WATCH_ONLY, Actuator, SourceControl, without_agent
from spark_listener.complaints import Complaints
from spark_listener.lease import Lease
from spark_listener.limits import ALL, Limit, Refused, handle_of
from spark_listener.query import SourceObject
from spark_listener.replies import Grant

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = sources.FILES.classes[1]


def source(configured: Limit, source_class: str = FILES) -> SourceControl:
    handle = handle_of(configured, source_class)
    return SourceControl(0, source_class, handle, configured, configured)


def grant(
    limit: int | None, *, unit: Any = "files", life: float = 60.0, lapses: bool = False
) -> Grant:
    return Grant("run", 0, unit, limit, life, "raise", lapses=lapses)


def test_every_limit_that_a_batch_may_have_been_planned_by() -> None:
    one = source(Limit("files", 5))
    assert one.in_force_since(1.0) == {5}
    one.changed(Limit("files", 9), 10.0)
    one.changed(Limit("files", 7), 20.0)
    assert one.in_force_since(9.0) == {5, 9, 7}
    assert one.in_force_since(10.0) == {9, 7}
    assert one.in_force_since(25.0) == {7}


@pytest.mark.parametrize(
    ("unit", "source_class", "judged"),
    [("rows", "some.other.Stream", True), ("files", "some.other.Stream", False)],
)
def test_only_rows_of_a_source_that_nobody_has_tried_are_judged(
    unit: Any, source_class: str, judged: bool
) -> None:
    assert source(Limit(unit, 5), source_class).judged == judged
    assert not source(Limit("rows", 5), sources.KAFKA.classes[0]).judged


@pytest.mark.parametrize(
    ("configured", "granted", "at", "wanted"),
    [
        (Limit("files", 5), None, 0.0, Limit("files", 5)),
        (Limit("files", 5), grant(9), 0.0, Limit("files", 9)),
        (Limit("files", 5), grant(9), 59.9, Limit("files", 9)),
        (Limit("files", 5), grant(9), 60.0, Limit("files", 5)),  # past its life: the user's own
        (Limit("files", 5), grant(None), 0.0, Limit("files", 5)),  # no limit: the user's still
        (ALL, grant(9), 0.0, Limit("files", 9)),
        (ALL, grant(9), 1e6, Limit("files", 9)),  # nothing configured: the last grant stays
        (ALL, grant(9, lapses=True), 59.9, Limit("files", 9)),
        (ALL, grant(9, lapses=True), 60.0, ALL),  # unwatched it could drop late rows
        (ALL, grant(None), 0.0, ALL),
    ],
)
def test_wanted(configured: Limit, granted: Grant | None, at: float, wanted: Limit) -> None:
    control = source(configured)
    if granted is not None:
        assert control.take(granted, 0.0)
    assert control.wanted(at) == wanted


KEEPS = "it keeps its configured limits"
ENDS = "what Weir set holds for 60 s more, then what is configured comes back"
STAYS = "where no limit is configured, the last one that Weir set stays"


@pytest.mark.parametrize(
    ("configured", "granted", "said"),
    [
        ([], None, KEEPS),
        ([Limit("files", 5), ALL], None, KEEPS),
        ([Limit("files", 5)], 9, ENDS),
        ([ALL], 9, STAYS),
        ([ALL, Limit("files", 5)], 9, f"{ENDS}; {STAYS}"),
    ],
)
def test_what_the_log_says_of_limits_without_an_agent_is_so(
    configured: list[Limit], granted: int | None, said: str
) -> None:
    ours = [source(one) for one in configured]
    for one in ours if granted is not None else ():
        one.take(grant(granted), 0.0)
        one.changed(one.wanted(0.0), 0.0)
    assert without_agent(ours, 0.0) == said
    for one in ours:  # and at the grant's end
        one.changed(one.wanted(60.0), 60.0)
    assert without_agent(ours, 60.0) == (STAYS if STAYS in said else KEEPS)


def test_of_a_limit_that_another_process_left_nobody_knows_how_long_it_holds() -> None:
    one = source(ALL)
    one.present, one.left_lapsing = Limit("files", 3), True
    said = "what Weir set holds for a minute at most, then what is configured comes back"
    assert without_agent([one], 0.0) == said


def test_every_reply_that_names_it_renews_a_grant() -> None:
    control = source(Limit("files", 5))
    for moment in range(0, 600, 50):
        control.take(grant(9), float(moment))
        assert control.wanted(float(moment + 50)) == Limit("files", 9)
    assert control.wanted(550.0 + 60.0) == Limit("files", 5)


def test_kafkas_minimum_stays_beside_the_grant_after_its_life() -> None:
    minimum = Limit("min_rows", 100, 5000)
    control = source(minimum, sources.KAFKA.classes[0])
    control.take(grant(700, unit="rows"), 0.0)
    expected = Limit("composite", parts=(minimum, Limit("rows", 700)))
    assert control.wanted(0.0) == control.wanted(1e6) == expected


@pytest.mark.parametrize(
    ("configured", "granted", "wanted"),
    [
        (Limit("files", 5), 9, Limit("files", 5)),  # decided when more was configured
        (Limit("files", 5), 3, Limit("files", 3)),
        (ALL, 9, Limit("files", 9)),
    ],
)
def test_a_grant_from_before_the_sources_were_known_keeps_to_what_is_configured(
    configured: Limit, granted: int, wanted: Limit
) -> None:
    control = source(configured)
    control.take(grant(granted), 0.0)
    control.keep_to_configured()
    assert control.wanted(0.0) == wanted


def test_a_grant_from_before_it_was_told_that_the_newest_is_read_first_is_none() -> None:
    """It may be of a run that read what came first before: cut by it, old rows fall late."""
    control = source(Limit("files", 5))
    control.newest_first = True
    control.take(grant(3), 0.0)
    control.keep_to_configured()
    assert control.wanted(0.0) == Limit("files", 5)


def test_a_grant_in_another_unit_is_not_taken() -> None:
    control = source(Limit("files", 5))
    assert not control.take(grant(9, unit="rows"), 0.0)
    assert control.wanted(0.0) == Limit("files", 5)


def test_which_limit_was_in_force_when() -> None:
    control = source(Limit("files", 5))
    control.changed(Limit("files", 9), 100.0)
    control.changed(Limit("files", 20), 200.0)
    assert [control.in_force_at(t) for t in (0.0, 99.9, 100.0, 150.0, 200.0, 1e12)] == [
        5, 5, 9, 9, 20, 20,
    ]  # fmt: skip


def test_a_first_batch_obeys_the_limit_set_while_it_was_held() -> None:
    control = source(Limit("files", 5))
    control.changed(Limit("files", 2), 100.0)
    control.settle_first_batch()
    assert control.in_force_at(99.0) == 2


def test_history_is_bounded() -> None:
    control = source(Limit("files", 5))
    for moment in range(1000):
        control.changed(Limit("files", moment + 1), float(moment))
    assert len(control.changes) <= 64
    assert control.in_force_at(998.5) == 999
    assert control.in_force_at(0.0) == control.changes[0][1]


class NoQuery:
    """A query whose sources are not set up yet."""

    id, run_id, name = "q", "run", "n"

    class abilities:  # noqa: N801
        limits = True

    @staticmethod
    def limits_known() -> bool:
        return False


def unprepared() -> Actuator:
    """Of a query that has not said yet what it reads."""
    return Actuator(
        NoQuery(),  # type: ignore[arg-type]
        None,
        lease=Lease(),
        allowed=True,
        complaints=Complaints(),
        clock=lambda: 0.0,
    )


def test_a_grant_that_comes_before_the_sources_is_kept_the_newest_per_source() -> None:
    actuator = unprepared()
    assert not actuator.prepare()
    actuator.take([grant(3), grant(4)], 0.0)
    assert actuator.has_early_grants
    assert [held.limit for held, _ in actuator._early] == [4]
    assert not actuator.apply(0.0)


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(
    ("configured", "lapses", "wanted"),
    [
        (Limit("files", 5), False, Limit("files", 5)),
        (ALL, True, ALL),
        (ALL, False, Limit("files", 3)),  # everything at once would be worse
    ],
)
def test_grants_may_end_before_their_time(
    configured: Limit, lapses: bool, wanted: Limit, early: bool
) -> None:
    actuator = unprepared()
    control = source(configured)
    actuator.ready = not early
    actuator.sources.append(control)
    actuator.take([grant(3, lapses=lapses)], 0.0)
    actuator.let_lapse()
    for held, moment in actuator._early:
        control.take(held, moment)
    assert control.grant is not None
    assert control.wanted(1.0) == wanted


def ordered(*identities: str) -> Actuator:
    """An actuator of sources with these fingerprints."""
    actuator = unprepared()
    for index, identity in enumerate(identities):
        one = source(Limit("files", 5))
        one.index, one.identity = index, identity
        actuator.sources.append(one)
    actuator.ready = True
    return actuator


def meant(place: int, limit: int, identity: str) -> Grant:
    return Grant("run", place, "files", limit, 60.0, "raise", identity)


@pytest.mark.parametrize(
    ("now", "granted", "taken"),
    [
        (["a", "b"], [("a", 3), ("b", 4)], [3, 4]),
        (["b", "a"], [("a", 3), ("b", 4)], [4, 3]),  # as an earlier run had them
        (["c", "a"], [("a", 3), ("b", 4)], [None, 3]),  # what is meant for b is not for a
        (["c", "b"], [("a", 3), ("b", 4)], [3, 4]),  # a new one takes what its place had
        (["a", "a"], [("a", 3), ("a", 4)], [3, 4]),
        (["a", "b"], [("", 3), ("", 4)], [3, 4]),  # an agent that says nothing of it
        (["", ""], [("a", 3), ("b", 4)], [3, 4]),
        (["", "a"], [("a", 3), ("", 4)], [None, 3]),  # they were the other way round
        (["b", "a"], [("a", 3), ("", 4)], [None, 3]),
        (["a"], [("a", 3), ("b", 4)], [3]),
    ],
)
def test_a_grant_reaches_the_source_that_it_means(
    now: list[str], granted: list[tuple[str, int]], taken: list[int | None]
) -> None:
    actuator = ordered(*now)
    actuator.take([meant(i, limit, name) for i, (name, limit) in enumerate(granted)], 0.0)
    assert [one.grant and one.grant.limit for one in actuator.sources] == taken


# -- what a process before this one left -----------------------------------------------------------


class Java(NamedTuple):
    """A ``ReadLimit``, and whatever gives its class and its name."""

    name: str
    value: int = 0

    def getClass(self) -> Java:
        return self

    def getName(self) -> str:
        return self.name

    def maxFiles(self) -> int:
        return self.value


READ = "org.apache.spark.sql.connector.read.streaming"
EVERYTHING = Java(f"{READ}.ReadAllAvailable")


def files_at_once(count: int) -> Java:
    return Java(f"{READ}.ReadMaxFiles", count)


class Limits(dict[int, Java]):
    """Spark's map of sources and limits."""

    apply = dict.__getitem__

    def updated(self, key: int, limit: Java) -> Limits:
        return Limits({**self, key: limit})


class SetUp(NoQuery):
    """A query with one file source, and what is in force of it."""

    trigger, sink = "", ""

    def __init__(self, in_force: Java) -> None:
        self.in_force = Limits({0: in_force})
        self.execution = self
        setattr(self, "uniqueSources_$eq", self.set)

    def set(self, limits: Limits) -> None:
        self.in_force = limits

    def uniqueSources(self) -> Limits:
        return self.in_force

    @staticmethod
    def limits_known() -> bool:
        return True

    @staticmethod
    def takes_all_at_once() -> bool:
        return False

    @staticmethod
    def sources() -> list[SourceObject]:
        return [SourceObject(0, 0, None, FILES)]


class Kept(Lease):
    """Of a process that has ended."""

    def __init__(self, configured: Java) -> None:
        self.configured = configured

    def kept(self, name: str) -> Any:
        assert name == "limit run 0"
        return self.configured


def taken_over(
    monkeypatch: pytest.MonkeyPatch,
    configured: Java,
    *,
    allowed: bool = True,
    unsafe: str = "",
) -> tuple[Actuator, SetUp]:
    """An actuator after one that set a limit of three files and was killed."""
    monkeypatch.setattr(couplings, "why_unsafe", lambda *_: unsafe)
    query = SetUp(files_at_once(3))
    actuator = Actuator(
        query,  # type: ignore[arg-type]
        MagicMock(),
        lease=Kept(configured),
        allowed=allowed,
        complaints=Complaints(),
        clock=lambda: 0.0,
    )
    assert actuator.prepare()
    return actuator, query


def test_where_nothing_is_configured_what_was_left_stays_until_the_agent_speaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Everything at once would be what the limit has held back."""
    actuator, query = taken_over(monkeypatch, EVERYTHING)
    assert not actuator.apply(0.0)
    assert not actuator.apply(1e6)
    assert query.in_force[0] == files_at_once(3)
    assert actuator.sources[0].maximum == 3, "the agent is told, and can renew it"
    actuator.take([grant(None)], 0.0)
    assert actuator.apply(0.0)
    assert query.in_force[0] == EVERYTHING


def test_where_something_is_configured_it_comes_back_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    actuator, query = taken_over(monkeypatch, files_at_once(9))
    assert actuator.apply(0.0)
    assert query.in_force[0] == files_at_once(9)


def test_what_was_left_goes_where_limits_are_refused_by_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    actuator, query = taken_over(monkeypatch, EVERYTHING, allowed=False)
    assert actuator.apply(0.0)
    assert query.in_force[0] == EVERYTHING


@pytest.mark.parametrize("how", ["the agent says no", "it is detached"])
def test_what_was_left_goes_where_it_is_unsafe_and_not_wanted_any_more(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    actuator, query = taken_over(monkeypatch, EVERYTHING, unsafe="latestFirst: …")
    assert not actuator.apply(0.0)
    assert query.in_force[0] == files_at_once(3), "the agent may still want it"
    if how == "it is detached":
        actuator.restore()
    else:
        actuator.allow_unsafe(allowed=False)
    assert query.in_force[0] == EVERYTHING


def test_what_was_left_goes_where_the_agent_said_no_before_the_sources_were_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    actuator, query = taken_over(monkeypatch, EVERYTHING, unsafe="latestFirst: …")
    actuator._unsafe_allowed = False
    fails_once(query)
    with pytest.raises(RuntimeError):
        actuator.apply(0.0)
    assert actuator.apply(0.5), "and is tried until it is done"
    assert query.in_force[0] == EVERYTHING


def fails_once(query: SetUp) -> None:
    """The next swap ends without an answer."""
    fails = iter([RuntimeError("py4j")])

    def set_once_it_works(limits: Limits) -> None:
        for failure in fails:
            raise failure
        query.in_force = limits

    setattr(query, "uniqueSources_$eq", set_once_it_works)


def test_a_session_that_refuses_control_is_not_steered_by_the_agents_leave_for_unsafe_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    actuator, query = taken_over(monkeypatch, EVERYTHING, unsafe="latestFirst: …")
    actuator.give_up(WATCH_ONLY)
    assert query.in_force[0] == EVERYTHING
    actuator.allow_unsafe(allowed=True)
    actuator.take([grant(3)], 0.0)
    assert not actuator.apply(0.0)
    assert actuator.sources[0].handle.control == "advice"
    assert query.in_force[0] == EVERYTHING


@pytest.mark.parametrize("how", ["the agent says no", "control is refused"])
def test_a_swap_that_fails_while_limits_are_put_back_ends_the_steering_all_the_same(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    actuator, query = taken_over(monkeypatch, EVERYTHING, unsafe="latestFirst: …")
    actuator.allow_unsafe(allowed=True)
    fails_once(query)
    no = {
        "control is refused": lambda: actuator.give_up(WATCH_ONLY),
        "the agent says no": lambda: actuator.allow_unsafe(allowed=False),
    }
    with pytest.raises(RuntimeError):
        no[how]()
    assert not actuator.as_configured
    actuator.take([grant(2)], 0.0)
    assert actuator.apply(0.0), "what was configured is put back as soon as that works"
    assert query.in_force[0] == EVERYTHING
    assert actuator.as_configured
    assert not actuator.apply(0.0)


def test_sources_are_known_all_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is there twice would have two limits by turns."""
    monkeypatch.setattr(couplings, "why_unsafe", lambda *_: "")
    query = SetUp(EVERYTHING)
    query.in_force = Limits({0: EVERYTHING, 1: EVERYTHING})
    both = [SourceObject(index, index, None, FILES) for index in (0, 1)]
    monkeypatch.setattr(SetUp, "sources", lambda _: both)
    looked = limits.describe
    fails = iter([1, 0])

    def describe(java: Java) -> Limit:
        if next(fails, 1) == 0:
            raise RuntimeError("py4j")
        return looked(java)

    monkeypatch.setattr(limits, "describe", describe)
    actuator = Actuator(
        query,  # type: ignore[arg-type]
        MagicMock(),
        lease=Lease(),
        allowed=True,
        complaints=Complaints(),
        clock=lambda: 0.0,
    )
    with pytest.raises(RuntimeError):
        actuator.prepare()
    assert actuator.sources == []
    assert actuator.prepare()
    assert [one.index for one in actuator.sources] == [0, 1]


LEFT = "limits run 0"


class Left(Lease):
    """What is left behind, by name: undone where the process ends, or where none comes after."""

    taken = False

    def __init__(self) -> None:
        self.left: dict[str, tuple[Any, bool]] = {}
        self.configured: Java | None = None  # where a process before this one kept it

    def kept(self, name: str) -> Any:
        return self.configured

    def leave(self, name: str, undo: Any, *, stays: bool = False) -> None:
        self.left[name] = undo(), stays

    def lapses(self, name: str) -> bool:
        return name in self.left and not self.left[name][1]

    def forget(self, *names: str) -> None:
        for name in names:
            self.left.pop(name, None)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that undo what was left are Python's here."""
    monkeypatch.setattr(couplings, "why_unsafe", lambda *_: "")

    class Method:
        def __init__(self, act: Callable[..., Any]) -> None:
            self.act = act

        def bindTo(self, execution: Any) -> Method:
            return Method(lambda *arguments: self.act(execution, *arguments))

    class Programs:
        def __init__(self, _: Any) -> None:
            pass

        def java_class(self, name: str) -> str:
            return name

        def method_of(self, _: Any, name: str, *classes: str) -> Method:
            return Method(lambda one, *arguments: getattr(one, name)(*arguments))

        def method(self, _: Any, name: str, *classes: str) -> Method:
            return Method(lambda one, *arguments: getattr(one, name)(*arguments))

        def given(self, method: Method, position: int, *values: Any) -> Method:
            assert position == 1
            return Method(lambda one: method.act(one, *values))

        def piped(self, first: Method, second: Method) -> Method:
            return Method(lambda: second.act(first.act()))

        def as_interface(self, _: str, method: Method) -> Callable[[], Any]:
            return method.act

    monkeypatch.setattr("spark_listener.actuator.Handles", Programs)
    built = {value: files_at_once(value) for value in (3, 4, 9)}
    monkeypatch.setattr(limits, "build", lambda _gateway, limit, *_: built[limit.value])


def left_by(query: SetUp, lease: Lease) -> Actuator:
    """An actuator whose process is at the plugin's door."""
    actuator = Actuator(
        query,  # type: ignore[arg-type]
        MagicMock(),
        lease=lease,
        allowed=True,
        complaints=Complaints(),
        clock=lambda: 0.0,
    )
    assert actuator.prepare()
    return actuator


def limited(configured: Java, granted: Grant) -> tuple[Left, SetUp, Actuator]:
    """A query with a granted limit in force, and what is left of it."""
    lease, query = Left(), SetUp(configured)
    actuator = left_by(query, lease)
    actuator.take([granted], 0.0)
    assert actuator.apply(0.0)
    return lease, query, actuator


@pytest.mark.parametrize(
    ("configured", "lapses", "stays"),
    [
        (EVERYTHING, False, True),
        (EVERYTHING, True, False),  # unwatched it could drop late rows
        (files_at_once(9), False, False),
    ],
)
def test_a_limit_that_stays_is_undone_where_nobody_takes_it_over(
    programs: None, configured: Java, lapses: bool, stays: bool
) -> None:
    lease, query, _ = limited(configured, grant(3, lapses=lapses))
    undo, left_to_stay = lease.left[LEFT]
    assert left_to_stay is stays
    undo()
    assert query.in_force == {0: configured}


@pytest.mark.parametrize("since", ["it was set", "another process set it"])
def test_whether_a_limit_ends_with_its_process_may_change_while_it_stays_the_same(
    programs: None, since: str
) -> None:
    lease, query, actuator = limited(EVERYTHING, grant(3))
    if since != "it was set":
        lease = Left()
        lease.configured = EVERYTHING
        actuator = left_by(query, lease)
        actuator.take([grant(3)], 0.0)
        assert actuator.apply(0.0)
    for lapses in (True, False):
        actuator.take([grant(3, lapses=lapses)], 0.0)
        assert not actuator.apply(0.0), "no limit changes"
        undo, stays = lease.left.pop(LEFT)
        assert stays is not lapses
        undo()
        assert query.in_force == {0: EVERYTHING}
        assert not actuator.apply(0.0)
        assert lease.left == {}, "it is left once"


def test_what_is_undone_is_one_sources_own_and_leaves_what_came_meanwhile(programs: None) -> None:
    lease, query = Left(), SetUp(files_at_once(9))
    query.in_force = Limits({0: files_at_once(9), 1: files_at_once(8)})
    query.sources = lambda: [SourceObject(one, one, None, FILES) for one in (0, 1)]  # type: ignore[method-assign,assignment]
    actuator = left_by(query, lease)
    actuator.take([grant(3), replace(grant(4), source=1)], 0.0)
    assert actuator.apply(0.0)
    assert set(lease.left) == {LEFT, "limits run 1"}
    lease.left[LEFT][0]()
    assert query.in_force == {0: files_at_once(9), 1: files_at_once(4)}


def test_nothing_is_left_of_what_is_as_configured(programs: None) -> None:
    lease, _, actuator = limited(files_at_once(9), grant(3, life=60.0))
    assert actuator.lives(10.0) == ({LEFT: 50.0}, [])
    assert actuator.lives(61.0) == ({}, []), "it is over: its end is not put off"
    assert actuator.apply(61.0)
    assert actuator.as_configured
    assert not actuator.apply(61.5)
    assert lease.left == {}
    assert actuator.lives(61.5) == ({}, [])


def test_a_limit_that_must_lapse_does_so_where_the_next_process_hears_nothing_of_it(
    programs: None,
) -> None:
    """Behind a watermark it could drop rows, with nobody who watches it."""
    lease, query, _ = limited(EVERYTHING, grant(3, lapses=True))
    undo, _ = lease.left[LEFT]
    lease.configured = EVERYTHING
    actuator = left_by(query, lease)
    assert not actuator.apply(1000.0)
    assert actuator.lives(1000.0) == ({}, []), "its end is not put off"
    assert lease.left == {LEFT: (undo, False)}, "nor is it taken from who undoes it"
    lease.left.pop(LEFT)
    undo()
    assert not actuator.look_again(), "this process did not stand still"
    assert actuator.sources[0].maximum is None
    assert not actuator.apply(1000.0), "it is not set again"
    assert query.in_force == {0: EVERYTHING}
    assert lease.left == {}


@pytest.mark.parametrize("lapses", [True, False])
def test_a_first_grant_of_what_was_left_is_put_in_force_whatever_has_become_of_that(
    programs: None, *, lapses: bool
) -> None:
    """Its end may have come a moment ago, and nobody has told this process yet."""
    lease, query, _ = limited(EVERYTHING, grant(3, lapses=lapses))
    lease.configured = EVERYTHING
    actuator = left_by(query, lease)
    lease.left[LEFT][0]()
    assert query.in_force == {0: EVERYTHING}
    actuator.take([grant(3, lapses=lapses)], 0.0)
    assert actuator.apply(0.0), "so that its end is put off at once"
    assert query.in_force == {0: files_at_once(3)}
    assert not actuator.look_again(), "this process did not stand still"
    actuator.take([grant(3, lapses=lapses)], 5.0)
    assert not actuator.apply(5.0), "once"


def test_what_another_process_has_taken_over_is_not_touched(programs: None) -> None:
    """By one that stood still, and whose grant is over by now; or that detaches."""
    lease, query, actuator = limited(files_at_once(9), grant(3))
    lease.taken = True  # type: ignore[misc]
    assert not actuator.apply(1000.0)
    actuator.take([grant(4)], 1000.0)
    assert not actuator.apply(1000.0)
    actuator.give_up("detached")
    assert query.in_force == {0: files_at_once(3)}
    assert not actuator.as_configured


def test_a_limit_that_stays_does_so_while_the_next_process_hears_nothing_of_it(
    programs: None,
) -> None:
    lease, query, _ = limited(EVERYTHING, grant(3))
    lease.configured = EVERYTHING
    actuator = left_by(query, lease)
    assert actuator.lives(1000.0) == ({}, [LEFT])
    actuator.look_again()
    assert actuator.lives(1000.0) == ({}, [LEFT])
    actuator.take([grant(3, lapses=True)], 0.0)
    assert actuator.apply(0.0)
    assert actuator.lives(10.0) == ({LEFT: 50.0}, [])


def test_what_was_left_stays_where_it_is_unsafe_and_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    actuator, query = taken_over(monkeypatch, EVERYTHING, unsafe="latestFirst: …")
    actuator.allow_unsafe(allowed=True)
    assert not actuator.apply(0.0)
    assert query.in_force[0] == files_at_once(3)


def test_a_clock_that_is_set_back_does_not_change_the_order_of_limits() -> None:
    one = source(Limit("files", 5))
    one.changed(Limit("files", 9), 1_000.0)
    one.no_later_than(100.0)
    assert one.in_force_at(110.0) == 9
    one.changed(Limit("files", 20), 120.0)
    assert [one.in_force_at(moment) for moment in (110.0, 130.0)] == [9, 20]
    assert one.in_force_since(130.0) == {20}


def test_wanted_never_leaves_the_class() -> None:
    control = source(Limit("files", 5))
    control.grant = grant(9, unit="rows")  # as if the check of the unit were not there
    control.grant_ends = 60.0
    assert control.wanted(0.0) == Limit("files", 9)
    control.grant = grant(0)
    with pytest.raises(Refused):
        control.wanted(0.0)


def test_what_a_process_left_may_have_been_undone_while_it_stood_still(programs: None) -> None:
    lease, query = Left(), SetUp(files_at_once(9))
    actuator = left_by(query, lease)
    assert not actuator.look_again()
    assert lease.left == {}
    actuator.take([grant(3, life=60.0)], 0.0)
    assert actuator.apply(0.0)
    assert not actuator.look_again()
    assert actuator.sources[0].maximum == 3, "it is in force still"
    assert LEFT in lease.left
    undo, _ = lease.left.pop(LEFT)
    undo()
    assert actuator.look_again()
    assert actuator.as_configured
    assert actuator.sources[0].maximum == 9
    assert lease.left == {}, "nothing is left of what is undone"
    assert actuator.apply(59.0), "the grant lives on"
    assert actuator.sources[0].maximum == 3
    assert LEFT in lease.left
