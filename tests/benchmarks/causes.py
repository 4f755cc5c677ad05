"""How well failures are explained that nobody here made.

``python -m tests.benchmarks.causes [HALF …] [--held]`` takes the texts of public threads in
``tests/judgement/field`` and prints, per half and per axis, how many answers are right, wrong and
unknown, in all and by label, and then each wrong one of the open halves. ``--held`` shows those of
the held halves as well: whoever has read them can no longer say that the rules were written
without them.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import Final, Literal

from agent.core.judge.failure.cause import cause_of
from tests.judgement.field import HALVES, HELD, Half, Text, texts

Verdict = Literal["right", "wrong", "unknown"]
AXES: Final = ("cause", "where", "what")
VERDICTS: Final[tuple[Verdict, ...]] = ("right", "wrong", "unknown")
HEAD: Final = f"  {'':20s}{'all':>5s}" + "".join(f"{one:>14s}" for one in VERDICTS)


def answer(text: Text, axis: str) -> str | None:
    """What is told of a failure on one axis; None where that axis is not told at all."""
    found: str | None = getattr(cause_of(text.exception, text.error_class), axis, None)
    return found


def verdict(text: Text, axis: str, told: str) -> Verdict:
    if told == getattr(text, axis) or told in getattr(text.also, axis):
        return "right"
    return "unknown" if told == "unknown" else "wrong"


def line(name: str, counted: Counter[Verdict]) -> str:
    total = counted.total()
    shares = "".join(f"{counted[one]:6d} {100 * counted[one] / total:5.1f} %" for one in VERDICTS)
    return f"  {name:20s}{total:5d}{shares}"


def report(half: Half, show: bool) -> list[str]:
    found = [f"{half}: {len(texts(half))} texts", HEAD]
    missed = []
    for axis in AXES:
        by_label: dict[str, Counter[Verdict]] = {}
        in_all: Counter[Verdict] = Counter()
        for text in texts(half):
            told = answer(text, axis)
            if told is None:
                continue
            said = verdict(text, axis, told)
            in_all[said] += 1
            by_label.setdefault(getattr(text, axis), Counter())[said] += 1
            if said != "right":
                expected = getattr(text, axis)
                missed.append((said, axis, f"{text.source}: {told}, is {expected}: {text.why}"))
        if not in_all:
            found.append(f"  {axis}: not told")
            continue
        found.append(line(axis.upper(), in_all))
        found += [line(label, by_label[label]) for label in sorted(by_label)]
    if show:
        found += [f"  {said} {axis}: {rest}" for said, axis, rest in sorted(missed, reverse=True)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--held", action="store_true", help="show the held halves' misses, too")
    parser.add_argument("halves", nargs="*", metavar="HALF", help=f"of {', '.join(HALVES)}; all")
    arguments = parser.parse_args()
    for half in arguments.halves:
        if half not in HALVES:
            parser.error(f"no half is named {half}; there are {', '.join(HALVES)}")
    for half in arguments.halves or HALVES:
        print("\n".join(report(half, show=half not in HELD or arguments.held)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
