"""Which limit each source of one run should have now, and the swap that puts it in force.

The decision is pure; ``Actuator`` alone touches the JVM, and writes only what ``limits.py`` allows.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from spark_listener import couplings, limits
from spark_listener.complaints import LOGGER
from spark_listener.handles import OBJECT, Handles
from spark_listener.iceberg import release_of
from spark_listener.lease import RUN
from spark_listener.limits import Handle, Limit, Refused
from spark_listener.obedience import Obedience
from spark_listener.sources import known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_listener.complaints import Complaints
    from spark_listener.lease import Lease
    from spark_listener.query import Query, SourceObject
    from spark_listener.replies import Grant
    from spark_listener.wire import Control

_MAP: Final = "scala.collection.immutable.Map"
_HISTORY: Final = 64
_EARLY: Final = 63  # grants kept until the sources are known
DISOBEYS: Final = "does not obey its limit"
WATCH_ONLY: Final = "spark.weir.control is false"
DETACHED: Final = "detached"
_ALWAYS: Final = float("-inf")  # long ago


@dataclass
class SourceControl:
    """One source's limits: configured, in force, granted, and which was in force when."""

    index: int
    source_class: str
    handle: Handle
    configured: Limit
    present: Limit
    identity: str = ""
    unsafe: str = ""  # why a limit of ours may change which rows are read; see couplings.py
    newest_first: bool = False  # an option makes it read what came later before
    #: (epoch seconds from which it held, maximum); oldest first.
    changes: deque[tuple[float, int | None]] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    grant: Grant | None = None
    grant_ends: float = 0.0  # monotonic seconds
    obedience: Obedience = field(default_factory=Obedience)
    ours: bool = False  # what is in force is not as configured: Weir set it, perhaps before us
    theirs: bool = False  # and a process before this one did; this one has set nothing yet
    #: What a process before this one left in force where nothing is configured, which is what does
    #: not lapse: all else ended with it. Until the agent's first word of it.
    left: Limit | None = None
    #: Whether what was left is undone soon after the process that leaves it is gone; None where
    #: nothing is left.
    left_lapsing: bool | None = None

    def __post_init__(self) -> None:
        if not self.changes:
            self.changes.append((_ALWAYS, self.maximum))

    @property
    def maximum(self) -> int | None:
        """In force now; None is unlimited."""
        return limits.maximum_of(self.present, self.handle.unit)

    @property
    def configured_maximum(self) -> int | None:
        """What the user set; None is unlimited."""
        return limits.maximum_of(self.configured, self.handle.unit)

    def in_force_at(self, epoch_seconds: float) -> int | None:
        """The maximum that a batch planned at that moment obeyed."""
        chosen = self.changes[0][1]
        for moment, maximum in self.changes:
            if moment > epoch_seconds:
                break
            chosen = maximum
        return chosen

    def in_force_since(self, epoch_seconds: float) -> set[int | None]:
        """Every maximum that was in force from that moment to now."""
        later = {maximum for moment, maximum in self.changes if moment > epoch_seconds}
        return {self.in_force_at(epoch_seconds)} | later

    @property
    def judged(self) -> bool:
        """Whether its batches are to show if it keeps to limits that change."""
        handle = self.handle
        return handle.control == "live" and handle.unit == "rows" and handle.obeyed is None

    @property
    def obeyed(self) -> bool | None:
        """Whether the source keeps to limits that change; None where that is not known."""
        seen = self.obedience.obeyed
        return self.handle.obeyed if seen is None else seen

    def changed(self, present: Limit, epoch_seconds: float) -> None:
        """Notes that ``present`` is in force from this moment on."""
        self.no_later_than(epoch_seconds)
        self.present, self.theirs = present, False
        self.changes.append((epoch_seconds, self.maximum))

    def no_later_than(self, epoch_seconds: float) -> None:
        """It is that time now: by a clock that was set back, earlier than the newest change."""
        if self.changes[-1][0] > epoch_seconds:
            told = [(min(moment, epoch_seconds), maximum) for moment, maximum in self.changes]
            self.changes.clear()
            self.changes.extend(told)

    def settle_first_batch(self) -> None:
        """What is in force now held before the first batch was planned."""
        self.changes.clear()
        self.changes.append((_ALWAYS, self.maximum))

    def take(self, grant: Grant, now: float) -> bool:
        """Keeps a grant, or renews the same one; false where its unit is not this source's."""
        if grant.unit != self.handle.unit:
            return False
        self.grant, self.left = grant, None
        self.grant_ends = now + grant.expires_seconds
        return True

    def keep_to_configured(self) -> None:
        """Takes a grant as one for at most what is configured.

        One that came before that was known follows from what an earlier run had configured, and
        may have read what came first before.
        """
        most, grant = self.configured_maximum, self.grant
        if self.newest_first and not self.unsafe:  # else its owner says that a limit is welcome
            self.grant = None
        elif most is not None and grant is not None and (grant.limit or 0) > most:
            self.grant = replace(grant, limit=most)

    @property
    def lapses(self) -> bool:
        """Whether what is configured comes back where nobody renews the grant."""
        asked = self.left_lapsing if self.grant is None else self.grant.lapses
        return bool(asked) or self.configured_maximum is not None

    def wanted(self, now: float) -> Limit:
        """The limit that should be in force at ``now`` (monotonic seconds).

        Raises Refused where the grant asks for what this source must not be given.
        """
        grant = self.grant
        if grant is None:
            return self.left or self.configured
        if grant.limit is None:
            return self.configured
        if now >= self.grant_ends and self.lapses:
            return self.configured
        # Past its life with nothing configured: everything at once would be worse than the grant.
        return limits.replacement(self.configured, self.source_class, self.handle.unit, grant.limit)


