"""The one thread that talks to the agent: sends what is queued, hands replies on, backs off."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Final

from spark_listener.channel import Channel, ExchangeFailed
from spark_listener.complaints import LOGGER
from spark_listener.replies import BadReply, parse_reply
from spark_listener.wire import MAX_EVENTS_PER_REQUEST, MAX_REQUEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_listener.complaints import Complaints
    from spark_listener.outbox import Outbox, Pending
    from spark_listener.replies import Reply

BACKOFF_BASE_SECONDS: Final = 0.5
#: Well below a grant's life, so that a restarted agent renews grants before they end.
BACKOFF_LARGEST_SECONDS: Final = 10.0
_ENVELOPE_BYTES: Final = 64 * 1024  # kept free for what stands around the events
#: Not ``random.random``: a job that has seeded that is to draw the numbers that it draws alone.
_DRAWN: Final = random.SystemRandom()
LARGEST_EVENT_BYTES: Final = MAX_REQUEST_BYTES - _ENVELOPE_BYTES


def backoff_seconds(failures: int, draw: Callable[[], float]) -> float:
    """The pause after the n-th failure in a row: exponential, capped, with full jitter.

    ``draw`` gives a number in [0, 1). Full jitter spreads many drivers evenly over the pause, so a
    returning agent is not met by all at once (Brooker, "Exponential Backoff and Jitter", 2015).
    """
    ceiling = min(BACKOFF_LARGEST_SECONDS, BACKOFF_BASE_SECONDS * 2.0 ** min(failures - 1, 30))
    return ceiling * draw()


class Link:
    """What is known of the agent; written by the sender, read by anyone.

    ``prompt_seconds``: an exchange that takes longer is of no use to a first batch that waits.
    """

    def __init__(self, prompt_seconds: float) -> None:
        self._prompt_seconds = prompt_seconds
        self._begun: float | None = None  # the exchange under way, monotonic seconds
        self._slow = False  # the last exchange took too long
        self.failing = False  # the last attempt failed
        self.patient = True  # False: it made a first batch wait in vain, and took in no start since

    def worth_waiting_for(self, now: float) -> bool:
        """False where a first batch would wait in vain, as far as can be known."""
        begun = self._begun
        overdue = begun is not None and now - begun > self._prompt_seconds
        return self.patient and not (self.failing or self._slow or overdue)

    def lets_wait_in_vain(self, seconds: float) -> None:
        """A first batch was held in vain, for an answer that had so many seconds to come."""
        if seconds >= self._prompt_seconds:
            self.patient = False

    def begins(self, now: float) -> None:
        """An exchange begins."""
        self._begun = now

    def fails(self) -> None:
        """The exchange under way failed."""
        self._begun = None
        self.failing = True

    def answers(self, now: float, *, a_start: bool) -> None:
        """The exchange under way is answered; ``a_start``: it told of a query that starts."""
        self._slow = self._begun is not None and now - self._begun > self._prompt_seconds
        self._begun = None
        self.failing = False
        # What is quick with heartbeats and slow with starts may cost one wait, not one each.
        self.patient = self.patient or (a_start and not self._slow)


class Sender:
    """Owns the connection and the thread ``weir-sender``."""

    def __init__(
        self,
        outbox: Outbox,
        channel: Channel,
        *,
        agent_url: str,
        prompt_seconds: float,
        head: Callable[[], str],
        on_reply: Callable[[Reply], None],
        on_failure: Callable[[], None],
        without_agent: Callable[[], str],
        complaints: Complaints,
        draw: Callable[[], float] = _DRAWN.random,
    ) -> None:
        self._outbox = outbox
        self._channel = channel
        self._agent_url = agent_url
        self._head = head  # the request's JSON up to the events: '{"application":…,"listener":…'
        self._on_reply = on_reply
        self._on_failure = on_failure
        self._without_agent = without_agent  # what becomes of the job's limits, for the warning
        self._complaints = complaints
        self._draw = draw
        self._stopping = threading.Event()
        self._failures = 0
        self._failing_since = 0.0  # monotonic seconds
        self._told_gone = False  # whether the log says that it is gone, and not yet that it is back
        self._ever_answered = False
        self._max_events = MAX_EVENTS_PER_REQUEST
        self._thread = threading.Thread(target=self._run, name="weir-sender", daemon=True)
        self.link = Link(prompt_seconds)
        self.rejected_total = 0

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def cut_if_overdue(self) -> None:
        """For another thread's clock: ends an exchange that outlived its time."""
        self._channel.cut_if_overdue()

    def stop(self, flush_seconds: float) -> None:
        """Ends the thread; unless it fails, the agent has ``flush_seconds`` to take the rest."""
        self._outbox.close()
        until = time.monotonic() + flush_seconds
        while len(self._outbox) and not self.link.failing and time.monotonic() < until:
            time.sleep(0.01)
        self._stopping.set()
        if self._thread.is_alive():  # it may never have begun
            self._thread.join(max(0.0, until - time.monotonic()) + 0.1)
        self._channel.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                pause = self.step()
            except Exception as error:
                self._complaints.error("sending", error)
                pause = BACKOFF_LARGEST_SECONDS
            if pause > 0:
                self._stopping.wait(pause)

    def step(self) -> float:
        """Sends one request if anything is queued; returns how long to pause, in seconds."""
        batch = self._outbox.take(
            max_events=self._max_events, max_bytes=LARGEST_EVENT_BYTES, timeout_seconds=1.0
        )
        if not batch:
            return 0.05 if self._stopping.is_set() else 0.0
        self.link.begins(time.monotonic())
        try:
            data = b",".join(item.data for item in batch)
            body = self._head().encode("utf-8", "replace") + b',"events":[' + data + b"]}"
            reply = parse_reply(self._channel.exchange(body))
            self._settle(reply, batch)
        except ExchangeFailed as failure:
            return self._failed(failure, batch)
        except BadReply as failure:
            self._channel.close()
            return self._failed(ExchangeFailed("garbage", str(failure)), batch)
        finally:
            self._outbox.landed()
        self._succeeded(reply, batch)
        return 0.0

    def _settle(self, reply: Reply, batch: list[Pending]) -> None:
        # Not by what is settled: the queue may have given up all of the batch meanwhile.
        if reply.acknowledged < batch[0].sequence:
            raise BadReply(
                f"it acknowledges up to {reply.acknowledged}, but "
                f"{batch[0].sequence} to {batch[-1].sequence} were sent"
            )
        self._outbox.settle(reply.acknowledged)

    def _succeeded(self, reply: Reply, batch: list[Pending]) -> None:
        if self._told_gone:
            LOGGER.warning(
                "weir: the agent at %s answers %s, after %.0f s",
                self._agent_url,
                "again" if self._ever_answered else "now",
                time.monotonic() - self._failing_since,
            )
        self._told_gone = False
        self._ever_answered = True
        self._failures = 0
        self._max_events = min(2 * self._max_events, MAX_EVENTS_PER_REQUEST)
        self.link.answers(time.monotonic(), a_start=any(item.kind == "started" for item in batch))
        if reply.rejected:
            self.rejected_total += len(reply.rejected)
            self._complaints.warn(
                "rejected", f"weir: the agent refused an event: {reply.rejected[0]}"
            )
        self._on_reply(reply)

    def _failed(self, failure: ExchangeFailed, batch: list[Pending]) -> float:
        if not self._failures:
            self._failing_since = time.monotonic()
        self._failures += 1
        self.link.fails()
        self._on_failure()
        if self._complaints.warn(
            f"agent:{failure.kind}",
            f"weir: the agent at {self._agent_url} cannot be used: {failure}. The job goes on: "
            f"{self._without_agent()}; trying again quietly",
        ):
            self._told_gone = True
        refused = failure.status in (400, 413)
        if refused or failure.kind in ("timeout", "connection"):
            # One event may spoil a request, and a slow link may not carry it in time: send fewer.
            self._max_events = max(1, len(batch) // 2)
        if refused and len(batch) == 1:  # it is the one that spoils it
            self._outbox.discard(batch[0], too_large=failure.status == 413)
        pause = backoff_seconds(self._failures, self._draw)
        return max(pause, failure.retry_after_seconds or 0.0)
