"""What each number of the controller's judgement is worth: it is changed, and all is played again.

    python -m tests.benchmarks.ablation [NAME ...] [--times 0 0.5 2] [--seeds 6] [--processes 2]
    python -m tests.benchmarks.ablation [NAME ...] --tape TAPE  # of tests.benchmarks.spiral_tape

Each number of the files below is multiplied by each of ``--times`` (0 takes most rules out, and so
does ``inf`` for bounds), everything else stays, and Weir alone plays every family of
``tests.benchmarks.control`` and every recorded trace, on the same seeds. Told are the worst
family's loss beside the present judgement, paired by seed: in band, committed rows, 95th percentile
of a batch's seconds, batches until it settles; and on the recorded traces the mean of p95, p99 and
of the peak backlog. A line whose losses lie all within ``WORTH`` is a number that no figure misses:
it goes, or another one takes its place. With a tape the spiral's judge is asked again: how
many spirals it led in time, and how many look-alikes it took for one.
"""

from __future__ import annotations

import argparse
import ast
import math
import statistics
import sys
from functools import cache
from multiprocessing import Pool
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import agent.core
from agent.simulation import plant, summary
from agent.simulation.live import Live
from tests.benchmarks import recorded, spiral_tape
from tests.benchmarks.control import settled
from tests.benchmarks.families import FAMILIES
from tests.benchmarks.numbers import FILES, Number, numbers, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CORE: Final = Path(agent.core.__file__).parent
#: What a change may cost a family: share in band, of the rows, of p95, batches until it settles.
WORTH: Final = (0.02, 0.01, 0.05, 1.0)
CONTROLLER: Final = tuple(name for name in FILES if name != "attention")  # which decides nothing
JUDGE: Final = ("spiral", "explanations")
#: Of a change that does not settle, in batches.
NEVER: Final = 30


class Change(NamedTuple):
    """A number's place among its module's, and by what it is multiplied."""

    file: str
    place: int
    times: float


class Played(NamedTuple):
    """Of one family or trace and seed."""

    in_band: float | None
    committed: int
    p95: float
    p99: float
    settle: float
    backlog: int


def apply(change: Change) -> None:
    """Changes the number wherever it was imported to, and what its module derives from it."""
    path = path_of(CORE, change.file)
    source = path.read_text("utf-8")
    name = ".".join(("agent", "core", *path.relative_to(CORE).with_suffix("").parts))
    module = sys.modules[name]
    chosen = list(numbers(source))[change.place]
    tree = ast.parse(source)
    before = dict(vars(module))
    for statement in tree.body:
        if not isinstance(statement, ast.AnnAssign) or statement.value is None:
            continue
        for node in ast.walk(statement.value):
            if isinstance(node, ast.Constant) and (node.lineno - 1, node.col_offset) == (
                chosen.line,
                chosen.begin,
            ):
                node.value = _times(chosen.value, change.times)
        assert isinstance(statement.target, ast.Name)
        if statement.target.id.isupper():
            code = compile(ast.Expression(statement.value), str(path), "eval")
            vars(module)[statement.target.id] = eval(code, vars(module))
    for key, value in before.items():
        now = vars(module)[key]
        if key.isupper() and now != value:
            for other in list(sys.modules.values()):
                named = getattr(other, "__name__", "").startswith("agent.core.")
                if named and vars(other).get(key) == value:
                    vars(other)[key] = now


def _times(value: float, times: float) -> float:
    if math.isinf(times):
        return math.inf
    changed = value * times
    return round(changed) if isinstance(value, int) else changed


def play(job: tuple[str, int]) -> Played:
    """Weir on a family or a trace (``trace/load/fixed share``)."""
    name, seed = job
    if "/" in name:
        trace_name, load, share = name.split("/")
        scenario = recorded.scenario_of(_recordings()[trace_name], float(load), float(share))
        changes: Sequence[float] = ()
    else:
        family = next(one for one in FAMILIES if one.scenario.name == name)
        scenario, changes = family.scenario, family.changes
    trace = plant.run(scenario, plant.Noise.of(scenario, seed), Live(scenario))
    ordered = sorted(attempt.seconds for attempt in trace.attempts)
    found = [settled(trace, at, scenario.target_seconds) or NEVER for at in changes]
    return Played(
        summary.in_band_share(trace, scenario.target_seconds),
        trace.committed_rows,
        summary.percentile(ordered, 0.95) or 0.0,
        summary.percentile(ordered, 0.99) or 0.0,
        statistics.fmean(found) if found else 0.0,
        trace.max_backlog_rows,
    )


@cache
def _recordings() -> dict[str, recorded.Recording]:
    return recorded.recordings()


def jobs(seeds: int) -> list[tuple[str, int]]:
    """Every family on every seed; a trace is long, and gets one, at the load that leaves marks."""
    played = [(one.scenario.name, seed) for one in FAMILIES for seed in range(seeds)]
    traces = [
        (f"{name}/{max(recorded.LOADS)}/{share}", 0)
        for name in _recordings()
        for share in recorded.FIXED_SHARES
    ]
    return played + traces


def every(work: tuple[Change | None, int]) -> dict[tuple[str, int], Played]:
    """All of it under one change. Run in a process of its own: nothing is put back."""
    change, seeds = work
    if change is not None:
        apply(change)
    return {job: play(job) for job in jobs(seeds)}


class Loss(NamedTuple):
    """Against the present: the worst family of each figure, and the traces' means."""

    in_band: tuple[float, str]
    committed: tuple[float, str]
    p95: tuple[float, str]
    settle: tuple[float, str]
    traces: tuple[float, float, float]  # p95, p99, peak backlog over the present ones
    mean_in_band: float

    @property
    def within(self) -> bool:
        """Whether nobody would miss it."""
        worst = (self.in_band, self.committed, self.p95, self.settle)
        return all(one[0] <= most for one, most in zip(worst, WORTH, strict=True)) and all(
            ratio <= 1.0 + WORTH[2] for ratio in self.traces
        )


