"""Asking for executors: what is asked of Spark, when, and what is left alone.

Spark is played here; tests/plugin/test_executors.py asks the real one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from py4j.protocol import Py4JError

from spark_listener.executors import Executors


class Names(list[str]):
    """As Scala's collections are read."""

    def mkString(self, between: str) -> str:
        return between.join(self)


class Blocks(list[str]):
    """As Scala's collections are asked."""

    def isEmpty(self) -> bool:
        return not self


class Status(NamedTuple):
    """What an executor's block manager has told."""

    name: str
    blocks: Blocks

    def blockManagerId(self) -> Status:
        return self

    def executorId(self) -> str:
        return self.name

    def rddBlocks(self) -> Blocks:
        return self.blocks


_OF = "org.apache.spark.scheduler.cluster."


class Spark:
    """Context, backend, scheduler and status in one; two executors of two slots to begin with."""

    def __init__(self, **conf: str) -> None:
        self.conf = conf
        self.names = ["0", "1"]
        self.leaving: set[str] = set()  # registered still
        self.asked_about = 0
        self.busy: set[str] = set()
        self.jobs: list[int] = []
        self.told_jobs: list[int] | None = None  # of the status store, where it knows of others
        self.hides_jobs = False
        self.totals: list[int] = []
        self.takes = True
        self.hangs = False
        self.gone: list[list[str]] = []
        self.cached: dict[str, list[str]] = {}  # blocks by executor
        self.backend = _OF + "YarnClusterSchedulerBackend"
        self.jvm = self
        self.java = self.scala = self.util = self.org = self.apache = self.spark = self
        self.api = self.python = self.collection = self.immutable = self.PythonUtils = self

    def __getattr__(self, name: str) -> Any:
        """Whatever only gives another part of it."""
        if name in {"getConf", "schedulerBackend", "statusTracker", "taskScheduler", "getClass"} | {
            "dagScheduler",
            "resourceProfileManager",
            "defaultResourceProfile",
            "HashMap",
            "env",
            "blockManager",
            "master",
        }:
            return lambda: self
        raise AttributeError(name)

    def getName(self) -> str:
        return self.backend

    def get(self, key: str, default: str) -> str:
        return self.conf.get(key, default)

    def getExecutorIds(self) -> Names:
        return Names(self.names)

    def maxNumConcurrentTasks(self, _: Any) -> int:
        return 2 * len(set(self.names) - self.leaving)

    def isExecutorActive(self, name: str) -> bool:
        self.asked_about += 1
        return name in self.names and name not in self.leaving

    def requestTotalExecutors(self, total: int, *_: Any) -> bool:
        if self.takes:
            self.totals.append(total)
        if self.hangs:
            raise TimeoutError("spark.rpc.askTimeout")
        return self.takes

    def activeJobs(self) -> Blocks:
        if self.hides_jobs:
            raise Py4JError("activeJobs is not whitelisted")
        return Blocks(map(str, self.jobs))

    def getActiveJobIds(self) -> list[int]:
        return self.jobs if self.told_jobs is None else self.told_jobs

    def isExecutorBusy(self, name: str) -> bool:
        return name in self.busy

    def getPersistentRDDs(self) -> Blocks:
        return Blocks(block for blocks in self.cached.values() for block in blocks)

    def getStorageStatus(self) -> list[Status]:
        return [Status(name, Blocks(self.cached.get(name, []))) for name in ["driver", *self.names]]

    def new_array(self, _: Any, count: int) -> list[int]:
        return [0] * count

    int = None

    def ArrayList(self) -> Any:
        class Java(list[str]):
            add = list.append

        return Java()

    def toSeq(self, names: list[str]) -> list[str]:
        return names

    def killExecutors(self, names: list[str], *_: Any) -> Names:
        self.gone.append(list(names))
        self.leaving |= set(names)
        return Names(names)


class Lease:
    taken = False

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    def kept(self, key: str) -> Any:
        return self.held.get(key)

    def keep(self, key: str, value: Any) -> None:
        self.held[key] = value

    def forget(self, key: str) -> None:
        self.held.pop(key, None)


class Bench:
    def __init__(self, **conf: str) -> None:
        self.time, self.spark, self.lease = 100.0, Spark(**conf), Lease()
        self.spark.conf.setdefault("spark.executor.maxNumFailures", "200")
        self.executors = self.another()

    def another(self) -> Executors:
        return Executors(self.spark, self.spark, self.lease, clock=lambda: self.time)  # type: ignore[arg-type]


