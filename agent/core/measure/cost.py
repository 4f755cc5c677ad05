"""Cost: what a batch of n rows takes, ``B(n) = c0 + s n + d n^2``, learned from batches.

The curve: fixed cost c0, seconds per row s, congestion d; d makes rows dearer in larger batches
(spilling, garbage collection, a crowded sink), and gives a size of highest throughput. Noise is
multiplicative: what counts is the relative error of a batch's time.

A plant changes, and from one batch nobody knows what did. So a bank of Gaussians over (c0, s, d) is
kept (Gaussian sum filter: Alspach and Sorenson 1972; multiple models: Blom and Bar-Shalom 1988),
each one history of changes: none, or at some batch the fixed cost, the rows, or both jumped, or
larger batches began to get dearer. With every batch each makes a Kalman step (Kalman 1960) and is
weighed by how well it foretold the batch; the likeliest has one child per kind of change, and one
by which this batch alone was slow; those that have come to tell the same become one (mixture
reduction: Salmond 1990), and the weakest are dropped, but never the best that knows of congestion.
What is decided by is their mixture.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import msgspec

from agent.core.measure.decaying import LATELY_BATCHES

#: How often the cost of a batch changes at once, per batch: half or twice as often finds the same
#: changes in the same batches.
CHANGE_CHANCE: Final = 0.01
#: What changes, each as likely as the others, and by about a batch: the fixed cost, the rows, all
#: of it, or that larger batches get dearer.
FIXED, ROWS, ALL, BEND = 0, 1, 2, 3
_KINDS: Final = (FIXED, ROWS, ALL, BEND)
#: As many histories are kept as one batch tells stories: none of that, each kind, or that it was
#: slow by itself. With eight all figures are as with these six; with four a change is pushed out
#: before it has been heard, where of the last one three stories are still told.
_HISTORIES: Final = len(_KINDS) + 2
#: That larger batches get dearer is told by those that hold this share of the largest of late, or
#: more: by a small one that was slow a large one would be foretold to take a thousand seconds.
BEND_SHARE: Final = 0.25
#: The log weight with which a change of one kind begins; a history that is no likelier, beside the
#: likeliest, than a change that no batch has shown yet is not kept.
_UNHEARD: Final = math.log(CHANGE_CHANCE / len(_KINDS))
#: How often a batch is slow by itself, for a pause or a neighbour (of small batches of real queries
#: 2 to 8 in 100), and by about how many times the seconds that are noise in the largest batches: it
#: was half of them to one and a half, and what is rarer still must not tell of all others. With a
#: chance half or twice as high the same is believed.
STALL_CHANCE: Final = 0.04
STALL_TIMES: Final = 2.0
#: A batch that took so many times as long as foretold, or more, sat something out, such as a sink
#: that was away: what a batch costs hardly changes by as much, and a pause ends sooner. Of half as
#: many a change would be believed a batch later, of twice as many an outage of half an hour.
OUTAGE_TIMES: Final = 20.0
#: How far every part drifts unnoticed from one batch to the next, relative: a fixed cost that grows
#: with its state is followed, and of a calm batch (sigma 0.05) a seventh is believed. At half of it
#: the former is not.
DRIFT: Final = 0.008
#: Noise of a batch's time believed beforehand (deviation of its log; real queries have 0.1 to 0.3),
#: for how many batches' worth, few enough to be corrected by the first ten; the steady weight of a
#: new batch in it, which averages over 25. Half of it judges alike where no query starts cold, as
#: in the simulator; a real one remembers the noise of its first batches twice as long then.
PRIOR_SIGMA: Final = 0.2
PRIOR_BATCHES: Final = 4
SIGMA_GAIN: Final = 0.04
#: No noise is taken to be smaller: of a calm query half of each batch would be believed, and the
#: first pause of a collector with it.
LEAST_SIGMA: Final = 0.05
#: The true variance may exceed the believed one by this over the number of batches behind it: of
#: ten batches, one variance in six lies more than 1.7 times above what they show.
SIGMA_UNSURE: Final = 8.0
#: Noise does no more to a batch, in sigmas: what is beyond was a step, or has a cause.
STEP_SIGMAS: Final = 3.0
#: What noise may well do to a batch, in sigmas: of fifty one takes longer. A deadline leaves room
#: for that, and a driver's first batch that took no longer than so tells of no slow start.
NOISE_SIGMAS: Final = 2.0
#: What the first batch tells of c0: a share of it, at most of the target, which its user thinks
#: feasible; and how unsure that is, relative to the batch: none and nearly all of it are credible.
FIRST_SHARE: Final = 0.3
FIRST_SPREAD: Final = 0.5
#: A first batch of which the second takes less than this share, at about its size, paid for code
#: generation (49 s against 11 on a real query), not for rows: it counts for nothing.
FIRST_SLOW: Final = 0.5
#: Of batches that were slow by themselves the last are kept, and from so many on they tell what
#: they add to each in the mean: the worst is left out, which may be an accident, and of one alone
#: nobody knows how often it comes.
FEWEST_SLOW: Final = 3
#: Beyond the largest size seen lately the curve may bend: by so much of a batch per e-fold of rows.
BEYOND: Final = 0.3
#: From so many batches on what one costs is more than a guess: limits are set by it, and the first
#: batch of a run, which pays for code generation, JIT and the state store's start, teaches nothing
#: any more. Where runs end with it, that is what a batch costs. After a change of executors, which
#: the first batch pays for, so many more tell what one costs now.
KNOWN_BATCHES: Final = 2
#: Up to so many times the largest batch seen anything is said of one: a square is believed, beyond
#: it its tangent, and what a first batch took is held against what it should take.
EDGE: Final = 1.5
#: The phases of a batch before and after its tasks, whatever rows it holds.
FIXED_PHASES: Final = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "commitOffsets")


class Curve(msgspec.Struct, frozen=True, gc=False):
    """Seconds of a batch of n rows: ``fixed + per_row * n + congestion * n^2``, none negative."""

    fixed: float
    per_row: float
    congestion: float = 0.0

    def seconds(self, rows: float) -> float:
        """Of a batch of so many rows."""
        return self.fixed + rows * (self.per_row + rows * self.congestion)

    def rows_in(self, seconds: float) -> float:
        """The rows that so many seconds hold; 0 where the fixed cost takes them."""
        left = seconds - self.fixed
        if left <= 0.0 or left == math.inf:
            return max(left, 0.0)
        # The smaller root, written so that it holds for a line, too.
        root = math.sqrt(self.per_row * self.per_row + 4.0 * self.congestion * left)
        slope = self.per_row + root
        return 2.0 * left / slope if slope > 0.0 else math.inf

    @property
    def best_rows(self) -> float:
        """The size of most rows per second: where ``fixed / n + congestion * n`` is least."""
        return math.sqrt(self.fixed / self.congestion) if self.congestion > 0.0 else math.inf

    def stable_rows(self, rows_per_second: float, trigger_seconds: float) -> float:
        """The fewest rows of a batch by which so many a second are digested; inf: no size does."""
        # n >= rate * B(n)
        slope = 1.0 - rows_per_second * self.per_row
        inside = slope * slope - 4.0 * rows_per_second**2 * self.congestion * self.fixed
        if slope <= 0.0 or inside < 0.0:
            return math.inf
        least = 2.0 * rows_per_second * self.fixed / (slope + math.sqrt(inside))
        between = rows_per_second * trigger_seconds
        if between <= least:
            return least
        # What arrives between two triggers must be digested until the next one.
        return between if self.seconds(between) <= trigger_seconds else math.inf


#: Of the square of a batch's seconds: what keeps variances from being lost in rounding, and from
#: growing without end.
_LEAST: Final = 1e-12
_MOST: Final = 25.0
#: Variance of noise, beyond which nothing is foretold.
_MOST_NOISE: Final = 1.0
#: Upper triangle of the covariance of (c0, s, d).
Covariance = tuple[float, float, float, float, float, float]


class History(msgspec.Struct, gc=False):
    """One history of changes: log weight, mean and covariance, batches since its last change."""

    weight: float
    mean: tuple[float, float, float]
    covariance: Covariance
    age: int = 0
    residual: float = 0.0  # of the log of the last batch's seconds
    spread: float = 0.0  # its variance as foretold, noise and doubt together

    @property
    def bent(self) -> bool:
        """Whether congestion is part of it."""
        return self.covariance[5] > 0.0


class _Slow(NamedTuple):
    """How often a batch is slow by itself, and by how many seconds; 0 of both while unknown."""

    chance: float
    seconds: float


class Cost(msgspec.Struct):
    """What is believed of a query's batches; plain numbers, so that it can be saved."""

    batches: int = 0
    bank: list[History] = []
    variance: float = PRIOR_SIGMA**2
    largest_rows: float = 0.0
    last_rows: float = 0.0
    # Of batches that nothing foretold to be as slow: the number, and the seconds beyond.
    slow: list[tuple[int, float]] = []
    # The mixture, kept because every question is about it.
    fixed: float = 0.0
    per_row: float = 0.0
    congestion: float = 0.0
    covariance: Covariance = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    @property
    def sigma(self) -> float:
        """Deviation of the noise of a batch's time, on the log scale."""
        return math.sqrt(self.variance)

    @property
    def cautious_sigma(self) -> float:
        """As ``sigma``, but larger while few batches tell it."""
        return math.sqrt(self.variance * (1.0 + SIGMA_UNSURE / (1.0 + self.batches)))

    @property
    def fixed_cost(self) -> float | None:
        """c0 in seconds; None before the first batch."""
        return self.fixed if self.batches else None

    @property
    def throughput(self) -> float | None:
        """Rows per second beside c0, at the size of late; None before the first batch."""
        if self.batches == 0:
            return None
        return 1.0 / (self.per_row + self.congestion * self.last_rows)

    @property
    def curve(self) -> Curve:
        """What sizes are chosen by: congestion is believed as far as it is sure.

        In doubt larger sizes are tried, which tell. What congestion lacks the other parts give, as
        far as they vary with it (a Gaussian on the condition of one part).
        """
        _, _, fixed, _, row, own = self.covariance
        if own <= 0.0 or self.congestion <= 0.0:
            return Curve(self.fixed, self.per_row, self.congestion)
        less = min(math.sqrt(own), self.congestion)
        per_row = self.per_row - less * row / own
        return Curve(
            max(self.fixed - less * fixed / own, 0.01 * self.fixed),
            max(per_row, 0.01 * self.per_row),
            self.congestion - less,
        )

    def seconds(self, rows: float) -> float | None:
        """Expected seconds of a batch of so many rows; None before the first batch."""
        if self.batches == 0:
            return None
        return self.fixed + rows * (self.per_row + rows * self.congestion)

    def least_seconds(self, rows: float) -> float | None:
        """As ``seconds``, where beyond the largest size seen rows get no dearer still.

        The curve, which lets them, is for who is cautious.
        """
        if self.batches == 0:
            return None
        return self.fixed + rows * (self.per_row + self.congestion * min(rows, self.largest_rows))

    @property
    def slow_seconds(self) -> float:
        """What slow batches take beside, in the mean of all: the curve is of the others.

        A log that is compacted with every tenth batch, a collector's pause: no batch is expected to
        be the one, and what arrives must be digested all the same. By the renewals, of which there
        is one fewer, so the worst is left out; forgotten once there was none for as long as all of
        them took.
        """
        known = self._slow_of_late()
        return known.chance * known.seconds

    def _slow_of_late(self) -> _Slow:
        if len(self.slow) < FEWEST_SLOW:
            return _Slow(0.0, 0.0)
        beyond = [seconds for _, seconds in self.slow]
        first, last, others = self.slow[0][0], self.slow[-1][0], len(beyond) - 1
        # Of the intervals between them; less once the next one lasts longer.
        often = min(others / (last - first), (others + 1) / (self.batches - first))
        return _Slow(often, (sum(beyond) - max(beyond)) / others)

    def _note_slow(self, rows: float, seconds: float) -> None:
        expected = (self.seconds(rows) or 0.0) + self.doubt(rows)
        beyond = seconds - expected
        if seconds > expected * math.exp(NOISE_SIGMAS * self.cautious_sigma):
            self.slow = [*self.slow[1 - LATELY_BATCHES :], (self.batches, beyond)]
        elif len(self.slow) >= FEWEST_SLOW:
            first, last = self.slow[0][0], self.slow[-1][0]
            if self.batches - last > last - first:
                self.slow = []

    def doubt(self, rows: float) -> float:
        """Deviation of ``seconds(rows)`` in seconds: how well it is known, without noise."""
        known = math.sqrt(variance_at(self.covariance, rows))
        if rows <= self.largest_rows or self.batches == 0:
            return known
        bend = BEYOND * math.log(rows / self.largest_rows) * (self.seconds(rows) or 0.0)
        return math.hypot(known, bend)

    def sure_fixed_seconds(self, phases: dict[str, float]) -> float:
        """Of the fixed cost what is surely none of the phases before and after the batch's tasks.

        Sure is what one deviation of its doubt leaves.
        """
        besides = sum([phases.get(name, 0.0) for name in FIXED_PHASES])
        return max(self.fixed - math.sqrt(self.covariance[0]) - besides, 0.0)

    def learn(self, rows: float, seconds: float, target_seconds: float = math.inf) -> bool:
        """Takes in one batch that read something; True where it shows that the plant changed.

        Rows and seconds must be above zero. ``target_seconds``, what a batch is meant to take,
        bounds the first guess of c0.
        """
        if not self.bank or self._first_was_slow(rows, seconds):
            self._begin(rows, seconds, target_seconds)
            return False
        self._note_slow(rows, seconds)
        noise = self.cautious_sigma**2
        # What was seen holds as far as nothing changed since: in a hundred batches a third is left.
        self.largest_rows = max((1.0 - CHANGE_CHANCE) * self.largest_rows, rows)
        self.last_rows = rows
        self.batches += 1
        bank = [_drifted(one, rows, seconds) for one in self.bank]
        best = bank[0]
        foretold = History(best.weight, best.mean, best.covariance, best.age)
        for one in bank:
            _update(one, rows, seconds, noise, self.largest_rows)
        if best.residual * best.residual > best.spread:
            # A batch that the likeliest history foretold within a deviation shows no change.
            tells_bend = rows > BEND_SHARE * self.largest_rows
            kinds = _KINDS if tells_bend else _KINDS[:BEND]
            children = [_child(foretold, kind, rows, seconds) for kind in kinds]
            for one in children:
                _update(one, rows, seconds, noise, self.largest_rows)
            bank += children
            if best.residual > 0.0:
                known = self._slow_of_late()
                bank.append(_stalled(foretold, (rows, seconds), noise, self.largest_rows, known))
        bank.sort(key=_by_weight)
        tell_once(bank)
        if not any(one.bent for one in bank[:_HISTORIES]):
            # Congestion is told by batches of several sizes, slowly: its story is heard out.
            bank[_HISTORIES - 1 : _HISTORIES - 1] = [one for one in bank if one.bent][:1]
        del bank[_HISTORIES:]
        top = bank[0].weight
        bank = [one for one in bank if one.weight > top + _UNHEARD or one.bent]
        total = math.log(sum([math.exp(one.weight - top) for one in bank])) + top
        for one in bank:
            one.weight -= total
            one.covariance = _sound(one.covariance, seconds, self.largest_rows)
        changed = bank[0].age < best.age
        self.bank = bank
        first = bank[0]
        # Of what the likeliest history was off, the part that is noise and not its doubt.
        off = min(first.residual**2, STEP_SIGMAS**2 * first.spread)
        off *= self.variance / (first.spread - noise + self.variance)
        gain = max(1.0 / (self.batches + PRIOR_BATCHES), SIGMA_GAIN)
        self.variance += gain * (off - self.variance)
        self.variance = min(max(self.variance, LEAST_SIGMA**2), _MOST_NOISE)
        self.merge()
        return changed

    def rescale(self, then: Curve, doubt: float) -> None:
        """What batches cost from now on: more or fewer executors work on them.

        ``doubt``: how unsure that is, as a deviation of the log; what is learned stays otherwise.
        """
        now = self.curve
        parts = zip(msgspec.structs.astuple(then), msgspec.structs.astuple(now), strict=True)
        f0, f1, f2 = (part / before if before > 0.0 else 1.0 for part, before in parts)
        for one in self.bank:
            c, s, d = one.mean
            p0, p1, p2, p3, p4, p5 = one.covariance
            c, s, d = c * f0, s * f1, d * f2
            p0, p1, p2 = p0 * f0 * f0, p1 * f0 * f1, p2 * f0 * f2
            p3, p4, p5 = p3 * f1 * f1, p4 * f1 * f2, p5 * f2 * f2
            # Only what changed is in doubt: what the driver does stays as it was.
            u0, u1, u2 = (doubt * x for x in (c * (f0 != 1.0), s * (f1 != 1.0), d))
            one.mean = (c, s, d)
            one.covariance = (
                *(p0 + u0 * u0, p1 + u0 * u1, p2 + u0 * u2),
                *(p3 + u1 * u1, p4 + u1 * u2, p5 + (u2 * u2 if one.bent else 0.0)),
            )
        self.merge()

    def _first_was_slow(self, rows: float, seconds: float) -> bool:
        """Whether a second batch of about the first's size shows that the first paid for more."""
        if self.batches != 1 or max(rows, self.last_rows) > 2.0 * min(rows, self.last_rows):
            return False
        return seconds < FIRST_SLOW * (self.seconds(rows) or 0.0)

    def _begin(self, rows: float, seconds: float, target_seconds: float) -> None:
        self.batches, self.largest_rows, self.last_rows, self.slow = 1, rows, rows, []
        fixed = FIRST_SHARE * min(seconds, target_seconds)
        # c0 and the rows' part add up to what was seen: what one has too much the other lacks.
        doubt = (FIRST_SPREAD * seconds) ** 2
        both = (doubt + self.variance * seconds**2) / rows**2
        mean = (fixed, (seconds - fixed) / rows, 0.0)
        self.bank = [History(0.0, mean, (doubt, -doubt / rows, 0.0, both, 0.0, 0.0))]
        self.merge()

    def by_side(self, seconds: float) -> tuple[list[float], list[float]]:
        """The chance of each history that it holds and its c0 lies below so many seconds; above."""
        below, above = [], []
        for one in self.bank:
            weight = math.exp(one.weight)
            deviation = math.sqrt(max(2.0 * one.covariance[0], 1e-18))
            higher = weight * 0.5 * math.erfc((seconds - one.mean[0]) / deviation)
            below.append(weight - higher)
            above.append(higher)
        return below, above

    def merge(self, chances: list[float] | None = None) -> None:
        """Decides by all histories, each by its weight, or by the chance given for each.

        Before the first batch that teaches there are none, and nothing is believed.
        """
        if not self.bank:
            return
        if chances is None:
            chances = [math.exp(one.weight) for one in self.bank]
        mean, self.covariance = _mixture(self.bank, chances)
        self.fixed, self.per_row, self.congestion = mean


