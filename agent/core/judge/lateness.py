"""Late rows: what smaller batches cost a query that drops rows behind its watermark.

Spark moves a query's watermark once a batch, to the greatest event time read so far less the delay
that the query declares (Structured Streaming Programming Guide, "Handling late data and
watermarking"). Rows within the delay count however the input is split. Rows later than that may be
dropped, and are where the end of a batch comes between them and what they are late behind: a large
batch keeps them by luck, several small ones in its place do not. Weir changes where batches end, so
it must see whether that costs rows, and take the change back where it does.

That "rows within the delay count however the input is split" holds of rows that are read in the
order in which they came. Where one watermark stands over several sources, or over Kafka partitions
in which rows came at different times, a batch cut short may read one up to now and leave another
hours behind: once the watermark has moved by that no batch brings these rows back, as configured or
not. So there nothing is cut before it is known to be harmless: sources under one watermark are left
as configured, and partitions while what waits in them may come to be read further apart than half
of what the delay leaves beside the lateness of the rows themselves. Files and tables are while the
rows of one commit lie as far apart (``commits``). So may any source share its
limit over shards or ranges of its own: one of which nobody knows that it reads in order is left as
configured.

Nor does it hold where the declared delay is zero. Spark drops what is not newer than the watermark
(``event time <= watermark``, WatermarkSupport), which then is the newest row of the batches before:
of rows of one time those in the next batch are late, in whatever order they are read. There nothing
is cut either.

One of Spark's own operators gives another result where batches end elsewhere, though no row falls
late: ``dropDuplicatesWithinWatermark`` forgets a key once the watermark has passed it by the delay,
and in one large batch it forgets none (``StreamingDeduplicateWithinWatermarkExec``). Queries that
have it are left as configured.

An end is ours where a limit below the configured one held a backlog back. Rows that fall late right
after such an end are told apart from those that fall late as the query is configured: a query whose
stragglers are dropped either way is not held for them. Where one row of a far time has taken the
watermark beyond the clock, all the others fall late wherever batches end, and count for neither.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.figures import figure
from agent.core.judge.commits import Commits, leaves_listed, reads_list_out
from agent.core.judgement import Finding
from agent.core.measure.cost import STEP_SIGMAS
from agent.core.measure.lanes import Lanes
from agent.core.measure.source import UNTOLD
from spark_listener.sources import known
from spark_listener.wire import HEARTBEAT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.core.decode.events import Progress
    from agent.core.measure.source import Source
    from agent.core.policy import LateRows

#: Batches in which rows may fall late because of one end: the one after it and, since Spark 3.5
#: lets several stateful operators share a query, the one after that, as rows are then held against
#: the watermark of the batch before (``spark.sql.streaming.statefulOperator.allowMultiple``).
_AFTERMATH_BATCHES: Final = 2
#: Standard deviations by which rows dropped after ends of ours must pass what the query drops as
#: configured: chance alone does it about once in 700 looks, and a look is taken only when rows
#: were dropped. As of a batch's time, more than that is no chance.
EXCESS_SIGMAS: Final = STEP_SIGMAS
#: Added to a count below a square root, so that its standard deviation is near 1/2 from a few on
#: (Anscombe 1948).
_ANSCOMBE: Final = 3.0 / 8.0
#: Of the delay, less how late the rows themselves come, how far apart in time partitions may be
#: read: what is cut before an order acts, one batch or two later, may need the other half.
APART_SHARE: Final = 0.5
#: Until a decision acts where the reply that brings it is lost, in seconds: a listener asks again
#: with its next heartbeat, and half of them pass at most before one is missed.
LOST_REPLY_SECONDS: Final = 2.0 * HEARTBEAT_SECONDS
#: How late rows come by themselves counts for so long, and at most twice: a feed that is late each
#: hour is known for it, and one straggler is forgotten.
LATE_KEPT_SECONDS: Final = 3600.0
#: How Spark's files and Delta describe themselves; Iceberg's source by its class.
_IN_ORDER: Final = re.compile(r"(FileStream|Delta)Source\[")
#: As Spark names them in a query's progress.
_FORGETS: Final = "dedupeWithinWatermark"
_AGGREGATES: Final = "stateStoreSave"


class Counted(msgspec.Struct):
    """Rows read, and rows dropped as late, since the query's checkpoint began."""

    rows: int = 0
    dropped: int = 0


