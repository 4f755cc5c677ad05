"""Whether a query reads another log than the one that brokers hold: another cluster's, of one name.

Nothing in progress names a cluster. But each planning of Spark's sees where the log ends, and that
lies between what these brokers said before it and what they say after it: a log only grows. Where
an end keeps lying outside, it is another log's. Where none does, the two cannot be told apart.
Rows that are gone as of the first look, as all are where another log goes far beyond, are believed
once an end was seen among the rows that are kept here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.decode.kafka_offsets import Offsets

if TYPE_CHECKING:
    from agent.core.decode.kafka_offsets import Held, Reading

#: A new leader may lag behind what was read for as long as it waits for a follower that is gone
#: (``replica.lag.time.max.ms``, 30 seconds), and the driver's clock may lie apart. Twice that is
#: neither.
_SURE_SECONDS: Final = 60.0
#: So many plannings, each of which looked anew, saw it end before where it ended here.
SHORT_PLANS: Final = 3


class LogRead(msgspec.Struct):
    """What shows of one source of one checkpoint whether it reads this log or another."""

    other: bool = False
    doubted: bool = False  # rows were gone at the first look, and no end has shown this log yet
    first: Offsets = {}  # where it ended when brokers were first asked
    first_time: float = 0.0
    ends: Offsets = {}  # as told last
    read: Offsets = {}
    seen: Offsets = {}  # where the newest planning saw it end
    short_plans: int = 0  # that saw it end before ``first``, one after another
    shortened: bool = False  # the log itself was cut off, and has not grown yet to what was read
    beyond_since_time: float | None = None

    def tells(
        self, asked: Reading, source: int, held: dict[tuple[str, str], Held], now: float
    ) -> bool:
        """Whether what brokers hold may be told of a source that had read ``asked`` before."""
        read, seen = asked.offsets.get(source, {}), asked.ends.get(source, {})
        ends = {place: one.latest for place, one in held.items()}
        cut = any(end < self.ends.get(place, 0) for place, end in ends.items())
        back = any(offset < self.read.get(place, 0) for place, offset in read.items())
        if cut or back or not self.first:  # a topic made anew, or a checkpoint restored
            self.other, self.short_plans, self.beyond_since_time = False, 0, None
            self.shortened, self.first_time = cut, now
            self.first = {
                place: one.latest if one.stable is None else one.stable
                for place, one in held.items()
            }
            self.doubted = any(
                read.get(place, one.earliest) < one.earliest for place, one in held.items()
            )
        self.ends = {**self.ends, **ends}  # one of which no broker answers may come back cut off
        reached = asked.reached(source)
        beyond = any(offset > ends.get(place, offset) for place, offset in reached.items())
        short_of = any(
            reached.get(place, one.earliest) < one.earliest for place, one in held.items()
        )
        self.doubted = self.doubted and (beyond or short_of)
        self._note_beyond(now, beyond=beyond)
        # An end that stands still may be an old one: AvailableNow looks once for a whole run.
        if seen != self.seen:
            late = asked.planned_time - self.first_time > _SURE_SECONDS
            short = late and any(end < self.first.get(place, 0) for place, end in seen.items())
            self.short_plans = self.short_plans + 1 if short else 0
        self.read, self.seen = read, seen
        self.other = self.other or self.short_plans >= SHORT_PLANS
        return not (self.other or beyond)

    def _note_beyond(self, now: float, *, beyond: bool) -> None:
        self.shortened = self.shortened and beyond
        if not beyond or self.shortened:
            self.beyond_since_time = None
        elif self.beyond_since_time is None:
            self.beyond_since_time = now
        elif now - self.beyond_since_time >= _SURE_SECONDS:
            self.other = True