class Line(msgspec.Struct):
    """What an earlier version learned and saved: a line, without congestion."""

    batches: int = 0
    fixed_seconds: float = 0.0
    seconds_per_row: float = 0.0
    p_fixed: float = 0.0
    p_cross: float = 0.0
    p_slope: float = 0.0
    variance: float = PRIOR_SIGMA**2
    last_rows: float = 0.0

    def cost(self) -> Cost:
        """The same, as it is believed now."""
        if self.batches == 0:
            return Cost()
        mean = (self.fixed_seconds, self.seconds_per_row, 0.0)
        covariance = (self.p_fixed, self.p_cross, 0.0, self.p_slope, 0.0, 0.0)
        variance = min(max(self.variance, LEAST_SIGMA**2), _MOST_NOISE)
        cost = Cost(self.batches, [History(0.0, mean, covariance)], variance)
        # The first versions did not note which sizes they saw: one row is the least there was.
        cost.largest_rows = cost.last_rows = max(self.last_rows, 1.0)
        cost.merge()
        return cost


def _mixture(
    histories: list[History], chances: list[float]
) -> tuple[tuple[float, float, float], Covariance]:
    """Mean and covariance of all together; of the first where none is thought possible."""
    total = sum(chances)
    if len(histories) == 1 or total < 1e-12:
        return histories[0].mean, histories[0].covariance
    fixed = per_row = congestion = 0.0
    for w, one in zip(chances, histories, strict=True):
        c, s, d = one.mean
        fixed += w * c
        per_row += w * s
        congestion += w * d
    fixed, per_row, congestion = fixed / total, per_row / total, congestion / total
    p0 = p1 = p2 = p3 = p4 = p5 = 0.0
    for w, one in zip(chances, histories, strict=True):
        c, s, d = one.mean
        q0, q1, q2, q3, q4, q5 = one.covariance
        c, s, d = c - fixed, s - per_row, d - congestion
        p0 += w * (q0 + c * c)
        p1 += w * (q1 + c * s)
        p2 += w * (q2 + c * d)
        p3 += w * (q3 + s * s)
        p4 += w * (q4 + s * d)
        p5 += w * (q5 + d * d)
    covariance = (p0 / total, p1 / total, p2 / total, p3 / total, p4 / total, p5 / total)
    return (fixed, per_row, congestion), covariance


