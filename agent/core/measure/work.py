"""Work: what a batch gives its executors to do, and what more of them would bring.

The time of a batch at S slots (tasks that run at once) is that of the driver, and of each group of
stages the longer of its slowest task (critical path; Brent 1974: no number of workers beats it) and
its waves of tasks. That tasks get slower the more run at once, because a sink, a store or a network
is shared, is learned from what a change of slots really brought, as Flink's autoscaler corrects its
estimates by observed scalability: their time goes with S to the power of ``contention``, 0 where
nothing is shared and 1 where more slots bring nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.decode.stages import BatchWork, StageGroup, as_cut, scanned
from agent.core.judge.alignment import SKEWED
from agent.core.measure.cost import BEYOND, KNOWN_BATCHES, Covariance, Curve, variance_at
from agent.core.measure.decaying import LATELY_BATCHES

if TYPE_CHECKING:
    from collections.abc import Callable

#: Batches looked at last, by which the shape of a batch is judged: a slow one is outvoted.
MOST_SAMPLES: Final = LATELY_BATCHES
#: A new executor's Java is cold: after so many seconds a batch may take e times what it will, and
#: the log of that falls with the time that it is there (measured: three times what it will at
#: first, 1.7 times after half a minute, 1.3 after a minute, 1.1 after one and a half). Those that
#: are left when others go are warm.
COLD_SECONDS: Final = 15.0
#: A change of slots is judged until its batches leave less doubt of contention than this, or are so
#: many: to know that a doubling brought nothing it takes 9 warm ones of a noise of .2, 18 of .3.
TRIAL_DOUBT: Final = 0.1
MOST_TRIAL_BATCHES: Final = 24
#: What is believed of contention beforehand (mean 0, this deviation): three slots for one bring
#: 2.2 to 3 times the rows. And how far each change of slots may find it from the one before: a sink
#: that a calm does not fill is full in a burst.
CONTENTION_SPREAD: Final = 0.3
#: In so many seconds what is believed of it falls to a third (by e): where more slots brought
#: nothing, they get another chance in about an hour, however rare batches are.
CONTENTION_FADE_SECONDS: Final = 12_500.0
#: A scan that more slots did not cut finer is not expected to be for so long, about an hour: as
#: what is shared is, it is remembered until contention would have faded by its spread.
_UNCUT_SECONDS: Final = CONTENTION_SPREAD * CONTENTION_FADE_SECONDS


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One batch that was looked at."""

    rows: int
    seconds: float
    work: BatchWork
    files: int = 0  # that it read
    time: float = 0.0  # when it began, epoch seconds; 0 where that was not kept


class Trial(msgspec.Struct, frozen=True, gc=False):
    """A change of slots that is still judged, from what was before it, in however many steps."""

    curve: Curve  # what batches were foretold to cost
    contention: float  # by which
    step: float  # log of the slots over those before
    variance: float  # of that contention
    slots: int  # before
    before: Curve  # what batches cost on these
    doubt: Covariance  # of that
    reach: float  # the most rows that were seen before
    prior: tuple[float, float]  # contention and its variance, before any of the batches
    busy: float = 0.0  # busy shares of the queries beside it, before
    rows: int = 0  # the most of a batch judged
    # Of all batches judged, weighted by one over the variance of the log of what each took over
    # what was foretold, sums of: steps squared; steps times the doubt of what was before, steps
    # times those logs; and the first as if all had been warm.
    information: float = 0.0
    lever: float = 0.0
    score: float = 0.0
    warm: float = 0.0
    cold: bool = False  # some came since it began
    alone: bool = True  # no batch of another query ran beside those judged
    # Since the last executor came or went:
    seen: int = 0  # batches
    seconds: float = 0.0  # of these
    first: tuple[float, float] | None = None  # seconds of the first batch, and as foretold
    # Since the last change of slots, after its first batch:
    later: int = 0  # batches; of these together:
    rest: float = 0.0  # logs of what they took over what was foretold
    logs: float = 0.0  # logs of rows a second over those before

    def believed(self) -> tuple[float, float]:
        """Contention and its variance by all batches: a Gaussian on what they say together.

        What was before is the same for all of them: however many they are, its doubt stays.
        """
        common = self.lever / self.information
        return self._posterior(1.0 / self.information + common * common)

    @property
    def looks(self) -> float | None:
        """Contention as it would be believed if all had been warm; None before any was judged."""
        return self._posterior(1.0 / self.warm)[0] if self.warm > 0.0 else None

    def _posterior(self, noise: float) -> tuple[float, float]:
        mean, variance = self.prior
        told = self.contention + self.score / self.information
        gain = variance / (variance + noise)
        return min(max(mean + gain * (told - mean), 0.0), 1.0), variance * (1.0 - gain)


