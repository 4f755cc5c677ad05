"""What the demo takes from the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agent.client import AgentUnavailable
from examples.demo import watch

if TYPE_CHECKING:
    import pytest

    from agent.client import AgentClient


class Late:
    """An agent that hears of the last batch only after some looks, and once does not answer."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def queries(self, *, history: int) -> dict[str, Any]:
        assert history > 0
        self.looks -= 1
        if self.looks == 2:
            raise AgentUnavailable("busy")
        rows, batches = (300, 3) if self.looks <= 0 else (200, 2)
        totals = {"rows": rows, "batches": {"completed": batches}}
        view = {"application": "demo", "query": "orders", "backlog_rows": None, "decisions": []}
        return {"queries": [view | {"totals": totals}]}


def test_a_batch_that_the_agent_hears_of_late_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_PAUSE_SECONDS", 0.0)
    watched = watch.Watched(cast("AgentClient", Late(5)), "demo", "orders", 0.0)
    watched.look()
    assert watched.counted == (0, 0)
    watched.hear_out(100, 1)
    assert watched.counted == (100, 1)


def test_one_that_it_never_hears_of_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "HEARD_WITHIN_SECONDS", 0.05)
    watched = watch.Watched(cast("AgentClient", Late(2)), "demo", "orders", 0.0)
    watched.hear_out(1000, 10)
    assert watched.counted != (1000, 10)
