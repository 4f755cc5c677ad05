"""Stages and tasks of a running query, from the driver's REST API.

Only what can be said is said: REST that is off, slow, refused or half an answer gives nothing and
a reason, and never an exception. Answers are bounded in time and size; packed ones, of which a few
bytes may be gigabytes, are not asked for and not unpacked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from agent.core.decode.events import MOST_COUNT
from agent.core.judge.alignment import FEWEST_TASKS, Alignment, Task, align

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMEOUT_SECONDS: Final = 3.0
MOST_BYTES: Final = 8 * 1024 * 1024
#: Jobs looked at, newest first, and stages of each batch.
MOST_JOBS: Final = 20
MOST_STAGES: Final = 12
#: Of a stage that are read, beside its slowest one.
MOST_TASKS: Final = 2000
_NAMED_BATCH: Final = re.compile(r"batch = (\d{1,18})\b")


class Found(msgspec.Struct, frozen=True):
    """What a look at the REST API gave; ``missing`` says what could not be had, and why."""

    alignments: list[Alignment] = []
    missing: str = ""
    batch_id: int | None = None  # whose stages they are
    failed: bool = False  # nothing could be had: worth another try


TOO_LONG: Final = Found(missing="the driver's REST API took too long", failed=True)


class SparkRest:
    """One round of looks at a driver's REST API, for which its jobs are listed once.

    The list is of all its queries, and may be megabytes. ``run_id`` is a query's, which groups its
    jobs. Used by one task at a time.
    """

    def __init__(self, ui_url: str, application_id: str, client: httpx.AsyncClient) -> None:
        # Its host and port alone: behind a path of the sender's own a GET may end somebody's job.
        place = urlsplit(ui_url)
        origin = f"{place.scheme}://{place.netloc}"
        self._base = f"{origin}/api/v1/applications/{quote(application_id, safe='')}"
        self._client = client
        self._jobs: Sequence[dict[str, Any]] | None = None
        self._no_jobs: Found | None = None  # what became of listing them, where there is no list

    async def look(self, run_id: str, *, stateful: bool = False) -> Found:
        """The stages of the newest batch that the query had finished as the round began."""
        try:
            if self._no_jobs is not None:
                return self._no_jobs
            if self._jobs is None:
                self._no_jobs = TOO_LONG  # for the others, where this look is given up
                self._jobs = _objects(await self._get("/jobs?status=succeeded"))
                self._no_jobs = None
            return await self._look(self._jobs, run_id, stateful=stateful)
        except (httpx.HTTPError, msgspec.DecodeError, UnicodeDecodeError, _Unfit) as error:
            found = Found(missing=f"the driver's REST API {_trouble(error)}", failed=True)
            if self._jobs is None:
                self._no_jobs = found
            return found

    async def _look(
        self, listed: Sequence[dict[str, Any]], run_id: str, *, stateful: bool
    ) -> Found:
        jobs = [
            job
            for job in listed
            if job.get("jobGroup") == run_id and job.get("status") == "SUCCEEDED"
        ]
        jobs.sort(key=lambda job: _whole(job.get("jobId")) or 0, reverse=True)
        if not jobs:
            said = "the driver's REST API knows no finished job of this query"
            return Found(missing=said, failed=True)
        batch = _batch(jobs[0])
        wanted: list[int] = []
        for job in jobs[:MOST_JOBS]:
            if _batch(job) != batch:
                break
            ids = job.get("stageIds")
            listed_ids = ids if isinstance(ids, list) else []
            wanted += [one for one in listed_ids if _whole(one) is not None]
        alignments: list[Alignment] = []
        gone = 0
        for stage in sorted(set(wanted))[:MOST_STAGES]:
            try:
                attempts = _objects(await self._get(f"/stages/{stage}?details=false"))
            except httpx.HTTPStatusError:
                gone += 1  # skipped, or forgotten already (spark.ui.retainedStages)
                continue
            done = [one for one in attempts if one.get("status") == "COMPLETE"]
            if not done:
                continue
            number = _whole(done[-1].get("attemptId")) or 0
            place = f"/stages/{stage}/{number}/taskList"
            known = tasks(await self._get(f"{place}?length={MOST_TASKS}"))
            count = _whole(done[-1].get("numTasks")) or 0
            if count > MOST_TASKS:  # Spark lists those first that began first
                slowest = await self._get(f"{place}?length=1&sortBy=-runtime&status=success")
                known += [one for one in tasks(slowest) if one not in known]
            found = align(stage, str(done[-1].get("name", ""))[:200], known, stateful=stateful)
            if found is not None and count > MOST_TASKS:
                found = msgspec.structs.replace(found, tasks=count, input_rows=None)
            if found is not None:
                alignments.append(found)
        missing = f"{gone} stages are gone from the driver's REST API" if gone else ""
        if not alignments and not gone:
            missing = f"no stage of the batch had {FEWEST_TASKS} tasks or more to compare"
        return Found(alignments, missing, int(batch) if batch.isdecimal() else None)

    async def _get(self, path: str) -> Any:
        async with self._client.stream(
            "GET",
            self._base + path,
            headers={"accept-encoding": "identity"},
            timeout=TIMEOUT_SECONDS,
        ) as response:
            response.raise_for_status()
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise _Unfit("it is packed, which nobody asked for")
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise _Unfit(f"more than {MOST_BYTES} bytes")
        return msgspec.json.decode(bytes(body))


def _trouble(error: Exception) -> str:
    """What a driver's REST API did."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"answered {error.response.status_code}"
    if isinstance(error, httpx.HTTPError):
        return f"is out of reach: {type(error).__name__}"
    return f"gave no whole answer: {error}"