class Lateness(msgspec.Struct):
    """What is known of a query's late rows. Event times are epoch seconds of the data's clock."""

    drops: bool = False  # it has a watermark, and state that drops what lies behind it
    of_past_run: bool = False  # a run before showed that; no batch of this one has ended
    greatest_time: float | None = None  # of all rows read
    delay_seconds: float | None = None  # as batches show it: greatest_time less the watermark
    #: The least of these in a run, of batches that follow each other and move the watermark: while
    #: one of several sources is idle it stands, and more is shown. Until a run shows one, the last.
    least_delay_seconds: float | None = None
    run_shows_delay: bool = False
    #: The least of the query's plan. Of several sources batches show what lies between the newest
    #: row of one and the watermark of another. None: nobody told.
    told_delay_seconds: float | None = None
    several: bool = False  # sources
    batch_id: int | None = None  # of the last one that was observed, and the watermark in it
    watermark_time: float | None = None
    #: When the run began, and looked what there is if it looks once; None: nobody knows.
    run_time: float | None = None
    seconds: float | None = None  # the most that a row lay behind the greatest of earlier batches
    #: The same of batches after ends as configured, within the delay: of this hour, and the last.
    own_seconds: float = 0.0
    own_before_seconds: float = 0.0
    own_hour: int = 0
    as_configured: Counted = msgspec.field(default_factory=Counted)
    after_ours: Counted = msgspec.field(default_factory=Counted)
    aftermath: int = 0  # batches to come in which rows may fall late because of an end of ours
    held_since_time: float | None = None
    ahead_seconds: float | None = None  # of the clock, the watermark of a row of a far time
    forgets: bool = False  # it drops duplicates within the watermark
    shared: bool = False  # one watermark stands over several sources
    untold: bool = False  # there are several, and nobody told whether it does
    unordered: bool = False  # of one nobody knows that it reads in order
    apart_seconds: float | None = None  # partitions are read too far apart; inf: nobody knows
    waited_seconds: float = 0.0  # the oldest row that waits; inf: nobody saw since when
    cramped_seconds: float | None = None  # until an order acts, where that is too long
    commits: Commits = msgspec.field(default_factory=Commits)  # of files and tables
    slept_until_time: float | None = None  # how long before anything had been seen nobody knows
    piled: bool = False  # commits that a run reads as they waited when it began, seen by nobody

    def begin_checkpoint(self) -> Lateness:
        """Of a new checkpoint nothing is known but what kind of query it most likely is."""
        return Lateness(drops=self.drops, forgets=self.forgets)

    def begin_run(self) -> None:
        """The job may have been changed: its first batch shows what kind of query it is now."""
        self.of_past_run, self.run_shows_delay, self.run_time = True, False, None
        self.commits.lose_sight()
        self.commits.listed = False
        self.told_delay_seconds = None

    def retry(self) -> None:
        """Smaller batches are tried again; what the query drops as configured stays known."""
        self.after_ours, self.aftermath, self.held_since_time = Counted(), 0, None

    def observe(
        self,
        batch: Progress,
        sources: Sequence[Source],
        *,
        replayed: bool,
        obeyed_seconds: float,
        rested_time: float | None,
        clock_time: float | None,
        fixed: bool,
        complete: bool,
    ) -> None:
        """Takes in a batch; ``sources`` as they are after it.

        ``obeyed_seconds``: until what is decided now acts. ``rested_time``: of the last trigger
        that found nothing to do. ``clock_time``: when it was told of, by the driver's clock as it
        is set. ``fixed``: what the run reads was looked up once, as it began. ``complete``: its
        output mode, in which an aggregation drops nothing, and says 0 (``StateStoreSaveExec``).
        """
        dropped = [
            operator.dropped_rows
            for operator in batch.operators
            if operator.dropped_rows is not None and not (complete and operator.name == _AGGREGATES)
        ]
        first_of_run = self.of_past_run
        none_drops = complete and bool(batch.operators) and not dropped
        seen = self.drops and not first_of_run and not none_drops
        self.drops, self.of_past_run = seen or (batch.has_watermark and bool(dropped)), False
        if not self.drops:
            return
        forgets = any(operator.name == _FORGETS for operator in batch.operators)
        self.forgets = forgets or (self.forgets and not first_of_run)
        told = [one.shares_watermark for one in sources if one.limit_known]
        self.several = len(sources) > 1
        self.shared = self.several and True in told
        delays = [one.watermark_delay_seconds for one in sources if one.limit_known]
        self._tell_delay(next((one for one in delays if one is not None), None))
        self._follow(batch, sources, self.run_time if fixed else batch.time)
        self.piled = fixed and any(map(_by_commits, sources))
        before, watermark = self.greatest_time, batch.watermark_time
        # Where one between was not heard of, the watermark is of rows that nobody told; that of a
        # run's first batch was set by the run before.
        last = None if first_of_run else self.batch_id
        follows = last is not None and batch.batch_id == last + 1
        moved = watermark != self.watermark_time
        self.batch_id, self.watermark_time = batch.batch_id, watermark
        if before is not None:
            shows = follows and moved
            if watermark is not None and (watermark < before or (shows and watermark == before)):
                self.delay_seconds = before - watermark
                if shows:
                    least = self.least_delay_seconds if self.run_shows_delay else None
                    least = math.inf if least is None else least
                    self.least_delay_seconds = min(self.delay_seconds, least)
                    self.run_shows_delay = True
            if batch.least_event_time is not None:
                late = before - batch.least_event_time
                self.seconds = max(self.seconds or 0.0, late)
                if not self.aftermath:
                    self._note_own(batch.time, late)
        if clock_time is not None:
            self._look_ahead(batch, clock_time, moved=moved)
        parts = zip(sources, batch.sources, strict=False)
        self.commits.snapshot = any(part.snapshot for one, part in parts if one.controllable)
        if replayed or not follows:
            self.commits.lose_sight()
        # A list that was made for a batch that we cut short.
        list_is_ours = self.commits.listed and self.aftermath == _AFTERMATH_BATCHES
        # One that was planned by a run before, which not every first of a run shows, says nothing
        # of when that was.
        if not replayed and (not first_of_run or batch.batch_id == 0):
            self._look_at_commits(batch, sources, rested_time)
        self.commits.listed = not replayed and any(map(leaves_listed, sources))
        if batch.greatest_event_time is not None:
            self.greatest_time = max(before or -math.inf, batch.greatest_event_time)
        lanes = _several(sources)
        silent = not told or None in told or (lanes and self.told_delay_seconds is None)
        self.untold = self.several and not self.shared and silent
        # As much as comes until an order acts partitions may drift apart.
        acts_seconds = max(obeyed_seconds, LOST_REPLY_SECONDS)
        cramped = lanes and acts_seconds > self.harmless_seconds
        self.cramped_seconds = acts_seconds if cramped else None
        if replayed:
            return
        counted = self.after_ours if self.aftermath else self.as_configured
        if self.ahead_seconds is None:
            counted.rows += batch.rows or 0
            counted.dropped += sum(dropped)
        if self.held_since_time is None and counted is self.after_ours and self._too_many:
            self.held_since_time = batch.time + (batch.seconds or 0.0)
        self.aftermath = max(self.aftermath - 1, 0)
        if any(map(cut_short, sources)) or (list_is_ours and any(map(reads_list_out, sources))):
            self.aftermath = _AFTERMATH_BATCHES

    def _look_ahead(self, batch: Progress, clock_time: float, *, moved: bool) -> None:
        """Whether a row of a far time has taken the watermark beyond the clock and the others.

        It stays there until the others come as far: it never goes back. Where the rows of a batch
        lie about it, by their mean, it is by a clock of their own that they do; where their mean is
        nearer the clock, rows of the far time come in every batch, and most are not of it.
        """
        greatest = batch.greatest_event_time
        if batch.watermark_time is None or greatest is None:
            return
        ahead, far = batch.watermark_time - clock_time, self.ahead_seconds is not None
        if ahead > (self.declared_seconds or 0.0):
            mean = batch.mean_event_time
            # Nearer to it than to the clock; no row from further off can make a mean of others' so.
            own = mean is not None and ahead / 2 <= mean - clock_time <= 2 * ahead
            few = mean is not None and mean - clock_time < ahead / 2
            far = greatest <= clock_time or few or (far and not own)
        elif moved:
            far = False
        self.ahead_seconds = ahead if far else None

    def begins(
        self,
        sources: Sequence[Source],
        time: float,
        delay_seconds: float | None = None,
        *,
        fixed: bool = False,
    ) -> None:
        """A run begins: whether what waits may have come further apart than is harmless.

        Of what came while nothing ran nobody saw when it did, until a batch has read it.
        ``delay_seconds``: the least that the query declares now, where it is told. ``fixed``: it
        reads no more than what waits now.
        """
        if delay_seconds is not None:
            self.told_delay_seconds = delay_seconds
        self.hear(sources)
        self.piled = fixed and any(map(_by_commits, sources))
        unseen = fixed and self.run_time is None and _several(sources)
        self.apart_seconds = math.inf if unseen or self._waited_long(sources, time) else None

    def hear(self, sources: Sequence[Source]) -> None:
        """Takes in what was told of the sources between two batches."""
        self.unordered = any(map(_unordered, sources))

    def _tell_delay(self, seconds: float | None) -> None:
        # Of one source batches show it, too, and what a start told holds.
        if seconds is not None or self.several:
            self.told_delay_seconds = seconds

    def unseen(self, sources: Sequence[Source], seconds: float) -> None:
        """What came in so long a time nobody saw: a batch runs, or none has for so long."""
        if self.drops and _several(sources) and seconds > self.harmless_seconds:
            self.apart_seconds = math.inf

    def slept(self, sources: Sequence[Source], time: float) -> None:
        """The driver's machine may have slept until ``time``: for how long nobody saw what came."""
        self.slept_until_time = time
        for source in sources:
            if source.lanes is not None:
                source.lanes.rewind()
        self.unseen(sources, math.inf)

    def _follow(
        self, batch: Progress, sources: Sequence[Source], looked_time: float | None
    ) -> None:
        """How far apart in time the partitions of each source are read, with this batch."""
        apart, looked, waited = 0.0, True, 0.0
        harmless, time = self.harmless_seconds, looked_time or batch.time
        for source, part in zip(sources, batch.sources, strict=False):
            if part.offsets is None:
                source.lanes = None
                if source.of_kafka:
                    apart = math.inf
                continue
            if source.lanes is None:
                source.lanes = Lanes()
            all_told = part.start_places >= len(source.lanes.places)
            if all_told and part.start is not None and part.start < source.lanes.read_rows:
                source.lanes.rewind()
                apart = math.inf
            if part.latest is None:
                looked = False  # a batch planned by the run before is run again
                continue
            source.lanes.look(part.offsets, part.latest, time, even_seconds=harmless)
            if source.lanes.waits:
                waited = max(waited, time - (source.lanes.oldest_time or -math.inf))
            if source.lanes.several:
                spread = source.lanes.spread_seconds
                apart = max(apart, math.inf if spread is None else spread)
                if looked_time is None or time <= (self.slept_until_time or -math.inf):
                    source.lanes.rewind()  # nobody knows how long ago it was looked up
                    apart = math.inf
        self.waited_seconds = waited
        self.hear(sources)
        if apart > harmless:
            self.apart_seconds = apart
        elif looked:
            self.apart_seconds = None

    def _look_at_commits(
        self, batch: Progress, sources: Sequence[Source], rested_time: float | None
    ) -> None:
        if not any(map(_by_commits, sources)):
            self.commits.lose_sight()
            return
        least, greatest = batch.least_event_time, batch.greatest_event_time
        self.commits.look(
            sources,
            None if least is None or greatest is None else (least, greatest),
            self.greatest_time,
            planned_time=batch.time,
            rested_time=rested_time or -math.inf,
            harmless_seconds=None if self.declared_seconds is None else self.harmless_seconds,
        )

    @property
    def declared_seconds(self) -> float | None:
        """The least that is declared, as far as it can be relied on."""
        told = self.told_delay_seconds
        return self.least_delay_seconds if told is None and not self.several else told

    @property
    def harmless_seconds(self) -> float:
        """So far apart in time partitions may be read; 0 where no delay is known."""
        delay = self.declared_seconds or 0.0
        return APART_SHARE * max(delay - self._own_seconds, 0.0)

    @property
    def _own_seconds(self) -> float:
        """How late rows come by themselves.

        Spark tells the event times of one of several sources, so of these half of the delay is left
        to rows that nobody sees.
        """
        if self.several:
            return APART_SHARE * (self.declared_seconds or 0.0)
        return max(self.own_seconds, self.own_before_seconds)

    def _note_own(self, time: float, late: float) -> None:
        hour = int(time // LATE_KEPT_SECONDS)
        if hour != self.own_hour:
            self.own_before_seconds = self.own_seconds if hour == self.own_hour + 1 else 0.0
            self.own_seconds, self.own_hour = 0.0, hour
        if late < (self.declared_seconds or 0.0):
            self.own_seconds = max(self.own_seconds, late)

    def _waited_long(self, sources: Sequence[Source], time: float) -> bool:
        for source in sources:
            lanes = source.lanes
            if lanes is None:
                if source.of_kafka:
                    return True  # nobody has followed it yet
                continue
            since = lanes.since_time
            if lanes.several and (since is None or time - since > self.harmless_seconds):
                return True
        return False

    @property
    def _too_many(self) -> bool:
        """Whether more rows fell late after ends of ours than would have as configured.

        Where none did as configured, one is too many. Else two Poisson rates are compared (Huffman,
        "An improved approximate two-sample Poisson test", Applied Statistics 33, 1984).
        """
        usual, ours = self.as_configured, self.after_ours
        if not usual.dropped:
            return ours.dropped > 0
        if not usual.rows:
            return False  # of a batch that read nothing: a rate of no rows is above any other
        ratio = ours.rows / usual.rows
        above = math.sqrt(ours.dropped + _ANSCOMBE) - math.sqrt((usual.dropped + _ANSCOMBE) * ratio)
        return 2.0 * above / math.sqrt(1.0 + ratio) > EXCESS_SIGMAS

    def holds(self, late_rows: LateRows, *, first: bool = False) -> bool:
        """Whether batches must be as the job configured them.

        ``first``: of a checkpoint. Where that batch ends nothing is known of its rows, and as
        configured it drops none, for no watermark comes before it. Its query may be one of a known
        name that has only now been given a watermark.
        """
        drops = self.drops or (first and self.told_delay_seconds is not None)
        if late_rows == "allow" or not drops:
            return False
        return first or self.uneven or late_rows == "hold" or self.went_back(late_rows)

    @property
    def uneven(self) -> bool:
        """Whether its result may be another one wherever the end of a batch is ours.

        As rows may be read far out of the order in which they came, or keys are forgotten.
        """
        apart = self.apart_seconds is not None or self.cramped_seconds is not None
        always = self.forgets or self.shared or self.unordered
        commits = self.piled or self.commits.snapshot or self.commits.apart_seconds is not None
        return always or self.untold or self.tied or apart or commits

    @property
    def tied(self) -> bool:
        """Whether rows of one time, in two batches, are late: the least delay is zero."""
        return self.declared_seconds == 0.0

    def lapse_seconds(self, sources: Sequence[Source], late_rows: LateRows) -> float | None:
        """So long a limit may stand while nobody watches how far apart rows are read; None: always.

        Meanwhile partitions drift apart by as much; what batches cut then needs the other half. Of
        files and tables nobody sees meanwhile that a commit holds rows far apart. No less than what
        a reply that is lost takes to be made good: where that is too much, nothing is cut.
        """
        if late_rows == "allow" or not self.drops:
            return None
        if not _several(sources) and not any(map(_by_commits, sources)):
            return math.inf if len(sources) > 1 else None
        return max(APART_SHARE * self.harmless_seconds, LOST_REPLY_SECONDS)

    def went_back(self, late_rows: LateRows) -> bool:
        """Whether batches are as configured again, as smaller ones dropped rows as late."""
        return late_rows != "allow" and self.held_since_time is not None

    @property
    def seen(self) -> str:
        """The lateness seen so far, in figures."""
        usual, ours = self.as_configured, self.after_ours
        said = [f"as configured {_of(usual)}"] if usual.rows else []
        if ours.rows:
            said.append(f"after ends set by Weir {_of(ours)}")
        if self.seconds is not None:
            late = _seconds(max(self.seconds, 0.0))
            said.append(f"the latest row came {late} behind the newest before its batch")
        return ", ".join(said) or "nothing seen yet"


def _several(sources: Sequence[Source]) -> bool:
    return any(one.lanes is not None and one.lanes.several for one in sources)


def _unordered(source: Source) -> bool:
    """Whether it is cut, and nobody knows that it reads what came first before what came later."""
    followed = source.lanes is not None and bool(source.lanes.places)
    if not source.controllable or followed or source.of_kafka:
        return False
    return not _in_order(source)


def _by_commits(source: Source) -> bool:
    """Whether it is cut, and reads one commit after the other."""
    return source.controllable and _in_order(source)


def _in_order(source: Source) -> bool:
    if source.in_order is not None:
        return source.in_order
    if source.source_class not in ("", UNTOLD):
        return known(source.source_class).in_order
    # A log, and a state saved by a version before, has what the source says of itself alone.
    told = source.description
    return known(told.partition("@")[0]).in_order or _IN_ORDER.match(told) is not None


def cut_short(source: Source) -> bool:
    """Whether a limit below the configured one ended the source's last batch."""
    limit = source.batch_limit
    if limit is None or (source.configured is not None and limit >= source.configured):
        return False
    if source.limited:
        return True
    # Where nobody tells what is left, a source that reads whole chunks stays below a limit that
    # ends its batches: of equal chunks, none larger than the limit, more than half of it is taken.
    return source.backlog is None and (source.admitted is None or source.admitted > limit / 2)


def findings(lateness: Lateness, late_rows: LateRows, *, controlled: bool) -> list[Finding]:
    """What the query's declared delay means for smaller batches, for page and audit."""
    ahead = lateness.ahead_seconds if lateness.drops else None
    far = [] if ahead is None else [_far(ahead)]
    return far + _of_ends(lateness, late_rows, controlled=controlled)


def _far(ahead_seconds: float) -> Finding:
    return Finding(
        "late_rows",
        "error",  # all rows are lost from now on, though nothing fails: WeirWatermarkAhead
        f"the watermark is {_seconds(max(ahead_seconds, 0.0))} ahead of the clock, as one row of a "
        "far time takes it: rows are dropped as late, wherever batches end, until others' times "
        "have come as far or the checkpoint begins anew",
        "leave out rows with times of the future before withWatermark, and begin a new checkpoint",
    )


def _of_ends(lateness: Lateness, late_rows: LateRows, *, controlled: bool) -> list[Finding]:
    if not lateness.drops or not controlled:
        return []
    if lateness.went_back(late_rows):
        return [
            Finding(
                "late_rows",
                "warning",
                f"smaller batches dropped rows as late ({lateness.seen}), so they are as "
                "configured again",
                "give the watermark a longer delay; or accept such losses with late_rows: allow; "
                "`weir release` tries smaller batches again",
            )
        ]
    if late_rows == "guard" and lateness.uneven:
        return [_uneven(lateness)]
    delay = lateness.delay_seconds
    declared = "the declared delay" if delay is None else f"the declared delay ({_seconds(delay)})"
    meaning = f"rows later than {declared} are dropped where the end of a batch comes before them"
    remedies = {
        "hold": "nothing: late_rows is hold, so batches are never smaller than the job configured",
        "guard": "nothing: as soon as that costs rows, batches are as configured again; "
        "late_rows: hold never makes them smaller, allow accepts it",
        "allow": "late_rows is allow: smaller batches may drop more of them; guard would go back",
    }
    evidence = f"{meaning}, so smaller batches may drop more of them; {lateness.seen}"
    remedy = remedies[late_rows]
    # Two batches end before anybody has acted on it.
    if late_rows == "guard" and lateness.waited_seconds > APART_SHARE * (delay or 0.0):
        long = lateness.waited_seconds
        came = "when nobody looked" if math.isinf(long) else f"up to {_seconds(long)} ago"
        evidence += f"; what waits came {came}: a partition added now may drop it"
        remedy = "add no partitions until it has caught up, or give it late_rows: hold before"
    return [Finding("late_rows", "info", evidence, remedy)]


def _uneven(lateness: Lateness) -> Finding:
    """Why nothing is cut: rows are not read in the order in which they came, or keys forgotten."""
    if lateness.forgets:
        return Finding(
            "late_rows",
            "info",
            "dropDuplicatesWithinWatermark forgets a key when the watermark has passed it by the "
            "delay, and within one batch it forgets none: smaller batches may give a key out again "
            "that a large one gave out once; so batches are as configured",
            "nothing; late_rows: allow makes batches smaller all the same",
        )
    if lateness.shared:
        return Finding(
            "late_rows",
            "info",
            "one watermark stands over several sources: a smaller batch may read one of them far "
            "ahead of another, whose rows would then be dropped as late; so batches are as "
            "configured",
            "give each source a watermark of its own before they come together; late_rows: allow "
            "makes batches smaller all the same",
        )
    if lateness.unordered:
        return Finding(
            "late_rows",
            "info",
            "a source may read what came later before what came first: the newest files, by an "
            "option (latestFirst), or one of its shards or ranges far ahead of another, where in "
            "what order it reads is not known; smaller batches may drop as late what they leave, "
            "so they are as configured",
            "without latestFirst files are read as they came; where you know that another source "
            "reads so, late_rows: allow makes batches smaller",
        )
    if lateness.untold:
        return Finding(
            "late_rows",
            "info",
            "whether one watermark stands over several sources, or what the least delay of theirs "
            "is, nobody told, and smaller batches may drop rows as late; so batches are as "
            "configured",
            "update weir-spark-listener in the job, which tells it of every plan but the largest; "
            "late_rows: allow makes batches smaller all the same",
        )
    if lateness.tied:
        return Finding(
            "late_rows",
            "info",
            "the declared delay is 0 s: of rows that have one time Spark drops those as late that "
            "come in the batch after the first, and more small batches end between such rows; so "
            "batches are as configured",
            "declare a delay of 1 millisecond or more; late_rows: allow makes batches smaller all "
            "the same",
        )
    if lateness.commits.snapshot:
        return Finding(
            "late_rows",
            "info",
            "a table is read as it was found, and its files stand in no order of time: a smaller "
            "batch may read new rows before old ones, which would then be dropped as late; so "
            "batches are as configured until it is read",
            "nothing: smaller batches come by themselves; late_rows: allow makes batches smaller "
            "at once",
        )
    if lateness.piled:
        return Finding(
            "late_rows",
            "info",
            "under AvailableNow files or a table are read as they piled up while nobody looked: "
            "files of one commit stand in no order of time, how far its rows lie apart is not "
            "known, and the end of a smaller batch between two may drop the rows of the second as "
            "late; so batches are as configured",
            "where what is written into them comes in small steps of time, late_rows: allow makes "
            "batches smaller",
        )
    delay = lateness.declared_seconds
    declared = "" if delay is None else f" of {_seconds(delay)}"
    if lateness.apart_seconds is None and lateness.cramped_seconds is None:
        far = _seconds(lateness.commits.apart_seconds or 0.0)
        return Finding(
            "late_rows",
            "info",
            f"rows came at once, in several files, that lie up to {far} apart, for the declared "
            f"delay{declared} too far: files of one commit stand in no order of time, and the end "
            "of a smaller batch between two may drop the rows of the second as late; so batches "
            "are as configured",
            "a longer delay, or smaller commits into what is read; late_rows: allow makes batches "
            "smaller all the same",
        )
    if lateness.apart_seconds is None:
        acts = _seconds(lateness.cramped_seconds or 0.0)
        return Finding(
            "late_rows",
            "info",
            f"until a smaller limit acts {acts} may go by, and the declared delay{declared} leaves "
            f"{_seconds(lateness.harmless_seconds)}: as much as comes meanwhile partitions may be "
            "read apart, and rows of one dropped as late behind another's; so batches are as "
            "configured",
            "a longer delay, a shorter target or trigger interval, or rows that come less late; "
            "late_rows: allow makes batches smaller all the same",
        )
    apart = lateness.apart_seconds
    far = "at times that nobody saw" if apart == math.inf else f"up to {_seconds(apart)} apart"
    return Finding(
        "late_rows",
        "info",
        f"what waits in the partitions came {far}, for the declared delay{declared} too far apart: "
        "smaller batches may drop the rows of one as late behind another's; so batches are as "
        "configured until that is read",
        "nothing: smaller batches come by themselves; a longer delay gives them more room, as do "
        "batches well below half of it; late_rows: allow makes batches smaller at once",
    )


def _of(counted: Counted) -> str:
    return f"{counted.dropped:,} of {counted.rows:,} rows dropped"


def _seconds(seconds: float) -> str:
    return f"{figure(seconds)} s"
