"""``python -m agent.export.advice``: renews the table of what may be advised, in docs."""

from __future__ import annotations

from typing import Final

from agent.core.judge.advice import ADVICE
from agent.export.handwritten import DOCS, with_table

PAGE: Final = DOCS / "checkpoints.md"


def page(current: str) -> str:
    """docs/checkpoints.md with its table made anew."""
    return with_table(
        current,
        "`python -m agent.export.advice`; edit agent/core/judge/advice.py",
        ("measured", "advice"),
        [told for one in ADVICE for told in one.told],
    )


def main() -> None:
    """Rewrites docs/checkpoints.md."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