class _Unfit(Exception):  # noqa: N818
    """An answer beyond the bound, or one whose bytes do not tell how much it is."""


def tasks(listed: object) -> list[Task]:
    """Successful tasks of a stage's list; what is malformed is left out."""
    found: list[Task] = []
    for item in _objects(listed):
        partition = _whole(item.get("partitionId"))
        if partition is None:
            partition = _whole(item.get("index"))
        duration = _number(item.get("duration"))
        if partition is None or duration is None or item.get("status") != "SUCCESS":
            continue
        metrics = item.get("taskMetrics")
        rows, size, given = _read(metrics) if isinstance(metrics, dict) else (None, None, None)
        found.append(
            Task(
                partition,
                str(item.get("executorId", ""))[:100],
                str(item.get("host", ""))[:200],
                duration / 1000.0,
                rows,
                size,
                given,
            )
        )
    return found


def _read(metrics: dict[str, Any]) -> tuple[int | None, int | None, int | None]:
    """Rows and bytes that a task read, from its input and the shuffle; rows of its input alone."""
    rows: int | None = None
    size: int | None = None
    source = metrics.get("inputMetrics")
    if isinstance(source, dict):
        rows, size = _whole(source.get("recordsRead")), _whole(source.get("bytesRead"))
    given = rows
    shuffle = metrics.get("shuffleReadMetrics")
    if isinstance(shuffle, dict):
        more = _whole(shuffle.get("recordsRead"))
        rows = more if rows is None else rows + (more or 0)
        parts = [_whole(shuffle.get(key)) for key in ("localBytesRead", "remoteBytesRead")]
        if any(part is not None for part in parts):
            size = (size or 0) + sum(part or 0 for part in parts)
    return rows, size, given


def _batch(job: dict[str, Any]) -> str:
    """What tells one batch's jobs from another's: the description names the batch."""
    text = str(job.get("description", ""))
    named = _NAMED_BATCH.search(text)
    return named[1] if named else text


def _objects(value: object) -> Sequence[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and _number(value) is not None else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < MOST_COUNT else None
