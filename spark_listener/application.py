"""A Spark application as the driver side needs it, wherever that runs.

It runs in the driver's own Python (``of_session``), or in a process of its own beyond the plugin's
door (``door``). What differs is how the JVM is reached, and what becomes of what was put into it
when this process ends: in the driver both end together; beyond the door the JVM goes on.
"""

from __future__ import annotations

import copy
import functools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from spark_listener.config import CONF_PREFIX
from spark_listener.handlers import errors_of_ours_suppressed
from spark_listener.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Callable


#: How the names of all threads of ours begin.
THREADS: Final = "weir-"


@dataclass
class Application:
    """One ``SparkContext``."""

    gateway: Any  # py4j's, into the driver's JVM
    id: str
    name: str
    spark_version: str
    stopped: Callable[[], bool]  # the context is, or its JVM is gone; raises nothing
    lease: Lease = field(default_factory=Lease)
    #: This process is none of the driver's: it goes through the plugin's door.
    beyond: bool = False
    #: Where it is stopped, whether its JVM went before Spark could stop; raises nothing.
    killed: Callable[[], bool] = lambda: False
    #: Lets go of connections of ours, where they are no one else's; raises what a handler of
    #: the job's does.
    close: Callable[[], None] | None = None


def gateway_of(context: Any) -> Any:
    """A gateway into a PySpark context's JVM that takes no connection of the job's.

    Each connection is a thread of the JVM's, which knows the scheduler pool, the job group and the
    active session. Pinned threads have one each. Without ``PYSPARK_PIN_THREAD`` all threads take
    from one heap of them: then ours are of a client of their own.
    """
    from py4j.clientserver import ClientServer
    from py4j.java_gateway import JavaGateway

    given = context._gateway
    if isinstance(given, ClientServer):
        return given
    # As its client has them: one that was made from a client has others of its own.
    parameters = copy.copy(given._gateway_client.gateway_parameters)
    parameters.auto_convert, parameters.eager_load = True, False
    return JavaGateway(gateway_parameters=parameters)


def _collect_by_ours(jobs: Any, ours: Any) -> Callable[[], None]:
    """Has the job's garbage that Python collects in a thread of ours let go by our connections.

    The JVM knows an object by its number, whichever connection names it. ``jobs``, ``ours``: py4j's
    clients. What it gives undoes it, but for what an application that came after put in its place.
    """
    # What the job itself put there, if it did: not what an application before this one put over
    # that, or they would pile up.
    before = vars(jobs).get("garbage_collect_object")
    jobs_own = getattr(before, "weir_jobs_own", before)
    by_jobs = jobs_own or functools.partial(type(jobs).garbage_collect_object, jobs)

    def collect(*arguments: Any) -> None:
        here = threading.current_thread().name.startswith(THREADS)
        (ours.garbage_collect_object if here else by_jobs)(*arguments)

    def undo() -> None:
        if vars(jobs).get("garbage_collect_object") is not collect:
            return
        if jobs_own is None:
            del jobs.garbage_collect_object
        else:
            jobs.garbage_collect_object = jobs_own

    vars(collect)["weir_jobs_own"] = jobs_own
    jobs.garbage_collect_object = collect
    return undo


def of_session(spark: Any, gateway: Any) -> Application:
    """The application of a PySpark session, in its own process, by ``gateway_of`` its context.

    Raises what py4j raises; then there is nothing to let go of.
    """
    context = spark.sparkContext
    found = Application(
        gateway,
        str(context.applicationId),
        # Python's own word of it is another one where it came to an application that was there.
        str(context._jsc.sc().appName()),
        str(context.version),
        stopped=lambda: context._jsc is None,
    )
    if gateway is not context._gateway:
        undo = _collect_by_ours(context._gateway._gateway_client, gateway._gateway_client)

        def let_go() -> None:
            undo()
            with errors_of_ours_suppressed():
                gateway.close(keep_callback_server=True)  # there is none

        found.close = let_go
    return found


def made(java_session: Any, name: Literal["sharedState", "sessionState"]) -> bool:
    """Whether the job has made one of the two values that a session makes when first asked.

    Spark copies the Hadoop configuration of the context then, and takes up extensions: who asks
    before the job does has it run with what it had not said yet. So their fields are looked at,
    which are those of Spark 3.5 to 4.3; where there is none, True. Raises what py4j raises of a
    connection.
    """
    from py4j.protocol import Py4JJavaError

    try:
        field = java_session.getClass().getDeclaredField(name)
        field.setAccessible(True)
        return field.get(java_session) is not None
    except Py4JJavaError:
        return True


def conf_of(java_session: Any, *, own: bool = True) -> dict[str, str]:
    """``spark.weir.*`` of the application and, over it where ``own``, of the session."""
    found = {}
    for pair in java_session.sparkContext().getConf().getAllWithPrefix(CONF_PREFIX):
        found[CONF_PREFIX + str(pair._1())] = str(pair._2())
    if not own:
        return found
    settings = java_session.sessionState().conf().getAllConfs()
    iterator = settings.keysIterator()
    while iterator.hasNext():
        key = str(iterator.next())
        if key.startswith(CONF_PREFIX):
            found[key] = str(settings.apply(key))
    return found