def loss(present: dict[tuple[str, int], Played], changed: dict[tuple[str, int], Played]) -> Loss:
    """Positive is worse."""
    by_name: dict[str, list[tuple[Played, Played]]] = {}
    for (name, _), before in present.items():
        by_name.setdefault(name, []).append((before, changed[name, _]))
    families = {name: pairs for name, pairs in by_name.items() if "/" not in name}
    traces = [pairs for name, pairs in by_name.items() if "/" in name]

    def bands(pairs: list[tuple[Played, Played]]) -> float:
        found = [
            a.in_band - b.in_band
            for a, b in pairs
            if a.in_band is not None and b.in_band is not None
        ]
        return statistics.fmean(found) if found else 0.0

    def worst(of: Any) -> tuple[float, str]:
        return max((of(pairs), name) for name, pairs in families.items())

    def ratio(field: str, pairs: list[tuple[Played, Played]]) -> float:
        return statistics.fmean(getattr(b, field) / max(getattr(a, field), 1e-9) for a, b in pairs)

    return Loss(
        worst(bands),
        worst(lambda pairs: 1.0 - ratio("committed", pairs)),
        worst(lambda pairs: ratio("p95", pairs) - 1.0),
        worst(lambda pairs: statistics.fmean(b.settle - a.settle for a, b in pairs)),
        (
            statistics.fmean(ratio("p95", pairs) for pairs in traces),
            statistics.fmean(ratio("p99", pairs) for pairs in traces),
            statistics.fmean(ratio("backlog", pairs) for pairs in traces),
        ),
        statistics.fmean(bands(pairs) for pairs in families.values()),
    )


def changes(
    files: Sequence[str], names: Sequence[str], times: Sequence[float]
) -> Iterator[tuple[Change, Number]]:
    """Of the numbers that are named, or that stand in a file that is; all where none is."""
    for file in files:
        for place, number in enumerate(numbers(path_of(CORE, file).read_text("utf-8"))):
            if not names or file in names or number.name in names:
                for factor in times:
                    yield Change(file, place, factor), number


HEADER: Final = """\
| number | value | times | in band, worst | rows, worst | p95, worst | settles later, worst | \
traces: p95 | p99 | peak | in band, mean | missed |
|---|---|---|---|---|---|---|---|---|---|---|---|"""


def line(change: Change, number: Number, found: Loss) -> str:
    """A row of the table."""
    cells = [f"{change.file}.{number.name}", f"{number.value:g}", f"{change.times:g}"]
    worst = (found.in_band, found.committed, found.p95, found.settle)
    cells += [f"{value:+.3f} {name}" for value, name in worst]
    cells += [f"{ratio:.3f}" for ratio in found.traces]
    cells += [f"{found.mean_in_band:+.4f}", "-" if found.within else "yes"]
    return f"| {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> int:
    """Prints the table as it is found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a file or a number; all")
    parser.add_argument("--times", nargs="+", type=float, default=[0.0, 0.5, 2.0])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--tape", type=Path, help="ask the spiral's judge instead")
    given = parser.parse_args(arguments)
    files = CONTROLLER if given.tape is None else JUDGE
    wanted = list(changes(files, given.names, given.times))
    if not wanted:
        parser.error(f"nothing is named {' '.join(given.names)}")
    if given.tape is not None:
        ask_again(given.tape, wanted, given.processes)
        return 0
    work: list[tuple[Change | None, int]] = [
        (None, given.seeds),
        *((change, given.seeds) for change, _ in wanted),
    ]
    print(HEADER, flush=True)
    with Pool(given.processes, maxtasksperchild=1) as pool:
        found = pool.imap(_tried, work)
        present = next(found)
        assert isinstance(present, dict)
        for change, number in wanted:
            told = next(found)
            if isinstance(told, str):
                print(f"| {change.file}.{number.name} | {change.times:g} | {told} |", flush=True)
            else:
                print(line(change, number, loss(present, told)), flush=True)
    return 0


def ask_again(tape: Path, wanted: Sequence[tuple[Change, Number]], processes: int) -> None:
    """Prints what the spiral's judge makes of a tape, as it is and under each change."""
    print("| number | value | times | led | false | levelling |\n|---|---|---|---|---|---|")
    tried: list[tuple[Path, Change | None]] = [(tape, None), *((tape, one) for one, _ in wanted)]
    with Pool(processes, maxtasksperchild=1) as pool:
        found = pool.imap(_asked, tried)
        print(f"| as it is | | | {next(found)} |", flush=True)
        for change, number in wanted:
            cells = [f"{change.file}.{number.name}", f"{number.value:g}", f"{change.times:g}"]
            print(f"| {' | '.join([*cells, next(found)])} |", flush=True)


def _asked(work: tuple[Path, Change | None]) -> str:
    tape, change = work
    try:
        if change is not None:
            apply(change)
        said = spiral_tape.verdict(spiral_tape.read(tape))
    except (ArithmeticError, ValueError, IndexError) as error:
        return f"{type(error).__name__}: {error}"
    return (
        f"{said.led} of {said.asked} | {said.false} of {said.look_alikes} | "
        f"{said.levelled} of {said.levelling}"
    )


def _tried(work: tuple[Change | None, int]) -> dict[tuple[str, int], Played] | str:
    """What was played; a value that arithmetic cannot bear is told."""
    try:
        return every(work)
    except (ArithmeticError, ValueError, IndexError) as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main())