class Brought(msgspec.Struct, frozen=True, gc=False):
    """What more slots really brought, when they came last."""

    before: int  # slots
    slots: int
    rows_ratio: float  # rows a second over those before, as its trial's batches were
    shown: float = 0.0  # of contention, what its trial left as sure
    rows: int = 0  # the most that one of these batches had; 0 where that was not kept


class Work(msgspec.Struct):
    """What is believed of a query's stages; plain numbers, so that it can be saved."""

    samples: list[Sample] = []
    slots: int | None = None  # as of the newest batch that had so many all the while
    contention: float = 0.0
    variance: float = CONTENTION_SPREAD**2  # of contention
    #: Of it, what is sure: a deviation less than was believed when the last trial of more slots
    #: ended. To take a scaling for one in vain starves the query, the other way it costs an
    #: executor.
    shown: float = 0.0
    trial: Trial | None = None
    brought: Brought | None = None
    told: bool = True  # whether a need was worked out since that was known
    #: Rows and seconds of the first batch that ran while slots went: the state that they held is
    #: loaded in it.
    lost: tuple[int, float] | None = None
    uncut_until: float = 0.0  # epoch seconds: before, no scan is expected to be cut finer
    busy: float = 0.0  # busy shares of the queries beside it, in the newest batch
    #: By which the first batch after a change took longer than the next ones say: state that is
    #: loaded anew, and what else a change costs once.
    move_seconds: float = 0.0

    @property
    def contention_doubt(self) -> float:
        """Its deviation."""
        return math.sqrt(self.variance)

    @property
    def tasks(self) -> int:
        """Of the stage of most tasks."""
        return max([group.tasks for one in self.samples for group in one.work.groups], default=1)

    @property
    def most_tasks(self) -> int:
        """Slots beyond so many have nothing to do."""
        cut = [group.most_tasks for one in self.samples for group in one.work.groups]
        return max(self.tasks, *cut, 1)

    def learn(self, sample: Sample) -> None:
        """Takes in a batch with rows that was looked at."""
        self.slots = sample.work.slots
        kept = self.samples[-(MOST_SAMPLES - 1) :]
        if kept and sample.time >= self.uncut_until and _is_not_cut(kept[-1], sample):
            self._not_cut(sample.time)
            kept = self.samples[-(MOST_SAMPLES - 1) :]
        if sample.time >= self.uncut_until:
            work = scanned(sample.work, sample.files)
            sample = msgspec.structs.replace(sample, work=work)
        if kept and kept[-1].time:
            faded = math.exp(-max(sample.time - kept[-1].time, 0.0) / CONTENTION_FADE_SECONDS)
            self.contention *= faded
            self.shown *= faded
        self.samples = [*kept, sample]

    def _not_cut(self, time: float) -> None:
        """For a while more slots are not expected to cut a scan finer."""
        self.uncut_until = time + _UNCUT_SECONDS
        self.samples = [msgspec.structs.replace(one, work=as_cut(one.work)) for one in self.samples]

    def shown_at(self, rows: float) -> float:
        """Of contention, what is sure of batches of so many rows.

        Of those much larger than the batches that showed it little is: of small ones little is
        their rows'.
        """
        last, doubt = self.brought, 0.0
        if last is not None and rows > last.rows > 0:
            doubt = BEYOND * math.log(rows / last.rows) / math.log(last.slots / last.before)
        return max(self.shown - doubt, 0.0)

    def unsteady(self, rows: int, seconds: float, slots: int) -> None:
        """A batch during which slots came or went, and so many are left: teaches only the latter.

        Where some went, it is the first on fewer.
        """
        if self.lost is None and self.slots is not None and slots < self.slots:
            self.lost = rows, seconds
        if self.trial is not None and self.trial.seen:
            # Another executor in place of one that died; the next batch pays for that.
            self.trial = msgspec.structs.replace(
                self.trial, seen=0, seconds=0.0, first=None, cold=True
            )

    def resized(self, curve: Curve, slots: int, doubt: Covariance, reach: float) -> Curve:
        """What batches cost from now on: ``curve`` is what they did. Whether so is then judged.

        ``doubt`` is how unsure ``curve`` is, in square seconds, and ``reach`` the most rows seen.

        While a trial is open, a further change goes on with it, from the slots that were before it:
        executors come one by one, or one dies and another comes for it. What it has shown by then
        counts where they went on in its direction; else only where it speaks for more slots. Back
        at the slots before, the way back is a trial of its own.
        """
        was, self.slots = self.slots, slots
        cut, self.trial = self.trial, None
        if was is None or not self.samples:
            return curve
        onward = False
        if cut is not None and not (onward := (slots > was) == (cut.step > 0.0)):
            self.contention = min(self.contention, cut.contention)
            self.variance = cut.variance
        if cut is None or cut.slots == slots:
            prior = self.contention, self.variance
            cut = Trial(curve, prior[0], 0.0, prior[1], was, curve, doubt, reach, prior, self.busy)
        then = self.curve_at(curve, slots, now=was)
        step = math.log(slots / cut.slots)
        if not onward:
            # What is shared may be another than before, the more so the larger the step.
            wider = cut.variance + (CONTENTION_SPREAD * step) ** 2
            self.variance = min(wider, CONTENTION_SPREAD**2)
        # All that it shows is held against what was believed before it.
        foretold = self.curve_at(cut.before, slots, contention=cut.contention, now=cut.slots)
        first, seconds = None, 0.0
        if self.lost is not None and slots < was:
            first, seconds = (self.lost[1], foretold.seconds(self.lost[0])), self.lost[1]
        trial = msgspec.structs.replace(
            cut,
            curve=foretold,
            step=step,
            cold=cut.cold or slots > was,
            seen=0,
            seconds=seconds,
            first=first,
            later=0,
            rest=0.0,
            logs=0.0,
        )
        if not onward:
            prior = self.contention, self.variance
            trial = msgspec.structs.replace(
                trial, prior=prior, information=0.0, lever=0.0, score=0.0, warm=0.0
            )
        self.trial = trial
        return then

    def judge(
        self,
        rows: int,
        seconds: float,
        sigma: float,
        *,
        alone: bool = True,
        busy: float = 0.0,
    ) -> None:
        """Holds a batch after a change of slots against what was foretold of it.

        ``sigma``: deviation of the log of its time, by its own noise. ``alone``: no batch of
        another query took its slots meanwhile. ``busy``: the busy shares of the others together;
        where they were less before, what more slots brought went to them. Where they were more, it
        may be what they left that made it faster: for more slots speaks either.
        """
        self.busy = busy
        trial = self.trial
        if trial is None:
            return
        others = max((1.0 + busy) / (1.0 + trial.busy), 1.0)
        before, then = trial.before.seconds(rows), trial.curve.seconds(rows) * others
        if before <= 0.0 or then <= 0.0:
            return
        first, logs, rest, later = trial.first, trial.logs, trial.rest, trial.later
        if first is None:
            first = seconds, then  # it pays for the change, and does not judge it
        else:
            logs, rest = logs + math.log(before / seconds), rest + math.log(seconds / then)
            later += 1
            trial = msgspec.structs.replace(trial, alone=trial.alone and alone)
            trial = self._believe(trial, rows, then / others, seconds / others, sigma)
        if later >= KNOWN_BATCHES:
            self.move_seconds = max(first[0] - first[1] * math.exp(rest / later), 0.0)
        trial = msgspec.structs.replace(
            trial,
            seen=trial.seen + 1,
            rows=max(trial.rows, rows),
            seconds=trial.seconds + seconds,
            logs=logs,
            first=first,
            rest=rest,
            later=later,
        )
        unsure = trial.information < 1.0 / TRIAL_DOUBT**2 or later < KNOWN_BATCHES
        if unsure and trial.seen < MOST_TRIAL_BATCHES:
            self.trial = trial
            return
        self.trial = None
        if trial.step > 0.0 and self.slots is not None:
            self.shown = max(self.contention - self.contention_doubt, 0.0)
            ratio = math.exp(logs / later)
            self.brought = Brought(trial.slots, self.slots, ratio, self.shown, trial.rows)
            scans = [group for group in self.samples[-1].work.groups[:1] if _is_skewed(group)]
            if scans and self.samples[-1].work.slots == self.slots:  # and not for being cold
                self._not_cut(self.samples[-1].time)
            # What others took looks like what is shared, and goes with them.
            self.told = not trial.alone

    def _believe(self, trial: Trial, rows: int, then: float, seconds: float, sigma: float) -> Trial:
        """What a batch adds: its log is off by contention's error times the step, and noise."""
        driver = self.driver_seconds
        foretold, taken = then - driver, seconds - driver
        if foretold <= 0.0 or taken <= 0.0:
            return trial
        # Noise and doubt are of the whole batch: of what is left without the driver they are a
        # larger share.
        share = max(then / foretold, seconds / taken)
        cold = COLD_SECONDS / (trial.seconds + seconds / 2.0) if trial.cold else 0.0
        warm = trial.step / (sigma * share) ** 2
        weight = trial.step / ((sigma * share) ** 2 + cold**2)
        beyond = BEYOND * max(math.log(rows / trial.reach), 0.0) if trial.reach > 0.0 else 0.0
        known = math.sqrt(variance_at(trial.doubt, rows)) / trial.before.seconds(rows)
        doubt = math.hypot(known, beyond) * share
        trial = msgspec.structs.replace(
            trial,
            information=trial.information + weight * trial.step,
            lever=trial.lever + weight * doubt,
            score=trial.score + weight * math.log(taken / foretold),
            warm=trial.warm + warm * trial.step,
        )
        found, variance = trial.believed()
        if trial.step < 0.0 and found > trial.prior[0]:
            # That small batches took no longer on fewer does not say that more bring nothing:
            # little of them is their rows', and Java may still have been getting faster (seen on a
            # real Spark: .76 to .97 of contention where rows only slept).
            found, variance = trial.prior
        self.contention, self.variance = found, variance
        # That more slots do help, as fewer starve the query, counts at once.
        self.shown = min(self.shown, self.contention + self.contention_doubt)
        return trial

    def stage_ratio(
        self, slots: float, *, contention: float | None = None, now: int | None = None
    ) -> float:
        """Time of the stages at so many slots over that ``now``, at the present ones if not told.

        1 where nothing is known of them.
        """
        power = self.contention if contention is None else contention
        now = self.slots if now is None else now
        if now is None or not self.samples:
            return 1.0
        there = here = 0.0
        for sample in self.samples:
            for group in sample.work.groups:
                there += _group_seconds(group, sample.work.slots, slots, power)
                here += _group_seconds(group, sample.work.slots, now, power)
        return there / here if here > 0.0 else 1.0

    def curve_at(
        self,
        curve: Curve,
        slots: float,
        *,
        contention: float | None = None,
        now: int | None = None,
    ) -> Curve:
        """What batches would cost at so many slots; ``curve`` is what they cost ``now``."""
        ratio = self.stage_ratio(slots, contention=contention, now=now)
        driver = self.driver_seconds
        kept = min(curve.fixed, driver)
        # What the driver takes beyond the fixed cost grows with the rows, and stays.
        rows = self._mean(lambda one: one.rows)
        varying = rows * (curve.per_row + rows * curve.congestion)
        stays = min((driver - kept) / varying, 1.0) if varying > 0.0 else 0.0
        scaled = stays + (1.0 - stays) * ratio
        return Curve(
            kept + (curve.fixed - kept) * ratio, curve.per_row * scaled, curve.congestion * scaled
        )

    @property
    def slots_had(self) -> float:
        """Of the slots, the share that was its own while its stages ran: others took the rest."""
        bound = taken = 0.0
        for one in self.samples:
            bound += sum([_bound(group, one.work.slots, 1.0) for group in one.work.groups])
            taken += one.work.stage_seconds
        return min(bound / taken, 1.0) if taken > 0.0 else 1.0

    @property
    def driver_seconds(self) -> float:
        """Of a batch, the time in which no stage ran: planning, logs, commits; a mean."""
        return self._mean(lambda one: max(one.seconds - one.work.stage_seconds, 0.0))

    @property
    def longest_seconds(self) -> float:
        """Of a batch, its critical path: the slowest task of each group; a mean."""
        return self._mean(lambda one: sum([g.longest_seconds for g in one.work.groups]))

    @property
    def task_seconds(self) -> float:
        """Of a batch, its work: all tasks together; a mean."""
        return self._mean(lambda one: sum([g.task_seconds for g in one.work.groups]))

    def _mean(self, of: Callable[[Sample], float]) -> float:
        return sum([of(one) for one in self.samples]) / max(len(self.samples), 1)


