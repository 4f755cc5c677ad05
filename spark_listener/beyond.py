"""Weir beside a driver: ``python -m spark_listener.beyond DOOR``, a process of its own per driver.

It goes through the plugin's door and does there what ``attach`` does in a driver's own Python, for
all sessions of the application. The agent starts one for each door that it finds. It ends by itself
when Spark does, when the driver attaches itself, and when the agent is gone, which closes its
standard input; what it leaves in the JVM then is the plugin's to undo.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_listener.application import conf_of, made
from spark_listener.complaints import LOGGER, Complaints
from spark_listener.config import ConfigurationError, resolve
from spark_listener.door import Door, NoDoor, Occupied, drivers_own
from spark_listener.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_listener.config import Settings

#: The plugin takes a process for stuck that has not said for ten seconds that it is there.
STAY_SECONDS: Final = 0.5
#: The first session is used with the job's first lines, and its first query comes soon after.
FIRST_SECONDS: Final = 0.05

_TOLD_SECONDS: Final = 3.0

#: What Spark's word for a running query says of it; a name that says the like leads nowhere.
_RUNS: Final = re.compile(r"\[id = ([0-9a-f-]{36}), runId = ([0-9a-f-]{36})\]")

#: How it ends: what it was there for is over; there is nothing to do; the door was closed behind
#: it while Spark goes on; not to be tried again while the door stays the same.
DONE, OFF, LOST, REFUSED = 0, 10, 11, 12


class Watch:
    """The sessions of one application, found as they come."""

    def __init__(self, door: Door, arguments: dict[str, Any]) -> None:
        self._door = door
        self._arguments = arguments
        self._environment: dict[str, str] = {}  # the driver's
        self._complaints = Complaints()
        self._driver: Driver | None = None
        self._in = False
        self._ended = threading.Event()
        self._default: Any = None  # Java: the default session, while it is still to be watched
        self._queries: Any = None  # Java: by id, those that run, of all sessions
        self._seen = ""
        self._tidied = False
        self._looked_at: set[tuple[str, str]] = set()
        self._looked = False  # once: a query that is met later has begun since

    def run(self) -> int:
        """Until it is over; gives the exit code.

        Raises ConfigurationError and Occupied, and whatever was raised before it was in.
        """
        while not self._ended.is_set():
            try:
                if self._in and self._door.stay() != "open":
                    break
                self._look()
            except (ConfigurationError, Occupied):
                raise
            except Exception as error:
                if self._door.stopped():
                    self._ended.wait(_TOLD_SECONDS)  # the observer sees it too, and tells
                    break
                if not self._door.open:
                    return LOST
                if not self._in:
                    raise
                self._complaints.error("looking for sessions", error)
            self._ended.wait(STAY_SECONDS if self._driver is not None else FIRST_SECONDS)
        driver = self._driver
        if driver is None:
            return DONE
        if self._ended.is_set() or self._door.stopped():
            driver.close(ending=True)
            return DONE
        driver.unwatch(driver.sessions)
        driver.close(ending=False)
        return DONE

    def _look(self) -> None:
        if self._driver is None:
            session = self._door.default_session()
            if session is None or not self._begin(session):
                self._looked = True  # and none ran
                return
        self._look_at_queries()
        driver = self._driver
        if driver is not None and self._default is not None:
            if driver.session(self._default) is None:  # nor met by a query of its own
                driver.watch(self._default, control=driver.settings.control, whole=self._looked)
            self._default = None
        self._looked = self._looked or bool(self._seen)

    def _look_at_queries(self) -> None:
        told = str(self._queries.toString())
        if told == self._seen:
            return
        # By run: a query that starts again in another session has the id that it had before.
        present = set(_RUNS.findall(told))
        if not self._tidied and self._door.lease is not None:
            self._tidied = True
            self._door.lease.only({run_id for _, run_id in present})
        failed = {one for one in present - self._looked_at if not self._meet(one[0])}
        self._looked_at = present - failed
        self._seen = "" if failed else told

    def _begin(self, session: Any) -> bool:
        """With the default session, once the job has used it; false where that is to come.

        It may never do so: Spark Connect uses sessions beside it.
        """
        used = made(session, "sessionState")
        if not used and not made(session, "sharedState"):
            return False
        queries = session.sharedState().activeStreamingQueries()
        if not used and queries.isEmpty():
            return False
        # While Spark stops: whoever comes in then is done at once, and another one would come.
        if session.sparkContext().isStopped():
            return False
        self._environment = self._door.environment()
        settings = self._settings(conf_of(session, own=used))
        if not settings.enabled:
            raise ConfigurationError("enabled is false")
        # Not before: behind one who was in the plugin opens another door, to be tried anew.
        if not self._in:
            self._door.enter()
            self._in = True
        self._queries = queries
        driver = Driver(
            self._door.application(session),
            settings,
            complaints=self._complaints,
            on_lost=lambda _: self._ended.set(),
            agents_own_certificate=bool(settings.ca_file),
        )
        self._driver = driver
        if used:
            self._default = session
        LOGGER.info("weir watches %s through its door", driver.application_id)
        return True

    def _settings(self, conf: dict[str, str]) -> Settings:
        return resolve(self._arguments, drivers_own(conf), self._environment)

    def _meet(self, query_id: str) -> bool:
        """A query that began: its session is watched from now on. False: to be tried again."""
        driver = self._driver
        assert driver is not None
        try:
            query = self._queries.get(self._door.gateway.jvm.java.util.UUID.fromString(query_id))
            if query is None:
                return True  # it has ended
            session = query.sparkSession()
            if driver.session(session) is None:
                self._watch(driver, session)
        except Exception as error:
            self._complaints.error("looking up a query's session", error)
            return False
        return True

    def _watch(self, driver: Driver, session: Any) -> None:
        """What was said of the session itself may refuse more than the application does."""
        try:
            settings = self._settings(conf_of(session))
        except ConfigurationError as error:
            self._complaints.warn(f"session:{error}", f"weir: a session is not watched: {error}")
            return
        if settings.enabled:
            control = driver.settings.control and settings.control
            driver.watch(session, control=control, whole=self._looked)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see the module."""
    parser = argparse.ArgumentParser(prog="python -m spark_listener.beyond")
    parser.add_argument("door", type=Path)
    parser.add_argument("--agent-url", required=True)
    parser.add_argument("--token-file", default="")
    parser.add_argument("--certificate-file", default="", help="the agent's own, to be trusted")
    given = parser.parse_args(arguments)
    told = logging.StreamHandler(sys.stderr)
    told.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    LOGGER.logger.addHandler(told)
    LOGGER.logger.setLevel(logging.INFO)
    LOGGER.logger.propagate = False
    # py4j writes tracebacks of each call through a door that closes, by the root logger too.
    logging.getLogger().setLevel(logging.CRITICAL)
    logging.getLogger("py4j").propagate = False
    threading.Thread(target=_end_with_the_agent, name="weir-agent-gone", daemon=True).start()
    try:
        door = Door(given.door)
        code = Watch(
            door,
            {
                "agent_url": given.agent_url,
                "token_file": given.token_file,
                "ca_file": given.certificate_file,
            },
        ).run()
    except FileNotFoundError:
        return DONE
    except Occupied:
        LOGGER.info("weir: another process is in at %s", given.door)
        return OFF
    except (NoDoor, ConfigurationError) as error:
        LOGGER.warning("weir: %s: %s", given.door.name, error)
        return REFUSED
    except Exception as error:
        LOGGER.warning("weir: %s does not open: %s", given.door.name, type(error).__name__)
        LOGGER.debug("weir: at the door", exc_info=error)
        return LOST
    door.close()
    return code


def _end_with_the_agent() -> None:
    """Its standard input ends with it. The plugin undoes what has to be, as after a kill."""
    while os.read(0, 4096):
        time.sleep(0)
    os._exit(DONE)


if __name__ == "__main__":
    code = main()
    # Threads that wait for the JVM, or the agent, are not waited for.
    os._exit(code)