def test_how_many_a_job_has_is_told_at_once_where_it_says_so_else_when_no_more_come() -> None:
    says = Bench(**{"spark.executor.instances": "6"})
    assert says.executors.standing() == {"present": 2, "slots": 4, "configured": 6}
    silent = Bench()
    assert silent.executors.standing() == {"present": 2, "slots": 4}
    silent.time += 20
    silent.spark.names.append("2")
    assert silent.executors.standing() == {"present": 3, "slots": 6}
    silent.time += 29
    assert "configured" not in silent.executors.standing()
    silent.time += 1
    assert silent.executors.standing() == {"present": 3, "slots": 6, "configured": 3}


def test_those_beyond_the_number_go_newest_first_once_no_job_runs() -> None:
    bench = Bench()
    bench.spark.names = ["0", "1", "2", "3"]
    bench.spark.jobs = [7]
    bench.executors.ask(2)
    assert bench.spark.totals == [2]
    assert bench.spark.gone == []
    bench.time += 30
    bench.spark.jobs = []
    bench.executors.ask(2)
    assert bench.spark.gone == [["2", "3"]]
    assert bench.executors.present() == 2
    bench.time += 30
    bench.executors.ask(2)
    assert bench.spark.totals == [2, 2], "once more while others are there than were asked for"


@pytest.mark.parametrize(("wanted", "there"), [(5, 2), (1, 2)])
def test_a_cluster_manager_that_forgot_what_was_asked_for_is_asked_again(
    wanted: int, there: int
) -> None:
    """As YARN's ApplicationMaster and a standalone Master do, when they are restarted."""
    bench = Bench(**{"spark.executor.instances": "2"})
    bench.spark.jobs = [7]  # so none is sent away meanwhile
    bench.executors.ask(wanted)
    bench.spark.names = [str(number) for number in range(wanted)]
    bench.time += 3600
    bench.executors.ask(wanted)
    assert bench.spark.totals == [wanted], "it has what was asked for"
    bench.spark.names = [str(10 + number) for number in range(there)]
    bench.executors.ask(wanted)
    bench.time += 29
    bench.executors.ask(wanted)
    assert bench.spark.totals == [wanted] * 2, "not with each heartbeat: they may be on their way"
    bench.time += 1
    bench.executors.ask(wanted)
    assert bench.spark.totals == [wanted] * 3
    # For how long late ones are looked out for begins with no such word.
    bench.spark.names = ["20", "21"]
    bench.executors.ask(None)
    bench.time += 600
    bench.executors.ask(None)
    assert "asked" not in bench.executors.standing()


def test_while_a_job_runs_none_goes_however_long_it_has_no_task() -> None:
    """What its wide stage left on them the narrow one after it may be reading still."""
    bench = Bench()
    bench.spark.names = ["0", "1", "2", "3"]
    bench.spark.jobs, bench.spark.busy = [7], {"0"}
    for _ in range(720):
        bench.executors.ask(2)
        bench.time += 5
    assert bench.spark.gone == []
    bench.spark.jobs = []
    bench.executors.ask(2)
    assert bench.spark.gone == [["2", "3"]]


