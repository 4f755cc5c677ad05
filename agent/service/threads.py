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
    """What ``act`` returns or raises, of a thread of its own; left alone where nobody waits.

    RuntimeError where it raises what is no Exception, which would end the loop.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    values: list[T] = []
    failure: BaseException | None = None

    def tell() -> None:
        if not ended.done():  # else nobody waits for it any more
            ended.set_result(None)

    def work() -> None:
        nonlocal failure
        try:
            values.append(act())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell)

    threading.Thread(target=work, daemon=True).start()
    await ended
    if failure is None:
        return values[0]
    if isinstance(failure, Exception):  # not by the future, which takes no StopIteration
        raise failure
    raise RuntimeError(type(failure).__name__) from failure
