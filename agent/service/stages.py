"""Stages: what batches wait for, asked of the drivers' own REST API now and then.

An address is named by a driver, and whoever may send events could name any: so only hosts that
the configuration allows are asked, ``local`` meaning this machine's own, and only while the agent
itself listens to this machine alone. One path is read, no redirect is followed, no proxy is used,
and both time and size are bounded. A driver that does not answer is asked ever less often.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import defaultdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import httpx
import msgspec
import psutil
import structlog

from agent.core.judge.alignment import AlignmentView
from agent.service.log import Rarely
from agent.sources.spark_rest import TOO_LONG, Found, SparkRest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agent.core.fleet import Fleet, Key, StagesWanted

#: The word for this machine's own addresses.
LOCAL: Final = "local"
#: A query is looked at again after so long at the earliest, where it has finished a batch since.
LOOK_SECONDS: Final = 20.0
#: After failures the pause doubles up to this.
MOST_PAUSE_SECONDS: Final = 600.0
#: Queries looked at in one round, drivers asked at once, and what one look may take.
MOST_QUERIES: Final = 32
MOST_AT_ONCE: Final = 4
LOOK_LIMIT_SECONDS: Final = 8.0
OWN_NAMES_SECONDS: Final = 300.0
_log = structlog.get_logger("stages")


class _Looked(msgspec.Struct):
    """When a query is due, and which batch was seen last."""

    due_time: float = 0.0
    batch_id: int | None = None
    failures: int = 0


class Stages:
    """Asks drivers for their stages. Times are epoch seconds of the agent's clock."""

    def __init__(
        self,
        fleet: Callable[[], Fleet],
        hosts: Sequence[str],
        *,
        own_machine_only: bool,
        clock: Callable[[], float],
        client: httpx.AsyncClient | None = None,
    ) -> None:
        """``own_machine_only``: nobody but this machine can send events, so ``local`` holds."""
        self._fleet = fleet
        self._patterns = tuple(host.lower() for host in hosts if host != LOCAL)
        self._local = LOCAL in hosts and own_machine_only
        self._clock = clock
        self._client = client
        self._looked: dict[Key, _Looked] = {}
        self._own_names: frozenset[str] = frozenset()
        self._own_names_time = -OWN_NAMES_SECONDS
        self._rarely = Rarely(600.0)

    @property
    def enabled(self) -> bool:
        """Whether any driver may be asked at all."""
        return self._local or bool(self._patterns)

    async def look(self) -> None:
        """One round: the queries that are due, the longest unseen first."""
        now = self._clock()
        wanted = self._fleet().stages_wanted()
        self._looked = {one.key: self._looked.get(one.key, _Looked()) for one in wanted}
        due = [one for one in wanted if self._is_due(one, now)]
        due.sort(key=lambda one: self._looked[one.key].due_time)
        drivers: dict[tuple[str, str], list[StagesWanted]] = defaultdict(list)
        for one in due[:MOST_QUERIES]:
            why_not = self._why_not(one.ui_url, now)
            if why_not is None and one.ui_url is not None:
                drivers[(one.ui_url, one.application_id)].append(one)
            else:
                self._tell(one, Found(missing=why_not or "", failed=True), now)
        if not drivers:
            return
        gate = asyncio.Semaphore(MOST_AT_ONCE)

        async def ask(place: tuple[str, str], queries: Iterable[StagesWanted]) -> None:
            async with gate:
                rest = SparkRest(*place, self._http())
                for one in queries:
                    found = TOO_LONG
                    with contextlib.suppress(asyncio.TimeoutError):
                        found = await asyncio.wait_for(
                            rest.look(one.run_id, stateful=one.stateful), LOOK_LIMIT_SECONDS
                        )
                    self._tell(one, found, self._clock())

        asked = (ask(place, queries) for place, queries in drivers.items())
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, Exception):
                # Whatever a driver sends: the next round goes on.
                self._rarely.warn(
                    _log.error, "a driver's stages could not be read", now, exc_info=outcome
                )

    async def close(self) -> None:
        """Ends its connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _is_due(self, one: StagesWanted, now: float) -> bool:
        seen = self._looked[one.key]
        return now >= seen.due_time and one.batch_id is not None and one.batch_id != seen.batch_id

    def _tell(self, one: StagesWanted, found: Found, now: float) -> None:
        seen = self._looked.setdefault(one.key, _Looked())
        seen.failures = min(seen.failures + 1, 16) if found.failed else 0
        pause = min(LOOK_SECONDS * 2.0 ** max(seen.failures - 1, 0), MOST_PAUSE_SECONDS)
        seen.due_time = now + pause
        seen.batch_id = None if found.failed else one.batch_id  # its stages may be had yet
        view = AlignmentView(
            batch_id=found.batch_id,
            stages=found.alignments,
            looked_time=now,
            missing=found.missing,
        )
        self._fleet().note_alignment(one.key, one.run_id, view)

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                # httpx by itself would ask certifi's list, and not the system's
                verify=ssl.create_default_context(),
                trust_env=False,
                follow_redirects=False,
            )
        return self._client

    def _why_not(self, ui_url: str | None, now: float) -> str | None:
        """Why a driver is not asked; None: it is."""
        if ui_url is None:
            return "the job's web interface, and with it its REST API, is off (spark.ui.enabled)"
        try:
            parts = urlsplit(ui_url)
            host = (parts.hostname or "").lower()
            usable = parts.scheme in ("http", "https") and bool(host) and parts.username is None
            usable = usable and (parts.port is None or parts.port > 0)
        except ValueError:
            usable = False
        if not usable:
            return "the address of the job's web interface is none that can be asked"
        if any(fnmatchcase(host, pattern) for pattern in self._patterns):
            return None
        if self._local and host in self._own(now):
            return None
        return f"stages are not asked of {host[:100]!r}: spark_ui_hosts does not allow it"

    def _own(self, now: float) -> frozenset[str]:
        """The names and addresses of this machine."""
        if now - self._own_names_time >= OWN_NAMES_SECONDS:
            names = {"localhost", "::1", socket.gethostname().lower()}
            names.update(
                address.address.lower().partition("%")[0]
                for addresses in psutil.net_if_addrs().values()
                for address in addresses
                if address.family in (socket.AF_INET, socket.AF_INET6)
            )
            self._own_names, self._own_names_time = frozenset(names), now
        return self._own_names