def test_that_no_look_finds_a_task_does_not_tell_that_there_was_none() -> None:
    """Batches of ten seconds, two of them on all executors, beside another query's long job."""
    bench = Bench()
    bench.spark.names = ["0", "1", "2", "3"]
    for second in range(300):
        bench.spark.jobs = [7, 100 + second // 10]
        bench.spark.busy = set(bench.spark.names if second % 10 < 2 else ["0"])
        if second % 5 == 3:
            bench.executors.ask(2)
        bench.time += 1
    assert bench.spark.gone == []


def test_what_the_status_store_has_not_heard_of_does_not_count() -> None:
    """Its queue of events is late, and one that is full drops the end of a job for good."""
    bench = Bench()
    bench.spark.names = ["0", "1", "2", "3"]
    bench.spark.jobs, bench.spark.told_jobs = [7], []
    bench.executors.ask(2)
    assert bench.spark.gone == []
    bench.spark.jobs, bench.spark.told_jobs = [], [7]
    bench.executors.ask(2)
    assert bench.spark.gone == [["2", "3"]]


def test_where_the_scheduler_does_not_say_what_runs_the_status_store_does() -> None:
    bench = Bench()
    bench.spark.names, bench.spark.hides_jobs = ["0", "1", "2", "3"], True
    bench.spark.jobs = [7]
    bench.executors.ask(2)
    assert bench.spark.gone == []
    bench.spark.jobs = []
    bench.executors.ask(2)
    assert bench.spark.gone == [["2", "3"]]


def test_a_task_of_a_cancelled_job_keeps_its_executor() -> None:
    bench = Bench()
    bench.spark.names, bench.spark.busy = ["0", "1", "2", "3"], {"3"}
    bench.executors.ask(2)
    assert bench.spark.gone == [["2"]]


def test_none_of_those_that_work_is_decommissioned() -> None:
    bench = Bench(**{"spark.decommission.enabled": "TRUE"})
    told: list[list[Any]] = []

    class Scheduler:
        def ExecutorDecommissionInfo(self, *_: Any) -> str:
            return "why"

    class Option:
        def empty(self) -> None:
            return None

    bench.spark.scheduler, bench.spark.Option = Scheduler(), Option()  # type: ignore[attr-defined]
    bench.spark.Tuple2 = lambda name, info: (name, info)  # type: ignore[attr-defined]
    bench.spark.decommissionExecutors = (  # type: ignore[attr-defined]
        lambda pairs, *_: told.append(pairs) or Names(name for name, _ in pairs)
    )
    bench.spark.names, bench.spark.busy = ["0", "1", "2"], {"1"}
    bench.executors.ask(1)
    assert told == [[("2", "why")]]


def test_going_back_is_to_the_number_before_the_first_word_also_for_who_comes_after() -> None:
    bench = Bench()
    bench.executors.ask(5)
    bench.spark.names += ["2", "3", "4"]
    after = bench.another()
    assert after.standing() == {"present": 5, "slots": 10, "configured": 2, "asked": 5}
    after.ask(None)
    assert bench.spark.totals == [5, 2]
    assert bench.spark.gone == [["2", "3", "4"]]
    bench.time += 600
    after.ask(None)
    assert "asked" not in after.standing()
    assert bench.lease.held == {}


def test_those_that_come_after_the_number_went_back_are_not_the_jobs_own() -> None:
    """Launched before it did, and minutes on their way, as a lower number stops none of them."""
    bench = Bench(**{"spark.executor.instances": "2"})
    bench.executors.ask(5)
    bench.time += 4
    bench.executors.ask(None)
    bench.time += 500
    bench.spark.names += ["2", "3"]
    assert bench.executors.standing() == {"present": 4, "slots": 8, "configured": 2, "asked": 2}
    bench.spark.jobs = [7]
    bench.executors.ask(None)
    assert bench.spark.gone == []
    bench.time += 3600
    bench.executors.ask(None)
    bench.spark.jobs = []
    after = bench.another()
    after.ask(None)
    assert bench.spark.gone == [["2", "3"]]
    bench.time += 500  # after the last that was too many
    bench.spark.names += ["4"]
    after.ask(None)
    assert bench.spark.gone[1:] == [["4"]]
    bench.time += 500
    after.ask(None)
    assert after.standing()["asked"] == 2
    bench.time += 100
    after.ask(None)
    assert after.standing() == {"present": 2, "slots": 4, "configured": 2}
    assert bench.lease.held == {}
    assert set(bench.spark.totals[1:]) == {2}


def test_a_standalone_cluster_gives_again_what_it_would_have_given() -> None:
    """A number would hold the application for good, whatever Workers come; it had none."""
    bench = Bench()
    bench.spark.backend = "org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend"
    executors = bench.another()
    executors.ask(3)
    bench.spark.names.append("2")
    executors.ask(2)  # the job's own number, and still a word of ours
    bench.spark.hangs = True
    with pytest.raises(TimeoutError):
        executors.ask(None)
    assert executors.standing()["asked"] == 2
    bench.spark.hangs = False
    executors.ask(None)
    assert bench.spark.totals == [3, 2, 2**31 - 1, 2**31 - 1]
    assert "asked" not in executors.standing()
    assert bench.lease.held == {}
    bench.spark.names += ["3", "4"]  # Workers come
    executors.ask(None)
    assert bench.spark.totals[4:] == []
    assert bench.spark.gone == [["2"]], "none but what was beyond our own word"
    assert executors.standing()["present"] == 4


def test_a_cluster_that_does_not_take_the_number_is_told_of() -> None:
    bench = Bench()
    bench.spark.takes = False
    with pytest.raises(RuntimeError, match="did not take a number of 5"):
        bench.executors.ask(5)
    assert "asked" not in bench.executors.standing()


def test_a_request_without_an_answer_may_have_been_heard() -> None:
    """Then what comes of it is not the job's own number, to which all goes back in the end."""
    bench = Bench()
    bench.spark.hangs = True
    with pytest.raises(TimeoutError):
        bench.executors.ask(5)
    bench.spark.names += ["2", "3", "4"]  # on waking the cluster manager does as it was told
    bench.time += 60.0
    assert bench.executors.standing() == {"present": 5, "slots": 10, "configured": 2, "asked": 5}
    after = bench.another()
    bench.spark.hangs = False
    bench.executors.ask(5)
    assert bench.spark.totals == [5, 5], "it is asked again until it is said to be taken"
    bench.executors.ask(5)
    assert bench.spark.totals == [5, 5]
    after.ask(None)
    assert bench.spark.totals[-1] == 2
    assert bench.spark.gone == [["2", "3", "4"]]


@pytest.mark.parametrize("wanted", [5, 1])
def test_who_comes_after_asks_again_for_what_nobody_may_have_heard(wanted: int) -> None:
    bench = Bench()
    bench.spark.hangs, bench.spark.takes = True, False
    with pytest.raises(TimeoutError):
        bench.executors.ask(wanted)
    bench.spark.hangs, bench.spark.takes = False, True
    after = bench.another()
    assert after.standing()["asked"] == wanted
    after.ask(wanted)
    assert bench.spark.totals == [wanted]
    after.ask(wanted)
    assert bench.spark.totals == [wanted]


def test_a_number_that_is_not_taken_leaves_the_one_before() -> None:
    bench = Bench()
    bench.executors.ask(3)
    bench.spark.takes = False
    with pytest.raises(RuntimeError, match="did not take"):
        bench.executors.ask(9)
    assert bench.executors.standing()["asked"] == 3
    assert bench.another().standing()["asked"] == 3


@pytest.mark.parametrize("value", ["true", "True", " TRUE "])
def test_where_spark_asks_itself_that_is_said_and_what_to_set(value: str) -> None:
    bench = Bench(**{"spark.dynamicAllocation.enabled": value})
    note = bench.executors.standing()["note"]
    assert note.startswith("spark.dynamicAllocation.enabled is on")
    assert "set it to false" in note
    bench.executors.ask(5)
    assert bench.spark.totals == []


@pytest.mark.parametrize(
    "backend",
    [
        "k8s.KubernetesClusterSchedulerBackend",
        "YarnClusterSchedulerBackend",
        "YarnClientSchedulerBackend",
    ],
)
def test_where_failed_executors_end_the_job_none_is_asked_for_until_it_says_how_many_may(
    backend: str,
) -> None:
    """Refused pods count, too: ten above a quota would end a job of two executors."""
    bench = Bench()
    bench.spark.backend, bench.spark.conf = _OF + backend, {"spark.executor.instances": "2"}
    executors = bench.another()
    note = executors.standing()["note"]
    assert note.startswith("spark.executor.maxNumFailures is not set")
    assert "set it to let Weir ask" in note
    executors.ask(10)
    assert bench.spark.totals == []
    for name in ("spark.executor.maxNumFailures", "spark.yarn.max.executor.failures"):
        bench.spark.conf = {name: "200"}
        executors = bench.another()
        assert "note" not in executors.standing()
        executors.ask(10)
    assert bench.spark.totals == [10, 10]


@pytest.mark.parametrize(
    "backend",
    [
        _OF + "raydp.RayCoarseGrainedSchedulerBackend",
        _OF + "mesos.MesosCoarseGrainedSchedulerBackend",
        "com.example.YarnBackend",
    ],
)
def test_of_a_cluster_manager_that_nobody_knows_none_is_asked_for(backend: str) -> None:
    """RayDP takes any number and makes none; an executor of its own that goes takes data along."""
    bench = Bench(**{"spark.executor.instances": "2"})
    bench.spark.backend = backend
    executors = bench.another()
    assert executors.standing()["note"].startswith("a cluster manager that Weir does not know")
    for wanted in (10, 1, None):
        executors.ask(wanted)
    assert (bench.spark.totals, bench.spark.gone) == ([], [])


@pytest.mark.parametrize(
    "label",
    ["driver.label./podset", "driver.label./pod-group-name", "executor.label./pod-group-name"],
)
def test_the_number_that_kueue_has_admitted_is_left(label: str) -> None:
    label = label.replace("/", "kueue.x-k8s.io/")
    bench = Bench(**{f"spark.kubernetes.{label}": "shop"})
    bench.spark.backend = _OF + "k8s.KubernetesClusterSchedulerBackend"
    executors = bench.another()
    note = "Kueue has admitted this job with a fixed number of executors"
    assert executors.standing()["note"] == note
    for wanted in (10, 1, None):
        executors.ask(wanted)
    assert (bench.spark.totals, bench.spark.gone) == ([], [])


def test_pods_that_a_job_may_make_in_all_its_life_are_left_to_it() -> None:
    conf = {"spark.executor.maxNumFailures": "200", "spark.kubernetes.allocation.maximum": "100"}
    bench = Bench(**conf)
    bench.spark.backend = _OF + "k8s.KubernetesClusterSchedulerBackend"
    executors = bench.another()
    assert "leave it unset to let Weir ask" in executors.standing()["note"]
    executors.ask(10)
    assert bench.spark.totals == []


@pytest.mark.parametrize("allocator", ["statefulset", "deployment", "com.example.Allocator"])
def test_no_set_of_pods_is_made_smaller_as_that_ends_some_at_once(allocator: str) -> None:
    bench = Bench(**{"spark.executor.maxNumFailures": "200"})
    bench.spark.backend = _OF + "k8s.KubernetesClusterSchedulerBackend"
    bench.spark.conf["spark.kubernetes.allocation.pods.allocator"] = allocator
    executors = bench.another()
    note = executors.standing()["note"]
    assert f"allocator is {allocator}" in note
    assert "leave it direct" in note
    executors.ask(1)
    assert bench.spark.totals == []
    bench.spark.conf["spark.kubernetes.allocation.pods.allocator"] = "direct"
    assert "note" not in bench.another().standing()


def test_an_executor_that_holds_what_the_job_has_cached_is_kept() -> None:
    """A frame checkpointed locally would be lost with it, and with that the query."""
    bench = Bench(**{"spark.executor.instances": "2"})
    bench.spark.names = ["0", "1", "2", "3"]
    bench.spark.cached = {"2": ["rdd_7_0"]}
    bench.executors.ask(2)
    assert bench.spark.gone == [["3"]]
    bench.spark.names.remove("3")
    bench.executors.ask(2)
    assert bench.spark.gone == [["3"]]
    bench.spark.cached = {}
    bench.executors.ask(2)
    assert bench.spark.gone == [["3"], ["2"]]


def test_those_that_spark_sends_away_itself_are_there_no_more() -> None:
    """Machines go, theirs with them, and others come: these are not what is too many."""
    bench = Bench(**{"spark.executor.instances": "8"})
    bench.spark.names = [str(number) for number in range(8)]
    bench.executors.ask(8)
    bench.spark.leaving = {"0", "1", "2", "3"}
    standing = bench.executors.standing()
    assert (standing["present"], standing["slots"]) == (4, 8)
    bench.spark.names += ["8", "9", "10", "11"]
    bench.executors.ask(8)
    assert bench.spark.gone == []
    standing = bench.executors.standing()
    assert (standing["present"], standing["configured"]) == (8, 8)


def test_those_that_come_for_others_that_go_are_not_more_of_the_jobs_own() -> None:
    bench = Bench()
    assert bench.executors.standing()["present"] == 2
    bench.spark.leaving = {"0"}
    bench.spark.names.append("2")
    bench.time += 60.0
    assert bench.executors.standing() == {"present": 2, "slots": 4, "configured": 2}


def test_whether_each_is_leaving_is_asked_when_something_changes() -> None:
    """There may be hundreds, and a heartbeat every few seconds."""
    bench = Bench()
    bench.spark.names = [str(number) for number in range(300)]
    for _ in range(100):
        bench.executors.standing()
    assert bench.spark.asked_about == 300
    bench.spark.leaving = {"7"}
    assert bench.executors.standing()["present"] == 299