def _by_weight(one: History) -> float:
    return -one.weight


def tell_once(bank: list[History]) -> None:
    """Histories that have come to tell the same become one, and leave their places to new ones.

    By weight, falling, before and after. The lighter is merged into the heavier where it lies
    within one deviation of it, keeping mean and covariance of both together (Salmond 1990).
    """
    kept: list[History] = []
    lines: list[History] = []
    for one in bank:
        if one.age == 0 or one.bent:
            kept.append(one)
            continue
        same = next((other for other in lines if _within_one(other, one)), None)
        if same is None:
            kept.append(one)
            lines.append(one)
            continue
        chances = [1.0, math.exp(one.weight - same.weight)]
        same.mean, same.covariance = _mixture([same, one], chances)
        same.weight += math.log(sum(chances))
    bank[:] = sorted(kept, key=_by_weight)


def _within_one(one: History, other: History) -> bool:
    """Whether two lines differ by no more than the doubt of the first."""
    p0, p1, _, p3, _, _ = one.covariance
    c, s = other.mean[0] - one.mean[0], other.mean[1] - one.mean[1]
    return p3 * c * c - 2.0 * p1 * c * s + p0 * s * s <= p0 * p3 - p1 * p1


def variance_at(covariance: Covariance, rows: float) -> float:
    """Of ``c0 + s n + d n^2``; sums of very unlike sizes may cancel below zero."""
    p0, p1, p2, p3, p4, p5 = covariance
    n = rows
    return max(p0 + n * (2.0 * p1 + n * (2.0 * p2 + p3 + n * (2.0 * p4 + n * p5))), 0.0)


