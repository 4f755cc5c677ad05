"""What an agent takes, wherever it stands: what was measured, and what follows from that."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = " ".join((ROOT / "docs" / "deploy.md").read_text("utf-8").split())
RUNBOOKS: Final = ROOT / "agent" / "export" / "runbooks"
VALUES: Final = ROOT / "helm" / "weir" / "values.yaml"


def found(pattern: str, text: str = DEPLOY) -> tuple[int, ...]:
    """The numbers in the one place that is written so."""
    (match,) = re.finditer(pattern, text)
    return tuple(map(int, match.groups()))


(ONE,) = found(r"with one query \| (\d+) MiB \|")
THOUSAND, SCRAPED = found(r"with 1000 queries of \d+ batches each \| (\d+) MiB, at most (\d+) MiB")
(STATE,) = found(r"saved state of those \| (\d+) MiB \|")
(DOOR,) = found(r"one for each driver that has one \| (\d+) MiB \|")


def test_what_follows_from_what_was_measured_follows() -> None:
    many, scrape = found(r"come to some (\d+) MiB, and a scrape of them to (\d+) MiB more")
    assert (many, scrape) == (ONE + 2 * (THOUSAND - ONE), 2 * (SCRAPED - THOUSAND))
    assert found(r"the first row and the last, (\d+) MiB") == (ONE + DOOR,)


def test_the_chart_asks_for_as_much() -> None:
    text = VALUES.read_text("utf-8")
    assert found(r"A thousand queries take (\d+) MiB", text) == (STATE,)
    chart = (ROOT / "helm" / "weir" / "README.md").read_text("utf-8")
    assert found(r"A thousand queries take (\d+) MiB", chart) == (STATE,)
    many, scrape = found(r"come to some (\d+) MiB, and a scrape of them to (\d+) MiB more")
    (request,) = found(r"The request, (\d+) MiB, holds both, and the limit is twice that")
    resources = yaml.safe_load(text)["resources"]
    assert resources["requests"]["memory"] == f"{request}Mi"
    assert resources["limits"]["memory"] == f"{2 * request}Mi"
    assert many + scrape <= request


def test_runbooks_say_the_same_of_a_query_and_of_a_door() -> None:
    kilobytes = round((THOUSAND - ONE) * 2**20 / 1000 / 1000)
    for name in ("WeirAgentDown", "WeirAgentMemoryNearLimit"):
        text = (RUNBOOKS / f"{name}.md").read_text("utf-8")
        assert found(r"about (\d+) KB a query", text) == (kilobytes,)
    text = (RUNBOOKS / "WeirAgentMemoryNearLimit.md").read_text("utf-8")
    assert found(r"about (\d+) MiB, under the same limit", text) == (DOOR,)
