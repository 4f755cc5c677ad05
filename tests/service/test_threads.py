"""Work in a thread of its own: whatever ends it, whoever waits is told."""

from __future__ import annotations

import asyncio

import pytest

from agent.service.threads import in_thread


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("x"), ValueError),
        (SystemExit(), RuntimeError),
        (asyncio.CancelledError(), RuntimeError),
        (StopIteration(), RuntimeError),  # as of every coroutine (PEP 479)
    ],
    ids=repr,
)
def test_whatever_ends_it_is_raised_where_it_is_waited_for(
    error: BaseException, told: type[Exception]
) -> None:
    def act() -> None:
        raise error

    async def wait() -> None:
        with pytest.raises(told):
            await asyncio.wait_for(in_thread(act), 10.0)

    asyncio.run(wait())


def test_what_it_returns_is_returned() -> None:
    assert asyncio.run(in_thread(lambda: 5)) == 5