def _near(expected: float, seconds: float) -> float:
    """What a batch costs, for its noise: as expected, but near what was seen."""
    least, most = seconds / 4.0, seconds * 4.0
    if expected < least:
        return least
    return most if expected > most else expected


def _drifted(one: History, n: float, seconds: float) -> History:
    """One batch on: every part may have drifted."""
    c, s, d = one.mean
    p0, p1, p2, p3, p4, p5 = one.covariance
    q = DRIFT * DRIFT
    around = _near(c + n * (s + n * d), seconds)
    if p0 < around * around:  # batches of one size must not let it grow without end
        p0 += q * c * c
        p1 += q * c * s
        p2 += q * c * d
        p3 += q * s * s
        p4 += q * s * d
        p5 += q * d * d
    return History(one.weight, one.mean, (p0, p1, p2, p3, p4, p5), one.age + 1)


def _child(one: History, kind: int, n: float, seconds: float) -> History:
    """The same history, if the cost of a batch changed with this one."""
    c, s, d = one.mean
    p0, p1, p2, p3, p4, p5 = one.covariance
    whole = _near(c + n * (s + n * d), seconds)
    if kind == FIXED:
        p0 += whole * whole
    elif kind == BEND:
        p5 += (whole / (n * n)) ** 2
    else:
        u0, lift = (c, 1.0) if kind == ALL else (0.0, whole / (n * (s + n * d)))
        u1, u2 = lift * s, lift * d
        p0 += u0 * u0
        p1 += u0 * u1
        p2 += u0 * u2
        p3 += u1 * u1
        p4 += u1 * u2
        p5 += u2 * u2
    return History(one.weight + _UNHEARD, one.mean, (p0, p1, p2, p3, p4, p5), 0)


