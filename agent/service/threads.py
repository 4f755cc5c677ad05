"""Work in a thread that the agent's end does not wait for, as it does for those of asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def in_thread(act: Callable[[], T]) -> T:
    """What ``act`` returns or raises, of a thread of its own; left alone where nobody waits."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def tell(value: T | None, error: Exception | None) -> None:
        if answer.done():  # nobody waits for it any more
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)  # type: ignore[arg-type]  # it is what ``act`` returned

    def work() -> None:
        value, failure = None, None
        try:
            value = act()
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell, value, failure)

    threading.Thread(target=work, daemon=True).start()
    return await answer
