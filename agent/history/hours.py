"""Hours: what each hour of a query was like, which were the worst, and the limit that fits it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.decide.size import BARE_MARGIN, Ask, Size, size_of
from agent.core.decide.step import interval_rows
from agent.core.figures import figure
from agent.core.measure import pace
from agent.history.crewed import HOUR_SECONDS, Crewed, CrewedHours, hour_of
from agent.history.rows import CAPACITY, RECOMMENDATIONS, Row, Whose

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.core.decode.events import Progress, SourceProgress
    from agent.core.judgement import Judgement
    from agent.core.measure.cost import Cost
    from agent.core.policy import QueryPolicy
    from agent.core.query import Query

#: Of batches, an hour's or all, so many are kept for quantiles; of more every second, fourth and so
#: on.
MOST_KEPT: Final = 4096
#: A limit is advised from so many batches on; fewer do not tell a batch's fixed cost.
FEWEST_BATCHES: Final = 5
#: ... and where the time of its batch is known this well, relative to it: a batch of 1 s may as
#: well take 1.5 s, and what it does beside that is not worth a restart.
MOST_DOUBT: Final = 0.5
#: Sizes are tried in such steps, well below what is in doubt of them.
NEXT_SMALLER: Final = 0.9


class Sample(msgspec.Struct):
    """Values in the order they came, one of each so many: all of them count, not their end."""

    values: list[float] = []
    each: int = 1  # so many values does each of those kept stand for
    seen: int = 0

    def add(self, value: float) -> None:
        """Keeps it, where it is its turn."""
        if self.seen % self.each == 0:
            if len(self.values) == MOST_KEPT:
                del self.values[1::2]
                self.each *= 2
            # The next of twice as many, too, as an even number of them was kept.
            self.values.append(value)
        self.seen += 1


class Hour(msgspec.Struct):
    """One hour of one query; None is unknown."""

    begin: float
    whose: Whose
    first_time: float | None = None  # of its batches' ends
    last_time: float | None = None
    batches: int = 0
    empty: int = 0
    rows: int = 0
    busy_seconds: float = 0.0
    over_target: int = 0
    failures: int = 0
    spiral: int = 0  # batches in any phase but none
    #: While it lasts: then figures are left of them, as hours are kept for months.
    seconds: Sample = msgspec.field(default_factory=Sample)
    sizes: Sample = msgspec.field(default_factory=Sample)
    arrivals: Sample = msgspec.field(default_factory=Sample)
    seconds_p50: float | None = None
    seconds_p95: float | None = None
    rows_p50: float | None = None
    rows_p95: float | None = None
    arrival: float | None = None  # rows per second in its busier batches
    longest_seconds: float | None = None
    most_rows: float | None = None
    most_backlog_rows: float | None = None
    most_backlog_seconds: float | None = None
    fixed_cost_seconds: float | None = None
    throughput_rows_per_second: float | None = None
    limit_rows: float | None = None
    limit_reason: str = ""
    required_ratio: float | None = None

    def hear(
        self,
        time: float,
        line: Judgement,
        would: Judgement,
        progress: Progress | None,
        target_seconds: float,
    ) -> None:
        """Takes in a judged event of this hour."""
        self.failures += line.event == "terminated" and line.failure is not None
        self.most_backlog_rows = _most(self.most_backlog_rows, line.backlog_rows)
        self.most_backlog_seconds = _most(self.most_backlog_seconds, line.backlog_seconds)
        if progress is None:
            return
        if self.first_time is None:
            self.first_time = time
        self.last_time = time
        if not progress.rows:
            self.empty += 1
        self.spiral += line.spiral.phase != "none"
        self.fixed_cost_seconds = line.fixed_cost_seconds
        self.throughput_rows_per_second = line.throughput_rows_per_second
        if would.arrival_rows_per_second is not None:
            self.arrivals.add(would.arrival_rows_per_second)
        seconds = progress.seconds
        if seconds is not None and progress.rows:
            self.rows += progress.rows
            self.busy_seconds += seconds
            self.over_target += seconds > target_seconds
            self.longest_seconds = _most(self.longest_seconds, seconds)
            self.most_rows = _most(self.most_rows, float(progress.rows))
            self.seconds.add(seconds)
            self.sizes.add(float(progress.rows))
        self.batches += 1

    def end(self) -> None:
        """It is over: its figures are those of the values kept, and these are let go."""
        self.seconds_p50 = quantile(self.seconds, 0.5)
        self.seconds_p95 = quantile(self.seconds, 0.95)
        self.rows_p50, self.rows_p95 = quantile(self.sizes, 0.5), quantile(self.sizes, 0.95)
        self.arrival = quantile(self.arrivals, 0.95)
        if self.batches > self.empty:
            # Rows were read, so 0 says that each run's end was fixed as it began (AvailableNow).
            self.arrival = self.arrival or None
        self.seconds = self.sizes = self.arrivals = Sample()

    def settle(self, query: Query, settings: QueryPolicy) -> None:
        """After its end: the limit that the model of the time asks for, at the hour's arrivals."""
        size, self.required_ratio = limit_for(query, self.arrival, settings)
        if size is not None:
            self.limit_rows, self.limit_reason = size.rows, size.reason or "target"

    @property
    def badness(self) -> tuple[float, float, float, float]:
        """What makes an hour worse than another, the gravest first."""
        share = self.over_target / max(self.batches - self.empty, 1)
        lag = self.most_backlog_seconds or 0.0
        return (float(self.failures), float(self.spiral), share * (self.longest_seconds or 0), lag)

    def row(self, rank: int, crew: Crewed, limit: int | None) -> Row:
        """With its rank among the query's hours, the worst first, and its limit as one counts."""
        return CAPACITY, (
            *self.whose.values,
            self.begin,
            rank,
            self.batches,
            self.empty,
            self.rows,
            min(self.busy_seconds / HOUR_SECONDS, 1.0),
            self.seconds_p50,
            self.seconds_p95,
            self.longest_seconds,
            self.rows_p50,
            self.rows_p95,
            self.over_target,
            self.failures,
            self.spiral,
            self.arrival,
            self.most_backlog_rows,
            self.most_backlog_seconds,
            self.fixed_cost_seconds,
            self.throughput_rows_per_second,
            self.required_ratio,
            limit,
            self.limit_reason or None,
            *crew.means,
            crew.most or None,
            crew.bound or None,
        )