def _stalled(
    one: History, batch: tuple[float, float], noise: float, largest: float, known: _Slow
) -> History:
    """The same history, if the batch was slow by itself: it tells less of the others.

    What passes for noise in the largest batches hits a small one as hard in seconds, and far harder
    in proportion. One that sat out an outage of its sink took hundreds of times as long, and is one
    that was slow: how long says nothing for any other story. ``batch``: rows and seconds;
    ``known``: how batches were slow of late.
    """
    n, seconds = batch
    c, s, d = one.mean
    foretold = c + n * (s + n * d)
    expected = _near(foretold, seconds)
    # Below 0 where a large one took many times as long: that is as hard to believe.
    beyond = (c + largest * (s + largest * d)) / expected - 1.0
    chance = max(STALL_CHANCE, known.chance)
    slow = History(one.weight + math.log(chance), one.mean, one.covariance, one.age)
    noise *= 1.0 + (STALL_TIMES * beyond) ** 2
    besides = math.log1p(known.seconds / expected) ** 2
    foretold = max(foretold, 1e-3 * seconds)
    if seconds <= OUTAGE_TIMES * foretold:
        _update(slow, n, seconds, noise + besides, largest)
    else:
        # It was as long as it was, and that is no scale of the others.
        longer = math.log(seconds / foretold) ** 2
        _update(slow, n, seconds, noise, largest, besides=max(besides, longer))
    return slow


