"""One source of a query: its unit, its limit, its backlog, what arrives, and its live grant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.decode.kafka_offsets import is_kafka
from agent.core.measure.decaying import LATELY_SECONDS, SteppingRate
from agent.core.measure.lanes import Lanes
from spark_listener.obedience import TELLING
from spark_listener.sources import known, reads_all

if TYPE_CHECKING:
    from agent.core.decode.events import SourceLimit, SourceProgress

RATIO_GAIN: Final = 0.3
#: The class of a source of which only a log tells: whether a limit held, nobody knows.
UNTOLD: Final = "untold"


class Source(msgspec.Struct):
    """State of one source; counts are in its own unit unless a name says rows."""

    index: int
    identity: str = ""  # a fingerprint of what it reads, the same in every run; empty: unknown
    description: str = ""
    source_class: str = ""  # of the JVM; empty: nobody told
    unit: str | None = None
    control: str = "none"
    note: str = ""
    obeyed: bool | None = None  # whether it keeps to limits that change, where the driver knows
    limit_known: bool = False
    limit: int | None = None  # in force now
    batch_limit: int | None = None  # in force for the last batch
    configured: int | None = None
    backlog: int | None = None
    backlog_bound: str = "exact"
    backlog_time: float | None = None
    left: int | None = None  # by the planning of the last batch that ended
    rows: int | None = None
    admitted: int | None = None
    guessed: bool = False  # what was admitted: nobody told
    multiplied: bool = False  # a batch filled its limit several times over
    rows_per_unit: float | None = None
    last_rows_per_unit: float | None = None  # of the last batch alone
    limited: bool = False
    held_back: bool = False  # limited, with more left than another batch of that limit takes
    arrived: float = 0.0
    arrived_time: float | None = None
    arrived_before: float = 0.0  # of them, before the driver began to count what it tells
    admitted_total: float = 0.0
    in_hand: int = 0  # taken into the batch that runs, which no progress has told of yet
    asked: float | None = None  # admitted_total and what was left, as brokers told it since
    asked_time: float | None = None  # when brokers last told of it in this run
    asked_until_time: float = 0.0  # until when that is believed
    arrival: SteppingRate = msgspec.field(default_factory=SteppingRate)
    #: The rate at which no row is deleted unread, as brokers said last, and until when that holds.
    pressing_rows_per_second: float | None = None
    pressing_until_time: float = 0.0
    decided: bool = False  # whether a limit was decided; None below is then "no limit"
    decided_limit: int | None = None
    decided_reason: str = ""
    decided_time: float | None = None
    held_limit: int | None = None  # held by hand, and to hold again after a first batch without
    would_be: bool = False  # decided in dry-run, from the limit in force: told, and not granted
    exclusive_rows: float | None = None
    floating_rows: float | None = None
    wanted_beyond: int | None = None  # what would be wanted, were the configured limit not kept
    shares_watermark: bool | None = None  # with another source; None: nobody told
    watermark_delay_seconds: float | None = None  # the least of the query's plan, as told
    in_order: bool | None = None  # False: it may read what came later before; None: by its class
    lanes: Lanes | None = None  # followed where the query drops what its watermark has passed

    def pressing_at(self, time: float) -> float:
        """Rows per second that must be read for retention to delete none unread; 0: none known."""
        known = self.pressing_rows_per_second is not None and time <= self.pressing_until_time
        return self.pressing_rows_per_second or 0.0 if known else 0.0

    @property
    def of_kafka(self) -> bool:
        """Whether it is Spark's for Kafka, by its class or as it describes itself."""
        return known(self.source_class).kafka_offsets or is_kafka(self.description)

    @property
    def controllable(self) -> bool:
        """Whether a limit can be set while the query runs."""
        return self.control == "live" and self.unit is not None

    @property
    def current(self) -> int | None:
        """The limit that decisions start from: the last one granted, else the one in force.

        None is unlimited.
        """
        return self.decided_limit if self.decided and not self.would_be else self.limit

    @property
    def next(self) -> int | None:
        """The limit last decided, granted or not, else the one in force; None is unlimited."""
        return self.decided_limit if self.decided else self.limit

    @property
    def backlog_rows(self) -> float | None:
        """The backlog in rows; None where it or the rows of a unit are unknown."""
        return self.in_rows(self.backlog)

    @property
    def left_rows(self) -> float | None:
        """What the last batch left behind, in rows; None where it or the ratio is unknown."""
        return self.in_rows(self.left)

    def in_rows(self, units: int | None) -> float | None:
        """So many units in rows; None where they or the rows of a unit are unknown."""
        if units is None:
            return None
        if units == 0:
            return 0.0
        ratio = self.ratio
        return None if ratio is None else units * ratio

    @property
    def ratio(self) -> float | None:
        """Rows per unit; one where the unit is rows and nothing else was learned."""
        learned = self.rows_per_unit
        if learned is not None:
            return learned
        return 1.0 if self.unit == "rows" else None

    def units_of(self, rows: float, room: float) -> float:
        """What its limit counts, of so many rows; where units get denser, ``room`` times as many.

        Of the ratio a part is learned with every batch: transactions that grow, the head of a topic
        that was compacted. A batch as dense as the last one (``densest``) keeps the room.
        """
        return rows / max(self.ratio or 1.0, (self.last_rows_per_unit or 0.0) / room)

    @property
    def densest(self) -> float:
        """Rows per unit as they may be in the next batch, too."""
        return max(self.ratio or 1.0, self.last_rows_per_unit or 0.0)

    @property
    def untold(self) -> bool:
        """Whether a log has told of it in this run, and never what waits.

        A rate is then of a run before, as of what that one read at its place.
        """
        heard = self.source_class == UNTOLD and self.limit_known
        return heard and self.arrived_time is None and self.backlog is None

    @property
    def arrival_rows(self) -> float | None:
        """Rows that arrive per second; None while unknown."""
        rate, ratio = self.arrival.value, self.ratio
        return None if rate is None or ratio is None or self.untold else rate * ratio

    def hear(self, said: SourceLimit, planned_time: float | None) -> None:
        """Takes in what is said of limit and backlog.

        Beside a progress an undated backlog is of the batch's planning; in a heartbeat
        (``planned_time`` None) it is of no known moment, and left out. What a heartbeat says to be
        admitted is in the hands of the batch that runs.
        """
        if self.unit is not None and said.unit != self.unit:
            self._reset_unit()
        self.unit = said.unit
        self.source_class = said.source_class or self.source_class
        self.control = said.control
        self.note = said.note
        self.obeyed = said.obeyed
        self.in_order = said.in_order
        self.shares_watermark = said.shares_watermark
        self.watermark_delay_seconds = said.watermark_delay_seconds
        self.configured = said.configured
        if self.would_be and self.limit_known and said.in_force != self.limit:
            self.withdraw()  # it started from a limit that is no longer in force
        self.limit = said.in_force
        self.limit_known = said.unit_known
        seen = said.observed_time if said.observed_time is not None else planned_time
        if seen is None:
            return
        if said.backlog is not None:
            self.backlog, self.backlog_bound = said.backlog, said.backlog_bound
            self.backlog_time = seen
        elif said.observed_time is not None:
            self.backlog = None  # looked, and could not tell
        if said.arrived is not None and said.backlog is not None:
            self._arrive_as_told(said.arrived, seen)
        elif said.arrived is not None and planned_time is not None:
            # What batches took alone: between two of them nobody knows of more.
            self._arrive_as_told(said.arrived, planned_time)
        if planned_time is None and said.admitted is not None:
            self.in_hand = said.admitted
            if said.backlog is not None:
                total = self.admitted_total + said.admitted + said.backlog
                if not self._finds_history(said, total):
                    self._arrive(total, seen)
            self._as_asked()

    def read(
        self, progress: SourceProgress | None, said: SourceLimit | None, planned_time: float
    ) -> float | None:
        """Takes in a batch planned at a time; returns the rows newly known to have arrived."""
        before = self.arrived
        self.in_hand = 0
        if progress is not None:
            self.description = progress.description or self.description
            self.rows = progress.rows
        if said is not None:
            self.hear(said, planned_time)
            self.batch_limit = said.limit
        if progress is not None and self.unit not in {None, progress.unit}:
            progress = None  # it counts in another unit
        # Where partitions are new, offsets tell a part of what was taken, and rows all of it.
        grown = progress is not None and progress.grown
        self.admitted = progress.admitted if progress is not None else None
        if said is not None and said.admitted is not None and not grown:
            self.admitted = said.admitted
        told = progress is not None and progress.backlog is not None
        if told and (said is None or said.backlog is None):
            assert progress is not None
            self.backlog, self.backlog_bound = progress.backlog, progress.backlog_bound
            self.backlog_time = planned_time
            if self.unit is None:
                self.unit = progress.unit
        elif said is None or said.backlog is None:
            self.backlog = None  # nobody tells: last batch's figure would be stale
        self._judge_limited(said)
        if said is not None:
            self._count_as_limited()
        self.guessed = self.admitted is None
        if self.admitted is None and self.limited and self.batch_limit is not None:
            self.admitted = self.batch_limit
        if self.admitted is None and self.unit == "rows":
            self.admitted = self.rows
        if not grown:
            self._learn_ratio()
        if self.admitted is not None:
            self.admitted_total += self.admitted
        if said is None or said.arrived is None:
            self._count_arrivals(said, planned_time)
        self.left = self.backlog
        self._as_asked()
        ratio = self.ratio
        return None if ratio is None else max(0.0, self.arrived - before) * ratio

    def _as_asked(self) -> None:
        """What brokers told after the batch was planned still stands, less what it takes."""
        if self.asked is None or self.asked_time is None:
            return
        if self.backlog_time is None or self.backlog_time >= self.asked_time:
            self.asked = None
            return
        left = int(self.asked - self.admitted_total - self.in_hand)
        if self.backlog is None or left > self.backlog:
            self.backlog, self.backlog_bound = max(0, left), "exact"
        self.backlog_time = self.asked_time

    def _judge_limited(self, said: SourceLimit | None) -> None:
        """Limited: backlog was left after the batch was planned (design: not "rows = limit")."""
        limit = self.batch_limit if said is not None else None
        if said is not None and limit is None:
            self.limited = False
        elif self.backlog is None or (self.backlog == 0 and self.backlog_bound == "lower"):
            # Nobody knows of more, which does not say that there is none.
            self.limited = limit is not None and (self.admitted or 0) >= limit
        elif limit is not None and said is not None and said.observed_time is not None:
            # Seen after planning, so new arrivals are in it: what was admitted decides.
            full = self.admitted is None or self.admitted >= limit
            self.limited = full and self.backlog > 0
        else:
            self.limited = self.backlog > 0
        most = limit if limit is not None else self.admitted
        self.held_back = self.limited and (
            self.backlog is None or most is None or self.backlog > most
        )

    def _count_as_limited(self) -> None:
        """What a batch took beyond the limit are rows of what the limit counts, where it acts.

        It may hold for each of several partitions, or the batch may have read its source more than
        once. That a batch of a limit's rows to the row, or of a multiple of them, fills it is
        chance once in so many.
        """
        limit, taken = self.batch_limit, self.admitted
        if self.unit != "rows" or self.of_kafka or self.backlog is not None:
            return
        if not limit or taken is None or taken <= limit:
            return
        self.multiplied = self.multiplied or (limit >= TELLING and taken % limit == 0)
        if self.multiplied:
            self.admitted = limit

    def _learn_ratio(self) -> None:
        if not self.admitted or self.rows is None:
            return
        seen = self.rows / self.admitted
        if seen <= 0.0:
            return
        self.last_rows_per_unit = seen
        if self.rows_per_unit is None:
            self.rows_per_unit = seen
        else:
            self.rows_per_unit += RATIO_GAIN * (seen - self.rows_per_unit)

    def _finds_history(self, said: SourceLimit, total: float) -> bool:
        """Whether what was there at the first whole look is still being found, or is again.

        Its growth is no arrival; what is found beyond it has come since.
        """
        return said.partial and (self.arrived_time is None or total < self.arrived)

    def _count_arrivals(self, said: SourceLimit | None, planned_time: float) -> None:
        """Arrived = admitted so far + backlog, where both are known."""
        waits = None if said is None else said.backlog
        if said is not None and self._finds_history(said, self.admitted_total + (waits or 0)):
            return
        if self.backlog is not None:
            seen = planned_time
            if said is not None and said.observed_time is not None:
                seen = said.observed_time
            self._arrive(self.admitted_total + self.backlog, seen)
        elif (
            said is not None
            and said.unit_known
            and said.limit is None
            and self.admitted is not None
            and (not self.source_class or reads_all(self.source_class))
        ):
            # Unlimited: what was admitted is what had arrived.
            self._arrive(self.admitted_total, planned_time)

    def _arrive_as_told(self, arrived: int, time: float) -> None:
        """As a driver counts, which begins anew with its process and within a run else only grows.

        What came between two processes nobody has counted: it is of no rate.
        """
        if self.arrived_time is not None and self.arrived_before + arrived < self.arrived:
            self.arrived_before = self.arrived - arrived
            self.arrived_time = max(time, self.arrived_time)
        self._arrive(self.arrived_before + arrived, time)

    def _arrive(self, arrived: float, time: float) -> None:
        if self.arrived_time is None:
            # The backlog found at first did not arrive in an instant: it starts the count.
            self.arrived, self.arrived_time = arrived, time
            return
        seconds = time - self.arrived_time
        if seconds <= 0.0:
            return
        self.arrival.add(max(0.0, arrived - self.arrived), seconds, LATELY_SECONDS)
        self.arrived, self.arrived_time = max(arrived, self.arrived), time

    def observe(self, backlog: int, time: float) -> float | None:
        """Takes in a backlog that was asked for between batches; rows newly known to have arrived.

        It counts from what was planned last, so what the batch in hand admitted is not in it.
        """
        before = self.arrived
        self.backlog, self.backlog_bound, self.backlog_time = backlog, "exact", time
        self.asked, self.asked_time = self.admitted_total + self.in_hand + backlog, time
        self._arrive(self.asked, time)
        ratio = self.ratio
        return None if ratio is None else max(0.0, self.arrived - before) * ratio

    def nothing_arrived(self, time: float) -> None:
        """An idle trigger at ``time``: it found too little for a batch.

        A backlog that is known stays what it is: a query whose source waits for a minimum of rows
        is idle with a backlog.
        """
        if self.backlog == 0 and self.arrived_time is not None:
            self._arrive(self.arrived, time)

    def begin_run(self) -> None:
        """A new run counts its arrivals anew; rates and ratios learned stay."""
        self._count_anew()
        self.backlog = self.backlog_time = self.left = None
        self.limit_known, self.limit, self.batch_limit = False, None, None
        self.pressing_rows_per_second = None
        self.limited = self.held_back = False
        if self.lanes is not None:
            self.lanes.begin_run()
        if self.would_be:
            self.withdraw()

    def _reset_unit(self) -> None:
        self.rows_per_unit = self.last_rows_per_unit = self.held_limit = None
        self.multiplied = False
        self.arrival = SteppingRate()
        self._count_anew()
        self.withdraw()

    def _count_anew(self) -> None:
        self.arrived, self.arrived_time, self.admitted_total = 0.0, None, 0.0
        self.arrived_before = 0.0
        self.in_hand, self.asked, self.asked_time = 0, None, None
        self.asked_until_time = 0.0

    def decide(
        self, limit: int | None, reason: str, time: float, *, would_be: bool = False
    ) -> None:
        """Sets the limit wanted from now on; ``would_be`` where nothing is granted."""
        self.decided, self.decided_limit, self.would_be = True, limit, would_be
        self.decided_reason, self.decided_time = reason, time

    def withdraw(self) -> None:
        """Nothing is decided from now on."""
        self.decided, self.decided_limit, self.would_be = False, None, False
        self.decided_reason, self.decided_time = "", None
        self.exclusive_rows = self.floating_rows = None