def _is_not_cut(before: Sample, now: Sample) -> bool:
    """Whether more slots did not cut the scan finer, as was expected: its number was told."""
    slots = now.work.slots
    if slots <= before.work.slots or not before.work.groups or not now.work.groups:
        return False
    was, scan = before.work.groups[0], now.work.groups[0]
    return was.most_tasks > was.tasks and scan.tasks < min(slots, now.files)


def _is_skewed(scan: StageGroup) -> bool:
    """Whether one file takes most of the time of what more slots would cut finer."""
    finer = scan.most_tasks > scan.tasks
    return finer and scan.longest_seconds > SKEWED * scan.task_seconds / scan.tasks


def _group_seconds(group: StageGroup, seen: int, slots: float, contention: float) -> float:
    """What a group seen at ``seen`` slots takes at ``slots``, in proportion to what bounds it."""
    then, now = _bound(group, seen, 1.0), _bound(group, slots, (slots / seen) ** contention)
    return group.seconds * now / then if then > 0.0 else group.seconds


def _bound(group: StageGroup, slots: float, slower: float) -> float:
    """The slowest task or the waves, whichever takes longer.

    Where more slots cut the same work into more tasks, each takes as much less.
    """
    tasks = group.tasks_at(slots)
    longest = group.longest_seconds * group.tasks / tasks
    return slower * max(longest, math.ceil(tasks / slots) * group.task_seconds / tasks)