def _update(
    one: History, n: float, seconds: float, noise: float, largest: float, *, besides: float = 0.0
) -> None:
    """A Kalman step, and how well the batch was foretold.

    ``largest``: the rows of the largest batch of late, of which the rows' part takes at least a
    hundredth. ``besides``: variance of what made this batch alone longer.
    """
    c, s, d = one.mean
    p0, p1, p2, p3, p4, p5 = one.covariance
    expected = c + n * (s + n * d)
    if expected < 1e-3 * seconds:
        expected = 1e-3 * seconds
    g0 = p0 + n * (p1 + n * p2)
    g1 = p1 + n * (p3 + n * p4)
    g2 = p2 + n * (p4 + n * p5)
    v = g0 + n * (g1 + n * g2)
    if v < 0.0:
        v = 0.0
    # The noise is relative to what is expected: relative to what was seen, fast batches would
    # weigh more. Kept near the latter, so that a history that is far off still gets out.
    scale = _near(expected, seconds)
    f = 1.0 / (v + (noise + besides) * scale * scale)
    k = (seconds - expected) * f
    f0, f1 = f * g0, f * g1
    p0, p1, p2 = p0 - f0 * g0, p1 - f0 * g1, p2 - f0 * g2
    p3, p4, p5 = p3 - f1 * g1, p4 - f1 * g2, p5 - f * g2 * g2
    one.covariance = (p0, p1, p2, p3, p4, p5)
    c, s, d = c + g0 * k, s + g1 * k, d + g2 * k
    # No part is negative: what a part lacks the others give, as far as they vary with it.
    now = c + n * (s + n * d)
    if now < 0.05 * seconds:
        now = 0.05 * seconds
    low_c, low_s = 0.01 * now, 0.01 * now / largest
    if d < 0.0:
        if p5 > 0.0:
            k = -d / p5
            c, s = c + p2 * k, s + p4 * k
        d = 0.0
    if c < low_c:
        if p0 > 0.0:
            k = (low_c - c) / p0
            s, d = s + p1 * k, d + p2 * k
        c = low_c
    if s < low_s:
        if p3 > 0.0:
            k = (low_s - s) / p3
            c, d = c + p1 * k, d + p4 * k
        s = low_s
    one.mean = (low_c if c < low_c else c, s, 0.0 if d < 0.0 else d)
    # The mean of the log lies half the variance below the log of the mean.
    residual = math.log(seconds / expected) + noise / 2.0
    least_seconds = expected if expected < seconds else seconds
    spread = noise + besides + math.log1p(math.sqrt(v) / least_seconds) ** 2
    one.residual, one.spread = residual, spread
    one.weight -= (residual * residual / spread + math.log(spread)) / 2.0


def _sound(p: Covariance, seconds: float, rows: float) -> Covariance:
    """Bounded and definite, whatever rounding left of it, in a plant of such batches."""
    p0, p1, p2, p3, p4, p5 = p
    unit = seconds / rows
    p0 = min(max(p0, _LEAST * seconds * seconds), _MOST * seconds * seconds)
    p3 = min(max(p3, _LEAST * unit * unit), _MOST * (seconds * seconds))
    p5 = max(p5, 0.0)
    p1 = _within(p1, math.sqrt(p0 * p3))
    p2 = _within(p2, math.sqrt(p0 * p5))
    p4 = _within(p4, math.sqrt(p3 * p5))
    return (p0, p1, p2, p3, p4, p5)


def _within(part: float, most: float) -> float:
    """No further from 0."""
    if part > most:
        return most
    return -most if part < -most else part