def without_agent(sources: Iterable[SourceControl], now: float) -> str:
    """What becomes of these limits while no answer comes; ``now`` in monotonic seconds."""
    ours = [
        one for one in sources if one.handle.control == "live" and one.present != one.configured
    ]
    ending = [one for one in ours if one.lapses]
    said = []
    if ending:
        lives = [one.grant_ends - now for one in ending if one.grant is not None]
        # What another process left ends when its grant was to: nobody here knows more of it.
        holds = f"for {max(0.0, *lives):.0f} s more" if lives else "for a minute at most"
        said.append(f"what Weir set holds {holds}, then what is configured comes back")
    if len(ending) < len(ours):
        said.append("where no limit is configured, the last one that Weir set stays")
    return "; ".join(said) or "it keeps its configured limits"


class Actuator:
    """The limits of one run of one query. Used by one thread."""

    def __init__(
        self,
        query: Query,
        gateway: Any,
        *,
        lease: Lease,
        allowed: bool,
        complaints: Complaints,
        clock: Callable[[], float],
    ) -> None:
        self._query = query
        self._gateway = gateway
        self._lease = lease
        self._allowed = allowed
        self._unsafe_allowed: bool | None = None  # the agent has not said yet: no
        self._complaints = complaints
        self._clock = clock  # epoch seconds
        self._objects: dict[int, SourceObject] = {}
        self._java_configured: dict[int, Any] = {}
        self._undoing: tuple[Handles, Any, Any, Any] | None = None  # for programs that do so
        self._early: list[tuple[Grant, float]] = []  # arrived before the sources were set up
        self.sources: list[SourceControl] = []
        self.ready = False

    def prepare(self) -> bool:
        """Reads the sources once the query has set them up; true when that is done."""
        if self.ready:
            return True
        if not self._query.abilities.limits or not self._query.limits_known():
            return False
        all_at_once = self._query.takes_all_at_once()
        present = self._query.execution.uniqueSources()
        # All or none: a call that fails half way is made again.
        sources: list[SourceControl] = []
        objects: dict[int, SourceObject] = {}
        java_configured: dict[int, Any] = {}
        for item in self._query.sources():
            in_force = present.apply(item.key)
            # Where a process before this one left a limit of its own, it kept what was configured.
            kept = self._lease.kept(self._name_of(item.index))
            java_limit = in_force if kept is None else kept
            configured = limits.describe(java_limit)
            needs_release = known(item.class_name).obeys_from is not None
            release = release_of(self._gateway, item.source) if needs_release else None
            handle = limits.handle_of(
                configured, item.class_name, all_at_once=all_at_once, release=release
            )
            options = couplings.options_of(
                item.source, item.class_name, self._query.trigger, release
            )
            unsafe = ""
            if handle.control == "live" and not self._allowed:
                handle = replace(handle, control="advice", note=WATCH_ONLY)
            elif handle.control == "live":
                unsafe = couplings.why_unsafe(configured, item.class_name, options)
                if unsafe:
                    control: Control = "live" if self._unsafe_allowed else "advice"
                    handle = replace(handle, control=control, note=unsafe)
            objects[item.index] = item
            java_configured[item.index] = java_limit
            source = SourceControl(
                item.index,
                item.class_name,
                handle,
                configured,
                configured if kept is None else limits.describe(in_force),
                identity=item.identity,
                unsafe=unsafe,
                newest_first=couplings.reads_newest_first(item.class_name, options),
                ours=kept is not None and limits.describe(in_force) != configured,
            )
            if source.ours:
                source.theirs = True
                source.left_lapsing = self._lease.lapses(self._left_name_of(item.index))
                if source.configured_maximum is None:
                    source.left = source.present
            sources.append(source)
        self._objects, self._java_configured, self.sources = objects, java_configured, sources
        self.ready = True
        early, self._early = self._early, []
        for now in dict.fromkeys(moment for _, moment in early):
            self.take([grant for grant, moment in early if moment == now], now)
        for source in self.sources:
            source.keep_to_configured()
        return True

    def allow_unsafe(self, *, allowed: bool) -> None:
        """Steers, or no longer, the sources of which an option makes a limit unsafe.

        No longer: what was configured comes back.
        """
        if allowed is self._unsafe_allowed or not self._allowed:
            return
        self._unsafe_allowed = allowed
        unsafe = [source for source in self.sources if source.unsafe]
        control: Control = "live" if allowed else "advice"
        # First, as the swap may fail: from here on ``apply`` tries it until it is done.
        for source in unsafe:
            if source.handle.note == source.unsafe:  # else something else has changed its limit
                source.handle = replace(source.handle, control=control)
        if not allowed:
            self._put_back(unsafe)

    @property
    def has_early_grants(self) -> bool:
        """True while grants wait for the sources to be set up."""
        return bool(self._early)

    def object_of(self, index: int) -> SourceObject | None:
        """The JVM's source at this place in progress."""
        return self._objects.get(index)

    def take(self, grants: Iterable[Grant], now: float) -> None:
        """Keeps the grants of this run, of one reply; ``apply`` puts them in force."""
        grants = list(grants)
        meant = {grant.identity for grant in grants if grant.identity}
        for grant in grants:
            if not self.ready:
                self._early = [held for held in self._early if held[0].source != grant.source]
                self._early = [*self._early[-_EARLY:], (grant, now)]
                continue
            source = self._source_of(grant, meant)
            if source is None:
                self._refuse(f"no source {grant.source}", grant.source)
            elif source.handle.control == "live" and not source.take(grant, now):
                self._refuse(
                    f"its limit is in {source.handle.unit}, the grant in {grant.unit}", source.index
                )

    def _source_of(self, grant: Grant, meant: set[str]) -> SourceControl | None:
        """The source that a grant is for: the agent may know them in an earlier run's order.

        One that the agent does not know yet takes what is granted to its place, unless that is
        another's. What is granted to a place alone is not for one that another grant names.
        """
        there = next((item for item in self.sources if item.index == grant.source), None)
        if there is not None and there.identity == grant.identity:
            return there
        if not grant.identity:
            return None if there is not None and there.identity in meant else there
        own = next((item for item in self.sources if item.identity == grant.identity), None)
        if own is None and there is not None and there.identity not in meant:
            return there
        return own

    def apply(self, now: float) -> bool:
        """Puts the wanted limits in force; true where one was set."""
        if not self.ready:
            return False
        wanted: dict[int, Limit] = {}
        for source in self.sources:
            if source.handle.control != "live":
                # What was left may stay only until the agent says whether it wants that.
                awaited = source.unsafe and self._allowed and self._unsafe_allowed is None
                if source.ours and not awaited:
                    wanted[source.index] = source.configured
                continue
            try:
                limit = source.wanted(now)
            except Refused as reason:
                self._refuse(str(reason), source.index)
                continue
            # A first grant is put in force although it seems to be: what undoes it may run any
            # moment, or has run, and waits for that grant's end from here on.
            if limit != source.present or (source.theirs and source.grant is not None):
                wanted[source.index] = limit
        if wanted and self._swap(wanted):
            return True
        for source in self.sources:
            self._leave(source, keep=source.ours)  # a renewal may change that, and no limit
        return False

    @property
    def as_configured(self) -> bool:
        """Whether nothing of ours is in force."""
        return not any(one.ours for one in self.sources)

    def let_lapse(self) -> None:
        """The life of every grant is over: nobody knows for how long the machine slept."""
        for source in self.sources:
            source.grant_ends = _ALWAYS
        self._early = [(grant, _ALWAYS) for grant, _ in self._early]

    def look_again(self) -> bool:
        """Takes in that what was left may have run; true where a grant of ours lives on."""
        if not self.ready:
            return False
        undone = False
        execution = self._query.execution
        present = execution.uniqueSources()
        for source in self.sources:
            found = limits.describe(present.apply(self._objects[source.index].key))
            if found != source.present:
                undone = undone or source.grant is not None
                source.changed(found, self._clock())
                source.left = None
            source.ours = source.ours and found != source.configured
            if source.grant is not None or not source.ours:
                source.left_lapsing = None  # it may have run
                self._leave(source, keep=source.ours)
        return undone

    def restore(self) -> None:
        """Puts every configured limit back and forgets the grants."""
        self._put_back(self.sources)

    def _put_back(self, sources: list[SourceControl]) -> None:
        wanted = {source.index: source.configured for source in sources if source.ours}
        for source in sources:
            source.grant = source.left = None
        if wanted:
            self._swap(wanted)

    def give_up(self, why: str) -> None:
        """Puts every configured limit back and sets none from now on, for the reason ``why``."""
        self._allowed = False
        # First, as the swap may fail: from here on ``apply`` tries it until it is done.
        for source in self.sources:
            if source.handle.control == "live":
                source.handle = Handle("advice", source.handle.unit, why)
        self.restore()

    def batch_read(
        self, index: int, rows: int, planned_epoch_seconds: float, backlog: int | None
    ) -> None:
        """Takes in how many rows a judged source's batch had; one that does not obey is let be."""
        source = next(item for item in self.sources if item.index == index)
        if source.obedience.batch(rows, source.in_force_since(planned_epoch_seconds), backlog):
            self._put_back([source])
            source.handle = Handle("advice", "rows", DISOBEYS)
            self._refuse(DISOBEYS, index)

    def settle_first_batch(self) -> None:
        """The limits in force now are those that the first batch will obey."""
        for source in self.sources:
            source.settle_first_batch()

    def _swap(self, wanted: dict[int, Limit]) -> bool:
        execution = self._query.execution
        present = execution.uniqueSources()
        updated = present
        accepted: dict[int, Limit] = {}
        for source in self.sources:
            limit = wanted.get(source.index)
            if limit is None:
                continue
            key = self._objects[source.index].key
            found = limits.describe(present.apply(key))
            unit = source.handle.unit
            if not limits.may_follow(found, source.configured, source.source_class, unit):
                source.handle = Handle("advice", unit, "something else has changed its limit")
                source.changed(found, self._clock())
                source.ours = False
                self._refuse("something else has changed its limit", source.index)
                continue
            try:
                java_limit = limits.build(
                    self._gateway, limit, source.configured, self._java_configured[source.index]
                )
            except Refused as reason:
                self._refuse(str(reason), source.index)
                continue
            updated = updated.updated(key, java_limit)
            accepted[source.index] = limit
        # Just before: a process that stood still may have much to do before it hears of that.
        if not accepted or self._lease.taken:
            return False
        for source in self.sources:
            if source.index in accepted:  # before anything of it is in force
                self._lease.keep(self._name_of(source.index), self._java_configured[source.index])
                self._leave(source, keep=True)
        getattr(execution, "uniqueSources_$eq")(updated)
        moment = self._clock()
        for source in self.sources:
            if source.index in accepted:
                before = source.maximum
                source.changed(accepted[source.index], moment)
                source.ours = source.present != source.configured
                LOGGER.debug(
                    "weir: %s source %d: limit %s -> %s %s",
                    self._query.name or self._query.id,
                    source.index,
                    before,
                    source.maximum,
                    source.handle.unit,
                )
        return True

    def _name_of(self, index: int) -> str:
        return f"limit {self._query.run_id} {index}"

    def _left_name_of(self, index: int) -> str:
        return f"{RUN}{self._query.run_id} {index}"

    def _leave(self, source: SourceControl, *, keep: bool) -> None:
        """Should this process end: what was configured comes back, and the next one knows it.

        A limit that does not lapse stays, as everything at once would be worse; until it is clear
        that nobody comes who takes it over. ``keep``: false where nothing of ours is in force.
        """
        wanted = source.lapses if keep else None
        if wanted is source.left_lapsing:
            return
        name = self._left_name_of(source.index)
        if wanted is None:
            self._lease.forget(name)
        else:
            self._lease.leave(name, lambda: self._undo(source), stays=not wanted)
        source.left_lapsing = wanted

    def _undo(self, source: SourceControl) -> Any:
        """Java: a ``Runnable`` that puts back what is configured for a source, and for no other."""
        execution = self._query.execution
        if self._undoing is None:
            h = Handles(self._gateway)
            self._undoing = (
                h,
                h.method_of(execution, "uniqueSources").bindTo(execution),
                h.method(h.java_class(_MAP), "updated", OBJECT, OBJECT),
                h.method_of(execution, "uniqueSources_$eq", _MAP).bindTo(execution),
            )
        h, present, updated, write = self._undoing
        key, configured = self._objects[source.index].key, self._java_configured[source.index]
        after = h.piped(present, h.given(updated, 1, key, configured))
        return h.as_interface("java.lang.Runnable", h.piped(after, write))

    def lives(self, now: float) -> tuple[dict[str, float], list[str]]:
        """By the name under which its limit is left, in how many seconds each grant ends.

        And the names of those that stay. Without those whose end is not to be put off: a grant is
        over, or it was another process'.
        """
        left = [one for one in self.sources if one.left_lapsing is not None]
        ending = {
            self._left_name_of(one.index): one.grant_ends - now
            for one in left
            if one.left_lapsing and one.grant is not None and one.grant_ends > now
        }
        return ending, [self._left_name_of(one.index) for one in left if not one.left_lapsing]

    def forget(self) -> None:
        """Leaves nothing: the query has ended, or is as configured. Raises what py4j raises."""
        indices = [source.index for source in self.sources]
        self._lease.forget(*map(self._left_name_of, indices), *map(self._name_of, indices))

    def _refuse(self, why: str, index: int) -> None:
        name = self._query.name or self._query.id
        self._complaints.warn(
            f"refused:{self._query.run_id}",
            f"weir: query {name!r}, source {index}: a granted limit was not set: {why}",
        )
