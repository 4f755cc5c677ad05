"""Kafka's brokers asked by the clock: backlog between batches, and how near retention is.

One thread at a time asks, with a bounded time; what it learns is told to the fleet on the event
loop. Brokers that do not answer are said once in a while and in a metric, and the backlog is then
again what progress says.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from agent.core.judgement import Finding
from agent.core.measure.partitions import Watched
from agent.service.log import Rarely
from agent.service.threads import in_thread
from agent.sources.kafka import KafkaUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent.core.decode.kafka_offsets import Held
    from agent.core.fleet import Fleet, Key, Reading
    from agent.core.measure.partitions import PartitionView
    from agent.sources.kafka import Brokers, Place

#: How often the topics' configuration is read.
RETENTION_SECONDS: Final = 300.0
#: After failures the pause doubles up to this.
MOST_PAUSE_SECONDS: Final = 120.0
#: Partitions that are watched in all, each by every source of a query that reads it: what is kept
#: of one, and what a look takes, is of each reader. Queries that do not fit in are told of by
#: progress alone.
MOST_PARTITIONS: Final = 5000
_UNWATCHED: Final = (
    "its backlog is what progress says, and nobody watches how near retention is to what is unread"
)
_BEYOND: Final = Finding(
    "retention_unwatched",
    "warning",
    f"queries read more than the {MOST_PARTITIONS} partitions of Kafka that an agent watches, and "
    f"this one is left out: {_UNWATCHED}",
    "give some of the jobs another agent",
)
_log = structlog.get_logger("kafka")


class KafkaWatch:
    """Asks one cluster about what the fleet's queries read of it. The event loop owns it."""

    def __init__(
        self,
        fleet: Callable[[], Fleet],
        brokers: Brokers,
        clock: Callable[[], float],
        *,
        every_seconds: float,
        series: bool,
    ) -> None:
        """``series``: each partition gets one of its own."""
        self._fleet = fleet
        self._brokers = brokers
        self._clock = clock
        self._every = every_seconds
        self._series = series
        self._watched: dict[tuple[Key, str, int], Watched] = {}
        self._retention: dict[str, float] = {}
        self._unknown: set[str] = set()  # topics of whose configuration brokers do not tell
        self._retention_of: set[str] = set()  # topics that were asked about
        self._retention_time = 0.0
        self._retention_failures = 0
        self._retention_due_time = 0.0  # after a failure: not before
        self._retention_cause: KafkaUnavailable | None = None
        self._due_time = 0.0
        self._failures = 0
        #: Whether brokers answered when last asked; None: nobody has to ask them.
        self.up: bool | None = None
        self._rarely = Rarely(300.0)
        self._left: list[Key] = []  # queries that do not fit in, as the log said last
        self._said: dict[str, set[str]] = {}  # by line of the log, topics that it has named

    async def look(self) -> None:
        """One round, where it is due."""
        self._fleet().keep_offsets()
        now = self._clock()
        if now < self._due_time:
            return
        self._due_time = now + self._every
        readings = self._fleet().readings()
        topics = {topic for one in readings.values() for topic in _topics(one)}
        if not topics:
            self.up, self._failures = None, 0  # nobody asks them
            self._fleet().hear_unwatched({})
            return
        try:
            held, silent, left, hidden = await in_thread(partial(self._ask, readings, topics, now))
        except KafkaUnavailable as error:
            self._failures = min(self._failures + 1, 16)
            self.up = False
            pause = min(self._every * 2.0**self._failures, MOST_PAUSE_SECONDS)
            self._due_time = now + pause
            self._rarely.warn(
                _log.warning,
                "Kafka's brokers cannot be asked: the backlog is what progress says",
                now,
                cause=error,
            )
            return
        except Exception:
            self.up = False  # they may answer: what they are asked for is not known all the same
            raise
        self._failures = 0
        self.up = True
        if left and left != self._left:
            _log.warning(
                "more partitions of Kafka than are watched: the backlog of these queries is what "
                "progress says",
                watched=MOST_PARTITIONS,
                queries=[f"{application}/{query}" for application, query in left],
            )
        self._left = left
        self._name_once(
            "brokers do not have these topics, or do not show them (DESCRIBE): what is told of "
            "their queries is what progress says, and nobody watches how near retention is",
            hidden,
            topics,
        )
        self._name_once(
            "brokers do not tell the configuration of these topics (DESCRIBE_CONFIGS): when their "
            "rows are deleted by age is foreseen from what was known of it last, or not at all",
            self._unknown - hidden,
            topics,
        )
        if self._retention_cause is not None:
            self._rarely.warn(
                _log.warning,
                "Kafka's brokers do not answer for the configuration of topics: when rows are "
                "deleted by age is what was known of it last",
                now,
                cause=self._retention_cause,
            )
        read = {key: _topics(reading) for key, reading in readings.items()}
        untold = self._untold()
        self._fleet().hear_unwatched(
            {key: _not_told(topics & untold) for key, topics in read.items() if topics & untold}
            | {key: _not_shown(topics & hidden) for key, topics in read.items() if topics & hidden}
            | dict.fromkeys(left, _BEYOND)
        )
        watched = readings.keys() - set(left)
        partly = self._tell({key: readings[key] for key in watched}, held, silent, now)
        if partly:
            self._rarely.warn(
                _log.warning,
                "of some partitions no Kafka broker answers: the backlog of these queries is what "
                "progress says, and how near retention is in those partitions what was known last",
                now,
                queries=partly,
            )

    def _name_once(self, line: str, found: set[str], topics: set[str]) -> None:
        """``topics``: all that are read; what is not read any more may be named again."""
        said = self._said.get(line, set())
        new = (found & topics) - said
        self._said[line] = (said | new) & topics
        if new:
            _log.warning(line, topics=sorted(new))

    def _ask(
        self, readings: Mapping[Key, Reading], topics: set[str], now: float
    ) -> tuple[dict[Place, Held], set[Place], list[Key], set[str]]:
        """What is held of the topics that queries read, and the partitions that nobody tells of.

        Then those queries that do not fit in, and those topics of which nothing is shown. In a
        thread.
        """
        places: defaultdict[str, list[Place]] = defaultdict(list)
        for place in self._brokers.partitions(topics):
            places[place[0]].append(place)
        self._ask_retention(topics, now)
        asked: set[Place] = set()
        room, left = MOST_PARTITIONS, []
        sizes = {
            key: sum(
                len(offsets)
                if source in reading.assigned
                else sum(len(places[topic]) for topic in {topic for topic, _ in offsets})
                for source, offsets in reading.offsets.items()
            )
            for key, reading in readings.items()
        }
        for key in sorted(sizes, key=lambda key: (sizes[key], key)):  # so that most fit in
            if sizes[key] > room:
                left.append(key)
                continue
            room -= sizes[key]
            for source, offsets in readings[key].offsets.items():
                wanted = offsets.keys() if source in readings[key].assigned else None
                for topic in {topic for topic, _ in offsets}:
                    asked.update(one for one in places[topic] if wanted is None or one in wanted)
        held = self._brokers.held(sorted(asked))
        self._forget_retention(held)
        hidden = {topic for topic in topics if not places[topic]}
        return held, asked - held.keys(), left, hidden

    def _ask_retention(self, topics: set[str], now: float) -> None:
        if now - self._retention_time < RETENTION_SECONDS and topics <= self._retention_of:
            return
        if now < self._retention_due_time:
            return
        try:
            told = self._brokers.retention_seconds(topics)
        except KafkaUnavailable as error:
            # What was known holds on. It is asked again in the next round, then ever less often.
            pause = min(self._every * 2.0**self._retention_failures, MOST_PAUSE_SECONDS)
            self._retention_failures = min(self._retention_failures + 1, 16)
            self._retention_due_time, self._retention_cause = now + pause, error
            return
        self._retention_failures, self._retention_due_time, self._retention_cause = 0, 0.0, None
        unknown = {topic for topic, keep in told.items() if keep is None}
        # One that nobody reads now is read again by the next run, be that in a week.
        unread = {of: keep for of, keep in self._retention.items() if of not in topics}
        unread = dict([*unread.items()][-MOST_PARTITIONS:])  # those that were read last
        last = {of: keep for of, keep in self._retention.items() if of in unknown}
        self._retention = unread | last
        self._retention |= {topic: keep for topic, keep in told.items() if keep is not None}
        self._unknown = unknown | (self._unknown & unread.keys())
        self._retention_of, self._retention_time = topics, now

    def _untold(self) -> set[str]:
        """Topics whose configuration brokers told before, and do not tell any more."""
        return self._unknown & self._retention.keys()

    def _forget_retention(self, held: Mapping[Place, Held]) -> None:
        """Of those that were made anew, and begin at 0 again: what the one before had is over.

        One of which nothing was deleted began there before, too, and ends below its old end now.
        """
        untold = self._untold()
        for watched in self._watched.values() if untold else ():
            for place, known in watched.partitions.items():
                there = held.get(place) if place[0] in untold else None
                if there is None or there.earliest > 0:
                    continue
                if known.earliest > 0 or there.latest < known.ends.rows[-1]:
                    self._retention.pop(place[0], None)

    def _tell(
        self,
        readings: Mapping[Key, Reading],
        held: Mapping[Place, Held],
        silent: set[Place],
        now: float,
    ) -> list[str]:
        """``now``: when they were asked, so that a batch planned meanwhile is the newer word.

        The queries of which brokers tell of some partitions alone.
        """
        partly: set[str] = set()
        fleet = self._fleet()
        # Meanwhile batches may have ended: what was read is taken as it is now.
        newer = fleet.readings()
        alive: set[tuple[Key, str, int]] = set()
        valid = 3.0 * self._every + 120.0  # a round or two may fail
        by_topic: defaultdict[str, list[Place]] = defaultdict(list)
        for one in (*held, *silent):
            by_topic[one[0]].append(one)
        for key in readings.keys() & newer.keys():
            reading = newer[key]
            for source, offsets in reading.offsets.items():
                # A query that is assigned partitions never reads those beside them.
                assigned = source in reading.assigned
                there = {
                    one
                    for topic in {topic for topic, _ in offsets}
                    for one in by_topic[topic]
                    if not assigned or one in offsets
                }
                of_source = {one: held[one] for one in there if one in held}
                unheard = there - of_source.keys()
                place = (key, reading.query_id, source)
                alive.add(place)  # a partition without a leader comes back, as old as it was
                if not there or offsets.keys() - there:
                    continue  # another cluster's, or deleted meanwhile: nothing is known
                watched = self._watched.setdefault(place, Watched())
                asked = readings[key]
                if asked.query_id == reading.query_id and not self._told_apart(
                    place, watched, asked, of_source, now
                ):
                    continue
                views = watched.observe(
                    source,
                    offsets,
                    of_source,
                    self._retention,
                    now,
                    planned=reading.planned.get(source),
                    before=[
                        one.get(source, {})
                        for one in (asked.offsets, asked.planned)
                        if asked.query_id == reading.query_id
                    ],
                    rests_seconds=reading.rests_seconds,
                    silent=unheard,
                )
                fleet.hear_partitions(
                    *(key, reading.query_id, source, self._marked(views), now),
                    valid_seconds=valid,
                    silent=unheard,
                    doubted=watched.log.doubted and not reading.gone,
                    current=reading.current,
                )
                if unheard:
                    partly.add("/".join(key))
        for gone in self._watched.keys() - alive:
            del self._watched[gone]
        return sorted(partly)

    def _told_apart(
        self,
        of: tuple[Key, str, int],
        watched: Watched,
        asked: Reading,
        held: dict[Place, Held],
        now: float,
    ) -> bool:
        """Whether what brokers hold is told: a topic of the same name may be another cluster's."""
        key, query_id, source = of
        known = watched.log.other
        tells = watched.log.tells(asked, source, held, now)
        if watched.log.other:
            self._fleet().hear_elsewhere(key, query_id, source)
        if watched.log.other and not known:
            _log.warning(
                "a query reads topics of another cluster that have the same names here: its "
                "backlog is what progress says, and no consumer group shows its lag",
                query="/".join(key),
                topics=sorted({topic for topic, _ in asked.offsets[source]}),
            )
        return tells

    def _marked(self, views: list[PartitionView]) -> list[PartitionView]:
        if not self._series:
            return views
        return [msgspec.structs.replace(view, series=True) for view in views]


def _topics(reading: Reading) -> set[str]:
    return {topic for offsets in reading.offsets.values() for topic, _ in offsets}


def _not_shown(topics: set[str]) -> Finding:
    return Finding(
        "retention_unwatched",
        "warning",
        f"Kafka's brokers do not have a topic, or do not show it, so {_UNWATCHED}: "
        f"{_named(topics)}",
        "let the agent's user DESCRIBE the topic; for one of another cluster run an agent there",
    )


def _not_told(topics: set[str]) -> Finding:
    return Finding(
        "retention_unwatched",
        "warning",
        "Kafka's brokers do not tell the configuration of a topic any more, so how near retention "
        f"is, is told by what was known of it last: {_named(topics)}",
        "let the agent's user DESCRIBE_CONFIGS the topic",
    )


def _named(topics: set[str]) -> str:
    first, *others = sorted(topics)
    return f"{first} and {len(others)} more" if others else first