class _Source(msgspec.Struct):
    rows: int = 0
    #: Of the batches whose offsets are told, which a limit counts: these, and the rows.
    counted: int = 0
    counted_rows: int = 0

    def add(self, source: SourceProgress) -> None:
        """What it had in a batch."""
        self.rows += source.rows or 0
        if source.rows and source.unit == "rows" and source.admitted:
            self.counted += source.admitted
            self.counted_rows += source.rows

    @property
    def rows_each(self) -> float:
        """Rows, as Spark counts them, for each that a limit counts."""
        return self.counted_rows / self.counted if self.counted else 1.0


class Hours:
    """All hours of one query."""

    def __init__(self) -> None:
        self.known: list[Hour] = []
        self.crew = CrewedHours()
        self._seconds, self._sizes = Sample(), Sample()  # of batches that read something
        # Those that the newest batch had, by place and description.
        self._sources: dict[tuple[int, str], _Source] = {}

    def read(self, progress: Progress) -> None:
        """What a batch read from each source, and how long it took."""
        if progress.seconds is not None and progress.rows:
            self._seconds.add(progress.seconds)
            self._sizes.add(float(progress.rows))
        present = [(index, one.description) for index, one in enumerate(progress.sources)]
        if present and present != list(self._sources):
            # What an earlier run read gets no part of a limit, nor does months of one make those
            # of one that was added small.
            self._sources = {key: _Source() for key in present}
        for key, source in zip(present, progress.sources, strict=True):
            self._sources[key].add(source)

    def at(self, whose: Whose, time: float) -> tuple[Hour, Hour | None]:
        """The hour of a time, and the one that it ends, if it does."""
        begin = hour_of(time)
        last = self.known[-1] if self.known else None
        if last is not None and begin <= last.begin:
            return last, None  # a word that came late
        if last is not None:
            last.end()
        hour = Hour(begin, whose)
        self.known.append(hour)
        return hour, last

    def rows(self) -> list[Row]:
        """Every hour that had a batch or a failure."""
        told = [hour for hour in self.known if hour.batches or hour.failures]
        worst = sorted(told, key=lambda hour: (hour.badness, -hour.begin), reverse=True)
        rank = {id(hour): place for place, hour in enumerate(worst, 1)}
        return [
            hour.row(rank[id(hour)], self.crew.of(hour.begin), self._limit(hour.limit_rows))
            for hour in told
        ]

    def recommendation(self, query: Query, settings: QueryPolicy, decisions: int) -> Row | None:
        """The limit that the query should have; None where it had no batch at all."""
        told = [hour for hour in self.known if hour.batches > hour.empty]
        if not told:
            return None
        whose = told[-1].whose
        batches = sum(hour.batches - hour.empty for hour in told)
        over = sum(hour.over_target for hour in told)
        # What its newest run reads from does not tell it, whatever the one before did.
        busiest = None if query.untold() else _largest(hour.arrival for hour in told)
        size, ratio = limit_for(query, busiest, settings)
        if query.sizing.cost.batches < FEWEST_BATCHES:
            size = None
        limit = self._limit(None if size is None else size.rows)
        several = len(self._read) > 1
        expected = None if size is None else query.sizing.cost.seconds(size.rows)
        doubt = None if size is None else query.sizing.cost.doubt(size.rows)
        sure = None if size is None else _surely_required(query, size, ratio)
        advice = _advice(
            limit,
            size,
            expected,
            doubt,
            over=over,
            batches=batches,
            learned=query.sizing.cost.batches,
            settings=settings,
            ratio=sure,
            several=several,
            trigger_seconds=query.run.trigger_seconds,
        )
        if _in_doubt(expected, doubt):
            limit = sure = None
        if size is not None and limit is not None:
            advice += self._by_sources(size.rows)
        if limit is not None and busiest is None:
            advice += "; what arrives is not told, so nor is whether it keeps up"
        if limit is not None and query.watched.lateness.drops:
            advice += (
                "; its watermark moves once a batch, so smaller batches drop rows as late that "
                "larger ones count, and within its delay too where partitions hold unequal times"
            )
        longest = _longest_trigger(query, size, busiest, quantile(self._seconds, 0.5))
        if limit is not None and longest is not None:
            advice += (
                f"; with a trigger interval of more than {figure(longest)} s it would not keep up, "
                "and the batches do not show which one it has"
            )
        crew = self.crew.whole
        had, wanted = crew.means
        return RECOMMENDATIONS, (
            *whose.values,
            told[0].first_time,
            told[-1].last_time,
            batches,
            settings.target_seconds,
            settings.deadline_seconds,
            query.sizing.cost.fixed_cost,
            query.sizing.cost.throughput,
            query.sizing.cost.sigma,
            query.run.trigger_seconds if pace.is_known(query.run) else None,
            busiest,
            quantile(self._sizes, 0.5),
            _largest(hour.most_rows for hour in told),
            quantile(self._seconds, 0.5),
            quantile(self._seconds, 0.95),
            _largest(hour.longest_seconds for hour in told),
            over / batches,
            limit,
            len(self._read),
            None if size is None else size.reason or "target",
            expected,
            doubt,
            None if size is None else size.feasible,
            ratio,
            sure,
            decisions,
            advice,
            None if had is None else 24.0 * had,
            None if wanted is None else 24.0 * wanted,
            crew.most or None,
            crew.bound or None,
        )

    @property
    def _read(self) -> dict[tuple[int, str], _Source]:
        """Those of the sources that had rows."""
        return {key: one for key, one in self._sources.items() if one.rows}

    def _parts(self, rows: float) -> list[float]:
        """So many rows of a batch by the sources that had any, as a limit counts them."""
        read = self._read.values()
        whole = sum(one.rows for one in read)
        return [round(rows) * (one.rows / whole) / one.rows_each for one in read]

    def _limit(self, rows: float | None) -> int | None:
        """So many rows of a batch as the limits of its sources count them, all together."""
        if rows is None:
            return None
        parts = self._parts(rows)
        return max(round(sum(parts)), 1) if parts else round(rows)

    def _by_sources(self, rows: float) -> str:
        """What each is given of so many rows, as there is no limit for all of them together."""
        read, said = self._read, ""
        several = len(read) > 1
        if several:
            parts = [
                f"{max(round(part), 1):,} of {description} (source {index})"
                for (index, description), part in zip(read, self._parts(rows), strict=True)
            ]
            said = f"; by sources: {', '.join(parts)}"
        for (index, _), one in read.items():
            each = figure(round(one.rows_each, 1) or one.rows_each)
            if each != "1":
                said += "; offsets, which a limit counts, "
                said += f"of source {index} " if several else ""
                said += f"had {each} rows each"
        return said


