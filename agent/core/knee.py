"""Knee: the size beyond which a larger batch brings no more rows per second.

The capacity model is a line, and on a line larger batches always bring more. A plant that gets
dearer per row as batches grow (spilling, garbage collection, a congested sink) has a size of
highest throughput: seconds per row are ``a / n + b + d * n``, least at ``sqrt(a / d)``. The three
are fitted to what was seen: of each size visited, the rows per second, averaged over its batches.
One curve through all sizes needs fewer batches of each than comparing them in pairs. Beyond the
target a size is raised only while the curve says that it pays.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

#: Sizes within a factor of the square root of two are one level.
LEVELS_PER_DOUBLING: Final = 2
#: What a level remembers fades with every batch of any size: after some hundred the knee is looked
#: for again.
KEEP: Final = 0.985
#: What is left of it when the plant changes.
KEEP_CHANGED: Final = 0.7
#: Batches that say by how much it changed.
CHANGE_BATCHES: Final = 4
#: A level that has faded so far says nothing.
LEAST_WEIGHT: Final = 0.25
#: Levels nearer to each other than this are compared as one: nothing to gain between them.
APART: Final = 1.3
#: By so much of the noise's variance must congestion lower the squared error to be believed.
CURVE_EVIDENCE: Final = 2.0
#: How far off the line may be about what a raise brings, on the log scale.
LINE_DOUBT: Final = 0.3
#: A raise that is not seen to help by more than this costs latency for nothing.
LEAST_GAIN: Final = 0.025
#: Noise at which one batch of a size tells enough to go on; more noise takes more batches.
CLEAR_SIGMA: Final = 0.2
#: From the largest size seen to the next one worth trying.
NEXT: Final = 2.0
MOST: Final = 6.0


class Level(msgspec.Struct):
    """Batches of about one size; ``weight``, their number, fades."""

    weight: float
    log_rate: float  # mean of the log of rows per second
    rows: float  # geometric mean

    @property
    def seconds_per_row(self) -> float:
        """Geometric mean; of whole batches, fixed cost and all."""
        return math.exp(-self.log_rate)


class Ceilings(msgspec.Struct, frozen=True):
    """The most rows that make sense beyond the target; inf where nothing speaks against more."""

    proven_rows: float  # what lies above brings less, seen often enough: go back
    seen_rows: float  # what lies above is not known to bring more: go no further


class Cost(msgspec.Struct, frozen=True):
    """Seconds of a batch of n rows: ``fixed + per_row * n + congestion * n^2``, none negative."""

    fixed: float
    per_row: float
    congestion: float

    def seconds(self, rows: float) -> float:
        """Of a batch of so many rows."""
        return self.fixed + rows * (self.per_row + rows * self.congestion)

    @property
    def best_rows(self) -> float:
        """The size of most rows per second: where ``fixed / n + congestion * n`` is least."""
        return math.sqrt(self.fixed / self.congestion) if self.congestion > 0.0 else math.inf

    def gain(self, rows: float, more_rows: float) -> float:
        """What more rows bring in rows per second, as a log of the ratio."""
        return math.log(more_rows / self.seconds(more_rows) * self.seconds(rows) / rows)

    def rows_in(self, seconds: float) -> float:
        """The rows that so many seconds hold; 0 where the fixed cost takes them."""
        left = seconds - self.fixed
        if left <= 0.0:
            return 0.0
        root = math.sqrt(self.per_row**2 + 4.0 * self.congestion * left)
        slope = self.per_row + root  # the smaller root, written so that it holds for a line, too
        return 2.0 * left / slope if slope > 0.0 else math.inf


class Knee(msgspec.Struct):
    """What each size brought, by level (the log of its rows)."""

    levels: dict[int, Level] = {}
    last: int | None = None
    since_change: int = 0  # batches that told by how much the plant changed; 0: it has not

    def observe(self, rows: float, seconds: float, *, changed: bool) -> None:
        """Takes in a batch; ``changed``: the plant is seen to have changed with it."""
        if rows <= 0.0 or seconds <= 0.0:
            return
        index = math.floor(LEVELS_PER_DOUBLING * math.log2(rows))
        rate = math.log(rows / seconds)
        present = self.levels.get(index)
        if changed and self.last is not None and abs(index - self.last) <= 1:
            # At an unchanged size it is the plant that changed: all sizes became so much dearer,
            # as far as one knows, and what was seen of them counts for less.
            before = present or self.levels.get(self.last)
            self._shift(0.0 if before is None else rate - before.log_rate, KEEP_CHANGED)
            self.since_change = 1
        elif present is not None and 0 < self.since_change < CHANGE_BATCHES:
            # By how much is the mean of the batches since, so that a single slow one says little.
            self.since_change += 1
            self._shift((rate - present.log_rate) / self.since_change, 1.0)
        self.last = index
        for other, level in list(self.levels.items()):
            level.weight *= KEEP
            if level.weight < LEAST_WEIGHT:
                del self.levels[other]
        present = self.levels.get(index)
        if present is None:
            self.levels[index] = Level(1.0, rate, rows)
            return
        present.weight += 1.0
        present.log_rate += (rate - present.log_rate) / present.weight
        present.rows *= (rows / present.rows) ** (1.0 / present.weight)

    def _shift(self, log_rate: float, keep: float) -> None:
        for level in self.levels.values():
            level.log_rate += log_rate
            level.weight *= keep

    def ceilings(
        self,
        sigma: float,
        fixed_seconds: float,
        seconds_per_row: float,
        trigger_seconds: float = 0.0,
    ) -> Ceilings:
        """How far a size may go beyond the target.

        ``sigma`` is the noise of a batch's time, the next two the line that is believed: what it
        says of a raise counts until enough was seen. A batch that ends before its trigger interval
        does leaves time unused, so up to there more rows always bring more.
        """
        levels = self._apart()
        if not levels:
            return Ceilings(math.inf, math.inf)
        top = levels[-1]
        cost = _fit(levels, sigma, fixed_seconds, seconds_per_row)
        in_trigger = cost.rows_in(trigger_seconds)
        best = max(cost.best_rows, in_trigger, levels[0].rows)
        gains = cost.gain(top.rows, NEXT * top.rows) >= LEAST_GAIN or top.rows < in_trigger
        # Nobody raises twice before the first raise was seen.
        seen_enough = top.weight >= min((sigma / CLEAR_SIGMA) ** 2, 6.0)
        if not (gains and seen_enough):
            return Ceilings(best, min(best, top.rows))
        # Twice the rows, or twice the time where little of it is theirs.
        seconds = fixed_seconds + top.rows * seconds_per_row
        longer = top.rows + seconds / seconds_per_row
        return Ceilings(best, min(best, max(NEXT * top.rows, longer), MOST * top.rows))

    def _apart(self) -> list[Level]:
        """The levels from small to large, those of nearly one size taken together."""
        if len(self.levels) == 1:
            return [*self.levels.values()]
        found: list[Level] = []
        for index in sorted(self.levels):
            level = self.levels[index]
            if not found or level.rows > APART * found[-1].rows:
                found.append(level)
                continue
            below = found[-1]
            weight = below.weight + level.weight
            share = level.weight / weight
            found[-1] = Level(
                weight,
                below.log_rate + share * (level.log_rate - below.log_rate),
                below.rows * (level.rows / below.rows) ** share,
            )
        return found


#: Which of (1 / n, 1, n) a fit with congestion uses.
_CURVES: Final = ((1, 2), (0, 1, 2), (0, 2), (2,))


def _fit(levels: list[Level], sigma: float, fixed_seconds: float, seconds_per_row: float) -> Cost:
    """Least squares on relative errors of seconds per row, ``a / n + b + d * n``, none negative.

    The believed line counts as one more level, at twice the rows of the largest: as much as its own
    doubt leaves. Congestion is believed where it explains more than it costs (Akaike 1974).
    """
    top = levels[-1]
    unit = top.seconds_per_row

    def told(rows: float) -> float:
        return fixed_seconds / rows + seconds_per_row

    points = [(one.rows / top.rows, math.exp(-one.log_rate) / unit, one.weight) for one in levels]
    points.append((NEXT, told(NEXT * top.rows) / told(top.rows), (sigma / LINE_DOUBT) ** 2))
    best = _line(points)
    evidence = CURVE_EVIDENCE * sigma**2
    # A line so near leaves no error that a curve could explain: most batches end here.
    if sigma == 0.0 or best[0] > evidence:
        curve = _curve(points)
        best = curve if best[0] - curve[0] > evidence else best
    _, (fixed, per_row, congestion) = best
    return Cost(fixed * unit * top.rows, per_row * unit, congestion * unit / top.rows)


#: What is fitted to: relative rows, relative seconds per row, weight.
_Points = list[tuple[float, float, float]]
_Fitted = tuple[float, tuple[float, float, float]]  # squared error, factors of (1 / n, 1, n)
#: Keeps a matrix from being singular.
_RIDGE: Final = 1.0 + 1e-9
_NEGATIVE: Final[_Fitted] = (math.inf, (0.0, 1.0, 0.0))


def _line(points: _Points) -> _Fitted:
    """The best fit without congestion: of 1, of (1 / n, 1), of 1 / n.

    What ``_solve`` does, written out: it is asked for with every batch.
    """
    fixed_2 = cross = cross_back = row_2 = fixed_1 = row_1 = total = 0.0
    for rows, cost, weight in points:
        fixed, row = 1.0 / (rows * cost), 1.0 / cost
        total += weight
        by_fixed, by_row = weight * fixed, weight * row
        fixed_1 += by_fixed
        row_1 += by_row
        fixed_2 += by_fixed * fixed
        cross += by_fixed * row
        cross_back += by_row * fixed
        row_2 += by_row * row
    # The weights and shapes are above zero, so each shape by itself always fits.
    one = row_1 / (row_2 * _RIDGE)
    error = total - 2.0 * (one * row_1) + one * row_2 * one
    best: _Fitted = (error, (0.0, one, 0.0))
    first = fixed_2 * _RIDGE
    factor = cross_back / first
    second = row_2 * _RIDGE - factor * cross
    left = row_1 - factor * fixed_1
    if second > 0.0 and left >= 0.0:
        one = left / second
        left = fixed_1 - cross * one
        if left >= 0.0:
            part = left / first
            error = total - 2.0 * (part * fixed_1 + one * row_1)
            error += (
                part * fixed_2 * part + part * cross * one + one * cross_back * part
            ) + one * row_2 * one
            best = min(best, (error, (part, one, 0.0)))
    one = fixed_1 / first
    error = total - 2.0 * (one * fixed_1) + one * fixed_2 * one
    return min(best, (error, (one, 0.0, 0.0)))


def _curve(points: _Points) -> _Fitted:
    """The best fit with congestion."""
    gram = [[0.0] * 3 for _ in range(3)]
    right = [0.0] * 3
    total = 0.0
    for rows, cost, weight in points:
        shape = (1.0 / (rows * cost), 1.0 / cost, rows / cost)
        total += weight
        for i in range(3):
            right[i] += weight * shape[i]
            for j in range(3):
                gram[i][j] += weight * shape[i] * shape[j]
    return min(_solve(gram, right, total, using) for using in _CURVES)


def _solve(
    gram: list[list[float]], right: list[float], total: float, using: tuple[int, ...]
) -> _Fitted:
    """Squared error and factors of least squares with some shapes; inf where one is negative."""
    rows = [[gram[i][j] * (_RIDGE if i == j else 1.0) for j in using] + [right[i]] for i in using]
    size = len(using)
    for i in range(size):
        for k in range(i + 1, size):
            factor = rows[k][i] / rows[i][i]
            for j in range(i, size + 1):
                rows[k][j] -= factor * rows[i][j]
    found = [0.0, 0.0, 0.0]
    for i in reversed(range(size)):
        left = rows[i][size] - sum(rows[i][j] * found[using[j]] for j in range(i + 1, size))
        if rows[i][i] <= 0.0 or left < 0.0:
            return _NEGATIVE
        found[using[i]] = left / rows[i][i]
    error = total - 2.0 * sum(found[i] * right[i] for i in using)
    error += sum(found[i] * gram[i][j] * found[j] for i in using for j in using)
    return error, (found[0], found[1], found[2])
