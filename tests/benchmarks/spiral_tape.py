"""What the spiral's judge is told, case by case, so that it alone can be asked again.

    python -m tests.benchmarks.spiral_tape TAPE [--count 1000] [--seed 1] [--processes 1]

plays every case of ``tests.benchmarks.spiral`` once and writes what its judge was told to TAPE;
``tests.benchmarks.ablation --tape TAPE spiral explanations`` asks the judge again with each of its
numbers changed, in a fiftieth of the time. What the rest of the core says to it stays as it was.
"""

from __future__ import annotations

import argparse
import contextlib
import pickle
import sys
from multiprocessing import Pool
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agent.core.judge import spiral as judge
from tests.benchmarks import spiral

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The calls by which it is told something; of ``Spiral`` and of its module.
OF_STATE: Final = ("commit", "end_attempt", "forget_open")
OF_MODULE: Final = ("judge", "runs_long")
#: (name, positional arguments without the state, named ones)
Call = tuple[str, tuple[Any, ...], dict[str, Any]]


class Taped(NamedTuple):
    """A case's calls, and what they are judged by."""

    kind: str
    calls: list[Call]
    timeout: int | None
    needs_lead: bool
    alarm: int | None  # as the live core had it


class Verdict(NamedTuple):
    """Of all cases: spirals led in time, of so many; look-alikes alarmed; growth that levelled."""

    led: int
    asked: int
    false: int
    look_alikes: int
    levelled: int
    levelling: int


@contextlib.contextmanager
def taping(calls: list[Call]) -> Iterator[None]:
    """Every call to the judge is written down, those that it makes itself are not."""
    inside = False
    kept: list[tuple[Any, str, Any]] = []

    def tape(owner: Any, name: str) -> None:
        original = getattr(owner, name)
        kept.append((owner, name, original))

        def taped(state: Any, *given: Any, **named: Any) -> Any:
            nonlocal inside
            if inside:
                return original(state, *given, **named)
            calls.append((name, given, named))
            inside = True
            try:
                return original(state, *given, **named)
            finally:
                inside = False

        setattr(owner, name, taped)

    for name in OF_STATE:
        tape(judge.Spiral, name)
    for name in OF_MODULE:
        tape(judge, name)
    try:
        yield
    finally:
        for owner, name, original in kept:
            setattr(owner, name, original)


def taped(job: tuple[str, int]) -> Taped:
    """Plays a case of a kind and seed."""
    case = spiral.make(*job)
    calls: list[Call] = []
    with taping(calls):
        outcome = spiral.run(case)
    return Taped(case.kind, calls, outcome.timeout, outcome.needs_lead, outcome.alarm)


def alarm(calls: list[Call]) -> int | None:
    """Index of the last attempt that had ended when the judge first foresaw a spiral."""
    state = judge.Spiral()
    ended = -1
    for name, given, named in calls:
        if name in OF_STATE:
            getattr(state, name)(*given, **named)
            ended += name != "forget_open"
        else:
            getattr(judge, name)(state, *given, **named)
        if state.spiralling:
            return ended
    return None


def verdict(tape: list[Taped]) -> Verdict:
    """Of a whole tape, as the judge decides now."""
    asked = led = false = quiet = levelled = levelling = 0
    for one in tape:
        if one.kind in spiral.SPIRALS:
            if one.needs_lead:
                asked += 1
                found = alarm(one.calls)
                assert one.timeout is not None
                led += found is not None and one.timeout - found >= spiral.LEAD
        elif one.timeout is None:
            found = alarm(one.calls)
            if one.kind in spiral.LEVELLING:
                levelling += 1
                levelled += found is not None
            else:
                quiet += 1
                false += found is not None
    return Verdict(led, asked, false, quiet, levelled, levelling)


def read(path: Path) -> list[Taped]:
    """What ``main`` wrote."""
    with path.open("rb") as file:
        found: list[Taped] = pickle.load(file)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Writes the tape, and says what the judge makes of it beside what the live core did."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tape", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args(arguments)
    jobs = spiral.drawn(given.count, given.seed)
    with Pool(given.processes) as pool:
        tape = pool.map(taped, jobs, chunksize=4)
    with given.tape.open("wb") as file:
        pickle.dump(tape, file)
    print(verdict(tape))
    return 0


if __name__ == "__main__":
    # What is written names its types by this module, not by the command.
    from tests.benchmarks.spiral_tape import main as written_by

    sys.exit(written_by())