def limit_for(
    query: Query, arrival: float | None, settings: QueryPolicy
) -> tuple[Size | None, float | None]:
    """(the size of a batch that the query's model asks for, capacity needed over present one)."""
    cost = query.sizing.cost
    if cost.batches == 0:
        return None, None
    lost = query.sizing.reach.lost
    trigger = query.run.trigger_seconds
    ask = Ask(
        arrival,
        trigger,
        sigma=cost.cautious_sigma,
        lost=lost,
        start_seconds=query.sizing.cold.expected(cost),
        slow_seconds=cost.slow_seconds,
        sure_rows=_known_rows(cost, interval_rows(cost, settings, trigger)),
    )
    size = size_of(cost.curve, ask, settings)
    return (size if math.isfinite(size.rows) else None), size.required_ratio


def _known_rows(cost: Cost, most: float) -> float:
    """Of so many rows at most, those whose batch's time is known well enough to advise them.

    A batch that fills a long trigger interval is far beyond any that was seen.
    """
    rows = most
    while rows >= 1.0 and _in_doubt(cost.seconds(rows), cost.doubt(rows)):
        rows *= NEXT_SMALLER
    return rows


def _longest_trigger(
    query: Query, size: Size | None, arrival: float | None, usual_seconds: float | None
) -> float | None:
    """The trigger interval with which batches of that size just digest what arrives.

    None where the interval is known, where they do not digest it without one, or where it cannot be
    as long: batches that follow each other without a pause take as long as it on average.
    """
    if size is None or not arrival or pace.is_known(query.run):
        return None
    longest = size.rows / (arrival * (1.0 + BARE_MARGIN))
    keeps_up = longest >= (query.sizing.cost.seconds(size.rows) or 0.0)
    may_be = bool(query.run.starts) or longest < (usual_seconds or 0.0)
    return longest if keeps_up and may_be else None


