"""The application's executors: how many there are, and asking for more or fewer.

Asking is ``SparkContext.requestTotalExecutors``, as Spark's own dynamic allocation does it. Fewer
are had by releasing executors that run no task and hold nothing that the job has cached, while no
job runs, as it may still read what they hold; decommissioned where the job allows it, so that this
moves elsewhere. What was asked for last stays when the agent falls silent.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypedDict

from spark_listener.backlog import whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_listener.lease import Lease

_KEPT: Final = "executors"
#: At what stays the same while it is looked at: no more often, where executors come by the dozen.
_LOOKS: Final = 3
_DYNAMIC: Final = ("spark.dynamicAllocation.enabled", "spark.streaming.dynamicAllocation.enabled")
#: Schedulers that are known to do what they are asked: of others some take every number and do
#: nothing, and some (RayDP) lose what the job keeps when an executor goes.
_KNOWN: Final = tuple(
    f"org.apache.spark.scheduler.cluster.{name}"
    for name in ("StandaloneSchedulerBackend", "k8s.KubernetesClusterSchedulerBackend", "Yarn")
)
#: Where Spark counts executors that fail, on Kubernetes from 4.2 also each pod that is refused, as
#: by a quota, and ends the job after a number made of what the job had at its start: more executors
#: fail more often, and one of ours must not be the one too many (ExecutorFailureTracker).
_COUNT_FAILURES: Final = ("KubernetesClusterSchedulerBackend", "scheduler.cluster.Yarn")
_MOST_FAILURES: Final = ("spark.executor.maxNumFailures", "spark.yarn.max.executor.failures")
_ALLOCATOR: Final = "spark.kubernetes.allocation.pods.allocator"
#: Labels of pods that Kueue has admitted, as some of a workload of so many: its own of each such
#: pod, and that by which plain pods are one group.
_ADMITTED: Final = (
    "spark.kubernetes.driver.label.kueue.x-k8s.io/podset",
    "spark.kubernetes.driver.label.kueue.x-k8s.io/pod-group-name",
    "spark.kubernetes.executor.label.kueue.x-k8s.io/pod-group-name",
)
_MOST_PODS: Final = "spark.kubernetes.allocation.maximum"
#: Where a job does not say how many executors it has, so many seconds without a new one tell it:
#: as long as Spark itself waits for them (spark.scheduler.maxRegisteredResourcesWaitingTime). So
#: long, too, others may be there than were asked for, before that is asked for again.
_COMING_SECONDS: Final = 30.0
#: So many seconds after another number was asked for, or one was too many, none comes any more that
#: was launched before: as long as Spark waits for one that it asked Kubernetes for, the longest of
#: its waits (spark.kubernetes.allocation.executor.timeout).
_LATE_SECONDS: Final = 600.0
#: What a standalone Master holds an application to that names no number: ApplicationInfo's default.
_NO_LIMIT: Final = 2**31 - 1


class _StandingRequired(TypedDict):
    present: int
    slots: int


class Standing(_StandingRequired, total=False):
    """As a heartbeat tells it; ``slots`` are the tasks that can run at once in all of them."""

    configured: int  # the number before anything was asked for; absent until it is known
    asked: int  # by Weir, last
    note: str  # why the number cannot be changed, in a few words


class Executors:
    """Of one application. Every method may raise what py4j raises."""

    def __init__(
        self,
        gateway: Any,
        context: Any,
        lease: Lease,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``context`` is the JVM's ``SparkContext``."""
        self._clock = clock
        self._gateway = gateway
        self._context = context
        self._lease = lease
        self._backend = context.schedulerBackend()
        kind = str(self._backend.getClass().getName())
        self.local = "LocalSchedulerBackend" in kind
        #: Its own number has no limit but spark.cores.max, and follows the Workers that there are.
        self._standalone = "StandaloneSchedulerBackend" in kind
        conf = context.getConf()
        self._decommissions = _is_true(conf.get("spark.decommission.enabled", "false"))
        self._note = self._why_not(conf, kind)
        self._profile = context.resourceProfileManager().defaultResourceProfile()
        instances = whole(conf.get("spark.executor.instances", ""))
        self._configured = instances or 0
        self._says = bool(instances)  # how many it has
        self._came = clock()  # the newest, where it does not say
        self._asked: int | None = None
        self._taken = True  # the cluster manager has said that it takes it
        self._moved = clock()  # when another number was asked for, or some were too many, last
        self._sent = clock()  # when any was asked for, last
        #: Registered, their slots, and those of them that are not leaving.
        self._seen: tuple[set[str], int, set[str]] = (set(), 0, set())
        kept = None if self._note else lease.kept(_KEPT)
        if kept is not None:  # of a process before this one
            self._asked, self._configured = int(kept[0]), int(kept[1])
            self._says = True
            self._taken = False  # it may have ended before it was told so: asking twice is no harm

    def _why_not(self, conf: Any, kind: str) -> str:
        if self.local:
            return "a local master has no executors to ask for: set another --master"
        for key in _DYNAMIC:
            if _is_true(conf.get(key, "false")):
                return (
                    f"{key} is on: Spark asks for executors itself; set it to false to let Weir ask"
                )
        if not kind.startswith(_KNOWN):
            return "a cluster manager that Weir does not know: it may lose what executors hold"
        # Its quota does not see a pod that comes later: what others were promised is taken.
        admitted = any(str(conf.get(label, "")).strip() for label in _ADMITTED)
        if "Kubernetes" in kind and admitted:
            return "Kueue has admitted this job with a fixed number of executors"
        # A StatefulSet or a Deployment that is made smaller ends pods at once, whatever they do.
        allocator = str(conf.get(_ALLOCATOR, "direct"))
        if "Kubernetes" in kind and allocator != "direct":
            return (
                f"{_ALLOCATOR} is {allocator}: fewer would end executors that work; "
                "leave it direct to let Weir ask"
            )
        # Of pods made in all its life (SPARK-53907): those that come in place of lost ones, too.
        if "Kubernetes" in kind and str(conf.get(_MOST_PODS, "")).strip():
            return (
                f"{_MOST_PODS} is set: executors that come and go use up the pods that the job may "
                "make in all its life; leave it unset to let Weir ask"
            )
        counted = any(one in kind for one in _COUNT_FAILURES)
        if counted and not any(str(conf.get(key, "")).strip() for key in _MOST_FAILURES):
            return (
                f"{_MOST_FAILURES[0]} is not set: Spark would end the job when executors fail more "
                "often than its own few may; set it to let Weir ask"
            )
        return ""

    def standing(self) -> Standing:
        """As it is now."""
        present, slots = self.present(), self.slots()
        for _ in range(_LOOKS):
            if (again := self.present()) == present:
                break
            present, slots = again, self.slots()  # one came or went in between
        told: Standing = {"present": present, "slots": slots}
        if self._note:
            told["note"] = self._note
        else:
            configured = self._own_number(told["present"])
            if self._says or self._clock() - self._came >= _COMING_SECONDS:
                told["configured"] = configured
        if self._asked is not None:
            told["asked"] = self._asked
        return told

    def present(self) -> int:
        """Executors that run tasks; 0 where the driver runs them itself."""
        return 0 if self.local else len(self._ids())

    def _ids(self) -> list[str]:
        """The oldest first, without those that are leaving, whoever sends them away.

        An executor that is being decommissioned, as its machine goes, or that was released stays
        registered for a while, without slots. Each is asked about only when executors or slots are
        others than before: one that is leaving does not come back.
        """
        found, slots = _texts(self._context.getExecutorIds()), self.slots()
        if self._seen[:2] != (found, slots):
            active = {name for name in found if self._backend.isExecutorActive(name)}
            self._seen = found, slots, active
        return sorted(self._seen[2], key=_age)

    def slots(self) -> int:
        """Tasks that can run at once, all executors together."""
        return int(self._context.maxNumConcurrentTasks(self._profile))

    def ask(self, wanted: int | None) -> None:
        """Asks for so many, and releases those beyond it that can go now.

        None goes back to the number that there was before the first word of ours. Raises
        RuntimeError where the cluster does not take the number.
        """
        if self._note or (wanted is None and self._asked is None) or self._lease.taken:
            return
        configured = self._own_number(self.present())
        total = configured if wanted is None else wanted
        freed = wanted is None and self._standalone
        new = freed or total != self._asked or not self._taken
        # A cluster manager that was restarted, as YARN's ApplicationMaster or a standalone Master,
        # has forgotten it, and gives what the job began with, or all that it has.
        waited = self._clock() - self._sent >= _COMING_SECONDS
        if new or (waited and self.present() != total):
            before = self._asked, self._taken
            # First: a call that ends without an answer may have been heard all the same, and what
            # comes of it is not the job's own number.
            self._asked, self._taken, self._sent = total, False, self._clock()
            if new:
                self._moved = self._sent
            self._keep(configured)
            nowhere = self._gateway.jvm.scala.collection.immutable.HashMap()
            if not self._context.requestTotalExecutors(_NO_LIMIT if freed else total, 0, nowhere):
                self._asked, self._taken = before
                self._keep(configured)
                raise RuntimeError(f"the cluster manager did not take a number of {total}")
            self._taken = True
        if self.present() > total:
            self._moved = self._clock()
        if not freed:  # else whatever is there the job would have without us
            self._release(total)
        # One that was launched for us may register when all are back: it would count as the job's.
        if freed or (wanted is None and self._clock() - self._moved >= _LATE_SECONDS):
            self._asked = None
            self._keep(configured)

    def _keep(self, configured: int) -> None:
        """Lets a process after this one know what was asked for, and what there was before."""
        if self._asked is None:
            self._lease.forget(_KEPT)
            return
        kept = self._gateway.new_array(self._gateway.jvm.int, 2)
        kept[0], kept[1] = self._asked, configured
        self._lease.keep(_KEPT, kept)

    def _own_number(self, present: int) -> int:
        """What the job has without us: as it configures, or more where its cluster gives more."""
        if self._asked is None and present > self._configured:
            self._configured, self._came = present, self._clock()
        return self._configured

    def _holding(self) -> set[str]:
        """Executors on which data lies that the job keeps: it may have it nowhere else.

        A frame that was checkpointed locally ends the query that reads it without them, and a
        cached one may not be the same when it is made again. Spark's own dynamic allocation keeps
        such executors as well (spark.dynamicAllocation.cachedExecutorIdleTimeout).
        """
        if self._context.getPersistentRDDs().isEmpty():
            return set()
        told = self._context.env().blockManager().master().getStorageStatus()
        return {
            str(one.blockManagerId().executorId()) for one in told if not one.rddBlocks().isEmpty()
        }

    def _job_runs(self) -> bool:
        """By the scheduler's word, or the status store's where a platform hides the scheduler.

        The store hears of jobs from a queue of events that lags, and that drops events when it is
        full: one whose end was dropped runs for ever there.
        """
        from py4j.protocol import Py4JError

        try:  # DAGScheduler.activeJobs, as it is in Spark 3.5 to 4.3
            return not self._context.dagScheduler().activeJobs().isEmpty()
        except Py4JError:
            return bool(len(self._context.statusTracker().getActiveJobIds()))

    def _release(self, total: int) -> None:
        # The newest go first: what the oldest hold of the queries' state is the most.
        spare = self._ids()[total:]
        # A job that runs may read what its earlier stages left on an executor that has long had no
        # task. Which executors these are Spark's dynamic allocation alone keeps track of (its
        # ExecutorMonitor); to be seen without a task, however often, does not tell.
        if not spare or self._job_runs():
            return
        tasks = self._context.taskScheduler()  # some of a job that was cancelled may run still
        spare = [name for name in spare if not tasks.isExecutorBusy(name)]
        if spare:
            held = self._holding()
            spare = [name for name in spare if name not in held]
        if not spare:
            return
        jvm = self._gateway.jvm
        if self._decommissions:
            info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
                "Weir wants fewer executors", jvm.scala.Option.empty()
            )
            pairs = self._gateway.new_array(jvm.scala.Tuple2, len(spare))
            for index, name in enumerate(spare):
                pairs[index] = jvm.scala.Tuple2(name, info)
            self._backend.decommissionExecutors(pairs, False, False)
            return
        names = jvm.java.util.ArrayList()
        for name in spare:
            names.add(name)
        # Spark's own way, whichever Scala it is built for.
        listed = jvm.org.apache.spark.api.python.PythonUtils.toSeq(names)
        # The total was lowered above; one that runs a task is not killed, but asked again later.
        self._backend.killExecutors(listed, False, False, False)


def _is_true(value: Any) -> bool:
    """As Spark reads a setting: ``SparkConf().set(…, True)`` holds ``True``."""
    return str(value).strip().lower() == "true"


def _texts(names: Any) -> set[str]:
    """Of a Scala collection of executors' names, in one call: there may be hundreds."""
    return set(filter(None, str(names.mkString(",")).split(",")))


def _age(name: str) -> tuple[int, str]:
    """The oldest first: executors are numbered as they come."""
    return (int(name), name) if name.isdecimal() else (0, name)
