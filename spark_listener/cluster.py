"""What the application's queries run on: measured now and then, resized when the agent says so.

Everything here is beside what a job needs: where this Spark hides what is asked for, that is said
once, and the rest goes on without.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spark_listener.executors import Executors, Standing
from spark_listener.replies import ExecutorsOrder
from spark_listener.stages import BatchWork, StageStore
from spark_listener.wire import STAGES_PAUSE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_listener.complaints import Complaints
    from spark_listener.lease import Lease

_Told = TypeVar("_Told")
#: A cluster manager that hangs holds whoever asks it for minutes (spark.rpc.askTimeout), and with
#: that all of Weir; and for the slowest task of a stage Spark's store sorts all of them, however
#: many. Asking either may take no more than this share of the time. Half or twice as much holds
#: half or twice as much.
_MOST_ASKING_SHARE: Final = 0.1


class Cluster:
    """Of one application; one thread owns it. No method raises."""

    def __init__(
        self,
        gateway: Any,
        lease: Lease,
        *,
        every_seconds: float,
        complaints: Complaints,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``every_seconds``: stages of a query are asked for no more often."""
        self._gateway = gateway
        self._lease = lease
        self._every_seconds = every_seconds
        self._complaints = complaints
        self._clock = clock
        self._stages: StageStore | None = None
        self._executors: Executors | None = None
        self._joined = False
        # By run: when next, and the pause after that one if it was in vain.
        self._due: dict[str, tuple[float, float]] = {}
        self._slots: dict[str, int] = {}  # by run, when its last batch ended
        self._order: ExecutorsOrder | None = None
        self._until = 0.0  # when the order expires
        self._may_ask = self._may_look = clock()  # from when on

    def join(self, context: Any) -> None:
        """The JVM's ``SparkContext``, once there is one."""
        if self._joined:
            return
        self._joined = True
        self._stages = self._guarded(
            "the store of stages", lambda: StageStore(self._gateway, context)
        )
        self._executors = self._guarded(
            "the application's executors", lambda: Executors(self._gateway, context, self._lease)
        )
        if self._executors is None or self._executors.local:
            self._stages = None  # more of what there is none of: its stages need no look

    def work(self, run_id: str, batch_id: int | None) -> BatchWork | None:
        """What a batch that just ended ran on, and its stages where it is time to look again."""
        stages, executors, now = self._stages, self._executors, self._clock()
        if stages is None or executors is None or batch_id is None:
            return None
        before = self._slots.get(run_id)
        slots = self._guarded("the number of slots", executors.slots)
        if slots is None:
            return None
        self._slots[run_id] = slots
        work: BatchWork = {"slots": slots, "steady": before in (slots, None)}
        due, pause = self._due.get(run_id, (now, self._every_seconds))
        if now < max(due, self._may_look) or not work["steady"]:
            return work
        found = self._guarded("a batch's stages", lambda: stages.stages_of(run_id, batch_id))
        self._may_look = now + (self._clock() - now) / _MOST_ASKING_SHARE
        # Not all of a batch may be in the store yet: the next one's will be.
        if found:
            work["stages"] = found
            self._due[run_id] = now + self._every_seconds, self._every_seconds
        else:
            self._due[run_id] = now + pause, min(2.0 * pause, STAGES_PAUSE_SECONDS)
        return work

    def forget(self, run_id: str) -> None:
        """A run that is over."""
        self._due.pop(run_id, None)
        self._slots.pop(run_id, None)

    def standing(self) -> Standing | None:
        """What a heartbeat tells of the executors; None where nothing is known."""
        executors = self._executors
        if executors is None:
            return None
        return self._guarded("the number of executors", executors.standing)

    def take(self, order: ExecutorsOrder) -> None:
        """The agent's newest word; the one before it is over."""
        self._order, self._until = order, self._clock() + order.expires_seconds

    def steer(self) -> None:
        """Asks for what was ordered, releases what is beyond it once no job runs.

        An order that is not renewed in time asks for nothing more; what was asked for stays.
        """
        order, executors = self._order, self._executors
        begun = self._clock()
        if order is None or executors is None or not self._may_ask <= begun < self._until:
            return
        self._guarded("asking for executors", lambda: executors.ask(order.wanted))
        self._may_ask = begun + (self._clock() - begun) / _MOST_ASKING_SHARE

    def give_back(self) -> None:
        """Goes back to the number that the job had before our first word: an order that stays.

        Where one is refused, or executors beyond that number work, ``steer`` does it later.
        """
        self.take(ExecutorsOrder(None, math.inf))
        self.steer()

    def leave(self) -> None:
        """The same for the last time: nobody steers any more."""
        executors, self._order = self._executors, None
        if executors is not None:
            self._guarded("giving the executors back", lambda: executors.ask(None))

    def _guarded(self, what: str, act: Callable[[], _Told]) -> _Told | None:
        try:
            return act()
        except Exception as error:
            self._complaints.error(what, error)
            return None