def _surely_required(query: Query, size: Size | None, ratio: float | None) -> float | None:
    """The capacity needed over the present one, less what the doubt of it may be."""
    if size is None or ratio is None or size.largest_rows <= 0.0:
        return ratio
    seconds = query.sizing.cost.seconds(size.largest_rows) or 0.0
    return ratio / (1.0 + query.sizing.cost.doubt(size.largest_rows) / seconds)


def _in_doubt(expected: float | None, doubt: float | None) -> bool:
    """Whether a batch's time is known too badly to advise its size."""
    return expected is not None and doubt is not None and doubt > MOST_DOUBT * expected


def _advice(
    limit: int | None,
    size: Size | None,
    expected: float | None,
    doubt: float | None,
    *,
    over: int,
    batches: int,
    learned: int,
    settings: QueryPolicy,
    ratio: float | None,
    several: bool,
    trigger_seconds: float,
) -> str:
    if limit is None or size is None or expected is None:
        if batches >= FEWEST_BATCHES:
            return (
                f"of {batches:,} batches {learned} tell what one costs, and {FEWEST_BATCHES} are "
                "needed: seldom does the first of a run, and none that was run again or saw "
                "executors come or go"
            )
        return f"too few batches to tell a limit from; {FEWEST_BATCHES} are needed"
    if doubt is not None and _in_doubt(expected, doubt):
        low, high = max(expected - doubt, 0.0), expected + doubt
        return (
            f"a batch of {round(size.rows):,} rows may take {figure(low)} to {figure(high)} s: "
            "too few batches near that size to advise a limit"
        )
    target = f"{settings.target_seconds:g} s"
    rows = f"{limit:,} rows" + (" over all sources" if several else "")
    said = f"a limit of {rows} keeps a batch near {expected:.3g} s"
    if ratio is not None and ratio > 1.0:
        return (
            f"{said}, and the query cannot keep up with its busiest hour at any size: it needs "
            f"{ratio:.2g} times its capacity"
        )
    if size.reason == "floor:stability":
        return f"{said}: less would not keep up with its busiest hour"
    if size.reason == "floor:trigger":
        return (
            f"{said}: what a smaller one leaves waits for the next trigger, "
            f"{figure(trigger_seconds)} s later"
        )
    if size.reason == "floor:fixed_cost":
        return f"{said}: its fixed cost alone takes the target of {target}"
    if size.reason == "bound:deadline":
        return f"{said}, within the deadline"
    if size.reason == "bound:restart":
        return f"{said}: as the first of a driver, which takes longer, it still keeps the deadline"
    if not over:
        return f"every batch was within {target}; {said}, should more pile up"
    return f"{said}; {over} of {batches} batches took longer than {target}"


def quantile(sample: Sample, share: float) -> float | None:
    """The value below which that share of all lies; None of nothing."""
    ordered = sorted(sample.values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _most(known: float | None, now: float | None) -> float | None:
    if known is None or now is None:
        return now if known is None else known
    return max(known, now)
